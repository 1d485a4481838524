#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Run the commands of the README, make run and make check, as somebody does who has
# just cloned this repository on a new machine: in a chroot for each Debian release
# made by debootstrap, minbase with make and git and nothing else, where git knows
# no name. The repository is cloned into it as of HEAD.
#
#   SUITES="bookworm trixie"   the releases, all of them unless chosen
#   STEPS="run check"          the commands, both unless chosen
#   SHARE_CCACHE=1             with the compiler cache of this machine, which saves
#                              time when a chroot's compiler has been used before
#   FORCE=1                    begin anew
#
# What is done for a commit is not done again: an interrupted run goes on with the
# command that was interrupted, in the same chroot. A new HEAD gets new chroots, from
# the debootstrap of the first time and its packages. All of it is in build/fresh.
#
# /proc, /sys and /dev are mounted in a mount and PID namespace of each command, so
# that none is left behind, however it ends. Needs root, debootstrap, unshare, network.
# Prints what the commands print, and a line per command; fails when one does.

. "$(dirname "$0")/lib.sh"
no_arguments "$@"

ALL_SUITES="bookworm trixie"
ALL_STEPS="run check"
DIR=$BUILD/fresh
CLONE=/root/sheaves
CHILD=

# unshare ignores SIGTERM, and takes its children with it when it is killed.
stop() { [ -z "$CHILD" ] || kill -KILL "$CHILD" 2>/dev/null || :; }
trap stop EXIT
trap 'exit 130' INT TERM

# The archive that this machine's apt uses. LABEL is Debian or Debian-Security.
# shellcheck disable=SC2016 # apt's variables
archive() {
	apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
		sed -n "s,^Debian|$1|\\(.*[^/]\\)/*\$,\\1,p" | sort -u | head -n 1
}

debootstrap_suite() {
	local suite=$1 mirror=${MIRROR:-$(archive Debian)} security

	mirror=${mirror:-http://deb.debian.org/debian}
	security=$(archive Debian-Security)
	say "$suite: debootstrap from $mirror"
	rm -rf "$DIR/$suite.tmp"
	mkdir -p "$DIR/$suite.tmp"
	http_proxy=${http_proxy:-$(apt_setting Acquire::http::Proxy)} run_logged "$DIR/$suite-debootstrap.log" \
		debootstrap --variant=minbase --include=make,git "$suite" "$DIR/$suite.tmp" "$mirror" ||
		die "debootstrap of $suite fails, see $(rel "$DIR/$suite-debootstrap.log")"
	# The kernel's source is in the security archive, in bookworm.
	printf 'deb %s %s main\n' "$mirror" "$suite" "$mirror" "$suite-updates" \
		"${security:-http://deb.debian.org/debian-security}" "$suite-security" \
		>"$DIR/$suite.tmp/etc/apt/sources.list"
	rm -rf "$DIR/$suite.base"
	mv "$DIR/$suite.tmp" "$DIR/$suite.base"
}

apt_setting() { apt-config dump --format '%v%n' "$1"; }

# A chroot with the clone; and how this machine gets at the network.
prepare() {
	local suite=$1 root=$DIR/$1

	say "$suite: cloning ${HEAD:0:12} into a new chroot, $(rel "$root")"
	rm -rf "$root"
	cp -a --reflink=auto "$DIR/$suite.base" "$root.new"
	apt-config dump | grep -E '^Acquire::(https?|Retries|Check-|Force)' >"$root.new/etc/apt/apt.conf.d/90host" || :
	cp -L /etc/resolv.conf "$root.new/etc/resolv.conf" || :
	cp -L /etc/ssl/certs/ca-certificates.crt "$root.new/root/" 2>/dev/null || :
	git -c safe.directory='*' clone -q --no-local "$ROOT" "$root.new$CLONE"
	git -C "$root.new$CLONE" -c advice.detachedHead=false checkout -q "$HEAD"
	mkdir -p "$DIR/$suite.debs/partial" "$root.new$CLONE/build/ccache"
	mv "$root.new" "$root"
	echo "$HEAD" >"$root.head"
	rm -f "$root".done-*
}

# in_chroot SUITE COMMAND...: this becomes the first process of a PID namespace, and
# whatever it starts ends with it.
# shellcheck disable=SC2016 # for the shell there
in_chroot() {
	local root=$DIR/$1 env=(HOME=/root "TERM=${TERM:-dumb}" "JOBS=$JOBS"
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin) v mounts

	shift
	for v in http_proxy https_proxy no_proxy PIP_INDEX_URL; do
		[ -z "${!v:-}" ] || env+=("$v=${!v}")
	done
	# whom this machine trusts
	[ ! -e "$root/root/ca-certificates.crt" ] || env+=(PIP_CERT=/root/ca-certificates.crt)
	mounts='mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && mount --rbind /dev "$1/dev" &&
		mount --bind "$1.debs" "$1/var/cache/apt/archives"'
	[ -z "${SHARE_CCACHE:-}" ] ||
		mounts+=" && mount --bind '${CCACHE_DIR:-$BUILD/ccache}' \"\$1$CLONE/build/ccache\""
	exec unshare --mount --propagation private --pid --fork --kill-child \
		bash -c "$mounts"' && exec chroot "$1" /usr/bin/env -i "${@:2}"' bash "$root" "${env[@]}" "$@"
}

# What the command must have shown.
shown() {
	case $1 in
	run) grep -q '^KUnit .* passed ' "$2" ;;
	check) grep -qE '^[1-9][0-9]* passed, 0 failed$' "$2" ;;
	esac
}

