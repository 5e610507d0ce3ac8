#include "runtime/errand.h"

#include <string.h>

#include "base/clock.h"
#include "base/detail.h"
#include "base/try.h"

void braid_errand_init(braid_errand *errand, braid_machine *machine) {
  *errand = (braid_errand){.machine = machine};
  braid_event_init(&errand->event, machine->allocator);
}

void braid_errand_deinit(braid_errand *errand) {
  braid_event_deinit(&errand->event);
  braid_free(errand->machine->allocator, errand->staging);
}

static int64_t deadline_of(int64_t timeout_ns) {
  return timeout_ns < 0 ? -1 : braid_now_ns() + timeout_ns;
}

braid_status braid_errand_settle(braid_errand *errand, int64_t timeout_ns) {
  if (!errand->left) return BRAID_OK;
  braid_status status = braid_machine_await(errand->machine, errand->device, &errand->event, deadline_of(timeout_ns));
  if (status != BRAID_OK) return braid_fail_prefix(status, "an earlier transfer");
  errand->left = false;
  braid_free(errand->machine->allocator, errand->staging);
  errand->staging = NULL;
  return BRAID_OK;
}

braid_status braid_errand_run(braid_errand *errand, int device, int queue_index, int64_t timeout_ns) {
  const braid_backend *backend = errand->machine->devices[device].backend;
  void *queue;
  BRAID_TRY(braid_machine_queue(errand->machine, queue_index, &queue));
  braid_event_reset(&errand->event);
  errand->task.done = &errand->event;
  braid_clear_detail();
  BRAID_TRY(backend->submit(queue, &errand->task));
  if (backend->flush) backend->flush(queue);
  braid_status status = braid_machine_await(errand->machine, 1u << device, &errand->event, deadline_of(timeout_ns));
  if (status == BRAID_OK) return braid_event_wait(&errand->event, 0);
  errand->left = true;
  errand->device = 1u << device;
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
  if (!staging) return braid_fail(BRAID_NO_MEMORY, "%zu bytes asked for", place->bytes);
  if (write) memcpy(staging, host, place->bytes);
  braid_status status = braid_errand_move(errand, device, place, staging, write, timeout_ns);
  if (errand->left) return status;
  if (status == BRAID_OK && !write) memcpy(host, staging, place->bytes);
  braid_free(allocator, staging);
  errand->staging = NULL;
  return status;
}
