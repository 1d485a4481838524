#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Lay base, new files and patches into build/linux: one commit per line of
# patches/series on the tag `base`. The commits are made in the object store
# first; the work tree moves only when all of them exist, and only the files
# that differ are written.
#
#   tree.sh          lay (FORCE=1 throws away edits made in the tree)
#   tree.sh --keep   the same, but a tree with edits stays as it is
#   tree.sh --hash   make the commits, print the last one, move nothing
#
# Needs git, tar, xz. Prints one line.

. "$(dirname "$0")/lib.sh"

TARBALL=${TARBALL:-/usr/src/linux-source-6.12.tar.xz}
TMP='' FILES='' STEPS=3

cleanup() {
	progress_end
	[ -z "$TMP" ] || rm -rf "$TMP" "$TMP.files"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# --- base ----------------------------------------------------------------

makefile_var() { sed -n "s/^$2 *= *//p" "$1/Makefile" | head -n 1; }

kernel_version() {
	echo "$(makefile_var "$1" VERSION).$(makefile_var "$1" PATCHLEVEL).$(makefile_var "$1" SUBLEVEL)"
}

check_base() {
	local dir=$1 v

	if [ ! -f "$dir/Makefile" ] || [ ! -f "$dir/mm/slub.c" ]; then
		die "$2 is not a kernel tree (no Makefile or mm/slub.c in it)"
	fi
	v=$(makefile_var "$dir" VERSION).$(makefile_var "$dir" PATCHLEVEL)
	[ "$v" = 6.12 ] || die "$2 is a $v tree, the series is for 6.12.y"
	if grep -qi sheaf "$dir/mm/slub.c" "$dir/include/linux/slab.h" 2>/dev/null; then
		die "$2 already has sheaves, name a plain 6.12.y tree"
	fi
}

src_git() { git --no-optional-locks -c safe.directory='*' -C "$KERNEL_SRC" "$@"; }

src_is_git() {
	[ "$(src_git rev-parse --show-toplevel 2>/dev/null)" = "$KERNEL_SRC" ]
}

# Changes when the base does; cheap enough to ask every time.
fingerprint() {
	if [ -z "$KERNEL_SRC" ]; then
		stat -L -c 'tarball %s %Y' "$TARBALL"
	elif src_is_git; then
		echo "git $(src_git rev-parse HEAD)"
	else
		(cd "$KERNEL_SRC" && find . -type f -printf '%P %s %T@\n') |
			sort | sha256sum | sed 's/ .*//; s/^/dir /'
	fi
}

# The names of the files go to standard output.
copy_base() {
	if [ -z "$KERNEL_SRC" ]; then
		tar -C "$1" -xvJf "$TARBALL" --strip-components=1
	elif src_is_git; then
		src_git archive --format=tar HEAD | tar -C "$1" -xvf -
	else
		tar -C "$KERNEL_SRC" --exclude=./.git -cf - . | tar -C "$1" -xvf -
	fi
}

# Each step is a line; then, while it goes on, how many files it is at.
step() {
	progress_end
	STEP="$1/$STEPS $2"
	say "importing: $STEP"
	progress 10 how_far "${3:-}"
}

how_far() {
	local n

	n=$(wc -l <"$TMP.files")
	echo "importing: $STEP${1:+: $n${FILES:+ of $FILES} $1}"
}

# A tree that is neither a tarball nor a git repository may have been built in:
# leave out what .gitignore names, except the files that a kernel release has.
add_base() {
	local tracked='(^|/)\.(gitignore|gitattributes|kunitconfig|clang-format|mailmap)$'
	local add=(-c core.looseCompression=1 -c core.fsync=none add -v)

	if [ -z "$KERNEL_SRC" ] || src_is_git; then
		tgit "${add[@]}" -A -f
		return
	fi
	tgit "${add[@]}" -A
	tgit ls-files -z -o -i --exclude-standard |
		{ grep -zE "$tracked|^tools/testing/selftests/arm64/tags/" || :; } >"$TMP/.git/hidden"
	[ ! -s "$TMP/.git/hidden" ] ||
		tgit "${add[@]}" -f --pathspec-from-file="$TMP/.git/hidden" --pathspec-file-nul
}

import_base() {
	local want=$1 name=${KERNEL_SRC:-$TARBALL}

	if [ -n "$KERNEL_SRC" ] && src_is_git &&
	   [ -n "$(src_git status --porcelain -uno)" ]; then
		warn "$KERNEL_SRC has uncommitted changes, which stay out: its HEAD is taken"
	fi
	# 1.5 GB of sources, 0.5 GB of git objects
	need_space "$OUT" "${NEED_GB:-3}" "the kernel source"
	say "importing $name"
	TMP=$OUT/linux.tmp
	rm -rf "$TMP"
	mkdir -p "$TMP"
	: >"$TMP.files"
	step 1 unpacking files
	copy_base "$TMP" >"$TMP.files" || die "cannot unpack $name into $(rel "$TMP")"
	check_base "$TMP" "$name"
	commit_base "$want"
	progress_end
	# the second work tree belongs to the first
	rm -rf "$TREE" "$OUT/side"
	mv "$TMP" "$TREE"
	rm -f "$TMP.files"
	TMP='' FILES=''
}

commit_base() {
	local TREE=$TMP
	local -x GIT_AUTHOR_NAME=base GIT_AUTHOR_EMAIL=base@localhost
	local -x GIT_COMMITTER_NAME=base GIT_COMMITTER_EMAIL=base@localhost
	local -x GIT_AUTHOR_DATE='@0 +0000' GIT_COMMITTER_DATE='@0 +0000'

	tgit init -q -b sheaves
	tgit config gc.auto 0
	tgit config core.autocrlf false
	set_identity
	# Debian's top .gitignore hides everything but debian/.
	sed -i -e '\,^/\*$,d' -e '\,^!/debian/$,d' "$TREE/.gitignore"
	FILES=$(grep -vc '/$' "$TMP.files")
	: >"$TMP.files"
	step 2 "storing them in git" files
	add_base >"$TMP.files"
	step 3 committing
	tgit commit -q -m "Linux $(kernel_version "$TREE")"
	tgit clean -qxfd
	tgit tag base
	tgit update-ref refs/sheaves/laid HEAD
	echo "$1" >"$TREE/.git/base-fingerprint"
}

# Commits made in the tree by hand carry the name that the repository uses.
set_identity() {
	local k v

	for k in user.name user.email; do
		if v=$(git -C "$ROOT" config "$k"); then
			tgit config "$k" "$v"
		fi
	done
}

# --- the series ----------------------------------------------------------

# Every file at a kernel path is introduced by exactly one commit.
check_series() {
	local listed present ignored dup missing extra

	[ -f "$PATCHES/series" ] || die "patches/series is missing"
	listed=$(series | awk '{ for (i = 2; i <= NF; i++) print $i }' | sort)
	present=$(cd "$SERIES_ROOT" && for d in *; do
		case $d in
		scripts | build | patches) ;;
		Kconfig.sheaves) echo "$d" ;;
		*) if [ -d "$d" ] && tgit cat-file -e "base:$(to_tree "$d/")" 2>/dev/null; then
			find "$d" -type f ! -name '*~' ! -name '.*.sw?' ! -name '*.pyc'
		fi ;;
		esac
	done | sort)
	# what was built there is no part of the series
	if [ -e "$SERIES_ROOT/.git" ]; then
		ignored=$(git -C "$SERIES_ROOT" check-ignore --stdin <<<"$present" || :)
		present=$(comm -23 <(echo "$present") <(sort <<<"$ignored"))
	fi
	dup=$(uniq -d <<<"$listed" | head -n 1)
	[ -z "$dup" ] || die "patches/series lists $dup twice"
	missing=$(comm -13 <(echo "$listed") <(echo "$present") | head -n 1)
	[ -z "$missing" ] || die "$missing is in no line of patches/series"
	extra=$(comm -23 <(echo "$listed") <(echo "$present") | head -n 1)
	[ -z "$extra" ] || die "patches/series lists $extra, which does not exist"
	dup=$(series | awk '{ print $1 }' | sort | uniq -d | head -n 1)
	[ -z "$dup" ] || die "patches/series lists $dup twice"
}

