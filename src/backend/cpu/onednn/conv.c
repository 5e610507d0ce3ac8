/* Convolution by oneDNN: forward with bias, residual sum and activation, and both gradients.
 *
 * Layout: channels in blocks of 16 on both sides (an image of up to 4 channels is read as it is), for which oneDNN has
 * its fastest direct kernels and Winograd's algorithm. Winograd F(4x4, 3x3) is taken for 3x3 convolutions of stride 1:
 * about twice as fast, with a relative error near 1e-6 against 2e-7 of the direct kernels, both within float32's
 * working error of a sum that long. Constant weights are packed once; weights that training changes are kept as the
 * forward pass wants them, and a pass that wants them otherwise converts them in every run.
 *
 * Filter gradients are sums over the batch: of pieces of it, each of one thread (program.h says why). */
#include <stdio.h>
#include <string.h>

#include "backend/cpu/isa.h"
#include "backend/cpu/onednn/convolution.h"
#include "backend/cpu/onednn/program.h"
#include "base/try.h"
#include "tensor/layout.h"

/* --- forward -------------------------------------------------------------------------------------------------------
 */
static bool forward_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  braid_dnnl_conv c;
  if (!braid_dnnl_all_f32(node, why, why_bytes)) return false;
  if (!braid_dnnl_conv_read(node, BRAID_DNNL_FORWARD, &c)) {
    snprintf(why, why_bytes, "1 to 3 spatial dimensions and no empty tensor only");
    return false;
  }
  braid_activation activation;
  if (!braid_activation_read(node, &activation)) {
    snprintf(why, why_bytes, "activation %s", braid_attr_string(node->attrs, "activation", ""));
    return false;
  }
  braid_layout layout;
  if (braid_dnnl_conv_best_layout(node, &c, &layout)) return true;
  snprintf(why, why_bytes, "oneDNN has no fast convolution of this shape");
  return false;
}

static void plain(braid_layout *layouts, size_t count) {
  for (size_t i = 0; i < count; i++) layouts[i] = BRAID_LAYOUT_PLAIN;
}

static void forward_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  braid_dnnl_conv c;
  braid_layout layout, weights = inputs[1];
  plain(inputs, node->input_count);
  plain(outputs, node->output_count);
  if (!braid_dnnl_conv_read(node, BRAID_DNNL_FORWARD, &c) || !braid_dnnl_conv_best_layout(node, &c, &layout)) return;
  if (!node->inputs[1].constant) inputs[1] = braid_dnnl_conv_choose_weights(node, &c, layout, weights);
  outputs[0] = layout;
  inputs[0] = braid_dnnl_conv_image_layout(node, layout);
  if (braid_dnnl_conv_problem_of(node, &c).residual) inputs[3] = layout;
}

/* The node's weights as memory `*out` in the layout that the description wants: packed if constant, else converted by a
 * step of each run. */
static braid_status bind_weights(braid_dnnl *program, const braid_node_desc *node, size_t input,
                                 const braid_dnnl_conv *c, const braid_description *description, int *out) {
  braid_md given = braid_dnnl_conv_plain_weights(c), wanted = braid_description_md(description, dnnl_query_weights_md);
  if (node->inputs[input].constant) return braid_dnnl_packed(program, (uint32_t)input, &given, 0, description, out);
  int kept;
  if (!braid_dnnl_conv_weights(c, &given)) return braid_fail(BRAID_UNSUPPORTED, "a layout oneDNN does not have");
  BRAID_TRY(braid_dnnl_memory(program, &given, BRAID_DNNL_INPUT, input, &kept));
  *out = kept;
  if (braid_md_equal(&given, &wanted)) return BRAID_OK;
  BRAID_TRY(braid_dnnl_memory(program, &wanted, BRAID_DNNL_WORKSPACE, 0, out));
  return braid_dnnl_reorder(program, kept, *out);
}

typedef struct parts {
  int memory; /* whole */
  braid_md desc;
  size_t step_bytes; /* from part to part */
} parts;

/* An operand of images, to be gone through in parts of `batch`. */
static braid_status bind_images(braid_dnnl *program, const braid_desc *all, int64_t batch, braid_dnnl_place place,
                                size_t index, parts *out) {
  braid_md whole;
  if (!braid_md_of(all, &whole) || !braid_dnnl_images(all, batch, &out->desc))
    return braid_fail(BRAID_UNSUPPORTED, "a layout oneDNN does not have");
  out->step_bytes = braid_md_bytes(&out->desc);
  return braid_dnnl_memory(program, &whole, place, index, &out->memory);
}

