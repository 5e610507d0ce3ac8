/* Integer convolutions and the errors of their inputs as products of bytes (../dot): images in layout BHWC, the
 * source's windows laid out row by row while they are in the cache, weights packed anew in each run, since training
 * changes them. The result's last operation (rounding and clipping, or the OR of magnitudes) takes a tile of sums while
 * it is in the first cache. docs/integer-training.md is the contract. */
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/dot/dot.h"
#include "backend/cpu/integer/lines_isa.h"
#include "backend/cpu/integer/rows.h"
#include "backend/cpu/integer/turn.h"
#include "base/checked.h"
#include "base/try.h"

enum { kBlockBytes = 96 << 10, kMostBlock = 16 * BRAID_DOT_ROWS, kMostStrides = 64 };
/* Products of a piece: sums of more are added up in 64 bits. A multiple of BRAID_DOT_QUAD. */
enum { kPiece = BRAID_DOT_MOST_K / BRAID_DOT_QUAD * BRAID_DOT_QUAD, kLift = 128 };

typedef struct integer_conv {
  const braid_node_desc *node;
  braid_convolution conv;
  bool backward;
  braid_integer_sweeps sweeps;
  int64_t channels, columns;      /* of a group: of the source, of the result */
  int64_t source_all, result_all; /* channels of all groups */
  const int64_t *source, *result; /* rows and columns of their images */
  int64_t group_packed;           /* bytes of a group's weights */
  int64_t lanes;
  size_t lane_at, lane_bytes, straight_at; /* in the workspace, behind the packed weights */
} integer_conv;

/* --- preparation ---------------------------------------------------------------------------------------------------
 */
static bool conv_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  size_t count;
  const int64_t *strides = braid_attr_ints(node->attrs, "strides", &count);
  for (size_t i = 0; i < count; i++)
    if (strides[i] > kMostStrides) {
      snprintf(why, why_bytes, "strides above %d", kMostStrides);
      return false;
    }
  return true;
}

static void conv_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  bool images = node->inputs[0].desc.rank > 2;
  for (size_t i = 0; i < node->input_count; i++) inputs[i] = BRAID_LAYOUT_PLAIN;
  for (size_t i = 0; i < node->output_count; i++) outputs[i] = BRAID_LAYOUT_PLAIN;
  if (images) inputs[0] = outputs[0] = BRAID_LAYOUT_BHWC;
}

static int64_t inner_of(const integer_conv *p, const braid_integer_sweep *sweep) {
  return sweep->tap_count * p->channels;
}

static int64_t piece_size(int64_t inner, int64_t from) {
  return inner - from < kPiece ? inner - from : kPiece;
}

/* Room for the packed weights of each sweep, one piece behind another. */
static bool place_weights(integer_conv *p) {
  size_t total = 0, bytes;
  for (int64_t i = 0; i < p->sweeps.count; i++) {
    int64_t inner = inner_of(p, &p->sweeps.sweeps[i]);
    p->sweeps.sweeps[i].packed = (int64_t)total;
    for (int64_t from = 0; from == 0 || from < inner; from += kPiece) {
      if (!braid_dot_packed_bytes(piece_size(inner, from), p->columns, &bytes) ||
          !braid_add_size(total, bytes, &total) || total > INT64_MAX / 2)
        return false;
      total = (total + 63) & ~(size_t)63;
    }
  }
  p->group_packed = (int64_t)total;
  return true;
}

static int64_t block_rows(int64_t step, int64_t rows, int64_t lanes) {
  int64_t block = kBlockBytes / (step ? step : 1), each = (rows + 4 * lanes - 1) / (4 * lanes);
  if (block > each) block = each + BRAID_DOT_ROWS - 1;
  block = block / BRAID_DOT_ROWS * BRAID_DOT_ROWS;
  return block < BRAID_DOT_ROWS ? BRAID_DOT_ROWS : block > kMostBlock ? kMostBlock : block;
}

