// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of sheaves: nodes
 *
 * On which node an object lies, what becomes of objects that are freed far from home, and
 * that whole sheaves travel between CPUs, and between nodes with and without memory. Most
 * of it needs a machine with several nodes, and the tests of sheaves that travel need one
 * with nodes that have no memory, too.
 */

#include <linux/mempool.h>
#include <linux/module.h>

#include "slab_kunit.h"

static void expect_no_slow_alloc(struct kunit *test)
{
	struct moves m = take_moves(test);

	KUNIT_EXPECT_EQ(test, m.alloc_fast, 1);
	KUNIT_EXPECT_EQ(test, m.alloc_slow, 0);
}

static void alloc_on_each_node(struct kunit *test)
{
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	/* Main is left with objects of a node when the next one is asked for. */
	unsigned int i, n = 3 * (st->cap ?: 60) + 1, wrong = 0;
	int node;

	for_each_node_state(node, N_NORMAL_MEMORY) {
		for (i = 0; i < n; i++) {
			gfp_t gfp = GFP_KERNEL | __GFP_THISNODE;

			KUNIT_ASSERT_TRUE(test, hold(st, kmem_cache_alloc_node(st->cache, gfp,
									       node)));
			wrong += nid_of(st->held) != node;
		}
	}
	KUNIT_EXPECT_EQ(test, wrong, 0);

	/* Without memory there, any object is as good as another. */
	for_each_online_node(node) {
		take_moves(test);
		KUNIT_EXPECT_TRUE(test, hold(st, kmem_cache_alloc_node(st->cache, GFP_KERNEL,
								       node)));
		if (!has_memory(node) && st->cap)
			expect_no_slow_alloc(test);
	}
	release(test, st->nr_held);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
}

static void node_of_top_object(struct kunit *test)
{
	struct slab_test *st = with_setup(test);
	int node, top;

	hold_and_drain(test, 2);
	top = nid_of(st->held);
	release(test, 1);
	take_moves(test);
	KUNIT_EXPECT_TRUE(test, hold(st, kmem_cache_alloc_node(st->cache, GFP_KERNEL, top)));
	expect_moves(test, .alloc_fast = 1);

	release(test, 1);
	take_moves(test);
	for_each_node_state(node, N_NORMAL_MEMORY) {
		gfp_t gfp = GFP_KERNEL | __GFP_THISNODE;

		if (node == top)
			continue;
		KUNIT_ASSERT_TRUE(test, hold(st, kmem_cache_alloc_node(st->cache, gfp, node)));
		KUNIT_EXPECT_EQ(test, nid_of(st->held), node);
		expect_moves(test, .alloc_slow = 1);
		expect_cached(test, 1);
	}
}

#define MIXED_BULK	20

/* Main and spare are not for objects that others are nearer to. */
static void remote_objects_are_kept_apart(struct kunit *test)
{
	struct slab_test *st = with_setup(test);
	struct slub_percpu_sheaves *pcs = per_cpu_ptr(st->cache->cpu_sheaves, st->cpu);
	int node, here = cpu_to_node(st->cpu);
	unsigned int nr_nodes = 0;
	void *p[1];

	for_each_node_state(node, N_NORMAL_MEMORY) {
		unsigned long cached;

		if (node == here)
			continue;
		nr_nodes++;
		grab_on(test, node, 2);
		cached = cached_objects(st->cache);
		take_moves(test);
		release(test, 1);
		expect_moves(test, .free_fast = 1);
		expect_cached(test, cached + 1);
		release_bulk(test, p, 1);
		if (has_memory(here)) {
			expect_moves(test, .free_slow = 1);
			expect_cached(test, cached + 1);
			KUNIT_ASSERT_NOT_NULL(test, pcs->remote);
			KUNIT_EXPECT_EQ(test, pcs->remote->size, nr_nodes);
		} else {
			expect_moves(test, .free_fast = 1);
			expect_cached(test, cached + 2);
			KUNIT_EXPECT_NULL(test, pcs->remote);
		}
	}
	if (!nr_nodes)
		kunit_skip(test, "no other node has memory");
}

static void expect_freed_somewhere(struct kunit *test, unsigned int n)
{
	struct moves m = take_moves(test);

	KUNIT_EXPECT_EQ(test, m.free_fast + m.free_slow, n);
}

