// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for the sheaf tier of the slab allocator
 *
 * The tests use a cache of their own by means of the functions that everybody
 * uses. Which way an object has taken, by a sheaf, a barn or a slab, is read off
 * the statistics. A test is bound to one CPU and nobody else knows the cache, so
 * the counters are exact: expect_moves() names those that have changed, and all
 * others must not have.
 *
 * Refills depend on the slabs, so where a test needs to know how full a sheaf
 * is, it empties all sheaves by allocating what is in them (hold_and_drain()),
 * and then frees as many objects as it likes to have in sheaves.
 *
 * Whether objects get lost, or are had by two users at the same time, is seen by
 * a mark that is written into each object when it is allocated, and is checked
 * and erased when it is freed. In the end of each test, whatever it tested, the
 * cache is destroyed, which must not find objects left behind, and each sheaf
 * that was ever allocated must be somewhere.
 *
 * What does not depend on sheaves is tested on kernels without them, too
 * (slab_sheaf_capacity=0). KASAN's quarantine is turned off for most test
 * caches: it keeps freed objects back for an unknown time.
 */

#include <kunit/resource.h>
#include <kunit/test.h>
#include <linux/cleanup.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/jiffies.h>
#include <linux/kfence.h>
#include <linux/mempool.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/nodemask.h>
#include <linux/prandom.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include "../../mm/slab.h"
#include "../../mm/slab_sheaf.h"

#define OBJECT_SIZE	64

/* What is in an object that a test has. The last word is a mark as well. */
struct object {
	unsigned long mark;
	struct object *next;
	unsigned long constructed;
};

#define MARK		0x0b7ec7ed5a5a5a5aUL
#define CONSTRUCTED	0xc0157a7cUL

/* What the statistics count: objects, and for barns sheaves. */
struct moves {
	unsigned long alloc_fast, alloc_slow;
	unsigned long free_fast, free_slow;
	unsigned long refill, flush;
	unsigned long barn_get, barn_get_fail;
	unsigned long barn_put, barn_put_fail;
	unsigned long list_lock;
};

struct sheaf_test {
	struct kmem_cache *cache;
	unsigned int cap;
	int cpu;			/* that the test is bound to */
	struct object *held;		/* a stack */
	unsigned long nr_held;
	unsigned long nr_broken;	/* objects that had lost their marks */
	struct moves before;
	struct kunit_resource resource;
	int slab_errors;
};

/*
 * Objects and their marks
 */

static unsigned long *last_word(struct kmem_cache *s, struct object *obj)
{
	return (void *)obj + round_down(s->object_size, sizeof(long)) - sizeof(long);
}

static bool mark_object(struct kmem_cache *s, struct object *obj)
{
	if (s->ctor && obj->constructed != CONSTRUCTED)
		return false;
	obj->mark = MARK ^ (unsigned long)obj;
	*last_word(s, obj) = ~obj->mark;
	return true;
}

/* Only one can find the mark, even if two believe that the object is theirs. */
static bool unmark_object(struct kmem_cache *s, struct object *obj)
{
	unsigned long mark = MARK ^ (unsigned long)obj;
	unsigned long last = *last_word(s, obj);

	return xchg(&obj->mark, 0) == mark && last == ~mark;
}

static void construct(void *p)
{
	struct object *obj = p;

	obj->constructed = CONSTRUCTED;
}

static bool hold(struct sheaf_test *st, struct object *obj)
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
static struct object *let_go(struct sheaf_test *st)
{
	struct object *obj = st->held;

	st->held = obj->next;
	st->nr_held--;
	if (!unmark_object(st->cache, obj))
		st->nr_broken++;
	return obj;
}

static unsigned long alloc_objects(struct sheaf_test *st, unsigned long n, gfp_t gfp)
{
	unsigned long i;

	for (i = 0; i < n; i++)
		if (!hold(st, kmem_cache_alloc(st->cache, gfp)))
			break;
	return i;
}

static void free_objects(struct sheaf_test *st, unsigned long n)
{
	while (n-- > 0)
		kmem_cache_free(st->cache, let_go(st));
}

static void grab(struct kunit *test, unsigned long n)
{
	KUNIT_ASSERT_EQ(test, alloc_objects(test->priv, n, GFP_KERNEL), n);
}

static void release(struct kunit *test, unsigned long n)
{
	struct sheaf_test *st = test->priv;

	KUNIT_ASSERT_LE(test, n, st->nr_held);
	free_objects(st, n);
}

/*
 * Counters
 */

static struct moves count_moves(struct kmem_cache *s)
{
	return (struct moves) {
		.alloc_fast = kmem_cache_stat_sum(s, ALLOC_FASTPATH),
		.alloc_slow = kmem_cache_stat_sum(s, ALLOC_SLOWPATH),
		.free_fast = kmem_cache_stat_sum(s, FREE_FASTPATH),
		.free_slow = kmem_cache_stat_sum(s, FREE_SLOWPATH),
		.refill = kmem_cache_stat_sum(s, SHEAF_REFILL),
		.flush = kmem_cache_stat_sum(s, SHEAF_FLUSH),
		.barn_get = kmem_cache_stat_sum(s, BARN_GET),
		.barn_get_fail = kmem_cache_stat_sum(s, BARN_GET_FAIL),
		.barn_put = kmem_cache_stat_sum(s, BARN_PUT),
		.barn_put_fail = kmem_cache_stat_sum(s, BARN_PUT_FAIL),
		.list_lock = kmem_cache_stat_sum(s, LIST_LOCK),
	};
}

/* What happened since the last time. */
static struct moves take_moves(struct kunit *test)
{
	struct sheaf_test *st = test->priv;
	struct moves *b = &st->before;
	struct moves now = count_moves(st->cache);
	struct moves m = {
		.alloc_fast = now.alloc_fast - b->alloc_fast,
		.alloc_slow = now.alloc_slow - b->alloc_slow,
		.free_fast = now.free_fast - b->free_fast,
		.free_slow = now.free_slow - b->free_slow,
		.refill = now.refill - b->refill,
		.flush = now.flush - b->flush,
		.barn_get = now.barn_get - b->barn_get,
		.barn_get_fail = now.barn_get_fail - b->barn_get_fail,
		.barn_put = now.barn_put - b->barn_put,
		.barn_put_fail = now.barn_put_fail - b->barn_put_fail,
		.list_lock = now.list_lock - b->list_lock,
	};

	*b = now;
	return m;
}

static void expect_count(struct kunit *test, int line, const char *what,
			 unsigned long n, unsigned long want)
{
	KUNIT_EXPECT_EQ_MSG(test, n, want, "%s, from line %d", what, line);
}

static void __expect_moves(struct kunit *test, int line, struct moves want)
{
	struct moves m = take_moves(test);

	expect_count(test, line, "alloc_fast", m.alloc_fast, want.alloc_fast);
	expect_count(test, line, "alloc_slow", m.alloc_slow, want.alloc_slow);
	expect_count(test, line, "free_fast", m.free_fast, want.free_fast);
	expect_count(test, line, "free_slow", m.free_slow, want.free_slow);
	expect_count(test, line, "refill", m.refill, want.refill);
	expect_count(test, line, "flush", m.flush, want.flush);
	expect_count(test, line, "barn_get", m.barn_get, want.barn_get);
	expect_count(test, line, "barn_get_fail", m.barn_get_fail, want.barn_get_fail);
	expect_count(test, line, "barn_put", m.barn_put, want.barn_put);
	expect_count(test, line, "barn_put_fail", m.barn_put_fail, want.barn_put_fail);
}

/* Those that are named have moved since the last time, and no others. */
#define expect_moves(test, ...) \
	__expect_moves(test, __LINE__, (struct moves) { __VA_ARGS__ })

static void __expect_cached(struct kunit *test, int line, unsigned long want)
{
	struct sheaf_test *st = test->priv;

	expect_count(test, line, "objects cached", kmem_cache_cached_objects(st->cache), want);
}

/* How many objects there are in sheaves and barns. */
#define expect_cached(test, n) \
	__expect_cached(test, __LINE__, n)

static struct node_barn *barn_of(struct kmem_cache *s, int cpu)
{
	return s->barns[cpu_to_node(cpu)];
}

/* The sheaves that there are: those of CPUs, and those in barns. */
static unsigned long count_sheaves(struct kmem_cache *s)
{
	struct slub_percpu_sheaves *pcs;
	unsigned long nr = 0;
	int cpu, node;

	for_each_possible_cpu(cpu) {
		pcs = per_cpu_ptr(s->cpu_sheaves, cpu);
		nr += pcs->main->capacity > 0;
		nr += !!pcs->spare;
		nr += !!pcs->remote;
	}
	if (s->barns) {
		for_each_node(node)
			if (s->barns[node])
				nr += s->barns[node]->nr_full + s->barns[node]->nr_empty;
	}
	return nr;
}

static void expect_no_sheaf_lost(struct kunit *test, struct kmem_cache *s)
{
	KUNIT_EXPECT_EQ(test, count_sheaves(s),
			kmem_cache_stat_sum(s, SHEAF_ALLOC) -
			kmem_cache_stat_sum(s, SHEAF_FREE));
}

/*
 * Caches, CPUs and nodes
 */

static void no_quarantine(struct kmem_cache *s)
{
#ifdef CONFIG_KASAN_GENERIC
	/* KASAN_NO_FREE_META: there is no room to keep the object in a list */
	s->kasan_info.free_meta_offset = INT_MAX;
#endif
}

/* A cache like all others, except that no boot parameter turns on debugging. */
static struct kmem_cache *new_plain_cache(struct kunit *test, const char *name,
					  unsigned int size, slab_flags_t flags,
					  struct kmem_cache_args *args)
{
	struct kmem_cache *s;

