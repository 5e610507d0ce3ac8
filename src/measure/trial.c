#include "measure/trial.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/try.h"
#include "runtime/execution/execution.h"

static const int64_t kLimitNs = 60000000000;

struct braid_trial {
  const braid_allocator *allocator;
  braid_plan *plan;
  braid_execution *execution;
  braid_buffer **buffers; /* of inputs, then outputs */
  size_t buffer_count;
  char kernel[96];
};

/* --- contents ------------------------------------------------------------------------------------------------------
 * Numbers between -1 and 1, all different, so that no kernel has an easy time with zeros; whole numbers of 32 bits and
 * more are 0, since they may be indices, labels or counts. */
static float number_at(size_t index) {
  uint32_t hash = (uint32_t)index * 2654435761u;
  hash ^= hash >> 15;
  return (float)(int32_t)(hash * 2246822519u) * 0x1p-31f;
}

void braid_trial_fill(const braid_desc *desc, void *data) {
  size_t count = (size_t)braid_desc_count(desc), bytes = braid_desc_bytes(desc);
  memset(data, 0, bytes);
  if (desc->dtype == BRAID_F32)
    for (size_t i = 0; i < count; i++) ((float *)data)[i] = number_at(i);
  if (desc->dtype == BRAID_F64)
    for (size_t i = 0; i < count; i++) ((double *)data)[i] = (double)number_at(i);
  if (desc->dtype == BRAID_I8)
    for (size_t i = 0; i < count; i++) ((int8_t *)data)[i] = (int8_t)(127 * number_at(i));
  if (desc->dtype == BRAID_U8)
    for (size_t i = 0; i < count; i++) ((uint8_t *)data)[i] = (uint8_t)(127 + 127 * number_at(i));
}

static braid_status fill_buffer(const braid_allocator *allocator, const braid_desc *desc, braid_buffer *buffer) {
  size_t bytes = braid_desc_bytes(desc);
  void *data = braid_alloc(allocator, bytes);
  if (!data) return BRAID_NO_MEMORY;
  braid_trial_fill(desc, data);
  braid_status status = braid_buffer_write(buffer, data, bytes, kLimitNs);
  braid_free(allocator, data);
  return status;
}

/* --- making --------------------------------------------------------------------------------------------------------
 */
static braid_status bind_inputs(braid_trial *trial, braid_machine *machine) {
  for (size_t i = 0; i < braid_plan_input_count(trial->plan); i++) {
    const braid_desc *desc = braid_plan_input(trial->plan, i);
    braid_buffer **buffer = &trial->buffers[trial->buffer_count];
    BRAID_TRY(braid_buffer_create(machine, braid_plan_input_device(trial->plan, i), desc, buffer));
    trial->buffer_count++;
    BRAID_TRY(fill_buffer(trial->allocator, desc, *buffer));
    BRAID_TRY(braid_execution_bind_input(trial->execution, i, *buffer));
  }
  return BRAID_OK;
}

static braid_status bind_outputs(braid_trial *trial, braid_machine *machine) {
  for (size_t i = 0; i < braid_plan_output_count(trial->plan); i++) {
    braid_buffer **buffer = &trial->buffers[trial->buffer_count];
    BRAID_TRY(braid_buffer_create(machine, braid_plan_output_device(trial->plan, i), braid_plan_output(trial->plan, i),
                                  buffer));
    trial->buffer_count++;
    BRAID_TRY(braid_execution_bind_output(trial->execution, i, *buffer));
  }
  return BRAID_OK;
}

static bool is_kernel(const braid_step *step) {
  return step->node >= 0 && step->kind == BRAID_STEP_KERNEL && step->kernel;
}

