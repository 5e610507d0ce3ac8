/* What a card counts while tasks run, by CUPTI: instructions, cycles, and the bytes that pass its memory. */
#ifndef BRAID_BACKEND_CUDA_COUNTERS_H
#define BRAID_BACKEND_CUDA_COUNTERS_H

#include "backend/cuda/cupti.h"
#include "backend/cuda/device.h"

/* As `count` of the device contract. */
braid_status braid_cuda_count(void *device, braid_status (*run)(void *context), void *context, braid_counts *out);
void braid_cuda_counters_close(braid_cuda_device *device);

/* What is to be counted on a kind of chip ("GH100"), made without a card; for tests, too. */
struct braid_cuda_counters {
  const braid_allocator *allocator;
  const braid_cupti_api *cupti;
  braid_cupti_host host; /* knows what the counters' values mean; NULL: not yet */
  uint8_t *config;       /* what the card's counters are set to */
  size_t config_bytes;
};
BRAID_MUST_CHECK braid_status braid_cuda_counters_create(const braid_allocator *allocator, const braid_cupti_api *cupti,
                                                         const char *chip, braid_cuda_counters **out);
void braid_cuda_counters_destroy(braid_cuda_counters *counters); /* NULL is allowed */

#endif
