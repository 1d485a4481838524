// SPDX-License-Identifier: GPL-2.0
/*
 * The machine that the allocator finds itself on: per-CPU areas, masks, nodes,
 * alternatives, bugs, tasks; and how it boots there.
 *
 * Per-CPU data. The linker collects it in one section; each CPU has a copy of that,
 * followed by room for alloc_percpu(). A per-CPU symbol is accessed relative to GS,
 * so GS is the distance between the copy and the original.
 *
 * Tasks and CPUs. A CPU is a fair lock: the thread that holds it runs kernel code on
 * it and no other one does. Whoever sleeps lets go of the CPU. A thread that is not
 * bound gets any CPU when it wakes up, as in a kernel.
 */

#include <linux/bug.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/module.h>
#include <linux/nodemask.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/sched/isolation.h>
#include <linux/slab.h>
#include <linux/topology.h>
#include <asm/alternative.h>
#include <asm/cpufeature.h>
#include <asm/processor-flags.h>

#include "native.h"

#define UNIT_SIZE	SZ_1M
#define NEW_PERCPU	(LINUX_VERSION_CODE >= KERNEL_VERSION(6, 15, 0))

unsigned long __per_cpu_offset[NR_CPUS];
DEFINE_PER_CPU(int, numa_node);
#if NEW_PERCPU
DEFINE_PER_CPU_CACHE_HOT(unsigned long, this_cpu_off);
DEFINE_PER_CPU_CACHE_HOT(struct task_struct *, current_task);
DEFINE_PER_CPU_CACHE_HOT(int, __preempt_count);
DEFINE_PER_CPU_CACHE_HOT(int, cpu_number);
asm(".globl const_current_task\n.set const_current_task, current_task\n");
#define task_of(cpu)	per_cpu(current_task, cpu)
#define count_of(cpu)	per_cpu(__preempt_count, cpu)
#define number_of(cpu)	per_cpu(cpu_number, cpu)
#else
DEFINE_PER_CPU_READ_MOSTLY(unsigned long, this_cpu_off);
DEFINE_PER_CPU_ALIGNED(struct pcpu_hot, pcpu_hot);
asm(".globl const_pcpu_hot\n.set const_pcpu_hot, pcpu_hot\n");
#define task_of(cpu)	per_cpu(pcpu_hot, cpu).current_task
#define count_of(cpu)	per_cpu(pcpu_hot, cpu).preempt_count
#define number_of(cpu)	per_cpu(pcpu_hot, cpu).cpu_number
#endif

/* What the interrupt flag is in the stress, see nops.h. */
DEFINE_PER_CPU(unsigned long, native_flags) = X86_EFLAGS_IF;

struct cpumask __cpu_online_mask;
struct cpumask __cpu_present_mask;
struct cpumask __cpu_possible_mask;
atomic_t __num_online_cpus;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 15, 0)
unsigned int __num_possible_cpus;
#endif
unsigned int nr_cpu_ids = NR_CPUS;
unsigned int nr_node_ids;
unsigned int nr_online_nodes;
nodemask_t node_states[NR_NODE_STATES];
struct pglist_data *node_data[MAX_NUMNODES];
struct cpuinfo_x86 boot_cpu_data;

unsigned int native_errors;
bool native_chaos;
bool native_isolates;
static unsigned int nr_cpus;
static u64 boot_seed;

/*
 * Random numbers: one sequence for each task, which the seed determines.
 */

u32 native_random(u32 below)
{
	struct native_task *t = native_current();
	u64 *state = in_hardirq() ? &t->irq_random : &t->random;

	/* xorshift64* */
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return ((*state * 2685821657736338717ULL >> 32) * below) >> 32;
}

/*
 * Tasks
 */

struct native_task *native_current(void)
{
	return container_of(current, struct native_task, task);
}

struct native_task *native_task_create(int (*fn)(void *arg), void *arg)
{
	static u64 nr;
	struct native_task *t = host_map(sizeof(*t), PAGE_SIZE);

	t->fn = fn;
	t->arg = arg;
	t->random = boot_seed + ++nr * 0x9e3779b97f4a7c15ULL;
	t->irq_random = t->random ^ 0xd1b54a32d192ed03ULL;
	return t;
}

static void enter_cpu(struct native_task *t, unsigned int cpu)
{
	for (;;) {
		host_cpu_acquire(cpu);
		if (cpu_online(cpu))
			break;
		/* It went offline, and is not for tasks any more. */
		host_cpu_release(cpu);
		cpu = (cpu + 1) % nr_cpus;
	}
	host_set_gs(__per_cpu_offset[cpu]);
	if (preempt_count())
		native_die("CPU %u is left with a preempt count of %x", cpu,
			   preempt_count());
	task_of(cpu) = &t->task;
	t->cpu = cpu;
	native_rcu_cpu_enters(cpu);
	host_irqs_here(1);
}

