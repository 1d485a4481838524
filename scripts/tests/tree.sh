#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of make tree and make refresh on a small fake kernel. Needs git; prints TAP.

. "$(dirname "$0")/lib.sh"

# --- make tree -----------------------------------------------------------

fake_repo
two_commits() {
	[ "$(lgit log --format=%s base..HEAD)" = $'mm: use the barn\nmm: add the barn' ] &&
	[ "$(lgit log -1 --format=%b HEAD^)" = $'Text of the first.\n\n- a list' ] &&
	[ "$(cat "$LINUX/mm/slab_barn.c")" = 'int barn;' ] &&
	[ "$(cat "$LINUX/mm/Kconfig.sheaves")" = 'config BARN' ] &&
	grep -qx 'line 30 uses it' "$LINUX/mm/slub.c" &&
	[ -z "$(lgit status --porcelain)" ]
}
ok "tree: the series is commits on base" two_commits

rm -rf "$LINUX"
steps() {
	lay >"$DIR/said" && sed -n 's,.*importing: ,,p' "$DIR/said" >"$DIR/steps" && cat "$DIR/said" &&
	[ "$(cat "$DIR/steps")" = $'1/3 unpacking\n2/3 storing them in git\n3/3 committing' ]
}
ok "tree: the steps of the import are shown" steps
# As an import that takes long would: once a tenth of a second, here.
ticks() {
	(
		# shellcheck source=scripts/lib.sh
		. "$REPO/scripts/lib.sh"
		progress 0.1 echo "at 7 of 9"
		sleep 1
		progress_end
		echo ended
		sleep 0.5
	) >"$DIR/ticks"
	cat "$DIR/ticks"
	[ "$(grep -cE '^\[ *[0-9]+:[0-9]{2}\] at 7 of 9$' "$DIR/ticks")" -ge 2 ] &&
	[ "$(tail -n 1 "$DIR/ticks")" = ended ]
}
ok "tree: and how far they are, until they end" ticks

same_again() {
	local before

	before=$(tree_state)
	lay && [ "$before" = "$(tree_state)" ] &&
	rm -rf "$LINUX" && lay && [ "$(lgit rev-parse HEAD)" = "$(head -n 1 <<<"$before")" ]
}
ok "tree: laid again, nothing moves; laid anew, the hashes are the same" same_again

only_what_differs() {
	local before

	before=$(tree_state | grep -v slab_barn)
	echo 'int barn2;' >"$REPO/mm/slab_barn.c"
	lay && grep -q barn2 "$LINUX/mm/slab_barn.c" &&
	[ "$(tail -n +2 <<<"$before")" = "$(tree_state | grep -v slab_barn | tail -n +2)" ]
}
ok "tree: a changed file is written, no other is" only_what_differs

src_untouched() { [ "$(cd "$DIR/src" && find . | sort | wc -l)" -eq 13 ] && ! [ -e "$DIR/src/.git" ]; }
ok "tree: KERNEL_SRC is not written to" src_untouched

fake_repo
echo edit >>"$LINUX/mm/slub.c"
refused "tree: uncommitted edits are not thrown away" 'uncommitted edits \(1 files\).*make refresh' lay
forced() { FORCE=1 lay && [ -z "$(lgit status --porcelain)" ] && ! grep -qx edit "$LINUX/mm/slub.c"; }
ok "tree: FORCE=1 throws them away" forced
echo edit >>"$LINUX/mm/slub.c"
lgit commit -qam 'one more'
refused "tree: commits are not thrown away" 'commits that are not in the repository' lay

# The state must survive a failure to the byte.
fake_repo
before=$(tree_state)
sed -i 's/^-line 30$/-line thirty/' "$REPO/patches/0002-mm-use-the-barn.patch"
echo 'int other;' >"$REPO/mm/slab_barn.c"
refused "tree: a patch that does not apply is named with file and hunk" \
	'patches/0002-mm-use-the-barn.patch does not apply to mm/slub.c, hunk 1: @@ -27,7 \+27,7 @@' lay
