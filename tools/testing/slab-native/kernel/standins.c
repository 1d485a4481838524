// SPDX-License-Identifier: GPL-2.0
/*
 * What else the allocator and the benchmarks call, as little of it as will do:
 * printk, locks that sleep, work items, threads, CPU and memory hotplug, and
 * /sys/kernel/slab. What has nothing to do but to be there is in nothing.S.
 */

#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/kobject.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/memory.h>
#include <linux/mempolicy.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/mutex.h>
#include <linux/random.h>
#include <linux/ratelimit.h>
#include <linux/seq_file.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/topology.h>
#include <linux/uaccess.h>
#include <linux/vmstat.h>
#include <linux/workqueue.h>

#include "native.h"

gfp_t gfp_allowed_mask = __GFP_BITS_MASK;
#undef jiffies
unsigned long volatile jiffies;
struct kobject *kernel_kobj;
struct workqueue_struct *system_highpri_wq;
struct workqueue_struct *system_unbound_wq;
atomic_long_t _totalram_pages = ATOMIC_LONG_INIT(1L << 18);
atomic_long_t vm_node_stat[NR_VM_NODE_STAT_ITEMS];
int rcu_scheduler_active = 2;
DEFINE_STATIC_KEY_FALSE(init_on_alloc);
DEFINE_STATIC_KEY_FALSE(init_on_free);
DEFINE_STATIC_KEY_FALSE(kunit_running);
#ifdef CONFIG_MEMCG
struct static_key_false memcg_kmem_online_key = STATIC_KEY_FALSE_INIT;
#endif
char __lock_text_start[1], __lock_text_end[1];

/*
 * Output. An error is what the kernel would print with at least KERN_ERR, or any
 * WARN() or BUG().
 */

static void print(const char *fmt, va_list args)
{
	char line[1024];
	int level, len;

	len = vscnprintf(line, sizeof(line), fmt, args);
	level = printk_get_level(line);
	if (level >= '0' && level <= '3')
		native_errors++;
	host_write(level ? line + 2 : line, level ? len - 2 : len);
}

int _printk(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	print(fmt, args);
	va_end(args);
	return 0;
}

void __warn_printk(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	print(fmt, args);
	va_end(args);
}

void panic(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	print(fmt, args);
	va_end(args);
	native_die("panic");
}

void native_missing(const char *name);
void native_missing(const char *name)
{
	native_die("%s() is called, and there is none", name);
}

/* WARN() in kernels in which it is a call. */
void native_warn_trap(struct bug_entry *bug);
void native_warn_trap(struct bug_entry *bug)
{
	native_errors++;
	pr_info("slab-native: WARNING\n");
}

/*
 * Names of caches are not copied. When one is freed, the cache is, too, as soon as
 * it can be: whoever gets its memory next has seen what was done to it.
 */
void kfree_const(const void *x)
{
	host_san_release(&native_errors);
}

/*
 * Locks that sleep
 */

void mutex_lock(struct mutex *lock)
{
	while (!mutex_trylock(lock))
		native_sleep();
}

int mutex_trylock(struct mutex *lock)
{
	if (atomic_long_cmpxchg_acquire(&lock->owner, 0, (unsigned long)current))
		return 0;
	host_san_acquire(lock);
	return 1;
}

void mutex_unlock(struct mutex *lock)
{
	host_san_release(lock);
	atomic_long_set_release(&lock->owner, 0);
}

/* Readers, or -1 for a writer. */
static atomic_t cpus_lock;

void cpus_read_lock(void)
{
	while (!atomic_add_unless(&cpus_lock, 1, -1))
		native_sleep();
}

int cpus_read_trylock(void)
{
	return atomic_add_unless(&cpus_lock, 1, -1);
}

void cpus_read_unlock(void)
{
	atomic_dec(&cpus_lock);
}

void cpus_write_lock(void)
{
	while (atomic_cmpxchg(&cpus_lock, 0, -1))
		native_sleep();
}

void cpus_write_unlock(void)
{
	atomic_set(&cpus_lock, 0);
}

void lockdep_assert_cpus_held(void)
{
	WARN_ON(!atomic_read(&cpus_lock));
}

/*
 * Work: runs on its CPU when somebody waits for it, and be it him who runs it.
 */

/* In work->data: that it is queued, and for which CPU. */
#define WORK_QUEUED	0x51ab0000L

