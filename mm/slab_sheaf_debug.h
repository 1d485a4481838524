/* SPDX-License-Identifier: GPL-2.0 */
#ifndef MM_SLAB_SHEAF_DEBUG_H
#define MM_SLAB_SHEAF_DEBUG_H

/*
 * What looks after the sheaf tier: see the comment at the head of mm/slab_sheaf_debug.c.
 * Without DEBUG_SLAB_SHEAVES there is nothing of it.
 */

#include <linux/atomic.h>

struct kmem_cache;
struct slab_sheaf;
struct slub_percpu_sheaves;

#ifdef CONFIG_DEBUG_SLAB_SHEAVES
extern atomic_t sheaf_complaints;

void sheaf_complain(const struct kmem_cache *s, const char *what,
		    const void *which);
void sheaf_check_fits(const struct kmem_cache *s, void **p, unsigned int nr);
void sheaf_check_in(const struct kmem_cache *s, void **p, unsigned int nr);
void sheaf_check_out(const struct kmem_cache *s, void **p, unsigned int nr);
void sheaf_check_nowhere(const struct kmem_cache *s, void **p, unsigned int nr);
void sheaf_check_new(struct slab_sheaf *sheaf);
void sheaf_check_full(const struct kmem_cache *s, struct slab_sheaf *sheaf);
void sheaf_check_empty(const struct kmem_cache *s, struct slab_sheaf *sheaf);
void sheaf_check_spare(const struct slub_percpu_sheaves *pcs,
		       struct slab_sheaf *sheaf);
void sheaf_check_got(const struct kmem_cache *s, struct slab_sheaf *sheaf,
		     bool full);
void sheaf_check_taken(struct slab_sheaf *sheaf);
void sheaf_check_refused(struct slab_sheaf *sheaf);
void sheaf_check_used(const struct slub_percpu_sheaves *pcs,
		      struct slab_sheaf *sheaf);
void sheaf_check_unused(struct slab_sheaf *sheaf);
void sheaf_check_queued(struct slab_sheaf *sheaf);
void sheaf_check_released(struct slab_sheaf *sheaf);
void sheaf_check_freed(const struct kmem_cache *s, struct slab_sheaf *sheaf);
#else
/* What calls them is the same code as if they were not there. */
static __always_inline void
sheaf_complain(const struct kmem_cache *s, const char *what,
	       const void *which) { }
static __always_inline void
sheaf_check_fits(const struct kmem_cache *s, void **p, unsigned int nr) { }
static __always_inline void
sheaf_check_in(const struct kmem_cache *s, void **p, unsigned int nr) { }
static __always_inline void
sheaf_check_out(const struct kmem_cache *s, void **p, unsigned int nr) { }
static __always_inline void
sheaf_check_nowhere(const struct kmem_cache *s, void **p, unsigned int nr) { }
static __always_inline void sheaf_check_new(struct slab_sheaf *sheaf) { }
static __always_inline void
sheaf_check_full(const struct kmem_cache *s, struct slab_sheaf *sheaf) { }
static __always_inline void
sheaf_check_empty(const struct kmem_cache *s, struct slab_sheaf *sheaf) { }
static __always_inline void
sheaf_check_spare(const struct slub_percpu_sheaves *pcs,
		  struct slab_sheaf *sheaf) { }
static __always_inline void
sheaf_check_got(const struct kmem_cache *s, struct slab_sheaf *sheaf,
		bool full) { }
static __always_inline void sheaf_check_taken(struct slab_sheaf *sheaf) { }
static __always_inline void sheaf_check_refused(struct slab_sheaf *sheaf) { }
static __always_inline void
sheaf_check_used(const struct slub_percpu_sheaves *pcs,
		 struct slab_sheaf *sheaf) { }
static __always_inline void sheaf_check_unused(struct slab_sheaf *sheaf) { }
static __always_inline void sheaf_check_queued(struct slab_sheaf *sheaf) { }
static __always_inline void sheaf_check_released(struct slab_sheaf *sheaf) { }
static __always_inline void
sheaf_check_freed(const struct kmem_cache *s, struct slab_sheaf *sheaf) { }
#endif

#endif /* MM_SLAB_SHEAF_DEBUG_H */
