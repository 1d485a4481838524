#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# fragmentation.sh [SCENE...]: in the guest, what slabs hold where most objects have died, in
# two scenes, storm and night, one after the other, or those that are named. Prints a line of JSON for each figure, as
# lib/tests/slab_bench_kunit.c does, of the group "aging".
#
# storm: files are made, looked for and removed, on ext4 in memory and on tmpfs, in a
# cgroup whose memory does not suffice for what could stay cached, by storm.py. Every second
# time memory is short after a wave; after each wave drop_caches reclaims what is left. Some
# files, whichever, are open all the time. Measured after the last wave.
#
# night: hours of mixed load, and a rest after each: hackbench, stress-ng, file trees, a
# find, and writes to a file through a journal, all at a time, among residents.py's
# processes, which stay, or are replaced. Measured after the last rest; then follow one
# more hour, drop_caches and a rest, and it is measured again.
#
# rest: nothing for so long that what nobody needs has been given back, to tell what others
# find who come right after a scene from what is left of it for good.
#
# What is measured, of all caches, and of those of dentries and of inodes:
#
#   the bytes of objects that slabs have room for, per 1000 of objects that are alive;
#   the bytes of what is free in those slabs, be it on a list, in a cpu slab, or in a sheaf;
#   Slab and SUnreclaim of /proc/meminfo.
#
# Alive is what nobody has freed, which no kernel counts while it works: in base objects
# free in cpu slabs count as used, in 7.2 those in sheaves do. So what slabs have is counted
# first, in all caches; then a cache after the other is shrunk, which empties cpu slabs
# and sheaves alike, and the objects in use counted at once. The sheaves themselves are
# objects, too, and alive: who has many of them shows in Slab.

set -euo pipefail
export LC_ALL=C

HERE=$(dirname "$0")
# shellcheck source=look.sh
. "$HERE/look.sh"
SLAB=$(readlink -f "$SLAB")

PROC=${PROC:-/proc}
DROP_CACHES=$PROC/sys/vm/drop_caches
CGROUP=${CGROUP:-/sys/fs/cgroup}
DEVICE=${DEVICE:-/dev/ram0}
# Of seconds; SCALE=0 for a test of this script.
SCALE=${SCALE:-1}
REST=15 BETWEEN=5
WAVES=4 WAVE_FILES=${WAVE_FILES:-2000} LIMIT=${LIMIT:-24M}
# Of MemAvailable, what is left when memory is short.
LEFT_KB=16384
HOURS=4 RESIDENTS=24 TREE_FILES=300 WRITES=20
PATH=$PATH:/usr/sbin:/sbin
DIR=$(mktemp -d /run/fragmentation.XXXXXX 2>/dev/null || mktemp -d)
MOUNTED=()

die() {
	echo "fragmentation.sh: $*" >&2
	exit 1
}

say() {
	local up

	read -r up _ </proc/uptime
	echo "fragmentation.sh: $up s after boot: $*"
}

