#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A CPU that stops on its way offline (hotplug/target in sysfs,
# CONFIG_CPU_HOTPLUG_STATE_CONTROL): what is in its sheaves can be counted, shrunk, and
# destroyed with the cache, kfree_rcu() included. It stops at two places:
#
#   dead    right before the allocator cleans up after it
#   parked  where it is online, but has no workers any more: what is queued there is
#           run by another CPU, and nothing must be queued again and again until it is
#           run by this one
#
# And one that cannot go offline, or come back, since one of the steps on its way fails
# (hotplug/fail): each of those that can, one after the other. It goes back where it was,
# its sheaves have what they had, and it is as good as any afterwards.

. "$(dirname "$0")/functions.sh"
# shellcheck source=/dev/null
. "$DIR/trace.sh"

MODULE=test_slab_rcu
CACHE=test_slab_unload
CPUS=/sys/devices/system/cpu
OBJECTS=100			# freed on each CPU, more than fill a sheaf
CPU=
STATE=				# to stop at
WATCH=8				# seconds, as kfree_rcu() waits for 5
# 6.12 looks after the counters of all CPUs so often, in seconds, and may queue that for a CPU
# that is leaving; it is done on another one then, of which DEBUG_PREEMPT complains.
STAT_INTERVAL=/proc/sys/vm/stat_interval
STAT_INTERVAL_WAS=