static void leave_cpu(struct native_task *t)
{
	host_irqs_here(0);
	if (preempt_count())
		native_die("sleeping with a preempt count of %x", preempt_count());
	native_rcu_cpu_leaves(t->cpu);
	host_cpu_release(t->cpu);
}

void native_move(unsigned int cpu)
{
	struct native_task *t = native_current();

	leave_cpu(t);
	enter_cpu(t, cpu);
}

static void sleep_by(void (*host_sleep)(void))
{
	struct native_task *t = native_current();
	unsigned int cpu;

	host_irqs_here(0);
	cpu = t->cpu;
	if (native_chaos && !t->bound)
		cpu = native_random(nr_cpus);
	leave_cpu(t);
	host_sleep();
	enter_cpu(t, cpu);
}

void native_sleep(void)
{
	sleep_by(host_yield);
}

void native_sleep_long(void)
{
	sleep_by(host_nap);
}

void native_safe_point(void)
{
	struct native_task *t = native_current();

	preempt_disable();
	native_rcu_quiescent(t->cpu);
	preempt_enable();
	native_run_delayed(t->cpu);
	if (host_cpu_wanted(t->cpu))
		native_sleep();
}

static void task_main(void *arg)
{
	struct native_task *t = arg;

	enter_cpu(t, t->cpu);
	t->fn(t->arg);
	leave_cpu(t);
}

/* Real CPUs are handed out in turn to the threads that run at the same time. */
static atomic_t nr_running;

void native_task_start(struct native_task *t, int cpu)
{
	t->cpu = cpu;
	t->thread = host_thread_start(task_main, t,
				      atomic_inc_return(&nr_running) - 1);
}

void native_task_join(struct native_task *t)
{
	struct native_task *self = native_current();
	unsigned int cpu;

	host_irqs_here(0);
	cpu = self->cpu;
	leave_cpu(self);
	host_thread_join(t->thread);
	enter_cpu(self, cpu);
	atomic_dec(&nr_running);
	host_unmap(t, sizeof(*t));
}

unsigned int native_nr_cpus(void)
{
	return nr_cpus;
}

DEFINE_STATIC_KEY_FALSE(housekeeping_overridden);

/* The last one of four CPUs or more may be isolated. */
bool housekeeping_test_cpu(int cpu, enum hk_type type)
{
	return !native_isolates || nr_cpus < 4 || cpu != nr_cpus - 1;
}

/* What the kernel's statistics of memory keep up to date. */
static void update_node(unsigned int cpu)
{
	int node = cpu_to_node(cpu);
	unsigned int other;

	node_clear(node, node_states[N_CPU]);
	for_each_online_cpu(other)
		if (cpu_to_node(other) == node)
			node_set(node, node_states[N_CPU]);
}

/* With the lock for hotplug held. Whoever runs on the CPU is made to leave it. */
bool native_cpu_offline(unsigned int cpu)
{
	struct native_task *t = native_current();
	bool was_bound = t->bound;

	if (!cpu_online(cpu) || num_online_cpus() < 2)
		return false;
	t->bound = true;
	if (t->cpu == cpu)
		native_move(cpumask_any_but(&__cpu_online_mask, cpu));

	/* Nothing may make this task go and wait for the CPU that it holds. */
	host_irqs_here(0);
	host_cpu_acquire(cpu);
	cpumask_clear_cpu(cpu, &__cpu_online_mask);
	atomic_dec(&__num_online_cpus);
	host_cpu_release(cpu);
	host_irqs_here(1);
	t->bound = was_bound;
	update_node(cpu);
	native_hotplug_callbacks(cpu, false);
	return true;
}

void native_cpu_online(unsigned int cpu)
{
	if (cpu_online(cpu))
		return;
	if (native_hotplug_callbacks(cpu, true))
		native_die("CPU %u cannot be brought up", cpu);
	host_irqs_here(0);
	host_cpu_acquire(cpu);
	cpumask_set_cpu(cpu, &__cpu_online_mask);
	host_cpu_release(cpu);
	host_irqs_here(1);
	atomic_inc(&__num_online_cpus);
	update_node(cpu);
}

/*
 * An interrupt: a signal that came while the thread ran kernel code. In front of
 * preemptible code it is also the timer that lets somebody else run.
 */
