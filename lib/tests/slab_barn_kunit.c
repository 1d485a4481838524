// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for the barn tier of the slab allocator, alone
 *
 * A barn knows nothing of slabs and objects, see the comment at the head of
 * mm/slab_barn.c. So the sheaves here are empty shells that no slab cache has
 * ever seen, with a number each, by which they are known again.
 *
 * After each step that matters the whole barn is looked at: its counters, and
 * the length and the links of both lists. What the caller keeps when a barn
 * refuses something is compared byte by byte.
 */

#include <kunit/test.h>
#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/jiffies.h>
#include <linux/limits.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "../../mm/slab_barn.h"

#define NR_SHEAVES	256
#define NO_LIMIT	UINT_MAX

struct barn_test {
	struct node_barn barn;
	struct slab_sheaf *sheaves;
};

static struct node_barn *the_barn(struct kunit *test)
{
	struct barn_test *bt = test->priv;

	return &bt->barn;
}

static struct slab_sheaf *sheaf(struct kunit *test, unsigned int i)
{
	struct barn_test *bt = test->priv;

	return &bt->sheaves[i];
}

/* Returns the length of a list, or -1 if its links are wrong. */
static int list_length(struct list_head *list)
{
	struct list_head *pos = list;
	int n;

	for (n = 0; n <= 1000 * NR_SHEAVES; n++) {
		if (!pos->next || pos->next->prev != pos)
			return -1;
		pos = pos->next;
		if (pos == list)
			return n;
	}
	return -1;
}

/* Asserts: what is wrong here makes the next step walk off a list. */
static void __expect_barn(struct kunit *test, int line, unsigned int nr_full,
			  unsigned int nr_empty)
{
	struct node_barn *barn = the_barn(test);

	KUNIT_ASSERT_EQ_MSG(test, barn->nr_full, nr_full, "from line %d", line);
	KUNIT_ASSERT_EQ_MSG(test, barn->nr_empty, nr_empty, "from line %d", line);
	KUNIT_ASSERT_EQ_MSG(test, list_length(&barn->sheaves_full), (int)nr_full,
			    "from line %d", line);
	KUNIT_ASSERT_EQ_MSG(test, list_length(&barn->sheaves_empty), (int)nr_empty,
			    "from line %d", line);
}

#define expect_barn(test, nr_full, nr_empty) \
	__expect_barn(test, __LINE__, nr_full, nr_empty)

/* Puts full sheaves number first to first + n - 1, in this order. */
static void put_full(struct kunit *test, unsigned int first, unsigned int n)
{
	unsigned int i;

	for (i = first; i < first + n; i++)
		KUNIT_ASSERT_TRUE(test, barn_put_full(the_barn(test), sheaf(test, i)));
}

static void put_empty(struct kunit *test, unsigned int first, unsigned int n)
{
	unsigned int i;

	for (i = first; i < first + n; i++)
		KUNIT_ASSERT_TRUE(test, barn_put_empty(the_barn(test), sheaf(test, i)));
}

static void barn_starts_empty(struct kunit *test)
{
	struct node_barn *barn = the_barn(test);

	barn_init(barn, 3, 5);
	expect_barn(test, 0, 0);
	KUNIT_EXPECT_EQ(test, barn->max_full, 3);
	KUNIT_EXPECT_EQ(test, barn->max_empty, 5);
}

static void barn_empty_gives_nothing(struct kunit *test)
{
	struct slab_sheaf *offer = sheaf(test, 0), before = *offer;
	struct node_barn *barn = the_barn(test);

	KUNIT_EXPECT_NULL(test, barn_get_full(barn));
	KUNIT_EXPECT_NULL(test, barn_get_empty(barn));
	KUNIT_EXPECT_NULL(test, barn_swap_empty(barn, &offer));
	KUNIT_EXPECT_PTR_EQ(test, offer, sheaf(test, 0));
	KUNIT_EXPECT_NULL(test, barn_swap_full(barn, offer));
	KUNIT_EXPECT_MEMEQ(test, offer, &before, sizeof(before));
	expect_barn(test, 0, 0);
}

static void barn_counts_objects(struct kunit *test)
{
	struct slab_sheaf *full, *offer = sheaf(test, 4);
	struct node_barn *barn = the_barn(test);
	unsigned int i;

	for (i = 0; i < 4; i++)
		sheaf(test, i)->size = 10 + i;
	put_full(test, 0, 4);
	KUNIT_EXPECT_EQ(test, barn->nr_objects, 46);
	full = barn_get_full(barn);
	KUNIT_ASSERT_PTR_EQ(test, full, sheaf(test, 3));
	KUNIT_EXPECT_EQ(test, barn->nr_objects, 33);
	KUNIT_EXPECT_PTR_EQ(test, barn_swap_empty(barn, &offer), sheaf(test, 2));
	KUNIT_EXPECT_EQ(test, barn->nr_objects, 21);
	KUNIT_EXPECT_PTR_EQ(test, barn_swap_full(barn, full), sheaf(test, 4));
	KUNIT_EXPECT_EQ(test, barn->nr_objects, 34);
}

static void barn_full_order(struct kunit *test)
{
	struct node_barn *barn = the_barn(test);
	unsigned int i;

	put_full(test, 0, 4);
	expect_barn(test, 4, 0);
	KUNIT_EXPECT_PTR_EQ(test, barn_get_full(barn), sheaf(test, 3));
	KUNIT_EXPECT_PTR_EQ(test, barn_get_full(barn), sheaf(test, 2));
	put_full(test, 4, 2);
	expect_barn(test, 4, 0);
	KUNIT_EXPECT_PTR_EQ(test, barn_get_full(barn), sheaf(test, 5));
	KUNIT_EXPECT_PTR_EQ(test, barn_get_full(barn), sheaf(test, 4));
	for (i = 2; i-- > 0;)
		KUNIT_EXPECT_PTR_EQ(test, barn_get_full(barn), sheaf(test, i));
	KUNIT_EXPECT_NULL(test, barn_get_full(barn));
	expect_barn(test, 0, 0);
}

