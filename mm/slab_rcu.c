// SPDX-License-Identifier: GPL-2.0
/*
 * kfree_rcu() in sheaves
 *
 * An object that is freed by kfree_rcu() must stay as it is until a grace period
 * has passed: readers may still look at it. So each CPU has, for each cache, a
 * sheaf "rcu_free" that only collects. A full one joins a queue of its CPU, with the
 * number of the grace period that it waits for. When that is over, the free hooks
 * run on the objects, KASAN's among them, which must not come earlier. Then the
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
 * Who does the rest. A work item for each CPU's queue, but not on that CPU: it is
 * unbound, and runs where the housekeeping is done. So nothing disturbs a CPU that
 * is isolated, nothing waits for one of these that a real-time task keeps for itself,
 * and no objects are freed by softirqs, where others wait for them to end. The work item
 * starts a grace period after the first sheaf became full (from an isolated CPU, one
 * jiffy later), frees what has waited long enough, has RCU wake it up after another one
 * if there is more, and ends when the queue is empty. Under a flood of kfree_rcu() the
 * queue is as long as grace periods are, so RCU is asked for expedited ones; and who
 * causes the flood helps: a CPU with a long queue that needs another rcu_free sheaf frees
 * two from the head of its queue.
 *
 * Anybody may take an rcu_free sheaf away. The ones of a CPU, of all caches, are in
 * a list, and whoever removes a sheaf there, under rs->lock, owns it; the CPU that
 * finds it gone when it is full leaves it alone. Thus the work item collects what has
 * not become full after five seconds, which bounds how long an object waits to what
 * it was before; barriers collect it at once, shrinkers where too little is ready and
 * nothing waits that was taken away before; and a CPU that goes offline needs no
 * treatment of its own. Only, the CPU may be about to store one more
 * object there. It does so with preemption disabled (on PREEMPT_RT, in a read-side
 * critical section of RCU, as all spinlocks are), so after a grace period it is done.
 * Only then the last object in the sheaf begins to wait for its readers, for that it
 * was removed from where they find it may have become visible as late as that it was
 * stored: a sheaf that was taken away waits for two grace periods, one after the other.
 *
 * The barrier takes all that there is from all CPUs, waits, and frees it itself. What
 * others have taken from a queue before it came they free in a read-side critical
 * section of RCU, so the grace period that the barrier waits for includes that.
 * Counters tell for each cache whether there is anything to wait for when it is
 * destroyed: how many sheaves became rcu_free sheaves, and how many of them are done.
 *
 * Lock order: pcs->lock, rcu_sheaves->lock, the locks of timers and of call_rcu().
 * Under any of these, call_rcu() may have debugobjects allocate, from a cache of which
 * nothing is freed by kfree_rcu().
 */

#include <linux/cpumask.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/kasan.h>
#include <linux/kfence.h>
#include <linux/kmemleak.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/pgtable.h>
#include <linux/rcupdate.h>
#include <linux/sched/isolation.h>
#include <linux/spinlock.h>
#include <linux/timer.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>
#include <kunit/visibility.h>

#include "slab_sheaf.h"

/* As long as the old way lets objects wait. */
#define RCU_COLLECT_JIFFIES	(5 * HZ)

/* So many objects in the queue of a CPU make RCU begin with the next grace period early. */
#define RCU_SOME_OBJECTS	1000

/**
 * struct rcu_queue - sheaves that wait for a grace period, in that order
 * @first: The one that has waited longest, or NULL.
 * @last: Where the next one is linked.
 */
struct rcu_queue {
	struct slab_sheaf *first;
	struct slab_sheaf **last;
};

/**
 * struct rcu_sheaves - what a CPU has got by kfree_rcu()
 * @lock: Protects all that is not a work item, and rcu_free of the CPU's sheaves.
 * @filling: What the caches have as rcu_free on this CPU, by barn_list.
 * @taken: Those that were taken away before they were full, and to which the CPU
 *	   may still store.
 * @full: Those that nobody stores to, and that wait for readers of the objects.
 * @nr_objects: How many objects there are in @full.
 * @nr_busy: How many sheaves of both are being freed right now.
 * @asked: The grace period that RCU was asked for without waiting for its turn.
 * @hurried_at: When there was last a flood that an expedited one is good for, in jiffies.
 * @corrupt: Somebody has written to what was in @filling: nobody has been told yet.
 * @collect_at: When those in @filling will have waited long enough, in jiffies.
 * @awake: @soon or @after_gp is pending, or runs and will look at the queues; if
 *	   not, there is nothing in the queues.
 * @cpu: The CPU.
 * @collect: Pending or running whenever there is anything in @filling.
 * @soon: Looks at the queues a jiffy later.
 * @after_gp: Looks at the queues after a grace period.
 */
struct rcu_sheaves {
	raw_spinlock_t lock;	/* See above. Work is started under it. */
	struct list_head filling;
	struct rcu_queue taken;
	struct rcu_queue full;
	unsigned long nr_objects;
	unsigned int nr_busy;
	unsigned long asked;
	unsigned long hurried_at;
	unsigned int corrupt;	/* Some machines cannot xchg() bytes. */
	unsigned long collect_at;
	bool awake;
	unsigned int cpu;
	struct delayed_work collect;
	struct delayed_work soon;
	struct rcu_work after_gp;
};

