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
#include <linux/lockdep.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sched/isolation.h>
#include <linux/sizes.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <trace/events/slab_sheaf.h>
#include <kunit/static_stub.h>
#include <kunit/visibility.h>

#include "internal.h"
#include "slab_sheaf.h"

/*
 * Who checks objects does it in the slab tier. And debugobjects allocates under the locks of
 * timers, where sheaves must not be freed: their slabs are freed by call_rcu(), which may
 * want a timer itself.
 */
#define NO_SHEAVES_FLAGS	(SLAB_DEBUG_FLAGS | SLAB_DEBUG_OBJECTS)

/* What the command line says of all caches, or -1; and of some: "cache=N,cache=N" */
static int boot_capacity __ro_after_init = -1;
static char boot_capacities[256] __ro_after_init;

/* The number at the start of a string, and of what comes behind it up to a comma. */
static bool parse_capacity(const char *str, unsigned int *capacity)
{
	size_t len = strcspn(str, ",");
	char number[12];

	if (len >= sizeof(number))
		return false;
	memcpy(number, str, len);
	number[len] = '\0';
	return !kstrtouint(number, 0, capacity) &&
	       *capacity <= SHEAF_MAX_CAPACITY;
}

static bool parse_capacities(const char *str)
{
	unsigned int capacity;

	while (*str) {
		const char *number = str + strcspn(str, "=,");

		if (number == str || *number != '=' ||
		    !parse_capacity(number + 1, &capacity))
			return false;
		str = number + strcspn(number, ",");
		str += *str == ',';
	}
	return true;
}

static int __init setup_sheaf_capacity(char *str)
{
	unsigned int capacity;
	char *rest = str;
	bool all;

	all = parse_capacity(str, &capacity);
	if (all) {
		rest += strcspn(rest, ",");
		rest += *rest == ',';
	}
	if ((!all && !*rest) || !parse_capacities(rest) ||
	    strscpy(boot_capacities, rest) < 0) {
		boot_capacities[0] = '\0';
		pr_err("slab_sheaf_capacity=%s: not a number from 0 to %u, or CACHE=NUMBER, with commas in between and %zu characters at most: ignored\n",
		       str, SHEAF_MAX_CAPACITY, sizeof(boot_capacities) - 1);
		return 1;
	}
	if (all)
		boot_capacity = capacity;
	return 1;
}
__setup("slab_sheaf_capacity=", setup_sheaf_capacity);

/* What the command line says of a cache, or -1. */
static int boot_capacity_of(const char *name)
{
	size_t len = strlen(name);
	unsigned int capacity;
	const char *str;

	for (str = boot_capacities; *str; str += *str == ',') {
		if (!strncmp(str, name, len) && str[len] == '=' &&
		    parse_capacity(str + len + 1, &capacity))
			return capacity;
		str += strcspn(str, ",");
	}
	return boot_capacity;
}

/**
 * sheaf_timer_cpu - the CPU whose timer should start work for sheaves
 *
 * Context: Interrupts disabled, so it stays online.
 * Return: This CPU, or, if it is isolated, one that is not.
 */
unsigned int sheaf_timer_cpu(void)
{
	unsigned int this_cpu = smp_processor_id();
	unsigned int cpu;

	if (likely(!cpu_is_isolated(this_cpu)))
		return this_cpu;
	for_each_online_cpu(cpu)
		if (!cpu_is_isolated(cpu))
			return cpu;
	return this_cpu;
}

/*
 * Giving back
 */

/**
 * next_to_release - take a sheaf off a list of those that are to be given back
 * @sheaves: The sheaves, of any caches, which nobody else uses.
 *
 * Those that somebody has written to are left alone.
 *
 * Context: Task that may sleep.
 * Return: The sheaf, or NULL if there is none left.
 */
struct slab_sheaf *next_to_release(struct list_head *sheaves)
{
	struct slab_sheaf *sheaf;

