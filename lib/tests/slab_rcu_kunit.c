// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for kfree_rcu() in sheaves
 *
 * Whether an object was taken by a sheaf or went the old way, and what became of it
 * after the grace period, is read off the statistics, see slab_kunit.h. Who frees it
 * then is whoever comes first, a barrier or a work item, which may run on any CPU, so
 * what becomes of the objects is checked in so far as it does not depend on that.
 *
 * An object keeps one of its marks from its allocation until it is freed, and that is
 * after the grace period.
 *
 * What does not depend on sheaves is tested on kernels without them, too
 * (slab_sheaf_capacity=0).
 */

#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/kfence.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/sched/isolation.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/vmalloc.h>

#include "../../kernel/rcu/rcu.h"
#include "slab_kunit.h"

static const struct slab_counter rcu_counters[] = {
	COUNTER(FREE_RCU_SHEAF, rcu_sheaf),
	COUNTER(FREE_RCU_SHEAF_FAIL, rcu_fail),
	{ }
};

static void release_rcu(struct slab_test *st, unsigned long n)
{
	while (n--) {
		struct object *obj = let_go(st);

		kfree_rcu(obj, rcu);
	}
}

/* So many objects were freed in the end, whatever the way. */
static void __expect_freed(struct kunit *test, int line, unsigned long want)
{
	struct moves m = take_moves(test);

	expect_count(test, line, "objects freed", m.free_fast + m.free_slow, want);
}

#define expect_freed(test, n) \
	__expect_freed(test, __LINE__, n)

static unsigned long nr_freed(struct slab_test *st)
{
	return count(st->cache, FREE_FASTPATH) +
	       count(st->cache, FREE_SLOWPATH) -
	       st->before.free_fast - st->before.free_slow;
}

static unsigned int rcu_free_size(const struct slub_percpu_sheaves *pcs)
{
	/* Others may take it away. Its memory stays one of a sheaf. */
	const struct slab_sheaf *sheaf = READ_ONCE(pcs->rcu_free);

	return sheaf ? READ_ONCE(sheaf->size) : 0;
}

static struct slab_test *with_small_cache(struct kunit *test)
{
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);

	skip_without_sheaves(test);
	return st;
}

/* A sheaf collects, waits when it is full, and goes to a barn then. */
static void full_sheaf_goes_to_barn(struct kunit *test)
{
	struct slab_test *st = with_setup(test);
	unsigned int nr_full;

	grab(test, 2 * st->cap);
	take_moves(test);
	release_rcu(st, st->cap - 1);
	expect_moves(test, .rcu_sheaf = st->cap - 1);
	KUNIT_EXPECT_EQ(test, rcu_free_size(sheaves_here(st)), st->cap - 1);

	nr_full = nr_full_sheaves(st->cache);
	release_rcu(st, 1);
	KUNIT_EXPECT_NULL(test, sheaves_here(st)->rcu_free);
	kvfree_rcu_barrier();
	expect_moves(test, .rcu_sheaf = 1, .free_fast = st->cap, .barn_put = 1);
	KUNIT_EXPECT_EQ(test, nr_full_sheaves(st->cache), nr_full + 1);

	/* One that was not there is found, or made. */
	release_rcu(st, st->cap);
	kvfree_rcu_barrier();
	expect_moves(test, .rcu_sheaf = st->cap, .free_fast = st->cap, .barn_put = 1);
}

/*
 * The barns are at their limit: a full sheaf is flushed, and not lost. Elsewhere it was, once
 * it was empty.
 */
static void full_barn_flushes(struct kunit *test)
{
	struct slab_test *st = with_setup(test);
	int node;

	grab(test, 3 * st->cap);
	for_each_online_node(node)
		barn_set_limits(st->cache->barns[node], 0, 0);
	take_moves(test);
	release_rcu(st, 3 * st->cap);
	kvfree_rcu_barrier();
	expect_moves(test, .rcu_sheaf = 3 * st->cap, .free_fast = 3 * st->cap,
		     .barn_put_fail = 3, .flush = 3 * st->cap);
}

/* A sheaf that never becomes full. */
static void barrier_takes_the_rest(struct kunit *test)
{
	struct slab_test *st = with_setup(test);

	grab(test, st->cap);
	take_moves(test);
	release_rcu(st, st->cap / 2);
	KUNIT_EXPECT_EQ(test, rcu_free_size(sheaves_here(st)), st->cap / 2);
	expect_freed(test, 0);
	kvfree_rcu_barrier();
	KUNIT_EXPECT_NULL(test, sheaves_here(st)->rcu_free);
	expect_freed(test, st->cap / 2);

	/* Nothing to do. */
	kvfree_rcu_barrier();
	expect_moves(test);
}

/* Once a cache is to have no sheaves, none is left that goes on collecting. */
static void none_collects_without_sheaves(struct kunit *test)
{
	struct slab_test *st = with_small_cache(test);

	skip_if_smaller(test, 2);
	grab(test, 2);
	release_rcu(st, 1);
	KUNIT_ASSERT_NOT_NULL(test, sheaves_here(st)->rcu_free);
	KUNIT_ASSERT_EQ(test, resize_sheaves(st->cache, 0), 0);
	KUNIT_EXPECT_NULL(test, sheaves_here(st)->rcu_free);
	release_rcu(st, 1);
	KUNIT_EXPECT_NULL(test, sheaves_here(st)->rcu_free);
	kvfree_rcu_barrier();
	KUNIT_EXPECT_EQ(test, count_sheaves(st->cache), 0);
}

static bool all_intact(struct slab_test *st, void **p, unsigned long n)
{
	unsigned long i;

	for (i = 0; i < n; i++)
		if (!is_intact(st->cache, p[i]))
			return false;
	return true;
}

