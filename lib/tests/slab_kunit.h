/* SPDX-License-Identifier: GPL-2.0 */
#ifndef LIB_TESTS_SLAB_KUNIT_H
#define LIB_TESTS_SLAB_KUNIT_H

/*
 * What the KUnit tests of the slab allocator do alike
 *
 * A test has a cache of its own, struct slab_test, and is bound to one CPU. Which
 * way an object has taken, by a sheaf, a barn or a slab, is read off the statistics.
 * Nobody else knows the cache, so the counters are exact: expect_moves() names those
 * that have changed, and all others must not have.
 *
 * Whether objects get lost, or are had by two users at the same time, is seen by
 * marks that are written into each object when it is allocated, and that are checked
 * when it is freed. In the end of each test, whatever it tested, the books must
 * balance (expect_balance()), and the cache is destroyed, which must not find objects
 * left behind.
 *
 * Refills depend on the slabs, so where a test needs to know how full a sheaf is, it
 * empties all sheaves by allocating what is in them (hold_and_drain()), and then frees
 * as many objects as it likes to have in sheaves.
 *
 * These are static functions, so that a suite needs no other module, whether it is
 * built in or not. The tests of barns do without: they know nothing of caches.
 */

#include <kunit/resource.h>
#include <kunit/test.h>
#include <linux/alloc_tag.h>
#include <linux/cpu.h>
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/nodemask.h>
#include <linux/prandom.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "../../mm/slab.h"
#include "../../mm/slab_sheaf.h"

#define OBJECT_SIZE	64

/*
 * Faults
 */

#ifdef CONFIG_FAULT_INJECTION
/* Of the allocations of each test, the Nth one fails: faults_kunit.sh of the kselftests. */
static unsigned int fail_nth;
module_param(fail_nth, uint, 0644);
/* Or pages do, as fail_page_alloc says. */
static bool fail_pages;
module_param(fail_pages, bool, 0644);
#endif

static inline bool with_faults(void)
{
#ifdef CONFIG_FAULT_INJECTION
	return fail_nth || fail_pages;
#else
	return false;
#endif
}

/* A test has a task of its own, which is not the one that cleans up after it. */
static inline void arm_fault(void)
{
#ifdef CONFIG_FAULT_INJECTION
	current->fail_nth = READ_ONCE(fail_nth);
	current->make_it_fail = READ_ONCE(fail_pages);
#endif
}

/* For what must not stop half way: what a test has broken, it mends. */
static inline void disarm_fault(void)
{
#ifdef CONFIG_FAULT_INJECTION
	current->fail_nth = 0;
	current->make_it_fail = 0;
#endif
}

/* For what takes seconds, and is not to be done again for each fault. */
static inline void not_with_faults(struct kunit *test)
{
	if (!with_faults())
		return;
	disarm_fault();
	KUNIT_FAIL_AND_ABORT(test, "takes too long");
}

/* What is in an object that a test has. The last word is a mark as well. */
struct object {
	unsigned long mark;
	struct object *next;
	unsigned long constructed;
	struct rcu_head rcu;
	unsigned long value;
};

#define MARK		0x0b7ec7edUL
#define CONSTRUCTED	0xc0157a7cUL

/* What the statistics count: objects, and for barns and loans sheaves. */
struct moves {
	unsigned long alloc_fast, alloc_slow;
	unsigned long free_fast, free_slow;
	unsigned long refill, flush;
	unsigned long barn_get, barn_get_fail;
	unsigned long barn_put, barn_put_fail;
	unsigned long prefill_fast, prefill_slow, prefill_oversize;
	unsigned long return_fast, return_slow;
	unsigned long rcu_sheaf, rcu_fail;
	unsigned long list_lock;
};

struct slab_counter {
	enum stat_item item;
	size_t offset;			/* in struct moves */
	const char *name;
	bool casual;			/* expect_moves() does not look at it */
};

