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
 * allocated. Full, it goes to the barn of the node that the objects lie on, when
 * the next one comes, and they are allocated there. With more than two nodes it may
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
 * whose checks are made in the slab tier, for the one of debugobjects, for all that
 * is created before kmalloc() works (until it does), and for all caches if the user
 * says so. Their main is slab_no_sheaf for ever, an array without any room. Being
 * empty it refuses to serve allocations, being full it refuses frees: the hot paths
 * need no test of their own for such caches. It is also what main is on a CPU that
 * has not used the cache yet, since sheaves are only allocated when they are first
 * needed.
 *
 * The spare may be taken away. A CPU that must not be disturbed (cpu_is_isolated())
 * keeps its sheaves to itself, and nobody makes it give them back, except for the
 * spare, which it only looks at when main is empty or full: so it changes hands by
 * xchg(), and anybody may have it. Whoever counts objects looks at the sheaves of
 * other CPUs without any lock. The memory of a sheaf stays a sheaf until a grace
 * period is over (SLAB_TYPESAFE_BY_RCU): the sum may be wrong, but nothing else.
 * mm/slab_sheaf_admin.c has what is done from outside, and to all CPUs.
 *
 * Memory for sheaves comes from kmalloc_nosheaf(), that is, from caches without
 * sheaves, where no user data lies beside them. It goes back without the addresses
 * that were in it.
 *
 * Lock order: slab_mutex, visit_mutex, pcs->lock, limits_lock (mm/slab_sheaf_grow.c),
 * barn->lock; and barrier_mutex (mm/slab_rcu.c), pcs->lock. Neither memory is allocated
 * nor are slabs touched under pcs->lock and what is inside of it.
 */

#include <linux/jiffies.h>
#include <linux/kasan.h>
#include <linux/kernel.h>
#include <linux/kfence.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/prefetch.h>
#include <trace/events/slab_sheaf.h>
#include <kunit/visibility.h>

#include "internal.h"
#include "slab_sheaf.h"

/*
 * Stands for a sheaf that is not there. It is empty, and it is full, and nobody
 * can write to it.
 */
const struct slab_sheaf slab_no_sheaf_storage;
EXPORT_SYMBOL_IF_KUNIT(slab_no_sheaf_storage);

/* It is not counted further: who gives for long may begin to take. */
#define SHEAF_GIVEN_MAX	64u
/* So many objects are sent for at a time. */
#define SHEAF_SEND_FOR	64u

/**
 * sheaf_near_node - the node that memory for a node comes from
 * @node: The node.
 *
 * Context: Any.
 * Return: @node itself, if it has memory; NUMA_NO_NODE, if no node has.
 */
int sheaf_near_node(int node)
{
	struct zoneref *z;

	z = first_zones_zonelist(node_zonelist(node, GFP_KERNEL),
				 gfp_zone(GFP_KERNEL), NULL);
	return z->zone ? zone_to_nid(z->zone) : NUMA_NO_NODE;
}

/* NULL if the cache has no sheaves, or if memory was short. */
static struct node_barn *barn_at(struct kmem_cache *s, int node)
{
	struct node_barn **barns = READ_ONCE(s->barns);

	return barns ? READ_ONCE(barns[node]) : NULL;
}

static struct node_barn *get_barn(struct kmem_cache *s)
{
	return barn_at(s, numa_node_id());
}

/*
 * The barn of the node that the memory for this CPU comes from, if there is none
 * on its own node.
 */
static struct node_barn *get_near_barn(struct kmem_cache *s)
{
	int node;

	if (likely(node_state(numa_node_id(), N_NORMAL_MEMORY)))
		return NULL;

	node = sheaf_near_node(numa_node_id());
	return node == NUMA_NO_NODE ? NULL : barn_at(s, node);
}

/*
 * The barn of another node; none, if nobody would look into it, as the node has
 * no CPUs, and is not the one that memory for this CPU, and those like it, comes
 * from.
 */
static struct node_barn *get_barn_of(struct kmem_cache *s, int node)
{
	if (unlikely(!node_state(node, N_CPU)) &&
	    sheaf_near_node(numa_node_id()) != node)
		return NULL;
	return barn_at(s, node);
}

/* Decoded, what somebody has written to a slot is no address. */
static bool object_is_address(const void *object)
{
	return !IS_ENABLED(CONFIG_SLAB_SHEAF_HARDENED) ||
	       points_to_memory(object);
}

static int node_of_address(const void *object)
{
	/* As in slab_nid(), other bits of the word change. */
	return data_race(page_to_nid(virt_to_page(object)));
}

static int node_of_object(const void *object)
{
	return object_is_address(object) ? node_of_address(object) : numa_node_id();
}

static int node_of_sheaf(struct kmem_cache *s, struct slab_sheaf *full)
{
	return node_of_object(sheaf_object(s, full, 0));
}

/* The barn of the node that a full sheaf is from, if that is another one. */
static struct node_barn *get_home_barn(struct kmem_cache *s,
				       struct slab_sheaf *full)
{
	int node = node_of_sheaf(s, full);

	return node == numa_node_id() ? NULL : get_barn_of(s, node);
}

static struct slab_sheaf *alloc_sheaf(struct kmem_cache *s,
				      unsigned int capacity, gfp_t gfp)
{
	struct slab_sheaf *sheaf;

	sheaf = kmalloc_nosheaf(struct_size(sheaf, objects, capacity), gfp);
	if (!sheaf)
		return NULL;

	sheaf->cache = s;
	sheaf->size = 0;
	sheaf->capacity = capacity;
	sheaf_check_new(sheaf);
	stat(s, SHEAF_ALLOC);
	return sheaf;
}

/*
 * Never sleeps and never wakes up a reclaimer that the caller would not wake up
 * itself. The caller has another way if there is no memory.
 */
static struct slab_sheaf *alloc_empty_sheaf(struct kmem_cache *s,
					    unsigned int capacity, gfp_t gfp)
{
	if (!capacity)
		return NULL;

	gfp &= __GFP_KSWAPD_RECLAIM;
	return alloc_sheaf(s, capacity, gfp | __GFP_NOMEMALLOC | __GFP_NOWARN);
}

/**
 * free_empty_sheaf - give the memory of a sheaf back
 * @s: The cache.
 * @sheaf: The sheaf, which is empty, and nobody else knows of.
 *
 * Context: Any in which kfree() may be called.
 */
void free_empty_sheaf(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	VM_WARN_ON_ONCE(sheaf->size);
	sheaf_check_freed(s, sheaf);
	kfree_nosheaf(sheaf);
	stat(s, SHEAF_FREE);
}

/**
 * sheaf_is_unsound - complain about a sheaf that somebody has written to
 * @s: The cache.
 * @locked: Whether the sheaf lock is held.
 *
 * Context: Any.
 */
