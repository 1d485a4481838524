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
	st->broken_on_purpose = true;
	disarm_fault();
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

	skip_if_smaller(test, 6);
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

	skip_if_smaller(test, 6);
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

	skip_if_smaller(test, 6);
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

/* Whoever gives sheaves of many caches back asks their objects. */
static void cache_of_sheaf_given_back(struct kunit *test)
{
	struct slab_sheaf *spare = get_spare(test);
	unsigned int cap = spare->capacity;

	name_another_cache(spare);
	kmem_cache_shrink(((struct slab_test *)test->priv)->cache);
	KUNIT_EXPECT_EQ(test, spare->size, cap);
	expect_cached(test, 0);
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

	skip_if_smaller(test, 2);
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

/* What an array begins with has filled a sheaf before, on its own. */
static void freed_and_then_by_bulk(struct kunit *test)
{
	struct slab_test *st = with_hardened_cache(test);
	void *p[2];

	/* Of more than a sheaf holds, the end is freed first. */
	skip_if_smaller(test, 2);
	skip_if_double_free_is_seen(test);
	hold_and_drain(test, st->cap + 1);
	release(test, st->cap - 1);
	p[0] = let_go(st);
	p[1] = let_go(st);
	kmem_cache_free(st->cache, p[0]);
	st->nr_ignored = 1 - ignored_early(1);
	kmem_cache_free_bulk(st->cache, 2, p);
	expect_cached(test, st->cap + 1);
}

/* Many are freed a sheaf's worth at a time, from the end of the array. */
static void freed_twice_by_bulk_beyond_a_sheaf(struct kunit *test)
{
	struct slab_test *st = with_hardened_cache(test);
	unsigned int i;
	void **p;

	skip_if_double_free_is_seen(test);
	hold_and_drain(test, st->cap);
	p = new_array(test, st->cap + 1);
	for (i = 0; i < st->cap; i++)
		p[i + 1] = let_go(st);
	p[0] = p[1];
	kmem_cache_free_bulk(st->cache, st->cap + 1, p);
	expect_cached(test, st->cap);
}

/*
 * What sheaves do not accept is sorted out: here, it changes places with one of two that are
 * the same.
 */
static void freed_twice_by_bulk_with_one_of_another_node(struct kunit *test)
{
	struct slab_test *st = with_hardened_cache(test);
	int node, here = cpu_to_node(st->cpu);
	struct slab_sheaf *remote;
	void *p[4];

	skip_if_smaller(test, 3);
	skip_if_double_free_is_seen(test);
	if (!has_memory(here))
		kunit_skip(test, "sheaves accept all objects where there is no memory");
	for_each_node_state(node, N_NORMAL_MEMORY)
		if (node != here)
			break;
	if (node >= MAX_NUMNODES)
		kunit_skip(test, "no other node has memory");
	hold_and_drain(test, 2);
	grab_on(test, node, 1);
	p[0] = let_go(st);
	p[1] = let_go(st);
	p[2] = let_go(st);
	p[3] = p[2];
	KUNIT_ASSERT_TRUE(test, nid_of(p[1]) == here && nid_of(p[2]) == here);
	kmem_cache_free_bulk(st->cache, 4, p);
	remote = sheaves_here(st)->remote;
	expect_cached(test, 2 + (remote ? remote->size : 0));
}

/* On the way to another node: also where it was the last one that the sheaf had room for. */
static void freed_twice_on_the_way_home(struct kunit *test)
{
	struct slab_test *st = with_hardened_cache(test);
	int here = cpu_to_node(st->cpu), node = find_other_memory(here, NUMA_NO_NODE);
	unsigned int i, n = 2 * st->cap + 1;
	void *object;

	skip_if_double_free_is_seen(test);
	if (!has_memory(here) || node == NUMA_NO_NODE)
		kunit_skip(test, "no object is remote, or all are");
	grab_on(test, node, n);
	kmem_cache_shrink(st->cache);
	for (i = 0; i < n; i++) {
		object = let_go(st);
		kmem_cache_free(st->cache, object);
		kmem_cache_free(st->cache, object);
	}
	expect_cached(test, n);
	/* Where the sheaf is full the second time is not counted. */
	n -= n / st->cap;
	st->nr_ignored = n - ignored_early(n);
}

/* One that was wiped has no room, and no object that says where it should go. */
static void size_of_remote_that_was_wiped(struct kunit *test)
{
	struct slab_test *st = with_hardened_cache(test);
	int here = cpu_to_node(st->cpu), node = find_other_memory(here, NUMA_NO_NODE);
	struct slab_sheaf *remote;

	skip_if_smaller(test, 3);
	if (!has_memory(here) || node == NUMA_NO_NODE)
		kunit_skip(test, "no object is remote, or all are");
	grab_on(test, node, 3);
	kmem_cache_shrink(st->cache);
	release(test, 1);
	remote = sheaves_here(st)->remote;
	KUNIT_ASSERT_NOT_NULL(test, remote);
	remote->size = 0;
	remote->capacity = 0;
	release(test, 2);
	KUNIT_EXPECT_PTR_NE(test, sheaves_here(st)->remote, remote);
	expect_cached(test, 2);
	kmem_cache_shrink(st->cache);
	mend(test, remote, 1, st->cap);
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

/* Where a sheaf of one object is full at once, none collects. */
static struct slab_test *with_collecting_cache(struct kunit *test)
{
	struct slab_test *st = with_hardened_rcu(test);

	skip_if_smaller(test, 2);
	return st;
}

/*
 * A sheaf that collects @obj, which was let go, or NULL if there is none. Others are not to
 * look at it soon; and whoever takes it away nevertheless waits until let_others() is called.
 * To bring it interrupts have to be on.
 */
static struct slab_sheaf *start_collecting(struct slab_test *st, struct object *obj,
					   unsigned long *flags)
{
	struct slab_sheaf *rcu_free;

	kvfree_rcu_barrier();
	preempt_disable();
	kfree_rcu(obj, rcu);
	local_irq_save(*flags);
	rcu_free = sheaves_here(st)->rcu_free;
	return rcu_free && rcu_free->size == 1 ? rcu_free : NULL;
}

static void let_others(unsigned long flags)
{
	local_irq_restore(flags);
	preempt_enable();
}

/* It says that it has no room, and @size objects, when the second one comes. */
static bool one_without_room_is_not_stored_to(struct kunit *test, unsigned int size)
{
	struct slab_test *st = test->priv;
	struct slub_percpu_sheaves *pcs = sheaves_here(st);
	struct object *first, *second;
	struct slab_sheaf *rcu_free;
	unsigned int nr_done;
	unsigned long flags;
	bool left_alone;

	kmem_cache_shrink(st->cache);
	hold_and_drain(test, 2);
	first = let_go(st);
	second = let_go(st);
	rcu_free = start_collecting(st, first, &flags);
	nr_done = pcs->rcu_done;
	if (rcu_free) {
		rcu_free->size = size;
		rcu_free->capacity = 0;
	}
	local_irq_restore(flags);
	kfree_rcu(second, rcu);
	left_alone = pcs->rcu_done != nr_done;
	/* Somebody has taken it away: it is mended before the grace period is over. */
	if (rcu_free && !left_alone) {
		rcu_free->size = 1;
		rcu_free->capacity = st->cap;
	}
	preempt_enable();
	kvfree_rcu_barrier();
	if (!rcu_free || !left_alone)
		return false;
	KUNIT_EXPECT_EQ(test, rcu_free->size, size);
	mend(test, rcu_free, 0, st->cap);
	kmem_cache_free(st->cache, first);
	expect_cached(test, 2);
	return true;
}

static bool wiped_one_is_not_stored_to(struct kunit *test)
{
	return one_without_room_is_not_stored_to(test, 0);
}

static bool one_with_too_many_is_not_stored_to(struct kunit *test)
{
	return one_without_room_is_not_stored_to(test, 1);
}

static void capacity_of_rcu_free(struct kunit *test)
{
	with_collecting_cache(test);
	expect_in_rounds(test, FEW_ROUNDS, wiped_one_is_not_stored_to);
	expect_in_rounds(test, FEW_ROUNDS, one_with_too_many_is_not_stored_to);
}

/*
 * It waits for a grace period, and nothing but the sheaf says whose it is. Returns whether it
 * could be spoiled and, where others may mend it (@mendable), has stayed so.
 */
static bool sheaf_with_rcu_is_given_up(struct kunit *test,
				       void (*spoil)(struct slab_sheaf *sheaf), bool mendable)
{
	struct slab_test *st = test->priv;
	struct slab_sheaf *sheaf;
	struct object **objects;
	unsigned int i, size = 0;
	unsigned long flags;
	bool spoiled;

	objects = (struct object **)new_array(test, st->cap);
	kmem_cache_shrink(st->cache);
	hold_and_drain(test, st->cap);
	for (i = 0; i < st->cap; i++)
		objects[i] = let_go(st);
	sheaf = start_collecting(st, objects[0], &flags);
	for (i = 1; i < st->cap; i++)
		kfree_rcu(objects[i], rcu);
	spoiled = sheaf && sheaf->size == st->cap;
	if (spoiled) {
		spoil(sheaf);
		size = sheaf->size;
	}
	let_others(flags);
	kvfree_rcu_barrier();
	/* Who finds the link takes the name of the cache away, too. */
	if (!spoiled || (mendable && (cached_objects(st->cache) || sheaf->cache)))
		return false;
	KUNIT_ASSERT_EQ(test, cached_objects(st->cache), 0);
	KUNIT_EXPECT_EQ(test, sheaf->size, size);
	mend(test, sheaf, 0, st->cap);
	for (i = 0; i < st->cap; i++)
		kmem_cache_free(st->cache, objects[i]);
	expect_cached(test, st->cap);
	return true;
}

static bool one_of_another_cache_is_given_up(struct kunit *test)
{
	return sheaf_with_rcu_is_given_up(test, name_another_cache, false);
}

static void cache_of_sheaf_with_rcu(struct kunit *test)
{
	with_collecting_cache(test);
	expect_in_rounds(test, FEW_ROUNDS, one_of_another_cache_is_given_up);
}

static void take_room_away(struct slab_sheaf *sheaf)
{
	sheaf->capacity = 0;
}

static bool one_with_too_many_is_given_up(struct kunit *test)
{
	return sheaf_with_rcu_is_given_up(test, take_room_away, false);
}

static void capacity_of_sheaf_with_rcu(struct kunit *test)
{
	with_collecting_cache(test);
	expect_in_rounds(test, FEW_ROUNDS, one_with_too_many_is_given_up);
}

/* It has no object that tells whose it is, and what it names is no cache. */
static void name_no_cache(struct slab_sheaf *sheaf)
{
	sheaf->cache = (void *)&sheaf->cache->flags;
	sheaf->size = 0;
}

static bool one_of_no_cache_is_given_up(struct kunit *test)
{
	return sheaf_with_rcu_is_given_up(test, name_no_cache, false);
}

static void no_cache_of_sheaf_with_rcu(struct kunit *test)
{
	with_collecting_cache(test);
	expect_in_rounds(test, FEW_ROUNDS, one_of_no_cache_is_given_up);
}

/* It is the last one that waits. */
static void lead_to_itself(struct slab_sheaf *sheaf)
{
	sheaf->next = sheaf;
}

/* One that is queued behind it, or that a barrier finds on another CPU, mends it. */
static bool one_that_leads_to_itself_is_given_up(struct kunit *test)
{
	return sheaf_with_rcu_is_given_up(test, lead_to_itself, true);
}

/* It is not freed again and again. */
static void link_of_sheaf_with_rcu(struct kunit *test)
{
	with_collecting_cache(test);
	expect_in_rounds(test, FEW_ROUNDS, one_that_leads_to_itself_is_given_up);
}

/* The test says what it finds. Others would soon, and are taken seriously. */
static void look_before_others(unsigned long flags)
{
	kfree_rcu_sheaves_scan(ULONG_MAX);
	let_others(flags);
}

/* Taken away, it would be stored to while it waits. */
static bool rcu_free_stays_where_it_is(struct kunit *test,
				       void (*spoil)(struct slab_sheaf *sheaf))
{
	struct slab_test *st = test->priv;
	struct slab_sheaf *rcu_free;
	struct object **objects;
	unsigned long flags;
	unsigned int i;

	objects = (struct object **)new_array(test, st->cap);
	kmem_cache_shrink(st->cache);
	hold_and_drain(test, st->cap);
	objects[0] = let_go(st);
	rcu_free = start_collecting(st, objects[0], &flags);
	if (rcu_free)
		spoil(rcu_free);
	look_before_others(flags);
	kvfree_rcu_barrier();
	if (!rcu_free)
		return false;
	KUNIT_ASSERT_PTR_EQ(test, sheaves_here(st)->rcu_free, rcu_free);
	/* Nobody has it wait while it is stored to. */
	KUNIT_ASSERT_TRUE(test, list_empty(&rcu_free->barn_list));

	/* The last one finds out whose it is not. */
	for (i = 1; i < st->cap; i++) {
		objects[i] = let_go(st);
		kfree_rcu(objects[i], rcu);
	}
	KUNIT_EXPECT_PTR_NE(test, sheaves_here(st)->rcu_free, rcu_free);
	KUNIT_EXPECT_EQ(test, rcu_free->size, st->cap - 1);
	kvfree_rcu_barrier();
	expect_cached(test, 1);
	mend(test, rcu_free, 0, st->cap);
	for (i = 0; i < st->cap - 1; i++)
		kmem_cache_free(st->cache, objects[i]);
	expect_cached(test, st->cap);
	return true;
}

static bool one_of_another_cache_stays(struct kunit *test)
{
	return rcu_free_stays_where_it_is(test, name_another_cache);
}

static void cache_of_rcu_free(struct kunit *test)
{
	with_collecting_cache(test);
	expect_in_rounds(test, FEW_ROUNDS, one_of_another_cache_stays);
}

/* There is nothing to read. */
static void name_nowhere(struct slab_sheaf *sheaf)
{
	sheaf->cache = (void *)sizeof(long);
}

static bool one_of_nowhere_stays(struct kunit *test)
{
	return rcu_free_stays_where_it_is(test, name_nowhere);
}

static void no_cache_of_rcu_free(struct kunit *test)
{
	with_collecting_cache(test);
	expect_in_rounds(test, FEW_ROUNDS, one_of_nowhere_stays);
}

static void freed_twice_by_rcu(struct kunit *test)
{
	struct slab_test *st = with_hardened_rcu(test);
	struct slab_sheaf *sheaf;
	struct object *obj;

	hold_and_drain(test, 2 * st->cap);
	obj = let_go(st);
	kfree_rcu(obj, rcu);
	sheaf = READ_ONCE(sheaves_here(st)->rcu_free);
	kfree_rcu(obj, rcu);
	/* It is collected once, not only freed once. Somebody may have taken it away. */
	if (sheaf && sheaf == READ_ONCE(sheaves_here(st)->rcu_free))
		KUNIT_EXPECT_EQ(test, READ_ONCE(sheaf->size), 1);
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

/*
 * What SLAB_SHEAF_HARDENED does besides
 */

static struct slab_test *with_encoded_cache(struct kunit *test)
{
	if (!IS_ENABLED(CONFIG_SLAB_SHEAF_HARDENED))
		kunit_skip(test, "SLAB_SHEAF_HARDENED is not set");
	return with_hardened_cache(test);
}

static struct slab_test *with_marked_cache(struct kunit *test)
{
	if (!IS_ENABLED(CONFIG_SLAB_SHEAF_MARKS))
		kunit_skip(test, "SLAB_SHEAF_MARKS is not set");
	skip_if_double_free_is_seen(test);
	return with_hardened_cache(test);
}

/* Freed again, with others freed in between. */
static void freed_twice_not_in_a_row(struct kunit *test)
{
	struct slab_test *st = with_marked_cache(test);
	struct object *obj;

	skip_if_smaller(test, 3);
	hold_and_drain(test, 2);
	obj = let_go(st);
	kmem_cache_free(st->cache, obj);
	release(test, 1);
	kmem_cache_free(st->cache, obj);
	expect_cached(test, 2);
	st->nr_ignored = 1 - ignored_early(1);
}

static bool is_in_barn(struct slab_test *st, const void *object)
{
	struct node_barn *barn = barn_of(st->cache, st->cpu);
	struct slab_sheaf *sheaf;
	unsigned int i;

	list_for_each_entry(sheaf, &barn->sheaves_full, barn_list)
		for (i = 0; i < sheaf->size; i++)
			if (sheaf_object(st->cache, sheaf, i) == object)
				return true;
	return false;
}

/* In a barn it is free, too. */
static void freed_twice_in_barn(struct kunit *test)
{
	struct slab_test *st = with_marked_cache(test);
	struct object *obj;

	hold_and_drain(test, 3 * st->cap);
	release(test, st->cap);
	obj = let_go(st);
	kmem_cache_free(st->cache, obj);
	release(test, 2 * st->cap - 1);
	KUNIT_ASSERT_TRUE(test, is_in_barn(st, obj));
	grab(test, 1);
	kmem_cache_free(st->cache, obj);
	expect_cached(test, 3 * st->cap - 1);
	st->nr_ignored = 1 - ignored_early(1);
}

static void freed_twice_by_bulk_not_in_a_row(struct kunit *test)
{
	struct slab_test *st = with_marked_cache(test);
	void *p[4];

	hold_and_drain(test, 3);
	p[0] = let_go(st);
	p[1] = let_go(st);
	p[2] = p[0];
	p[3] = let_go(st);
	st->nr_ignored = 1;
	kmem_cache_free_bulk(st->cache, 4, p);
	expect_cached(test, 3);
}

/* Whoever finds the sheaves in use frees to slabs, but not what is in a sheaf. */
static void freed_twice_to_slab(struct kunit *test)
{
	struct slab_test *st = with_marked_cache(test);
	struct object *obj;

	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		kunit_skip(test, "the lock of the sheaves is another one");
	hold_and_drain(test, 2);
	obj = let_go(st);
	kmem_cache_free(st->cache, obj);
	take_moves(test);
	local_lock(&st->cache->cpu_sheaves->lock);
	kmem_cache_free(st->cache, obj);
	local_unlock(&st->cache->cpu_sheaves->lock);
	expect_moves(test);
	expect_cached(test, 1);
}

static void freed_twice_by_rcu_not_in_a_row(struct kunit *test)
{
	struct slab_test *st;
	struct object *a, *b;

	if (!IS_ENABLED(CONFIG_SLAB_SHEAF_MARKS))
		kunit_skip(test, "SLAB_SHEAF_MARKS is not set");
	st = with_hardened_rcu(test);
	hold_and_drain(test, 3);
	a = let_go(st);
	b = let_go(st);
	kfree_rcu(a, rcu);
	kfree_rcu(b, rcu);
	kfree_rcu(a, rcu);
	kvfree_rcu_barrier();
	expect_cached(test, 2);
}

/* That it is free already is seen at once. */
static void freed_and_then_by_rcu(struct kunit *test)
{
	struct slab_test *st;
	struct slab_sheaf *rcu_free;
	struct object *obj;

	if (!IS_ENABLED(CONFIG_SLAB_SHEAF_MARKS))
		kunit_skip(test, "SLAB_SHEAF_MARKS is not set");
	if (IS_ENABLED(CONFIG_DEBUG_KMEMLEAK))
		kunit_skip(test, "kmemleak complains of an object that is free");
	st = with_hardened_rcu(test);
	hold_and_drain(test, 2);
	obj = let_go(st);
	kmem_cache_free(st->cache, obj);
	release(test, 1);
	kfree_rcu(obj, rcu);
	rcu_free = sheaves_here(st)->rcu_free;
	KUNIT_EXPECT_TRUE(test, !rcu_free || !rcu_free->size);
	kvfree_rcu_barrier();
	expect_cached(test, 2);
}

/* What waits for a grace period may be nobody's object by then, and is not written to. */
static void no_object_in_rcu_free(struct kunit *test)
{
	struct slab_test *st;
	struct slab_sheaf *rcu_free;
	struct object *a, *b;
	char *page;

	if (!IS_ENABLED(CONFIG_SLAB_SHEAF_MARKS))
		kunit_skip(test, "SLAB_SHEAF_MARKS is not set");
	st = with_hardened_rcu(test);
	skip_if_smaller(test, 3);
	page = (char *)get_zeroed_page(GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, page);
	memset(page, 0x5a, PAGE_SIZE);
	hold_and_drain(test, 2);
	a = let_go(st);
	b = let_go(st);
	kfree_rcu(a, rcu);
	kfree_rcu(b, rcu);
	rcu_free = sheaves_here(st)->rcu_free;
	if (rcu_free && rcu_free->size == 2)
		rcu_free->objects[0] = sheaf_code(st->cache, &rcu_free->objects[0], page);
	kvfree_rcu_barrier();
	KUNIT_EXPECT_NULL(test, memchr_inv(page, 0x5a, PAGE_SIZE));
	expect_cached(test, 1);
	kmem_cache_free(st->cache, a);
	free_page((unsigned long)page);
}

static void expect_marks(struct kunit *test, void **p, unsigned int nr, bool marked)
{
	struct slab_test *st = test->priv;
	unsigned int i;

	for (i = 0; i < nr; i++)
		KUNIT_EXPECT_EQ(test, sheaf_is_marked(st->cache, p[i]), marked);
}

/* Who gets an object finds no mark, nor does who gets it from elsewhere than from a sheaf. */
static void marks_come_and_go(struct kunit *test)
{
	struct slab_test *st = with_marked_cache(test);
	unsigned int i;
	void **p;

	p = new_array(test, st->cap);
	hold_and_drain(test, st->cap);
	for (i = 0; i < st->cap; i++)
		p[i] = let_go(st);
	expect_marks(test, p, st->cap, false);
	kmem_cache_free_bulk(st->cache, st->cap, p);
	expect_marks(test, p, st->cap, true);
	grab(test, st->cap);
	expect_marks(test, p, st->cap, false);

	/* On the way to slabs, where nothing else might be written to that word. */
	__sheaf_encode(st->cache, p, st->cap);
	__sheaf_code(st->cache, p, st->cap);
	expect_marks(test, p, st->cap, true);
	__sheaf_code(st->cache, p, st->cap);
	__sheaf_decode(st->cache, p, st->cap);
	expect_marks(test, p, st->cap, false);
}

/* Who reads a slot does not learn where the object is. */
static void slots_are_encoded(struct kunit *test)
{
	struct slab_test *st = with_encoded_cache(test);
	struct slab_sheaf *main;
	void *object;
	unsigned int i;

	skip_if_smaller(test, 4);
	hold_and_drain(test, 4);
	for (i = 0; i < 4; i++) {
		object = st->held;
		release(test, 1);
		main = sheaves_here(st)->main;
		KUNIT_ASSERT_EQ(test, main->size, i + 1);
		KUNIT_EXPECT_PTR_NE(test, main->objects[i], object);
		KUNIT_EXPECT_PTR_EQ(test, sheaf_object(st->cache, main, i), object);
	}
}

/* What is copied from one slot to another is no object any more. */
static void slots_differ(struct kunit *test)
{
	struct slab_test *st = with_encoded_cache(test);
	struct slab_sheaf *main;
	void *object, *code;

	skip_if_smaller(test, 2);
	hold_and_drain(test, 2);
	object = st->held;
	release(test, 2);
	main = sheaves_here(st)->main;
	KUNIT_ASSERT_EQ(test, main->size, 2);
	code = main->objects[1];
	main->objects[1] = main->objects[0];
	KUNIT_EXPECT_PTR_NE(test, sheaf_object(st->cache, main, 1), object);
	main->objects[1] = code;
}

/* More than half a sheaf: a refill that gets less goes on with a new slab. */
#define SHUFFLED	40

/* Those of which something is held. */
static bool all_slabs_are_full(struct slab_test *st)
{
	struct object *obj;

	for (obj = st->held; obj; obj = obj->next)
		if (virt_to_slab(obj)->inuse < virt_to_slab(obj)->objects)
			return false;
	return true;
}

/* Out of what is held, so many objects of one slab, by address. Returns how many. */
static unsigned int let_go_of_one_slab(struct slab_test *st, void **p, unsigned int nr)
{
	struct slab *slab = virt_to_slab(st->held);
	struct object *others = NULL;
	unsigned int i, n = 0;

	while (st->held && n < nr) {
		struct object *obj = let_go(st);

		if (virt_to_slab(obj) != slab) {
			obj->next = others;
			others = obj;
			continue;
		}
		for (i = n++; i && p[i - 1] > (void *)obj; i--)
			p[i] = p[i - 1];
		p[i] = obj;
	}
	while (others) {
		struct object *next = others->next;

		hold(st, others);
		others = next;
	}
	return n;
}

/* Those of a slab that was used before come as they were freed, but for that. */
static void refills_are_shuffled(struct kunit *test)
{
	struct slab_test *st = with_encoded_cache(test);
	size_t size = SHUFFLED * sizeof(void *);
	unsigned int round, i, same = 0;
	void **sorted, **before, **now;

	if (!IS_ENABLED(CONFIG_SLAB_FREELIST_RANDOM))
		kunit_skip(test, "SLAB_FREELIST_RANDOM is not set");
	if (IS_ENABLED(CONFIG_KASAN))
		kunit_skip(test, "KASAN keeps what is freed away from others");
	skip_if_smaller(test, 2);
	skip_if_larger(test, 2 * SHUFFLED - 1);
	/* Nothing else is free, so the slab stays, and is what the refill comes from. */
	hold_and_drain(test, 1);
	while (cached_objects(st->cache) || !all_slabs_are_full(st))
		grab(test, 1);
	sorted = new_array(test, SHUFFLED);
	before = new_array(test, SHUFFLED);
	now = new_array(test, SHUFFLED);
	KUNIT_ASSERT_EQ(test, let_go_of_one_slab(st, sorted, SHUFFLED), SHUFFLED);
	for (round = 0; round < 20; round++) {
		for (i = 0; i < SHUFFLED; i++)
			kmem_cache_free(st->cache, sorted[i]);
		kmem_cache_shrink(st->cache);
		for (i = 0; i < SHUFFLED; i++) {
			now[i] = kmem_cache_alloc(st->cache, GFP_KERNEL);
			KUNIT_ASSERT_NOT_NULL(test, now[i]);
			KUNIT_ASSERT_PTR_EQ(test, virt_to_slab(now[i]), virt_to_slab(sorted[0]));
		}
		same += round && !memcmp(now, before, size);
		memcpy(before, now, size);
	}
	KUNIT_EXPECT_EQ(test, same, 0);
	for (i = 0; i < SHUFFLED; i++)
		KUNIT_EXPECT_TRUE(test, hold(st, now[i]));
}

static void expect_untouched(struct kunit *test, struct list_head *victim)
{
	KUNIT_EXPECT_PTR_EQ(test, victim->next, victim);
	KUNIT_EXPECT_PTR_EQ(test, victim->prev, victim);
}

/* Whoever takes a sheaf out of a barn would write to where its links say. */
static void links_in_barn(struct kunit *test)
{
	struct slab_test *st = with_encoded_cache(test);
	struct node_barn *barn = barn_of(st->cache, st->cpu);
	LIST_HEAD(victim);
	struct slab_sheaf *full;

	hold_and_drain(test, 3 * st->cap);
	release(test, 3 * st->cap);
	KUNIT_ASSERT_EQ(test, nr_full_sheaves(st->cache), 1);
	full = list_first_entry(&barn->sheaves_full, struct slab_sheaf, barn_list);
	full->barn_list.next = &victim;
	grab(test, 2 * st->cap + 1);
	expect_untouched(test, &victim);
	KUNIT_EXPECT_EQ(test, nr_full_sheaves(st->cache), 0);
	KUNIT_EXPECT_NULL(test, full->cache);
	mend(test, full, st->cap, st->cap);
}

/* The same, of an empty sheaf, and of all that are to be given back. */
static void links_of_all_in_barn(struct kunit *test)
{
	struct slab_test *st = with_encoded_cache(test);
	struct node_barn *barn = barn_of(st->cache, st->cpu);
	LIST_HEAD(victim);
	struct slab_sheaf *full, *empty;

	hold_and_drain(test, 4 * st->cap);
	release(test, 4 * st->cap);
	grab(test, 3 * st->cap);
	release(test, 2 * st->cap);
	KUNIT_ASSERT_EQ(test, nr_full_sheaves(st->cache), 1);
	KUNIT_ASSERT_EQ(test, barn->nr_empty, 1);
	full = list_first_entry(&barn->sheaves_full, struct slab_sheaf, barn_list);
	empty = list_first_entry(&barn->sheaves_empty, struct slab_sheaf, barn_list);
	full->barn_list.prev = &victim;
	empty->barn_list.next = &victim;
	kmem_cache_shrink(st->cache);
	expect_untouched(test, &victim);
	KUNIT_EXPECT_EQ(test, barn->nr_full, 0);
	KUNIT_EXPECT_EQ(test, barn->nr_empty, 0);
	mend(test, full, st->cap, st->cap);
	kmem_cache_shrink(st->cache);
	mend(test, empty, 0, st->cap);
}

/* Whoever takes one that leads to itself would find it there again, and give it to others. */
static void links_to_itself_in_barn(struct kunit *test)
{
	struct slab_test *st = with_encoded_cache(test);
	struct node_barn *barn = barn_of(st->cache, st->cpu);
	struct slab_sheaf *full;

	hold_and_drain(test, 3 * st->cap);
	release(test, 3 * st->cap);
	KUNIT_ASSERT_EQ(test, nr_full_sheaves(st->cache), 1);
	full = list_first_entry(&barn->sheaves_full, struct slab_sheaf, barn_list);
	INIT_LIST_HEAD(&full->barn_list);
	grab(test, 2 * st->cap + 1);
	KUNIT_EXPECT_TRUE(test, list_empty(&barn->sheaves_full));
	KUNIT_EXPECT_NULL(test, full->cache);
	mend(test, full, st->cap, st->cap);

	release(test, 2 * st->cap + 1);
	KUNIT_ASSERT_EQ(test, nr_full_sheaves(st->cache), 1);
	full = list_last_entry(&barn->sheaves_full, struct slab_sheaf, barn_list);
	INIT_LIST_HEAD(&full->barn_list);
	kmem_cache_shrink(st->cache);
	KUNIT_EXPECT_TRUE(test, list_empty(&barn->sheaves_full));
	KUNIT_EXPECT_NULL(test, full->cache);
	mend(test, full, st->cap, st->cap);
}

/* @counted: somebody counts what is collected before anybody takes it away. */
static bool links_of_rcu_free_are_not_followed(struct kunit *test, bool itself, bool counted)
{
	struct slab_test *st = test->priv;
	struct slab_sheaf *rcu_free;
	unsigned long flags;
	LIST_HEAD(victim);
	unsigned int i;

	kmem_cache_shrink(st->cache);
	hold_and_drain(test, st->cap);
	rcu_free = start_collecting(st, let_go(st), &flags);
	/* Nothing else is on the list, or that would be lost. */
	if (rcu_free && !list_is_singular(&rcu_free->barn_list))
		rcu_free = NULL;
	if (rcu_free && itself)
		INIT_LIST_HEAD(&rcu_free->barn_list);
	else if (rcu_free)
		rcu_free->barn_list.next = &victim;
	/* Who counts comes to an end. */
	if (rcu_free && counted)
		kfree_rcu_sheaves_count();
	look_before_others(flags);
	kvfree_rcu_barrier();
	if (!rcu_free)
		return false;
	expect_untouched(test, &victim);
	KUNIT_EXPECT_PTR_EQ(test, sheaves_here(st)->rcu_free, rcu_free);
	expect_cached(test, 0);

	/* On no list any more, which another one must not suffer for. */
	for (i = 1; i < st->cap; i++)
		kfree_rcu(let_go(st), rcu);
	kvfree_rcu_barrier();
	expect_untouched(test, &victim);
	KUNIT_EXPECT_NULL(test, sheaves_here(st)->rcu_free);
	expect_cached(test, st->cap);
	return true;
}

static bool links_to_elsewhere(struct kunit *test)
{
	return links_of_rcu_free_are_not_followed(test, false, false);
}

/* Whoever collects what kfree_rcu() frees would, too. The sheaf is used until it is full. */
static void links_of_rcu_free(struct kunit *test)
{
	with_collecting_cache(test);
	expect_in_rounds(test, FEW_ROUNDS, links_to_elsewhere);
}

static bool links_to_itself(struct kunit *test)
{
	return links_of_rcu_free_are_not_followed(test, true, false);
}

static bool links_to_itself_when_counted(struct kunit *test)
{
	return links_of_rcu_free_are_not_followed(test, true, true);
}

static void links_of_rcu_free_to_itself(struct kunit *test)
{
	with_collecting_cache(test);
	expect_in_rounds(test, FEW_ROUNDS, links_to_itself_when_counted);
	expect_in_rounds(test, FEW_ROUNDS, links_to_itself);
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
	KUNIT_EXPECT_TRUE(test, of_barn->flags & SLAB_NO_MERGE);
	KUNIT_EXPECT_TRUE(test, of_barns->flags & SLAB_NO_MERGE);
	KUNIT_EXPECT_EQ(test, sheaf_capacity(of_barn), 0);
	KUNIT_EXPECT_EQ(test, sheaf_capacity(of_barns), 0);
}

static struct kunit_case harden_cases[] = {
	KUNIT_CASE(size_of_main_before_alloc),
	KUNIT_CASE(size_of_main_before_free),
	KUNIT_CASE(size_of_main_before_bulk),
	KUNIT_CASE(capacity_of_main),
	KUNIT_CASE(cache_of_spare),
	KUNIT_CASE(cache_of_sheaf_given_back),
	KUNIT_CASE(size_of_spare),
	KUNIT_CASE(size_of_sheaf_in_barn),
	KUNIT_CASE(size_of_empty_sheaf_in_barn),
	KUNIT_CASE(freed_twice_by_bulk),
	KUNIT_CASE(freed_twice_by_bulk_and_more),
	KUNIT_CASE(freed_and_then_by_bulk),
	KUNIT_CASE(freed_twice_by_bulk_beyond_a_sheaf),
	KUNIT_CASE(freed_twice_by_bulk_with_one_of_another_node),
	KUNIT_CASE(freed_twice_on_the_way_home),
	KUNIT_CASE(size_of_remote_that_was_wiped),
	KUNIT_CASE(capacity_of_rcu_free),
	KUNIT_CASE(cache_of_sheaf_with_rcu),
	KUNIT_CASE(capacity_of_sheaf_with_rcu),
	KUNIT_CASE(no_cache_of_sheaf_with_rcu),
	KUNIT_CASE(link_of_sheaf_with_rcu),
	KUNIT_CASE(cache_of_rcu_free),
	KUNIT_CASE(no_cache_of_rcu_free),
	KUNIT_CASE(freed_twice_by_rcu),
	KUNIT_CASE(freed_twice_by_rcu_across_sheaves),
	KUNIT_CASE(freed_by_rcu_and_otherwise),
	KUNIT_CASE(freed_twice_not_in_a_row),
	KUNIT_CASE(freed_twice_in_barn),
	KUNIT_CASE(freed_twice_by_bulk_not_in_a_row),
	KUNIT_CASE(freed_twice_to_slab),
	KUNIT_CASE(freed_twice_by_rcu_not_in_a_row),
	KUNIT_CASE(freed_and_then_by_rcu),
	KUNIT_CASE(no_object_in_rcu_free),
	KUNIT_CASE(marks_come_and_go),
	KUNIT_CASE(slots_are_encoded),
	KUNIT_CASE(slots_differ),
	KUNIT_CASE(refills_are_shuffled),
	KUNIT_CASE(links_in_barn),
	KUNIT_CASE(links_of_all_in_barn),
	KUNIT_CASE(links_to_itself_in_barn),
	KUNIT_CASE(links_of_rcu_free),
	KUNIT_CASE(links_of_rcu_free_to_itself),
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