/* Hooks, such as the one of KASAN, must not run before the readers are gone. */
static void readers_are_waited_for(struct kunit *test)
{
	struct slab_test *st = with_small_cache(test);
	unsigned long n = 2 * st->cap, i;
	struct object *obj;
	void **p;

	p = kunit_kmalloc_array(test, n, sizeof(*p), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, p);
	grab(test, n);
	for (i = 0, obj = st->held; i < n; i++, obj = obj->next)
		p[i] = obj;
	take_moves(test);

	rcu_read_lock();
	release_rcu(st, n);
	mdelay(100);
	KUNIT_EXPECT_TRUE(test, all_intact(st, p, n));
	KUNIT_EXPECT_EQ(test, nr_freed(st), 0);
	rcu_read_unlock();

	kvfree_rcu_barrier();
	expect_freed(test, n);
}

/* kvfree_rcu_mightsleep(): without an rcu_head in the object. */
static void headless(struct kunit *test)
{
	struct slab_test *st = with_small_cache(test);
	unsigned int i;

	grab(test, st->cap);
	take_moves(test);
	for (i = 0; i < st->cap; i++)
		kvfree_rcu_mightsleep(let_go(st));
	kvfree_rcu_barrier();
	expect_moves(test, .rcu_sheaf = st->cap, .free_fast = st->cap, .barn_put = 1);
}

/*
 * The old way
 */

static void not_in_slabs(struct kunit *test)
{
	const gfp_t gfp = GFP_KERNEL | __GFP_NOWARN;
	struct rcu_large {
		struct rcu_head rcu;
		char rest[2 * KMALLOC_MAX_CACHE_SIZE];
	} *large = kmalloc(sizeof(*large), gfp);
	struct rcu_large *area = __vmalloc(sizeof(*area), gfp);

	KUNIT_EXPECT_NOT_NULL(test, large);
	KUNIT_EXPECT_NOT_NULL(test, area);
	kvfree_rcu(large, rcu);
	kvfree_rcu(area, rcu);
	kvfree_rcu_mightsleep(kmalloc(sizeof(*large), gfp));
	kvfree_rcu_mightsleep(__vmalloc(sizeof(*large), gfp));
	kvfree_rcu_barrier();
	KUNIT_EXPECT_FALSE(test, is_vmalloc_addr(area) && vmalloc_to_page(area));
}

#ifdef CONFIG_SLUB_DEBUG
static void caches_without_sheaves(struct kunit *test)
{
	struct slab_test *st = with_cache(test, OBJECT_SIZE,
					   SLAB_CONSISTENCY_CHECKS | SLAB_POISON, NULL);

	KUNIT_ASSERT_EQ(test, st->cap, 0);
	grab(test, 100);
	take_moves(test);
	release_rcu(st, 100);
	kvfree_rcu_barrier();
	/* KASAN's quarantine has them. */
	kmem_cache_shrink(st->cache);
	expect_moves(test, .rcu_fail = 100, .free_slow = 100);
}
#endif

/* Who has interrupts off gets a sheaf from the barn, or none. */
static void no_empty_sheaf(struct kunit *test)
{
	struct slab_test *st = with_small_cache(test);
	unsigned long flags;

	skip_if_smaller(test, 2);
	grab(test, 4);
	barn_set_limits(barn_of(st->cache, st->cpu), 0, 0);
	kmem_cache_shrink(st->cache);
	take_moves(test);
	local_irq_save(flags);
	release_rcu(st, 1);
	local_irq_restore(flags);
	expect_moves(test, .rcu_fail = 1);

	/* Now there is one. */
	release_rcu(st, 1);
	expect_moves(test, .rcu_sheaf = 1);
	local_irq_save(flags);
	release_rcu(st, 1);
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
	struct slab_test *st = with_small_cache(test);
	unsigned long flags;

	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		kunit_skip(test, "the barn is not used with interrupts off");
	/* Sheaves that were full when they came there go back to the barn empty. */
	hold_and_drain(test, 5 * st->cap);
	release(test, 5 * st->cap);
	grab(test, 5 * st->cap);
	KUNIT_ASSERT_GT(test, barn_of(st->cache, st->cpu)->nr_empty, 0);
	take_moves(test);
	local_irq_save(flags);
	release_rcu(st, 1);
	local_irq_restore(flags);
	expect_moves(test, .rcu_sheaf = 1);
}

/* Elsewhere: lockdep, where it looks at who nests in what, had a report for each. */
static void under_raw_spinlock(struct kunit *test)
{
	struct slab_test *st = with_small_cache(test);
	static DEFINE_RAW_SPINLOCK(lock);
	unsigned long n = 3 * st->cap;

	grab(test, n);
	take_moves(test);
	raw_spin_lock(&lock);
	release_rcu(st, n);
	raw_spin_unlock(&lock);
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		expect_moves(test, .rcu_fail = n);
	else
		KUNIT_EXPECT_EQ(test, take_moves(test).rcu_sheaf, n);
	kvfree_rcu_barrier();
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
}

/*
 * Interrupts
 */

struct rcu_irq {
	struct irq_user irq;
	struct object *to_free;
};

static void free_in_irq(struct irq_user *irq)
{
	struct rcu_irq *u = container_of(irq, struct rcu_irq, irq);

	kfree_rcu(u->to_free, rcu);
}

/* One that the test has. Returns whether it was a hard interrupt. */
static bool release_in_irq(struct kunit *test, bool locked)
{
	const struct irq_case *c = test->param_value;
	struct slab_test *st = test->priv;
	struct rcu_irq u = { .to_free = let_go(st) };

	prepare_irq(&u.irq, c->kind, free_in_irq);
	raise_irq(st, &u.irq, locked);
	finish_irq(test, &u.irq);
	return u.irq.was_hardirq;
}

