#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Build Debian packages of the laid tree by the kernel's own `make bindeb-pkg': linux-image,
# linux-headers and linux-libc-dev of 6.12.y-sheaves.
#
#   deb.sh [-d DIR] [--where]
#
#   CONFIG=running   configured as the kernel that runs here (unless chosen)
#   CONFIG=debian    as Debian's linux-image-6.12-amd64, whose package is fetched for that
#   CONFIG=FILE      as FILE says, a path with a slash in it
#   CONFIG=NAME      as `kernel.sh NAME' does; kernel.sh --list says which there are
#   LOCALMOD=1       only the modules that are loaded here, and those that a guest needs
#   LSMOD=FILE       the same with a list of modules, such as lsmod prints on another machine
#   TESTS=0          without the KUnit suites as modules, and without what the kselftests
#                    need; SLUB_STATS is as the configuration has it, then
#   DEBUG_INFO=1     with debug information and BTF, if the configuration has them: four times
#                    the space and twice the time
#
# With -d, of the tree in DIR/linux, in DIR/deb. --where prints where the packages would be.
# A run that is interrupted goes on where it was. Debian's whole configuration has 4,200 modules,
# which takes two cores hours; LOCALMOD=1, for a guest's modules alone, is 2,700 files.
#
# Needs what make deps and make deb install, and apt for Debian's configuration. Prints how
# far it is, and what to do with the packages, build/deb/CONFIG/*.deb, which are there once all
# of them are made.

. "$(dirname "$0")/lib.sh"

SUFFIX=-sheaves
# Debian's, and what makes it one that can be tried.
GUEST_MODULES="virtio_pci virtio_blk virtio_net virtio_console ext4 9p 9pnet_virtio overlay
	autofs4 ublk_drv null_blk binfmt_misc efi_pstore configfs"
CONFIG=${CONFIG:-running}
MAKE_PID='' TMP='' WHERE='' FILES='' BEFORE='' FROM='' DEB=$OUT/deb WHOSE=()

usage() { die "usage: deb.sh [-d DIR] [--where]"; }

while [ $# -gt 0 ]; do
	case $1 in
	-d)
		[ -n "${2:-}" ] || usage
		dir=$(cd "$2" 2>/dev/null && pwd -P) || die "-d $2 is not a directory"
		TREE=$dir/linux OBJ=$dir/obj DEB=$dir/deb LOGS=$dir/logs WHOSE=(-d "$dir")
		shift
		;;
	--where) WHERE=1 ;;
	*) usage ;;
	esac
	shift
done

stop() {
	progress_end
	[ -z "$MAKE_PID" ] || kill -- "-$MAKE_PID" 2>/dev/null || :
	[ -z "$TMP" ] || rm -rf "$TMP"
}
trap stop EXIT
trap 'exit 130' INT TERM

# --- what is asked for ---------------------------------------------------

is_file() { [ -f "$1" ] && [ -r "$1" ]; }

flag() { case $2 in '' | 0 | 1) ;; *) die "$1=$2 is neither 0 nor 1" ;; esac; }

running_config() {
	local f

	for f in /proc/config.gz "/boot/config-$(uname -r)"; do
		[ ! -r "$f" ] || { echo "$f" && return; }
	done
}

