#include "backend/cuda/tensor.h"

#include <string.h>

#include "graph/integer.h"
#include "launch/convolution.h"
#include "launch/integer.h"

enum {
  kBytes = 16, /* of a word, the unit of all operands */
  kStage = 8,  /* blocks of k that are copied at a time */
  kRows = 128, /* of a tile */
  kRuns = 8,   /* of a tile's image, at most */
  kMostStages = BRAID_INTEGER_PRODUCTS / (kStage * kBytes),
  kZeros = 256, /* words: as many as the longest run */
  kMostTaps = 1024,
  kTapsAtOnce = 9, /* of weights */
  kJoinChannels = 64,
  kJoinRoom = 2048, /* results that a group turns */
  kCluster = 2,
  kMostSlices = 64,
  kLeastBatch = kRows / kRuns,
  kFewChannels = 16, /* below, windows lie side by side */
  kGroup = 256,
  kStatic = 5120 /* local memory that the kernel declares, at most */
};

/* A product by tiles of kRows rows. `image`, the side that is looked up, has units of `lines` rows or columns: places
 * of samples, or taps of channels. */
typedef struct tensor_product {
  braid_launch_direction direction;
  braid_convolution conv;
  bool windows;              /* taps became channels: a window of one place */
  int64_t channels, filters; /* of a group */
  int64_t taps, results[2];  /* places of what is computed, or of the error */
  int64_t units, lines, fixed, blocks, all_blocks, stages;
  int64_t wide;                  /* columns of a tile */
  int64_t cluster;               /* groups that load their fixed side together */
  bool whole_image, whole_fixed; /* BY_WEIGHTS: what a stage of a tile takes of that side is one run */
  int64_t slices, slice;
} tensor_product;

/* --- what a node is ------------------------------------------------------------------------------------------------
 */
static bool has_few_channels(braid_launch_direction direction, const braid_convolution *conv) {
  return direction != BRAID_LAUNCH_BY_INPUTS && conv->groups == 1 && conv->inputs < kFewChannels &&
         braid_window_volume(&conv->window) > 1;
}

static tensor_product product_of(const braid_node_desc *node, const braid_convolution *conv) {
  tensor_product m = {.direction = braid_launch_direction_of(node), .conv = *conv};
  const braid_window *w = &conv->window;
  const int64_t *results = m.direction == BRAID_LAUNCH_BY_INPUTS ? w->input : w->output;
  m.windows = has_few_channels(m.direction, conv);
  m.channels = conv->inputs / conv->groups, m.filters = conv->outputs / conv->groups;
  m.taps = braid_window_volume(w);
  if (m.windows) m.channels *= m.taps, m.taps = 1;
  for (int i = 0; i < 2; i++) m.results[i] = results[i + 1];
  int64_t places = m.results[0] * m.results[1];
  switch (m.direction) {
  case BRAID_LAUNCH_FORWARD:
    m.fixed = m.filters, m.blocks = braid_launch_ceil_div(m.channels, kBytes);
    break;
  case BRAID_LAUNCH_BY_INPUTS:
    m.fixed = m.channels, m.blocks = braid_launch_ceil_div(m.filters, kBytes);
    break;
  case BRAID_LAUNCH_BY_WEIGHTS:
    m.fixed = m.filters, m.blocks = braid_launch_ceil_div(conv->batch, kBytes);
    m.units = m.taps, m.lines = m.channels, m.all_blocks = places * m.blocks;
    break;
  }
  if (m.direction != BRAID_LAUNCH_BY_WEIGHTS) m.units = places, m.lines = conv->batch, m.all_blocks = m.taps * m.blocks;
  m.stages = braid_launch_ceil_div(m.all_blocks, kStage);
  return m;
}

/* Rows or columns of a tile that are the image's. */
static int64_t image_side(const tensor_product *m, int64_t wide) {
  return m->direction == BRAID_LAUNCH_BY_WEIGHTS ? wide : kRows;
}

static int64_t units_per_tile(const tensor_product *m, int64_t wide) {
  int64_t side = image_side(m, wide);
  return m->lines < side ? braid_launch_smaller(side / m->lines, kRuns) : 0;
}

static int64_t image_tiles(const tensor_product *m, int64_t wide) {
  int64_t per_tile = units_per_tile(m, wide);
  return per_tile ? braid_launch_ceil_div(m->units, per_tile)
                  : m->units * braid_launch_ceil_div(m->lines, image_side(m, wide));
}

