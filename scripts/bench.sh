#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Measure the series against its base, and with PEER=7.2 against mainline's
# sheaves in Debian's linux-source-7.2: the same benchmarks in all kernels, with
# the same configuration, on the same machines, by turns.
#
#   ROUNDS=N       guests of each kernel and machine (3)
#   BENCH=A,B      only these groups: one_thread bulk fresh kmalloc kfree_rcu, where
#                  instructions are counted; syscalls, fork, mmap, direct reads and others,
#                  where they are counted too; pairs all_cpus remote, on many CPUs; processes,
#                  the system calls again, on 4 CPUs at once; ublk, the selftest, both ways;
#                  admin, to shrink, read and destroy caches, on 4 and on 32 CPUs; hotplug, to
#                  take one of 4, 8 or 32 CPUs offline and online; rcuscale, the kernel's own
#                  benchmark of kfree_rcu(), with 1 to 8 threads, on 2 and on 4 CPUs; flood,
#                  more kfree_rcu() than can be freed, memory and latency, on 1, 2 and 4 CPUs;
#                  hog, kfree_rcu() on a CPU that a real-time task keeps, with PREEMPT_RT;
#                  memory, what the allocator has after boot, at the peak of a load, after it
#                  and a minute later, and with it mempools and queues, which can be named
#                  alone: how many objects come from slabs where half the CPUs allocate from
#                  mempools, or submit to queues of ublk, and the others free; fragmentation,
#                  what slabs hold where most objects die, whichever, again and again, and
#                  with it aging, which can be named alone: what they hold after a storm of
#                  dentries and inodes, and after a night of mixed load;
#                  latency, the longest stretch with interrupts off, and with preemption
#                  off, of each path, with PREEMPT and with PREEMPT_RT
#   PEER=VERSION   a third kernel
#   FIXED=1        one more: the series' kernel with slab_sheaf.feedback=none, so that sizes
#                  do not follow the load
#   HARDENED=1     one more: the series with SLAB_SHEAF_HARDENED, where instructions are
#                  counted on one CPU
#   OURS=COMMIT    of build/linux, instead of the whole series
#   RESULTS=DIR    where to write: bench/, with BENCH= or KERNEL_SRC= build/bench/results
#
# Needs the laid tree (make tree) and what kernels and guests need. Prints the
# tables; writes results.json, results.md, counters.md and charts, all of them when
# all is measured or none. Fails when a benchmark does, never for being slow. Where
# time is measured, guests have priority if that is permitted: whatever else the host
# does would be measured too.

. "$(dirname "$0")/lib.sh"
no_arguments "$@"
. "$SCRIPTS/bench/results.sh"

COUNTED=one_thread,bulk,fresh,kmalloc,kfree_rcu
THREADS=pairs,all_cpus,remote
OTHERS=syscalls,processes,ublk,queues
SCENES=admin,hotplug,rcuscale,flood,hog,memory,mempools,fragmentation,aging,latency
SYSCALLS_TIMES=10000
PROCESSES=4
PROCESSES_TIMES=4000
# Rounds of a benchmark in one guest, and objects of a round: where instructions are
# counted, so many that the timer's ticks, which count too, even out.
INNER=5
INNER_UBLK=2
# Of what takes long, in guests that count instructions.
INNER_SCENES=3
INNER_HOTPLUG=15
# A grace period needs all CPUs to run at the same time: with threads, which make more.
declare -A FLOOD_OBJECTS=([icount]=1000000 [multi]=10000000)
# Of each pair of CPUs.
MEMPOOLS_OBJECTS=20000
RCUSCALE_THREADS="1 2 4 8"
# So many guests are booted for a figure, if QEMU crashes.
TRIES=3
declare -A OBJECTS=([icount]=50000 [multi]=10000)
HERE=$SCRIPTS/bench
ROUNDS=${ROUNDS:-3}
PEER=${PEER:-}
FIXED=${FIXED:-}
HARDENED=${HARDENED:-}
OURS=${OURS:-refs/sheaves/laid}
GUEST_PID='' NEW='' CHOSEN=''

stop() {
	[ -z "$GUEST_PID" ] || kill "$GUEST_PID" 2>/dev/null || :
	[ -z "$NEW" ] || rm -rf "$NEW"
}
trap stop EXIT
trap 'exit 130' INT TERM

# --- what to measure -----------------------------------------------------