static braid_status conv_prepare(const braid_allocator *allocator, integer_conv *p, braid_prepared_info *info) {
  const braid_node_desc *node = p->node;
  const braid_desc *first = &node->inputs[0].desc, *w = &node->inputs[1].desc;
  if (p->backward)
    BRAID_TRY(braid_integer_conv_grad_input(node->attrs, first, w, &p->conv));
  else
    BRAID_TRY(braid_integer_conv(node->attrs, first, w, &p->conv));
  const braid_convolution *conv = &p->conv;
  p->source_all = p->backward ? conv->outputs : conv->inputs;
  p->result_all = p->backward ? conv->inputs : conv->outputs;
  p->channels = p->source_all / conv->groups;
  p->columns = p->result_all / conv->groups;
  p->source = (p->backward ? conv->window.output : conv->window.input) + 1;
  p->result = (p->backward ? conv->window.input : conv->window.output) + 1;
  BRAID_TRY(braid_integer_sweeps_init(allocator, &conv->window, p->backward, conv->groups == 1, &p->sweeps));
  p->lanes = omp_get_max_threads();
  size_t packed, lanes;
  if (!place_weights(p) || !braid_mul_size((size_t)p->group_packed, (size_t)conv->groups, &packed))
    return braid_fail(BRAID_OUT_OF_RANGE, "its workspace overflows");
  for (int64_t i = 0; i < p->sweeps.count; i++) {
    const braid_integer_sweep *sweep = &p->sweeps.sweeps[i];
    int64_t step = braid_dot_quads(inner_of(p, sweep)) * BRAID_DOT_QUAD;
    size_t bytes = (size_t)(step * block_rows(step, conv->batch * sweep->count[0] * sweep->count[1], p->lanes));
    if (bytes > p->lane_bytes) p->lane_bytes = bytes;
  }
  p->lane_bytes = (p->lane_bytes + 63) & ~(size_t)63;
  p->lane_at = packed;
  size_t weights = braid_window_volume(&conv->window) > 1 ? braid_desc_bytes(w) : 0;
  if (!braid_mul_size(p->lane_bytes, (size_t)p->lanes, &lanes) || !braid_add_size(packed, lanes, &p->straight_at) ||
      !braid_add_size(p->straight_at, weights, &info->workspace_bytes))
    return braid_fail(BRAID_OUT_OF_RANGE, "its workspace overflows");
  return BRAID_OK;
}

static void conv_destroy(const braid_allocator *allocator, void *state) {
  integer_conv *p = state;
  if (p) braid_integer_sweeps_deinit(allocator, &p->sweeps);
  braid_free(allocator, p);
}

static braid_status conv_create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                braid_prepared_info *info) {
  *state = NULL;
  integer_conv *p = braid_zalloc(allocator, sizeof *p);
  if (!p) return BRAID_NO_MEMORY;
  p->node = node;
  p->backward = strcmp(node->op, "IntegerConvGradInput") == 0;
  braid_status status = conv_prepare(allocator, p, info);
  if (status == BRAID_OK)
    *state = p;
  else
    conv_destroy(allocator, p);
  return status;
}

/* --- weights -------------------------------------------------------------------------------------------------------
 */
/* Weights with their channels side by side, [tap of the kernel][filter][channel] for each group: what lies between two
 * channels is what packing would spend its time on. */
static void straighten(const integer_conv *p, const int8_t *w, int8_t *to) {
  int64_t volume = braid_window_volume(&p->conv.window), channels = p->conv.inputs / p->conv.groups;
  int64_t filters = p->conv.outputs / p->conv.groups, line = channels * volume;
#pragma omp parallel for schedule(static) num_threads((int)p->lanes) if (p->conv.outputs * line > 1 << 13)
  for (int64_t f = 0; f < p->conv.outputs; f++)
    for (int64_t t = 0; t < volume; t++) {
      int8_t *row = to + f / filters * filters * line + (t * filters + f % filters) * channels;
      for (int64_t c = 0; c < channels; c++) row[c] = w[f * line + c * volume + t];
    }
}

/* Forward, columns are filters, and places of a row the channels of one tap after another: four places of a column
 * mostly lie side by side. */
