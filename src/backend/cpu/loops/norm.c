/* Normalizations other than batch normalization, and their gradients. */
#include <math.h>
#include <string.h>

#include "backend/cpu/plain/float.h"
#include "base/checked.h"

enum { LANES = 8, BLOCK = 64 /* elements of scale summed by one thread */ };

/* A row of `length` elements is normalized by itself. Its scale and bias are those at
 * row % period * chunks + i / chunk for element i. */
typedef struct row_state {
  braid_ref_float base;
  int64_t rows, length, period, chunks, chunk;
  double epsilon;
  bool centered;
} row_state;

typedef enum axes_kind { AXES_L1, AXES_L2, AXES_MEAN_VARIANCE } axes_kind;

/* ONNX's definition of MeanVarianceNormalization adds this to the deviation. */
static const double kDeviationFloor = 1e-9;

/* Elements that are normalized together are a set: those that differ only in the reduced dimensions. */
typedef struct axes_state {
  braid_ref_float base;
  axes_kind kind;
  int kept, reduced; /* dimensions */
  int64_t kept_dims[BRAID_MAX_RANK], kept_strides[BRAID_MAX_RANK];
  int64_t reduced_dims[BRAID_MAX_RANK], reduced_strides[BRAID_MAX_RANK];
  int64_t sets, set_count;
} axes_state;

typedef struct lrn_state {
  braid_ref_float base;
  int64_t batch, channels, plane;
  double size, alpha, beta, bias;
} lrn_state;

static int64_t offset_of(int64_t index, int rank, const int64_t *dims, const int64_t *strides) {
  int64_t offset = 0;
  for (int i = rank; i-- > 0; index /= dims[i]) offset += index % dims[i] * strides[i];
  return offset;
}

static int64_t first_of_set(const axes_state *s, int64_t set) {
  return offset_of(set, s->kept, s->kept_dims, s->kept_strides);
}

/* `at` runs over the offsets of a set's elements; the innermost reduced dimension is a plain loop. */
#define FOR_EACH_OF_SET(s, at)                                                                                         \
  for (int64_t line = 0, run = s->reduced_dims[s->reduced - 1], step = s->reduced_strides[s->reduced - 1];             \
       line * run < s->set_count; line++)                                                                              \
    for (int64_t at = offset_of(line, s->reduced - 1, s->reduced_dims, s->reduced_strides), end = at + run * step;     \
         at < end; at += step)

/* The channels that channel c looks at or, seen from the other side, that look at c. */
static void lrn_window(const lrn_state *s, int64_t c, bool reversed, int64_t *first, int64_t *last) {
  int64_t size = (int64_t)s->size, before = reversed ? size / 2 : (size - 1) / 2;
  *first = c - before < 0 ? 0 : c - before;
  *last = c - before + size > s->channels ? s->channels : c - before + size;
}

#define T float
#define NAME(stem) stem##_f32
#define MATH(function) function##f
#include "backend/cpu/loops/norm_template.h"
#undef T
#undef NAME
#undef MATH
#define T double
#define NAME(stem) stem##_f64
#define MATH(function) function
#include "backend/cpu/loops/norm_template.h"
#undef T
#undef NAME
#undef MATH

/* --- preparation ---------------------------------------------------------------------------------------------------
 */
static braid_status overflow(void) {
  return braid_fail(BRAID_OUT_OF_RANGE, "its workspace overflows");
}

static int64_t product(const braid_desc *desc, int first, int last) {
  int64_t out = 1;
  for (int i = first; i < last; i++) out *= desc->dims[i];
  return out;
}

static void trailing_rows(const braid_node_desc *node, const braid_desc *x, row_state *state) {
  int64_t axis = braid_attr_int(node->attrs, "axis", -1);
  int from = (int)(axis < 0 ? axis + x->rank : axis);
  state->rows = product(x, 0, from);
  state->length = state->chunks = product(x, from, x->rank);
  state->period = state->chunk = 1;
  state->epsilon = braid_attr_float(node->attrs, "epsilon", 1e-5);
  state->centered = strncmp(node->op, "RMS", 3) != 0;
}

/* Instance normalization is group normalization with a group for each channel. */
static void group_rows(const braid_node_desc *node, const braid_desc *x, row_state *state) {
  state->period = braid_attr_int(node->attrs, "num_groups", x->dims[1]);
  state->rows = x->dims[0] * state->period;
  state->chunk = product(x, 2, x->rank);
  state->chunks = state->period ? x->dims[1] / state->period : 0;
  state->length = state->chunks * state->chunk;
  state->epsilon = braid_attr_float(node->attrs, "epsilon", 1e-5);
  state->centered = true;
}

static braid_status init_trailing(const braid_node_desc *node, void *self) {
  trailing_rows(node, &node->inputs[0].desc, self);
  return BRAID_OK;
}

static braid_status init_groups(const braid_node_desc *node, void *self) {
  group_rows(node, &node->inputs[0].desc, self);
  return BRAID_OK;
}

static braid_status reserve_statistics(row_state *state) {
  return braid_mul_size((size_t)state->rows, 2 * sizeof(double), &state->base.scratch_bytes) ? BRAID_OK : overflow();
}

static braid_status init_trailing_grad(const braid_node_desc *node, void *self) {
  trailing_rows(node, &node->inputs[1].desc, self);
  return reserve_statistics(self);
}

static braid_status init_groups_grad(const braid_node_desc *node, void *self) {
  group_rows(node, &node->inputs[1].desc, self);
  return reserve_statistics(self);
}

