/* Conv and FusedConv. Kernels differ by the window (1x1, 3x3, one channel in a group, any) and by the algorithm:
 * products by tiles in local memory, in three sizes; flat images in the registers of a CPU; a work-item for each
 * output. */
#include "launch/convolution.h"
#include "launch/families.h"

typedef enum algorithm {
  ALGORITHM_LARGE = BRAID_LAUNCH_TILES_LARGE,
  ALGORITHM_MEDIUM = BRAID_LAUNCH_TILES_MEDIUM,
  ALGORITHM_SMALL = BRAID_LAUNCH_TILES_SMALL,
  ALGORITHM_STRIPS,
  ALGORITHM_FLAT,
  ALGORITHM_DIRECT,
} algorithm;

typedef struct variant {
  algorithm algorithm;
  braid_launch_taps taps;
  bool depthwise;
} variant;

enum { kDepthwiseRows = 3, kDepthwiseVectors = 4, kStripBytes = 16384 };

static bool conv_read(const braid_node_desc *node, braid_convolution *conv) {
  return braid_geometry_conv(node->attrs, &node->inputs[0].desc, &node->inputs[1].desc, conv) == BRAID_OK;
}

/* Lines of outputs whose inputs fit into a strip (see conv.cl); *line: elements of a phase of one. 0: not even one. */
static int64_t strip_of(const braid_convolution *conv, int64_t *line) {
  const braid_window *w = &conv->window;
  int64_t seen = (w->output[2] - 1) * w->stride[2] + (w->kernel[2] - 1) * w->dilation[2] + 1;
  *line = (seen + w->stride[2] - 1) / w->stride[2];
  int64_t lines = kStripBytes / (int64_t)sizeof(float) / (*line * w->stride[2]);
  int64_t below = (w->kernel[1] - 1) * w->dilation[1] + 1;
  if (lines < below) return 0;
  int64_t strip = (lines - below) / w->stride[1] + 1;
  return strip < w->output[1] ? strip : w->output[1];
}

/* Are the columns of the product elements of the image, in their order? */
static bool is_the_image(const braid_window *w) {
  bool is = braid_window_volume(w) == 1;
  for (int d = 0; d < BRAID_WINDOW_RANK; d++)
    is &= w->stride[d] == 1 && w->begin[d] == 0 && w->input[d] == w->output[d];
  return is;
}

/* Rows are output channels of a group, columns outputs of the batch. */
static braid_launch_tiling conv_tiling(const braid_convolution *conv) {
  const braid_window *w = &conv->window;
  int64_t outputs = braid_window_outputs(w), inner = conv->inputs / conv->groups * braid_window_volume(w);
  return (braid_launch_tiling){.rows = conv->outputs / conv->groups,
                               .columns = conv->batch * outputs,
                               .inner = inner,
                               .batches = conv->groups,
                               .left_fours = inner % 4 == 0,
                               .right_fours = outputs % 4 == 0 && is_the_image(w),
                               .windows = !is_the_image(w)};
}

/* --- matching ------------------------------------------------------------------------------------------------------
 */
static bool conv_allows(variant v, const braid_node_desc *node, char *why, size_t why_bytes) {
  braid_convolution conv;
  if (!braid_launch_match_float(node, why, why_bytes) || !braid_launch_match_activation(node, why, why_bytes))
    return false;
  if (!conv_read(node, &conv)) return braid_launch_refuse(why, why_bytes, "geometry");
  if (v.depthwise && conv.inputs != conv.groups)
    return braid_launch_refuse(why, why_bytes, "%lld input channels in a group, not one",
                               (long long)(conv.inputs / conv.groups));
  if (v.algorithm == ALGORITHM_FLAT && braid_window_volume(&conv.window) > BRAID_LAUNCH_MOST_TAPS)
    return braid_launch_refuse(why, why_bytes, "a window of more than %d taps", BRAID_LAUNCH_MOST_TAPS);
  int64_t line;
  if (v.algorithm == ALGORITHM_STRIPS && (conv.window.kernel[0] != 1 || conv.window.input[0] != 1 ||
                                          conv.window.output[0] != 1 || braid_window_outputs(&conv.window) == 0))
    return braid_launch_refuse(why, why_bytes, "images of three dimensions, or of nothing");
  if (v.algorithm == ALGORITHM_STRIPS && strip_of(&conv, &line) == 0)
    return braid_launch_refuse(why, why_bytes, "a line of outputs looks at more than %d bytes", kStripBytes);
  return braid_launch_match_taps(&conv.window, v.taps, why, why_bytes) &&
         braid_launch_match_sizes(&conv, why, why_bytes);
}

