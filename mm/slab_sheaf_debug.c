// SPDX-License-Identifier: GPL-2.0
/*
 * DEBUG_SLAB_SHEAVES: every object is in one sheaf, every sheaf in one place
 *
 * A bug in the sheaf tier mostly shows late, and elsewhere: an object that is in two
 * sheaves is handed out twice, and two users write to it. KASAN and slab debugging do not
 * see it, the first because each of the users has allocated it, the other since caches
 * with debugging have no sheaves. So this keeps a book of its own.
 *
 * The book has two bits for each eight bytes of memory, a thirty-second part of it (for
 * each four, where objects may begin there), which say whether what begins there has been
 * put somewhere, or taken from there. Of an object that means a sheaf, whichever; of a
 * sheaf, a barn, the place of a CPU's spare, or a queue of kfree_rcu(). What is put must not
 * be somewhere already, what is taken must have been put, and what slabs get or give must be
 * nowhere. A sheaf that was freed is not used any more, until there is a new one. Of what
 * began before there was a book, nothing is known, and nothing is said, until it moves again.
 *
 * Nothing begins in the middle of a sheaf, so the book has room for more about it: in the
 * second place of a sheaf it says whether a CPU uses it, as main, for the objects of other
 * nodes or for those of kfree_rcu(). Nobody begins to use what is used, by another CPU or for
 * something else. It is until it is taken from where it was put meanwhile, or given back.
 *
 * What goes into a sheaf has to be an object of its cache, from its first byte. One that
 * anybody may allocate from has no objects of KFENCE, which would not be guarded any more,
 * nor of the memory reserves. A full sheaf in a barn is full, an empty one empty, when it is
 * put and when it is taken, and a sheaf that is freed is nowhere. What a barn counts is what
 * there is, and no more is put there than it accepts: mm/slab_barn.c looks after that itself.
 *
 * Who puts, writes it down before others can see it; who takes, when he has it to himself.
 * So no lock is needed: there are no two who do it with the same thing at once, unless
 * there is a bug, and then the book's atomic operations show it to one of them. What is
 * found is complained about, and then all goes on as without: what a test of hardening has
 * broken on purpose, the code that is tested has to survive.
 */

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/kasan.h>
#include <linux/kfence.h>
#include <linux/kmemleak.h>
#include <linux/memblock.h>
#include <linux/memory.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/pfn.h>
#include <linux/printk.h>
#include <linux/ratelimit.h>
#include <linux/vmalloc.h>
#include <kunit/test-bug.h>
#include <kunit/visibility.h>

#include "slab.h"
#include "slab_sheaf.h"

/* Only sheaves are freed: where one was, anything may be afterwards. */
enum state { STATE_UNKNOWN, STATE_PUT, STATE_TAKEN, STATE_FREED };

#define STATE_BITS	2
#define STATE_MASK	(BIT(STATE_BITS) - 1)
/* Nothing that is put anywhere begins in the middle of so many bytes, eight or four. */
#define GRANULE_SHIFT	(ARCH_SLAB_MINALIGN < 8 ? 2 : 3)
#define WORD_STATES	(BITS_PER_LONG / STATE_BITS)
/* A chapter is for so much memory. */
#define CHAPTER_SHIFT	27
#define CHAPTER_WORDS	(BIT(CHAPTER_SHIFT - GRANULE_SHIFT) / WORD_STATES)
#define CHAPTER_PAGES	BIT(CHAPTER_SHIFT - PAGE_SHIFT)

/* Chapters come when there is memory for it, and stay. */
static unsigned long **book __ro_after_init;
static unsigned long nr_chapters __ro_after_init;

/* For tests, which do it on purpose. */
atomic_t sheaf_complaints;
EXPORT_SYMBOL_IF_KUNIT(sheaf_complaints);

