/* Transposed convolution by oneDNN, which runs it as the input gradient of the convolution that it transposes.
 *
 * Layouts as in conv.c: blocks of 16 channels where there is a fast kernel for them, else channels last. */
#include <stdio.h>

#include "backend/cpu/onednn/program.h"
#include "base/try.h"
#include "graph/geometry.h"

enum { kMaxSpatial = 3, kMostPieces = 16 };

typedef struct deconvolution {
  braid_convolution g; /* the convolution that is transposed: its outputs are our inputs */
  int spatial;
  dnnl_dims_t strides, dilations, pad_begin, pad_end;
} deconvolution;

static bool read_deconvolution(const braid_node_desc *node, deconvolution *out) {
  const braid_desc *x = &node->inputs[0].desc, *w = &node->inputs[1].desc, *y = &node->outputs[0].desc;
  *out = (deconvolution){.spatial = x->rank - 2};
  if (out->spatial < 1 || out->spatial > kMaxSpatial || w->rank != x->rank) return false;
  if (braid_geometry_conv_transpose(node->attrs, x, w, &out->g) != BRAID_OK) return false;
  const braid_window *window = &out->g.window;
  for (int i = 0; i < out->spatial; i++) {
    int at = BRAID_WINDOW_RANK - out->spatial + i;
    out->strides[i] = window->stride[at];
    out->dilations[i] = window->dilation[at] - 1; /* oneDNN counts the holes */
    out->pad_begin[i] = window->begin[at];
    /* what the sizes make of it: less than nothing where the output is padded */
    out->pad_end[i] = (window->output[at] - 1) * window->stride[at] + (window->kernel[at] - 1) * window->dilation[at] +
                      1 - window->input[at] - window->begin[at];
  }
  return braid_desc_count(x) > 0 && braid_desc_count(w) > 0 && braid_desc_count(y) > 0;
}

/* Weights as ONNX has them, [inputs, outputs / groups, kernel...], seen by oneDNN as [groups,] outputs, inputs, kernel
 * of a group. `any`: the same in the primitive's own layout. */
static bool weight_desc(const braid_desc *w, const deconvolution *d, bool any, dnnl_memory_desc_t *out) {
  dnnl_dims_t dims, strides;
  int64_t inputs = w->dims[0] / d->g.groups, outputs = w->dims[1], kernel = 1;
  int rank = 0;
  for (int i = 0; i < d->spatial; i++) kernel *= w->dims[2 + i];
  if (d->g.groups > 1) {
    dims[rank] = d->g.groups;
    strides[rank++] = inputs * outputs * kernel;
  }
  dims[rank] = outputs;
  strides[rank++] = kernel;
  dims[rank] = inputs;
  strides[rank++] = outputs * kernel;
  for (int i = 0; i < d->spatial; i++) {
    kernel /= w->dims[2 + i];
    dims[rank] = w->dims[2 + i];
    strides[rank++] = kernel;
  }
  dnnl_status_t status = any ? DNNL(memory_desc_init_by_tag)(out, rank, dims, dnnl_f32, dnnl_format_tag_any)
                             : DNNL(memory_desc_init_by_strides)(out, rank, dims, dnnl_f32, strides);
  return status == dnnl_success;
}

static bool has_bias(const braid_node_desc *node) {
  return node->input_count > 2 && node->inputs[2].present;
}

/* An operand of images, `batch` of them, in `layout`. */
static bool images_desc(const braid_operand *images, braid_layout layout, int64_t batch, dnnl_memory_desc_t *out) {
  braid_desc desc = images->desc;
  desc.layout = layout;
  desc.dims[0] = batch;
  return braid_dnnl_desc(&desc, out);
}

