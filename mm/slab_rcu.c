// SPDX-License-Identifier: GPL-2.0
/*
 * kfree_rcu() in sheaves
 *
 * An object that is freed by kfree_rcu() must stay as it is until a grace period
 * has passed: readers may still look at it. So each CPU has, for each cache, a
 * third kind of sheaf, "rcu_free", that only collects. A full one goes to
 * call_rcu() as a whole, one callback for some dozens of objects. The callback
 * runs the free hooks, KASAN's among them, which must not come earlier. Then the
 * sheaf is a full sheaf like any other, and goes to the barn, or the objects are
 * flushed to their slabs, and the sheaf is an empty one again.
 *
 * The way in is free of locks that another CPU wants, atomic operations, and
 * tests that can be made once for each sheaf instead: on the way in the sheaf
 * may get objects of any node, or from the memory reserves, or of KFENCE. They
 * are sorted after the grace period. SLAB_TYPESAFE_BY_RCU needs nothing special:
 * it is slabs of which that flag delays the freeing, and they are freed by the
 * slab tier, after the objects.
 *
 * The old way. Whatever sheaves cannot take goes the way that all objects went
 * before (kernel/rcu/tree.c): what does not lie in a slab; objects of caches
 * without sheaves; objects freed by an interrupt that came while the sheaves of
 * the cache were in use; and objects for which no empty sheaf can be had without
 * waiting. On PREEMPT_RT the lock of the sheaves and that of the barn may sleep,
 * and kfree_rcu() may be called under raw spinlocks, so there all who cannot be
 * preempted go the old way. TINY_RCU frees objects one by one, to save memory,
 * and does not use any of this.
 *
 * Nothing is left behind. The rcu_free sheaves of a CPU, of all caches, are in a
 * list. Some seconds after the first one appeared there, a work item on that CPU
 * gives all of them to RCU, full or not: that bounds how long an object waits,
 * to what it was before. kvfree_rcu_barrier() has the same done by a work item
 * of its own, at once, and waits; the shrinker of kfree_rcu() does not wait. A
 * CPU that goes offline leaves its sheaves to the one that cleans up after it; if
 * it is stopped before that, to whoever wants to drain them.
 *
 * At any time an object is in the list or known to RCU: a sheaf is taken out of
 * the list and given to call_rcu() under one lock, and the barrier looks into the
 * list under the same lock. So that the barrier waits for a grace period only if
 * there is something to wait for, each CPU counts the sheaves that it gave to
 * RCU, and those that came back. What they are is of no importance, but for all
 * CPUs together the two are equal if, and only if, none is under way.
 *
 * Lock order: pcs->lock, rcu_sheaves->lock, and the locks of call_rcu(). The
 * barrier takes flush_mutex inside of the lock for CPU hotplug. A work item finds
 * the sheaf in the list first, and must then take pcs->lock of its cache, while
 * the sheaf may become full and go its way. The cache is there still: who destroys
 * it waits for the work items first. Under any of these locks, call_rcu() may have
 * debugobjects allocate, from a cache of which nothing is freed by kfree_rcu().
 */

#include <linux/cpu.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/kasan.h>
#include <linux/kmemleak.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/pgtable.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <kunit/visibility.h>

#include "slab_sheaf.h"

/* As long as the old way lets objects wait. */
#define RCU_DRAIN_JIFFIES	(5 * HZ)

/**
 * struct rcu_sheaves - the sheaves of a CPU that collect for a grace period
 * @lock: Protects @sheaves and @nr.
 * @sheaves: What the caches have as rcu_free on this CPU, by barn_list.
 * @nr: How many there are.
 * @cpu: The CPU.
 * @drain: Gives all of them to RCU. Pending or running whenever there are any.
 * @flush: Does the same for the barrier, which would miss what it waits for if
 *	   others could queue @drain anew meanwhile.
 */
struct rcu_sheaves {
	raw_spinlock_t lock;	/* Protects the list. call_rcu() nests inside. */
	struct list_head sheaves;
	unsigned int nr;
	unsigned int cpu;
	struct delayed_work drain;
	struct work_struct flush;
};

static DEFINE_PER_CPU(struct rcu_sheaves, rcu_sheaves);

/* Sheaves given to RCU by this CPU, and sheaves that this CPU got back. */
static DEFINE_PER_CPU(unsigned long, rcu_sheaves_given);
static DEFINE_PER_CPU(unsigned long, rcu_sheaves_back);

/* NULL until everything here can be used. */
static struct workqueue_struct *rcu_sheaf_workqueue;

