// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of sheaves: users that do not know of each other
 *
 * Interrupts, also those that find the sheaves of the CPU in use, and all CPUs at once.
 */

#include <linux/module.h>

#include "slab_kunit.h"

/*
 * Interrupts
 */

#define IRQ_OBJECTS	8

struct cache_irq {
	struct irq_user irq;
	struct kmem_cache *cache;
	struct object *got[IRQ_OBJECTS];
	struct object *to_free;
	unsigned long cached;
};

static void use_cache_in_irq(struct irq_user *irq)
{
	struct cache_irq *u = container_of(irq, struct cache_irq, irq);
	unsigned int i;

	for (i = 0; i < IRQ_OBJECTS; i++)
		u->got[i] = kmem_cache_alloc(u->cache, GFP_ATOMIC);
	kmem_cache_free(u->cache, u->to_free);
	u->cached = cached_objects(u->cache);
}

/*
 * One allocates some, which the test has then, and frees one that the test had. Counts
 * what is in sheaves then, for that can be done anywhere.
 */
static unsigned long use_in_irq(struct kunit *test, bool locked)
{
	const struct irq_case *c = test->param_value;
	struct slab_test *st = test->priv;
	struct cache_irq u = { .cache = st->cache };
	unsigned int i;

	if (c->kind == HARD_TIMER && IS_ENABLED(CONFIG_PREEMPT_RT))
		kunit_skip(test, "hard interrupts do not allocate on PREEMPT_RT");
	u.to_free = let_go(st);
	prepare_irq(&u.irq, c->kind, use_cache_in_irq);
	raise_irq(st, &u.irq, locked);
	finish_irq(test, &u.irq);
	for (i = 0; i < IRQ_OBJECTS; i++)
		KUNIT_EXPECT_TRUE(test, hold(st, u.got[i]));
	return u.cached;
}

/* The sheaves are in use: the interrupt must do without them. */
static void irq_while_sheaves_are_locked(struct kunit *test)
{
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	unsigned long cached;
	struct moves m;

	skip_without_sheaves(test);
	grab(test, 10);
	release(test, 5);
	cached = cached_objects(st->cache);
	take_moves(test);
	KUNIT_EXPECT_EQ(test, use_in_irq(test, true), cached);
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
	unsigned long cached;
	struct moves m;

	with_cache(test, OBJECT_SIZE, 0, NULL);
	skip_without_sheaves(test);
	hold_and_drain(test, 10);
	cached = use_in_irq(test, false);
	expect_cached(test, cached);
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
	struct slab_test user;
	struct rnd_state rnd;
	unsigned int ticks;
	bool done;
};

