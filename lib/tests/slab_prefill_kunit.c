// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for prefilled sheaves of the slab allocator
 *
 * Each test uses a cache of its own, bound to one CPU. Which way sheaves and
 * objects have taken is read off the statistics: expect_counts() names the
 * counters that have changed, all others must not have. A test that needs to know
 * how full a sheaf is takes all objects out of sheaves (hold_and_drain()), and
 * then frees as many as it likes to have there.
 *
 * Objects are marked while a test holds them, so that none is had twice. In the
 * end of each test, the cache is destroyed, which must not find objects left
 * behind; no sheaf may be missing; and the books must balance: what was borrowed
 * was returned, and what went into sheaves and has not come out is there.
 *
 * Memory is made short by stubs of the three functions that get some: for a sheaf
 * of the usual size, for an oversize one, and for objects.
 *
 * All of it works without sheaves, too: in a cache with debugging, with
 * slab_sheaf_capacity=0, and with SLUB_TINY, which has no statistics either.
 */

#include <kunit/resource.h>
#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/bitmap.h>
#include <linux/cpu.h>
#include <linux/fault-inject.h>
#include <linux/irq_work.h>
#include <linux/jiffies.h>
#include <linux/kfence.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/nodemask.h>
#include <linux/panic.h>
#include <linux/prandom.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "../../mm/slab.h"
#include "../../mm/slab_sheaf.h"

#define OBJECT_SIZE	64
#define CONSTRUCTED	0xc0157a7cUL

struct object {
	unsigned long mark;
	struct object *next;
	unsigned long constructed;
};

static const struct counter {
	enum stat_item item;
	const char *name;
} counters[] = {
	{ ALLOC_FASTPATH, "alloc_fastpath" },
	{ ALLOC_SLOWPATH, "alloc_slowpath" },
	{ FREE_FASTPATH, "free_fastpath" },
	{ FREE_SLOWPATH, "free_slowpath" },
	{ SHEAF_REFILL, "sheaf_refill" },
	{ SHEAF_FLUSH, "sheaf_flush" },
	{ BARN_GET, "barn_get" },
	{ BARN_PUT, "barn_put" },
	{ BARN_PUT_FAIL, "barn_put_fail" },
	{ SHEAF_PREFILL_FAST, "sheaf_prefill_fast" },
	{ SHEAF_PREFILL_SLOW, "sheaf_prefill_slow" },
	{ SHEAF_PREFILL_OVERSIZE, "sheaf_prefill_oversize" },
	{ SHEAF_RETURN_FAST, "sheaf_return_fast" },
	{ SHEAF_RETURN_SLOW, "sheaf_return_slow" },
};

struct counts {
	unsigned long n[NR_SLUB_STAT_ITEMS];
};

struct prefill_test {
	struct kmem_cache *cache;
	unsigned int cap;
	int cpu;			/* that the test is bound to */
	struct object *held;		/* a stack */
	unsigned long nr_held;
	unsigned long nr_broken;	/* objects that had lost their marks */
	unsigned long nr_stub_calls;
	unsigned long stub_allows;	/* objects, or calls, before memory is short */
	struct counts before;
	struct kunit_resource resource;
	int slab_errors;
};

/*
 * Objects
 */

static void construct(void *p)
{
	struct object *obj = p;

	obj->constructed = CONSTRUCTED;
}

static unsigned long mark_of(const struct object *obj)
{
	return ~(unsigned long)obj;
}

static bool hold(struct prefill_test *pt, struct object *obj)
{
	if (!obj)
		return false;
	if (pt->cache->ctor && obj->constructed != CONSTRUCTED)
		pt->nr_broken++;
	obj->mark = mark_of(obj);
	obj->next = pt->held;
	pt->held = obj;
	pt->nr_held++;
	return true;
}

/* Only one can find the mark, even if two believe that the object is theirs. */
static struct object *let_go(struct prefill_test *pt)
{
	struct object *obj = pt->held;

	pt->held = obj->next;
	pt->nr_held--;
	if (xchg(&obj->mark, 0) != mark_of(obj))
		pt->nr_broken++;
	return obj;
}

static void grab(struct kunit *test, unsigned long n)
{
	struct prefill_test *pt = test->priv;

	while (n-- > 0)
		KUNIT_ASSERT_TRUE(test, hold(pt, kmem_cache_alloc(pt->cache, GFP_KERNEL)));
}

static void release(struct kunit *test, unsigned long n)
{
	struct prefill_test *pt = test->priv;

	KUNIT_ASSERT_LE(test, n, pt->nr_held);
	while (n-- > 0)
		kmem_cache_free(pt->cache, let_go(pt));
}

/* Take objects out of a sheaf that has them. */
static void take(struct kunit *test, struct slab_sheaf *sheaf, unsigned int n)
{
	struct prefill_test *pt = test->priv;
	unsigned int size = kmem_cache_sheaf_size(sheaf);

	KUNIT_ASSERT_GE(test, size, n);
	while (n-- > 0) {
		struct object *obj = kmem_cache_alloc_from_sheaf(pt->cache, GFP_NOWAIT, sheaf);

		KUNIT_ASSERT_TRUE(test, hold(pt, obj));
		KUNIT_ASSERT_EQ(test, kmem_cache_sheaf_size(sheaf), --size);
	}
}

static void take_all(struct kunit *test, struct slab_sheaf *sheaf)
{
	struct prefill_test *pt = test->priv;

	take(test, sheaf, kmem_cache_sheaf_size(sheaf));
	KUNIT_ASSERT_NULL(test, kmem_cache_alloc_from_sheaf(pt->cache, GFP_KERNEL, sheaf));
	KUNIT_ASSERT_EQ(test, kmem_cache_sheaf_size(sheaf), 0);
}

static struct slab_sheaf *prefill(struct kunit *test, unsigned int size)
{
	struct prefill_test *pt = test->priv;
	struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(pt->cache, GFP_KERNEL, size);

	KUNIT_ASSERT_NOT_NULL(test, sheaf);
	KUNIT_EXPECT_GE(test, kmem_cache_sheaf_size(sheaf), size);
	return sheaf;
}

static void give_back(struct kunit *test, struct slab_sheaf *sheaf)
{
	struct prefill_test *pt = test->priv;

	kmem_cache_return_sheaf(pt->cache, GFP_KERNEL, sheaf);
}

/*
 * Counters
 */

static unsigned long count(struct kmem_cache *s, enum stat_item item)
{
#ifdef CONFIG_SLUB_STATS
	return kmem_cache_stat_sum(s, item);
#else
	return 0;
#endif
}

static struct counts take_counts(struct kunit *test)
{
	struct prefill_test *pt = test->priv;
	struct counts moved = { };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(counters); i++) {
		enum stat_item item = counters[i].item;
		unsigned long n = count(pt->cache, item);

		moved.n[item] = n - pt->before.n[item];
		pt->before.n[item] = n;
	}
	return moved;
}

static void __expect_counts(struct kunit *test, int line, struct counts want)
{
	struct counts moved = take_counts(test);
	unsigned int i;

	for (i = 0; IS_ENABLED(CONFIG_SLUB_STATS) && i < ARRAY_SIZE(counters); i++)
		KUNIT_EXPECT_EQ_MSG(test, moved.n[counters[i].item], want.n[counters[i].item],
				    "%s, from line %d", counters[i].name, line);
}

