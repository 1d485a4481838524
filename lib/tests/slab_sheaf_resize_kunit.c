// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of sheaves: sizes that change while they are in use
 *
 * By hand: capacities from one to another, to none, and back, with sheaves of three
 * capacities wherever a sheaf can be. And by themselves: slow start, barns that grow and
 * shrink, what is given back when it is not needed or when memory is short. When a round
 * takes place is up to the tests; one by the timer may come in between, and must not make
 * any difference.
 */

#include <kunit/static_stub.h>
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/mmzone.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/sched/isolation.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/workqueue.h>

#include "slab_kunit.h"

#ifdef CONFIG_SLAB_SHEAVES

/* So many rounds, and all that is not used is gone. */
#define ROUNDS	5

static const unsigned int capacities[] = { 124, 12, 28, 0, 60, 252, 4, 60 };

static void rounds(unsigned int n)
{
	while (n--)
		sheaves_round();
}

static struct slab_test *with_objects(struct kunit *test, unsigned int size,
				      unsigned int feedback, slab_flags_t flags)
{
	struct kmem_cache_args args = { };
	struct slab_test *st;

	if (find_cpu(true) < 0)
		kunit_skip(test, "no CPU on a node with memory");
	if (feedback & ~READ_ONCE(slab_feedback))
		kunit_skip(test, "slab_sheaf.feedback= is in force");
	st = with_cache(test, size, flags, &args);
	skip_without_sheaves(test);
	set_feedback(st->cache, feedback);
	return st;
}

static struct slab_test *with_flags(struct kunit *test, unsigned int feedback,
				    slab_flags_t flags)
{
	return with_objects(test, OBJECT_SIZE, feedback, flags);
}

static struct slab_test *with_feedback(struct kunit *test, unsigned int feedback)
{
	return with_flags(test, feedback, 0);
}

static void resize(struct kunit *test, unsigned int capacity)
{
	struct slab_test *st = test->priv;

	KUNIT_ASSERT_EQ(test, resize_sheaves(st->cache, capacity), 0);
	if (capacity)
		KUNIT_ASSERT_GE(test, sheaf_capacity(st->cache), capacity);
	else
		KUNIT_ASSERT_EQ(test, sheaf_capacity(st->cache), 0);
	st->cap = sheaf_capacity(st->cache);
}

/* Nothing is left in any sheaf, nor is any sheaf left. */
static void expect_nothing_left(struct kunit *test)
{
	struct slab_test *st = test->priv;

	release(test, st->nr_held);
	KUNIT_EXPECT_EQ(test, st->nr_broken, 0);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
	expect_cached(test, 0);
	KUNIT_EXPECT_EQ(test, count_sheaves(st->cache), 0);
	expect_balance(test);
}

/* The new capacity is that of the sheaves that are used next. */
static void resize_is_taken_up(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, 0);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(capacities); i++) {
		grab(test, 300);
		resize(test, capacities[i]);
		release(test, 250);
		grab(test, 2000);
		release(test, 2000);
		grab(test, 1000);
		expect_balance(test);
		if (st->cap)
			KUNIT_EXPECT_EQ(test, sheaves_here(st)->main->capacity, st->cap);
		else
			KUNIT_EXPECT_PTR_EQ(test, sheaves_here(st)->main, slab_no_sheaf);
	}
	expect_nothing_left(test);
}

/* Sheaves of three capacities wherever a sheaf can be. */
static void resize_in_each_state(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, 0);
	struct slab_sheaf *lent[ARRAY_SIZE(capacities)] = { };
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(capacities); i++) {
		/* In main, spare and the barn, full and empty. */
		grab(test, 900);
		release(test, 800);
		/* Lent. */
		lent[i] = lend(test, kmem_cache_prefill_sheaf(st->cache, GFP_KERNEL, 10));
		/* With RCU, and about to be. */
		grab(test, 150);
		for (j = 0; j < 150; j++)
			kfree_rcu(let_go(st), rcu);
		resize(test, capacities[i]);
		for (j = 0; j < 10; j++)
			kfree_rcu(let_go(st), rcu);
		/* Of sheaves lent before, one needs more, and one goes back. */
		if (i >= 1) {
			KUNIT_ASSERT_EQ(test, refill_lent(test, &lent[i - 1], 50), 0);
			KUNIT_ASSERT_GE(test, lent[i - 1]->capacity, lent[i - 1]->size);
			KUNIT_ASSERT_GE(test, lent[i - 1]->size, 50);
		}
		if (i >= 2)
			give_back(test, lent[i - 2]);
	}
	give_all_back(test);
	kvfree_rcu_barrier();
	expect_nothing_left(test);
}

/* Who borrows a sheaf gets one that is large enough, whatever there is. */
static void small_sheaves_are_not_lent(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, 0);
	struct slab_sheaf *lent;
	unsigned int n;

	resize(test, 4);
	n = 6 * st->cap;
	hold_and_drain(test, n);
	/* In main, spare and the barn. */
	release(test, n);
	KUNIT_EXPECT_GT(test, barn_of(st->cache, st->cpu)->nr_full, 0);
	/* What a sheaf of 4 has room for depends on the size of pointers. */
	resize(test, n);
	lent = kmem_cache_prefill_sheaf(st->cache, GFP_KERNEL, n);
	KUNIT_ASSERT_NOT_NULL(test, lent);
	KUNIT_EXPECT_GE(test, lent->capacity, n);
	KUNIT_EXPECT_GE(test, lent->size, n);
	kmem_cache_return_sheaf(st->cache, GFP_KERNEL, lent);
	expect_nothing_left(test);
}

