#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# bench-native.sh [--json]: measure the series against its base, and with PEER=7.2
# against mainline's sheaves, in real time: the allocators' own object files, linked
# into ordinary programs (tools/testing/slab-native), which run by turns.
#
#   PEER=VERSION   a third kernel
#   HARDENED=1     one more: the series with SLAB_SHEAF_HARDENED
#   SMALL=1        all of them without SLUB_STATS and SLAB_FREELIST_HARDENED
#   OURS=COMMIT    of build/linux, instead of the whole series
#   ROUNDS=N       launches of each program (14)
#   BENCH=A,B      only these groups: one_thread bulk fresh kmalloc pairs
#   KEEP=1         take the programs as they are
#   COUNT=1        count what they execute instead, by case: instructions, locked ones,
#                  double cmpxchg, locks taken, lines of the cache; counts.json.
#                  Needs valgrind; takes a minute for each kernel
#   CASE=TEXT      with COUNT=1, only cases with that in their names
#
# Needs the laid tree (make tree). Prints tables, or JSON; the same figures go to
# build/bench/native/results.json (native-small with SMALL=1). Fails when a benchmark does,
# never for being slow.

. "$(dirname "$0")/lib.sh"

ROUNDS=${ROUNDS:-14}
PEER=${PEER:-}
HARDENED=${HARDENED:-}
SMALL=${SMALL:-}
BENCH=${BENCH:-}
OURS=${OURS:-refs/sheaves/laid}
HERE=$SCRIPTS/bench
DIR=$OUT/bench/native${SMALL:+-small}
ARGS=()

case ${1:-} in
'') ;;
--json) ARGS=(--json) ;;
*) die "usage: bench-native.sh [--json]" ;;
esac
[[ "$ROUNDS" =~ ^[1-9][0-9]{0,2}$ ]] || die "ROUNDS=$ROUNDS is not a number from 1 to 999"
[ -z "$PEER" ] || check_peer "$PEER"
[[ "$HARDENED" =~ ^1?$ ]] || die "HARDENED=$HARDENED is not 1"
[[ "$SMALL" =~ ^1?$ ]] || die "SMALL=$SMALL is not 1"
[ -z "$SMALL" ] || [ -z "$HARDENED" ] || die "SMALL=1 goes without HARDENED=1"
COUNT=${COUNT:-} CASE=${CASE:-}
[[ "$COUNT" =~ ^1?$ ]] || die "COUNT=$COUNT is not 1"
[ -z "$COUNT" ] || [ ${#ARGS[@]} -eq 0 ] || die "COUNT=1 goes without --json"
[ -n "$COUNT" ] || [ -z "$CASE" ] || die "CASE=$CASE goes with COUNT=1"
[ ! -e "$TREE/.git" ] || is_commit "$OURS" || die "OURS=$OURS is no commit of $(rel "$TREE")"
# native.py knows them, but what may be installed only later is Python
known=$(sed -nE 's/^(ONE_THREAD|TWO_THREADS) = \[(.*)\]$/\2/p' "$HERE/native.py" | tr -d '",')
for group in ${BENCH//,/ }; do
	[[ " ${known//$'\n'/ } " == *" $group "* ]] ||
		die "BENCH: no group \`$group', choose among ${known//$'\n'/ }"
done
args_end_here
[ -e "$TREE/.git" ] || die "there is no $(rel "$TREE"), run: make tree"
need_tool python3 make gcc objcopy readelf
[ -z "$COUNT" ] || need_tool valgrind objdump
[ "$(uname -m)" = x86_64 ] || die "the objects of an x86-64 kernel run on such a machine only"
KERNELS=(base ours)
[ -z "$PEER" ] || KERNELS+=(peer)
[ -z "$HARDENED" ] || KERNELS+=(hardened)

# Progress is not part of the JSON.
exec 3>&1
[ ${#ARGS[@]} -eq 0 ] || exec 3>&2

build() {
	local kernel=$1 dir config=native${SMALL:+-small} args=()

	dir=$OUT/bench/$(built_as "$kernel")
	[ "$kernel" != peer ] || args=(-u)
	[ "$kernel" != hardened ] || config=native-hardened
	say "building $kernel, $(measured_version "$(built_as "$kernel")")" >&3
	"$SCRIPTS/kernel.sh" -d "$dir" "${args[@]}" -p "$config" >/dev/null
	"$SCRIPTS/native.sh" "$dir/linux" "$dir/obj/$config" "$DIR/$kernel"
}

lock bench
mkdir -p "$DIR"
for kernel in "${KERNELS[@]}"; do
	if [ -z "${KEEP:-}" ] || [ ! -x "$DIR/$kernel" ]; then
		[ "$kernel" = hardened ] || lay_kernel "$kernel" >&3
		build "$kernel"
	fi
	ARGS+=("$kernel=$(measured_version "$(built_as "$kernel")")=$DIR/$kernel")
done
if [ -n "$COUNT" ]; then
	say "counting, ${#KERNELS[@]} programs" >&3
	python3 -B "$HERE/count.py" ${BENCH:+--groups "$BENCH"} ${CASE:+--case "$CASE"} \
		--out "$DIR/counts.json" "${ARGS[@]}" || die "no figures"
	exit
fi
say "$ROUNDS launches of each program, by turns" >&3
python3 -B "$HERE/native.py" --launches "$ROUNDS" ${BENCH:+--groups "$BENCH"} \
	--out "$DIR/results.json" "${ARGS[@]}" || die "no figures"
