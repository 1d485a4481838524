// SPDX-License-Identifier: GPL-2.0
/*
 * For scripts/tests/debuggers.sh: objects of which it is known where they are
 *
 * There are the caches "debuggers" with sheaves, "debuggers-tracked", which has none, as it
 * keeps who frees, and "debuggers-guarded", of which KFENCE guards some objects. A 1 written
 * to the parameter "act" puts objects to where debuggers are to find them, and prints the
 * addresses; a 2 crashes, with one more of the first and the last in rcu_free.
 */

#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/kernel.h>
#include <linux/kfence.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

/* More than main and spare hold. */
#define NR		300
#define NR_FREED	200
#define CAPACITY	60

struct thing {
	struct rcu_head rcu;
	char rest[184];
};

static struct kmem_cache *cache, *tracked, *guarded;
static struct thing *things[NR], *guarded_rcu;

static void say(const char *what, void *object)
{
	pr_info("debuggers: %s 0x%px\n", what, object);
}

/*
 * The first one freed is in the spare sheaf then, which is lent. As many later as a sheaf
 * holds they are in the barn, and the last one is on top of main.
 */
static long fill(void *unused)
{
	unsigned int i;

	for (i = 0; i < NR; i++) {
		things[i] = kmem_cache_alloc(cache, GFP_KERNEL);
		if (!things[i])
			return -ENOMEM;
	}
	say("in_use", things[0]);
	say("remote", things[1]);
	say("rcu_free", things[2]);
	say("prefilled", things[NR - NR_FREED]);
	say("in_barn", things[NR - NR_FREED + CAPACITY]);
	say("last", things[NR - 1]);
	for (i = NR - NR_FREED; i < NR; i++)
		kmem_cache_free(cache, things[i]);
	return kmem_cache_prefill_sheaf(cache, GFP_KERNEL, 2) ? 0 : -ENOMEM;
}

static long free_remote(void *unused)
{
	kmem_cache_free(cache, things[1]);
	return 0;
}

static noinline void debuggers_free(void *object)
{
	kmem_cache_free(tracked, object);
}

static long track(void *unused)
{
	void *used = kmem_cache_alloc(tracked, GFP_KERNEL);
	void *freed = kmem_cache_alloc(tracked, GFP_KERNEL);

	if (!used || !freed)
		return -ENOMEM;
	debuggers_free(freed);
	say("tracked_used", used);
	say("tracked_freed", freed);
	pr_info("debuggers: by CPU %u, PID %d\n", raw_smp_processor_id(), current->pid);
	return 0;
}

static void *alloc_guarded(void)
{
	unsigned int i;
	void *object;

	for (i = 0; i < 10000; i++) {
		object = kmem_cache_alloc(guarded, GFP_KERNEL);
		if (!object || is_kfence_address(object))
			return object;
		kmem_cache_free(guarded, object);
		usleep_range(500, 1000);
	}
	return NULL;
}

static long keep_guarded(void *unused)
{
	void *used = alloc_guarded(), *freed = alloc_guarded();

	guarded_rcu = alloc_guarded();
	if (!used || !freed || !guarded_rcu)
		return -ENOMEM;
	kmem_cache_free(guarded, freed);
	say("guarded_used", used);
	say("guarded_freed", freed);
	say("guarded_rcu", guarded_rcu);
	return 0;
}

static long crash(void *unused)
{
	kfree_rcu(things[2], rcu);
	kfree_rcu(guarded_rcu, rcu);
	panic("test_debuggers");
}

static int act(const char *val, const struct kernel_param *kp)
{
	/* On another node, if there are two. */
	unsigned int other = cpumask_last(cpu_online_mask);

	if (val[0] == '2')
		return work_on_cpu(0, crash, NULL);
	return work_on_cpu(0, fill, NULL) ?: work_on_cpu(other, free_remote, NULL) ?:
	       work_on_cpu(1, track, NULL) ?: work_on_cpu(1, keep_guarded, NULL);
}

static const struct kernel_param_ops act_ops = { .set = act };
module_param_cb(act, &act_ops, NULL, 0200);

static int __init debuggers_init(void)
{
	cache = kmem_cache_create("debuggers", sizeof(struct thing), NULL, SLAB_NO_MERGE);
	tracked = kmem_cache_create("debuggers-tracked", sizeof(struct thing), NULL,
				    SLAB_NO_MERGE | SLAB_STORE_USER);
	guarded = kmem_cache_create("debuggers-guarded", sizeof(struct thing), NULL, SLAB_NO_MERGE);
	return cache && tracked && guarded ? 0 : -ENOMEM;
}
module_init(debuggers_init);

MODULE_DESCRIPTION("Objects for debuggers to find");
MODULE_LICENSE("GPL");