/* One barrier at a time queues work, so that each waits for its own. */
static DEFINE_MUTEX(flush_mutex);

/*
 * After the grace period
 */

static bool all_remote(const struct slab_sheaf *sheaf)
{
	unsigned int i;

	for (i = 0; i < sheaf->size; i++)
		if (!sheaf_is_remote(virt_to_slab(sheaf->objects[i])))
			return false;
	return true;
}

/* Free what the sheaves of this CPU take. The others remain. */
static void free_to_other_sheaves(struct kmem_cache *s,
				  struct slab_sheaf *sheaf,
				  unsigned int accepted)
{
	unsigned int i = sheaf_free_bulk(s, accepted, sheaf->objects);
	unsigned int nr = 0;

	for (; i < sheaf->size; i++) {
		void *object = sheaf->objects[i];

		if (i >= accepted && sheaf_is_remote(virt_to_slab(object)) &&
		    sheaf_free_remote(s, object))
			continue;
		sheaf->objects[nr++] = object;
	}
	sheaf->size = nr;
}

/*
 * The hooks have seen the objects. The first ones are such as the sheaves of
 * this CPU accept, and mostly these are all.
 */
static void put_rcu_sheaf(struct kmem_cache *s, struct slab_sheaf *sheaf,
			  unsigned int accepted)
{
	bool full = sheaf->size == sheaf->capacity;

	if (full && accepted == sheaf->size) {
		stat_add(s, FREE_FASTPATH, sheaf->size);
		put_sheaf(s, sheaf);
		return;
	}

	if (full && all_remote(sheaf)) {
		stat_add(s, FREE_FASTPATH, sheaf->size);
		sheaf = send_home(s, sheaf);
	} else {
		free_to_other_sheaves(s, sheaf, accepted);
		stat_add(s, FREE_FASTPATH, sheaf->size);
	}
	if (sheaf) {
		flush_sheaf(s, sheaf);
		put_empty_sheaf(s, sheaf);
	}
}

static void rcu_sheaf_is_back(struct rcu_head *head)
{
	struct slab_sheaf *sheaf = container_of(head, struct slab_sheaf,
						rcu_head);
	struct kmem_cache *s = sheaf->cache;
	size_t size = sheaf->size;
	size_t accepted;

	if (IS_ENABLED(CONFIG_DEBUG_OBJECTS_RCU_HEAD))
		kvfree_rcu_unqueue(sheaf->objects, size);
	accepted = slab_free_hooks_bulk(s, &size, sheaf->objects);
	sheaf->size = size;
	put_rcu_sheaf(s, sheaf, accepted);

	/* Pairs with none_under_way(): the cache may be gone from here on. */
	smp_mb();
	this_cpu_inc(rcu_sheaves_back);
}

/*
 * Before the grace period
 */

/* The list of this CPU. */
static void add_to_list(struct rcu_sheaves *rs, struct slab_sheaf *sheaf)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&rs->lock, flags);
	list_add_tail(&sheaf->barn_list, &rs->sheaves);
	WRITE_ONCE(rs->nr, rs->nr + 1);
	raw_spin_unlock_irqrestore(&rs->lock, flags);
}

/* Of this CPU, or a dead one. */
static void __give_to_rcu(struct rcu_sheaves *rs, struct slab_sheaf *sheaf)
{
	lockdep_assert_held(&rs->lock);
	list_del(&sheaf->barn_list);
	WRITE_ONCE(rs->nr, rs->nr - 1);
	this_cpu_inc(rcu_sheaves_given);
	call_rcu_hurry(&sheaf->rcu_head, rcu_sheaf_is_back);
}

static void give_to_rcu(struct rcu_sheaves *rs, struct slab_sheaf *sheaf)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&rs->lock, flags);
	__give_to_rcu(rs, sheaf);
	raw_spin_unlock_irqrestore(&rs->lock, flags);
}

/*
 * Called with the sheaf lock of this CPU held, when rcu_free is missing, or the
 * next object makes it full. Releases the lock.
 */
