// SPDX-License-Identifier: GPL-2.0
/*
 * What a heap bug gets
 *
 * Writing the name of an attack to the parameter `attack' does what a bug elsewhere would
 * do to the slab allocator, then allocates, and says in the log what came of it, if the
 * kernel still runs:
 *
 *   nothing to be had	no object was handed out that should not be
 *   handed out twice	two users have the same object
 *   handed out		somebody was given an address of the attacker's choice, or memory
 *			that belongs to somebody else
 *   an address at random	somebody was given what is no address of anything
 *   written to		the attacker has something written where he likes
 *   read		he knows the address of an object
 *   no such thing	the kernel has nothing that could be attacked like this
 *
 * The parameter `attacks' lists the names. With `guarded', the objects that are freed twice,
 * written to, or read, are such as KFENCE guards. Each attack wants a kernel of its own: what it
 * does is not undone. It knows sheaves from inside, where there are any, and on other
 * kernels does the same to what they have, if that is no different from outside.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/gfp.h>
#include <linux/kfence.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>

#ifdef CONFIG_SLAB_SHEAVES
#include "slab_sheaf.h"
#endif

#define OBJECT_SIZE	192
#define MANY		1024		/* more than any CPU has in its sheaves */
#define NOTHING		"nothing to be had"
#define TWICE		"handed out twice"
#define HANDED_OUT	"handed out"
#define RANDOM_ADDRESS	"an address at random"
#define WRITTEN_TO	"written to"
#define WAS_READ	"read"
#define NO_SUCH_THING	"no such thing"

struct object {
	unsigned long word;
	struct rcu_head rcu;
};

static bool guarded;
module_param(guarded, bool, 0600);
MODULE_PARM_DESC(guarded, "Attack objects that KFENCE guards");

static struct kmem_cache *cache, *other;
static void *objects[MANY], *got[2 * MANY];

/* What another user would be given next, and much of what would come later. */
static void allocate(struct kmem_cache *s)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(got); i++)
		got[i] = kmem_cache_alloc(s, GFP_KERNEL);
}

static const char *anything_twice(void)
{
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(got); i++)
		for (j = 0; j < i; j++)
			if (got[i] && got[i] == got[j])
				return TWICE;
	return NOTHING;
}

/* Whether there is anything, of that size, that overlaps with as much at @p. */
static const char *anything_at(const void *p, size_t size)
{
	unsigned long from = (unsigned long)p;
	const char *result = NOTHING;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(got); i++) {
		unsigned long object = (unsigned long)got[i];

		if (object && object < from + size && from < object + size)
			return HANDED_OUT;
		if (object && !virt_addr_valid(got[i]))
			result = RANDOM_ADDRESS;
	}
	return result;
}

/* KFENCE guards an object from time to time. */
static void *alloc_guarded(struct kmem_cache *s, size_t size)
{
	unsigned int i;
	void *p;

	for (i = 0; i < 10000; i++) {
		p = s ? kmem_cache_alloc(s, GFP_KERNEL) : kmalloc(size, GFP_KERNEL);
		if (is_kfence_address(p))
			return p;
		s ? kmem_cache_free(s, p) : kfree(p);
		usleep_range(100, 200);
	}
	return NULL;
}

static struct object *alloc_one(void)
{
	return guarded ? alloc_guarded(cache, 0) : kmem_cache_alloc(cache, GFP_KERNEL);
}

/* Objects that were in use for some time, so that all has settled. */
static bool alloc_many(void)
{
	unsigned int i;

	for (i = 0; i < MANY; i++) {
		objects[i] = kmem_cache_alloc(cache, GFP_KERNEL);
		if (!objects[i])
			return false;
	}
	return true;
}

/*
 * Freed twice
 */

static const char *after_twice(void)
{
	kvfree_rcu_barrier();
	allocate(cache);
	return anything_twice();
}

static const char *free_twice(void)
{
	struct object *o = alloc_one();

	kmem_cache_free(cache, o);
	kmem_cache_free(cache, o);
	return after_twice();
}