static braid_status bind_part(braid_dnnl *program, const parts *images, int64_t part, int arg, braid_dnnl_arg *out) {
  out->arg = arg;
  return braid_dnnl_part(program, images->memory, &images->desc, (size_t)part * images->step_bytes, &out->memory);
}

/* The same step for each part of the batch: with images `from` and `to`, and `args` that all share. */
static braid_status add_parts(braid_dnnl *program, const braid_node_desc *node, braid_dnnl_division *d,
                              const braid_dnnl_problem *p, const parts *from, const parts *to,
                              const braid_dnnl_arg *shared, size_t count) {
  bool forward = p->which == BRAID_DNNL_FORWARD;
  braid_status status = BRAID_OK;
  if (d->side_by_side) braid_dnnl_begin_group(program);
  for (int64_t i = 0; i < d->parts && status == BRAID_OK; i++) {
    braid_dnnl_arg args[4];
    memcpy(args, shared, count * sizeof *args);
    status = bind_part(program, from, i, forward ? DNNL_ARG_SRC : DNNL_ARG_DIFF_DST, &args[count]);
    if (status == BRAID_OK)
      status = bind_part(program, to, i, forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_SRC, &args[count + 1]);
    if (status == BRAID_OK) status = braid_dnnl_step(program, d->fused ? d->fused : d->one, args, count + 2);
    if (status == BRAID_OK && forward)
      status = braid_dnnl_activate(program, node, args[count + 1].memory, d->fused ? d->one : NULL);
  }
  braid_dnnl_end_group(program);
  return status;
}

static braid_status build_forward(braid_dnnl *program, const braid_node_desc *node, const braid_dnnl_problem *p,
                                  braid_dnnl_division *d) {
  parts x, y;
  braid_dnnl_arg shared[2] = {{.arg = DNNL_ARG_WEIGHTS}, {.arg = DNNL_ARG_BIAS}};
  braid_md bias = braid_md_plain(1, &p->c->w.dims[0]), result;
  int64_t batch = p->c->batch / d->parts;
  BRAID_TRY(bind_weights(program, node, 1, p->c, d->one, &shared[0].memory));
  BRAID_TRY(bind_images(program, &p->x, batch, BRAID_DNNL_INPUT, 0, &x));
  BRAID_TRY(bind_images(program, &p->y, batch, BRAID_DNNL_OUTPUT, 0, &y));
  if (p->bias) BRAID_TRY(braid_dnnl_memory(program, &bias, BRAID_DNNL_INPUT, 2, &shared[1].memory));
  if (p->residual) {
    if (!braid_md_of(&p->y, &result)) return braid_fail(BRAID_UNSUPPORTED, "a layout oneDNN does not have");
    BRAID_TRY(braid_dnnl_copy(program, 3, 0, braid_md_bytes(&result)));
  }
  return add_parts(program, node, d, p, &x, &y, shared, p->bias ? 2 : 1);
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

/* With channels last oneDNN takes the last of them by a part of a register, and its activation whatever is in the rest,
 * which depends on how threads divide the work: a note of an invalid operation there would choose the activation. */
static bool has_rest(const braid_dnnl_problem *p) {
  int64_t lanes = braid_isa_current() < BRAID_ISA_V4 ? 8 : 16;
  return !braid_layout_is_blocked(p->y.layout) && p->y.dims[1] % lanes != 0;
}

/* The division of a forward pass, with the activation in the primitives where that changes nothing else. */
static braid_status divide_forward(const braid_node_desc *node, const braid_dnnl_problem *p, braid_dnnl_division *out) {
  braid_dnnl_problem with = *p;
  braid_dnnl_division fused = {.one = NULL};
  BRAID_TRY(braid_dnnl_conv_divide(p, out));
  with.activated = node;
  if (has_rest(p) || !braid_dnnl_can_fuse(node, p->residual) || braid_dnnl_conv_divide(&with, &fused) != BRAID_OK)
    return BRAID_OK;
  if (fused.parts == out->parts && fused.side_by_side == out->side_by_side &&
      braid_description_interchangeable(fused.one, out->one) && !braid_description_multiplies(fused.one))
    out->fused = fused.one;
  else
    braid_description_release(fused.one);
  return BRAID_OK;
}

static braid_status forward_create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                   braid_prepared_info *info) {
  *state = NULL;
  braid_dnnl_conv c;
  if (!braid_dnnl_conv_read(node, BRAID_DNNL_FORWARD, &c))
    return braid_fail(BRAID_INTERNAL, "a convolution that was matched cannot be read");
  braid_dnnl_problem p = braid_dnnl_conv_problem_of(node, &c);
  braid_dnnl_division d = {.one = NULL};
  braid_dnnl *program = NULL;
  BRAID_TRY(divide_forward(node, &p, &d));
  braid_status status = braid_dnnl_create(allocator, &program);
  if (status == BRAID_OK) status = build_forward(program, node, &p, &d);
  braid_description_release(d.one);
  braid_description_release(d.fused);
  return finish(allocator, program, status, state, info);
}