void native_irq(void)
{
	if (!raw_cpu_read(native_flags))
		return;		/* disabled: it is lost */
	if (!preempt_count() && native_chaos && native_random(2)) {
		native_sleep();
		return;
	}
	raw_cpu_write(native_flags, 0);
	preempt_count_add(HARDIRQ_OFFSET);
	native_stress_irq();
	preempt_count_sub(HARDIRQ_OFFSET);
	raw_cpu_write(native_flags, X86_EFLAGS_IF);
}

/*
 * Per-CPU memory. The size classes are powers of two, what is freed is used again.
 */

static char *units;
static unsigned long percpu_used;
static void *percpu_free[16];
static u8 percpu_order[UNIT_SIZE / 16];
static long percpu_in_use;
static DEFINE_SPINLOCK(percpu_lock);

static void percpu_init(unsigned int nr)
{
	unsigned long size = __stop_percpu_data - __start_percpu_data;
	unsigned int cpu;

	if (size > UNIT_SIZE / 2)
		native_die("%lu bytes of per-CPU data", size);
	percpu_used = roundup_pow_of_two(size);
	units = host_map((unsigned long)nr * UNIT_SIZE, SZ_2M);
	for (cpu = 0; cpu < nr; cpu++) {
		char *unit = units + (unsigned long)cpu * UNIT_SIZE;

		__builtin_memcpy(unit, __start_percpu_data, size);
		__per_cpu_offset[cpu] = (unsigned long)unit -
					(unsigned long)__start_percpu_data;
		per_cpu(this_cpu_off, cpu) = __per_cpu_offset[cpu];
	}
}

static unsigned int percpu_index(void __percpu *p)
{
	return ((unsigned long)p - (unsigned long)__start_percpu_data) / 16;
}

void __percpu *pcpu_alloc_noprof(size_t size, size_t align, bool reserved, gfp_t gfp)
{
	unsigned int order = ilog2(roundup_pow_of_two(max3(size, align, (size_t)16)));
	unsigned int cpu;
	unsigned long flags;
	void *p;

	spin_lock_irqsave(&percpu_lock, flags);
	p = percpu_free[order];
	if (p) {
		percpu_free[order] = *(void **)(p + __per_cpu_offset[0]);
	} else {
		unsigned long start = ALIGN(percpu_used, 1UL << order);

		if (start + (1UL << order) > UNIT_SIZE)
			native_die("out of per-CPU memory");
		percpu_used = start + (1UL << order);
		p = __start_percpu_data + start;
	}
	percpu_in_use++;
	spin_unlock_irqrestore(&percpu_lock, flags);
	/* Pairs with kfree_const(): the memory of a cache is used again. */
	host_san_acquire(&native_errors);

	percpu_order[percpu_index((void __percpu *)p)] = order;
	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		memset(p + __per_cpu_offset[cpu], 0, 1UL << order);
	return (void __percpu *)p;
}

void free_percpu(void __percpu *ptr)
{
	void *p = (void __force *)ptr;
	unsigned int order;
	unsigned long flags;

	if (!p)
		return;
	order = percpu_order[percpu_index(ptr)];
	spin_lock_irqsave(&percpu_lock, flags);
	*(void **)(p + __per_cpu_offset[0]) = percpu_free[order];
	percpu_free[order] = p;
	percpu_in_use--;
	spin_unlock_irqrestore(&percpu_lock, flags);
}

long native_percpu_in_use(void)
{
	return percpu_in_use;
}

/*
 * Alternatives: what this processor has better instructions for
 */

/* Words of the kernel's feature bits that the user's side reads by cpuid. */
static bool has_feature(unsigned int feature)
{
	if (feature == X86_FEATURE_ALWAYS || feature == X86_FEATURE_REP_GOOD)
		return true;
	return host_has_cpu_feature(feature / 32) >> (feature % 32) & 1;
}

/*
 * A jump on a condition, out of a replacement to what is around the replaced. Nothing here
 * decodes instructions, but what looks like one, and leads there, is one.
 */
static bool jumps_back(const u8 *insn, const u8 *to)
{
	const u8 *target = insn + 6 + *(const s32 *)(insn + 2);

	return insn[0] == 0x0f && (insn[1] & 0xf0) == 0x80 &&
	       target > to - SZ_4K && target < to + SZ_4K;
}

