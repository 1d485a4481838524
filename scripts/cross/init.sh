#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# /init of a guest of another architecture that has a Debian: runs /command, and then shows
# on the console what it printed, which the kernel, that writes there as well, must not
# mangle. cross.sh reads it.

export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm /dev/pts
mount -t proc proc /proc
mount -t sysfs sysfs /sys
# As udev would. The runner of kselftests writes to /dev/stdout, <(...) of bash needs /dev/fd.
ln -s /proc/self/fd /dev/fd
ln -s fd/0 /dev/stdin
ln -s fd/1 /dev/stdout
ln -s fd/2 /dev/stderr
mount -t debugfs debugfs /sys/kernel/debug
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /dev/shm
bash /command >/output 2>&1 </dev/null
rc=$?
read -r loglevel _ </proc/sys/kernel/printk
echo 1 >/proc/sys/kernel/printk
echo "cross: output"
cat /output
echo "cross: rc $rc"
echo "cross: end"
sleep 1
echo "$loglevel" >/proc/sys/kernel/printk
echo o >/proc/sysrq-trigger
sleep 60