static DEFINE_PER_CPU(struct rcu_sheaves, rcu_sheaves);

/* NULL until everything here can be used. */
static struct workqueue_struct *rcu_sheaf_workqueue;

/* Who holds it may have sheaves in his hands that are in no queue. */
static DEFINE_MUTEX(barrier_mutex);

/*
 * Queues
 */

static void queue_init(struct rcu_queue *q)
{
	q->first = NULL;
	q->last = &q->first;
}

static void queue_add(struct rcu_queue *q, struct slab_sheaf *sheaf)
{
	sheaf_check_queued(sheaf);
	sheaf->next = NULL;
	sheaf->gp = get_state_synchronize_rcu();
	*q->last = sheaf;
	q->last = &sheaf->next;
}

/*
 * If somebody has made it lead to itself, what was behind it is lost. It is of no cache
 * now, which whoever gets it sees, and says.
 */
static struct slab_sheaf *queue_next(struct slab_sheaf *sheaf)
{
	if (!IS_ENABLED(CONFIG_SLAB_FREELIST_HARDENED) ||
	    likely(sheaf->next != sheaf))
		return sheaf->next;
	sheaf->cache = NULL;
	return NULL;
}

static struct slab_sheaf *queue_del(struct rcu_queue *q)
{
	struct slab_sheaf *sheaf = q->first;

	if (!sheaf)
		return NULL;
	q->first = queue_next(sheaf);
	if (!q->first)
		q->last = &q->first;
	sheaf_check_taken(sheaf);
	return sheaf;
}

/* The first one, if its grace period is over. */
static struct slab_sheaf *queue_del_ready(struct rcu_queue *q)
{
	if (!q->first || !poll_state_synchronize_rcu(q->first->gp))
		return NULL;
	return queue_del(q);
}

static void queue_splice(struct rcu_queue *from, struct rcu_queue *to)
{
	if (!from->first)
		return;
	*to->last = from->first;
	to->last = from->last;
	queue_init(from);
}

/*
 * After the grace period
 */

/* Here and below sheaves are decoded, until they are put somewhere. */
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
	sheaf_cut(sheaf, nr);
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
		sheaf_check_fits(s, sheaf->objects, sheaf->size);
		sheaf_encode(s, sheaf);
		put_sheaf(s, sheaf);
		return;
	}

	if (full && all_remote(sheaf)) {
		stat_add(s, FREE_FASTPATH, sheaf->size);
		sheaf_check_fits(s, sheaf->objects, sheaf->size);
		sheaf_encode(s, sheaf);
		sheaf = send_home(s, sheaf);
	} else {
		free_to_other_sheaves(s, sheaf, accepted);
		stat_add(s, FREE_FASTPATH, sheaf->size);
		sheaf_encode(s, sheaf);
	}
	if (sheaf) {
		flush_sheaf(s, sheaf, SHEAF_FLUSH_PARTIAL);
		put_empty_sheaf(s, sheaf);
	}
}

/*
 * Who finds out is not who did it, and has others' sheaves in his hands: he goes on, unless
 * corrupt data are to stop whoever finds them.
 */
static void drop(struct kmem_cache *s, struct slab_sheaf *sheaf, unsigned int i)
{
	/* Those that are in order stay so: what is there twice is not to be in a row now. */
	memmove(&sheaf->objects[i], &sheaf->objects[i + 1],
		(sheaf->size - i - 1) * sizeof(*sheaf->objects));
	sheaf_cut(sheaf, sheaf->size - 1);
	slab_report_corruption(s, "an object that is freed twice");
}

/* As sheaf_is_marked(), of what may be anybody's: of KFENCE there may be nothing behind it. */
static bool freed_already(struct kmem_cache *s, void *object)
{
	return IS_ENABLED(CONFIG_SLAB_SHEAF_MARKS) &&
	       !is_kfence_address(object) && unlikely(sheaf_is_marked(s, object));
}

/*
 * What is marked is in another sheaf. What is twice in this one is so once the first of
 * them is.
 */
static void drop_marked(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	unsigned int i = 0;

	while (i < sheaf->size) {
		void *object = sheaf->objects[i];

		/* Its slab may be somebody else's by now. */
		if (!cache_has_object(s, object) ||
		    freed_already(s, object)) {
			drop(s, sheaf, i);
			continue;
		}
		if (!is_kfence_address(object))
			sheaf_mark(s, object);
		i++;
	}
	/* Whoever is next may keep it from being allocated. */
	for (i = 0; i < sheaf->size; i++)
		if (!is_kfence_address(sheaf->objects[i]))
			sheaf_unmark(s, sheaf->objects[i]);
}

/*
 * What is free already is not freed again, if this CPU has freed it, and nothing since, or
 * if it is marked.
 */
