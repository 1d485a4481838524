// SPDX-License-Identifier: GPL-2.0
/*
 * Sheaves from outside: set up, counted, emptied, removed
 *
 * mm/slab_sheaf.c is what a CPU does with its own sheaves, all the time. This is
 * what is done to those of all CPUs, and rarely: caches are created, shrunk and
 * destroyed, CPUs come and go, and people want to know how much there is.
 *
 * Whose sheaves are they? A CPU's own. Who wants something of them from outside
 * must know how to get at them:
 *
 * - To count is to look, without any lock, from anywhere. Nobody is disturbed by it.
 *
 * - To destroy a cache is to be sure that nobody uses it, on any CPU: what is in all
 *   sheaves is taken where the destroyer runs.
 *
 * - A CPU that is offline does not use its sheaves, either.
 *
 * - To shrink a cache, all others are interrupted for a moment, in which they hand
 *   over their sheaves (detach_here()); what is in these is flushed by who asked for
 *   it. An interrupt that finds the sheaves in use has interrupted somebody who is
 *   done in a moment: it is sent again, as "a trylock that failed" is no flush. On
 *   PREEMPT_RT the lock of the sheaves is a real one and can be taken from outside.
 *
 * - A CPU that must not be disturbed (cpu_is_isolated()) is not interrupted. The
 *   spare can be taken from it, by xchg(). Main and remote stay: that, for each
 *   cache, is what such a CPU keeps to itself. On PREEMPT_RT these can be had as
 *   well, unless they are just in use: nobody waits for who may never run.
 *
 * Sheaves are taken from a CPU by xchg() in all of these cases, so that whoever meets
 * whom there, a sheaf has one owner.
 */

#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/export.h>
#include <linux/kasan.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sched/isolation.h>
#include <linux/sizes.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
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

/*
 * Giving back
 */

static void release_sheaf(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	flush_sheaf(s, sheaf);
	free_empty_sheaf(s, sheaf);
}

static void release_list(struct kmem_cache *s, struct list_head *sheaves)
{
	struct slab_sheaf *sheaf, *next;

	list_for_each_entry_safe(sheaf, next, sheaves, barn_list)
		release_sheaf(s, sheaf);
}

static void flush_barn(struct kmem_cache *s, int node)
{
	struct node_barn *barn = READ_ONCE(s->barns[node]);
	LIST_HEAD(sheaves);

	if (!barn)
		return;
	barn_take_all(barn, &sheaves, &sheaves);
	release_list(s, &sheaves);
}

static void flush_barns(struct kmem_cache *s)
{
	int node;

	for_each_node(node)
		flush_barn(s, node);
}

static void detach(struct slab_sheaf *sheaf, struct list_head *sheaves)
{
	if (sheaf && sheaf != slab_no_sheaf)
		list_add(&sheaf->barn_list, sheaves);
}

static void detach_spare(struct slub_percpu_sheaves *pcs,
			 struct list_head *sheaves)
{
	detach(xchg(&pcs->spare, NULL), sheaves);
}

/* From a CPU that does not use its sheaves now. */
static void detach_all(struct slub_percpu_sheaves *pcs,
		       struct list_head *sheaves)
{
	detach(xchg(&pcs->main, slab_no_sheaf), sheaves);
	detach_spare(pcs, sheaves);
	detach(xchg(&pcs->remote, NULL), sheaves);
}

/*
 * Barns that no CPU would look into any more are emptied as well: that of a node
 * without CPUs, and that of the node that its memory came from, if it had none.
 */
static void flush_deserted_barns(struct kmem_cache *s, int node)
{
	if (node == NUMA_NO_NODE || !s->barns || node_state(node, N_CPU))
		return;
	flush_barn(s, node);
	if (node_state(node, N_NORMAL_MEMORY))
		return;
	node = sheaf_near_node(node);
	if (node != NUMA_NO_NODE && !node_state(node, N_CPU))
		flush_barn(s, node);
}

/**
 * sheaves_cpu_dead - empty the sheaves of a CPU that is offline
 * @s: The cache.
 * @cpu: The CPU.
 *
 * Context: Task, with the lock for CPU hotplug held.
 */
void sheaves_cpu_dead(struct kmem_cache *s, unsigned int cpu)
{
	LIST_HEAD(sheaves);

	detach_all(per_cpu_ptr(s->cpu_sheaves, cpu), &sheaves);
	release_list(s, &sheaves);
	flush_deserted_barns(s, cpu_to_node(cpu));
}

