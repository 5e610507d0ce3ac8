/* A backend's queue with its timeline, which assigns values to tasks. Used by the runtime, the conformance suite and
 * tests. */
#ifndef BRAID_DEVICE_QUEUE_H
#define BRAID_DEVICE_QUEUE_H

#include <pthread.h>

#include "braid/device.h"

typedef struct braid_queue {
  const braid_backend *backend; /* NULL: not open */
  void *device, *self;          /* the backend's own */
  braid_timeline *timeline;
  pthread_mutex_t lock; /* held while submitting: values are in order of submission */
  uint64_t last;        /* the value of the task submitted last */
} braid_queue;

/* Initializes `queue`, which is the caller's memory. Nothing has to be closed after a failure. */
BRAID_MUST_CHECK braid_status braid_queue_open(braid_queue *queue, const braid_allocator *allocator,
                                               const braid_backend *backend, void *device);
void braid_queue_close(braid_queue *queue); /* waits for all submitted tasks; no effect if not open */

/* Gives the task the next value and submits it. */
BRAID_MUST_CHECK braid_status braid_queue_submit(braid_queue *queue, braid_task *task);
/* The same, with the lock held by the caller, to submit several tasks. */
BRAID_MUST_CHECK braid_status braid_queue_submit_locked(braid_queue *queue, braid_task *task);
void braid_queue_flush(braid_queue *queue);
/* Replays a recording of `count` tasks, with the lock held: their values follow `last`. */
BRAID_MUST_CHECK braid_status braid_queue_replay_locked(braid_queue *queue, void *recording, size_t count);
/* Runs it in the calling thread if the queue is idle; false: use replay. Only for backends with `run`. */
bool braid_queue_run(braid_queue *queue, void *recording, size_t count);

static inline braid_point braid_queue_point(const braid_queue *queue, const braid_task *task) {
  return (braid_point){queue->timeline, task->value};
}
static inline bool braid_queue_ended(const braid_queue *queue, const braid_task *task) {
  return braid_timeline_reached(queue->timeline, task->value);
}

/* Submits the task, waits for its end and returns its status, or TIMEOUT. `timeout_ns` < 0: no limit. */
BRAID_MUST_CHECK braid_status braid_queue_do(braid_queue *queue, braid_task *task, int64_t timeout_ns);
/* Waits for a submitted task. */
BRAID_MUST_CHECK braid_status braid_queue_wait(const braid_queue *queue, const braid_task *task, int64_t timeout_ns);

#endif
