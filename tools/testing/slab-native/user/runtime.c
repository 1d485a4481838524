// SPDX-License-Identifier: GPL-2.0
/*
 * The user's side of slab-native: what abi.h says the host gives. Memory, threads,
 * CPUs as locks, signals as interrupts.
 */

#define _GNU_SOURCE
#include <cpuid.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <asm/prctl.h>

#include "../abi.h"
#include "runtime.h"

static __thread volatile int irqs_on;	/* may this thread be interrupted? */

void die(const char *what)
{
	fprintf(stderr, "slab-native: %s: %s\n", what, strerror(errno));
	exit(2);
}

/*
 * Memory, zeroed. Big pieces in huge pages if there are any, as the kernel maps its
 * memory.
 */

void *host_map(unsigned long size, unsigned long align)
{
	unsigned long room = align > 4096 ? size + align : size;
	char *p = mmap(NULL, room, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *start;

	if (p == MAP_FAILED)
		die("mmap");
	if (align <= 4096)
		return p;
	start = (char *)(((unsigned long)p + align - 1) & -align);
	if (start > p)
		munmap(p, start - p);
	if (p + room > start + size)
		munmap(start + size, p + room - start - size);
	madvise(start, size, MADV_HUGEPAGE);
	return start;
}

void host_unmap(void *p, unsigned long size)
{
	munmap(p, size);
}

void host_writable(void *start, unsigned long size)
{
	unsigned long from = (unsigned long)start & -4096UL;
	unsigned long to = ((unsigned long)start + size + 4095) & -4096UL;

	if (mprotect((void *)from, to - from, PROT_READ | PROT_WRITE | PROT_EXEC))
		die("mprotect");
}

unsigned long long host_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

void host_write(const char *text, unsigned long len)
{
	int on = irqs_on;

	irqs_on = 0;
	fwrite(text, 1, len, stdout);
	irqs_on = on;
}

void host_exit(int status)
{
	fflush(stdout);
	_exit(status);
}

/* CLEARCPUID=NUMBER: one that this processor is to be without. */
static unsigned int cleared_cpu_feature(unsigned int word)
{
	const char *number = getenv("CLEARCPUID");
	unsigned int feature = number ? atoi(number) : 0;

	return number && feature / 32 == word ? 1U << feature % 32 : 0;
}

/* The words of the kernel's feature bits that are the bits of cpuid. */
static unsigned int word_of_cpuid(unsigned int word)
{
	unsigned int a = 0, b = 0, c = 0, d = 0;

	switch (word) {
	case 0:
		__get_cpuid(1, &a, &b, &c, &d);
		return d;
	case 4:
		__get_cpuid(1, &a, &b, &c, &d);
		return c;
	case 9:
		__get_cpuid_count(7, 0, &a, &b, &c, &d);
		return b;
	case 18:
		__get_cpuid_count(7, 0, &a, &b, &c, &d);
		return d;
	}
	return 0;
}

unsigned int host_has_cpu_feature(unsigned int word)
{
	return word_of_cpuid(word) & ~cleared_cpu_feature(word);
}

/*
 * CPUs: tickets, so that nobody starves. Who waits does so without a processor.
 */

struct cpu {
	unsigned int next;
	unsigned int serving;
	char pad[120];		/* two cache lines to each */
};

static struct cpu cpus[NATIVE_MAX_CPUS];

void host_set_gs(unsigned long base)
{
	if (syscall(SYS_arch_prctl, ARCH_SET_GS, base))
		die("arch_prctl(ARCH_SET_GS)");
}

void host_cpu_acquire(unsigned int cpu)
{
	unsigned int ticket = __atomic_fetch_add(&cpus[cpu].next, 1, __ATOMIC_ACQ_REL);

	while (__atomic_load_n(&cpus[cpu].serving, __ATOMIC_ACQUIRE) != ticket)
		sched_yield();
}

void host_cpu_release(unsigned int cpu)
{
	__atomic_fetch_add(&cpus[cpu].serving, 1, __ATOMIC_ACQ_REL);
}

int host_cpu_wanted(unsigned int cpu)
{
	return __atomic_load_n(&cpus[cpu].next, __ATOMIC_RELAXED) -
	       __atomic_load_n(&cpus[cpu].serving, __ATOMIC_RELAXED) > 1;
}

void host_yield(void)
{
	sched_yield();
}

void host_nap(void)
{
	usleep(50);
}

/*
 * Threads, on the processors that the program may use, in turn
 */

static cpu_set_t processors;

void runtime_pin(int place)
{
	int nr = CPU_COUNT(&processors), cpu;
	cpu_set_t one;

	place %= nr;
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &processors) && !place--)
			break;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

/*
 * Interrupts: a thread sends signals to the others, one after the other. They count
 * only while the receiver runs kernel code.
 */

#define MAX_TARGETS	128

static pthread_mutex_t targets_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t targets[MAX_TARGETS];
static unsigned int nr_targets;
static pthread_t sender;
static volatile int sending;
static unsigned int interval_us;

static int add_target(void)
{
	int good;

	pthread_mutex_lock(&targets_lock);
	good = nr_targets < MAX_TARGETS;
	if (good)
		targets[nr_targets++] = pthread_self();
	pthread_mutex_unlock(&targets_lock);
	return good;
}

