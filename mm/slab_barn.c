// SPDX-License-Identifier: GPL-2.0
/*
 * Barns: where the CPUs of a NUMA node keep, and exchange, whole sheaves
 *
 * A sheaf is an array of free objects of one slab cache. Each CPU has one or
 * two of them, and serves allocations and frees from them without any lock that
 * another CPU could want (mm/slab_sheaf.c). The barn is what stands behind: each
 * slab cache has one on each online node. A CPU whose sheaves are empty takes a
 * full one out of the barn of its node; a CPU whose sheaves are full puts one
 * in. So objects that are allocated on one CPU and freed on another go round in
 * units of a whole sheaf, and the price of a shared lock is paid once for some
 * dozens of objects.
 *
 * What a barn knows. There are two lists, of full and of empty sheaves, both
 * last in, first out, since what was used last is what caches still hold. There
 * is a limit to the length of each. There is one spinlock. And it is remembered how
 * many sheaves there were, from the least to the most, for those who decide about the
 * limits (mm/slab_balance.c). That is all: a barn never looks at what is in a sheaf,
 * it only counts. It does not know what a slab is, what gfp flags
 * are, which CPU asks, or how to make or free a sheaf. "Full" and "empty" are
 * what the caller says.
 *
 * The two limits. Full sheaves hold memory that looks allocated to everybody
 * else, so there must not be too many of them; but a barn that refuses them
 * makes its caller flush objects one by one to their slabs, under locks that are
 * far more contended. Empty sheaves cost little and save an allocation in the
 * free path, where one is least welcome. A limit that is lowered below what is
 * there takes effect as sheaves leave: nothing is thrown out.
 *
 * The two swaps. What a CPU wants is mostly an exchange: "a full sheaf for this
 * empty one" when it allocates, "an empty sheaf for this full one" when it
 * frees. Each is one critical section, and a caller that is refused still has
 * what it came with. Who pays for a full sheaf with an empty one gets the full
 * one even if the barn has enough empty ones already; then it also keeps the
 * empty one, and gets rid of it by itself.
 *
 * Contexts. The functions here may be called from task, softirq and hardirq
 * context, except on PREEMPT_RT, where hard interrupts do not allocate. They
 * neither sleep nor allocate. Lock order: a CPU's sheaf lock is outside, nothing
 * is inside of barn->lock. Each peeks at the number of sheaves without the
 * lock, first, to leave the lock alone when there is nothing to be had: the
 * answer may be stale, and a caller that is refused has another way.
 */

#include <linux/export.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <kunit/visibility.h>

#include "slab_barn.h"
#include "slab_sheaf_debug.h"

/*
 * Who must wait here waits for other CPUs. Where there is only one, nobody does, except
 * for those who were interrupted by somebody.
 */
static void note_contention(struct node_barn *barn)
{
	if (unlikely(spin_is_locked(&barn->lock)))
		WRITE_ONCE(barn->contended, READ_ONCE(barn->contended) + 1);
}

#ifdef CONFIG_DEBUG_SLAB_SHEAVES
/* Of long lists, now and then is enough. */
#define CHECK_LENGTH	32

/* What was freed while it was on a list has something else there than a link, or nothing. */
static bool leads_on(const struct slab_sheaf *sheaf, const struct list_head *sheaves)
{
	const struct list_head *next = sheaf->barn_list.next;

	return next == sheaves || points_to_memory(next);
}

/*
 * Whether so many sheaves are on a list. One that is put there twice makes a circle of it,
 * which is not followed for ever.
 */
static bool adds_up(struct list_head *sheaves, unsigned int counted,
		    unsigned long *objects)
{
	struct slab_sheaf *sheaf;

	list_for_each_entry(sheaf, sheaves, barn_list) {
		if (!counted-- || !leads_on(sheaf, sheaves) ||
		    !sheaf_is_linked(&sheaf->barn_list))
			return false;
		*objects += sheaf->size;
	}
	return !counted;
}

/* Of a list that something was added to. A limit that was lowered since does not count. */
static void check_limit(struct node_barn *barn, unsigned int nr, unsigned int max)
{
	if (nr > max)
		barn->overfull = true;
}

