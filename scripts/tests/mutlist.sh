#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of scripts/tests/mutants.py: what it says to wrong lists of mutants, that all
# mutants of a list are in the files, and what it makes of a guest's log. On a small fake
# tree; prints TAP.

. "$(dirname "$0")/lib.sh"

TREE=$DIR/tree
LIST=$DIR/list
LOG=$DIR/log
RESULTS=$DIR/results

mutants() { python3 -B "$SELF/scripts/tests/mutants.py" "$1" "$LIST" "${@:2}"; }

fake_tree() {
	mkdir -p "$TREE/mm" "$TREE/lib/tests"
	printf '/* slub */\nint a(void)\n{\n\treturn 1;\n}\n\nint b(void)\n{\n\treturn 1;\n}\n' \
		>"$TREE/mm/slub.c"
	printf '\tKUNIT_CASE(%s),\n' first second third >"$TREE/lib/tests/slab_x_kunit.c"
}

# list LINE...: the one mutant of which is wrong, or not.
list() { printf '%s\n' 'mutant 7: one is two' 'file: mm/slub.c' "$@" >"$LIST"; }

one_is_two() { list 'in: a' 'tests: slab_x' '-	return 1;' '+	return 1 + MUTANT;'; }

wrong_lists() {
	list 'tests: slab_x' '-	return 1;' '+	return 1 + MUTANT;'
	refused "a text that is there twice" 'mutant 7: its text is found 2 times in mm/slub.c' \
		mutants lay "$TREE" "$DIR/laid"
	list 'in: b' 'tests: slab_x' '-	return 3;' '+	return 1 + MUTANT;'
	refused "a text that is not there" 'found 0 times in mm/slub.c, b\(\)' \
		mutants lay "$TREE" "$DIR/laid"
	list 'in: a' 'tests: slab_x' '-	return 1;' '+	return 2;'
	refused "what is always wrong" 'mutant 7 has no MUTANT in it' mutants lay "$TREE" "$DIR/laid"
	list 'in: a' '-	return 1;' '+	return MUTANT;'
	refused "nobody to see it" 'does not say which tests' mutants lay "$TREE" "$DIR/laid"
	list 'in: a' 'tests: slab_x' 'colour: red'
	refused "a word that is none" 'list:5: what is' mutants lay "$TREE" "$DIR/laid"
	one_is_two
	sed 's/^in: a/in: a/; s/one is two/the same/' "$LIST" >"$DIR/twice"
	cat "$DIR/twice" >>"$LIST"
	refused "a number that is another one's" 'there is a mutant 7 already' \
		mutants lay "$TREE" "$DIR/laid"
	one_is_two
	sed 's/mutant 7/mutant 8/' "$LIST" >"$DIR/twice"
	cat "$DIR/twice" >>"$LIST"
	refused "two in one place" "mutant 8: its text .* is another mutant's" \
		mutants lay "$TREE" "$DIR/laid"
	list 'in: a' 'tests: slab_y' '-	return 1;' '+	return 1 + MUTANT;'
	refused "tests that do not exist" 'mutant 7: no test is called slab_y' \
		mutants todo "$TREE" "$RESULTS" ''
	one_is_two
	refused "a number that nobody has" 'MUTANTS=8: there are none' \
		mutants todo "$TREE" "$RESULTS" 8
}

is_laid() {
	one_is_two
	mutants lay "$TREE" "$DIR/laid"
	grep -cF 'return 1 + (unlikely(slab_mutant == 7));' "$DIR/laid/mm/slub.c" | grep -x 1
	grep -F 'early_param("slab_mutant"' "$DIR/laid/mm/slub.c"
}

# ktap LINE...: as a kernel prints it.
ktap() {
	printf '[    1.234567] %s\r\n' '1..1' '    KTAP version 1' '    # Subtest: slab_x' '    1..3' "$@" >"$LOG"
}

# says REGEXP: what becomes of the log, and it is recorded.
says() {
	mutants record "$TREE" "$RESULTS" 7 "$LOG" >"$DIR/said"
	cat "$DIR/said"
	grep -qE "$1" "$DIR/said"
}