# Sets WHAT, how the configuration is called.
check_config_arg() {
	local kernels

	case $CONFIG in
	running)
		WHAT=running
		[ -n "$(running_config)" ] ||
			die "no /proc/config.gz, no /boot/config-$(uname -r): choose CONFIG=debian or CONFIG=FILE"
		;;
	debian) WHAT=debian ;;
	*/*)
		WHAT=file-$(basename "$CONFIG" | sed 's/^\.*//; s/[^A-Za-z0-9.+_-]/_/g')
		is_file "$CONFIG" || die "CONFIG=$CONFIG is not a file that can be read"
		[ "$(cat_config "$CONFIG" 2>/dev/null | grep -cE '^CONFIG_[A-Z0-9_]+=')" -gt 0 ] ||
			die "CONFIG=$CONFIG is not a kernel configuration"
		;;
	*)
		WHAT=$CONFIG NAMED=1
		kernels=$("$SCRIPTS/kernel.sh" --list)
		sed 's/ or /, /; s/, /\n/g' <<<"$kernels" | grep -qxF -- "$CONFIG" ||
			die "no kernel configuration \`$CONFIG', choose running, debian, a path with a slash, $kernels"
		[ "$(compiler_of "$CONFIG")" = gcc ] || die "CONFIG=$CONFIG is for clang, packages are by gcc"
		;;
	esac
	[ -z "$LOCAL" ] || WHAT+=-localmod
}

cat_config() { case $1 in *.gz) zcat "$1" ;; *) cat "$1" ;; esac; }

# A list as lsmod prints it, or names alone.
check_lsmod() {
	local bad

	[ -n "$LOCAL" ] || return 0
	if [ -n "${LSMOD:-}" ]; then
		is_file "$LSMOD" || die "LSMOD=$LSMOD is not a file that can be read"
		bad=$(grep -m 1 -avE '^([A-Za-z0-9_-]+([[:space:]].*)?)?$' "$LSMOD" |
			tr -d '\0' | cut -c1-60 || :)
		[ -z "$bad" ] || die "LSMOD=$LSMOD is not what lsmod prints: $bad"
	elif ! grep -q . /proc/modules 2>/dev/null; then
		die "LOCALMOD=1: no module is loaded here; LSMOD=FILE names a list, by lsmod where they are"
	fi
}

modules_wanted() {
	awk '{ print $1 }' "${LSMOD:-/proc/modules}"
	# shellcheck disable=SC2086 # a list of words
	printf '%s\n' $GUEST_MODULES
}

# --- configuration -------------------------------------------------------

# The newest linux-image of 6.12 that this machine's apt knows.
debian_package() {
	apt-cache search --names-only '^linux-image-6\.12\.[0-9]+(\+[a-z]+[0-9]*)?-amd64$' 2>/dev/null |
		sed 's/ .*//' | sort -V | tail -n 1
}

debian_deb() {
	find "$BUILD/dl" -name 'linux-image-6.12.*-amd64_*.deb' -printf '%f\n' 2>/dev/null |
		sort -V | tail -n 1
}

fetch_debian() {
	local package

	[ -z "$(debian_deb)" ] || return 0
	need_tool apt-get apt-cache dpkg-deb
	need_space "$BUILD" "${NEED_GB:-1}" "Debian's kernel"
	package=$(debian_package)
	[ -n "$package" ] || {
		say "fetching package lists"
		run_logged "$LOG" as_root apt-get -q update ||
			die "apt-get update fails, see $(rel "$LOG")"
		package=$(debian_package)
	}
	[ -n "$package" ] ||
		die "apt knows no linux-image-6.12.*-amd64: its sources lack bookworm-security or trixie"
	mkdir -p "$BUILD/dl"
	TMP=$(mktemp -d "$BUILD/dl/deb.XXXXXX")
	say "fetching $package for its configuration (107 MB)"
	(cd "$TMP" && run_logged "$LOG" apt-get -q download "$package") ||
		die "cannot fetch $package, see $(rel "$LOG")"
	mv "$TMP"/*.deb "$BUILD/dl/"
	rm -rf "$TMP"
	TMP=
}

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi; }

# The configuration to begin with, in $C/.config; says where it is from.
base_config() {
	case $CONFIG in
	running) cat_config "$(running_config)" && FROM=$(running_config) ;;
	debian)
		dpkg-deb --fsys-tarfile "$BUILD/dl/$(debian_deb)" |
			tar -xOf - --wildcards './boot/config-*' && FROM=$(debian_deb)
		;;
	*/*) cat_config "$CONFIG" && FROM=$CONFIG ;;
	*) cat "$OBJ/$CONFIG/.config" && FROM="kernel.sh $CONFIG" ;;
	esac >"$C/.config"
}