static void barn_empty_order(struct kunit *test)
{
	struct node_barn *barn = the_barn(test);
	unsigned int i;

	put_empty(test, 0, 4);
	expect_barn(test, 0, 4);
	KUNIT_EXPECT_PTR_EQ(test, barn_get_empty(barn), sheaf(test, 3));
	KUNIT_EXPECT_PTR_EQ(test, barn_get_empty(barn), sheaf(test, 2));
	put_empty(test, 4, 2);
	expect_barn(test, 0, 4);
	KUNIT_EXPECT_PTR_EQ(test, barn_get_empty(barn), sheaf(test, 5));
	KUNIT_EXPECT_PTR_EQ(test, barn_get_empty(barn), sheaf(test, 4));
	for (i = 2; i-- > 0;)
		KUNIT_EXPECT_PTR_EQ(test, barn_get_empty(barn), sheaf(test, i));
	KUNIT_EXPECT_NULL(test, barn_get_empty(barn));
	expect_barn(test, 0, 0);
}

/* Full is what was put as full, whatever the sheaf says of itself. */
static void barn_kinds_do_not_mix(struct kunit *test)
{
	struct node_barn *barn = the_barn(test);

	put_full(test, 0, 1);
	KUNIT_EXPECT_NULL(test, barn_get_empty(barn));
	put_empty(test, 1, 1);
	put_full(test, 2, 1);
	expect_barn(test, 2, 1);
	KUNIT_EXPECT_PTR_EQ(test, barn_get_empty(barn), sheaf(test, 1));
	KUNIT_EXPECT_NULL(test, barn_get_empty(barn));
	expect_barn(test, 2, 0);
	KUNIT_EXPECT_PTR_EQ(test, barn_get_full(barn), sheaf(test, 2));
	KUNIT_EXPECT_PTR_EQ(test, barn_get_full(barn), sheaf(test, 0));
}

static const struct barn_limits {
	unsigned int full, empty;
} barn_limits[] = {
	{ 0, 0 }, { 0, 3 }, { 3, 0 }, { 1, 1 }, { 2, 5 }, { 5, 2 },
};

static void barn_limits_desc(const struct barn_limits *l, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u full, %u empty", l->full, l->empty);
}

KUNIT_ARRAY_PARAM(barn_limits, barn_limits, barn_limits_desc);

static void barn_put_up_to_limits(struct kunit *test)
{
	const struct barn_limits *l = test->param_value;
	struct slab_sheaf *extra = sheaf(test, NR_SHEAVES - 1), before = *extra;
	struct node_barn *barn = the_barn(test);

	barn_init(barn, l->full, l->empty);
	put_full(test, 0, l->full);
	KUNIT_EXPECT_FALSE(test, barn_put_full(barn, extra));
	expect_barn(test, l->full, 0);

	put_empty(test, l->full, l->empty);
	KUNIT_EXPECT_FALSE(test, barn_put_empty(barn, extra));
	expect_barn(test, l->full, l->empty);
	KUNIT_EXPECT_MEMEQ(test, extra, &before, sizeof(before));

	/* Room for one is room for one. */
	if (barn_get_full(barn)) {
		KUNIT_EXPECT_TRUE(test, barn_put_full(barn, extra));
		KUNIT_EXPECT_PTR_EQ(test, barn_get_full(barn), extra);
		expect_barn(test, l->full - 1, l->empty);
	}
	if (barn_get_empty(barn)) {
		KUNIT_EXPECT_TRUE(test, barn_put_empty(barn, extra));
		KUNIT_EXPECT_PTR_EQ(test, barn_get_empty(barn), extra);
		expect_barn(test, l->full - !!l->full, l->empty - 1);
	}
}

static void barn_swap_empty_for_full(struct kunit *test)
{
	struct slab_sheaf *offer = sheaf(test, 4);
	struct node_barn *barn = the_barn(test);

	put_full(test, 0, 2);
	put_empty(test, 2, 2);
	KUNIT_EXPECT_PTR_EQ(test, barn_swap_empty(barn, &offer), sheaf(test, 1));
	KUNIT_EXPECT_NULL(test, offer);
	expect_barn(test, 1, 3);
	KUNIT_EXPECT_PTR_EQ(test, barn_get_empty(barn), sheaf(test, 4));
	KUNIT_EXPECT_PTR_EQ(test, barn_get_full(barn), sheaf(test, 0));
}

static void barn_swap_empty_refused(struct kunit *test)
{
	struct slab_sheaf *offer = sheaf(test, 2), before = *offer;
	struct node_barn *barn = the_barn(test);

	put_empty(test, 0, 2);
	KUNIT_EXPECT_NULL(test, barn_swap_empty(barn, &offer));
	KUNIT_EXPECT_PTR_EQ(test, offer, sheaf(test, 2));
	KUNIT_EXPECT_MEMEQ(test, offer, &before, sizeof(before));
	expect_barn(test, 0, 2);
	KUNIT_EXPECT_PTR_EQ(test, barn_get_empty(barn), sheaf(test, 1));
}