static bool kfree_rcu_slow(struct kmem_cache *s, void *object)
{
	struct slub_percpu_sheaves *pcs = this_cpu_ptr(s->cpu_sheaves);
	struct slab_sheaf *empty = NULL;
	struct slab_sheaf *sheaf;

	if (!pcs->rcu_free) {
		local_unlock(&s->cpu_sheaves->lock);
		if (!rcu_sheaf_workqueue)
			return false;
		/*
		 * The caller may hold any lock, and no gfp flag is harmless. Who
		 * has interrupts off may even be the scheduler.
		 */
		empty = irqs_disabled() ? find_empty_sheaf(s) :
					  get_empty_sheaf(s, 0);
		if (!empty)
			return false;
		if (!local_trylock(&s->cpu_sheaves->lock)) {
			put_empty_sheaf(s, empty);
			return false;
		}
		/* Perhaps on another CPU, or an interrupt has brought one. */
		pcs = this_cpu_ptr(s->cpu_sheaves);
		if (!pcs->rcu_free) {
			struct rcu_sheaves *rs = this_cpu_ptr(&rcu_sheaves);

			pcs->rcu_free = empty;
			empty = NULL;
			add_to_list(rs, pcs->rcu_free);
			queue_delayed_work_on(rs->cpu, rcu_sheaf_workqueue,
					      &rs->drain, RCU_DRAIN_JIFFIES);
		}
	}

	sheaf = pcs->rcu_free;
	sheaf->objects[sheaf->size++] = object;
	if (sheaf->size == sheaf->capacity) {
		pcs->rcu_free = NULL;
		give_to_rcu(this_cpu_ptr(&rcu_sheaves), sheaf);
	}
	local_unlock(&s->cpu_sheaves->lock);

	if (empty)
		put_empty_sheaf(s, empty);
	return true;
}

/* Sheaves do not take the object: not now, or not of this cache. */
static noinline void kfree_rcu_fail(struct kmem_cache *s, struct rcu_head *head,
				    void *object)
{
	stat(s, FREE_RCU_SHEAF_FAIL);
	kvfree_call_rcu_batched(head, object);
}

/*
 * What is left to do of kfree_rcu_sheaf(), all of it: who calls this needs to
 * remember nothing, and saves no registers. Called with the sheaf lock of this CPU
 * held, which it releases.
 *
 * Who cannot be preempted may hold a raw spinlock. On PREEMPT_RT these do not
 * get here, elsewhere all locks are spinning ones, and lockdep has to know.
 */
static noinline void kfree_rcu_rest(struct kmem_cache *s, struct rcu_head *head,
				    void *object)
{
	static DEFINE_WAIT_OVERRIDE_MAP(kfree_rcu_map, LD_WAIT_CONFIG);
	bool done;

	lock_map_acquire_try(&kfree_rcu_map);
	done = kfree_rcu_slow(s, object);
	lock_map_release(&kfree_rcu_map);

	if (done)
		stat(s, FREE_RCU_SHEAF);
	else
		kfree_rcu_fail(s, head, object);
}

/* is_vmalloc_addr(), which is a function of its own. */
static __always_inline bool in_vmalloc_area(const void *object)
{
#ifdef CONFIG_MMU
	unsigned long addr = (unsigned long)kasan_reset_tag(object);

	return addr >= VMALLOC_START && addr < VMALLOC_END;
#else
	return false;
#endif
}

/**
 * kfree_rcu_sheaf - free an object after a grace period, by means of a sheaf
 * @head: What kvfree_call_rcu() was called with.
 * @object: The object, likewise.
 *
 * What sheaves cannot take is handed on to kvfree_call_rcu_batched(): so the
 * caller has nothing left to do afterwards, nor anything to remember.
 *
 * Context: Any but NMI.
 */
void kfree_rcu_sheaf(struct rcu_head *head, void *object)
{
	struct slub_percpu_sheaves __percpu *sheaves;
	struct slab_sheaf *sheaf;
	struct kmem_cache *s;
	struct folio *folio;

	if (in_vmalloc_area(object))
		goto no_slab;
	folio = virt_to_folio(object);
	if (unlikely(!folio_test_slab(folio)))
		goto no_slab;
	s = folio_slab(folio)->slab_cache;
	/* Nobody refers to it any more. Later, it may be somebody else's. */
	kmemleak_ignore(object);
	sheaves = s->cpu_sheaves;
	/* A sleeping lock is no good to who may hold a raw spinlock. */
	if ((IS_ENABLED(CONFIG_PREEMPT_RT) && !preemptible()) ||
	    unlikely(!local_trylock(&sheaves->lock))) {
		kfree_rcu_fail(s, head, object);
		return;
	}

	sheaf = this_cpu_read(sheaves->rcu_free);
	if (unlikely(!sheaf || sheaf->size + 1 >= sheaf->capacity)) {
		kfree_rcu_rest(s, head, object);
		return;
	}

	sheaf->objects[sheaf->size++] = object;
	local_unlock(&sheaves->lock);
	stat(s, FREE_RCU_SHEAF);
	return;

no_slab:
	kvfree_call_rcu_batched(head, object);
}

/*
 * Nothing is left behind
 */

