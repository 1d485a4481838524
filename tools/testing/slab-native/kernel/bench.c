// SPDX-License-Identifier: GPL-2.0
/*
 * Runs lib/tests/slab_bench_kunit.c, as it is, and as much of KUnit as it takes:
 * suites, cases with parameters, assertions that end a case, skipping, and actions
 * that are due at the end of a case. The output is that of KUnit.
 */

#include <kunit/test.h>
#include <linux/moduleparam.h>
#include <linux/string.h>

#include "native.h"

#define MAX_ACTIONS	16

static struct {
	kunit_action_t *fn;
	void *ctx;
} actions[MAX_ACTIONS];
static unsigned int nr_actions;

int kunit_add_action_or_reset(struct kunit *test, kunit_action_t *action, void *ctx)
{
	if (nr_actions == MAX_ACTIONS)
		native_die("more actions than %u", MAX_ACTIONS);
	actions[nr_actions].fn = action;
	actions[nr_actions++].ctx = ctx;
	return 0;
}

void __noreturn kunit_try_catch_throw(struct kunit_try_catch *try_catch)
{
	host_throw();
}

void __noreturn __kunit_abort(struct kunit *test)
{
	host_throw();
}

void __kunit_do_failed_assertion(struct kunit *test, const struct kunit_loc *loc,
				 enum kunit_assert_type type,
				 const struct kunit_assert *assert,
				 assert_format_t format, const char *fmt, ...)
{
	test->status = KUNIT_FAILURE;
	pr_info("    # an assertion fails at %s:%d\n", loc->file, loc->line);
}

#define NO_FORMAT(name)							\
	void name(const struct kunit_assert *assert,			\
		  const struct va_format *message,			\
		  struct string_stream *stream)				\
	{								\
	}

NO_FORMAT(kunit_unary_assert_format)
NO_FORMAT(kunit_binary_assert_format)
NO_FORMAT(kunit_binary_ptr_assert_format)

static void set_param(const char *name, const void *value, size_t size)
{
	const struct kernel_param *p;

	for (p = __start___param; p < __stop___param; p++) {
		const char *dot = strchr(p->name, '.');

		/* with or without the module in front */
		if (!strcmp(dot ? dot + 1 : p->name, name)) {
			memcpy(p->arg, value, size);
			return;
		}
	}
	native_die("the benchmarks have no parameter %s", name);
}

struct call {
	struct kunit *test;
	struct kunit_case *c;
};

static void run_case(void *arg)
{
	struct call *call = arg;

	call->c->run_case(call->test);
}

/* One case, or one parameter of a case. */
static enum kunit_status run_one(struct kunit *test, struct kunit_case *c,
				 const char *indent, unsigned int nr, const char *name)
{
	struct call call = { .test = test, .c = c };

	test->status = KUNIT_SUCCESS;
	test->status_comment[0] = 0;
	nr_actions = 0;
	host_catch(run_case, &call);
	while (nr_actions) {
		nr_actions--;
		actions[nr_actions].fn(actions[nr_actions].ctx);
	}
	pr_info("%s%sok %u %s%s%s\n", indent, test->status == KUNIT_FAILURE ? "not " : "",
		nr, name, test->status == KUNIT_SKIPPED ? " # SKIP " : "",
		test->status_comment);
	return test->status;
}

static bool run_case_of(struct kunit *test, struct kunit_case *c, unsigned int nr)
{
	char desc[KUNIT_PARAM_DESC_SIZE];
	unsigned int n = 0;
	bool good = true;

	if (!c->generate_params)
		return run_one(test, c, "    ", nr, c->name) != KUNIT_FAILURE;

	pr_info("        KTAP version 1\n        # Subtest: %s\n", c->name);
	test->param_value = NULL;
	for (;;) {
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 15, 0)
		test->param_value = c->generate_params(test, test->param_value, desc);
#else
		test->param_value = c->generate_params(test->param_value, desc);
#endif
		if (!test->param_value)
			break;
		if (run_one(test, c, "        ", ++n, desc) == KUNIT_FAILURE)
			good = false;
	}
	pr_info("    %sok %u %s\n", good ? "" : "not ", nr, c->name);
	return good;
}

int native_bench(const char *groups, const char *match, unsigned int rounds,
		 unsigned int objects)
{
	static struct kunit test;
	struct kunit_suite *suite = __start_kunit_suites[0];
	struct kunit_case *c;
	unsigned int nr = 0;
	bool good = true;

	set_param("groups", &groups, sizeof(groups));
	set_param("match", &match, sizeof(match));
	set_param("rounds", &rounds, sizeof(rounds));
	set_param("objects", &objects, sizeof(objects));

	pr_info("KTAP version 1\n    KTAP version 1\n    # Subtest: %s\n", suite->name);
	for (c = suite->test_cases; c->run_case; c++)
		good &= run_case_of(&test, c, ++nr);
	pr_info("%sok 1 %s\n", good ? "" : "not ", suite->name);
	return !good;
}
