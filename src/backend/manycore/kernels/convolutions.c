/* Conv over two spatial dimensions, as a product in the scratchpad: weights [filters][channels * window] by the columns
 * that the windows of some pixels make of a patch of the input. Cores of a row of the mesh work on the same filters,
 * and those of a column on the same pixels. */
#include <string.h>

#include "backend/manycore/kernel.h"
#include "backend/manycore/kernels/convolutions.h"
#include "backend/manycore/sw26010.h"
#include "backend/manycore/tile.h"

/* --- tiles ---------------------------------------------------------------------------------------------------------
 */
static int64_t line_of(int64_t columns) {
  return braid_manycore_quotient(columns, BRAID_MANYCORE_LINE) * BRAID_MANYCORE_LINE;
}

/* Rows or columns of the input, padding included, under so many of the output: [1] down, [2] across. Where the window
 * has one row, only the rows that it visits are there. */
static int64_t extent(const conv_plan *p, int axis, int64_t outputs) {
  const braid_window *w = &p->geometry.window;
  if (axis == 1 && w->kernel[1] == 1) return outputs;
  return (outputs - 1) * w->stride[axis] + (w->kernel[axis] - 1) * w->dilation[axis] + 1;
}

/* Elements of the scratchpad that a tile takes. */
static int64_t conv_tile_elements(const conv_plan *p, int64_t filters, int64_t down, int64_t across, int64_t channels,
                                  int buffers) {
  int64_t line = line_of(down * across);
  int64_t patch = p->direct ? channels * line : channels * extent(p, 1, down) * extent(p, 2, across);
  int64_t weights = filters * channels * p->volume;
  int64_t unfolded = p->direct ? 0 : channels * p->volume * line;
  return buffers * (braid_manycore_room(patch) + braid_manycore_room(weights) + braid_manycore_room(filters * line) +
                    braid_manycore_room(filters)) +
         braid_manycore_room(unfolded);
}

static int64_t fitting_channels(const conv_plan *p, int64_t filters, int64_t down, int64_t across, int buffers,
                                int64_t elements) {
  if (conv_tile_elements(p, filters, down, across, 1, buffers) > elements) return 0;
  int64_t low = 1, high = p->channels;
  while (low < high) {
    int64_t middle = low + (high - low + 1) / 2;
    if (conv_tile_elements(p, filters, down, across, middle, buffers) <= elements)
      low = middle;
    else
      high = middle - 1;
  }
  return braid_manycore_quotient(p->channels, braid_manycore_quotient(p->channels, low));
}

static double unfold_cycles(const conv_plan *p, int64_t channels, int64_t down, int64_t across) {
  if (p->direct) return 0;
  /* Each number of a column is loaded and stored, in vectors along rows where the stride is 1. */
  double vectors = p->geometry.window.stride[2] == 1 ? braid_sw26010_vectors(across) : (double)across;
  return braid_sw26010_pass_cycles((double)(channels * p->volume * down) * vectors, 2, 0);
}

