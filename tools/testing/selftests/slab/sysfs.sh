#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What /sys/kernel/slab tells of sheaves and barns: that the files are there, that
# they add up, and what writing to them does.
#
# The load is a module with caches of its own. Most invariants are checked while it
# pauses, where they are exact:
#
#   any counter         the total is the sum of what the CPUs have
#   allocated - freed   is what the module holds, and objects - sheaf_objects
#   sheaf_refill + free_fastpath - sheaf_flush - alloc_fastpath
#                       is sheaf_objects
#   sheaf_alloc - sheaf_free
#                       is the number of sheaves: enough for sheaf_objects, not more
#                       than CPUs (4) and barns have room for; 0 after shrink
#   barn_put - barn_get is the number of full sheaves in barns, which are part of
#                       sheaf_objects, and fit in the barns
#   free_rcu_sheaf + free_rcu_sheaf_fail
#                       is what kfree_rcu() was called for: all frees of one cache,
#                       none of the others
#   alloc_slab - free_slab
#                       is slabs; slabs times objs_per_slab is total_objects
#
# (those of slabs and barns only until a cache is shrunk, which is not counted
# there; what slabs have, with CONFIG_SLUB_DEBUG, which tells it). Under load there
# are bounds, which hold whenever the files are read, in this order: an object, or a
# sheaf, must be allocated to be freed, and put to be got; between the last two and
# their counting there may be as many as there are threads and CPUs.
#
# The counters of a CPU are not shown while it is offline, so all of this needs the
# CPUs to stay. Elsewhere than on x86, where an increment is more than one
# instruction, a count may be lost, and the exact ones may be off by that.

. "$(dirname "$0")/functions.sh"
# shellcheck source=/dev/null
. "$DIR/trace.sh"

PAUSES=5
TMP=

while getopts n:h opt; do
	case $opt in
	n) PAUSES=$OPTARG ;;
	*)
		echo "usage: sysfs.sh [-n PAUSES]: let the load pause so often, $PAUSES" >&2
		exit 2
		;;
	esac
done

REMOVED="cpu_slabs slabs_cpu_partial cpu_partial"
PLAIN="sheaf_capacity $REMOVED"
# Not of caches that never have sheaves.
OF_SHEAVES="sheaf_* barn_* free_rcu_sheaf*"

