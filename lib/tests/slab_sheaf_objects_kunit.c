// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of sheaves: kinds of allocations, of caches and of objects
 *
 * What gfp flags, flags of the cache and hooks make of an object must not depend on the
 * way that it takes: zeroing, constructors, SLAB_TYPESAFE_BY_RCU, accounting. And some
 * objects must not be in sheaves at all: those from the memory reserves, and those that
 * KFENCE guards.
 */

#include <kunit/static_stub.h>
#include <linux/kasan.h>
#include <linux/kfence.h>
#include <linux/mempool.h>
#include <linux/module.h>
#include <linux/rcupdate.h>

#include "slab_kunit.h"

/*
 * Flags
 */

static const struct gfp_case {
	const char *desc;
	gfp_t gfp;
} gfp_cases[] = {
	{ "GFP_KERNEL", GFP_KERNEL },
	{ "GFP_NOWAIT", GFP_NOWAIT },
	{ "GFP_ATOMIC", GFP_ATOMIC },
	{ "GFP_NOIO", GFP_NOIO },
	/* The first attempt of mempool_alloc(pool, GFP_NOIO) */
	{ "mempool", __GFP_NOMEMALLOC | __GFP_NORETRY | __GFP_NOWARN | __GFP_KSWAPD_RECLAIM },
	{ "no reclaim at all", __GFP_NOWARN },
};

KUNIT_ARRAY_PARAM_DESC(gfp_cases, gfp_cases, desc);

/* Elsewhere: who could not wait, as a mempool, got each object from a slab. */
static void refill_with_gfp(struct kunit *test)
{
	const struct gfp_case *g = test->param_value;
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	struct moves m;

	skip_without_sheaves(test);
	KUNIT_EXPECT_EQ(test, alloc_objects(st, 5 * st->cap, g->gfp), 5 * st->cap);
	m = take_moves(test);
	KUNIT_EXPECT_EQ(test, m.alloc_fast, 5 * st->cap);
	KUNIT_EXPECT_EQ(test, m.alloc_slow, 0);
	KUNIT_EXPECT_GE(test, m.refill, 5 * st->cap);
	KUNIT_EXPECT_GE(test, m.barn_get_fail, 5);
	KUNIT_EXPECT_LE(test, m.barn_get_fail, 11);
}

static void bulk_refill_with_gfp(struct kunit *test)
{
	const struct gfp_case *g = test->param_value;
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	unsigned int many, few, in_slab;
	struct moves m;
	void **p;

	grab(test, 1);
	in_slab = virt_to_slab(st->held)->objects;
	/* What would fill half a sheaf, or a slab, may as well come from slabs: 128 at a time. */
	many = clamp(st->cap / 2, 1U, min(in_slab, 128U));
	few = many - 1;
	p = new_array(test, many);
	release(test, 1);
	kmem_cache_shrink(st->cache);
	take_moves(test);

	grab_bulk(test, p, many, g->gfp);
	m = take_moves(test);
	KUNIT_EXPECT_EQ(test, m.alloc_slow, many);
	KUNIT_EXPECT_EQ(test, m.alloc_fast, 0);

	if (!few)
		return;
	grab_bulk(test, p, few, g->gfp);
	m = take_moves(test);
	KUNIT_EXPECT_EQ(test, m.alloc_slow, 0);
	KUNIT_EXPECT_EQ(test, m.alloc_fast, few);
	KUNIT_EXPECT_GE(test, m.refill, few);
}

static void mempool_is_served_by_sheaves(struct kunit *test)
{
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	unsigned int i, n = 5 * (st->cap ?: 60), nr_null = 0;
	void **p = new_array(test, n);
	mempool_t *pool = mempool_create_slab_pool(4, st->cache);
	struct moves m;

	KUNIT_ASSERT_NOT_NULL(test, pool);
	take_moves(test);
	for (i = 0; i < n; i++) {
		p[i] = mempool_alloc(pool, GFP_NOIO);
		nr_null += !p[i];
	}
	m = take_moves(test);
	for (i = 0; i < n; i++)
		mempool_free(p[i], pool);
	mempool_destroy(pool);

	KUNIT_EXPECT_EQ(test, nr_null, 0);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
	KUNIT_EXPECT_EQ(test, m.alloc_fast, st->cap ? n : 0);
	KUNIT_EXPECT_EQ(test, m.alloc_slow, st->cap ? 0 : n);
}

