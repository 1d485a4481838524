#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The stress of tools/testing/slab-native on the laid tree: on each machine, with the
# sanitizers, and on mutants of the sheaf and barn tiers, which must fail; and whether what
# is calculated about the lock of a barn is what the document says. SEED=
# repeats the choices of a run. Builds what it needs in build/obj/native and
# build/native; prints TAP.

. "$(dirname "$0")/lib.sh"

SEED=${SEED:-$(date +%s)}
SECS=${SECS:-3}
# shellcheck source=scripts/lib.sh
read -r TREE OBJ OUT < <(. "$SELF/scripts/lib.sh" && echo "$TREE $OBJ/native $OUT/native")

build() { "$SELF/scripts/native.sh" "${@:2}" -i "$TREE" "$OBJ" "$OUT/$1"; }
configure() { mkdir -p "$OUT" && "$SELF/scripts/kernel.sh" -p native; }

# With SLAB_SHEAF_HARDENED.
hardened() { "$SELF/scripts/kernel.sh" -p native-hardened && OBJ=$OBJ-hardened build stress-hardened; }

# As on processors that move few bytes slowly: X86_FEATURE_FSRM, 18 * 32 + 4.
without_fsrm() {
	CLEARCPUID=580 timeout 120 "$OUT/stress" bench -m 1cpu -g one_thread -r 1 -n 100
}

# stress PROGRAM OPTION...
stress() {
	local program=$1

	shift
	timeout 120 "$OUT/$program" stress -s "$SEED" -t "$SECS" "$@"
}

# What was found is of the kind that is expected: stress's own words, or the kernel's. A
# program that hangs after it has said that is found, too, one that hangs without is not.
FOUND='FAILED|slab-native: (signal|WARNING|BUG)|BUG .*: |Sanitizer: '
finds() {
	local rc n

	# on a busy machine not always at the first try
	for ((n = 0; n < 6; n++)); do
		rc=0
		stress "$@" -s "$((SEED + n))" >"$DIR/found" 2>&1 || rc=$?
		cat "$DIR/found"
		[ $rc -eq 0 ] || break
	done
	[ $rc -ne 0 ] && grep -qE "$FOUND" "$DIR/found"
}

# The tables of the document are those that barn-lock.py calculates.
as_documented() {
	local line

	"$TREE/tools/testing/slab-native/barn-lock.py" "$@" >"$DIR/table" || return 1
	[ -s "$DIR/table" ] || return 1
	while IFS= read -r line; do
		grep -qxF -- "$line" "$TREE/Documentation/mm/slab-barn-lock.rst" || {
			echo "not in the document: $line"
			return 1
		}
	done <"$DIR/table"
}

no_reports() { stress "$@" >"$DIR/found" 2>&1 && ! grep -E 'Sanitizer: ' "$DIR/found"; }

# mutant NAME FILE AWK-PROGRAM: a copy of FILE with something wrong.
mutant() {
	mkdir -p "$DIR/$1"
	awk "$3" "$TREE/mm/$2" >"$DIR/$1/$2"
	! cmp -s "$TREE/mm/$2" "$DIR/$1/$2"
}

# breaks WHAT NAME FILE AWK-PROGRAM [SANITIZER]
breaks() {
	local what=$1 name=$2 file=$3 program=$4 options=() irqs=()

	# a sanitizer of its own for what nothing else sees
	[ -z "${5:-}" ] || options=(-s "$5")
	[ "${5:-}" != thread ] || irqs=(-I)
	ok "mutant: $what: there is one" mutant "$name" "$file" "$program"
	ok "mutant: $what: builds" build "mutant-$name" "${options[@]}" -m "$DIR/$name"
	ok "mutant: $what: is found" finds "mutant-$name" "${irqs[@]}"
}

echo "# seed $SEED"
ok "native: the kernel is prepared" configure
ok "native: builds" build stress
for machine in 1cpu 4cpu 2node memoryless; do
	ok "stress: $machine, seed $SEED" stress stress -m $machine
