// SPDX-License-Identifier: GPL-2.0
/*
 * A load for the slab allocator that notices when it gets a wrong object
 *
 * Threads take objects of several caches and exchange them for those that they
 * find in a table, which were mostly put there on another CPU. Each object holds
 * its own address, and a pattern that depends on it, so that an object that was
 * handed out twice, or is not the whole object, is found when it is taken out.
 *
 * Threads move from CPU to CPU. They pause if the parameter `run' is 0: when
 * writing it returns, nobody uses the caches and no kfree_rcu() is pending. The
 * table is emptied, and the caches are destroyed, when the module is removed;
 * destruction has to wait for what kfree_rcu() holds by itself.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/prandom.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/isolation.h>
#include <linux/slab.h>

#define MAX_THREADS	8
#define MAX_SLOTS	512
#define MAX_BATCH	100
#define TABLE_BYTES	SZ_512K
#define MAGIC		((unsigned long)0x7a11ab1e5ab1e5edULL)

static unsigned int seed = 1;
module_param(seed, uint, 0444);
MODULE_PARM_DESC(seed, "Of the sequence of operations.");

static bool isolated = true;
module_param(isolated, bool, 0444);
MODULE_PARM_DESC(isolated, "On isolated CPUs, too, where shrinking leaves some sheaves.");

static atomic_t errors = ATOMIC_INIT(0);

/* What every object starts with. The pattern goes to its end. */
struct object {
	unsigned long self;
	unsigned long pattern[];
};

struct rcu_object {
	unsigned long self;
	unsigned long pattern;
	struct rcu_head rcu;
};

/* An object of a cache with a constructor. Magic is never written after that. */
struct ctor_object {
	unsigned long self;
	unsigned long pattern[6];
	unsigned long magic;
};

struct test_cache {
	const char *name;
	unsigned int size;
	slab_flags_t flags;
	unsigned int sheaf_capacity;
	bool ctor;
	bool rcu;

	struct kmem_cache *cache;
	unsigned int nr_slots;
	struct object *slots[MAX_SLOTS];
};

static struct test_cache caches[] = {
	{ .name = "test_slab_16", .size = 16 },
	{ .name = "test_slab_72", .size = 72, .flags = SLAB_HWCACHE_ALIGN },
	{ .name = "test_slab_256", .size = 256 },
	{ .name = "test_slab_1000", .size = 1000, .flags = SLAB_RECLAIM_ACCOUNT },
	{ .name = "test_slab_4096", .size = 4096 },
	{ .name = "test_slab_8200", .size = 8200 },
	{ .name = "test_slab_large_sheaf", .size = 128, .sheaf_capacity = 500 },
	{ .name = "test_slab_account", .size = 192, .flags = SLAB_ACCOUNT },
	{ .name = "test_slab_rcu", .size = 320, .rcu = true },
	{ .name = "test_slab_ctor", .size = sizeof(struct ctor_object),
	  .flags = SLAB_TYPESAFE_BY_RCU, .ctor = true },
};

static struct task_struct *threads[MAX_THREADS];
static unsigned int nr_threads;

static DEFINE_MUTEX(run_mutex);
static bool running;

/*
 * The objects
 */

static void complain(const struct test_cache *c, const struct object *obj,
		     const char *what)
{
	if (atomic_inc_return(&errors) <= 10)
		pr_err("FAILED: %s: object %p: %s\n", c->name, obj, what);
}

static unsigned long pattern_of(const struct object *obj)
{
	return ~(unsigned long)obj ^ MAGIC;
}

static unsigned int nr_words(const struct test_cache *c)
{
	if (c->rcu)
		return 1;
	if (c->ctor)
		return ARRAY_SIZE(((struct ctor_object *)0)->pattern);
	return c->size / sizeof(long) - 1;
}

/* Of large objects, a word of each cache line. */
static unsigned int stride(unsigned int words)
{
	return words > 64 ? 8 : 1;
}

static void fill(struct test_cache *c, struct object *obj)
{
	unsigned int words = nr_words(c), i;

	if (c->ctor && ((struct ctor_object *)obj)->magic != MAGIC)
		complain(c, obj, "was not constructed");

	for (i = 0; i < words; i += stride(words))
		obj->pattern[i] = pattern_of(obj) + i;
	obj->pattern[words - 1] = pattern_of(obj);
	obj->self = (unsigned long)obj;
}

static void check(struct test_cache *c, struct object *obj)
{
	unsigned int words = nr_words(c), i;

	if (obj->self != (unsigned long)obj) {
		complain(c, obj, "does not hold its address");
		return;
	}
	for (i = 0; i < words - 1; i += stride(words)) {
		if (obj->pattern[i] != pattern_of(obj) + i) {
			complain(c, obj, "has lost its pattern");
			return;
		}
	}
	if (obj->pattern[words - 1] != pattern_of(obj))
		complain(c, obj, "has lost the end of its pattern");
}

