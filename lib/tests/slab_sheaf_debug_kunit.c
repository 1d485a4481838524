// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of what looks after sheaves, DEBUG_SLAB_SHEAVES
 *
 * The tests tell it what a bug would: of an object that is put into two sheaves, of a sheaf
 * that is in two places. Nothing of that happens, so there is nothing to be mended. What
 * happens without a bug must not be complained about.
 */

#include <linux/module.h>

#include "slab_kunit.h"

static struct slab_test *with_checked_cache(struct kunit *test)
{
	struct kmem_cache_args args = { .sheaf_capacity = 12 };
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, &args);

	skip_without_sheaves(test);
	complaints();
	return st;
}

/* Of the test alone: nobody else knows it. */
static struct slab_sheaf *made_up_sheaf(struct kunit *test, unsigned int size)
{
	struct slab_test *st = test->priv;
	struct slab_sheaf *sheaf;

	sheaf = kunit_kzalloc(test, struct_size(sheaf, objects, st->cap), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, sheaf);
	sheaf->cache = st->cache;
	sheaf->capacity = st->cap;
	sheaf->size = size;
	sheaf_check_new(sheaf);
	return sheaf;
}

/* By main, spare, the barn and slabs, and back; by arrays; and when all is given back. */
static void all_is_well(struct kunit *test)
{
	struct slab_test *st = with_checked_cache(test);
	unsigned long n = 8 * st->cap;

	grab(test, n);
	release(test, n);
	grab(test, n);
	kmem_cache_shrink(st->cache);
	release(test, n);
	kmem_cache_shrink(st->cache);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
}

static void object_in_two_sheaves(struct kunit *test)
{
	struct slab_test *st = with_checked_cache(test);
	void *object;

	grab(test, 1);
	object = st->held;
	sheaf_check_in(st->cache, &object, 1);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
	sheaf_check_in(st->cache, &object, 1);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaf_check_out(st->cache, &object, 1);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
}

static void object_in_no_sheaf(struct kunit *test)
{
	struct slab_test *st = with_checked_cache(test);
	void *object;

	grab(test, 1);
	object = st->held;
	sheaf_check_in(st->cache, &object, 1);
	sheaf_check_out(st->cache, &object, 1);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
	sheaf_check_out(st->cache, &object, 1);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
}

/* Each of an array, whichever it is. */
static void object_in_an_array(struct kunit *test)
{
	struct slab_test *st = with_checked_cache(test);
	void *p[3], *last;

	KUNIT_ASSERT_EQ(test, kmem_cache_alloc_bulk(st->cache, GFP_KERNEL, 3, p), 3);
	last = p[2];
	sheaf_check_in(st->cache, &last, 1);
	sheaf_check_in(st->cache, p, 3);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaf_check_out(st->cache, p, 3);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
	kmem_cache_free_bulk(st->cache, 3, p);
}

static void object_of_another_cache(struct kunit *test)
{
	struct slab_test *st = with_checked_cache(test);
	struct kmem_cache *s = new_cache(test, "slab_kunit_other", 512, 0, NULL);
	void *object = kmem_cache_alloc(s, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, object);
	complaints();
	sheaf_check_in(st->cache, &object, 1);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaf_check_out(st->cache, &object, 1);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	kmem_cache_free(s, object);
	destroy_cache_of(test, s);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
}

/* It is left alone. */
static void what_is_no_address(struct kunit *test)
{
	struct slab_test *st = with_checked_cache(test);
	void *object = (void *)(unsigned long)PAGE_SIZE;

	sheaf_check_in(st->cache, &object, 1);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaf_check_out(st->cache, &object, 1);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
}

static void object_of_the_reserves(struct kunit *test)
{
	struct slab_test *st = with_checked_cache(test);
	void *object;

	grab(test, 1);
	object = st->held;
	sheaf_check_fits(st->cache, &object, 1);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
	slab_set_pfmemalloc(virt_to_slab(object));
	sheaf_check_fits(st->cache, &object, 1);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	slab_clear_pfmemalloc(virt_to_slab(object));
}

