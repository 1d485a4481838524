#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of make bench without any kernel: what it refuses, how it judges what a guest
# prints, the figures and the tables made of that, and a whole run in which a kernel
# and a guest are made up. Prints TAP.

. "$(dirname "$0")/lib.sh"

unset BENCH ROUNDS PEER FIXED OURS RESULTS SLAB_BENCH
COLLECT=$SELF/scripts/bench/collect.py
REPORT=$SELF/scripts/bench/report.py
collect() { python3 -B "$COLLECT" "$@"; }

# --- what a guest prints -------------------------------------------------

# results GROUP CASE NS...: a round for each figure, of a thousand objects.
results() {
	local group=$1 case=$2 ns round=0

	shift 2
	for ns; do
		printf 'slab_bench: {"group":"%s","case":"%s","round":%d,"objects":1000,"ns":%d,"counters":{"alloc_slowpath":%d}}\n' \
			"$group" "$case" $round "$ns" $round
		round=$((round + 1))
	done
}

ktap_begin() {
	printf '%s\n' 'KTAP version 1' 1..1 '    KTAP version 1' '    # Subtest: slab_bench' 1..2 \
		'        KTAP version 1' '        # Subtest: bulk'
}

ktap_end() {
	printf '%s\n' '        ok 1 size=64' '    ok 1 bulk' '        KTAP version 1' \
		'        # Subtest: kmalloc_test' '        ok 1 size=8 # SKIP no such size' \
		'        ok 2 size=16 # SKIP group kmalloc is not chosen' '    ok 2 kmalloc_test' 'ok 1 slab_bench'
}

RAW=$DIR/raw
# good [NS...]
good() {
	ktap_begin
	results bulk size=64 100 101 102 "$@"
	ktap_end
}
keep_output() { mv "$DIR/out" "$DIR/kept"; }
shown() { grep -F -- "$1" "$DIR/kept"; }
judge() { collect check "$RAW" "${1:-bulk}" "${2:-3}"; }

good >"$RAW"
ok "check: a good run" judge
keep_output
ok "check: and says what it has" shown '1 cases, 1 skipped'
good | sed 's/^\( *\)ok 1 size=64/\1not ok 1 size=64/' >"$RAW"
refused "check: a case that fails" 'these failed: size=64' judge
good | grep -v 'ok 1 slab_bench' >"$RAW"
refused "check: a run that did not end" 'did not run to their end' judge
good | grep -v '"round":1' >"$RAW"
refused "check: a round that is missing" 'bulk, size=64: rounds \[0, 2\] instead of 3' judge
good >"$RAW"
refused "check: a group without results" 'the group pairs gave no results' judge bulk,pairs
refused "check: a group that was not asked for" 'group bulk, which was not asked for' judge pairs
good | sed 's/"ns":101,/"ns":101/' >"$RAW"
refused "check: a line that is cut" 'line [0-9]+ is not a result \(no JSON\)' judge
good | sed 's/"objects":1000/"objects":0/' >"$RAW"
refused "check: no objects" 'is not a result \(objects is 0\)' judge
: >"$RAW"
refused "check: no output" 'did not run to their end' judge
ublk() {
	printf '{"group":"ublk","case":"one-node","round":%d,"iops":%d,"counters":{"sheaf_refill":5}}\n' 1 "$1" 2 "$2"
}
ublk 1000 2000 >"$RAW"
ok "check: the selftest counts from 1, and has no verdict" judge ublk 2

figures() {
	printf '{"group":"rcuscale","case":"1 thread","round":%d,"objects":1000,"ns":500000}\n' 0 1
	printf '{"group":"rcuscale","case":"1 thread, footprint","round":%d,"objects":1,"value":%d,"unit":"MB"}\n' 0 "$1" 1 "$1"
}
figures 0 >"$RAW"
ok "check: what is not time, and of a script" judge rcuscale 2
figures -1 >"$RAW"
refused "check: less than nothing" 'is not a result \(value is -1\)' judge rcuscale 2
figures 1 | sed 's/"MB"/""/' >"$RAW"
refused "check: a value of nothing" "is not a result \(unit is ''\)" judge rcuscale 2
figures 1 | sed 's/rcuscale/flood/' >"$RAW"
refused "check: a suite ends with its verdict" 'did not run to their end' judge flood 2

# memory [NAME VALUE]: of the guest's script
memory() {
	printf '{"group":"memory","case":"%s, at the end","round":0,"objects":1,"value":%d,"unit":"kB","counters":{}}\n' \
		Slab "${1:-1000}" "free in sheaves" "${2:-50}"
}
memory >"$RAW"
ok "check: memory has no verdict" judge memory 1
refused "check: nor more than one round" 'rounds \[0\] instead of 2' judge memory 2
memory | sed 's/memory/mempools/' >"$RAW"
refused "check: mempools are the suite's, which has one" 'did not run to their end' judge mempools 1

# --- figures -------------------------------------------------------------

