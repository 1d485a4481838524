#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The kernel's own tests of the maple tree, of what uses it, and of the rest of what
# they share their stand-ins with, in user space: tools/testing/radix-tree and
# tools/testing/vma of the laid tree, built in a copy of what they need of it, with
# the address sanitizer; and slab-balance, which is ours. Needs gcc and liburcu-dev.
# Prints TAP. The maple tree's take one to three minutes of CPU time.

. "$(dirname "$0")/../lib.sh"

LIMIT=1500
DIR=$OUT/user
LOG=$LOGS/user

copy() {
	rm -rf "$DIR"
	mkdir -p "$DIR" "$LOG"
	tgit archive HEAD tools include lib mm kernel arch/x86/include | tar -x -C "$DIR"
}

# build DIRECTORY TARGET...
build() {
	local dir=$1

	shift
	make -C "$DIR/tools/testing/$dir" "$@"
}

# run DIRECTORY PROGRAM: its end is in the log.
run() { (cd "$DIR/tools/testing/$1" && timeout -k 5 $LIMIT "./$2"); }

# One of its tests fails unless its readers get to run while it writes: on a busy machine
# they may not, so that one has three tries.
run_maple() {
	local i

	for i in 1 2 3; do
		! run radix-tree maple || return 0
		grep -q 'run_check_rcu_slowread: Assertion' "$LOG/run-maple.log" || return 1
		echo "try $i: its readers did not run"
	done
	return 1
}

# It returns 0 whatever its tests find, and counts those that passed.
maple_passed() {
	local counted

	counted=$(sed -nE 's/.*maple_tree: ([0-9]+) of ([0-9]+) tests passed.*/\1 \2/p' "$LOG/run-maple.log")
	[ -n "$counted" ] || return 1
	echo "$counted"
	[ "${counted% *}" = "${counted#* }" ]
}

vma_passed() { grep -E '^[1-9][0-9]* tests run, .* 0 failed' "$LOG/run-vma.log"; }

# ok NAME LOG COMMAND...
ok() {
	local name=$1 log=$LOG/$2.log

	shift 2
	if "$@" >"$log" 2>&1 </dev/null; then
		echo "ok - $name"
	else
		echo "not ok - $name"
		tail -n 20 "$log" | sed 's/^/#   /'
	fi
}

need_tool make gcc
[ -e "$TREE/.git" ] || die "there is no $(rel "$TREE"), run: make tree"
copy
ok "radix-tree builds" build-radix-tree build radix-tree maple xarray main
ok "vma builds" build-vma build vma
ok "maple runs to its end" run-maple run_maple
ok "maple: all tests pass" maple maple_passed
ok "xarray" run-xarray run radix-tree xarray
ok "vma runs to its end" run-vma run vma vma
ok "vma: all tests pass" vma vma_passed
ok "slab-balance builds" build-balance build slab-balance slab-balance
ok "slab-balance: what decides about sizes" balance run slab-balance slab-balance
ok "slab-balance: sizes settle" balance-traces run slab-balance run-traces.sh
rm -rf "$DIR"
