/* Convolution by oneDNN: forward with bias, residual sum and activation, and both gradients.
 *
 * Layout: channels in blocks of 16 on both sides (an image of up to 4 channels is read as it is), for which oneDNN has
 * its fastest direct kernels and Winograd's algorithm. Winograd F(4x4, 3x3) is taken for 3x3 convolutions of stride 1:
 * about twice as fast, with a relative error near 1e-6 against 2e-7 of the direct kernels, both within float32's
 * working error of a sum that long. Constant weights are packed once; weights that training changes are converted in
 * every run. */
#include <stdio.h>
#include <string.h>

#include "backend/cpu/dnnl.h"
#include "base/try.h"
#include "graph/geometry.h"

enum { kMaxSpatial = 3, kPlainChannels = 4, kWinogradPixels = 100, kWinogradChannels = 64 };

/* --- the convolution a node stands for -----------------------------------------------------------------------------
 */
typedef struct convolution {
  braid_desc w; /* [filters, channels / groups, kernel...] */
  int spatial;
  int64_t groups, batch, channels, filters, pixels; /* pixels of the output */
  dnnl_dims_t strides, dilations, pad_begin, pad_end;
} convolution;

typedef enum pass { FORWARD, GRAD_INPUT, GRAD_FILTER } pass;

/* Where the images and the weights of a node stand: Conv(x, w) -> y, ConvGradInput(dy, w) -> dx, ConvGradFilter(x, dy)
 * -> dw. */
typedef struct operands {
  const braid_operand *x, *w, *y;
} operands;

static operands operands_of(const braid_node_desc *node, pass which) {
  const braid_operand *in = node->inputs, *out = node->outputs;
  if (which == GRAD_INPUT) return (operands){&out[0], &in[1], &in[0]};
  if (which == GRAD_FILTER) return (operands){&in[0], &out[0], &in[1]};
  return (operands){&in[0], &in[1], &out[0]};
}

static pass pass_of(const braid_node_desc *node) {
  if (strcmp(node->op, "ConvGradInput") == 0) return GRAD_INPUT;
  return strcmp(node->op, "ConvGradFilter") == 0 ? GRAD_FILTER : FORWARD;
}

static braid_status read_geometry(const braid_node_desc *node, pass which, braid_convolution *out) {
  operands o = operands_of(node, which);
  if (which == GRAD_INPUT) return braid_geometry_conv_grad_input(node->attrs, &o.y->desc, &o.w->desc, out);
  if (which == GRAD_FILTER) return braid_geometry_conv_grad_filter(node->attrs, &o.x->desc, &o.y->desc, out);
  return braid_geometry_conv(node->attrs, &o.x->desc, &o.w->desc, out);
}

static bool read_convolution(const braid_node_desc *node, pass which, convolution *out) {
  operands o = operands_of(node, which);
  braid_convolution g;
  if (o.x->desc.rank < 3 || o.x->desc.rank > 2 + kMaxSpatial || o.w->desc.rank != o.x->desc.rank) return false;
  if (read_geometry(node, which, &g) != BRAID_OK) return false;
  *out = (convolution){.w = o.w->desc,
                       .spatial = g.window.rank,
                       .groups = g.groups,
                       .batch = g.batch,
                       .channels = g.inputs,
                       .filters = g.outputs,
                       .pixels = braid_window_outputs(&g.window)};
  for (int i = 0; i < g.window.rank; i++) {
    int at = BRAID_WINDOW_RANK - g.window.rank + i;
    out->strides[i] = g.window.stride[at];
    out->dilations[i] = g.window.dilation[at] - 1; /* oneDNN counts the holes */
    out->pad_begin[i] = g.window.begin[at];
    /* what the output's size makes of it: a rest that the stride leaves over is not padded */
    out->pad_end[i] = (g.window.output[at] - 1) * g.window.stride[at] +
                      (g.window.kernel[at] - 1) * g.window.dilation[at] + 1 - g.window.input[at] - g.window.begin[at];
  }
  return braid_desc_count(&o.x->desc) > 0 && braid_desc_count(&o.y->desc) > 0 && braid_desc_count(&o.w->desc) > 0;
}

