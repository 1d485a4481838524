#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Boot a built kernel in QEMU on this machine's own file system (read-only, with
# throw-away overlays) and run a command in it. The only place that knows how.
#
#   guest.sh [-n NAME] [-t SECONDS] [-d DIR] [-a icount|multi] CONFIG [COMMAND]
#
#   TOPOLOGY=NAME (guest.sh --list says which), or CPUS=N on one node, chooses the machine;
#   MEMORY=MIB gives it more or less memory than it has by default, all nodes together;
#   APPEND= adds to the kernel command line; COMMAND `shell' is interactive.
#   NAME names the console log, build/logs/NAME.log; SECONDS limits the guest.
#   The kernel is in DIR/obj instead of build/obj. `-a icount': TCG that counts
#   instructions, one is a nanosecond; `-a multi': where it is TCG, then with a
#   thread for each CPU.
#
# Needs a kernel in build/obj/CONFIG, QEMU, virtme-ng in build/venv. Prints how
# the guest runs, then COMMAND's output. Fails when COMMAND fails, and when the
# guest hangs, panics, or leaves a splat in its log: then the splat is shown. Exits
# with 3 when it was QEMU itself that crashed.

. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/splat.sh
. "$SCRIPTS/splat.sh"

usage() { die "usage: guest.sh [-n NAME] [-t SECONDS] [-d DIR] [-a icount|multi] CONFIG [COMMAND]"; }

NAME='' LIMIT='' MODE=single LIST='' MONITOR=''
if [ "${1:-}" = --list ]; then
	LIST=1
	set -- guest
fi
while getopts a:d:n:t: opt; do
	case $opt in
	n) NAME=$OPTARG ;;
	t) LIMIT=$OPTARG ;;
	d) OBJ=$(cd "$OPTARG" && pwd -P)/obj || die "-d $OPTARG is not a directory" ;;
	a) MODE=$OPTARG ;;
	*) usage ;;
	esac
done
shift $((OPTIND - 1))
case $# in 1 | 2) ;; *) usage ;; esac
CONFIG=$1
COMMAND=${2:-true}
IMAGE=$OBJ/$CONFIG/arch/x86/boot/bzImage
VNG=$BUILD/venv/bin/vng
QEMU=qemu-system-x86_64
TMP='' VM_PID='' TAIL_PID=''

cleanup() {
	# timeout passes the signal on to QEMU
	[ -z "$VM_PID" ] || kill "$VM_PID" 2>/dev/null || :
	[ -z "$TAIL_PID" ] || kill "$TAIL_PID" 2>/dev/null || :
	[ -z "$TMP" ] || rm -rf "$TMP"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# --- the machine ---------------------------------------------------------

# memory MIB [NODES]: what there is, unless another size is wanted; each of NODES has EACH.
memory() {
	local mib=${MEMORY:-$1} nodes=${2:-1}

	if ! [[ "$mib" =~ ^[1-9][0-9]{0,6}$ ]] || [ "$mib" -lt 256 ]; then
		die "MEMORY=$mib is not a number of MiB, 256 or more"
	fi
	EACH=$((mib / nodes))M
	MEM=$((mib / nodes * nodes))M
}

# A function for each TOPOLOGY=, which is all that there is of them. Sockets match
# nodes, or the kernel warns of an insane topology.
topology_1cpu() { DESC="1 CPU" SMP=1 NUMA='' && memory 1024; }

topology_4cpu() { DESC="4 CPUs" SMP=4 NUMA='' && memory 1024; }

topology_2node() {
	memory 2048 2
	DESC="4 CPUs on 2 nodes" SMP=4,sockets=2,cores=2,threads=1
	NUMA="-object memory-backend-ram,id=m0,size=$EACH -object memory-backend-ram,id=m1,size=$EACH"
	NUMA+=" -numa node,nodeid=0,cpus=0-1,memdev=m0 -numa node,nodeid=1,cpus=2-3,memdev=m1"
}

topology_3node() {
	local n

	memory 1536 3
	DESC="3 CPUs on 3 nodes" SMP=3,sockets=3,cores=1,threads=1 NUMA=''
	for n in 0 1 2; do
		NUMA+=" -object memory-backend-ram,id=m$n,size=$EACH"
		NUMA+=" -numa node,nodeid=$n,cpus=$n,memdev=m$n"
	done
}

# eight_nodes N: with N CPUs each, and memory on two of them.
eight_nodes() {
	local n

	memory 2048 2
	DESC="$((8 * $1)) CPUs on 8 nodes, memory on nodes 1 and 5"
	SMP=$((8 * $1)),sockets=8,cores=$1,threads=1
	NUMA="-object memory-backend-ram,id=m1,size=$EACH -object memory-backend-ram,id=m5,size=$EACH"
	for n in 0 1 2 3 4 5 6 7; do
		NUMA+=" -numa node,nodeid=$n,cpus=$(($1 * n))-$(($1 * n + $1 - 1))"
		case $n in 1 | 5) NUMA+=",memdev=m$n" ;; esac
	done
}

