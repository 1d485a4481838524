// SPDX-License-Identifier: GPL-2.0
/*
 * Sheaves that follow the load: what is decided in mm/slab_balance.c is done here
 *
 * Growth is done at once, by whoever finds a barn too small (sheaf_barn_grow()). What was
 * not needed is given back from time to time, here called a round: a work item looks at
 * all caches, takes from each barn the full and the empty sheaves that were there all the
 * time, and from each CPU the sheaves of the caches that it does not use.
 *
 * An idle machine stays idle. There is no timer unless somebody has needed objects from
 * slabs, for a sheaf, in the last few seconds. Then rounds follow each other until there
 * is nothing more to be given back, or nobody has needed anything for some rounds. Both
 * timer and work are on CPUs that do the housekeeping. The timer is not a deferrable one:
 * all CPUs would wait for the one that happens to have it to do something else.
 *
 * Whether a CPU uses its sheaves of a cache is seen from outside, by what they look like
 * in each round: if nothing has changed for some of them, they are taken away, all of
 * them by one interrupt for all caches. It is no harm if that is wrong, since there was
 * an object taken and one put back: the next one is refilled. CPUs that must not be
 * disturbed only lose their spare sheaf, see mm/slab_sheaf_admin.c.
 *
 * Pressure. When memory is short, a shrinker gives back what is in the barns: first of
 * those in which nothing has moved in this round, then the others, the oldest sheaves
 * first; then the spare sheaves. Before anybody is killed for want of memory, all of that
 * is given back.
 *
 * The caps. A barn's limit does not grow beyond balance_max_sheaves(), and all barns of
 * all caches together may have grown by a 32nd of the memory of their node. So what a
 * machine can hold in sheaves, at most, is
 *
 *	for each cache: size of an object * capacity *
 *			(3 * CPUs + BALANCE_MIN_SHEAVES * nodes)
 *	+ memory / 32
 *
 * and the sheaves that wait for a grace period of RCU.
 *
 * Locks. A round walks all caches under slab_mutex. So does the shrinker, if it can have
 * it at once: somebody who holds it may be waiting for memory. Objects are given to slabs
 * under no other lock.
 */

#include <linux/atomic.h>
#include <linux/cpumask.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/kasan.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/oom.h>
#include <linux/rcupdate.h>
#include <linux/sched/isolation.h>
#include <linux/shrinker.h>
#include <linux/sizes.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/vmstat.h>
#include <linux/workqueue.h>
#include <kunit/visibility.h>

#include "slab_sheaf.h"

/* All barns that get their memory from a node may have grown by this part of it. */
#define NODE_SHIFT		5

/* The sheaves of a cache may have grown by this part of the memory. */
#define CACHE_SHIFT		9

/* What barns accept that do not follow the load; more, if the node has more CPUs. */
#define FIXED_SHEAVES		10

/* Rounds that a CPU must not have used its sheaves of a cache. */
#define IDLE_ROUNDS		2

/* Rounds after the last miss until the work ends. */
#define LAST_ROUNDS		4

/* Sheaves grow by contention to four times of what the cache has asked for. */
#define MAX_CAPACITY_SHIFT	2

/* Mechanisms that are switched on for the machine. */
unsigned int slab_feedback __read_mostly = BALANCE_ALL;

/*
 * Growing
 */

/* In bytes, of the objects that barns may have above what they have in any case. */
static atomic_long_t granted[MAX_NUMNODES];

static unsigned long bytes_of_sheaf(const struct kmem_cache *s)
{
	return max(1UL, (unsigned long)s->size * sheaf_capacity(s));
}

/* The node that pays for what is in the barn of a node. */
static int paying_node(int node)
{
	if (node_state(node, N_NORMAL_MEMORY))
		return node;
	node = sheaf_near_node(node);
	return node == NUMA_NO_NODE ? first_memory_node : node;
}

static unsigned long bytes_of_node(int node)
{
	return min_t(u64, (u64)node_present_pages(node) << PAGE_SHIFT, LONG_MAX);
}

