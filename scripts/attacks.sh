#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What a heap bug gets: do each attack of tools/testing/selftests/slab/test_modules/
# test_slab_attack.c to plain 6.12 and to the series, in a guest of its own each, on one
# CPU, and tell what came of it in a table, build/attacks.md.
#
#   attacks.sh [ATTACK...]      these only
#
#   PEER=VERSION   a third kernel, such as 7.2
#   APPEND=        adds to the kernel command line
#
# Needs what `make bench' needs. Takes some two minutes for each kernel, once these are
# built. Fails if an attack came to no end that can be told, never for what came of it.

. "$(dirname "$0")/lib.sh"

CONFIG=bench
MODULE=test_slab_attack
SOURCE=$ROOT/tools/testing/selftests/slab/test_modules
PEER=${PEER:-}
TABLE=$OUT/attacks.md
FAILED=0
STEP=0
declare -A FOUND NAME=([base]="plain 6.12" [ours]="the series" [peer]="${PEER:-}")
KERNELS=(base ours)
[ -z "$PEER" ] || KERNELS+=(peer)

lay() {
	case $1 in
	base) "$SCRIPTS/bench/lay.sh" base base ;;
	ours) "$SCRIPTS/bench/lay.sh" ours refs/sheaves/laid ;;
	peer) "$SCRIPTS/peer.sh" "$PEER" && "$SCRIPTS/bench/lay.sh" peer ;;
	esac
}

# The module alone, built for that kernel where nothing else is.
build() {
	local dir=$OUT/bench/$1 args=()

	[ "$1" != peer ] || args=(-u)
	"$SCRIPTS/kernel.sh" -d "$dir" "${args[@]}" $CONFIG
	rm -rf "$dir/attack"
	mkdir -p "$dir/attack"
	cp "$SOURCE/$MODULE.c" "$dir/attack/"
	# shellcheck disable=SC2016 # make expands it
	printf 'obj-m += %s.o\nccflags-y := -I$(srctree)/mm\n' $MODULE >"$dir/attack/Makefile"
	run_logged "$LOGS/attack-$1.log" make -C "$dir/obj/$CONFIG" KBUILD_EXTMOD="$dir/attack" modules ||
		die "$MODULE does not build for ${NAME[$1]}, see $(rel "$LOGS/attack-$1.log")"
}

# attack KERNEL ATTACK: its log is kept.
attack() {
	local log=attack-$1-$2

	CPUS=1 TOPOLOGY='' "$SCRIPTS/guest.sh" -n "$log" -t 120 -d "$OUT/bench/$1" $CONFIG \
		"/sbin/insmod $OUT/bench/$1/attack/$MODULE.ko &&
		 echo $2 >/sys/module/$MODULE/parameters/attack" >/dev/null 2>&1 </dev/null || :
	verdict "$LOGS/$log.log" "$2"
}

# verdict LOG ATTACK: from where the attack began to where it has ended, if it has: what a
# kernel says about it by itself, whether it died of that, and what the module found.
verdict() {
	local said end

	said=$(sed -n "/$MODULE: $2: begins/,/$MODULE: $2: [^b]/p" "$1")
	end=$(sed -nE "s/.*$MODULE: $2: ([^b].*)/\1/p" <<<"$said")
	if [ -n "$end" ] && grep -qE 'WARNING:|left alone|SLUB .*:' <<<"$said"; then
		echo "reported; $end"
	elif [ -n "$end" ]; then
		echo "$end"
	elif grep -qE 'kernel BUG at' <<<"$said"; then
		echo "stopped by a BUG"
	elif grep -qE 'Oops|general protection|unable to handle' <<<"$said"; then
		echo "crashes, at random"
	else
		echo "?"
	fi
}

attacks_of_source() { sed -nE 's/^\t\{ "([a-z0-9_]+)", [a-z0-9_]+ \},$/\1/p' "$SOURCE/$MODULE.c"; }

write_table() {
	local a k

	printf '| attack |'
	for k in "${KERNELS[@]}"; do
		printf ' %s |' "${NAME[$k]}"
	done
	printf '\n|---|'
	printf -- '---|%.0s' "${KERNELS[@]}"
	echo
	for a in "${ATTACKS[@]}"; do
		printf '| %s |' "$a"
		for k in "${KERNELS[@]}"; do
			printf ' %s |' "${FOUND[$k $a]}"
		done
		echo
	done
}

mapfile -t ALL < <(attacks_of_source)
ATTACKS=("$@")
[ $# -gt 0 ] || ATTACKS=("${ALL[@]}")
for a in "${ATTACKS[@]}"; do
	[[ " ${ALL[*]} " == *" $a "* ]] || die "there is no attack \`$a', choose among: ${ALL[*]}"
done
STEPS=$((${#KERNELS[@]} * (1 + ${#ATTACKS[@]})))
for k in "${KERNELS[@]}"; do
	say "$((++STEP))/$STEPS building for ${NAME[$k]}"
	lay "$k"
	build "$k"
	for a in "${ATTACKS[@]}"; do
		FOUND[$k $a]=$(attack "$k" "$a")
		[ "${FOUND[$k $a]}" != "?" ] || FAILED=$((FAILED + 1))
		say "$((++STEP))/$STEPS ${NAME[$k]}, $a: ${FOUND[$k $a]}"
	done
done
write_table >"$TABLE.new"
mv "$TABLE.new" "$TABLE"
cat "$TABLE"
[ $FAILED -eq 0 ] || die "$FAILED attacks came to no end that can be told, see $(rel "$LOGS")/attack-*.log"
say "table $(rel "$TABLE"), logs $(rel "$LOGS")/attack-*.log"
