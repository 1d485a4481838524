#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The series on other architectures: build the laid tree for them with Debian's cross
# compilers (kernel.sh cross-...), boot it in QEMU, which emulates, with nothing but an
# /init of its own (cross/init.c), and judge warnings, splats and the KUnit suites.
#
#   cross.sh [-b] [-u] [-s|-S] [NAME...]
#                                       these machines, or all; -b builds only, -u boots
#                                       what is built, -s runs the kselftests, too, and -S
#                                       those of them for which nothing has to fail
#   cross.sh -r DIR -c COMMAND [-n LOG] NAME
#                                       boot what is built, with a Debian (cross/root.sh) in
#                                       memory that has DIR as /kselftest, run COMMAND in it,
#                                       print its output, and fail as it does; the console is
#                                       build/logs/LOG.log
#   cross.sh -l                         which machines there are
#   cross.sh -k NAME                    the configuration of its kernel
#   cross.sh -d NAME                    the directory of what programs for that Debian are linked
#                                       with, which is made if it is not there
#
#   APPEND= adds to the kernel command line.
#
# Needs the packages of `deps.sh cross'. Prints what was built, booted and tested, a
# few lines for each machine; ends with `N passed, N failed' and the table build/cross.md,
# in which the last results of all machines are.

. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/splat.sh
. "$SCRIPTS/splat.sh"

usage() {
	die "usage: cross.sh [-b] [-u] [-s|-S] [NAME...]," \
		"or -r DIR -c COMMAND [-n LOG] NAME, -k NAME, -d NAME, -l"
}

# The machines: name, kernel, CPU, then what the guest has to be, in the words of init.c,
# and what instruction it has that exchanges two words at once, on which SLUB relies.
machines() {
	cat <<-EOT
		arm64-4k            arm64-4k          max,pauth-impdef=on cpus=4 nodes=2 page=4096  bits=64 endian=little atomics=LSE   casp
		arm64-4k-llsc       arm64-4k          cortex-a57          cpus=4 nodes=2 page=4096  bits=64 endian=little atomics=LL/SC ldxp
		arm64-4k-memoryless arm64-4k          max,pauth-impdef=on cpus=8 nodes=4 page=4096  bits=64 endian=little atomics=LSE   casp
		arm64-4k-checked    arm64-4k-checked  max,pauth-impdef=on cpus=4 nodes=2 page=4096  bits=64 endian=little atomics=LSE   casp
		arm64-64k           arm64-64k         max,pauth-impdef=on cpus=4 nodes=2 page=65536 bits=64 endian=little atomics=LSE   casp
		arm64-64k-llsc      arm64-64k         cortex-a57          cpus=4 nodes=2 page=65536 bits=64 endian=little atomics=LL/SC ldxp
		arm64-64k-checked   arm64-64k-checked cortex-a57          cpus=4 nodes=2 page=65536 bits=64 endian=little atomics=LL/SC ldxp
		arm                 arm               cortex-a15          cpus=4 nodes=1 page=4096  bits=32 endian=little atomics=LL/SC none
		arm-checked         arm-checked       cortex-a15          cpus=4 nodes=1 page=4096  bits=32 endian=little atomics=LL/SC none
		s390x               s390x             max                 cpus=4 nodes=1 page=4096  bits=64 endian=big    atomics=cs    cdsg
		s390x-checked       s390x-checked     max                 cpus=4 nodes=1 page=4096  bits=64 endian=big    atomics=cs    cdsg
	EOT
}

names() { machines | awk '{ print $1 }' | paste -sd' '; }