declare -A NEEDS=([ublk]=tools/testing/selftests/slab/ublk_null.sh
	[queues]=tools/testing/selftests/slab/ublk_null.c
	[syscalls]=tools/testing/selftests/slab/sys_bench.c
	[processes]=tools/testing/selftests/slab/sys_bench.c)

# A tree that is not there yet (ARGS_ONLY) may have everything.
tree_has() { [ ! -e "$TREE/.git" ] || tgit cat-file -e "$OURS:$1" 2>/dev/null; }

# also GROUP...: unless the tree lacks what they need.
also() {
	local g

	for g; do
		if [ -z "${NEEDS[$g]:-}" ] || tree_has "${NEEDS[$g]}"; then
			CHOSEN+=,$g
		else
			warn "no $g benchmark: the tree has no ${NEEDS[$g]}"
		fi
	done
}

chosen_groups() {
	local g

	if [ -z "${BENCH:-}" ]; then
		CHOSEN=$COUNTED,$THREADS,$SCENES
		# shellcheck disable=SC2086 # a list of words
		also ${OTHERS//,/ }
		return
	fi
	CHOSEN=${BENCH//[[:space:]]/,}
	for g in ${CHOSEN//,/ }; do
		[[ ",$COUNTED,$THREADS,$OTHERS,$SCENES," == *",$g,"* ]] ||
			die "BENCH: no group \`$g', choose among ${COUNTED//,/ } ${THREADS//,/ } ${OTHERS//,/ } ${SCENES//,/ }"
		[ -z "${NEEDS[$g]:-}" ] || tree_has "${NEEDS[$g]}" ||
			die "BENCH: the tree has no ${NEEDS[$g]}"
	done
	[[ ",$CHOSEN," != *,memory,* ]] || also mempools queues
	[[ ",$CHOSEN," != *,fragmentation,* ]] || also aging
}

# of LIST: those of it that are chosen
of() {
	local g out=

	for g in ${1//,/ }; do
		[[ ",$CHOSEN," != *",$g,"* ]] || out+=,$g
	done
	echo "${out#,}"
}

# A job: the configuration, the machine, how it runs, the groups.
jobs_of() {
	local counted threads

	counted=$(of $COUNTED) threads=$(of $THREADS)
	[ -z "$counted" ] || echo "bench 1cpu icount $counted"
	[ -z "$(of syscalls)" ] || echo "bench 1cpu icount syscalls"
	[ -z "$threads" ] || printf 'bench-mt %s multi %s\n' memoryless "$threads" 2node "$threads"
	[ -z "$(of processes)" ] || echo "bench-mt 4cpu multi processes"
	[ -z "$(of ublk)" ] || printf '%s ublk\n' "bench 4cpu-counted icount" \
		"bench-mt memoryless multi" "bench-mt 4cpu multi"
	[ -z "$(of admin)" ] || printf 'bench %s icount admin\n' 4cpu-counted memoryless-counted
	[ -z "$(of hotplug)" ] || printf 'bench %s single hotplug\n' 4cpu 8cpu memoryless
	[ -z "$(of rcuscale)" ] || printf 'bench-mt %s multi rcuscale\n' 2cpu 4cpu
	[ -z "$(of flood)" ] || printf '%s flood\n' "bench 1cpu icount" "bench-mt 2cpu multi" \
		"bench-mt 4cpu multi"
	[ -z "$(of hog)" ] || echo "bench-rt 4cpu-nohz single hog"
	[ -z "$(of memory)" ] || printf 'bench %s single memory\n' 4cpu-2g memoryless
	[ -z "$(of mempools)" ] || printf 'bench %s single mempools\n' memoryless 2node
	[ -z "$(of fragmentation)" ] || echo "bench 4cpu single fragmentation"
	[ -z "$(of aging)" ] || echo "bench 4cpu-2g single aging"
	[ -z "$(of latency)" ] || printf '%s icount latency\n' "bench-latency 1cpu" \
		"bench-latency-rt 1cpu-rt"
	[ -z "$(of queues)" ] || printf 'bench %s single queues\n' memoryless 2node
}

# --- kernels -------------------------------------------------------------

step() {
	STEP=$((STEP + 1))
	say "$STEP/$STEPS $*"
}

# takes_part KERNEL CONFIG MACHINE
takes_part() { [ "$1" != hardened ] || [ "$2 $3" = "bench 1cpu" ]; }

build() {
	local kernel=$1 config=$2 dir args=()

	dir=$OUT/bench/$(built_as "$kernel")
	[ "$kernel" != peer ] || args=(-u)
	step "building $config for $kernel, ${VERSION[$kernel]}"
	"$SCRIPTS/kernel.sh" -d "$dir" "${args[@]}" "$config"
	[ -e "$dir/obj/$config/$MODULE" ] || die "the build of $config for $kernel gives no $MODULE"
	grep '^CONFIG_' "$dir/obj/$config/.config" >"$NEW/configs/$config.$kernel"
}

lay() {
	lay_kernel "$1"
	VERSION[$1]=$(measured_version "$1")
}

what() {
	case $1 in
	base) echo "what the series is for, $(tgit rev-parse --short base)" ;;
	ours) echo "with the series, $(tgit log -1 --abbrev=12 --format='%h ("%s")' "$OURS")" ;;
	peer) echo "mainline's sheaves, ${PACKAGE%_all.deb}" ;;
	fixed) echo "the same as ours, with slab_sheaf.feedback=none" ;;
	hardened) echo "the same as ours, with SLAB_SHEAF_HARDENED" ;;
	esac
}

