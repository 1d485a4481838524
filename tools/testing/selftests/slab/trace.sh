# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034
#
# Who disturbs a CPU, told by tracepoints, and whether it is the allocator. Sourced,
# after functions.sh, by bash.
#
# What counts as a disturbance of a CPU:
#
#   a work item queued on one of its own workers      workqueue_queue_work
#   or run by whichever worker, there                 workqueue_execute_start
#   a function that it is interrupted for             csd_queue_cpu, csd_function_entry
#   an IPI, by those who send it                      ipi_send_cpu, ipi_send_cpumask
#   an irq_work that it runs                          a kprobe: there is no tracepoint
#                                                     that tells whose it is
#   a timer that expires there                        (hr)timer_expire_entry
#
# Whose it is. What is sent comes with the stack of the sender, and what is run with
# the name of the function, or that of the workqueue. ALLOCATOR matches those of the
# allocator: the names of its static functions need not say so, but whoever calls
# them does, since each way in (kmem_cache_..., kfree_rcu_..., the files in sysfs:
# slab_attr_...) has such a name. What comes from deeper down, where the allocator
# called RCU, is RCU's: rcu_barrier() interrupts whom it waits for, and so it does on
# behalf of any other caller. Ticks, RCU's callbacks, TLBs have other names. Whom an
# interrupt has interrupted is not to blame for what that does.
TRACEFS=/sys/kernel/tracing
ALLOCATOR='slab|slub|sheaf|sheaves|barn|kmem_cache|kmalloc|kfree_rcu|kvfree|fill_page_cache'
RCUS='(^| )(rcu_barrier|_?_?rcu_exp_|synchronize_s?rcu|sync_rcu_|__call_rcu|rcu_core)'
RCUS+='|(^| )(rcu_nocb|srcu_)'
# Where a CPU is interrupted: x86, arm64, arm, s390.
ENTRIES='asm_(sysvec|common|exc)_|el1h?_(64_)?(irq|fiq|sync|error|interrupt|abort|dbg)'
ENTRIES+='|__(irq|fiq|dabt|pabt|und)_svc|(io|ext|mcck)_int_handler|pgm_check_handler'
TRACE=				# the instance, empty if there is none
EVENTS="workqueue/workqueue_queue_work workqueue/workqueue_execute_start
	csd/csd_queue_cpu csd/csd_function_entry ipi/ipi_send_cpu ipi/ipi_send_cpumask
	timer/timer_expire_entry timer/hrtimer_expire_entry"

# The kprobe, in KPROBE: an irq_work's function is what follows its node, which is as long as two
# pointers. Not every architecture says which register has the first argument.
probe_irq_work() {
	local address arg

	read -r address _ </proc/kallsyms
	for arg in "\$arg1" %r0; do
		KPROBE=slab_$$/irq_work_run
		{ echo "p:$KPROBE irq_work_single func=+${#address}($arg):symbol" \
			>>$TRACEFS/kprobe_events; } 2>/dev/null && return
	done
	KPROBE=
	return 1
}