unmoved() { [ "$before" = "$(tree_state)" ] && [ -z "$(find "$REPO/build" -name 'lay.*')" ]; }
ok "tree: and it leaves the tree as it was" unmoved

fake_repo
sed -i 's/^0002.*/& mm\/slab_barn.c/' "$REPO/patches/series"
refused "tree: a file in two commits" 'lists mm/slab_barn.c twice' lay
fake_repo
echo x >"$REPO/mm/stray.c"
refused "tree: a file in no commit" 'mm/stray.c is in no line of patches/series' lay
fake_repo
built_there() {
	git -C "$REPO" init -q && echo '*.built' >"$REPO/.gitignore" &&
	echo x >"$REPO/mm/barn.built" && lay && [ ! -e "$LINUX/mm/barn.built" ]
}
ok "tree: what git ignores is not in the way" built_there
fake_repo
rm "$REPO/mm/slab_barn.c"
refused "tree: a listed file that is missing" 'lists mm/slab_barn.c, which does not exist' lay
fake_repo
mkdir -p "$REPO/include/linux" && echo x >"$REPO/include/linux/slab.h"
sed -i 's/^0002.*/& include\/linux\/slab.h/' "$REPO/patches/series"
refused "tree: a new file that the base has" 'include/linux/slab.h exists in the base' lay
fake_repo
echo "no mail" >"$REPO/patches/0002-mm-use-the-barn.patch"
refused "tree: a patch without a header" '0002-mm-use-the-barn.patch' lay

# --- bad kernels ---------------------------------------------------------

fake_repo
fake_kernel "$DIR/v61" 6 1
KERNEL_SRC=$DIR/v61 refused "tree: another version" 'is a 6.1 tree, the series is for 6.12.y' lay
fake_kernel "$DIR/sheafy"
echo 'struct slab_sheaf;' >>"$DIR/sheafy/mm/slub.c"
KERNEL_SRC=$DIR/sheafy refused "tree: a tree with sheaves" 'already has sheaves' lay
mkdir "$DIR/empty"
KERNEL_SRC=$DIR/empty refused "tree: no kernel at all" 'is not a kernel tree' lay
KERNEL_SRC=$DIR/nowhere refused "tree: no directory" 'is not a directory' lay
nothing_left() { [ "$(find "$REPO/build" -mindepth 1 -maxdepth 1 | wc -l)" -eq 1 ]; }
ok "tree: refused trees leave nothing behind" nothing_left
fake_kernel "$DIR/big"
KERNEL_SRC=$DIR/big NEED_GB=1000000 refused "tree: a full disk" 'needs 1000000 GB in .*GB are free' lay

git_kernel() {
	fake_kernel "$DIR/git"
	git -C "$DIR/git" init -q
	git -C "$DIR/git" add -A
	git -C "$DIR/git" commit -qm x
	touch "$DIR/git/mm/slub.o"
	KERNEL_SRC=$DIR/git lay && [ -z "$(git -C "$DIR/git" status --porcelain)" ]
}
ok "tree: KERNEL_SRC may be a git repository" git_kernel

# --- make refresh --------------------------------------------------------

fake_repo
refresh >/dev/null
before=$(snapshot)
quiet() { refresh && [ "$before" = "$(snapshot)" ]; }
ok "refresh: with nothing changed no byte changes" quiet

edits() {
	sed -i '30s/.*/line 30 uses it well/' "$LINUX/mm/slub.c"
	echo 'int full;' >>"$LINUX/mm/slab_barn.c"
	refresh &&
	grep -q '^+line 30 uses it well' "$REPO"/patches/0002-*.patch &&
	grep -qx 'int full;' "$REPO/mm/slab_barn.c" &&
	[ "$(lgit log --format=%s base..HEAD | wc -l)" -eq 2 ] &&
	[ -z "$(lgit status --porcelain)" ]
}
ok "refresh: edits go to the commits that touch the files" edits
laid_is_same() {
	local before

	before=$(tree_state)
	lay && [ "$before" = "$(tree_state)" ] && rm -rf "$LINUX" && lay &&
	[ "$(lgit rev-parse HEAD)" = "$(head -n 1 <<<"$before")" ]
}
ok "refresh: the tree is what make tree gives" laid_is_same

