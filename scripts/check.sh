#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The tests that fit into the time somebody waits for: style, the tooling on a small fake
# kernel, the series as mails, three kernels, and their boots with KUnit and the kselftests on
# the machines that matter. Boots of a built kernel run while the next one is built, as many
# things at a time as there are processors. Needs the laid tree (make tree); prints a line per
# check and ends with `N passed, N failed'.
#
#   CHECK_SECS=N   who has so much time only: what has not begun N seconds after the start is
#                  left out, and named, also at the end

. "$(dirname "$0")/lib.sh"
no_arguments "$@"

# Each boot here has its own machine.
unset TOPOLOGY CPUS APPEND
CHECK_SECS=${CHECK_SECS:-}
DIR=$LOGS/check
RESULTS=$DIR/results
FAILURES=$DIR/failures
LEFT_OUT=$DIR/left-out
# What is allowed a check, in seconds: a kernel takes ten minutes where two are built.
LONGEST=1800
BOOTS=()

[[ "$CHECK_SECS" =~ ^([1-9][0-9]{0,5})?$ ]] || die "CHECK_SECS=$CHECK_SECS is not a number of seconds"
args_end_here

rm -rf "$DIR"
mkdir -p "$DIR"
: >"$RESULTS"
: >"$FAILURES"
: >"$LEFT_OUT"

stop() {
	local pid

	for pid in "${BOOTS[@]}"; do
		kill -- "-$pid" 2>/dev/null || :
	done
}
trap stop EXIT
trap 'exit 130' INT TERM

# Appended by name: background boots write here too.
result() { echo "$1" >>"$RESULTS"; }

# results N RESULT
results() {
	local i

	for ((i = 0; i < $1; i++)); do
		result "$2"
	done
}

# So many builds and guests at a time as there are processors, in SLOT, which is then locked:
# with more of them, what must be done in time is not. Builds come first, as boots wait for them.
take_slot() {
	local i

	[ $BASHPID -ne $$ ] || touch "$DIR/first"
	while :; do
		for ((i = 0; i < $(nproc); i++)); do
			[ $BASHPID -eq $$ ] || [ ! -e "$DIR/first" ] || break
			exec {SLOT}>"$DIR/slot-$i"
			if flock -n "$SLOT"; then
				[ $BASHPID -ne $$ ] || rm "$DIR/first"
				return
			fi
			exec {SLOT}>&-
		done
		sleep 1
	done
}

# Others may have the file open, who were started meanwhile.
give_slot() {
	flock -u "$SLOT"
	exec {SLOT}>&-
}

# late NAME: whether there is no time for it any more; then it is told.
late() {
	[ -n "$CHECK_SECS" ] && [ $(($(date +%s) - SHEAVES_T0)) -ge "$CHECK_SECS" ] || return 1
	echo "$1" >>"$LEFT_OUT"
	say "left out $1: CHECK_SECS=$CHECK_SECS is over"
}

# in_slot NAME LOG COMMAND...: run it, when there is a slot, with its output in LOG. There is no
# LOG if there is no time for it. Sets T0 to when it began.
in_slot() {
	local name=$1 log=$2 rc=0

	shift 2
	take_slot
	T0=$SECONDS
	late "$name" || "$@" >"$log" 2>&1 </dev/null || rc=$?
	give_slot
	return $rc
}

# complain WHAT LOG: the line and, from standard input, what shows why. Both are
# told again at the end: of a long output people often have that only.
complain() {
	{
		say "FAILED  $1, see $(rel "$2")"
		sed 's/^/        | /'
	} | tee -a "$FAILURES"
}

# descent PID: it, and who came of it.
descent() {
	local pid

	echo "$1"
	for pid in $(pgrep -P "$1"); do
		descent "$pid"
	done
}

