#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kernel.sh [-d DIR] [-u] [-p] CONFIG [PART...]: build the laid tree out of tree in
# build/obj/CONFIG, from allnoconfig and the fragments in scripts/configs; --list
# instead of CONFIG says which there are, --fragments what each is made of. With -d it
# builds the tree in DIR/linux in DIR/obj; -u lets that tree not know a symbol of the fragments; -p only prepares:
# configuration and what every object needs, and builds the PARTs, such as mm/.
# Needs gcc (clang for some), make, flex, bison, bc, libelf and ccache; prints what it does
# and how far it is. The last line names the full log.

. "$(dirname "$0")/lib.sh"

UNKNOWN_OK='' LIST=''
TARGETS=()
case ${1:-} in
--list | --fragments)
	LIST=$1
	set -- guest
	;;
esac
while getopts d:up opt; do
	case $opt in
	d)
		dir=$(cd "$OPTARG" && pwd -P) || die "-d $OPTARG is not a directory"
		TREE=$dir/linux OBJ=$dir/obj LOGS=$dir/logs
		;;
	u) UNKNOWN_OK=1 ;;
	p) TARGETS=(prepare) ;;
	*) die "usage: kernel.sh [-d DIR] [-u] [-p] CONFIG" ;;
	esac
done
shift $((OPTIND - 1))

# What each configuration is made of. The other scripts ask for the names (--list).
configurations() {
	cat <<-EOF
		guest common guest series series-all
		hardened common guest hardened series series-all
		debug common guest debug checked hardened series series-all
		rt common guest rt hardened series series-all
		isolated common guest isolated series series-all
		mutants common guest mutants series series-all
		mutants-hardened common guest mutants hardened series series-all
		mutants-checked common guest mutants checked series series-all
		mutants-lockdep common guest mutants lockdep series series-all
		tiny common tiny series-all
		debuggers common debuggers
		m-none common matrix matrix-smp series series-all m-none
		m-voluntary common matrix matrix-smp series series-all m-voluntary
		m-dynamic common matrix matrix-smp series series-all m-dynamic
		m-up common matrix series series-all m-up
		m-up-tiny common matrix series series-all m-up-tiny
		m-kcsan common matrix matrix-smp series series-all m-kcsan
		m-kasan common matrix series series-all m-kasan
		m-kmsan common matrix matrix-smp series series-all m-kmsan
		m-kmsan-up common matrix series-all m-kmsan-up
		m-clang-lto common matrix matrix-smp series series-all m-clang-lto
		m-tiny common matrix matrix-smp series-all m-tiny
		bench common guest bench
		bench-mt common guest bench bench-mt
		bench-rt common guest bench bench-rt
		bench-latency common guest bench-latency
		bench-latency-rt common guest bench-latency bench-rt
		bench-locks common guest bench bench-locks
		bench-hardened common guest bench hardened
		bench-kasan common guest bench bench-kasan
		bench-kfence common guest bench bench-kfence
		bench-kmsan common guest bench bench-kmsan
		native common guest bench native
		native-small common guest bench native small
		native-hardened common guest bench native hardened
		cross-arm64-4k cross cross-kmemleak cross-arm64 cross-4k series series-all
		cross-arm64-4k-checked cross cross-arm64 cross-4k hardened checked series series-all
		cross-arm64-64k cross cross-kmemleak cross-arm64 cross-64k series series-all
		cross-arm64-64k-checked cross cross-arm64 cross-64k hardened checked series series-all
		cross-arm cross cross-kmemleak cross-arm series series-all
		cross-arm-checked cross cross-arm hardened checked series series-all
		cross-s390x cross cross-kmemleak cross-s390x series series-all
		cross-s390x-checked cross cross-s390x hardened checked series series-all
	EOF
}

# What begins as a copy of another kernel, if there is one: of little else do more than a
# few files depend.
seed_of() {
	case $1 in
	hardened) echo guest ;;
	bench-hardened) echo bench ;;
	mutants-hardened) echo mutants ;;
	cross-*-checked) echo "${1%-checked}" ;;
	esac
}

