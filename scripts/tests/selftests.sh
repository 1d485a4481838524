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
ok "all is built" builds "slabinfo sys_bench ublk_null" USERCFLAGS=-Werror
ok "with too old a header, all but ublk_null" builds "slabinfo sys_bench" USERCFLAGS="-I$STAGE/old"
ok "with too old a library, too" builds "slabinfo sys_bench" USERLDFLAGS="-L$STAGE/lib"
ok "and with a compiler for which there is none" \
	builds "slabinfo sys_bench" CROSS_COMPILE="$STAGE/bin/other-"