static int64_t fixed_tiles(const tensor_product *m, int64_t wide) {
  return braid_launch_ceil_div(m->fixed, m->direction == BRAID_LAUNCH_BY_WEIGHTS ? kRows : wide);
}

/* Results of a row that one thread has are not neighbours in [filter][channel][tap]: they are put there afterwards. */
static bool is_joined(const tensor_product *m, int64_t slices) {
  return slices > 1 || (m->direction == BRAID_LAUNCH_BY_WEIGHTS && m->taps > 1);
}

/* --- tiles and slices ----------------------------------------------------------------------------------------------
 */
/* How a size of tiles is run: groups on a compute unit, slots for stages on their way. `dear`: its time for a
 * multiplication beside that of the largest tiles, which load the fewest bytes for it. */
typedef struct tensor_tile {
  int64_t wide, slots, resident;
  double dear;
} tensor_tile;

enum { kWarpgroupSizes = 3, kWarpSizes = 2 };
static const tensor_tile kWarpgroupTiles[kWarpgroupSizes] = {{256, 4, 1, 1}, {128, 3, 2, 1.1}, {64, 4, 2, 1.5}};
static const tensor_tile kWarpTiles[kWarpSizes] = {{128, 3, 2, 2}, {64, 4, 2, 2.5}};

static const tensor_tile *tiles_of(const braid_launch_traits *traits) {
  return traits->tensor == BRAID_LAUNCH_TENSOR_WARPGROUPS ? kWarpgroupTiles : kWarpTiles;
}

static size_t slot_bytes(const tensor_tile *tile) {
  return (size_t)((kRows + tile->wide) * kStage * kBytes);
}

/* Cycles, reckoned: the busiest compute unit's multiplications, 4096 in a cycle, with a few stages for each tile's
 * begin and end; what is written and read again for slices at 1800 bytes in a cycle, beside a launch of 3000 cycles. */
static double cost_of(const braid_launch_traits *traits, const tensor_product *m, const tensor_tile *tile,
                      int64_t slices, int64_t results) {
  const double kBeginAndEnd = 4, kMultiplications = 4096, kTraffic = 1800, kLaunch = 3000;
  int64_t units = braid_launch_larger(traits->compute_units, 1),
          slice = braid_launch_larger(braid_launch_ceil_div(m->stages, slices), 1);
  int64_t count = braid_launch_larger(braid_launch_ceil_div(m->stages, slice), 1);
  int64_t tiles = image_tiles(m, tile->wide) * fixed_tiles(m, tile->wide) * m->conv.groups * count;
  double stage = (double)(kRows * tile->wide * kStage * kBytes) / kMultiplications * tile->dear;
  double cost = (double)braid_launch_ceil_div(tiles, units) * ((double)slice + kBeginAndEnd) * stage;
  if (is_joined(m, count)) cost += kLaunch + (double)(count * results * 8) / kTraffic;
  return cost;
}

/* What the copy engine can take in few, long runs, and what two neighbours can share: of one stage that is less than
 * meeting costs. */
static void choose_copies(const braid_launch_traits *traits, tensor_product *m) {
  bool engine = traits->tensor == BRAID_LAUNCH_TENSOR_WARPGROUPS, filter = m->direction == BRAID_LAUNCH_BY_WEIGHTS;
  bool whole = engine && filter && m->conv.groups == 1 && m->conv.batch % (kStage * kBytes) == 0;
  m->whole_fixed = whole && m->fixed % kRows == 0;
  m->whole_image = whole && !m->windows && m->lines % m->wide == 0;
  m->cluster = traits->clusters && !filter && m->stages > 1 && image_tiles(m, m->wide) > 1 ? kCluster : 1;
}

static tensor_tile choose_tile(const braid_launch_traits *traits, tensor_product *m, int64_t results) {
  const tensor_tile *tiles = tiles_of(traits);
  size_t count = traits->tensor == BRAID_LAUNCH_TENSOR_WARPGROUPS ? kWarpgroupSizes : kWarpSizes, best = 0;
  int64_t least = braid_launch_larger(braid_launch_ceil_div(m->stages, kMostStages), 1), best_slices = least;
  double lowest = cost_of(traits, m, &tiles[0], least, results);
  for (size_t i = 0; i < count; i++)
    for (int64_t slices = least; slices <= braid_launch_larger(least, braid_launch_smaller(m->stages, kMostSlices));
         slices++) {
      double cost = cost_of(traits, m, &tiles[i], slices, results);
      if (cost < lowest) best = i, best_slices = slices, lowest = cost;
    }
  if (traits->knobs.slices) best_slices = braid_launch_larger(least, traits->knobs.slices);
  m->wide = tiles[best].wide;
  m->slice = braid_launch_larger(braid_launch_ceil_div(m->stages, best_slices), 1);
  m->slices = braid_launch_larger(braid_launch_ceil_div(m->stages, m->slice), 1);
  choose_copies(traits, m);
  tensor_tile tile = tiles[best];
  while (tile.slots > 2 && (size_t)tile.slots * slot_bytes(&tile) + kStatic > traits->local_most) tile.slots--;
  return tile;
}