bool queue_work_on(int cpu, struct workqueue_struct *wq, struct work_struct *work)
{
	return atomic_long_xchg(&work->data, WORK_QUEUED + cpu) != WORK_QUEUED + cpu;
}

/* On its CPU if that is online, and stays it on the way there: else on any, as a workqueue. */
static void run_work(struct work_struct *work, long cpu)
{
	struct native_task *t = native_current();
	bool was_bound = t->bound;
	int home;

	t->bound = true;
	home = t->cpu;
	if (cpu < nr_cpu_ids && cpu_online(cpu) && cpu != home)
		native_move(cpu);
	work->func(work);
	if (t->cpu != home)
		native_move(home);
	t->bound = was_bound;
}

/* An interrupt of other CPUs: it comes to each when nobody runs there. */
void on_each_cpu_cond_mask(smp_cond_func_t cond, smp_call_func_t func, void *info, bool wait,
			   const struct cpumask *mask)
{
	struct native_task *t = native_current();
	bool was_bound = t->bound;
	int home = t->cpu;
	unsigned long flags;
	unsigned int cpu;

	t->bound = true;
	for_each_online_cpu(cpu) {
		if (!cpumask_test_cpu(cpu, mask) || (cond && !cond(cpu, info)))
			continue;
		if (cpu != t->cpu)
			native_move(cpu);
		local_irq_save(flags);
		preempt_count_add(HARDIRQ_OFFSET);
		func(info);
		preempt_count_sub(HARDIRQ_OFFSET);
		local_irq_restore(flags);
	}
	if (t->cpu != home)
		native_move(home);
	t->bound = was_bound;
}

/*
 * Delayed work runs at a safe point of a task on its CPU; on any, if that is offline.
 */

#define MAX_DELAYED	256

static struct {
	struct work_struct *work;
	int cpu;
	u64 when;
} delayed[MAX_DELAYED];
static unsigned int nr_delayed;
static DEFINE_SPINLOCK(delayed_lock);

/* Under the lock. Returns the index, or nr_delayed. */
static unsigned int find_delayed(struct work_struct *work)
{
	unsigned int i;

	for (i = 0; i < nr_delayed; i++)
		if (delayed[i].work == work)
			break;
	return i;
}

static bool delay(int cpu, struct work_struct *work, unsigned long wait, bool again)
{
	unsigned long flags;
	unsigned int i;
	bool was_queued;

	spin_lock_irqsave(&delayed_lock, flags);
	i = find_delayed(work);
	was_queued = i < nr_delayed;
	if (!was_queued || again) {
		if (i == MAX_DELAYED)
			native_die("more delayed work items than %u", MAX_DELAYED);
		delayed[i].work = work;
		delayed[i].cpu = cpu;
		delayed[i].when = host_ns() + wait * (u64)(NSEC_PER_SEC / HZ);
		nr_delayed += !was_queued;
	}
	spin_unlock_irqrestore(&delayed_lock, flags);
	return was_queued;
}

bool queue_delayed_work_on(int cpu, struct workqueue_struct *wq, struct delayed_work *dwork,
			   unsigned long delay_jiffies)
{
	return !delay(cpu, &dwork->work, delay_jiffies, false);
}

bool mod_delayed_work_on(int cpu, struct workqueue_struct *wq, struct delayed_work *dwork,
			 unsigned long delay_jiffies)
{
	return delay(cpu, &dwork->work, delay_jiffies, true);
}

/* Work after a grace period: no other state than to be queued, or to wait for that. */
static void after_grace_period(struct rcu_head *head)
{
	struct rcu_work *rwork = container_of(head, struct rcu_work, rcu);

	/* It can be queued again from now on. */
	atomic_long_set_release(&rwork->work.data, 0);
	delay(WORK_CPU_UNBOUND, &rwork->work, 0, false);
}

bool queue_rcu_work(struct workqueue_struct *wq, struct rcu_work *rwork)
{
	if (atomic_long_xchg(&rwork->work.data, WORK_QUEUED) == WORK_QUEUED)
		return false;
	call_rcu(&rwork->rcu, after_grace_period);
	return true;
}

