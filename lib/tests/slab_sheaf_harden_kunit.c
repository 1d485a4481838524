// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of sheaves: what a bug elsewhere has done to them
 *
 * The tests write where only a bug would: a size that a sheaf cannot have is noticed
 * before it is used, the sheaf is left alone, and the cache goes on without it. What is
 * freed twice in a row is in sheaves once. In the end each test mends what it has broken,
 * so that the books balance.
 */

#include <linux/module.h>
#include <linux/rcupdate.h>

#include "slab_kunit.h"

static struct slab_test *with_hardened_cache(struct kunit *test)
{
	struct kmem_cache_args args = { .sheaf_capacity = 12 };
	struct slab_test *st;

	skip_if_not_hardened(test);
	st = with_cache(test, OBJECT_SIZE, 0, &args);
	skip_without_sheaves(test);
	return st;
}

/* A sheaf that was left alone is as before, and where it will be found again. */
static void mend(struct kunit *test, struct slab_sheaf *sheaf, unsigned int size,
		 unsigned int capacity)
{
	struct slub_percpu_sheaves *pcs = sheaves_here(test->priv);

	KUNIT_ASSERT_PTR_NE(test, pcs->main, sheaf);
	KUNIT_ASSERT_PTR_NE(test, pcs->spare, sheaf);
	KUNIT_ASSERT_NULL(test, pcs->remote);
	sheaf->cache = ((struct slab_test *)test->priv)->cache;
	sheaf->size = size;
	sheaf->capacity = capacity;
	pcs->remote = sheaf;
}

/* The next object must come from elsewhere. */
static void size_of_main_before_alloc(struct kunit *test)
{
	struct slab_test *st = with_hardened_cache(test);
	struct slab_sheaf *main;

	hold_and_drain(test, st->cap);
	release(test, 4);
	main = sheaves_here(st)->main;
	KUNIT_ASSERT_EQ(test, main->size, 4);
	main->size = st->cap + 1;
	grab(test, 2);
	KUNIT_EXPECT_EQ(test, main->size, st->cap + 1);
	mend(test, main, 4, st->cap);
}

static void size_of_main_before_free(struct kunit *test)
{
	struct slab_test *st = with_hardened_cache(test);
	struct slab_sheaf *main;

	hold_and_drain(test, st->cap);
	release(test, 4);
	main = sheaves_here(st)->main;
	main->size = UINT_MAX;
	release(test, 2);
	KUNIT_EXPECT_EQ(test, main->size, UINT_MAX);
	mend(test, main, 4, st->cap);
	expect_cached(test, 6);
}

/* Many at once look before they take, and before they give. */
static void size_of_main_before_bulk(struct kunit *test)
{
	struct slab_test *st = with_hardened_cache(test);
	struct slab_sheaf *main;
	void **p;

	hold_and_drain(test, st->cap);
	release(test, 4);
	main = sheaves_here(st)->main;
	main->size = st->cap + 1;
	p = new_array(test, 6);
	grab_bulk(test, p, 6, GFP_KERNEL);
	KUNIT_EXPECT_EQ(test, main->size, st->cap + 1);
	mend(test, main, 4, st->cap);

	kmem_cache_shrink(st->cache);
	release(test, 1);
	main = sheaves_here(st)->main;
	main->size = st->cap + 1;
	release_bulk(test, p, 6);
	KUNIT_EXPECT_EQ(test, main->size, st->cap + 1);
	mend(test, main, 1, st->cap);
}

static void capacity_of_main(struct kunit *test)
{
	struct slab_test *st = with_hardened_cache(test);
	struct slab_sheaf *main;

	hold_and_drain(test, 2 * st->cap);
	release(test, st->cap);
	main = sheaves_here(st)->main;
	KUNIT_ASSERT_EQ(test, main->size, st->cap);
	/* There is no room behind it, whatever it says. */
	main->size = SHEAF_MAX_CAPACITY + 1;
	main->capacity = SHEAF_MAX_CAPACITY + 1;
	release(test, 1);
	KUNIT_EXPECT_EQ(test, main->size, SHEAF_MAX_CAPACITY + 1);
	mend(test, main, st->cap, st->cap);
	expect_cached(test, st->cap + 1);
}

/* Both sheaves are full: use_spare() is what uses up main and gets to the spare. */
static struct slab_sheaf *get_spare(struct kunit *test)
{
	struct slab_test *st = with_hardened_cache(test);
	struct slab_sheaf *spare;

	hold_and_drain(test, 2 * st->cap);
	release(test, 2 * st->cap);
	spare = sheaves_here(st)->spare;
	KUNIT_ASSERT_NOT_NULL(test, spare);
	return spare;
}

static void use_spare(struct kunit *test)
{
	grab(test, ((struct slab_test *)test->priv)->cap + 1);
}

/* Who overflows what is in front of a sheaf gets to this first. */
static void cache_of_spare(struct kunit *test)
{
	struct slab_sheaf *spare = get_spare(test);
	unsigned int cap = spare->capacity;

	spare->cache = (void *)spare;
	use_spare(test);
	KUNIT_EXPECT_PTR_EQ(test, spare->cache, (void *)spare);
	mend(test, spare, cap, cap);
}

