/* What is tried when a model is loaded: every batch that its runs may have, with numbers drawn, and whether rows have
 * the same bits in each. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/philox.h"
#include "base/try.h"
#include "serve/model_parts.h"

enum { kRuns = 4 };

static void draw(braid_dtype dtype, void *data, size_t bytes, uint32_t tensor) {
  size_t size = braid_dtype_size(dtype), count = bytes / size;
  for (size_t i = 0; i < count; i++) {
    float value = braid_random_normal(1, 0, tensor, i);
    double wide = value;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t upper = (uint16_t)(bits >> 16), half = (uint16_t)(0x3800 | (bits >> 13 & 0x83FF)); /* 0.5 to 2, any sign */
    uint8_t *to = (uint8_t *)data + i * size;
    memset(to, 0, size);
    if (dtype == BRAID_F32)
      memcpy(to, &value, size);
    else if (dtype == BRAID_F64)
      memcpy(to, &wide, size);
    else if (dtype == BRAID_BF16)
      memcpy(to, &upper, size);
    else if (dtype == BRAID_F16)
      memcpy(to, &half, size);
    else
      to[0] = bits & 1; /* an index that everything has, a byte, a bool */
  }
}

static void rows_dims(const braid_serve_model *model, int64_t rows, int64_t dims[][BRAID_MAX_RANK]) {
  for (size_t i = 0; i < model->input_count; i++)
    braid_serve_trial_dims(&model->inputs[i], model->batched ? rows : 0, model->trial_dim, dims[i]);
}

static bool is_dynamic(const braid_serve_model *model) {
  for (size_t i = 0; i < model->input_count; i++)
    for (int k = model->batched; k < model->inputs[i].rank; k++)
      if (model->inputs[i].dims[k] < 0) return true;
  return false;
}

/* A trial of one batch: its plan, with operands of its own. */
typedef struct trial {
  braid_serve_plan *plan;
  void *inputs[BRAID_SERVE_PORTS], *outputs[BRAID_SERVE_PORTS];
} trial;

static void trial_deinit(trial *t) {
  for (size_t i = 0; i < BRAID_SERVE_PORTS; i++) {
    braid_free(NULL, t->inputs[i]);
    braid_free(NULL, t->outputs[i]);
  }
  braid_serve_plan_free(t->plan);
}

static braid_status trial_init(braid_serve_model *model, int64_t batch, trial *t) {
  int64_t dims[BRAID_SERVE_PORTS][BRAID_MAX_RANK] = {{0}};
  *t = (trial){0};
  rows_dims(model, batch, dims);
  BRAID_TRY(braid_serve_plan_make(model, batch, (const int64_t(*)[BRAID_MAX_RANK])dims, &t->plan));
  for (size_t i = 0; i < model->device->instance_count; i++) BRAID_TRY(braid_serve_plan_prepare(model, t->plan, i));
  for (size_t i = 0; i < model->input_count; i++) {
    size_t bytes = braid_desc_bytes(braid_plan_input(t->plan->plans[0], i));
    t->inputs[i] = braid_alloc(NULL, bytes);
    if (!t->inputs[i]) return BRAID_NO_MEMORY;
    draw(model->inputs[i].dtype, t->inputs[i], bytes, (uint32_t)i); /* row k has the same numbers in every batch */
  }
  for (size_t i = 0; i < model->output_count; i++) {
    t->outputs[i] = braid_alloc(NULL, braid_desc_bytes(braid_plan_output(t->plan->plans[0], i)));
    if (!t->outputs[i]) return BRAID_NO_MEMORY;
  }
  return BRAID_OK;
}

static braid_status trial_run(trial *t) {
  for (int i = 0; i < kRuns; i++) {
    int64_t began = braid_now_ns();
    BRAID_TRY(braid_execution_run(t->plan->executions[0], (const void *const *)t->inputs, t->outputs));
    if (i)
      braid_serve_plan_measure(t->plan, (double)(braid_now_ns() - began)); /* not the first, which finds cold caches */
  }
  return BRAID_OK;
}