static bool is_zero(struct kmem_cache *s, void *p)
{
	return !memchr_inv(p, 0, s->object_size);
}

#ifdef CONFIG_SLAB_SHEAVES
/* What sheaves were asked for with, all of them, and any of them; none was to be had. */
static gfp_t asked_all, asked_any;
static unsigned int nr_asked;

static void *no_sheaf_to_be_had(size_t size, gfp_t gfp)
{
	nr_asked++;
	asked_all &= gfp;
	asked_any |= gfp;
	return NULL;
}

/* Since the last time. */
static void expect_asked(struct kunit *test, int line, gfp_t must, gfp_t must_not)
{
	KUNIT_EXPECT_GT_MSG(test, nr_asked, 0, "from line %d", line);
	KUNIT_EXPECT_EQ_MSG(test, (__force unsigned int)(must & ~asked_all), 0,
			    "from line %d", line);
	KUNIT_EXPECT_EQ_MSG(test, (__force unsigned int)(must_not & asked_any), 0,
			    "from line %d", line);
	nr_asked = 0;
	asked_all = (__force gfp_t)~0u;
	asked_any = 0;
}

static struct slab_test *without_memory_for_sheaves(struct kunit *test)
{
	struct kmem_cache_args args = { .sheaf_capacity = 28 };
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, &args);

	skip_without_sheaves(test);
	nr_asked = 0;
	asked_all = (__force gfp_t)~0u;
	asked_any = 0;
	kunit_activate_static_stub(test, kmalloc_nosheaf, no_sheaf_to_be_had);
	return st;
}

/*
 * Elsewhere: that there was no memory for a sheaf made a splat, though the object came from
 * a slab all the same; or the reserves were used up for it.
 */
static void sheaf_alloc_fails_quietly(struct kunit *test)
{
	const gfp_t must = __GFP_NOWARN | __GFP_NOMEMALLOC;
	struct slab_test *st = without_memory_for_sheaves(test);
	void *p[3];

	skip_if_smaller(test, 8);
	KUNIT_ASSERT_EQ(test, alloc_objects(st, 3, GFP_KERNEL), 3);
	expect_asked(test, __LINE__, must, __GFP_DIRECT_RECLAIM);
	KUNIT_ASSERT_EQ(test, alloc_objects(st, 3, GFP_ATOMIC), 3);
	expect_asked(test, __LINE__, must, __GFP_DIRECT_RECLAIM | __GFP_HIGH);
	free_objects(st, 6);
	expect_asked(test, __LINE__, must, __GFP_DIRECT_RECLAIM);
	KUNIT_ASSERT_EQ(test, kmem_cache_alloc_bulk(st->cache, GFP_KERNEL, 3, p), 3);
	expect_asked(test, __LINE__, must, __GFP_DIRECT_RECLAIM);
	kmem_cache_free_bulk(st->cache, 3, p);
	expect_asked(test, __LINE__, must, __GFP_DIRECT_RECLAIM);
	expect_cached(test, 0);
	kunit_deactivate_static_stub(test, kmalloc_nosheaf);
}

/*
 * Elsewhere: memory was freed under pi_lock, and a sheaf for it was allocated in a way that
 * woke up kswapd, which takes that lock.
 */