/* With a node that has memory, and a cache the sheaves of which are empty. */
static struct slab_test *with_remote_node(struct kunit *test, int *node)
{
	struct slab_test *st = with_setup(test);

	*node = find_other_memory(cpu_to_node(st->cpu), NUMA_NO_NODE);
	if (*node == NUMA_NO_NODE)
		kunit_skip(test, "no other node has memory");
	if (!has_memory(cpu_to_node(st->cpu)))
		kunit_skip(test, "where there is no memory, no object is remote");
	return st;
}

static void remote_objects_go_home(struct kunit *test)
{
	int node;
	struct slab_test *st = with_remote_node(test, &node);
	struct node_barn *home = st->cache->barns[node];
	unsigned long n = home->max_full * st->cap;

	grab_on(test, node, n + 2 * st->cap + 2);
	kmem_cache_shrink(st->cache);
	take_moves(test);
	/* It goes when it has no room for the next one. */
	release(test, st->cap);
	expect_moves(test, .free_fast = st->cap);
	KUNIT_EXPECT_EQ(test, home->nr_full, 0);
	release(test, 1);
	expect_moves(test, .free_fast = 1, .barn_put = 1);
	KUNIT_EXPECT_EQ(test, home->nr_full, 1);
	release(test, n - st->cap);
	expect_moves(test, .free_fast = n - st->cap, .barn_put = home->max_full - 1);
	KUNIT_EXPECT_EQ(test, home->nr_full, home->max_full);
	expect_cached(test, n + 1);

	/* The barn does not accept any more. */
	release(test, 2 * st->cap);
	expect_moves(test, .free_fast = 2 * st->cap, .barn_put_fail = 2, .flush = 2 * st->cap);
	expect_cached(test, n + 1);
	release(test, 1);
	expect_balance(test);

	/* None of them is allocated here. */
	take_moves(test);
	grab(test, 1);
	KUNIT_EXPECT_EQ(test, take_moves(test).barn_get_fail, 1);
}

/* There are slabs with free objects, so many that a node would give some, but it is not asked. */
static void refill_is_from_the_node(struct kunit *test)
{
	int node;
	struct slab_test *st = with_remote_node(test, &node);
	int here = cpu_to_node(st->cpu);
	unsigned int i, n;
	void **p;

	grab_on(test, node, 1);
	n = 2 * (st->cache->min_partial + 2) * virt_to_slab(st->held)->objects;
	p = new_array(test, n);
	grab_on(test, node, n);
	for (i = 0; i < n; i++)
		p[i] = let_go(st);
	for (i = 0; i < n; i++) {
		if (i % 2)
			hold(st, p[i]);
		else
			kmem_cache_free(st->cache, p[i]);
	}
	kmem_cache_shrink(st->cache);
	for (i = 0; i < 2 * st->cap; i++) {
		KUNIT_ASSERT_TRUE(test, hold(st, kmem_cache_alloc_node(st->cache, GFP_KERNEL,
								       here)));
		KUNIT_ASSERT_EQ(test, nid_of(st->held), here);
	}
}

static long alloc_some(void *data)
{
	struct slab_test *st = data;

	return alloc_objects(st, 2 * st->cap + 1, GFP_KERNEL);
}

/* A full sheaf that goes home comes back as an empty one, if there is one. */
static void empty_sheaf_comes_back(struct kunit *test)
{
	int node, cpu;
	struct slab_test *st = with_remote_node(test, &node);
	struct slub_percpu_sheaves *pcs = per_cpu_ptr(st->cache->cpu_sheaves, st->cpu);
	struct node_barn *home = st->cache->barns[node];
	unsigned long sheaves;

	cpu = cpumask_any_and(cpumask_of_node(node), cpu_online_mask);
	if (cpu >= nr_cpu_ids)
		kunit_skip(test, "the other node has no CPU that would leave empty sheaves");

	grab_on(test, node, 3 * st->cap + 1);
	kmem_cache_shrink(st->cache);
	release(test, 3 * st->cap + 1);
	KUNIT_ASSERT_EQ(test, home->nr_full, 3);
	/* It uses up two, keeps one of these, and is at the third. */
	KUNIT_ASSERT_EQ(test, work_on_cpu(cpu, alloc_some, st), 2 * st->cap + 1);
	KUNIT_ASSERT_EQ(test, home->nr_full, 0);
	KUNIT_ASSERT_EQ(test, home->nr_empty, 1);

	release(test, st->cap - 1);
	sheaves = count_sheaves(st->cache);
	KUNIT_EXPECT_EQ(test, home->nr_empty, 1);
	release(test, 1);
	KUNIT_EXPECT_NOT_NULL(test, pcs->remote);
	KUNIT_EXPECT_EQ(test, home->nr_full, 1);
	KUNIT_EXPECT_EQ(test, home->nr_empty, 0);
	KUNIT_EXPECT_EQ(test, count_sheaves(st->cache), sheaves);
	expect_balance(test);
}

