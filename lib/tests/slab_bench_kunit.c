// SPDX-License-Identifier: GPL-2.0
/*
 * Microbenchmarks of the slab allocator
 *
 * One source for every kernel that is to be compared: it uses nothing that
 * Linux 6.12 or 7.2 lacks, and no interface of any one implementation. What the
 * allocator counts is read from /sys/kernel/slab, as far as it is there.
 *
 * Each case is warmed up by a round that is not reported. Each round after it
 * gives one line, which begins with "slab_bench:" and goes on as JSON:
 *
 *   group, case, round: what was measured.
 *   objects: how many objects were allocated and freed, or only one of both
 *	      where the group says so.
 *   ns: what this took, in nanoseconds for all objects. If the guest counts
 *	 instructions (QEMU's -icount shift=0) this is the number of instructions.
 *   counters: the counters of the cache that have changed, and by how much.
 *   value, unit: instead of ns, where it is not time that was measured.
 *
 * Load the module with groups=... and match=... to choose among the groups and
 * cases, and with rounds=... to say how many rounds there shall be. The accounted
 * cases charge the cgroup /slab_bench, those of the flood that are at a limit
 * /slab_bench_limit, and are skipped if there is no such cgroup.
 *
 * No case fails for being slow. A case fails if an object is lost, is handed out
 * twice, or could not be had.
 */

#include <kunit/test.h>
#include <linux/atomic.h>
#include <linux/cgroup.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/kallsyms.h>
#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/memcontrol.h>
#include <linux/mempool.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/nodemask.h>
#include <linux/prandom.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/stacktrace.h>
#include <linux/string.h>
#include <linux/tick.h>
#include <linux/topology.h>
#include <linux/tracepoint.h>
#include <linux/vmalloc.h>
#include <linux/vmstat.h>

static char *groups = "all";
module_param(groups, charp, 0444);
MODULE_PARM_DESC(groups, "Comma separated groups to run (default: all)");

static char *match = "";
module_param(match, charp, 0444);
MODULE_PARM_DESC(match, "Run only cases with this in their name (default: all)");

static unsigned int rounds = 5;
module_param(rounds, uint, 0444);
MODULE_PARM_DESC(rounds, "How many rounds of each case are reported (default: 5)");

static unsigned int objects = 10000;
module_param(objects, uint, 0444);
MODULE_PARM_DESC(objects, "About how many objects a round allocates (default: 10000)");

static unsigned int flood_objects = 2000000;
module_param(flood_objects, uint, 0444);
MODULE_PARM_DESC(flood_objects, "How many objects a flood frees (default: 2000000)");

static bool by_tracer;
module_param(by_tracer, bool, 0444);
MODULE_PARM_DESC(by_tracer, "Turn tracing on where the group latency would look, and do not look");

#define CACHE_NAME	"slab_bench"
#define LIMIT_NAME	CACHE_NAME "_limit"
#define MAX_BATCH	1000U
#define MAX_CPUS	64
#define IN_FLIGHT	128	/* a power of 2 */

/*
 * Counters
 */

static const char * const counter_names[] = {
	"alloc_fastpath", "alloc_slowpath", "free_fastpath", "free_slowpath",
	"sheaf_alloc", "sheaf_free", "sheaf_refill", "sheaf_flush",
	"barn_get", "barn_get_fail", "barn_put", "barn_put_fail",
	"free_rcu_sheaf", "free_rcu_sheaf_fail", "list_lock",
	"alloc_slab", "free_slab", "alloc_from_partial", "alloc_refill",
	"free_add_partial", "free_remove_partial", "cpuslab_flush",
	"cpu_partial_alloc", "cpu_partial_free", "cpu_partial_drain",
};

struct bench {
	struct kunit *test;
	const char *group;
	const char *name;
	const char *cache_name;		/* whose counters are read */
	struct kmem_cache *cache;
	struct vfsmount *sysfs;
	void **p;			/* MAX_BATCH objects */
	unsigned int *order;		/* in which they are freed */
	u64 before[ARRAY_SIZE(counter_names)];
	u64 nr;				/* objects of a round */
	u64 ns;
};

/* The number at the start of a file, or 0 if there is no such file. */
static u64 read_number(struct bench *b, const char *file)
{
	struct path root = { .mnt = b->sysfs, .dentry = b->sysfs->mnt_root };
	char path[80], *buf;
	struct file *f;
	loff_t pos = 0;
	u64 value = 0;

	snprintf(path, sizeof(path), "kernel/slab/%s/%s", b->cache_name, file);
	f = file_open_root(&root, path, O_RDONLY, 0);
	if (IS_ERR(f))
		return 0;
	buf = vzalloc(PAGE_SIZE + 1);
	if (buf && (kernel_read(f, buf, PAGE_SIZE, &pos) <= 0 ||
		    sscanf(buf, "%llu", &value) != 1))
		value = 0;
	vfree(buf);
	fput(f);
	return value;
}

static void read_counters(struct bench *b, u64 *values)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(counter_names); i++)
		values[i] = read_number(b, counter_names[i]);
}

/* What all slab caches have, after a round. */
static unsigned long slab_kb(void)
{
	return (global_node_page_state_pages(NR_SLAB_RECLAIMABLE_B) +
		global_node_page_state_pages(NR_SLAB_UNRECLAIMABLE_B)) << (PAGE_SHIFT - 10);
}

static void report(struct bench *b, unsigned int round)
{
	u64 after[ARRAY_SIZE(counter_names)];
	const char *comma = "";
	char line[800];
	size_t len;
	unsigned int i;

	read_counters(b, after);
	len = scnprintf(line, sizeof(line),
			"{\"group\":\"%s\",\"case\":\"%s\",\"round\":%u,\"objects\":%llu,\"ns\":%llu,",
			b->group, b->name, round, b->nr, b->ns);
	len += scnprintf(line + len, sizeof(line) - len,
			 "\"slab_kb\":%lu,\"in_sheaves\":%llu,\"partial\":%llu,\"counters\":{",
			 slab_kb(), read_number(b, "sheaf_objects"),
			 read_number(b, "partial"));
	for (i = 0; i < ARRAY_SIZE(counter_names); i++) {
		if (after[i] == b->before[i])
			continue;
		len += scnprintf(line + len, sizeof(line) - len, "%s\"%s\":%lld",
				 comma, counter_names[i],
				 (s64)(after[i] - b->before[i]));
		comma = ",";
	}
	pr_info("slab_bench: %s}}\n", line);
}

static void report_value(struct bench *b, const char *what, unsigned int round,
			 u64 value, const char *unit)
{
	pr_info("slab_bench: {\"group\":\"%s\",\"case\":\"%s%s\",\"round\":%u,\"objects\":%llu,\"value\":%llu,\"unit\":\"%s\",\"counters\":{}}\n",
		b->group, b->name, what, round, b->nr, value, unit);
}

/*
 * What all cases share
 */

static bool selected(const char *group)
{
	size_t len = strlen(group);
	const char *p;

	if (!strcmp(groups, "all"))
		return true;
	for (p = groups; p; p = strchr(p, ',')) {
		if (*p == ',')
			p++;
		if (!strncmp(p, group, len) && (!p[len] || p[len] == ','))
			return true;
	}
	return false;
}

static void put_cache(void *cache)
{
	kmem_cache_destroy(cache);
}

static void put_sysfs(void *mnt)
{
	kern_unmount(mnt);
}

static void put_memory(void *p)
{
	vfree(p);
}

static void *get_memory(struct kunit *test, size_t size)
{
	void *p = vzalloc(size);

	KUNIT_ASSERT_NOT_NULL(test, p);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, put_memory, p));
	return p;
}

static struct vfsmount *get_sysfs(struct kunit *test)
{
	struct file_system_type *type = get_fs_type("sysfs");
	struct vfsmount *mnt;

	KUNIT_ASSERT_NOT_NULL(test, type);
	mnt = kern_mount(type);
	module_put(type->owner);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mnt));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, put_sysfs, mnt));
	return mnt;
}

static struct bench *bench_start(struct kunit *test, const char *group,
				 const char *name)
{
	struct bench *b;

	if (!selected(group))
		kunit_skip(test, "group %s is not chosen", group);
	if (name && !strstr(name, match))
		kunit_skip(test, "case %s is not chosen", name);

	b = get_memory(test, sizeof(*b));
	b->test = test;
	b->group = group;
	b->name = name;
	b->cache_name = CACHE_NAME;
	b->p = get_memory(test, MAX_BATCH * sizeof(*b->p));
	b->order = get_memory(test, MAX_BATCH * sizeof(*b->order));
	b->sysfs = get_sysfs(test);
	return b;
}

static void bench_cache(struct bench *b, unsigned int size, slab_flags_t flags)
{
	b->cache = kmem_cache_create(CACHE_NAME, size, 0, flags | SLAB_NO_MERGE,
				     NULL);
	KUNIT_ASSERT_NOT_NULL(b->test, b->cache);
	KUNIT_ASSERT_EQ(b->test, 0,
			kunit_add_action_or_reset(b->test, put_cache, b->cache));
}

/*
 * A kernel that its tests can make fail looks whether this is a test. That takes
 * long then, and nothing otherwise.
 */
static void run_as_if_untested(struct bench *b, void (*run)(struct bench *b, void *arg),
			       void *arg)
{
	struct kunit *test = current->kunit_test;

	current->kunit_test = NULL;
	run(b, arg);
	current->kunit_test = test;
}

/* run() sets b->nr and b->ns, and leaves no object allocated. */
static void bench_rounds(struct bench *b, void (*run)(struct bench *b, void *arg),
			 void *arg)
{
	unsigned int round;

	run_as_if_untested(b, run, arg);
	for (round = 0; round < rounds; round++) {
		read_counters(b, b->before);
		run_as_if_untested(b, run, arg);
		KUNIT_ASSERT_GT(b->test, b->nr, 0);
		report(b, round);
	}
}