/* A full sheaf is to be had even if the barn has no room for the empty one. */
static void barn_swap_empty_kept(struct kunit *test)
{
	struct slab_sheaf *offer = sheaf(test, 4), before = *offer;
	struct node_barn *barn = the_barn(test);

	barn_init(barn, NO_LIMIT, 2);
	put_full(test, 0, 2);
	put_empty(test, 2, 2);
	KUNIT_EXPECT_PTR_EQ(test, barn_swap_empty(barn, &offer), sheaf(test, 1));
	KUNIT_EXPECT_PTR_EQ(test, offer, sheaf(test, 4));
	KUNIT_EXPECT_MEMEQ(test, offer, &before, sizeof(before));
	expect_barn(test, 1, 2);
}

static void barn_swap_full_for_empty(struct kunit *test)
{
	struct node_barn *barn = the_barn(test);

	put_full(test, 0, 2);
	put_empty(test, 2, 2);
	KUNIT_EXPECT_PTR_EQ(test, barn_swap_full(barn, sheaf(test, 4)), sheaf(test, 3));
	expect_barn(test, 3, 1);
	KUNIT_EXPECT_PTR_EQ(test, barn_get_full(barn), sheaf(test, 4));
	KUNIT_EXPECT_PTR_EQ(test, barn_get_empty(barn), sheaf(test, 2));
}

static void barn_swap_full_none_empty(struct kunit *test)
{
	struct slab_sheaf *offer = sheaf(test, 2), before = *offer;
	struct node_barn *barn = the_barn(test);

	put_full(test, 0, 2);
	KUNIT_EXPECT_NULL(test, barn_swap_full(barn, offer));
	KUNIT_EXPECT_MEMEQ(test, offer, &before, sizeof(before));
	expect_barn(test, 2, 0);
	KUNIT_EXPECT_PTR_EQ(test, barn_get_full(barn), sheaf(test, 1));
}

/* Without room for the full sheaf, the empty one stays where it is. */
static void barn_swap_full_at_limit(struct kunit *test)
{
	struct slab_sheaf *offer = sheaf(test, 4), before = *offer;
	struct node_barn *barn = the_barn(test);

	barn_init(barn, 2, NO_LIMIT);
	put_full(test, 0, 2);
	put_empty(test, 2, 2);
	KUNIT_EXPECT_NULL(test, barn_swap_full(barn, offer));
	KUNIT_EXPECT_MEMEQ(test, offer, &before, sizeof(before));
	expect_barn(test, 2, 2);
	KUNIT_EXPECT_PTR_EQ(test, barn_get_full(barn), sheaf(test, 1));
	KUNIT_EXPECT_PTR_EQ(test, barn_swap_full(barn, offer), sheaf(test, 3));
	expect_barn(test, 2, 1);
}

/* Lower limits throw nothing out, but count from then on. */
static void barn_limits_lowered(struct kunit *test)
{
	struct slab_sheaf *offer = sheaf(test, 10);
	struct node_barn *barn = the_barn(test);

	put_full(test, 0, 5);
	put_empty(test, 5, 5);
	barn_set_limits(barn, 3, 4);
	KUNIT_EXPECT_EQ(test, barn->max_full, 3);
	KUNIT_EXPECT_EQ(test, barn->max_empty, 4);
	expect_barn(test, 5, 5);

	KUNIT_ASSERT_FALSE(test, barn_put_full(barn, offer));
	KUNIT_ASSERT_FALSE(test, barn_put_empty(barn, offer));
	KUNIT_ASSERT_NULL(test, barn_swap_full(barn, offer));
	KUNIT_EXPECT_PTR_EQ(test, barn_swap_empty(barn, &offer), sheaf(test, 4));
	KUNIT_ASSERT_PTR_EQ(test, offer, sheaf(test, 10));
	expect_barn(test, 4, 5);

	KUNIT_EXPECT_PTR_EQ(test, barn_get_full(barn), sheaf(test, 3));
	KUNIT_ASSERT_FALSE(test, barn_put_full(barn, offer));
	KUNIT_EXPECT_PTR_EQ(test, barn_get_full(barn), sheaf(test, 2));
	KUNIT_EXPECT_TRUE(test, barn_put_full(barn, offer));
	expect_barn(test, 3, 5);
}

static void barn_limits_raised(struct kunit *test)
{
	struct slab_sheaf *offer = sheaf(test, 4);
	struct node_barn *barn = the_barn(test);

	barn_init(barn, 1, 1);
	put_full(test, 0, 1);
	put_empty(test, 1, 1);
	KUNIT_ASSERT_FALSE(test, barn_put_full(barn, offer));
	KUNIT_ASSERT_FALSE(test, barn_put_empty(barn, offer));
	barn_set_limits(barn, 2, 2);
	put_full(test, 2, 1);
	put_empty(test, 3, 1);
	KUNIT_ASSERT_FALSE(test, barn_put_full(barn, offer));
	KUNIT_ASSERT_FALSE(test, barn_put_empty(barn, offer));
	expect_barn(test, 2, 2);
}

/* Takes the first sheaf off a list, and expects it to be number i. */
static void expect_next(struct kunit *test, struct list_head *list, unsigned int i)
{
	struct slab_sheaf *next;

	next = list_first_entry_or_null(list, struct slab_sheaf, barn_list);
	KUNIT_ASSERT_PTR_EQ(test, next, sheaf(test, i));
	list_del(&next->barn_list);
}

/* What shrinking does. The lists that it brings may have something on them. */
static void barn_take_all_sheaves(struct kunit *test)
{
	struct node_barn *barn = the_barn(test);
	LIST_HEAD(full);
	LIST_HEAD(empty);

	list_add(&sheaf(test, 8)->barn_list, &full);
	list_add(&sheaf(test, 9)->barn_list, &empty);
	put_full(test, 0, 3);
	put_empty(test, 3, 2);
	barn_take_all(barn, &full, &empty);
	expect_barn(test, 0, 0);
	KUNIT_EXPECT_EQ(test, list_length(&full), 4);
	KUNIT_EXPECT_EQ(test, list_length(&empty), 3);
	expect_next(test, &full, 2);
	expect_next(test, &full, 1);
	expect_next(test, &full, 0);
	expect_next(test, &full, 8);
	expect_next(test, &empty, 4);
	expect_next(test, &empty, 3);
	expect_next(test, &empty, 9);
}