static void free_wakes_no_kswapd(struct kunit *test)
{
	struct slab_test *st = without_memory_for_sheaves(test);
	void *p[3];

	/* Who allocates may know that it does no harm, or not. */
	KUNIT_ASSERT_EQ(test, alloc_objects(st, 3, GFP_NOWAIT), 3);
	expect_asked(test, __LINE__, __GFP_KSWAPD_RECLAIM, __GFP_DIRECT_RECLAIM);
	KUNIT_ASSERT_EQ(test, alloc_objects(st, 1, __GFP_NOWARN), 1);
	expect_asked(test, __LINE__, 0, __GFP_RECLAIM);
	/* Who frees is not asked. */
	free_objects(st, 1);
	expect_asked(test, __LINE__, 0, __GFP_RECLAIM);
	p[0] = let_go(st);
	p[1] = let_go(st);
	p[2] = let_go(st);
	kmem_cache_free_bulk(st->cache, 3, p);
	expect_asked(test, __LINE__, 0, __GFP_RECLAIM);
#ifdef CONFIG_SLAB_RCU_SHEAVES
	KUNIT_ASSERT_EQ(test, alloc_objects(st, 1, GFP_NOWAIT), 1);
	expect_asked(test, __LINE__, 0, __GFP_DIRECT_RECLAIM);
	kfree_rcu(let_go(st), rcu);
	expect_asked(test, __LINE__, 0, __GFP_RECLAIM);
#endif
	kunit_deactivate_static_stub(test, kmalloc_nosheaf);
	kvfree_rcu_barrier();
}
#endif

static void zeroing(struct kunit *test)
{
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	unsigned int i, n = 4 * (st->cap ?: 60), dirty = 0;
	void **p = new_array(test, n);

	KUNIT_ASSERT_EQ(test, kmem_cache_alloc_bulk(st->cache, GFP_KERNEL, n, p), n);
	for (i = 0; i < n; i++)
		memset(p[i], 0xff, OBJECT_SIZE);
	for (i = 0; i < n; i++)
		kmem_cache_free(st->cache, p[i]);

	for (i = 0; i < n; i++) {
		p[i] = kmem_cache_zalloc(st->cache, GFP_KERNEL);
		if (!p[i])
			break;
		dirty += !is_zero(st->cache, p[i]);
		memset(p[i], 0xff, OBJECT_SIZE);
	}
	kmem_cache_free_bulk(st->cache, i, p);
	KUNIT_ASSERT_EQ(test, i, n);

	KUNIT_ASSERT_EQ(test, kmem_cache_alloc_bulk(st->cache, GFP_KERNEL | __GFP_ZERO, n, p), n);
	for (i = 0; i < n; i++)
		dirty += !is_zero(st->cache, p[i]);
	kmem_cache_free_bulk(st->cache, n, p);
	KUNIT_EXPECT_EQ(test, dirty, 0);
}

/* Whether what was freed is empty, but for where its free pointer is, or its mark. */
static bool is_wiped(struct kmem_cache *s, char *p)
{
	unsigned int end = s->offset + sizeof(void *);

	if (s->offset >= s->object_size)
		return is_zero(s, p);
	return !memchr_inv(p, 0, s->offset) &&
	       (end >= s->object_size || !memchr_inv(p + end, 0, s->object_size - end));
}

static void wiping(struct kunit *test)
{
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	unsigned int i, n = st->cap / 2, left = 0;
	void **p = new_array(test, 2 * n + 1);

	if (!want_init_on_free())
		kunit_skip(test, "is for init_on_free=1 at boot");
	skip_without_sheaves(test);
	KUNIT_ASSERT_EQ(test, kmem_cache_alloc_bulk(st->cache, GFP_KERNEL, n, p), n);
	for (i = 0; i < n; i++)
		memset(p[i], 0xff, OBJECT_SIZE);
	memcpy(p + n, p, n * sizeof(*p));
	kmem_cache_free(st->cache, p[n]);
	kmem_cache_free_bulk(st->cache, n - 1, p + n + 1);
	kasan_disable_current();
	for (i = 0; i < n; i++)
		left += !is_wiped(st->cache, p[i]);
	kasan_enable_current();
	KUNIT_EXPECT_EQ(test, left, 0);
}

/*
 * Kinds of caches, and of objects
 */

/* mark_object() looks whether an object is constructed. */
static void constructed_objects(struct kunit *test)
{
	struct kmem_cache_args args = { .ctor = construct };
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, &args);
	unsigned int n = 5 * (st->cap ?: 60), round;
	void **p = new_array(test, n);

	for (round = 0; round < 3; round++) {
		grab(test, n);
		KUNIT_EXPECT_EQ(test, st->nr_broken, 0);
		release_bulk(test, p, n);
		grab_bulk(test, p, n, GFP_KERNEL);
		KUNIT_EXPECT_EQ(test, st->nr_broken, 0);
		release(test, n);
	}
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
}

