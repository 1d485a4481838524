// SPDX-License-Identifier: GPL-2.0
/*
 * Sheaves: per CPU arrays of free objects in front of the slabs
 *
 * Most objects are freed soon after they were allocated, many of them by the
 * CPU that allocated them, and it would be a waste to visit their slab both
 * times. So each CPU has, for each cache, two arrays of pointers to free objects
 * that no other CPU touches. They are called sheaves, "main" and "spare". To
 * allocate is to take the last pointer out of main, to free is to store one
 * there: no atomic operation, no cache line that another CPU wants, and the
 * object that was freed last, and is still in the processor's caches, is the
 * first to be allocated again. mm/slab_sheaf.h has these two hot paths. What is
 * here deals with a main that is empty or full, and with everything that happens
 * rarely.
 *
 * Three tiers. A sheaf that cannot serve is exchanged as a whole for another
 * one at the barn of the CPU's node (mm/slab_barn.c). Only what the barns cannot
 * even out reaches the slabs, and again in dozens of objects at a time: by
 * slab_refill() "give me up to so many objects", and by slab_flush() "take these
 * back" (mm/slub.c). Hooks (memcg, KASAN, initialisation ...) run above the
 * tiers, once for each object that a user gets or returns. A sheaf holds objects
 * as the free hooks leave them.
 *
 * Allocation. If main is empty, and spare is not, they trade places. If both
 * are empty, the barn gives a full sheaf for an empty one. If it has none, an
 * empty sheaf is refilled from slabs: this is the one step that may take long
 * or even sleep, so it happens without the lock, with a sheaf that nobody else
 * sees. The object that is asked for is taken out of it at once, so it does not
 * matter on which CPU, and next to which sheaves, the task finds itself
 * afterwards: whatever install_sheaf() does with the rest is right.
 *
 * The refill happens with whatever gfp flags the caller has, blocking allowed
 * or not: mempool_alloc() for one tries without first. But it never touches the
 * memory reserves. If there is nothing else left, the caller gets a single
 * object from the slab tier, and the sheaves stay clean.
 *
 * Free. The mirror: if main is full, and spare is not, they trade places. If
 * both are full, the barn gives an empty sheaf for a full one. If the barn has
 * no empty one, one is allocated. If the barn has full ones enough, a full sheaf
 * is flushed to the slabs.
 *
 * The lock. pcs->lock is a local_trylock_t. It keeps preemption off, and only
 * marks the sheaves as being in use: interrupts stay enabled. An interrupt that
 * finds the mark must not wait for what it has interrupted. It gets its object
 * from the slab tier, and frees there too. Where nobody can have been
 * interrupted, in a task, plain local_lock() is fine, and is what flushing uses:
 * a trylock that may fail is no flush. On PREEMPT_RT the lock is a per CPU
 * spinlock_t, and its holder may be preempted; all the same holds.
 *
 * NUMA. The barn is the one of numa_node_id(), and every online node has one,
 * whether it has memory or not: CPUs that are neighbours exchange sheaves, no
 * matter where the objects come from. Main and spare accept local objects only
 * (sheaf_accepts()), and all objects where there cannot be local ones. An
 * allocation that names a node may have the object on top if that happens to
 * lie there.
 *
 * Remote objects are collected in a third sheaf, "remote", from which nothing is
 * allocated. When it is full it goes to the barn of the node that the objects
 * lie on, where they are allocated from next. With more than two nodes it may
 * hold objects of several. It stays then, with those of the node that the last
 * one is from, and the others are flushed, until it is full of one kind.
 *
 * Full sheaves travel between a memoryless node and the one that its memory
 * comes from, rather than being flushed here and refilled there: a sheaf that
 * the local barn does not accept is offered to the barn of the node that its
 * objects lie on, and a CPU without memory of its own that finds the local barn
 * empty looks into the barn of the node that it would refill from.
 *
 * Who has no sheaves. s->sheaf_capacity is zero for the caches from which all
 * others are made (kmem_cache, kmem_cache_node), for caches with debugging,
 * whose checks are made in the slab tier, for all that is created before
 * kmalloc() works (until it does), and for all caches if the user says so. Their
 * main is slab_no_sheaf for ever, an array without any room. Being empty it
 * refuses to serve allocations, being full it refuses frees: the hot paths need
 * no test of their own for such caches. It is also what main is on a CPU that
 * has not used the cache yet, since sheaves are only allocated when they are
 * first needed.
 *
 * Memory for sheaves comes from kmalloc_nosheaf(), which passes by the sheaves,
 * so that a kmalloc cache may have sheaves that lie in itself.
 *
 * Lock order: slab_mutex, sheaf_works_mutex, pcs->lock, barn->lock. Neither memory
 * is allocated nor are slabs touched under the latter two; but see mm/slab_rcu.c for
 * debugobjects.
 */

#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/sizes.h>
#include <linux/workqueue.h>
#include <kunit/visibility.h>

#include "internal.h"
#include "slab_sheaf.h"

/*
 * Of how many full and how many empty sheaves a barn accepts at least. A barn
 * for many CPUs accepts one for each CPU.
 */
#define BARN_MIN_SHEAVES	10

/* What the largest piece of memory that can be allocated has room for. */
#define SHEAF_MAX_CAPACITY						\
	((unsigned int)((KMALLOC_MAX_SIZE -				\
			 sizeof(struct slab_sheaf)) / sizeof(void *)))

/*
 * Stands for a sheaf that is not there. It is empty, and it is full, and nobody
 * can write to it.
 */