/* Flat images do not pay where a group has too few output channels to fill a panel, unless that is all there is. */
static bool conv_suits(variant v, const braid_launch_traits *traits, const braid_node_desc *node, char *why,
                       size_t why_bytes) {
  braid_convolution conv;
  if (!conv_read(node, &conv)) return braid_launch_refuse(why, why_bytes, "geometry");
  int64_t per_out = conv.outputs / conv.groups;
  bool depthwise = conv.inputs == conv.groups && per_out <= kDepthwiseRows;
  if (v.algorithm == ALGORITHM_STRIPS && !traits->cpu)
    return braid_launch_refuse(why, why_bytes, "strips are for CPUs");
  if (v.algorithm == ALGORITHM_FLAT && !traits->cpu)
    return braid_launch_refuse(why, why_bytes, "flat images are for CPUs");
  if (v.algorithm == ALGORITHM_FLAT && v.depthwise && per_out > kDepthwiseRows)
    return braid_launch_refuse(why, why_bytes, "%lld output channels in a group fill panels", (long long)per_out);
  if (v.algorithm == ALGORITHM_DIRECT && v.depthwise && traits->cpu)
    return braid_launch_refuse(why, why_bytes, "flat images are faster on a CPU");
  if (v.algorithm >= ALGORITHM_STRIPS) return true;
  if (depthwise) return braid_launch_refuse(why, why_bytes, "one channel in a group leaves tiles empty");
  braid_launch_tiling tiling = conv_tiling(&conv);
  return braid_launch_tiles_fit(traits, (braid_launch_algorithm)v.algorithm, &tiling, why, why_bytes);
}

/* --- planning ------------------------------------------------------------------------------------------------------
 */
static void conv_add_options(braid_launch_planner *p) {
  if (braid_launch_has_input(p->node, 2)) braid_launch_option(p, "-DBIAS");
  if (braid_launch_has_input(p->node, 3)) braid_launch_option(p, "-DADDED");
  braid_launch_add_activation(p, p->node->attrs);
}

static void conv_add_operands(braid_launch_planner *p) {
  braid_launch_input(p, 2);
  braid_launch_input(p, 3);
  braid_launch_output(p, 0);
}

static void add_numbers(braid_launch_planner *p) {
  double first, second;
  braid_launch_activation_numbers(p->node->attrs, &first, &second);
  braid_launch_float(p, first);
  braid_launch_float(p, second);
}

static void conv_begin(braid_launch_planner *p, variant v, const char *function) {
  braid_launch_begin(p, "conv", function);
  braid_launch_add_taps(p, v.taps);
  if (v.depthwise) braid_launch_option(p, "-DDEPTHWISE");
}

static void add_tap_counts(braid_launch_planner *p, const braid_window *w) {
  braid_launch_option(p, "-DTAP_COUNT_0=%lld -DTAP_COUNT_1=%lld -DTAP_COUNT_2=%lld", (long long)w->kernel[0],
                      (long long)w->kernel[1], (long long)w->kernel[2]);
}

static void add_flat(braid_launch_planner *p, variant v, const braid_convolution *conv) {
  braid_launch_panel panel = braid_launch_panel_of(p->traits);
  if (v.depthwise) panel.rows = 1, panel.vectors = kDepthwiseVectors;
  int64_t width = panel.vectors * panel.width;
  braid_launch_flat flat = braid_launch_flat_of(conv, 0, width);
  braid_launch_add_flat(p, conv, v.taps, &flat);
  braid_launch_place weights = {.kind = BRAID_LAUNCH_INPUT, .index = 1};
  if (panel.rows > 1)
    weights = (braid_launch_place){.kind = BRAID_LAUNCH_PIECE, .piece = braid_launch_pack_weights(p, conv, 1, &panel)};
  int64_t panels = (conv->outputs / conv->groups + panel.rows - 1) / panel.rows, images = conv->batch * conv->groups;
  int64_t runs = (flat.runs + width - 1) / width, chunk = braid_launch_chunk(p->traits, panels, runs * images);
  conv_begin(p, v, "flat");
  braid_launch_add_panel(p, &panel);
  conv_add_options(p);
  braid_launch_add_place(p, &flat.place);
  braid_launch_add_place(p, &weights);
  conv_add_operands(p);
  braid_launch_add_sizes(p, conv);
  braid_launch_add_lines(p, &flat);
  braid_launch_index(p, chunk);
  braid_launch_index(p, flat.total);
  add_numbers(p);
  braid_launch_groups(p, (panels + chunk - 1) / chunk, runs, images, 1);
}

