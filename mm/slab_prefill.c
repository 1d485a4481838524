// SPDX-License-Identifier: GPL-2.0
/*
 * Prefilled sheaves: objects in store for allocations that must not fail
 *
 * There are places that need objects while they can neither block nor fail, under
 * a spinlock for one, and that know beforehand how many they need at most. They
 * borrow a sheaf (kmem_cache_prefill_sheaf()), while they still can block and
 * fail, take objects out of it (kmem_cache_alloc_from_sheaf()), which always
 * succeeds, and return it with what is left (kmem_cache_return_sheaf()). Mostly
 * that is far less than was borrowed, and often nothing was taken at all. So what
 * is in the sheaf are free objects which no hook (memcg, KASAN, initialisation)
 * has seen: the price of an allocation is paid for those that are used.
 *
 * Borrowed sheaves are sheaves like all others, mm/slab_sheaf.c, and become others
 * again. The sheaf tier lends the spare sheaf of the CPU, completed with objects
 * from main if need be, which is neither more nor less than an allocation of one
 * object from the spare; and the sheaf is the spare again when it is returned.
 * Only if sheaves and barn have not got enough objects, some are taken out of
 * slabs, as much as the sheaf holds: there is going to be a next time.
 *
 * Oversize. Who needs more objects than a sheaf of the cache has room for gets a
 * sheaf of the right size, made for the purpose and freed afterwards. Its objects
 * come from slabs and go back there. The same if the cache has no sheaves at all,
 * because of debugging, SLUB_TINY, or the user's will: all sheaves are oversize
 * then. This is slower, but works the same. Such a sheaf is marked (sheaf->oversize): the
 * capacity of the other ones may change while they are lent.
 *
 * The memory reserves. Who may use them, by gfp flags or as a task, gets objects
 * from there if there are no others. They must not end up in the sheaf of a CPU,
 * where everybody would get them: a sheaf with such objects is marked
 * (sheaf->reserves), and is emptied into the slabs when it is returned.
 *
 * KFENCE. Objects that it guards are in no slab of the cache, and so never in a
 * sheaf. Now and then one is allocated instead of an object of the sheaf, which
 * then has one more left than its borrower has to reckon with. Freed, it goes back
 * to KFENCE.
 *
 * Accounting. An object is charged to a memcg when it is taken out of the sheaf,
 * if SLAB_ACCOUNT or __GFP_ACCOUNT says so, for only then it has a user. At that
 * time nothing may fail, so the charge may exceed the limit of the memcg, by no
 * more than what the caller had borrowed; its next ordinary allocation pays for
 * that. Nor does kmem_cache_alloc_from_sheaf() fail on purpose (failslab):
 * prefilling and refilling do.
 *
 * Statistics. sheaf_objects does not count what is out on loan, nor does anybody
 * else know where it is: shrinking the cache, or taking the CPU offline, cannot
 * get it back. An object from an oversize sheaf is one that was allocated from
 * slabs (alloc_slowpath), at the time when it is taken out of the sheaf. All
 * others are allocated from sheaves (alloc_fastpath).
 *
 * Context. Any, if the gfp flags suit it. A sheaf has no lock. It belongs to
 * whoever borrowed it, who may give it on, use it on another CPU, return it there,
 * and have several.
 */

#include <linux/export.h>
#include <linux/fault-inject.h>
#include <linux/gfp.h>
#include <linux/kernel.h>
#include <linux/kfence.h>
#include <linux/kmemleak.h>
#include <linux/overflow.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <trace/events/slab_sheaf.h>
#include <kunit/static_stub.h>
#include <kunit/visibility.h>

#include "internal.h"
#include "slab.h"
#include "slab_sheaf.h"

static bool may_allocate(struct kmem_cache *s, gfp_t gfp)
{
	might_alloc(gfp);
	return !should_failslab(s, gfp);
}

/* Add objects from slabs. Returns whether there are @size objects now. */
static bool fill_from_slabs(struct kmem_cache *s, gfp_t gfp,
			    struct slab_sheaf *sheaf, unsigned int size)
{
	unsigned int max = sheaf->oversize ? size : sheaf->capacity;
	unsigned int wanted = max - sheaf->size;
	unsigned int nr;