static void size_of_spare(struct kunit *test)
{
	struct slab_sheaf *spare = get_spare(test);
	unsigned int cap = spare->capacity;

	spare->size = cap + 1;
	use_spare(test);
	KUNIT_EXPECT_EQ(test, spare->size, cap + 1);
	mend(test, spare, cap, cap);
}

static void size_of_sheaf_in_barn(struct kunit *test)
{
	struct slab_test *st = with_hardened_cache(test);
	struct node_barn *barn = barn_of(st->cache, st->cpu);
	struct slab_sheaf *full;

	hold_and_drain(test, 3 * st->cap);
	release(test, 3 * st->cap);
	KUNIT_ASSERT_EQ(test, nr_full_sheaves(st->cache), 1);
	full = list_first_entry(&barn->sheaves_full, struct slab_sheaf, barn_list);
	full->capacity = 1;
	grab(test, 2 * st->cap + 1);
	KUNIT_EXPECT_EQ(test, full->capacity, 1);
	mend(test, full, st->cap, st->cap);
}

static void size_of_empty_sheaf_in_barn(struct kunit *test)
{
	struct slab_test *st = with_hardened_cache(test);
	struct node_barn *barn = barn_of(st->cache, st->cpu);
	struct slab_sheaf *empty;

	/* There is an empty one now, in exchange for the full one. */
	hold_and_drain(test, 3 * st->cap);
	release(test, 3 * st->cap);
	grab(test, 3 * st->cap);
	KUNIT_ASSERT_GE(test, barn->nr_empty, 1);
	empty = list_first_entry(&barn->sheaves_empty, struct slab_sheaf, barn_list);
	empty->size = st->cap + 1;
	release(test, 3 * st->cap);
	KUNIT_EXPECT_EQ(test, empty->size, st->cap + 1);
	mend(test, empty, 0, st->cap);
	expect_cached(test, 3 * st->cap);
}

/*
 * An object is freed twice by one call, and @more after it. The first time fills a
 * sheaf, so that the second time begins with another one.
 */
static void free_twice_by_bulk(struct kunit *test, unsigned int more)
{
	struct slab_test *st = with_hardened_cache(test);
	unsigned int i;
	void *p[3];

	skip_if_double_free_is_seen(test);
	hold_and_drain(test, st->cap + more);
	release(test, st->cap - 1);
	p[0] = let_go(st);
	p[1] = p[0];
	for (i = 0; i < more; i++)
		p[2 + i] = let_go(st);
	st->nr_ignored = 1;
	kmem_cache_free_bulk(st->cache, 2 + more, p);
	expect_cached(test, st->cap + more);
}

static void freed_twice_by_bulk(struct kunit *test)
{
	free_twice_by_bulk(test, 0);
}

static void freed_twice_by_bulk_and_more(struct kunit *test)
{
	free_twice_by_bulk(test, 1);
}

static struct slab_test *with_hardened_rcu(struct kunit *test)
{
	if (!IS_ENABLED(CONFIG_SLAB_RCU_SHEAVES) || IS_ENABLED(CONFIG_PREEMPT_RT))
		kunit_skip(test, "kfree_rcu() may not use sheaves");
	if (IS_ENABLED(CONFIG_DEBUG_OBJECTS_RCU_HEAD))
		kunit_skip(test, "debugobjects find it out before");
	skip_if_double_free_is_seen(test);
	return with_hardened_cache(test);
}

/* One that was wiped has no room, either. */
static void capacity_of_rcu_free(struct kunit *test)
{
	struct slab_test *st = with_hardened_rcu(test);
	struct slab_sheaf *rcu_free;
	struct object *first, *second;

	hold_and_drain(test, 2);
	first = let_go(st);
	second = let_go(st);
	kfree_rcu(first, rcu);
	rcu_free = sheaves_here(st)->rcu_free;
	KUNIT_ASSERT_NOT_NULL(test, rcu_free);
	rcu_free->capacity = 0;
	kfree_rcu(second, rcu);
	KUNIT_EXPECT_PTR_NE(test, sheaves_here(st)->rcu_free, rcu_free);
	KUNIT_EXPECT_EQ(test, rcu_free->size, 1);
	kvfree_rcu_barrier();
	mend(test, rcu_free, 0, st->cap);
	kmem_cache_free(st->cache, first);
	expect_cached(test, 2);
}

static void freed_twice_by_rcu(struct kunit *test)
{
	struct slab_test *st = with_hardened_rcu(test);
	struct object *obj;

	hold_and_drain(test, 2 * st->cap);
	obj = let_go(st);
	kfree_rcu(obj, rcu);
	kfree_rcu(obj, rcu);
	kvfree_rcu_barrier();
	expect_cached(test, 1);
}

