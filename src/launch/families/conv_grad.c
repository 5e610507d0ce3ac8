/* ConvGradInput and ConvGradFilter: by tiles in local memory, over flat images on CPUs, or plainly. Sums over the batch
 * go by slices, whose number follows from the shape, and which are added in order. */
#include <string.h>

#include "launch/convolution.h"
#include "launch/families.h"

typedef enum algorithm {
  ALGORITHM_LARGE = BRAID_LAUNCH_TILES_LARGE,
  ALGORITHM_MEDIUM = BRAID_LAUNCH_TILES_MEDIUM,
  ALGORITHM_SMALL = BRAID_LAUNCH_TILES_SMALL,
  ALGORITHM_FLAT,
  ALGORITHM_DIRECT,
} algorithm;

typedef struct variant {
  bool by_inputs;
  algorithm algorithm;
  braid_launch_taps taps;
} variant;

enum { kSlicesWanted = 512, kLeastSlice = 256, kMostSlices = 64 };

static bool conv_grad_read(const braid_node_desc *node, braid_convolution *conv) {
  const braid_desc *a = &node->inputs[0].desc, *b = &node->inputs[1].desc;
  bool by_inputs = strcmp(node->op, "ConvGradInput") == 0;
  return (by_inputs ? braid_geometry_conv_grad_input(node->attrs, a, b, conv)
                    : braid_geometry_conv_grad_filter(node->attrs, a, b, conv)) == BRAID_OK;
}

/* --- matching ------------------------------------------------------------------------------------------------------
 */
static bool conv_grad_allows(variant v, const braid_node_desc *node, char *why, size_t why_bytes) {
  braid_convolution conv;
  if (!braid_launch_match_float(node, why, why_bytes)) return false;
  if (!conv_grad_read(node, &conv)) return braid_launch_refuse(why, why_bytes, "geometry");
  if (v.algorithm == ALGORITHM_FLAT && braid_window_volume(&conv.window) > BRAID_LAUNCH_MOST_TAPS)
    return braid_launch_refuse(why, why_bytes, "a window of more than %d taps", BRAID_LAUNCH_MOST_TAPS);
  return braid_launch_match_taps(&conv.window, v.taps, why, why_bytes) &&
         braid_launch_match_sizes(&conv, why, why_bytes);
}

/* The product that the gradient is: its rows and columns, for each group. */
static int64_t rows_of(const braid_convolution *conv, bool by_inputs) {
  return (by_inputs ? conv->inputs : conv->outputs) / conv->groups;
}

static int64_t columns_of(const braid_convolution *conv, bool by_inputs) {
  if (by_inputs) return conv->batch * braid_window_inputs(&conv->window);
  return conv->inputs / conv->groups * braid_window_volume(&conv->window);
}

/* Slices of the sum over all outputs, so that there is work for all, by the shape alone. */
static int64_t conv_grad_slices(const braid_convolution *conv, const braid_launch_tile *tile) {
  int64_t inner = conv->batch * braid_window_outputs(&conv->window);
  int64_t tiles = braid_launch_ceil_div(rows_of(conv, false), tile->rows) *
                  braid_launch_ceil_div(columns_of(conv, false), tile->columns);
  int64_t slices = braid_launch_ceil_div(kSlicesWanted, tiles * conv->groups), most = inner / kLeastSlice + 1;
  if (slices > most) slices = most;
  return slices < kMostSlices ? slices : kMostSlices;
}

