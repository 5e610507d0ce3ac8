/* Getting the kernels of all nodes ready: programs made, constants packed. That is most of what making a session costs,
 * so devices that allow it have it done by several threads at once. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/detail.h"
#include "base/thread.h"
#include "runtime/plan.h"

enum { kMaxWorkers = 15, kNodesPerWorker = 4, kDetailBytes = 1024 };

typedef struct work {
  const braid_plan *plan;
  atomic_size_t next;   /* the step to look at next */
  atomic_size_t failed; /* the first step that failed; SIZE_MAX: none. None after it is begun */
  pthread_mutex_t lock; /* of what follows, which tells of that step */
  braid_status status;
  char detail[kDetailBytes];
} work;

static bool is_concurrent(const braid_plan *plan, const braid_step *step) {
  return plan->devices[step->device].backend->concurrent_prepare;
}

static void note_failure(work *w, size_t index, braid_status status) {
  pthread_mutex_lock(&w->lock);
  if (index < atomic_load(&w->failed)) {
    atomic_store(&w->failed, index);
    w->status = status;
    snprintf(w->detail, sizeof w->detail, "%s", braid_error_detail());
  }
  pthread_mutex_unlock(&w->lock);
}

static void prepare_step(work *w, size_t index) {
  braid_step *step = &w->plan->steps.items[index];
  const braid_plan_device *device = &w->plan->devices[step->device];
  braid_clear_detail();
  braid_status status = device->backend->prepare(device->self, step->kernel, step->desc, &step->prepared, &step->info);
  if (status == BRAID_OK) return;
  step->prepared = NULL;
  note_failure(w, index,
               braid_fail_prefix(status, "node %.120s (%s): kernel %s", step->label, step->op, step->kernel->name));
}

/* The steps in order, as long as no earlier one has failed: so the failure told of is that of the first in order. */
static void prepare_alone(work *w) {
  const braid_step_list *steps = &w->plan->steps;
  for (size_t i = 0; i < steps->count && i < atomic_load(&w->failed); i++)
    if (steps->items[i].node >= 0 && !is_concurrent(w->plan, &steps->items[i])) prepare_step(w, i);
}

static void *prepare_shared(void *context) {
  work *w = context;
  const braid_step_list *steps = &w->plan->steps;
  for (;;) {
    size_t i = atomic_fetch_add(&w->next, 1);
    if (i >= steps->count || i > atomic_load(&w->failed)) return NULL;
    if (steps->items[i].node >= 0 && is_concurrent(w->plan, &steps->items[i])) prepare_step(w, i);
  }
}

/* As many as the devices have threads of their own to spare, no more than pay for their start. */
static size_t count_workers(const braid_plan *plan) {
  size_t nodes = 0, most = 1;
  for (size_t i = 0; i < plan->steps.count; i++)
    if (plan->steps.items[i].node >= 0 && is_concurrent(plan, &plan->steps.items[i])) nodes++;
  for (size_t i = 0; i < plan->device_count; i++)
    if (plan->devices[i].backend->concurrent_prepare && plan->devices[i].info->compute_units > most)
      most = plan->devices[i].info->compute_units;
  if (most > nodes / kNodesPerWorker) most = nodes / kNodesPerWorker;
  if (most > kMaxWorkers + 1) most = kMaxWorkers + 1;
  return most > 1 ? most - 1 : 0;
}

braid_status braid_plan_prepare(braid_plan *plan) {
  work w = {.plan = plan, .next = 0, .failed = SIZE_MAX, .lock = PTHREAD_MUTEX_INITIALIZER, .status = BRAID_OK};
  braid_thread workers[kMaxWorkers];
  size_t wanted = count_workers(plan), started = 0;
  while (started < wanted && braid_thread_start(&workers[started], "braid prepare", prepare_shared, &w) == BRAID_OK)
    started++; /* fewer do as well */
  prepare_alone(&w);
  prepare_shared(&w);
  for (size_t i = 0; i < started; i++) braid_thread_join(&workers[i]);
  pthread_mutex_destroy(&w.lock);
  return w.status == BRAID_OK ? BRAID_OK : braid_fail(w.status, "%s", w.detail);
}