/**
 * sheaf_complain - say what is wrong with an object, a sheaf, or a barn
 * @s: The cache, or NULL if that is not known.
 * @what: What is wrong.
 * @which: Where the object, the sheaf, or the barn is.
 *
 * Locks that those who print take may be held, as who calls kfree_rcu() may be the scheduler:
 * somebody else prints it.
 *
 * Context: Any.
 */
void sheaf_complain(const struct kmem_cache *s, const char *what,
		    const void *which)
{
	static DEFINE_RATELIMIT_STATE(limit, 5 * HZ, 50);
	static DEFINE_RATELIMIT_STATE(limit_in_tests, 5 * HZ, 50);
	/* Without the lock that a test's resources have. */
	bool in_test = slab_stub_allowed() && kunit_get_current_test();
	unsigned long flags;

	atomic_inc(&sheaf_complaints);
	if (!__ratelimit(in_test ? &limit_in_tests : &limit))
		return;
	local_irq_save(flags);
	printk_deferred_enter();
	pr_err("SLUB %s: DEBUG_SLAB_SHEAVES: %s (%p)\n",
	       s ? s->name : "(which cache is unknown)", what, which);
	/* A test looks at how many there were. */
	WARN_ONCE(!in_test, "DEBUG_SLAB_SHEAVES, as said above");
	printk_deferred_exit();
	local_irq_restore(flags);
}

/* Where it is written down, and by how much it is shifted there; NULL if it is not. */
static unsigned long *find_state(const void *what, unsigned int *shift)
{
	phys_addr_t addr = __pa(kasan_reset_tag(what));
	unsigned long **chapters = READ_ONCE(book);
	unsigned long nr = addr >> CHAPTER_SHIFT;
	unsigned long *chapter;

	if (!chapters || nr >= nr_chapters)
		return NULL;
	/* Pairs with add_chapters(). */
	chapter = smp_load_acquire(&chapters[nr]);
	if (!chapter)
		return NULL;

	nr = ((unsigned long)addr & (BIT(CHAPTER_SHIFT) - 1)) >> GRANULE_SHIFT;
	*shift = nr % WORD_STATES * STATE_BITS;
	return &chapter[nr / WORD_STATES];
}

static enum state look_up(const void *what)
{
	unsigned int shift;
	unsigned long *word = find_state(what, &shift);

	return word ? READ_ONCE(*word) >> shift & STATE_MASK : STATE_UNKNOWN;
}

/* What was known of it until now. */
static enum state write_down(const void *what, enum state state)
{
	unsigned int shift;
	unsigned long *word = find_state(what, &shift), old, new;

	if (!word)
		return STATE_UNKNOWN;
	old = READ_ONCE(*word);
	do {
		new = (old & ~(STATE_MASK << shift)) |
		      (unsigned long)state << shift;
	} while (!try_cmpxchg(word, &old, new));
	return old >> shift & STATE_MASK;
}

/*
 * Objects
 */

/* What is no address at all is left alone. */
static bool is_address(const struct kmem_cache *s, const void *object,
		       const char *complaint)
{
	if (likely(points_to_memory(object)))
		return true;
	sheaf_complain(s, complaint, object);
	return false;
}

/**
 * sheaf_check_fits - check that anybody may allocate what comes into a sheaf
 * @s: The cache.
 * @p: The objects.
 * @nr: How many there are.
 *
 * Context: Any.
 */
void sheaf_check_fits(const struct kmem_cache *s, void **p, unsigned int nr)
{
	for (; nr; nr--, p++) {
		if (!points_to_memory(*p))
			continue;
		if (is_kfence_address(*p))
			sheaf_complain(s, "an object of KFENCE for a sheaf", *p);
		else if (virt_to_slab(*p) &&
			 slab_test_pfmemalloc(virt_to_slab(*p)))
			sheaf_complain(s, "an object of the memory reserves for a sheaf",
				       *p);
	}
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_check_fits);

/**
 * sheaf_check_in - check objects that come into a sheaf
 * @s: The cache.
 * @p: The objects. They are in no sheaf that anybody else can see yet.
 * @nr: How many there are.
 *
 * Context: Any.
 */
