#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Why a case of make bench-real takes longer under the series than under its base, or not as
# long: where the time goes in both, side by side.
#
#   CASE=NAME      of scripts/bench/real/real.sh --list
#   TOPOLOGY=NAME  the machine (1cpu, where instructions are counted; else it is time)
#   ROUNDS=N       how often the case is run in each guest (3)
#   PERIOD=NS      a sample each so many nanoseconds (50000)
#   LOCKS=1        also what locks are waited for; that takes a kernel of its own, with
#                  tracepoints, configuration `bench-locks'
#   PEER=VERSION   a third kernel
#   KEEP=1         take kernels and programs as they are
#   OURS=COMMIT    of build/linux, instead of the whole series
#
# By perf record with the CPU clock, in a guest of each kernel, which is the one that make
# bench-real measures, and perf lock contention. The clock is a timer: what runs with
# interrupts disabled is counted where they are enabled again. Needs the laid tree (make
# tree) and what make bench-real needs. Prints a table of symbols, by the difference, and
# the locks; writes all of it to build/bench/real/profile-CASE.md.

. "$(dirname "$0")/lib.sh"
no_arguments "$@"

HERE=$SCRIPTS/bench
REAL=$HERE/real/real.sh
DIR=$OUT/bench/real
CONFIG=bench
CASE=${CASE:-} ROUNDS=${ROUNDS:-3} PERIOD=${PERIOD:-50000} PEER=${PEER:-} KEEP=${KEEP:-} LOCKS=${LOCKS:-}
TOPOLOGY=${TOPOLOGY:-1cpu}
OURS=${OURS:-refs/sheaves/laid}
GUEST_PID=''

stop() { [ -z "$GUEST_PID" ] || kill "$GUEST_PID" 2>/dev/null || :; }
trap stop EXIT
trap 'exit 130' INT TERM

step() {
	STEP=$((STEP + 1))
	say "step $STEP/$STEPS $*"
}

build() {
	local args=()

	[ "$1" != peer ] || args=(-u)
	step "building $CONFIG for $1"
	"$SCRIPTS/kernel.sh" -d "$OUT/bench/$1" "${args[@]}" "$CONFIG"
	"$HERE/real/idle.sh" "$OUT/bench/$1" "$CONFIG"
}

# Waited for in the background, so that a signal ends the guest.
run() {
	local accel=single rc=0 raw=$DIR/profile-$CASE.$1
	local command="PERIOD=$PERIOD LOCKS=$LOCKS IDLE=$OUT/bench/$1/idle-$CONFIG/idle.ko"

	command+=" bash $REAL profile $ROUNDS $DIR $CASE"
	[ "$TOPOLOGY" != 1cpu ] || accel=icount
	step "$CASE under $1, on $TOPOLOGY"
	env CPUS='' TOPOLOGY="$TOPOLOGY" "$SCRIPTS/guest.sh" -n "profile-$CASE-$1" -t 3600 \
		-d "$OUT/bench/$1" -a $accel "$CONFIG" \
		"$command" >"$raw" </dev/null &
	GUEST_PID=$!
	wait $GUEST_PID || rc=$?
	GUEST_PID=
	[ $rc -ne 0 ] || return 0
	# what is wrong has been said
	{ grep '^real.sh: ' "$raw" || :; } | tail -n 1 | sed 's/^/  | /' >&2
	say "no profile of $1, its output is in $(rel "$raw")"
	exit 1
}

KNOWN=$("$REAL" --list | paste -sd' ')
[ -n "$CASE" ] || die "CASE= is not given, choose among $KNOWN"
[[ "$CASE" != *[[:space:]]* && " $KNOWN " == *" $CASE "* ]] ||
	die "CASE: no \`$CASE', choose among $KNOWN"
[[ ", $("$SCRIPTS/guest.sh" --list | sed 's/ or /, /')," == *", $TOPOLOGY,"* ]] ||
	die "no topology \`$TOPOLOGY', choose $("$SCRIPTS/guest.sh" --list)"
[[ "$ROUNDS" =~ ^[1-9][0-9]?$ ]] || die "ROUNDS=$ROUNDS is not a number from 1 to 99"
# the kernel takes no less
[[ "$PERIOD" =~ ^[1-9][0-9]{4,8}$ ]] || die "PERIOD=$PERIOD is not a number of nanoseconds from 10000"
[[ "$KEEP" =~ ^1?$ ]] || die "KEEP=$KEEP is not 1"
[[ "$LOCKS" =~ ^1?$ ]] || die "LOCKS=$LOCKS is not 1"
[ -z "$PEER" ] || check_peer "$PEER"
[ ! -e "$TREE/.git" ] || is_commit "$OURS" || die "OURS=$OURS is no commit of $(rel "$TREE")"
args_end_here
[ -e "$TREE/.git" ] || die "there is no $(rel "$TREE"), run: make tree"
need_tool python3 qemu-system-x86_64
[ -z "$LOCKS" ] || CONFIG=bench-locks
KERNELS=(base ours)
[ -z "$PEER" ] || KERNELS+=(peer)

lock bench
mkdir -p "$DIR"
STEP=0 STEPS=${#KERNELS[@]}
if [ -z "$KEEP" ]; then
	STEPS=$((2 * ${#KERNELS[@]} + 1))
	for kernel in "${KERNELS[@]}"; do
		lay_kernel "$kernel"
	done
	for kernel in "${KERNELS[@]}"; do
		build "$kernel"
	done
	step "building the programs"
	"$HERE/real/root.sh" "$DIR" "$OUT/bench/ours/linux" "$OUT/bench/ours/obj/$CONFIG"
fi
FILES=()
for kernel in "${KERNELS[@]}"; do
	run "$kernel"
	FILES+=("$kernel=$DIR/profile-$CASE.$kernel")
done
python3 -B "$HERE/real/profile.py" "$CASE, $TOPOLOGY" "$PERIOD" "${FILES[@]}" >"$DIR/profile.new" ||
	exit 1
mv "$DIR/profile.new" "$DIR/profile-$CASE.md"
cat "$DIR/profile-$CASE.md"
say "wrote $(rel "$DIR/profile-$CASE.md"); logs are $(rel "$LOGS")/profile-$CASE-*.log"