topology_memoryless() {
	eight_nodes 4
}

# The same nodes with a CPU each: 32 CPUs of a kernel with all debugging take half an hour
# to boot where the host is busy.
topology_nodes8() {
	eight_nodes 1
}

# No CPU has memory of its own, no memory a CPU.
topology_memonly() {
	memory 2048 2
	DESC="4 CPUs on node 0, memory on nodes 1 and 2"
	SMP=4,sockets=1,cores=4,threads=1
	NUMA="-object memory-backend-ram,id=m1,size=$EACH -object memory-backend-ram,id=m2,size=$EACH"
	NUMA+=" -numa node,nodeid=0,cpus=0-3 -numa node,nodeid=1,memdev=m1 -numa node,nodeid=2,memdev=m2"
}

# Room for a DIMM, which is a node of its own, and a way for the guest to add and remove it
# (memhotplug.sh of the kselftests says which). It is far from all CPUs, or those that have no
# memory of their own would take that of the DIMM.
topology_dimm() {
	memory 1024
	DESC="4 CPUs on 2 nodes, memory on node 0, node 2 to come"
	SMP=4,sockets=2,cores=2,threads=1
	NUMA="-m slots=1,maxmem=8G -object memory-backend-ram,id=m0,size=$EACH"
	NUMA+=" -numa node,nodeid=0,cpus=0-1,memdev=m0 -numa node,nodeid=1,cpus=2-3 -numa node,nodeid=2"
	NUMA+=" -numa dist,src=0,dst=1,val=15 -numa dist,src=0,dst=2,val=40 -numa dist,src=1,dst=2,val=40"
	MONITOR=1
}

topologies() {
	compgen -A function topology_ | sed 's/^topology_//' | paste -sd' ' |
		sed 's/ /, /g; s/\(.*\), /\1 or /'
}

topology() {
	[[ ", $(topologies | sed 's/ or /, /')," == *", $TOPOLOGY,"* ]] ||
		die "no topology \`$TOPOLOGY', choose $(topologies)"
	"topology_$TOPOLOGY"
}

flat_topology() {
	local max

	[[ "$CPUS" =~ ^[1-9][0-9]{0,3}$ ]] || die "CPUS=$CPUS is not a number of CPUs"
	max=$(sed -n 's/^CONFIG_NR_CPUS=//p' "$SCRIPTS/configs/guest.config")
	[ "$CPUS" -le "$max" ] || die "CPUS=$CPUS is more than the $max that the kernel is built for"
	DESC="$CPUS CPUs" SMP=$CPUS,sockets=1,cores=$CPUS,threads=1 NUMA=''
	memory 2048
}

