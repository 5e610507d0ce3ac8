/* Losses of training: see graph/ops/loss.c. Sums in double, in a fixed order. float32 and float64. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/cpu.h"

typedef struct problem {
  const void *scores, *labels;
  braid_dtype score_type, label_type;
  int64_t batch, classes;
  double smoothing;
} problem;

static problem read_problem(const braid_node_desc *node, const braid_cpu_args *args, size_t at) {
  const braid_desc *scores = &node->inputs[at].desc;
  return (problem){.scores = args->inputs[at],
                   .labels = args->inputs[at + 1],
                   .score_type = scores->dtype,
                   .label_type = node->inputs[at + 1].desc.dtype,
                   .batch = scores->dims[0],
                   .classes = scores->dims[1],
                   .smoothing = braid_attr_float(node->attrs, "label_smoothing", 0)};
}

static double score(const problem *p, int64_t i) {
  return p->score_type == BRAID_F32 ? ((const float *)p->scores)[i] : ((const double *)p->scores)[i];
}

/* -1: outside the classes */
static int64_t label(const problem *p, int64_t sample) {
  int64_t value =
      p->label_type == BRAID_I32 ? ((const int32_t *)p->labels)[sample] : ((const int64_t *)p->labels)[sample];
  return value >= 0 && value < p->classes ? value : -1;
}

static void put(braid_dtype type, void *data, int64_t i, double value) {
  if (type == BRAID_F32)
    ((float *)data)[i] = (float)value;
  else
    ((double *)data)[i] = value;
}

static double get_first(braid_dtype type, const void *data) {
  return type == BRAID_F32 ? *(const float *)data : *(const double *)data;
}

static bool match(const braid_node_desc *node, char *why, size_t why_bytes) {
  braid_dtype type = node->outputs[0].desc.dtype;
  if (type == BRAID_F32 || type == BRAID_F64) return true;
  snprintf(why, why_bytes, "%s, float32 and float64 only", braid_dtype_name(type));
  return false;
}

/* log sum exp of a sample's scores. */
static double log_sum(const problem *p, int64_t sample) {
  double most = -INFINITY, sum = 0;
  for (int64_t c = 0; c < p->classes; c++) most = fmax(most, score(p, sample * p->classes + c));
  for (int64_t c = 0; c < p->classes; c++) sum += exp(score(p, sample * p->classes + c) - most);
  return most + log(sum);
}

static double target(const problem *p, int64_t c, int64_t wanted) {
  return (c == wanted ? 1 - p->smoothing : 0) + p->smoothing / (double)p->classes;
}

/* --- cross entropy -------------------------------------------------------------------------------------------------
 */
static braid_status run_cross_entropy(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  problem p = read_problem(node, args, 0);
  double sum = 0;
  for (int64_t i = 0; i < p.batch; i++) {
    int64_t wanted = label(&p, i);
    double total = log_sum(&p, i), loss = wanted < 0 ? NAN : 0;
    for (int64_t c = 0; c < p.classes; c++) {
      double t = target(&p, c, wanted);
      if (t != 0) loss -= t * (score(&p, i * p.classes + c) - total);
    }
    sum += loss;
  }
  put(p.score_type, args->outputs[0], 0, sum / (double)p.batch);
  return BRAID_OK;
}

static braid_status run_cross_entropy_grad(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  problem p = read_problem(node, args, 1);
  double scale = get_first(p.score_type, args->inputs[0]) / (double)p.batch;
#pragma omp parallel for
  for (int64_t i = 0; i < p.batch; i++) {
    int64_t wanted = label(&p, i);
    double total = log_sum(&p, i);
    for (int64_t c = 0; c < p.classes; c++) {
      double gradient = exp(score(&p, i * p.classes + c) - total) - target(&p, c, wanted);
      put(p.score_type, args->outputs[0], i * p.classes + c, wanted < 0 ? NAN : scale * gradient);
    }
  }
  return BRAID_OK;
}

/* --- squared error -------------------------------------------------------------------------------------------------
 */
static braid_status run_squared_error(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  problem p = read_problem(node, args, 0);
  double sum = 0;
  for (int64_t i = 0; i < p.batch; i++) {
    int64_t wanted = label(&p, i);
    if (wanted < 0) sum = NAN;
    for (int64_t c = 0; c < p.classes; c++) {
      double error = score(&p, i * p.classes + c) - (c == wanted);
      sum += error * error;
    }
  }
  put(p.score_type, args->outputs[0], 0, sum / (2 * (double)p.batch));
  return BRAID_OK;
}

static braid_status run_squared_error_grad(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  problem p = read_problem(node, args, 1);
  double scale = get_first(p.score_type, args->inputs[0]) / (double)p.batch;
  for (int64_t i = 0; i < p.batch; i++) {
    int64_t wanted = label(&p, i);
    for (int64_t c = 0; c < p.classes; c++) {
      double error = score(&p, i * p.classes + c) - (c == wanted);
      put(p.score_type, args->outputs[0], i * p.classes + c, wanted < 0 ? NAN : scale * error);
    }
  }
  return BRAID_OK;
}

/* --- table ---------------------------------------------------------------------------------------------------------
 */
static const braid_cpu_kernel kCrossEntropy = {.run = run_cross_entropy},
                              kCrossEntropyGrad = {.run = run_cross_entropy_grad},
                              kSquaredError = {.run = run_squared_error},
                              kSquaredErrorGrad = {.run = run_squared_error_grad};

static const braid_kernel kKernels[] = {
    {.op = "CrossEntropyLoss", .name = "ref_cross_entropy", .match = match, .implementation = &kCrossEntropy},
    {.op = "CrossEntropyLossGrad", .name = "ref_cross_entropy", .match = match, .implementation = &kCrossEntropyGrad},
    {.op = "SquaredErrorLoss", .name = "ref_squared_error", .match = match, .implementation = &kSquaredError},
    {.op = "SquaredErrorLossGrad", .name = "ref_squared_error", .match = match, .implementation = &kSquaredErrorGrad},
};

const braid_cpu_table braid_cpu_ref_loss = {kKernels, sizeof kKernels / sizeof *kKernels};
