/* Transposed convolution by oneDNN, which runs it as the input gradient of the convolution that it transposes.
 *
 * Layouts as in conv.c: blocks of 16 channels where there is a fast kernel for them, else channels last. */
#include <stdio.h>
#include <string.h>

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
 * of a group. */
static braid_md weight_md(const braid_desc *w, const deconvolution *d) {
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
  return braid_md_strided(rank, dims, strides);
}

static bool has_bias(const braid_node_desc *node) {
  return node->input_count > 2 && node->inputs[2].present;
}

/* An operand of images, `batch` of them, in `layout`. */
static bool images_md(const braid_operand *images, braid_layout layout, int64_t batch, braid_md *out) {
  braid_desc desc = images->desc;
  desc.layout = layout;
  desc.dims[0] = batch;
  return braid_md_of(&desc, out);
}

/* For all threads or, without `pieces`, for one. */
static braid_status deconv_describe(const braid_node_desc *node, const deconvolution *d, braid_layout layout,
                                    int64_t batch, braid_description **out, bool *pieces) {
  braid_dnnl_request r;
  braid_dnnl_request_of(BRAID_DNNL_DECONV, &r);
  if (!images_md(&node->inputs[0], layout, batch, &r.x) || !images_md(&node->outputs[0], layout, batch, &r.y))
    return braid_fail(BRAID_UNSUPPORTED, "a layout oneDNN does not have");
  braid_md w = weight_md(&node->inputs[1].desc, d);
  r.w = braid_md_any(&w);
  if (has_bias(node)) r.b = braid_md_plain(1, &d->g.inputs);
  r.algorithm = dnnl_deconvolution_direct;
  r.training = node->training;
  memcpy(r.strides, d->strides, sizeof r.strides);
  memcpy(r.dilations, d->dilations, sizeof r.dilations);
  memcpy(r.begin, d->pad_begin, sizeof r.begin);
  memcpy(r.end, d->pad_end, sizeof r.end);
  return pieces ? braid_describe_whole(&r, out, pieces) : braid_describe_single(&r, out);
}

static bool best_layout(const braid_node_desc *node, const deconvolution *d, braid_layout *out) {
  static const braid_layout kLayouts[] = {BRAID_LAYOUT_BLOCKED16, BRAID_LAYOUT_BHWC};
  bool found = false;
  for (size_t i = 0; i < 2 && !found; i++) {
    braid_description *description;
    bool pieces;
    if (deconv_describe(node, d, kLayouts[i], d->g.batch, &description, &pieces) != BRAID_OK) continue;
    found = true;
    *out = kLayouts[i];
    braid_description_release(description);
  }
  return found;
}

static bool deconv_match(const braid_node_desc *node, char *why, size_t why_bytes) {
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

static void deconv_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  deconvolution d;
  braid_layout layout;
  for (size_t i = 0; i < node->input_count; i++) inputs[i] = BRAID_LAYOUT_PLAIN;
  outputs[0] = BRAID_LAYOUT_PLAIN;
  if (read_deconvolution(node, &d) && best_layout(node, &d, &layout)) inputs[0] = outputs[0] = layout;
}

/* Weights packed if constant, else converted by a step of each run. */
static braid_status bind_weights(braid_dnnl *program, const braid_node_desc *node, const deconvolution *d,
                                 const braid_description *description, int *out) {
  braid_md given = weight_md(&node->inputs[1].desc, d), wanted;
  int plain;
  if (node->inputs[1].constant) return braid_dnnl_packed(program, 1, &given, 0, description, out);
  wanted = braid_description_md(description, dnnl_query_weights_md);
  BRAID_TRY(braid_dnnl_memory(program, &wanted, BRAID_DNNL_WORKSPACE, 0, out));
  BRAID_TRY(braid_dnnl_memory(program, &given, BRAID_DNNL_INPUT, 1, &plain));
  return braid_dnnl_reorder(program, plain, *out);
}