/* In which order a batch is freed. */
static void set_order(struct bench *b, unsigned int batch, bool shuffled)
{
	struct rnd_state rnd;
	unsigned int i, j;

	for (i = 0; i < batch; i++)
		b->order[i] = i;
	if (!shuffled)
		return;

	prandom_seed_state(&rnd, 42);
	for (i = batch - 1; i > 0; i--) {
		j = prandom_u32_state(&rnd) % (i + 1);
		swap(b->order[i], b->order[j]);
	}
}

/*
 * Whether all objects are there, and no two of them are the same. Time is only
 * taken around what is measured, so this may take long.
 */
static bool objects_are_good(struct bench *b, unsigned int nr)
{
	unsigned int bad = 0;
	unsigned int i;

	for (i = 0; i < nr; i++) {
		if (!b->p[i])
			return false;
		*(void **)b->p[i] = NULL;
	}
	for (i = 0; i < nr; i++) {
		bad += !!*(void **)b->p[i];
		*(void **)b->p[i] = b->p[i];
	}
	return !bad;
}

/*
 * One thread: a batch is allocated, then freed, in order or shuffled
 */

struct one_thread {
	const char *name;
	unsigned int size;
	bool accounted;
};

static const struct one_thread one_thread_cases[] = {
	{ "size=64", 64 },
	{ "size=256", 256 },
	{ "size=1024", 1024 },
	{ "size=4096", 4096 },
	{ "size=64 accounted", 64, true },
	{ "size=256 accounted", 256, true },
	{ "size=1024 accounted", 1024, true },
	{ "size=4096 accounted", 4096, true },
};

KUNIT_ARRAY_PARAM_DESC(one_thread, one_thread_cases, name);

static const struct batch {
	unsigned int nr;
	bool shuffled;
} batches[] = {
	{ 1 }, { 10 }, { 100 }, { 1000 },
	{ 10, true }, { 100, true }, { 1000, true },
};

static void one_thread_run(struct bench *b, void *arg)
{
	const struct batch *batch = arg;
	unsigned int loops = objects / batch->nr ?: 1;
	unsigned int nr = batch->nr;
	struct kmem_cache *s = b->cache;
	unsigned int loop, i;
	u64 start;

	start = ktime_get_ns();
	for (loop = 0; loop < loops; loop++) {
		for (i = 0; i < nr; i++)
			b->p[i] = kmem_cache_alloc(s, GFP_KERNEL);
		for (i = 0; i < nr; i++)
			kmem_cache_free(s, b->p[b->order[i]]);
	}
	b->ns = ktime_get_ns() - start;
	b->nr = (u64)loops * nr;
}

#ifdef CONFIG_MEMCG
static void put_memcg(void *css)
{
	css_put(css);
}

static struct mem_cgroup *get_memcg(struct kunit *test, const char *path)
{
	struct cgroup_subsys_state *css;
	struct cgroup *cgroup;

	cgroup = cgroup_get_from_path(path);
	if (IS_ERR(cgroup))
		kunit_skip(test, "there is no cgroup %s", path);
	css = cgroup_get_e_css(cgroup, &memory_cgrp_subsys);
	cgroup_put(cgroup);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, put_memcg, css));
	if (!css->parent)
		kunit_skip(test, "the cgroup %s has no memory controller", path);
	return mem_cgroup_from_css(css);
}
#else
static struct mem_cgroup *get_memcg(struct kunit *test, const char *path)
{
	kunit_skip(test, "this kernel has no memory cgroups");
}
#endif

/* Before anything is measured: does the cache work at all? */
static void check_cache(struct bench *b)
{
	unsigned int i;
	bool good;

	for (i = 0; i < MAX_BATCH; i++)
		b->p[i] = kmem_cache_alloc(b->cache, GFP_KERNEL);
	good = objects_are_good(b, MAX_BATCH);
	for (i = 0; i < MAX_BATCH; i++)
		if (b->p[i])
			kmem_cache_free(b->cache, b->p[i]);
	KUNIT_ASSERT_TRUE(b->test, good);
}

static void one_thread_batch(struct bench *b, const struct one_thread *c,
			     const struct batch *batch)
{
	char name[48];

	snprintf(name, sizeof(name), "size=%u batch=%u%s%s", c->size, batch->nr,
		 batch->shuffled ? " shuffled" : "",
		 c->accounted ? " accounted" : "");
	if (!strstr(name, match))
		return;

	b->name = name;
	set_order(b, batch->nr, batch->shuffled);
	bench_rounds(b, one_thread_run, (void *)batch);
}

static void one_thread(struct kunit *test)
{
	const struct one_thread *c = test->param_value;
	struct bench *b = bench_start(test, "one_thread", NULL);
	struct mem_cgroup *old = NULL;
	unsigned int i;

	bench_cache(b, c->size, c->accounted ? SLAB_ACCOUNT : 0);
	check_cache(b);
	if (c->accounted)
		old = set_active_memcg(get_memcg(test, "/" CACHE_NAME));
	for (i = 0; i < ARRAY_SIZE(batches); i++)
		one_thread_batch(b, c, &batches[i]);
	if (c->accounted)
		set_active_memcg(old);
}

/*
 * Bulk: so many objects by one call, and freed by one call
 */

struct bulk {
	const char *name;
	unsigned int size;
	unsigned int batch;
};

#define BULK(_size, _batch) {						\
	.name = "size=" #_size " batch=" #_batch,			\
	.size = _size,							\
	.batch = _batch,						\
}

static const struct bulk bulk_cases[] = {
	BULK(64, 16), BULK(64, 64), BULK(64, 512),
	BULK(256, 16), BULK(256, 64), BULK(256, 512),
	BULK(1024, 16), BULK(1024, 64), BULK(1024, 512),
};

KUNIT_ARRAY_PARAM_DESC(bulk, bulk_cases, name);

static void bulk_run(struct bench *b, void *arg)
{
	const struct bulk *c = arg;
	unsigned int loops = objects / c->batch ?: 1;
	unsigned int loop, got = c->batch;
	u64 start;

	start = ktime_get_ns();
	for (loop = 0; loop < loops && got; loop++) {
		/* Returns the number of objects in some kernels, bool in others. */
		got = 0;
		if (kmem_cache_alloc_bulk(b->cache, GFP_KERNEL, c->batch, b->p))
			got = c->batch;
		if (got)
			kmem_cache_free_bulk(b->cache, got, b->p);
	}
	b->ns = ktime_get_ns() - start;
	b->nr = (u64)loops * c->batch;
	KUNIT_ASSERT_EQ(b->test, got, c->batch);
}

static void bulk(struct kunit *test)
{
	const struct bulk *c = test->param_value;
	struct bench *b = bench_start(test, "bulk", c->name);

	bench_cache(b, c->size, 0);
	check_cache(b);
	bench_rounds(b, bulk_run, (void *)c);
}

/*
 * Fresh slabs: what it takes to allocate all objects of a new slab. Only the
 * allocation is measured.
 */

struct fresh {
	const char *name;
	unsigned int size;
	bool bulk;
};

#define FRESH(_size, _bulk, _text) {					\
	.name = "size=" #_size _text,					\
	.size = _size,							\
	.bulk = _bulk,							\
}

static const struct fresh fresh_cases[] = {
	FRESH(64, false, ""), FRESH(64, true, " bulk"),
	FRESH(256, false, ""), FRESH(256, true, " bulk"),
	FRESH(1024, false, ""), FRESH(1024, true, " bulk"),
	FRESH(4096, false, ""), FRESH(4096, true, " bulk"),
};

KUNIT_ARRAY_PARAM_DESC(fresh, fresh_cases, name);

static void fresh_run(struct bench *b, void *arg)
{
	const struct fresh *c = arg;
	unsigned int per_slab = read_number(b, "objs_per_slab");
	unsigned int slabs, slab, i, nr, got = per_slab;
	u64 start;

	KUNIT_ASSERT_GT(b->test, per_slab, 0);
	KUNIT_ASSERT_LE(b->test, per_slab, MAX_BATCH);
	slabs = MAX_BATCH / per_slab;
	kmem_cache_shrink(b->cache);

	start = ktime_get_ns();
	for (slab = 0; slab < slabs; slab++) {
		void **p = b->p + slab * per_slab;

		if (c->bulk) {
			got = kmem_cache_alloc_bulk(b->cache, GFP_KERNEL,
						    per_slab, p);
			if (!got)
				break;
			continue;
		}
		for (i = 0; i < per_slab; i++)
			p[i] = kmem_cache_alloc(b->cache, GFP_KERNEL);
	}
	b->ns = ktime_get_ns() - start;

	nr = slab * per_slab;
	b->nr = nr;
	for (i = 0; i < nr; i++)
		if (b->p[i])
			kmem_cache_free(b->cache, b->p[i]);
	KUNIT_ASSERT_EQ(b->test, slab, slabs);
}

static void fresh(struct kunit *test)
{
	const struct fresh *c = test->param_value;
	struct bench *b = bench_start(test, "fresh", c->name);

	bench_cache(b, c->size, 0);
	check_cache(b);
	bench_rounds(b, fresh_run, (void *)c);
}

/*
 * kmalloc() and kfree(), of sizes that the compiler does not know
 */

struct kmalloc_case {
	const char *name;
	const char *cache_name;
	unsigned int size;
	unsigned int batch;
};

#define KMALLOC(_size, _cache, _batch) {				\
	.name = "size=" #_size " batch=" #_batch,			\
	.cache_name = "kmalloc-" _cache,				\
	.size = _size,							\
	.batch = _batch,						\
}

static const struct kmalloc_case kmalloc_cases[] = {
	KMALLOC(64, "64", 1), KMALLOC(64, "64", 100),
	KMALLOC(256, "256", 1), KMALLOC(256, "256", 100),
	KMALLOC(1024, "1k", 1), KMALLOC(1024, "1k", 100),
	KMALLOC(4096, "4k", 1), KMALLOC(4096, "4k", 100),
};

KUNIT_ARRAY_PARAM_DESC(kmalloc_, kmalloc_cases, name);