static void barn_take_all_of_none(struct kunit *test)
{
	struct node_barn *barn = the_barn(test);
	LIST_HEAD(full);
	LIST_HEAD(empty);

	barn_take_all(barn, &full, &empty);
	KUNIT_EXPECT_TRUE(test, list_empty(&full));
	KUNIT_EXPECT_TRUE(test, list_empty(&empty));
	expect_barn(test, 0, 0);
}

static void barn_usable_after_take_all(struct kunit *test)
{
	struct node_barn *barn = the_barn(test);
	LIST_HEAD(full);
	LIST_HEAD(empty);

	barn_init(barn, 2, 2);
	put_full(test, 0, 2);
	put_empty(test, 2, 2);
	barn_take_all(barn, &full, &empty);
	put_full(test, 4, 2);
	put_empty(test, 6, 2);
	KUNIT_EXPECT_FALSE(test, barn_put_full(barn, sheaf(test, 8)));
	KUNIT_EXPECT_FALSE(test, barn_put_empty(barn, sheaf(test, 8)));
	expect_barn(test, 2, 2);
	KUNIT_EXPECT_EQ(test, list_length(&full), 2);
	KUNIT_EXPECT_EQ(test, list_length(&empty), 2);
	KUNIT_EXPECT_PTR_EQ(test, barn_get_full(barn), sheaf(test, 5));
	KUNIT_EXPECT_PTR_EQ(test, barn_get_empty(barn), sheaf(test, 7));
}

/* As many as there are, and no empty ones. */
static void barn_take_oldest_sheaves(struct kunit *test)
{
	struct node_barn *barn = the_barn(test);
	LIST_HEAD(full);

	put_full(test, 0, 4);
	put_empty(test, 4, 1);
	barn_take_oldest(barn, 2, &full);
	expect_barn(test, 2, 1);
	KUNIT_EXPECT_EQ(test, list_length(&full), 2);
	expect_next(test, &full, 1);
	expect_next(test, &full, 0);
	barn_take_oldest(barn, 9, &full);
	expect_barn(test, 0, 1);
	KUNIT_EXPECT_EQ(test, list_length(&full), 2);
	barn_take_oldest(barn, 1, &full);
	expect_barn(test, 0, 1);
}

/* More than are taken at a time. */
#define MANY	100

static void expect_oldest(struct kunit *test, struct list_head *list,
			  unsigned int first, unsigned int n)
{
	KUNIT_ASSERT_EQ(test, list_length(list), n);
	while (n--)
		expect_next(test, list, first + n);
}

static void barn_takes_many(struct kunit *test)
{
	struct node_barn *barn = the_barn(test);
	LIST_HEAD(empty);
	LIST_HEAD(full);
	unsigned int i;

	put_full(test, 0, MANY);
	put_empty(test, MANY, MANY);
	barn_take_oldest(barn, MANY - 10, &full);
	expect_barn(test, 10, MANY);
	expect_oldest(test, &full, 0, MANY - 10);
	barn_take_all(barn, &full, &empty);
	expect_barn(test, 0, 0);
	expect_oldest(test, &full, MANY - 10, 10);
	expect_oldest(test, &empty, MANY, MANY);

	put_full(test, 0, MANY);
	put_empty(test, MANY, MANY);
	for (i = 0; i < 3; i++)
		barn_take_unneeded(barn, &full, &empty);
	expect_barn(test, 0, 0);
	expect_oldest(test, &full, 0, MANY);
	expect_oldest(test, &empty, MANY, MANY);
}

/* What was there all the time, in two intervals. */
static void barn_take_unneeded_sheaves(struct kunit *test)
{
	struct node_barn *barn = the_barn(test);
	struct slab_sheaf *sheaves[3];
	LIST_HEAD(empty);
	LIST_HEAD(full);
	unsigned int i;

	put_full(test, 0, 6);
	put_empty(test, 6, 4);
	KUNIT_EXPECT_EQ(test, barn_take_unneeded(barn, &full, &empty), 6);
	expect_barn(test, 6, 4);

	for (i = 0; i < 3; i++)
		sheaves[i] = barn_get_full(barn);
	for (i = 3; i-- > 0;)
		KUNIT_ASSERT_TRUE(test, barn_put_full(barn, sheaves[i]));
	sheaves[0] = barn_get_empty(barn);
	KUNIT_ASSERT_TRUE(test, barn_put_empty(barn, sheaves[0]));
	KUNIT_EXPECT_EQ(test, barn_take_unneeded(barn, &full, &empty), 6);
	expect_barn(test, 6, 4);

	KUNIT_EXPECT_EQ(test, barn_take_unneeded(barn, &full, &empty), 6);
	expect_barn(test, 3, 1);
	KUNIT_EXPECT_EQ(test, list_length(&full), 3);
	KUNIT_EXPECT_EQ(test, list_length(&empty), 3);
	for (i = 3; i-- > 0;) {
		expect_next(test, &full, i);
		expect_next(test, &empty, 6 + i);
	}
}

