// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of sheaves: what decides how large they and the barns are
 *
 * mm/slab_balance.c is arithmetic, so is this: no cache, no object, and time passes as
 * the tests say. After the functions one by one comes a model: a barn that is nothing but
 * numbers, under loads that rise, fall, and oscillate.
 */

#include <kunit/test.h>
#include <linux/jiffies.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/string.h>

#include "../../mm/slab_balance.h"

#define HEAD		4
#define SOON		1
#define LATER		(10 * HZ)

static void lack(struct barn_demand *d, unsigned int n, unsigned long now)
{
	while (n--)
		balance_lacked(d, now);
}

/* Returns after how many refusals the barn should grow; 0 if it should not. */
static unsigned int refuse_at(struct barn_demand *d, unsigned int limit, unsigned int n,
			      unsigned long now)
{
	unsigned int i;

	for (i = 1; i <= n; i++)
		if (balance_refused(d, limit, now))
			return i;
	return 0;
}

/* The same of a barn that accepts so few that turns do not count. */
static unsigned int refuse(struct barn_demand *d, unsigned int n, unsigned long now)
{
	return refuse_at(d, BALANCE_MIN_SHEAVES, n, now);
}

static void growth_needs_both(struct kunit *test)
{
	struct barn_demand d = { .since = 1000 };
	unsigned long later = 1000 + BALANCE_INTERVAL;
	unsigned int i;

	KUNIT_EXPECT_EQ(test, refuse(&d, 100, 1000), 0);
	d = (struct barn_demand){ .since = 1000 };
	lack(&d, 100, 1000);
	KUNIT_EXPECT_EQ(test, refuse(&d, 4, 1000), 0);
	KUNIT_EXPECT_EQ(test, refuse(&d, 1, 1000), 1);
	/* The next time it takes fewer, as often as it lacked five. */
	for (i = 0; i < 19; i++) {
		KUNIT_EXPECT_EQ(test, refuse(&d, 1, 1000), 0);
		KUNIT_EXPECT_EQ(test, refuse(&d, 1, 1000), 1);
	}
	KUNIT_EXPECT_EQ(test, refuse(&d, 100, 1000), 0);
	lack(&d, 4, 1000);
	KUNIT_EXPECT_EQ(test, refuse(&d, 1, 1000), 0);
	lack(&d, 1, 1000);
	KUNIT_EXPECT_EQ(test, refuse(&d, 1, 1000), 1);
	/* All of it anew in the next interval. */
	lack(&d, 100, later);
	KUNIT_EXPECT_EQ(test, refuse(&d, 4, later), 0);
	/* Others have opened it since this one looked at the clock. */
	KUNIT_EXPECT_EQ(test, refuse(&d, 1, later - 1), 1);
}

/* The more there is in a barn already, the more often it has to be filled and emptied. */
static void growth_is_by_turns(struct kunit *test)
{
	struct barn_demand d = { .since = 1000 };
	unsigned int limit, turns = 0;
	unsigned long now = 1000;

	for (limit = 8; limit < 1000; limit *= 2) {
		KUNIT_EXPECT_EQ(test, refuse_at(&d, limit, 1000, now), 0);
		do {
			lack(&d, 1000, now);
			turns += 2;
		} while (turns < 1000 && !refuse_at(&d, limit, 1000, now));
		KUNIT_EXPECT_GE(test, 3 * turns, limit - 2);
		KUNIT_EXPECT_LE(test, 3 * turns, limit + 6);
	}
	/* Half of them count in the next interval, and none in the one after that. */
	now += BALANCE_INTERVAL;
	lack(&d, 1000, now);
	KUNIT_EXPECT_EQ(test, refuse_at(&d, 3 * (turns / 2 + 3), 1000, now), 0);
	KUNIT_EXPECT_GT(test, refuse_at(&d, 3 * (turns / 2 + 2), 1000, now), 0);
	now += 2 * BALANCE_INTERVAL;
	lack(&d, 1000, now);
	KUNIT_EXPECT_EQ(test, refuse_at(&d, 3 * 3, 1000, now), 0);
}