static bool grant(int node, unsigned long bytes)
{
	long most = bytes_of_node(node) >> NODE_SHIFT;

	if (atomic_long_add_return(bytes, &granted[node]) <= most)
		return true;
	atomic_long_sub(bytes, &granted[node]);
	return false;
}

static unsigned int fixed_limit(int node)
{
	return max(sheaves_cpus_of_node(node), FIXED_SHEAVES);
}

static bool is_pinned(const struct kmem_cache *s)
{
	return READ_ONCE(s->barn_max_full) != BARN_LIMIT_AUTO;
}

/**
 * sheaf_barn_limit - how many sheaves the barn of a node should accept at first
 * @s: The cache.
 * @node: The node.
 * @wanted: What somebody has asked for, or BARN_LIMIT_AUTO.
 *
 * Context: Any.
 * Return: The number of full sheaves, or of empty ones.
 */
unsigned int sheaf_barn_limit(struct kmem_cache *s, int node, int wanted)
{
	if (wanted != BARN_LIMIT_AUTO)
		return wanted;
	return sheaf_follows(s, BALANCE_GROWTH) ? BALANCE_MIN_SHEAVES :
						  fixed_limit(node);
}

static void give_grant_back(struct node_barn *barn, int node,
			    unsigned long bytes)
{
	unsigned long had = atomic_long_read(&barn->granted);

	bytes = min(bytes, had);
	atomic_long_sub(bytes, &barn->granted);
	atomic_long_sub(bytes, &granted[paying_node(node)]);
}

/* Empty sheaves are accepted as many as full ones, unless somebody says otherwise. */
static bool change_limit(struct kmem_cache *s, struct node_barn *barn,
			 unsigned int from, unsigned int to)
{
	int empty = READ_ONCE(s->barn_max_empty);

	return barn_change_limits(barn, from, to,
				  empty == BARN_LIMIT_AUTO ? to : empty);
}

/**
 * sheaf_barn_grow - let a barn have twice as many full sheaves
 * @s: The cache.
 * @barn: The barn.
 * @node: Its node.
 *
 * Context: Any.
 * Return: Whether it accepts more than before; not, if it has as many as it may have.
 */
bool sheaf_barn_grow(struct kmem_cache *s, struct node_barn *barn, int node)
{
	unsigned int limit = READ_ONCE(barn->max_full);
	int payer = paying_node(node);
	unsigned long bytes;
	unsigned int most;

	if (is_pinned(s))
		return false;

	most = balance_max_sheaves(bytes_of_node(payer), bytes_of_sheaf(s),
				   fixed_limit(node));
	most = min(most, 2 * limit ?: 1);
	if (most <= limit)
		return false;

	bytes = (most - limit) * bytes_of_sheaf(s);
	if (!grant(payer, bytes))
		return false;
	atomic_long_add(bytes, &barn->granted);
	/* Somebody else may have been faster: then there is room, too. */
	if (!change_limit(s, barn, limit, most))
		give_grant_back(barn, node, bytes);
	else
		stat(s, BARN_GROW);
	/* Or somebody has asked for something else. */
	if (unlikely(is_pinned(s)))
		change_limit(s, barn, most, READ_ONCE(s->barn_max_full));
	return true;
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_barn_grow);

/**
 * sheaf_barn_forget - a barn is about to be freed
 * @s: The cache.
 * @node: The node, whose barn may be missing.
 *
 * Context: Any.
 */
void sheaf_barn_forget(struct kmem_cache *s, int node)
{
	if (s->barns && s->barns[node])
		give_grant_back(s->barns[node], node, ULONG_MAX);
}

/**
 * sheaf_set_capacity - let sheaves hold more, or less, from now on
 * @s: The cache, which has barns.
 * @capacity: How many objects new sheaves hold. What the barns may hold stays the same.
 *
 * Context: Task, under slab_mutex.
 */