/* Those that are named have moved since the last time, and no others. */
#define expect_counts(test, ...) \
	__expect_counts(test, __LINE__, (struct counts) { .n = { __VA_ARGS__ } })

static unsigned long cached_objects(struct kmem_cache *s)
{
#ifdef CONFIG_SLAB_SHEAVES
	return kmem_cache_cached_objects(s);
#else
	return 0;
#endif
}

static void __expect_cached(struct kunit *test, int line, unsigned long want)
{
	struct prefill_test *pt = test->priv;

	KUNIT_EXPECT_EQ_MSG(test, cached_objects(pt->cache), want, "from line %d", line);
}

#define expect_cached(test, want) \
	__expect_cached(test, __LINE__, want)

static unsigned long count_sheaves(struct kmem_cache *s)
{
	unsigned long nr = 0;
#ifdef CONFIG_SLAB_SHEAVES
	int cpu, node;

	for_each_possible_cpu(cpu) {
		struct slub_percpu_sheaves *pcs = per_cpu_ptr(s->cpu_sheaves, cpu);

		nr += pcs->main->capacity > 0;
		nr += !!pcs->spare;
		nr += !!pcs->remote;
	}
	for (node = 0; s->barns && node < nr_node_ids; node++)
		if (s->barns[node])
			nr += s->barns[node]->nr_full + s->barns[node]->nr_empty;
#endif
	return nr;
}

/* Nothing is out on loan, and nothing is lost. */
static void expect_balance(struct kunit *test)
{
	struct prefill_test *pt = test->priv;
	struct kmem_cache *s = pt->cache;

	if (!IS_ENABLED(CONFIG_SLUB_STATS))
		return;
	/* KASAN's quarantine has what was freed, see with_cache(). */
	if (IS_ENABLED(CONFIG_KASAN_GENERIC) && (s->flags & SLAB_DEBUG_FLAGS))
		kmem_cache_shrink(s);
	KUNIT_EXPECT_EQ(test, count_sheaves(s), count(s, SHEAF_ALLOC) - count(s, SHEAF_FREE));
	KUNIT_EXPECT_EQ(test, cached_objects(s),
			count(s, SHEAF_REFILL) + count(s, FREE_FASTPATH) -
			count(s, SHEAF_FLUSH) - count(s, ALLOC_FASTPATH));
	KUNIT_EXPECT_EQ(test, pt->nr_held,
			count(s, ALLOC_FASTPATH) + count(s, ALLOC_SLOWPATH) -
			count(s, FREE_FASTPATH) - count(s, FREE_SLOWPATH));
	KUNIT_EXPECT_EQ(test, count(s, SHEAF_RETURN_FAST) + count(s, SHEAF_RETURN_SLOW),
			count(s, SHEAF_PREFILL_FAST) + count(s, SHEAF_PREFILL_SLOW) +
			count(s, SHEAF_PREFILL_OVERSIZE));
}

/*
 * Caches and CPUs
 */

static struct prefill_test *with_cache(struct kunit *test, unsigned int size,
				       slab_flags_t flags, struct kmem_cache_args *args)
{
	struct prefill_test *pt = test->priv;
	struct kmem_cache_args none = { };
	struct kmem_cache *s;

	s = kmem_cache_create("slab_prefill_kunit", size, args ?: &none,
			      flags | SLAB_NO_USER_FLAGS | SLAB_NO_MERGE);
	KUNIT_ASSERT_NOT_NULL(test, s);
	s->flags |= SLAB_SKIP_KFENCE;
#ifdef CONFIG_KASAN_GENERIC
	/* No quarantine, which keeps freed objects back for an unknown time. */
	if (!(flags & SLAB_DEBUG_FLAGS))
		s->kasan_info.free_meta_offset = INT_MAX;
#endif
	pt->cache = s;
	pt->cap = sheaf_capacity(s);
	take_counts(test);
	return pt;
}

static void skip_without_sheaves(struct kunit *test)
{
	struct prefill_test *pt = test->priv;

	if (!pt->cap)
		kunit_skip(test, "the cache has no sheaves");
}

static int find_cpu(bool memory)
{
	int cpu;

	for_each_online_cpu(cpu)
		if (!!node_state(cpu_to_node(cpu), N_NORMAL_MEMORY) == memory)
			return cpu;
	return -1;
}

static int other_cpu(struct prefill_test *pt)
{
	int cpu;

	for_each_online_cpu(cpu)
		if (cpu != pt->cpu)
			return cpu;
	return -1;
}

static void bind_to(struct kunit *test, int cpu)
{
	struct prefill_test *pt = test->priv;

	set_cpus_allowed_ptr(current, cpumask_of(cpu));
	pt->cpu = cpu;
}

static const struct setup {
	const char *desc;
	unsigned int size;
	unsigned int capacity;
	slab_flags_t flags;
	bool memoryless;
} setups[] = {
	{ "default capacity", OBJECT_SIZE },
	{ "small capacity", PAGE_SIZE },
	{ "odd size", 328 },
	{ "large capacity", OBJECT_SIZE, 250 },
	{ "default capacity, node without memory", OBJECT_SIZE, 0, 0, true },
#ifdef CONFIG_SLUB_DEBUG
	{ "debugged, without sheaves", OBJECT_SIZE, 0,
	  SLAB_CONSISTENCY_CHECKS | SLAB_POISON | SLAB_RED_ZONE },
#endif
};

KUNIT_ARRAY_PARAM_DESC(setups, setups, desc);

static struct prefill_test *with_setup(struct kunit *test)
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

static struct prefill_test *with_sheaves(struct kunit *test)
{
	struct prefill_test *pt = with_setup(test);

	skip_without_sheaves(test);
	return pt;
}

/* Holds n objects or more, and there are none in sheaves. */
static void hold_and_drain(struct kunit *test, unsigned long n)
{
	struct prefill_test *pt = test->priv;

	grab(test, n);
	grab(test, cached_objects(pt->cache));
	KUNIT_ASSERT_EQ(test, cached_objects(pt->cache), 0);
	take_counts(test);
}

/*
 * What everybody sees
 */

static void use_sheaf(struct kunit *test, unsigned int size)
{
	struct prefill_test *pt = test->priv;
	struct slab_sheaf *sheaf;

	/* Everything, something, nothing. */
	sheaf = prefill(test, size);
	take_all(test, sheaf);
	give_back(test, sheaf);
	sheaf = prefill(test, size);
	take(test, sheaf, size / 2);
	give_back(test, sheaf);
	release(test, pt->nr_held);
	give_back(test, prefill(test, size));
	expect_balance(test);
}

static void all_sizes(struct kunit *test)
{
	struct prefill_test *pt = with_setup(test);
	unsigned int size, edge = pt->cap ?: 28;

	for (size = 1; size <= edge + 3; size++)
		use_sheaf(test, size);
	for (size = 2 * edge - 1; size <= 1000; size = size * 3 / 2)
		use_sheaf(test, size);
}

