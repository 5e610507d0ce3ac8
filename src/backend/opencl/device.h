/* A device of this backend: a physical one, or a part of it. */
#ifndef BRAID_BACKEND_OPENCL_DEVICE_H
#define BRAID_BACKEND_OPENCL_DEVICE_H

#include "backend/opencl/context.h"
#include "launch/nvml.h"

typedef struct braid_cl_bitstream braid_cl_bitstream;
typedef struct braid_cl_manifest braid_cl_manifest;
typedef struct braid_cl_pin braid_cl_pin;

typedef struct braid_cl_device {
  const braid_allocator *allocator;
  const braid_cl_api *cl;
  braid_cl_context *shared;
  cl_device_id id; /* the device itself or the part */
  uint32_t part;
  braid_device_info info;
  braid_launch_traits traits;
  const braid_kernel **kernels;
  size_t kernel_count;
  int64_t deadline_ns;           /* of a task; 0: none */
  char own_cache[256];           /* cache=DIR of the options; "off": none; "": the program's */
  const char *cache;             /* folder of built programs; NULL: none */
  const braid_log *log;          /* NULL: none */
  braid_cl_bitstream *bitstream; /* NULL: programs are built from text */
  braid_cl_manifest *manifest;   /* NULL: none */
  uint32_t lost;                 /* atomic */
  pthread_mutex_t card_lock;     /* of `card` */
  braid_nvml_card *card;         /* opened by the first reading of power or energy */
  pthread_mutex_t lock;          /* guards what follows */
  braid_cl_queue *queues;        /* linked by `next` */
  braid_cl_pin *pins;            /* host memory registered, the same */
} braid_cl_device;

extern const braid_backend braid_backend_opencl;

/* DEVICE_LOST once it is, before the driver is asked for anything, which may never come back. */
BRAID_MUST_CHECK braid_status braid_cl_device_status(void *device);

static inline bool braid_cl_device_is_lost(const braid_cl_device *device) {
  return __atomic_load_n(&device->lost, __ATOMIC_ACQUIRE) != 0;
}

#endif