/* The furthest that results of `small`'s rows are from those of the same rows in `large`, as part of the largest; 0:
 * the bits are the same. */
static double rows_differ(const braid_serve_model *model, const trial *small, const trial *large) {
  double most = 0;
  for (size_t i = 0; i < model->output_count; i++) {
    size_t bytes = braid_desc_bytes(braid_plan_output(small->plan->plans[0], i));
    if (memcmp(small->outputs[i], large->outputs[i], bytes) == 0) continue;
    if (model->outputs[i].dtype != BRAID_F32) return INFINITY;
    const float *a = small->outputs[i], *b = large->outputs[i];
    double away = 0, largest = 0;
    for (size_t k = 0; k < bytes / sizeof *a; k++) {
      away = fmax(away, fabs((double)a[k] - (double)b[k]));
      largest = fmax(largest, fabs((double)a[k]));
    }
    most = fmax(most, largest > 0 ? away / largest : INFINITY);
  }
  return most;
}

static const double kNear = 1e-3; /* of the largest result: beyond, rows depend on each other */

/* Makes the plan of `batch` rows, runs it, and compares its rows with `before`, of fewer. False: rows may not share
 * such a run, for the reason in model->batching. */
static braid_status try_batch(braid_serve_model *model, int64_t batch, const trial *before, trial *t,
                              bool *out_shares) {
  *out_shares = true;
  BRAID_TRY(trial_init(model, batch, t));
  BRAID_TRY(trial_run(t));
  if (!before) return BRAID_OK;
  double away = rows_differ(model, before, t);
  bool any = strcmp(model->config->batch_bits, "any") == 0;
  if (away > kNear)
    snprintf(model->batching, sizeof model->batching, "up to %lld rows: beyond, results of a row depend on other rows",
             (long long)before->plan->batch);
  else if (away > 0 && !any)
    snprintf(model->batching, sizeof model->batching,
             "up to %lld rows: with %lld other bits come out, off by %.1e of the largest (batch_bits: any allows it)",
             (long long)before->plan->batch, (long long)batch, away);
  *out_shares = away <= kNear && (away == 0 || any);
  return BRAID_OK;
}

braid_status braid_serve_model_try(braid_serve_model *model) {
  trial last = {0}, next;
  bool shares;
  int64_t batch = 1;
  model->trial_dim = model->trial_dim ? model->trial_dim : 1;
  braid_status status = try_batch(model, 1, NULL, &last, &shares);
  if (status != BRAID_OK) {
    trial_deinit(&last);
    if (!is_dynamic(model)) return status;
    model->max_batch = 1; /* nothing is known of shapes: what the drawn one cannot do, others may */
    snprintf(model->batching, sizeof model->batching, "no: inputs of the shape tried do not run");
    return BRAID_OK;
  }
  while (batch < model->max_batch && status == BRAID_OK) {
    int64_t twice = batch * 2 < model->max_batch ? batch * 2 : model->max_batch;
    status = try_batch(model, twice, &last, &next, &shares);
    if (status != BRAID_OK || !shares) {
      trial_deinit(&next);
      break;
    }
    braid_serve_plan_keep(model, last.plan);
    last.plan = NULL;
    trial_deinit(&last);
    last = next;
    batch = twice;
  }
  if (status == BRAID_OK && batch == model->max_batch && batch > 1)
    snprintf(model->batching, sizeof model->batching, "up to %lld rows, %s", (long long)batch,
             strcmp(model->config->batch_bits, "any") == 0 ? "within 1e-3 of their results alone"
                                                           : "with the bits that they have alone");
  model->max_batch = batch;
  braid_serve_plan_keep(model, last.plan);
  last.plan = NULL;
  trial_deinit(&last);
  return status;
}