static void no_objects(struct kunit *test)
{
	struct prefill_test *pt = with_setup(test);
	struct slab_sheaf *sheaf;

	KUNIT_EXPECT_NULL(test, kmem_cache_prefill_sheaf(pt->cache, GFP_KERNEL, 0));
	sheaf = prefill(test, 1);
	take_all(test, sheaf);
	KUNIT_EXPECT_EQ(test, kmem_cache_refill_sheaf(pt->cache, GFP_KERNEL, &sheaf, 0), 0);
	KUNIT_EXPECT_EQ(test, kmem_cache_sheaf_size(sheaf), 0);
	give_back(test, sheaf);
}

static void absurd_sizes(struct kunit *test)
{
	struct prefill_test *pt = with_setup(test);
	struct slab_sheaf *sheaf = prefill(test, 1), *same = sheaf;
	unsigned int size;

	for (size = UINT_MAX; size > KMALLOC_MAX_SIZE / sizeof(void *); size /= 2) {
		KUNIT_EXPECT_NULL(test, kmem_cache_prefill_sheaf(pt->cache, GFP_KERNEL, size));
		KUNIT_EXPECT_EQ(test, kmem_cache_refill_sheaf(pt->cache, GFP_KERNEL, &sheaf, size),
				-ENOMEM);
	}
	KUNIT_EXPECT_PTR_EQ(test, sheaf, same);
	give_back(test, sheaf);
}

static void several_sheaves(struct kunit *test)
{
	struct prefill_test *pt = with_setup(test);
	struct slab_sheaf *sheaves[7];
	unsigned int i, edge = pt->cap ?: 28;

	for (i = 0; i < ARRAY_SIZE(sheaves); i++)
		sheaves[i] = prefill(test, 1 + i * edge / 4);
	for (i = 0; i < ARRAY_SIZE(sheaves); i++)
		take(test, sheaves[i], 1 + i * edge / 4);
	grab(test, 3 * edge);
	for (i = 0; i < ARRAY_SIZE(sheaves); i++)
		give_back(test, sheaves[i]);
	release(test, pt->nr_held);
	expect_balance(test);
}

/*
 * Which way sheaves take
 */

static void prefill_from_spare(struct kunit *test)
{
	struct prefill_test *pt = with_sheaves(test);
	struct slab_sheaf *sheaf;

	hold_and_drain(test, 2 * pt->cap);
	release(test, 2 * pt->cap);
	take_counts(test);
	sheaf = prefill(test, 1);
	expect_counts(test, [SHEAF_PREFILL_FAST] = 1);
	KUNIT_EXPECT_EQ(test, kmem_cache_sheaf_size(sheaf), pt->cap);
	expect_cached(test, pt->cap);
	take(test, sheaf, 1);
	expect_counts(test, [ALLOC_FASTPATH] = 1);
	give_back(test, sheaf);
	expect_counts(test, [SHEAF_RETURN_FAST] = 1);
	expect_cached(test, 2 * pt->cap - 1);
}

static void prefill_from_main(struct kunit *test)
{
	struct prefill_test *pt = with_sheaves(test);
	struct slab_sheaf *sheaf;

	hold_and_drain(test, pt->cap);
	release(test, pt->cap);
	take_counts(test);
	sheaf = prefill(test, pt->cap / 2);
	expect_counts(test, [SHEAF_PREFILL_FAST] = 1);
	KUNIT_EXPECT_EQ(test, kmem_cache_sheaf_size(sheaf), pt->cap / 2);
	expect_cached(test, pt->cap - pt->cap / 2);
	give_back(test, sheaf);
	expect_counts(test, [SHEAF_RETURN_FAST] = 1);
	expect_cached(test, pt->cap);
}

/* One sheaf after the other, until there is nothing but slabs. */
static void prefill_from_barn(struct kunit *test)
{
	struct prefill_test *pt = with_sheaves(test);
	struct slab_sheaf *sheaves[5];
	unsigned int i, refilled;

	hold_and_drain(test, 4 * pt->cap);
	release(test, 4 * pt->cap);
	take_counts(test);
	sheaves[0] = prefill(test, pt->cap);		/* the spare */
	expect_counts(test, [SHEAF_PREFILL_FAST] = 1);
	sheaves[1] = prefill(test, 1);
	sheaves[2] = prefill(test, pt->cap);
	expect_counts(test, [SHEAF_PREFILL_FAST] = 2, [BARN_GET] = 2);
	sheaves[3] = prefill(test, pt->cap);		/* what is in main */
	expect_counts(test, [SHEAF_PREFILL_FAST] = 1);
	expect_cached(test, 0);
	sheaves[4] = prefill(test, 1);
	refilled = kmem_cache_sheaf_size(sheaves[4]);
	KUNIT_EXPECT_GE(test, refilled, pt->cap / 2);
	expect_counts(test, [SHEAF_PREFILL_SLOW] = 1, [SHEAF_REFILL] = refilled);
	expect_cached(test, 0);
	expect_counts(test);

	for (i = 0; i < 5; i++)
		give_back(test, sheaves[i]);
	expect_counts(test, [SHEAF_RETURN_FAST] = 5, [BARN_PUT] = 3 + (refilled == pt->cap));
	expect_cached(test, 4 * pt->cap + refilled);
}

static void prefill_from_slabs(struct kunit *test)
{
	struct prefill_test *pt = with_sheaves(test);
	struct slab_sheaf *sheaf;

	hold_and_drain(test, 1);
	sheaf = prefill(test, pt->cap);
	expect_counts(test, [SHEAF_PREFILL_SLOW] = 1, [SHEAF_REFILL] = pt->cap);
	take(test, sheaf, pt->cap);
	expect_counts(test, [ALLOC_FASTPATH] = pt->cap);
	give_back(test, sheaf);
	expect_counts(test, [SHEAF_RETURN_FAST] = 1);
	expect_cached(test, 0);
}

static void oversize(struct kunit *test)
{
	struct prefill_test *pt = with_setup(test);
	unsigned int cached, size = pt->cap + 1;
	struct slab_sheaf *sheaf;

	hold_and_drain(test, 2 * size);
	release(test, size);
	cached = cached_objects(pt->cache);
	take_counts(test);
	sheaf = prefill(test, size);
	KUNIT_EXPECT_EQ(test, kmem_cache_sheaf_size(sheaf), size);
	expect_counts(test, [SHEAF_PREFILL_OVERSIZE] = 1);
	take(test, sheaf, size - 1);
	expect_counts(test, [ALLOC_SLOWPATH] = size - 1);
	give_back(test, sheaf);
	expect_counts(test, [SHEAF_RETURN_SLOW] = 1);
	expect_cached(test, cached);
}

