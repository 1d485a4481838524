#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Write the laid series as mails with a cover letter, build/series/0*, once
# git am has taken them on the plain base. AM_TO=DIR names one more 6.12.y git
# repository, on whose HEAD they are tried too; DIR itself is not touched. The
# cover letter is patches/cover-letter.txt, its first line the subject. Beside them goes
# INSTALL, scripts/series/INSTALL: for who builds, installs and uninstalls the kernel. Needs
# git; prints what was written.

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

# apply_in REPOSITORY NAME: git am there, in a work tree without files.
apply_in() {
	local TREE=$1

	tgit sparse-checkout set --no-cone /nothing
	tgit reset -q --hard
	if ! tgit am -q "$TMP"/series/*.patch >"$TMP/am.log" 2>&1; then
		die "git am does not take the series on $2: $(grep -m 1 -iE "^(error|fatal|patch )" "$TMP/am.log")"
	fi
}

[ -z "${AM_TO:-}" ] || git -c safe.directory='*' -C "$AM_TO" rev-parse -q --verify HEAD >/dev/null 2>&1 ||
	die "AM_TO=$AM_TO is not a git repository"
args_end_here
[ -d "$TREE/.git" ] || die "there is no $(rel "$TREE"), run: make tree"
cover=$PATCHES/cover-letter.txt
[ -s "$SCRIPTS/series/INSTALL" ] || die "scripts/series/INSTALL is missing"
[ -s "$cover" ] || die "patches/cover-letter.txt is missing: the subject, an empty line, the text"
[ "$(tgit rev-list --count base..refs/sheaves/laid)" -gt 0 ] || die "the series has no commits"
TMP=$(mktemp -d "$OUT/series.XXXXXX")

# The cover letter, and the mails' identifiers, are by whom git knows here, else by the
# author of the series.
tgit var GIT_COMMITTER_IDENT >/dev/null 2>&1 || {
	GIT_COMMITTER_NAME=$(tgit log -1 --format=%an base..sheaves)
	GIT_COMMITTER_EMAIL=$(tgit log -1 --format=%ae base..sheaves)
	export GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL
}
tgit -c branch.sheaves.description="$(cat "$cover")" format-patch -q -o "$TMP/series" \
	--cover-letter --cover-from-description=subject --thread=shallow \
	--subject-prefix='PATCH 6.12' base..sheaves
# git am stops at a mail without a patch: *.patch are those that have one
mv "$TMP/series/0000-cover-letter.patch" "$TMP/series/0000-cover-letter.txt"
export GIT_COMMITTER_NAME=am GIT_COMMITTER_EMAIL=am@localhost

tgit worktree add -q --detach --no-checkout "$TMP/base" base
apply_in "$TMP/base" "$(tgit log -1 --format=%s base)"
[ "$(git -C "$TMP/base" rev-parse 'HEAD^{tree}')" = "$(tgit rev-parse 'sheaves^{tree}')" ] ||
	die "git am of the series gives another tree than $(rel "$TREE")"
if [ -n "${AM_TO:-}" ]; then
	git -c safe.directory='*' clone -q --shared --no-checkout "$AM_TO" "$TMP/other" ||
		die "AM_TO=$AM_TO is not a git repository"
	apply_in "$TMP/other" "$AM_TO"
fi

# whose first two lines are for those who edit it
sed '1,2d' "$SCRIPTS/series/INSTALL" >"$TMP/series/INSTALL"

rm -rf "$OUT/series"
mv "$TMP/series" "$OUT/series"
say "$(rel "$OUT/series"): $(find "$OUT/series" -name '*.patch' | wc -l) patches, a cover letter and INSTALL;" \
	"git am takes them on $(tgit log -1 --format=%s base)${AM_TO:+ and on $AM_TO}"
