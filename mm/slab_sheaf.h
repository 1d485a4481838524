/* SPDX-License-Identifier: GPL-2.0 */
#ifndef MM_SLAB_SHEAF_H
#define MM_SLAB_SHEAF_H

/*
 * The sheaf tier of the slab allocator: what every allocation and free runs
 * through. The comment at the head of mm/slab_sheaf.c tells how it works.
 */

#include <linux/kasan.h>
#include <linux/local_lock.h>
#include <linux/nodemask.h>
#include <linux/percpu.h>
#include <linux/swab.h>
#include <linux/topology.h>

#include "slab.h"
#include "slab_barn.h"
#include "slab_sheaf_debug.h"

/* What the largest piece of memory that can be allocated has room for. */
#define SHEAF_MAX_CAPACITY						\
	((unsigned int)((KMALLOC_MAX_SIZE -				\
			 sizeof(struct slab_sheaf)) / sizeof(void *)))

/*
 * Whether nobody has written to the head of a sheaf who should not. Who gets at the size
 * from in front of it comes across the cache.
 */
static inline bool sheaf_is_sound(const struct kmem_cache *s,
				  const struct slab_sheaf *sheaf)
{
	return !IS_ENABLED(CONFIG_SLAB_FREELIST_HARDENED) ||
	       likely(sheaf->cache == s && sheaf->size <= sheaf->capacity &&
		      sheaf->capacity <= SHEAF_MAX_CAPACITY);
}

/*
 * What is in the slots of a sheaf, unless somebody has it to himself to fill or to flush
 * it: with SLAB_SHEAF_HARDENED not the address of an object, but that, the secret of the
 * cache, and the address of the slot, much as in a freelist. Decodes as well.
 */
static __always_inline void *sheaf_code(const struct kmem_cache *s, void **slot,
					const void *object)
{
	unsigned long code = (unsigned long)object;

#ifdef CONFIG_SLAB_SHEAF_HARDENED
	code ^= s->random ^ swab((unsigned long)slot);
#endif
	return (void *)code;
}

static __always_inline void *sheaf_object(const struct kmem_cache *s,
					  struct slab_sheaf *sheaf,
					  unsigned int i)
{
	return sheaf_code(s, &sheaf->objects[i], sheaf->objects[i]);
}

#ifdef CONFIG_SLAB_SHEAF_MARKS
extern unsigned long slab_sheaf_secret;

/*
 * What an object has, where it would have a free pointer, for as long as it is in a sheaf
 * from which it may be allocated. It is free, whatever KASAN and others think of who looks
 * at it. No small number looks like it, nor, on most machines, any address.
 */
static __always_inline unsigned long *sheaf_mark_of(const struct kmem_cache *s,
						    void *object)
{
	return kasan_reset_tag(object) + s->offset;
}

static __no_sanitize_or_inline bool sheaf_is_marked(const struct kmem_cache *s,
						    void *object)
{
	unsigned long *mark = sheaf_mark_of(s, object);

	return *mark == (slab_sheaf_secret ^ (unsigned long)mark);
}

static __no_sanitize_or_inline void sheaf_mark(const struct kmem_cache *s,
					       void *object)
{
	unsigned long *mark = sheaf_mark_of(s, object);

	*mark = slab_sheaf_secret ^ (unsigned long)mark;
}

/* Does not write to what is no object of a sheaf. */
static __no_sanitize_or_inline void *sheaf_unmark(const struct kmem_cache *s,
						  void *object)
{
	if (likely(sheaf_is_marked(s, object)))
		*sheaf_mark_of(s, object) = 0;
	return object;
}
#else
static inline bool sheaf_is_marked(const struct kmem_cache *s, void *object)
{
	return false;
}

static inline void sheaf_mark(const struct kmem_cache *s, void *object) { }
static inline void *sheaf_unmark(const struct kmem_cache *s, void *object)
{
	return object;
}
#endif

#ifdef CONFIG_SLAB_SHEAF_HARDENED
void __init sheaf_harden_init(void);
void __sheaf_code(struct kmem_cache *s, void **slots, unsigned int nr);
void __sheaf_decode(struct kmem_cache *s, void **slots, unsigned int nr);
void __sheaf_encode(struct kmem_cache *s, void **slots, unsigned int nr);
void __sheaf_shuffle(void **slots, unsigned int nr);
#else
static inline void sheaf_harden_init(void) { }
static inline void __sheaf_code(struct kmem_cache *s, void **slots,
				unsigned int nr) { }