static void return_where_there_is_room(struct kunit *test)
{
	struct prefill_test *pt = with_sheaves(test);
	struct slab_sheaf *a, *b;

	hold_and_drain(test, 3 * pt->cap);
	a = prefill(test, pt->cap);
	b = prefill(test, pt->cap);
	take(test, a, pt->cap / 2);
	take(test, b, pt->cap / 2);
	take_counts(test);
	give_back(test, a);			/* the spare */
	give_back(test, b);			/* its objects go to main */
	expect_counts(test, [SHEAF_RETURN_FAST] = 2);
	expect_cached(test, 2 * (pt->cap - pt->cap / 2));

	/* Main and spare are full, the barn has neither full nor empty sheaves. */
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(pt->cache) & ~1, 0);
	hold_and_drain(test, 3 * pt->cap);
	a = prefill(test, pt->cap);
	take(test, a, 1);
	release(test, 2 * pt->cap);
	take_counts(test);
	give_back(test, a);			/* is main then, and main in the barn */
	expect_counts(test, [SHEAF_RETURN_FAST] = 1, [BARN_PUT] = 1);
	expect_cached(test, 3 * pt->cap - 1);
}

static void return_where_all_is_full(struct kunit *test)
{
#ifdef CONFIG_SLAB_SHEAVES
	struct prefill_test *pt = with_sheaves(test);
	unsigned int max, cached, taken;

	max = 2 + pt->cache->barns[cpu_to_node(pt->cpu)]->max_full;
	if (!node_state(cpu_to_node(pt->cpu), N_NORMAL_MEMORY))
		kunit_skip(test, "full sheaves go on to the node with memory");
	for (taken = 0; taken < 2; taken++) {
		struct slab_sheaf *sheaf;
		struct counts moved;

		hold_and_drain(test, max * pt->cap);
		sheaf = prefill(test, pt->cap);
		take(test, sheaf, taken);
		release(test, max * pt->cap);
		cached = cached_objects(pt->cache);
		KUNIT_EXPECT_EQ(test, cached, max * pt->cap);
		take_counts(test);
		give_back(test, sheaf);
		moved = take_counts(test);
		KUNIT_EXPECT_EQ(test, moved.n[SHEAF_RETURN_SLOW], 1);
		KUNIT_EXPECT_EQ(test, moved.n[SHEAF_FLUSH], pt->cap);
		expect_cached(test, cached - taken);
	}
#else
	kunit_skip(test, "there are no barns");
#endif
}

/*
 * Refilling a prefilled sheaf
 */

static void refill(struct kunit *test, struct slab_sheaf **sheaf, unsigned int size)
{
	struct prefill_test *pt = test->priv;

	KUNIT_ASSERT_EQ(test, kmem_cache_refill_sheaf(pt->cache, GFP_KERNEL, sheaf, size), 0);
	KUNIT_ASSERT_GE(test, kmem_cache_sheaf_size(*sheaf), size);
}

static void refill_within_capacity(struct kunit *test)
{
	struct prefill_test *pt = with_sheaves(test);
	struct slab_sheaf *sheaf, *same;

	hold_and_drain(test, pt->cap);
	sheaf = prefill(test, pt->cap);
	same = sheaf;
	take(test, sheaf, 2);
	take_counts(test);
	refill(test, &sheaf, pt->cap - 2);	/* has them */
	expect_counts(test);
	release(test, 1);
	take_counts(test);
	refill(test, &sheaf, pt->cap - 1);	/* main has one */
	expect_counts(test);
	expect_cached(test, 0);
	refill(test, &sheaf, pt->cap);		/* nobody has one */
	expect_counts(test, [SHEAF_REFILL] = 1);
	KUNIT_EXPECT_PTR_EQ(test, sheaf, same);
	give_back(test, sheaf);
}

static void refill_beyond_capacity(struct kunit *test)
{
	struct prefill_test *pt = with_setup(test);
	struct slab_sheaf *sheaf, *same;

	hold_and_drain(test, 1);
	sheaf = prefill(test, 1);
	take_counts(test);
	refill(test, &sheaf, pt->cap + 5);
	KUNIT_EXPECT_EQ(test, kmem_cache_sheaf_size(sheaf), pt->cap + 5);
	if (pt->cap)
		expect_counts(test, [SHEAF_PREFILL_OVERSIZE] = 1, [SHEAF_RETURN_FAST] = 1);
	else
		expect_counts(test, [SHEAF_PREFILL_OVERSIZE] = 1, [SHEAF_RETURN_SLOW] = 1);
	same = sheaf;
	take_all(test, sheaf);
	take_counts(test);
	refill(test, &sheaf, 3);
	refill(test, &sheaf, pt->cap + 5);
	KUNIT_EXPECT_PTR_EQ(test, sheaf, same);
	expect_counts(test);
	refill(test, &sheaf, pt->cap + 6);
	expect_counts(test, [SHEAF_PREFILL_OVERSIZE] = 1, [SHEAF_RETURN_SLOW] = 1);
	take_all(test, sheaf);
	give_back(test, sheaf);
}

/*
 * Memory is short
 */

#ifdef CONFIG_SLAB_SHEAVES
static void *no_memory_for_sheaf(size_t size, gfp_t gfp)
{
	struct kunit *test = kunit_get_current_test();
	struct prefill_test *pt = test->priv;
	void *p = NULL;

	if (pt->nr_stub_calls++ >= pt->stub_allows) {
		kunit_deactivate_static_stub(test, kmalloc_nosheaf);
		p = kmalloc_nosheaf(size, gfp);
	}
	return p;
}
#endif

static void *no_memory_for_oversize(size_t bytes, gfp_t gfp)
{
	struct prefill_test *pt = kunit_get_current_test()->priv;

	pt->nr_stub_calls++;
	return NULL;
}

/* Some objects are to be had, but not as many as are needed. */
static unsigned int few_objects(struct kmem_cache *s, void **p, unsigned int min,
				unsigned int max, gfp_t gfp, bool *reserves)
{
	struct kunit *test = kunit_get_current_test();
	struct prefill_test *pt = test->priv;
	unsigned int nr = min_t(unsigned int, pt->stub_allows, min - 1);

	pt->nr_stub_calls++;
	kunit_deactivate_static_stub(test, slab_fill);
	return slab_fill(s, p, nr, nr, gfp, reserves);
}

/* The first attempt may not do much, the second one may do what the caller may. */
static void no_memory_for_a_sheaf(struct kunit *test)
{
#ifdef CONFIG_SLAB_SHEAVES
	struct prefill_test *pt = with_sheaves(test);

	kunit_activate_static_stub(test, kmalloc_nosheaf, no_memory_for_sheaf);
	pt->stub_allows = ULONG_MAX;
	KUNIT_EXPECT_NULL(test, kmem_cache_prefill_sheaf(pt->cache, GFP_KERNEL, 1));
	KUNIT_EXPECT_EQ(test, pt->nr_stub_calls, 2);
	expect_counts(test);
	expect_balance(test);

	pt->nr_stub_calls = 0;
	pt->stub_allows = 1;
	give_back(test, prefill(test, 1));
	KUNIT_EXPECT_EQ(test, pt->nr_stub_calls, 2);
#else
	kunit_skip(test, "all sheaves are oversize");
#endif
}

