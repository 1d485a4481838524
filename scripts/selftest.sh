#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Build the kselftests of the slab allocator, tools/testing/selftests/slab, for the
# built guest kernel, and run them in it, installed as they are for any machine, on
# each topology, or on the one that TOPOLOGY= names. The topology `isolated' is 4cpu
# with one of the CPUs isolated, and the kernel that can do that; there, only the tests
# run to which that makes a difference. So it is with `events', which is nodes8 and that
# kernel, as the others have no tracepoints; with `faults' and `faults-kunit', where allocations
# fail, and with `dimm', where memory comes and goes. `faults-debug' and `dimm-debug' are the
# same with the kernel debug: these, and the machines of cross.sh, which are topologies, too,
# with kernels of their own, are run only if they are named. There, faults.sh and kmemleak.sh are
# run by the topology MACHINE+faults, and all else by MACHINE.
#
#   selftest.sh [-k CONFIG] [TEST...]
#                               these only, such as stress.sh; on another kernel than guest
#   selftest.sh -l ...          only say which these are
#
#   STRESS_SECS=N chooses how long stress.sh takes on each machine, and STRESS_ALL=1 that
#   it does all it can (-a); FAULTS_SECS=N how long faults_kunit.sh may take, and FAULTS_ALL=1
#   that it must be enough for all (-a), or FAULTS_ALL=K/N for all of one part of N of them;
#   LIMIT=N is the seconds a guest has (2400, and twice what those two say; twice that on
#   another architecture); a test has 1200 less, but 1200 at least; APPEND= adds to the kernel
#   command line; SELFTESTS=DIR takes the tests from another directory than the tree's;
#   STAGED=1 runs those that were built before.
#
# Needs the kernels guest and isolated, fio, liburing-dev, rsync. Prints a line for each test on
# each machine, what failed or was skipped in it, and the figures. A skip counts as
# a failure unless it is for what the machine lacks, or with -k for what the kernel is configured
# without.

. "$(dirname "$0")/lib.sh"

TOPOLOGIES="1cpu 4cpu 2node memoryless isolated kmemleak events faults faults-kunit dimm"
# Those that take their time are run only if TOPOLOGY= names them.
LONG="faults-debug dimm-debug"
ISOLATED_TESTS="sysfs.sh hotplug.sh isolated.sh idle.sh"
KMEMLEAK_TESTS="kmemleak.sh"
EVENTS_TESTS="events.sh"
FAULTS_TESTS="faults.sh"
CROSS_FAULTS_TESTS="$KMEMLEAK_TESTS $FAULTS_TESTS"
FAULTS_KUNIT_TESTS="faults_kunit.sh"
DIMM_TESTS="memhotplug.sh"
# A cache that begins without sheaves, and somebody who looks for what is lost.
FAULTS="kmemleak=on slab_sheaf_capacity=test_slab_late=0 kunit.enable=0"
ISOLATION="isolcpus=3 nohz_full=3 rcu_nocbs=3"
CROSS=$("$SCRIPTS/cross.sh" -l)
FAILED=0
KERNEL=guest LIST=''
while getopts k:l opt; do
	case $opt in
	k) KERNEL=$OPTARG ;;
	l) LIST=1 ;;
	*) die "usage: selftest.sh [-l] [-k CONFIG] [TEST...]" ;;
	esac
done
shift $((OPTIND - 1))

# is_cross TOPOLOGY: whether it is a machine of another architecture.
is_cross() { [[ " $CROSS " == *" ${1%+faults} "* ]]; }

# config_of TOPOLOGY: the kernel, in CONFIG, and where its tests are built.
config_of() {
	CONFIG=$KERNEL
	case $1 in
	isolated | kmemleak | events | faults | faults-kunit | dimm) CONFIG=isolated ;;
	*-debug) CONFIG=debug ;;
	esac
	! is_cross "$1" || CONFIG=$("$SCRIPTS/cross.sh" -k "${1%+faults}")
	O=$OBJ/$CONFIG
	STAGE=$OBJ/selftest-$CONFIG
	INSTALLED=$STAGE/installed
	LOG=$LOGS/selftest-build-$CONFIG.log
}

# The tree stays clean: modules are built where their source is, so that is copied.
stage() {
	local from=$TREE/tools/testing/selftests to=$STAGE/tools/testing/selftests

	rm -rf "$STAGE"
	mkdir -p "$to" "$STAGE/scripts" "$STAGE/tools/mm"
	cp "$TREE/scripts/subarch.include" "$STAGE/scripts/"
	cp "$TREE"/tools/mm/{slabinfo.c,sheaves,sheaves-textfile} "$STAGE/tools/mm/"
	cp -r "$from"/{Makefile,lib.mk,kselftest.h,kselftest_harness.h,run_kselftest.sh,kselftest} "$to/"
	cp -r "${SELFTESTS:-$from/slab}" "$to/slab"
	rm -rf "$O/kselftest/slab"
}

