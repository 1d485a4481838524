#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Objects that are free in sheaves are given back when memory is short: to whoever
# reclaims, as drop_caches does, and before a task is killed for want of memory. What
# stays is in the sheaves that a CPU works with, and no more. For a memory cgroup there is
# nothing to be given back, since objects in sheaves are on nobody's account. A module has
# the cache.

. "$(dirname "$0")/functions.sh"

MODULE=test_slab_cached
PARAMS=/sys/module/$MODULE/parameters
CACHE=test_slab_cached
OBJECTS=1000
SYSRQ=/proc/sys/kernel/sysrq
PATIENCE=30
VICTIM=

cleanup() {
	let_sizes_go
	[ -z "$VICTIM" ] || kill -9 "$VICTIM" 2>/dev/null
	wait
	[ ! -d "/sys/module/$MODULE" ] || rmmod "$MODULE"
	remove_cgroup
	[ -z "${SYSRQ_WAS:-}" ] || echo "$SYSRQ_WAS" >"$SYSRQ"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# By one CPU, so that all but main and remote of that one can be given back. With limits
# that do not follow the load, and whatever else is named.
fill() {
	echo "none $*" >"$FEEDBACK"
	taskset -c 0 bash -c "echo $OBJECTS >$PARAMS/allocated && echo 0 >$PARAMS/allocated" ||
		return
	total $CACHE sheaf_capacity
	KEPT=$((2 * VALUE))
	total $CACHE sheaf_objects
	msg "$VALUE objects in sheaves, of which a CPU may keep $KEPT"
	[ "$VALUE" -gt $((2 * KEPT)) ]
}

kept() {
	total $CACHE sheaf_objects
	msg "$VALUE objects in sheaves"
	[ "$VALUE" -le "$KEPT" ]
}

# Who gives back does not wait for others who visit the same caches just then.
sooner_or_later() {
	local i

	for ((i = 0; i < 5; i++)); do
		! "$@" || return 0
	done
	return 1
}

drop_caches_takes() { fill pressure && echo 2 >/proc/sys/vm/drop_caches && kept; }
and_does_not() { fill && echo 2 >/proc/sys/vm/drop_caches && ! kept; }

# Who is asked for first.
find_victim() {
	sleep 1000 &
	VICTIM=$!
	echo 1000 >/proc/$VICTIM/oom_score_adj
}

# SysRq-f is what happens when there is no memory left, but for the want of it.
out_of_memory_takes() {
	local i

	fill pressure && find_victim || return
	[ -n "${SYSRQ_WAS:-}" ] || read -r SYSRQ_WAS <"$SYSRQ"
	echo 1 >"$SYSRQ"
	echo f >/proc/sysrq-trigger
	for ((i = 0; i < 10 * PATIENCE; i++)); do
		kill -0 $VICTIM 2>/dev/null || break
		sleep 0.1
	done
	! kill -0 $VICTIM 2>/dev/null || {
		msg "void: nobody was killed"
		return 1
	}
	kept
}

current() { read -r VALUE <"$CGROUP/memory.current"; }

# No fork in the cgroup: the shell itself is charged, and charges are in bunches of 64 pages.
# There are two caches.
not_charged() {
	local before peak after size

	echo none >"$FEEDBACK"
	echo $BASHPID >"$CGROUP/cgroup.procs" || return
	current && before=$VALUE
	echo $OBJECTS >"$PARAMS/allocated" && current && peak=$VALUE
	echo 0 >"$PARAMS/allocated" && current && after=$VALUE
	echo $BASHPID >"$CGROUP_ROOT/cgroup.procs"
	total $CACHE sheaf_objects
	msg "$((peak - before)) bytes charged for objects," \
		"$((after - before)) when $VALUE of them are in sheaves"
	[ "$VALUE" -gt $((OBJECTS / 2)) ] || return
	total $CACHE slab_size
	size=$VALUE
	[ $((peak - before)) -gt $((OBJECTS * size)) ] &&
		[ $((after - before)) -lt $((OBJECTS * size / 4)) ]
}

ktap_print_header
need_root
need_stats
[ -w "$FEEDBACK" ] || skip_all "sizes do not follow the load in this kernel"
command -v taskset >/dev/null || skip_all "needs taskset"
KO=$DIR/test_modules/$MODULE.ko
[ -e "$KO" ] || skip_all "$KO is not built, needs a built kernel, KDIR="
insmod "$KO" || ktap_exit_fail_msg "cannot load $KO"
hold_sizes
total $CACHE sheaf_capacity
[ "${VALUE:-0}" -gt 0 ] || skip_all "no sheaves"
with_room $CACHE ${CACHE}_rc
ktap_set_plan 4

unless_kept "drop_caches gives back what is in the barns" sooner_or_later drop_caches_takes
unless_kept "unless that is switched off" and_does_not
if [ -w /proc/sysrq-trigger ]; then
	unless_kept "so does a machine that is out of memory" sooner_or_later out_of_memory_takes
else
	skip "so does a machine that is out of memory" "no SysRq"
fi
if make_cgroup slab_pressure memory.current; then
	unless_kept "objects in sheaves are charged to nobody" not_charged
else
	skip "objects in sheaves are charged to nobody" "$WHY"
fi
ktap_finished