static const char *kfree_twice(void)
{
	struct object *o = alloc_one();

	kfree(o);
	kfree(o);
	return after_twice();
}

static const char *bulk_twice(void)
{
	void *p[2];

	p[0] = alloc_one();
	p[1] = p[0];
	kmem_cache_free_bulk(cache, 2, p);
	return after_twice();
}

static const char *rcu_twice(void)
{
	struct object *o = alloc_one();

	kfree_rcu(o, rcu);
	kfree_rcu(o, rcu);
	return after_twice();
}

static const char *free_and_rcu(void)
{
	struct object *o = alloc_one();

	kmem_cache_free(cache, o);
	kfree_rcu(o, rcu);
	return after_twice();
}

static const char *rcu_and_free(void)
{
	struct object *o = alloc_one();

	kfree_rcu(o, rcu);
	kmem_cache_free(cache, o);
	return after_twice();
}

static const char *free_twice_not_in_a_row(void)
{
	struct object *a = alloc_one(), *b = alloc_one();

	kmem_cache_free(cache, a);
	kmem_cache_free(cache, b);
	kmem_cache_free(cache, a);
	return after_twice();
}

#ifdef CONFIG_SLAB_SHEAVES
static struct slab_sheaf *this_main(void)
{
	return this_cpu_read(cache->cpu_sheaves->main);
}

static bool main_becomes_full(void)
{
	struct slab_sheaf *main = this_main();

	return main->size + 1 == main->capacity;
}
#else
static bool main_becomes_full(void)
{
	return false;
}
#endif

/* The first time fills what a CPU has, where that is a sheaf. */
static const char *free_twice_across_sheaves(void)
{
	unsigned int i;

	if (!alloc_many())
		return NULL;
	for (i = 0; i < MANY - 1 && !main_becomes_full(); i++)
		kmem_cache_free(cache, objects[i]);
	kmem_cache_free(cache, objects[i]);
	kmem_cache_free(cache, objects[i]);
	return after_twice();
}

/* Slabs of two objects each, of which one is freed twice, and the other is not. */
static const char *bulk_twice_whole_slabs(void)
{
	struct kmem_cache *s;
	unsigned int i;

	s = kmem_cache_create("test_slab_attack_2", SZ_16K, 0, SLAB_NO_MERGE, NULL);
	if (!s)
		return NULL;
	for (i = 0; i < 128; i++)
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
	for (i = 0; i < 128; i += 2)
		objects[i + 1] = objects[i];
	kmem_cache_free_bulk(s, 128, objects);
	for (i = 0; i < 256; i++)
		got[i] = kmem_cache_alloc(s, GFP_KERNEL);
	return anything_twice();
}

/*
 * Freed to where it does not belong
 */

static const char *free_to_wrong_cache(void)
{
	struct object *o = alloc_one();

	kmem_cache_free(other, o);
	allocate(other);
	return anything_at(o, OBJECT_SIZE);
}

static const char *free_foreign(void)
{
	struct page *page = alloc_page(GFP_KERNEL);

	if (!page)
		return NULL;
	kmem_cache_free(cache, page_address(page) + OBJECT_SIZE);
	allocate(cache);
	return anything_at(page_address(page) + OBJECT_SIZE, OBJECT_SIZE);
}

static const char *free_inner(void)
{
	unsigned int i;
	void *o;

	if (!alloc_many())
		return NULL;
	o = objects[MANY / 2];
	kmem_cache_free(cache, o + 64);
	allocate(cache);
	for (i = 0; i < ARRAY_SIZE(got); i++)
		if (got[i] == o + 64)
			return HANDED_OUT;
	return NOTHING;
}

/*
 * Written to after it was freed, or beyond its end. What is written is an address that
 * the attacker would like to be given.
 */

static void *wanted;

static const char *get_wanted(void)
{
	struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO);

	if (!page)
		return NULL;
	wanted = page_address(page);
	return NOTHING;
}

/* One by one: who watches what is written does not look at memset64(). */
static void write_wanted(void **p, size_t size)
{
	size_t i;

	for (i = 0; i < size / sizeof(*p); i++)
		WRITE_ONCE(p[i], wanted);
}

