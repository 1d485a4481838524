// SPDX-License-Identifier: GPL-2.0
/*
 * What was not needed is given back from time to time: rounds
 *
 * A work item looks at all caches, takes from each barn the full and the empty sheaves
 * that were there all the time, and from each CPU the sheaves of the caches that it does
 * not use. What sizes sheaves and barns should have after that is in
 * mm/slab_sheaf_grow.c.
 *
 * An idle machine stays idle. There is no timer unless somebody has needed objects from
 * slabs, one by one, for the sheaves of a CPU, in the last few seconds, or has found, one
 * by one, too, that barns are waited for often, or has chosen what follows the load. Then
 * rounds follow each other until there is nothing more to be given back or to be resized,
 * or nobody has needed anything for some rounds. Both timer and work are on CPUs that do
 * the housekeeping. The timer is not a deferrable one: all CPUs would wait for the one that
 * happens to have it to do something else.
 *
 * Whether a CPU uses its sheaves of a cache is seen from outside, by what they look like
 * in each round: if nothing has changed for some of them, they are taken away, all of
 * them by one interrupt for all caches. It is no harm if that is wrong, since there was
 * an object taken and one put back: the next one is refilled. CPUs that must not be
 * disturbed only lose their spare sheaf, see mm/slab_sheaf_admin.c.
 *
 * Locks. A round walks all caches under slab_mutex. Objects are given to slabs under no
 * other lock.
 */

#include <linux/cpumask.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/kasan.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sched/isolation.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <trace/events/slab_sheaf.h>
#include <kunit/visibility.h>

#include "slab_sheaf.h"

/* Rounds that a CPU must not have used its sheaves of a cache. */
#define IDLE_ROUNDS		2

/* Rounds after the last miss until the work ends. */
#define LAST_ROUNDS		4

static void sheaves_round_fn(struct work_struct *work);
static DECLARE_DELAYED_WORK(round_work, sheaves_round_fn);

/*
 * Somebody has needed objects from slabs since the last round. Before the workqueues
 * are there, it only looks so.
 */
unsigned int sheaves_missed __read_mostly = true;
EXPORT_SYMBOL_IF_KUNIT(sheaves_missed);

/* A round is to come, or is at work. Not a bool: some machines cannot xchg() bytes. */
static unsigned int watching;

/* What was counted before it began says nothing of an interval. */
static bool first_round;

/* Rounds without a miss since the last one. Under slab_mutex. */
static unsigned int quiet_rounds;

static void queue_round(void)
{
	unsigned long flags;

	local_irq_save(flags);
	queue_delayed_work_on(sheaf_timer_cpu(), system_unbound_wq, &round_work,
			      BALANCE_INTERVAL);
	local_irq_restore(flags);
}

/**
 * __sheaves_watch - have somebody look, from now on, at what sheaves do not need
 *
 * For sheaves_watch(), which passes by where somebody does already.
 *
 * Context: Any but NMI, in which others may be woken up.
 */
void __sheaves_watch(void)
{
	unsigned long flags;

	/* Who is stopped halfway keeps everybody else from beginning. */
	local_irq_save(flags);
	WRITE_ONCE(sheaves_missed, true);
	if (!xchg(&watching, true)) {
		WRITE_ONCE(first_round, true);
		queue_round();
	}
	local_irq_restore(flags);
}

/* Returns whether there may be more to give back later. */
static bool trim_barn(struct kmem_cache *s, int node,
		      struct list_head *sheaves)
{
	struct node_barn *barn = s->barns[node];

	if (!barn)
		return false;
	/* It is in use, though nobody needs more than there is. */
	if (READ_ONCE(barn->range_full.high) != READ_ONCE(barn->range_full.low))
		quiet_rounds = 0;
	sheaf_barn_lower(s, node, barn_take_unneeded(barn, sheaves, sheaves));
	return READ_ONCE(barn->nr_full) || READ_ONCE(barn->nr_empty) ||
	       READ_ONCE(barn->granted);
}

/* What the sheaves of a CPU look like. A look at what may not be a sheaf any more. */
static __no_kasan_or_inline unsigned int look_at(struct slub_percpu_sheaves *pcs)
{
	struct slab_sheaf *main = kasan_reset_tag(READ_ONCE(pcs->main));
	struct slab_sheaf *remote = kasan_reset_tag(READ_ONCE(pcs->remote));
	unsigned long look = (unsigned long)main ^ (unsigned long)READ_ONCE(pcs->spare);

	/* As in count_sheaf(), who writes to these need not care. */
	look = look / SMP_CACHE_BYTES + data_race(READ_ONCE(main->size));
	if (remote)
		look += data_race(READ_ONCE(remote->size)) << 16; /* as above */
	return look;
}

/* Returns whether the CPU has sheaves to give back, if not now. */
static bool trim_cpu(struct kmem_cache *s, unsigned int cpu,
		     struct cpumask *visit, struct list_head *sheaves)
{
	struct slub_percpu_sheaves *pcs = per_cpu_ptr(s->cpu_sheaves, cpu);
	unsigned int look;

	if (!cpu_has_sheaves(s, cpu))
		return false;

	look = look_at(pcs);
	if (look != pcs->seen) {
		pcs->seen = look;
		pcs->idle = 0;
		return true;
	}
	if (++pcs->idle < IDLE_ROUNDS)
		return true;
	sheaves_detach_spare(pcs, sheaves);
	if (cpu_is_isolated(cpu) || !cpu_online(cpu))
		return false;
	cpumask_set_cpu(cpu, visit);
	return false;
}

