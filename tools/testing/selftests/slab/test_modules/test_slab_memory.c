// SPDX-License-Identifier: GPL-2.0
/*
 * Objects of a node whose memory comes and goes
 *
 * Each parameter is something to do with the cache test_slab_memory:
 *
 *   spread=NODE  allocate objects of that node, have each CPU free its part of them, some
 *                by kfree_rcu(): all are in sheaves and barns then, or on their way
 *   hold=NODE    allocate objects of that node, and write a pattern to them
 *   release=1    free these: EINVAL if one of them has lost its pattern
 *
 * It fails with ENODEV if the node is not online, and with ENOMEM if it has no memory.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpu.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/nodemask.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#define OBJECTS		2000	/* for each CPU */
#define OBJECTS_RCU	100	/* of these */
#define HELD		500
#define PATTERN		0x5a

struct object {
	struct object *next;
	struct rcu_head rcu;
	char rest[232];
};

static struct kmem_cache *cache;
static struct object *held;
static DEFINE_MUTEX(mutex);

static void free_list(struct object *list)
{
	struct object *next;

	for (; list; list = next) {
		next = list->next;
		kmem_cache_free(cache, list);
	}
}

/* In case of an error, the list has those that there were. */
static int alloc_list(struct object **list, int node, unsigned int nr)
{
	while (nr--) {
		struct object *obj;

		obj = kmem_cache_alloc_node(cache, GFP_KERNEL | __GFP_THISNODE, node);
		if (!obj)
			return -ENOMEM;
		memset(obj, PATTERN, sizeof(*obj));
		obj->next = *list;
		*list = obj;
		if (page_to_nid(virt_to_page(obj)) != node)
			return -EINVAL;
	}
	return 0;
}

static long free_part(void *arg)
{
	struct object *list = arg;
	unsigned int nr;

	for (nr = 0; list && nr < OBJECTS_RCU; nr++) {
		struct object *obj = list;

		list = obj->next;
		kfree_rcu(obj, rcu);
	}
	free_list(list);
	return 0;
}

static int spread(int node)
{
	unsigned int cpu;
	int err = 0;

	cpus_read_lock();
	for_each_online_cpu(cpu) {
		struct object *list = NULL;

		err = alloc_list(&list, node, OBJECTS);
		work_on_cpu(cpu, free_part, list);
		if (err)
			break;
	}
	cpus_read_unlock();
	return err;
}

static int hold(int node)
{
	return alloc_list(&held, node, HELD);
}

static int release(int unused)
{
	struct object *obj;
	int err = 0;

	for (obj = held; obj; obj = obj->next)
		if (memchr_inv(obj->rest, PATTERN, sizeof(obj->rest)))
			err = -EINVAL;
	free_list(held);
	held = NULL;
	return err;
}

static int do_it(const char *text, const struct kernel_param *kp)
{
	int (*what)(int node) = kp->arg;
	unsigned int node;
	int err;

	err = kstrtouint(text, 0, &node);
	if (err)
		return err;
	mutex_lock(&mutex);
	if (!cache || node >= MAX_NUMNODES)
		err = -EINVAL;
	else if (what != release && !node_online(node))
		err = -ENODEV;
	else
		err = what(node);
	mutex_unlock(&mutex);
	return err;
}

static const struct kernel_param_ops ops = {
	.set = do_it,
};

module_param_cb(spread, &ops, spread, 0200);
MODULE_PARM_DESC(spread, "The node whose objects are freed on all CPUs.");
module_param_cb(hold, &ops, hold, 0200);
MODULE_PARM_DESC(hold, "The node whose objects are held.");
module_param_cb(release, &ops, release, 0200);
MODULE_PARM_DESC(release, "Free what is held.");

static int __init test_slab_memory_init(void)
{
	cache = kmem_cache_create("test_slab_memory", sizeof(struct object), 0,
				  SLAB_NO_MERGE, NULL);
	return cache ? 0 : -ENOMEM;
}

static void __exit test_slab_memory_exit(void)
{
	free_list(held);
	kmem_cache_destroy(cache);
}

module_init(test_slab_memory_init);
module_exit(test_slab_memory_exit);
MODULE_AUTHOR("The authors of the sheaves for Linux 6.12");
MODULE_DESCRIPTION("Memory that comes and goes, for tools/testing/selftests/slab");
MODULE_LICENSE("GPL");