static void drop_freed_twice(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	const void *next;
	unsigned int i;

	if (IS_ENABLED(CONFIG_SLAB_SHEAF_MARKS)) {
		drop_marked(s, sheaf);
		return;
	}
	next = sheaf_next_object(s);
	if (!next)
		return;
	for (i = 0; i < sheaf->size; i++) {
		if (likely(sheaf->objects[i] != next))
			continue;
		drop(s, sheaf, i);
		break;
	}
}

static void free_rcu_sheaf(struct slab_sheaf *sheaf)
{
	struct kmem_cache *s = sheaf->cache;
	size_t size, accepted;

	/* Then it is left alone for ever, and there is no knowing whose it was. */
	if (unlikely(!sheaf_has_its_cache(sheaf))) {
		slab_report_corruption(NULL, "a sheaf of kfree_rcu()");
		return;
	}

	/* Marked they are not, until they can be allocated. */
	__sheaf_code(s, sheaf->objects, sheaf->size);
	sheaf_check_out(s, sheaf->objects, sheaf->size);
	drop_freed_twice(s, sheaf);
	size = sheaf->size;
	if (IS_ENABLED(CONFIG_DEBUG_OBJECTS_RCU_HEAD))
		kvfree_rcu_unqueue(sheaf->objects, size);
	accepted = slab_free_hooks_bulk(s, &size, sheaf->objects);
	sheaf_cut(sheaf, size);
	put_rcu_sheaf(s, sheaf, accepted);

	/* Pairs with none_under_way(): the cache may be gone from here on. */
	smp_mb();
	this_cpu_inc(s->cpu_sheaves->rcu_done);
}

static void full_add(struct rcu_sheaves *rs, struct slab_sheaf *sheaf)
{
	lockdep_assert_held(&rs->lock);
	queue_add(&rs->full, sheaf);
	WRITE_ONCE(rs->nr_objects, rs->nr_objects + sheaf->size);
}

/* Those to which nobody can store any more. Their objects begin to wait now. */
static void move_taken(struct rcu_sheaves *rs)
{
	struct slab_sheaf *sheaf;

	lockdep_assert_held(&rs->lock);
	while ((sheaf = queue_del_ready(&rs->taken)))
		full_add(rs, sheaf);
}

/*
 * Free one sheaf that has waited long enough. Who waits for a grace period after he
 * found the queues empty waits for this, too. Returns how many objects it had.
 */
static unsigned int free_one(struct rcu_sheaves *rs)
{
	struct slab_sheaf *sheaf;
	unsigned int nr = 0;
	unsigned long flags;

	rcu_read_lock();
	raw_spin_lock_irqsave(&rs->lock, flags);
	move_taken(rs);
	sheaf = queue_del_ready(&rs->full);
	if (sheaf) {
		nr = sheaf->size;
		/* Somebody may have written to it since it was added. */
		WRITE_ONCE(rs->nr_objects, rs->nr_objects - min(nr, rs->nr_objects));
		WRITE_ONCE(rs->nr_busy, rs->nr_busy + 1);
	}
	raw_spin_unlock_irqrestore(&rs->lock, flags);

	if (sheaf) {
		free_rcu_sheaf(sheaf);
		raw_spin_lock_irqsave(&rs->lock, flags);
		WRITE_ONCE(rs->nr_busy, rs->nr_busy - 1);
		raw_spin_unlock_irqrestore(&rs->lock, flags);
	}
	rcu_read_unlock();
	return nr;
}

/*
 * Before the grace period
 */

/*
 * Nobody is woken up here and now, at least one jiffy has to pass: this may be the
 * scheduler. Under the lock, as nobody must rely on what is not started yet.
 */
static void start_work(struct rcu_sheaves *rs, struct delayed_work *dwork,
		       unsigned long delay)
{
	lockdep_assert_held(&rs->lock);
	queue_delayed_work_on(sheaf_timer_cpu(), rcu_sheaf_workqueue, dwork, delay);
}

/*
 * There is something in the queues. RCU begins with it at once, and calls back here:
 * not where nothing should come back to, and not on PREEMPT_RT, where it is threads
 * that call back, and a real-time task may keep them from it.
 */
static void wake_up_queue(struct rcu_sheaves *rs)
{
	lockdep_assert_held(&rs->lock);
	if (rs->awake)
		return;
	rs->awake = true;
	if (IS_ENABLED(CONFIG_PREEMPT_RT) ||
	    cpu_is_isolated(smp_processor_id()))
		start_work(rs, &rs->soon, 1);
	else
		queue_rcu_work(rcu_sheaf_workqueue, &rs->after_gp);
}

/* Whether the queue ends with an object: mostly the one by which rcu_free became full. */
static bool full_ends_with(struct rcu_sheaves *rs, struct kmem_cache *s,
			   const void *object)
{
	struct slab_sheaf *sheaf;

	lockdep_assert_held(&rs->lock);
	if (!IS_ENABLED(CONFIG_SLAB_FREELIST_HARDENED) || !rs->full.first)
		return false;
	sheaf = container_of(rs->full.last, struct slab_sheaf, next);
	return sheaf_is_sound(s, sheaf) && sheaf_ends_with(s, sheaf, object);
}

