#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# root.sh ARCHITECTURE DIR: in DIR, a Debian of another architecture with what the
# kselftests need: the packages of this one's release, unpacked, none of them configured; and
# in DIR-dev what they are linked with that a cross compiler does not bring.
# Needs apt, the keys of Debian's archive, the network. Prints nothing; DIR is whole, or
# not there.

. "$(dirname "$0")/../lib.sh"

PACKAGES=(bash coreutils dash findutils fio grep kmod libc-bin mawk mount procps python3 sed
	util-linux)
# Without what it depends on: the C library's headers are those of the cross compiler.
DEV=liburing-dev
ARCH=${1:?} DIR=${2:?}
NEW=$DIR.new
LOG=$LOGS/root-$ARCH.log

# Called where set -e does not count, hence the chain. There is no status: all that they
# depend on is missing.
fetch() {
	local apt=(-q -y -o "APT::Architecture=$ARCH" -o "APT::Architectures=$ARCH"
		-o "Dir::Etc::sourcelist=$NEW.apt/sources.list" -o Dir::Etc::sourceparts=-
		-o "Dir::State=$NEW.apt" -o "Dir::State::status=$NEW.apt/status" -o "Dir::Cache=$NEW.apt/cache"
		-o Debug::NoLocking=1 -o APT::Sandbox::User=root --no-install-recommends)

	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
		"${MIRROR:-http://deb.debian.org/debian} $(. /etc/os-release && echo "$VERSION_CODENAME") main" \
		>"$NEW.apt/sources.list" &&
	: >"$NEW.apt/status" &&
	apt-get "${apt[@]}" update &&
	apt-get "${apt[@]}" --download-only install "${PACKAGES[@]}" &&
	(cd "$NEW.apt" && apt-get "${apt[@]}" download $DEV)
}

unpack() {
	local p

	for p in "$NEW.apt"/cache/archives/*.deb; do
		dpkg-deb -x "$p" "$NEW" || return 1
	done
	rm -rf "$NEW"/usr/share/{doc,info,locale,man,i18n,perl,zoneinfo,lintian,bash-completion} \
		"$NEW"/usr/lib/*/{gconv,perl,perl-base} "$NEW"/usr/bin/perl*
	ln -sf mawk "$NEW/usr/bin/awk"
	mkdir -p "$NEW"/{dev,proc,sys,tmp}
	dpkg-deb -x "$NEW.apt"/"$DEV"_*.deb "$NEW.dev"
	# The library is linked statically: its link leads to what is in DIR.
	rm "$NEW.dev"/usr/lib/*/*.so
}

rm -rf "$NEW" "$NEW.apt" "$NEW.dev" "$DIR-dev"
mkdir -p "$NEW" "$NEW.apt"/{lists/partial,cache/archives/partial}
trap 'rm -rf "$NEW" "$NEW.apt" "$NEW.dev"' EXIT
run_logged "$LOG" fetch || die "cannot fetch a Debian of $ARCH, see $(rel "$LOG")"
unpack
mv "$NEW.dev" "$DIR-dev"
mv "$NEW" "$DIR"
