// SPDX-License-Identifier: GPL-2.0
/*
 * What the lock of a barn costs, by mm/slab_barn.o alone: no cache, no objects. One or two
 * threads exchange sheaves at one barn in the way that asks most of it: an empty one for a
 * full one, the objects of which are all taken out; and after as many were put in again, the
 * full one for an empty one.
 *
 * lock: the lock is taken and released by one thread that has the line.
 * alone: an exchange by one thread, all lines in its processor's cache.
 * remote: two threads pass a ball to each other, and each makes an exchange when it has it.
 *	   Nobody waits for the lock, but its line and those of the lists are in the other's
 *	   cache. That minus `line', minus `alone', is what the transfers of an exchange take.
 * both: two threads at once, with pauses of random length between their exchanges, the mean
 *	 of which is what one thread alone takes longer with them. Time is that of the barn,
 *	 from one exchange to the next, whoever makes it; and beside it, how many of 1000 found
 *	 the lock taken.
 *
 * Each is done in many short rounds. Printed are the quartiles, in ns. A round in which one
 * of two threads took much longer than the other does not count: it was not running all the
 * time, and the other one was alone. How near two processors are to each other changes under
 * a hypervisor: each round of two threads begins with passing the ball, that is, a line of the
 * cache, without doing anything else, and rounds are told apart by how long that takes: near
 * and far. `line' is the median of it.
 */

#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "native.h"

#if __has_include("../mm/slab_barn.h")

#include "../mm/slab_barn.h"

struct node_barn *slab_alloc_barn(int node);

#define MAX_ROUNDS	2000
#define IN_STORE	8	/* sheaves of each kind in the barn */
#define MAX_CAPACITY	508
#define LIMIT		64
#define PASSES		100	/* of the ball by each thread, in the beginning of a round */
#define FAR_PS		60000	/* as in scripts/bench/native.py: half of a round trip */
#define PAUSE		32	/* where slots are used */
#define LEAST_ROUNDS	20	/* fewer say nothing */

struct result {
	u64 ps;				/* from step to step, whoever makes them */
	u64 line;			/* ps for the ball */
	unsigned int taken;
};

struct hammer {
	struct node_barn *barn;
	bool (*step)(struct hammer *h, unsigned int me);
	unsigned int threads;
	unsigned int rounds;
	unsigned int steps;		/* of each thread in a round */
	unsigned int capacity;		/* slots that are read and written, 0: none */
	unsigned int pause;		/* mean loops between exchanges */
	struct {
		struct slab_sheaf *sheaf;	/* what a thread has in hand */
		u64 random;
		u64 ns;
		u64 line_ns;
	} ____cacheline_aligned own[2];
	unsigned int ball ____cacheline_aligned;
	unsigned int arrived ____cacheline_aligned;
	unsigned int good;		/* rounds that count */
	struct result results[MAX_ROUNDS];
};

static void pause_for_a_while(struct hammer *h, unsigned int me)
{
	u64 x = h->own[me].random;
	unsigned int n;

	if (!h->pause)
		return;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	h->own[me].random = x;
	for (n = (x >> 32) % (2 * h->pause + 1); n; n--) {
		x = x * 6364136223846793005ULL + 1;
		OPTIMIZER_HIDE_VAR(x);
	}
}

static void use_slots(struct hammer *h, struct slab_sheaf *sheaf, bool put)
{
	unsigned int i;

	for (i = 0; i < h->capacity; i++) {
		if (put)
			WRITE_ONCE(sheaf->objects[i], sheaf);
		else
			(void)READ_ONCE(sheaf->objects[i]);
	}
	sheaf->size = put ? sheaf->capacity : 0;
}

/* Empty for full, and the next time full for empty. */
static bool exchange(struct hammer *h, unsigned int me)
{
	struct slab_sheaf *sheaf = h->own[me].sheaf, *got;

	if (!sheaf->size) {
		got = barn_swap_empty(h->barn, &sheaf);
		if (!got || sheaf)
			return false;
		use_slots(h, got, false);
		/* That is for the next step, when it has been filled again. */
		use_slots(h, got, true);
	} else {
		got = barn_swap_full(h->barn, sheaf);
		if (!got)
			return false;
	}
	h->own[me].sheaf = got;
	pause_for_a_while(h, me);
	return true;
}

