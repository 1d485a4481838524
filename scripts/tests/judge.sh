#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of what scripts/selftest.sh makes of the output of kselftests: what counts as failed, and
# which skips are excused by the machine, or by the configuration of another kernel than guest; and
# of what it runs on machines of other architectures, and how.
# On a small fake tree; nothing is built or booted. Prints TAP.

. "$(dirname "$0")/lib.sh"

unset SELFTESTS STRESS_SECS STRESS_ALL FAULTS_SECS FAULTS_ALL
fake_repo
export STAGED=1 SELFTESTS=$DIR/slab TOPOLOGY=1cpu
mkdir -p "$SELFTESTS"
echo 'TEST_PROGS := one.sh' >"$SELFTESTS/Makefile"
OUT=$(echo "$REPO"/build/src-*)
for config in guest other; do
	mkdir -p "$OUT/obj/$config" "$OUT/obj/selftest-$config/installed"
done

# The guest says what is in $DIR/ktap, as the runner of kselftests does.
cat >"$REPO/scripts/guest.sh" <<EOF
#!/bin/bash
echo "# selftests: slab: one.sh"
sed 's/^/# /' "$DIR/ktap"
grep -q '^not ok' "$DIR/ktap" && echo "not ok 1 selftests: slab: one.sh # exit=1" ||
	echo "ok 1 selftests: slab: one.sh\$(grep -o ' # SKIP' "$DIR/ktap" | tail -n 1)"
EOF

# config OPTION...: what the kernel `other' has.
config() { printf 'CONFIG_%s=y\n' "$@" >"$OUT/obj/other/.config"; }
# said LINE...: by the test.
said() { printf '%s\n' "$@" >"$DIR/ktap"; }
skipped() { said "1..0 # SKIP $1"; }
selftest() { "$REPO/scripts/selftest.sh" "$@"; }
other() { selftest -k other; }
# with WORD...: on the command line.
with() { APPEND=$* other; }

config SMP SLUB_DEBUG SLUB_STATS MEMCG
said 'ok 1 this' 'ok 2 that'
ok "what passes" selftest
said 'ok 1 this' 'not ok 2 that'
refused "what fails" 'selftests failed' selftest
one_line() { ! selftest && [ "$(grep -c 'FAILED .*1 passed, 1 failed' "$DIR/out")" -eq 1 ]; }
ok "has a line" one_line

said 'ok 1 this' 'ok 2 that # SKIP no tracefs'
ok "what the machine lacks is excused" selftest
ok "also with another kernel" other
said 'ok 1 this' 'ok 2 that # SKIP no time'
refused "nothing else is" 'selftests failed' selftest
refused "with another kernel, too" 'selftests failed' other

skipped 'no counters in /sys/kernel/slab, needs CONFIG_SLUB_STATS'
refused "guest has its options" 'selftests failed' selftest
refused "an option that the kernel has is none that it lacks" 'selftests failed' other
config SMP SLUB_DEBUG MEMCG
ok "one that it has not, is" other
config SMP SLUB_DEBUG SLUB_STATS_MORE
ok "also when it has one with a longer name" other
skipped 'no /sys/kernel/slab, needs CONFIG_SYSFS and CONFIG_SLUB_DEBUG'
config SYSFS SLUB_DEBUG
refused "nor two that it has" 'selftests failed' other
config SYSFS SMP
ok "one of two is enough" other
skipped 'no /sys/kernel/slab/kmalloc-64/shrink'
ok "without SLUB_DEBUG there are no files" other
config SLUB_DEBUG
refused "with it, there are" 'selftests failed' other
skipped 'the caches have no sheaves'
refused "caches have sheaves" 'selftests failed' other
config SLUB_TINY
ok "but with SLUB_TINY" other
skipped 'KASAN keeps what is freed'
refused "nobody keeps what is freed" 'selftests failed' other
config KASAN
ok "but KASAN" other
skipped 'no such cache, needs slab_sheaf_capacity=test_slab_late=0'
ok "what the command line does not say is excused" with
refused "what it says is not" 'selftests failed' with slab_sheaf_capacity=test_slab_late=0
skipped 'no KUnit suites, needs CONFIG_KUNIT'
config KUNIT
refused "there are suites" 'selftests failed' with kmemleak=on
ok "but not with kunit.enable=0" with kunit.enable=0
said 'ok 1 this' 'ok 2 that # SKIP no memory controller in cgroup v2'
ok "there is no cgroup without MEMCG" other
config MEMCG
refused "but with it" 'selftests failed' other

# Who runs what was built holds off who builds, but not who runs it, too.
said 'ok 1 this'
LOCK=$OUT/.selftest-guest.lock
waits() { ! flock "$LOCK" timeout 5 "$REPO/scripts/selftest.sh" && grep -q 'waiting for another selftest-guest' "$DIR/out"; }
ok "tests that somebody builds are waited for" waits
ok "not those that others run" flock -s "$LOCK" timeout 60 "$REPO/scripts/selftest.sh"
sed -i "2i ! flock -n '$LOCK' true && touch '$DIR/held'" "$REPO/scripts/guest.sh"
held() { selftest && [ -e "$DIR/held" ]; }
ok "nobody builds them while they run" held

# Machines of cross.sh: but for what boots, it is itself.
for config in arm arm64-4k s390x; do
	mkdir -p "$OUT/obj/selftest-cross-$config/installed"
done
mv "$REPO/scripts/cross.sh" "$REPO/scripts/cross-real.sh"
cat >"$REPO/scripts/cross.sh" <<EOF
#!/bin/bash
[ "\$1" = -r ] || exec "$REPO/scripts/cross-real.sh" "\$@"
echo "\$APPEND; \$*" >"$DIR/booted"
test=\$(grep -oE '[a-z]+\.sh \| cat' <<<"\$*" | cut -d' ' -f1)
"$REPO/scripts/guest.sh" | sed "s/ one\.sh/ \$test/"
EOF
chmod +x "$REPO/scripts/cross.sh"
on() { TOPOLOGY=$1 "$REPO/scripts/selftest.sh" "${@:2}"; }

said 'ok 1 this'
runs() { [ "$(on "$1" -l one.sh faults.sh kmemleak.sh | paste -sd' ')" = "$2" ]; }
ok "on another architecture, most tests are run together" runs arm one.sh
ok "but not those for which something fails" runs arm+faults "faults.sh kmemleak.sh"
booted() { on "$1" "$2" && grep -qE "$3" "$DIR/booted"; }
ok "for these, it is told on the command line" booted arm+faults faults.sh 'kmemleak=on.*; .* arm$'
ok "for others it is not" booted arm one.sh '^; .* arm$'
refused "only machines there are have that" 'no topology .4cpu\+faults' on 4cpu+faults faults.sh
excused_on() { skipped "$2" && on "$1" one.sh; }
ok "no CPU is isolated there" excused_on arm64-4k 'no CPU is isolated'
ok "one node is one" excused_on s390x 'no two nodes with memory and CPUs'
refused "two are two" 'selftests failed' excused_on arm64-4k 'no two nodes with memory and CPUs'
for what in 'no python3' 'needs fio' 'no tracefs' 'no fault injection, needs CONFIG_FAILSLAB'; do
	refused "there is no excuse for: $what" 'selftests failed' excused_on arm "$what"
done