# Who waits for input ends with it.
stop() {
	local i

	{ exec 6>&- 7<&-; } 2>/dev/null || :
	wait
	for ((i = ${#MOUNTED[@]} - 1; i >= 0; i--)); do
		umount -l "${MOUNTED[i]}" || :
	done
	rm -rf "$DIR"
}
trap stop EXIT

rest() { [ "$SCALE" -eq 0 ] || sleep $(($1 * SCALE)); }

# --- figures -------------------------------------------------------------

# In bytes, by cache; for those who look for the reason, PARTIAL, what is free in the partial
# slabs of nodes, and IN_SHEAVES.
declare -A HELD ALIVE PARTIAL IN_SHEAVES SIZE

# What is read later has its dentries and inodes then already.
look_up() {
	local cache file

	for cache in "$SLAB"/*; do
		[ ! -L "$cache" ] || continue
		for file in slab_size total_objects partial objs_per_slab objects_partial shrink objects; do
			[ -e "$cache/$file" ] || die "there is no ${cache##*/}/$file"
		done
	done
}

# What slabs have, by cache. Merged caches have one directory, and symbolic links to it.
count_slabs() {
	local cache size free

	HELD=() PARTIAL=() IN_SHEAVES=()
	for cache in "$SLAB"/*; do
		[ ! -L "$cache" ] || continue
		number "$cache/slab_size"
		size=$VALUE
		number "$cache/total_objects"
		HELD[$cache]=$((VALUE * size))
		SIZE[$cache]=$size
		number "$cache/partial"
		free=$VALUE
		number "$cache/objs_per_slab"
		free=$((free * VALUE))
		number "$cache/objects_partial"
		free=$((free - VALUE))
		# where memory is short, a slab may be smaller
		[ $free -gt 0 ] || free=0
		PARTIAL[$cache]=$((free * size))
		# where there is such a file
		number "$cache/sheaf_objects"
		IN_SHEAVES[$cache]=$((VALUE * size))
	done
}

count_alive() {
	local cache

	ALIVE=()
	for cache in "${!HELD[@]}"; do
		echo 1 2>/dev/null >"$cache/shrink" || die "cannot shrink ${cache##*/}"
		number "$cache/objects"
		ALIVE[$cache]=$((VALUE * SIZE[$cache]))
	done
}

# json CASE VALUE UNIT
json() {
	printf '{"group":"aging","case":"%s","round":0,"objects":1,"value":%d,"unit":"%s","counters":{}}\n' \
		"$1" "$2" "$3"
}

# of_caches WHEN WHICH CACHE...
of_caches() {
	local when=$1 which=$2 cache held=0 alive=0

	shift 2
	for cache; do
		held=$((held + ${HELD[$cache]:-0}))
		alive=$((alive + ${ALIVE[$cache]:-0}))
	done
	[ $alive -gt 0 ] || die "$when: no $which in $SLAB"
	json "$when, $which: held for 1000 alive" $((held * 1000 / alive)) "per 1000"
	json "$when, $which: free in slabs" $((held > alive ? (held - alive) / 1024 : 0)) kB
	say "$when, $which: $((held / 1024)) kB held, $((alive / 1024)) kB alive"
}

# To see afterwards where it is.
worst() {
	local cache free

	for cache in "${!HELD[@]}"; do
		free=$(((HELD[$cache] - ALIVE[$cache]) / 1024))
		[ $free -lt 64 ] || printf '%d %d %d %d %s\n' $free $((HELD[$cache] / 1024)) \
			$((PARTIAL[$cache] / 1024)) $((IN_SHEAVES[$cache] / 1024)) "${cache##*/}"
	done | sort -rn | head -n 12 | while read -r free held partial sheaves cache; do
		echo "fragmentation.sh: $cache: $held kB held, $free kB not alive," \
			"$partial kB of it in partial slabs, $sheaves kB in sheaves"
	done
}

# measure WHEN: after a rest.
measure() {
	local inodes=() cache name

	look_up
	rest $REST
	look_at_meminfo
	count_slabs
	count_alive
	for cache in "${!HELD[@]}"; do
		case ${cache##*/} in inode_cache | *_inode_cache) inodes+=("$cache") ;; esac
	done
	# another cache's name, where they are merged
	of_caches "$1" dentries "$(readlink -f "$SLAB/dentry")"
	of_caches "$1" inodes "${inodes[@]}"
	of_caches "$1" "all caches" "${!HELD[@]}"
	for name in Slab SUnreclaim; do
		[ -n "${NOW[$name]:-}" ] || die "no $name in $MEMINFO"
		json "$1: $name" "${NOW[$name]}" kB
	done
	worst
}

# --- what both have ------------------------------------------------------

mount_one() {
	mkdir -p "${*: -1}"
	mount "$@" || die "cannot mount $*"
	MOUNTED+=("${*: -1}")
}

mount_all() {
	[ -b "$DEVICE" ] || [ "$SCALE" -eq 0 ] || die "there is no $DEVICE: the kernel wants CONFIG_BLK_DEV_RAM"
	mkfs.ext4 -q -b 4096 -N 20000 -E lazy_itable_init=0 "$DEVICE" || die "mkfs.ext4 $DEVICE failed"
	mount_one -t ext4 -o noatime "$DEVICE" "$DIR/ext4"
	mount_one -t tmpfs none "$DIR/tmpfs"
	mount_one -t tmpfs -o size=100% none "$DIR/fill"
}

# start COMMAND...: what it says can be read from 7, and what it is to do written to 6.
start() {
	rm -f "$DIR/to" "$DIR/from"
	mkfifo "$DIR/to" "$DIR/from"
	"$@" <"$DIR/to" >"$DIR/from" &
	COMPANION=$!
	exec 6>"$DIR/to" 7<"$DIR/from"
}

# What it says next, in SAID.
hear() { IFS= read -r SAID <&7 || die "$1 has failed"; }

# tell NAME WORD: what it is to do next.
tell() {
	trap '' PIPE
	echo "$2" 2>/dev/null >&6 || die "$1 has failed"
	trap - PIPE
}

# The companion has nothing more to do.
finish() {
	exec 6>&-
	wait "$COMPANION" || die "$1 has failed"
	exec 7<&-
}

# --- the storm -----------------------------------------------------------

# cgroup COMMAND...: in one whose memory is limited.
in_cgroup() {
	echo $BASHPID >"$CGROUP/storm/cgroup.procs"
	exec "$@"
}

cgroup() {
	[ -e "$CGROUP/cgroup.subtree_control" ] || mount -t cgroup2 none "$CGROUP"
	echo +memory >"$CGROUP/cgroup.subtree_control"
	mkdir -p "$CGROUP/storm"
	echo "$LIMIT" >"$CGROUP/storm/memory.max"
}

# Whoever may give memory back has to.
run_short() {
	local kb

	kb=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' "$MEMINFO")
	[ "${kb:-0}" -gt $LEFT_KB ] || die "MemAvailable is ${kb:-missing}"
	fallocate -l $(((kb - LEFT_KB) * 1024)) "$DIR/fill/file" || die "cannot fill the memory"
	rest $BETWEEN
	rm "$DIR/fill/file"
}

# How much is reclaimed where memory is short differs from one time to the next; and what
# was looked at again only goes when it is asked for twice.
reclaim() {
	[ $(($1 % 2)) -ne 0 ] || run_short
	echo 2 >"$DROP_CACHES"
	echo 2 >"$DROP_CACHES"
}

say_what_is() {
	local dentries inodes

	read -r dentries _ <"$PROC/sys/fs/dentry-state"
	read -r inodes _ <"$PROC/sys/fs/inode-nr"
	look_at_meminfo
	say "$1: $dentries dentries, $inodes inodes, Slab is ${NOW[Slab]:-unknown} kB"
}

storm() {
	local wave hits

	cgroup
	start in_cgroup python3 -B "$HERE/storm.py" "$(nproc)" $WAVES "$WAVE_FILES" "$DIR/ext4" "$DIR/tmpfs"
	for ((wave = 1; wave <= WAVES; wave++)); do
		hear storm.py
		look_at_meminfo
		say_what_is "$SAID"
		reclaim $wave
		say_what_is "reclaimed"
		[ $wave -eq $WAVES ] || tell storm.py "$wave"
	done
	hits=$(sed -n 's/^max \([0-9]*\)$/\1/p' "$CGROUP/storm/memory.events")
	[ "${hits:-0}" -gt 0 ] || die "void: $LIMIT of memory were enough"
	say "memory was at its limit $hits times"
	measure storm
	finish storm.py
	rm -rf "$DIR"/{ext4,tmpfs}/*
}

# --- the night -----------------------------------------------------------

# What a database does to be safe.
write_safely() {
	local i

	# a subshell has begun anew
	RANDOM=42
	: >"$DIR/ext4/db"
	for ((i = 0; i < WRITES; i++)); do
		dd if=/dev/zero of="$DIR/ext4/journal" bs=4k count=$((1 + RANDOM % 8)) conv=fsync status=none
		dd if=/dev/zero of="$DIR/ext4/db" bs=4k count=1 seek=$((RANDOM % 256)) \
			conv=notrunc,fsync status=none
		rm "$DIR/ext4/journal"
	done
}

tree() {
	mkdir "$DIR/ext4/tree" "$DIR/tmpfs/tree"
	python3 -B "$HERE/storm.py" 2 2 $TREE_FILES "$DIR/ext4/tree" "$DIR/tmpfs/tree" </dev/null
	find "$DIR/ext4" "$DIR/tmpfs" -type f -size +1M
	rm -rf "$DIR/ext4/tree" "$DIR/tmpfs/tree"
}

stress() {
	stress-ng --seed 42 --temp-path "$DIR/tmpfs" --fork 2 --fork-ops 200 \
		--mmap 1 --mmap-bytes 2M --mmap-ops 4
}

# job COMMAND...: in the background; what it says is kept until it fails.
job() {
	"$@" >"$DIR/$1.out" 2>&1 &
	JOBS+=($!) NAMES+=("$1")
}

hour() {
	local i JOBS=() NAMES=()

	tell residents.py "$1"
	job hackbench -g 1 -l 20
	job stress
	job tree
	job write_safely
	for i in "${!JOBS[@]}"; do
		wait "${JOBS[i]}" || die "${NAMES[i]} failed: $(tail -n 2 "$DIR/${NAMES[i]}.out")"
	done
	hear residents.py
	say "hour $1 is over"
	rest $BETWEEN
}

night() {
	local hour

	mkdir "$DIR/ext4/residents"
	start python3 -B "$HERE/residents.py" $RESIDENTS "$DIR/ext4/residents"
	hear residents.py
	say "$SAID"
	for ((hour = 1; hour <= HOURS; hour++)); do
		hour $hour
	done
	measure night
	hour $hour
	echo 3 >"$DROP_CACHES"
	rest $BETWEEN
	echo 3 >"$DROP_CACHES"
	measure "night, all dropped"
	finish residents.py
}

# -------------------------------------------------------------------------

for tool in hackbench stress-ng find python3 mkfs.ext4 fallocate; do
	command -v $tool >/dev/null || die "there is no $tool"
done
[ -d "$SLAB" ] || die "there is no $SLAB"
[ $# -gt 0 ] || set -- storm night
for scene; do
	case $scene in storm | night | rest) ;; *) die "no scene \`$scene', choose storm, night or rest" ;; esac
done
mount_all
for scene; do
	case $scene in rest) rest $REST ;; *) $scene ;; esac
done
say "done"
