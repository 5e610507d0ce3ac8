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

#include "backend/cpu/onednn/program.h"
#include "base/try.h"
#include "graph/geometry.h"

enum { kMaxSpatial = 3, kPlainChannels = 4, kWinogradPixels = 100, kWinogradChannels = 64 };
enum { kWinogradTiles = 4096, kTile = 4 }; /* Winograd's transformed images are as large as those and as many */
enum { kMostPieces = 16 };
/* Of a filter gradient's piece: multiply-accumulates, and pixels of the output, since each ends with a filter's work.
 */
static const double kLeastWork = 1 << 22;
enum { kLeastPixels = 512, kLeastWinogradPixels = 4096 };
static const size_t kMostSumBytes = (size_t)64 << 20; /* of all pieces, if the images are smaller than that */

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

/* Weights as oneDNN sees them, plain: groups are a dimension of their own. */
static braid_md plain_md(const convolution *c) {
  int64_t dims[3 + kMaxSpatial];
  int rank = 0;
  if (c->groups > 1) {
    dims[rank++] = c->groups;
    dims[rank++] = c->w.dims[0] / c->groups;
  } else {
    dims[rank++] = c->w.dims[0];
  }
  for (int i = 1; i < c->w.rank; i++) dims[rank++] = c->w.dims[i];
  return braid_md_plain(rank, dims);
}

