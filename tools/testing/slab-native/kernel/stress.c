// SPDX-License-Identifier: GPL-2.0
/*
 * A randomised stress. Tasks, most often more than CPUs, and on CPUs that come and
 * go, allocate, free, pass on to each other, and free by RCU, one by one and in
 * bulk, objects of caches of many kinds, while caches are shrunk, resized, created and
 * destroyed, what is not needed is given back, and interrupts, which allocate, free and
 * call kfree_rcu() too, come at any time; whoever may sleep or be preempted may find
 * himself on another CPU afterwards.
 *
 * What is checked:
 * - No object is handed out that somebody has, or that waits for a grace period: a
 *   map has a byte for each 32 bytes of memory.
 * - An object is on the node that was asked for, if it has to be.
 * - What was written to an object is there when it is freed. It depends on the
 *   address and the owner, and fills the whole object.
 * - What a constructor wrote is there when the object is allocated.
 * - In the end, when all is freed, shrunk and destroyed: no cache has an object left,
 *   no kmalloc cache has more objects than in the beginning, per-CPU memory is what
 *   it was, and nothing waits for RCU.
 * - No WARN(), no BUG(), no error message.
 */

#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/memory.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/topology.h>

#include "native.h"

#define NR_CACHES	6
#define NR_SHARED	256	/* places where objects change their owners */
#define NR_OWN		768	/* objects of a task */
#define NR_IRQ_OWN	16
#define MAX_TASKS	64
#define MAX_BULK	64
#define UNIT_SHIFT	5	/* of the map */

enum state { FREE, USED, WAITS };

struct object {
	void *p;
	struct kmem_cache *cache;	/* NULL: by kmalloc() */
	u32 size;
};

/* In each object, at its start. */
struct header {
	union {
		struct rcu_head rcu;
		u64 pattern[2];
	};
	u64 size;
	struct kmem_cache *cache;
};

struct worker {
	struct native_task *task;
	struct object own[NR_OWN];
	unsigned int nr;
	struct object irq_own[NR_IRQ_OWN];
	unsigned int irq_nr;
	u64 ops, irqs, irq_rcus;
};

static const struct {
	const char *name;
	unsigned int size;
	slab_flags_t flags;
	bool has_ctor;
} kinds[NR_CACHES] = {
	{ "stress-32", 32 },
	{ "stress-64", 64, SLAB_HWCACHE_ALIGN },
	{ "stress-256", 256 },
	{ "stress-ctor", 640, 0, true },
	{ "stress-rcu", 1000, SLAB_TYPESAFE_BY_RCU },
	{ "stress-4k", 4096 },
};

static struct kmem_cache *caches[NR_CACHES];
static void *shared[NR_SHARED];
static struct worker *workers[MAX_TASKS];
static const struct native_stress *param;
static u8 *map;
static u32 *stamps;		/* the RCU batch, for what waits */
static u64 deadline;
static unsigned int failures;

#define MAX_FAILURES	10

static void fail(const char *what, const void *p)
{
	pr_info("stress: FAILED: %s, object %p (seed %lu)\n", what, p, param->seed);
	if (++failures >= MAX_FAILURES) {
		pr_info("stress: FAILED, too much is wrong to go on\n");
		host_exit(1);
	}
}

/*
 * The life of an object
 */

static unsigned long unit_of(const void *p)
{
	return ((unsigned long)p - PAGE_OFFSET) >> UNIT_SHIFT;
}

static u64 pattern_of(const void *p, u32 size)
{
	return (unsigned long)p * 0x9e3779b97f4a7c15ULL ^ size;
}

static void fill(void *p, u32 from, u32 to, u32 size)
{
	u64 pattern = pattern_of(p, size);
	u32 i;

	for (i = from; i + 8 <= to; i += 8)
		*(u64 *)(p + i) = pattern + i;
}

static bool is_filled(void *p, u32 from, u32 to, u32 size)
{
	u64 pattern = pattern_of(p, size);
	u32 i;

	for (i = from; i + 8 <= to; i += 8)
		if (*(u64 *)(p + i) != pattern + i)
			return false;
	return true;
}