static bool conv_grad_suits(variant v, const braid_launch_traits *traits, const braid_node_desc *node, char *why,
                            size_t why_bytes) {
  braid_convolution conv;
  if (!conv_grad_read(node, &conv)) return braid_launch_refuse(why, why_bytes, "geometry");
  if (v.algorithm == ALGORITHM_FLAT)
    return traits->cpu || braid_launch_refuse(why, why_bytes, "flat images are for CPUs");
  if (v.algorithm == ALGORITHM_DIRECT) return true;
  if (conv.inputs == conv.groups && conv.outputs == conv.groups)
    return braid_launch_refuse(why, why_bytes, "one channel in a group leaves tiles empty");
  braid_launch_tile tile = braid_launch_tile_of(traits, (braid_launch_algorithm)v.algorithm, true);
  int64_t slices = v.by_inputs ? 1 : conv_grad_slices(&conv, &tile);
  return braid_launch_tiles_fill(traits, (braid_launch_algorithm)v.algorithm, rows_of(&conv, v.by_inputs),
                                 columns_of(&conv, v.by_inputs), conv.groups * slices, why, why_bytes);
}

/* --- by inputs -----------------------------------------------------------------------------------------------------
 */
static void conv_grad_begin(braid_launch_planner *p, variant v, const char *function) {
  braid_launch_begin(p, "conv_grad", function);
  braid_launch_add_taps(p, v.taps);
  if (v.by_inputs) braid_launch_option(p, "-DBY_INPUTS");
}

/* The flat gradient: lines of outputs with a margin before them, see conv_grad.cl. *classed: places of a class from the
 * first to the last. */
static braid_launch_flat flat_gradient(const braid_convolution *conv, int64_t width, braid_convolution *as_input,
                                       int64_t *classed) {
  const braid_window *w = &conv->window;
  braid_launch_flat flat = {.plane = 1, .place = {.kind = BRAID_LAUNCH_INPUT, .index = 0}};
  int64_t places[BRAID_WINDOW_RANK];
  *as_input = *conv;
  as_input->inputs = conv->outputs;
  for (int d = 0; d < BRAID_WINDOW_RANK; d++) {
    int64_t margin = (w->kernel[d] - 1) * w->dilation[d] / w->stride[d];
    places[d] = (w->input[d] - 1 + w->begin[d]) / w->stride[d] + 1;
    flat.lines[d] = margin + places[d];
    flat.plane *= flat.lines[d];
    as_input->window.input[d] = w->output[d];
    as_input->window.stride[d] = 1;
    as_input->window.begin[d] = margin;
  }
  *classed = ((places[0] - 1) * flat.lines[1] + places[1] - 1) * flat.lines[2] + places[2];
  flat.total = conv->batch * conv->outputs * flat.plane + flat.plane + width;
  return flat;
}

static void add_input_flat(braid_launch_planner *p, variant v, const braid_convolution *conv) {
  braid_launch_panel panel = braid_launch_panel_of(p->traits);
  braid_convolution as_input;
  int64_t classed, width = panel.vectors * panel.width, per_in = conv->inputs / conv->groups;
  braid_launch_flat flat = flat_gradient(conv, width, &as_input, &classed);
  braid_launch_add_flat(p, &as_input, v.taps, &flat);
  int64_t panels = braid_launch_ceil_div(per_in, panel.rows), per_out = conv->outputs / conv->groups;
  braid_launch_piece packed = braid_launch_reserve(p, conv->groups * panels * panel.rows,
                                                   per_out * braid_window_volume(&conv->window), sizeof(float));
  conv_grad_begin(p, v, "pack_classes");
  braid_launch_add_panel(p, &panel);
  braid_launch_input(p, 1);
  braid_launch_workspace(p, packed);
  braid_launch_add_sizes(p, conv);
  braid_launch_groups(p, panels, per_out, conv->groups, 1);
  const int64_t *stride = conv->window.stride;
  int64_t others = conv->batch * conv->groups * stride[0] * stride[1] * stride[2],
          runs = braid_launch_ceil_div(classed, width);
  int64_t chunk = braid_launch_chunk(p->traits, panels, runs * others);
  conv_grad_begin(p, v, "input_flat");
  braid_launch_add_panel(p, &panel);
  braid_launch_add_place(p, &flat.place);
  braid_launch_workspace(p, packed);
  braid_launch_output(p, 0);
  braid_launch_add_sizes(p, conv);
  braid_launch_add_lines(p, &flat);
  braid_launch_index(p, chunk);
  braid_launch_index(p, flat.total);
  braid_launch_groups(p, braid_launch_ceil_div(panels, chunk), runs, others, 1);
}

