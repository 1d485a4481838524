#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of what make says to wrong arguments: one line, before anything is installed
# or built. On a small fake kernel; prints TAP.

. "$(dirname "$0")/lib.sh"

unset ARCHS MUTANTS BENCH ROUNDS PEER FIXED OURS RESULTS STRESS_SECS STRESS_ALL FAULTS_SECS FAULTS_ALL CHECK_SECS COMMITS CONFIG LOCALMOD LSMOD TESTS DEBUG_INFO SUITE KSELFTESTS KDEB_COMPRESS AM_TO SUITES STEPS JOBS MAKEFLAGS MAKELEVEL GIVEN
fake_repo
unset KERNEL_SRC
cp "$SELF/Makefile" "$REPO/"
# What installs, lays and builds says so, once it may.
cat >"$REPO/scripts/deps.sh" <<-EOF
	#!/bin/bash
	echo "\$*" >>"$DIR/installed"
	exit 1
EOF
printf 'CONFIG_MODULES=y\n' >"$DIR/config"
printf 'Module                  Size  Used by\next4 1 2 -\nsnd_hda-intel 3 0\n' >"$DIR/lsmod"
# where the tree of this machine's kernel would be
mv "$LINUX" "$DIR/laid"

run_make() { make -C "$REPO" "$@" </dev/null; }
# wrong NAME REGEXP GOAL ARGUMENT...
wrong() {
	rm -f "$DIR/installed"
	refused "args: $1" "$2" run_make "${@:3}"
	ok "args: $1: and nothing was done" [ ! -e "$DIR/installed" ]
}
# They get as far as installing.
right() {
	rm -f "$DIR/installed"
	run_make "${@:2}" 2>"$DIR/err" || :
	cat "$DIR/err"
	[ -e "$DIR/installed" ] && ! grep '^error: ' "$DIR/err"
}
takes() { ok "args: $1" right "$@"; }