D=$DIR/figures
RESULT=$D/results.json
mkdir -p "$D/raw" "$D/configs"
for k in base ours peer; do
	printf 'kernels.%s.version\t6.12\nkernels.%s.what\tmade up\n' $k $k
done >"$D/meta"
printf '%s\t%s\n' date 2026-11-21 command 'make bench' guests 2 rounds_per_guest 3 ublk_rounds_per_guest 2 scenes_rounds_per_guest 3 hotplug_rounds_per_guest 3 qemu QEMU host.cpu CPU \
	host.cpus 2 host.kernel Linux host.load 0 >>"$D/meta"
printf 'CONFIG_%s\n' SLUB=y SLUB_CPU_PARTIAL=y USB=y >"$D/configs/bench.base"
printf 'CONFIG_%s\n' SLUB=y >"$D/configs/bench.ours"
printf 'CONFIG_%s\n' SLUB=y >"$D/configs/bench.peer"
# guest ROUND KERNEL, after which there are results: the output of this guest
guest() {
	{
		echo '[ 0:00] booting bench: 1 CPU, under TCG (to count instructions)'
		ktap_begin
		cat
		ktap_end
	} >"$D/raw/$1.1cpu.$2.suite"
}
{ results bulk size=64 100000 100000 100000; results bulk size=128 200000 200000 200000; results bulk '<&>' 1000 1000 1000; } | guest 0 base
{ results bulk size=64 104000 104000 200000; results bulk size=128 200000 200000 200000; results bulk '<&>' 1000 1000 1000; } | guest 1 base
{ results bulk size=64 103000 103000 103000; results bulk size=128 220000 220000 220000; results bulk '<&>' 1000 1000 1000; } | guest 0 ours
{ results bulk size=64 103000 103000 103000; results bulk size=128 220000 220000 220000; results bulk '<&>' 1000 1000 1000; } | guest 1 ours
{ results bulk size=64 51000 51000 51000; } | guest 0 peer
ublk 10000 10000 >"$D/raw/0.4cpu.base.ublk"
ublk 20000 20000 >"$D/raw/0.4cpu.ours.ublk"
for k in base ours; do
	{
		echo '[ 0:00] booting bench: 4 CPUs, under TCG (to count instructions)'
		if [ $k = base ]; then figures 40; else figures 60; fi
	} >"$D/raw/0.4cpu-counted.$k.rcuscale"
done

memory 4000 | head -n 1 >"$D/raw/0.4cpu-2g.base.memory"
memory 5000 >"$D/raw/0.4cpu-2g.ours.memory"
memory 10000 | head -n 1 >"$D/raw/0.4cpu-2g.peer.memory"

write() { collect write "$D" && python3 -B "$REPORT" "$D"; }
ok "write: results and tables" write
value() {
	python3 - "$RESULT" "$1" "$2" <<-'END'
		import json, sys
		data = json.load(open(sys.argv[1], encoding="utf-8"))
		case = {c["case"]: c["kernels"] for c in data["cases"]}
		got = eval(sys.argv[2], {"case": case, "data": data})
		print(got)
		sys.exit(str(got) != sys.argv[3])
	END
}
ok "write: a figure is the median of the guests' medians" value 'case["size=64"]["base"]["ns_per_object"]' 102.0
ok "write: the spread is that of the guests, not of the rounds" \
	value 'round(case["size=64"]["base"]["spread"], 3)' 0.039
ok "write: the raw rounds are kept" value 'case["size=64"]["base"]["rounds"]["ns"]' \
	'[[100000, 100000, 100000], [104000, 104000, 200000]]'
ok "write: counters are per million objects" \
	value 'case["size=64"]["ours"]["counters_per_million"]["alloc_slowpath"]' 1000.0
ok "write: IOPS become time" value 'case["one-node"]["ours"]["ns_per_object"]' 50000.0
ok "write: what differs in the configuration" value 'data["config_differences"]["bench"]' \
	"[{'symbol': 'SLUB_CPU_PARTIAL', 'base': 'y', 'ours': 'n', 'peer': 'n'}]"
ok "write: what was skipped" value 'len(data["skipped"])' 3
write >"$DIR/tables"
table_has() { grep -qE "$1" "$DIR/tables" || { cat "$DIR/tables" && false; }; }
ok "report: within the spread is not behind" table_has '^\| size=64 .*\| +1\.010 \? \|'
ok "report: beyond it is" table_has '^\| size=128 .*\| +1\.100 ! \|'
ok "report: a kernel without the case" table_has '^\| size=128 .*\| +- \|'
ok "report: what is not time has its unit" \
	table_has '^\| 1 thread, footprint \[MB\] \| +40\.0 \| +60\.0 \| +- \| +1\.500 ! \|'
ok "report: waiting is no instruction" table_has 'In ns per object, by a clock that'
ok "report: memory, and its ratios to base and to the peer" \
	table_has '^\| Slab, at the end \[kB\] +\| +4000\.0 \| +5000\.0 \| 10,000 \| +1\.250 ! \| +2\.500   \| +0\.500   \|'