SHEAF=$'int sheaf;\nint a;\nint b;\nint c;\nint d;'
new_commit() {
	echo "$SHEAF" >"$LINUX/mm/slab_sheaf.c"
	sed -i '20s/.*/line 20 has a sheaf/' "$LINUX/mm/slub.c"
	lgit add -A
	lgit commit -qm $'mm: add the sheaf\n\nTräger.' --date='2026-11-21 10:00 +0100'
	refresh &&
	grep -qx '0003-mm-add-the-sheaf.patch mm/slab_sheaf.c' "$REPO/patches/series" &&
	[ "$(cat "$REPO/mm/slab_sheaf.c")" = "$SHEAF" ] &&
	! grep -q slab_sheaf.c "$REPO/patches/0003-mm-add-the-sheaf.patch" &&
	[ "$(lgit log -1 --format=%b)" = Träger. ] &&
	quiet_now
}
quiet_now() {
	local before

	before=$(snapshot)
	refresh && [ "$before" = "$(snapshot)" ]
}
ok "refresh: a commit with a new file becomes a patch and a file" new_commit

fixup() {
	local mtime

	mtime=$(stat -c %Y "$LINUX/mm/Kconfig.sheaves")
	sed -i '5s/.*/line 5 with a big barn/' "$LINUX/mm/slub.c"
	lgit commit -qam 'fixup! mm: add the barn'
	refresh &&
	grep -q '^+line 5 with a big barn' "$REPO"/patches/0001-*.patch &&
	[ "$(lgit log --format=%s base..HEAD | wc -l)" -eq 3 ] &&
	[ "$mtime" = "$(stat -c %Y "$LINUX/mm/Kconfig.sheaves")" ] &&
	[ "$(lgit worktree list | wc -l)" -eq 1 ]
}
ok "refresh: a fixup! commit is squashed" fixup

edit_on_fixup() {
	echo 'int top;' >>"$LINUX/mm/slab_barn.c"
	lgit commit -qam 'fixup! mm: add the barn'
	echo 'int edit;' >>"$LINUX/mm/slab_barn.c"
	refresh >"$DIR/said" &&
	grep -q 'folding mm/slab_barn.c into .*("mm: add the barn")' "$DIR/said" &&
	grep -qx 'int edit;' "$REPO/mm/slab_barn.c" &&
	[ "$(lgit log --format=%s base..HEAD | wc -l)" -eq 3 ] &&
	[ -z "$(lgit status --porcelain)" ]
}
ok "refresh: an edit on top of a fixup! commit finds the commit" edit_on_fixup

later_change() {
	echo 'int sheaf2;' >>"$LINUX/mm/slab_sheaf.c"
	sed -i '10s/.*/line 10 too/' "$LINUX/mm/slub.c"
	lgit commit -qam 'mm: more of the sheaf'
	refresh >"$DIR/said" &&
	grep -qx 'int sheaf2;' "$REPO/mm/slab_sheaf.c" &&
	grep -qx '+int sheaf2;' "$REPO/patches/0004-mm-more-of-the-sheaf.patch" &&
	grep -q '^0004-mm-more-of-the-sheaf.patch$' "$REPO/patches/series" &&
	[ "$(lgit show HEAD^:mm/slab_sheaf.c)" = "$SHEAF" ] &&
	[ -z "$(lgit status --porcelain)" ]
}
ok "refresh: a later change of a new file is in the later patch" later_change

# Here, and not in build/linux: an edit beside what the later patch changes, and of it.
early_edit() {
	sed -i '1i /* a sheaf */' "$REPO/mm/slab_sheaf.c"
	lay && [ "$(lgit show HEAD^:mm/slab_sheaf.c)" = $'/* a sheaf */\n'"$SHEAF" ] &&
	[ "$(lgit show HEAD:mm/slab_sheaf.c)" = $'/* a sheaf */\n'"$SHEAF"$'\nint sheaf2;' ]
}
ok "tree: an edit of a new file goes to the commit that introduces it" early_edit
cp "$REPO/mm/slab_sheaf.c" "$DIR/sheaf"
sed -i 's/int sheaf2;/int sheaf3;/' "$REPO/mm/slab_sheaf.c"
refused "tree: unless a later patch changes the same" \
	'0004-mm-more-of-the-sheaf.patch cannot be taken back .*make refresh.*mm/slab_sheaf.c, hunk 1' lay
