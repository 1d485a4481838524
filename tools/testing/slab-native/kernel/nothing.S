/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions that do nothing here, and return 0, NULL or false. In assembly, because
 * their prototypes differ between kernels, and do not matter.
 */

	.macro nothing names:vararg
	.irp name, \names
	.weak	\name
	.type	\name, @function
\name:
	.endr
	xorl	%eax, %eax
	ret
	.endm

	.text

/* reports, statistics, debugging */
nothing add_taint, dump_stack, dump_page, print_tainted, print_hex_dump
nothing stack_depot_fetch, stack_depot_init, stack_depot_print
nothing stack_depot_request_early_init, stack_depot_save, stack_trace_save
nothing __lruvec_stat_mod_folio, lruvec_stat_mod_folio, mod_node_page_state
nothing debugfs_create_dir, debugfs_create_file, debugfs_create_file_full
nothing debugfs_get_aux, debugfs_lookup_and_remove, proc_create
nothing ___ratelimit, __do_once_start, __do_once_done

/* there are no memory cgroups, tasks have no mempolicy, no memory is reserved */
nothing mem_cgroup_kmem_disabled, __memcg_kmem_charge_page, gfp_pfmemalloc_allowed
nothing __memcg_slab_free_hook, __memcg_slab_post_alloc_hook, int_active_memcg

/* nobody is told, nobody waits, nothing is to be put back */
nothing register_node_notifier, register_oom_notifier, shrinker_register
nothing timer_init_key
nothing fput, kern_unmount, module_put, preempt_schedule_thunk
nothing __init_swait_queue_head, __init_waitqueue_head, __wake_up
nothing __local_bh_enable_ip, get_cpu_idle_time_us
nothing irq_work_sync, flush_rcu_work, init_timer_key
nothing autoremove_wake_function, delayed_work_timer_fn, execute_with_initialized_rng

/* returns what it is given */
	.weak	kstrdup_const
	.type	kstrdup_const, @function
kstrdup_const:
	movq	%rdi, %rax
	ret

/* cgroup_get_from_path() finds none: ERR_PTR(-ENOENT) */
	.weak	cgroup_get_from_path
	.type	cgroup_get_from_path, @function
cgroup_get_from_path:
	movq	$-2, %rax
	ret

/* some workqueue, some shrinker */
	.weak	alloc_workqueue, alloc_workqueue_noprof, shrinker_alloc
	.type	shrinker_alloc, @function
	.type	alloc_workqueue, @function
	.type	alloc_workqueue_noprof, @function
alloc_workqueue:
alloc_workqueue_noprof:
shrinker_alloc:
	movq	$__this_module, %rax
	ret

	.weak	__SCT__WARN_trap
	.type	__SCT__WARN_trap, @function
__SCT__WARN_trap:
	jmp	native_warn_trap

/* data that is there to be pointed at, or to be zero */
	.bss
	.balign	64
	.macro zeroes size names:vararg
	.irp name, \names
	.weak	\name
	.type	\name, @object
\name:
	.skip	\size
	.balign	64
	.endr
	.endm

zeroes 8, __SCK__WARN_trap, __default_kernel_pte_mask, memory_cgrp_subsys
zeroes 64, param_ops_int, param_ops_uint, param_ops_charp, guid_index, uuid_index
zeroes 64, gfpflag_names, pageflag_names, vmaflag_names
zeroes 256, kunit_hooks
zeroes 4096, __this_module

	.section .note.GNU-stack, "", @progbits
