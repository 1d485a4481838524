#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# latency.sh MODULE: in a guest with one CPU that counts instructions, and the tracers
# irqsoff and preemptoff, run the benchmark's group `latency' and print what it prints. It
# measures by the hooks of these tracers, as the tracers themselves know microseconds only,
# and not whose they are. Then, for a few cases, what the tracers say: whether that is at
# least as much is what is checked, since they take longer than what looks at their hooks.

set -euo pipefail

MODULE=$1
TRACING=/sys/kernel/tracing
NAME=slab_bench_kunit
# Nothing of these is done by others.
CASES=("size=256 alloc, one free object in each slab" "size=64 bulk free, each of another slab")
declare -A TRACER=(["irqs off"]=irqsoff ["preemption off"]=preemptoff)

die() {
	echo "latency.sh: $*" >&2
	exit 1
}

suite() {
	dmesg -C
	/sbin/insmod "$MODULE" groups=latency rounds=1 "$@"
}

# by_tracer CASE KIND: what the tracer says in microseconds, in US.
by_tracer() {
	local log

	# One that is chosen while tracing is off stays off. The module leaves tracing off.
	echo 1 >$TRACING/tracing_on
	echo "${TRACER[$2]}" >$TRACING/current_tracer
	suite 'match="alloc, hit"' by_tracer=1
	/sbin/rmmod $NAME
	echo 0 >$TRACING/tracing_max_latency
	suite "match=\"$1\"" by_tracer=1
	US=$(cat $TRACING/tracing_max_latency)
	log=$(dmesg -t)
	! grep -E '^ *not ok ' <<<"$log" || die "$1: failed with the tracer ${TRACER[$2]}"
	grep -qE "^ *ok [0-9]+ $1\$" <<<"$log" || die "$1: no such case"
	/sbin/rmmod $NAME
	echo nop >$TRACING/current_tracer
}

mountpoint -q $TRACING || mount -t tracefs none $TRACING
for kind in "${!TRACER[@]}"; do
	grep -qw "${TRACER[$kind]}" $TRACING/available_tracers || die "no tracer ${TRACER[$kind]}"
done

suite
figures=$(dmesg -t)
/sbin/rmmod $NAME
for case in "${CASES[@]}"; do
	for kind in "${!TRACER[@]}"; do
		value=$(sed -nE "s/.*\"case\":\"$kind: $case\".*\"value\":([0-9]+),.*/\1/p" <<<"$figures")
		[ -n "$value" ] || die "no figure of $kind: $case"
		by_tracer "$case" "$kind"
		echo "tracer ${TRACER[$kind]}: $case: $US us, by its hooks $value instructions"
		[ "$US" -ge $((value / 1000)) ] || die "the tracer ${TRACER[$kind]} saw less than its hooks"
	done
done
printf '%s\n' "$figures"
