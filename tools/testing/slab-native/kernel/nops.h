/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Put in front of every file that is compiled (-include): the two instructions
 * that user space may not execute assemble to nothing. pushf may stay. It says that
 * interrupts are enabled, and whoever restores this "enables" them.
 */
#ifndef SLAB_NATIVE_NOPS_H
#define SLAB_NATIVE_NOPS_H

#ifndef __ASSEMBLY__
asm(".macro cli\n"
    ".endm\n"
    ".macro sti\n"
    ".endm\n");
#endif

#endif /* SLAB_NATIVE_NOPS_H */
