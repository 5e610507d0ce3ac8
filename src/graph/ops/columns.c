/* Windows of images as columns, functions of other ops: Col2Im adds them up to an image; DeformConv samples them at
 * places that move, and then is a product. */
#include <string.h>

#include "base/try.h"
#include "graph/body.h"
#include "graph/geometry.h"
#include "graph/ops/movement.h"
#include "graph/ops/types.h"

static braid_status geometry_of(const braid_infer *infer, const braid_desc *x, const braid_desc *w,
                                braid_convolution *out) {
  braid_status status = braid_geometry_conv(&infer->node->attrs, x, w, out);
  if (status == BRAID_OK) return BRAID_OK;
  return braid_fail_prefix(status, "node %.120s (%s)", infer->node->name, infer->node->op->name);
}

/* --- Col2Im --------------------------------------------------------------------------------------------------------
 * The gradient of taking windows out of an image: that of a convolution of one channel. */
static braid_status read_col2im(const braid_infer *infer, braid_convolution *conv) {
  const braid_desc *x = braid_infer_input(infer, 0);
  int64_t image[BRAID_WINDOW_RANK], block[BRAID_WINDOW_RANK];
  size_t axes, blocks;
  BRAID_TRY(braid_infer_type(infer, 0, kNumber));
  BRAID_TRY(braid_infer_ints(infer, 1, "image_shape", image, BRAID_WINDOW_RANK, &axes));
  BRAID_TRY(braid_infer_ints(infer, 2, "block_shape", block, BRAID_WINDOW_RANK, &blocks));
  if (!axes || axes != blocks)
    return braid_infer_fail(infer, "an image of %zu and blocks of %zu dimensions", axes, blocks);
  braid_desc whole = {.dtype = x->dtype, .rank = 2 + (int)axes, .dims = {1, 1}}, part = whole;
  for (size_t i = 0; i < axes; i++) {
    if (image[i] < 1 || block[i] < 1) return braid_infer_fail(infer, "a size in image_shape or block_shape below 1");
    whole.dims[2 + i] = image[i];
    part.dims[2 + i] = block[i];
  }
  BRAID_TRY(geometry_of(infer, &whole, &part, conv));
  int64_t volume = braid_window_volume(&conv->window), places = braid_window_outputs(&conv->window);
  char text[128];
  if (x->rank != 3 || x->dims[1] % volume || x->dims[2] != places)
    return braid_infer_fail(infer, "the columns are %s, expected a batch, a multiple of %lld, and %lld places",
                            braid_desc_format(x, text, sizeof text), (long long)volume, (long long)places);
  conv->batch = x->dims[0];
  conv->inputs = x->dims[1] / volume;
  return BRAID_OK;
}

static braid_status infer_col2im(const braid_infer *infer) {
  braid_convolution conv;
  BRAID_TRY(read_col2im(infer, &conv));
  int rank = conv.window.rank;
  int64_t dims[BRAID_MAX_RANK] = {conv.batch, conv.inputs};
  for (int i = 0; i < rank; i++) dims[2 + i] = conv.window.input[BRAID_WINDOW_RANK - rank + i];
  return braid_infer_output(infer, 0, braid_infer_input(infer, 0)->dtype, 2 + rank, dims);
}

/* Where each number of the columns goes, [window x places, 1]; what lies in the padding goes to a place behind the
 * image, which is then cut off. */
static braid_value_id column_places(braid_body *body, const braid_window *w) {
  int64_t volume = braid_window_volume(w), outputs = braid_window_outputs(w);
  braid_desc desc = {.dtype = BRAID_I64, .rank = 2, .dims = {volume * outputs, 1}};
  braid_tensor *tensor = NULL;
  if (body->status == BRAID_OK) body->status = braid_tensor_create(body->graph->allocator, &desc, &tensor);
  if (!tensor) return -1;
  int64_t *to = braid_tensor_data(tensor);
  for (int64_t k = 0; k < volume; k++)
    for (int64_t o = 0; o < outputs; o++) {
      int64_t window = k, output = o, place = 0, stride = 1;
      bool inside = true;
      for (int d = BRAID_WINDOW_RANK - 1; d >= 0; d--) {
        int64_t at = output % w->output[d] * w->stride[d] - w->begin[d] + window % w->kernel[d] * w->dilation[d];
        inside = inside && at >= 0 && at < w->input[d];
        place += at * stride;
        stride *= w->input[d];
        window /= w->kernel[d];
        output /= w->output[d];
      }
      *to++ = inside ? place : braid_window_inputs(w);
    }
  return braid_body_tensor(body, tensor);
}

