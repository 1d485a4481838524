// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for kfree_rcu() in sheaves
 *
 * Each test has a cache of its own, and is bound to a CPU. Whether an object was
 * taken by a sheaf or went the old way, and what became of it after the grace
 * period, is read off the statistics. Where the callbacks of RCU are offloaded
 * (rcu_nocbs), they run on any CPU, so what becomes of the objects is checked in
 * so far as it does not depend on that.
 *
 * An object holds its own address from its allocation until it is freed, and
 * that is after the grace period. When a test has ended, the cache is destroyed,
 * which must not find objects left behind, and each sheaf that was ever
 * allocated must be somewhere.
 *
 * What does not depend on sheaves is tested on kernels without them, too
 * (slab_sheaf_capacity=0).
 */

#include <kunit/resource.h>
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/jiffies.h>
#include <linux/kfence.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/nodemask.h>
#include <linux/prandom.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include "../../mm/slab.h"
#include "../../mm/slab_sheaf.h"

struct object {
	unsigned long self;
	unsigned long value;
	struct rcu_head rcu;
	struct object *next;
};

#define MARK		0x0b7ec7ed5a5a5a5aUL

/* What the statistics count: objects, and for barns sheaves. */
struct moves {
	unsigned long rcu_sheaf, rcu_fail;
	unsigned long free_fast, free_slow;
	unsigned long flush;
	unsigned long barn_put, barn_put_fail;
};

struct rcu_test {
	struct kmem_cache *cache;
	struct slub_percpu_sheaves *pcs;	/* of the CPU that the test is on */
	unsigned int cap;
	int cpu;
	struct object *held;			/* a stack */
	unsigned long nr_held;
	struct moves before;
	struct kunit_resource resource;
	int slab_errors;
};

/*
 * Objects
 */

static void hold(struct rcu_test *rt, struct object *obj)
{
	obj->self = MARK ^ (unsigned long)obj;
	obj->next = rt->held;
	rt->held = obj;
	rt->nr_held++;
}

static void grab_on(struct kunit *test, unsigned long n, gfp_t gfp, int node)
{
	struct rcu_test *rt = test->priv;

	while (n--) {
		struct object *obj = kmem_cache_alloc_node(rt->cache, gfp, node);

		KUNIT_ASSERT_NOT_NULL(test, obj);
		hold(rt, obj);
	}
}

static void grab(struct kunit *test, unsigned long n)
{
	grab_on(test, n, GFP_KERNEL, NUMA_NO_NODE);
}

static struct object *let_go(struct rcu_test *rt)
{
	struct object *obj = rt->held;

	rt->held = obj->next;
	rt->nr_held--;
	return obj;
}

static void release_rcu(struct rcu_test *rt, unsigned long n)
{
	while (n--) {
		struct object *obj = let_go(rt);

		kfree_rcu(obj, rcu);
	}
}

static void release_all(struct rcu_test *rt)
{
	while (rt->nr_held)
		kmem_cache_free(rt->cache, let_go(rt));
}

/*
 * Counters
 */

static struct moves count_moves(struct kmem_cache *s)
{
	return (struct moves) {
		.rcu_sheaf = kmem_cache_stat_sum(s, FREE_RCU_SHEAF),
		.rcu_fail = kmem_cache_stat_sum(s, FREE_RCU_SHEAF_FAIL),
		.free_fast = kmem_cache_stat_sum(s, FREE_FASTPATH),
		.free_slow = kmem_cache_stat_sum(s, FREE_SLOWPATH),
		.flush = kmem_cache_stat_sum(s, SHEAF_FLUSH),
		.barn_put = kmem_cache_stat_sum(s, BARN_PUT),
		.barn_put_fail = kmem_cache_stat_sum(s, BARN_PUT_FAIL),
	};
}

/* What happened since the last time. */
static struct moves take_moves(struct kunit *test)
{
	struct rcu_test *rt = test->priv;
	struct moves *b = &rt->before;
	struct moves now = count_moves(rt->cache);
	struct moves m = {
		.rcu_sheaf = now.rcu_sheaf - b->rcu_sheaf,
		.rcu_fail = now.rcu_fail - b->rcu_fail,
		.free_fast = now.free_fast - b->free_fast,
		.free_slow = now.free_slow - b->free_slow,
		.flush = now.flush - b->flush,
		.barn_put = now.barn_put - b->barn_put,
		.barn_put_fail = now.barn_put_fail - b->barn_put_fail,
	};

	*b = now;
	return m;
}

static void expect_count(struct kunit *test, int line, const char *what,
			 unsigned long n, unsigned long want)
{
	KUNIT_EXPECT_EQ_MSG(test, n, want, "%s, from line %d", what, line);
}

static void __expect_moves(struct kunit *test, int line, struct moves want)
{
	struct moves m = take_moves(test);

	expect_count(test, line, "rcu_sheaf", m.rcu_sheaf, want.rcu_sheaf);
	expect_count(test, line, "rcu_fail", m.rcu_fail, want.rcu_fail);
	expect_count(test, line, "free_fast", m.free_fast, want.free_fast);
	expect_count(test, line, "free_slow", m.free_slow, want.free_slow);
	expect_count(test, line, "flush", m.flush, want.flush);
	expect_count(test, line, "barn_put", m.barn_put, want.barn_put);
	expect_count(test, line, "barn_put_fail", m.barn_put_fail, want.barn_put_fail);
}

/* Those that are named have moved since the last time, and no others. */
#define expect_moves(test, ...) \
	__expect_moves(test, __LINE__, (struct moves) { __VA_ARGS__ })

/* So many objects were freed in the end, whatever the way. */
static void __expect_freed(struct kunit *test, int line, unsigned long want)
{
	struct moves m = take_moves(test);

	expect_count(test, line, "objects freed", m.free_fast + m.free_slow, want);
}

#define expect_freed(test, n) \
	__expect_freed(test, __LINE__, n)