/* The sheaves are in use: the interrupt must do without them. */
static void irq_while_sheaves_are_locked(struct kunit *test)
{
	struct slab_test *st = with_small_cache(test);

	skip_if_smaller(test, 2);
	grab(test, 2);
	release_rcu(st, 1);
	take_moves(test);
	release_in_irq(test, true);
	expect_moves(test, .rcu_fail = 1);
	KUNIT_EXPECT_EQ(test, rcu_free_size(sheaves_here(st)), 1);
	kvfree_rcu_barrier();
	expect_freed(test, 2);
}

/* They are not in use, and there is a sheaf. */
static void irq_uses_sheaf(struct kunit *test)
{
	struct slab_test *st = with_small_cache(test);

	skip_if_smaller(test, 2);
	grab(test, 2);
	release_rcu(st, 1);
	take_moves(test);
	if (release_in_irq(test, false) && IS_ENABLED(CONFIG_PREEMPT_RT))
		expect_moves(test, .rcu_fail = 1);
	else
		expect_moves(test, .rcu_sheaf = 1);
	kvfree_rcu_barrier();
	expect_freed(test, 2);
}

/*
 * What becomes of objects that the sheaves of the CPU do not want
 */

static int find_remote_node(struct kunit *test)
{
	struct slab_test *st = test->priv;
	int here = cpu_to_node(st->cpu), node = find_other_memory(here, NUMA_NO_NODE);

	if (node == NUMA_NO_NODE || !has_memory(here))
		kunit_skip(test, "there are no two nodes with memory");
	return node;
}

static void remote_sheaf_goes_home(struct kunit *test)
{
	struct slab_test *st = with_small_cache(test);
	int node = find_remote_node(test);
	struct node_barn *home = st->cache->barns[node];

	grab_on(test, node, st->cap);
	kmem_cache_shrink(st->cache);
	take_moves(test);
	release_rcu(st, st->cap);
	kvfree_rcu_barrier();
	expect_moves(test, .rcu_sheaf = st->cap, .free_fast = st->cap, .barn_put = 1);
	KUNIT_EXPECT_EQ(test, home->nr_full, 1);
}

/* Returns whether it was this CPU that freed them: then it is known where they are. */
static bool sort_mixed_sheaf(struct kunit *test)
{
	struct slab_test *st = test->priv;
	unsigned int remote = st->cap / 3;
	bool here;

	grab_on(test, find_remote_node(test), remote);
	grab_on(test, cpu_to_node(st->cpu), st->cap - remote);
	kmem_cache_shrink(st->cache);
	/* Main has room. */
	grab(test, 1);
	release(test, 1);
	take_moves(test);
	release_rcu(st, st->cap);
	kvfree_rcu_barrier();
	KUNIT_EXPECT_EQ(test, nr_freed(st), st->cap);
	here = sheaves_here(st)->remote && sheaves_here(st)->remote->size == remote;
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
	return here;
}

static void mixed_sheaf_is_sorted(struct kunit *test)
{
	with_small_cache(test);
	/* One of three objects is remote. */
	skip_if_smaller(test, 3);
	expect_in_rounds(test, 20, sort_mixed_sheaf);
}

/* Objects out of the memory reserves are not for everybody. */
static void pfmemalloc_is_kept_out(struct kunit *test)
{
	struct slab_test *st = with_small_cache(test);
	unsigned long cached;

	grab(test, 1);
	cached = cached_objects(st->cache);
	slab_set_pfmemalloc(virt_to_slab(st->held));
	take_moves(test);
	release_rcu(st, 1);
	kvfree_rcu_barrier();
	expect_moves(test, .rcu_sheaf = 1, .free_fast = 1, .flush = 1);
	KUNIT_EXPECT_EQ(test, cached_objects(st->cache), cached);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
}

static void kfence_is_kept_out(struct kunit *test)
{
	struct slab_test *st = test->priv;
	unsigned long end = jiffies + HZ, cached;

	if (!IS_ENABLED(CONFIG_KFENCE))
		kunit_skip(test, "needs CONFIG_KFENCE");
	use_cache(test, new_plain_cache(test, "slab_kunit", OBJECT_SIZE, 0, NULL));
	skip_without_sheaves(test);
	grab(test, 1);
	while (!is_kfence_address(st->held) && time_before(jiffies, end)) {
		free_objects(st, st->nr_held);
		grab(test, 1);
	}
	if (!is_kfence_address(st->held))
		kunit_skip(test, "KFENCE has not guarded any object for a second");
	cached = cached_objects(st->cache);
	take_moves(test);
	release_rcu(st, 1);
	kvfree_rcu_barrier();
	expect_moves(test, .rcu_sheaf = 1);
	KUNIT_EXPECT_EQ(test, cached_objects(st->cache), cached);
}

/*
 * Nothing is left behind
 */

/* Frees a few objects by kfree_rcu(), on the CPU that it runs on. */
static long free_some(void *arg)
{
	struct slab_test *st = arg;
	unsigned int n = st->cap / 2 ?: 3;

	while (n--) {
		struct object *obj = kmem_cache_alloc(st->cache, GFP_KERNEL);

		if (!obj)
			return -ENOMEM;
		kfree_rcu(obj, rcu);
	}
	return st->cap / 2 ?: 3;
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
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	unsigned long nr;

	take_moves(test);
	nr = free_some_everywhere(test);
	/* Where one fills a sheaf, it waits for no more than a grace period. */
	if (st->cap > 1)
		KUNIT_EXPECT_EQ(test, nr_freed(st), 0);
	kvfree_rcu_barrier();
	expect_freed(test, nr);
}

static void destroy_at_once(struct kunit *test)
{
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	unsigned int n = 3 * st->cap + 5;

	grab(test, n);
	free_some_everywhere(test);
	release_rcu(st, n);
	destroy_cache_of(test, st->cache);
	st->cache = NULL;
	KUNIT_EXPECT_EQ(test, st->slab_errors, 0);
}

static void wait_until_freed(struct kunit *test, unsigned long nr, unsigned int secs)
{
	unsigned long end = jiffies + secs * HZ;
	struct slab_test *st = test->priv;

	while (nr_freed(st) < nr && time_before(jiffies, end))
		msleep(20);
	expect_freed(test, nr);
}

