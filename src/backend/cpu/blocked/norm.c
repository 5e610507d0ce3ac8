/* BatchNormalization and its gradient on float32 in blocks of 16 channels, the layout of the convolutions around it;
 * without statistics of the batch also with channels last, where they come so.
 *
 * Sums go over one plane of one block in float and over the planes in double, in the order of the batch, so they do not
 * depend on the number of threads. The workspace holds the sums of every plane. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/blocked/planes_isa.h"
#include "backend/cpu/cpu.h"

enum { kLanes = BRAID_BLOCKED_LANES, kLeastChannels = 16 };

typedef struct norm {
  int64_t batch, channels, blocks, plane; /* plane: places of one channel of one sample */
  bool training, last, relu;              /* last: channels lie so */
  double epsilon, momentum;
} norm;

/* Per channel, in the workspace after the sums: y = x * factor + offset, or dx = dy * a + x * b + c. */
typedef struct vectors {
  double *sums, *more;    /* [blocks][batch][16] each */
  float *a, *b, *c;       /* [blocks][16] each */
  float *factor, *offset; /* backward, with a Relu behind it: [blocks][16] each */
} vectors;

static vectors split(const norm *n, void *workspace) {
  size_t planes = (size_t)(n->blocks * n->batch * kLanes), channels = (size_t)(n->blocks * kLanes);
  vectors v = {.sums = workspace};
  v.more = v.sums + planes;
  v.a = (float *)(v.more + planes);
  v.b = v.a + channels;
  v.c = v.b + channels;
  v.factor = v.c + channels;
  v.offset = v.factor + channels;
  return v;
}

/* The total over the batch for channel `c`. */
static double total(const norm *n, const double *sums, int64_t c) {
  const double *of_block = sums + c / kLanes * n->batch * kLanes + c % kLanes;
  double sum = 0;
  for (int64_t b = 0; b < n->batch; b++) sum += of_block[b * kLanes];
  return sum;
}

static int64_t plane_at(const norm *n, int64_t block, int64_t b) {
  return (b * n->blocks + block) * n->plane * kLanes;
}

static void sum_all(const norm *n, const float *x, const float *center, double *sums) {
#pragma omp parallel for collapse(2)
  for (int64_t block = 0; block < n->blocks; block++)
    for (int64_t b = 0; b < n->batch; b++)
      BRAID_ISA_CALL(braid_blocked_sum_plane, x + plane_at(n, block, b), n->plane,
                     center ? center + block * kLanes : NULL, sums + (block * n->batch + b) * kLanes);
}

/* --- forward -------------------------------------------------------------------------------------------------------
 */
static float *output(const braid_node_desc *node, const braid_cpu_args *args, size_t index) {
  return index < node->output_count && node->outputs[index].present ? args->outputs[index] : NULL;
}

/* Statistics of the batch into c (mean) and b (variance); running and saved ones to the outputs. */
static void find_statistics(const norm *n, const braid_node_desc *node, const braid_cpu_args *args, const vectors *v) {
  const float *x = args->inputs[0], *old_mean = args->inputs[3], *old_variance = args->inputs[4];
  float *mean = output(node, args, 1), *variance = output(node, args, 2);
  float *saved_mean = output(node, args, 3), *saved_inverse = output(node, args, 4);
  double count = (double)(n->batch * n->plane);
  sum_all(n, x, NULL, v->sums);
  for (int64_t c = 0; c < n->channels; c++) v->c[c] = (float)(total(n, v->sums, c) / count);
  sum_all(n, x, v->c, v->sums);
  for (int64_t c = 0; c < n->channels; c++) {
    v->b[c] = (float)(total(n, v->sums, c) / count);
    if (mean) mean[c] = (float)(n->momentum * old_mean[c] + (1 - n->momentum) * v->c[c]);
    if (variance) variance[c] = (float)(n->momentum * old_variance[c] + (1 - n->momentum) * v->b[c]);
    if (saved_mean) saved_mean[c] = v->c[c];
    if (saved_inverse) saved_inverse[c] = (float)(1 / sqrt((double)v->b[c] + n->epsilon));
  }
}