/* Racy, and good enough: who starts to use the cache now may be overlooked. */
static bool cpu_has_sheaves(struct kmem_cache *s, unsigned int cpu)
{
	struct slub_percpu_sheaves *pcs = per_cpu_ptr(s->cpu_sheaves, cpu);

	return READ_ONCE(pcs->main) != slab_no_sheaf ||
	       READ_ONCE(pcs->spare) || READ_ONCE(pcs->remote);
}

/*
 * Held by those who take away sheaves of several CPUs, until all is flushed: a
 * destroyer must not miss what a shrinker has in its hands.
 */
static DEFINE_MUTEX(visit_mutex);

#ifdef CONFIG_PREEMPT_RT

static void detach_online(struct kmem_cache *s, struct list_head *sheaves)
{
	struct slub_percpu_sheaves *pcs;
	unsigned int cpu;

	for_each_online_cpu(cpu) {
		if (!cpu_has_sheaves(s, cpu))
			continue;
		pcs = per_cpu_ptr(s->cpu_sheaves, cpu);
		if (!cpu_is_isolated(cpu)) {
			spin_lock(&pcs->lock);
		} else if (!spin_trylock(&pcs->lock)) {
			detach_spare(pcs, sheaves);
			continue;
		}
		detach_all(pcs, sheaves);
		spin_unlock(&pcs->lock);
	}
}

#else /* !CONFIG_PREEMPT_RT */

/**
 * struct visit - what interrupts of several CPUs work at together
 * @s: The cache.
 * @lock: Protects @sheaves.
 * @sheaves: What they took.
 * @in_use: On some CPU the sheaves were in use.
 */
struct visit {
	struct kmem_cache *s;
	raw_spinlock_t lock;	/* Protects sheaves. */
	struct list_head sheaves;
	bool in_use;
};

/* The CPUs that a visit has still to see. Under visit_mutex. */
static struct cpumask visit_mask;

/* An interrupt, or with interrupts disabled. */
static void detach_here(void *info)
{
	struct visit *v = info;

	if (!local_trylock(&v->s->cpu_sheaves->lock)) {
		WRITE_ONCE(v->in_use, true);
		return;
	}
	raw_spin_lock(&v->lock);
	detach_all(this_cpu_ptr(v->s->cpu_sheaves), &v->sheaves);
	raw_spin_unlock(&v->lock);
	local_unlock(&v->s->cpu_sheaves->lock);
	cpumask_clear_cpu(smp_processor_id(), &visit_mask);
}

static void detach_online(struct kmem_cache *s, struct list_head *sheaves)
{
	struct visit v = {
		.s = s,
		.sheaves = LIST_HEAD_INIT(v.sheaves),
	};
	unsigned int cpu;

	lockdep_assert_held(&visit_mutex);
	raw_spin_lock_init(&v.lock);
	cpumask_clear(&visit_mask);
	for_each_online_cpu(cpu) {
		if (!cpu_has_sheaves(s, cpu))
			continue;
		if (cpu_is_isolated(cpu))
			detach_spare(per_cpu_ptr(s->cpu_sheaves, cpu),
				     &v.sheaves);
		else
			cpumask_set_cpu(cpu, &visit_mask);
	}
	while (!cpumask_empty(&visit_mask)) {
		on_each_cpu_mask(&visit_mask, detach_here, &v, true);
		if (v.in_use) {
			v.in_use = false;
			cond_resched();
		}
	}
	list_splice(&v.sheaves, sheaves);
}

#endif /* CONFIG_PREEMPT_RT */

/**
 * sheaves_flush - give the objects in sheaves and barns back to their slabs
 * @s: The cache.
 *
 * If nobody uses the cache meanwhile, no object is in any sheaf afterwards, and
 * the memory of the sheaves is free. Otherwise there is little. CPUs that must not
 * be disturbed (cpu_is_isolated()) keep what is in main and remote.
 *
 * Context: Task that may sleep, with the lock for CPU hotplug held.
 */
void sheaves_flush(struct kmem_cache *s)
{
	LIST_HEAD(sheaves);
	unsigned int cpu;

	if (!s->sheaf_capacity)
		return;

	lockdep_assert_cpus_held();
	mutex_lock(&visit_mutex);
	/*
	 * A CPU that is offline has sheaves only if it was stopped on its way
	 * there, before sheaves_cpu_dead() was called.
	 */
	for_each_possible_cpu(cpu)
		if (!cpu_online(cpu) && cpu_has_sheaves(s, cpu))
			sheaves_cpu_dead(s, cpu);

	detach_online(s, &sheaves);
	release_list(s, &sheaves);
	flush_barns(s);
	mutex_unlock(&visit_mutex);
}

