#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Measure real programs under the series and its base, and with PEER=7.2 under mainline's
# sheaves in Debian's linux-source-7.2: perf bench, hackbench, stress-ng, what will-it-scale
# does, iperf3, trees of files, fio, sqlite3 and redis, see scripts/bench/real/real.sh.
# The kernels are those of make bench, configuration `bench'; mainline's gets a patch that
# tells how long it is idle, scripts/bench/real/idle/peer.patch. On one CPU all instructions
# are counted, the kernel's threads and interrupts included, idle excluded. On four it is time,
# by a clock that an instruction takes a nanosecond further, whichever CPU it is of, as QEMU
# lets them take turns: so what this host does meanwhile does not show, but nor does what CPUs
# do to each other's caches. For iperf3 and redis, for fio-ublk where there is PEER=, and with
# 32 CPUs it is the time of this host. The kernels take turns. With it, Slab and partial slabs
# at the peak of each case and after it.
#
#   ROUNDS=N       guests of each kernel and machine (3), two at most where instructions
#                  are counted
#   PEER=VERSION   a third kernel
#   CASES=A,B      only these cases
#   MACHINES=A,B   only these machines, of 1cpu, 4cpu, memoryless
#   OURS=COMMIT    of build/linux, instead of the whole series
#   KEEP=1         take kernels and programs as they are
#   RESUME=1       go on with a run that was interrupted: what guests have printed is taken,
#                  if it is of the same kernels and cases
#   RESULTS=DIR    where to write: bench/real, with CASES=, MACHINES= or KERNEL_SRC=
#                  build/bench/real/results
#
# Needs the laid tree (make tree) and what kernels and guests need. Prints the tables;
# writes results.json, results.md, counters.md and charts, all of them when all is
# measured or none; what the guests printed until then stays in build/bench/real/unfinished.
# Fails when a program does, never for being slow.

. "$(dirname "$0")/lib.sh"
no_arguments "$@"
. "$SCRIPTS/bench/results.sh"

HERE=$SCRIPTS/bench
REAL=$HERE/real/real.sh
DIR=$OUT/bench/real
CONFIG=bench
ALL_MACHINES=1cpu,4cpu,memoryless
ROUNDS=${ROUNDS:-3}
# Rounds in a guest: where several CPUs take turns, none is like the other.
declare -A INNER=([busy]=2 [time]=3)
PEER=${PEER:-}
OURS=${OURS:-refs/sheaves/laid}
CASES=${CASES:-} MACHINES=${MACHINES:-} KEEP=${KEEP:-} RESUME=${RESUME:-}
# So many guests are booted for a figure, if QEMU crashes.
TRIES=3
GUEST_PID='' NEW=''

stop() {
	[ -z "$GUEST_PID" ] || kill "$GUEST_PID" 2>/dev/null || :
	[ -n "$NEW" ] || return 0
	# what guests have printed took its time
	if compgen -G "$NEW/raw/*" >/dev/null; then
		rm -rf "$DIR/unfinished"
		stamp >"$NEW/raw/stamp"
		mv "$NEW/raw" "$DIR/unfinished"
	fi
	rm -rf "$NEW"
}

# What figures are of, so that none of something else are taken for it.
stamp() {
	local kernel

	for kernel in "${KERNELS[@]}"; do
		echo "$kernel ${VERSION[$kernel]}"
		# mainline's is no commit
		[ "$kernel" = peer ] || git -C "$OUT/bench/$kernel/linux" rev-parse HEAD
	done
	echo "$CASES, $(declare -p INNER), $(sha256sum <"$REAL")"
}
trap stop EXIT
trap 'exit 130' INT TERM

step() {
	STEP=$((STEP + 1))
	say "step $STEP/$STEPS $*"
}

# --- what to measure -----------------------------------------------------

mode_of() { [ "$1" = 1cpu ] && echo busy || echo time; }

# Per cent of the operations. What is done for a program after it has ended, in six seconds,
# shall not be a large part.
scale_of() { [ "$1" = 1cpu ] && echo 1000 || echo 100; }

# In MiB. The children of 32 stress-ng --clone have 3 GB.
memory_of() { [ "$1" != memoryless ] || echo 8192; }

# What tells how long a CPU is idle, where that has to be known.
idle_of() { [ "$1" != 1cpu ] || echo "$2/idle-$CONFIG/idle.ko"; }

# Where instructions are counted, a second guest says whether they are the same.
rounds_of() { [ "$1" = 1cpu ] && [ "$ROUNDS" -gt 2 ] && echo 2 || echo "$ROUNDS"; }

# --- kernels and programs ------------------------------------------------

what() {
	case $1 in
	base) echo "what the series is for, $(tgit rev-parse --short base)" ;;
	ours) echo "with the series, $(tgit log -1 --abbrev=12 --format='%h ("%s")' "$OURS")" ;;
	peer) echo "mainline's sheaves, $(basename "$(cat "$OUT/bench/peer/package")" _all.deb)" ;;
	esac
}

