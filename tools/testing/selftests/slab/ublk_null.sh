#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Bios that one CPU allocates and another one frees, as a ublk server makes them:
# fio reads from a null target, bound to one CPU, and the thread of the server,
# which ends the bios, is bound to another.
#
# The block layer keeps up to 256 bios per CPU. Here they pile up on the server's
# CPU, which has no use for them, so that each bio goes through the slab allocator.
# That this is so is shown by the counters per CPU, or else the test is void.
#
# All that is asserted is asserted by counters, and holds at any speed, but that
# sizes have to stay where reads are slow, see measure_in_time(). No allocation goes
# past the sheaves: they are refilled, whatever the gfp flags are, and
# mempool_alloc() tries without __GFP_DIRECT_RECLAIM first. So it is from the start,
# with empty sheaves. After a warm-up, whole sheaves must go round through the
# barns, on one node as well as across nodes, and 99 % of objects never see a slab.

. "$(dirname "$0")/functions.sh"

IOS=40000
WARMUP=20000
SLOW=8
FIGURES=
ROUNDS=1
ONLY=
PIN=
# make puts it into OUTPUT if that is not the directory of the source
UBLK_NULL=${UBLK_NULL:-$DIR/ublk_null}
[ -x "$UBLK_NULL" ] || UBLK_NULL=${OUTPUT:-$DIR}/ublk_null
TMP=
SERVER=

usage() {
	cat <<-EOT
	usage: ublk_null.sh [options]
	  -n IOS       how many reads are measured, $IOS
	  -w IOS       how many come before, $WARMUP
	  -c CASE      this case only, see below
	  -p CPU,CPU   bind fio and the server to these CPUs, in all cases
	  --figures    assert nothing, print a line of JSON for each case; this also
	               works on a kernel without sheaves
	  -r ROUNDS    with --figures: how often
	Cases: one-node one-node-memoryless two-nodes two-nodes-memoryless
	       memoryless-to-memory memory-to-memoryless (allocating, freeing CPU)
	EOT
}

while [ $# -gt 0 ]; do
	case $1 in
	-n) IOS=$2; shift ;;
	-w) WARMUP=$2; shift ;;
	-c) ONLY=$2; shift ;;
	-p) PIN=$2; shift ;;
	-r) ROUNDS=$2; shift ;;
	--figures) FIGURES=1 ;;
	-h | --help) usage; exit 0 ;;
	*) usage >&2; exit 2 ;;
	esac
	shift
done

cleanup() {
	[ -z "$SERVER" ] || kill -9 "$SERVER" 2>/dev/null
	[ -z "$TMP" ] || rm -rf "$TMP"
	let_sizes_go
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# --- the machine ---------------------------------------------------------

# CPUS[n]: the online CPUs of node n; MEMORY, MEMORYLESS: nodes with CPUs.
declare -A CPUS
find_nodes() {
	local dir node list has_memory=" "

	MEMORY=() MEMORYLESS=()
	if [ ! -d /sys/devices/system/node/node0 ] &&
	   [ ! -e /sys/devices/system/node/online ]; then
		read -r list </sys/devices/system/cpu/online
		expand "$list"
		CPUS[0]=${EXPANDED[*]} MEMORY=(0)
		return
	fi
	read -r list </sys/devices/system/node/has_normal_memory
	expand "$list"
	has_memory=" ${EXPANDED[*]} "
	read -r list </sys/devices/system/node/online
	expand "$list"
	for node in "${EXPANDED[@]}"; do
		dir=/sys/devices/system/node/node$node
		list=
		read -r list <"$dir/cpulist"
		[ -n "$list" ] || continue
		expand "$list"
		CPUS[$node]=${EXPANDED[*]}
		case $has_memory in
		*" $node "*) MEMORY+=("$node") ;;
		*) MEMORYLESS+=("$node") ;;
		esac
	done
}