static inline void __sheaf_decode(struct kmem_cache *s, void **slots,
				  unsigned int nr) { }
static inline void __sheaf_encode(struct kmem_cache *s, void **slots,
				  unsigned int nr) { }
static inline void __sheaf_shuffle(void **slots, unsigned int nr) { }
#endif

/*
 * Take the last object out of a sheaf that has some. It has a mark still, which whoever
 * gets it takes off, without the sheaf lock: if it is no object, he may fall over it.
 */
static __always_inline void *sheaf_pop(const struct kmem_cache *s,
				       struct slab_sheaf *sheaf)
{
	unsigned int size = sheaf->size - 1;
	void *object;

	sheaf->size = size;
	object = sheaf_object(s, sheaf, size);
	sheaf_check_out(s, &object, 1);
	return object;
}

/* For those who have a sheaf to themselves: from here on it is as all others are. */
static inline void sheaf_encode(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	sheaf_check_in(s, sheaf->objects, sheaf->size);
	__sheaf_encode(s, sheaf->objects, sheaf->size);
}

/* And from here on it is an array of objects. */
static inline void sheaf_decode(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	__sheaf_decode(s, sheaf->objects, sheaf->size);
	sheaf_check_out(s, sheaf->objects, sheaf->size);
}

/* The first ones are left. What was behind them may have been decoded. */
static inline void sheaf_cut(struct slab_sheaf *sheaf, unsigned int size)
{
	if (IS_ENABLED(CONFIG_SLAB_SHEAF_HARDENED))
		memset(sheaf->objects + size, 0,
		       (sheaf->size - size) * sizeof(sheaf->objects[0]));
	sheaf->size = size;
}

/* There are so many objects, out of slabs, behind those that were in the sheaf. */
static inline void sheaf_add_refilled(struct kmem_cache *s,
				      struct slab_sheaf *sheaf, unsigned int nr)
{
	sheaf_check_in(s, sheaf->objects + sheaf->size, nr);
	__sheaf_shuffle(sheaf->objects + sheaf->size, nr);
	__sheaf_encode(s, sheaf->objects + sheaf->size, nr);
	sheaf->size += nr;
}

#ifdef CONFIG_SLAB_SHEAVES

/* Why objects go from a sheaf to slabs, for who listens to the tracepoint. */
enum sheaf_flush_why {
	SHEAF_FLUSH_REFUSED,	/* No barn had room for a full sheaf. */
	SHEAF_FLUSH_PARTIAL,	/* There are some, and the CPU has no use for them. */
	SHEAF_FLUSH_MIXED,	/* They are of several nodes, and the sheaf goes to one. */
	SHEAF_FLUSH_RESERVES,	/* Some may have come from the memory reserves. */
	SHEAF_FLUSH_RELEASED,	/* The sheaf is given back, or may not be used. */
};

/**
 * struct slub_percpu_sheaves - the sheaves of one CPU
 * @lock: Protects the other fields, and the sheaves that they point to, but for
 *	  what is said below.
 * @given: How many full sheaves the CPU gave to barns in exchange, and did not take back,
 *	   as far as it matters.
 * @main: Objects come from here and go there. Never NULL: before the first use
 *	  it is slab_no_sheaf, which is empty and full at the same time.
 * @spare: Takes turns with @main. Mostly empty or full, NULL at first. May be
 *	   taken away at any time, by xchg(), and without the lock.
 * @remote: Objects of other nodes, on their way there. Mostly NULL.
 * @rcu_free: Objects that are to wait for a grace period. Neither empty nor full,
 *	      mostly NULL. May be taken away at any time: see mm/slab_rcu.c.
 * @rcu_taken: How many sheaves have been @rcu_free of this CPU.
 * @rcu_done: How many of those of any CPU were done with on this CPU.
 * @fill: How many objects the CPU should get when it has none left; 0 at first. A hint:
 *	  who frees many at once sets it without the lock.
 * @missed_at: When it last had none left, nor room, in jiffies.
 * @idle: For how many intervals the CPU has not used its sheaves, as far as one can
 *	  see from outside. Belongs, like @seen, to mm/slab_sheaf_trim.c.
 * @seen: What was seen there the last time.
 */