patch_peer() {
	local tree=$OUT/bench/peer/linux

	grep -q bench_idle_ns "$tree/kernel/time/tick-sched.c" ||
		run_logged "$LOGS/bench-idle-patch.log" patch -d "$tree" -p1 -i "$HERE/real/idle/peer.patch" ||
		die "the patch scripts/bench/real/idle/peer.patch does not fit ${VERSION[peer]}," \
			"see $(rel "$LOGS/bench-idle-patch.log")"
}

build() {
	local kernel=$1 args=()

	[ "$kernel" != peer ] || args=(-u)
	step "building $CONFIG for $kernel, ${VERSION[$kernel]}"
	[ "$kernel" != peer ] || patch_peer
	"$SCRIPTS/kernel.sh" -d "$OUT/bench/$kernel" "${args[@]}" "$CONFIG"
	"$HERE/real/idle.sh" "$OUT/bench/$kernel" "$CONFIG"
}

# The same programs for all kernels.
root() {
	step "building the programs"
	"$HERE/real/root.sh" "$DIR" "$OUT/bench/ours/linux" "$OUT/bench/ours/obj/$CONFIG"
}

# --- guests --------------------------------------------------------------

# resumed RAW MODE: whether it was there already.
resumed() {
	local old=$DIR/unfinished/${1##*/} said

	[ -n "$RESUME" ] && [ -e "$old" ] || return 1
	said=$(python3 -B "$HERE/collect.py" check "$old" real "${INNER[$2]}" 2>/dev/null) &&
		[ "${said%% *}" -eq "$NR_CASES" ] || return 1
	cp "$old" "$1"
	step "taken from an earlier run: ${1##*/}"
}

# cases_of MACHINE ACCEL: what is measured there like that. Where several CPUs take turns by
# a clock of instructions, the two ends of a connection may wait for each other for ever (seen
# with QEMU 7.2), so iperf3 and redis have a guest with the clock of this host. So has ublk,
# where the kernel 7.2 takes part, as there its requests fail; and all with 32 CPUs, where
# QEMU hardly gets on.
cases_of() {
	local name counted

	for name in ${CHOSEN//,/ }; do
		counted=icount
		case $1,$name in 1cpu,*) ;; memoryless,* | *,iperf3-* | *,redis) counted=single ;; *,fio-ublk) [ -z "$PEER" ] || counted=single ;; esac
		[ "$counted" != "$2" ] || echo "$name"
	done
}

# guest ROUND KERNEL MACHINE ACCEL RAW CASE...: what it prints is added to RAW.
guest() {
	local round=$1 kernel=$2 machine=$3 accel=$4 raw=$5 rc=0 t0=$SECONDS next=30 try mode first=() command

	mode=$(mode_of "$machine")
	command="SCALE=$(scale_of "$machine") IDLE=$(idle_of "$machine" "$OUT/bench/$kernel")"
	command+=" bash $REAL $mode ${INNER[$mode]} $DIR ${*:6}"
	[ "$accel" = icount ] || first=("$HERE/urgent.sh")
	for ((try = 1; try <= TRIES; try++)); do
		env CPUS='' TOPOLOGY="$machine" MEMORY="$(memory_of "$machine")" "${first[@]}" \
			"$SCRIPTS/guest.sh" -n "real-$round-$machine-$kernel" -t 3600 \
			-d "$OUT/bench/$kernel" -a "$accel" "$CONFIG" "$command" >"$raw.guest" </dev/null &
		GUEST_PID=$!
		while kill -0 $GUEST_PID 2>/dev/null; do
			sleep 0.5
			[ $((SECONDS - t0)) -ge $next ] || continue
			next=$((next + 30))
			say "step $STEP/$STEPS still running, $(cat "$raw"* | grep -c ' operations, ' || :) of $NR_CASES cases"
		done
		rc=0
		wait $GUEST_PID || rc=$?
		GUEST_PID=
		[ $rc -eq 3 ] || break
		warn "that was QEMU, not the guest: once more"
	done
	cat "$raw.guest" >>"$raw"
	rm "$raw.guest"
	return $rc
}

