#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# syscalls.sh PROGRAM ROUNDS TIMES [OPTION|CASE...]: in the guest, run sys_bench from a file
# system in memory, and print what it prints. It reads directly from an ext4 on
# /dev/ram0, which is made here, of one file, read-only, without a journal: nothing
# else has work to do there.

set -euo pipefail

die() {
	echo "syscalls.sh: $*" >&2
	exit 1
}

PATH=$PATH:/usr/sbin:/sbin
DEVICE=/dev/ram0
program=$1 rounds=$2 times=$3
shift 3

[ -b $DEVICE ] || die "there is no $DEVICE: the kernel wants CONFIG_BLK_DEV_RAM"
command -v mkfs.ext4 >/dev/null || die "there is no mkfs.ext4, of e2fsprogs"
cp "$program" /run/
cd /run
mkdir -p direct
mkfs.ext4 -q -b 4096 -O ^has_journal -E lazy_itable_init=0 $DEVICE ||
	die "mkfs.ext4 $DEVICE failed"
mount -t ext4 -o noatime $DEVICE direct ||
	die "cannot mount $DEVICE: the kernel wants CONFIG_EXT4_FS"
dd if=/dev/zero of=direct/file bs=4k count=16 status=none
sync
mount -o remount,ro direct
./sys_bench -r "$rounds" -n "$times" -f direct/file "$@"
