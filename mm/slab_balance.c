// SPDX-License-Identifier: GPL-2.0
/*
 * Balance: how large sheaves and barns should be
 *
 * A sheaf that is too small, or a barn that accepts too few, makes objects go through
 * slabs that other CPUs, or the same one, will want in a moment. What is too large
 * keeps memory for nobody. No constant is right: a cache that is quiet most of the
 * time bursts for a second, and of two hundred caches ten are busy. So the sizes
 * follow what is seen. This file is what decides; who acts upon it is
 * mm/slab_sheaf_grow.c and mm/slab_sheaf_trim.c.
 *
 * Slow start. A CPU that needs an object has not proved that it needs sixty. Its first
 * sheaf is a quarter of what sheaves of the cache are, and each time that its sheaves
 * and the barn cannot serve (a miss), soon after the time before, the next one has
 * twice the size. When misses have become rare the refills become small again
 * (balance_fill()).
 *
 * Growth. A barn starts with next to nothing. It is too small if it refuses full
 * sheaves, and lacks them, within the same interval: had it kept the ones, it would have
 * had the others. A barn that only refuses, as a cache is being emptied, or that only
 * lacks, while one is being filled, would not gain by being larger; if one is filled and
 * emptied at once, it will the next time. Some of each double it, at once
 * (balance_refused()): a burst is over before any timer is. If it lacked more than some,
 * it takes fewer refusals the next time in the same interval. But the more it accepts,
 * the more often has it to refuse and to lack by turns, in this interval or, for half, in
 * the one before: what a large cache sheds as it is emptied keeps slabs for nobody if a
 * barn takes it, as long as others in them live on.
 * What the barn's lock makes others wait for is another matter, larger barns do not help:
 * larger sheaves pass the lock less often (balance_capacity()).
 *
 * Working set. The least number of full sheaves that a barn had in an interval is a
 * number that was not needed. What stayed unneeded for two intervals is given back
 * (balance_unneeded()), and the barn's limit falls to twice of what was reached in either
 * of them (balance_limit()).
 *
 * Hysteresis. Sheaves grow at a rate above 5 events in a second, and shrink below 0.5 in
 * a second. Barns grow by 5 events in an interval, and shrink after two intervals. In
 * between all stays as it is.
 *
 * Caps. Growth ends at a share of the node's memory, for each barn and for all of
 * them (balance_max_sheaves(), and mm/slab_sheaf_grow.c).
 *
 * It is arithmetic: no lock, no memory, no clock but what is passed in. So it can be run
 * against counters that were recorded, or made up (lib/tests/slab_sheaf_balance_kunit.c).
 */

#include <linux/compiler.h>
#include <linux/export.h>
#include <linux/jiffies.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <kunit/visibility.h>

#include "slab_balance.h"

/* The two thresholds, as the time between two events, and as events. */
#define OFTEN_JIFFIES	(HZ / 5)
#define SELDOM_JIFFIES	(2 * HZ)
#define OFTEN		5
#define OFTEN_KEPT	3
#define SELDOM_INVERSE	2

/* Of what a barn accepts, as many as a turn, from lack to refusal or back, speaks for. */
#define SHEAVES_A_TURN	3

/* A barn may have this part of the memory of its node, 1/512. */
#define BALANCE_BARN_SHIFT	9

/*
 * A new interval begins with nothing, but for half of the turns of the one before it: a
 * load that goes on need not show anew how large it is. One that others have opened since
 * @now was read is not over.
 */
static void open_window(struct barn_demand *demand, unsigned long now)
{
	unsigned long since = READ_ONCE(demand->since);
	unsigned int turns = READ_ONCE(demand->turns) / 2;

	if (now - since + HZ < BALANCE_INTERVAL + HZ)
		return;
	WRITE_ONCE(demand->since, now);
	WRITE_ONCE(demand->lacked, 0);
	WRITE_ONCE(demand->refused, 0);
	WRITE_ONCE(demand->turns, now - since < 2 * BALANCE_INTERVAL ? turns : 0);
}

static void take_turns(struct barn_demand *demand, bool lacking)
{
	if (READ_ONCE(demand->lacking) == lacking)
		return;
	WRITE_ONCE(demand->lacking, lacking);
	WRITE_ONCE(demand->turns, READ_ONCE(demand->turns) + 1);
}

/**
 * balance_lacked - a barn had no full sheaf
 * @demand: What is known of the barn.
 * @now: jiffies.
 *
 * Context: Any.
 */
void balance_lacked(struct barn_demand *demand, unsigned long now)
{
	open_window(demand, now);
	take_turns(demand, true);
	WRITE_ONCE(demand->lacked, READ_ONCE(demand->lacked) + 1);
}
EXPORT_SYMBOL_IF_KUNIT(balance_lacked);

/**
 * balance_refused - a barn did not accept a full sheaf
 * @demand: What is known of the barn.
 * @limit: How many it accepts.
 * @now: jiffies.
 *
 * Context: Any.
 * Return: Whether the barn should accept twice as many from now on. If that is not enough,
 *	   either, it takes fewer refusals in the same interval, as long as there were lacks that
 *	   are not accounted for, and turns in keeping with @limit.
 */