static unsigned long nr_freed(struct rcu_test *rt)
{
	return kmem_cache_stat_sum(rt->cache, FREE_FASTPATH) +
	       kmem_cache_stat_sum(rt->cache, FREE_SLOWPATH) -
	       rt->before.free_fast - rt->before.free_slow;
}

static unsigned int rcu_free_size(const struct slub_percpu_sheaves *pcs)
{
	return pcs->rcu_free ? pcs->rcu_free->size : 0;
}

/* The sheaves that there are: those of CPUs, and those in barns. */
static unsigned long count_sheaves(struct kmem_cache *s)
{
	struct slub_percpu_sheaves *pcs;
	unsigned long nr = 0;
	int cpu, node;

	for_each_possible_cpu(cpu) {
		pcs = per_cpu_ptr(s->cpu_sheaves, cpu);
		nr += pcs->main->capacity > 0;
		nr += !!pcs->spare;
		nr += !!pcs->remote;
		nr += !!pcs->rcu_free;
	}
	if (s->barns) {
		for_each_node(node)
			if (s->barns[node])
				nr += s->barns[node]->nr_full + s->barns[node]->nr_empty;
	}
	return nr;
}

/*
 * Caches, CPUs and nodes
 */

static struct kmem_cache *new_cache(struct kunit *test, const char *name, unsigned int size,
				    slab_flags_t flags, unsigned int capacity)
{
	struct kmem_cache_args args = { .sheaf_capacity = capacity };
	struct kmem_cache *s;

	/* No boot parameter turns on debugging. */
	s = kmem_cache_create(name, size, &args,
			      flags | SLAB_NO_USER_FLAGS | SLAB_NO_MERGE);
	KUNIT_ASSERT_NOT_NULL(test, s);
	return s;
}

static void use_cache(struct kunit *test, struct kmem_cache *s)
{
	struct rcu_test *rt = test->priv;

	rt->cache = s;
	rt->cap = s->sheaf_capacity;
	rt->pcs = per_cpu_ptr(s->cpu_sheaves, rt->cpu);
	rt->before = count_moves(s);
}

/* KFENCE does not interfere, and KASAN does not keep freed objects back. */
static struct kmem_cache *new_counted_cache(struct kunit *test, const char *name,
					    unsigned int size, slab_flags_t flags,
					    unsigned int capacity)
{
	struct kmem_cache *s = new_cache(test, name, size, flags, capacity);

	s->flags |= SLAB_SKIP_KFENCE;
#ifdef CONFIG_KASAN_GENERIC
	/* KASAN_NO_FREE_META: there is no room to keep the object in a list */
	if (!(flags & SLAB_DEBUG_FLAGS))
		s->kasan_info.free_meta_offset = INT_MAX;
#endif
	return s;
}

static struct rcu_test *with_any_cache(struct kunit *test, unsigned int size,
				       slab_flags_t flags, unsigned int capacity)
{
	use_cache(test, new_counted_cache(test, "slab_rcu_kunit", size, flags, capacity));
	return test->priv;
}

static void skip_without_sheaves(struct kunit *test)
{
	struct rcu_test *rt = test->priv;

	if (!rt->cap)
		kunit_skip(test, "slab_sheaf_capacity=0: caches have no sheaves");
}

static struct rcu_test *with_cache(struct kunit *test)
{
	struct rcu_test *rt = with_any_cache(test, sizeof(struct object), 0, 0);

	skip_without_sheaves(test);
	return rt;
}

/* Waits first, for all sheaves to be somewhere. */
static void destroy_cache(struct kunit *test)
{
	struct rcu_test *rt = test->priv;

	if (!rt->cache)
		return;
	release_all(rt);
	kvfree_rcu_barrier();
	KUNIT_EXPECT_EQ(test, count_sheaves(rt->cache),
			kmem_cache_stat_sum(rt->cache, SHEAF_ALLOC) -
			kmem_cache_stat_sum(rt->cache, SHEAF_FREE));
	kmem_cache_destroy(rt->cache);
	rt->cache = NULL;
	KUNIT_EXPECT_EQ(test, rt->slab_errors, 0);
}

static void bind_to(struct kunit *test, int cpu)
{
	struct rcu_test *rt = test->priv;

	set_cpus_allowed_ptr(current, cpumask_of(cpu));
	rt->cpu = cpu;
}

static int find_cpu(bool memory)
{
	int cpu;

	for_each_online_cpu(cpu)
		if (node_state(cpu_to_node(cpu), N_NORMAL_MEMORY) == memory)
			return cpu;
	return -1;
}

static struct node_barn *barn_here(struct rcu_test *rt)
{
	return rt->cache->barns[cpu_to_node(rt->cpu)];
}

/*
 * Ways
 */

static const struct setup {
	const char *desc;
	unsigned int size;
	unsigned int capacity;
	bool memoryless;
} setups[] = {
	{ "default capacity", sizeof(struct object) },
	{ "small capacity", PAGE_SIZE },
	{ "odd size", 328 },
	{ "large capacity", sizeof(struct object), 250 },
	{ "node without memory", sizeof(struct object), 0, true },
};

KUNIT_ARRAY_PARAM_DESC(setups, setups, desc);

static struct rcu_test *with_setup(struct kunit *test)
{
	const struct setup *setup = test->param_value;
	int cpu = find_cpu(!setup->memoryless);
	struct rcu_test *rt;

	if (cpu < 0)
		kunit_skip(test, "no CPU on a node %s memory",
			   setup->memoryless ? "without" : "with");
	bind_to(test, cpu);
	rt = with_any_cache(test, setup->size, 0, setup->capacity);
	skip_without_sheaves(test);
	return rt;
}

/* In the barns of all nodes: the work item that frees a sheaf may run on any of them. */
static unsigned int nr_full_sheaves(struct rcu_test *rt)
{
	unsigned int nr = 0;
	int node;

	for_each_online_node(node)
		nr += rt->cache->barns[node]->nr_full;
	return nr;
}

