// SPDX-License-Identifier: GPL-2.0
/*
 * How large the barns and the sheaves of a cache may be, and are
 *
 * mm/slab_balance.c says how large they should be. Here that is done, as far as there
 * is memory for it: growth at once, by whoever finds a barn too small
 * (sheaf_barn_grow()), the rest from time to time, by mm/slab_sheaf_trim.c.
 *
 * The caps. A barn's limit does not grow beyond balance_max_sheaves(), and all barns of
 * all caches together may have grown by a 32nd of the memory of their node. A node
 * without memory is on the account of the one that its memory comes from. So what a
 * machine can hold in sheaves, at most, is
 *
 *	for each cache: size of an object * capacity *
 *			(3 * CPUs + BALANCE_MIN_SHEAVES * nodes)
 *	+ memory / 32
 *
 * and the sheaves that wait for a grace period of RCU. The capacity grows to four times
 * of what the cache has asked for, to a sheaf of 4 KB, and to where the objects in the
 * sheaves of all CPUs would be a 512th of the memory.
 *
 * Locks. The limits of all barns, and what was granted for them, change together, under
 * limits_lock, from any context. It is taken inside of a CPU's sheaf lock, and barn->lock
 * inside of it. Two who let a barn grow at the same time let it grow once. The rest is
 * done under slab_mutex.
 */

#include <linux/cpumask.h>
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/mutex.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <kunit/visibility.h>

#include "slab_sheaf.h"

/* The events look into caches and barns. */
#define CREATE_TRACE_POINTS
#include <trace/events/slab_sheaf.h>

/* All barns that get their memory from a node may have grown by this part of it. */
#define NODE_SHIFT		5

/* The sheaves of a cache may have grown by this part of the memory. */
#define CACHE_SHIFT		9

/* What barns accept that do not follow the load; more, if the node has more CPUs. */
#define FIXED_SHEAVES		10

/* Sheaves grow by contention to four times of what the cache has asked for. */
#define MAX_CAPACITY_SHIFT	2

/* Mechanisms that are switched on for the machine. */
unsigned int slab_feedback __read_mostly = BALANCE_ALL;
EXPORT_SYMBOL_IF_KUNIT(slab_feedback);

/* Protects the limits of barns, what they were granted, and the sums of it. */
static DEFINE_SPINLOCK(limits_lock);

/* In bytes, of the objects that barns may have above what they have in any case. */
static unsigned long granted[MAX_NUMNODES];

static unsigned long bytes_of_sheaf(const struct kmem_cache *s)
{
	return max(1UL, (unsigned long)s->size * sheaf_capacity(s));
}

/**
 * sheaf_paying_node - the node that pays for what is in the barn of a node
 * @node: The node.
 *
 * Context: Any.
 * Return: @node itself, if it has memory.
 */
int sheaf_paying_node(int node)
{
	if (node_state(node, N_NORMAL_MEMORY))
		return node;
	node = sheaf_near_node(node);
	return node == NUMA_NO_NODE ? first_memory_node : node;
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_paying_node);

static unsigned long bytes_of_node(int node)
{
	/* Racy: memory may come or go. */
	return min_t(u64, (u64)data_race(node_present_pages(node)) << PAGE_SHIFT,
		     LONG_MAX);
}

static unsigned int fixed_limit(int node)
{
	return max(sheaves_cpus_of_node(node), FIXED_SHEAVES);
}

static bool is_pinned(const struct kmem_cache *s)
{
	return READ_ONCE(s->barn_max_full) != BARN_LIMIT_AUTO;
}

/**
 * sheaf_barn_limit - how many sheaves the barn of a node should accept at first
 * @s: The cache.
 * @node: The node.
 *
 * Context: Any.
 * Return: The number of full sheaves.
 */