static void no_memory_for_an_oversize_sheaf(struct kunit *test)
{
	struct prefill_test *pt = with_setup(test);
	struct slab_sheaf *sheaf = prefill(test, 1), *same = sheaf;
	unsigned int size = kmem_cache_sheaf_size(sheaf);

	take_counts(test);
	kunit_activate_static_stub(test, slab_alloc_oversize, no_memory_for_oversize);
	KUNIT_EXPECT_NULL(test, kmem_cache_prefill_sheaf(pt->cache, GFP_KERNEL, pt->cap + 1));
	KUNIT_EXPECT_EQ(test, kmem_cache_refill_sheaf(pt->cache, GFP_KERNEL, &sheaf, pt->cap + 2),
			-ENOMEM);
	KUNIT_EXPECT_EQ(test, pt->nr_stub_calls, 2);
	kunit_deactivate_static_stub(test, slab_alloc_oversize);
	KUNIT_EXPECT_PTR_EQ(test, sheaf, same);
	KUNIT_EXPECT_EQ(test, kmem_cache_sheaf_size(sheaf), size);
	expect_counts(test);
	take(test, sheaf, size);
	give_back(test, sheaf);
}

static void fail_to_prefill(struct kunit *test, unsigned int size, unsigned int there)
{
	struct prefill_test *pt = test->priv;
	unsigned long cached = cached_objects(pt->cache);

	pt->stub_allows = there;
	pt->nr_stub_calls = 0;
	kunit_activate_static_stub(test, slab_fill, few_objects);
	KUNIT_EXPECT_NULL(test, kmem_cache_prefill_sheaf(pt->cache, GFP_KERNEL, size));
	KUNIT_EXPECT_EQ(test, pt->nr_stub_calls, 1);
	expect_balance(test);
	if (size > pt->cap)
		expect_cached(test, cached);
	else
		expect_cached(test, cached + there);
}

static void too_few_objects(struct kunit *test)
{
	struct prefill_test *pt = with_setup(test);
	unsigned int there;

	for (there = 0; there < pt->cap; there++) {
		hold_and_drain(test, 1);
		fail_to_prefill(test, pt->cap, there);
	}
	for (there = 0; there <= pt->cap; there++)
		fail_to_prefill(test, pt->cap + 1, there);
	release(test, pt->nr_held);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(pt->cache), 0);
	use_sheaf(test, pt->cap + 1);
}

static void too_few_objects_to_refill(struct kunit *test)
{
	struct prefill_test *pt = with_setup(test);
	struct slab_sheaf *sheaf, *same;
	unsigned int there, capacity = pt->cap ?: 20;

	sheaf = prefill(test, capacity);
	same = sheaf;
	for (there = 0; there < capacity; there++) {
		take_all(test, sheaf);
		hold_and_drain(test, 0);
		pt->stub_allows = there;
		kunit_activate_static_stub(test, slab_fill, few_objects);
		KUNIT_ASSERT_EQ(test, kmem_cache_refill_sheaf(pt->cache, GFP_KERNEL, &sheaf,
							      capacity), -ENOMEM);
		KUNIT_ASSERT_PTR_EQ(test, sheaf, same);
		KUNIT_ASSERT_EQ(test, kmem_cache_sheaf_size(sheaf), there);
	}

	/* To be replaced by a larger one, that cannot be filled. */
	pt->stub_allows = capacity;
	kunit_activate_static_stub(test, slab_fill, few_objects);
	KUNIT_EXPECT_EQ(test, kmem_cache_refill_sheaf(pt->cache, GFP_KERNEL, &sheaf, capacity + 1),
			-ENOMEM);
	KUNIT_EXPECT_PTR_EQ(test, sheaf, same);
	KUNIT_EXPECT_EQ(test, kmem_cache_sheaf_size(sheaf), capacity - 1);
	give_back(test, sheaf);
}

static void failslab(struct kunit *test)
{
#ifdef CONFIG_FAILSLAB
	struct prefill_test *pt = with_setup(test);
	struct slab_sheaf *sheaf = prefill(test, 2);
	struct object *obj;

	take_all(test, sheaf);
	current->fail_nth = 1;
	KUNIT_EXPECT_NULL(test, kmem_cache_prefill_sheaf(pt->cache, GFP_NOWAIT, 1));
	KUNIT_EXPECT_EQ(test, current->fail_nth, 0);
	current->fail_nth = 1;
	KUNIT_EXPECT_EQ(test, kmem_cache_refill_sheaf(pt->cache, GFP_NOWAIT, &sheaf, 2), -ENOMEM);
	KUNIT_EXPECT_EQ(test, current->fail_nth, 0);
	refill(test, &sheaf, 2);

	/* This must not fail. Only profiling may try to allocate, and do without. */
	current->fail_nth = 1;
	obj = kmem_cache_alloc_from_sheaf(pt->cache, GFP_NOWAIT, sheaf);
	if (!IS_ENABLED(CONFIG_MEM_ALLOC_PROFILING))
		KUNIT_EXPECT_EQ(test, current->fail_nth, 1);
	current->fail_nth = 0;
	KUNIT_EXPECT_TRUE(test, hold(pt, obj));
	give_back(test, sheaf);
#else
	kunit_skip(test, "needs CONFIG_FAILSLAB");
#endif
}

#ifdef CONFIG_SLAB_SHEAVES
static unsigned int no_refill(struct kmem_cache *s, void **p, unsigned int min,
			      unsigned int max, gfp_t gfp, int node)
{
	struct prefill_test *pt = kunit_get_current_test()->priv;

	pt->nr_stub_calls++;
	return 0;
}
#endif

/* Objects that must not be given to everybody, for those who may have them. */
static void objects_from_the_reserves(struct kunit *test)
{
#ifdef CONFIG_SLAB_SHEAVES
	struct prefill_test *pt = with_sheaves(test);
	struct slab_sheaf *sheaf, *first;
	unsigned int found = 0;

	/* Leave one in a slab, and all others nowhere. */
	hold_and_drain(test, 2);
	slab_set_pfmemalloc(virt_to_slab(pt->held));
	first = (void *)pt->held;
	release(test, 1);
	expect_counts(test, [FREE_SLOWPATH] = 1);

	kunit_activate_static_stub(test, slab_refill, no_refill);
	do {
		sheaf = kmem_cache_prefill_sheaf(pt->cache, GFP_KERNEL | __GFP_MEMALLOC, 1);
		KUNIT_ASSERT_NOT_NULL(test, sheaf);
		KUNIT_ASSERT_EQ(test, kmem_cache_sheaf_size(sheaf), 1);
		expect_counts(test, [SHEAF_PREFILL_SLOW] = 1, [SHEAF_REFILL] = 1);
		if (sheaf->objects[0] == first) {
			found++;
			KUNIT_EXPECT_TRUE(test, sheaf->reserves);
			give_back(test, sheaf);
			expect_counts(test, [SHEAF_RETURN_SLOW] = 1, [SHEAF_FLUSH] = 1);
		} else {
			KUNIT_EXPECT_FALSE(test, sheaf->reserves);
			take_all(test, sheaf);
			give_back(test, sheaf);
			expect_counts(test, [ALLOC_FASTPATH] = 1, [SHEAF_RETURN_FAST] = 1);
		}
		expect_cached(test, 0);
	} while (!found && pt->nr_stub_calls < 10000);
	kunit_deactivate_static_stub(test, slab_refill);
	KUNIT_EXPECT_EQ(test, found, 1);

	/* Who may not use the reserves does not get it. */
	sheaf = prefill(test, pt->cap);
	for (found = 0; found < pt->cap; found++)
		KUNIT_ASSERT_PTR_NE(test, sheaf->objects[found], (void *)first);
	give_back(test, sheaf);
#else
	kunit_skip(test, "there are no sheaves to keep them out of");
#endif
}