static bool suits_winograd(const convolution *c) {
  if (c->spatial != 2 || c->groups != 1) return false;
  for (int i = 0; i < 2; i++)
    if (c->w.dims[2 + i] != 3 || c->strides[i] != 1 || c->dilations[i] != 0) return false;
  return c->channels >= kWinogradChannels && c->filters >= kWinogradChannels && c->batch * c->pixels >= kWinogradPixels;
}

/* Weights as oneDNN wants them: groups are a dimension of their own. */
static void weight_desc(const convolution *c, bool any, dnnl_memory_desc_t *out) {
  int64_t dims[3 + kMaxSpatial];
  int rank = 0;
  if (c->groups > 1) {
    dims[rank++] = c->groups;
    dims[rank++] = c->w.dims[0] / c->groups;
  } else {
    dims[rank++] = c->w.dims[0];
  }
  for (int i = 1; i < c->w.rank; i++) dims[rank++] = c->w.dims[i];
  braid_dnnl_plain(rank, dims, out);
  if (any) DNNL(memory_desc_init_by_tag)(out, rank, out->dims, dnnl_f32, dnnl_format_tag_any);
}

static void one_per_filter(const convolution *c, dnnl_memory_desc_t *out) {
  braid_dnnl_plain(1, &c->w.dims[0], out);
}

/* --- layouts -------------------------------------------------------------------------------------------------------
 */
/* Of x, where y is in `layout`. */
static braid_layout image_layout(const braid_node_desc *node, braid_layout layout) {
  bool few = operands_of(node, pass_of(node)).x->desc.dims[1] <= kPlainChannels;
  bool whole = braid_attr_int(node->attrs, "group", 1) == 1;
  return few && whole && layout == BRAID_LAYOUT_BLOCKED16 ? BRAID_LAYOUT_PLAIN : layout;
}

static void plain(braid_layout *layouts, size_t count) {
  for (size_t i = 0; i < count; i++) layouts[i] = BRAID_LAYOUT_PLAIN;
}

/* --- forward -------------------------------------------------------------------------------------------------------
 */
static bool has(const braid_operand *list, size_t count, size_t index) {
  return index < count && list[index].present;
}

static braid_status describe_forward(const braid_node_desc *node, const convolution *c, dnnl_primitive_attr_t attr,
                                     dnnl_primitive_desc_t *out) {
  dnnl_memory_desc_t x, w, b, y;
  if (!braid_dnnl_desc(&node->inputs[0].desc, &x) || !braid_dnnl_desc(&node->outputs[0].desc, &y))
    return braid_fail(BRAID_UNSUPPORTED, "a layout oneDNN does not have");
  weight_desc(c, true, &w);
  one_per_filter(c, &b);
  bool bias = has(node->inputs, node->input_count, 2);
  dnnl_prop_kind_t kind = node->training ? dnnl_forward_training : dnnl_forward_inference;
  dnnl_alg_kind_t algorithms[] = {dnnl_convolution_winograd, dnnl_convolution_direct};
  braid_status status = BRAID_UNSUPPORTED;
  for (int i = suits_winograd(c) ? 0 : 1; i < 2 && status == BRAID_UNSUPPORTED; i++) {
    dnnl_convolution_desc_t op;
    if (DNNL(dilated_convolution_forward_desc_init)(&op, kind, algorithms[i], &x, &w, bias ? &b : NULL, &y, c->strides,
                                                    c->dilations, c->pad_begin, c->pad_end) == dnnl_success)
      status = braid_dnnl_describe(&op, attr, NULL, out);
    else
      status = braid_fail(BRAID_UNSUPPORTED, "oneDNN has no such convolution");
  }
  return status;
}

/* The node with its images in `layout` (an image of few channels as it is). `room` has room for 5. */
static braid_node_desc in_layout(const braid_node_desc *node, braid_layout layout, braid_operand *room) {
  braid_node_desc other = *node;
  for (size_t i = 0; i < node->input_count && i < 4; i++) room[i] = node->inputs[i];
  room[4] = node->outputs[0];
  room[4].desc.layout = layout;
  room[0].desc.layout = image_layout(node, layout);
  other.inputs = room;
  other.outputs = &room[4];
  return other;
}

