/* IntegerConv and its gradients: one product of words, whose operands are put in order first (integer_product.cl). By
 * tiles in local memory, in three sizes, or in the registers of a CPU. */
#include <string.h>

#include "graph/integer.h"
#include "launch/convolution.h"
#include "launch/families.h"
#include "launch/integer.h"

typedef enum algorithm {
  ALGORITHM_LARGE = BRAID_LAUNCH_TILES_LARGE,
  ALGORITHM_MEDIUM = BRAID_LAUNCH_TILES_MEDIUM,
  ALGORITHM_SMALL = BRAID_LAUNCH_TILES_SMALL,
  ALGORITHM_PANELS,
} algorithm;

typedef struct variant {
  algorithm algorithm;
} variant;

enum {
  kDims = 2,
  kImages = 16,
  kPackRun = 64,
  kJoinRun = 256,
  kLeastSteps = 16,
  kMostPanels = 72,
  kMostShare = 9,
  kSumsOf16 = 24,
  kSumsOf8 = 12
};
enum { kTileQuad = 4, kPanelQuad = 2, kWidest = 16, kRoom = 1 << 16 };

/* An operand as images of words, see IMAGES of the kernel text. */
typedef struct images {
  int64_t batch, channels, per, words, size[kDims], l[kDims], phases[kDims], mul[kDims], begin[kDims], div[kDims];
  int64_t reach; /* places of a tap from the first on */
} images;

typedef struct product {
  braid_launch_direction direction;
  braid_convolution conv;
  int64_t quad;          /* elements of a word */
  bool spread;           /* a work-item for each word that is put in order */
  images right;          /* the operand that windows go over */
  int64_t rows, columns; /* of a group */
  int64_t inner;         /* in words */
  bool windows;          /* the right operand has windows side by side */
  int64_t left_panel, left_plane, right_wide, right_block, right_plane;
  braid_launch_piece lefts, rights, offsets;
} product;

/* --- operands as words ---------------------------------------------------------------------------------------------
 */
/* Places of a line: what is read of it up to `most`, without the zeros that the next line begins with. */
static int64_t line_of(int64_t last, int64_t most, int64_t lead, int64_t results) {
  return braid_launch_larger(braid_launch_larger(braid_launch_smaller(last, most) + 1, most + 1 - lead),
                             braid_launch_larger(results, 1));
}

/* Of the channels as words, of a group. */
static int64_t plane_of(const images *of) {
  return of->words * of->phases[0] * of->phases[1] * of->batch * of->l[0] * of->l[1];
}

/* Of x: places are inputs of a phase. */
static images forward_images(const braid_convolution *conv) {
  images of = {.batch = conv->batch, .channels = conv->inputs, .per = conv->inputs / conv->groups};
  for (int i = 0; i < kDims; i++) {
    const braid_window *w = &conv->window;
    int64_t stride = w->stride[i + 1], begin = w->begin[i + 1], below = (w->kernel[i + 1] - 1) * w->dilation[i + 1];
    int64_t most = w->output[i + 1] - 1 + below / stride, last = (w->input[i + 1] - 1 + begin) / stride;
    of.size[i] = w->input[i + 1];
    of.phases[i] = w->kernel[i + 1] == 1 ? 1 : stride;
    of.mul[i] = stride, of.begin[i] = begin, of.div[i] = 1;
    of.l[i] = line_of(last, most, begin / stride, w->output[i + 1]);
  }
  of.reach = (conv->window.kernel[1] - 1) * conv->window.dilation[1] / conv->window.stride[1] * of.l[1] +
             (conv->window.kernel[2] - 1) * conv->window.dilation[2] / conv->window.stride[2];
  return of;
}

/* Places before the error of the first output. */
static int64_t margin_of(const braid_window *w, int d) {
  return braid_launch_larger((w->kernel[d] - 1) * w->dilation[d] - w->begin[d], 0);
}