static const struct slab_sheaf slab_no_sheaf_storage;
#define slab_no_sheaf	((struct slab_sheaf *)&slab_no_sheaf_storage)

static int boot_capacity __ro_after_init = -1;

static int __init setup_sheaf_capacity(char *str)
{
	unsigned int capacity;

	if (kstrtouint(str, 0, &capacity) || capacity > SHEAF_MAX_CAPACITY) {
		pr_err("slab_sheaf_capacity=%s: not a number from 0 to %u, ignored\n",
		       str, SHEAF_MAX_CAPACITY);
		return 1;
	}
	boot_capacity = capacity;
	return 1;
}
__setup("slab_sheaf_capacity=", setup_sheaf_capacity);

/* NULL if the cache has no sheaves, or if memory was short. */
static struct node_barn *get_barn(struct kmem_cache *s)
{
	if (!s->barns)
		return NULL;
	return READ_ONCE(s->barns[numa_node_id()]);
}

/*
 * The barn of the node that the memory for this CPU comes from, if there is none
 * on its own node.
 */
static struct node_barn *get_near_barn(struct kmem_cache *s)
{
	struct zoneref *z;

	if (likely(node_state(numa_node_id(), N_NORMAL_MEMORY)))
		return NULL;

	z = first_zones_zonelist(node_zonelist(numa_node_id(), GFP_KERNEL),
				 gfp_zone(GFP_KERNEL), NULL);
	return z->zone ? READ_ONCE(s->barns[zone_to_nid(z->zone)]) : NULL;
}

/*
 * The barn of another node; none, if nobody would look into it, as the node has
 * no CPUs, and is not the one that memory for this CPU, and those like it, comes
 * from.
 */
static struct node_barn *get_barn_of(struct kmem_cache *s, int node)
{
	if (unlikely(!node_state(node, N_CPU)) &&
	    node_state(numa_node_id(), N_NORMAL_MEMORY))
		return NULL;
	return READ_ONCE(s->barns[node]);
}

/* The barn of the node that a full sheaf is from, if that is another one. */
static struct node_barn *get_home_barn(struct kmem_cache *s,
				       const struct slab_sheaf *full)
{
	int node = page_to_nid(virt_to_page(full->objects[0]));

	return node == numa_node_id() ? NULL : get_barn_of(s, node);
}

static struct slab_sheaf *alloc_sheaf(struct kmem_cache *s, gfp_t gfp)
{
	struct slab_sheaf *sheaf;

	sheaf = kmalloc_nosheaf(struct_size(sheaf, objects, s->sheaf_capacity),
				gfp);
	if (!sheaf)
		return NULL;

	sheaf->cache = s;
	sheaf->size = 0;
	sheaf->capacity = s->sheaf_capacity;
	stat(s, SHEAF_ALLOC);
	return sheaf;
}

/*
 * Never sleeps and never wakes up a reclaimer that the caller would not wake up
 * itself. The caller has another way if there is no memory.
 */
static struct slab_sheaf *alloc_empty_sheaf(struct kmem_cache *s, gfp_t gfp)
{
	if (!s->sheaf_capacity)
		return NULL;

	gfp &= __GFP_KSWAPD_RECLAIM;
	return alloc_sheaf(s, gfp | __GFP_NOMEMALLOC | __GFP_NOWARN);
}

static void free_empty_sheaf(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	VM_WARN_ON_ONCE(sheaf->size);
	kfree_nosheaf(sheaf);
	stat(s, SHEAF_FREE);
}

/* Whoever can get by without one takes this, if locks of any kind may be held. */
struct slab_sheaf *find_empty_sheaf(struct kmem_cache *s)
{
	struct node_barn *barn = get_barn(s);

	return barn ? barn_get_empty(barn) : NULL;
}

struct slab_sheaf *get_empty_sheaf(struct kmem_cache *s, gfp_t gfp)
{
	return find_empty_sheaf(s) ?: alloc_empty_sheaf(s, gfp);
}

void put_empty_sheaf(struct kmem_cache *s, struct slab_sheaf *empty)
{
	struct node_barn *barn = get_barn(s);

	if (!barn || !barn_put_empty(barn, empty))
		free_empty_sheaf(s, empty);
}

void flush_sheaf(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	if (!sheaf->size)
		return;
	slab_flush(s, sheaf->objects, sheaf->size);
	stat_add(s, SHEAF_FLUSH, sheaf->size);
	sheaf->size = 0;
}

static bool put_full_sheaf(struct kmem_cache *s, struct slab_sheaf *full)
{
	struct node_barn *barn = get_barn(s);

	if (!barn)
		return false;
	if (barn_put_full(barn, full))
		return true;

	barn = get_home_barn(s, full);
	return barn && barn_put_full(barn, full);
}

/* Get rid of a sheaf, whatever is in it. Returns whether no object was flushed. */
bool put_sheaf(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	bool kept = !sheaf->size;

	if (sheaf->size == sheaf->capacity) {
		if (put_full_sheaf(s, sheaf)) {
			stat(s, BARN_PUT);
			return true;
		}
		stat(s, BARN_PUT_FAIL);
	}
	flush_sheaf(s, sheaf);
	put_empty_sheaf(s, sheaf);
	return kept;
}

/*
 * Give a sheaf with objects, and with room for more, to whatever CPU this is
 * now. Mostly its main is just as empty, or full, as it was when the caller
 * went for the sheaf, and there is no spare. But the task may have moved, or
 * interrupts may have used the sheaves, and then any sheaf may be too many.
 * Returns whether no object was flushed.
 */