/* The layout in which oneDNN has more than its slow reference; false: none. Blocks of channels are best, but some
 * shapes (a pointwise convolution with pads) have a fast kernel only with channels last. */
static bool best_layout(const braid_node_desc *node, const convolution *c, braid_layout *out) {
  static const braid_layout kLayouts[] = {BRAID_LAYOUT_BLOCKED16, BRAID_LAYOUT_BHWC};
  dnnl_primitive_attr_t attr;
  if (braid_dnnl_attributes(node, has(node->inputs, node->input_count, 3), &attr) != BRAID_OK) return false;
  bool found = false;
  for (size_t i = 0; i < 2 && !found; i++) {
    braid_operand room[5];
    braid_node_desc other = in_layout(node, kLayouts[i], room);
    dnnl_primitive_desc_t pd;
    if (describe_forward(&other, c, attr, &pd) != BRAID_OK) continue;
    found = !braid_dnnl_is_reference(pd);
    *out = kLayouts[i];
    DNNL(primitive_desc_destroy)(pd);
  }
  DNNL(primitive_attr_destroy)(attr);
  return found;
}

static bool forward_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  convolution c;
  if (!braid_dnnl_all_f32(node, why, why_bytes)) return false;
  if (!read_convolution(node, FORWARD, &c)) {
    snprintf(why, why_bytes, "1 to 3 spatial dimensions and no empty tensor only");
    return false;
  }
  if (!braid_dnnl_has_activation(node)) {
    snprintf(why, why_bytes, "activation %s", braid_attr_string(node->attrs, "activation", ""));
    return false;
  }
  braid_layout layout;
  if (best_layout(node, &c, &layout)) return true;
  snprintf(why, why_bytes, "oneDNN has no fast convolution of this shape");
  return false;
}

static void forward_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  convolution c;
  braid_layout layout;
  plain(inputs, node->input_count);
  if (!read_convolution(node, FORWARD, &c) || !best_layout(node, &c, &layout)) return;
  outputs[0] = layout;
  inputs[0] = image_layout(node, layout);
  if (has(node->inputs, node->input_count, 3)) inputs[3] = layout;
}

/* The node's weights as memory `*out` in the layout the primitive wants: packed now if constant, else converted by a
 * step of each run. */
static braid_status bind_weights(braid_dnnl *program, const braid_node_desc *node, size_t input, const convolution *c,
                                 const dnnl_memory_desc_t *wanted, braid_prepared_info *info, int *out) {
  dnnl_memory_desc_t given;
  weight_desc(c, false, &given);
  const void *constant = node->inputs[input].constant;
  if (constant) {
    BRAID_TRY(braid_dnnl_memory(program, wanted, BRAID_DNNL_OWN, 0, out));
    info->constants_folded |= 1u << input;
    return braid_dnnl_pack(program, &given, constant, *out);
  }
  int plain_weights;
  BRAID_TRY(braid_dnnl_memory(program, &given, BRAID_DNNL_INPUT, input, &plain_weights));
  *out = plain_weights;
  if (DNNL(memory_desc_equal)(&given, wanted)) return BRAID_OK;
  BRAID_TRY(braid_dnnl_memory(program, wanted, BRAID_DNNL_WORKSPACE, 0, out));
  return braid_dnnl_reorder(program, plain_weights, *out);
}

