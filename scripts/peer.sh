#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# peer.sh VERSION: fetch Debian's linux-source-VERSION (7.2, say) from sid or
# trixie-backports and unpack it into build/bench/peer/linux. Only this package is
# fetched, with lists of its own in build/bench/apt: the suites of this machine
# stay as they are. apt verifies the signatures. Needs apt-get, dpkg-deb, tar, xz
# and network, the latter only for the first time: the package stays in build/dl.
# Prints what it does.

. "$(dirname "$0")/lib.sh"

KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg
MIRROR=${MIRROR:-http://deb.debian.org/debian}
DIR=$OUT/bench/peer
APT=$OUT/bench/apt
LOG=$LOGS/peer.log
TMP=

cleanup() { [ -z "$TMP" ] || rm -rf "$TMP"; }
trap cleanup EXIT
trap 'exit 130' INT TERM

check_peer "${1:-}"
PACKAGE=linux-source-$1

# Settings of this machine such as a proxy hold, its sources and pins do not.
own_apt() {
	apt-get -q -y -o Dir::Etc::sourcelist="$APT/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
		-o Dir::Etc::trusted=/dev/null -o Dir::Etc::trustedparts=/dev/null \
		-o Dir::State="$APT/state" -o Dir::Cache="$APT/cache" \
		-o Dir::State::status=/dev/null \
		-o Acquire::Languages=none -o APT::Sandbox::User="$(id -un)" "$@"
}

newest() { find "$BUILD/dl" -name "${PACKAGE}_*.deb" -printf '%f\n' 2>/dev/null | sort -V | tail -n 1; }

fetch() {
	need_tool apt-get dpkg-deb
	[ -r $KEYRING ] || die "$KEYRING is missing, it is in the package debian-archive-keyring"
	need_space "$BUILD" "${NEED_GB:-1}" "the source package of the peer"
	mkdir -p "$APT/state/lists/partial" "$APT/cache/archives/partial" "$BUILD/dl"
	printf "deb [signed-by=$KEYRING] %s %s main\n" "$MIRROR" sid "$MIRROR" trixie-backports \
		>"$APT/sources.list"
	say "fetching package lists of sid and trixie-backports"
	run_logged "$LOG" own_apt update --error-on=any ||
		die "cannot get the package lists from $MIRROR, see $(rel "$LOG")"
	TMP=$(mktemp -d "$OUT/bench/peer.XXXXXX")
	say "fetching $PACKAGE"
	(cd "$TMP" && run_logged "$LOG" own_apt download "$PACKAGE") ||
		die "neither sid nor trixie-backports gives $PACKAGE, see $(rel "$LOG")"
	mv "$TMP/$PACKAGE"_*.deb "$BUILD/dl/"
}

unpack() {
	need_space "$OUT" "${NEED_GB:-3}" "the source of the peer"
	say "unpacking $1"
	rm -rf "$DIR/linux.tmp"
	mkdir -p "$DIR/linux.tmp"
	dpkg-deb --fsys-tarfile "$BUILD/dl/$1" | tar -xOf - "./usr/src/$PACKAGE.tar.xz" |
		tar -C "$DIR/linux.tmp" --strip-components=1 -xJf - ||
		die "cannot unpack $(rel "$BUILD/dl/$1")"
	rm -rf "$DIR/linux"
	mv "$DIR/linux.tmp" "$DIR/linux"
	echo "$1" >"$DIR/package"
}

mkdir -p "$DIR"
deb=$(newest)
if [ -z "$deb" ]; then
	fetch
	deb=$(newest)
fi
if [ "$deb" != "$(cat "$DIR/package" 2>/dev/null)" ] || [ ! -e "$DIR/linux/Makefile" ]; then
	unpack "$deb"
fi