/* As they lie. False: in a layout that oneDNN does not have for them. */
static bool weight_md(const convolution *c, braid_md *out) {
  *out = plain_md(c);
  if (c->w.layout == BRAID_LAYOUT_PLAIN) return true;
  return c->groups == 1 && braid_md_of(&c->w, out);
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

/* --- descriptions --------------------------------------------------------------------------------------------------
 */
static bool has(const braid_operand *list, size_t count, size_t index) {
  return index < count && list[index].present;
}

static bool has_residual(const braid_node_desc *node) {
  return pass_of(node) == FORWARD && has(node->inputs, node->input_count, 3);
}

/* What oneDNN is asked for: a pass, over images that lie like these. */
typedef struct problem {
  const convolution *c;
  pass which;
  braid_desc x, y;
  bool training, bias, residual;
  const braid_node_desc *activated; /* its activation is part of the primitive; NULL: none is */
} problem;

/* How a pass is run: in `parts` of the batch, side by side with one thread each, or one after another with all. */
typedef struct division {
  braid_description *one;   /* of one part */
  braid_description *fused; /* the same with the activation in it; NULL: the activation follows */
  int64_t parts;
  bool side_by_side;
} division;

/* A description of `batch` images of an operand. */
static bool images_md(const braid_desc *all, int64_t batch, braid_md *out) {
  braid_desc some = *all;
  some.dims[0] = batch;
  return braid_md_of(&some, out);
}

static braid_status request_of(const problem *p, dnnl_alg_kind_t algorithm, int64_t batch, braid_dnnl_request *out) {
  static const braid_dnnl_kind kKinds[] = {[FORWARD] = BRAID_DNNL_CONV,
                                           [GRAD_INPUT] = BRAID_DNNL_CONV_GRAD_INPUT,
                                           [GRAD_FILTER] = BRAID_DNNL_CONV_GRAD_FILTER};
  const convolution *c = p->c;
  braid_dnnl_request_of(kKinds[p->which], out);
  if (!images_md(&p->x, batch, &out->x) || !images_md(&p->y, batch, &out->y))
    return braid_fail(BRAID_UNSUPPORTED, "a layout oneDNN does not have");
  braid_md w = plain_md(c);
  out->w = braid_md_any(&w);
  if (p->bias) out->b = braid_md_plain(1, &c->w.dims[0]);
  out->algorithm = algorithm;
  out->training = p->which == FORWARD && p->training;
  out->sum = p->residual;
  memcpy(out->strides, c->strides, sizeof out->strides);
  memcpy(out->dilations, c->dilations, sizeof out->dilations);
  memcpy(out->begin, c->pad_begin, sizeof out->begin);
  memcpy(out->end, c->pad_end, sizeof out->end);
  if (p->activated) braid_dnnl_fuse(p->activated, out);
  return BRAID_OK;
}

static braid_status describe_single(const problem *p, dnnl_alg_kind_t algorithm, int64_t batch,
                                    braid_description **out) {
  braid_dnnl_request request;
  BRAID_TRY(request_of(p, algorithm, batch, &request));
  return braid_describe_single(&request, out);
}

static braid_status describe_whole(const problem *p, dnnl_alg_kind_t algorithm, int64_t batch, braid_description **out,
                                   bool *pieces) {
  braid_dnnl_request request;
  BRAID_TRY(request_of(p, algorithm, batch, &request));
  return braid_describe_whole(&request, out, pieces);
}

/* So many images at once that their tiles are few enough; parts are equal, since packed weights may depend on it. */
static int64_t winograd_parts(const problem *p) {
  int64_t tiles = 1;
  const braid_desc *images = p->which == GRAD_INPUT ? &p->x : &p->y;
  for (int i = 2; i < images->rank; i++) tiles *= (images->dims[i] + kTile - 1) / kTile;
  int64_t at_once = kWinogradTiles / tiles;
  if (at_once < 1) at_once = 1;
  return p->c->batch / braid_dnnl_pieces_of(p->c->batch, at_once);
}

static braid_status divide_winograd(const problem *p, division *out) {
  bool pieces = false;
  *out = (division){.parts = winograd_parts(p)};
  BRAID_TRY(describe_whole(p, dnnl_convolution_winograd, p->c->batch / out->parts, &out->one, &pieces));
  if (!pieces) return BRAID_OK;
  braid_description_release(out->one);
  return braid_fail(BRAID_UNSUPPORTED, "no Winograd's algorithm whose results do not depend on the number of threads");
}

/* A forward pass or an input gradient: no sum goes over the batch. */
static braid_status divide(const problem *p, division *out) {
  braid_status status = suits_winograd(p->c) ? divide_winograd(p, out) : BRAID_UNSUPPORTED;
  if (status != BRAID_UNSUPPORTED) return status;
  bool pieces = false;
  *out = (division){.parts = 1};
  BRAID_TRY(describe_whole(p, dnnl_convolution_direct, p->c->batch, &out->one, &pieces));
  if (!pieces) return BRAID_OK;
  braid_description_release(out->one);
  *out = (division){.parts = braid_dnnl_pieces_of(p->c->batch, kMostPieces), .side_by_side = true};
  return describe_single(p, dnnl_convolution_direct, p->c->batch / out->parts, &out->one);
}

/* A filter gradient's pieces, of any number of images. */
static braid_status describe_piece(const problem *p, int64_t batch, braid_description **out) {
  braid_status status = BRAID_UNSUPPORTED;
  if (suits_winograd(p->c)) status = describe_single(p, dnnl_convolution_winograd, batch, out);
  if (status == BRAID_UNSUPPORTED) status = describe_single(p, dnnl_convolution_direct, batch, out);
  return status;
}

/* Into how many pieces the sum over the batch is cut: by shapes alone. Each needs memory of its own for its sum, not
 * more altogether than the images have or kMostSumBytes. */
static int64_t pieces_of_sum(const problem *p) {
  const convolution *c = p->c;
  size_t most = braid_desc_bytes(&p->x) + braid_desc_bytes(&p->y), bytes = braid_desc_bytes(&c->w);
  double work = (double)braid_desc_count(&c->w) * (double)c->pixels * (double)c->batch;
  int64_t pieces = 1, least_pixels = suits_winograd(c) ? kLeastWinogradPixels : kLeastPixels;
  if (most < kMostSumBytes) most = kMostSumBytes;
  while (pieces < kMostPieces && pieces * 2 <= c->batch && work / (double)(pieces * 2) >= kLeastWork &&
         c->batch * c->pixels / (pieces * 2) >= least_pixels && (size_t)(pieces * 2) * bytes <= most)
    pieces *= 2;
  return pieces;
}

/* How many pieces, and the description of one, which says how the sum of each lies in memory. One piece where that
 * would depend on a piece's size. */
static braid_status plan_sum(const problem *p, int64_t *pieces, braid_description **out) {
  braid_description *larger;
  int64_t batch = p->c->batch;
  *pieces = pieces_of_sum(p);
  BRAID_TRY(describe_piece(p, batch / *pieces, out));
  if (batch % *pieces == 0) return BRAID_OK;
  braid_status status = describe_piece(p, batch / *pieces + 1, &larger);
  if (status == BRAID_OK) {
    braid_md a = braid_description_md(*out, dnnl_query_diff_weights_md);
    braid_md b = braid_description_md(larger, dnnl_query_diff_weights_md);
    bool equal = braid_md_equal(&a, &b);
    braid_description_release(larger);
    if (equal) return BRAID_OK;
  }
  braid_description_release(*out);
  BRAID_TRY(status);
  *pieces = 1;
  return describe_piece(p, batch, out);
}

static bool is_possible(const problem *p) {
  division d = {.one = NULL};
  int64_t pieces;
  braid_status status = p->which == GRAD_FILTER ? plan_sum(p, &pieces, &d.one) : divide(p, &d);
  if (status == BRAID_OK) braid_description_release(d.one);
  return status == BRAID_OK;
}

static problem problem_of(const braid_node_desc *node, const convolution *c) {
  operands o = operands_of(node, pass_of(node));
  return (problem){.c = c,
                   .which = pass_of(node),
                   .x = o.x->desc,
                   .y = o.y->desc,
                   .training = node->training,
                   .bias = pass_of(node) == FORWARD && has(node->inputs, node->input_count, 2),
                   .residual = has_residual(node)};
}

/* The layout in which oneDNN has more than its slow reference; false: none. Blocks of channels are best, but some
 * shapes (a pointwise convolution with pads) have a fast kernel only with channels last. */
static bool best_layout(const braid_node_desc *node, const convolution *c, braid_layout *out) {
  static const braid_layout kLayouts[] = {BRAID_LAYOUT_BLOCKED16, BRAID_LAYOUT_BHWC};
  problem p = problem_of(node, c);
  bool found = false;
  for (size_t i = 0; i < 2 && !found; i++) {
    p.y.layout = kLayouts[i];
    p.x.layout = image_layout(node, kLayouts[i]);
    found = is_possible(&p);
    *out = kLayouts[i];
  }
  return found;
}

/* --- layouts of weights --------------------------------------------------------------------------------------------
 */
/* Layouts in which weights may stay: oneDNN converts them to every other; not so those with channels last. */
static const braid_layout kKept[] = {BRAID_DNNL_16I16O, BRAID_DNNL_I16O,   BRAID_DNNL_8I8O,
                                     BRAID_DNNL_I8O,    BRAID_DNNL_16O16I, BRAID_DNNL_8O8I};
enum { kKeptCount = sizeof kKept / sizeof *kKept };

static bool takes_weights(const convolution *c, braid_layout layout) {
  convolution with = *c;
  braid_md md;
  bool kept = false;
  for (size_t i = 0; i < kKeptCount; i++) kept |= layout == kKept[i];
  return kept && braid_desc_set_layout(&with.w, layout) == BRAID_OK && weight_md(&with, &md);
}

/* The layout of what the description wants; plain if that has no name. */
static braid_layout name_layout(const convolution *c, const braid_md *wanted) {
  convolution with = *c;
  for (size_t i = 0; c->groups == 1 && i < kKeptCount; i++) {
    braid_md md;
    if (braid_desc_set_layout(&with.w, kKept[i]) == BRAID_OK && weight_md(&with, &md) && braid_md_equal(&md, wanted))
      return kKept[i];
  }
  return BRAID_LAYOUT_PLAIN;
}

/* What to say of weights that come in layout `given`, where y is in `layout`: as they come, if oneDNN can read them. */
static braid_layout choose_weights(const braid_node_desc *node, const convolution *c, braid_layout layout,
                                   braid_layout given) {
  if (given != BRAID_LAYOUT_ANY) return takes_weights(c, given) ? given : BRAID_LAYOUT_PLAIN;
  problem p = problem_of(node, c);
  division d;
  p.y.layout = layout;
  p.x.layout = image_layout(node, layout);
  if (divide(&p, &d) != BRAID_OK) return BRAID_LAYOUT_PLAIN;
  braid_md wanted = braid_description_md(d.one, dnnl_query_weights_md);
  given = name_layout(c, &wanted);
  braid_description_release(d.one);
  return given;
}

/* --- forward -------------------------------------------------------------------------------------------------------
 */
static bool forward_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  convolution c;
  if (!braid_dnnl_all_f32(node, why, why_bytes)) return false;
  if (!read_convolution(node, FORWARD, &c)) {
    snprintf(why, why_bytes, "1 to 3 spatial dimensions and no empty tensor only");
    return false;
  }
  braid_activation activation;
  if (!braid_activation_read(node, &activation)) {
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
  braid_layout layout, weights = inputs[1];
  plain(inputs, node->input_count);
  plain(outputs, node->output_count);
  if (!read_convolution(node, FORWARD, &c) || !best_layout(node, &c, &layout)) return;
  if (!node->inputs[1].constant) inputs[1] = choose_weights(node, &c, layout, weights);
  outputs[0] = layout;
  inputs[0] = image_layout(node, layout);
  if (has_residual(node)) inputs[3] = layout;
}

/* The node's weights as memory `*out` in the layout that the description wants: packed if constant, else converted by a
 * step of each run. */
static braid_status bind_weights(braid_dnnl *program, const braid_node_desc *node, size_t input, const convolution *c,
                                 const braid_description *description, int *out) {
  braid_md given = plain_md(c), wanted = braid_description_md(description, dnnl_query_weights_md);
  if (node->inputs[input].constant) return braid_dnnl_packed(program, (uint32_t)input, &given, 0, description, out);
  int kept;
  if (!weight_md(c, &given)) return braid_fail(BRAID_UNSUPPORTED, "a layout oneDNN does not have");
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
  if (!braid_md_of(all, &whole) || !images_md(all, batch, &out->desc))
    return braid_fail(BRAID_UNSUPPORTED, "a layout oneDNN does not have");
  out->step_bytes = braid_md_bytes(&out->desc);
  return braid_dnnl_memory(program, &whole, place, index, &out->memory);
}

static braid_status bind_part(braid_dnnl *program, const parts *images, int64_t part, int arg, braid_dnnl_arg *out) {
  out->arg = arg;
  return braid_dnnl_part(program, images->memory, &images->desc, (size_t)part * images->step_bytes, &out->memory);
}

/* The same step for each part of the batch: with images `from` and `to`, and `args` that all share. */
static braid_status add_parts(braid_dnnl *program, const braid_node_desc *node, division *d, const problem *p,
                              const parts *from, const parts *to, const braid_dnnl_arg *shared, size_t count) {
  bool forward = p->which == FORWARD;
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

static braid_status build_forward(braid_dnnl *program, const braid_node_desc *node, const problem *p, division *d) {
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

/* The division of a forward pass, with the activation in the primitives where that changes nothing else. */
static braid_status divide_forward(const braid_node_desc *node, const problem *p, division *out) {
  problem with = *p;
  division fused = {.one = NULL};
  BRAID_TRY(divide(p, out));
  with.activated = node;
  if (!braid_dnnl_can_fuse(node, p->residual) || divide(&with, &fused) != BRAID_OK) return BRAID_OK;
  if (fused.parts == out->parts && fused.side_by_side == out->side_by_side &&
      braid_description_interchangeable(fused.one, out->one))
    out->fused = fused.one;
  else
    braid_description_release(fused.one);
  return BRAID_OK;
}

static braid_status forward_create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                   braid_prepared_info *info) {
  *state = NULL;
  convolution c;
  if (!read_convolution(node, FORWARD, &c))
    return braid_fail(BRAID_INTERNAL, "a convolution that was matched cannot be read");
  problem p = problem_of(node, &c);
  division d = {.one = NULL};
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
  if (best_layout(node, &c, &layout)) return true;
  snprintf(why, why_bytes, "oneDNN has no fast gradient of this shape");
  return false;
}

static void gradient_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  convolution c;
  bool by_filter = pass_of(node) == GRAD_FILTER;
  braid_layout layout, weights = by_filter ? outputs[0] : inputs[1];
  plain(inputs, node->input_count);
  plain(outputs, node->output_count);
  if (!read_convolution(node, pass_of(node), &c) || !best_layout(node, &c, &layout)) return;
  if (by_filter)
    outputs[0] = takes_weights(&c, weights) ? weights : BRAID_LAYOUT_PLAIN;
  else if (!node->inputs[1].constant)
    inputs[1] = choose_weights(node, &c, layout, weights);
  braid_layout of_x = image_layout(node, layout);
  inputs[0] = by_filter ? of_x : layout;
  if (by_filter)
    inputs[1] = layout;
  else
    outputs[0] = of_x;
}

/* One piece of the sum over the batch: of images `from` to `end`, into number `index` of the sums. */
static braid_status add_piece(braid_dnnl *program, const problem *p, int64_t index, int64_t from, int64_t end,
                              const int whole[3], const braid_md *sum) {
  const int kArgs[] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS};
  braid_md x, y, one_x, one_y;
  braid_dnnl_arg args[3];
  braid_description *description;
  if (!images_md(&p->x, end - from, &x) || !images_md(&p->x, 1, &one_x) || !images_md(&p->y, end - from, &y) ||
      !images_md(&p->y, 1, &one_y))
    return braid_fail(BRAID_UNSUPPORTED, "a layout oneDNN does not have");
  const braid_md *descs[] = {&x, &y, sum};
  const size_t offsets[] = {(size_t)from * braid_md_bytes(&one_x), (size_t)from * braid_md_bytes(&one_y),
                            (size_t)index * braid_md_bytes(sum)};
  for (int i = 0; i < 3; i++) {
    args[i].arg = kArgs[i];
    BRAID_TRY(braid_dnnl_part(program, whole[i], descs[i], offsets[i], &args[i].memory));
  }
  BRAID_TRY(describe_piece(p, end - from, &description));
  braid_status status = braid_dnnl_step(program, description, args, 3);
  braid_description_release(description);
  return status;
}

