/* Energy of the CPU packages and their memory, from the kernel's powercap zones (Intel's and AMD's RAPL counters).
 *
 * Zones nest: `package-N` holds the cores and the uncore, whose zones are therefore not counted; memory (`dram`) stands
 * below its package but is measured apart, and is added; `psys` is the whole platform, packages included, and counts
 * only where there is no package. The same packages may be shown twice, by registers and by memory-mapped ones. */
#ifndef BRAID_BACKEND_CPU_ENERGY_H
#define BRAID_BACKEND_CPU_ENERGY_H

#include "braid/status.h"

#define BRAID_CPU_POWERCAP "/sys/class/powercap"

typedef struct braid_cpu_energy braid_cpu_energy;
struct braid_allocator;

/* Reads the zones in folder `root`. *out is NULL, with OK, where the energy is not known in full: no zone, or one that
 * must be counted and cannot be read. */
BRAID_MUST_CHECK braid_status braid_cpu_energy_create(const struct braid_allocator *allocator, const char *root,
                                                      braid_cpu_energy **out);
void braid_cpu_energy_destroy(braid_cpu_energy *energy); /* NULL is allowed */
/* Microjoules since create; never falls. From any thread. The kernel's counters go round after some 10^11 uJ, a quarter
 * of an hour at full load: what a whole round took is lost to those who ask less often. UNSUPPORTED if `energy` is
 * NULL. */
BRAID_MUST_CHECK braid_status braid_cpu_energy_read(braid_cpu_energy *energy, double *out_uj);

#endif