void sheaf_is_unsound(struct kmem_cache *s, bool locked)
{
	/* Who is stopped leaves nothing locked behind. */
	if (IS_ENABLED(CONFIG_BUG_ON_DATA_CORRUPTION) && locked &&
	    !slab_in_kunit_test())
		local_unlock(&s->cpu_sheaves->lock);
	slab_report_corruption(s, "a sheaf that cannot be one");
}

/* A sheaf, or NULL. One that somebody has written to who should not is left alone. */
static struct slab_sheaf *sound(struct kmem_cache *s, struct slab_sheaf *sheaf,
				bool locked)
{
	if (!sheaf || sheaf_is_sound(s, sheaf))
		return sheaf;
	sheaf_is_unsound(s, locked);
	return NULL;
}

/* The same, of one that should be empty, or should not. */
static struct slab_sheaf *sound_if(struct kmem_cache *s, struct slab_sheaf *sheaf,
				   bool empty, bool locked)
{
	sheaf = sound(s, sheaf, locked);
	if (!IS_ENABLED(CONFIG_SLAB_FREELIST_HARDENED) || !sheaf ||
	    likely(empty == !sheaf->size))
		return sheaf;
	sheaf_is_unsound(s, locked);
	return NULL;
}

static struct slab_sheaf *sound_empty(struct kmem_cache *s,
				      struct slab_sheaf *sheaf, bool locked)
{
	return sound_if(s, sheaf, true, locked);
}

/* One that has no room. What was wiped has none, nor an object. */
static struct slab_sheaf *sound_full(struct kmem_cache *s,
				     struct slab_sheaf *sheaf, bool locked)
{
	return sound_if(s, sheaf, false, locked);
}

/*
 * The spare of a CPU. Whoever holds the lock may give the CPU one, if it has none;
 * anybody may take it away (mm/slab_sheaf_admin.c). Whoever wants to know what is
 * in it takes it first.
 */
static struct slab_sheaf *take_any_spare(struct slub_percpu_sheaves *pcs)
{
	struct slab_sheaf *spare;

	spare = READ_ONCE(pcs->spare) ? xchg(&pcs->spare, NULL) : NULL;
	if (spare)
		sheaf_check_taken(spare);
	return spare;
}

/* The same, if it is to be used. */
static struct slab_sheaf *take_spare(struct kmem_cache *s,
				     struct slub_percpu_sheaves *pcs)
{
	return sound(s, take_any_spare(pcs), true);
}

static void give_spare(struct slub_percpu_sheaves *pcs,
		       struct slab_sheaf *sheaf)
{
	lockdep_assert_held(&pcs->lock);
	if (!sheaf)
		return;
	sheaf_check_spare(pcs, sheaf);
	if (IS_ENABLED(CONFIG_PARISC) || IS_ENABLED(CONFIG_SPARC32)) {
		/* There xchg() takes a lock, and who holds it would not see a store. */
		xchg(&pcs->spare, sheaf);
	} else {
		/* What is in it is there before who takes it away can see it. */
		smp_store_release(&pcs->spare, sheaf);
	}
}

static void set_main(struct slub_percpu_sheaves *pcs, struct slab_sheaf *sheaf)
{
	lockdep_assert_held(&pcs->lock);
	if (sheaf != pcs->main)
		sheaf_check_used(pcs, sheaf);
	/* As in give_spare(), for who counts. */
	smp_store_release(&pcs->main, sheaf);
}

/* If main must not be used, the spare takes its place, if there is one. */
static bool check_main(struct kmem_cache *s, struct slub_percpu_sheaves *pcs)
{
	if (!IS_ENABLED(CONFIG_SLAB_FREELIST_HARDENED) ||
	    likely(pcs->main == slab_no_sheaf || sheaf_is_sound(s, pcs->main)))
		return true;
	set_main(pcs, take_spare(s, pcs) ?: slab_no_sheaf);
	sheaf_is_unsound(s, true);
	return false;
}

/* Nothing else of an empty main is used now, and it is looked at before it is. */
static void check_empty_main(struct kmem_cache *s,
			     struct slub_percpu_sheaves *pcs)
{
	if (IS_ENABLED(CONFIG_SLAB_FREELIST_HARDENED) &&
	    unlikely(pcs->main->size))
		check_main(s, pcs);
}

/* Whether an object that is freed is the one by which main became full. */
static bool full_main_ends_with(struct kmem_cache *s,
				struct slub_percpu_sheaves *pcs,
				const void *object)
{
	struct slab_sheaf *main = pcs->main;

	if (!IS_ENABLED(CONFIG_SLAB_FREELIST_HARDENED))
		return false;
	if (unlikely(main->size != main->capacity || !sheaf_is_sound(s, main)))
		check_main(s, pcs);
	return sheaf_ends_with(s, pcs->main, object);
}

/*
 * What barns give and take, for who listens. A barn cannot say so itself: it has locks
 * around it, and does not know its cache. Inline, so that nobody pays for more than a nop.
 */

static __always_inline struct slab_sheaf *
get_full(struct kmem_cache *s, struct node_barn *barn)
{
	struct slab_sheaf *full = barn_get_full(barn);

	if (full) {
		sheaf_check_got(s, full, true);
		trace_slab_barn_get(s, barn, false);
	}
	return full;
}

static __always_inline struct slab_sheaf *
get_empty(struct kmem_cache *s, struct node_barn *barn)
{
	struct slab_sheaf *empty = barn_get_empty(barn);

	if (empty) {
		sheaf_check_got(s, empty, false);
		trace_slab_barn_get_empty(s, barn);
	}
	return empty;
}

static __always_inline bool put_full(struct kmem_cache *s,
				     struct node_barn *barn,
				     struct slab_sheaf *full)
{
	sheaf_check_full(s, full);
	if (!barn_put_full(barn, full)) {
		sheaf_check_refused(full);
		return false;
	}
	trace_slab_barn_put(s, barn, false);
	return true;
}

static __always_inline bool put_empty(struct kmem_cache *s,
				      struct node_barn *barn,
				      struct slab_sheaf *empty)
{
	sheaf_check_empty(s, empty);
	if (!barn_put_empty(barn, empty)) {
		sheaf_check_refused(empty);
		return false;
	}
	trace_slab_barn_put_empty(s, barn);
	return true;
}

/* A full sheaf for *@empty, which is NULL then, unless the barn has enough of these. */
static __always_inline struct slab_sheaf *
swap_empty(struct kmem_cache *s, struct node_barn *barn, struct slab_sheaf **empty)
{
	struct slab_sheaf *full;

	sheaf_check_empty(s, *empty);
	full = barn_swap_empty(barn, empty);
	if (IS_ENABLED(CONFIG_DEBUG_SLAB_SHEAVES) && *empty)
		sheaf_check_refused(*empty);
	if (full) {
		sheaf_check_got(s, full, true);
		trace_slab_barn_get(s, barn, !*empty);
	}
	return full;
}