# limited COMMAND...: what hangs is ended, and what ran then is in the log.
limited() {
	local pid pids watch rc=0

	"$@" &
	pid=$!
	{
		sleep "$LONGEST"
		echo "# no end within $LONGEST s:"
		ps -N --ppid 2 -p 2 -o pid,ppid,etimes,stat,wchan:20,args --forest
		mapfile -t pids < <(descent $pid)
		kill "${pids[@]}"
		sleep 10
		kill -KILL "${pids[@]}"
	} 2>/dev/null &
	watch=$!
	wait $pid || rc=$?
	mapfile -t pids < <(descent $watch)
	kill "${pids[@]}" 2>/dev/null || :
	wait $watch 2>/dev/null || :
	return $rc
}

# check NAME COMMAND...: one check. A log by its name; the end of it if it fails.
check() {
	local name=$1 log rc=0

	shift
	log=$DIR/${name//[^a-z0-9_=-]/-}.log
	in_slot "$name" "$log" limited "$@" || rc=$?
	[ -e "$log" ] || return 1
	if [ $rc -eq 0 ]; then
		result ok
		say "ok      $name ($((SECONDS - T0)) s)"
	else
		result failed
		tail -n 30 "$log" | complain "$name ($((SECONDS - T0)) s)" "$log"
		return 1
	fi
}

# tap NAME SCRIPT: each line of TAP is a check.
tap() {
	local name=$1 log=$DIR/$1.log good bad

	LONGEST=900 in_slot "$name" "$log" limited "$SCRIPTS/tests/$2" ||
		echo "not ok - $2 ran to its end" >>"$log"
	[ -e "$log" ] || return 0
	good=$(grep -c '^ok ' "$log" || :)
	bad=$(grep -c '^not ok ' "$log" || :)
	results "$good" ok
	results "$bad" failed
	if [ "$good" -eq 0 ]; then
		result failed
		bad=1
	fi
	if [ "$bad" -eq 0 ]; then
		say "ok      $name: $good tests ($((SECONDS - T0)) s)"
	else
		sed -n '/^not ok/,/^ok/{/^ok/!p}' "$log" |
			complain "$name: $bad of $((good + bad)) tests ($((SECONDS - T0)) s)" "$log"
	fi
}

# boot CONFIG NAME [VARIABLE=VALUE...]: boot, judge splats and KUnit.
boot() {
	local config=$1 name=$2

	shift 2
	check "boot $config $name" env "$@" "$SCRIPTS/boot.sh" -n "check-$config-$name" "$config" \
		"python3 -B $SCRIPTS/guest/report.py" || :
	grep -hs '^KUnit' "$DIR/boot-$config-$name.log" | sed 's/^/          /' || :
}

# selftest TOPOLOGY [TEST...]: the kselftests, each of which is a check.
selftest() {
	local log=$DIR/selftest-$1.log good bad rc=0

	in_slot "selftests $1" "$log" env TOPOLOGY="$1" "$SCRIPTS/selftest.sh" "${@:2}" || rc=$?
	[ -e "$log" ] || return 0
	good=$(grep -cE '^\[ *[0-9:]+\] ok  ' "$log" || :)
	bad=$(grep -cE '^\[ *[0-9:]+\] FAILED ' "$log" || :)
	results "$good" ok
	results "$bad" failed
	if [ "$bad" -eq 0 ] && [ "$good" -gt 0 ] && [ $rc -eq 0 ]; then
		say "ok      selftests $1: $good tests ($((SECONDS - T0)) s)"
	else
		[ "$bad" -gt 0 ] || result failed
		tail -n 60 "$log" | complain "selftests $1 ($((SECONDS - T0)) s)" "$log"
	fi
}

# What of the series a kernel has that is not built here: without a warning, and no more.
compiles() {
	check "mm of $1 compiles" "$SCRIPTS/kernel.sh" -p "$1" mm/ lib/tests/ || return 0
	check "mm of $1 without warnings" no_warnings "$1" || :
}

no_warnings() { ! grep -A3 warning: "$LOGS/kernel-$1.log"; }

built() {
	say "        building the $1 kernel"
	check "kernel $1" "$SCRIPTS/kernel.sh" "$1" || return 1
	check "kernel $1 without warnings" no_warnings "$1" || :
}

# In a process group of its own, for stop.
in_background() {
	set -m
	"$@" &
	set +m
	BOOTS+=($!)
}

# kernel CONFIG BOOTS: build, then run the function BOOTS in the background.
kernel() { ! built "$1" || in_background "$2"; }

boots_guest() {
	boot guest 1cpu TOPOLOGY=1cpu
	boot guest 4cpu TOPOLOGY=4cpu
	boot guest 2node TOPOLOGY=2node
	boot guest 3node TOPOLOGY=3node APPEND="init_on_alloc=1 init_on_free=1"
	boot guest memoryless TOPOLOGY=memoryless
	boot guest memonly TOPOLOGY=memonly
	boot guest slab_debug APPEND=slab_debug=FZPU
	boot guest capacity-0 APPEND=slab_sheaf_capacity=0
	tap guest-tests guest.sh
	tap report-tests reports.sh
	tap module-tests module.sh
	tap selftest-build-tests selftests.sh
	selftest 4cpu
	# Those for which it counts that most nodes have CPUs, but no memory.
	selftest memoryless ublk_null.sh hotplug.sh resize.sh
}
boots_hardened() {
	boot hardened 4cpu TOPOLOGY=4cpu
	check "attacks as documented" env VIEW=check "$SCRIPTS/attacks.sh" || :
}
boots_debug() { boot debug 4cpu TOPOLOGY=4cpu; }

[ -d "$TREE/.git" ] || die "there is no $(rel "$TREE"), run: make tree"
# Three kernels, parts of others, a second work tree and the peer's source; where some of it is
# there, it has been begun, and each of them looks for itself.
[ -e "$OBJ/guest/vmlinux" ] || need_space "$OUT" "${NEED_GB:-9}" "make check"

# What takes seconds comes first. Then kernels, of which those whose boots take longest come
# before the others, so that one processor boots while the other compiles; and while the last
# guests are busy, what needs no kernel.
check "lint scripts" "$SCRIPTS/lint.sh" scripts || :
tap args-tests args.sh
tap splat-tests splat.sh
tap judge-tests judge.sh
tap cross-tests cross.sh
tap check-all-tests checkall.sh
tap tree-tests tree.sh
tap series-tests series.sh
tap bases-tests bases.sh
tap bench-tests bench.sh
tap bench-real-tests real.sh
tap mutants-tests mutlist.sh
check "mutants fit the tree" python3 -B "$SCRIPTS/tests/mutants.py" lay \
	"$SCRIPTS/tests/kunit.mutants" "$TREE" "$DIR/mutants" || :
check "series by git am" "$SCRIPTS/series.sh" || :
check "lint maintainers" "$SCRIPTS/lint.sh" maintainers || :
HARDENED=
if built guest; then
	# It begins as a copy of the other one, which nobody must use meanwhile.
	! built hardened || HARDENED=1
	in_background boots_guest
fi
kernel debug boots_debug
[ -z "$HARDENED" ] || in_background boots_hardened
compiles rt
compiles tiny
check "lint checkpatch" "$SCRIPTS/lint.sh" checkpatch || :
tap native native.sh
check "lint compile" "$SCRIPTS/lint.sh" compile || :
wait

if [ -s "$FAILURES" ]; then
	say "        what failed, once more:"
	cat "$FAILURES"
fi
if [ -s "$LEFT_OUT" ]; then
	say "        left out, as CHECK_SECS=$CHECK_SECS was over:"
	sed 's/^/          /' "$LEFT_OUT"
fi
passed=$(grep -c ok "$RESULTS" || :)
failed=$(grep -c failed "$RESULTS" || :)
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