static braid_status build_forward(braid_dnnl *program, const braid_node_desc *node, const convolution *c,
                                  dnnl_primitive_desc_t pd, braid_prepared_info *info) {
  int x, w, b, y;
  dnnl_memory_desc_t x_desc, b_desc, y_desc;
  braid_dnnl_desc(&node->inputs[0].desc, &x_desc);
  braid_dnnl_desc(&node->outputs[0].desc, &y_desc);
  one_per_filter(c, &b_desc);
  braid_dnnl_arg args[4];
  size_t count = 0;
  braid_status status =
      bind_weights(program, node, 1, c, DNNL(primitive_desc_query_md)(pd, dnnl_query_weights_md, 0), info, &w);
  if (status == BRAID_OK) status = braid_dnnl_memory(program, &x_desc, BRAID_DNNL_INPUT, 0, &x);
  if (status == BRAID_OK) status = braid_dnnl_memory(program, &y_desc, BRAID_DNNL_OUTPUT, 0, &y);
  if (status == BRAID_OK && has(node->inputs, node->input_count, 2)) {
    status = braid_dnnl_memory(program, &b_desc, BRAID_DNNL_INPUT, 2, &b);
    args[count++] = (braid_dnnl_arg){DNNL_ARG_BIAS, b};
  }
  if (status == BRAID_OK && has(node->inputs, node->input_count, 3))
    status = braid_dnnl_copy(program, 3, 0, DNNL(memory_desc_get_size)(&y_desc));
  if (status != BRAID_OK) {
    DNNL(primitive_desc_destroy)(pd);
    return status;
  }
  args[count++] = (braid_dnnl_arg){DNNL_ARG_SRC, x};
  args[count++] = (braid_dnnl_arg){DNNL_ARG_WEIGHTS, w};
  args[count++] = (braid_dnnl_arg){DNNL_ARG_DST, y};
  return braid_dnnl_step(program, pd, args, count);
}

static braid_status finish(const braid_allocator *allocator, braid_dnnl *program, braid_status status, void **state,
                           braid_prepared_info *info) {
  if (status != BRAID_OK) {
    braid_dnnl_destroy(allocator, program);
    return status;
  }
  info->workspace_bytes = braid_dnnl_workspace(program);
  *state = program;
  return BRAID_OK;
}

static braid_status forward_create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                   braid_prepared_info *info) {
  *state = NULL;
  convolution c;
  if (!read_convolution(node, FORWARD, &c))
    return braid_fail(BRAID_INTERNAL, "a convolution that was matched cannot be read");
  dnnl_primitive_attr_t attr;
  dnnl_primitive_desc_t pd;
  BRAID_TRY(braid_dnnl_attributes(node, has(node->inputs, node->input_count, 3), &attr));
  braid_dnnl *program = NULL;
  braid_status status = describe_forward(node, &c, attr, &pd);
  DNNL(primitive_attr_destroy)(attr);
  BRAID_TRY(status);
  status = braid_dnnl_create(allocator, &program);
  if (status == BRAID_OK)
    status = build_forward(program, node, &c, pd, info);
  else
    DNNL(primitive_desc_destroy)(pd);
  return finish(allocator, program, status, state, info);
}

/* --- gradients -----------------------------------------------------------------------------------------------------
 */
/* A forward description for oneDNN to match the backward one with. */
static braid_status describe_hint(const convolution *c, const dnnl_memory_desc_t *x, const dnnl_memory_desc_t *y,
                                  dnnl_alg_kind_t algorithm, dnnl_primitive_desc_t *out) {
  dnnl_memory_desc_t w;
  weight_desc(c, true, &w);
  dnnl_convolution_desc_t op;
  BRAID_TRY(braid_dnnl_status(DNNL(dilated_convolution_forward_desc_init)(&op, dnnl_forward_training, algorithm, x, &w,
                                                                          NULL, y, c->strides, c->dilations,
                                                                          c->pad_begin, c->pad_end),
                              "a convolution"));
  return braid_dnnl_describe(&op, NULL, NULL, out);
}

static braid_status describe_gradient(const convolution *c, bool by_filter, dnnl_alg_kind_t algorithm,
                                      const dnnl_memory_desc_t *x, const dnnl_memory_desc_t *y,
                                      dnnl_primitive_desc_t *out) {
  dnnl_memory_desc_t w;
  weight_desc(c, true, &w);
  dnnl_convolution_desc_t op;
  dnnl_status_t made =
      by_filter ? DNNL(dilated_convolution_backward_weights_desc_init)(&op, algorithm, x, &w, NULL, y, c->strides,
                                                                       c->dilations, c->pad_begin, c->pad_end)
                : DNNL(dilated_convolution_backward_data_desc_init)(&op, algorithm, x, &w, y, c->strides, c->dilations,
                                                                    c->pad_begin, c->pad_end);
  BRAID_TRY(braid_dnnl_status(made, "a convolution's gradient"));
  dnnl_primitive_desc_t hint;
  BRAID_TRY(describe_hint(c, x, y, algorithm, &hint));
  braid_status status = braid_dnnl_describe(&op, NULL, hint, out);
  DNNL(primitive_desc_destroy)(hint);
  return status;
}