/* Remote objects: collected under one capacity, sent home under another. */
static void resize_remote(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, 0);
	int other = find_other_memory(cpu_to_node(st->cpu), NUMA_NO_NODE);
	unsigned int i;

	if (other == NUMA_NO_NODE)
		kunit_skip(test, "no other node has memory");
	for (i = 0; i < ARRAY_SIZE(capacities); i++) {
		grab_on(test, other, 200);
		release(test, 45);
		if (st->cap)
			KUNIT_EXPECT_NOT_NULL(test, sheaves_here(st)->remote);
		resize(test, capacities[i]);
		release(test, 155);
	}
	expect_nothing_left(test);
}

/* Nobody takes the sheaf of another size, but it goes. */
static void resize_remote_that_is_refused(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, 0);
	int other = find_other_memory(cpu_to_node(st->cpu), NUMA_NO_NODE);
	unsigned int i;

	if (other == NUMA_NO_NODE)
		kunit_skip(test, "no other node has memory");
	skip_if_larger(test, 390);
	set_barns(st->cache, 0, 0);
	for (i = 0; i < ARRAY_SIZE(capacities); i++) {
		grab_on(test, other, 400);
		release(test, 10);
		resize(test, capacities[i]);
		release(test, 390);
		if (st->cap) {
			KUNIT_ASSERT_NOT_NULL(test, sheaves_here(st)->remote);
			KUNIT_EXPECT_EQ(test, sheaves_here(st)->remote->capacity, st->cap);
		}
	}
	expect_nothing_left(test);
}

/* Sheaves that are smaller than what the CPU needed are no reason to lose them for ever. */
static void fill_of_larger_sheaves(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, BALANCE_SLOW_START);
	unsigned long n;

	hold_and_drain(test, 4 * st->cap);
	release(test, 4 * st->cap);
	n = count_sheaves(st->cache);
	sheaves_here(st)->fill = 4 * st->cap;
	grab(test, st->cap + 1);
	KUNIT_EXPECT_EQ(test, count_sheaves(st->cache), n);
	expect_nothing_left(test);
}

/* As if the CPU had not been disturbed when the other sheaves were emptied. */
static void remote_comes_too_late(struct kunit *test)
{
	struct slab_test *st = test->priv;
	struct slab_sheaf *remote = xchg(&sheaves_here(st)->remote, NULL);

	KUNIT_ASSERT_NOT_NULL(test, remote);
	resize(test, 0);
	WRITE_ONCE(sheaves_here(st)->remote, remote);
	release(test, 1);
	KUNIT_EXPECT_NULL(test, sheaves_here(st)->remote);
	expect_cached(test, 0);
}

/* It goes with the next object that is freed, of whatever node. */
static void remote_that_comes_too_late(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, 0);
	int other = find_other_memory(cpu_to_node(st->cpu), NUMA_NO_NODE);

	if (other == NUMA_NO_NODE)
		kunit_skip(test, "no other node has memory");
	grab_on(test, other, 11);
	release(test, 10);
	remote_comes_too_late(test);

	/* Where main may stay, and has room, nobody looks. */
	if (!cpu_is_isolated(st->cpu)) {
		resize(test, 60);
		grab(test, 1);
		grab_on(test, other, 10);
		release(test, 10);
		remote_comes_too_late(test);
	}
	expect_nothing_left(test);
}

static void resize_to_none_and_back(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, 0);

	grab(test, 500);
	release(test, 400);
	resize(test, 0);
	expect_cached(test, 0);
	KUNIT_EXPECT_EQ(test, count_sheaves(st->cache), 0);
	take_moves(test);
	grab(test, 50);
	release(test, 50);
	expect_moves(test, .alloc_slow = 50, .free_slow = 50);

	resize(test, 60);
	hold_and_drain(test, 100);
	release(test, 50);
	expect_moves(test, .free_fast = 50);
	expect_nothing_left(test);
}

static void *none_meanwhile(size_t size, gfp_t gfp)
{
	struct kunit *test = kunit_get_current_test();

	kunit_deactivate_static_stub(test, kmalloc_nosheaf);
	resize(test, 0);
	return kmalloc_nosheaf(size, gfp);
}

/* Who frees one finds no sheaf, and there are to be none any more when he has made one. */
static void free_with_none_meanwhile(struct kunit *test)
{
	struct slab_test *st = test->priv;

	kmem_cache_shrink(st->cache);
	KUNIT_ASSERT_EQ(test, count_sheaves(st->cache), 0);
	kunit_activate_static_stub(test, kmalloc_nosheaf, none_meanwhile);
	release(test, 1);
	KUNIT_ASSERT_EQ(test, sheaf_capacity(st->cache), 0);
	KUNIT_EXPECT_EQ(test, count_sheaves(st->cache), 0);
}

static void resize_to_none_meanwhile(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, 0);
	int other = find_other_memory(cpu_to_node(st->cpu), NUMA_NO_NODE);

	if (cpu_is_isolated(st->cpu))
		kunit_skip(test, "the CPU is isolated, and keeps its sheaves");
	grab(test, 1);
	free_with_none_meanwhile(test);
	if (other != NUMA_NO_NODE) {
		resize(test, 60);
		grab_on(test, other, 1);
		free_with_none_meanwhile(test);
	}
	expect_nothing_left(test);
}

#ifdef CONFIG_SLAB_RCU_SHEAVES
/* As none_meanwhile(), where nobody may sleep. There are no sheaves that are to be taken away. */
static void *none_at_once(size_t size, gfp_t gfp)
{
	struct kunit *test = kunit_get_current_test();
	struct slab_test *st = test->priv;

	kunit_deactivate_static_stub(test, kmalloc_nosheaf);
	WRITE_ONCE(st->cache->sheaf_capacity, 0);
	return kmalloc_nosheaf(size, gfp);
}

