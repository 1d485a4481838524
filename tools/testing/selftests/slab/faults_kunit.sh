#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The KUnit suites of the slab allocator with allocations that fail: of each test the first
# one, then the second one, and so on, until for some times no fault has a stack that none
# had before, or until the time is up. As who wants a page for objects tries twice, some of
# the pages fail then, at random, more and more of them. Whether a test passes is not what
# this is about: it has been told. But it must come to its end, and the kernel have nothing
# to complain of; no object, sheaf, cache or CPU gets lost; and the suite passes as before
# once nothing fails.
# If kmemleak is on, it has a look at the end.
#
# The suites are such as are built in, or are loaded, and are run again through debugfs. What
# runs in other tasks than that of the test does not fail. slab_barn and slab_sheaf_balance
# test what allocates nothing.
#
#   faults_kunit.sh [-a] [-p K/N] [-t SECONDS] [SUITE...]
#			all suites together take so long, about; with -p, each Nth of them,
#			from the Kth one on
#
# In so short a time as is given by default, this is a sample. With -a, all is asked for: a
# suite for which the time is up first has failed.

. "$(dirname "$0")/functions.sh"
# shellcheck source=/dev/null
. "$DIR/failing.sh"

KUNIT=$DEBUGFS/kunit
TRACEFS=/sys/kernel/tracing
TRACE=$TRACEFS/instances/slab_faults
EVENT=slab_faults/fault
PRINTK=/proc/sys/kernel/printk
# Of what a test expects, what must be so even if it was given up half way.
COMPLAINTS+='|Expected (count_sheaves|cached_objects\(s\)|held - ignored)'
COMPLAINTS+='|Expected st->(slab_errors|nr_broken)'
COMPLAINTS+='|test case timed out|internal error occurred|aborted during cleanup'
SUITES=()
STACKS=				# a file: those that have been seen
MANY=1000000000
NEVER=4000000000		# none fails, but tests are as short as with faults
TIME=240
ALL=
PART=1 PARTS=1
# So often nothing new. In 90 rounds of slab_sheaf_flush, the longest without a stack that was new
# later had 26; those of a suite that has more are told.
ENOUGH=50
SAME=				# so often for a sample, the longer it may take, the more