#define COUNTER(i, field) \
	{ .item = i, .offset = offsetof(struct moves, field), .name = #field }
#define CASUAL_COUNTER(i, field) \
	{ .item = i, .offset = offsetof(struct moves, field), .name = #field, .casual = true }

/* What all suites look at. The tables end with a counter that has no name. */
static const struct slab_counter common_counters[] = {
	COUNTER(ALLOC_FASTPATH, alloc_fast),
	COUNTER(ALLOC_SLOWPATH, alloc_slow),
	COUNTER(FREE_FASTPATH, free_fast),
	COUNTER(FREE_SLOWPATH, free_slow),
	COUNTER(SHEAF_REFILL, refill),
	COUNTER(SHEAF_FLUSH, flush),
	COUNTER(BARN_GET, barn_get),
	COUNTER(BARN_PUT, barn_put),
	COUNTER(BARN_PUT_FAIL, barn_put_fail),
	{ }
};

/* What the suites of the sheaf tier look at besides. */
static const struct slab_counter sheaf_counters[] = {
	COUNTER(BARN_GET_FAIL, barn_get_fail),
	CASUAL_COUNTER(LIST_LOCK, list_lock),
	{ }
};

struct slab_test {
	struct kmem_cache *cache;
	unsigned int cap;
	int cpu;			/* that the test is bound to */
	struct object *held;		/* a stack */
	unsigned long nr_held;
	struct slab_sheaf *lent[8];	/* sheaves that the test has */
	unsigned long nr_broken;	/* objects that had lost their marks */
	unsigned long nr_ignored;	/* frees of what was free already, but counted */
	bool broken_on_purpose;		/* nobody counts complaints */
	const struct slab_counter *counters;	/* besides the common ones */
	struct moves before;
	struct kunit_resource resource;
	int slab_errors;
};

/*
 * Objects and their marks
 */

static inline unsigned long *last_word(struct kmem_cache *s, struct object *obj)
{
	return (void *)obj + round_down(s->object_size, sizeof(long)) - sizeof(long);
}

static inline unsigned long mark_of(const struct object *obj)
{
	return MARK ^ (unsigned long)obj;
}

static inline bool mark_object(struct kmem_cache *s, struct object *obj)
{
	if (s->ctor && obj->constructed != CONSTRUCTED)
		return false;
	obj->mark = mark_of(obj);
	WRITE_ONCE(*last_word(s, obj), ~mark_of(obj));
	return true;
}

/* The mark that stays when an object is let go of, until somebody else has it. */
static inline bool is_intact(struct kmem_cache *s, struct object *obj)
{
	return READ_ONCE(*last_word(s, obj)) == ~mark_of(obj);
}

/* Only one can find the mark, even if two believe that the object is theirs. */
static inline bool unmark_object(struct kmem_cache *s, struct object *obj)
{
	return xchg(&obj->mark, 0) == mark_of(obj) && is_intact(s, obj);
}

static inline void construct(void *p)
{
	struct object *obj = p;

	obj->constructed = CONSTRUCTED;
}

static inline bool hold(struct slab_test *st, struct object *obj)
{
	if (!obj)
		return false;
	if (!mark_object(st->cache, obj))
		st->nr_broken++;
	obj->next = st->held;
	st->held = obj;
	st->nr_held++;
	return true;
}

/* The object that was held last. */
static inline struct object *let_go(struct slab_test *st)
{
	struct object *obj = st->held;

	st->held = obj->next;
	st->nr_held--;
	if (!unmark_object(st->cache, obj))
		st->nr_broken++;
	return obj;
}

static inline unsigned long alloc_objects(struct slab_test *st, unsigned long n, gfp_t gfp)
{
	unsigned long i;

	for (i = 0; i < n; i++)
		if (!hold(st, kmem_cache_alloc(st->cache, gfp)))
			break;
	return i;
}

static inline void free_objects(struct slab_test *st, unsigned long n)
{
	while (n-- > 0)
		kmem_cache_free(st->cache, let_go(st));
}

static inline void grab(struct kunit *test, unsigned long n)
{
	KUNIT_ASSERT_EQ(test, alloc_objects(test->priv, n, GFP_KERNEL), n);
}

static inline int nid_of(void *obj)
{
	/* As in slab_nid(), other bits of the word change. */
	return data_race(page_to_nid(virt_to_page(obj)));
}

/* Holds n more objects, which are from the node. */
static inline void grab_on(struct kunit *test, int node, unsigned long n)
{
	struct slab_test *st = test->priv;
	void *obj;

	while (n-- > 0) {
		obj = kmem_cache_alloc_node(st->cache, GFP_KERNEL | __GFP_THISNODE, node);
		KUNIT_ASSERT_TRUE(test, hold(st, obj));
		KUNIT_ASSERT_EQ(test, nid_of(obj), node);
	}
}

static inline void release(struct kunit *test, unsigned long n)
{
	struct slab_test *st = test->priv;

	KUNIT_ASSERT_LE(test, n, st->nr_held);
	free_objects(st, n);
}

/*
 * Of the frees of what is in a sheaf already, so many do not come to sheaves, and are not
 * counted there: who initialises objects when they are freed sees the mark before.
 */
static inline unsigned long ignored_early(unsigned long n)
{
	return IS_ENABLED(CONFIG_SLAB_SHEAF_MARKS) && want_init_on_free() ? n : 0;
}

/*
 * Counters
 */

static inline unsigned long count(struct kmem_cache *s, enum stat_item item)
{
#ifdef CONFIG_SLUB_STATS
	return kmem_cache_stat_sum(s, item);
#else
	return 0;
#endif
}

static inline unsigned long *counted(struct moves *m, const struct slab_counter *c)
{
	return (void *)m + c->offset;
}

static inline void __take_moves(struct slab_test *st, const struct slab_counter *c,
				struct moves *m)
{
	for (; c->name; c++) {
		unsigned long now = count(st->cache, c->item);

		*counted(m, c) = now - *counted(&st->before, c);
		*counted(&st->before, c) = now;
	}
}

/* What happened since the last time. */
static inline struct moves take_moves(struct kunit *test)
{
	struct slab_test *st = test->priv;
	struct moves m = { };

	__take_moves(st, common_counters, &m);
	__take_moves(st, st->counters, &m);
	return m;
}

static inline void expect_count(struct kunit *test, int line, const char *what,
				unsigned long n, unsigned long want)
{
	KUNIT_EXPECT_EQ_MSG(test, n, want, "%s, from line %d", what, line);
}

static inline void expect_counters(struct kunit *test, int line, const struct slab_counter *c,
				   struct moves *m, struct moves *want)
{
	for (; c->name; c++)
		if (!c->casual)
			expect_count(test, line, c->name, *counted(m, c), *counted(want, c));
}

static inline void __expect_moves(struct kunit *test, int line, struct moves want)
{
	struct slab_test *st = test->priv;
	struct moves m = take_moves(test);

	if (!IS_ENABLED(CONFIG_SLUB_STATS))
		return;
	expect_counters(test, line, common_counters, &m, &want);
	expect_counters(test, line, st->counters, &m, &want);
}

/* Those that are named have moved since the last time, and no others. */
#define expect_moves(test, ...) \
	__expect_moves(test, __LINE__, (struct moves) { __VA_ARGS__ })

static inline unsigned long cached_objects(struct kmem_cache *s)
{
#ifdef CONFIG_SLAB_SHEAVES
	return kmem_cache_cached_objects(s);
#else
	return 0;
#endif
}

static inline void __expect_cached(struct kunit *test, int line, unsigned long want)
{
	struct slab_test *st = test->priv;

	expect_count(test, line, "objects cached", cached_objects(st->cache), want);
}

/* How many objects there are in sheaves and barns. */
#define expect_cached(test, n) \
	__expect_cached(test, __LINE__, n)

/* The sheaves that there are: those of CPUs, and those in barns. */
static inline unsigned long count_sheaves(struct kmem_cache *s)
{
	unsigned long nr = 0;
#ifdef CONFIG_SLAB_SHEAVES
	int cpu, node;

	/* A round may be about to take them away, or to free them. */
	for_each_possible_cpu(cpu) {
		struct slub_percpu_sheaves *pcs = per_cpu_ptr(s->cpu_sheaves, cpu);

		nr += READ_ONCE(pcs->main) != slab_no_sheaf;
		nr += !!READ_ONCE(pcs->spare);
		nr += !!READ_ONCE(pcs->remote);
		nr += !!READ_ONCE(pcs->rcu_free);
	}
	for (node = 0; s->barns && node < nr_node_ids; node++)
		if (s->barns[node])
			nr += READ_ONCE(s->barns[node]->nr_full) +
			      READ_ONCE(s->barns[node]->nr_empty);
#endif
	return nr;
}

static inline void no_quarantine(struct kmem_cache *s)
{
#ifdef CONFIG_KASAN_GENERIC
	/* KASAN_NO_FREE_META: there is no room to keep the object in a list */
	s->kasan_info.free_meta_offset = INT_MAX;
#endif
}

static inline bool has_quarantine(struct kmem_cache *s)
{
#ifdef CONFIG_KASAN_GENERIC
	return s->kasan_info.free_meta_offset != INT_MAX;
#else
	return false;
#endif
}

/*
 * Each sheaf that was ever allocated is somewhere; what went into sheaves and has not
 * come out is there; what was borrowed was returned; and what was allocated and not
 * freed is what somebody holds.
 */
static inline void expect_balance_of(struct kunit *test, struct kmem_cache *s,
				     unsigned long held, unsigned long ignored)
{
	bool plain = !(s->flags & SLAB_SKIP_KFENCE);

	if (!IS_ENABLED(CONFIG_SLUB_STATS))
		return;
	/* It has what was freed, see new_cache(). */
	if (has_quarantine(s))
		kmem_cache_shrink(s);
	KUNIT_EXPECT_EQ(test, count_sheaves(s), count(s, SHEAF_ALLOC) - count(s, SHEAF_FREE));
	KUNIT_EXPECT_EQ(test, cached_objects(s),
			count(s, SHEAF_REFILL) + count(s, FREE_FASTPATH) -
			count(s, SHEAF_FLUSH) - count(s, ALLOC_FASTPATH) - ignored);
	/* What KFENCE hands out is not counted. */
	if (!plain || !IS_ENABLED(CONFIG_KFENCE))
		KUNIT_EXPECT_EQ(test, held - ignored,
				count(s, ALLOC_FASTPATH) + count(s, ALLOC_SLOWPATH) -
				count(s, FREE_FASTPATH) - count(s, FREE_SLOWPATH));
}

static inline void expect_balance(struct kunit *test)
{
	struct slab_test *st = test->priv;

	expect_balance_of(test, st->cache, st->nr_held, st->nr_ignored);
}

/* Holds n objects or more, and there are none in sheaves. */
static inline void hold_and_drain(struct kunit *test, unsigned long n)
{
	struct slab_test *st = test->priv;

	grab(test, n);
	grab(test, cached_objects(st->cache));
	KUNIT_ASSERT_EQ(test, cached_objects(st->cache), 0);
	take_moves(test);
}

/* How many sheaves it takes. */
static inline unsigned long sheaves_for(struct slab_test *st, unsigned long n)
{
	return DIV_ROUND_UP(n, st->cap);
}

/* All objects stay in the sheaves of the CPU and in the barn of its node. */
static inline void round_trip(struct kunit *test, unsigned long n)
{
	struct slab_test *st = test->priv;
	unsigned long in_barn = sheaves_for(st, n) - min(sheaves_for(st, n), 2UL);
	unsigned int round;

	hold_and_drain(test, n);
	for (round = 0; round < 2; round++) {
		release(test, n);
		expect_moves(test, .free_fast = n, .barn_put = in_barn);
		expect_cached(test, n);
		grab(test, n);
		expect_moves(test, .alloc_fast = n, .barn_get = in_barn);
		expect_cached(test, 0);
	}
	release(test, st->nr_held);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
}

/*
 * Bulk
 */

static inline void **new_array(struct kunit *test, size_t n)
{
	void **p = kunit_kcalloc(test, n, sizeof(*p), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	return p;
}

/* Allocates in bulk, and holds what it gets. */
static inline void grab_bulk(struct kunit *test, void **p, size_t n, gfp_t gfp)
{
	struct slab_test *st = test->priv;
	size_t i;

	KUNIT_ASSERT_EQ(test, kmem_cache_alloc_bulk(st->cache, gfp, n, p), n);
	for (i = 0; i < n; i++)
		hold(st, p[i]);
}

static inline void release_bulk(struct kunit *test, void **p, size_t n)
{
	struct slab_test *st = test->priv;
	size_t i;

	KUNIT_ASSERT_LE(test, n, st->nr_held);
	for (i = 0; i < n; i++)
		p[i] = let_go(st);
	kmem_cache_free_bulk(st->cache, n, p);
}

/*
 * Prefilled sheaves
 */

static inline struct slab_sheaf **lent_place(struct kunit *test, struct slab_sheaf *sheaf)
{
	struct slab_test *st = test->priv;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(st->lent) - 1; i++)
		if (st->lent[i] == sheaf)
			break;
	KUNIT_EXPECT_PTR_EQ(test, st->lent[i], sheaf);
	return &st->lent[i];
}

/* Notes one that was lent, so that it gets back even if the test does not get there. */
static inline struct slab_sheaf *lend(struct kunit *test, struct slab_sheaf *sheaf)
{
	KUNIT_ASSERT_NOT_NULL(test, sheaf);
	*lent_place(test, NULL) = sheaf;
	return sheaf;
}

static inline void give_back(struct kunit *test, struct slab_sheaf *sheaf)
{
	struct slab_test *st = test->priv;

	*lent_place(test, sheaf) = NULL;
	kmem_cache_return_sheaf(st->cache, GFP_KERNEL, sheaf);
}

static inline int refill_lent(struct kunit *test, struct slab_sheaf **sheaf, unsigned int size)
{
	struct slab_sheaf **place = lent_place(test, *sheaf);
	struct slab_test *st = test->priv;
	int err = kmem_cache_refill_sheaf(st->cache, GFP_KERNEL, place, size);

	*sheaf = *place;
	return err;
}

static inline void give_all_back(struct kunit *test)
{
	struct slab_test *st = test->priv;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(st->lent); i++)
		if (st->lent[i])
			give_back(test, st->lent[i]);
}

/*
 * Caches
 */

KUNIT_DEFINE_ACTION_WRAPPER(destroy_cache_action, kmem_cache_destroy, struct kmem_cache *);

/* That the test has, which ends with it at the latest. */
static inline void destroy_cache_of(struct kunit *test, struct kmem_cache *s)
{
	kunit_release_action(test, destroy_cache_action, s);
}

static inline void set_feedback(struct kmem_cache *s, unsigned int feedback)
{
	sheaves_lock();
	sheaves_set_feedback(s, feedback);
	sheaves_unlock();
}

#ifdef CONFIG_SLAB_SHEAVES
static inline int resize_sheaves(struct kmem_cache *s, unsigned int capacity)
{
	int err;

	sheaves_lock();
	err = sheaves_resize(s, capacity);
	sheaves_unlock();
	return err;
}

static inline int set_barns(struct kmem_cache *s, int max_full, int max_empty)
{
	int err;

	sheaves_lock();
	err = sheaves_set_barns(s, max_full, max_empty);
	sheaves_unlock();
	return err;
}
#endif

/*
 * A cache like all others, except that no boot parameter turns on debugging, and that its
 * sizes stay as they are, whatever a test does.
 */
static inline struct kmem_cache *new_plain_cache(struct kunit *test, const char *name,
						 unsigned int size, slab_flags_t flags,
						 struct kmem_cache_args *args)
{
	struct kmem_cache_args none = { };
	struct kmem_cache *s;

	s = kmem_cache_create(name, size, args ?: &none,
			      flags | SLAB_NO_USER_FLAGS | SLAB_NO_MERGE);
	KUNIT_ASSERT_NOT_NULL(test, s);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, destroy_cache_action, s), 0);
	set_feedback(s, 0);
	return s;
}

