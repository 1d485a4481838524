// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for prefilled sheaves of the slab allocator
 *
 * Which way sheaves and objects have taken is read off the statistics, see
 * slab_kunit.h. In the end of each test what was borrowed must have been returned.
 *
 * Memory is made short by stubs of the three functions that get some: for a sheaf
 * of the usual size, for an oversize one, and for objects.
 *
 * All of it works without sheaves, too: in a cache with debugging, with
 * slab_sheaf_capacity=0, and with SLUB_TINY, which has no statistics either.
 */

#include <kunit/static_stub.h>
#include <linux/bitmap.h>
#include <linux/fault-inject.h>
#include <linux/kfence.h>
#include <linux/module.h>
#include <linux/panic.h>
#include <linux/string.h>

#include "slab_kunit.h"

static const struct slab_counter prefill_counters[] = {
	COUNTER(SHEAF_PREFILL_FAST, prefill_fast),
	COUNTER(SHEAF_PREFILL_SLOW, prefill_slow),
	COUNTER(SHEAF_PREFILL_OVERSIZE, prefill_oversize),
	COUNTER(SHEAF_RETURN_FAST, return_fast),
	COUNTER(SHEAF_RETURN_SLOW, return_slow),
	{ }
};

/* For the stubs that make memory short. */
struct prefill_test {
	struct slab_test st;
	unsigned long nr_stub_calls;
	unsigned long stub_allows;	/* objects, or calls, before memory is short */
};

static struct prefill_test *stubs_of(struct kunit *test)
{
	return container_of((struct slab_test *)test->priv, struct prefill_test, st);
}

/* Take objects out of a sheaf that has them. */
static void take(struct kunit *test, struct slab_sheaf *sheaf, unsigned int n)
{
	struct slab_test *pt = test->priv;
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
	struct slab_test *pt = test->priv;

	take(test, sheaf, kmem_cache_sheaf_size(sheaf));
	KUNIT_ASSERT_NULL(test, kmem_cache_alloc_from_sheaf(pt->cache, GFP_KERNEL, sheaf));
	KUNIT_ASSERT_EQ(test, kmem_cache_sheaf_size(sheaf), 0);
}

static struct slab_sheaf *prefill(struct kunit *test, unsigned int size)
{
	struct slab_test *pt = test->priv;
	struct slab_sheaf *sheaf;

	sheaf = lend(test, kmem_cache_prefill_sheaf(pt->cache, GFP_KERNEL, size));
	KUNIT_EXPECT_GE(test, kmem_cache_sheaf_size(sheaf), size);
	return sheaf;
}

/* Nothing is out on loan, and nothing is lost. */
static void expect_all_back(struct kunit *test)
{
	struct slab_test *pt = test->priv;
	struct kmem_cache *s = pt->cache;

	expect_balance(test);
	KUNIT_EXPECT_EQ(test, count(s, SHEAF_RETURN_FAST) + count(s, SHEAF_RETURN_SLOW),
			count(s, SHEAF_PREFILL_FAST) + count(s, SHEAF_PREFILL_SLOW) +
			count(s, SHEAF_PREFILL_OVERSIZE));
}

static int other_cpu(struct slab_test *pt)
{
	int cpu;

	for_each_online_cpu(cpu)
		if (cpu != pt->cpu)
			return cpu;
	return -1;
}

static const struct setup prefill_setups[] = {
	{ "default capacity", OBJECT_SIZE },
	{ "small capacity", PAGE_SIZE },
	{ "odd size", 328 },
	{ "large capacity", OBJECT_SIZE, 250 },
	{ "default capacity, node without memory", OBJECT_SIZE, .memoryless = true },
#ifdef CONFIG_SLUB_DEBUG
	{ "debugged, without sheaves", OBJECT_SIZE, 0,
	  SLAB_CONSISTENCY_CHECKS | SLAB_POISON | SLAB_RED_ZONE },
#endif
};

KUNIT_ARRAY_PARAM_DESC(prefill_setups, prefill_setups, desc);

/*
 * What everybody sees
 */

static void use_sheaf(struct kunit *test, unsigned int size)
{
	struct slab_test *pt = test->priv;
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
	expect_all_back(test);
}