step() {
	local suite=$1 step=$2 log=$DIR/$1-$2.log t0 rc=0 tail

	if [ -e "$DIR/$suite.done-$step" ]; then
		say "$suite: make $step has passed before, in $(cat "$DIR/$suite.done-$step")"
		return
	fi
	say "$suite: make $step, log $(rel "$log")"
	: >"$log"
	t0=$(date +%s)
	in_chroot "$suite" make -C "$CLONE" "$step" </dev/null >"$log" 2>&1 &
	CHILD=$!
	tail -n +1 -s 0.5 -f --pid=$CHILD "$log" > >(sed -u "s/^/$suite | /") &
	tail=$!
	wait $CHILD || rc=$?
	CHILD=
	wait $tail
	t0=$(($(date +%s) - t0))
	if [ $rc -ne 0 ] || ! shown "$step" "$log"; then
		FAILED+=("$suite $step")
		say "$suite: make $step FAILED (exit $rc, $((t0 / 60)) min $((t0 % 60)) s), see $(rel "$log")"
	else
		echo "$((t0 / 60)) min $((t0 % 60)) s" >"$DIR/$suite.done-$step"
		say "$suite: make $step passed, $(cat "$DIR/$suite.done-$step")"
	fi
}

SUITES=${SUITES:-$ALL_SUITES}
STEPS=${STEPS:-$ALL_STEPS}
check_names SUITES "$SUITES" "$ALL_SUITES"
check_names STEPS "$STEPS" "$ALL_STEPS"
args_end_here
[ "$(id -u)" -eq 0 ] || die "chroots need root, run: sudo make fresh"
need_tool debootstrap unshare git
mkdir -p "$DIR"
unshare --mount --pid --fork true 2>/dev/null || die "this machine permits no mount namespace (a container without privileges?)"
HEAD=$(git -c safe.directory='*' -C "$ROOT" rev-parse HEAD)
[ -z "$(git -c safe.directory='*' -C "$ROOT" status --porcelain)" ] ||
	warn "what is not committed is not in the chroots, which get ${HEAD:0:12}"
FAILED=()
for suite in $SUITES; do
	lock "fresh-$suite"
	need_space "$DIR" "${NEED_GB:-8}" "a chroot of $suite"
	[ -e "$DIR/$suite.base" ] || debootstrap_suite "$suite"
	if [ -n "${FORCE:-}" ] || [ "$(cat "$DIR/$suite.head" 2>/dev/null)" != "$HEAD" ]; then
		prepare "$suite"
	fi
	for step in $STEPS; do
		step "$suite" "$step"
	done
done
[ ${#FAILED[@]} -eq 0 ] || die "failed: $(printf '%s; ' "${FAILED[@]}")see the logs in $(rel "$DIR")"