# Static, and the same program for all kernels. In the guest syscalls.sh runs it, from
# a file system in memory, as what the host's file system does would count, too.
sys_bench() {
	mkdir -p "$INSTALLED"
	run_logged "$LOGS/bench-sys.log" "${CC:-gcc}" -O2 -Wall -static -o "$INSTALLED/sys_bench" \
		"$OUT/bench/ours/linux/${NEEDS[syscalls]}" ||
		die "sys_bench does not build, see $(rel "$LOGS/bench-sys.log")"
}

# Static, and the same program for all kernels, as the one before.
slabinfo() {
	mkdir -p "$INSTALLED"
	run_logged "$LOGS/bench-slabinfo.log" "${CC:-gcc}" -O2 -Wall -static -o "$INSTALLED/slabinfo" \
		"$OUT/bench/ours/linux/tools/mm/slabinfo.c" ||
		die "slabinfo does not build, see $(rel "$LOGS/bench-slabinfo.log")"
}

selftest() {
	need_tool rsync fio
	[ -e /usr/include/liburing.h ] || die "liburing-dev is not installed, run: make deps"
	# one build for all kernels
	run_logged "$LOGS/bench-selftest.log" install_programs "$OUT/bench/ours/linux" \
		"$OUT/bench/ours/obj/bench" "$INSTALLED" ||
		die "the slab selftest does not build, see $(rel "$LOGS/bench-selftest.log")"
}

# --- guests --------------------------------------------------------------

guest_command() {
	local config=$2 mode=$3 groups=$4 obj=$OUT/bench/$1/obj/$2 suite

	suite="bash $HERE/guest.sh $obj/$MODULE $groups"
	case $groups in
	ublk) echo "cd $INSTALLED/slab && ./ublk_null.sh --figures -r $INNER_UBLK" ;;
	syscalls) echo "bash $HERE/syscalls.sh $INSTALLED/sys_bench $INNER $SYSCALLS_TIMES" ;;
	processes)
		echo "bash $HERE/syscalls.sh $INSTALLED/sys_bench $INNER $PROCESSES_TIMES -j $PROCESSES"
		;;
	admin)
		echo "bash $HERE/admin.sh caches $INNER_SCENES $INSTALLED/slabinfo &&" \
			"$suite $INNER_SCENES ${OBJECTS[$mode]}"
		;;
	hotplug) echo "bash $HERE/admin.sh hotplug $INNER_HOTPLUG $INSTALLED/slabinfo" ;;
	rcuscale) echo "bash $HERE/rcuscale.sh $obj $INNER_SCENES $RCUSCALE_THREADS" ;;
	flood) echo "$suite $INNER_SCENES ${OBJECTS[$mode]} flood_objects=${FLOOD_OBJECTS[$mode]}" ;;
	hog) echo "bash $HERE/hog.sh $obj/$MODULE" ;;
	memory) echo "bash $HERE/memory.sh" ;;
	mempools) echo "$suite $INNER_SCENES $MEMPOOLS_OBJECTS" ;;
	fragmentation) echo "$suite $INNER_SCENES 1" ;;
	aging) echo "bash $HERE/fragmentation.sh" ;;
	latency) echo "bash $HERE/latency.sh $obj/$MODULE" ;;
	queues) echo "bash $HERE/queues.sh $INSTALLED/slab $INNER_UBLK" ;;
	*) echo "$suite $INNER ${OBJECTS[$mode]}" ;;
	esac
}

