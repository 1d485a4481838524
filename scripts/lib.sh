# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What every script here shares: paths, messages, logged commands, git without
# the user's configuration. Sourced; needs bash and coreutils, prints nothing.

set -euo pipefail
export LC_ALL=C

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
BUILD=$ROOT/build
export SCRIPTS=$ROOT/scripts
SERIES_ROOT=${SERIES_ROOT:-$ROOT}
PATCHES=$SERIES_ROOT/patches
JOBS=${JOBS:-$(($(nproc) + 1))}

# Debian's tree lives in build/; a tree named with KERNEL_SRC= has its own place.
KERNEL_SRC=${KERNEL_SRC:-}
if [ -n "$KERNEL_SRC" ]; then
	[ -d "$KERNEL_SRC" ] || {
		echo "error: KERNEL_SRC=$KERNEL_SRC is not a directory" >&2
		exit 1
	}
	KERNEL_SRC=$(cd "$KERNEL_SRC" && pwd -P)
	OUT=$BUILD/src-$(printf %s "$KERNEL_SRC" | sha256sum | cut -c1-8)
else
	OUT=$BUILD
fi
export KERNEL_SRC
TREE=$OUT/linux
export OBJ=$OUT/obj LOGS=$OUT/logs
# With SIDE=1 the scripts work on a second work tree of the same git repository; with
# SIDE=mutants, on the tree that has mutants in it.
if [ -n "${SIDE:-}" ]; then
	side=${SIDE/#1/side}
	TREE=$OUT/$side/linux
	OBJ=$OUT/$side/obj
	LOGS=$OUT/$side/logs
fi

[[ "$JOBS" =~ ^[1-9][0-9]{0,3}$ ]] || {
	echo "error: JOBS=$JOBS is not a number of jobs" >&2
	exit 1
}

# The clock starts with the first script and goes on in those that it calls.
export SHEAVES_T0=${SHEAVES_T0:-$(date +%s)}

elapsed() {
	local t=$(($(date +%s) - SHEAVES_T0))

	printf '%d:%02d' $((t / 60)) $((t % 60))
}

say() { printf '[%5s] %s\n' "$(elapsed)" "$*"; }

# progress SECONDS COMMAND...: what COMMAND prints is shown every so many seconds, on a
# terminal each second in the same line, until progress_end.
TICKER=
progress() {
	local tick=$1

	shift
	[ ! -t 1 ] || tick=1
	# the locks and the output are not this one's to keep
	while sleep "$tick" >/dev/null 2>&1; do
		if [ -t 1 ]; then
			printf '\r[%5s] %s ' "$(elapsed)" "$("$@")"
		else
			say "$("$@")"
		fi
	done </dev/null 9>&- &
	TICKER=$!
}

progress_end() {
	[ -n "$TICKER" ] || return 0
	kill "$TICKER" 2>/dev/null || :
	wait "$TICKER" 2>/dev/null || :
	TICKER=
	[ ! -t 1 ] || printf '\r\033[K'
}

warn() { printf 'warning: %s\n' "$*" >&2; }

die() {
	progress_end
	printf 'error: %s\n' "$*" >&2
	exit 1
}

# With ARGS_ONLY=1 a script does nothing but look at its arguments and variables, which
# args.sh asks of all of them before anything is installed or built.
args_end_here() { [ -z "${ARGS_ONLY:-}" ] || exit 0; }

# no_arguments "$@": for a script that is told all it can be told in variables.
no_arguments() { [ $# -eq 0 ] || die "${0##*/}: what is \`$1'? There are only variables, which its first lines name"; }

# config_has DIR OPTION: the kernel that is built in DIR is configured with it.
config_has() { grep -qsxE "CONFIG_$2=[ym]" "$1/.config"; }

# Paths in messages are relative to the repository.
rel() { printf '%s' "${1#"$ROOT"/}"; }

# run_logged LOG COMMAND...: everything goes to LOG; on failure its end is shown,
# and the caller says what failed.
run_logged() {
	local log=$1 rc=0

	shift
	mkdir -p "${log%/*}"
	"$@" >"$log" 2>&1 </dev/null || rc=$?
	[ $rc -eq 0 ] || tail -n 20 "$log" | sed 's/^/  | /' >&2
	return $rc
}

# need_space DIR GIGABYTES WHAT-FOR
need_space() {
	local free

	mkdir -p "$1"
	free=$(df --output=avail -k "$1" | tail -n 1)
	[ "$free" -ge $(($2 * 1024 * 1024)) ] ||
		die "$3 needs $2 GB in $(rel "$1"), but $((free / 1024 / 1024)) GB are free"
}

need_tool() {
	local t

	for t; do
		command -v "$t" >/dev/null || die "$t is not installed, run: make deps"
	done
}

# check_names WHAT "NAME..." "NAME...": each of the former is one of the latter
check_names() {
	local name

	for name in $2; do
		[[ " $3 " == *" $name "* ]] || die "$1: no \`$name', choose among $3"
	done
}

# lock NAME [FD [-s]]: one user of a build directory at a time, until FD, 9, is closed; with -s,
# any number of them who change nothing.
lock() {
	local fd=${2:-9} how=${3:--x}

	mkdir -p "$OUT"
	eval "exec $fd"'>"$OUT/.$1.lock"'
	flock -n "$how" "$fd" || {
		say "waiting for another $1 to end"
		flock "$how" "$fd"
	}
}

# Commit hashes and exported patches must not depend on who runs this.
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY
tgit() {
	GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 git -C "$TREE" "$@"
}

# is_commit REVISION: one of the tree, or of what it will be when it is laid anew.
is_commit() {
	tgit rev-parse -q --verify "$1^{commit}" >/dev/null ||
	{ ARGS_ONLY='' "$SCRIPTS/tree.sh" --hash && tgit rev-parse -q --verify "$1^{commit}"; } >/dev/null 2>&1
}

# Say what the tree has that the repository has not, or nothing.
REBASING="a rebase in progress"
tree_unsaved() {
	local n

	if [ -d "$TREE/.git/rebase-merge" ] || [ -d "$TREE/.git/rebase-apply" ]; then
		echo "$REBASING"
		return
	fi
	n=$(tgit status --porcelain | wc -l)
	if [ "$n" -ne 0 ]; then
		echo "uncommitted edits ($n files)"
	elif [ "$(tgit rev-parse HEAD)" != "$(tgit rev-parse refs/sheaves/laid)" ]; then
		echo "commits that are not in the repository"
	fi
}

# side_tree COMMIT: check COMMIT out in the second work tree.
side_tree() {
	local commit

	commit=$(tgit rev-parse "$1^{commit}")
	if [ ! -e "$OUT/side/linux/.git" ]; then
		need_space "$OUT" "${NEED_GB:-2}" "a second work tree"
		tgit worktree prune
		rm -rf "$OUT/side/linux"
		tgit worktree add -q --detach --no-checkout "$OUT/side/linux" "$commit"
	fi
	git -C "$OUT/side/linux" reset -q --hard "$commit"
}

check_peer() { [[ "$1" =~ ^[0-9]+\.[0-9]+$ ]] || die "PEER=$1 is not a kernel version such as 7.2"; }

# Whose tree it is, in build/bench, that a kernel to be measured comes from.
built_as() {
	case $1 in
	fixed | hardened) echo ours ;;
	*) echo "$1" ;;
	esac
}

# arch_of CONFIG: the kernel's name of the architecture.
arch_of() {
	case $1 in
	cross-arm64*) echo arm64 ;;
	cross-arm*) echo arm ;;
	cross-s390x*) echo s390 ;;
	*) echo x86 ;;
	esac
}