void braid_expand_Col2Im(braid_body *body) {
  braid_convolution conv;
  body->status = read_col2im(&(braid_infer){body->graph, &body->graph->nodes[body->node]}, &conv);
  if (body->status != BRAID_OK) return;
  const braid_desc image = *braid_body_output_desc(body);
  int64_t pixels = braid_window_inputs(&conv.window), planes = conv.batch * conv.inputs;
  int64_t numbers = braid_window_volume(&conv.window) * braid_window_outputs(&conv.window);
  const braid_body_attr add[] = {{.name = "reduction", .s = "add"}, {0}};
  braid_value_id x = braid_body_reshape(body, braid_body_input(body, 0), 2, (int64_t[]){planes, numbers});
  braid_value_id zero = braid_body_scalar(body, image.dtype, 0), operands[3];
  operands[0] = braid_body_expand_to(body, zero, 2, (int64_t[]){pixels + 1, planes});
  operands[1] = column_places(body, &conv.window);
  operands[2] = braid_body_transpose(body, x, (int64_t[]){1, 0});
  x = braid_body_node(body, "ScatterND", operands, 3, add);
  x = braid_body_transpose(body, braid_body_slice(body, x, 0, 0, pixels), (int64_t[]){1, 0});
  braid_body_give(body, 0, braid_body_reshape(body, x, image.rank, image.dims));
}

/* --- DeformConv ----------------------------------------------------------------------------------------------------
 */
static bool is_shaped(const braid_desc *desc, const braid_convolution *conv, int64_t channels) {
  const braid_window *w = &conv->window;
  bool same = desc->rank == 2 + w->rank && desc->dims[0] == conv->batch && desc->dims[1] == channels;
  for (int i = 0; same && i < w->rank; i++) same = desc->dims[2 + i] == w->output[BRAID_WINDOW_RANK - w->rank + i];
  return same;
}

static braid_status read_deformed(const braid_infer *infer, braid_convolution *conv, int64_t *offset_groups) {
  BRAID_TRY(braid_infer_type(infer, 0, kFloat));
  for (size_t i = 1; i < braid_infer_inputs(infer); i++)
    if (i < 3 || braid_infer_input(infer, i)) BRAID_TRY(braid_infer_same_type(infer, i, 0));
  const braid_desc *bias = braid_infer_input(infer, 3), *mask = braid_infer_input(infer, 4);
  BRAID_TRY(geometry_of(infer, braid_infer_input(infer, 0), braid_infer_input(infer, 1), conv));
  int64_t groups = *offset_groups = braid_attr_int(&infer->node->attrs, "offset_group", 1);
  if (groups < 1 || conv->inputs % groups)
    return braid_infer_fail(infer, "offset_group is %lld, which does not divide %lld channels", (long long)groups,
                            (long long)conv->inputs);
  int64_t numbers = groups * braid_window_volume(&conv->window);
  if (!is_shaped(braid_infer_input(infer, 2), conv, numbers * conv->window.rank))
    return braid_infer_fail(infer, "the offsets are not %lld channels of the result's places",
                            (long long)numbers * conv->window.rank);
  if (mask && !is_shaped(mask, conv, numbers))
    return braid_infer_fail(infer, "the mask is not %lld channels of the result's places", (long long)numbers);
  if (bias && (bias->rank != 1 || bias->dims[0] != conv->outputs))
    return braid_infer_fail(infer, "the bias is not one number for each of %lld channels", (long long)conv->outputs);
  if (braid_window_inputs(&conv->window) == 0) return braid_infer_fail(infer, "samples of an image without pixels");
  return BRAID_OK;
}

static braid_status infer_deformed(const braid_infer *infer) {
  braid_convolution conv;
  int64_t groups;
  BRAID_TRY(read_deformed(infer, &conv, &groups));
  const braid_desc *x = braid_infer_input(infer, 0);
  int64_t dims[BRAID_MAX_RANK] = {conv.batch, conv.outputs};
  for (int i = 0; i < conv.window.rank; i++) dims[2 + i] = conv.window.output[BRAID_WINDOW_RANK - conv.window.rank + i];
  return braid_infer_output(infer, 0, x->dtype, x->rank, dims);
}

/* Where a convolution looks, [window, places, axes], in GridSample's numbers: -1 and 1 are the borders of the image.
 * *scale: those numbers for a pixel, [axes]. */
