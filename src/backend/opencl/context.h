/* A physical device and what its users share: the driver's context, its division into parts, an arena of its memory,
 * the programs built for it. Opening the same device in the same way again (a second session, another part of it) gives
 * the same context, so that memory can be copied between them without the host.
 *
 * It outlives any one of its users, so its own memory comes from the C library's heap. */
#ifndef BRAID_BACKEND_OPENCL_CONTEXT_H
#define BRAID_BACKEND_OPENCL_CONTEXT_H

#include <pthread.h>

#include "backend/opencl/api.h"
#include "device/pool.h"
#include "launch/recipe.h"

typedef struct braid_cl_program braid_cl_program;
typedef struct braid_cl_queue braid_cl_queue;
typedef struct braid_cl_part braid_cl_part;
typedef struct braid_cl_buffer braid_cl_buffer;
typedef struct braid_cl_left braid_cl_left;

/* How a device is divided and how much of its memory is taken: users who agree in all of it share a context. */
typedef struct braid_cl_share {
  size_t index;         /* of the device, as enumerated */
  uint32_t parts;       /* 1: whole */
  uint64_t arena_bytes; /* the memory to use, all of it; 0: as the device has it */
} braid_cl_share;

typedef struct braid_cl_context {
  const braid_cl_api *cl;
  braid_cl_share share;
  cl_platform_id platform;
  cl_device_id device;
  cl_context context;
  cl_device_id *parts; /* sub-devices, `part_count` of them; none: the device cannot be divided */
  cl_uint part_count;
  size_t alignment; /* of sub-buffers; a power of two */
  uint64_t memory_bytes, most_bytes;

  /* Guarded by the list of contexts (context.c). */
  struct braid_cl_context *next;
  uint32_t users;
  uint32_t lost; /* nobody joins any more; atomic */

  pthread_mutex_t lock; /* guards what follows */
  cl_mem arena;
  braid_pool *pool;
  braid_cl_part *parts_of_memory; /* newest first */
  bool arena_tried;
  uint64_t plain_bytes;     /* of buffers beside the arena */
  braid_cl_buffer *buffers; /* those in host memory, to find what an address belongs to */
  braid_cl_program *programs;
  braid_cl_left *left;  /* what was dropped since a device was lost; a stack; atomic */
  uint64_t next_serial; /* of buffers */
} braid_cl_context;

/* Devices of all platforms, in the drivers' order. No library, no platform: 0. */
size_t braid_cl_count(void);
/* NOT_FOUND beyond the last. */
BRAID_MUST_CHECK braid_status braid_cl_find(size_t index, cl_platform_id *platform, cl_device_id *device);
/* What the device says of itself. `name` is the number behind "opencl". */
void braid_cl_describe(cl_device_id device, size_t index, braid_device_info *info);
/* The value of a query of known size; 0 if the driver does not answer. */
uint64_t braid_cl_query(cl_device_id device, cl_device_info what);
void braid_cl_query_text(cl_device_id device, cl_device_info what, char *out, size_t bytes);
void braid_cl_read_traits(cl_device_id device, braid_launch_traits *traits);

BRAID_MUST_CHECK braid_status braid_cl_context_acquire(const braid_cl_share *share, braid_cl_context **out);
/* The last user's release frees it, unless a lost device may still come back to it: then a later call does. */
void braid_cl_context_release(braid_cl_context *context);
/* Releases what a command may need. Once a device is lost that is put off until the context ends: what hangs may still
 * write there, and some drivers wait for it where an object is released. */
typedef enum braid_cl_object {
  BRAID_CL_OBJECT_MEMORY,
  BRAID_CL_OBJECT_KERNEL,
  BRAID_CL_OBJECT_PROGRAM,
  BRAID_CL_OBJECT_QUEUE,    /* braid_cl_queue, stopped */
  BRAID_CL_OBJECT_COMMANDS, /* cl_command_queue */
  BRAID_CL_OBJECT_HOST      /* memory of the C library's that the driver writes to */
} braid_cl_object;
void braid_cl_context_drop(braid_cl_context *context, braid_cl_object kind, void *object);
/* Keeps new users away: the device is gone. */
void braid_cl_context_lose(braid_cl_context *context);

#endif
