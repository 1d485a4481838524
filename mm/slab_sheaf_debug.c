// SPDX-License-Identifier: GPL-2.0
/*
 * DEBUG_SLAB_SHEAVES: every object is in one sheaf, every sheaf in one place
 *
 * A bug in the sheaf tier mostly shows late, and elsewhere: an object that is in two
 * sheaves is handed out twice, and two users write to it. KASAN and slab debugging do not
 * see it, the first because each of the users has allocated it, the other since caches
 * with debugging have no sheaves. So this keeps a book of its own.
 *
 * The book has two bits for each eight bytes of memory, a thirty-second part of it, which
 * say whether what begins there has been put somewhere, or taken from there. Of an object
 * that means a sheaf, whichever; of a sheaf, a barn or the place of a CPU's spare. What is
 * put must not be somewhere already, and what is taken must have been put. Of what began
 * before there was a book, nothing is known, and nothing is said, until it moves again.
 *
 * What goes into a sheaf has to be an object of its cache, from its first byte. One that
 * anybody may allocate from has no objects of KFENCE, which would not be guarded any more,
 * nor of the memory reserves. A full sheaf in a barn is full, an empty one empty, and a
 * sheaf that is freed is nowhere. What a barn counts is what there is: mm/slab_barn.c looks
 * after that itself.
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
#include <linux/kasan.h>
#include <linux/kfence.h>
#include <linux/memblock.h>
#include <linux/memory.h>
#include <linux/mm.h>
#include <linux/vmalloc.h>
#include <kunit/visibility.h>

#include "slab.h"
#include "slab_sheaf.h"

enum state { STATE_UNKNOWN, STATE_PUT, STATE_TAKEN };

#define STATE_BITS	2
#define STATE_MASK	(BIT(STATE_BITS) - 1)
/* Nothing that is put anywhere begins in the middle of eight bytes. */
#define GRANULE_SHIFT	3
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
 * Context: Any.
 */
void sheaf_complain(const struct kmem_cache *s, const char *what,
		    const void *which)
{
	atomic_inc(&sheaf_complaints);
	pr_err("SLUB %s: DEBUG_SLAB_SHEAVES: %s (%p)\n",
	       s ? s->name : "(which cache is unknown)", what, which);
	/* A test looks at how many there were. */
	WARN_ONCE(!slab_in_kunit_test(), "DEBUG_SLAB_SHEAVES, as said above");
}

/* What was known of it until now. */
static enum state write_down(const void *what, enum state state)
{
	unsigned long addr = __pa(kasan_reset_tag(what)), old, new;
	unsigned long **chapters = READ_ONCE(book);
	unsigned long *chapter, *word;
	unsigned int shift;

	if (!chapters || addr >> CHAPTER_SHIFT >= nr_chapters)
		return STATE_UNKNOWN;
	chapter = READ_ONCE(chapters[addr >> CHAPTER_SHIFT]);
	if (!chapter)
		return STATE_UNKNOWN;

	addr = (addr & (BIT(CHAPTER_SHIFT) - 1)) >> GRANULE_SHIFT;
	word = &chapter[addr / WORD_STATES];
	shift = addr % WORD_STATES * STATE_BITS;
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

/* What is no address at all others find out, who have to go on without it. */
static bool is_object(const struct kmem_cache *s, void *object)
{
	struct slab *slab = virt_to_slab(object);

	return slab && slab->slab_cache == s &&
	       kasan_reset_tag(object) ==
	       nearest_obj(slab->slab_cache, slab, kasan_reset_tag(object));
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
		if (!virt_addr_valid(*p))
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
		if (!virt_addr_valid(*p))
			continue;
		if (!is_kfence_address(*p) && !is_object(s, *p))
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
		if (!virt_addr_valid(*p))
			continue;
		if (!is_kfence_address(*p) && !is_object(s, *p))
			sheaf_complain(s, "no object of the cache, out of a sheaf", *p);
		if (write_down(*p, STATE_TAKEN) == STATE_TAKEN)
			sheaf_complain(s, "an object out of a sheaf in which it was not",
				       *p);
	}
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_check_out);

/*
 * Sheaves
 */