/* What is counted is what there is. */
static bool barn_adds_up(struct node_barn *barn)
{
	unsigned long objects = 0, ignored = 0;

	if (barn->nr_full + barn->nr_empty > CHECK_LENGTH &&
	    barn->checks++ % CHECK_LENGTH)
		return true;
	return adds_up(&barn->sheaves_full, barn->nr_full, &objects) &&
	       adds_up(&barn->sheaves_empty, barn->nr_empty, &ignored) &&
	       objects == barn->nr_objects;
}

/* What is wrong with it, or NULL. */
static const char *check_barn(struct node_barn *barn)
{
	lockdep_assert_held(&barn->lock);
	if (barn->overfull) {
		barn->overfull = false;
		return "a barn that has more than it accepts";
	}
	return barn_adds_up(barn) ? NULL : "a barn that has not what it counts";
}
#else
static __always_inline void
check_limit(struct node_barn *barn, unsigned int nr, unsigned int max) { }

static __always_inline const char *check_barn(struct node_barn *barn)
{
	return NULL;
}
#endif

#define lock_barn(barn, flags)						\
do {									\
	struct node_barn *__barn = (barn);				\
									\
	note_contention(__barn);					\
	spin_lock_irqsave(&__barn->lock, flags);			\
} while (0)

#define unlock_barn(barn, flags)					\
do {									\
	struct node_barn *__barn = (barn);				\
	const char *__wrong = check_barn(__barn);			\
									\
	spin_unlock_irqrestore(&__barn->lock, flags);			\
	/* Who prints may need an object of this very cache. */		\
	if (__wrong)							\
		sheaf_complain(NULL, __wrong, __barn);			\
} while (0)

static void add_full(struct node_barn *barn, struct slab_sheaf *sheaf)
{
	unsigned int nr = barn->nr_full + 1;

	lockdep_assert_held(&barn->lock);
	list_add(&sheaf->barn_list, &barn->sheaves_full);
	WRITE_ONCE(barn->nr_full, nr);
	check_limit(barn, nr, barn->max_full);
	WRITE_ONCE(barn->nr_objects, barn->nr_objects + sheaf->size);
	if (nr > barn->range_full.high)
		WRITE_ONCE(barn->range_full.high, nr);
}

static void add_empty(struct node_barn *barn, struct slab_sheaf *sheaf)
{
	unsigned int nr = barn->nr_empty + 1;

	lockdep_assert_held(&barn->lock);
	list_add(&sheaf->barn_list, &barn->sheaves_empty);
	WRITE_ONCE(barn->nr_empty, nr);
	check_limit(barn, nr, barn->max_empty);
}

/* Nor is one added to a list that is wrong. Whoever takes one from there sees that. */
static bool may_add_full(struct node_barn *barn)
{
	return barn->nr_full < barn->max_full &&
	       sheaf_is_linked(&barn->sheaves_full);
}

static bool may_add_empty(struct node_barn *barn)
{
	return barn->nr_empty < barn->max_empty &&
	       sheaf_is_linked(&barn->sheaves_empty);
}

static void remove_full(struct node_barn *barn, struct slab_sheaf *sheaf)
{
	unsigned int nr = barn->nr_full - 1;

	lockdep_assert_held(&barn->lock);
	__list_del_entry(&sheaf->barn_list);
	WRITE_ONCE(barn->nr_full, nr);
	WRITE_ONCE(barn->nr_objects, barn->nr_objects - sheaf->size);
	if (nr < barn->range_full.low)
		WRITE_ONCE(barn->range_full.low, nr);
}

static void remove_empty(struct node_barn *barn, struct slab_sheaf *sheaf)
{
	unsigned int nr = barn->nr_empty - 1;

	lockdep_assert_held(&barn->lock);
	__list_del_entry(&sheaf->barn_list);
	WRITE_ONCE(barn->nr_empty, nr);
	if (nr < barn->range_empty.low)
		barn->range_empty.low = nr;
}

/*
 * Somebody has written to the links of a sheaf: nobody follows that list any more, and
 * what was on it is lost. The one by which that was noticed is of no cache now. Who gets it
 * sees that, and says so: a barn has locks around it, and cannot.
 */
static struct slab_sheaf *lose_full(struct node_barn *barn,
				    struct slab_sheaf *sheaf)
{
	lockdep_assert_held(&barn->lock);
	INIT_LIST_HEAD(&barn->sheaves_full);
	WRITE_ONCE(barn->nr_full, 0);
	WRITE_ONCE(barn->nr_objects, 0);
	WRITE_ONCE(barn->range_full.low, 0);
	sheaf->cache = NULL;
	return sheaf;
}