	nr = slab_fill(s, sheaf->objects + sheaf->size, size - sheaf->size,
		       wanted, gfp, &sheaf->reserves);
	if (sheaf->oversize) {
		sheaf_check_in(s, sheaf->objects + sheaf->size, nr);
		__sheaf_code(s, sheaf->objects + sheaf->size, nr);
		sheaf->size += nr;
	} else {
		sheaf_add_refilled(s, sheaf, nr);
		stat_add(s, SHEAF_REFILL, nr);
		if (IS_ENABLED(CONFIG_SLAB_SHEAVES))
			trace_slab_sheaf_refill(s, wanted, nr);
	}
	return sheaf->size >= size;
}

/*
 * Objects in oversize sheaves may be such as are debugged, and have something else where
 * others have their mark.
 */
static void *take_oversize(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	void *object;

	sheaf->size--;
	object = sheaf_object(s, sheaf, sheaf->size);
	sheaf_check_out(s, &object, 1);
	return object;
}

static void free_oversize(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	__sheaf_code(s, sheaf->objects, sheaf->size);
	sheaf_check_out(s, sheaf->objects, sheaf->size);
	slab_flush(s, sheaf->objects, sheaf->size);
	if (IS_ENABLED(CONFIG_DEBUG_SLAB_SHEAVES))
		sheaf->size = 0;
	sheaf_check_freed(s, sheaf);
	kfree_nosheaf(sheaf);
}

/* Memory for an oversize sheaf of @bytes. Not static for the tests alone. */
VISIBLE_IF_KUNIT void *slab_alloc_oversize(size_t bytes, gfp_t gfp)
{
	KUNIT_STATIC_STUB_REDIRECT(slab_alloc_oversize, bytes, gfp);

	if (bytes > KMALLOC_MAX_SIZE)
		return NULL;
	return kmalloc_nosheaf(bytes, gfp & GFP_RECLAIM_MASK);
}
EXPORT_SYMBOL_IF_KUNIT(slab_alloc_oversize);

static struct slab_sheaf *prefill_oversize(struct kmem_cache *s, gfp_t gfp,
					   unsigned int size)
{
	struct slab_sheaf *sheaf;

	sheaf = slab_alloc_oversize(struct_size(sheaf, objects, size), gfp);
	if (!sheaf)
		return NULL;
	/* kmemleak would find the addresses of objects that are long out of it. */
	if (!IS_ENABLED(CONFIG_SLAB_SHEAVES))
		kmemleak_no_scan(sheaf);

	sheaf->cache = s;
	sheaf->size = 0;
	sheaf->capacity = size;
	sheaf->reserves = false;
	sheaf->oversize = true;
	sheaf_check_new(sheaf);
	if (!fill_from_slabs(s, gfp, sheaf, size)) {
		free_oversize(s, sheaf);
		return NULL;
	}
	stat(s, SHEAF_PREFILL_OVERSIZE);
	return sheaf;
}

static struct slab_sheaf *prefill(struct kmem_cache *s, gfp_t gfp,
				  unsigned int size)
{
	struct slab_sheaf *sheaf;

	if (unlikely(size > sheaf_capacity(s)))
		return prefill_oversize(s, gfp, size);

	sheaf = sheaf_lend(s, size, gfp);
	if (unlikely(!sheaf))
		return NULL;
	sheaf->reserves = false;
	sheaf->oversize = false;
	if (likely(sheaf->size >= size)) {
		stat(s, SHEAF_PREFILL_FAST);
		return sheaf;
	}
	if (unlikely(!fill_from_slabs(s, gfp, sheaf, size))) {
		sheaf_take_back(s, sheaf, !sheaf->reserves);
		return NULL;
	}
	stat(s, SHEAF_PREFILL_SLOW);
	return sheaf;
}

/**
 * kmem_cache_prefill_sheaf - have objects in store
 * @s: The cache.
 * @gfp: What may be done to get the objects.
 * @size: How many objects are needed.
 *
 * Up to the capacity of the cache's sheaves this is cheap, more works as well, up
 * to what fits in an array that kmalloc() can allocate.
 *
 * The sheaf must be returned before the cache is destroyed.
 *
 * Context: Any, if @gfp suits it.
 * Return: A sheaf from which @size objects can be allocated, or more; NULL if
 *	   memory was short, or if @size is 0.
 */
struct slab_sheaf *kmem_cache_prefill_sheaf(struct kmem_cache *s, gfp_t gfp,
					    unsigned int size)
{
	gfp &= gfp_allowed_mask;
	if (unlikely(!size || !may_allocate(s, gfp)))
		return NULL;
	return prefill(s, gfp, size);
}
EXPORT_SYMBOL(kmem_cache_prefill_sheaf);

