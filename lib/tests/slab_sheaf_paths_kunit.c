// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of sheaves: the ways of an object
 *
 * Each transition between main, spare, barn and slabs, in both directions, at the edges
 * of the capacity, with several capacities, and on CPUs of nodes with and without memory.
 * One object at a time, by a task; see slab_sheaf_bulk_kunit.c for many, and
 * slab_sheaf_users_kunit.c for interrupts and for several at once.
 */

#include <kunit/static_stub.h>
#include <linux/module.h>

#include "slab_kunit.h"

/*
 * Transitions of allocation
 */

static void first_alloc_refills(struct kunit *test)
{
	struct slab_test *st = with_setup(test);
	unsigned long refilled, round;

	for (round = 0; round < 3; round++) {
		expect_cached(test, 0);
		grab(test, 1);
		refilled = count(st->cache, SHEAF_REFILL) - st->before.refill;
		KUNIT_ASSERT_GE(test, refilled, 1);
		KUNIT_ASSERT_LE(test, refilled, st->cap);
		KUNIT_EXPECT_GE(test, refilled, st->cap / 2);
		expect_moves(test, .alloc_fast = 1, .barn_get_fail = 1, .refill = refilled);
		expect_cached(test, refilled - 1);

		/* Main has them now. */
		grab(test, refilled - 1);
		expect_moves(test, .alloc_fast = refilled - 1);
	}
}

/* What was freed twice in a row is allocated once. */
static void double_free_is_ignored(struct kunit *test)
{
	struct slab_test *st = with_setup(test);
	struct object *obj;
	void *p[2];

	skip_if_smaller(test, 2);
	skip_if_not_hardened(test);
	skip_if_double_free_is_seen(test);
	hold_and_drain(test, 2);
	/* Slabs do not ignore it. */
	disarm_fault();
	st->nr_ignored = 2 - ignored_early(2);
	obj = let_go(st);
	kmem_cache_free(st->cache, obj);
	kmem_cache_free(st->cache, obj);
	expect_cached(test, 1);
	p[0] = obj;
	p[1] = obj;
	kmem_cache_free_bulk(st->cache, 2, p);
	expect_cached(test, 1);
	obj = let_go(st);
	p[0] = obj;
	p[1] = obj;
	kmem_cache_free_bulk(st->cache, 2, p);
	expect_cached(test, 2);
	grab(test, 2);
	KUNIT_EXPECT_PTR_NE(test, st->held, st->held->next);
}

static void freed_last_is_allocated_first(struct kunit *test)
{
	struct slab_test *st = with_setup(test);
	struct object *a, *b;

	hold_and_drain(test, 2);
	a = st->held;
	b = a->next;
	release(test, 2);
	grab(test, 2);
	KUNIT_EXPECT_PTR_EQ(test, st->held->next, b);
	KUNIT_EXPECT_PTR_EQ(test, st->held, a);
	expect_moves(test, .alloc_fast = 2, .free_fast = 2);
}

static void spare_replaces_empty_main(struct kunit *test)
{
	struct slab_test *st = with_setup(test);

	hold_and_drain(test, 2 * st->cap);
	release(test, 2 * st->cap);
	take_moves(test);
	grab(test, st->cap);
	expect_moves(test, .alloc_fast = st->cap);
	grab(test, 1);
	expect_moves(test, .alloc_fast = 1);
	grab(test, st->cap - 1);
	expect_moves(test, .alloc_fast = st->cap - 1);
	expect_cached(test, 0);
}

