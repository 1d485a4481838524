#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Build, boot (4 CPUs) and KUnit-test every commit of the laid series, in a second
# work tree; a warning that the base has not, fails the commit. Starts with the
# base. Needs what the kernel and the guest need; prints a line per commit and
# ends with `N passed, N failed'.
#
#   bisect.sh [COMMIT...]   only these, besides the base
#   bisect.sh -p N/M        the Nth of M parts of them all
#   bisect.sh -l ...        only say which

. "$(dirname "$0")/lib.sh"

# What the series is after the next `make tree', if that is not what is laid.
laid_anew() { ARGS_ONLY='' "$SCRIPTS/tree.sh" --hash 2>/dev/null || echo refs/sheaves/laid; }

# not_of_series TOP COMMIT...: name the first that is none of it.
not_of_series() {
	local top=$1 c list

	shift
	list=$(tgit rev-list "base..$top")
	for c; do
		[[ $'\n'$list$'\n' == *$'\n'"$(tgit rev-parse -q --verify "$c^{commit}" || echo none)"$'\n'* ]] || {
			echo "$c"
			return
		}
	done
}

PART='' LIST=''
while getopts lp: opt; do
	case $opt in
	l) LIST=1 ;;
	p) PART=$OPTARG ;;
	*) die "usage: bisect.sh [-l] [-p N/M | COMMIT...]" ;;
	esac
done
shift $((OPTIND - 1))
[ -z "$PART" ] || [ $# -eq 0 ] || die "bisect.sh: -p takes no commits"
{ [[ "${PART:=1/1}" =~ ^[1-9][0-9]?/[1-9][0-9]?$ ]] && [ "${PART%/*}" -le "${PART#*/}" ]; } ||
	die "bisect.sh: \`$PART' is no part, such as 1/4"
for c; do
	[[ "$c" =~ ^[[:alnum:]_@{}~^./-]+$ && "$c" != -* ]] || die "COMMITS: \`$c' does not name a commit"
done
if [ -d "$TREE/.git" ]; then
	c=$(not_of_series refs/sheaves/laid "$@")
	[ -z "$c" ] || [ -z "${ARGS_ONLY:-}" ] || c=$(not_of_series "$(laid_anew)" "$@")
	[ -z "$c" ] || die "$c is no commit of the series, see: git -C $(rel "$TREE") log base.."
fi
args_end_here
[ -d "$TREE/.git" ] || die "there is no $(rel "$TREE"), run: make tree"
log=$OUT/side/logs/kernel-guest.log
base_log=$OUT/side/logs/base.log
passed=0 failed=0 n=0

mapfile -t commits < <(tgit rev-list --reverse base..refs/sheaves/laid)
first=$((${#commits[@]} * (${PART%/*} - 1) / ${PART#*/}))
commits=("${commits[@]:first:${#commits[@]} * ${PART%/*} / ${PART#*/} - first}")
[ $# -eq 0 ] || mapfile -t commits < <(tgit rev-list --no-walk=unsorted "$@")
if [ -n "$LIST" ]; then
	[ ${#commits[@]} -eq 0 ] || printf '%s\n' "${commits[@]}"
	exit
fi

# The steps of one commit; the first that fails says why.
try() {
	local new

	side_tree "$1" || return 1
	SIDE=1 "$SCRIPTS/kernel.sh" guest || return 1
	if [ "$1" != base ]; then
		new=$(new_warnings "$log" "$base_log")
		[ -z "$new" ] || {
			printf 'error: new warnings:\n%s\n' "$new" >&2
			return 1
		}
	fi
	SIDE=1 TOPOLOGY=4cpu "$SCRIPTS/boot.sh" -n "bisect-$n" guest
}

# The base's warnings come from a build of all its files.
rm -rf "$OUT/side/obj/guest"
for c in base "${commits[@]}"; do
	say "$n/${#commits[@]} $(tgit log -1 --format='%h %s' "$c")"
	if try "$c"; then
		passed=$((passed + 1))
		[ "$c" != base ] || cp "$log" "$base_log"
	else
		failed=$((failed + 1))
		say "FAILED $(tgit log -1 --format='%h %s' "$c")"
		[ "$c" != base ] || die "the base itself fails"
	fi
	n=$((n + 1))
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
