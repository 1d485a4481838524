// SPDX-License-Identifier: GPL-2.0
/*
 * What sanitizers must be told, and what the kernel's way to use them wants: nothing
 * without one.
 */

#include "../abi.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>

void host_san_poison(void *p, unsigned long size)
{
	__asan_poison_memory_region(p, size);
}

void host_san_unpoison(void *p, unsigned long size)
{
	__asan_unpoison_memory_region(p, size);
}
#else
void host_san_poison(void *p, unsigned long size) { }
void host_san_unpoison(void *p, unsigned long size) { }
#endif

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>

void host_san_acquire(void *p)
{
	__tsan_acquire(p);
}

void host_san_release(void *p)
{
	__tsan_release(p);
}

/*
 * READ_ONCE() and WRITE_ONCE(). What is marked so is not a race, whatever is on the
 * other side, as by default for KCSAN.
 */
#define VOLATILE(size)							\
	HOST void __tsan_volatile_read##size(void *p) { }		\
	HOST void __tsan_volatile_write##size(void *p) { }

VOLATILE(1)
VOLATILE(2)
VOLATILE(4)
VOLATILE(8)
#else
void host_san_acquire(void *p) { }
void host_san_release(void *p) { }
#endif
