#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of scripts/check-all.sh and scripts/configurations.py without any kernel: what they
# refuse, what is run again and what is not, the table, the pairs of options. On a small fake
# tree, with cases and kernels that are made up. Prints TAP.

. "$(dirname "$0")/lib.sh"

unset CASES CASE_LIMIT RESUME
fake_repo
CALLS=$DIR/calls
LIST=$DIR/cases
STATE=$(echo "$REPO"/build/src-*)/check-all
RECORD_FILE=$DIR/record
export CASES_FILE=$LIST CALLS RECORD_FILE

# Kernels are made of what is there, and build, with a warning or without.
cat >"$REPO/scripts/kernel.sh" <<'EOF'
#!/bin/bash
. "$(dirname "$0")/lib.sh"
if [ "$1" = --fragments ]; then
	printf '%s\n' 'one common one' 'two common two'
	exit
fi
echo "kernel $1" >>"$CALLS"
mkdir -p "$LOGS"
printf '%s\n' "${WARNS:-no warning}" >"$LOGS/kernel-$1.log"
# one that is built already
[ -z "${SLOW_BUILD:-}" ] || mkdir "$OUT/busy" || exit 1
sleep "${SLOW_BUILD:-0}"
[ -z "${SLOW_BUILD:-}" ] || rmdir "$OUT/busy"
[ ! -e "$OBJ/$1.broken" ]
EOF
rm "$REPO"/scripts/configs/*
echo CONFIG_A=y >"$REPO/scripts/configs/common.config"
echo CONFIG_B=y >"$REPO/scripts/configs/one.config"
echo CONFIG_B=n >"$REPO/scripts/configs/two.config"
pairs() { printf '%s\n' "$@" >"$REPO/scripts/configs/pairs"; }
pairs 'kernels one two' 'option B'

# cases LINE...
cases() { printf '%s\n' "$@" >"$LIST"; }
check_all() { : >"$CALLS" && "$REPO/scripts/check-all.sh"; }
# ran NAME...: these, and no others, have been.
ran() {
	echo "wanted: $*"
	cat "$CALLS"
	[ "$(paste -sd' ' "$CALLS")" = "$*" ]
}
keep_output() { mv "$DIR/out" "$DIR/kept"; }
shown() { cat "$DIR/kept" && grep -qE -- "$1" "$DIR/kept"; }
fails() { ! "$@"; }

# --- what is refused -----------------------------------------------------

cases 'first one -'
refused "a case without a command" 'what is .first one -' check_all
cases 'first one - true' 'second one - true'
refused "two of one name" 'there are two cases one' check_all
cases 'first one three true'
refused "a kernel that nobody knows" 'there is no kernel three' check_all
cases 'first one - true'
CASES="first none" refused "an unknown case" 'no case or group .none., choose groups among first' check_all
RESUME=yes refused "to go on, in another word" 'RESUME=yes is not 1' check_all
CASES=first ARGS_ONLY=1 ok "a group: arguments alone" check_all
ok "nothing was run" ran

# --- what is run, and once -----------------------------------------------

# shellcheck disable=SC2016 # for the cases
cases '# a comment' '' 'first a one echo a >>"$CALLS"' \
	'first	b	one,two	echo b >>"$CALLS"; echo why; [ -e "$CALLS.good" ]' \
	'second c - echo "c $LOG_NAME" >>"$CALLS"'
ok "a case that fails: that is a failure" fails check_all
keep_output
ok "all are run, kernels once and first" ran kernel one a kernel two b "c check-all-c"
ok "a line for what passed" shown '^\[.*\] ok      first a \([0-9]+ s\)$'
ok "a line for what failed" shown '^\[.*\] FAILED  first b \([0-9]+ s\), see build/.*/b.log$'
ok "and why" shown '^        \| why$'
ok "the table has it" shown '^\| first \| b \| failed \| [0-9]+ s \| 20'
ok "the end" shown '^4 passed, 1 failed$'
touch "$CALLS.good"
ok "what failed is run again" check_all
keep_output
ok "and nothing else" ran kernel one kernel two b
ok "what passed is told" shown 'ok      first a \(as before, [0-9]+ s\)$'
ok "the end, without a failure" shown '^5 passed, 0 failed$'
ok "again" check_all
ok "nothing is run" ran
cases_by() { CASES=$1 check_all; }
rm "$STATE"/*.result
ok "a group is chosen" cases_by second
keep_output
ok "and run alone" ran "c check-all-c"
ok "the others have not been" shown '^\| first \| a \| not run \|  \|  \|$'
ok "names are chosen" cases_by "a c"
ok "and run alone, but for what was" ran kernel one a
ok "the rest" check_all

# --- what makes a difference -----------------------------------------------

echo CONFIG_C=y >>"$REPO/scripts/configs/two.config"
CASES=a ok "another fragment, of another kernel" check_all
keep_output
ok "no difference" ran
ok "but to the table" shown '^\| first \| b \| ok before \|'
ok "another fragment" check_all
ok "is run again" ran kernel one kernel two b
sed -i 's/echo a/echo  a/' "$LIST"
ok "another command" check_all
ok "is run again" ran kernel one a
echo 'an edit' >>"$LINUX/mm/slub.c"
ok "another tree" check_all
ok "all is run again" ran kernel one a kernel two b "c check-all-c"
untouched() { [ "$(lgit status --porcelain)" = ' M mm/slub.c' ]; }
ok "the tree is left alone" untouched
lgit commit -qam 'an edit'
ok "the same, committed" check_all
ok "nothing is run" ran

# shellcheck disable=SC2016 # for the cases
cases 'first a - echo a >>"$CALLS"' 'second b - echo b >>"$CALLS"; : scripts/lint.sh compile'
barn() { echo "$1" >>"$LINUX/mm/slab_barn.c"; }
ok "what is built, and looked at" check_all
barn $'/* a comment with an "end */ // and one with /* none\n\n\n'
ok "with other comments" check_all
ok "only what looks at them is run again" ran b
barn 'char name[] = "/* first */";'
ok "with what looks like one" check_all
ok "all is run again" ran a b
sed -i 's/first/second/' "$LINUX/mm/slab_barn.c"
ok "and with another" check_all
ok "too" ran a b
barn $'#define two \\'
ok "with a line to be continued" check_all
ok "too" ran a b
barn ''
ok "by an empty one" check_all
ok "too" ran a b
lgit commit -qam 'comments'
printf '#!/bin/sh\nexit 1\n' >"$DIR/perl"
chmod +x "$DIR/perl"
without_perl() { PATH=$DIR:$PATH check_all; }
ok "who cannot tell comments from code" fails without_perl
ok "takes nothing for run, nor runs it" ran