static void kmalloc_run(struct bench *b, void *arg)
{
	const struct kmalloc_case *c = arg;
	unsigned int loops = objects / c->batch;
	unsigned int size = READ_ONCE(c->size);
	unsigned int loop, i;
	u64 start;

	start = ktime_get_ns();
	for (loop = 0; loop < loops; loop++) {
		for (i = 0; i < c->batch; i++)
			b->p[i] = kmalloc(size, GFP_KERNEL);
		for (i = 0; i < c->batch; i++)
			kfree(b->p[i]);
	}
	b->ns = ktime_get_ns() - start;
	b->nr = (u64)loops * c->batch;
}

static void kmalloc_test(struct kunit *test)
{
	const struct kmalloc_case *c = test->param_value;
	struct bench *b = bench_start(test, "kmalloc", c->name);
	unsigned int i;
	bool good;

	b->cache_name = c->cache_name;
	for (i = 0; i < c->batch; i++)
		b->p[i] = kmalloc(c->size, GFP_KERNEL);
	good = objects_are_good(b, c->batch);
	for (i = 0; i < c->batch; i++)
		kfree(b->p[i]);
	KUNIT_ASSERT_TRUE(test, good);
	bench_rounds(b, kmalloc_run, (void *)c);
}

/*
 * kfree_rcu(): the loop of calls alone, and all that comes of it
 */

struct rcu_object {
	struct rcu_head rcu;
	char rest[256 - sizeof(struct rcu_head)];
};

struct rcu_case {
	const char *name;
	bool whole;
};

static const struct rcu_case rcu_cases[] = {
	{ .name = "size=256 calls", .whole = false },
	{ .name = "size=256 calls and reclaim", .whole = true },
};

KUNIT_ARRAY_PARAM_DESC(rcu, rcu_cases, name);

static void drain_rcu(void)
{
	kvfree_rcu_barrier();
	rcu_barrier();
}

static void rcu_calls_run(struct bench *b, void *arg)
{
	unsigned int loops = objects / MAX_BATCH ?: 1;
	unsigned int loop, i, nr;
	u64 start;

	b->ns = 0;
	b->nr = 0;
	for (loop = 0; loop < loops; loop++) {
		for (nr = 0; nr < MAX_BATCH; nr++) {
			b->p[nr] = kmem_cache_alloc(b->cache, GFP_KERNEL);
			if (!b->p[nr])
				break;
		}
		start = ktime_get_ns();
		for (i = 0; i < nr; i++) {
			struct rcu_object *o = b->p[i];

			kfree_rcu(o, rcu);
		}
		b->ns += ktime_get_ns() - start;
		b->nr += nr;
		drain_rcu();
		KUNIT_ASSERT_EQ(b->test, nr, MAX_BATCH);
	}
}

/* The time that this CPU did nothing is not taken into account. */
static void rcu_whole_run(struct bench *b, void *arg)
{
	unsigned int nr = 20 * objects;
	unsigned int i;
	u64 start, idle, wall;

	start = ktime_get_ns();
	idle = get_cpu_idle_time_us(0, &wall);
	for (i = 0; i < nr; i++) {
		struct rcu_object *o = kmem_cache_alloc(b->cache, GFP_KERNEL);

		if (!o)
			break;
		kfree_rcu(o, rcu);
		if (i % 64 == 0)
			cond_resched();
	}
	drain_rcu();
	b->ns = ktime_get_ns() - start;
	b->ns -= (get_cpu_idle_time_us(0, &wall) - idle) * NSEC_PER_USEC;
	b->nr = i;
	KUNIT_ASSERT_EQ(b->test, i, nr);
}

static void kfree_rcu_test(struct kunit *test)
{
	const struct rcu_case *c = test->param_value;
	struct bench *b = bench_start(test, "kfree_rcu", c->name);
	u64 wall;

	if (c->whole && num_possible_cpus() > 1)
		kunit_skip(test, "only one CPU tells how long everything took");
	if (c->whole && get_cpu_idle_time_us(0, &wall) == -1ULL)
		kunit_skip(test, "the time that the CPU is idle is not known");

	bench_cache(b, sizeof(struct rcu_object), 0);
	check_cache(b);
	bench_rounds(b, c->whole ? rcu_whole_run : rcu_calls_run, NULL);
}

/*
 * Threads, each on a CPU of its own
 */

struct team;

struct member {
	struct team *team;
	struct task_struct *task;
	unsigned int cpu;
	unsigned int index;
	unsigned int errors;
	u64 nr;
};

struct team {
	struct bench *bench;
	void (*work)(struct member *m);
	bool fifo;			/* the threads are of the scheduler's FIFO class */
	unsigned int nr;
	unsigned int loops;
	void *shared;
	struct completion start;
	struct completion done;
	atomic_t running;
	struct member members[MAX_CPUS];
};

static int member_fn(void *arg)
{
	struct member *m = arg;

	wait_for_completion(&m->team->start);
	m->team->work(m);
	if (atomic_dec_and_test(&m->team->running))
		complete(&m->team->done);

	/* The thread must be there when it is stopped. */
	while (!kthread_should_stop()) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (!kthread_should_stop())
			schedule();
		__set_current_state(TASK_RUNNING);
	}
	return 0;
}

static void wait_a_little(void)
{
	cpu_relax();
	cond_resched();
}

static int team_hire(struct team *team)
{
	unsigned int i;

	for (i = 0; i < team->nr; i++) {
		struct member *m = &team->members[i];
		struct task_struct *task;

		m->team = team;
		m->index = i;
		m->errors = 0;
		m->nr = 0;
		m->task = NULL;
		task = kthread_create(member_fn, m, "slab_bench/%u", m->cpu);
		if (IS_ERR(task))
			return PTR_ERR(task);
		kthread_bind(task, m->cpu);
		if (team->fifo)
			sched_set_fifo(task);
		m->task = task;
		wake_up_process(task);
	}
	return 0;
}

static void team_run(struct bench *b, void *arg)
{
	struct team *team = arg;
	unsigned int i, errors = 0;
	int err;
	u64 start;

	init_completion(&team->start);
	init_completion(&team->done);
	err = team_hire(team);
	atomic_set(&team->running, team->nr);
	if (err)
		team->loops = 0;

	start = ktime_get_ns();
	complete_all(&team->start);
	if (!err)
		wait_for_completion(&team->done);
	b->ns = ktime_get_ns() - start;

	b->nr = 0;
	for (i = 0; i < team->nr; i++) {
		struct member *m = &team->members[i];

		if (!m->task)
			break;
		kthread_stop(m->task);
		b->nr += m->nr;
		errors += m->errors;
	}
	KUNIT_ASSERT_EQ(b->test, err, 0);
	KUNIT_ASSERT_EQ(b->test, errors, 0);
}

static struct team *team_start(struct bench *b, void (*work)(struct member *m))
{
	struct team *team = get_memory(b->test, sizeof(*team));

	team->bench = b;
	team->work = work;
	return team;
}

static void team_add(struct team *team, unsigned int cpu)
{
	if (team->nr < MAX_CPUS)
		team->members[team->nr++].cpu = cpu;
}

static void team_add_all(struct team *team)
{
	unsigned int cpu;

	for_each_online_cpu(cpu)
		team_add(team, cpu);
	if (team->nr < 2)
		kunit_skip(team->bench->test, "this machine has one CPU");
}

/*
 * Pairs: one CPU allocates from a mempool, another one frees, with IN_FLIGHT
 * objects between them at most
 */

enum node_kind { WITH_MEMORY, MEMORYLESS };

struct pair {
	const char *name;
	enum node_kind from;
	enum node_kind to;
	bool one_node;
};

static const struct pair pair_cases[] = {
	{ "one node", WITH_MEMORY, WITH_MEMORY, true },
	{ "one node without memory", MEMORYLESS, MEMORYLESS, true },
	{ "two nodes", WITH_MEMORY, WITH_MEMORY, false },
	{ "two nodes without memory", MEMORYLESS, MEMORYLESS, false },
	{ "from a node with memory to one without", WITH_MEMORY, MEMORYLESS, false },
	{ "from a node without memory to one with", MEMORYLESS, WITH_MEMORY, false },
};

KUNIT_ARRAY_PARAM_DESC(pair, pair_cases, name);

struct ring {
	mempool_t *pool;
	unsigned int head ____cacheline_aligned_in_smp;
	unsigned int tail ____cacheline_aligned_in_smp;
	void *slots[IN_FLIGHT];
};

static void pair_produce(struct member *m, struct ring *ring)
{
	unsigned int i;

	for (i = 0; i < m->team->loops; i++) {
		void **object = mempool_alloc(ring->pool, GFP_NOIO);

		object[0] = object;
		/* Pairs with the release of the slot in pair_consume(). */
		while (i - smp_load_acquire(&ring->tail) >= IN_FLIGHT)
			wait_a_little();
		ring->slots[i % IN_FLIGHT] = object;
		/* The object is in its slot, and written to. */
		smp_store_release(&ring->head, i + 1);
	}
	m->nr = i;
}

static void pair_consume(struct member *m, struct ring *ring)
{
	unsigned int i;

	for (i = 0; i < m->team->loops; i++) {
		void **object;

		/* Pairs with the release of the object in pair_produce(). */
		while (smp_load_acquire(&ring->head) == i)
			wait_a_little();
		object = ring->slots[i % IN_FLIGHT];
		/* The slot has been read, and may be used again. */
		smp_store_release(&ring->tail, i + 1);
		m->errors += object[0] != object;
		object[0] = NULL;
		mempool_free(object, ring->pool);
	}
}

static void pair_work(struct member *m)
{
	if (m->index == 0)
		pair_produce(m, m->team->shared);
	else
		pair_consume(m, m->team->shared);
}

static void pair_run(struct bench *b, void *arg)
{
	struct team *team = arg;
	struct ring *ring = team->shared;

	ring->head = 0;
	ring->tail = 0;
	team_run(b, team);
}

/* An online CPU of a node of that kind, with more of them if asked for. */
static int find_cpu(enum node_kind kind, int not_node, int not_cpu, int node)
{
	unsigned int cpu;

	for_each_online_cpu(cpu) {
		int n = cpu_to_node(cpu);
		bool memory = node_state(n, N_NORMAL_MEMORY);

		if (kind != (memory ? WITH_MEMORY : MEMORYLESS))
			continue;
		if (n != not_node && cpu != not_cpu &&
		    (node == NUMA_NO_NODE || n == node))
			return cpu;
	}
	return -1;
}