static bool lock_only(struct hammer *h, unsigned int me)
{
	unsigned long flags;

	spin_lock_irqsave(&h->barn->lock, flags);
	spin_unlock_irqrestore(&h->barn->lock, flags);
	return true;
}

static bool in_turn(struct hammer *h, unsigned int me,
		    bool (*step)(struct hammer *h, unsigned int me))
{
	bool good = true;

	/* What the other one did before is done: see below. */
	while ((smp_load_acquire(&h->ball) & 1) != me)
		cpu_relax();
	if (step)
		good = step(h, me);
	/* Whoever sees this sees the exchange: see above. */
	smp_store_release(&h->ball, h->ball + 1);
	return good;
}

static bool exchange_in_turn(struct hammer *h, unsigned int me)
{
	return in_turn(h, me, exchange);
}

/* All threads are here. */
static void meet(struct hammer *h, unsigned int *times)
{
	unsigned int all = ++*times * h->threads;

	__atomic_fetch_add(&h->arrived, 1, __ATOMIC_ACQ_REL);
	/* With the atomic addition: what they did before is done. */
	while ((int)(smp_load_acquire(&h->arrived) - all) < 0)
		cpu_relax();
}

static void count_round(struct hammer *h)
{
	u64 least = h->own[0].ns, most = least;
	struct result *r;

	if (h->threads == 2) {
		least = min(least, h->own[1].ns);
		most = max(most, h->own[1].ns);
	}
	if (most > least + least / 5)
		return;
	r = &h->results[h->good++];
	r->ps = div_u64(most * 1000, h->steps * h->threads);
	r->line = div_u64(h->own[0].line_ns * 1000, PASSES * 2);
	r->taken = h->barn->contended;
}

static void pass_the_ball(struct hammer *h, unsigned int me)
{
	u64 start = host_ns();
	unsigned int i;

	for (i = 0; i < PASSES; i++)
		in_turn(h, me, NULL);
	h->own[me].line_ns = host_ns() - start;
}

static void work(struct hammer *h, unsigned int me)
{
	unsigned int round, i, times = 0;
	u64 start;

	for (round = 0; round < h->rounds; round++) {
		if (h->threads == 2) {
			meet(h, &times);
			pass_the_ball(h, me);
		}
		meet(h, &times);
		start = host_ns();
		for (i = 0; i < h->steps; i++)
			if (!h->step(h, me))
				native_die("the barn did not exchange a sheaf");
		h->own[me].ns = host_ns() - start;
		meet(h, &times);
		/* The first one warms up. */
		if (!me && round)
			count_round(h);
		if (!me)
			h->barn->contended = 0;
	}
}

static struct hammer *hammer;

static int first_thread(void *arg)
{
	work(hammer, 0);
	return 0;
}

static int second_thread(void *arg)
{
	work(hammer, 1);
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct result *x = a, *y = b;

	return x->ps < y->ps ? -1 : x->ps > y->ps;
}

static int compare_lines(const void *a, const void *b)
{
	const struct result *x = a, *y = b;

	return x->line < y->line ? -1 : x->line > y->line;
}

static struct slab_sheaf *new_sheaf(bool full)
{
	struct slab_sheaf *sheaf = kmalloc_nosheaf(struct_size(sheaf, objects, MAX_CAPACITY),
						   GFP_KERNEL);

	if (!sheaf)
		native_die("no memory for a sheaf");
	sheaf->capacity = MAX_CAPACITY;
	sheaf->size = full ? MAX_CAPACITY : 0;
	return sheaf;
}

static void fill_barn(struct node_barn *barn)
{
	unsigned int i;

	for (i = 0; i < IN_STORE; i++)
		if (!barn_put_full(barn, new_sheaf(true)) ||
		    !barn_put_empty(barn, new_sheaf(false)))
			native_die("the barn does not take sheaves");
}

static int write_ns(char *buf, u64 ps)
{
	u32 rest;
	u64 ns = div_u64_rem(ps / 10, 100, &rest);

	return sprintf(buf, " %llu.%02u", ns, rest);
}