static void none_meanwhile_by_rcu(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, 0);

	grab(test, 1);
	kmem_cache_shrink(st->cache);
	KUNIT_ASSERT_EQ(test, count_sheaves(st->cache), 0);
	kunit_activate_static_stub(test, kmalloc_nosheaf, none_at_once);
	kfree_rcu(let_go(st), rcu);
	KUNIT_EXPECT_EQ(test, sheaf_capacity(st->cache), 0);
	KUNIT_EXPECT_EQ(test, count_sheaves(st->cache), 0);
	WRITE_ONCE(st->cache->sheaf_capacity, st->cap);
	kvfree_rcu_barrier();
	expect_nothing_left(test);
}
#endif

/* What has come to a barn too late stays there, and so does the room that there is. */
static void none_comes_from_barn(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, 0);
	struct node_barn *barn = barn_of(st->cache, st->cpu);
	unsigned int n = 2 * st->cap + 1, nr_full, nr_empty, nr;
	void **p;

	p = kunit_kmalloc_array(test, n, sizeof(*p), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, p);
	hold_and_drain(test, 5 * st->cap);
	release(test, 5 * st->cap);
	grab(test, 5 * st->cap);
	release(test, 3 * st->cap);

	/* As if they had come after all were emptied. Many objects are freed, ... */
	rcu_read_lock();
	/* The only one of a full sheaf might go to the barn at once. */
	if (st->cap > 1)
		kfree_rcu(let_go(st), rcu);
	nr_full = barn->nr_full;
	nr_empty = barn->nr_empty;
	WRITE_ONCE(st->cache->sheaf_capacity, 0);
	rcu_read_unlock();
	kvfree_rcu_barrier();
	KUNIT_EXPECT_EQ(test, barn->nr_full, nr_full);
	KUNIT_EXPECT_EQ(test, barn->nr_empty, nr_empty);
	/* ... and allocated. */
	nr = kmem_cache_alloc_bulk(st->cache, GFP_KERNEL, n, p);
	KUNIT_EXPECT_EQ(test, nr, n);
	KUNIT_EXPECT_EQ(test, barn->nr_full, nr_full);
	if (nr)
		kmem_cache_free_bulk(st->cache, nr, p);
	WRITE_ONCE(st->cache->sheaf_capacity, st->cap);
	KUNIT_EXPECT_GT(test, nr_full, 0);
	KUNIT_EXPECT_GT(test, nr_empty, 0);
	expect_nothing_left(test);
}

static void resize_is_refused(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, 0);
	unsigned int cap = st->cap;
	struct kmem_cache *s;

	KUNIT_EXPECT_EQ(test, resize_sheaves(st->cache, UINT_MAX), -EINVAL);
	KUNIT_EXPECT_EQ(test, sheaf_capacity(st->cache), cap);

	s = virt_to_slab(st->cache)->slab_cache;
	KUNIT_EXPECT_EQ(test, resize_sheaves(s, 60), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, sheaf_capacity(s), 0);
#ifdef CONFIG_SLUB_DEBUG
	s = new_cache(test, "slab_kunit_debug", OBJECT_SIZE, SLAB_RED_ZONE, NULL);
	KUNIT_EXPECT_EQ(test, resize_sheaves(s, 60), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, sheaf_capacity(s), 0);
	destroy_cache_of(test, s);
#endif
#ifdef CONFIG_DEBUG_OBJECTS
	/* Who allocates from it has locks that call_rcu() needs. */
	s = new_cache(test, "slab_kunit_objects", OBJECT_SIZE, SLAB_DEBUG_OBJECTS, NULL);
	KUNIT_EXPECT_EQ(test, sheaf_capacity(s), 0);
	KUNIT_EXPECT_EQ(test, resize_sheaves(s, 60), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, sheaf_capacity(s), 0);
	destroy_cache_of(test, s);
#endif
}

/* As if the command line had said so when the cache was created. */
static void take_barns_away(struct kunit *test)
{
	struct slab_test *st = test->priv;
	struct node_barn **barns = st->cache->barns;
	int node;

	resize(test, 0);
	/* Rounds and shrinkers look at them. */
	sheaves_lock();
	st->cache->barns = NULL;
	for_each_node(node)
		if (barns[node])
			kmem_cache_free(slab_barn_cache, barns[node]);
	kmem_cache_free(slab_barns_cache, barns);
	sheaves_unlock();
}

static struct {
	unsigned int left;	/* Barns for which there is memory. */
	unsigned int made;
} barn_memory;

static struct node_barn *little_memory_for_barns(int node)
{
	if (barn_memory.made == barn_memory.left)
		return NULL;
	barn_memory.made++;
	return kmem_cache_alloc_node(slab_barn_cache, GFP_KERNEL, node);
}

/*
 * Files
 */

#ifdef SLAB_SUPPORTS_SYSFS

struct lock_holder {
	struct work_struct work;
	struct completion locked, done;
};

/* Lets go in the end, late enough for a slow guest: who waits is found to have waited. */
static void hold_lock(struct work_struct *work)
{
	struct lock_holder *h = container_of(work, struct lock_holder, work);

	sheaves_lock();
	complete(&h->locked);
	wait_for_completion_timeout(&h->done, 20 * HZ);
	sheaves_unlock();
}

static ssize_t write_file(struct kmem_cache *s, const char *name, const char *value)
{
	struct attribute **attr = slab_sheaf_attr_group.attrs;
	ssize_t ret;

	while (*attr && strcmp((*attr)->name, name))
		attr++;
	if (!*attr)
		return -ENOENT;
	ret = s->kobj.ktype->sysfs_ops->store(&s->kobj, *attr, value, strlen(value));
	/* A system call would begin anew, for which it pretends that there is a signal. */
	if (ret == -ERESTARTNOINTR)
		clear_tsk_thread_flag(current, TIF_SIGPENDING);
	return ret;
}