/* Whoever has it twice does not find the address. */
static void spoil(struct test_cache *c, struct object *obj)
{
	check(c, obj);
	obj->self = 0;
}

static void free_object(struct test_cache *c, struct object *obj)
{
	if (c->rcu) {
		/* Readers may look at it until a grace period has passed. */
		check(c, obj);
		kfree_rcu((struct rcu_object *)obj, rcu);
		return;
	}
	spoil(c, obj);
	kmem_cache_free(c->cache, obj);
}

/*
 * The load
 */

static gfp_t random_gfp(struct rnd_state *rnd)
{
	switch (prandom_u32_state(rnd) % 4) {
	case 0:
		return GFP_NOWAIT | __GFP_NOWARN;
	case 1:
		return GFP_ATOMIC | __GFP_NOWARN;
	default:
		return GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY;
	}
}

static struct object **random_slot(struct test_cache *c, struct rnd_state *rnd)
{
	return &c->slots[prandom_u32_state(rnd) % c->nr_slots];
}

static void exchange(struct test_cache *c, struct rnd_state *rnd, bool alloc)
{
	int node = NUMA_NO_NODE;
	struct object *obj = NULL;

	if (alloc) {
		if (prandom_u32_state(rnd) % 16 == 0)
			node = first_online_node;
		obj = kmem_cache_alloc_node(c->cache, random_gfp(rnd), node);
		if (!obj)
			return;
		fill(c, obj);
	}
	/* Full barrier: who takes the object out sees what is in it. */
	obj = xchg(random_slot(c, rnd), obj);
	if (obj)
		free_object(c, obj);
}

/* In the table, all stay as they are. */
static void burst(struct test_cache *c, struct rnd_state *rnd)
{
	unsigned int nr = 1 + prandom_u32_state(rnd) % 64;

	while (nr--)
		exchange(c, rnd, prandom_u32_state(rnd) % 4);
}

static void bulk(struct test_cache *c, struct rnd_state *rnd)
{
	unsigned int nr = 1 + prandom_u32_state(rnd) % MAX_BATCH;
	void *p[MAX_BATCH];
	unsigned int i;

	if (c->size > PAGE_SIZE)
		nr = 1 + nr / 16;
	if (!kmem_cache_alloc_bulk(c->cache, random_gfp(rnd), nr, p))
		return;
	for (i = 0; i < nr; i++)
		fill(c, p[i]);
	for (i = 0; i < nr; i++)
		spoil(c, p[i]);
	kmem_cache_free_bulk(c->cache, nr, p);
}

/* An object that kfree_rcu() has must stay as it is. */
static void read_rcu(struct test_cache *c, struct rnd_state *rnd)
{
	unsigned int i;

	for (i = 0; i < 16; i++) {
		struct object *obj;

		rcu_read_lock();
		obj = READ_ONCE(*random_slot(c, rnd));
		if (obj && c->rcu)
			check(c, obj);
		else if (obj && ((struct ctor_object *)obj)->magic != MAGIC)
			complain(c, obj, "has lost its type");
		rcu_read_unlock();
	}
}

static void move_somewhere(struct rnd_state *rnd)
{
	unsigned int cpu;

	/*
	 * A CPU that is going offline takes nobody, but would be our only one: migrate_enable()
	 * on PREEMPT_RT warns of that, in 6.12.
	 */
	if (!cpus_read_trylock())
		return;
	cpu = cpumask_nth(prandom_u32_state(rnd) % num_online_cpus(),
			  cpu_online_mask);
	if (cpu < nr_cpu_ids && (isolated || !cpu_is_isolated(cpu)))
		set_cpus_allowed_ptr(current, cpumask_of(cpu));
	cpus_read_unlock();
}

static void load_once(struct rnd_state *rnd)
{
	struct test_cache *c = &caches[prandom_u32_state(rnd) % ARRAY_SIZE(caches)];

	switch (prandom_u32_state(rnd) % 8) {
	case 0:
		/* Leave some of the machine to who wants to unload us. */
		usleep_range(100, 1000);
		move_somewhere(rnd);
		break;
	case 1:
		/* These do not like to be freed in bulk. */
		if (!c->rcu)
			bulk(c, rnd);
		break;
	case 2:
		if (c->rcu || c->ctor)
			read_rcu(c, rnd);
		break;
	default:
		burst(c, rnd);
	}
}

static int thread_fn(void *arg)
{
	struct rnd_state rnd;

	prandom_seed_state(&rnd, ((u64)seed << 32) + (unsigned long)arg);
	while (!kthread_should_stop()) {
		if (kthread_should_park())
			kthread_parkme();
		else
			load_once(&rnd);
		cond_resched();
	}
	return 0;
}

/*
 * Pausing
 */

static void pause_load(void)
{
	unsigned int i;

	for (i = 0; i < nr_threads; i++)
		kthread_park(threads[i]);
	kvfree_rcu_barrier();
	rcu_barrier();
}