/* What the slowest core takes, roughly: the choice is made by it, costs are counted with the program. */
static double estimate_conv(const conv_plan *p, braid_manycore_grid grid, int64_t filters, int64_t down, int64_t across,
                            int64_t channels, int buffers) {
  const braid_window *w = &p->geometry.window;
  int64_t filter_tiles = p->geometry.groups * braid_manycore_quotient(p->filters, filters);
  int64_t pixel_tiles =
      p->geometry.batch * braid_manycore_quotient(w->output[1], down) * braid_manycore_quotient(w->output[2], across);
  double each = (double)braid_manycore_quotient(filter_tiles, grid.rows) *
                (double)braid_manycore_quotient(pixel_tiles, grid.columns);
  int weight_sharers = (int)braid_manycore_min(pixel_tiles, grid.columns), cores = grid.rows * grid.columns;
  int patch_sharers = p->geometry.groups == 1 ? (int)braid_manycore_min(filter_tiles, grid.rows) : 1;
  int64_t rows = braid_manycore_min(extent(p, 1, down), w->input[1]);
  int64_t columns = braid_manycore_min(extent(p, 2, across), w->input[2]);
  int64_t patch_run = columns == w->input[2] && w->kernel[1] > 1 ? rows * columns : columns;
  double patch = braid_sw26010_get_cycles((double)(channels * rows * columns) * 4, patch_run * 4, patch_sharers, cores);
  double weights = braid_sw26010_get_cycles((double)(filters * channels * p->volume) * 4, channels * p->volume * 4,
                                            weight_sharers, cores);
  double compute = braid_sw26010_product_cycles(filters, down * across, channels * p->volume);
  compute += unfold_cycles(p, channels, down, across);
  if (weight_sharers > 1) compute += braid_sw26010_share_cycles((double)(filters * channels * p->volume) * 4);
  if (patch_sharers > 1) compute += braid_sw26010_share_cycles((double)(channels * rows * columns) * 4);
  int64_t put_run = across == w->output[2] ? down * across : across;
  double put = braid_sw26010_put_cycles((double)(filters * down * across) * 4, put_run * 4, cores);
  double gets = patch + weights;
  double steps = (double)braid_manycore_quotient(p->channels, channels);
  if (buffers == 1) return each * (steps * (gets + compute) + put);
  double slot = gets + put / steps > compute ? gets + put / steps : compute;
  return each * steps * slot + gets + put;
}

static void try_filters(conv_plan *p, braid_manycore_grid grid, int64_t down, int64_t across, int64_t elements,
                        double *best) {
  for (int64_t size = 1; size < 2 * p->filters && size <= 512; size *= 2)
    for (int buffers = 2; buffers >= 1; buffers--) {
      int64_t filters = braid_manycore_min(size, p->filters);
      int64_t channels = fitting_channels(p, filters, down, across, buffers, elements);
      if (!channels) continue;
      double cycles = estimate_conv(p, grid, filters, down, across, channels, buffers);
      if (*best >= 0 && cycles >= *best) continue;
      *best = cycles;
      p->grid = grid;
      p->tile_filters = filters, p->tile_down = down, p->tile_across = across, p->tile_channels = channels;
      p->two_buffers = buffers == 2;
    }
}

/* Whole rows of the output, or parts of one. */
static void try_pixels(conv_plan *p, braid_manycore_grid grid, int64_t elements, double *best) {
  const braid_window *w = &p->geometry.window;
  for (int64_t parts = 1; parts <= w->output[2]; parts *= 2) {
    int64_t across = braid_manycore_quotient(w->output[2], parts);
    if (across > 1024) continue;
    for (int64_t pieces = 1;; pieces *= 2) {
      int64_t down = braid_manycore_quotient(w->output[1], pieces);
      if (down * across <= 1024) try_filters(p, grid, down, across, elements, best);
      if (down == 1) break;
    }
    if (across <= 8) break;
  }
}

static bool choose_tiles(conv_plan *p, const braid_manycore_group *group) {
  int64_t elements = (int64_t)(group->scratchpad / sizeof(float));
  braid_manycore_grid grids[BRAID_MANYCORE_GRIDS];
  braid_manycore_grids(group, grids);
  double best = -1;
  for (int g = 0; g < BRAID_MANYCORE_GRIDS; g++) try_pixels(p, grids[g], elements, &best);
  if (best >= 0) return true;
  for (int g = 0; g < BRAID_MANYCORE_GRIDS; g++) try_filters(p, grids[g], 1, 1, elements, &best);
  return best >= 0;
}