# shellcheck disable=SC2016 # for the cases
cases 'tools t - echo t >>"$CALLS"' 'first a - echo a >>"$CALLS"'
ok "tests of scripts" check_all
echo '# an edit' >>"$REPO/scripts/run.sh"
ok "with other scripts" check_all
ok "are run again" ran t
mkdir -p "$LINUX/Documentation/mm"
echo 'an edit' >>"$LINUX/Documentation/mm/slab-sheaves.rst"
ok "with other documents" check_all
ok "are run again, and nothing else" ran t
untracked() { [ "$(lgit status --porcelain)" = '?? Documentation/' ]; }
ok "the documents are left alone" untracked
echo 'what was found' >>"$LINUX/Documentation/mm/slab-sheaves-tested.rst"
ok "with what has been found" check_all
ok "nothing is" ran
lgit add -A
lgit commit -qm 'a document'
ok "the same, committed" check_all
ok "nothing is run" ran
# shellcheck disable=SC2016 # for the cases
cases 'first a one echo a >>"$CALLS"; : TOPOLOGY=4cpu scripts/boot.sh one' \
	'cross b - echo b >>"$CALLS"; : scripts/cross.sh one' \
	'cross c - echo c >>"$CALLS"; : scripts/cross.sh -s one' \
	'first d - echo d >>"$CALLS"; : scripts/selftest.sh' 'native e - echo e >>"$CALLS"'