/* The cache that the first sheaf in the list is of, or NULL. */
static struct kmem_cache *first_in_list(struct rcu_sheaves *rs)
{
	struct kmem_cache *s = NULL;
	struct slab_sheaf *sheaf;
	unsigned long flags;

	raw_spin_lock_irqsave(&rs->lock, flags);
	sheaf = list_first_entry_or_null(&rs->sheaves, struct slab_sheaf,
					 barn_list);
	if (sheaf)
		s = sheaf->cache;
	raw_spin_unlock_irqrestore(&rs->lock, flags);
	/*
	 * The sheaf may become full and be gone now. The cache is there: who
	 * destroys it waits for this work item, or for flush_mutex.
	 */
	return s;
}

/* Returns false if this is not the CPU of the list. */
static bool drain_cache(struct rcu_sheaves *rs, struct kmem_cache *s)
{
	struct slub_percpu_sheaves *pcs;
	struct slab_sheaf *sheaf;
	bool here;

	local_lock(&s->cpu_sheaves->lock);
	here = smp_processor_id() == rs->cpu;
	pcs = this_cpu_ptr(s->cpu_sheaves);
	sheaf = pcs->rcu_free;
	if (here && sheaf) {
		pcs->rcu_free = NULL;
		give_to_rcu(rs, sheaf);
	}
	local_unlock(&s->cpu_sheaves->lock);
	return here;
}

/* Gives what is in the list now to RCU. Returns false if this is not its CPU. */
static bool drain_list(struct rcu_sheaves *rs)
{
	unsigned int nr = READ_ONCE(rs->nr);
	struct kmem_cache *s;

	/* Those that come meanwhile are at the end, and have it done again. */
	while (nr-- && (s = first_in_list(rs)))
		if (!drain_cache(rs, s))
			return false;
	return true;
}

/**
 * kfree_rcu_cpu_dead - let the objects go that an offline CPU was to free
 * @s: The cache.
 * @cpu: The CPU.
 *
 * Context: Task, with the lock for CPU hotplug held. The CPU is dead.
 */
void kfree_rcu_cpu_dead(struct kmem_cache *s, unsigned int cpu)
{
	struct slub_percpu_sheaves *pcs = per_cpu_ptr(s->cpu_sheaves, cpu);
	struct rcu_sheaves *rs = per_cpu_ptr(&rcu_sheaves, cpu);
	struct slab_sheaf *sheaf;
	unsigned long flags;

	/* Those who do this may be several: what is in the list is rcu_free. */
	raw_spin_lock_irqsave(&rs->lock, flags);
	sheaf = pcs->rcu_free;
	pcs->rcu_free = NULL;
	if (sheaf)
		__give_to_rcu(rs, sheaf);
	raw_spin_unlock_irqrestore(&rs->lock, flags);
}

/*
 * The same for all caches, if the CPU was stopped on its way offline (see
 * hotplug/target in sysfs) and nobody has cleaned up after it.
 */
static void drain_dead(struct rcu_sheaves *rs)
{
	unsigned int nr = READ_ONCE(rs->nr);
	struct kmem_cache *s;

	while (nr-- && (s = first_in_list(rs)))
		kfree_rcu_cpu_dead(s, rs->cpu);
}

/*
 * This is not the CPU of the list: that one goes offline, or is, or has come back
 * and can do it itself. Not before a jiffy has passed: a work item that is queued
 * while it runs stays on the CPU it runs on.
 */
static void drain_there(struct rcu_sheaves *rs)
{
	if (!cpus_read_trylock()) {
		queue_delayed_work(rcu_sheaf_workqueue, &rs->drain,
				   RCU_DRAIN_JIFFIES);
		return;
	}
	if (cpu_online(rs->cpu))
		queue_delayed_work_on(rs->cpu, rcu_sheaf_workqueue, &rs->drain,
				      1);
	else
		drain_dead(rs);
	cpus_read_unlock();
}

static void drain_fn(struct work_struct *work)
{
	struct rcu_sheaves *rs = container_of(to_delayed_work(work),
					      struct rcu_sheaves, drain);

	if (!drain_list(rs))
		drain_there(rs);
}

/*
 * For the barrier, with CPU hotplug locked out: this is the CPU of the list. It is
 * not if somebody stopped that one where it is online, but has no workqueues, as
 * only hotplug/target in sysfs can: then its sheaves have to wait.
 */
static void flush_fn(struct work_struct *work)
{
	drain_list(container_of(work, struct rcu_sheaves, flush));
}

