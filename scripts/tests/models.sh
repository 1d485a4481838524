#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The models of tools/testing/slab-model in the laid tree: those for spin, and litmus tests
# if there is a herd7 (HERD7= names it; scripts/deps.sh check gets it), which NEED_HERD7=1
# says there must be. Needs spin and gcc; prints TAP.

. "$(dirname "$0")/lib.sh"

# shellcheck source=scripts/lib.sh
read -r TREE BUILD < <(. "$SELF/scripts/lib.sh" && echo "$TREE $BUILD")
[ $# -eq 0 ] || TREE=$1
RUN=$TREE/tools/testing/slab-model/run.sh
HERD7=${HERD7:-$(command -v herd7 || echo "$BUILD/herd/herd7")}
export HERD7

# ends_with RC COMMAND...: the command exits like that.
ends_with() {
	local want=$1 rc=0

	shift
	"$@" >"$DIR/ends" 2>&1 || rc=$?
	cat "$DIR/ends"
	[ $rc -eq "$want" ]
}

# wrong FILE SED-PROGRAM KIND: a model that is made wrong is seen to be.
wrong() {
	rm -rf "$DIR/model"
	cp -r "$(dirname "$RUN")" "$DIR/model"
	sed -i "$2" "$DIR/model/$1"
	! cmp -s "$DIR/model/$1" "$(dirname "$RUN")/$1" &&
		MODELS=$(basename "${1%.*}") ends_with 1 "$DIR/model/run.sh" "$3" &&
		grep -q '^not ok' "$DIR/ends"
}

# cut_short WHY VARIABLE=VALUE: a search that ended too early has found nothing wrong, but
# does not pass.
cut_short() {
	ends_with 1 env MODELS=admin "$2" "$RUN" spin &&
		grep -q "^not ok 1 spin admin: not explored to its end, $1 (.*$2" "$DIR/ends"
}

# The lines of run.sh are checks of their own.
run() {
	local rc=0

	"$RUN" "$1" >"$DIR/$1" 2>&1 || rc=$?
	sed -nE 's/^(ok|not ok) [0-9]+ /\1 - /p; s/^#/#  /p; s/^error: /# &/p' "$DIR/$1"
	if ! grep -q '^ok' "$DIR/$1"; then
		echo "not ok - $1: ran"
	elif [ $rc -eq 0 ] && grep -q '^not ok' "$DIR/$1"; then
		echo "not ok - $1: run.sh says which failed"
	fi
}

# Without herd7 the rest can be looked at, but not all have passed.
litmus() {
	if [ -x "$HERD7" ]; then
		run litmus
	elif [ "${NEED_HERD7:-}" = 1 ]; then
		echo "not ok - models: the litmus tests"
		echo "#   there is no herd7, which is needed here: run scripts/deps.sh check, or say HERD7=PATH"
	else
		echo "ok - models: the litmus tests # SKIP there is no herd7, scripts/deps.sh check fetches it"
	fi
}

# without_herd7 NEEDED REGEXP: what the litmus tests come to.
without_herd7() {
	NEED_HERD7=$1 HERD7=$DIR/none litmus >"$DIR/none.log"
	cat "$DIR/none.log"
	grep -qE "$2" "$DIR/none.log"
}

ok "models: no model of that name is an error" ends_with 2 env MODELS=none "$RUN" spin
ok "models: a lock that is missing fails" wrong spin/admin.pml '/^	lock(visit_mutex);/d' spin
# shellcheck disable=SC2016 # an address of sed
ok "models: a seeded bug that is none fails" wrong spin/admin.pml '$a#ifdef BUG_NOTHING\n#endif' spin
ok "models: a search that runs out of memory fails" cut_short 'reached -DMEMLIM bound' MEMLIM=16
ok "models: a search that is not deep enough fails" cut_short 'max search depth too small' DEPTH=10
ok "models: without herd7 there are no litmus tests" without_herd7 '' '^ok .* SKIP .*deps.sh check'
ok "models: and where it is needed they fail" without_herd7 1 '^not ok '
ok "models: with how to get it" without_herd7 1 '^# .*deps.sh check'
litmus
run spin
