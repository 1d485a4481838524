#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Bring work done in build/linux back into the repository:
#
#   commits            on top of the series become patches;
#   fixup! commits     are squashed into the commits that they name;
#   uncommitted edits  go into the last commit of the series that touches the file;
#   new files          are stored as the last commit leaves them, on the line of the commit
#                      that introduces them; what later ones change is in their patches.
#
# Then patches/, patches/series and the new files are written again and
# build/linux is what `make tree` gives. Nothing is written before all of that is
# known to work. With nothing to bring back no byte changes. Needs git; prints
# what it folds and which files of the repository changed.

. "$(dirname "$0")/lib.sh"
no_arguments "$@"

TMP=

cleanup() {
	[ -n "$TMP" ] || return 0
	rm -rf "$TMP"
	TREE=$OUT/linux tgit worktree prune
}
trap cleanup EXIT
trap 'exit 130' INT TERM

export GIT_COMMITTER_NAME=refresh GIT_COMMITTER_EMAIL=refresh@localhost
export GIT_AUTHOR_NAME=refresh GIT_AUTHOR_EMAIL=refresh@localhost

in_base() { tgit cat-file -e "base:$1" 2>/dev/null; }

subject() { tgit log -1 --format='%h ("%s")' "$1"; }

# --- from the work tree to a linear history ------------------------------

# The commit of the series that an uncommitted edit of FILE belongs to.
owner() {
	tgit log -1 --format=%H --invert-grep --grep='^fixup! ' --grep='^squash! ' \
		--grep='^amend! ' base..HEAD -- "$1"
}

# Commit uncommitted edits as fixups, outside the work tree: sets TOP.
commit_edits() {
	local entry state file commit files=() target='' index=$TMP/index
	declare -A by_owner=()

	TOP=$(tgit rev-parse HEAD)
	while IFS= read -r -d '' entry; do
		state=${entry:0:2} file=${entry:3}
		case $state in
		'??' | A? | ?A)
			die "$file is new in $(rel "$TREE"): git add it and commit it with a message (or delete it)" ;;
		U? | ?U | DD)
			die "$file has a merge conflict in $(rel "$TREE")" ;;
		esac
		commit=$(owner "$file")
		[ -n "$commit" ] ||
			die "no commit of the series touches $file: commit the edit with a message"
		by_owner[$commit]+=$file$'\n'
	done < <(tgit status --porcelain -z --no-renames -uall)

	tgit read-tree --index-output="$index" HEAD
	for target in "${!by_owner[@]}"; do
		mapfile -t files <<<"${by_owner[$target]%$'\n'}"
		GIT_INDEX_FILE=$index tgit update-index --add --remove -- "${files[@]}"
		TOP=$(tgit commit-tree "$(GIT_INDEX_FILE=$index tgit write-tree)" \
			-p "$TOP" -m "fixup! $target")
		say "folding ${files[*]} into $(subject "$target")"
	done
}

fixups() { tgit log --format=%s base.."$1" | sed -nE '/^(fixup|squash|amend)! /p'; }

rebase_fixups() {
	local TREE=$TMP/worktree

	tgit sparse-checkout set --no-cone /nothing
	tgit reset -q --hard
	GIT_SEQUENCE_EDITOR=true GIT_EDITOR=true \
		tgit rebase -q -i --autosquash --empty=drop base >"$TMP/rebase" 2>&1 ||
		die "cannot fold $(subject REBASE_HEAD): conflict in" \
			"$(tgit diff --name-only --diff-filter=U | tr '\n' ' ')-" \
			"do it by hand with \`git rebase -i --autosquash base' in $(rel "$OUT/linux")"
	SQUASHED=$(tgit rev-parse HEAD)
}

# Squash fixup! commits; in a worktree without files, as the real one must not move.
autosquash() {
	[ -n "$(fixups "$TOP")" ] || return 0
	tgit worktree add -q --detach --no-checkout "$TMP/worktree" "$TOP"
	rebase_fixups
	[ "$(tgit rev-parse "$SQUASHED^{tree}")" = "$(tgit rev-parse "$TOP^{tree}")" ] ||
		die "squashing the fixups changes the result, do it by hand with git rebase"
	TOP=$SQUASHED
	[ -z "$(fixups "$TOP")" ] ||
		die "no commit of the series is named by: $(fixups "$TOP" | head -n 1)"
}

# --- from history to files -----------------------------------------------

exportable() {
	case $1 in
	mm/Kconfig.sheaves | scripts/gdb/*) ;;
	scripts/* | patches/* | build/* | .*)
		die "the new file $1 has no place in the repository, whose $(dirname "$1")/ is not the kernel's" ;;
	*/*) ;;
	*) die "the new file $1 is at the top of the tree, where only changes can be exported" ;;
	esac
	[ "$(tgit ls-tree --format='%(objecttype) %(objectmode)' "$TOP" -- "$1" | cut -c1-8)" = "blob 100" ] ||
		die "the new file $1 is not a regular file"
}

export_new_file() {
	local path=$1 dst

	exportable "$path"
	dst=$STAGE/$(to_repo "$path")
	mkdir -p "$(dirname "$dst")"
	tgit cat-file blob "$TOP:$path" >"$dst"
	case $(tgit ls-tree --format='%(objectmode)' "$TOP" -- "$path") in
	100755) chmod 755 "$dst" ;;
	*) chmod 644 "$dst" ;;
	esac
}

