#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of what counts as a splat in a console log, of whichever architecture, and what
# does not. Boots nothing; prints TAP.

. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/splat.sh
. "$SELF/scripts/splat.sh"

export LOG=$DIR/log

# says LINE...: a log with these lines, between others.
says() {
	{
		echo '[    0.000000] Linux version 6.12.117 (sheaves@sheaves) #1 SMP PREEMPT'
		printf '[   12.345678] %s\n' "$@"
		echo '[   99.000000] reboot: Power down'
	} >"$LOG"
}
splats() { says "$@" && splat 0; }
fine() { says "$@" && ! splat 0; }
# ends RC REGEXP LINE...: what is said of a guest that ended so.
ends() {
	local rc=$1 want=$2

	shift 2
	says "$@"
	what_went_wrong "$rc" 30 | tee "$DIR/said" | grep -qE "$want" || { cat "$DIR/said"; return 1; }
}

ok "splat: x86" splats 'BUG: unable to handle page fault for address: ffffffffc0000000'
ok "splat: x86, a warning" splats 'WARNING: CPU: 0 PID: 1 at mm/slub.c:1 made_up+0x1/0x2'
ok "splat: arm64" splats 'Unable to handle kernel paging request at virtual address 0000000000000010'
ok "splat: arm64, the second line" splats 'Internal error: synchronous external abort: 0000000096000010 [#1] PREEMPT SMP'
ok "splat: arm64, a stack" splats 'Call trace:'
ok "splat: arm" splats '8<--- cut here ---' 'Unable to handle kernel NULL pointer dereference at virtual address 00000008 when read'
ok "splat: arm, an access that is not aligned" splats 'Alignment trap: not handling instruction e1942f9f at [<c0123456>]'
ok "splat: s390" splats 'Krnl PSW : 0704c00180000000 000003ffe01f9b4c (made_up+0x84/0x1b8)'
ok "no splat: an ordinary log" fine 'CPU features: detected: LSE atomic instructions' 'Detected PIPT I-cache on CPU1' \
	'psci: CPU2 killed (polled 0 ms)' 'KTAP version 1' 'ok 1 test_debug'
no_shadow='memhotplug.sh: vmalloc error: size 32768, failed to allocated page array size 64, mode:0xdc2'
ok "no splat: memory comes, and KASAN has no shadow for it" fine "$no_shadow" 'Call Trace:' ' </TASK>'
ok "no splat: nor for a module that a test loads" fine "${no_shadow/memhotplug.sh/fail_nth}" \
	'Call Trace:' ' </TASK>'
ok "splat: after that" splats "$no_shadow" 'Call Trace:' ' </TASK>' 'Call Trace:'
ok "splat: no shadow for others" splats "${no_shadow/memhotplug/hotplug}" 'Call Trace:' ' </TASK>'
no_cache='__kmem_cache_create_args(test_slab_unload) failed with error -12'
ok "no splat: a cache that a test could not make" fine "$no_cache" 'Call trace:'
ok "splat: a cache of others" splats "${no_cache/test_slab_unload/dentry}" 'Call trace:'
dying=('------------[ cut here ]------------'
	'WARNING: CPU: 1 PID: 20 at kernel/sched/core.c:8365 sched_cpu_dying+0x74/0x1a0'
	'---[ end trace 0000000000000000 ]---')
stopper=$'\tpid: 20, name: migration/1'
offline='smpboot: CPU 1 is now offline'
ok "no splat: the fair server of 6.12 is left on a CPU that goes offline" fine "${dying[@]}" \
	'CPU1 enqueued tasks (2 total):' "$stopper" "$offline"
ok "splat: a task is left there" splats "${dying[@]}" 'CPU1 enqueued tasks (2 total):' \
	"$stopper" $'\tpid: 7, name: kworker/1:0' "$offline"
ok "splat: who takes another CPU down" splats "${dying[@]}" 'CPU1 enqueued tasks (2 total):' \
	"${stopper/1/11}" "$offline"
ok "splat: another complaint within" splats "${dying[@]}" 'BUG: bad page' \
	'CPU1 enqueued tasks (2 total):' "$stopper" "$offline"
ok "splat: another one with the fair server" splats "${dying[@]}" \
	'CPU1 enqueued tasks (3 total):' "$stopper" "$offline"
ok "no splat: what user space says" fine 'daemon[7]: BUG: made up'
in_console() {
	says ok
	sed -i '2i WARNING: made up, Kernel panic' "$LOG"
	! splat 0
}
ok "no splat: nor what has no time" in_console
# oom ORDER: a report, with the stack that is in each of them.
oom() { echo "made_up invoked oom-killer: gfp_mask=0xcc0, order=$1, oom_score_adj=0"; }
ok "splat: to be out of memory" splats "$(oom 0)" 'Call Trace:' Mem-Info:
ok "no splat: to be so because of SysRq-f" fine "$(oom -1)" 'Call Trace:' Mem-Info:
# so while stress.sh says that it takes all there is, and what else is said then, and afterwards
out_of_memory=("$(oom 0)" 'Call Trace:' 'memory: usage 16384kB')
taken='slab_stress: somebody takes all memory'
given_back='slab_stress: it is given back'
ok "no splat: nor because of stress.sh" fine "$taken" "${out_of_memory[@]}" "$given_back"
ok "splat: something else, meanwhile" splats "$taken" "${out_of_memory[@]}" 'Call Trace:' "$given_back"
ok "splat: or the same afterwards" splats "$taken" "$given_back" "${out_of_memory[@]}"
ok "end: a hang" ends 124 'hung: no end within 30 s' 'ok'
ok "end: a panic" ends 0 'panicked: Fatal exception' 'Kernel panic - not syncing: Fatal exception'
ok "end: a splat" ends 0 'has a splat' 'Call trace:'
says_nothing() { says ok && [ -z "$(what_went_wrong 0 30)" ]; }
ok "end: none of that" says_nothing