ok "report: what only ours can tell" \
	table_has '^\| free in sheaves, at the end \[kB\] \| +- \| +50\.0 \| +- \| +-   \|'
ok "report: no time at all" table_has 'In the unit that stands beside each\.'
ok "report: how many are behind" table_has 'behind base by more than the spread in 3 of 7 cases:'
ok "report: and which" table_has '^- bulk: size=128, 1\.100 '
ok "report: instructions are called so" table_has 'In instructions per object'
ok "report: IOPS are shown as they are, the ratio is that of time" \
	table_has '^\| one-node \| +10,000 \| +20,000 \| +- \| +0\.500   \|'
ok "report: counters where there is no exact time" table_has '^\| one-node \| sheaf_refill \| +5 \|'
charts() {
	python3 -c 'import sys, xml.dom.minidom
for f in sys.argv[1:]: xml.dom.minidom.parse(f)' "$D"/chart-bulk.svg "$D"/chart-ublk.svg
}
ok "report: the charts are XML" charts

# --- a whole run ---------------------------------------------------------

fake_repo
mkdir -p "$REPO/lib/tests"
bench() { "$REPO/scripts/bench.sh"; }
ROUNDS=0 refused "bench: ROUNDS=0" 'ROUNDS=0 is not a number' bench
ROUNDS=x refused "bench: ROUNDS= that is no number" 'ROUNDS=x is not a number' bench
PEER=next refused "bench: PEER= that is no version" 'PEER=next is not a kernel version' bench
BENCH=bulk,all refused "bench: an unknown group" 'BENCH: no group .all., choose among one_thread' bench
BENCH=, refused "bench: no group at all" 'BENCH=, names no group' bench
BENCH=ublk refused "bench: ublk without the selftest" 'the tree has no tools/testing/selftests/slab/ublk_null.sh' bench
OURS=other refused "bench: OURS= that is no commit" 'OURS=other is no commit' bench
BENCH=bulk refused "bench: without the benchmarks" 'there are no benchmarks to run' bench

echo 'int bench;' >"$REPO/lib/tests/slab_bench_kunit.c"
OUT=${LINUX%/linux}
P=$OUT/bench/peer/linux
fake_kernel "$P" 7 2
mkdir -p "$P/lib/tests"
echo '# KUnit' >"$P/lib/tests/Makefile"
lays_once() {
	"$REPO/scripts/bench/lay.sh" peer && "$REPO/scripts/bench/lay.sh" peer &&
		[ "$(cat "$P/lib/tests/slab_bench_kunit.c")" = 'int bench;' ] &&
		[ "$(grep -c slab_bench "$P/lib/Makefile")" -eq 1 ] &&
		[ "$(grep -c '^config SLAB_BENCH' "$P/lib/Kconfig.debug")" -eq 1 ]
}
ok "lay: once" lays_once
knows() {
	echo 'config SLAB_BENCH_KUNIT_TEST' >"$P/mm/Kconfig"
	rm "$P/lib/Kconfig.debug" "$P/lib/Makefile"
	echo 'obj-m += slab_bench_kunit.o' >"$P/lib/tests/Makefile"
	"$REPO/scripts/bench/lay.sh" peer && [ ! -e "$P/lib/Makefile" ] && [ ! -e "$P/lib/Kconfig.debug" ]
}
ok "lay: a tree that has them keeps its own" knows