/* A sheaf collects, waits when it is full, and goes to the barn. */
static void full_sheaf_goes_to_barn(struct kunit *test)
{
	struct rcu_test *rt = with_setup(test);
	unsigned int nr_full;

	grab(test, 2 * rt->cap);
	take_moves(test);
	release_rcu(rt, rt->cap - 1);
	expect_moves(test, .rcu_sheaf = rt->cap - 1);
	KUNIT_EXPECT_EQ(test, rcu_free_size(rt->pcs), rt->cap - 1);

	nr_full = nr_full_sheaves(rt);
	release_rcu(rt, 1);
	KUNIT_EXPECT_NULL(test, rt->pcs->rcu_free);
	kvfree_rcu_barrier();
	expect_moves(test, .rcu_sheaf = 1, .free_fast = rt->cap, .barn_put = 1);
	KUNIT_EXPECT_EQ(test, nr_full_sheaves(rt), nr_full + 1);

	/* One that was not there is found, or made. */
	release_rcu(rt, rt->cap);
	kvfree_rcu_barrier();
	expect_moves(test, .rcu_sheaf = rt->cap, .free_fast = rt->cap, .barn_put = 1);
}

/* The barns are at their limit: a full sheaf is flushed, and not lost. */
static void full_barn_flushes(struct kunit *test)
{
	struct rcu_test *rt = with_setup(test);
	int node;

	grab(test, 3 * rt->cap);
	for_each_online_node(node)
		barn_set_limits(rt->cache->barns[node], 0, 0);
	take_moves(test);
	release_rcu(rt, 3 * rt->cap);
	kvfree_rcu_barrier();
	expect_moves(test, .rcu_sheaf = 3 * rt->cap, .free_fast = 3 * rt->cap,
		     .barn_put_fail = 3, .flush = 3 * rt->cap);
}

/* A sheaf that never becomes full. */
static void barrier_takes_the_rest(struct kunit *test)
{
	struct rcu_test *rt = with_setup(test);

	grab(test, rt->cap);
	take_moves(test);
	release_rcu(rt, rt->cap / 2);
	KUNIT_EXPECT_EQ(test, rcu_free_size(rt->pcs), rt->cap / 2);
	expect_freed(test, 0);
	kvfree_rcu_barrier();
	KUNIT_EXPECT_NULL(test, rt->pcs->rcu_free);
	expect_freed(test, rt->cap / 2);

	/* Nothing to do. */
	kvfree_rcu_barrier();
	expect_moves(test);
}

static bool all_intact(void **p, unsigned long n)
{
	unsigned long i;

	for (i = 0; i < n; i++)
		if (READ_ONCE(((struct object *)p[i])->self) != (MARK ^ (unsigned long)p[i]))
			return false;
	return true;
}

/* Hooks, such as the one of KASAN, must not run before the readers are gone. */
static void readers_are_waited_for(struct kunit *test)
{
	struct rcu_test *rt = with_cache(test);
	unsigned long n = 2 * rt->cap, i;
	struct object *obj;
	void **p;

	p = kunit_kmalloc_array(test, n, sizeof(*p), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, p);
	grab(test, n);
	for (i = 0, obj = rt->held; i < n; i++, obj = obj->next)
		p[i] = obj;
	take_moves(test);

	rcu_read_lock();
	release_rcu(rt, n);
	mdelay(100);
	KUNIT_EXPECT_TRUE(test, all_intact(p, n));
	KUNIT_EXPECT_EQ(test, nr_freed(rt), 0);
	rcu_read_unlock();

	kvfree_rcu_barrier();
	expect_freed(test, n);
}

/* kvfree_rcu_mightsleep(): without an rcu_head in the object. */
static void headless(struct kunit *test)
{
	struct rcu_test *rt = with_cache(test);
	unsigned int i;

	grab(test, rt->cap);
	take_moves(test);
	for (i = 0; i < rt->cap; i++)
		kvfree_rcu_mightsleep(let_go(rt));
	kvfree_rcu_barrier();
	expect_moves(test, .rcu_sheaf = rt->cap, .free_fast = rt->cap, .barn_put = 1);
}

/*
 * The old way
 */

static void not_in_slabs(struct kunit *test)
{
	struct rcu_large {
		struct rcu_head rcu;
		char rest[2 * KMALLOC_MAX_CACHE_SIZE];
	} *large = kmalloc(sizeof(*large), GFP_KERNEL);
	struct rcu_large *area = vmalloc(sizeof(*area));

	KUNIT_ASSERT_NOT_NULL(test, large);
	KUNIT_ASSERT_NOT_NULL(test, area);
	kvfree_rcu(large, rcu);
	kvfree_rcu(area, rcu);
	kvfree_rcu_mightsleep(kmalloc(sizeof(*large), GFP_KERNEL));
	kvfree_rcu_mightsleep(vmalloc(sizeof(*large)));
	kvfree_rcu_barrier();
	KUNIT_EXPECT_FALSE(test, is_vmalloc_addr(area) && vmalloc_to_page(area));
}

static void caches_without_sheaves(struct kunit *test)
{
	struct rcu_test *rt = with_any_cache(test, sizeof(struct object),
					     SLAB_CONSISTENCY_CHECKS | SLAB_POISON, 0);

	KUNIT_ASSERT_EQ(test, rt->cap, 0);
	grab(test, 100);
	take_moves(test);
	release_rcu(rt, 100);
	kvfree_rcu_barrier();
	/* KASAN's quarantine has them. */
	kmem_cache_shrink(rt->cache);
	expect_moves(test, .rcu_fail = 100, .free_slow = 100);
}

