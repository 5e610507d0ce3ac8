/* Small transfers through pinned buffers of the queue (bounce buffers), which the host fills when a WRITE is enqueued
 * and empties when a READ has ended: no call of the driver's holds up the stream. Memory of the host is then not
 * touched in the stream's order, so a transfer that overlaps with a READ in flight waits for its end before it is
 * enqueued. */
#ifndef BRAID_BACKEND_CUDA_BOUNCE_H
#define BRAID_BACKEND_CUDA_BOUNCE_H

#include "launch/queue.h"

typedef struct braid_cuda_queue braid_cuda_queue;

enum { BRAID_CUDA_BOUNCE_BUFFERS = 32 };

/* What a transfer in flight has. */
typedef struct braid_cuda_bounce {
  const braid_cuda_queue *queue;
  const braid_task *task;                 /* NULL: the slot's task is none, or transfers nothing */
  uint8_t *buffer;                        /* NULL: it does without */
  struct braid_cuda_bounce *next, **link; /* of the process's READs in flight */
} braid_cuda_bounce;

/* braid_launch_driver.precedes */
const braid_point *braid_cuda_bounce_precedes(braid_launch_queue *queue, const braid_task *task);
/* A transfer is enqueued. The buffer to copy from or to instead of the host's memory; NULL: it is too large, or all are
 * taken. `small`: memory that is not pinned. */
uint8_t *braid_cuda_bounce_begin(braid_cuda_queue *queue, const braid_task *task, size_t bytes, bool small);
/* It has ended; `good`: what a READ has brought goes to the host's memory. */
void braid_cuda_bounce_end(braid_cuda_queue *queue, const braid_task *task, bool good);
/* The queue's tasks may be gone from now on: nobody looks at them who waits for what they read. */
void braid_cuda_bounce_abandon(braid_cuda_queue *queue);
/* Of a queue that is freed. */
void braid_cuda_bounce_free(braid_cuda_queue *queue);

#endif