/* As a system call does, for whoever else has the lock now. */
static ssize_t write_until_done(struct kmem_cache *s, const char *name, const char *value)
{
	unsigned int tries = 500;
	ssize_t ret;

	do {
		ret = write_file(s, name, value);
	} while (ret == -ERESTARTNOINTR && --tries);
	return ret;
}

/* While somebody creates a cache, who may have to wait for those who are in its files. */
static void files_wait_for_nobody(struct kunit *test)
{
	static const char * const files[][2] = {
		{ "sheaf_capacity", "60" },
		{ "sheaf_feedback", "none" },
		{ "barn_max_full", "9" },
		{ "barn_max_empty", "auto" },
	};
	struct slab_test *st = with_feedback(test, 0);
	struct kmem_cache *s = st->cache;
	struct lock_holder h;
	unsigned int i;

	init_completion(&h.locked);
	init_completion(&h.done);
	INIT_WORK_ONSTACK(&h.work, hold_lock);
	schedule_work(&h.work);
	wait_for_completion(&h.locked);
	for (i = 0; i < ARRAY_SIZE(files); i++)
		KUNIT_EXPECT_EQ_MSG(test, write_file(s, files[i][0], files[i][1]),
				    -ERESTARTNOINTR, "%s", files[i][0]);
	complete(&h.done);
	flush_work(&h.work);
	destroy_work_on_stack(&h.work);

	for (i = 0; i < ARRAY_SIZE(files); i++)
		KUNIT_EXPECT_EQ_MSG(test, write_until_done(s, files[i][0], files[i][1]),
				    strlen(files[i][1]), "%s", files[i][0]);
	KUNIT_EXPECT_EQ(test, s->barn_max_full, 9);
}

#endif /* SLAB_SUPPORTS_SYSFS */

/* There is no memory for the barn of the first node, or of the second, and so on. */
static void resize_without_memory(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, 0);
	unsigned int i;

	take_barns_away(test);
	kunit_activate_static_stub(test, slab_alloc_barn, little_memory_for_barns);
	for (i = 0; i < num_online_nodes(); i++) {
		barn_memory.left = i;
		barn_memory.made = 0;
		KUNIT_EXPECT_EQ(test, resize_sheaves(st->cache, 60), -ENOMEM);
		KUNIT_EXPECT_EQ(test, barn_memory.made, i);
		KUNIT_EXPECT_EQ(test, sheaf_capacity(st->cache), 0);
		KUNIT_EXPECT_NULL(test, st->cache->barns);
		grab(test, 50);
		release(test, 50);
	}
	kunit_deactivate_static_stub(test, slab_alloc_barn);
	resize(test, 60);
	/* What it was told when it had none. */
	KUNIT_EXPECT_EQ(test, READ_ONCE(st->cache->feedback), 0);
	hold_and_drain(test, 100);
	release(test, 100);
	expect_nothing_left(test);
}

static void barn_limits_by_hand(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, BALANCE_ALL);
	struct node_barn *barn = barn_of(st->cache, st->cpu);

	set_barns(st->cache, 3, 1);
	KUNIT_EXPECT_EQ(test, barn->max_full, 3);
	KUNIT_EXPECT_EQ(test, barn->max_empty, 1);
	grab(test, 20 * st->cap);
	release(test, 20 * st->cap);
	grab(test, 20 * st->cap);
	release(test, 20 * st->cap);
	KUNIT_EXPECT_EQ(test, barn->max_full, 3);
	KUNIT_EXPECT_EQ(test, barn->nr_full, 3);
	rounds(ROUNDS);
	KUNIT_EXPECT_EQ(test, barn->max_full, 3);

	set_barns(st->cache, 0, 0);
	grab(test, 20 * st->cap);
	release(test, 20 * st->cap);
	KUNIT_EXPECT_EQ(test, barn->nr_full, 0);

	set_barns(st->cache, BARN_LIMIT_AUTO, BARN_LIMIT_AUTO);
	KUNIT_EXPECT_EQ(test, barn->max_full, BALANCE_MIN_SHEAVES);
	expect_nothing_left(test);
}

static void slow_start(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, BALANCE_SLOW_START);
	unsigned int first, i;

	skip_if_smaller(test, 16);
	grab(test, 1);
	first = sheaves_here(st)->main->capacity;
	KUNIT_EXPECT_LE(test, first, st->cap / 4);
	KUNIT_EXPECT_LE(test, cached_objects(st->cache), first);
	for (i = 0; i < 10; i++)
		grab(test, st->cap);
	KUNIT_EXPECT_EQ(test, sheaves_here(st)->main->capacity, st->cap);

	/* A CPU that has never had any, and no slow start. */
	set_feedback(st->cache, 0);
	expect_nothing_left(test);
	sheaves_here(st)->fill = 0;
	grab(test, 1);
	KUNIT_EXPECT_EQ(test, sheaves_here(st)->main->capacity, st->cap);
	expect_nothing_left(test);
}

static unsigned long bursts(struct kunit *test, unsigned int times, unsigned long n)
{
	struct slab_test *st = test->priv;
	unsigned long before = count(st->cache, SHEAF_REFILL);

	while (times--) {
		grab(test, n);
		release(test, n);
	}
	return count(st->cache, SHEAF_REFILL) - before;
}

/* Rounds give back all that it has, and was granted. */
static void expect_barn_falls(struct kunit *test, struct node_barn *barn)
{
	rounds(ROUNDS);
	KUNIT_EXPECT_EQ(test, barn->max_full, BALANCE_MIN_SHEAVES);
	KUNIT_EXPECT_EQ(test, barn->nr_full, 0);
	KUNIT_EXPECT_EQ(test, barn->nr_empty, 0);
	KUNIT_EXPECT_EQ(test, READ_ONCE(barn->granted), 0);
	expect_nothing_left(test);
}

