#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A machine with nothing to do has nothing to do for the allocator, either: no work item,
# no timer, no interrupt, on any CPU, once what a load has left behind is given back.
# How that is seen, and told from what others do: trace.sh.

. "$(dirname "$0")/functions.sh"
# shellcheck source=/dev/null
. "$DIR/trace.sh"

SECS=30
SETTLE=180
REST=30
ROUND="function sheaves_round_fn"
TMP=

while getopts s:h opt; do
	case $opt in
	s) SECS=$OPTARG ;;
	*)
		echo "usage: idle.sh [-s SECONDS]: be idle for so long, $SECS" >&2
		exit 2
		;;
	esac
done

cleanup() {
	trace_end
	[ ! -d "/sys/module/$MODULE" ] || rmmod "$MODULE"
	[ -z "$TMP" ] || rm -rf "$TMP"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# rounds: how many there have been since the trace began, in VALUE.
rounds() { VALUE=$(trace_lines | grep -c "workqueue_execute_start: .*$ROUND"); }

# Something to be given back, or the watch shows nothing.
load_is_seen() {
	trace_on
	insmod "$KO" run=1 isolated=0 || return
	sleep 6
	rmmod "$MODULE" || return
	trace_off
	rounds
	msg "$VALUE rounds under load"
	[ "$VALUE" -gt 0 ]
}

# No fork: a process that begins is a load, too.
pause() { read -r -t "$1" -u 8; }

# And so is to look at a trace. What it leaves behind takes a few rounds.
rest() { pause $REST; }

# Rounds end by themselves: none for as long as three of them take.
settles() {
	local t0=$SECONDS

	while rest; trace_on; pause 6; trace_off; rounds; [ "$VALUE" -ne 0 ]; do
		[ $((SECONDS - t0)) -lt $SETTLE ] || {
			msg "$VALUE rounds in the last 6 s, $((SECONDS - t0)) s after the load"
			return 1
		}
	done
	msg "no round any more $((SECONDS - t0)) s after the load"
}

stays_idle() {
	rest
	trace_on
	pause "$SECS"
	trace_off
	trace_complete || return
	trace_ours >"$TMP/ours"
	msg "$(wc -l <"$TMP/ours") executions for the allocator in $SECS s"
	[ -s "$TMP/ours" ] || return 0
	sort "$TMP/ours" | uniq -c | sort -rn | head -n 10 | sed 's/^/#   /'
	return 1
}

ktap_print_header
need_root
[ -e "$FEEDBACK" ] || skip_all "sizes do not follow the load in this kernel"
need_module
# What others do in the meantime has to have room, for each CPU.
# shellcheck disable=SC2034
TRACE_KB=$((SECS > 40 ? 100 * SECS : 4096))
trace_begin || skip_all "$WHY"
TMP=$(mktemp -d) || exit 1
# a pipe that nobody writes to
mkfifo "$TMP/never" && exec 8<>"$TMP/never" || exit 1
ktap_set_plan 3

verdict "what a load leaves behind is looked at" load_is_seen
verdict "this ends" settles
verdict "an idle machine stays idle" stays_idle
ktap_finished
