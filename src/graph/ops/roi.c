/* RoiAlign: boxes of images, each pooled to one size. */
#include <string.h>

#include "base/try.h"
#include "graph/gradient.h"
#include "graph/ops/types.h"

enum { kMostSamples = 1 << 16 };

/* x [batch, channels, height, width], boxes [count, 4], the image of each box [count]. */
static braid_status check_roi(const braid_infer *infer, size_t x_at, int64_t *dims) {
  const braid_attrs *attrs = &infer->node->attrs;
  const braid_desc *x = braid_infer_input(infer, x_at), *boxes = braid_infer_input(infer, x_at + 1);
  const braid_desc *images = braid_infer_input(infer, x_at + 2);
  const char *mode = braid_attr_string(attrs, "mode", "avg");
  const char *places = braid_attr_string(attrs, "coordinate_transformation_mode", "half_pixel");
  int64_t samples = braid_attr_int(attrs, "sampling_ratio", 0);
  BRAID_TRY(braid_infer_type(infer, x_at, kFloat));
  BRAID_TRY(braid_infer_same_type(infer, x_at + 1, x_at));
  BRAID_TRY(braid_infer_type(infer, x_at + 2, BRAID_TYPE(I64)));
  if (strcmp(mode, "avg") != 0 && strcmp(mode, "max") != 0)
    return braid_infer_fail(infer, "mode is \"%.40s\", expected avg or max", mode);
  if (strcmp(places, "half_pixel") != 0 && strcmp(places, "output_half_pixel") != 0)
    return braid_infer_fail(infer,
                            "coordinate_transformation_mode is \"%.40s\", expected half_pixel or "
                            "output_half_pixel",
                            places);
  if (samples > kMostSamples)
    return braid_infer_fail(infer, "sampling_ratio is %lld, expected at most %d", (long long)samples, kMostSamples);
  if (x->rank != 4) return braid_infer_fail(infer, "pools %d dimensions, expected 4", x->rank);
  if (boxes->rank != 2 || boxes->dims[1] != 4 || images->rank != 1 || images->dims[0] != boxes->dims[0])
    return braid_infer_fail(infer, "the boxes are not a list of 4 numbers each, with an image each");
  dims[0] = boxes->dims[0];
  dims[1] = x->dims[1];
  dims[2] = braid_attr_int(attrs, "output_height", 1);
  dims[3] = braid_attr_int(attrs, "output_width", 1);
  if (dims[2] < 1 || dims[3] < 1 || dims[2] > INT32_MAX || dims[3] > INT32_MAX)
    return braid_infer_fail(infer, "output_height or output_width is below 1 or above 2147483647");
  return BRAID_OK;
}

static braid_status infer_roi(const braid_infer *infer) {
  int64_t dims[4];
  BRAID_TRY(check_roi(infer, 0, dims));
  return braid_infer_output(infer, 0, braid_infer_input(infer, 0)->dtype, 4, dims);
}

/* RoiAlignGrad(dy, x, boxes, images) = dx. */
static braid_status infer_roi_grad(const braid_infer *infer) {
  int64_t dims[4];
  BRAID_TRY(check_roi(infer, 1, dims));
  BRAID_TRY(braid_infer_same_type(infer, 0, 1));
  const braid_desc *dy = braid_infer_input(infer, 0), *x = braid_infer_input(infer, 1);
  if (dy->rank != 4 || memcmp(dy->dims, dims, sizeof dims) != 0)
    return braid_infer_fail(infer, "the gradient does not have the result's shape");
  return braid_infer_output(infer, 0, x->dtype, 4, x->dims);
}

/* Boxes have none: where samples lie is taken as given, as in torchvision. */
static braid_status roi_gradient(braid_gradient_context *context) {
  braid_value_id inputs[4] = {braid_gradient_of_output(context, 0)}, gradient;
  braid_node_id node;
  if (!braid_gradient_wanted(context, 0)) return BRAID_OK;
  for (size_t i = 0; i < 3; i++) inputs[i + 1] = braid_gradient_input(context, i);
  BRAID_TRY(braid_gradient_node(context, "RoiAlignGrad", inputs, 4, &gradient, &node));
  BRAID_TRY(braid_gradient_copy_attrs(context, node));
  return braid_gradient_give(context, 0, gradient);
}

static const braid_op kOps[] = {
    {"RoiAlign", 3, 3, 1, 1, 0, infer_roi, NULL, roi_gradient},
    {"RoiAlignGrad", 4, 4, 1, 1, 0, infer_roi_grad, NULL, NULL},
};

extern const braid_op_family braid_ops_roi;
const braid_op_family braid_ops_roi = {kOps, sizeof kOps / sizeof *kOps};