static void add_input_tiles(braid_launch_planner *p, variant v, const braid_convolution *conv) {
  braid_launch_tile tile = braid_launch_tile_of(p->traits, (braid_launch_algorithm)v.algorithm, true);
  conv_grad_begin(p, v, "input_tiles");
  braid_launch_add_tile(p, &tile);
  braid_launch_input(p, 0);
  braid_launch_input(p, 1);
  braid_launch_output(p, 0);
  braid_launch_add_sizes(p, conv);
  braid_launch_groups(p, braid_launch_ceil_div(columns_of(conv, true), tile.columns),
                      braid_launch_ceil_div(rows_of(conv, true), tile.rows), conv->groups, tile.group);
}

static void add_input_direct(braid_launch_planner *p, variant v, const braid_convolution *conv) {
  conv_grad_begin(p, v, "input_direct");
  braid_launch_input(p, 0);
  braid_launch_input(p, 1);
  braid_launch_output(p, 0);
  braid_launch_add_sizes(p, conv);
  braid_launch_range(p, braid_desc_count(&p->node->outputs[0].desc));
}

/* --- by weights ----------------------------------------------------------------------------------------------------
 */
/* Where a launch of `slices` slices writes, and, after it, what adds them up. */
static braid_launch_place parts_for(braid_launch_planner *p, int64_t slices) {
  int64_t count = braid_desc_count(&p->node->outputs[0].desc);
  if (slices == 1) return (braid_launch_place){.kind = BRAID_LAUNCH_OUTPUT};
  return (braid_launch_place){.kind = BRAID_LAUNCH_PIECE,
                              .piece = braid_launch_reserve(p, slices, count, sizeof(float))};
}

static void add_slices(braid_launch_planner *p, const braid_launch_place *parts, int64_t slices) {
  int64_t count = braid_desc_count(&p->node->outputs[0].desc);
  if (slices == 1) return;
  braid_launch_begin(p, "conv_grad", "add_slices");
  braid_launch_add_place(p, parts);
  braid_launch_output(p, 0);
  braid_launch_index(p, count);
  braid_launch_index(p, slices);
  braid_launch_range(p, count);
}

/* The gradient on the lines of the flat input, zeros behind its own. */
static braid_launch_flat flat_lines(const braid_convolution *conv, const braid_launch_flat *of_x,
                                    braid_convolution *as_input) {
  const braid_window *w = &conv->window;
  braid_launch_flat flat = {.place = {.kind = BRAID_LAUNCH_INPUT, .index = 1}};
  *as_input = *conv;
  as_input->inputs = conv->outputs;
  for (int d = 0; d < BRAID_WINDOW_RANK; d++) {
    flat.lines[d] = d ? of_x->lines[d] : w->output[0];
    as_input->window.input[d] = w->output[d];
    as_input->window.stride[d] = 1;
    as_input->window.begin[d] = 0;
  }
  flat.as_it_is = flat.lines[2] == w->output[2] && (w->output[0] == 1 || flat.lines[1] == w->output[1]);
  if (flat.as_it_is) flat.lines[1] = w->output[1];
  flat.plane = flat.lines[0] * flat.lines[1] * flat.lines[2];
  flat.total = conv->batch * conv->outputs * flat.plane;
  return flat;
}

