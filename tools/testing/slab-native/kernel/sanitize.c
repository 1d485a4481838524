// SPDX-License-Identifier: GPL-2.0
/*
 * What comes between the files that are compiled with a sanitizer and the rest of the
 * kernel's side, which is not (see build.sh -s): the calls of the former to the
 * functions here without "native_san_" go here instead.
 *
 * Memory: it can be accessed while it is allocated, and no byte further. Locks: who
 * gets one has seen what was done by whom he got it from.
 */

#include <linux/slab.h>
#include <linux/spinlock.h>

#include "native.h"

/* Behind what is allocated, at least. */
#define REDZONE		32

static void *allocated(void *p, size_t size)
{
	if (p) {
		host_san_acquire(p);
		host_san_poison(p, ksize(p));
		host_san_unpoison(p, size);
	}
	return p;
}

static void freed(const void *p)
{
	if (p) {
		host_san_poison((void *)p, ksize(p));
		host_san_release((void *)p);
	}
}

void *native_san_kmalloc_nosheaf(size_t size, gfp_t gfp)
{
	return allocated(kmalloc_nosheaf(size + REDZONE, gfp), size);
}

static void free_after_readers(struct rcu_head *head)
{
	freed(head);
	kfree_nosheaf(head);
}

/* Until a grace period has passed others may look at it. It begins with an rcu_head. */
void native_san_kfree_nosheaf(void *p)
{
	call_rcu(p, free_after_readers);
}

void *native_san_kmalloc(size_t size, gfp_t gfp)
{
	return allocated(kmalloc(size + REDZONE, gfp), size);
}

/* The cache is one of those of kmalloc(), for the size. */
void *native_san_kmalloc_node(struct kmem_cache *s, gfp_t gfp, int node, size_t size)
{
	return allocated(kmalloc_node(size + REDZONE, gfp, node), size);
}

void native_san_kfree(const void *p)
{
	freed(p);
	kfree(p);
}

unsigned long native_san_spin_lock_irqsave(raw_spinlock_t *lock)
{
	unsigned long flags;

	raw_spin_lock_irqsave(lock, flags);
	host_san_acquire(lock);
	return flags;
}

void native_san_spin_unlock_irqrestore(raw_spinlock_t *lock, unsigned long flags)
{
	host_san_release(lock);
	raw_spin_unlock_irqrestore(lock, flags);
}
