/* Plain losses and their gradients: see graph/ops/loss.c for what they compute. Sums over samples are in double and in
 * their order. */
#include <math.h>
#include <string.h>

#include "backend/cpu/loops/lines.h"
#include "backend/cpu/plain/float.h"
#include "base/checked.h"

enum { kIgnored = -1, kNone = -2 }; /* labels that are no class */
enum { kBlock = 4096 };             /* elements of a partial sum */

typedef enum reduction { REDUCE_NONE, REDUCE_SUM, REDUCE_MEAN, REDUCE_HALF } reduction;

/* Scores are [batch, classes, places]. */
typedef struct loss_state {
  braid_ref_float base;
  int64_t batch, classes, places, count;
  double smoothing;
  reduction reduction;
  bool likelihood, labelled, ignores;
  bool wide_labels; /* int64 */
  int64_t ignored;
} loss_state;

static int64_t label_at(const loss_state *s, const void *labels, int64_t i) {
  int64_t label = s->wide_labels ? ((const int64_t *)labels)[i] : ((const int32_t *)labels)[i];
  if (s->ignores && label == s->ignored) return kIgnored;
  return label >= 0 && label < s->classes ? label : kNone;
}

#define T float
#define NAME(stem) stem##_f32
#define MATH(function) function##f
#define LINES(stem) braid_lines_##stem##_f32
#include "backend/cpu/loops/loss_template.h"
#undef T
#undef NAME
#undef MATH
#undef LINES
#define T double
#define NAME(stem) stem##_f64
#define MATH(function) function
#define LINES(stem) braid_lines_##stem##_f64
#include "backend/cpu/loops/loss_template.h"

/* --- attributes ----------------------------------------------------------------------------------------------------
 */
static reduction read_reduction(const braid_node_desc *node, reduction otherwise) {
  const char *name = braid_attr_string(node->attrs, "reduction", NULL);
  if (!name) return otherwise;
  return strcmp(name, "none") == 0 ? REDUCE_NONE : strcmp(name, "sum") == 0 ? REDUCE_SUM : REDUCE_MEAN;
}

/* `at`: the input that holds scores or values. */
static void read_operands(const braid_node_desc *node, size_t at, loss_state *s) {
  const braid_desc *values = &node->inputs[at].desc, *labels = &node->inputs[at + 1].desc;
  s->count = braid_desc_count(values);
  s->batch = values->dims[0];
  s->classes = values->rank > 1 ? values->dims[1] : 1;
  s->places = 1;
  for (int i = 2; i < values->rank; i++) s->places *= values->dims[i];
  s->labelled = !braid_dtype_is_float(labels->dtype);
  s->wide_labels = labels->dtype == BRAID_I64;
  s->ignores = braid_attr_has(node->attrs, "ignore_index");
  s->ignored = braid_attr_int(node->attrs, "ignore_index", 0);
  s->smoothing = braid_attr_float(node->attrs, "label_smoothing", 0);
  s->likelihood = strncmp(node->op, "Negative", 8) == 0;
  if (s->likelihood) s->smoothing = 0;
}

static braid_status reserve(int64_t count, loss_state *s) {
  if (braid_mul_size((size_t)count, sizeof(double), &s->base.scratch_bytes)) return BRAID_OK;
  return braid_fail(BRAID_OUT_OF_RANGE, "its workspace overflows");
}

static braid_status init_class_loss(const braid_node_desc *node, void *self) {
  loss_state *s = self;
  read_operands(node, 0, s);
  s->reduction = read_reduction(node, REDUCE_MEAN);
  return s->reduction == REDUCE_NONE ? BRAID_OK : reserve(s->batch * s->places, s);
}

static braid_status init_class_loss_grad(const braid_node_desc *node, void *self) {
  loss_state *s = self;
  read_operands(node, 1, s);
  s->reduction = read_reduction(node, REDUCE_MEAN);
  return BRAID_OK;
}

static braid_status init_squared_error(const braid_node_desc *node, void *self) {
  loss_state *s = self;
  read_operands(node, 0, s);
  s->reduction = read_reduction(node, REDUCE_HALF);
  return reserve(s->count / kBlock + 1, s);
}

static braid_status init_squared_error_grad(const braid_node_desc *node, void *self) {
  loss_state *s = self;
  read_operands(node, 1, s);
  s->reduction = read_reduction(node, REDUCE_HALF);
  return BRAID_OK;
}

BRAID_REF_KERNEL(kClassLoss, class_loss, loss_state, init_class_loss)
BRAID_REF_KERNEL(kClassLossGrad, class_loss_grad, loss_state, init_class_loss_grad)
BRAID_REF_KERNEL(kSquaredError, squared_error, loss_state, init_squared_error)
BRAID_REF_KERNEL(kSquaredErrorGrad, squared_error_grad, loss_state, init_squared_error_grad)

#define ENTRY(op_name, kernel_name, kernel)                                                                            \
  { .op = op_name, .name = kernel_name, .match = braid_ref_match_float, .implementation = &kernel }

static const braid_kernel kKernels[] = {
    ENTRY("SoftmaxCrossEntropyLoss", "ref_cross_entropy", kClassLoss),
    ENTRY("CrossEntropyLoss", "ref_cross_entropy", kClassLoss),
    ENTRY("SoftmaxCrossEntropyLossGrad", "ref_cross_entropy", kClassLossGrad),
    ENTRY("NegativeLogLikelihoodLoss", "ref_likelihood", kClassLoss),
    ENTRY("NegativeLogLikelihoodLossGrad", "ref_likelihood", kClassLossGrad),
    ENTRY("SquaredErrorLoss", "ref_squared_error", kSquaredError),
    ENTRY("SquaredErrorLossGrad", "ref_squared_error", kSquaredErrorGrad),
};

extern const braid_cpu_table braid_cpu_loops_loss;
const braid_cpu_table braid_cpu_loops_loss = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