/* For all threads or, without `pieces`, for one. */
static braid_status describe(const braid_node_desc *node, const deconvolution *d, braid_layout layout, int64_t batch,
                             dnnl_primitive_desc_t *out, bool *pieces) {
  dnnl_memory_desc_t x_desc, w_desc, b_desc, y_desc;
  if (!images_desc(&node->inputs[0], layout, batch, &x_desc) ||
      !images_desc(&node->outputs[0], layout, batch, &y_desc) || !weight_desc(&node->inputs[1].desc, d, true, &w_desc))
    return braid_fail(BRAID_UNSUPPORTED, "a layout oneDNN does not have");
  braid_dnnl_plain(1, &d->g.inputs, &b_desc);
  dnnl_deconvolution_desc_t op;
  BRAID_TRY(braid_dnnl_status(DNNL(dilated_deconvolution_forward_desc_init)(
                                  &op, node->training ? dnnl_forward_training : dnnl_forward_inference,
                                  dnnl_deconvolution_direct, &x_desc, &w_desc, has_bias(node) ? &b_desc : NULL, &y_desc,
                                  d->strides, d->dilations, d->pad_begin, d->pad_end),
                              "a transposed convolution"));
  if (!pieces) return braid_dnnl_describe_single(&op, NULL, NULL, out);
  return braid_dnnl_describe_whole(&op, NULL, NULL, out, pieces);
}

static bool best_layout(const braid_node_desc *node, const deconvolution *d, braid_layout *out) {
  static const braid_layout kLayouts[] = {BRAID_LAYOUT_BLOCKED16, BRAID_LAYOUT_BHWC};
  bool found = false;
  for (size_t i = 0; i < 2 && !found; i++) {
    dnnl_primitive_desc_t pd;
    bool pieces;
    if (describe(node, d, kLayouts[i], d->g.batch, &pd, &pieces) != BRAID_OK) continue;
    found = true;
    *out = kLayouts[i];
    DNNL(primitive_desc_destroy)(pd);
  }
  return found;
}

static bool match(const braid_node_desc *node, char *why, size_t why_bytes) {
  deconvolution d;
  braid_layout layout;
  if (!braid_dnnl_all_f32(node, why, why_bytes)) return false;
  if (!read_deconvolution(node, &d)) {
    snprintf(why, why_bytes, "1 to 3 spatial dimensions and no empty tensor only");
    return false;
  }
  if (best_layout(node, &d, &layout)) return true;
  snprintf(why, why_bytes, "oneDNN has no fast transposed convolution of this shape");
  return false;
}

static void layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  deconvolution d;
  braid_layout layout;
  for (size_t i = 0; i < node->input_count; i++) inputs[i] = BRAID_LAYOUT_PLAIN;
  outputs[0] = BRAID_LAYOUT_PLAIN;
  if (read_deconvolution(node, &d) && best_layout(node, &d, &layout)) inputs[0] = outputs[0] = layout;
}

/* Weights packed if constant, else converted by a step of each run. */
static braid_status bind_weights(braid_dnnl *program, const braid_node_desc *node, const deconvolution *d,
                                 const dnnl_memory_desc_t *wanted, int *out) {
  dnnl_memory_desc_t given;
  int plain;
  if (!weight_desc(&node->inputs[1].desc, d, false, &given))
    return braid_fail(BRAID_UNSUPPORTED, "weights oneDNN cannot describe");
  if (node->inputs[1].constant) return braid_dnnl_packed(program, 1, &given, 0, wanted, out);
  BRAID_TRY(braid_dnnl_memory(program, wanted, BRAID_DNNL_WORKSPACE, 0, out));
  BRAID_TRY(braid_dnnl_memory(program, &given, BRAID_DNNL_INPUT, 1, &plain));
  return braid_dnnl_reorder(program, plain, *out);
}