static __always_inline struct slab_sheaf *
swap_full(struct kmem_cache *s, struct node_barn *barn, struct slab_sheaf *full)
{
	struct slab_sheaf *empty;

	sheaf_check_full(s, full);
	empty = barn_swap_full(barn, full);
	if (!empty) {
		sheaf_check_refused(full);
		return NULL;
	}
	sheaf_check_got(s, empty, false);
	trace_slab_barn_put(s, barn, true);
	return empty;
}

/**
 * find_empty_sheaf - an empty sheaf from the barn of this CPU
 * @s: The cache.
 *
 * For who can get by without one, if locks of any kind may be held.
 *
 * Context: Any in which kfree() may be called, without the sheaf lock.
 * Return: The sheaf, which is the caller's; NULL if there is none.
 */
struct slab_sheaf *find_empty_sheaf(struct kmem_cache *s)
{
	struct node_barn *barn = get_barn(s);

	return barn ? sound_empty(s, get_empty(s, barn), false) : NULL;
}

/**
 * get_empty_sheaf - an empty sheaf from the barn of this CPU, or a new one
 * @s: The cache.
 * @gfp: How to allocate it; may at most wake up kswapd, and never waits.
 *
 * Context: Any in which kmalloc() may be called with @gfp, without the sheaf lock.
 * Return: The sheaf, which is the caller's; NULL if there is none, and no memory for one
 *	   either, or if there are to be no sheaves.
 */
struct slab_sheaf *get_empty_sheaf(struct kmem_cache *s, gfp_t gfp)
{
	return find_empty_sheaf(s) ?:
	       alloc_empty_sheaf(s, sheaf_capacity(s), gfp);
}

/**
 * put_empty_sheaf - give an empty sheaf to the barn of this CPU
 * @s: The cache.
 * @empty: The sheaf. It is not the caller's any more.
 *
 * Sheaves of another size than those of the cache are now, because it has changed, or
 * of a CPU that has only begun to use the cache, go no further when they are empty:
 * they are freed, as is one for which the barn has no room.
 *
 * Context: Any in which kfree() may be called, without the sheaf lock.
 */
void put_empty_sheaf(struct kmem_cache *s, struct slab_sheaf *empty)
{
	struct node_barn *barn = get_barn(s);

	if (!barn || empty->capacity != sheaf_capacity(s) ||
	    !put_empty(s, barn, empty))
		free_empty_sheaf(s, empty);
}

/**
 * flush_sheaf - give the objects of a sheaf back to their slabs
 * @s: The cache.
 * @sheaf: The sheaf, which nobody else uses. It is empty afterwards, and stays the caller's.
 * @why: For the tracepoint.
 *
 * Context: Any in which kfree() may be called, without the sheaf lock.
 */
void flush_sheaf(struct kmem_cache *s, struct slab_sheaf *sheaf,
		 enum sheaf_flush_why why)
{
	if (!sheaf->size)
		return;
	trace_slab_sheaf_flush(s, sheaf->size, why);
	sheaf_decode(s, sheaf);
	slab_flush(s, sheaf->objects, sheaf->size);
	stat_add(s, SHEAF_FLUSH, sheaf->size);
	sheaf_cut(sheaf, 0);
}

static struct slab *slab_of_anything(const void *p)
{
	return points_to_memory(p) ? virt_to_slab(p) : NULL;
}

/**
 * cache_has_object - whether what may be anything points into a slab of a cache
 * @s: The cache.
 * @object: What is to be an object of it, unless somebody has written to where it was.
 *
 * Context: Any.
 * Return: Whether it does.
 */
bool cache_has_object(const struct kmem_cache *s, const void *object)
{
	struct slab *slab = slab_of_anything(object);

	return slab && slab->slab_cache == s;
}

/**
 * cache_has_object_at - whether an object of a cache begins where what may be anything points
 * @s: The cache.
 * @object: What is to be an object of it, unless somebody has written to where it was.
 *
 * Context: Any.
 * Return: Whether one does.
 */
bool cache_has_object_at(const struct kmem_cache *s, const void *object)
{
	struct slab *slab = slab_of_anything(object);
	void *address = kasan_reset_tag(object), *nearest;
	struct kmem_cache *cache;

	if (!slab)
		return false;
	cache = READ_ONCE(slab->slab_cache);
	if (cache != s)
		return false;
	/* As in objs_per_slab(), other bits of the word change. */
	nearest = data_race(nearest_obj(cache, slab, address));
	return address == (kfence_object_start(object) ?: nearest);
}

/**
 * sheaf_cache_is_one - whether the cache that a sheaf names may be looked at
 * @s: What it names, which may be anything if somebody has written to the sheaf.
 *
 * Context: Any.
 * Return: Whether it is a cache that has not been destroyed, as far as can be seen.
 */
bool sheaf_cache_is_one(const struct kmem_cache *s)
{
	return cache_has_object_at(kmem_cache, s) && s->cpu_sheaves;
}

/**
 * sheaf_has_its_cache - whether a sheaf is of the cache that it names
 * @sheaf: The sheaf. If somebody has written to it, @cache may be anything.
 *
 * For those who know the cache from nothing else. Looks at the slab of the last object:
 * an empty sheaf is believed if what it names is a cache.
 *
 * Context: Any, if nobody else uses the sheaf.
 * Return: Whether it is, as far as can be seen; true if that is not checked.
 */
bool sheaf_has_its_cache(struct slab_sheaf *sheaf)
{
	struct kmem_cache *s = sheaf->cache;

	if (!IS_ENABLED(CONFIG_SLAB_FREELIST_HARDENED))
		return true;
	if (!sheaf_is_sound(s, sheaf) || !sheaf_cache_is_one(s))
		return false;
	if (!sheaf->size)
		return true;
	/* Decoded by the secret of another cache it is no address at all. */
	return cache_has_object(s, sheaf_object(s, sheaf, sheaf->size - 1));
}

/**
 * release_sheaf - give the objects of a sheaf, and its memory, back
 * @s: The cache.
 * @sheaf: The sheaf, which nobody else uses.
 *
 * Context: Any in which kfree() may be called, without the sheaf lock.
 */
void release_sheaf(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	if (!sound(s, sheaf, false))
		return;
	flush_sheaf(s, sheaf, SHEAF_FLUSH_RELEASED);
	free_empty_sheaf(s, sheaf);
}