# Stage the series as files.
export_series() {
	local commit n=0 path old new name
	declare -A introduced=()

	mkdir -p "$STAGE/patches"
	sed -n '/^#/!q;p' "$PATCHES/series" >"$STAGE/patches/series"
	for commit in $(tgit rev-list --reverse base.."$TOP"); do
		old=() new=()
		while IFS= read -r -d '' path; do
			if in_base "$path" || [ -n "${introduced[$path]:-}" ]; then
				old+=("$path")
			elif tgit cat-file -e "$TOP:$path" 2>/dev/null; then
				introduced[$path]=1
				export_new_file "$path"
				new+=("$(to_repo "$path")")
			fi
		done < <(tgit diff-tree -r --no-commit-id --name-only --no-renames -z "$commit")
		if [ ${#old[@]} -eq 0 ] && [ ${#new[@]} -eq 0 ]; then
			say "dropping $(subject "$commit"), of which nothing is left in the end"
			continue
		fi
		n=$((n + 1))
		name=$(printf '%04d-%s.patch' $n "$(tgit log -1 --format=%f "$commit" |
			tr '[:upper:]' '[:lower:]' | cut -c1-52)")
		{
			tgit log -1 --pretty=email --no-patch "$commit" |
				sed '1s/.*/From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001/'
			echo ---
			[ ${#old[@]} -eq 0 ] || tgit diff-tree --stat=72 -p --no-commit-id --binary \
				--abbrev=12 --no-renames --diff-algorithm=myers "$commit" -- "${old[@]}"
		} >"$STAGE/patches/$name"
		tgit log -1 --format=%B "$commit" >>"$TMP/messages"
		echo "$name${new[*]:+ ${new[*]}}" >>"$STAGE/patches/series"
	done
}

# The staged files must give the same tree and the same messages.
check_export() {
	NEW=$(SERIES_ROOT=$STAGE "$SCRIPTS/tree.sh" --hash)
	[ "$(tgit rev-parse "$NEW^{tree}")" = "$(tgit rev-parse "$TOP^{tree}")" ] ||
		die "the exported series gives another tree than $(rel "$TREE"); nothing was written"
	tgit log --reverse --format=%B base.."$NEW" >"$TMP/relaid"
	cmp -s "$TMP/relaid" "$TMP/messages" ||
		die "a commit message does not survive a mail (a line that starts with --- or diff in it?); nothing was written"
}

# Move the stage into the repository; only what differs is written.
install_stage() {
	local f changed=0

	while IFS= read -r f; do
		if ! cmp -s "$STAGE/$f" "$ROOT/$f" ||
		   [ "$(stat -c %a "$STAGE/$f")" != "$(stat -c %a "$ROOT/$f")" ]; then
			mkdir -p "$(dirname "$ROOT/$f")"
			cp -p "$STAGE/$f" "$ROOT/$f.refresh~"
			mv "$ROOT/$f.refresh~" "$ROOT/$f"
			say "wrote $f"
			changed=$((changed + 1))
		fi
	done < <(cd "$STAGE" && find . -type f -printf '%P\n' | sort)
	for f in $OLD_FILES; do
		[ ! -e "$STAGE/$f" ] || continue
		rm -f "$ROOT/$f"
		say "removed $f"
		changed=$((changed + 1))
	done
	say "$(tgit rev-list --count base.."$NEW") commits, $changed files of the repository changed"
}

# -------------------------------------------------------------------------

need_tool git flock
[ -d "$TREE/.git" ] || die "there is no $(rel "$TREE"), run: make tree"
lock tree
export SHEAVES_LOCKED=1
[ "$(tree_unsaved)" != "$REBASING" ] || die "$(rel "$TREE") has $REBASING, finish it first"
tgit merge-base --is-ancestor base HEAD || die "HEAD of $(rel "$TREE") is not on top of the tag base"
[ -z "$(tgit rev-list --merges base..HEAD)" ] || die "$(rel "$TREE") has merges, a series has none"
laid=$("$SCRIPTS/tree.sh" --hash)
[ "$laid" = "$(tgit rev-parse refs/sheaves/laid)" ] || [ -n "${FORCE:-}" ] ||
	die "patches/ or the new files changed since \`make tree', refresh would undo that;" \
		"lay them first (git stash your edits), or FORCE=1"

TMP=$(mktemp -d "$OUT/refresh.XXXXXX")
STAGE=$TMP/stage
OLD_FILES=$(series | awk '{ for (i = 2; i <= NF; i++) print $i }'
	find "$PATCHES" -name '*.patch' -printf 'patches/%f\n')
: >"$TMP/messages"
commit_edits
autosquash
export_series
check_export

trap '' INT TERM
install_stage
tgit add -u
[ "$(tgit write-tree)" = "$(tgit rev-parse "$NEW^{tree}")" ] ||
	die "$(rel "$TREE") changed while it was refreshed, run \`make refresh' again"
tgit update-ref refs/heads/sheaves "$NEW"
tgit symbolic-ref HEAD refs/heads/sheaves
tgit update-ref refs/sheaves/laid "$NEW"