static void add_strips(braid_launch_planner *p, variant v, const braid_convolution *conv) {
  const braid_window *w = &conv->window;
  int64_t line, strip = strip_of(conv, &line), lanes = p->traits->vector_width >= 16 ? 16 : 8;
  while (lanes > w->output[2]) lanes /= 2;
  conv_begin(p, v, "depthwise_strips");
  braid_launch_option(p, "-DSTRIP_BYTES=%d -DLANES=%lld -DSTRIDE=%lld -DDILATION=%lld", kStripBytes, (long long)lanes,
                      (long long)w->stride[2], (long long)w->dilation[2]);
  add_tap_counts(p, w);
  conv_add_options(p);
  braid_launch_input(p, 0);
  braid_launch_input(p, 1);
  conv_add_operands(p);
  braid_launch_add_sizes(p, conv);
  braid_launch_index(p, strip);
  braid_launch_index(p, line);
  add_numbers(p);
  braid_launch_groups(p, (w->output[1] + strip - 1) / strip, conv->outputs, conv->batch, 1);
}

static void add_tile_options(braid_launch_planner *p, const braid_convolution *conv, const braid_launch_tile *tile,
                             const braid_launch_tiling *tiling) {
  const braid_window *w = &conv->window;
  braid_launch_add_tile(p, tile);
  add_tap_counts(p, w);
  braid_launch_option(p, "-DLEFT_ALONG_K");
  if (tiling->left_fours && braid_launch_loads_fours(tile, tile->rows)) braid_launch_option(p, "-DLEFT_FOUR");
  if (tiling->right_fours && braid_launch_loads_fours(tile, tile->columns) &&
      tile->group * 4 % (size_t)tile->columns == 0)
    braid_launch_option(p, "-DRIGHT_FOUR");
  if (tile->work_columns >= 4 && braid_window_outputs(w) % 4 == 0) braid_launch_option(p, "-DOUT_FOUR");
}

static void conv_add_join(braid_launch_planner *p, const braid_convolution *conv, braid_launch_piece parts,
                          int64_t slices) {
  int64_t total = braid_desc_count(&p->node->outputs[0].desc);
  braid_launch_begin(p, "conv", "join_slices");
  conv_add_options(p);
  braid_launch_workspace(p, parts);
  conv_add_operands(p);
  braid_launch_index(p, total);
  braid_launch_index(p, braid_window_outputs(&conv->window));
  braid_launch_index(p, conv->outputs);
  braid_launch_index(p, slices);
  add_numbers(p);
  braid_launch_range(p, total);
}

static void conv_add_tiles(braid_launch_planner *p, variant v, const braid_convolution *conv) {
  braid_launch_tiling tiling = conv_tiling(conv);
  braid_launch_tile tile = braid_launch_tile_of(p->traits, (braid_launch_algorithm)v.algorithm, tiling.windows);
  int64_t across = (tiling.columns + tile.columns - 1) / tile.columns, down = (tiling.rows + tile.rows - 1) / tile.rows;
  int64_t slice, slices = braid_launch_slices(p->traits, &tile, &tiling, &slice);
  braid_launch_piece parts = {0};
  if (slices > 1) {
    int64_t total = braid_desc_count(&p->node->outputs[0].desc);
    parts = braid_launch_reserve(p, slices, total, sizeof(float));
    p->wide |= total > INT32_MAX / 2 / slices;
  }
  conv_begin(p, v, "tiles");
  add_tile_options(p, conv, &tile, &tiling);
  if (slices > 1)
    braid_launch_option(p, "-DSLICED");
  else
    conv_add_options(p);
  braid_launch_input(p, 0);
  braid_launch_input(p, 1);
  braid_launch_input(p, 2);
  braid_launch_input(p, 3);
  if (slices > 1)
    braid_launch_workspace(p, parts);
  else
    braid_launch_output(p, 0);
  braid_launch_add_sizes(p, conv);
  braid_launch_index(p, slices);
  braid_launch_index(p, slice);
  add_numbers(p);
  braid_launch_groups(p, across, down, conv->groups * slices, tile.group);
  if (slices > 1) conv_add_join(p, conv, parts, slices);
}

static void add_direct(braid_launch_planner *p, variant v, const braid_convolution *conv) {
  conv_begin(p, v, "direct");
  conv_add_options(p);
  braid_launch_input(p, 0);
  braid_launch_input(p, 1);
  conv_add_operands(p);
  braid_launch_add_sizes(p, conv);
  add_numbers(p);
  braid_launch_range(p, braid_desc_count(&p->node->outputs[0].desc));
}

/* Padding enlarges images. */
static bool conv_is_wide(const braid_convolution *conv) {
  return braid_launch_flat_of(conv, 0, 0).total > INT32_MAX / 2;
}