struct slub_percpu_sheaves {
	local_trylock_t lock;
	unsigned int given;
	struct slab_sheaf *main;
	struct slab_sheaf *spare;
	struct slab_sheaf *remote;
	struct slab_sheaf *rcu_free;
	unsigned int rcu_taken;
	unsigned int rcu_done;
	unsigned int fill;
	unsigned int missed_at;
	unsigned int idle;
	unsigned int seen;
};

/* For the limits of barns: as the load demands. */
#define BARN_LIMIT_AUTO	(-1)
#define BARN_LIMIT_KEEP	(-2)

/* What a sheaf takes besides the objects, in pointers to objects. */
#define SHEAF_HEAD	((unsigned int)(sizeof(struct slab_sheaf) / sizeof(void *)))

/* Stands for a main that is not there, see mm/slab_sheaf.c. */
extern const struct slab_sheaf slab_no_sheaf_storage;
#define slab_no_sheaf	((struct slab_sheaf *)&slab_no_sheaf_storage)

/*
 * Both are called with the sheaf lock of this CPU held, which they release.
 * See mm/slab_sheaf.c.
 */
void *__sheaf_alloc(struct kmem_cache *s, gfp_t gfp, int node);
bool __sheaf_free(struct kmem_cache *s, void *object);

void sheaf_freed_twice(struct kmem_cache *s, void *object);
const void *sheaf_next_object(struct kmem_cache *s);

/* Whether there is an object in it. A size that cannot be is none. */
static __always_inline bool sheaf_has_objects(const struct slab_sheaf *sheaf)
{
	if (IS_ENABLED(CONFIG_SLAB_FREELIST_HARDENED))
		return sheaf->size - 1 < sheaf->capacity;
	return sheaf->size;
}

/* Whether it will not be full with one object more, nor is, whatever its size says. */
static __always_inline bool sheaf_stays_open(const struct slab_sheaf *sheaf)
{
	return sheaf->size + 1ULL < sheaf->capacity;
}

/*
 * Freed twice in a row: what set_freepointer() finds out as well. In an empty sheaf
 * this looks at the size and the capacity, which are nobody's address; and of 64 bits of
 * an encoded one they are as good as never the same.
 */
static __always_inline bool sheaf_ends_with(const struct kmem_cache *s,
					    struct slab_sheaf *sheaf,
					    const void *object)
{
	void **last = sheaf->objects + sheaf->size - 1;

	if (IS_ENABLED(CONFIG_SLAB_SHEAF_HARDENED) &&
	    !IS_ENABLED(CONFIG_64BIT) && !sheaf->size)
		return false;
	return IS_ENABLED(CONFIG_SLAB_FREELIST_HARDENED) &&
	       unlikely(*last == sheaf_code(s, last, object));
}

/*
 * An object is freed that is free already: the one that was freed last, or, if they are
 * marked, any one that is in a sheaf, unless somebody has written to it since.
 */
static __always_inline bool sheaf_has_already(const struct kmem_cache *s,
					      struct slab_sheaf *sheaf,
					      void *object)
{
	return unlikely(sheaf_is_marked(s, object)) ||
	       sheaf_ends_with(s, sheaf, object);
}

static __always_inline void sheaf_store(const struct kmem_cache *s,
					struct slab_sheaf *sheaf, void *object)
{
	void **slot = &sheaf->objects[sheaf->size];

	*slot = sheaf_code(s, slot, object);
	sheaf->size++;
}

/* Store an object in a sheaf that has room, and from which nobody allocates it as yet. */
static __always_inline void sheaf_collect(const struct kmem_cache *s,
					  struct slab_sheaf *sheaf, void *object)
{
	sheaf_check_in(s, &object, 1);
	sheaf_store(s, sheaf, object);
}

/* Store an object in a sheaf that has room. */
static __always_inline void sheaf_push(const struct kmem_cache *s,
				       struct slab_sheaf *sheaf, void *object)
{
	sheaf_check_fits(s, &object, 1);
	/* Before something is written to what may be none. */
	sheaf_check_in(s, &object, 1);
	sheaf_mark(s, object);
	sheaf_store(s, sheaf, object);
}

