#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check-all.sh [--list]: all that there is to be checked, which takes a day or more: the cases
# of scripts/check-all.cases, one after the other. What has passed with the same tree, command
# and configurations is not run again; what has failed is. So an interrupted run goes on where it
# was, and after a change to some kernel's configuration the others are left alone. Documents,
# and the scripts here, count in the group `tools' only; what the tree has in tools/, not where
# nothing but a kernel is built and its KUnit suites run; these, not where none of them is;
# kselftests, not in user space, nor where others are run; what is for user space, not for
# kselftests; attacks take the modules alone.
#
#   CASES="stress m-none"   those of these groups, or of these names
#   RESUME=1                go on from scripts/check-all.record, too: what others have run, on
#                           other machines, with the same tree, command and configurations
#
# Needs the laid tree (make tree), what `make check' needs, and what scripts/deps.sh all
# installs. Prints a line a case, with what it took. The logs and the results are in
# build/check-all/. build/check-all.md has the table of all cases, those that were not run
# included; build/slab-sheaves-tested.rst is the document that is made of it. Ends with
# `N passed, N failed'.
#
#   check-all.sh --record   runs nothing: puts what has passed here into scripts/check-all.record,
#                           beside what there is that still holds, and all into the document,
#                           which the next `make tree' lays
#   check-all.sh --tap      copies TAP, fails when a test did, or when there is none

. "$(dirname "$0")/lib.sh"