/* --- launches ------------------------------------------------------------------------------------------------------
 */
static void tensor_begin(braid_launch_planner *p, const tensor_product *m, const char *function) {
  bool product = strcmp(function, "tensor_product") == 0;
  braid_launch_begin(p, product ? "integer_tensor" : "integer_tensor_operands", function);
  braid_launch_option(p, "-DSTAGE=%d -DTILE_N=%lld", kStage, (long long)m->wide);
  if (m->direction == BRAID_LAUNCH_BY_WEIGHTS) braid_launch_option(p, "-DFILTER");
  if (m->direction == BRAID_LAUNCH_BY_INPUTS) braid_launch_option(p, "-DBACKWARD");
}

static void add_numbers(braid_launch_planner *p, const int64_t *numbers, size_t count) {
  for (size_t i = 0; i < count; i++) braid_launch_index(p, numbers[i]);
}

static int64_t magnitude_words(const braid_node_desc *node) {
  if (!braid_launch_has_output(node, 1)) return 0;
  return (int64_t)(braid_dtype_size(node->outputs[1].desc.dtype) / sizeof(uint32_t));
}

static braid_launch_piece reserve_words(braid_launch_planner *p, int64_t words) {
  return braid_launch_reserve(p, braid_launch_larger(words, 1), kBytes, 1);
}

/* In a launch before the product: zeros, and the magnitude that it adds to. Without one no operand stands for it, since
 * the launch would wait for that. */
static void add_cleared(braid_launch_planner *p, braid_launch_piece zeros) {
  braid_launch_workspace(p, zeros);
  if (magnitude_words(p->node))
    braid_launch_output(p, 1);
  else
    braid_launch_workspace(p, zeros);
  braid_launch_int(p, kZeros);
  braid_launch_int(p, magnitude_words(p->node));
}

/* four: threads store four neighbours of 32 bits or more, else 16 smaller ones. */
static braid_launch_piece add_weights(braid_launch_planner *p, const tensor_product *m, bool four,
                                      braid_launch_piece zeros) {
  bool side_by_side = m->direction == BRAID_LAUNCH_FORWARD && m->channels % kBytes == 0 && m->taps <= kTapsAtOnce;
  int64_t tiles = fixed_tiles(m, m->wide);
  int64_t items = m->conv.groups * tiles * m->blocks * m->wide * (side_by_side ? 1 : m->taps);
  braid_launch_piece piece = reserve_words(p, m->conv.groups * tiles * m->stages * kStage * m->wide);
  const int64_t numbers[] = {items, m->filters, m->channels, m->taps, m->blocks, m->stages, tiles};
  tensor_begin(p, m, "tensor_weights");
  braid_launch_option(p, "-DARRANGE -DT=int%s", four ? "" : " -DBYTES");
  if (side_by_side) braid_launch_option(p, "-DTAPS=%lld", (long long)m->taps);
  braid_launch_input(p, 1);
  braid_launch_workspace(p, piece);
  add_cleared(p, zeros);
  add_numbers(p, numbers, sizeof numbers / sizeof *numbers);
  braid_launch_groups(p, braid_launch_ceil_div(braid_launch_larger(items, kZeros), kGroup), 1, 1, kGroup);
  return piece;
}

