/* Power of the CPU packages, from the kernel's powercap files (Intel and AMD RAPL energy counters). */
#ifndef BRAID_BACKEND_CPU_POWER_H
#define BRAID_BACKEND_CPU_POWER_H

#include "braid/status.h"

typedef struct braid_cpu_power braid_cpu_power;
struct braid_allocator;

/* *out is NULL, with OK, where this machine shows no readable counter. */
BRAID_MUST_CHECK braid_status braid_cpu_power_create(const struct braid_allocator *allocator, braid_cpu_power **out);
void braid_cpu_power_destroy(braid_cpu_power *power); /* NULL is allowed */
/* Mean power of all packages since the last call (or create). UNSUPPORTED without counters. */
BRAID_MUST_CHECK braid_status braid_cpu_power_read(braid_cpu_power *power, double *out_watts);

#endif