/* Who has interrupts off gets a sheaf from the barn, or none. */
static void no_empty_sheaf(struct kunit *test)
{
	struct rcu_test *rt = with_cache(test);
	unsigned long flags;

	grab(test, 4);
	barn_set_limits(barn_here(rt), 0, 0);
	kmem_cache_shrink(rt->cache);
	take_moves(test);
	local_irq_save(flags);
	release_rcu(rt, 1);
	local_irq_restore(flags);
	expect_moves(test, .rcu_fail = 1);

	/* Now there is one. */
	release_rcu(rt, 1);
	expect_moves(test, .rcu_sheaf = 1);
	local_irq_save(flags);
	release_rcu(rt, 1);
	local_irq_restore(flags);
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		expect_moves(test, .rcu_fail = 1);
	else
		expect_moves(test, .rcu_sheaf = 1);
	kvfree_rcu_barrier();
	expect_freed(test, 3);
}

static void empty_sheaf_from_barn(struct kunit *test)
{
	struct rcu_test *rt = with_cache(test);
	unsigned long flags;

	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		kunit_skip(test, "the barn is not used with interrupts off");
	grab(test, rt->cap + 1);
	barn_set_limits(barn_here(rt), 0, 10);
	/* Comes back, and is flushed. */
	release_rcu(rt, rt->cap);
	kvfree_rcu_barrier();
	if (!barn_here(rt)->nr_empty)
		kunit_skip(test, "it was freed on another node");
	take_moves(test);
	local_irq_save(flags);
	release_rcu(rt, 1);
	local_irq_restore(flags);
	expect_moves(test, .rcu_sheaf = 1);
}

static void under_raw_spinlock(struct kunit *test)
{
	struct rcu_test *rt = with_cache(test);
	static DEFINE_RAW_SPINLOCK(lock);
	unsigned long n = 3 * rt->cap;

	grab(test, n);
	take_moves(test);
	raw_spin_lock(&lock);
	release_rcu(rt, n);
	raw_spin_unlock(&lock);
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		expect_moves(test, .rcu_fail = n);
	else
		KUNIT_EXPECT_EQ(test, take_moves(test).rcu_sheaf, n);
	kvfree_rcu_barrier();
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(rt->cache), 0);
}

/*
 * Interrupts
 */

enum irq_kind { IRQ_WORK, HARD_TIMER, SOFT_TIMER };

struct irq_user {
	struct irq_work work;
	struct hrtimer timer;
	struct object *to_free;
	bool was_hardirq;
	bool done;
};

static void free_in_irq(struct irq_user *u)
{
	u->was_hardirq = in_hardirq();
	kfree_rcu(u->to_free, rcu);
	WRITE_ONCE(u->done, true);
}

static void irq_user_work(struct irq_work *work)
{
	free_in_irq(container_of(work, struct irq_user, work));
}

static enum hrtimer_restart irq_user_timer(struct hrtimer *timer)
{
	free_in_irq(container_of(timer, struct irq_user, timer));
	return HRTIMER_NORESTART;
}

static const struct irq_case {
	const char *desc;
	enum irq_kind kind;
} irq_cases[] = {
	{ "irq_work", IRQ_WORK },
	{ "hrtimer", HARD_TIMER },
	{ "hrtimer in softirq", SOFT_TIMER },
};

KUNIT_ARRAY_PARAM_DESC(irq_cases, irq_cases, desc);

static void prepare_irq(struct irq_user *u, enum irq_kind kind, struct object *to_free)
{
	u->to_free = to_free;
	/* On PREEMPT_RT this one runs in a thread. */
	init_irq_work(&u->work, irq_user_work);
	hrtimer_init_on_stack(&u->timer, CLOCK_MONOTONIC,
			      kind == SOFT_TIMER ? HRTIMER_MODE_REL_PINNED_SOFT :
						   HRTIMER_MODE_REL_PINNED_HARD);
	u->timer.function = irq_user_timer;
}

/* On this CPU. Does not sleep. */
static void raise_irq(struct irq_user *u, enum irq_kind kind)
{
	unsigned long end = jiffies + 5 * HZ;

	if (kind == IRQ_WORK)
		irq_work_queue(&u->work);
	else
		hrtimer_start(&u->timer, ns_to_ktime(10000),
			      kind == SOFT_TIMER ? HRTIMER_MODE_REL_PINNED_SOFT :
						   HRTIMER_MODE_REL_PINNED_HARD);
	while (!READ_ONCE(u->done) && time_before(jiffies, end))
		cpu_relax();
}

static void finish_irq(struct kunit *test, struct irq_user *u)
{
	irq_work_sync(&u->work);
	hrtimer_cancel(&u->timer);
	destroy_hrtimer_on_stack(&u->timer);
	KUNIT_ASSERT_TRUE(test, u->done);
}

/* The sheaves are in use: the interrupt must do without them. */
static void irq_while_sheaves_are_locked(struct kunit *test)
{
	const struct irq_case *c = test->param_value;
	struct rcu_test *rt = with_cache(test);
	struct irq_user u = { };

	grab(test, 2);
	release_rcu(rt, 1);
	take_moves(test);
	prepare_irq(&u, c->kind, let_go(rt));

	local_lock(&rt->cache->cpu_sheaves->lock);
	raise_irq(&u, c->kind);
	local_unlock(&rt->cache->cpu_sheaves->lock);

	finish_irq(test, &u);
	expect_moves(test, .rcu_fail = 1);
	KUNIT_EXPECT_EQ(test, rcu_free_size(rt->pcs), 1);
	kvfree_rcu_barrier();
	expect_freed(test, 2);
}

/* They are not in use, and there is a sheaf. */
static void irq_uses_sheaf(struct kunit *test)
{
	const struct irq_case *c = test->param_value;
	struct rcu_test *rt = with_cache(test);
	struct irq_user u = { };

	grab(test, 2);
	release_rcu(rt, 1);
	take_moves(test);
	prepare_irq(&u, c->kind, let_go(rt));
	raise_irq(&u, c->kind);
	finish_irq(test, &u);
	if (IS_ENABLED(CONFIG_PREEMPT_RT) && u.was_hardirq)
		expect_moves(test, .rcu_fail = 1);
	else
		expect_moves(test, .rcu_sheaf = 1);
	kvfree_rcu_barrier();
	expect_freed(test, 2);
}