static void put_pool(void *pool)
{
	mempool_destroy(pool);
}

static void pairs(struct kunit *test)
{
	const struct pair *c = test->param_value;
	struct bench *b = bench_start(test, "pairs", c->name);
	struct team *team = team_start(b, pair_work);
	struct ring *ring = get_memory(test, sizeof(*ring));
	int from, to = -1;

	from = find_cpu(c->from, NUMA_NO_NODE, -1, NUMA_NO_NODE);
	if (from >= 0 && c->one_node)
		to = find_cpu(c->to, NUMA_NO_NODE, from, cpu_to_node(from));
	else if (from >= 0)
		to = find_cpu(c->to, cpu_to_node(from), -1, NUMA_NO_NODE);
	if (to < 0)
		kunit_skip(test, "this machine has no such pair of CPUs");

	bench_cache(b, 256, 0);
	check_cache(b);
	ring->pool = mempool_create_slab_pool(IN_FLIGHT / 4, b->cache);
	KUNIT_ASSERT_NOT_NULL(test, ring->pool);
	KUNIT_ASSERT_EQ(test, 0,
			kunit_add_action_or_reset(test, put_pool, ring->pool));

	team->shared = ring;
	team->loops = 10 * objects;
	team_add(team, from);
	team_add(team, to);
	bench_rounds(b, pair_run, team);
}

/*
 * As many pairs as half the CPUs, all at once: each CPU of the first half allocates,
 * and the CPU that comes half of the CPUs after it frees. The objects are of one cache,
 * each pair has a mempool of its own. Reported beside the time is how many objects came
 * from slabs and went to slabs, instead of from CPU to CPU: at first, when the cache
 * is new, and when as many objects have gone through it.
 */

struct mempools {
	struct bench *bench;
	unsigned int nr;
	struct ring rings[MAX_CPUS / 2];
};

static void mempools_work(struct member *m)
{
	struct mempools *all = m->team->shared;

	if (m->index < all->nr)
		pair_produce(m, &all->rings[m->index]);
	else
		pair_consume(m, &all->rings[m->index - all->nr]);
}

static void mempools_run(struct bench *b, void *arg)
{
	struct team *team = arg;
	struct mempools *all = team->shared;
	unsigned int i;

	for (i = 0; i < all->nr; i++) {
		all->rings[i].head = 0;
		all->rings[i].tail = 0;
	}
	team_run(b, team);
}

static u64 counted(struct bench *b, const char *name)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(counter_names); i++)
		if (!strcmp(counter_names[i], name))
			return read_number(b, name) - b->before[i];
	return 0;
}

static void report_slabs(struct bench *b, const char *from, const char *to,
			 unsigned int round)
{
	u64 allocs = counted(b, "alloc_slowpath") + counted(b, "sheaf_refill");
	u64 frees = counted(b, "free_slowpath") + counted(b, "sheaf_flush");

	report_value(b, from, round, div64_u64(allocs * 1000000, b->nr), "per million");
	report_value(b, to, round, div64_u64(frees * 1000000, b->nr), "per million");
}

/* Those who allocate, then those who free, in the order of the CPUs. */
static void mempools_members(struct team *team, struct mempools *all)
{
	unsigned int cpu, left = num_online_cpus();

	all->nr = min(left / 2, MAX_CPUS / 2U);
	left = 2 * all->nr;
	for_each_online_cpu(cpu)
		if (left && left--)
			team_add(team, cpu);
}

static void mempools_create(struct mempools *all)
{
	struct bench *b = all->bench;
	unsigned int i;

	b->cache = kmem_cache_create(CACHE_NAME, 256, 0, SLAB_NO_MERGE, NULL);
	KUNIT_ASSERT_NOT_NULL(b->test, b->cache);
	for (i = 0; i < all->nr; i++) {
		all->rings[i].pool = mempool_create_slab_pool(IN_FLIGHT / 4,
							      b->cache);
		KUNIT_ASSERT_NOT_NULL(b->test, all->rings[i].pool);
	}
}

/* After each round, and when the test ends, if it ends amid one. */
static void mempools_destroy(void *arg)
{
	struct mempools *all = arg;
	unsigned int i;

	for (i = 0; i < all->nr; i++) {
		mempool_destroy(all->rings[i].pool);
		all->rings[i].pool = NULL;
	}
	kmem_cache_destroy(all->bench->cache);
	all->bench->cache = NULL;
}

/* In a cache of its own: none has learned from the round before. */
static void mempools_round(struct bench *b, struct team *team, unsigned int round)
{
	struct mempools *all = team->shared;

	mempools_create(all);
	read_counters(b, b->before);
	run_as_if_untested(b, mempools_run, team);
	report_slabs(b, ", at first, from slabs", ", at first, to slabs", round);

	read_counters(b, b->before);
	run_as_if_untested(b, mempools_run, team);
	report(b, round);
	report_slabs(b, ", from slabs", ", to slabs", round);
	mempools_destroy(all);
}

static void mempools(struct kunit *test)
{
	struct bench *b = bench_start(test, "mempools", "pairs of half the CPUs");
	struct team *team = team_start(b, mempools_work);
	struct mempools *all = get_memory(test, sizeof(*all));
	unsigned int round;

	mempools_members(team, all);
	if (!all->nr)
		kunit_skip(test, "this machine has one CPU");
	all->bench = b;
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, mempools_destroy, all));
	team->shared = all;
	team->loops = objects;
	for (round = 0; round < rounds; round++)
		mempools_round(b, team, round);
}

/*
 * All CPUs at once: each allocates and frees batches
 */

struct all_cpus_case {
	const char *name;
	unsigned int size;
	unsigned int batch;
};

#define ALL(_size, _batch) {						\
	.name = "size=" #_size " batch=" #_batch,			\
	.size = _size,							\
	.batch = _batch,						\
}

static const struct all_cpus_case all_cpus_cases[] = {
	ALL(256, 1), ALL(256, 10), ALL(256, 100), ALL(4096, 10),
};

KUNIT_ARRAY_PARAM_DESC(all_cpus, all_cpus_cases, name);

#define ALL_MAX_BATCH	100

static void all_cpus_work(struct member *m)
{
	const struct all_cpus_case *c = m->team->shared;
	struct kmem_cache *s = m->team->bench->cache;
	void *p[ALL_MAX_BATCH];
	unsigned int loop, i;

	for (loop = 0; loop < m->team->loops; loop++) {
		for (i = 0; i < c->batch; i++) {
			p[i] = kmem_cache_alloc(s, GFP_KERNEL);
			if (p[i])
				*(void **)p[i] = p[i];
		}
		for (i = 0; i < c->batch; i++) {
			if (!p[i] || *(void **)p[i] != p[i])
				m->errors++;
			if (p[i])
				kmem_cache_free(s, p[i]);
		}
		m->nr += c->batch;
		cond_resched();
	}
}

static void all_cpus(struct kunit *test)
{
	const struct all_cpus_case *c = test->param_value;
	struct bench *b = bench_start(test, "all_cpus", c->name);
	struct team *team = team_start(b, all_cpus_work);

	team_add_all(team);
	bench_cache(b, c->size, 0);
	check_cache(b);
	team->shared = (void *)c;
	team->loops = objects / c->batch;
	bench_rounds(b, team_run, team);
}

/*
 * Remote frees: each CPU puts what it allocates at random into an array, and
 * frees what was there before, whoever allocated it
 */

#define NR_SLOTS	1024

static void remote_work(struct member *m)
{
	struct kmem_cache *s = m->team->bench->cache;
	void **slots = m->team->shared;
	struct rnd_state rnd;
	unsigned int i;

	prandom_seed_state(&rnd, m->cpu + 1);
	for (i = 0; i < m->team->loops; i++) {
		void **p = kmem_cache_alloc(s, GFP_KERNEL);

		if (!p) {
			m->errors++;
			break;
		}
		*p = p;
		p = xchg(&slots[prandom_u32_state(&rnd) % NR_SLOTS], p);
		if (!p)
			continue;
		m->errors += *p != p;
		kmem_cache_free(s, p);
		if (i % 64 == 0)
			cond_resched();
	}
	m->nr = i;
}

static void remote_run(struct bench *b, void *arg)
{
	struct team *team = arg;
	void **slots = team->shared;
	unsigned int i;

	team_run(b, team);
	for (i = 0; i < NR_SLOTS; i++) {
		if (slots[i])
			kmem_cache_free(b->cache, slots[i]);
		slots[i] = NULL;
	}
}

static void remote(struct kunit *test)
{
	struct bench *b = bench_start(test, "remote", "size=256");
	struct team *team = team_start(b, remote_work);

	team_add_all(team);
	bench_cache(b, 256, 0);
	check_cache(b);
	team->shared = get_memory(test, NR_SLOTS * sizeof(void *));
	team->loops = objects;
	bench_rounds(b, remote_run, team);
}

/*
 * Destruction of caches
 */

struct destroy_case {
	const char *name;
	slab_flags_t flags;
	bool used;
};

static const struct destroy_case destroy_cases[] = {
	{ "destroy, never used", 0, false },
	{ "destroy, never used, SLAB_TYPESAFE_BY_RCU", SLAB_TYPESAFE_BY_RCU, false },
	{ "destroy, used on all CPUs", 0, true },
	{ "destroy, used on all CPUs, SLAB_TYPESAFE_BY_RCU", SLAB_TYPESAFE_BY_RCU, true },
};

KUNIT_ARRAY_PARAM_DESC(destroy, destroy_cases, name);

#define DESTROY_CACHES	8
#define DESTROY_OBJECTS	100

static void destroy_use(struct member *m)
{
	struct kmem_cache **caches = m->team->shared;
	unsigned int cache, i, nr;

	for (cache = 0; cache < DESTROY_CACHES; cache++) {
		void *p[DESTROY_OBJECTS];

		for (nr = 0; nr < DESTROY_OBJECTS; nr++) {
			p[nr] = kmem_cache_alloc(caches[cache], GFP_KERNEL);
			if (!p[nr])
				break;
		}
		m->errors += nr != DESTROY_OBJECTS;
		for (i = 0; i < nr; i++)
			kmem_cache_free(caches[cache], p[i]);
		m->nr += nr;
	}
}

