#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Sizes of sheaves and barns are changed while the caches are in use: what is refused,
# what a number becomes, and all caches at random under load, with CPUs that come and go
# and memory that is asked back. The load is a module that knows its objects again.
#
# Everything is set back in the end.

. "$(dirname "$0")/functions.sh"
. "$DIR/sizes.sh"

SECS=8

while getopts s:h opt; do
	case $opt in
	s) SECS=$OPTARG ;;
	*)
		echo "usage: resize.sh [-s SECONDS]: change sizes for so long, $SECS" >&2
		exit 2
		;;
	esac
done

cleanup() {
	let_sizes_go
	put_back
	[ -z "${CPU:-}" ] || echo 1 >"$CPU/online"
	[ ! -d "/sys/module/$MODULE" ] || rmmod "$MODULE"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# refused FILE VALUE: the write fails, and nothing changes.
refused() {
	local before after

	before=$(cat "$1")
	if { echo "$2" >"$1"; } 2>/dev/null; then
		msg "$1 took $2"
		return 1
	fi
	after=$(cat "$1")
	[ "$before" = "$after" ] || {
		msg "$1 refused $2, and is $after, not $before"
		return 1
	}
}

all_refused() {
	local file=$1 value

	shift
	for value; do
		refused "$file" "$value" || return
	done
}

without_sheaves_refuse() { refused "$SLAB/kmem_cache_node/sheaf_capacity" 60; }

# becomes FILE VALUE WANT
becomes() {
	local got

	echo "$2" >"$1" || return
	got=$(cat "$1")
	[ "$got" = "$3" ] || {
		msg "$2 became $got in $1, not $3"
		return 1
	}
}

numbers_are_kept() {
	local dir=$SLAB/$1 was

	read -r was <"$dir/sheaf_capacity"
	becomes "$dir/sheaf_capacity" 0 0 &&
		becomes "$dir/sheaf_capacity" "$was" "$was" &&
		becomes "$dir/barn_max_full" 7 7 &&
		becomes "$dir/barn_max_empty" 3 3 &&
		becomes "$dir/sheaf_feedback" none \
			"no_slow_start no_growth no_working_set no_pressure" &&
		becomes "$dir/sheaf_feedback" "growth,pressure" \
			"no_slow_start growth no_working_set pressure" &&
		becomes "$dir/sheaf_feedback" all "slow_start growth working_set pressure" || return
	echo auto >"$dir/barn_max_full"
	echo auto >"$dir/barn_max_empty"
	[[ $(cat "$dir/barn_max_full") == auto* ]]
}

find_cpu() {
	CPU=
	for dir in /sys/devices/system/cpu/cpu[1-9]*; do
		[ ! -w "$dir/online" ] || CPU=$dir
	done
}

disturb() {
	case $((RANDOM % 40)) in
	0) [ -z "$CPU" ] || echo $((RANDOM % 2)) >"$CPU/online" ;;
	1) echo 2 >/proc/sys/vm/drop_caches ;;
	esac
}

all_at_random() {
	local begin=$SECONDS n=0

	insmod "$KO" run=1 seed=$RANDOM isolated=0 || return
	find_cpu
	find_caches
	# A machine that is slow, or has others to look after, has the time it needs.
	while [ $((SECONDS - begin)) -lt $((n > 10 ? SECS : SECS + 600)) ]; do
		change_something || return
		disturb || return
		n=$((n + 1))
	done
	[ -z "$CPU" ] || echo 1 >"$CPU/online"
	put_back
	msg "$n changes of ${#NAMES[@]} caches in $((SECONDS - begin)) s"
	# it complains of objects that are not what they were, and of those that are left
	rmmod "$MODULE" && [ $n -gt 10 ]
}

ktap_print_header
need_root
[ -d "$SLAB" ] || skip_all "no $SLAB"
[ -w "$SLAB/kmalloc-64/barn_max_full" ] || skip_all "sizes cannot be changed in this kernel"
need_module
find_caches
[ ${#NAMES[@]} -gt 0 ] || skip_all "no cache has sheaves"
ktap_set_plan 7
mark_log

# What is refused is not to change meanwhile: nor does a capacity that was written become less.
hold_sizes
read -r capacity <"$SLAB/kmalloc-64/sheaf_capacity"
echo "$capacity" >"$SLAB/kmalloc-64/sheaf_capacity"
verdict "capacities that cannot be are refused" all_refused "$SLAB/kmalloc-64/sheaf_capacity" \
	-1 abc 4294967295 99999999999 ""
verdict "limits that cannot be are refused" all_refused "$SLAB/kmalloc-64/barn_max_full" \
	-1 abc 4294967295
verdict "words that are none are refused" all_refused "$SLAB/kmalloc-64/sheaf_feedback" \
	grow no_all "growth shrink"
verdict "caches that must not have sheaves refuse" without_sheaves_refuse
verdict "what is written can be read" numbers_are_kept kmalloc-64
let_sizes_go
verdict "all caches at random, under load" all_at_random
verdict "the kernel has nothing to complain of" log_is_clean
ktap_finished
