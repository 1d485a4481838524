#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Try the packages of scripts/deb.sh as who installs them would, in a Debian of its own:
#
#   1. a Debian with systemd and Debian's own kernel, by debootstrap; dpkg -i of our packages
#   2. it boots with ours: uname -r says so, all units start, the KUnit modules of the package
#      pass, and so do the kselftests, whose modules are built with the headers package
#   3. it boots with Debian's kernel, and there ours is purged
#   4. it boots with the newest kernel that is left, which is Debian's
#
#   deb.sh [-d DIR]     the packages of `scripts/deb.sh -d DIR', which CONFIG=, LOCALMOD= and
#                       LSMOD= name, as they do there
#
#   SUITE=trixie        the release of Debian (or bookworm)
#   KSELFTESTS="a.sh"   these only; `none', none, as packages built with TESTS=0 want it
#   LIMIT=3000          how many seconds each boot may take
#   FORCE=1             with a new Debian instead of that of the last time
#
# A disk is a file made by mke2fs, kernel and initrd are taken from its /boot: no loop device,
# no boot loader. Needs root, debootstrap, QEMU, e2fsprogs, network the first time. Prints a
# line for each check; fails when one does.

. "$(dirname "$0")/../lib.sh"

SUITE=${SUITE:-trixie}
MIRROR=${MIRROR:-http://deb.debian.org/debian}
QEMU=qemu-system-x86_64
PACKAGES="systemd-sysv udev kmod initramfs-tools linux-image-amd64 fio liburing2 procps
	python3-minimal util-linux e2fsprogs zstd"
SPLAT='WARNING: |\bBUG\b|Oops|general protection fault|nable to handle|Kernel panic'
SPLAT+='|list_(add|del) corruption|soft lockup|INFO: (rcu|task)|scheduling while atomic'
# what four CPUs on one node lack
# Debian's kernels let nobody put kprobes where the function tracer may not be.
LACKS="no kprobes, .*|no fault injection, .*|no virtio port qemu.monitor|no CPU is isolated|no tracefs|no kmemleak, .*|no memoryless node.*|no two memoryless nodes"
LACKS+="|no two nodes with memory and CPUs"
FAILED=0 CHILD='' TAIL='' DEB=$OUT/deb WHERE=()

stop() {
	[ -z "$CHILD" ] || kill "$CHILD" 2>/dev/null || :
	[ -z "$TAIL" ] || kill "$TAIL" 2>/dev/null || :
}
trap stop EXIT
trap 'exit 130' INT TERM

check() {
	local what=$1

	shift
	if "$@"; then
		say "ok      $what"
	else
		say "FAILED  $what"
		FAILED=1
	fi
}

# logged FUNCTION ERROR
logged() { run_logged "$LOGS/deb-try-$1.log" "$1" || die "$2, see $(rel "$LOGS/deb-try-$1.log")"; }

# --- the Debian ----------------------------------------------------------

# As the first process of a namespace of its own: no mount and no process stays behind.
# shellcheck disable=SC2016 # for the shell there
in_chroot() {
	unshare --mount --propagation private --pid --fork --kill-child bash -c '
			mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" &&
			mount --rbind /dev "$1/dev" && exec chroot "$1" /usr/bin/env -i "${@:2}"' \
		bash "$1" HOME=/root DEBIAN_FRONTEND=noninteractive \
		http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${@:2}"
}

# An initrd with the modules of this machine instead of most that there are: with these, an
# emulated CPU needs minutes to unpack it.
small_initrd() {
	mkdir -p "$1/etc/initramfs-tools/conf.d" "$1/usr/share/initramfs-tools/modules.d" &&
	echo MODULES=list >"$1/etc/initramfs-tools/conf.d/virtual" &&
	printf '%s\n' virtio_pci virtio_blk ext4 >"$1/usr/share/initramfs-tools/modules.d/virtual"
}

# That of make fresh, if there is one. Called where set -e does not count, hence the chain.
# shellcheck disable=SC2086 # a list of words
bootstrap() {
	rm -rf "$BASE.tmp" &&
	if [ -e "$BUILD/fresh/$SUITE.base" ]; then
		cp -a --reflink=auto "$BUILD/fresh/$SUITE.base" "$BASE.tmp"
	else
		debootstrap --variant=minbase "$SUITE" "$BASE.tmp" "$MIRROR"
	fi &&
	{ apt-config dump | grep -E '^Acquire::(https?|Retries|Check-|Force)' \
		>"$BASE.tmp/etc/apt/apt.conf.d/90host" || :; } &&
	{ cp -L /etc/resolv.conf "$BASE.tmp/etc/resolv.conf" || :; } &&
	small_initrd "$BASE.tmp" &&
	in_chroot "$BASE.tmp" apt-get -q update &&
	in_chroot "$BASE.tmp" apt-get -q -y install --no-install-recommends $PACKAGES &&
	in_chroot "$BASE.tmp" apt-get -q clean &&
	rm -rf "$BASE" &&
	mv "$BASE.tmp" "$BASE"
}

# Called where set -e does not count, hence the chain.
install_ours() {
	rm -rf "$DIR/root" &&
	cp -a --reflink=auto "$BASE" "$DIR/root" &&
	cp "$IMAGE" "$HEADERS" "$LIBC" "$DIR/root/root/" &&
	in_chroot "$DIR/root" sh -c 'dpkg -i /root/*.deb && rm /root/*.deb'
}

# The programs of tools/testing/selftests/slab, and its modules by the headers package alone.
build_tests() {
	local from=$TREE/tools/testing/selftests to=$DIR/tests/tools/testing/selftests
	local headers=$DIR/tests/headers/usr/src/linux-headers-$RELEASE

	rm -rf "$DIR/tests" &&
	mkdir -p "$to" "$DIR/tests/scripts" "$DIR/tests/tools/mm" &&
	dpkg-deb -x "$HEADERS" "$DIR/tests/headers" &&
	cp "$TREE/scripts/subarch.include" "$DIR/tests/scripts/" &&
	cp "$TREE"/tools/mm/{slabinfo.c,sheaves,sheaves-textfile} "$DIR/tests/tools/mm/" &&
	cp -r "$from"/{Makefile,lib.mk,kselftest.h,kselftest_harness.h} "$to/" &&
	cp -r "$from"/{run_kselftest.sh,kselftest,slab} "$to/" &&
	make -C "$to" O="$DEBS.obj" KDIR="$headers" TARGETS=slab FORCE_TARGETS=1 \
		USERCFLAGS=-Werror KSFT_INSTALL_PATH="$DIR/root/opt/sheaves/kselftest" install
}

unit() {
	cat <<-EOF
		[Unit]
		Description=Trial of a kernel with sheaves
		After=getty.target

		[Service]
		ExecStart=/opt/sheaves/guest.sh
		# pressure.sh has a process killed for want of memory, and goes on
		OOMPolicy=continue
		TimeoutStopSec=30

		[Install]
		WantedBy=multi-user.target
	EOF
}

chosen_tests() {
	local all test

	[ "${KSELFTESTS:-}" != none ] || return 0
	all=$(sed -n 's/^TEST_PROGS := //p' "$TREE/tools/testing/selftests/slab/Makefile")
	for test in ${KSELFTESTS:-$all}; do
		[[ " $all " == *" $test "* ]] || die "KSELFTESTS: no \`$test', choose among $all"
		printf -- '-t slab:%s ' "$test"
	done
	echo
}

# Called where set -e does not count, hence the chain.
make_disk() {
	mkdir -p "$DIR/root/opt/sheaves" &&
	cp "$SCRIPTS/tests/deb-guest.sh" "$DIR/root/opt/sheaves/guest.sh" &&
	echo "$TESTS_LIST" >"$DIR/root/opt/sheaves/tests" &&
	unit >"$DIR/root/etc/systemd/system/sheaves-try.service" &&
	ln -sf ../sheaves-try.service "$DIR/root/etc/systemd/system/multi-user.target.wants/" &&
	echo sheaves-try >"$DIR/root/etc/hostname" &&
	rm -f "$DIR/disk" &&
	truncate -s 6G "$DIR/disk" &&
	mke2fs -q -t ext4 -F -d "$DIR/root" "$DIR/disk"
}

# --- a boot --------------------------------------------------------------

disk() { debugfs -R "$1" "$DIR/disk" 2>/dev/null; }

# The kernels in the disk's /boot; GRUB's menu has the last one first.
kernels() { disk 'ls -p /boot' | sed -n 's,.*/vmlinuz-\([^/]*\)/.*,\1,p' | sort -V; }

# boot MODE RELEASE: what the guest leaves in its files goes to $DIR/MODE. On a busy host
# nothing of it is as fast as systemd expects.
boot() {
	local mode=$1 release=$2 rc=0 why

	say "booting $release, $mode"
	rm -rf "${DIR:?}/$mode" "$DIR/vmlinuz" "$DIR/initrd"
	disk "dump /boot/vmlinuz-$release $DIR/vmlinuz"
	disk "dump /boot/initrd.img-$release $DIR/initrd"
	if [ ! -s "$DIR/vmlinuz" ] || [ ! -s "$DIR/initrd" ]; then
		die "there is no vmlinuz-$release, or no initrd of it, in the /boot of $(rel "$DIR/disk")"
	fi
	: >"$DIR/$mode.said"
	tail -n +1 -s 0.5 -f --pid=$$ "$DIR/$mode.said" | sed -u 's/\r$//; s/^/        /' &
	TAIL=$!
	# the same as guest.sh says about them
	timeout -k 5 "$LIMIT" "$QEMU" -machine q35 -accel tcg,thread=single -cpu max -smp 4 -m 2G \
		-display none -nodefaults -no-reboot -net none \
		-drive "file=$DIR/disk,if=virtio,format=raw,cache=unsafe" \
		-serial "file:$LOGS/deb-try-$mode.log" -serial "file:$DIR/$mode.said" \
		-kernel "$DIR/vmlinuz" -initrd "$DIR/initrd" -append "root=/dev/vda rw console=ttyS0
			loglevel=6 panic=-1 oops=panic tsc=reliable no_timer_check lpj=4000000 log_buf_len=8M
			rcupdate.rcu_cpu_stall_timeout=120 systemd.default_timeout_start_sec=900
			systemd.default_device_timeout_sec=900 sheaves.try=$mode" </dev/null &
	CHILD=$!
	wait $CHILD || rc=$?
	CHILD=
	sleep 1
	kill "$TAIL" 2>/dev/null || :
	wait "$TAIL" 2>/dev/null || :
	TAIL=
	e2fsck -p "$DIR/disk" >"$DIR/e2fsck.log" 2>&1 || [ $? -le 2 ] ||
		die "the disk is broken, see $(rel "$DIR/e2fsck.log")"
	disk "rdump /var/lib/sheaves-try/$mode $DIR"
	[ -e "$DIR/$mode/done" ] || {
		tail -n 15 "$LOGS/deb-try-$mode.log" | sed 's/^/  | /' >&2
		case $rc in 124 | 137) why="no end within $LIMIT s" ;; *) why="QEMU: $rc" ;; esac
		die "the guest did not get to its end ($why), see $(rel "$LOGS/deb-try-$mode.log")"
	}
	check "$mode: uname -r is $release" [ "$(cat "$DIR/$mode/uname")" = "$release" ]
	check "$mode: systemd says running" running "$mode"
	check "$mode: no splat on the console" no_splat "$LOGS/deb-try-$mode.log"
}