/* The barn of a node has no room. Returns whether it has some now. */
static bool barn_refused(struct kmem_cache *s, struct node_barn *barn, int node)
{
	unsigned int limit = READ_ONCE(barn->max_full);

	trace_slab_barn_refuse(s, barn);
	return balance_refused(&barn->demand, limit, jiffies) &&
	       sheaf_barn_grow(s, barn, node, limit);
}

/* The same as put_full(), if the barn is that of another node. */
static bool send_full(struct kmem_cache *s, struct node_barn *barn,
		      struct slab_sheaf *full)
{
	if (!put_full(s, barn, full))
		return false;
	trace_slab_sheaf_send(s, barn);
	return true;
}

static bool put_full_sheaf(struct kmem_cache *s, struct slab_sheaf *full)
{
	/* The task may move meanwhile, and then this is just another barn. */
	int node = numa_node_id(), home_node = node_of_sheaf(s, full);
	struct node_barn *barn = barn_at(s, node);
	struct node_barn *home = NULL;

	if (!barn || !sheaf_capacity(s))
		return false;
	if (put_full(s, barn, full))
		return true;

	if (home_node != node)
		home = get_barn_of(s, home_node);
	if (home && send_full(s, home, full))
		return true;

	if (barn_refused(s, barn, node) && put_full(s, barn, full))
		return true;
	return home && barn_refused(s, home, home_node) &&
	       send_full(s, home, full);
}

/**
 * put_sheaf - get rid of a sheaf, whatever is in it
 * @s: The cache.
 * @sheaf: The sheaf. It is not the caller's any more.
 *
 * A full one goes to a barn, if one has room. The objects of others go back to their slabs.
 *
 * Context: Any in which kfree() may be called, without the sheaf lock.
 * Return: Whether no object was flushed.
 */
bool put_sheaf(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	enum sheaf_flush_why why = SHEAF_FLUSH_PARTIAL;
	bool kept = !sheaf->size;

	if (sheaf->size == sheaf->capacity) {
		if (put_full_sheaf(s, sheaf)) {
			stat(s, BARN_PUT);
			return true;
		}
		stat(s, BARN_PUT_FAIL);
		why = SHEAF_FLUSH_REFUSED;
	}
	flush_sheaf(s, sheaf, why);
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
	struct slab_sheaf *main, *spare;

	if (!sheaf_lock_to_install(s))
		return put_sheaf(s, sheaf);

	pcs = this_cpu_ptr(s->cpu_sheaves);
	check_main(s, pcs);
	main = pcs->main;
	spare = take_spare(s, pcs);
	if (main == slab_no_sheaf) {
		main = sheaf;
	} else if (!spare) {
		spare = main;
		main = sheaf;
	} else if (!spare->size) {
		rest = spare;
		spare = sheaf;
	} else if (!main->size || main->size == main->capacity) {
		rest = main;
		main = sheaf;
	} else {
		rest = sheaf;
	}
	set_main(pcs, main);
	give_spare(pcs, spare);
	local_unlock(&s->cpu_sheaves->lock);

	return !rest || put_sheaf(s, rest);
}

/* The barn of a node has no full sheaf. */
static __always_inline void barn_lacked(struct kmem_cache *s,
					struct node_barn *barn)
{
	trace_slab_barn_lack(s, barn);
	balance_lacked(&barn->demand, jiffies);
}

/*
 * The barn of this node, if there is one, has none: has that of the node where memory
 * comes from, in exchange for @empty, if that is not NULL? Out of line.
 */
static noinline struct slab_sheaf *
full_from_near_barn(struct kmem_cache *s, struct slab_sheaf **empty)
{
	struct node_barn *barn = get_barn(s), *near = get_near_barn(s);
	struct slab_sheaf *full = NULL;

	if (!barn)
		return NULL;
	if (near)
		full = empty ? swap_empty(s, near, empty) : get_full(s, near);
	if (full) {
		trace_slab_sheaf_fetch(s, near);
		return full;
	}
	barn_lacked(s, barn);
	if (near)
		barn_lacked(s, near);
	stat(s, BARN_GET_FAIL);
	return NULL;
}

/* A barn gave main for a full one. */
static bool full_main_is_sound(struct kmem_cache *s,
			       struct slub_percpu_sheaves *pcs)
{
	return check_main(s, pcs) &&
	       (!IS_ENABLED(CONFIG_SLAB_FREELIST_HARDENED) || pcs->main->size);
}

/*
 * A CPU that gets more from barns than it gave them gets what other CPUs have freed: main
 * is full of objects that lie in their caches, and whoever allocates one waits for it. They
 * are sent for while the first are used; more of them would push each other out. What a
 * CPU gave itself it has at hand.
 */
static __always_inline void send_for_objects(struct kmem_cache *s,
					     struct slub_percpu_sheaves *pcs)
{
	struct slab_sheaf *main = pcs->main;
	unsigned int i, end;

	if (!IS_ENABLED(CONFIG_SMP))
		return;
	if (likely(pcs->given)) {
		pcs->given--;
		return;
	}
	end = main->size - min(main->size, SHEAF_SEND_FOR);
	for (i = main->size; i > end; i--)
		prefetchw(sheaf_object(s, main, i - 1));
}

/* Main was empty, and a barn has given a full one. Returns whether it can be used. */
static __always_inline bool main_from_barn(struct kmem_cache *s,
					   struct slub_percpu_sheaves *pcs,
					   struct slab_sheaf *full)
{
	stat(s, BARN_GET);
	set_main(pcs, full);
	if (!full_main_is_sound(s, pcs))
		return false;
	send_for_objects(s, pcs);
	return true;
}

static void retire(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	if (sheaf)
		release_sheaf(s, sheaf);
}

/* The cache has no sheaves any more: nor shall this CPU. Releases the lock. */
static void retire_sheaves(struct kmem_cache *s,
			   struct slub_percpu_sheaves *pcs)
{
	struct slab_sheaf *main = pcs->main, *remote = pcs->remote;
	struct slab_sheaf *spare = take_spare(s, pcs);

	set_main(pcs, slab_no_sheaf);
	WRITE_ONCE(pcs->remote, NULL);
	local_unlock(&s->cpu_sheaves->lock);

	retire(s, spare);
	retire(s, remote);
	if (main != slab_no_sheaf)
		retire(s, main);
}

/*
 * Change an empty main, which has the size that it should have, for a full one of a
 * barn. If that leaves the empty sheaf, *@rest is set to it. There is a spare, which
 * is empty, too.
 */
static noinline bool trade_empty_main(struct kmem_cache *s,
				      struct slub_percpu_sheaves *pcs,
				      struct slab_sheaf **rest)
{
	struct node_barn *barn = get_barn(s);
	struct slab_sheaf *full = NULL;