/* KFENCE does not interfere, and KASAN does not keep freed objects back. */
static inline struct kmem_cache *new_cache(struct kunit *test, const char *name,
					   unsigned int size, slab_flags_t flags,
					   struct kmem_cache_args *args)
{
	struct kmem_cache *s = new_plain_cache(test, name, size, flags, args);

	s->flags |= SLAB_SKIP_KFENCE;
	if (!(flags & SLAB_DEBUG_FLAGS))
		no_quarantine(s);
	return s;
}

static inline void use_cache(struct kunit *test, struct kmem_cache *s)
{
	struct slab_test *st = test->priv;

	st->cache = s;
	st->cap = sheaf_capacity(s);
	take_moves(test);
}

static inline struct slab_test *with_cache(struct kunit *test, unsigned int size,
					   slab_flags_t flags, struct kmem_cache_args *args)
{
	use_cache(test, new_cache(test, "slab_kunit", size, flags, args));
	return test->priv;
}

static inline void skip_without_sheaves(struct kunit *test)
{
	struct slab_test *st = test->priv;

	if (!st->cap)
		kunit_skip(test, "the cache has no sheaves");
}

/* For who wants a sheaf that is neither empty nor full, or more than one kind of it. */
static inline void skip_if_smaller(struct kunit *test, unsigned int nr)
{
	struct slab_test *st = test->priv;

	if (st->cap < nr)
		kunit_skip(test, "sheaves have room for fewer than %u objects", nr);
}

