/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SLAB_BALANCE_KERNEL_H
#define SLAB_BALANCE_KERNEL_H

/* What mm/slab_balance.c and its KUnit tests need of a kernel. */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HZ			250

#define READ_ONCE(x)		(*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, value)	(*(volatile typeof(x) *)&(x) = (value))

#define min(a, b)		((a) < (b) ? (a) : (b))
#define max(a, b)		((a) > (b) ? (a) : (b))
#define min_t(type, a, b)	min((type)(a), (type)(b))
#define max_t(type, a, b)	max((type)(a), (type)(b))
#define clamp(x, low, high)	min(max(x, low), high)
#define clamp_t(type, x, low, high) clamp((type)(x), (type)(low), (type)(high))

#define ARRAY_SIZE(a)		(sizeof(a) / sizeof((a)[0]))
#define GFP_KERNEL		0

#define EXPORT_SYMBOL_IF_KUNIT(symbol)
#define MODULE_DESCRIPTION(text)
#define MODULE_LICENSE(text)
#define MODULE_IMPORT_NS(name)

#endif /* SLAB_BALANCE_KERNEL_H */