	while (!list_empty(sheaves)) {
		sheaf = list_first_entry(sheaves, struct slab_sheaf, barn_list);
		if (!first_is_linked(sheaves)) {
			slab_report_corruption(NULL, "sheaves that were to be given back");
			break;
		}
		list_del(&sheaf->barn_list);
		sheaf_check_released(sheaf);
		if (likely(sheaf_has_its_cache(sheaf)))
			return sheaf;
		slab_report_corruption(NULL, "a sheaf that was to be given back");
		cond_resched();
	}
	return NULL;
}

/**
 * release_sheaves - give the objects of sheaves, and their memory, back
 * @sheaves: The sheaves, of any caches, which nobody else uses.
 *
 * Context: Task that may sleep.
 */
void release_sheaves(struct list_head *sheaves)
{
	struct slab_sheaf *sheaf;

	while ((sheaf = next_to_release(sheaves))) {
		release_sheaf(sheaf->cache, sheaf);
		cond_resched();
	}
}

static void flush_barn(struct kmem_cache *s, int node)
{
	struct node_barn *barn = READ_ONCE(s->barns[node]);
	LIST_HEAD(sheaves);

	if (!barn)
		return;
	barn_take_all(barn, &sheaves, &sheaves);
	release_sheaves(&sheaves);
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

/**
 * sheaves_detach_spare - take the spare sheaf of a CPU away
 * @pcs: The sheaves of the CPU, whichever it is, and whatever it does meanwhile.
 * @sheaves: Where the sheaf goes, for release_sheaves().
 *
 * Context: Any.
 */
void sheaves_detach_spare(struct slub_percpu_sheaves *pcs,
			  struct list_head *sheaves)
{
	if (READ_ONCE(pcs->spare))
		detach(xchg(&pcs->spare, NULL), sheaves);
}

/**
 * sheaves_detach_all - take all sheaves of a CPU away
 * @pcs: The sheaves of a CPU that does not use them now.
 * @sheaves: Where they go, for release_sheaves().
 *
 * Context: Any in which that CPU does not: on it with the sheaf lock, or it is offline, or
 *	    visited.
 */
void sheaves_detach_all(struct slub_percpu_sheaves *pcs,
			struct list_head *sheaves)
{
	detach(xchg(&pcs->main, slab_no_sheaf), sheaves);
	sheaves_detach_spare(pcs, sheaves);
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

	sheaves_detach_all(per_cpu_ptr(s->cpu_sheaves, cpu), &sheaves);
	release_sheaves(&sheaves);
	flush_deserted_barns(s, cpu_to_node(cpu));
}

/**
 * cpu_has_sheaves - whether a CPU has sheaves of a cache
 * @s: The cache.
 * @cpu: The CPU.
 *
 * Racy, and good enough: who starts to use the cache now may be overlooked.
 *
 * Context: Any.
 * Return: Whether it had some a moment ago.
 */
bool cpu_has_sheaves(struct kmem_cache *s, unsigned int cpu)
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

/* Returns how many CPUs are interrupted. */
static unsigned int detach_online(struct kmem_cache *s,
				  struct list_head *sheaves)
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
			sheaves_detach_spare(pcs, sheaves);
			continue;
		}
		sheaves_detach_all(pcs, sheaves);
		spin_unlock(&pcs->lock);
	}
	return 0;
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
	sheaves_detach_all(this_cpu_ptr(v->s->cpu_sheaves), &v->sheaves);
	raw_spin_unlock(&v->lock);
	local_unlock(&v->s->cpu_sheaves->lock);
	cpumask_clear_cpu(smp_processor_id(), &visit_mask);
}

/* Returns how many CPUs are interrupted. */
static unsigned int detach_online(struct kmem_cache *s,
				  struct list_head *sheaves)
{
	struct visit v = {
		.s = s,
		.sheaves = LIST_HEAD_INIT(v.sheaves),
	};
	unsigned int cpu, visited;

