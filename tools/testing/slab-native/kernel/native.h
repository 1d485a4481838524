/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of the kernel's side share. */
#ifndef SLAB_NATIVE_H
#define SLAB_NATIVE_H

#include <linux/bug.h>
#include <linux/compiler.h>
#include <linux/init.h>
#include <linux/kobject.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/version.h>
#include <asm/alternative.h>

#include "../abi.h"

#define native_die(fmt, ...)						\
	do {								\
		pr_info("slab-native: " fmt "\n", ##__VA_ARGS__);	\
		host_exit(2);						\
	} while (0)

/* A thread, as the kernel's code sees it. */
struct native_task {
	struct task_struct task;	/* what current points at */
	int (*fn)(void *arg);
	void *arg;
	void *thread;
	int cpu;
	bool bound;			/* stays on its CPU when it sleeps */
	bool stop;
	bool has_stopped;
	u64 random;
	u64 irq_random;
};

struct native_task *native_current(void);
struct native_task *native_task_create(int (*fn)(void *arg), void *arg);
void native_task_start(struct native_task *t, int cpu);
void native_task_join(struct native_task *t);

/* The caller may be on another CPU afterwards. */
void native_sleep(void);
void native_sleep_long(void);
/* The caller is in no critical section of any kind: others may use the CPU. */
void native_safe_point(void);
void native_move(unsigned int cpu);
bool native_cpu_offline(unsigned int cpu);
void native_cpu_online(unsigned int cpu);
unsigned int native_nr_cpus(void);

extern unsigned int native_errors;	/* splats so far */
extern bool native_chaos;		/* whoever may sleep does so now and then */
extern bool native_isolates;	/* one of many CPUs is isolated */
u32 native_random(u32 below);
void native_run_delayed(unsigned int here);

long native_pages_in_use(void);
void native_pages_init(const struct native_machine *machine);
bool native_is_direct(const void *p);
unsigned long native_direct_size(void);

long native_percpu_in_use(void);

long native_rcu_pending(void);
unsigned long native_rcu_next(void);	/* the grace period for who begins to wait now */
unsigned long native_rcu_done(void);	/* the last one that is over */
void native_rcu_quiescent(unsigned int cpu);
void native_rcu_cpu_enters(unsigned int cpu);
void native_rcu_cpu_leaves(unsigned int cpu);
/* Wait until all callbacks queued so far have run. */
void native_rcu_wait(void);

void native_stress_irq(void);

int native_hotplug_callbacks(unsigned int cpu, bool up);
int native_memory_notify(unsigned long action, int node);
ssize_t native_sysfs_show(const char *cache, const char *file, char *buf);

/* What the linker knows. */
extern char __executable_start[], etext[];
extern char __start_percpu_data[], __stop_percpu_data[];
extern struct alt_instr __start_altinstructions[], __stop_altinstructions[];
extern struct bug_entry __start___bug_table[], __stop___bug_table[];
extern initcall_entry_t __start_initcallsearly[], __stop_initcallsearly[];
extern initcall_entry_t __start_initcalls4[], __stop_initcalls4[];
extern initcall_entry_t __start_initcalls6[], __stop_initcalls6[];
extern initcall_entry_t __start_initcalls7[], __stop_initcalls7[];
struct kunit_suite;
extern struct kunit_suite *__start_kunit_suites[], *__stop_kunit_suites[];

/* What the kernel has in headers that are its own: lib/vsprintf.c, mm/slab.h. */
extern bool no_hash_pointers;
void kmem_cache_init(void);

/*
 * What not every kernel has: NULL where it does not exist. kfree_rcu() may be the
 * allocator's, or else may ask it first.
 */
struct slab_sheaf;
void kvfree_rcu_init(void);
void kvfree_call_rcu_batched(struct rcu_head *head, void *ptr);
struct slab_sheaf *kmem_cache_prefill_sheaf(struct kmem_cache *s, gfp_t gfp,
					    unsigned int size);
void kmem_cache_return_sheaf(struct kmem_cache *s, gfp_t gfp,
			     struct slab_sheaf *sheaf);
void *kmem_cache_alloc_from_sheaf_noprof(struct kmem_cache *s, gfp_t gfp,
					 struct slab_sheaf *sheaf);
unsigned long kmem_cache_cached_objects(struct kmem_cache *s);
void sheaves_lock(void);
void sheaves_unlock(void);
int sheaves_resize(struct kmem_cache *s, unsigned int capacity);
int sheaves_set_barns(struct kmem_cache *s, int max_full, int max_empty);
void sheaves_set_feedback(struct kmem_cache *s, unsigned int feedback);
void sheaves_set_all_feedback(unsigned int feedback);
unsigned long sheaves_give_back(void);
bool sheaves_round(void);
void *kmalloc_nosheaf(size_t size, gfp_t gfp);
void kfree_nosheaf(void *p);
#pragma weak kmalloc_nosheaf
#pragma weak kfree_nosheaf
#pragma weak kvfree_rcu_init
#pragma weak __start_initcallsearly
#pragma weak __stop_initcallsearly
/* Headers that know these may have them as inline functions, hence the other names. */
void native_rcu_sheaf(struct rcu_head *head, void *object)
	asm("kfree_rcu_sheaf");
void native_rcu_sheaves_barrier(void)
	asm("kfree_rcu_sheaves_barrier");
void native_rcu_sheaves_barrier_on_cache(struct kmem_cache *s)
	asm("kfree_rcu_sheaves_barrier_on_cache");
#pragma weak native_rcu_sheaf
#pragma weak native_rcu_sheaves_barrier
#pragma weak native_rcu_sheaves_barrier_on_cache
#pragma weak kmem_cache_prefill_sheaf
#pragma weak kmem_cache_return_sheaf
#pragma weak kmem_cache_alloc_from_sheaf_noprof
#pragma weak kmem_cache_cached_objects
#pragma weak sheaves_lock
#pragma weak sheaves_unlock
#pragma weak sheaves_resize
#pragma weak sheaves_set_barns
#pragma weak sheaves_set_feedback
#pragma weak sheaves_set_all_feedback
#pragma weak sheaves_give_back
#pragma weak sheaves_round

/* sanitize.c: what files that are compiled with a sanitizer call instead. */
void *native_san_kmalloc_nosheaf(size_t size, gfp_t gfp);
void native_san_kfree_nosheaf(void *p);
void *native_san_kmalloc(size_t size, gfp_t gfp);
void *native_san_kmalloc_node(struct kmem_cache *s, gfp_t gfp, int node, size_t size);
void native_san_kfree(const void *p);
unsigned long native_san_spin_lock_irqsave(raw_spinlock_t *lock);
void native_san_spin_unlock_irqrestore(raw_spinlock_t *lock, unsigned long flags);

#endif /* SLAB_NATIVE_H */
