#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# real.sh time|busy|profile ROUNDS DIR [CASE...]: in the guest, run real programs and print a line
# of JSON for each round of each case, as lib/tests/slab_bench_kunit.c does: what an operation
# takes, see meter.c, Slab and partial slabs afterwards, and the most of them that there was.
# `real.sh --list' prints the names of the cases.
#
# IDLE=FILE is the module idle for this kernel, which meter wants to have where instructions
# are counted. DIR/root.tar has all programs and their libraries, see root.sh. It is unpacked to a file
# system in memory that is then the root: what the host's file system does would be
# measured, too. ext4 is on /dev/ram0.
#
# Before the rounds there is one that is not measured, for what is done only once; while it
# runs, memory is looked at from time to time: that is where the peak is from. A case is
# void, and so is all, if its program fails or does not say that it did all it should.
# SCALE=N is how many per cent of the operations are done. With `profile' instead of
# time or busy it is not measured, but asked where the time goes, and with LOCKS=1 what
# locks are waited for: lines of perf report and perf lock contention.

set -euo pipefail
export LC_ALL=C

HERE=${0%/*}
NEW_ROOT=/run/real
DEVICE=/dev/ram0
PORT=5201
# Milliseconds. What is counted includes the batches of kfree_rcu(), 5 s apart.
declare -A REST=([busy]=6000 [time]=100)
# Nanoseconds between samples.
PERIOD=${PERIOD:-50000}
LOCKS=${LOCKS:-} IDLE=${IDLE:-}
SAMPLE=0.005
FULL_SAMPLE=10

# name, what makes the case, operations (1 CPU or more), options
TABLE="
	true programs 100
	perf-fork perf_syscall fork 100
	perf-execve perf_syscall execve 40
	perf-pipe perf_pipe 3000
	perf-messaging perf_messaging 4000
	hackbench hackbench_pipes 4000
	stress-fork stress fork 60
	stress-clone stress clone 3 --clone-max 16
	stress-exec stress exec 8 --exec-max 8
	stress-open stress open 1500
	stress-dentry stress dentry 600 --dentries 100
	stress-rename stress rename 1500
	stress-sockpair stress sockpair 64
	stress-msg stress msg 8000
	stress-mmap stress mmap 16 --mmap-bytes 128k
	stress-mremap stress mremap 32 --mremap-bytes 1m
	stress-brk stress brk 8000
	mmap1-processes scaling mmap1 -p 4000
	mmap1-threads scaling mmap1 -t 4000
	mmap2-processes scaling mmap2 -p 4000
	mmap2-threads scaling mmap2 -t 4000
	brk1-processes scaling brk1 -p 8000
	brk1-threads scaling brk1 -t 8000
	page_fault1-processes scaling page_fault1 -p 16000
	page_fault1-threads scaling page_fault1 -t 16000
	tlb_flush2-processes scaling tlb_flush2 -p 8000
	tlb_flush2-threads scaling tlb_flush2 -t 8000
	iperf3-tcp iperf 4000 -l 8k
	iperf3-udp iperf 2000 -u -b 0 -l 1400 -w 8m
	tree-copy-ext4 tree_copy ext4
	tree-read-ext4 tree_read ext4
	tree-remove-ext4 tree_remove ext4
	tree-copy-tmpfs tree_copy tmpfs
	tree-read-tmpfs tree_read tmpfs
	tree-remove-tmpfs tree_remove tmpfs
	fio-null_blk fio_null_blk 8000
	fio-ublk fio_ublk 4000
	sqlite3 sqlite 400
	redis redis 2000
"

die() {
	echo "real.sh: $*" >&2
	exit 1
}

list() {
	local name

	while read -r name _; do
		[ -z "$name" ] || echo "$name"
	done <<<"$TABLE"
}

# --- a root in memory ----------------------------------------------------

make_root() {
	local dir

	[ -e "$DIR/root.tar" ] || die "there is no $DIR/root.tar"
	mkdir -p $NEW_ROOT
	mount -t tmpfs -o size=70% real $NEW_ROOT
	# in large records: each is a request to the host
	tar -b 1024 -C $NEW_ROOT -xf "$DIR/root.tar" || die "cannot unpack $DIR/root.tar"
	cp "$0" "$HERE/../look.sh" $NEW_ROOT/
	for dir in dev proc sys; do
		mount --rbind /$dir $NEW_ROOT/$dir
	done
}

make_ext4() {
	[ -b $DEVICE ] || die "there is no $DEVICE: the kernel wants CONFIG_BLK_DEV_RAM"
	command -v mkfs.ext4 >/dev/null || die "there is no mkfs.ext4, of e2fsprogs"
	mkfs.ext4 -q -b 4096 -E lazy_itable_init=0,lazy_journal_init=0 $DEVICE ||
		die "mkfs.ext4 $DEVICE failed"
	mount -t ext4 -o noatime $DEVICE $NEW_ROOT/mnt/ext4 ||
		die "cannot mount $DEVICE: the kernel wants CONFIG_EXT4_FS"
}

# As many samples as it likes, and lock's tracepoints.
allow_perf() {
	[ -z "$LOCKS" ] || [ -e /sys/kernel/tracing/events/lock ] ||
		mount -t tracefs none /sys/kernel/tracing ||
		die "no tracefs: the kernel wants CONFIG_FTRACE"
	echo 0 >/proc/sys/kernel/perf_cpu_time_max_percent
	echo 1000000 >/proc/sys/kernel/perf_event_max_sample_rate
}

outside() {
	PATH=$PATH:/usr/sbin:/sbin
	[ -z "$IDLE" ] || insmod "$IDLE" || die "cannot load $IDLE"
	make_root
	make_ext4
	ip link set lo up || die "no loopback"
	# all datagrams of a case fit
	echo $((64 << 20)) >/proc/sys/net/core/rmem_max
	echo $((64 << 20)) >/proc/sys/net/core/wmem_max
	# that addresses are the same each time
	echo 0 >/proc/sys/kernel/randomize_va_space
	ulimit -n 4096
	if [ "$MODE" = profile ]; then allow_perf; fi
	exec chroot $NEW_ROOT /bin/bash /real.sh --inside "$@"
}

# --- cases ---------------------------------------------------------------

# A case sets CMD and OPS, a pattern for what the program SAID when all went well, and may
# set what is called before each round, after it, and to judge it.
CMD=() OPS='' SAID='' PREPARE=: FINISH=: JUDGE=:

# ops N: about so many, the same number for each task.
ops() {
	EACH=$((($1 * SCALE / 100 + TASKS - 1) / TASKS))
	[ $EACH -gt 0 ] || EACH=1
	OPS=$((EACH * TASKS))
}

# Programs that do nothing, one after the other.
programs() {
	ops "$1"
	# shellcheck disable=SC2016 # its own
	CMD=(bash -c 'for ((i = 0; i < $1; i++)); do /bin/true || exit; done' -- "$OPS")
}

perf_syscall() {
	ops "$2"
	CMD=(perf bench syscall "$1" -l "$OPS") SAID="Executed $OPS $1"
}

perf_pipe() {
	ops "$1"
	CMD=(perf bench sched pipe -l "$OPS") SAID="Executed $OPS pipe operations"
}

# Ten tasks send to ten others, over sockets, as many groups of them as there are CPUs
# for, up to four.
groups() { GROUPS_OF=$((TASKS < 4 ? 1 : TASKS < 16 ? 2 : 4)); }

perf_messaging() {
	local loops

	groups
	loops=$(($1 * SCALE / 100 / GROUPS_OF / 400))
	[ $loops -gt 0 ] || loops=1
	OPS=$((loops * GROUPS_OF * 400))
	CMD=(perf bench sched messaging -g "$GROUPS_OF" -l "$loops") SAID="$GROUPS_OF groups == "
}

hackbench_pipes() {
	perf_messaging "$1"
	CMD=(hackbench --pipe -g "$GROUPS_OF" -l "$((OPS / GROUPS_OF / 400))") SAID='^Time: '
}

# stress STRESSOR OPS [OPTION...]; some do a few more than they are told.
stress() {
	ops "$2"
	STRESSOR=$1
	CMD=(stress-ng "--$1" "$TASKS" "--$1-ops" "$OPS" "${@:3}" --temp-path /tmp/stress
		--no-rand-seed --metrics-brief)
	SAID=' successful run completed'
	JUDGE=all_bogo_ops
	# it refuses to be run by root
	[ "$1" != exec ] || CMD=(setpriv --reuid=65534 --regid=65534 --clear-groups "${CMD[@]}")
}

all_bogo_ops() {
	local n

	n=$(grep -m 1 -oE "\] $STRESSOR +[0-9]+" out | grep -oE '[0-9]+$') ||
		die "$NAME: no number of operations in its output"
	[ "$n" -ge "$OPS" ] || die "$NAME: $n operations instead of $OPS"
}

# scaling CASE -p|-t OPS
scaling() {
	[ "$TASKS" -gt 1 ] || TASKS=2
	ops "$3"
	CMD=(scale "$2" "$TASKS" -n "$EACH" "$1") SAID="^$OPS operations"
}

# iperf OPS [OPTION...]: blocks that are sent
iperf() {
	TASKS=1
	ops "$1"
	CMD=(iperf3 -c 127.0.0.1 -p "$PORT" -k "$OPS" "${@:2}") SAID='iperf Done'
	PREPARE=iperf_server FINISH=server_ended
}

# server TEXT COMMAND...: start it, and wait until it says so.
server() {
	local i

	# what another one has said shall not count
	rm -f server
	: >server
	"${@:2}" >>server 2>&1 &
	SERVER=$!
	for ((i = 0; i < 3000; i++)); do
		! grep -q "$1" server || return 0
		kill -0 $SERVER 2>/dev/null || break
		pause 0.02
	done
	die "$NAME: no server: $(tail -n 1 server)"
}

iperf_server() { server 'Server listening' iperf3 -s -1 -p $PORT --forceflush; }

server_ended() {
	local pid=$SERVER

	SERVER=
	wait "$pid" || die "$NAME: the server failed: $(tail -n 1 server)"
}

server_killed() {
	kill "$SERVER"
	server_ended
}

# A tree of small files, 20 to a directory, without a process for each.
make_tree() {
	local i dir

	[ ! -e /tmp/tree ] || return 0
	TREE_BYTES=0
	for ((i = 0; i < FILES; i++)); do
		dir=/tmp/tree/$((i / 20))
		[ -d $dir ] || mkdir -p $dir
		printf '%*s' $((100 + i % 8 * 3000)) x >$dir/file-$i
		TREE_BYTES=$((TREE_BYTES + 100 + i % 8 * 3000))
	done
}

tree() {
	make_tree
	PLACE=/mnt/$1/tree OPS=$FILES
}

no_copy() { rm -rf "$PLACE"; }

a_copy() {
	no_copy
	cp -r /tmp/tree "$PLACE"
	sync
}

cold_copy() {
	a_copy
	echo 3 >/proc/sys/vm/drop_caches
}

is_copied() {
	local files=("$PLACE"/*/*)

	[ "${#files[@]}" -eq $FILES ] || die "$NAME: ${#files[@]} files instead of $FILES"
}

