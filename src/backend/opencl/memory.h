/* Buffers, and the driver's memory objects for the operands of tasks.
 *
 * Memory of a card: one arena, made at the first use, handed out by best fit (device/pool.h); what is too large for it
 * gets a memory object of its own. Memory shared with the host: buffers are host memory that the driver uses in place.
 */
#ifndef BRAID_BACKEND_OPENCL_MEMORY_H
#define BRAID_BACKEND_OPENCL_MEMORY_H

#include "backend/opencl/device.h"

struct braid_cl_buffer {
  cl_mem memory; /* the arena, or the buffer's own */
  size_t offset, bytes;
  uint64_t serial;         /* never used twice, as addresses are */
  braid_pool_block *block; /* of the arena; NULL: not there */
  uint8_t *host;           /* shared with the host; else NULL */
  braid_cl_buffer *next;
};

BRAID_MUST_CHECK braid_status braid_cl_buffer_create(void *device, size_t bytes, void **buffer);
void braid_cl_buffer_destroy(void *device, void *buffer);
void *braid_cl_buffer_map(void *device, void *buffer);
braid_status braid_cl_read_memory(void *device, uint64_t *out_free, uint64_t *out_total);

/* A memory object that begins where the binding does, to be a kernel's argument; the caller releases it. OUT_OF_RANGE
 * if the binding does not lie within its buffer, here and below. */
BRAID_MUST_CHECK braid_status braid_cl_view(const braid_cl_device *device, const braid_binding *binding, cl_mem *out);
/* Enqueues a WRITE, READ or COPY; *done is its event, unless there is nothing to transfer. */
BRAID_MUST_CHECK braid_status braid_cl_transfer(const braid_cl_device *device, const braid_task *task,
                                                cl_command_queue queue, const cl_event *waits, cl_uint count,
                                                cl_event *done);
/* Does the device work on host memory where it lies, without being told when the host looks at it? Tried, because the
 * flags of drivers say less. */
bool braid_cl_shares_host_memory(const braid_cl_device *device);

void braid_cl_memory_release(braid_cl_context *context); /* with the context */

#endif