/*
 * A reader on another CPU, because of whom no grace period ends. Meanwhile no
 * assertion may end the test.
 */

#define READ_JIFFIES	(10 * HZ)

struct reader {
	struct task_struct *task;
	struct completion started;
	bool gave_up;
};

static int read_long(void *data)
{
	struct reader *r = data;
	unsigned long end;

	rcu_read_lock();
	end = jiffies + READ_JIFFIES;
	complete(&r->started);
	while (!kthread_should_stop() && !r->gave_up) {
		WRITE_ONCE(r->gave_up, time_after(jiffies, end));
		cpu_relax();
	}
	rcu_read_unlock();

	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

static void start_reading(struct kunit *test, struct reader *r)
{
	struct slab_test *st = test->priv;
	int cpu = cpumask_any_but(cpu_online_mask, st->cpu);

	if (cpu >= nr_cpu_ids)
		kunit_skip(test, "there is no other CPU for a reader");
	init_completion(&r->started);
	r->task = kthread_run_on_cpu(read_long, r, cpu, "slab_kunit_reader/%u");
	KUNIT_ASSERT_FALSE(test, IS_ERR(r->task));
	wait_for_completion(&r->started);
}

/* Whoever has to wait for a grace period has waited for the reader to give up. */
static void stop_reading(struct kunit *test, struct reader *r)
{
	KUNIT_EXPECT_FALSE(test, READ_ONCE(r->gave_up));
	kthread_stop(r->task);
}

static bool anything_collects(struct kmem_cache *s)
{
	int cpu;

	for_each_possible_cpu(cpu)
		if (READ_ONCE(per_cpu_ptr(s->cpu_sheaves, cpu)->rcu_free))
			return true;
	return false;
}

/*
 * Objects in sheaves that collect, on all CPUs, and in sheaves that became full since
 * somebody reads. Returns how many there are.
 */
static unsigned long free_while_reading(struct kunit *test, struct reader *r)
{
	struct slab_test *st = test->priv;
	unsigned long nr;

	skip_if_smaller(test, 2);
	grab(test, 3 * st->cap);
	/* What others have freed until now is gone. */
	kvfree_rcu_barrier();
	take_moves(test);
	nr = free_some_everywhere(test);
	start_reading(test, r);
	release_rcu(st, 3 * st->cap);
	KUNIT_EXPECT_TRUE(test, anything_collects(st->cache));
	return nr + 3 * st->cap;
}

/*
 * Whose destruction has to wait for RCU: the cache of which a slab was freed by it, or
 * an object that KFENCE guarded.
 */
static struct kmem_cache *typesafe_cache(struct kunit *test)
{
	struct kmem_cache *s;

	s = kmem_cache_create("slab_kunit_by_rcu", 64, 0,
			      SLAB_TYPESAFE_BY_RCU | SLAB_NO_MERGE, NULL);
	KUNIT_ASSERT_NOT_NULL(test, s);
	return s;
}

/*
 * Elsewhere: a cache was gone before what others had still given to RCU. With
 * SLUB_RCU_DEBUG that is objects, too, for which KASAN must not look any more.
 */
static void slabs_go_by_rcu(struct kunit *test)
{
	struct kmem_cache *s = typesafe_cache(test);
	void *p;

	s->flags |= SLAB_SKIP_KFENCE;
	p = kmem_cache_alloc(s, GFP_KERNEL);
	KUNIT_EXPECT_NOT_NULL(test, p);
	if (p)
		kmem_cache_free(s, p);
	KUNIT_EXPECT_FALSE(test, s->frees_by_rcu);
	/* With SLUB_RCU_DEBUG, the object goes by RCU, too. */
	rcu_barrier();
	kmem_cache_shrink(s);
	KUNIT_EXPECT_TRUE(test, s->frees_by_rcu);
	kmem_cache_destroy(s);
}

static void kfence_goes_by_rcu(struct kunit *test)
{
	unsigned long end = jiffies + HZ;
	struct kmem_cache *s;
	bool guarded = false;
	void *p;

	if (!IS_ENABLED(CONFIG_KFENCE))
		kunit_skip(test, "needs CONFIG_KFENCE");

	s = typesafe_cache(test);
	while (!guarded && time_before(jiffies, end)) {
		p = kmem_cache_alloc(s, GFP_KERNEL);
		if (!p)
			break;
		guarded = is_kfence_address(p);
		kmem_cache_free(s, p);
	}
	if (guarded)
		KUNIT_EXPECT_TRUE(test, s->frees_by_rcu);
	/* If it did not wait, KFENCE would complain. */
	kmem_cache_destroy(s);
	if (!guarded)
		kunit_skip(test, "KFENCE has not guarded any object for a second");
}

static void wait_for_all(struct work_struct *work)
{
	kvfree_rcu_barrier();
}

/* Whoever waits for the objects waits for their readers first. */
static void barrier_waits_for_readers(struct kunit *test)
{
	struct slab_test *st = with_small_cache(test);
	struct work_struct barrier;
	struct reader r = { };
	unsigned long nr = free_while_reading(test, &r);
	unsigned long end = jiffies + READ_JIFFIES / 2;

	INIT_WORK_ONSTACK(&barrier, wait_for_all);
	queue_work(system_unbound_wq, &barrier);
	do {
		msleep(200);
	} while (anything_collects(st->cache) && time_before(jiffies, end));
	KUNIT_EXPECT_FALSE(test, anything_collects(st->cache));
	KUNIT_EXPECT_EQ(test, nr_freed(st), 0);
	stop_reading(test, &r);
	flush_work(&barrier);
	destroy_work_on_stack(&barrier);
	expect_freed(test, nr);
}

struct destroyer {
	struct work_struct work;
	struct completion done;
	struct kmem_cache *cache;
};

static void destroy_cache(struct work_struct *work)
{
	struct destroyer *d = container_of(work, struct destroyer, work);

	kmem_cache_destroy(d->cache);
	complete(&d->done);
}

/* Whether one is destroyed while another one has objects that wait for a reader. */
static bool destroyed_while_reading(struct kunit *test)
{
	struct slab_test *st = test->priv;
	struct destroyer d = { };
	struct reader r = { };
	unsigned long nr;
	bool in_time;
	void *p;

	d.cache = new_cache(test, "slab_kunit_other", OBJECT_SIZE, 0, NULL);
	p = kmem_cache_alloc(d.cache, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, p);
	kmem_cache_free(d.cache, p);
	nr = free_while_reading(test, &r);
	kunit_remove_action(test, destroy_cache_action, d.cache);
	init_completion(&d.done);
	INIT_WORK_ONSTACK(&d.work, destroy_cache);
	queue_work(system_unbound_wq, &d.work);
	in_time = wait_for_completion_timeout(&d.done, 2 * HZ) && !nr_freed(st);
	stop_reading(test, &r);
	flush_work(&d.work);
	destroy_work_on_stack(&d.work);
	kvfree_rcu_barrier();
	expect_freed(test, nr);
	return in_time;
}

/*
 * Elsewhere: to destroy a cache took fifteen times as long, as who did it waited for all that
 * kfree_rcu() had of any other cache. It does wait for what others free without sheaves, so
 * this tries more than once.
 */
static void destroy_waits_for_nobody_else(struct kunit *test)
{
	if (num_online_cpus() == 1)
		kunit_skip(test, "there is no other CPU for a reader");
	with_small_cache(test);
	skip_if_smaller(test, 2);
	expect_in_rounds(test, 3, destroyed_while_reading);
}

/* It hands on what was collected so far, and waits for nobody. */
static void shrink_does_not_wait(struct kunit *test)
{
	struct slab_test *st = with_small_cache(test);
	struct reader r = { };
	unsigned long nr = free_while_reading(test, &r);

	kmem_cache_shrink(st->cache);
	KUNIT_EXPECT_FALSE(test, anything_collects(st->cache));
	KUNIT_EXPECT_EQ(test, nr_freed(st), 0);
	stop_reading(test, &r);
	wait_until_freed(test, nr, 60);
	/* The last sheaf may be in somebody's hands, still. */
	kvfree_rcu_barrier();
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
}

/* The shrinker counts objects: those that are collected, and those that wait. */
static void shrinker_counts_objects(struct kunit *test)
{
	struct slab_test *st = with_small_cache(test);
	struct reader r = { };
	unsigned long nr = free_while_reading(test, &r);

	KUNIT_EXPECT_GE(test, kfree_rcu_sheaves_count(), nr);
	/* Others free as well, but not that much. */
	KUNIT_EXPECT_LT(test, kfree_rcu_sheaves_count(), 2 * nr + 1000);
	/* Those that collect no further are none the less. */
	kmem_cache_shrink(st->cache);
	KUNIT_EXPECT_GE(test, kfree_rcu_sheaves_count(), nr);
	stop_reading(test, &r);
	kvfree_rcu_barrier();
	expect_freed(test, nr);
	KUNIT_EXPECT_LT(test, kfree_rcu_sheaves_count(), nr);
}

/* Whether nothing is freed, which it says, and nothing is collected any further. */
static bool scan_waits(struct kunit *test)
{
	struct slab_test *st = test->priv;
	struct reader r = { };
	unsigned long nr = free_while_reading(test, &r);
	bool waits;

	waits = !kfree_rcu_sheaves_scan(ULONG_MAX) && !anything_collects(st->cache);
	KUNIT_EXPECT_EQ(test, nr_freed(st), 0);
	stop_reading(test, &r);
	wait_until_freed(test, nr, 60);
	return waits;
}

/* Who is really short of memory may have called it right before this does. */
static void shrinker_makes_no_progress(struct kunit *test)
{
	with_small_cache(test);
	expect_in_rounds(test, FEW_ROUNDS, scan_waits);
}

/*
 * From now on, no work item frees what this CPU has in queues. What else does, kfree_rcu()
 * that comes upon a flood and the shrinker, may be called by others, too, if not often.
 * Returns the CPU, which the caller stays on.
 */
static unsigned int hold_queues(struct kunit *test)
{
	unsigned long end = jiffies + 60 * HZ;
	unsigned int cpu;
	bool held;

	/* With threads for softirqs, a CPU that leaves waits for who waits for its callbacks. */
	cpus_read_lock();
	migrate_disable();
	cpu = smp_processor_id();
	while (!(held = kfree_rcu_sheaves_hold(cpu)) && time_before(jiffies, end)) {
		kvfree_rcu_barrier();
		msleep(20);
	}
	KUNIT_EXPECT_TRUE(test, held);
	return cpu;
}

static void let_queues_go(unsigned int cpu)
{
	kfree_rcu_sheaves_go_on(cpu);
	migrate_enable();
	cpus_read_unlock();
}

/*
 * What is in queues can be freed now. A grace period that is expedited may do no more than
 * end one that had begun before.
 */
static void let_readers_go(void)
{
	unsigned long gp = get_state_synchronize_rcu();

	while (!poll_state_synchronize_rcu(gp))
		synchronize_rcu_expedited();
}

/* It frees as many as it says. */
static bool scan_frees_a_sheaf(struct kunit *test)
{
	struct slab_test *st = test->priv;
	unsigned long n = 4 * st->cap, said;
	unsigned int cpu;
	bool exact;

	grab(test, n);
	cpu = hold_queues(test);
	take_moves(test);
	release_rcu(st, n);
	let_readers_go();
	/* It may find sheaves of others first. */
	do {
		said = kfree_rcu_sheaves_scan(1);
	} while (said && !nr_freed(st));
	exact = said == st->cap && nr_freed(st) == st->cap;
	let_queues_go(cpu);
	kvfree_rcu_barrier();
	expect_freed(test, n);
	return exact;
}

static void shrinker_frees_what_it_says(struct kunit *test)
{
	with_small_cache(test);
	expect_in_rounds(test, FEW_ROUNDS, scan_frees_a_sheaf);
}

/* Without anybody waiting. The shrinker of kfree_rcu() has them go soon. */
static void shrinker_hurries(struct kunit *test)
{
	unsigned long nr, start;
	unsigned int i;

	with_small_cache(test);
	/* Once, that is: a slow machine may take long for a grace period. */
	for (i = 0; i < 5; i++) {
		take_moves(test);
		start = jiffies;
		nr = free_some_everywhere(test);
		kfree_rcu_sheaves_scan(ULONG_MAX);
		wait_until_freed(test, nr, 60);
		if (time_before(jiffies, start + 4 * HZ))
			break;
	}
	KUNIT_EXPECT_LT(test, i, 5);
}

/* Whether the second of two objects is still collected after two calls. */
static bool scan_lets_collect(struct kunit *test)
{
	struct slab_test *st = test->priv;
	unsigned int collected;

	grab(test, 2);
	kvfree_rcu_barrier();
	take_moves(test);
	/* What is taken waits until then. */
	rcu_read_lock();
	release_rcu(st, 1);
	kfree_rcu_sheaves_scan(ULONG_MAX);
	release_rcu(st, 1);
	kfree_rcu_sheaves_scan(ULONG_MAX);
	collected = rcu_free_size(raw_cpu_ptr(st->cache->cpu_sheaves));
	rcu_read_unlock();
	kvfree_rcu_barrier();
	expect_freed(test, 2);
	return collected;
}

/* But he who asks again while what was taken waits lets sheaves collect. */
static void shrinker_lets_collect(struct kunit *test)
{
	with_small_cache(test);
	skip_if_smaller(test, 3);
	not_with_faults(test);
	expect_in_rounds(test, FEW_ROUNDS, scan_lets_collect);
}

/* The objects of a CPU that goes on to do something else do not wait for ever. */
static void all_go_in_time(struct kunit *test)
{
	struct slab_test *st = with_small_cache(test);
	unsigned long nr, start;
	unsigned int i;
	bool early;

	skip_if_smaller(test, 2);
	not_with_faults(test);
	/* Once, that is: sheaves of others may have been there for some time. */
	for (i = 0; i < 5; i++) {
		take_moves(test);
		start = jiffies;
		nr = free_some_everywhere(test);
		msleep(1000);
		/* On a slow machine, it is late already. */
		early = time_before(jiffies, start + 4 * HZ) && nr_freed(st);
		wait_until_freed(test, nr, 60);
		if (!early)
			break;
	}
	KUNIT_EXPECT_LT(test, i, 5);
}

/*
 * Floods
 */

/* Nothing else waits, and so many objects are at hand as fill sheaves. Returns how many. */
static unsigned long prepare_flood(struct kunit *test, unsigned long nr)
{
	struct slab_test *st = test->priv;

	nr = roundup(nr, st->cap);
	grab(test, nr);
	kvfree_rcu_barrier();
	take_moves(test);
	return nr;
}

/* No grace period ends meanwhile. */
static void flood(struct kunit *test, unsigned long nr, unsigned int ms)
{
	rcu_read_lock();
	release_rcu(test->priv, nr);
	mdelay(ms);
	rcu_read_unlock();
}

static bool any_isolated(void)
{
	int cpu;

	for_each_online_cpu(cpu)
		if (cpu_is_isolated(cpu))
			return true;
	return false;
}

/* Returns whether RCU expedites a grace period because of so many objects. */
static bool is_expedited(struct kunit *test, unsigned long nr, unsigned int secs)
{
	unsigned long before, end;

	nr = prepare_flood(test, nr);
	before = rcu_exp_batches_completed();
	/* Who is to expedite it must be there before it is over. */
	flood(test, nr, 20);
	end = jiffies + secs * HZ;
	while (rcu_exp_batches_completed() == before && time_before(jiffies, end))
		msleep(20);
	return rcu_exp_batches_completed() != before;
}

/* Others may have RCU expedite, too, but not every time. */
static bool is_never_expedited(struct kunit *test, unsigned long nr)
{
	unsigned int i;

	for (i = 0; i < 5; i++)
		if (!is_expedited(test, nr, 1))
			return true;
	return false;
}

static void flood_expedites(struct kunit *test)
{
	struct slab_test *st = with_small_cache(test);
	unsigned long many = RCU_MANY_OBJECTS + 2 * st->cap;

	not_with_faults(test);
	KUNIT_EXPECT_TRUE(test, is_never_expedited(test, RCU_MANY_OBJECTS / 2));
	if (IS_ENABLED(CONFIG_PREEMPT_RT) || any_isolated() || rcu_gp_is_normal())
		KUNIT_EXPECT_TRUE(test, is_never_expedited(test, many));
	else
		KUNIT_EXPECT_TRUE(test, is_expedited(test, many, 10));
}

/* Who adds a sheaf frees two. The flood may have ended within one, if it took long. */
static bool flood_helps(struct kunit *test)
{
	struct slab_test *st = test->priv;
	unsigned long nr, before, n;
	unsigned int cpu;
	bool exact;

	grab(test, st->cap);
	nr = prepare_flood(test, RCU_MANY_OBJECTS + 4 * st->cap);
	cpu = hold_queues(test);
	flood(test, nr, 0);
	let_readers_go();
	before = nr_freed(st);
	for (n = 0; n < st->cap && nr_freed(st) == before; n++)
		release_rcu(st, 1);
	exact = nr_freed(st) - before == 2 * st->cap;
	let_queues_go(cpu);
	kvfree_rcu_barrier();
	expect_freed(test, nr + n);
	release(test, st->cap - n);
	return exact;
}

static void flood_is_helped(struct kunit *test)
{
	with_small_cache(test);
	not_with_faults(test);
	expect_in_rounds(test, FEW_ROUNDS, flood_helps);
}

#ifdef CONFIG_HOTPLUG_CPU
static void cpu_goes_offline(struct kunit *test)
{
	struct slab_test *st = with_small_cache(test);
	int cpu = find_cpu_to_remove(test);
	struct slub_percpu_sheaves *pcs;
	unsigned int i;
	long n;

	skip_if_smaller(test, 2);
	pcs = per_cpu_ptr(st->cache->cpu_sheaves, cpu);
	for (i = 0; i < 3; i++) {
		take_moves(test);
		n = work_on_cpu(cpu, free_some, st);
		KUNIT_ASSERT_GT(test, n, 0);
		KUNIT_EXPECT_EQ(test, rcu_free_size(pcs), n);

		take_offline(test, cpu);
		KUNIT_EXPECT_NULL(test, pcs->rcu_free);
		/* Whether somebody waits for them, or not. */
		if (i)
			kvfree_rcu_barrier();
		wait_until_freed(test, n, i ? 0 : 60);
		bring_online(test, cpu);
	}
	/* What became of the work that was pending: it works as before. */
	n = work_on_cpu(cpu, free_some, st);
	KUNIT_EXPECT_EQ(test, rcu_free_size(pcs), n);
	kvfree_rcu_barrier();
	expect_freed(test, n);
}

/* The sheaves of a CPU that is gone had become full, and wait. */
static void cpu_goes_offline_with_full_sheaves(struct kunit *test)
{
	struct slab_test *st = with_small_cache(test);
	int cpu = find_cpu_to_remove(test);
	unsigned int i;
	long nr = 0, n;

	take_moves(test);
	for (i = 0; i < 9; i++) {
		n = work_on_cpu(cpu, free_some, st);
		KUNIT_ASSERT_GT(test, n, 0);
		nr += n;
	}
	take_offline(test, cpu);
	kvfree_rcu_barrier();
	expect_freed(test, nr);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
	bring_online(test, cpu);
}
#endif

/*
 * All CPUs at the same time. Writers exchange objects in slots that all share.
 * Readers look at an object for a while, and must find that nobody else does
 * anything with it.
 */

struct rcu_crowd {
	struct crowd crowd;
	atomic_long_t nr_reads;
};

static void write_step(struct crowd_user *u)
{
	struct object *obj = kmem_cache_alloc(u->crowd->cache, GFP_KERNEL);

	if (!obj)
		atomic_long_inc(&u->crowd->nr_null);
	obj = exchange(u, obj);
	if (obj)
		kfree_rcu(obj, rcu);
}

static void read_step(struct crowd_user *u)
{
	struct rcu_crowd *rc = container_of(u->crowd, struct rcu_crowd, crowd);
	unsigned long value;
	struct object *obj;
	unsigned int i;

	rcu_read_lock();
	obj = READ_ONCE(*random_slot(u));
	if (obj) {
		value = READ_ONCE(obj->value);
		for (i = 0; i < 50; i++) {
			if (!is_intact(u->crowd->cache, obj) ||
			    READ_ONCE(obj->value) != value) {
				atomic_long_inc(&u->crowd->nr_broken);
				break;
			}
			cpu_relax();
		}
		atomic_long_inc(&rc->nr_reads);
	}
	rcu_read_unlock();
}

static void user_step(struct crowd_user *u)
{
	if (random_below(u, 4))
		write_step(u);
	else
		read_step(u);
}

/* Meanwhile, others wait for it, and shrink. */
static void disturb(struct crowd *c, unsigned int round)
{
	switch (round % 3) {
	case 0:
		kvfree_rcu_barrier();
		break;
	case 1:
		kmem_cache_shrink(c->cache);
		break;
	case 2:
		kfree_rcu_sheaves_scan(CROWD_SLOTS);
		break;
	}
}

static const struct crowd_case {
	const char *desc;
	unsigned int size;
	slab_flags_t flags;
} crowd_cases[] = {
	{ "plain", OBJECT_SIZE },
	{ "of a page each", PAGE_SIZE },
	{ "accounted", OBJECT_SIZE, SLAB_ACCOUNT },
	{ "debugged, without sheaves", OBJECT_SIZE, SLAB_CONSISTENCY_CHECKS | SLAB_POISON },
};

KUNIT_ARRAY_PARAM_DESC(crowd_cases, crowd_cases, desc);

static void concurrent_users(struct kunit *test)
{
	const struct crowd_case *c = test->param_value;
	struct slab_test *st = test->priv;
	struct rcu_crowd rc = {
		.crowd = {
			.step = user_step,
			/* All that a user allocates may wait for one grace period. */
			.nr_steps = min(8000U, SZ_32M / c->size),
			.disturb = disturb,
		},
	};
	struct moves m;

	/* With KFENCE and with the quarantine. */
	use_cache(test, new_plain_cache(test, "slab_kunit", c->size, c->flags, NULL));
	crowd_run(test, &rc.crowd);
	release_rcu(st, st->nr_held);
	kvfree_rcu_barrier();
	m = take_moves(test);
	kunit_info(test, "%ld looked at, %lu by sheaves, %lu the old way\n",
		   atomic_long_read(&rc.nr_reads), m.rcu_sheaf, m.rcu_fail);
	KUNIT_EXPECT_GT(test, atomic_long_read(&rc.nr_reads), 0);
	KUNIT_EXPECT_EQ(test, m.rcu_sheaf + m.rcu_fail,
			atomic_long_read(&rc.crowd.nr_allocs));
	if (st->cap)
		KUNIT_EXPECT_GT(test, m.rcu_sheaf, 0);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
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
	unsigned long nr;
	unsigned long nr_done;
	unsigned long nr_early;
};

static void wait_often(struct work_struct *work)
{
	struct waiter *w = container_of(work, struct waiter, work);
	struct object *obj;

	while (w->nr_done < w->nr && time_before(jiffies, w->end)) {
		obj = kmem_cache_alloc(w->cache, GFP_KERNEL);
		if (!obj)
			break;
		kfree_rcu(obj, rcu);
		kvfree_rcu_barrier();
		w->nr_done++;
		if (count(w->cache, FREE_FASTPATH) +
		    count(w->cache, FREE_SLOWPATH) != w->nr_done)
			w->nr_early++;
	}
	atomic_dec(w->nr_running);
}

KUNIT_DEFINE_ACTION_WRAPPER(destroy_workqueue_action, destroy_workqueue,
			    struct workqueue_struct *);

static struct workqueue_struct *new_workqueue(struct kunit *test, const char *name,
					      unsigned int flags)
{
	struct workqueue_struct *wq = alloc_workqueue("%s", flags, 0, name);

	KUNIT_ASSERT_NOT_NULL(test, wq);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, destroy_workqueue_action, wq), 0);
	return wq;
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
	for (i = 0; i < nr; i++) {
		snprintf(name, sizeof(name), "slab_rcu_kunit_%u", i);
		waiters[i].cache = new_cache(test, name, OBJECT_SIZE, 0, NULL);
	}
	wq = new_workqueue(test, "rcu_kunit", WQ_CPU_INTENSIVE);
	hog_wq = new_workqueue(test, "rcu_kunit_hogs", 0);
	atomic_set(&nr_running, nr);
	for (i = 0; i < nr; i++) {
		cpu = cpumask_next(cpu, cpu_online_mask);
		waiters[i].nr = with_faults() ? 1 : BARRIERS;
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
	drain_workqueue(hog_wq);
	drain_workqueue(wq);
	for (i = 0; i < nr; i++) {
		KUNIT_EXPECT_GT(test, waiters[i].nr_done, 0);
		KUNIT_EXPECT_EQ(test, waiters[i].nr_early, 0);
		destroy_cache_of(test, waiters[i].cache);
	}
}

