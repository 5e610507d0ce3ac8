#include "launch/channels.h"

#include <string.h>

enum { kLanes = 8, kEight = 8, kGroup = 256, kRowsOfSlice = 256, kMostSlices = 256, kGroups = 512, kMostTile = 16 };

/* --- layouts -------------------------------------------------------------------------------------------------------
 */
static bool is_image(const braid_operand *operand) {
  return operand->present && operand->desc.rank == 4;
}

static bool has_eights(const braid_operand *operand) {
  return is_image(operand) && braid_launch_is_real(operand->desc.dtype) && operand->desc.dims[1] % kEight == 0 &&
         operand->desc.dims[1] > 0;
}

void braid_launch_follow_channels(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  bool last = false, fits = true;
  for (size_t i = 0; i < node->input_count; i++) {
    if (!is_image(&node->inputs[i]) || !braid_dtype_is_float(node->inputs[i].desc.dtype)) continue;
    last |= inputs[i] == BRAID_LAYOUT_BHWC;
    fits &= has_eights(&node->inputs[i]);
  }
  for (size_t i = 0; i < node->input_count; i++)
    inputs[i] = last && fits && is_image(&node->inputs[i]) ? BRAID_LAYOUT_BHWC : BRAID_LAYOUT_PLAIN;
  for (size_t i = 0; i < node->output_count; i++)
    outputs[i] = last && fits && is_image(&node->outputs[i]) ? BRAID_LAYOUT_BHWC : BRAID_LAYOUT_PLAIN;
}

/* --- what all have -------------------------------------------------------------------------------------------------
 */
typedef struct last_shape {
  int64_t rows, channels, slice, slices;
} last_shape;

/* As many slices as keep a device busy, by the shape alone. */
static last_shape last_shape_of(const braid_desc *x) {
  last_shape s = {.rows = x->dims[0] * x->dims[2] * x->dims[3], .channels = x->dims[1]};
  int64_t tiles = braid_launch_ceil_div(s.channels, kLanes * kEight), wanted = braid_launch_ceil_div(kGroups, tiles);
  s.slices = braid_launch_ceil_div(s.rows, kRowsOfSlice);
  if (s.slices > wanted) s.slices = wanted;
  if (s.slices > kMostSlices) s.slices = kMostSlices;
  if (s.slices < 1) s.slices = 1;
  s.slice = braid_launch_ceil_div(s.rows, s.slices);
  return s;
}

static void begin_last(braid_launch_planner *p, const char *function, const char *part, const braid_desc *x) {
  braid_launch_begin(p, "channels", function);
  braid_launch_option(p, "-DX=%s %s%s", braid_launch_element_type(x->dtype), part,
                      p->traits->aligned ? " -DALIGNED" : "");
}

/* Work-items of a group that has several rows or slices: all of a power of two. */
static size_t last_group(const braid_launch_planner *p, size_t least) {
  size_t most = braid_launch_group(p->traits), group = least;
  while (2 * group <= most && 2 * group <= kGroup) group *= 2;
  return group;
}

/* Of kind GRADIENT where a Relu stands behind the normalization: of what it passes. */
static void add_row_sums(braid_launch_planner *p, const char *kind, const last_shape *s, size_t x, size_t v,
                         braid_launch_piece sums, braid_launch_piece more) {
  begin_last(p, "row_sums", "-DLANES=8", &p->node->inputs[x].desc);
  bool relu = kind && braid_launch_has_relu(p->node) && strcmp(kind, "GRADIENT") == 0;
  if (kind) braid_launch_option(p, "-D%s%s", kind, relu ? " -DRELU" : "");
  braid_launch_input(p, x);
  braid_launch_input(p, v);
  braid_launch_input(p, 3);
  braid_launch_workspace(p, sums);
  braid_launch_workspace(p, more);
  braid_launch_index(p, s->rows);
  braid_launch_index(p, s->channels);
  braid_launch_index(p, s->slice);
  if (relu) braid_launch_add_gate(p);
  braid_launch_groups(p, braid_launch_ceil_div(s->channels, kLanes * kEight), s->slices, 1, last_group(p, kLanes));
}

static void end_finish(braid_launch_planner *p, const last_shape *s) {
  braid_launch_groups(p, s->channels / kEight, 1, 1, last_group(p, kEight));
}

static void end_elements(braid_launch_planner *p, int64_t total, int64_t channels) {
  braid_launch_index(p, total / kEight);
  braid_launch_index(p, channels);
}

/* --- normalizations ------------------------------------------------------------------------------------------------
 */