# Kernels and guests that take no time; each of them leaves a line.
CALLS=$DIR/calls
stub() {
	printf '#!/bin/bash\n%s\n' "$2" >"$REPO/scripts/$1"
	chmod +x "$REPO/scripts/$1"
}
# shellcheck disable=SC2016 # for the stubs
{
	stub peer.sh 'echo peer "$1" >>'"$CALLS"'; echo linux-source-7.2_7.2.13-1_all.deb >'"$OUT/bench/peer/package"
	stub kernel.sh 'mkdir -p "$2/obj/${@: -1}/lib/tests"
		echo CONFIG_SLUB=y >"$2/obj/${@: -1}/.config"
		echo >"$2/obj/${@: -1}/lib/tests/slab_bench_kunit.ko"
		echo "kernel ${2##*/} ${@:3}" >>'"$CALLS"
	stub guest.sh 'echo "${CPUS:-$TOPOLOGY}${APPEND:+ $APPEND} $*" | sed "s,/[^ ]*/,,g" >>'"$CALLS"'
		[ ! -s '"$DIR/crashes"' ] || {
			sed -i 1d '"$DIR/crashes"'
			[ -s '"$DIR/crashes"' ] || echo "error: QEMU died" >&2
			exit 3
		}
		[ ! -e '"$DIR/fails"' ] || { echo "not ok 1 size=64"; echo "error: made up" >&2; exit 1; }
		echo "[ 0:00] booting bench: 1 CPU, under TCG (made up)"; cat '"$RAW"
}
good 103 104 >"$RAW"
keep() { ls -A "$OUT/bench"; find "$DIR/results" -type f | sort | xargs -r cat; }
whole() {
	: >"$CALLS"
	ROUNDS=2 PEER=7.2 BENCH=bulk RESULTS=$DIR/results bench
}
ok "bench: a whole run" whole
keep_output
ok "bench: prints the table" shown '| size=64 | 0.10 | 0.10 | 0.10 |   1.000   |'
ok "bench: and how far it is" shown '9/9 round 2/2: peer on 1cpu, bulk'
calls() { sed "s/^/$1 /" "$CALLS" && [ "$(sed -n "$2p" "$CALLS")" = "$3" ]; }
ok "bench: builds the base" calls '' 2 'kernel base bench'
ok "bench: lets the peer not know symbols" calls '' 4 'kernel peer -u bench'
turns() { [ "$(sed -n 's/.* -n bench-\([0-9]\)-1cpu-\([a-z]*\) .*/\1\2/p' "$CALLS" | paste -sd' ')" = '0base 0ours 0peer 1base 1ours 1peer' ]; }
ok "bench: boots by turns" turns
files() {
	[ "$(cd "$DIR/results" && echo *)" = 'chart-bulk.svg configs counters.md results.json results.md' ] &&
		[ "$(cd "$DIR/results/configs" && echo *)" = 'bench.base bench.ours bench.peer' ]
}
ok "bench: writes all of it" files
fixed() {
	: >"$CALLS"
	ROUNDS=1 FIXED=1 BENCH=bulk RESULTS=$DIR/fixed bench
}
ok "bench: with sizes that do not follow the load" fixed
keep_output
ok "bench: that is a column of its own" shown '| ours/base | ours/fixed | spread |'
of_ours() {
	cat "$CALLS"
	[ "$(grep -c '^kernel' "$CALLS")" -eq 2 ] &&
		[ "$(grep 'slab_sheaf.feedback=none' "$CALLS" | grep -o 'bench-0-1cpu-[a-z]* .*-d [a-z]*')" = \
			"$(grep -o 'bench-0-1cpu-fixed .*-d ours' "$CALLS")" ]
}
ok "bench: and our kernel, told so" of_ours
hardened() {
	: >"$CALLS"
	ROUNDS=1 HARDENED=1 BENCH=bulk RESULTS=$DIR/hardened bench
}
ok "bench: hardened" hardened
keep_output
ok "bench: which is compared with what it would be" shown '| ours/base | hardened/ours | spread |'
of_hardened() {
	cat "$CALLS"
	[ "$(sed -n 's/^kernel ours \(.*\)/\1/p' "$CALLS" | paste -sd' ')" = 'bench bench-hardened' ] &&
		grep -q 'bench-0-1cpu-hardened .*-d ours .*bench-hardened' "$CALLS"
}
ok "bench: it is our kernel, configured so" of_hardened
# The guest has no figures of remote. Two kernels, each for both groups, and one more; three
# guests for bulk, and twice two.
counted_only() {
	ROUNDS=1 HARDENED=1 BENCH=bulk,remote RESULTS=$DIR/hardened bench >"$DIR/counted" 2>&1
	grep '1/12 building' "$DIR/counted" || { cat "$DIR/counted"; return 1; }
}
ok "bench: only where instructions are counted" counted_only
RESULT=$DIR/results/results.json
ok "bench: knows the peer" value 'data["kernels"]["peer"]["what"]' \
	"mainline's sheaves, linux-source-7.2_7.2.13-1"
printf '%s\n' once twice >"$DIR/crashes"
ok "bench: a guest whose QEMU crashes gets another one" whole
printf '%s\n' once twice thrice >"$DIR/crashes"
refused "bench: but not for ever" 'QEMU died' whole
rm "$DIR/crashes"
mkdir -p "$OUT/bench"
touch "$OUT/bench/failed"
before=$(keep)
touch "$DIR/fails"
refused "bench: a guest that fails" 'made up' whole
rm "$DIR/fails"
same() { [ "$before" = "$(keep)" ]; }
ok "bench: changes no results then" same
good 103 104 | grep -v '"round":0' >"$RAW"
refused "bench: figures that are not complete" 'base on 1cpu: bulk, size=64: rounds' whole
ok "bench: nor then" same

