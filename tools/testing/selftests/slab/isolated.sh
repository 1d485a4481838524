#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# An isolated CPU (isolcpus=, better with nohz_full= and rcu_nocbs=) is left alone by
# the allocator: it gets no work item, timer or interrupt because it called kfree_rcu()
# or has used caches. And nobody has to wait for it, when it is kept busy by a real-time
# task that never sleeps: then a work item that is queued there does not run, and
# whoever waits for it hangs, with whatever locks it holds.
#
# The CPU first gets something in its sheaves, of all kinds, and is looked at while
# idle. Then comes the hog. That it is one is shown by a work item that does not run,
# each time. Whatever is to finish is tried in the background, with a limit in seconds
# (-l); if it hangs, the hog is ended, so that what hangs can finish and the rest be
# tried with another hog. How disturbances are told from others: see trace.sh.

. "$(dirname "$0")/functions.sh"
# shellcheck source=/dev/null
. "$DIR/trace.sh"

LIMIT=300
PRIORITY=50
IDLE=8			# longer than kfree_rcu() lets objects wait, which is 5 s
OBJECTS=200		# of each kind, more than fill a sheaf
MODULE=test_slab_isolated
CACHE=test_slab_isolated
DO=/sys/module/$MODULE/parameters
CPUS=/sys/devices/system/cpu
RUNTIME=/proc/sys/kernel/sched_rt_runtime_us
SERVER=			# the time that others get on the CPU
CPU=			# the isolated one
OTHER=			# one that goes offline
HOG='' OLD_RUNTIME='' OLD_SERVER='' TMP=''

while getopts l:h opt; do
	case $opt in
	l) LIMIT=$OPTARG ;;
	*)
		echo "usage: isolated.sh [-l SECONDS]: give up what takes longer, $LIMIT" >&2
		exit 2
		;;
	esac
done