# machine NAME: into the variables.
machine() {
	read -r _ KERNEL CPU WANT < <(machines | awk -v name="$1" '$1 == name')
	WANT=$(xargs <<<"$WANT")
	DOUBLE=${WANT##* } WANT=${WANT% *}
	CONFIG=cross-$KERNEL
	O=$OBJ/$CONFIG
	LOG=$LOGS/cross-$1.log
	ROW=$OUT/cross/$1.row
	has() { sed -E "s/.*\<$1=([^ ]+).*/\1/" <<<"$WANT"; }
}

BUILD_ONLY='' BOOT_ONLY='' KERNEL_ONLY='' DEV_ONLY='' KSELFTESTS='' MOUNTED='' COMMAND=''
LOG_NAME=''
while getopts bc:dkln:r:sSu opt; do
	case $opt in
	b) BUILD_ONLY=1 ;;
	c) COMMAND=$OPTARG ;;
	d) DEV_ONLY=1 ;;
	k) KERNEL_ONLY=1 ;;
	n) LOG_NAME=$OPTARG ;;
	r) MOUNTED=$(cd "$OPTARG" && pwd -P) || die "-r $OPTARG is not a directory" ;;
	s) KSELFTESTS=all ;;
	S) KSELFTESTS=most ;;
	l)
		names
		exit
		;;
	u) BOOT_ONLY=1 ;;
	*) usage ;;
	esac
done
shift $((OPTIND - 1))
for name; do
	[[ " $(names) " == *" $name "* ]] || die "ARCHS: no \`$name', choose among $(names)"