# prefix_of CONFIG: what the names of its tools begin with, if it is not this machine's.
prefix_of() {
	case $(arch_of "$1") in
	arm64) echo aarch64-linux-gnu- ;;
	arm) echo arm-linux-gnueabihf- ;;
	s390) echo s390x-linux-gnu- ;;
	esac
}

# image_of CONFIG: what is booted, in the directory of objects.
image_of() {
	case $(arch_of "$1") in
	arm64) echo arch/arm64/boot/Image ;;
	arm) echo arch/arm/boot/zImage ;;
	s390) echo arch/s390/boot/bzImage ;;
	x86) echo arch/x86/boot/bzImage ;;
	esac
}

# compiler_of CONFIG: gcc cannot do what KMSAN wants. Those whose fragment wants clang get the
# newest that both Debian 12 and 13 have.
LLVM_VERSION=19
compiler_of() {
	if grep -qsx CONFIG_CC_IS_CLANG=y "$SCRIPTS/configs/$1.config"; then
		echo "clang-$LLVM_VERSION"
	else
		[[ $1 == *kmsan ]] && echo clang || echo "$(prefix_of "$1")gcc"
	fi
}

# lay_kernel base|ours|peer: one to be measured, in build/bench. OURS= and PEER= say which.
lay_kernel() {
	case $1 in
	base) "$SCRIPTS/bench/lay.sh" base base ;;
	ours) "$SCRIPTS/bench/lay.sh" ours "${OURS:-refs/sheaves/laid}" ;;
	peer) "$SCRIPTS/peer.sh" "$PEER" && "$SCRIPTS/bench/lay.sh" peer ;;
	esac
}

# measured_version base|ours|peer: that of the tree in build/bench.
measured_version() {
	sed -nE 's/^(VERSION|PATCHLEVEL|SUBLEVEL) *= *([0-9]+)$/\2/p' "$OUT/bench/$1/linux/Makefile" | paste -sd.
}

# new_warnings LOG BASELOG: compiler and sparse warnings of LOG that BASELOG has
# not. Places are dropped for the comparison, as lines move.
new_warnings() {
	comm -13 <(warnings_of "$2") <(warnings_of "$1")
}

warnings_of() {
	sed -nE 's,^([^ ]*/)?([^/ :]+\.[chS]):[0-9:]+ ((warning|error): .*),\2: \3,p' "$1" |
		sed -E 's/[0-9]+ bytes/N bytes/g' | sort -u
}

# The sources of the series that kernels have.
series_sources() {
	tgit diff --name-only --diff-filter=AM base HEAD -- '*.c' | grep -vE '^(tools|samples|Documentation)/'
}

# forget_objects O: warnings are told by what is compiled, so what may warn is compiled again.
forget_objects() {
	local f

	while IFS= read -r f; do
		rm -f "$1/${f%.c}.o"
	done < <(series_sources)
}

# The series, one line per commit: "patch new-file..."; comments are dropped.
series() { sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$PATCHES/series"; }

# Repository path to tree path and back.
to_tree() { case $1 in Kconfig.sheaves) echo mm/Kconfig.sheaves ;; gdb/*) echo "scripts/$1" ;; *) echo "$1" ;; esac; }
to_repo() { case $1 in mm/Kconfig.sheaves) echo Kconfig.sheaves ;; scripts/gdb/*) echo "${1#scripts/}" ;; *) echo "$1" ;; esac; }

# install_programs TREE OBJ DIR: the programs and scripts of the kselftests of TREE, without
# the modules, in DIR/slab. Called where set -e does not count, hence the chain.
install_programs() {
	make -C "$1" O="$2" headers &&
	make -C "$1/tools/testing/selftests" O="$2" TARGETS=slab FORCE_TARGETS=1 TEST_GEN_MODS_DIR= \
		KSFT_INSTALL_PATH="$3" install
}