static const char *write_after_free(void)
{
	struct object *o;

	if (!get_wanted())
		return NULL;
	o = alloc_one();
	kmem_cache_free(cache, o);
	OPTIMIZER_HIDE_VAR(o);
	write_wanted((void **)o, OBJECT_SIZE);
	allocate(cache);
	return anything_at(wanted, OBJECT_SIZE);
}

/* Whether it is one of those that overflow() has freed: others have objects there, too. */
static bool was_ours(const void *p, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i += 2)
		if (objects[i] == p)
			return true;
	return false;
}

/* Behind it is what somebody watches. */
static const char *overflow_one(size_t size)
{
	void *p = guarded ? alloc_guarded(NULL, size) : kmalloc(size, GFP_KERNEL);
	void *end = p + size;

	if (!p)
		return NULL;
	OPTIMIZER_HIDE_VAR(end);
	write_wanted(end, size);
	kfree(p);
	return NOTHING;
}

/* Objects of kmalloc(), every other one free, and those in between overflow into them. */
static const char *overflow(size_t size)
{
	unsigned int i, done = 0, nr = MANY / 4;

	if (!get_wanted())
		return NULL;
	if (guarded)
		return overflow_one(size);
	for (i = 0; i < nr; i++) {
		objects[i] = kmalloc(size, GFP_KERNEL);
		if (!objects[i])
			return NULL;
	}
	for (i = 0; i < nr; i += 2)
		kfree(objects[i]);
	for (i = 1; i < nr; i += 2) {
		void *end = objects[i] + size;

		OPTIMIZER_HIDE_VAR(end);
		if (!was_ours(end, nr))
			continue;
		write_wanted(end, size);
		done++;
	}
	pr_info("%u of %u have overflowed\n", done, nr / 2);
	if (!done)
		return overflow_one(size);
	for (i = 0; i < ARRAY_SIZE(got); i++)
		got[i] = kmalloc(size, GFP_KERNEL);
	return anything_at(wanted, size);
}

/* The sizes that sheaves have, too. */
static const char *overflow_64(void)
{
	return overflow(64);
}

static const char *overflow_128(void)
{
	return overflow(128);
}

static const char *overflow_256(void)
{
	return overflow(256);
}

static const char *overflow_512(void)
{
	return overflow(512);
}

static const char *overflow_1k(void)
{
	return overflow(1024);
}

static const char *overflow_2k(void)
{
	return overflow(2048);
}

static const char *overflow_4k(void)
{
	return overflow(4096);
}

/*
 * Read where nothing of this user is, or any more. An attacker may know the direct map, and
 * look for what points there.
 */

static const char *any_address(const void *p, size_t size)
{
	void *const *word = p;
	unsigned int i;

	for (i = 0; i < size / sizeof(*word); i++) {
		const void *address = READ_ONCE(word[i]);

		if (virt_addr_valid(address))
			return WAS_READ;
	}
	return NOTHING;
}

static const char *read_after_free(void)
{
	struct object *o = alloc_one(), *before = alloc_one();

	memset(o, 0, OBJECT_SIZE);
	kmem_cache_free(cache, before);
	kmem_cache_free(cache, o);
	OPTIMIZER_HIDE_VAR(o);
	return any_address(o, OBJECT_SIZE);
}

/* What the last user had there is the next one's to read, unless it is initialised. */
static const char *read_uninitialized(void)
{
	struct object *o = alloc_one();

	o->word = (unsigned long)o;
	o->rcu.func = (void *)o;
	kmem_cache_free(cache, o);
	o = kmem_cache_alloc(cache, GFP_KERNEL);
	OPTIMIZER_HIDE_VAR(o);
	return any_address(o, OBJECT_SIZE);
}

/*
 * Who can write to a sheaf, or read it, by whatever means
 */

#ifdef CONFIG_SLAB_SHEAVES
/* A sheaf of this CPU with some objects in it. */
static struct slab_sheaf *some_main(void)
{
	unsigned int i;

