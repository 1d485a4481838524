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
 * Locks. A limit is changed under the barn's lock, by those who know what it was: two
 * who let a barn grow at the same time let it grow once. The rest is done under
 * slab_mutex.
 */

#include <linux/atomic.h>
#include <linux/cpumask.h>
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/mutex.h>
#include <linux/sizes.h>
#include <kunit/visibility.h>

#define CREATE_TRACE_POINTS
#include <trace/events/slab_sheaf.h>

#include "slab_sheaf.h"

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

/* In bytes, of the objects that barns may have above what they have in any case. */
static atomic_long_t granted[MAX_NUMNODES];

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

static unsigned long bytes_of_node(int node)
{
	return min_t(u64, (u64)node_present_pages(node) << PAGE_SHIFT, LONG_MAX);
}

static bool grant(int node, unsigned long bytes)
{
	long most = bytes_of_node(node) >> NODE_SHIFT;

	if (atomic_long_add_return(bytes, &granted[node]) <= most)
		return true;
	atomic_long_sub(bytes, &granted[node]);
	return false;
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
 * @wanted: What somebody has asked for, or BARN_LIMIT_AUTO.
 *
 * Context: Any.
 * Return: The number of full sheaves, or of empty ones.
 */
unsigned int sheaf_barn_limit(struct kmem_cache *s, int node, int wanted)
{
	if (wanted != BARN_LIMIT_AUTO)
		return wanted;
	return sheaf_follows(s, BALANCE_GROWTH) ? BALANCE_MIN_SHEAVES :
						  fixed_limit(node);
}

static void give_grant_back(struct node_barn *barn, int node,
			    unsigned long bytes)
{
	unsigned long had = atomic_long_read(&barn->granted);

	bytes = min(bytes, had);
	atomic_long_sub(bytes, &barn->granted);
	atomic_long_sub(bytes, &granted[sheaf_paying_node(node)]);
}

/* Empty sheaves are accepted as many as full ones, unless somebody says otherwise. */
static bool change_limit(struct kmem_cache *s, struct node_barn *barn, int node,
			 unsigned int from, unsigned int to)
{
	int empty = READ_ONCE(s->barn_max_empty);

	if (!barn_change_limits(barn, from, to,
				empty == BARN_LIMIT_AUTO ? to : empty))
		return false;
	trace_slab_barn_limit(s->name, node, from, to);
	return true;
}

/**
 * sheaf_barn_grow - let a barn have twice as many full sheaves
 * @s: The cache.
 * @barn: The barn.
 * @node: Its node.
 *
 * Context: Any.
 * Return: Whether it accepts more than before; not, if it has as many as it may have.
 */
bool sheaf_barn_grow(struct kmem_cache *s, struct node_barn *barn, int node)
{
	unsigned int limit = READ_ONCE(barn->max_full);
	int payer = sheaf_paying_node(node);
	unsigned long bytes;
	unsigned int most;

	if (is_pinned(s))
		return false;

	most = balance_max_sheaves(bytes_of_node(payer), bytes_of_sheaf(s),
				   fixed_limit(node));
	most = min(most, 2 * limit ?: 1);
	if (most <= limit)
		return false;

	bytes = (most - limit) * bytes_of_sheaf(s);
	if (!grant(payer, bytes))
		return false;
	atomic_long_add(bytes, &barn->granted);
	/* Somebody else may have been faster: then there is room, too. */
	if (!change_limit(s, barn, node, limit, most))
		give_grant_back(barn, node, bytes);
	else
		stat(s, BARN_GROW);
	/* Or somebody has asked for something else. */
	if (unlikely(is_pinned(s)))
		change_limit(s, barn, node, most, READ_ONCE(s->barn_max_full));
	return true;
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
	if (s->barns && s->barns[node])
		give_grant_back(s->barns[node], node, ULONG_MAX);
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
	unsigned int from = s->sheaf_capacity;
	unsigned int limit;
	int node;

	WRITE_ONCE(s->sheaf_capacity, capacity);
	for_each_node(node) {
		struct node_barn *barn = s->barns[node];

		if (!barn || !capacity || !atomic_long_read(&barn->granted))
			continue;
		limit = READ_ONCE(barn->max_full);
		change_limit(s, barn, node, limit,
			     max(mult_frac(limit, from, capacity),
				 BALANCE_MIN_SHEAVES));
	}
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
	struct node_barn *barn = s->barns[node];
	unsigned int full = sheaf_barn_limit(s, node, s->barn_max_full);
	unsigned int empty = sheaf_barn_limit(s, node, s->barn_max_empty);

	if (is_pinned(s) || !sheaf_follows(s, BALANCE_GROWTH))
		give_grant_back(barn, node, ULONG_MAX);
	else if (atomic_long_read(&barn->granted))
		full = max(full, barn->max_full);
	if (s->barn_max_empty == BARN_LIMIT_AUTO)
		empty = full;
	if (barn->max_full != full || barn->max_empty != empty)
		barn_set_limits(barn, full, empty);
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
	unsigned long had = atomic_long_read(&barn->granted);
	unsigned int limit = READ_ONCE(barn->max_full);

	if (is_pinned(s) || !sheaf_follows(s, BALANCE_GROWTH))
		return;
	/* It may have been lowered as the capacity changed, or sheaves were off. */
	if (limit <= BALANCE_MIN_SHEAVES && had)
		give_grant_back(barn, node, ULONG_MAX);
	used = balance_limit(used, limit, BALANCE_MIN_SHEAVES);
	if (used == limit || !change_limit(s, barn, node, limit, used))
		return;
	stat(s, BARN_SHRINK);
	if (used == BALANCE_MIN_SHEAVES)
		had = 0;
	give_grant_back(barn, node,
			had ? mult_frac(had, limit - used, limit) : ULONG_MAX);
}

/* The sheaves of all CPUs together may have grown by a 512th of the memory. */
static unsigned int max_capacity(const struct kmem_cache *s)
{
	unsigned long bytes = totalram_pages() >> CACHE_SHIFT << PAGE_SHIFT;
	unsigned long most;

	most = min((s->sheaf_min_capacity + SHEAF_HEAD) << MAX_CAPACITY_SHIFT,
		   SZ_4K / sizeof(void *)) - SHEAF_HEAD;
	return min(most, bytes / (3UL * num_possible_cpus() * s->size));
}

/* How often somebody waited for the lock of the barn where that was most often. */
static unsigned int most_contended(struct kmem_cache *s, unsigned int *cpus)
{
	unsigned int contended = 0;
	int node;

	for_each_node(node) {
		struct node_barn *barn = READ_ONCE(s->barns[node]);

		if (!barn)
			continue;
		if (READ_ONCE(barn->contended) > contended) {
			contended = READ_ONCE(barn->contended);
			*cpus = sheaves_cpus_of_node(node) ?: 1;
		}
		WRITE_ONCE(barn->contended, 0);
	}
	return contended;
}

/**
 * sheaf_tune_capacity - let sheaves be as large as waiting for barns suggests
 * @s: The cache, which has barns.
 * @look: Only look, as what was counted so far says nothing of an interval.
 *
 * Context: Task, under slab_mutex.
 */
void sheaf_tune_capacity(struct kmem_cache *s, bool look)
{
	unsigned int capacity = sheaf_capacity(s);
	unsigned int contended, wanted, cpus = 1;

	contended = most_contended(s, &cpus);
	if (look || !capacity || !sheaf_follows(s, BALANCE_GROWTH))
		return;
	wanted = balance_capacity(capacity, s->sheaf_min_capacity,
				  max_capacity(s), SHEAF_HEAD, contended, cpus);
	if (wanted == capacity)
		return;
	trace_slab_sheaf_capacity(s->name, capacity, wanted, contended);
	sheaf_set_capacity(s, wanted);
}