static bool install_sheaf(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	struct slub_percpu_sheaves *pcs;
	struct slab_sheaf *rest = NULL;

	if (!local_trylock(&s->cpu_sheaves->lock))
		return put_sheaf(s, sheaf);

	pcs = this_cpu_ptr(s->cpu_sheaves);
	if (pcs->main == slab_no_sheaf) {
		pcs->main = sheaf;
	} else if (!pcs->spare) {
		pcs->spare = pcs->main;
		pcs->main = sheaf;
	} else if (!pcs->spare->size) {
		rest = pcs->spare;
		pcs->spare = sheaf;
	} else if (!pcs->main->size || pcs->main->size == pcs->main->capacity) {
		rest = pcs->main;
		pcs->main = sheaf;
	} else {
		rest = sheaf;
	}
	local_unlock(&s->cpu_sheaves->lock);

	return !rest || put_sheaf(s, rest);
}

/* A full sheaf, if there is one; in exchange for an empty one, if @trade. */
static struct slab_sheaf *full_for_empty(struct node_barn *barn, bool trade,
					 struct slab_sheaf **empty)
{
	return trade ? barn_swap_empty(barn, empty) : barn_get_full(barn);
}

/*
 * Make main one that has objects, by means of spare and the barn alone. If that
 * leaves an empty sheaf that nobody wants, *@rest is set to it.
 */
static bool replace_empty_main(struct kmem_cache *s,
			       struct slub_percpu_sheaves *pcs,
			       struct slab_sheaf **rest)
{
	struct slab_sheaf *empty = pcs->main;
	bool trade = pcs->spare;
	struct slab_sheaf *full;
	struct node_barn *barn;

	lockdep_assert_held(this_cpu_ptr(&s->cpu_sheaves->lock));

	if (pcs->spare && pcs->spare->size) {
		swap(pcs->main, pcs->spare);
		return true;
	}

	barn = get_barn(s);
	if (!barn)
		return false;

	full = full_for_empty(barn, trade, &empty);
	if (!full) {
		barn = get_near_barn(s);
		if (barn)
			full = full_for_empty(barn, trade, &empty);
	}
	if (!full) {
		stat(s, BARN_GET_FAIL);
		return false;
	}

	if (trade)
		*rest = empty;
	else if (empty != slab_no_sheaf)
		pcs->spare = empty;
	stat(s, BARN_GET);
	pcs->main = full;
	return true;
}

/* Make main one that has room, by means of spare and the barn alone. */
static bool replace_full_main(struct kmem_cache *s,
			      struct slub_percpu_sheaves *pcs)
{
	struct slab_sheaf *full = pcs->main;
	struct slab_sheaf *empty;
	struct node_barn *barn;

	lockdep_assert_held(this_cpu_ptr(&s->cpu_sheaves->lock));

	if (pcs->spare && pcs->spare->size < pcs->spare->capacity) {
		swap(pcs->main, pcs->spare);
		return true;
	}

	barn = get_barn(s);
	if (!barn)
		return false;

	if (pcs->spare) {
		empty = barn_swap_full(barn, full);
		if (!empty) {
			barn = get_home_barn(s, full);
			empty = barn ? barn_swap_full(barn, full) : NULL;
		}
		if (!empty)
			return false;
		stat(s, BARN_PUT);
	} else {
		empty = barn_get_empty(barn);
		if (!empty)
			return false;
		if (full != slab_no_sheaf)
			pcs->spare = full;
	}
	pcs->main = empty;
	return true;
}

/* All sheaves are empty: refill one, and take the object out of it. */
static void *alloc_by_refill(struct kmem_cache *s, struct slab_sheaf *sheaf,
			     gfp_t gfp, int node)
{
	void *object;

	if (!sheaf)
		sheaf = get_empty_sheaf(s, gfp);
	if (!sheaf)
		return NULL;

	sheaf->size = slab_refill(s, sheaf->objects, 1, sheaf->capacity, gfp,
				  node);
	if (!sheaf->size) {
		put_empty_sheaf(s, sheaf);
		return NULL;
	}
	stat_add(s, SHEAF_REFILL, sheaf->size);

	object = sheaf->objects[--sheaf->size];
	if (sheaf->size)
		install_sheaf(s, sheaf);
	else
		put_empty_sheaf(s, sheaf);

	stat(s, ALLOC_FASTPATH);
	return object;
}

static bool object_on_node(const void *object, int node)
{
	return node == NUMA_NO_NODE || page_to_nid(virt_to_page(object)) == node;
}

/**
 * __sheaf_alloc - allocate an object when that is not trivial
 * @s: The cache.
 * @gfp: What may be done to get objects.
 * @node: The node that the object should lie on, or NUMA_NO_NODE.
 *
 * A request for another node is served if main happens to have what it wants
 * on top, but does not make this CPU fill its sheaves with remote objects.
 *
 * Context: As sheaf_alloc(), with the sheaf lock held. Releases it.
 * Return: As sheaf_alloc().
 */
