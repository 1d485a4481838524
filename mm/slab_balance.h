/* SPDX-License-Identifier: GPL-2.0 */
#ifndef MM_SLAB_BALANCE_H
#define MM_SLAB_BALANCE_H

/*
 * How large sheaves and barns should be: see the comment at the head of
 * mm/slab_balance.c. Nothing here knows what a sheaf, a barn or an object is: numbers
 * go in, and numbers come out.
 */

#include <linux/types.h>

/*
 * What may follow the load. A mechanism works for a cache if it is switched on both
 * for the cache and for the machine.
 */
#define BALANCE_SLOW_START	0x1	/* Small sheaves first */
#define BALANCE_GROWTH		0x2	/* Barns and sheaves as large as is needed */
#define BALANCE_WORKING_SET	0x4	/* What was not needed is given back */
#define BALANCE_PRESSURE	0x8	/* And all of it when memory is short */
#define BALANCE_ALL		0xf

/* Full sheaves that a barn accepts before anything shows that it should be more. */
#define BALANCE_MIN_SHEAVES	2

/* How often is looked at what was needed. */
#define BALANCE_INTERVAL	(2 * HZ)

/* Up to so many waits for a barn in an interval, larger sheaves would not help. */
#define BALANCE_CONTENDED	(5U * (BALANCE_INTERVAL / HZ))

/**
 * struct barn_demand - what a barn could not do
 * @since: When this was first counted, in jiffies.
 * @lacked: How often it had no full sheaf since then.
 * @refused: How often it did not accept one.
 * @turns: How often one of these came after the other.
 * @lacking: Which of them came last.
 *
 * Counted without a lock: what is lost when two CPUs count at the same time comes
 * again if it matters.
 */
struct barn_demand {
	unsigned long since;
	unsigned int lacked;
	unsigned int refused;
	unsigned int turns;
	bool lacking;
};

/**
 * struct barn_range - between which numbers of sheaves a barn has been
 * @low: The least number in this interval.
 * @high: The largest one.
 * @last_low: The least number in the interval before.
 * @last_high: The largest one.
 */
struct barn_range {
	unsigned int low;
	unsigned int high;
	unsigned int last_low;
	unsigned int last_high;
};

void balance_lacked(struct barn_demand *demand, unsigned long now);
bool balance_refused(struct barn_demand *demand, unsigned int limit, unsigned long now);
unsigned int balance_unneeded(struct barn_range *range, unsigned int nr);
unsigned int balance_used(const struct barn_range *range);
unsigned int balance_limit(unsigned int used, unsigned int limit,
			   unsigned int min);
unsigned int balance_fill(unsigned int fill, unsigned int capacity,
			  unsigned int head, unsigned long since);
unsigned int balance_capacity(unsigned int capacity, unsigned int min,
			      unsigned int max, unsigned int head,
			      unsigned int contended, unsigned int cpus);
unsigned int balance_max_sheaves(unsigned long node_bytes,
				 unsigned long sheaf_bytes, unsigned int min);

#endif /* MM_SLAB_BALANCE_H */