/*
 * Hooks
 */

static void zeroing(struct kunit *test)
{
	struct prefill_test *pt = with_setup(test);
	unsigned int i, size = (pt->cap ?: 28) + 1, dirty = 0, round;

	for (round = 0; round < 4; round++) {
		struct slab_sheaf *sheaf = prefill(test, size - (round & 1));

		for (i = 0; i < size - 1; i++) {
			void *p = kmem_cache_alloc_from_sheaf(pt->cache, GFP_NOWAIT | __GFP_ZERO,
							      sheaf);

			KUNIT_ASSERT_NOT_NULL(test, p);
			dirty += !!memchr_inv(p, 0, pt->cache->object_size);
			memset(p, 0xff, pt->cache->object_size);
			KUNIT_ASSERT_TRUE(test, hold(pt, p));
		}
		give_back(test, sheaf);
		release(test, pt->nr_held);
	}
	KUNIT_EXPECT_EQ(test, dirty, 0);
}

static void constructed_objects(struct kunit *test)
{
	struct kmem_cache_args args = { .ctor = construct };
	struct prefill_test *pt = with_cache(test, OBJECT_SIZE, 0, &args);
	unsigned int size;

	for (size = 1; size < 2 * pt->cap + 3; size++)
		use_sheaf(test, size);
	KUNIT_EXPECT_EQ(test, pt->nr_broken, 0);
}

static void accounted_objects(struct kunit *test)
{
	struct prefill_test *pt = with_cache(test, OBJECT_SIZE, SLAB_ACCOUNT, NULL);
	struct slab_sheaf *sheaf = prefill(test, pt->cap + 1);

	/* KUnit tests run in the root memcg, so there is no more to be seen. */
	while (kmem_cache_sheaf_size(sheaf)) {
		struct object *obj = kmem_cache_alloc_from_sheaf(pt->cache,
								 GFP_NOWAIT | __GFP_ACCOUNT,
								 sheaf);

		KUNIT_ASSERT_TRUE(test, hold(pt, obj));
	}
	give_back(test, sheaf);
}

/* Until KFENCE has guarded so many, or does not seem to guard any. */
#define GUARDED		5
#define GUARD_SECS	10

static struct prefill_test *with_kfence(struct kunit *test)
{
	struct prefill_test *pt = with_cache(test, OBJECT_SIZE, 0, NULL);

	if (!kfence_sample_interval)
		kunit_skip(test, "KFENCE is off");
	pt->cache->flags &= ~SLAB_SKIP_KFENCE;
	return pt;
}

/* No object that was guarded has got into a sheaf when it was freed. */
static void expect_none_guarded(struct kunit *test)
{
	struct prefill_test *pt = test->priv;
	struct object *obj;

	pt->cache->flags |= SLAB_SKIP_KFENCE;
	hold_and_drain(test, 0);
	for (obj = pt->held; obj; obj = obj->next)
		KUNIT_EXPECT_FALSE(test, is_kfence_address(obj));
}

/* An object that KFENCE guards is had instead of one in the sheaf, which stays there. */
static void kfence_guards_some(struct kunit *test)
{
	struct prefill_test *pt = with_kfence(test);
	unsigned long end = jiffies + GUARD_SECS * HZ;
	unsigned int guarded = 0, i;

	while (guarded < GUARDED && time_before(jiffies, end)) {
		struct slab_sheaf *sheaf = prefill(test, 10);
		unsigned int size = kmem_cache_sheaf_size(sheaf);

		for (i = 0; i < 10; i++) {
			gfp_t gfp = GFP_NOWAIT | (i % 2 ? __GFP_ZERO : 0);
			struct object *obj = kmem_cache_alloc_from_sheaf(pt->cache, gfp, sheaf);

			KUNIT_ASSERT_NOT_NULL(test, obj);
			if (gfp & __GFP_ZERO)
				KUNIT_EXPECT_NULL(test, memchr_inv(obj, 0, OBJECT_SIZE));
			if (is_kfence_address(obj))
				guarded++;
			else
				size--;
			KUNIT_ASSERT_EQ(test, kmem_cache_sheaf_size(sheaf), size);
			memset(obj, 0xff, OBJECT_SIZE);
			hold(pt, obj);
		}
		release(test, pt->nr_held);
		give_back(test, sheaf);
		cond_resched();
	}
	KUNIT_EXPECT_GE(test, guarded, GUARDED);
	expect_none_guarded(test);
}

/* Of many objects at once, not always the same one. */
static void kfence_guards_any_in_bulk(struct kunit *test)
{
	struct prefill_test *pt = with_kfence(test);
	unsigned long end = jiffies + GUARD_SECS * HZ;
	unsigned int guarded = 0, i;
	DECLARE_BITMAP(places, 64) = { };
	void *p[64];

	while (guarded < GUARDED && time_before(jiffies, end)) {
		KUNIT_ASSERT_GT(test, kmem_cache_alloc_bulk(pt->cache, GFP_KERNEL, 64, p), 0);
		for (i = 0; i < ARRAY_SIZE(p); i++) {
			if (is_kfence_address(p[i])) {
				__set_bit(i, places);
				guarded++;
			}
		}
		kmem_cache_free_bulk(pt->cache, ARRAY_SIZE(p), p);
		cond_resched();
	}
	KUNIT_EXPECT_GE(test, guarded, GUARDED);
	KUNIT_EXPECT_GT(test, bitmap_weight(places, ARRAY_SIZE(p)), 1);
	expect_none_guarded(test);
}

/*
 * Memory allocation profiling wants memory with the first object of a slab. If there is
 * none, the object is had all the same, without a WARN; and the next one tries again.
 */
static void no_memory_for_profiling(struct kunit *test)
{
#if defined(CONFIG_MEM_ALLOC_PROFILING) && defined(CONFIG_FAILSLAB)
	struct prefill_test *pt = with_cache(test, OBJECT_SIZE, 0, NULL);
	bool warned = test_taint(TAINT_WARN);
	struct slab_sheaf *sheaf;
	struct object *obj;
	bool failed;

	/* The slabs are new ones, of which no object has been handed out. */
	sheaf = prefill(test, 3);
	current->fail_nth = 1;
	obj = kmem_cache_alloc_from_sheaf(pt->cache, GFP_NOWAIT, sheaf);
	failed = !current->fail_nth;
	current->fail_nth = 0;
	KUNIT_EXPECT_TRUE(test, hold(pt, obj));
	take(test, sheaf, 2);
	release(test, pt->nr_held);
	give_back(test, sheaf);
	KUNIT_EXPECT_EQ(test, test_taint(TAINT_WARN), warned);
	if (!failed)
		kunit_skip(test, "memory allocation profiling is off");
#else
	kunit_skip(test, "needs CONFIG_MEM_ALLOC_PROFILING and CONFIG_FAILSLAB");
#endif
}