/* Five in an interval, not five since the machine was booted. */
static void growth_needs_a_rate(struct kunit *test)
{
	struct barn_demand d = { };
	unsigned long now = -3UL * HZ;	/* jiffies wrap around meanwhile */
	unsigned int i;

	for (i = 0; i < 100; i++, now += BALANCE_INTERVAL / 4 + 1) {
		balance_lacked(&d, now);
		KUNIT_EXPECT_EQ(test, refuse(&d, 1, now), 0);
	}
	for (i = 0; i < 100; i++) {
		balance_lacked(&d, now);
		if (refuse(&d, 1, now))
			break;
	}
	KUNIT_EXPECT_LT(test, i, 10);
}

static void unneeded_through_two_intervals(struct kunit *test)
{
	struct barn_range r = { .low = 7, .high = 9 };

	KUNIT_EXPECT_EQ(test, balance_unneeded(&r, 8), 0);
	KUNIT_EXPECT_EQ(test, r.last_high, 9);
	KUNIT_EXPECT_EQ(test, r.low, 8);
	r.low = 3;
	KUNIT_EXPECT_EQ(test, balance_unneeded(&r, 8), 3);
	/* Those three are gone: what was always there besides is none. */
	KUNIT_EXPECT_EQ(test, r.last_low, 0);
	r.low = 5;
	KUNIT_EXPECT_EQ(test, balance_unneeded(&r, 5), 0);
	KUNIT_EXPECT_EQ(test, balance_unneeded(&r, 5), 5);
	/* Never more than there are. */
	r = (struct barn_range){ .low = 5, .last_low = 5 };
	KUNIT_EXPECT_EQ(test, balance_unneeded(&r, 2), 2);
}

static void limit_follows_use(struct kunit *test)
{
	struct barn_range r = { .high = 3, .last_high = 7 };

	KUNIT_EXPECT_EQ(test, balance_used(&r), 7);
	r.last_high = 0;
	KUNIT_EXPECT_EQ(test, balance_used(&r), 3);
	KUNIT_EXPECT_EQ(test, balance_limit(7, 20, 2), 14);
	KUNIT_EXPECT_EQ(test, balance_limit(7, 13, 2), 13);
	KUNIT_EXPECT_EQ(test, balance_limit(0, 20, 2), 2);
	KUNIT_EXPECT_EQ(test, balance_limit(0, 1, 2), 1);
	KUNIT_EXPECT_EQ(test, balance_limit(9, 0, 2), 0);
}

static void fill_starts_slowly(struct kunit *test)
{
	static const unsigned int steps[] = { 12, 28, 60, 60 };
	unsigned int fill = 0, i;

	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		fill = balance_fill(fill, 60, HEAD, SOON);
		KUNIT_EXPECT_EQ(test, fill, steps[i]);
	}
	/* Neither often nor seldom. */
	KUNIT_EXPECT_EQ(test, balance_fill(28, 60, HEAD, HZ), 28);
	KUNIT_EXPECT_EQ(test, balance_fill(60, 60, HEAD, LATER), 28);
	KUNIT_EXPECT_EQ(test, balance_fill(28, 60, HEAD, LATER), 12);
	KUNIT_EXPECT_EQ(test, balance_fill(12, 60, HEAD, LATER), 12);
	KUNIT_EXPECT_EQ(test, balance_fill(12, 60, HEAD, ULONG_MAX), 12);
	/* The capacity has changed meanwhile. */
	KUNIT_EXPECT_EQ(test, balance_fill(60, 12, HEAD, HZ), 12);
	KUNIT_EXPECT_EQ(test, balance_fill(60, 0, HEAD, HZ), 0);
}

static void fill_is_in_bounds(struct kunit *test)
{
	static const unsigned long since[] = { 0, SOON, HZ, LATER, ULONG_MAX };
	unsigned int capacity, fill, got, i, broken = 0;

	for (capacity = 1; capacity < 600; capacity++) {
		for (fill = 0; fill <= 600; fill += 7) {
			for (i = 0; i < ARRAY_SIZE(since); i++) {
				got = balance_fill(fill, capacity, HEAD, since[i]);
				broken += got < 1 || got > capacity;
			}
		}
	}
	KUNIT_EXPECT_EQ(test, broken, 0);
}

