#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# guest.sh MODULE GROUPS ROUNDS OBJECTS: in the guest, run the benchmarks and print what
# they print to the kernel log. The accounted cases want a cgroup /slab_bench.

set -euo pipefail

CGROUP=/sys/fs/cgroup

if [ ! -e $CGROUP/cgroup.subtree_control ]; then
	mount -t cgroup2 none $CGROUP
fi
echo +memory >$CGROUP/cgroup.subtree_control
mkdir -p $CGROUP/slab_bench
dmesg -C
/sbin/insmod "$1" groups="$2" rounds="$3" objects="$4"
dmesg -t