static braid_status describe_best_gradient(const convolution *c, bool by_filter, const dnnl_memory_desc_t *x,
                                           const dnnl_memory_desc_t *y, dnnl_primitive_desc_t *out) {
  braid_status status = BRAID_UNSUPPORTED;
  if (suits_winograd(c)) status = describe_gradient(c, by_filter, dnnl_convolution_winograd, x, y, out);
  if (status == BRAID_UNSUPPORTED) status = describe_gradient(c, by_filter, dnnl_convolution_direct, x, y, out);
  return status;
}

/* As best_layout. */
static bool best_gradient_layout(const braid_node_desc *node, const convolution *c, braid_layout *out) {
  static const braid_layout kLayouts[] = {BRAID_LAYOUT_BLOCKED16, BRAID_LAYOUT_BHWC};
  operands o = operands_of(node, pass_of(node));
  bool found = false;
  for (size_t i = 0; i < 2 && !found; i++) {
    braid_desc x = o.x->desc, y = o.y->desc;
    dnnl_memory_desc_t x_desc, y_desc;
    dnnl_primitive_desc_t pd;
    y.layout = kLayouts[i];
    x.layout = image_layout(node, kLayouts[i]);
    if (!braid_dnnl_desc(&x, &x_desc) || !braid_dnnl_desc(&y, &y_desc)) continue;
    if (describe_best_gradient(c, pass_of(node) == GRAD_FILTER, &x_desc, &y_desc, &pd) != BRAID_OK) continue;
    found = !braid_dnnl_is_reference(pd);
    *out = kLayouts[i];
    DNNL(primitive_desc_destroy)(pd);
  }
  return found;
}

static bool gradient_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  convolution c;
  if (!read_convolution(node, pass_of(node), &c)) {
    snprintf(why, why_bytes, "1 to 3 spatial dimensions and no empty tensor only");
    return false;
  }
  const braid_operand *used[] = {&node->inputs[0], &node->inputs[1], &node->outputs[0]};
  for (size_t i = 0; i < 3; i++)
    if (used[i]->desc.dtype != BRAID_F32) {
      snprintf(why, why_bytes, "%s operand, float32 only", braid_dtype_name(used[i]->desc.dtype));
      return false;
    }
  braid_layout layout;
  if (best_gradient_layout(node, &c, &layout)) return true;
  snprintf(why, why_bytes, "oneDNN has no fast gradient of this shape");
  return false;
}

static void gradient_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  convolution c;
  braid_layout layout;
  plain(inputs, node->input_count);
  plain(outputs, node->output_count);
  if (!read_convolution(node, pass_of(node), &c) || !best_gradient_layout(node, &c, &layout)) return;
  bool by_filter = pass_of(node) == GRAD_FILTER;
  braid_layout of_x = image_layout(node, layout);
  inputs[0] = by_filter ? of_x : layout;
  if (by_filter)
    inputs[1] = layout;
  else
    outputs[0] = of_x;
}

/* dw comes out in the primitive's layout and is converted to plain at the end. */
static braid_status build_filter_gradient(braid_dnnl *program, const convolution *c, dnnl_primitive_desc_t pd,
                                          const dnnl_memory_desc_t *x_desc, const dnnl_memory_desc_t *y_desc) {
  const dnnl_memory_desc_t w_desc = *DNNL(primitive_desc_query_md)(pd, dnnl_query_diff_weights_md, 0);
  dnnl_memory_desc_t plain_desc;
  weight_desc(c, false, &plain_desc);
  bool same = DNNL(memory_desc_equal)(&plain_desc, &w_desc);
  int x, dy, dw, result = -1;
  braid_status status = braid_dnnl_memory(program, x_desc, BRAID_DNNL_INPUT, 0, &x);
  if (status == BRAID_OK) status = braid_dnnl_memory(program, y_desc, BRAID_DNNL_INPUT, 1, &dy);
  if (status == BRAID_OK)
    status = braid_dnnl_memory(program, &w_desc, same ? BRAID_DNNL_OUTPUT : BRAID_DNNL_WORKSPACE, 0, &dw);
  if (status == BRAID_OK && !same) status = braid_dnnl_memory(program, &plain_desc, BRAID_DNNL_OUTPUT, 0, &result);
  if (status != BRAID_OK) {
    DNNL(primitive_desc_destroy)(pd);
    return status;
  }
  BRAID_TRY(braid_dnnl_step(
      program, pd, (braid_dnnl_arg[]){{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_WEIGHTS, dw}}, 3));
  return same ? BRAID_OK : braid_dnnl_reorder(program, dw, result);
}

