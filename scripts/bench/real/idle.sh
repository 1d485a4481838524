#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# idle.sh DIR CONFIG: build the module idle for the kernel DIR/obj/CONFIG, as
# DIR/idle-CONFIG/idle.ko. Prints nothing.

. "$(dirname "$0")/../../lib.sh"

DIR=${1:?} CONFIG=${2:?}
M=$DIR/idle-$CONFIG
LOG=$LOGS/bench-idle-${DIR##*/}.log

export CCACHE_DIR=${CCACHE_DIR:-$BUILD/ccache}
rm -rf "$M"
cp -r "$SCRIPTS/bench/real/idle" "$M"
run_logged "$LOG" make -C "$DIR/linux" O="$DIR/obj/$CONFIG" M="$M" CC="ccache gcc" modules ||
	die "the module idle does not build for $(rel "$DIR"), see $(rel "$LOG")"