static struct slab_sheaf *lose_empty(struct node_barn *barn,
				     struct slab_sheaf *sheaf)
{
	lockdep_assert_held(&barn->lock);
	INIT_LIST_HEAD(&barn->sheaves_empty);
	WRITE_ONCE(barn->nr_empty, 0);
	barn->range_empty.low = 0;
	sheaf->cache = NULL;
	return sheaf;
}

/* The caller made sure that there is one. */
static struct slab_sheaf *take_full(struct node_barn *barn)
{
	struct slab_sheaf *sheaf;

	sheaf = list_first_entry(&barn->sheaves_full, struct slab_sheaf,
				 barn_list);
	if (!first_is_linked(&barn->sheaves_full))
		return lose_full(barn, sheaf);
	remove_full(barn, sheaf);
	return sheaf;
}

/* The caller made sure that there is one. */
static struct slab_sheaf *take_empty(struct node_barn *barn)
{
	struct slab_sheaf *sheaf;

	sheaf = list_first_entry(&barn->sheaves_empty, struct slab_sheaf,
				 barn_list);
	if (!first_is_linked(&barn->sheaves_empty))
		return lose_empty(barn, sheaf);
	remove_empty(barn, sheaf);
	return sheaf;
}

/**
 * barn_init - make a barn usable, without any sheaf in it
 * @barn: The barn.
 * @max_full: How many full sheaves it shall accept.
 * @max_empty: How many empty sheaves it shall accept.
 *
 * Context: Any, before anybody else knows of the barn.
 */
void barn_init(struct node_barn *barn, unsigned int max_full,
	       unsigned int max_empty)
{
	memset(barn, 0, sizeof(*barn));
	spin_lock_init(&barn->lock);
	INIT_LIST_HEAD(&barn->sheaves_full);
	INIT_LIST_HEAD(&barn->sheaves_empty);
	barn->max_full = max_full;
	barn->max_empty = max_empty;
}
EXPORT_SYMBOL_IF_KUNIT(barn_init);

/**
 * barn_set_limits - change how many sheaves a barn accepts
 * @barn: The barn.
 * @max_full: How many full sheaves it shall accept.
 * @max_empty: How many empty sheaves it shall accept.
 *
 * Sheaves that are in the barn stay there, even if they are too many now.
 *
 * Context: Any.
 */
void barn_set_limits(struct node_barn *barn, unsigned int max_full,
		     unsigned int max_empty)
{
	unsigned long flags;

	lock_barn(barn, flags);
	WRITE_ONCE(barn->max_full, max_full);
	WRITE_ONCE(barn->max_empty, max_empty);
	unlock_barn(barn, flags);
}
EXPORT_SYMBOL_IF_KUNIT(barn_set_limits);

/**
 * barn_get_full - take a full sheaf out of a barn
 * @barn: The barn.
 *
 * Context: Any.
 * Return: The full sheaf that was put last, or NULL if there is none.
 */
struct slab_sheaf *barn_get_full(struct node_barn *barn)
{
	struct slab_sheaf *full = NULL;
	unsigned long flags;

	if (!READ_ONCE(barn->nr_full))
		return NULL;

	lock_barn(barn, flags);
	if (barn->nr_full)
		full = take_full(barn);
	unlock_barn(barn, flags);
	return full;
}
EXPORT_SYMBOL_IF_KUNIT(barn_get_full);

/**
 * barn_get_empty - take an empty sheaf out of a barn
 * @barn: The barn.
 *
 * Context: Any.
 * Return: The empty sheaf that was put last, or NULL if there is none.
 */
struct slab_sheaf *barn_get_empty(struct node_barn *barn)
{
	struct slab_sheaf *empty = NULL;
	unsigned long flags;

	if (!READ_ONCE(barn->nr_empty))
		return NULL;

	lock_barn(barn, flags);
	if (barn->nr_empty)
		empty = take_empty(barn);
	unlock_barn(barn, flags);
	return empty;
}
EXPORT_SYMBOL_IF_KUNIT(barn_get_empty);

/**
 * barn_put_full - put a full sheaf into a barn
 * @barn: The barn.
 * @full: The sheaf, which belongs to the barn if this succeeds.
 *
 * Context: Any.
 * Return: false if the barn has as many full sheaves as it accepts; the caller
 *	   keeps @full then.
 */
