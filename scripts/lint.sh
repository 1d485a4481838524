#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Style and static checks, one after the other:
#
#   lint.sh scripts      shellcheck and an SPDX line in all that is not kernel code
#   lint.sh maintainers  MAINTAINERS here and the entry in the tree are the same
#   lint.sh checkpatch   codespell and checkpatch --strict on every commit of the series,
#                        less what scripts/checkpatch.known says that one gets wrong
#   lint.sh compile      W=1 and sparse on the C files of the series: only what the
#                        base does not have is reported
#   lint.sh              all of them
#
# Needs shellcheck, codespell, sparse, a compiler. Prints the findings; fails when
# there are any.

. "$(dirname "$0")/lib.sh"

FOUND=0
# The cache of open files has this name.
WORDS=filp

# From its input, not at the end of a pipe, which is another process.
found() {
	sed 's/^/  | /'
	FOUND=1
}

lint_scripts() {
	local f

	need_tool shellcheck
	cd "$ROOT"
	shellcheck -x scripts/*.sh scripts/*/*.sh .ci/run || FOUND=1
	while IFS= read -r f; do
		head -n 3 "$f" | grep -q 'SPDX-License-Identifier: ' ||
			found <<<"$f: no SPDX-License-Identifier in its first three lines"
	done < <(find Makefile .gitignore .shellcheckrc .ci scripts -type f ! -name '*.pyc')
}

lint_maintainers() {
	local entry

	[ -f "$ROOT/MAINTAINERS" ] || die "MAINTAINERS is missing"
	# The entry starts at its title, after the fragment's comments.
	entry=$(sed -n '/^[A-Z].*[A-Z]$/,$p' "$ROOT/MAINTAINERS")
	[ -n "$entry" ] || die "MAINTAINERS has no entry"
	[[ "$(tgit show HEAD:MAINTAINERS)" == *$'\n'"$entry"$'\n\n'* ]] ||
		found <<<"MAINTAINERS: the entry is not the one in the tree's MAINTAINERS"
}

# What is wrong with the words of a mail by git format-patch, its message and what it adds, and
# what is wrong with it. Checkpatch, too, can look for codespell's words, and then takes thrice as
# long.
misspelt() {
	sed -n '1,/^---$/p; s/^+//p' |
		codespell --ignore-words-list="$WORDS" - | paste - - | sed 's/^[0-9]*: /misspelt: /'
}
checkpatch() {
	# Debian's python3, which has the modules that checkpatch's helpers want
	(cd "$TREE" && PATH=/usr/bin:$PATH ./scripts/checkpatch.pl --strict --showfile \
		--show-types --terse --no-summary -q - 2>&1) | grep -vE "$@"
}

lint_checkpatch() {
	local commit mail out type path text known=()

	need_tool perl codespell
	while read -r type path text; do
		known+=(-e "^$path:[0-9]+: [A-Z]+:$type:.*$text")
	done < <(sed -e 's/#.*//' -e '/^$/d' "$SCRIPTS/checkpatch.known")
	for commit in $(tgit rev-list --reverse base..refs/sheaves/laid); do
		mail=$(tgit format-patch -1 --stdout "$commit")
		out=$(misspelt <<<"$mail"; checkpatch "${known[@]}" <<<"$mail") || :
		[ -z "$out" ] || {
			tgit log -1 --format='%h %s' "$commit"
			found <<<"$out"
		}
	done
}

# compile_with TREE OBJ LOG FILE...: W=1 and sparse on these sources only.
compile_with() {
	local TREE=$1 O=$2 log=$3 f objs=()

	shift 3
	for f; do
		objs+=("${f%.c}.o")
	done
	mkdir -p "$O"
	: >"$log"
	(cd "$SCRIPTS/configs" && KCONFIG_CONFIG=$O/merged.config \
		"$TREE/scripts/kconfig/merge_config.sh" -m -Q -O "$O" common.config guest.config series.config) >>"$log" &&
	# lib/alloc_tag.c, mm/kfence/core.c, mm/slab_sheaf_harden.c and mm/slab_sheaf_debug.c are
	# there only with these
	printf '%s=y\n' CONFIG_MEM_ALLOC_PROFILING CONFIG_MEM_ALLOC_PROFILING_DEBUG CONFIG_KFENCE \
		CONFIG_SLAB_SHEAF_HARDENED CONFIG_DEBUG_SLAB_SHEAVES >>"$O/merged.config" &&
	make -C "$TREE" O="$O" -s KCONFIG_ALLCONFIG="$O/merged.config" allnoconfig >>"$log" 2>&1 &&
	make -C "$TREE" O="$O" -j"$JOBS" CC="ccache gcc" HOSTCC="ccache gcc" prepare >>"$log" 2>&1 &&
	make -C "$TREE" O="$O" -j"$JOBS" -k W=1 C=2 CHECK=sparse KCFLAGS=-Wno-error "${objs[@]}" >>"$log" 2>&1
}

lint_compile() {
	local log=$LOGS/lint.log base_log=$LOGS/lint-base.log both=() all=() new f

	need_tool sparse ccache gcc make
	mkdir -p "$LOGS"
	while IFS= read -r f; do
		# what another configuration builds is not compiled here
		case $f in tools/* | samples/* | Documentation/*) continue ;; esac
		[ ! -e "$TREE/$f" ] || all+=("$f")
		! tgit cat-file -e "base:$f" 2>/dev/null || both+=("$f")
	done < <(tgit diff --name-only base refs/sheaves/laid -- '*.c')
	[ ${#all[@]} -gt 0 ] || return 0
	side_tree base
	: >"$base_log"
	if [ ${#both[@]} -gt 0 ]; then
		compile_with "$OUT/side/linux" "$OUT/side/obj/lint" "$base_log" "${both[@]}" ||
			die "the base does not compile with W=1, see $(rel "$base_log")"
	fi
	compile_with "$TREE" "$OBJ/lint" "$log" "${all[@]}" ||
		die "the series does not compile with W=1, see $(rel "$log")"
	new=$(new_warnings "$log" "$base_log")
	[ -z "$new" ] || found <<<"$new"
}

[ $# -gt 0 ] || set -- scripts maintainers checkpatch compile
for part; do
	declare -F "lint_$part" >/dev/null ||
		die "lint.sh: what is \`$part'? There are scripts, maintainers, checkpatch and compile"
done
[ -d "$TREE/.git" ] || die "there is no $(rel "$TREE"), run: make tree"
export CCACHE_DIR=${CCACHE_DIR:-$BUILD/ccache}
for part; do
	"lint_$part"
done
[ $FOUND -eq 0 ]