cleanup() {
	set_all fail_nth 0
	set_all fail_pages 0
	[ ! -d "$TRACE" ] || { echo 0 >"$TRACE/events/$EVENT/enable" && rmdir "$TRACE"; }
	echo "-:$EVENT" 2>/dev/null >>$TRACEFS/kprobe_events
	[ -z "${PRINTK_WAS:-}" ] || echo "$PRINTK_WAS" >$PRINTK
	faults_end
	[ -z "$STACKS" ] || rm -f "$STACKS"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# set_all NAME VALUE: each suite has parameters of its own.
set_all() {
	local file

	for file in /sys/module/slab_*_kunit/parameters/"$1"; do
		[ ! -w "$file" ] || echo "$2" >"$file"
	done
}

trace_faults() {
	[ -d $TRACEFS/events ] || mount -t tracefs none $TRACEFS 2>/dev/null
	WHY="no tracefs, needs CONFIG_FTRACE"
	[ -d $TRACEFS/instances ] || return
	WHY="no kprobes, needs CONFIG_KPROBE_EVENTS"
	{ echo "r:$EVENT should_fail_ex fails=\$retval:u8" >>$TRACEFS/kprobe_events; } \
		2>/dev/null || return
	mkdir "$TRACE" && echo 4096 >"$TRACE/buffer_size_kb" &&
		echo 1 >"$TRACE/options/stacktrace" && echo 1 >"$TRACE/options/sym-offset" &&
		echo "fails == 1" >"$TRACE/events/$EVENT/filter" &&
		echo 1 >"$TRACE/events/$EVENT/enable"
}

# In FAULTS how many there were, in NEW how many stacks of them that were not in $STACKS.
collect() {
	read -r FAULTS NEW < <(awk -v stacks="$STACKS" '
		function add() {
			if (stack == "" || stack in seen)
				return
			seen[stack] = 1
			print stack >>stacks
			new++
		}
		BEGIN { while ((getline line <stacks) > 0) seen[line] = 1 }
		/ fault: / { add(); stack = "-"; faults++ }
		/^ => / { stack = stack " " $2 }
		END { add(); print faults + 0, new + 0 }' "$TRACE/trace")
	echo >"$TRACE/trace"
}

# run SUITE N
run() {
	set_all fail_nth "$2"
	echo run >"$KUNIT/$1/run"
	set_all fail_nth 0
}

# The tests of a suite, in RESULTS: which of them passed, were skipped, or failed.
get_results() {
	RESULTS=$(grep -oE '^ {4}(not )?ok [0-9]+ [a-z0-9_]+( # SKIP)?' "$KUNIT/$1/results")
}

# without_faults SUITE: the results, where what takes too long to be done again has failed.
without_faults() {
	run "$1" $NEVER
	get_results "$1"
}

# Whether that is all that has failed of the suite: what fails while nothing is broken fails
# afterwards as well. In WHY, what else there is, or that nothing passed.
passes() {
	mark_log
	without_faults "$1"
	WHY=$(awk '/ FAILED at / { failed++ }
		/takes too long$/ { long++ }
		/^    ok / { passed++ }
		/^    not ok / && (!failed || failed != long) { print $4 " failed" }
		/^    (not )?ok / { failed = long = 0 }
		END { if (!passed) print "no test passed" }' "$KUNIT/$1/results")
	[ -z "$WHY" ] || msg "without any fault: ${WHY//$'\n'/, }"
	log_is_clean && [ -z "$WHY" ]
}

# A test that was skipped once is not run again by KUnit: there must be no more of them.
passes_as_before() {
	without_faults "$1"
	[ "$RESULTS" = "$BEFORE" ] && return
	msg "the suite without any fault, before and after:"
	diff <(echo "$BEFORE") <(echo "$RESULTS") | sed 's/^/# /'
	return 1
}

# Caches of tests, CPUs, and barns. A link, of a cache that was merged, stays until the next
# one of that name comes, or fails to.
get_left() {
	local cache

	read -r LEFT_NOW </sys/devices/system/cpu/online
	for cache in "$SLAB"/slab_* "$SLAB"/sheaf_kunit*; do
		[ -L "$cache" ] || [ ! -d "$cache" ] || LEFT_NOW+=" ${cache##*/}"
	done
	count_barns
	LEFT_NOW+=" $BARNS"
}

none_left() {
	get_left
	[ "$LEFT_NOW" = "$LEFT_BEFORE" ] && return
	msg "before: $LEFT_BEFORE, after: $LEFT_NOW"
	return 1
}

# tries SUITE N WHAT: and nothing of it must be left.
tries() {
	mark_log
	run "$1" "$2"
	log_is_clean without_asked_for && none_left && return
	msg "when $3"
	return 1
}

# How often pages fail, in percent, is in PERCENT. In PAGES, how many did.
without_pages() {
	local rc=0

	echo "$PERCENT" >"$DEBUGFS/fail_page_alloc/probability"
	echo $MANY >"$DEBUGFS/fail_page_alloc/times"
	set_all fail_pages 1
	tries "$1" 0 "pages failed, $PERCENT % of them" || rc=1
	set_all fail_pages 0
	read -r PAGES <"$DEBUGFS/fail_page_alloc/times"
	PAGES=$((MANY - PAGES))
	echo 0 >"$DEBUGFS/fail_page_alloc/times"
	return $rc
}

# The first allocation of each test, the second one, and so on. In FAULTS, how many have failed;
# in WHY, why no more did, and in TIME_IS_UP whether that was for the time. A test allocates at
# random, or in so many places, that there is never an end to what another round finds: how long
# it took until something was found, the longest of all times, is in GAP.
each_allocation() {
	local suite=$1 end=$2 n all=0 same=0

	GAP=0 TIME_IS_UP=
	WHY="$SAME times nothing new"
	for ((n = 1; same < SAME; n++)); do
		tries "$suite" "$n" "allocation $n failed" || return
		collect
		all=$((all + FAULTS))
		LAST=$n
		[ "$FAULTS" -gt 0 ] || {
			WHY="no test has so many"
			break
		}
		same=$((same + 1))
		[ "$NEW" -eq 0 ] || {
			[ $same -le $GAP ] || GAP=$same
			same=0
		}
		[ $SECONDS -lt "$end" ] || [ $same -ge $SAME ] || {
			WHY="the time is up" TIME_IS_UP=1
			break
		}
	done
	FAULTS=$all
}

# Whether the suite has had what was asked for.
has_had_all() {
	[ -n "$ALL" ] && [ -n "$TIME_IS_UP" ] || return 0
	msg "not all allocations have failed that may tell something new: it takes more than" \
		"$TIME s, FAULTS_SECS= or -t"
	return 1
}

# bears SUITE SECONDS
bears() {
	local suite=$1 end=$((SECONDS + $2 * 3 / 4)) begin=$SECONDS faults pages=0

	: >"$STACKS"
	passes "$suite" || return
	BEFORE=$RESULTS
	get_left
	LEFT_BEFORE=$LEFT_NOW
	echo >"$TRACE/trace"
	each_allocation "$suite" $end || return
	faults=$FAULTS
	msg "$faults faults, $(wc -l <"$STACKS") stacks, the longest time without a new one" \
		"$GAP allocations, up to allocation $LAST of each test, $WHY"
	for PERCENT in 5 20 40 60 80 100; do
		without_pages "$suite" || return
		pages=$((pages + PAGES))
	done
	msg "$pages pages failed, done in $((SECONDS - begin)) s"
	mark_log
	passes_as_before "$suite" && log_is_clean && [ "$faults" -gt 0 ] && has_had_all
}

# -------------------------------------------------------------------------

while getopts ap:t: opt; do
	case $opt in
	a) ALL=1 ;;
	p)
		PART=${OPTARG%/*} PARTS=${OPTARG#*/}
		if [[ ! "$OPTARG" =~ ^[1-9]/[1-9]$ ]] || [ "$PART" -gt "$PARTS" ]; then
			echo "faults_kunit.sh: -p $OPTARG is not a part, such as 1/2" >&2
			exit 2
		fi
		;;
	t) TIME=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