struct destroy {
	const struct destroy_case *c;
	struct team *team;
};

static void destroy_run(struct bench *b, void *arg)
{
	struct destroy *d = arg;
	struct kmem_cache **caches = d->team->shared;
	unsigned int i, nr;
	char name[32];
	u64 start;

	for (nr = 0; nr < DESTROY_CACHES; nr++) {
		snprintf(name, sizeof(name), CACHE_NAME "_%u", nr);
		caches[nr] = kmem_cache_create(name, 256, 0,
					       d->c->flags | SLAB_NO_MERGE, NULL);
		if (!caches[nr])
			break;
	}
	if (d->c->used && nr == DESTROY_CACHES)
		team_run(b, d->team);

	/* What others have left to do is not what is measured. */
	drain_rcu();
	start = ktime_get_ns();
	for (i = 0; i < nr; i++)
		kmem_cache_destroy(caches[i]);
	b->ns = ktime_get_ns() - start;
	b->nr = nr;
	drain_rcu();
	KUNIT_ASSERT_EQ(b->test, nr, DESTROY_CACHES);
}

static void destroy(struct kunit *test)
{
	const struct destroy_case *c = test->param_value;
	struct bench *b = bench_start(test, "admin", c->name);
	struct destroy d = {
		.c = c,
		.team = team_start(b, destroy_use),
	};
	unsigned int cpu;

	for_each_online_cpu(cpu)
		team_add(d.team, cpu);
	d.team->shared = get_memory(test, DESTROY_CACHES * sizeof(struct kmem_cache *));
	bench_rounds(b, destroy_run, &d);
}

/*
 * A flood: objects are allocated and given to kfree_rcu() in a loop, faster than
 * they can be freed. Reported are the time until the last one is freed, and the
 * memory that there is less of meanwhile, at the peak. In rounds of their own a
 * task of the FIFO class sleeps on each of the CPUs and wants to run every 100 us:
 * how late it ran at the worst, as softirqs keep it from that.
 */

struct flood_case {
	const char *name;
	bool all_cpus;
	bool limited;
};

static const struct flood_case flood_cases[] = {
	{ "one CPU", false, false },
	{ "all CPUs", true, false },
	{ "one CPU, memcg at its limit", false, true },
};

KUNIT_ARRAY_PARAM_DESC(flood, flood_cases, name);

#define WATCH_NS	(100 * NSEC_PER_USEC)
#define FLOOD_LOOK	64	/* objects between two looks at the memory */
#define FLOOD_PATIENCE	(60 * HZ)

struct watch {
	struct task_struct *task;
	u64 worst;
};

struct flood {
	const struct flood_case *c;
	struct team *team;
	struct mem_cgroup *memcg;
	struct watch watches[MAX_CPUS];
	bool watched;
	long available;		/* pages, before and at the peak */
	long least;
	u64 refused;
	u64 worst;
};

static int watch_fn(void *arg)
{
	struct watch *w = arg;

	while (!kthread_should_stop()) {
		ktime_t when = ktime_add_ns(ktime_get(), WATCH_NS);
		s64 late;

		set_current_state(TASK_UNINTERRUPTIBLE);
		schedule_hrtimeout(&when, HRTIMER_MODE_ABS);
		late = ktime_to_ns(ktime_sub(ktime_get(), when));
		/* It is early when it is woken to be stopped. */
		if (late > 0)
			w->worst = max(w->worst, (u64)late);
	}
	return 0;
}

static void flood_unwatch(void *arg)
{
	struct flood *f = arg;
	unsigned int i;

	f->worst = 0;
	for (i = 0; i < f->team->nr; i++) {
		struct watch *w = &f->watches[i];

		if (!w->task)
			continue;
		kthread_stop(w->task);
		w->task = NULL;
		f->worst = max(f->worst, w->worst);
	}
}

static int flood_watch(struct flood *f)
{
	unsigned int i;

	for (i = 0; i < f->team->nr; i++) {
		struct watch *w = &f->watches[i];
		unsigned int cpu = f->team->members[i].cpu;
		struct task_struct *task;

		w->worst = 0;
		task = kthread_create(watch_fn, w, "slab_bench_w/%u", cpu);
		if (IS_ERR(task)) {
			flood_unwatch(f);
			return PTR_ERR(task);
		}
		kthread_bind(task, cpu);
		sched_set_fifo(task);
		w->task = task;
		wake_up_process(task);
	}
	return 0;
}

static void flood_work(struct member *m)
{
	struct flood *f = m->team->shared;
	struct kmem_cache *s = m->team->bench->cache;
	struct mem_cgroup *old = set_active_memcg(f->memcg);
	gfp_t gfp = GFP_KERNEL;
	unsigned int i, waits = 0;

	/* Where an allocation fails, it shall not take a process with it. */
	if (f->memcg)
		gfp |= __GFP_NORETRY | __GFP_NOWARN;
	for (i = 0; i < m->team->loops && waits < FLOOD_PATIENCE; i++) {
		struct rcu_object *o = kmem_cache_alloc(s, gfp);

		while (!o && waits++ < FLOOD_PATIENCE) {
			schedule_timeout_uninterruptible(1);
			o = kmem_cache_alloc(s, gfp);
		}
		if (!o)
			break;
		kfree_rcu(o, rcu);
		if (i % FLOOD_LOOK == 0 && m->index == 0)
			f->least = min(f->least, si_mem_available());
		cond_resched();
	}
	m->errors += i < m->team->loops;
	m->nr = i;
	if (m->index == 0)
		f->refused = waits;
	set_active_memcg(old);
}

static void flood_run(struct bench *b, void *arg)
{
	struct flood *f = arg;
	u64 start;
	int err;

	/* What a flood before this one left behind would be used again. */
	kmem_cache_shrink(b->cache);
	drain_rcu();
	f->available = si_mem_available();
	f->least = f->available;
	err = f->watched ? flood_watch(f) : 0;
	KUNIT_ASSERT_EQ(b->test, err, 0);
	start = ktime_get_ns();
	team_run(b, f->team);
	drain_rcu();
	b->ns = ktime_get_ns() - start;
	if (f->watched)
		flood_unwatch(f);
}

static void flood(struct kunit *test)
{
	const struct flood_case *c = test->param_value;
	struct bench *b = bench_start(test, "flood", c->name);
	struct flood *f = get_memory(test, sizeof(*f));
	unsigned int round;

	f->c = c;
	f->team = team_start(b, flood_work);
	f->team->shared = f;
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, flood_unwatch, f));
	if (c->all_cpus)
		team_add_all(f->team);
	else
		team_add(f->team, cpumask_first(cpu_online_mask));
	if (c->limited)
		f->memcg = get_memcg(test, "/" LIMIT_NAME);
	bench_cache(b, sizeof(struct rcu_object), c->limited ? SLAB_ACCOUNT : 0);
	check_cache(b);

	f->team->loops = objects;
	run_as_if_untested(b, flood_run, f);
	f->team->loops = flood_objects / f->team->nr;
	for (round = 0; round < rounds; round++) {
		read_counters(b, b->before);
		f->watched = false;
		run_as_if_untested(b, flood_run, f);
		report(b, round);
		if (c->limited) {
			report_value(b, ", waits for memory", round, f->refused, "waits");
			continue;
		}
		report_value(b, ", memory at the peak", round,
			     (u64)(f->available - f->least) << (PAGE_SHIFT - 10), "KiB");
		f->watched = true;
		run_as_if_untested(b, flood_run, f);
		report_value(b, ", FIFO task late by", round, f->worst / NSEC_PER_USEC, "us");
	}
}

/*
 * A CPU that is hogged: a thread of the FIFO class gives objects to kfree_rcu() on
 * the last CPU, and what hogs that CPU, of the same class and a lower priority, is
 * there before and stays. How much memory is not free some seconds later?
 */

#define HOG_OBJECTS	10000
#define HOG_SIZE	4096
#define HOG_SECONDS	15

static void hog_work(struct member *m)
{
	struct kmem_cache *s = m->team->bench->cache;
	struct rcu_object **o = m->team->shared;
	unsigned int nr, i;

	for (nr = 0; nr < HOG_OBJECTS; nr++) {
		o[nr] = kmem_cache_alloc(s, GFP_KERNEL);
		if (!o[nr])
			break;
	}
	m->errors += nr != HOG_OBJECTS;
	for (i = 0; i < nr; i++)
		kfree_rcu(o[i], rcu);
	m->nr = nr;
}

static void hog(struct kunit *test)
{
	struct bench *b = bench_start(test, "hog", "kfree_rcu() on a hogged CPU");
	struct team *team = team_start(b, hog_work);
	long before, after;

	team->shared = get_memory(test, HOG_OBJECTS * sizeof(struct rcu_object *));
	team->fifo = true;
	team_add(team, cpumask_last(cpu_online_mask));
	bench_cache(b, HOG_SIZE, 0);
	before = si_mem_available();
	run_as_if_untested(b, team_run, team);
	schedule_timeout_uninterruptible(HOG_SECONDS * HZ);
	after = si_mem_available();
	report_value(b, ", still held", 0,
		     (u64)max(before - after, 0L) << (PAGE_SHIFT - 10), "KiB");
}

/*
 * Fragmentation: most objects die, whichever, and some come back, a few times
 */

#define WAVES_OBJECTS	60000
#define WAVES		4
#define WAVES_REST	20	/* seconds */

static const struct waves_case {
	const char *name;
	unsigned int size;
} waves_cases[] = {
	{ "size=64", 64 }, { "size=256", 256 }, { "size=1024", 1024 },
};

KUNIT_ARRAY_PARAM_DESC(waves, waves_cases, name);

/* Nine in ten objects die. */
static void waves_ebb(struct bench *b, void **p, struct rnd_state *rnd)
{
	unsigned int i;

	for (i = 0; i < WAVES_OBJECTS; i++) {
		if (!p[i] || prandom_u32_state(rnd) % 10 == 0)
			continue;
		kmem_cache_free(b->cache, p[i]);
		p[i] = NULL;
	}
}

