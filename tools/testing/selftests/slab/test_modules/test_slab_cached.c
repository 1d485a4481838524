// SPDX-License-Identifier: GPL-2.0
/*
 * Caches with as many objects in sheaves as somebody wants to count
 *
 * There are two, of which one can be reclaimed, or says so. Objects are charged to the
 * memory cgroup of who makes the module allocate them. The parameter `allocated' is how
 * many objects of each are allocated; what it takes to get there is allocated and freed
 * by who writes it, and is then at rest. Sheaves are large enough to keep all that is
 * freed.
 *
 * Writing to `interrupt' is to press SysRq-m: the kernel shows its memory in a hard
 * interrupt.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/irq_work.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/sysrq.h>

#define OBJECT_SIZE	(PAGE_SIZE / 2 - 48)	/* and half a page with what aligns it */
#define CAPACITY	124
#define OBJECTS_MAX	1000	/* eight sheaves, any barn takes ten */

static struct test_cache {
	const char *name;
	slab_flags_t flags;
	struct kmem_cache *cache;
	void *objects[OBJECTS_MAX];
} caches[] = {
	{ .name = "test_slab_cached" },
	{ .name = "test_slab_cached_rc", .flags = SLAB_RECLAIM_ACCOUNT },
};

static DEFINE_MUTEX(mutex);
static unsigned int allocated;

static int alloc_to(struct test_cache *c, unsigned int nr)
{
	unsigned int i;

	for (i = allocated; i < nr; i++) {
		c->objects[i] = kmem_cache_alloc(c->cache, GFP_KERNEL);
		if (!c->objects[i])
			break;
	}
	if (i >= nr)
		return 0;
	while (i-- > allocated)
		kmem_cache_free(c->cache, c->objects[i]);
	return -ENOMEM;
}

static void free_to(struct test_cache *c, unsigned int from, unsigned int nr)
{
	while (from-- > nr)
		kmem_cache_free(c->cache, c->objects[from]);
}

static int set_allocated(const char *val, const struct kernel_param *kp)
{
	unsigned int nr, i;
	int err;

	err = kstrtouint(val, 0, &nr);
	if (err)
		return err;
	if (nr > OBJECTS_MAX)
		return -EINVAL;

	mutex_lock(&mutex);
	for (i = 0; i < ARRAY_SIZE(caches); i++) {
		err = caches[i].cache ? alloc_to(&caches[i], nr) : -EINVAL;
		if (err)
			break;
	}
	if (err) {
		while (i--)
			free_to(&caches[i], nr, allocated);
	} else {
		for (i = 0; i < ARRAY_SIZE(caches); i++)
			free_to(&caches[i], allocated, nr);
		allocated = nr;
	}
	mutex_unlock(&mutex);
	return err;
}

static const struct kernel_param_ops allocated_ops = {
	.set = set_allocated,
	.get = param_get_uint,
};
module_param_cb(allocated, &allocated_ops, &allocated, 0644);
MODULE_PARM_DESC(allocated, "How many objects of each cache are allocated.");

static void press(struct irq_work *unused)
{
	handle_sysrq('m');
}

static struct irq_work press_work = IRQ_WORK_INIT_HARD(press);

static int set_interrupt(const char *val, const struct kernel_param *kp)
{
	/* What else the kernel shows then takes locks that sleep there. */
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		return -EOPNOTSUPP;
	irq_work_queue(&press_work);
	irq_work_sync(&press_work);
	return 0;
}

static const struct kernel_param_ops interrupt_ops = {
	.set = set_interrupt,
};
module_param_cb(interrupt, &interrupt_ops, NULL, 0200);
MODULE_PARM_DESC(interrupt, "Have an interrupt show the memory.");

static void destroy_caches(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(caches); i++)
		kmem_cache_destroy(caches[i].cache);
}

static int __init test_slab_cached_init(void)
{
	struct kmem_cache_args args = {
		.sheaf_capacity = CAPACITY,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(caches); i++) {
		struct test_cache *c = &caches[i];

		c->cache = kmem_cache_create(c->name, OBJECT_SIZE, &args,
					     c->flags | SLAB_NO_MERGE |
					     SLAB_HWCACHE_ALIGN | SLAB_ACCOUNT);
		if (!c->cache) {
			destroy_caches();
			return -ENOMEM;
		}
	}
	return 0;
}

static void __exit test_slab_cached_exit(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(caches); i++)
		free_to(&caches[i], allocated, 0);
	destroy_caches();
}

module_init(test_slab_cached_init);
module_exit(test_slab_cached_exit);
MODULE_DESCRIPTION("Caches with objects in sheaves to be counted");
MODULE_LICENSE("GPL");
