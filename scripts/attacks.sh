#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What a heap bug gets: do each attack of tools/testing/selftests/slab/test_modules/
# test_slab_attack.c to plain 6.12, to the series and to the series with
# SLAB_SHEAF_HARDENED, in a guest of its own each, on one CPU, and tell what came of it in a
# table, build/attacks.md.
#
#   attacks.sh [ATTACK...]      these only
#
#   PEER=VERSION   one more kernel, such as 7.2
#   VIEW=debug     instead, plain 6.12 and the series, with what finds such bugs: slub_debug,
#                  KASAN, KFENCE, KMSAN, debugobjects; the table is build/attacks-debug.md,
#                  and tells them apart where it matters. KMSAN takes half a minute a boot
#   VIEW=check     instead, the guest and hardened kernels of `make check', if they are built:
#                  the table must be as in Documentation/mm/slab-sheaves.rst
#   WITH="slub_debug kfence"   with VIEW=debug, these of what finds bugs only; their names are
#                  in that of the table, too
#   APPEND=        adds to the kernel command line
#
# Needs what `make bench' needs, and clang for KMSAN. Takes some two minutes for each column,
# once the kernels are built. Fails if an attack came to no end that can be told; with
# VIEW=debug if something is found in plain 6.12 and not in the series; with VIEW=check if the
# table is another. Never for what came of an attack.

. "$(dirname "$0")/lib.sh"

MODULE=test_slab_attack
SOURCE=$ROOT/tools/testing/selftests/slab/test_modules
DOCUMENT=$ROOT/Documentation/mm/slab-sheaves.rst
PEER=${PEER:-}
VIEW=${VIEW:-}
WITH=${WITH:-}
TABLE=$OUT/attacks${VIEW:+-$VIEW}.md
FAILED=0
STEP=0
SHOWN=()
declare -A HEAD WHOSE CONFIG_OF BOOT PARAMETERS FOUND

# column NAME HEADING KERNEL CONFIG [APPEND [MODULE PARAMETERS]]
column() {
	SHOWN+=("$1")
	HEAD[$1]=$2 WHOSE[$1]=$3 CONFIG_OF[$1]=$4 BOOT[$1]=${5:-} PARAMETERS[$1]=${6:-}
}

case $VIEW in
'')
	column base "plain 6.12" base bench
	column ours "the series" ours bench
	column hardened "hardened" ours bench-hardened
	[ -z "$PEER" ] || column peer "$PEER" peer bench
	;;
debug)
	for k in base ours; do
		[ $k = base ] && of=6.12 || of=series
		column slub_debug-$k "$of, slub_debug" $k bench slab_debug=FZPU
		column kasan-$k "$of, KASAN" $k bench-kasan
		column kfence-$k "$of, KFENCE" $k bench-kfence kfence.sample_interval=1 guarded=1
		column kmsan-$k "$of, KMSAN" $k bench-kmsan
		column debugobjects-$k "$of, debugobjects" $k bench-kfence kfence.sample_interval=0
	done
	;;
check)
	column ours "the series" '' guest kunit.enable=0
	column hardened "hardened" '' hardened kunit.enable=0
	;;
*) die "VIEW=$VIEW is neither debug nor check" ;;
esac

# What finds bugs, with columns of base and ours.
finders() { printf '%s\n' "${SHOWN[@]}" | sed -n 's/-base$//p'; }

