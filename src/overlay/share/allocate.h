/* Cores to tenants for the most total performance (Zeng et al. 2021, section 6.3.1, equations 12 and 13): the sum over
 * tenants of weight x performance(k) is greatest, where k lies within the tenant's bounds and all k together are at
 * most the cores there are. Performance of no core is 0. */
#ifndef BRAID_OVERLAY_SHARE_ALLOCATE_H
#define BRAID_OVERLAY_SHARE_ALLOCATE_H

#include <stddef.h>

#include "braid/allocator.h"
#include "overlay/design.h"

typedef struct braid_demand {
  double weight;             /* finite, >= 0 */
  const double *performance; /* of 1, 2, ... `most` cores: finite, >= 0; need not grow. The caller's */
  int least, most;           /* cores: 0 <= least <= most <= BRAID_OVERLAY_MOST_CORES */
} braid_demand;

/* An exact dynamic program over tenants and cores: O(count x cores^2) time. given[t]: cores of tenant t; *total: the
 * sum (may be NULL). Among allocations of the same sum it takes the fewest cores in all. INVALID_ARGUMENT: a demand is
 * not as above, or the least cores of all tenants are more than `cores` (0 to BRAID_OVERLAY_MOST_CORES). */
BRAID_MUST_CHECK braid_status braid_allocate(const braid_demand *demands, size_t count, int cores,
                                             const braid_allocator *allocator, int *given, double *total);

/* The same as an integer program that GLPK solves, one column per tenant and number of cores. Its total is that of
 * braid_allocate within rounding; where several allocations reach it, it may be another. UNSUPPORTED: no GLPK. */
BRAID_MUST_CHECK braid_status braid_allocate_by_program(const braid_demand *demands, size_t count, int cores,
                                                        const braid_allocator *allocator, int *given, double *total);

/* What both check first. */
BRAID_MUST_CHECK braid_status braid_demands_check(const braid_demand *demands, size_t count, int cores);

#endif
