// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of sheaves: how large they are, and who has any
 *
 * The default capacities, requests for more, and the caches that do without: those that
 * all others are made from, and those with debugging. What a kernel does that has no
 * sheaves at all (slab_sheaf_capacity=0) is tested here, too.
 */

#include <linux/log2.h>
#include <linux/module.h>

#include "slab_kunit.h"

/* What is left of 64, 32, 16 and 8 words when a sheaf has its header in them. */
static unsigned int default_for(struct kmem_cache *s)
{
	const bool is_64bit = IS_ENABLED(CONFIG_64BIT);

	if (s->size > 4096)
		return is_64bit ? 4 : 3;
	if (s->size > 2048)
		return is_64bit ? 12 : 11;
	if (s->size >= 256)
		return is_64bit ? 28 : 27;
	return is_64bit ? 60 : 59;
}

static unsigned int capacity_of(struct kunit *test, unsigned int size, unsigned int requested)
{
	struct kmem_cache_args args = { .sheaf_capacity = requested };
	struct kmem_cache *s = new_cache(test, "slab_kunit_probe", size, 0, &args);
	unsigned int got = s->sheaf_capacity;

	destroy_cache_of(test, s);
	return got;
}

/*
 * Nobody gets what he asks for if the boot parameter says otherwise. It makes no
 * difference between caches, whatever their size and whatever they ask for.
 */
static void skip_if_capacity_is_set(struct kunit *test)
{
	unsigned int got = capacity_of(test, OBJECT_SIZE, 1000);

	if (got == capacity_of(test, OBJECT_SIZE, 0) &&
	    got == capacity_of(test, 4 * PAGE_SIZE, 0))
		kunit_skip(test, "slab_sheaf_capacity=%u is in force", got);
}

static void default_capacity(struct kunit *test)
{
	static const unsigned int sizes[] = {
		8, 64, 255, 256, 257, 512, 1023, 1024, 1500, 2048, 2049,
		4096, 4097, PAGE_SIZE, 2 * PAGE_SIZE, 4 * PAGE_SIZE,
	};
	struct kmem_cache_args none = { };
	struct kmem_cache *s;
	unsigned int i;

	skip_if_capacity_is_set(test);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		s = new_cache(test, "slab_sheaf_kunit", sizes[i], 0, &none);
		KUNIT_EXPECT_EQ_MSG(test, s->sheaf_capacity, default_for(s),
				    "size %u", sizes[i]);
		destroy_cache_of(test, s);
	}
}

static const unsigned int requests[] = { 1, 3, 33, 59, 60, 61, 100, 1000, 2000 };

static void requests_desc(const unsigned int *n, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "capacity %u", *n);
}

KUNIT_ARRAY_PARAM(requests, requests, requests_desc);

static void requested_capacity(struct kunit *test)
{
	unsigned int requested = *(const unsigned int *)test->param_value;
	struct kmem_cache_args args = { .sheaf_capacity = requested };
	struct slab_test *st;

	skip_if_capacity_is_set(test);
	st = with_cache(test, OBJECT_SIZE, 0, &args);
	KUNIT_EXPECT_GE(test, st->cap, requested);
	KUNIT_EXPECT_GE(test, st->cap, default_for(st->cache));
	if (requested <= default_for(st->cache))
		KUNIT_EXPECT_EQ(test, st->cap, default_for(st->cache));
	/* As many as fit in the memory that so many take. */
	KUNIT_EXPECT_LT(test, st->cap, 2 * max(requested, default_for(st->cache)) + 8);
	KUNIT_EXPECT_TRUE(test, is_power_of_2(sizeof(struct slab_sheaf) +
					      st->cap * sizeof(void *)));
	round_trip(test, 1);
	round_trip(test, st->cap + 1);
	round_trip(test, 2 * st->cap + 1);
}

#ifdef CONFIG_SLAB_SHEAVES
static void expect_no_sheaves_for(struct kunit *test, void *p)
{
	struct slab *slab = virt_to_slab(p);

	/* Large ones come from the page allocator. */
	if (slab)
		KUNIT_EXPECT_EQ(test, slab->slab_cache->sheaf_capacity, 0);
}

/* A cache whose sheaves take so many bytes, when the sheaves of this CPU are in use. */
static struct kmem_cache *with_sheaves_of(struct kunit *test, unsigned int size)
{
	struct kmem_cache_args args = { .sheaf_capacity = size / sizeof(void *) };
	struct kmem_cache *s = new_cache(test, "slab_kunit_probe", OBJECT_SIZE, 0, &args);