/* For who fills one by so many, where a boot parameter says how large they are. */
static inline void skip_if_larger(struct kunit *test, unsigned int nr)
{
	struct slab_test *st = test->priv;

	if (st->cap > nr)
		kunit_skip(test, "sheaves have room for more than %u objects", nr);
}

/* What bugs elsewhere do. */
static inline void skip_if_not_hardened(struct kunit *test)
{
	if (!IS_ENABLED(CONFIG_SLAB_FREELIST_HARDENED))
		kunit_skip(test, "needs CONFIG_SLAB_FREELIST_HARDENED");
}

static inline void skip_if_double_free_is_seen(struct kunit *test)
{
	if (IS_ENABLED(CONFIG_KASAN))
		kunit_skip(test, "KASAN finds it out before");
	if (IS_ENABLED(CONFIG_MEM_ALLOC_PROFILING_DEBUG) && mem_alloc_profiling_enabled())
		kunit_skip(test, "memory allocation profiling finds it out before");
}

/* How often DEBUG_SLAB_SHEAVES has complained since the last time. */
static inline int complaints(void)
{
#ifdef CONFIG_DEBUG_SLAB_SHEAVES
	return atomic_xchg(&sheaf_complaints, 0);
#else
	return 0;
#endif
}

/* Frees what the test holds, and destroys the cache, which must be clean. */
static inline void finish_cache(struct kunit *test)
{
	struct slab_test *st = test->priv;

	if (!st || !st->cache)
		return;
	give_all_back(test);
	free_objects(st, st->nr_held);
	expect_balance(test);
	destroy_cache_of(test, st->cache);
	st->cache = NULL;
	KUNIT_EXPECT_EQ(test, st->slab_errors, 0);
	KUNIT_EXPECT_EQ(test, st->nr_broken, 0);
	KUNIT_EXPECT_EQ(test, st->broken_on_purpose ? 0 : complaints(), 0);
}