/* Of the error: outputs at their strides' distance, zeros between them. */
static images backward_images(const braid_convolution *conv) {
  images of = {.batch = conv->batch, .channels = conv->outputs, .per = conv->outputs / conv->groups};
  const braid_window *w = &conv->window;
  for (int i = 0; i < kDims; i++) {
    int64_t margin = margin_of(w, i + 1), last = margin + (w->output[i + 1] - 1) * w->stride[i + 1];
    of.size[i] = w->output[i + 1];
    of.phases[i] = of.mul[i] = 1, of.begin[i] = margin, of.div[i] = w->stride[i + 1];
    of.l[i] = line_of(last, w->input[i + 1] - 1 + w->begin[i + 1] + margin, margin, w->input[i + 1]);
  }
  of.reach = (w->begin[1] + margin_of(w, 1)) * of.l[1] + w->begin[2] + margin_of(w, 2);
  return of;
}

/* Of x with all that windows look at, or of the error as it is. */
static images sample_images(const braid_convolution *conv, bool error) {
  const braid_window *w = &conv->window;
  images of = {.batch = conv->batch, .channels = error ? conv->outputs : conv->inputs};
  of.per = of.channels / conv->groups;
  for (int i = 0; i < kDims; i++) {
    int64_t outputs = braid_launch_larger(w->output[i + 1], 1);
    of.size[i] = error ? w->output[i + 1] : w->input[i + 1];
    of.phases[i] = of.mul[i] = of.div[i] = 1, of.begin[i] = error ? 0 : w->begin[i + 1];
    of.l[i] = error ? outputs : (outputs - 1) * w->stride[i + 1] + (w->kernel[i + 1] - 1) * w->dilation[i + 1] + 1;
  }
  return of;
}

static void add_images(braid_launch_planner *p, const images *of) {
  const int64_t first[] = {of->batch, of->channels, of->per, of->words};
  const int64_t *const pairs[] = {of->size, of->l, of->phases, of->mul, of->begin, of->div};
  for (size_t i = 0; i < 4; i++) braid_launch_index(p, first[i]);
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    for (int d = 0; d < kDims; d++) braid_launch_index(p, pairs[i][d]);
}

static void product_begin(braid_launch_planner *p, const product *m, const char *function) {
  braid_launch_begin(p, "integer_product", function);
  braid_launch_option(p, "-DQUAD=%lld", (long long)m->quad);
  if (m->direction == BRAID_LAUNCH_BY_INPUTS) braid_launch_option(p, "-DBACKWARD");
  if (m->direction == BRAID_LAUNCH_BY_WEIGHTS) braid_launch_option(p, "-DFILTER");
}

static void arrange_begin(braid_launch_planner *p, const product *m, const char *function) {
  product_begin(p, m, function);
  braid_launch_option(p, "-DARRANGE%s", m->spread ? " -DSPREAD" : "");
}

static braid_launch_piece reserve_words(braid_launch_planner *p, int64_t words) {
  return braid_launch_reserve(p, braid_launch_larger(words, 1), 1, sizeof(int32_t));
}

/* Right operand of the products that sum over channels; `room` words may be read behind the last column. */
static void add_channel_words(braid_launch_planner *p, product *m, size_t input, int64_t room) {
  const images *of = &m->right;
  int64_t image = of->l[0] * of->l[1], tail = room + of->reach;
  int64_t planes = m->conv.groups * of->words * of->phases[0] * of->phases[1];
  m->right_plane = plane_of(of);
  m->rights = reserve_words(p, planes * of->batch * image + tail);
  int64_t items = m->spread ? planes * of->batch * image : planes * braid_launch_ceil_div(of->batch, kImages);
  arrange_begin(p, m, "channels_as_words");
  braid_launch_input(p, input);
  braid_launch_workspace(p, m->rights);
  braid_launch_index(p, items);
  braid_launch_index(p, tail);
  braid_launch_index(p, kImages);
  add_images(p, of);
  braid_launch_range(p, m->spread ? items + tail : items + 1);
}

/* Operands of the one that sums over samples, in blocks of `wide` channels; `room` words may be read behind the last.
 */
static braid_launch_piece add_sample_words(braid_launch_planner *p, const product *m, size_t input, const images *of,
                                           int64_t wide, int64_t room) {
  int64_t lines = m->conv.groups * of->words * of->l[0];
  int64_t words = lines * of->l[1] * braid_launch_round_up(of->per, wide), items = m->spread ? words : lines;
  braid_launch_piece piece = reserve_words(p, words + room);
  arrange_begin(p, m, "samples_as_words");
  braid_launch_input(p, input);
  braid_launch_workspace(p, piece);
  braid_launch_index(p, items);
  braid_launch_index(p, wide);
  add_images(p, of);
  braid_launch_range(p, items);
  return piece;
}

