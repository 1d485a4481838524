#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# hog.sh MODULE: in a guest with PREEMPT_RT, and its last CPU without a tick, hog that CPU
# from user space by a task of a higher priority than RCU's threads, run the benchmark's
# group `hog', and print what it prints. The hog stays until the figure is there.

set -euo pipefail

LAST=$(($(nproc --all) - 1))
PATIENCE=120
FIGURE='slab_bench: {'
HOG=

die() {
	echo "hog.sh: $*" >&2
	exit 1
}

stop() { [ -z "$HOG" ] || kill "$HOG" 2>/dev/null || :; }
trap stop EXIT

# Nothing lends the hogged CPU to others.
echo -1 >/proc/sys/kernel/sched_rt_runtime_us
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
fair=/sys/kernel/debug/sched/fair_server/cpu$LAST/runtime
[ ! -e "$fair" ] || echo 0 >"$fair"

taskset -c $LAST chrt -f 40 bash -c 'while :; do :; done' &
HOG=$!
read -r start _ </proc/uptime
sleep 1
dmesg -C
/sbin/insmod "$1" groups=hog rounds=1 &
module=$!
for ((i = 0; i < PATIENCE; i++)); do
	if dmesg -t | grep -q "$FIGURE"; then break; fi
	kill -0 $module 2>/dev/null || break
	sleep 1
done
dmesg -t | grep -q "$FIGURE" || die "no figure within $PATIENCE s, or before the module ended"
read -r now _ </proc/uptime
ran=$(awk '{ print $14 + $15 }' "/proc/$HOG/stat")
kill $HOG
wait $HOG 2>/dev/null || :
HOG=
wait $module
dmesg -t
# That it was one: the CPU was its own for nine tenths of the time at least.
awk -v ran="$ran" -v was="$(awk -v a="$start" -v b="$now" 'BEGIN { print b - a }')" \
	-v hz="$(getconf CLK_TCK)" 'BEGIN { exit ran / hz < 0.9 * was }' || die "the hog ran for $ran ticks only"