# Called where set -e does not count, hence the chain. With DEV, the directory of what there is to
# link with for another architecture.
build() {
	local for=() flags=-Werror prefix

	prefix=$(prefix_of "$CONFIG")
	if [ -n "$prefix" ]; then
		for=(ARCH="$(arch_of "$CONFIG")" CROSS_COMPILE="$prefix"
			USERLDFLAGS="-L$DEV/usr/lib/${prefix%-}")
		flags+=" -isystem $DEV/usr/include"
	fi
	# Modules by the compiler of their kernel.
	[[ "$(compiler_of "$CONFIG")" != clang* ]] ||
		for+=(LLVM="-$LLVM_VERSION" HOSTCC=gcc HOSTLD=ld HOSTAR=ar)
	make -C "$TREE" O="$O" "${for[@]}" headers &&
	make -C "$STAGE/tools/testing/selftests" O="$O" KDIR="$O" TARGETS=slab FORCE_TARGETS=1 "${for[@]}" \
		USERCFLAGS="$flags" KSFT_INSTALL_PATH="$INSTALLED" install
}

# What a machine may lack, as the tests put it.
may_lack() {
	local cpus="no node with memory has two CPUs|no CPU can go offline"
	local nodes="no memoryless node|no memoryless node has two CPUs|no two memoryless nodes"
	local guest="no CPU is isolated|no tracefs|no kmemleak, .*|no fault injection, .*"

	guest+="|no virtio port qemu.monitor"
	local cross="no CPU is isolated|no virtio port qemu.monitor|no kmemleak, .*"

	case $1 in
	1cpu) echo "$guest|$cpus|$nodes|no two nodes with memory and CPUs" ;;
	4cpu) echo "$guest|$nodes|no two nodes with memory and CPUs" ;;
	2node) echo "$guest|$nodes" ;;
	memoryless) echo "$guest" ;;
	*-debug) echo "no kmemleak, .*|KASAN keeps what is freed" ;;
	faults-kunit) echo "no kmemleak, .*" ;;
	isolated | kmemleak | events | faults | dimm) echo "nothing" ;;
	# others are of cross.sh
	*+faults) echo "nothing" ;;
	*-memoryless) echo "$cross" ;;
	arm64-*) echo "$cross|$nodes" ;;
	s390x*) echo "$cross|$nodes|no two nodes with memory and CPUs" ;;
	# memory does not come and go where pointers have 32 bits
	arm*) echo "$(may_lack s390x)|needs CONFIG_MEMORY_HOTPLUG" ;;
	esac
}

# has OPTION: the kernel is configured with it.
has() { config_has "$O" "$1"; }

# What another kernel than guest may lack, whose configuration says so.
config_may_lack() {
	local lacks=nothing

	! has SLUB_TINY || lacks+="|.*no sheaves|sizes .* in this kernel"
	! has PREEMPT_RT || lacks+="|PREEMPT_RT shows no memory there"
	! has KASAN || lacks+="|KASAN keeps what is freed"
	has MEMCG || lacks+="|no memory controller in cgroup v2"
	[[ " $append " != *" kunit.enable=0 "* ]] || lacks+="|no KUnit suites, .*"
	[[ " $append " != *" slab_debug="* ]] || lacks+="|.*no sheaves|no cache has sheaves"
	has SLUB_DEBUG || lacks+="|no /sys/kernel/slab(/.*)?"
	echo "$lacks"
}

# is_without REASON: it names what is needed, and the kernel, or its command line, has not all of
# that.
is_without() {
	local name

	while read -r name; do
		has "${name#CONFIG_}" || return 0
	done < <(grep -oE 'CONFIG_[A-Z0-9_]+' <<<"$1")
	while read -r name; do
		[[ " $append " == *" $name "* ]] || return 0
	done < <(grep -oE '\b[a-z_.]+=[^ ]+' <<<"$1")
	return 1
}

# excused TOPOLOGY REASON: no fault that something was skipped.
excused() {
	! grep -qxE "$(may_lack "$1")" <<<"$2" || return 0
	[ "$KERNEL" != guest ] && { grep -qxE "$(config_may_lack)" <<<"$2" || is_without "$2"; }
}