# cpu_of NODE INDEX: in VALUE, empty if there is none.
cpu_of() {
	local cpus

	VALUE=
	[ -n "$1" ] || return 0
	read -r -a cpus <<<"${CPUS[$1]}"
	VALUE=${cpus[$2]:-}
}

# The first of the nodes that has two CPUs, in VALUE.
node_of_two() {
	local node

	for node; do
		cpu_of "$node" 1
		[ -z "$VALUE" ] || { VALUE=$node; return; }
	done
	VALUE=
}

# pick CASE: sets FROM, the CPU that allocates, and TO, the one that frees; or WHY
# not, and fails.
pick() {
	local node_from node_to second=0

	case $1 in
	one-node)
		node_of_two "${MEMORY[@]}"
		node_from=$VALUE node_to=$VALUE second=1
		WHY="no node with memory has two CPUs"
		;;
	one-node-memoryless)
		node_of_two "${MEMORYLESS[@]}"
		node_from=$VALUE node_to=$VALUE second=1
		WHY="no memoryless node has two CPUs"
		;;
	two-nodes)
		node_from=${MEMORY[0]:-} node_to=${MEMORY[1]:-}
		WHY="no two nodes with memory and CPUs"
		;;
	two-nodes-memoryless)
		node_from=${MEMORYLESS[0]:-} node_to=${MEMORYLESS[1]:-}
		WHY="no two memoryless nodes"
		;;
	memoryless-to-memory)
		node_from=${MEMORYLESS[0]:-} node_to=${MEMORY[0]:-}
		WHY="no memoryless node"
		;;
	memory-to-memoryless)
		node_from=${MEMORY[0]:-} node_to=${MEMORYLESS[0]:-}
		WHY="no memoryless node"
		;;
	esac
	cpu_of "$node_from" 0
	FROM=$VALUE
	cpu_of "$node_to" $second
	TO=$VALUE
	[ -n "$FROM" ] && [ -n "$TO" ] || return 1
	[ -z "$PIN" ] || { FROM=${PIN%,*} TO=${PIN#*,}; }
}

# --- the server ----------------------------------------------------------

# start_server [OPTION...]: sets SERVER and DEV, or fails.
start_server() {
	local i

	: >"$TMP/out"
	"$UBLK_NULL" "$@" >"$TMP/out" 2>"$TMP/err" &
	SERVER=$!
	for ((i = 0; i < 600; i++)); do
		DEV=
		read -r DEV <"$TMP/out"
		[ -z "$DEV" ] || return 0
		kill -0 "$SERVER" 2>/dev/null || break
		sleep 0.05
	done
	kill -9 "$SERVER" 2>/dev/null
	SERVER=
	return 1
}

# stop_server [SIGNAL]: its exit status.
stop_server() {
	local pid=$SERVER

	SERVER=
	kill "-${1:-TERM}" "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
}

# What there is of ublk devices.
devices() {
	echo /dev/ublk[bc]* /sys/block/ublkb* /sys/class/ublk-char/*
}

# The same as before, or so within some seconds: a keeper may still be at work.
nothing_left() {
	local i

	for ((i = 0; i < 600; i++)); do
		[ "$(devices)" != "$DEVICES" ] || return 0
		sleep 0.1
	done
	msg "left behind: $(devices)"
	return 1
}

# complains REGEXP COMMAND...: fails, with one line, which matches.
complains() {
	local want=$1 rc=0 out

	shift
	out=$(timeout 120 "$@" 2>&1) || rc=$?
	[ $rc -ne 0 ] && [ $rc -ne 124 ] && [[ $out != *$'\n'* ]] && [[ $out =~ $want ]] && return
	msg "exit $rc: $out"
	return 1
}

bad_arguments() {
	complains "-q 0: " "$UBLK_NULL" -q 0 &&
	complains "-d 5000: " "$UBLK_NULL" -d 5000 &&
	complains "-s 4095: " "$UBLK_NULL" -s 4095 &&
	complains "-c 1,x: " "$UBLK_NULL" -c 1,x &&
	complains "-f x: " "$UBLK_NULL" -f x &&
	complains "names 2 CPUs for 1 queues" "$UBLK_NULL" -c 0,1 &&
	complains "option -z: " "$UBLK_NULL" -z &&
	complains "argument" "$UBLK_NULL" argument &&
	complains "queue 0 on CPU 1023: " "$UBLK_NULL" -c 1023 &&
	nothing_left
}

no_permission() {
	complains "cannot open /dev/ublk-control: Permission denied" \
		setpriv --reuid=65534 --regid=65534 --clear-groups "$UBLK_NULL"
}

no_driver() {
	# shellcheck disable=SC2016 # for the inner shell
	complains "no /dev/ublk-control, " unshare -m sh -c \
		'mount -t tmpfs none /dev && exec "$0"' "$UBLK_NULL"
}

ends_by() {
	start_server -q "$QUEUES" || {
		msg "$(cat "$TMP/err")"
		return 1
	}
	stop_server "$1"
	local rc=$?

	[ "$1" = KILL ] || [ $rc -eq 0 ] || {
		msg "exit $rc: $(cat "$TMP/err")"
		return 1
	}
	nothing_left
}

# The room of each queue's descriptors is where the driver looks for it, up to the last.
all_queues() {
	start_server -q "$MAX_QUEUES" -d 1 || {
		msg "$MAX_QUEUES queues: $(cat "$TMP/err")"
		return 1
	}
	stop_server && nothing_left
}

# If a queue does not get ready, the device never starts: who waits for that must not.
# One tag only: ublk_drv warns of commands that it has to cancel for a queue that lacks
# others.
fetch_fails() {
	complains "queue $((QUEUES - 1)): Invalid argument" \
		"$UBLK_NULL" -q "$QUEUES" -d 1 -f fetch &&
		nothing_left
}

ring_fails() {
	local rc=0 i

	start_server -f ring || {
		msg "$(cat "$TMP/err")"
		return 1
	}
	# what the server gets to serve
	dd if="$DEV" of=/dev/null bs=4k count=1 iflag=direct >/dev/null 2>&1 &
	for ((i = 0; i < 200; i++)); do
		kill -0 "$SERVER" 2>/dev/null || break
		sleep 0.1
	done
	[ $i -lt 200 ] || {
		msg "the server goes on without its io_uring"
		stop_server KILL
		return 1
	}
	wait "$SERVER" || rc=$?
	SERVER=
	wait
	[ $rc -eq 1 ] && grep -q "queue 0: Bad file descriptor" "$TMP/err" && nothing_left && return
	msg "exit $rc: $(cat "$TMP/err")"
	return 1
}

killed_while_busy() {
	local fio i reads

	start_server || {
		msg "$(cat "$TMP/err")"
		return 1
	}
	run_fio 0 100000000 >/dev/null 2>&1 &
	fio=$!
	for ((i = 0; i < 1200; i++)); do
		read -r reads _ <"/sys/block/${DEV##*/}/stat"
		[ "$reads" -lt 1000 ] || break
		sleep 0.1
	done
	stop_server KILL
	wait $fio
	[ "$reads" -ge 1000 ] && nothing_left
}