/* In so many of ten places where there is none there is one then. */
static void waves_flow(struct bench *b, void **p, struct rnd_state *rnd, unsigned int tenths)
{
	unsigned int i;

	for (i = 0; i < WAVES_OBJECTS; i++)
		if (!p[i] && prandom_u32_state(rnd) % 10 < tenths)
			p[i] = kmem_cache_alloc(b->cache, GFP_KERNEL);
}

/*
 * What slabs have room for, per 1000 objects that are alive; and how many objects are
 * free in those slabs, be it on a freelist, in a cpu slab, or in a sheaf.
 */
static void report_waves(struct bench *b, void **p, const char *when, unsigned int round)
{
	u64 slots = read_number(b, "slabs") * read_number(b, "objs_per_slab");
	char what[80];
	unsigned int i;

	b->nr = 0;
	for (i = 0; i < WAVES_OBJECTS; i++)
		b->nr += !!p[i];
	KUNIT_ASSERT_GT(b->test, b->nr, 0);
	KUNIT_ASSERT_GE(b->test, slots, b->nr);
	snprintf(what, sizeof(what), ", %s", when);
	report_value(b, what, round, div64_u64(slots * 1000, b->nr), "per 1000");
	snprintf(what, sizeof(what), ", free in slabs %s", when);
	report_value(b, what, round, slots - b->nr, "objects");
}

static void waves_run(struct bench *b, void *arg)
{
	unsigned int wave, round = *(unsigned int *)arg;
	void **p = get_memory(b->test, WAVES_OBJECTS * sizeof(*p));
	struct rnd_state rnd;

	prandom_seed_state(&rnd, 42 + round);
	waves_flow(b, p, &rnd, 10);
	for (wave = 0; wave < WAVES; wave++) {
		waves_ebb(b, p, &rnd);
		if (wave == WAVES - 1)
			report_waves(b, p, "after the last have died", round);
		waves_flow(b, p, &rnd, 4);
	}
	report_waves(b, p, "after the last have come", round);
	waves_ebb(b, p, &rnd);
	schedule_timeout_uninterruptible(WAVES_REST * HZ);
	report_waves(b, p, "a while after most have died", round);
	kmem_cache_shrink(b->cache);
	report_waves(b, p, "after a shrink", round);
	/* Then nobody has an object that is free, and every kernel counts the same. */
	KUNIT_EXPECT_EQ(b->test, read_number(b, "objects"), b->nr);
	for (wave = 0; wave < WAVES_OBJECTS; wave++)
		if (p[wave])
			kmem_cache_free(b->cache, p[wave]);
}

static void waves(struct kunit *test)
{
	const struct waves_case *c = test->param_value;
	struct bench *b = bench_start(test, "fragmentation", c->name);
	unsigned int round;

	bench_cache(b, c->size, 0);
	for (round = 0; round < rounds; round++)
		run_as_if_untested(b, waves_run, &round);
}

/*
 * Latency: the longest stretch with interrupts off, and the longest one with preemption
 * off, of each path. The hooks of the tracers irqsoff and preemptoff say where one begins
 * and ends, whose own figures are in microseconds, and of whatever the CPU does. Here it is
 * in nanoseconds, and counts if an object is being allocated or freed where it ends, as
 * the stack tells, and if no interrupt came. A switch to another task is the scheduler's.
 * What the page allocator, workqueues, RCU or the random number generator do on behalf of
 * the allocator does not count, unless it is the allocator that has turned interrupts or
 * preemption off meanwhile: the longest of these is a case of its own. A softirq cannot be
 * preempted, so that in which RCU calls somebody back does count as a whole.
 * The hooks take instructions as well, in all kernels as many: "control" is what is left if
 * nothing is between them.
 */

#ifdef CONFIG_PREEMPTIRQ_TRACEPOINTS

#define LATENCY_SLABS	600
#define LATENCY_MORE	40
#define LATENCY_BATCH	512
#define LATENCY_TIMES	3
#define LATENCY_DEPTH	24
#define LATENCY_SHOWN	5

struct latency;

struct latency_case {
	const char *name;
	void (*prepare)(struct latency *l);
	void (*run)(struct latency *l);
	unsigned int size;
	bool scattered;		/* each object of another slab than the one before */
	bool anyone;		/* what others do on this CPU counts, too */
	bool everything;	/* not only what the allocator does */
};

struct latency {
	const struct latency_case *c;
	struct bench *bench;
	struct kmem_cache *cache;
	unsigned int order;	/* of a slab */
	unsigned int nr;
	void **p;		/* in the order of their addresses */
	void **q;		/* in that in which they are freed, or were allocated */
	unsigned int nr_q;
	unsigned int *first;	/* of the objects of each slab, in p */
	unsigned int slabs;
};

/* A stretch, and what is known of the longest one. The probes have no other argument. */
static struct latency_stretch {
	struct task_struct *task;
	int cpu;
	bool watched;
	bool anyone;
	bool everything;
	bool judging;
	bool open;
	bool interrupted;
	bool rcu;
	u64 start;
	unsigned long from[2];
	u64 longest;
	char where[300];
	/* The longest ones that are not the allocator's, of all cases. */
	struct {
		u64 longest;
		char where[300];
	} others[2];
	unsigned int kind;
	char symbol[KSYM_SYMBOL_LEN];
	unsigned long stack[LATENCY_DEPTH];
} stretch;

static const char *latency_symbol(unsigned long address)
{
	snprintf(stretch.symbol, sizeof(stretch.symbol), "%ps", (void *)address);
	return stretch.symbol;
}

static bool begins_with_any(const char *symbol, const char * const *words)
{
	for (; *words; words++)
		if (str_has_prefix(symbol, *words))
			return true;
	return false;
}

static bool of_allocator(const char *symbol)
{
	static const char * const words[] = {
		"slab", "slub", "sheaf", "sheav", "barn", "kmem_cache", "kmalloc",
		"kfree", "kvfree",
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(words); i++)
		if (strstr(symbol, words[i]))
			return true;
	return false;
}

static bool of_scheduler(const char *symbol)
{
	static const char * const words[] = {
		"__schedule", "preempt_schedule", "schedule_tail", "schedule_idle",
		"schedule_rtlock", NULL
	};

	return !strcmp(symbol, "schedule") || begins_with_any(symbol, words);
}

/* What these turn off they turn on again. */
static bool of_others(const char *symbol)
{
	static const char * const words[] = {
		"free_pcppages", "free_unref_", "free_frozen_", "__free_frozen_", "free_one_page",
		"__free_page", "___free_page", "get_page_from_freelist", "rmqueue", "__rmqueue",
		"alloc_page", "__alloc_page", "get_random_", "__get_random_", "_get_random_",
		"crng_", "queue_", "__queue_", "try_to_grab_pending", "__flush_work",
		"__cancel_work",
		"call_rcu", "__call_rcu", "rcu_", "__rcu_", "call_srcu", "srcu_", "__srcu_",
		"wake_up", "__wake_up", "try_to_wake_up", "complete", "__wait", "wait_for_",
		"add_timer", "mod_timer", "__mod_timer", "timer_", "__timer_", "irq_work_",
		"mod_node_", "mod_lruvec_", "__mod_", "mutex_", "__mutex_", NULL
	};

	return begins_with_any(symbol, words);
}

static bool of_hooks(const char *symbol)
{
	static const char * const words[] = {
		"trace_", "__trace", "tracer_", "preempt_count_", "preempt_latency_",
		"stack_trace_", "_raw_", "__raw_", NULL
	};

	return begins_with_any(symbol, words);
}

/* Who has started the stretch, and who has ended it and was called by whom. */
static void latency_describe(char *where, size_t size, unsigned int depth)
{
	unsigned int i, shown = 0;
	const char *symbol;
	size_t len;

	symbol = latency_symbol(stretch.from[0]);
	if (of_hooks(symbol))
		symbol = latency_symbol(stretch.from[1]);
	len = scnprintf(where, size, "%s ..", symbol);
	for (i = 0; i < depth && shown < LATENCY_SHOWN; i++) {
		symbol = latency_symbol(stretch.stack[i]);
		if (within_module(stretch.stack[i], THIS_MODULE) || of_hooks(symbol))
			continue;
		if (str_has_prefix(symbol, "kunit_") || str_has_prefix(symbol, "process_one_work"))
			break;
		len += scnprintf(where + len, size - len, "%s%s", shown ? " < " : " ", symbol);
		shown++;
	}
}

/* Whether the stretch that has just ended counts, by the stack. */
static void latency_judge(u64 ns, unsigned int depth)
{
	bool counts = stretch.everything, others = false, innermost = true;
	const char *symbol;
	unsigned int i;

	for (i = 0; i < depth; i++) {
		if (within_module(stretch.stack[i], THIS_MODULE))
			continue;
		symbol = latency_symbol(stretch.stack[i]);
		/* What is below has been interrupted. */
		if (str_has_prefix(symbol, "asm_"))
			break;
		if (of_scheduler(symbol))
			return;
		if (of_hooks(symbol))
			continue;
		if (innermost)
			others = of_others(symbol) && !of_allocator(symbol);
		innermost = false;
		counts |= of_allocator(symbol);
	}
	if (stretch.anyone && stretch.rcu) {
		counts = true;
		others = false;
	}
	if (!counts)
		return;
	if (!others) {
		stretch.longest = ns;
		latency_describe(stretch.where, sizeof(stretch.where), depth);
	} else if (ns > stretch.others[stretch.kind].longest) {
		stretch.others[stretch.kind].longest = ns;
		latency_describe(stretch.others[stretch.kind].where,
				 sizeof(stretch.others[stretch.kind].where), depth);
	}
}

static void latency_begins(void *data, unsigned long ip, unsigned long parent)
{
	if (!READ_ONCE(stretch.watched) || stretch.judging ||
	    raw_smp_processor_id() != stretch.cpu)
		return;
	if (!stretch.anyone && (current != stretch.task || !in_task()))
		return;
	stretch.open = true;
	stretch.interrupted = false;
	stretch.rcu = false;
	stretch.from[0] = ip;
	stretch.from[1] = parent;
	stretch.start = ktime_get_mono_fast_ns();
}