#ifdef CONFIG_SLAB_RCU_SHEAVES
/* A sheaf of kfree_rcu() that is full of them is not for everybody. */
static void reserves_by_rcu(struct kunit *test)
{
	struct slab_test *st = with_checked_cache(test);
	struct object *obj;
	unsigned int i;

	grab(test, st->cap);
	for (i = 0, obj = st->held; i < st->cap; i++, obj = obj->next)
		slab_set_pfmemalloc(virt_to_slab(obj));
	for (i = 0; i < st->cap; i++) {
		obj = let_go(st);
		kfree_rcu(obj, rcu);
	}
	kvfree_rcu_barrier();
	KUNIT_EXPECT_EQ(test, complaints(), 0);
}
#endif

/* The cache has no sheaves any more: what is said to be in one goes to its slab, and back. */
static void object_in_sheaf_and_slab(struct kunit *test)
{
	struct slab_test *st = with_checked_cache(test);
	void *object, *again;

	/* One of the two keeps the slab where it is. */
	grab(test, 1);
	object = kmem_cache_alloc(st->cache, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, object);
	disarm_fault();
	KUNIT_EXPECT_EQ(test, resize_sheaves(st->cache, 0), 0);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
	sheaf_check_in(st->cache, &object, 1);
	kmem_cache_free(st->cache, object);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	/* What was freed last is the first to be allocated. */
	again = kmem_cache_alloc(st->cache, GFP_KERNEL);
	KUNIT_EXPECT_PTR_EQ(test, again, object);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaf_check_out(st->cache, &object, 1);
	kmem_cache_free(st->cache, again);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
}

/* Each of an array, whichever it is. */
static void array_in_sheaf_and_slab(struct kunit *test)
{
	struct slab_test *st = with_checked_cache(test);
	void *p[3];

	KUNIT_ASSERT_EQ(test, kmem_cache_alloc_bulk(st->cache, GFP_KERNEL, 3, p), 3);
	sheaf_check_nowhere(st->cache, p, 3);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
	sheaf_check_in(st->cache, p + 2, 1);
	sheaf_check_nowhere(st->cache, p, 3);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaf_check_out(st->cache, p + 2, 1);
	sheaf_check_nowhere(st->cache, p, 3);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
	kmem_cache_free_bulk(st->cache, 3, p);
}

static void inside_of_an_object(struct kunit *test)
{
	struct slab_test *st = with_checked_cache(test);
	void *object;

	grab(test, 1);
	object = (void *)st->held + 8;
	sheaf_check_in(st->cache, &object, 1);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaf_check_out(st->cache, &object, 1);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
}

