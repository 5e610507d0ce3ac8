#include "runtime/sync_task.h"

#include <string.h>

#include "base/clock.h"
#include "base/detail.h"
#include "base/try.h"

void braid_sync_task_init(braid_sync_task *sync_task, braid_machine *machine) {
  *sync_task = (braid_sync_task){.machine = machine};
}

static void sync_task_end(braid_sync_task *sync_task) {
  braid_machine_discard(sync_task->machine, sync_task->device, sync_task->prepared);
  sync_task->prepared = NULL;
  sync_task->lender = NULL;
  sync_task->abandoned = false;
}

static void free_staging(braid_sync_task *sync_task) {
  braid_free(sync_task->machine->allocator, sync_task->staging);
  sync_task->staging = NULL;
}

void braid_sync_task_deinit(braid_sync_task *sync_task) {
  free_staging(sync_task);
}

braid_status braid_sync_task_settle(braid_sync_task *sync_task, int64_t timeout_ns) {
  if (!sync_task->abandoned) return BRAID_OK;
  braid_status status =
      braid_machine_await(sync_task->machine, 1u << sync_task->device, sync_task->point, braid_deadline_ns(timeout_ns));
  if (status != BRAID_OK) return braid_fail_prefix(status, "an earlier transfer");
  sync_task_end(sync_task);
  free_staging(sync_task);
  return BRAID_OK;
}

static braid_status submit_and_wait(braid_sync_task *sync_task, int queue_index, int64_t timeout_ns) {
  braid_queue *queue;
  BRAID_TRY(braid_machine_queue(sync_task->machine, queue_index, &queue));
  braid_verdict_init(&sync_task->verdict);
  sync_task->task.verdict = &sync_task->verdict;
  BRAID_TRY(braid_queue_submit(queue, &sync_task->task));
  braid_queue_flush(queue);
  sync_task->point = braid_queue_point(queue, &sync_task->task);
  braid_status status =
      braid_machine_await(sync_task->machine, 1u << sync_task->device, sync_task->point, braid_deadline_ns(timeout_ns));
  sync_task->abandoned = status != BRAID_OK;
  return sync_task->abandoned ? status : braid_verdict_status(&sync_task->verdict);
}

braid_status braid_sync_task_run(braid_sync_task *sync_task, int device, int queue, int64_t timeout_ns) {
  sync_task->device = device;
  braid_status status = submit_and_wait(sync_task, queue, timeout_ns);
  if (!sync_task->abandoned) sync_task_end(sync_task);
  return status;
}

braid_status braid_sync_task_copy(braid_sync_task *sync_task, int device, const braid_binding *place, void *host,
                                  bool write, int64_t timeout_ns) {
  BRAID_TRY(braid_sync_task_settle(sync_task, timeout_ns));
  sync_task->task = (braid_task){.kind = write ? BRAID_TASK_WRITE : BRAID_TASK_READ,
                                 .label = "transfer",
                                 .source = *place,
                                 .target = *place,
                                 .host = host};
  return braid_sync_task_run(sync_task, device, braid_queue_index(device, BRAID_QUEUE_KERNELS), timeout_ns);
}

braid_status braid_sync_task_copy_staged(braid_sync_task *sync_task, int device, const braid_binding *place, void *host,
                                         bool write, int64_t timeout_ns) {
  const braid_allocator *allocator = sync_task->machine->allocator;
  BRAID_TRY(braid_sync_task_settle(sync_task, timeout_ns));
  void *staging = sync_task->staging = braid_alloc(allocator, place->bytes);
  if (!staging) return braid_fail(BRAID_NO_MEMORY, "%zu bytes requested", place->bytes);
  if (write) memcpy(staging, host, place->bytes);
  braid_status status = braid_sync_task_copy(sync_task, device, place, staging, write, timeout_ns);
  if (sync_task->abandoned) return status;
  if (status == BRAID_OK && !write) memcpy(host, staging, place->bytes);
  free_staging(sync_task);
  return status;
}