/* The same, where a test that was given up has perhaps not waited for kfree_rcu(). */
static inline void finish_rcu_cache(struct kunit *test)
{
	kvfree_rcu_barrier();
	finish_cache(test);
}

/*
 * CPUs and nodes
 */

static inline void bind_to(struct kunit *test, int cpu)
{
	struct slab_test *st = test->priv;

	set_cpus_allowed_ptr(current, cpumask_of(cpu));
	st->cpu = cpu;
}

static inline bool has_memory(int node)
{
	return node_state(node, N_NORMAL_MEMORY);
}

/* A CPU of a node with memory, or of one without; or -1. */
static inline int find_cpu(bool memory)
{
	int cpu;

	for_each_online_cpu(cpu)
		if (has_memory(cpu_to_node(cpu)) == memory)
			return cpu;
	return -1;
}

/* Another CPU of the same node, or -1. */
static inline int neighbour_of(int cpu)
{
	int other;

	for_each_online_cpu(other)
		if (other != cpu && cpu_to_node(other) == cpu_to_node(cpu))
			return other;
	return -1;
}

/* A node with memory, other than @not_node, and than @nor_node. */
static inline int find_other_memory(int not_node, int nor_node)
{
	int node;

	for_each_node_state(node, N_NORMAL_MEMORY)
		if (node != not_node && node != nor_node)
			return node;
	return NUMA_NO_NODE;
}

