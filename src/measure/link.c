/* Transfers between the host's memory and a device's. */
#include <math.h>

#include "base/clock.h"
#include "base/try.h"
#include "braid/buffer.h"
#include "measure/measure.h"
#include "runtime/machine.h"

enum { kSmallRuns = 21, kLargeRuns = 7, kSmallBytes = 4, kLargeBytes = 32 << 20 };
static const int64_t kLimitNs = 60000000000;

/* The median of both ways together, halved. */
static braid_status time_transfers(braid_machine *machine, void *host, int64_t bytes, size_t runs, double *out) {
  braid_buffer *buffer;
  braid_desc desc;
  double seconds[kSmallRuns];
  BRAID_TRY(braid_desc_init(&desc, BRAID_U8, 1, &bytes));
  BRAID_TRY(braid_buffer_create(machine, machine->devices[0].label, &desc, &buffer));
  braid_status status = braid_buffer_write(buffer, host, (size_t)bytes, kLimitNs); /* the first touches its memory */
  for (size_t i = 0; i < runs && status == BRAID_OK; i++) {
    int64_t start = braid_now_ns();
    status = braid_buffer_write(buffer, host, (size_t)bytes, kLimitNs);
    if (status == BRAID_OK) status = braid_buffer_read(buffer, host, (size_t)bytes, kLimitNs);
    seconds[i] = (double)(braid_now_ns() - start) * 1e-9 / 2;
  }
  braid_buffer_release(buffer);
  if (status == BRAID_OK) *out = braid_median(seconds, runs);
  return status;
}

braid_status braid_link_measure(braid_machine *machine, const braid_allocator *allocator, double *seconds,
                                double *bytes_per_second) {
  double small, large;
  *seconds = *bytes_per_second = NAN;
  if (machine->devices[0].info->memory == BRAID_MEMORY_UNIFIED) return BRAID_OK;
  void *host = braid_zalloc(allocator, kLargeBytes);
  if (!host) return BRAID_NO_MEMORY;
  braid_status status = time_transfers(machine, host, kSmallBytes, kSmallRuns, &small);
  if (status == BRAID_OK) status = time_transfers(machine, host, kLargeBytes, kLargeRuns, &large);
  braid_free(allocator, host);
  if (status != BRAID_OK) return status;
  *seconds = small;
  if (large > small) *bytes_per_second = kLargeBytes / (large - small);
  return BRAID_OK;
}