static braid_status build_input_gradient(braid_dnnl *program, const braid_node_desc *node, const convolution *c,
                                         dnnl_primitive_desc_t pd, const dnnl_memory_desc_t *x_desc,
                                         const dnnl_memory_desc_t *y_desc, braid_prepared_info *info) {
  int dx, dy, w;
  braid_status status =
      bind_weights(program, node, 1, c, DNNL(primitive_desc_query_md)(pd, dnnl_query_weights_md, 0), info, &w);
  if (status == BRAID_OK) status = braid_dnnl_memory(program, y_desc, BRAID_DNNL_INPUT, 0, &dy);
  if (status == BRAID_OK) status = braid_dnnl_memory(program, x_desc, BRAID_DNNL_OUTPUT, 0, &dx);
  if (status != BRAID_OK) {
    DNNL(primitive_desc_destroy)(pd);
    return status;
  }
  return braid_dnnl_step(
      program, pd, (braid_dnnl_arg[]){{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DIFF_SRC, dx}}, 3);
}

static braid_status gradient_create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                    braid_prepared_info *info) {
  *state = NULL;
  bool by_filter = pass_of(node) == GRAD_FILTER;
  convolution c;
  dnnl_memory_desc_t x, y;
  if (!read_convolution(node, pass_of(node), &c))
    return braid_fail(BRAID_INTERNAL, "a convolution that was matched cannot be read");
  operands o = operands_of(node, pass_of(node));
  if (!braid_dnnl_desc(&o.x->desc, &x) || !braid_dnnl_desc(&o.y->desc, &y))
    return braid_fail(BRAID_UNSUPPORTED, "a layout oneDNN does not have");
  dnnl_primitive_desc_t pd;
  braid_dnnl *program = NULL;
  BRAID_TRY(describe_best_gradient(&c, by_filter, &x, &y, &pd));
  braid_status status = braid_dnnl_create(allocator, &program);
  if (status != BRAID_OK)
    DNNL(primitive_desc_destroy)(pd);
  else if (by_filter)
    status = build_filter_gradient(program, &c, pd, &x, &y);
  else
    status = build_input_gradient(program, node, &c, pd, &x, &y, info);
  return finish(allocator, program, status, state, info);
}

/* --- table ---------------------------------------------------------------------------------------------------------
 */
static const braid_cpu_kernel kForward = {forward_create, braid_dnnl_run, braid_dnnl_destroy};
static const braid_cpu_kernel kGradient = {gradient_create, braid_dnnl_run, braid_dnnl_destroy};

static const braid_kernel kKernels[] = {
    {.op = "Conv",
     .name = "dnnl_conv",
     .match = forward_match,
     .layouts = forward_layouts,
     .implementation = &kForward},
    {.op = "FusedConv",
     .name = "dnnl_conv",
     .match = forward_match,
     .layouts = forward_layouts,
     .in_place = 1u << 3, /* the residual */
     .implementation = &kForward},
    {.op = "ConvGradInput",
     .name = "dnnl_conv_grad_input",
     .match = gradient_match,
     .layouts = gradient_layouts,
     .implementation = &kGradient},
    {.op = "ConvGradFilter",
     .name = "dnnl_conv_grad_filter",
     .match = gradient_match,
     .layouts = gradient_layouts,
     .implementation = &kGradient},
};

const braid_cpu_table braid_cpu_dnnl_conv = {kKernels, sizeof kKernels / sizeof *kKernels, &braid_dnnl_library};