/* What was freed last is the first memory that somebody else gets. */
static void overwrite_free_pages(unsigned int order)
{
	struct page *pages[16];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(pages); i++) {
		pages[i] = alloc_pages(GFP_NOWAIT | __GFP_NOWARN, order);
		if (pages[i])
			memset(page_address(pages[i]), 0xff, PAGE_SIZE << order);
	}
	for (i = 0; i < ARRAY_SIZE(pages); i++)
		if (pages[i])
			__free_pages(pages[i], order);
}

/* Objects stay objects until a grace period is over, flushed or not. */
static void typesafe_by_rcu(struct kunit *test)
{
	struct kmem_cache_args args = { .ctor = construct };
	struct slab_test *st = with_cache(test, OBJECT_SIZE, SLAB_TYPESAFE_BY_RCU, &args);
	unsigned int n = 30 * max(st->cap ?: 60, 8U), i, order, bad = 0;
	unsigned long nr_slabs;
	struct slab *slab;
	void **p;

	/* More than sheaves keep, by two slabs: with large pages, one is more than that. */
	grab(test, 1);
	slab = virt_to_slab(st->held);
	n += 2 * slab->objects;
	order = slab_order(slab);
	release(test, 1);
	p = new_array(test, n);

	grab_bulk(test, p, n, GFP_KERNEL);
	/* No slab is kept that has no objects in use. */
	st->cache->min_partial = 0;
	nr_slabs = count(st->cache, FREE_SLAB);
	rcu_read_lock();
	free_objects(st, n);
	overwrite_free_pages(order);
	for (i = 0; i < n; i++)
		bad += READ_ONCE(((struct object *)p[i])->constructed) != CONSTRUCTED;
	rcu_read_unlock();
	KUNIT_EXPECT_EQ(test, bad, 0);
	/* Then none of them was freed before. */
	if (IS_ENABLED(CONFIG_SLUB_RCU_DEBUG))
		rcu_barrier();
	KUNIT_EXPECT_GT(test, count(st->cache, FREE_SLAB), nr_slabs);

	grab_bulk(test, p, n, GFP_KERNEL);
	KUNIT_EXPECT_EQ(test, st->nr_broken, 0);
	release(test, n);
	if (IS_ENABLED(CONFIG_SLUB_RCU_DEBUG))
		rcu_barrier();
	kmem_cache_shrink(st->cache);
	expect_cached(test, 0);
}

/*
 * With the hooks for accounting, though KUnit's tasks are in the root cgroup,
 * whose objects are not charged.
 */
static void accounted_objects(struct kunit *test)
{
	struct slab_test *st = with_cache(test, OBJECT_SIZE, SLAB_ACCOUNT, NULL);
	unsigned int n = 3 * (st->cap ?: 60);
	void **p = new_array(test, n);
	struct moves m;

	KUNIT_ASSERT_EQ(test, alloc_objects(st, n, GFP_KERNEL_ACCOUNT), n);
	m = take_moves(test);
	KUNIT_EXPECT_EQ(test, st->cap ? m.alloc_slow : m.alloc_fast, 0);
	release_bulk(test, p, n);
	grab_bulk(test, p, n, GFP_KERNEL_ACCOUNT);
	release(test, n);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
}

/* Objects out of the memory reserves are not for everybody. Elsewhere: they got into barns. */
static void pfmemalloc_is_kept_out(struct kunit *test)
{
	struct slab_test *st = with_setup(test);
	void *p[1];

	hold_and_drain(test, 2);
	slab_set_pfmemalloc(virt_to_slab(st->held));
	release(test, 1);
	expect_moves(test, .free_slow = 1);
	expect_cached(test, 0);

	slab_set_pfmemalloc(virt_to_slab(st->held));
	release_bulk(test, p, 1);
	expect_moves(test, .free_slow = 1);
	expect_cached(test, 0);

	/* These may be gone since, together with their slabs. */
	release(test, st->nr_held);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
}

