/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SLAB_BALANCE_KUNIT_TEST_H
#define SLAB_BALANCE_KUNIT_TEST_H

/* As much of KUnit as tests that are arithmetic need. */

#include "../kernel.h"

struct kunit {
	unsigned int failed;
	void *memory;		/* One piece, until the test has ended. */
};

struct kunit_case {
	void (*run)(struct kunit *test);
	const char *name;
};

struct kunit_suite {
	const char *name;
	struct kunit_case *test_cases;
};

#define KUNIT_CASE(function)	{ .run = function, .name = #function }

#define kunit_test_suite(suite)	\
	static struct kunit_suite *the_suite = &(suite)

#define kunit_kcalloc(test, n, size, gfp) ((test)->memory = calloc(n, size))

#define KUNIT_COMPARE(test, left, op, right)				\
do {									\
	long __left = (left), __right = (right);			\
									\
	if (__left op __right)						\
		break;							\
	(test)->failed++;						\
	printf("# %s:%d: expected %s %s %s, but these are %ld and %ld\n", \
	       __FILE__, __LINE__, #left, #op, #right, __left, __right); \
} while (0)

#define KUNIT_EXPECT_EQ(test, left, right) KUNIT_COMPARE(test, left, ==, right)
#define KUNIT_EXPECT_GE(test, left, right) KUNIT_COMPARE(test, left, >=, right)
#define KUNIT_EXPECT_GT(test, left, right) KUNIT_COMPARE(test, left, >, right)
#define KUNIT_EXPECT_LE(test, left, right) KUNIT_COMPARE(test, left, <=, right)
#define KUNIT_EXPECT_LT(test, left, right) KUNIT_COMPARE(test, left, <, right)
#define KUNIT_EXPECT_TRUE(test, what) KUNIT_COMPARE(test, !!(what), ==, 1)
#define KUNIT_EXPECT_FALSE(test, what) KUNIT_COMPARE(test, !!(what), ==, 0)

#define KUNIT_ASSERT_NOT_NULL(test, pointer)				\
do {									\
	if (!(pointer))							\
		abort();						\
} while (0)

#endif /* SLAB_BALANCE_KUNIT_TEST_H */