	s = kmem_cache_create(name, size, args,
			      flags | SLAB_NO_USER_FLAGS | SLAB_NO_MERGE);
	KUNIT_ASSERT_NOT_NULL(test, s);
	return s;
}

static struct kmem_cache *new_cache(struct kunit *test, const char *name,
				    unsigned int size, slab_flags_t flags,
				    struct kmem_cache_args *args)
{
	struct kmem_cache *s = new_plain_cache(test, name, size, flags, args);

	s->flags |= SLAB_SKIP_KFENCE;
	if (!(flags & SLAB_DEBUG_FLAGS))
		no_quarantine(s);
	return s;
}

static void use_cache(struct kunit *test, struct kmem_cache *s)
{
	struct sheaf_test *st = test->priv;

	st->cache = s;
	st->cap = s->sheaf_capacity;
	st->before = count_moves(s);
}

static struct sheaf_test *with_cache(struct kunit *test, unsigned int size,
				     slab_flags_t flags, struct kmem_cache_args *args)
{
	struct kmem_cache_args none = { };

	use_cache(test, new_cache(test, "slab_sheaf_kunit", size, flags, args ?: &none));
	return test->priv;
}

/* Frees what the test holds, and destroys the cache, which must be clean. */
static void finish_cache(struct kunit *test)
{
	struct sheaf_test *st = test->priv;

	if (!st->cache)
		return;
	free_objects(st, st->nr_held);
	expect_no_sheaf_lost(test, st->cache);
	kmem_cache_destroy(st->cache);
	st->cache = NULL;
	KUNIT_EXPECT_EQ(test, st->slab_errors, 0);
	KUNIT_EXPECT_EQ(test, st->nr_broken, 0);
}

static void skip_without_sheaves(struct kunit *test)
{
	struct sheaf_test *st = test->priv;

	if (!st->cap)
		kunit_skip(test, "slab_sheaf_capacity=0: caches have no sheaves");
}

static void bind_to(struct kunit *test, int cpu)
{
	struct sheaf_test *st = test->priv;

	set_cpus_allowed_ptr(current, cpumask_of(cpu));
	st->cpu = cpu;
}

static bool has_memory(int node)
{
	return node_state(node, N_NORMAL_MEMORY);
}

static int find_cpu(bool memory)
{
	int cpu;

	for_each_online_cpu(cpu)
		if (has_memory(cpu_to_node(cpu)) == memory)
			return cpu;
	return -1;
}

/* Another CPU of the same node. */
static int neighbour_of(int cpu)
{
	int other;

	for_each_online_cpu(other)
		if (other != cpu && cpu_to_node(other) == cpu_to_node(cpu))
			return other;
	return -1;
}

static int nid_of(void *obj)
{
	return page_to_nid(virt_to_page(obj));
}

/* Holds n objects or more, and there are none in sheaves. */
static void hold_and_drain(struct kunit *test, unsigned long n)
{
	struct sheaf_test *st = test->priv;

	grab(test, n);
	grab(test, kmem_cache_cached_objects(st->cache));
	KUNIT_ASSERT_EQ(test, kmem_cache_cached_objects(st->cache), 0);
	take_moves(test);
}

/*
 * Where, and with what kind of cache, the transitions are tested
 */

static const struct setup {
	const char *desc;
	unsigned int size;
	unsigned int capacity;
	bool memoryless;
} setups[] = {
	{ "default capacity", OBJECT_SIZE },
	{ "small capacity", PAGE_SIZE },
	{ "odd size", 328 },
	{ "large capacity", OBJECT_SIZE, 250 },
	{ "default capacity, node without memory", OBJECT_SIZE, 0, true },
	{ "small capacity, node without memory", PAGE_SIZE, 0, true },
};

KUNIT_ARRAY_PARAM_DESC(setups, setups, desc);

static struct sheaf_test *with_setup(struct kunit *test)
{
	const struct setup *setup = test->param_value;
	struct kmem_cache_args args = { .sheaf_capacity = setup->capacity };
	int cpu = find_cpu(!setup->memoryless);
	struct sheaf_test *st;

	if (cpu < 0)
		kunit_skip(test, "no CPU on a node %s memory",
			   setup->memoryless ? "without" : "with");
	bind_to(test, cpu);
	st = with_cache(test, setup->size, 0, &args);
	skip_without_sheaves(test);
	KUNIT_ASSERT_NOT_NULL(test, barn_of(st->cache, cpu));
	return st;
}

/* How many sheaves it takes. */
static unsigned long sheaves_for(struct sheaf_test *st, unsigned long n)
{
	return DIV_ROUND_UP(n, st->cap);
}

/*
 * Transitions of allocation
 */

static void first_alloc_refills(struct kunit *test)
{
	struct sheaf_test *st = with_setup(test);
	unsigned long refilled, round;

	for (round = 0; round < 3; round++) {
		expect_cached(test, 0);
		grab(test, 1);
		refilled = kmem_cache_stat_sum(st->cache, SHEAF_REFILL) - st->before.refill;
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
	struct sheaf_test *st = with_setup(test);
	struct object *obj;
	void *p[2];

	if (!IS_ENABLED(CONFIG_SLAB_FREELIST_HARDENED))
		kunit_skip(test, "needs CONFIG_SLAB_FREELIST_HARDENED");
	if (IS_ENABLED(CONFIG_KASAN))
		kunit_skip(test, "KASAN finds it out before");
	hold_and_drain(test, 2);
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
	struct sheaf_test *st = with_setup(test);
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
	struct sheaf_test *st = with_setup(test);

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
	struct sheaf_test *st = with_setup(test);
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
	struct sheaf_test *st = with_setup(test);
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
	struct sheaf_test *st = with_setup(test);

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
	struct sheaf_test *st = with_setup(test);
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
	struct sheaf_test *st = with_setup(test);
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
	struct sheaf_test *st = test->priv;
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
	struct sheaf_test *st = with_setup(test);
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
			KUNIT_EXPECT_EQ(test, kmem_cache_stat_sum(st->cache, SHEAF_ALLOC),
					nr_sheaves);
		nr_sheaves = kmem_cache_stat_sum(st->cache, SHEAF_ALLOC);
	}
}

/* All of a barn comes out again. */
static void full_barn_is_used_up(struct kunit *test)
{
	struct sheaf_test *st = with_setup(test);
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

static void round_trip(struct kunit *test, unsigned long n)
{
	struct sheaf_test *st = test->priv;
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

static void capacity_edges(struct kunit *test)
{
	struct sheaf_test *st = with_setup(test);
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
	struct sheaf_test *st = with_setup(test);
	unsigned long nr_alloc, round;

	hold_and_drain(test, 6 * st->cap);
	release(test, 6 * st->cap);
	grab(test, 6 * st->cap);
	nr_alloc = kmem_cache_stat_sum(st->cache, SHEAF_ALLOC);
	KUNIT_EXPECT_EQ(test, nr_alloc, 6);
	for (round = 0; round < 3; round++) {
		release(test, 6 * st->cap);
		grab(test, 6 * st->cap);
	}
	KUNIT_EXPECT_EQ(test, kmem_cache_stat_sum(st->cache, SHEAF_ALLOC), nr_alloc);
	KUNIT_EXPECT_EQ(test, kmem_cache_stat_sum(st->cache, SHEAF_FREE), 0);
	expect_no_sheaf_lost(test, st->cache);
}

static long free_all_held(void *data)
{
	struct sheaf_test *st = data;

	free_objects(st, st->nr_held);
	return 0;
}

/* The first thing that a CPU does with a cache may be to free. */
static void first_free_on_a_cpu(struct kunit *test)
{
	struct sheaf_test *st = with_setup(test);
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

/*
 * Capacities, and who has sheaves
 */

static unsigned int fill_bucket(unsigned int capacity)
{
	struct slab_sheaf *sheaf;

	return (kmalloc_size_roundup(struct_size(sheaf, objects, capacity)) -
		sizeof(*sheaf)) / sizeof(void *);
}

static unsigned int expected_capacity(struct kmem_cache *s, unsigned int requested)
{
	unsigned int capacity;

	if (s->size > 4096)
		capacity = 4;
	else if (s->size > 2048)
		capacity = 12;
	else if (s->size >= 256)
		capacity = 28;
	else
		capacity = 60;
	return fill_bucket(max(capacity, requested));
}

/* Nobody gets what he asks for if the boot parameter says otherwise. */
static void skip_if_capacity_is_set(struct kunit *test)
{
	struct kmem_cache_args args = { .sheaf_capacity = 1000 };
	struct kmem_cache *s;
	unsigned int got;

	s = new_cache(test, "slab_sheaf_probe", OBJECT_SIZE, 0, &args);
	got = s->sheaf_capacity;
	kmem_cache_destroy(s);
	if (got < 1000)
		kunit_skip(test, "slab_sheaf_capacity=%u is in force", got);
}

static void default_capacity(struct kunit *test)
{
	static const unsigned int sizes[] = {
		8, 64, 255, 256, 257, 512, 1023, 1024, 1500, 2048, 2049,
		4096, 4097, PAGE_SIZE, 2 * PAGE_SIZE, 4 * PAGE_SIZE,
	};
	struct kmem_cache_args none = { };
	struct kmem_cache *s;
	unsigned int i;

	skip_if_capacity_is_set(test);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		s = new_cache(test, "slab_sheaf_kunit", sizes[i], 0, &none);
		KUNIT_EXPECT_EQ_MSG(test, s->sheaf_capacity, expected_capacity(s, 0),
				    "size %u", sizes[i]);
		kmem_cache_destroy(s);
	}
}

static const unsigned int requests[] = { 1, 3, 33, 59, 60, 61, 100, 1000, 2000 };

static void requests_desc(const unsigned int *n, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "capacity %u", *n);
}

KUNIT_ARRAY_PARAM(requests, requests, requests_desc);

static void requested_capacity(struct kunit *test)
{
	unsigned int requested = *(const unsigned int *)test->param_value;
	struct kmem_cache_args args = { .sheaf_capacity = requested };
	struct sheaf_test *st;

	skip_if_capacity_is_set(test);
	st = with_cache(test, OBJECT_SIZE, 0, &args);
	KUNIT_EXPECT_GE(test, st->cap, requested);
	KUNIT_EXPECT_EQ(test, st->cap, expected_capacity(st->cache, requested));
	round_trip(test, 1);
	round_trip(test, st->cap + 1);
	round_trip(test, 2 * st->cap + 1);
}

/* More than can be: not an error, and no overflow. */
/* Who asks for a capacity does not share a cache, in either direction. */
static void requested_capacity_is_not_shared(struct kunit *test)
{
	static const char * const names[] = {
		"sheaf_kunit_plain", "sheaf_kunit_asks", "sheaf_kunit_asks_too", "sheaf_kunit_late"
	};
	struct kmem_cache *s[ARRAY_SIZE(names)];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		struct kmem_cache_args args = { .sheaf_capacity = i == 1 || i == 2 ? 200 : 0 };

		/* A size that nobody else has */
		s[i] = kmem_cache_create(names[i], 4968, &args, 0);
	}
	for (i = 0; i < ARRAY_SIZE(names); i++)
		KUNIT_EXPECT_NOT_NULL(test, s[i]);
	KUNIT_EXPECT_PTR_NE(test, s[1], s[0]);
	KUNIT_EXPECT_PTR_NE(test, s[2], s[0]);
	KUNIT_EXPECT_PTR_NE(test, s[2], s[1]);
	KUNIT_EXPECT_PTR_NE(test, s[3], s[1]);
	KUNIT_EXPECT_PTR_NE(test, s[3], s[2]);
	for (i = 0; i < ARRAY_SIZE(names); i++)
		kmem_cache_destroy(s[i]);
}