done
args_end_here
if [ -n "$MOUNTED$KERNEL_ONLY$DEV_ONLY" ]; then
	[ $# -eq 1 ] || usage
fi
if [ -n "$KERNEL_ONLY" ]; then
	machine "$1"
	echo "$CONFIG"
	exit
fi
# shellcheck disable=SC2046 # a list of words
[ $# -gt 0 ] || set -- $(names)

TMP='' VM_PID=''
cleanup() {
	# timeout passes the signal on to QEMU
	[ -z "$VM_PID" ] || kill "$VM_PID" 2>/dev/null || :
	[ -z "$TMP" ] || rm -rf "$TMP"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# --- building ------------------------------------------------------------

# objects LOG: those that the warnings in it are of; what a header is warned about may be of
# any that were compiled.
objects() {
	if grep -qE '^[^ ]+\.h:[0-9:]+ warning:' "$1"; then
		sed -nE 's/^  CC +(.*\.o)$/\1/p' "$1"
	else
		sed -nE "s,^($TREE/)?([^ ]+)\.[cS]:[0-9:]+ warning:.*,\2.o,p" "$1"
	fi | sort -u
}

# Warnings of the series that the base has not: of the same files, configured the same.
warnings_against_base() {
	local base=$OUT/side/obj/$CONFIG log=$LOGS/base-$CONFIG.log list=()
	local make=(make -C "$OUT/side/linux" O="$base" ARCH="$(arch_of "$CONFIG")"
		CROSS_COMPILE="$(prefix_of "$CONFIG")" CC="ccache $(compiler_of "$CONFIG")")

	mapfile -t list < <(objects "$LOGS/kernel-$CONFIG.log")
	[ ${#list[@]} -gt 0 ] || return 0
	side_tree base
	rm -rf "$base"
	mkdir -p "$base"
	cp "$O/.config" "$base/"
	# not all of them are in the base
	run_logged "$log" "${make[@]}" olddefconfig &&
	{ "${make[@]}" -k -j"$JOBS" "${list[@]}" >>"$log" 2>&1 </dev/null || :; } &&
	new_warnings "$LOGS/kernel-$CONFIG.log" "$log"
}

# What of SLUB's objects exchanges two words at once: the instruction, or none.
double_of() {
	local i

	"$(prefix_of "$CONFIG")objdump" -d --no-show-raw-insn "$O/mm/slub.o" >"$TMP/disassembly"
	for i in casp ldxp cdsg; do
		! grep -qE "[[:space:]]${i}[al]*[[:space:]]" "$TMP/disassembly" || echo $i
	done
}

# Both ways are in a kernel of arm64.
double_is_right() {
	local has

	has=$(double_of | paste -sd' ')
	[[ " ${has:-none} " == *" $DOUBLE "* ]] || {
		echo "error: mm/slub.o has ${has:-nothing} to exchange two words at once, not $DOUBLE" >&2
		return 1
	}
}

BUILT=' '
build() {
	local new

	[[ "$BUILT" != *" $KERNEL "* ]] || return 0
	if [ -z "$BOOT_ONLY" ]; then
		forget_objects "$O"
		"$SCRIPTS/kernel.sh" "$CONFIG" || return 1
		new=$(warnings_against_base) || return 1
		if [ -n "$new" ]; then
			printf 'error: warnings that the base has not:\n%s\n' "$new" >&2
			return 1
		fi
	fi
	[ -e "$O/$(image_of "$CONFIG")" ] || die "there is no kernel $KERNEL to boot, leave out -u"
	BUILT+="$KERNEL "
}

# --- booting -------------------------------------------------------------

# What gen_init_cpio of the kernel's build packs.
initramfs() {
	local prefix

	prefix=$(prefix_of "$CONFIG")
	"${prefix}gcc" -O2 -Wall -Wextra -Werror -static -o "$TMP/init" "$SCRIPTS/cross/init.c" || return 1
	cat >"$TMP/list" <<-EOT
		dir /dev 0755 0 0
		nod /dev/console 0600 0 0 c 5 1
		file /init $TMP/init 0755 0 0
	EOT
	"$O/usr/gen_init_cpio" "$TMP/list" >"$TMP/initramfs"
}

# Debian's name of the architecture.
debian_arch() {
	case $(arch_of "$CONFIG") in
	arm64) echo arm64 ;;
	arm) echo armhf ;;
	s390) echo s390x ;;
	esac
}

cpio_of() { (cd "$1" && find . -print0 | sort -z | cpio -0 -o -H newc --owner=0:0 --quiet); }

# In ROOT, and beside it what is to be made only once.
debian() {
	local arch

	arch=$(debian_arch)
	ROOT=$OUT/cross/root-$arch
	# It is made anew when what makes it is.
	[ ! "$ROOT.cpio" -nt "$SCRIPTS/cross/root.sh" ] || return 0
	rm -rf "$ROOT"
	"$SCRIPTS/cross/root.sh" "$arch" "$ROOT" &&
	cpio_of "$ROOT" >"$ROOT.cpio.new" && mv "$ROOT.cpio.new" "$ROOT.cpio"
}

# The kernel unpacks one after the other.
debian_initramfs() {
	debian &&
	mkdir -p "$TMP/top" &&
	cp -a "$MOUNTED" "$TMP/top/kselftest" &&
	install -m 0755 "$SCRIPTS/cross/init.sh" "$TMP/top/init" &&
	printf '%s\n' "$COMMAND" >"$TMP/top/command" &&
	cpio_of "$TMP/top" >"$TMP/top.cpio" &&
	printf 'nod /dev/console 0600 0 0 c 5 1\n' >"$TMP/list" &&
	"$O/usr/gen_init_cpio" "$TMP/list" >"$TMP/console.cpio" &&
	cat "$ROOT.cpio" "$TMP/top.cpio" "$TMP/console.cpio" >"$TMP/initramfs"
}

# Nodes that have as many CPUs each, and memory; of `memoryless', every second one.
numa() {
	local cpus nodes each n

	cpus=$(has cpus) nodes=$(has nodes)
	each=$((cpus / nodes))
	ARGS+=(-smp "$cpus,sockets=$nodes,cores=$each,threads=1" -m 2048)
	for ((n = 0; n < nodes; n++)); do
		if [[ "$NAME" != *-memoryless ]] || ((n % 2 == 0)); then
			ARGS+=(-object "memory-backend-ram,id=m$n,size=1024M"
				-numa "node,nodeid=$n,cpus=$((each * n))-$((each * n + each - 1)),memdev=m$n")
		else
			ARGS+=(-numa "node,nodeid=$n,cpus=$((each * n))-$((each * n + each - 1))")
		fi
	done
}

# QEMU's command, in ARGS. A thread for each CPU: unlike static keys of x86, what these
# kernels patch while they run, CPUs that run it may see. But not for s390, of which QEMU 7.2 hangs
# when CPUs come and go: one that signals another (SIGP) waits for it, which waits for all of them
# to stand still. It also ran what was left of a module's code, where another one's was by then.
qemu_args() {
	local tty thread=multi

	case $(arch_of "$CONFIG") in
	arm64)
		QEMU=qemu-system-aarch64 tty=ttyAMA0
		ARGS=(-M virt)
		numa
		;;
	arm)
		# more than is mapped: HIGHMEM
		QEMU=qemu-system-arm tty=ttyAMA0
		ARGS=(-M "virt,highmem=off" -smp "$(has cpus)" -m 1536)
		;;
	s390)
		QEMU=qemu-system-s390x tty=ttysclp0 thread=single
		ARGS=(-M s390-ccw-virtio -smp "$(has cpus)" -m 1024)
		;;
	esac
	ARGS+=(-cpu "$CPU" -accel "tcg,thread=$thread" -nographic -no-reboot -net none
		-kernel "$O/$(image_of "$CONFIG")" -initrd "$TMP/initramfs"
		-append "console=$tty oops=panic panic=-1 rcupdate.rcu_cpu_stall_timeout=120 ${APPEND:-}")
}

