// SPDX-License-Identifier: GPL-2.0
/*
 * RCU: a grace period has passed when each CPU that was in use at its start has
 * been at a safe point, or was not in use, once. Callbacks run in batches, one batch
 * at a time and in their order, as softirqs of whoever ends the grace period.
 *
 * kfree_rcu() of 6.12 (kernel/rcu/tree.c) is a callback for each object here.
 */

#include <linux/bitops.h>
#include <linux/mm.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/vmalloc.h>

#include "native.h"

/* Offsets of an rcu_head in an object are less than this, functions are more. */
#define MAX_OFFSET	4096

static DEFINE_SPINLOCK(lock);
static struct rcu_head *next, **next_tail = &next;	/* for the next batch */
static struct rcu_head *waiting;			/* for this grace period */
static u64 busy;		/* CPUs that are in use */
static u64 holdouts;		/* those that the grace period waits for */
static bool running;		/* a batch, or a grace period for it */
static unsigned long nr_started, nr_over, nr_done;	/* grace periods, their batches */
static atomic_long_t nr_pending;

static void call(struct rcu_head *head)
{
	unsigned long func = (unsigned long)head->func;

	if (func < MAX_OFFSET)
		kvfree((char *)head - func);
	else
		head->func(head);
	atomic_long_dec(&nr_pending);
}

static void run_batch(struct rcu_head *batch)
{
	struct rcu_head *head;

	host_san_acquire(&next);
	host_san_acquire(&holdouts);
	__local_bh_disable_ip(_THIS_IP_, SOFTIRQ_OFFSET);
	while (batch) {
		head = batch;
		batch = (struct rcu_head *)batch->next;
		call(head);
	}
	preempt_count_sub(SOFTIRQ_OFFSET);
	host_san_release(&waiting);
}

/* Take what is to be run, and start the next grace period. */
static struct rcu_head *advance(void)
{
	struct rcu_head *batch = NULL;

	if (running && waiting && !holdouts) {
		batch = waiting;
		waiting = NULL;
		WRITE_ONCE(nr_over, nr_over + 1);
		return batch;
	}
	if (!running && next) {
		waiting = next;
		next = NULL;
		next_tail = &next;
		holdouts = busy;
		running = true;
		WRITE_ONCE(nr_started, nr_started + 1);
	}
	return NULL;
}

static void note(unsigned int cpu, bool leaves)
{
	struct rcu_head *batch;
	unsigned long flags;

	host_san_release(&holdouts);
	spin_lock_irqsave(&lock, flags);
	holdouts &= ~BIT_ULL(cpu);
	if (leaves)
		busy &= ~BIT_ULL(cpu);
	batch = advance();
	spin_unlock_irqrestore(&lock, flags);
	if (!batch)
		return;

	run_batch(batch);
	spin_lock_irqsave(&lock, flags);
	running = false;
	nr_done++;
	advance();
	spin_unlock_irqrestore(&lock, flags);
}

void native_rcu_quiescent(unsigned int cpu)
{
	if (atomic_long_read(&nr_pending))
		note(cpu, false);
}

void native_rcu_cpu_leaves(unsigned int cpu)
{
	note(cpu, true);
}

void native_rcu_cpu_enters(unsigned int cpu)
{
	unsigned long flags;

	spin_lock_irqsave(&lock, flags);
	busy |= BIT_ULL(cpu);
	spin_unlock_irqrestore(&lock, flags);
}

long native_rcu_pending(void)
{
	return atomic_long_read(&nr_pending);
}

unsigned long native_rcu_next(void)
{
	return READ_ONCE(nr_started) + 1;
}

unsigned long native_rcu_done(void)
{
	return READ_ONCE(nr_over);
}

unsigned long get_state_synchronize_rcu(void)
{
	/* What the caller has removed is removed before the number is read. */
	smp_mb();
	return native_rcu_next();
}

/* Grace periods begin with callbacks only. */
unsigned long start_poll_synchronize_rcu(void)
{
	return get_state_synchronize_rcu();
}

bool poll_state_synchronize_rcu(unsigned long gp)
{
	if ((long)(native_rcu_done() - gp) < 0)
		return false;
	/* What readers did comes before what the caller does now. */
	smp_mb();
	host_san_acquire(&holdouts);
	return true;
}

void native_rcu_wait(void)
{
	unsigned long flags, until;

	spin_lock_irqsave(&lock, flags);
	until = nr_started + !!next;
	spin_unlock_irqrestore(&lock, flags);
	while ((long)(READ_ONCE(nr_done) - until) < 0)
		native_sleep();
	host_san_acquire(&waiting);
}

void call_rcu(struct rcu_head *head, rcu_callback_t func)
{
	unsigned long flags;

	head->func = func;
	head->next = NULL;
	atomic_long_inc(&nr_pending);
	host_san_release(&next);
	spin_lock_irqsave(&lock, flags);
	*next_tail = head;
	next_tail = (struct rcu_head **)&head->next;
	spin_unlock_irqrestore(&lock, flags);
}

void rcu_barrier(void)
{
	native_rcu_wait();
}

struct waiter {
	struct rcu_head head;
	bool done;
};

static void wake_waiter(struct rcu_head *head)
{
	WRITE_ONCE(container_of(head, struct waiter, head)->done, true);
}

void synchronize_rcu(void)
{
	struct waiter w = {};

	call_rcu(&w.head, wake_waiter);
	while (!READ_ONCE(w.done))
		native_sleep();
	host_san_acquire(&waiting);
	host_san_acquire(&holdouts);
}

/* Nobody sleeps, or is preempted, in between: that would be a quiescent state. */
void __rcu_read_lock(void)
{
	preempt_disable();
}

void __rcu_read_unlock(void)
{
	preempt_enable();
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 15, 0)
/* Sheaves call this for what they do not take. */
void kvfree_call_rcu_batched(struct rcu_head *head, void *ptr)
{
	if (!head) {
		synchronize_rcu();
		kvfree(ptr);
		return;
	}
	call_rcu(head, (rcu_callback_t)((unsigned long)head - (unsigned long)ptr));
}

void kvfree_call_rcu(struct rcu_head *head, void *ptr)
{
	if (native_rcu_sheaf && native_is_direct(ptr))
		native_rcu_sheaf(head, ptr);
	else
		kvfree_call_rcu_batched(head, ptr);
}

void kvfree_rcu_barrier(void)
{
	if (native_rcu_sheaves_barrier)
		native_rcu_sheaves_barrier();
	rcu_barrier();
}

void kvfree_rcu_barrier_on_cache(struct kmem_cache *s)
{
	if (native_rcu_sheaves_barrier_on_cache)
		native_rcu_sheaves_barrier_on_cache(s);
	rcu_barrier();
}

void kvfree(const void *addr)
{
	if (is_vmalloc_addr(addr))
		vfree(addr);
	else
		kfree(addr);
}
#endif