static void absurd_capacity(struct kunit *test)
{
	struct kmem_cache_args args = { .sheaf_capacity = UINT_MAX };
	struct sheaf_test *st;

	skip_if_capacity_is_set(test);
	st = with_cache(test, OBJECT_SIZE, 0, &args);
	KUNIT_EXPECT_GE(test, st->cap, 1000);
	KUNIT_EXPECT_LE(test, (u64)st->cap * sizeof(void *), KMALLOC_MAX_SIZE);
	KUNIT_EXPECT_NOT_NULL(test, st->cache->barns);
}

static void who_has_sheaves(struct kunit *test)
{
	struct sheaf_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	struct kmem_cache *s = st->cache, *kmalloc_cache;
	void *p = kmalloc(OBJECT_SIZE, GFP_KERNEL);
	int node;

	KUNIT_ASSERT_NOT_NULL(test, p);
	kmalloc_cache = virt_to_slab(p)->slab_cache;
	kfree(p);

	/* The two that everything else is made from have none. */
	KUNIT_EXPECT_EQ(test, virt_to_slab(s)->slab_cache->sheaf_capacity, 0);
	for_each_node_state(node, N_NORMAL_MEMORY)
		KUNIT_EXPECT_EQ(test, virt_to_slab(s->node[node])->slab_cache->sheaf_capacity, 0);

	if (!st->cap)
		return;
	if (!(kmalloc_cache->flags & SLAB_DEBUG_FLAGS))
		KUNIT_EXPECT_GT(test, kmalloc_cache->sheaf_capacity, 0);
	for_each_online_node(node) {
		KUNIT_ASSERT_NOT_NULL(test, s->barns[node]);
		KUNIT_EXPECT_GE(test, s->barns[node]->max_full, 10);
	}
}

#ifdef CONFIG_SLUB_DEBUG
static const struct debug_flags {
	const char *desc;
	slab_flags_t flags;
} debug_flags[] = {
	{ "SLAB_CONSISTENCY_CHECKS", SLAB_CONSISTENCY_CHECKS },
	{ "SLAB_RED_ZONE", SLAB_RED_ZONE },
	{ "SLAB_POISON", SLAB_POISON },
	{ "SLAB_STORE_USER", SLAB_STORE_USER },
	{ "all of them", SLAB_CONSISTENCY_CHECKS | SLAB_RED_ZONE | SLAB_POISON |
			 SLAB_STORE_USER },
};

KUNIT_ARRAY_PARAM_DESC(debug_flags, debug_flags, desc);

static void debugging_does_without_sheaves(struct kunit *test)
{
	const struct debug_flags *d = test->param_value;
	struct sheaf_test *st = with_cache(test, OBJECT_SIZE, d->flags, NULL);
	struct moves m;

	KUNIT_EXPECT_EQ(test, st->cap, 0);
	KUNIT_EXPECT_TRUE(test, (st->cache->flags & SLAB_DEBUG_FLAGS) == d->flags);
	grab(test, 100);
	release(test, 50);
	grab(test, 100);
	m = take_moves(test);
	KUNIT_EXPECT_EQ(test, m.alloc_slow, 200);
	KUNIT_EXPECT_EQ(test, m.alloc_fast, 0);
	KUNIT_EXPECT_EQ(test, m.free_fast, 0);
	if (!IS_ENABLED(CONFIG_KASAN_GENERIC))
		KUNIT_EXPECT_EQ(test, m.free_slow, 50);
	KUNIT_EXPECT_GE(test, m.list_lock, m.alloc_slow + m.free_slow);
	expect_cached(test, 0);
	KUNIT_EXPECT_EQ(test, count_sheaves(st->cache), 0);
	release(test, st->nr_held);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
}
#endif

/* What a kernel without sheaves counts. */
static void all_is_slow_without_sheaves(struct kunit *test)
{
	struct sheaf_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);

	if (st->cap)
		kunit_skip(test, "the caches have sheaves");
	grab(test, 500);
	expect_moves(test, .alloc_slow = 500);
	release(test, 500);
	expect_moves(test, .free_slow = 500);
	expect_cached(test, 0);
}

/* A kmalloc() cache may have sheaves that come from itself. */
static void kmalloc_of_all_sizes(struct kunit *test)
{
	void **p = kunit_kcalloc(test, 200, sizeof(*p), GFP_KERNEL);
	unsigned int size, i, broken = 0;

	KUNIT_ASSERT_NOT_NULL(test, p);
	for (size = 8; size <= 2 * PAGE_SIZE; size = size % 3 ? size + size / 2 : size / 3 * 4) {
		for (i = 0; i < 200; i++) {
			p[i] = kmalloc(size, GFP_KERNEL);
			if (p[i])
				memset(p[i], i, size);
		}
		for (i = 0; i < 200; i++) {
			broken += !p[i] || memchr_inv(p[i], i, size);
			kfree(p[i]);
		}
	}
	KUNIT_EXPECT_EQ(test, broken, 0);
}

/*
 * Bulk
 */

