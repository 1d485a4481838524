// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of sheaves: many objects at once
 *
 * kmem_cache_alloc_bulk() and the functions that free arrays of objects, for one cache
 * and for several, mixed with what allocates and frees one by one.
 */

#include <linux/module.h>

#include "slab_kunit.h"

static void bulk_sizes(struct kunit *test)
{
	const struct setup *setup = test->param_value;
	struct kmem_cache_args args = { .sheaf_capacity = setup->capacity };
	struct slab_test *st = with_cache(test, setup->size, 0, &args);
	unsigned int cap = st->cap ?: 60, i, round;
	size_t sizes[] = { 1, cap - 1, cap, cap + 1, 2 * cap + 1, 3 * cap + 7, 20 * cap };
	void **p = new_array(test, 20 * cap);
	struct moves m;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t n = max_t(size_t, sizes[i], 1);

		/* First out of the slabs, then out of what was freed before. */
		for (round = 0; round < 3; round++) {
			grab_bulk(test, p, n, GFP_KERNEL);
			release_bulk(test, p, n);
			m = take_moves(test);
			KUNIT_EXPECT_EQ(test, m.alloc_fast + m.alloc_slow, n);
			KUNIT_EXPECT_EQ(test, m.free_fast + m.free_slow, n);
			KUNIT_EXPECT_EQ(test, st->nr_held, 0);
		}
		KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
		expect_cached(test, 0);
		take_moves(test);
	}
}

/* One by one and in bulk, so that each meets sheaves as the other leaves them. */
static void bulk_and_single(struct kunit *test)
{
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	unsigned int cap = st->cap ?: 60, i;
	void **p = new_array(test, 3 * cap);

	for (i = 1; i < 3 * cap; i += 7) {
		grab_bulk(test, p, i, GFP_KERNEL);
		grab(test, 3 * cap - i);
		release_bulk(test, p, 3 * cap - i);
		grab(test, 5);
		release(test, i);
	}
	release(test, st->nr_held);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
}

static void bulk_takes_from_sheaves(struct kunit *test)
{
	struct slab_test *st = with_setup(test);
	void **p = new_array(test, 4 * st->cap);

	hold_and_drain(test, 4 * st->cap);
	release(test, 4 * st->cap);
	take_moves(test);
	grab_bulk(test, p, st->cap + 1, GFP_KERNEL);
	expect_moves(test, .alloc_fast = st->cap + 1);
	grab_bulk(test, p, 3 * st->cap - 1, GFP_KERNEL);
	expect_moves(test, .alloc_fast = 3 * st->cap - 1, .barn_get = 2);
	expect_cached(test, 0);
}

static void bulk_frees_to_sheaves(struct kunit *test)
{
	struct slab_test *st = with_setup(test);
	void **p = new_array(test, 4 * st->cap);

	/* Now there are empty sheaves. */
	hold_and_drain(test, 4 * st->cap);
	release(test, 4 * st->cap);
	grab(test, 4 * st->cap);
	take_moves(test);
	release_bulk(test, p, st->cap + 1);
	expect_moves(test, .free_fast = st->cap + 1);
	release_bulk(test, p, 3 * st->cap - 1);
	expect_moves(test, .free_fast = 3 * st->cap - 1, .barn_put = 2);
	expect_cached(test, 4 * st->cap);
}

/* There is neither a sheaf nor an empty one for it: as many are made as are needed. */
static void bulk_free_makes_sheaves(struct kunit *test)
{
	struct slab_test *st = with_setup(test);
	void **p = new_array(test, 4 * st->cap);

	grab_bulk(test, p, 4 * st->cap, GFP_KERNEL);
	kmem_cache_shrink(st->cache);
	KUNIT_ASSERT_EQ(test, count_sheaves(st->cache), 0);
	take_moves(test);
	release_bulk(test, p, 4 * st->cap);
	expect_moves(test, .free_fast = 4 * st->cap, .barn_put = 2);
	expect_cached(test, 4 * st->cap);
}