# shown FILE...: what is wrong.
shown() {
	sed 's/^/        | /' "$@"
	return 1
}

running() {
	[ "$(cat "$DIR/$1/state")" = running ] || shown "$DIR/$1/state" "$DIR/$1/units"
}

no_splat() { ! grep -E "$SPLAT" "$1" | sed 's/^/        | /' | grep .; }

# --- what is judged ------------------------------------------------------

# Each module has a head of its own in dmesg, and its suite is the first; here all are one
# after another below one head, as kunit.py has them from a boot.
one_report() {
	awk '
		match($0, /\] (not )?ok [0-9]+ /) {
			head = substr($0, 1, RSTART + RLENGTH - 1)
			sub(/[0-9]+ $/, ++n " ", head)
			$0 = head substr($0, RSTART + RLENGTH)
		}
		/\] KTAP version 1$/ || /\] 1\.\.[0-9]+$/ { next }
		{ line[++lines] = $0 }
		END {
			printf "[    0.000000] KTAP version 1\n[    0.000000] 1..%d\n", n
			for (i = 1; i <= lines; i++)
				print line[i]
		}' "$1"
}

kunit() {
	one_report "$DIR/ours/kunit.dmesg" >"$DIR/kunit.log"
	# a module reports as what is built in does
	sed 's/=m$/=y/' "$DEBS.obj/.config" >"$DIR/kunit.config"
	python3 -B "$SCRIPTS/kunit.py" "$TREE" "$DIR/kunit.log" "$DIR/kunit.config"
}