/* The right one with windows side by side: of its images the places become outputs. */
static void add_window_words(braid_launch_planner *p, product *m, int64_t wide, int64_t room) {
  const braid_window *w = &m->conv.window;
  images *of = &m->right;
  for (int d = 0; d < kDims; d++) of->l[d] = braid_launch_larger(w->output[d + 1], 1), of->mul[d] = w->stride[d + 1];
  int64_t items = m->conv.groups * of->words * of->l[0];
  m->rights = reserve_words(p, items * of->l[1] * wide + room);
  const int64_t numbers[] = {items, wide, w->kernel[1], w->kernel[2], w->dilation[1], w->dilation[2]};
  arrange_begin(p, m, "windows_as_words");
  braid_launch_input(p, 0);
  braid_launch_workspace(p, m->rights);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) braid_launch_index(p, numbers[i]);
  add_images(p, of);
  braid_launch_range(p, items);
}

/* Left operand of the products that sum over channels, in panels of `wide` rows. */
static void add_weights(braid_launch_planner *p, product *m, int64_t wide) {
  int64_t taps = braid_window_volume(&m->conv.window), panels = braid_launch_ceil_div(m->rows, wide);
  int64_t words = m->right.words, all = m->conv.groups * panels * words * taps * wide;
  int64_t runs = braid_launch_ceil_div(words, kPackRun), items = m->spread ? all : m->conv.groups * panels * runs;
  m->lefts = reserve_words(p, all);
  const int64_t numbers[] = {items,    m->conv.outputs / m->conv.groups, m->conv.inputs / m->conv.groups, taps, wide,
                             kPackRun, braid_launch_larger(runs, 1)};
  arrange_begin(p, m, "pack_weights");
  braid_launch_input(p, 1);
  braid_launch_workspace(p, m->lefts);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) braid_launch_index(p, numbers[i]);
  braid_launch_range(p, items);
}

/* Where the words of a step begin; clears the magnitude. */
static void add_offsets(braid_launch_planner *p, product *m) {
  const braid_window *w = &m->conv.window;
  const images *of = &m->right;
  int64_t image = of->l[0] * of->l[1], phase = of->batch * image, words = 0;
  bool filter = m->direction == BRAID_LAUNCH_BY_WEIGHTS, forward = m->direction == BRAID_LAUNCH_FORWARD;
  if (braid_launch_has_output(p->node, 1))
    words = (int64_t)(braid_dtype_size(p->node->outputs[1].desc.dtype) / sizeof(uint32_t));
  const int64_t numbers[] = {m->inner,
                             filter ? image * m->right_wide : of->phases[0] * of->phases[1] * phase,
                             braid_launch_larger(filter ? w->output[2] : w->kernel[2], 1),
                             braid_launch_larger(filter ? braid_window_outputs(w) : braid_window_volume(w), 1),
                             m->direction == BRAID_LAUNCH_BY_INPUTS ? w->begin[1] + of->begin[0] : 0,
                             m->direction == BRAID_LAUNCH_BY_INPUTS ? w->begin[2] + of->begin[1] : 0,
                             m->windows ? 1
                             : filter   ? w->stride[1]
                                        : (forward ? 1 : -1) * w->dilation[1],
                             m->windows ? 1
                             : filter   ? w->stride[2]
                                        : (forward ? 1 : -1) * w->dilation[2],
                             forward ? w->stride[1] : 1,
                             forward ? w->stride[2] : 1,
                             of->phases[1] * phase,
                             phase,
                             filter ? of->l[1] * m->right_wide : of->l[1],
                             filter ? m->right_wide : 1};
  m->offsets =
      braid_launch_reserve(p, braid_launch_larger(m->inner, 1), 1, p->wide ? sizeof(int64_t) : sizeof(int32_t));
  arrange_begin(p, m, "find_offsets");
  braid_launch_workspace(p, m->offsets);
  braid_launch_output(p, 1);
  braid_launch_int(p, words);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) braid_launch_index(p, numbers[i]);
  braid_launch_range(p, braid_launch_larger(m->inner, words));
}

/* `high`: rows of a panel of the left operand, words of a step of k. `wide`: channels of a block of the right one that
 * is made of samples. `room`: columns that are read at once. */
