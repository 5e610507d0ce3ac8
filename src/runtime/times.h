/* What kernels took, measured, for whoever places nodes next on the same machine: one time per kernel, device and kind
 * of node (op, attributes, types and shapes) or region (its nodes). Filled by executions whose tasks are timed. */
#ifndef BRAID_RUNTIME_TIMES_H
#define BRAID_RUNTIME_TIMES_H

#include <pthread.h>

#include "braid/device.h"

typedef struct braid_time {
  uint64_t key;
  uint64_t ns; /* atomic; 0: not measured yet */
  struct braid_time *next;
} braid_time;

enum { kTimeChains = 1024, kMostTimes = 65536 };

typedef struct braid_times {
  const braid_allocator *allocator;
  pthread_mutex_t lock;
  braid_time *chains[kTimeChains];
  size_t count;
  bool filled; /* atomic; some time is measured */
} braid_times;

void braid_times_init(braid_times *times, const braid_allocator *allocator);
void braid_times_deinit(braid_times *times);
/* What the time depends on. Layouts are left out: they follow from the kernel and its neighbours. */
uint64_t braid_time_key(int device, const braid_kernel *kernel, const braid_node_desc *node);
/* Likewise of a region that kernel runs as one: of its nodes and who reads whom, wherever in a graph it stands. Values
 * that are the same memory have one number in `names`; `numbers` has room for one per value, all 0, and is so again
 * afterwards. */
uint64_t braid_time_region_key(int device, const braid_kernel *kernel, const braid_subgraph *graph,
                               const int32_t *nodes, size_t count, const int32_t *names, int32_t *numbers);
/* The place of a time, which stays for as long as the machine; NULL: the table is full, nobody will know. */
BRAID_MUST_CHECK braid_status braid_times_get(braid_times *times, uint64_t key, braid_time **out);
void braid_time_set(braid_times *times, braid_time *time, int64_t ns);
/* Is anything measured? */
bool braid_times_filled(const braid_times *times);
/* Seconds; < 0: not measured. */
double braid_times_find(braid_times *times, uint64_t key);

#endif