static braid_value_id undeformed_grid(braid_body *body, braid_dtype dtype, const braid_window *w,
                                      braid_value_id *scale) {
  int64_t volume = braid_window_volume(w), outputs = braid_window_outputs(w);
  const braid_desc desc = {.dtype = dtype, .rank = 3, .dims = {volume, outputs, w->rank}};
  const braid_desc list = {.dtype = dtype, .rank = 1, .dims = {w->rank}};
  braid_tensor *grid = NULL, *scales = NULL;
  if (body->status == BRAID_OK) body->status = braid_tensor_create(body->graph->allocator, &desc, &grid);
  if (body->status == BRAID_OK) body->status = braid_tensor_create(body->graph->allocator, &list, &scales);
  for (int64_t i = 0; body->status == BRAID_OK && i < volume * outputs; i++) {
    int64_t window = i / outputs, output = i % outputs;
    for (int d = BRAID_WINDOW_RANK - 1, axis = w->rank - 1; axis >= 0; d--, axis--) {
      double at = (double)(output % w->output[d] * w->stride[d] - w->begin[d] + window % w->kernel[d] * w->dilation[d]);
      braid_tensor_set_f64(grid, i * w->rank + axis, (2 * at + 1) / (double)w->input[d] - 1);
      window /= w->kernel[d];
      output /= w->output[d];
    }
  }
  for (int axis = 0; body->status == BRAID_OK && axis < w->rank; axis++)
    braid_tensor_set_f64(scales, axis, 2 / (double)w->input[BRAID_WINDOW_RANK - w->rank + axis]);
  *scale = braid_body_tensor(body, scales);
  return braid_body_tensor(body, grid);
}

/* The numbers that the windows take, [batch x offset groups, channels of a group, window x places]. */
static braid_value_id deformed_columns(braid_body *body, const braid_convolution *conv, int64_t groups) {
  const braid_window *w = &conv->window;
  const braid_desc x = *braid_body_desc(body, braid_body_input(body, 0));
  int64_t volume = braid_window_volume(w), outputs = braid_window_outputs(w), batch = conv->batch * groups;
  int64_t channels = conv->inputs / groups, image[BRAID_MAX_RANK] = {batch, channels}, turned[BRAID_MAX_RANK] = {0, 1};
  for (int i = 0; i < w->rank; i++) {
    image[2 + i] = x.dims[2 + i];
    turned[2 + i] = 1 + w->rank - i; /* the first number of a grid is that of the last axis */
  }
  braid_value_id pixels = braid_body_reshape(body, braid_body_input(body, 0), x.rank, image);
  pixels = braid_body_transpose(body, pixels, turned);
  braid_value_id moved =
      braid_body_reshape(body, braid_body_input(body, 2), 4, (int64_t[]){batch, volume, w->rank, outputs});
  moved = braid_body_transpose(body, moved, (int64_t[]){0, 1, 3, 2});
  braid_dtype places = x.dtype == BRAID_F64 ? BRAID_F64 : BRAID_F32; /* 16 bits are too few for a place in an image */
  braid_value_id scale, grid = undeformed_grid(body, places, w, &scale);
  grid = braid_body_2(body, "Add", braid_body_2(body, "Mul", braid_body_cast(body, moved, places), scale), grid);
  int64_t dims[BRAID_MAX_RANK] = {batch, volume * outputs, 1, 1};
  dims[1 + w->rank] = w->rank;
  grid = braid_body_reshape(body, grid, w->rank + 2, dims);
  return braid_body_reshape(body, braid_body_2(body, "GridSample", pixels, grid), 3,
                            (int64_t[]){batch, channels, volume * outputs});
}

void braid_expand_DeformConv(braid_body *body) {
  braid_convolution conv;
  int64_t groups;
  body->status = read_deformed(&(braid_infer){body->graph, &body->graph->nodes[body->node]}, &conv, &groups);
  if (body->status != BRAID_OK) return;
  const braid_desc y = *braid_body_output_desc(body);
  int64_t volume = braid_window_volume(&conv.window), outputs = braid_window_outputs(&conv.window);
  int64_t taken = conv.inputs / conv.groups * volume, made = conv.outputs / conv.groups;
  braid_value_id columns = deformed_columns(body, &conv, groups), mask = braid_body_input(body, 4);
  braid_value_id weights = braid_body_input(body, 1), bias = braid_body_input(body, 3);
  if (mask >= 0) {
    mask = braid_body_reshape(body, mask, 3, (int64_t[]){conv.batch * groups, 1, volume * outputs});
    columns = braid_body_2(body, "Mul", columns, mask);
  }
  columns = braid_body_reshape(body, columns, 4, (int64_t[]){conv.batch, conv.groups, taken, outputs});
  weights = braid_body_reshape(body, weights, 3, (int64_t[]){conv.groups, made, taken});
  braid_value_id result = braid_body_reshape(body, braid_body_2(body, "MatMul", weights, columns), y.rank, y.dims);
  if (bias >= 0) {
    int64_t dims[BRAID_MAX_RANK] = {conv.outputs, 1, 1, 1};
    result = braid_body_2(body, "Add", result, braid_body_reshape(body, bias, y.rank - 1, dims));
  }
  braid_body_give(body, 0, result);
}

static const braid_op kOps[] = {
    {"Col2Im", 3, 3, 1, 1, BRAID_OP_FUNCTION, infer_col2im, NULL, NULL},
    {"DeformConv", 3, 5, 1, 1, BRAID_OP_FUNCTION, infer_deformed, NULL, NULL},
};

extern const braid_op_family braid_ops_columns;
const braid_op_family braid_ops_columns = {kOps, sizeof kOps / sizeof *kOps};
