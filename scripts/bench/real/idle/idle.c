// SPDX-License-Identifier: GPL-2.0
/*
 * For how long the first CPU has been idle, in microseconds: /sys/module/idle/parameters/us.
 * The kernel knows it that precisely, and tells it to cpufreq governors, but to nobody else.
 */
#include <linux/kernel_stat.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/tick.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)

/* See peer.patch. */
extern u64 bench_idle_ns;

static u64 idle_us(void)
{
	return READ_ONCE(bench_idle_ns) / NSEC_PER_USEC;
}

#else

static u64 idle_us(void)
{
	return get_cpu_idle_time_us(0, NULL) + get_cpu_iowait_time_us(0, NULL);
}

#endif

static int us_get(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%llu\n", idle_us());
}

static const struct kernel_param_ops us_ops = { .get = us_get };
module_param_cb(us, &us_ops, NULL, 0444);
MODULE_PARM_DESC(us, "idle time of CPU 0 in microseconds");

static int __init idle_init(void)
{
	return get_cpu_idle_time_us(0, NULL) == -1ULL ? -ENODEV : 0;
}

static void __exit idle_exit(void)
{
}

module_init(idle_init);
module_exit(idle_exit);
MODULE_DESCRIPTION("Idle time, precisely");
MODULE_LICENSE("GPL");