# What machine a name stands for, as guest.sh wants to have it.
machine() {
	case $1 in
	2cpu | 8cpu) GUEST=("CPUS=${1%cpu}") ;;
	4cpu-2g) GUEST=(CPUS=4) ;;
	4cpu-nohz) GUEST=(CPUS='' TOPOLOGY=4cpu APPEND="${APPEND:-} nohz_full=3 rcu_nocbs=3") ;;
	1cpu-rt) GUEST=(CPUS='' TOPOLOGY=1cpu) ;;
	*) GUEST=(CPUS='' TOPOLOGY="${1%-counted}") ;;
	esac
}

# run ROUND KERNEL CONFIG MACHINE MODE GROUPS [TRY]
run() {
	local round=$1 kernel=$2 config=$3 machine=$4 mode=$5 groups=$6
	local first=() name=bench-$round-$machine-$kernel raw part inner=$INNER t0=$SECONDS next=30
	local try=${7:-1} rc=0 dir

	dir=$(built_as "$kernel")
	[ "$kernel" != hardened ] || config=bench-hardened
	if [ "$kernel" = fixed ]; then
		local -x APPEND="${APPEND:-} slab_sheaf.feedback=none"
	fi
	part=$groups
	case $groups in
	ublk | queues) inner=$INNER_UBLK ;;
	syscalls | processes) ;;
	admin | rcuscale | flood | mempools | fragmentation) inner=$INNER_SCENES ;;
	hotplug) inner=$INNER_HOTPLUG ;;
	hog | memory | aging | latency) inner=1 ;;
	*) part=suite ;;
	esac
	raw=$NEW/raw/$round.$machine.$kernel.$part
	[ "$mode" = icount ] || first=("$HERE/urgent.sh")
	[ "$try" -gt 1 ] || step "round $((round + 1))/$ROUNDS: $kernel on $machine, ${groups//,/ }"
	machine "$machine"
	env "${GUEST[@]}" "${first[@]}" "$SCRIPTS/guest.sh" -n "$name" -t 3600 -d "$OUT/bench/$dir" -a "$mode" \
		"$config" "$(guest_command "$dir" "$config" "$mode" "$groups")" >"$raw" </dev/null &
	GUEST_PID=$!
	while kill -0 $GUEST_PID 2>/dev/null; do
		sleep 0.5
		[ $((SECONDS - t0)) -ge $next ] || continue
		next=$((next + 30))
		say "$STEP/$STEPS still running, $(grep -c 'slab_bench: {' "$LOGS/$name.log" || :) results"
	done
	wait $GUEST_PID || rc=$?
	GUEST_PID=
	# QEMU 7.2 with a thread for each CPU does that sometimes, whatever the kernel.
	if [ $rc -eq 3 ] && [ "$try" -lt $TRIES ]; then
		warn "that was QEMU, not the guest: once more"
		run "$round" "$kernel" "$config" "$machine" "$mode" "$groups" $((try + 1))
		return
	fi
	if [ $rc -ne 0 ]; then
		# what is wrong has been said
		grep -E '^ *not ok |1\.\.0 # SKIP|no figures|void' "$raw" | head -n 5 | sed 's/^/  | /' >&2 || :
		mv "$raw" "$OUT/bench/failed"
		say "no figures of $kernel on $machine, its output is in $(rel "$OUT/bench/failed")"
		exit 1
	fi
	if ! figures=$(python3 -B "$HERE/collect.py" check "$raw" "$groups" $inner 2>&1); then
		mv "$raw" "$OUT/bench/failed"
		die "$kernel on $machine: ${figures#error: }, see $(rel "$OUT/bench/failed")"
	fi
	say "$STEP/$STEPS $figures"
}

# --- results -------------------------------------------------------------

metadata() {
	meta date "$(date -u +%F)"
	meta command "make bench${PEER:+ PEER=$PEER}${FIXED:+ FIXED=1}${HARDENED:+ HARDENED=1} ROUNDS=$ROUNDS${BENCH:+ BENCH=$CHOSEN}${KERNEL_SRC:+ KERNEL_SRC=...}"
	meta guests "$ROUNDS"
	meta rounds_per_guest $INNER
	meta ublk_rounds_per_guest $INNER_UBLK
	meta scenes_rounds_per_guest $INNER_SCENES
	meta hotplug_rounds_per_guest $INNER_HOTPLUG
	meta_machine
}