cleanup() {
	end_hog
	give_time_back
	trace_end
	[ -z "$OTHER" ] || echo 1 >"$CPUS/cpu$OTHER/online"
	[ ! -d /sys/module/test_slab_rcu ] || rmmod test_slab_rcu
	[ ! -d "/sys/module/$MODULE" ] || rmmod "$MODULE"
	[ -z "$TMP" ] || rm -rf "$TMP"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# --- the machine ---------------------------------------------------------

# The last of the isolated CPUs that are online.
find_isolated() {
	local list file

	for file in isolated nohz_full; do
		list=
		[ ! -e "$CPUS/$file" ] || read -r list <"$CPUS/$file"
		[[ $list =~ ^[0-9,-]+$ ]] || continue
		expand "$list"
		CPU=${EXPANDED[-1]}
		is_online "$CPU" && return
	done
	CPU=
	return 1
}

is_online() {
	local list

	read -r list <"$CPUS/online"
	expand "$list"
	[[ " ${EXPANDED[*]} " = *" $1 "* ]]
}

# Another one, which can go offline.
find_other() {
	local file cpu

	for file in "$CPUS"/cpu[0-9]*/online; do
		cpu=${file%/online}
		cpu=${cpu#"$CPUS"/cpu}
		if [ -w "$file" ] && [ "$cpu" != "$CPU" ] && is_online "$cpu"; then
			OTHER=$cpu
		fi
	done
	[ -n "$OTHER" ]
}

# on_isolated COMMAND: by a shell of its own, which is a load by itself.
on_isolated() { taskset -c "$CPU" bash -c "$1"; }

# --- the hog -------------------------------------------------------------

# Real-time tasks get all of the time, or there is no hog. Once for all hogs: the
# scheduler warns (running_bw underflows) if a server's time changes while it has
# something to do, or had within its period of a second.
SERVER_IDLE=3
give_all_time() {
	read -r OLD_RUNTIME <$RUNTIME
	echo -1 >$RUNTIME || return
	[ -d /sys/kernel/debug/sched ] || mount -t debugfs none /sys/kernel/debug 2>/dev/null
	SERVER=/sys/kernel/debug/sched/fair_server/cpu$CPU/runtime
	[ -e "$SERVER" ] || {
		SERVER=
		return 0
	}
	read -r OLD_SERVER <"$SERVER"
	sleep $SERVER_IDLE
	echo 0 >"$SERVER"
}

# The server first, or together they would have more than there is.
give_time_back() {
	[ -z "$OLD_SERVER" ] || { sleep $SERVER_IDLE; echo "$OLD_SERVER" >"$SERVER"; }
	[ -z "$OLD_RUNTIME" ] || echo "$OLD_RUNTIME" >$RUNTIME
}

# state PID: that of a process, as a letter, in VALUE.
state() {
	VALUE=
	[ ! -e "/proc/$1/stat" ] || read -r _ _ VALUE _ <"/proc/$1/stat"
}

# A loop in a shell does without the kernel. It stops before it begins, so that it
# takes no time to let it go.
prepare_hog() {
	local i

	# shellcheck disable=SC2016 # for the inner shell
	taskset -c "$CPU" chrt -f $PRIORITY bash -c 'kill -STOP $$; while :; do :; done' &
	HOG=$!
	for ((i = 0; i < 10 * LIMIT; i++)); do
		state $HOG
		[ "$VALUE" != T ] || return 0
		sleep 0.1
	done
	return 1
}

let_hog_go() { kill -CONT "$HOG"; }

start_hog() { prepare_hog && let_hog_go; }

end_hog() {
	[ -n "$HOG" ] || return 0
	kill -9 "$HOG" 2>/dev/null
	wait "$HOG" 2>/dev/null
	HOG=
}

# hogged: a work item does not run on the CPU. The module says ETIME.
hogged() {
	local error

	[ -n "$HOG" ] && kill -0 "$HOG" || return
	if error=$( (echo "$CPU" >"$DO/work") 2>&1); then
		msg "void: a work item has run on CPU $CPU, in spite of the hog"
		return 1
	fi
	[[ $error = *[Tt]ime* ]] && return
	msg "void: $error"
	return 1
}

works() {
	local i

	# each time, it waits for two seconds
	for i in 1 2 3 4 5; do
		! echo "$CPU" >"$DO/work" || return 0
	done
	return 1
}

# --- what is to finish ---------------------------------------------------

# in_time COMMAND...: whether it succeeds, within the limit. If it does not end, the
# hog is ended for it, and a new one begins for the next.
in_time() {
	local t0=$SECONDS pid hung=''

	rm -f "$TMP/rc"
	("$@" >"$TMP/out" 2>&1; echo $? >"$TMP/rc") &
	pid=$!
	while [ ! -s "$TMP/rc" ]; do
		[ $((SECONDS - t0)) -lt "$LIMIT" ] || {
			hung=1
			break
		}
		sleep 0.2
	done
	if [ "$hung" ]; then
		msg "$*: hangs, no end within $LIMIT s"
		where_it_hangs $pid
		end_hog
		while [ ! -s "$TMP/rc" ]; do
			[ $((SECONDS - t0)) -lt $((2 * LIMIT)) ] ||
				ktap_exit_fail_msg "$*: hangs without the hog, too"
			sleep 0.2
		done
		msg "$*: ended $((SECONDS - t0 - LIMIT)) s after the hog"
		start_hog
		return 1
	fi
	wait $pid
	msg "$*: $((SECONDS - t0)) s"
	[ "$(cat "$TMP/rc")" = 0 ] && return
	msg "$(head -n 5 "$TMP/out")"
	return 1
}

# where_it_hangs PID: its stack, and those of its children, in whatever state, and of all
# who cannot be killed. With few forks: the hog leaves little of an emulated machine.
where_it_hangs() {
	local stack list pid

	mapfile -t list < <(
		awk -v parent="$1" '$4 == parent { print $1 }' /proc/[0-9]*/stat 2>/dev/null
		grep -ls '^State:.D' /proc/[0-9]*/status | tr -dc '0-9\n'
	)
	for pid in "$1" "${list[@]}"; do
		state "$pid"
		stack=$(sed 's/^\[<0>\] //; s/+0x.*//; 8q' "/proc/$pid/stack" 2>/dev/null |
			tr '\n' ' ')
		msg "    $pid, $VALUE: $stack"
	done
}

# limited NAME COMMAND...: a test, with the hog there. Each begins with a proof of it.
limited() {
	local name=$1

	shift
	hogged && in_time "$@"
	verdict "$name" [ $? -eq 0 ]
}

shrink_all() {
	local file

	for file in "$SLAB"/*/shrink; do
		[ -L "${file%/*}" ] || echo 1 >"$file" || return
	done
}

# Some are there to be written only.
read_all() {
	find "$SLAB/" -type f -perm /444 -exec cat {} + >/dev/null
}

unload() {
	mark_log
	rmmod "$1" && log_is_clean
}

off_and_on() {
	echo 0 >"$CPUS/cpu$OTHER/online" && ! is_online "$OTHER" || return
	echo 1 >"$CPUS/cpu$OTHER/online" && is_online "$OTHER"
}

barrier() { echo 1 >"$DO/barrier"; }
destroy() { echo $OBJECTS >"$DO/destroy"; }

# Objects that are allocated, among them those that wait for a grace period, in VALUE.
in_use() {
	local file sum=0

	for file in alloc_fastpath alloc_slowpath free_fastpath free_slowpath; do
		total $CACHE $file
		[[ $file = alloc* ]] || VALUE=-$VALUE
		sum=$((sum + VALUE))
	done
	VALUE=$sum
}

# By nobody's help: not a barrier, nor shrinking.
all_freed() {
	local t0=$SECONDS

	while in_use; [ "$VALUE" -ne 0 ]; do
		[ $((SECONDS - t0)) -lt "$LIMIT" ] || {
			msg "$VALUE objects wait still, after $((SECONDS - t0)) s"
			return 1
		}
		sleep 1
	done
	msg "all objects are free after $((SECONDS - t0)) s"
}

# --- what is not to happen -----------------------------------------------

# So far: names are those of the modules that are loaded now.
collect() {
	trace_off
	trace_complete && trace_ours "$CPU" >>"$TMP/ours" && trace_on
}

# The knocks show that it would have been seen.
sees_knocks() {
	trace_sees function=test_slab_isolated_work func=test_slab_isolated_call \
		func=test_slab_isolated_irq_work
}

# Nothing of the allocator.
undisturbed() {
	local line

	[ -s "$TMP/ours" ] || return 0
	msg "$(wc -l <"$TMP/ours") disturbances of CPU $CPU:"
	sort "$TMP/ours" | uniq -c | sort -rn | head -n 10 | while read -r line; do
		msg "  $line"
	done
	return 1
}

# Epoll frees by kfree_rcu(), and so does each process that ends, but for a module
# nobody would know what of it is freed.
use_caches() {
	on_isolated "echo $OBJECTS >$DO/free"
}

begin_watch() {
	: >"$TMP/ours"
	trace_on
	echo "$CPU" >"$DO/knock"
}

idle() {
	begin_watch
	works && use_caches && sleep $IDLE && sees_knocks && collect && undisturbed
}

# Whatever it has freed must not be gone before there is a hog: some seconds.
use_caches_and_start_hog() {
	local i

	for ((i = 0; i < 3; i++)); do
		if ! prepare_hog || ! use_caches || ! let_hog_go; then
			return 1
		fi
		in_use
		[ "$VALUE" -eq 0 ] || return 0
		end_hog
	done
	msg "void: nothing waited for a grace period when the hog came"
	return 1
}

# -------------------------------------------------------------------------

ktap_print_header
need_root
find_isolated || skip_all "no CPU is isolated"
need_stats
need_module
[ -e "$RCU_KO" ] || skip_all "$RCU_KO is not built"
for tool in chrt taskset; do
	command -v $tool >/dev/null || skip_all "needs $tool"
done
total kmalloc-64 sheaf_capacity
[ "${VALUE:-0}" -gt 0 ] || skip_all "no sheaves"
trace_begin "$CPU" || skip_all "$WHY"
TMP=$(mktemp -d) || exit 1
ktap_set_plan 12
msg "CPU $CPU is isolated"

insmod "$KO" || ktap_exit_fail_msg "cannot load $KO"
insmod "$RCU_KO" objects=$OBJECTS || ktap_exit_fail_msg "cannot load $RCU_KO"
# What both caches had to do there so far.
barrier

verdict "idle: kfree_rcu() brings nothing to the CPU" idle
verdict "idle: objects that it gave to kfree_rcu() are freed" all_freed

give_all_time || ktap_exit_fail_msg "cannot give all time to real-time tasks"
begin_watch
use_caches_and_start_hog || ktap_exit_fail_msg "no hog on CPU $CPU"
verdict "the hog keeps work items from running" hogged
verdict "objects that the CPU gave to kfree_rcu() are freed" all_freed
hogged || ktap_exit_fail_msg "void: no hog any more"
# First of all: who hangs ends the hog, and then there is nothing left on the CPU.
limited "a cache goes that the CPU never used" destroy
limited "a barrier of kfree_rcu() ends" barrier
limited "a module goes, with a cache that the CPU has used" unload test_slab_rcu
limited "all files in $SLAB can be read" read_all
limited "all caches can be shrunk" shrink_all
if find_other; then
	limited "CPU $OTHER goes offline and comes back" off_and_on
else
	skip "another CPU goes offline and comes back" "no CPU can go offline"
fi
SEEN=
sees_knocks && collect && SEEN=1
limited "another cache that the CPU has used goes" unload $MODULE
[ "$SEEN" ] && collect || SEEN=
[ "$SEEN" ] && undisturbed
verdict "nothing of all that came to the CPU" [ $? -eq 0 ]
ktap_finished