static void sheaf_in_two_places(struct kunit *test)
{
	struct slab_test *st = with_checked_cache(test);
	struct slab_sheaf *sheaf = made_up_sheaf(test, 2);

	sheaf_check_spare(sheaves_here(st), sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
	sheaf_check_spare(sheaves_here(st), sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaf_check_used(sheaves_here(st), sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaf->size = 0;
	sheaf_check_freed(st->cache, sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
}

static void sheaf_in_no_place(struct kunit *test)
{
	struct slab_test *st = with_checked_cache(test);
	struct slab_sheaf *sheaf = made_up_sheaf(test, 0);

	sheaf_check_empty(st->cache, sheaf);
	sheaf_check_taken(sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
	sheaf_check_taken(sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaf_check_freed(st->cache, sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
}

static void new_sheaf_in_a_place(struct kunit *test)
{
	struct slab_test *st = with_checked_cache(test);
	struct slab_sheaf *sheaf = made_up_sheaf(test, 0);

	sheaf_check_empty(st->cache, sheaf);
	sheaf_check_new(sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaf_check_freed(st->cache, sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
	sheaf_check_new(sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
	sheaf_check_freed(st->cache, sheaf);
}

/* Nor does a CPU stop to use it because a barn refuses it; but when somebody takes it. */
static void sheaf_in_use_twice(struct kunit *test)
{
	struct slab_test *st = with_checked_cache(test);
	struct slab_sheaf *sheaf = made_up_sheaf(test, 0);

	sheaf_check_used(sheaves_here(st), sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
	sheaf_check_used(sheaves_here(st), sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaf_check_empty(st->cache, sheaf);
	sheaf_check_refused(sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
	sheaf_check_used(sheaves_here(st), sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaf_check_empty(st->cache, sheaf);
	sheaf_check_got(st->cache, sheaf, false);
	sheaf_check_used(sheaves_here(st), sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
	sheaf_check_unused(sheaf);
	sheaf_check_used(sheaves_here(st), sheaf);
	sheaf_check_released(sheaf);
	sheaf_check_used(sheaves_here(st), sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
	sheaf_check_freed(st->cache, sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
}

static void sheaf_waits_twice(struct kunit *test)
{
	struct slab_test *st = with_checked_cache(test);
	struct slab_sheaf *sheaf = made_up_sheaf(test, 2);

	sheaf_check_used(sheaves_here(st), sheaf);
	sheaf_check_queued(sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
	sheaf_check_queued(sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaf_check_taken(sheaf);
	sheaf_check_used(sheaves_here(st), sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
	sheaf->size = 0;
	sheaf_check_freed(st->cache, sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
}

static void sheaf_that_is_not_full(struct kunit *test)
{
	struct slab_test *st = with_checked_cache(test);
	struct slab_sheaf *sheaf = made_up_sheaf(test, st->cap - 1);

	sheaf_check_full(st->cache, sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaf_check_taken(sheaf);
	sheaf_check_empty(st->cache, sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaf_check_released(sheaf);
	sheaf->size = 0;
	sheaf_check_freed(st->cache, sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
}

static void sheaf_of_another_cache(struct kunit *test)
{
	struct slab_test *st = with_checked_cache(test);
	struct slab_sheaf *sheaf = made_up_sheaf(test, 0);

	sheaf->cache = NULL;
	sheaf_check_empty(st->cache, sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaf_check_released(sheaf);
	sheaf_check_freed(st->cache, sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
}

/* Of a cache, but not of that of which the CPU's sheaves are; and of what is no cache. */
static void sheaf_of_another_cache_for_a_cpu(struct kunit *test)
{
	struct slab_test *st = with_checked_cache(test);
	struct slab_sheaf *sheaf = made_up_sheaf(test, 0);

	sheaf_check_used(sheaves_here(st), sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
	sheaf_check_unused(sheaf);
	name_another_cache(sheaf);
	sheaf_check_used(sheaves_here(st), sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaf->cache = (void *)sheaf;
	sheaf_check_spare(sheaves_here(st), sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaf_check_freed(st->cache, sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
}

/* It was all right when it was put there. */
static void sheaf_changes_in_a_barn(struct kunit *test)
{
	struct slab_test *st = with_checked_cache(test);
	struct slab_sheaf *sheaf = made_up_sheaf(test, st->cap);

	sheaf_check_full(st->cache, sheaf);
	sheaf_check_got(st->cache, sheaf, true);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
	sheaf_check_full(st->cache, sheaf);
	sheaf->size--;
	sheaf_check_got(st->cache, sheaf, true);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaf->size = 0;
	sheaf_check_empty(st->cache, sheaf);
	sheaf->cache = NULL;
	sheaf_check_got(st->cache, sheaf, false);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaf_check_got(st->cache, sheaf, false);
	KUNIT_EXPECT_EQ(test, complaints(), 2);
	sheaf_check_freed(st->cache, sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
}

/* Each of the ways to use it, and to free it again; a new one may be where it was. */
static void freed_sheaf_is_used(struct kunit *test)
{
	struct slab_test *st = with_checked_cache(test);
	struct slab_sheaf *sheaf = made_up_sheaf(test, 0);

	sheaf_check_freed(st->cache, sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
	sheaf_check_freed(st->cache, sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaf_check_empty(st->cache, sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaf_check_taken(sheaf);
	sheaf_check_freed(st->cache, sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
	sheaf_check_taken(sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaf_check_freed(st->cache, sheaf);
	sheaf_check_used(sheaves_here(st), sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaf_check_freed(st->cache, sheaf);
	sheaf_check_new(sheaf);
	sheaf_check_empty(st->cache, sheaf);
	sheaf_check_taken(sheaf);
	sheaf_check_freed(st->cache, sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
}

static void freed_sheaf_has_objects(struct kunit *test)
{
	struct slab_test *st = with_checked_cache(test);
	struct slab_sheaf *sheaf = made_up_sheaf(test, 1);

	sheaf_check_freed(st->cache, sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
}

static void freed_sheaf_is_in_a_barn(struct kunit *test)
{
	struct slab_test *st = with_checked_cache(test);
	struct slab_sheaf *sheaf = made_up_sheaf(test, 0);

	sheaf_check_empty(st->cache, sheaf);
	sheaf_check_freed(st->cache, sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
}

/* One sheaf, then none, counted wrongly: what it holds, and how many. */
static void barn_counts_wrongly(struct kunit *test)
{
	struct slab_sheaf *sheaf;
	struct node_barn barn;

	with_checked_cache(test);
	sheaf = made_up_sheaf(test, 3);
	barn_init(&barn, 4, 4);
	KUNIT_ASSERT_TRUE(test, barn_put_full(&barn, sheaf));
	KUNIT_EXPECT_EQ(test, complaints(), 0);
	barn.nr_objects++;
	barn_set_limits(&barn, 5, 5);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	barn.nr_objects--;
	barn.nr_empty++;
	barn_set_limits(&barn, 5, 5);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	barn.nr_empty--;
	KUNIT_EXPECT_PTR_EQ(test, barn_get_full(&barn), sheaf);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
}

/* The second one is in front. */
static void barn_of_two(struct kunit *test, struct node_barn *barn, struct slab_sheaf *sheaves[2])
{
	unsigned int i;

	with_checked_cache(test);
	barn_init(barn, 4, 4);
	for (i = 0; i < 2; i++) {
		sheaves[i] = made_up_sheaf(test, 3);
		KUNIT_ASSERT_TRUE(test, barn_put_full(barn, sheaves[i]));
	}
	KUNIT_EXPECT_EQ(test, complaints(), 0);
}

/* The list becomes a circle. Whoever looks at it comes to an end, and says so. */
static void sheaf_twice_in_a_barn(struct kunit *test)
{
	struct slab_sheaf *sheaves[2];
	struct node_barn barn;

	barn_of_two(test, &barn, sheaves);
	KUNIT_EXPECT_TRUE(test, barn_put_full(&barn, sheaves[0]));
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	barn_set_limits(&barn, 5, 5);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
}

/* What was freed there leads elsewhere. Whoever looks at it does not go there. */
static void link_in_a_barn_leads_nowhere(struct kunit *test)
{
	struct slab_sheaf *sheaves[2];
	struct node_barn barn;

	barn_of_two(test, &barn, sheaves);
	sheaves[1]->barn_list.next = NULL;
	barn_set_limits(&barn, 5, 5);
	KUNIT_EXPECT_EQ(test, complaints(), 1);
	sheaves[1]->barn_list.next = &sheaves[0]->barn_list;
	KUNIT_EXPECT_PTR_EQ(test, barn_get_full(&barn), sheaves[1]);
	KUNIT_EXPECT_PTR_EQ(test, barn_get_full(&barn), sheaves[0]);
	KUNIT_EXPECT_EQ(test, complaints(), 0);
}

static struct kunit_case debug_cases[] = {
	KUNIT_CASE(all_is_well),
	KUNIT_CASE(object_in_two_sheaves),
	KUNIT_CASE(object_in_no_sheaf),
	KUNIT_CASE(object_in_an_array),
	KUNIT_CASE(object_of_another_cache),
	KUNIT_CASE(what_is_no_address),
	KUNIT_CASE(object_of_the_reserves),
#ifdef CONFIG_SLAB_RCU_SHEAVES
	KUNIT_CASE(reserves_by_rcu),
#endif
	KUNIT_CASE(object_in_sheaf_and_slab),
	KUNIT_CASE(array_in_sheaf_and_slab),
	KUNIT_CASE(inside_of_an_object),
	KUNIT_CASE(sheaf_in_two_places),
	KUNIT_CASE(sheaf_in_no_place),
	KUNIT_CASE(new_sheaf_in_a_place),
	KUNIT_CASE(sheaf_in_use_twice),
	KUNIT_CASE(sheaf_waits_twice),
	KUNIT_CASE(sheaf_that_is_not_full),
	KUNIT_CASE(sheaf_of_another_cache),
	KUNIT_CASE(sheaf_of_another_cache_for_a_cpu),
	KUNIT_CASE(sheaf_changes_in_a_barn),
	KUNIT_CASE(freed_sheaf_is_used),
	KUNIT_CASE(freed_sheaf_has_objects),
	KUNIT_CASE(freed_sheaf_is_in_a_barn),
	KUNIT_CASE(barn_counts_wrongly),
	KUNIT_CASE(sheaf_twice_in_a_barn),
	KUNIT_CASE(link_in_a_barn_leads_nowhere),
	{}
};

static struct kunit_suite debug_suite = {
	.name = "slab_sheaf_debug",
	.init = slab_test_init,
	.exit = finish_cache,
	.test_cases = debug_cases,
};

kunit_test_suite(debug_suite);

MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
MODULE_DESCRIPTION("KUnit tests of what looks after sheaves");
MODULE_LICENSE("GPL");
