#include "backend/cpu/onednn/convolution.h"

#include <string.h>

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
/* Where the images and the weights of a node stand: Conv(x, w) -> y, ConvGradInput(dy, w) -> dx, ConvGradFilter(x, dy)
 * -> dw. */
typedef struct operands {
  const braid_operand *x, *w, *y;
} operands;

static operands operands_of(const braid_node_desc *node, braid_dnnl_pass which) {
  const braid_operand *in = node->inputs, *out = node->outputs;
  if (which == BRAID_DNNL_GRAD_INPUT) return (operands){&out[0], &in[1], &in[0]};
  if (which == BRAID_DNNL_GRAD_FILTER) return (operands){&in[0], &out[0], &in[1]};
  return (operands){&in[0], &in[1], &out[0]};
}

braid_dnnl_pass braid_dnnl_pass_of(const braid_node_desc *node) {
  if (strcmp(node->op, "ConvGradInput") == 0) return BRAID_DNNL_GRAD_INPUT;
  return strcmp(node->op, "ConvGradFilter") == 0 ? BRAID_DNNL_GRAD_FILTER : BRAID_DNNL_FORWARD;
}

static braid_status read_geometry(const braid_node_desc *node, braid_dnnl_pass which, braid_convolution *out) {
  operands o = operands_of(node, which);
  if (which == BRAID_DNNL_GRAD_INPUT) return braid_geometry_conv_grad_input(node->attrs, &o.y->desc, &o.w->desc, out);
  if (which == BRAID_DNNL_GRAD_FILTER) return braid_geometry_conv_grad_filter(node->attrs, &o.x->desc, &o.y->desc, out);
  return braid_geometry_conv(node->attrs, &o.x->desc, &o.w->desc, out);
}