	lockdep_assert_held(&visit_mutex);
	raw_spin_lock_init(&v.lock);
	cpumask_clear(&visit_mask);
	for_each_online_cpu(cpu) {
		if (!cpu_has_sheaves(s, cpu))
			continue;
		if (cpu_is_isolated(cpu))
			sheaves_detach_spare(per_cpu_ptr(s->cpu_sheaves, cpu),
					     &v.sheaves);
		else
			cpumask_set_cpu(cpu, &visit_mask);
	}
	visited = cpumask_weight(&visit_mask);
	while (!cpumask_empty(&visit_mask)) {
		on_each_cpu_mask(&visit_mask, detach_here, &v, true);
		if (v.in_use) {
			v.in_use = false;
			cond_resched();
		}
	}
	list_splice(&v.sheaves, sheaves);
	return visited;
}

#endif /* CONFIG_PREEMPT_RT */

/**
 * sheaves_flush - give the objects in sheaves and barns back to their slabs
 * @s: The cache.
 *
 * If nobody uses the cache meanwhile, no object is in any sheaf afterwards, and
 * the memory of the sheaves is free, but for what a round of trimming has in its
 * hands just then, and gives back. Otherwise there is little. CPUs that must not be
 * disturbed (cpu_is_isolated()) keep what is in main and remote.
 *
 * Context: Task that may sleep, with the lock for CPU hotplug held.
 */
void sheaves_flush(struct kmem_cache *s)
{
	LIST_HEAD(sheaves);
	unsigned int cpu, visited;

	/* Others may make them meanwhile: then there is nothing in them. */
	if (!READ_ONCE(s->barns))
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

	visited = detach_online(s, &sheaves);
	trace_slab_sheaf_drain(s, visited);
	release_sheaves(&sheaves);
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
	int node;

	if (!s->barns)
		return;

	mutex_lock(&visit_mutex);
	for_each_possible_cpu(cpu)
		if (cpu_has_sheaves(s, cpu))
			sheaves_detach_all(per_cpu_ptr(s->cpu_sheaves, cpu), &sheaves);
	trace_slab_sheaf_drain(s, 0);
	release_sheaves(&sheaves);
	flush_barns(s);
	/* It need not come to sheaves_destroy(), if the user has left objects. */
	for_each_node(node)
		sheaf_barn_forget(s, node);
	mutex_unlock(&visit_mutex);
}

/*
 * Counting
 */

/*
 * count_sheaf - how many objects there are in a sheaf of any CPU
 * @sheafp: Where that CPU has its sheaf, or none.
 *
 * The sheaf need not be that CPU's any more, nor of this cache. But it is a sheaf, or
 * was one: KASAN may know that it is free, and have stored something there.
 *
 * Context: Any.
 * Return: Objects; 0 where what is found cannot be a sheaf.
 */
__no_kasan_or_inline unsigned int count_sheaf(struct slab_sheaf **sheafp)
{
	struct slab_sheaf *sheaf = kasan_reset_tag(READ_ONCE(*sheafp));
	unsigned int size;

	if (!sheaf)
		return 0;
	/* Who has the sheaf need not mark what he writes for those who only count. */
	size = data_race(READ_ONCE(sheaf->size));
	return size <= data_race(READ_ONCE(sheaf->capacity)) ? size : 0; /* as above */
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
 * These objects are free, but their slabs have them as allocated. Looks at the
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

	if (!READ_ONCE(s->barns))
		return 0;

	/* The memory of sheaves is SLAB_TYPESAFE_BY_RCU. */
	rcu_read_lock();
	for_each_possible_cpu(cpu)
		nr += count_cpu(per_cpu_ptr(s->cpu_sheaves, cpu));
	rcu_read_unlock();

	for_each_node(node) {
		struct node_barn *barn = READ_ONCE(s->barns[node]);

		if (barn)
			nr += READ_ONCE(barn->nr_objects);
	}
	return nr;
}
EXPORT_SYMBOL_IF_KUNIT(kmem_cache_cached_objects);

/**
 * kmem_cache_cached_on_node - how many of these a node has
 * @s: The cache.
 * @node: The node, whose barn and whose CPUs' sheaves are looked at. Where the objects
 *	lie is something else, if the node has no memory.
 *
 * Context: Any.
 * Return: The number of objects. Exact if nobody uses the cache.
 */