static void capacity_by_contention(struct kunit *test)
{
	const unsigned int often = 5 * BALANCE_INTERVAL / HZ * 4 + 1;

	KUNIT_EXPECT_EQ(test, balance_capacity(60, 60, 252, HEAD, often, 4), 124);
	KUNIT_EXPECT_EQ(test, balance_capacity(124, 60, 252, HEAD, often, 4), 252);
	KUNIT_EXPECT_EQ(test, balance_capacity(252, 60, 252, HEAD, often, 4), 252);
	/* More CPUs wait more often. */
	KUNIT_EXPECT_EQ(test, balance_capacity(60, 60, 252, HEAD, often, 8), 60);
	/* Between the thresholds nothing changes. */
	KUNIT_EXPECT_EQ(test, balance_capacity(124, 60, 252, HEAD, often - 1, 4), 124);
	KUNIT_EXPECT_EQ(test, balance_capacity(124, 60, 252, HEAD, 4, 4), 124);
	KUNIT_EXPECT_EQ(test, balance_capacity(124, 60, 252, HEAD, 3, 4), 60);
	KUNIT_EXPECT_EQ(test, balance_capacity(60, 60, 252, HEAD, 0, 4), 60);
	/* No memory for more, but nobody loses what he has asked for. */
	KUNIT_EXPECT_EQ(test, balance_capacity(60, 60, 10, HEAD, often, 4), 60);
}

static void caps_are_shares_of_memory(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, balance_max_sheaves(1UL << 30, 1UL << 14, 10), 128);
	KUNIT_EXPECT_EQ(test, balance_max_sheaves(1UL << 20, 1UL << 14, 10), 10);
	KUNIT_EXPECT_EQ(test, balance_max_sheaves(0, 1UL << 14, 10), 10);
	KUNIT_EXPECT_LE(test, balance_max_sheaves(ULONG_MAX, 1, 10), UINT_MAX / 2);
}

/*
 * The model
 */

/**
 * struct model - a barn that is nothing but numbers
 * @nr: How many full sheaves there are.
 * @limit: How many it accepts.
 * @max: How far that may grow.
 * @slabs: How many sheaves were refilled from, or flushed to, slabs.
 * @now: jiffies.
 * @range: As in struct node_barn.
 * @demand: As in struct node_barn.
 */
struct model {
	unsigned int nr;
	unsigned int limit;
	unsigned int max;
	unsigned int slabs;
	unsigned long now;
	struct barn_range range;
	struct barn_demand demand;
};

static void model_init(struct model *m)
{
	*m = (struct model){ .limit = BALANCE_MIN_SHEAVES, .max = 1000, .now = 5000 };
}

static void model_take(struct model *m)
{
	if (!m->nr) {
		balance_lacked(&m->demand, m->now);
		m->slabs++;
		return;
	}
	m->nr--;
	m->range.low = min(m->range.low, m->nr);
}

static void model_put(struct model *m)
{
	if (m->nr >= m->limit && balance_refused(&m->demand, m->limit, m->now))
		m->limit = min(2 * m->limit, m->max);
	if (m->nr >= m->limit) {
		m->slabs++;
		return;
	}
	m->nr++;
	m->range.high = max(m->range.high, m->nr);
}

/* An interval of bursts: @depth sheaves are taken, and put back, @times. */
static unsigned int model_load(struct model *m, unsigned int depth, unsigned int times)
{
	unsigned int i, before = m->slabs;

	while (times--) {
		for (i = 0; i < depth; i++)
			model_take(m);
		for (i = 0; i < depth; i++)
			model_put(m);
	}
	return m->slabs - before;
}

static void model_end_interval(struct model *m)
{
	unsigned int unneeded = balance_unneeded(&m->range, m->nr);

	m->nr -= unneeded;
	m->range.low = m->nr;
	m->limit = balance_limit(balance_used(&m->range), m->limit, BALANCE_MIN_SHEAVES);
	m->now += BALANCE_INTERVAL;
}