/* The constructed part of an object is its second half. */
static bool has_ctor(struct kmem_cache *s)
{
	return s && s == caches[3];
}

static u32 filled_size(struct kmem_cache *s, u32 size)
{
	return has_ctor(s) ? size / 2 : size;
}

static void ctor(void *p)
{
	fill(p, kinds[3].size / 2, kinds[3].size, 1);
}

static void obtained(void *p, struct kmem_cache *s, u32 size)
{
	struct header *h = p;
	unsigned long unit = unit_of(p);
	u8 was;

	if (!native_is_direct(p)) {
		fail("an address outside of all memory", p);
		return;
	}
	was = xchg(&map[unit], USED);
	if (was == USED)
		fail("handed out twice", p);
	if (was == WAITS && (int)(native_rcu_done() - READ_ONCE(stamps[unit])) < 0)
		fail("handed out before the end of a grace period", p);
	if (has_ctor(s) && !is_filled(p, size / 2, size, 1))
		fail("not constructed", p);

	fill(p, sizeof(*h), filled_size(s, size), size);
	h->size = size;
	h->cache = s;
	h->pattern[0] = pattern_of(p, size);
	h->pattern[1] = ~h->pattern[0];
}

static void about_to_free(void *p, struct kmem_cache *s, u32 size, enum state state)
{
	struct header *h = p;
	unsigned long unit = unit_of(p);

	if (h->cache != s || h->size != size || h->pattern[0] != pattern_of(p, size) ||
	    h->pattern[1] != ~h->pattern[0] ||
	    !is_filled(p, sizeof(*h), filled_size(s, size), size))
		fail("overwritten while in use", p);
	if (state == WAITS)
		WRITE_ONCE(stamps[unit], native_rcu_next());
	if (xchg(&map[unit], state) != USED)
		fail("freed, but not in use", p);
}

static void release(struct object *o)
{
	about_to_free(o->p, o->cache, o->size, FREE);
	if (o->cache)
		kmem_cache_free(o->cache, o->p);
	else
		kfree(o->p);
}

/* By kfree_rcu(), if it can be: in a constructed object its head would be what that made. */
static bool release_rcu(struct object *o)
{
	struct header *h = o->p;

	if (has_ctor(o->cache)) {
		release(o);
		return false;
	}
	about_to_free(o->p, o->cache, o->size, WAITS);
	kfree_rcu(h, rcu);
	return true;
}

/*
 * What a task does
 */

static gfp_t some_gfp(void)
{
	static const gfp_t gfps[] = {
		GFP_KERNEL, GFP_KERNEL, GFP_ATOMIC, GFP_NOWAIT, GFP_NOIO,
		GFP_NOWAIT | __GFP_NOMEMALLOC | __GFP_NORETRY | __GFP_NOWARN,
	};

	return gfps[native_random(ARRAY_SIZE(gfps))];
}

static int some_node(void)
{
	return native_random(4) ? NUMA_NO_NODE : native_random(nr_node_ids);
}

static unsigned int some_cache(void)
{
	return native_random(NR_CACHES);
}

static void keep(struct worker *w, void *p, struct kmem_cache *s, u32 size)
{
	obtained(p, s, size);
	w->own[w->nr++] = (struct object){ .p = p, .cache = s, .size = size };
}

static struct object take_own(struct worker *w)
{
	unsigned int i = native_random(w->nr);
	struct object o = w->own[i];

	w->own[i] = w->own[--w->nr];
	return o;
}

static void do_alloc(struct worker *w)
{
	unsigned int i = some_cache();
	gfp_t gfp = some_gfp();
	int node = some_node();
	void *p;

	if (w->nr == NR_OWN)
		return;
	if (node != NUMA_NO_NODE && node_state(node, N_NORMAL_MEMORY) && native_random(2))
		gfp |= __GFP_THISNODE;
	p = kmem_cache_alloc_node(caches[i], gfp, node);
	if (p && gfp & __GFP_THISNODE && page_to_nid(virt_to_page(p)) != node)
		fail("on the wrong node", p);
	if (p)
		keep(w, p, caches[i], kinds[i].size);
	else if (gfpflags_allow_blocking(gfp))
		fail("no memory", NULL);
}