static bool conv_plan_init(const braid_node_desc *node, const braid_manycore_group *group, void *out, char *why,
                           size_t why_bytes) {
  conv_plan *p = out;
  if (!braid_manycore_all_float(node, why, why_bytes)) return false;
  if (node->inputs[0].desc.rank != 4)
    return braid_manycore_refuse(why, why_bytes, "compute cores convolve over two spatial dimensions, not %d",
                                 node->inputs[0].desc.rank - 2);
  *p = (conv_plan){.has_bias = node->input_count > 2 && node->inputs[2].present, .result = (int)node->input_count};
  if (braid_geometry_conv(node->attrs, &node->inputs[0].desc, &node->inputs[1].desc, &p->geometry) != BRAID_OK)
    return braid_manycore_refuse(why, why_bytes, "%s", braid_error_detail());
  const braid_window *w = &p->geometry.window;
  if (braid_desc_count(&node->outputs[0].desc) == 0) return true;
  p->filters = p->geometry.outputs / p->geometry.groups;
  p->channels = p->geometry.inputs / p->geometry.groups;
  p->volume = w->kernel[1] * w->kernel[2];
  p->direct =
      p->volume == 1 && w->stride[2] == 1 && w->begin[1] == 0 && w->begin[2] == 0 && w->end[1] <= 0 && w->end[2] <= 0;
  if (p->channels * p->volume == 0) return braid_manycore_refuse(why, why_bytes, "the convolution sums over nothing");
  if (choose_tiles(p, group)) return true;
  return braid_manycore_refuse(why, why_bytes, "the smallest tile takes %lld bytes, a scratchpad has %zu",
                               (long long)conv_tile_elements(p, 1, 1, 1, 1, 1) * 4, group->scratchpad);
}

/* --- the program ---------------------------------------------------------------------------------------------------
 */
typedef struct conv_buffers {
  float *patch[2], *weights[2], *unfolded, *result[2], *bias[2];
} conv_buffers;

typedef struct conv_tile {
  int64_t image, group, filter, top, left; /* filter within the group; top and left of the output */
  int64_t filters, down, across, line;
  /* Of the input, padding included, and the part of it that is there. */
  int64_t rows, columns, first_row, first_column, last_row, last_column;
  int weight_sharers, patch_sharers;
  int buffer; /* of the result and the bias */
} conv_tile;

static bool conv_take(braid_manycore_core *core, const conv_plan *p, conv_buffers *out) {
  int64_t line = line_of(p->tile_down * p->tile_across);
  int64_t patch = p->direct ? line : extent(p, 1, p->tile_down) * extent(p, 2, p->tile_across);
  *out = (conv_buffers){.unfolded = NULL};
  for (int b = 0; b <= p->two_buffers; b++) {
    out->patch[b] = braid_manycore_take(core, p->tile_channels * patch);
    out->weights[b] = braid_manycore_take(core, p->tile_filters * p->tile_channels * p->volume);
    out->result[b] = braid_manycore_take(core, p->tile_filters * line);
    out->bias[b] = braid_manycore_take(core, p->tile_filters);
  }
  if (!p->direct) out->unfolded = braid_manycore_take(core, p->tile_channels * p->volume * line);
  return core->status == BRAID_OK;
}

/* Which rows (columns) of the patch are in the input: [first, last). */
static void inside(int64_t origin, int64_t step, int64_t count, int64_t size, int64_t *first, int64_t *last) {
  *first = origin >= 0 ? 0 : braid_manycore_quotient(-origin, step);
  *last = origin >= size ? 0 : braid_manycore_min(count, (size - 1 - origin) / step + 1);
  *first = braid_manycore_min(*first, count);
  if (*last < *first) *last = *first;
}

static void place_patch(const conv_plan *p, conv_tile *t) {
  const braid_window *w = &p->geometry.window;
  int64_t step = w->kernel[1] == 1 ? w->stride[1] : 1;
  t->rows = extent(p, 1, t->down);
  t->columns = extent(p, 2, t->across);
  inside(t->top * w->stride[1] - w->begin[1], step, t->rows, w->input[1], &t->first_row, &t->last_row);
  inside(t->left * w->stride[2] - w->begin[2], 1, t->columns, w->input[2], &t->first_column, &t->last_column);
}