all_wrong() {
	wrong "a topology" 'no topology .foo., choose .*4cpu.*memoryless' run TOPOLOGY=foo
	wrong "a size of the guest" 'MEMORY=12x is not a number of MiB' run MEMORY=12x
	wrong "no number of CPUs" 'CPUS=two is not a number' boot CPUS=two
	wrong "too many CPUs" 'CPUS=65 is more than the 64' shell CPUS=65
	wrong "a configuration" 'no kernel configuration .foo., choose guest, .* or native-hardened' kernel CONFIG=foo
	wrong "a pattern as configuration" 'no kernel configuration .g.\*t.' run 'CONFIG=g.*t'
	wrong "jobs" 'JOBS=all is not a number' tree JOBS=all
	wrong "a tree that is none" "KERNEL_SRC=.*/none is not a directory" run KERNEL_SRC="$DIR/none"
	wrong "a tree of something else" 'is not a kernel tree' run KERNEL_SRC="$DIR"
	wrong "rounds" 'ROUNDS=100 is not a number from 1 to 99' bench ROUNDS=100
	wrong "rounds of bench-native" 'ROUNDS=many is not a number from 1 to 999' bench-native ROUNDS=many
	wrong "a group" 'BENCH: no group .foo., choose among one_thread' bench BENCH=bulk,foo
	wrong "no group at all" 'BENCH=, names no group' bench BENCH=,
	wrong "a group of bench-native" 'BENCH: no group .remote., choose among .*pairs' bench-native BENCH=remote
	wrong "fixed sizes" 'FIXED=2 is not 1' bench FIXED=2
	wrong "hardened or not" 'HARDENED=yes is not 1' bench HARDENED=yes
	wrong "hardened or not of bench-native" 'HARDENED=0 is not 1' bench-native HARDENED=0
	wrong "small or not of bench-native" 'SMALL=yes is not 1' bench-native SMALL=yes
	wrong "small and hardened" 'SMALL=1 goes without HARDENED=1' bench-native SMALL=1 HARDENED=1
	wrong "counted or not of bench-native" 'COUNT=yes is not 1' bench-native COUNT=yes
	wrong "a case that is not counted" 'CASE=64 goes with COUNT=1' bench-native CASE=64
	wrong "a view of attacks" 'VIEW=foo is neither debug nor check' attacks VIEW=foo
	wrong "what finds no bugs" 'WITH: no .foo., choose among slub_debug' attacks VIEW=debug WITH=foo
	wrong "what finds bugs, without a view" 'WITH=kasan is for VIEW=debug' attacks WITH=kasan
	wrong "a peer" 'PEER=seven is not a kernel version' bench PEER=seven
	wrong "a file for the results" 'RESULTS=.*Makefile is not a directory' bench RESULTS="$REPO/Makefile"
	wrong "to go on, in another word" 'RESUME=yes is not 1' check-all RESUME=yes
	wrong "commits that cannot be any" 'COMMITS: .--all. does not name a commit' bisect COMMITS=--all
	wrong "no repository for git am" 'AM_TO=/nowhere is not a git repository' series AM_TO=/nowhere
	wrong "seconds" 'STRESS_SECS=0 is not a number of seconds' selftest STRESS_SECS=0
	wrong "seconds of faults" 'FAULTS_SECS=1h is not a number of seconds' selftest FAULTS_SECS=1h
	wrong "seconds for all tests" 'CHECK_SECS=1h is not a number of seconds' check CHECK_SECS=1h
	wrong "all or not of stress" 'STRESS_ALL=yes is not 1' selftest STRESS_ALL=yes
	wrong "all or not of faults" 'FAULTS_ALL=yes is not 1, nor a part' selftest FAULTS_ALL=yes
	wrong "a machine for the selftests" 'no topology .3node. for selftests' selftest TOPOLOGY="2node 3node"
	wrong "a release" 'SUITES: no .sid., choose among bookworm trixie' fresh SUITES="sid trixie"
	wrong "a command for the releases" 'STEPS: no .bench., choose among run check' fresh STEPS=bench
	wrong "a real program" 'CASES: no .nope., choose among true' bench-real CASES=nope
	wrong "a machine for real programs" 'MACHINES: no .3cpu., choose among' run MACHINES=3cpu
	wrong "nothing to profile" 'CASE= is not given' profile
	wrong "a case or a group of all" 'CASES: no case or group .redis., choose groups among tools' check-all CASES="configs redis"
	wrong "an architecture" 'ARCHS: no .sparc., choose among arm64-4k .*s390x' cross ARCHS="arm sparc"
	wrong "an architecture as a configuration" 'no kernel configuration .cross-arm., choose guest' run CONFIG=cross-arm
	wrong "mutants" 'MUTANTS=some is not numbers and ranges' mutants MUTANTS=some
	wrong "a configuration for packages" 'no kernel configuration .foo., choose running, debian, .* or native-hardened' deb CONFIG=foo
	wrong "a configuration that is no file" 'CONFIG=/none is not a file that can be read' deb CONFIG=/none
	wrong "a configuration that is a directory" 'CONFIG=.*/ is not a file that can be read' deb CONFIG="$DIR/"
	wrong "a configuration that is something else" 'CONFIG=.*Makefile is not a kernel configuration' deb CONFIG="$REPO/Makefile"
	wrong "a configuration of packages elsewhere" 'no kernel configuration .debian., choose guest' run CONFIG=debian
	wrong "two configurations for packages" 'no kernel configuration .guest, hardened., choose' deb CONFIG="guest, hardened"
	wrong "packages by another compiler" 'CONFIG=bench-kmsan is for clang' deb CONFIG=bench-kmsan
	wrong "how packages are compressed" 'KDEB_COMPRESS=lz4 is none of' deb CONFIG=guest KDEB_COMPRESS=lz4
	wrong "some modules" 'LOCALMOD=yes is neither 0 nor 1' deb CONFIG=guest LOCALMOD=yes
	wrong "a list of modules that is none" 'LSMOD=.*/none is not a file' deb CONFIG=guest LSMOD="$DIR/none"
	wrong "a list of something else" 'LSMOD=.*Makefile is not what lsmod prints: # SPDX' deb CONFIG=guest LSMOD="$REPO/Makefile"
	wrong "tests or not" 'TESTS=all is neither 0 nor 1' deb CONFIG=guest TESTS=all
	wrong "debug information or not" 'DEBUG_INFO=y is neither 0 nor 1' deb CONFIG=guest DEBUG_INFO=y
	wrong "a Debian to try them in" 'SUITE=sid is neither trixie nor bookworm' deb-try CONFIG=guest SUITE=sid
	wrong "a name that nobody knows" 'there is no argument TOPOLGY=' run TOPOLGY=2node
	wrong "a shell without a terminal" 'a shell needs a terminal' shell
}
all_right() {
	takes "none" run
	takes "a size of the guest" run MEMORY=2048
	takes "a topology and a configuration" run TOPOLOGY=memonly CONFIG=isolated 'APPEND=a="b c" d'
	takes "CPUs, and those of the kernel's limit" boot CPUS=64
	takes "the benchmarks'" bench BENCH=bulk,kmalloc ROUNDS=99 PEER=7.2 RESULTS="$DIR/results"
	takes "what one script alone takes" selftest LIMIT=9000 DRGN=drgn HERD7=herd7
	takes "those of bench-native" bench-native BENCH=pairs ROUNDS=999
	takes "those of bench-real" bench-real CASES=redis,sqlite3 MACHINES=1cpu ROUNDS=2
	takes "a group and a case of all" check-all CASES="tools m-none"
	takes "those of profile" profile CASE=redis TOPOLOGY=4cpu LOCKS=1
	takes "those of attacks" attacks VIEW=debug PEER=7.2
	takes "some of what finds bugs" attacks VIEW=debug WITH="kasan kfence"
	takes "machines for the selftests" selftest TOPOLOGY="4cpu isolated" STRESS_SECS=5
	takes "architectures" cross ARCHS="arm64-64k s390x-checked"
	takes "a tree" kernel KERNEL_SRC="$DIR/src" JOBS=3
	takes "a commit that is yet to be laid" bisect COMMITS=1234567
	takes "where to try the series" series AM_TO="$DIR/laid"
	takes "those of deb" deb CONFIG="$DIR/config" LSMOD="$DIR/lsmod" TESTS=0 DEBUG_INFO=1 JOBS=2
	takes "a name of deb" deb CONFIG=hardened
	takes "those of deb-try" deb-try CONFIG=debian LSMOD="$DIR/lsmod" SUITE=bookworm
	takes "releases" fresh SUITES=trixie STEPS=run
}
all_wrong
all_right