#ifdef CONFIG_HOTPLUG_CPU
/* Not the one that the test runs on. */
static inline int find_cpu_to_remove(struct kunit *test)
{
	struct slab_test *st = test->priv;
	int cpu, last = -1;

	for_each_online_cpu(cpu)
		if (cpu != st->cpu && cpu_is_hotpluggable(cpu))
			last = cpu;
	if (last < 0)
		kunit_skip(test, "no CPU can be removed");
	return last;
}

static inline void add_cpu_action(void *cpu)
{
	add_cpu((long)cpu);
}

/* It comes back when the test ends, if not before. */
static inline void take_offline(struct kunit *test, long cpu)
{
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, add_cpu_action, (void *)cpu), 0);
	KUNIT_ASSERT_EQ(test, remove_cpu(cpu), 0);
}

static inline void bring_online(struct kunit *test, long cpu)
{
	KUNIT_ASSERT_EQ(test, add_cpu(cpu), 0);
	kunit_remove_action(test, add_cpu_action, (void *)cpu);
}
#endif

#ifdef CONFIG_SLAB_SHEAVES
static inline struct node_barn *barn_of(struct kmem_cache *s, int cpu)
{
	return s->barns[cpu_to_node(cpu)];
}

static inline unsigned int nr_full_sheaves(struct kmem_cache *s)
{
	unsigned int nr = 0;
	int node;

	for_each_online_node(node)
		nr += READ_ONCE(s->barns[node]->nr_full);
	return nr;
}

static inline struct slub_percpu_sheaves *sheaves_here(struct slab_test *st)
{
	return per_cpu_ptr(st->cache->cpu_sheaves, st->cpu);
}

/* The cache of caches, which is in a slab. A large sheaf is not. */
static inline void name_another_cache(struct slab_sheaf *sheaf)
{
	sheaf->cache = virt_to_slab(sheaf->cache)->slab_cache;
}
#endif

/*
 * Where, and with what kind of cache, the ways of objects are tested
 */

struct setup {
	const char *desc;
	unsigned int size;
	unsigned int capacity;
	slab_flags_t flags;
	bool memoryless;
};

static const struct setup setups[] = {
	{ "default capacity", OBJECT_SIZE },
	{ "small capacity", PAGE_SIZE },
	{ "odd size", 328 },
	{ "large capacity", OBJECT_SIZE, 250 },
	{ "default capacity, node without memory", OBJECT_SIZE, .memoryless = true },
	{ "small capacity, node without memory", PAGE_SIZE, .memoryless = true },
};

__maybe_unused
KUNIT_ARRAY_PARAM_DESC(setups, setups, desc);

static inline struct slab_test *with_any_setup(struct kunit *test)
{
	const struct setup *setup = test->param_value;
	struct kmem_cache_args args = { .sheaf_capacity = setup->capacity };
	int cpu = find_cpu(!setup->memoryless);

	if (cpu < 0)
		kunit_skip(test, "no CPU on a node %s memory",
			   setup->memoryless ? "without" : "with");
	bind_to(test, cpu);
	return with_cache(test, setup->size, setup->flags, &args);
}

static inline struct slab_test *with_setup(struct kunit *test)
{
	struct slab_test *st = with_any_setup(test);

	skip_without_sheaves(test);
	return st;
}

/*
 * Interrupts, on the CPU of the test
 */

enum irq_kind { IRQ_WORK, HARD_TIMER, SOFT_TIMER };

static const struct irq_case {
	const char *desc;
	enum irq_kind kind;
} irq_cases[] = {
	{ "irq_work", IRQ_WORK },
	{ "hrtimer", HARD_TIMER },
	{ "hrtimer in softirq", SOFT_TIMER },
};

__maybe_unused
KUNIT_ARRAY_PARAM_DESC(irq_cases, irq_cases, desc);

struct irq_user {
	struct irq_work work;
	struct hrtimer timer;
	enum irq_kind kind;
	void (*fn)(struct irq_user *u);
	bool was_hardirq;
	bool done;
};