is_removed() { [ ! -e "$PLACE" ] || die "$NAME: $PLACE is still there"; }

tree_copy() {
	tree "$1"
	CMD=(cp -r /tmp/tree "$PLACE") PREPARE=no_copy JUDGE=is_copied
}

tree_read() {
	tree "$1"
	# shellcheck disable=SC2016 # its own
	CMD=(bash -c 'find "$1" -type f -exec cat {} + | wc -c' -- "$PLACE")
	SAID="^$TREE_BYTES\$" PREPARE=cold_copy
}

tree_remove() {
	tree "$1"
	CMD=(rm -r "$PLACE") PREPARE=a_copy JUDGE=is_removed
}

# fio_of DEVICE OPS
fio_of() {
	ops "$2"
	CMD=(fio --name=real --filename="$1" --ioengine=io_uring --direct=1 --iodepth=32
		--rw=randread --bs=4k --norandommap --randrepeat=1 --thread --numjobs="$TASKS"
		--gtod_reduce=1 --allow_file_create=0 --size=1G --number_ios="$EACH"
		--group_reporting)
	SAID="issued rwts: total=$OPS,"
}

fio_null_blk() {
	[ -b /dev/nullb0 ] || die "there is no /dev/nullb0: the kernel wants CONFIG_BLK_DEV_NULL_BLK"
	fio_of /dev/nullb0 "$1"
}

