// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of sheaves: giving everything back
 *
 * Shrinking, destroying a cache, and taking a CPU offline leave nothing behind, in no
 * sheaf of any kind, of any CPU, in no barn.
 */

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/module.h>

#include "slab_kunit.h"

static long fill_sheaves(void *data)
{
	struct slab_test *st = data;
	unsigned long n = 3 * (st->cap ?: 60) + 1;
	gfp_t gfp = GFP_KERNEL | __GFP_THISNODE;
	int node;

	n = alloc_objects(st, n, GFP_KERNEL);
	free_objects(st, n);

	/* All other nodes together do not fill the sheaf of remote objects. */
	for_each_node_state(node, N_NORMAL_MEMORY) {
		if (node != numa_node_id() &&
		    hold(st, kmem_cache_alloc_node(st->cache, gfp, node)))
			free_objects(st, 1);
	}
	return n;
}

static void fill_sheaves_everywhere(struct kunit *test)
{
	struct slab_test *st = test->priv;
	int cpu;

	for_each_online_cpu(cpu)
		KUNIT_EXPECT_GT(test, work_on_cpu(cpu, fill_sheaves, st), 0);
}

static void shrink_gives_all_back(struct kunit *test)
{
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	unsigned long cached;
	struct moves m;
	int node;

	fill_sheaves_everywhere(test);
	cached = cached_objects(st->cache);
	take_moves(test);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
	expect_cached(test, 0);
	m = take_moves(test);
	KUNIT_EXPECT_EQ(test, m.flush, cached);
	KUNIT_EXPECT_EQ(test, count_sheaves(st->cache), 0);
	expect_balance(test);

	if (st->cap) {
		KUNIT_EXPECT_GE(test, cached, st->cap * num_online_cpus());
		for_each_online_node(node) {
			KUNIT_ASSERT_NOT_NULL(test, st->cache->barns[node]);
			KUNIT_EXPECT_EQ(test, st->cache->barns[node]->nr_full, 0);
		}
	}

	/* It can be used again, and shrunk with objects in use. */
	grab(test, 10);
	fill_sheaves_everywhere(test);
	kmem_cache_shrink(st->cache);
	expect_cached(test, 0);
	release(test, 10);
}

#ifdef CONFIG_SLAB_SHEAVES
struct sheaf_holder {
	struct work_struct work;
	struct slub_percpu_sheaves __percpu *sheaves;
	struct completion holds;
	bool disturbed;
};

/* On a CPU whose sheaves are in use, for longer than it takes to come and look. */
static void hold_sheaves(struct work_struct *work)
{
	struct sheaf_holder *h = container_of(work, struct sheaf_holder, work);
	struct slub_percpu_sheaves *pcs;
	struct slab_sheaf *main;

	local_lock(&h->sheaves->lock);
	pcs = this_cpu_ptr(h->sheaves);
	main = pcs->main;
	complete(&h->holds);
	mdelay(100);
	h->disturbed = READ_ONCE(pcs->main) != main;
	local_unlock(&h->sheaves->lock);
}

/*
 * Who shrinks takes nothing away from under somebody, and comes back for it. Elsewhere: a
 * trylock failed, and nothing was flushed, nor said.
 */
static void shrink_meets_sheaves_in_use(struct kunit *test)
{
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	int cpu = cpumask_any_but(cpu_online_mask, st->cpu);
	struct sheaf_holder h = { .sheaves = st->cache->cpu_sheaves };

	skip_without_sheaves(test);
	if (cpu >= nr_cpu_ids)
		kunit_skip(test, "there is no other CPU");
	KUNIT_ASSERT_GT(test, work_on_cpu(cpu, fill_sheaves, st), 0);
	init_completion(&h.holds);
	INIT_WORK_ONSTACK(&h.work, hold_sheaves);
	queue_work_on(cpu, system_highpri_wq, &h.work);
	wait_for_completion(&h.holds);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
	expect_cached(test, 0);
	flush_work(&h.work);
	destroy_work_on_stack(&h.work);
	KUNIT_EXPECT_FALSE(test, h.disturbed);
}
#endif

static void destroy_with_full_sheaves(struct kunit *test)
{
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);

	fill_sheaves_everywhere(test);
	if (st->cap)
		KUNIT_EXPECT_GT(test, cached_objects(st->cache), 0);
	finish_cache(test);
	KUNIT_EXPECT_EQ(test, st->slab_errors, 0);
}

#ifdef CONFIG_HOTPLUG_CPU
/* Whether there are objects that are remote to CPUs of a node. */
static bool expect_remote(int node)
{
	return has_memory(node) && num_node_state(N_NORMAL_MEMORY) > 1;
}

static void cpu_goes_offline(struct kunit *test)
{
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	struct slub_percpu_sheaves *pcs;
	unsigned long cached, there;
	int cpu;

	skip_without_sheaves(test);
	cpu = find_cpu_to_remove(test);
	pcs = per_cpu_ptr(st->cache->cpu_sheaves, cpu);
	fill_sheaves_everywhere(test);
	KUNIT_ASSERT_NOT_NULL(test, pcs->spare);
	there = pcs->main->size + pcs->spare->size;
	KUNIT_EXPECT_GT(test, there, st->cap);
	if (pcs->remote)
		there += pcs->remote->size;
	/* Nobody else looks into that barn. */
	if (neighbour_of(cpu) < 0)
		there += barn_of(st->cache, cpu)->nr_full * st->cap;
	KUNIT_EXPECT_EQ(test, !!pcs->remote, expect_remote(cpu_to_node(cpu)));
	cached = cached_objects(st->cache);
	take_moves(test);

	take_offline(test, cpu);
	expect_moves(test, .flush = there);
	expect_cached(test, cached - there);
	KUNIT_EXPECT_EQ(test, pcs->main->capacity, 0);
	KUNIT_EXPECT_NULL(test, pcs->spare);
	KUNIT_EXPECT_NULL(test, pcs->remote);
	expect_balance(test);

	bring_online(test, cpu);
	expect_moves(test);
	KUNIT_EXPECT_GT(test, work_on_cpu(cpu, fill_sheaves, st), 0);
	KUNIT_EXPECT_GT(test, pcs->main->size, 0);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
}
#endif

static struct kunit_case flush_cases[] = {
	KUNIT_CASE(shrink_gives_all_back),
#ifdef CONFIG_SLAB_SHEAVES
	KUNIT_CASE(shrink_meets_sheaves_in_use),
#endif
	KUNIT_CASE(destroy_with_full_sheaves),
#ifdef CONFIG_HOTPLUG_CPU
	KUNIT_CASE(cpu_goes_offline),
#endif
	{}
};

static struct kunit_suite flush_suite = {
	.name = "slab_sheaf_flush",
	.init = slab_test_init,
	.exit = finish_cache,
	.test_cases = flush_cases,
};

kunit_test_suite(flush_suite);

MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
MODULE_DESCRIPTION("KUnit tests of sheaves: giving everything back");
MODULE_LICENSE("GPL");