no_module_failed() { [ ! -e "$DIR/ours/modprobe.failed" ] || shown "$DIR/ours/modprobe.failed"; }

# judge_test TEST: as selftest.sh does. A skip is for what the machine lacks.
judge_test() {
	local test=$1 why

	sed -n "/^# selftests: slab: $test\$/,/^\\(not \\)*ok [0-9]* selftests: slab: $test/p" \
		"$DIR/ours/kselftest.ktap" | sed 's/^# //' >"$DIR/ktap"
	why=$(sed -n '/selftests: slab:/d; s/.*# SKIP *//p' "$DIR/ktap" | sort -u)
	say "        $(grep '^ok ' "$DIR/ktap" | grep -vcE '# SKIP|selftests: slab:' || :) passed"
	[ -z "$why" ] || echo "          skipped ${why//$'\n'/$'\n'          skipped }"
	if ! grep -qE "^ok [0-9]+ selftests: slab: $test( # SKIP)?\$" "$DIR/ktap" ||
	   grep -q '^not ok ' "$DIR/ktap" || grep -vE "^($LACKS)\$" <<<"$why" | grep -q .; then
		tail -n 40 "$DIR/ktap" | sed 's/^/        | /'
		return 1
	fi
}

judge_ours() {
	local test

	if grep -qx CONFIG_SLAB_BARN_KUNIT_TEST=m "$DEBS.obj/.config"; then
		check "the package has KUnit modules: $(paste -sd' ' "$DIR/ours/modules")" \
			[ -s "$DIR/ours/modules" ]
		check "all of them are loaded, and removed again" no_module_failed
		check "their suites pass" kunit
		check "no splat in dmesg by KUnit" no_splat "$DIR/ours/modules.dmesg"
	else
		say "        no KUnit modules: built with TESTS=0"
	fi
	for test in ${TESTS_LIST//-t slab:/}; do
		check "kselftest $test" judge_test "$test"
	done
	check "no splat in dmesg by kselftests" no_splat "$DIR/ours/kselftest.dmesg"
}

purged() {
	[ "$(cat "$DIR/old/purge.rc" "$DIR/old/before" | paste -sd' ')" = \
		"0 linux-headers-$RELEASE linux-image-$RELEASE" ] || shown "$DIR/old/before" "$DIR/old/purge.log"
}

nothing_left() { ! grep -F -- "$RELEASE" "$DIR/old/left" | sed 's/^/        | /' | grep .; }

# -------------------------------------------------------------------------

if [ "${1:-}" = -d ] && [ -n "${2:-}" ]; then
	dir=$(cd "$2" 2>/dev/null && pwd -P) || die "-d $2 is not a directory"
	TREE=$dir/linux DEB=$dir/deb LOGS=$dir/logs WHERE=(-d "$dir")
	shift 2
fi
[ $# -eq 0 ] || die "usage: deb.sh [-d DIR]"
case $SUITE in trixie | bookworm) ;; *) die "SUITE=$SUITE is neither trixie nor bookworm" ;; esac
[[ "${LIMIT:=3000}" =~ ^[1-9][0-9]{0,4}$ ]] || die "LIMIT=$LIMIT is not a number of seconds"
if [ -e "$TREE/tools/testing/selftests/slab/Makefile" ]; then TESTS_LIST=$(chosen_tests); fi
DEBS=$("$SCRIPTS/deb.sh" "${WHERE[@]}" --where)
args_end_here
[ "$(id -u)" -eq 0 ] || die "chroots need root, run: sudo make deb-try"
need_tool "$QEMU" mke2fs debugfs e2fsck unshare dpkg-deb debootstrap python3
IMAGE=$(find "$DEBS" -maxdepth 1 -name 'linux-image-*_*.deb' ! -name '*-dbg_*' 2>/dev/null)
HEADERS=$(find "$DEBS" -maxdepth 1 -name 'linux-headers-*_*.deb' 2>/dev/null)
LIBC=$(find "$DEBS" -maxdepth 1 -name 'linux-libc-dev_*.deb' 2>/dev/null)
if [ ! -f "$IMAGE" ] || [ ! -f "$HEADERS" ] || [ ! -f "$LIBC" ]; then
	die "there are no packages in $(rel "$DEBS"), run: make deb"