/*
 * Whether nobody has written to the links of a sheaf that collects: whatever else its head
 * has lost is looked for by them.
 */
static bool filling_is_linked(const struct list_head *entry)
{
	return !IS_ENABLED(CONFIG_SLAB_FREELIST_HARDENED) ||
	       links_agree(entry);
}

/*
 * Somebody has written to the links of a sheaf. Nobody follows that list any more: those
 * on it stay rcu_free until they are full.
 */
static void forget_filling(struct rcu_sheaves *rs)
{
	lockdep_assert_held(&rs->lock);
	INIT_LIST_HEAD(&rs->filling);
	WRITE_ONCE(rs->corrupt, 1);
}

/* For who is about to follow the list. */
static void check_filling(struct rcu_sheaves *rs)
{
	if (IS_ENABLED(CONFIG_SLAB_FREELIST_HARDENED) &&
	    !list_agrees(&rs->filling))
		forget_filling(rs);
}

/*
 * An empty sheaf becomes rcu_free of this CPU. Returns whether its first object has just
 * been freed already.
 */
static bool install_rcu_free(struct slub_percpu_sheaves *pcs,
			     struct slab_sheaf *sheaf, const void *object)
{
	struct rcu_sheaves *rs = this_cpu_ptr(&rcu_sheaves);
	unsigned long flags;
	bool twice;

	lockdep_assert_held(&pcs->lock);
	raw_spin_lock_irqsave(&rs->lock, flags);
	if (list_empty(&rs->filling)) {
		rs->collect_at = jiffies + RCU_COLLECT_JIFFIES;
		start_work(rs, &rs->collect, RCU_COLLECT_JIFFIES);
	}
	if (unlikely(!filling_is_linked(&rs->filling)))
		forget_filling(rs);
	list_add_tail(&sheaf->barn_list, &rs->filling);
	WRITE_ONCE(pcs->rcu_free, sheaf);
	WRITE_ONCE(pcs->rcu_taken, pcs->rcu_taken + 1);
	twice = full_ends_with(rs, sheaf->cache, object);
	raw_spin_unlock_irqrestore(&rs->lock, flags);
	return twice;
}

/* Not under the lock: it may stop the task. */
static void report_filling(struct rcu_sheaves *rs)
{
	if (unlikely(READ_ONCE(rs->corrupt)) && xchg(&rs->corrupt, 0))
		slab_report_corruption(NULL, "what sheaves collect for kfree_rcu()");
}

static void remove_rcu_free(struct rcu_sheaves *rs,
			    struct slub_percpu_sheaves *pcs,
			    struct slab_sheaf *sheaf)
{
	lockdep_assert_held(&rs->lock);
	WRITE_ONCE(pcs->rcu_free, NULL);
	/* If not, the list is wrong, or it has been forgotten, and this is not on it. */
	if (likely(filling_is_linked(&sheaf->barn_list) &&
		   !list_empty(&sheaf->barn_list)))
		list_del(&sheaf->barn_list);
	else
		check_filling(rs);
}

/* Of whatever CPU, which may be storing to it. */
static void take_away(struct rcu_sheaves *rs, struct slub_percpu_sheaves *pcs,
		      struct slab_sheaf *sheaf)
{
	remove_rcu_free(rs, pcs, sheaf);
	queue_add(&rs->taken, sheaf);
}

/*
 * Whose rcu_free it is: it must not be stored to any more, once it waits. NULL if its cache
 * does not know it, which may be anything, and be destroyed meanwhile.
 */
static struct slub_percpu_sheaves *rcu_free_of(struct rcu_sheaves *rs,
					       struct slab_sheaf *sheaf)
{
	struct kmem_cache *s = READ_ONCE(sheaf->cache);
	struct slub_percpu_sheaves *pcs;
	struct slab_sheaf *rcu_free;

	if (!IS_ENABLED(CONFIG_SLAB_FREELIST_HARDENED))
		return per_cpu_ptr(s->cpu_sheaves, rs->cpu);
	if (unlikely(!sheaf_cache_is_one(s)))
		return NULL;
	pcs = per_cpu_ptr(READ_ONCE(s->cpu_sheaves), rs->cpu);
	if (unlikely(get_kernel_nofault(rcu_free, &pcs->rcu_free)))
		return NULL;
	return likely(rcu_free == sheaf) ? pcs : NULL;
}

static void take_all_away(struct rcu_sheaves *rs)
{
	struct slub_percpu_sheaves *pcs;
	struct slab_sheaf *sheaf;

	check_filling(rs);
	while (!list_empty(&rs->filling)) {
		sheaf = list_first_entry(&rs->filling, struct slab_sheaf,
					 barn_list);
		pcs = rcu_free_of(rs, sheaf);
		if (unlikely(!pcs)) {
			/* It is one, of whatever cache, until it is full. */
			list_del_init(&sheaf->barn_list);
			WRITE_ONCE(rs->corrupt, 1);
			continue;
		}
		take_away(rs, pcs, sheaf);
	}
}