static void latency_ends(void *data, unsigned long ip, unsigned long parent)
{
	u64 now = ktime_get_mono_fast_ns();
	unsigned int depth;

	if (!READ_ONCE(stretch.open) || stretch.judging ||
	    raw_smp_processor_id() != stretch.cpu)
		return;
	stretch.open = false;
	if (!stretch.watched || stretch.interrupted || now - stretch.start <= stretch.longest)
		return;
	stretch.judging = true;
	barrier();
	depth = stack_trace_save(stretch.stack, LATENCY_DEPTH, 0);
	latency_judge(now - stretch.start, depth);
	barrier();
	stretch.judging = false;
}

static void latency_vector(void *data, int vector)
{
	stretch.interrupted = true;
}

static void latency_handler(void *data, int irq, struct irqaction *action)
{
	stretch.interrupted = true;
}

static void latency_softirq(void *data, unsigned int vec)
{
	if (vec == RCU_SOFTIRQ)
		stretch.rcu = true;
}

struct latency_hook {
	const char *name;
	void *probe;
	bool irqs;		/* where interrupts are looked at, */
	bool preemption;	/* and where preemption is */
	bool needed;
	struct tracepoint *tp;
	bool used;
};

static struct latency_hook latency_hooks[] = {
	{ "irq_disable", latency_begins, true, false, true },
	{ "irq_enable", latency_ends, true, false, true },
	{ "preempt_disable", latency_begins, false, true, true },
	{ "preempt_enable", latency_ends, false, true, true },
	{ "irq_handler_entry", latency_handler, true, true, true },
	{ "local_timer_entry", latency_vector, true, true, true },
	{ "irq_work_entry", latency_vector, true, true },
	{ "reschedule_entry", latency_vector, true, true },
	{ "call_function_entry", latency_vector, true, true },
	{ "call_function_single_entry", latency_vector, true, true },
	{ "softirq_entry", latency_softirq, true, true, true },
};

static void latency_find(struct tracepoint *tp, void *arg)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(latency_hooks); i++)
		if (!strcmp(tp->name, latency_hooks[i].name))
			latency_hooks[i].tp = tp;
}

static void latency_unhook(void *arg)
{
	struct latency_hook *h;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(latency_hooks); i++) {
		h = &latency_hooks[i];
		if (h->used)
			tracepoint_probe_unregister(h->tp, h->probe, NULL);
		h->used = false;
	}
	tracepoint_synchronize_unregister();
}

static void latency_hook_up(struct kunit *test, bool preemption)
{
	struct latency_hook *h;
	unsigned int i;

	for_each_kernel_tracepoint(latency_find, NULL);
	for (i = 0; i < ARRAY_SIZE(latency_hooks); i++) {
		h = &latency_hooks[i];
		if (!(preemption ? h->preemption : h->irqs))
			continue;
		if (h->needed)
			KUNIT_ASSERT_NOT_NULL_MSG(test, h->tp, "no hook %s", h->name);
		if (!h->tp)
			continue;
		KUNIT_ASSERT_EQ(test, 0, tracepoint_probe_register(h->tp, h->probe, NULL));
		h->used = true;
	}
}

/* States that the caches can be in */

static int by_address(const void *a, const void *b)
{
	unsigned long x = *(unsigned long *)a, y = *(unsigned long *)b;

	return x < y ? -1 : x > y;
}

/*
 * As many slabs, and all objects of each. Some of those that are allocated lie in slabs of
 * which others are free in some array: they go back.
 */
static void latency_fill(struct latency *l)
{
	unsigned int per_slab = l->nr / LATENCY_SLABS;
	unsigned int shift = PAGE_SHIFT + l->order;
	unsigned int i, n, same, all = l->nr + LATENCY_MORE * per_slab;

	for (i = 0; i < all; i++) {
		l->p[i] = kmem_cache_alloc(l->cache, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(l->bench->test, l->p[i]);
	}
	sort(l->p, all, sizeof(*l->p), by_address, NULL);
	l->slabs = 0;
	for (i = 0; i < all; i += same) {
		for (same = 1; i + same < all; same++)
			if (((unsigned long)l->p[i] ^ (unsigned long)l->p[i + same]) >> shift)
				break;
		n = l->slabs * per_slab;
		if (same == per_slab && l->slabs < LATENCY_SLABS) {
			memmove(l->p + n, l->p + i, same * sizeof(*l->p));
			l->first[l->slabs++] = n;
			continue;
		}
		for (n = i; n < i + same; n++)
			kmem_cache_free(l->cache, l->p[n]);
	}
	l->first[l->slabs] = l->nr;
	KUNIT_ASSERT_EQ(l->bench->test, l->slabs, LATENCY_SLABS);
}

static void latency_free(struct latency *l, unsigned int i)
{
	if (l->p[i])
		kmem_cache_free(l->cache, l->p[i]);
	l->p[i] = NULL;
}

/* All objects go from p to q. */
static void latency_line_up(struct latency *l)
{
	unsigned int i, slab, per_slab = l->nr / LATENCY_SLABS;

	l->nr_q = 0;
	if (!l->c->scattered) {
		memcpy(l->q, l->p, l->nr * sizeof(*l->p));
		l->nr_q = l->nr;
	}
	for (i = 0; l->nr_q < l->nr && i < per_slab; i++)
		for (slab = 0; slab < l->slabs; slab++)
			l->q[l->nr_q++] = l->p[l->first[slab] + i];
	memset(l->p, 0, l->nr * sizeof(*l->p));
}

static void no_object(struct latency *l)
{
}

static void one_free_in_sheaves(struct latency *l)
{
	unsigned int slab;

	latency_fill(l);
	for (slab = 0; slab < l->slabs; slab++)
		latency_free(l, l->first[slab]);
}

static void one_free(struct latency *l)
{
	one_free_in_sheaves(l);
	kmem_cache_shrink(l->cache);
}

static void one_used(struct latency *l)
{
	unsigned int slab, i;

	latency_fill(l);
	for (slab = 0; slab < l->slabs; slab++)
		for (i = l->first[slab] + 1; i < l->first[slab + 1]; i++)
			latency_free(l, i);
	kmem_cache_shrink(l->cache);
}

static void all_used(struct latency *l)
{
	latency_fill(l);
	kmem_cache_shrink(l->cache);
	latency_line_up(l);
}

static void all_freed(struct latency *l)
{
	unsigned int i;

	latency_fill(l);
	for (i = 0; i < l->nr; i++)
		latency_free(l, i);
}

static void batch_used(struct latency *l)
{
	all_freed(l);
	for (l->nr_q = 0; l->nr_q < LATENCY_BATCH; l->nr_q++)
		l->q[l->nr_q] = kmem_cache_alloc(l->cache, GFP_KERNEL);
}

static void one_object(struct latency *l)
{
	l->q[0] = kmem_cache_alloc(l->cache, GFP_KERNEL);
	l->nr_q = 1;
}

static void no_object_any_more(struct latency *l)
{
	one_object(l);
	kmem_cache_free(l->cache, l->q[0]);
	l->nr_q = 0;
}

static void all_given_to_rcu(struct latency *l)
{
	all_used(l);
	while (l->nr_q) {
		struct rcu_object *o = l->q[--l->nr_q];

		kfree_rcu(o, rcu);
	}
}

/* What is looked at */

static void off_and_on(struct latency *l)
{
	unsigned long flags;

	local_irq_save(flags);
	local_irq_restore(flags);
	preempt_disable();
	preempt_enable();
}

static void latency_nothing(struct rcu_head *head)
{
}

static void call_rcu_of_nothing(struct latency *l)
{
	static struct rcu_head head;

	call_rcu(&head, latency_nothing);
	drain_rcu();
}

static void alloc_one(struct latency *l)
{
	l->q[0] = kmem_cache_alloc(l->cache, GFP_KERNEL);
	l->nr_q = 1;
}

static void alloc_batch(struct latency *l)
{
	for (l->nr_q = 0; l->nr_q < LATENCY_BATCH; l->nr_q++)
		l->q[l->nr_q] = kmem_cache_alloc(l->cache, GFP_KERNEL);
}

static void alloc_bulk(struct latency *l)
{
	if (kmem_cache_alloc_bulk(l->cache, GFP_KERNEL, LATENCY_BATCH, l->q))
		l->nr_q = LATENCY_BATCH;
}

static void free_all(struct latency *l)
{
	unsigned int i;

	for (i = 0; i < l->nr_q; i++)
		kmem_cache_free(l->cache, l->q[i]);
	l->nr_q = 0;
}

static void free_bulk(struct latency *l)
{
	while (l->nr_q) {
		unsigned int nr = min(l->nr_q, LATENCY_BATCH);

		l->nr_q -= nr;
		kmem_cache_free_bulk(l->cache, nr, l->q + l->nr_q);
	}
}

static void give_to_rcu(struct latency *l)
{
	while (l->nr_q) {
		struct rcu_object *o = l->q[--l->nr_q];

		kfree_rcu(o, rcu);
	}
}

static void wait_for_rcu(struct latency *l)
{
	drain_rcu();
}

static void shrink(struct latency *l)
{
	kmem_cache_shrink(l->cache);
}

#define LATENCY(_size, _name, _prepare, _run, ...) {			\
	.name = "size=" #_size " " _name,				\
	.size = _size,							\
	.prepare = _prepare,						\
	.run = _run,							\
	__VA_ARGS__							\
}

