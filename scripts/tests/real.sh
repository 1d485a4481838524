#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of make bench-real and make profile without any kernel: what they refuse, the
# programs meter and scale, the table of profiles, and whole runs in which kernels and guests
# are made up. Prints TAP.

. "$(dirname "$0")/lib.sh"

unset LOCKS CASES CASE MACHINES ROUNDS PEER OURS RESULTS KEEP PERIOD
REAL=$SELF/scripts/bench/real
CASES_NOW=$("$REAL/real.sh" --list)
NR=$(wc -l <<<"$CASES_NOW")
keep_output() { mv "$DIR/out" "$DIR/kept"; }
shown() { grep -F -- "$1" "$DIR/kept"; }

# --- the programs --------------------------------------------------------

for program in meter scale; do
	ok "$program: builds" gcc -O2 -Wall -Wextra -Wno-unused-parameter -Werror -static -pthread \
		-o "$DIR/$program" "$REAL/$program.c"
done
fails() { ! "$@"; }
does() { [ "$("$DIR/scale" "$@")" = '150 operations' ]; }
for small in mmap1 mmap2 brk1 page_fault1 tlb_flush2; do
	for how in -p -t; do
		ok "scale: $small $how" does $how 3 -n 50 $small
	done
done
ok "scale: an unknown case" fails "$DIR/scale" -t 2 -n 5 mmap3
ok "scale: no threads at all" fails "$DIR/scale" -t 0 -n 5 mmap1
ok "scale: both threads and processes" fails "$DIR/scale" -t 1 -p 1 -n 5 mmap1
crowded() { (ulimit -v 20000 && ! "$DIR/scale" -p 2 -n 1 mmap1); }
ok "scale: a process that fails" crowded

metered() { "$DIR/meter" time 1 "$@" 3>"$DIR/ns"; }
slept() { metered sleep 0.2 && [ "$(cat "$DIR/ns")" -ge 200000000 ]; }
ok "meter: how long a program took" slept
ends_as() {
	local rc=0

	metered bash -c 'exit 7' || rc=$?
	[ $rc -eq 7 ]
}
ok "meter: ends as it does" ends_as
ok "meter: a program that is not there" fails metered "$DIR/nothing"
closed() { ! "$DIR/meter" time 1 true 3>&-; }
ok "meter: nobody to tell" closed
ok "meter: an unknown way" fails "$DIR/meter" idle 1 true

# --- arguments -----------------------------------------------------------

fake_repo
bench() { "$REPO/scripts/bench-real.sh"; }
profile() { "$REPO/scripts/profile.sh"; }
ROUNDS=0 refused "bench-real: ROUNDS=0" 'ROUNDS=0 is not a number' bench
PEER=next refused "bench-real: PEER= that is no version" 'PEER=next is not a kernel version' bench
CASES=redis,nope refused "bench-real: an unknown case" 'CASES: no .nope., choose among true' bench
MACHINES=3cpu refused "bench-real: an unknown machine" 'MACHINES: no .3cpu., choose among 1cpu' bench
KEEP=2 refused "bench-real: KEEP=2" 'KEEP=2 is not 1' bench
OURS=other refused "bench-real: OURS= that is no commit" 'OURS=other is no commit' bench
refused "profile: no case" 'CASE= is not given, choose among true' profile
CASE=nope refused "profile: an unknown case" 'CASE: no .nope.' profile
CASE=redis TOPOLOGY=x refused "profile: an unknown machine" 'no topology .x.' profile
CASE=redis PERIOD=10 refused "profile: samples too near to each other" 'PERIOD=10 is not' profile
ARGS_ONLY=1 CASES="redis sqlite3" ok "bench-real: arguments alone" bench
ARGS_ONLY=1 CASE=redis ok "profile: arguments alone" profile
ARGS_ONLY=1 CASE=true ok "profile: the first of the cases" profile

# --- whole runs ----------------------------------------------------------

CALLS=$DIR/calls
RAW=$DIR/raw
# figures NS ROUND...: of all cases, or of CASES
figures() {
	local name round

	for name in ${CASES:-$CASES_NOW}; do
		for round in "${@:2}"; do
			printf '{"group":"real","case":"%s","round":%d,"objects":10,"ns":%d,"slab_kb":9000,"slab_peak_kb":9900,"partial":70,"partial_peak":90,"counters":{}}\n' \
				"$name" "$round" "$1"
		done
		echo "real.sh: $name: 10 operations, 1 s"
	done
}
stub() {
	printf '#!/bin/bash\n%s\n' "$2" >"$REPO/scripts/$1"
	chmod +x "$REPO/scripts/$1"
}
echo 'int bench;' >"$REPO/slab_bench.c"
export SLAB_BENCH=$REPO/slab_bench.c
# shellcheck disable=SC2016 # for the stubs
{
	stub peer.sh 'exit 1'
	stub bench/real/root.sh 'echo root >>'"$CALLS"
	stub bench/real/idle.sh 'echo "idle ${1##*/} $2" >>'"$CALLS"
	stub kernel.sh 'mkdir -p "$2/obj/${@: -1}"; echo CONFIG_SLUB=y >"$2/obj/${@: -1}/.config"
		echo "kernel ${2##*/} ${@:3}" >>'"$CALLS"
	stub guest.sh '[ "$1" != --list ] || { echo 1cpu, 4cpu or memoryless; exit; }
		echo "$TOPOLOGY $*" | sed "s,/[^ ]*/,,g" >>'"$CALLS"'
		[ ! -e '"$DIR/fails"' ] || { echo "real.sh: redis failed"; echo "error: made up" >&2; exit 1; }
		echo "[ 0:00] booting bench: 1 CPU, under TCG (made up)"
		case $* in *base*) cat '"$RAW.base"' ;; *) cat '"$RAW"' ;; esac |
			awk -v "chosen= ${*: -1} " -F "\"" "/^{/ && !index(chosen, \" \" \$8 \" \") { next } { print }"'
}
whole() {
	: >"$CALLS"
	ROUNDS=1 MACHINES=4cpu RESULTS=$DIR/results bench
}
figures 1000 0 1 2 >"$RAW.base"
figures 900 0 1 2 >"$RAW"
ok "bench-real: a whole run" whole
keep_output
ok "bench-real: prints the table" shown '| redis                 | 100.0 | 90.0 |   0.900   |'
ok "bench-real: and the memory, at the peak and after" \
	shown '| redis                 |                      9900.0 |                      9900.0 |          9000.0 |'
