#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of the guest's judges: what hangs, panics, or splats must not pass, and a
# KUnit failure must be named. Boots the built guest kernel; prints TAP.

. "$(dirname "$0")/lib.sh"

# One that hangs is to be named before all of this is ended.
guest() { "$SELF/scripts/guest.sh" -n guest-tests -t 300 "$@"; }
# shellcheck source=scripts/lib.sh
TREE=$(. "$SELF/scripts/lib.sh" && echo "$TREE")
judge() { python3 -B "$SELF/scripts/kunit.py" "$TREE" "$DIR/log" "$DIR/dotconfig"; }

says_and_ends() { guest guest 'nproc; echo end' && grep -qx end "$DIR/out" && grep -qx 2 "$DIR/out"; }
CPUS=2 ok "guest: output and success of a command come back" says_and_ends
refused "guest: so does its failure" 'command failed in the guest \(3\)' guest guest 'exit 3'
shown() { grep -q "$1" "$DIR/kept"; }

refused "guest: a panic" 'the guest panicked: sysrq triggered crash' \
	guest guest 'echo before; sleep 1; echo c >/proc/sysrq-trigger'
cp "$DIR/out" "$DIR/kept"
ok "guest: and the oops is shown" shown 'sysrq_handle_crash'
ok "guest: and the output up to it" shown '^before$'
APPEND=rootfstype=none refused "guest: no root" 'the guest panicked: VFS: Unable to mount root' guest guest
refused "guest: a hang" 'the guest hung: no end within 15 s' guest -t 15 guest 'sleep 1000'
refused "guest: a splat" 'the guest.s log has a splat' guest guest \
	'echo "<4>WARNING: CPU: 0 PID: 1 at mm/slub.c:1 made_up" >/dev/kmsg'
# What is none is tested without a guest, by splat.sh; here, that all of it gets there.
# shellcheck disable=SC2016 # for the guest
no_splats() {
	guest guest 'echo "<4>virtme-ng-init: WARNING: failed to run: made up" >/dev/kmsg
		echo "<4>daemon[7]: BUG: made up" >/dev/kmsg
		echo "WARNING: made up, Kernel panic" >/dev/console
		printf "%s\n" "<4>made_up invoked oom-killer: gfp_mask=0xcc0, order=-1, oom_score_adj=0" \
			"<4>Call Trace:" "<4>Mem-Info:" | while read -r line; do echo "$line" >/dev/kmsg; done'
}
ok "guest: no splat: what user space writes to the console, and what is asked for" no_splats
# races FUNCTION: a report of KCSAN, to a kernel that passes for one that has it.
mkdir -p "$DIR/obj/guest/lib"
O=$(. "$SELF/scripts/lib.sh" && echo "$OBJ/guest")
ln -s "$O/mm" "$O/arch" "$DIR/obj/guest/"
ln -s "$O/lib/tests" "$DIR/obj/guest/lib/"
echo CONFIG_KCSAN=y >"$DIR/obj/guest/.config"
races() {
	guest -d "$DIR" guest "printf '<4>%s\n' ==================== 'BUG: KCSAN: data-race in do_other / $1' \
		' do_other+0x1/0x2' 'Call Trace:' ==================== |
		while read -r line; do echo \"\$line\" >/dev/kmsg; done"
}
refused "guest: a splat: a race of the allocator" 'the guest.s log has a splat' races __sheaf_free
ok "guest: no splat: one of others" races do_another
# not by poweroff, which a minimal system has not
refused "guest: an early power off" 'ended before its command did' guest guest \
	'echo o >/proc/sysrq-trigger; sleep 60'
TOPOLOGY=ring refused "guest: an unknown topology" 'no topology .ring' guest guest
CPUS=many refused "guest: a CPUS= that is no number" 'CPUS=many is not a number' guest guest
refused "guest: a kernel that is not built" 'there is no other kernel, run: make kernel' guest other
refused "kernel: an unknown configuration" 'no kernel configuration .other' "$SELF/scripts/kernel.sh" other

echo CONFIG_SLUB_KUNIT_TEST=y >"$DIR/dotconfig"
ktap() {
	printf '[    1.0] %s\n' 'KTAP version 1' 1..1 '    KTAP version 1' '    # Subtest: slub_test' \
		'    # module: slub_kunit' '    1..2' '    ok 1 test_one' "    $1 2 test_two" \
		"# slub_test: pass:1" "$1 1 slub_test" >"$DIR/log"
}
ktap ok
ok "kunit: a suite that passes" judge
sed -i 's/^.*# Subtest: slub_test/[    1.0] tsc: Refined TSC clocksource calibration\n&/' "$DIR/log"
ok "kunit: a message of the kernel at the head of a suite" judge
ktap 'not ok'
refused "kunit: a test that fails" '1 KUnit tests failed' judge
cp "$DIR/out" "$DIR/kept"
ok "kunit: and it is named" shown 'failed: slub_test test_two'
# The tests of sheaves are several suites, of which each must be there.
printf '[    1.0] %s\n' 'KTAP version 1' 1..2 \
	'    KTAP version 1' '    # Subtest: slab_sheaf_one' '    1..1' '    ok 1 test_one' 'ok 1 slab_sheaf_one' \
	'    KTAP version 1' '    # Subtest: slab_sheaf_two' '    1..1' '    ok 1 test_two' 'ok 2 slab_sheaf_two' \
	>"$DIR/log"
echo CONFIG_SLAB_SHEAF_KUNIT_TEST=y >"$DIR/dotconfig"
totalled_and_missed() {
	! judge >"$DIR/judged" 2>&1 &&
		grep -qE '^KUnit  slab_sheaf +2 passed +0 failed +0 skipped$' "$DIR/judged" &&
		grep -q 'KUnit suite slab_sheaf_paths did not report' "$DIR/judged"
}
ok "kunit: suites of one subject are totalled, and each is missed" totalled_and_missed
debug_suite_missed() {
	judge >"$DIR/judged" 2>&1 || :
	grep -q 'KUnit suite slab_sheaf_debug did not report' "$DIR/judged"
}
not_missed() { ! debug_suite_missed; }
ok "kunit: but not that of a symbol that is off" not_missed
echo CONFIG_DEBUG_SLAB_SHEAVES=y >>"$DIR/dotconfig"
ok "kunit: which is missed where it is on" debug_suite_missed
echo CONFIG_SLUB_KUNIT_TEST=y >"$DIR/dotconfig"
echo '[ 0.0] Linux version' >"$DIR/log"
refused "kunit: a suite that did not run" 'KUnit suite slub_test did not report' judge
: >"$DIR/dotconfig"
ok "kunit: a kernel without suites" judge
