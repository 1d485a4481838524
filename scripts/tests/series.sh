#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of make series on a small fake kernel. Needs git; prints TAP.

. "$(dirname "$0")/lib.sh"

series() { "$REPO/scripts/series.sh"; }

fake_repo
refused "series: without a cover letter" 'patches/cover-letter.txt is missing' series

printf 'mm: barns for all\n\nWhy and how.\n' >"$REPO/patches/cover-letter.txt"
mails() {
	local out cover

	series || return 1
	out=${LINUX%/linux}/series
	cover=$(cat "$out/0000-cover-letter.txt")
	[ "$(cd "$out" && echo *.patch)" = '0001-mm-add-the-barn.patch 0002-mm-use-the-barn.patch' ] &&
	[[ "$cover" == *'Subject: [PATCH 6.12 0/2] mm: barns for all'* ]] &&
	[[ "$cover" == *'Why and how.'* ]] && [[ "$cover" != *'HERE ***'* ]] &&
	grep -q '^+int barn;' "$out/0001-mm-add-the-barn.patch" &&
	head -n 1 "$out/INSTALL" | grep -q '^SLUB sheaves' && grep -q '^Back to the old kernel$' "$out/INSTALL" &&
	[ "$(lgit worktree list | wc -l)" -eq 1 ] &&
	[ -z "$(find "${LINUX%/linux}" -maxdepth 1 -name 'series.*')" ]
}
ok "series: mails with new files, a cover letter, and how to install" mails
without_install() {
	local rc=0

	mv "$REPO/scripts/series/INSTALL" "$DIR/"
	series || rc=$?
	mv "$DIR/INSTALL" "$REPO/scripts/series/"
	return $rc
}
refused "series: without INSTALL" 'scripts/series/INSTALL is missing' without_install

# A machine where git knows no name: the cover letter is by the author of the series.
nameless() {
	lgit config --unset user.name && lgit config --unset user.email &&
	lgit config user.useConfigOnly true &&
	env -u GIT_AUTHOR_NAME -u GIT_AUTHOR_EMAIL -u GIT_COMMITTER_NAME -u GIT_COMMITTER_EMAIL \
		"$REPO/scripts/series.sh" &&
	grep -qx 'From: A <a@example.org>' "${LINUX%/linux}/series/0000-cover-letter.txt"
}
ok "series: by a git that knows no name" nameless

by_hand() {
	git clone -q -b base "$LINUX" "$DIR/plain" &&
	git -C "$DIR/plain" config user.name A && git -C "$DIR/plain" config user.email a@example.org &&
	git -C "$DIR/plain" am -q "${LINUX%/linux}"/series/*.patch &&
	[ "$(git -C "$DIR/plain" rev-parse 'HEAD^{tree}')" = "$(lgit rev-parse 'HEAD^{tree}')" ]
}
ok "series: git am makes the same tree of a plain one" by_hand

git -C "$DIR/plain" reset -q --hard HEAD~2
before=$(git -C "$DIR/plain" rev-parse HEAD)
AM_TO=$DIR/plain ok "series: AM_TO= tries another tree" series
untouched() { [ "$before" = "$(git -C "$DIR/plain" rev-parse HEAD)" ] && [ -z "$(git -C "$DIR/plain" status --porcelain)" ]; }
ok "series: and leaves it alone" untouched
sed -i '30s/.*/line 30 is ours/' "$DIR/plain/mm/slub.c"
git -C "$DIR/plain" commit -qam ours
AM_TO=$DIR/plain refused "series: AM_TO= a tree that does not take it" \
	'git am does not take the series on .*/plain: .*patch failed: mm/slub.c' series