ok "bench-real: and how far it is" shown 'step 5/5 round 1/1: ours on 4cpu'
ok "bench-real: where ours is behind" shown "behind base by more than the spread in 0 of $NR cases"
turns() { [ "$(sed -n 's/^\(4cpu\) -n real-0-4cpu-\([a-z]*\) .* -a icount .*/\1\2/p' "$CALLS" | paste -sd' ')" = '4cpubase 4cpuours' ]; }
ok "bench-real: boots by turns" turns
timed() { [ "$(grep -c 'real.sh time 3 ' "$CALLS")" -eq 4 ]; }
ok "bench-real: and takes the time" timed
apart() {
	[ "$(sed -n 's/^4cpu .* -a single .*real.sh time 3 [^ ]* //p' "$CALLS" | sort -u)" = 'iperf3-tcp iperf3-udp redis' ] &&
	! grep -- '-a icount .*\(iperf3\|redis\)' "$CALLS"
}
ok "bench-real: but that of this host for iperf3 and redis" apart
counted() {
	: >"$CALLS"
	ROUNDS=3 MACHINES=1cpu CASES=redis RESULTS=$DIR/other bench && cat "$CALLS" &&
		[ "$(grep -c '^1cpu .* -a icount .*real.sh busy 2 real redis$' "$CALLS")" -eq 4 ]
}
CASES=redis figures 1000 0 1 >"$RAW.base"
cp "$RAW.base" "$RAW"
ok "bench-real: on one CPU, instructions, in two guests each" counted
keep() { find "$DIR/other" -type f | sort | xargs -r cat; }
one() { MACHINES=1cpu CASES=$1 RESULTS=$DIR/other ROUNDS=1 KEEP=1 bench; }
: >"$CALLS"
ok "bench-real: with what is there" one redis
kept() { ! grep -E '^(kernel|root)' "$CALLS"; }
ok "bench-real: builds nothing" kept
before=$(keep)
refused "bench-real: a case that is missing" 'base on 1cpu: 1 cases, 0 skipped instead of 2' one redis,sqlite3
touch "$DIR/fails"
refused "bench-real: a guest that fails" 'made up' one redis
rm "$DIR/fails"
same() { [ "$before" = "$(keep)" ]; }
ok "bench-real: neither of them changes results" same
grep -v '"round":1' "$RAW.base" >"$RAW.less"
mv "$RAW.less" "$RAW.base"
refused "bench-real: a round that is missing" 'base on 1cpu: real, redis: rounds' one redis

# samples SLAB SHEAF MALLOC: of two rounds of ten operations
samples() {
	printf 'operations|10\nself|  %d|[kernel.kallsyms]|[k] slab_alloc\nself| %d|libc.so.6|[.] malloc\n' "$1" "$3"
	printf 'operations|10\nself| %d|[kernel.kallsyms]|[k] sheaf_alloc\nself| %d|libc.so.6|[.] free\n' "$2" 50
	printf 'all| 50.00%%|[kernel.kallsyms]|[k] do_syscall\nall|99.00%%|libc.so.6|[.] main\n'
	printf 'lock| 3 1 us 1 us 1 us spinlock rmqueue+0x1\n'
}
samples 80 0 50 >"$RAW.base"
samples 0 40 70 >"$RAW"
compared() {
	: >"$CALLS"
	CASE=redis PERIOD=10000 ROUNDS=2 profile
}
ok "profile: a whole run" compared
keep_output
ok "profile: what ours takes more" shown '| sheaf_alloc | '
ok "profile: and less" shown '| slab_alloc  | 40,000 |      0 |     -40,000 |     44.44 % |      0.00 % |'
ok "profile: programs are a line" shown '| (libc.so.6) | 50,000 | 60,000 |     +10,000 |'
ok "profile: and all of it" shown '| in all      | 90,000 | 80,000 |     -10,000 |'
ok "profile: what is called counts" shown '| do_syscall | 12,500 | 22,500 |     +10,000 |'
ok "profile: locks" shown 'spinlock rmqueue+0x1'
profiled() { grep -q '^1cpu -n profile-redis-ours .* -a icount bench PERIOD=10000 LOCKS= IDLE=idle.ko bash real.sh profile 2 real redis$' "$CALLS"; }
ok "profile: counts on one CPU" profiled
locked() { LOCKS=1 compared && grep -q ' bench-locks PERIOD=10000 LOCKS=1 IDLE=idle.ko bash ' "$CALLS"; }
ok "profile: with locks, another kernel" locked
: >"$RAW"
refused "profile: without samples" 'profile-redis.ours has no samples' compared