static void arrange(braid_launch_planner *p, product *m, int64_t high, int64_t wide, int64_t room) {
  m->left_panel = m->inner * high;
  m->left_plane = braid_launch_ceil_div(m->rows, high) * m->left_panel;
  if (m->direction == BRAID_LAUNCH_BY_WEIGHTS) {
    images error = sample_images(&m->conv, true);
    error.words = m->right.words;
    m->lefts = add_sample_words(p, m, 1, &error, high, 0);
    m->right_wide = wide;
    if (m->windows)
      add_window_words(p, m, wide, room);
    else
      m->rights = add_sample_words(p, m, 0, &m->right, wide, room);
    m->right_block = m->right.words * m->right.l[0] * m->right.l[1] * wide;
    m->right_plane = m->right_block * (m->windows ? 1 : braid_launch_ceil_div(m->right.per, wide));
  } else {
    add_channel_words(p, m, 0, room);
    add_weights(p, m, high);
  }
  add_offsets(p, m);
}

/* quad: elements of a word. */
static product product_of(const braid_node_desc *node, const braid_convolution *conv, int64_t quad) {
  product m = {.direction = braid_launch_direction_of(node), .conv = *conv, .quad = quad};
  int64_t filters = conv->outputs / conv->groups, channels = conv->inputs / conv->groups;
  const braid_window *w = &conv->window;
  switch (m.direction) {
  case BRAID_LAUNCH_FORWARD:
    m.right = forward_images(conv);
    m.rows = filters, m.columns = conv->batch * braid_window_outputs(w);
    break;
  case BRAID_LAUNCH_BY_INPUTS:
    m.right = backward_images(conv);
    m.rows = channels, m.columns = conv->batch * braid_window_inputs(w);
    break;
  case BRAID_LAUNCH_BY_WEIGHTS:
    m.right = sample_images(conv, false);
    m.rows = filters, m.columns = channels * braid_window_volume(w);
    break;
  }
  bool filter = m.direction == BRAID_LAUNCH_BY_WEIGHTS;
  m.right.words = braid_launch_ceil_div(filter ? conv->batch : m.right.per, quad);
  m.inner = m.right.words * (filter ? braid_window_outputs(w) : braid_window_volume(w));
  return m;
}

/* Words of the largest piece of the workspace, or a bound of them. */
static int64_t most_words(const product *m) {
  bool filter = m->direction == BRAID_LAUNCH_BY_WEIGHTS;
  int64_t right = filter ? m->right.words * m->right.l[0] * m->right.l[1] * braid_launch_round_up(m->right.per, kWidest)
                         : plane_of(&m->right);
  int64_t weights = braid_launch_round_up(m->rows, kWidest) * m->inner;
  return m->conv.groups * braid_launch_larger(right, weights) + kRoom;
}

/* --- results -------------------------------------------------------------------------------------------------------
 */
/* How a result is finished, where it is not a part. */
static void add_finish(braid_launch_planner *p) {
  const braid_node_desc *node = p->node;
  braid_dtype dtype = node->outputs[0].desc.dtype;
  braid_launch_option(p, "-DT=%s%s", braid_launch_type(dtype), dtype == BRAID_I64 ? " -DRAW_LONG" : "");
  if (braid_launch_direction_of(node) == BRAID_LAUNCH_FORWARD) braid_launch_option(p, "-DROUNDED");
}

static void add_rounding(braid_launch_planner *p) {
  const braid_attrs *attrs = p->node->attrs;
  int64_t most = braid_integer_max(braid_attr_int(attrs, "bits", 8));
  braid_launch_int(p, braid_attr_int(attrs, "shift", 0));
  braid_launch_int(p, braid_attr_int(attrs, "relu", 0) ? 0 : -most);
  braid_launch_int(p, most);
}

/* Sums of slices go to `parts`, unless there is one. */
static void add_result(braid_launch_planner *p, int64_t slices, braid_launch_piece parts) {
  if (slices > 1) {
    braid_launch_option(p, "-DT=int -DPARTS");
    braid_launch_workspace(p, parts);
  } else {
    add_finish(p);
    braid_launch_output(p, 0);
  }
  braid_launch_output(p, 1);
}