static void model_step_up_and_down(struct kunit *test)
{
	struct model m;
	unsigned int i;

	model_init(&m);
	model_load(&m, 50, 20);
	KUNIT_EXPECT_GE(test, m.limit, 50);
	KUNIT_EXPECT_LE(test, m.limit, 100);
	KUNIT_EXPECT_LT(test, m.slabs, 500);
	for (i = 0; i < 20; i++) {
		model_end_interval(&m);
		KUNIT_EXPECT_EQ(test, model_load(&m, 50, 20), 0);
	}
	KUNIT_EXPECT_GE(test, m.limit, 50);
	KUNIT_EXPECT_LE(test, m.limit, 2 * 50);

	/* Less is needed: the rest is given back, and nothing goes through slabs. */
	for (i = 0; i < 5; i++) {
		model_end_interval(&m);
		KUNIT_EXPECT_EQ(test, model_load(&m, 10, 20), 0);
	}
	KUNIT_EXPECT_EQ(test, m.nr, 10);
	KUNIT_EXPECT_GE(test, m.limit, 10);
	KUNIT_EXPECT_LE(test, m.limit, 2 * 10);

	/* Nothing is. */
	for (i = 0; i < 4; i++)
		model_end_interval(&m);
	KUNIT_EXPECT_EQ(test, m.nr, 0);
	KUNIT_EXPECT_EQ(test, m.limit, BALANCE_MIN_SHEAVES);
}

/* Bursts in every other interval: sizes do not go up and down with them. */
static void model_oscillates(struct kunit *test)
{
	struct model m;
	unsigned int i;

	model_init(&m);
	model_load(&m, 30, 20);
	for (i = 0; i < 40; i++) {
		model_end_interval(&m);
		if (i % 2)
			KUNIT_EXPECT_EQ(test, model_load(&m, 30, 5), 0);
		KUNIT_EXPECT_GE(test, m.limit, 30);
	}
	KUNIT_EXPECT_EQ(test, m.nr, 30);
	KUNIT_EXPECT_GE(test, m.limit, 30);
	KUNIT_EXPECT_LE(test, m.limit, 2 * 30);
}

/* Who only allocates, or only frees, has no use for a larger barn. */
static void model_one_way(struct kunit *test)
{
	struct model m;
	unsigned int i;

	model_init(&m);
	for (i = 0; i < 1000; i++) {
		model_take(&m);
		if (i % 100 == 99)
			model_end_interval(&m);
	}
	KUNIT_EXPECT_EQ(test, m.limit, BALANCE_MIN_SHEAVES);
	m.now += 2 * HZ;
	for (i = 0; i < 1000; i++)
		model_put(&m);
	KUNIT_EXPECT_EQ(test, m.limit, BALANCE_MIN_SHEAVES);
	KUNIT_EXPECT_EQ(test, m.nr, BALANCE_MIN_SHEAVES);
}

static void model_one_hot_among_200(struct kunit *test)
{
	struct model *m = kunit_kcalloc(test, 200, sizeof(*m), GFP_KERNEL);
	unsigned int i, round, all = 0;

	KUNIT_ASSERT_NOT_NULL(test, m);
	for (i = 0; i < 200; i++)
		model_init(&m[i]);
	for (round = 0; round < 10; round++) {
		for (i = 0; i < 200; i++) {
			model_load(&m[i], i == 77 ? 100 : 3, i == 77 ? 20 : 1);
			model_end_interval(&m[i]);
		}
	}
	for (i = 0; i < 200; i++)
		all += i == 77 ? 0 : m[i].limit;
	KUNIT_EXPECT_GE(test, m[77].limit, 100);
	KUNIT_EXPECT_LE(test, m[77].limit, 2 * 100);
	KUNIT_EXPECT_EQ(test, all, 199 * BALANCE_MIN_SHEAVES);
}

static struct kunit_case balance_cases[] = {
	KUNIT_CASE(growth_needs_both),
	KUNIT_CASE(growth_is_by_turns),
	KUNIT_CASE(growth_needs_a_rate),
	KUNIT_CASE(unneeded_through_two_intervals),
	KUNIT_CASE(limit_follows_use),
	KUNIT_CASE(fill_starts_slowly),
	KUNIT_CASE(fill_is_in_bounds),
	KUNIT_CASE(capacity_by_contention),
	KUNIT_CASE(caps_are_shares_of_memory),
	KUNIT_CASE(model_step_up_and_down),
	KUNIT_CASE(model_oscillates),
	KUNIT_CASE(model_one_way),
	KUNIT_CASE(model_one_hot_among_200),
	{}
};

static struct kunit_suite balance_suite = {
	.name = "slab_sheaf_balance",
	.test_cases = balance_cases,
};

kunit_test_suite(balance_suite);

MODULE_DESCRIPTION("KUnit tests of what decides about the sizes of sheaves");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