/*
 * What becomes of objects that the sheaves of the CPU do not want
 */

/* A node with memory that is not the one of the CPU, which has some, too. */
static int find_remote_node(struct kunit *test)
{
	struct rcu_test *rt = test->priv;
	int node;

	for_each_node_state(node, N_NORMAL_MEMORY)
		if (node != cpu_to_node(rt->cpu) &&
		    node_state(cpu_to_node(rt->cpu), N_NORMAL_MEMORY))
			return node;
	kunit_skip(test, "there are no two nodes with memory");
}

static void remote_sheaf_goes_home(struct kunit *test)
{
	struct rcu_test *rt = with_cache(test);
	int node = find_remote_node(test);
	struct node_barn *home = rt->cache->barns[node];

	grab_on(test, rt->cap, GFP_KERNEL | __GFP_THISNODE, node);
	kmem_cache_shrink(rt->cache);
	take_moves(test);
	release_rcu(rt, rt->cap);
	kvfree_rcu_barrier();
	expect_moves(test, .rcu_sheaf = rt->cap, .free_fast = rt->cap, .barn_put = 1);
	KUNIT_EXPECT_EQ(test, home->nr_full, 1);
}

static void mixed_sheaf_is_sorted(struct kunit *test)
{
	struct rcu_test *rt = with_cache(test);
	int node = find_remote_node(test);
	unsigned int remote = rt->cap / 3;

	grab_on(test, remote, GFP_KERNEL | __GFP_THISNODE, node);
	grab_on(test, rt->cap - remote, GFP_KERNEL | __GFP_THISNODE, cpu_to_node(rt->cpu));
	kmem_cache_shrink(rt->cache);
	/* Main has room. */
	grab(test, 1);
	kmem_cache_free(rt->cache, let_go(rt));
	take_moves(test);
	release_rcu(rt, rt->cap);
	kvfree_rcu_barrier();
	/* Unless it was freed by a work item, and that on another CPU. */
	if (rt->pcs->remote)
		KUNIT_EXPECT_EQ(test, rt->pcs->remote->size, remote);
	KUNIT_EXPECT_EQ(test, nr_freed(rt), rt->cap);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(rt->cache), 0);
}

/* Objects out of the memory reserves are not for everybody. */
static void pfmemalloc_is_kept_out(struct kunit *test)
{
	struct rcu_test *rt = with_cache(test);
	unsigned long cached;

	grab(test, 1);
	cached = kmem_cache_cached_objects(rt->cache);
	slab_set_pfmemalloc(virt_to_slab(rt->held));
	take_moves(test);
	release_rcu(rt, 1);
	kvfree_rcu_barrier();
	expect_moves(test, .rcu_sheaf = 1, .free_fast = 1, .flush = 1);
	KUNIT_EXPECT_EQ(test, kmem_cache_cached_objects(rt->cache), cached);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(rt->cache), 0);
}

static void kfence_is_kept_out(struct kunit *test)
{
	struct rcu_test *rt = test->priv;
	unsigned long end = jiffies + HZ, cached;

	if (!IS_ENABLED(CONFIG_KFENCE))
		kunit_skip(test, "needs CONFIG_KFENCE");
	use_cache(test, new_cache(test, "slab_rcu_kunit", sizeof(struct object), 0, 0));
	skip_without_sheaves(test);
	grab(test, 1);
	while (!is_kfence_address(rt->held) && time_before(jiffies, end)) {
		release_all(rt);
		grab(test, 1);
	}
	if (!is_kfence_address(rt->held))
		kunit_skip(test, "KFENCE has not guarded any object for a second");
	cached = kmem_cache_cached_objects(rt->cache);
	take_moves(test);
	release_rcu(rt, 1);
	kvfree_rcu_barrier();
	expect_moves(test, .rcu_sheaf = 1);
	KUNIT_EXPECT_EQ(test, kmem_cache_cached_objects(rt->cache), cached);
}

/*
 * Nothing is left behind
 */

/* Frees a few objects by kfree_rcu(), on the CPU that it runs on. */
static long free_some(void *arg)
{
	struct rcu_test *rt = arg;
	unsigned int n = rt->cap / 2 ?: 3;

	while (n--) {
		struct object *obj = kmem_cache_alloc(rt->cache, GFP_KERNEL);

		if (!obj)
			return -ENOMEM;
		kfree_rcu(obj, rcu);
	}
	return rt->cap / 2 ?: 3;
}

/* Returns how many objects there are. */
static unsigned long free_some_everywhere(struct kunit *test)
{
	unsigned long nr = 0;
	int cpu;

	for_each_online_cpu(cpu) {
		long n = work_on_cpu(cpu, free_some, test->priv);

		KUNIT_ASSERT_GT(test, n, 0);
		nr += n;
	}
	return nr;
}

static void barrier_on_all_cpus(struct kunit *test)
{
	struct rcu_test *rt = with_any_cache(test, sizeof(struct object), 0, 0);
	unsigned long nr;

	take_moves(test);
	nr = free_some_everywhere(test);
	if (rt->cap)
		KUNIT_EXPECT_EQ(test, nr_freed(rt), 0);
	kvfree_rcu_barrier();
	expect_freed(test, nr);
}

static void destroy_at_once(struct kunit *test)
{
	struct rcu_test *rt = with_any_cache(test, sizeof(struct object), 0, 0);
	unsigned int n = 3 * rt->cap + 5;

	grab(test, n);
	free_some_everywhere(test);
	release_rcu(rt, n);
	kmem_cache_destroy(rt->cache);
	rt->cache = NULL;
	KUNIT_EXPECT_EQ(test, rt->slab_errors, 0);
}