static void get_patch(braid_manycore_core *core, const conv_plan *p, const conv_tile *t, int64_t channel,
                      int64_t channels, float *to) {
  const braid_window *w = &p->geometry.window;
  int64_t step = w->kernel[1] == 1 ? w->stride[1] : 1, pitch = p->direct ? t->line : t->rows * t->columns;
  int64_t run = t->last_column - t->first_column, rows = t->last_row - t->first_row;
  int64_t row = t->top * w->stride[1] - w->begin[1] + t->first_row * step;
  int64_t column = t->left * w->stride[2] - w->begin[2] + t->first_column;
  bool padded = rows < t->rows || run < t->columns;
  double zeros = braid_sw26010_vectors(channels * (t->rows * t->columns - rows * run));
  if (padded && braid_manycore_compute(core, braid_sw26010_pass_cycles(zeros, 1, 0), 0))
    memset(to, 0, (size_t)(channels * pitch) * sizeof(float));
  int64_t plane = t->image * p->geometry.inputs + t->group * p->channels + channel;
  int64_t first = (plane * w->input[1] + row) * w->input[2] + column;
  braid_manycore_get_blocks(
      core, to + t->first_row * t->columns + t->first_column,
      &(braid_manycore_block){0, first, rows, run, step * w->input[2], t->columns, t->patch_sharers}, channels,
      w->input[1] * w->input[2], pitch);
}

/* Patch [channels][rows][columns] to [channels * window][line]. */
static void unfold(const conv_plan *p, const conv_tile *t, int64_t channels, const float *patch, float *to) {
  const braid_window *w = &p->geometry.window;
  int64_t down_step = w->kernel[1] == 1 ? 1 : w->stride[1], across_step = w->stride[2];
  for (int64_t c = 0; c < channels; c++)
    for (int64_t ky = 0; ky < w->kernel[1]; ky++)
      for (int64_t kx = 0; kx < w->kernel[2]; kx++, to += t->line)
        for (int64_t y = 0; y < t->down; y++) {
          const float *from =
              patch + (c * t->rows + y * down_step + ky * w->dilation[1]) * t->columns + kx * w->dilation[2];
          float *row = to + y * t->across;
          if (across_step == 1)
            memcpy(row, from, (size_t)t->across * sizeof(float));
          else
            for (int64_t x = 0; x < t->across; x++) row[x] = from[x * across_step];
        }
}

static void conv_chunk(braid_manycore_core *core, const conv_plan *p, const conv_tile *t, int64_t channel, int b,
                       const conv_buffers *buffers) {
  int64_t channels = braid_manycore_min(p->tile_channels, p->channels - channel), inner = channels * p->volume;
  int64_t all = p->channels * p->volume, filter = t->group * p->filters + t->filter;
  get_patch(core, p, t, channel, channels, buffers->patch[b]);
  braid_manycore_get(
      core, buffers->weights[b],
      &(braid_manycore_block){1, filter * all + channel * p->volume, t->filters, inner, all, inner, t->weight_sharers});
  const float *right = buffers->patch[b];
  if (!p->direct) {
    if (braid_manycore_compute(core, unfold_cycles(p, channels, t->down, t->across), 0))
      unfold(p, t, channels, right, buffers->unfolded);
    right = buffers->unfolded;
  }
  braid_manycore_tile tile = {.a = buffers->weights[b],
                              .b = right,
                              .c = buffers->result[t->buffer],
                              .row_step = inner,
                              .column_step = 1,
                              .b_pitch = t->line,
                              .c_pitch = t->line,
                              .rows = t->filters,
                              .columns = t->down * t->across,
                              .inner = inner};
  double cycles = braid_sw26010_product_cycles(t->filters, t->down * t->across, inner);
  if (braid_manycore_compute(core, cycles, t->filters * t->down * t->across * inner)) braid_manycore_multiply(&tile);
}

static void begin_result(braid_manycore_core *core, const conv_plan *p, const conv_tile *t,
                         const conv_buffers *buffers) {
  float *result = buffers->result[t->buffer], *bias = buffers->bias[t->buffer];
  if (p->has_bias) {
    int64_t filter = t->group * p->filters + t->filter;
    braid_manycore_get(core, bias,
                       &(braid_manycore_block){2, filter, 1, t->filters, t->filters, t->filters, t->weight_sharers});
  }
  double vectors = (double)t->filters * braid_sw26010_vectors(t->down * t->across);
  if (!braid_manycore_compute(core, braid_sw26010_pass_cycles(vectors, 1, 0), 0)) return;
  for (int64_t f = 0; f < t->filters; f++)
    for (int64_t i = 0; i < t->line; i++) result[f * t->line + i] = p->has_bias ? bias[f] : 0;
}