static void *alloc_from_kfence(struct kmem_cache *s)
{
	unsigned long end = jiffies + HZ;
	void *p;

	do {
		p = kmem_cache_alloc(s, GFP_KERNEL);
		if (!p || is_kfence_address(p))
			return p;
		kmem_cache_free(s, p);
		cond_resched();
	} while (time_before(jiffies, end));
	return NULL;
}

static void kfence_is_kept_out(struct kunit *test)
{
	struct kmem_cache_args none = { };
	struct slab_test *st = test->priv;
	unsigned long cached;
	struct moves m;
	void *p;

	if (!IS_ENABLED(CONFIG_KFENCE))
		kunit_skip(test, "needs CONFIG_KFENCE");
	use_cache(test, new_plain_cache(test, "slab_sheaf_kunit", OBJECT_SIZE, 0, &none));
	skip_without_sheaves(test);
	no_quarantine(st->cache);

	p = alloc_from_kfence(st->cache);
	if (!p)
		kunit_skip(test, "KFENCE has not guarded any object for a second");
	cached = cached_objects(st->cache);
	take_moves(test);
	kmem_cache_free(st->cache, p);
	m = take_moves(test);
	KUNIT_EXPECT_EQ(test, m.free_fast, 0);
	expect_cached(test, cached);

	p = alloc_from_kfence(st->cache);
	if (!p)
		return;
	cached = cached_objects(st->cache);
	kmem_cache_free_bulk(st->cache, 1, &p);
	expect_cached(test, cached);
}

/*
 * Where pages have 64K, or slabs are large, there are thousands of small objects in a slab.
 * Each is handed out once, and all come back.
 */
static void thousands_in_a_slab(struct kunit *test)
{
	struct kmem_cache *s = new_cache(test, "slab_kunit_small", sizeof(long), 0, NULL);
	bool warned = test_taint(TAINT_WARN);
	unsigned int i, nr, wrong = 0;
	unsigned long **objects;

	not_with_faults(test);
	objects = kmem_cache_alloc(s, GFP_KERNEL | __GFP_NOFAIL);
	nr = 2 * virt_to_slab(objects)->objects;
	kmem_cache_free(s, objects);

	objects = kunit_kcalloc(test, nr, sizeof(*objects), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, objects);
	for (i = 0; i < nr; i++) {
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL | __GFP_NOFAIL);
		*objects[i] = i;
	}
	for (i = 0; i < nr; i++)
		wrong += *objects[i] != i;
	KUNIT_EXPECT_EQ_MSG(test, wrong, 0, "of %u objects", nr);
	if (wrong)
		return;

	for (i = 0; i < nr / 2; i++)
		kmem_cache_free(s, objects[i]);
	kmem_cache_free_bulk(s, nr - i, (void **)objects + i);
	destroy_cache_of(test, s);
	KUNIT_EXPECT_EQ(test, test_taint(TAINT_WARN), warned);
}

static struct kunit_case objects_cases[] = {
	KUNIT_CASE_PARAM(refill_with_gfp, gfp_cases_gen_params),
	KUNIT_CASE_PARAM(bulk_refill_with_gfp, gfp_cases_gen_params),
	KUNIT_CASE(mempool_is_served_by_sheaves),
#ifdef CONFIG_SLAB_SHEAVES
	KUNIT_CASE(sheaf_alloc_fails_quietly),
	KUNIT_CASE(free_wakes_no_kswapd),
#endif
	KUNIT_CASE(zeroing),
	KUNIT_CASE(wiping),
	KUNIT_CASE(constructed_objects),
	KUNIT_CASE(typesafe_by_rcu),
	KUNIT_CASE(accounted_objects),
	KUNIT_CASE(thousands_in_a_slab),
	KUNIT_CASE_PARAM(pfmemalloc_is_kept_out, setups_gen_params),
	KUNIT_CASE(kfence_is_kept_out),
	{}
};

static struct kunit_suite objects_suite = {
	.name = "slab_sheaf_objects",
	.init = slab_test_init,
	.exit = finish_rcu_cache,
	.test_cases = objects_cases,
};

kunit_test_suite(objects_suite);

MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
MODULE_DESCRIPTION("KUnit tests of sheaves: kinds of allocations, of caches and of objects");
MODULE_LICENSE("GPL");