static void all_sizes(struct kunit *test)
{
	struct slab_test *pt = with_any_setup(test);
	unsigned int size, edge = pt->cap ?: 28;

	for (size = 1; size <= edge + 3; size++)
		use_sheaf(test, size);
	for (size = 2 * edge - 1; size <= 1000; size += size / 2 + 1)
		use_sheaf(test, size);
}

static void no_objects(struct kunit *test)
{
	struct slab_test *pt = with_any_setup(test);
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
	struct slab_test *pt = with_any_setup(test);
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
	struct slab_test *pt = with_any_setup(test);
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
	expect_all_back(test);
}

/*
 * Which way sheaves take
 */

static void prefill_from_spare(struct kunit *test)
{
	struct slab_test *pt = with_setup(test);
	struct slab_sheaf *sheaf;

	hold_and_drain(test, 2 * pt->cap);
	release(test, 2 * pt->cap);
	take_moves(test);
	sheaf = prefill(test, 1);
	expect_moves(test, .prefill_fast = 1);
	KUNIT_EXPECT_EQ(test, kmem_cache_sheaf_size(sheaf), pt->cap);
	expect_cached(test, pt->cap);
	take(test, sheaf, 1);
	expect_moves(test, .alloc_fast = 1);
	give_back(test, sheaf);
	expect_moves(test, .return_fast = 1);
	expect_cached(test, 2 * pt->cap - 1);
}

static void prefill_from_main(struct kunit *test)
{
	struct slab_test *pt = with_setup(test);
	struct slab_sheaf *sheaf;

	skip_if_smaller(test, 2);
	hold_and_drain(test, pt->cap);
	release(test, pt->cap);
	take_moves(test);
	sheaf = prefill(test, pt->cap / 2);
	expect_moves(test, .prefill_fast = 1);
	KUNIT_EXPECT_EQ(test, kmem_cache_sheaf_size(sheaf), pt->cap / 2);
	expect_cached(test, pt->cap - pt->cap / 2);
	give_back(test, sheaf);
	expect_moves(test, .return_fast = 1);
	expect_cached(test, pt->cap);
}

/* One sheaf after the other, until there is nothing but slabs. */
static void prefill_from_barn(struct kunit *test)
{
	struct slab_test *pt = with_setup(test);
	struct slab_sheaf *sheaves[5];
	unsigned int i, refilled;

	hold_and_drain(test, 4 * pt->cap);
	release(test, 4 * pt->cap);
	take_moves(test);
	sheaves[0] = prefill(test, pt->cap);		/* the spare */
	expect_moves(test, .prefill_fast = 1);
	sheaves[1] = prefill(test, 1);
	sheaves[2] = prefill(test, pt->cap);
	expect_moves(test, .prefill_fast = 2, .barn_get = 2);
	sheaves[3] = prefill(test, pt->cap);		/* what is in main */
	expect_moves(test, .prefill_fast = 1);
	expect_cached(test, 0);
	sheaves[4] = prefill(test, 1);
	refilled = kmem_cache_sheaf_size(sheaves[4]);
	KUNIT_EXPECT_GE(test, refilled, pt->cap / 2);
	expect_moves(test, .prefill_slow = 1, .refill = refilled);
	expect_cached(test, 0);
	expect_moves(test);

	for (i = 0; i < 5; i++)
		give_back(test, sheaves[i]);
	expect_moves(test, .return_fast = 5, .barn_put = 3 + (refilled == pt->cap));
	expect_cached(test, 4 * pt->cap + refilled);
}

static void prefill_from_slabs(struct kunit *test)
{
	struct slab_test *pt = with_setup(test);
	struct slab_sheaf *sheaf;

	hold_and_drain(test, 1);
	sheaf = prefill(test, pt->cap);
	expect_moves(test, .prefill_slow = 1, .refill = pt->cap);
	take(test, sheaf, pt->cap);
	expect_moves(test, .alloc_fast = pt->cap);
	give_back(test, sheaf);
	expect_moves(test, .return_fast = 1);
	expect_cached(test, 0);
}

