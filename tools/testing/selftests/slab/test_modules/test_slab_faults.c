// SPDX-License-Identifier: GPL-2.0
/*
 * Allocations that fail on purpose, one after the other, in all that a user can do
 *
 * Writing the name of an operation to the parameter `run' does it again and again, each
 * time with a cache of its own and with another allocation in it that fails: the first one,
 * the second one, and so on, until it ends before any allocation has failed. Only the
 * writer is concerned (current->fail_nth, as in /proc/self/fail-nth). Which allocations can
 * fail is for who writes to say, in debugfs.
 *
 * Each time, the operation must have said that it failed, if it did, must have done nothing
 * then, must succeed when it is repeated without a fault, and all objects must be back in
 * the end, when the slabs of the cache are given back. What is wrong is in the log, and
 * writing fails with EINVAL.
 *
 * Writing it to `once' does it once, while allocations of who writes fail as debugfs says
 * (current->make_it_fail), and that may be many of them.
 *
 * Reading `result' then tells how many allocations there were when none failed, how many
 * have failed, and how many of these made the operation fail.
 *
 * Writing 1 to `late' creates a cache, test_slab_late, for which the command line may say
 * that it begins without sheaves, and 0 destroys it. The cache test_slab_faults is there
 * as long as the module, with objects in its sheaves.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/fault-inject.h>
#include <linux/limits.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/nodemask.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

/* What there can be: a capacity that is asked for is rounded up. */
#define CAPACITY	(IS_ENABLED(CONFIG_64BIT) ? 60 : 59)
#define MAX_OBJECTS	1000
#define MAX_NTH		20000
#define TRIES		5

/* What is freed stays with KASAN for some time, and needs no sheaf. */
#define KEPT		IS_ENABLED(CONFIG_KASAN_GENERIC)

struct object {
	unsigned long id;
	struct rcu_head rcu;
	char rest[168];
};

/* What an operation works on. */
struct scene {
	struct kmem_cache *cache;
	struct slab_sheaf *sheaf;
	struct object *objects[MAX_OBJECTS];
	unsigned long ids[MAX_OBJECTS];
	unsigned int nr;		/* objects that are allocated */
	bool merges;			/* a cache with another one */
	bool wrong;
};

struct op {
	const char *name;
	int (*prepare)(struct scene *sc, const struct op *op);
	/* What is tried, with faults. Returns 0 or -ENOMEM. */
	int (*run)(struct scene *sc, const struct op *op);
	unsigned int nr;		/* of objects */
	gfp_t gfp;
	slab_flags_t flags;
	bool plain_sizes;		/* no sheaf_capacity */
	bool first_counts;		/* if its first allocation fails, so does it */
	bool never_fails;
	bool may_do_without;		/* it need not allocate anything */
};

static struct scene scene;
static unsigned long next_id = 1;
static struct kmem_cache *resident, *late;
static DEFINE_MUTEX(mutex);

