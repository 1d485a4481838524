// SPDX-License-Identifier: GPL-2.0
/*
 * slab-balance: what decides about the sizes of sheaves and barns, as a program
 *
 * mm/slab_balance.c is arithmetic: counters go in, limits come out. So it runs here, the
 * kernel's own source, and with it the source of its KUnit tests, which has a barn that is
 * nothing but numbers.
 *
 *	slab-balance			run the tests, and print them as KTAP
 *	slab-balance FILE		do what a trace says, and print what becomes of it
 *
 * A line of a trace is
 *
 *	MILLISECOND CACHE DEPTH TIMES
 *
 * at that time, DEPTH full sheaves of the cache, a number below 1000, are taken from the
 * barn and put back, so many TIMES. Lines are in order of time; # begins a comment. Every
 * two seconds an interval ends. For each cache whose barn's limit has changed in one, this
 * is told:
 *
 *	SECONDS CACHE LIMIT FULL SLABS
 *
 * how many full sheaves the barn accepts now, how many there are, and how many were
 * refilled from slabs or flushed to them so far. It goes on for ten intervals after the last
 * line. In the end, the sums: caches, the limits of all of them, full sheaves, slabs.
 */

#include "../../../mm/slab_balance.c"
#include "../../../lib/tests/slab_sheaf_balance_kunit.c"

#define CACHES		1000
#define AFTERWARDS	10

static struct model models[CACHES];
static bool used[CACHES];

static int run_tests(void)
{
	struct kunit_case *c;
	unsigned int n = 0, failed = 0;

	printf("KTAP version 1\n# %s\n", the_suite->name);
	for (c = the_suite->test_cases; c->run; c++) {
		struct kunit test = { };

		c->run(&test);
		free(test.memory);
		failed += !!test.failed;
		printf("%sok %u %s\n", test.failed ? "not " : "", ++n, c->name);
	}
	printf("1..%u\n", n);
	return !!failed;
}

static void end_interval(unsigned long ms)
{
	static unsigned int limits[CACHES];
	unsigned int i;

	for (i = 0; i < CACHES; i++) {
		struct model *m = &models[i];

		if (!used[i])
			continue;
		m->now = ms * HZ / 1000 - BALANCE_INTERVAL;
		model_end_interval(m);
		if (m->limit != (limits[i] ?: BALANCE_MIN_SHEAVES))
			printf("%lu %u %u %u %u\n", ms / 1000, i, m->limit, m->nr, m->slabs);
		limits[i] = m->limit;
	}
}

static void print_sums(void)
{
	unsigned int i, caches = 0, limits = 0, full = 0, slabs = 0;

	for (i = 0; i < CACHES; i++) {
		if (!used[i])
			continue;
		caches++;
		limits += models[i].limit;
		full += models[i].nr;
		slabs += models[i].slabs;
	}
	printf("%u caches, limits %u, full %u, slabs %u\n", caches, limits, full, slabs);
}

static int complain(const char *file, unsigned int line, const char *what)
{
	fprintf(stderr, "slab-balance: %s:%u: %s\n", file, line, what);
	return 1;
}

static int run_trace(const char *name)
{
	const unsigned long interval = 1000 * BALANCE_INTERVAL / HZ;
	unsigned long ms, last = 0, end = interval;
	unsigned int cache, depth, times, n = 0, i;
	char line[200], rest;
	FILE *file = fopen(name, "r");

	if (!file) {
		perror(name);
		return 1;
	}
	while (fgets(line, sizeof(line), file)) {
		n++;
		line[strcspn(line, "#\n")] = '\0';
		if (!line[strspn(line, " \t")])
			continue;
		if (sscanf(line, "%lu %u %u %u %c", &ms, &cache, &depth, &times, &rest) != 4)
			return complain(name, n, "not MILLISECOND CACHE DEPTH TIMES");
		if (ms < last)
			return complain(name, n, "earlier than the line before");
		if (cache >= CACHES)
			return complain(name, n, "no such cache, they are 0 to 999");
		for (last = ms; end <= ms; end += interval)
			end_interval(end);
		if (!used[cache])
			model_init(&models[cache]);
		used[cache] = true;
		models[cache].now = ms * HZ / 1000;
		model_load(&models[cache], depth, times);
	}
	fclose(file);
	for (i = 0; i < AFTERWARDS; i++, end += interval)
		end_interval(end);
	print_sums();
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
		fprintf(stderr, "usage: slab-balance [TRACE]\n");
		return 2;
	}
	return argc == 2 ? run_trace(argv[1]) : run_tests();
}
