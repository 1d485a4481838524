// SPDX-License-Identifier: GPL-2.0
/*
 * What a module can do with sheaves, as a user of the slab allocator would
 *
 * Uses each function and each member that is there for sheaves, and nothing that
 * is particular to this kernel, so that it builds, as it is, against any kernel
 * from 6.18 on as well. (Those do not export the functions to modules, and so
 * only warn: KBUILD_MODPOST_WARN=1.)
 *
 * Loading it fails with EINVAL if objects are not what was promised, or ENOMEM.
 * Writing a number to the parameter `accounted' allocates so many objects, that
 * are charged to the memory cgroup of the writer, from a prefilled sheaf, and then
 * frees them. That must succeed whatever the limit of the cgroup is, once the
 * sheaf has been prefilled.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/kfence.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#define CAPACITY	40
#define OBJECT_SIZE	200

struct object {
	struct object *next;
	char rest[OBJECT_SIZE - sizeof(void *)];
};

static struct kmem_cache *cache;
static DEFINE_SPINLOCK(lock);

static void free_list(struct object *list)
{
	struct object *next;

	for (; list; list = next) {
		next = list->next;
		kmem_cache_free(cache, list);
	}
}

/* Takes @nr objects out of a sheaf at a place where nothing can be allocated. */
static int take(struct slab_sheaf *sheaf, unsigned int nr, gfp_t gfp, struct object **list)
{
	unsigned int before = kmem_cache_sheaf_size(sheaf);
	int ret = 0;

	spin_lock(&lock);
	while (nr > 0) {
		struct object *obj = kmem_cache_alloc_from_sheaf(cache, gfp, sheaf);

		if (!obj || ((gfp & __GFP_ZERO) && memchr_inv(obj, 0, sizeof(*obj)))) {
			ret = -EINVAL;
			break;
		}
		memset(obj, 0xff, sizeof(*obj));
		obj->next = *list;
		*list = obj;
		nr--;
		/* One that KFENCE guards does not come out of the sheaf. */
		if (!is_kfence_address(obj))
			before--;
		if (kmem_cache_sheaf_size(sheaf) != before) {
			ret = -EINVAL;
			break;
		}
	}
	spin_unlock(&lock);
	return ret;
}

static int use_sheaf(unsigned int size)
{
	struct object *list = NULL;
	struct slab_sheaf *sheaf;
	int ret = -EINVAL;

	sheaf = kmem_cache_prefill_sheaf(cache, GFP_KERNEL, size);
	if (!sheaf)
		return -ENOMEM;
	if (kmem_cache_sheaf_size(sheaf) < size)
		goto out;

	ret = take(sheaf, size / 2, GFP_NOWAIT, &list);
	if (ret)
		goto out;
	ret = kmem_cache_refill_sheaf(cache, GFP_KERNEL, &sheaf, size);
	if (ret)
		goto out;
	ret = take(sheaf, size, GFP_NOWAIT | __GFP_ZERO, &list);
	if (ret)
		goto out;
	/* More than there ever was room for. */
	ret = kmem_cache_refill_sheaf(cache, GFP_KERNEL, &sheaf, size + 10);
	if (!ret)
		ret = take(sheaf, size / 2 + 10, GFP_NOWAIT, &list);
out:
	kmem_cache_return_sheaf(cache, GFP_KERNEL, sheaf);
	free_list(list);
	return ret;
}

static int set_accounted(const char *text, const struct kernel_param *kp)
{
	struct object *list = NULL;
	struct slab_sheaf *sheaf;
	unsigned int nr;
	int ret;

	ret = kstrtouint(text, 0, &nr);
	if (ret)
		return ret;
	if (!nr || !cache)
		return -EINVAL;

	sheaf = kmem_cache_prefill_sheaf(cache, GFP_KERNEL, nr);
	if (!sheaf)
		return -ENOMEM;
	ret = take(sheaf, nr, GFP_NOWAIT | __GFP_ACCOUNT, &list);
	kmem_cache_return_sheaf(cache, GFP_KERNEL, sheaf);
	free_list(list);
	return ret;
}

static const struct kernel_param_ops accounted_ops = {
	.set = set_accounted,
};
module_param_cb(accounted, &accounted_ops, NULL, 0200);
MODULE_PARM_DESC(accounted, "Allocate so many accounted objects from a prefilled sheaf.");

static int __init test_slab_prefill_init(void)
{
	struct kmem_cache_args args = {
		.align = sizeof(void *),
		.sheaf_capacity = CAPACITY,
	};
	unsigned int size;
	int ret = 0;

	cache = kmem_cache_create("test_slab_prefill", sizeof(struct object), &args, 0);
	if (!cache)
		return -ENOMEM;
	for (size = 1; !ret && size <= 4 * CAPACITY; size++)
		ret = use_sheaf(size);
	if (ret) {
		pr_err("%u objects: error %d\n", size - 1, ret);
		kmem_cache_destroy(cache);
	}
	return ret;
}

static void __exit test_slab_prefill_exit(void)
{
	kmem_cache_destroy(cache);
}

module_init(test_slab_prefill_init);
module_exit(test_slab_prefill_exit);
MODULE_DESCRIPTION("Uses prefilled sheaves of the slab allocator");
MODULE_LICENSE("GPL");