/* A barn uses barn_list, and nothing else of a sheaf. */
static void barn_leaves_sheaves_alone(struct kunit *test)
{
	const size_t from = offsetof(struct slab_sheaf, cache);
	struct node_barn *barn = the_barn(test);
	char before[2][sizeof(struct slab_sheaf)];
	struct slab_sheaf *offer;
	unsigned int i;

	for (i = 0; i < 2; i++)
		memcpy(before[i], sheaf(test, i), sizeof(before[i]));
	put_full(test, 0, 1);
	put_empty(test, 1, 1);
	offer = barn_get_empty(barn);
	KUNIT_ASSERT_NOT_NULL(test, offer);
	KUNIT_EXPECT_NOT_NULL(test, barn_swap_empty(barn, &offer));
	KUNIT_EXPECT_NOT_NULL(test, barn_swap_full(barn, sheaf(test, 0)));
	expect_barn(test, 1, 0);
	for (i = 0; i < 2; i++)
		KUNIT_EXPECT_MEMEQ(test, (char *)sheaf(test, i) + from,
				   before[i] + from, sizeof(before[i]) - from);
}

/*
 * Sheaves that are on their way. Whoever takes a sheaf out of the barn marks it
 * as his, and must find it nobody's; who puts it in gives up that mark first.
 * What it is put as is noted in size, and must be what it comes out as.
 *
 * A juggler does random things to the barn with the sheaves that he has. He may
 * be a task, or an interrupt on top of one.
 */
#define NOBODY		UINT_MAX
#define IS_EMPTY	0
#define IS_FULL		1
#define MAX_HELD	4

struct juggler {
	struct node_barn *barn;
	atomic_t *owner;		/* by number of the sheaf */
	struct slab_sheaf *first;
	struct slab_sheaf *held[MAX_HELD];
	unsigned int nr_held;
	unsigned int me;
	struct rnd_state rnd;
	unsigned long moves;
	const char *error;
};

static void juggler_take(struct juggler *j, struct slab_sheaf *sheaf, unsigned int kind)
{
	if (!sheaf)
		return;
	if (atomic_cmpxchg(&j->owner[sheaf - j->first], NOBODY, j->me) != NOBODY)
		j->error = "took a sheaf that somebody has already";
	if (sheaf->size != kind)
		j->error = "took a sheaf from the wrong list";
	j->held[j->nr_held++] = sheaf;
	j->moves++;
}

/* The last one held, no longer marked as ours. */
static struct slab_sheaf *juggler_offer(struct juggler *j, unsigned int kind)
{
	struct slab_sheaf *sheaf = j->held[j->nr_held - 1];

	sheaf->size = kind;
	if (atomic_xchg(&j->owner[sheaf - j->first], NOBODY) != j->me)
		j->error = "somebody took a sheaf that was not in the barn";
	return sheaf;
}

/* @given: the barn has it now. Else it is ours again. */
static void juggler_offered(struct juggler *j, bool given)
{
	struct slab_sheaf *sheaf = j->held[j->nr_held - 1];

	if (given)
		j->nr_held--;
	else if (atomic_xchg(&j->owner[sheaf - j->first], j->me) != NOBODY)
		j->error = "a sheaf that was refused is in use elsewhere";
}

static void juggler_swap(struct juggler *j, unsigned int kind)
{
	struct slab_sheaf *offer = juggler_offer(j, kind), *got;

	if (kind == IS_FULL) {
		got = barn_swap_full(j->barn, offer);
		juggler_offered(j, got);
		juggler_take(j, got, IS_EMPTY);
		return;
	}

	got = barn_swap_empty(j->barn, &offer);
	if (offer && offer != j->held[j->nr_held - 1])
		j->error = "the barn exchanged the sheaf that it did not take";
	juggler_offered(j, !offer);
	juggler_take(j, got, IS_FULL);
}

static void juggler_step(struct juggler *j)
{
	u32 dice = prandom_u32_state(&j->rnd);
	unsigned int kind = dice & 1 ? IS_FULL : IS_EMPTY;

	dice >>= 1;
	if (j->nr_held && j->nr_held < MAX_HELD && dice & 1) {
		juggler_swap(j, kind);
	} else if (j->nr_held == MAX_HELD || (j->nr_held && dice & 2)) {
		struct slab_sheaf *offer = juggler_offer(j, kind);

		juggler_offered(j, kind == IS_FULL ? barn_put_full(j->barn, offer) :
						     barn_put_empty(j->barn, offer));
	} else {
		juggler_take(j, kind == IS_FULL ? barn_get_full(j->barn) :
						  barn_get_empty(j->barn), kind);
	}
}

static atomic_t *new_owners(struct kunit *test, unsigned int nr)
{
	atomic_t *owner = kunit_kcalloc(test, nr, sizeof(*owner), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, owner);
	for (i = 0; i < nr; i++)
		atomic_set(&owner[i], NOBODY);
	return owner;
}

/* Starts with two sheaves, number 2 * me and 2 * me + 1. */
static void juggler_init(struct kunit *test, struct juggler *j, unsigned int me,
			 atomic_t *owner)
{
	j->barn = the_barn(test);
	j->owner = owner;
	j->first = sheaf(test, 0);
	j->me = me;
	j->nr_held = 2;
	j->held[0] = sheaf(test, 2 * me);
	j->held[1] = sheaf(test, 2 * me + 1);
	atomic_set(&owner[2 * me], me);
	atomic_set(&owner[2 * me + 1], me);
	prandom_seed_state(&j->rnd, 1000 + me);
}

/* Each sheaf is in the barn, or with the one juggler that it says it is with. */
static void expect_all_sheaves(struct kunit *test, atomic_t *owner,
			       struct juggler *jugglers, unsigned int nr_jugglers)
{
	unsigned int i, k, nr = 2 * nr_jugglers, found = 0;
	struct node_barn *barn = the_barn(test);
	struct slab_sheaf *s;

