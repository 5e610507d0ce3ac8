/* Convolutions and products of quantized operands with quantized results: QLinearConv, QLinearMatMul, and the two with
 * a residual or an activation behind them. Constant weights; images in layout BHWC, so that a window of one place is a
 * plain product. Sums are those of ../dot; a row of them becomes bytes while it is in the cache.
 *
 * Signed bytes x count as unsigned ones, x + 128. With zero points of x and w the sum of (x - x0)(w - w0) is
 * sum x w - x0 sum w - w0 (sum x - k x0): the second is part of the offset of a column, the third, which a filter's
 * zero point of 0 makes 0, is taken off row by row. */
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/dot/dot.h"
#include "backend/cpu/quantized/qlinear.h"
#include "backend/cpu/quantized/scales.h"
#include "base/checked.h"
#include "base/fnv.h"
#include "base/try.h"
#include "graph/geometry.h"
#include "graph/ops/qlinear.h"

enum { kBlockBytes = 96 << 10, kMostBlock = 16 * BRAID_DOT_ROWS };

static bool qlinear_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  const size_t kOperands[] = {BRAID_QLINEAR_X, BRAID_QLINEAR_Z};
  bool residual = braid_bytes_given(node, BRAID_QLINEAR_Z);
  if (!braid_bytes_match(node, kOperands, residual ? 2 : 1, BRAID_QLINEAR_Y, why, why_bytes)) return false;
  const braid_desc *x = &node->inputs[BRAID_QLINEAR_X].desc, *w = &node->inputs[BRAID_QLINEAR_W].desc;
  bool convolves = strstr(node->op, "Conv") != NULL;
  bool transposed = braid_attr_int(node->attrs, "transB", 0) != 0;
  const char *reason = NULL;
  if (!node->inputs[BRAID_QLINEAR_W].constant ||
      (braid_bytes_given(node, BRAID_QLINEAR_W_ZERO) && !node->inputs[BRAID_QLINEAR_W_ZERO].constant))
    reason = "weights that are no constants";
  else if (node->inputs[BRAID_QLINEAR_W_SCALE].desc.dtype != BRAID_F32)
    reason = "float32 scales only";
  else if (!convolves && (w->rank != 2 || x->rank < 2))
    reason = "a right side that is no single matrix";
  else if (braid_desc_count(x) == 0)
    reason = "an empty operand";
  else if (braid_desc_count(w) > w->dims[convolves ? 0 : !transposed] * BRAID_QLINEAR_MOST_PRODUCTS)
    reason = "sums that int32 may not hold";
  if (reason) snprintf(why, why_bytes, "%s", reason);
  return !reason;
}

static void qlinear_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  for (size_t i = 0; i < node->input_count; i++) inputs[i] = BRAID_LAYOUT_PLAIN;
  outputs[0] = BRAID_LAYOUT_PLAIN;
  if (!strstr(node->op, "Conv")) return;
  inputs[BRAID_QLINEAR_X] = outputs[0] = BRAID_LAYOUT_BHWC;
  if (braid_bytes_given(node, BRAID_QLINEAR_Z)) inputs[BRAID_QLINEAR_Z] = BRAID_LAYOUT_BHWC;
}

/* --- preparation ---------------------------------------------------------------------------------------------------
 */
static braid_status read_shape(braid_qlinear *p) {
  const braid_node_desc *node = p->node;
  const braid_desc *x = &node->inputs[BRAID_QLINEAR_X].desc, *w = &node->inputs[BRAID_QLINEAR_W].desc;
  if (p->convolves) {
    BRAID_TRY(braid_geometry_conv(node->attrs, x, w, &p->conv));
  } else {
    bool transposed = braid_attr_int(node->attrs, "transB", 0) != 0;
    p->conv = (braid_convolution){.groups = 1, .inputs = w->dims[transposed], .outputs = w->dims[!transposed]};
    p->conv.batch = braid_desc_count(x) / p->conv.inputs;
    for (int i = 0; i < BRAID_WINDOW_RANK; i++)
      p->conv.window.input[i] = p->conv.window.output[i] = p->conv.window.kernel[i] = p->conv.window.stride[i] =
          p->conv.window.dilation[i] = 1;
  }
  const braid_window *v = &p->conv.window;
  p->depthwise = p->conv.groups > 1 && p->conv.inputs == p->conv.groups && p->conv.outputs == p->conv.groups;
  p->rows = p->conv.batch * braid_window_outputs(v);
  p->inner = p->conv.inputs / p->conv.groups * braid_qlinear_taps(p);
  p->step = braid_dot_quads(p->inner) * BRAID_DOT_QUAD;
  p->filters = p->conv.outputs / p->conv.groups;
  p->flip = x->dtype == BRAID_I8 ? 0x80 : 0;
  p->w_unsigned = w->dtype == BRAID_U8;
  bool pointwise = braid_qlinear_taps(p) == 1 && p->conv.groups == 1;
  for (int i = 0; i < BRAID_WINDOW_RANK; i++)
    pointwise &= v->stride[i] == 1 && v->begin[i] == 0 && v->input[i] == v->output[i];
  p->direct = pointwise && !p->flip && p->step == p->inner;
  return BRAID_OK;
}

