/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Comes before all else in files that are compiled with the thread sanitizer. It does not
 * see what inline assembly orders: who takes something away by xchg() has seen all that
 * was done to it by who stored it.
 */
#undef MODULE
#include <linux/atomic.h>

#include "../abi.h"

#undef xchg
#define xchg(ptr, v)						\
({								\
	typeof(ptr) __p = (ptr);				\
	typeof(*__p) __old;					\
								\
	host_san_release((void *)__p);				\
	__old = raw_xchg(__p, v);				\
	host_san_acquire((void *)__p);				\
	__old;							\
})

#undef smp_store_release
/* pairs with whoever takes it away, see above */
#define smp_store_release(ptr, v)				\
do {								\
	typeof(ptr) __p = (ptr);				\
								\
	host_san_release((void *)__p);				\
	WRITE_ONCE(*__p, v);					\
} while (0)
