// SPDX-License-Identifier: GPL-2.0
/*
 * Run a program and say on descriptor 3 how many nanoseconds it took.
 *
 *   meter time|busy REST COMMAND...
 *
 * `time' is from its start to its end. `busy' is for a guest with one CPU whose clock
 * counts instructions: REST milliseconds more belong to it, in which is done what the
 * program has left to others: writing back, what waits for RCU, batches of kfree_rcu().
 * What the CPU is idle meanwhile does not count, by the kernel's own books, as the module
 * idle shows them, to the microsecond. REST passes before, too, so that nothing is left over
 * from others. Ends as the program does.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define IDLE "/sys/module/idle/parameters/us"

extern char **environ;

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *fmt, ...)
{
	va_list args;

	fputs("meter: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	exit(125);
}

static unsigned long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/* What the CPU was not idle since it was booted. */
static unsigned long long busy(void)
{
	char text[32];
	ssize_t n;
	int fd = open(IDLE, O_RDONLY);

	if (fd < 0)
		die("%s: %s", IDLE, strerror(errno));
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		die("%s cannot be read", IDLE);
	close(fd);
	text[n] = 0;
	return now() - 1000 * strtoull(text, NULL, 10);
}

static void rest(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	sync();
	while (nanosleep(&t, &t))
		;
}

static int run(char **argv)
{
	pid_t pid;
	int status;
	int err = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);

	if (err)
		die("%s: %s", argv[0], strerror(err));
	if (waitpid(pid, &status, 0) != pid)
		die("wait: %s", strerror(errno));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
	unsigned long long before, after;
	long ms;
	int ret;

	if (argc < 4 || (strcmp(argv[1], "time") && strcmp(argv[1], "busy")))
		die("usage: meter time|busy REST COMMAND...");
	/* the program shall not have it */
	if (fcntl(3, F_SETFD, FD_CLOEXEC))
		die("descriptor 3 is not open");
	ms = atol(argv[2]);
	rest(ms);
	if (!strcmp(argv[1], "busy")) {
		if (sysconf(_SC_NPROCESSORS_ONLN) != 1)
			die("there must be one CPU");
		before = busy();
		ret = run(argv + 3);
		rest(ms);
		after = busy();
		if (after <= before)
			die("the kernel says that it was idle for longer than there was time");
	} else {
		before = now();
		ret = run(argv + 3);
		after = now();
	}
	dprintf(3, "%llu\n", after - before);
	return ret;
}