unsigned int sheaf_barn_limit(const struct kmem_cache *s, int node)
{
	int limit = READ_ONCE(s->barn_max_full);

	if (limit != BARN_LIMIT_AUTO)
		return limit;
	return sheaf_follows(s, BALANCE_GROWTH) ? BALANCE_MIN_SHEAVES :
						  fixed_limit(node);
}

static bool may_grow(const struct kmem_cache *s)
{
	return !is_pinned(s) && sheaf_follows(s, BALANCE_GROWTH);
}

static void take_grant(struct node_barn *barn, int payer, unsigned long bytes)
{
	barn->payer = payer;
	WRITE_ONCE(barn->granted, barn->granted + bytes);
	WRITE_ONCE(granted[payer], granted[payer] + bytes);
}

static void give_grant_back(struct node_barn *barn, unsigned long bytes)
{
	bytes = min(bytes, barn->granted);
	WRITE_ONCE(barn->granted, barn->granted - bytes);
	WRITE_ONCE(granted[barn->payer], granted[barn->payer] - bytes);
}

/* A node may have got memory of its own, or have lost it. */
static void change_payer(struct node_barn *barn, int payer)
{
	unsigned long had = barn->granted;

	if (!had || barn->payer == payer)
		return;
	give_grant_back(barn, had);
	take_grant(barn, payer, had);
}

/*
 * Empty sheaves are accepted as many as full ones, unless somebody says otherwise. What
 * every barn may have needs no grant.
 */
static void set_limit(struct kmem_cache *s, struct node_barn *barn,
		      unsigned int full)
{
	int wanted = READ_ONCE(s->barn_max_empty);
	unsigned int empty = wanted == BARN_LIMIT_AUTO ? full : wanted;

	lockdep_assert_held(&limits_lock);
	if (full <= BALANCE_MIN_SHEAVES)
		give_grant_back(barn, ULONG_MAX);
	if (barn->max_full != full || barn->max_empty != empty)
		barn_set_limits(barn, full, empty);
}

/* How many more full sheaves a barn may have now, if @payer can afford it. */
static unsigned int room_to_grow(struct kmem_cache *s, struct node_barn *barn,
				 int node, int payer)
{
	unsigned long bytes = bytes_of_node(payer), sheaf = bytes_of_sheaf(s);
	unsigned int limit = READ_ONCE(barn->max_full);
	unsigned int most;

	/* Without a grant it has no more than the least; or its limit is about to fall. */
	if (!may_grow(s) || (!READ_ONCE(barn->granted) &&
			     limit > BALANCE_MIN_SHEAVES))
		return 0;
	most = balance_max_sheaves(bytes, sheaf, fixed_limit(node));
	most = min(most, 2 * limit ?: 1);
	if (most <= limit)
		return 0;
	most -= limit;
	if (READ_ONCE(granted[payer]) + most * sheaf > bytes >> NODE_SHIFT)
		return 0;
	return most;
}

/**
 * sheaf_barn_grow - let a barn have twice as many full sheaves
 * @s: The cache.
 * @barn: The barn.
 * @node: Its node.
 * @limit: How many it accepted when that was found too few. If others have changed it
 *	   since then, it stays.
 *
 * Context: Any.
 * Return: Whether it accepts more than @limit; not, if it has as many as it may have.
 */
bool sheaf_barn_grow(struct kmem_cache *s, struct node_barn *barn, int node,
		     unsigned int limit)
{
	int payer = sheaf_paying_node(node);
	unsigned long flags;
	unsigned int more;
	bool grown;

	/* Those who may not grow, though they would like to, wait for nobody. */
	if (!room_to_grow(s, barn, node, payer))
		return false;

	spin_lock_irqsave(&limits_lock, flags);
	change_payer(barn, payer);
	more = room_to_grow(s, barn, node, payer);
	/* Somebody else may have been faster: then there is room, too. */
	if (more && barn->max_full == limit) {
		take_grant(barn, payer, more * bytes_of_sheaf(s));
		set_limit(s, barn, limit + more);
		stat(s, BARN_GROW);
	} else {
		more = 0;
	}
	grown = barn->max_full > limit;
	spin_unlock_irqrestore(&limits_lock, flags);
	if (more)
		trace_slab_barn_limit(s->name, node, limit, limit + more);
	return grown;
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_barn_grow);

