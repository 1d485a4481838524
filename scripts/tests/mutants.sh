#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# That every KUnit test of the slab allocator can fail: one kernel that has all mutants of
# scripts/tests/kunit.mutants in it, booted without any, when all tests must pass, and once
# with each of them, slab_mutant=N, and the tests that should see it. build/mutants.md has
# what they saw; fails when a mutant went unnoticed.
#
#   mutants.sh selftests does the same with the kselftests that mutants name:
#   build/mutants-selftests.md
#
#   mutants.sh checker does it with those that DEBUG_SLAB_SHEAVES should see, in a kernel that
#   has it, and looks for what it says: build/mutants-checker.md, and .rst for Documentation
#
#   MUTANTS="3 5-9" chooses; 0 is the kernel without a mutant. What has been run is not run
#   again until the mutant, what it changes or a test changes: build/mutants/results.
#
# Needs what `make run' needs, and rsync; for kselftests what selftest.sh needs. The logs are in build/logs/mutants.

. "$(dirname "$0")/../lib.sh"

LIST=$SCRIPTS/tests/kunit.mutants
DIR=$OUT/mutants
CONFIG=${MUTANTS_CONFIG:-mutants}
RESULTS=$DIR/results
MUTANTS=${MUTANTS:-}
ALL='slab_[bprs]*'
# Of a guest with some tests, and with all of them.
LIMIT=120
ALL_LIMIT=900
SELFTEST_LIMIT=400

mutants() { python3 -B "$SCRIPTS/tests/mutants.py" "$1" "$LIST" "${@:2}"; }

# The tree as it is, and the mutants in it: what has not changed keeps its time.
lay() {
	mkdir -p "$DIR/linux"
	mutants files >"$DIR/files"
	rsync -a --delete --exclude=/.git --exclude-from=<(sed 's,^,/,' "$DIR/files") \
		"$TREE/" "$DIR/linux/"
	mutants lay "$TREE" "$DIR/linux"
}

# What has no name of its own is CONFIG.
config_of() { [ "$1" = plain ] && echo "$CONFIG" || echo "$CONFIG-$1"; }

# boot NAME KERNEL TOPOLOGY SECONDS: how the guest ends is for its log to say. It ends when the
# tests do, so its command is not run.
boot() {
	local try rc

	for try in 1 2 3; do
		rc=0
		TOPOLOGY=$3 CPUS='' "$SCRIPTS/guest.sh" -d "$DIR" -n "mutants/$1" -t "$4" \
			"$(config_of "$2")" >"$DIR/out" 2>&1 \
			|| rc=$?
		# 3: it was QEMU that crashed
		[ $rc -eq 3 ] && [ "$try" != 3 ] || return 0
	done
}

# Without any mutant, as each of them is run.
boot_sound() {
	local topology kernel append name said bad=0

	while IFS=$'\t' read -r topology kernel append; do
		name=0-$kernel-$topology$(printf %s "$append" | tr -c '[:alnum:]' - | sed 's/./-&/')
		[ "$(cat "$RESULTS/$name" 2>/dev/null)" != "$IMAGE_SUM" ] || continue
		APPEND="kunit.filter_glob=$ALL kunit_shutdown=poweroff $append" \
			boot "$name" "$kernel" "$topology" $ALL_LIMIT
		if said=$(mutants judge "$TREE" "$ALL" "$LOGS/mutants/$name.log"); then
			echo "$IMAGE_SUM" >"$RESULTS/$name"
		else
			bad=1
		fi
		say "no mutant, $kernel, $topology${append:+, $append}: $said"
	done < <(cut -f2,4,6- "$DIR/run" | sort -u)
	[ $bad -eq 0 ] || die "without any mutant, tests fail, see $(rel "$LOGS")/mutants/0-*"
}

# The tests from user space, by selftest.sh: selftest NAME MACHINE APPEND TEST...
selftest() {
	local rc=0

	SIDE=mutants STAGED=${3:+1} TOPOLOGY=$2 LIMIT=$SELFTEST_LIMIT STRESS_SECS=10 \
		APPEND="$3 kunit.enable=0" "$SCRIPTS/selftest.sh" "${@:4}" \
		>"$LOGS/mutants/selftests-$1.out" 2>&1 </dev/null || rc=$?
	mv "$DIR/logs/selftest-$2.ktap" "$LOGS/mutants/selftests-$1.ktap" || :
	mv "$DIR/logs/selftest-$2.log" "$LOGS/mutants/selftests-$1.log" || :
	return $rc
}

# Without any mutant.
sound_selftests() {
	local machine words

	while read -r machine; do
		read -r -a words < <(awk -F'\t' -v m="$machine" '$2 == m { print $3 }' "$DIR/all-selftests" |
			tr ' ' '\n' | sort -u | xargs)
		selftest "0-$machine" "$machine" "" "${words[@]}" ||
			die "without any mutant, kselftests fail, see $(rel "$LOGS")/mutants/selftests-0-*"
		say "no mutant, $machine: ${words[*]}: ok"
	done < <(cut -f2 "$DIR/all-selftests" | sort -u)
}