	if (s->sheaf_capacity < 2)
		kunit_skip(test, "there are no sheaves, or no room in them");
	kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL | __GFP_NOFAIL));
	KUNIT_ASSERT_NE(test, this_cpu_read(s->cpu_sheaves->main)->capacity, 0);
	return s;
}

/*
 * Elsewhere: a sheaf came from a cache that had sheaves, which had to be allocated, and so
 * on without end.
 */
static void sheaf_alloc_does_not_recurse(struct kunit *test)
{
	unsigned int size;
	int node;

	for (size = 8; size <= PAGE_SIZE; size *= 2) {
		struct kmem_cache *s = with_sheaves_of(test, size);

		expect_no_sheaves_for(test, this_cpu_read(s->cpu_sheaves->main));
		expect_no_sheaves_for(test, s->barns);
		for_each_online_node(node)
			expect_no_sheaves_for(test, s->barns[node]);
		destroy_cache_of(test, s);
	}
}

/*
 * Elsewhere: a sheaf was freed that the profiling of allocations did not know, and it
 * complained. Nobody accounts for sheaves: their slabs have no place to write that.
 */
static void sheaves_are_not_profiled(struct kunit *test)
{
	unsigned int size;

	if (!mem_alloc_profiling_enabled())
		kunit_skip(test, "memory allocation profiling is off");
	for (size = 64; size <= PAGE_SIZE; size *= 2) {
		struct kmem_cache *s = with_sheaves_of(test, size);
		struct slab *slab = virt_to_slab(this_cpu_read(s->cpu_sheaves->main));

		if (slab)
			KUNIT_EXPECT_NULL(test, slab_obj_exts(slab));
		destroy_cache_of(test, s);
	}
}
#endif

/* Who asks for a capacity does not share a cache, in either direction. */
static void requested_capacity_is_not_shared(struct kunit *test)
{
	static const char * const names[] = {
		"sheaf_kunit_plain", "sheaf_kunit_asks", "sheaf_kunit_asks_too", "sheaf_kunit_late"
	};
	struct kmem_cache *s[ARRAY_SIZE(names)];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		struct kmem_cache_args args = { .sheaf_capacity = i == 1 || i == 2 ? 200 : 0 };

		/* A size that nobody else has */
		s[i] = kmem_cache_create(names[i], 4968, &args, 0);
	}
	for (i = 0; i < ARRAY_SIZE(names); i++)
		KUNIT_EXPECT_NOT_NULL(test, s[i]);
	KUNIT_EXPECT_PTR_NE(test, s[1], s[0]);
	KUNIT_EXPECT_PTR_NE(test, s[2], s[0]);
	KUNIT_EXPECT_PTR_NE(test, s[2], s[1]);
	KUNIT_EXPECT_PTR_NE(test, s[3], s[1]);
	KUNIT_EXPECT_PTR_NE(test, s[3], s[2]);
	for (i = 0; i < ARRAY_SIZE(names); i++)
		kmem_cache_destroy(s[i]);
}

/* More than can be: not an error, and no overflow. */
static void absurd_capacity(struct kunit *test)
{
	struct kmem_cache_args args = { .sheaf_capacity = UINT_MAX };
	struct slab_test *st;

	skip_if_capacity_is_set(test);
	st = with_cache(test, OBJECT_SIZE, 0, &args);
	KUNIT_EXPECT_GE(test, st->cap, 1000);
	KUNIT_EXPECT_LE(test, (u64)st->cap * sizeof(void *), KMALLOC_MAX_SIZE);
	KUNIT_EXPECT_NOT_NULL(test, st->cache->barns);
}

static void who_has_sheaves(struct kunit *test)
{
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);
	struct kmem_cache *s = st->cache, *kmalloc_cache;
	void *p = kmalloc(OBJECT_SIZE, GFP_KERNEL);
	int node;

	KUNIT_ASSERT_NOT_NULL(test, p);
	kmalloc_cache = virt_to_slab(p)->slab_cache;
	kfree(p);

	/* The two that everything else is made from have none. */
	KUNIT_EXPECT_EQ(test, virt_to_slab(s)->slab_cache->sheaf_capacity, 0);
	for_each_node_state(node, N_NORMAL_MEMORY)
		KUNIT_EXPECT_EQ(test, virt_to_slab(s->node[node])->slab_cache->sheaf_capacity, 0);

	if (!st->cap)
		return;
	if (!(kmalloc_cache->flags & SLAB_DEBUG_FLAGS))
		KUNIT_EXPECT_GT(test, kmalloc_cache->sheaf_capacity, 0);
	for_each_online_node(node) {
		KUNIT_ASSERT_NOT_NULL(test, s->barns[node]);
		KUNIT_EXPECT_GE(test, s->barns[node]->max_full, 10);
	}
}