void *__sheaf_alloc(struct kmem_cache *s, gfp_t gfp, int node)
{
	struct slub_percpu_sheaves *pcs = this_cpu_ptr(s->cpu_sheaves);
	struct slab_sheaf *rest = NULL;
	struct slab_sheaf *empty;
	void *object = NULL;

	if (unlikely(!s->sheaf_capacity)) {
		local_unlock(&s->cpu_sheaves->lock);
		return NULL;
	}

	/* A node without memory is no constraint, but a hint at best. */
	if (node != NUMA_NO_NODE && !node_state(node, N_NORMAL_MEMORY))
		node = NUMA_NO_NODE;

	if (pcs->main->size || replace_empty_main(s, pcs, &rest)) {
		struct slab_sheaf *main = pcs->main;

		if (object_on_node(main->objects[main->size - 1], node)) {
			object = main->objects[--main->size];
			stat(s, ALLOC_FASTPATH);
		} else {
			stat(s, ALLOC_NODE_MISMATCH);
		}
		local_unlock(&s->cpu_sheaves->lock);
		if (unlikely(rest))
			free_empty_sheaf(s, rest);
		return object;
	}

	if (node != NUMA_NO_NODE && node != numa_node_id()) {
		local_unlock(&s->cpu_sheaves->lock);
		return NULL;
	}

	/* If there is a spare, it is empty as well, and can be refilled. */
	empty = pcs->spare;
	pcs->spare = NULL;
	local_unlock(&s->cpu_sheaves->lock);
	return alloc_by_refill(s, empty, gfp, node);
}

/**
 * __sheaf_free - free an object when main is full
 * @s: The cache.
 * @object: The object.
 *
 * Context: As sheaf_free(), with the sheaf lock held. Releases it.
 * Return: As sheaf_free().
 */
bool __sheaf_free(struct kmem_cache *s, void *object)
{
	struct slub_percpu_sheaves *pcs = this_cpu_ptr(s->cpu_sheaves);
	struct slab_sheaf *sheaf;

	if (unlikely(!s->sheaf_capacity)) {
		local_unlock(&s->cpu_sheaves->lock);
		return false;
	}

	if (likely(replace_full_main(s, pcs))) {
		sheaf_push(pcs->main, object);
		local_unlock(&s->cpu_sheaves->lock);
		stat(s, FREE_FASTPATH);
		return true;
	}
	local_unlock(&s->cpu_sheaves->lock);

	/*
	 * There are places that free memory and would deadlock if kswapd was
	 * woken up: no gfp flag is harmless here.
	 */
	sheaf = get_empty_sheaf(s, 0);
	if (!sheaf)
		return false;

	sheaf_push(sheaf, object);
	install_sheaf(s, sheaf);
	stat(s, FREE_FASTPATH);
	return true;
}

/* As many objects as main, spare and the barn have, up to @nr. */
static unsigned int take_from_sheaves(struct kmem_cache *s, unsigned int nr,
				      void **p)
{
	unsigned int done = 0;

	while (done < nr) {
		struct slub_percpu_sheaves *pcs;
		struct slab_sheaf *rest = NULL;
		unsigned int batch = 0;

		if (!local_trylock(&s->cpu_sheaves->lock))
			break;
		pcs = this_cpu_ptr(s->cpu_sheaves);
		if (pcs->main->size || replace_empty_main(s, pcs, &rest)) {
			batch = min(nr - done, pcs->main->size);
			pcs->main->size -= batch;
			memcpy(p + done, pcs->main->objects + pcs->main->size,
			       batch * sizeof(*p));
		}
		local_unlock(&s->cpu_sheaves->lock);

		if (unlikely(rest))
			free_empty_sheaf(s, rest);
		if (!batch)
			break;
		done += batch;
	}
	return done;
}

/**
 * sheaf_report_double_free - complain about an object that is free already
 * @sheaf: The sheaf that it is in.
 * @object: The object. Nothing is done with it, so no harm is done.
 *
 * Context: Any, with the sheaf lock held.
 */
void sheaf_report_double_free(struct slab_sheaf *sheaf, void *object)
{
	if (slab_in_kunit_test())
		return;
	WARN(1, "%s: object %p is freed twice\n", sheaf->cache->name, object);
}

/* As sheaf_push() does, but the size is not stored and loaded for each of them. */
static void push_objects(struct slab_sheaf *sheaf, void **p, unsigned int nr)
{
	void **top = sheaf->objects + sheaf->size;
#ifdef CONFIG_SLAB_FREELIST_HARDENED
	void *last = top[-1];

	for (; nr; nr--, p++) {
		if (unlikely(*p == last)) {
			sheaf_report_double_free(sheaf, *p);
			continue;
		}
		last = *p;
		*top++ = last;
	}
	sheaf->size = top - sheaf->objects;
#else
	memcpy(top, p, nr * sizeof(*p));
	sheaf->size += nr;
#endif
}

/* As many objects, from the start of @p, as there is room for. */
static unsigned int put_into_sheaves(struct kmem_cache *s, unsigned int nr,
				     void **p)
{
	unsigned int done = 0;

	while (done < nr) {
		struct slub_percpu_sheaves *pcs;
		unsigned int batch = 0;

		if (!local_trylock(&s->cpu_sheaves->lock))
			break;
		pcs = this_cpu_ptr(s->cpu_sheaves);
		if (pcs->main->size < pcs->main->capacity ||
		    replace_full_main(s, pcs)) {
			batch = min(nr - done,
				    pcs->main->capacity - pcs->main->size);
			push_objects(pcs->main, p + done, batch);
		}
		local_unlock(&s->cpu_sheaves->lock);

		if (!batch)
			break;
		done += batch;
	}
	return done;
}

/**
 * sheaf_alloc_bulk - allocate objects from sheaves, as far as there are any
 * @s: The cache.
 * @nr: How many to allocate.
 * @p: Where to store them.
 *
 * Does not refill.
 *
 * Context: As sheaf_alloc().
 * Return: How many objects there are in @p now.
 */
unsigned int sheaf_alloc_bulk(struct kmem_cache *s, unsigned int nr, void **p)
{
	unsigned int done = take_from_sheaves(s, nr, p);

	stat_add(s, ALLOC_FASTPATH, done);
	return done;
}

