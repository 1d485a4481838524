#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The KUnit suites of the slab allocator with allocations that fail: of each test the first
# one, then the second one, and so on, until faults have no stack any more that was not
# there before, for some times, or there are none. Whether a test passes then, is not what
# this is about: it has been told. But the kernel must have nothing to complain of, each run
# must come to its end, and the suite passes afterwards, when nothing fails.
#
# The suites are such as are built in, or are loaded, and are run again through debugfs.

. "$(dirname "$0")/functions.sh"
# shellcheck source=/dev/null
. "$DIR/failing.sh"

KUNIT=$DEBUGFS/kunit
SUITES=()
TRACEFS=/sys/kernel/tracing
TRACE=$TRACEFS/instances/slab_faults
EVENT=slab_faults/fault
STACKS=				# a file: those that have been seen
SAME=3				# so often nothing new
MOST=${1:-60}			# faults in each test

cleanup() {
	set_nth 0
	[ ! -d "$TRACE" ] || { echo 0 >"$TRACE/events/$EVENT/enable" && rmdir "$TRACE"; }
	echo "-:$EVENT" 2>/dev/null >>$TRACEFS/kprobe_events
	faults_end
	[ -z "$STACKS" ] || rm -f "$STACKS" "$STACKS".*
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# Where each suite has its number is its module's business.
set_nth() {
	local file

	for file in /sys/module/slab_*_kunit/parameters/fail_nth; do
		[ ! -w "$file" ] || echo "$1" >"$file"
	done
}

trace_faults() {
	[ -d $TRACEFS/events ] || mount -t tracefs none $TRACEFS 2>/dev/null
	WHY="no tracefs"
	[ -d $TRACEFS/instances ] || return
	WHY="no kprobes"
	{ echo "r:$EVENT should_fail_ex fails=\$retval:u8" >>$TRACEFS/kprobe_events; } 2>/dev/null || return
	mkdir "$TRACE" && echo 4096 >"$TRACE/buffer_size_kb" &&
		echo 1 >"$TRACE/options/stacktrace" && echo 1 >"$TRACE/options/sym-offset" &&
		echo "fails == 1" >"$TRACE/events/$EVENT/filter" &&
		echo 1 >"$TRACE/events/$EVENT/enable"
}

# What has no line of its own yet in $STACKS, a line for each stack; in FAULTS how many there
# were, in NEW how many new ones.
collect() {
	awk '/ fault: / { if (stack != "") print stack; stack = "-" }
		/^ => / { stack = stack " " $2 }
		END { if (stack != "") print stack }' "$TRACE/trace" >"$STACKS.now"
	echo >"$TRACE/trace"
	FAULTS=$(wc -l <"$STACKS.now")
	sort -u "$STACKS.now" | comm -13 "$STACKS" - >"$STACKS.new"
	NEW=$(wc -l <"$STACKS.new")
	sort -u -o "$STACKS" "$STACKS" "$STACKS.new"
}

run() { echo run >"$KUNIT/$1/run"; }

# The kernel says that a test has failed, and that a cache could not be made.
without_asked_for() {
	sed -E '/kmem_cache_create_args\(slab_[a-z0-9_]*\) failed with error -(12|22)/,/<\/TASK>/d; /# .*: .* FAILED/d
		/EXPECTATION FAILED|ASSERTION FAILED/d'
}

# The line of the suite is the last one of its results.
passes() {
	run "$1"
	grep -v '^ ' "$KUNIT/$1/results" | grep -q "^ok .* $1\$" && return
	msg "the suite fails without any fault:"
	grep 'not ok' "$KUNIT/$1/results" | sed 's/^/# /'
	return 1
}

bears() {
	local suite=$1 n same=0 faults=0

	: >"$STACKS"
	for ((n = 1; n <= MOST && same < SAME; n++)); do
		mark_log
		set_nth "$n"
		run "$suite"
		set_nth 0
		log_is_clean without_asked_for || {
			msg "when allocation $n failed"
			return 1
		}
		collect
		faults=$((faults + FAULTS))
		[ "$FAULTS" -gt 0 ] || break
		if [ "$NEW" -gt 0 ]; then same=0; else same=$((same + 1)); fi
	done
	msg "$faults faults, $(wc -l <"$STACKS") stacks, up to allocation $((n - 1)) of each test"
	mark_log
	passes "$suite" && log_is_clean && [ $faults -gt 0 ]
}

# -------------------------------------------------------------------------

ktap_print_header
need_root
faults_begin || skip_all "$WHY"
for dir in "$KUNIT"/slab_*; do
	suite=${dir##*/}
	[ ! -w "/sys/module/${suite}_kunit/parameters/fail_nth" ] || [ ! -w "$dir/run" ] || SUITES+=("$suite")
done
[ ${#SUITES[@]} -gt 0 ] || skip_all "no KUnit suites, needs CONFIG_SLAB_SHEAF_KUNIT_TEST, CONFIG_KUNIT_DEBUGFS"
trace_faults || skip_all "$WHY"
STACKS=$(mktemp)
ktap_set_plan ${#SUITES[@]}
for suite in "${SUITES[@]}"; do
	verdict "$suite" bears "$suite"
done
ktap_finished
