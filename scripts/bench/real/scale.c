// SPDX-License-Identifier: GPL-2.0
/*
 * Tasks that all do the same small thing so and so many times, threads of one process
 * or processes: the cases of will-it-scale that allocators are judged by, written anew
 * from what their names say, with a number of operations instead of a time, so that
 * instructions can be compared.
 *
 *   scale -t THREADS | -p PROCESSES  -n TIMES CASE
 *
 * All start when all are there. Prints how many operations were done, all tasks
 * together; fails when one of them does.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LARGE	(128UL << 20)
/* Little enough that 32 tasks have it at once in a guest of 2 GB. */
#define SMALL	(4UL << 20)

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static long page_size;

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *fmt, ...)
{
	int err = errno;
	va_list args;

	fputs("scale: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, ": %s\n", strerror(err));
	exit(1);
}

static char *map(size_t size, int flags, int fd)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (p == MAP_FAILED)
		die("mmap of %zu bytes", size);
	return p;
}

static void unmap(char *p, size_t size)
{
	if (munmap(p, size))
		die("munmap");
}

/* A large anonymous mapping is made and removed, untouched. */
static void mmap1(unsigned long times)
{
	while (times--)
		unmap(map(LARGE, MAP_PRIVATE | MAP_ANONYMOUS, -1), LARGE);
}

/* The same of a file. */
static void mmap2(unsigned long times)
{
	char name[] = "/tmp/scale.XXXXXX";
	int fd = mkstemp(name);

	if (fd < 0)
		die("mkstemp");
	if (unlink(name) || ftruncate(fd, LARGE))
		die("%s", name);
	while (times--)
		unmap(map(LARGE, MAP_SHARED, fd), LARGE);
	close(fd);
}

/* The heap grows by a page and shrinks again. Threads have one heap together. */
static void brk1(unsigned long times)
{
	static char *end;
	char *now = sbrk(0), *none = NULL;

	__atomic_compare_exchange_n(&end, &none, now, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	now = __atomic_load_n(&end, __ATOMIC_RELAXED);
	while (times--) {
		if (brk(now + page_size) || brk(now))
			die("brk");
	}
}

/* Pages are touched for the first time; an operation is a page. */
static void page_fault1(unsigned long times)
{
	while (times) {
		char *p = map(SMALL, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		size_t at;

		for (at = 0; at < SMALL && times; at += page_size, times--)
			p[at] = 1;
		unmap(p, SMALL);
	}
}

/* A page is touched and dropped, of which all CPUs that run the process have to know. */
static void tlb_flush2(unsigned long times)
{
	char *p = map(SMALL, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	size_t at = 0;

	for (; times--; at = (at + page_size) % SMALL) {
		p[at] = 1;
		if (madvise(p + at, page_size, MADV_DONTNEED))
			die("madvise");
	}
	unmap(p, SMALL);
}

static const struct scale_case {
	const char *name;
	void (*run)(unsigned long times);
} cases[] = {
	{ "mmap1", mmap1 },
	{ "mmap2", mmap2 },
	{ "brk1", brk1 },
	{ "page_fault1", page_fault1 },
	{ "tlb_flush2", tlb_flush2 },
};

static const struct scale_case *chosen;
static unsigned long nr_times;
/* Of processes, too. */
static pthread_barrier_t *start;

static void *task(void *unused)
{
	pthread_barrier_wait(start);
	chosen->run(nr_times);
	return NULL;
}

static void run_threads(unsigned long nr)
{
	pthread_t threads[nr];
	unsigned long i;

	for (i = 0; i < nr; i++) {
		errno = pthread_create(&threads[i], NULL, task, NULL);
		if (errno)
			die("thread %lu", i);
	}
	for (i = 0; i < nr; i++)
		pthread_join(threads[i], NULL);
}

static void run_processes(unsigned long nr)
{
	unsigned long i;
	int status;

	for (i = 0; i < nr; i++) {
		switch (fork()) {
		case -1:
			die("process %lu", i);
		case 0:
			task(NULL);
			_exit(0);
		}
	}
	for (i = 0; i < nr; i++) {
		if (wait(&status) < 0)
			die("wait");
		if (status) {
			errno = ECHILD;
			die("a process failed, status %#x", status);
		}
	}
}

static void __attribute__((noreturn)) usage(void)
{
	size_t i;

	fputs("usage: scale -t THREADS | -p PROCESSES -n TIMES CASE, one of", stderr);
	for (i = 0; i < ARRAY_SIZE(cases); i++)
		fprintf(stderr, " %s", cases[i].name);
	fputc('\n', stderr);
	exit(2);
}

static unsigned long number(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (!n || *end)
		usage();
	return n;
}

static void make_barrier(unsigned long nr)
{
	pthread_barrierattr_t attr;

	start = mmap(NULL, sizeof(*start), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	if (start == MAP_FAILED)
		die("mmap");
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	errno = pthread_barrier_init(start, &attr, nr);
	if (errno)
		die("barrier");
}

int main(int argc, char **argv)
{
	unsigned long threads = 0, processes = 0;
	size_t i;
	int opt;

	while ((opt = getopt(argc, argv, "n:p:t:")) != -1) {
		switch (opt) {
		case 'n':
			nr_times = number(optarg);
			break;
		case 'p':
			processes = number(optarg);
			break;
		case 't':
			threads = number(optarg);
			break;
		default:
			usage();
		}
	}
	if (optind + 1 != argc || !nr_times || !threads == !processes)
		usage();
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		if (!strcmp(cases[i].name, argv[optind]))
			chosen = &cases[i];
	}
	if (!chosen)
		usage();
	page_size = sysconf(_SC_PAGESIZE);
	make_barrier(threads + processes);
	if (threads)
		run_threads(threads);
	else
		run_processes(processes);
	printf("%lu operations\n", (threads + processes) * nr_times);
	return 0;
}