/**
 * sheaf_alloc - allocate an object from the sheaves
 * @s: The cache.
 * @gfp: What may be done to get objects if there are none.
 * @node: The node that the object should lie on, or NUMA_NO_NODE.
 *
 * Context: Any. In an interrupt that came while the sheaves of the CPU are in
 *	    use, and on PREEMPT_RT in every hard interrupt, there is nothing to
 *	    be had.
 * Return: An object that the alloc hooks still have to see, or NULL. Then the
 *	   slab tier may have one all the same.
 */
static __always_inline void *sheaf_alloc(struct kmem_cache *s, gfp_t gfp,
					 int node)
{
	struct slub_percpu_sheaves __percpu *sheaves = s->cpu_sheaves;
	struct slab_sheaf *main;
	void *object;

	if (!local_trylock(&sheaves->lock))
		return NULL;

	main = this_cpu_read(sheaves->main);
	if (unlikely(!sheaf_has_objects(main) ||
		     (IS_ENABLED(CONFIG_NUMA) && node != NUMA_NO_NODE)))
		return __sheaf_alloc(s, gfp, node);

	object = sheaf_pop(s, main);
	local_unlock(&sheaves->lock);
	stat(s, ALLOC_FASTPATH);
	return sheaf_unmark(s, object);
}

/**
 * sheaf_free - free an object to the sheaves
 * @s: The cache.
 * @object: An object that sheaf_accepts() and that the free hooks have seen.
 *
 * Context: Any, with the same exceptions as for sheaf_alloc().
 * Return: Whether the sheaves took it. If not, the slab tier must.
 */
static __always_inline bool sheaf_free(struct kmem_cache *s, void *object)
{
	struct slub_percpu_sheaves __percpu *sheaves = s->cpu_sheaves;
	struct slab_sheaf *main;

	if (!local_trylock(&sheaves->lock))
		return false;

	main = this_cpu_read(sheaves->main);
	if (unlikely(main->size >= main->capacity))
		return __sheaf_free(s, object);

	if (sheaf_has_already(s, main, object))
		sheaf_freed_twice(s, object);
	else
		sheaf_push(s, main, object);
	local_unlock(&sheaves->lock);
	stat(s, FREE_FASTPATH);
	return true;
}

/**
 * sheaf_accepts - whether the sheaves of this CPU want the objects of a slab
 * @slab: The slab.
 *
 * Sheaves hold objects of the node that they serve, so that who allocates gets
 * local memory. On a CPU whose node has no memory, objects of its own node do
 * not exist and those of all others are welcome. Objects that come from the
 * memory reserves are not for everybody, and go back to their slab.
 *
 * Context: Any. The task may move to another CPU before it acts upon the
 *	    answer: then a sheaf gets a remote object, which does no harm.
 * Return: Whether sheaf_free() may be given its objects.
 */
static __always_inline bool sheaf_accepts(const struct slab *slab)
{
	if (unlikely(slab_test_pfmemalloc(slab)))
		return false;
	if (IS_ENABLED(CONFIG_NUMA) && slab_nid(slab) != numa_node_id())
		return !node_state(numa_node_id(), N_NORMAL_MEMORY);
	return true;
}

/**
 * sheaf_is_remote - whether sheaf_free_remote() wants the objects of a slab
 * @slab: The slab, which sheaf_accepts() does not want, or main had no room.
 *
 * Context: As sheaf_accepts().
 * Return: Whether it does.
 */
static __always_inline bool sheaf_is_remote(const struct slab *slab)
{
	return IS_ENABLED(CONFIG_NUMA) && slab_nid(slab) != numa_node_id() &&
	       !slab_test_pfmemalloc(slab);
}

bool sheaf_free_remote(struct kmem_cache *s, void *object);

/* May change at any time. */
static inline unsigned int sheaf_capacity(const struct kmem_cache *s)
{
	return READ_ONCE(s->sheaf_capacity);
}

/*
 * For who has a sheaf for this CPU, whichever it is now. Under the lock, the capacity is
 * what sheaves_resize() has waited for us to see: where there are to be no sheaves, none
 * comes to a CPU any more.
 */
static inline bool sheaf_lock_to_install(struct kmem_cache *s)
{
	if (!local_trylock(&s->cpu_sheaves->lock))
		return false;
	if (likely(sheaf_capacity(s)))
		return true;
	local_unlock(&s->cpu_sheaves->lock);
	return false;
}

