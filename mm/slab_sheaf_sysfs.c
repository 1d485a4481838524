// SPDX-License-Identifier: GPL-2.0
/*
 * Files in /sys/kernel/slab/<cache>/ about sheaves
 *
 * mm/slub.c makes the directory of a cache, and has what slabs look like there, and
 * the counters of slabs and of all tiers together. What there is to know of sheaves
 * and barns is here. All of it is described in
 * Documentation/ABI/testing/sysfs-kernel-slab.
 */

#include <linux/delay.h>
#include <linux/export.h>
#include <linux/kstrtox.h>
#include <linux/limits.h>
#include <linux/moduleparam.h>
#include <linux/sched/signal.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <kunit/visibility.h>

#include "internal.h"
#include "slab_sheaf.h"

/**
 * slab_restart_write - have the write to a file of a cache begin anew
 *
 * For who could not have the locks that he needs, and must not wait for them here: see
 * sheaves_trylock().
 *
 * Context: Task that holds none of the locks that it could not have.
 * Return: What the file shall return.
 */
int slab_restart_write(void)
{
	/* Whoever has them may need this CPU. */
	msleep(20);
	return restart_syscall();
}

static int lock_in_file(void)
{
	return sheaves_trylock() ? 0 : slab_restart_write();
}

static ssize_t sheaf_capacity_show(struct kmem_cache *s, char *buf)
{
	return sysfs_emit(buf, "%u\n", sheaf_capacity(s));
}

static ssize_t sheaf_capacity_store(struct kmem_cache *s, const char *buf,
				    size_t length)
{
	unsigned int capacity;
	int err;

	err = kstrtouint(buf, 0, &capacity) ?: lock_in_file();
	if (err)
		return err;
	err = sheaves_resize(s, capacity);
	sheaves_unlock();
	return err ?: length;
}
SLAB_ATTR(sheaf_capacity);

/* More digits than the sum has */
#define SUM_DIGITS 24

/* The sum, which is that of the nodes that follow, though they are still used. */
static ssize_t sheaf_objects_show(struct kmem_cache *s, char *buf)
{
	unsigned long nr, sum = 0;
	int node, digits, len = 0;

	for_each_node(node) {
		nr = kmem_cache_cached_on_node(s, node);
		sum += nr;
		if (nr && IS_ENABLED(CONFIG_NUMA))
			len += sysfs_emit_at(buf, SUM_DIGITS + len, " N%d=%lu",
					     node, nr);
	}
	digits = sysfs_emit(buf, "%lu", sum);
	memmove(buf + digits, buf + SUM_DIGITS, len);
	return digits + len + sysfs_emit_at(buf, digits + len, "\n");
}
SLAB_ATTR_RO(sheaf_objects);

/* A number, or "auto" */
static int parse_limit(const char *buf, int *limit)
{
	unsigned int number;
	int err;

	if (sysfs_streq(buf, "auto")) {
		*limit = BARN_LIMIT_AUTO;
		return 0;
	}
	err = kstrtouint(buf, 0, &number);
	if (err)
		return err;
	if (number > INT_MAX)
		return -EINVAL;
	*limit = number;
	return 0;
}

/* What the barns of all nodes accept, the largest one. */
static ssize_t show_limit(struct kmem_cache *s, int limit, bool full, char *buf)
{
	struct node_barn **barns = READ_ONCE(s->barns);
	unsigned int most = 0;
	int node;

	if (limit != BARN_LIMIT_AUTO)
		return sysfs_emit(buf, "%d\n", limit);
	for_each_node(node) {
		struct node_barn *barn = barns ? READ_ONCE(barns[node]) : NULL;

		if (barn)
			most = max(most, full ? READ_ONCE(barn->max_full) :
						READ_ONCE(barn->max_empty));
	}
	return sysfs_emit(buf, "auto %u\n", most);
}

static ssize_t store_limits(struct kmem_cache *s, int max_full, int max_empty,
			    size_t length)
{
	int err = lock_in_file();

	if (err)
		return err;
	err = sheaves_set_barns(s, max_full, max_empty);
	sheaves_unlock();
	return err ?: length;
}