# What the guest says of itself.
said() { sed -n "s/^cross: $1 *//p" "$LOG"; }

# run_qemu: until it ends. WHAT went wrong, if that is clear from how it did.
run_qemu() {
	local rc=0 sed_pid

	qemu_args
	need_tool "$QEMU" timeout
	exec 7> >(sed -u 's/\r$//' >"$LOG")
	sed_pid=$!
	timeout -k 5 "$LIMIT" "$QEMU" "${ARGS[@]}" </dev/null >&7 2>&1 7>&- &
	VM_PID=$!
	wait $VM_PID || rc=$?
	VM_PID=
	exec 7>&-
	wait $sed_pid || :
	WHAT=$(what_went_wrong $rc "$LIMIT")
}

# WHAT went wrong; fails.
complain() {
	show_log
	echo "error: $WHAT, see $(rel "$LOG")" >&2
	return 1
}

# What init.c says must be what was wanted, and its end must be the log's.
judge_init() {
	local fast slow

	if grep -q '^cross: error' "$LOG"; then
		WHAT="the guest failed: $(said error:)"
	elif [ "$(tail -n 20 "$LOG" | grep -c '^cross: end$')" -ne 1 ]; then
		WHAT="the guest ended before its /init did"
	elif [ "$(said machine)" != "$WANT" ]; then
		WHAT="the machine is another one: $(said machine)"
	else
		fast=$(said allocations | sed -E 's/.*sheaves=([0-9]+).*/\1/')
		slow=$(said allocations | sed -E 's/.*slabs=([0-9]+).*/\1/')
		SHARE=$((fast * 100 / (fast + slow)))
		say "booted $NAME: $SHARE % of $((fast + slow)) allocations were served by sheaves"
		# that they are in use is all that it shows
		[ $SHARE -ge 50 ] || WHAT="sheaves served but $SHARE % of the allocations"
	fi
}

boot() {
	initramfs || die "/init does not build for $KERNEL"
	say "booting $NAME: $WANT, by QEMU's $CPU"
	run_qemu
	[ -n "$WHAT" ] || judge_init
	[ -z "$WHAT" ] || complain
}

# COMMAND in a Debian: its output goes here.
run_command() {
	local rc

	LOG=$LOGS/${LOG_NAME:-cross-$NAME-command}.log
	debian_initramfs || die "there is no Debian of $(debian_arch)"
	run_qemu
	sed -n '/^cross: output$/,/^cross: rc /{//!p}' "$LOG"
	rc=$(said rc)
	[ -n "$WHAT" ] || [ -n "$rc" ] || WHAT="the guest ended before its command did"
	[ -n "$WHAT" ] || [ "$rc" = 0 ] || WHAT="the command failed in the guest ($rc)"
	[ -z "$WHAT" ] || complain
}