cleanup() {
	let_sizes_go
	[ ! -d "/sys/module/$MODULE" ] || rmmod "$MODULE"
	[ -z "$TMP" ] || rm -rf "$TMP"
	trace_end
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# --- the files -----------------------------------------------------------

# expected DIR NAME: it is there, or must not be.
expected() {
	[ ! -e "$1/$2" ] || return 0
	[ -n "$NEVER" ] && [[ $2 != sheaf_capacity ]] && of_sheaves "$2" ||
		bad "$1/$2: no such file"
	return 1
}

of_sheaves() {
	local pattern

	set -f
	for pattern in $OF_SHEAVES; do
		# shellcheck disable=SC2053 # it is a pattern
		[[ $1 != $pattern ]] || break
	done
	set +f
	# shellcheck disable=SC2053
	[[ $1 == $pattern ]]
}

# plain FILE: what kind of a number it shows.
plain() {
	read -r VALUE <"$1"
	case $REMOVED in
	*${1##*/}*) [[ $VALUE =~ ^0(\(0\))?$ ]] || bad "$1: $VALUE, not 0" ;;
	*) [[ $VALUE =~ ^[0-9]+$ ]] || bad "$1: not a number: $VALUE" ;;
	esac
}

# The caches that sheaves, and all other caches, are made from have only the file that
# says so. In NEVER.
check_never() {
	local file name

	NEVER=
	case ${1##*/} in kmem_cache | kmem_cache_node | sheaf-*) NEVER=1 ;; esac
	[ -n "$NEVER" ] || return 0
	for file in "$1"/*; do
		name=${file##*/}
		[ "$name" = sheaf_capacity ] || ! of_sheaves "$name" ||
			bad "$file: a file about sheaves that there never are"
	done
	read -r VALUE <"$1/sheaf_capacity"
	[ "$VALUE" = 0 ] || bad "$1/sheaf_capacity: $VALUE, not 0"
}

# All caches, the busy ones of the system as well: a file is one reading.
check_all_caches() {
	local dir name

	for dir in "$SLAB"/*; do
		[ ! -L "$dir" ] || continue
		check_never "$dir"
		for name in $COUNTERS; do
			! expected "$dir" "$name" || adds_up "$dir/$name"
		done
		for name in $PLAIN; do
			! expected "$dir" "$name" || plain "$dir/$name"
		done
		! expected "$dir" sheaf_objects || nodes_add_up "$dir/sheaf_objects"
		! expected "$dir" sheaf_decisions || decisions "$dir/sheaf_decisions"
	done
	for_root_alone
}

# How a machine allocates is nobody else's business.
for_root_alone() {
	local file

	while read -r file; do
		bad "$file: not for root alone"
	done < <(find "$SLAB/" -maxdepth 2 -type f \( -name 'sheaf_*' -o -name 'barn_*' -o \
		-name 'free_rcu_sheaf*' \) -perm /077)
}

# decisions FILE: words and numbers.
decisions() {
	read -r VALUE <"$1"
	[[ $VALUE =~ ^barn_grow\ [0-9]+\ barn_shrink\ [0-9]+\ sheaf_trim\ [0-9]+$ ]] ||
		bad "$1: cannot be parsed: $VALUE"
}

# at_rest NAME COMMAND...: it is judged where nothing is on its way once the load pauses.
at_rest() {
	if has_quarantine; then
		skip "$1" "KASAN keeps what is freed"
	else
		"${@:2}"
		judged "$1"
	fi
}

# --- the load ------------------------------------------------------------

# What a cache has room for: SHEAVES in CPUs and barns, IN_BARNS full ones.
find_limits() {
	local dir list max

	read -r list </sys/devices/system/cpu/possible
	expand "$list"
	SHEAVES=$((4 * ${#EXPANDED[@]}))
	IN_BARNS=0
	for dir in /sys/devices/system/node/node*; do
		max=10
		if [ -d "$dir" ]; then
			list=
			read -r list <"$dir/cpulist"
			expand "$list"
			[ ${#EXPANDED[@]} -le $max ] || max=${#EXPANDED[@]}
		fi
		IN_BARNS=$((IN_BARNS + max))
	done
	SHEAVES=$((SHEAVES + 2 * IN_BARNS))
}

run_load() { echo "$1" >"$MODULE_PARAMS/run"; }

# In one piece: read, line by line, would go back in a file that changes.
read_held() {
	local lines line

	mapfile -t lines <"$MODULE_PARAMS/held"
	for line in "${lines[@]}"; do
		HELD[${line% *}]=${line#* }
	done
}

# At rest.
check_sheaves() {
	at_most "$1" "sheaves that hold the objects" 'V[sheaf_objects]' \
		'(V[sheaf_alloc] - V[sheaf_free]) * V[sheaf_capacity]'
	at_most "$1" "room for sheaves" 'V[sheaf_alloc] - V[sheaf_free]' 'SHEAVES'
}

# At rest, if the cache was never shrunk.
check_unshrunk() {
	at_most "$1" "sheaves in barns" 0 'V[barn_put] - V[barn_get]'
	at_most "$1" "objects in barns" '(V[barn_put] - V[barn_get]) * V[sheaf_capacity]' \
		'V[sheaf_objects]'
	at_most "$1" "room in barns" 'V[barn_put] - V[barn_get]' 'IN_BARNS'
	slabs_are_counted "$1" || return 0
	equal "$1" "slabs" 'V[alloc_slab] - V[free_slab]' 'V[slabs]'
	((V[order_fallback])) ||
		equal "$1" "objects of slabs" 'V[slabs] * V[objs_per_slab]' 'V[total_objects]'
}

# At rest. TINY_RCU frees objects one by one, past sheaves.
check_rcu() {
	if [ "$1" = test_slab_rcu ] && [ -d /sys/module/rcutree ]; then
		at_most "$1" "freed by kfree_rcu()" 'V[frees]' \
			'V[free_rcu_sheaf] + V[free_rcu_sheaf_fail]'
		at_most "$1" "allocated" 'V[free_rcu_sheaf] + V[free_rcu_sheaf_fail]' \
			'V[allocs] - V[held]'
	else
		equal "$1" "freed by kfree_rcu()" \
			'V[free_rcu_sheaf] + V[free_rcu_sheaf_fail]' 0
	fi
}

check_no_sheaves() {
	local name

	for name in alloc_fastpath free_fastpath sheaf_alloc sheaf_refill sheaf_flush barn_get \
		barn_put sheaf_objects; do
		equal "$1" "without sheaves" "V[$name]" 0
	done
}

# Whether the load makes the counters move at all.
check_moved() {
	at_most "$1" "the load" 1000 'V[allocs]'
	((V[sheaf_capacity] == 0)) || {
		at_most "$1" "the load" 1 'V[sheaf_refill]'
		at_most "$1" "the load" 'V[allocs] / 2' 'V[alloc_fastpath]'
	}
}

# until_all COMMAND: it is true of each cache, or a minute has gone.
until_all() {
	local name end=$((SECONDS + 60))

	for name in "${CACHES[@]}"; do
		until "$1" "$name" || ((SECONDS >= end)); do
			sleep 0.2
		done
	done
}

# get_allocs CACHE: in ALLOCS, and those that took no time in FAST.
get_allocs() {
	total "$1" alloc_fastpath
	FAST=$VALUE
	total "$1" alloc_slowpath
	ALLOCS=$((FAST + VALUE))
}

# What check_moved asks for: a cache that a slow machine rarely uses is left to its slabs at
# first.
moved() {
	get_allocs "$1"
	[ $ALLOCS -ge 1000 ] || return
	total "$1" sheaf_capacity
	[ "$VALUE" -ne 0 ] || return 0
	[ $((ALLOCS / 2)) -le "$FAST" ] || return
	total "$1" sheaf_refill
	[ "$VALUE" -ne 0 ]
}

allocated() {
	get_allocs "$1"
	[ $ALLOCS -ne 0 ]
}

for_caches() {
	local name

	for name in "${CACHES[@]}"; do
		read_cache "$name"
		"$@" "$name"
	done
}

check_at_rest() {
	check_objects "$1"
	check_sheaves "$1"
	check_unshrunk "$1"
	check_rcu "$1"
	((V[sheaf_capacity])) || check_no_sheaves "$1"
}

# Two readings of two counters, in this order: the later ones must not be less.
declare -A LAST
check_under_load() {
	local name

	for name in frees allocs; do
		total "$1" ${name%s}_fastpath
		V[$name]=$VALUE
		total "$1" ${name%s}_slowpath
		V[$name]=$((V[$name] + VALUE))
	done
	for name in sheaf_free sheaf_alloc barn_get barn_put sheaf_capacity sheaf_objects; do
		total "$1" "$name"
		V[$name]=$VALUE
	done
	at_most "$1" "freed" 'V[frees]' 'V[allocs]'
	at_most "$1" "sheaves freed" 'V[sheaf_free]' 'V[sheaf_alloc]'
	at_most "$1" "sheaves got" 'V[barn_get]' "V[barn_put] + SLACK"
	at_most "$1" "room in sheaves" 'V[sheaf_objects]' "SHEAVES * V[sheaf_capacity]"
	for name in frees allocs sheaf_free sheaf_alloc barn_get barn_put; do
		at_most "$1" "$name, formerly and now" "${LAST[$1 $name]:-0}" "V[$name]"
		LAST[$1 $name]=${V[$name]}
	done
}

under_load() {
	local i name file

	for ((i = 0; i < PAUSES; i++)); do
		for name in "${CACHES[@]}"; do
			check_under_load "$name"
			for file in alloc_fastpath free_fastpath sheaf_refill barn_put; do
				adds_up "$SLAB/$name/$file"
			done
		done
	done
}

after_load() {
	for_caches check_at_rest
	for_caches check_moved
}

between_loads() {
	local i

	for ((i = 0; i < PAUSES; i++)); do
		run_load 1
		sleep "0.$((RANDOM % 10))"
		run_load 0
		read_held
		for_caches check_at_rest
	done
}

# Whoever looks, disturbs nobody: no work item is queued, and no IPI sent, by a process
# that reads a file here. Shrinking visits CPUs: that shows that it would be seen.
READS='(slab_attr|kernfs_seq|sysfs_kf_seq)_show'
WRITES='slab_attr_store|sysfs_kf_write|kernfs_fop_write'
check_reading() {
	local dir lines

	trace_on
	for dir in "$SLAB"/*; do
		[ -L "$dir" ] || cat "$dir"/* >/dev/null || bad "$dir: not all files can be read"
	done
	trace_off
	trace_complete || bad "void"
	lines=$(ALLOCATOR=$READS trace_ours)
	[ -z "$lines" ] || while read -r line; do
		bad "reading all files: $line"
	done <<<"$lines"
	trace_on
	echo 1 >"$SLAB/$1/shrink"
	trace_off
	lines=$(ALLOCATOR=$WRITES trace_ours)
	[ -n "$lines" ] || [ -z "$SMP" ] || bad "void: shrinking visits no CPU"
}

# --- writing -------------------------------------------------------------

# write_file FILE TEXT: the error, as bash puts it, in VALUE; empty for success.
write_file() {
	if VALUE=$( (printf '%s\n' "$2" >"$1") 2>&1); then
		VALUE=
	else
		VALUE=${VALUE##*: }
	fi
}

# refused FILE TEXT ERROR: and it reads as before.
refused() {
	local before='' after=''

	[ -e "$1" ] || {
		bad "$1: no such file"
		return
	}
	IFS= read -r -d '' before <"$1"
	write_file "$1" "$2"
	[ "$VALUE" = "$3" ] || bad "$1: writing '$2': ${VALUE:-no error}, not $3"
	IFS= read -r -d '' after <"$1"
	[ "$before" = "$after" ] || bad "$1: writing '$2' changed $before to $after"
}

# At rest: all writable files of a cache, and those that must not be.
check_refusals() {
	local name text dir=$SLAB/$1 invalid="Invalid argument"

	for name in $COUNTERS sheaf_decisions; do
		for text in 1 -1 x ''; do
			refused "$dir/$name" "$text" "$invalid"
		done
	done
	for text in 0 x ''; do
		refused "$dir/shrink" "$text" "$invalid"
	done
	for text in x -1 '1 1' ''; do
		refused "$dir/min_partial" "$text" "$invalid"
		refused "$dir/cpu_partial" "$text" "$invalid"
	done
	refused "$dir/cpu_partial" 30 "$invalid"
	if slabs_are_counted "$1"; then
		refused "$dir/validate" x "$invalid"
		refused "$dir/objects" 1 "Permission denied"
	fi
	if [ -e "$dir/remote_node_defrag_ratio" ]; then
		refused "$dir/remote_node_defrag_ratio" x "$invalid"
		refused "$dir/remote_node_defrag_ratio" 101 "Numerical result out of range"
	fi
	for text in x -1 ''; do
		refused "$dir/sheaf_capacity" "$text" "$invalid"
		refused "$dir/barn_max_full" "$text" "$invalid"
		refused "$dir/barn_max_empty" "$text" "$invalid"
	done
	refused "$dir/sheaf_feedback" x "$invalid"
	for name in sheaf_objects cpu_slabs slabs_cpu_partial; do
		refused "$dir/$name" 1 "Permission denied"
	done
}

check_accepted() {
	local dir=$SLAB/$1

	write_file "$dir/cpu_partial" 0
	[ -z "$VALUE" ] || bad "$dir/cpu_partial: writing 0: $VALUE"
}

# At rest: what is cached goes back to slabs, and nothing else changes.
check_shrink() {
	local held=${V[held]}

	write_file "$SLAB/$1/shrink" 1
	[ -z "$VALUE" ] || bad "$SLAB/$1/shrink: $VALUE"
	read_cache "$1"
	equal "$1" "objects in sheaves after shrink" 'V[sheaf_objects]' 0
	equal "$1" "sheaves after shrink" 'V[sheaf_alloc]' 'V[sheaf_free]'
	equal "$1" "held after shrink" "$held" 'V[held]'
	check_objects "$1"
}

# At rest: one counter is cleared, the others stay.
check_reset() {
	local name other before after

	for name in $COUNTERS; do
		[ -e "$SLAB/$1/$name" ] || {
			bad "$SLAB/$1/$name: no such file"
			continue
		}
		other=alloc_fastpath
		[ "$name" != alloc_fastpath ] || other=alloc_slowpath
		read -r before <"$SLAB/$1/$other"
		write_file "$SLAB/$1/$name" 0
		[ -z "$VALUE" ] || bad "$SLAB/$1/$name: writing 0: $VALUE"
		read -r after <"$SLAB/$1/$name"
		[ "$after" = 0 ] || bad "$SLAB/$1/$name: after writing 0: $after"
		# already cleared, or not touched
		read -r after <"$SLAB/$1/$other"
		[ "$before" = "$after" ] || bad "$SLAB/$1/$other: changed by writing to $name"
	done
}

# All decisions are cleared at once.
check_reset_decisions() {
	write_file "$SLAB/$1/sheaf_decisions" 0
	[ -z "$VALUE" ] || bad "$SLAB/$1/sheaf_decisions: writing 0: $VALUE"
	read -r VALUE <"$SLAB/$1/sheaf_decisions"
	[ "$VALUE" = "barn_grow 0 barn_shrink 0 sheaf_trim 0" ] ||
		bad "$SLAB/$1/sheaf_decisions: after writing 0: $VALUE"
}

# The counters count on from zero.
check_counts_again() {
	local name

	at_most "$1" "after the reset" 1 'V[allocs]'
	for name in alloc_fastpath free_fastpath; do
		[ ! -e "$SLAB/$1/$name" ] || adds_up "$SLAB/$1/$name"
	done
}

# -------------------------------------------------------------------------

ktap_print_header
need_root
[ -d "$SLAB" ] || skip_all "no $SLAB"
need_stats
BAD=0
hold_sizes
find_smp
if [ "$SLAB" != /sys/kernel/slab ]; then
	# Somebody else's files: nothing can be written there, and no load be run.
	ktap_set_plan 1
	check_all_caches
	judged "all caches: files exist, parse, and add up"
	ktap_finished
fi
need_module
ktap_set_plan 10

check_all_caches
judged "all caches: files exist, parse, and add up"

insmod "$KO" seed=$RANDOM isolated=0 || ktap_exit_fail_msg "cannot load $KO"
find_limits
CACHES=()
read_held
for name in "${!HELD[@]}"; do
	CACHES+=("$name")
done
without_kfence "${CACHES[@]}"
total "${CACHES[0]}" sheaf_capacity
[ "$VALUE" -ne 0 ] || msg "the caches have no sheaves"
read -r SLACK <"$MODULE_PARAMS/threads"
SLACK=$((SLACK + SHEAVES))

run_load 1
under_load
judged "under load: bounds hold"
until_all moved
run_load 0
read_held
at_rest "after the load: counters agree with what is allocated" after_load
at_rest "each time that the load pauses: they still do" between_loads

name="reading all files queues no work item and sends no IPI"
# Reading them all takes long where the host is busy, and other CPUs go on meanwhile.
# shellcheck disable=SC2034
TRACE_KB=16384
if trace_begin; then
	check_reading "${CACHES[0]}"
	judged "$name"
else
	skip "$name" "$WHY"
fi
trace_end
at_rest "what makes no sense is refused, and changes nothing" for_caches check_refusals
for_caches check_accepted
judged "what tools may write is accepted"
for_caches check_shrink
judged "shrink: no object and no sheaf stays behind"
for_caches check_reset
check_reset_decisions "${CACHES[0]}"
run_load 1
sleep 2
until_all allocated
run_load 0
read_held
for_caches check_counts_again
judged "counters start again when they are cleared"
read -r errors <"$MODULE_PARAMS/errors"
[ "$errors" -eq 0 ] || bad "$errors objects were corrupted"
judged "no object was corrupted"
ktap_finished