static void barn_replaces_empty_main(struct kunit *test)
{
	struct slab_test *st = with_setup(test);
	struct node_barn *barn = barn_of(st->cache, st->cpu);
	unsigned int i;

	hold_and_drain(test, 5 * st->cap);
	release(test, 5 * st->cap);
	KUNIT_EXPECT_EQ(test, barn->nr_full, 3);
	take_moves(test);
	grab(test, 2 * st->cap);
	expect_moves(test, .alloc_fast = 2 * st->cap);
	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, barn->nr_full, 3 - i);
		grab(test, 1);
		expect_moves(test, .alloc_fast = 1, .barn_get = 1);
		grab(test, st->cap - 1);
		expect_moves(test, .alloc_fast = st->cap - 1);
	}
	KUNIT_EXPECT_EQ(test, barn->nr_full, 0);
	expect_cached(test, 0);
}

/* Neither a sheaf nor a barn takes it. Slabs do, for what goes on their lists. */
static void list_lock_is_counted(struct kunit *test)
{
	struct slab_test *st = with_setup(test);
	unsigned int objects, nr_slabs = 4;
	struct moves m;

	/* A new slab, the rest of which gets on a list. */
	grab(test, 1);
	objects = virt_to_slab(st->held)->objects;
	m = take_moves(test);
	if (m.refill < objects)
		KUNIT_EXPECT_EQ(test, m.list_lock, 1);

	/* All objects stay in sheaves. */
	hold_and_drain(test, 4 * st->cap);
	release(test, 4 * st->cap);
	grab(test, 4 * st->cap);
	m = take_moves(test);
	KUNIT_EXPECT_EQ(test, m.barn_get, 2);
	KUNIT_EXPECT_EQ(test, m.list_lock, 0);

	/* The first free of a slab of which all objects are in use. */
	hold_and_drain(test, (nr_slabs + 2) * objects);
	release(test, nr_slabs * objects);
	kmem_cache_shrink(st->cache);
	m = take_moves(test);
	KUNIT_EXPECT_GE(test, m.list_lock, nr_slabs);
}

/*
 * Transitions of freeing
 */

static void free_to_main(struct kunit *test)
{
	struct slab_test *st = with_setup(test);

	hold_and_drain(test, st->cap);
	release(test, 1);
	expect_moves(test, .free_fast = 1);
	expect_cached(test, 1);
	release(test, st->cap - 1);
	expect_moves(test, .free_fast = st->cap - 1);
	expect_cached(test, st->cap);
}

static void spare_replaces_full_main(struct kunit *test)
{
	struct slab_test *st = with_setup(test);
	unsigned int round;

	/* The first time, there is no spare. The second time, there is. */
	hold_and_drain(test, 2 * st->cap);
	for (round = 0; round < 2; round++) {
		release(test, st->cap);
		expect_moves(test, .free_fast = st->cap);
		release(test, 1);
		expect_moves(test, .free_fast = 1);
		release(test, st->cap - 1);
		expect_moves(test, .free_fast = st->cap - 1);
		expect_cached(test, 2 * st->cap);
		grab(test, 2 * st->cap);
		expect_moves(test, .alloc_fast = 2 * st->cap);
	}
}

static void barn_takes_full_main(struct kunit *test)
{
	struct slab_test *st = with_setup(test);
	struct node_barn *barn = barn_of(st->cache, st->cpu);
	unsigned int round, i;

	/* The first time, sheaves are allocated. The second time, the barn has. */
	hold_and_drain(test, 5 * st->cap);
	for (round = 0; round < 2; round++) {
		release(test, 2 * st->cap);
		expect_moves(test, .free_fast = 2 * st->cap);
		for (i = 0; i < 3; i++) {
			KUNIT_EXPECT_EQ(test, barn->nr_full, i);
			release(test, 1);
			expect_moves(test, .free_fast = 1, .barn_put = 1);
			release(test, st->cap - 1);
			expect_moves(test, .free_fast = st->cap - 1);
		}
		expect_cached(test, 5 * st->cap);
		grab(test, 5 * st->cap);
		expect_moves(test, .alloc_fast = 5 * st->cap, .barn_get = 3);
	}
}