/**
 * sheaf_free_bulk - free objects to sheaves, as far as there is room
 * @s: The cache.
 * @nr: How many to free.
 * @p: The objects. sheaf_accepts() all of them, and the free hooks have run.
 *
 * Does not allocate sheaves, and does not flush.
 *
 * Context: As sheaf_free().
 * Return: How many objects were freed, from the start of @p.
 */
unsigned int sheaf_free_bulk(struct kmem_cache *s, unsigned int nr, void **p)
{
	unsigned int done = put_into_sheaves(s, nr, p);

	stat_add(s, FREE_FASTPATH, done);
	return done;
}

/*
 * Remote objects
 */

/* Move the objects of a node to the front. Returns how many there are. */
static unsigned int sort_by_node(struct slab_sheaf *sheaf, int node)
{
	void **objects = sheaf->objects;
	unsigned int i, nr = 0;

	for (i = 0; i < sheaf->size; i++) {
		if (!object_on_node(objects[i], node))
			continue;
		swap(objects[nr], objects[i]);
		nr++;
	}
	return nr;
}

/*
 * Give a full sheaf to the node that its objects are from. Returns a sheaf with
 * room for more, if there is one at hand.
 */
struct slab_sheaf *send_home(struct kmem_cache *s, struct slab_sheaf *full)
{
	int node = page_to_nid(virt_to_page(full->objects[full->size - 1]));
	struct node_barn *barn = get_barn_of(s, node);
	unsigned int nr = sort_by_node(full, node);
	struct slab_sheaf *empty;

	if (nr < full->size) {
		slab_flush(s, full->objects + nr, full->size - nr);
		stat_add(s, SHEAF_FLUSH, full->size - nr);
		full->size = nr;
		return full;
	}

	if (barn) {
		empty = barn_swap_full(barn, full);
		if (empty || barn_put_full(barn, full)) {
			stat(s, BARN_PUT);
			return empty;
		}
	}
	stat(s, BARN_PUT_FAIL);
	flush_sheaf(s, full);
	return full;
}

static void install_remote(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	struct slub_percpu_sheaves *pcs;

	if (local_trylock(&s->cpu_sheaves->lock)) {
		pcs = this_cpu_ptr(s->cpu_sheaves);
		if (!pcs->remote) {
			pcs->remote = sheaf;
			sheaf = NULL;
		}
		local_unlock(&s->cpu_sheaves->lock);
	}

	/* Mostly empty: it was away for a moment only. */
	if (unlikely(sheaf)) {
		flush_sheaf(s, sheaf);
		put_empty_sheaf(s, sheaf);
	}
}

/**
 * sheaf_free_remote - collect an object of another node
 * @s: The cache.
 * @object: An object that sheaf_is_remote(), and that the free hooks have seen.
 *
 * Whoever is moved to another CPU, and brings a local object, does no harm.
 *
 * Context: As sheaf_free().
 * Return: As sheaf_free().
 */
bool sheaf_free_remote(struct kmem_cache *s, void *object)
{
	struct slub_percpu_sheaves *pcs;
	struct slab_sheaf *sheaf;

	if (!s->sheaf_capacity || !local_trylock(&s->cpu_sheaves->lock))
		return false;

	pcs = this_cpu_ptr(s->cpu_sheaves);
	sheaf = pcs->remote;
	if (likely(sheaf && sheaf->size + 1 < sheaf->capacity)) {
		sheaf_push(sheaf, object);
		local_unlock(&s->cpu_sheaves->lock);
		stat(s, FREE_FASTPATH);
		return true;
	}
	pcs->remote = NULL;
	local_unlock(&s->cpu_sheaves->lock);

	/* As in __sheaf_free(), no gfp flag is harmless. */
	if (!sheaf)
		sheaf = get_empty_sheaf(s, 0);
	if (!sheaf)
		return false;

	sheaf_push(sheaf, object);
	if (sheaf->size == sheaf->capacity)
		sheaf = send_home(s, sheaf);
	if (sheaf)
		install_remote(s, sheaf);
	stat(s, FREE_FASTPATH);
	return true;
}

/*
 * Lending sheaves, for mm/slab_prefill.c
 */

/* What somebody who is to get it may do for an empty sheaf, may be done. */
static struct slab_sheaf *get_sheaf_to_lend(struct kmem_cache *s, gfp_t gfp)
{
	struct node_barn *barn = get_barn(s);
	struct slab_sheaf *sheaf = NULL;

	if (barn)
		sheaf = barn_get_full(barn);
	if (sheaf) {
		stat(s, BARN_GET);
		return sheaf;
	}
	return get_empty_sheaf(s, gfp) ?: alloc_sheaf(s, gfp & GFP_RECLAIM_MASK);
}

/**
 * sheaf_lend - let somebody have a sheaf
 * @s: The cache, which has sheaves.
 * @size: How many objects should be in it, up to the capacity.
 * @gfp: What may be done to allocate a sheaf, if there is none.
 *
 * Gives away the spare of the CPU, which is what sheaf_take_back() likes to get
 * back; or else a sheaf of the barn, or a new one. Adds what objects are missing
 * from the other sheaves of the CPU and from the barn. Does not refill.
 *
 * Context: Any, if @gfp suits it. In an interrupt that came while the sheaves
 *	    are in use, there are fewer objects to be had.
 * Return: A sheaf that nobody else knows of, with @size objects or more, or with
 *	   less if there were no more; or NULL if memory was short.
 */