/* Those of one node, which come after those of another one, leave as sheaves. */
static void remote_objects_change_node(struct kunit *test)
{
	int a, b;
	struct slab_test *st = with_remote_node(test, &a);

	b = find_other_memory(cpu_to_node(st->cpu), a);
	if (b == NUMA_NO_NODE)
		kunit_skip(test, "needs three nodes with memory");

	/* What is held last is let go of first. */
	grab_on(test, b, 2 * st->cap + 1);
	grab_on(test, a, st->cap - 1);
	kmem_cache_shrink(st->cache);
	take_moves(test);
	release(test, st->cap - 1);
	expect_moves(test, .free_fast = st->cap - 1);
	release(test, 2 * st->cap + 1);
	expect_moves(test, .free_fast = 2 * st->cap + 1, .flush = st->cap - 1, .barn_put = 2);
	KUNIT_EXPECT_EQ(test, st->cache->barns[b]->nr_full, 2);
}

/* Only those of one node stay, until the sheaf is full of them. */
static void remote_objects_of_two_nodes(struct kunit *test)
{
	int a, b;
	struct slab_test *st = with_remote_node(test, &a);
	struct slub_percpu_sheaves *pcs = per_cpu_ptr(st->cache->cpu_sheaves, st->cpu);
	unsigned int i, nr_a = DIV_ROUND_UP(st->cap, 2), nr_b = st->cap - nr_a;

	b = find_other_memory(cpu_to_node(st->cpu), a);
	if (b == NUMA_NO_NODE)
		kunit_skip(test, "needs three nodes with memory");
	if (!nr_b)
		kunit_skip(test, "a sheaf of one object has all of one node");

	grab_on(test, a, nr_b + 1);
	/* What is held last is let go of first. */
	for (i = 0; i < nr_b; i++) {
		grab_on(test, a, 1);
		grab_on(test, b, 1);
	}
	if (nr_a > nr_b)
		grab_on(test, a, 1);
	kmem_cache_shrink(st->cache);
	take_moves(test);
	release(test, st->cap + 1);
	expect_moves(test, .free_fast = st->cap + 1, .flush = nr_b);
	KUNIT_ASSERT_NOT_NULL(test, pcs->remote);
	KUNIT_EXPECT_EQ(test, pcs->remote->size, nr_a + 1);
	for (i = 0; i <= nr_a; i++)
		KUNIT_EXPECT_EQ(test, nid_of(sheaf_object(st->cache, pcs->remote, i)), a);

	release(test, nr_b);
	expect_moves(test, .free_fast = nr_b, .barn_put = 1);
	KUNIT_EXPECT_EQ(test, st->cache->barns[a]->nr_full, 1);
	KUNIT_EXPECT_EQ(test, st->cache->barns[b]->nr_full, 0);
}