unsigned long kmem_cache_cached_on_node(struct kmem_cache *s, int node)
{
	struct node_barn **barns = READ_ONCE(s->barns);
	struct node_barn *barn;
	unsigned long nr = 0;
	unsigned int cpu;

	if (!barns)
		return 0;

	/* As above. A CPU that is not online may be about to hand over its sheaves. */
	rcu_read_lock();
	for_each_possible_cpu(cpu)
		if (cpu_to_node(cpu) == node)
			nr += count_cpu(per_cpu_ptr(s->cpu_sheaves, cpu));
	rcu_read_unlock();

	barn = READ_ONCE(barns[node]);
	return nr + (barn ? READ_ONCE(barn->nr_objects) : 0);
}
EXPORT_SYMBOL_IF_KUNIT(kmem_cache_cached_on_node);

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
		WRITE_ONCE(nr_cpus_of_node[node], nr_cpus_of_node[node] + 1);
}

/**
 * sheaves_cpus_of_node - how many CPUs of a node there have been online
 * @node: The node.
 *
 * Context: Any.
 * Return: Their number, those that have gone offline since included.
 */
unsigned int sheaves_cpus_of_node(int node)
{
	return READ_ONCE(nr_cpus_of_node[node]);
}
EXPORT_SYMBOL_IF_KUNIT(sheaves_cpus_of_node);

/*
 * Falls back to other nodes if this one has no memory, or not yet. Not static for the
 * tests alone.
 */
VISIBLE_IF_KUNIT struct node_barn *slab_alloc_barn(int node)
{
	KUNIT_STATIC_STUB_REDIRECT(slab_alloc_barn, node);

	return kmem_cache_alloc_node(slab_barn_cache, GFP_KERNEL, node);
}
EXPORT_SYMBOL_IF_KUNIT(slab_alloc_barn);

static int make_barn(struct kmem_cache *s, struct node_barn **barns, int node)
{
	unsigned int full = sheaf_barn_limit(s, node);
	struct node_barn *barn;

	barn = slab_alloc_barn(node);
	if (!barn)
		return -ENOMEM;
	barn_init(barn, full, s->barn_max_empty == BARN_LIMIT_AUTO ?
			      full : s->barn_max_empty);
	barn->node = node;
	/* Others use it as soon as they see it. */
	smp_store_release(&barns[node], barn);
	return 0;
}

