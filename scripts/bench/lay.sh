#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# lay.sh NAME [COMMIT]: make build/bench/NAME/linux a tree with the benchmarks:
# COMMIT of build/linux, or what is unpacked there, and over it this repository's
# lib/tests/slab_bench_kunit.c, so that every kernel runs the same. Prints nothing.

. "$(dirname "$0")/../lib.sh"

DIR=$OUT/bench/${1:?}/linux
SUITE=lib/tests/slab_bench_kunit.c
SOURCE=${SLAB_BENCH:-$ROOT/$SUITE}

[ -r "$SOURCE" ] || die "$SUITE is missing: there are no benchmarks to run"
if [ -n "${2:-}" ]; then
	commit=$(tgit rev-parse -q --verify "$2^{commit}") || die "$(rel "$TREE") has no commit $2"
	if ! git -C "$DIR" rev-parse -q HEAD >/dev/null 2>&1 || [ ! -e "$DIR/.git" ]; then
		need_space "$OUT" "${NEED_GB:-2}" "another work tree"
		rm -rf "$DIR"
		tgit worktree prune
		tgit worktree add -q --detach --no-checkout "$DIR" "$commit"
	fi
	TREE=$DIR tgit reset -q --hard "$commit"
fi
[ -e "$DIR/Makefile" ] || die "there is no $(rel "$DIR")"

mkdir -p "$DIR/lib/tests"
cmp -s "$SOURCE" "$DIR/$SUITE" || cp "$SOURCE" "$DIR/$SUITE"
cd "$DIR"
if ! grep -qs slab_bench_kunit lib/Makefile lib/tests/Makefile; then
	# shellcheck disable=SC2016 # make expands it
	echo 'obj-$(CONFIG_SLAB_BENCH_KUNIT_TEST) += tests/slab_bench_kunit.o' >>lib/Makefile
fi
if ! grep -qs SLAB_BENCH_KUNIT_TEST lib/Kconfig.debug mm/Kconfig mm/Kconfig.sheaves; then
	printf '\nconfig SLAB_BENCH_KUNIT_TEST\n\ttristate "Benchmarks of the slab allocator"\n' \
		>>lib/Kconfig.debug
	printf '\tdepends on KUNIT\n' >>lib/Kconfig.debug
fi