	/* Where there is a spare, there is a main. */
	VM_WARN_ON_ONCE(pcs->main == slab_no_sheaf);
	*rest = pcs->main;
	if (barn)
		full = swap_empty(s, barn, rest);
	if (unlikely(!full)) {
		full = full_from_near_barn(s, rest);
		if (!full) {
			*rest = NULL;
			return false;
		}
	}
	return main_from_barn(s, pcs, full);
}

/*
 * Make main a full one from a barn. The main so far becomes the spare, or *@rest if
 * there is one: of another size than it should have, it goes no further.
 */
static noinline bool full_main_from_barn(struct kmem_cache *s,
					 struct slub_percpu_sheaves *pcs,
					 struct slab_sheaf *spare,
					 struct slab_sheaf **rest)
{
	struct node_barn *barn = get_barn(s);
	struct slab_sheaf *empty = pcs->main;
	struct slab_sheaf *full = NULL;

	/* As in sheaf_lock_to_install(). */
	if (unlikely(!sheaf_capacity(s)))
		return false;

	if (barn)
		full = get_full(s, barn);
	if (!full)
		full = full_from_near_barn(s, NULL);
	if (!full)
		return false;

	if (spare)
		*rest = empty;
	else if (empty != slab_no_sheaf)
		give_spare(pcs, empty);
	return main_from_barn(s, pcs, full);
}

/* Make main one that has objects, by means of spare and the barn alone. */
static __always_inline bool replace_empty_main(struct kmem_cache *s,
					       struct slub_percpu_sheaves *pcs,
					       struct slab_sheaf **rest)
{
	struct slab_sheaf *spare = take_any_spare(pcs);
	struct slab_sheaf *main = pcs->main;

	lockdep_assert_held(this_cpu_ptr(&s->cpu_sheaves->lock));

	if (spare && spare->size)
		spare = sound(s, spare, true);
	if (!spare || !spare->size) {
		give_spare(pcs, spare);
		if (spare && main->capacity == sheaf_capacity(s))
			return trade_empty_main(s, pcs, rest);
		return full_main_from_barn(s, pcs, spare, rest);
	}

	set_main(pcs, spare);
	/* Of another size than it should have: too large, or too small. */
	if (unlikely(main->capacity > sheaf_capacity(s) ||
		     main->capacity < min(pcs->fill, sheaf_capacity(s))) &&
	    main != slab_no_sheaf)
		*rest = main;
	else
		give_spare(pcs, main);
	return true;
}

/* The same for those who move many objects at once, and have more to do than that. */
static noinline bool next_full_main(struct kmem_cache *s,
				    struct slub_percpu_sheaves *pcs,
				    struct slab_sheaf **rest)
{
	check_empty_main(s, pcs);
	return pcs->main->size || replace_empty_main(s, pcs, rest);
}

/* Change a full main for an empty one of a barn. There is a spare, which is full, too. */
static noinline bool trade_full_main(struct kmem_cache *s,
				     struct slub_percpu_sheaves *pcs)
{
	struct node_barn *barn = get_barn(s);
	struct slab_sheaf *empty = NULL;

	VM_WARN_ON_ONCE(pcs->main == slab_no_sheaf);
	if (!barn)
		return false;
	empty = swap_full(s, barn, pcs->main);
	if (unlikely(!empty)) {
		barn = get_home_barn(s, pcs->main);
		if (barn)
			empty = swap_full(s, barn, pcs->main);
		if (!empty)
			return false;
		trace_slab_sheaf_send(s, barn);
	}
	stat(s, BARN_PUT);
	if (pcs->given < SHEAF_GIVEN_MAX)
		pcs->given++;
	/* Main is the barn's now, whatever comes of the other one. */
	if (IS_ENABLED(CONFIG_SLAB_FREELIST_HARDENED) &&
	    unlikely(!sheaf_is_sound(s, empty) || empty->size)) {
		set_main(pcs, take_any_spare(pcs) ?: slab_no_sheaf);
		sheaf_is_unsound(s, true);
		return false;
	}
	set_main(pcs, empty);
	return true;
}

/* Make main an empty one from the barn. The main so far, if any, becomes the spare. */
static noinline bool empty_main_from_barn(struct kmem_cache *s,
					  struct slub_percpu_sheaves *pcs)
{
	struct node_barn *barn = get_barn(s);
	struct slab_sheaf *empty = NULL;
	struct slab_sheaf *full = pcs->main;

	if (barn)
		empty = sound_empty(s, get_empty(s, barn), true);
	if (!empty)
		return false;
	if (full != slab_no_sheaf)
		give_spare(pcs, full);
	set_main(pcs, empty);
	return true;
}

/* Make main one that has room, by means of spare and the barn alone. */
static __always_inline bool replace_full_main(struct kmem_cache *s,
					      struct slub_percpu_sheaves *pcs)
{
	struct slab_sheaf *spare = take_any_spare(pcs);
	struct slab_sheaf *main = pcs->main;

	lockdep_assert_held(this_cpu_ptr(&s->cpu_sheaves->lock));

	if (spare && spare->size == spare->capacity) {
		give_spare(pcs, spare);
		return trade_full_main(s, pcs);
	}
	spare = sound(s, spare, true);
	if (!spare)
		return empty_main_from_barn(s, pcs);

	set_main(pcs, spare);
	give_spare(pcs, main);
	return true;
}

/* The same for those who move many objects at once, and have more to do than that. */
static noinline bool next_empty_main(struct kmem_cache *s,
				     struct slub_percpu_sheaves *pcs)
{
	/* As in sheaf_lock_to_install(). */
	return likely(sheaf_capacity(s)) && replace_full_main(s, pcs);
}

/*
 * The sheaves of this CPU cannot serve, nor can the barn. Returns how many objects, or
 * how much room, the CPU should get.
 */
static unsigned int note_miss(struct kmem_cache *s,
			      struct slub_percpu_sheaves *pcs)
{
	unsigned int fill = sheaf_capacity(s);
	unsigned int now = jiffies;

	if (sheaf_follows(s, BALANCE_SLOW_START))
		fill = balance_fill(pcs->fill, fill, SHEAF_HEAD,
				    now - pcs->missed_at);
	if (fill != pcs->fill)
		trace_slab_sheaf_fill(s->name, pcs->fill, fill);
	pcs->fill = fill;
	pcs->missed_at = now;
	return fill;
}