static void add_filter_flat(braid_launch_planner *p, variant v, const braid_convolution *conv) {
  braid_launch_panel panel = braid_launch_panel_of(p->traits);
  braid_convolution as_input;
  braid_launch_flat x = braid_launch_flat_of(conv, 0, 0), dy = flat_lines(conv, &x, &as_input);
  braid_launch_add_flat(p, conv, v.taps, &x);
  braid_launch_add_flat(p, &as_input, v.taps, &dy);
  int64_t dot_m = panel.width >= 16 ? 4 : 3, dot_n = panel.width >= 16 ? 6 : 4;
  int64_t across = braid_launch_ceil_div(columns_of(conv, false), dot_n),
          down = braid_launch_ceil_div(rows_of(conv, false), dot_m);
  int64_t slices = braid_launch_ceil_div(64, across * down * conv->groups);
  if (slices > conv->batch) slices = conv->batch;
  int64_t slice = braid_launch_ceil_div(conv->batch, slices);
  slices = braid_launch_ceil_div(conv->batch, slice);
  braid_launch_place parts = parts_for(p, slices);
  conv_grad_begin(p, v, "filter_dots");
  braid_launch_add_panel(p, &panel);
  braid_launch_option(p, "-DDOT_M=%lld -DDOT_N=%lld", (long long)dot_m, (long long)dot_n);
  braid_launch_add_place(p, &x.place);
  braid_launch_add_place(p, &dy.place);
  braid_launch_add_place(p, &parts);
  braid_launch_add_sizes(p, conv);
  braid_launch_add_lines(p, &x);
  braid_launch_index(p, x.runs);
  braid_launch_index(p, dy.plane);
  braid_launch_index(p, slice);
  braid_launch_groups(p, across, down, conv->groups * slices, 1);
  add_slices(p, &parts, slices);
}

static void add_filter_tiles(braid_launch_planner *p, variant v, const braid_convolution *conv) {
  braid_launch_tile tile = braid_launch_tile_of(p->traits, (braid_launch_algorithm)v.algorithm, true);
  int64_t slices = conv_grad_slices(conv, &tile), inner = conv->batch * braid_window_outputs(&conv->window);
  int64_t slice = braid_launch_ceil_div(inner, slices);
  braid_launch_place parts = parts_for(p, slices);
  conv_grad_begin(p, v, "filter_tiles");
  braid_launch_add_tile(p, &tile);
  braid_launch_option(p, "-DLEFT_ALONG_K");
  braid_launch_input(p, 0);
  braid_launch_input(p, 1);
  braid_launch_add_place(p, &parts);
  braid_launch_add_sizes(p, conv);
  braid_launch_index(p, slice);
  braid_launch_groups(p, braid_launch_ceil_div(columns_of(conv, false), tile.columns),
                      braid_launch_ceil_div(rows_of(conv, false), tile.rows), conv->groups * slices, tile.group);
  add_slices(p, &parts, slices);
}

static void add_filter_direct(braid_launch_planner *p, variant v, const braid_convolution *conv) {
  size_t group = 1; /* a power of two, for the tree */
  while (!p->traits->cpu && 2 * group <= braid_launch_group(p->traits)) group *= 2;
  conv_grad_begin(p, v, "filter_direct");
  braid_launch_input(p, 0);
  braid_launch_input(p, 1);
  braid_launch_output(p, 0);
  braid_launch_add_sizes(p, conv);
  braid_launch_groups(p, braid_desc_count(&p->node->outputs[0].desc), 1, 1, group);
}

/* --- table ---------------------------------------------------------------------------------------------------------
 */
static bool conv_grad_is_wide(const braid_convolution *conv) {
  braid_convolution as_input;
  int64_t classed;
  return flat_gradient(conv, 0, &as_input, &classed).total > INT32_MAX / 2 ||
         braid_launch_flat_of(conv, 0, 0).total > INT32_MAX / 2;
}

static braid_status conv_grad_plan(variant v, const braid_launch_traits *traits, const braid_node_desc *node,
                                   braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_convolution conv;
  if (!conv_grad_read(node, &conv)) return braid_fail(BRAID_INTERNAL, "a convolution that was not matched");
  braid_launch_plan_begin(&p, traits, node, recipe);
  p.wide |= conv_grad_is_wide(&conv);
  if (v.algorithm == ALGORITHM_FLAT)
    (v.by_inputs ? add_input_flat : add_filter_flat)(&p, v, &conv);
  else if (v.algorithm == ALGORITHM_DIRECT)
    (v.by_inputs ? add_input_direct : add_filter_direct)(&p, v, &conv);
  else
    (v.by_inputs ? add_input_tiles : add_filter_tiles)(&p, v, &conv);
  return braid_launch_plan_end(&p);
}