void sheaf_check_in(const struct kmem_cache *s, void **p, unsigned int nr)
{
	for (; nr; nr--, p++) {
		if (!is_address(s, *p, "what is no address, for a sheaf"))
			continue;
		if (!cache_has_object_at(s, *p))
			sheaf_complain(s, "no object of the cache, for a sheaf", *p);
		if (write_down(*p, STATE_PUT) == STATE_PUT)
			sheaf_complain(s, "an object that is in a sheaf, for a sheaf",
				       *p);
	}
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_check_in);

/**
 * sheaf_check_out - check objects that came out of a sheaf
 * @s: The cache.
 * @p: The objects, which nobody else has.
 * @nr: How many there are.
 *
 * Context: Any.
 */
void sheaf_check_out(const struct kmem_cache *s, void **p, unsigned int nr)
{
	for (; nr; nr--, p++) {
		if (!is_address(s, *p, "what is no address, out of a sheaf"))
			continue;
		if (!cache_has_object_at(s, *p))
			sheaf_complain(s, "no object of the cache, out of a sheaf", *p);
		if (write_down(*p, STATE_TAKEN) == STATE_TAKEN)
			sheaf_complain(s, "an object out of a sheaf in which it was not",
				       *p);
	}
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_check_out);

/**
 * sheaf_check_nowhere - check objects that slabs get, or have given to a user
 * @s: The cache.
 * @p: The objects, which nobody else has.
 * @nr: How many there are.
 *
 * Context: Any.
 */
void sheaf_check_nowhere(const struct kmem_cache *s, void **p, unsigned int nr)
{
	for (; nr; nr--, p++)
		if (points_to_memory(*p) && look_up(*p) == STATE_PUT)
			sheaf_complain(s, "an object that is in a sheaf, and in its slab",
				       *p);
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_check_nowhere);

/*
 * Sheaves
 */

/* The cache of a sheaf, to which somebody may have written. */
static const struct kmem_cache *cache_of(const struct slab_sheaf *sheaf)
{
	return sheaf_cache_is_one(sheaf->cache) ? sheaf->cache : NULL;
}

static void check_head(const struct kmem_cache *s,
		       const struct slab_sheaf *sheaf, unsigned int size)
{
	if (sheaf->cache != s)
		sheaf_complain(s, "a sheaf of another cache", sheaf);
	if (sheaf->size != size)
		sheaf_complain(s, "a sheaf with too many objects, or too few", sheaf);
}

/* Whether it is of the cache that the sheaves of this CPU are of. */
static void check_cpu(const struct slub_percpu_sheaves *pcs,
		      const struct slab_sheaf *sheaf)
{
	const struct kmem_cache *s = cache_of(sheaf);

	if (!s || raw_cpu_ptr(s->cpu_sheaves) != pcs)
		sheaf_complain(s, "a sheaf of another cache, for a CPU", sheaf);
}

/* Where the book has whether a CPU uses it: see the comment at the head of this file. */
static const void *use_of(const struct slab_sheaf *sheaf)
{
	BUILD_BUG_ON(sizeof(*sheaf) < 2 << GRANULE_SHIFT);
	return (const char *)sheaf + BIT(GRANULE_SHIFT);
}

/* Returns what was known of it. */
static enum state note_sheaf(const struct kmem_cache *s,
			     const struct slab_sheaf *sheaf, enum state state)
{
	enum state was = write_down(sheaf, state);

	if (was == STATE_FREED)
		sheaf_complain(s, "a sheaf that was freed", sheaf);
	return was;
}

static void note_taken(struct slab_sheaf *sheaf)
{
	const struct kmem_cache *s = cache_of(sheaf);

	if (note_sheaf(s, sheaf, STATE_TAKEN) == STATE_TAKEN)
		sheaf_complain(s, "a sheaf out of where it was not", sheaf);
}