# Its configuration is made elsewhere, so that a file which stays as it is keeps its time.
cmake() { "${MAKE[@]}" O="$C" "$@"; }
kmake() { "${MAKE[@]}" O="$O" "$@"; }

edit() { "$TREE/scripts/config" --file "$C/.config" "$@"; }

has() { config_has "$C" "$1"; }

# Keys that the distribution has and we do not: modules are signed by one of this build. What
# the name of the kernel is, is ours to say.
adapt() {
	edit --set-str LOCALVERSION '' -d LOCALVERSION_AUTO --set-str BUILD_SALT '' \
		--set-str SYSTEM_TRUSTED_KEYS '' --set-str SYSTEM_REVOCATION_KEYS ''
	# not set where MODULE_SIG is not: a symbol that nobody has is dropped
	edit --set-str MODULE_SIG_KEY certs/signing_key.pem
	! has MODULE_SIG || edit -e MODULE_SIG_ALL
	[ "${DEBUG_INFO:-0}" = 1 ] ||
		edit -e DEBUG_INFO_NONE -d DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT -d DEBUG_INFO_DWARF4 \
			-d DEBUG_INFO_DWARF5 -d DEBUG_INFO_BTF -d GDB_SCRIPTS
}

# The symbols of the fragments, one `SYMBOL y|m' a line.
wanted() {
	{
		[ "${TESTS:-1}" = 0 ] || cat "$SCRIPTS/configs/deb.config"
		[ -z "$SMALL" ] || cat "$SCRIPTS/configs/deb-guest.config"
	} | sed -n 's/^CONFIG_\([A-Z0-9_]*\)=\([ym]\)$/\1 \2/p'
}

# satisfied SYMBOL y|m: m is a module, or more; but no suite of KUnit runs at each boot.
satisfied() {
	case $2,$1 in
	m,*KUNIT* | y,*) grep -qx "CONFIG_$1=$2" "$C/.config" ;;
	*) has "$1" ;;
	esac
}

want_all() {
	local sym val

	while read -r sym val; do
		satisfied "$sym" "$val" || edit --set-val "$sym" "$val"
	done < <(wanted)
}

have_all() {
	local sym val have bad=0

	while read -r sym val; do
		satisfied "$sym" "$val" && continue
		have=$(sed -n "s/^CONFIG_$sym=//p" "$C/.config")
		echo "error: $sym=$val is wanted, the tree gives ${have:-n} (TESTS=0 wants less)"
		bad=1
	done < <(wanted)
	[ $bad -eq 0 ]
}

localmod() {
	modules_wanted >"$C/lsmod" &&
	# lsmod's first line is none
	sed -i '/^Module$/d; 1i Module Size Used_by' "$C/lsmod" &&
	cmake -s olddefconfig &&
	{ yes '' | head -n 20000 || :; } | cmake LSMOD="$C/lsmod" localmodconfig
}

# Called where set -e does not count, hence the chain.
configure() {
	base_config &&
	adapt &&
	{ [ -z "$LOCAL" ] || localmod; } &&
	want_all &&
	cmake -s olddefconfig &&
	have_all &&
	{ cmp -s "$C/.config" "$O/.config" || cp "$C/.config" "$O/.config"; }
}

# --- compiling and packing -----------------------------------------------