static void split_axes(const braid_desc *x, uint32_t reduce, axes_state *state) {
  int64_t stride = 1, strides[BRAID_MAX_RANK];
  for (int i = x->rank; i-- > 0; stride *= x->dims[i]) strides[i] = stride;
  state->sets = state->set_count = 1;
  for (int i = 0; i < x->rank; i++) {
    bool reduced = reduce >> i & 1;
    int at = reduced ? state->reduced++ : state->kept++;
    (reduced ? state->reduced_dims : state->kept_dims)[at] = x->dims[i];
    (reduced ? state->reduced_strides : state->kept_strides)[at] = strides[i];
    *(reduced ? &state->set_count : &state->sets) *= x->dims[i];
  }
  if (state->reduced) return;
  state->reduced = 1; /* nothing reduced: sets of one element */
  state->reduced_dims[0] = state->reduced_strides[0] = 1;
}

static uint32_t axis_bit(int64_t axis, const braid_desc *x) {
  return 1u << (axis < 0 ? axis + x->rank : axis);
}

static braid_status init_lp(const braid_node_desc *node, void *self) {
  axes_state *state = self;
  const braid_desc *x = &node->inputs[0].desc;
  state->kind = braid_attr_int(node->attrs, "p", 2) == 1 ? AXES_L1 : AXES_L2;
  split_axes(x, axis_bit(braid_attr_int(node->attrs, "axis", -1), x), state);
  return BRAID_OK;
}

static braid_status init_mean_variance(const braid_node_desc *node, void *self) {
  static const int64_t kDefault[] = {0, 2, 3};
  axes_state *state = self;
  const braid_desc *x = &node->inputs[0].desc;
  size_t count;
  const int64_t *axes = braid_attr_ints(node->attrs, "axes", &count);
  if (!axes) axes = kDefault, count = 3;
  uint32_t reduce = 0;
  for (size_t i = 0; i < count; i++) reduce |= axis_bit(axes[i], x);
  state->kind = AXES_MEAN_VARIANCE;
  split_axes(x, reduce, state);
  return BRAID_OK;
}

static braid_status init_lrn(const braid_node_desc *node, void *self) {
  lrn_state *state = self;
  const braid_desc *x = &node->inputs[0].desc;
  state->batch = x->dims[0];
  state->channels = x->dims[1];
  state->plane = product(x, 2, x->rank);
  state->size = (double)braid_attr_int(node->attrs, "size", 1);
  state->alpha = braid_attr_float(node->attrs, "alpha", 0.0001);
  state->beta = braid_attr_float(node->attrs, "beta", 0.75);
  state->bias = braid_attr_float(node->attrs, "bias", 1.0);
  return BRAID_OK;
}

static braid_status init_lrn_grad(const braid_node_desc *node, void *self) {
  lrn_state *state = self;
  size_t count = (size_t)braid_desc_count(&node->inputs[0].desc);
  if (!braid_mul_size(count, 2 * sizeof(double), &state->base.scratch_bytes)) return overflow();
  return init_lrn(node, self);
}

BRAID_REF_KERNEL(kTrailing, row_forward, row_state, init_trailing)
BRAID_REF_KERNEL(kTrailingGrad, row_backward, row_state, init_trailing_grad)
BRAID_REF_KERNEL(kGroups, row_forward, row_state, init_groups)
BRAID_REF_KERNEL(kGroupsGrad, row_backward, row_state, init_groups_grad)
BRAID_REF_KERNEL(kLp, axes_forward, axes_state, init_lp)
BRAID_REF_KERNEL(kLpGrad, axes_backward, axes_state, init_lp)
BRAID_REF_KERNEL(kMeanVariance, axes_forward, axes_state, init_mean_variance)
BRAID_REF_KERNEL(kMeanVarianceGrad, axes_backward, axes_state, init_mean_variance)
BRAID_REF_KERNEL(kLrn, lrn_forward, lrn_state, init_lrn)
BRAID_REF_KERNEL(kLrnGrad, lrn_backward, lrn_state, init_lrn_grad)

#define KERNEL(op_name, kernel_name, cpu)                                                                              \
  { .op = op_name, .name = kernel_name, .match = braid_ref_match_float, .implementation = &cpu }

static const braid_kernel kKernels[] = {
    KERNEL("LayerNormalization", "ref_layer_norm", kTrailing),
    KERNEL("RMSNormalization", "ref_rms_norm", kTrailing),
    KERNEL("InstanceNormalization", "ref_instance_norm", kGroups),
    KERNEL("GroupNormalization", "ref_group_norm", kGroups),
    KERNEL("LpNormalization", "ref_lp_norm", kLp),
    KERNEL("MeanVarianceNormalization", "ref_mean_variance_norm", kMeanVariance),
    KERNEL("LRN", "ref_lrn", kLrn),
    KERNEL("LayerNormalizationGrad", "ref_layer_norm_grad", kTrailingGrad),
    KERNEL("RMSNormalizationGrad", "ref_rms_norm_grad", kTrailingGrad),
    KERNEL("InstanceNormalizationGrad", "ref_instance_norm_grad", kGroupsGrad),
    KERNEL("GroupNormalizationGrad", "ref_group_norm_grad", kGroupsGrad),
    KERNEL("LpNormalizationGrad", "ref_lp_norm_grad", kLpGrad),
    KERNEL("MeanVarianceNormalizationGrad", "ref_mean_variance_norm_grad", kMeanVarianceGrad),
    KERNEL("LRNGrad", "ref_lrn_grad", kLrnGrad),
};

extern const braid_cpu_table braid_cpu_loops_norm;
const braid_cpu_table braid_cpu_loops_norm = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