LIST=${CASES_FILE:-$SCRIPTS/check-all.cases}
DIR=$OUT/check-all
TABLE=$OUT/check-all.md
RST=$OUT/slab-sheaves-tested.rst
RECORD=${RECORD_FILE:-$SCRIPTS/check-all.record}
# Several may run at the same time, with cases of their own.
OUTCOMES=$DIR/outcomes.$$
PAGE=$ROOT/Documentation/mm/${RST##*/}
# What hangs has an end, too: that of the longest case, twice.
LIMIT=${CASE_LIMIT:-43200}
KSELFTESTS=tools/testing/selftests/slab
SUITES='lib/tests/slab_*'
CHOSEN=()
PASSED=0 FAILED=0
CASE_PID=
declare -A KERNEL

tap() {
	awk '{ print } /^ok / { good++ } /^not ok / { bad++ } END { exit bad || !good }'
}

# --- the list -------------------------------------------------------------

# All cases, fields by one tab; the command is the rest of the line.
cases() {
	sed -nE 's/^([^#[:space:]]\S*)\s+(\S+)\s+(\S+)\s+(.*\S)\s*$/\1\t\2\t\3\t\4/p' "$LIST"
}

check_list() {
	local bad

	bad=$(sed -E '/^\s*(#|$)/d' "$LIST" | grep -vE '^\S+\s+\S+\s+\S+\s+\S' | head -n 1 || :)
	[ -z "$bad" ] || die "$(rel "$LIST"): what is \`$bad'?"
	bad=$(cases | cut -f2 | sort | uniq -d | head -n 1)
	[ -z "$bad" ] || die "$(rel "$LIST"): there are two cases $bad"
	bad=$(comm -13 <(cut -d' ' -f1 <<<"$FRAGMENTS" | sort) \
		<(cases | cut -f3 | tr , '\n' | grep -vx -- - | sort -u) | head -n 1)
	[ -z "$bad" ] || die "$(rel "$LIST"): there is no kernel $bad"
}

# Is the case GROUP NAME wanted?
chosen() { [ ${#CHOSEN[@]} -eq 0 ] || [[ " ${CHOSEN[*]} " == *" $1 "* || " ${CHOSEN[*]} " == *" $2 "* ]]; }

check_chosen() {
	local name names

	names=$(cases | cut -f1,2 | tr '\t' '\n')
	for name in "${CHOSEN[@]}"; do
		grep -qxF -- "$name" <<<"$names" ||
			die "CASES: no case or group \`$name', choose groups among $(cases | cut -f1 | uniq | paste -sd' '), see: scripts/check-all.sh --list"
	done
}

# --- what a result is of --------------------------------------------------

# C without comments: neither they nor the empty lines around them are what is run.
code() {
	perl -0777 -pe 's{//(?:\\\n|[^\n])*|/\*.*?\*/|("(?:\\.|[^"\\\n])*"|\x27(?:\\.|[^\x27\\\n])*\x27)}
			{defined $1 ? $1 : " "}gse;
		s/[ \t]+$//gm; s/(?<!\\)\n(?:[ \t]*\n)+/\n/g'
}

# Of what the series adds and changes, only the code stays in the index.
leave_code() {
	local path blob

	git -C "$TREE" diff-index --cached --diff-filter=AM --name-only base -- '*.[ch]' |
		while read -r path; do
			blob=$(git -C "$TREE" cat-file blob ":$path" | code | git -C "$TREE" hash-object -w --stdin)
			printf '100644 %s\t%s\n' "$blob" "$path"
		done | git -C "$TREE" update-index --index-info
}

# Out of the index: -f is for what is code there.
leave_out() { git -C "$TREE" rm -rqf --cached --ignore-unmatch -- "$@"; }

# The tree as it is, edits included, whoever has committed what: with all; without its documents,
# where what is found here ends up, and comments; without what is for user space, or without
# kselftests, and then KUnit suites, too; and without any program, which has comments where these
# are looked at, too.
tree_keys() {
	local -x GIT_INDEX_FILE=$DIR/index.$$

	rm -f "$GIT_INDEX_FILE"
	git -C "$TREE" read-tree HEAD
	git -C "$TREE" add -A
	# it is what comes of all this
	leave_out "Documentation/mm/${RST##*/}"
	TOOLS_KEY=$(git -C "$TREE" write-tree)
	leave_out Documentation MAINTAINERS tools/mm tools/testing
	SOURCE_KEY=$(git -C "$TREE" write-tree)
	git -C "$TREE" read-tree "$TOOLS_KEY"
	leave_out Documentation MAINTAINERS '*.rst'
	leave_code
	TREE_KEY=$(git -C "$TREE" write-tree)
	leave_out 'tools/testing/slab-*'
	SELFTEST_KEY=$(git -C "$TREE" write-tree)
	git -C "$TREE" read-tree "$TREE_KEY"
	leave_out tools/testing/selftests
	USER_KEY=$(git -C "$TREE" write-tree)
	leave_out "$SUITES"
	NATIVE_KEY=$(git -C "$TREE" write-tree)
	git -C "$TREE" read-tree "$USER_KEY"
	leave_out tools/mm tools/testing
	KERNEL_KEY=$(git -C "$TREE" write-tree)
	leave_out "$SUITES"
	ATTACK_KEY=$(git -C "$TREE" write-tree)
	rm -f "$GIT_INDEX_FILE"
}

# kselftests COMMAND: the key of those that it runs, and of all that they share. There are no
# KUnit suites where it has them not run.
kselftests() {
	local -x GIT_INDEX_FILE=$DIR/index.$$
	local name runs out=()

	runs=" $(run_by "$1") "
	while read -r name; do
		[[ "$runs" == *" $name "* ]] || out+=("$KSELFTESTS/$name")
	done < <("$SCRIPTS/selftest.sh" -l)
	[[ ! " $1 " =~ [=\"\ ]kunit\.enable=0[\"\ ] ]] || out+=("$SUITES")
	git -C "$TREE" read-tree "$SELFTEST_KEY"
	[ ${#out[@]} -eq 0 ] || leave_out "${out[@]}"
	git -C "$TREE" write-tree
	rm -f "$GIT_INDEX_FILE"
}

# The key of the modules that attacks load.
attack_modules() { git -C "$TREE" rev-parse -q --verify "$SELFTEST_KEY:$KSELFTESTS/test_modules"; }

# run_by COMMAND: the kselftests that it runs, in a line.
run_by() {
	local args topology=

	read -r -a args <<<"${1##*scripts/selftest.sh}"
	[[ ! "$1" =~ (^| )TOPOLOGY=([a-z0-9-]+)\  ]] || topology=${BASH_REMATCH[2]}
	TOPOLOGY=$topology "$SCRIPTS/selftest.sh" -l "${args[@]}" | paste -sd' '
}

# trees_of COMMAND: what the commits have that it builds, as in KERNEL_KEY.
trees_of() {
	local args commit

	read -r -a args <<<"${1##*scripts/bisect.sh}"
	for commit in base $("$SCRIPTS/bisect.sh" -l "${args[@]}"); do
		tgit ls-tree "$commit" | awk -F'\t' '$2 !~ /^(Documentation|MAINTAINERS|tools)$/'
		tgit ls-tree "$commit" tools/ | awk -F'\t' '$2 !~ /^tools.(mm|testing)$/'
	done
}

# fragments REGEXP: what these kernels are configured with.
fragments() {
	awk -v k="$1" '$1 ~ k { for (i = 2; i <= NF; i++) print $i }' <<<"$FRAGMENTS" |
		(cd "$SCRIPTS/configs" && sed 's/$/.config/' | xargs -r cat)
}

# key GROUP KERNELS COMMAND: changes with all that decides on the outcome; with scripts, patches,
# documents and comments only where it is they that are tested.
key() {
	local kernel

	{
		case "$1 $3" in
		*\ kernel.sh | *scripts/boot.sh* | *scripts/cross.sh\ [!-]* | *mutants.sh | *mutants.sh\ checker)
			echo "$KERNEL_KEY" "$3" ;;
		*scripts/bisect.sh*) echo "$(trees_of "$3")" "$3" ;;
		*scripts/lint.sh\ compile) echo "$SOURCE_KEY" "$3" ;;
		native\ *user.sh*) echo "$USER_KEY" "$3" ;;
		native\ * | models\ *) echo "$NATIVE_KEY" "$3" ;;
		*scripts/selftest.sh*) echo "$(kselftests "$3")" "$3" ;;
		*scripts/cross.sh\ -s*) echo "$SELFTEST_KEY" "$3" ;;
		attacks\ *) echo "$ATTACK_KEY" "$(attack_modules)" "$3" ;;
		*) echo "$TREE_KEY" "$3" ;;
		esac
		[ "$1" != tools ] || echo "$TOOLS_KEY"
		[ "$1" != mutants ] || cat "$SCRIPTS"/tests/{kunit.mutants,mutants.py}
		[ "$1" != cross ] || fragments '^cross-'
		for kernel in ${2//,/ }; do
			[ "$kernel" = - ] || fragments "^$kernel\$"
		done
	} | sha256sum | cut -c1-16
}

# result CASE WORD: what is known of it.
result() { sed -n "s/^$2 //p" "$DIR/$1.result" 2>/dev/null || :; }

# counts LOG: how many tests have passed, failed, and were skipped, where boot.sh and cross.sh
# say so of a suite, or selftest.sh of a test; where TAP does, how many were ok.
counts() {
	awk '/^ *KUnit  / || /^\[ *[0-9:]+\] (ok|FAILED) / {
			for (i = 2; i <= NF; i++) {
				sub(/,$/, "", $i)
				if ($i ~ /^(passed|failed|skipped)$/) n[$i] += $(i - 1)
			}
		}
		/^ok .*# SKIP/ { n["skipped"]++; next }
		/^ok / { n["passed"]++ }
		/^not ok / { n["failed"]++ }
		END { print n["passed"] + 0, n["failed"] + 0, n["skipped"] + 0 }' "$1"
}

