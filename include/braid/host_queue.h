/* A queue served by one thread of the host: for devices whose work the host does (cpu, null, simulators) or whose
 * driver has no queue of its own.
 *
 * Tasks are taken without a lock or an allocation and run in order of submission. The queue waits for what a task waits
 * for, honours its verdict, measures it and raises the timeline; `run` only does the work. */
#ifndef BRAID_HOST_QUEUE_H
#define BRAID_HOST_QUEUE_H

#include "braid/device.h"

typedef struct braid_host_queue braid_host_queue;

typedef struct braid_host_queue_ops {
  void (*enter)(void *context); /* called first in the new thread; NULL: nothing to do */
  braid_status (*run)(void *context, const braid_task *task);
} braid_host_queue_ops;

/* `name` is the thread's (at most 15 characters). `ops` and `context` must outlive the queue. */
BRAID_API BRAID_MUST_CHECK braid_status braid_host_queue_create(const braid_allocator *allocator, const char *name,
                                                                const braid_host_queue_ops *ops, void *context,
                                                                braid_timeline *timeline, braid_host_queue **out);
BRAID_API void braid_host_queue_destroy(braid_host_queue *queue); /* runs what was submitted first */
BRAID_API braid_status braid_host_queue_submit(braid_host_queue *queue, braid_task *task);
/* For braid_backend.record, erase, replay and run: the thread is handed all of a recording at once, and goes through it
 * without looking left or right. `run` does the work in the calling thread. */
BRAID_API BRAID_MUST_CHECK braid_status braid_host_queue_record(braid_host_queue *queue, braid_task *const *tasks,
                                                                size_t count, void **recording);
BRAID_API void braid_host_queue_erase(braid_host_queue *queue, void *recording);
BRAID_API braid_status braid_host_queue_replay(braid_host_queue *queue, void *recording, uint64_t first);
BRAID_API void braid_host_queue_run(braid_host_queue *queue, void *recording, uint64_t first,
                                    braid_status (*run)(void *context, const braid_task *task), void *context);

#endif