static void barn_grows_and_shrinks(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, BALANCE_GROWTH | BALANCE_WORKING_SET);
	struct node_barn *barn = barn_of(st->cache, st->cpu);
	unsigned long n = 20 * st->cap;

	KUNIT_EXPECT_EQ(test, barn->max_full, BALANCE_MIN_SHEAVES);
	bursts(test, 20, n);
	KUNIT_EXPECT_GE(test, barn->max_full, 18);
	KUNIT_EXPECT_LE(test, barn->max_full, 40);
	KUNIT_EXPECT_EQ(test, bursts(test, 5, n), 0);
	if (IS_ENABLED(CONFIG_SLUB_STATS))
		KUNIT_EXPECT_GT(test, count(st->cache, BARN_GROW), 0);
	KUNIT_EXPECT_GT(test, READ_ONCE(barn->granted), 0);

	expect_barn_falls(test, barn);
}

/* What a barn may hold is the same with larger sheaves. */
static void limits_follow_capacity(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, BALANCE_GROWTH);
	struct node_barn *barn = barn_of(st->cache, st->cpu);
	unsigned long objects;

	resize(test, 60);
	bursts(test, 20, 20 * st->cap);
	KUNIT_ASSERT_GE(test, barn->max_full, 18);
	objects = barn->max_full * st->cap;
	resize(test, 4 * st->cap);
	KUNIT_EXPECT_LE(test, barn->max_full * st->cap, objects);
	KUNIT_EXPECT_GT(test, (barn->max_full + 1) * st->cap, objects);
	expect_nothing_left(test);
}

/* What a barn was granted it does not keep when its limit falls for another reason. */
static void grants_end_with_capacity(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, BALANCE_GROWTH | BALANCE_WORKING_SET);
	struct node_barn *barn = barn_of(st->cache, st->cpu);

	bursts(test, 20, 20 * st->cap);
	KUNIT_EXPECT_GT(test, READ_ONCE(barn->granted), 0);
	resize(test, 0);
	KUNIT_EXPECT_EQ(test, READ_ONCE(barn->granted), 0);
	resize(test, 60);
	expect_barn_falls(test, barn);
}

/* It gives it back with the limit, in part, and all of it to who decides by hand. */
static void grants_follow_limit(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, BALANCE_GROWTH);
	struct node_barn *barn = barn_of(st->cache, st->cpu);
	int node = cpu_to_node(st->cpu);
	unsigned long had;

	while (barn->max_full < 16 && sheaf_barn_grow(st->cache, barn, node, barn->max_full))
		;
	KUNIT_ASSERT_EQ(test, barn->max_full, 16);
	/* It has room for those who found 8 too few. */
	KUNIT_EXPECT_TRUE(test, sheaf_barn_grow(st->cache, barn, node, 8));
	KUNIT_EXPECT_EQ(test, barn->max_full, 16);
	had = READ_ONCE(barn->granted);
	KUNIT_EXPECT_EQ(test, had, (16UL - BALANCE_MIN_SHEAVES) *
				   st->cache->size * sheaf_capacity(st->cache));
	sheaf_barn_lower(st->cache, node, 2);
	KUNIT_EXPECT_EQ(test, barn->max_full, 4);
	KUNIT_EXPECT_EQ(test, READ_ONCE(barn->granted), had / 4);

	KUNIT_EXPECT_EQ(test, set_barns(st->cache, 16, BARN_LIMIT_AUTO), 0);
	KUNIT_EXPECT_EQ(test, READ_ONCE(barn->granted), 0);
	KUNIT_EXPECT_EQ(test, barn->max_empty, 16);
	KUNIT_EXPECT_FALSE(test, sheaf_barn_grow(st->cache, barn, node, barn->max_full));
	sheaf_barn_lower(st->cache, node, 4);
	KUNIT_EXPECT_EQ(test, barn->max_full, 16);
	KUNIT_EXPECT_EQ(test, set_barns(st->cache, BARN_LIMIT_AUTO, BARN_LIMIT_AUTO), 0);
	KUNIT_EXPECT_EQ(test, barn->max_full, BALANCE_MIN_SHEAVES);
	expect_nothing_left(test);
}

/*
 * For each of two barns, or one, somebody waits so often, between two rounds. One by the timer
 * may come first, and begin to count anew.
 */
static void let_sheaves_grow(struct kunit *test, struct node_barn *barn, unsigned int contended,
			     struct node_barn *other, unsigned int other_contended)
{
	struct slab_test *st = test->priv;
	unsigned int i, cap = st->cap;

	for (i = 0; i < 10 && cap == st->cap; i++) {
		WRITE_ONCE(other->contended, other_contended);
		WRITE_ONCE(barn->contended, contended);
		rounds(1);
		cap = sheaf_capacity(st->cache);
	}
	KUNIT_EXPECT_GT(test, cap, st->cap);
	KUNIT_EXPECT_EQ(test, READ_ONCE(barn->contended), 0);
}

/* All sheaves of a cache together may be a small part of the memory only. */
static void need_room_to_grow(struct kunit *test)
{
	struct slab_test *st = test->priv;

	if (totalram_pages() / 512 * PAGE_SIZE / (3UL * num_possible_cpus()) <
	    124UL * st->cache->size)
		kunit_skip(test, "too little memory, or too many CPUs, for larger sheaves");
}