static braid_status run_forward(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const norm *n = state;
  vectors v = split(n, args->workspace);
  const float *x = args->inputs[0], *scale = args->inputs[1], *bias = args->inputs[2];
  memset(v.a, 0, (size_t)(3 * n->blocks * kLanes) * sizeof *v.a); /* padding channels stay zero */
  if (n->training) {
    find_statistics(n, node, args, &v);
  } else {
    memcpy(v.c, args->inputs[3], (size_t)n->channels * sizeof *v.c);
    memcpy(v.b, args->inputs[4], (size_t)n->channels * sizeof *v.b);
  }
  for (int64_t c = 0; c < n->channels; c++) {
    double factor = scale[c] / sqrt((double)v.b[c] + n->epsilon);
    v.a[c] = (float)factor;
    v.b[c] = (float)(bias[c] - v.c[c] * factor);
  }
  float *y = args->outputs[0];
  if (n->last) {
#pragma omp parallel for schedule(static)
    for (int64_t place = 0; place < n->batch * n->plane; place++)
      BRAID_ISA_CALL(braid_blocked_scale_place, x + place * n->channels, n->channels, v.a, v.b,
                     y + place * n->channels);
    return BRAID_OK;
  }
#pragma omp parallel for collapse(2)
  for (int64_t b = 0; b < n->batch; b++)
    for (int64_t block = 0; block < n->blocks; block++) {
      int64_t at = plane_at(n, block, b), c = block * kLanes;
      if (n->relu)
        BRAID_ISA_CALL(braid_blocked_scale_plane_relu, x + at, n->plane, v.a + c, v.b + c, y + at);
      else
        BRAID_ISA_CALL(braid_blocked_scale_plane, x + at, n->plane, v.a + c, v.b + c, y + at);
    }
  return BRAID_OK;
}

/* --- backward ------------------------------------------------------------------------------------------------------
 */
/* What the forward pass multiplied by and added, as it found them. */
static void find_gate(const norm *n, const braid_cpu_args *args, const vectors *v) {
  const float *scale = args->inputs[2], *mean = args->inputs[3], *spread = args->inputs[4], *bias = args->inputs[5];
  memset(v->factor, 0, (size_t)(2 * n->blocks * kLanes) * sizeof *v->factor);
  for (int64_t c = 0; c < n->channels; c++) {
    double factor = n->training ? (double)scale[c] * spread[c] : scale[c] / sqrt((double)spread[c] + n->epsilon);
    v->factor[c] = (float)factor;
    v->offset[c] = (float)(bias[c] - mean[c] * factor);
  }
}

static braid_status run_backward(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const norm *n = state;
  vectors v = split(n, args->workspace);
  const float *dy = args->inputs[0], *x = args->inputs[1], *scale = args->inputs[2], *mean = args->inputs[3];
  const float *spread = args->inputs[4];
  float *dx = output(node, args, 0), *dscale = output(node, args, 1), *dbias = output(node, args, 2);
  memset(v.a, 0, (size_t)(3 * n->blocks * kLanes) * sizeof *v.a);
  memcpy(v.c, mean, (size_t)n->channels * sizeof *v.c);
  if (n->relu) find_gate(n, args, &v);
#pragma omp parallel for collapse(2)
  for (int64_t block = 0; block < n->blocks; block++)
    for (int64_t b = 0; b < n->batch; b++) {
      int64_t at = plane_at(n, block, b), to = (block * n->batch + b) * kLanes, c = block * kLanes;
      BRAID_ISA_CALL(braid_blocked_sum_products, dy + at, x + at, n->plane, v.c + c,
                     n->relu ? &(braid_blocked_gate){v.factor + c, v.offset + c} : NULL, v.sums + to, v.more + to);
    }
  double count = (double)(n->batch * n->plane);
  for (int64_t c = 0; c < n->channels; c++) {
    double inverse = n->training ? spread[c] : 1 / sqrt((double)spread[c] + n->epsilon);
    double sum = total(n, v.sums, c), product = total(n, v.more, c) * inverse, factor = scale[c] * inverse;
    double center = mean[c]; /* read before dscale or dbias may take its place */
    v.a[c] = (float)factor;
    v.b[c] = n->training ? (float)(-factor * inverse * product / count) : 0;
    v.c[c] = n->training ? (float)(-factor * (sum / count) - v.b[c] * center) : 0;
    if (dscale) dscale[c] = (float)product;
    if (dbias) dbias[c] = (float)sum;
  }
  if (!dx) return BRAID_OK;
#pragma omp parallel for collapse(2)
  for (int64_t b = 0; b < n->batch; b++)
    for (int64_t block = 0; block < n->blocks; block++) {
      int64_t at = plane_at(n, block, b), c = block * kLanes;
      BRAID_ISA_CALL(braid_blocked_mix_plane, dy + at, x + at, n->plane, v.a + c, v.b + c, v.c + c,
                     n->relu ? &(braid_blocked_gate){v.factor + c, v.offset + c} : NULL, dx + at);
    }
  return BRAID_OK;
}