unnoticed_fails() { ! mutants report "$TREE" "$RESULTS"; }
noticed_passes() { mutants report "$TREE" "$RESULTS"; }
none_left() { [ -z "$(mutants todo "$TREE" "$RESULTS" '')" ]; }
redone() { sed -i 's/one is two/one is three/' "$LIST" && [ -n "$(mutants todo "$TREE" "$RESULTS" '')" ]; }

fake_tree
wrong_lists
ok "a mutant is in the file, once" is_laid
one_is_two
ktap '    ok 1 first' '    ok 2 second' '    ok 3 third' 'ok 1 slab_x'
ok "nobody noticed" says '^NOBODY NOTICED$'
ok "nobody noticed: that is a failure" unnoticed_fails
ktap '    ok 1 first' '        # Subtest: second' '        ok 1 one' '        not ok 2 two' \
	'    not ok 2 second' '    ok 3 third # SKIP why' 'not ok 1 slab_x'
ok "a test noticed" says '^seen by slab_x.second$'
ok "a test noticed: that is what is wanted" noticed_passes
ok "what has been run is not run again" none_left
ok "unless the mutant changes" redone
one_is_two
ktap '    ok 1 first' 'Kernel panic - not syncing: Fatal exception'
ok "the guest died" says '^the guest died in slab_x.second: Fatal exception$'
ktap '    ok 1 first' '    ok 2 second' '    ok 3 third' 'WARNING: CPU: 0 at mm/slub.c' 'ok 1 slab_x'
ok "the kernel noticed" says '^a splat: WARNING'
# A suite of which another kernel is made: it is none that died.
printf '\tKUNIT_CASE(other),\n' >"$TREE/lib/tests/slab_y_kunit.c"
list 'in: a' 'tests: slab_*' '-	return 1;' '+	return 1 + MUTANT;'
ktap '    ok 1 first' '    ok 2 second' '    ok 3 third' 'ok 1 slab_x'
ok "a suite that the kernel does not have" says '^NOBODY NOTICED$'
ktap '    ok 1 first' '    ok 2 second' '    ok 3 third' 'ok 1 slab_x'
sed -i 's/] 1\.\.1\r/] 1..2\r/' "$LOG"
ok "the guest died before another suite" says '^the guest died in no test: no end within the time$'
rm "$TREE/lib/tests/slab_y_kunit.c"

# said LINE...: the log of a guest with the one mutant, and what becomes of it.
said() {
	printf '[    1.234567] %s\n' "$@" >"$DIR/checker-7.log"
	mutants checker "$DIR" "$DIR/table.rst" >"$DIR/table.md"
}

list 'in: a' 'tests: slab_x' 'checker: race' '-	return 1;' '+	return 1 + MUTANT;'
is_in_tables() {
	said 'SLUB x: DEBUG_SLAB_SHEAVES: a sheaf in two places (00000000c0ffee00)' \
		'SLUB y: DEBUG_SLAB_SHEAVES: an object out of a sheaf in which it was not (00000000c0ffee08)' \
		'SLUB x: DEBUG_SLAB_SHEAVES: a sheaf in two places (00000000c0ffee10)' &&
	grep -qF '1 bugs, 1 of them races; of 0 it said nothing.' "$DIR/table.md" &&
	grep -qF '| 7 | one is two | race | a sheaf in two places (2 times); an object out' "$DIR/table.md" &&
	grep -A2 -F '   * - one is two' "$DIR/table.rst" | tail -n 1 | grep -x '     - a sheaf in two places'
}
ok "mutants: what DEBUG_SLAB_SHEAVES says is in the tables, what it says most often first" is_in_tables
is_missed() {
	! said 'WARNING: CPU: 0 PID: 1 at mm/slub.c:1' &&
	grep -qF 'of 1 it said nothing.' "$DIR/table.md" && grep -qF '**nothing**' "$DIR/table.rst"
}
ok "mutants: that it says nothing is a failure" is_missed
asked_for() { [ "$(mutants todo-checker '')" = $'7\t4cpu\tslab_x\tchecked\t1\t' ]; }
ok "mutants: those that it should see are run with it" asked_for
