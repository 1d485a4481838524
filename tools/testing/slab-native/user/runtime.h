/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SLAB_NATIVE_RUNTIME_H
#define SLAB_NATIVE_RUNTIME_H

void die(const char *what);
void runtime_init(void);
void runtime_pin(int place);
unsigned int runtime_ping(void);

#endif
