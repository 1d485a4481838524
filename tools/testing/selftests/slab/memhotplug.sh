#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Memory that is added, used by caches, and taken away again: its objects are in the sheaves
# of all CPUs, in barns, and waiting for a grace period, and must not keep it from going
# offline. What is in use does, and stays as it is.
#
# Memory comes as a DIMM of QEMU's, for which the guest needs a way to QEMU's monitor: a
# virtio port with the name qemu.monitor, as in
#
#   -m 1G,slots=1,maxmem=4G
#   -chardev socket,id=hmp,path=hmp,server=on,wait=off -mon chardev=hmp
#   -chardev socket,id=port,path=hmp -device virtio-serial-pci,id=ports
#   -device virtserialport,bus=ports.0,chardev=port,name=qemu.monitor
#
# It becomes a node of its own, so that nobody uses it who does not ask for it: the last one
# that QEMU is told of (-numa node), which has neither CPUs nor memory, and is farther from
# all CPUs than others (-numa dist). CPUs of a node with
# memory have objects of another one in sheaves of their own, and CPUs of one without have
# them where all are, so there should be both.
#
# Before a block of memory goes offline, the caches give back what they can. That they do
# for the first block that has nothing of theirs: one that has refuses until then. So a try
# for each block, and another one for those that refused, is what it takes.

. "$(dirname "$0")/functions.sh"
# shellcheck source=/dev/null
. "$DIR/failing.sh"

MODULE=test_slab_memory
PARAMS=/sys/module/$MODULE/parameters
CACHE=test_slab_memory
NODES=/sys/devices/system/node
MEMORY=/sys/devices/system/memory
SIZE_MB=512
BLOCKS=()			# of the DIMM
NODE=				# where it goes
MONITOR=			# of QEMU
PATIENCE=30			# seconds, for QEMU and the firmware
ROUNDS=2
AUTO=$MEMORY/auto_online_blocks
AUTO_WAS=

