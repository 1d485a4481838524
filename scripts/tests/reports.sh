#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of what the allocator reports: misuse that LKDTM provokes, the kernel's own
# dump test module, in the built guest kernel. Each must be named in the log, and the
# objects must be where they belong. Prints TAP.

. "$(dirname "$0")/lib.sh"

LOG=$(. "$SELF/scripts/lib.sh" && echo "$LOGS")/report-tests.log

# Each report is a splat, and the guest fails for it. So what counts is what it printed.
# shellcheck disable=SC2016
provoke() {
	"$SELF/scripts/guest.sh" -n report-tests guest '
		cd /sys/kernel/debug/provoke-crash || exit
		for type in SLAB_FREE_CROSS SLAB_FREE_PAGE SLAB_FREE_DOUBLE; do
			echo $type >DIRECT
		done
		for cache in a b double_free; do
			echo 1 >/sys/kernel/slab/lkdtm-heap-$cache/shrink
			echo "$cache: $(cat /sys/kernel/slab/lkdtm-heap-$cache/objects)"
		done' >"$DIR/guest" 2>&1 || :
	cat "$DIR/guest"
	grep -q '^double_free:' "$DIR/guest"
}

# Once, for it was provoked once.
reported() { [ "$(grep -cE "$1" "$LOG")" -eq 1 ]; }
nothing_else() { [ "$(grep -c 'WARNING: CPU' "$LOG")" -eq 3 ] && ! grep -E 'BUG|Oops|KFENCE:' "$LOG"; }
empty() { grep -qE "^$1: 0\$" "$DIR/guest"; }

ok "reports: three kinds of misuse, and the kernel goes on" provoke
ok "reports: the wrong cache" reported 'Wrong slab cache. lkdtm-heap-b but object is from lkdtm-heap-a'
ok "reports: what is no object" reported 'Object is not a Slab page'
ok "reports: an object that is freed twice" reported 'lkdtm-heap-double_free: object .* is freed twice'
ok "reports: nothing else" nothing_else
ok "reports: the object went back to its own cache" empty a
ok "reports: and the other one has none" empty b
ok "reports: what was freed twice is free once" empty double_free
