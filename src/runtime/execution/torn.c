/* Torn weights. A run that updates parameters and states and ends before all of its updates have leaves weights of two
 * steps, or one half written. What its tasks had begun to write is marked then, and refused to whoever would read it,
 * until it is written from outside. A run that ends before the first update begins, or after the last one has ended,
 * tears nothing.
 *
 * Whether a task began is told by its timing where a device marks that (braid_backend.marks_begun); another device may
 * have begun whatever it was given. */
#include <stdio.h>

#include "base/detail.h"
#include "base/try.h"
#include "runtime/execution/execution.h"

/* --- tasks that write weights --------------------------------------------------------------------------------------
 */
static bool is_weight(const braid_execution *execution, braid_storage_id storage) {
  return execution->plan->storages[storage].kind == BRAID_STORAGE_PERSISTENT;
}

typedef struct writer_search {
  const braid_execution *execution;
  bool found;
} writer_search;

static void look_for_write(void *context, braid_storage_id storage, bool writes) {
  writer_search *search = context;
  search->found |= writes && is_weight(search->execution, storage);
}

braid_status braid_execution_find_writers(braid_execution *execution) {
  const braid_plan *plan = execution->plan;
  if (!plan->writes_weights) return BRAID_OK;
  execution->writers = braid_zalloc_array(execution->allocator, plan->steps.count, sizeof *execution->writers);
  if (!execution->writers) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < plan->steps.count; i++) {
    writer_search search = {.execution = execution};
    braid_step_visit(plan, &plan->steps.items[i], look_for_write, &search);
    if (search.found) execution->writers[execution->writer_count++] = i;
  }
  return BRAID_OK;
}

static bool marks_begun(const braid_execution *execution, size_t index) {
  return execution->machine->devices[execution->plan->steps.items[index].device].backend->marks_begun;
}

void braid_execution_watch_writers(braid_execution *execution) {
  for (size_t i = 0; i < execution->writer_count; i++) {
    size_t index = execution->writers[i];
    if (!marks_begun(execution, index)) continue;
    execution->timings[index] = (braid_timing){.energy_uj = -1};
    execution->tasks[index].timing = &execution->timings[index];
  }
}

/* --- how far a run has come ----------------------------------------------------------------------------------------
 */
static bool has_begun(const braid_execution *execution, size_t index) {
  const braid_step *step = &execution->plan->steps.items[index];
  if ((uint64_t)step->nth >= execution->parts[step->queue].submitted) return false;
  return !marks_begun(execution, index) || execution->timings[index].start_ns;
}

static bool has_written(const braid_execution *execution, size_t index) {
  const braid_verdict *verdict = &execution->verdict;
  return marks_begun(execution, index) && execution->timings[index].end_ns &&
         verdict->task != &execution->tasks[index] && verdict->failures <= 1; /* only the first failure has a name */
}

static void mark_written(void *context, braid_storage_id storage, bool writes) {
  const braid_execution *execution = context;
  if (writes && is_weight(execution, storage)) braid_weights_tear(execution->weights, execution->found[storage]);
}

void braid_execution_tear(braid_execution *execution, bool ended) {
  size_t begun = 0, written = 0;
  for (size_t i = 0; ended && i < execution->writer_count; i++) {
    begun += has_begun(execution, execution->writers[i]);
    written += has_written(execution, execution->writers[i]);
  }
  if (ended && (!begun || written == execution->writer_count)) return;
  for (size_t i = 0; i < execution->writer_count; i++) {
    size_t index = execution->writers[i];
    if (!ended || has_begun(execution, index))
      braid_step_visit(execution->plan, &execution->plan->steps.items[index], mark_written, execution);
  }
}

/* --- the weights' side ---------------------------------------------------------------------------------------------
 */
void braid_weights_tear(braid_weights *weights, braid_weight *weight) {
  if (!weight->torn) __atomic_add_fetch(&weights->torn, 1, __ATOMIC_RELAXED);
  weight->torn = true;
}

void braid_weights_mend(braid_weights *weights, braid_weight *weight) {
  if (weight->torn) __atomic_sub_fetch(&weights->torn, 1, __ATOMIC_RELAXED);
  weight->torn = false;
}

braid_status braid_weight_check(const braid_weight *weight) {
  if (!weight->torn) return BRAID_OK;
  return braid_fail(BRAID_TORN,
                    "%.120s is torn: a run or a call that was writing it failed or was cancelled before all was "
                    "written, and what there is may be of two steps; load a checkpoint, or write it and all others "
                    "that are torn",
                    weight->name);
}

braid_status braid_execution_check_whole(const braid_execution *execution) {
  if (!__atomic_load_n(&execution->weights->torn, __ATOMIC_RELAXED)) return BRAID_OK;
  for (size_t i = 0; i < execution->plan->storage_count; i++)
    if (execution->found[i]) BRAID_TRY(braid_weight_check(execution->found[i]));
  return BRAID_OK;
}