static bool any_cpu_is_isolated(void)
{
	unsigned int cpu;

	for_each_online_cpu(cpu)
		if (cpu_is_isolated(cpu))
			return true;
	return false;
}

/*
 * The more objects wait, the sooner grace periods should be over. RCU is asked for the
 * next one while this one lasts, and in a flood, once a jiffy, for an expedited one, after
 * which who floods helps. That interrupts all CPUs that do something, so not if any of
 * them must not be disturbed, nor on PREEMPT_RT. It is for speed only: whoever keeps it
 * from coming does not keep the next one that is not expedited. Wakes up who sees to
 * grace periods: not from the scheduler.
 */
static void hurry_rcu(struct rcu_sheaves *rs, unsigned long gp)
{
	unsigned long nr = READ_ONCE(rs->nr_objects);
	unsigned long now = jiffies;

	if (nr < RCU_SOME_OBJECTS || irqs_disabled())
		return;
	if (READ_ONCE(rs->asked) != gp) {
		WRITE_ONCE(rs->asked, gp);
		start_poll_synchronize_rcu();
	}

	if (nr < RCU_MANY_OBJECTS || READ_ONCE(rs->hurried_at) == now ||
	    !in_task())
		return;
	WRITE_ONCE(rs->hurried_at, now);
	if (!IS_ENABLED(CONFIG_PREEMPT_RT) && !any_cpu_is_isolated())
		start_poll_synchronize_rcu_expedited();
}

/*
 * The rcu_free of this CPU is full, by a store that was all right even if somebody
 * has taken it away meanwhile.
 */
static void rcu_free_is_full(struct slub_percpu_sheaves *pcs,
			     struct slab_sheaf *sheaf)
{
	struct rcu_sheaves *rs = this_cpu_ptr(&rcu_sheaves);
	unsigned long flags;
	unsigned long gp = 0;

	lockdep_assert_held(&pcs->lock);
	raw_spin_lock_irqsave(&rs->lock, flags);
	if (pcs->rcu_free == sheaf) {
		remove_rcu_free(rs, pcs, sheaf);
		full_add(rs, sheaf);
		wake_up_queue(rs);
		gp = sheaf->gp;
	}
	raw_spin_unlock_irqrestore(&rs->lock, flags);
	if (gp)
		hurry_rcu(rs, gp);
}

/*
 * The rcu_free of this CPU, or NULL. One that somebody has written to who should not is
 * left alone.
 */
static struct slab_sheaf *sound_rcu_free(struct kmem_cache *s,
					 struct slub_percpu_sheaves *pcs)
{
	struct rcu_sheaves *rs = this_cpu_ptr(&rcu_sheaves);
	struct slab_sheaf *sheaf = READ_ONCE(pcs->rcu_free);
	unsigned long flags;

	if (!IS_ENABLED(CONFIG_SLAB_FREELIST_HARDENED) || !sheaf ||
	    likely(sheaf_is_sound(s, sheaf) && sheaf->size < sheaf->capacity))
		return sheaf;

	raw_spin_lock_irqsave(&rs->lock, flags);
	if (pcs->rcu_free == sheaf) {
		remove_rcu_free(rs, pcs, sheaf);
		WRITE_ONCE(pcs->rcu_done, pcs->rcu_done + 1);
	}
	raw_spin_unlock_irqrestore(&rs->lock, flags);
	sheaf_is_unsound(s, true);
	return NULL;
}

/*
 * Whoever floods the queue of this CPU frees as much as he adds. But to free may be to
 * call kfree_rcu(), as for the last object of a memcg, and to get here again.
 */
static void help_if_flooded(void)
{
	struct rcu_sheaves *rs = raw_cpu_ptr(&rcu_sheaves);

	if (likely(READ_ONCE(rs->nr_objects) < RCU_MANY_OBJECTS) ||
	    READ_ONCE(rs->nr_busy) > 1 || !in_task() || irqs_disabled())
		return;
	if (free_one(rs))
		free_one(rs);
}

static struct slab_sheaf *get_rcu_free(struct kmem_cache *s)
{
	if (!rcu_sheaf_workqueue)
		return NULL;
	/*
	 * The caller may hold any lock, and no gfp flag is harmless. Who has
	 * interrupts off may even be the scheduler.
	 */
	if (irqs_disabled())
		return find_empty_sheaf(s);
	if (!sheaf_capacity(s))
		return NULL;
	help_if_flooded();
	return get_empty_sheaf(s, 0);
}

/*
 * Called with the sheaf lock of this CPU held, when rcu_free is missing, or the
 * next object makes it full. Releases the lock.
 */
