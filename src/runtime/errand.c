#include "runtime/errand.h"

#include <string.h>

#include "base/clock.h"
#include "base/detail.h"
#include "base/try.h"

void braid_errand_init(braid_errand *errand, braid_machine *machine) {
  *errand = (braid_errand){.machine = machine};
}

static void errand_end(braid_errand *errand) {
  braid_machine_discard(errand->machine, errand->device, errand->prepared);
  errand->prepared = NULL;
  errand->lender = NULL;
  errand->left = false;
}

static void free_staging(braid_errand *errand) {
  braid_free(errand->machine->allocator, errand->staging);
  errand->staging = NULL;
}

void braid_errand_deinit(braid_errand *errand) {
  free_staging(errand);
}

braid_status braid_errand_settle(braid_errand *errand, int64_t timeout_ns) {
  if (!errand->left) return BRAID_OK;
  braid_status status =
      braid_machine_await(errand->machine, 1u << errand->device, errand->point, braid_deadline_ns(timeout_ns));
  if (status != BRAID_OK) return braid_fail_prefix(status, "an earlier transfer");
  errand_end(errand);
  free_staging(errand);
  return BRAID_OK;
}

static braid_status submit_and_wait(braid_errand *errand, int queue_index, int64_t timeout_ns) {
  braid_queue *queue;
  BRAID_TRY(braid_machine_queue(errand->machine, queue_index, &queue));
  braid_verdict_init(&errand->verdict);
  errand->task.verdict = &errand->verdict;
  BRAID_TRY(braid_queue_submit(queue, &errand->task));
  braid_queue_flush(queue);
  errand->point = braid_queue_point(queue, &errand->task);
  braid_status status =
      braid_machine_await(errand->machine, 1u << errand->device, errand->point, braid_deadline_ns(timeout_ns));
  errand->left = status != BRAID_OK;
  return errand->left ? status : braid_verdict_status(&errand->verdict);
}

braid_status braid_errand_run(braid_errand *errand, int device, int queue, int64_t timeout_ns) {
  errand->device = device;
  braid_status status = submit_and_wait(errand, queue, timeout_ns);
  if (!errand->left) errand_end(errand);
  return status;
}

braid_status braid_errand_move(braid_errand *errand, int device, const braid_binding *place, void *host, bool write,
                               int64_t timeout_ns) {
  BRAID_TRY(braid_errand_settle(errand, timeout_ns));
  errand->task = (braid_task){.kind = write ? BRAID_TASK_WRITE : BRAID_TASK_READ,
                              .label = "transfer",
                              .source = *place,
                              .target = *place,
                              .host = host};
  return braid_errand_run(errand, device, braid_queue_index(device, BRAID_QUEUE_KERNELS), timeout_ns);
}

braid_status braid_errand_move_staged(braid_errand *errand, int device, const braid_binding *place, void *host,
                                      bool write, int64_t timeout_ns) {
  const braid_allocator *allocator = errand->machine->allocator;
  BRAID_TRY(braid_errand_settle(errand, timeout_ns));
  void *staging = errand->staging = braid_alloc(allocator, place->bytes);
  if (!staging) return braid_fail(BRAID_NO_MEMORY, "%zu bytes requested", place->bytes);
  if (write) memcpy(staging, host, place->bytes);
  braid_status status = braid_errand_move(errand, device, place, staging, write, timeout_ns);
  if (errand->left) return status;
  if (status == BRAID_OK && !write) memcpy(host, staging, place->bytes);
  free_staging(errand);
  return status;
}
