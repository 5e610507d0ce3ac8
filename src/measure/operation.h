/* Measuring one operation on one device. */
#ifndef BRAID_MEASURE_OPERATION_H
#define BRAID_MEASURE_OPERATION_H

#include "measure/measure.h"

/* What measuring needs of a device, for as long as it is measured. */
typedef struct braid_bench {
  const braid_allocator *allocator;
  const braid_profile_options *options;
  braid_machine *machine;
  const braid_device_info *info;
  braid_meter meter;
  bool host_cycles;    /* its kernels run in threads of this process */
  char uncounted[256]; /* why its own counters count nothing; "": they do, or were not asked yet */
  const char *what;    /* for progress */
  size_t done, total;
} braid_bench;

/* Fills the entry's times, energies and counts. What the device cannot do, or fails at, is said in entry->why (memory
 * of `texts`), and is no failure; DEVICE_LOST and CANCELLED are. */
typedef struct braid_operation_texts {
  char why[512], kernel[128], note[256];
} braid_operation_texts;
BRAID_MUST_CHECK braid_status braid_operation_measure(braid_bench *bench, const braid_subject *subject,
                                                      braid_operation_texts *texts, braid_profile_entry *entry);
/* CANCELLED if the caller does not want more. */
BRAID_MUST_CHECK braid_status braid_bench_go_on(const braid_bench *bench);

#endif