SAME=$((TIME / 24 < ENOUGH ? TIME / 24 : ENOUGH))
[ -z "$ALL" ] || SAME=$ENOUGH
ktap_print_header
need_root
faults_begin || skip_all "$WHY"
# Those that take longer are the last ones, and have what time the others have left.
for dir in "$KUNIT"/slab_sheaf_* "$KUNIT"/slab_[!s]*; do
	suite=${dir##*/}
	[ ! -w "/sys/module/${suite}_kunit/parameters/fail_nth" ] || [ ! -w "$dir/run" ] ||
		SUITES+=("$suite")
done
[ $# -eq 0 ] || SUITES=("$@")
for i in "${!SUITES[@]}"; do
	[ $((i % PARTS + 1)) -eq "$PART" ] || unset "SUITES[i]"
done
[ ${#SUITES[@]} -gt 0 ] ||
	skip_all "no KUnit suites, needs CONFIG_SLAB_SHEAF_KUNIT_TEST, CONFIG_KUNIT_DEBUGFS"
trace_faults || skip_all "$WHY"
STACKS=$(mktemp)
may_name_caches 'slab_|sheaf_'
# What is seen of a serial line takes longer than what is tested.
read -r PRINTK_WAS _ <$PRINTK
echo 3 >$PRINTK
begin_leaks
ktap_set_plan $((${#SUITES[@]} + 1))
left=${#SUITES[@]}
for suite in "${SUITES[@]}"; do
	# Who asks for all has no use for what the others would have left.
	verdict "$suite" bears "$suite" $(((TIME - SECONDS) / (ALL ? 1 : left--)))
done
verdict_on_leaks
ktap_finished