static inline void irq_user_fn(struct irq_user *u)
{
	u->was_hardirq = in_hardirq();
	u->fn(u);
	WRITE_ONCE(u->done, true);
}

static inline void irq_user_work(struct irq_work *work)
{
	irq_user_fn(container_of(work, struct irq_user, work));
}

static inline enum hrtimer_restart irq_user_timer(struct hrtimer *timer)
{
	irq_user_fn(container_of(timer, struct irq_user, timer));
	return HRTIMER_NORESTART;
}

/*
 * Without PREEMPT_RT all but SOFT_TIMER are hard interrupts. lockdep lets these take the locks
 * that sleep with it, unless they ask to be hard there as well.
 */
static inline enum hrtimer_mode irq_timer_mode(enum irq_kind kind)
{
	if (kind == SOFT_TIMER)
		return HRTIMER_MODE_REL_PINNED_SOFT;
	return IS_ENABLED(CONFIG_PREEMPT_RT) ? HRTIMER_MODE_REL_PINNED_HARD :
					       HRTIMER_MODE_REL_PINNED;
}

static inline void prepare_irq(struct irq_user *u, enum irq_kind kind,
			       void (*fn)(struct irq_user *u))
{
	u->kind = kind;
	u->fn = fn;
	/* On PREEMPT_RT this one runs in a thread. */
	init_irq_work(&u->work, irq_user_work);
	hrtimer_init_on_stack(&u->timer, CLOCK_MONOTONIC, irq_timer_mode(kind));
	u->timer.function = irq_user_timer;
}

/* Does not sleep. With the sheaves of the CPU in use, if @locked. */
static inline void raise_irq(struct slab_test *st, struct irq_user *u, bool locked)
{
	unsigned long end = jiffies + 5 * HZ;

#ifdef CONFIG_SLAB_SHEAVES
	if (locked)
		local_lock(&st->cache->cpu_sheaves->lock);
#endif
	if (u->kind == IRQ_WORK)
		irq_work_queue(&u->work);
	else
		hrtimer_start(&u->timer, ns_to_ktime(10000), irq_timer_mode(u->kind));
	while (!READ_ONCE(u->done) && time_before(jiffies, end))
		cpu_relax();
#ifdef CONFIG_SLAB_SHEAVES
	if (locked)
		local_unlock(&st->cache->cpu_sheaves->lock);
#endif
}

static inline void finish_irq(struct kunit *test, struct irq_user *u)
{
	irq_work_sync(&u->work);
	hrtimer_cancel(&u->timer);
	destroy_hrtimer_on_stack(&u->timer);
	KUNIT_ASSERT_TRUE(test, u->done);
	KUNIT_EXPECT_EQ(test, u->was_hardirq,
			u->kind == HARD_TIMER ||
			(u->kind == IRQ_WORK && !IS_ENABLED(CONFIG_PREEMPT_RT)));
}

/*
 * A crowd: all CPUs at the same time, and some who may move. Each puts what it
 * allocates into a slot that all share, and frees what was there before, so most
 * objects are freed by others. Meanwhile somebody disturbs them.
 */

#define CROWD_SLOTS	512
#define CROWD_UNBOUND	2		/* users that may move to other CPUs */
#define CROWD_LEAST_STEPS	200	/* unless the machine is so slow */
#define CROWD_LONGEST	(20 * HZ)	/* that KUnit would not wait for it */

struct crowd_user;

struct crowd {
	struct kmem_cache *cache;
	void (*step)(struct crowd_user *u);
	unsigned int nr_steps;
	void (*disturb)(struct crowd *c, unsigned int round);
	struct object **slots;
	unsigned long end;		/* jiffies */
	atomic_t nr_running;
	atomic_long_t nr_broken;
	atomic_long_t nr_null;
	atomic_long_t nr_allocs;
};

struct crowd_user {
	struct work_struct work;
	struct crowd *crowd;
	struct rnd_state rnd;
	unsigned long serial;
};

static inline unsigned int random_below(struct crowd_user *u, unsigned int ceil)
{
	return prandom_u32_state(&u->rnd) % ceil;
}

static inline struct object **random_slot(struct crowd_user *u)
{
	return &u->crowd->slots[random_below(u, CROWD_SLOTS)];
}

/* Puts an object, or NULL, into a slot. Returns what was there, to be freed. */
static inline struct object *exchange(struct crowd_user *u, struct object *obj)
{
	struct crowd *c = u->crowd;

	if (obj) {
		atomic_long_inc(&c->nr_allocs);
		WRITE_ONCE(obj->value, ++u->serial);
		if (!mark_object(c->cache, obj))
			atomic_long_inc(&c->nr_broken);
	}
	obj = xchg(random_slot(u), obj);
	if (obj && !unmark_object(c->cache, obj))
		atomic_long_inc(&c->nr_broken);
	return obj;
}