# --- results -------------------------------------------------------------

# A row of the table, from what kunit.py has said.
row() {
	local verdict=$1

	echo "| $NAME | $(($(has page) / 1024))K | $(has bits), $(has endian) | $(has atomics) | $DOUBLE |" \
		"$(has cpus) | $(has nodes) | $(awk '/^KUnit/ {
			p += $3; f += $5; s += $7
			suites = suites (suites ? ", " : "") $2 " " $3 "/" $5 "/" $7
		} END { print (NR ? suites " | " p " | " f " | " s : "- | - | - | -") }' "$TMP/kunit") |" \
		"${SHARE:--} % | $verdict |"
}

table() {
	local name

	cat <<-EOT
		<!-- SPDX-License-Identifier: GPL-2.0 -->
		# The series on other architectures

		By \`make cross\`: $(tgit describe --always --dirty), on $(tgit log -1 --format=%s base), in
		$(qemu-system-aarch64 --version | head -n 1), compiled by $(aarch64-linux-gnu-gcc --version | head -n 1).
		Suites: passed/failed/skipped. What exchanges two words at once is what SLUB does without
		its slab's lock; with \`none\` it takes the lock.

		| machine | page | bits | atomics | two words | CPUs | nodes | suites of KUnit | passed | failed | skipped | by sheaves | |
		|---------|------|------|---------|-----------|-----:|------:|-----------------|-------:|-------:|--------:|-----------:|-|
	EOT
	for name in $(names); do
		cat "$OUT/cross/$name.row" 2>/dev/null || :
	done
}

# One machine: the steps, of which the first that fails says why.
try() {
	: >"$TMP/kunit"
	SHARE=
	build && double_is_right || return 1
	[ -z "$BUILD_ONLY" ] || return 0
	boot || return 1
	python3 "$SCRIPTS/kunit.py" "$TREE" "$LOG" "$O/.config" >"$TMP/kunit" 2>"$TMP/kunit.err" || {
		cat "$TMP/kunit" "$TMP/kunit.err" >&2
		return 1
	}
	sed 's/^/          /' "$TMP/kunit"
	case $KSELFTESTS in
	all) TOPOLOGY="$NAME $NAME+faults" "$SCRIPTS/selftest.sh" ;;
	most) TOPOLOGY=$NAME "$SCRIPTS/selftest.sh" ;;
	esac
}

[ -d "$TREE/.git" ] || die "there is no $(rel "$TREE"), run: make tree"
export CCACHE_DIR=${CCACHE_DIR:-$BUILD/ccache}
LIMIT=${LIMIT:-2400}
mkdir -p "$OUT/cross" "$LOGS"
if [ -n "$DEV_ONLY" ]; then
	machine "$1"
	debian || exit
	echo "$ROOT-dev"
	exit
fi
TMP=$(mktemp -d "$OUT/cross/XXXXXX")
if [ -n "$MOUNTED" ]; then
	NAME=$1
	machine "$NAME"
	run_command
	exit
fi
passed=0 failed=0
for NAME; do
	machine "$NAME"
	need_tool "$(compiler_of "$CONFIG")"
	[ -n "$BUILD_ONLY" ] || rm -f "$ROW"
	if try; then
		say "ok      $NAME"
		passed=$((passed + 1)) verdict=ok
	else
		say "FAILED  $NAME"
		failed=$((failed + 1)) verdict=failed
	fi
	[ -n "$BUILD_ONLY" ] || row $verdict >"$ROW"
done
if [ -z "$BUILD_ONLY" ]; then
	table >"$OUT/cross.md"
	say "the table is $(rel "$OUT/cross.md")"
fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