# judge TOPOLOGY TEST FILE: the KTAP of one test. Its parts are prefixed by the runner.
judge() {
	local topology=$1 test=$2 passed failed skipped reason why bad='' ktap=$STAGE/ktap.$$

	sed -n "/^# selftests: slab: $test\$/,/^\\(not \\)*ok [0-9]* selftests: slab: $test/p" \
		"$3" | sed 's/^# //' >"$ktap"
	passed=$(grep '^ok ' "$ktap" | grep -vcE '# SKIP|selftests: slab:' || :)
	skipped=$(grep -E '^(ok |1\.\.0 ).*# SKIP' "$ktap" | grep -vc 'selftests: slab:' || :)
	failed=$(grep '^not ok ' "$ktap" | grep -vc 'selftests: slab:' || :)

	grep -qE "^ok [0-9]+ selftests: slab: $test( # SKIP)?\$" "$ktap" || bad=1
	why=$(sed -n '/selftests: slab:/d; s/.*# SKIP *//p' "$ktap" | sort | uniq -c | sed 's/^ *//')
	while read -r _ reason; do
		[ -z "$reason" ] || excused "$topology" "$reason" || bad=1
	done <<<"$why"

	say "$([ "$bad" ] && echo 'FAILED ' || echo 'ok     ') $topology $test:" \
		"$passed passed, $failed failed, $skipped skipped"
	[ -z "$why" ] || echo "          skipped ${why//$'\n'/$'\n'          skipped }"
	if [ "$bad" ]; then
		FAILED=1
		# last, where who sees the end of the log finds them
		{
			tail -n 60 "$ktap"
			grep '^not ok ' "$ktap" || :
		} | sed 's/^/        | /'
	else
		grep -E '^# .*(IOPS$|per million|^# seed|done in|slab memory)' "$ktap" |
			sed 's/^#/         /' || :
	fi
	rm "$ktap"
}

# runs DIR LIST: the command for the guest. A test has 20 minutes less than that, but 20 at least:
# faults.sh takes its time where everything is checked.
runs() {
	echo "KSELFTEST_STRESS_SH_ARGS='${STRESS_ALL:+-a }-t $STRESS_SECS'" \
		"KSELFTEST_FAULTS_KUNIT_SH_ARGS='${FAULTS_ALL:+-a -p $FAULTS_ALL }-t $FAULTS_SECS'" \
		"$1/run_kselftest.sh -o $((LIMIT > 2400 ? LIMIT - 1200 : 1200)) $2 | cat"
}

# on TOPOLOGY TEST...: those of the tests that are run there, a line each.
on() {
	local only

	case $1 in
	isolated) only=$ISOLATED_TESTS ;;
	kmemleak) only=$KMEMLEAK_TESTS ;;
	events) only=$EVENTS_TESTS ;;
	faults | faults-debug) only=$FAULTS_TESTS ;;
	faults-kunit) only=$FAULTS_KUNIT_TESTS ;;
	dimm | dimm-debug) only=$DIMM_TESTS ;;
	*+faults) only=$CROSS_FAULTS_TESTS ;;
	*) only="${*:2}" ;;
	esac
	printf '%s\n' "${@:2}" | grep -xF "${only// /$'\n'}" |
		if is_cross "$1" && [[ $1 != *+faults ]]; then
			grep -vxF "${CROSS_FAULTS_TESTS// /$'\n'}"
		else
			cat
		fi || :
}

