/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Put in front of every file that is compiled (-include), for what user space may
 * not execute, or would be told something else by than the kernel.
 *
 * For benchmarks, cli and sti assemble to nothing, and pushf always pushes that
 * interrupts are enabled: so it would, but not under valgrind.
 *
 * For the stress, which has interrupts, each CPU has a flag for them.
 */
#ifndef SLAB_NATIVE_NOPS_H
#define SLAB_NATIVE_NOPS_H

/* Compilers instrument accesses to other address spaces as if to their own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#undef CONFIG_USE_X86_SEG_SUPPORT
#endif

#ifndef __ASSEMBLY__
#ifdef SLAB_NATIVE_IRQS
asm(".macro cli\n"
	"movq $0, %gs:native_flags(%rip)\n"
	".endm\n"
	".macro sti\n"
	"movq $0x200, %gs:native_flags(%rip)\n"
	".endm\n"
	".macro pushf\n"
	"pushq %gs:native_flags(%rip)\n"
	".endm\n");
#else
asm(".macro cli\n"
	".endm\n"
	".macro sti\n"
	".endm\n"
	".macro pushf\n"
	"pushq $0x200\n"
	".endm\n");
#endif
#endif

#endif /* SLAB_NATIVE_NOPS_H */