	expect_barn(test, barn->nr_full, barn->nr_empty);
	KUNIT_EXPECT_LE(test, barn->nr_full, barn->max_full);
	KUNIT_EXPECT_LE(test, barn->nr_empty, barn->max_empty);

	for (i = 0; i < nr_jugglers; i++) {
		KUNIT_EXPECT_STREQ(test, jugglers[i].error ?: "", "");
		for (k = 0; k < jugglers[i].nr_held; k++)
			found += atomic_cmpxchg(&owner[jugglers[i].held[k] - sheaf(test, 0)],
						i, nr) == i;
	}
	list_for_each_entry(s, &barn->sheaves_full, barn_list) {
		KUNIT_EXPECT_EQ(test, s->size, IS_FULL);
		found += atomic_cmpxchg(&owner[s - sheaf(test, 0)], NOBODY, nr) == NOBODY;
	}
	list_for_each_entry(s, &barn->sheaves_empty, barn_list) {
		KUNIT_EXPECT_EQ(test, s->size, IS_EMPTY);
		found += atomic_cmpxchg(&owner[s - sheaf(test, 0)], NOBODY, nr) == NOBODY;
	}
	KUNIT_EXPECT_EQ(test, found, nr);
}

#define JUGGLER_STEPS		3000
#define JUGGLER_MIN_STEPS	100
#define JUGGLER_TIME		HZ

struct juggler_start {
	atomic_t missing;		/* jugglers that are not there yet */
	struct completion all_there;
};

struct juggler_work {
	struct work_struct work;
	struct juggler_start *start;
	struct juggler *juggler;
};

static void juggler_fn(struct work_struct *work)
{
	struct juggler_work *w = container_of(work, struct juggler_work, work);
	unsigned long end;
	unsigned int i;

	if (atomic_dec_and_test(&w->start->missing))
		complete_all(&w->start->all_there);
	wait_for_completion_timeout(&w->start->all_there, JUGGLER_TIME);

	end = jiffies + JUGGLER_TIME;
	for (i = 0; i < JUGGLER_STEPS; i++) {
		if (i >= JUGGLER_MIN_STEPS && time_after(jiffies, end))
			break;
		juggler_step(w->juggler);
		cond_resched();
	}
}

static void run_on_all_cpus(struct workqueue_struct *wq, struct juggler_work *works,
			    struct juggler *jugglers, unsigned int nr)
{
	struct juggler_start start;
	unsigned int cpu, n = 0;

	init_completion(&start.all_there);
	cpus_read_lock();
	atomic_set(&start.missing, min(nr, num_online_cpus()));
	for_each_online_cpu(cpu) {
		if (n == nr)
			break;
		works[n].juggler = &jugglers[n];
		works[n].start = &start;
		INIT_WORK(&works[n].work, juggler_fn);
		queue_work_on(cpu, wq, &works[n].work);
		n++;
	}
	while (n-- > 0)
		flush_work(&works[n].work);
	cpus_read_unlock();
}

static void barn_concurrent(struct kunit *test)
{
	unsigned int i, nr = num_online_cpus();
	struct barn_test *bt = test->priv;
	struct workqueue_struct *wq;
	struct juggler_work *works;
	struct juggler *jugglers;
	unsigned long moves = 0;
	atomic_t *owner;

	bt->sheaves = kunit_kcalloc(test, 2 * nr, sizeof(*bt->sheaves), GFP_KERNEL);
	jugglers = kunit_kcalloc(test, nr, sizeof(*jugglers), GFP_KERNEL);
	works = kunit_kcalloc(test, nr, sizeof(*works), GFP_KERNEL);
	owner = new_owners(test, 2 * nr);
	KUNIT_ASSERT_NOT_NULL(test, bt->sheaves);
	KUNIT_ASSERT_NOT_NULL(test, jugglers);
	KUNIT_ASSERT_NOT_NULL(test, works);
	barn_init(&bt->barn, nr, nr);
	for (i = 0; i < nr; i++)
		juggler_init(test, &jugglers[i], i, owner);

	wq = alloc_workqueue("barn_kunit", WQ_CPU_INTENSIVE, 0);
	KUNIT_ASSERT_NOT_NULL(test, wq);
	run_on_all_cpus(wq, works, jugglers, nr);
	destroy_workqueue(wq);

	for (i = 0; i < nr; i++) {
		KUNIT_EXPECT_GT(test, jugglers[i].moves, 0);
		moves += jugglers[i].moves;
	}
	expect_all_sheaves(test, owner, jugglers, nr);
	kunit_info(test, "%lu sheaves moved by %u CPUs\n", moves, nr);
}

struct barn_holder {
	struct work_struct work;
	struct node_barn *barn;
	struct completion holds;
};

static void hold_barn(struct work_struct *work)
{
	struct barn_holder *h = container_of(work, struct barn_holder, work);
	unsigned long flags;

	spin_lock_irqsave(&h->barn->lock, flags);
	complete(&h->holds);
	mdelay(20);
	spin_unlock_irqrestore(&h->barn->lock, flags);
}