/* Images of samples in blocks: the error, and x unless its windows lie side by side already. */
static void add_turned(braid_launch_planner *p, const tensor_product *m, braid_launch_piece *image,
                       braid_launch_piece *error, braid_launch_piece zeros) {
  const braid_window *w = &m->conv.window;
  int64_t channels = braid_launch_round_up(m->conv.inputs, kBytes),
          filters = braid_launch_round_up(m->conv.outputs, kBytes);
  int64_t inputs = m->windows ? 0 : w->input[1] * w->input[2], outputs = m->results[0] * m->results[1];
  int64_t image_words = m->blocks * inputs * channels, error_words = m->blocks * outputs * filters;
  const int64_t numbers[] = {
      m->conv.batch, outputs, filters, m->whole_fixed ? kRows : 0, inputs, channels, m->whole_image ? m->wide : 0};
  *error = reserve_words(p, error_words);
  if (!m->windows) *image = reserve_words(p, image_words);
  tensor_begin(p, m, "tensor_turn");
  braid_launch_option(p, "-DARRANGE -DT=int");
  braid_launch_input(p, 1);
  braid_launch_input(p, 0);
  braid_launch_workspace(p, *error);
  braid_launch_workspace(p, *image);
  add_cleared(p, zeros);
  add_numbers(p, numbers, sizeof numbers / sizeof *numbers);
  braid_launch_groups(
      p, braid_launch_larger(braid_launch_ceil_div(braid_launch_larger(image_words, error_words), kGroup), 1),
      m->windows ? 1 : 2, 1, kGroup);
}

static braid_launch_piece add_windows(braid_launch_planner *p, const tensor_product *m) {
  const braid_window *w = &m->conv.window;
  bool samples = m->direction == BRAID_LAUNCH_BY_WEIGHTS;
  int64_t padded = braid_launch_round_up(m->channels, kBytes), places = m->results[0] * m->results[1];
  int64_t items = places * (samples ? m->blocks * padded : m->conv.batch * (padded / kBytes));
  braid_launch_piece piece = reserve_words(p, items);
  const int64_t numbers[] = {items,        m->conv.batch, w->input[1],    w->input[2],    w->output[1], w->output[2],
                             w->stride[1], w->stride[2],  w->dilation[1], w->dilation[2], w->begin[1],  w->begin[2]};
  tensor_begin(p, m, "tensor_windows");
  braid_launch_option(p, "-DARRANGE -DT=int -DINSIDE=%lld -DTAPS_OF=%lld -DTAPS_2=%lld%s", (long long)m->channels,
                      (long long)braid_window_volume(w), (long long)w->kernel[2], samples ? " -DSAMPLES" : "");
  braid_launch_input(p, 0);
  braid_launch_workspace(p, piece);
  add_numbers(p, numbers, sizeof numbers / sizeof *numbers);
  braid_launch_groups(p, braid_launch_ceil_div(items, kGroup), 1, 1, kGroup);
  return piece;
}

static void add_type(braid_launch_planner *p) {
  braid_dtype dtype = p->node->outputs[0].desc.dtype;
  braid_launch_option(p, "-DT=%s%s", braid_launch_type(dtype), dtype == BRAID_I64 ? " -DRAW_LONG" : "");
  if (braid_launch_direction_of(p->node) == BRAID_LAUNCH_FORWARD) braid_launch_option(p, "-DROUNDED");
}

static void add_rounding(braid_launch_planner *p) {
  const braid_attrs *attrs = p->node->attrs;
  int64_t most = braid_integer_max(braid_attr_int(attrs, "bits", 8));
  braid_launch_int(p, braid_attr_int(attrs, "shift", 0));
  braid_launch_int(p, braid_attr_int(attrs, "relu", 0) ? 0 : -most);
  braid_launch_int(p, most);
}

/* How places, taps and sources belong together: of_* in words, then the numbers of tensor_geometry from `h` on. */
static void add_geometry(braid_launch_planner *p, const tensor_product *m) {
  const braid_window *w = &m->conv.window;
  bool filter = m->direction == BRAID_LAUNCH_BY_WEIGHTS, back = m->direction == BRAID_LAUNCH_BY_INPUTS;
  const int64_t *source = m->windows || back ? w->output : w->input;
  int64_t padded = braid_launch_round_up(m->channels * m->conv.groups, kBytes), batch = m->conv.batch;
  int64_t places = source[1] * source[2];
  const int64_t numbers[] = {filter ? padded : places * batch,
                             filter ? m->blocks * padded : batch,
                             filter ? m->channels : m->blocks * places * batch,
                             source[1],
                             source[2],
                             braid_launch_larger(m->results[1], 1),
                             m->windows ? 1 : w->kernel[2],
                             m->windows || back ? 1 : w->stride[1],
                             m->windows || back ? 1 : w->stride[2],
                             back ? -w->dilation[1] : w->dilation[1],
                             back ? -w->dilation[2] : w->dilation[2],
                             m->windows ? 0
                             : back     ? -w->begin[1]
                                        : w->begin[1],
                             m->windows ? 0
                             : back     ? -w->begin[2]
                                        : w->begin[2],
                             back ? w->stride[1] : 1,
                             back ? w->stride[2] : 1};
  add_numbers(p, numbers, sizeof numbers / sizeof *numbers);
}