struct slab_sheaf *sheaf_lend(struct kmem_cache *s, unsigned int size,
			      gfp_t gfp)
{
	struct slab_sheaf *sheaf = NULL;

	if (local_trylock(&s->cpu_sheaves->lock)) {
		struct slub_percpu_sheaves *pcs = this_cpu_ptr(s->cpu_sheaves);

		sheaf = pcs->spare;
		pcs->spare = NULL;
		local_unlock(&s->cpu_sheaves->lock);
	}
	if (unlikely(!sheaf))
		sheaf = get_sheaf_to_lend(s, gfp);
	if (likely(sheaf))
		sheaf_top_up(s, sheaf, size);
	return sheaf;
}

/**
 * sheaf_top_up - add objects to a sheaf that is lent
 * @s: The cache.
 * @sheaf: The sheaf.
 * @size: How many objects should be in it, up to the capacity.
 *
 * The objects come from the sheaves of the CPU and from the barn, as far as there
 * are any.
 *
 * Context: As sheaf_lend().
 */
void sheaf_top_up(struct kmem_cache *s, struct slab_sheaf *sheaf,
		  unsigned int size)
{
	if (sheaf->size < size)
		sheaf->size += take_from_sheaves(s, size - sheaf->size,
						 sheaf->objects + sheaf->size);
}

/* Make a sheaf the spare of this CPU, or main, if it has none. */
static bool install_lent_sheaf(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	struct slub_percpu_sheaves *pcs;
	bool installed = true;

	if (!local_trylock(&s->cpu_sheaves->lock))
		return false;

	pcs = this_cpu_ptr(s->cpu_sheaves);
	if (unlikely(pcs->main == slab_no_sheaf))
		pcs->main = sheaf;
	else if (likely(!pcs->spare))
		pcs->spare = sheaf;
	else
		installed = false;
	local_unlock(&s->cpu_sheaves->lock);
	return installed;
}

/* As many objects as there is room for. Returns whether that were all of them. */
static bool pour_out(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	unsigned int done = put_into_sheaves(s, sheaf->size, sheaf->objects);

	sheaf->size -= done;
	memmove(sheaf->objects, sheaf->objects + done,
		sheaf->size * sizeof(sheaf->objects[0]));
	return !sheaf->size;
}

/**
 * sheaf_take_back - take a sheaf back that was lent
 * @s: The cache.
 * @sheaf: The sheaf.
 * @clean: Whether all its objects are such as may be in any sheaf.
 *
 * It becomes the spare, if there is none. Otherwise the barn gets it, if it is
 * full, or else the sheaves of the CPU get its objects, as far as there is room.
 *
 * Context: Any, with the same exceptions as for sheaf_alloc().
 * Return: Whether all objects were kept. If not, some were flushed.
 */
bool sheaf_take_back(struct kmem_cache *s, struct slab_sheaf *sheaf, bool clean)
{
	if (unlikely(!clean)) {
		flush_sheaf(s, sheaf);
		put_empty_sheaf(s, sheaf);
		return false;
	}
	if (likely(install_lent_sheaf(s, sheaf)))
		return true;
	if (sheaf->size == sheaf->capacity || pour_out(s, sheaf))
		return put_sheaf(s, sheaf);
	return install_sheaf(s, sheaf);
}

/*
 * Giving back
 */

static void release_sheaf(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	if (!sheaf || sheaf == slab_no_sheaf)
		return;
	flush_sheaf(s, sheaf);
	free_empty_sheaf(s, sheaf);
}

static void flush_barn(struct kmem_cache *s, struct node_barn *barn)
{
	struct slab_sheaf *sheaf, *next;
	LIST_HEAD(sheaves);

	barn_take_all(barn, &sheaves, &sheaves);
	list_for_each_entry_safe(sheaf, next, &sheaves, barn_list)
		release_sheaf(s, sheaf);
}

static bool node_has_online_cpu(int node)
{
	unsigned int cpu;

	for_each_online_cpu(cpu)
		if (cpu_to_node(cpu) == node)
			return true;
	return false;
}

/**
 * sheaves_cpu_dead - empty the sheaves of a CPU that is offline
 * @s: The cache.
 * @cpu: The CPU.
 *
 * Context: Task, with the lock for CPU hotplug held; if not for writing, with
 *	    sheaf_works_mutex. The CPU is dead, so its lock means nothing, and is
 *	    free.
 */
void sheaves_cpu_dead(struct kmem_cache *s, unsigned int cpu)
{
	struct slub_percpu_sheaves *pcs = per_cpu_ptr(s->cpu_sheaves, cpu);
	int node = cpu_to_node(cpu);
	struct node_barn *barn = NULL;

	release_sheaf(s, pcs->main);
	release_sheaf(s, pcs->spare);
	release_sheaf(s, pcs->remote);
	pcs->main = slab_no_sheaf;
	pcs->spare = NULL;
	pcs->remote = NULL;

	/* A barn that no CPU would look into any more is emptied as well. */
	if (s->barns && node != NUMA_NO_NODE)
		barn = READ_ONCE(s->barns[node]);
	if (barn && !node_has_online_cpu(node))
		flush_barn(s, barn);
}

static void flush_this_cpu(struct kmem_cache *s)
{
	struct slub_percpu_sheaves *pcs;
	struct slab_sheaf *main, *spare, *remote;

	local_lock(&s->cpu_sheaves->lock);
	pcs = this_cpu_ptr(s->cpu_sheaves);
	main = pcs->main;
	spare = pcs->spare;
	remote = pcs->remote;
	pcs->main = slab_no_sheaf;
	pcs->spare = NULL;
	pcs->remote = NULL;
	local_unlock(&s->cpu_sheaves->lock);

	release_sheaf(s, main);
	release_sheaf(s, spare);
	release_sheaf(s, remote);
}