ok "KUnit, kselftests and user space" check_all
mkdir -p "$LINUX/tools/testing/selftests/slab" "$LINUX/tools/include"
echo 'an edit' >>"$LINUX/tools/testing/selftests/slab/sysfs.sh"
ok "with other kselftests" check_all
ok "these are run again, and nothing else" ran c d
mkdir "$LINUX/tools/testing/slab-native"
echo 'an edit' >>"$LINUX/tools/testing/slab-native/Makefile"
ok "with other programs in user space" check_all
ok "these are run again, and nothing else, too" ran e
echo 'an edit' >>"$LINUX/tools/include/atomic.h"
ok "with what kernels are built of in tools" check_all
ok "all is run again" ran kernel one a b c d e
lgit add -A
lgit commit -qm 'tools'
# shellcheck disable=SC2016 # for the cases
cases 'first a - echo a >>"$CALLS"; : scripts/selftest.sh -k one' \
	'first b - echo b >>"$CALLS"; : scripts/selftest.sh stress.sh' \
	'first c - echo c >>"$CALLS"; : TOPOLOGY=events scripts/selftest.sh' \
	'attacks d - echo d >>"$CALLS"'
kselftest() { echo "${2:-an edit}" >>"$LINUX/tools/testing/selftests/slab/$1"; }
kselftest Makefile 'TEST_PROGS := sysfs.sh events.sh stress.sh'
ok "some kselftests" check_all
kselftest sysfs.sh
ok "with another that only one case runs" check_all
ok "that is run again" ran a
kselftest stress.sh
ok "with another that is named" check_all
ok "who names it is run again" ran a b
kselftest events.sh
ok "with another that runs where it makes a difference" check_all
ok "what is run there is run again" ran a c
kselftest functions.sh
ok "with another that all share" check_all
ok "all are run again" ran a b c
mkdir "$LINUX/tools/testing/selftests/slab/test_modules"
kselftest test_modules/slab_heap_bug.c
ok "with another module" check_all
ok "all are run again, and attacks" ran a b c d
lgit add -A
lgit commit -qm 'kselftests'
# shellcheck disable=SC2016 # for the cases
cases 'first a - echo a >>"$CALLS"; : APPEND=kunit.enable=0 scripts/selftest.sh' \
	'first b - echo b >>"$CALLS"; : scripts/selftest.sh' \
	'first c - echo c >>"$CALLS"; : scripts/boot.sh one' \
	'first e - echo e >>"$CALLS"; : APPEND="one=1 kunit.enable=0" scripts/selftest.sh' \
	'attacks d - echo d >>"$CALLS"' 'native f - echo f >>"$CALLS"; : scripts/tests/user.sh' \
	'native g - echo g >>"$CALLS"; : scripts/tests/native.sh' 'models h - echo h >>"$CALLS"'
mkdir -p "$LINUX/lib/tests"
ok "with and without KUnit suites" check_all
echo 'an edit' >>"$LINUX/lib/tests/slab_sheaf_kunit.c"
ok "with another suite" check_all
ok "who has it is run again" ran b c f
echo 'an edit' >>"$LINUX/lib/tests/list_kunit.c"
ok "with another one, of others" check_all
ok "all are run again" ran a b c e d f g h
lgit add -A
lgit commit -qm 'KUnit suites'
# shellcheck disable=SC2016 # for the cases
cases 'first a one echo a >>"$CALLS"'

