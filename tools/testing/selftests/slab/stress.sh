#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# All that happens rarely, at the same time and for some seconds: CPUs go offline
# and come back, caches are shrunk, a module that creates caches, loads them on all
# CPUs and destroys them comes and goes, another one that frees with kfree_rcu() is
# unloaded at once, files are created and looked up in a cgroup with too little
# memory, and up to half of the free memory is taken and given back. Afterwards what
# the files of all caches tell must agree, shrinking leave nothing in sheaves, the
# log be clean, no object be corrupted or leaked, and all CPUs be online.
#
# With -a, for half an hour rather than seconds, sizes change at random, too; programs run
# that use memory, files and processes, and must not fail: stress-ng, hackbench and fio on a
# null_blk, those of them that there are; blocks of memory go offline, or refuse to; and now
# and then somebody takes memory until he is killed for it, what his cgroup may have, or all
# of it.

. "$(dirname "$0")/functions.sh"
. "$DIR/sizes.sh"

SECS=20
ALL=
SEED=$RANDOM
TMP=
DUMP_TASKS_WAS=
TRIES=20			# to find a cache right
USED=10				# of them, in which it was used meanwhile, are enough
OFFLINE=()
BLOCKS=()
MOVABLE=

while getopts at:s:h opt; do
	case $opt in
	a) ALL=1 ;;
	t) SECS=$OPTARG ;;
	s) SEED=$OPTARG ;;
	*)
		echo "usage: stress.sh [-a] [-t SECONDS] [-s SEED]" >&2
		exit 2
		;;
	esac
done

COMPLAINTS+='|soft lockup|cannot create duplicate|SLUB: no memory'