static unsigned long count_cpu(struct slub_percpu_sheaves *pcs)
{
	unsigned long nr = pcs->main->size;

	if (pcs->spare)
		nr += pcs->spare->size;
	if (pcs->remote)
		nr += pcs->remote->size;
	return nr;
}

static unsigned long count_this_cpu(struct kmem_cache *s)
{
	unsigned long nr;

	local_lock(&s->cpu_sheaves->lock);
	nr = count_cpu(this_cpu_ptr(s->cpu_sheaves));
	local_unlock(&s->cpu_sheaves->lock);
	return nr;
}

/*
 * Only a CPU itself can look at its sheaves while it is online, so whatever is to
 * be done with those of all CPUs is done by work items. These need a CPU that has
 * its workqueues, which is any that is online, but if somebody stopped it between
 * the two (hotplug/target in sysfs).
 */
struct sheaf_work {
	struct work_struct work;
	struct kmem_cache *s;
	bool queued;
	bool flush;
	unsigned long nr_objects;
};

static DEFINE_PER_CPU(struct sheaf_work, sheaf_works);
static DEFINE_MUTEX(sheaf_works_mutex);
static struct workqueue_struct *sheaf_workqueue;

static void sheaf_work_fn(struct work_struct *work)
{
	struct sheaf_work *w = container_of(work, struct sheaf_work, work);

	if (w->flush)
		flush_this_cpu(w->s);
	else
		w->nr_objects = count_this_cpu(w->s);
}

/* Racy, and good enough: who starts to use the cache now may be overlooked. */
static bool cpu_has_sheaves(struct kmem_cache *s, unsigned int cpu)
{
	struct slub_percpu_sheaves *pcs = per_cpu_ptr(s->cpu_sheaves, cpu);

	return READ_ONCE(pcs->main) != slab_no_sheaf ||
	       READ_ONCE(pcs->spare) || READ_ONCE(pcs->remote);
}

/*
 * A CPU that is offline has sheaves only if it was stopped on its way there, before
 * sheaves_cpu_dead() was called. It stays where it is, for the lock for CPU hotplug
 * is held.
 */
static unsigned long visit_dead_cpu(struct kmem_cache *s, unsigned int cpu,
				    bool flush)
{
	if (!flush)
		return count_cpu(per_cpu_ptr(s->cpu_sheaves, cpu));
	sheaves_cpu_dead(s, cpu);
	return 0;
}

static bool queue_sheaf_work(struct kmem_cache *s, unsigned int cpu, bool flush)
{
	struct sheaf_work *w = &per_cpu(sheaf_works, cpu);

	INIT_WORK(&w->work, sheaf_work_fn);
	w->s = s;
	w->flush = flush;
	w->nr_objects = 0;
	return queue_work_on(cpu, sheaf_workqueue, &w->work);
}

/*
 * Flush the sheaves of all CPUs, or else count the objects in them. The caller
 * holds the lock for CPU hotplug.
 */
static unsigned long visit_cpus(struct kmem_cache *s, bool flush)
{
	unsigned long nr_objects = 0;
	struct sheaf_work *w;
	unsigned int cpu;

	lockdep_assert_cpus_held();

	mutex_lock(&sheaf_works_mutex);
	for_each_possible_cpu(cpu) {
		w = &per_cpu(sheaf_works, cpu);
		w->queued = false;
		if (!cpu_has_sheaves(s, cpu))
			continue;
		if (cpu_online(cpu))
			w->queued = queue_sheaf_work(s, cpu, flush);
		else
			nr_objects += visit_dead_cpu(s, cpu, flush);
	}
	for_each_online_cpu(cpu) {
		w = &per_cpu(sheaf_works, cpu);
		if (!w->queued)
			continue;
		flush_work(&w->work);
		nr_objects += w->nr_objects;
	}
	mutex_unlock(&sheaf_works_mutex);
	return nr_objects;
}

/**
 * sheaves_flush - give all objects in sheaves and barns back to their slabs
 * @s: The cache.
 *
 * If nobody uses the cache meanwhile, no object is in any sheaf afterwards, and
 * the memory of the sheaves is free. Otherwise there is little.
 *
 * Context: Task that may sleep, with the lock for CPU hotplug held.
 */
void sheaves_flush(struct kmem_cache *s)
{
	int node;

	if (!s->sheaf_capacity)
		return;

	visit_cpus(s, true);
	for_each_node(node) {
		struct node_barn *barn = READ_ONCE(s->barns[node]);

		if (barn)
			flush_barn(s, barn);
	}
}

/**
 * kmem_cache_cached_objects - how many objects there are in sheaves and barns
 * @s: The cache.
 *
 * These objects are free, but /proc/slabinfo has them as allocated.
 *
 * Context: Task that may sleep, without the lock for CPU hotplug.
 * Return: The number of objects. Exact if nobody uses the cache.
 */
unsigned long kmem_cache_cached_objects(struct kmem_cache *s)
{
	unsigned long nr;
	int node;

	if (!s->sheaf_capacity)
		return 0;

	cpus_read_lock();
	nr = visit_cpus(s, false);
	cpus_read_unlock();

	for_each_node(node) {
		struct node_barn *barn = READ_ONCE(s->barns[node]);

		if (barn)
			nr += READ_ONCE(barn->nr_full) * s->sheaf_capacity;
	}
	return nr;
}
EXPORT_SYMBOL_IF_KUNIT(kmem_cache_cached_objects);