fio_ublk() {
	fio_of UBLK "$1"
	PREPARE=ublk_server FINISH=server_killed
}

# The device of the one before may not be gone yet, and then this is another one.
ublk_server() {
	server '^/dev/ublkb[0-9]*$' ublk_null -q "$((TASKS < 16 ? TASKS : 16))" -d 128
	UBLK=$(grep -m 1 '^/dev/ublkb' server)
}

# Transactions, each with a journal that is made and removed.
sqlite() {
	TASKS=1
	ops "$1"
	DB=/mnt/ext4/db
	sqlite_script >script
	CMD=(sqlite3 -bail "$DB" '.read script') SAID="^rows $((OPS / 2))\$" PREPARE=no_db
}

no_db() { rm -f "$DB"; }

sqlite_script() {
	local i

	echo 'CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);'
	for ((i = 0; i < OPS / 2; i++)); do
		echo "INSERT INTO t VALUES($i, 'text of number $i');"
	done
	for ((i = 0; i < OPS / 2; i++)); do
		echo "UPDATE t SET b = 'another text of number $i' WHERE a = $i;"
	done
	echo "SELECT 'rows ' || count(*) FROM t WHERE b LIKE 'another%';"
}

# Requests, of four kinds.
redis() {
	TASKS=1
	ops "$1"
	CMD=(redis-benchmark -n "$((OPS / 4))" -c 10 -t "set,get,lpush,sadd" --csv)
	SAID='"SADD","[1-9]' PREPARE=redis_server FINISH=server_killed
}

