// SPDX-License-Identifier: GPL-2.0
/*
 * How long system calls take that use the slab allocator a lot: those that make
 * processes and mappings, and those that read directly from a file. Prints lines of
 * JSON as lib/tests/slab_bench_kunit.c does:
 *
 *   {"group":"syscalls","case":"fork","round":0,"objects":500,"ns":91234567,"slab_kb":9876}
 *
 * "objects" is how many times, "ns" how long that took altogether, in user space and
 * in the kernel. Where QEMU counts instructions for time, it is how many of them.
 *
 *   sys_bench [-r ROUNDS] [-n TIMES] [-j PROCESSES] [-f FILE] [CASE...]
 *
 * With more than one of PROCESSES, each on a CPU of its own if there are enough, all
 * do the same at once. "group" is "processes" then, and "objects" and "ns" are those of
 * all together.
 *
 * FILE, direct/file by default, is what "direct read" reads from, 4 KiB at a time: 64
 * KiB at least, on a file system where direct reads go through iomap, as on ext4, and
 * on a device in memory, as on /dev/ram0.
 *
 * To be linked statically, so that execve() has little else to do, and to be run
 * from a file system in memory.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdnoreturn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define MANY		1000		/* mappings */
#define LARGE		(128UL << 20)
#define MAX_JOBS	1024
#define DIRECT_SIZE	4096		/* of one read */
#define DIRECT_READS	16		/* of a file, one after the other */

static long page_size;
static char *arena;			/* MANY mappings and as many gaps */
static int file;
static const char *direct_name = "direct/file";
static char *direct_buffer;
static pthread_barrier_t *barrier;	/* of all processes */

static noreturn void die(const char *what)
{
	fprintf(stderr, "sys_bench: %s: %s\n", what, strerror(errno));
	exit(1);
}

