#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# queues.sh DIR ROUNDS: in the guest, reads from a ublk null target with as many queues as
# half the CPUs, of depth 128, all at once. A job of fio submits to each queue from a CPU
# of its own, and the thread that serves the queue is on another CPU, of another node. So
# bios are allocated on one node and freed on the other. DIR has ublk_null of
# tools/testing/selftests/slab. Prints, as lib/tests/slab_bench_kunit.c does, how many of a
# million bios came from slabs and went to slabs; at first, too, when the cache is shrunk.
# IOS= chooses how many reads each queue gets.

set -euo pipefail
export LC_ALL=C

SLAB=${SLAB_SYSFS:-/sys/kernel/slab}
SYS=${SYS:-/sys}
UBLK_NULL=$1/ublk_null ROUNDS=$2
DEPTH=128
TMP=$(mktemp -d /run/queues.XXXXXX 2>/dev/null || mktemp -d)
SERVER='' DEV=''

die() {
	echo "queues.sh: $*" >&2
	exit 1
}

cleanup() {
	[ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null || :
	rm -rf "$TMP"
}
trap cleanup EXIT

# --- the server ----------------------------------------------------------

# start_server [OPTION...]: sets SERVER and DEV.
start_server() {
	local i

	: >"$TMP/out"
	"$UBLK_NULL" -q "$QUEUES" -d $DEPTH "$@" >"$TMP/out" 2>"$TMP/err" &
	SERVER=$!
	for ((i = 0; i < 600; i++)); do
		DEV=
		read -r DEV <"$TMP/out" || :
		[ -z "$DEV" ] || return 0
		kill -0 $SERVER 2>/dev/null || break
		sleep 0.1
	done
	die "no server: $(tail -n 1 "$TMP/err")"
}

stop_server() {
	local pid=$SERVER

	SERVER=
	kill "$pid"
	wait "$pid" || die "the server failed: $(tail -n 1 "$TMP/err")"
}

# --- who is where --------------------------------------------------------

# node_of CPU: in NODE.
node_of() {
	local dir

	NODE=
	for dir in "$SYS/devices/system/cpu/cpu$1"/node*; do
		NODE=${dir##*/node}
	done
}

# The block layer says which CPUs submit to a queue: it takes the first of them. The
# server of the queue gets the last one of the queue half of them further.
assign() {
	local q list first=() last=()

	SUBMITTERS=() SERVERS=()
	for ((q = 0; q < QUEUES; q++)); do
		read -r list <"$SYS/block/${DEV##*/}/mq/$q/cpu_list"
		first+=("${list%%[,-]*}")
		last+=("${list##*[, -]}")
	done
	for ((q = 0; q < QUEUES; q++)); do
		SUBMITTERS+=("${first[q]}")
		SERVERS+=("${last[(q + QUEUES / 2) % QUEUES]}")
	done
}

# Nobody is on two sides, and nobody serves his own node.
assigned_well() {
	local q node

	[ "$(printf '%s\n' "${SUBMITTERS[@]}" "${SERVERS[@]}" | sort -u | wc -l)" -eq $((2 * QUEUES)) ] ||
		die "a CPU has two tasks: ${SUBMITTERS[*]} submit, ${SERVERS[*]} serve"
	for ((q = 0; q < QUEUES; q++)); do
		node_of "${SUBMITTERS[q]}"
		node=$NODE
		node_of "${SERVERS[q]}"
		[ "$node" != "$NODE" ] || die "CPUs ${SUBMITTERS[q]} and ${SERVERS[q]} are on one node, $node"
	done
}

comma() { local IFS=, && echo "$*"; }

# --- counting ------------------------------------------------------------

COUNTERS="alloc_fastpath alloc_slowpath free_fastpath free_slowpath sheaf_refill sheaf_flush"
# Why: not part of the figures.
REASONS="barn_get barn_get_fail barn_put barn_put_fail barn_grow barn_shrink sheaf_trim"
declare -A BEFORE DELTA

# caches: those of bios, once each: merged ones have symbolic links to one directory.
caches() {
	local dir

	for dir in "$SLAB"/bio-*; do
		[ ! -d "$dir" ] || readlink -f "$dir"
	done | sort -u
}

# What a kernel has not counts nothing. In VALUE.
counter() {
	local words=

	VALUE=0
	if [ -e "$1/$2" ]; then
		read -r VALUE _ <"$1/$2"
		return
	fi
	[ ! -e "$1/sheaf_decisions" ] || read -r words <"$1/sheaf_decisions"
	[[ " $words" != *" $2 "* ]] || read -r VALUE _ <<<"${words#*"$2" }"
}

snapshot() {
	local cache name

	for cache in "${CACHES[@]}"; do
		for name in $COUNTERS $REASONS; do
			counter "$cache" "$name"
			DELTA[$cache/$name]=$((VALUE - ${BEFORE[$cache/$name]:-0}))
			BEFORE[$cache/$name]=$VALUE
		done
	done
}

# delta CACHE NAME NAME: the sum of two counters' changes, in VALUE.
delta() { VALUE=$((${DELTA[$1/$2]} + ${DELTA[$1/$3]})); }

# The cache from which most was allocated since the last snapshot is BUSIEST, how many
# of its objects came from slabs and went there, FROM and TO.
judge() {
	local cache

	snapshot
	BIOS=0
	for cache in "${CACHES[@]}"; do
		delta "$cache" alloc_fastpath alloc_slowpath
		[ "$VALUE" -gt $BIOS ] || continue
		BIOS=$VALUE BUSIEST=$cache
	done
	[ "$BIOS" -ge $((IOS * QUEUES / 2)) ] ||
		die "void: $((IOS * QUEUES)) reads allocated $BIOS bios from slab caches"
	delta "$BUSIEST" alloc_slowpath sheaf_refill
	FROM=$VALUE
	delta "$BUSIEST" free_slowpath sheaf_flush
	TO=$VALUE
}

read_all() {
	fio --name=queues --filename="$DEV" --ioengine=io_uring --direct=1 --iodepth=$DEPTH \
		--rw=randread --bs=4k --hipri=0 --norandommap --randrepeat=1 --thread \
		--gtod_reduce=1 --allow_file_create=0 --size=1G --io_size=$((IOS * 4096)) \
		--numjobs="$QUEUES" --cpus_allowed="$(comma "${SUBMITTERS[@]}")" \
		--cpus_allowed_policy=split --group_reporting --output="$TMP/fio" >&2 ||
		die "fio failed: $(tail -n 1 "$TMP/fio")"
}

# json CASE ROUND VALUE
json() {
	printf '{"group":"queues","case":"%s","round":%d,"objects":%d,"value":%d,"unit":"per million","counters":{}}\n' \
		"$1" "$2" "$BIOS" $((($3 * 1000000 + BIOS / 2) / BIOS))
}

reasons() {
	local name said=

	for name in $REASONS; do
		said+=" $name ${DELTA[$BUSIEST/$name]}"
	done
	echo "queues.sh:$said"
}

# measure ROUND WHEN
measure() {
	snapshot
	read_all
	judge
	json "bios$2, from slabs" "$1" "$FROM"
	json "bios$2, to slabs" "$1" "$TO"
	reasons
}

# Nobody but fio shall know of the bios.
no_scheduler() {
	local scheduler=$SYS/block/${DEV##*/}/queue/scheduler

	! grep -qs none "$scheduler" || echo none >"$scheduler"
}

round() {
	local cache

	for cache in "${CACHES[@]}"; do
		[ ! -e "$cache/shrink" ] || echo 1 >"$cache/shrink"
	done
	measure "$1" ", at first"
	measure "$1" ""
	echo "queues.sh: $BIOS bios of ${BUSIEST##*/} for $((IOS * QUEUES)) reads"
}

# -------------------------------------------------------------------------

QUEUES=$(($(nproc) / 2))
[ $QUEUES -ge 2 ] || die "$(nproc) CPUs are too few"
# Reads of each queue: what is counted in a million is of about a million.
IOS=${IOS:-$((1000000 / QUEUES))}
[ -x "$UBLK_NULL" ] || die "there is no $UBLK_NULL"
command -v fio >/dev/null || die "there is no fio"
start_server
assign
stop_server
assigned_well
mapfile -t CACHES < <(caches)
[ ${#CACHES[@]} -gt 0 ] || die "there are no caches $SLAB/bio-*"
echo "queues.sh: CPUs ${SUBMITTERS[*]} submit, ${SERVERS[*]} serve"
start_server -c "$(comma "${SERVERS[@]}")"
no_scheduler
for ((r = 0; r < ROUNDS; r++)); do
	round $r
done
stop_server
