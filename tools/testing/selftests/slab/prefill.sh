#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Prefilled sheaves, from a module: test_modules/test_slab_prefill.c, which uses all
# of the functions, and finds out by itself whether it got what was promised. And
# what only works with a task in a cgroup: an object from a prefilled sheaf can be
# had although its charge exceeds the limit.

. "$(dirname "$0")/functions.sh"

MODULE=test_slab_prefill
ACCOUNTED=/sys/module/$MODULE/parameters/accounted
BUNCH=$((64 * $(getconf PAGESIZE)))	# is charged to a cgroup at once
OBJECTS=$((16 * BUNCH / 200))	# of 200 bytes

cleanup() {
	remove_cgroup
	[ ! -d "/sys/module/$MODULE" ] || rmmod "$MODULE"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

self_test() { insmod "$KO" && rmmod "$MODULE"; }

# No fork in the cgroup: the shell itself is charged. It has some of a bunch before the
# limit is set, which leaves room for one more, far less than the objects need.
exceed_limit() {
	local failed='' before peak max

	echo $BASHPID >"$CGROUP/cgroup.procs"
	echo 2000 >"$ACCOUNTED" || failed=1
	read -r before <"$CGROUP/memory.current"
	max=$((before + BUNCH))
	echo $max >"$CGROUP/memory.max"
	echo $OBJECTS >"$ACCOUNTED" || failed=1
	echo max >"$CGROUP/memory.max"
	read -r peak <"$CGROUP/memory.peak"
	echo $BASHPID >"$CGROUP_ROOT/cgroup.procs"

	msg "limit $max, peak $peak bytes"
	[ -z "$failed" ] && [ "$peak" -gt $((max + OBJECTS * 200 / 2)) ]
}

# -------------------------------------------------------------------------

ktap_print_header
need_root
need_module
ktap_set_plan 2

verdict "a module gets from sheaves what was promised" self_test
if make_cgroup slab_prefill memory.peak; then
	insmod "$KO" || ktap_exit_fail_msg "cannot load $KO"
	verdict "the limit of a cgroup does not make an allocation fail" exceed_limit
else
	skip "the limit of a cgroup does not make an allocation fail" "$WHY"
fi
ktap_finished