/* Blocks of rows: few enough for the cache, and enough blocks for all threads. */
static int64_t choose_block(const braid_qlinear *p, int64_t threads) {
  int64_t block = kBlockBytes / (p->step ? p->step : 1) / BRAID_DOT_ROWS * BRAID_DOT_ROWS;
  int64_t each = (p->rows + 4 * threads - 1) / (4 * threads);
  if (block > each) block = (each + BRAID_DOT_ROWS - 1) / BRAID_DOT_ROWS * BRAID_DOT_ROWS;
  return block < BRAID_DOT_ROWS ? BRAID_DOT_ROWS : block > kMostBlock ? kMostBlock : block;
}

/* Room at the end of the workspace. */
static size_t place(braid_prepared_info *info, int64_t count, size_t unit, bool *fits) {
  size_t at = info->workspace_bytes, bytes = 0;
  *fits = *fits && braid_mul_size((size_t)count, unit, &bytes) && braid_add_size(bytes, 63, &bytes) &&
          braid_add_size(at, bytes & ~(size_t)63, &info->workspace_bytes);
  return at;
}

static braid_status qlinear_prepare(const braid_allocator *allocator, braid_qlinear *p, braid_prepared_info *info) {
  BRAID_TRY(read_shape(p));
  if (p->depthwise) BRAID_TRY(braid_depthwise_prepare(allocator, p));
  bool fits = true;
  int64_t threads = omp_get_max_threads(), channels = p->conv.inputs;
  p->block = choose_block(p, threads);
  p->lanes = threads;
  p->offsets_at = place(info, p->conv.outputs + BRAID_DOT_COLUMNS, sizeof(int32_t), &fits);
  p->factors_at = place(info, p->conv.outputs + BRAID_DOT_COLUMNS, sizeof(float), &fits);
  p->padding_at = place(info, channels, 1, &fits);
  p->lane_at = info->workspace_bytes;
  for (int64_t lane = 0; lane < p->lanes && fits; lane++) {
    if (p->depthwise) {
      place(info, (int64_t)braid_depthwise_taps_bytes(p), 1, &fits);
      place(info, braid_depthwise_sums(p), sizeof(int32_t), &fits);
    } else if (!p->direct) {
      place(info, p->block, (size_t)p->step, &fits);
    }
  }
  p->lane_bytes = (info->workspace_bytes - p->lane_at) / (size_t)p->lanes;
  size_t bytes;
  fits = fits && braid_dot_packed_bytes(p->inner, p->filters, &bytes) &&
         braid_mul_size(bytes, (size_t)p->conv.groups, &bytes);
  return fits ? BRAID_OK : braid_fail(BRAID_OUT_OF_RANGE, "its workspace overflows");
}

static void qlinear_destroy(const braid_allocator *allocator, void *state) {
  braid_qlinear *p = state;
  if (p) braid_free(allocator, p->w_zeros);
  braid_free(allocator, p);
}

static braid_status qlinear_create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                   braid_prepared_info *info) {
  *state = NULL;
  braid_qlinear *p = braid_zalloc(allocator, sizeof *p);
  if (!p) return BRAID_NO_MEMORY;
  p->node = node;
  p->convolves = strstr(node->op, "Conv") != NULL;
  braid_status status = qlinear_prepare(allocator, p, info);
  if (status == BRAID_OK)
    *state = p;
  else
    qlinear_destroy(allocator, p);
  return status;
}

/* --- weights -------------------------------------------------------------------------------------------------------
 */