# An edit of a new file, where a later patch changes it, too.
CANNOT_TAKE_BACK="cannot be taken back from the new files, edit them in $(rel "$TREE") and run \`make refresh'; it does not fit"

# Name patch, file and hunk from git apply's complaint.
explain_failure() {
	local patch=$1 err=$2 what=${3:-does not apply to} file line

	IFS=: read -r file line < <(sed -n 's/^error: patch failed: //p' "$err") || :
	if [ -z "$file" ]; then
		die "patches/$patch ${what% to}: $(sed -n 's/^error: //p' "$err" | head -n 1)"
	fi
	awk -v f="$file" -v l="$line" '
		/^diff --git / { infile = ($0 ~ " b/" f "$"); n = 0; next }
		infile && /^@@ / {
			n++
			split($2, a, ","); split($3, b, ",")
			if (-a[1] == l || b[1] + 0 == l) { print n ": " $0; exit }
		}' "$PATCHES/$patch" >"$err.hunk"
	die "patches/$patch $what $file, hunk $(cat "$err.hunk")"
}

# The new files are stored as the last commit leaves them. In FIRST, what they are when a
# commit introduces them, as update-index wants it: what later patches change in them is
# taken back, from the last patch on.
declare -A FIRST
first_versions() {
	local -x GIT_INDEX_FILE=$1/first
	local lines line patch file files entry changed paths

	tgit read-tree --empty
	series | cut -s -d' ' -f2- | tr ' ' '\n' | new_blobs | tgit update-index --index-info
	mapfile -t lines < <(series | tac)
	for line in "${lines[@]}"; do
		read -r patch files <<<"$line"
		mapfile -t changed < <(grep -oP '^diff --git a/.* b/\K.*' "$PATCHES/$patch" 2>/dev/null |
			grep -Fxf <(tgit ls-files))
		[ ${#changed[@]} -eq 0 ] ||
			tgit apply --cached -R --whitespace=nowarn "${changed[@]/#/--include=}" \
				"$PATCHES/$patch" 2>"$1/err" ||
			explain_failure "$patch" "$1/err" "$CANNOT_TAKE_BACK"
		[ -n "$files" ] || continue
		mapfile -t paths < <(for file in $files; do to_tree "$file"; done)
		while IFS= read -r entry; do
			FIRST[${entry#*$'\t'}]=$entry
		done < <(tgit ls-files -s -- "${paths[@]}")
	done
}

# Store the files whose names are read, and print them as update-index wants it.
new_blobs() {
	local files file mode blob

	mapfile -t files
	[ ${#files[@]} -gt 0 ] || return 0
	while IFS= read -r -u 9 blob; do
		file=${files[0]}
		files=("${files[@]:1}")
		mode=100644
		[ ! -x "$SERIES_ROOT/$file" ] || mode=100755
		printf '%s %s\t%s\n' $mode "$blob" "$(to_tree "$file")"
	done 9< <(printf '%s\n' "${files[@]/#/$SERIES_ROOT/}" | tgit hash-object -w --no-filters --stdin-paths)
}

introduce() {
	local path

	path=$(to_tree "$1")
	[ -z "$(tgit ls-files -- "$path")" ] ||
		die "$1 exists in the base: change it with a patch, not as a new file ($2)"
	tgit update-index --index-info <<<"${FIRST[$path]}"
}

# Make the commits, print the last one.
make_commits() {
	local tmp=$1 patch files f head tree msg

	first_versions "$tmp"
	export GIT_INDEX_FILE=$tmp/index
	head=$(tgit rev-parse 'base^{commit}')
	tgit read-tree "$head"
	while read -r patch files; do
		[ -f "$PATCHES/$patch" ] || die "patches/$patch is missing, patches/series lists it"
		git mailinfo -b --no-scissors --encoding=UTF-8 "$tmp/msg" "$tmp/diff" \
			<"$PATCHES/$patch" >"$tmp/info" 2>"$tmp/err" ||
			die "patches/$patch is not a mail: $(head -n 1 "$tmp/err")"
		if grep -q '^diff --git' "$tmp/diff"; then
			tgit apply --cached --whitespace=nowarn "$tmp/diff" 2>"$tmp/err" ||
				explain_failure "$patch" "$tmp/err"
		fi
		for f in $files; do
			introduce "$f" "$patch"
		done
		tree=$(tgit write-tree)
		[ "$tree" != "$(tgit rev-parse "$head^{tree}")" ] ||
			die "patches/$patch changes nothing"
		info() { sed -n "s/^$1: //p" "$tmp/info"; }
		for f in Author Email Subject Date; do
			[ -n "$(info "$f")" ] || die "patches/$patch has no $f line in its header"
		done
		msg=$(info Subject)
		[ ! -s "$tmp/msg" ] || msg+=$'\n\n'$(cat "$tmp/msg")
		head=$(
			GIT_AUTHOR_NAME=$(info Author) GIT_AUTHOR_EMAIL=$(info Email)
			GIT_AUTHOR_DATE=$(info Date)
			GIT_COMMITTER_NAME=$GIT_AUTHOR_NAME
			GIT_COMMITTER_EMAIL=$GIT_AUTHOR_EMAIL
			GIT_COMMITTER_DATE=$GIT_AUTHOR_DATE
			export GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE
			export GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE
			tgit commit-tree "$tree" -p "$head" <<<"$msg"
		)
	done < <(series)
	unset GIT_INDEX_FILE
	NEW=$head
}

# -------------------------------------------------------------------------

[[ "${1:-}" =~ ^(|--hash|--keep)$ ]] || die "tree.sh: what is \`$1'? There are --hash and --keep"
[ -z "$KERNEL_SRC" ] || check_base "$KERNEL_SRC" "$KERNEL_SRC"
args_end_here
need_tool git tar xz flock
if [ -z "$KERNEL_SRC" ]; then
	[ -r "$TARBALL" ] || die "$TARBALL is missing, run: make deps"
fi
[ -n "${SHEAVES_LOCKED:-}" ] || lock tree

base=$(fingerprint)
lost=
if [ ! -d "$TREE/.git" ]; then
	import_base "$base"
elif [ "${1:-}" != --hash ]; then
	lost=$(tree_unsaved)
	if [ -n "$lost" ] && [ "${1:-}" = --keep ]; then
		say "taking $(rel "$TREE") as it is: it has $lost"
		exit
	fi
	if [ -n "$lost" ] && [ -z "${FORCE:-}" ]; then
		die "$(rel "$TREE") has $lost; keep them with \`make refresh\` or drop them with FORCE=1"
	fi
	[ "$base" = "$(cat "$TREE/.git/base-fingerprint")" ] || import_base "$base"
fi
check_series
TMP=$(mktemp -d "$OUT/lay.XXXXXX")
make_commits "$TMP"
if [ "${1:-}" = --hash ]; then
	echo "$NEW"
	exit
fi

trap '' INT TERM
if [ -n "$lost" ]; then
	rm -rf "$TREE/.git/rebase-merge" "$TREE/.git/rebase-apply"
	tgit clean -qfd
fi
tgit symbolic-ref HEAD refs/heads/sheaves
if [ -n "$lost" ] || [ "$(tgit rev-parse HEAD)" != "$NEW" ]; then
	tgit reset -q --hard "$NEW"
fi
tgit update-ref refs/sheaves/laid "$NEW"
say "$(rel "$TREE"): $(tgit log -1 --format=%s base), $(tgit rev-list --count "base..$NEW") commits on it"