bool balance_refused(struct barn_demand *demand, unsigned int limit, unsigned long now)
{
	unsigned int lacked, refused;

	open_window(demand, now);
	take_turns(demand, false);
	lacked = READ_ONCE(demand->lacked);
	refused = READ_ONCE(demand->refused) + 1;
	if (refused < OFTEN || lacked < OFTEN ||
	    READ_ONCE(demand->turns) < limit / SHEAVES_A_TURN) {
		WRITE_ONCE(demand->refused, refused);
		return false;
	}
	WRITE_ONCE(demand->lacked, lacked - OFTEN);
	WRITE_ONCE(demand->refused, OFTEN_KEPT);
	return true;
}
EXPORT_SYMBOL_IF_KUNIT(balance_refused);

/**
 * balance_unneeded - an interval is over: how many sheaves were not needed
 * @range: Where the barn has been. Begins anew.
 * @nr: How many sheaves it has now.
 *
 * Context: Any, under whatever protects @range.
 * Return: How many sheaves there were all the time, in this interval and the one
 *	   before: those to be taken away next.
 */
unsigned int balance_unneeded(struct barn_range *range, unsigned int nr)
{
	unsigned int unneeded = min(range->low, range->last_low);

	range->last_low = range->low - unneeded;
	range->last_high = range->high;
	WRITE_ONCE(range->low, nr);
	WRITE_ONCE(range->high, nr - min(unneeded, nr));
	return min(unneeded, nr);
}
EXPORT_SYMBOL_IF_KUNIT(balance_unneeded);

/**
 * balance_used - how many sheaves there were at most
 * @range: Where the barn has been, after balance_unneeded().
 *
 * Context: Any, under whatever protects @range.
 * Return: The largest number in the last two intervals.
 */
unsigned int balance_used(const struct barn_range *range)
{
	return max(range->high, range->last_high);
}
EXPORT_SYMBOL_IF_KUNIT(balance_used);

/**
 * balance_limit - how many sheaves a barn should accept after an interval
 * @used: How many there were at most, by balance_used().
 * @limit: How many it accepts.
 * @min: How many it should accept at least.
 *
 * Context: Any.
 * Return: How many it should accept, not more than @limit: twice of what was used, as loads
 *	   that stay the same vary.
 */
unsigned int balance_limit(unsigned int used, unsigned int limit,
			   unsigned int min)
{
	return min(limit, max(2 * used, min));
}
EXPORT_SYMBOL_IF_KUNIT(balance_limit);

/**
 * balance_fill - how many objects a CPU should get that has none left
 * @fill: How many it should have got the last time, 0 if there was none.
 * @capacity: What sheaves of the cache have room for.
 * @head: What a sheaf takes besides, in objects' pointers: with it, sheaves are powers of
 *	  two in size.
 * @since: How long ago that was, in jiffies.
 *
 * Context: Any.
 * Return: The number of objects, from 1 to @capacity.
 */
unsigned int balance_fill(unsigned int fill, unsigned int capacity,
			  unsigned int head, unsigned long since)
{
	unsigned int start = max((capacity + head) / 4, 2 * head) - head;

	if (!fill)
		fill = start;
	else if (since <= OFTEN_JIFFIES)
		fill = 2 * (fill + head) - head;
	else if (since >= SELDOM_JIFFIES)
		fill = max((fill + head) / 2, head) - head;
	return clamp(fill, min(start, capacity), capacity);
}
EXPORT_SYMBOL_IF_KUNIT(balance_fill);

/**
 * balance_capacity - what sheaves should have room for after an interval
 * @capacity: What they have room for.
 * @min: What they should have room for at least.
 * @max: And at most.
 * @head: As for balance_fill().
 * @contended: How often somebody had to wait for the lock of a barn.
 * @cpus: How many CPUs use that barn.
 *
 * Context: Any.
 * Return: The number of objects.
 */
unsigned int balance_capacity(unsigned int capacity, unsigned int min,
			      unsigned int max, unsigned int head,
			      unsigned int contended, unsigned int cpus)
{
	unsigned long interval = BALANCE_INTERVAL / HZ;

	if (contended > BALANCE_CONTENDED * cpus)
		capacity = 2 * (capacity + head) - head;
	else if (contended * SELDOM_INVERSE < interval * cpus)
		capacity = max((capacity + head) / 2, head) - head;
	return clamp(capacity, min, max(min, max));
}
EXPORT_SYMBOL_IF_KUNIT(balance_capacity);

/**
 * balance_max_sheaves - how many full sheaves a barn may ever accept
 * @node_bytes: How much memory the node has that the objects come from.
 * @sheaf_bytes: How much memory the objects of a full sheaf take.
 * @min: How many it may accept in any case.
 *
 * Context: Any.
 * Return: The number of sheaves.
 */
unsigned int balance_max_sheaves(unsigned long node_bytes,
				 unsigned long sheaf_bytes, unsigned int min)
{
	unsigned long most = (node_bytes >> BALANCE_BARN_SHIFT) / sheaf_bytes;

	return clamp_t(unsigned long, most, min, UINT_MAX / 2);
}
EXPORT_SYMBOL_IF_KUNIT(balance_max_sheaves);
