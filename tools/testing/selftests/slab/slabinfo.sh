#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What is free in sheaves is known where people look for memory: /proc/slabinfo does
# not count it as active, and what the kernel shows of its memory, by SysRq-m and when
# there is none left, names it. test_modules/test_slab_cached.c has the caches.

. "$(dirname "$0")/functions.sh"

MODULE=test_slab_cached
PARAMS=/sys/module/$MODULE/parameters
CACHE=test_slab_cached		# of objects that cannot be reclaimed
CACHE_RC=${CACHE}_rc		# and of those that can
OBJECTS=1000
SYSRQ=/proc/sys/kernel/sysrq
TITLE="Slab memory free in sheaves:"
CHURN=

cleanup() {
	let_sizes_go
	[ -z "$CHURN" ] || kill "$CHURN"
	wait
	[ ! -d "/sys/module/$MODULE" ] || rmmod "$MODULE"
	[ -z "${SYSRQ_WAS:-}" ] || echo "$SYSRQ_WAS" >"$SYSRQ"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# bad REASON: say it, and fail.
bad() {
	msg "$*"
	return 1
}

# --- /proc/slabinfo ------------------------------------------------------

# slabinfo CACHE: in ACTIVE and ALL.
slabinfo() {
	local name active all

	ACTIVE='' ALL=''
	while read -r name active all _; do
		[ "$name" != "$1" ] || ACTIVE=$active ALL=$all
	done </proc/slabinfo
	[ -n "$ALL" ]
}

# check_active NUMBER: as many are active in both caches, and no more.
check_active() {
	local name

	for name in $CACHE $CACHE_RC; do
		slabinfo "$name" || bad "$name is not in /proc/slabinfo" || return
		total "$name" sheaf_objects
		msg "$name: $ACTIVE of $ALL objects active, $VALUE in sheaves"
		[ "$ACTIVE" -eq "$1" ] || bad "$name: not $1 active" || return
	done
}

# Of the second one.
many_in_sheaves() {
	[ "$VALUE" -ge $((OBJECTS / 2)) ] || bad "$VALUE are in sheaves, far less than were freed"
}

some_allocated() {
	echo $OBJECTS >"$PARAMS/allocated" && check_active $OBJECTS
}

# What was freed is in sheaves, and keeps its slabs.
some_freed() {
	echo $((OBJECTS / 4)) >"$PARAMS/allocated" && check_active $((OBJECTS / 4)) || return
	many_in_sheaves
}

all_freed() {
	echo 0 >"$PARAMS/allocated" && check_active 0 && many_in_sheaves || return
	[ "$ALL" -ge "$VALUE" ] || bad "that is more than there are"
}

# Wherever they are, it is the same.
shrunk() {
	echo $((OBJECTS / 4)) >"$PARAMS/allocated" || return
	echo 1 >"$SLAB/$CACHE/shrink" && echo 1 >"$SLAB/$CACHE_RC/shrink" || return
	check_active $((OBJECTS / 4))
}

# From no slab at all to sheaves that are full, and none of it active for long.
churn() {
	while :; do
		echo 1 >"$PARAMS/allocated"
		echo 0 >"$PARAMS/allocated"
		echo 1 >"$SLAB/$CACHE/shrink"
	done
}

# Objects that move while they are counted: less than none would be very many. That
# is a matter of luck, and on an emulated machine of a lot of it.
never_below_zero() {
	local i name active all

	churn &
	CHURN=$!
	for ((i = 0; i < 50; i++)); do
		while read -r name active all _; do
			[[ $active =~ ^[0-9]+$ ]] || continue
			# What is too large is an error to the shell.
			[ "$active" -ge 0 ] && [ "$active" -le "$all" ] && continue
			bad "$name: $active of $all objects active"
			break 2
		done </proc/slabinfo
	done
	kill $CHURN
	wait $CHURN 2>/dev/null
	CHURN=
	[ $i -eq 50 ]
}

# --- the kernel's log ----------------------------------------------------

# show_memory FILE TEXT: write that there, and find what is said then of sheaves, in REPORT.
show_memory() {
	local mark="slabinfo.sh: $$ $RANDOM"

	echo "$mark" >/dev/kmsg
	echo "$2" >"$1" || return
	mapfile -t REPORT < <(dmesg | sed -n "/$mark/,\$s/^\[[^]]*\] //p" |
		sed -n "/^$TITLE/{p; :more; n; /^ *[0-9]*kB *[0-9]* objects of /!q; p; b more}")
	[ ${#REPORT[@]} -gt 0 ] || bad "the kernel said nothing of sheaves"
}

# What $SLAB says, of all caches, in kB.
sum_up() {
	local dir objects size reclaim

	SUM=0 SUM_UNRECLAIMABLE=0
	for dir in "$SLAB"/*; do
		[ ! -L "$dir" ] || continue
		# One that was just destroyed is none.
		{ read -r objects _ <"$dir/sheaf_objects" && read -r size <"$dir/slab_size" &&
			read -r reclaim <"$dir/reclaim_account"; } 2>/dev/null || continue
		SUM=$((SUM + objects * size))
		[ "$reclaim" = 1 ] || SUM_UNRECLAIMABLE=$((SUM_UNRECLAIMABLE + objects * size))
	done
	SUM=$((SUM / 1024)) SUM_UNRECLAIMABLE=$((SUM_UNRECLAIMABLE / 1024))
}

# between N A B: all other caches are in use, also by what looks at them, so N is what there was
# before or after, or between these, but for a bit.
between() {
	local low=$(($2 < $3 ? $2 : $3)) high=$(($2 < $3 ? $3 : $2))

	[ "$1" -ge $((low - low / 8)) ] && [ "$1" -le $((high + high / 8)) ]
}

# Of caches at rest it is exact. On a large machine, others may have more.
named() {
	local line size name last

	read -r last _ <<<"${REPORT[-1]}"
	for name in $CACHE $CACHE_RC; do
		total "$name" slab_size
		size=$VALUE
		total "$name" sheaf_objects
		[ "$VALUE" -ge $((OBJECTS / 2)) ] || bad "void: $VALUE objects in sheaves" || return
		line="$((VALUE * size / 1024))kB $VALUE objects of $name"
		tr -s ' ' <<<"${REPORT[*]}" | grep -qwF "$line" && continue
		[ ${#REPORT[@]} -eq 9 ] && [ $((VALUE * size / 1024)) -le "${last%kB}" ] ||
			bad "no line: $line" || return
	done
}

in_order() {
	local i kb last=

	[[ ${REPORT[0]:-} =~ ^"$TITLE "[0-9]+kB ]] || bad "${REPORT[0]:-nothing}" || return
	[ ${#REPORT[@]} -le 9 ] || bad "$((${#REPORT[@]} - 1)) caches, not 8 or less" || return
	for ((i = 1; i < ${#REPORT[@]}; i++)); do
		read -r kb _ <<<"${REPORT[i]}"
		[ -z "$last" ] || [ "$last" -ge "${kb%kB}" ] || bad "$kb after ${last}kB" || return
		last=${kb%kB}
	done
}

sums_match() {
	local all unreclaimable

	[[ ${REPORT[0]} =~ ^"$TITLE "([0-9]+)"kB, "([0-9]+)"kB of it unreclaimable"$ ]] ||
		bad "${REPORT[0]}" || return
	all=${BASH_REMATCH[1]} unreclaimable=${BASH_REMATCH[2]}
	msg "the report: ${all}kB, unreclaimable ${unreclaimable}kB;" \
		"$SLAB: ${ALL_BEFORE}kB, ${UNRECLAIMABLE_BEFORE}kB before," \
		"${SUM}kB, ${SUM_UNRECLAIMABLE}kB after"
	between "$all" $ALL_BEFORE $SUM || bad "all of it differs" || return
	between "$unreclaimable" $UNRECLAIMABLE_BEFORE $SUM_UNRECLAIMABLE ||
		bad "what is unreclaimable differs"
}

# No mutex there. Nor does it try, which the kernel would complain about if it could.
not_in_interrupts() {
	show_memory "$PARAMS/interrupt" 1 || return
	[ ${#REPORT[@]} -eq 1 ] || bad "${#REPORT[@]} lines" || return
	[ "${REPORT[0]}" = "$TITLE not counted, in an atomic context" ] || bad "${REPORT[0]}"
}

# Not while somebody goes through the caches: then it does not wait.
show_sums() {
	local i

	for ((i = 0; i < 10; i++)); do
		sum_up
		ALL_BEFORE=$SUM UNRECLAIMABLE_BEFORE=$SUM_UNRECLAIMABLE
		show_memory /proc/sysrq-trigger m
		sum_up
		[[ ${REPORT[0]:-} == *"slab_mutex is taken" ]] || break
		sleep 0.5
	done
}

report() {
	local name="SysRq-m" why=''

	[ -w /proc/sysrq-trigger ] || why="no SysRq"
	command -v dmesg >/dev/null || why="no dmesg"
	if [ -n "$why" ]; then
		skip "$name names the caches that have most in sheaves" "$why"
		skip "$name names them in order" "$why"
		skip "$name adds up what all caches have in sheaves" "$why"
		skip "in an interrupt, nothing is counted" "$why"
		return
	fi
	read -r SYSRQ_WAS <"$SYSRQ"
	echo 1 >"$SYSRQ"
	echo $OBJECTS >"$PARAMS/allocated"
	echo 0 >"$PARAMS/allocated"
	show_sums
	unless_kept "$name names the caches that have most in sheaves" named
	verdict "$name names them in order" in_order
	unless_kept "$name adds up what all caches have in sheaves" sums_match
	if is_rt; then
		skip "in an interrupt, nothing is counted" "PREEMPT_RT shows no memory there"
	else
		verdict "in an interrupt, nothing is counted" not_in_interrupts
	fi
}

# -------------------------------------------------------------------------

ktap_print_header
need_root
need_module
[ -r /proc/slabinfo ] || skip_all "no /proc/slabinfo, needs CONFIG_SLUB_DEBUG"
hold_sizes
insmod "$KO" || ktap_exit_fail_msg "cannot load $KO"
total $CACHE sheaf_capacity
[ "${VALUE:-0}" -ne 0 ] || skip_all "the caches have no sheaves"
without_kfence "$CACHE" "$CACHE_RC"
with_room "$CACHE" "$CACHE_RC"
ktap_set_plan 9

verdict "what is allocated is active" some_allocated
unless_kept "what is freed to sheaves is not" some_freed
unless_kept "if all is freed, nothing is active, though slabs and sheaves are there" all_freed
verdict "what is freed to slabs is not, either" shrunk
verdict "there is no less than nothing while objects move" never_below_zero
report
ktap_finished