static void note_put(const struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	if (note_sheaf(s, sheaf, STATE_PUT) == STATE_PUT)
		sheaf_complain(s, "a sheaf in two places", sheaf);
}

/**
 * sheaf_check_new - note that there is a sheaf where there was something else
 * @sheaf: The sheaf.
 *
 * Context: Any.
 */
void sheaf_check_new(struct slab_sheaf *sheaf)
{
	sheaf_check_unused(sheaf);
	if (write_down(sheaf, STATE_TAKEN) == STATE_PUT)
		sheaf_complain(cache_of(sheaf), "a new sheaf where there is one", sheaf);
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_check_new);

/**
 * sheaf_check_full - check a full sheaf that is to be put into a barn
 * @s: The cache.
 * @sheaf: The sheaf, before others can see it there.
 *
 * Context: Any.
 */
void sheaf_check_full(const struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	check_head(s, sheaf, sheaf->capacity);
	note_put(s, sheaf);
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_check_full);

/**
 * sheaf_check_empty - check an empty sheaf that is to be put into a barn
 * @s: The cache.
 * @sheaf: The sheaf, before others can see it there.
 *
 * Context: Any.
 */
void sheaf_check_empty(const struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	check_head(s, sheaf, 0);
	note_put(s, sheaf);
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_check_empty);

/**
 * sheaf_check_spare - check a sheaf that becomes the spare of a CPU
 * @pcs: The sheaves of this CPU.
 * @sheaf: The sheaf, before others can see it there.
 *
 * Context: Any, with @pcs->lock held.
 */
void sheaf_check_spare(const struct slub_percpu_sheaves *pcs,
		       struct slab_sheaf *sheaf)
{
	const struct kmem_cache *s = cache_of(sheaf);

	check_cpu(pcs, sheaf);
	if (sheaf->size > sheaf->capacity)
		sheaf_complain(s, "a sheaf with too many objects", sheaf);
	note_put(s, sheaf);
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_check_spare);

/**
 * sheaf_check_got - check a sheaf that was taken out of a barn
 * @s: The cache.
 * @sheaf: The sheaf, which nobody else has.
 * @full: Whether it should be full, or else empty.
 *
 * Context: Any.
 */
void sheaf_check_got(const struct kmem_cache *s, struct slab_sheaf *sheaf,
		     bool full)
{
	check_head(s, sheaf, full ? sheaf->capacity : 0);
	sheaf_check_taken(sheaf);
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_check_got);

/**
 * sheaf_check_taken - check a sheaf that was taken from where it was
 * @sheaf: The sheaf, which nobody else has.
 *
 * Context: Any.
 */
void sheaf_check_taken(struct slab_sheaf *sheaf)
{
	sheaf_check_unused(sheaf);
	note_taken(sheaf);
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_check_taken);

/**
 * sheaf_check_refused - note that a sheaf was not accepted where it was to be put
 * @sheaf: The sheaf, which a CPU may still use.
 *
 * Context: Any.
 */
void sheaf_check_refused(struct slab_sheaf *sheaf)
{
	note_taken(sheaf);
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_check_refused);

/**
 * sheaf_check_used - check a sheaf that a CPU begins to use, as its main, or to collect
 * @pcs: The sheaves of this CPU.
 * @sheaf: The sheaf.
 *
 * Context: Any, with @pcs->lock held.
 */
void sheaf_check_used(const struct slub_percpu_sheaves *pcs,
		      struct slab_sheaf *sheaf)
{
	if (sheaf == slab_no_sheaf)
		return;
	check_cpu(pcs, sheaf);
	if (note_sheaf(cache_of(sheaf), sheaf, STATE_TAKEN) == STATE_PUT)
		sheaf_complain(cache_of(sheaf),
			       "a sheaf in use that is somewhere else", sheaf);
	if (write_down(use_of(sheaf), STATE_PUT) == STATE_PUT)
		sheaf_complain(cache_of(sheaf), "a sheaf in use twice", sheaf);
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_check_used);