	if (!get_wanted() || !alloc_many())
		return NULL;
	for (i = 0; i < MANY / 2; i++)
		kmem_cache_free(cache, objects[i]);
	return this_main()->size ? this_main() : NULL;
}

static const char *sheaf_slot(void)
{
	struct slab_sheaf *main = some_main();

	if (!main)
		return NULL;
	main->objects[main->size - 1] = wanted;
	allocate(cache);
	return anything_at(wanted, OBJECT_SIZE);
}

static const char *sheaf_read(void)
{
	struct slab_sheaf *main = some_main();

	return main ? any_address(main->objects, main->size * sizeof(void *)) : NULL;
}

/* A barn that has a full sheaf, which would be unlinked next. */
static struct slab_sheaf *some_full(void)
{
	struct node_barn *barn;
	unsigned int i;

	if (!get_wanted() || !alloc_many())
		return NULL;
	for (i = 0; i < MANY; i++)
		kmem_cache_free(cache, objects[i]);
	barn = cache->barns[numa_mem_id()];
	return barn && barn->nr_full ?
	       list_first_entry(&barn->sheaves_full, struct slab_sheaf, barn_list) : NULL;
}

/* Who unlinks it writes both ways. */
static const char *sheaf_links(void)
{
	struct slab_sheaf *full = some_full();
	unsigned int i;

	if (!full)
		return NULL;
	full->barn_list.next = wanted;
	full->barn_list.prev = wanted + SZ_1K;
	allocate(cache);
	for (i = 0; i < PAGE_SIZE / sizeof(long); i++)
		if (((unsigned long *)wanted)[i])
			return WRITTEN_TO;
	return NOTHING;
}

/* Somebody else's cache, for objects that wait for a grace period. */
static const char *sheaf_cache(void)
{
	struct slab_sheaf *rcu_free = NULL;
	unsigned int i;

	if (!alloc_many())
		return NULL;
	rcu_read_lock();
	for (i = 0; i < 2; i++)
		kfree_rcu((struct object *)objects[i], rcu);
	rcu_free = this_cpu_read(cache->cpu_sheaves->rcu_free);
	for (; rcu_free && i < MANY && this_cpu_read(cache->cpu_sheaves->rcu_free) == rcu_free; i++)
		kfree_rcu((struct object *)objects[i], rcu);
	if (rcu_free)
		rcu_free->cache = other;
	rcu_read_unlock();
	if (!rcu_free)
		return NO_SUCH_THING;
	kvfree_rcu_barrier();
	allocate(other);
	for (i = 0; i < ARRAY_SIZE(got); i++)
		if (got[i] && virt_to_slab(got[i])->slab_cache != other)
			return HANDED_OUT;
	return NOTHING;
}

/* What lies behind the sheaf would be taken for objects. */
static const char *sheaf_size(void)
{
	struct slab_sheaf *main = some_main();
	unsigned int i;

	if (!main)
		return NULL;
	main->size = main->capacity + 16;
	allocate(cache);
	for (i = 0; i < ARRAY_SIZE(got); i++)
		if (got[i] && virt_to_slab(got[i])->slab_cache != cache)
			return HANDED_OUT;
	return NOTHING;
}

/* The memory of a sheaf that was freed: does a user get it who writes to it? */
static const char *sheaf_freed(void)
{
	struct slab_sheaf *main = some_main();
	unsigned long from = (unsigned long)main;
	size_t size;
	unsigned int i;

	if (!main)
		return NULL;
	size = struct_size(main, objects, main->capacity);
	for (i = MANY / 2; i < MANY; i++)
		kmem_cache_free(cache, objects[i]);
	kmem_cache_shrink(cache);
	for (i = 0; i < ARRAY_SIZE(got); i++) {
		unsigned long object = (unsigned long)kmalloc(size, GFP_KERNEL);

		if (object && object < from + size && from < object + size)
			return HANDED_OUT;
	}
	return NOTHING;
}
#else
static const char *sheaf_slot(void)
{
	return NO_SUCH_THING;
}