# put CASE KEY ok|failed SECONDS WHEN PASSED FAILED SKIPPED: all or nothing.
put() {
	printf '%s\n' "key $2" "result $3" "seconds $4" "when $5" "counts $6 $7 $8" >"$DIR/$1.new.$$"
	mv "$DIR/$1.new.$$" "$DIR/$1.result"
}

# record CASE KEY ok|failed SECONDS
record() {
	local n

	read -r -a n < <(counts "$DIR/$1.log")
	put "$@" "$(date -u '+%F %H:%M')" "${n[@]}"
}

# recall CASE KEY: others have run it, unless it was run here.
recall() {
	local old

	[ -n "$RESUME" ] && [ "$(result "$1" key)" != "$2" ] && [ -e "$RECORD" ] || return 0
	IFS=$'\t' read -r -a old < <(awk -F'\t' -v name="$1" -v key="$2" '$1 == name && $2 == key' "$RECORD") || return 0
	put "${old[@]}"
}

took() {
	if [ "$1" -lt 100 ]; then
		echo "$1 s"
	else
		printf '%d:%02d min' $(($1 / 60)) $(($1 % 60))
	fi
}

# told CASE HOW: a line; what failed shows its end.
told() {
	local name=$1 how=$2

	if [ "$(result "$name" result)" = ok ]; then
		PASSED=$((PASSED + 1))
		say "ok      $how"
	else
		FAILED=$((FAILED + 1))
		say "FAILED  $how, see $(rel "$DIR/$name.log")"
		tail -n 15 "$DIR/$name.log" | sed 's/^/        | /'
	fi
}