#define ALGORITHMS(stem, by_inputs)                                                                                    \
  BRAID_LAUNCH_VARIANT(conv_grad, stem##_flat, by_inputs, ALGORITHM_FLAT, BRAID_LAUNCH_TAPS_ANY)                       \
  BRAID_LAUNCH_VARIANT(conv_grad, stem##_large_1x1, by_inputs, ALGORITHM_LARGE, BRAID_LAUNCH_TAPS_1X1)                 \
  BRAID_LAUNCH_VARIANT(conv_grad, stem##_medium_1x1, by_inputs, ALGORITHM_MEDIUM, BRAID_LAUNCH_TAPS_1X1)               \
  BRAID_LAUNCH_VARIANT(conv_grad, stem##_small_1x1, by_inputs, ALGORITHM_SMALL, BRAID_LAUNCH_TAPS_1X1)                 \
  BRAID_LAUNCH_VARIANT(conv_grad, stem##_large_3x3, by_inputs, ALGORITHM_LARGE, BRAID_LAUNCH_TAPS_3X3)                 \
  BRAID_LAUNCH_VARIANT(conv_grad, stem##_medium_3x3, by_inputs, ALGORITHM_MEDIUM, BRAID_LAUNCH_TAPS_3X3)               \
  BRAID_LAUNCH_VARIANT(conv_grad, stem##_small_3x3, by_inputs, ALGORITHM_SMALL, BRAID_LAUNCH_TAPS_3X3)                 \
  BRAID_LAUNCH_VARIANT(conv_grad, stem##_large, by_inputs, ALGORITHM_LARGE, BRAID_LAUNCH_TAPS_ANY)                     \
  BRAID_LAUNCH_VARIANT(conv_grad, stem##_medium, by_inputs, ALGORITHM_MEDIUM, BRAID_LAUNCH_TAPS_ANY)                   \
  BRAID_LAUNCH_VARIANT(conv_grad, stem##_small, by_inputs, ALGORITHM_SMALL, BRAID_LAUNCH_TAPS_ANY)                     \
  BRAID_LAUNCH_VARIANT(conv_grad, stem##_direct, by_inputs, ALGORITHM_DIRECT, BRAID_LAUNCH_TAPS_ANY)
ALGORITHMS(input, true)
ALGORITHMS(filter, false)

#define KERNEL(op_name, kernel, stem)                                                                                  \
  { .op = op_name, .name = kernel, .match = conv_grad_allows_##stem, .implementation = &k_##stem }
#define KERNELS(op_name, kernel, stem)                                                                                 \
  KERNEL(op_name, kernel "_flat", stem##_flat), KERNEL(op_name, kernel "_1x1_tiles_large", stem##_large_1x1),          \
      KERNEL(op_name, kernel "_1x1_tiles_medium", stem##_medium_1x1),                                                  \
      KERNEL(op_name, kernel "_1x1_tiles_small", stem##_small_1x1),                                                    \
      KERNEL(op_name, kernel "_3x3_tiles_large", stem##_large_3x3),                                                    \
      KERNEL(op_name, kernel "_3x3_tiles_medium", stem##_medium_3x3),                                                  \
      KERNEL(op_name, kernel "_3x3_tiles_small", stem##_small_3x3),                                                    \
      KERNEL(op_name, kernel "_tiles_large", stem##_large), KERNEL(op_name, kernel "_tiles_medium", stem##_medium),    \
      KERNEL(op_name, kernel "_tiles_small", stem##_small), KERNEL(op_name, kernel, stem##_direct)

static const braid_kernel kKernels[] = {KERNELS("ConvGradInput", "conv_grad_input", input),
                                        KERNELS("ConvGradFilter", "conv_grad_filter", filter)};

const braid_launch_family braid_launch_family_conv_grad = {kKernels, sizeof kKernels / sizeof *kKernels, true};
