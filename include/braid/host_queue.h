/* A queue that is executed by one host thread: for devices whose kernels run on the host (CPU, simulators) or whose
 * driver has no queues.
 *
 * Tasks run in order of submission; submitting neither locks nor allocates. The queue waits for the points that a task
 * waits for, skips tasks of cancelled runs, measures times and raises the timeline; `run` only executes the task. A
 * `run` that simulates a device may write task->timing itself: if it sets end_ns, the times are left as they are. */
#ifndef BRAID_HOST_QUEUE_H
#define BRAID_HOST_QUEUE_H

#include "braid/device.h"

typedef struct braid_host_queue braid_host_queue;

typedef struct braid_host_queue_ops {
  void (*enter)(void *context); /* called once at the start of the thread; may be NULL */
  braid_status (*run)(void *context, const braid_task *task);
} braid_host_queue_ops;

/* `name` is the name of the thread (at most 15 characters). `ops` and `context` must outlive the queue. */
BRAID_API BRAID_MUST_CHECK braid_status braid_host_queue_create(const braid_allocator *allocator, const char *name,
                                                                const braid_host_queue_ops *ops, void *context,
                                                                braid_timeline *timeline, braid_host_queue **out);
BRAID_API void braid_host_queue_destroy(braid_host_queue *queue); /* after all submitted tasks */
BRAID_API braid_status braid_host_queue_submit(braid_host_queue *queue, braid_task *task);
/* Implementations of braid_backend.record, erase, replay and run. A recording is submitted as one entry, and its tasks
 * run without further synchronization. braid_host_queue_run executes the tasks in the calling thread, by calling `run`.
 */
BRAID_API BRAID_MUST_CHECK braid_status braid_host_queue_record(braid_host_queue *queue, braid_task *const *tasks,
                                                                size_t count, void **recording);
BRAID_API void braid_host_queue_erase(braid_host_queue *queue, void *recording);
BRAID_API braid_status braid_host_queue_replay(braid_host_queue *queue, void *recording, uint64_t first);
BRAID_API void braid_host_queue_run(braid_host_queue *queue, void *recording, uint64_t first,
                                    braid_status (*run)(void *context, const braid_task *task), void *context);
/* Called before each task of every such queue of this process, by the thread that runs it, where it may wait: for
 * processes that compute only while others do not. NULL: nobody, the default. Tasks that are queued or recorded
 * already are included. The function and `context` must stay valid until the queues have no more tasks. */
BRAID_API void braid_host_queue_set_pace(void (*pace)(void *context), void *context);

#endif