static void wait_until_freed(struct kunit *test, unsigned long nr, unsigned int secs)
{
	unsigned long end = jiffies + secs * HZ;
	struct rcu_test *rt = test->priv;

	while (nr_freed(rt) < nr && time_before(jiffies, end))
		msleep(20);
	expect_freed(test, nr);
}

static void shrink_takes_all(struct kunit *test)
{
	struct rcu_test *rt = with_cache(test);
	unsigned long nr;

	unsigned int cpu;

	take_moves(test);
	nr = free_some_everywhere(test);
	/* Nothing collects any further, but nobody waits for it. */
	kmem_cache_shrink(rt->cache);
	for_each_possible_cpu(cpu)
		KUNIT_EXPECT_NULL(test, per_cpu_ptr(rt->cache->cpu_sheaves,
						    cpu)->rcu_free);
	wait_until_freed(test, nr, 60);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(rt->cache), 0);
	KUNIT_EXPECT_EQ(test, kmem_cache_cached_objects(rt->cache), 0);
}

/* Without anybody waiting. The shrinker of kfree_rcu() has them go soon. */
static void shrinker_hurries(struct kunit *test)
{
	unsigned long nr, start;
	unsigned int i;

	with_cache(test);
	/* Once, that is: a slow machine may take long for a grace period. */
	for (i = 0; i < 5; i++) {
		take_moves(test);
		start = jiffies;
		nr = free_some_everywhere(test);
		/* Some may be gone, with sheaves of others that have been there for long. */
		KUNIT_EXPECT_GT(test, kfree_rcu_sheaves_count(), 0);
		kfree_rcu_sheaves_scan(ULONG_MAX);
		wait_until_freed(test, nr, 60);
		if (time_before(jiffies, start + 4 * HZ))
			break;
	}
	KUNIT_EXPECT_LT(test, i, 5);
}

/* The objects of a CPU that goes on to do something else do not wait for ever. */
static void all_go_in_time(struct kunit *test)
{
	struct rcu_test *rt = with_cache(test);
	unsigned long nr, start;
	unsigned int i;
	bool early;

	/* Once, that is: sheaves of others may have been there for some time. */
	for (i = 0; i < 5; i++) {
		take_moves(test);
		start = jiffies;
		nr = free_some_everywhere(test);
		msleep(1000);
		/* On a slow machine, it is late already. */
		early = time_before(jiffies, start + 4 * HZ) && nr_freed(rt);
		wait_until_freed(test, nr, 60);
		if (!early)
			break;
	}
	KUNIT_EXPECT_LT(test, i, 5);
}

#ifdef CONFIG_HOTPLUG_CPU
/* Not the one that the test runs on. */
static int find_cpu_to_remove(struct rcu_test *rt)
{
	int cpu;

	for_each_online_cpu(cpu)
		if (cpu != rt->cpu && cpu_is_hotpluggable(cpu))
			return cpu;
	return -1;
}

static void cpu_goes_offline(struct kunit *test)
{
	struct rcu_test *rt = with_cache(test);
	int cpu = find_cpu_to_remove(rt);
	struct slub_percpu_sheaves *pcs;
	unsigned int i;
	long n;

	if (cpu < 0)
		kunit_skip(test, "no CPU can be removed");
	pcs = per_cpu_ptr(rt->cache->cpu_sheaves, cpu);
	for (i = 0; i < 3; i++) {
		take_moves(test);
		n = work_on_cpu(cpu, free_some, rt);
		KUNIT_ASSERT_GT(test, n, 0);
		KUNIT_EXPECT_EQ(test, rcu_free_size(pcs), n);

		KUNIT_ASSERT_EQ(test, remove_cpu(cpu), 0);
		KUNIT_EXPECT_NULL(test, pcs->rcu_free);
		kvfree_rcu_barrier();
		expect_freed(test, n);
		KUNIT_ASSERT_EQ(test, add_cpu(cpu), 0);
	}
	/* What became of the work that was pending: it works as before. */
	n = work_on_cpu(cpu, free_some, rt);
	KUNIT_EXPECT_EQ(test, rcu_free_size(pcs), n);
	kvfree_rcu_barrier();
	expect_freed(test, n);
}

/* The objects of a full sheaf were given to RCU by a CPU that is gone. */
static void cpu_goes_offline_with_callbacks(struct kunit *test)
{
	struct rcu_test *rt = with_cache(test);
	int cpu = find_cpu_to_remove(rt);
	unsigned int i;
	long nr = 0, n;

	if (cpu < 0)
		kunit_skip(test, "no CPU can be removed");
	take_moves(test);
	for (i = 0; i < 9; i++) {
		n = work_on_cpu(cpu, free_some, rt);
		KUNIT_ASSERT_GT(test, n, 0);
		nr += n;
	}
	KUNIT_ASSERT_EQ(test, remove_cpu(cpu), 0);
	kvfree_rcu_barrier();
	expect_freed(test, nr);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(rt->cache), 0);
	KUNIT_ASSERT_EQ(test, add_cpu(cpu), 0);
}
#endif

/*
 * All CPUs at the same time. Writers exchange objects in slots that all share.
 * Readers look at an object for a while, and must find that nobody else does
 * anything with it.
 */

#define HAMMER_SLOTS	512
#define HAMMER_STEPS	8000

struct hammer {
	struct kmem_cache *cache;
	struct object **slots;
	unsigned long end;		/* jiffies */
	atomic_t nr_running;
	atomic_long_t nr_broken;
	atomic_long_t nr_allocs;
	atomic_long_t nr_reads;
};

struct hammer_user {
	struct work_struct work;
	struct hammer *hammer;
	struct rnd_state rnd;
	unsigned long serial;
};

static struct object **random_slot(struct hammer_user *u)
{
	return &u->hammer->slots[prandom_u32_state(&u->rnd) % HAMMER_SLOTS];
}