/*
 * Setting up
 */

static unsigned int barn_limit(int node)
{
	unsigned int nr_cpus = 0;
	unsigned int cpu;

	for_each_present_cpu(cpu)
		nr_cpus += cpu_to_node(cpu) == node;
	return max_t(unsigned int, nr_cpus, BARN_MIN_SHEAVES);
}

/**
 * sheaves_prepare_node - get ready for a node, or for one more CPU of a node
 * @s: The cache.
 * @node: The node, which need not be online yet.
 *
 * Context: Task that may sleep, under slab_mutex unless nobody else knows of
 *	    the cache yet.
 * Return: 0 or -ENOMEM. In the latter case, CPUs of the node use the cache
 *	   without a barn: slowly, but they do.
 */
int sheaves_prepare_node(struct kmem_cache *s, int node)
{
	struct node_barn *barn;
	unsigned int limit;

	if (!s->sheaf_capacity || node == NUMA_NO_NODE)
		return 0;

	limit = barn_limit(node);
	if (s->barns[node]) {
		barn_set_limits(s->barns[node], limit, limit);
		return 0;
	}

	/* Falls back to other nodes if this one has no memory, or not yet. */
	barn = kzalloc_node(sizeof(*barn), GFP_KERNEL, node);
	if (!barn)
		return -ENOMEM;
	barn_init(barn, limit, limit);
	/* Others use it as soon as they see it. */
	smp_store_release(&s->barns[node], barn);
	return 0;
}

/**
 * sheaves_create - prepare a cache to be used without sheaves
 * @s: The cache.
 *
 * Context: Task that may sleep; or early boot.
 * Return: 0 or -ENOMEM.
 */
int sheaves_create(struct kmem_cache *s)
{
	unsigned int cpu;

	BUILD_BUG_ON(PERCPU_DYNAMIC_EARLY_SIZE <
		     NR_KMALLOC_TYPES * KMALLOC_SHIFT_HIGH *
		     (sizeof(struct slub_percpu_sheaves) +
		      IS_ENABLED(CONFIG_SLUB_STATS) * NR_SLUB_STAT_ITEMS *
		      sizeof(unsigned int)));

	/* The lock and main on one cache line. */
	s->cpu_sheaves = __alloc_percpu(sizeof(struct slub_percpu_sheaves),
					2 * sizeof(void *));
	if (!s->cpu_sheaves)
		return -ENOMEM;

	for_each_possible_cpu(cpu) {
		struct slub_percpu_sheaves *pcs;

		pcs = per_cpu_ptr(s->cpu_sheaves, cpu);
		local_trylock_init(&pcs->lock);
		pcs->main = slab_no_sheaf;
	}
	return 0;
}

/*
 * Half of what a CPU used to cache in cpu slabs and cpu partial slabs, which for
 * objects of a page and less was several slabs of several pages; or more if that
 * is asked for; and as much as fits in the memory that a sheaf of this size takes
 * anyway.
 */
static unsigned int default_capacity(struct kmem_cache *s,
				     unsigned int requested)
{
	struct slab_sheaf *sheaf;
	unsigned int capacity;

	if (s->size > SZ_4K)
		capacity = 4;
	else if (s->size > SZ_2K)
		capacity = 12;
	else if (s->size >= 256)
		capacity = 28;
	else
		capacity = 60;

	capacity = clamp_t(unsigned int, requested, capacity,
			   SHEAF_MAX_CAPACITY);
	return (kmalloc_size_roundup(struct_size(sheaf, objects, capacity)) -
		sizeof(*sheaf)) / sizeof(sheaf->objects[0]);
}

/**
 * sheaves_enable - let a cache have sheaves from now on
 * @s: The cache. Left without sheaves if it has debugging enabled, or if the
 *     user wants no sheaves.
 * @capacity: The capacity that whoever creates the cache asks for, or 0.
 *
 * Context: Task that may sleep; or early boot, if kmalloc() works. Nobody else
 *	    uses the cache.
 * Return: 0 or -ENOMEM. Leaves the cache in a state to be destroyed in.
 */
int sheaves_enable(struct kmem_cache *s, unsigned int capacity)
{
	int node;

	if (boot_capacity >= 0)
		capacity = boot_capacity;
	else
		capacity = default_capacity(s, capacity);
	if (!capacity || s->flags & SLAB_DEBUG_FLAGS)
		return 0;

	s->barns = kcalloc(nr_node_ids, sizeof(*s->barns), GFP_KERNEL);
	if (!s->barns)
		return -ENOMEM;
	s->sheaf_capacity = capacity;

	for_each_online_node(node)
		if (sheaves_prepare_node(s, node))
			return -ENOMEM;
	return 0;
}

/**
 * sheaves_destroy - free what sheaves_create() and sheaves_enable() made
 * @s: The cache, after sheaves_flush() and without users; or one whose creation
 *     failed halfway.
 *
 * Context: Task that may sleep.
 */
void sheaves_destroy(struct kmem_cache *s)
{
	int node;

	if (s->barns)
		for_each_node(node)
			kfree(s->barns[node]);
	kfree(s->barns);
	s->barns = NULL;

	free_percpu(s->cpu_sheaves);
	s->cpu_sheaves = NULL;
}

void __init sheaves_init_late(void)
{
	sheaf_workqueue = alloc_workqueue("slab_sheaves", WQ_MEM_RECLAIM, 0);
	WARN_ON(!sheaf_workqueue);
}
