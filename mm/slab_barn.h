/* SPDX-License-Identifier: GPL-2.0 */
#ifndef MM_SLAB_BARN_H
#define MM_SLAB_BARN_H

/*
 * The barn tier of the slab allocator: see the comment at the head of
 * mm/slab_barn.c for what a barn is and what it is not.
 */

#include <linux/list.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "slab_balance.h"

struct kmem_cache;

/**
 * struct slab_sheaf - an array of pointers to free objects of one cache
 * @barn_list: Links the sheaf into a list while it is in a barn, on its way to be
 *	       flushed, or collects for kfree_rcu().
 * @next: For a sheaf that waits for a grace period, the one behind it.
 * @gp: For a sheaf that waits for a grace period, which one.
 * @rcu_head: For the memory of a large sheaf that waits to be freed.
 * @reserves: For a prefilled sheaf: there may be objects in it that came from
 *	      the memory reserves.
 * @oversize: For a prefilled sheaf: it was made for the purpose.
 * @cache: The cache that the objects belong to.
 * @size: How many objects there are.
 * @capacity: How many objects there can be.
 * @objects: The objects, those that went in last at the end.
 *
 * A barn uses @barn_list, and adds up @size. All other fields belong to whoever
 * holds the sheaf: a CPU, by its lock, or a task that took it out of reach of
 * all others.
 */
struct slab_sheaf {
	union {
		struct list_head barn_list;
		struct {
			struct slab_sheaf *next;
			unsigned long gp;
		};
		struct rcu_head rcu_head;
		struct {
			bool reserves;
			bool oversize;
		};
	};
	struct kmem_cache *cache;
	unsigned int size;
	unsigned int capacity;
	void *objects[];
};

/*
 * Whether there is memory where something points to that somebody may have written. Without
 * a lock, virt_addr_valid() of arm64 may be told nonsense while memory is added or removed.
 */
static inline bool points_to_memory(const void *p)
{
#ifdef CONFIG_ARM64
	p = __tag_reset(p);
	return __is_lm_address((unsigned long)p) && pfn_valid(virt_to_pfn(p));
#elif defined(CONFIG_HEXAGON)
	/* Its pfn_valid() knows of no memory. */
	return (unsigned long)p >= PAGE_OFFSET;
#else
	return virt_addr_valid(p);
#endif
}

/*
 * Whether nobody has written to the links of a sheaf that is on a list, nor to those of its
 * neighbours. Who unlinks it writes to where they say.
 */
static inline bool links_agree(const struct list_head *entry)
{
	return likely(entry->next->prev == entry && entry->prev->next == entry);
}

/*
 * Whether who follows a list gets back to where it begins: the one before each says where
 * he has come from, so he has not been there before.
 */
static inline bool list_agrees(const struct list_head *list)
{
	const struct list_head *entry = list;

	do {
		if (unlikely(entry->next->prev != entry))
			return false;
		entry = entry->next;
	} while (entry != list);
	return true;
}

/* As links_agree(), for lists that are used too often to look each time. */
static inline bool sheaf_is_linked(const struct list_head *entry)
{
	return !IS_ENABLED(CONFIG_SLAB_SHEAF_HARDENED) || links_agree(entry);
}

/*
 * The same of the first one, or of the last, of a list that is not empty. One that is linked
 * to itself agrees with its neighbours; but who unlinks it would find it there once more.
 */
static inline bool first_is_linked(const struct list_head *list)
{
	const struct list_head *first = list->next;

	return !IS_ENABLED(CONFIG_SLAB_SHEAF_HARDENED) ||
	       likely(first->prev == list && first->next->prev == first);
}

static inline bool last_is_linked(const struct list_head *list)
{
	const struct list_head *last = list->prev;

	return !IS_ENABLED(CONFIG_SLAB_SHEAF_HARDENED) ||
	       likely(last->next == list && last->prev->next == last);
}

/**
 * struct node_barn - full and empty sheaves of one cache on one NUMA node
 * @lock: Protects all other fields. Taken from any context, with interrupts
 *	  disabled.
 * @sheaves_full: The full sheaves, the one put last in front: its objects are
 *		  the most likely ones to be in the processor's caches.
 * @sheaves_empty: The empty sheaves, the one put last in front.
 * @nr_full: How many sheaves are on @sheaves_full.
 * @nr_empty: How many sheaves are on @sheaves_empty.
 * @nr_objects: How many objects there are in those on @sheaves_full.
 * @max_full: How many full sheaves the barn accepts.
 * @max_empty: How many empty sheaves the barn accepts.
 * @range_full: Between which numbers @nr_full has been.
 * @range_empty: The least number that @nr_empty has been; the largest is not kept.
 * @contended: How often somebody found @lock taken. A hint: not exact.
 * @node: Which node it is of. For tracepoints; the barn itself does not look at it.
 * @granted: Bytes that it may have above the least. Not the barn's business, and not
 *	     protected by @lock: see mm/slab_sheaf_grow.c.
 * @payer: The node whose memory that is. As @granted.
 * @checks: How often somebody could have looked at the lists.
 * @overfull: There was more on a list than it accepts, when something was put there.
 * @demand: What the barn could not do. Not protected, and not the barn's business, either.
 */
struct node_barn {
	spinlock_t lock;	/* Protects the rest. Nothing nests inside. */
	struct list_head sheaves_full;
	struct list_head sheaves_empty;
	unsigned int nr_full;
	unsigned int nr_empty;
	unsigned long nr_objects;
	unsigned int max_full;
	unsigned int max_empty;
	struct barn_range range_full;
	struct barn_range range_empty;
	unsigned int contended;
	int node;
	unsigned long granted;
	int payer;
	struct barn_demand demand;
#ifdef CONFIG_DEBUG_SLAB_SHEAVES
	unsigned int checks;
	bool overfull;
#endif
};

void barn_init(struct node_barn *barn, unsigned int max_full,
	       unsigned int max_empty);
void barn_set_limits(struct node_barn *barn, unsigned int max_full,
		     unsigned int max_empty);

struct slab_sheaf *barn_get_full(struct node_barn *barn);
struct slab_sheaf *barn_get_empty(struct node_barn *barn);
bool barn_put_full(struct node_barn *barn, struct slab_sheaf *full);
bool barn_put_empty(struct node_barn *barn, struct slab_sheaf *empty);

struct slab_sheaf *barn_swap_empty(struct node_barn *barn,
				   struct slab_sheaf **empty);
struct slab_sheaf *barn_swap_full(struct node_barn *barn,
				  struct slab_sheaf *full);

void barn_take_all(struct node_barn *barn, struct list_head *full,
		   struct list_head *empty);
void barn_take_oldest(struct node_barn *barn, unsigned int nr,
		      struct list_head *full);
unsigned int barn_take_unneeded(struct node_barn *barn, struct list_head *full,
				struct list_head *empty);

#endif /* MM_SLAB_BARN_H */