static void add_product_options(braid_launch_planner *p, const tensor_product *m, const tensor_tile *tile) {
  const braid_window *w = &m->conv.window;
  bool groups = p->traits->tensor == BRAID_LAUNCH_TENSOR_WARPGROUPS;
  braid_launch_option(p, "-DSLOTS=%lld -DRESIDENT=%lld%s", (long long)tile->slots, (long long)tile->resident,
                      groups ? " -DWGMMA" : "");
  if (m->cluster > 1) braid_launch_option(p, "-DCLUSTER=%lld", (long long)m->cluster);
  if (m->whole_fixed) braid_launch_option(p, "-DWHOLE_FIXED");
  if (m->whole_image) braid_launch_option(p, "-DWHOLE_IMAGE");
  if (m->direction == BRAID_LAUNCH_BY_INPUTS && (w->stride[1] > 1 || w->stride[2] > 1))
    braid_launch_option(p, "-DDIVIDED");
}

static void add_join(braid_launch_planner *p, const tensor_product *m, braid_launch_piece parts, int64_t results) {
  bool filter = m->direction == BRAID_LAUNCH_BY_WEIGHTS;
  int64_t run = kJoinChannels;
  while (run * m->taps > kJoinRoom) run /= 2;
  int64_t groups =
      filter ? m->conv.outputs * braid_launch_ceil_div(m->channels, run) : braid_launch_ceil_div(results, kGroup);
  const int64_t numbers[] = {results, m->slices, m->channels, m->taps};
  tensor_begin(p, m, "tensor_join");
  braid_launch_option(p, "-DJOIN=%lld -DROOM=%d", (long long)run, kJoinRoom);
  add_type(p);
  braid_launch_workspace(p, parts);
  braid_launch_output(p, 0);
  braid_launch_output(p, 1);
  add_numbers(p, numbers, filter ? sizeof numbers / sizeof *numbers : 2);
  add_rounding(p);
  braid_launch_groups(p, groups, 1, 1, kGroup);
}

static void add_product(braid_launch_planner *p, const tensor_product *m, const tensor_tile *tile,
                        const braid_launch_piece *image, braid_launch_piece fixed, braid_launch_piece zeros,
                        int64_t results) {
  bool joined = is_joined(m, m->slices), filter = m->direction == BRAID_LAUNCH_BY_WEIGHTS;
  braid_launch_piece parts = {0};
  if (joined) parts = braid_launch_reserve(p, m->slices, results, sizeof(int32_t));
  tensor_begin(p, m, "tensor_product");
  add_product_options(p, m, tile);
  if (image)
    braid_launch_workspace(p, *image);
  else
    braid_launch_input(p, 0);
  braid_launch_workspace(p, fixed);
  braid_launch_workspace(p, zeros);
  if (joined) {
    braid_launch_option(p, "-DT=int -DPARTS");
    braid_launch_workspace(p, parts);
  } else {
    add_type(p);
    if (!filter && m->direction == BRAID_LAUNCH_FORWARD) braid_launch_option(p, "-DBYTES");
    braid_launch_output(p, 0);
  }
  braid_launch_output(p, 1);
  int64_t lines = m->lines, side = image_side(m, m->wide),
          padded = braid_launch_round_up(m->filters * m->conv.groups, kBytes);
  const int64_t first[] = {m->units,  lines,        braid_launch_ceil_div(lines, side), units_per_tile(m, m->wide),
                           m->blocks, m->all_blocks};
  const int64_t last[] = {m->fixed, padded, m->conv.groups, m->stages, m->slice, m->units, m->conv.batch, results};
  add_numbers(p, first, sizeof first / sizeof *first);
  add_geometry(p, m);
  add_numbers(p, last, sizeof last / sizeof *last);
  add_rounding(p);
  size_t group = p->traits->tensor == BRAID_LAUNCH_TENSOR_WARPGROUPS ? kGroup + 32 : kGroup;
  p->launch->local_bytes = (size_t)tile->slots * slot_bytes(tile);
  braid_launch_groups(p, braid_launch_round_up(image_tiles(m, m->wide), m->cluster), fixed_tiles(m, m->wide),
                      m->conv.groups * m->slices, group);
  if (joined) add_join(p, m, parts, results);
}