static void do_kmalloc(struct worker *w)
{
	u32 size = sizeof(struct header) + native_random(native_random(8) ? 1000 : 20000);
	void *p;

	size &= ~7U;
	if (w->nr == NR_OWN)
		return;
	p = kmalloc_node(size, some_gfp(), some_node());
	if (p)
		keep(w, p, NULL, size);
}

static void do_free(struct worker *w)
{
	struct object o;

	if (!w->nr)
		return;
	o = take_own(w);
	release(&o);
}

/* Many at a time, so that sheaves go to barns and slabs empty. */
static void do_burst(struct worker *w)
{
	unsigned int i = some_cache();
	unsigned int n = native_random(200);
	void *p;

	if (native_random(2)) {
		while (w->nr && n--)
			do_free(w);
		return;
	}
	while (w->nr < NR_OWN && n--) {
		p = kmem_cache_alloc(caches[i], GFP_KERNEL);
		if (p)
			keep(w, p, caches[i], kinds[i].size);
	}
}

/* The owner leaves an object in a place, and takes what was there. */
static void do_exchange(struct worker *w)
{
	void **place = &shared[native_random(NR_SHARED)];
	struct header *h;
	struct object o;

	if (!w->nr)
		return;
	o = take_own(w);
	h = xchg(place, o.p);
	if (h)
		w->own[w->nr++] = (struct object){ .p = h, .cache = h->cache, .size = h->size };
}

static void do_bulk_alloc(struct worker *w)
{
	unsigned int i = some_cache();
	unsigned int n = 1 + native_random(MAX_BULK);
	void *p[MAX_BULK];

	if (w->nr + n > NR_OWN)
		return;
	if (!kmem_cache_alloc_bulk(caches[i], some_gfp(), n, p))
		return;
	while (n--)
		keep(w, p[n], caches[i], kinds[i].size);
}

/* Objects of one cache, or of any: kfree_bulk() sorts that out. */
static void do_bulk_free(struct worker *w)
{
	struct kmem_cache *s = native_random(2) ? caches[some_cache()] : NULL;
	unsigned int nr = 0, i = w->nr;
	void *p[MAX_BULK];

	while (i-- && nr < MAX_BULK) {
		if (s && w->own[i].cache != s)
			continue;
		about_to_free(w->own[i].p, w->own[i].cache, w->own[i].size, FREE);
		p[nr++] = w->own[i].p;
		w->own[i] = w->own[--w->nr];
	}
	if (nr)
		kmem_cache_free_bulk(s, nr, p);
}

static void do_kfree_rcu(struct worker *w)
{
	unsigned int n = 1 + native_random(40);
	struct object o;

	while (w->nr && n--) {
		o = take_own(w);
		release_rcu(&o);
	}
}

static void do_shrink(struct worker *w)
{
	kmem_cache_shrink(caches[some_cache()]);
}

/* Capacities, limits and what follows the load, while all are at work. */
static void do_resize(struct worker *w)
{
	static const unsigned int capacities[] = { 0, 4, 12, 28, 60, 60, 60, 124 };
	struct kmem_cache *s = caches[some_cache()];

	if (!sheaves_lock)
		return;
	if (!native_random(4)) {
		sheaves_give_back();
		return;
	}
	sheaves_lock();
	switch (native_random(3)) {
	case 0:
		sheaves_resize(s, capacities[native_random(ARRAY_SIZE(capacities))]);
		break;
	case 1:
		sheaves_set_feedback(s, native_random(16));
		break;
	default:
		sheaves_set_barns(s, native_random(12) - 1, native_random(12) - 1);
	}
	sheaves_unlock();
}

/* What happens every two seconds, more often. */
static void do_round(struct worker *w)
{
	if (sheaves_round)
		sheaves_round();
}