static const char *sheaf_read(void)
{
	return NO_SUCH_THING;
}

static const char *sheaf_links(void)
{
	return NO_SUCH_THING;
}

static const char *sheaf_cache(void)
{
	return NO_SUCH_THING;
}

static const char *sheaf_size(void)
{
	return NO_SUCH_THING;
}

static const char *sheaf_freed(void)
{
	return NO_SUCH_THING;
}
#endif

static const struct attack {
	const char *name;
	const char *(*fn)(void);
} attacks[] = {
	{ "free_twice", free_twice },
	{ "kfree_twice", kfree_twice },
	{ "bulk_twice", bulk_twice },
	{ "rcu_twice", rcu_twice },
	{ "free_and_rcu", free_and_rcu },
	{ "rcu_and_free", rcu_and_free },
	{ "free_twice_not_in_a_row", free_twice_not_in_a_row },
	{ "free_twice_across_sheaves", free_twice_across_sheaves },
	{ "bulk_twice_whole_slabs", bulk_twice_whole_slabs },
	{ "free_to_wrong_cache", free_to_wrong_cache },
	{ "free_foreign", free_foreign },
	{ "free_inner", free_inner },
	{ "write_after_free", write_after_free },
	{ "overflow_64", overflow_64 },
	{ "overflow_128", overflow_128 },
	{ "overflow_256", overflow_256 },
	{ "overflow_512", overflow_512 },
	{ "overflow_1k", overflow_1k },
	{ "overflow_2k", overflow_2k },
	{ "overflow_4k", overflow_4k },
	{ "read_after_free", read_after_free },
	{ "read_uninitialized", read_uninitialized },
	{ "sheaf_read", sheaf_read },
	{ "sheaf_slot", sheaf_slot },
	{ "sheaf_links", sheaf_links },
	{ "sheaf_cache", sheaf_cache },
	{ "sheaf_size", sheaf_size },
	{ "sheaf_freed", sheaf_freed },
};

static int set_attack(const char *val, const struct kernel_param *kp)
{
	const char *result;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(attacks); i++)
		if (sysfs_streq(val, attacks[i].name))
			break;
	if (i == ARRAY_SIZE(attacks))
		return -EINVAL;

	pr_info("%s: begins\n", attacks[i].name);
	migrate_disable();
	result = attacks[i].fn();
	migrate_enable();
	if (!result)
		return -ENOMEM;
	pr_info("%s: %s\n", attacks[i].name, result);
	return 0;
}

static int get_attacks(char *buf, const struct kernel_param *kp)
{
	unsigned int i;
	int len = 0;

	for (i = 0; i < ARRAY_SIZE(attacks); i++)
		len += sysfs_emit_at(buf, len, "%s\n", attacks[i].name);
	return len;
}

static const struct kernel_param_ops attack_ops = { .set = set_attack };
static const struct kernel_param_ops attacks_ops = { .get = get_attacks };
module_param_cb(attack, &attack_ops, NULL, 0200);
MODULE_PARM_DESC(attack, "What to do; wants a kernel that nobody needs afterwards");
module_param_cb(attacks, &attacks_ops, NULL, 0400);
MODULE_PARM_DESC(attacks, "What there is to do");

static int __init test_slab_attack_init(void)
{
	cache = kmem_cache_create("test_slab_attack", OBJECT_SIZE, 0, SLAB_NO_MERGE, NULL);
	other = kmem_cache_create("test_slab_attack_other", OBJECT_SIZE, 0, SLAB_NO_MERGE, NULL);
	if (!cache || !other) {
		kmem_cache_destroy(cache);
		kmem_cache_destroy(other);
		return -ENOMEM;
	}
	return 0;
}

/* For who has not attacked anything. */
static void __exit test_slab_attack_exit(void)
{
	kmem_cache_destroy(cache);
	kmem_cache_destroy(other);
}

module_init(test_slab_attack_init);
module_exit(test_slab_attack_exit);
MODULE_DESCRIPTION("What a heap bug gets");
MODULE_LICENSE("GPL");