# Not tested: a server that is killed while it starts the device. ublk_drv may
# wait for ever then, for what it reads of the new disk.

# --- measuring -----------------------------------------------------------

# For mainline's 6.12 and for sheaves. What a kernel has not is left out.
COUNTERS="alloc_fastpath alloc_slowpath free_fastpath free_slowpath
	sheaf_refill sheaf_flush barn_get barn_get_fail barn_put barn_put_fail list_lock
	alloc_from_partial alloc_slab free_add_partial free_remove_partial free_slab
	alloc_refill cpu_partial_alloc cpu_partial_free cpu_partial_node cpu_partial_drain"

# run_fio CPU IOS: prints IOPS.
run_fio() {
	fio --name=null --filename="$DEV" --ioengine=io_uring --direct=1 --iodepth=128 \
		--rw=randread --bs=4k --hipri=0 --norandommap --randrepeat=1 --thread \
		--gtod_reduce=1 --allow_file_create=0 --size=1G --io_size=$(($2 * 4096)) \
		--cpus_allowed="$1" --output-format=terse --terse-version=3 | cut -d';' -f8
}

# snapshot CACHE: the counters, in SNAPSHOT: [name] and [name C<n>].
declare -A SNAPSHOT BEFORE DELTA
snapshot() {
	local name key

	SNAPSHOT=()
	for name in $COUNTERS; do
		[ -e "$SLAB/$1/$name" ] || continue
		parse_counter "$SLAB/$1/$name" || continue
		for key in "${!COUNTER[@]}"; do
			SNAPSHOT["$name $key"]=${COUNTER[$key]}
		done
	done
	[ ! -e "$SLAB/$1/sheaf_decisions" ] ||
		read -r _ _ _ _ _ SNAPSHOT["sheaf_trim total"] <"$SLAB/$1/sheaf_decisions"
}