# run TOPOLOGY TEST... The runner opens its output a second time, so that must be a
# pipe: a file would be overwritten.
run() {
	local topology=$1 name=selftest-$1 out rc=0 test list=()
	local machine=$1 append=${APPEND:-}

	config_of "$topology"
	[ "$KERNEL" = guest ] || name=selftest-$CONFIG-$topology
	out=$LOGS/$name.ktap
	case $topology in
	isolated) machine=4cpu append="$ISOLATION $append" ;;
	kmemleak) machine=4cpu append="kmemleak=on $append" ;;
	events) machine=nodes8 ;;
	faults | faults-debug) machine=4cpu append="$FAULTS $append" ;;
	faults-kunit) machine=2node append="kunit.filter_glob=slab_* $append" ;;
	*+faults) append="$FAULTS $append" ;;
	dimm) machine=dimm append="kunit.enable=0 $append" ;;
	# Plain 6.12 warns of pages of new memory, which nobody has allocated before
	# (MEM_ALLOC_PROFILING_DEBUG: `alloc_tag was not set').
	dimm-debug) machine=dimm append="kunit.enable=0 sysctl.vm.mem_profiling=0 $append" ;;
	esac
	# What half an hour of it has the kernel say, of memory that does not go offline ...
	[ -z "$STRESS_ALL" ] || append="log_buf_len=8M $append"
	mapfile -t list < <(on "$@")
	[ ${#list[@]} -gt 0 ] || return 0
	set -- "${list[@]}"
	list=()
	for test; do
		list+=(-t "slab:$test")
	done
	if is_cross "$topology"; then
		local LIMIT=$CROSS_LIMIT
		APPEND=$append LIMIT=$LIMIT "$SCRIPTS/cross.sh" -r "$INSTALLED" -n "$name" \
			-c "$(runs /kselftest "${list[*]}")" "${topology%+faults}" >"$out" || rc=$?
	else
		TOPOLOGY=$machine APPEND=$append "$SCRIPTS/guest.sh" -n "$name" -t "$LIMIT" \
			"$CONFIG" "$(runs "$INSTALLED" "${list[*]}")" >"$out" || rc=$?
	fi
	for test; do
		judge "$topology" "$test" "$out"
	done
	[ $rc -eq 0 ] || FAILED=1
}

# build_tests TOPOLOGY: of the kernel that config_of() has set, once. With STAGED=1, they are there. While they run,
# nobody else makes them anew, until all topologies are through; others may run them, too.
build_tests() {
	local name="selftest${SIDE:+-$SIDE}-$CONFIG" fd=$LOCKS

	LOCKS=$((LOCKS + 1))
	if [ -n "${STAGED:-}" ] && [ -e "$INSTALLED" ]; then
		lock "$name" "$fd" -s
		return
	fi
	[ -e "$O/vmlinux" ] || die "there is no $CONFIG kernel, run: make kernel CONFIG=$CONFIG"
	! is_cross "$1" || DEV=$("$SCRIPTS/cross.sh" -d "${1%+faults}")
	lock "$name" "$fd"
	lock "obj-$CONFIG"
	stage
	run_logged "$LOG" build || die "the selftests do not build, see $(rel "$LOG")"
	exec 9>&-
	flock -s "$fd"
	say "selftests: built for $CONFIG, $(grep -c 'warning:' "$LOG" || :) warnings, $(rel "$INSTALLED")"
}

STRESS_SECS=${STRESS_SECS:-10} FAULTS_SECS=${FAULTS_SECS:-240} STRESS_ALL=${STRESS_ALL:-}
FAULTS_ALL=${FAULTS_ALL:-}
[[ "$STRESS_ALL" =~ ^1?$ ]] || die "STRESS_ALL=$STRESS_ALL is not 1"
[ -z "$FAULTS_ALL" ] || { [[ "$FAULTS_ALL" =~ ^([1-9]/[1-9]|1)$ ]] &&
	[ "${FAULTS_ALL%/*}" -le "${FAULTS_ALL#*/}" ]; } ||
	die "FAULTS_ALL=$FAULTS_ALL is not 1, nor a part of all, such as 1/2"
[ "$FAULTS_ALL" != 1 ] || FAULTS_ALL=1/1
for secs in STRESS_SECS FAULTS_SECS; do
	[[ "${!secs}" =~ ^[1-9][0-9]{0,4}$ ]] || die "$secs=${!secs} is not a number of seconds"
done
secs=$((2400 + 2 * (STRESS_SECS + FAULTS_SECS)))
# Other architectures take longer to emulate.
CROSS_LIMIT=${LIMIT:-$((2 * secs))}
LIMIT=${LIMIT:-$secs}
[[ "$LIMIT" =~ ^[1-9][0-9]{0,5}$ ]] || die "LIMIT=$LIMIT is not a number of seconds"
for topology in ${TOPOLOGY:-}; do
	[[ " $TOPOLOGIES $LONG " == *" $topology "* ]] || is_cross "$topology" ||
		die "no topology \`$topology' for selftests, choose among $TOPOLOGIES $LONG $CROSS"
done
args_end_here
[ -d "${SELFTESTS:-$TREE/tools/testing/selftests/slab}" ] ||
	die "the tree has no tools/testing/selftests/slab, run: make tree"
tests=("$@")
[ $# -gt 0 ] || read -r -a tests < <(
	sed -n 's/^TEST_PROGS := //p' "${SELFTESTS:-$TREE/tools/testing/selftests/slab}/Makefile"
) || die "there is no TEST_PROGS in the tests' Makefile"
if [ -n "$LIST" ]; then
	for topology in ${TOPOLOGY:-$TOPOLOGIES}; do
		on "$topology" "${tests[@]}"
	done | sort -u
	exit
fi
need_tool make gcc rsync
here=
for topology in ${TOPOLOGY:-$TOPOLOGIES}; do
	is_cross "$topology" || here=1
done
if [ -n "$here" ]; then
	need_tool fio
	[ -e /usr/include/liburing.h ] || die "liburing-dev is not installed, run: make deps"
fi

mkdir -p "$LOGS"
built='' LOCKS=20
for topology in ${TOPOLOGY:-$TOPOLOGIES}; do
	config_of "$topology"
	[[ " $built " = *" $CONFIG "* ]] || build_tests "$topology"
	built+=" $CONFIG"
	run "$topology" "${tests[@]}"
done
[ $FAILED -eq 0 ] || die "selftests failed, see $(rel "$LOGS")/selftest-*"