static void show(const char *name, const char *where, struct hammer *h,
		 struct result *results, unsigned int nr)
{
	char times[100], line[30];
	unsigned int i, len = 0;
	u64 taken = 0;

	if (nr < LEAST_ROUNDS)
		return;
	for (i = 0; i < nr; i++)
		taken += results[i].taken;
	sort(results, nr, sizeof(*results), compare_lines, NULL);
	write_ns(line, results[nr / 2].line);
	sort(results, nr, sizeof(*results), compare, NULL);
	for (i = 1; i <= 3; i++)
		len += write_ns(times + len, results[nr * i / 4].ps);
	pr_info("barn %-6s %-4s slots %3u pause %4u:%s ns, line%s ns, taken %llu, rounds %u of %u\n",
		name, where, h->capacity, h->pause, times, line,
		div_u64(taken * 1000, h->steps * h->threads * nr), nr, h->rounds - 1);
}

/* Near and far rounds apart. */
static void show_all(const char *name, struct hammer *h)
{
	unsigned int near = 0;

	if (h->threads == 1) {
		show(name, "-", h, h->results, h->good);
		return;
	}
	sort(h->results, h->good, sizeof(h->results[0]), compare_lines, NULL);
	while (near < h->good && h->results[near].line < FAR_PS)
		near++;
	show(name, "near", h, h->results, near);
	show(name, "far", h, h->results + near, h->good - near);
}

static void run(const char *name, unsigned int threads,
		bool (*step)(struct hammer *h, unsigned int me),
		unsigned int capacity, unsigned int pause)
{
	struct native_task *tasks[2];
	struct hammer *h = hammer;
	unsigned int i;

	h->threads = threads;
	h->step = step;
	h->capacity = capacity;
	h->pause = pause;
	h->ball = 0;
	h->arrived = 0;
	h->good = 0;
	for (i = 0; i < threads; i++) {
		h->own[i].random = 88172645463325252ULL + i;
		h->own[i].line_ns = 0;
		tasks[i] = native_task_create(i ? second_thread : first_thread, NULL);
	}
	for (i = 0; i < threads; i++)
		native_task_start(tasks[i], i + 1);
	for (i = 0; i < threads; i++)
		native_task_join(tasks[i]);
	if (h->good < LEAST_ROUNDS)
		native_die("barn %s: both threads ran in %u of %u rounds only, try later",
			   name, h->good, h->rounds - 1);
	show_all(name, h);
}

int native_barn(unsigned int rounds, unsigned int steps)
{
	static const unsigned int capacities[] = { 28, 60, 124, 252, 508 };
	static const unsigned int pauses[] = { 0, 16, 32, 64, 128, 256, 512, 1024 };
	unsigned int i;

	if (rounds > MAX_ROUNDS || rounds <= LEAST_ROUNDS || steps < 2 || steps > 1000000)
		native_die("more than %u and up to %u rounds, please, of 2 to 1000000 exchanges",
			   LEAST_ROUNDS, MAX_ROUNDS);
	hammer = host_map(sizeof(*hammer), PAGE_SIZE);
	hammer->rounds = rounds;
	hammer->steps = steps & ~1U;
	hammer->barn = slab_alloc_barn(0);
	if (!hammer->barn)
		native_die("no memory for a barn");
	barn_init(hammer->barn, LIMIT, LIMIT);
	fill_barn(hammer->barn);
	for (i = 0; i < 2; i++)
		hammer->own[i].sheaf = new_sheaf(false);

	run("lock", 1, lock_only, 0, 0);
	run("remote", 2, exchange_in_turn, 0, 0);
	for (i = 0; i < ARRAY_SIZE(pauses); i++) {
		run("alone", 1, exchange, 0, pauses[i]);
		run("both", 2, exchange, 0, pauses[i]);
	}
	for (i = 0; i < ARRAY_SIZE(capacities); i++) {
		/* Without a pause of random length, two threads keep out of each other's way. */
		run("alone", 1, exchange, capacities[i], PAUSE);
		run("both", 2, exchange, capacities[i], PAUSE);
	}
	return 0;
}

#else /* no mm/slab_barn.h */

int native_barn(unsigned int rounds, unsigned int steps)
{
	native_die("this kernel has no mm/slab_barn.c");
}

#endif
