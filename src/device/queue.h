/* A backend's queue with its timeline: what gives tasks their values. Whoever drives a device by hand uses it, the
 * runtime, the conformance suite and tests alike. */
#ifndef BRAID_DEVICE_QUEUE_H
#define BRAID_DEVICE_QUEUE_H

#include <pthread.h>

#include "braid/device.h"

typedef struct braid_queue {
  const braid_backend *backend; /* NULL: it is not open */
  void *device, *self;          /* the backend's own */
  braid_timeline *timeline;
  pthread_mutex_t lock; /* of submitting: values are in the order of submission */
  uint64_t last;        /* the value of the task submitted last */
} braid_queue;

/* In storage of its owner. On failure there is nothing to close. */
BRAID_MUST_CHECK braid_status braid_queue_open(braid_queue *queue, const braid_allocator *allocator,
                                               const braid_backend *backend, void *device);
void braid_queue_close(braid_queue *queue); /* waits for what was submitted; one that is not open is allowed */

/* Gives the task the next value and submits it. */
BRAID_MUST_CHECK braid_status braid_queue_submit(braid_queue *queue, braid_task *task);
/* The same with the lock held by the caller, who submits several. */
BRAID_MUST_CHECK braid_status braid_queue_submit_locked(braid_queue *queue, braid_task *task);
void braid_queue_flush(braid_queue *queue);
/* Replays a recording of `count` tasks, with the lock held: their values follow `last`. */
BRAID_MUST_CHECK braid_status braid_queue_replay_locked(braid_queue *queue, void *recording, size_t count);
/* Does so in the calling thread, if nothing is in flight; false: it is to be replayed. Of a backend that can. */
bool braid_queue_run(braid_queue *queue, void *recording, size_t count);

static inline braid_point braid_queue_point(const braid_queue *queue, const braid_task *task) {
  return (braid_point){queue->timeline, task->value};
}
static inline bool braid_queue_ended(const braid_queue *queue, const braid_task *task) {
  return braid_timeline_reached(queue->timeline, task->value);
}

/* Submits the task, and waits for its end: how it ended, or TIMEOUT. `timeout_ns` < 0: no limit. */
BRAID_MUST_CHECK braid_status braid_queue_do(braid_queue *queue, braid_task *task, int64_t timeout_ns);
/* Waits for a task that was submitted. */
BRAID_MUST_CHECK braid_status braid_queue_wait(const braid_queue *queue, const braid_task *task, int64_t timeout_ns);

#endif
