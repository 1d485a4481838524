#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of bases.sh: which versions it finds, in lists that a fake apt-get fetches, what it
# says of those that take the series, are too old, or do not take it, and of warnings. On
# small fake kernels, without network. Needs apt-cache and dpkg-deb; prints TAP.

. "$(dirname "$0")/lib.sh"

export FAKE=$DIR/fake MIRROR=http://mirror.invalid/debian

# An archive: packages in pool, lists/SUITE, and what make says of a tree.
fake_archive() {
	rm -rf "$FAKE"
	mkdir -p "$FAKE/bin" "$FAKE/pool" "$FAKE/lists"
	cat >"$FAKE/bin/apt-get" <<-'EOF'
		#!/bin/bash
		for a; do
			case $a in
			Dir::State=*) state=${a#*=} ;;
			Dir::Etc::sourcelist=*) sources=${a#*=} ;;
			*=*) package=$a ;;
			update | download) what=$a ;;
			esac
		done
		echo "$what ${package##*=}" >>"$FAKE/asked"
		if [ "$what" = download ]; then
			cp "$FAKE/pool/${package%=*}_${package##*=}_all.deb" .
			exit
		fi
		[ ! -e "$FAKE/no-network" ] || { echo "E: Failed to fetch"; exit 100; }
		while read -r _ _ mirror suite _; do
			[ "$(cat "$FAKE/absent" 2>/dev/null)" != "$suite" ] || {
				echo "E: The repository '$mirror $suite Release' does not have a Release file."
				exit 100
			}
			list=${mirror#http://}/dists/$suite/main/binary-$(dpkg --print-architecture)/Packages
			cp "$FAKE/lists/$suite" "$state/lists/${list//\//_}" 2>/dev/null || :
		done <"$sources"
	EOF
	cat >"$FAKE/bin/make" <<-'EOF'
		#!/bin/bash
		for a; do [ ! -e "$a/Makefile" ] || tree=$a; done
		echo "  CC      mm/slub.o"
		[ -e "$tree/mm/slab_barn.c" ] || touch "$FAKE/built-base"
		cat "$tree/mm/warnings" 2>/dev/null
		[ ! -e "$tree/mm/slab_barn.c" ] || cat "$FAKE/warnings" 2>/dev/null
		exit 0
	EOF
	chmod +x "$FAKE"/bin/*
	export PATH=$FAKE/bin:${PATH#"$FAKE/bin:"}
}

# offer PACKAGE-VERSION SUITE [COMMAND...]: a kernel that takes the series, unless a command,
# which is run in its tree, changes that.
offer() {
	local version=$1 suite=$2 src=$DIR/linux-source-6.12 deb=$DIR/deb

	shift 2
	rm -rf "$src" "$deb"
	fake_kernel "$src"
	sed -i "s/^SUBLEVEL.*/SUBLEVEL = $(cut -d. -f3 <<<"${version%%-*}")/" "$src/Makefile"
	echo '/* slab */' >"$src/mm/slab.h"
	[ $# -eq 0 ] || (cd "$src" && "$@")
	mkdir -p "$deb/DEBIAN" "$deb/usr/src"
	tar -C "$DIR" -cJf "$deb/usr/src/linux-source-6.12.tar.xz" linux-source-6.12
	printf 'Package: linux-source-6.12\nVersion: %s\nArchitecture: all\nMaintainer: A <a@example.org>\nDescription: source\n' \
		"$version" >"$deb/DEBIAN/control"
	dpkg-deb -b "$deb" "$FAKE/pool/linux-source-6.12_${version}_all.deb" >/dev/null
	{
		cat "$deb/DEBIAN/control"
		printf 'Filename: pool/%s.deb\nSize: 1\n\n' "$version"
	} >>"$FAKE/lists/$suite"
}

bases() { "$REPO/scripts/bases.sh"; }

# A repository without kernels to be configured.
repository() {
	fake_repo
	printf '#!/bin/bash\n' >"$REPO/scripts/kernel.sh"
	fake_archive
}

too_old() { echo 'struct kmem_cache *find_mergeable(unsigned size);' >>mm/slab.h; sed -i 's/^line 30$/line thirty/' mm/slub.c; }
moved() { sed -i '1i a line\nanother one' mm/slub.c; }
almost() { sed -i 's/^line 28$/line twenty-eight/' mm/slub.c; }
warns() { echo "mm/slub.c:$1:2: warning: $2" >>mm/warnings; }

# says REGEXP...: it succeeds, and each of them matches a line.
says() {
	local want

	bases >"$DIR/said" 2>&1 || {
		cat "$DIR/said"
		return 1
	}
	cat "$DIR/said"
	for want; do
		grep -qE "$want" "$DIR/said" || {
			echo "no line with: $want"
			return 1
		}
	done
}

repository
offer 6.12.9-1 trixie too_old
offer 6.12.10-1~deb12u1 bookworm-backports
offer 6.12.10-1 trixie-updates
offer 6.12.11-1 sid
offer 6.12.100-1 trixie-security moved
found() {
	says '^\[.*\] 4 versions: 6\.12\.9 6\.12\.10 6\.12\.11 6\.12\.100$' \
		'6\.12\.9 \(6\.12\.9-1, trixie\): too old: without the rework of kmem_cache_create\(\)' \
		'6\.12\.10 \(6\.12\.10-1, trixie-updates\): git am takes 2 patches, 0 hunks moved$' \
		'6\.12\.100 \(6\.12\.100-1, trixie-security\): git am takes 2 patches, 2 hunks moved, by 2 lines at most$' \
		'^\| 6\.12\.9 \|.*too old' '^\| 6\.12\.10 \|.*1 objects, no new warning' &&
	[ "$(grep -c '^| 6' "$REPO/build/bases.md")" -eq 3 ]
}
ok "bases: the newest and the oldest are found, by number, and what is moved is said" found
not_fetched() { ! grep -qF 'download 6.12.11-1' "$FAKE/asked" && ! grep -qF 'deb12u1' "$FAKE/asked"; }
ok "bases: nothing else is fetched" not_fetched
cached() { : >"$FAKE/asked"; says 'git am takes' && ! grep download "$FAKE/asked"; }
ok "bases: nor anything twice" cached

echo trixie-backports >"$FAKE/absent"
ok "bases: a suite that the mirror does not have is said" \
	says '^warning: http://mirror.invalid/debian has no trixie-backports$' 'git am takes'
rm "$FAKE/absent"
touch "$FAKE/no-network"
refused "bases: no network" 'cannot get the package lists from http://mirror.invalid/debian' bases

repository
refused "bases: nobody offers it" 'none of the archives offers linux-source-6.12' bases
offer 6.12.9-1 trixie too_old
refused "bases: even the newest is too old" 'even the newest one, 6.12.9, is too old' bases

repository
offer 6.12.9-1 trixie too_old
offer 6.12.10-1 trixie-updates too_old
offer 6.12.11-1 sid
until_it_does() {
	says '6\.12\.9 .*: too old: without the rework' \
		'6\.12\.10 .*: too old: without the rework' \
		'^\| 6\.12\.11 \|.*1 objects' && [ "$(grep -c '^| 6' "$REPO/build/bases.md")" -eq 3 ]
}
ok "bases: all that are too old are, and the only one that is not is the oldest, too" until_it_does

repository
offer 6.12.9-1 trixie
offer 6.12.10-1 sid almost
refused "bases: no hunk is taken by guess" \
	'6\.12\.10 \(6\.12\.10-1, sid\) does not take the series: 0002-mm-use-the-barn: patch failed: mm/slub.c:' bases

repository
offer 6.12.10-1 sid warns 7 'of old'
old_warning() { says '6.12.10: 1 objects, no new warning' && [ -e "$FAKE/built-base" ]; }
ok "bases: a warning that the base has, too, is none" old_warning
echo 'mm/slub.c:9:1: warning: of the series' >"$FAKE/warnings"
refused "bases: a new one is" '6.12.10 with the series warns: slub.c: warning: of the series' bases
repository
offer 6.12.10-1 sid
printf '#!/bin/bash\nexit 1\n' >"$REPO/scripts/kernel.sh"
refused "bases: a kernel that cannot be configured" '6.12.10 with the series cannot be configured' bases

own_lists() {
	[ -n "$(find "$REPO/build" -name 'mirror.invalid*Packages')" ] &&
	[ -z "$(find /etc/apt /var/lib/apt -name '*mirror.invalid*')" ]
}
ok "bases: the lists are its own, not the machine's" own_lists