# Not half of it, whatever happens. Objtool, on which all objects depend, is made by commands
# that have the whole path in them; not every architecture has it.
seed() {
	local from

	from=$OBJ/$(seed_of "$CONFIG")
	[ ! -e "$O" ] && [ "$from" != "$OBJ/" ] && [ -e "$from/vmlinux" ] || return 0
	rm -rf "$O.new"
	cp -a "$from" "$O.new"
	{ grep -rlZ --include='.*.cmd' --include='.*.d' -F "$from/" "$O.new" || :; } | xargs -0r sed -i "s,$from/,$O/,g"
	mv "$O.new" "$O"
}

# Those of other architectures are of cross.sh, which boots them, too.
names=$(configurations | cut -d' ' -f1 | grep -v '^cross-' | paste -sd' ' | sed 's/ /, /g; s/\(.*\), /\1 or /')
case $LIST in
--list) echo "$names" && exit ;;
--fragments) configurations && exit ;;
esac
fragments=$(configurations | awk -v name="${1:-}" '$1 == name { $1 = ""; print }')
# nor does make take them for anything else
[ -z "${ARGS_ONLY:-}" ] || [[ "${1:-}" != cross-* ]] || fragments=
[ -n "$fragments" ] || die "no kernel configuration \`${1:-}', choose $names"
[ $# -le 1 ] || [ ${#TARGETS[@]} -gt 0 ] || die "parts of a kernel are built with -p"
args_end_here
CONFIG=$1
TARGETS+=("${@:2}")
O=$OBJ/$CONFIG
LOG=$LOGS/kernel-$CONFIG.log
MAKE_PID=

export CCACHE_DIR=${CCACHE_DIR:-$BUILD/ccache} CCACHE_BASEDIR=${CCACHE_BASEDIR:-$OUT}
export CCACHE_MAXSIZE=${CCACHE_MAXSIZE:-5G} CCACHE_COMPILERCHECK=content
# The compiler lists the headers anyway: no run of the preprocessor for that. But it does not
# list what assembly includes: cc.sh.
export CCACHE_DEPEND=1
# Nothing of the date, the machine or the tree's git state goes into the image.
export KBUILD_BUILD_TIMESTAMP=@0 KBUILD_BUILD_USER=sheaves KBUILD_BUILD_HOST=sheaves
export KBUILD_BUILD_VERSION=1

stop() {
	progress_end
	[ -z "$MAKE_PID" ] || kill "$MAKE_PID" 2>/dev/null || :
	rm -f "$O/.config.new" "$O/merged.config"
}
trap stop EXIT
trap 'exit 130' INT TERM

MAKE=(make -C "$TREE" O="$O" CC="$SCRIPTS/cc.sh $(compiler_of "$CONFIG")" HOSTCC="ccache gcc" LOCALVERSION=)
# With its own linker and archiver, which link-time optimization wants, not those of the host.
[[ "$(compiler_of "$CONFIG")" != clang-* ]] || MAKE+=(LLVM="-${LLVM_VERSION}" HOSTLD=ld HOSTAR=ar)
# The kernel leaves these out, as others race there; guest.sh tells whose race it is.
[[ "$CONFIG" != *kcsan* ]] || MAKE+=(KCSAN_SANITIZE_slub.o=y KCSAN_SANITIZE_slab_common.o=y)
[ "$(arch_of "$CONFIG")" = x86 ] ||
	MAKE+=(ARCH="$(arch_of "$CONFIG")" CROSS_COMPILE="$(prefix_of "$CONFIG")")
kmake() { "${MAKE[@]}" "$@"; }

tree_knows() {
	if [ -e "$TREE/.git" ]; then
		tgit grep -qwE "config ${1#CONFIG_}" -- '*Kconfig*'
	else
		grep -rqw --include='Kconfig*' "config ${1#CONFIG_}" "$TREE"
	fi
}

# The value that a fragment asks for is the value in .config. Symbols of
# series*.config, hardened.config and bench.config may be unknown to the tree, others may not.
check_config() {
	local want sym val have bad=0

	while IFS= read -r want; do
		sym=${want%%=*} val=${want#*=}
		have=$(sed -n "s/^$sym=//p" "$O/.config.new")
		[ "${have:-n}" != "$val" ] || continue
		if { [ -n "$UNKNOWN_OK" ] ||
		     grep -q "^$sym=" "$SCRIPTS"/configs/{series,series-all,hardened,bench,native,small}.config; } &&
		   ! tree_knows "$sym"; then
			echo "$sym is unknown to this tree"
			continue
		fi
		echo "error: $sym=$val is wanted by $CONFIG, the tree gives ${have:-n}" >&2
		bad=1
	done < <(cd "$SCRIPTS/configs" && cat "${files[@]}" |
		awk -F= '/^CONFIG_/ { v[$1] = $0 } END { for (s in v) print v[s] }' | sort)
	[ $bad -eq 0 ]
}

# Called where set -e does not count, hence the chain.
configure() {
	local f files=()

	for f in $fragments; do
		files+=("$f.config")
	done
	(cd "$SCRIPTS/configs" && KCONFIG_CONFIG=$O/merged.config \
		"$TREE/scripts/kconfig/merge_config.sh" -m -Q -O "$O" "${files[@]}") &&
	kmake -s KCONFIG_ALLCONFIG="$O/merged.config" KCONFIG_CONFIG="$O/.config.new" allnoconfig &&
	check_config &&
	{ cmp -s "$O/.config.new" "$O/.config" || cp "$O/.config.new" "$O/.config"; }
}

compiled() { grep -cE '^  (CC|AS|HOSTCC|CC \[M\]) ' "$LOG" || :; }

how_far() { echo "2/2 compiling: $(compiled) of about ${want:-?} files"; }

compile() {
	local want rc=0

	# not each configuration has a fragment of its own
	want=$(cat "$O/.compiled" 2>/dev/null ||
		sed -n 's/^# files: //p' "$SCRIPTS/configs/$CONFIG.config" 2>/dev/null || :)
	# not by the function, for that would be a shell: what is killed is make
	"${MAKE[@]}" -j"$JOBS" "${TARGETS[@]}" >>"$LOG" 2>&1 </dev/null &
	MAKE_PID=$!
	progress 30 how_far
	wait $MAKE_PID || rc=$?
	progress_end
	if [ $rc -ne 0 ]; then
		MAKE_PID=
		grep -m 12 -A3 -E '(error:|Error [0-9]+|undefined reference|No space left)' "$LOG" | sed 's/^/  | /' >&2
		die "the $CONFIG kernel does not build, see $(rel "$LOG")"
	fi
	MAKE_PID=
	# what a build of all files compiles, for the next one's progress
	[ "$(compiled)" -lt $((${want:-0} / 2)) ] || compiled >"$O/.compiled"
}

need_tool make gcc "$(compiler_of "$CONFIG")" flex bison bc ccache perl
[[ "$(compiler_of "$CONFIG")" != clang-* ]] || need_tool "ld.lld-$LLVM_VERSION" "llvm-ar-$LLVM_VERSION"
[ -e "$TREE/Makefile" ] || die "there is no $(rel "$TREE"), run: make tree"
lock "obj-$CONFIG"
[ -e "$O/vmlinux" ] || need_space "$OUT" "${NEED_GB:-2}" "a kernel build"
seed
mkdir -p "$O" "$LOGS"
say "building $CONFIG: 1/2 configuration"
run_logged "$LOG" configure || die "the $CONFIG kernel cannot be configured, see $(rel "$LOG")"
compile
[ ${#TARGETS[@]} -eq 0 ] || exit 0
n=$(grep -c 'warning:' "$LOG" || :)
say "built $CONFIG: $(compiled) files, $n warnings, $(rel "$O/$(image_of "$CONFIG")"), log $(rel "$LOG")"