static void do_count(struct worker *w)
{
	if (kmem_cache_cached_objects)
		kmem_cache_cached_objects(caches[some_cache()]);
}

static void do_prefill(struct worker *w)
{
	unsigned int i = some_cache();
	unsigned int n = 1 + native_random(100), got;
	struct slab_sheaf *sheaf;
	void *p;

	if (!kmem_cache_prefill_sheaf || !kmem_cache_alloc_from_sheaf_noprof ||
	    w->nr + n > NR_OWN)
		return;
	sheaf = kmem_cache_prefill_sheaf(caches[i], GFP_KERNEL, n);
	if (!sheaf)
		return;
	for (got = native_random(n + 1); got; got--) {
		p = kmem_cache_alloc_from_sheaf_noprof(caches[i], GFP_NOWAIT, sheaf);
		if (p)
			keep(w, p, caches[i], kinds[i].size);
		else
			fail("a prefilled sheaf is empty", sheaf);
	}
	kmem_cache_return_sheaf(caches[i], GFP_KERNEL, sheaf);
}

/* A cache of one's own, for a short time. */
static void do_cache(struct worker *w)
{
	unsigned int nr = native_random(MAX_BULK), i;
	struct kmem_cache *s;
	void *p[MAX_BULK];

	s = kmem_cache_create("stress-short", 96 + 8 * native_random(50), 0, SLAB_NO_MERGE,
			      NULL);
	if (!s) {
		fail("no cache", NULL);
		return;
	}
	for (i = 0; i < nr; i++) {
		p[i] = kmem_cache_alloc(s, GFP_KERNEL);
		obtained(p[i], s, 96);
	}
	while (i--) {
		struct object o = { .p = p[i], .cache = s, .size = 96 };

		if (i % 2)
			release(&o);
		else
			release_rcu(&o);
	}
	kmem_cache_destroy(s);
}

static void do_hotplug(struct worker *w)
{
	unsigned int cpu = native_random(native_nr_cpus());

	if (!param->hotplug)
		return;
	cpus_write_lock();
	if (cpu_online(cpu))
		native_cpu_offline(cpu);
	else
		native_cpu_online(cpu);
	/* half of them at least */
	while (num_online_cpus() < (native_nr_cpus() + 1) / 2)
		native_cpu_online(native_random(native_nr_cpus()));
	cpus_write_unlock();
}

/* Offlining of a node is tried, and fails. */
static void do_memory(struct worker *w)
{
	int node = native_random(nr_node_ids);

	if (!param->hotplug || !node_state(node, N_NORMAL_MEMORY))
		return;
	cpus_read_lock();
	native_memory_notify(MEM_GOING_OFFLINE, node);
	native_memory_notify(MEM_CANCEL_OFFLINE, node);
	cpus_read_unlock();
}

static void do_move(struct worker *w)
{
	native_sleep();
}

static const struct {
	void (*fn)(struct worker *w);
	unsigned int weight;
} ops[] = {
	{ do_alloc, 3000 },
	{ do_free, 2600 },
	{ do_kmalloc, 1000 },
	{ do_exchange, 1500 },
	{ do_burst, 60 },
	{ do_bulk_alloc, 100 },
	{ do_bulk_free, 100 },
	{ do_kfree_rcu, 60 },
	{ do_prefill, 60 },
	{ do_move, 100 },
	{ do_shrink, 4 },
	{ do_resize, 4 },
	{ do_round, 2 },
	{ do_count, 4 },
	{ do_cache, 4 },
	{ do_hotplug, 4 },
	{ do_memory, 1 },
};

static int work(void *arg)
{
	struct worker *w = arg;
	unsigned int total = 0, i;

	for (i = 0; i < ARRAY_SIZE(ops); i++)
		total += ops[i].weight;
	while (w->ops % 64 || host_ns() < deadline) {
		unsigned int r = native_random(total);

		for (i = 0; r >= ops[i].weight; i++)
			r -= ops[i].weight;
		ops[i].fn(w);
		w->ops++;
		native_safe_point();
	}
	while (w->nr)
		do_free(w);
	return 0;
}