# KVM counts only if a guest gets to the kernel's first line within seconds.
# Found out once per host kernel and QEMU, kept in build/accel.
kvm_works() {
	( timeout -k 1 8 "$QEMU" -accel kvm -cpu host -m 256M -display none -no-reboot \
		-nodefaults -serial "file:$TMP/kvm" -kernel "$IMAGE" \
		-append 'console=ttyS0 earlyprintk=serial panic=-1' || : ) </dev/null >/dev/null 2>&1
	grep -q 'Linux version' "$TMP/kvm" 2>/dev/null
}

accel() {
	local key

	if [ "$MODE" = icount ]; then
		ACCEL=tcg WHY="to count instructions"
		return
	fi
	if [ ! -w /dev/kvm ]; then
		ACCEL=tcg WHY="no usable /dev/kvm"
		return
	fi
	key=$(uname -r)/$("$QEMU" --version | head -n 1)
	if [ "$(sed -n 1p "$BUILD/accel" 2>/dev/null)" != "$key" ]; then
		if kvm_works; then ACCEL=kvm; else ACCEL=tcg; fi
		printf '%s\n%s\n' "$key" $ACCEL >"$TMP/accel"
		mv "$TMP/accel" "$BUILD/accel"
	fi
	ACCEL=$(sed -n 2p "$BUILD/accel")
	WHY="a KVM guest does not reach its kernel here"
}

# QEMU's monitor in a virtio port of the guest: two ends of a socket.
monitor_args() {
	[ -n "$MONITOR" ] || return 0
	echo "-chardev socket,id=hmp,path=$TMP/hmp,server=on,wait=off -mon chardev=hmp" \
		"-chardev socket,id=hmp-port,path=$TMP/hmp -device virtio-serial-pci,id=hmp-ports" \
		"-device virtserialport,bus=hmp-ports.0,chardev=hmp-port,name=qemu.monitor"
}

# thread=single: with QEMU 7.2 and threads, a static key that is being patched
# can oops another CPU (int3).
vng_args() {
	local tcg machine

	machine="-smp $SMP $NUMA $(monitor_args)"
	case $MODE in
	single | multi) tcg="-accel tcg,thread=$MODE" ;;
	icount) tcg="-accel tcg,thread=single -icount shift=0,sleep=off" ;;
	*) usage ;;
	esac
	ARGS=(-r "$IMAGE" --disable-microvm --force-9p --memory "$MEM")
	ARGS+=(--cpus "${SMP%%,*}")
	if [ "$ACCEL" = kvm ]; then
		ARGS+=(--qemu-opts="$machine")
	else
		ARGS+=(--disable-kvm --qemu-opts="$tcg $machine")
	fi
	# root=: a kernel without block devices does not take the tag's default name.
	# no_timer_check: on a busy host so few ticks may come in that a kernel which
	# counts them panics. lpj=: nor can each CPU calibrate its loops then, which takes
	# it seconds; delays read the TSC.
	ARGS+=(--append "root=/dev/root oops=panic panic_on_warn=0 tsc=reliable nokaslr no_timer_check
		lpj=4000000
		rcupdate.rcu_cpu_stall_timeout=120 ${APPEND:-}")
}

# --- the verdict ---------------------------------------------------------

# With KCSAN: the functions of the allocator and its tests. Races of others are theirs.
racers() {
	grep -qsx CONFIG_KCSAN=y "$OBJ/$CONFIG/.config" || return 0
	nm "$OBJ/$CONFIG"/mm/{slub,slab_*}.o "$OBJ/$CONFIG"/lib/tests/slab_*.o |
		awk 'NF == 3 && $2 ~ /[tTW]/ { print $3 }' | paste -sd' '
}

# virtme-ng keeps to itself how QEMU ended.
wrap_qemu() {
	mkdir "$TMP/bin"
	# shellcheck disable=SC2016 # for the wrapper
	printf '#!/bin/bash\n%q "$@"\nrc=$?\necho $rc >%q\nexit $rc\n' \
		"$(command -v "$QEMU")" "$TMP/qemu.rc" >"$TMP/bin/$QEMU"
	chmod +x "$TMP/bin/$QEMU"
}