# These of them only.
choose_columns() {
	local all=("${SHOWN[@]}") c

	[ "$VIEW" = debug ] || die "WITH=$WITH is for VIEW=debug"
	check_names WITH "$WITH" "$(finders | paste -sd' ')"
	TABLE=$OUT/attacks-$VIEW-${WITH// /-}.md
	SHOWN=()
	for c in "${all[@]}"; do
		[[ " $WITH " != *" ${c%-*} "* ]] || SHOWN+=("$c")
	done
}

[ -z "$PEER" ] || check_peer "$PEER"
[ -z "${WITH// /}" ] || choose_columns
[ $# -gt 0 ] || args_end_here

# Where the tree of a kernel is laid and built.
dir_of() { [ -n "$1" ] && echo "$OUT/bench/$1" || echo "$OUT"; }

# The module alone, built for that kernel where nothing else is.
build() {
	local kernel=${WHOSE[$1]} config=${CONFIG_OF[$1]} args=()
	local dir obj

	dir=$(dir_of "$kernel")
	obj=$dir/obj/$config
	if [ -n "$kernel" ]; then
		lay_kernel "$kernel"
		[ "$kernel" = ours ] || args=(-u)
		"$SCRIPTS/kernel.sh" -d "$dir" "${args[@]}" "$config"
	fi
	[ -e "$obj/vmlinux" ] || die "there is no $(rel "$obj"), run: make kernel CONFIG=$config"
	rm -rf "$dir/attack/$config"
	mkdir -p "$dir/attack/$config"
	cp "$SOURCE/$MODULE.c" "$dir/attack/$config/"
	# shellcheck disable=SC2016 # make expands it
	printf 'obj-m += %s.o\nccflags-y := -I$(srctree)/mm\n' $MODULE >"$dir/attack/$config/Makefile"
	run_logged "$LOGS/attack-$1.log" make -C "$obj" CC="$(compiler_of "$config")" \
		KBUILD_EXTMOD="$dir/attack/$config" modules ||
		die "$MODULE does not build for ${HEAD[$1]}, see $(rel "$LOGS/attack-$1.log")"
}

# attack COLUMN ATTACK: its log is kept.
attack() {
	local log=attack-$1-$2 config=${CONFIG_OF[$1]} args=()
	local dir

	dir=$(dir_of "${WHOSE[$1]}")
	[ -z "${WHOSE[$1]}" ] || args=(-d "$dir")
	CPUS=1 TOPOLOGY='' APPEND="${APPEND:-} ${BOOT[$1]}" \
		"$SCRIPTS/guest.sh" -n "$log" -t 300 "${args[@]}" "$config" \
		"/sbin/insmod $dir/attack/$config/$MODULE.ko ${PARAMETERS[$1]} &&
		 echo $2 >/sys/module/$MODULE/parameters/attack" >/dev/null 2>&1 </dev/null || :
	verdict "$LOGS/$log.log" "$2"
}

# verdict LOG ATTACK: from where the attack began to where it has ended, if it has: what a
# kernel says about it by itself, whether it died of that, and what the module found.
verdict() {
	local said end

	said=$(sed -n "/$MODULE: $2: begins/,/$MODULE: $2: [^b]/p" "$1")
	end=$(sed -nE "s/.*$MODULE: $2: ([^b].*)/\1/p" <<<"$said")
	if grep -qE 'BUG: K(ASAN|FENCE|MSAN): |ODEBUG: |BUG [^ ]+ \(.*\): ' <<<"$said"; then
		echo "found"
	elif [ -n "$end" ] && grep -qE 'WARNING:|left alone|SLUB .*:' <<<"$said"; then
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

# With VIEW=debug, what comes of an attack on both kernels, which mostly is the same.
of_both() {
	local base=${FOUND[$1-base $2]} ours=${FOUND[$1-ours $2]}

	[ "$base" = "$ours" ] && echo "$base" || echo "6.12: $base; series: $ours"
}

# row NAME CELL...
row() {
	printf '| %s ' "$@"
	echo '|'
}

write_table() {
	local a c cells columns=("${SHOWN[@]}")

	[ "$VIEW" != debug ] || mapfile -t columns < <(finders)
	cells=()
	for c in "${columns[@]}"; do
		cells+=("${HEAD[$c]:-$c}")
	done
	row attack "${cells[@]}"
	row "${cells[@]//*/---}" ---
	for a in "${ATTACKS[@]}"; do
		cells=()
		for c in "${columns[@]}"; do
			[ "$VIEW" = debug ] && cells+=("$(of_both "$c" "$a")") || cells+=("${FOUND[$c $a]}")
		done
		row "$a" "${cells[@]}"
	done
}

# What is found in plain 6.12 and not in the series.
not_found() {
	local a c

	for c in "${SHOWN[@]}"; do
		[[ $c == *-base ]] || continue
		for a in "${ATTACKS[@]}"; do
			[ "${FOUND[$c $a]}" != found ] || [ "${FOUND[${c%base}ours $a]}" = found ] ||
				echo "$a with ${c%-base}: found in 6.12, in the series: ${FOUND[${c%base}ours $a]}"
		done
	done
}

# The columns of the document: attack, plain 6.12, the series, hardened. In its words.
documented() {
	awk -v attack="$1" -v column="$2" '$1 == attack {
		split("26 43 60", at); print substr($0, at[column] + 1, 16); exit }' "$DOCUMENT" |
		sed 's/ *$//'
}

in_short() {
	case $1 in
	"stopped by a BUG") echo stopped ;;
	"reported; nothing to be had") echo reported ;;
	"nothing to be had") echo nothing ;;
	"crashes, at random") echo crashes ;;
	"an address at random") echo "at random" ;;
	"no such thing") echo n/a ;;
	*) echo "$1" ;;
	esac
}

not_as_documented() {
	local a c n=1

	for c in "${SHOWN[@]}"; do
		n=$((n + 1))
		for a in "${ATTACKS[@]}"; do
			[ "$(in_short "${FOUND[$c $a]}")" = "$(documented "$a" $n)" ] ||
				echo "$a, ${HEAD[$c]}: ${FOUND[$c $a]}, in $(rel "$DOCUMENT"): $(documented "$a" $n)"
		done
	done
}

mapfile -t ALL < <(attacks_of_source)
# In 6.12 there are no sheaves, and who debugs does without.
[ "$VIEW" != debug ] || mapfile -t ALL < <(printf '%s\n' "${ALL[@]}" | grep -v '^sheaf_')
ATTACKS=("$@")
[ $# -gt 0 ] || ATTACKS=("${ALL[@]}")
for a in "${ATTACKS[@]}"; do
	[[ " ${ALL[*]} " == *" $a "* ]] || die "there is no attack \`$a', choose among: ${ALL[*]}"
done
STEPS=$((${#SHOWN[@]} * (1 + ${#ATTACKS[@]})))
for c in "${SHOWN[@]}"; do
	say "$((++STEP))/$STEPS building for ${HEAD[$c]}"
	build "$c"
	for a in "${ATTACKS[@]}"; do
		FOUND[$c $a]=$(attack "$c" "$a")
		[ "${FOUND[$c $a]}" != "?" ] || FAILED=$((FAILED + 1))
		say "$((++STEP))/$STEPS ${HEAD[$c]}, $a: ${FOUND[$c $a]}"
	done
done
write_table >"$TABLE.new"
mv "$TABLE.new" "$TABLE"
cat "$TABLE"
[ $FAILED -eq 0 ] || die "$FAILED attacks came to no end that can be told, see $(rel "$LOGS")/attack-*.log"
case $VIEW in
debug) wrong=$(not_found) ;;
check) wrong=$(not_as_documented) ;;
*) wrong= ;;
esac
[ -z "$wrong" ] || die "it is not as it should be:
$wrong"
say "table $(rel "$TABLE"), logs $(rel "$LOGS")/attack-*.log"