/**
 * sheaf_barn_forget - a barn is about to be freed
 * @s: The cache.
 * @node: The node, whose barn may be missing.
 *
 * Context: Any.
 */
void sheaf_barn_forget(struct kmem_cache *s, int node)
{
	unsigned long flags;

	if (!s->barns || !s->barns[node])
		return;
	spin_lock_irqsave(&limits_lock, flags);
	give_grant_back(s->barns[node], ULONG_MAX);
	spin_unlock_irqrestore(&limits_lock, flags);
}

/**
 * sheaf_set_capacity - let sheaves hold more, or less, from now on
 * @s: The cache, which has barns.
 * @capacity: How many objects new sheaves hold. What the barns may hold stays the same.
 *
 * Context: Task, under slab_mutex.
 */
void sheaf_set_capacity(struct kmem_cache *s, unsigned int capacity)
{
	unsigned int limit, from = s->sheaf_capacity;
	unsigned long flags;
	int node;

	lockdep_assert_held(&slab_mutex);
	spin_lock_irqsave(&limits_lock, flags);
	WRITE_ONCE(s->sheaf_capacity, capacity);
	for_each_node(node) {
		struct node_barn *barn = s->barns[node];

		if (!barn || !barn->granted)
			continue;
		limit = capacity ? mult_frac(barn->max_full, from, capacity) : 0;
		limit = max(limit, BALANCE_MIN_SHEAVES);
		if (limit != barn->max_full)
			trace_slab_barn_limit(s->name, node, barn->max_full,
					      limit);
		set_limit(s, barn, limit);
	}
	spin_unlock_irqrestore(&limits_lock, flags);
}

/**
 * sheaf_barn_update - the limits of a barn may be wrong now
 * @s: The cache.
 * @node: The node, which has a barn.
 *
 * There are more CPUs, or somebody has asked for something.
 *
 * Context: Task, under slab_mutex.
 */
void sheaf_barn_update(struct kmem_cache *s, int node)
{
	unsigned int full = sheaf_barn_limit(s, node);
	struct node_barn *barn = s->barns[node];
	unsigned long flags;
	unsigned int from;

	spin_lock_irqsave(&limits_lock, flags);
	from = barn->max_full;
	if (!may_grow(s))
		give_grant_back(barn, ULONG_MAX);
	else if (barn->granted)
		full = max(full, barn->max_full);
	set_limit(s, barn, full);
	spin_unlock_irqrestore(&limits_lock, flags);
	if (full != from)
		trace_slab_barn_limit(s->name, node, from, full);
}

static unsigned int lower_limit(const struct kmem_cache *s, unsigned int used,
				unsigned int limit)
{
	return may_grow(s) ? balance_limit(used, limit, BALANCE_MIN_SHEAVES) :
			     limit;
}

/**
 * sheaf_barn_lower - let the limit of a barn fall to what was used
 * @s: The cache.
 * @node: The node, which has a barn.
 * @used: How many full sheaves there were at most, in the last two intervals.
 *
 * Context: Task, under slab_mutex.
 */
void sheaf_barn_lower(struct kmem_cache *s, int node, unsigned int used)
{
	struct node_barn *barn = s->barns[node];
	unsigned long flags;
	unsigned int limit;

	/* Mostly it is not too high, and nobody is disturbed. */
	limit = READ_ONCE(barn->max_full);
	if (lower_limit(s, used, limit) == limit)
		return;

	spin_lock_irqsave(&limits_lock, flags);
	limit = barn->max_full;
	used = lower_limit(s, used, limit);
	if (used < limit) {
		stat(s, BARN_SHRINK);
		give_grant_back(barn, mult_frac(barn->granted, limit - used,
						limit));
		set_limit(s, barn, used);
	}
	spin_unlock_irqrestore(&limits_lock, flags);
	if (used < limit)
		trace_slab_barn_limit(s->name, node, limit, used);
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_barn_lower);

