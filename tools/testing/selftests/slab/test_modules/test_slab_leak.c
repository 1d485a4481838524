// SPDX-License-Identifier: GPL-2.0
/*
 * A module that leaks objects that passed through sheaves
 *
 * When an object is taken out of a sheaf, its address remains in the array until
 * another one is put there. Loading the module allocates objects and forgets them,
 * so that nothing but such remains still points to them: in a sheaf of the CPU, in
 * a prefilled sheaf that is kept, or in one that is larger than those of the cache
 * (parameter `from': cpu, lent, or large). Whether kmemleak finds them is up to
 * kmemleak.sh.
 *
 * Unloading the module frees them: it remembers them in a way in which kmemleak
 * does not recognise an address.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>

#define CAPACITY	40
#define OBJECT_SIZE	200
#define LEAKS_MAX	CAPACITY

static char *from = "cpu";
module_param(from, charp, 0444);
MODULE_PARM_DESC(from, "cpu, lent, or large: the sheaf that the objects come from.");

static unsigned int leaks = 16;
module_param(leaks, uint, 0444);
MODULE_PARM_DESC(leaks, "How many objects.");

static struct kmem_cache *cache;
static struct slab_sheaf *lent;
static unsigned long hidden[LEAKS_MAX];

static noinline bool leak_one(unsigned int i)
{
	void *object;

	if (lent)
		object = kmem_cache_alloc_from_sheaf(cache, GFP_KERNEL, lent);
	else
		object = kmem_cache_alloc(cache, GFP_KERNEL);
	hidden[i] = ~(unsigned long)object;
	return object;
}

static void clean_up(void)
{
	unsigned int i;

	for (i = 0; i < leaks; i++)
		if (hidden[i] && ~hidden[i])
			kmem_cache_free(cache, (void *)~hidden[i]);
	if (lent)
		kmem_cache_return_sheaf(cache, GFP_KERNEL, lent);
	kmem_cache_destroy(cache);
}

static int __init test_slab_leak_init(void)
{
	struct kmem_cache_args args = {
		.sheaf_capacity = CAPACITY,
	};
	unsigned int i;

	if (leaks > LEAKS_MAX)
		return -EINVAL;
	cache = kmem_cache_create("test_slab_leak", OBJECT_SIZE, &args, SLAB_NO_MERGE);
	if (!cache)
		return -ENOMEM;
	if (!strcmp(from, "lent"))
		lent = kmem_cache_prefill_sheaf(cache, GFP_KERNEL, leaks);
	else if (!strcmp(from, "large"))
		lent = kmem_cache_prefill_sheaf(cache, GFP_KERNEL, 2 * CAPACITY);
	else if (strcmp(from, "cpu"))
		goto err;
	if (!lent && strcmp(from, "cpu"))
		goto err;
	for (i = 0; i < leaks; i++)
		if (!leak_one(i))
			goto err;
	return 0;
err:
	clean_up();
	return -ENOMEM;
}

static void __exit test_slab_leak_exit(void)
{
	clean_up();
}

module_init(test_slab_leak_init);
module_exit(test_slab_leak_exit);
MODULE_DESCRIPTION("Leaks objects that passed through sheaves");
MODULE_LICENSE("GPL");