static void put_result(braid_manycore_core *core, const conv_plan *p, const conv_tile *t, const conv_buffers *buffers) {
  const braid_window *w = &p->geometry.window;
  for (int64_t f = 0; f < t->filters; f++) {
    int64_t plane = t->image * p->geometry.outputs + t->group * p->filters + t->filter + f;
    int64_t first = (plane * w->output[1] + t->top) * w->output[2] + t->left;
    braid_manycore_put(core, buffers->result[t->buffer] + f * t->line,
                       &(braid_manycore_block){p->result, first, t->down, t->across, w->output[2], t->across, 1});
  }
}

static void conv_tile_run(braid_manycore_core *core, const conv_plan *p, const conv_tile *t,
                          const conv_buffers *buffers, int64_t *turn) {
  begin_result(core, p, t, buffers);
  for (int64_t channel = 0; channel < p->channels; channel += p->tile_channels, ++*turn) {
    conv_chunk(core, p, t, channel, p->two_buffers ? (int)(*turn & 1) : 0, buffers);
    if (channel + p->tile_channels < p->channels) braid_manycore_step(core);
  }
  put_result(core, p, t, buffers);
  braid_manycore_step(core);
}

static void conv_run(braid_manycore_core *core, const void *plan) {
  const conv_plan *p = plan;
  conv_buffers buffers;
  if (!p->tile_filters) return;
  core->two_buffers = p->two_buffers;
  if (!conv_take(core, p, &buffers)) return;
  const braid_window *w = &p->geometry.window;
  int64_t down = braid_manycore_quotient(w->output[1], p->tile_down);
  int64_t across = braid_manycore_quotient(w->output[2], p->tile_across), places = down * across;
  int64_t per_group = braid_manycore_quotient(p->filters, p->tile_filters), turn = 0, tiles = 0;
  int64_t filter_tiles = per_group * p->geometry.groups, pixel_tiles = places * p->geometry.batch;
  int core_row = core->id / p->grid.columns, core_column = core->id % p->grid.columns;
  for (int64_t i = core_row; i < filter_tiles; i += p->grid.rows)
    for (int64_t j = core_column; j < pixel_tiles; j += p->grid.columns, tiles++) {
      conv_tile t = {.buffer = p->two_buffers ? (int)(tiles & 1) : 0,
                     .image = j / places,
                     .group = i / per_group,
                     .filter = i % per_group * p->tile_filters,
                     .top = j % places / across * p->tile_down,
                     .left = j % across * p->tile_across};
      t.filters = braid_manycore_min(p->tile_filters, p->filters - t.filter);
      t.down = braid_manycore_min(p->tile_down, w->output[1] - t.top);
      t.across = braid_manycore_min(p->tile_across, w->output[2] - t.left);
      t.line = line_of(t.down * t.across);
      t.weight_sharers = (int)braid_manycore_min(pixel_tiles - (j - core_column), p->grid.columns);
      t.patch_sharers =
          p->geometry.groups == 1 ? (int)braid_manycore_min(filter_tiles - (i - core_row), p->grid.rows) : 1;
      place_patch(p, &t);
      conv_tile_run(core, p, &t, &buffers, &turn);
    }
}

static int64_t conv_macs(const void *plan) {
  const conv_plan *p = plan;
  return p->geometry.batch * p->geometry.outputs * braid_window_outputs(&p->geometry.window) * p->channels * p->volume;
}

_Static_assert(sizeof(conv_plan) <= BRAID_MANYCORE_PLAN_BYTES, "a plan holds it");
static const braid_manycore_kernel kConv = {conv_plan_init, conv_run, conv_macs};
static const braid_kernel kKernels[] = {{.op = "Conv", .name = "core_conv", .implementation = &kConv}};
const braid_manycore_table braid_manycore_convolutions = {kKernels, sizeof kKernels / sizeof *kKernels};