static size_t group_bytes(const braid_qlinear *p) {
  size_t bytes = 0;
  (void)braid_dot_packed_bytes(p->inner, p->filters, &bytes); /* checked in qlinear_prepare */
  return (bytes + 63) / 64 * 64;
}

static size_t packed_bytes(const braid_qlinear *p) {
  return p->depthwise ? braid_depthwise_bytes(p) + (size_t)p->conv.outputs * sizeof(int32_t)
                      : (size_t)p->conv.groups * group_bytes(p);
}

static void list_packings(const void *state, braid_query *query) {
  const braid_qlinear *p = state;
  const int64_t shape[] = {
      3,          p->convolves,  p->conv.groups, p->inner,     braid_qlinear_taps(p),
      p->filters, p->dot_packed, p->lines,       p->depthwise, braid_attr_int(p->node->attrs, "transB", 0)};
  uint64_t key = braid_fnv_mix(BRAID_FNV_START, shape, sizeof shape);
  if (p->w_zeros) key = braid_fnv_mix(key, p->w_zeros, (size_t)p->conv.outputs * sizeof *p->w_zeros);
  query->packings[query->packing_count++] = (braid_packing){BRAID_QLINEAR_W, packed_bytes(p), key};
}

static braid_status qlinear_pack(const braid_node_desc *node, void *state, uint32_t input, const void *plain,
                                 void *packed) {
  const braid_qlinear *p = state;
  (void)input;
  if (p->depthwise) {
    memset(packed, 0, packed_bytes(p));
    braid_depthwise_pack(p, plain, packed);
    return BRAID_OK;
  }
  int64_t taps = braid_qlinear_taps(p), channels = p->inner / taps;
  bool columns = !p->convolves && braid_attr_int(node->attrs, "transB", 0) == 0; /* filters are columns */
  braid_dot_right right = {.is_unsigned = p->w_unsigned,
                           .k = p->inner,
                           .n = p->filters,
                           .run = channels,
                           .run_step = 1,
                           .k_step = columns ? p->filters : taps,
                           .n_step = columns ? 1 : p->inner};
  for (int64_t g = 0; g < p->conv.groups; g++) {
    right.data = (const char *)plain + g * p->filters * p->inner;
    braid_dot_pack_right(&right, (char *)packed + (size_t)g * group_bytes(p));
  }
  return BRAID_OK;
}

/* --- runs ----------------------------------------------------------------------------------------------------------
 */

/* The zero point of a filter's weights as signed bytes. */
static int32_t filter_zero(const braid_qlinear_job *j, int64_t filter) {
  return braid_bytes_zero(j->p->node, j->args, BRAID_QLINEAR_W_ZERO, filter) - (j->p->w_unsigned ? 128 : 0);
}

/* One group's offsets and factors. */
static void make_group(braid_qlinear_job *j, int64_t group, int32_t *offsets, float *factors) {
  const braid_qlinear *p = j->p;
  const braid_cpu_args *args = j->args;
  int64_t first = group * p->filters;
  const char *packed = (const char *)args->inputs[BRAID_QLINEAR_W];
  const int32_t *sums = p->depthwise
                            ? (const int32_t *)(const void *)(packed + braid_depthwise_bytes(p)) + group
                            : braid_dot_column_sums(packed + (size_t)group * group_bytes(p), p->inner, p->filters);
  const int32_t *bias =
      braid_bytes_given(p->node, BRAID_QLINEAR_BIAS) ? (const int32_t *)args->inputs[BRAID_QLINEAR_BIAS] + first : NULL;
  const float *w_scale = args->inputs[BRAID_QLINEAR_W_SCALE];
  bool list = braid_desc_count(&p->node->inputs[BRAID_QLINEAR_W_SCALE].desc) > 1;
  float x_scale = *(const float *)args->inputs[BRAID_QLINEAR_X + 1];
  float y_scale = j->q.residual ? j->q.between.scale : j->q.y.scale;
  uint32_t zero = (uint32_t)j->x_zero;
  for (int64_t c = 0; c < p->filters; c++) {
    offsets[first + c] = (int32_t)((bias ? (uint32_t)bias[c] : 0) - zero * (uint32_t)sums[c]);
    factors[first + c] = x_scale * w_scale[list ? first + c : 0] / y_scale;
  }
  for (int64_t c = 0; j->w_zero && c < p->filters; c++)
    offsets[first + c] =
        (int32_t)((uint32_t)offsets[first + c] + (uint32_t)(filter_zero(j, first + c) * p->inner) * zero);
}

