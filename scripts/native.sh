#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# native.sh [OPTION...] TREE OBJ PROGRAM: tools/testing/slab-native/build.sh with these
# arguments and this repository's compiler settings. Prints nothing unless it fails;
# the log is PROGRAM.log.

. "$(dirname "$0")/lib.sh"

export CCACHE_DIR=${CCACHE_DIR:-$BUILD/ccache} CCACHE_BASEDIR=${CCACHE_BASEDIR:-$OUT}
export CCACHE_COMPILERCHECK=content CCACHE_DEPEND=1
program=${*: -1}
log=$program.log
run_logged "$log" "$ROOT/tools/testing/slab-native/build.sh" "$@" \
	CC="ccache gcc" HOSTCC="ccache gcc" -j"$JOBS" ||
	die "$(rel "$program") cannot be built, see $(rel "$log")"