/* Objects of all nodes by turns. Each goes where it would go alone. */
static void bulk_free_of_mixed_nodes(struct kunit *test)
{
	struct slab_test *st = with_setup(test);
	unsigned int i, n = 0, nr_accepted = 0;
	int node, here = cpu_to_node(st->cpu);
	void **p = new_array(test, MIXED_BULK * num_node_state(N_NORMAL_MEMORY));
	struct moves m;

	if (num_node_state(N_NORMAL_MEMORY) == 1)
		kunit_skip(test, "no other node has memory");
	hold_and_drain(test, MIXED_BULK);
	for (i = 0; i < MIXED_BULK; i++) {
		for_each_node_state(node, N_NORMAL_MEMORY) {
			if (node == here)
				p[n] = let_go(st);
			else
				p[n] = kmem_cache_alloc_node(st->cache,
							     GFP_KERNEL | __GFP_THISNODE, node);
			if (!p[n]) {
				kmem_cache_free_bulk(st->cache, n, p);
				KUNIT_FAIL_AND_ABORT(test, "no object on node %d", node);
			}
			nr_accepted += node == here || !has_memory(here);
			n++;
		}
	}
	take_moves(test);
	kmem_cache_free_bulk(st->cache, n, p);
	m = take_moves(test);
	KUNIT_EXPECT_EQ(test, m.free_fast + m.free_slow, n);
	KUNIT_EXPECT_GE(test, m.free_slow, n - nr_accepted);
	if (nr_accepted <= st->cap)
		KUNIT_EXPECT_EQ(test, m.free_fast, nr_accepted);

	/* Whoever allocates here now gets what is near. */
	n = cached_objects(st->cache);
	KUNIT_EXPECT_EQ(test, n, m.free_fast - m.flush);
	while (n-- > 0) {
		grab(test, 1);
		if (has_memory(here))
			KUNIT_EXPECT_EQ(test, nid_of(st->held), here);
	}
}

/* Takes all that it finds in sheaves and barns, and stops when it has to refill. */
static long take_what_is_there(void *data)
{
	struct slab_test *st = data;
	unsigned long misses = count(st->cache, BARN_GET_FAIL);

	do {
		if (!hold(st, kmem_cache_alloc(st->cache, GFP_KERNEL)))
			return -ENOMEM;
	} while (count(st->cache, BARN_GET_FAIL) == misses);
	return 0;
}

/*
 * Whatever is freed, and wherever, goes where somebody looks for it: a node that has
 * memory and no CPUs, for one, has a barn as well.
 */
static void no_object_is_stranded(struct kunit *test)
{
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	int node, home, cpu;

	skip_without_sheaves(test);
	for_each_node_state(node, N_CPU) {
		bind_to(test, cpumask_any_and(cpumask_of_node(node), cpu_online_mask));
		for_each_node_state(home, N_NORMAL_MEMORY) {
			unsigned long nr = 3 + st->cache->barns[node]->max_full +
					   st->cache->barns[home]->max_full;

			grab_on(test, home, nr * st->cap);
			release(test, nr * st->cap);
		}
	}
	KUNIT_EXPECT_GT(test, nr_full_sheaves(st->cache), 0);

	for_each_online_cpu(cpu)
		KUNIT_ASSERT_EQ(test, work_on_cpu(cpu, take_what_is_there, st), 0);
	for_each_online_node(node)
		KUNIT_EXPECT_EQ_MSG(test, st->cache->barns[node]->nr_full, 0,
				    "full sheaves in the barn of node %d", node);
}

/*
 * One CPU allocates, its neighbour frees. The objects go by a ring: what is in a
 * slot is published by head, and that a slot is free again by tail.
 */

#define RING_SIZE	128
#define RING_WARM_UP	10000
#define RING_OBJECTS	30000

struct ring {
	struct work_struct alloc_work, free_work;
	mempool_t *pool;
	unsigned long nr;
	unsigned long head, tail;
	unsigned long end;		/* jiffies */
	void *slot[RING_SIZE];
};

static void ring_alloc(struct work_struct *work)
{
	struct ring *r = container_of(work, struct ring, alloc_work);
	unsigned long head = 0;

	while (head < r->nr && time_before(jiffies, r->end)) {
		/* Pairs with the release in ring_free() */
		if (head - smp_load_acquire(&r->tail) == RING_SIZE) {
			cpu_relax();
			cond_resched();
			continue;
		}
		r->slot[head % RING_SIZE] = mempool_alloc(r->pool, GFP_NOIO);
		/* Pairs with the acquire in ring_free() */
		smp_store_release(&r->head, ++head);
	}
}

static void ring_free(struct work_struct *work)
{
	struct ring *r = container_of(work, struct ring, free_work);
	unsigned long tail = 0;

	while (tail < r->nr && time_before(jiffies, r->end)) {
		/* Pairs with the release in ring_alloc() */
		if (tail == smp_load_acquire(&r->head)) {
			cpu_relax();
			cond_resched();
			continue;
		}
		mempool_free(r->slot[tail % RING_SIZE], r->pool);
		/* Pairs with the acquire in ring_alloc() */
		smp_store_release(&r->tail, ++tail);
	}
}