/*
 * Interrupts, CPUs
 */

struct irq_user {
	struct irq_work work;
	struct kmem_cache *cache;
	struct object *got[3];
	unsigned int size;
	bool done;
};

static void prefill_in_irq(struct irq_work *work)
{
	struct irq_user *u = container_of(work, struct irq_user, work);
	struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(u->cache, GFP_ATOMIC, u->size);
	unsigned int i;

	if (sheaf && !kmem_cache_refill_sheaf(u->cache, GFP_ATOMIC, &sheaf, u->size))
		for (i = 0; i < ARRAY_SIZE(u->got); i++)
			u->got[i] = kmem_cache_alloc_from_sheaf(u->cache, GFP_ATOMIC, sheaf);
	if (sheaf)
		kmem_cache_return_sheaf(u->cache, GFP_ATOMIC, sheaf);
	WRITE_ONCE(u->done, true);
}

static void raise_irq(struct kunit *test, struct irq_user *u, bool locked)
{
	unsigned long end = jiffies + 5 * HZ;
	struct prefill_test *pt = test->priv;

	u->cache = pt->cache;
	init_irq_work(&u->work, prefill_in_irq);
#ifdef CONFIG_SLAB_SHEAVES
	if (locked)
		local_lock(&pt->cache->cpu_sheaves->lock);
#endif
	irq_work_queue(&u->work);
	while (!READ_ONCE(u->done) && time_before(jiffies, end))
		cpu_relax();
#ifdef CONFIG_SLAB_SHEAVES
	if (locked)
		local_unlock(&pt->cache->cpu_sheaves->lock);
#endif
	irq_work_sync(&u->work);
	KUNIT_ASSERT_TRUE(test, u->done);
}

static void irq_prefills(struct kunit *test)
{
	struct prefill_test *pt = with_setup(test);
	unsigned int i, locked, round;

	for (round = 0; round < 3; round++) {
		for (locked = 0; locked < 2; locked++) {
			struct irq_user u = { .size = round * pt->cap / 2 + 3 };

			raise_irq(test, &u, locked);
			for (i = 0; i < ARRAY_SIZE(u.got); i++)
				KUNIT_EXPECT_TRUE(test, hold(pt, u.got[i]));
		}
	}
	release(test, pt->nr_held);
	expect_balance(test);
}

static void return_on_another_cpu(struct kunit *test)
{
	struct prefill_test *pt = with_setup(test);
	unsigned int size, round;
	int cpu = other_cpu(pt);

	if (cpu < 0)
		kunit_skip(test, "there is one CPU");
	for (round = 0; round < 40; round++) {
		struct slab_sheaf *sheaf;

		size = 1 + round * (pt->cap + 2) / 39;
		sheaf = prefill(test, size);
		take(test, sheaf, size / 2);
		cpu = other_cpu(pt);
		bind_to(test, cpu);
		take(test, sheaf, size - size / 2);
		give_back(test, sheaf);
		if (round % 3)
			release(test, pt->nr_held / 2);
	}
	release(test, pt->nr_held);
	expect_balance(test);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(pt->cache), 0);
}

static void shrink_during_loan(struct kunit *test)
{
	struct prefill_test *pt = with_setup(test);
	struct slab_sheaf *sheaf = prefill(test, 3);

	/* Without SLUB_DEBUG nobody counts the slabs that are left. */
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(pt->cache), IS_ENABLED(CONFIG_SLUB_DEBUG));
	expect_cached(test, 0);
	take(test, sheaf, 2);
	give_back(test, sheaf);
	release(test, 2);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(pt->cache), 0);
}

#ifdef CONFIG_HOTPLUG_CPU
static long prefill_there(void *data)
{
	struct prefill_test *pt = data;

	return (long)kmem_cache_prefill_sheaf(pt->cache, GFP_KERNEL, 3);
}

static void cpu_offline_during_loan(struct kunit *test)
{
	struct prefill_test *pt = with_cache(test, OBJECT_SIZE, 0, NULL);
	struct slab_sheaf *sheaf;
	int cpu, other = -1;

	for_each_online_cpu(cpu)
		if (cpu != pt->cpu && cpu_is_hotpluggable(cpu))
			other = cpu;
	if (other < 0)
		kunit_skip(test, "no CPU can be removed");
	sheaf = (void *)work_on_cpu(other, prefill_there, pt);
	KUNIT_ASSERT_NOT_NULL(test, sheaf);
	KUNIT_ASSERT_EQ(test, remove_cpu(other), 0);
	take(test, sheaf, 3);
	give_back(test, sheaf);
	KUNIT_ASSERT_EQ(test, add_cpu(other), 0);
	release(test, 3);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(pt->cache), 0);
}
#endif

/*
 * All at once
 */

#define HAMMER_SLOTS	256
#define HAMMER_STEPS	4000
#define HAMMER_UNBOUND	2		/* users that may move to other CPUs */

struct hammer {
	struct kmem_cache *cache;
	unsigned int edge;
	struct object **slots;
	struct slab_sheaf *sheaves[4];	/* on offer to others */
	atomic_t nr_running;
	atomic_long_t nr_broken;
	atomic_long_t nr_null;
	atomic_long_t nr_allocs;
};

struct hammer_user {
	struct work_struct work;
	struct hammer *hammer;
	struct rnd_state rnd;
};

static unsigned int random_below(struct hammer_user *u, unsigned int ceil)
{
	return prandom_u32_state(&u->rnd) % ceil;
}

/* Puts an object, or NULL, into a slot, and frees what was there. */
static void exchange(struct hammer_user *u, struct object *obj)
{
	struct hammer *h = u->hammer;

	if (obj) {
		atomic_long_inc(&h->nr_allocs);
		obj->mark = mark_of(obj);
	}
	obj = xchg(&h->slots[random_below(u, HAMMER_SLOTS)], obj);
	if (!obj)
		return;
	if (xchg(&obj->mark, 0) != mark_of(obj))
		atomic_long_inc(&h->nr_broken);
	kmem_cache_free(h->cache, obj);
}

static void hammer_take(struct hammer_user *u, struct slab_sheaf *sheaf, unsigned int n)
{
	while (n-- > 0) {
		struct object *obj = kmem_cache_alloc_from_sheaf(u->hammer->cache, GFP_NOWAIT,
								 sheaf);

		if (!obj)
			atomic_long_inc(&u->hammer->nr_null);
		exchange(u, obj);
	}
}

static void hammer_step(struct hammer_user *u)
{
	struct hammer *h = u->hammer;
	unsigned int size = 1 + random_below(u, random_below(u, 8) ? h->edge : 3 * h->edge);
	struct slab_sheaf *sheaf;

	exchange(u, random_below(u, 2) ? kmem_cache_alloc(h->cache, GFP_KERNEL) : NULL);
	sheaf = kmem_cache_prefill_sheaf(h->cache, GFP_KERNEL, size);
	if (!sheaf) {
		atomic_long_inc(&h->nr_null);
		return;
	}
	hammer_take(u, sheaf, random_below(u, size + 1));
	if (!random_below(u, 8)) {
		size = 1 + random_below(u, 2 * h->edge);
		if (!kmem_cache_refill_sheaf(h->cache, GFP_KERNEL, &sheaf, size))
			hammer_take(u, sheaf, random_below(u, size + 1));
		else
			atomic_long_inc(&h->nr_null);
	}
	if (!random_below(u, 4))
		sheaf = xchg(&h->sheaves[random_below(u, ARRAY_SIZE(h->sheaves))], sheaf);
	if (sheaf)
		kmem_cache_return_sheaf(h->cache, GFP_KERNEL, sheaf);
}