/* --- gradients -----------------------------------------------------------------------------------------------------
 */
static bool gradient_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  braid_dnnl_conv c;
  if (!braid_dnnl_conv_read(node, braid_dnnl_pass_of(node), &c)) {
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
  if (braid_dnnl_conv_best_layout(node, &c, &layout)) return true;
  snprintf(why, why_bytes, "oneDNN has no fast gradient of this shape");
  return false;
}

static void gradient_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  braid_dnnl_conv c;
  bool by_filter = braid_dnnl_pass_of(node) == BRAID_DNNL_GRAD_FILTER;
  braid_layout layout, weights = by_filter ? outputs[0] : inputs[1];
  plain(inputs, node->input_count);
  plain(outputs, node->output_count);
  if (!braid_dnnl_conv_read(node, braid_dnnl_pass_of(node), &c) || !braid_dnnl_conv_best_layout(node, &c, &layout))
    return;
  if (by_filter)
    outputs[0] = braid_dnnl_conv_takes_weights(&c, weights) ? weights : BRAID_LAYOUT_PLAIN;
  else if (!node->inputs[1].constant)
    inputs[1] = braid_dnnl_conv_choose_weights(node, &c, layout, weights);
  braid_layout of_x = braid_dnnl_conv_image_layout(node, layout);
  inputs[0] = by_filter ? of_x : layout;
  if (by_filter)
    inputs[1] = layout;
  else
    outputs[0] = of_x;
}

/* One piece of the sum over the batch: of images `from` to `end`, into number `index` of the sums. */
static braid_status add_piece(braid_dnnl *program, const braid_dnnl_problem *p, int64_t index, int64_t from,
                              int64_t end, const int whole[3], const braid_md *sum) {
  const int kArgs[] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS};
  braid_md x, y, one_x, one_y;
  braid_dnnl_arg args[3];
  braid_description *description;
  if (!braid_dnnl_images(&p->x, end - from, &x) || !braid_dnnl_images(&p->x, 1, &one_x) ||
      !braid_dnnl_images(&p->y, end - from, &y) || !braid_dnnl_images(&p->y, 1, &one_y))
    return braid_fail(BRAID_UNSUPPORTED, "a layout oneDNN does not have");
  const braid_md *descs[] = {&x, &y, sum};
  const size_t offsets[] = {(size_t)from * braid_md_bytes(&one_x), (size_t)from * braid_md_bytes(&one_y),
                            (size_t)index * braid_md_bytes(sum)};
  for (int i = 0; i < 3; i++) {
    args[i].arg = kArgs[i];
    BRAID_TRY(braid_dnnl_part(program, whole[i], descs[i], offsets[i], &args[i].memory));
  }
  BRAID_TRY(braid_dnnl_conv_describe_piece(p, end - from, &description));
  braid_status status = braid_dnnl_step(program, description, args, 3);
  braid_description_release(description);
  return status;
}