static bool is_idle(const struct kmem_cache *s,
		    const struct slub_percpu_sheaves *pcs)
{
	return pcs->idle >= IDLE_ROUNDS && sheaf_follows(s, BALANCE_WORKING_SET);
}

/* The CPUs that have sheaves which they do not use. Under slab_mutex. */
static struct cpumask visit_mask;

#ifdef CONFIG_PREEMPT_RT

static void take_idle(struct list_head *sheaves)
{
	struct slub_percpu_sheaves *pcs;
	struct kmem_cache *s;
	unsigned int cpu;

	for_each_cpu(cpu, &visit_mask) {
		list_for_each_entry(s, &slab_caches, list) {
			pcs = per_cpu_ptr(s->cpu_sheaves, cpu);
			if (!is_idle(s, pcs))
				continue;
			pcs->idle = 0;
			spin_lock(&pcs->lock);
			sheaves_detach_all(pcs, sheaves);
			spin_unlock(&pcs->lock);
		}
	}
}

#else /* !CONFIG_PREEMPT_RT */

static DEFINE_RAW_SPINLOCK(taken_lock);

/* An interrupt: sheaves that are in use are none to be taken. */
static void sheaves_take_idle_here(void *info)
{
	struct list_head *sheaves = info;
	struct slub_percpu_sheaves *pcs;
	struct kmem_cache *s;
	LIST_HEAD(taken);

	/* Who waits for this holds slab_mutex. */
	list_for_each_entry(s, &slab_caches, list) {
		pcs = this_cpu_ptr(s->cpu_sheaves);
		if (!is_idle(s, pcs))
			continue;
		pcs->idle = 0;
		if (!local_trylock(&s->cpu_sheaves->lock))
			continue;
		sheaves_detach_all(pcs, &taken);
		local_unlock(&s->cpu_sheaves->lock);
	}
	raw_spin_lock(&taken_lock);
	list_splice(&taken, sheaves);
	raw_spin_unlock(&taken_lock);
}

static void take_idle(struct list_head *sheaves)
{
	on_each_cpu_mask(&visit_mask, sheaves_take_idle_here, sheaves, true);
}

#endif /* CONFIG_PREEMPT_RT */

/* Returns whether there may be more to do later. */
static bool trim_cache(struct kmem_cache *s, struct list_head *sheaves)
{
	bool more = sheaf_tune_capacity(s, READ_ONCE(first_round));
	unsigned int cpu;
	int node;

	/* Who waits for barns uses them, though nobody needs more than there is. */
	if (more)
		quiet_rounds = 0;
	if (!sheaf_follows(s, BALANCE_WORKING_SET))
		return more;
	for_each_node(node)
		more |= trim_barn(s, node, sheaves);
	/* The memory of sheaves is SLAB_TYPESAFE_BY_RCU. */
	rcu_read_lock();
	for_each_possible_cpu(cpu)
		more |= trim_cpu(s, cpu, &visit_mask, sheaves);
	rcu_read_unlock();
	return more;
}

/**
 * sheaves_trim - give sheaves back that nobody needs, or that others need more
 * @sheaves: The sheaves, of any caches.
 *
 * Context: Task that may sleep, under slab_mutex.
 */
void sheaves_trim(struct list_head *sheaves)
{
	struct slab_sheaf *sheaf;

	while ((sheaf = next_to_release(sheaves))) {
		struct kmem_cache *s = sheaf->cache;

		stat_add(s, SHEAF_TRIM, sheaf->size);
		trace_slab_sheaf_trim(s->name, sheaf->size, sheaf->capacity);
		release_sheaf(s, sheaf);
		cond_resched();
	}
}

/* Returns whether there may be more to do later. */
static bool trim_caches(void)
{
	LIST_HEAD(sheaves);
	struct kmem_cache *s;
	bool more = false;

	lockdep_assert_held(&slab_mutex);
	cpumask_clear(&visit_mask);
	list_for_each_entry(s, &slab_caches, list) {
		if (s->barns)
			more |= trim_cache(s, &sheaves);
		cond_resched();
	}
	WRITE_ONCE(first_round, false);
	trace_slab_sheaf_round(quiet_rounds, cpumask_weight(&visit_mask), more);
	take_idle(&sheaves);
	sheaves_trim(&sheaves);
	return more;
}

/*
 * Look at all caches, once. Not static for the tests alone. Returns whether to look again
 * later.
 */
VISIBLE_IF_KUNIT bool sheaves_round(void)
{
	bool again;

	mutex_lock(&slab_mutex);
	/* Who misses from now on wants another round. */
	quiet_rounds = xchg(&sheaves_missed, false) ? 0 : quiet_rounds + 1;
	again = trim_caches() && quiet_rounds < LAST_ROUNDS;
	mutex_unlock(&slab_mutex);
	return again;
}
EXPORT_SYMBOL_IF_KUNIT(sheaves_round);

static void sheaves_round_fn(struct work_struct *work)
{
	if (sheaves_round()) {
		queue_round();
		return;
	}
	xchg(&watching, false);
	if (READ_ONCE(sheaves_missed))
		__sheaves_watch();
}

static int __init sheaf_trim_init(void)
{
	WRITE_ONCE(sheaves_missed, false);
	return 0;
}
subsys_initcall(sheaf_trim_init);