static void add_moments(braid_launch_planner *p, const last_shape *s, braid_launch_piece mean,
                        braid_launch_piece factor) {
  static const char *const kWanted[] = {"NEW_MEAN", "NEW_VARIANCE", "SAVED_MEAN", "SAVED_INVERSE"};
  const double keep = braid_attr_float(p->node->attrs, "momentum", 0.9);
  braid_launch_piece sums = braid_launch_reserve(p, s->slices, s->channels, sizeof(float));
  braid_launch_piece more = braid_launch_reserve(p, s->slices, s->channels, sizeof(float));
  add_row_sums(p, "MOMENTS", s, 0, 0, sums, more);
  begin_last(p, "finish_moments", "-DFINISH", &p->node->inputs[0].desc);
  for (size_t i = 0; i < 4; i++)
    if (braid_launch_has_output(p->node, 1 + i)) braid_launch_option(p, "-D%s", kWanted[i]);
  braid_launch_workspace(p, sums);
  braid_launch_workspace(p, more);
  braid_launch_input(p, 0);
  braid_launch_input(p, 1);
  braid_launch_input(p, 3);
  braid_launch_input(p, 4);
  braid_launch_workspace(p, mean);
  braid_launch_workspace(p, factor);
  for (size_t i = 1; i < 5; i++) braid_launch_output(p, i);
  braid_launch_index(p, s->rows);
  braid_launch_index(p, s->channels);
  braid_launch_index(p, s->slices);
  braid_launch_float(p, braid_attr_float(p->node->attrs, "epsilon", 1e-5));
  braid_launch_float(p, keep);
  braid_launch_float(p, 1 - keep);
  end_finish(p, s);
}

void braid_launch_batch_norm_last(braid_launch_planner *p) {
  const braid_desc *x = &p->node->inputs[0].desc;
  last_shape s = last_shape_of(x);
  bool training = braid_attr_int(p->node->attrs, "training_mode", 0) != 0;
  braid_launch_piece factor = braid_launch_reserve(p, s.channels, 1, sizeof(float));
  braid_launch_piece mean = training ? braid_launch_reserve(p, s.channels, 1, sizeof(float)) : factor;
  if (training) {
    add_moments(p, &s, mean, factor);
  } else {
    braid_launch_begin(p, "norm", "given");
    braid_launch_input(p, 1);
    braid_launch_input(p, 4);
    braid_launch_workspace(p, factor);
    braid_launch_index(p, s.channels);
    braid_launch_float(p, braid_attr_float(p->node->attrs, "epsilon", 1e-5));
    braid_launch_range(p, s.channels);
  }
  begin_last(p, "apply_last", braid_launch_has_relu(p->node) ? "-DAPPLY -DRELU" : "-DAPPLY", x);
  braid_launch_input(p, 0);
  braid_launch_workspace(p, factor);
  if (training)
    braid_launch_workspace(p, mean);
  else
    braid_launch_input(p, 3);
  braid_launch_input(p, 2);
  braid_launch_output(p, 0);
  end_elements(p, s.rows * s.channels, s.channels);
  braid_launch_range(p, s.rows * s.channels / kEight);
}

/* (dy, x, scale, mean, spread; with a Relu, bias) */
void braid_launch_batch_norm_grad_last(braid_launch_planner *p) {
  const braid_desc *x = &p->node->inputs[1].desc;
  last_shape s = last_shape_of(x);
  braid_launch_piece sums = braid_launch_reserve(p, s.slices, s.channels, sizeof(float));
  braid_launch_piece more = braid_launch_reserve(p, s.slices, s.channels, sizeof(float));
  braid_launch_piece coefficients = braid_launch_reserve(p, s.channels, 3, sizeof(float));
  add_row_sums(p, "GRADIENT", &s, 1, 0, sums, more);
  begin_last(p, "finish_products", "-DFINISH", x);
  if (braid_attr_int(p->node->attrs, "training_mode", 0)) braid_launch_option(p, "-DTRAINING");
  if (braid_launch_has_output(p->node, 1)) braid_launch_option(p, "-DDSCALE");
  if (braid_launch_has_output(p->node, 2)) braid_launch_option(p, "-DDBIAS");
  braid_launch_workspace(p, sums);
  braid_launch_workspace(p, more);
  braid_launch_input(p, 2);
  braid_launch_input(p, 4);
  braid_launch_workspace(p, coefficients);
  braid_launch_output(p, 1);
  braid_launch_output(p, 2);
  braid_launch_index(p, s.rows);
  braid_launch_index(p, s.channels);
  braid_launch_index(p, s.slices);
  braid_launch_float(p, braid_attr_float(p->node->attrs, "epsilon", 1e-5));
  end_finish(p, &s);
  if (!braid_launch_has_output(p->node, 0)) return;
  begin_last(p, "gradient_last", braid_launch_has_relu(p->node) ? "-DAPPLY -DRELU" : "-DAPPLY", x);
  braid_launch_input(p, 0);
  braid_launch_input(p, 1);
  braid_launch_input(p, 3);
  braid_launch_workspace(p, coefficients);
  braid_launch_input(p, braid_launch_has_relu(p->node) ? 5 : 3);
  braid_launch_output(p, 0);
  end_elements(p, s.rows * s.channels, s.channels);
  braid_launch_range(p, s.rows * s.channels / kEight);
}