static void make_columns(braid_qlinear_job *j) {
  const braid_qlinear *p = j->p;
  int32_t *offsets = (int32_t *)(void *)((char *)j->args->workspace + p->offsets_at);
  float *factors = (float *)(void *)((char *)j->args->workspace + p->factors_at);
  int64_t zeros = braid_bytes_given(p->node, BRAID_QLINEAR_W_ZERO)
                      ? braid_desc_count(&p->node->inputs[BRAID_QLINEAR_W_ZERO].desc)
                      : 1;
  for (int64_t i = 0; i < zeros && !p->depthwise; i++) j->w_zero |= filter_zero(j, i) != 0;
  for (int64_t g = 0; g < p->conv.groups; g++) make_group(j, g, offsets, factors);
  j->q.offsets = offsets;
  j->q.factors = factors;
}

braid_qlinear_walk braid_qlinear_begin(const braid_qlinear_job *j, int64_t row) {
  const braid_window *v = &j->p->conv.window;
  int64_t rest = row;
  braid_qlinear_walk w = {.image = NULL};
  for (int i = BRAID_WINDOW_RANK; i-- > 0; rest /= v->output[i]) {
    w.output[i] = rest % v->output[i];
    w.at[i] = w.output[i] * v->stride[i] - v->begin[i];
  }
  w.image = j->x + rest * braid_window_inputs(v) * j->p->conv.inputs;
  return w;
}

void braid_qlinear_next(const braid_qlinear_job *j, braid_qlinear_walk *w) {
  const braid_window *v = &j->p->conv.window;
  for (int i = BRAID_WINDOW_RANK; i-- > 0;) {
    w->at[i] += v->stride[i];
    if (++w->output[i] < v->output[i]) return;
    w->output[i] = 0;
    w->at[i] = -v->begin[i];
  }
  w->image += braid_window_inputs(v) * j->p->conv.inputs;
}

/* A few bytes, of which a call would take longer than copying does. */
static inline void copy_run(uint8_t *to, const uint8_t *from, int64_t count) {
  if (count >= 16) {
    for (int64_t i = 0; i + 16 <= count; i += 16) memcpy(to + i, from + i, 16);
    memcpy(to + count - 16, from + count - 16, 16);
  } else if (count >= 8) {
    memcpy(to, from, 8);
    memcpy(to + count - 8, from + count - 8, 8);
  } else {
    for (int64_t i = 0; i < count; i++) to[i] = from[i];
  }
}

/* One line of the window: of a group's channels at each place, of which those outside are padding. */
static uint8_t *lay_line(const braid_qlinear_job *j, const uint8_t *line, int64_t at, int64_t group, uint8_t *to) {
  const braid_qlinear *p = j->p;
  const braid_window *v = &p->conv.window;
  int64_t channels = p->conv.inputs / p->conv.groups, all = p->conv.inputs, count = v->kernel[2];
  if (line && p->conv.groups == 1 && v->dilation[2] == 1 && at >= 0 && at + count <= v->input[2]) {
    copy_run(to, line + at * all, count * channels);
    return to + count * channels;
  }
  for (int64_t l = 0; l < count; l++, at += v->dilation[2], to += channels) {
    bool inside = line && at >= 0 && at < v->input[2];
    copy_run(to, inside ? line + at * all + group * channels : j->padding, channels);
  }
  return to;
}

static void flip_row(uint8_t *row, int64_t count) {
  for (int64_t i = 0; i < count; i++) row[i] ^= 0x80;
}

/* Of an image of two dimensions, whose window has no holes. */
static bool is_inside(const braid_window *v, const int64_t at[BRAID_WINDOW_RANK]) {
  return at[1] >= 0 && at[1] + v->kernel[1] <= v->input[1] && at[2] >= 0 && at[2] + v->kernel[2] <= v->input[2];
}