static bool kfree_rcu_slow(struct kmem_cache *s, void *object)
{
	struct slub_percpu_sheaves *pcs = this_cpu_ptr(s->cpu_sheaves);
	struct slab_sheaf *sheaf = sound_rcu_free(s, pcs);
	struct slab_sheaf *empty = NULL;
	bool twice = false;

	if (!sheaf) {
		local_unlock(&s->cpu_sheaves->lock);
		empty = get_rcu_free(s);
		if (!empty)
			return false;
		if (!sheaf_lock_to_install(s)) {
			put_empty_sheaf(s, empty);
			return false;
		}
		/* Perhaps on another CPU, or an interrupt has brought one. */
		pcs = this_cpu_ptr(s->cpu_sheaves);
		sheaf = sound_rcu_free(s, pcs);
		if (!sheaf) {
			sheaf = empty;
			empty = NULL;
			sheaf_check_used(pcs, sheaf);
			twice = install_rcu_free(pcs, sheaf, object);
		}
	}

	if (twice || freed_already(s, object) ||
	    sheaf_ends_with(s, sheaf, object)) {
		sheaf_freed_twice(s, object);
	} else {
		void **slot = &sheaf->objects[sheaf->size];

		sheaf_check_in(s, &object, 1);
		*slot = sheaf_code(s, slot, object);
		WRITE_ONCE(sheaf->size, sheaf->size + 1);
		if (sheaf->size == sheaf->capacity)
			rcu_free_is_full(pcs, sheaf);
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
	if (freed_already(s, object)) {
		slab_report_double_free(s, object);
		return;
	}
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
	if (unlikely(!sheaf || !sheaf_stays_open(sheaf) ||
		     freed_already(s, object) ||
		     sheaf_ends_with(s, sheaf, object))) {
		kfree_rcu_rest(s, head, object);
		return;
	}

	sheaf_collect(s, sheaf, object);
	local_unlock(&sheaves->lock);
	stat(s, FREE_RCU_SHEAF);
	return;

no_slab:
	kvfree_call_rcu_batched(head, object);
}

/*
 * Nothing is left behind
 */

/* Have RCU wake us up if there is anything left. */
static void wait_for_more(struct rcu_sheaves *rs)
{
	unsigned long flags;
	bool more;

	raw_spin_lock_irqsave(&rs->lock, flags);
	more = rs->taken.first || rs->full.first;
	rs->awake = more;
	raw_spin_unlock_irqrestore(&rs->lock, flags);
	if (more)
		queue_rcu_work(rcu_sheaf_workqueue, &rs->after_gp);
}

/*
 * Free what can be freed, and see to it that the rest is. Its grace period does not
 * wait for that.
 */
static void run_queue(struct rcu_sheaves *rs)
{
	wait_for_more(rs);
	while (free_one(rs))
		cond_resched();
	wait_for_more(rs);
}

static void soon_fn(struct work_struct *work)
{
	run_queue(container_of(to_delayed_work(work), struct rcu_sheaves,
			       soon));
}

static void after_gp_fn(struct work_struct *work)
{
	run_queue(container_of(to_rcu_work(work), struct rcu_sheaves,
			       after_gp));
}

/*
 * Take away what a CPU has collected so far. Who is short of memory asks again and again,
 * with @again: not while that waits which was taken before, or each object would soon be in
 * a sheaf of its own.
 */
static void collect_now(struct rcu_sheaves *rs, bool again)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&rs->lock, flags);
	if (!list_empty(&rs->filling) && !(again && rs->taken.first)) {
		take_all_away(rs);
		wake_up_queue(rs);
	}
	raw_spin_unlock_irqrestore(&rs->lock, flags);
	report_filling(rs);
}

/* The same, if it has been there for long enough; or else come back for it. */
static void collect_fn(struct work_struct *work)
{
	struct rcu_sheaves *rs = container_of(to_delayed_work(work),
					      struct rcu_sheaves, collect);
	unsigned long flags;
	long left;

	raw_spin_lock_irqsave(&rs->lock, flags);
	left = rs->collect_at - jiffies;
	if (list_empty(&rs->filling)) {
		/* It was collected by somebody else. */
	} else if (left > 0) {
		start_work(rs, &rs->collect, left);
	} else {
		take_all_away(rs);
		wake_up_queue(rs);
	}
	raw_spin_unlock_irqrestore(&rs->lock, flags);
	report_filling(rs);
}

/**
 * kfree_rcu_cpu_dead - do not let the objects wait that an offline CPU was to free
 * @cpu: The CPU.
 *
 * Context: Task.
 */
void kfree_rcu_cpu_dead(unsigned int cpu)
{
	collect_now(per_cpu_ptr(&rcu_sheaves, cpu), false);
}

/**
 * kfree_rcu_sheaves_give - have what kfree_rcu() has collected of a cache freed soon
 * @s: The cache.
 *
 * Does not wait for anything.
 *
 * Context: Any but NMI and scheduler. Nobody destroys the cache.
 */
void kfree_rcu_sheaves_give(struct kmem_cache *s)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		struct slub_percpu_sheaves *pcs;
		struct rcu_sheaves *rs;
		unsigned long flags;

		pcs = per_cpu_ptr(s->cpu_sheaves, cpu);
		if (!READ_ONCE(pcs->rcu_free))
			continue;
		rs = per_cpu_ptr(&rcu_sheaves, cpu);
		raw_spin_lock_irqsave(&rs->lock, flags);
		if (pcs->rcu_free) {
			take_away(rs, pcs, pcs->rcu_free);
			wake_up_queue(rs);
		}
		raw_spin_unlock_irqrestore(&rs->lock, flags);
	}
}