extern unsigned int slab_feedback;

/* Whether a mechanism (BALANCE_*) works for a cache. */
static inline bool sheaf_follows(const struct kmem_cache *s, unsigned int what)
{
	return READ_ONCE(s->feedback) & READ_ONCE(slab_feedback) & what;
}

unsigned int sheaf_alloc_bulk(struct kmem_cache *s, unsigned int nr, void **p);
unsigned int sheaf_free_bulk(struct kmem_cache *s, unsigned int nr, void **p);

struct slab_sheaf *sheaf_lend(struct kmem_cache *s, unsigned int size,
			      gfp_t gfp);
void sheaf_top_up(struct kmem_cache *s, struct slab_sheaf *sheaf,
		  unsigned int size);
bool sheaf_take_back(struct kmem_cache *s, struct slab_sheaf *sheaf,
		     bool clean);

/* Sizes that follow the load: mm/slab_sheaf_grow.c */
int sheaf_paying_node(int node);
unsigned int sheaf_barn_limit(const struct kmem_cache *s, int node);
bool sheaf_barn_grow(struct kmem_cache *s, struct node_barn *barn, int node,
		     unsigned int limit);
void sheaf_barn_lower(struct kmem_cache *s, int node, unsigned int used);
void sheaf_barn_update(struct kmem_cache *s, int node);
void sheaf_barn_forget(struct kmem_cache *s, int node);
void sheaf_set_capacity(struct kmem_cache *s, unsigned int capacity);
bool sheaf_tune_capacity(struct kmem_cache *s, bool look);

/* What was not needed: mm/slab_sheaf_trim.c */
extern unsigned int sheaves_missed;
void __sheaves_watch(void);
void sheaves_trim(struct list_head *sheaves);
#if IS_ENABLED(CONFIG_KUNIT)
bool sheaves_round(void);
#endif

/* When memory is short: mm/slab_sheaf_shrinker.c */
unsigned long sheaves_give_back(void);
unsigned long sheaves_free_pages(void);
bool sheaves_put_off_oom(unsigned long pages, u64 now, u64 *next);

/*
 * Somebody needs more than there is in sheaves: look from time to time at what is not
 * needed. For who may wake up others.
 */
static inline void sheaves_watch(void)
{
	if (unlikely(!READ_ONCE(sheaves_missed)))
		__sheaves_watch();
}

/* What is done to all CPUs, and rarely: mm/slab_sheaf_admin.c */
int sheaves_create(struct kmem_cache *s);
int sheaves_enable(struct kmem_cache *s, unsigned int capacity);
void sheaves_lock(void);
bool sheaves_trylock(void);
void sheaves_unlock(void);
int sheaves_resize(struct kmem_cache *s, unsigned int capacity);
void sheaves_set_feedback(struct kmem_cache *s, unsigned int feedback);
void sheaves_set_all_feedback(unsigned int feedback);
int sheaves_set_barns(struct kmem_cache *s, int max_full, int max_empty);
void sheaves_detach_spare(struct slub_percpu_sheaves *pcs,
			  struct list_head *sheaves);
void sheaves_detach_all(struct slub_percpu_sheaves *pcs,
			struct list_head *sheaves);
unsigned int count_sheaf(struct slab_sheaf **sheafp);
bool cpu_has_sheaves(struct kmem_cache *s, unsigned int cpu);
void sheaves_destroy(struct kmem_cache *s);
void sheaves_flush(struct kmem_cache *s);
void sheaves_shutdown(struct kmem_cache *s);
void sheaves_count_cpu(unsigned int cpu);
unsigned int sheaves_cpus_of_node(int node);
int sheaves_prepare_node(struct kmem_cache *s, int node);
void sheaves_cpu_dead(struct kmem_cache *s, unsigned int cpu);
unsigned long kmem_cache_cached_objects(struct kmem_cache *s);
unsigned long kmem_cache_cached_on_node(struct kmem_cache *s, int node);
#if IS_ENABLED(CONFIG_KUNIT)
struct node_barn *slab_alloc_barn(int node);
#endif

