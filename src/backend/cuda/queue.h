/* Tasks as commands of a stream: the order and the ending are launch/queue's, events tell of the ends. A recording's
 * tasks go the same way, but those that need no other queue in between are handed over together, as one CUDA graph. */
#ifndef BRAID_BACKEND_CUDA_QUEUE_H
#define BRAID_BACKEND_CUDA_QUEUE_H

#include "backend/cuda/bounce.h"
#include "backend/cuda/device.h"
#include "backend/cuda/overlap.h"
#include "launch/queue.h"

/* An event of the driver, held by each slot that it ends, and by those that wait for it. */
typedef struct braid_cuda_event {
  braid_cuda_event_handle handle;
  bool timed;
  uint32_t holders; /* atomic */
  braid_cuda_queue *queue;
  struct braid_cuda_event *next; /* of those that are free */
} braid_cuda_event;

typedef struct braid_cuda_copy braid_cuda_copy;

struct braid_cuda_queue {
  braid_launch_queue base; /* first */
  braid_cuda_device *device;
  braid_cuda_stream stream;
  braid_cuda_stream capture; /* where graphs are captured: nothing runs in it */
  int64_t measured_ns;       /* the end of the task that was measured last */
  uint32_t *faults;          /* a word for each slot, in memory of the host that kernels reach */
  braid_cuda_address fault_address;
  uint8_t *staging;   /* pinned, for memory of the host that is not; NULL: not needed so far */
  uint32_t abandoned; /* the device is lost and memory of the host may be gone; atomic */
  braid_cuda_bounce bounces[BRAID_LAUNCH_WINDOW];
  uint8_t *bounce_memory;      /* their buffers; NULL: not needed so far */
  braid_point preceding;       /* what braid_cuda_bounce_precedes found last */
  pthread_mutex_t lock;        /* of what follows */
  uint32_t bounces_taken;      /* a bit for each buffer */
  braid_cuda_event *events[2]; /* free ones: untimed, timed */
  braid_cuda_copy *copies;     /* free ones */
  braid_cuda_queue *next;      /* of the device */
};

BRAID_MUST_CHECK braid_status braid_cuda_queue_create(void *device, braid_timeline *timeline, void **queue);
void braid_cuda_queue_destroy(void *device, void *queue);
BRAID_MUST_CHECK braid_status braid_cuda_queue_submit(void *queue, braid_task *task);

/* A new event of the queue with one holder. */
BRAID_MUST_CHECK braid_status braid_cuda_event_take(braid_cuda_queue *queue, bool timed, braid_cuda_event **out);
/* Enqueues the task's commands, as braid_cuda_launch_all. */
BRAID_MUST_CHECK braid_status braid_cuda_enqueue_task(braid_cuda_queue *queue, const braid_task *task,
                                                      braid_cuda_stream stream, braid_cuda_address fault,
                                                      braid_cuda_overlap *overlap);

/* Memory of the host that kernels reach, zeroed. */
BRAID_MUST_CHECK braid_status braid_cuda_make_words(const braid_cuda_device *device, size_t count, uint32_t **words,
                                                    braid_cuda_address *address);

#endif