static void lay_row(const braid_qlinear_job *j, const braid_qlinear_walk *w, int64_t group, uint8_t *to) {
  const braid_qlinear *p = j->p;
  const braid_window *v = &p->conv.window;
  uint8_t *from = to;
  if (j->packs_lines && is_inside(v, w->at)) {
    int64_t run = v->kernel[2] * p->conv.inputs, line = v->input[2] * p->conv.inputs, lines = v->kernel[1];
    const uint8_t *x = w->image + w->at[1] * line + w->at[2] * p->conv.inputs;
    for (int64_t k = 0; k < lines; k++, x += line, to += run) copy_run(to, x, run);
    if (p->flip) flip_row(from, p->inner);
    return;
  }
  for (int64_t i = 0, z = w->at[0]; i < v->kernel[0]; i++, z += v->dilation[0])
    for (int64_t k = 0, y = w->at[1]; k < v->kernel[1]; k++, y += v->dilation[1]) {
      bool inside = z >= 0 && z < v->input[0] && y >= 0 && y < v->input[1];
      const uint8_t *line = inside ? w->image + (z * v->input[1] + y) * v->input[2] * p->conv.inputs : NULL;
      to = lay_line(j, line, w->at[2], group, to);
    }
  if (p->flip) flip_row(from, p->inner);
}

static void lay_rows(const braid_qlinear_job *j, int64_t first, int64_t rows, int64_t group, uint8_t *to) {
  braid_qlinear_walk w = braid_qlinear_begin(j, first);
  for (int64_t r = 0; r < rows; r++, braid_qlinear_next(j, &w), to += j->p->step) {
    lay_row(j, &w, group, to);
    memset(to + j->p->inner, 0, (size_t)(j->p->step - j->p->inner));
  }
}

/* Takes off what the filters' zero points add: they times the sum of the row. */
static void subtract_zeros(const braid_qlinear_job *j, const uint8_t *row, int64_t filter, int64_t columns,
                           int32_t *sums) {
  const braid_qlinear *p = j->p;
  uint32_t total = 0;
  for (int64_t i = 0; i < p->inner; i++) total += row[i];
  for (int64_t c = 0; c < columns; c++)
    sums[c] = (int32_t)((uint32_t)sums[c] - total * (uint32_t)filter_zero(j, filter + c));
}

/* Rows of a tile of the result, and of what is added to it, are far apart: the processor would not foresee them, and
 * wait for memory at each. */
static inline void fetch_rows(const braid_qlinear_job *j, int64_t at, int64_t rows) {
  const uint8_t *z = j->q.residual ? j->args->inputs[BRAID_QLINEAR_Z] : NULL, *y = j->args->outputs[0];
  for (int64_t i = 0; i < rows; i++, at += j->p->conv.outputs) {
    if (z) __builtin_prefetch(z + at);
    __builtin_prefetch(y + at, 1);
  }
}

static void run_block(const braid_qlinear_job *j, int64_t group, int64_t first, int64_t rows, int64_t from, int64_t end,
                      uint8_t *lane) {
  const braid_qlinear *p = j->p;
  const char *packed = (const char *)j->args->inputs[BRAID_QLINEAR_W] + (size_t)group * group_bytes(p);
  const uint8_t *a = lane, *z = j->q.residual ? j->args->inputs[BRAID_QLINEAR_Z] : NULL;
  uint8_t *y = j->args->outputs[0];
  if (p->direct)
    a = j->x + first * p->inner;
  else
    lay_rows(j, first, rows, group, lane);
  for (int64_t column = from; column < end; column += BRAID_DOT_COLUMNS) {
    const int8_t *panel = braid_dot_panel(packed, p->inner, column);
    int64_t columns = end - column < BRAID_DOT_COLUMNS ? end - column : BRAID_DOT_COLUMNS;
    int64_t filter = group * p->filters + column;
    for (int64_t r = 0; r < rows; r += BRAID_DOT_ROWS) {
      int32_t sums[BRAID_DOT_ROWS * BRAID_DOT_COLUMNS];
      int64_t some = rows - r < BRAID_DOT_ROWS ? rows - r : BRAID_DOT_ROWS;
      braid_requantize q = j->q;
      q.offsets += filter, q.factors += filter;
      int64_t at = (first + r) * p->conv.outputs + filter;
      fetch_rows(j, at, some);
      braid_dot_tile(a + r * p->step, p->step, some, panel, p->inner, columns, sums);
      for (int64_t i = 0; j->w_zero && i < some; i++)
        subtract_zeros(j, a + (r + i) * p->step, filter, columns, sums + i * BRAID_DOT_COLUMNS);
      BRAID_ISA_CALL(braid_requantize_rows, &q, sums, BRAID_DOT_COLUMNS, some, columns, z ? z + at : NULL, y + at,
                     p->conv.outputs);
    }
  }
}