/*
 * The barrier waits for what one CPU has queued the old way, when another CPU queues
 * something. It need not wait for that, but must leave somebody who frees it in time:
 * on that CPU, nothing else goes the old way.
 */
static void barrier_leaves_none_behind(struct kunit *test)
{
	struct rcu_area {
		struct rcu_head rcu;
	} *first, *late;
	struct work_struct barrier;
	unsigned long end;

	if (num_online_cpus() < 2)
		kunit_skip(test, "only one CPU");
	not_with_faults(test);
	first = vmalloc(sizeof(*first));
	late = vmalloc(sizeof(*late));
	KUNIT_ASSERT_NOT_NULL(test, first);
	KUNIT_ASSERT_NOT_NULL(test, late);

	/* So that the barrier has nothing else to wait for. */
	kvfree_rcu_barrier();
	bind_to(test, cpumask_first(cpu_online_mask));
	kvfree_rcu(first, rcu);
	bind_to(test, cpumask_last(cpu_online_mask));
	INIT_WORK_ONSTACK(&barrier, wait_for_all);
	rcu_read_lock();
	queue_work(system_unbound_wq, &barrier);
	mdelay(200);
	kvfree_rcu(late, rcu);
	rcu_read_unlock();
	flush_work(&barrier);
	destroy_work_on_stack(&barrier);
	KUNIT_EXPECT_NULL(test, vmalloc_to_page(first));

	/* Objects that went the old way wait for 5 s, and for a grace period. */
	end = jiffies + 20 * HZ;
	while (vmalloc_to_page(late) && time_before(jiffies, end))
		msleep(100);
	KUNIT_EXPECT_NULL(test, vmalloc_to_page(late));
	kvfree_rcu_barrier();
}