cleanup() {
	[ -z "$CPU" ] || echo -1 >"$CPUS/cpu$CPU/hotplug/fail"
	[ -z "$CPU" ] || all_the_way || all_the_way || msg "CPU $CPU is not online again"
	[ ! -d "/sys/module/$MODULE" ] || rmmod "$MODULE"
	trace_end
	let_sizes_go
	[ -z "$STAT_INTERVAL_WAS" ] || echo "$STAT_INTERVAL_WAS" >"$STAT_INTERVAL"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# The last state before the clean-up, DEAD, that before workqueues look after the CPU
# when it comes up, PARKED, and the last of all, which is online. From others a CPU may
# not come back: RCU sets up before some of them what it needs.
find_states() {
	local number name last=

	DEAD='' PARKED='' STATES=()
	while IFS=': ' read -r number name; do
		STATES+=("$number")
		[ "$last" != slub:dead ] || DEAD=$number
		[ "$name" != workqueue:online ] || PARKED=$ONLINE
		ONLINE=$number last=$name
	done <"$CPUS/hotplug/states"
	[ -n "$DEAD" ]
}

# cpu*/online does not tell: it is about what was written there.
is_at() {
	local state

	read -r state <"$CPUS/cpu$1/hotplug/state"
	[ "$state" -eq "$2" ]
}

# The last of those that can go offline, as a number. Nobody disturbs an isolated one:
# that is another test.
find_cpu() {
	local file list

	read -r list <"$CPUS/isolated"
	expand "$list"

	for file in "$CPUS"/cpu[0-9]*/online; do
		[ -w "$file" ] || continue
		file=${file%/online}
		[[ " ${EXPANDED[*]} " != *" ${file#"$CPUS"/cpu} "* ]] || continue
		! is_at "${file#"$CPUS"/cpu}" "$ONLINE" || CPU=${file#"$CPUS"/cpu}
	done
	[ -n "$CPU" ]
}

# Where the kernel gives no leave to stop, the number is invalid.
stop() { echo "$STATE" >"$CPUS/cpu$CPU/hotplug/target" && is_at "$CPU" "$STATE"; }

all_the_way() {
	# in a trap, a bare return has the status from before
	is_at "$CPU" "$ONLINE" && return 0
	echo "$ONLINE" >"$CPUS/cpu$CPU/hotplug/target" && is_at "$CPU" "$ONLINE"
}

# sees FILE NUMBER: of the cache.
sees() {
	total "$CACHE" "$1"
	[ "$VALUE" -eq "$2" ] && return
	msg "$CACHE/$1 is $VALUE, expected $2"
	return 1
}

# So that there is something in the sheaves of the CPU, all kinds of them.
load_and_stop() {
	insmod "$KO" objects=$OBJECTS isolated=0 || return
	parse_counter "$SLAB/$CACHE/free_rcu_sheaf"
	[ "${COUNTER[C$CPU]:-0}" -eq $OBJECTS ] && stop && return
	msg "$CACHE/free_rcu_sheaf is ${COUNTER[C$CPU]:-0} for CPU $CPU, expected $OBJECTS"
	return 1
}

unload() {
	local MARK

	[ -d "/sys/module/$MODULE" ] || return
	mark_log
	rmmod "$MODULE" && log_is_clean
}

# Once what waited for a grace period is freed, which is soon after it has waited for
# 5 s, whatever is not in a sheaf of an online CPU, or a barn, is in one of the dead CPU.
all_counted() {
	local i all

	for ((i = 0; i < 30; i++)); do
		sleep 1
		total "$CACHE" objects
		all=$VALUE
		total "$CACHE" sheaf_objects
		[ "$all" -gt 0 ] && [ "$VALUE" -eq "$all" ] && return
	done
	msg "$CACHE/sheaf_objects is $VALUE, expected $all"
	return 1
}

# Once all objects are free, so that what is left is in sheaves: shrinking does not wait
# for a grace period.
shrinks() {
	local ok=

	load_and_stop && all_counted && echo 1 >"$SLAB/$CACHE/shrink" &&
		sees sheaf_objects 0 && sees objects 0 && sees slabs 0 && ok=1
	all_the_way && unload && [ -n "$ok" ]
}

counts() {
	local ok=

	load_and_stop && all_counted && ok=1
	all_the_way && unload && [ -n "$ok" ]
}

goes_with_module() {
	local ok=

	load_and_stop && unload && ok=1
	all_the_way && [ -n "$ok" ] && return
	unload
	return 1
}

comes_back() {
	local ok=

	load_and_stop && ok=1
	all_the_way && unload && [ -n "$ok" ]
}

# How often work is queued that is the allocator's: some is for what the test itself frees,
# a few items for each grace period and a round every two seconds, but none each jiffy.
idle() {
	local ok='' lines

	if load_and_stop && trace_on && sleep $WATCH && trace_off && trace_complete; then
		lines=$(trace_ours | grep -c workqueue_queue_work)
		msg "$lines work items in $WATCH s"
		[ "$lines" -gt $((5 * WATCH)) ] || ok=1
	fi
	all_the_way && unload && [ -n "$ok" ]
}

# What the tracing sees, it sees of the module when it is loaded, too.
try_idle() {
	if trace_begin; then
		verdict "$1: no work is queued again and again" idle
	else
		skip "$1: no work is queued again and again" "$WHY"
	fi
	trace_end
}

# Exactly those that are in use on no CPU, which are all.
all_in_sheaves() {
	local all

	total "$CACHE" objects
	all=$VALUE
	total "$CACHE" sheaf_objects
	[ "$VALUE" -eq "$all" ] && [ "$all" -gt 0 ] && return
	msg "$CACHE/sheaf_objects is $VALUE, $CACHE/objects $all"
	return 1
}

# go STATE: succeeds if the CPU is there afterwards.
go() { { echo "$1" >"$CPUS/cpu$CPU/hotplug/target"; } 2>/dev/null; is_at "$CPU" "$1"; }

# from STATE: the CPU is there, and each CPU has freed some objects, at once.
from() {
	go "$ONLINE" || return
	[ ! -d "/sys/module/$MODULE" ] || unload || return
	insmod "$KO" objects=$OBJECTS isolated=0 rcu=0 && go "$1" && all_in_sheaves && ALL=$VALUE
}

# The kernel forgets a state that is to fail once it has failed.
has_failed() {
	local fail

	read -r fail <"$CPUS/cpu$CPU/hotplug/fail"
	[ "$fail" -eq -1 ]
}

# passes FROM STATE: the CPU did, so the state must have nothing to do on its way. On it, the
# CPU has given back its objects, and gets others.
passes() {
	if has_failed; then
		msg "state $2 failed, which did not stop the CPU"
		return 1
	fi
	echo -1 >"$CPUS/cpu$CPU/hotplug/fail"
	from "$1"
}

# stays FROM STATE: as the state has failed, and for no other reason, such as EBUSY.
stays() {
	local state

	read -r state <"$CPUS/cpu$CPU/hotplug/state"
	if [ "$state" -ne "$1" ]; then
		msg "CPU $CPU is at $state, expected $1"
	elif ! has_failed; then
		msg "CPU $CPU stays at $1, but state $2 has not failed"
	elif all_in_sheaves && [ "$VALUE" -eq "$ALL" ]; then
		return
	else
		msg "when state $2 failed, expected $ALL"
	fi
	return 1
}

# each_fails FROM TO: on the way, each state that can, of those that have something to do
# on it.
each_fails() {
	local state failed=0 passed=0

	for state in "${STATES[@]}"; do
		{ echo "$state" >"$CPUS/cpu$CPU/hotplug/fail"; } 2>/dev/null || continue
		if go "$2"; then
			passes "$1" "$state" || return
			passed=$((passed + 1))
		else
			stays "$1" "$state" || return
			failed=$((failed + 1))
		fi
	done
	msg "$failed of ${#STATES[@]} states failed, $passed had nothing to do"
	[ $failed -gt 0 ]
}

# fails FROM TO: and then all is as if nothing had been, and nothing is said of it.
fails() {
	local ok='' MARK

	mark_log
	from "$1" && each_fails "$1" "$2" && ok=1
	echo -1 >"$CPUS/cpu$CPU/hotplug/fail"
	all_the_way && from "$ONLINE" && unload || ok=
	log_is_clean && [ -n "$ok" ]
}

all_at() {
	local name=$1

	STATE=$2
	msg "CPU $CPU stops at $STATE of $CPUS/hotplug/states"
	# No round must have what is counted in its hands.
	hold_sizes
	if_counted "$name: objects in the sheaves of the CPU are counted" counts
	if_counted "$name: shrink takes them" shrinks
	let_sizes_go
	verdict "$name: the cache goes with its module" goes_with_module
	verdict "$name: the CPU comes back, and the cache goes with its module" comes_back
	try_idle "$name"
}

# -------------------------------------------------------------------------

ktap_print_header
need_root
need_stats
need_module
# Freed objects stay in KASAN's quarantine, and a CPU that does not start at the very
# beginning has the marks of its last stack.
! has_quarantine || skip_all "KASAN keeps what is freed"
total kmalloc-64 sheaf_capacity
[ "${VALUE:-0}" -gt 0 ] || skip_all "no sheaves"
[ -e "$CPUS/hotplug/states" ] || skip_all "needs CONFIG_HOTPLUG_CPU"
find_states || skip_all "no slub:dead, or nothing after it, in $CPUS/hotplug/states"
find_cpu || skip_all "no CPU can go offline"
[ ! -w "$STAT_INTERVAL" ] || {
	read -r STAT_INTERVAL_WAS <"$STAT_INTERVAL"
	echo 1000 >"$STAT_INTERVAL"
}
for STATE in $DEAD $PARKED; do
	if ! ERROR=$(stop 2>&1); then
		[[ $ERROR != *"Invalid argument" ]] ||
			skip_all "needs CONFIG_CPU_HOTPLUG_STATE_CONTROL"
		ktap_exit_fail_msg "CPU $CPU does not stop at state $STATE: $ERROR"
	fi
	all_the_way || ktap_exit_fail_msg "CPU $CPU does not come back from state $STATE"
done
ktap_set_plan $((PARKED ? 13 : 8))
all_at dead "$DEAD"
[ -z "$PARKED" ] || all_at parked "$PARKED"
# No round that looks after idle CPUs must take what is counted.
hold_sizes
if_counted "failing: a CPU does not go offline" fails "$ONLINE" 0
if_counted "failing: a CPU that is dead does not come back" fails "$DEAD" "$ONLINE"
if_counted "failing: a CPU that is offline does not come back" fails 0 "$ONLINE"
ktap_finished