/*
 * Take all that a CPU has. If @quiet, nobody stores to the sheaves of that cache any
 * more. Returns whether there is anything to wait for.
 */
static bool take_queues(struct rcu_sheaves *rs, struct kmem_cache *quiet,
			struct rcu_queue *taken, struct rcu_queue *full)
{
	struct slab_sheaf *sheaf;
	unsigned long flags;
	bool any;

	raw_spin_lock_irqsave(&rs->lock, flags);
	take_all_away(rs);
	any = rs->taken.first || rs->full.first || rs->nr_busy;
	while ((sheaf = queue_del(&rs->taken)))
		queue_add(sheaf->cache == quiet ? full : taken, sheaf);
	queue_splice(&rs->full, full);
	WRITE_ONCE(rs->nr_objects, 0);
	raw_spin_unlock_irqrestore(&rs->lock, flags);
	return any;
}

static void free_queue(struct rcu_queue *q)
{
	struct slab_sheaf *sheaf;

	while ((sheaf = queue_del(q))) {
		free_rcu_sheaf(sheaf);
		cond_resched();
	}
}

static void free_all(struct kmem_cache *quiet)
{
	struct rcu_queue taken, full;
	unsigned int cpu;
	bool any = false;

	lockdep_assert_held(&barrier_mutex);
	queue_init(&taken);
	queue_init(&full);
	for_each_possible_cpu(cpu)
		any |= take_queues(per_cpu_ptr(&rcu_sheaves, cpu), quiet,
				   &taken, &full);
	if (any)
		synchronize_rcu();
	free_queue(&full);
	/* Nobody stores to these now. Their readers have another one to go. */
	if (taken.first)
		synchronize_rcu();
	free_queue(&taken);
}

static void report_all_filling(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		report_filling(per_cpu_ptr(&rcu_sheaves, cpu));
}

/**
 * kfree_rcu_sheaves_barrier - wait for objects in sheaves to be freed
 *
 * Whatever sheaves have taken from kfree_rcu() before this is called, on any
 * CPU, is freed when it returns.
 *
 * Context: Task that may sleep.
 */
void kfree_rcu_sheaves_barrier(void)
{
	if (!rcu_sheaf_workqueue)
		return;

	mutex_lock(&barrier_mutex);
	free_all(NULL);
	mutex_unlock(&barrier_mutex);
	report_all_filling();
}

/*
 * Whether all objects of a cache that were given to kfree_rcu() are freed. Who is
 * counted by two CPUs was first taken and is done later. Having read the latter first,
 * the answer may be a false alarm, but not false comfort.
 */
static bool none_under_way(struct kmem_cache *s)
{
	unsigned int done = 0, taken = 0;
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		done += READ_ONCE(per_cpu_ptr(s->cpu_sheaves, cpu)->rcu_done);
	/* Pairs with free_rcu_sheaf(). */
	smp_mb();
	for_each_possible_cpu(cpu)
		taken += READ_ONCE(per_cpu_ptr(s->cpu_sheaves, cpu)->rcu_taken);
	return done == taken;
}

/**
 * kfree_rcu_sheaves_barrier_on_cache - wait for objects of one cache to be freed
 * @s: The cache. Nobody calls kfree_rcu() for an object of it any more, unless it is
 *     merged with others.
 *
 * Context: Task that may sleep.
 */
void kfree_rcu_sheaves_barrier_on_cache(struct kmem_cache *s)
{
	if (none_under_way(s))
		return;

	/* What is on no list any more is found like this. */
	if (IS_ENABLED(CONFIG_SLAB_FREELIST_HARDENED))
		kfree_rcu_sheaves_give(s);
	mutex_lock(&barrier_mutex);
	/*
	 * Somebody else may have done it meanwhile. If not, others may go on with a
	 * cache that is merged, or is about to be.
	 */
	if (!none_under_way(s))
		free_all(slab_unmergeable(s) ? s : NULL);
	mutex_unlock(&barrier_mutex);
	report_all_filling();
}

static unsigned long count_objects(struct rcu_sheaves *rs)
{
	struct slab_sheaf *sheaf;
	unsigned long flags;
	unsigned long nr;

	raw_spin_lock_irqsave(&rs->lock, flags);
	nr = rs->nr_objects;
	check_filling(rs);
	/* The CPU may be storing to these, and need not mark that for who counts. */
	list_for_each_entry(sheaf, &rs->filling, barn_list)
		nr += data_race(READ_ONCE(sheaf->size)); /* see above */
	for (sheaf = rs->taken.first; sheaf; sheaf = queue_next(sheaf))
		nr += data_race(READ_ONCE(sheaf->size)); /* see above */
	raw_spin_unlock_irqrestore(&rs->lock, flags);
	return nr;
}

/**
 * kfree_rcu_sheaves_count - how many objects are in sheaves and wait to be freed
 *
 * Context: Any.
 * Return: The number of objects, of all caches.
 */