static void apply_alternative(struct alt_instr *a)
{
	u8 *from = (u8 *)&a->repl_offset + a->repl_offset;
	u8 *to = (u8 *)&a->instr_offset + a->instr_offset;
	unsigned int i;

	if (has_feature(a->cpuid) == !!(a->flags & ALT_FLAG_NOT))
		return;
	if (a->flags & ~ALT_FLAG_NOT)
		return;		/* calls of paravirt operations: none of ours */

	__builtin_memcpy(to, from, a->replacementlen);
	if (a->replacementlen == 5 && (*from == 0xe8 || *from == 0xe9))
		*(s32 *)(to + 1) += from - to;
	for (i = 0; i + 6 <= a->replacementlen; i++)
		if (jumps_back(from + i, to))
			*(s32 *)(to + i + 2) += from - to;
	for (i = a->replacementlen; i < a->instrlen; i++)
		to[i] = 0x90;
}

static void apply_all_alternatives(void)
{
	struct alt_instr *a;

	host_writable(__executable_start, etext - __executable_start);
	for (a = __start_altinstructions; a < __stop_altinstructions; a++)
		apply_alternative(a);
}

/*
 * Bugs: called for a ud2. Returns whether it was but a warning.
 */

int native_bug(unsigned long ip)
{
	struct bug_entry *b;

	for (b = __start___bug_table; b < __stop___bug_table; b++) {
		if ((unsigned long)&b->bug_addr_disp + b->bug_addr_disp != ip)
			continue;
		if (b->flags & BUGFLAG_ONCE && b->flags & BUGFLAG_DONE)
			return 1;
		b->flags |= BUGFLAG_DONE;
		native_errors++;
		pr_info("slab-native: %s at %s:%u\n",
			b->flags & BUGFLAG_WARNING ? "WARNING" : "BUG",
			(char *)&b->file_disp + b->file_disp, b->line);
		return !!(b->flags & BUGFLAG_WARNING);
	}
	return 0;
}

/*
 * Booting
 */

static unsigned int node_of(const struct native_machine *m, unsigned int cpu)
{
	return cpu / (m->nr_cpus / m->nr_nodes);
}

static void init_masks(const struct native_machine *m)
{
	unsigned int cpu, node;

	nr_cpus = m->nr_cpus;
	nr_cpu_ids = m->nr_cpus;
	for (cpu = 0; cpu < m->nr_cpus; cpu++) {
		cpumask_set_cpu(cpu, &__cpu_possible_mask);
		cpumask_set_cpu(cpu, &__cpu_present_mask);
		cpumask_set_cpu(cpu, &__cpu_online_mask);
		number_of(cpu) = cpu;
		per_cpu(numa_node, cpu) = node_of(m, cpu);
		count_of(cpu) = PREEMPT_ENABLED;
	}
	atomic_set(&__num_online_cpus, nr_cpus);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 15, 0)
	__num_possible_cpus = nr_cpus;
#endif
	nr_node_ids = m->nr_nodes;
	nr_online_nodes = m->nr_nodes;
	for (node = 0; node < m->nr_nodes; node++) {
		node_set(node, node_states[N_POSSIBLE]);
		node_set(node, node_states[N_ONLINE]);
		node_set(node, node_states[N_CPU]);
		if (m->memory & BIT(node)) {
			node_set(node, node_states[N_NORMAL_MEMORY]);
			node_set(node, node_states[N_MEMORY]);
		}
	}
}

static void run_initcalls(initcall_entry_t *from, initcall_entry_t *to)
{
	for (; from < to; from++)
		initcall_from_entry(from)();
}

void native_boot(const struct native_machine *m, unsigned long seed)
{
	struct native_task *t;

	boot_seed = seed;
	no_hash_pointers = true;
	boot_cpu_data.x86_cache_alignment = 64;
	/* Without it all kernels would lock slabs instead. */
	if (has_feature(X86_FEATURE_CX16))
		set_cpu_cap(&boot_cpu_data, X86_FEATURE_CX16);
	apply_all_alternatives();
	percpu_init(m->nr_cpus);
	init_masks(m);
	host_set_gs(__per_cpu_offset[0]);
	native_pages_init(m);

	t = native_task_create(NULL, NULL);
	t->bound = true;
	task_of(0) = &t->task;
	enter_cpu(t, 0);

	kmem_cache_init();
	kmem_cache_init_late();
	if (kvfree_rcu_init)
		kvfree_rcu_init();
	run_initcalls(__start_initcallsearly, __stop_initcallsearly);
	run_initcalls(__start_initcalls4, __stop_initcalls4);
	run_initcalls(__start_initcalls6, __stop_initcalls6);
	run_initcalls(__start_initcalls7, __stop_initcalls7);
}