/* dw comes out in the primitives' layout, and is converted at the end if another is wanted. */
static braid_status sum_pieces(braid_dnnl *program, const problem *p, int64_t pieces, const braid_md *sum) {
  braid_md x, y, wanted;
  int whole[3], first, result;
  int64_t batch = p->c->batch;
  size_t bytes = braid_md_bytes(sum);
  braid_md sums = braid_md_plain(1, (int64_t[]){pieces * (int64_t)(bytes / sizeof(float))});
  if (!braid_md_of(&p->x, &x) || !braid_md_of(&p->y, &y) || !weight_md(p->c, &wanted))
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

static braid_status build_filter_gradient(braid_dnnl *program, const problem *p) {
  braid_description *piece;
  int64_t pieces;
  BRAID_TRY(plan_sum(p, &pieces, &piece));
  braid_md sum = braid_description_md(piece, dnnl_query_diff_weights_md);
  braid_status status = sum_pieces(program, p, pieces, &sum);
  braid_description_release(piece);
  return status;
}

static braid_status build_input_gradient(braid_dnnl *program, const braid_node_desc *node, const problem *p) {
  parts x, y;
  division d;
  braid_dnnl_arg w = {.arg = DNNL_ARG_WEIGHTS};
  BRAID_TRY(divide(p, &d));
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
  convolution c;
  if (!read_convolution(node, pass_of(node), &c))
    return braid_fail(BRAID_INTERNAL, "a convolution that was matched cannot be read");
  problem p = problem_of(node, &c);
  braid_dnnl *program;
  BRAID_TRY(braid_dnnl_create(allocator, &program));
  braid_status status =
      p.which == GRAD_FILTER ? build_filter_gradient(program, &p) : build_input_gradient(program, node, &p);
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