# With a tree it is known which commits there are.
mv "$DIR/laid" "$REPO/build/linux"
LINUX=$REPO/build/linux
takes "commits of the series" bisect COMMITS="HEAD HEAD^"
wrong "a commit that is none" '1234567 is no commit of the series' bisect COMMITS="HEAD 1234567"
wrong "the base is none of the series" 'base is no commit of the series' bisect COMMITS=base
wrong "no commit to measure" 'OURS=1234567 is no commit of' bench OURS=1234567
takes "a commit to measure" bench OURS=HEAD^
# all of them, in order, none twice; with more parts than commits, too
parts() {
	local n m

	for m in 1 2 7; do
		[ "$(for ((n = 1; n <= m; n++)); do "$REPO/scripts/bisect.sh" -l -p $n/$m; done)" = \
			"$(lgit rev-list --reverse base..HEAD)" ] || { echo "of $m parts"; return 1; }
	done
}
ok "args: the parts of the series are the series" parts
no_part() {
	local part

	for part in 3/2 0/2 2 x; do
		! "$REPO/scripts/bisect.sh" -l -p $part 2>"$DIR/err" || return 1
		grep -F "\`$part' is no part" "$DIR/err" || return 1
	done
	! "$REPO/scripts/bisect.sh" -l -p 1/2 HEAD 2>"$DIR/err" && grep -q 'takes no commits' "$DIR/err"
}
ok "args: what is no part is told" no_part

# A word that a script does not know is not passed over: `clean.sh --help' removes nothing.
no_word() {
	local script

	for script in "$@"; do
		! ARGS_ONLY=1 "$REPO/scripts/$script.sh" --help 2>"$DIR/err" || { echo "$script.sh takes --help"; return 1; }
		grep -F "error: $script.sh: what is \`--help'" "$DIR/err" || { cat "$DIR/err"; return 1; }
	done
	[ -e "$LINUX/.git" ]
}
ok "args: a word where there are only variables is told, and nothing done" no_word \
	bases bench bench-real check check-all clean docs fresh lint profile refresh run series tree
laid_before=$(lgit rev-parse HEAD)
echo 'int more;' >>"$REPO/mm/slab_barn.c"
# the tree moves with `make tree' only
next=$("$REPO/scripts/tree.sh" --hash)
takes "a commit of the series as it will be" bisect COMMITS="$next"
unmoved() { [ "$laid_before" = "$(lgit rev-parse HEAD)" ] && [ "$next" != "$laid_before" ]; }
ok "args: and the tree has not moved" unmoved

# Documents name what there is, and all of it.
documented() {
	local name names

	names=$("$SELF/scripts/kernel.sh" --list | sed 's/ or /, /; s/,//g')
	# the first column of the table of kernels
	while read -r name; do
		[[ " $names " == *" $name "* ]] || { echo "README.md has $name"; return 1; }
	done < <(sed -nE 's/^\| \x60([a-z-]+)\x60 +\| .*/\1/p' "$SELF/README.md")
	while read -r _ name _; do
		grep -qE "^\| .$name. +\|" "$SELF/README.md" || { echo "README.md lacks $name"; return 1; }
	done < <(grep '^kernel [a-z]' "$SELF/scripts/check.sh")
	run_make help | grep -F "$("$SELF/scripts/kernel.sh" --list)" && run_make help | grep -F memonly
}
ok "args: README and help name the configurations" documented
same_groups() {
	local shell python

	shell=$(BENCH=none ARGS_ONLY=1 "$SELF/scripts/bench-native.sh" 2>&1 | sed 's/.*among //' | tr ' ' '\n' | sort)
	python=$(python3 -B "$SELF/scripts/bench/native.py" --groups none a=1=/bin/true 2>&1 | sed 's/.*among //' | tr ' ' '\n' | sort)
	echo "$shell" / "$python"
	[ -n "$shell" ] && [ "$shell" = "$python" ]
}
ok "args: bench-native knows the groups of its program" same_groups