# run ROUND KERNEL MACHINE
run() {
	local round=$1 kernel=$2 machine=$3 accel mode raw said cases

	mode=$(mode_of "$machine")
	raw=$NEW/raw/$round.$machine.$kernel.real
	! resumed "$raw" "$mode" || return 0
	step "round $((round + 1))/$(rounds_of "$machine"): $kernel on $machine"
	: >"$raw"
	for accel in icount single; do
		mapfile -t cases < <(cases_of "$machine" $accel)
		[ ${#cases[@]} -gt 0 ] || continue
		guest "$round" "$kernel" "$machine" $accel "$raw" "${cases[@]}" && continue
		# what is wrong has been said
		{ grep -E '^(real.sh|meter): ' "$raw" || :; } | tail -n 1 | sed 's/^/  | /' >&2
		mv "$raw" "$DIR/failed"
		say "no figures of $kernel on $machine, its output is in $(rel "$DIR/failed")"
		exit 1
	done
	if ! said=$(python3 -B "$HERE/collect.py" check "$raw" real "${INNER[$mode]}" 2>&1); then
		mv "$raw" "$DIR/failed"
		die "$kernel on $machine: ${said#error: }, see $(rel "$DIR/failed")"
	fi
	[ "${said%% *}" -eq "$NR_CASES" ] || die "$kernel on $machine: $said instead of $NR_CASES"
	say "step $STEP/$STEPS $said"
}

# --- results -------------------------------------------------------------

metadata() {
	meta date "$(date -u +%F)"
	meta command "make bench-real${PEER:+ PEER=$PEER} ROUNDS=$ROUNDS${MACHINES:+ \
MACHINES=$MACHINES}${CASES:+ CASES=$CASES}${KERNEL_SRC:+ KERNEL_SRC=...}"
	meta script scripts/bench-real.sh
	meta how_often "$(rounds_of 4cpu) guests of each kernel and machine, $(rounds_of 1cpu) of \
1cpu, ${INNER[time]} rounds in a guest, ${INNER[busy]} of 1cpu, after one that does not count."
	meta_machine
}

install_results() {
	local f

	mkdir -p "$RESULTS"
	trap '' INT TERM
	rm -rf "$RESULTS"/chart-*.svg "$RESULTS/configs" "$DIR/raw"
	for f in "$NEW"/results.* "$NEW"/counters.md "$NEW"/chart-*.svg "$NEW/configs"; do
		[ ! -e "$f" ] || mv "$f" "$RESULTS/"
	done
	mv "$NEW/raw" "$DIR/"
}

# -------------------------------------------------------------------------

[[ "$ROUNDS" =~ ^[1-9][0-9]?$ ]] || die "ROUNDS=$ROUNDS is not a number from 1 to 99"
[ -z "$PEER" ] || check_peer "$PEER"
[ ! -e "$TREE/.git" ] || is_commit "$OURS" || die "OURS=$OURS is no commit of $(rel "$TREE")"
[[ "$KEEP" =~ ^1?$ ]] || die "KEEP=$KEEP is not 1"
[[ "$RESUME" =~ ^1?$ ]] || die "RESUME=$RESUME is not 1"
[ -z "${RESULTS:-}" ] || [ ! -e "$RESULTS" ] || [ -d "$RESULTS" ] || die "RESULTS=$RESULTS is not a directory"
KNOWN=$("$REAL" --list | paste -sd' ')
CASES=$(tr -s ' \t,' , <<<"$CASES") MACHINES=$(tr -s ' \t,' , <<<"$MACHINES")
check_names CASES "${CASES//,/ }" "$KNOWN"
check_names MACHINES "${MACHINES//,/ }" "${ALL_MACHINES//,/ }"
args_end_here
[ -e "$TREE/.git" ] || die "there is no $(rel "$TREE"), run: make tree"
need_tool patch python3 qemu-system-x86_64
if [ -z "${RESULTS:-}" ]; then
	RESULTS=$ROOT/bench/real
	[ -z "$CASES$MACHINES$KERNEL_SRC" ] || RESULTS=$DIR/results
fi
KERNELS=(base ours)
[ -z "$PEER" ] || KERNELS+=(peer)
declare -A VERSION
IFS=, read -r -a JOBLIST <<<"${MACHINES:-$ALL_MACHINES}"
CHOSEN=${CASES:-$KNOWN}
NR_CASES=$(wc -w <<<"${CHOSEN//,/ }")

lock bench
for kernel in "${KERNELS[@]}"; do
	[ -n "$KEEP" ] || lay_kernel "$kernel"
	VERSION[$kernel]=$(measured_version "$kernel")
done
mkdir -p "$DIR"
rm -rf "$DIR"/new.??????
NEW=$(mktemp -d "$DIR/new.XXXXXX")
mkdir "$NEW/raw" "$NEW/configs"
LOAD=$(load)
STEP=0 STEPS=0
[ -n "$KEEP" ] || STEPS=$((${#KERNELS[@]} + 1))
for machine in "${JOBLIST[@]}"; do
	STEPS=$((STEPS + $(rounds_of "$machine") * ${#KERNELS[@]}))
done
if [ -n "$RESUME" ] && [ "$(cat "$DIR/unfinished/stamp" 2>/dev/null)" != "$(stamp)" ]; then
	die "RESUME=1: there is no interrupted run of these kernels and cases"
fi
for kernel in "${KERNELS[@]}"; do
	[ -n "$KEEP" ] || build "$kernel"
	grep '^CONFIG_' "$OUT/bench/$kernel/obj/$CONFIG/.config" >"$NEW/configs/$CONFIG.$kernel"
done
[ -n "$KEEP" ] || root
for machine in "${JOBLIST[@]}"; do
	for ((round = 0; round < $(rounds_of "$machine"); round++)); do
		for kernel in "${KERNELS[@]}"; do
			run "$round" "$kernel" "$machine"
		done
	done
done

metadata
show_results
say "wrote $(rel "$RESULTS")/results.json, results.md and charts; logs are $(rel "$LOGS")/real-*.log"