# changes_since: BEFORE and SNAPSHOT make DELTA.
changes_since() {
	local key

	DELTA=()
	for key in "${!SNAPSHOT[@]}"; do
		DELTA[$key]=$((SNAPSHOT[$key] - ${BEFORE[$key]:-0}))
	done
}

delta() { VALUE=${DELTA["$1 ${2:-total}"]:-0}; }

# sum_delta [CPU] NAME...: in VALUE.
sum_delta() {
	local cpu=$1 name sum=0

	shift
	for name; do
		delta "$name" "$cpu"
		sum=$((sum + VALUE))
	done
	VALUE=$sum
}

# What each bio cache has allocated, and past the sheaves, since this was last called.
declare -A ALLOCATED SLOWLY
count_bio_caches() {
	local dir name sum

	for dir in "$SLAB"/bio-*; do
		name=${dir##*/}
		total "$name" alloc_fastpath
		sum=$VALUE
		[ -n "$sum" ] || continue
		total "$name" alloc_slowpath
		SLOWLY[$name]=$((VALUE - ${SLOWLY[$name]:-0}))
		ALLOCATED[$name]=$((sum + VALUE - ${ALLOCATED[$name]:-0}))
	done
}

# The bio cache that the warm-up used most, in CACHE. Which one it is depends on the
# configuration. WARMUP_SLOWLY is what it allocated past the sheaves, which were
# empty when it began.
warm_up() {
	local name most=0

	for name in "$SLAB"/bio-*; do
		[ ! -e "$name/shrink" ] || echo 1 >"$name/shrink"
	done
	ALLOCATED=() SLOWLY=() CACHE=
	count_bio_caches
	run_fio "$FROM" "$WARMUP" >/dev/null || return 1
	count_bio_caches
	for name in "${!ALLOCATED[@]}"; do
		if [ "${ALLOCATED[$name]}" -gt "$most" ]; then
			most=${ALLOCATED[$name]}
			CACHE=$name
			WARMUP_SLOWLY=${SLOWLY[$name]}
		fi
	done
	[ -n "$CACHE" ]
}

# measure: sets IOPS, CACHE, DELTA, for the CPUs FROM and TO. Fails if that does not
# work, having said why.
measure() {
	local queue key

	start_server -d 256 -c "$TO" || {
		msg "no server: $(cat "$TMP/err")"
		return 1
	}
	# Nobody but fio should know of the bios.
	queue=/sys/block/${DEV##*/}/queue
	! grep -qs none "$queue/scheduler" || echo none >"$queue/scheduler"
	warm_up || {
		msg "void: the warm-up allocated nothing from a cache named bio-*"
		stop_server
		return 1
	}
	snapshot "$CACHE"
	BEFORE=()
	for key in "${!SNAPSHOT[@]}"; do
		BEFORE[$key]=${SNAPSHOT[$key]}
	done
	IOPS=$(run_fio "$FROM" "$IOS")
	snapshot "$CACHE"
	changes_since
	stop_server || {
		msg "the server failed: $(cat "$TMP/err")"
		return 1
	}
	[ -n "$IOPS" ]
}

# Whether one CPU allocated and another one freed what was read.
exchanged() {
	local allocs frees from to

	sum_delta total alloc_fastpath alloc_slowpath
	allocs=$VALUE
	sum_delta total free_fastpath free_slowpath
	frees=$VALUE
	sum_delta "C$FROM" alloc_fastpath alloc_slowpath
	from=$VALUE
	sum_delta "C$TO" free_fastpath free_slowpath
	to=$VALUE
	[ "$FROM" != "$TO" ] && [ "$allocs" -ge $((IOS / 2)) ] && [ "$frees" -ge $((IOS / 2)) ] &&
		[ "$from" -ge $((allocs * 9 / 10)) ] && [ "$to" -ge $((frees * 9 / 10)) ] && return
	msg "void: of $IOS reads, $allocs allocated their bio from $CACHE,"
	msg "      $from of them on CPU $FROM, and $frees freed it, $to of them on CPU $TO"
	return 1
}

# --- figures -------------------------------------------------------------

# per_million NAME: a million objects allocated. In VALUE, `-' if there is no such
# counter.
per_million() {
	local objects

	sum_delta total alloc_fastpath alloc_slowpath
	objects=$VALUE
	if [ -z "${DELTA["$1 total"]+x}" ] || [ "$objects" -eq 0 ]; then
		VALUE=-
	else
		delta "$1"
		VALUE=$(((VALUE * 1000000 + objects / 2) / objects))
	fi
}

print_figures() {
	local name line=

	msg "$1: CPU $FROM allocates, CPU $TO frees, $CACHE, $IOS reads, ${IOPS%.*} IOPS"
	for name in alloc_slowpath free_slowpath sheaf_refill sheaf_flush \
		barn_get barn_put list_lock; do
		per_million $name
		line+=" $name $VALUE"
	done
	msg "   per million objects:$line"
}

# json CASE ROUND
json() {
	local name list=

	for name in $COUNTERS; do
		per_million "$name"
		[ "$VALUE" = - ] || list+=",\"$name\":$VALUE"
	done
	printf '{"group":"ublk","case":"%s","round":%d,"iops":%.0f,' "$1" "$2" "$IOPS"
	printf '"slab_kb":%d,"counters":{%s}}\n' \
		"$(awk '/^Slab:/ { print $2 }' /proc/meminfo)" "${list#,}"
}

figures() {
	local round name rc=0

	for ((round = 1; round <= ROUNDS; round++)); do
		for name in $CASES; do
			pick "$name" || continue
			if measure >&2 && exchanged >&2; then
				json "$name" "$round"
			else
				echo "ublk_null.sh: $name: no figures" >&2
				rc=1
			fi
		done
	done
	exit $rc
}

# --- assertions ----------------------------------------------------------

none_past_sheaves() {
	delta alloc_slowpath
	[ "$VALUE" -eq 0 ] && return
	msg "$VALUE allocations past the sheaves"
	return 1
}

none_at_first() {
	[ "$WARMUP_SLOWLY" -eq 0 ] && return
	msg "$WARMUP_SLOWLY allocations past the sheaves, of $WARMUP"
	return 1
}

# served NAME OBJECTS-OF-SLAB-TIER...: 99 % without the slab tier, besides what was trimmed, and
# may have been fetched again: that goes by the second, so a slow machine reads little meanwhile.
served() {
	local kind=$1 all slab

	shift
	sum_delta total "${kind}_fastpath" "${kind}_slowpath"
	all=$VALUE
	sum_delta total "$@"
	slab=$VALUE
	delta sheaf_trim
	[ "$all" -gt 0 ] && [ $(((slab - VALUE) * 100)) -le "$all" ] && return
	msg "$slab objects by slabs, of $all; $VALUE were trimmed"
	return 1
}

# measure_in_time CASE: once more if it took more than SLOW seconds, with sizes that stay: what
# is given back by the second, and fetched again, is much then of what little is read.
measure_in_time() {
	local rc

	measure || return
	[ "${IOPS%.*}" -lt $((IOS / SLOW)) ] || return 0
	msg "$1: ${IOPS%.*} IOPS, so once more, with feedback=none"
	hold_sizes
	measure
	rc=$?
	let_sizes_go
	return $rc
}

# What is asserted of CASE.
judge() {
	local exchange="$1: one CPU allocates, another frees"
	local names=("$1: no allocation past the sheaves" "$1: nor from cold"
		"$1: 99 % allocated without slabs" "$1: 99 % freed without slabs")
	local name

	! pick "$1" || WHY=
	! has_quarantine || WHY="KASAN keeps what is freed"
	if [ -n "$WHY" ]; then
		for name in "$exchange" "${names[@]}"; do
			skip "$name" "$WHY"
		done
		return
	fi
	if ! measure_in_time "$1" || ! exchanged; then
		for name in "$exchange" "${names[@]}"; do
			ktap_test_fail "$name (void)"
		done
		return
	fi
	print_figures "$1"
	ktap_test_pass "$exchange"
	if is_debugged "$CACHE"; then
		for name in "${names[@]}"; do
			skip "$name" "a cache that is debugged has no sheaves"
		done
		return
	fi
	verdict "${names[0]}" none_past_sheaves
	verdict "${names[1]}" none_at_first
	verdict "${names[2]}" served alloc alloc_slowpath sheaf_refill
	verdict "${names[3]}" served free free_slowpath sheaf_flush
}

# -------------------------------------------------------------------------

CASES="one-node one-node-memoryless two-nodes two-nodes-memoryless memoryless-to-memory
	memory-to-memoryless"
[ -z "$ONLY" ] || CASES=$ONLY

[ -n "$FIGURES" ] || ktap_print_header
need_root
command -v fio >/dev/null || skip_all "needs fio"
[ -x "$UBLK_NULL" ] || skip_all "ublk_null is not built, needs liburing"
[ -e /dev/ublk-control ] || modprobe -q ublk_drv 2>/dev/null
[ -e /dev/ublk-control ] || skip_all "no /dev/ublk-control, needs CONFIG_BLK_DEV_UBLK"
TMP=$(mktemp -d) || exit 1
DEVICES=$(devices)
# As many queues as there are CPUs is what a device can have.
MAX_QUEUES=$(getconf _NPROCESSORS_CONF)
QUEUES=$((MAX_QUEUES > 1 ? 2 : 1))
# and what the server has
MAX_QUEUES=$((MAX_QUEUES > 64 ? 64 : MAX_QUEUES))
find_nodes
[ -z "$FIGURES" ] || figures

need_stats
read -r -a cases <<<"${CASES//$'\n'/ }"
plan=$((5 * ${#cases[@]}))
[ -n "$ONLY" ] || plan=$((plan + 10))
ktap_set_plan $plan

if [ -z "$ONLY" ]; then
	verdict "ublk_null: bad arguments get one line" bad_arguments
	with setpriv "ublk_null: so does who has no permission" no_permission
	with unshare "ublk_null: so does who has no ublk_drv" no_driver
	verdict "ublk_null: a device with a queue for each CPU starts" all_queues
	verdict "ublk_null: a queue that gets no requests is the end" fetch_fails
	verdict "ublk_null: so is one that loses its io_uring, which is a failure" ring_fails
	verdict "ublk_null: SIGTERM leaves no device behind" ends_by TERM
	verdict "ublk_null: SIGINT leaves no device behind" ends_by INT
	verdict "ublk_null: SIGKILL leaves no device behind" ends_by KILL
	verdict "ublk_null: nor does it amid I/O" killed_while_busy
fi
for name in $CASES; do
	judge "$name"
done
ktap_finished
