/* NonMaxSuppression: which boxes are left is known, as the shape of the result, once all inputs are. */
#include "graph/suppression.h"

#include "base/try.h"
#include "graph/ops/types.h"

static double known_number(const braid_infer *infer, size_t index, double otherwise) {
  const braid_tensor *known = braid_infer_constant(infer, index);
  return known && braid_desc_count(braid_tensor_desc(known)) ? braid_tensor_get_f64(known, 0) : otherwise;
}

static braid_status check_operands(const braid_infer *infer) {
  const braid_desc *boxes = braid_infer_input(infer, 0), *scores = braid_infer_input(infer, 1);
  BRAID_TRY(braid_infer_type(infer, 0, BRAID_TYPE(F32)));
  BRAID_TRY(braid_infer_type(infer, 1, BRAID_TYPE(F32)));
  if (boxes->rank != 3 || boxes->dims[2] != 4 || scores->rank != 3 || scores->dims[0] != boxes->dims[0] ||
      scores->dims[2] != boxes->dims[1])
    return braid_infer_fail(infer, "boxes are not batch x boxes x 4, or scores not batch x classes x boxes");
  for (size_t i = 2; i < 5; i++) {
    if (!braid_infer_input(infer, i)) continue;
    BRAID_TRY(braid_infer_type(infer, i, i == 2 ? BRAID_TYPE(I64) : BRAID_TYPE(F32)));
    if (braid_desc_count(braid_infer_input(infer, i)) > 1) return braid_infer_fail(infer, "input %zu is no number", i);
  }
  for (size_t i = 0; i < braid_infer_inputs(infer); i++)
    if (braid_infer_input(infer, i) && !braid_infer_constant(infer, i))
      return braid_infer_fail(infer, "input %zu must be known before the run: the result's shape follows from it", i);
  return BRAID_OK;
}

static braid_status infer_suppression(const braid_infer *infer) {
  BRAID_TRY(check_operands(infer));
  const braid_desc *boxes = braid_infer_input(infer, 0), *scores = braid_infer_input(infer, 1);
  double most = known_number(infer, 2, 0);
  braid_suppression s = {.boxes = braid_tensor_const_data(braid_infer_constant(infer, 0)),
                         .scores = braid_tensor_const_data(braid_infer_constant(infer, 1)),
                         .batch = boxes->dims[0],
                         .classes = scores->dims[1],
                         .count = boxes->dims[1],
                         .most = most < 0        ? 0
                                 : most > 0x1p40 ? INT64_C(1) << 40
                                                 : (int64_t)most,
                         .overlap = (float)known_number(infer, 3, 0),
                         .scored = braid_infer_input(infer, 4) != NULL,
                         .least = (float)known_number(infer, 4, 0),
                         .centered = braid_attr_int(&infer->node->attrs, "center_point_box", 0) != 0};
  int64_t *order = braid_zalloc_array(infer->graph->allocator, (size_t)s.count + 1, sizeof *order);
  if (!order) return BRAID_NO_MEMORY;
  int64_t kept = braid_suppress(&s, order, NULL);
  braid_free(infer->graph->allocator, order);
  return braid_infer_output(infer, 0, BRAID_I64, 2, (int64_t[]){kept, 3});
}

static const braid_op kOps[] = {
    {"NonMaxSuppression", 2, 5, 1, 1, 0, infer_suppression, NULL, NULL},
};

extern const braid_op_family braid_ops_suppression;
const braid_op_family braid_ops_suppression = {kOps, sizeof kOps / sizeof *kOps};