static void oversize(struct kunit *test)
{
	struct slab_test *pt = with_any_setup(test);
	unsigned int cached, size = pt->cap + 1;
	struct slab_sheaf *sheaf;

	hold_and_drain(test, 2 * size);
	release(test, size);
	cached = cached_objects(pt->cache);
	take_moves(test);
	sheaf = prefill(test, size);
	KUNIT_EXPECT_EQ(test, kmem_cache_sheaf_size(sheaf), size);
	expect_moves(test, .prefill_oversize = 1);
	take(test, sheaf, size - 1);
	expect_moves(test, .alloc_slow = size - 1);
	give_back(test, sheaf);
	expect_moves(test, .return_slow = 1);
	expect_cached(test, cached);
}

static void return_where_there_is_room(struct kunit *test)
{
	struct slab_test *pt = with_setup(test);
	struct slab_sheaf *a, *b;

	skip_if_smaller(test, 2);
	hold_and_drain(test, 3 * pt->cap);
	a = prefill(test, pt->cap);
	b = prefill(test, pt->cap);
	take(test, a, pt->cap / 2);
	take(test, b, pt->cap / 2);
	take_moves(test);
	give_back(test, a);			/* the spare */
	give_back(test, b);			/* its objects go to main */
	expect_moves(test, .return_fast = 2);
	expect_cached(test, 2 * (pt->cap - pt->cap / 2));

	/* Main and spare are full, the barn has neither full nor empty sheaves. */
	kmem_cache_shrink(pt->cache);
	KUNIT_EXPECT_EQ(test, count_sheaves(pt->cache), 0);
	hold_and_drain(test, 3 * pt->cap);
	a = prefill(test, pt->cap);
	take(test, a, 1);
	release(test, 2 * pt->cap);
	take_moves(test);
	give_back(test, a);			/* is main then, and main in the barn */
	expect_moves(test, .return_fast = 1, .barn_put = 1);
	expect_cached(test, 3 * pt->cap - 1);
}

