/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the kernel's side of slab-native (kernel/, compiled by the kernel's build)
 * and the user's side (user/, compiled for the C library) know of each other. Plain
 * C types only: neither side sees the headers of the other.
 *
 * host_*() is what the user's side gives, native_*() what the kernel's side gives.
 */
#ifndef SLAB_NATIVE_ABI_H
#define SLAB_NATIVE_ABI_H

#define NATIVE_MAX_CPUS		64
#define NATIVE_MAX_NODES	8

/*
 * The kernel keeps its stack aligned to 8 bytes, compiled C for user space relies
 * on 16.
 */
#ifdef __KERNEL__
#define HOST
#else
#define HOST __attribute__((force_align_arg_pointer))
#define __noreturn __attribute__((noreturn))
#endif

/**
 * struct native_machine - the machine to be
 * @name: What it is called on the command line.
 * @nr_cpus: CPUs, evenly spread over the nodes, neighbours on one node.
 * @nr_nodes: Nodes.
 * @memory: A bit for each node with memory.
 */
struct native_machine {
	const char *name;
	unsigned int nr_cpus;
	unsigned int nr_nodes;
	unsigned int memory;
};

/**
 * struct native_stress - what the stress shall do
 * @seed: Of all random numbers.
 * @tasks: How many threads.
 * @ms: For how long.
 * @hotplug: Whether CPUs come and go.
 * @irqs: Whether interrupts come in between.
 */
struct native_stress {
	unsigned long seed;
	unsigned int tasks;
	unsigned int ms;
	int hotplug;
	int irqs;
};

/* Memory, time, output, the end. */
HOST void *host_map(unsigned long size, unsigned long align);
HOST void host_unmap(void *p, unsigned long size);
HOST void host_writable(void *start, unsigned long size);
HOST unsigned long long host_ns(void);
HOST void host_write(const char *text, unsigned long len);
HOST void __noreturn host_exit(int status);
HOST unsigned int host_has_cpu_feature(unsigned int word);

/* Threads. A CPU is something that a thread holds while it runs kernel code. */
HOST void host_set_gs(unsigned long base);
HOST void host_cpu_acquire(unsigned int cpu);
HOST void host_cpu_release(unsigned int cpu);
HOST int host_cpu_wanted(unsigned int cpu);
HOST void host_yield(void);
HOST void host_nap(void);
HOST void *host_thread_start(void (*fn)(void *arg), void *arg, int place);
HOST void host_thread_join(void *thread);

/* Interrupts: signals, sent to threads at random times. */
HOST void host_irqs_start(unsigned int us);
HOST void host_irqs_stop(void);
HOST void host_irqs_here(int on);

/* For sanitizers: what may be accessed, and who has seen what others did. */
HOST void host_san_poison(void *p, unsigned long size);
HOST void host_san_unpoison(void *p, unsigned long size);
HOST void host_san_acquire(void *p);
HOST void host_san_release(void *p);

/* Run fn(arg); host_throw() in it ends it. Returns whether it was ended so. */
HOST int host_catch(void (*fn)(void *arg), void *arg);
HOST void __noreturn host_throw(void);

/* The kernel's side. */
void native_boot(const struct native_machine *machine, unsigned long seed);
int native_bug(unsigned long ip);
void native_irq(void);
int native_bench(const char *groups, const char *match, unsigned int rounds,
		 unsigned int objects);
int native_stress(const struct native_stress *stress);
int native_barn(unsigned int rounds, unsigned int steps);

#endif /* SLAB_NATIVE_ABI_H */
