/* GridSample: pixels of images or volumes at given places. */
#include <string.h>

#include "base/try.h"
#include "graph/gradient.h"
#include "graph/ops/types.h"

static braid_status check_word(const braid_infer *infer, const char *name, const char *otherwise,
                               const char *const words[3]) {
  const char *given = braid_attr_string(&infer->node->attrs, name, otherwise);
  for (size_t i = 0; i < 3; i++)
    if (strcmp(given, words[i]) == 0) return BRAID_OK;
  return braid_infer_fail(infer, "%s is \"%.40s\", expected %s, %s or %s", name, given, words[0], words[1], words[2]);
}

/* x [batch, channels, sizes], grid [batch, places, axes]. */
static braid_status check_grid(const braid_infer *infer, size_t x_at, size_t grid_at) {
  const braid_desc *x = braid_infer_input(infer, x_at), *grid = braid_infer_input(infer, grid_at);
  static const char *const kModes[3] = {"nearest", "linear", "cubic"};
  static const char *const kPaddings[3] = {"zeros", "border", "reflection"};
  BRAID_TRY(braid_infer_type(infer, x_at, kFloat));
  BRAID_TRY(braid_infer_type(infer, grid_at, kFloat));
  BRAID_TRY(check_word(infer, "mode", "linear", kModes));
  BRAID_TRY(check_word(infer, "padding_mode", "zeros", kPaddings));
  char text[128];
  if (x->rank < 3 || x->rank > 5)
    return braid_infer_fail(infer, "samples %s, expected one to three axes behind batch and channels",
                            braid_desc_format(x, text, sizeof text));
  if (grid->rank != x->rank || grid->dims[0] != x->dims[0] || grid->dims[grid->rank - 1] != x->rank - 2)
    return braid_infer_fail(infer, "the grid is %s, expected %d dimensions, a batch of %lld and %d coordinates",
                            braid_desc_format(grid, text, sizeof text), x->rank, (long long)x->dims[0], x->rank - 2);
  for (int i = 2; i < x->rank; i++)
    if (x->dims[i] < 1) return braid_infer_fail(infer, "samples of an image without pixels");
  return BRAID_OK;
}

static void sampled_dims(const braid_desc *x, const braid_desc *grid, int64_t *dims) {
  memcpy(dims, x->dims, BRAID_MAX_RANK * sizeof *dims);
  for (int i = 2; i < x->rank; i++) dims[i] = grid->dims[i - 1];
}

static braid_status infer_grid_sample(const braid_infer *infer) {
  int64_t dims[BRAID_MAX_RANK];
  BRAID_TRY(check_grid(infer, 0, 1));
  const braid_desc *x = braid_infer_input(infer, 0);
  sampled_dims(x, braid_infer_input(infer, 1), dims);
  return braid_infer_output(infer, 0, x->dtype, x->rank, dims);
}

/* GridSampleGrad(dy, x, grid) = dx, dgrid. */
static braid_status infer_grid_grad(const braid_infer *infer) {
  int64_t dims[BRAID_MAX_RANK];
  BRAID_TRY(check_grid(infer, 1, 2));
  BRAID_TRY(braid_infer_same_type(infer, 0, 1));
  const braid_desc *dy = braid_infer_input(infer, 0), *x = braid_infer_input(infer, 1);
  const braid_desc *grid = braid_infer_input(infer, 2);
  sampled_dims(x, grid, dims);
  for (int i = 0; i < x->rank; i++)
    if (dy->rank != x->rank || dy->dims[i] != dims[i])
      return braid_infer_fail(infer, "the gradient does not have the result's shape");
  BRAID_TRY(braid_infer_output(infer, 0, x->dtype, x->rank, x->dims));
  return braid_infer_output(infer, 1, grid->dtype, grid->rank, grid->dims);
}

static braid_status grid_gradient(braid_gradient_context *context) {
  braid_value_id inputs[3] = {braid_gradient_of_output(context, 0), braid_gradient_input(context, 0),
                              braid_gradient_input(context, 1)};
  braid_value_id outputs[2];
  braid_node_id node;
  for (size_t i = 0; i < 2; i++) outputs[i] = braid_gradient_wanted(context, i) ? 0 : -1;
  BRAID_TRY(braid_graph_add_node(context->graph, "GridSampleGrad", NULL, inputs, 3, outputs, 2, &node));
  context->graph->nodes[node].backward = true;
  BRAID_TRY(braid_gradient_copy_attrs(context, node));
  for (size_t i = 0; i < 2; i++)
    if (outputs[i] >= 0) BRAID_TRY(braid_gradient_give(context, i, outputs[i]));
  return BRAID_OK;
}

static const braid_op kOps[] = {
    {"GridSample", 2, 2, 1, 1, 0, infer_grid_sample, NULL, grid_gradient},
    {"GridSampleGrad", 3, 3, 0, 2, 0, infer_grid_grad, NULL, NULL},
};

extern const braid_op_family braid_ops_grid;
const braid_op_family braid_ops_grid = {kOps, sizeof kOps / sizeof *kOps};
