// SPDX-License-Identifier: GPL-2.0
/*
 * One system call in which an allocation fails, the Nth one (/proc/self/fail-nth): such as a
 * shell leaves to other programs, of which it would be others that fail
 *
 *   fail_nth N load FILE [PARAMETERS]
 *   fail_nth N unload NAME
 *   fail_nth N mkdir DIRECTORY
 *   fail_nth N rmdir DIRECTORY
 *
 * Prints how many more allocations there would have to be for that, which is 0 if one has
 * failed, and the error, 0 for none. Its own status is about whether this is so.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *image;
static long image_size;
static const char *what, *params = "";

/* Not by the file: reading it is a matter of other parts of the kernel, which would fail. */
static void read_image(void)
{
	FILE *file = fopen(what, "r");

	if (!file || fseek(file, 0, SEEK_END))
		err(2, "%s", what);
	image_size = ftell(file);
	rewind(file);
	image = malloc(image_size);
	if (!image || fread(image, 1, image_size, file) != (size_t)image_size)
		err(2, "%s", what);
	fclose(file);
}

static int load(void)
{
	return syscall(SYS_init_module, image, image_size, params);
}

static int unload(void)
{
	return syscall(SYS_delete_module, what, O_NONBLOCK);
}

static int make(void)
{
	return mkdir(what, 0755);
}

static int removal(void)
{
	return rmdir(what);
}

static const struct call {
	const char *name;
	int (*fn)(void);
} calls[] = {
	{ "load", load },
	{ "unload", unload },
	{ "mkdir", make },
	{ "rmdir", removal },
	{ }
};

static const struct call *find(const char *name)
{
	const struct call *call;

	for (call = calls; call->name; call++)
		if (!strcmp(name, call->name))
			return call;
	errx(2, "no such call: %s", name);
}

int main(int argc, char **argv)
{
	const struct call *call;
	char left[16] = "";
	int nth, error = 0;

	if (argc < 4)
		errx(2, "usage: fail_nth N load|unload|mkdir|rmdir WHAT [PARAMETERS]");
	call = find(argv[2]);
	what = argv[3];
	if (argc > 4)
		params = argv[4];
	if (call->fn == load)
		read_image();
	nth = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	if (nth < 0 || write(nth, argv[1], strlen(argv[1])) < 0)
		err(2, "/proc/thread-self/fail-nth");
	if (call->fn())
		error = errno;
	if (pread(nth, left, sizeof(left) - 1, 0) <= 0 || pwrite(nth, "0", 1, 0) < 0)
		err(2, "/proc/thread-self/fail-nth");
	printf("%d %d\n", atoi(left), error);
	return 0;
}