cp "$DIR/sheaf" "$REPO/mm/slab_sheaf.c"

removal() {
	lgit rm -q mm/slab_sheaf.c
	lgit commit -qm 'mm: drop the sheaf'
	refresh && [ ! -e "$REPO/mm/slab_sheaf.c" ] &&
	! grep -q slab_sheaf "$REPO/patches/series" && [ -z "$(lgit status --porcelain)" ]
}
ok "refresh: a file that is deleted leaves the repository" removal

reorder() {
	GIT_SEQUENCE_EDITOR='sed -i "1{h;d};2{G}"' lgit rebase -q -i base &&
	refresh &&
	[ "$(cd "$REPO/patches" && echo 0001-*)" = 0001-mm-use-the-barn.patch ] &&
	[ ! -e "$REPO/patches/0001-mm-add-the-barn.patch" ] &&
	[ "$(find "$REPO/patches" -name '*.patch' | wc -l)" -eq "$(lgit rev-list --count base..HEAD)" ]
}
ok "refresh: reordered commits are renumbered, stale patches removed" reorder

gdb_scripts() {
	mkdir -p "$LINUX/scripts/gdb/linux"
	echo 'import gdb' >"$LINUX/scripts/gdb/linux/barns.py"
	lgit add -A
	lgit commit -qm 'scripts/gdb: show barns'
	refresh && [ "$(cat "$REPO/gdb/linux/barns.py")" = 'import gdb' ] &&
	grep -q 'show-barns.patch gdb/linux/barns.py$' "$REPO/patches/series" &&
	lay && [ "$(lgit show HEAD:scripts/gdb/linux/barns.py)" = 'import gdb' ]
}
ok "refresh: what is for scripts/gdb is in gdb" gdb_scripts

fake_repo
before=$(snapshot)
repo_unmoved() { [ "$before" = "$(snapshot)" ] && [ -z "$(find "$REPO/build" -name 'refresh.*')" ]; }
echo x >"$LINUX/mm/new.c"
refused "refresh: a new file without a commit" 'mm/new.c is new.*commit it with a message' refresh
rm "$LINUX/mm/new.c"
echo x >>"$LINUX/mm/Kconfig"
refused "refresh: an edit that belongs to no commit" 'no commit of the series touches mm/Kconfig' refresh
lgit checkout -q mm/Kconfig
sed -i '30s/.*/line 30 conflicts/' "$LINUX/mm/slub.c"
lgit commit -qam 'fixup! mm: add the barn'
refused "refresh: a fixup that conflicts" 'cannot fold .*conflict in mm/slub.c' refresh
lgit reset -q --hard HEAD^
sed -i '30s/.*/line 30 again/' "$LINUX/mm/slub.c"
lgit commit -qam 'fixup! mm: no such thing'
refused "refresh: a fixup of nothing" 'no commit of the series is named by: fixup! mm: no such thing' refresh
lgit reset -q --hard HEAD^
mkdir -p "$LINUX/scripts" && echo x >"$LINUX/scripts/new.sh"
lgit add -A
lgit commit -qm 'scripts: new'
refused "refresh: a new file where the repository has its own" 'scripts/new.sh has no place' refresh
lgit reset -q --hard HEAD^
sed -i '8s/.*/line 8/;9s/.*/nine/' "$LINUX/mm/slub.c"
lgit commit -qam $'mm: a message with a diff\n\n---\nmore'
refused "refresh: a message that a mail would cut" 'does not survive a mail' refresh
lgit reset -q --hard HEAD^
ok "refresh: refusals leave the repository as it was" repo_unmoved
echo 'int mine;' >"$REPO/mm/slab_barn.c"
echo 'int theirs;' >"$LINUX/mm/slab_barn.c"
refused "refresh: does not overwrite what changed in the repository" 'changed since .make tree' refresh