static void add_join(braid_launch_planner *p, const product *m, int64_t slices, braid_launch_piece parts) {
  int64_t total = braid_desc_count(&p->node->outputs[0].desc), run = p->traits->cpu ? kJoinRun : 1;
  int64_t group = (int64_t)braid_launch_tree_group(p->traits);
  if (slices < 2) return;
  product_begin(p, m, "join_slices");
  braid_launch_option(p, "-DJOIN_SLICES");
  add_finish(p);
  braid_launch_workspace(p, parts);
  braid_launch_output(p, 0);
  braid_launch_output(p, 1);
  braid_launch_index(p, total);
  braid_launch_index(p, slices);
  braid_launch_index(p, run);
  add_rounding(p);
  braid_launch_groups(p, braid_launch_ceil_div(braid_launch_ceil_div(total, run), group), 1, 1, (size_t)group);
}

static braid_launch_piece reserve_parts(braid_launch_planner *p, int64_t slices) {
  int64_t total = braid_desc_count(&p->node->outputs[0].desc);
  if (slices < 2) return (braid_launch_piece){0};
  p->wide |= total > INT32_MAX / 2 / slices;
  return braid_launch_reserve(p, slices, total, sizeof(int32_t));
}

static void add_numbers(braid_launch_planner *p, const int64_t *numbers, size_t count) {
  for (size_t i = 0; i < count; i++) braid_launch_index(p, numbers[i]);
}

/* --- tiles ---------------------------------------------------------------------------------------------------------
 */
static braid_launch_tiling tiling_of(const product *m) {
  return (braid_launch_tiling){.rows = m->rows,
                               .columns = m->columns,
                               .inner = m->inner,
                               .batches = m->conv.groups,
                               .left_fours = true,
                               .windows = true};
}

/* Slices for all compute units, and short enough for sums of 32 bits. */
static int64_t tile_slices(const braid_launch_traits *traits, const braid_launch_tile *tile, const product *m,
                           int64_t *slice) {
  braid_launch_tiling tiling = tiling_of(m);
  int64_t slices = braid_launch_slices(traits, tile, &tiling, slice), most = BRAID_INTEGER_PRODUCTS / m->quad;
  int64_t tiles =
      braid_launch_ceil_div(m->rows, tile->rows) * braid_launch_ceil_div(m->columns, tile->columns) * m->conv.groups;
  while (!traits->knobs.slices && tiles * slices < (int64_t)traits->compute_units &&
         *slice >= 2 * kLeastSteps * tile->depth) {
    *slice = braid_launch_round_up(braid_launch_ceil_div(*slice, 2), tile->depth);
    slices = braid_launch_ceil_div(m->inner, *slice);
  }
  if (*slice > most) *slice = most / tile->depth * tile->depth;
  slices = braid_launch_ceil_div(m->inner, *slice);
  return slices > 0 ? slices : 1;
}

static void add_tile_options(braid_launch_planner *p, const braid_launch_tile *tile) {
  uint32_t unroll = p->traits->knobs.unroll ? p->traits->knobs.unroll : (uint32_t)tile->depth;
  braid_launch_option(p, "-DT_I=%lld -DT_B=%lld -DTILE_K=%lld -DWORK_M=%lld -DWORK_N=%lld", (long long)tile->rows,
                      (long long)tile->columns, (long long)tile->depth, (long long)tile->work_rows,
                      (long long)tile->work_columns);
  if (p->traits->knobs.unroll || p->traits->tuning->unrolls) braid_launch_option(p, "-DUNROLL=%u", unroll);
  if (braid_launch_loads_fours(tile, tile->rows)) braid_launch_option(p, "-DLEFT_FOUR");
  if (p->traits->dot == BRAID_LAUNCH_DOT_KHRONOS) braid_launch_option(p, "-DDOT_PRODUCTS -cl-std=CL3.0");
  if (p->traits->dot == BRAID_LAUNCH_DOT_PTX) braid_launch_option(p, "-DDOT_PTX");
}