static braid_status tensor_plan(const braid_launch_traits *traits, const braid_node_desc *node,
                                braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_convolution conv;
  if (braid_launch_integer_conv(node, &conv) != BRAID_OK)
    return braid_fail(BRAID_INTERNAL, "a convolution that was not matched");
  const braid_desc *result = &node->outputs[0].desc;
  int64_t results = (int64_t)(braid_desc_bytes(result) / braid_dtype_size(result->dtype));
  tensor_product m = product_of(node, &conv);
  tensor_tile tile = choose_tile(traits, &m, results);
  braid_launch_plan_begin(&p, traits, node, recipe);
  braid_launch_piece zeros = reserve_words(&p, kZeros), image = {0}, fixed;
  bool filter = m.direction == BRAID_LAUNCH_BY_WEIGHTS;
  if (m.windows) image = add_windows(&p, &m);
  if (filter) {
    add_turned(&p, &m, &image, &fixed, zeros);
  } else {
    bool four = m.direction == BRAID_LAUNCH_BY_INPUTS || m.slices > 1;
    fixed = add_weights(&p, &m, four, zeros);
  }
  add_product(&p, &m, &tile, filter || m.windows ? &image : NULL, fixed, zeros, results);
  return braid_launch_plan_end(&p);
}

/* --- table ---------------------------------------------------------------------------------------------------------
 */
static bool tensor_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  braid_convolution conv;
  if (braid_launch_integer_conv(node, &conv) != BRAID_OK) return braid_launch_refuse(why, why_bytes, "geometry");
  if (conv.batch < kLeastBatch)
    return braid_launch_refuse(why, why_bytes, "%lld samples, tiles for tensor cores have %d or more",
                               (long long)conv.batch, kLeastBatch);
  if (conv.groups > 1 && (conv.inputs / conv.groups % kBytes || conv.outputs / conv.groups % kBytes))
    return braid_launch_refuse(why, why_bytes, "groups of %lld and %lld channels, tensor cores take them in %ds",
                               (long long)(conv.inputs / conv.groups), (long long)(conv.outputs / conv.groups), kBytes);
  if (braid_window_volume(&conv.window) > kMostTaps)
    return braid_launch_refuse(why, why_bytes, "windows of more than %d places", kMostTaps);
  return braid_launch_match_sizes(&conv, why, why_bytes);
}

static bool tensor_suits(const braid_launch_traits *traits, const braid_node_desc *node, char *why, size_t why_bytes) {
  if (traits->tensor == BRAID_LAUNCH_TENSOR_NONE)
    return braid_launch_refuse(why, why_bytes, "no tensor cores for bytes, or tensor=off");
  size_t needed = 2 * slot_bytes(&tiles_of(traits)[0]) + kStatic;
  if (traits->local_most < needed)
    return braid_launch_refuse(why, why_bytes, "tiles of %zu bytes, a group has %zu", needed, traits->local_most);
  return braid_launch_is_narrow(node) || braid_launch_refuse(why, why_bytes, "more elements than 32 bits count");
}

static void image_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  braid_convolution conv;
  braid_launch_direction direction = braid_launch_direction_of(node);
  bool few = braid_launch_integer_conv(node, &conv) == BRAID_OK && has_few_channels(direction, &conv);
  inputs[0] = few ? BRAID_LAYOUT_PLAIN : BRAID_LAUNCH_SAMPLES;
  inputs[1] = direction == BRAID_LAUNCH_BY_WEIGHTS ? BRAID_LAUNCH_SAMPLES : BRAID_LAYOUT_PLAIN;
  for (size_t i = 0; i < node->output_count; i++) outputs[i] = BRAID_LAYOUT_PLAIN;
  if (direction != BRAID_LAUNCH_BY_WEIGHTS) outputs[0] = BRAID_LAUNCH_SAMPLES;
}

static const braid_launch_kernel kProduct = {.plan = tensor_plan, .match = tensor_suits};

#define KERNEL(op_name, kernel)                                                                                        \
  { .op = op_name, .name = kernel, .match = tensor_match, .layouts = image_layouts, .implementation = &kProduct }
static const braid_kernel kKernels[] = {
    KERNEL("IntegerConv", "cuda_integer_conv_tensor"),
    KERNEL("IntegerConvGradInput", "cuda_integer_conv_grad_input_tensor"),
    KERNEL("IntegerConvGradFilter", "cuda_integer_conv_grad_filter_tensor"),
};

const braid_launch_family braid_cuda_tensor_family = {kKernels, sizeof kKernels / sizeof *kKernels, false};