static ssize_t barn_max_full_show(struct kmem_cache *s, char *buf)
{
	return show_limit(s, READ_ONCE(s->barn_max_full), true, buf);
}

static ssize_t barn_max_full_store(struct kmem_cache *s, const char *buf,
				   size_t length)
{
	int limit, err = parse_limit(buf, &limit);

	return err ?: store_limits(s, limit, BARN_LIMIT_KEEP, length);
}
SLAB_ATTR(barn_max_full);

static ssize_t barn_max_empty_show(struct kmem_cache *s, char *buf)
{
	return show_limit(s, READ_ONCE(s->barn_max_empty), false, buf);
}

static ssize_t barn_max_empty_store(struct kmem_cache *s, const char *buf,
				    size_t length)
{
	int limit, err = parse_limit(buf, &limit);

	return err ?: store_limits(s, BARN_LIMIT_KEEP, limit, length);
}
SLAB_ATTR(barn_max_empty);

/*
 * Switches
 */

static const char * const mechanisms[] = {
	"slow_start", "growth", "working_set", "pressure",
};

static ssize_t show_feedback(char *buf, unsigned int feedback)
{
	unsigned int i;
	int len = 0;

	for (i = 0; i < ARRAY_SIZE(mechanisms); i++)
		len += sysfs_emit_at(buf, len, "%s%s%s", i ? " " : "",
				     feedback & BIT(i) ? "" : "no_",
				     mechanisms[i]);
	return len + sysfs_emit_at(buf, len, "\n");
}

static int parse_word(const char *word, size_t len, unsigned int *feedback)
{
	bool off = len > 3 && !strncmp(word, "no_", 3);
	unsigned int i;

	if (len == 3 && !strncmp(word, "all", 3)) {
		*feedback = BALANCE_ALL;
		return 0;
	}
	if (len == 4 && !strncmp(word, "none", 4)) {
		*feedback = 0;
		return 0;
	}
	if (off) {
		word += 3;
		len -= 3;
	}
	for (i = 0; i < ARRAY_SIZE(mechanisms); i++) {
		if (strlen(mechanisms[i]) != len ||
		    strncmp(mechanisms[i], word, len))
			continue;
		if (off)
			*feedback &= ~BIT(i);
		else
			*feedback |= BIT(i);
		return 0;
	}
	return -EINVAL;
}

/* Words with blanks or commas between them; those that are not named stay. */
static int parse_feedback(const char *buf, unsigned int *feedback)
{
	static const char * const between = " ,\t\n";
	unsigned int found = *feedback;
	size_t len;

	for (buf += strspn(buf, between); *buf; buf += strspn(buf, between)) {
		len = strcspn(buf, between);
		if (parse_word(buf, len, &found))
			return -EINVAL;
		buf += len;
	}
	*feedback = found;
	return 0;
}

static ssize_t sheaf_feedback_show(struct kmem_cache *s, char *buf)
{
	return show_feedback(buf, READ_ONCE(s->feedback));
}

static ssize_t sheaf_feedback_store(struct kmem_cache *s, const char *buf,
				    size_t length)
{
	unsigned int feedback;
	int err = lock_in_file();

	if (err)
		return err;
	/* What is not named stays as it is. */
	feedback = s->feedback;
	err = parse_feedback(buf, &feedback);
	if (!err)
		sheaves_set_feedback(s, feedback);
	sheaves_unlock();
	return err ?: length;
}
SLAB_ATTR(sheaf_feedback);

/* Of all caches: /sys/module/slab_sheaf/parameters/feedback, and on the command line. */
static int set_slab_feedback(const char *val, const struct kernel_param *kp)
{
	unsigned int feedback = READ_ONCE(slab_feedback);
	int err = parse_feedback(val, &feedback);

	if (err) {
		pr_err("slab_sheaf.feedback=%s: words are all, none, slow_start, growth, working_set, pressure, and these with no_\n",
		       val);
		return err;
	}
	sheaves_set_all_feedback(feedback);
	return 0;
}

static int get_slab_feedback(char *buf, const struct kernel_param *kp)
{
	return show_feedback(buf, READ_ONCE(slab_feedback));
}

