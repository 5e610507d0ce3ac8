/* When values arrive in memory spaces: a table of both where that is small, else a hash table of those that do. */
#ifndef BRAID_SCHEDULE_ARRIVALS_H
#define BRAID_SCHEDULE_ARRIVALS_H

#include "schedule/problem.h"

typedef struct braid_arrivals {
  size_t spaces, mask; /* mask: 0: `times` is a table of values and spaces */
  uint64_t *keys;      /* value and space + 1; 0: free */
  double *times;       /* seconds; < 0: it has not been sent there */
  size_t size;
} braid_arrivals;

/* For at most `most` arrivals beside those of one space for each value. */
BRAID_MUST_CHECK braid_status braid_arrivals_init(braid_arrivals *arrivals, const braid_problem *problem, size_t most,
                                                  const braid_allocator *allocator);
void braid_arrivals_deinit(braid_arrivals *arrivals, const braid_allocator *allocator);
void braid_arrivals_clear(braid_arrivals *arrivals);
double braid_arrivals_get(const braid_arrivals *arrivals, int32_t value, int space);
void braid_arrivals_set(braid_arrivals *arrivals, int32_t value, int space, double seconds);

#endif