bool braid_dnnl_conv_read(const braid_node_desc *node, braid_dnnl_pass which, braid_dnnl_conv *out) {
  operands o = operands_of(node, which);
  braid_convolution g;
  if (o.x->desc.rank < 3 || o.x->desc.rank > 2 + kMaxSpatial || o.w->desc.rank != o.x->desc.rank) return false;
  if (read_geometry(node, which, &g) != BRAID_OK) return false;
  *out = (braid_dnnl_conv){.w = o.w->desc,
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

static bool suits_winograd(const braid_dnnl_conv *c) {
  if (c->spatial != 2 || c->groups != 1) return false;
  for (int i = 0; i < 2; i++)
    if (c->w.dims[2 + i] != 3 || c->strides[i] != 1 || c->dilations[i] != 0) return false;
  return c->channels >= kWinogradChannels && c->filters >= kWinogradChannels && c->batch * c->pixels >= kWinogradPixels;
}

braid_md braid_dnnl_conv_plain_weights(const braid_dnnl_conv *c) {
  braid_dnnl_conv plain = *c;
  braid_md md;
  plain.w.layout = BRAID_LAYOUT_PLAIN;
  (void)braid_dnnl_conv_weights(&plain, &md); /* plain memory there is always */
  return md;
}

bool braid_dnnl_conv_weights(const braid_dnnl_conv *c, braid_md *out) {
  return c->groups > 1 ? braid_md_of_groups(&c->w, c->groups, out) : braid_md_of(&c->w, out);
}

/* --- layouts -------------------------------------------------------------------------------------------------------
 */
braid_layout braid_dnnl_conv_image_layout(const braid_node_desc *node, braid_layout layout) {
  bool few = operands_of(node, braid_dnnl_pass_of(node)).x->desc.dims[1] <= kPlainChannels;
  bool whole = braid_attr_int(node->attrs, "group", 1) == 1;
  return few && whole && layout == BRAID_LAYOUT_BLOCKED16 ? BRAID_LAYOUT_PLAIN : layout;
}

/* --- descriptions --------------------------------------------------------------------------------------------------
 */
static bool has(const braid_operand *list, size_t count, size_t index) {
  return index < count && list[index].present;
}

static bool has_residual(const braid_node_desc *node) {
  return braid_dnnl_pass_of(node) == BRAID_DNNL_FORWARD && has(node->inputs, node->input_count, 3);
}

bool braid_dnnl_images(const braid_desc *all, int64_t batch, braid_md *out) {
  braid_desc some = *all;
  some.dims[0] = batch;
  return braid_md_of(&some, out);
}

static braid_status request_of(const braid_dnnl_problem *p, dnnl_alg_kind_t algorithm, int64_t batch,
                               braid_dnnl_request *out) {
  static const braid_dnnl_kind kKinds[] = {[BRAID_DNNL_FORWARD] = BRAID_DNNL_CONV,
                                           [BRAID_DNNL_GRAD_INPUT] = BRAID_DNNL_CONV_GRAD_INPUT,
                                           [BRAID_DNNL_GRAD_FILTER] = BRAID_DNNL_CONV_GRAD_FILTER};
  const braid_dnnl_conv *c = p->c;
  braid_dnnl_request_of(kKinds[p->which], out);
  if (!braid_dnnl_images(&p->x, batch, &out->x) || !braid_dnnl_images(&p->y, batch, &out->y))
    return braid_fail(BRAID_UNSUPPORTED, "a layout oneDNN does not have");
  braid_md w = braid_dnnl_conv_plain_weights(c);
  out->w = braid_md_any(&w);
  if (p->bias) out->b = braid_md_plain(1, &c->w.dims[0]);
  out->algorithm = algorithm;
  out->training = p->which == BRAID_DNNL_FORWARD && p->training;
  out->sum = p->residual;
  memcpy(out->strides, c->strides, sizeof out->strides);
  memcpy(out->dilations, c->dilations, sizeof out->dilations);
  memcpy(out->begin, c->pad_begin, sizeof out->begin);
  memcpy(out->end, c->pad_end, sizeof out->end);
  if (p->activated) braid_dnnl_fuse(p->activated, out);
  return BRAID_OK;
}

static braid_status describe_single(const braid_dnnl_problem *p, dnnl_alg_kind_t algorithm, int64_t batch,
                                    braid_description **out) {
  braid_dnnl_request request;
  BRAID_TRY(request_of(p, algorithm, batch, &request));
  return braid_describe_single(&request, out);
}

static braid_status describe_whole(const braid_dnnl_problem *p, dnnl_alg_kind_t algorithm, int64_t batch,
                                   braid_description **out, bool *pieces) {
  braid_dnnl_request request;
  BRAID_TRY(request_of(p, algorithm, batch, &request));
  return braid_describe_whole(&request, out, pieces);
}

/* So many images at once that their tiles are few enough; parts are equal, since packed weights may depend on it. */
static int64_t winograd_parts(const braid_dnnl_problem *p) {
  int64_t tiles = 1;
  const braid_desc *images = p->which == BRAID_DNNL_GRAD_INPUT ? &p->x : &p->y;
  for (int i = 2; i < images->rank; i++) tiles *= (images->dims[i] + kTile - 1) / kTile;
  int64_t at_once = kWinogradTiles / tiles;
  if (at_once < 1) at_once = 1;
  return p->c->batch / braid_dnnl_pieces_of(p->c->batch, at_once);
}

static braid_status divide_winograd(const braid_dnnl_problem *p, braid_dnnl_division *out) {
  bool pieces = false;
  *out = (braid_dnnl_division){.parts = winograd_parts(p)};
  BRAID_TRY(describe_whole(p, dnnl_convolution_winograd, p->c->batch / out->parts, &out->one, &pieces));
  if (!pieces) return BRAID_OK;
  braid_description_release(out->one);
  return braid_fail(BRAID_UNSUPPORTED, "no Winograd's algorithm whose results do not depend on the number of threads");
}

braid_status braid_dnnl_conv_divide(const braid_dnnl_problem *p, braid_dnnl_division *out) {
  braid_status status = suits_winograd(p->c) ? divide_winograd(p, out) : BRAID_UNSUPPORTED;
  if (status != BRAID_UNSUPPORTED) return status;
  bool pieces = false;
  *out = (braid_dnnl_division){.parts = 1};
  BRAID_TRY(describe_whole(p, dnnl_convolution_direct, p->c->batch, &out->one, &pieces));
  if (!pieces) return BRAID_OK;
  braid_description_release(out->one);
  *out = (braid_dnnl_division){.parts = braid_dnnl_pieces_of(p->c->batch, kMostPieces), .side_by_side = true};
  return describe_single(p, dnnl_convolution_direct, p->c->batch / out->parts, &out->one);
}

braid_status braid_dnnl_conv_describe_piece(const braid_dnnl_problem *p, int64_t batch, braid_description **out) {
  braid_status status = BRAID_UNSUPPORTED;
  if (suits_winograd(p->c)) status = describe_single(p, dnnl_convolution_winograd, batch, out);
  if (status == BRAID_UNSUPPORTED) status = describe_single(p, dnnl_convolution_direct, batch, out);
  return status;
}

/* Into how many pieces the sum over the batch is cut: by shapes alone. Each needs memory of its own for its sum, not
 * more altogether than the images have or kMostSumBytes. */
static int64_t pieces_of_sum(const braid_dnnl_problem *p) {
  const braid_dnnl_conv *c = p->c;
  size_t most = braid_desc_bytes(&p->x) + braid_desc_bytes(&p->y), bytes = braid_desc_bytes(&c->w);
  double work = (double)braid_desc_count(&c->w) * (double)c->pixels * (double)c->batch;
  int64_t pieces = 1, least_pixels = suits_winograd(c) ? kLeastWinogradPixels : kLeastPixels;
  if (most < kMostSumBytes) most = kMostSumBytes;
  while (pieces < kMostPieces && pieces * 2 <= c->batch && work / (double)(pieces * 2) >= kLeastWork &&
         c->batch * c->pixels / (pieces * 2) >= least_pixels && (size_t)(pieces * 2) * bytes <= most)
    pieces *= 2;
  return pieces;
}

/* oneDNN (2.6 to 3.12, its issue 6035) writes past its scratch memory, into another thread's or what follows, where
 * windows of one pixel skip some, channels lie last and there are fewer of them than its vectors hold. One channel lies
 * last in every layout. */
static bool oversteps(const braid_dnnl_problem *p) {
  enum { kVector = 16 };
  const braid_dnnl_conv *c = p->c;
  bool skips = false;
  for (int i = 0; i < c->spatial; i++) {
    if (c->w.dims[2 + i] != 1) return false;
    skips |= c->strides[i] > 1;
  }
  return skips && c->w.dims[1] < kVector && (p->x.layout == BRAID_LAYOUT_BHWC || c->channels == 1);
}

braid_status braid_dnnl_conv_divide_sum(const braid_dnnl_problem *p, int64_t *pieces, braid_description **out) {
  braid_description *larger;
  if (oversteps(p)) return braid_fail(BRAID_UNSUPPORTED, "oneDNN oversteps its memory in this gradient");
  int64_t batch = p->c->batch;
  *pieces = pieces_of_sum(p);
  BRAID_TRY(braid_dnnl_conv_describe_piece(p, batch / *pieces, out));
  if (batch % *pieces == 0) return BRAID_OK;
  braid_status status = braid_dnnl_conv_describe_piece(p, batch / *pieces + 1, &larger);
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
  return braid_dnnl_conv_describe_piece(p, batch, out);
}

static bool is_possible(const braid_dnnl_problem *p) {
  braid_dnnl_division d = {.one = NULL};
  int64_t pieces;
  braid_status status = p->which == BRAID_DNNL_GRAD_FILTER ? braid_dnnl_conv_divide_sum(p, &pieces, &d.one)
                                                           : braid_dnnl_conv_divide(p, &d);
  if (status == BRAID_OK) braid_description_release(d.one);
  return status == BRAID_OK;
}

braid_dnnl_problem braid_dnnl_conv_problem_of(const braid_node_desc *node, const braid_dnnl_conv *c) {
  operands o = operands_of(node, braid_dnnl_pass_of(node));
  return (braid_dnnl_problem){.c = c,
                              .which = braid_dnnl_pass_of(node),
                              .x = o.x->desc,
                              .y = o.y->desc,
                              .training = node->training,
                              .bias = braid_dnnl_pass_of(node) == BRAID_DNNL_FORWARD &&
                                      has(node->inputs, node->input_count, 2),
                              .residual = has_residual(node)};
}

/* Blocks of channels are best, but some shapes (a pointwise convolution with pads) have a fast kernel only with
 * channels last; and where both images lie so, converting them would cost more than blocks gain. */
bool braid_dnnl_conv_best_layout(const braid_node_desc *node, const braid_dnnl_conv *c, braid_layout *out) {
  braid_dnnl_problem p = braid_dnnl_conv_problem_of(node, c);
  bool last = p.x.layout == BRAID_LAYOUT_BHWC && p.y.layout == BRAID_LAYOUT_BHWC, found = false;
  const braid_layout kLayouts[] = {last ? BRAID_LAYOUT_BHWC : BRAID_LAYOUT_BLOCKED16,
                                   last ? BRAID_LAYOUT_BLOCKED16 : BRAID_LAYOUT_BHWC};
  for (size_t i = 0; i < 2 && !found; i++) {
    p.y.layout = kLayouts[i];
    p.x.layout = braid_dnnl_conv_image_layout(node, kLayouts[i]);
    found = is_possible(&p);
    *out = kLayouts[i];
  }
  return found;
}

/* --- layouts of weights --------------------------------------------------------------------------------------------
 */
/* Layouts in which weights may stay: oneDNN converts them to every other; not so those with channels last. */
static const braid_layout kKept[] = {BRAID_DNNL_16I16O, BRAID_DNNL_I16O, BRAID_DNNL_8I8O, BRAID_DNNL_I8O,
                                     BRAID_DNNL_16O16I, BRAID_DNNL_8O8I, BRAID_DNNL_16G,  BRAID_DNNL_8G};
enum { kKeptCount = sizeof kKept / sizeof *kKept };

/* TensorFlow's order, kernel, channels, filters, of two spatial dimensions. */
static bool is_kernel_first(braid_layout layout) {
  braid_layout first;
  return braid_layout_parse("cdba", &first) == BRAID_OK && layout == first;
}

bool braid_dnnl_conv_takes_weights(const braid_dnnl_conv *c, braid_layout layout) {
  braid_dnnl_conv with = *c;
  braid_md md;
  bool kept = c->groups == 1 && is_kernel_first(layout);
  for (size_t i = 0; i < kKeptCount; i++) kept |= layout == kKept[i];
  return kept && braid_desc_set_layout(&with.w, layout) == BRAID_OK && braid_dnnl_conv_weights(&with, &md);
}

/* The layout of what the description wants; plain if that has no name. */
static braid_layout name_layout(const braid_dnnl_conv *c, const braid_md *wanted) {
  braid_dnnl_conv with = *c;
  for (size_t i = 0; i < kKeptCount; i++) {
    braid_md md;
    if (braid_desc_set_layout(&with.w, kKept[i]) == BRAID_OK && braid_dnnl_conv_weights(&with, &md) &&
        braid_md_equal(&md, wanted))
      return kKept[i];
  }
  return BRAID_LAYOUT_PLAIN;
}

braid_layout braid_dnnl_conv_choose_weights(const braid_node_desc *node, const braid_dnnl_conv *c, braid_layout layout,
                                            braid_layout given) {
  if (given != BRAID_LAYOUT_ANY) return braid_dnnl_conv_takes_weights(c, given) ? given : BRAID_LAYOUT_PLAIN;
  braid_dnnl_problem p = braid_dnnl_conv_problem_of(node, c);
  braid_dnnl_division d;
  p.y.layout = layout;
  p.x.layout = braid_dnnl_conv_image_layout(node, layout);
  if (braid_dnnl_conv_divide(&p, &d) != BRAID_OK) return BRAID_LAYOUT_PLAIN;
  braid_md wanted = braid_description_md(d.one, dnnl_query_weights_md);
  given = name_layout(c, &wanted);
  braid_description_release(d.one);
  return given;
}