#define COMPLAIN(sc, fmt, ...)						\
do {									\
	pr_err("FAILED: " fmt "\n", ##__VA_ARGS__);			\
	(sc)->wrong = true;						\
} while (0)

#ifdef CONFIG_FAULT_INJECTION
/* The Nth allocation; or with 0, whatever who writes has said. */
static void arm(unsigned int nth)
{
	current->fail_nth = nth;
	current->make_it_fail = !nth;
}

/* How many allocations there were. */
static unsigned int disarm(unsigned int nth)
{
	unsigned int left = current->fail_nth;

	current->fail_nth = 0;
	current->make_it_fail = 0;
	return nth - left;
}
#else
static void arm(unsigned int nth) { }
static unsigned int disarm(unsigned int nth) { return 0; }
#endif

/*
 * Objects: each has a number, of which nobody else knows
 */

static void hold(struct scene *sc, struct object *obj)
{
	obj->id = next_id++;
	sc->ids[sc->nr] = obj->id;
	sc->objects[sc->nr++] = obj;
}

static struct object *let_go(struct scene *sc)
{
	struct object *obj = sc->objects[--sc->nr];

	if (obj->id != sc->ids[sc->nr])
		COMPLAIN(sc, "an object was not ours alone");
	obj->id = 0;
	return obj;
}

static void free_all(struct scene *sc)
{
	while (sc->nr)
		kmem_cache_free(sc->cache, let_go(sc));
}

/*
 * Caches
 */

static void construct(void *p)
{
	memset(p, 0, sizeof(struct object));
}

static struct kmem_cache *create(const struct op *op, const char *name)
{
	struct kmem_cache_args args = {
		.sheaf_capacity = op->plain_sizes ? 0 : CAPACITY,
	};

	return kmem_cache_create(name, sizeof(struct object), &args, op->flags);
}

static int create_one(struct scene *sc, const struct op *op)
{
	sc->cache = create(op, "test_slab_faulty");
	return sc->cache ? 0 : -ENOMEM;
}

static int create_usercopy(struct scene *sc, const struct op *op)
{
	sc->cache = kmem_cache_create_usercopy("test_slab_faulty", sizeof(struct object), 0,
					       op->flags, 8, 16, NULL);
	return sc->cache ? 0 : -ENOMEM;
}

static int create_constructed(struct scene *sc, const struct op *op)
{
	sc->cache = kmem_cache_create("test_slab_faulty", sizeof(struct object), 0,
				      op->flags, construct);
	return sc->cache ? 0 : -ENOMEM;
}

/* One of a size that no other has. */
static struct kmem_cache *create_like_none(const char *name)
{
	return kmem_cache_create(name, 4952, 0, 0, NULL);
}

/* Whether two that are alike are one is for the kernel to say. */
static int create_to_merge(struct scene *sc, const struct op *op)
{
	struct kmem_cache *other;

	sc->cache = create_like_none("test_slab_faulty");
	if (!sc->cache)
		return -ENOMEM;
	other = create_like_none("test_slab_merged");
	sc->merges = other == sc->cache;
	kmem_cache_destroy(other);
	return 0;
}

/* It becomes one with what there is, whether or not sysfs has memory to say so. */
static int merge(struct scene *sc, const struct op *op)
{
	struct kmem_cache *other;

	if (!sc->merges)
		return 0;
	other = create_like_none("test_slab_merged");
	if (other != sc->cache)
		COMPLAIN(sc, "%s: there is no cache, or another one", op->name);
	kmem_cache_destroy(other);
	return 0;
}

static int destroy_it(struct scene *sc, const struct op *op)
{
	kmem_cache_destroy(sc->cache);
	sc->cache = NULL;
	return 0;
}

/*
 * Objects, one by one and in bulk
 */

static int alloc_some(struct scene *sc, const struct op *op)
{
	unsigned int i;
	int err = 0;

	for (i = 0; i < op->nr; i++) {
		struct object *obj = kmem_cache_alloc(sc->cache, op->gfp ?: GFP_KERNEL);

		if (obj)
			hold(sc, obj);
		else
			err = -ENOMEM;
	}
	return err;
}

/* From each node that has memory, and from no other. */
static int alloc_from_nodes(struct scene *sc, const struct op *op)
{
	int node, err = 0;

	for_each_node_state(node, N_NORMAL_MEMORY) {
		struct object *obj;

		obj = kmem_cache_alloc_node(sc->cache, GFP_KERNEL | __GFP_THISNODE, node);
		if (obj)
			hold(sc, obj);
		else
			err = -ENOMEM;
	}
	return err;
}

static int alloc_bulk(struct scene *sc, const struct op *op)
{
	void **p = (void **)sc->objects + sc->nr;
	unsigned int i, from = sc->nr;

	if (!kmem_cache_alloc_bulk(sc->cache, GFP_KERNEL, op->nr, p))
		return -ENOMEM;
	for (i = 0; i < op->nr; i++)
		hold(sc, sc->objects[from + i]);
	return 0;
}

static int alloc_and_free(struct scene *sc, const struct op *op)
{
	int err = alloc_some(sc, op);

	free_all(sc);
	return err;
}

static int free_some(struct scene *sc, const struct op *op)
{
	free_all(sc);
	return 0;
}

static int free_bulk(struct scene *sc, const struct op *op)
{
	unsigned int nr = sc->nr;

	while (sc->nr)
		let_go(sc);
	kmem_cache_free_bulk(sc->cache, nr, (void **)sc->objects);
	return 0;
}

static int free_rcu(struct scene *sc, const struct op *op)
{
	while (sc->nr) {
		struct object *obj = let_go(sc);

		kfree_rcu(obj, rcu);
	}
	return 0;
}

static int shrink(struct scene *sc, const struct op *op)
{
	kmem_cache_shrink(sc->cache);
	return 0;
}

/*
 * Prefilled sheaves
 */

/* What was promised is there, and is taken. */
static void take(struct scene *sc, unsigned int nr)
{
	while (nr--) {
		struct object *obj;

		obj = kmem_cache_alloc_from_sheaf(sc->cache, GFP_NOWAIT, sc->sheaf);
		if (!obj) {
			COMPLAIN(sc, "a prefilled sheaf was %u objects short", nr + 1);
			return;
		}
		hold(sc, obj);
	}
}

static int return_it(struct scene *sc, const struct op *op)
{
	if (sc->sheaf)
		kmem_cache_return_sheaf(sc->cache, GFP_KERNEL, sc->sheaf);
	sc->sheaf = NULL;
	return 0;
}

static int prefill(struct scene *sc, const struct op *op)
{
	sc->sheaf = kmem_cache_prefill_sheaf(sc->cache, op->gfp ?: GFP_KERNEL, op->nr);
	return sc->sheaf ? 0 : -ENOMEM;
}

/* No allocation from it ever fails. */
static int prefill_and_take(struct scene *sc, const struct op *op)
{
	if (prefill(sc, op))
		return -ENOMEM;
	take(sc, op->nr);
	return return_it(sc, op);
}

static int with_sheaf(struct scene *sc, const struct op *op)
{
	struct op small = { .nr = 10 };
	int err = create_one(sc, op);

	if (err)
		return err;
	err = prefill(sc, &small);
	if (!err)
		take(sc, small.nr / 2);
	return err;
}

/* With what it had, or more, whether or not it gets what is wanted. */
static int refill(struct scene *sc, const struct op *op)
{
	struct slab_sheaf *sheaf = sc->sheaf;
	unsigned int had = kmem_cache_sheaf_size(sheaf), has;
	int err;

	err = kmem_cache_refill_sheaf(sc->cache, GFP_KERNEL, &sc->sheaf, op->nr);
	has = kmem_cache_sheaf_size(sc->sheaf);
	if (err && sc->sheaf != sheaf)
		COMPLAIN(sc, "another sheaf, though there was no memory");
	if (has < had || (!err && has < op->nr))
		COMPLAIN(sc, "%u objects instead of %u, error %d", has, op->nr, err);
	return err;
}

/*
 * What there is before
 */

static int with_objects(struct scene *sc, const struct op *op)
{
	struct op many = { .nr = op->nr };

	return create_one(sc, op) ?: alloc_some(sc, &many);
}

/* Objects in the sheaves of the CPU, and in the barn. */
static int with_sheaves(struct scene *sc, const struct op *op)
{
	int err = with_objects(sc, op);

	if (!err)
		free_all(sc);
	return err;
}

static int nothing(struct scene *sc, const struct op *op)
{
	return 0;
}

#define CREATE(_name, _run, ...) \
	{ .name = _name, .prepare = nothing, .run = _run, \
	  .first_counts = true, ## __VA_ARGS__ }

static const struct op ops[] = {
	CREATE("create", create_one, .flags = SLAB_NO_MERGE, .plain_sizes = true),
	CREATE("create_large", create_one),
	CREATE("create_hwalign", create_one, .flags = SLAB_HWCACHE_ALIGN | SLAB_RECLAIM_ACCOUNT),
	CREATE("create_usercopy", create_usercopy, .flags = SLAB_NO_MERGE),
	CREATE("create_by_rcu", create_one, .flags = SLAB_TYPESAFE_BY_RCU),
	CREATE("create_ctor", create_constructed),
	CREATE("create_debug", create_one, .flags = SLAB_RED_ZONE | SLAB_POISON),
	{ "merge", create_to_merge, merge, .never_fails = true, .may_do_without = true },

	{ "alloc", create_one, alloc_some, .nr = 1, .first_counts = true },
	{ "alloc_many", create_one, alloc_some, .nr = 3 * CAPACITY, .first_counts = true },
	{ "alloc_atomic", create_one, alloc_some, .nr = CAPACITY, .gfp = GFP_ATOMIC,
	  .first_counts = true },
	{ "alloc_nowait", create_one, alloc_some, .nr = CAPACITY, .gfp = GFP_NOWAIT,
	  .first_counts = true },
	{ "alloc_debug", create_one, alloc_some, .nr = 20, .flags = SLAB_RED_ZONE | SLAB_POISON,
	  .first_counts = true },
	{ "alloc_account", create_one, alloc_some, .nr = CAPACITY, .flags = SLAB_ACCOUNT,
	  .first_counts = true },
	{ "alloc_by_rcu", create_one, alloc_some, .nr = CAPACITY,
	  .flags = SLAB_TYPESAFE_BY_RCU, .first_counts = true },
	{ "alloc_warm", with_sheaves, alloc_some, .nr = 2 * CAPACITY, .first_counts = true },
	{ "alloc_node", create_one, alloc_from_nodes, .first_counts = true },
	{ "alloc_free", create_one, alloc_and_free, .nr = 3 * CAPACITY, .first_counts = true },

	{ "bulk_1", create_one, alloc_bulk, .nr = 1, .first_counts = true },
	{ "bulk_7", create_one, alloc_bulk, .nr = 7, .first_counts = true },
	{ "bulk_60", create_one, alloc_bulk, .nr = CAPACITY, .first_counts = true },
	{ "bulk_200", create_one, alloc_bulk, .nr = 200, .first_counts = true },
	{ "bulk_500", create_one, alloc_bulk, .nr = MAX_OBJECTS / 2, .first_counts = true },
	{ "bulk_warm", with_sheaves, alloc_bulk, .nr = 200, .first_counts = true },
	{ "bulk_account", create_one, alloc_bulk, .nr = 200, .flags = SLAB_ACCOUNT,
	  .first_counts = true },
	{ "bulk_debug", create_one, alloc_bulk, .nr = 60, .flags = SLAB_RED_ZONE | SLAB_POISON,
	  .first_counts = true },

	{ "prefill", create_one, prefill, .nr = CAPACITY / 2, .first_counts = true },
	{ "prefill_atomic", create_one, prefill, .nr = CAPACITY / 2, .gfp = GFP_ATOMIC,
	  .first_counts = true },
	{ "prefill_full", create_one, prefill_and_take, .nr = CAPACITY, .first_counts = true },
	{ "prefill_oversize", create_one, prefill_and_take, .nr = 4 * CAPACITY,
	  .first_counts = true },
	{ "prefill_warm", with_sheaves, prefill_and_take, .nr = CAPACITY, .first_counts = true },
	{ "prefill_account", create_one, prefill_and_take, .nr = CAPACITY,
	  .flags = SLAB_ACCOUNT, .first_counts = true },
	{ "prefill_debug", create_one, prefill_and_take, .nr = CAPACITY,
	  .flags = SLAB_RED_ZONE | SLAB_POISON, .first_counts = true },
	{ "refill", with_sheaf, refill, .nr = CAPACITY, .first_counts = true },
	{ "refill_oversize", with_sheaf, refill, .nr = 4 * CAPACITY, .first_counts = true },
	{ "refill_debug", with_sheaf, refill, .nr = CAPACITY,
	  .flags = SLAB_RED_ZONE | SLAB_POISON, .first_counts = true },
	{ "return", with_sheaf, return_it, .never_fails = true, .may_do_without = true },

	{ "free", with_objects, free_some, .nr = MAX_OBJECTS / 2, .never_fails = true,
	  .may_do_without = KEPT },
	{ "free_bulk", with_objects, free_bulk, .nr = MAX_OBJECTS / 2, .never_fails = true,
	  .may_do_without = KEPT },
	{ "free_account", with_objects, free_some, .nr = 4 * CAPACITY, .flags = SLAB_ACCOUNT,
	  .never_fails = true, .may_do_without = KEPT },
	{ "free_rcu", with_objects, free_rcu, .nr = 4 * CAPACITY, .never_fails = true },
	{ "free_rcu_debug", with_objects, free_rcu, .nr = 50,
	  .flags = SLAB_RED_ZONE | SLAB_POISON, .never_fails = true, .may_do_without = true },
	{ "shrink", with_sheaves, shrink, .nr = 4 * CAPACITY, .never_fails = true,
	  .may_do_without = true },
	{ "destroy", with_sheaves, destroy_it, .nr = 4 * CAPACITY, .never_fails = true,
	  .may_do_without = true },
};

/*
 * One after the other
 */

/* All that was allocated comes back, and the slabs with it. */
static void clean_up(struct scene *sc, const struct op *op)
{
	if (!sc->cache)
		return;
	return_it(sc, op);
	free_all(sc);
	kvfree_rcu_barrier();
	/* With SLUB_RCU_DEBUG, what is SLAB_TYPESAFE_BY_RCU is freed by RCU. */
	rcu_barrier();
	if (kmem_cache_shrink(sc->cache))
		COMPLAIN(sc, "%s: objects were lost", op->name);
	destroy_it(sc, op);
}

/* Whatever happened to it, the cache is as good as any. */
static void use(struct scene *sc, const struct op *op)
{
	struct op one = { .nr = 1 };

	if (sc->cache && alloc_some(sc, &one))
		COMPLAIN(sc, "%s: nothing can be allocated afterwards", op->name);
}

static bool is_right(const struct op *op, unsigned int nth, bool failed, int err)
{
	if (err)
		return err == -ENOMEM && failed && !op->never_fails;
	if (!failed)
		return true;
	/* There may be another way, or it was for who watches (kmemleak). */
	return !op->first_counts || nth != 1;
}

/* Returns how many allocations there were, at most @nth, of which the last one failed. */
static unsigned int try(struct scene *sc, const struct op *op, unsigned int nth, int *err)
{
	unsigned int nr;

	*err = op->prepare(sc, op);
	if (*err) {
		COMPLAIN(sc, "%s: cannot be prepared: error %d", op->name, *err);
		clean_up(sc, op);
		return 0;
	}
	arm(nth);
	*err = op->run(sc, op);
	nr = disarm(nth);
	if (!is_right(op, nth, nr == nth, *err))
		COMPLAIN(sc, "%s: allocation %u of %u failed: error %d", op->name,
			 nr == nth ? nth : 0, nr, *err);
	if (*err && op->run(sc, op))
		COMPLAIN(sc, "%s: fails when it is repeated, after allocation %u", op->name, nth);
	use(sc, op);
	clean_up(sc, op);
	return nr;
}

static struct {
	const char *name;
	unsigned int plain, faults, errors;
} result;

/* As many as there are mostly: the first time, others are not prepared for it. */
static unsigned int count(struct scene *sc, const struct op *op)
{
	unsigned int nr = UINT_MAX, i;
	int err;

	for (i = 0; i < 3; i++)
		nr = min(nr, try(sc, op, INT_MAX, &err));
	return nr;
}

/* Returns whether as many have failed as there are. */
static bool fail_all(struct scene *sc, const struct op *op)
{
	unsigned int nth, nr = 0, i;
	int err;

	result.faults = 0;
	result.errors = 0;
	for (nth = 1; nth <= MAX_NTH; nth++) {
		/* Now and then there are some less than there are mostly. */
		for (i = 0; i < TRIES; i++) {
			nr = try(sc, op, nth, &err);
			if (nr == nth || nth > result.plain)
				break;
		}
		if (nr < nth && nth > result.plain)
			break;
		result.faults += nr == nth;
		result.errors += !!err;
		cond_resched();
	}
	if (nth > MAX_NTH)
		COMPLAIN(sc, "%s: there is no end to it", op->name);
	result.plain = min(result.plain, count(sc, op));
	return result.faults >= result.plain;
}

static int fail_each(struct scene *sc, const struct op *op)
{
	bool enough = false;
	unsigned int i;

	sc->wrong = false;
	memset(&result, 0, sizeof(result));
	result.name = op->name;
	result.plain = count(sc, op);
	if (!result.plain && !op->may_do_without)
		COMPLAIN(sc, "%s: allocates nothing", op->name);
	/* Or less for a while, as after KASAN has given back what it kept. */
	for (i = 0; i < TRIES && !enough && !sc->wrong; i++)
		enough = fail_all(sc, op);
	if (!enough)
		COMPLAIN(sc, "%s: %u allocations, of which %u failed", op->name,
			 result.plain, result.faults);
	return sc->wrong ? -EINVAL : 0;
}

/* Many may fail. */
static int fail_some(struct scene *sc, const struct op *op)
{
	int err;

	sc->wrong = false;
	memset(&result, 0, sizeof(result));
	result.name = op->name;
	try(sc, op, 0, &err);
	result.errors = !!err;
	return sc->wrong ? -EINVAL : 0;
}

static int set_op(const char *val, const struct kernel_param *kp)
{
	int (*fail)(struct scene *sc, const struct op *op) = kp->arg;
	unsigned int i;
	int err = -ENOENT;

	mutex_lock(&mutex);
	for (i = 0; resident && i < ARRAY_SIZE(ops); i++)
		if (sysfs_streq(val, ops[i].name))
			err = fail(&scene, &ops[i]);
	mutex_unlock(&mutex);
	return err;
}

static const struct kernel_param_ops op_ops = {
	.set = set_op,
};
module_param_cb(run, &op_ops, fail_each, 0200);
MODULE_PARM_DESC(run, "The operation whose allocations fail one after the other.");
module_param_cb(once, &op_ops, fail_some, 0200);
MODULE_PARM_DESC(once, "The operation that is done once, by a task that may fail.");

static int get_operations(char *buf, const struct kernel_param *kp)
{
	unsigned int i;
	int len = 0;

	for (i = 0; i < ARRAY_SIZE(ops); i++)
		len += sysfs_emit_at(buf, len, "%s\n", ops[i].name);
	return len;
}

static const struct kernel_param_ops operations_ops = {
	.get = get_operations,
};
module_param_cb(operations, &operations_ops, NULL, 0444);
MODULE_PARM_DESC(operations, "Which operations there are.");

static int get_result(char *buf, const struct kernel_param *kp)
{
	int len;

	mutex_lock(&mutex);
	len = sysfs_emit(buf, "%s %u %u %u\n", result.name ?: "none", result.plain,
			 result.faults, result.errors);
	mutex_unlock(&mutex);
	return len;
}

static const struct kernel_param_ops result_ops = {
	.get = get_result,
};
module_param_cb(result, &result_ops, NULL, 0444);
MODULE_PARM_DESC(result, "Allocations in the last one, faults, and errors that came of them.");

static int set_late(const char *val, const struct kernel_param *kp)
{
	struct op op = { .plain_sizes = true, .flags = SLAB_NO_MERGE };
	bool there;
	int err;

	err = kstrtobool(val, &there);
	if (err)
		return err;
	mutex_lock(&mutex);
	if (there && !late)
		late = create(&op, "test_slab_late");
	if (there && !late)
		err = -ENOMEM;
	if (!there) {
		kmem_cache_destroy(late);
		late = NULL;
	}
	mutex_unlock(&mutex);
	return err;
}

static const struct kernel_param_ops late_ops = {
	.set = set_late,
};
module_param_cb(late, &late_ops, NULL, 0200);
MODULE_PARM_DESC(late, "Whether there is a cache test_slab_late.");

static int __init test_slab_faults_init(void)
{
	struct op many = { .nr = MAX_OBJECTS };

	if (!IS_ENABLED(CONFIG_FAULT_INJECTION))
		return -EOPNOTSUPP;
	resident = create(&many, "test_slab_faults");
	if (!resident)
		return -ENOMEM;
	scene.cache = resident;
	alloc_some(&scene, &many);
	free_all(&scene);
	scene.cache = NULL;
	return 0;
}

static void __exit test_slab_faults_exit(void)
{
	kmem_cache_destroy(late);
	kmem_cache_destroy(resident);
}

module_init(test_slab_faults_init);
module_exit(test_slab_faults_exit);
MODULE_AUTHOR("The authors of the sheaves for Linux 6.12");
MODULE_DESCRIPTION("Allocations that fail, for tools/testing/selftests/slab");
MODULE_LICENSE("GPL");
