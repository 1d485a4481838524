#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# memory.sh: in the guest, how much memory the slab allocator has: after boot, at the
# peak of a load, when what can be reclaimed has been, and a minute later. The load is
# hackbench, forks by stress-ng, and a find, then rest, and drop_caches twice. Prints a
# line of JSON for each figure, as lib/tests/slab_bench_kunit.c does.
#
# Beside Slab and SUnreclaim of /proc/meminfo: what lies free in sheaves and barns, of
# kernels that have the file sheaf_objects, and partial slabs, those that CPUs keep for
# themselves included. The peaks are each figure's own, of samples taken while the load
# runs, those from /sys/kernel/slab by far fewer of them: to read it takes its time.

set -euo pipefail
export LC_ALL=C

# shellcheck source=look.sh
. "$(dirname "$0")/look.sh"

DROP_CACHES=${DROP_CACHES:-/proc/sys/vm/drop_caches}
# Seconds; SCALE=0 for a test of this script.
SCALE=${SCALE:-1}
REST=20 BETWEEN=6 LATER=60
SAMPLE=0.1
FULL_SAMPLE=10
FILES=20000
DIR=$(mktemp -d /run/memory.XXXXXX 2>/dev/null || mktemp -d)
SAMPLER=

die() {
	echo "memory.sh: $*" >&2
	exit 1
}

stop() {
	[ -z "$SAMPLER" ] || kill "$SAMPLER" 2>/dev/null || :
	rm -rf "$DIR"
}
trap stop EXIT

# No fork in what is called while others run: a read from a pipe that nobody writes to.
mkfifo "$DIR/never"
exec 8<>"$DIR/never"
pause() { read -r -t "$1" -u 8 || :; }

# --- figures -------------------------------------------------------------

# The names are those of the cases. In NOW, in kB, or slabs.
declare -A UNIT=([Slab]=kB [SUnreclaim]=kB ["free in sheaves"]=kB ["partial slabs"]=slabs)
NAMES=(Slab SUnreclaim "free in sheaves" "partial slabs")

# print WHEN: what is in NOW.
print() {
	local name

	for name in "${NAMES[@]}"; do
		[ -n "${NOW[$name]:-}" ] || continue
		printf '{"group":"memory","case":"%s, %s","round":0,"objects":1,"value":%d,"unit":"%s","counters":{}}\n' \
			"$name" "$1" "${NOW[$name]}" "${UNIT[$name]}"
	done
}

# --- the peak ------------------------------------------------------------

# Until there is a file "enough", and once more then.
sample() {
	local n

	for ((n = 0; ; n++)); do
		[ ! -e "$DIR/enough" ] || break
		look_at_meminfo
		[ $((n % FULL_SAMPLE)) -ne 0 ] || look_at_caches
		keep_highest
		pause $SAMPLE
	done
	look
	keep_highest
	for name in "${!PEAK[@]}"; do
		NOW[$name]=${PEAK[$name]}
	done
	print "at the peak"
	echo "memory.sh: $((n + 1)) samples"
}

# --- the load ------------------------------------------------------------

say() {
	local up

	read -r up _ </proc/uptime
	echo "memory.sh: $up s after boot: $*"
}

rest() { [ "$SCALE" -eq 0 ] || sleep $(($1 * SCALE)); }

# Root's directories are not this guest's to write to.
load() {
	local cpus

	cpus=$(nproc)
	cd "$DIR"
	say "hackbench"
	hackbench -g $((cpus / 4 + 1)) -l 40 >hackbench.out 2>&1 || die "hackbench failed: $(tail -n 1 hackbench.out)"
	say "stress-ng"
	stress-ng --fork "$cpus" --fork-ops $((20 * cpus)) --temp-path "$DIR" >stress-ng.out 2>&1 ||
		die "stress-ng failed: $(tail -n 1 stress-ng.out)"
	say "find"
	# it is cut, and complains
	{ find /usr/share 2>/dev/null || :; } | head -n $FILES >find.out
	[ -s find.out ] || die "find found nothing"
	say "$(wc -l <find.out) files found"
}

for tool in hackbench stress-ng find; do
	command -v $tool >/dev/null || die "there is no $tool"
done
[ -d "$SLAB" ] || die "there is no $SLAB"
look
[ -n "${NOW[Slab]:-}${NOW[SUnreclaim]:-}" ] || die "no Slab in $MEMINFO"
print "after boot"
sample &
SAMPLER=$!
load
touch "$DIR/enough"
wait $SAMPLER
SAMPLER=
rest $REST
echo 3 >"$DROP_CACHES"
rest $BETWEEN
echo 3 >"$DROP_CACHES"
look
print "at the end"
say "the end of the load"
rest $LATER
look
print "a minute later"
say "done"
