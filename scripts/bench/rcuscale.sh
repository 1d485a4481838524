#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# rcuscale.sh OBJ ROUNDS THREADS...: in the guest, run the kernel's own benchmark of
# kfree_rcu(), OBJ/kernel/rcu/rcuscale.ko, with so many threads, and print what it found as
# lib/tests/slab_bench_kunit.c does: time for an object, and the memory that it says there
# was less of meanwhile.

set -euo pipefail
export LC_ALL=C

OBJ=$1 ROUNDS=$2
LOOPS=20
OBJECTS=8000
# Of these it takes some for an object: one would be 32 bytes, these are 256.
MULT=10
PATIENCE=600
FOUND='Total time taken by all kfree.ers: ([0-9]+) ns, .*memory footprint: (-?[0-9]+)MB'

die() {
	echo "rcuscale.sh: $*" >&2
	exit 1
}

# run THREADS ROUND
run() {
	local case="$1 threads" i line='' footprint

	[ "$1" -ne 1 ] || case="1 thread"
	# what the round before has left behind would come back amid this one
	echo 3 >/proc/sys/vm/drop_caches
	sleep 5
	dmesg -C
	/sbin/insmod "$OBJ/kernel/rcu/rcuscale.ko" kfree_rcu_test=1 "kfree_nthreads=$1" holdoff=0 \
		kfree_alloc_num=$OBJECTS kfree_loops=$LOOPS kfree_mult=$MULT shutdown=0
	for ((i = 0; i < PATIENCE; i++)); do
		line=$(dmesg -t | grep -E "$FOUND" || :)
		[ -z "$line" ] || break
		sleep 0.2
	done
	/sbin/rmmod rcuscale
	[[ $line =~ $FOUND ]] || die "with $1 threads it did not end"
	# it is the difference of what was available: less than nothing is nothing
	footprint=${BASH_REMATCH[2]}
	[ "$footprint" -ge 0 ] || footprint=0
	printf '{"group":"rcuscale","case":"%s","round":%d,"objects":%d,"ns":%d}\n' "$case" "$2" \
		$(($1 * OBJECTS * LOOPS)) "${BASH_REMATCH[1]}"
	printf '{"group":"rcuscale","case":"%s, footprint","round":%d,"objects":1,"value":%d,"unit":"MB"}\n' \
		"$case" "$2" "$footprint"
}

[ -e "$OBJ/kernel/rcu/rcuscale.ko" ] || die "the kernel has no rcuscale: it wants CONFIG_RCU_SCALE_TEST"
/sbin/insmod "$OBJ/kernel/torture.ko"
shift 2
for threads; do
	for ((round = 0; round < ROUNDS; round++)); do
		run "$threads" "$round"
	done
done