static void pack_forward(const integer_conv *p, const braid_integer_sweep *sweep, const int8_t *w, int64_t column,
                         int64_t k, int64_t end, int8_t *quad) {
  int64_t columns = p->columns - column < BRAID_DOT_UNIT ? p->columns - column : BRAID_DOT_UNIT;
  const int8_t *at = w + (sweep->taps[k / p->channels].kernel * p->columns + column) * p->channels + k % p->channels;
  if (k % p->channels + BRAID_DOT_QUAD <= p->channels && k + BRAID_DOT_QUAD <= end) {
    for (int64_t c = 0; c < columns; c++) memcpy(quad + c * BRAID_DOT_QUAD, at + c * p->channels, BRAID_DOT_QUAD);
    return;
  }
  for (int64_t i = 0; i < BRAID_DOT_QUAD && k + i < end; i++) {
    at = w + (sweep->taps[(k + i) / p->channels].kernel * p->columns + column) * p->channels + (k + i) % p->channels;
    for (int64_t c = 0; c < columns; c++) quad[c * BRAID_DOT_QUAD + i] = at[c * p->channels];
  }
}

/* Backward, columns are channels, which lie side by side, and places of a row are filters. */
static void pack_backward(const integer_conv *p, const braid_integer_sweep *sweep, const int8_t *w, int64_t column,
                          int64_t k, int64_t end, int8_t *quad) {
  static const int8_t kZeros[BRAID_DOT_UNIT];
  const int8_t *places[BRAID_DOT_QUAD];
  for (int64_t i = 0; i < BRAID_DOT_QUAD; i++)
    places[i] =
        k + i < end
            ? w + (sweep->taps[(k + i) / p->channels].kernel * p->channels + (k + i) % p->channels) * p->columns +
                  column
            : kZeros;
  braid_integer_quad(places, p->columns - column, quad);
}

/* A unit of columns of a piece: places [from, end) of a row. */
static void pack_unit(const integer_conv *p, const braid_integer_sweep *sweep, const int8_t *w, int64_t column,
                      int64_t from, int64_t end, int8_t *to) {
  memset(to, 0, (size_t)(braid_dot_quads(end - from) * BRAID_DOT_QUAD * BRAID_DOT_UNIT));
  for (int64_t k = from; k < end; k += BRAID_DOT_QUAD, to += BRAID_DOT_QUAD * BRAID_DOT_UNIT)
    if (p->backward)
      pack_backward(p, sweep, w, column, k, end, to);
    else
      pack_forward(p, sweep, w, column, k, end, to);
}

/* The panels of a piece, and what bytes that are larger by 128 add to each sum. */
static void pack_piece(const integer_conv *p, const braid_integer_sweep *sweep, const int8_t *w, int64_t from,
                       int64_t end, int8_t *packed) {
  int64_t size = end - from, quads = braid_dot_quads(size), unit = quads * BRAID_DOT_QUAD * BRAID_DOT_UNIT;
  int64_t units = (p->columns + BRAID_DOT_UNIT - 1) / BRAID_DOT_UNIT;
  int32_t *offsets = (int32_t *)(void *)(packed + units * unit);
#pragma omp parallel for schedule(static) num_threads((int)p->lanes) if (size * p->columns > 1 << 13)
  for (int64_t u = 0; u < units; u++) {
    int32_t sums[BRAID_DOT_UNIT] = {0};
    int8_t *panel = packed + u * unit;
    pack_unit(p, sweep, w, u * BRAID_DOT_UNIT, from, end, panel);
    BRAID_ISA_CALL(braid_integer_sum_quads, panel, quads, sums);
    for (int64_t c = 0; c < BRAID_DOT_UNIT; c++) offsets[u * BRAID_DOT_UNIT + c] = kLift * sums[c];
  }
}

static size_t packed_size(const integer_conv *p, int64_t inner) {
  size_t bytes = 0;
  (void)braid_dot_packed_bytes(inner, p->columns, &bytes); /* checked in place_weights */
  return (bytes + 63) & ~(size_t)63;
}

static void pack_weights(const integer_conv *p, const braid_cpu_args *args) {
  const int8_t *w = args->inputs[1];
  if (braid_window_volume(&p->conv.window) > 1) {
    straighten(p, w, (int8_t *)args->workspace + p->straight_at);
    w = (const int8_t *)args->workspace + p->straight_at;
  }
  int64_t group_weights = p->channels * p->columns * braid_window_volume(&p->conv.window);
  for (int64_t g = 0; g < p->conv.groups; g++)
    for (int64_t s = 0; s < p->sweeps.count; s++) {
      const braid_integer_sweep *sweep = &p->sweeps.sweeps[s];
      int8_t *packed = (int8_t *)args->workspace + g * p->group_packed + sweep->packed;
      int64_t inner = inner_of(p, sweep);
      for (int64_t from = 0; from == 0 || from < inner; from += kPiece) {
        int64_t size = piece_size(inner, from);
        pack_piece(p, sweep, w + g * group_weights, from, from + size, packed);
        packed += packed_size(p, size);
      }
    }
}

