/* Depthwise filters over bytes in layout BHWC. */
#include <omp.h>
#include <string.h>

#include "backend/cpu/quantized/depthwise_dot_isa.h"
#include "backend/cpu/quantized/depthwise_isa.h"
#include "backend/cpu/quantized/qlinear.h"
#include "backend/cpu/quantized/scales.h"
#include "base/try.h"

/* --- preparation ---------------------------------------------------------------------------------------------------
 */
/* Filters of depthwise convolutions less their zero points are 16-bit numbers, unless all are 0. */
static braid_status read_w_zeros(const braid_allocator *allocator, braid_qlinear *p, bool *all_zero) {
  const void *zeros =
      braid_bytes_given(p->node, BRAID_QLINEAR_W_ZERO) ? p->node->inputs[BRAID_QLINEAR_W_ZERO].constant : NULL;
  int32_t bias = p->w_unsigned ? -128 : 0, any = 0;
  int64_t count = zeros ? braid_desc_count(&p->node->inputs[BRAID_QLINEAR_W_ZERO].desc) : 0;
  p->w_zeros = braid_zalloc_array(allocator, (size_t)p->conv.outputs, sizeof *p->w_zeros);
  if (!p->w_zeros) return BRAID_NO_MEMORY;
  for (int64_t i = 0; i < p->conv.outputs; i++) {
    int32_t zero = !count          ? 0
                   : p->w_unsigned ? ((const uint8_t *)zeros)[i % count]
                                   : ((const int8_t *)zeros)[i % count];
    p->w_zeros[i] = (int16_t)(zero + bias);
    any |= p->w_zeros[i];
  }
  *all_zero = any == 0;
  return BRAID_OK;
}

/* Windows of 3 x 3 without holes. */
static bool is_by_columns(const braid_window *v) {
  return v->kernel[0] == 1 && v->input[0] == 1 && v->kernel[1] == 3 && v->kernel[2] == 3 && v->dilation[1] == 1 &&
         v->dilation[2] == 1 && v->stride[2] <= 2;
}

braid_status braid_depthwise_prepare(const braid_allocator *allocator, braid_qlinear *p) {
  enum { kLeast = 8, kMost = 64, kSums = 1 << 13 };
  bool zeros;
  BRAID_TRY(read_w_zeros(allocator, p, &zeros));
  p->dot_packed = zeros && braid_isa_current() == BRAID_ISA_VNNI;
  p->lines = p->dot_packed && is_by_columns(&p->conv.window);
  p->places = kSums / p->conv.outputs;
  p->places = p->places < kLeast ? kLeast : p->places > kMost ? kMost : p->places;
  return BRAID_OK;
}

size_t braid_depthwise_taps_bytes(const braid_qlinear *p) {
  return ((size_t)braid_qlinear_taps(p) * sizeof(void *) + 63) & ~(size_t)63;
}

int64_t braid_depthwise_sums(const braid_qlinear *p) {
  return p->places * p->conv.outputs + BRAID_DEPTHWISE_CHANNELS;
}

/* Groups of four taps. By columns: of three, and nothing. */
static int64_t tap_groups(const braid_qlinear *p) {
  if (p->lines) return p->conv.window.kernel[2];
  return (braid_qlinear_taps(p) + BRAID_DEPTHWISE_TAPS - 1) / BRAID_DEPTHWISE_TAPS;
}

static int64_t channels_padded(const braid_qlinear *p) {
  return (p->conv.outputs + BRAID_DEPTHWISE_CHANNELS - 1) / BRAID_DEPTHWISE_CHANNELS * BRAID_DEPTHWISE_CHANNELS;
}

size_t braid_depthwise_bytes(const braid_qlinear *p) {
  int64_t weights = p->dot_packed ? channels_padded(p) * tap_groups(p) * BRAID_DEPTHWISE_TAPS
                                  : p->conv.outputs * braid_qlinear_taps(p) * (int64_t)sizeof(int16_t);
  return (size_t)(weights + 63) / 64 * 64;
}

/* Where a tap is among those that are packed. */
static int64_t tap_place(const braid_qlinear *p, int64_t tap) {
  int64_t columns = p->conv.window.kernel[2];
  return p->lines ? tap % columns * BRAID_DEPTHWISE_TAPS + tap / columns : tap;
}

void braid_depthwise_pack(const braid_qlinear *p, const uint8_t *plain, void *packed) {
  int64_t taps = braid_qlinear_taps(p), channels = p->conv.outputs;
  int32_t *sums = (int32_t *)(void *)((char *)packed + braid_depthwise_bytes(p));
  bool twice = p->lines && channels == BRAID_DEPTHWISE_PAIRED;
  for (int64_t c = 0; c < channels; c++)
    for (int64_t t = 0; t < taps; t++) {
      int16_t value = (int16_t)((int8_t)(plain[c * taps + t] ^ (p->w_unsigned ? 0x80 : 0)) - p->w_zeros[c]);
      int64_t place = tap_place(p, t);
      if (p->dot_packed)
        ((int8_t *)packed)[braid_depthwise_at(c, place, tap_groups(p))] = (int8_t)value;
      else
        ((int16_t *)packed)[t * channels + c] = value;
      if (twice) ((int8_t *)packed)[braid_depthwise_at(c + channels, place, tap_groups(p))] = (int8_t)value;
      sums[c] += value;
    }
}

