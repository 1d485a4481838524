// SPDX-License-Identifier: GPL-2.0
/*
 * What sheaves hold, in the report of an OOM
 *
 * Objects in sheaves and barns are free, and yet their slabs are not: of the slab
 * memory that such a report shows, this is what could be given back. Whoever reads
 * it wants to know whether that is much, and in which caches.
 */

#include <linux/irqflags.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/printk.h>

#include "internal.h"
#include "slab_sheaf.h"

/* That many caches are named. */
#define NR_LARGEST	8

struct in_sheaves {
	struct kmem_cache *s;
	unsigned long objects;
};

static unsigned long bytes_in_sheaves(const struct in_sheaves *in)
{
	return in->objects * in->s->size;
}

/* The largest one comes first; the last one makes room. */
static void insert(struct in_sheaves *largest, const struct in_sheaves *new)
{
	unsigned int i;

	for (i = NR_LARGEST; i; i--) {
		const struct in_sheaves *prev = &largest[i - 1];

		if (prev->s && bytes_in_sheaves(prev) >= bytes_in_sheaves(new))
			break;
		if (i < NR_LARGEST)
			largest[i] = *prev;
	}
	if (i < NR_LARGEST)
		largest[i] = *new;
}

/**
 * show_mem_in_sheaves - report how much slab memory is free in sheaves
 *
 * In all, in caches that cannot be reclaimed, and in the caches that have most. It
 * says so if it cannot look: caches come and go under slab_mutex, which may be
 * taken, by this very task for one.
 *
 * Context: Any. Allocates nothing, and waits for nobody. Where it is not a task
 *	    that calls, or interrupts are disabled, slab_mutex cannot be asked
 *	    for: who releases it may have to wake up a task.
 */
void show_mem_in_sheaves(void)
{
	struct in_sheaves largest[NR_LARGEST] = {};
	unsigned long all = 0, unreclaimable = 0;
	struct kmem_cache *s;
	unsigned int i;

	if (!in_task() || irqs_disabled()) {
		pr_notice("Slab memory free in sheaves: not counted, in an atomic context\n");
		return;
	}
	if (!mutex_trylock(&slab_mutex)) {
		pr_notice("Slab memory free in sheaves: not counted, slab_mutex is taken\n");
		return;
	}

	list_for_each_entry(s, &slab_caches, list) {
		struct in_sheaves in = {
			.s = s,
			.objects = kmem_cache_cached_objects(s),
		};

		if (!in.objects)
			continue;
		all += bytes_in_sheaves(&in);
		if (!(s->flags & SLAB_RECLAIM_ACCOUNT))
			unreclaimable += bytes_in_sheaves(&in);
		insert(largest, &in);
	}

	pr_notice("Slab memory free in sheaves: %lukB, %lukB of it unreclaimable\n",
		  all / 1024, unreclaimable / 1024);
	for (i = 0; i < NR_LARGEST && largest[i].s; i++)
		pr_notice("%10lukB %8lu objects of %s\n",
			  bytes_in_sheaves(&largest[i]) / 1024,
			  largest[i].objects, largest[i].s->name);
	mutex_unlock(&slab_mutex);
}