# The series is so many commits long: a number that grows. Which one it is, the hash says.
set_version() {
	local n hash base

	base=$(sed -nE 's/^(VERSION|PATCHLEVEL|SUBLEVEL) *= *([0-9]+)$/\2/p' "$TREE/Makefile" |
		paste -sd.)
	n=$(tgit rev-list --count base..HEAD)
	hash=$(tgit rev-parse --short=12 HEAD)
	[ -z "$(tgit status --porcelain -uno)" ] || hash+=.edited
	RELEASE=$base$SUFFIX VERSION=$base-$n+g$hash
	export KDEB_PKGVERSION=$VERSION
	KBUILD_BUILD_TIMESTAMP=$(tgit log -1 --format=%cD)
	KBUILD_BUILD_VERSION=$n+g$hash
	export KBUILD_BUILD_TIMESTAMP KBUILD_BUILD_VERSION
}

objects() { find "$O" -name '.*.o.cmd' | wc -l; }

compiled() { grep -cE '^  (CC|AS) ' "$LOG" || :; }

how_far() {
	local n

	n=$(compiled)
	if grep -qE '^dpkg-deb: building|^  (INSTALL|SIGN) .*\.ko' "$LOG"; then
		echo "3/3 packing: $(grep -cE '^  INSTALL .*\.ko' "$LOG" || :) modules," \
			"$(grep -c '^dpkg-deb: building' "$LOG" || :) packages"
	elif [ $((BEFORE + n)) -le "$FILES" ]; then
		echo "2/3 compiling: $((BEFORE + n)) of about $FILES files"
	else
		# of another commit, or configured otherwise
		echo "2/3 compiling: $n files anew, at most $FILES"
	fi
}

# How many files there are to compile: those that make says it would, and those that are
# there. That takes it a minute or several, so a second run of a configuration knows it.
count() {
	local key

	key=$(sha256sum <"$O/.config")
	FILES=$(sed -n "s/^$key //p" "$O/.files" 2>/dev/null || :)
	run_logged "$LOG" kmake -j"$JOBS" prepare modules_prepare || return 1
	BEFORE=$(objects)
	[ -z "$FILES" ] || return 0
	FILES=$({
		find "$O" -name '.*.o.cmd' -printf '%P\n' | sed 's,\.\([^/]*\)\.cmd$,\1,'
		kmake -n -k -j"$JOBS" all 2>/dev/null </dev/null |
			sed -nE "s/.*echo +'? *(CC|AS)( \[M\])? +([^ ;']+\.o).*/\3/p"
	} | sort -u | wc -l)
	echo "$key $FILES" >"$O/.files"
}

# Those that bindeb-pkg leaves where its objects are, with its notes about them.
unfinished() { find "$DEB" -maxdepth 1 -type f -name "linux-*_${1:-*}_*"; }

pack() {
	local rc=0

	unfinished | xargs -rd '\n' rm -f
	# In a process group of its own: it is more than make that is killed. Not by the
	# function, for that would be a shell.
	set -m
	"${MAKE[@]}" O="$O" -j"$JOBS" bindeb-pkg >"$LOG" 2>&1 </dev/null &
	MAKE_PID=$!
	set +m
	progress 30 how_far
	wait $MAKE_PID || rc=$?
	progress_end
	MAKE_PID=
	[ $rc -ne 0 ] || return 0
	{ grep -m 12 -A3 -E '(error:|Error [0-9]+|undefined reference|No space left)' "$LOG" ||
		tail -n 12 "$LOG"; } | sed 's/^/  | /' >&2
	die "the packages of $WHAT do not build, see $(rel "$LOG"); the same command goes on from there"
}