fi
RELEASE=${IMAGE##*/linux-image-}
RELEASE=${RELEASE%%_*}
DIR=$DEB/try BASE=$DEB/try/$SUITE.base
lock deb-try
mkdir -p "$DIR" "$LOGS"
need_space "$DIR" "${NEED_GB:-6}" "a Debian with two kernels"
if [ -n "${FORCE:-}" ] || [ ! -e "$BASE" ]; then
	say "$SUITE: a Debian with its own kernel"
	logged bootstrap "cannot make it"
fi
say "$SUITE: dpkg -i ${IMAGE##*/} ${HEADERS##*/} ${LIBC##*/}"
logged install_ours "they do not install"
if [ -n "$TESTS_LIST" ]; then
	say "kselftests: building, modules by ${HEADERS##*/}"
	logged build_tests "the kselftests do not build"
fi
logged make_disk "cannot make a disk"
OLD=$(kernels | grep -vF -- "$RELEASE" | tail -n 1)
[ -n "$OLD" ] || die "the Debian has no kernel of its own"
# Debian's may be the newer one: then ours is to be chosen in the menu
say "installed: $(kernels | tac | paste -sd' '), of which GRUB boots the first"
boot ours "$RELEASE"
judge_ours
boot old "$OLD"
check "old: apt-get purge 'linux-*-$RELEASE'" purged
check "old: nothing of it is left in /boot, /lib/modules and /usr" nothing_left
boot gone "$(kernels | tail -n 1)"
check "gone: that is Debian's" [ "$(cat "$DIR/gone/uname")" = "$OLD" ]
[ $FAILED -eq 0 ] || die "the trial of $RELEASE failed, see $(rel "$LOGS")/deb-try-*"
say "tried: $RELEASE on Debian $SUITE"
