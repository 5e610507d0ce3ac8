/* Kernels of the ops that the program has registered (braid/custom.h). */
#ifndef BRAID_BACKEND_CPU_CUSTOM_H
#define BRAID_BACKEND_CPU_CUSTOM_H

#include "backend/cpu/cpu.h"

/* The kernel of a registered op (graph/custom.h); lives as long as the process. */
const braid_kernel *braid_cpu_custom_kernel(size_t index);
#endif