static void irq_free(struct worker *w)
{
	struct object *o = &w->irq_own[--w->irq_nr];

	if (native_random(2))
		release(o);
	else
		w->irq_rcus += release_rcu(o);
}

/* In an interrupt, of a task of the stress or of the one that watches. */
void native_stress_irq(void)
{
	struct worker *w = native_current()->arg;
	unsigned int n = 1 + native_random(4);
	struct object *o;

	if (!w)
		return;
	w->irqs++;
	while (n--) {
		unsigned int i = some_cache();

		if (w->irq_nr == NR_IRQ_OWN || (w->irq_nr && native_random(2))) {
			irq_free(w);
			continue;
		}
		o = &w->irq_own[w->irq_nr];
		o->cache = caches[i];
		o->size = kinds[i].size;
		o->p = kmem_cache_alloc(caches[i], GFP_ATOMIC);
		if (!o->p)
			continue;
		obtained(o->p, o->cache, o->size);
		w->irq_nr++;
	}
}

/*
 * Before and after
 */

/* What sheaves lie in not every kernel has. */
static const char * const left_names[] = {
	"kmalloc-8", "kmalloc-16", "kmalloc-32", "kmalloc-64", "kmalloc-96", "kmalloc-128",
	"kmalloc-192", "kmalloc-256", "kmalloc-512", "kmalloc-1k", "kmalloc-2k",
	"kmalloc-4k", "kmalloc-8k",
	"sheaf-64", "sheaf-128", "sheaf-256", "sheaf-512", "sheaf-1k", "sheaf-2k", "sheaf-4k",
	"sheaf-barn", "sheaf-barns",
};

#define NR_LEFT		ARRAY_SIZE(left_names)

/* What is left when nothing is cached. */
struct left {
	long objects[NR_LEFT];
	long percpu;
};

static long number_in(const char *text)
{
	long n = 0;

	while (*text >= '0' && *text <= '9')
		n = 10 * n + *text++ - '0';
	return n;
}

static void count_left(struct left *left)
{
	static char buf[PAGE_SIZE];
	unsigned int i;

	/* What is left of a cache must not depend on how much it was used. */
	if (sheaves_set_all_feedback)
		sheaves_set_all_feedback(0);
	/* Twice, since what caches things is made of kmalloc() itself. */
	for (i = 0; i < 2 * (KMALLOC_SHIFT_HIGH + 1); i++) {
		struct kmem_cache *s = kmalloc_caches[KMALLOC_NORMAL][i % (KMALLOC_SHIFT_HIGH + 1)];

		if (s)
			kmem_cache_shrink(s);
	}
	/* With a sanitizer, the memory of sheaves is freed late. */
	rcu_barrier();
	for (i = 0; i < NR_LEFT; i++) {
		bool there = native_sysfs_show(left_names[i], "objects", buf) > 0;

		if (!there && left_names[i][0] == 'k')
			native_die("no %s in sysfs", left_names[i]);
		left->objects[i] = there ? number_in(buf) : 0;
	}
	left->percpu = native_percpu_in_use();
	if (sheaves_set_all_feedback)
		sheaves_set_all_feedback(0xf);
}

/*
 * A round of the allocator, which is due by the clock of the host, runs at any safe point
 * and, with a sanitizer, gives its sheaves to RCU: so one look says nothing.
 */
static bool rcu_comes_to_rest(void)
{
	unsigned int i;

	for (i = 0; i < 100 && native_rcu_pending(); i++)
		rcu_barrier();
	return !native_rcu_pending();
}

static void compare_left(const struct left *before, const struct left *after)
{
	unsigned int i;

	for (i = 0; i < NR_LEFT; i++) {
		if (before->objects[i] == after->objects[i])
			continue;
		pr_info("stress: %s has %ld objects, and had %ld\n", left_names[i],
			after->objects[i], before->objects[i]);
		fail("a leak", NULL);
	}
	if (before->percpu != after->percpu) {
		pr_info("stress: %ld pieces of per-CPU memory, and there were %ld\n",
			after->percpu, before->percpu);
		fail("a leak of per-CPU memory", NULL);
	}
	if (!rcu_comes_to_rest())
		fail("something waits for RCU for ever", NULL);
}