# trace_begin [CPU]: an instance of our own, for what disturbs that CPU, or any. Fails,
# with WHY, if this kernel cannot tell. TRACE_KB is how much it remembers for each CPU.
trace_begin() {
	local event filter

	[ -d $TRACEFS/events ] || mount -t tracefs none $TRACEFS 2>/dev/null
	WHY="no tracefs"
	[ -d $TRACEFS/instances ] || return
	TRACE=$TRACEFS/instances/slab.$$
	mkdir "$TRACE" || return
	echo 0 >"$TRACE/tracing_on"
	echo "${TRACE_KB:-4096}" >"$TRACE/buffer_size_kb"
	echo 1 >"$TRACE/options/stacktrace"
	for event in $EVENTS; do
		WHY="no tracepoint $event"
		if [ ! -d "$TRACE/events/$event" ]; then
			# without other CPUs, nobody sends anything
			[[ $event == csd/* || $event == ipi/* ]] && one_cpu || return
			continue
		fi
		case $event in
		*_queue_work) filter="cpu == $1 || CPU == $1" ;;
		*_queue_cpu | *_send_cpu) filter="cpu == $1" ;;
		*_send_cpumask) filter="cpumask & CPUS{$1}" ;;
		*) filter="CPU == $1" ;;
		esac
		WHY="no filter for $event: $filter"
		[ -z "${1:-}" ] || echo "$filter" >"$TRACE/events/$event/filter" || return
		echo 1 >"$TRACE/events/$event/enable"
	done
	WHY="no kprobes, so nobody can tell whose an irq_work is, needs CONFIG_KPROBE_EVENTS"
	probe_irq_work || return
	[ -z "${1:-}" ] || echo "CPU == $1" >"$TRACE/events/$KPROBE/filter"
	echo 1 >"$TRACE/events/$KPROBE/enable"
}

trace_end() {
	[ -n "$TRACE" ] && [ -d "$TRACE" ] || return 0
	echo 0 >"$TRACE/tracing_on"
	[ -z "${KPROBE:-}" ] || {
		echo 0 >"$TRACE/events/$KPROBE/enable"
		echo "-:$KPROBE" >>$TRACEFS/kprobe_events
	}
	rmdir "$TRACE"
	TRACE=
}

trace_on() {
	echo >"$TRACE/trace"
	echo 1 >"$TRACE/tracing_on"
}

trace_off() { echo 0 >"$TRACE/tracing_on"; }

# Whether everything that was to be recorded is there still.
trace_complete() {
	local file lost

	for file in "$TRACE"/per_cpu/cpu*/stats; do
		lost=$(sed -n 's/^overrun: //p' "$file")
		[ "${lost:-0}" -eq 0 ] || {
			msg "void: $lost events were lost, ${file%/stats}"
			return 1
		}
	done
}

# An event and the stack below it in one line: `[003] name: what, by f < g < h'. The
# stack begins with what the tracing itself consists of. CPU by CPU: what another one
# does must not get between the two.
trace_lines() {
	awk '
	function out() { if (line != "") print line (stack == "" ? "" : ", by" stack) }
	/^ => / {
		f = $2
		sub(/\+0x.*/, "", f)
		if (f !~ /^(trace_|__?traceiter|__?bpf_|ftrace_|__ftrace|kprobe_)/)
			stack = stack (stack == "" ? " " : " < ") f
		next
	}
	/<stack trace>$/ || /^#/ || /^$/ { next }
	{
		out()
		stack = ""
		sub(/^[^[]*\[/, "[")
		sub(/\] +[^ ]+ +[0-9.]+: /, "] ")
		line = $0
	}
	END { out() }' "$TRACE"/per_cpu/cpu*/trace
}

# trace_ours [CPU]: those of the lines that are the allocator's doing, and disturb
# that CPU, or any.
trace_ours() {
	trace_lines | awk -v cpu="${1:-}" -v ours="$ALLOCATOR" -v rcus="$RCUS" \
		-v entries="$ENTRIES" '
	{
		where = substr($1, 2, 3) + 0
		what = $0
		stack = ""
		if ((i = index($0, ", by ")) > 0) {
			what = substr($0, 1, i - 1)
			stack = substr($0, i + 5)
		}
		# test_slab_isolated.c makes itself known
		gsub(/test_slab_isolated[a-z_]*/, "test", what)
		gsub(/test_slab_isolated[a-z_]*/, "test", stack)
	}
	# Run by that CPU: the function tells.
	/ (workqueue_execute_start|csd_function_entry|irq_work_run|h?r?timer_expire_entry): / {
		if (what ~ ours)
			print
		next
	}
	# Queued: on which CPU, and by which timer.
	/ workqueue_queue_work: / {
		target = $0
		sub(/.* cpu=/, "", target)
		target += 0
		if (cpu != "" && target != cpu && stack !~ /delayed_work_timer_fn/)
			next
	}
	# Sent. The allocator is to blame for what it calls RCU for no more than any
	# other caller.
	{
		blame = stack
		sub(" < (" entries ").*", "", blame)
		if (match(blame, rcus))
			blame = substr(blame, 1, RSTART - 1)
		if (what ~ ours || blame ~ ours)
			print
	}'
}

# trace_sees NAME...: whether there are lines with these words, or else the tracing is
# void.
trace_sees() {
	local lines name missing=''

	lines=$(trace_lines)
	for name; do
		grep -q "$name" <<<"$lines" || missing+=" $name"
	done
	[ -z "$missing" ] && return
	msg "void: no trace of$missing"
	return 1
}
