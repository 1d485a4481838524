// SPDX-License-Identifier: GPL-2.0
/*
 * The page allocator. Each node with memory has an arena and, for each order, a
 * list of free pages, last in, first out. Pages are cut from the arena when a list
 * is empty, and never joined again. Which node an allocation comes from follows the
 * zonelists, as in a kernel: the own node if it has memory, then those that are near.
 *
 * There are no per-CPU page lists, no watermarks and no reclaim: an allocation fails
 * when the arena is used up.
 */

#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/nodemask.h>
#include <linux/spinlock.h>
#include <linux/topology.h>
#include <linux/vmalloc.h>

#include "native.h"

#define NODE_SHIFT	28	/* 256 MB for each node */
#define NODE_PAGES	(1UL << (NODE_SHIFT - PAGE_SHIFT))
#define WARM_PAGES	(SZ_32M >> PAGE_SHIFT)
#define NEW_PAGES	(LINUX_VERSION_CODE >= KERNEL_VERSION(6, 15, 0))

/* For these, addresses and page frame numbers are what the headers make of them. */
unsigned long page_offset_base;
unsigned long vmemmap_base;
unsigned long vmalloc_base;
unsigned long phys_base;

struct arena {
	spinlock_t lock;		/* protects the rest */
	unsigned long next, end;	/* page frame numbers */
	struct list_head free[MAX_PAGE_ORDER + 1];
} ____cacheline_aligned;

static struct arena arenas[NATIVE_MAX_NODES];
static unsigned int nr_nodes;
static atomic_long_t pages_in_use;

static void init_zonelist(struct pglist_data *pgdat, unsigned int memory)
{
	struct zoneref *z = pgdat->node_zonelists[ZONELIST_FALLBACK]._zonerefs;
	int nid = pgdat->node_id;
	unsigned int far;
	int i;

	for (far = 0; far < nr_nodes; far++) {
		for (i = 0; i < 2; i++) {
			int other = i ? nid + (int)far : nid - (int)far;

			if (other < 0 || other >= nr_nodes ||
			    !(memory & BIT(other)) || (i && !far))
				continue;
			z->zone = &NODE_DATA(other)->node_zones[ZONE_NORMAL];
			z->zone_idx = ZONE_NORMAL;
			z++;
		}
	}
	z->zone = NULL;
}

void native_pages_init(const struct native_machine *m)
{
	char *memory;
	int nid, order;

	nr_nodes = m->nr_nodes;
	memory = host_map((unsigned long)nr_nodes << NODE_SHIFT, SZ_1G);
	page_offset_base = (unsigned long)memory;
	vmemmap_base = (unsigned long)host_map(nr_nodes * NODE_PAGES * sizeof(struct page),
					       SZ_1G);

	for (nid = 0; nid < nr_nodes; nid++) {
		struct arena *a = &arenas[nid];

		node_data[nid] = host_map(sizeof(struct pglist_data), PAGE_SIZE);
		NODE_DATA(nid)->node_id = nid;
		spin_lock_init(&a->lock);
		a->next = nid * NODE_PAGES;
		a->end = (nid + 1) * NODE_PAGES;
		for (order = 0; order <= MAX_PAGE_ORDER; order++)
			INIT_LIST_HEAD(&a->free[order]);
		for (order = 0; order < MAX_NR_ZONES; order++) {
			NODE_DATA(nid)->node_zones[order].node = nid;
			NODE_DATA(nid)->node_zones[order].zone_pgdat = NODE_DATA(nid);
		}
		/* A first touch is not what is to be measured. */
		if (m->memory & BIT(nid)) {
			NODE_DATA(nid)->node_present_pages = NODE_PAGES;
			memset(memory + ((unsigned long)nid << NODE_SHIFT), 0,
			       WARM_PAGES << PAGE_SHIFT);
			memset(pfn_to_page(a->next), 0,
			       WARM_PAGES * sizeof(struct page));
		}
	}
	for (nid = 0; nid < nr_nodes; nid++)
		init_zonelist(NODE_DATA(nid), m->memory);
}

unsigned long native_direct_size(void)
{
	return (unsigned long)nr_nodes << NODE_SHIFT;
}

bool native_is_direct(const void *p)
{
	return (unsigned long)p - page_offset_base < native_direct_size();
}

long native_pages_in_use(void)
{
	return atomic_long_read(&pages_in_use);
}

static struct page *cut_pages(struct arena *a, unsigned int order, int nid)
{
	unsigned long pfn = ALIGN(a->next, 1UL << order);
	unsigned long i;

	if (pfn + (1UL << order) > a->end)
		return NULL;
	a->next = pfn + (1UL << order);
	for (i = pfn; i < a->next; i++)
		set_page_links(pfn_to_page(i), ZONE_NORMAL, nid, i);
	return pfn_to_page(pfn);
}

static void make_compound(struct page *page, unsigned int order)
{
	unsigned long i;

	__SetPageHead(page);
	for (i = 1; i < 1UL << order; i++) {
		set_page_count(page + i, 0);
#if NEW_PAGES
		set_compound_head(page + i, page, order);
#else
		set_compound_head(page + i, page);
#endif
	}
	/* the order is in the low bits of the flags of the first tail page */
	*(unsigned long *)(page + 1) &= ~0xffUL;
	*(unsigned long *)(page + 1) |= order;
#if NEW_PAGES
	((struct folio *)page)->_nr_pages = 1U << order;
#else
	((struct folio *)page)->_folio_nr_pages = 1U << order;
#endif
}