unsigned long kfree_rcu_sheaves_count(void)
{
	unsigned long nr = 0;
	unsigned int cpu;

	if (!rcu_sheaf_workqueue)
		return 0;
	for_each_possible_cpu(cpu)
		nr += count_objects(per_cpu_ptr(&rcu_sheaves, cpu));
	return nr;
}
EXPORT_SYMBOL_IF_KUNIT(kfree_rcu_sheaves_count);

/**
 * kfree_rcu_sheaves_scan - free objects in sheaves that have waited long enough
 * @nr: How many should be freed.
 *
 * If these are too few, those that have not are freed as soon as they have: the sheaves
 * that collect do not collect any further, where no others wait. Does not wait for anything.
 *
 * Context: Task, as for kfree().
 * Return: How many objects are freed now.
 */
unsigned long kfree_rcu_sheaves_scan(unsigned long nr)
{
	unsigned long done = 0;
	unsigned int cpu, freed;

	if (!rcu_sheaf_workqueue)
		return 0;
	for_each_possible_cpu(cpu) {
		struct rcu_sheaves *rs = per_cpu_ptr(&rcu_sheaves, cpu);

		while (done < nr && (freed = free_one(rs)))
			done += freed;
		if (done < nr)
			collect_now(rs, true);
	}
	return done;
}
EXPORT_SYMBOL_IF_KUNIT(kfree_rcu_sheaves_scan);

#if IS_ENABLED(CONFIG_KUNIT)
/**
 * kfree_rcu_sheaves_hold - for tests: leave a CPU's queues to those who call
 * @cpu: The CPU.
 *
 * No work item looks at them until kfree_rcu_sheaves_go_on() is called.
 *
 * Context: Task that may sleep.
 * Return: Whether it is so. If not, there was something in them, or a work item was yet
 *	   to look, and has: try again.
 */
bool kfree_rcu_sheaves_hold(unsigned int cpu)
{
	struct rcu_sheaves *rs = per_cpu_ptr(&rcu_sheaves, cpu);
	unsigned long flags;
	bool busy, held;

	/* Who finds nothing left may have to come back all the same. */
	busy = flush_delayed_work(&rs->soon);
	busy |= flush_rcu_work(&rs->after_gp);
	raw_spin_lock_irqsave(&rs->lock, flags);
	held = !busy && !rs->awake;
	if (held)
		rs->awake = true;
	raw_spin_unlock_irqrestore(&rs->lock, flags);
	return held;
}
EXPORT_SYMBOL_IF_KUNIT(kfree_rcu_sheaves_hold);

/**
 * kfree_rcu_sheaves_go_on - for tests: free what has waited since kfree_rcu_sheaves_hold()
 * @cpu: The CPU.
 *
 * Context: Any but NMI.
 */
void kfree_rcu_sheaves_go_on(unsigned int cpu)
{
	wait_for_more(per_cpu_ptr(&rcu_sheaves, cpu));
}
EXPORT_SYMBOL_IF_KUNIT(kfree_rcu_sheaves_go_on);
#endif

static void do_nothing(struct timer_list *timer) { }
static void never_mind(struct rcu_head *head) { }

/*
 * The lock orders that are told above, and in mm/slab_sheaf.c, are known before anybody
 * depends on them.
 */
static void __init tell_lock_order(struct rcu_sheaves *rs)
{
	static struct rcu_head head;
	struct timer_list timer;

	if (!IS_ENABLED(CONFIG_PROVE_LOCKING))
		return;
	timer_setup_on_stack(&timer, do_nothing, 0);
	mutex_lock(&barrier_mutex);
	local_lock(&kmem_cache->cpu_sheaves->lock);
	raw_spin_lock_irq(&rs->lock);
	mod_timer(&timer, jiffies + HZ);
	call_rcu(&head, never_mind);
	raw_spin_unlock_irq(&rs->lock);
	local_unlock(&kmem_cache->cpu_sheaves->lock);
	mutex_unlock(&barrier_mutex);
	timer_delete_sync(&timer);
	destroy_timer_on_stack(&timer);
}

static int __init kfree_rcu_sheaves_init(void)
{
	struct workqueue_struct *wq;
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		struct rcu_sheaves *rs = per_cpu_ptr(&rcu_sheaves, cpu);

		raw_spin_lock_init(&rs->lock);
		INIT_LIST_HEAD(&rs->filling);
		queue_init(&rs->taken);
		queue_init(&rs->full);
		INIT_DELAYED_WORK(&rs->collect, collect_fn);
		INIT_DELAYED_WORK(&rs->soon, soon_fn);
		INIT_RCU_WORK(&rs->after_gp, after_gp_fn);
		rs->cpu = cpu;
	}
	tell_lock_order(raw_cpu_ptr(&rcu_sheaves));

	wq = alloc_workqueue("slab_rcu", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	WARN_ON(!wq);
	/* Others use all of it as soon as they see it. */
	smp_store_release(&rcu_sheaf_workqueue, wq);
	return 0;
}

/* As soon as workqueues work. All take the old way until then. */
early_initcall(kfree_rcu_sheaves_init);