/* Who has to wait for the lock is counted, and nobody else. */
static void barn_counts_who_waits(struct kunit *test)
{
	struct node_barn *barn = the_barn(test);
	struct barn_holder h = { .barn = barn };
	unsigned int i;
	int cpu;

	put_full(test, 0, 3);
	KUNIT_EXPECT_PTR_EQ(test, barn_get_full(barn), sheaf(test, 2));
	KUNIT_EXPECT_EQ(test, barn->contended, 0);

	set_cpus_allowed_ptr(current, cpumask_of(raw_smp_processor_id()));
	cpu = cpumask_any_but(cpu_online_mask, raw_smp_processor_id());
	if (cpu >= nr_cpu_ids)
		kunit_skip(test, "there is no other CPU");
	/* On a slow machine, this one may come late. */
	for (i = 0; i < 20 && !barn->contended; i++) {
		init_completion(&h.holds);
		INIT_WORK_ONSTACK(&h.work, hold_barn);
		queue_work_on(cpu, system_highpri_wq, &h.work);
		wait_for_completion(&h.holds);
		put_full(test, 3 + i % 2, 1);
		KUNIT_EXPECT_PTR_EQ(test, barn_get_full(barn), sheaf(test, 3 + i % 2));
		flush_work(&h.work);
		destroy_work_on_stack(&h.work);
	}
	KUNIT_EXPECT_GT(test, barn->contended, 0);
	expect_barn(test, 2, 0);
}

static void skip_if_no_hardirq(struct kunit *test)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		kunit_skip(test, "hard interrupts do not allocate on PREEMPT_RT");
}

struct irq_barn {
	struct irq_work work;
	struct node_barn *barn;
	struct slab_sheaf *put, *got;
	bool in_hardirq;
	bool swapped;
};

static void use_barn_in_irq(struct irq_work *work)
{
	struct irq_barn *ib = container_of(work, struct irq_barn, work);
	struct slab_sheaf *offer;

	ib->in_hardirq = in_hardirq();
	barn_put_empty(ib->barn, ib->put);
	offer = barn_get_full(ib->barn);
	if (!offer)
		return;
	ib->got = barn_swap_full(ib->barn, offer);
	if (!ib->got)
		return;
	ib->swapped = barn_swap_empty(ib->barn, &ib->got) == offer;
}

static void barn_in_hardirq(struct kunit *test)
{
	struct irq_barn ib = {
		.work = IRQ_WORK_INIT(use_barn_in_irq),
		.barn = the_barn(test),
		.put = sheaf(test, 1),
	};

	skip_if_no_hardirq(test);
	put_full(test, 0, 1);
	irq_work_queue(&ib.work);
	irq_work_sync(&ib.work);
	KUNIT_EXPECT_TRUE(test, ib.in_hardirq);
	KUNIT_EXPECT_TRUE(test, ib.swapped);
	KUNIT_EXPECT_NULL(test, ib.got);
	expect_barn(test, 0, 1);
	KUNIT_EXPECT_PTR_EQ(test, barn_get_empty(the_barn(test)), sheaf(test, 1));
}

#define TIMER_TICKS	100
#define TIMER_PERIOD_NS	(100 * NSEC_PER_USEC)
#define TIMER_STEPS	8

struct timer_juggler {
	struct hrtimer timer;
	struct completion done;
	struct juggler *juggler;
	unsigned int ticks;
};

static enum hrtimer_restart juggle_in_timer(struct hrtimer *timer)
{
	struct timer_juggler *tj = container_of(timer, struct timer_juggler, timer);
	ktime_t now, start = ktime_get();
	unsigned int i;

	for (i = 0; i < TIMER_STEPS; i++)
		juggler_step(tj->juggler);
	if (++tj->ticks == TIMER_TICKS) {
		complete(&tj->done);
		return HRTIMER_NORESTART;
	}
	/* On a slow machine, the task needs time for its steps, too. */
	now = ktime_get();
	hrtimer_set_expires(timer, now + max(ns_to_ktime(TIMER_PERIOD_NS), 4 * (now - start)));
	return HRTIMER_RESTART;
}

