#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# deps.sh [check|bench|real|debug|demo|debuggers|deb|debtry|cross|fresh|all]: install the Debian packages that the build and
# the guest need, and virtme-ng into build/venv; with `check', `bench', `real', `debug' or
# `demo' also those of the tests (and herd7 into build/herd), the benchmarks, those of real
# programs, the first with KMSAN, or the demonstration; with `debuggers' gdb, and drgn into
# build/venv, too; with `deb' those that pack
# (DEBUG_INFO=1: with BTF), with `debtry' those that try the packages, too; with `cross'
# compilers for other architectures, and what boots them; with `fresh' only what makes chroots;
# with `all' what `make check-all' wants.
# Needs root or sudo when something is missing; prints a line per thing installed,
# nothing when all is there.

. "$(dirname "$0")/lib.sh"

PACKAGES="
	bc bison build-essential ca-certificates ccache cpio file flex git iproute2 kmod
	libelf-dev libssl-dev linux-source-6.12 perl procps python3 python3-venv qemu-system-x86
	tini util-linux xz-utils
"
GUEST_PACKAGES=" fio liburing-dev rsync"
CHECK_PACKAGES="$GUEST_PACKAGES codespell debian-archive-keyring liburcu-dev python3-git python3-ply shellcheck sparse spin"
BENCH_PACKAGES="$GUEST_PACKAGES debian-archive-keyring e2fsprogs rt-tests stress-ng valgrind"
VNG=virtme-ng==1.42
DRGN=drgn==0.3.0

case ${1:-} in
'') ;;
check) PACKAGES+=$CHECK_PACKAGES ;;
bench) PACKAGES+=$BENCH_PACKAGES ;;
real) PACKAGES+="$BENCH_PACKAGES iperf3 libtraceevent-dev pkg-config redis-tools sqlite3" ;;
debug) PACKAGES+="$BENCH_PACKAGES clang" ;;
all) PACKAGES+="$CHECK_PACKAGES $BENCH_PACKAGES clang clang-$LLVM_VERSION lld-$LLVM_VERSION llvm-$LLVM_VERSION" ;;
demo) PACKAGES+="$GUEST_PACKAGES gnuplot-nox" ;;
debuggers) PACKAGES+="$GUEST_PACKAGES gdb" ;;
deb | debtry)
	PACKAGES+=" debhelper openssl rsync zstd"
	[ "${DEBUG_INFO:-0}" != 1 ] || PACKAGES+=" dwarves"
	[ "$1" != debtry ] || PACKAGES+="$GUEST_PACKAGES debian-archive-keyring debootstrap e2fsprogs"
	;;
# qemu-system-misc has s390x, or brings it
cross)
	PACKAGES+=" gcc-aarch64-linux-gnu gcc-arm-linux-gnueabihf gcc-s390x-linux-gnu libc6-dev-arm64-cross"
	PACKAGES+=" libc6-dev-armhf-cross libc6-dev-s390x-cross qemu-system-arm qemu-system-misc"
	# for the kselftests
	PACKAGES+=" debian-archive-keyring rsync"
	;;
fresh) PACKAGES="debian-archive-keyring debootstrap git util-linux" VNG='' ;;
*) die "usage: deps.sh [check|bench|real|debug|demo|debuggers|deb|debtry|cross|fresh|all]" ;;
esac

missing() {
	# shellcheck disable=SC2086 # a list of words
	comm -23 <(printf '%s\n' $PACKAGES | sort) \
		<(dpkg-query -W -f '${Package} ${db:Status-Status}\n' $PACKAGES 2>/dev/null |
			sed -n 's/ installed$//p' | sort -u)
}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "need root or sudo to run: $*"
	fi
}

# Who else installs just now is waited for.
apt() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@"; }

