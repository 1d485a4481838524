#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Allocations that fail, each one that there is in each operation, one after the other
# (failslab, fail_page_alloc): no object gets lost, no memory leaks, the kernel has nothing
# to complain of, and who asked for something is told that he has not got it. And no page
# from some page on, since that is how memory is short.
#
# A module does it in what can be done by calls, test_modules/test_slab_faults.c, and this
# script in what is done by files of /sys/kernel/slab, with /proc/self/fail-nth. Charges to a
# memory cgroup fail as well, where there is one. If kmemleak is on, it has a look at the end.
#
#   faults.sh [OPERATION...]	of the calls, these only

. "$(dirname "$0")/functions.sh"
# shellcheck source=/dev/null
. "$DIR/failing.sh"

MODULE=test_slab_faults
PARAMS=/sys/module/$MODULE/parameters
CACHE=test_slab_faults
LATE=test_slab_late
PAGES=$DEBUGFS/fail_page_alloc
MANY=10000
OPERATIONS=()
TOTAL=0
TOTAL_PAGES=0

cleanup() {
	disarm
	[ ! -d "/sys/module/$MODULE" ] || rmmod "$MODULE"
	faults_end
	remove_cgroup
	let_sizes_go
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# --- calls ---------------------------------------------------------------

# Into a cgroup, if there is one.
move_to() {
	[ -z "$CGROUP" ] || echo $BASHPID >"$1/cgroup.procs" && return
	msg "the test cannot move to $1"
	return 1
}

# In the cgroup: it is the writer who is charged.
ask() {
	local rc=0

	move_to "$CGROUP" || return
	{ echo "$2" >"$PARAMS/$1"; } 2>/dev/null || rc=1
	move_to "$CGROUP_ROOT" && return $rc
}

each() {
	local ok='' plain faults errors

	mark_log
	ask run "$1" && ok=1
	read -r _ plain faults errors <"$PARAMS/result"
	msg "$plain allocations, $faults failed, $errors times nothing came of it"
	TOTAL=$((TOTAL + faults))
	log_is_clean without_asked_for && [ -n "$ok" ]
}

# No page after the first one, after the second one ..., until there are enough.
no_pages() {
	local pages errors left failed=0

	mark_log
	for ((pages = 1; pages < MANY; pages++)); do
		echo $pages >"$PAGES/space"
		echo $MANY >"$PAGES/times"
		ask once "$1" || {
			msg "when there was no page but $((pages - 1))"
			log_is_clean without_asked_for
			return 1
		}
		read -r left <"$PAGES/times"
		TOTAL_PAGES=$((TOTAL_PAGES + MANY - left))
		read -r _ _ _ errors <"$PARAMS/result"
		[ "$left" -lt $MANY ] || break
		failed=$((failed + errors))
	done
	echo 0 >"$PAGES/times"
	msg "up to $((pages - 1)) pages, $failed times nothing came of it"
	log_is_clean without_asked_for && [ "$errors" = 0 ] && [ $pages -lt $MANY ]
}

# --- files ---------------------------------------------------------------

# The file has the one value or the other.
reset() { echo "$FROM" >"$FILE" && read -r BEFORE <"$FILE"; }
as_before() { read -r VALUE <"$FILE" && [ "$VALUE" = "$BEFORE" ]; }
as_wanted() { read -r VALUE <"$FILE" && [ "$VALUE" = "$AFTER" ]; }

# In VALUE, the capacity that it begins with.
create_late() {
	{ echo 0 && echo 1; } >"$PARAMS/late" && total $LATE sheaf_capacity && [ -n "$VALUE" ]
}

late_without_sheaves() { create_late && BEFORE=0 && [ "$VALUE" = 0 ]; }

# writes FROM TO FILE [RESET]: to the file, which has either value afterwards.
writes() {
	local n

	FROM=$1 TO=$2 FILE=$SLAB/$3
	mark_log
	${4:-reset} && echo "$TO" >"$FILE" && read -r AFTER <"$FILE" || return
	if [ "$AFTER" = "$BEFORE" ]; then
		msg "$3 is $AFTER, before and after"
		return 1
	fi
	for ((n = 1; ; n++)); do
		${4:-reset} || break
		exec 7>"$FILE"
		if failing $n put "$TO"; then
			exec 7>&-
			as_wanted || break
		else
			exec 7>&-
			[ "$LEFT" = 0 ] && as_before || break
		fi
		[ "$LEFT" = 0 ] || {
			msg "$3: $((n - 1)) failed"
			TOTAL=$((TOTAL + n - 1))
			[ $n -gt 1 ] && log_is_clean without_asked_for
			return
		}
	done
	msg "$3 is $VALUE, was $BEFORE, to be $AFTER, when allocation $n of $((n - LEFT)) failed"
	return 1
}

# Which comes to nothing but an error.
reads() {
	local file n nr=0

	mark_log
	for file in "$SLAB/$CACHE"/*; do
		[ -f "$file" ] && [ -r "$file" ] || continue
		for ((n = 1; ; n++)); do
			exec 7<"$file"
			failing $n get
			exec 7<&-
			[ "$LEFT" = 0 ] || break
			nr=$((nr + 1))
		done
	done
	msg "$nr failed"
	TOTAL=$((TOTAL + nr))
	[ $nr -gt 0 ] && log_is_clean without_asked_for
}

# Those of operations on their own may have all they want.
all_kinds_failed() {
	msg "$TOTAL allocations failed, $TOTAL_PAGES pages did"
	[ $TOTAL -gt 0 ] && [ $TOTAL_PAGES -gt 0 ]
}

# --- leaks ---------------------------------------------------------------

no_barns_left() {
	local before=$BARNS

	count_barns && [ "$BARNS" = "$before" ] && return
	msg "barns: $BARNS, before: $before"
	return 1
}

# -------------------------------------------------------------------------

ktap_print_header
need_root
need_stats
need_module
faults_begin || skip_all "$WHY"
make_cgroup slab_faults memory.current || msg "$WHY"
begin_leaks
count_barns
may_name_caches "test_slab_(faulty|late)"
hold_sizes "no_working_set no_pressure"
insmod "$KO" || ktap_exit_fail_msg "cannot load $KO"
OPERATIONS=("$@")
[ $# -gt 0 ] || mapfile -t OPERATIONS <"$PARAMS/operations"
ktap_set_plan $((2 * ${#OPERATIONS[@]} + 9))

for operation in "${OPERATIONS[@]}"; do
	verdict "$operation: each allocation fails once" each "$operation"
	verdict "$operation: there are no more pages" no_pages "$operation"
done
verdict "sheaf_capacity is written" writes 60 120 $CACHE/sheaf_capacity
verdict "sheaf_capacity is written, and the cache has no sheaves any more" \
	writes 60 0 $CACHE/sheaf_capacity
echo 60 >"$SLAB/$CACHE/sheaf_capacity"
verdict "barn_max_full is written" writes auto 20 $CACHE/barn_max_full
verdict "sheaf_feedback is written" writes all none $CACHE/sheaf_feedback
if create_late && [ "$VALUE" != 0 ]; then
	skip "sheaf_capacity is written, and the cache has its first sheaves" \
		"needs slab_sheaf_capacity=$LATE=0"
else
	verdict "sheaf_capacity is written, and the cache has its first sheaves" \
		writes 0 60 $LATE/sheaf_capacity late_without_sheaves
fi
verdict "all files are read" reads
rmmod $MODULE
if [ $# -eq 0 ]; then
	verdict "allocations have failed, and pages" all_kinds_failed
else
	skip "allocations have failed, and pages" "not all operations"
fi
unless_kept "no barn is left of caches that are gone, or could not be made" no_barns_left
verdict_on_leaks
ktap_finished