/* dw comes out in the primitives' layout, and is converted at the end if another is wanted. */
static braid_status sum_pieces(braid_dnnl *program, const braid_dnnl_problem *p, int64_t pieces, const braid_md *sum) {
  braid_md x, y, wanted;
  int whole[3], first, result;
  int64_t batch = p->c->batch;
  size_t bytes = braid_md_bytes(sum);
  braid_md sums = braid_md_plain(1, (int64_t[]){pieces * (int64_t)(bytes / sizeof(float))});
  if (!braid_md_of(&p->x, &x) || !braid_md_of(&p->y, &y) || !braid_dnnl_conv_weights(p->c, &wanted))
    return braid_fail(BRAID_UNSUPPORTED, "a layout oneDNN does not have");
  bool alike = braid_md_equal(&wanted, sum), direct = pieces == 1 && alike;
  BRAID_TRY(braid_dnnl_memory(program, &x, BRAID_DNNL_INPUT, 0, &whole[0]));
  BRAID_TRY(braid_dnnl_memory(program, &y, BRAID_DNNL_INPUT, 1, &whole[1]));
  BRAID_TRY(braid_dnnl_memory(program, &sums, direct ? BRAID_DNNL_OUTPUT : BRAID_DNNL_WORKSPACE, 0, &whole[2]));
  braid_dnnl_begin_group(program);
  braid_status status = BRAID_OK;
  for (int64_t i = 0; i < pieces && status == BRAID_OK; i++)
    status = add_piece(program, p, i, i * batch / pieces, (i + 1) * batch / pieces, whole, sum);
  braid_dnnl_end_group(program);
  BRAID_TRY(status);
  if (direct) return BRAID_OK;
  BRAID_TRY(braid_dnnl_memory(program, &wanted, BRAID_DNNL_OUTPUT, 0, &result));
  if (alike) return braid_dnnl_sum(program, whole[2], bytes, (size_t)pieces, result);
  if (pieces > 1) BRAID_TRY(braid_dnnl_sum(program, whole[2], bytes, (size_t)pieces, whole[2]));
  BRAID_TRY(braid_dnnl_part(program, whole[2], sum, 0, &first));
  return braid_dnnl_reorder(program, first, result);
}

static braid_status build_filter_gradient(braid_dnnl *program, const braid_dnnl_problem *p) {
  braid_description *piece;
  int64_t pieces;
  BRAID_TRY(braid_dnnl_conv_divide_sum(p, &pieces, &piece));
  braid_md sum = braid_description_md(piece, dnnl_query_diff_weights_md);
  braid_status status = sum_pieces(program, p, pieces, &sum);
  braid_description_release(piece);
  return status;
}

static braid_status build_input_gradient(braid_dnnl *program, const braid_node_desc *node,
                                         const braid_dnnl_problem *p) {
  parts x, y;
  braid_dnnl_division d;
  braid_dnnl_arg w = {.arg = DNNL_ARG_WEIGHTS};
  BRAID_TRY(braid_dnnl_conv_divide(p, &d));
  int64_t batch = p->c->batch / d.parts;
  braid_status status = bind_weights(program, node, 1, p->c, d.one, &w.memory);
  if (status == BRAID_OK) status = bind_images(program, &p->y, batch, BRAID_DNNL_INPUT, 0, &y);
  if (status == BRAID_OK) status = bind_images(program, &p->x, batch, BRAID_DNNL_OUTPUT, 0, &x);
  if (status == BRAID_OK) status = add_parts(program, node, &d, p, &y, &x, &w, 1);
  braid_description_release(d.one);
  return status;
}

static braid_status gradient_create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                    braid_prepared_info *info) {
  *state = NULL;
  braid_dnnl_conv c;
  if (!braid_dnnl_conv_read(node, braid_dnnl_pass_of(node), &c))
    return braid_fail(BRAID_INTERNAL, "a convolution that was matched cannot be read");
  braid_dnnl_problem p = braid_dnnl_conv_problem_of(node, &c);
  braid_dnnl *program;
  BRAID_TRY(braid_dnnl_create(allocator, &program));
  braid_status status =
      p.which == BRAID_DNNL_GRAD_FILTER ? build_filter_gradient(program, &p) : build_input_gradient(program, node, &p);
  return finish(allocator, program, status, state, info);
}

/* --- table ---------------------------------------------------------------------------------------------------------
 */
static const braid_cpu_kernel kForward = {.create = forward_create, BRAID_DNNL_KERNEL};
static const braid_cpu_kernel kGradient = {.create = gradient_create, BRAID_DNNL_KERNEL};

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

const braid_cpu_table braid_cpu_onednn_conv = {kKernels, sizeof kKernels / sizeof *kKernels, &braid_dnnl_library};