install_results() {
	local f

	mkdir -p "$RESULTS"
	trap '' INT TERM
	rm -f "$RESULTS"/chart-*.svg
	for f in "$NEW"/results.* "$NEW"/counters.md "$NEW"/chart-*.svg; do
		[ ! -e "$f" ] || mv "$f" "$RESULTS/"
	done
	rm -rf "$RESULTS/configs" "$OUT/bench/raw"
	mv "$NEW/configs" "$RESULTS/"
	mv "$NEW/raw" "$OUT/bench/"
}

# -------------------------------------------------------------------------

INSTALLED=$OUT/bench/selftest
MODULE=lib/tests/slab_bench_kunit.ko
[[ "$ROUNDS" =~ ^[1-9][0-9]?$ ]] || die "ROUNDS=$ROUNDS is not a number from 1 to 99"
[ -z "$PEER" ] || check_peer "$PEER"
[ ! -e "$TREE/.git" ] || is_commit "$OURS" || die "OURS=$OURS is no commit of $(rel "$TREE")"
[[ "$FIXED" =~ ^1?$ ]] || die "FIXED=$FIXED is not 1"
[[ "$HARDENED" =~ ^1?$ ]] || die "HARDENED=$HARDENED is not 1"
[ -z "${RESULTS:-}" ] || [ ! -e "$RESULTS" ] || [ -d "$RESULTS" ] || die "RESULTS=$RESULTS is not a directory"
if [ -n "${BENCH:-}" ]; then
	chosen_groups
	[ -n "$(jobs_of)" ] || die "BENCH=$BENCH names no group"
fi
args_end_here
[ -e "$TREE/.git" ] || die "there is no $(rel "$TREE"), run: make tree"
need_tool python3 qemu-system-x86_64
if [ -z "${RESULTS:-}" ]; then
	RESULTS=$ROOT/bench
	[ -z "${BENCH:-}$KERNEL_SRC" ] || RESULTS=$OUT/bench/results
fi
BUILT=(base ours)
[ -z "$PEER" ] || BUILT+=(peer)
KERNELS=("${BUILT[@]}")
[ -z "$FIXED" ] || KERNELS+=(fixed)
[ -z "$HARDENED" ] || KERNELS+=(hardened)
declare -A VERSION

[ -n "$CHOSEN" ] || chosen_groups
mapfile -t JOBLIST < <(jobs_of)
mapfile -t CONFIGS < <(printf '%s\n' "${JOBLIST[@]}" | cut -d' ' -f1 | sort -u)

lock bench
for kernel in "${BUILT[@]}"; do
	lay "$kernel"
done
VERSION[fixed]=${VERSION[ours]} VERSION[hardened]=${VERSION[ours]}
PACKAGE=$(cat "$OUT/bench/peer/package" 2>/dev/null || :)

rm -rf "$OUT"/bench/new.??????
NEW=$(mktemp -d "$OUT/bench/new.XXXXXX")
mkdir "$NEW/raw" "$NEW/configs"
LOAD=$(load)
RUNS=()
for job in "${JOBLIST[@]}"; do
	for kernel in "${KERNELS[@]}"; do
		read -r config machine _ <<<"$job"
		! takes_part "$kernel" "$config" "$machine" || RUNS+=("$kernel $job")
	done
done
STEP=0 STEPS=$((${#CONFIGS[@]} * ${#BUILT[@]} + ${#HARDENED} + ROUNDS * ${#RUNS[@]}))

for config in "${CONFIGS[@]}"; do
	for kernel in "${BUILT[@]}"; do
		build "$kernel" "$config"
	done
done
[ -z "$HARDENED" ] || build hardened bench-hardened
[ -z "$(of ublk,queues)" ] || selftest
[ -z "$(of memory,aging)" ] || need_tool hackbench stress-ng
[ -z "$(of syscalls,processes)" ] || sys_bench
[ -z "$(of admin,hotplug)" ] || slabinfo

for ((round = 0; round < ROUNDS; round++)); do
	for job in "${RUNS[@]}"; do
		# shellcheck disable=SC2086 # words
		run "$round" $job
	done
done

metadata
show_results
say "wrote $(rel "$RESULTS")/results.json, results.md, counters.md and charts"
