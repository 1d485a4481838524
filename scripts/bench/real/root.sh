#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# root.sh DIR TREE OBJ: make DIR/root.tar, the root of real.sh: the programs that it runs,
# with the libraries that they want, and nothing else. Of no package are meter and scale,
# static, from here; ublk_null of TREE's selftests, built in OBJ; and the laid tree's perf,
# which is built once. Prints nothing.

. "$(dirname "$0")/../../lib.sh"

HERE=$SCRIPTS/bench/real
DIR=${1:?} FROM=${2:?} O=${3:?}
ROOT_DIR=$DIR/root
PERF=$OUT/bench/perf
PROGRAMS="bash cat cp find fio grep hackbench iperf3 mkdir mkfifo redis-benchmark redis-check-rdb
	rm setpriv sqlite3 stress-ng sync tail true wc"

# own PROGRAM: static, so that it is not the library that is measured
own() {
	run_logged "$LOGS/bench-$1.log" "${CC:-gcc}" -O2 -Wall -static -pthread -o "$ROOT_DIR/usr/bin/$1" \
		"$HERE/$1.c" || die "$1 does not build, see $(rel "$LOGS/bench-$1.log")"
}

# put FILE: a program, and what it is linked with
put() {
	local lib libs

	cp -L "$1" "$ROOT_DIR/usr/bin/"
	libs=$(ldd "$1") || die "ldd $1 failed"
	grep -oE '/(usr/)?lib[^ )]*' <<<"$libs" | while read -r lib; do
		[ -e "$ROOT_DIR$lib" ] || cp -L --parents "$lib" "$ROOT_DIR"
	done
}

need_tool rsync ldd
[ -e /usr/include/liburing.h ] || die "liburing-dev is not installed, run: make deps"
rm -rf "$ROOT_DIR"
mkdir -p "$ROOT_DIR"/{dev,etc,mnt/ext4,mnt/tmpfs,proc,sys,tmp/stress,usr/{bin,lib,lib64,sbin}}
chmod 1777 "$ROOT_DIR"/tmp{,/stress}
for dir in bin lib lib64 sbin; do
	ln -s usr/$dir "$ROOT_DIR/$dir"
done
# stress-ng wants to have a name for who it is
echo 'root:x:0:0::/:/bin/bash' >"$ROOT_DIR/etc/passwd"
for program in $PROGRAMS; do
	need_tool "$program"
	put "$(type -P "$program")"
done
# One program, which goes by its name; a package of the other name would start it here.
ln -s redis-check-rdb "$ROOT_DIR/usr/bin/redis-server"
own meter
own scale
run_logged "$LOGS/bench-selftest.log" install_programs "$FROM" "$O" "$OUT/bench/selftest" ||
	die "the slab selftest does not build, see $(rel "$LOGS/bench-selftest.log")"
put "$OUT/bench/selftest/slab/ublk_null"
[ -x "$PERF/perf" ] || "$HERE/perf.sh" "$PERF"
put "$PERF/perf"
tar -C "$ROOT_DIR" --owner=0 --group=0 -cf "$DIR/root.tar.new" .
mv "$DIR/root.tar.new" "$DIR/root.tar"