/* One kernel, or the first of several. */
static void name_kernel(braid_trial *trial) {
  size_t count = 0;
  const char *first = "";
  for (size_t i = 0; i < trial->plan->steps.count; i++) {
    if (!is_kernel(&trial->plan->steps.items[i])) continue;
    if (!count++) first = trial->plan->steps.items[i].kernel->name;
  }
  if (count > 1)
    snprintf(trial->kernel, sizeof trial->kernel, "%.60s and %zu more", first, count - 1);
  else
    snprintf(trial->kernel, sizeof trial->kernel, "%.80s", first);
}

static braid_status trial_make(braid_trial *trial, braid_machine *machine, const braid_graph *graph, bool training) {
  const braid_plan_options options = {.training = training, .no_fusion = true, .device_io = true};
  BRAID_TRY(braid_plan_create(machine, graph, &options, &trial->plan));
  name_kernel(trial);
  if (!trial->kernel[0]) return BRAID_OK;
  size_t ports = braid_plan_input_count(trial->plan) + braid_plan_output_count(trial->plan);
  trial->buffers = braid_zalloc_array(trial->allocator, ports + 1, sizeof *trial->buffers);
  if (!trial->buffers) return BRAID_NO_MEMORY;
  BRAID_TRY(braid_execution_make(trial->plan, NULL, kLimitNs, &trial->execution));
  trial->execution->timed = true;
  BRAID_TRY(bind_inputs(trial, machine));
  return bind_outputs(trial, machine);
}

braid_status braid_trial_create(braid_machine *machine, const braid_graph *graph, bool training,
                                const braid_allocator *allocator, braid_trial **out) {
  *out = NULL;
  braid_trial *trial = braid_zalloc(allocator, sizeof *trial);
  if (!trial) return BRAID_NO_MEMORY;
  trial->allocator = allocator;
  braid_status status = trial_make(trial, machine, graph, training);
  if (status == BRAID_OK)
    *out = trial;
  else
    braid_trial_destroy(trial);
  return status;
}

void braid_trial_destroy(braid_trial *trial) {
  if (!trial) return;
  braid_execution_destroy(trial->execution);
  for (size_t i = 0; i < trial->buffer_count; i++) braid_buffer_release(trial->buffers[i]);
  braid_free(trial->allocator, trial->buffers);
  braid_plan_release(trial->plan);
  braid_free(trial->allocator, trial);
}

/* --- running -------------------------------------------------------------------------------------------------------
 */
braid_status braid_trial_run(braid_trial *trial, double *seconds) {
  int64_t start = braid_now_ns();
  BRAID_TRY(braid_execution_run(trial->execution, NULL, NULL));
  double whole = (double)(braid_now_ns() - start) * 1e-9, sum = 0;
  for (size_t i = 0; i < trial->plan->steps.count; i++) {
    if (!is_kernel(&trial->plan->steps.items[i])) continue;
    double part = braid_execution_last_seconds(trial->execution, i);
    sum = part < 0 || sum < 0 ? -1 : sum + part;
  }
  *seconds = sum > 0 ? sum : whole;
  return BRAID_OK;
}

/* A copy of the run's task: it waits for nothing, and nobody asks for its time. It lies on the stack, so its end is
 * waited for however long that takes; a run of a minute has failed before. */
static braid_status repeat_step(braid_trial *trial, size_t step) {
  braid_verdict verdict;
  braid_task task = trial->execution->tasks[step];
  braid_verdict_init(&verdict);
  task.verdict = &verdict;
  task.wait_count = 0;
  task.timing = NULL;
  return braid_queue_do(trial->execution->parts[trial->plan->steps.items[step].queue].queue, &task, -1);
}

braid_status braid_trial_run_kernels(braid_trial *trial, size_t times) {
  for (size_t t = 0; t < times; t++)
    for (size_t i = 0; i < trial->plan->steps.count; i++)
      if (is_kernel(&trial->plan->steps.items[i])) BRAID_TRY(repeat_step(trial, i));
  return BRAID_OK;
}

const char *braid_trial_kernel(const braid_trial *trial) {
  return trial->kernel;
}

bool braid_trial_is_empty(const braid_trial *trial) {
  return !trial->execution;
}