# Packages one by one: each gets its line, and the one that fails is named.
install_packages() {
	local p log=$BUILD/logs/apt.log

	command -v apt-get >/dev/null ||
		die "these are missing and there is no apt-get to install them: $*"
	need_space "$BUILD" 1 "installing packages"
	say "fetching package lists"
	run_logged "$log" apt update || warn "the package lists may be old"
	for p; do
		say "installing $p"
		run_logged "$log" apt install --no-install-recommends "$p" ||
			die "cannot install $p, see $(rel "$log")"
	done
}

install_vng() {
	local venv=$BUILD/venv log=$BUILD/logs/venv.log

	say "installing $VNG into $(rel "$venv")"
	rm -rf "$venv"
	mkdir -p "$BUILD/dl"
	# A venv knows its own path, so it is made in place and marked when done.
	run_logged "$log" /usr/bin/python3 -m venv "$venv" ||
		die "cannot make $(rel "$venv"), see $(rel "$log")"
	run_logged "$log" "$venv/bin/pip" install --disable-pip-version-check \
		--find-links "$BUILD/dl" "$VNG" ||
		die "cannot install $VNG, see $(rel "$log")"
	echo "$VNG" >"$venv/.done"
}

install_drgn() {
	local log=$BUILD/logs/drgn.log

	say "installing $DRGN into $(rel "$BUILD/venv")"
	run_logged "$log" "$BUILD/venv/bin/pip" install --disable-pip-version-check "$DRGN" ||
		die "cannot install $DRGN, see $(rel "$log")"
}

# herd7 is not in Debian 12: from sid, with the C library that it needs, none of it installed.
# What sid has tomorrow nobody knows: without it the litmus tests are skipped, and say so,
# and only the models of check-all fail.
install_herd() {
	local dir=$BUILD/herd log=$BUILD/logs/herd.log

	say "fetching herd7 into $(rel "$dir")"
	rm -rf "$dir" "$dir.new"
	mkdir -p "$dir.new/lists/partial" "$dir.new/cache/archives/partial"
	if run_logged "$log" fetch_herd "$dir.new" && run_logged "$log" "$dir.new/herd7" -version; then
		rm -rf "$dir.new"/{*.deb,lists,cache}
		mv "$dir.new" "$dir"
	else
		rm -rf "$dir.new"
		warn "no herd7 for the litmus tests, see $(rel "$log")"
	fi
}

# Called where set -e does not count, hence the chain.
fetch_herd() {
	local dir=$1 lib
	local apt=(-o "Dir::Etc::sourcelist=$dir/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$dir/lists"
		-o "Dir::Cache=$dir/cache" -o APT::Sandbox::User=root)

	lib=root/usr/lib/$(uname -m)-linux-gnu
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
		"${MIRROR:-http://deb.debian.org/debian} sid main" >"$dir/sources.list" &&
	apt-get "${apt[@]}" -q update &&
	(cd "$dir" && apt-get "${apt[@]}" -q download herdtools7 libc6 libgmp10) &&
	for p in "$dir"/*.deb; do
		dpkg-deb -x "$p" "$dir/root" || return 1
	done &&
	cat >"$dir/herd7" <<-EOF &&
		#!/bin/sh
		here=\$(dirname "\$(readlink -f "\$0")")
		exec "\$here/$lib/$(basename "$(find "$dir/$lib" -name 'ld-linux*')")" \\
			--library-path "\$here/$lib" "\$here/root/usr/bin/herd7" \\
			-set-libdir "\$here/root/usr/share/herdtools7/herd" "\$@"
	EOF
	chmod +x "$dir/herd7"
}

# What is half made here looks whole to who starts now.
lock deps
mapfile -t want < <(missing)
[ ${#want[@]} -eq 0 ] || install_packages "${want[@]}"
[ -z "$VNG" ] || [ "$(cat "$BUILD/venv/.done" 2>/dev/null)" = "$VNG" ] || install_vng
[[ ! "${1:-}" =~ ^(check|all)$ ]] || command -v herd7 >/dev/null || [ -x "$BUILD/herd/herd7" ] || install_herd
[ "${1:-}" != debuggers ] || [ -x "$BUILD/venv/bin/drgn" ] || install_drgn