# All of them, or those of the last time stay.
collect() {
	local debs

	mapfile -t debs < <(unfinished "$VERSION" | grep '\.deb$')
	[ ${#debs[@]} -ge 3 ] || die "bindeb-pkg made ${#debs[@]} packages, not three, see $(rel "$LOG")"
	rm -rf "$DIR"
	mkdir -p "$DIR"
	mv "${debs[@]}" "$DIR/"
	unfinished | xargs -rd '\n' rm -f
}

tell() {
	local f

	say "built $RELEASE, $VERSION, of $WHAT:"
	for f in "$DIR"/*.deb; do
		printf '        %5s  %s\n' "$(du -h "$f" | cut -f1)" "$(rel "$f")"
	done
	echo "        install:    sudo dpkg -i $(rel "$DIR")/linux-image-${RELEASE}_${VERSION}_amd64.deb"
	echo "        the former kernel stays, GRUB offers both (Advanced options); back to it for good:"
	echo "        uninstall:  sudo apt-get purge 'linux-*-$RELEASE'    (booted with the former one)"
}

flag LOCALMOD "${LOCALMOD:-}"
flag TESTS "${TESTS:-}"
flag DEBUG_INFO "${DEBUG_INFO:-}"
case ${KDEB_COMPRESS:=zstd} in
zstd | xz | gzip | none) ;;
*) die "KDEB_COMPRESS=$KDEB_COMPRESS is none of zstd, xz, gzip, none" ;;
esac
LOCAL='' NAMED='' SMALL=''
[ "${LOCALMOD:-0}" != 1 ] && [ -z "${LSMOD:-}" ] || LOCAL=1
check_lsmod
check_config_arg
args_end_here
# What is not a distribution's own lacks what Debian needs for booting in a guest.
[ -z "$LOCAL$NAMED" ] || SMALL=1
# As deep as the objects of kernel.sh, so that the compiler cache has those that are the same.
DIR=$DEB/$WHAT O=$DEB/$WHAT.obj C=$DEB/$WHAT.config
LOG=$LOGS/deb-$WHAT.log
if [ -n "$WHERE" ]; then
	echo "$DIR"
	exit
fi

export CCACHE_DIR=${CCACHE_DIR:-$BUILD/ccache} CCACHE_BASEDIR=${CCACHE_BASEDIR:-$OUT}
export CCACHE_MAXSIZE=${CCACHE_MAXSIZE:-5G} CCACHE_COMPILERCHECK=content CCACHE_DEPEND=1
export KBUILD_BUILD_USER=sheaves KBUILD_BUILD_HOST=sheaves
export KDEB_SOURCENAME=linux-sheaves KDEB_CHANGELOG_DIST=unstable KDEB_COMPRESS
export DEBFULLNAME="SLUB sheaves" DEBEMAIL=sheaves@localhost
MAKE=(make -C "$TREE" CC="$SCRIPTS/cc.sh gcc" HOSTCC="ccache gcc" LOCALVERSION="$SUFFIX")

need_tool make gcc flex bison bc ccache perl openssl
need_tool dpkg-buildpackage dh_testdir rsync cpio kmod
[ "${DEBUG_INFO:-0}" != 1 ] || need_tool pahole
[ -e "$TREE/Makefile" ] || die "there is no $(rel "$TREE"), run: make tree"
lock deb
mkdir -p "$O" "$C" "$LOGS"
gigabytes=25
[ -z "$SMALL" ] || gigabytes=5
[ "${DEBUG_INFO:-0}" != 1 ] || gigabytes=$((gigabytes * 4))
[ -e "$O/vmlinux" ] || need_space "$DEB" "${NEED_GB:-$gigabytes}" "packages of $WHAT"
[ "$CONFIG" != debian ] || fetch_debian
set_version
before=$(objects)
if [ "$before" -gt 0 ]; then
	say "packages of $WHAT, $RELEASE: going on, $before files are there"
else
	say "packages of $WHAT, $RELEASE"
fi
[ -z "$NAMED" ] || "$SCRIPTS/kernel.sh" "${WHOSE[@]}" -p "$CONFIG"
say "1/3 configuration"
run_logged "$LOG" configure || die "$WHAT cannot be configured, see $(rel "$LOG")"
say "configured: $(grep -c '=y$' "$O/.config") options, $(grep -c '=m$' "$O/.config") modules," \
	"from $(rel "$FROM"); counting files"
count || die "$WHAT cannot be prepared, see $(rel "$LOG")"
: >"$LOG"
say "$(how_far)"
pack
collect
tell