/* An interrupt on top of a task that uses the same barn on the same CPU. */
static void barn_hardirq_on_task(struct kunit *test)
{
	atomic_t *owner = new_owners(test, 4);
	struct juggler jugglers[2] = { };
	struct timer_juggler tj = { .juggler = &jugglers[1] };
	unsigned long end;
	unsigned int i;

	skip_if_no_hardirq(test);
	barn_init(the_barn(test), 2, 2);
	juggler_init(test, &jugglers[0], 0, owner);
	juggler_init(test, &jugglers[1], 1, owner);
	init_completion(&tj.done);
	set_cpus_allowed_ptr(current, cpumask_of(raw_smp_processor_id()));

	hrtimer_init_on_stack(&tj.timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	tj.timer.function = juggle_in_timer;
	hrtimer_start(&tj.timer, ns_to_ktime(TIMER_PERIOD_NS), HRTIMER_MODE_REL_PINNED);
	end = jiffies + JUGGLER_TIME;
	while (!completion_done(&tj.done) &&
	       (!READ_ONCE(tj.ticks) || time_before(jiffies, end))) {
		juggler_step(&jugglers[0]);
		cond_resched();
	}
	hrtimer_cancel(&tj.timer);
	destroy_hrtimer_on_stack(&tj.timer);
	/* The timer may have held all sheaves whenever the task had its turn. */
	for (i = 0; i < JUGGLER_STEPS && !jugglers[0].moves; i++) {
		juggler_step(&jugglers[1]);
		juggler_step(&jugglers[0]);
	}

	KUNIT_EXPECT_GT(test, tj.ticks, 0);
	KUNIT_EXPECT_GT(test, jugglers[0].moves, 0);
	KUNIT_EXPECT_GT(test, jugglers[1].moves, 0);
	expect_all_sheaves(test, owner, jugglers, 2);
}

/* So many that who takes them all is interrupted. */
#define LOTS		8000

/* Takes some sheaves in between two batches of somebody else, the newest first. */
struct barn_taker {
	struct hrtimer timer;
	struct node_barn *barn;
	struct list_head full;
	bool between;			/* not before the first batch */
};

static enum hrtimer_restart take_in_timer(struct hrtimer *timer)
{
	struct barn_taker *t = container_of(timer, struct barn_taker, timer);
	struct slab_sheaf *full;
	unsigned int i;

	t->between = READ_ONCE(t->barn->nr_full) < LOTS;
	for (i = 0; i < TIMER_STEPS; i++) {
		full = barn_get_full(t->barn);
		if (!full)
			break;
		list_add_tail(&full->barn_list, &t->full);
	}
	return HRTIMER_NORESTART;
}

/* Nobody has what the other one has, and older ones come later. */
static void expect_share(struct kunit *test, struct list_head *list, bool *found)
{
	struct slab_sheaf *s, *newer = NULL;

	list_for_each_entry(s, list, barn_list) {
		KUNIT_EXPECT_FALSE(test, found[s - sheaf(test, 0)]);
		found[s - sheaf(test, 0)] = true;
		if (newer)
			KUNIT_EXPECT_LT(test, s - newer, 0);
		newer = s;
	}
}

/* Takes all. Returns whether an interrupt has got some meanwhile. */
static bool take_shared(struct kunit *test, unsigned int usecs, bool *found)
{
	struct barn_taker t = {
		.barn = the_barn(test),
		.full = LIST_HEAD_INIT(t.full),
	};
	LIST_HEAD(full);

	put_full(test, 0, LOTS);
	memset(found, false, LOTS * sizeof(*found));
	hrtimer_init_on_stack(&t.timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	t.timer.function = take_in_timer;
	migrate_disable();
	hrtimer_start(&t.timer, ns_to_ktime(usecs * NSEC_PER_USEC), HRTIMER_MODE_REL_PINNED);
	barn_take_oldest(the_barn(test), LOTS, &full);
	hrtimer_cancel(&t.timer);
	destroy_hrtimer_on_stack(&t.timer);
	migrate_enable();

	expect_barn(test, 0, 0);
	KUNIT_EXPECT_EQ(test, list_length(&full) + list_length(&t.full), LOTS);
	expect_share(test, &full, found);
	expect_share(test, &t.full, found);
	return t.between && !list_empty(&t.full);
}

/* What is taken in between two batches is not counted on. */
static void barn_taken_in_between(struct kunit *test)
{
	struct barn_test *bt = test->priv;
	unsigned int usecs, shared = 0;
	bool *found;

	skip_if_no_hardirq(test);
	bt->sheaves = kunit_kcalloc(test, LOTS, sizeof(*bt->sheaves), GFP_KERNEL);
	found = kunit_kcalloc(test, LOTS, sizeof(*found), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, bt->sheaves);
	KUNIT_ASSERT_NOT_NULL(test, found);
	for (usecs = 0; usecs < 50 && shared < 5; usecs++)
		shared += take_shared(test, usecs, found);
	kunit_info(test, "shared in %u of %u rounds\n", shared, usecs);
}

static int barn_test_init(struct kunit *test)
{
	struct barn_test *bt = kunit_kzalloc(test, sizeof(*bt), GFP_KERNEL);
	unsigned int i;

	if (!bt)
		return -ENOMEM;
	bt->sheaves = kunit_kcalloc(test, NR_SHEAVES, sizeof(*bt->sheaves), GFP_KERNEL);
	if (!bt->sheaves)
		return -ENOMEM;
	for (i = 0; i < NR_SHEAVES; i++) {
		struct slab_sheaf *s = &bt->sheaves[i];

		/* Not initialized: nobody promised to. */
		memset(s, 0x5a, sizeof(*s));
		s->size = i;
		s->capacity = 100 + i;
	}
	barn_init(&bt->barn, NO_LIMIT, NO_LIMIT);
	test->priv = bt;
	return 0;
}

static struct kunit_case barn_cases[] = {
	KUNIT_CASE(barn_starts_empty),
	KUNIT_CASE(barn_empty_gives_nothing),
	KUNIT_CASE(barn_counts_objects),
	KUNIT_CASE(barn_full_order),
	KUNIT_CASE(barn_empty_order),
	KUNIT_CASE(barn_kinds_do_not_mix),
	KUNIT_CASE_PARAM(barn_put_up_to_limits, barn_limits_gen_params),
	KUNIT_CASE(barn_swap_empty_for_full),
	KUNIT_CASE(barn_swap_empty_refused),
	KUNIT_CASE(barn_swap_empty_kept),
	KUNIT_CASE(barn_swap_full_for_empty),
	KUNIT_CASE(barn_swap_full_none_empty),
	KUNIT_CASE(barn_swap_full_at_limit),
	KUNIT_CASE(barn_limits_lowered),
	KUNIT_CASE(barn_limits_raised),
	KUNIT_CASE(barn_take_all_sheaves),
	KUNIT_CASE(barn_take_all_of_none),
	KUNIT_CASE(barn_usable_after_take_all),
	KUNIT_CASE(barn_take_oldest_sheaves),
	KUNIT_CASE(barn_takes_many),
	KUNIT_CASE(barn_take_unneeded_sheaves),
	KUNIT_CASE(barn_leaves_sheaves_alone),
	KUNIT_CASE(barn_counts_who_waits),
	KUNIT_CASE(barn_in_hardirq),
	KUNIT_CASE(barn_hardirq_on_task),
	KUNIT_CASE(barn_taken_in_between),
	KUNIT_CASE(barn_concurrent),
	{}
};

static struct kunit_suite barn_suite = {
	.name = "slab_barn",
	.init = barn_test_init,
	.test_cases = barn_cases,
};

kunit_test_suite(barn_suite);

MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
MODULE_DESCRIPTION("KUnit tests for the barns of the slab allocator");
MODULE_LICENSE("GPL");