static void check_put(const struct kmem_cache *s, struct slab_sheaf *sheaf,
		      unsigned int size)
{
	if (sheaf->cache != s)
		sheaf_complain(s, "a sheaf of another cache", sheaf);
	if (sheaf->size != size || size > sheaf->capacity)
		sheaf_complain(s, "a sheaf with too many objects, or too few", sheaf);
	if (write_down(sheaf, STATE_PUT) == STATE_PUT)
		sheaf_complain(s, "a sheaf in two places", sheaf);
}

/**
 * sheaf_check_full - check a full sheaf that is to be put into a barn
 * @s: The cache.
 * @sheaf: The sheaf, before others can see it there.
 *
 * Context: Any.
 */
void sheaf_check_full(const struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	check_put(s, sheaf, sheaf->capacity);
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
	check_put(s, sheaf, 0);
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_check_empty);

/**
 * sheaf_check_spare - check a sheaf that becomes the spare of a CPU
 * @sheaf: The sheaf, before others can see it there.
 *
 * Context: Any.
 */
void sheaf_check_spare(struct slab_sheaf *sheaf)
{
	check_put(sheaf->cache, sheaf, sheaf->size);
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_check_spare);

/**
 * sheaf_check_taken - check a sheaf that was taken, or not accepted after all
 * @sheaf: The sheaf, which nobody else has.
 *
 * Context: Any.
 */
void sheaf_check_taken(struct slab_sheaf *sheaf)
{
	if (write_down(sheaf, STATE_TAKEN) == STATE_TAKEN)
		sheaf_complain(sheaf->cache, "a sheaf out of where it was not", sheaf);
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_check_taken);

/**
 * sheaf_check_used - check a sheaf that becomes the main of a CPU
 * @sheaf: The sheaf.
 *
 * Context: Any.
 */
void sheaf_check_used(struct slab_sheaf *sheaf)
{
	if (sheaf != slab_no_sheaf &&
	    write_down(sheaf, STATE_TAKEN) == STATE_PUT)
		sheaf_complain(sheaf->cache, "a sheaf in use that is somewhere else", sheaf);
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_check_used);

/**
 * sheaf_check_released - note that a sheaf is given back, from wherever it was
 * @sheaf: The sheaf, which nobody else has.
 *
 * Context: Any.
 */
void sheaf_check_released(struct slab_sheaf *sheaf)
{
	write_down(sheaf, STATE_TAKEN);
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
	if (write_down(sheaf, STATE_UNKNOWN) == STATE_PUT)
		sheaf_complain(s, "a sheaf that is freed where it is", sheaf);
}
EXPORT_SYMBOL_IF_KUNIT(sheaf_check_freed);

/*
 * The book
 */

static bool has_memory(unsigned long nr)
{
	unsigned long pfn = nr * CHAPTER_PAGES;
	unsigned long end = pfn + CHAPTER_PAGES;

	for (; pfn < end; pfn += pageblock_nr_pages)
		if (pfn_valid(pfn))
			return true;
	return false;
}

/* Chapter by chapter, for memory that there is. One that is missing is no error. */
static void add_chapters(unsigned long nr, unsigned long end)
{
	for (; nr < min(end, nr_chapters); nr++)
		if (!book[nr] && has_memory(nr))
			WRITE_ONCE(book[nr],
				   vzalloc(CHAPTER_WORDS * sizeof(long)));
}

#ifdef CONFIG_MEMORY_HOTPLUG
static int book_notify(struct notifier_block *nb, unsigned long action,
		       void *data)
{
	struct memory_notify *notify = data;
	unsigned long end = notify->start_pfn + notify->nr_pages;

	if (action == MEM_ONLINE)
		add_chapters(notify->start_pfn / CHAPTER_PAGES,
			     DIV_ROUND_UP(end, CHAPTER_PAGES));
	return NOTIFY_OK;
}
#endif

static int __init sheaf_check_init(void)
{
	nr_chapters = DIV_ROUND_UP(max_t(u64, max_possible_pfn, max_pfn),
				   CHAPTER_PAGES);
	book = vcalloc(nr_chapters, sizeof(*book));
	if (!book)
		return -ENOMEM;
	add_chapters(0, nr_chapters);
#ifdef CONFIG_MEMORY_HOTPLUG
	hotplug_memory_notifier(book_notify, SLAB_CALLBACK_PRI);
#endif
	return 0;
}
early_initcall(sheaf_check_init);
