/* A device of this backend: an open card. */
#ifndef BRAID_BACKEND_CUDA_DEVICE_H
#define BRAID_BACKEND_CUDA_DEVICE_H

#include <pthread.h>

#include "backend/cuda/api.h"
#include "device/pool.h"
#include "launch/nvml.h"
#include "launch/recipe.h"

typedef struct braid_cuda_program braid_cuda_program;
typedef struct braid_cuda_queue braid_cuda_queue;
typedef struct braid_cuda_pin braid_cuda_pin;
typedef struct braid_cuda_blas braid_cuda_blas;
typedef struct braid_cuda_dnn braid_cuda_dnn;
typedef struct braid_cuda_nccl braid_cuda_nccl;
typedef struct braid_cuda_counters braid_cuda_counters;

typedef struct braid_cuda_device {
  const braid_allocator *allocator;
  const braid_cuda_api *cuda;
  braid_cuda_id id;
  braid_cuda_context_handle context; /* the card's primary one, which CUDA's libraries use too; NULL: not yet */
  braid_device_info info;
  braid_launch_traits traits;
  int capability; /* 90 is 9.0 */
  const braid_kernel **kernels;
  size_t kernel_count;
  int64_t deadline_ns;           /* of a task; 0: none */
  bool all_libraries;            /* cuDNN's convolutions also where own kernels are faster */
  bool tf32;                     /* products of float32 may round their operands to 10 bits of fraction */
  char own_cache[256];           /* cache=DIR of the options; "off": none; "": the program's */
  const char *cache;             /* folder of built programs; NULL: none */
  const braid_log *log;          /* NULL: none */
  braid_cuda_blas *blas;         /* NULL: there is no cuBLASLt */
  braid_cuda_dnn *dnn;           /* NULL: there is no cuDNN */
  braid_cuda_nccl *nccl;         /* NULL: no other processes */
  uint32_t lost;                 /* atomic */
  braid_cuda_counters *counters; /* NULL: nothing was counted */

  pthread_mutex_t card_lock; /* of `card` */
  braid_nvml_card *card;     /* opened by the first reading of power or energy */

  pthread_mutex_t program_lock; /* of `programs` */
  pthread_cond_t program_built;
  braid_cuda_program *programs;

  pthread_mutex_t lock;     /* of what follows; the driver, which may hang, is not called with it */
  braid_cuda_queue *queues; /* linked by `next` */
  braid_cuda_pin *pins;     /* host memory registered, the same */

  uint64_t arena_bytes;        /* asked for; 0: a part of the card's */
  pthread_mutex_t memory_lock; /* of what follows */
  bool arena_tried;
  braid_cuda_address arena;
  braid_pool *pool;
} braid_cuda_device;

extern const braid_backend braid_backend_cuda;

/* DEVICE_LOST once it is, before the driver is asked for anything. */
BRAID_MUST_CHECK braid_status braid_cuda_device_status(void *device);
void braid_cuda_device_lose(braid_cuda_device *device);

static inline bool braid_cuda_device_is_lost(const braid_cuda_device *device) {
  return __atomic_load_n(&device->lost, __ATOMIC_ACQUIRE) != 0;
}

/* The calling thread's context is the device's between the two; what it was before comes back. */
static inline void braid_cuda_enter(const braid_cuda_device *device) {
  (void)device->cuda->context_push(device->context);
}
/* A context that has failed may not have become current: then the one that is stays. */
static inline void braid_cuda_leave(const braid_cuda_device *device) {
  braid_cuda_context_handle left = NULL;
  if (!device->cuda->context_pop(&left) && left != device->context) (void)device->cuda->context_push(left);
}

#endif
