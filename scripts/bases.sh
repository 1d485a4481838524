#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# bases.sh: whether the laid series fits each 6.12.y that Debian offers today. Looks for
# linux-source-6.12 in the archives of Debian 12, 13 and sid, their security, updates and
# backports, with package lists of its own in build/bases/apt: the suites of this machine stay
# as they are. The newest version, and all from the oldest one on until one takes the series,
# are fetched (they stay in build/dl), and git am is asked. It knows no fuzz; a hunk that is
# found some lines off is counted. What lacks what the series is based on is too old, and said
# to be; whatever else does not take it is an error. On the oldest and the newest that take it,
# the objects of what it changes are built, and warn of nothing that they do not warn of
# without it.
#
# Needs apt-get, dpkg-deb, git, and what a kernel needs to be built. Prints a line for each
# version, and a table, which build/bases.md has, too.

. "$(dirname "$0")/lib.sh"
no_arguments "$@"

PACKAGE=linux-source-6.12
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg
MIRROR=${MIRROR:-http://deb.debian.org/debian}
SUITES=(bookworm bookworm-updates bookworm-backports trixie trixie-updates
	trixie-proposed-updates trixie-backports sid)
# In an archive of their own.
SECURITY_SUITES=(bookworm-security trixie-security)
DIR=$OUT/bases
APT=$DIR/apt
LOG=$LOGS/bases.log
TABLE=$BUILD/bases.md
# Settings of this machine such as a proxy hold, its sources and pins do not.
own_apt() {
	"$1" -q -o Dir::Etc::sourcelist="$APT/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
		-o Dir::Etc::trusted=/dev/null -o Dir::Etc::trustedparts=/dev/null \
		-o Dir::State="$APT/state" -o Dir::Cache="$APT/cache" \
		-o Dir::State::status=/dev/null \
		-o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
		-o APT::Sandbox::User="$(id -un)" "${@:2}"
}

write_sources() {
	local source="deb [signed-by=$KEYRING]"

	{
		printf "$source $MIRROR %s main\n" "${SUITES[@]}"
		printf "$source $MIRROR-security %s main\n" "${SECURITY_SUITES[@]}"
	} | grep -vF "$(printf '%s\n' "${absent[@]}")" >"$APT/sources.list"
}

update() { run_logged "$LOG" own_apt apt-get update --error-on=any 2>/dev/null; }

# Not every mirror has all suites: what is not there is said. Everything else is an error.
fetch_lists() {
	local absent=("no suite at all") suite

	mkdir -p "$APT/state/lists/partial" "$APT/cache/archives/partial" "$BUILD/dl"
	write_sources
	say "fetching package lists of ${SUITES[*]} ${SECURITY_SUITES[*]}"
	update && return
	while read -r suite; do
		warn "$MIRROR has no ${suite##* }"
		absent+=(" ${suite##* } main")
	done < <(sed -nE "s,^E: The repository '([^']*) Release' does not have a Release file.*,\1,p" "$LOG")
	[ ${#absent[@]} -gt 1 ] || die "cannot get the package lists from $MIRROR, see $(rel "$LOG")"
	write_sources
	update || die "cannot get the package lists from $MIRROR, see $(rel "$LOG")"
}

# upstream TAB package TAB suites, from the oldest to the newest; of what upstream is the same,
# the newest package.
versions() {
	own_apt apt-cache madison $PACKAGE |
		sed -nE 's,^ *[^ ]* \| *(([0-9.]+)[^ ]*) \| [^ ]+ ([^/ ]+)/.*,\2\t\1\t\3,p' |
		sort -V | awk -F'\t' -v OFS='\t' '
			$1 != v { if (v != "") print v, p, suites; v = $1; p = ""; suites = "" }
			$2 != p { p = $2; suites = "" }
			{ suites = suites (suites == "" ? "" : ", ") $3 }
			END { if (v != "") print v, p, suites }'
}

# fetch PACKAGE-VERSION: into build/dl, where it is already if this was run before.
fetch() {
	local deb=${PACKAGE}_$1_all.deb

	[ -s "$BUILD/dl/$deb" ] && return
	say "fetching $PACKAGE $1"
	need_space "$BUILD" "${NEED_GB:-1}" "a source package"
	rm -rf "$DIR/dl"
	mkdir -p "$DIR/dl"
	(cd "$DIR/dl" && run_logged "$LOG" own_apt apt-get -y download "$PACKAGE=$1") ||
		die "cannot fetch $PACKAGE $1, see $(rel "$LOG")"
	# apt-get has its own ideas of names: an epoch would be in there, and is none here
	mv "$DIR/dl/$PACKAGE"_*.deb "$BUILD/dl/$deb"
}

# unpack PACKAGE-VERSION DIR [FILE...]: all of it, or those of the files that it has.
unpack() {
	local deb=$BUILD/dl/${PACKAGE}_$1_all.deb to=$2 only=()

	shift 2
	[ $# -eq 0 ] || only=(--wildcards --no-wildcards-match-slash "${@/#/*/}")
	rm -rf "$to"
	mkdir -p "$to"
	# that it has not all of them is what git am finds out
	dpkg-deb --fsys-tarfile "$deb" | tar -xOf - "./usr/src/$PACKAGE.tar.xz" |
		tar -C "$to" --strip-components=1 -xJf - "${only[@]}" 2>"$DIR/tar.log" ||
		[ ${#only[@]} -gt 0 ] || die "cannot unpack $(rel "$deb")"
	[ -e "$to/Makefile" ] || die "$(rel "$deb") has no kernel in it"
}

# The mails, once; and what they change that a base has.
write_mails() {
	rm -rf "$DIR/mails"
	tgit format-patch -q -o "$DIR/mails" base..refs/sheaves/laid
	mapfile -t TOUCHED < <(tgit diff --name-only --no-renames --diff-filter=MD base..refs/sheaves/laid)
	NR_MAILS=$(find "$DIR/mails" -name '*.patch' | wc -l)
	[ "$NR_MAILS" -gt 0 ] || die "the series has no commits"
}

# A repository of what the series touches is enough for git am: the rest is the base's.
make_repository() {
	local TREE=$1

	tgit init -q -b sheaves
	tgit config gc.auto 0
	tgit config user.name base
	tgit config user.email base@localhost
	tgit add -f -A
	tgit commit -q -m base
}

# apply DIR: git am of the whole series there. Sets MOVED to how many hunks are found elsewhere,
# and FURTHEST to by how many lines at most; or WHY, to what does not apply.
apply() {
	local TREE=$1 mail

	MOVED=0 FURTHEST=0 WHY=
	: >"$DIR/apply.log"
	for mail in "$DIR"/mails/*.patch; do
		# as git am does it, but told of: it takes no hunk of which a line is different
		tgit apply --check --index -v "$mail" >>"$DIR/apply.log" 2>&1 || :
		if ! tgit am -q "$mail" >"$DIR/am.log" 2>&1; then
			WHY="$(basename "$mail" .patch): $(grep -m 1 -iE '^(error|fatal)' "$DIR/am.log" |
				sed 's/^error: //')"
			return 1
		fi
	done
	! grep -qi 'fuzz\|reduced to' "$DIR/apply.log" || die "git apply has been lax, see $(rel "$DIR/apply.log")"
	read -r MOVED FURTHEST < <(sed -nE 's/^Hunk .* succeeded at .* \(offset (-?[0-9]+) lines?\)\.$/\1/p' "$DIR/apply.log" |
		tr -d - | awk '{ n++; if ($1 > max) max = $1 } END { print n + 0, max + 0 }')
}

# lacks DIR: what 6.12.y got later and the series is based on, or nothing.
lacks() { ! grep -q 'find_mergeable(' "$1/mm/slab.h" || echo "the rework of kmem_cache_create()"; }

# try VERSION PACKAGE-VERSION SUITES: sets VERDICT; fails if the series does not apply.
try() {
	local src=$DIR/$1/touched lacks

	fetch "$2"
	unpack "$2" "$src" Makefile mm/slab.h "${TOUCHED[@]}"
	make_repository "$src"
	if apply "$src"; then
		VERDICT="git am takes $NR_MAILS patches, $MOVED hunks moved"
		[ "$MOVED" -eq 0 ] || VERDICT+=", by $FURTHEST lines at most"
		say "$1 ($2, $3): $VERDICT"
		return
	fi
	git -C "$src" reset -q --hard "$(git -C "$src" rev-list --max-parents=0 HEAD)"
	lacks=$(lacks "$src")
	[ -n "$lacks" ] || die "$1 ($2, $3) does not take the series: $WHY"
	VERDICT="too old: without $lacks"
	say "$1 ($2, $3): $VERDICT; $WHY"
	return 1
}

# The objects that changed sources become, and all in the directories that have new ones.
targets() {
	echo "mm/ lib/"
	tgit diff --name-only --diff-filter=M base..refs/sheaves/laid -- '*.c' |
		grep -vE '^(mm|lib|tools|scripts|Documentation)/' | sed 's/c$/o/'
}

# compile VERSION LOG: them, in the tree of that version.
compile() {
	local dir=$DIR/$1

	# shellcheck disable=SC2046 # a list of words
	run_logged "$2" make -k -C "$dir/linux" O="$dir/obj/guest" CC="ccache gcc" HOSTCC="ccache gcc" \
		LOCALVERSION= -j"$JOBS" $(targets)
}

# build VERSION PACKAGE-VERSION: sets BUILT.
build() {
	local dir=$DIR/$1 log=$LOGS/bases-$1.log new n

	need_space "$OUT" "${NEED_GB:-3}" "the source of $1"
	say "$1: unpacking"
	unpack "$2" "$dir/linux"
	git -C "$dir/touched" archive HEAD | tar -C "$dir/linux" -xf -
	"$SCRIPTS/kernel.sh" -d "$dir" -p guest >"$log" 2>&1 ||
		die "$1 with the series cannot be configured, see $(rel "$log")"
	say "$1: building what the series changes"
	compile "$1" "$log" || die "$1 with the series does not build, see $(rel "$log")"
	n=$(grep -c '^  CC ' "$log" || :)
	[ "$n" -gt 0 ] || die "$1: nothing was built, see $(rel "$log")"
	new=$(warnings_of "$log")
	if [ -n "$new" ]; then
		say "$1: and without it, for it warns"
		unpack "$2" "$dir/linux"
		"$SCRIPTS/kernel.sh" -u -d "$dir" -p guest >"$log.base" 2>&1 || die "$1 cannot be configured, see $(rel "$log.base")"
		compile "$1" "$log.base" || die "$1 does not build, see $(rel "$log.base")"
		new=$(new_warnings "$log" "$log.base")
	fi
	[ -z "$new" ] || die "$1 with the series warns: $(head -n 1 <<<"$new"), see $(rel "$log")"
	BUILT="$n objects, no new warning"
	say "$1: $BUILT"
	rm -rf "$dir/linux" "$dir/obj"
}

row() { printf '| %s | %s | %s | %s | %s |\n' "$@" >>"$DIR/table"; }

args_end_here
need_tool apt-get apt-cache dpkg-deb git tar xz ccache
[ -d "$TREE/.git" ] || die "there is no $(rel "$TREE"), run: make tree"
[ -r $KEYRING ] || die "$KEYRING is missing, it is in the package debian-archive-keyring"
export CCACHE_DIR=${CCACHE_DIR:-$BUILD/ccache} CCACHE_BASEDIR=${CCACHE_BASEDIR:-$OUT}
lock bases
mkdir -p "$DIR"
fetch_lists
versions >"$DIR/versions"
[ -s "$DIR/versions" ] || die "none of the archives offers $PACKAGE"
say "$(wc -l <"$DIR/versions") versions: $(cut -f1 "$DIR/versions" | paste -sd' ')"
write_mails
: >"$DIR/table"

# All of them are tried before anything is built, which takes longer.
IFS=$'\t' read -r newest package suites < <(tail -n 1 "$DIR/versions")
try "$newest" "$package" "$suites" || die "even the newest one, $newest, is too old"
newest_row=("$newest" "$package" "$suites" "$VERDICT")
oldest_row=()
while IFS=$'\t' read -r version package suites <&7; do
	if [ "$version" = "$newest" ]; then
		break
	fi
	if try "$version" "$package" "$suites"; then
		oldest_row=("$version" "$package" "$suites" "$VERDICT")
		break
	fi
	row "$version" "$package" "$suites" "$VERDICT" ""
done 7<"$DIR/versions"
if [ ${#oldest_row[@]} -gt 0 ]; then
	build "${oldest_row[@]:0:2}"
	row "${oldest_row[@]}" "$BUILT"
fi
build "${newest_row[@]:0:2}"
row "${newest_row[@]}" "$BUILT"

{
	printf '| Linux | package | offered by | the series | what it changes |\n|---|---|---|---|---|\n'
	cat "$DIR/table"
} >"$TABLE"
cat "$TABLE"