static bool list_has_any(struct rcu_sheaves *rs)
{
	unsigned long flags;
	bool any;

	/* Waits for what is between the list and RCU. */
	raw_spin_lock_irqsave(&rs->lock, flags);
	any = rs->nr;
	raw_spin_unlock_irqrestore(&rs->lock, flags);
	return any;
}

/*
 * Whether all sheaves are back that had been given to RCU when this was called.
 * Who is counted twice, by two CPUs, was first given and is back later. Having
 * read the latter first, the answer may be a false alarm, but not false comfort.
 */
static bool none_under_way(void)
{
	unsigned long back = 0, given = 0;
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		back += READ_ONCE(per_cpu(rcu_sheaves_back, cpu));
	/* Pairs with rcu_sheaf_is_back(). */
	smp_mb();
	for_each_possible_cpu(cpu)
		given += READ_ONCE(per_cpu(rcu_sheaves_given, cpu));
	return back == given;
}

/**
 * kfree_rcu_sheaves_barrier_cpuslocked - wait for objects in sheaves to be freed
 *
 * Like kfree_rcu_sheaves_barrier().
 *
 * Context: Task that may sleep, with the lock for CPU hotplug held.
 */
void kfree_rcu_sheaves_barrier_cpuslocked(void)
{
	unsigned int cpu;

	lockdep_assert_cpus_held();
	if (!rcu_sheaf_workqueue)
		return;

	mutex_lock(&flush_mutex);
	for_each_possible_cpu(cpu) {
		struct rcu_sheaves *rs = per_cpu_ptr(&rcu_sheaves, cpu);

		if (!list_has_any(rs))
			continue;
		if (cpu_online(cpu))
			queue_work_on(cpu, rcu_sheaf_workqueue, &rs->flush);
		else
			drain_dead(rs);
	}
	for_each_online_cpu(cpu)
		flush_work(&per_cpu(rcu_sheaves, cpu).flush);
	mutex_unlock(&flush_mutex);

	/* Those that run and still look at a cache of which nothing is listed. */
	for_each_possible_cpu(cpu)
		flush_work(&per_cpu(rcu_sheaves, cpu).drain.work);

	if (!none_under_way())
		rcu_barrier();
}

/**
 * kfree_rcu_sheaves_barrier - wait for objects in sheaves to be freed
 *
 * Whatever sheaves have taken from kfree_rcu() before this is called, on any
 * CPU, is freed when it returns.
 *
 * Context: Task that may sleep, without the lock for CPU hotplug.
 */
void kfree_rcu_sheaves_barrier(void)
{
	cpus_read_lock();
	kfree_rcu_sheaves_barrier_cpuslocked();
	cpus_read_unlock();
}

/**
 * kfree_rcu_sheaves_count - how many sheaves wait to be given to RCU
 *
 * Context: Any.
 * Return: The number of sheaves, not of objects.
 */
unsigned long kfree_rcu_sheaves_count(void)
{
	unsigned long nr = 0;
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		nr += READ_ONCE(per_cpu(rcu_sheaves, cpu).nr);
	return nr;
}
EXPORT_SYMBOL_IF_KUNIT(kfree_rcu_sheaves_count);

/**
 * kfree_rcu_sheaves_hurry - give the sheaves of all CPUs to RCU soon
 *
 * Does not wait for anything.
 *
 * Context: Any in which a task may be woken up: neither NMI nor scheduler.
 */
void kfree_rcu_sheaves_hurry(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		struct rcu_sheaves *rs = per_cpu_ptr(&rcu_sheaves, cpu);

		if (READ_ONCE(rs->nr))
			mod_delayed_work_on(cpu, rcu_sheaf_workqueue,
					    &rs->drain, 0);
	}
}
EXPORT_SYMBOL_IF_KUNIT(kfree_rcu_sheaves_hurry);

static int __init kfree_rcu_sheaves_init(void)
{
	struct workqueue_struct *wq;
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		struct rcu_sheaves *rs = per_cpu_ptr(&rcu_sheaves, cpu);

		raw_spin_lock_init(&rs->lock);
		INIT_LIST_HEAD(&rs->sheaves);
		INIT_DELAYED_WORK(&rs->drain, drain_fn);
		INIT_WORK(&rs->flush, flush_fn);
		rs->cpu = cpu;
	}

	wq = alloc_workqueue("slab_rcu", WQ_MEM_RECLAIM, 0);
	WARN_ON(!wq);
	/* Others use all of it as soon as they see it. */
	smp_store_release(&rcu_sheaf_workqueue, wq);
	return 0;
}

/* As soon as workqueues work. All take the old way until then. */
early_initcall(kfree_rcu_sheaves_init);
