#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# admin.sh caches|hotplug ROUNDS SLABINFO: in the guest, how long it takes to shrink all slab
# caches and to read their files in /sys/kernel/slab, or to take a CPU offline and online.
# Before each, all CPUs fork and look for files, so that the caches are in use. Prints a
# line of JSON for each case and round, as lib/tests/slab_bench_kunit.c does.
#
# CPUs come and go in guests of their own: with QEMU 7.2 that counts instructions, one that
# comes back finds that its timer does not work.

set -euo pipefail
export LC_ALL=C

SLAB=/sys/kernel/slab
FORKS=10
ROUNDS=$2
DIR=/run/admin
LAST=$(($(nproc) - 1))
WHAT=$1
CPU=/sys/devices/system/cpu/cpu$LAST

die() {
	echo "admin.sh: $*" >&2
	exit 1
}

# Programs from a file system in memory: what the host's does would count, too.
prepare() {
	local d

	mkdir -p $DIR
	cp "$(type -P cat)" "$(type -P find)" "$(type -P true)" "$1" $DIR/
	cd $DIR
	# merged caches have one directory, and symbolic links to it
	CACHES=()
	for d in "$SLAB"/*; do
		[ -L "$d" ] || CACHES+=("$d")
	done
	[ -d "${CACHES[0]}" ] || die "there are no caches in $SLAB"
	[ "$WHAT" = caches ] || [ -e "$CPU/online" ] || die "CPU $LAST cannot be taken offline"
	FILES=()
	for d in "${CACHES[@]}"; do
		FILES+=("$d"/*)
	done
	OBJECTS=()
	# those that never have sheaves do not have the file either
	for d in "${CACHES[@]}"; do
		[ ! -e "$d/sheaf_objects" ] || OBJECTS+=("$d/sheaf_objects")
	done
	echo "admin.sh: ${#CACHES[@]} caches, ${#FILES[@]} files, $((LAST + 1)) CPUs"
}

use_cpu() {
	local i

	taskset -p -c "$1" $BASHPID >/dev/null
	for ((i = 0; i < FORKS; i++)); do
		./true
	done
	./find /proc/sys/kernel /sys/block >/dev/null
}

use_caches() {
	local cpu

	for ((cpu = 0; cpu <= LAST; cpu++)); do
		use_cpu $cpu &
	done
	wait
}

shrink_all() {
	local c

	for c in "${CACHES[@]}"; do
		echo 1 >"$c/shrink"
	done
}

slabinfo_shrink() { ./slabinfo -s >/dev/null; }

# Some files can only be written to.
read_all() { ./cat "${FILES[@]}" >/dev/null 2>&1 || :; }

read_objects() { ./cat "${OBJECTS[@]}" >/dev/null; }
cpu_offline() { echo 0 >"$CPU/online"; }
cpu_online() { echo 1 >"$CPU/online"; }

# measure CASE COMMAND [TIMES]
measure() {
	local start end times=${3:-1} i

	start=${EPOCHREALTIME/./}
	for ((i = 0; i < times; i++)); do
		"$2"
	done
	end=${EPOCHREALTIME/./}
	printf '{"group":"%s","case":"%s","round":%d,"objects":%d,"ns":%d,"counters":{}}\n' \
		"$GROUP" "$1" "$round" "$times" $(((end - start) * 1000))
}

caches() {
	use_caches
	# what else the CPUs do meanwhile is counted too, and differs from time to time
	measure "read all files of all caches" read_all 3
	[ ${#OBJECTS[@]} -eq 0 ] || measure "read sheaf_objects of all caches" read_objects
	measure "shrink all caches" shrink_all
	use_caches
	measure "slabinfo -s" slabinfo_shrink
}

hotplug() {
	use_caches
	measure "CPU offline" cpu_offline
	measure "CPU online" cpu_online
}

case $WHAT in
caches) GROUP="admin" ;;
hotplug) GROUP="hotplug" ;;
*) die "usage: admin.sh caches|hotplug ROUNDS SLABINFO" ;;
esac
prepare "$3"
for ((round = 0; round < ROUNDS; round++)); do
	"$WHAT"
done