static void resume_load(void)
{
	unsigned int i;

	for (i = 0; i < nr_threads; i++)
		kthread_unpark(threads[i]);
}

static int set_run(const char *val, const struct kernel_param *kp)
{
	bool want;
	int err;

	err = kstrtobool(val, &want);
	if (err)
		return err;

	mutex_lock(&run_mutex);
	if (want != running) {
		running = want;
		if (want)
			resume_load();
		else
			pause_load();
	}
	mutex_unlock(&run_mutex);
	return 0;
}

static const struct kernel_param_ops run_ops = {
	.set = set_run,
	.get = param_get_bool,
};
module_param_cb(run, &run_ops, &running, 0644);
MODULE_PARM_DESC(run, "Whether the threads run; 0 waits until all is at rest.");

static int get_errors(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%d\n", atomic_read(&errors));
}

static const struct kernel_param_ops errors_ops = {
	.get = get_errors,
};
module_param_cb(errors, &errors_ops, NULL, 0444);
MODULE_PARM_DESC(errors, "How many wrong objects were found.");

static int get_threads(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%u\n", nr_threads);
}

static const struct kernel_param_ops threads_ops = {
	.get = get_threads,
};
module_param_cb(threads, &threads_ops, NULL, 0444);
MODULE_PARM_DESC(threads, "How many threads there are.");

/* "cache objects" a line: how many objects of each cache are in the table. */
static int get_held(char *buf, const struct kernel_param *kp)
{
	unsigned int i, j, len = 0;

	for (i = 0; i < ARRAY_SIZE(caches); i++) {
		unsigned int nr = 0;

		for (j = 0; j < caches[i].nr_slots; j++)
			nr += !!READ_ONCE(caches[i].slots[j]);
		len += sysfs_emit_at(buf, len, "%s %u\n", caches[i].name, nr);
	}
	return len;
}

static const struct kernel_param_ops held_ops = {
	.get = get_held,
};
module_param_cb(held, &held_ops, NULL, 0444);
MODULE_PARM_DESC(held, "How many objects of which cache are allocated, at rest.");

/*
 * Setting up and tearing down
 */

static void construct(void *p)
{
	struct ctor_object *obj = p;

	memset(obj, 0, sizeof(*obj));
	obj->magic = MAGIC;
}

static int create_cache(struct test_cache *c)
{
	struct kmem_cache_args args = {
		.ctor = c->ctor ? construct : NULL,
		.sheaf_capacity = c->sheaf_capacity,
	};

	c->cache = kmem_cache_create(c->name, c->size, &args,
				     c->flags | SLAB_NO_MERGE);
	if (!c->cache)
		return -ENOMEM;
	c->nr_slots = min(MAX_SLOTS, TABLE_BYTES / c->size);
	return 0;
}

static void destroy_cache(struct test_cache *c)
{
	unsigned int i;

	for (i = 0; i < c->nr_slots; i++)
		if (c->slots[i])
			free_object(c, c->slots[i]);
	kmem_cache_destroy(c->cache);
}

static void tear_down(void)
{
	unsigned int i;

	for (i = 0; i < nr_threads; i++)
		kthread_stop(threads[i]);
	for (i = 0; i < ARRAY_SIZE(caches); i++)
		destroy_cache(&caches[i]);
}

/* More threads than CPUs, so that they are preempted. */
static int start_threads(void)
{
	unsigned int nr = min(MAX_THREADS, num_online_cpus() + 1);

	while (nr_threads < nr) {
		struct task_struct *task;

		task = kthread_create(thread_fn, (void *)(unsigned long)nr_threads,
				      "slab_load/%u", nr_threads);
		if (IS_ERR(task))
			return PTR_ERR(task);
		threads[nr_threads++] = task;
	}
	/* If they are to wait, they begin by parking. */
	while (nr--) {
		if (!running)
			kthread_park(threads[nr]);
		else
			wake_up_process(threads[nr]);
	}
	return 0;
}

static int __init test_slab_load_init(void)
{
	unsigned int i;
	int err;

	for (i = 0; i < ARRAY_SIZE(caches); i++) {
		err = create_cache(&caches[i]);
		if (err)
			goto fail;
	}
	mutex_lock(&run_mutex);
	err = start_threads();
	mutex_unlock(&run_mutex);
	if (err)
		goto fail;
	return 0;
fail:
	tear_down();
	return err;
}

static void __exit test_slab_load_exit(void)
{
	tear_down();
	if (atomic_read(&errors))
		pr_err("FAILED: %d wrong objects\n", atomic_read(&errors));
}

module_init(test_slab_load_init);
module_exit(test_slab_load_exit);
MODULE_AUTHOR("The authors of the sheaves for Linux 6.12");
MODULE_DESCRIPTION("Load for the slab allocator, for tools/testing/selftests/slab");
MODULE_LICENSE("GPL");
