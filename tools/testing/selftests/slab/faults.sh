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
# What the other kselftests do, and where it fails here:
#
#   prefill.sh         prefill*, refill*, return; `accounted' of its module, in a cgroup that
#                      has a limit
#   kmemleak.sh, resize.sh, sysfs.sh, slabinfo.sh, tools.sh
#                      alloc*, bulk*, free*, shrink; all files are read, and each is written
#   hotplug.sh, stress.sh
#                      a CPU goes offline and online; a module comes and goes while what it
#                      gave to kfree_rcu() waits (fail_nth.c); a cgroup with a limit is made,
#                      has objects, and is removed; create*, destroy
#   memhotplug.sh      does so itself, for a block of memory
#   the KUnit suites   faults_kunit.sh
#   idle.sh, isolated.sh, events.sh, pressure.sh, ublk_null.sh
#                      look at when, and where, the above is done: no calls of their own
#
# Only the task fails that asks: not the workers and threads that do a part of it, such as most
# of what takes a CPU offline (work_on_cpu()).
#
#   faults.sh [OPERATION...]	of the calls, these only

. "$(dirname "$0")/functions.sh"
# shellcheck source=/dev/null
. "$DIR/failing.sh"

MODULE=test_slab_faults
PARAMS=/sys/module/$MODULE/parameters
CACHE=test_slab_faults
LATE=test_slab_late
RCU_MODULE=test_slab_rcu
PREFILL=test_slab_prefill
GROUP=
CPU=
PAGES=$DEBUGFS/fail_page_alloc
MANY=10000
RCU_CACHE=test_slab_unload
OBJECTS=20			# freed by a module, on each CPU
LIMIT=$((64 << 20))		# of a cgroup, which is never reached
ENOMEM=12
VMALLOC_FAILS="vmalloc error: "
OPERATIONS=()
TOTAL=0
TOTAL_PAGES=0

