# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Sizes of sheaves and barns that change at random, and are put back: for resize.sh and
# stress.sh, which source this after functions.sh.

# shellcheck disable=SC2034 # by name, in of()
CAPACITIES=(0 4 12 28 60 60 124 252)
# shellcheck disable=SC2034
LIMITS=(auto auto 0 1 5 40)
# shellcheck disable=SC2034
WORDS=(all none no_growth no_slow_start "no_working_set growth" pressure)
declare -A WAS

# Caches with sheaves, without those that are only other names, and their capacities.
find_caches() {
	local dir capacity

	for dir in "$SLAB"/*; do
		[ ! -L "$dir" ] || continue
		read -r capacity <"$dir/sheaf_capacity"
		[ "$capacity" -eq 0 ] || WAS[${dir##*/}]=$capacity
	done
	NAMES=("${!WAS[@]}")
}

put_back() {
	local name

	for name in "${!WAS[@]}"; do
		echo "${WAS[$name]}" >"$SLAB/$name/sheaf_capacity"
		echo auto >"$SLAB/$name/barn_max_full"
		echo auto >"$SLAB/$name/barn_max_empty"
		echo all >"$SLAB/$name/sheaf_feedback"
	done 2>/dev/null
}

of() { # ARRAY: one of its values, in VALUE
	local -n array=$1

	VALUE=${array[RANDOM % ${#array[@]}]}
}

change_something() {
	of NAMES
	local dir=$SLAB/$VALUE which=full

	[ $((RANDOM % 2)) -eq 0 ] || which=empty
	case $((RANDOM % 4)) in
	0 | 1) of CAPACITIES && echo "$VALUE" >"$dir/sheaf_capacity" ;;
	2) of LIMITS && echo "$VALUE" >"$dir/barn_max_$which" ;;
	*) of WORDS && echo "$VALUE" >"$dir/sheaf_feedback" ;;
	esac
}