void sheaf_set_capacity(struct kmem_cache *s, unsigned int capacity)
{
	unsigned int from = s->sheaf_capacity;
	unsigned int limit;
	int node;

	WRITE_ONCE(s->sheaf_capacity, capacity);
	for_each_node(node) {
		struct node_barn *barn = s->barns[node];

		if (!barn || !capacity || !atomic_long_read(&barn->granted))
			continue;
		limit = READ_ONCE(barn->max_full);
		change_limit(s, barn, limit,
			     max(mult_frac(limit, from, capacity),
				 BALANCE_MIN_SHEAVES));
	}
}

/**
 * sheaf_barn_update - the limits of a barn may be wrong now
 * @s: The cache.
 * @node: The node, which has a barn.
 *
 * There are more CPUs, or somebody has asked for something.
 *
 * Context: Task, under slab_mutex.
 */
void sheaf_barn_update(struct kmem_cache *s, int node)
{
	struct node_barn *barn = s->barns[node];
	unsigned int full = sheaf_barn_limit(s, node, s->barn_max_full);
	unsigned int empty = sheaf_barn_limit(s, node, s->barn_max_empty);

	if (is_pinned(s) || !sheaf_follows(s, BALANCE_GROWTH))
		give_grant_back(barn, node, ULONG_MAX);
	else if (atomic_long_read(&barn->granted))
		full = max(full, barn->max_full);
	if (s->barn_max_empty == BARN_LIMIT_AUTO)
		empty = full;
	if (barn->max_full != full || barn->max_empty != empty)
		barn_set_limits(barn, full, empty);
}

/*
 * Rounds
 */

static void round_fn(struct work_struct *work);
static DECLARE_DELAYED_WORK(round_work, round_fn);

/*
 * Somebody has needed objects from slabs since the last round. Before the workqueues
 * are there, it only looks so.
 */
bool sheaves_missed __read_mostly = true;

/* A round is to come, or is at work. */
static bool watching;

/* What was counted before it began says nothing of an interval. */
static bool first_round;

/* Rounds without a miss since the last one. Belongs to round_fn(). */
static unsigned int quiet_rounds;

static void queue_round(void)
{
	unsigned long flags;

	local_irq_save(flags);
	queue_delayed_work_on(sheaf_timer_cpu(), system_unbound_wq, &round_work,
			      BALANCE_INTERVAL);
	local_irq_restore(flags);
}

void __sheaves_watch(void)
{
	WRITE_ONCE(sheaves_missed, true);
	if (xchg(&watching, true))
		return;
	WRITE_ONCE(first_round, true);
	queue_round();
}

/* The limit falls to what was used in the last two intervals. */
static void lower_limit(struct kmem_cache *s, int node, unsigned int used)
{
	struct node_barn *barn = s->barns[node];
	unsigned long had = atomic_long_read(&barn->granted);
	unsigned int limit = READ_ONCE(barn->max_full);

	if (is_pinned(s) || !sheaf_follows(s, BALANCE_GROWTH))
		return;
	used = balance_limit(used, limit, BALANCE_MIN_SHEAVES);
	if (used == limit || !change_limit(s, barn, limit, used))
		return;
	stat(s, BARN_SHRINK);
	if (used == BALANCE_MIN_SHEAVES)
		had = 0;
	give_grant_back(barn, node,
			had ? mult_frac(had, limit - used, limit) : ULONG_MAX);
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
	lower_limit(s, node, barn_take_unneeded(barn, sheaves, sheaves));
	return READ_ONCE(barn->nr_full) || READ_ONCE(barn->nr_empty) ||
	       atomic_long_read(&barn->granted);
}