static const struct kernel_param_ops feedback_ops = {
	.set = set_slab_feedback,
	.get = get_slab_feedback,
};

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "slab_sheaf."
module_param_cb(feedback, &feedback_ops, NULL,
		IS_ENABLED(CONFIG_SLAB_SHEAF_HARDENED) ? 0600 : 0644);

/*
 * Counters
 */

#ifdef CONFIG_SLUB_STATS
STAT_ATTR(SHEAF_ALLOC, sheaf_alloc);
STAT_ATTR(SHEAF_FREE, sheaf_free);
STAT_ATTR(SHEAF_REFILL, sheaf_refill);
STAT_ATTR(SHEAF_FLUSH, sheaf_flush);
STAT_ATTR(BARN_GET, barn_get);
STAT_ATTR(BARN_GET_FAIL, barn_get_fail);
STAT_ATTR(BARN_PUT, barn_put);
STAT_ATTR(BARN_PUT_FAIL, barn_put_fail);
STAT_ATTR(SHEAF_PREFILL_FAST, sheaf_prefill_fast);
STAT_ATTR(SHEAF_PREFILL_SLOW, sheaf_prefill_slow);
STAT_ATTR(SHEAF_PREFILL_OVERSIZE, sheaf_prefill_oversize);
STAT_ATTR(SHEAF_RETURN_FAST, sheaf_return_fast);
STAT_ATTR(SHEAF_RETURN_SLOW, sheaf_return_slow);
STAT_ATTR(FREE_RCU_SHEAF, free_rcu_sheaf);
STAT_ATTR(FREE_RCU_SHEAF_FAIL, free_rcu_sheaf_fail);

/* What feedback has decided. In one file, as such decisions are rare. */
static ssize_t sheaf_decisions_show(struct kmem_cache *s, char *buf)
{
	return sysfs_emit(buf, "barn_grow %lu barn_shrink %lu sheaf_trim %lu\n",
			  kmem_cache_stat_sum(s, BARN_GROW),
			  kmem_cache_stat_sum(s, BARN_SHRINK),
			  kmem_cache_stat_sum(s, SHEAF_TRIM));
}

static ssize_t sheaf_decisions_store(struct kmem_cache *s, const char *buf,
				     size_t length)
{
	if (buf[0] != '0')
		return -EINVAL;
	slab_clear_stat(s, BARN_GROW);
	slab_clear_stat(s, BARN_SHRINK);
	slab_clear_stat(s, SHEAF_TRIM);
	return length;
}
SLAB_ATTR(sheaf_decisions);
#endif

static struct attribute *sheaf_attrs[] = {
	&sheaf_capacity_attr.attr,
	&sheaf_objects_attr.attr,
	&sheaf_feedback_attr.attr,
	&barn_max_full_attr.attr,
	&barn_max_empty_attr.attr,
#ifdef CONFIG_SLUB_STATS
	&sheaf_alloc_attr.attr,
	&sheaf_free_attr.attr,
	&sheaf_refill_attr.attr,
	&sheaf_flush_attr.attr,
	&barn_get_attr.attr,
	&barn_get_fail_attr.attr,
	&barn_put_attr.attr,
	&barn_put_fail_attr.attr,
	&sheaf_decisions_attr.attr,
	&sheaf_prefill_fast_attr.attr,
	&sheaf_prefill_slow_attr.attr,
	&sheaf_prefill_oversize_attr.attr,
	&sheaf_return_fast_attr.attr,
	&sheaf_return_slow_attr.attr,
	&free_rcu_sheaf_attr.attr,
	&free_rcu_sheaf_fail_attr.attr,
#endif
	NULL
};

/*
 * There are some 150 caches, and a file takes 600 instructions to remove and more to
 * read: those that never have sheaves only say that they have none.
 */
static umode_t sheaf_attr_visible(struct kobject *kobj, struct attribute *attr,
				  int index)
{
	if (attr != &sheaf_capacity_attr.attr &&
	    slab_rules_out_sheaves(to_slab(kobj)))
		return 0;
	return attr->mode;
}

const struct attribute_group slab_sheaf_attr_group = {
	.attrs = sheaf_attrs,
	.is_visible = sheaf_attr_visible,
};
EXPORT_SYMBOL_IF_KUNIT(slab_sheaf_attr_group);