/* All sheaves are empty: refill one, and take the object out of it. */
static void *alloc_by_refill(struct kmem_cache *s, struct slab_sheaf *sheaf,
			     unsigned int fill, gfp_t gfp, int node)
{
	unsigned int nr;
	void *object;

	if (sheaf && (sheaf->capacity < fill ||
		      sheaf->capacity > sheaf_capacity(s))) {
		free_empty_sheaf(s, sheaf);
		sheaf = NULL;
	}
	if (!sheaf)
		sheaf = find_empty_sheaf(s) ?: alloc_empty_sheaf(s, fill, gfp);
	if (!sheaf)
		return NULL;

	fill = min(fill, sheaf->capacity);
	nr = slab_refill(s, sheaf->objects, 1, fill, gfp, node);
	trace_slab_sheaf_refill(s, fill, nr);
	if (!nr) {
		put_empty_sheaf(s, sheaf);
		return NULL;
	}
	stat_add(s, SHEAF_REFILL, nr);

	VM_WARN_ON_ONCE(sheaf->size);
	sheaf_check_fits(s, sheaf->objects, nr);
	sheaf_add_refilled(s, sheaf, nr);
	object = sheaf_unmark(s, sheaf_pop(s, sheaf));
	if (sheaf->size)
		install_sheaf(s, sheaf);
	else
		put_empty_sheaf(s, sheaf);

	stat(s, ALLOC_FASTPATH);
	return object;
}

static bool object_on_node(const void *object, int node)
{
	if (node == NUMA_NO_NODE)
		return true;
	return object_is_address(object) && node_of_address(object) == node;
}

/* Neither sheaves nor barn have an object. Out of line, and releases the lock. */
static noinline void *alloc_miss(struct kmem_cache *s,
				 struct slub_percpu_sheaves *pcs, gfp_t gfp,
				 int node)
{
	struct slab_sheaf *empty;
	unsigned int fill;
	bool again;

	if (node != NUMA_NO_NODE && node != numa_node_id()) {
		local_unlock(&s->cpu_sheaves->lock);
		return NULL;
	}

	again = (unsigned int)jiffies - pcs->missed_at < BALANCE_INTERVAL;
	fill = note_miss(s, pcs);
	if (unlikely(!fill)) {
		retire_sheaves(s, pcs);
		return NULL;
	}
	/* If there is a spare, it is empty as well, and can be refilled. */
	empty = take_spare(s, pcs);
	local_unlock(&s->cpu_sheaves->lock);

	/* Once in a while is nothing to be watched; and not by who must not wake up others. */
	if (again && (gfp & __GFP_KSWAPD_RECLAIM))
		sheaves_watch();
	return alloc_by_refill(s, empty, fill, gfp, node);
}

static bool is_contended(const struct node_barn *barn)
{
	return barn && READ_ONCE(barn->contended) > BALANCE_CONTENDED;
}

/* Whoever waits for barns may want larger sheaves, though nobody needs more than there is. */
static void watch_contention(struct kmem_cache *s, gfp_t gfp)
{
	/* The task may have moved meanwhile, and then these are just other barns. */
	if (likely(!is_contended(get_barn(s)) &&
		   !is_contended(get_near_barn(s))))
		return;
	if ((gfp & __GFP_KSWAPD_RECLAIM) && sheaf_follows(s, BALANCE_GROWTH))
		sheaves_watch();
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
	struct slab_sheaf *main, *spare;
	void *object = NULL;
	bool replaced;

	check_empty_main(s, pcs);
	if (unlikely(!sheaf_capacity(s) && pcs->main == slab_no_sheaf)) {
		local_unlock(&s->cpu_sheaves->lock);
		return NULL;
	}

	/* A node without memory is no constraint, but a hint at best. */
	if (node != NUMA_NO_NODE && !node_state(node, N_NORMAL_MEMORY))
		node = NUMA_NO_NODE;

	spare = READ_ONCE(pcs->spare);
	replaced = !pcs->main->size;
	if (unlikely(replaced && !replace_empty_main(s, pcs, &rest))) {
		object = alloc_miss(s, pcs, gfp, node);
		/* The full sheaf that came for it was none. */
		if (IS_ENABLED(CONFIG_SLAB_FREELIST_HARDENED) && unlikely(rest))
			free_empty_sheaf(s, rest);
		return object;
	}

	main = pcs->main;
	if (object_on_node(sheaf_object(s, main, main->size - 1), node)) {
		object = sheaf_pop(s, main);
		stat(s, ALLOC_FASTPATH);
	} else {
		stat(s, ALLOC_NODE_MISMATCH);
	}
	local_unlock(&s->cpu_sheaves->lock);
	if (unlikely(rest))
		free_empty_sheaf(s, rest);
	/* The spare comes without a look at the barn. */
	if (replaced && main != spare)
		watch_contention(s, gfp);
	return object ? sheaf_unmark(s, object) : NULL;
}

/* Neither sheaves nor barn have room. Out of line, and releases the lock. */
static noinline bool free_miss(struct kmem_cache *s,
			       struct slub_percpu_sheaves *pcs, void *object)
{
	unsigned int fill = 0;
	struct slab_sheaf *sheaf;

	if (likely(sheaf_capacity(s)))
		fill = note_miss(s, pcs);
	if (unlikely(!fill)) {
		retire_sheaves(s, pcs);
		return false;
	}
	local_unlock(&s->cpu_sheaves->lock);

	/*
	 * There are places that free memory and would deadlock if kswapd was
	 * woken up: no gfp flag is harmless here.
	 */
	sheaf = find_empty_sheaf(s) ?: alloc_empty_sheaf(s, fill, 0);
	if (!sheaf)
		return false;

	sheaf_push(s, sheaf, object);
	install_sheaf(s, sheaf);
	stat(s, FREE_FASTPATH);
	return true;
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

	if (full_main_ends_with(s, pcs, object) || sheaf_is_marked(s, object)) {
		sheaf_freed_twice(s, object);
		local_unlock(&s->cpu_sheaves->lock);
		return true;
	}
	if (unlikely(!sheaf_capacity(s) || !replace_full_main(s, pcs)))
		return free_miss(s, pcs, object);

	sheaf_push(s, pcs->main, object);
	local_unlock(&s->cpu_sheaves->lock);
	stat(s, FREE_FASTPATH);
	return true;
}

/* Out of the slots of a sheaf that does not have them any more. */
static void copy_objects(struct kmem_cache *s, void **p, void **slots,
			 unsigned int nr)
{
	unsigned int i;

	if (!IS_ENABLED(CONFIG_SLAB_SHEAF_HARDENED)) {
		memcpy(p, slots, nr * sizeof(*p));
		return;
	}
	for (i = 0; i < nr; i++)
		p[i] = sheaf_code(s, &slots[i], slots[i]);
}