# Threads that look after something end when this file goes away.
cleanup() {
	[ -z "$TMP" ] || rm -f "$TMP/go"
	wait
	all_online
	back_as_it_was
	put_back
	let_sizes_go
	[ ! -d "/sys/module/$MODULE" ] || rmmod "$MODULE"
	[ ! -d /sys/module/test_slab_rcu ] || rmmod test_slab_rcu
	if [ -n "$TMP" ]; then
		umount "$TMP/files" 2>/dev/null
		rm -rf "$TMP"
	fi
	[ -z "${DEADLY:-}" ] || rmdir "$DEADLY"
	[ -z "$DUMP_TASKS_WAS" ] || echo "$DUMP_TASKS_WAS" >/proc/sys/vm/oom_dump_tasks
	remove_cgroup
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# --- the machine ---------------------------------------------------------

# The CPUs that can go offline.
find_cpus() {
	local file

	OFFLINE=()
	for file in /sys/devices/system/cpu/cpu[0-9]*/online; do
		[ ! -w "$file" ] || OFFLINE+=("$file")
	done
}

# The blocks of memory that are online.
find_blocks() {
	local file state

	BLOCKS=()
	for file in /sys/devices/system/memory/memory[0-9]*/state; do
		state=
		[ ! -w "$file" ] || read -r state <"$file"
		[ "$state" != online ] || BLOCKS+=("$file")
	done
}

# In each block there will soon be something that cannot be moved, and then none goes any more.
# Of one that is kept for what can be that does not come.
keep_a_block_movable() {
	local i file

	for ((i = ${#BLOCKS[@]} - 1; i >= 0; i--)); do
		file=${BLOCKS[i]}
		{ echo offline >"$file"; } 2>/dev/null || continue
		if { echo online_movable >"$file"; } 2>/dev/null; then
			MOVABLE=$file
			return
		fi
		echo online >"$file"
	done
	msg "of ${#BLOCKS[@]} blocks of memory none can be kept for what is movable"
}

back_as_it_was() {
	if [ -n "$MOVABLE" ] && { echo offline >"$MOVABLE"; } 2>/dev/null; then
		echo online_kernel >"$MOVABLE" || msg "${MOVABLE%/state} stays offline"
	fi
	MOVABLE=
}

all_online() {
	local file value

	for file in "${OFFLINE[@]}"; do
		read -r value <"$file"
		[ "$value" = 1 ] || echo 1 >"$file"
	done
}

all_away_once() {
	local file

	for file in "${OFFLINE[@]}"; do
		echo 0 >"$file"
		echo 1 >"$file"
	done
}

online_list() { cat /sys/devices/system/cpu/online; }

# With a limit that is not deadly: reclaim never ends in an OOM kill.
limit_files() {
	make_cgroup slab_stress memory.high && echo 4M >"$CGROUP/memory.high"
}

# --- who does what -------------------------------------------------------

going() { [ -e "$TMP/go" ]; }

# count NAME: what has been done, for the report. Each counter has one writer.
declare -A TIMES
count() {
	TIMES[$1]=$((${TIMES[$1]:-0} + 1))
	echo "${TIMES[$1]}" >"$TMP/done.$1"
}

done_so_far() {
	VALUE=0
	[ ! -e "$TMP/done.$1" ] || read -r VALUE <"$TMP/done.$1"
}

# Part of a second.
doze() { sleep "0.$((RANDOM % $1))"; }

hotplug() {
	local file

	RANDOM=$((SEED + 1))
	while going; do
		file=${OFFLINE[RANDOM % ${#OFFLINE[@]}]}
		! echo 0 >"$file" || count offline
		doze 3
		# several may be offline at a time
		[ $((RANDOM % 4)) -eq 0 ] || all_online
	done 2>>"$TMP/hotplug.err"
	all_online
}

# Most blocks have something that cannot be moved, and refuse; but the allocator has been told
# both, that they go, and that they stay. Not while somebody takes all memory: who moves pages
# keeps many of them locked while he allocates where the next ones go, and if reclaim has him
# drop an inode with one of these, he waits for himself. 6.12 does, whatever allocates objects.
memory_hotplug() {
	local file zone

	RANDOM=$((SEED + 7))
	while going; do
		file=${BLOCKS[RANDOM % ${#BLOCKS[@]}]}
		[ -z "$MOVABLE" ] || [ $((RANDOM % 4)) -ne 0 ] || file=$MOVABLE
		zone=online_kernel
		[ "$file" != "$MOVABLE" ] || zone=online_movable
		# shellcheck disable=SC2016
		if flock "$TMP/moving" timeout 10 bash -c 'echo offline >"$1"' - "$file"; then
			count memory_offline
			doze 9
		else
			count memory_refused
		fi
		echo "$zone" >"$file"
		doze 9
	done 2>/dev/null
}

memory_online() {
	local file state=online

	for file in "${BLOCKS[@]}"; do
		read -r state <"$file"
		[ "$state" = online ] || {
			msg "$file: $state"
			return 1
		}
	done
}

shrink() {
	local caches=() dir

	RANDOM=$((SEED + 2))
	while going; do
		caches=("$SLAB"/test_slab_* "$SLAB"/*)
		dir=${caches[RANDOM % ${#caches[@]}]}
		# A cache that is in use may be gone.
		! echo 1 >"$dir/shrink" || count shrink
		read -r _ <"$dir/sheaf_objects"
		[ $((RANDOM % 8)) -ne 0 ] || doze 2
	done 2>/dev/null
}

load_modules() {
	local errors

	RANDOM=$((SEED + 3))
	while going; do
		insmod "$KO" run=1 seed=$RANDOM || break
		doze 5
		read -r errors <"$MODULE_PARAMS/errors"
		[ "$errors" -eq 0 ] || echo "$errors" >>"$TMP/errors"
		rmmod "$MODULE" || break
		count modules
	done 2>>"$TMP/modules.err"
}

# The cache is destroyed while its objects wait for a grace period on all CPUs.
unload_at_once() {
	RANDOM=$((SEED + 6))
	while going; do
		insmod "$RCU_KO" objects=$((RANDOM % 300)) || break
		rmmod test_slab_rcu || break
		count unloads
	done 2>>"$TMP/unloads.err"
}

# Inodes, dentries, and what else a file takes, charged to a cgroup.
make_files() {
	local i

	RANDOM=$((SEED + 4))
	[ -z "$CGROUP" ] || echo $BASHPID >"$CGROUP/cgroup.procs"
	while going; do
		for ((i = 0; i < 500; i++)); do
			: >"$TMP/files/$((RANDOM % 2000))"
			[ ! -e "$TMP/files/none$RANDOM" ] || break
		done
		rm -f "$TMP"/files/*[0-4]
		count files
	done 2>/dev/null
	[ -z "$CGROUP" ] || echo $BASHPID >"$CGROUP_ROOT/cgroup.procs"
}

# drop_caches WHAT: without a line in the log, which is what the 4 does.
drop_caches() {
	echo 4 >/proc/sys/vm/drop_caches
	echo "$1" >/proc/sys/vm/drop_caches
}

# At most half of what is available, so that nothing is killed, and at most 1 GB.
eat_memory() {
	local key kb

	RANDOM=$((SEED + 5))
	while going; do
		while read -r key kb _; do
			[ "$key" != MemAvailable: ] || break
		done </proc/meminfo
		kb=$((kb / 2 > 1048576 ? 1048576 : kb / 2))
		kb=$((kb >> RANDOM % 4))
		head -c "${kb}K" /dev/zero >"$TMP/files/memory"
		rm "$TMP/files/memory"
		drop_caches 2
		count eaten
	done 2>/dev/null
}

# --- and with -a ---------------------------------------------------------

resize() {
	RANDOM=$((SEED + 8))
	while going; do
		change_something && count resized
	done 2>/dev/null
}

# The programs that there are, in PROGRAMS; fio works on a null_blk.
find_programs() {
	local name

	PROGRAMS=()
	[ -b /dev/nullb0 ] || modprobe null_blk 2>/dev/null
	for name in stress-ng hackbench fio; do
		if ! command -v $name >/dev/null; then
			msg "no $name"
		elif [ $name = fio ] && [ ! -b /dev/nullb0 ]; then
			msg "no fio, as there is no /dev/nullb0: needs CONFIG_BLK_DEV_NULL_BLK"
		else
			PROGRAMS+=("$name")
		fi
	done
}

# What the kernel has said last of processes of this name that got no memory, or were killed.
last_short() {
	dmesg | grep -E "Killed process [0-9]+ \($1|$1[^ ]*: page allocation failure" | tail -n 1
}

# excused NAME STATUS SHORT: whether there is a reason for how it ended. While somebody takes all
# memory, others may be killed as well, since the kernel said SHORT last; stress-ng ends with 3
# for want of memory, or of room for files; and a machine may be too slow for fio to begin.
excused() {
	[ "$(last_short "$1")" = "$3" ] && [ "$1 $2" != "stress-ng 3" ] &&
		! grep -q 'jobs\? failed to start' "$TMP/$1.err" || return 0
	return 1
}

# program NAME COMMAND...: again and again. How it failed is noted, and what it said last is kept.
program() {
	local name=$1 file short rc

	shift
	while going; do
		short=$(last_short "$name")
		rc=0
		"$@" >"$TMP/$name.err" 2>&1 || rc=$?
		if [ $rc -eq 0 ]; then
			count "$name"
			continue
		fi
		file=failed
		! excused "$name" $rc "$short" || file=excused
		echo "$name ended with $rc: $(tail -n 1 "$TMP/$name.err")" >>"$TMP/$file.$name"
		doze 9
	done
}

# Who is killed for want of memory is somebody else.
run_stress_ng() {
	stress-ng --seed "$SEED" --oomable --temp-path "$TMP/files" --timeout 20 \
		--vm 1 --vm-bytes 32M --mmap 1 --mmap-bytes 8M --fork 1 --vfork 1 --dentry 1 \
		--open 1 --rename 1 --sockpair 1 --msg 1 --pipe 1
}

run_hackbench() { hackbench -g 2 -l 50; }

# In a process group of its own: if a job has not begun after ten seconds, fio (3.33) ends it by
# the pid that it may not have yet, which is 0, and means all of the group.
run_fio() {
	setsid -w fio --name=stress --filename=/dev/nullb0 --rw=randrw --bs=4k --direct=1 \
		--ioengine=psync --numjobs=2 --time_based --runtime=10 --group_reporting
}

# The kernel's log has reports of it, which are no complaints, between these two lines.
ASKED="slab_stress: somebody takes all memory"
GIVEN_BACK="slab_stress: it is given back"
OUT_OF_MEMORY="invoked oom-killer:|page allocation failure:"

# Who asks for more and more, and is the first to be killed. Fails if he was not.
take_all() {
	local rc=0 alone=()

	# of memory_hotplug()
	[ -n "$1" ] || alone=(flock "$TMP/moving")
	echo "$ASKED" >/dev/kmsg
	# shellcheck disable=SC2016
	"${alone[@]}" bash -c 'echo 1000 >/proc/self/oom_score_adj
		[ -z "$1" ] || echo $$ >"$1/cgroup.procs"
		exec tail /dev/zero' - "$1" >/dev/null 2>&1 || rc=$?
	# others may have been about to ask, too
	sleep 2
	echo "$GIVEN_BACK" >/dev/kmsg
	[ $rc -eq 137 ] || echo "who took all memory ended with $rc" >>"$TMP/failed.memory"
	[ $rc -eq 137 ]
}

deadly_cgroup() {
	DEADLY=$CGROUP_ROOT/slab_stress_oom.$$
	mkdir "$DEADLY" && echo 16M >"$DEADLY/memory.max" || DEADLY=
}

# What a cgroup has, then what there is.
run_out_of_memory() {
	local i

	while :; do
		[ -z "$DEADLY" ] || ! take_all "$DEADLY" || count killed_in_cgroup
		! take_all "" || count killed
		for ((i = 0; i < 30; i++)); do
			going || return
			sleep 2
		done
	done 2>/dev/null
}

run_programs() {
	local name

	for name in "${PROGRAMS[@]}"; do
		program "$name" "run_${name//-/_}" &
	done
	[ ${#BLOCKS[@]} -eq 0 ] || memory_hotplug &
	resize &
	run_out_of_memory &
}

# Under load, whether a block can go in time is chance. One of them must, at the latest when
# little is used, and comes back.
block_goes() {
	local file

	[ ${#BLOCKS[@]} -gt 0 ] || return 0
	done_so_far memory_offline
	[ "$VALUE" -eq 0 ] || return 0
	settle
	for file in $MOVABLE "${BLOCKS[@]}"; do
		{ echo offline >"$file"; } 2>/dev/null || continue
		[ "$file" != "$MOVABLE" ] || MOVABLE=
		msg "${file%/state} went offline at rest"
		echo online_kernel >"$file"
		return
	done
	msg "none of ${#BLOCKS[@]} blocks of memory went offline, neither under load nor at rest"
	return 1
}

# noted WHAT: that it was, and how often.
noted() {
	local line found=

	while read -r line; do
		msg "$1: $line"
		found=1
	done < <(cat "$TMP/$1".* 2>/dev/null | sort | uniq -c)
	[ -n "$found" ]
}

# What there is of programs has run to its end, and never failed; sizes changed, and somebody
# was killed.
did_more() {
	local name

	noted excused
	! noted failed || return
	for name in "${PROGRAMS[@]}"; do
		did "$name" || return
	done
	did resized && did killed && block_goes || return
	[ -z "$DEADLY" ] || did killed_in_cgroup
}

# -------------------------------------------------------------------------

# run_all SECONDS
run_all() {
	touch "$TMP/go"
	[ -z "$ALL" ] || run_programs
	[ ${#OFFLINE[@]} -eq 0 ] || hotplug &
	shrink &
	load_modules &
	unload_at_once &
	make_files &
	eat_memory &
	sleep "$1"
	rm "$TMP/go"
	wait
	put_back
}

# --- what is left --------------------------------------------------------

# Give back what can be given back, in all caches.
settle() {
	local dir

	drop_caches 3
	for dir in "$SLAB"/*; do
		[ -L "$dir" ] || echo 1 >"$dir/shrink"
	done
	# dead cgroups, and RCU
	{ echo 1 >/sys/module/rcutree/parameters/do_rcu_barrier; } 2>/dev/null
	sleep 1
}

# How many objects debugobjects has for those that it watches is its own affair.
WATCHERS=debug_objects_cache

slab_kb() {
	local -A pages=() used=()
	local key kb

	rm -f "$TMP"/files/*
	settle
	settle
	# what CPUs have not added up yet
	{ echo 1 >/proc/sys/vm/stat_refresh; } 2>/dev/null
	while read -r key kb _; do
		[ "$key" != Slab: ] || VALUE=$kb
	done </proc/meminfo
	sizes_of pages used
	VALUE=$((VALUE - ${pages[$WATCHERS]:-0} * $(getconf PAGESIZE) / 1024))
}

# It is there with CONFIG_SLUB_DEBUG.
has_slabinfo() { [ -e /proc/slabinfo ]; }

# What is in use, in whatever slabs it lies.
used_kb() {
	VALUE=$(awk -v name=$WATCHERS 'NR > 2 && $1 != name { kb += $2 * $4 / 1024 }
		END { printf "%d", kb }' /proc/slabinfo)
}

# sizes_of NAME OBJECTS: the pages of each cache, and its objects, in arrays of these names.
sizes_of() {
	local -n sizes=$1 objects=$2
	local name active per slabs

	has_slabinfo || return 0
	while read -r name active _ _ _ per _ _ _ _ _ _ _ _ slabs _; do
		[[ "$slabs" =~ ^[0-9]+$ ]] || continue
		# shellcheck disable=SC2004,SC2034 # references
		sizes[$name]=$((slabs * per)) objects[$name]=$active
	done </proc/slabinfo
}

# The caches that have become larger, by as much.
tell_growth() {
	local -A now=() used=()
	local name

	sizes_of now used
	for name in "${!now[@]}"; do
		echo "$((now[$name] - ${PAGES_BEFORE[$name]:-0}))" \
			"$((used[$name] - ${USED_BEFORE[$name]:-0})) $name"
	done | sort -rn | head -n 8 | while read -r pages objects name; do
		[ "$pages" -gt 8 ] || continue
		msg "$name has $pages pages and $objects objects more, partial slabs" \
			"$(cat "$SLAB/$name/partial" 2>/dev/null)"
	done
}

tasks() {
	read -r _ _ _ VALUE _ </proc/loadavg
	VALUE=${VALUE#*/}
}

# Threads included, by the beginning of their names.
names_of_tasks() {
	cat /proc/[0-9]*/task/*/comm 2>/dev/null | sed 's/[^a-z_].*//' | sort | uniq -c
}

# The kernel's threads that have worked for programs end when they had nothing to do for five
# minutes, or a bit later; each has more than ten kB.
let_tasks_end() {
	local i more less name

	for ((i = 0; i < 70; i++)); do
		tasks
		[ "$VALUE" -gt "$TASKS_BEFORE" ] || break
		sleep 6
	done
	msg "tasks: $TASKS_BEFORE before, $VALUE after, $((6 * i)) s later"
	[ "$VALUE" -gt "$TASKS_BEFORE" ] || return 0
	while read -r more less name; do
		msg "$more tasks $name, $less before"
	done < <(names_of_tasks | awk 'NR == FNR { before[$2] = $1; next }
		$1 > before[$2] { print $1, before[$2] + 0, $2 }' "$TMP/tasks" -)
}

# Files that tests and shells have used since, and their dentries, stay: that is
# the tolerance. A sheaf that leaks each time that a CPU goes offline, for each
# cache, or an object each time that the module is loaded, is more.
is_back() {
	local limit=$(($2 + $2 / 50 + 512 + $3))

	msg "$1: $2 kB before, $VALUE kB after, at most $limit kB"
	[ "$VALUE" -le $limit ] && return
	tell_growth
	return 1
}

# A CPU's threads of the kernel were created while programs came and went, and now most lie alone
# in a slab. Those that replace them when the CPU was away find room beside others: a cache that
# was shrunk fills its fullest slabs first.
renew_threads() {
	settle
	all_away_once
	let_tasks_end
}

# What has stayed lies scattered among what has gone, and one object keeps a slab, which with
# pages of 64K is sixteen times as much. After half an hour, a tenth is for that. A slab that is
# lost is not only memory: its objects are in use, for who counts.
slab_is_back() {
	local holes=$((($(getconf PAGESIZE) - 4096) / 32))

	if [ -n "$ALL" ]; then
		renew_threads
		holes=$((SLAB_BEFORE / 10))
	fi
	slab_kb
	is_back "slab memory" "$SLAB_BEFORE" $holes
}

objects_are_back() {
	used_kb
	is_back objects "$USED_KB_BEFORE" 0
}

# --- what the files tell -------------------------------------------------

# What moves if an object is allocated or freed, comes to a sheaf, or is lent with one.
MOVES="alloc_fastpath alloc_slowpath free_fastpath free_slowpath sheaf_refill
	sheaf_prefill_fast sheaf_prefill_slow sheaf_return_fast sheaf_return_slow"

# Whether CACHE was used since read_cache().
used_since() {
	local name

	for name in $MOVES; do
		total "$1" "$name"
		[ "$VALUE" = "${V[$name]}" ] || return 0
	done
	return 1
}

# Of what is read at once, whatever goes on.
parts_add_up() {
	local name

	for name in $COUNTERS; do
		adds_up "$SLAB/$1/$name"
	done
	nodes_add_up "$SLAB/$1/sheaf_objects"
}

# Elsewhere than on x86, a count may be lost: see sysfs.sh.
agrees() {
	at_most "$1" "objects in sheaves" 'V[sheaf_objects]' 'V[objects]'
	at_most "$1" "sheaves freed" 'V[sheaf_free]' 'V[sheaf_alloc]'
	[[ ! $MACHINE =~ ^(x86_64|i.86)$ ]] || check_objects "$1"
}

shrinks() {
	echo 1 >"$SLAB/$1/shrink" || bad "$SLAB/$1/shrink: cannot be written"
	total "$1" sheaf_objects
	V[sheaf_objects]=$VALUE
	equal "$1" "objects in sheaves after shrink" 'V[sheaf_objects]' 0
}

# at_rest CHECK CACHE: while nobody uses CACHE. What somebody has in his hands, and has not
# counted yet, he has the next time; what is wrong stays so. Forks nothing before it knows, as
# that uses many caches.
at_rest() {
	local try moved=0

	for ((try = 0; try < TRIES && moved < USED; try++)); do
		[ $try -lt 3 ] || sleep 0.2
		read_cache "$2"
		BAD=0
		"$1" "$2" >"$TMP/why"
		if used_since "$2"; then
			moved=$((moved + 1))
		elif [ $BAD -eq 0 ]; then
			JUDGED=$((JUDGED + 1))
			return
		fi
	done
	if [ $moved -lt $USED ]; then
		WRONG=$((WRONG + 1))
		cat "$TMP/why"
	else
		BUSY+=("$2")
	fi
}

# each_cache COMMAND...: with those that may have sheaves, also if they have none now.
each_cache() {
	local dir

	for dir in "$SLAB"/*; do
		[ -L "$dir" ] || [ ! -e "$dir/sheaf_objects" ] || "$@" "${dir##*/}"
	done
}

# all_at_rest CHECK: and most can be judged, as only a few are used all the time.
all_at_rest() {
	JUDGED=0 WRONG=0 BUSY=()
	each_cache at_rest "$1"
	BAD=0
	msg "$JUDGED caches were at rest and right, $WRONG wrong, always in use:" "${BUSY[@]}"
	[ $WRONG -eq 0 ] || msg "(so are those of which somebody has cleared a counter since boot)"
	[ $WRONG -eq 0 ] && [ $JUDGED -gt ${#BUSY[@]} ]
}

no_cache_left() {
	local dir

	for dir in "$SLAB"/test_slab_*; do
		[ ! -e "$dir" ] || {
			msg "$dir is still there"
			return 1
		}
	done
}

no_object_corrupted() {
	[ ! -e "$TMP/errors" ] && return
	msg "wrong objects: $(cat "$TMP/errors")"
	return 1
}

# did NAME: it happened.
did() {
	done_so_far "$1"
	[ "$VALUE" -gt 0 ] && return
	msg "$1 did not happen: $(cat "$TMP/$1.err" 2>/dev/null)"
	return 1
}

# 6.12 takes for a task what is none: the server of fair tasks, if it is still enqueued on a CPU
# that goes away, which happens where a machine gets too little of its host. sched_cpu_dying()
# looks how many tasks there are (nr_running) before it stops the server. Of the two that it has
# counted then, only the one that stops the CPU can be listed. With another one in the list, or
# with more of them, or none, the report is not of that.
without_fair_servers() {
	awk -v complaint="${COMPLAINTS//\\b/}" '
		function end(excused) {
			if (!excused)
				printf "%s", report
			report = stopper = counted = listed = ""
		}
		listed && !/pid: [0-9]+, name: / { end(1) }
		$0 ~ complaint && !/Call Trace:/ { end(0) }
		/WARNING: CPU: .* sched_cpu_dying[+]/ {
			stopper = $0
			gsub(/.* CPU: | .*/, "", stopper)
		}
		stopper == "" { print; next }
		{ report = report $0 "\n" }
		listed { end(0) }
		counted {
			counted = ""
			if (!(listed = $0 ~ ("name: migration/" stopper "$")))
				end(0)
		}
		/ enqueued tasks / { if (!(counted = /[(]2 total[)]:$/)) end(0) }
		END { end(listed) }'
}

without_known() {
	without_fair_servers | without_reports "$OUT_OF_MEMORY" "$ASKED" "$GIVEN_BACK"
}

# What isolated CPUs have is not taken from them.
if_nobody_isolated() {
	local list=

	read -r list 2>/dev/null </sys/devices/system/cpu/isolated
	if [ -n "$list" ]; then
		skip "$1" "CPUs $list are isolated"
	else
		unless_kept "$@"
	fi
}

what_files_tell() {
	local sums="all caches: what CPUs and nodes have is the total"
	local agree="all caches at rest: counters, sheaves and slabs agree"
	local shrink="all caches at rest: shrink leaves nothing in sheaves" name

	if [ ! -e "$SLAB/kmalloc-64/alloc_fastpath" ]; then
		for name in "$sums" "$agree" "$shrink"; do
			skip "$name" "no counters in $SLAB, needs CONFIG_SLUB_STATS"
		done
		return
	fi
	hold_sizes none
	each_cache parts_add_up
	judged "$sums"
	if_counted "$agree" all_at_rest agrees
	if_nobody_isolated "$shrink" all_at_rest shrinks
	let_sizes_go
}

did_all() {
	did modules && did unloads && did shrink && did files && did eaten
}

KINDS=(offline shrink modules unloads files eaten)
KINDS_OF_ALL=(memory_offline memory_refused resized stress-ng hackbench fio killed killed_in_cgroup)
report() {
	local name line=

	for name in "${KINDS[@]}"; do
		done_so_far "$name"
		line+=" $name $VALUE"
	done
	msg "done in $SECS s:$line"
}

# -------------------------------------------------------------------------

ktap_print_header
need_root
[ -e "$SLAB/kmalloc-64/shrink" ] || skip_all "no $SLAB/kmalloc-64/shrink"
need_module
TMP=$(mktemp -d) || exit 1
mkdir "$TMP/files"
mount -t tmpfs -o size=75% none "$TMP/files" || skip_all "cannot mount a tmpfs"
find_cpus
find_blocks
find_smp
MACHINE=$(uname -m)
ktap_set_plan $((11 + 2 * ${#ALL}))
msg "seed $SEED, $SECS s"
limit_files || msg "$WHY: files are created without a limit"
RANDOM=$SEED
ONLINE=$(online_list)
mark_log
# What is allocated once, by the first that needs it, is not leaked.
insmod "$KO" run=1 && sleep 0.2 && rmmod "$MODULE"
all_away_once
if [ -n "$ALL" ]; then
	KINDS+=("${KINDS_OF_ALL[@]}")
	find_caches
	find_programs
	[ -z "$CGROUP_ROOT" ] || deadly_cgroup
	[ ${#BLOCKS[@]} -eq 0 ] || keep_a_block_movable
	# the log is to reach back to the beginning
	read -r DUMP_TASKS_WAS </proc/sys/vm/oom_dump_tasks
	echo 0 >/proc/sys/vm/oom_dump_tasks
fi
# What is used for the first time stays, and slabs that are full of holes, too: these are not
# leaked, nor more each time.
run_all $((SECS / 10 + 1))
rm -f "$TMP"/done.*
slab_kb
SLAB_BEFORE=$VALUE
! has_slabinfo || used_kb
USED_KB_BEFORE=$VALUE
tasks
TASKS_BEFORE=$VALUE
names_of_tasks >"$TMP/tasks"
declare -A PAGES_BEFORE USED_BEFORE
sizes_of PAGES_BEFORE USED_BEFORE

run_all "$SECS"
report

verdict "modules, shrinking, files and memory: the load ran" did_all
[ -z "$ALL" ] || verdict "programs, sizes, and no memory at all: that ran, too" did_more
if [ ${#OFFLINE[@]} -gt 0 ]; then
	verdict "CPUs went offline" did offline
else
	skip "CPUs went offline" "no CPU can go offline"
fi
verdict "all CPUs are online again" [ "$(online_list)" = "$ONLINE" ]
[ -z "$ALL" ] || verdict "all memory is online again" memory_online
verdict "no object was corrupted" no_object_corrupted
verdict "no cache is left" no_cache_left
what_files_tell
verdict "the kernel's log is clean" log_is_clean without_known
verdict "slab memory is back" slab_is_back
if has_slabinfo; then
	unless_kept "so are objects" objects_are_back
else
	skip "so are objects" "no /proc/slabinfo, needs CONFIG_SLUB_DEBUG"
fi
ktap_finished