static void hammer_write(struct hammer_user *u)
{
	struct object *obj = kmem_cache_alloc(u->hammer->cache, GFP_KERNEL);

	if (obj) {
		obj->self = MARK ^ (unsigned long)obj;
		WRITE_ONCE(obj->value, ++u->serial);
		atomic_long_inc(&u->hammer->nr_allocs);
	}
	obj = xchg(random_slot(u), obj);
	if (!obj)
		return;
	if (obj->self != (MARK ^ (unsigned long)obj))
		atomic_long_inc(&u->hammer->nr_broken);
	/* Whoever has been given it as well finds this. */
	if (xchg(&obj->next, NULL))
		atomic_long_inc(&u->hammer->nr_broken);
	kfree_rcu(obj, rcu);
}

static void hammer_read(struct hammer_user *u)
{
	unsigned long value;
	struct object *obj;
	unsigned int i;

	rcu_read_lock();
	obj = READ_ONCE(*random_slot(u));
	if (obj) {
		value = READ_ONCE(obj->value);
		for (i = 0; i < 50; i++) {
			if (READ_ONCE(obj->self) != (MARK ^ (unsigned long)obj) ||
			    READ_ONCE(obj->value) != value) {
				atomic_long_inc(&u->hammer->nr_broken);
				break;
			}
			cpu_relax();
		}
		atomic_long_inc(&u->hammer->nr_reads);
	}
	rcu_read_unlock();
}

static void hammer_fn(struct work_struct *work)
{
	struct hammer_user *u = container_of(work, struct hammer_user, work);
	unsigned int i;

	for (i = 0; i < HAMMER_STEPS && time_before(jiffies, u->hammer->end); i++) {
		if (prandom_u32_state(&u->rnd) % 4)
			hammer_write(u);
		else
			hammer_read(u);
		cond_resched();
	}
	atomic_dec(&u->hammer->nr_running);
}

/* Meanwhile, others wait for it, shrink, and hurry. */
static void hammer_disturb(struct hammer *h)
{
	unsigned int i = 0;

	do {
		switch (i++ % 3) {
		case 0:
			kvfree_rcu_barrier();
			break;
		case 1:
			kmem_cache_shrink(h->cache);
			break;
		case 2:
			kfree_rcu_sheaves_scan(ULONG_MAX);
			break;
		}
		msleep(20);
	} while (atomic_read(&h->nr_running) && time_before(jiffies, h->end));
}

static void hammer_run(struct kunit *test, struct hammer *h)
{
	struct workqueue_struct *wq = alloc_workqueue("rcu_kunit", WQ_CPU_INTENSIVE, 0);
	struct hammer_user *users;
	int cpu;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	users = kunit_kcalloc(test, nr_cpu_ids, sizeof(*users), GFP_KERNEL);
	if (users) {
		atomic_set(&h->nr_running, num_online_cpus());
		h->end = jiffies + HZ;
		for_each_online_cpu(cpu) {
			users[cpu].hammer = h;
			users[cpu].serial = (unsigned long)cpu << 32;
			prandom_seed_state(&users[cpu].rnd, cpu + 1);
			INIT_WORK(&users[cpu].work, hammer_fn);
			queue_work_on(cpu, wq, &users[cpu].work);
		}
		hammer_disturb(h);
	}
	destroy_workqueue(wq);
	KUNIT_ASSERT_NOT_NULL(test, users);
}

static const struct hammer_case {
	const char *desc;
	unsigned int size;
	slab_flags_t flags;
} hammer_cases[] = {
	{ "plain", sizeof(struct object) },
	{ "of a page each", PAGE_SIZE },
	{ "accounted", sizeof(struct object), SLAB_ACCOUNT },
	{ "debugged, without sheaves", sizeof(struct object),
	  SLAB_CONSISTENCY_CHECKS | SLAB_POISON },
};

KUNIT_ARRAY_PARAM_DESC(hammer_cases, hammer_cases, desc);

static void construct(void *p)
{
	memset(p, 0, sizeof(struct object));
}

static void concurrent_users(struct kunit *test)
{
	const struct hammer_case *c = test->param_value;
	struct kmem_cache_args args = { .ctor = construct };
	struct rcu_test *rt = test->priv;
	struct hammer h = { };
	unsigned int i;

	/* With KFENCE and with the quarantine. */
	h.cache = kmem_cache_create("slab_rcu_kunit", c->size, &args,
				    c->flags | SLAB_NO_USER_FLAGS | SLAB_NO_MERGE);
	KUNIT_ASSERT_NOT_NULL(test, h.cache);
	use_cache(test, h.cache);
	h.slots = kunit_kcalloc(test, HAMMER_SLOTS, sizeof(*h.slots), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, h.slots);
	hammer_run(test, &h);
	for (i = 0; i < HAMMER_SLOTS; i++)
		if (h.slots[i])
			kfree_rcu(h.slots[i], rcu);

	kvfree_rcu_barrier();
	kunit_info(test, "%ld objects, %ld looked at, %lu by sheaves, %lu the old way\n",
		   atomic_long_read(&h.nr_allocs), atomic_long_read(&h.nr_reads),
		   count_moves(h.cache).rcu_sheaf, count_moves(h.cache).rcu_fail);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&h.nr_broken), 0);
	KUNIT_EXPECT_EQ(test, count_moves(h.cache).rcu_sheaf + count_moves(h.cache).rcu_fail,
			atomic_long_read(&h.nr_allocs));
	if (rt->cap)
		KUNIT_EXPECT_GT(test, count_moves(h.cache).rcu_sheaf, 0);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(h.cache), 0);
}

/*
 * Barriers at the same time. None may return before the objects are freed that it
 * waits for, however often somebody else has the same work done anew.
 */

#define WAITERS		8
#define BARRIERS	40
#define HOGS		2

static struct work_struct hogs[WAITERS][HOGS];

/* What is queued meanwhile waits, and may change places. */
static void hog_cpu(struct work_struct *work)
{
	mdelay(1);
}

