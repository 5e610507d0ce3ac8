/* Synchronous tasks: single tasks outside of runs (copies of weights and buffers, packing), each waited for by the call
 * that submits it. The task and the memory it uses belong to an object, not to that call, because a task that is late,
 * or on a lost device, is abandoned by the call and may still access them. One at a time; the owner synchronizes. */
#ifndef BRAID_RUNTIME_SYNC_TASK_H
#define BRAID_RUNTIME_SYNC_TASK_H

#include "runtime/machine.h"

typedef struct braid_sync_task {
  braid_machine *machine; /* not retained */
  braid_task task;
  braid_verdict verdict;
  braid_binding bindings[3];
  void *staging;      /* copy of the caller's memory; NULL: none */
  void *prepared;     /* a kernel for this task only, discarded when it has ended; NULL: none */
  const void *lender; /* the object whose memory it also uses (weights.c); NULL: none */
  bool abandoned;     /* the last task has not ended: its call abandoned it */
  int device;         /* of that task */
  braid_point point;  /* reached when that task has ended */
} braid_sync_task;

void braid_sync_task_init(braid_sync_task *sync_task, braid_machine *machine);
/* After the last task has ended. */
void braid_sync_task_deinit(braid_sync_task *sync_task);
/* Waits for an abandoned task. TIMEOUT after timeout_ns (< 0: no limit). DEVICE_LOST: it may never end, so its memory
 * must stay valid. */
BRAID_MUST_CHECK braid_status braid_sync_task_settle(braid_sync_task *sync_task, int64_t timeout_ns);
/* Submits sync_task->task and waits for its end. TIMEOUT or DEVICE_LOST: it was abandoned. Call braid_sync_task_settle
 * first. */
BRAID_MUST_CHECK braid_status braid_sync_task_run(braid_sync_task *sync_task, int device, int queue,
                                                  int64_t timeout_ns);
/* Copies between `place`, in the memory of a device, and host memory, after braid_sync_task_settle. `write`: to the
 * device. */
BRAID_MUST_CHECK braid_status braid_sync_task_copy(braid_sync_task *sync_task, int device, const braid_binding *place,
                                                   void *host, bool write, int64_t timeout_ns);
/* The same through staging memory, so that `host` is accessed only during the call. */
BRAID_MUST_CHECK braid_status braid_sync_task_copy_staged(braid_sync_task *sync_task, int device,
                                                          const braid_binding *place, void *host, bool write,
                                                          int64_t timeout_ns);

#endif