/* --- rows ----------------------------------------------------------------------------------------------------------
 */
typedef struct conv_job {
  const integer_conv *p;
  const braid_integer_sweep *sweep;
  const braid_cpu_args *args;
  int64_t inner, step, rows, block, group;
  int shift;
  int32_t low, high;
  bool wide; /* sums of more than one piece, or a shift of more than 31 */
} conv_job;

static void lay_block(const conv_job *j, int64_t first, int64_t rows, uint8_t *lane, int64_t *places) {
  const integer_conv *p = j->p;
  const braid_integer_sweep *s = j->sweep;
  braid_integer_rows source = {.images = (const int8_t *)j->args->inputs[0] + j->group * p->channels,
                               .height = p->source[0],
                               .width = p->source[1],
                               .pixel = p->source_all,
                               .channels = p->channels,
                               .sweep = s,
                               .flip = kLift};
  braid_integer_lay_rows(&source, first, rows, lane, j->step);
  int64_t x = first % s->count[1], y = first / s->count[1] % s->count[0], image = first / s->count[1] / s->count[0];
  for (int64_t r = 0; r < rows; r++) {
    places[r] =
        ((image * p->result[0] + s->first[0] + y * s->every[0]) * p->result[1] + s->first[1] + x * s->every[1]) *
        p->result_all;
    if (++x < s->count[1]) continue;
    x = 0;
    if (++y == s->count[0]) y = 0, image++;
  }
}

/* --- results -------------------------------------------------------------------------------------------------------
 */
static uint64_t finish_tile(const conv_job *j, const braid_integer_tile *tile, int64_t column) {
  void *y = j->args->outputs[0];
  braid_dtype dtype = j->p->node->outputs[0].desc.dtype;
  if (dtype == BRAID_I8)
    BRAID_ISA_CALL(braid_integer_narrow_i8, tile, j->shift, j->low, j->high, (int8_t *)y + column);
  else if (dtype == BRAID_I16)
    BRAID_ISA_CALL(braid_integer_narrow_i16, tile, j->shift, j->low, j->high, (int16_t *)y + column);
  else
    return BRAID_ISA_CALL(braid_integer_store, tile, (int32_t *)y + column);
  return 0;
}

/* The same for sums of 64 bits, which the tile's offsets are taken off already. */
static uint64_t finish_wide(const conv_job *j, const braid_integer_tile *tile, const int64_t *sums, int64_t column) {
  braid_dtype dtype = j->p->node->outputs[0].desc.dtype;
  int64_t shift = braid_attr_int(j->p->node->attrs, "shift", 0);
  uint64_t bits = 0;
  for (int64_t r = 0; r < tile->rows; r++)
    for (int64_t c = 0; c < tile->columns; c++) {
      int64_t sum = sums[r * BRAID_DOT_COLUMNS + c], at = tile->places[r] + column + c;
      int64_t value = braid_integer_round(sum, j->p->backward ? 0 : shift);
      int64_t y = value > j->high ? j->high : value < j->low ? j->low : value;
      if (dtype == BRAID_I8)
        ((int8_t *)j->args->outputs[0])[at] = (int8_t)y;
      else if (dtype == BRAID_I16)
        ((int16_t *)j->args->outputs[0])[at] = (int16_t)y;
      else if (dtype == BRAID_I32)
        ((int32_t *)j->args->outputs[0])[at] = (int32_t)sum;
      else
        ((int64_t *)j->args->outputs[0])[at] = sum;
      bits |= (uint64_t)(sum < 0 ? -sum : sum);
    }
  return bits;
}