/* What the sheaves of a CPU look like. A look at what may not be a sheaf any more. */
static __no_kasan_or_inline unsigned int look_at(struct slub_percpu_sheaves *pcs)
{
	struct slab_sheaf *main = kasan_reset_tag(READ_ONCE(pcs->main));
	struct slab_sheaf *remote = kasan_reset_tag(READ_ONCE(pcs->remote));
	unsigned long look = (unsigned long)main ^ (unsigned long)READ_ONCE(pcs->spare);

	look = look / SMP_CACHE_BYTES + READ_ONCE(main->size);
	if (remote)
		look += READ_ONCE(remote->size) << 16;
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
static void take_idle_here(void *info)
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
	on_each_cpu_mask(&visit_mask, take_idle_here, sheaves, true);
}

#endif /* CONFIG_PREEMPT_RT */

/* The sheaves of all CPUs together may have grown by a 512th of the memory. */
static unsigned int max_capacity(const struct kmem_cache *s)
{
	unsigned long bytes = totalram_pages() >> CACHE_SHIFT << PAGE_SHIFT;
	unsigned long most;

	most = min((s->sheaf_min_capacity + SHEAF_HEAD) << MAX_CAPACITY_SHIFT,
		   SZ_4K / sizeof(void *)) - SHEAF_HEAD;
	return min(most, bytes / (3UL * num_possible_cpus() * s->size));
}

/* What waiting for the locks of the barns says of the size of sheaves. */
static void tune_capacity(struct kmem_cache *s)
{
	unsigned int capacity = sheaf_capacity(s);
	unsigned int contended = 0, cpus = 1, wanted;
	int node;

	for_each_node(node) {
		struct node_barn *barn = READ_ONCE(s->barns[node]);

		if (!barn)
			continue;
		if (READ_ONCE(barn->contended) > contended) {
			contended = READ_ONCE(barn->contended);
			cpus = sheaves_cpus_of_node(node) ?: 1;
		}
		WRITE_ONCE(barn->contended, 0);
	}
	if (!capacity || !sheaf_follows(s, BALANCE_GROWTH) || first_round)
		return;
	wanted = balance_capacity(capacity, s->sheaf_min_capacity,
				  max_capacity(s), SHEAF_HEAD, contended, cpus);
	if (wanted != capacity)
		sheaf_set_capacity(s, wanted);
}

/* Returns whether there may be more to give back later. */
static bool trim_cache(struct kmem_cache *s, struct list_head *sheaves)
{
	bool more = false;
	unsigned int cpu;
	int node;

	tune_capacity(s);
	if (!sheaf_follows(s, BALANCE_WORKING_SET))
		return false;
	for_each_node(node)
		more |= trim_barn(s, node, sheaves);
	/* The memory of sheaves is SLAB_TYPESAFE_BY_RCU. */
	rcu_read_lock();
	for_each_possible_cpu(cpu)
		more |= trim_cpu(s, cpu, &visit_mask, sheaves);
	rcu_read_unlock();
	return more;
}

static void give_back(struct list_head *sheaves)
{
	struct slab_sheaf *sheaf;

	list_for_each_entry(sheaf, sheaves, barn_list)
		stat_add(sheaf->cache, SHEAF_TRIM, sheaf->size);
	release_sheaves(sheaves);
}

/* Returns whether there may be more to give back later. */
static bool trim_caches(void)
{
	LIST_HEAD(sheaves);
	struct kmem_cache *s;
	bool more = false;

	cpumask_clear(&visit_mask);
	list_for_each_entry(s, &slab_caches, list) {
		if (s->barns)
			more |= trim_cache(s, &sheaves);
		cond_resched();
	}
	WRITE_ONCE(first_round, false);
	take_idle(&sheaves);
	give_back(&sheaves);
	return more;
}

/*
 * Look at all caches, once. Not static for the tests alone. Returns whether there may be
 * more to give back later.
 */
VISIBLE_IF_KUNIT bool sheaves_round(void)
{
	bool more;

	mutex_lock(&slab_mutex);
	more = trim_caches();
	mutex_unlock(&slab_mutex);
	return more;
}
EXPORT_SYMBOL_IF_KUNIT(sheaves_round);