# --- kernels ----------------------------------------------------------------

# The C files that the series adds or changes, and what their warnings look like.
series_files() { tgit diff --name-only base HEAD -- '*.c' '*.h'; }
our_warnings() { grep -A5 -E "^([^ ]*/)?($(series_files | sed 's/[.+]/\\&/g' | paste -sd'|')):[0-9:]+ warning:|warning: objtool: .*(slab|sheaf|barn)" "$1"; }

# A build that warned, or was interrupted, has told what only its log had.
build_kernel() {
	[ ! -e "$DIR/kernel-$1.begun" ] || forget_objects "$OBJ/$1"
	touch "$DIR/kernel-$1.begun"
	"$SCRIPTS/kernel.sh" "$1" || return 1
	! our_warnings "$LOGS/kernel-$1.log" || return 1
	rm "$DIR/kernel-$1.begun"
}

# kernel NAME: once in a run, and only if a case is run that needs it; it is a case of its own.
kernel() {
	local name=kernel-$1 t0 how=failed

	if [ -z "${KERNEL[$1]:-}" ]; then
		say "        building the $1 kernel"
		# what has begun is not interrupted, and its log and result are of one run
		lock "check-all-$1" 8
		t0=$SECONDS
		! run_case "$DIR/$name.log" build_kernel "$1" || how=ok
		record "$name" "$(key kernel "$1" kernel.sh)" $how $((SECONDS - t0))
		told "$name" "kernel $1 ($(took $((SECONDS - t0))))"
		exec 8>&-
		KERNEL[$1]=$how
	fi
	[ "${KERNEL[$1]}" = ok ]
}

# --- the cases ----------------------------------------------------------------

stop() {
	[ -z "$CASE_PID" ] || kill -- "-$CASE_PID" 2>/dev/null || :
	rm -f "$OUTCOMES"
}
trap stop EXIT
trap 'exit 130' INT TERM

# In a process group of its own, for stop.
run_case() {
	local log=$1 rc=0

	shift
	set -m
	"$@" >"$log" 2>&1 </dev/null &
	set +m
	CASE_PID=$!
	wait $CASE_PID || rc=$?
	CASE_PID=
	return $rc
}

# From the top, whatever was asked for here.
command_of() { cd "$ROOT" && LOG_NAME=check-all-$1 TREE=$TREE exec timeout -k 60 "$LIMIT" bash -euo pipefail -c "$2"; }