figures 40 | sed 's/"round":1/"round":2/; p; s/"round":2/"round":1/' | sort -u >"$RAW"
scenes() {
	: >"$CALLS"
	ROUNDS=1 BENCH=$1 RESULTS=$DIR/results bench
}
ok "bench: a scene" scenes rcuscale
guests() { [ "$(grep -c bench-0- "$CALLS")" -eq 4 ] && grep -q "^$1 .* -a multi bench-mt bash .*rcuscale.sh" "$CALLS"; }
ok "bench: on 4 CPUs" guests 4cpu
ok "bench: and on 2" guests 2
{ ktap_begin; figures 1 | sed 's/rcuscale/flood/; s/^/slab_bench: /; p; s/"round":1/"round":2/' | sort -u; ktap_end; } >"$RAW"
ok "bench: a flood" scenes flood
floods() { [ "$(grep -c " -a $1 .* flood_objects=$2$" "$CALLS")" -eq "$3" ]; }
ok "bench: where instructions are counted" floods icount 1000000 2
ok "bench: and a longer one with threads" floods multi 10000000 4
{ ktap_begin; printf 'slab_bench: %s\n' '{"group":"hog","case":"x","round":0,"objects":1,"value":5,"unit":"KiB"}'; ktap_end; } >"$RAW"
ok "bench: the hog" scenes hog
hogged() { grep -q '^4cpu  nohz_full=3 rcu_nocbs=3 .* -a single bench-rt bash ' "$CALLS"; }
ok "bench: has a CPU without a tick, and PREEMPT_RT" hogged

# --- memory --------------------------------------------------------------

BIN=$DIR/memory-bin
mkdir -p "$BIN"
# program NAME LINE...: one that goes before the real one
program() {
	local name=$1

	shift
	printf '%s\n' '#!/bin/bash' "$@" >"$BIN/$name"
	chmod +x "$BIN/$name"
}
program nproc 'echo 4'
program hackbench "echo hackbench \$* >>$DIR/load" \
	"printf 'Slab:  9000 kB\nSUnreclaim:  8000 kB\n' >$DIR/meminfo" 'exec sleep 1'
program stress-ng "echo stress-ng \$1 \$2 \$3 \$4 >>$DIR/load" \
	"printf 'Slab:  3000 kB\nSUnreclaim:  2000 kB\n' >$DIR/meminfo"
program find 'seq 30000'

# cache NAME FILE=CONTENT...
cache() {
	local file dir=$DIR/slab/$1

	mkdir -p "$dir"
	shift
	for file; do
		echo "${file#*=}" >"$dir/${file%%=*}"
	done
}
cache :a partial="3 N0=3" slabs_cpu_partial="10(2) C0=10(2)" sheaf_objects="100 C0=100" object_size=1024
cache :b partial=4 slabs_cpu_partial="0(0)" sheaf_objects=0 object_size=64
ln -s :a "$DIR/slab/alias"
loaded() {
	printf 'MemFree: 1 kB\nSlab:    1000 kB\nSUnreclaim:  900 kB\nSlabs: 5 kB\n' >"$DIR/meminfo"
	rm -f "$DIR/load"
	PATH=$BIN:$PATH SCALE=0 SLAB_SYSFS=$DIR/slab MEMINFO=$DIR/meminfo DROP_CACHES=$DIR/drop \
		"$SELF/scripts/bench/memory.sh" >"$DIR/memory.out"
}
ok "memory: a load" loaded
# has CASE VALUE
has() { grep -F "\"case\":\"$1\"" "$DIR/memory.out" && grep -qF "\"$1\",\"round\":0,\"objects\":1,\"value\":$2," "$DIR/memory.out"; }
ok "memory: what is there after boot" has "Slab, after boot" 1000
ok "memory: the objects in sheaves, of merged caches once" has "free in sheaves, after boot" 100
ok "memory: partial slabs, those of CPUs, too" has "partial slabs, after boot" 9
ok "memory: the peak is the highest, not the last" has "Slab, at the peak" 9000
ok "memory: of each figure" has "SUnreclaim, at the peak" 8000
ok "memory: what is there at the end" has "SUnreclaim, at the end" 2000
ok "memory: and later" has "Slab, a minute later" 3000
ok "memory: is what is judged" collect check "$DIR/memory.out" memory 1
dropped() { [ "$(cat "$DIR/drop")" = 3 ] && grep -q ' 20000 files found' "$DIR/memory.out"; }
ok "memory: all is dropped, after so many files" dropped
load_is() { [ "$(cat "$DIR/load")" = $'hackbench -g 2 -l 40\nstress-ng --fork 4 --fork-ops 80' ] || { cat "$DIR/load" && false; }; }
ok "memory: the load is that of 4 CPUs" load_is
rm -f "$DIR"/slab/*/sheaf_objects
ok "memory: a kernel without sheaves" loaded
sheafless() { ! grep -q sheaves "$DIR/memory.out" && has "partial slabs, at the end" 9; }
ok "memory: has no figure of them" sheafless
program hackbench 'echo no room >&2' 'exit 1'
fails_with() { ! "${@:2}" 2>"$DIR/err" && grep -q "$1" "$DIR/err"; }
ok "memory: a load that fails" fails_with 'hackbench failed: no room' loaded

# --- fragmentation -------------------------------------------------------

# Of 100 objects there is room for, 40 are alive when all is shrunk.
A=$DIR/aging
mkdir -p "$A/slab" "$A/proc/sys/vm" "$A/proc/sys/fs" "$A/cgroup/storm"
echo "100 0 45 0 9 0" >"$A/proc/sys/fs/dentry-state"
echo "50 0" >"$A/proc/sys/fs/inode-nr"
touch "$A/cgroup/cgroup.subtree_control"
for c in :0000192 ext4_inode_cache other; do
	mkdir "$A/slab/$c"
	while read -r file number; do
		echo "$number" >"$A/slab/$c/$file"
	done <<-END
		slab_size 1024
		total_objects 100
		partial 4
		objs_per_slab 10
		objects_partial 15
		shrink
		objects 40
	END
done
ln -s :0000192 "$A/slab/dentry"
for tool in mkfs.ext4 mount umount; do
	program $tool "echo $tool \$* >>$DIR/load"
done
program fallocate "echo fallocate \$2 >>$DIR/load" ": >\$3"
# shellcheck disable=SC2016 # for the programs
{
	program dd 'for o; do case $o in of=*) : >"${o#of=}" ;; esac; done'
	LISTENS='while read -r; do echo "heard $REPLY"; done'
}
program hackbench "echo hackbench \$* >>$DIR/load"
program stress-ng "echo stress-ng \$1 \$2 >>$DIR/load"
# Says something, and something more whenever it is spoken to.
program python3 "echo \${2##*/} >>$DIR/load" 'echo there' "$LISTENS"
age() {
	printf 'MemAvailable: 90000 kB\nSlab:    1000 kB\nSUnreclaim:  900 kB\n' >"$DIR/meminfo"
	echo 'max 3' >"$A/cgroup/storm/memory.events"
	rm -f "$DIR/load"
	PATH=$BIN:$PATH SCALE=0 SLAB_SYSFS=$A/slab MEMINFO=$DIR/meminfo PROC=$A/proc CGROUP=$A/cgroup \
		"$SELF/scripts/bench/fragmentation.sh" "$@" >"$DIR/memory.out"
}
ok "fragmentation: both scenes" age
ok "fragmentation: what slabs have room for, of what is alive" has "storm, inodes: held for 1000 alive" 2500
ok "fragmentation: of merged caches" has "storm, dentries: held for 1000 alive" 2500
ok "fragmentation: what is free, in all caches, once each" \
	has "night, all caches: free in slabs" 180