done
ok "native: runs where memmove() has another alternative" without_fsrm
ok "native: builds hardened" hardened
for machine in 4cpu memoryless; do
	ok "stress: hardened, $machine, seed $SEED" stress stress-hardened -m $machine
done
ok "native: builds with the address sanitizer" build stress-address -s address
ok "stress: address sanitizer, seed $SEED" no_reports stress-address -m 2node
ok "native: builds with the thread sanitizer" build stress-thread -s thread
# signals and the thread sanitizer do not go together
ok "stress: thread sanitizer, seed $SEED" no_reports stress-thread -m 2node -I
ok "barn-lock.py: as documented" as_documented
ok "barn-lock.py: as documented, by L3" as_documented --line 30 --cpus 8 16

SECS=10
breaks "an object is stored twice" twice slab_sheaf.c '
	/^bool __sheaf_free/ { f = 1 }
	{ print }
	f && /sheaf_push\(s, pcs->main, object\);/ {
		print "\t\tpcs->main->objects[pcs->main->size++] = object;"
		f = 0
	}'
breaks "a barn loses a full sheaf" lost-full slab_barn.c '
	/^struct slab_sheaf \*barn_swap_full/ { f = 1 }
	f && /add_full\(barn, full\);/ { print "\t\tif (barn->nr_full != 1)" }
	{ print }'
breaks "a barn loses an empty sheaf" lost-empty slab_barn.c '
	/^bool barn_put_empty/ { f = 1 }
	f && /add_empty\(barn, empty\);/ { print "\t\t;"; f = 0; next }
	{ print }'
WITHOUT_BARN_LOCK='
	!/define/ {
		sub(/unlock_barn\(barn, flags\)/, "local_irq_restore(flags)")
		sub(/lock_barn\(barn, flags\)|spin_lock_irqsave\(&barn->lock, flags\)/, "local_irq_save(flags)")
		sub(/spin_unlock_irqrestore\(&barn->lock, flags\)/, "local_irq_restore(flags)")
	}
	{ print }'
breaks "the lock of the barn is missing" barn-lock slab_barn.c "$WITHOUT_BARN_LOCK"
breaks "the same, by the thread sanitizer" barn-lock-tsan slab_barn.c "$WITHOUT_BARN_LOCK" thread
breaks "the lock of the sheaves is missing" sheaf-lock slab_sheaf.c '
	/while \(done < nr\)/ { f = 1 }	# what serves the bulk functions
	/^}/ { f = 0 }
	f && /local_trylock/ { getline; next }
	f && /local_unlock/ { next }
	{ print }'
breaks "a sheaf is used after it was freed" after-free slab_sheaf.c '
	/^void \*__sheaf_alloc/ { f = 1 }
	{ print }
	f && /free_empty_sheaf\(s, rest\);/ && ++n == 2 {
		print "\t\tif (rest) put_empty_sheaf(s, rest);"
		f = 0
	}' address
breaks "a spare has two owners" two-owners slab_sheaf.c '
	/^static struct slab_sheaf \*take_any_spare/ { f = 1 }
	f && /xchg/ {
		print "\tspare = READ_ONCE(pcs->spare);"
		print "\tfor (int i = 0; spare && i < 3000; i++) cpu_relax();"
		print "\tif (spare) WRITE_ONCE(pcs->spare, NULL);"
		f = 0
		next
	}
	{ print }'
breaks "kfree_rcu() in an interrupt takes the lock of the sheaves for free" irq-rcu slab_rcu.c '
	/^void kfree_rcu_sheaf/ { f = 1 }
	f { f = !sub(/!local_trylock\(&sheaves->lock\)/,
		"& \\&\\& !(in_hardirq() \\&\\& ({ preempt_disable(); 1; }))") }
	{ print }'
