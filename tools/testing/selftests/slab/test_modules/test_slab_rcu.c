// SPDX-License-Identifier: GPL-2.0
/*
 * A module that frees with kfree_rcu() and is unloaded at once
 *
 * When it is loaded, it frees objects on all CPUs, with rcu=0 at once. When it is unloaded,
 * it frees some more, and destroys the cache, without waiting for anything: that is up to
 * kmem_cache_destroy(). Whether that is right, the kernel's log tells.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpu.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/sched/isolation.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

static unsigned int objects = 100;
module_param(objects, uint, 0444);
MODULE_PARM_DESC(objects, "How many to free on each CPU.");

static bool isolated = true;
module_param(isolated, bool, 0444);
MODULE_PARM_DESC(isolated, "On isolated CPUs, too, of which some objects stay there.");

static bool rcu = true;
module_param(rcu, bool, 0444);
MODULE_PARM_DESC(rcu, "By kfree_rcu(); if not, at once.");

struct object {
	struct object *next;
	struct rcu_head rcu;
	char rest[72];
};

static struct kmem_cache *cache;

static long free_objects(void *arg)
{
	unsigned int n = *(unsigned int *)arg;
	struct object *list = NULL, *obj;
	long err = 0;

	while (n--) {
		obj = kmem_cache_alloc(cache, GFP_KERNEL);
		if (!obj) {
			err = -ENOMEM;
			break;
		}
		if (rcu) {
			kfree_rcu(obj, rcu);
			continue;
		}
		obj->next = list;
		list = obj;
	}
	while (list) {
		obj = list;
		list = obj->next;
		kmem_cache_free(cache, obj);
	}
	return err;
}

static int free_objects_everywhere(void)
{
	unsigned int cpu;
	long err = 0;

	cpus_read_lock();
	for_each_online_cpu(cpu) {
		if (!isolated && cpu_is_isolated(cpu))
			continue;
		err = work_on_cpu(cpu, free_objects, &objects);
		if (err)
			break;
	}
	cpus_read_unlock();
	return err;
}

static int __init test_slab_rcu_init(void)
{
	int err;

	cache = kmem_cache_create("test_slab_unload", sizeof(struct object), 0,
				  SLAB_NO_MERGE, NULL);
	if (!cache)
		return -ENOMEM;
	err = free_objects_everywhere();
	if (err)
		kmem_cache_destroy(cache);
	return err;
}

static void __exit test_slab_rcu_exit(void)
{
	free_objects(&objects);
	kmem_cache_destroy(cache);
}

module_init(test_slab_rcu_init);
module_exit(test_slab_rcu_exit);
MODULE_AUTHOR("The authors of the sheaves for Linux 6.12");
MODULE_DESCRIPTION("kfree_rcu() and unload, for tools/testing/selftests/slab");
MODULE_LICENSE("GPL");
