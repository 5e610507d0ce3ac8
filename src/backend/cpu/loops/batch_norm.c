/* Batch normalization and its gradient, any rank, PLAIN or BHWC. */
#include <math.h>
#include <string.h>

#include "backend/cpu/plain/float.h"
#include "base/checked.h"

enum { LANES = 8, BLOCK = 64 /* channels summed by one thread */ };

typedef struct batch_state {
  braid_ref_float base;
  int64_t batch, channels, plane;
  int64_t rows; /* elements of a channel */
  bool last;    /* channels lie last */
  bool training;
  bool relu; /* behind the normalization */
  double epsilon, momentum;
} batch_state;

#define T float
#define NAME(stem) stem##_f32
#include "backend/cpu/loops/batch_norm_template.h"
#undef T
#undef NAME
#define T double
#define NAME(stem) stem##_f64
#include "backend/cpu/loops/batch_norm_template.h"
#undef T
#undef NAME

static braid_status init(const braid_node_desc *node, batch_state *state, const braid_desc *x, size_t vectors) {
  state->batch = x->dims[0];
  state->channels = x->rank > 1 ? x->dims[1] : 1;
  state->plane = 1;
  for (int i = 2; i < x->rank; i++) state->plane *= x->dims[i];
  state->rows = state->batch * state->plane;
  state->last = x->layout == BRAID_LAYOUT_BHWC || state->plane == 1;
  state->training = braid_attr_int(node->attrs, "training_mode", 0) != 0;
  state->epsilon = braid_attr_float(node->attrs, "epsilon", 1e-5);
  state->momentum = braid_attr_float(node->attrs, "momentum", 0.9);
  state->relu = strstr(node->op, "Relu") != NULL;
  size_t masked = 0;
  if (!braid_mul_size((size_t)state->channels, vectors * sizeof(double), &state->base.scratch_bytes) ||
      (state->relu && !braid_mul_size((size_t)(state->rows * state->channels),
                                      x->dtype == BRAID_F32 ? sizeof(float) : sizeof(double), &masked)) ||
      !braid_add_size(state->base.scratch_bytes, masked, &state->base.scratch_bytes))
    return braid_fail(BRAID_OUT_OF_RANGE, "its workspace overflows");
  return BRAID_OK;
}

/* Scratch vectors, one number per channel: mean, inverse, factor, center. */
static braid_status init_forward(const braid_node_desc *node, void *self) {
  return init(node, self, &node->inputs[0].desc, 4);
}

/* mean, dscale, dbias, p, q, center, r; with a Relu, what of dy counts. */
static braid_status init_backward(const braid_node_desc *node, void *self) {
  return init(node, self, &node->inputs[1].desc, 7);
}

BRAID_REF_KERNEL(kForward, batch_forward, batch_state, init_forward)
BRAID_REF_KERNEL(kBackward, batch_backward, batch_state, init_backward)

#define FORWARD(op_name, kernel_name)                                                                                  \
  {                                                                                                                    \
    .op = op_name, .name = kernel_name, .match = braid_ref_match_float, .layouts = braid_ref_follow_layout,            \
    .in_place = 1 << 0, .in_place_more = {1 << 3, 1 << 4}, .implementation = &kForward                                 \
  }
#define BACKWARD(op_name, kernel_name)                                                                                 \
  {                                                                                                                    \
    .op = op_name, .name = kernel_name, .match = braid_ref_match_float, .layouts = braid_ref_follow_layout,            \
    .in_place = 1 << 0 | 1 << 1, .implementation = &kBackward                                                          \
  }

/* The running statistics may be replaced where they lie. */
static const braid_kernel kKernels[] = {
    FORWARD("BatchNormalization", "ref_batch_norm"),
    FORWARD("BatchNormalizationRelu", "ref_batch_norm_relu"),
    BACKWARD("BatchNormalizationGrad", "ref_batch_norm_grad"),
    BACKWARD("BatchNormalizationReluGrad", "ref_batch_norm_relu_grad"),
};

extern const braid_cpu_table braid_cpu_loops_batch_norm;
const braid_cpu_table braid_cpu_loops_batch_norm = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
