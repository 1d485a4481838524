# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# For the tests of the tooling: TAP output, and a small repository with a small
# kernel tree, so that they take seconds. Sourced; sets DIR, removed at exit.

set -euo pipefail
export LC_ALL=C

SELF=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
DIR=$(mktemp -d)
trap 'rm -rf "$DIR"' EXIT
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org
export GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org
unset FORCE SERIES_ROOT SHEAVES_LOCKED CPUS TOPOLOGY APPEND
export NEED_GB=0

# ok NAME COMMAND...: the command succeeds.
ok() {
	local name=$1

	shift
	if "$@" >"$DIR/out" 2>&1; then
		echo "ok - $name"
	else
		echo "not ok - $name"
		sed 's/^/#   /' "$DIR/out"
	fi
}

# refused NAME REGEXP COMMAND...: the command fails, with one error line, which matches.
refused() {
	local name=$1 want=$2 rc=0

	shift 2
	"$@" >"$DIR/out" 2>&1 || rc=$?
	if [ $rc -ne 0 ] && [ "$(grep -c '^error: ' "$DIR/out")" -eq 1 ] &&
	   grep -qE "^error: .*$want" "$DIR/out"; then
		echo "ok - $name"
	else
		echo "not ok - $name (exit $rc, wanted an error with: $want)"
		sed 's/^/#   /' "$DIR/out"
	fi
}

# A tree that passes for 6.12, with a file of twenty lines.
fake_kernel() {
	mkdir -p "$1/mm" "$1/include/linux" "$1/lib" "$1/scripts/gdb"
	echo 'import linux' >"$1/scripts/gdb/vmlinux-gdb.py"
	printf 'VERSION = %s\nPATCHLEVEL = %s\nSUBLEVEL = 1\n' "${2:-6}" "${3:-12}" >"$1/Makefile"
	seq -f 'line %g' 40 >"$1/mm/slub.c"
	echo '/* slab */' >"$1/include/linux/slab.h"
	echo 'config SLUB' >"$1/mm/Kconfig"
	echo '*.o' >"$1/.gitignore"
}

# A repository with our scripts and a series of two commits, laid with `lay'.
fake_repo() {
	REPO=$DIR/repo
	LINUX=
	rm -rf "$REPO" "$DIR/src"
	fake_kernel "$DIR/src"
	mkdir -p "$REPO/patches" "$REPO/mm"
	cp -r "$SELF/scripts" "$REPO/"
	git -C "$DIR" init -q repo
	git -C "$REPO" config user.name A
	git -C "$REPO" config user.email a@example.org
	echo 'int barn;' >"$REPO/mm/slab_barn.c"
	echo 'config BARN' >"$REPO/Kconfig.sheaves"
	printf '# series\n0001-mm-add-the-barn.patch mm/slab_barn.c Kconfig.sheaves\n0002-mm-use-the-barn.patch\n' \
		>"$REPO/patches/series"
	mail 'mm: add the barn' "Text of the first.

- a list" >"$REPO/patches/0001-mm-add-the-barn.patch"
	diff_line mm/slub.c 5 'line 5 with a barn' >>"$REPO/patches/0001-mm-add-the-barn.patch"
	mail 'mm: use the barn' 'Text of the second.' >"$REPO/patches/0002-mm-use-the-barn.patch"
	diff_line mm/slub.c 30 'line 30 uses it' >>"$REPO/patches/0002-mm-use-the-barn.patch"
	export KERNEL_SRC=$DIR/src
	lay >/dev/null
	LINUX=$(echo "$REPO"/build/src-*/linux)
}

mail() {
	printf 'From %040d Mon Sep 17 00:00:00 2001\nFrom: A <a@example.org>\n' 0
	printf 'Date: Sat, 21 Nov 2026 00:00:00 +0000\nSubject: [PATCH] %s\n\n%s\n\n---\n' "$1" "$2"
}

# A one-line hunk against the fake kernel's FILE.
diff_line() {
	local new=$DIR/new

	sed "$2s/.*/$3/" "$DIR/src/$1" >"$new"
	echo "diff --git a/$1 b/$1"
	diff -u --label "a/$1" --label "b/$1" "$DIR/src/$1" "$new" || :
}

lay() { "$REPO/scripts/tree.sh"; }
refresh() { "$REPO/scripts/refresh.sh"; }
lgit() { git -C "$LINUX" "$@"; }

# What the repository holds, for comparison.
snapshot() { (cd "$REPO" && find . -path ./build -prune -o -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 sha256sum); }
# What the tree holds: files, their times, and HEAD.
tree_state() { (cd "$LINUX" && git rev-parse HEAD && find . -path ./.git -prune -o -type f -printf '%P %T@\n' | sort); }
