#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The out-of-tree module that uses all that there is for sheaves, test_slab_prefill.c of
# the selftests, as it is, against two kernels: ours, and mainline's of PEER= (7.2).
# Running it is up to the selftests. Needs the guest kernel, apt-get, and network for
# the first time; prints TAP.

. "$(dirname "$0")/../lib.sh"

PEER=${PEER:-7.2}
MODULE=test_slab_prefill
SOURCE=tools/testing/selftests/slab/test_modules/$MODULE.c
DIR=$OUT/module
LOG=$LOGS/module
API="prefill_sheaf refill_sheaf return_sheaf alloc_from_sheaf_noprof sheaf_size"

mkdir -p "$LOG"
rm -rf "$DIR"

export CCACHE_DIR=${CCACHE_DIR:-$BUILD/ccache}

# In a chain of &&, as ok() runs these where set -e does not count.

# make_in TREE OBJ MAKE-ARGUMENT...
make_in() { make -j"$JOBS" -C "$1" O="$2" CC="ccache gcc" HOSTCC="ccache gcc" "${@:3}"; }

# Mainline does not export the functions to modules, so modpost may only warn of these.
build() {
	local dir=$DIR/$1

	mkdir -p "$dir" &&
	cp "$TREE/$SOURCE" "$dir/" &&
	echo "obj-m += $MODULE.o" >"$dir/Makefile" &&
	make_in "$2" "$3" M="$dir" KCFLAGS=-Werror "${@:4}" modules &&
	[ -e "$dir/$MODULE.ko" ]
}

# It really asks for all of them.
uses_all() {
	local f

	for f in $API; do
		nm -u "$DIR/$1/$MODULE.ko" | grep -q " kmem_cache_$f\$" || {
			echo "it does not use kmem_cache_$f()"
			return 1
		}
	done
}

peer() {
	local dir=$OUT/bench/peer

	"$SCRIPTS/peer.sh" "$PEER" &&
	"$SCRIPTS/bench/lay.sh" peer &&
	"$SCRIPTS/kernel.sh" -d "$dir" -u -p bench &&
	make_in "$dir/linux" "$dir/obj/bench" modules_prepare &&
	build peer "$dir/linux" "$dir/obj/bench" KBUILD_MODPOST_WARN=1
}

ok() {
	local name=$1 log=$LOG/$2.log

	shift 2
	if "$@" >"$log" 2>&1 </dev/null; then
		echo "ok - $name"
	else
		echo "not ok - $name"
		tail -n 20 "$log" | sed 's/^/#   /'
	fi
}

need_tool make gcc ccache nm
[ -e "$OBJ/guest/Module.symvers" ] || die "there is no guest kernel, run: make kernel"
ok "the module builds against ours" ours build ours "$TREE" "$OBJ/guest"
ok "and uses all functions" ours-uses uses_all ours
ok "the module builds against $PEER" peer peer
ok "and uses all functions, too" peer-uses uses_all peer
rm -rf "$DIR"