static void run_dots(braid_qlinear_job *j) {
  const braid_qlinear *p = j->p;
  int64_t blocks = (p->rows + p->block - 1) / p->block, whole = blocks * p->conv.groups;
  j->strips = whole >= 2 * p->lanes ? 1 : 2 * p->lanes;
  int64_t most = (p->filters + BRAID_DOT_COLUMNS - 1) / BRAID_DOT_COLUMNS;
  if (j->strips > most) j->strips = most;
  j->strip = ((most + j->strips - 1) / j->strips) * BRAID_DOT_COLUMNS;
  j->strips = (p->filters + j->strip - 1) / j->strip;
#pragma omp parallel for schedule(dynamic) if (p->rows * p->inner * p->conv.outputs > 1 << 17)                         \
    num_threads((int)p->lanes)
  for (int64_t task = 0; task < whole * j->strips; task++) {
    uint8_t *lane = (uint8_t *)j->args->workspace + p->lane_at + (size_t)omp_get_thread_num() * p->lane_bytes;
    int64_t block = task / j->strips % blocks, from = task % j->strips * j->strip, first = block * p->block;
    int64_t rows = p->rows - first < p->block ? p->rows - first : p->block;
    int64_t end = from + j->strip < p->filters ? from + j->strip : p->filters;
    run_block(j, task / j->strips / blocks, first, rows, from, end, lane);
  }
}

static braid_status qlinear_run(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const braid_qlinear *p = state;
  braid_qlinear_job j = {.p = p, .args = args, .x = args->inputs[BRAID_QLINEAR_X]};
  j.q.residual = braid_bytes_given(node, BRAID_QLINEAR_Z);
  j.q.y = braid_bytes_result_of(node, args, BRAID_QLINEAR_Y);
  if (j.q.residual) {
    j.q.z = braid_bytes_scale_of(node, args, node->inputs[BRAID_QLINEAR_Z].desc.dtype, BRAID_QLINEAR_Z + 1);
    j.q.between =
        braid_bytes_scale_of(node, args, node->inputs[BRAID_QLINEAR_BETWEEN + 1].desc.dtype, BRAID_QLINEAR_BETWEEN);
    j.q.factor = j.q.between.scale / j.q.y.scale;
    j.q.z_factor = j.q.z.scale / j.q.y.scale;
  }
  int32_t zero = braid_bytes_zero(node, args, BRAID_QLINEAR_X + 2, 0);
  j.x_zero = zero + (p->flip ? 128 : 0);
  uint8_t *padding = (uint8_t *)args->workspace + p->padding_at;
  memset(padding, zero & 0xff, (size_t)p->conv.inputs);
  j.padding = padding;
  const braid_window *v = &p->conv.window;
  j.packs_lines = p->conv.groups == 1 && v->input[0] == 1 && v->kernel[0] == 1 && v->begin[0] == 0 &&
                  v->dilation[1] == 1 && v->dilation[2] == 1;
  make_columns(&j);
  if (p->depthwise)
    braid_depthwise_run(&j);
  else
    run_dots(&j);
  return BRAID_OK;
}

static const braid_cpu_kernel kQLinear = {.create = qlinear_create,
                                          .run = qlinear_run,
                                          .destroy = qlinear_destroy,
                                          .list_packings = list_packings,
                                          .pack = qlinear_pack};
#define KERNEL(node_op, kernel_name)                                                                                   \
  {                                                                                                                    \
    .op = node_op, .name = kernel_name, .match = qlinear_match, .layouts = qlinear_layouts,                            \
    .implementation = &kQLinear                                                                                        \
  }
static const braid_kernel kKernels[] = {
    KERNEL("QLinearConv", "dot_qlinear_conv"),
    KERNEL("FusedQLinearConv", "dot_fused_qlinear_conv"),
    KERNEL("QLinearMatMul", "dot_qlinear_matmul"),
    KERNEL("FusedQLinearMatMul", "dot_fused_qlinear_matmul"),
};

extern const braid_cpu_table braid_cpu_quantized_qlinear;
const braid_cpu_table braid_cpu_quantized_qlinear = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