static const struct latency_case latency_cases[] = {
	LATENCY(256, "control", no_object, off_and_on, .everything = true),
	LATENCY(256, "control, call_rcu()", no_object, call_rcu_of_nothing, .anyone = true),
	LATENCY(256, "alloc, hit", no_object_any_more, alloc_one),
	LATENCY(256, "free, hit", one_object, free_all),
	LATENCY(256, "alloc, as many as were freed", all_freed, alloc_batch),
	LATENCY(256, "free, as many as were allocated", batch_used, free_all),
	LATENCY(64, "alloc, one free object in each slab", one_free, alloc_batch),
	LATENCY(256, "alloc, one free object in each slab", one_free, alloc_batch),
	LATENCY(4096, "alloc, one free object in each slab", one_free, alloc_batch),
	LATENCY(64, "alloc, one used object in each slab", one_used, alloc_batch),
	LATENCY(256, "alloc, one used object in each slab", one_used, alloc_batch),
	LATENCY(4096, "alloc, one used object in each slab", one_used, alloc_batch),
	LATENCY(64, "alloc, new slabs", no_object, alloc_batch),
	LATENCY(256, "alloc, new slabs", no_object, alloc_batch),
	LATENCY(4096, "alloc, new slabs", no_object, alloc_batch),
	LATENCY(64, "free, one slab after another", all_used, free_all),
	LATENCY(256, "free, one slab after another", all_used, free_all),
	LATENCY(4096, "free, one slab after another", all_used, free_all),
	LATENCY(64, "free, each of another slab", all_used, free_all, .scattered = true),
	LATENCY(256, "free, each of another slab", all_used, free_all, .scattered = true),
	LATENCY(4096, "free, each of another slab", all_used, free_all, .scattered = true),
	LATENCY(64, "bulk alloc, one free object in each slab", one_free, alloc_bulk),
	LATENCY(256, "bulk alloc, one free object in each slab", one_free, alloc_bulk),
	LATENCY(4096, "bulk alloc, one free object in each slab", one_free, alloc_bulk),
	LATENCY(64, "bulk alloc, one used object in each slab", one_used, alloc_bulk),
	LATENCY(256, "bulk alloc, one used object in each slab", one_used, alloc_bulk),
	LATENCY(4096, "bulk alloc, one used object in each slab", one_used, alloc_bulk),
	LATENCY(64, "bulk alloc, new slabs", no_object, alloc_bulk),
	LATENCY(256, "bulk alloc, new slabs", no_object, alloc_bulk),
	LATENCY(4096, "bulk alloc, new slabs", no_object, alloc_bulk),
	LATENCY(256, "bulk alloc, as many as were freed", all_freed, alloc_bulk),
	LATENCY(256, "bulk free, as many as were allocated", batch_used, free_bulk),
	LATENCY(64, "bulk free, one slab after another", all_used, free_bulk),
	LATENCY(256, "bulk free, one slab after another", all_used, free_bulk),
	LATENCY(4096, "bulk free, one slab after another", all_used, free_bulk),
	LATENCY(64, "bulk free, each of another slab", all_used, free_bulk, .scattered = true),
	LATENCY(256, "bulk free, each of another slab", all_used, free_bulk, .scattered = true),
	LATENCY(4096, "bulk free, each of another slab", all_used, free_bulk, .scattered = true),
	LATENCY(256, "kfree_rcu(), one slab after another", all_used, give_to_rcu),
	LATENCY(256, "kfree_rcu(), each of another slab", all_used, give_to_rcu, .scattered = true),
	LATENCY(256, "after kfree_rcu(), one slab after another", all_given_to_rcu,
		wait_for_rcu, .anyone = true),
	LATENCY(256, "after kfree_rcu(), each of another slab", all_given_to_rcu, wait_for_rcu,
		.anyone = true, .scattered = true),
	LATENCY(64, "shrink, one free object in each slab", one_free_in_sheaves, shrink,
		.anyone = true),
	LATENCY(256, "shrink, one free object in each slab", one_free_in_sheaves, shrink,
		.anyone = true),
	LATENCY(4096, "shrink, one free object in each slab", one_free_in_sheaves, shrink,
		.anyone = true),
	LATENCY(64, "shrink, nothing to do", one_free, shrink, .anyone = true),
	LATENCY(256, "shrink, nothing to do", one_free, shrink, .anyone = true),
	LATENCY(4096, "shrink, nothing to do", one_free, shrink, .anyone = true),
	LATENCY(64, "shrink, all objects free", all_freed, shrink, .anyone = true),
	LATENCY(256, "shrink, all objects free", all_freed, shrink, .anyone = true),
	LATENCY(4096, "shrink, all objects free", all_freed, shrink, .anyone = true),
	{ .name = "what others do on these paths" },
};

KUNIT_ARRAY_PARAM_DESC(latency, latency_cases, name);

static void latency_watch(bool on)
{
	if (!by_tracer)
		WRITE_ONCE(stretch.watched, on);
	else if (on)
		tracing_on();
	else
		tracing_off();
}

/* It is a while to the next tick then. */
static void wait_for_tick(void)
{
	unsigned long now = jiffies;

	while (READ_ONCE(jiffies) == now)
		cpu_relax();
}

/* An idle CPU can never be preempted, as far as the hooks know. */
static int busy_fn(void *arg)
{
	while (!kthread_should_stop())
		cpu_relax();
	return 0;
}

static struct task_struct *latency_start_busy(struct latency *l)
{
	struct task_struct *task;

	if (!l->c->anyone)
		return NULL;
	task = kthread_create(busy_fn, NULL, "slab_bench_busy");
	KUNIT_ASSERT_FALSE(l->bench->test, IS_ERR(task));
	sched_set_normal(task, MAX_NICE);
	wake_up_process(task);
	return task;
}

static void latency_once(struct bench *b, void *arg)
{
	struct latency *l = arg;
	struct task_struct *busy;
	unsigned int i;

	l->nr_q = 0;
	l->c->prepare(l);
	busy = latency_start_busy(l);
	sched_set_fifo(current);
	stretch.open = false;
	wait_for_tick();
	latency_watch(true);
	l->c->run(l);
	latency_watch(false);
	sched_set_normal(current, 0);
	if (busy)
		kthread_stop(busy);

	free_all(l);
	for (i = 0; i < l->nr; i++)
		latency_free(l, i);
	drain_rcu();
	kmem_cache_shrink(l->cache);
}

static const char * const latency_kinds[] = { "irqs off", "preemption off" };

static void latency_report(unsigned int kind, const char *name, unsigned int round, u64 value,
			   const char *where)
{
	pr_info("slab_bench: {\"group\":\"latency\",\"case\":\"%s: %s\",\"round\":%u,\"objects\":1,\"value\":%llu,\"unit\":\"instructions\",\"where\":\"%s\",\"counters\":{}}\n",
		latency_kinds[kind], name, round, value, where);
}

static void latency_round(struct latency *l, unsigned int round)
{
	struct bench *b = l->bench;
	unsigned int i;

	stretch.longest = 0;
	stretch.where[0] = '\0';
	for (i = 0; i < LATENCY_TIMES; i++)
		run_as_if_untested(b, latency_once, l);
	if (by_tracer)
		return;
	if (l->c->everything)
		KUNIT_ASSERT_GT(b->test, stretch.longest, 0);
	latency_report(stretch.kind, l->c->name, round, stretch.longest, stretch.where);
}

static void latency(struct kunit *test)
{
	const struct latency_case *c = test->param_value;
	struct bench *b = bench_start(test, "latency", c->name);
	struct latency *l = get_memory(test, sizeof(*l));
	unsigned int round, kind;

	if (num_online_cpus() > 1)
		kunit_skip(test, "only one CPU does all that there is to do");
	if (!c->run) {
		for (kind = 0; kind < ARRAY_SIZE(latency_kinds); kind++)
			for (round = 0; round < rounds; round++)
				latency_report(kind, c->name, round,
					       stretch.others[kind].longest,
					       stretch.others[kind].where);
		return;
	}
	bench_cache(b, c->size, 0);
	check_cache(b);
	l->c = c;
	l->bench = b;
	l->cache = b->cache;
	l->order = read_number(b, "order");
	l->nr = LATENCY_SLABS * read_number(b, "objs_per_slab");
	KUNIT_ASSERT_GE(test, l->nr, LATENCY_SLABS);
	l->p = get_memory(test, l->nr / LATENCY_SLABS * (LATENCY_SLABS + LATENCY_MORE) *
			  sizeof(*l->p));
	l->q = get_memory(test, l->nr * sizeof(*l->q));
	l->first = get_memory(test, (l->nr + 1) * sizeof(*l->first));

	stretch.task = current;
	stretch.cpu = raw_smp_processor_id();
	stretch.anyone = c->anyone;
	stretch.everything = c->everything;
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, latency_unhook, NULL));
	for (kind = 0; kind < ARRAY_SIZE(latency_kinds); kind++) {
		stretch.kind = kind;
		if (!by_tracer)
			latency_hook_up(test, kind);
		for (round = 0; round < rounds; round++)
			latency_round(l, round);
		latency_unhook(NULL);
	}
}

#else

static const struct latency_case {
	const char *name;
} latency_cases[] = { { "none" } };

KUNIT_ARRAY_PARAM_DESC(latency, latency_cases, name);

static void latency(struct kunit *test)
{
	bench_start(test, "latency", NULL);
	kunit_skip(test, "this kernel has no hooks where interrupts are turned off");
}

#endif

static struct kunit_case slab_bench_cases[] = {
	KUNIT_CASE_PARAM(one_thread, one_thread_gen_params),
	KUNIT_CASE_PARAM(bulk, bulk_gen_params),
	KUNIT_CASE_PARAM(fresh, fresh_gen_params),
	KUNIT_CASE_PARAM(kmalloc_test, kmalloc__gen_params),
	KUNIT_CASE_PARAM(kfree_rcu_test, rcu_gen_params),
	KUNIT_CASE_PARAM(pairs, pair_gen_params),
	KUNIT_CASE(mempools),
	KUNIT_CASE_PARAM(all_cpus, all_cpus_gen_params),
	KUNIT_CASE(remote),
	KUNIT_CASE_PARAM(destroy, destroy_gen_params),
	KUNIT_CASE_PARAM(flood, flood_gen_params),
	KUNIT_CASE(hog),
	KUNIT_CASE_PARAM(waves, waves_gen_params),
	KUNIT_CASE_PARAM(latency, latency_gen_params),
	{}
};

static struct kunit_suite slab_bench_suite = {
	.name = "slab_bench",
	.test_cases = slab_bench_cases,
};

kunit_test_suite(slab_bench_suite);

MODULE_DESCRIPTION("Microbenchmarks of the slab allocator");
MODULE_LICENSE("GPL");