/* The sheaves of all CPUs together may have grown by a 512th of the memory. */
static unsigned int max_capacity(const struct kmem_cache *s)
{
	unsigned long bytes = totalram_pages() >> CACHE_SHIFT << PAGE_SHIFT;
	unsigned long most;

	most = min((s->sheaf_min_capacity + SHEAF_HEAD) << MAX_CAPACITY_SHIFT,
		   SZ_4K / sizeof(void *)) - SHEAF_HEAD;
	return min(most, bytes / (3UL * num_possible_cpus() * s->size));
}

/* How many CPUs come to the barn of a node: its own, and those that have no memory nearer. */
static unsigned int cpus_of_barn(int node)
{
	unsigned int nr, cpus = 0;
	int other;

	for_each_node(other) {
		nr = sheaves_cpus_of_node(other);
		if (nr && (other == node || sheaf_paying_node(other) == node))
			cpus += nr;
	}
	return max(cpus, 1U);
}

/*
 * How often somebody waited for the lock of the barn where that was most often, for each of
 * its CPUs.
 */
static unsigned int most_contended(struct kmem_cache *s, unsigned int *cpus)
{
	unsigned int contended, most = 0, nr_cpus;
	int node;

	for_each_node(node) {
		struct node_barn *barn = READ_ONCE(s->barns[node]);

		contended = barn ? READ_ONCE(barn->contended) : 0;
		if (!contended)
			continue;
		WRITE_ONCE(barn->contended, 0);
		nr_cpus = cpus_of_barn(node);
		if ((u64)contended * *cpus > (u64)most * nr_cpus) {
			most = contended;
			*cpus = nr_cpus;
		}
	}
	return most;
}

/**
 * sheaf_tune_capacity - let sheaves be as large as waiting for barns suggests
 * @s: The cache, which has barns.
 * @look: Only look, as what was counted so far says nothing of an interval.
 *
 * Context: Task, under slab_mutex.
 * Return: Whether there is something to follow: others wait often, or the sheaves are
 *	   larger than they are where nobody does.
 */
bool sheaf_tune_capacity(struct kmem_cache *s, bool look)
{
	unsigned int capacity = sheaf_capacity(s), wanted = capacity;
	unsigned int contended, cpus = 1;

	contended = most_contended(s, &cpus);
	if (!capacity)
		return false;
	/* Without growth it is as where nobody waits. */
	if (!sheaf_follows(s, BALANCE_GROWTH))
		contended = 0;
	if (!look)
		wanted = balance_capacity(capacity, s->sheaf_min_capacity,
					  max_capacity(s), SHEAF_HEAD,
					  contended, cpus);
	if (wanted != capacity) {
		trace_slab_sheaf_capacity(s->name, capacity, wanted, contended);
		sheaf_set_capacity(s, wanted);
	}
	return contended > BALANCE_CONTENDED || wanted > s->sheaf_min_capacity;
}

#ifdef CONFIG_PROVE_LOCKING

/* As sheaves_tell_lock_order(), of what only this file knows. */
static int __init tell_limits_lock_order(void)
{
	struct node_barn barn;

	barn_init(&barn, 0, 0);
	local_lock(&kmem_cache->cpu_sheaves->lock);
	spin_lock_irq(&limits_lock);
	barn_set_limits(&barn, 1, 1);
	spin_unlock_irq(&limits_lock);
	local_unlock(&kmem_cache->cpu_sheaves->lock);
	return 0;
}
early_initcall(tell_limits_lock_order);

#endif /* CONFIG_PROVE_LOCKING */