/* Those who wait for the lock of a barn come less often with larger sheaves. */
static void sheaves_grow_and_shrink(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, BALANCE_GROWTH);
	struct node_barn *barn = barn_of(st->cache, st->cpu);
	unsigned int i, often = 1000 * nr_cpu_ids;

	need_room_to_grow(test);
	resize(test, 60);
	let_sheaves_grow(test, barn, often, barn, often);
	for (i = 0; i < 10 && sheaf_capacity(st->cache) != st->cap; i++)
		rounds(1);
	KUNIT_EXPECT_EQ(test, sheaf_capacity(st->cache), st->cap);

	let_sheaves_grow(test, barn, often, barn, often);
	set_feedback(st->cache, 0);
	for (i = 0; i < ROUNDS; i++) {
		WRITE_ONCE(barn->contended, often);
		rounds(1);
	}
	KUNIT_EXPECT_EQ(test, sheaf_capacity(st->cache), st->cap);
}

static unsigned int rounds_that_go_on(struct node_barn *barn, unsigned int contended)
{
	unsigned int i, again = 0;

	for (i = 0; i < 2 * ROUNDS; i++) {
		WRITE_ONCE(barn->contended, contended);
		again += sheaves_round();
	}
	return again;
}

/* Rounds go on for those who wait, though they need no objects and nothing is given back. */
static void growth_goes_by_itself(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, BALANCE_GROWTH);
	struct node_barn *barn = barn_of(st->cache, st->cpu);
	unsigned int feedback = READ_ONCE(slab_feedback);
	unsigned int seldom, often;

	sheaves_set_all_feedback(BALANCE_GROWTH);
	seldom = rounds_that_go_on(barn, BALANCE_CONTENDED);
	often = rounds_that_go_on(barn, BALANCE_CONTENDED + 1);
	sheaves_set_all_feedback(feedback);
	KUNIT_EXPECT_LT(test, seldom, 2 * ROUNDS);
	/* The timer's may see it before one of them does. */
	KUNIT_EXPECT_GE(test, often, 2 * ROUNDS - 2);
}

/* Whom CPUs of other nodes come to is waited for more often, and that is nothing yet. */
static void growth_goes_by_cpus(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, BALANCE_GROWTH);
	struct node_barn *barn, *near;
	unsigned int i, own, far;
	int cpu, node;

	cpu = find_cpu(false);
	if (cpu < 0)
		kunit_skip(test, "all CPUs are on nodes with memory");
	node = sheaf_paying_node(cpu_to_node(cpu));
	if (!node_state(node, N_CPU))
		kunit_skip(test, "its memory comes from a node without CPUs");
	barn = barn_of(st->cache, cpu);
	near = st->cache->barns[node];

	need_room_to_grow(test);
	resize(test, 60);
	own = BALANCE_CONTENDED * sheaves_cpus_of_node(node) + 1;
	for (i = 0; i < ROUNDS; i++) {
		WRITE_ONCE(near->contended, own);
		rounds(1);
	}
	KUNIT_EXPECT_EQ(test, sheaf_capacity(st->cache), st->cap);

	far = BALANCE_CONTENDED * sheaves_cpus_of_node(cpu_to_node(cpu)) + 1;
	let_sheaves_grow(test, barn, far, near, far + 1);
}

/* Whether to allocate one object more than there are in so many sheaves starts rounds. */
static bool starts_rounds(struct kunit *test, struct node_barn *barn,
			  unsigned int contended, unsigned int sheaves, gfp_t gfp)
{
	struct slab_test *st = test->priv;
	unsigned int cap = sheaf_capacity(st->cache), n = sheaves * cap + 1;
	bool started;

	grab(test, 4 * cap);
	release(test, 4 * cap);
	WRITE_ONCE(barn->contended, contended);
	WRITE_ONCE(sheaves_missed, false);
	KUNIT_ASSERT_EQ(test, alloc_objects(st, n, gfp), n);
	started = READ_ONCE(sheaves_missed);
	release(test, n);
	return started;
}

/*
 * Rounds begin, or are to go on, when others have waited for the barn that a CPU comes to;
 * but who must not wake up anybody does not start them. Others may do so, or a round begin,
 * at the same time.
 */
static void waiting_starts_rounds(struct kunit *test)
{
	/* Or kmemleak would need an object for each of ours, and start rounds itself. */
	struct slab_test *st = with_flags(test, BALANCE_GROWTH, SLAB_NOLEAKTRACE);
	struct node_barn *barn = barn_of(st->cache, st->cpu);
	unsigned int i, seldom = 0, often = 0, atomic = 0, spare = 0;

	for (i = 0; i < 2 * ROUNDS; i++) {
		seldom += starts_rounds(test, barn, BALANCE_CONTENDED, 2, GFP_KERNEL);
		often += starts_rounds(test, barn, BALANCE_CONTENDED + 1, 2, GFP_KERNEL);
		atomic += starts_rounds(test, barn, BALANCE_CONTENDED + 1, 2, __GFP_HIGH);
		spare += starts_rounds(test, barn, BALANCE_CONTENDED + 1, 1, GFP_KERNEL);
	}
	KUNIT_EXPECT_LT(test, seldom, 2 * ROUNDS);
	KUNIT_EXPECT_GE(test, often, 2 * ROUNDS - 2);
	KUNIT_EXPECT_LT(test, atomic, 2 * ROUNDS);
	KUNIT_EXPECT_LT(test, spare, 2 * ROUNDS);
}

/* The barn of the node where memory comes from is one that a CPU comes to. */
static void waiting_elsewhere_starts_rounds(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, BALANCE_GROWTH);
	unsigned int i, often = 0;
	struct node_barn *near;
	int cpu;

	cpu = find_cpu(false);
	if (cpu < 0)
		kunit_skip(test, "all CPUs are on nodes with memory");
	near = st->cache->barns[sheaf_paying_node(cpu_to_node(cpu))];
	bind_to(test, cpu);
	for (i = 0; i < 2 * ROUNDS; i++)
		often += starts_rounds(test, near, BALANCE_CONTENDED + 1, 2, GFP_KERNEL);
	KUNIT_EXPECT_GE(test, often, 2 * ROUNDS - 2);
}