redis_server() {
	server 'Ready to accept connections' redis-server --save '' --appendonly no --bind 127.0.0.1
}

# --- rounds --------------------------------------------------------------

# No process: a read from a pipe that nobody writes to.
pause() { read -r -t "$1" -u 8 || :; }

# The most there is of memory, until there is a file "enough".
sample() {
	local n

	PEAK=()
	for ((n = 0; ; n++)); do
		look_at_meminfo
		[ $((n % FULL_SAMPLE)) -ne 0 ] || look_at_caches
		keep_highest
		[ ! -e enough ] || break
		pause $SAMPLE
	done
	look
	keep_highest
	echo "${PEAK[Slab]} ${PEAK["partial slabs"]}" >&9
}

# attempt COMMAND...: it did what it should, or die.
attempt() {
	local rc=0

	$PREPARE
	# which device it is, is known when its server runs
	"${@/#--filename=UBLK/--filename=$UBLK}" >out 2>&1 </dev/null || rc=$?
	[ $rc -eq 0 ] || die "$NAME failed ($rc): $(tail -n 1 out)"
	[ -z "$SAID" ] || grep -qE "$SAID" out ||
		die "$NAME: its output has no \`$SAID': $(tail -n 1 out)"
	$JUDGE
	$FINISH
}

warm_up() {
	local slab partial

	rm -f enough
	sample &
	SAMPLER=$!
	attempt "${CMD[@]}"
	: >enough
	read -r -t 600 -u 9 slab partial || die "$NAME: nobody saw the peak"
	PEAK=([Slab]=$slab ["partial slabs"]=$partial)
	# bash may have forgotten it already, and says so
	wait "$SAMPLER" 2>/dev/null || :
	SAMPLER=
}