/**
 * kmem_cache_refill_sheaf - have more objects in store
 * @s: The cache.
 * @gfp: What may be done to get the objects.
 * @sheafp: The sheaf. If @size is more than it has room for, it is returned, and
 *	    replaced by a larger one.
 * @size: How many objects are needed, those that are there included.
 *
 * Context: As kmem_cache_prefill_sheaf().
 * Return: 0, or -ENOMEM if memory was short. Then the sheaf is the same, and has
 *	   as many objects as before, or more.
 */
int kmem_cache_refill_sheaf(struct kmem_cache *s, gfp_t gfp,
			    struct slab_sheaf **sheafp, unsigned int size)
{
	struct slab_sheaf *sheaf = *sheafp;
	struct slab_sheaf *larger;

	if (sheaf->size >= size)
		return 0;

	gfp &= gfp_allowed_mask;
	if (unlikely(!may_allocate(s, gfp)))
		return -ENOMEM;

	if (likely(size <= sheaf->capacity)) {
		if (likely(!sheaf->oversize))
			sheaf_top_up(s, sheaf, size);
		if (likely(sheaf->size >= size) ||
		    fill_from_slabs(s, gfp, sheaf, size))
			return 0;
		return -ENOMEM;
	}

	larger = prefill(s, gfp, size);
	if (!larger)
		return -ENOMEM;
	kmem_cache_return_sheaf(s, gfp, sheaf);
	*sheafp = larger;
	return 0;
}
EXPORT_SYMBOL(kmem_cache_refill_sheaf);

/**
 * kmem_cache_return_sheaf - give up what is in store
 * @s: The cache.
 * @gfp: Not used: nothing is allocated. Here for callers that are written for
 *	 mainline's function of this name.
 * @sheaf: The sheaf, with the objects that are left. The caller must not use it
 *	   any more.
 *
 * Context: Any, except that hard interrupts do not free on PREEMPT_RT.
 */
void kmem_cache_return_sheaf(struct kmem_cache *s, gfp_t gfp,
			     struct slab_sheaf *sheaf)
{
	if (unlikely(!sheaf_is_sound(s, sheaf))) {
		slab_report_corruption(s, "a sheaf that was lent");
		return;
	}
	if (unlikely(sheaf->oversize)) {
		free_oversize(s, sheaf);
		stat(s, SHEAF_RETURN_SLOW);
		return;
	}
	if (likely(sheaf_take_back(s, sheaf, !sheaf->reserves)))
		stat(s, SHEAF_RETURN_FAST);
	else
		stat(s, SHEAF_RETURN_SLOW);
}
EXPORT_SYMBOL(kmem_cache_return_sheaf);

/**
 * kmem_cache_alloc_from_sheaf - allocate an object that is in store
 * @s: The cache.
 * @gfp: __GFP_ZERO and __GFP_ACCOUNT have their effect. All other flags only say
 *	 what may be done for the accounting, which never fails, but may exceed the
 *	 limit of the memcg.
 * @sheaf: The sheaf.
 *
 * Context: Any, if @gfp suits it.
 * Return: An object, which is freed as all others are. NULL only if there is none
 *	   left in the sheaf. There may be as many left as before: an object that
 *	   KFENCE guards does not come out of the sheaf.
 */
void *kmem_cache_alloc_from_sheaf_noprof(struct kmem_cache *s, gfp_t gfp,
					 struct slab_sheaf *sheaf)
{
	void *object;

	if (unlikely(!sheaf->size))
		return NULL;

	object = kfence_alloc(s, s->object_size, gfp);
	if (unlikely(object))
		return slab_hand_out_guarded(s, gfp, object, _RET_IP_);

	stat(s, sheaf->oversize ? ALLOC_SLOWPATH : ALLOC_FASTPATH);
	if (IS_ENABLED(CONFIG_SLAB_SHEAF_MARKS) && unlikely(sheaf->oversize))
		object = take_oversize(s, sheaf);
	else
		object = sheaf_unmark(s, sheaf_pop(s, sheaf));
	return slab_hand_out(s, gfp, object, _RET_IP_);
}
EXPORT_SYMBOL(kmem_cache_alloc_from_sheaf_noprof);

/**
 * kmem_cache_sheaf_size - how many objects are in store
 * @sheaf: The sheaf.
 *
 * Context: Any.
 * Return: How many objects can be allocated from the sheaf.
 */
unsigned int kmem_cache_sheaf_size(struct slab_sheaf *sheaf)
{
	return sheaf->size;
}
EXPORT_SYMBOL(kmem_cache_sheaf_size);