ok "fragmentation: and Slab" has "night, all dropped: Slab" 1000
ok "fragmentation: is what is judged" collect check "$DIR/memory.out" aging 1
shrunk() { [ "$(cat "$A/slab"/{other,dentry}/shrink)" = $'1\n1' ] && [ "$(cat "$A/proc/sys/vm/drop_caches")" = 3 ]; }
ok "fragmentation: all is shrunk, and dropped" shrunk
short() { [ "$(grep fallocate "$DIR/load" | sort | uniq -c | xargs)" = "2 fallocate $(((90000 - 16384) * 1024))" ]; }
ok "fragmentation: memory is short twice" short
hours() { [ "$(grep -c hackbench "$DIR/load")" -eq 5 ] && [ "$(grep -c 'stress-ng --seed 42' "$DIR/load")" -eq 5 ]; }
ok "fragmentation: the night has five hours" hours
ok "fragmentation: one scene" age storm
only_storm() { ! grep -q hackbench "$DIR/load" && ! grep -q night "$DIR/memory.out"; }
ok "fragmentation: is no other one" only_storm
rested() { age rest && ! grep -q case "$DIR/memory.out"; }
ok "fragmentation: a rest measures nothing" rested
ok "fragmentation: an unknown scene" fails_with "no scene .flood'" age flood
program hackbench 'echo no room >&2' 'exit 1'
ok "fragmentation: a load that fails" fails_with 'hackbench failed: no room' age night
program hackbench true
# shellcheck disable=SC2016 # for the program
program python3 'echo there' '[[ $2 != *residents.py ]]'
ok "fragmentation: and processes that end" fails_with 'residents.py has failed' age night
echo 0 >"$A/slab/:0000192/objects"
program python3 'echo there' "$LISTENS"
ok "fragmentation: nothing alive is no figure" fails_with 'no dentries' age storm
rm "$A/slab/other/objects_partial"
ok "fragmentation: nor is a cache without its files" fails_with 'there is no other/objects_partial' age storm
rm "$BIN/dd" "$BIN/python3"

# Two nodes of two CPUs; the first queue is CPUs 0 and 1's.
Q=$DIR/queues
mkdir -p "$Q/block/ublkb0/queue" "$Q/block/ublkb0/mq"/{0,1} "$Q/devices/system/cpu"/cpu{0,1}/node0 \
	"$Q/devices/system/cpu"/cpu{2,3}/node1
echo '[mq-deadline] none' >"$Q/block/ublkb0/queue/scheduler"
echo '0, 1' >"$Q/block/ublkb0/mq/0/cpu_list"
echo '2, 3' >"$Q/block/ublkb0/mq/1/cpu_list"
program ublk_null "echo server \$* >>$DIR/load" 'echo /dev/ublkb0' 'trap "exit 0" TERM' \
	'while :; do read -r -t 0.1 <> <(:) || :; done'