/* Take it from the list, whether it is due or not. */
static bool take_delayed(struct work_struct *work, int *cpu)
{
	unsigned long flags;
	unsigned int i;
	bool found;

	spin_lock_irqsave(&delayed_lock, flags);
	i = find_delayed(work);
	found = i < nr_delayed;
	if (found) {
		*cpu = delayed[i].cpu;
		delayed[i] = delayed[--nr_delayed];
	}
	spin_unlock_irqrestore(&delayed_lock, flags);
	return found;
}

void native_run_delayed(unsigned int here)
{
	struct work_struct *work = NULL;
	int cpu = WORK_CPU_UNBOUND;
	unsigned long flags;
	unsigned int i;
	u64 now;

	if (!READ_ONCE(nr_delayed))
		return;
	now = host_ns();
	WRITE_ONCE(jiffies, now / (NSEC_PER_SEC / HZ));
	spin_lock_irqsave(&delayed_lock, flags);
	for (i = 0; i < nr_delayed && !work; i++) {
		cpu = delayed[i].cpu;
		if (delayed[i].when > now ||
		    (cpu < nr_cpu_ids && cpu_online(cpu) && cpu != here))
			continue;
		work = delayed[i].work;
		delayed[i] = delayed[--nr_delayed];
	}
	spin_unlock_irqrestore(&delayed_lock, flags);
	if (work)
		run_work(work, cpu);
}

bool flush_work(struct work_struct *work)
{
	long cpu = atomic_long_xchg(&work->data, 0) - WORK_QUEUED;
	bool queued = cpu >= 0 && cpu <= WORK_CPU_UNBOUND;
	int delayed_cpu;

	if (take_delayed(work, &delayed_cpu) && !queued) {
		cpu = delayed_cpu;
		queued = true;
	}
	if (!queued)
		return false;
	run_work(work, cpu);
	return true;
}

bool cancel_delayed_work_sync(struct delayed_work *dwork)
{
	int cpu;

	return take_delayed(&dwork->work, &cpu);
}

/* Memory is never short: who wants to see things given back asks for it. */
struct shrinker *shrinker_alloc(unsigned int flags, const char *fmt, ...)
{
	static struct shrinker shrinker;

	return &shrinker;
}

/*
 * Threads and completions
 */

struct task_struct *kthread_create_on_node(int (*fn)(void *data), void *data, int node,
					   const char namefmt[], ...)
{
	return &native_task_create(fn, data)->task;
}

static struct native_task *native_of(struct task_struct *task)
{
	return container_of(task, struct native_task, task);
}

void kthread_bind(struct task_struct *task, unsigned int cpu)
{
	native_of(task)->cpu = cpu;
	native_of(task)->bound = true;
}

int wake_up_process(struct task_struct *task)
{
	struct native_task *t = native_of(task);

	if (!t->thread)
		native_task_start(t, t->cpu);
	return 1;
}

bool kthread_should_stop(void)
{
	return READ_ONCE(native_current()->stop);
}

int kthread_stop(struct task_struct *task)
{
	WRITE_ONCE(native_of(task)->stop, true);
	native_task_join(native_of(task));
	return 0;
}

void schedule(void)
{
	native_sleep();
}

void complete(struct completion *x)
{
	/* what is done is done before */
	smp_store_release(&x->done, 1);
}

void complete_all(struct completion *x)
{
	/* as above */
	smp_store_release(&x->done, UINT_MAX / 2);
}

void wait_for_completion(struct completion *x)
{
	unsigned int polls = 0;

	/*
	 * Pairs with complete(). Who waits for others to do their work does not
	 * take turns with them, on what may be their processor.
	 */
	while (!smp_load_acquire(&x->done))
		if (polls++ < 100)
			native_sleep();
		else
			native_sleep_long();
	if (x->done == 1)
		x->done = 0;
}

/*
 * Time, random numbers, policies
 */

ktime_t ktime_get(void)
{
	return host_ns();
}

u64 get_random_u64(void)
{
	return (u64)native_random(U32_MAX) << 32 | native_random(U32_MAX);
}

u32 __get_random_u32_below(u32 ceil)
{
	return native_random(ceil);
}

void get_random_bytes(void *buf, size_t len)
{
	u8 *p = buf;

	while (len--)
		*p++ = native_random(256);
}

unsigned int mempolicy_slab_node(void)
{
	return numa_node_id();
}

char *skip_spaces(const char *str)
{
	while (*str == ' ')
		str++;
	return (char *)str;
}