/* Whole sheaves, for those who use them in other ways, such as mm/slab_rcu.c */
void sheaf_is_unsound(struct kmem_cache *s, bool locked);
bool cache_has_object(const struct kmem_cache *s, const void *object);
bool cache_has_object_at(const struct kmem_cache *s, const void *object);
bool sheaf_cache_is_one(const struct kmem_cache *s);
bool sheaf_has_its_cache(struct slab_sheaf *sheaf);
void free_empty_sheaf(struct kmem_cache *s, struct slab_sheaf *sheaf);
void release_sheaf(struct kmem_cache *s, struct slab_sheaf *sheaf);
struct slab_sheaf *next_to_release(struct list_head *sheaves);
void release_sheaves(struct list_head *sheaves);
int sheaf_near_node(int node);
unsigned int sheaf_timer_cpu(void);
struct slab_sheaf *find_empty_sheaf(struct kmem_cache *s);
struct slab_sheaf *get_empty_sheaf(struct kmem_cache *s, gfp_t gfp);
void put_empty_sheaf(struct kmem_cache *s, struct slab_sheaf *empty);
bool put_sheaf(struct kmem_cache *s, struct slab_sheaf *sheaf);
void flush_sheaf(struct kmem_cache *s, struct slab_sheaf *sheaf,
		 enum sheaf_flush_why why);
struct slab_sheaf *send_home(struct kmem_cache *s, struct slab_sheaf *full);

#else /* !CONFIG_SLAB_SHEAVES */

static inline void *sheaf_alloc(struct kmem_cache *s, gfp_t gfp, int node)
{
	return NULL;
}

static inline bool sheaf_free(struct kmem_cache *s, void *object)
{
	return false;
}

static inline bool sheaf_accepts(const struct slab *slab)
{
	return false;
}

static inline bool sheaf_is_remote(const struct slab *slab)
{
	return false;
}

static inline bool sheaf_free_remote(struct kmem_cache *s, void *object)
{
	return false;
}

static inline unsigned int sheaf_capacity(const struct kmem_cache *s)
{
	return 0;
}

static inline unsigned int sheaf_alloc_bulk(struct kmem_cache *s,
					    unsigned int nr, void **p)
{
	return 0;
}

static inline unsigned int sheaf_free_bulk(struct kmem_cache *s,
					   unsigned int nr, void **p)
{
	return 0;
}

static inline struct slab_sheaf *sheaf_lend(struct kmem_cache *s,
					    unsigned int size, gfp_t gfp)
{
	return NULL;
}

static inline void sheaf_top_up(struct kmem_cache *s, struct slab_sheaf *sheaf,
				unsigned int size) { }

static inline bool sheaf_take_back(struct kmem_cache *s,
				   struct slab_sheaf *sheaf, bool clean)
{
	return false;
}

static inline int sheaves_create(struct kmem_cache *s)
{
	return 0;
}

static inline int sheaves_enable(struct kmem_cache *s, unsigned int capacity)
{
	return 0;
}

static inline void sheaves_lock(void) { }
static inline void sheaves_unlock(void) { }
static inline void sheaves_set_feedback(struct kmem_cache *s,
					unsigned int feedback) { }
static inline void sheaves_destroy(struct kmem_cache *s) { }
static inline void sheaves_flush(struct kmem_cache *s) { }

static inline int sheaves_prepare_node(struct kmem_cache *s, int node)
{
	return 0;
}

static inline void sheaves_count_cpu(unsigned int cpu) { }
static inline void sheaves_shutdown(struct kmem_cache *s) { }
static inline void sheaves_cpu_dead(struct kmem_cache *s, unsigned int cpu) { }

#endif /* CONFIG_SLAB_SHEAVES */

/* So many objects that wait on one CPU are a flood: RCU has the same idea of it. */
#define RCU_MANY_OBJECTS	10000

#ifdef CONFIG_SLAB_RCU_SHEAVES
void kfree_rcu_sheaves_give(struct kmem_cache *s);
void kfree_rcu_cpu_dead(unsigned int cpu);
#if IS_ENABLED(CONFIG_KUNIT)
bool kfree_rcu_sheaves_hold(unsigned int cpu);
void kfree_rcu_sheaves_go_on(unsigned int cpu);
#endif
#else
static inline void kfree_rcu_sheaves_give(struct kmem_cache *s) { }
static inline void kfree_rcu_cpu_dead(unsigned int cpu) { }
#endif

#endif /* MM_SLAB_SHEAF_H */