static void product_add_tiles(braid_launch_planner *p, variant v, product *m) {
  const braid_window *w = &m->conv.window;
  braid_launch_tile tile = braid_launch_tile_of(p->traits, (braid_launch_algorithm)v.algorithm, true);
  int64_t slice, filter = m->direction == BRAID_LAUNCH_BY_WEIGHTS, total = braid_desc_count(&p->node->outputs[0].desc);
  const int64_t *results = m->direction == BRAID_LAUNCH_FORWARD ? w->output : w->input;
  int64_t slices = tile_slices(p->traits, &tile, m, &slice);
  braid_launch_piece parts = reserve_parts(p, slices);
  m->spread = true;
  arrange(p, m, braid_launch_round_up(braid_launch_larger(m->rows, 1), 4), braid_launch_larger(m->right.per, 1), 0);
  product_begin(p, m, "tiles");
  add_tile_options(p, &tile);
  braid_launch_workspace(p, m->lefts);
  braid_launch_workspace(p, m->rights);
  braid_launch_workspace(p, m->offsets);
  add_result(p, slices, parts);
  const int64_t numbers[] = {m->rows,
                             m->columns,
                             m->inner,
                             braid_launch_round_up(braid_launch_larger(m->rows, 1), 4),
                             m->left_plane,
                             m->right_plane,
                             m->conv.groups,
                             braid_launch_larger(results[1] * results[2], 1),
                             filter ? m->right_wide : braid_launch_larger(results[2], 1),
                             m->right.l[0],
                             m->right.l[1],
                             braid_launch_larger(m->right.per, 1),
                             braid_window_volume(w),
                             w->kernel[2],
                             w->dilation[1],
                             w->dilation[2],
                             slice,
                             total};
  add_numbers(p, numbers, sizeof numbers / sizeof *numbers);
  add_rounding(p);
  braid_launch_groups(p, braid_launch_ceil_div(m->columns, tile.columns), braid_launch_ceil_div(m->rows, tile.rows),
                      m->conv.groups * slices, tile.group);
  add_join(p, m, slices, parts);
}

/* --- panels --------------------------------------------------------------------------------------------------------
 */
/* As many sums as there are registers for, as few of them as possible beyond the last row. */
static braid_launch_panel panel_for(const braid_launch_traits *traits, int64_t rows, int64_t columns) {
  int64_t width = braid_launch_panel_of(traits).width, sums = width >= 16 ? kSumsOf16 : kSumsOf8;
  int64_t most = width >= 16 ? 4 : 2, vectors = braid_launch_ceil_div(columns, width);
  vectors = vectors < 1 ? 1 : braid_launch_smaller(vectors, most);
  int64_t high = braid_launch_smaller(sums / vectors, kSumsOf8),
          panels = braid_launch_ceil_div(braid_launch_larger(rows, 1), high);
  return (braid_launch_panel){braid_launch_ceil_div(braid_launch_larger(rows, 1), panels), vectors, width};
}

static void product_add_panels(braid_launch_planner *p, product *m) {
  const braid_window *w = &m->conv.window;
  bool filter = m->direction == BRAID_LAUNCH_BY_WEIGHTS;
  const int64_t *results = m->direction == BRAID_LAUNCH_FORWARD ? w->output : w->input;
  int64_t taps = braid_window_volume(w), total = braid_desc_count(&p->node->outputs[0].desc);
  m->windows = filter && m->right.per < braid_launch_panel_of(p->traits).width;
  int64_t columns = m->windows ? m->right.per * taps
                    : filter   ? m->right.per
                               : m->right.batch * m->right.l[0] * m->right.l[1];
  braid_launch_panel panel = panel_for(p->traits, m->rows, columns);
  int64_t across = panel.vectors * panel.width, tiles = braid_launch_ceil_div(columns, across);
  int64_t wide = m->windows ? braid_launch_round_up(columns, panel.width) : across;
  int64_t slice = braid_launch_smaller(braid_launch_larger(m->inner, 1), BRAID_INTEGER_PRODUCTS / m->quad);
  int64_t slices = braid_launch_larger(braid_launch_ceil_div(m->inner, slice), 1);
  int64_t panels = braid_launch_ceil_div(m->rows, panel.rows);
  int64_t share = filter && !m->windows ? braid_launch_ceil_div(taps, braid_launch_ceil_div(taps, kMostShare)) : 1;
  if (filter && !m->windows) tiles *= braid_launch_ceil_div(taps, share);
  int64_t chunk = braid_launch_smaller(braid_launch_chunk(p->traits, panels, tiles * m->conv.groups * slices),
                                       share > 1 ? kMostPanels / share : kMostPanels);
  braid_launch_piece parts = reserve_parts(p, slices);
  arrange(p, m, panel.rows, wide, across);
  product_begin(p, m, "panels");
  braid_launch_add_panel(p, &panel);
  braid_launch_option(p, "-DKEPT=%d%s", kMostPanels, m->windows ? " -DWINDOWS" : "");
  braid_launch_workspace(p, m->lefts);
  braid_launch_workspace(p, m->rights);
  braid_launch_workspace(p, m->offsets);
  add_result(p, slices, parts);
  const int64_t numbers[] = {m->rows,
                             columns,
                             m->inner,
                             m->left_panel,
                             m->left_plane,
                             m->windows ? across : m->right_block,
                             m->right_plane,
                             m->conv.groups,
                             results[1] * results[2],
                             filter ? wide : results[2],
                             results[1],
                             m->right.l[0],
                             m->right.l[1],
                             m->right.per,
                             taps,
                             w->kernel[2],
                             w->dilation[1],
                             w->dilation[2],
                             slice,
                             total};
  add_numbers(p, numbers, sizeof numbers / sizeof *numbers);
  add_rounding(p);
  braid_launch_int(p, chunk);
  braid_launch_int(p, share);
  braid_launch_groups(p, tiles, braid_launch_ceil_div(panels, chunk), m->conv.groups * slices, 1);
  add_join(p, m, slices, parts);
}