/* A tile of rows that are laid out, with the columns of one strip. */
static uint64_t run_tile(const conv_job *j, const uint8_t *rows, int64_t count, const int64_t *places, int64_t column) {
  const integer_conv *p = j->p;
  int32_t sums[BRAID_DOT_ROWS * BRAID_DOT_COLUMNS];
  int64_t wide[BRAID_DOT_ROWS * BRAID_DOT_COLUMNS], own[BRAID_DOT_ROWS];
  int64_t columns = p->columns - column < BRAID_DOT_COLUMNS ? p->columns - column : BRAID_DOT_COLUMNS;
  const char *packed = (const char *)j->args->workspace + j->group * p->group_packed + j->sweep->packed;
  int64_t at = j->group * p->columns + column;
  braid_integer_tile tile = {.sums = sums, .places = places, .rows = count, .columns = columns};
  if (j->wide) {
    memset(wide, 0, sizeof wide);
    for (int64_t r = 0; r < count; r++) own[r] = r * BRAID_DOT_COLUMNS;
    tile.places = own;
  }
  for (int64_t from = 0; from == 0 || from < j->inner; from += kPiece) {
    int64_t size = piece_size(j->inner, from);
    braid_dot_tile(rows + from, j->step, count, braid_dot_panel(packed, size, column), size, columns, sums);
    tile.offsets = braid_dot_column_sums(packed, size, p->columns) + column;
    if (j->wide) BRAID_ISA_CALL(braid_integer_add_wide, &tile, wide);
    packed += packed_size(p, size);
  }
  if (!j->wide) return finish_tile(j, &tile, at);
  tile.places = places;
  return finish_wide(j, &tile, wide, at);
}

static uint64_t run_sweep(const conv_job *j) {
  const integer_conv *p = j->p;
  uint64_t bits = 0;
#pragma omp parallel for schedule(dynamic) reduction(| : bits) num_threads((int)p->lanes)
  for (int64_t first = 0; first < j->rows; first += j->block) {
    uint8_t *lane = (uint8_t *)j->args->workspace + p->lane_at + (size_t)omp_get_thread_num() * p->lane_bytes;
    int64_t places[kMostBlock], rows = j->rows - first < j->block ? j->rows - first : j->block;
    lay_block(j, first, rows, lane, places);
    for (int64_t column = 0; column < p->columns; column += BRAID_DOT_COLUMNS)
      for (int64_t r = 0; r < rows; r += BRAID_DOT_ROWS) {
        int64_t some = rows - r < BRAID_DOT_ROWS ? rows - r : BRAID_DOT_ROWS;
        bits |= run_tile(j, lane + r * j->step, some, places + r, column);
      }
  }
  return bits;
}

static braid_status conv_run(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const integer_conv *p = state;
  conv_job j = {.p = p, .args = args};
  int64_t shift = braid_attr_int(node->attrs, "shift", 0);
  uint64_t bits = 0;
  j.high = (int32_t)braid_integer_max(braid_attr_int(node->attrs, "bits", 8));
  j.low = braid_attr_int(node->attrs, "relu", 0) ? 0 : -j.high;
  j.shift = shift < 32 ? (int)shift : 0;
  pack_weights(p, args);
  for (int64_t s = 0; s < p->sweeps.count; s++)
    for (j.group = 0; j.group < p->conv.groups; j.group++) {
      j.sweep = &p->sweeps.sweeps[s];
      j.inner = inner_of(p, j.sweep);
      j.step = braid_dot_quads(j.inner) * BRAID_DOT_QUAD;
      j.rows = p->conv.batch * j.sweep->count[0] * j.sweep->count[1];
      j.block = block_rows(j.step, j.rows, p->lanes);
      j.wide = j.inner > kPiece || (!p->backward && shift > 31) || node->outputs[0].desc.dtype == BRAID_I64;
      bits |= run_sweep(&j);
    }
  if (p->backward) braid_integer_set_magnitude(&node->outputs[0].desc, bits, args->outputs[1]);
  return BRAID_OK;
}

static const braid_cpu_kernel kConv = {.create = conv_create, .run = conv_run, .destroy = conv_destroy};

static const braid_kernel kKernels[] = {
    {.op = "IntegerConv",
     .name = "dot_integer_conv",
     .match = conv_match,
     .layouts = conv_layouts,
     .implementation = &kConv},
    {.op = "IntegerConvGradInput",
     .name = "dot_integer_conv_grad_input",
     .match = conv_match,
     .layouts = conv_layouts,
     .implementation = &kConv},
};

extern const braid_cpu_table braid_cpu_integer_conv;
const braid_cpu_table braid_cpu_integer_conv = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