/* The first time fills the sheaf. Nobody frees it before the second. */
static void freed_twice_by_rcu_across_sheaves(struct kunit *test)
{
	struct slab_test *st = with_hardened_rcu(test);
	struct object *obj;
	unsigned int i;

	hold_and_drain(test, st->cap);
	rcu_read_lock();
	for (i = 0; i < st->cap; i++) {
		obj = let_go(st);
		kfree_rcu(obj, rcu);
	}
	kfree_rcu(obj, rcu);
	rcu_read_unlock();
	kvfree_rcu_barrier();
	expect_cached(test, st->cap);
}

/* One of the two is left, whichever came first. */
static void freed_by_rcu_and_otherwise(struct kunit *test)
{
	struct slab_test *st = with_hardened_rcu(test);
	struct object *obj;

	if (IS_ENABLED(CONFIG_DEBUG_KMEMLEAK))
		kunit_skip(test, "kmemleak finds it out before, and that is a splat");
	hold_and_drain(test, 2);
	obj = let_go(st);
	kmem_cache_free(st->cache, obj);
	kfree_rcu(obj, rcu);
	kvfree_rcu_barrier();
	expect_cached(test, 1);
	obj = let_go(st);
	kfree_rcu(obj, rcu);
	kmem_cache_free(st->cache, obj);
	kvfree_rcu_barrier();
	expect_cached(test, 2);
}

/* What a sheaf held is not found where it was. */
static void freed_sheaf_is_wiped(struct kunit *test)
{
	struct kmem_cache_args args = { .sheaf_capacity = 500 };
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, &args);
	struct slab_sheaf *main, *found = NULL;
	unsigned int i, nr, stale = 0;
	void **others;

	skip_without_sheaves(test);
	if (IS_ENABLED(CONFIG_KASAN))
		kunit_skip(test, "KASAN keeps what is freed away from others");
	hold_and_drain(test, st->cap);
	release(test, st->cap);
	main = sheaves_here(st)->main;
	KUNIT_ASSERT_EQ(test, main->size, st->cap);
	others = new_array(test, 64);
	/* The memory stays what it is for a grace period, and is used again before. */
	kmem_cache_shrink(st->cache);
	for (nr = 0; nr < 64 && !found; nr++) {
		others[nr] = kmalloc_nosheaf(struct_size(main, objects, st->cap), GFP_KERNEL);
		if (others[nr] == main)
			found = others[nr];
	}
	for (i = 0; found && i < st->cap; i++)
		stale += !!found->objects[i];
	KUNIT_EXPECT_EQ(test, stale, 0);
	while (nr--)
		if (others[nr])
			kfree_nosheaf(others[nr]);
	if (!found)
		kunit_skip(test, "the memory of the sheaf went back with its slab");
}

/* Whoever overflows an object overflows neither a barn nor the way to it. */
static void no_user_data_beside_barns(struct kunit *test)
{
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	struct node_barn *barn;
	struct kmem_cache *of_barn, *of_barns;

	skip_without_sheaves(test);
	barn = barn_of(st->cache, st->cpu);
	of_barn = virt_to_slab(barn)->slab_cache;
	of_barns = virt_to_slab(st->cache->barns)->slab_cache;
	KUNIT_EXPECT_STREQ(test, of_barn->name, "sheaf-barn");
	KUNIT_EXPECT_STREQ(test, of_barns->name, "sheaf-barns");
	KUNIT_EXPECT_TRUE(test, slab_unmergeable(of_barn));
	KUNIT_EXPECT_TRUE(test, slab_unmergeable(of_barns));
	KUNIT_EXPECT_EQ(test, sheaf_capacity(of_barn), 0);
	KUNIT_EXPECT_EQ(test, sheaf_capacity(of_barns), 0);
}

static struct kunit_case harden_cases[] = {
	KUNIT_CASE(size_of_main_before_alloc),
	KUNIT_CASE(size_of_main_before_free),
	KUNIT_CASE(size_of_main_before_bulk),
	KUNIT_CASE(capacity_of_main),
	KUNIT_CASE(cache_of_spare),
	KUNIT_CASE(size_of_spare),
	KUNIT_CASE(size_of_sheaf_in_barn),
	KUNIT_CASE(size_of_empty_sheaf_in_barn),
	KUNIT_CASE(freed_twice_by_bulk),
	KUNIT_CASE(freed_twice_by_bulk_and_more),
	KUNIT_CASE(capacity_of_rcu_free),
	KUNIT_CASE(freed_twice_by_rcu),
	KUNIT_CASE(freed_twice_by_rcu_across_sheaves),
	KUNIT_CASE(freed_by_rcu_and_otherwise),
	KUNIT_CASE(freed_sheaf_is_wiped),
	KUNIT_CASE(no_user_data_beside_barns),
	{}
};

static struct kunit_suite harden_suite = {
	.name = "slab_sheaf_harden",
	.init = slab_test_init,
	.exit = finish_cache,
	.test_cases = harden_cases,
};

kunit_test_suite(harden_suite);

MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
MODULE_DESCRIPTION("KUnit tests of sheaves: what a bug elsewhere has done to them");
MODULE_LICENSE("GPL");