static void **new_array(struct kunit *test, size_t n)
{
	void **p = kunit_kcalloc(test, n, sizeof(*p), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	return p;
}

/* Allocates in bulk, and holds what it gets. */
static void grab_bulk(struct kunit *test, void **p, size_t n, gfp_t gfp)
{
	struct sheaf_test *st = test->priv;
	size_t i;

	KUNIT_ASSERT_EQ(test, kmem_cache_alloc_bulk(st->cache, gfp, n, p), n);
	for (i = 0; i < n; i++)
		hold(st, p[i]);
}

static void release_bulk(struct kunit *test, void **p, size_t n)
{
	struct sheaf_test *st = test->priv;
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = let_go(st);
	kmem_cache_free_bulk(st->cache, n, p);
}

static void bulk_sizes(struct kunit *test)
{
	const struct setup *setup = test->param_value;
	struct kmem_cache_args args = { .sheaf_capacity = setup->capacity };
	struct sheaf_test *st = with_cache(test, setup->size, 0, &args);
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
	struct sheaf_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
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
	struct sheaf_test *st = with_setup(test);
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
	struct sheaf_test *st = with_setup(test);
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

/* Without a cache, the objects may be from several, in any order. */
static void bulk_of_several_caches(struct kunit *test)
{
	struct sheaf_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	struct kmem_cache_args none = { };
	struct kmem_cache *other = new_cache(test, "slab_sheaf_other", 100, 0, &none);
	unsigned int i, n = 300, nr_null = 0;
	void **p = new_array(test, n);

	for (i = 0; i < n; i++) {
		p[i] = kmem_cache_alloc(i % 3 ? st->cache : other, GFP_KERNEL);
		nr_null += !p[i];
	}
	KUNIT_EXPECT_EQ(test, nr_null, 0);
	if (!nr_null)
		kmem_cache_free_bulk(NULL, n, p);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(other), 0);
	expect_no_sheaf_lost(test, other);
	kmem_cache_destroy(other);
}

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

static void refill_with_gfp(struct kunit *test)
{
	const struct gfp_case *g = test->param_value;
	struct sheaf_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
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
	struct sheaf_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	/* What would fill half a sheaf may as well come from slabs. */
	unsigned int many = max(st->cap / 2, 1U);
	unsigned int few = many - 1;
	void **p = new_array(test, many);
	struct moves m;

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

/* An array may have objects of caches with and without sheaves, and pages. */
static void kfree_bulk_of_many_kinds(struct kunit *test)
{
	struct sheaf_test *st = with_setup(test);
	unsigned int n = 5 * st->cap, nr_ours = 0;
	void **p = new_array(test, n);
	struct moves m;
	unsigned int i;

	for (i = 0; i < n; i++) {
		if (i % 5 == 3) {
			p[i] = kmalloc(100, GFP_KERNEL);
		} else if (i % 17 == 0) {
			p[i] = kmalloc(4 * PAGE_SIZE, GFP_KERNEL);
		} else {
			p[i] = kmem_cache_alloc(st->cache, GFP_KERNEL);
			nr_ours++;
		}
		KUNIT_ASSERT_NOT_NULL(test, p[i]);
	}
	hold_and_drain(test, 1);
	kfree_bulk(n, p);
	m = take_moves(test);
	KUNIT_EXPECT_EQ(test, m.free_fast + m.free_slow, nr_ours);
	/* What is in between does not keep them from the sheaves. */
	KUNIT_EXPECT_GE(test, m.free_fast, min(nr_ours, st->cap));
	KUNIT_EXPECT_EQ(test, m.alloc_fast + m.alloc_slow, 0);
	kmem_cache_shrink(st->cache);
	expect_cached(test, 0);
}

static void mempool_is_served_by_sheaves(struct kunit *test)
{
	struct sheaf_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
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

static void zeroing(struct kunit *test)
{
	struct sheaf_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	unsigned int i, n = 4 * (st->cap ?: 60), dirty = 0;
	void **p = new_array(test, n);

	KUNIT_ASSERT_EQ(test, kmem_cache_alloc_bulk(st->cache, GFP_KERNEL, n, p), n);
	for (i = 0; i < n; i++)
		memset(p[i], 0xff, OBJECT_SIZE);
	for (i = 0; i < n; i++)
		kmem_cache_free(st->cache, p[i]);

	for (i = 0; i < n; i++) {
		p[i] = kmem_cache_zalloc(st->cache, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, p[i]);
		dirty += !is_zero(st->cache, p[i]);
		memset(p[i], 0xff, OBJECT_SIZE);
	}
	kmem_cache_free_bulk(st->cache, n, p);

	KUNIT_ASSERT_EQ(test, kmem_cache_alloc_bulk(st->cache, GFP_KERNEL | __GFP_ZERO, n, p), n);
	for (i = 0; i < n; i++)
		dirty += !is_zero(st->cache, p[i]);
	kmem_cache_free_bulk(st->cache, n, p);
	KUNIT_EXPECT_EQ(test, dirty, 0);
}

/*
 * Kinds of caches, and of objects
 */

/* mark_object() looks whether an object is constructed. */
static void constructed_objects(struct kunit *test)
{
	struct kmem_cache_args args = { .ctor = construct };
	struct sheaf_test *st = with_cache(test, OBJECT_SIZE, 0, &args);
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

/* Objects stay objects until a grace period is over, flushed or not. */
static void typesafe_by_rcu(struct kunit *test)
{
	struct kmem_cache_args args = { .ctor = construct };
	struct sheaf_test *st = with_cache(test, OBJECT_SIZE, SLAB_TYPESAFE_BY_RCU, &args);
	unsigned int n = 15 * (st->cap ?: 60), i, bad = 0;
	void **p = new_array(test, n);

	grab_bulk(test, p, n, GFP_KERNEL);
	rcu_read_lock();
	free_objects(st, n);
	for (i = 0; i < n; i++)
		bad += READ_ONCE(((struct object *)p[i])->constructed) != CONSTRUCTED;
	rcu_read_unlock();
	KUNIT_EXPECT_EQ(test, bad, 0);

	grab_bulk(test, p, n, GFP_KERNEL);
	KUNIT_EXPECT_EQ(test, st->nr_broken, 0);
	release(test, n);
	kmem_cache_shrink(st->cache);
	expect_cached(test, 0);
}

/*
 * With the hooks for accounting, though KUnit's tasks are in the root cgroup,
 * whose objects are not charged.
 */
static void accounted_objects(struct kunit *test)
{
	struct sheaf_test *st = with_cache(test, OBJECT_SIZE, SLAB_ACCOUNT, NULL);
	unsigned int n = 3 * (st->cap ?: 60);
	void **p = new_array(test, n);
	struct moves m;

	KUNIT_EXPECT_EQ(test, alloc_objects(st, n, GFP_KERNEL_ACCOUNT), n);
	m = take_moves(test);
	KUNIT_EXPECT_EQ(test, st->cap ? m.alloc_slow : m.alloc_fast, 0);
	release_bulk(test, p, n);
	grab_bulk(test, p, n, GFP_KERNEL_ACCOUNT);
	release(test, n);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
}

/* Objects out of the memory reserves are not for everybody. */
static void pfmemalloc_is_kept_out(struct kunit *test)
{
	struct sheaf_test *st = with_setup(test);
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
	struct sheaf_test *st = test->priv;
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
	cached = kmem_cache_cached_objects(st->cache);
	take_moves(test);
	kmem_cache_free(st->cache, p);
	m = take_moves(test);
	KUNIT_EXPECT_EQ(test, m.free_fast, 0);
	expect_cached(test, cached);

	p = alloc_from_kfence(st->cache);
	if (!p)
		return;
	cached = kmem_cache_cached_objects(st->cache);
	kmem_cache_free_bulk(st->cache, 1, &p);
	expect_cached(test, cached);
}

/*
 * NUMA
 */

static void alloc_on_each_node(struct kunit *test)
{
	struct sheaf_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	unsigned int i, n = 3 * (st->cap ?: 60), wrong = 0;
	int node;

	for_each_node_state(node, N_NORMAL_MEMORY) {
		for (i = 0; i < n; i++) {
			gfp_t gfp = GFP_KERNEL | __GFP_THISNODE;

			KUNIT_ASSERT_TRUE(test, hold(st, kmem_cache_alloc_node(st->cache, gfp,
									       node)));
			wrong += nid_of(st->held) != node;
		}
	}
	KUNIT_EXPECT_EQ(test, wrong, 0);

	/* Without memory there, any object is as good as another. */
	for_each_online_node(node)
		KUNIT_EXPECT_TRUE(test, hold(st, kmem_cache_alloc_node(st->cache, GFP_KERNEL,
								       node)));
	release(test, st->nr_held);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
}

static void node_of_top_object(struct kunit *test)
{
	struct sheaf_test *st = with_setup(test);
	int node, top;

	hold_and_drain(test, 2);
	top = nid_of(st->held);
	release(test, 1);
	take_moves(test);
	KUNIT_EXPECT_TRUE(test, hold(st, kmem_cache_alloc_node(st->cache, GFP_KERNEL, top)));
	expect_moves(test, .alloc_fast = 1);

	release(test, 1);
	take_moves(test);
	for_each_node_state(node, N_NORMAL_MEMORY) {
		gfp_t gfp = GFP_KERNEL | __GFP_THISNODE;

		if (node == top)
			continue;
		KUNIT_ASSERT_TRUE(test, hold(st, kmem_cache_alloc_node(st->cache, gfp, node)));
		KUNIT_EXPECT_EQ(test, nid_of(st->held), node);
		expect_moves(test, .alloc_slow = 1);
		expect_cached(test, 1);
	}
}

#define MIXED_BULK	20

/* Holds n more objects, which are from the node. */
static void grab_on(struct kunit *test, int node, unsigned long n)
{
	struct sheaf_test *st = test->priv;
	void *obj;

	while (n-- > 0) {
		obj = kmem_cache_alloc_node(st->cache, GFP_KERNEL | __GFP_THISNODE, node);
		KUNIT_ASSERT_TRUE(test, hold(st, obj));
		KUNIT_ASSERT_EQ(test, nid_of(obj), node);
	}
}

/* Main and spare are not for objects that others are nearer to. */
static void remote_objects_are_kept_apart(struct kunit *test)
{
	struct sheaf_test *st = with_setup(test);
	struct slub_percpu_sheaves *pcs = per_cpu_ptr(st->cache->cpu_sheaves, st->cpu);
	int node, here = cpu_to_node(st->cpu);
	unsigned int nr_nodes = 0;
	void *p[1];

	for_each_node_state(node, N_NORMAL_MEMORY) {
		unsigned long cached;

		if (node == here)
			continue;
		nr_nodes++;
		grab_on(test, node, 2);
		cached = kmem_cache_cached_objects(st->cache);
		take_moves(test);
		release(test, 1);
		expect_moves(test, .free_fast = 1);
		expect_cached(test, cached + 1);
		release_bulk(test, p, 1);
		if (has_memory(here)) {
			expect_moves(test, .free_slow = 1);
			expect_cached(test, cached + 1);
			KUNIT_ASSERT_NOT_NULL(test, pcs->remote);
			KUNIT_EXPECT_EQ(test, pcs->remote->size, nr_nodes);
		} else {
			expect_moves(test, .free_fast = 1);
			expect_cached(test, cached + 2);
			KUNIT_EXPECT_NULL(test, pcs->remote);
		}
	}
	if (!nr_nodes)
		kunit_skip(test, "no other node has memory");
}

/* A node with memory, other than @not_node, and than @nor_node. */
static int find_other_memory(int not_node, int nor_node)
{
	int node;

	for_each_node_state(node, N_NORMAL_MEMORY)
		if (node != not_node && node != nor_node)
			return node;
	return NUMA_NO_NODE;
}

/* With a node that has memory, and a cache the sheaves of which are empty. */
static struct sheaf_test *with_remote_node(struct kunit *test, int *node)
{
	struct sheaf_test *st = with_setup(test);

	*node = find_other_memory(cpu_to_node(st->cpu), NUMA_NO_NODE);
	if (*node == NUMA_NO_NODE)
		kunit_skip(test, "no other node has memory");
	if (!has_memory(cpu_to_node(st->cpu)))
		kunit_skip(test, "where there is no memory, no object is remote");
	return st;
}

static void remote_objects_go_home(struct kunit *test)
{
	int node;
	struct sheaf_test *st = with_remote_node(test, &node);
	struct node_barn *home = st->cache->barns[node];
	unsigned long n = home->max_full * st->cap;

	grab_on(test, node, n + 2 * st->cap + 1);
	kmem_cache_shrink(st->cache);
	take_moves(test);
	release(test, st->cap - 1);
	expect_moves(test, .free_fast = st->cap - 1);
	KUNIT_EXPECT_EQ(test, home->nr_full, 0);
	release(test, 1);
	expect_moves(test, .free_fast = 1, .barn_put = 1);
	KUNIT_EXPECT_EQ(test, home->nr_full, 1);
	release(test, n - st->cap);
	expect_moves(test, .free_fast = n - st->cap, .barn_put = home->max_full - 1);
	KUNIT_EXPECT_EQ(test, home->nr_full, home->max_full);
	expect_cached(test, n);

	/* The barn does not accept any more. */
	release(test, 2 * st->cap);
	expect_moves(test, .free_fast = 2 * st->cap, .barn_put_fail = 2, .flush = 2 * st->cap);
	expect_cached(test, n);
	release(test, 1);
	expect_no_sheaf_lost(test, st->cache);

	/* None of them is allocated here. */
	take_moves(test);
	grab(test, 1);
	KUNIT_EXPECT_EQ(test, take_moves(test).barn_get_fail, 1);
}

static long alloc_some(void *data)
{
	struct sheaf_test *st = data;

	return alloc_objects(st, 2 * st->cap + 1, GFP_KERNEL);
}

/* A full sheaf that goes home comes back as an empty one, if there is one. */
static void empty_sheaf_comes_back(struct kunit *test)
{
	int node, cpu;
	struct sheaf_test *st = with_remote_node(test, &node);
	struct slub_percpu_sheaves *pcs = per_cpu_ptr(st->cache->cpu_sheaves, st->cpu);
	struct node_barn *home = st->cache->barns[node];
	unsigned long sheaves;

	cpu = cpumask_any_and(cpumask_of_node(node), cpu_online_mask);
	if (cpu >= nr_cpu_ids)
		kunit_skip(test, "the other node has no CPU that would leave empty sheaves");

	grab_on(test, node, 3 * st->cap);
	kmem_cache_shrink(st->cache);
	release(test, 3 * st->cap);
	KUNIT_ASSERT_EQ(test, home->nr_full, 3);
	/* It uses up two, keeps one of these, and is at the third. */
	KUNIT_ASSERT_EQ(test, work_on_cpu(cpu, alloc_some, st), 2 * st->cap + 1);
	KUNIT_ASSERT_EQ(test, home->nr_full, 0);
	KUNIT_ASSERT_EQ(test, home->nr_empty, 1);

	release(test, st->cap - 1);
	sheaves = count_sheaves(st->cache);
	KUNIT_EXPECT_EQ(test, home->nr_empty, 1);
	release(test, 1);
	KUNIT_EXPECT_NOT_NULL(test, pcs->remote);
	KUNIT_EXPECT_EQ(test, home->nr_full, 1);
	KUNIT_EXPECT_EQ(test, home->nr_empty, 0);
	KUNIT_EXPECT_EQ(test, count_sheaves(st->cache), sheaves);
	expect_no_sheaf_lost(test, st->cache);
}

/* Those of one node, which come after those of another one, leave as sheaves. */
static void remote_objects_change_node(struct kunit *test)
{
	int a, b;
	struct sheaf_test *st = with_remote_node(test, &a);

	b = find_other_memory(cpu_to_node(st->cpu), a);
	if (b == NUMA_NO_NODE)
		kunit_skip(test, "needs three nodes with memory");

	/* What is held last is let go of first. */
	grab_on(test, b, 2 * st->cap);
	grab_on(test, a, st->cap - 1);
	kmem_cache_shrink(st->cache);
	take_moves(test);
	release(test, st->cap - 1);
	expect_moves(test, .free_fast = st->cap - 1);
	release(test, 2 * st->cap);
	expect_moves(test, .free_fast = 2 * st->cap, .flush = st->cap - 1, .barn_put = 2);
	KUNIT_EXPECT_EQ(test, st->cache->barns[b]->nr_full, 2);
}

/* Only those of one node stay, until the sheaf is full of them. */
static void remote_objects_of_two_nodes(struct kunit *test)
{
	int a, b;
	struct sheaf_test *st = with_remote_node(test, &a);
	struct slub_percpu_sheaves *pcs = per_cpu_ptr(st->cache->cpu_sheaves, st->cpu);
	unsigned int i, nr_a = DIV_ROUND_UP(st->cap, 2), nr_b = st->cap - nr_a;

	b = find_other_memory(cpu_to_node(st->cpu), a);
	if (b == NUMA_NO_NODE)
		kunit_skip(test, "needs three nodes with memory");
	if (!nr_b)
		kunit_skip(test, "a sheaf of one object has all of one node");

	grab_on(test, a, nr_b);
	/* What is held last is let go of first. */
	for (i = 0; i < nr_b; i++) {
		grab_on(test, a, 1);
		grab_on(test, b, 1);
	}
	if (nr_a > nr_b)
		grab_on(test, a, 1);
	kmem_cache_shrink(st->cache);
	take_moves(test);
	release(test, st->cap);
	expect_moves(test, .free_fast = st->cap, .flush = nr_b);
	KUNIT_ASSERT_NOT_NULL(test, pcs->remote);
	KUNIT_EXPECT_EQ(test, pcs->remote->size, nr_a);
	for (i = 0; i < nr_a; i++)
		KUNIT_EXPECT_EQ(test, nid_of(pcs->remote->objects[i]), a);

	release(test, nr_b);
	expect_moves(test, .free_fast = nr_b, .barn_put = 1);
	KUNIT_EXPECT_EQ(test, st->cache->barns[a]->nr_full, 1);
	KUNIT_EXPECT_EQ(test, st->cache->barns[b]->nr_full, 0);
}

/* Objects of all nodes by turns. Each goes where it would go alone. */
static void bulk_free_of_mixed_nodes(struct kunit *test)
{
	struct sheaf_test *st = with_setup(test);
	unsigned int i, n = 0, nr_accepted = 0;
	int node, here = cpu_to_node(st->cpu);
	void **p = new_array(test, MIXED_BULK * num_node_state(N_NORMAL_MEMORY));
	struct moves m;

	if (num_node_state(N_NORMAL_MEMORY) == 1)
		kunit_skip(test, "no other node has memory");
	hold_and_drain(test, MIXED_BULK);
	for (i = 0; i < MIXED_BULK; i++) {
		for_each_node_state(node, N_NORMAL_MEMORY) {
			if (node == here)
				p[n] = let_go(st);
			else
				p[n] = kmem_cache_alloc_node(st->cache,
							     GFP_KERNEL | __GFP_THISNODE, node);
			KUNIT_ASSERT_NOT_NULL(test, p[n]);
			nr_accepted += node == here || !has_memory(here);
			n++;
		}
	}
	take_moves(test);
	kmem_cache_free_bulk(st->cache, n, p);
	m = take_moves(test);
	KUNIT_EXPECT_EQ(test, m.free_fast + m.free_slow, n);
	KUNIT_EXPECT_GE(test, m.free_slow, n - nr_accepted);
	if (nr_accepted <= st->cap)
		KUNIT_EXPECT_EQ(test, m.free_fast, nr_accepted);

	/* Whoever allocates here now gets what is near. */
	n = kmem_cache_cached_objects(st->cache);
	KUNIT_EXPECT_EQ(test, n, m.free_fast - m.flush);
	while (n-- > 0) {
		grab(test, 1);
		if (has_memory(here))
			KUNIT_EXPECT_EQ(test, nid_of(st->held), here);
	}
}

/*
 * One CPU allocates, its neighbour frees. The objects go by a ring: what is in a
 * slot is published by head, and that a slot is free again by tail.
 */

#define RING_SIZE	128
#define RING_WARM_UP	10000
#define RING_OBJECTS	30000

struct ring {
	struct work_struct alloc_work, free_work;
	mempool_t *pool;
	unsigned long nr;
	unsigned long head, tail;
	unsigned long end;		/* jiffies */
	void *slot[RING_SIZE];
};

static void ring_alloc(struct work_struct *work)
{
	struct ring *r = container_of(work, struct ring, alloc_work);
	unsigned long head = 0;

	while (head < r->nr && time_before(jiffies, r->end)) {
		/* Pairs with the release in ring_free() */
		if (head - smp_load_acquire(&r->tail) == RING_SIZE) {
			cpu_relax();
			cond_resched();
			continue;
		}
		r->slot[head % RING_SIZE] = mempool_alloc(r->pool, GFP_NOIO);
		/* Pairs with the acquire in ring_free() */
		smp_store_release(&r->head, ++head);
	}
}

static void ring_free(struct work_struct *work)
{
	struct ring *r = container_of(work, struct ring, free_work);
	unsigned long tail = 0;

	while (tail < r->nr && time_before(jiffies, r->end)) {
		/* Pairs with the release in ring_alloc() */
		if (tail == smp_load_acquire(&r->head)) {
			cpu_relax();
			cond_resched();
			continue;
		}
		mempool_free(r->slot[tail % RING_SIZE], r->pool);
		/* Pairs with the acquire in ring_alloc() */
		smp_store_release(&r->tail, ++tail);
	}
}

/* Returns how many objects went through. */
static unsigned long run_ring(struct ring *r, struct workqueue_struct *wq,
			      int alloc_cpu, int free_cpu, unsigned long nr)
{
	r->nr = nr;
	r->head = 0;
	r->tail = 0;
	r->end = jiffies + 60 * HZ;
	INIT_WORK(&r->alloc_work, ring_alloc);
	INIT_WORK(&r->free_work, ring_free);
	queue_work_on(alloc_cpu, wq, &r->alloc_work);
	queue_work_on(free_cpu, wq, &r->free_work);
	flush_work(&r->alloc_work);
	flush_work(&r->free_work);
	nr = r->tail;
	for (; r->tail < r->head; r->tail++)
		mempool_free(r->slot[r->tail % RING_SIZE], r->pool);
	return nr;
}

static const struct setup ring_setups[] = {
	{ "node with memory", 256 },
	{ "node without memory", 256, 0, true },
};

KUNIT_ARRAY_PARAM_DESC(ring_setups, ring_setups, desc);

/* One CPU allocates, another frees, and no object sees a slab. */
static void expect_exchange(struct kunit *test, int from, int to)
{
	struct sheaf_test *st = test->priv;
	struct ring *r = kunit_kzalloc(test, sizeof(*r), GFP_KERNEL);
	struct workqueue_struct *wq;
	unsigned long done = 0;
	struct moves m = { };

	KUNIT_ASSERT_NOT_NULL(test, r);
	if (barn_of(st->cache, from)->max_full * st->cap < RING_SIZE)
		kunit_skip(test, "the objects in flight do not fit into a barn");
	wq = alloc_workqueue("sheaf_kunit", WQ_CPU_INTENSIVE, 0);
	KUNIT_ASSERT_NOT_NULL(test, wq);
	r->pool = mempool_create_slab_pool(16, st->cache);
	if (r->pool) {
		run_ring(r, wq, from, to, RING_WARM_UP);
		take_moves(test);
		done = run_ring(r, wq, from, to, RING_OBJECTS);
		m = take_moves(test);
		mempool_destroy(r->pool);
	}
	destroy_workqueue(wq);

	KUNIT_ASSERT_NOT_NULL(test, r->pool);
	kunit_info(test, "CPU %d allocates, CPU %d frees %lu objects:\n", from, to, done);
	kunit_info(test, "alloc_fastpath %lu, alloc_slowpath %lu, free_fastpath %lu, free_slowpath %lu\n",
		   m.alloc_fast, m.alloc_slow, m.free_fast, m.free_slow);
	kunit_info(test, "sheaf_refill %lu, sheaf_flush %lu, barn_get %lu, barn_put %lu\n",
		   m.refill, m.flush, m.barn_get, m.barn_put);
	KUNIT_EXPECT_EQ(test, done, RING_OBJECTS);
	KUNIT_EXPECT_EQ(test, m.alloc_slow, 0);
	KUNIT_EXPECT_EQ(test, m.free_slow, 0);
	KUNIT_EXPECT_LT(test, m.refill * 100, done);
	KUNIT_EXPECT_LT(test, m.flush * 100, done);
	KUNIT_EXPECT_LT(test, m.list_lock * 100, done);
	KUNIT_EXPECT_GT(test, m.barn_get, 0);
	KUNIT_EXPECT_GT(test, m.barn_put, 0);
}

static void neighbours_exchange_sheaves(struct kunit *test)
{
	struct sheaf_test *st = with_setup(test);
	int other = neighbour_of(st->cpu);

	if (other < 0)
		kunit_skip(test, "no other CPU on the node");
	expect_exchange(test, st->cpu, other);
}

static const struct trip {
	const char *desc;
	bool from_memoryless;
	bool to_memoryless;
} trips[] = {
	{ "between nodes without memory", true, true },
	{ "to a node with memory", true, false },
	{ "from a node with memory", false, true },
	{ "between nodes with memory", false, false },
};

KUNIT_ARRAY_PARAM_DESC(trips, trips, desc);

/* A CPU of another node; if that is to have memory, of @home, if that is a node. */
static int find_cpu_elsewhere(bool memoryless, int not_node, int home)
{
	int cpu;

	for_each_online_cpu(cpu) {
		int node = cpu_to_node(cpu);

		if (node_state(node, N_NORMAL_MEMORY) == !memoryless &&
		    node != not_node &&
		    (memoryless || home == NUMA_NO_NODE || node == home))
			return cpu;
	}
	return -1;
}

static void sheaves_travel(struct kunit *test)
{
	const struct trip *trip = test->param_value;
	int from = find_cpu(!trip->from_memoryless);
	struct sheaf_test *st;
	int home, to;

	if (from < 0)
		kunit_skip(test, "no CPU on a node %s memory",
			   trip->from_memoryless ? "without" : "with");
	bind_to(test, from);
	st = with_cache(test, 256, 0, NULL);
	skip_without_sheaves(test);

	grab(test, 1);
	home = trip->from_memoryless ? nid_of(st->held) : NUMA_NO_NODE;
	release(test, 1);
	to = find_cpu_elsewhere(trip->to_memoryless, cpu_to_node(from), home);
	if (to < 0)
		kunit_skip(test, "no other node %s memory",
			   trip->to_memoryless ? "without" : "with");
	expect_exchange(test, from, to);
}

/*
 * Giving back
 */

static long fill_sheaves(void *data)
{
	struct sheaf_test *st = data;
	unsigned long n = 3 * (st->cap ?: 60) + 1;
	gfp_t gfp = GFP_KERNEL | __GFP_THISNODE;
	int node;

	n = alloc_objects(st, n, GFP_KERNEL);
	free_objects(st, n);

	/* All other nodes together do not fill the sheaf of remote objects. */
	for_each_node_state(node, N_NORMAL_MEMORY) {
		if (node != numa_node_id() &&
		    hold(st, kmem_cache_alloc_node(st->cache, gfp, node)))
			free_objects(st, 1);
	}
	return n;
}

static void fill_sheaves_everywhere(struct kunit *test)
{
	struct sheaf_test *st = test->priv;
	int cpu;

	for_each_online_cpu(cpu)
		KUNIT_EXPECT_GT(test, work_on_cpu(cpu, fill_sheaves, st), 0);
}

static void shrink_gives_all_back(struct kunit *test)
{
	struct sheaf_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	unsigned long cached;
	struct moves m;
	int node;

	fill_sheaves_everywhere(test);
	cached = kmem_cache_cached_objects(st->cache);
	take_moves(test);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
	expect_cached(test, 0);
	m = take_moves(test);
	KUNIT_EXPECT_EQ(test, m.flush, cached);
	KUNIT_EXPECT_EQ(test, count_sheaves(st->cache), 0);
	expect_no_sheaf_lost(test, st->cache);

	if (st->cap) {
		KUNIT_EXPECT_GE(test, cached, st->cap * num_online_cpus());
		for_each_online_node(node) {
			KUNIT_ASSERT_NOT_NULL(test, st->cache->barns[node]);
			KUNIT_EXPECT_EQ(test, st->cache->barns[node]->nr_full, 0);
		}
	}

	/* It can be used again, and shrunk with objects in use. */
	grab(test, 10);
	fill_sheaves_everywhere(test);
	kmem_cache_shrink(st->cache);
	expect_cached(test, 0);
	release(test, 10);
}

static void destroy_with_full_sheaves(struct kunit *test)
{
	struct sheaf_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);

	fill_sheaves_everywhere(test);
	if (st->cap)
		KUNIT_EXPECT_GT(test, kmem_cache_cached_objects(st->cache), 0);
	finish_cache(test);
	KUNIT_EXPECT_EQ(test, st->slab_errors, 0);
}

#ifdef CONFIG_HOTPLUG_CPU
static int find_cpu_to_remove(struct sheaf_test *st)
{
	int cpu, last = -1;

	for_each_online_cpu(cpu)
		if (cpu != st->cpu && cpu_is_hotpluggable(cpu))
			last = cpu;
	return last;
}

/* Whether there are objects that are remote to CPUs of a node. */
static bool expect_remote(int node)
{
	return has_memory(node) && num_node_state(N_NORMAL_MEMORY) > 1;
}

static void cpu_goes_offline(struct kunit *test)
{
	struct sheaf_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	int cpu = find_cpu_to_remove(st);
	struct slub_percpu_sheaves *pcs;
	unsigned long cached, there;

	skip_without_sheaves(test);
	if (cpu < 0)
		kunit_skip(test, "no CPU can be removed");
	pcs = per_cpu_ptr(st->cache->cpu_sheaves, cpu);
	fill_sheaves_everywhere(test);
	KUNIT_ASSERT_NOT_NULL(test, pcs->spare);
	there = pcs->main->size + pcs->spare->size;
	KUNIT_EXPECT_GT(test, there, st->cap);
	if (pcs->remote)
		there += pcs->remote->size;
	/* Nobody else looks into that barn. */
	if (neighbour_of(cpu) < 0)
		there += barn_of(st->cache, cpu)->nr_full * st->cap;
	KUNIT_EXPECT_EQ(test, !!pcs->remote, expect_remote(cpu_to_node(cpu)));
	cached = kmem_cache_cached_objects(st->cache);
	take_moves(test);

	KUNIT_ASSERT_EQ(test, remove_cpu(cpu), 0);
	expect_moves(test, .flush = there);
	expect_cached(test, cached - there);
	KUNIT_EXPECT_EQ(test, pcs->main->capacity, 0);
	KUNIT_EXPECT_NULL(test, pcs->spare);
	KUNIT_EXPECT_NULL(test, pcs->remote);
	expect_no_sheaf_lost(test, st->cache);

	KUNIT_ASSERT_EQ(test, add_cpu(cpu), 0);
	expect_moves(test);
	KUNIT_EXPECT_GT(test, work_on_cpu(cpu, fill_sheaves, st), 0);
	KUNIT_EXPECT_GT(test, pcs->main->size, 0);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
}
#endif

/*
 * Interrupts
 */

#define IRQ_OBJECTS	8

enum irq_kind { IRQ_WORK, HARD_TIMER, SOFT_TIMER };

struct irq_user {
	struct irq_work work;
	struct hrtimer timer;
	struct kmem_cache *cache;
	struct object *got[IRQ_OBJECTS];
	struct object *to_free;
	bool was_hardirq;
	bool done;
};

static void use_cache_in_irq(struct irq_user *u)
{
	unsigned int i;

	u->was_hardirq = in_hardirq();
	for (i = 0; i < IRQ_OBJECTS; i++)
		u->got[i] = kmem_cache_alloc(u->cache, GFP_ATOMIC);
	kmem_cache_free(u->cache, u->to_free);
	WRITE_ONCE(u->done, true);
}

static void irq_user_work(struct irq_work *work)
{
	use_cache_in_irq(container_of(work, struct irq_user, work));
}

static enum hrtimer_restart irq_user_timer(struct hrtimer *timer)
{
	use_cache_in_irq(container_of(timer, struct irq_user, timer));
	return HRTIMER_NORESTART;
}

static const struct irq_case {
	const char *desc;
	enum irq_kind kind;
} irq_cases[] = {
	{ "irq_work", IRQ_WORK },
	{ "hrtimer", HARD_TIMER },
	{ "hrtimer in softirq", SOFT_TIMER },
};

KUNIT_ARRAY_PARAM_DESC(irq_cases, irq_cases, desc);

static void prepare_irq(struct kunit *test, struct irq_user *u)
{
	const struct irq_case *c = test->param_value;
	struct sheaf_test *st = test->priv;

	if (c->kind == HARD_TIMER && IS_ENABLED(CONFIG_PREEMPT_RT))
		kunit_skip(test, "hard interrupts do not allocate on PREEMPT_RT");
	u->cache = st->cache;
	u->to_free = let_go(st);
	/* On PREEMPT_RT this one runs in a thread. */
	init_irq_work(&u->work, irq_user_work);
	hrtimer_init_on_stack(&u->timer, CLOCK_MONOTONIC,
			      c->kind == SOFT_TIMER ? HRTIMER_MODE_REL_PINNED_SOFT :
						      HRTIMER_MODE_REL_PINNED_HARD);
	u->timer.function = irq_user_timer;
}

/* On this CPU. Does not sleep. */
static void raise_irq(struct irq_user *u, enum irq_kind kind)
{
	unsigned long end = jiffies + 5 * HZ;

	if (kind == IRQ_WORK)
		irq_work_queue(&u->work);
	else
		hrtimer_start(&u->timer, ns_to_ktime(10000),
			      kind == SOFT_TIMER ? HRTIMER_MODE_REL_PINNED_SOFT :
						   HRTIMER_MODE_REL_PINNED_HARD);
	while (!READ_ONCE(u->done) && time_before(jiffies, end))
		cpu_relax();
}

static void finish_irq(struct kunit *test, struct irq_user *u)
{
	const struct irq_case *c = test->param_value;
	struct sheaf_test *st = test->priv;
	unsigned int i;

	irq_work_sync(&u->work);
	hrtimer_cancel(&u->timer);
	destroy_hrtimer_on_stack(&u->timer);
	KUNIT_ASSERT_TRUE(test, u->done);
	KUNIT_EXPECT_EQ(test, u->was_hardirq,
			c->kind != SOFT_TIMER && !IS_ENABLED(CONFIG_PREEMPT_RT));
	for (i = 0; i < IRQ_OBJECTS; i++)
		KUNIT_EXPECT_TRUE(test, hold(st, u->got[i]));
}

/* The sheaves are in use: the interrupt must do without them. */
static void irq_while_sheaves_are_locked(struct kunit *test)
{
	struct sheaf_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	const struct irq_case *c = test->param_value;
	struct irq_user u = { };
	unsigned long cached;
	struct moves m;

	skip_without_sheaves(test);
	grab(test, 10);
	release(test, 5);
	prepare_irq(test, &u);
	cached = kmem_cache_cached_objects(st->cache);
	take_moves(test);

	local_lock(&st->cache->cpu_sheaves->lock);
	raise_irq(&u, c->kind);
	local_unlock(&st->cache->cpu_sheaves->lock);

	finish_irq(test, &u);
	expect_moves(test, .alloc_slow = IRQ_OBJECTS, .free_slow = 1);
	expect_cached(test, cached);
	release(test, st->nr_held);
	m = take_moves(test);
	KUNIT_EXPECT_EQ(test, m.free_fast, IRQ_OBJECTS + 4);
	KUNIT_EXPECT_EQ(test, m.free_slow, 0);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
}

/* They are not in use: the interrupt is like everybody else. It even refills. */
static void irq_uses_sheaves(struct kunit *test)
{
	const struct irq_case *c = test->param_value;
	struct irq_user u = { };
	struct moves m;

	with_cache(test, OBJECT_SIZE, 0, NULL);
	skip_without_sheaves(test);
	hold_and_drain(test, 10);
	prepare_irq(test, &u);
	raise_irq(&u, c->kind);
	finish_irq(test, &u);
	m = take_moves(test);
	KUNIT_EXPECT_EQ(test, m.alloc_fast, IRQ_OBJECTS);
	KUNIT_EXPECT_EQ(test, m.alloc_slow, 0);
	KUNIT_EXPECT_GE(test, m.refill, IRQ_OBJECTS);
	KUNIT_EXPECT_EQ(test, m.free_fast, 1);
	KUNIT_EXPECT_EQ(test, m.free_slow, 0);
}

/*
 * Users that do not know of each other. Each allocates and frees at random, with
 * a stack of objects of its own.
 */

#define TICKS		100
#define TICK_NS		(50 * NSEC_PER_USEC)

struct ticker {
	struct hrtimer timer;
	struct sheaf_test user;
	struct rnd_state rnd;
	unsigned int ticks;
	bool done;
};

static void random_step(struct sheaf_test *st, struct rnd_state *rnd, unsigned int max,
			gfp_t gfp)
{
	unsigned int n = prandom_u32_state(rnd) % (max + 1);

	if (st->nr_held < n)
		alloc_objects(st, n - st->nr_held, gfp);
	else
		free_objects(st, st->nr_held - n);
}

static enum hrtimer_restart tick(struct hrtimer *timer)
{
	struct ticker *t = container_of(timer, struct ticker, timer);

	random_step(&t->user, &t->rnd, 30, GFP_ATOMIC);
	if (++t->ticks == TICKS) {
		WRITE_ONCE(t->done, true);
		return HRTIMER_NORESTART;
	}
	hrtimer_forward_now(timer, ns_to_ktime(TICK_NS));
	return HRTIMER_RESTART;
}

/* An interrupt at any time, on top of a task that uses the same sheaves. */
static void irq_at_random(struct kunit *test)
{
	const enum hrtimer_mode mode = IS_ENABLED(CONFIG_PREEMPT_RT) ?
		HRTIMER_MODE_REL_PINNED_SOFT : HRTIMER_MODE_REL_PINNED_HARD;
	struct sheaf_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	unsigned long end = jiffies + HZ;
	struct ticker t = { .user.cache = st->cache };
	struct rnd_state rnd;
	struct moves m;

	prandom_seed_state(&rnd, 1);
	prandom_seed_state(&t.rnd, 2);
	hrtimer_init_on_stack(&t.timer, CLOCK_MONOTONIC, mode);
	t.timer.function = tick;
	hrtimer_start(&t.timer, ns_to_ktime(TICK_NS), mode);
	while (!READ_ONCE(t.done) && time_before(jiffies, end)) {
		random_step(st, &rnd, 5 * (st->cap ?: 60), GFP_KERNEL);
		cond_resched();
	}
	hrtimer_cancel(&t.timer);
	destroy_hrtimer_on_stack(&t.timer);

	KUNIT_EXPECT_GT(test, t.ticks, 0);
	free_objects(st, st->nr_held);
	free_objects(&t.user, t.user.nr_held);
	KUNIT_EXPECT_EQ(test, st->nr_broken + t.user.nr_broken, 0);
	m = take_moves(test);
	KUNIT_EXPECT_EQ(test, m.alloc_fast + m.alloc_slow, m.free_fast + m.free_slow);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
}

/*
 * All CPUs at the same time. Each puts what it allocates into a slot that all
 * share, and frees what was there before, so most objects are freed by others.
 */

#define HAMMER_SLOTS	1024
#define HAMMER_BULK	40
#define HAMMER_STEPS	10000
#define HAMMER_UNBOUND	2		/* users that may move to other CPUs */

struct hammer {
	struct kmem_cache *cache;
	struct object **slots;
	unsigned long end;		/* jiffies */
	atomic_t nr_running;
	atomic_long_t nr_broken;
	atomic_long_t nr_null;
	atomic_long_t nr_allocs;
};

struct hammer_user {
	struct work_struct work;
	struct hammer *hammer;
	struct rnd_state rnd;
	void *bulk[HAMMER_BULK];
};

/* Puts an object, or NULL, into a slot. Returns what was there, to be freed. */
static struct object *exchange(struct hammer_user *u, struct object *obj)
{
	struct hammer *h = u->hammer;

	if (obj) {
		atomic_long_inc(&h->nr_allocs);
		if (!mark_object(h->cache, obj))
			atomic_long_inc(&h->nr_broken);
	}
	obj = xchg(&h->slots[prandom_u32_state(&u->rnd) % HAMMER_SLOTS], obj);
	if (obj && !unmark_object(h->cache, obj))
		atomic_long_inc(&h->nr_broken);
	return obj;
}

static void hammer_one(struct hammer_user *u, struct object *obj)
{
	if (!obj)
		atomic_long_inc(&u->hammer->nr_null);
	obj = exchange(u, obj);
	if (obj)
		kmem_cache_free(u->hammer->cache, obj);
}

static void hammer_bulk(struct hammer_user *u)
{
	unsigned int i, nr = 0, n = 1 + prandom_u32_state(&u->rnd) % HAMMER_BULK;
	struct kmem_cache *s = u->hammer->cache;

	if (!kmem_cache_alloc_bulk(s, GFP_KERNEL, n, u->bulk)) {
		atomic_long_inc(&u->hammer->nr_null);
		return;
	}
	for (i = 0; i < n; i++) {
		struct object *old = exchange(u, u->bulk[i]);

		if (old)
			u->bulk[nr++] = old;
	}
	if (nr)
		kmem_cache_free_bulk(s, nr, u->bulk);
}

static void hammer_step(struct hammer_user *u)
{
	struct kmem_cache *s = u->hammer->cache;
	struct object *obj;

	switch (prandom_u32_state(&u->rnd) % 32) {
	case 0:
		hammer_bulk(u);
		break;
	case 1:
		hammer_one(u, kmem_cache_alloc_node(s, GFP_KERNEL, first_online_node));
		break;
	case 2 ... 4:
		hammer_one(u, kmem_cache_alloc(s, GFP_ATOMIC));
		break;
	case 5 ... 8:
		obj = exchange(u, NULL);
		if (obj)
			kmem_cache_free(s, obj);
		break;
	default:
		hammer_one(u, kmem_cache_alloc(s, GFP_KERNEL));
	}
}

static void hammer_fn(struct work_struct *work)
{
	struct hammer_user *u = container_of(work, struct hammer_user, work);
	unsigned int i;

	for (i = 0; i < HAMMER_STEPS && time_before(jiffies, u->hammer->end); i++) {
		hammer_step(u);
		cond_resched();
	}
	atomic_dec(&u->hammer->nr_running);
}

static void hammer_run(struct hammer *h, struct hammer_user *users,
		       struct workqueue_struct *bound, struct workqueue_struct *unbound)
{
	unsigned int i;
	int cpu;

	atomic_set(&h->nr_running, num_online_cpus() + HAMMER_UNBOUND);
	for (i = 0; i < nr_cpu_ids + HAMMER_UNBOUND; i++) {
		users[i].hammer = h;
		prandom_seed_state(&users[i].rnd, i + 1);
		INIT_WORK(&users[i].work, hammer_fn);
	}
	h->end = jiffies + HZ;
	for_each_online_cpu(cpu)
		queue_work_on(cpu, bound, &users[cpu].work);
	for (i = nr_cpu_ids; i < nr_cpu_ids + HAMMER_UNBOUND; i++)
		queue_work(unbound, &users[i].work);

	do {
		kmem_cache_shrink(h->cache);
		msleep(20);
	} while (atomic_read(&h->nr_running) && time_before(jiffies, h->end));
	for (i = 0; i < nr_cpu_ids + HAMMER_UNBOUND; i++)
		flush_work(&users[i].work);
}

static void hammer_free_slots(struct hammer *h)
{
	unsigned int i;

	for (i = 0; i < HAMMER_SLOTS; i++) {
		struct object *obj = h->slots[i];

		if (!obj)
			continue;
		if (!unmark_object(h->cache, obj))
			atomic_long_inc(&h->nr_broken);
		kmem_cache_free(h->cache, obj);
	}
}

static const struct hammer_case {
	const char *desc;
	unsigned int size;
	slab_flags_t flags;
	void (*ctor)(void *obj);
} hammer_cases[] = {
	{ "plain", OBJECT_SIZE },
	{ "of a page each", PAGE_SIZE },
	{ "constructed", 200, 0, construct },
	{ "SLAB_TYPESAFE_BY_RCU", 200, SLAB_TYPESAFE_BY_RCU, construct },
	{ "debugged, without sheaves", OBJECT_SIZE, SLAB_CONSISTENCY_CHECKS | SLAB_POISON },
};

KUNIT_ARRAY_PARAM_DESC(hammer_cases, hammer_cases, desc);

static void concurrent_users(struct kunit *test)
{
	const struct hammer_case *c = test->param_value;
	struct kmem_cache_args args = { .ctor = c->ctor };
	struct workqueue_struct *bound, *unbound;
	struct hammer_user *users;
	struct hammer h = { };

	/* With KFENCE and with the quarantine. */
	use_cache(test, new_plain_cache(test, "slab_sheaf_kunit", c->size, c->flags, &args));
	h.cache = ((struct sheaf_test *)test->priv)->cache;
	h.slots = kunit_kcalloc(test, HAMMER_SLOTS, sizeof(*h.slots), GFP_KERNEL);
	users = kunit_kcalloc(test, nr_cpu_ids + HAMMER_UNBOUND, sizeof(*users), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, h.slots);
	KUNIT_ASSERT_NOT_NULL(test, users);
	bound = alloc_workqueue("sheaf_kunit", WQ_CPU_INTENSIVE, 0);
	unbound = alloc_workqueue("sheaf_kunit_unbound", WQ_UNBOUND, 0);
	if (bound && unbound)
		hammer_run(&h, users, bound, unbound);
	if (bound)
		destroy_workqueue(bound);
	if (unbound)
		destroy_workqueue(unbound);
	hammer_free_slots(&h);

	kunit_info(test, "%ld objects, %u CPUs\n", atomic_long_read(&h.nr_allocs),
		   num_online_cpus());
	KUNIT_EXPECT_GT(test, atomic_long_read(&h.nr_allocs), num_online_cpus());
	KUNIT_EXPECT_EQ(test, atomic_long_read(&h.nr_broken), 0);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&h.nr_null), 0);
	if (c->flags & SLAB_TYPESAFE_BY_RCU)
		rcu_barrier();
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(h.cache), 0);
	expect_cached(test, 0);
}

