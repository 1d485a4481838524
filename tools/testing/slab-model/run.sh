#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Check the models of the sheaves: with litmus or spin as an argument, of that kind only.
# Needs herd7 of herdtools7 (HERD7= names it), spin and gcc; MODELS= chooses by a pattern,
# LIMIT= is how many seconds each may take (300); for spin, MEMLIM= how many MB (4000) and
# DEPTH= how many steps a search may go down (100000). Prints TAP, with how many states
# each has; ends with 1 if one does not hold, or was not explored to its end, or a seeded
# bug is not found, and with 2 if something is missing.

set -euo pipefail
export LC_ALL=C

SELF=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
HERD7=${HERD7:-herd7}
LIMIT=${LIMIT:-300}
# The models are made for what there is time for: memory is not the limit.
MEMLIM=${MEMLIM:-4000}
DEPTH=${DEPTH:-100000}
MODELS=${MODELS:-*}
FAILED=0
COUNT=0
DIR=$(mktemp -d)
trap 'rm -rf "$DIR"' EXIT

die() {
	echo "error: $*" >&2
	exit 2
}

# result WHETHER NAME...: one line.
result() {
	COUNT=$((COUNT + 1))
	if [ "$1" = ok ]; then
		echo "ok $COUNT ${*:2}"
	else
		echo "not ok $COUNT ${*:2}"
		FAILED=1
	fi
}

# The first line of the head comment says what must come out: Never or Sometimes. A test
# in which something never happens must not have races either.
litmus() {
	local file=$1 name want out said

	name=$(basename "$file" .litmus)
	want=$(sed -n 's/^ \* Result: //p' "$file")
	out=$(cd "$SELF/../../memory-model" &&
	      timeout "$LIMIT" "$HERD7" -conf linux-kernel.cfg "$file" 2>&1) || :
	said=$(sed -nE "s/^Observation ${name//+/\\+} (\w+) ([0-9]+) ([0-9]+)$/\1 \2 \3/p" \
		<<<"$out")
	read -r said yes no <<<"${said:-Nothing 0 0}"
	if [ "$said" != "$want" ] || { [ "$want" = Never ] && grep -q '^Flag ' <<<"$out"; }; then
		result failed "litmus $name: $said, not $want"
		while IFS= read -r line; do echo "# $line"; done <<<"$out"
	else
		result ok "litmus $name: $want, $((yes + no)) states"
	fi
}

# What pan says when there is more than it has looked at, the reason first.
GAVE_UP='max search depth too small|reached -DMEMLIM bound|out of memory|Search not completed'

# explore MODEL OPTION...: sets what came out: holds, violated, or neither. Whoever gave up,
# for whatever reason, has not seen an error either, and ends with 0.
explore() {
	local model=$1 build gave_up

	shift
	OUTCOME=unfinished STATES=0
	rm -rf "$DIR/run"
	mkdir "$DIR/run"
	cd "$DIR/run"
	mapfile -t build < <(sed -n 's/^ \* Build: //p' "$model")
	if ! spin -a "$@" "$model" >spin.log 2>&1 ||
	   ! gcc -O2 -w -DSAFETY -DCOLLAPSE -DMEMLIM="$MEMLIM" "${build[@]}" \
		-o pan pan.c >>spin.log 2>&1; then
		OUTCOME='does not build'
		sed 's/^/# /' spin.log
		cd "$SELF"
		return
	fi
	timeout "$LIMIT" ./pan -m"$DEPTH" >log 2>&1 || :
	STATES=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' log)
	gave_up=$(grep -m 1 -oE "$GAVE_UP" log || :)
	if grep -qE '^pan:.*(assertion violated|invalid end state)' log; then
		OUTCOME=$(sed -n 's/^pan:[0-9]*: \(.*\) (at depth.*/\1/p' log)
		OUTCOME="violated: ${OUTCOME:0:60}"
	elif [ -n "$gave_up" ]; then
		OUTCOME="not explored to its end, $gave_up (MEMLIM=$MEMLIM, DEPTH=$DEPTH)"
	elif grep -q 'errors: 0$' log; then
		OUTCOME=holds
	fi
	cd "$SELF"
}

# A seeded bug must be found in one of the configurations of the model.
seeded() {
	local file=$1 bug=$2 run options what

	what=$(sed -n "s,^#ifn\?def BUG_${bug}[[:space:]]*/\* \(.*\) \*/$,\1,p" "$file" | head -n 1)
	while IFS= read -r run; do
		read -ra options <<<"$run"
		explore "$file" "${options[@]}" "-DBUG_$bug"
		[[ $OUTCOME != violated* ]] || break
	done < <(runs "$file")
	if [[ $OUTCOME = violated* ]]; then
		result ok "spin $(basename "$file" .pml): seeded: ${what:-$bug}:" \
			"found after $STATES states"
	else
		result failed "spin $(basename "$file" .pml): seeded: ${what:-$bug}: $OUTCOME"
	fi
}

runs() { sed -n 's/^ \* Run: *//p' "$1"; }

spin_model() {
	local file=$1 name run options bug bugs t0

	name=$(basename "$file" .pml)
	while IFS= read -r run; do
		read -ra options <<<"$run"
		t0=$SECONDS
		explore "$file" "${options[@]}"
		if [ "$OUTCOME" = holds ]; then
			result ok "spin $name${run:+ $run}: $STATES states, $((SECONDS - t0)) s"
		else
			result failed "spin $name${run:+ $run}: $OUTCOME, $STATES states," \
				"$((SECONDS - t0)) s"
		fi
	done < <(runs "$file")
	mapfile -t bugs < <(grep -oE '\<BUG_[A-Z_]+' "$file" | sed 's/^BUG_//' | sort -u)
	for bug in "${bugs[@]}"; do
		seeded "$file" "$bug"
	done
}

[ $# -gt 0 ] || set -- litmus spin
for kind; do
	case $kind in
	litmus)
		command -v "$HERD7" >/dev/null ||
			die "no herd7: it is in herdtools7; HERD7= says where it is"
		;;
	spin)
		{ command -v spin && command -v gcc; } >/dev/null || die "spin and gcc are needed"
		;;
	*) die "usage: run.sh [litmus|spin]..." ;;
	esac
done

for kind; do
	for file in "$SELF/$kind"/$MODELS.{litmus,pml}; do
		[ -e "$file" ] || continue
		case $kind in
		litmus) litmus "$file" ;;
		spin) spin_model "$file" ;;
		esac
	done
done
[ $COUNT -gt 0 ] || die "no model is called $MODELS"
echo "1..$COUNT"
exit $FAILED