static void round_fn(struct work_struct *work)
{
	bool more;

	/* Who misses from now on wants another round. */
	quiet_rounds = xchg(&sheaves_missed, false) ? 0 : quiet_rounds + 1;

	more = sheaves_round();
	if (more && quiet_rounds < LAST_ROUNDS) {
		queue_round();
		return;
	}
	xchg(&watching, false);
	if (READ_ONCE(sheaves_missed))
		__sheaves_watch();
}

/*
 * Pressure
 */

static bool is_cold(const struct node_barn *barn)
{
	return READ_ONCE(barn->range_full.low) >= READ_ONCE(barn->nr_full);
}

/* Up to @nr objects, and a sheaf more, of one barn. */
static unsigned long squeeze_barn(struct node_barn *barn, unsigned long nr,
				  struct list_head *sheaves)
{
	struct slab_sheaf *sheaf;
	unsigned long taken = 0;
	LIST_HEAD(full);

	while (taken < nr) {
		barn_take_oldest(barn, 1, &full);
		if (list_empty(&full))
			break;
		sheaf = list_first_entry(&full, struct slab_sheaf, barn_list);
		taken += sheaf->size;
		list_splice_init(&full, sheaves);
	}
	return taken;
}

static unsigned long squeeze_barns(int node, bool cold, unsigned long nr,
				   struct list_head *sheaves)
{
	unsigned long taken = 0;
	struct kmem_cache *s;

	list_for_each_entry(s, &slab_caches, list) {
		struct node_barn *barn;

		if (!s->barns || !sheaf_follows(s, BALANCE_PRESSURE))
			continue;
		barn = READ_ONCE(s->barns[node]);
		if (!barn || is_cold(barn) != cold)
			continue;
		taken += squeeze_barn(barn, nr - taken, sheaves);
		if (taken >= nr)
			break;
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

/* The coldest first. Under slab_mutex. */
static unsigned long squeeze(int node, unsigned long nr)
{
	unsigned long taken;
	LIST_HEAD(sheaves);

	taken = squeeze_barns(node, true, nr, &sheaves);
	if (taken < nr)
		taken += squeeze_barns(node, false, nr - taken, &sheaves);
	if (taken < nr)
		taken += squeeze_cpus(node, nr - taken, &sheaves);
	give_back(&sheaves);
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

/* Reclaim knows nodes that have memory: they have what is in the barns of others, too. */
static unsigned long count_fn(struct shrinker *shrinker,
			      struct shrink_control *sc)
{
	unsigned long nr = 0;
	int node;

	if (!mutex_trylock(&slab_mutex))
		return 0;
	for_each_online_node(node)
		if (paying_node(node) == sc->nid)
			nr += count_barns(node) + count_spares(node);
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
		if (paying_node(node) == sc->nid && nr < sc->nr_to_scan)
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

static unsigned long slab_pages(void)
{
	return global_node_page_state_pages(NR_SLAB_UNRECLAIMABLE_B) +
	       global_node_page_state_pages(NR_SLAB_RECLAIMABLE_B);
}

static int oom_fn(struct notifier_block *nb, unsigned long unused, void *freed)
{
	unsigned long before = slab_pages(), after;

	if (!sheaves_give_back())
		return NOTIFY_OK;
	after = slab_pages();
	if (after < before)
		*(unsigned long *)freed += before - after;
	return NOTIFY_OK;
}

static struct notifier_block oom_block = { .notifier_call = oom_fn };

static int __init sheaf_trim_init(void)
{
	struct shrinker *shrinker;

	shrinker = shrinker_alloc(SHRINKER_NUMA_AWARE, "slab-sheaves");
	if (shrinker) {
		shrinker->count_objects = count_fn;
		shrinker->scan_objects = scan_fn;
		shrinker_register(shrinker);
	} else {
		pr_warn("SLUB: no memory for the shrinker of sheaves\n");
	}
	register_oom_notifier(&oom_block);
	WRITE_ONCE(sheaves_missed, false);
	return 0;
}
subsys_initcall(sheaf_trim_init);