struct waiter {
	struct work_struct work;
	struct kmem_cache *cache;
	int cpu;
	unsigned long end;		/* jiffies */
	atomic_t *nr_running;
	unsigned long nr_done;
	unsigned long nr_early;
};

static void wait_often(struct work_struct *work)
{
	struct waiter *w = container_of(work, struct waiter, work);
	struct object *obj;

	while (w->nr_done < BARRIERS && time_before(jiffies, w->end)) {
		obj = kmem_cache_alloc(w->cache, GFP_KERNEL);
		if (!obj)
			break;
		kfree_rcu(obj, rcu);
		kvfree_rcu_barrier();
		w->nr_done++;
		if (kmem_cache_stat_sum(w->cache, FREE_FASTPATH) +
		    kmem_cache_stat_sum(w->cache, FREE_SLOWPATH) != w->nr_done)
			w->nr_early++;
	}
	atomic_dec(w->nr_running);
}

static void barriers_at_once(struct kunit *test)
{
	unsigned int i, nr = min_t(unsigned int, num_online_cpus(), WAITERS);
	unsigned long end = jiffies + 60 * HZ;
	struct workqueue_struct *wq, *hog_wq;
	struct waiter *waiters;
	atomic_t nr_running;
	unsigned int hog;
	char name[32];
	int cpu = -1;

	waiters = kunit_kcalloc(test, nr, sizeof(*waiters), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, waiters);
	wq = alloc_workqueue("rcu_kunit", WQ_CPU_INTENSIVE, 0);
	hog_wq = alloc_workqueue("rcu_kunit_hogs", 0, 0);
	KUNIT_ASSERT_NOT_NULL(test, wq);
	KUNIT_ASSERT_NOT_NULL(test, hog_wq);
	atomic_set(&nr_running, nr);
	for (i = 0; i < nr; i++) {
		cpu = cpumask_next(cpu, cpu_online_mask);
		snprintf(name, sizeof(name), "slab_rcu_kunit_%u", i);
		waiters[i].cache = new_counted_cache(test, name, sizeof(struct object), 0, 0);
		waiters[i].end = end;
		waiters[i].nr_running = &nr_running;
		waiters[i].cpu = cpu;
		for (hog = 0; hog < HOGS; hog++)
			INIT_WORK(&hogs[i][hog], hog_cpu);
		INIT_WORK(&waiters[i].work, wait_often);
		queue_work_on(cpu, wq, &waiters[i].work);
	}
	while (atomic_read(&nr_running)) {
		for (i = 0; i < nr; i++)
			for (hog = 0; hog < HOGS; hog++)
				queue_work_on(waiters[i].cpu, hog_wq, &hogs[i][hog]);
		kfree_rcu_sheaves_scan(ULONG_MAX);
		usleep_range(500, 2000);
	}
	destroy_workqueue(hog_wq);
	destroy_workqueue(wq);
	for (i = 0; i < nr; i++) {
		KUNIT_EXPECT_GT(test, waiters[i].nr_done, 0);
		KUNIT_EXPECT_EQ(test, waiters[i].nr_early, 0);
		kmem_cache_destroy(waiters[i].cache);
	}
}

static int rcu_test_init(struct kunit *test)
{
	struct rcu_test *rt = kunit_kzalloc(test, sizeof(*rt), GFP_KERNEL);
	int cpu = find_cpu(true);

	if (!rt)
		return -ENOMEM;
	test->priv = rt;
	bind_to(test, cpu < 0 ? raw_smp_processor_id() : cpu);
	/* Makes the slab allocator count its errors there. */
	return kunit_add_named_resource(test, NULL, NULL, &rt->resource, "slab_errors",
					&rt->slab_errors);
}

static void rcu_test_exit(struct kunit *test)
{
	if (test->priv)
		destroy_cache(test);
}

static struct kunit_case rcu_cases[] = {
	KUNIT_CASE_PARAM(full_sheaf_goes_to_barn, setups_gen_params),
	KUNIT_CASE_PARAM(full_barn_flushes, setups_gen_params),
	KUNIT_CASE_PARAM(barrier_takes_the_rest, setups_gen_params),
	KUNIT_CASE(readers_are_waited_for),
	KUNIT_CASE(headless),
	KUNIT_CASE(not_in_slabs),
#ifdef CONFIG_SLUB_DEBUG
	KUNIT_CASE(caches_without_sheaves),
#endif
	KUNIT_CASE(no_empty_sheaf),
	KUNIT_CASE(empty_sheaf_from_barn),
	KUNIT_CASE(under_raw_spinlock),
	KUNIT_CASE_PARAM(irq_while_sheaves_are_locked, irq_cases_gen_params),
	KUNIT_CASE_PARAM(irq_uses_sheaf, irq_cases_gen_params),
	KUNIT_CASE(remote_sheaf_goes_home),
	KUNIT_CASE(mixed_sheaf_is_sorted),
	KUNIT_CASE(pfmemalloc_is_kept_out),
	KUNIT_CASE(kfence_is_kept_out),
	KUNIT_CASE(barrier_on_all_cpus),
	KUNIT_CASE(destroy_at_once),
	KUNIT_CASE(shrink_takes_all),
	KUNIT_CASE(shrinker_hurries),
	KUNIT_CASE(all_go_in_time),
#ifdef CONFIG_HOTPLUG_CPU
	KUNIT_CASE(cpu_goes_offline),
	KUNIT_CASE(cpu_goes_offline_with_callbacks),
#endif
	KUNIT_CASE_PARAM(concurrent_users, hammer_cases_gen_params),
	KUNIT_CASE(barriers_at_once),
	{}
};

static struct kunit_suite rcu_suite = {
	.name = "slab_rcu",
	.init = rcu_test_init,
	.exit = rcu_test_exit,
	.test_cases = rcu_cases,
};

kunit_test_suite(rcu_suite);

MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
MODULE_DESCRIPTION("KUnit tests for kfree_rcu() in sheaves");
MODULE_LICENSE("GPL");