selftests() {
	local number machine tests n k=0 rc=0

	mutants todo-selftests "$TREE" /nonexistent '' >"$DIR/all-selftests"
	if [ -z "$MUTANTS" ] || [[ " $MUTANTS " == *" 0 "* ]]; then
		sound_selftests
		[ "$MUTANTS" != 0 ] || return 0
	fi
	mutants todo-selftests "$TREE" "$RESULTS" "$MUTANTS" >"$DIR/todo"
	n=$(wc -l <"$DIR/todo")
	say "kselftests: $n mutants to be run"
	while IFS=$'\t' read -r number machine tests <&8; do
		k=$((k + 1))
		# shellcheck disable=SC2086 # a list of tests
		selftest "$number" "$machine" "slab_mutant=$number" $tests || :
		say "$k of $n, mutant $number: $(mutants record-selftests "$TREE" "$RESULTS" "$number" \
			"$LOGS/mutants/selftests-$number.ktap" "$LOGS/mutants/selftests-$number.log")"
	done 8<"$DIR/todo"
	mutants report-selftests "$TREE" "$RESULTS" >"$BUILD/mutants-selftests.md" || rc=$?
	say "$(sed -n 3p "$BUILD/mutants-selftests.md") $(rel "$BUILD/mutants-selftests.md")"
	[ $rc -eq 0 ] || die "mutants went unnoticed"
}

# Those that it should see; and without any, where it must say nothing.
checker() {
	local number topology tests kernel boots append said try n k=0 rc=0

	mutants todo-checker "$MUTANTS" >"$DIR/todo-checker"
	APPEND="kunit.filter_glob=$ALL kunit_shutdown=poweroff" boot checker-0 checked 4cpu $ALL_LIMIT
	said=$(mutants judge "$TREE" "$ALL" "$LOGS/mutants/checker-0.log") ||
		die "without any mutant: $said, see $(rel "$LOGS")/mutants/checker-0.log"
	say "no mutant: $said"
	n=$(wc -l <"$DIR/todo-checker")
	while IFS=$'\t' read -r number topology tests kernel boots append <&8; do
		k=$((k + 1))
		# a race may take several
		for ((try = 1; try <= boots; try++)); do
			APPEND="slab_mutant=$number kunit.filter_glob=$tests kunit_shutdown=poweroff $append" \
				boot "checker-$number" "$kernel" "$topology" $LIMIT
			said=$(grep -ac 'DEBUG_SLAB_SHEAVES: ' "$LOGS/mutants/checker-$number.log") || continue
			break
		done
		say "$k of $n, mutant $number: $said complaints, boot $try"
	done 8<"$DIR/todo-checker"
	mutants checker "$LOGS/mutants" "$BUILD/mutants-checker.rst" \
		>"$BUILD/mutants-checker.md" || rc=$?
	say "$(sed -n 3p "$BUILD/mutants-checker.md") $(rel "$BUILD/mutants-checker.md")"
	[ $rc -eq 0 ] || die "DEBUG_SLAB_SHEAVES said nothing of some"
}

[[ "$MUTANTS" =~ ^[0-9\ -]*$ ]] || die "MUTANTS=$MUTANTS is not numbers and ranges, such as 3 5-9"
args_end_here
need_tool rsync python3
lock mutants
mkdir -p "$RESULTS" "$LOGS/mutants"
mutants todo "$TREE" /nonexistent '' >"$DIR/all"
lay
if [ "${1:-}" = selftests ]; then
	"$SCRIPTS/kernel.sh" -d "$DIR" guest
	"$SCRIPTS/kernel.sh" -d "$DIR" isolated
	selftests
	exit
fi
if [ "${1:-}" = checker ]; then
	"$SCRIPTS/kernel.sh" -d "$DIR" "$(config_of checked)"
	checker
	exit
fi
mutants todo "$TREE" "$RESULTS" "$MUTANTS" >"$DIR/todo"
# With mutant 0 all kernels are tried, as they are.
if [ -z "$MUTANTS" ] || [[ " $MUTANTS " == *" 0 "* ]]; then
	cp "$DIR/all" "$DIR/run"
else
	cp "$DIR/todo" "$DIR/run"
fi
while read -r kernel; do
	"$SCRIPTS/kernel.sh" -d "$DIR" "$(config_of "$kernel")" </dev/null
done < <(cut -f4 "$DIR/run" | sort -ru)
IMAGE_SUM=$(sha256sum "$DIR"/obj/"$CONFIG"*/arch/x86/boot/bzImage | sha256sum)
if [ -z "$MUTANTS" ] || [[ " $MUTANTS " == *" 0 "* ]]; then
	boot_sound
	[ "$MUTANTS" != 0 ] || exit 0
fi

n=$(wc -l <"$DIR/todo")
say "mutants: $(wc -l <"$DIR/all"), $n to be run"
k=0
while IFS=$'\t' read -r number topology tests kernel boots append <&8; do
	k=$((k + 1))
	for ((try = 1; try <= boots; try++)); do
		APPEND="slab_mutant=$number kunit.filter_glob=$tests kunit_shutdown=poweroff $append" \
			boot "$number" "$kernel" "$topology" $LIMIT
		said=$(mutants record "$TREE" "$RESULTS" "$number" "$LOGS/mutants/$number.log")
		[ "$said" = "NOBODY NOTICED" ] || break
	done
	say "$k of $n, mutant $number: $said"
done 8<"$DIR/todo"

rc=0
mutants report "$TREE" "$RESULTS" >"$BUILD/mutants.md" || rc=$?
say "$(sed -n 3p "$BUILD/mutants.md") $(rel "$BUILD/mutants.md")"
[ $rc -eq 0 ] || {
	sed -n '/^## Mutants that nobody/,/^## Mutants$/s/^- /  /p' "$BUILD/mutants.md"
	die "mutants went unnoticed"
}