/**
 * sheaf_check_unused - note that a CPU does not use a sheaf any more
 * @sheaf: The sheaf, which is put nowhere, and may be used again.
 *
 * Context: Any.
 */
void sheaf_check_unused(struct slab_sheaf *sheaf)
{
	write_down(use_of(sheaf), STATE_TAKEN);
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_check_unused);

/**
 * sheaf_check_queued - check a sheaf that waits for a grace period from now on
 * @sheaf: The sheaf, before others can see it there.
 *
 * Context: Any.
 */
void sheaf_check_queued(struct slab_sheaf *sheaf)
{
	note_put(cache_of(sheaf), sheaf);
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_check_queued);

/**
 * sheaf_check_released - note that a sheaf is given back, from wherever it was
 * @sheaf: The sheaf, which nobody else has.
 *
 * Context: Any.
 */
void sheaf_check_released(struct slab_sheaf *sheaf)
{
	sheaf_check_unused(sheaf);
	note_sheaf(cache_of(sheaf), sheaf, STATE_TAKEN);
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_check_released);

/**
 * sheaf_check_freed - check a sheaf the memory of which goes back
 * @s: The cache.
 * @sheaf: The sheaf, which nobody else has.
 *
 * Context: Any.
 */
void sheaf_check_freed(const struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	if (sheaf->size)
		sheaf_complain(s, "a sheaf that is freed with objects", sheaf);
	/* An object may begin there afterwards. */
	write_down(use_of(sheaf), STATE_UNKNOWN);
	if (note_sheaf(s, sheaf, STATE_FREED) == STATE_PUT)
		sheaf_complain(s, "a sheaf that is freed where it is", sheaf);
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_check_freed);

/*
 * The book
 */

static unsigned long *new_chapter(void)
{
	void *chapter = __vmalloc(CHAPTER_WORDS * sizeof(long),
				  GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN);

	/* There are no addresses in it. */
	kmemleak_no_scan(chapter);
	return chapter;
}

/* For memory that there is, by pages. A chapter that is missing is no error. */
static void add_chapters(unsigned long start, unsigned long end)
{
	unsigned long nr = start / CHAPTER_PAGES;

	end = min(DIV_ROUND_UP(end, CHAPTER_PAGES), nr_chapters);
	for (; nr < end; nr++)
		if (!book[nr])
			/* It is zeroed before anybody sees it. */
			smp_store_release(&book[nr], new_chapter());
}

static int book_notify(struct notifier_block *nb, unsigned long action,
		       void *data)
{
	struct memory_notify *notify = data;
	unsigned long end = notify->start_pfn + notify->nr_pages;

	if (action != MEM_ONLINE)
		return NOTIFY_OK;
	if (end > nr_chapters * CHAPTER_PAGES)
		pr_warn_once("DEBUG_SLAB_SHEAVES: memory is added that is not checked\n");
	add_chapters(notify->start_pfn, end);
	return NOTIFY_OK;
}

static int __init sheaf_check_init(void)
{
	unsigned long start, end;
	int i;

	/* Slabs are never in high memory. */
	if (IS_ENABLED(CONFIG_HIGHMEM))
		end = max_low_pfn;
	else
		end = max_t(u64, max_possible_pfn, PFN_UP(memblock_end_of_DRAM()));
	nr_chapters = DIV_ROUND_UP(end, CHAPTER_PAGES);
	book = vcalloc(nr_chapters, sizeof(*book));
	/* Who allocates says that there is no memory. Then nothing is checked. */
	if (!book)
		return -ENOMEM;
	for_each_mem_pfn_range(i, MAX_NUMNODES, &start, &end, NULL)
		add_chapters(start, end);
	hotplug_memory_notifier(book_notify, SLAB_CALLBACK_PRI);
	return 0;
}
early_initcall(sheaf_check_init);