/* --- table ---------------------------------------------------------------------------------------------------------
 */
static bool product_allows(variant v, const braid_node_desc *node, char *why, size_t why_bytes) {
  (void)v;
  braid_convolution conv;
  if (braid_launch_integer_conv(node, &conv) != BRAID_OK) return braid_launch_refuse(why, why_bytes, "geometry");
  return braid_launch_match_sizes(&conv, why, why_bytes);
}

static bool product_suits(variant v, const braid_launch_traits *traits, const braid_node_desc *node, char *why,
                          size_t why_bytes) {
  braid_convolution conv;
  if (v.algorithm == ALGORITHM_PANELS) return traits->cpu || braid_launch_refuse(why, why_bytes, "panels are for CPUs");
  if (braid_launch_integer_conv(node, &conv) != BRAID_OK) return braid_launch_refuse(why, why_bytes, "geometry");
  product m = product_of(node, &conv, kTileQuad);
  braid_launch_tiling tiling = tiling_of(&m);
  return braid_launch_tiles_fit(traits, (braid_launch_algorithm)v.algorithm, &tiling, why, why_bytes);
}

static braid_status product_plan(variant v, const braid_launch_traits *traits, const braid_node_desc *node,
                                 braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_convolution conv;
  if (braid_launch_integer_conv(node, &conv) != BRAID_OK)
    return braid_fail(BRAID_INTERNAL, "a convolution that was not matched");
  product m = product_of(node, &conv, v.algorithm == ALGORITHM_PANELS ? kPanelQuad : kTileQuad);
  braid_launch_plan_begin(&p, traits, node, recipe);
  p.wide |= most_words(&m) > INT32_MAX / 2;
  if (v.algorithm == ALGORITHM_PANELS)
    product_add_panels(&p, &m);
  else
    product_add_tiles(&p, v, &m);
  return braid_launch_plan_end(&p);
}

BRAID_LAUNCH_VARIANT(product, panels, ALGORITHM_PANELS)
BRAID_LAUNCH_VARIANT(product, large, ALGORITHM_LARGE)
BRAID_LAUNCH_VARIANT(product, medium, ALGORITHM_MEDIUM)
BRAID_LAUNCH_VARIANT(product, small, ALGORITHM_SMALL)

#define KERNEL(op_name, kernel, stem)                                                                                  \
  { .op = op_name, .name = kernel, .match = product_allows_##stem, .implementation = &k_##stem }
#define KERNELS(op_name, kernel)                                                                                       \
  KERNEL(op_name, kernel "_panels", panels), KERNEL(op_name, kernel "_tiles_large", large),                            \
      KERNEL(op_name, kernel "_tiles_medium", medium), KERNEL(op_name, kernel "_tiles_small", small)

static const braid_kernel kKernels[] = {
    KERNELS("IntegerConv", "integer_conv"),
    KERNELS("IntegerConvGradInput", "integer_conv_grad_input"),
    KERNELS("IntegerConvGradFilter", "integer_conv_grad_filter"),
};

const braid_launch_family braid_launch_family_integer_product = {kKernels, sizeof kKernels / sizeof *kKernels, false};