/*
 * CPU and memory hotplug: whoever wants to be told is
 */

#define MAX_STATES	8

static struct {
	enum cpuhp_state state;
	int (*up)(unsigned int cpu);
	int (*down)(unsigned int cpu);
} states[MAX_STATES];
static unsigned int nr_states;

int __cpuhp_setup_state(enum cpuhp_state state, const char *name, bool invoke,
			int (*startup)(unsigned int cpu),
			int (*teardown)(unsigned int cpu), bool multi)
{
	if (nr_states == MAX_STATES)
		native_die("more hotplug states than %u", MAX_STATES);
	states[nr_states].state = state;
	states[nr_states].up = startup;
	states[nr_states++].down = teardown;
	return 0;
}

int native_hotplug_callbacks(unsigned int cpu, bool up)
{
	unsigned int i;
	int err = 0;

	for (i = 0; i < nr_states && !err; i++) {
		if (up && states[i].up)
			err = states[i].up(cpu);
		else if (!up && states[i].down)
			err = states[i].down(cpu);
	}
	return err;
}

static struct notifier_block *memory_notifier;

int register_memory_notifier(struct notifier_block *nb)
{
	memory_notifier = nb;
	return 0;
}

/* Returns -1 where the allocator is told of memory by other means. */
int native_memory_notify(unsigned long action, int node)
{
	struct memory_notify arg = {};

	if (!memory_notifier)
		return -1;
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 15, 0)
	arg.status_change_nid = node;
	arg.status_change_nid_normal = node;
#endif
	return notifier_to_errno(memory_notifier->notifier_call(memory_notifier, action,
								&arg));
}

/*
 * /sys/kernel/slab: what a cache has there, by its name or that of an alias
 */

#define MAX_GROUPS	3
#define MAX_KOBJECTS	512
#define KOBJECT_NAME	64

static struct {
	char name[KOBJECT_NAME];
	struct kobject *kobj;
	const struct attribute_group *groups[MAX_GROUPS];
	bool is_link;
} kobjects[MAX_KOBJECTS];
static DEFINE_SPINLOCK(kobjects_lock);

static int add_kobject(const char *name, struct kobject *kobj, bool is_link)
{
	unsigned int i;
	int err = -ENOSPC;

	spin_lock(&kobjects_lock);
	for (i = 0; i < MAX_KOBJECTS && err; i++) {
		if (kobjects[i].kobj)
			continue;
		strscpy(kobjects[i].name, name, KOBJECT_NAME);
		kobjects[i].kobj = kobj;
		kobjects[i].is_link = is_link;
		memset(kobjects[i].groups, 0, sizeof(kobjects[i].groups));
		err = 0;
	}
	spin_unlock(&kobjects_lock);
	return err;
}

int kobject_init_and_add(struct kobject *kobj, const struct kobj_type *ktype,
			 struct kobject *parent, const char *fmt, ...)
{
	char name[KOBJECT_NAME];
	va_list args;

	va_start(args, fmt);
	vscnprintf(name, sizeof(name), fmt, args);
	va_end(args);
	kobj->ktype = ktype;
	kref_init(&kobj->kref);
	return add_kobject(name, kobj, false);
}

void kobject_del(struct kobject *kobj)
{
	unsigned int i;

	spin_lock(&kobjects_lock);
	for (i = 0; i < MAX_KOBJECTS; i++)
		if (kobjects[i].kobj == kobj)
			kobjects[i].kobj = NULL;
	spin_unlock(&kobjects_lock);
}

void kobject_put(struct kobject *kobj)
{
	kobject_del(kobj);
	if (kobj->ktype && kobj->ktype->release)
		kobj->ktype->release(kobj);
}

struct kset *kset_create_and_add(const char *name, const struct kset_uevent_ops *ops,
				 struct kobject *parent)
{
	static struct kset slab_kset;

	return &slab_kset;
}