run() {
	local group=$1 name=$2 kernels=$3 command=$4 key kernel t0 how=failed

	key=$(key "$group" "$kernels" "$command")
	recall "$name" "$key"
	if [ "$(result "$name" key)" = "$key" ] && [ "$(result "$name" result)" = ok ]; then
		told "$name" "$group $name (as before, $(took "$(result "$name" seconds)"))"
		return
	fi
	for kernel in ${kernels//,/ }; do
		[ "$kernel" = - ] || kernel "$kernel" || {
			echo "there is no $kernel kernel" >"$DIR/$name.log"
			record "$name" "$key" failed 0
			told "$name" "$group $name"
			return
		}
	done
	t0=$SECONDS
	! run_case "$DIR/$name.log" command_of "$name" "$command" || how=ok
	record "$name" "$key" $how $((SECONDS - t0))
	told "$name" "$group $name ($(took $((SECONDS - t0))))"
}

# What each case came to, a line each with tabs: group, name, key, result (`before' is another
# tree, command or configuration), seconds, when, passed, failed, skipped.
outcomes() {
	local group name kernels command key how n

	while IFS=$'\t' read -r group name kernels command; do
		key=$(key "$group" "$kernels" "$command")
		recall "$name" "$key"
		how=$(result "$name" result)
		[ -z "$how" ] || [ "$(result "$name" key)" = "$key" ] || how="$how before"
		read -r -a n < <(result "$name" counts) || n=(0 0 0)
		printf '%s\t' "$group" "$name" "$key" "${how:-not run}" "$(result "$name" seconds)" "$(result "$name" when)" "${n[0]}" "${n[1]}"
		echo "${n[2]}"
	done < <(cases)
}

table() {
	local group name key how secs when

	echo "| group | case | result | took | when |"
	echo "|-------|------|--------|-----:|------|"
	while IFS='|' read -r group name key how secs when _; do
		echo "| $group | $name | $how | ${secs:+$(took "$secs")} | $when |"
	done < <(tr '\t' '|' <"$OUTCOMES")
}

document() {
	python3 -B "$SCRIPTS/configurations.py" table "$SCRIPTS/configs" \
		"$SCRIPTS/configs/pairs" "$LIST" "$OUTCOMES" "$(make -s -C "$TREE" kernelversion)" <<<"$FRAGMENTS" >"$RST.$$"
	mv "$RST.$$" "$RST"
}

case ${1:-} in
--tap)
	tap
	exit
	;;
--record) RESUME=1 ;;
--list)
	cases | cut -f1-3 | expand -t 12,44
	exit
	;;
'') ;;
*) die "check-all.sh: what is \`$1'? There are --list, --record and --tap, and variables, which its first lines name" ;;
esac
FRAGMENTS=$("$SCRIPTS/kernel.sh" --fragments)
read -r -a CHOSEN <<<"${CASES:-}" || :
RESUME=${RESUME:-}
[[ "$RESUME" =~ ^1?$ ]] || die "RESUME=$RESUME is not 1"
check_list
check_chosen
args_end_here
export -n RESUME
unset CASES TOPOLOGY CPUS APPEND STRESS_SECS STRESS_ALL FAULTS_SECS FAULTS_ALL MAKEFLAGS MAKELEVEL
[ -d "$TREE/.git" ] || die "there is no $(rel "$TREE"), run: make tree"
mkdir -p "$DIR"
tree_keys
TOOLS_KEY+=$(cd "$ROOT" && find scripts patches -type f ! -name '*.pyc' ! -name check-all.record -print0 | sort -z | xargs -0 sha256sum | sha256sum)
if [ "${1:-}" = --record ]; then
	outcomes >"$OUTCOMES"
	{
		echo "# SPDX-License-Identifier: GPL-2.0"
		echo "# By check-all.sh --record: case, key, result, seconds, when; tests passed, failed, skipped"
		awk -F'\t' -v OFS='\t' '$4 == "ok" { print $2, $3, $4, $5, $6, $7, $8, $9 }' "$OUTCOMES"
	} >"$RECORD.$$"
	mv "$RECORD.$$" "$RECORD"
	document
	mkdir -p "${PAGE%/*}"
	cp "$RST" "$PAGE"
	say "$(grep -vc '^#' "$RECORD" || :) of $(cases | wc -l) cases have passed: $(rel "$RECORD"), $(rel "$PAGE")"
	exit
fi
while IFS=$'\t' read -r group name kernels command; do
	! chosen "$group" "$name" || run "$group" "$name" "$kernels" "$command"
done < <(cases)

outcomes >"$OUTCOMES"
table >"$TABLE.$$"
mv "$TABLE.$$" "$TABLE"
echo
cat "$TABLE"
document
say "        the table is $(rel "$TABLE"), the document $(rel "$RST")"
echo "$PASSED passed, $FAILED failed"
[ $FAILED -eq 0 ]