static void remove_target(void)
{
	unsigned int i;

	pthread_mutex_lock(&targets_lock);
	for (i = 0; i < nr_targets; i++)
		if (pthread_equal(targets[i], pthread_self()))
			targets[i] = targets[--nr_targets];
	pthread_mutex_unlock(&targets_lock);
}

void host_irqs_here(int on)
{
	irqs_on = on;
}

HOST static void on_irq(int sig)
{
	int err = errno;

	if (irqs_on)
		native_irq();
	errno = err;
}

static void *send_irqs(void *arg)
{
	unsigned int i = 0;

	while (sending) {
		usleep(interval_us);
		pthread_mutex_lock(&targets_lock);
		if (nr_targets)
			pthread_kill(targets[i++ % nr_targets], SIGUSR1);
		pthread_mutex_unlock(&targets_lock);
	}
	return NULL;
}

void host_irqs_start(unsigned int us)
{
	if (!us)
		return;
	interval_us = us;
	sending = 1;
	if (pthread_create(&sender, NULL, send_irqs, NULL))
		die("pthread_create");
}

void host_irqs_stop(void)
{
	if (!sending)
		return;
	sending = 0;
	pthread_join(sender, NULL);
}

struct start {
	void (*fn)(void *arg);
	void *arg;
	int place;
};

/* Without interrupts. */
static void *thread_main(void *arg)
{
	struct start start = *(struct start *)arg;

	free(arg);
	if (!add_target())
		return NULL;
	runtime_pin(start.place);
	start.fn(start.arg);
	remove_target();
	return NULL;
}

void *host_thread_start(void (*fn)(void *arg), void *arg, int place)
{
	struct start *start = malloc(sizeof(*start));
	pthread_t thread;

	start->fn = fn;
	start->arg = arg;
	start->place = place;
	if (pthread_create(&thread, NULL, thread_main, start))
		die("pthread_create");
	return (void *)thread;
}

void host_thread_join(void *thread)
{
	pthread_join((pthread_t)thread, NULL);
}

/*
 * How long a cache line takes from one processor to the other and back, in tenths of
 * a nanosecond: a hypervisor may put two processors on one core today, and far away
 * from each other tomorrow, which is all that matters to what two threads share.
 */

#define PINGS	20000

static unsigned int ball;

static void *ping_main(void *arg)
{
	unsigned int i;

	runtime_pin(1);
	for (i = 1; i <= 2 * PINGS; i += 2) {
		while (__atomic_load_n(&ball, __ATOMIC_ACQUIRE) != i)
			__builtin_ia32_pause();
		__atomic_store_n(&ball, i + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static unsigned int ping_once(void)
{
	unsigned long long start = 0, took, best = -1ULL;
	pthread_t thread;
	unsigned int i;

	ball = 0;
	if (pthread_create(&thread, NULL, ping_main, NULL))
		die("pthread_create");
	for (i = 0; i < 2 * PINGS; i += 2) {
		/* the best of so many in a row: others may run in between */
		if (i % 1000 == 0) {
			took = host_ns() - start;
			if (i && took < best)
				best = took;
			start = host_ns();
		}
		__atomic_store_n(&ball, i + 1, __ATOMIC_RELEASE);
		while (__atomic_load_n(&ball, __ATOMIC_ACQUIRE) != i + 2)
			__builtin_ia32_pause();
	}
	pthread_join(thread, NULL);
	return best * 10 / 500;
}

unsigned int runtime_ping(void)
{
	return CPU_COUNT(&processors) < 2 ? 0 : ping_once();
}

/*
 * Exceptions
 */

static __thread jmp_buf catcher;

int host_catch(void (*fn)(void *arg), void *arg)
{
	if (setjmp(catcher))
		return 1;
	fn(arg);
	return 0;
}

void host_throw(void)
{
	longjmp(catcher, 1);
}

/* A ud2 of the kernel: WARN() goes on, BUG() does not. */
static void on_sigill(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	greg_t *ip = &uc->uc_mcontext.gregs[REG_RIP];

	if (native_bug(*ip)) {
		*ip += 2;
		return;
	}
	printf("slab-native: illegal instruction at %llx\n", *ip);
	host_exit(2);
}

static void on_sigsegv(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	printf("slab-native: signal %d at %llx, address %p\n", sig,
	       uc->uc_mcontext.gregs[REG_RIP], info->si_addr);
	host_exit(2);
}

static void on_alarm(int sig)
{
	static const char text[] = "slab-native: FAILED: hangs\n";

	if (write(STDOUT_FILENO, text, sizeof(text) - 1))
		_exit(1);
	_exit(1);
}

void runtime_init(void)
{
	struct sigaction sa = { .sa_flags = SA_SIGINFO | SA_NODEFER };

	sched_getaffinity(0, sizeof(processors), &processors);
	sa.sa_sigaction = on_sigill;
	sigaction(SIGILL, &sa, NULL);
	sa.sa_sigaction = on_sigsegv;
	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
	sigaction(SIGFPE, &sa, NULL);
	sa.sa_flags = SA_RESTART | SA_NODEFER;
	sa.sa_handler = on_irq;
	sigaction(SIGUSR1, &sa, NULL);
	sa.sa_handler = on_alarm;
	sigaction(SIGALRM, &sa, NULL);
	setvbuf(stdout, NULL, _IOLBF, 1 << 16);
}