static void add_group(struct kobject *kobj, const struct attribute_group *grp)
{
	unsigned int i, j;

	for (i = 0; i < MAX_KOBJECTS; i++) {
		if (kobjects[i].kobj != kobj)
			continue;
		for (j = 0; j < MAX_GROUPS - 1 && kobjects[i].groups[j]; j++)
			;
		kobjects[i].groups[j] = grp;
	}
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
typedef const struct attribute_group **groups_t;
#else
typedef const struct attribute_group *const *groups_t;
#endif

int sysfs_create_groups(struct kobject *kobj, groups_t groups)
{
	spin_lock(&kobjects_lock);
	for (; *groups; groups++)
		add_group(kobj, *groups);
	spin_unlock(&kobjects_lock);
	return 0;
}

int sysfs_create_group(struct kobject *kobj, const struct attribute_group *grp)
{
	const struct attribute_group *groups[] = { grp, NULL };

	return sysfs_create_groups(kobj, groups);
}

int sysfs_create_link(struct kobject *kobj, struct kobject *target, const char *name)
{
	return add_kobject(name, target, true);
}

void sysfs_remove_link(struct kobject *kobj, const char *name)
{
	unsigned int i;

	spin_lock(&kobjects_lock);
	for (i = 0; i < MAX_KOBJECTS; i++)
		if (kobjects[i].kobj && kobjects[i].is_link &&
		    !strcmp(kobjects[i].name, name))
			kobjects[i].kobj = NULL;
	spin_unlock(&kobjects_lock);
}

static int emit(char *buf, int at, const char *fmt, va_list args)
{
	return vscnprintf(buf + at, PAGE_SIZE - at, fmt, args);
}

int sysfs_emit(char *buf, const char *fmt, ...)
{
	va_list args;
	int len;

	va_start(args, fmt);
	len = emit(buf, 0, fmt, args);
	va_end(args);
	return len;
}

int sysfs_emit_at(char *buf, int at, const char *fmt, ...)
{
	va_list args;
	int len;

	va_start(args, fmt);
	len = emit(buf, at, fmt, args);
	va_end(args);
	return len;
}

static struct attribute *find_attr(const struct attribute_group *group, const char *file)
{
	unsigned int i;

	for (i = 0; group->attrs[i]; i++)
		if (!strcmp(group->attrs[i]->name, file))
			return group->attrs[i];
	return NULL;
}

static struct attribute *find_attr_of(struct kobject *kobj, const char *file)
{
	struct attribute *attr = NULL;
	unsigned int i, j;

	for (i = 0; i < MAX_KOBJECTS && !attr; i++)
		for (j = 0; kobjects[i].kobj == kobj && j < MAX_GROUPS && !attr; j++)
			if (kobjects[i].groups[j])
				attr = find_attr(kobjects[i].groups[j], file);
	if (!attr && kobj->ktype->default_groups)
		attr = find_attr(kobj->ktype->default_groups[0], file);
	return attr;
}

ssize_t native_sysfs_show(const char *cache, const char *file, char *buf)
{
	struct kobject *kobj = NULL;
	struct attribute *attr;
	unsigned int i;

	for (i = 0; i < MAX_KOBJECTS && !kobj; i++)
		if (kobjects[i].kobj && !strcmp(kobjects[i].name, cache))
			kobj = kobjects[i].kobj;
	if (!kobj)
		return -ENOENT;
	attr = find_attr_of(kobj, file);
	return attr ? kobj->ktype->sysfs_ops->show(kobj, attr, buf) : -ENOENT;
}

/* Nobody here looks where there may be no memory. */
long copy_from_kernel_nofault(void *dst, const void *src, size_t size)
{
	memcpy(dst, src, size);
	return 0;
}

/* As much of a file system as it takes to read a file "kernel/slab/CACHE/FILE". */

static char file_contents[PAGE_SIZE];

struct file *file_open_root(const struct path *root, const char *filename, int flags,
			    umode_t mode)
{
	char name[128], *cache, *file;

	strscpy(name, filename, sizeof(name));
	cache = strstr(name, "slab/");
	file = cache ? strchr(cache + 5, '/') : NULL;
	if (!file)
		return ERR_PTR(-ENOENT);
	*file++ = 0;
	if (native_sysfs_show(cache + 5, file, file_contents) < 0)
		return ERR_PTR(-ENOENT);
	return (struct file *)file_contents;
}

ssize_t kernel_read(struct file *file, void *buf, size_t count, loff_t *pos)
{
	size_t len = strlen((char *)file);

	memcpy(buf, file, len);
	return len;
}

struct file_system_type *get_fs_type(const char *name)
{
	static struct file_system_type type;

	return &type;
}

struct vfsmount *kern_mount(struct file_system_type *type)
{
	static struct vfsmount mnt;

	return &mnt;
}
