#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The tracepoints of sheaves and barns, events/slab_sheaf of tracefs: each is made happen,
# to a cache of a module that nobody else uses, and must tell what the counters in
# /sys/kernel/slab do.

. "$(dirname "$0")/functions.sh"
. "$DIR/trace.sh"

MODULE=test_slab_cached
PARAMS=/sys/module/$MODULE/parameters
CACHE=test_slab_cached
OBJECTS=1000
NODES=/sys/devices/system/node
declare -A BEFORE

cleanup() {
	let_sizes_go
	[ ! -d "/sys/module/$MODULE" ] || rmmod "$MODULE"
	[ -z "$TRACE" ] || [ ! -d "$TRACE" ] || rmdir "$TRACE"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# An instance of our own.
events_begin() {
	[ -d $TRACEFS/events ] || mount -t tracefs none $TRACEFS 2>/dev/null
	[ -d $TRACEFS/instances ] || skip_all "no tracefs"
	[ -d $TRACEFS/events/slab_sheaf ] || skip_all "no sheaves"
	TRACE=$TRACEFS/instances/slab_events.$$
	mkdir "$TRACE" || ktap_exit_fail_msg "cannot make $TRACE"
	echo 0 >"$TRACE/tracing_on"
	echo 4096 >"$TRACE/buffer_size_kb"
	echo 1 >"$TRACE/events/slab_sheaf/enable"
}

# told EVENT [FIELD]: how often it was told of the cache, or the sum of that field, in VALUE;
# the first line in LINE.
told() {
	local lines

	lines=$(grep -E " $1: name=$CACHE( |\$)" "$TRACE/trace")
	LINE=${lines%%$'\n'*}
	if [ $# -eq 1 ]; then
		VALUE=$(grep -c . <<<"$lines")
	else
		VALUE=$(grep -oE " $2=[0-9]+" <<<"$lines" |
			awk -F= '{ n += $2 } END { print n + 0 }')
	fi
}

# Counters before, and the trace anew.
begin() {
	local name

	for name in sheaf_refill sheaf_flush barn_get barn_get_fail barn_put barn_put_fail; do
		total $CACHE $name
		BEFORE[$name]=$VALUE
	done
	trace_on
}

# as_counted COUNTER EVENT [FIELD]: the event tells, once at least, what is counted.
as_counted() {
	local counted

	total $CACHE "$1"
	counted=$((VALUE - BEFORE[$1]))
	told "${@:2}"
	[ "$VALUE" -gt 0 ] && [ "$VALUE" -eq "$counted" ] && return
	msg "${*:2} is $VALUE, $1 $counted: $LINE"
	return 1
}

# tells EVENT PATTERN: once at least, and each time like that.
tells() {
	told "$1"
	[ "$VALUE" -gt 0 ] || {
		msg "no $1"
		return 1
	}
	LINE=$(grep -E " $1: name=$CACHE( |\$)" "$TRACE/trace" |
		grep -vE -m 1 " $1: name=$CACHE $2\$")
	[ -z "$LINE" ] || {
		msg "$1 is not like $2: $LINE"
		return 1
	}
}

# The barns of no node have more full sheaves, by any event, than what they accept.
counts_fit() {
	local said=".* (slab_barn_[a-z_]+): .* full=([0-9]+) .* limit=([0-9]+).*"

	LINE=$(sed -nE "/ name=$CACHE /s/$said/\1 \2 \3/p" "$TRACE/trace" |
		awk '$2 > $3' | head -n 1)
	[ -z "$LINE" ] || {
		msg "event, full, limit: $LINE"
		return 1
	}
}

# on CPU NUMBER: so many objects are allocated, or left.
on() { taskset -c "$1" bash -c "echo $2 >$PARAMS/allocated"; }

N='[0-9]+'
BARN="node=$N full=$N empty=$N limit=$N"

refill_is_told() {
	begin
	on "$CPU" $OBJECTS || return
	trace_off
	trace_complete && as_counted sheaf_refill slab_sheaf_refill objects &&
		as_counted barn_get_fail slab_barn_lack &&
		tells slab_sheaf_refill "node=$N wanted=$N objects=$N" &&
		tells slab_barn_lack "$BARN"
}

put_is_told() {
	begin
	on "$CPU" 0 || return
	trace_off
	trace_complete && as_counted barn_put slab_barn_put &&
		tells slab_barn_put "$BARN swap=[01]" && counts_fit
}

get_is_told() {
	begin
	on "$CPU" $OBJECTS || return
	trace_off
	trace_complete && as_counted barn_get slab_barn_get &&
		tells slab_barn_get "$BARN swap=[01]" && counts_fit
}

# They were freed: what was taken is empty now, and put as such or in exchange.
empties_are_told() {
	begin
	on "$CPU" 0 || return
	trace_off
	told slab_barn_get_empty
	local gets=$VALUE
	told slab_barn_put swap
	msg "$VALUE exchanges, $gets empty sheaves without"
	[ $((gets + VALUE)) -gt 0 ]
}

refusal_is_told() {
	on "$CPU" $OBJECTS || return
	begin
	echo 1 >"$SLAB/$CACHE/barn_max_full"
	on "$CPU" 0 || return
	trace_off
	echo auto >"$SLAB/$CACHE/barn_max_full"
	trace_complete && as_counted sheaf_flush slab_sheaf_flush objects &&
		as_counted barn_put_fail slab_barn_refuse &&
		tells slab_sheaf_flush "node=$N objects=$N why=refused" &&
		tells slab_barn_refuse "node=$N full=1 empty=$N limit=1"
}

limit_is_told() {
	begin
	echo 7 >"$SLAB/$CACHE/barn_max_full"
	trace_off
	echo auto >"$SLAB/$CACHE/barn_max_full"
	trace_complete && tells slab_barn_limit "node=$N sheaves=$N->7"
}

shrinking_is_told() {
	local cpus='[1-9][0-9]*'

	# there, it is a lock that is taken
	! is_rt || cpus=0
	begin
	echo 1 >"$SLAB/$CACHE/shrink"
	trace_off
	trace_complete && as_counted sheaf_flush slab_sheaf_flush objects &&
		tells slab_sheaf_flush "node=$N objects=$N why=released" &&
		tells slab_sheaf_drain "cpus_interrupted=$cpus"
}

# It is rounded up to what the memory of a sheaf has room for.
size_is_told() {
	local file=$SLAB/$CACHE/sheaf_capacity was now

	read -r was <"$file"
	begin
	echo 28 >"$file"
	trace_off
	read -r now <"$file"
	echo "$was" >"$file"
	[ "$now" -ge 28 ] && [ "$now" -lt "$was" ] && trace_complete &&
		tells slab_sheaf_capacity "objects=$was->$now contended=0"
}

# A CPU for each node with memory, in CPUS; one of a node without, in BARE, if there is any.
find_nodes() {
	local dir list pages

	CPUS=() OF=() BARE=
	for dir in "$NODES"/node[0-9]*; do
		[ -d "$dir" ] || return 0	# no NUMA
		read -r list <"$dir/cpulist"
		[ -n "$list" ] || continue
		expand "$list"
		pages=$(awk '/MemTotal/ { print $4 }' "$dir/meminfo")
		if [ "$pages" -gt 0 ]; then
			CPUS+=("${EXPANDED[0]}")
			OF+=("${dir##*/node}")
		else
			BARE=${EXPANDED[0]}
		fi
	done
}

# Allocated here, and freed there.
sending_is_told() {
	begin
	on "${CPUS[0]}" $OBJECTS && on "${CPUS[1]}" 0 || return
	trace_off
	trace_complete && tells slab_sheaf_send "node=${OF[1]} barn=${OF[0]}"
}

# Freed to the barn where the memory is by those who live there, and wanted elsewhere.
fetching_is_told() {
	echo 1 >"$SLAB/$CACHE/shrink"
	on "$BARE" $OBJECTS && on "$BARE" 0 || return
	echo 1 >"$SLAB/$CACHE/shrink"
	for cpu in "${CPUS[@]}"; do
		on "$cpu" $OBJECTS && on "$cpu" 0 || return
	done
	begin
	on "$BARE" $OBJECTS || return
	trace_off
	on "$BARE" 0
	trace_complete && tells slab_sheaf_fetch "node=$N barn=$N"
}

ktap_print_header
need_root
need_stats
[ -w "$FEEDBACK" ] || skip_all "sizes do not follow the load in this kernel"
command -v taskset >/dev/null || skip_all "needs taskset"
KO=$DIR/test_modules/$MODULE.ko
[ -e "$KO" ] || skip_all "$KO is not built, needs a built kernel, KDIR="
events_begin
insmod "$KO" || ktap_exit_fail_msg "cannot load $KO"
hold_sizes
total $CACHE sheaf_capacity
[ "${VALUE:-0}" -gt 0 ] || skip_all "no sheaves"
find_nodes
CPU=${CPUS[0]:-0}
ktap_set_plan 10

verdict "refills, and barns that have none" refill_is_told
unless_kept "full sheaves that are put" put_is_told
unless_kept "full sheaves that are got" get_is_told
unless_kept "empty sheaves that are got" empties_are_told
unless_kept "barns that refuse, and flushes" refusal_is_told
verdict "limits of barns" limit_is_told
verdict "sheaves that are taken from CPUs to shrink a cache" shrinking_is_told
verdict "capacities" size_is_told
if [ ${#CPUS[@]} -ge 2 ]; then
	verdict "sheaves that are sent to the node of their objects" sending_is_told
else
	skip "sheaves that are sent to the node of their objects" \
		"no two nodes with memory and CPUs"
fi
if [ -n "$BARE" ]; then
	verdict "sheaves that are fetched from where memory comes from" fetching_is_told
else
	skip "sheaves that are fetched from where memory comes from" "no memoryless node"
fi
ktap_finished