/* As in sheaf_pop(), without the lock. */
static void unmark_objects(struct kmem_cache *s, void **p, unsigned int nr)
{
	unsigned int i;

	if (!IS_ENABLED(CONFIG_SLAB_SHEAF_MARKS))
		return;
	for (i = 0; i < nr; i++)
		sheaf_unmark(s, p[i]);
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
		if (sheaf_has_objects(pcs->main) ||
		    next_full_main(s, pcs, &rest)) {
			batch = min(nr - done, pcs->main->size);
			pcs->main->size -= batch;
			copy_objects(s, p + done,
				     pcs->main->objects + pcs->main->size, batch);
		}
		local_unlock(&s->cpu_sheaves->lock);

		sheaf_check_out(s, p + done, batch);
		unmark_objects(s, p + done, batch);
		if (unlikely(rest))
			free_empty_sheaf(s, rest);
		if (!batch)
			break;
		done += batch;
	}
	return done;
}

/**
 * sheaf_next_object - the object that this CPU will allocate next
 * @s: The cache.
 *
 * Mostly the one that it has freed last. To compare others with it.
 *
 * Context: Any.
 * Return: An object that was free a moment ago, or NULL if there is none, or if that is
 *	   not checked.
 */
const void *sheaf_next_object(struct kmem_cache *s)
{
	const void *object = NULL;
	struct slab_sheaf *main;

	if (!IS_ENABLED(CONFIG_SLAB_FREELIST_HARDENED) ||
	    !local_trylock(&s->cpu_sheaves->lock))
		return NULL;
	main = this_cpu_read(s->cpu_sheaves->main);
	if (sheaf_has_objects(main))
		object = sheaf_object(s, main, main->size - 1);
	local_unlock(&s->cpu_sheaves->lock);
	return object;
}

/**
 * sheaf_freed_twice - an object is freed that is free already
 * @s: The cache.
 * @object: The object.
 *
 * Context: Any, with the sheaf lock held. Returns in KUnit tests only.
 */
void sheaf_freed_twice(struct kmem_cache *s, void *object)
{
	if (slab_in_kunit_test())
		return;
	/* Who is stopped leaves nothing locked behind. */
	local_unlock(&s->cpu_sheaves->lock);
	slab_report_double_free(s, object);
}

/*
 * Objects that are all different, but for the one that main ends with, which the first
 * may be.
 */
static void push_objects(struct kmem_cache *s, struct slab_sheaf *sheaf,
			 void **p, unsigned int nr)
{
	if (sheaf_ends_with(s, sheaf, *p)) {
		sheaf_freed_twice(s, *p);
		p++;
		nr--;
	}
	if (IS_ENABLED(CONFIG_SLAB_SHEAF_HARDENED)) {
		for (; nr; nr--, p++) {
			if (sheaf_is_marked(s, *p))
				sheaf_freed_twice(s, *p);
			else
				sheaf_push(s, sheaf, *p);
		}
		return;
	}
	sheaf_check_fits(s, p, nr);
	sheaf_check_in(s, p, nr);
	memcpy(sheaf->objects + sheaf->size, p, nr * sizeof(*p));
	sheaf->size += nr;
}

/*
 * All sheaves of this CPU are full: another one for the barn, in exchange for which it
 * takes a full one, if it has room for that, or gets it.
 */
