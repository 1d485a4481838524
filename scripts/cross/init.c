// SPDX-License-Identifier: GPL-2.0
/*
 * /init of a guest of another architecture, which has nothing else: KUnit has run when
 * this begins. Says what machine it is on, forks and makes files on all CPUs, takes each
 * CPU but the first offline and back, has all slab caches checked and shrunk, and says who served
 * them. What it prints, cross.sh reads; an error ends it without the last line.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLAB "/sys/kernel/slab"
#define FORKS 25		/* on each CPU, at once */
#define FILES 200		/* made by each of them */

static void end(void)
{
	fflush(stdout);
	sync();
	reboot(RB_POWER_OFF);
	_exit(1);
}

static void die(const char *what, const char *of)
{
	printf("cross: error: %s %s: %s\n", what, of, strerror(errno));
	end();
}

static void mount_at(const char *type, const char *dir)
{
	mkdir(dir, 0755);
	if (mount(type, dir, type, 0, NULL))
		die("mount", dir);
}

/* Of a list like 0-3,5. */
static int count_of_list(const char *path)
{
	int n = 0, from, to;
	char sep;
	FILE *f = fopen(path, "r");

	if (!f)
		return 1;	/* no nodes: then it is one */
	while (fscanf(f, "%d", &from) == 1) {
		to = from;
		sep = fgetc(f);
		if (sep == '-' && fscanf(f, "%d", &to) == 1)
			sep = fgetc(f);
		n += to - from + 1;
		if (sep != ',')
			break;
	}
	fclose(f);
	return n;
}

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	ssize_t done;

	if (fd < 0)
		return -1;
	done = write(fd, text, strlen(text));
	close(fd);
	return done < 0 ? -1 : 0;
}

static const char *atomics(void)
{
#ifdef __aarch64__
	return getauxval(AT_HWCAP) & (1 << 8) ? "LSE" : "LL/SC";	/* HWCAP_ATOMICS */
#elif defined(__s390x__)
	return "cs";
#else
	return "LL/SC";
#endif
}

static void make_files(int cpu, int child)
{
	cpu_set_t set;
	char path[64];
	int i, fd;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		_exit(1);
	for (i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "/tmp/%d-%d-%d", cpu, child, i);
		fd = open(path, O_CREAT | O_WRONLY, 0600);
		if (fd < 0 || write(fd, path, sizeof(path)) != sizeof(path))
			_exit(2);
		close(fd);
	}
	/* Some are freed on another CPU. */
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	sched_setaffinity(0, sizeof(set), &set);
	for (i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "/tmp/%d-%d-%d", cpu, child, i);
		if (unlink(path))
			_exit(3);
	}
	_exit(0);
}

static void load(int cpus)
{
	int i, status;

	for (i = 0; i < cpus * FORKS; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork", "");
		if (!pid)
			make_files(i % cpus, i);
	}
	while (wait(&status) > 0) {
		if (status) {
			errno = 0;
			die("load", "failed");
		}
	}
}

static void hotplug(int cpus)
{
	char path[64];
	int i;

	for (i = 1; i < cpus; i++) {
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", i);
		if (write_file(path, "0") || write_file(path, "1"))
			die("hotplug", path);
	}
}

static unsigned long long number(const char *cache, const char *file)
{
	unsigned long long value = 0;
	char path[300];
	FILE *f;

	snprintf(path, sizeof(path), SLAB "/%s/%s", cache, file);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%llu", &value) != 1)
		die("read", path);
	fclose(f);
	return value;
}

/* Merged caches appear as links, too. */
static void caches(void)
{
	unsigned long long fast = 0, slow = 0, held = 0;
	struct dirent *d;
	char path[300];
	DIR *dir = opendir(SLAB);

	if (!dir)
		die("open", SLAB);
	while ((d = readdir(dir))) {
		if (d->d_type == DT_LNK || d->d_name[0] == '.')
			continue;
		fast += number(d->d_name, "alloc_fastpath");
		slow += number(d->d_name, "alloc_slowpath");
		snprintf(path, sizeof(path), SLAB "/%s/validate", d->d_name);
		/* only where it is debugged can it be */
		if (write_file(path, "1") && errno != EINVAL)
			die("validate", path);
		snprintf(path, sizeof(path), SLAB "/%s/shrink", d->d_name);
		if (write_file(path, "1"))
			die("shrink", path);
		/* those of sheaves have none */
		snprintf(path, sizeof(path), SLAB "/%s/sheaf_objects", d->d_name);
		if (!access(path, R_OK))
			held += number(d->d_name, "sheaf_objects");
	}
	closedir(dir);
	printf("cross: allocations sheaves=%llu slabs=%llu held=%llu\n", fast, slow, held);
}

int main(void)
{
	int cpus;

	setvbuf(stdout, NULL, _IOLBF, 0);
	mount_at("proc", "/proc");
	mount_at("sysfs", "/sys");
	mount_at("tmpfs", "/tmp");
	cpus = count_of_list("/sys/devices/system/cpu/online");
	printf("cross: machine cpus=%d nodes=%d page=%ld bits=%zu endian=%s atomics=%s\n",
	       cpus, count_of_list("/sys/devices/system/node/online"), sysconf(_SC_PAGESIZE),
	       8 * sizeof(long), __BYTE_ORDER == __LITTLE_ENDIAN ? "little" : "big", atomics());
	load(cpus);
	hotplug(cpus);
	load(cpus);
	caches();
	printf("cross: end\n");
	end();
}
