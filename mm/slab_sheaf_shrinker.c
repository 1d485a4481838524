// SPDX-License-Identifier: GPL-2.0
/*
 * What sheaves hold is given back when memory is short
 *
 * A shrinker has the full sheaves of the barns: first of those that have not had fewer in
 * this interval, then of all, the oldest first; then the spare sheaves of the CPUs.
 * Before anybody is killed for want of memory, all of that is given back. Empty sheaves
 * are left to the rounds of mm/slab_sheaf_trim.c.
 *
 * Locks. All caches are walked under slab_mutex, if it can be had at once: somebody who
 * holds it may be waiting for memory.
 */

#include <linux/cpumask.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/limits.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/oom.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/swap.h>
#include <trace/events/slab_sheaf.h>
#include <kunit/visibility.h>

#include "slab_sheaf.h"

/* It takes its time to look at the spares of all CPUs: so often at most. */
#define COUNT_INTERVAL	(HZ / 4)
/* So often may who wants to kill somebody be put off. */
#define OOM_INTERVAL	(10 * HZ)

/* What the spares on a node had when they were counted last. Under slab_mutex. */
struct counted_spares {
	unsigned long nr;
	u64 again_at;
};

static struct counted_spares *counted_spares __ro_after_init;

static bool is_cold(const struct node_barn *barn)
{
	return READ_ONCE(barn->range_full.low) >= READ_ONCE(barn->nr_full);
}

/*
 * Up to @nr objects, and a sheaf more, of one barn; but no more than it has now, as others
 * may fill it meanwhile.
 */
static unsigned long squeeze_barn(struct node_barn *barn, unsigned long nr,
				  struct list_head *sheaves)
{
	unsigned int left = READ_ONCE(barn->nr_full);
	struct slab_sheaf *sheaf;
	unsigned long taken = 0;
	LIST_HEAD(full);

	while (taken < nr && left--) {
		barn_take_oldest(barn, 1, &full);
		if (list_empty(&full))
			break;
		sheaf = list_first_entry(&full, struct slab_sheaf, barn_list);
		taken += sheaf->size;
		list_splice_init(&full, sheaves);
	}
	return taken;
}

static unsigned long squeeze_barns(int node, bool only_cold, unsigned long nr,
				   struct list_head *sheaves)
{
	unsigned long taken = 0;
	struct kmem_cache *s;

	list_for_each_entry(s, &slab_caches, list) {
		struct node_barn *barn;

		if (!s->barns || !sheaf_follows(s, BALANCE_PRESSURE))
			continue;
		barn = READ_ONCE(s->barns[node]);
		if (!barn || (only_cold && !is_cold(barn)))
			continue;
		taken += squeeze_barn(barn, nr - taken, sheaves);
		if (taken >= nr)
			break;
		cond_resched();
	}
	return taken;
}

static unsigned long squeeze_cpu(unsigned int cpu, struct list_head *sheaves)
{
	unsigned long taken = 0;
	struct kmem_cache *s;

	list_for_each_entry(s, &slab_caches, list) {
		LIST_HEAD(spare);

		if (!s->barns || !sheaf_follows(s, BALANCE_PRESSURE))
			continue;
		sheaves_detach_spare(per_cpu_ptr(s->cpu_sheaves, cpu), &spare);
		if (list_empty(&spare))
			continue;
		taken += list_first_entry(&spare, struct slab_sheaf,
					  barn_list)->size;
		list_splice(&spare, sheaves);
	}
	return taken;
}

static unsigned long squeeze_cpus(int node, unsigned long nr,
				  struct list_head *sheaves)
{
	unsigned long taken = 0;
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		if (cpu_to_node(cpu) != node)
			continue;
		taken += squeeze_cpu(cpu, sheaves);
		if (taken >= nr)
			break;
	}
	return taken;
}

static unsigned long squeeze_spares(int node, unsigned long nr,
				    struct list_head *sheaves)
{
	unsigned long taken = squeeze_cpus(node, nr, sheaves);
	struct counted_spares *c = counted_spares;

	if (c)
		c[node].nr -= min(c[node].nr, taken);
	return taken;
}

/* The coldest first. */
static unsigned long squeeze(int node, unsigned long nr)
{
	unsigned long taken;
	LIST_HEAD(sheaves);

	lockdep_assert_held(&slab_mutex);
	taken = squeeze_barns(node, true, nr, &sheaves);
	if (taken < nr)
		taken += squeeze_barns(node, false, nr - taken, &sheaves);
	if (taken < nr)
		taken += squeeze_spares(node, nr - taken, &sheaves);
	trace_slab_sheaf_shrink(node, nr, taken);
	sheaves_trim(&sheaves);
	return taken;
}

static unsigned long count_barns(int node)
{
	unsigned long nr = 0;
	struct kmem_cache *s;

	list_for_each_entry(s, &slab_caches, list) {
		struct node_barn *barn;

		if (!s->barns || !sheaf_follows(s, BALANCE_PRESSURE))
			continue;
		barn = s->barns[node];
		if (barn)
			nr += READ_ONCE(barn->nr_objects);
	}
	return nr;
}