static void unmake_compound(struct page *page, unsigned int order)
{
	unsigned long i;

	if (!PageHead(page))
		return;
	__ClearPageHead(page);
	*(unsigned long *)(page + 1) &= ~0xffUL;
	for (i = 1; i < 1UL << order; i++)
		clear_compound_head(page + i);
}

static struct page *get_pages(unsigned int order, int nid, gfp_t gfp)
{
	struct arena *a = &arenas[nid];
	struct page *page;
	unsigned long flags;

	spin_lock_irqsave(&a->lock, flags);
	page = list_first_entry_or_null(&a->free[order], struct page, lru);
	if (page)
		list_del(&page->lru);
	else
		page = cut_pages(a, order, nid);
	spin_unlock_irqrestore(&a->lock, flags);
	if (!page)
		return NULL;

	host_san_unpoison(page_address(page), PAGE_SIZE << order);
	atomic_long_add(1L << order, &pages_in_use);
	set_page_count(page, 1);
	atomic_set(&page->_mapcount, -1);
	page->mapping = NULL;
	page->private = 0;
	if (gfp & __GFP_COMP && order)
		make_compound(page, order);
	if (gfp & __GFP_ZERO)
		memset(page_address(page), 0, PAGE_SIZE << order);
	return page;
}

/* Now and then, who may sleep does, and wakes up elsewhere. Others fail. */
static bool bad_luck(gfp_t gfp)
{
	if (!native_chaos)
		return false;
	if (gfpflags_allow_blocking(gfp)) {
		if (!native_random(4))
			native_sleep();
		return false;
	}
	return !native_random(32);
}

static struct page *take(gfp_t gfp, unsigned int order, int nid)
{
	struct page *page = NULL;
	struct zoneref *z;

	if (nid == NUMA_NO_NODE)
		nid = numa_node_id();
	if (bad_luck(gfp))
		return NULL;
	for (z = NODE_DATA(nid)->node_zonelists[ZONELIST_FALLBACK]._zonerefs;
	     z->zone && !page; z++) {
		if (gfp & __GFP_THISNODE && zone_to_nid(z->zone) != nid)
			break;
		page = get_pages(order, zone_to_nid(z->zone), gfp);
	}
	return page;
}

static void give_back(struct page *page, unsigned int order)
{
	struct arena *a = &arenas[page_to_nid(page)];
	unsigned long flags;

	unmake_compound(page, order);
	set_page_count(page, 0);
	atomic_long_sub(1L << order, &pages_in_use);
	spin_lock_irqsave(&a->lock, flags);
	list_add(&page->lru, &a->free[order]);
	spin_unlock_irqrestore(&a->lock, flags);
}

struct page *alloc_pages_noprof(gfp_t gfp, unsigned int order)
{
	return take(gfp, order, NUMA_NO_NODE);
}

struct page *__alloc_pages_noprof(gfp_t gfp, unsigned int order, int nid, nodemask_t *mask)
{
	return take(gfp, order, nid);
}

void __free_pages(struct page *page, unsigned int order)
{
	if (put_page_testzero(page))
		give_back(page, order);
}

unsigned long get_free_pages_noprof(gfp_t gfp, unsigned int order)
{
	struct page *page = take(gfp, order, NUMA_NO_NODE);

	return page ? (unsigned long)page_address(page) : 0;
}

void free_pages(unsigned long addr, unsigned int order)
{
	if (addr)
		__free_pages(virt_to_page((void *)addr), order);
}

void __folio_put(struct folio *folio)
{
	give_back(&folio->page, folio_order(folio));
}

#if NEW_PAGES
/* "Frozen" pages have no reference count. */
struct page *__alloc_frozen_pages_noprof(gfp_t gfp, unsigned int order, int nid,
					 nodemask_t *mask);
struct page *__alloc_frozen_pages_noprof(gfp_t gfp, unsigned int order, int nid,
					 nodemask_t *mask)
{
	struct page *page = take(gfp, order, nid);

	if (page)
		set_page_count(page, 0);
	return page;
}

struct page *alloc_frozen_pages_noprof(gfp_t gfp, unsigned int order);
struct page *alloc_frozen_pages_noprof(gfp_t gfp, unsigned int order)
{
	return __alloc_frozen_pages_noprof(gfp, order, NUMA_NO_NODE, NULL);
}

void free_frozen_pages(struct page *page, unsigned int order);
void free_frozen_pages(struct page *page, unsigned int order)
{
	give_back(page, order);
}
#endif

struct zoneref *__next_zones_zonelist(struct zoneref *z, enum zone_type highest,
				      nodemask_t *nodes)
{
	while (z->zone && nodes && !node_isset(zone_to_nid(z->zone), *nodes))
		z++;
	return z;
}

bool __virt_addr_valid(unsigned long x)
{
	return native_is_direct((void *)x);
}

/*
 * vmalloc(): a mapping for each, with the size in a page in front
 */

bool is_vmalloc_addr(const void *x)
{
	return x && !native_is_direct(x);
}

void *vzalloc_noprof(unsigned long size)
{
	unsigned long *p = host_map(PAGE_ALIGN(size) + PAGE_SIZE, PAGE_SIZE);

	*p = PAGE_ALIGN(size) + PAGE_SIZE;
	return (char *)p + PAGE_SIZE;
}

void vfree(const void *addr)
{
	unsigned long *p = (unsigned long *)((char *)addr - PAGE_SIZE);

	if (addr)
		host_unmap(p, *p);
}