static braid_status conv_plan(variant v, const braid_launch_traits *traits, const braid_node_desc *node,
                              braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_convolution conv;
  if (!conv_read(node, &conv)) return braid_fail(BRAID_INTERNAL, "a convolution that was not matched");
  braid_launch_plan_begin(&p, traits, node, recipe);
  p.wide |= conv_is_wide(&conv);
  if (v.algorithm == ALGORITHM_STRIPS)
    add_strips(&p, v, &conv);
  else if (v.algorithm == ALGORITHM_FLAT)
    add_flat(&p, v, &conv);
  else if (v.algorithm == ALGORITHM_DIRECT)
    add_direct(&p, v, &conv);
  else
    conv_add_tiles(&p, v, &conv);
  return braid_launch_plan_end(&p);
}

/* --- table ---------------------------------------------------------------------------------------------------------
 */
BRAID_LAUNCH_VARIANT(conv, strips_depthwise, ALGORITHM_STRIPS, BRAID_LAUNCH_TAPS_ANY, true)
BRAID_LAUNCH_VARIANT(conv, flat_depthwise, ALGORITHM_FLAT, BRAID_LAUNCH_TAPS_ANY, true)
BRAID_LAUNCH_VARIANT(conv, flat_1x1, ALGORITHM_FLAT, BRAID_LAUNCH_TAPS_1X1, false)
BRAID_LAUNCH_VARIANT(conv, flat_3x3, ALGORITHM_FLAT, BRAID_LAUNCH_TAPS_3X3, false)
BRAID_LAUNCH_VARIANT(conv, flat, ALGORITHM_FLAT, BRAID_LAUNCH_TAPS_ANY, false)
BRAID_LAUNCH_VARIANT(conv, depthwise, ALGORITHM_DIRECT, BRAID_LAUNCH_TAPS_ANY, true)
BRAID_LAUNCH_VARIANT(conv, large_1x1, ALGORITHM_LARGE, BRAID_LAUNCH_TAPS_1X1, false)
BRAID_LAUNCH_VARIANT(conv, medium_1x1, ALGORITHM_MEDIUM, BRAID_LAUNCH_TAPS_1X1, false)
BRAID_LAUNCH_VARIANT(conv, small_1x1, ALGORITHM_SMALL, BRAID_LAUNCH_TAPS_1X1, false)
BRAID_LAUNCH_VARIANT(conv, large_3x3, ALGORITHM_LARGE, BRAID_LAUNCH_TAPS_3X3, false)
BRAID_LAUNCH_VARIANT(conv, medium_3x3, ALGORITHM_MEDIUM, BRAID_LAUNCH_TAPS_3X3, false)
BRAID_LAUNCH_VARIANT(conv, small_3x3, ALGORITHM_SMALL, BRAID_LAUNCH_TAPS_3X3, false)
BRAID_LAUNCH_VARIANT(conv, large, ALGORITHM_LARGE, BRAID_LAUNCH_TAPS_ANY, false)
BRAID_LAUNCH_VARIANT(conv, medium, ALGORITHM_MEDIUM, BRAID_LAUNCH_TAPS_ANY, false)
BRAID_LAUNCH_VARIANT(conv, small, ALGORITHM_SMALL, BRAID_LAUNCH_TAPS_ANY, false)
BRAID_LAUNCH_VARIANT(conv, direct, ALGORITHM_DIRECT, BRAID_LAUNCH_TAPS_ANY, false)

#define KERNEL(op_name, kernel, stem)                                                                                  \
  { .op = op_name, .name = kernel, .match = conv_allows_##stem, .implementation = &k_##stem }
#define KERNELS(op_name)                                                                                               \
  KERNEL(op_name, "conv_depthwise_strips", strips_depthwise), KERNEL(op_name, "conv_depthwise_flat", flat_depthwise),  \
      KERNEL(op_name, "conv_1x1_flat", flat_1x1), KERNEL(op_name, "conv_3x3_flat", flat_3x3),                          \
      KERNEL(op_name, "conv_flat", flat), KERNEL(op_name, "conv_depthwise", depthwise),                                \
      KERNEL(op_name, "conv_1x1_tiles_large", large_1x1), KERNEL(op_name, "conv_1x1_tiles_medium", medium_1x1),        \
      KERNEL(op_name, "conv_1x1_tiles_small", small_1x1), KERNEL(op_name, "conv_3x3_tiles_large", large_3x3),          \
      KERNEL(op_name, "conv_3x3_tiles_medium", medium_3x3), KERNEL(op_name, "conv_3x3_tiles_small", small_3x3),        \
      KERNEL(op_name, "conv_tiles_large", large), KERNEL(op_name, "conv_tiles_medium", medium),                        \
      KERNEL(op_name, "conv_tiles_small", small), KERNEL(op_name, "conv", direct)

static const braid_kernel kKernels[] = {KERNELS("Conv"), KERNELS("FusedConv")};

const braid_launch_family braid_launch_family_conv = {kKernels, sizeof kKernels / sizeof *kKernels, true};
