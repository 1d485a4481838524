#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tune.sh DIR: in the guest, watch sizes follow a load. At rest, then bios cross from node
# to node (scripts/bench/queues.sh, with ublk_null in DIR), then at rest again. Prints a
# line for each sample, which scripts/tune.sh draws: what part it is of, seconds, kB of
# Slab, kB of bios free in sheaves, how many full sheaves a barn accepts, the largest one,
# and since the last sample, how many bios were allocated and how many came from slabs or
# went there.

set -euo pipefail
export LC_ALL=C

SLAB=/sys/kernel/slab
QUEUES=$(dirname "$0")/../bench/queues.sh
REST=5 AFTER=20 EVERY=0.5
# Of each queue, in each of two bursts.
IOS=20000
DIR=$1
PART='' LOAD=''
declare -A WAS=([bios]=0 [slabs]=0)

trap '[ -z "$LOAD" ] || kill $LOAD 2>/dev/null || :' EXIT

# No fork while others run.
pause() { read -r -t "$1" -u 9 || :; }
PIPE=$(mktemp -u)
mkfifo "$PIPE"
exec 9<>"$PIPE"
rm -f "$PIPE"

# number FILE: the first one that is in it, in VALUE.
number() {
	local words word

	VALUE=0
	read -r -a words <"$1" || return 0
	for word in "${words[@]}"; do
		[[ $word =~ ^[0-9]+$ ]] || continue
		VALUE=$word
		return 0
	done
}

# since NAME NUMBER: how much more it is than the last time, in VALUE.
since() {
	VALUE=$(($2 - WAS[$1]))
	WAS[$1]=$2
}

slab_kb() {
	local lines line

	mapfile -t lines </proc/meminfo
	for line in "${lines[@]}"; do
		[[ ! $line =~ ^Slab:\ *([0-9]+) ]] || VALUE=${BASH_REMATCH[1]}
	done
}

sample() {
	local cache name now kb=0 limit=0 size bios=0 slabs=0

	for cache in "${CACHES[@]}"; do
		number "$cache/slab_size" && size=$VALUE
		number "$cache/sheaf_objects" && kb=$((kb + VALUE * size / 1024))
		number "$cache/barn_max_full"
		[ "$VALUE" -le "$limit" ] || limit=$VALUE
		for name in alloc_fastpath alloc_slowpath; do
			number "$cache/$name" && bios=$((bios + VALUE))
		done
		for name in alloc_slowpath free_slowpath sheaf_refill sheaf_flush; do
			number "$cache/$name" && slabs=$((slabs + VALUE))
		done
	done
	since bios $bios && bios=$VALUE
	since slabs $slabs && slabs=$VALUE
	read -r now _ </proc/uptime
	slab_kb
	echo "tune: $PART $now $VALUE $kb $limit $bios $slabs"
}

# samples PART UNTIL...: until the command succeeds.
samples() {
	PART=$1
	shift
	until "$@"; do
		sample
		pause $EVERY
	done
}

END=0
for_seconds() { [ $SECONDS -ge $END ]; }
load_ended() { ! kill -0 "$LOAD" 2>/dev/null; }

mapfile -t CACHES < <(for dir in "$SLAB"/bio-*; do readlink -f "$dir"; done | sort -u)
[ -e "${CACHES[0]}/barn_max_full" ] || {
	echo "tune.sh: sizes do not follow the load in this kernel" >&2
	exit 1
}
sample >/dev/null
# Who looks is not to wait for those he looks at.
chrt -f -p 1 $$ >&2
END=$((SECONDS + REST))
samples rest for_seconds
IOS=$IOS chrt -o 0 bash "$QUEUES" "$DIR" 1 >&2 &
LOAD=$!
samples load load_ended
wait $LOAD
LOAD=
END=$((SECONDS + AFTER))
samples after for_seconds