static int rcu_test_init(struct kunit *test)
{
	return slab_test_setup(test, kunit_kzalloc(test, sizeof(struct slab_test), GFP_KERNEL),
			       rcu_counters);
}

/* Waits first, for all objects and sheaves to be somewhere. */
static void rcu_test_exit(struct kunit *test)
{
	struct slab_test *st = test->priv;

	if (!st || !st->cache)
		return;
	free_objects(st, st->nr_held);
	finish_rcu_cache(test);
}

static struct kunit_case rcu_cases[] = {
	KUNIT_CASE_PARAM(full_sheaf_goes_to_barn, setups_gen_params),
	KUNIT_CASE_PARAM(full_barn_flushes, setups_gen_params),
	KUNIT_CASE_PARAM(barrier_takes_the_rest, setups_gen_params),
	KUNIT_CASE(none_collects_without_sheaves),
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
	KUNIT_CASE(slabs_go_by_rcu),
	KUNIT_CASE(kfence_goes_by_rcu),
	KUNIT_CASE(barrier_waits_for_readers),
	KUNIT_CASE(destroy_waits_for_nobody_else),
	KUNIT_CASE(shrink_does_not_wait),
	KUNIT_CASE(shrinker_counts_objects),
	KUNIT_CASE(shrinker_makes_no_progress),
	KUNIT_CASE(shrinker_frees_what_it_says),
	KUNIT_CASE(shrinker_hurries),
	KUNIT_CASE(shrinker_lets_collect),
	KUNIT_CASE(all_go_in_time),
	KUNIT_CASE(flood_expedites),
	KUNIT_CASE(flood_is_helped),
#ifdef CONFIG_HOTPLUG_CPU
	KUNIT_CASE(cpu_goes_offline),
	KUNIT_CASE(cpu_goes_offline_with_full_sheaves),
#endif
	KUNIT_CASE_PARAM(concurrent_users, crowd_cases_gen_params),
	KUNIT_CASE(barriers_at_once),
	KUNIT_CASE(barrier_leaves_none_behind),
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