bool barn_put_full(struct node_barn *barn, struct slab_sheaf *full)
{
	unsigned long flags;
	bool fits;

	if (READ_ONCE(barn->nr_full) >= READ_ONCE(barn->max_full))
		return false;

	lock_barn(barn, flags);
	fits = may_add_full(barn);
	if (fits)
		add_full(barn, full);
	unlock_barn(barn, flags);
	return fits;
}
EXPORT_SYMBOL_IF_KUNIT(barn_put_full);

/**
 * barn_put_empty - put an empty sheaf into a barn
 * @barn: The barn.
 * @empty: The sheaf, which belongs to the barn if this succeeds.
 *
 * Context: Any.
 * Return: false if the barn has as many empty sheaves as it accepts; the caller
 *	   keeps @empty then.
 */
bool barn_put_empty(struct node_barn *barn, struct slab_sheaf *empty)
{
	unsigned long flags;
	bool fits;

	if (READ_ONCE(barn->nr_empty) >= READ_ONCE(barn->max_empty))
		return false;

	lock_barn(barn, flags);
	fits = may_add_empty(barn);
	if (fits)
		add_empty(barn, empty);
	unlock_barn(barn, flags);
	return fits;
}
EXPORT_SYMBOL_IF_KUNIT(barn_put_empty);

/**
 * barn_swap_empty - get a full sheaf for an empty one
 * @barn: The barn.
 * @empty: The sheaf that is offered for it. Set to NULL if the barn took it.
 *
 * Context: Any.
 * Return: A full sheaf, or NULL if there is none. @empty stays with the caller
 *	   in the latter case, and if the barn has as many empty sheaves as it
 *	   accepts.
 */
struct slab_sheaf *barn_swap_empty(struct node_barn *barn,
				   struct slab_sheaf **empty)
{
	struct slab_sheaf *full = NULL;
	unsigned long flags;

	if (!READ_ONCE(barn->nr_full))
		return NULL;

	lock_barn(barn, flags);
	if (barn->nr_full) {
		full = take_full(barn);
		if (may_add_empty(barn)) {
			add_empty(barn, *empty);
			*empty = NULL;
		}
	}
	unlock_barn(barn, flags);
	return full;
}
EXPORT_SYMBOL_IF_KUNIT(barn_swap_empty);

/**
 * barn_swap_full - get an empty sheaf for a full one
 * @barn: The barn.
 * @full: The sheaf that is given away for it.
 *
 * Context: Any.
 * Return: An empty sheaf, or NULL if there is none, or if the barn has as many
 *	   full sheaves as it accepts; the caller keeps @full then.
 */
struct slab_sheaf *barn_swap_full(struct node_barn *barn,
				  struct slab_sheaf *full)
{
	struct slab_sheaf *empty = NULL;
	unsigned long flags;

	if (!READ_ONCE(barn->nr_empty) ||
	    READ_ONCE(barn->nr_full) >= READ_ONCE(barn->max_full))
		return NULL;

	lock_barn(barn, flags);
	if (barn->nr_empty && may_add_full(barn)) {
		empty = take_empty(barn);
		add_full(barn, full);
	}
	unlock_barn(barn, flags);
	return empty;
}
EXPORT_SYMBOL_IF_KUNIT(barn_swap_full);

/*
 * What somebody takes out of a barn: how many sheaves are still to come, and where they go.
 * So many are taken at a time: a barn may be long, and others wait for its lock. In between
 * they may take what was to come.
 */
#define BARN_BATCH	32U

struct barn_taking {
	unsigned int nr_full;
	unsigned int nr_empty;
	struct list_head *full;
	struct list_head *empty;
};

static void take_oldest_full(struct node_barn *barn, struct barn_taking *t)
{
	struct slab_sheaf *sheaf;
	unsigned int nr;

	t->nr_full = min(t->nr_full, barn->nr_full);
	for (nr = min(t->nr_full, BARN_BATCH); nr; nr--) {
		sheaf = list_last_entry(&barn->sheaves_full, struct slab_sheaf,
					barn_list);
		if (!last_is_linked(&barn->sheaves_full)) {
			list_add(&lose_full(barn, sheaf)->barn_list, t->full);
			break;
		}
		remove_full(barn, sheaf);
		list_add(&sheaf->barn_list, t->full);
		t->nr_full--;
	}
}