# What fio does to the counters: BIOS by the fast path, of which REFILLED came from slabs.
program fio "echo fio \$* >>$DIR/load" \
	"for c in alloc_fastpath=\${BIOS:-20000} sheaf_refill=\${REFILLED:-500} free_slowpath=1000; do" \
	"	f=$DIR/slab/bio-256/\${c%=*}; echo \$((\$(cat \$f) + \${c#*=})) >\$f" 'done'
cache bio-256 alloc_fastpath=7 alloc_slowpath=9 free_fastpath=0 free_slowpath=5 sheaf_refill=3
cache bio-64 alloc_fastpath=99 alloc_slowpath=9
ln -s bio-256 "$DIR/slab/bio-224"
queues() {
	rm -f "$DIR/load"
	PATH=$BIN:$PATH SYS=$Q SLAB_SYSFS=$DIR/slab IOS=10000 "$SELF/scripts/bench/queues.sh" "$BIN" 2 >"$DIR/queues.out"
}
ok "queues: two rounds" queues
ok "queues: are what is judged" collect check "$DIR/queues.out" queues 2
per_million() { [ "$(grep -c "\"case\":\"bios, $1\",.*\"value\":$2,\"unit\":\"per million\"" "$DIR/queues.out")" -eq 2 ]; }
ok "queues: bios that come from slabs" per_million 'from slabs' 25000
ok "queues: and go there" per_million 'to slabs' 50000
ok "queues: at first, too" per_million 'at first, from slabs' 25000
on_other_nodes() { grep -q '^server -q 2 -d 128 -c 3,1$' "$DIR/load" && grep -q 'numjobs=2 --cpus_allowed=0,2 --cpus_allowed_policy=split' "$DIR/load"; }
ok "queues: who submits is on another node than who serves" on_other_nodes
BIOS=9000 ok "queues: reads that need no bio are void" fails_with 'void: 20000 reads allocated 9000 bios' queues
mv "$Q/devices/system/cpu/cpu3/node1" "$Q/devices/system/cpu/cpu3/node0"
ok "queues: and so is one node" fails_with 'CPUs 0 and 3 are on one node' queues

# All of it, in a tree that has no server for ublk; it is not asked for by name.
# shellcheck disable=SC2016 # for the stub
stub guest.sh 'echo "${CPUS:-$TOPOLOGY} $*" | sed "s,/[^ ]*/,,g" >>'"$CALLS"'
	echo "[ 0:00] booting bench: 1 CPU, under TCG (made up)"
	case $* in
	*memory.sh*) cat '"$RAW"' ;;
	*fragmentation.sh*) cat '"$DIR/aged"' ;;
	*) cat '"$DIR/suite"' ;; esac'
memory >"$RAW"
{ ktap_begin; results mempools pairs 1 2 3; ktap_end; } >"$DIR/suite"
program hackbench true
PATH=$BIN:$PATH ok "bench: memory" scenes memory
ran() { grep -q "^$1 .*-a single bench bash .*$2" "$CALLS"; }
ok "bench: has 4 CPUs and 2 GB" ran 4 memory.sh
ok "bench: and no memory on most nodes" ran memoryless memory.sh
ok "bench: and mempools" ran memoryless 'mempools 3 20000'
ok "bench: and those of two nodes" ran 2node 'mempools 3 20000'
results fragmentation size=64 1 2 3 >"$DIR/waves"
{ ktap_begin; cat "$DIR/waves"; ktap_end; } >"$DIR/suite"
sed 's/"group":"memory"/"group":"aging"/' "$RAW" >"$DIR/aged"
PATH=$BIN:$PATH ok "bench: fragmentation" scenes fragmentation
ok "bench: has 4 CPUs, one after another" ran 4cpu 'fragmentation 3 1$'
ok "bench: and with it aging, with 2 GB" ran 4 fragmentation.sh
no_queues() { ! grep -q queues.sh "$CALLS"; }
ok "bench: but no queues" no_queues
BENCH=queues refused "bench: queues without a server" 'the tree has no tools/testing/selftests/slab/ublk_null.c' bench

# latency [CASE VALUE WHERE]...: what a guest says of these
latency() {
	ktap_begin
	printf 'slab_bench: {"group":"latency","case":"%s","round":0,"objects":1,"value":%d,"unit":"instructions","where":"%s","counters":{}}\n' "$@"
	ktap_end
}
latency "irqs off: x" 90 "a .. b" "irqs off: y" 20 "c .. d" "preemption off: x" 50 "e .. f" >"$DIR/theirs"
latency "irqs off: x" 80 "a .. b" "irqs off: y" 100 "g .. h" "preemption off: x" 50 "e .. f" >"$DIR/mine"
# shellcheck disable=SC2016 # for the stub
stub guest.sh 'echo "${CPUS:-$TOPOLOGY} $*" | sed "s,/[^ ]*/,,g" >>'"$CALLS"'
	echo "[ 0:00] booting bench: 1 CPU, under TCG (made up)"
	case $* in *-ours*) cat '"$DIR/mine"' ;; *) cat '"$DIR/theirs"' ;; esac'