/* What was chosen may be something for rounds to do, that nobody else would begin. */
static void switches_start_rounds(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, 0);
	unsigned int i, one = 0, all = 0;

	for (i = 0; i < 2 * ROUNDS; i++) {
		WRITE_ONCE(sheaves_missed, false);
		set_feedback(st->cache, i);
		one += READ_ONCE(sheaves_missed);
		WRITE_ONCE(sheaves_missed, false);
		sheaves_set_all_feedback(READ_ONCE(slab_feedback));
		all += READ_ONCE(sheaves_missed);
	}
	KUNIT_EXPECT_GE(test, one, 2 * ROUNDS - 2);
	KUNIT_EXPECT_GE(test, all, 2 * ROUNDS - 2);
}

/* What a CPU does not use is taken away, from it as from the barn. */
static void what_is_not_used_is_given_back(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, BALANCE_WORKING_SET);

	unsigned long n;

	grab(test, 6 * st->cap);
	release(test, 6 * st->cap);
	n = cached_objects(st->cache);
	KUNIT_EXPECT_GE(test, n, 4 * st->cap);
	rounds(ROUNDS);
	expect_cached(test, 0);
	KUNIT_EXPECT_EQ(test, count_sheaves(st->cache), 0);
	if (IS_ENABLED(CONFIG_SLUB_STATS))
		KUNIT_EXPECT_GE(test, count(st->cache, SHEAF_TRIM), n);
	expect_balance(test);
}

static void what_is_used_stays(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, BALANCE_WORKING_SET);
	unsigned int i;

	skip_if_smaller(test, ROUNDS);
	hold_and_drain(test, 5 * st->cap);
	release(test, 5 * st->cap);
	for (i = 0; i < ROUNDS; i++) {
		grab(test, 5 * st->cap - i);
		release(test, 5 * st->cap - i);
		rounds(1);
	}
	expect_cached(test, 5 * st->cap);
}

static void switched_off(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, 0);
	unsigned long n;

	grab(test, 6 * st->cap);
	release(test, 6 * st->cap);
	n = cached_objects(st->cache);
	rounds(ROUNDS);
	sheaves_give_back();
	expect_cached(test, n);
	KUNIT_EXPECT_GE(test, barn_of(st->cache, st->cpu)->max_full, 10);
}

struct sheaf_user {
	struct kmem_cache *cache;
	struct completion uses;
};

static int use_sheaves(void *arg)
{
	struct sheaf_user *u = arg;
	struct kmem_cache *s = u->cache;

	local_lock(&s->cpu_sheaves->lock);
	complete(&u->uses);
	while (!kthread_should_stop())
		cpu_relax();
	local_unlock(&s->cpu_sheaves->lock);
	return 0;
}

/* Whoever takes what a CPU does not use asks it first: it may be about to. */
static void sheaves_in_use_stay(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, BALANCE_WORKING_SET);
	int here = st->cpu, other = neighbour_of(here);
	struct sheaf_user u = { .cache = st->cache };
	struct slub_percpu_sheaves *pcs;
	struct task_struct *user;
	struct slab_sheaf *main;

	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		kunit_skip(test, "whoever takes sheaves waits for who uses them");
	if (other < 0 || cpu_is_isolated(other))
		kunit_skip(test, "no other CPU of the node that may be disturbed");
	init_completion(&u.uses);
	user = kthread_create_on_cpu(use_sheaves, &u, other, "slab_user/%u");
	KUNIT_ASSERT_FALSE(test, IS_ERR(user));
	bind_to(test, other);
	pcs = sheaves_here(st);
	if (alloc_objects(st, 2, GFP_KERNEL) == 2)
		free_objects(st, 1);
	bind_to(test, here);

	/* Nothing is given up half way from here on. */
	wake_up_process(user);
	wait_for_completion(&u.uses);
	main = READ_ONCE(pcs->main);
	KUNIT_EXPECT_PTR_NE(test, main, slab_no_sheaf);
	rounds(ROUNDS);
	KUNIT_EXPECT_PTR_EQ(test, READ_ONCE(pcs->main), main);
	kthread_stop(user);
	rounds(ROUNDS);
	KUNIT_EXPECT_PTR_EQ(test, READ_ONCE(pcs->main), slab_no_sheaf);
	expect_nothing_left(test);
}

/* When memory is short: the barns, and the spare sheaves. Main is the CPU's own. */
static void pressure(struct kunit *test)
{
	struct slab_test *st = with_feedback(test, BALANCE_PRESSURE);
	struct node_barn *barn = barn_of(st->cache, st->cpu);

	hold_and_drain(test, 6 * st->cap);
	release(test, 6 * st->cap);
	KUNIT_EXPECT_EQ(test, barn->nr_full, 4);
	/* Somebody else may hold slab_mutex for a moment. */
	while (!sheaves_give_back())
		cond_resched();
	KUNIT_EXPECT_EQ(test, barn->nr_full, 0);
	KUNIT_EXPECT_NULL(test, sheaves_here(st)->spare);
	expect_cached(test, st->cap);
	expect_balance(test);
}

/* Who would kill somebody otherwise is told of each page, however few they are. */
static void pressure_frees_pages(struct kunit *test)
{
	struct slab_test *st = with_objects(test, 5 * PAGE_SIZE, BALANCE_PRESSURE, 0);
	unsigned long pages, freed = 0, end = jiffies + 60 * HZ;
	unsigned int i;

	st->cache->min_partial = 0;
	if (st->cap > 4)
		resize(test, 4);
	hold_and_drain(test, 2 * st->cap);
	if (virt_to_slab(st->held)->objects != 1)
		kunit_skip(test, "there are slabs with more than one object");
	pages = st->cap * (slab_size(virt_to_slab(st->held)) >> PAGE_SHIFT);
	/* Somebody else may be short of memory, and be first. */
	for (i = 0; i < 10 && freed < pages; i++) {
		release(test, 2 * st->cap);
		/* As above. */
		do {
			freed = sheaves_free_pages();
			cond_resched();
		} while (READ_ONCE(sheaves_here(st)->spare) && time_before(jiffies, end));
		grab(test, 2 * st->cap);
	}
	KUNIT_EXPECT_GE(test, freed, pages);
	expect_nothing_left(test);
}