static void take_oldest_empty(struct node_barn *barn, struct barn_taking *t)
{
	struct slab_sheaf *sheaf;
	unsigned int nr;

	t->nr_empty = min(t->nr_empty, barn->nr_empty);
	for (nr = min(t->nr_empty, BARN_BATCH); nr; nr--) {
		sheaf = list_last_entry(&barn->sheaves_empty, struct slab_sheaf,
					barn_list);
		if (!last_is_linked(&barn->sheaves_empty)) {
			list_add(&lose_empty(barn, sheaf)->barn_list, t->empty);
			break;
		}
		remove_empty(barn, sheaf);
		list_add(&sheaf->barn_list, t->empty);
		t->nr_empty--;
	}
}

static void take_batch(struct node_barn *barn, struct barn_taking *t)
{
	lockdep_assert_held(&barn->lock);
	take_oldest_full(barn, t);
	take_oldest_empty(barn, t);
}

static void take_batches(struct node_barn *barn, struct barn_taking *t)
{
	unsigned long flags;

	while (t->nr_full || t->nr_empty) {
		lock_barn(barn, flags);
		take_batch(barn, t);
		unlock_barn(barn, flags);
	}
}

static void splice_all(struct node_barn *barn, struct list_head *full,
		       struct list_head *empty)
{
	lockdep_assert_held(&barn->lock);
	list_splice_init(&barn->sheaves_full, full);
	list_splice_init(&barn->sheaves_empty, empty);
	WRITE_ONCE(barn->nr_full, 0);
	WRITE_ONCE(barn->nr_empty, 0);
	WRITE_ONCE(barn->nr_objects, 0);
	WRITE_ONCE(barn->range_full.low, 0);
	barn->range_empty.low = 0;
}

/**
 * barn_take_all - take all sheaves out of a barn
 * @barn: The barn.
 * @full: The list that the full sheaves are added to.
 * @empty: The list that the empty sheaves are added to.
 *
 * The barn stays usable, and others may put sheaves in at once.
 *
 * Context: Any.
 */
void barn_take_all(struct node_barn *barn, struct list_head *full,
		   struct list_head *empty)
{
	struct barn_taking t = { .full = full, .empty = empty };
	unsigned long flags;

	lock_barn(barn, flags);
	if (IS_ENABLED(CONFIG_SLAB_SHEAF_HARDENED)) {
		/* Each link is looked at before it is followed. */
		t.nr_full = barn->nr_full;
		t.nr_empty = barn->nr_empty;
		take_batch(barn, &t);
	} else {
		splice_all(barn, full, empty);
	}
	unlock_barn(barn, flags);
	take_batches(barn, &t);
}
EXPORT_SYMBOL_IF_KUNIT(barn_take_all);

/**
 * barn_take_oldest - take the full sheaves that have been in a barn for longest
 * @barn: The barn.
 * @nr: How many to take, if there are so many.
 * @full: The list that they are added to.
 *
 * Context: Any.
 */
void barn_take_oldest(struct node_barn *barn, unsigned int nr,
		      struct list_head *full)
{
	struct barn_taking t = { .nr_full = nr, .full = full };

	take_batches(barn, &t);
}
EXPORT_SYMBOL_IF_KUNIT(barn_take_oldest);

/**
 * barn_take_unneeded - end an interval: take the sheaves that were there all the time
 * @barn: The barn.
 * @full: The list that the full sheaves are added to.
 * @empty: The list that the empty sheaves are added to.
 *
 * All the time means in this interval and the one before. Of full and of empty ones,
 * those are taken that have been in the barn for longest.
 *
 * Context: Any.
 * Return: How many full sheaves there were at most, in these two intervals; those that
 *	   are taken now do not count in this one.
 */
unsigned int barn_take_unneeded(struct node_barn *barn, struct list_head *full,
				struct list_head *empty)
{
	struct barn_taking t = { .full = full, .empty = empty };
	unsigned long flags;
	unsigned int most;

	lock_barn(barn, flags);
	t.nr_full = balance_unneeded(&barn->range_full, barn->nr_full);
	t.nr_empty = balance_unneeded(&barn->range_empty, barn->nr_empty);
	most = balance_used(&barn->range_full);
	/* Who puts a sheaf in before these are taken makes the barn look larger. */
	take_batch(barn, &t);
	unlock_barn(barn, flags);
	take_batches(barn, &t);
	return most;
}
EXPORT_SYMBOL_IF_KUNIT(barn_take_unneeded);
