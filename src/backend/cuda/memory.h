/* Buffers of a card and the transfers between them and the host. One arena, made at the first use, handed out by best
 * fit (device/pool.h); what is too large for it gets memory of its own. */
#ifndef BRAID_BACKEND_CUDA_MEMORY_H
#define BRAID_BACKEND_CUDA_MEMORY_H

#include "backend/cuda/device.h"

enum {
  BRAID_CUDA_ALIGNMENT = 256,
  BRAID_CUDA_LEAST_PINNED = 1 << 16 /* bytes: pinning takes as long as copying some megabytes */
};

typedef struct braid_cuda_buffer {
  braid_cuda_address address;
  size_t bytes;
  braid_pool_block *block; /* of the arena; NULL: memory of its own */
} braid_cuda_buffer;

BRAID_MUST_CHECK braid_status braid_cuda_buffer_create(void *device, size_t bytes, void **buffer);
void braid_cuda_buffer_destroy(void *device, void *buffer);
braid_status braid_cuda_read_memory(void *device, uint64_t *out_free, uint64_t *out_total);
void braid_cuda_memory_release(braid_cuda_device *device); /* with the device */

/* Pinned host memory: what is smaller than BRAID_CUDA_LEAST_PINNED is not worth it. */
braid_status braid_cuda_host_register(void *device, void *host, size_t bytes);
void braid_cuda_host_unregister(void *device, void *host);

/* Where a binding lies; 0: it is absent. OUT_OF_RANGE if it does not lie within its buffer. */
BRAID_MUST_CHECK braid_status braid_cuda_locate(const braid_binding *binding, braid_cuda_address *out);
/* Is all of it pinned? */
bool braid_cuda_is_pinned(braid_cuda_device *device, const void *host, size_t bytes);

#endif