cleanup() {
	local name

	disarm
	for name in $MODULE $RCU_MODULE $PREFILL; do
		[ ! -d "/sys/module/$name" ] || rmmod "$name"
	done
	[ -z "$CPU" ] || echo 1 >"$CPU"
	[ ! -d "$GROUP" ] || rmdir "$GROUP"
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

# writes FROM TO FILE [RESET [CHECK]]: to the file, which has either value afterwards, and CHECK
# succeeds.
writes() {
	local n

	FROM=$1 TO=$2 FILE=$3
	[[ $FILE = /* ]] || FILE=$SLAB/$FILE
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
		${5:-:} || break
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

# told FILE TEXT: it is written, of which nothing can be read afterwards. Adds to NR.
told() {
	local n rc

	for ((n = 1; ; n++)); do
		rc=0
		exec 7>"$1"
		failing $n put "$2" || rc=$?
		exec 7>&-
		[ "$LEFT" = 0 ] || break
		NR=$((NR + 1))
	done
	[ $rc -eq 0 ] || msg "$1: $2 cannot be written, although nothing has failed"
	return $rc
}

# is_told FILE TEXT [FILE TEXT]...
is_told() {
	local NR=0

	mark_log
	while [ $# -gt 0 ]; do
		told "$1" "$2" || return
		shift 2
	done
	msg "$NR failed"
	TOTAL=$((TOTAL + NR))
	[ $NR -gt 0 ] && log_is_clean without_asked_for
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

# --- CPUs ----------------------------------------------------------------

# The last of those that can go offline.
find_cpu() {
	local file

	for file in /sys/devices/system/cpu/cpu[0-9]*/online; do
		[ ! -w "$file" ] || CPU=$file
	done
	[ -n "$CPU" ]
}

# With objects in the sheaves of each CPU, which has freed some.
reset_cpu() {
	[ ! -d "/sys/module/$RCU_MODULE" ] || rmmod $RCU_MODULE || return
	echo 1 >"$CPU" && insmod "$RCU_KO" objects=100 isolated=0 rcu=0 && reset
}

# What went offline has given them back.
none_lost() {
	local all

	! has_quarantine || return 0
	total $RCU_CACHE objects
	all=$VALUE
	total $RCU_CACHE sheaf_objects
	[ "$VALUE" = "$all" ] && return
	msg "$RCU_CACHE/sheaf_objects is $VALUE, $RCU_CACHE/objects $all"
	return 1
}

# cpu_goes NAME FROM TO
cpu_goes() {
	if [ -n "$CPU" ]; then
		verdict "$1" writes "$2" "$3" "$CPU" reset_cpu none_lost
	else
		skip "$1" "no CPU can go offline"
	fi
	[ ! -d "/sys/module/$RCU_MODULE" ] || rmmod $RCU_MODULE
}

# --- modules and cgroups -------------------------------------------------

# calls BEFORE IS CALL...: after BEFORE, the call is made. IS tells whether it was: if not,
# it was for want of memory, and for nothing else.
calls() {
	local before=$1 is=$2 n

	shift 2
	mark_log
	for ((n = 1; n < MANY; n++)); do
		$before || break
		read -r LEFT ERROR < <("$DIR/fail_nth" $n "$@")
		if $is; then
			[ "$ERROR" = 0 ] || break
		else
			[ "$ERROR" = $ENOMEM ] && [ "$LEFT" = 0 ] || break
		fi
		[ "$LEFT" = 0 ] || {
			msg "$((n - 1)) failed"
			TOTAL=$((TOTAL + n - 1))
			log_is_clean in_calls && [ $n -gt "${LEAST:-1}" ]
			return
		}
	done
	msg "$1 $2: error $ERROR when allocation $n of $((n - LEFT)) failed"
	log_is_clean in_calls
	return 1
}

in_calls() { without_asked_for | without_reports "$VMALLOC_FAILS"; }

# There is neither the module nor its cache.
unloaded() {
	[ ! -d "/sys/module/$RCU_MODULE" ] || rmmod $RCU_MODULE
	is_unloaded
}

is_unloaded() { [ ! -d "/sys/module/$RCU_MODULE" ] && [ ! -e "$SLAB/$RCU_CACHE" ]; }

is_loaded() { ! is_unloaded; }

loaded() { is_loaded || insmod "$RCU_KO" objects=$OBJECTS isolated=0; }

# The cgroup is there, has a limit, and has been charged; a file that was opened there still is.
grouped() {
	is_grouped || mkdir "$GROUP" || return
	echo $LIMIT >"$GROUP/memory.max" && move_to "$GROUP" || return
	exec 6</dev/null
	echo alloc_account >"$PARAMS/once" && move_to "$CGROUP_ROOT"
}

ungrouped() {
	! is_grouped || rmdir "$GROUP"
}

is_grouped() { [ -d "$GROUP" ]; }

is_ungrouped() { ! is_grouped; }

accounted_is_told() {
	local rc=0

	insmod "$DIR/test_modules/$PREFILL.ko" && move_to "$CGROUP" || return
	is_told "/sys/module/$PREFILL/parameters/accounted" 500 || rc=1
	move_to "$CGROUP_ROOT" && rmmod $PREFILL && return $rc
}

# if_grouped NAME COMMAND...
if_grouped() {
	if [ -n "$CGROUP" ]; then
		verdict "$@"
	else
		skip "$1" "no memory controller in cgroup v2"
	fi
}

# -------------------------------------------------------------------------

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
may_name_caches "test_slab_(faulty|late|unload)"
hold_sizes "no_working_set no_pressure"
insmod "$KO" || ktap_exit_fail_msg "cannot load $KO"
OPERATIONS=("$@")
[ $# -gt 0 ] || mapfile -t OPERATIONS <"$PARAMS/operations"
find_cpu
ktap_set_plan $((2 * ${#OPERATIONS[@]} + 19))

for operation in "${OPERATIONS[@]}"; do
	verdict "$operation: each allocation fails once" each "$operation"
	verdict "$operation: there are no more pages" no_pages "$operation"
done
verdict "sheaf_capacity is written" writes 28 120 $CACHE/sheaf_capacity
verdict "sheaf_capacity is written, and the cache has no sheaves any more" \
	writes 28 0 $CACHE/sheaf_capacity
echo 60 >"$SLAB/$CACHE/sheaf_capacity"
verdict "barn_max_full is written" writes auto 20 $CACHE/barn_max_full
verdict "barn_max_empty is written" writes auto 20 $CACHE/barn_max_empty
verdict "sheaf_feedback is written" writes all none $CACHE/sheaf_feedback
TOLD=("$SLAB/$CACHE/shrink" 1 "$SLAB/$CACHE/sheaf_decisions" 0)
for name in $COUNTERS; do
	TOLD+=("$SLAB/$CACHE/$name" 0)
done
verdict "shrink and all counters are written" is_told "${TOLD[@]}"
if create_late && [ "$VALUE" != 0 ]; then
	skip "sheaf_capacity is written, and the cache has its first sheaves" \
		"needs slab_sheaf_capacity=$LATE=0"
else
	verdict "sheaf_capacity is written, and the cache has its first sheaves" \
		writes 0 60 $LATE/sheaf_capacity late_without_sheaves
fi
verdict "all files are read" reads
cpu_goes "a CPU goes offline" 1 0
cpu_goes "a CPU comes online" 0 1
verdict "a module with caches comes" \
	calls unloaded is_loaded load "$RCU_KO" "objects=$OBJECTS isolated=0"
verdict "a module goes, and frees by kfree_rcu() until then" \
	calls loaded is_unloaded unload $RCU_MODULE
unloaded
if_grouped "the limit of a cgroup is written" writes max $LIMIT "$CGROUP/memory.max"
if_grouped "a prefilled sheaf, whose objects are charged to it" accounted_is_told
GROUP=$CGROUP_ROOT/slab_faulty.$$
if_grouped "a cgroup comes" calls ungrouped is_grouped mkdir "$GROUP"
# All it takes may be there.
LEAST=0
if_grouped "a cgroup that has objects goes" calls grouped is_ungrouped rmdir "$GROUP"
LEAST=
exec 6<&-
rmmod $MODULE
if [ $# -eq 0 ]; then
	verdict "allocations have failed, and pages" all_kinds_failed
else
	skip "allocations have failed, and pages" "not all operations"
fi
unless_kept "no barn is left of caches that are gone, or could not be made" no_barns_left
verdict_on_leaks
ktap_finished