# Its signal, if it is one that a program raises by a fault of its own.
crash_of_qemu() {
	case $(cat "$TMP/qemu.rc" 2>/dev/null || :) in
	132 | 134 | 135 | 136 | 139) echo $(($(cat "$TMP/qemu.rc") - 128)) ;;
	esac
}

# One line that says what went wrong, after the splat; or nothing.
verdict() {
	local what

	what=$(what_went_wrong "$1" "$LIMIT")
	if [ -n "$what" ]; then
		:
	elif [ ! -s "$TMP/rc" ] && [ -n "$(crash_of_qemu)" ]; then
		echo "error: QEMU itself died by signal $(crash_of_qemu), see $(rel "$LOG")" >&2
		exit 3
	elif [ ! -s "$TMP/rc" ]; then
		what="the guest ended before its command did"
	elif [ "$(cat "$TMP/rc")" != 0 ]; then
		what="the command failed in the guest ($(cat "$TMP/rc"))"
	else
		return 0
	fi
	show_log
	die "$what, see $(rel "$LOG")"
}

# -------------------------------------------------------------------------

if [ -n "$LIST" ]; then
	topologies
	exit
fi
if [ -n "${CPUS:-}" ]; then flat_topology; else TOPOLOGY=${TOPOLOGY:-4cpu} && topology; fi
[ "$COMMAND" != shell ] || [ -t 0 ] || die "a shell needs a terminal"
args_end_here
need_tool "$QEMU" timeout tini
[ -x "$VNG" ] || die "virtme-ng is missing, run: make deps"
[ -e "$IMAGE" ] || die "there is no $CONFIG kernel, run: make kernel CONFIG=$CONFIG"
TMP=$(mktemp -d "$BUILD/guest.XXXXXX")
[ -n "$NAME" ] || NAME=guest-$CONFIG-${CPUS:-$TOPOLOGY}
[ -n "$LIMIT" ] || case $CONFIG in debug | rt) LIMIT=1500 ;; *) LIMIT=900 ;; esac
LOG=$LOGS/$NAME.log
mkdir -p "$LOGS"
accel
vng_args
# virtme-ng calls its own commands and QEMU by name
wrap_qemu
export PATH=$TMP/bin:$BUILD/venv/bin:$PATH

if [ "$ACCEL" = kvm ]; then HOW="under KVM"; else HOW="under TCG ($WHY)"; fi
say "booting $CONFIG: $DESC, $HOW"
if [ "$COMMAND" = shell ]; then
	"$VNG" "${ARGS[@]}"
	exit
fi

# The command talks to us through a shared directory: virtme-ng's own channel
# wants udev in the guest, and falls back to the console without it. QEMU opens
# its console by name: a pipe, so that nothing is cut or overwritten. virtme-ng's
# init leaves orphans as zombies, so they are tini's.
printf '%s\n' "$COMMAND" >"$TMP/command"
: >"$TMP/output"
tail -n +1 -s 0.2 -F --pid=$$ "$TMP/output" 2>/dev/null &
TAIL_PID=$!
exec 7> >(sed -u 's/\r$//' >"$LOG")
SED_PID=$!
timeout -k 5 "$LIMIT" "$VNG" "${ARGS[@]}" --verbose --rwdir="$TMP" \
	-e "tini -s -- bash $TMP/command >$TMP/output 2>&1 </dev/null; echo \$? >$TMP/rc" \
	</dev/null >&7 2>&1 7>&- &
VM_PID=$!
rc=0
wait $VM_PID || rc=$?
VM_PID=
exec 7>&-
wait $SED_PID || :
sleep 0.3
kill "$TAIL_PID"
wait "$TAIL_PID" 2>/dev/null || :
TAIL_PID=
verdict $rc