/* --- preparation ---------------------------------------------------------------------------------------------------
 */
static bool norm_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  const char *reason = NULL;
  for (size_t i = 0; i < node->input_count; i++)
    if (node->inputs[i].present && node->inputs[i].desc.dtype != BRAID_F32) reason = "float32 only";
  const braid_desc *x = &node->inputs[0].desc;
  if (x->rank < 3 || x->dims[1] < kLeastChannels)
    reason = "no image of at least 16 channels";
  else if (braid_desc_count(x) == 0)
    reason = "an empty tensor";
  if (reason) snprintf(why, why_bytes, "%s", reason);
  return !reason;
}

static bool is_training(const braid_node_desc *node) {
  return braid_attr_int(node->attrs, "training_mode", 0) != 0;
}

static void norm_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  int rank = node->inputs[0].desc.rank;
  bool last = inputs[0] == BRAID_LAYOUT_BHWC && strcmp(node->op, "BatchNormalization") == 0 && !is_training(node);
  braid_layout layout = last ? BRAID_LAYOUT_BHWC : BRAID_LAYOUT_BLOCKED16;
  for (size_t i = 0; i < node->input_count; i++)
    inputs[i] = node->inputs[i].desc.rank == rank ? layout : BRAID_LAYOUT_PLAIN;
  for (size_t i = 0; i < node->output_count; i++)
    outputs[i] = node->outputs[i].desc.rank == rank ? layout : BRAID_LAYOUT_PLAIN;
}

static braid_status norm_create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                braid_prepared_info *info) {
  const braid_desc *x = &node->inputs[0].desc;
  norm *n = *state = braid_zalloc(allocator, sizeof *n);
  if (!n) return BRAID_NO_MEMORY;
  *n = (norm){.batch = x->dims[0],
              .channels = x->dims[1],
              .blocks = (x->dims[1] + kLanes - 1) / kLanes,
              .plane = 1,
              .training = is_training(node),
              .last = x->layout == BRAID_LAYOUT_BHWC,
              .relu = strstr(node->op, "Relu") != NULL,
              .epsilon = braid_attr_float(node->attrs, "epsilon", 1e-5),
              .momentum = braid_attr_float(node->attrs, "momentum", 0.9)};
  for (int i = 2; i < x->rank; i++) n->plane *= x->dims[i];
  size_t planes = (size_t)(n->blocks * n->batch * kLanes), channels = (size_t)(n->blocks * kLanes);
  info->workspace_bytes = 2 * planes * sizeof(double) + 5 * channels * sizeof(float);
  return BRAID_OK;
}

static const braid_cpu_kernel kForward = {.create = norm_create, .run = run_forward},
                              kBackward = {.create = norm_create, .run = run_backward};

/* The running statistics may be replaced where they lie. */
static const braid_kernel kKernels[] = {
    {.op = "BatchNormalization",
     .name = "blocked_batch_norm",
     .match = norm_match,
     .layouts = norm_layouts,
     .in_place = 1u << 0,
     .in_place_more = {1u << 3, 1u << 4},
     .implementation = &kForward},
    {.op = "BatchNormalizationRelu",
     .name = "blocked_batch_norm_relu",
     .match = norm_match,
     .layouts = norm_layouts,
     .in_place = 1u << 0,
     .in_place_more = {1u << 3, 1u << 4},
     .implementation = &kForward},
    {.op = "BatchNormalizationGrad",
     .name = "blocked_batch_norm_grad",
     .match = norm_match,
     .layouts = norm_layouts,
     .in_place = 1u << 0 | 1u << 1,
     .implementation = &kBackward},
    {.op = "BatchNormalizationReluGrad",
     .name = "blocked_batch_norm_relu_grad",
     .match = norm_match,
     .layouts = norm_layouts,
     .in_place = 1u << 0 | 1u << 1,
     .implementation = &kBackward},
};

const braid_cpu_table braid_cpu_blocked_norm = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
