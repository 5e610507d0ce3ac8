/* Instructions per cycle of this process's threads, by the hardware's counters (perf_event_open, Linux). */
#ifndef BRAID_MEASURE_CYCLES_H
#define BRAID_MEASURE_CYCLES_H

#include "braid/allocator.h"

typedef struct braid_cycles {
  const braid_allocator *allocator;
  int *files; /* of each thread two: instructions, cycles */
  size_t count, capacity;
  char note[128]; /* why nothing is counted; "": it is */
} braid_cycles;

/* Counts the threads that there are now, from now on. NO_MEMORY; that nothing can be counted is no failure. */
BRAID_MUST_CHECK braid_status braid_cycles_begin(braid_cycles *cycles, const braid_allocator *allocator);
/* NAN: unknown. */
double braid_cycles_end(braid_cycles *cycles);

#endif
