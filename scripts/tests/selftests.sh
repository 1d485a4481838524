#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The kselftests of the slab allocator build without what only one of them needs: with
# a liburing that is too old for ublk_null, with a library that is older than its header,
# and for another machine, for which there is no liburing, all but ublk_null is built.
# SELFTESTS=DIR takes the tests from another directory than the tree's. Needs the guest
# kernel and liburing; prints TAP.

. "$(dirname "$0")/../lib.sh"

STAGE=$OUT/selftest-build
SLAB=$STAGE/tools/testing/selftests/slab

cleanup() { rm -rf "$STAGE"; }
trap cleanup EXIT

# Without modules: those are built by selftest.sh. Called where set -e does not count,
# hence the chain.
stage() {
	local from=$TREE/tools/testing/selftests

	rm -rf "$STAGE" &&
	mkdir -p "${SLAB%/*}" "$STAGE"/{scripts,tools/mm,old/liburing,lib,bin} &&
	cp "$TREE/scripts/subarch.include" "$STAGE/scripts/" &&
	cp "$TREE"/tools/mm/{slabinfo.c,sheaves,sheaves-textfile} "$STAGE/tools/mm/" &&
	cp -r "$from"/{lib.mk,kselftest.h,kselftest_harness.h,kselftest} "${SLAB%/*}/" &&
	cp -r "${SELFTESTS:-$from/slab}" "$SLAB" &&
	make -C "$TREE" O="$OBJ/guest" headers &&
	old_header && old_library && other_compiler
}

# 2.0 knows neither of these.
old_header() {
	cp /usr/include/liburing.h "$STAGE/old/" &&
	cp /usr/include/liburing/*.h "$STAGE/old/liburing/" &&
	sed -i 's/\bcmd_op\b/__pad3/; s/\bIORING_SETUP_SQE128\b/IORING_SETUP_NONE/' \
		"$STAGE/old/liburing/io_uring.h"
}

# Found before the real one.
old_library() {
	echo 'int too_old;' | gcc -shared -fPIC -o "$STAGE/lib/liburing.so" -x c -
}

# A cross compiler, which can do everything but link with liburing.
other_compiler() {
	# shellcheck disable=SC2016 # for the compiler
	printf '%s\n' '#!/bin/sh' 'for arg; do' \
		'	case $arg in -luring) echo "no liburing for that machine" >&2; exit 1 ;; esac' \
		'done' 'exec gcc "$@"' >"$STAGE/bin/other-gcc" &&
	chmod +x "$STAGE/bin/other-gcc"
}

# builds FILES MAKE-ARGUMENT...: these, and nothing else.
builds() {
	local want=$1 have

	shift
	rm -rf "$STAGE/out"
	mkdir -p "$STAGE/out"
	make -C "$SLAB" OUTPUT="$STAGE/out" KDIR=/nonexistent KHDR_INCLUDES="-isystem $OBJ/guest/usr/include" \
		"$@" all
	have=$(cd "$STAGE/out" && echo *)
	[ "$have" = "$want" ] && return
	echo "built: $have, expected: $want"
	return 1
}

# reports N [SED-COMMAND]: so many are left of one that stress.sh excuses, so changed.
reports() {
	local log left

	log=$(sed "${2:-}" <<-EOF
		[    1.000] smpboot: CPU 2 is now offline
		[    1.100] WARNING: CPU: 1 PID: 20 at kernel/sched/core.c:8365 sched_cpu_dying+0x74/0x1a0
		[    1.200] Call Trace:
		[    1.300]  cpuhp_invoke_callback+0xc1/0x1b0
		[    1.400] ---[ end trace 0000000000000000 ]---
		[    1.500] CPU1 enqueued tasks (2 total):
		[    1.600] 	pid: 20, name: migration/1
		[    1.700] smpboot: CPU 1 is now offline
	EOF
	)
	eval "$(grep -hE '^COMPLAINTS\+?=' "$SLAB"/{functions,stress}.sh)"
	eval "$(sed -n '/^without_fair_servers() {/,/^}/p' "$SLAB/stress.sh")"
	left=$(without_fair_servers <<<"$log")
	[ "$(grep -c 'now offline' <<<"$left")" = "$(grep -c 'now offline' <<<"$log")" ] &&
		[ "$(grep -cE 'WARNING: |BUG|soft lockup' <<<"$left")" = "$1" ] && return
	echo "of $log"
	echo "there is left: $left"
	return 1
}

ok() {
	local name=$1

	shift
	if ("$@") >"$STAGE/log" 2>&1 </dev/null; then
		echo "ok - $name"
	else
		echo "not ok - $name"
		tail -n 20 "$STAGE/log" | sed 's/^/#   /'
	fi
}

need_tool make gcc
[ -e "$OBJ/guest/.config" ] || die "there is no guest kernel, run: make kernel"
run_logged "$LOGS/selftest-build.log" stage || die "cannot stage the selftests"
ok "all is built" builds "fail_nth slabinfo sys_bench ublk_null" USERCFLAGS=-Werror
ok "with too old a header, all but ublk_null" builds "fail_nth slabinfo sys_bench" USERCFLAGS="-I$STAGE/old"
ok "with too old a library, too" builds "fail_nth slabinfo sys_bench" USERLDFLAGS="-L$STAGE/lib"
ok "and with a compiler for which there is none" \
	builds "fail_nth slabinfo sys_bench" CROSS_COMPILE="$STAGE/bin/other-"
ok "a fair server that was taken for a task is excused" reports 0
ok "even if it was the last" reports 0 '/CPU 1 is now/d'
ok "not if another task is listed" reports 1 '/migration/{p;s/name: .*/name: cat/}'
ok "nor instead of it" reports 1 's/migration/kworker/'
ok "nor if that of another CPU is" reports 1 's,migration/1,migration/11,'
ok "nor if more were counted" reports 1 's/2 total/3 total/'
ok "nor if none is listed" reports 1 /migration/d
ok "nor if it is another's" reports 1 s/sched_cpu_dying/sched_cpu_starting/
ok "nor with another report in it" reports 2 '/Call Trace/s/$/\n[    1.2] BUG: bad page/'
ok "nor is one behind it" reports 1 '/migration/s/$/\n[    1.6] WARNING: CPU: 1 PID: 20 at kernel/'
ok "nor one with another complaint in it" reports 2 '/Call Trace/s/$/\n[    1.2] watchdog: soft lockup/'