void braid_launch_bias_grad_last(braid_launch_planner *p) {
  const braid_desc *dy = &p->node->inputs[0].desc;
  last_shape s = last_shape_of(dy);
  braid_launch_piece sums = braid_launch_reserve(p, s.slices, s.channels, sizeof(float));
  add_row_sums(p, NULL, &s, 0, 0, sums, sums);
  begin_last(p, "finish_bias", "-DFINISH", dy);
  braid_launch_workspace(p, sums);
  braid_launch_output(p, 0);
  braid_launch_index(p, s.channels);
  braid_launch_index(p, s.slices);
  end_finish(p, &s);
}

/* --- pools ---------------------------------------------------------------------------------------------------------
 */
static void add_window(braid_launch_planner *p, const braid_window *w) {
  const int64_t *const numbers[] = {w->input, w->output, w->kernel, w->stride, w->dilation, w->begin};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    for (int d = 1; d < BRAID_WINDOW_RANK; d++) braid_launch_index(p, numbers[i][d]);
}

static const char *place_option(const braid_window *window) {
  return braid_window_volume(window) <= 256 ? "-DPLACE=uchar" : "-DPLACE=int";
}

void braid_launch_max_pool_last(braid_launch_planner *p, const braid_window *window) {
  const braid_desc *y = &p->node->outputs[0].desc;
  begin_last(p, "max_pool_last", place_option(window), y);
  if (braid_launch_has_output(p->node, 2)) braid_launch_option(p, "-DWITH_WINDOW");
  braid_launch_input(p, 0);
  braid_launch_output(p, 0);
  braid_launch_output(p, 2);
  add_window(p, window);
  end_elements(p, braid_desc_count(y), y->dims[1]);
  braid_launch_range(p, braid_desc_count(y) / kEight);
}

/* Do windows of a size that is worth unrolling cover the image side by side? */
static bool has_tiles(const braid_window *w) {
  for (int d = 1; d < BRAID_WINDOW_RANK; d++)
    if (w->begin[d] != 0 || w->stride[d] != w->kernel[d] || w->input[d] != w->output[d] * w->kernel[d] ||
        (w->dilation[d] != 1 && w->kernel[d] != 1))
      return false;
  return braid_window_volume(w) <= kMostTile;
}

static void add_max_pool_grad_tiles(braid_launch_planner *p, const braid_window *w) {
  const braid_desc *dy = &p->node->inputs[0].desc;
  begin_last(p, "max_pool_grad_tiles", place_option(w), dy);
  braid_launch_option(p, "-DTILE_1=%d -DTILE_2=%d%s", (int)w->kernel[1], (int)w->kernel[2],
                      braid_dtype_is_half(dy->dtype) ? " -DPAIRS" : "");
  braid_launch_input(p, 0);
  braid_launch_input(p, 1);
  braid_launch_output(p, 0);
  braid_launch_index(p, w->output[2]);
  end_elements(p, braid_desc_count(dy), dy->dims[1]);
  braid_launch_range(p, braid_desc_count(dy) / kEight);
}

void braid_launch_max_pool_grad_last(braid_launch_planner *p, const braid_window *window) {
  const braid_desc *dx = &p->node->outputs[0].desc;
  if (has_tiles(window)) {
    add_max_pool_grad_tiles(p, window);
    return;
  }
  begin_last(p, "max_pool_grad_last", place_option(window), dx);
  braid_launch_input(p, 0);
  braid_launch_input(p, 1);
  braid_launch_output(p, 0);
  add_window(p, window);
  end_elements(p, braid_desc_count(dx), dx->dims[1]);
  braid_launch_range(p, braid_desc_count(dx) / kEight);
}

void braid_launch_global_average_last(braid_launch_planner *p) {
  bool gradient = strcmp(p->node->op, "GlobalAveragePoolGrad") == 0;
  const braid_desc *whole = gradient ? &p->node->outputs[0].desc : &p->node->inputs[0].desc;
  const braid_desc *result = &p->node->outputs[0].desc;
  begin_last(p, gradient ? "global_average_grad_last" : "global_average_last", "-DOVER_ALL", whole);
  braid_launch_input(p, 0);
  braid_launch_output(p, 0);
  end_elements(p, braid_desc_count(result), result->dims[1]);
  braid_launch_index(p, whole->dims[2] * whole->dims[3]);
  braid_launch_range(p, braid_desc_count(result) / kEight);
}
