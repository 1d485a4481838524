// SPDX-License-Identifier: GPL-2.0
/*
 * What is to be done to, or in spite of, a CPU that is left alone
 *
 * Each parameter is something to do, and is done by the writer, where it runs:
 *
 *   free=N       allocate and free N objects, and N by kfree_rcu()
 *   barrier=1    wait for all that kfree_rcu() was called for
 *   destroy=N    destroy a cache of which only this CPU has used N objects
 *   work=CPU     queue a work item on that CPU, and wait for it for two seconds:
 *                ETIME if it has not run until then
 *   knock=CPU    interrupt that CPU, and have it run some irq_work, so that who
 *                looks for such things can see whether he finds them
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/irq_work.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/workqueue.h>

#define WAIT_JIFFIES	(2 * HZ)

struct object {
	unsigned long self;
	struct rcu_head rcu;
	char rest[72];
};

static struct kmem_cache *cache;

static struct kmem_cache *create(const char *name)
{
	return kmem_cache_create(name, sizeof(struct object), 0, SLAB_NO_MERGE,
				 NULL);
}

/* All at once, so that there are more than fit in one sheaf. */
static int alloc_and_free(struct kmem_cache *s, unsigned int nr)
{
	void **objects = kmalloc_array(nr, sizeof(*objects), GFP_KERNEL);
	int ret = -ENOMEM;

	if (!objects)
		return ret;
	if (kmem_cache_alloc_bulk(s, GFP_KERNEL, nr, objects)) {
		while (nr--)
			kmem_cache_free(s, objects[nr]);
		ret = 0;
	}
	kfree(objects);
	return ret;
}

static int do_free(unsigned int nr)
{
	int ret = alloc_and_free(cache, nr);

	while (!ret && nr--) {
		struct object *obj = kmem_cache_alloc(cache, GFP_KERNEL);

		if (!obj)
			return -ENOMEM;
		kfree_rcu(obj, rcu);
	}
	return ret;
}

static int do_barrier(unsigned int unused)
{
	kvfree_rcu_barrier();
	return 0;
}

static int do_destroy(unsigned int nr)
{
	struct kmem_cache *s = create("test_slab_unrelated");
	int ret;

	if (!s)
		return -ENOMEM;
	ret = alloc_and_free(s, nr);
	kmem_cache_destroy(s);
	return ret;
}

static DECLARE_COMPLETION(work_done);

static void test_slab_isolated_work(struct work_struct *work)
{
	complete(&work_done);
}

static DECLARE_WORK(work, test_slab_isolated_work);

static int do_work(unsigned int cpu)
{
	if (cpu >= nr_cpu_ids || !cpu_online(cpu))
		return -EINVAL;
	reinit_completion(&work_done);
	schedule_work_on(cpu, &work);
	if (wait_for_completion_timeout(&work_done, WAIT_JIFFIES))
		return 0;
	/* It waits for a worker, so this does not. */
	cancel_work_sync(&work);
	return -ETIME;
}

static void test_slab_isolated_irq_work(struct irq_work *unused)
{
}

static DEFINE_IRQ_WORK(irq_work, test_slab_isolated_irq_work);

static void test_slab_isolated_call(void *unused)
{
	irq_work_queue(&irq_work);
}

static int do_knock(unsigned int cpu)
{
	int ret;

	if (cpu >= nr_cpu_ids || !cpu_online(cpu))
		return -EINVAL;
	ret = smp_call_function_single(cpu, test_slab_isolated_call, NULL, true);
	irq_work_sync(&irq_work);
	return ret;
}

static int do_it(const char *text, const struct kernel_param *kp)
{
	int (*what)(unsigned int) = kp->arg;
	unsigned int number;
	int ret;

	ret = kstrtouint(text, 0, &number);
	if (ret)
		return ret;
	return cache ? what(number) : -EINVAL;
}

static const struct kernel_param_ops ops = {
	.set = do_it,
};

module_param_cb(free, &ops, do_free, 0200);
MODULE_PARM_DESC(free, "How many objects to free, directly and by kfree_rcu().");
module_param_cb(barrier, &ops, do_barrier, 0200);
MODULE_PARM_DESC(barrier, "Wait for what kfree_rcu() was called for.");
module_param_cb(destroy, &ops, do_destroy, 0200);
MODULE_PARM_DESC(destroy, "Destroy a cache after it had so many objects.");
module_param_cb(work, &ops, do_work, 0200);
MODULE_PARM_DESC(work, "Wait for a work item on this CPU.");
module_param_cb(knock, &ops, do_knock, 0200);
MODULE_PARM_DESC(knock, "Interrupt this CPU.");

static int __init test_slab_isolated_init(void)
{
	cache = create("test_slab_isolated");
	return cache ? 0 : -ENOMEM;
}

static void __exit test_slab_isolated_exit(void)
{
	kmem_cache_destroy(cache);
}

module_init(test_slab_isolated_init);
module_exit(test_slab_isolated_exit);
MODULE_AUTHOR("The authors of the sheaves for Linux 6.12");
MODULE_DESCRIPTION("Isolated CPUs, for tools/testing/selftests/slab");
MODULE_LICENSE("GPL");
