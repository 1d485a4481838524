#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# deps.sh [check|bench|real|debug|demo|fresh]: install the Debian packages that the build and
# the guest need, with `check', `bench', `real', `debug' or `demo' also those of the tests,
# the benchmarks, those of real programs, the first with KMSAN, or the demonstration, and
# virtme-ng into build/venv; with `fresh' only what makes chroots.
# Needs root or sudo when something is missing; prints a line per thing installed,
# nothing when all is there.

. "$(dirname "$0")/lib.sh"

PACKAGES="
	bc bison build-essential ca-certificates ccache cpio file flex git iproute2 kmod
	libelf-dev libssl-dev linux-source-6.12 perl procps python3 python3-venv qemu-system-x86
	util-linux xz-utils
"
GUEST_PACKAGES=" fio liburing-dev rsync"
CHECK_PACKAGES="$GUEST_PACKAGES codespell debian-archive-keyring liburcu-dev python3-git python3-ply shellcheck sparse"
BENCH_PACKAGES="$GUEST_PACKAGES debian-archive-keyring e2fsprogs rt-tests stress-ng valgrind"
VNG=virtme-ng==1.42

case ${1:-} in
'') ;;
check) PACKAGES+=$CHECK_PACKAGES ;;
bench) PACKAGES+=$BENCH_PACKAGES ;;
real) PACKAGES+="$BENCH_PACKAGES iperf3 libtraceevent-dev pkg-config redis-tools sqlite3" ;;
debug) PACKAGES+="$BENCH_PACKAGES clang" ;;
demo) PACKAGES+="$GUEST_PACKAGES gnuplot-nox" ;;
fresh) PACKAGES="debian-archive-keyring debootstrap git util-linux" VNG='' ;;
*) die "usage: deps.sh [check|bench|real|debug|demo|fresh]" ;;
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

apt() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@"; }

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

mapfile -t want < <(missing)
[ ${#want[@]} -eq 0 ] || install_packages "${want[@]}"
[ -z "$VNG" ] || [ "$(cat "$BUILD/venv/.done" 2>/dev/null)" = "$VNG" ] || install_vng