/**
 * sheaves_shutdown - the same for a cache without users
 * @s: The cache.
 *
 * Leaves nothing in the sheaves of any CPU, and disturbs none of them.
 *
 * Context: Task that may sleep. Nobody allocates, frees, or ever will; those who
 *	    shrink the cache, or count, may still do so.
 */
void sheaves_shutdown(struct kmem_cache *s)
{
	LIST_HEAD(sheaves);
	unsigned int cpu;

	if (!s->sheaf_capacity)
		return;

	mutex_lock(&visit_mutex);
	for_each_possible_cpu(cpu)
		if (cpu_has_sheaves(s, cpu))
			detach_all(per_cpu_ptr(s->cpu_sheaves, cpu), &sheaves);
	release_list(s, &sheaves);
	flush_barns(s);
	mutex_unlock(&visit_mutex);
}

/*
 * Counting
 */

/*
 * The sheaf need not be that CPU's any more, nor of this cache. But it is a sheaf, or
 * was one: KASAN may know that it is free, and have stored something there.
 */
static __no_kasan_or_inline unsigned int count_sheaf(struct slab_sheaf **sheafp)
{
	struct slab_sheaf *sheaf = kasan_reset_tag(READ_ONCE(*sheafp));
	unsigned int size;

	if (!sheaf)
		return 0;
	size = READ_ONCE(sheaf->size);
	return size <= READ_ONCE(sheaf->capacity) ? size : 0;
}

static unsigned long count_cpu(struct slub_percpu_sheaves *pcs)
{
	return count_sheaf(&pcs->main) + count_sheaf(&pcs->spare) +
	       count_sheaf(&pcs->remote);
}

/**
 * kmem_cache_cached_objects - how many objects there are in sheaves and barns
 * @s: The cache.
 *
 * These objects are free, but /proc/slabinfo has them as allocated. Looks at the
 * sheaves of all CPUs from here, and disturbs none of them.
 *
 * Context: Any.
 * Return: The number of objects. Exact if nobody uses the cache.
 */
unsigned long kmem_cache_cached_objects(struct kmem_cache *s)
{
	unsigned long nr = 0;
	unsigned int cpu;
	int node;

	if (!s->sheaf_capacity)
		return 0;

	/* The memory of sheaves is SLAB_TYPESAFE_BY_RCU. */
	rcu_read_lock();
	for_each_possible_cpu(cpu)
		nr += count_cpu(per_cpu_ptr(s->cpu_sheaves, cpu));
	rcu_read_unlock();

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

/* Of those that were online once. Under slab_mutex; in early boot there is no need. */
static unsigned int nr_cpus_of_node[MAX_NUMNODES];
static struct cpumask counted_cpus;

/**
 * sheaves_count_cpu - a CPU is about to come online
 * @cpu: The CPU.
 *
 * To be followed by sheaves_prepare_node() of its node, for each cache.
 *
 * Context: Under slab_mutex; or early boot.
 */
void sheaves_count_cpu(unsigned int cpu)
{
	int node = cpu_to_node(cpu);

	if (node != NUMA_NO_NODE &&
	    !cpumask_test_and_set_cpu(cpu, &counted_cpus))
		nr_cpus_of_node[node]++;
}

static unsigned int barn_limit(int node)
{
	return max(nr_cpus_of_node[node], BARN_MIN_SHEAVES);
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
	barn = s->barns[node];
	if (barn) {
		if (barn->max_full != limit)
			barn_set_limits(barn, limit, limit);
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
 * objects of a page and less was several slabs of several pages. A sheaf is a power
 * of two words in size, its head included.
 */
static unsigned int default_capacity(const struct kmem_cache *s)
{
	unsigned int words;

	if (s->size > SZ_4K)
		words = 8;
	else if (s->size > SZ_2K)
		words = 16;
	else if (s->size >= 256)
		words = 32;
	else
		words = 64;
	return words - sizeof(struct slab_sheaf) / sizeof(void *);
}

/* As many objects as the memory has room for that @capacity of them take. */
static unsigned int fill_up(unsigned int capacity)
{
	struct slab_sheaf *sheaf;

	return (nosheaf_size_roundup(struct_size(sheaf, objects, capacity)) -
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
		capacity = fill_up(clamp_t(unsigned int, capacity,
					   default_capacity(s),
					   SHEAF_MAX_CAPACITY));
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
 * @s: The cache, after sheaves_shutdown(); or one whose creation failed halfway.
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