/* --- runs ----------------------------------------------------------------------------------------------------------
 */
/* Where the taps of a window lie; those outside, in padding. True: all lie inside. */
static bool find_taps(const braid_qlinear_job *j, const braid_qlinear_walk *w, const uint8_t **taps) {
  const braid_qlinear *p = j->p;
  const braid_window *v = &p->conv.window;
  bool all = true;
  for (int64_t i = 0, z = w->at[0]; i < v->kernel[0]; i++, z += v->dilation[0])
    for (int64_t k = 0, y = w->at[1]; k < v->kernel[1]; k++, y += v->dilation[1])
      for (int64_t l = 0, x = w->at[2]; l < v->kernel[2]; l++, x += v->dilation[2]) {
        bool inside = z >= 0 && z < v->input[0] && y >= 0 && y < v->input[1] && x >= 0 && x < v->input[2];
        *taps++ = inside ? w->image + ((z * v->input[1] + y) * v->input[2] + x) * p->conv.inputs : j->padding;
        all &= inside;
      }
  return all;
}

static void sum_place(const braid_qlinear_job *j, const uint8_t **taps, int32_t *sums) {
  const braid_qlinear *p = j->p;
  const void *weights = j->args->inputs[BRAID_QLINEAR_W];
  if (p->dot_packed)
    BRAID_DOT_ISA_CALL(braid_depthwise_place, taps, braid_qlinear_taps(p), p->flip, weights, p->conv.outputs, sums);
  else
    BRAID_ISA_CALL(braid_depthwise_wide, taps, braid_qlinear_taps(p), p->flip, weights, p->conv.outputs, sums);
}

/* From a window that lies inside to its neighbour on the line, taps move by one step. */
static void run_places(const braid_qlinear_job *j, int64_t first, int64_t end, const uint8_t **taps, int32_t *sums) {
  const braid_qlinear *p = j->p;
  const braid_window *v = &p->conv.window;
  int64_t count = braid_qlinear_taps(p), channels = p->conv.outputs, step = v->stride[2] * channels;
  int64_t reach = (v->kernel[2] - 1) * v->dilation[2];
  const uint8_t *z = j->q.residual ? j->args->inputs[BRAID_QLINEAR_Z] : NULL;
  braid_qlinear_walk w = braid_qlinear_begin(j, first);
  bool inside = false;
  for (int64_t row = first; row < end;) {
    int64_t places = 0;
    for (; places < p->places && row + places < end; places++, braid_qlinear_next(j, &w)) {
      if (inside && w.output[2] > 0 && w.at[2] + reach < v->input[2])
        for (int64_t t = 0; t < count; t++) taps[t] += step;
      else
        inside = find_taps(j, &w, taps);
      sum_place(j, taps, sums + places * channels);
    }
    BRAID_ISA_CALL(braid_requantize_rows, &j->q, sums, channels, places, channels, z ? z + row * channels : NULL,
                   (uint8_t *)j->args->outputs[0] + row * channels, channels);
    row += places;
  }
}

/* A line of the result, by windows of 3 x 3. */
static void run_line(const braid_qlinear_job *j, int64_t line, int32_t *sums) {
  const braid_qlinear *p = j->p;
  const braid_window *v = &p->conv.window;
  int64_t width = v->output[2], channels = p->conv.outputs, first = line * width;
  const uint8_t *z = j->q.residual ? j->args->inputs[BRAID_QLINEAR_Z] : NULL;
  const braid_qlinear_walk w = braid_qlinear_begin(j, first);
  braid_depthwise_lines lines = {
      .padding = j->padding, .width = v->input[2], .channels = channels, .stride = v->stride[2], .flip = p->flip};
  for (int64_t k = 0; k < 3; k++) {
    int64_t y = w.at[1] + k;
    lines.rows[k] = y >= 0 && y < v->input[1] ? w.image + y * v->input[2] * channels : NULL;
  }
  for (int64_t at = 0; at < width; at += p->places) {
    int64_t some = width - at < p->places ? width - at : p->places, row = (first + at) * channels;
    BRAID_DOT_ISA_CALL(braid_depthwise_line, &lines, w.at[2] + at * v->stride[2], some,
                       j->args->inputs[BRAID_QLINEAR_W], sums);
    BRAID_ISA_CALL(braid_requantize_rows, &j->q, sums, channels, some, channels, z ? z + row : NULL,
                   (uint8_t *)j->args->outputs[0] + row, channels);
  }
}

void braid_depthwise_run(const braid_qlinear_job *j) {
  const braid_qlinear *p = j->p;
  int64_t lines = p->conv.batch * braid_window_outputs(&p->conv.window) / p->conv.window.output[2];
  size_t taps_bytes = braid_depthwise_taps_bytes(p);
#pragma omp parallel for schedule(dynamic, 4) if (p->rows * p->inner * p->conv.outputs > 1 << 14)                      \
    num_threads((int)p->lanes)
  for (int64_t line = 0; line < lines; line++) {
    char *lane = (char *)j->args->workspace + p->lane_at + (size_t)omp_get_thread_num() * p->lane_bytes;
    int64_t width = p->conv.window.output[2];
    int32_t *sums = (int32_t *)(void *)(lane + taps_bytes);
    if (p->lines)
      run_line(j, line, sums);
    else
      run_places(j, line * width, (line + 1) * width, (const uint8_t **)(void *)lane, sums);
  }
}