static void random_step(struct slab_test *st, struct rnd_state *rnd, unsigned int max,
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
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	unsigned long end;
	struct ticker t = { .user.cache = st->cache };
	struct rnd_state rnd;
	struct moves m;

	prandom_seed_state(&rnd, 1);
	prandom_seed_state(&t.rnd, 2);
	hrtimer_init_on_stack(&t.timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED);
	t.timer.function = tick;
	hrtimer_start(&t.timer, ns_to_ktime(TICK_NS), HRTIMER_MODE_REL_PINNED);
	end = jiffies + HZ;
	while (!READ_ONCE(t.done) &&
	       (!READ_ONCE(t.ticks) || time_before(jiffies, end))) {
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
 * All CPUs at the same time
 */

#define CROWD_BULK	40

static void free_one(struct crowd_user *u, struct object *obj)
{
	if (obj)
		kmem_cache_free(u->crowd->cache, obj);
}

static void alloc_one(struct crowd_user *u, struct object *obj)
{
	if (!obj)
		atomic_long_inc(&u->crowd->nr_null);
	free_one(u, exchange(u, obj));
}

static void alloc_many(struct crowd_user *u)
{
	unsigned int i, nr = 0, n = 1 + random_below(u, CROWD_BULK);
	struct kmem_cache *s = u->crowd->cache;
	void *p[CROWD_BULK];

	if (!kmem_cache_alloc_bulk(s, GFP_KERNEL, n, p)) {
		atomic_long_inc(&u->crowd->nr_null);
		return;
	}
	for (i = 0; i < n; i++) {
		struct object *old = exchange(u, p[i]);

		if (old)
			p[nr++] = old;
	}
	if (nr)
		kmem_cache_free_bulk(s, nr, p);
}

static void user_step(struct crowd_user *u)
{
	struct kmem_cache *s = u->crowd->cache;

	switch (random_below(u, 32)) {
	case 0:
		alloc_many(u);
		break;
	case 1:
		alloc_one(u, kmem_cache_alloc_node(s, GFP_KERNEL, first_online_node));
		break;
	case 2 ... 4:
		alloc_one(u, kmem_cache_alloc(s, GFP_ATOMIC));
		break;
	case 5 ... 8:
		free_one(u, exchange(u, NULL));
		break;
	default:
		alloc_one(u, kmem_cache_alloc(s, GFP_KERNEL));
	}
}

static void shrink_meanwhile(struct crowd *c, unsigned int round)
{
	kmem_cache_shrink(c->cache);
}

#ifdef CONFIG_SLAB_SHEAVES
/* All that changes sizes, by hand and by itself. */
static void resize_meanwhile(struct crowd *c, unsigned int round)
{
	static const unsigned int capacities[] = { 124, 12, 28, 60, 4, 252 };
	unsigned int capacity = capacities[round % ARRAY_SIZE(capacities)];

	set_feedback(c->cache, round % 3 ? BALANCE_ALL : 0);
	/* That there are none takes a grace period, in which nothing else is disturbed. */
	resize_sheaves(c->cache, round % 50 == 20 ? 0 : capacity);
	set_barns(c->cache, round % 5 - 1, round % 4 - 1);
	sheaves_round();
	if (round % 2)
		sheaves_give_back();
}
#else
#define resize_meanwhile shrink_meanwhile
#endif

static const struct crowd_case {
	const char *desc;
	unsigned int size;
	slab_flags_t flags;
	void (*ctor)(void *obj);
	void (*disturb)(struct crowd *c, unsigned int round);
} crowd_cases[] = {
	{ "plain", OBJECT_SIZE },
	{ "resized", OBJECT_SIZE, .disturb = resize_meanwhile },
	{ "constructed, resized", 200, .ctor = construct, .disturb = resize_meanwhile },
	{ "of a page each", PAGE_SIZE },
	{ "constructed", 200, 0, construct },
	{ "SLAB_TYPESAFE_BY_RCU", 200, SLAB_TYPESAFE_BY_RCU, construct },
	{ "debugged, without sheaves", OBJECT_SIZE, SLAB_CONSISTENCY_CHECKS | SLAB_POISON },
};

KUNIT_ARRAY_PARAM_DESC(crowd_cases, crowd_cases, desc);

static void concurrent_users(struct kunit *test)
{
	const struct crowd_case *c = test->param_value;
	struct kmem_cache_args args = { .ctor = c->ctor };
	struct crowd crowd = {
		.step = user_step,
		.nr_steps = 10000,
		.disturb = c->disturb ?: shrink_meanwhile,
	};
	struct slab_test *st = test->priv;

	/* With KFENCE and with the quarantine. */
	use_cache(test, new_plain_cache(test, "slab_kunit", c->size, c->flags, &args));
	crowd_run(test, &crowd);
	/* No round may have sheaves in its hands: this waits for one, and it is the last. */
	set_feedback(st->cache, 0);
	release(test, st->nr_held);
	if (c->flags & SLAB_TYPESAFE_BY_RCU)
		rcu_barrier();
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
	expect_cached(test, 0);
}

static struct kunit_case users_cases[] = {
	KUNIT_CASE_PARAM(irq_while_sheaves_are_locked, irq_cases_gen_params),
	KUNIT_CASE_PARAM(irq_uses_sheaves, irq_cases_gen_params),
	KUNIT_CASE(irq_at_random),
	KUNIT_CASE_PARAM(concurrent_users, crowd_cases_gen_params),
	{}
};

static struct kunit_suite users_suite = {
	.name = "slab_sheaf_users",
	.init = slab_test_init,
	.exit = finish_cache,
	.test_cases = users_cases,
};

kunit_test_suite(users_suite);

MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
MODULE_DESCRIPTION("KUnit tests of sheaves: users that do not know of each other");
MODULE_LICENSE("GPL");