cleanup() {
	disarm
	[ ! -d "/sys/module/$MODULE" ] || rmmod "$MODULE"
	[ ${#BLOCKS[@]} -eq 0 ] || { all_offline && unplug; } || msg "the DIMM stays"
	[ -z "$AUTO_WAS" ] || echo "$AUTO_WAS" >"$AUTO"
	faults_end
}
trap cleanup EXIT
trap 'exit 130' INT TERM

find_monitor() {
	local port name

	for port in /sys/class/virtio-ports/*; do
		read -r name <"$port/name" 2>/dev/null
		[ "$name" != qemu.monitor ] || MONITOR=/dev/${port##*/}
	done
	[ -n "$MONITOR" ]
}

tell() { echo "$1" >"$MONITOR"; }

# The last one that there may be, if it is not there.
find_node() {
	local list

	read -r list <$NODES/possible
	expand "$list"
	NODE=${EXPANDED[-1]}
	[ ! -d "$NODES/node$NODE" ]
}

# What comes is offline, whatever the command line has said: it is this test that takes it
# online.
hold_blocks() {
	read -r AUTO_WAS <"$AUTO" && echo offline >"$AUTO"
}

# within SECONDS COMMAND...
within() {
	local end=$((SECONDS + $1))

	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || return
		sleep 0.2
	done
}

# Blocks that were not there before, all of them, and their node.
come() {
	local bytes dir

	read -r bytes <$MEMORY/block_size_bytes
	BLOCKS=()
	for dir in "$MEMORY"/memory[0-9]*; do
		[[ $KNOWN = *" $dir "* ]] || BLOCKS+=("$dir")
	done
	[ ${#BLOCKS[@]} -eq $((SIZE_MB * 1024 * 1024 / 0x$bytes)) ] || return
	[ -e "${BLOCKS[0]}/node$NODE" ]
}

plug() {
	KNOWN=" $(echo $MEMORY/memory[0-9]*) "
	tell "object_add memory-backend-ram,id=slab_memory,size=${SIZE_MB}M"
	tell "device_add pc-dimm,id=slab_dimm,memdev=slab_memory,node=$NODE"
	within $PATIENCE come && return
	msg "${#BLOCKS[@]} blocks after $PATIENCE s, or none of node $NODE"
	return 1
}

gone() {
	local block

	for block in "${BLOCKS[@]}"; do
		[ ! -e "$block" ] || return
	done
}

no_node() { [ ! -d "$NODES/node$NODE" ]; }

# After its blocks the node goes, and only then does the firmware let go of the DIMM (_EJ0),
# of which nothing is to be seen from here. Before that, QEMU keeps the object; if it is gone,
# it does no harm to say so again.
unplug() {
	tell "device_del slab_dimm"
	within $PATIENCE gone || return
	BLOCKS=()
	within $PATIENCE no_node || msg "node $NODE is there after $PATIENCE s"
	tell "object_del slab_memory"
	sleep 1
	tell "object_del slab_memory"
	no_node
}

state() { read -r VALUE <"$1/state"; [ "$VALUE" = "$2" ]; }

# For the kernel to use, not for user space alone.
all_online() {
	local block

	for block in "${BLOCKS[@]}"; do
		state "$block" online || echo online_kernel >"$block/state" || return
	done
}

# Writing fails while a block is in use.
all_offline() {
	local round block left

	for ((round = 0; round < ROUNDS; round++)); do
		left=0
		for block in "${BLOCKS[@]}"; do
			state "$block" offline || { echo offline >"$block/state"; } 2>/dev/null ||
				left=$((left + 1))
		done
		[ $left -gt 0 ] || return 0
	done
	msg "$left of ${#BLOCKS[@]} blocks stay online"
	return 1
}

# on_node FILE NODE: what the cache has there, in VALUE.
on_node() {
	local words word

	VALUE=0
	read -r -a words <"$SLAB/$CACHE/$1"
	for word in "${words[@]}"; do
		[[ $word != "N$2="* ]] || VALUE=${word#*=}
	done
}

has_on_node() {
	on_node "$1" "$2"
	[ "$VALUE" -gt 0 ] && return
	msg "$CACHE/$1 has nothing of node $2"
	return 1
}

# Of the node, and in sheaves of all CPUs. Its own barn is not used: no CPU is near it.
spread() {
	local node

	echo "$NODE" >"$PARAMS/spread" && has_on_node objects "$NODE" || return
	for node in "$NODES"/node[0-9]*; do
		[ "${node#"$NODES"/node}" != "$NODE" ] || continue
		has_on_node sheaf_objects "${node#"$NODES"/node}" || return
	done
}

nothing_left() {
	total $CACHE objects
	[ "$VALUE" -eq 0 ] && total $CACHE sheaf_objects && [ "$VALUE" -eq 0 ] && return
	msg "objects are left: $(cat "$SLAB/$CACHE/objects")," \
		"in sheaves: $(cat "$SLAB/$CACHE/sheaf_objects")"
	return 1
}

# KASAN asks for its shadow of the block by vmalloc(), which says so when it fails.
VMALLOC_FAILS="vmalloc error: .* mode:"

comes() { mark_log && plug && all_online && log_is_clean; }

in_use_stays() {
	mark_log
	echo "$NODE" >"$PARAMS/hold" && has_on_node objects "$NODE" || return
	if all_offline; then
		msg "all blocks went offline with objects in them"
		return 1
	fi
	all_online && echo 1 >"$PARAMS/release" && log_is_clean
}

has_no_memory() {
	local list

	read -r list <$NODES/has_normal_memory
	expand "$list"
	[[ " ${EXPANDED[*]} " != *" $NODE "* ]]
}

goes_offline() {
	mark_log
	spread && all_offline && nothing_left && has_no_memory && log_is_clean
}

is_removed() { mark_log && unplug && log_is_clean; }

# Each cache has one thing in kmem_cache_node for each node with memory. If what was made before
# something failed were forgotten, there would be more of them. There may be less, as KFENCE
# has its own. Shrunk, nothing counts that is not in use.
made_once() {
	local dir list caches=0

	for dir in "$SLAB"/*; do
		[ -L "$dir" ] || caches=$((caches + 1))
	done
	read -r list <$NODES/has_normal_memory
	expand "$list"
	echo 1 >"$SLAB/kmem_cache_node/shrink" && total kmem_cache_node objects
	[ "$VALUE" -le $((caches * ${#EXPANDED[@]})) ] && return
	msg "kmem_cache_node/objects is $VALUE for $caches caches and nodes $list"
	return 1
}

# Each allocation on the way online fails once: the block stays offline, and what was made
# until then is there the next time.
fails_to_come() {
	local n failed=0

	mark_log
	plug || return
	for ((n = 1; ; n++)); do
		exec 7>"${BLOCKS[0]}/state"
		if failing $n put online_kernel; then
			exec 7>&-
			state "${BLOCKS[0]}" online || break
			[ "$LEFT" = 0 ] || {
				msg "$failed failed"
				[ $failed -gt 0 ] && made_once && all_online &&
					log_is_clean without_reports "$VMALLOC_FAILS"
				return
			}
			echo offline >"${BLOCKS[0]}/state" || break
		else
			exec 7>&-
			[ "$LEFT" = 0 ] && state "${BLOCKS[0]}" offline || break
			failed=$((failed + 1))
		fi
	done
	msg "${BLOCKS[0]##*/} is $VALUE when allocation $n of $((n - LEFT)) failed"
	return 1
}

# -------------------------------------------------------------------------

ktap_print_header
need_root
need_stats
need_module
total kmalloc-64 sheaf_capacity
[ "${VALUE:-0}" -gt 0 ] || skip_all "no sheaves"
[ -e $MEMORY/block_size_bytes ] || skip_all "needs CONFIG_MEMORY_HOTPLUG"
find_monitor || skip_all "no virtio port qemu.monitor"
find_node || skip_all "no node without CPUs and memory"
hold_blocks || ktap_exit_fail_msg "cannot write to $AUTO"
insmod "$KO" || ktap_exit_fail_msg "cannot load $KO"
ktap_set_plan 7
if faults_begin; then
	verdict "a DIMM comes, and is a node, when no more allocation fails" fails_to_come
else
	verdict "a DIMM comes, and is a node" comes
fi
verdict "what is in use stays, and as it is" in_use_stays
unless_kept "what is in sheaves does not keep it from going offline" goes_offline
unless_kept "the DIMM can be removed" is_removed
unless_kept "another one comes" comes
unless_kept "and goes offline" goes_offline
unless_kept "and can be removed" is_removed
ktap_finished