static void return_where_all_is_full(struct kunit *test)
{
#ifdef CONFIG_SLAB_SHEAVES
	struct slab_test *pt = with_setup(test);
	unsigned int max, cached, taken;

	skip_if_smaller(test, 2);
	max = 2 + pt->cache->barns[cpu_to_node(pt->cpu)]->max_full;
	if (!node_state(cpu_to_node(pt->cpu), N_NORMAL_MEMORY))
		kunit_skip(test, "full sheaves go on to the node with memory");
	for (taken = 0; taken < 2; taken++) {
		struct slab_sheaf *sheaf;
		struct moves moved;

		hold_and_drain(test, max * pt->cap);
		sheaf = prefill(test, pt->cap);
		take(test, sheaf, taken);
		release(test, max * pt->cap);
		cached = cached_objects(pt->cache);
		KUNIT_EXPECT_EQ(test, cached, max * pt->cap);
		take_moves(test);
		give_back(test, sheaf);
		moved = take_moves(test);
		KUNIT_EXPECT_EQ(test, moved.return_slow, 1);
		KUNIT_EXPECT_EQ(test, moved.flush, pt->cap);
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
	KUNIT_ASSERT_EQ(test, refill_lent(test, sheaf, size), 0);
	KUNIT_ASSERT_GE(test, kmem_cache_sheaf_size(*sheaf), size);
}

static void refill_within_capacity(struct kunit *test)
{
	struct slab_test *pt = with_setup(test);
	struct slab_sheaf *sheaf, *same;

	skip_if_smaller(test, 2);
	hold_and_drain(test, pt->cap);
	sheaf = prefill(test, pt->cap);
	same = sheaf;
	take(test, sheaf, 2);
	take_moves(test);
	refill(test, &sheaf, pt->cap - 2);	/* has them */
	expect_moves(test);
	release(test, 1);
	take_moves(test);
	refill(test, &sheaf, pt->cap - 1);	/* main has one */
	expect_moves(test);
	expect_cached(test, 0);
	refill(test, &sheaf, pt->cap);		/* nobody has one */
	expect_moves(test, .refill = 1);
	KUNIT_EXPECT_PTR_EQ(test, sheaf, same);
	give_back(test, sheaf);
}

static void refill_beyond_capacity(struct kunit *test)
{
	struct slab_test *pt = with_any_setup(test);
	struct slab_sheaf *sheaf, *same;

	hold_and_drain(test, 1);
	sheaf = prefill(test, 1);
	take_moves(test);
	refill(test, &sheaf, pt->cap + 5);
	KUNIT_EXPECT_EQ(test, kmem_cache_sheaf_size(sheaf), pt->cap + 5);
	if (pt->cap)
		expect_moves(test, .prefill_oversize = 1, .return_fast = 1);
	else
		expect_moves(test, .prefill_oversize = 1, .return_slow = 1);
	same = sheaf;
	take_all(test, sheaf);
	take_moves(test);
	refill(test, &sheaf, 3);
	refill(test, &sheaf, pt->cap + 5);
	KUNIT_EXPECT_PTR_EQ(test, sheaf, same);
	expect_moves(test);
	refill(test, &sheaf, pt->cap + 6);
	expect_moves(test, .prefill_oversize = 1, .return_slow = 1);
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
	void *p = NULL;

	if (stubs_of(test)->nr_stub_calls++ >= stubs_of(test)->stub_allows) {
		kunit_deactivate_static_stub(test, kmalloc_nosheaf);
		p = kmalloc_nosheaf(size, gfp);
	}
	return p;
}
#endif

static void *no_memory_for_oversize(size_t bytes, gfp_t gfp)
{
	struct kunit *test = kunit_get_current_test();

	stubs_of(test)->nr_stub_calls++;
	return NULL;
}

/* Some objects are to be had, but not as many as are needed. */
static unsigned int few_objects(struct kmem_cache *s, void **p, unsigned int min,
				unsigned int max, gfp_t gfp, bool *reserves)
{
	struct kunit *test = kunit_get_current_test();
	unsigned int nr = min_t(unsigned int, stubs_of(test)->stub_allows, min - 1);

	stubs_of(test)->nr_stub_calls++;
	kunit_deactivate_static_stub(test, slab_fill);
	return slab_fill(s, p, nr, nr, gfp, reserves);
}

/* The first attempt may not do much, the second one may do what the caller may. */
static void no_memory_for_a_sheaf(struct kunit *test)
{
#ifdef CONFIG_SLAB_SHEAVES
	struct slab_test *pt = with_setup(test);

	kunit_activate_static_stub(test, kmalloc_nosheaf, no_memory_for_sheaf);
	stubs_of(test)->stub_allows = ULONG_MAX;
	KUNIT_EXPECT_NULL(test, kmem_cache_prefill_sheaf(pt->cache, GFP_KERNEL, 1));
	KUNIT_EXPECT_EQ(test, stubs_of(test)->nr_stub_calls, 2);
	expect_moves(test);
	expect_all_back(test);

	stubs_of(test)->nr_stub_calls = 0;
	stubs_of(test)->stub_allows = 1;
	give_back(test, prefill(test, 1));
	KUNIT_EXPECT_EQ(test, stubs_of(test)->nr_stub_calls, 2);
#else
	kunit_skip(test, "all sheaves are oversize");
#endif
}

static void no_memory_for_an_oversize_sheaf(struct kunit *test)
{
	struct slab_test *pt = with_any_setup(test);
	struct slab_sheaf *sheaf = prefill(test, 1), *same = sheaf;
	unsigned int size = kmem_cache_sheaf_size(sheaf);

	take_moves(test);
	kunit_activate_static_stub(test, slab_alloc_oversize, no_memory_for_oversize);
	KUNIT_EXPECT_NULL(test, kmem_cache_prefill_sheaf(pt->cache, GFP_KERNEL, pt->cap + 1));
	KUNIT_EXPECT_EQ(test, kmem_cache_refill_sheaf(pt->cache, GFP_KERNEL, &sheaf, pt->cap + 2),
			-ENOMEM);
	KUNIT_EXPECT_EQ(test, stubs_of(test)->nr_stub_calls, 2);
	kunit_deactivate_static_stub(test, slab_alloc_oversize);
	KUNIT_EXPECT_PTR_EQ(test, sheaf, same);
	KUNIT_EXPECT_EQ(test, kmem_cache_sheaf_size(sheaf), size);
	expect_moves(test);
	take(test, sheaf, size);
	give_back(test, sheaf);
}

static void fail_to_prefill(struct kunit *test, unsigned int size, unsigned int there)
{
	struct slab_test *pt = test->priv;
	unsigned long cached = cached_objects(pt->cache);

	stubs_of(test)->stub_allows = there;
	stubs_of(test)->nr_stub_calls = 0;
	kunit_activate_static_stub(test, slab_fill, few_objects);
	KUNIT_EXPECT_NULL(test, kmem_cache_prefill_sheaf(pt->cache, GFP_KERNEL, size));
	KUNIT_EXPECT_EQ(test, stubs_of(test)->nr_stub_calls, 1);
	expect_all_back(test);
	if (size > pt->cap)
		expect_cached(test, cached);
	else
		expect_cached(test, cached + there);
}

/* Elsewhere: what there was, or the sheaf, was lost when not all was to be had. */
static void too_few_objects(struct kunit *test)
{
	struct slab_test *pt = with_any_setup(test);
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
	struct slab_test *pt = with_any_setup(test);
	struct slab_sheaf *sheaf, *same;
	unsigned int there, capacity = pt->cap ?: 20;

	sheaf = prefill(test, capacity);
	same = sheaf;
	for (there = 0; there < capacity; there++) {
		take_all(test, sheaf);
		hold_and_drain(test, 0);
		stubs_of(test)->stub_allows = there;
		kunit_activate_static_stub(test, slab_fill, few_objects);
		KUNIT_ASSERT_EQ(test, kmem_cache_refill_sheaf(pt->cache, GFP_KERNEL, &sheaf,
							      capacity), -ENOMEM);
		KUNIT_ASSERT_PTR_EQ(test, sheaf, same);
		KUNIT_ASSERT_EQ(test, kmem_cache_sheaf_size(sheaf), there);
	}

	/* To be replaced by a larger one, that cannot be filled. */
	stubs_of(test)->stub_allows = capacity;
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
	struct slab_test *pt = with_any_setup(test);
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

	/* This must not fail. Profiling and kmemleak may try to allocate, and do without. */
	current->fail_nth = 1;
	obj = kmem_cache_alloc_from_sheaf(pt->cache, GFP_NOWAIT, sheaf);
	if (!IS_ENABLED(CONFIG_MEM_ALLOC_PROFILING) && !IS_ENABLED(CONFIG_DEBUG_KMEMLEAK))
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
	struct kunit *test = kunit_get_current_test();

	stubs_of(test)->nr_stub_calls++;
	return 0;
}
#endif

/*
 * Objects that must not be given to everybody, for those who may have them. Elsewhere: they
 * got into barns.
 */
static void objects_from_the_reserves(struct kunit *test)
{
#ifdef CONFIG_SLAB_SHEAVES
	struct slab_test *pt = with_setup(test);
	struct slab_sheaf *sheaf, *first;
	unsigned int found = 0;

	/* Leave one in a slab, and all others nowhere. */
	hold_and_drain(test, 2);
	slab_set_pfmemalloc(virt_to_slab(pt->held));
	first = (void *)pt->held;
	release(test, 1);
	expect_moves(test, .free_slow = 1);

	kunit_activate_static_stub(test, slab_refill, no_refill);
	do {
		sheaf = lend(test, kmem_cache_prefill_sheaf(pt->cache,
							    GFP_KERNEL | __GFP_MEMALLOC, 1));
		KUNIT_ASSERT_EQ(test, kmem_cache_sheaf_size(sheaf), 1);
		expect_moves(test, .prefill_slow = 1, .refill = 1);
		if (sheaf_object(pt->cache, sheaf, 0) == first) {
			found++;
			KUNIT_EXPECT_TRUE(test, sheaf->reserves);
			give_back(test, sheaf);
			expect_moves(test, .return_slow = 1, .flush = 1);
		} else {
			KUNIT_EXPECT_FALSE(test, sheaf->reserves);
			take_all(test, sheaf);
			give_back(test, sheaf);
			expect_moves(test, .alloc_fast = 1, .return_fast = 1);
		}
		expect_cached(test, 0);
	} while (!found && stubs_of(test)->nr_stub_calls < 10000);
	kunit_deactivate_static_stub(test, slab_refill);
	KUNIT_EXPECT_EQ(test, found, 1);

	/* Who may not use the reserves does not get it. */
	sheaf = prefill(test, pt->cap);
	for (found = 0; found < pt->cap; found++)
		KUNIT_ASSERT_PTR_NE(test, sheaf_object(pt->cache, sheaf, found),
				    (void *)first);
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
	struct slab_test *pt = with_any_setup(test);
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
	struct slab_test *pt = with_cache(test, OBJECT_SIZE, 0, &args);
	unsigned int size;

	for (size = 1; size < 2 * pt->cap + 3; size++)
		use_sheaf(test, size);
	KUNIT_EXPECT_EQ(test, pt->nr_broken, 0);
}

static void accounted_objects(struct kunit *test)
{
	struct slab_test *pt = with_cache(test, OBJECT_SIZE, SLAB_ACCOUNT, NULL);
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
#define GUARD_SECS	20

/*
 * Who has a large part of what KFENCE guards gets no more, and it tells users by the
 * addresses on the stack: so there are some.
 */
static noinline void *from_deep(unsigned int depth, struct kmem_cache *s, gfp_t gfp,
				struct slab_sheaf *sheaf)
{
	void *obj;

	if (depth)
		obj = from_deep(depth - 1, s, gfp, sheaf);
	else
		obj = kmem_cache_alloc_from_sheaf(s, gfp, sheaf);
	barrier();
	return obj;
}

static noinline int bulk_from_deep(unsigned int depth, struct kmem_cache *s, size_t nr, void **p)
{
	int got;

	if (depth)
		got = bulk_from_deep(depth - 1, s, nr, p);
	else
		got = kmem_cache_alloc_bulk(s, GFP_KERNEL, nr, p);
	barrier();
	return got;
}

static struct slab_test *with_kfence(struct kunit *test)
{
	struct slab_test *pt = with_cache(test, OBJECT_SIZE, 0, NULL);

	if (!kfence_sample_interval)
		kunit_skip(test, "KFENCE is off");
	pt->cache->flags &= ~SLAB_SKIP_KFENCE;
	return pt;
}

/* No object that was guarded has got into a sheaf when it was freed. */
static void expect_none_guarded(struct kunit *test)
{
	struct slab_test *pt = test->priv;
	struct object *obj;

	pt->cache->flags |= SLAB_SKIP_KFENCE;
	hold_and_drain(test, 0);
	for (obj = pt->held; obj; obj = obj->next)
		KUNIT_EXPECT_FALSE(test, is_kfence_address(obj));
	/* Those that were guarded are in no balance, see expect_balance_of(). */
	pt->cache->flags &= ~SLAB_SKIP_KFENCE;
}

/* An object that KFENCE guards is had instead of one in the sheaf, which stays there. */
static void kfence_guards_some(struct kunit *test)
{
	struct slab_test *pt = with_kfence(test);
	unsigned long end = jiffies + GUARD_SECS * HZ;
	unsigned int guarded = 0, i;

	while (guarded < GUARDED && time_before(jiffies, end)) {
		struct slab_sheaf *sheaf = prefill(test, 10);
		unsigned int size = kmem_cache_sheaf_size(sheaf);

		for (i = 0; i < 10; i++) {
			gfp_t gfp = GFP_NOWAIT | (i % 2 ? __GFP_ZERO : 0);
			struct object *obj = from_deep(i % 7, pt->cache, gfp, sheaf);

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
	struct slab_test *pt = with_kfence(test);
	unsigned long end = jiffies + GUARD_SECS * HZ;
	unsigned int guarded = 0, depth = 0, i;
	DECLARE_BITMAP(places, 64) = { };
	void *p[64];

	while (guarded < GUARDED && time_before(jiffies, end)) {
		KUNIT_ASSERT_GT(test, bulk_from_deep(depth++ % 7, pt->cache, 64, p), 0);
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
 * Elsewhere: the maple tree was met by a WARN.
 */
static void no_memory_for_profiling(struct kunit *test)
{
#if defined(CONFIG_MEM_ALLOC_PROFILING) && defined(CONFIG_FAILSLAB)
	struct slab_test *pt = with_cache(test, OBJECT_SIZE, 0, NULL);
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

struct prefill_irq {
	struct irq_user irq;
	struct kmem_cache *cache;
	struct object *got[3];
	unsigned int size;
};

static void prefill_in_irq(struct irq_user *irq)
{
	struct prefill_irq *u = container_of(irq, struct prefill_irq, irq);
	struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(u->cache, GFP_ATOMIC, u->size);
	unsigned int i;

	if (sheaf && !kmem_cache_refill_sheaf(u->cache, GFP_ATOMIC, &sheaf, u->size))
		for (i = 0; i < ARRAY_SIZE(u->got); i++)
			u->got[i] = kmem_cache_alloc_from_sheaf(u->cache, GFP_ATOMIC, sheaf);
	if (sheaf)
		kmem_cache_return_sheaf(u->cache, GFP_ATOMIC, sheaf);
}

static void irq_prefills(struct kunit *test)
{
	struct slab_test *pt = with_any_setup(test);
	unsigned int i, locked, round;

	for (round = 0; round < 3; round++) {
		for (locked = 0; locked < 2; locked++) {
			struct prefill_irq u = {
				.cache = pt->cache,
				.size = round * pt->cap / 2 + 3,
			};

			prepare_irq(&u.irq, IRQ_WORK, prefill_in_irq);
			raise_irq(pt, &u.irq, locked);
			finish_irq(test, &u.irq);
			for (i = 0; i < ARRAY_SIZE(u.got); i++)
				KUNIT_EXPECT_TRUE(test, hold(pt, u.got[i]));
		}
	}
	release(test, pt->nr_held);
	expect_all_back(test);
}

static void return_on_another_cpu(struct kunit *test)
{
	struct slab_test *pt = with_any_setup(test);
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
	expect_all_back(test);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(pt->cache), 0);
}

static void shrink_during_loan(struct kunit *test)
{
	struct slab_test *pt = with_any_setup(test);
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
	struct slab_test *pt = data;

	return (long)kmem_cache_prefill_sheaf(pt->cache, GFP_KERNEL, 3);
}

static void cpu_offline_during_loan(struct kunit *test)
{
	struct slab_test *pt = with_cache(test, OBJECT_SIZE, 0, NULL);
	struct slab_sheaf *sheaf;
	int cpu, other = -1;

	for_each_online_cpu(cpu)
		if (cpu != pt->cpu && cpu_is_hotpluggable(cpu))
			other = cpu;
	if (other < 0)
		kunit_skip(test, "no CPU can be removed");
	sheaf = lend(test, (void *)work_on_cpu(other, prefill_there, pt));
	take_offline(test, other);
	take(test, sheaf, 3);
	give_back(test, sheaf);
	bring_online(test, other);
	release(test, 3);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(pt->cache), 0);
}
#endif

/*
 * All at once
 */

struct prefill_crowd {
	struct crowd crowd;
	unsigned int edge;
	struct slab_sheaf *sheaves[4];	/* on offer to others */
};

static void exchange_and_free(struct crowd_user *u, struct object *obj)
{
	obj = exchange(u, obj);
	if (obj)
		kmem_cache_free(u->crowd->cache, obj);
}

static void take_some(struct crowd_user *u, struct slab_sheaf *sheaf, unsigned int n)
{
	while (n-- > 0) {
		struct object *obj = kmem_cache_alloc_from_sheaf(u->crowd->cache, GFP_NOWAIT,
								 sheaf);

		if (!obj)
			atomic_long_inc(&u->crowd->nr_null);
		exchange_and_free(u, obj);
	}
}

static void user_step(struct crowd_user *u)
{
	struct prefill_crowd *pc = container_of(u->crowd, struct prefill_crowd, crowd);
	unsigned int size = 1 + random_below(u, random_below(u, 8) ? pc->edge : 3 * pc->edge);
	struct kmem_cache *s = u->crowd->cache;
	struct slab_sheaf *sheaf;

	exchange_and_free(u, random_below(u, 2) ? kmem_cache_alloc(s, GFP_KERNEL) : NULL);
	sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, size);
	if (!sheaf) {
		atomic_long_inc(&u->crowd->nr_null);
		return;
	}
	take_some(u, sheaf, random_below(u, size + 1));
	if (!random_below(u, 8)) {
		size = 1 + random_below(u, 2 * pc->edge);
		if (!kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, size))
			take_some(u, sheaf, random_below(u, size + 1));
		else
			atomic_long_inc(&u->crowd->nr_null);
	}
	if (!random_below(u, 4))
		sheaf = xchg(&pc->sheaves[random_below(u, ARRAY_SIZE(pc->sheaves))], sheaf);
	if (sheaf)
		kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
}

static void shrink_meanwhile(struct crowd *c, unsigned int round)
{
	kmem_cache_shrink(c->cache);
}

static void concurrent_users(struct kunit *test)
{
	struct slab_test *pt = with_any_setup(test);
	struct prefill_crowd pc = {
		.crowd = {
			.step = user_step,
			.nr_steps = 4000,
			.disturb = shrink_meanwhile,
		},
		.edge = pt->cap ?: 28,
	};
	unsigned int i;

	crowd_run(test, &pc.crowd);
	for (i = 0; i < ARRAY_SIZE(pc.sheaves); i++)
		if (pc.sheaves[i])
			kmem_cache_return_sheaf(pt->cache, GFP_KERNEL, pc.sheaves[i]);
	release(test, pt->nr_held);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(pt->cache), 0);
	expect_cached(test, 0);
}

static int prefill_test_init(struct kunit *test)
{
	struct prefill_test *pt = kunit_kzalloc(test, sizeof(*pt), GFP_KERNEL);

	return slab_test_setup(test, pt ? &pt->st : NULL, prefill_counters);
}

static void prefill_test_exit(struct kunit *test)
{
	struct slab_test *pt = test->priv;

	if (!pt || !pt->cache)
		return;
	give_all_back(test);
	free_objects(pt, pt->nr_held);
	expect_all_back(test);
	finish_cache(test);
}

static struct kunit_case prefill_cases[] = {
	KUNIT_CASE_PARAM(all_sizes, prefill_setups_gen_params),
	KUNIT_CASE_PARAM(no_objects, prefill_setups_gen_params),
	KUNIT_CASE_PARAM(absurd_sizes, prefill_setups_gen_params),
	KUNIT_CASE_PARAM(several_sheaves, prefill_setups_gen_params),
	KUNIT_CASE_PARAM(prefill_from_spare, prefill_setups_gen_params),
	KUNIT_CASE_PARAM(prefill_from_main, prefill_setups_gen_params),
	KUNIT_CASE_PARAM(prefill_from_barn, prefill_setups_gen_params),
	KUNIT_CASE_PARAM(prefill_from_slabs, prefill_setups_gen_params),
	KUNIT_CASE_PARAM(oversize, prefill_setups_gen_params),
	KUNIT_CASE_PARAM(return_where_there_is_room, prefill_setups_gen_params),
	KUNIT_CASE_PARAM(return_where_all_is_full, prefill_setups_gen_params),
	KUNIT_CASE_PARAM(refill_within_capacity, prefill_setups_gen_params),
	KUNIT_CASE_PARAM(refill_beyond_capacity, prefill_setups_gen_params),
	KUNIT_CASE_PARAM(no_memory_for_a_sheaf, prefill_setups_gen_params),
	KUNIT_CASE_PARAM(no_memory_for_an_oversize_sheaf, prefill_setups_gen_params),
	KUNIT_CASE_PARAM(too_few_objects, prefill_setups_gen_params),
	KUNIT_CASE_PARAM(too_few_objects_to_refill, prefill_setups_gen_params),
	KUNIT_CASE_PARAM(failslab, prefill_setups_gen_params),
	KUNIT_CASE_PARAM(objects_from_the_reserves, prefill_setups_gen_params),
	KUNIT_CASE_PARAM(zeroing, prefill_setups_gen_params),
	KUNIT_CASE(constructed_objects),
	KUNIT_CASE(accounted_objects),
	KUNIT_CASE(kfence_guards_some),
	KUNIT_CASE(kfence_guards_any_in_bulk),
	KUNIT_CASE(no_memory_for_profiling),
	KUNIT_CASE_PARAM(irq_prefills, prefill_setups_gen_params),
	KUNIT_CASE_PARAM(return_on_another_cpu, prefill_setups_gen_params),
	KUNIT_CASE_PARAM(shrink_during_loan, prefill_setups_gen_params),
#ifdef CONFIG_HOTPLUG_CPU
	KUNIT_CASE(cpu_offline_during_loan),
#endif
	KUNIT_CASE_PARAM(concurrent_users, prefill_setups_gen_params),
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