/* In the spare sheaves. */
static unsigned long count_spares(int node)
{
	struct kmem_cache *s;
	unsigned long nr = 0;
	unsigned int cpu;

	list_for_each_entry(s, &slab_caches, list) {
		if (!s->barns || !sheaf_follows(s, BALANCE_PRESSURE))
			continue;
		/* The memory of sheaves is SLAB_TYPESAFE_BY_RCU. */
		rcu_read_lock();
		for_each_possible_cpu(cpu)
			if (cpu_to_node(cpu) == node)
				nr += count_sheaf(&per_cpu_ptr(s->cpu_sheaves, cpu)->spare);
		rcu_read_unlock();
	}
	return nr;
}

static unsigned long recent_spares(int node)
{
	struct counted_spares *c = &counted_spares[node];
	u64 now = get_jiffies_64();

	lockdep_assert_held(&slab_mutex);
	if (now >= c->again_at) {
		c->nr = count_spares(node);
		c->again_at = now + COUNT_INTERVAL;
	}
	return c->nr;
}

/* Reclaim knows nodes that have memory: they have what is in the barns of others, too. */
static unsigned long count_fn(struct shrinker *shrinker,
			      struct shrink_control *sc)
{
	unsigned long nr = 0;
	int node;

	if (!mutex_trylock(&slab_mutex))
		return 0;
	for_each_online_node(node)
		if (sheaf_paying_node(node) == sc->nid)
			nr += count_barns(node) + recent_spares(node);
	mutex_unlock(&slab_mutex);
	return nr ?: SHRINK_EMPTY;
}

static unsigned long scan_fn(struct shrinker *shrinker,
			     struct shrink_control *sc)
{
	unsigned long nr = 0;
	int node;

	if (!mutex_trylock(&slab_mutex))
		return SHRINK_STOP;
	for_each_online_node(node)
		if (sheaf_paying_node(node) == sc->nid && nr < sc->nr_to_scan)
			nr += squeeze(node, sc->nr_to_scan - nr);
	mutex_unlock(&slab_mutex);
	sc->nr_scanned = nr;
	return nr ?: SHRINK_STOP;
}

/**
 * sheaves_give_back - give back all that the shrinker could
 *
 * Context: Task that may sleep. Does nothing if slab_mutex is held by somebody.
 * Return: The number of objects.
 */
unsigned long sheaves_give_back(void)
{
	unsigned long nr = 0;
	int node;

	if (!mutex_trylock(&slab_mutex))
		return 0;
	for_each_node(node)
		nr += squeeze(node, ULONG_MAX);
	mutex_unlock(&slab_mutex);
	return nr;
}
EXPORT_SYMBOL_IF_KUNIT(sheaves_give_back);

/**
 * sheaves_free_pages - the same, for who wants pages
 *
 * What this task frees meanwhile is counted. The statistics of slabs have it later, and
 * what others do, too.
 *
 * Context: As sheaves_give_back().
 * Return: The number of pages that are free now.
 */
unsigned long sheaves_free_pages(void)
{
	struct reclaim_state *others = current->reclaim_state;
	struct reclaim_state ours = { };
	unsigned long nr;

	current->reclaim_state = &ours;
	nr = sheaves_give_back();
	current->reclaim_state = others;
	if (others)
		others->reclaimed += ours.reclaimed;
	return nr ? ours.reclaimed : 0;
}
EXPORT_SYMBOL_IF_KUNIT(sheaves_free_pages);

/**
 * sheaves_put_off_oom - whether who wants to kill somebody shall try again instead
 * @pages: How many were freed.
 * @now: What time it is, in jiffies.
 * @next: When he may be put off again. Changed, if he is.
 *
 * Others may fill sheaves as fast as they are emptied, with pages that he must not have, or
 * which are too small for him: that must not go on for ever.
 *
 * Context: Any, if nobody else uses @next.
 * Return: Whether he shall.
 */
bool sheaves_put_off_oom(unsigned long pages, u64 now, u64 *next)
{
	if (!pages || now < *next)
		return false;
	*next = now + OOM_INTERVAL;
	return true;
}
EXPORT_SYMBOL_IF_KUNIT(sheaves_put_off_oom);

static int oom_fn(struct notifier_block *nb, unsigned long unused, void *freed)
{
	unsigned long pages = sheaves_free_pages();
	static u64 next;	/* under oom_lock */

	if (sheaves_put_off_oom(pages, get_jiffies_64(), &next))
		*(unsigned long *)freed += pages;
	return NOTIFY_OK;
}

static struct notifier_block oom_block = { .notifier_call = oom_fn };

static int __init sheaf_shrinker_init(void)
{
	struct shrinker *shrinker = NULL;

	counted_spares = kcalloc(nr_node_ids, sizeof(*counted_spares), GFP_KERNEL);
	if (counted_spares)
		shrinker = shrinker_alloc(SHRINKER_NUMA_AWARE, "slab-sheaves");
	if (shrinker) {
		shrinker->count_objects = count_fn;
		shrinker->scan_objects = scan_fn;
		shrinker_register(shrinker);
	} else {
		pr_warn("SLUB: no memory for the shrinker of sheaves\n");
	}
	register_oom_notifier(&oom_block);
	return 0;
}
subsys_initcall(sheaf_shrinker_init);
