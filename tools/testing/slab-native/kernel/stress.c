// SPDX-License-Identifier: GPL-2.0
#include "native.h"
int native_stress(const struct native_stress *stress) { return 0; }
void native_irq(void) {}
