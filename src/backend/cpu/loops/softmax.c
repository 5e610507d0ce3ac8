/* Plain Softmax, LogSoftmax, Hardmax and gradients. */
#include <math.h>

#include "backend/cpu/loops/lines.h"
#include "backend/cpu/plain/float.h"

/* The tensor as [outer][size][inner], the axis in the middle. */
typedef struct axis_state {
  braid_ref_float base;
  int64_t outer, size, inner;
} axis_state;

#define T float
#define NAME(stem) stem##_f32
#define MATH(function) function##f
#define LINES(stem) braid_lines_##stem##_f32
#include "backend/cpu/loops/softmax_template.h"
#undef T
#undef NAME
#undef MATH
#undef LINES
#define T double
#define NAME(stem) stem##_f64
#define MATH(function) function
#define LINES(stem) braid_lines_##stem##_f64
#include "backend/cpu/loops/softmax_template.h"
#undef T
#undef NAME
#undef MATH
#undef LINES

static braid_status init(const braid_node_desc *node, void *self) {
  axis_state *state = self;
  const braid_desc *x = &node->inputs[0].desc;
  int64_t axis = braid_attr_int(node->attrs, "axis", -1);
  if (axis < 0) axis += x->rank;
  state->outer = state->size = state->inner = 1;
  for (int i = 0; i < x->rank; i++)
    *(i < axis ? &state->outer : i == axis ? &state->size : &state->inner) *= x->dims[i];
  if (state->size == 0) state->outer = 0; /* nothing to do */
  return BRAID_OK;
}

BRAID_REF_KERNEL(kSoftmax, softmax, axis_state, init)
BRAID_REF_KERNEL(kLogSoftmax, log_softmax, axis_state, init)
BRAID_REF_KERNEL(kHardmax, hardmax, axis_state, init)
BRAID_REF_KERNEL(kSoftmaxGrad, softmax_grad, axis_state, init)
BRAID_REF_KERNEL(kLogSoftmaxGrad, log_softmax_grad, axis_state, init)

#define ENTRY(op_name, kernel)                                                                                         \
  { .op = op_name, .name = "ref_softmax", .match = braid_ref_match_float, .in_place = 1, .implementation = &kernel }

static const braid_kernel kKernels[] = {
    ENTRY("Softmax", kSoftmax),         ENTRY("LogSoftmax", kLogSoftmax),         ENTRY("Hardmax", kHardmax),
    ENTRY("SoftmaxGrad", kSoftmaxGrad), ENTRY("LogSoftmaxGrad", kLogSoftmaxGrad),
};

const braid_cpu_table braid_cpu_loops_softmax = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