/* How many full sheaves the barns accept that a CPU frees to. */
static unsigned int room_in_barns(struct kunit *test)
{
	struct slab_test *st = test->priv;
	int home;

	grab(test, 1);
	home = page_to_nid(virt_to_page(st->held));
	release(test, 1);
	kmem_cache_shrink(st->cache);
	take_moves(test);
	return barn_of(st->cache, st->cpu)->max_full +
	       (home == cpu_to_node(st->cpu) ? 0 : st->cache->barns[home]->max_full);
}

static void full_barn_flushes(struct kunit *test)
{
	struct slab_test *st = with_setup(test);
	struct node_barn *barn = barn_of(st->cache, st->cpu);
	unsigned int in_barns = room_in_barns(test);
	unsigned long room = (in_barns + 2) * st->cap;
	unsigned long nr_sheaves = 0;
	unsigned int i;

	KUNIT_EXPECT_GE(test, barn->max_full, 10);
	hold_and_drain(test, room + 3 * st->cap);
	release(test, room);
	expect_moves(test, .free_fast = room, .barn_put = in_barns);
	expect_cached(test, room);

	/* Each time that both sheaves are full, one of them is flushed. */
	for (i = 0; i < 3; i++) {
		release(test, 1);
		expect_moves(test, .free_fast = 1, .barn_put_fail = 1, .flush = st->cap);
		expect_cached(test, room - st->cap + 1);
		KUNIT_EXPECT_EQ(test, barn->nr_full, barn->max_full);
		release(test, st->cap - 1);
		expect_moves(test, .free_fast = st->cap - 1);

		/* It is the next one to be filled. */
		if (i)
			KUNIT_EXPECT_EQ(test, count(st->cache, SHEAF_ALLOC),
					nr_sheaves);
		nr_sheaves = count(st->cache, SHEAF_ALLOC);
	}
}

/* All of a barn comes out again. */
static void full_barn_is_used_up(struct kunit *test)
{
	struct slab_test *st = with_setup(test);
	struct node_barn *barn = barn_of(st->cache, st->cpu);
	unsigned long room = (barn->max_full + 2) * st->cap;

	hold_and_drain(test, room);
	release(test, room);
	take_moves(test);
	grab(test, room);
	expect_moves(test, .alloc_fast = room, .barn_get = barn->max_full);
	expect_cached(test, 0);
	KUNIT_EXPECT_EQ(test, barn->nr_full, 0);
}

static void capacity_edges(struct kunit *test)
{
	struct slab_test *st = with_setup(test);
	unsigned int i;

	round_trip(test, st->cap - 1);
	round_trip(test, st->cap);
	round_trip(test, st->cap + 1);
	for (i = 2; i <= 4; i++) {
		round_trip(test, i * st->cap - 1);
		round_trip(test, i * st->cap);
		round_trip(test, i * st->cap + 1);
	}
}

/* Empty sheaves go to the barn, and come back. None is allocated needlessly. */
static void empty_sheaves_are_reused(struct kunit *test)
{
	struct slab_test *st = with_setup(test);
	unsigned long nr_alloc, round;

	hold_and_drain(test, 6 * st->cap);
	release(test, 6 * st->cap);
	grab(test, 6 * st->cap);
	nr_alloc = count(st->cache, SHEAF_ALLOC);
	KUNIT_EXPECT_EQ(test, nr_alloc, 6);
	for (round = 0; round < 3; round++) {
		release(test, 6 * st->cap);
		grab(test, 6 * st->cap);
	}
	KUNIT_EXPECT_EQ(test, count(st->cache, SHEAF_ALLOC), nr_alloc);
	KUNIT_EXPECT_EQ(test, count(st->cache, SHEAF_FREE), 0);
	expect_balance(test);
}

/* How many objects are freed while somebody is away for a refill. */
static unsigned int nr_freed_meanwhile;

static unsigned int free_and_refill(struct kmem_cache *s, void **p, unsigned int min,
				    unsigned int max, gfp_t gfp, int node)
{
	struct kunit *test = kunit_get_current_test();

	kunit_deactivate_static_stub(test, slab_refill);
	free_objects(test->priv, nr_freed_meanwhile);
	return slab_refill(s, p, min, max, gfp, node);
}