/* In one part for all threads, or in parts of the batch side by side. */
static braid_status build(braid_dnnl *program, const braid_node_desc *node, const deconvolution *d,
                          dnnl_primitive_desc_t pd, int64_t parts, bool side_by_side) {
  braid_layout layout = node->outputs[0].desc.layout;
  braid_dnnl_arg args[] = {
      {.arg = DNNL_ARG_SRC}, {.arg = DNNL_ARG_WEIGHTS}, {.arg = DNNL_ARG_DST}, {.arg = DNNL_ARG_BIAS}};
  dnnl_memory_desc_t x, b, y, part_x, part_y;
  int whole_x, whole_y;
  bool known = images_desc(&node->inputs[0], layout, d->g.batch, &x) &&
               images_desc(&node->outputs[0], layout, d->g.batch, &y) &&
               images_desc(&node->inputs[0], layout, d->g.batch / parts, &part_x) &&
               images_desc(&node->outputs[0], layout, d->g.batch / parts, &part_y);
  if (!known) return braid_fail(BRAID_UNSUPPORTED, "a layout oneDNN does not have");
  braid_dnnl_plain(1, &d->g.inputs, &b);
  BRAID_TRY(
      bind_weights(program, node, d, DNNL(primitive_desc_query_md)(pd, dnnl_query_weights_md, 0), &args[1].memory));
  BRAID_TRY(braid_dnnl_memory(program, &x, BRAID_DNNL_INPUT, 0, &whole_x));
  BRAID_TRY(braid_dnnl_memory(program, &y, BRAID_DNNL_OUTPUT, 0, &whole_y));
  if (has_bias(node)) BRAID_TRY(braid_dnnl_memory(program, &b, BRAID_DNNL_INPUT, 2, &args[3].memory));
  size_t step_x = DNNL(memory_desc_get_size)(&part_x), step_y = DNNL(memory_desc_get_size)(&part_y);
  if (side_by_side) braid_dnnl_begin_group(program);
  for (int64_t i = 0; i < parts; i++) {
    dnnl_primitive_desc_t own;
    BRAID_TRY(braid_dnnl_part(program, whole_x, &part_x, (size_t)i * step_x, &args[0].memory));
    BRAID_TRY(braid_dnnl_part(program, whole_y, &part_y, (size_t)i * step_y, &args[2].memory));
    BRAID_TRY(braid_dnnl_status(DNNL(primitive_desc_clone)(&own, pd), "a description"));
    BRAID_TRY(braid_dnnl_step(program, own, args, has_bias(node) ? 4 : 3));
  }
  braid_dnnl_end_group(program);
  return BRAID_OK;
}

static braid_status create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                           braid_prepared_info *info) {
  *state = NULL;
  deconvolution d;
  dnnl_primitive_desc_t pd;
  braid_dnnl *program = NULL;
  bool pieces;
  if (!read_deconvolution(node, &d))
    return braid_fail(BRAID_INTERNAL, "a transposed convolution that was matched cannot be read");
  braid_layout layout = node->outputs[0].desc.layout;
  int64_t parts = 1;
  BRAID_TRY(describe(node, &d, layout, d.g.batch, &pd, &pieces));
  if (pieces) {
    DNNL(primitive_desc_destroy)(pd);
    parts = braid_dnnl_pieces_of(d.g.batch, kMostPieces);
    BRAID_TRY(describe(node, &d, layout, d.g.batch / parts, &pd, NULL));
  }
  braid_status status = braid_dnnl_create(allocator, &program);
  if (status == BRAID_OK) status = build(program, node, &d, pd, parts, pieces);
  DNNL(primitive_desc_destroy)(pd);
  if (status != BRAID_OK) {
    braid_dnnl_destroy(allocator, program);
    return status;
  }
  info->workspace_bytes = braid_dnnl_workspace(program);
  *state = program;
  return BRAID_OK;
}

static const braid_cpu_kernel kTransposed = {.create = create, BRAID_DNNL_KERNEL};
static const braid_kernel kKernels[] = {
    {.op = "ConvTranspose",
     .name = "dnnl_conv_transpose",
     .match = match,
     .layouts = layouts,
     .implementation = &kTransposed},
};

const braid_cpu_table braid_cpu_onednn_deconv = {kKernels, sizeof kKernels / sizeof *kKernels, &braid_dnnl_library};