static inline void crowd_fn(struct work_struct *work)
{
	struct crowd_user *u = container_of(work, struct crowd_user, work);
	unsigned long end = u->crowd->end + CROWD_LONGEST;
	unsigned int i;

	for (i = 0; i < u->crowd->nr_steps && time_before(jiffies, end); i++) {
		if (i == CROWD_LEAST_STEPS)
			end = u->crowd->end;
		u->crowd->step(u);
		cond_resched();
	}
	atomic_dec(&u->crowd->nr_running);
}

static inline void crowd_queue(struct crowd *c, struct crowd_user *users,
			       struct workqueue_struct *bound, struct workqueue_struct *unbound)
{
	unsigned int i, round = 0;
	int cpu;

	atomic_set(&c->nr_running, num_online_cpus() + CROWD_UNBOUND);
	for (i = 0; i < nr_cpu_ids + CROWD_UNBOUND; i++) {
		users[i].crowd = c;
		users[i].serial = (unsigned long)i << (BITS_PER_LONG / 2);
		prandom_seed_state(&users[i].rnd, i + 1);
		INIT_WORK(&users[i].work, crowd_fn);
	}
	c->end = jiffies + HZ;
	for_each_online_cpu(cpu)
		queue_work_on(cpu, bound, &users[cpu].work);
	for (i = nr_cpu_ids; i < nr_cpu_ids + CROWD_UNBOUND; i++)
		queue_work(unbound, &users[i].work);

	do {
		c->disturb(c, round++);
		schedule_timeout_uninterruptible(HZ / 50);
	} while (atomic_read(&c->nr_running) && time_before(jiffies, c->end));
	for (i = 0; i < nr_cpu_ids + CROWD_UNBOUND; i++)
		flush_work(&users[i].work);
}

/* Lets the test hold what was left in the slots. */
static inline void crowd_run(struct kunit *test, struct crowd *c)
{
	struct workqueue_struct *bound, *unbound;
	struct slab_test *st = test->priv;
	struct crowd_user *users;
	unsigned int i;

	if (with_faults())
		c->nr_steps = CROWD_LEAST_STEPS;
	c->cache = st->cache;
	c->slots = kunit_kcalloc(test, CROWD_SLOTS, sizeof(*c->slots), GFP_KERNEL);
	users = kunit_kcalloc(test, nr_cpu_ids + CROWD_UNBOUND, sizeof(*users), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, c->slots);
	KUNIT_ASSERT_NOT_NULL(test, users);
	bound = alloc_workqueue("slab_kunit", WQ_CPU_INTENSIVE, 0);
	unbound = alloc_workqueue("slab_kunit_unbound", WQ_UNBOUND, 0);
	if (bound && unbound)
		crowd_queue(c, users, bound, unbound);
	if (bound)
		destroy_workqueue(bound);
	if (unbound)
		destroy_workqueue(unbound);

	for (i = 0; i < CROWD_SLOTS; i++) {
		if (!c->slots[i])
			continue;
		if (!unmark_object(st->cache, c->slots[i]))
			atomic_long_inc(&c->nr_broken);
		hold(st, c->slots[i]);
	}
	kunit_info(test, "%ld objects, %u CPUs\n", atomic_long_read(&c->nr_allocs),
		   num_online_cpus());
	KUNIT_EXPECT_GT(test, atomic_long_read(&c->nr_allocs), num_online_cpus());
	KUNIT_EXPECT_EQ(test, atomic_long_read(&c->nr_broken), 0);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&c->nr_null), 0);
}

/*
 * Suites
 */

/* How often it is tried what others may come in between of, but seldom do. */
#define FEW_ROUNDS	5

/* Calls @try until it returns true, at most @rounds times. */
static inline void expect_in_rounds(struct kunit *test, unsigned int rounds,
				    bool (*try)(struct kunit *test))
{
	unsigned int i;

	for (i = 0; i < rounds; i++)
		if (try(test))
			return;
	KUNIT_FAIL(test, "not in %u rounds", rounds);
}

static inline int slab_test_setup(struct kunit *test, struct slab_test *st,
				  const struct slab_counter *counters)
{
	int cpu = find_cpu(true);

	if (!st)
		return -ENOMEM;
	arm_fault();
	test->priv = st;
	st->counters = counters;
	complaints();
	bind_to(test, cpu < 0 ? raw_smp_processor_id() : cpu);
	/* Makes the slab allocator count its errors there. */
	return kunit_add_named_resource(test, NULL, NULL, &st->resource, "slab_errors",
					&st->slab_errors);
}

static inline int slab_test_init(struct kunit *test)
{
	return slab_test_setup(test, kunit_kzalloc(test, sizeof(struct slab_test), GFP_KERNEL),
			       sheaf_counters);
}

#endif /* LIB_TESTS_SLAB_KUNIT_H */