/*
 * Who comes back with a sheaf finds others than those that he has left: an interrupt was
 * there, or it is another CPU. Whatever they are, no sheaf and no object gets lost.
 */
static void sheaves_change_during_refill(struct kunit *test)
{
	struct slab_test *st = with_setup(test);
	unsigned int n[] = { 1, st->cap - 1, st->cap, st->cap + 1, 2 * st->cap - 1,
			     2 * st->cap, 2 * st->cap + 1 };
	struct moves m;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(n); i++) {
		hold_and_drain(test, 3 * st->cap);
		nr_freed_meanwhile = n[i];
		kunit_activate_static_stub(test, slab_refill, free_and_refill);
		grab(test, 1);
		m = take_moves(test);
		KUNIT_EXPECT_EQ(test, m.free_fast, n[i]);
		expect_cached(test, n[i] + m.refill - 1 - m.flush);
		expect_balance(test);
		release(test, st->nr_held);
		KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
	}
}

static long free_all_held(void *data)
{
	struct slab_test *st = data;

	free_objects(st, st->nr_held);
	return 0;
}

/* The first thing that a CPU does with a cache may be to free. */
static void first_free_on_a_cpu(struct kunit *test)
{
	struct slab_test *st = with_setup(test);
	int other = neighbour_of(st->cpu);
	unsigned long n = 3 * st->cap + 1;

	if (other < 0)
		kunit_skip(test, "no other CPU on the node");
	hold_and_drain(test, n);
	n = st->nr_held;
	work_on_cpu(other, free_all_held, st);
	expect_moves(test, .free_fast = n, .barn_put = sheaves_for(st, n) - 2);
	expect_cached(test, n);

	/* Two sheaves are there, out of reach. The others are in the barn. */
	grab(test, (sheaves_for(st, n) - 2) * st->cap);
	expect_moves(test, .alloc_fast = (sheaves_for(st, n) - 2) * st->cap,
		     .barn_get = sheaves_for(st, n) - 2);
}

static struct kunit_case paths_cases[] = {
	KUNIT_CASE_PARAM(first_alloc_refills, setups_gen_params),
	KUNIT_CASE_PARAM(double_free_is_ignored, setups_gen_params),
	KUNIT_CASE_PARAM(freed_last_is_allocated_first, setups_gen_params),
	KUNIT_CASE_PARAM(spare_replaces_empty_main, setups_gen_params),
	KUNIT_CASE_PARAM(barn_replaces_empty_main, setups_gen_params),
	KUNIT_CASE_PARAM(list_lock_is_counted, setups_gen_params),
	KUNIT_CASE_PARAM(free_to_main, setups_gen_params),
	KUNIT_CASE_PARAM(spare_replaces_full_main, setups_gen_params),
	KUNIT_CASE_PARAM(barn_takes_full_main, setups_gen_params),
	KUNIT_CASE_PARAM(full_barn_flushes, setups_gen_params),
	KUNIT_CASE_PARAM(full_barn_is_used_up, setups_gen_params),
	KUNIT_CASE_PARAM(capacity_edges, setups_gen_params),
	KUNIT_CASE_PARAM(empty_sheaves_are_reused, setups_gen_params),
	KUNIT_CASE_PARAM(sheaves_change_during_refill, setups_gen_params),
	KUNIT_CASE_PARAM(first_free_on_a_cpu, setups_gen_params),
	{}
};

static struct kunit_suite paths_suite = {
	.name = "slab_sheaf_paths",
	.init = slab_test_init,
	.exit = finish_cache,
	.test_cases = paths_cases,
};

kunit_test_suite(paths_suite);

MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
MODULE_DESCRIPTION("KUnit tests of sheaves: the ways of an object");
MODULE_LICENSE("GPL");
