#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# guest.sh MODULE GROUPS ROUNDS OBJECTS [PARAMETER=...]: in the guest, run the benchmarks
# and print what they print to the kernel log. The accounted cases want a cgroup
# /slab_bench, those of the flood one with little memory, /slab_bench_limit.

set -euo pipefail

CGROUP=/sys/fs/cgroup
LIMIT=8M

if [ ! -e $CGROUP/cgroup.subtree_control ]; then
	mount -t cgroup2 none $CGROUP
fi
echo +memory >$CGROUP/cgroup.subtree_control
mkdir -p $CGROUP/slab_bench $CGROUP/slab_bench_limit
echo "$LIMIT" >$CGROUP/slab_bench_limit/memory.max
dmesg -C
/sbin/insmod "$1" groups="$2" rounds="$3" objects="$4" "${@:5}"
dmesg -t