/* Frees an object of each of so many slabs, past the sheaves. Returns how many there were. */
static unsigned int free_one_of_each_slab(struct slab_test *st, void **slabs, unsigned int max)
{
	struct object *obj, *rest = NULL;
	unsigned int i, nr = 0;

	while (st->held && nr < max) {
		obj = let_go(st);
		for (i = 0; i < nr && slabs[i] != virt_to_slab(obj); i++)
			;
		if (i == nr) {
			slabs[nr++] = virt_to_slab(obj);
			kmem_cache_free(st->cache, obj);
		} else {
			obj->next = rest;
			rest = obj;
		}
	}
	while (rest) {
		obj = rest;
		rest = obj->next;
		hold(st, obj);
	}
	kmem_cache_shrink(st->cache);
	return nr;
}

/* It takes many slabs: the lock of their list is dropped in between. */
static void bulk_of_many_slabs(struct kunit *test)
{
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	unsigned int nr = 3 * 16;
	void **p = new_array(test, nr);
	struct moves m;

	skip_without_sheaves(test);
	grab(test, 1);
	hold_and_drain(test, (nr + 1) * virt_to_slab(st->held)->objects);
	KUNIT_ASSERT_EQ(test, free_one_of_each_slab(st, p, nr), nr);
	expect_cached(test, 0);
	take_moves(test);
	grab_bulk(test, p, nr, GFP_KERNEL);
	m = take_moves(test);
	KUNIT_EXPECT_GE(test, m.list_lock, 3);
	KUNIT_EXPECT_LE(test, m.list_lock, 3 + 3);
}

/* Without a cache, the objects may be from several, in any order. */
static void bulk_of_several_caches(struct kunit *test)
{
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	struct kmem_cache_args none = { };
	struct kmem_cache *other = new_cache(test, "slab_sheaf_other", 100, 0, &none);
	unsigned int i, n = 300;
	void **p = new_array(test, n);

	for (i = 0; i < n; i++) {
		p[i] = kmem_cache_alloc(i % 3 ? st->cache : other, GFP_KERNEL);
		if (!p[i])
			break;
	}
	KUNIT_EXPECT_EQ(test, i, n);
	kmem_cache_free_bulk(NULL, i, p);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(other), 0);
	expect_balance_of(test, other, 0, 0);
	destroy_cache_of(test, other);
}

/* An array may have objects of caches with and without sheaves, and pages. */
static void kfree_bulk_of_many_kinds(struct kunit *test)
{
	struct slab_test *st = with_setup(test);
	unsigned int n = 5 * st->cap, nr_ours = 0;
	void **p = new_array(test, n);
	struct moves m;
	unsigned int i;

	hold_and_drain(test, n + 1);
	for (i = 0; i < n; i++) {
		if (i % 5 == 3) {
			p[i] = kmalloc(100, GFP_KERNEL);
		} else if (i % 17 == 0) {
			p[i] = kmalloc(4 * PAGE_SIZE, GFP_KERNEL);
		} else {
			p[i] = let_go(st);
			nr_ours++;
		}
		if (!p[i])
			break;
	}
	kfree_bulk(i, p);
	KUNIT_ASSERT_EQ(test, i, n);
	m = take_moves(test);
	KUNIT_EXPECT_EQ(test, m.free_fast + m.free_slow, nr_ours);
	/* What is in between does not keep them from the sheaves. */
	KUNIT_EXPECT_GE(test, m.free_fast, min(nr_ours, st->cap));
	KUNIT_EXPECT_EQ(test, m.alloc_fast + m.alloc_slow, 0);
	kmem_cache_shrink(st->cache);
	expect_cached(test, 0);
}

static struct kunit_case bulk_cases[] = {
	KUNIT_CASE_PARAM(bulk_sizes, setups_gen_params),
	KUNIT_CASE(bulk_and_single),
	KUNIT_CASE_PARAM(bulk_takes_from_sheaves, setups_gen_params),
	KUNIT_CASE_PARAM(bulk_frees_to_sheaves, setups_gen_params),
	KUNIT_CASE_PARAM(bulk_free_makes_sheaves, setups_gen_params),
	KUNIT_CASE(bulk_of_many_slabs),
	KUNIT_CASE(bulk_of_several_caches),
	KUNIT_CASE_PARAM(kfree_bulk_of_many_kinds, setups_gen_params),
	{}
};

static struct kunit_suite bulk_suite = {
	.name = "slab_sheaf_bulk",
	.init = slab_test_init,
	.exit = finish_cache,
	.test_cases = bulk_cases,
};

kunit_test_suite(bulk_suite);

MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
MODULE_DESCRIPTION("KUnit tests of sheaves: many objects at once");
MODULE_LICENSE("GPL");