static int sheaf_test_init(struct kunit *test)
{
	struct sheaf_test *st = kunit_kzalloc(test, sizeof(*st), GFP_KERNEL);
	int cpu = find_cpu(true);

	if (!st)
		return -ENOMEM;
	test->priv = st;
	bind_to(test, cpu < 0 ? raw_smp_processor_id() : cpu);
	/* Makes the slab allocator count its errors there. */
	return kunit_add_named_resource(test, NULL, NULL, &st->resource, "slab_errors",
					&st->slab_errors);
}

static void sheaf_test_exit(struct kunit *test)
{
	if (test->priv)
		finish_cache(test);
}

static struct kunit_case sheaf_cases[] = {
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
	KUNIT_CASE_PARAM(first_free_on_a_cpu, setups_gen_params),
	KUNIT_CASE(default_capacity),
	KUNIT_CASE_PARAM(requested_capacity, requests_gen_params),
	KUNIT_CASE(requested_capacity_is_not_shared),
	KUNIT_CASE(absurd_capacity),
	KUNIT_CASE(who_has_sheaves),
#ifdef CONFIG_SLUB_DEBUG
	KUNIT_CASE_PARAM(debugging_does_without_sheaves, debug_flags_gen_params),
#endif
	KUNIT_CASE(all_is_slow_without_sheaves),
	KUNIT_CASE(kmalloc_of_all_sizes),
	KUNIT_CASE_PARAM(bulk_sizes, setups_gen_params),
	KUNIT_CASE(bulk_and_single),
	KUNIT_CASE_PARAM(bulk_takes_from_sheaves, setups_gen_params),
	KUNIT_CASE_PARAM(bulk_frees_to_sheaves, setups_gen_params),
	KUNIT_CASE(bulk_of_several_caches),
	KUNIT_CASE_PARAM(kfree_bulk_of_many_kinds, setups_gen_params),
	KUNIT_CASE_PARAM(refill_with_gfp, gfp_cases_gen_params),
	KUNIT_CASE_PARAM(bulk_refill_with_gfp, gfp_cases_gen_params),
	KUNIT_CASE(mempool_is_served_by_sheaves),
	KUNIT_CASE(zeroing),
	KUNIT_CASE(constructed_objects),
	KUNIT_CASE(typesafe_by_rcu),
	KUNIT_CASE(accounted_objects),
	KUNIT_CASE_PARAM(pfmemalloc_is_kept_out, setups_gen_params),
	KUNIT_CASE(kfence_is_kept_out),
	KUNIT_CASE(alloc_on_each_node),
	KUNIT_CASE_PARAM(node_of_top_object, setups_gen_params),
	KUNIT_CASE_PARAM(remote_objects_are_kept_apart, setups_gen_params),
	KUNIT_CASE_PARAM(remote_objects_go_home, setups_gen_params),
	KUNIT_CASE_PARAM(empty_sheaf_comes_back, setups_gen_params),
	KUNIT_CASE_PARAM(remote_objects_change_node, setups_gen_params),
	KUNIT_CASE_PARAM(remote_objects_of_two_nodes, setups_gen_params),
	KUNIT_CASE_PARAM(bulk_free_of_mixed_nodes, setups_gen_params),
	KUNIT_CASE_PARAM(neighbours_exchange_sheaves, ring_setups_gen_params),
	KUNIT_CASE_PARAM(sheaves_travel, trips_gen_params),
	KUNIT_CASE(shrink_gives_all_back),
	KUNIT_CASE(destroy_with_full_sheaves),
#ifdef CONFIG_HOTPLUG_CPU
	KUNIT_CASE(cpu_goes_offline),
#endif
	KUNIT_CASE_PARAM(irq_while_sheaves_are_locked, irq_cases_gen_params),
	KUNIT_CASE_PARAM(irq_uses_sheaves, irq_cases_gen_params),
	KUNIT_CASE(irq_at_random),
	KUNIT_CASE_PARAM(concurrent_users, hammer_cases_gen_params),
	{}
};

static struct kunit_suite sheaf_suite = {
	.name = "slab_sheaf",
	.init = sheaf_test_init,
	.exit = sheaf_test_exit,
	.test_cases = sheaf_cases,
};

kunit_test_suite(sheaf_suite);

MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
MODULE_DESCRIPTION("KUnit tests for the sheaves of the slab allocator");
MODULE_LICENSE("GPL");
