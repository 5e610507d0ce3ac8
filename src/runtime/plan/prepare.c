/* Asking the kernels of all nodes what they need, and preparing them: that is most of what making a session costs, so
 * devices that allow it have it done by several threads at once. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/detail.h"
#include "base/thread.h"
#include "base/try.h"
#include "runtime/plan/prepared.h"
#include "runtime/plan/restore.h"

enum { kMaxWorkers = 15, kNodesPerWorker = 4, kDetailBytes = 1024 };

typedef struct work work;
struct work {
  const braid_plan *plan;
  braid_prepared **prepared;
  braid_status (*call)(work *w, size_t index);
  atomic_size_t next;   /* the step to look at next */
  atomic_size_t failed; /* the first step that failed; SIZE_MAX: none. None after it is begun */
  pthread_mutex_t lock; /* of what follows, which tells of that step */
  braid_status status;
  char detail[kDetailBytes];
  const braid_progress *progress; /* NULL: nobody is told */
  size_t done, total;
};

static bool is_concurrent(const braid_plan *plan, const braid_step *step) {
  return plan->devices[step->device].backend->concurrent_prepare;
}

static bool has_kernel(const braid_step *step) {
  return step->kind == BRAID_STEP_KERNEL;
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

/* Has the numbers computed of the constants that prepare may look at: all but those that are packed later. */
static void fill_constants(const braid_plan *plan, const braid_step *step) {
  for (size_t i = 0; step->node >= 0 && i < step->input_count; i++) {
    if (!step->operands[i].constant || braid_step_packing(step, i)) continue;
    const braid_tensor *tensor = plan->graph->values[plan->graph->nodes[step->node].inputs[i]].tensor;
    if (tensor) (void)braid_tensor_const_data(tensor);
  }
}

static braid_status query_step(work *w, size_t index) {
  braid_step *step = &w->plan->steps.items[index];
  if (step->desc->region) {
    BRAID_TRY(braid_machine_query_region(w->plan->machine, step->device, step->kernel, step->desc, &step->query,
                                         step->packings));
  } else {
    if (!w->plan->devices[step->device].backend->query) fill_constants(w->plan, step);
    BRAID_TRY(
        braid_machine_query(w->plan->machine, step->device, step->kernel, step->desc, &step->query, &step->folded));
  }
  step->desc->packed = step->query.packing_count > 0;
  return BRAID_OK;
}

static braid_status prepare_step(work *w, size_t index) {
  const braid_step *step = &w->plan->steps.items[index];
  fill_constants(w->plan, step);
  BRAID_TRY(braid_prepared_get(w->plan, step, &w->prepared[index]));
  const braid_prepared_info info = w->prepared[index]->info;
  if (info.workspace_bytes == step->query.workspace_bytes && info.constants_folded == step->folded) return BRAID_OK;
  return braid_fail(BRAID_INTERNAL,
                    "asks for another workspace (%zu bytes, not %zu) or folds other constants than it said",
                    info.workspace_bytes, step->query.workspace_bytes);
}

static void tell_progress(work *w, size_t more) {
  if (!w->progress || !w->progress->report) return;
  pthread_mutex_lock(&w->lock);
  w->done += more;
  w->progress->report(w->progress->context, "preparing kernels", w->done, w->total);
  pthread_mutex_unlock(&w->lock);
}

static void call_step(work *w, size_t index) {
  const braid_step *step = &w->plan->steps.items[index];
  braid_status status = w->call(w, index);
  if (status == BRAID_OK) tell_progress(w, 1);
  if (status == BRAID_OK) return;
  note_failure(w, index,
               braid_fail_prefix(status, "node %.120s (%s): kernel %s", step->label, step->op, step->kernel->name));
}

/* The steps in order, as long as no earlier one has failed: so the failure told of is that of the first in order. */
static void call_alone(work *w) {
  const braid_step_list *steps = &w->plan->steps;
  for (size_t i = 0; i < steps->count && i < atomic_load(&w->failed); i++)
    if (has_kernel(&steps->items[i]) && !is_concurrent(w->plan, &steps->items[i])) call_step(w, i);
}

static void *call_shared(void *context) {
  work *w = context;
  const braid_step_list *steps = &w->plan->steps;
  for (;;) {
    size_t i = atomic_fetch_add(&w->next, 1);
    if (i >= steps->count || i > atomic_load(&w->failed)) return NULL;
    if (has_kernel(&steps->items[i]) && is_concurrent(w->plan, &steps->items[i])) call_step(w, i);
  }
}

/* As many as the devices have threads of their own to spare, no more than pay for their start. */
static size_t count_workers(const braid_plan *plan) {
  size_t nodes = 0, most = 1;
  for (size_t i = 0; i < plan->steps.count; i++)
    if (has_kernel(&plan->steps.items[i]) && is_concurrent(plan, &plan->steps.items[i])) nodes++;
  for (size_t i = 0; i < plan->device_count; i++)
    if (plan->devices[i].backend->concurrent_prepare && plan->devices[i].info->compute_units > most)
      most = plan->devices[i].info->compute_units;
  if (most > nodes / kNodesPerWorker) most = nodes / kNodesPerWorker;
  if (most > kMaxWorkers + 1) most = kMaxWorkers + 1;
  return most > 1 ? most - 1 : 0;
}

static braid_status call_all(work *w) {
  braid_thread workers[kMaxWorkers];
  size_t wanted = count_workers(w->plan), started = 0;
  atomic_init(&w->next, 0);
  atomic_init(&w->failed, SIZE_MAX);
  pthread_mutex_init(&w->lock, NULL);
  for (size_t i = 0; i < w->plan->steps.count; i++) w->total += has_kernel(&w->plan->steps.items[i]);
  tell_progress(w, 0);
  while (started < wanted && braid_thread_start(&workers[started], "braid prepare", call_shared, w) == BRAID_OK)
    started++; /* fewer do as well */
  call_alone(w);
  call_shared(w);
  for (size_t i = 0; i < started; i++) braid_thread_join(&workers[i]);
  pthread_mutex_destroy(&w->lock);
  return w->status == BRAID_OK ? BRAID_OK : braid_fail(w->status, "%s", w->detail);
}

static braid_status restore_queries(braid_plan *plan) {
  for (size_t i = 0; i < plan->steps.count; i++) {
    braid_step *step = &plan->steps.items[i];
    if (step->node < 0) continue;
    BRAID_TRY(braid_restore_query(plan, false, i, step));
    step->desc->packed = step->query.packing_count > 0;
  }
  return BRAID_OK;
}

braid_status braid_plan_query(braid_plan *plan) {
  if (plan->saved) return restore_queries(plan);
  work w = {.plan = plan, .call = query_step};
  return call_all(&w);
}

braid_status braid_plan_prepare(const braid_plan *plan, braid_prepared **prepared) {
  work w = {.plan = plan, .call = prepare_step, .prepared = prepared, .progress = plan->machine->progress};
  return call_all(&w);
}
