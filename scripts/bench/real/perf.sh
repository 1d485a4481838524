#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# perf.sh DIR: build the laid tree's perf as DIR/perf, with what perf bench, perf record and
# perf lock need and nothing else: Debian's, of 6.1, has no bench syscall fork and execve.
# Needs gcc, make, flex, bison, libelf-dev and libtraceevent-dev. Prints nothing.

. "$(dirname "$0")/../../lib.sh"

O=${1:?}
WITHOUT="AUXTRACE CAPSTONE DEMANGLE DWARF GTK2 JEVENTS LIBBABELTRACE LIBBPF LIBCAP LIBCRYPTO
	LIBDW LIBDWARF LIBLLVM LIBNUMA LIBPERL LIBPFM4 LIBPYTHON LIBUNWIND LIBZSTD LZMA SDT SHELLCHECK SLANG"
ARGS=()
for what in $WITHOUT; do
	ARGS+=("NO_$what=1")
done

[ -e /usr/include/traceevent/event-parse.h ] ||
	[ -e "/usr/include/$(uname -m)-linux-gnu/traceevent/event-parse.h" ] ||
	die "libtraceevent-dev is not installed, run: make deps"
export CCACHE_DIR=${CCACHE_DIR:-$BUILD/ccache}
mkdir -p "$O"
run_logged "$LOGS/bench-perf.log" make -C "$TREE/tools/perf" O="$O" -j"$JOBS" CC="ccache gcc" \
	BUILD_BPF_SKEL=0 WERROR=0 "${ARGS[@]}" perf ||
	die "perf does not build, see $(rel "$LOGS/bench-perf.log")"
