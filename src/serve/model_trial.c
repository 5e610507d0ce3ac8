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

static void draw_numbers(braid_dtype dtype, void *data, size_t bytes, uint32_t tensor) {
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
    draw_numbers(model->inputs[i].dtype, t->inputs[i], bytes,
                 (uint32_t)i); /* row k has the same numbers in every batch */
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

/* Copies row `row` of what `from` has into the only row of `to`, or back. */
static void move_row(const braid_serve_model *model, trial *one, trial *all, int64_t row, bool outputs) {
  size_t count = outputs ? model->output_count : model->input_count;
  for (size_t i = 0; i < count; i++) {
    const braid_plan *plan = one->plan->plans[0];
    size_t bytes = braid_desc_bytes(outputs ? braid_plan_output(plan, i) : braid_plan_input(plan, i));
    if (outputs)
      memcpy((uint8_t *)all->outputs[i] + (size_t)row * bytes, one->outputs[i], bytes);
    else
      memcpy(one->inputs[i], (uint8_t *)all->inputs[i] + (size_t)row * bytes, bytes);
  }
}

/* Runs every row of `all` by itself; its results take the place of what `all` computed. */
static braid_status run_rows_alone(const braid_serve_model *model, trial *one, trial *all) {
  for (int64_t row = 0; row < all->plan->batch; row++) {
    move_row(model, one, all, row, false);
    BRAID_TRY(braid_execution_run(one->plan->executions[0], (const void *const *)one->inputs, one->outputs));
    move_row(model, one, all, row, true);
  }
  return BRAID_OK;
}

typedef struct difference {
  bool bits;   /* some differ */
  double away; /* the furthest, as part of the largest; infinite where that cannot be said */
} difference;

static void compare_floats(const float *a, const float *b, size_t count, difference *out) {
  double away = 0, largest = 0;
  for (size_t i = 0; i < count; i++) {
    bool same = a[i] == b[i] || (isnan(a[i]) && isnan(b[i]));
    double apart = same ? 0 : fabs((double)a[i] - (double)b[i]);
    away = isnan(apart) ? INFINITY : fmax(away, apart);
    if (isfinite(a[i])) largest = fmax(largest, fabs((double)a[i]));
  }
  out->away = fmax(out->away, away == 0 ? 0 : largest > 0 ? away / largest : INFINITY);
}

/* Of `batch` rows: as they come out alone, and together. */
static difference rows_differ(const braid_serve_model *model, const trial *alone, const trial *together) {
  difference result = {0};
  for (size_t i = 0; i < model->output_count; i++) {
    size_t bytes = braid_desc_bytes(braid_plan_output(together->plan->plans[0], i));
    if (memcmp(alone->outputs[i], together->outputs[i], bytes) == 0) continue;
    result.bits = true;
    if (model->outputs[i].dtype == BRAID_F32)
      compare_floats(alone->outputs[i], together->outputs[i], bytes / sizeof(float), &result);
    else
      result.away = INFINITY;
  }
  return result;
}

static const double kNear = 1e-3; /* of the largest result: beyond, rows depend on each other */

/* Whether rows may share runs of this batch, whose rows `alone` has the results of; else the reason in model->batching.
 */
static braid_status try_batch(braid_serve_model *model, int64_t batch, const trial *alone, trial *t, bool *out_shares) {
  BRAID_TRY(trial_init(model, batch, t));
  BRAID_TRY(trial_run(t));
  difference found = rows_differ(model, alone, t);
  bool any = strcmp(model->config->batch_bits, "any") == 0;
  *out_shares = found.away <= kNear && (!found.bits || any);
  if (found.away > kNear)
    snprintf(model->batching, sizeof model->batching,
             "requests do not share runs of %lld rows: results of a row depend on other rows", (long long)batch);
  else if (!*out_shares)
    snprintf(model->batching, sizeof model->batching,
             "requests do not share runs of %lld rows: other bits come out than alone, off by %.1e of the largest "
             "(batch_bits: any allows it)",
             (long long)batch, found.away);
  return BRAID_OK;
}

/* All batches up to max_batch, from the smallest on, as long as rows may share them. *out: the largest. */
static braid_status try_batches(braid_serve_model *model, trial *one, int64_t *out) {
  trial alone, next;
  bool shares = true;
  braid_status status = trial_init(model, model->max_batch, &alone);
  if (status == BRAID_OK) status = run_rows_alone(model, one, &alone);
  for (int64_t batch = 2; status == BRAID_OK && shares && *out < model->max_batch; batch *= 2) {
    if (batch > model->max_batch) batch = model->max_batch;
    status = try_batch(model, batch, &alone, &next, &shares);
    if (status == BRAID_OK && shares) {
      braid_serve_plan_keep(model, next.plan);
      next.plan = NULL;
      *out = batch;
    }
    trial_deinit(&next);
  }
  trial_deinit(&alone);
  return status;
}

braid_status braid_serve_model_try(braid_serve_model *model) {
  trial one;
  int64_t largest = 1;
  braid_status status = trial_init(model, 1, &one);
  if (status == BRAID_OK) status = trial_run(&one);
  if (status != BRAID_OK && is_dynamic(model)) {
    trial_deinit(&one);
    model->max_batch = 1; /* nothing is known of shapes: what the drawn one cannot do, others may */
    snprintf(model->batching, sizeof model->batching,
             "requests do not share runs: inputs of the shape tried do not run");
    return BRAID_OK;
  }
  if (status == BRAID_OK && model->max_batch > 1) status = try_batches(model, &one, &largest);
  if (status == BRAID_OK && largest > 1 && largest == model->max_batch)
    snprintf(model->batching, sizeof model->batching, "requests share runs of up to %lld rows, %s", (long long)largest,
             strcmp(model->config->batch_bits, "any") == 0 ? "within 1e-3 of their results alone"
                                                           : "with the bits that they have alone");
  model->max_batch = largest;
  if (status == BRAID_OK) {
    braid_serve_plan_keep(model, one.plan);
    one.plan = NULL;
  }
  trial_deinit(&one);
  return status;
}