static bool add_empty_sheaf(struct kmem_cache *s)
{
	int node = numa_node_id();
	struct node_barn *barn = barn_at(s, node);
	struct slab_sheaf *sheaf;

	if (!barn)
		return false;
	if (READ_ONCE(barn->nr_full) >= READ_ONCE(barn->max_full) &&
	    !barn_refused(s, barn, node))
		return false;
	/* As in __sheaf_free(), no gfp flag is harmless. */
	sheaf = alloc_empty_sheaf(s, sheaf_capacity(s), 0);
	if (!sheaf)
		return false;
	/* Who frees so many at once needs no small sheaves any more. */
	this_cpu_write(s->cpu_sheaves->fill, sheaf->capacity);
	if (put_empty(s, barn, sheaf))
		return true;
	free_empty_sheaf(s, sheaf);
	return false;
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
		if (pcs->main->size >= pcs->main->capacity &&
		    full_main_ends_with(s, pcs, p[done])) {
			sheaf_freed_twice(s, p[done]);
			batch = 1;
		} else if (pcs->main->size < pcs->main->capacity ||
			   next_empty_main(s, pcs)) {
			batch = min(nr - done,
				    pcs->main->capacity - pcs->main->size);
			push_objects(s, pcs->main, p + done, batch);
		}
		local_unlock(&s->cpu_sheaves->lock);

		if (!batch && !add_empty_sheaf(s))
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
 * Does not flush, and allocates a sheaf only if the barn has room for a full one.
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

/* Move the objects of a node to the front. Returns how many there are. Decoded. */
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

/**
 * send_home - give a full sheaf to the node that its objects are from
 * @s: The cache.
 * @full: The sheaf. It is the caller's again only if it is returned.
 *
 * Objects of other nodes than that of the last one go back to their slabs.
 *
 * Context: Any in which kfree() may be called, without the sheaf lock.
 * Return: A sheaf with room for more, if there is one at hand, else NULL.
 */
struct slab_sheaf *send_home(struct kmem_cache *s, struct slab_sheaf *full)
{
	int node = node_of_object(sheaf_object(s, full, full->size - 1));
	struct node_barn *barn = get_barn_of(s, node);
	struct slab_sheaf *empty;
	unsigned int nr;

	sheaf_decode(s, full);
	nr = sort_by_node(full, node);
	if (nr < full->size) {
		trace_slab_sheaf_flush(s, full->size - nr, SHEAF_FLUSH_MIXED);
		slab_flush(s, full->objects + nr, full->size - nr);
		stat_add(s, SHEAF_FLUSH, full->size - nr);
		sheaf_cut(full, nr);
		sheaf_encode(s, full);
		return full;
	}
	sheaf_encode(s, full);

	if (barn && sheaf_capacity(s)) {
		empty = swap_full(s, barn, full);
		if (empty || put_full(s, barn, full) ||
		    (barn_refused(s, barn, node) && put_full(s, barn, full))) {
			trace_slab_sheaf_send(s, barn);
			stat(s, BARN_PUT);
			return sound_empty(s, empty, false);
		}
	}
	stat(s, BARN_PUT_FAIL);
	flush_sheaf(s, full, SHEAF_FLUSH_REFUSED);
	return full;
}

/* A sheaf for more remote objects, after one that has no room, if there was one. */
static struct slab_sheaf *remote_with_room(struct kmem_cache *s,
					   struct slab_sheaf *full)
{
	struct slab_sheaf *sheaf = full ? send_home(s, full) : NULL;

	if (sheaf && !sheaf->size && sheaf->capacity != sheaf_capacity(s)) {
		put_empty_sheaf(s, sheaf);
		sheaf = NULL;
	}
	/* As in __sheaf_free(), no gfp flag is harmless. */
	return sheaf ?: get_empty_sheaf(s, 0);
}

static void install_remote(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	struct slub_percpu_sheaves *pcs;

	if (sheaf_lock_to_install(s)) {
		pcs = this_cpu_ptr(s->cpu_sheaves);
		if (!pcs->remote) {
			sheaf_check_used(pcs, sheaf);
			/* As in give_spare(), for who counts. */
			smp_store_release(&pcs->remote, sheaf);
			sheaf = NULL;
		}
		local_unlock(&s->cpu_sheaves->lock);
	}

	/* Mostly empty: it was away for a moment only. */
	if (unlikely(sheaf)) {
		flush_sheaf(s, sheaf, SHEAF_FLUSH_PARTIAL);
		put_empty_sheaf(s, sheaf);
	}
}

/* What a CPU has that must not be disturbed. */
static void retire_remote(struct kmem_cache *s)
{
	/* Without the lock this is a hint, and others will come. */
	if (!this_cpu_read(s->cpu_sheaves->remote) ||
	    !local_trylock(&s->cpu_sheaves->lock))
		return;
	if (likely(!sheaf_capacity(s)))
		retire_sheaves(s, this_cpu_ptr(s->cpu_sheaves));
	else
		local_unlock(&s->cpu_sheaves->lock);
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

	if (unlikely(!sheaf_capacity(s))) {
		retire_remote(s);
		return false;
	}
	if (!local_trylock(&s->cpu_sheaves->lock))
		return false;

	pcs = this_cpu_ptr(s->cpu_sheaves);
	sheaf = pcs->remote;
	if (likely(sheaf && sheaf->size < sheaf->capacity)) {
		if (sheaf_has_already(s, sheaf, object))
			sheaf_freed_twice(s, object);
		else
			sheaf_push(s, sheaf, object);
		local_unlock(&s->cpu_sheaves->lock);
		stat(s, FREE_FASTPATH);
		return true;
	}
	WRITE_ONCE(pcs->remote, NULL);
	if (sheaf)
		sheaf_check_unused(sheaf);
	local_unlock(&s->cpu_sheaves->lock);

	sheaf = sound_full(s, sheaf, false);
	if (sheaf_is_marked(s, object) ||
	    (sheaf && sheaf_ends_with(s, sheaf, object))) {
		if (sheaf)
			install_remote(s, sheaf);
		slab_report_double_free(s, object);
		return true;
	}
	/* Full it has stayed, as main does, to be seen to end with the last object. */
	sheaf = remote_with_room(s, sheaf);
	if (!sheaf)
		return false;

	sheaf_push(s, sheaf, object);
	install_remote(s, sheaf);
	stat(s, FREE_FASTPATH);
	return true;
}

/*
 * Lending sheaves, for mm/slab_prefill.c
 */

/* What somebody who is to get it may do for an empty sheaf, may be done. */
static struct slab_sheaf *get_sheaf_to_lend(struct kmem_cache *s,
					    unsigned int size, gfp_t gfp)
{
	unsigned int capacity = max(size, sheaf_capacity(s));
	struct node_barn *barn = get_barn(s);
	struct slab_sheaf *sheaf = NULL;

	if (barn)
		sheaf = sound(s, get_full(s, barn), false);
	if (sheaf) {
		stat(s, BARN_GET);
		if (likely(sheaf->capacity >= size))
			return sheaf;
		put_sheaf(s, sheaf);
	}
	sheaf = find_empty_sheaf(s);
	if (sheaf && unlikely(sheaf->capacity < size)) {
		free_empty_sheaf(s, sheaf);
		sheaf = NULL;
	}
	return sheaf ?: alloc_empty_sheaf(s, capacity, gfp) ?:
	       alloc_sheaf(s, capacity, gfp & GFP_RECLAIM_MASK);
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

		sheaf = take_spare(s, pcs);
		if (sheaf && unlikely(sheaf->capacity < size)) {
			give_spare(pcs, sheaf);
			sheaf = NULL;
		}
		local_unlock(&s->cpu_sheaves->lock);
	}
	if (unlikely(!sheaf))
		sheaf = get_sheaf_to_lend(s, size, gfp);
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
	void **slots = sheaf->objects + sheaf->size;
	unsigned int nr;

	if (sheaf->size >= size)
		return;
	nr = take_from_sheaves(s, size - sheaf->size, slots);
	sheaf_check_in(s, slots, nr);
	__sheaf_encode(s, slots, nr);
	sheaf->size += nr;
}

/*
 * Make a sheaf the spare of this CPU, or main, if it has none. A spare that is smaller
 * makes way for it.
 */
static bool install_lent_sheaf(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	struct slab_sheaf *small = NULL;
	struct slub_percpu_sheaves *pcs;
	bool installed = true;

	if (!sheaf_lock_to_install(s))
		return false;

	pcs = this_cpu_ptr(s->cpu_sheaves);
	if (unlikely(pcs->main == slab_no_sheaf)) {
		set_main(pcs, sheaf);
	} else if (likely(!READ_ONCE(pcs->spare))) {
		give_spare(pcs, sheaf);
	} else {
		small = take_spare(s, pcs);
		if (small && small->capacity >= sheaf->capacity) {
			give_spare(pcs, small);
			small = NULL;
			installed = false;
		} else {
			give_spare(pcs, sheaf);
		}
	}
	local_unlock(&s->cpu_sheaves->lock);
	if (unlikely(small))
		put_sheaf(s, small);
	return installed;
}

/* As many objects as there is room for. Returns whether that were all of them. */
static bool pour_out(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	unsigned int done;

	sheaf_decode(s, sheaf);
	done = put_into_sheaves(s, sheaf->size, sheaf->objects);
	memmove(sheaf->objects, sheaf->objects + done,
		(sheaf->size - done) * sizeof(sheaf->objects[0]));
	sheaf_cut(sheaf, sheaf->size - done);
	sheaf_encode(s, sheaf);
	return !sheaf->size;
}

/* Who had it might have other objects than all others get. */
static __always_inline void check_lent(struct kmem_cache *s,
				       struct slab_sheaf *sheaf)
{
	unsigned int i;

	if (!IS_ENABLED(CONFIG_DEBUG_SLAB_SHEAVES))
		return;
	for (i = 0; i < sheaf->size; i++) {
		void *object = sheaf_object(s, sheaf, i);

		sheaf_check_fits(s, &object, 1);
	}
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
		flush_sheaf(s, sheaf, SHEAF_FLUSH_RESERVES);
		put_empty_sheaf(s, sheaf);
		return false;
	}
	check_lent(s, sheaf);
	if (likely(install_lent_sheaf(s, sheaf)))
		return true;
	if (sheaf->size == sheaf->capacity || pour_out(s, sheaf))
		return put_sheaf(s, sheaf);
	return install_sheaf(s, sheaf);
}