ok "bench: latency" scenes latency
on_one_cpu() { [ "$(grep -c "^1cpu .* -a icount $1 bash .*latency.sh" "$CALLS")" -eq 2 ]; }
ok "bench: on one CPU" on_one_cpu bench-latency
ok "bench: and with PREEMPT_RT" on_one_cpu bench-latency-rt
cp "$DIR/results/results.md" "$DIR/kept"
ok "report: base's longest, and how many of ours are longer" \
	shown "With irqs off, base's longest is 90.0 (irqs off: x: a .. b); ours is longer in 1 of 2 cases."
ok "report: those with preemption off are for themselves" \
	shown "With preemption off, base's longest is 50.0 (preemption off: x: e .. f); ours is longer in 0 of 1 cases."
ok "report: which, and where" shown '| irqs off: y | 100.0 | g .. h |'

# --- in real time --------------------------------------------------------

# A program that takes NS for each object, a little more in each round, in launch N of it
# with the Nth ping, in the first group that it is asked for.
fake_program() {
	local name=$1 ns=$2

	shift 2
	cat >"$DIR/$name" <<-END
		#!/bin/bash
		pings=($*) rounds=3 group=
		for r; do
			[ "\$prev" != -r ] || rounds=\$r
			[ "\$prev" != -g ] || group=\${r%%,*}
			prev=\$r
		done
		n=\$(cat "$DIR/$name.n" 2>/dev/null || echo 0)
		echo \$((n + 1)) >"$DIR/$name.n"
		ping=\${pings[n % \${#pings[@]}]}
		echo "slab-native: ping \$ping.0 ns"
		ns=\$(($ns * (ping > 100 ? 4 : 1)))
		for ((r = 0; r < rounds; r++)); do
			echo "slab_bench: {\"group\":\"\$group\",\"case\":\"one node\",\"round\":\$r,\"objects\":1000,\"ns\":\$((1000 * ns + 100 * r)),\"counters\":{}}"
		done
		echo "ok 1 slab_bench"
	END
	chmod +x "$DIR/$name"
}
native() { python3 -B "$SELF/scripts/bench/native.py" --out "$DIR/native.json" --groups pairs "$@"; }
native_value() {
	python3 -c 'import json, sys
data = json.load(open(sys.argv[1]))
kernels = data["cases"][0]["kernels"]
got = eval(sys.argv[2])
print(got)
sys.exit(str(got) != sys.argv[3])' "$DIR/native.json" "$1" "$2"
}
fake_program slow 200 50 51 52 51
fake_program fast 100 50 300 50 51
ok "native: two programs by turns" native --launches 8 base=6.12="$DIR/slow" ours=6.12="$DIR/fast"
keep_output
ok "native: prints the table" shown '| one node, near | 200.2 | 100.2 |   0.500 '
ok "native: and how near the processors were" shown 'Near: a cache line took 51 ns to the other processor'
ok "native: a launch of two threads counts by the median of its rounds" \
	native_value 'kernels["base"]["ns_per_object"]' 200.2
ok "native: launches on far processors are apart" native_value 'max(kernels["ours"]["launches"])' 100.2
ok "native: and too few of them say nothing" native_value 'list(data["ping_ns"])' "['near']"
ok "native: one thread" native --groups one_thread base=6.12="$DIR/slow"
ok "native: a launch of one thread counts by its fastest round" \
	native_value 'kernels["base"]["ns_per_object"]' 200.0
fake_program broken 100 50
sed -i 's/^echo "ok 1/echo "not ok 1/' "$DIR/broken"
refused "native: a benchmark that fails" 'failed: slab_bench' native --launches 1 base=6.12="$DIR/broken"
refused "native: an unknown group" 'no group bulky' native --groups bulky base=6.12="$DIR/slow"
mkdir "$DIR/bin"
# shellcheck disable=SC2016 # for the stub
printf '#!/bin/bash\n%s\n%s\n%s\n' 'for r; do [ "$prev" != -r ] || n=$r; prev=$r; done' \
	'printf "%d,,cycles:u,1,100.00,,\n<not supported>,,cache-misses:u,0,100.00,,\n" $((1000 + 3000 * ${n:-1})) >&2' \
	'true' >"$DIR/bin/perf"
chmod +x "$DIR/bin/perf"
PATH=$DIR/bin:$PATH ok "native: with perf" native --launches 4 base=6.12="$DIR/slow"
ok "native: cycles, but not what the machine does not count" \
	native_value 'sorted(data["perf"]["base"]["pairs, 4cpu"])' "['cycles']"