/* Returns how many objects went through. */
static unsigned long run_ring(struct ring *r, struct workqueue_struct *wq,
			      int alloc_cpu, int free_cpu, unsigned long nr)
{
	r->nr = nr;
	r->head = 0;
	r->tail = 0;
	r->end = jiffies + 60 * HZ;
	INIT_WORK(&r->alloc_work, ring_alloc);
	INIT_WORK(&r->free_work, ring_free);
	queue_work_on(alloc_cpu, wq, &r->alloc_work);
	queue_work_on(free_cpu, wq, &r->free_work);
	flush_work(&r->alloc_work);
	flush_work(&r->free_work);
	nr = r->tail;
	for (; r->tail < r->head; r->tail++)
		mempool_free(r->slot[r->tail % RING_SIZE], r->pool);
	return nr;
}

static const struct setup ring_setups[] = {
	{ "node with memory", 256 },
	{ "node without memory", 256, .memoryless = true },
};

KUNIT_ARRAY_PARAM_DESC(ring_setups, ring_setups, desc);

/* One CPU allocates, another frees, and no object sees a slab. */
static void expect_exchange(struct kunit *test, int from, int to)
{
	struct slab_test *st = test->priv;
	struct ring *r = kunit_kzalloc(test, sizeof(*r), GFP_KERNEL);
	struct workqueue_struct *wq;
	unsigned long done = 0;
	struct moves m = { };

	KUNIT_ASSERT_NOT_NULL(test, r);
	if (barn_of(st->cache, from)->max_full * st->cap < RING_SIZE)
		kunit_skip(test, "the objects in flight do not fit into a barn");
	wq = alloc_workqueue("sheaf_kunit", WQ_CPU_INTENSIVE, 0);
	KUNIT_ASSERT_NOT_NULL(test, wq);
	r->pool = mempool_create_slab_pool(16, st->cache);
	if (r->pool) {
		run_ring(r, wq, from, to, RING_WARM_UP);
		take_moves(test);
		done = run_ring(r, wq, from, to, RING_OBJECTS);
		m = take_moves(test);
		mempool_destroy(r->pool);
	}
	destroy_workqueue(wq);

	KUNIT_ASSERT_NOT_NULL(test, r->pool);
	kunit_info(test, "CPU %d allocates, CPU %d frees %lu objects:\n", from, to, done);
	kunit_info(test, "alloc_fastpath %lu, alloc_slowpath %lu, free_fastpath %lu, free_slowpath %lu\n",
		   m.alloc_fast, m.alloc_slow, m.free_fast, m.free_slow);
	kunit_info(test, "sheaf_refill %lu, sheaf_flush %lu, barn_get %lu, barn_put %lu\n",
		   m.refill, m.flush, m.barn_get, m.barn_put);
	KUNIT_EXPECT_EQ(test, done, RING_OBJECTS);
	KUNIT_EXPECT_EQ(test, m.alloc_slow, 0);
	KUNIT_EXPECT_EQ(test, m.free_slow, 0);
	KUNIT_EXPECT_LT(test, m.refill * 100, done);
	KUNIT_EXPECT_LT(test, m.flush * 100, done);
	KUNIT_EXPECT_LT(test, m.list_lock * 100, done);
	KUNIT_EXPECT_GT(test, m.barn_get, 0);
	KUNIT_EXPECT_GT(test, m.barn_put, 0);
}

static void neighbours_exchange_sheaves(struct kunit *test)
{
	struct slab_test *st = with_setup(test);
	int other = neighbour_of(st->cpu);

	if (other < 0)
		kunit_skip(test, "no other CPU on the node");
	expect_exchange(test, st->cpu, other);
}

static const struct trip {
	const char *desc;
	bool from_memoryless;
	bool to_memoryless;
} trips[] = {
	{ "between nodes without memory", true, true },
	{ "to a node with memory", true, false },
	{ "from a node with memory", false, true },
	{ "between nodes with memory", false, false },
};

KUNIT_ARRAY_PARAM_DESC(trips, trips, desc);