static unsigned long long now(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_MONOTONIC, &ts))
		die("clock_gettime");
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static void *map(void *where, size_t size, int flags, int fd)
{
	void *p = mmap(where, size, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

static void unmap(void *p, size_t size)
{
	if (munmap(p, size))
		die("munmap");
}

static void protect(void *p, size_t size, int prot)
{
	if (mprotect(p, size, prot))
		die("mprotect");
}

/* Mappings that cannot be merged: every other page of a range. */
static void make_many(void)
{
	long i;

	arena = map(NULL, 2 * MANY * page_size, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	for (i = 0; i < MANY; i++)
		unmap(arena + (2 * i + 1) * page_size, page_size);
}

static void make_file(void)
{
	file = memfd_create("sys_bench", 0);
	if (file < 0 || ftruncate(file, LARGE))
		die("memfd_create");
}

static void nothing(void) { }

static void do_getppid(void)
{
	syscall(SYS_getppid);
}

static void do_mmap_anonymous(void)
{
	unmap(map(NULL, LARGE, MAP_PRIVATE | MAP_ANONYMOUS, -1), LARGE);
}

static void do_mmap_file(void)
{
	unmap(map(NULL, LARGE, MAP_SHARED, file), LARGE);
}

static void do_mmap_touch(void)
{
	char *p = map(NULL, page_size, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	memset(p, 1, page_size);
	unmap(p, page_size);
}

/* 16 mappings at once: nodes of the tree are split and joined again. */
static void do_mmap_batch(void)
{
	char *p[16];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(p); i++)
		p[i] = map(NULL, page_size, i & 1 ? MAP_SHARED : MAP_PRIVATE, file);
	for (i = 0; i < ARRAY_SIZE(p); i++)
		unmap(p[i], page_size);
}

/* In three and back to one. */
static void do_mprotect(void)
{
	protect(arena + 2 * page_size, page_size, PROT_READ);
	protect(arena + 2 * page_size, page_size, PROT_READ | PROT_WRITE);
}

static void make_three(void)
{
	arena = map(NULL, 5 * page_size, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

/* A hole in one mapping, that is closed again. */
static void do_hole(void)
{
	unmap(arena + 2 * page_size, page_size);
	map(arena + 2 * page_size, page_size, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
}

/* A mapping over a hundred others. */
static void do_mmap_over_many(void)
{
	long i;

	map(arena, 200 * page_size, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
	for (i = 0; i < 100; i++)
		unmap(arena + (2 * i + 1) * page_size, page_size);
}

static void do_brk(void)
{
	char *end = sbrk(0);

	if (brk(end + 64 * page_size) || brk(end))
		die("brk");
}

static void child_of(pid_t pid)
{
	int status;

	if (pid < 0)
		die("fork");
	if (waitpid(pid, &status, 0) != pid || status)
		die("waitpid");
}

static void do_fork(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	child_of(pid);
}

static void do_execve(void)
{
	char *const argv[] = { "sys_bench", "--exit", NULL };
	char *const envp[] = { NULL };
	pid_t pid = fork();

	if (!pid) {
		execve("/proc/self/exe", argv, envp);
		_exit(1);
	}
	child_of(pid);
}

static void die_direct(const char *why)
{
	fprintf(stderr, "sys_bench: %s, which \"direct read\" reads, %s\n", direct_name, why);
	exit(1);
}

/* A file in tmpfs opens, but is not read directly. */
static void make_direct(void)
{
	struct statfs fs;
	unsigned int type;
	struct stat st;

	file = open(direct_name, O_RDONLY | O_DIRECT);
	if (file < 0 && errno == ENOENT)
		die_direct("does not exist: is its file system mounted? See -f");
	if (file < 0 && errno == EINVAL)
		die_direct("is on a file system without O_DIRECT");
	if (file < 0 || fstat(file, &st) || fstatfs(file, &fs))
		die_direct(strerror(errno));
	/* f_type is signed, and in 32 bits RAMFS_MAGIC is not. */
	type = fs.f_type;
	if (type == TMPFS_MAGIC || type == RAMFS_MAGIC)
		die_direct("is in a tmpfs: is its file system mounted?");
	if (st.st_size < DIRECT_SIZE * DIRECT_READS)
		die_direct("is smaller than 64 KiB");
	direct_buffer = map(NULL, DIRECT_SIZE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	memset(direct_buffer, 1, DIRECT_SIZE);
}

static void do_direct_read(void)
{
	static unsigned int i;
	off_t at = i++ % DIRECT_READS * DIRECT_SIZE;

	if (pread(file, direct_buffer, DIRECT_SIZE, at) != DIRECT_SIZE)
		die(direct_name);
}

static const struct bench {
	const char *name;
	void (*prepare)(void);
	void (*run)(void);
	unsigned int share;		/* of the number of times, 1 / share of it */
} benches[] = {
	{ "getppid", nothing, do_getppid, 1 },
	{ "mmap and munmap, anonymous", nothing, do_mmap_anonymous, 1 },
	{ "mmap and munmap, file", make_file, do_mmap_file, 1 },
	{ "mmap and munmap, touched", nothing, do_mmap_touch, 1 },
	{ "mmap and munmap, 16 at once", make_file, do_mmap_batch, 10 },
	{ "mmap and munmap, 1000 others", make_many, do_mmap_anonymous, 1 },
	{ "mmap over 100 mappings", make_many, do_mmap_over_many, 100 },
	{ "munmap in the middle", make_three, do_hole, 1 },
	{ "mprotect in the middle", make_three, do_mprotect, 1 },
	{ "brk", nothing, do_brk, 1 },
	{ "fork", nothing, do_fork, 10 },
	{ "fork, 1000 mappings", make_many, do_fork, 100 },
	{ "fork and execve", nothing, do_execve, 20 },
	{ "direct read", make_direct, do_direct_read, 1 },
};

static void make_barrier(unsigned int jobs)
{
	pthread_barrierattr_t attr;

	barrier = map(NULL, sizeof(*barrier), MAP_SHARED | MAP_ANONYMOUS, -1);
	errno = pthread_barrierattr_init(&attr);
	if (!errno)
		errno = pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	if (!errno)
		errno = pthread_barrier_init(barrier, &attr, jobs);
	if (errno)
		die("pthread_barrier_init");
}

/* The JOB-th of the CPUs that there are, beginning anew if there are not enough. */
static void stay_on_cpu(unsigned int job)
{
	cpu_set_t all, one;
	int cpu;

	if (sched_getaffinity(0, sizeof(all), &all))
		die("sched_getaffinity");
	job %= CPU_COUNT(&all);
	for (cpu = 0; !CPU_ISSET(cpu, &all) || job--; cpu++)
		;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		die("sched_setaffinity");
}

/* What all slab caches have. */
static unsigned long slab_kb(void)
{
	unsigned long kb = 0;
	char line[100];
	FILE *f = fopen("/proc/meminfo", "r");

	if (!f)
		die("/proc/meminfo");
	while (fgets(line, sizeof(line), f) && sscanf(line, "Slab: %lu kB", &kb) != 1)
		;
	fclose(f);
	return kb;
}

/* In a process of its own, which starts with few mappings. */
static void run_bench(const struct bench *b, int rounds, unsigned long times,
		      unsigned int job, unsigned int jobs)
{
	unsigned long long start, end;
	unsigned long i;
	int round;

	if (jobs > 1)
		stay_on_cpu(job);
	times = times / b->share ?: 1;
	b->prepare();
	for (i = 0; i < times / 2 + 1; i++)
		b->run();
	for (round = 0; round < rounds; round++) {
		pthread_barrier_wait(barrier);
		start = now();
		for (i = 0; i < times; i++)
			b->run();
		pthread_barrier_wait(barrier);
		end = now();
		if (job)
			continue;
		printf("{\"group\":\"%s\",\"case\":\"%s\",\"round\":%d,",
		       jobs > 1 ? "processes" : "syscalls", b->name, round);
		printf("\"objects\":%lu,\"ns\":%llu,", jobs * times, end - start);
		printf("\"slab_kb\":%lu}\n", slab_kb());
		fflush(stdout);
	}
}

/* Without one of them, the others would wait at the barrier for ever. */
static int end_jobs(void)
{
	signal(SIGTERM, SIG_IGN);
	kill(0, SIGTERM);
	return 1;
}

/* In a process group of its own. Returns its exit status. */
static int run_jobs(const struct bench *b, int rounds, unsigned long times,
		    unsigned int jobs)
{
	unsigned int job;
	int status;

	if (setpgid(0, 0))
		die("setpgid");
	make_barrier(jobs);
	for (job = 0; job < jobs; job++) {
		pid_t pid = fork();

		if (!pid) {
			run_bench(b, rounds, times, job, jobs);
			_exit(0);
		}
		if (pid < 0) {
			fprintf(stderr, "sys_bench: fork: %s\n", strerror(errno));
			return end_jobs();
		}
	}
	for (job = 0; job < jobs; job++) {
		if (wait(&status) < 0)
			die("wait");
		if (!status)
			continue;
		if (WIFSIGNALED(status))
			fprintf(stderr, "sys_bench: %s: signal %d\n", b->name,
				WTERMSIG(status));
		return end_jobs();
	}
	return 0;
}

/*
 * Where mappings lie, and so what page tables they share with others, has more of
 * an effect than what is to be measured: the same addresses each time.
 */
static void stay_in_place(char **argv)
{
	int now = personality(0xffffffff);

	if (now < 0 || now & ADDR_NO_RANDOMIZE)
		return;
	if (personality(now | ADDR_NO_RANDOMIZE) < 0)
		die("personality");
	execv("/proc/self/exe", argv);
	die("execv");
}

static bool chosen(const char *name, int argc, char **argv)
{
	int i;

	for (i = 0; i < argc; i++)
		if (!strcmp(name, argv[i]))
			return true;
	return !argc;
}

static int show_usage(void)
{
	fprintf(stderr,
		"usage: sys_bench [-r ROUNDS] [-n TIMES] [-j PROCESSES] [-f FILE] [CASE...]\n");
	return 2;
}

int main(int argc, char **argv)
{
	unsigned long times = 10000;
	unsigned int jobs = 1;
	int rounds = 5, opt;
	size_t i;

	if (argc == 2 && !strcmp(argv[1], "--exit"))
		return 0;
	stay_in_place(argv);
	while ((opt = getopt(argc, argv, "r:n:j:f:")) != -1) {
		switch (opt) {
		case 'r':
			rounds = atoi(optarg);
			break;
		case 'n':
			times = strtoul(optarg, NULL, 0);
			break;
		case 'j':
			jobs = strtoul(optarg, NULL, 0);
			break;
		case 'f':
			direct_name = optarg;
			break;
		default:
			return show_usage();
		}
	}
	if (rounds < 1 || !times || !jobs || jobs > MAX_JOBS)
		return show_usage();
	page_size = sysconf(_SC_PAGESIZE);
	for (i = 0; i < ARRAY_SIZE(benches); i++) {
		pid_t pid;
		int status;

		if (!chosen(benches[i].name, argc - optind, argv + optind))
			continue;
		pid = fork();
		if (!pid)
			_exit(run_jobs(&benches[i], rounds, times, jobs));
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			die("fork");
		if (status)
			return 1;	/* it has said why */
	}
	return 0;
}