round() {
	local ns

	attempt meter "$MODE" "${REST[$MODE]}" "${CMD[@]}" 3>took
	ns=$(<took)
	look
	keep_highest
	printf '{"group":"real","case":"%s","round":%d,"objects":%d,"ns":%d,' \
		"$NAME" "$1" "$OPS" "$ns"
	printf '"slab_kb":%d,"slab_peak_kb":%d,"partial":%d,"partial_peak":%d,"counters":{}}\n' \
		"${NOW[Slab]}" "${PEAK[Slab]}" "${NOW["partial slabs"]}" "${PEAK["partial slabs"]}"
}

# perf_said COMMAND...: its output, without comments and empty lines, each behind a word.
perf_said() {
	perf "${@:2}" >said 2>err || die "perf $2 failed: $(tail -n 1 err)"
	grep -vE '^#|^ *$' said | while IFS= read -r line; do
		echo "$1|$line"
	done
}

profile() {
	# the same that is measured
	attempt perf record -q -e cpu-clock:I -c "$PERIOD" -a -g -o data -- \
		meter "$WAY" "${REST[$WAY]}" "${CMD[@]}" 3>/dev/null
	echo "operations|$OPS"
	perf_said self report --no-children -i data -g none -F "sample,dso,sym" -t '|' --stdio
	perf_said all report --children -i data -g none -F "overhead_children,dso,sym" -t '|' --stdio
	[ -n "$LOCKS" ] || return 0
	attempt perf lock record -q -o locks -- "${CMD[@]}"
	# less is left out of the stacks than usual: the locks of barns are in functions of their own
	perf_said lock lock contention -i locks --stack-skip 2 -E 15
}

# measure NAME FUNCTION ARGUMENT...
measure() {
	local r

	NAME=$1 CMD=() OPS='' SAID='' PREPARE=: FINISH=: JUDGE=:
	TASKS=$(nproc_of)
	"${@:2}"
	warm_up
	for ((r = 0; r < ROUNDS; r++)); do
		if [ "$MODE" = profile ]; then profile; else round $r; fi
	done
	echo "real.sh: $NAME: $OPS operations, $((SECONDS - T0)) s"
}

nproc_of() { grep -c '^processor' /proc/cpuinfo; }

chosen() { [ ${#CHOSEN[@]} -eq 0 ] || [[ " ${CHOSEN[*]} " == *" $1 "* ]]; }

stop() {
	[ -z "$SAMPLER" ] || kill "$SAMPLER" 2>/dev/null || :
	[ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null || :
}

inside() {
	local line words

	SERVER='' UBLK='' SAMPLER='' T0=$SECONDS
	trap stop EXIT
	# shellcheck source=../look.sh
	. /look.sh
	cd /tmp
	mkfifo never peak
	exec 8<>never 9<>peak
	# with several CPUs nobody can tell for how long they were busy
	WAY="time"
	[ "$(nproc_of)" -gt 1 ] || WAY=busy
	while read -r line; do
		read -r -a words <<<"$line"
		[ ${#words[@]} -eq 0 ] || ! chosen "${words[0]}" || measure "${words[@]}"
	done <<<"$TABLE"
}

# -------------------------------------------------------------------------

if [ "${1:-}" = --list ]; then
	list
	exit
fi
IN=
if [ "${1:-}" = --inside ]; then
	IN=1
	shift
fi
if [ $# -lt 3 ] || [[ " time busy profile " != *" $1 "* ]]; then
	die "usage: real.sh time|busy|profile ROUNDS DIR [CASE...] | --list"
fi
MODE=$1 ROUNDS=$2 DIR=$3 CHOSEN=("${@:4}")
SCALE=${SCALE:-100}
FILES=$((4 * SCALE))
if [ -n "$IN" ]; then inside; else outside "$@"; fi