/* A CPU of another node; if that is to have memory, of @home, if that is a node. */
static int find_cpu_elsewhere(bool memoryless, int not_node, int home)
{
	int cpu;

	for_each_online_cpu(cpu) {
		int node = cpu_to_node(cpu);

		if (node_state(node, N_NORMAL_MEMORY) == !memoryless &&
		    node != not_node &&
		    (memoryless || home == NUMA_NO_NODE || node == home))
			return cpu;
	}
	return -1;
}

static void sheaves_travel(struct kunit *test)
{
	const struct trip *trip = test->param_value;
	int from = find_cpu(!trip->from_memoryless);
	struct slab_test *st;
	int home, to;

	if (from < 0)
		kunit_skip(test, "no CPU on a node %s memory",
			   trip->from_memoryless ? "without" : "with");
	bind_to(test, from);
	st = with_cache(test, 256, 0, NULL);
	skip_without_sheaves(test);

	grab(test, 1);
	home = trip->from_memoryless ? nid_of(st->held) : NUMA_NO_NODE;
	release(test, 1);
	to = find_cpu_elsewhere(trip->to_memoryless, cpu_to_node(from), home);
	if (to < 0)
		kunit_skip(test, "no other node %s memory",
			   trip->to_memoryless ? "without" : "with");
	expect_exchange(test, from, to);
}

/* Whose barn, and whose CPUs, have them. */
static void objects_are_counted_by_node(struct kunit *test)
{
	int node, cpu = find_cpu(true);
	struct slab_test *st;

	if (cpu < 0)
		kunit_skip(test, "no CPU on a node with memory");
	bind_to(test, cpu);
	st = with_cache(test, OBJECT_SIZE, 0, NULL);
	skip_without_sheaves(test);
	hold_and_drain(test, 4 * st->cap);
	release(test, 4 * st->cap);
	for_each_node(node)
		KUNIT_EXPECT_EQ(test, kmem_cache_cached_on_node(st->cache, node),
				node == cpu_to_node(cpu) ? 4 * st->cap : 0);
}

/*
 * Elsewhere: the remote ones among objects that are freed at once were collected, and lost
 * where they were as many as could be.
 */
static void remote_bulk_fills_its_batch(struct kunit *test)
{
	int node;
	struct slab_test *st = with_remote_node(test, &node);
	unsigned int sizes[] = { st->cap - 1, st->cap, st->cap + 1, 2 * st->cap, 3 * st->cap + 1 };
	void **p = new_array(test, 3 * st->cap + 1);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		grab_on(test, node, sizes[i]);
		take_moves(test);
		release_bulk(test, p, sizes[i]);
		expect_freed_somewhere(test, sizes[i]);
		/* No slab is in use: nor is any object. */
		KUNIT_ASSERT_EQ(test, kmem_cache_shrink(st->cache), 0);
	}
}

static struct kunit_case numa_cases[] = {
	KUNIT_CASE(alloc_on_each_node),
	KUNIT_CASE_PARAM(node_of_top_object, setups_gen_params),
	KUNIT_CASE_PARAM(remote_objects_are_kept_apart, setups_gen_params),
	KUNIT_CASE_PARAM(remote_objects_go_home, setups_gen_params),
	KUNIT_CASE_PARAM(refill_is_from_the_node, setups_gen_params),
	KUNIT_CASE_PARAM(empty_sheaf_comes_back, setups_gen_params),
	KUNIT_CASE_PARAM(remote_objects_change_node, setups_gen_params),
	KUNIT_CASE_PARAM(remote_objects_of_two_nodes, setups_gen_params),
	KUNIT_CASE_PARAM(bulk_free_of_mixed_nodes, setups_gen_params),
	KUNIT_CASE_PARAM(remote_bulk_fills_its_batch, setups_gen_params),
	KUNIT_CASE(no_object_is_stranded),
	KUNIT_CASE(objects_are_counted_by_node),
	KUNIT_CASE_PARAM(neighbours_exchange_sheaves, ring_setups_gen_params),
	KUNIT_CASE_PARAM(sheaves_travel, trips_gen_params),
	{}
};

static struct kunit_suite numa_suite = {
	.name = "slab_sheaf_numa",
	.init = slab_test_init,
	.exit = finish_cache,
	.test_cases = numa_cases,
};

kunit_test_suite(numa_suite);

MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
MODULE_DESCRIPTION("KUnit tests of sheaves: nodes");
MODULE_LICENSE("GPL");
