#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kmemleak finds objects that were leaked although sheaves still have their addresses
# in slots that are not in use: test_modules/test_slab_leak.c leaks some. Elsewhere it did
# not.

. "$(dirname "$0")/functions.sh"

MODULE=test_slab_leak
DEBUGFS=/sys/kernel/debug
KMEMLEAK=$DEBUGFS/kmemleak
LEAKS=16
MIN_AGE=6		# seconds: younger objects are not reported, nor changed ones

cleanup() {
	[ ! -d "/sys/module/$MODULE" ] || rmmod "$MODULE"
	[ -z "${NO_STACKS:-}" ] || echo stack=on >"$KMEMLEAK"
	[ -z "${MOUNTED:-}" ] || umount "$DEBUGFS"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# How many of the objects are reported, in VALUE.
count_reported() {
	VALUE=$(grep -c "leak_one.*\[$MODULE\]" "$KMEMLEAK")
}

# Some word somewhere may look like one of the addresses: most of them are found.
finds() {
	local i ok=

	VALUE=0
	insmod "$KO" from="$1" leaks=$LEAKS || return
	sleep $MIN_AGE
	# What one scan finds may have been on the move.
	for ((i = 0; i < 5; i++)); do
		echo scan >"$KMEMLEAK" || break
		count_reported
		[ "$VALUE" -lt $((LEAKS * 3 / 4)) ] || { ok=1; break; }
	done
	msg "$VALUE of $LEAKS objects reported after $((i + ${ok:-0})) scans"
	rmmod "$MODULE" && [ -n "$ok" ]
}

# The module frees its objects when it is unloaded, so whatever is reported then is
# not the one that this test leaks.
none_left() {
	echo scan >"$KMEMLEAK" || return
	count_reported
	[ "$VALUE" -eq 0 ]
}

# -------------------------------------------------------------------------

ktap_print_header
need_root
need_module
if ! mountpoint -q "$DEBUGFS" && mount -t debugfs none "$DEBUGFS" 2>/dev/null; then
	MOUNTED=1
fi
[ -e "$KMEMLEAK" ] || skip_all "no kmemleak, needs CONFIG_DEBUG_KMEMLEAK and debugfs"
# What is on the stacks now, or was before, is not what this is about.
echo stack=off 2>/dev/null >"$KMEMLEAK" || skip_all "kmemleak is off, needs kmemleak=on"
NO_STACKS=1
ktap_set_plan 4
verdict "kmemleak finds what came from the sheaves of a CPU" finds cpu
verdict "kmemleak finds what came from a prefilled sheaf" finds lent
verdict "kmemleak finds what came from an oversize sheaf" finds large
verdict "kmemleak reports none that is freed" none_left
ktap_finished