# shellcheck disable=SC2016 # for the cases
cases 'bisect a - echo a >>"$CALLS"; : scripts/bisect.sh -p 1/2' \
	'bisect b - echo b >>"$CALLS"; : scripts/bisect.sh -p 2/2' 'first c - echo c >>"$CALLS"'
lay() { lgit commit -q --allow-empty "$@" && lgit update-ref refs/sheaves/laid HEAD; }
lay -m 'one more, so that there are two or more'
ok "each commit" check_all
lay --amend -m 'told otherwise'
ok "told otherwise" check_all
ok "nothing is run" ran
echo 'an edit' >>"$LINUX/mm/slub.c"
lay -a --amend --no-edit
ok "with another last commit" check_all
ok "who builds it is run again" ran b c
kselftest stress.sh
lay -a --amend --no-edit
ok "with another kselftest" check_all
ok "no commit is run" ran c
# shellcheck disable=SC2016 # for the case
cases 'first a one echo a >>"$CALLS"'

# --- kernels ---------------------------------------------------------------

again() { rm -f "$STATE"/*.result; CASES=a check_all; }
mkdir -p "$STATE/../obj"
touch "$STATE/../obj/one.broken"
ok "a kernel that does not build" fails again
keep_output
ok "its case is not run" ran kernel one
ok "but fails" shown 'there is no one kernel'
rm "$STATE/../obj/one.broken"
WARNS='../mm/slub.c:3:1: warning: unused' ok "a kernel that warns, where the series changes it" fails again
ok "its case is not run" ran kernel one
mkdir -p "$STATE/../obj/one/mm"
touch "$STATE/../obj/one/mm/slub.o"
ok "a build that warned" again
ok "compiles that anew" [ ! -e "$STATE/../obj/one/mm/slub.o" ]
WARNS='../kernel/fork.c:3:1: warning: unused' ok "a warning elsewhere" again

# What one run has begun to build another does not take for interrupted.
at_once() {
	local -x SLOW_BUILD=2
	local rc=0

	CASES=left "$REPO/scripts/check-all.sh" &
	CASES=right "$REPO/scripts/check-all.sh" || rc=$?
	wait $! && return $rc
}
# shellcheck disable=SC2016 # for the cases
cases 'first left one echo left >>"$CALLS"' 'first right one echo right >>"$CALLS"'
ok "two runs build a kernel one after the other" at_once

# A run that is interrupted leaves nothing behind that counts.
# shellcheck disable=SC2016 # for the case
cases 'first slow - echo slow >>"$CALLS"; sleep "${NAP:-0.1}"' 'first b - echo b >>"$CALLS"'
interrupted() {
	local pid

	: >"$CALLS"
	NAP=60.$$ "$REPO/scripts/check-all.sh" &
	pid=$!
	for _ in $(seq 50); do
		! grep -q slow "$CALLS" || break
		sleep 0.1
	done
	kill "$pid"
	! wait "$pid" && ! pgrep -f "^sleep 60.$$\$"
}
ok "an interrupted run ends" interrupted
ok "and goes on" check_all
ok "with what was interrupted" ran slow b
cases 'first slow - sleep 60'
CASE_LIMIT=1 ok "what hangs, fails" fails check_all

# --- what others have run ----------------------------------------------------

# elsewhere COMMAND...: nothing is known here.
elsewhere() { rm -f "$STATE"/*.result && "$@"; }
resume() { RESUME=1 check_all; }
recorded() {
	echo "wanted: $*"
	cat "$RECORD_FILE"
	[ "$(grep -v '^#' "$RECORD_FILE" | cut -f1 | paste -sd' ')" = "$*" ]
}
# shellcheck disable=SC2016 # for the cases
cases 'first a - echo a >>"$CALLS"' 'first b - echo b >>"$CALLS"; echo "KUnit  x 3 passed 0 failed 2 skipped"' \
	'first c - echo c >>"$CALLS"; [ -e "$CALLS.c" ]'
CASES="b c" ok "two of three, one fails" fails check_all
ok "they are recorded" "$REPO/scripts/check-all.sh" --record
ok "what has passed, and nothing else" recorded b
ok "elsewhere, without being asked" fails elsewhere check_all
ok "all are run" ran a b c
touch "$CALLS.c"
ok "elsewhere, to go on" elsewhere resume
keep_output
ok "the others are run" ran a c
ok "what was recorded is told" shown 'ok      first b \(as before, [0-9]+ s\)$'
ok "all are recorded" "$REPO/scripts/check-all.sh" --record
ok "those of before, too" recorded a b c
ok "elsewhere, to record" elsewhere "$REPO/scripts/check-all.sh" --record
ok "nothing is lost" recorded a b c
counted() { sed -n 's/^b\t.*\t\([0-9]*\t[0-9]*\t[0-9]*\)$/\1/p' "$RECORD_FILE" | grep -xF "3	0	2"; }
ok "nor how many tests" counted
in_page() { grep -qF 'What slab sheaves are tested with' "$REPO/Documentation/mm/slab-sheaves-tested.rst"; }
ok "all is in the page" in_page
sed -i 's/echo a/echo  a/' "$LIST"
ok "elsewhere, to go on, another command" elsewhere resume
ok "is run again" ran a
ok "elsewhere, to record what is of another command" elsewhere "$REPO/scripts/check-all.sh" --record
ok "it does not stay" recorded b c
rm "$RECORD_FILE"
ok "elsewhere, to go on, where nothing is recorded" elsewhere resume
ok "all are run" ran a b c

# --- TAP -------------------------------------------------------------------

tap() { printf '%s\n' "$@" | "$REPO/scripts/check-all.sh" --tap; }
ok "TAP: all is well" tap 'ok - a' 'ok - b'
ok "TAP: a test that failed" fails tap 'ok - a' 'not ok - b'
ok "TAP: no tests" fails tap 'error: nothing'

# --- pairs of options --------------------------------------------------------

configurations() { "$REPO/scripts/kernel.sh" --fragments | python3 -B "$SELF/scripts/configurations.py" "$@"; }
covers() { configurations pairs "$REPO/scripts/configs" "$REPO/scripts/configs/pairs" "$@"; }
# not_covered NAME REGEXP
not_covered() {
	ok "pairs: $1" fails covers "${@:3}"
	keep_output
	ok "pairs: $1: which" shown "$2"
}
pairs 'kernels one two' 'option A' 'option B'
not_covered "not in all ways" '^error: no kernel has A off and B$'
ok "pairs: how many" shown '^2 kernels, 2 options: 2 of 4 pairs of values$'
pairs 'kernels one two' 'option B' 'option C' 'rule C -> !B | mm/Kconfig | SLUB | line'
not_covered "one that a rule forbids is not wanted" '2 options: 2 of 3 pairs'
sed -i '/B=y/d' "$REPO/scripts/configs/one.config"
echo CONFIG_B=y >>"$REPO/scripts/configs/one.config"
printf 'config OTHER\n\tbool "no"\n\nconfig SLUB\n\tdepends on !B\n' >"$LINUX/mm/Kconfig"
pairs 'kernels one two' 'option B' 'option C' 'rule C -> !B | mm/Kconfig | SLUB | depends on !C'
not_covered "a rule that the tree has not" 'mm/Kconfig does not say .depends on !C. of SLUB' "$LINUX"
pairs 'kernels one two' 'option B' 'rule B -> !X | mm/Kconfig | SLUB | depends on !B'
refused "pairs: a rule of what is no option" 'a rule about X, which is no option' covers
pairs 'kernels one two' 'option B' 'option C' 'rule B -> C | mm/Kconfig | SLUB | depends on !B'
refused "pairs: a kernel that cannot be" 'one is what the rules say cannot be' covers
pairs 'kernels one two' 'option B' 'option C' 'broken C -> !B | it hangs'
not_covered "what is broken is not wanted" '2 options: 2 of 3 pairs' "$LINUX"
pairs 'kernels one two' 'option B' 'broken B -> !X | it hangs'
refused "pairs: what is broken is no option" 'a rule about X, which is no option' covers
pairs 'kernels one three' 'option B'
refused "pairs: a kernel that is not there" 'there is no kernel three' covers
pairs 'kernels one two' 'optoin B'
refused "pairs: a word that is none" 'pairs:2: what is .optoin B' covers
pairs 'kernels one two' 'option B' 'has B !A'
not_covered "what is to be had" '^error: no kernel has B and !A$'
pairs 'kernels one two' 'option B|D' 'has B A' 'has A'
mkdir -p "$DIR/obj/two"
echo CONFIG_D=y >"$DIR/obj/two/.config"
ok "pairs: all are covered" covers "$LINUX"
not_covered "a kernel that is built otherwise" '^error: two is built with B or D, ' "$LINUX" "$DIR/obj"

# --- the document --------------------------------------------------------------

pairs 'kernels one two' 'option B' 'option C' 'has A' 'broken B -> !C | it hangs'
# shellcheck disable=SC2016 # for the cases
cases 'configs b-4cpu one TOPOLOGY=4cpu APPEND="x=1 y" scripts/boot.sh -n "$LOG_NAME" one' \
	'configs b-tests two scripts/selftest.sh -k two' 'configs b-none two scripts/boot.sh two' 'other d - true' \
	'cross arm64 - scripts/deps.sh cross && scripts/cross.sh -s arm64' 'cross arm - scripts/cross.sh arm'
for script in boot selftest cross; do
	# shellcheck disable=SC2016 # for the script
	printf '%s\n' '#!/bin/bash' 'cat "$CALLS-$LOG_NAME"' >"$REPO/scripts/$script.sh"
done
printf '#!/bin/bash\n' >"$REPO/scripts/deps.sh"
printf '%s\n' booting 'KUnit  slab_barn  29 passed   0 failed   2 skipped' 'KUnit  slub_test   7 passed   1 failed   0 skipped' \
	>"$CALLS-check-all-b-4cpu"
printf '%s\n' '[ 0:01] ok      4cpu sysfs.sh: 12 passed, 0 failed, 3 skipped' '[ 0:01] FAILED  4cpu x.sh: 1 passed, 2 failed, 0 skipped' \
	>"$CALLS-check-all-b-tests"
printf '%s\n' '          KUnit  slab_barn  30 passed   0 failed   0 skipped' '[ 0:01] ok      arm64 sysfs.sh: 12 passed, 0 failed, 3 skipped' \
	>"$CALLS-check-all-arm64"
CASES="b-4cpu b-tests d arm64" ok "document: what it is of" elsewhere check_all
cp "$(dirname "$STATE")/slab-sheaves-tested.rst" "$DIR/kept"
TODAY=$(sed -n 's/^when \([^ ]*\) .*/\1/p' "$STATE/b-4cpu.result")
# row CELL|CELL...: without what is put around code
row() { grep -v '^$' "$DIR/kept" | sed 's/^ *\(\* \)*- *//; s/``//g' | paste -sd'|' | grep -F -- "$1"; }
ok "document: KUnit" row "|one|4cpu|x=1 y|KUnit|36|1|2|ok, $TODAY|"
ok "document: kselftests" row "|two|4cpu||kselftests|13|2|3|ok, $TODAY|"
ok "document: what was not run" row '|two|4cpu||KUnit||||not run'
ok "document: other architectures" row "|arm64|KUnit, kselftests|42|0|3|ok, $TODAY|arm|KUnit||||not run"
ok "document: all else" row "|other|d|0:00|ok, $TODAY"
ok "document: how many" shown ', 2 of 3'
ok "document: what was left out" shown 'is left out: B with C, where it hangs\.'
ok "document: what kernels have" row '|one|B, A|'