#ifdef CONFIG_SLUB_DEBUG
static const struct debug_flags {
	const char *desc;
	slab_flags_t flags;
} debug_flags[] = {
	{ "SLAB_CONSISTENCY_CHECKS", SLAB_CONSISTENCY_CHECKS },
	{ "SLAB_RED_ZONE", SLAB_RED_ZONE },
	{ "SLAB_POISON", SLAB_POISON },
	{ "SLAB_STORE_USER", SLAB_STORE_USER },
	{ "all of them", SLAB_CONSISTENCY_CHECKS | SLAB_RED_ZONE | SLAB_POISON |
			 SLAB_STORE_USER },
};

KUNIT_ARRAY_PARAM_DESC(debug_flags, debug_flags, desc);

static void debugging_does_without_sheaves(struct kunit *test)
{
	const struct debug_flags *d = test->param_value;
	struct slab_test *st = with_cache(test, OBJECT_SIZE, d->flags, NULL);
	struct moves m;

	KUNIT_EXPECT_EQ(test, st->cap, 0);
	KUNIT_EXPECT_TRUE(test, (st->cache->flags & SLAB_DEBUG_FLAGS) == d->flags);
	grab(test, 100);
	release(test, 50);
	grab(test, 100);
	m = take_moves(test);
	KUNIT_EXPECT_EQ(test, m.alloc_slow, 200);
	KUNIT_EXPECT_EQ(test, m.alloc_fast, 0);
	KUNIT_EXPECT_EQ(test, m.free_fast, 0);
	if (!IS_ENABLED(CONFIG_KASAN_GENERIC))
		KUNIT_EXPECT_EQ(test, m.free_slow, 50);
	KUNIT_EXPECT_GE(test, m.list_lock, m.alloc_slow + m.free_slow);
	expect_cached(test, 0);
	KUNIT_EXPECT_EQ(test, count_sheaves(st->cache), 0);
	release(test, st->nr_held);
	KUNIT_EXPECT_EQ(test, kmem_cache_shrink(st->cache), 0);
}
#endif

/* What a kernel without sheaves counts. */
static void all_is_slow_without_sheaves(struct kunit *test)
{
	struct slab_test *st = with_cache(test, OBJECT_SIZE, 0, NULL);

	if (st->cap)
		kunit_skip(test, "the caches have sheaves");
	grab(test, 500);
	expect_moves(test, .alloc_slow = 500);
	release(test, 500);
	expect_moves(test, .free_slow = 500);
	expect_cached(test, 0);
}

/* A kmalloc() cache may have sheaves that come from itself. */
static void kmalloc_of_all_sizes(struct kunit *test)
{
	void **p = kunit_kcalloc(test, 200, sizeof(*p), GFP_KERNEL);
	unsigned int size, i, broken = 0;

	KUNIT_ASSERT_NOT_NULL(test, p);
	for (size = 8; size <= 2 * PAGE_SIZE; size = size % 3 ? size + size / 2 : size / 3 * 4) {
		for (i = 0; i < 200; i++) {
			p[i] = kmalloc(size, GFP_KERNEL);
			if (p[i])
				memset(p[i], i, size);
		}
		for (i = 0; i < 200; i++) {
			broken += !p[i] || memchr_inv(p[i], i, size);
			kfree(p[i]);
		}
	}
	KUNIT_EXPECT_EQ(test, broken, 0);
}

static struct kunit_case capacity_cases[] = {
	KUNIT_CASE(default_capacity),
	KUNIT_CASE_PARAM(requested_capacity, requests_gen_params),
#ifdef CONFIG_SLAB_SHEAVES
	KUNIT_CASE(sheaf_alloc_does_not_recurse),
	KUNIT_CASE(sheaves_are_not_profiled),
#endif
	KUNIT_CASE(requested_capacity_is_not_shared),
	KUNIT_CASE(absurd_capacity),
	KUNIT_CASE(who_has_sheaves),
#ifdef CONFIG_SLUB_DEBUG
	KUNIT_CASE_PARAM(debugging_does_without_sheaves, debug_flags_gen_params),
#endif
	KUNIT_CASE(all_is_slow_without_sheaves),
	KUNIT_CASE(kmalloc_of_all_sizes),
	{}
};

static struct kunit_suite capacity_suite = {
	.name = "slab_sheaf_capacity",
	.init = slab_test_init,
	.exit = finish_cache,
	.test_cases = capacity_cases,
};

kunit_test_suite(capacity_suite);

MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
MODULE_DESCRIPTION("KUnit tests of sheaves: how large they are, and who has any");
MODULE_LICENSE("GPL");
