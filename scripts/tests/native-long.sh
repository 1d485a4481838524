#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# native-long.sh plain|address|thread SECONDS: the stress of tools/testing/slab-native on the
# laid tree, built plainly or with a sanitizer, for so long: runs of a few minutes on each
# machine by turns, each with another seed. SEED= is that of the first one. Needs what
# tests/native.sh needs; prints a line a run, and what is found; fails when something is.

. "$(dirname "$0")/../lib.sh"

KIND=${1:-} SECS=${2:-} SEED=${SEED:-$(date +%s)}
EACH=300
OPTIONS=() IRQS=()
case $KIND in
plain) ;;
address) OPTIONS=(-s address) ;;
# signals and the thread sanitizer do not go together
thread) OPTIONS=(-s thread) IRQS=(-I) ;;
*) die "usage: native-long.sh plain|address|thread SECONDS" ;;
esac
[[ "$SECS" =~ ^[1-9][0-9]{0,5}$ ]] || die "\`$SECS' is not a number of seconds"
[[ "$SEED" =~ ^[0-9]{1,18}$ ]] || die "SEED=$SEED is not a number"
args_end_here
PROGRAM=$OUT/native/long-$KIND
LOG=$LOGS/native-long-$KIND.log

mkdir -p "$OUT/native" "$LOGS"
"$SCRIPTS/kernel.sh" -p native
"$SCRIPTS/native.sh" "${OPTIONS[@]}" -i "$TREE" "$OBJ/native" "$PROGRAM"
while [ "$SECS" -gt 0 ]; do
	for machine in 4cpu 2node memoryless; do
		[ "$SECS" -gt 0 ] || break
		t=$((SECS < EACH ? SECS : EACH))
		rc=0
		timeout $((2 * t + 60)) "$PROGRAM" stress -s "$SEED" -t $t -m $machine "${IRQS[@]}" \
			>"$LOG" 2>&1 </dev/null || rc=$?
		if [ $rc -ne 0 ] || grep -q 'Sanitizer: ' "$LOG"; then
			tail -n 60 "$LOG"
			die "$KIND, $machine, seed $SEED: failed ($rc), see $(rel "$LOG")"
		fi
		say "$KIND, $machine, $t s, seed $SEED: nothing found"
		SECS=$((SECS - t)) SEED=$((SEED + 1))
	done
done