static void create_caches(void)
{
	unsigned int i;

	for (i = 0; i < NR_CACHES; i++) {
		caches[i] = kmem_cache_create(kinds[i].name, kinds[i].size, 0,
					      kinds[i].flags | SLAB_NO_MERGE,
					      kinds[i].has_ctor ? ctor : NULL);
		if (!caches[i])
			native_die("no cache %s", kinds[i].name);
	}
}

static void put_all(struct worker *w)
{
	unsigned int i;

	while (w->irq_nr)
		release(&w->irq_own[--w->irq_nr]);
	for (i = 0; i < NR_SHARED; i++) {
		struct header *h = xchg(&shared[i], NULL);
		struct object o = { .p = h };

		if (!h)
			continue;
		o.cache = h->cache;
		o.size = h->size;
		release(&o);
	}
}

static void episode(u64 *nr_ops, u64 *nr_irqs, u64 *nr_irq_rcus)
{
	unsigned int i;

	create_caches();
	native_chaos = true;
	/* The thread sanitizer, which has no interrupts, does not know xchg(). */
	native_isolates = param->irqs;
	host_irqs_start(param->irqs ? 40 : 0);
	for (i = 0; i < param->tasks; i++) {
		workers[i]->task = native_task_create(work, workers[i]);
		native_task_start(workers[i]->task, i % native_nr_cpus());
	}
	for (i = 0; i < param->tasks; i++)
		native_task_join(workers[i]->task);
	host_irqs_stop();
	native_chaos = false;
	native_isolates = false;

	cpus_write_lock();
	for (i = 0; i < native_nr_cpus(); i++)
		native_cpu_online(i);
	cpus_write_unlock();
	for (i = 0; i < param->tasks; i++) {
		put_all(workers[i]);
		*nr_ops += workers[i]->ops;
		*nr_irqs += workers[i]->irqs;
		*nr_irq_rcus += workers[i]->irq_rcus;
		workers[i]->ops = 0;
		workers[i]->irqs = 0;
		workers[i]->irq_rcus = 0;
	}
	kvfree_rcu_barrier();
	rcu_barrier();
	for (i = 0; i < NR_CACHES; i++)
		kmem_cache_destroy(caches[i]);
	rcu_barrier();
}

#define EPISODES	4

int native_stress(const struct native_stress *stress)
{
	unsigned long units = native_direct_size() >> UNIT_SHIFT;
	struct left before, after;
	u64 nr_ops = 0, nr_irqs = 0, nr_irq_rcus = 0;
	unsigned int i;

	param = stress;
	map = host_map(units, SZ_2M);
	stamps = host_map(units * sizeof(*stamps), SZ_2M);
	for (i = 0; i < stress->tasks; i++)
		workers[i] = host_map(sizeof(*workers[i]), PAGE_SIZE);
	pr_info("stress: seed %lu, %u tasks on %u CPUs and %u nodes, %u ms%s%s\n",
		stress->seed, stress->tasks, native_nr_cpus(), nr_node_ids, stress->ms,
		stress->hotplug ? ", hotplug" : "", stress->irqs ? ", interrupts" : "");

	count_left(&before);
	for (i = 0; i < EPISODES && !failures && !native_errors; i++) {
		deadline = host_ns() + stress->ms * (u64)NSEC_PER_MSEC / EPISODES;
		episode(&nr_ops, &nr_irqs, &nr_irq_rcus);
		count_left(&after);
		compare_left(&before, &after);
	}
	pr_info("stress: %llu operations, %llu interrupts with %llu kfree_rcu(), %u errors\n",
		nr_ops, nr_irqs, nr_irq_rcus, failures + native_errors);
	return failures || native_errors;
}