/* As others may fill sheaves as fast as they are emptied. */
static void pressure_has_an_end(struct kunit *test)
{
	u64 next = 0;

	KUNIT_EXPECT_FALSE(test, sheaves_put_off_oom(0, 1, &next));
	KUNIT_EXPECT_TRUE(test, sheaves_put_off_oom(1, 2, &next));
	KUNIT_EXPECT_FALSE(test, sheaves_put_off_oom(1, 3, &next));
	KUNIT_EXPECT_FALSE(test, sheaves_put_off_oom(9, 1 + 10 * HZ, &next));
	KUNIT_EXPECT_TRUE(test, sheaves_put_off_oom(1, 2 + 10 * HZ, &next));
	KUNIT_EXPECT_FALSE(test, sheaves_put_off_oom(1, 3 + 10 * HZ, &next));
}

/* Barns of many caches, all of them as large as they can be. */
static void grow_all(struct kunit *test)
{
	struct slab_test *st = test->priv;
	unsigned long node_bytes, all = 0, bytes_of_sheaf;
	int node = cpu_to_node(st->cpu);
	struct kmem_cache *s[40];
	char name[32];
	unsigned int i;

	node_bytes = node_present_pages(node) << PAGE_SHIFT;
	for (i = 0; i < ARRAY_SIZE(s); i++) {
		snprintf(name, sizeof(name), "slab_kunit_%u", i);
		s[i] = new_cache(test, name, 2048, 0, NULL);
		set_feedback(s[i], BALANCE_GROWTH);
		bytes_of_sheaf = s[i]->size * sheaf_capacity(s[i]);
		while (sheaf_barn_grow(s[i], s[i]->barns[node], node,
				       s[i]->barns[node]->max_full))
			;
		KUNIT_EXPECT_LE(test, s[i]->barns[node]->max_full * bytes_of_sheaf,
				max(node_bytes >> 9,
				    max(sheaves_cpus_of_node(node), 10U) * bytes_of_sheaf));
		all += (s[i]->barns[node]->max_full - BALANCE_MIN_SHEAVES) * bytes_of_sheaf;
	}
	KUNIT_EXPECT_LE(test, all, node_bytes >> 5);
	KUNIT_EXPECT_GT(test, all, node_bytes >> 7);
	for (i = 0; i < ARRAY_SIZE(s); i++)
		destroy_cache_of(test, s[i]);
}

/* All barns of a node together, and each of them; and what is destroyed counts no more. */
static void caps_hold(struct kunit *test)
{
	unsigned int i;

	with_feedback(test, BALANCE_GROWTH);
	for (i = 0; i < 2; i++)
		grow_all(test);
}

static struct kunit_case resize_cases[] = {
	KUNIT_CASE(resize_is_taken_up),
	KUNIT_CASE(resize_in_each_state),
	KUNIT_CASE(small_sheaves_are_not_lent),
	KUNIT_CASE(resize_remote),
	KUNIT_CASE(resize_remote_that_is_refused),
	KUNIT_CASE(remote_that_comes_too_late),
	KUNIT_CASE(fill_of_larger_sheaves),
	KUNIT_CASE(resize_to_none_and_back),
	KUNIT_CASE(resize_to_none_meanwhile),
#ifdef CONFIG_SLAB_RCU_SHEAVES
	KUNIT_CASE(none_meanwhile_by_rcu),
#endif
	KUNIT_CASE(none_comes_from_barn),
	KUNIT_CASE(resize_is_refused),
#ifdef SLAB_SUPPORTS_SYSFS
	KUNIT_CASE(files_wait_for_nobody),
#endif
	KUNIT_CASE(resize_without_memory),
	KUNIT_CASE(barn_limits_by_hand),
	KUNIT_CASE(slow_start),
	KUNIT_CASE(barn_grows_and_shrinks),
	KUNIT_CASE(limits_follow_capacity),
	KUNIT_CASE(grants_end_with_capacity),
	KUNIT_CASE(grants_follow_limit),
	KUNIT_CASE(sheaves_grow_and_shrink),
	KUNIT_CASE(growth_goes_by_itself),
	KUNIT_CASE(growth_goes_by_cpus),
	KUNIT_CASE(waiting_starts_rounds),
	KUNIT_CASE(waiting_elsewhere_starts_rounds),
	KUNIT_CASE(switches_start_rounds),
	KUNIT_CASE(what_is_not_used_is_given_back),
	KUNIT_CASE(what_is_used_stays),
	KUNIT_CASE(switched_off),
	KUNIT_CASE(sheaves_in_use_stay),
	KUNIT_CASE(pressure),
	KUNIT_CASE(pressure_frees_pages),
	KUNIT_CASE(pressure_has_an_end),
	KUNIT_CASE(caps_hold),
	{}
};

static struct kunit_suite resize_suite = {
	.name = "slab_sheaf_resize",
	.init = slab_test_init,
	.exit = finish_rcu_cache,
	.test_cases = resize_cases,
};

kunit_test_suite(resize_suite);

#endif /* CONFIG_SLAB_SHEAVES */

MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
MODULE_DESCRIPTION("KUnit tests of sheaves: sizes that change");
MODULE_LICENSE("GPL");