static void hammer_fn(struct work_struct *work)
{
	struct hammer_user *u = container_of(work, struct hammer_user, work);
	unsigned long end = jiffies + HZ;
	unsigned int i;

	for (i = 0; i < HAMMER_STEPS && time_before(jiffies, end); i++) {
		hammer_step(u);
		cond_resched();
	}
	atomic_dec(&u->hammer->nr_running);
}

static void hammer_run(struct hammer *h, struct hammer_user *users)
{
	unsigned int i;
	int cpu;

	atomic_set(&h->nr_running, num_online_cpus() + HAMMER_UNBOUND);
	for (i = 0; i < nr_cpu_ids + HAMMER_UNBOUND; i++) {
		users[i].hammer = h;
		prandom_seed_state(&users[i].rnd, i + 1);
		INIT_WORK(&users[i].work, hammer_fn);
	}
	for_each_online_cpu(cpu)
		queue_work_on(cpu, system_wq, &users[cpu].work);
	for (i = nr_cpu_ids; i < nr_cpu_ids + HAMMER_UNBOUND; i++)
		queue_work(system_unbound_wq, &users[i].work);
	while (atomic_read(&h->nr_running)) {
		kmem_cache_shrink(h->cache);
		schedule_timeout_uninterruptible(HZ / 50);
	}
	for (i = 0; i < nr_cpu_ids + HAMMER_UNBOUND; i++)
		flush_work(&users[i].work);
}

static void concurrent_users(struct kunit *test)
{
	struct prefill_test *pt = with_setup(test);
	struct hammer h = { .cache = pt->cache, .edge = pt->cap ?: 28 };
	struct hammer_user *users;
	unsigned int i;

	h.slots = kunit_kcalloc(test, HAMMER_SLOTS, sizeof(*h.slots), GFP_KERNEL);
	users = kunit_kcalloc(test, nr_cpu_ids + HAMMER_UNBOUND, sizeof(*users), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, h.slots);
	KUNIT_ASSERT_NOT_NULL(test, users);
	hammer_run(&h, users);

	for (i = 0; i < ARRAY_SIZE(h.sheaves); i++)
		if (h.sheaves[i])
			give_back(test, h.sheaves[i]);
	for (i = 0; i < HAMMER_SLOTS; i++)
		if (h.slots[i])
			KUNIT_EXPECT_TRUE(test, hold(pt, h.slots[i]));
	KUNIT_EXPECT_GT(test, atomic_long_read(&h.nr_allocs), num_online_cpus());
	KUNIT_EXPECT_EQ(test, atomic_long_read(&h.nr_broken), 0);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&h.nr_null), 0);
	release(test, pt->nr_held);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(pt->cache), 0);
	expect_cached(test, 0);
}

static int prefill_test_init(struct kunit *test)
{
	struct prefill_test *pt = kunit_kzalloc(test, sizeof(*pt), GFP_KERNEL);
	int cpu = find_cpu(true);

	if (!pt)
		return -ENOMEM;
	test->priv = pt;
	bind_to(test, cpu < 0 ? raw_smp_processor_id() : cpu);
	/* Makes the slab allocator count its errors there. */
	return kunit_add_named_resource(test, NULL, NULL, &pt->resource, "slab_errors",
					&pt->slab_errors);
}

static void prefill_test_exit(struct kunit *test)
{
	struct prefill_test *pt = test->priv;

	if (!pt || !pt->cache)
		return;
	while (pt->nr_held)
		kmem_cache_free(pt->cache, let_go(pt));
	expect_balance(test);
	kmem_cache_destroy(pt->cache);
	KUNIT_EXPECT_EQ(test, pt->slab_errors, 0);
	KUNIT_EXPECT_EQ(test, pt->nr_broken, 0);
}

static struct kunit_case prefill_cases[] = {
	KUNIT_CASE_PARAM(all_sizes, setups_gen_params),
	KUNIT_CASE_PARAM(no_objects, setups_gen_params),
	KUNIT_CASE_PARAM(absurd_sizes, setups_gen_params),
	KUNIT_CASE_PARAM(several_sheaves, setups_gen_params),
	KUNIT_CASE_PARAM(prefill_from_spare, setups_gen_params),
	KUNIT_CASE_PARAM(prefill_from_main, setups_gen_params),
	KUNIT_CASE_PARAM(prefill_from_barn, setups_gen_params),
	KUNIT_CASE_PARAM(prefill_from_slabs, setups_gen_params),
	KUNIT_CASE_PARAM(oversize, setups_gen_params),
	KUNIT_CASE_PARAM(return_where_there_is_room, setups_gen_params),
	KUNIT_CASE_PARAM(return_where_all_is_full, setups_gen_params),
	KUNIT_CASE_PARAM(refill_within_capacity, setups_gen_params),
	KUNIT_CASE_PARAM(refill_beyond_capacity, setups_gen_params),
	KUNIT_CASE_PARAM(no_memory_for_a_sheaf, setups_gen_params),
	KUNIT_CASE_PARAM(no_memory_for_an_oversize_sheaf, setups_gen_params),
	KUNIT_CASE_PARAM(too_few_objects, setups_gen_params),
	KUNIT_CASE_PARAM(too_few_objects_to_refill, setups_gen_params),
	KUNIT_CASE_PARAM(failslab, setups_gen_params),
	KUNIT_CASE_PARAM(objects_from_the_reserves, setups_gen_params),
	KUNIT_CASE_PARAM(zeroing, setups_gen_params),
	KUNIT_CASE(constructed_objects),
	KUNIT_CASE(accounted_objects),
	KUNIT_CASE(kfence_guards_some),
	KUNIT_CASE(kfence_guards_any_in_bulk),
	KUNIT_CASE(no_memory_for_profiling),
	KUNIT_CASE_PARAM(irq_prefills, setups_gen_params),
	KUNIT_CASE_PARAM(return_on_another_cpu, setups_gen_params),
	KUNIT_CASE_PARAM(shrink_during_loan, setups_gen_params),
#ifdef CONFIG_HOTPLUG_CPU
	KUNIT_CASE(cpu_offline_during_loan),
#endif
	KUNIT_CASE_PARAM(concurrent_users, setups_gen_params),
	{}
};

static struct kunit_suite prefill_suite = {
	.name = "slab_prefill",
	.init = prefill_test_init,
	.exit = prefill_test_exit,
	.test_cases = prefill_cases,
};

kunit_test_suite(prefill_suite);

MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
MODULE_DESCRIPTION("KUnit tests for prefilled sheaves of the slab allocator");
MODULE_LICENSE("GPL");
