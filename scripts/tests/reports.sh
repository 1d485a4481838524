#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of what the allocator reports: misuse that LKDTM provokes, the kernel's own
# dump test module, in the built guest kernel. Each must be named in the log, and the
# objects must be where they belong. Prints TAP.

. "$(dirname "$0")/lib.sh"

LOGS=$(. "$SELF/scripts/lib.sh" && echo "$LOGS")
LOG=$LOGS/report-tests.log

# Each report is a splat, and the guest fails for it. So what counts is what it printed.
# shellcheck disable=SC2016
provoke() {
	"$SELF/scripts/guest.sh" -n report-tests guest '
		cd /sys/kernel/debug/provoke-crash || exit
		for type in SLAB_FREE_CROSS SLAB_FREE_PAGE; do
			echo $type >DIRECT
		done
		for cache in a b; do
			echo 1 >/sys/kernel/slab/lkdtm-heap-$cache/shrink
			echo "$cache: $(cat /sys/kernel/slab/lkdtm-heap-$cache/objects)"
		done' >"$DIR/guest" 2>&1 || :
	cat "$DIR/guest"
	grep -q '^b:' "$DIR/guest"
}

# Once, for it was provoked once.
reported() { [ "$(grep -cE "$1" "$LOG")" -eq 1 ]; }
nothing_else() { [ "$(grep -c 'WARNING: CPU' "$LOG")" -eq 2 ] && ! grep -E '\bBUG|Oops|KFENCE:' "$LOG"; }
empty() { grep -qE "^$1: 0\$" "$DIR/guest"; }

# Who frees twice is stopped, as without sheaves. In the guest, that is the end of it all.
twice() {
	"$SELF/scripts/guest.sh" -n report-tests-twice guest '
		echo SLAB_FREE_DOUBLE >/sys/kernel/debug/provoke-crash/DIRECT
		echo went on' >"$DIR/guest" 2>&1 || :
	cat "$DIR/guest"
	! grep -q '^went on' "$DIR/guest"
}

ok "reports: two kinds of misuse, and the kernel goes on" provoke
ok "reports: the wrong cache" reported 'Wrong slab cache. lkdtm-heap-b but object is from lkdtm-heap-a'
ok "reports: what is no object" reported 'Object is not a Slab page'
ok "reports: nothing else" nothing_else
ok "reports: the object went back to its own cache" empty a
ok "reports: and the other one has none" empty b
ok "reports: who frees an object twice does not go on" twice
LOG=$LOGS/report-tests-twice.log
ok "reports: an object that is freed twice" reported 'lkdtm-heap-double_free: object .* is freed twice'
ok "reports: by the BUG that it was without sheaves" reported 'kernel BUG at (.*/)?mm/slub\.c'