static void free_barns(struct node_barn **barns)
{
	int node;

	if (!barns)
		return;
	for_each_node(node)
		if (barns[node])
			kmem_cache_free(slab_barn_cache, barns[node]);
	kmem_cache_free(slab_barns_cache, barns);
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
	if (!s->barns || node == NUMA_NO_NODE)
		return 0;
	if (!s->barns[node])
		return make_barn(s, s->barns, node);
	sheaf_barn_update(s, node);
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
	const size_t used =
		roundup_pow_of_two(offsetofend(struct slub_percpu_sheaves, main));
	unsigned int cpu;

	BUILD_BUG_ON(PERCPU_DYNAMIC_EARLY_SIZE <
		     NR_KMALLOC_TYPES * KMALLOC_SHIFT_HIGH *
		     (sizeof(struct slub_percpu_sheaves) +
		      IS_ENABLED(CONFIG_SLUB_STATS) * NR_SLUB_STAT_ITEMS *
		      sizeof(unsigned int)));

	/* The lock and main on one cache line, if they fit there. */
	s->cpu_sheaves = __alloc_percpu(sizeof(struct slub_percpu_sheaves),
					min_t(size_t, used, SMP_CACHE_BYTES));
	if (!s->cpu_sheaves)
		return -ENOMEM;
	s->feedback = BALANCE_ALL;

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

static int start_sheaves(struct kmem_cache *s, unsigned int capacity)
{
	struct node_barn **barns;
	int node;

	WRITE_ONCE(s->barn_max_full, BARN_LIMIT_AUTO);
	WRITE_ONCE(s->barn_max_empty, BARN_LIMIT_AUTO);

	barns = kmem_cache_zalloc(slab_barns_cache, GFP_KERNEL);
	if (!barns)
		return -ENOMEM;
	for_each_online_node(node) {
		if (make_barn(s, barns, node)) {
			free_barns(barns);
			return -ENOMEM;
		}
	}
	/* Who sees the barns uses them. */
	smp_store_release(&s->barns, barns);
	s->sheaf_min_capacity = capacity;
	/* Who sees the capacity wants barns. */
	smp_store_release(&s->sheaf_capacity, capacity);
	return 0;
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
	int boot = boot_capacity_of(s->name);

	if (boot >= 0)
		capacity = boot;
	else
		capacity = fill_up(clamp_t(unsigned int, capacity,
					   default_capacity(s),
					   SHEAF_MAX_CAPACITY));
	if (!capacity || s->flags & NO_SHEAVES_FLAGS)
		return 0;

	return start_sheaves(s, capacity);
}

/**
 * sheaves_lock - keep caches, what their sheaves are like, and CPUs as they are
 *
 * Context: Task that may sleep, and is in no file of a cache: see sheaves_trylock().
 */
void sheaves_lock(void)
{
	cpus_read_lock();
	mutex_lock(&slab_mutex);
}
EXPORT_SYMBOL_IF_KUNIT(sheaves_lock);

/**
 * sheaves_trylock - the same without waiting for anybody
 *
 * Who creates a cache has slab_mutex. If its directory in sysfs cannot be completed, he
 * removes what is there already, and waits for those who are in one of its files. So these
 * must not wait for him, nor for a CPU that comes or goes, which wants slab_mutex, too.
 *
 * Context: Task.
 * Return: Whether it is locked.
 */
bool sheaves_trylock(void)
{
	if (!cpus_read_trylock())
		return false;
	if (mutex_trylock(&slab_mutex))
		return true;
	cpus_read_unlock();
	return false;
}

/**
 * sheaves_unlock - let them change again
 *
 * Context: After sheaves_lock() or sheaves_trylock().
 */
void sheaves_unlock(void)
{
	mutex_unlock(&slab_mutex);
	cpus_read_unlock();
}
EXPORT_SYMBOL_IF_KUNIT(sheaves_unlock);

/**
 * sheaves_resize - change how many objects the sheaves of a cache hold
 * @s: The cache.
 * @capacity: The capacity, rounded up as far as the memory of a sheaf allows; or 0 for no
 *	      sheaves at all.
 *
 * Nobody is stopped. Sheaves of the old capacity are used as long as they have objects,
 * and get lost when they are empty. Only with 0 all that are there are emptied at once, as
 * when the cache is shrunk. One that is in somebody's hands just then may come to a barn
 * later, but to no CPU, and stays there until a round or a shrinker takes it.
 *
 * Context: Task that may sleep, under sheaves_lock().
 * Return: 0; -EINVAL, if no sheaf can be that large; -EOPNOTSUPP, if the cache must not
 *	   have sheaves, because of debugging, or since others are made from it; -ENODEV,
 *	   if it is being destroyed; -ENOMEM, then nothing has changed.
 */
int sheaves_resize(struct kmem_cache *s, unsigned int capacity)
{
	unsigned int from;
	int err = 0;

	lockdep_assert_cpus_held();
	lockdep_assert_held(&slab_mutex);
	if (capacity > SHEAF_MAX_CAPACITY)
		return -EINVAL;
	if (s->flags & NO_SHEAVES_FLAGS || slab_rules_out_sheaves(s))
		return -EOPNOTSUPP;
	if (capacity)
		capacity = fill_up(capacity);

	from = s->sheaf_capacity;
	if (!s->refcount) {
		err = -ENODEV;
	} else if (!s->barns) {
		if (capacity)
			err = start_sheaves(s, capacity);
	} else {
		s->sheaf_min_capacity = capacity;
		sheaf_set_capacity(s, capacity);
		if (!capacity) {
			/* Whoever has the lock of a CPU may not have seen it. */
			synchronize_rcu();
			kfree_rcu_sheaves_give(s);
			sheaves_flush(s);
			sheaves_watch();
		}
	}
	if (!err && s->sheaf_capacity != from)
		trace_slab_sheaf_capacity(s->name, from, s->sheaf_capacity, 0);
	return err;
}
EXPORT_SYMBOL_IF_KUNIT(sheaves_resize);

static void update_barns(struct kmem_cache *s)
{
	int node;

	lockdep_assert_held(&slab_mutex);
	if (!s->barns)
		return;
	for_each_node(node)
		if (s->barns[node])
			sheaf_barn_update(s, node);
}

/**
 * sheaves_set_feedback - choose what follows the load
 * @s: The cache.
 * @feedback: BALANCE_* of the mechanisms that shall work.
 *
 * Context: Task that may sleep, under sheaves_lock().
 */
void sheaves_set_feedback(struct kmem_cache *s, unsigned int feedback)
{
	WRITE_ONCE(s->feedback, feedback);
	update_barns(s);
	sheaves_watch();
}
EXPORT_SYMBOL_IF_KUNIT(sheaves_set_feedback);

/**
 * sheaves_set_all_feedback - choose what follows the load on this machine
 * @feedback: BALANCE_* of the mechanisms that shall work for those caches for which
 *	      they are switched on.
 *
 * Context: Task that may sleep; or early boot.
 */
void sheaves_set_all_feedback(unsigned int feedback)
{
	struct kmem_cache *s;

	mutex_lock(&slab_mutex);
	WRITE_ONCE(slab_feedback, feedback);
	list_for_each_entry(s, &slab_caches, list)
		update_barns(s);
	mutex_unlock(&slab_mutex);
	sheaves_watch();
}
EXPORT_SYMBOL_IF_KUNIT(sheaves_set_all_feedback);

/**
 * sheaves_set_barns - change how many sheaves the barns of a cache accept
 * @s: The cache.
 * @max_full: How many full sheaves, on each node; BARN_LIMIT_AUTO for what is needed,
 *	      BARN_LIMIT_KEEP for what it is.
 * @max_empty: How many empty sheaves.
 *
 * Sheaves that are too many now stay until they are used, or the cache is shrunk.
 *
 * Context: Task that may sleep, under sheaves_lock().
 * Return: 0, or -EOPNOTSUPP if the cache has no barns.
 */
int sheaves_set_barns(struct kmem_cache *s, int max_full, int max_empty)
{
	lockdep_assert_held(&slab_mutex);
	if (!s->barns)
		return -EOPNOTSUPP;

	if (max_full != BARN_LIMIT_KEEP)
		WRITE_ONCE(s->barn_max_full, max_full);
	if (max_empty != BARN_LIMIT_KEEP)
		WRITE_ONCE(s->barn_max_empty, max_empty);
	update_barns(s);
	return 0;
}
EXPORT_SYMBOL_IF_KUNIT(sheaves_set_barns);

/**
 * sheaves_destroy - free what sheaves_create() and sheaves_enable() made
 * @s: The cache, after sheaves_shutdown(); or one whose creation failed halfway.
 *
 * Context: Task that may sleep.
 */
void sheaves_destroy(struct kmem_cache *s)
{
	int node;

	for_each_node(node)
		sheaf_barn_forget(s, node);
	free_barns(s->barns);
	s->barns = NULL;

	free_percpu(s->cpu_sheaves);
	s->cpu_sheaves = NULL;
}

#ifdef CONFIG_PROVE_LOCKING

/*
 * The lock order that is told in mm/slab_sheaf.c is known before anybody depends on it:
 * who has it wrong is found by the first one who does, not by two who meet.
 */
static int __init sheaves_tell_lock_order(void)
{
	struct node_barn barn;

	barn_init(&barn, 0, 0);
	sheaves_lock();
	mutex_lock(&visit_mutex);
	local_lock(&kmem_cache->cpu_sheaves->lock);
	barn_set_limits(&barn, 1, 1);
	local_unlock(&kmem_cache->cpu_sheaves->lock);
	mutex_unlock(&visit_mutex);
	sheaves_unlock();
	return 0;
}
early_initcall(sheaves_tell_lock_order);

#endif /* CONFIG_PROVE_LOCKING */