/* In one part for all threads, or in parts of the batch side by side. */
static braid_status deconv_build(braid_dnnl *program, const braid_node_desc *node, const deconvolution *d,
                                 const braid_description *description, int64_t parts, bool side_by_side) {
  braid_layout layout = node->outputs[0].desc.layout;
  braid_dnnl_arg args[] = {
      {.arg = DNNL_ARG_SRC}, {.arg = DNNL_ARG_WEIGHTS}, {.arg = DNNL_ARG_DST}, {.arg = DNNL_ARG_BIAS}};
  braid_md x, y, part_x, part_y, b = braid_md_plain(1, &d->g.inputs);
  int whole_x, whole_y;
  bool known = images_md(&node->inputs[0], layout, d->g.batch, &x) &&
               images_md(&node->outputs[0], layout, d->g.batch, &y) &&
               images_md(&node->inputs[0], layout, d->g.batch / parts, &part_x) &&
               images_md(&node->outputs[0], layout, d->g.batch / parts, &part_y);
  if (!known) return braid_fail(BRAID_UNSUPPORTED, "a layout oneDNN does not have");
  BRAID_TRY(bind_weights(program, node, d, description, &args[1].memory));
  BRAID_TRY(braid_dnnl_memory(program, &x, BRAID_DNNL_INPUT, 0, &whole_x));
  BRAID_TRY(braid_dnnl_memory(program, &y, BRAID_DNNL_OUTPUT, 0, &whole_y));
  if (has_bias(node)) BRAID_TRY(braid_dnnl_memory(program, &b, BRAID_DNNL_INPUT, 2, &args[3].memory));
  size_t step_x = braid_md_bytes(&part_x), step_y = braid_md_bytes(&part_y);
  if (side_by_side) braid_dnnl_begin_group(program);
  for (int64_t i = 0; i < parts; i++) {
    BRAID_TRY(braid_dnnl_part(program, whole_x, &part_x, (size_t)i * step_x, &args[0].memory));
    BRAID_TRY(braid_dnnl_part(program, whole_y, &part_y, (size_t)i * step_y, &args[2].memory));
    BRAID_TRY(braid_dnnl_step(program, description, args, has_bias(node) ? 4 : 3));
  }
  braid_dnnl_end_group(program);
  return BRAID_OK;
}

static braid_status deconv_create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                  braid_prepared_info *info) {
  *state = NULL;
  deconvolution d;
  braid_description *description;
  braid_dnnl *program = NULL;
  bool pieces;
  if (!read_deconvolution(node, &d))
    return braid_fail(BRAID_INTERNAL, "a transposed convolution that was matched cannot be read");
  braid_layout layout = node->outputs[0].desc.layout;
  int64_t parts = 1;
  BRAID_TRY(deconv_describe(node, &d, layout, d.g.batch, &description, &pieces));
  if (pieces) {
    braid_description_release(description);
    parts = braid_dnnl_pieces_of(d.g.batch, kMostPieces);
    BRAID_TRY(deconv_describe(node, &d, layout, d.g.batch / parts, &description, NULL));
  }
  braid_status status = braid_dnnl_create(allocator, &program);
  if (status == BRAID_OK) status = deconv_build(program, node, &d, description, parts, pieces);
  braid_description_release(description);
  if (status != BRAID_OK) {
    braid_dnnl_destroy(allocator, program);
    return status;
  }
  info->workspace_bytes = braid_dnnl_workspace(program);
  *state = program;
  return BRAID_OK;
}

static const braid_cpu_kernel kTransposed = {.create = deconv_create, BRAID_DNNL_KERNEL};
static const braid_kernel kKernels[] = {
    {.op = "ConvTranspose",
     .name = "dnnl_conv_transpose",
     .match = deconv_match,
     .layouts = deconv_layouts,
     .implementation = &kTransposed},
};

const braid_cpu_table braid_cpu_onednn_deconv = {kKernels, sizeof kKernels / sizeof *kKernels, &braid_dnnl_library};
