/* Gradients of convolutions, by inputs and by weights: sizes are those of the forward op, see window.clh. All results
 * are gathered, each in one order. */
#include "common.clh"
#include "window.clh"

/* --- by inputs, plain: a work-item for each ------------------------------------------------------------------------- */
KERNEL input_direct(IN(float) dy, IN(float) w, OUT(float) dx, SIZES) {
  const index_t at = get_global_id(0), inputs = INPUTS, outputs = OUTPUTS;
  if (at >= batch * groups * per_in * inputs) return;
  const index_t channel = at / inputs, image = channel / (groups * per_in), c = channel % per_in;
  const index_t group = channel / per_in % groups;
  const index_t p0 = at % inputs / i2 / i1, p1 = at / i2 % i1, p2 = at % i2;
  IN(float) from = dy + (image * groups + group) * per_out * outputs;
  IN(float) weight = w + (group * per_out * per_in + c) * TAPS;
  float sum = 0;
  for (int k0 = 0; k0 < N0; k0++)
    for (int k1 = 0; k1 < N1; k1++)
      for (int k2 = 0; k2 < N2; k2++) {
        const index_t t0 = p0 + b0 - k0 * d0, t1 = p1 + b1 - k1 * d1, t2 = p2 + b2 - k2 * d2;
        if (t0 < 0 || t1 < 0 || t2 < 0 || t0 % s0 || t1 % s1 || t2 % s2) continue;
        if (t0 / s0 >= o0 || t1 / s1 >= o1 || t2 / s2 >= o2) continue;
        const index_t o = (t0 / s0 * o1 + t1 / s1) * o2 + t2 / s2, tap = (k0 * N1 + k1) * N2 + k2;
        for (int m = 0; m < per_out; m++) sum = fma(from[m * outputs + o], weight[m * per_in * TAPS + tap], sum);
      }
  dx[at] = sum;
}

/* --- by weights, plain: a group for each, whose work-items take turns ------------------------------------------------ */
KERNEL filter_direct(IN(float) x, IN(float) dy, OUT(float) dw, SIZES) {
  SHARED float parts[GROUP];
  const index_t at = get_group_id(0), inputs = INPUTS, outputs = OUTPUTS;
  const int l = get_local_id(0);
  const index_t tap = at % TAPS, c = at / TAPS % per_in, channel = at / TAPS / per_in, group = channel / per_out;
  const index_t x0 = tap / (N1 * N2) * d0 - b0, x1 = tap / N2 % N1 * d1 - b1, x2 = tap % N2 * d2 - b2;
  float sum = 0;
  for (index_t i = l; i < batch * outputs; i += GROUP) {
    const index_t image = i / outputs, o = i % outputs;
    const index_t p0 = o / o2 / o1 * s0 + x0, p1 = o / o2 % o1 * s1 + x1, p2 = o % o2 * s2 + x2;
    if (p0 < 0 || p0 >= i0 || p1 < 0 || p1 >= i1 || p2 < 0 || p2 >= i2) continue;
    sum = fma(dy[(image * groups * per_out + channel) * outputs + o],
              x[((image * groups + group) * per_in + c) * inputs + (p0 * i1 + p1) * i2 + p2], sum);
  }
  parts[l] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int width = GROUP / 2; width > 0; width /= 2) {
    if (l < width) parts[l] += parts[l + width];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (l == 0) dw[at] = parts[0];
}

/* Slices in their order. */
KERNEL add_slices(IN(float) parts, OUT(float) out, index_t count, index_t slices) {
  const index_t i = get_global_id(0);
  if (i >= count) return;
  float sum = 0;
  for (index_t s = 0; s < slices; s++) sum += parts[s * count + i];
  out[i] = sum;
}

/* --- by tiles in local memory ----------------------------------------------------------------------------------------- */
#ifdef TILE_M
#include "tile.clh"
#define TAP_2(k) ((k) % N2)
#define TAP_1(k) ((k) / N2 % N1)
#define TAP_0(k) ((k) / (N2 * N1) % N0)

#ifdef BY_INPUTS
/* Rows are input channels, columns inputs, and the inner dimension output channels and taps. */
float output_at(IN(float) dy, index_t channel, index_t t0, index_t t1, index_t t2, int s0, int s1, int s2, index_t o0,
                index_t o1, index_t o2) {
  if (t0 < 0 || t1 < 0 || t2 < 0 || t0 % s0 || t1 % s1 || t2 % s2) return 0;
  if (t0 / s0 >= o0 || t1 / s1 >= o1 || t2 / s2 >= o2) return 0;
  return dy[((channel * o0 + t0 / s0) * o1 + t1 / s1) * o2 + t2 / s2];
}
#define LOAD_LEFT(row, k) ((row) < per_in ? of_w[((k) / TAPS * per_in + (row)) * TAPS + (k) % TAPS] : 0)
#define LOAD_RIGHT(k, column)                                                                                          \
  (there ? output_at(of_dy, (k) / TAPS, t0 - TAP_0(k) * d0, t1 - TAP_1(k) * d1, t2 - TAP_2(k) * d2, s0, s1, s2, o0,    \
                     o1, o2)                                                                                           \
         : 0)
#define STORE(row, column, sum)                                                                                        \
  dx[(((column) / inputs * groups + group) * per_in + (row)) * inputs + (column) % inputs] = sum;
SIMD_KERNEL input_tiles(IN(float) dy, IN(float) w, OUT(float) dx, SIZES) {
  TILE_MEMORY
  const uint l = get_local_id(0);
  const index_t first_column = get_group_id(0) * (index_t)TILE_N, first_row = get_group_id(1) * (index_t)TILE_M;
  const index_t group = get_group_id(2), inputs = INPUTS, columns = batch * inputs, inner = (index_t)per_out * TAPS;
  const index_t column = first_column + l % TILE_N, p = column % inputs;
  const bool there = column < columns;
  const index_t t0 = p / i2 / i1 + b0, t1 = p / i2 % i1 + b1, t2 = p % i2 + b2;
  IN(float) of_dy = dy + (there ? (column / inputs * groups + group) * per_out * OUTPUTS : 0);
  IN(float) of_w = w + group * per_out * per_in * TAPS;
  TILE_PRODUCT(0, inner, per_in, columns)
}
#else
/* Rows are output channels, columns input channels and taps, and the inner dimension, a slice of it, all outputs. */
float input_at(IN(float) x, index_t p0, index_t p1, index_t p2, index_t i0, index_t i1, index_t i2) {
  return p0 < 0 || p0 >= i0 || p1 < 0 || p1 >= i1 || p2 < 0 || p2 >= i2 ? 0 : x[(p0 * i1 + p1) * i2 + p2];
}
#define LOAD_LEFT(row, k)                                                                                              \
  ((row) < per_out ? dy[(((k) / outputs * groups + group) * per_out + (row)) * outputs + (k) % outputs] : 0)
#define LOAD_RIGHT(k, column)                                                                                          \
  (there ? input_at(of_x + (k) / outputs * groups * per_in * inputs, (k) % outputs / o2 / o1 * s0 + x0,                \
                    (k) % outputs / o2 % o1 * s1 + x1, (k) % outputs % o2 * s2 + x2, i0, i1, i2)                       \
         : 0)
#define STORE(row, column, sum) of_out[(row) * columns + (column)] = sum;
SIMD_KERNEL filter_tiles(IN(float) x, IN(float) dy, OUT(float) parts, SIZES, index_t slice) {
  TILE_MEMORY
  const uint l = get_local_id(0);
  const index_t first_column = get_group_id(0) * (index_t)TILE_N, first_row = get_group_id(1) * (index_t)TILE_M;
  const index_t group = get_group_id(2) % groups, which = get_group_id(2) / groups, inputs = INPUTS;
  const index_t outputs = OUTPUTS, columns = (index_t)per_in * TAPS, column = first_column + l % TILE_N;
  const bool there = column < columns;
  const index_t x0 = TAP_0(column) * d0 - b0, x1 = TAP_1(column) * d1 - b1, x2 = TAP_2(column) * d2 - b2;
  IN(float) of_x = x + (there ? (group * per_in + column / TAPS) * inputs : 0);
  OUT(float) of_out = parts + (which * groups + group) * per_out * columns;
  const index_t begin = which * slice, end = min(begin + slice, batch * outputs);
  TILE_PRODUCT(begin, end, per_out, columns)
}
#endif
#endif

/* --- in registers of a CPU --------------------------------------------------------------------------------------------- */
#ifdef PANEL_M
#include "panel.clh"

/* By inputs: place i = q * s + r - b of class r takes the taps with k * d = r modulo s, and the output q - (k * d - r) /
 * s of each. A line of the flat gradient, l long, begins `margin` places before its first output. */
#define MARGIN(k) (((n##k - 1) * d##k) / s##k)
#define CLASSES (s0 * s1 * s2)
#define EACH_TAP_OF(r0, r1, r2)                                                                                        \
  for (int k0 = 0; k0 < N0; k0++)                                                                                      \
    for (int k1 = 0; k1 < N1; k1++)                                                                                    \
      for (int k2 = 0; k2 < N2; k2++)                                                                                  \
        if (k0 * d0 % s0 == (r0) && k1 * d1 % s1 == (r1) && k2 * d2 % s2 == (r2))
#define CLASS_0(c) ((c) / (s1 * s2))
#define CLASS_1(c) ((c) / s2 % s1)
#define CLASS_2(c) ((c) % s2)

/* Weights as [groups][panels of input channels][class][output channel][tap of the class][PANEL_M]: a work-item for
 * each panel and output channel. */
KERNEL pack_classes(IN(float) w, OUT(float) packed, SIZES) {
  const index_t panels = (per_in + PANEL_M - 1) / PANEL_M, panel = get_global_id(0), m = get_global_id(1);
  const index_t group = get_global_id(2);
  IN(float) from = w + ((group * per_out + m) * per_in + panel * PANEL_M) * TAPS;
  OUT(float) to = packed + (group * panels + panel) * per_out * TAPS * PANEL_M;
  for (int c = 0; c < CLASSES; c++) {
    int count = 0, t = 0;
    EACH_TAP_OF(CLASS_0(c), CLASS_1(c), CLASS_2(c)) count++;
    EACH_TAP_OF(CLASS_0(c), CLASS_1(c), CLASS_2(c)) {
      const int tap = (k0 * N1 + k1) * N2 + k2;
      for (int i = 0; i < PANEL_M; i++)
        to[(m * count + t) * PANEL_M + i] = panel * PANEL_M + i < per_in ? from[i * TAPS + tap] : 0;
      t++;
    }
    to += (index_t)per_out * count * PANEL_M;
  }
}

/* A work-item makes PANEL_N inputs of one class, of `chunk` panels of channels. */
KERNEL input_flat(IN(float) flat_dy, IN(float) packed, OUT(float) dx, SIZES, LINES, index_t chunk, index_t limit) {
  const index_t run = get_global_id(1) * (index_t)PANEL_N, panels = (per_in + PANEL_M - 1) / PANEL_M;
  const int which = (int)(get_global_id(2) % CLASSES), group = (int)(get_global_id(2) / CLASSES % groups);
  const int r0 = CLASS_0(which), r1 = CLASS_1(which), r2 = CLASS_2(which);
  const index_t image = get_global_id(2) / CLASSES / groups, inputs = INPUTS, plane = l0 * l1 * l2;
  const index_t first = (image * groups + group) * per_out * plane + run;
  index_t offsets[MOST_TAPS], before = 0, reach = 0;
  int count = 0;
  for (int c = 0; c < which; c++) EACH_TAP_OF(CLASS_0(c), CLASS_1(c), CLASS_2(c)) before++;
  EACH_TAP_OF(r0, r1, r2) {
    offsets[count] = ((MARGIN(0) - (k0 * d0 - r0) / s0) * l1 + MARGIN(1) - (k1 * d1 - r1) / s1) * l2 + MARGIN(2) -
                     (k2 * d2 - r2) / s2;
    reach = max(reach, offsets[count++] + PANEL_N);
  }
  const index_t safe = limit - first < reach ? 0 : min((index_t)per_out, (limit - first - reach) / plane + 1);
  index_t places[PANEL_N], q0 = run / l2 / l1, q1 = run / l2 % l1, q2 = run % l2;
  for (int j = 0; j < PANEL_N; j++) {
    const index_t p0 = q0 * s0 + r0 - b0, p1 = q1 * s1 + r1 - b1, p2 = q2 * s2 + r2 - b2;
    const bool there = p0 >= 0 && p0 < i0 && p1 >= 0 && p1 < i1 && p2 >= 0 && p2 < i2;
    places[j] = there ? (p0 * i1 + p1) * i2 + p2 : -1;
    if (++q2 < l2) continue;
    q2 = 0;
    if (++q1 < l1) continue;
    q1 = 0;
    q0++;
  }
  const index_t begin = get_global_id(0) * chunk, end = min(begin + chunk, panels);
  for (index_t n = begin; n < end; n++) {
    IN(float) a = packed + ((group * panels + n) * TAPS + before) * per_out * PANEL_M;
    PANEL_SUMS
    for (index_t m = 0; m < safe; m++)
      for (int t = 0; t < count; t++, a += PANEL_M) {
        IN(float) b = flat_dy + first + m * plane + offsets[t];
        PANEL_STEP(a, b)
      }
    for (index_t m = safe; m < per_out; m++)
      for (int t = 0; t < count; t++, a += PANEL_M) {
        const index_t at = first + m * plane + offsets[t];
        float b[PANEL_N];
        LOAD_REST(b, flat_dy + at, limit - at)
        PANEL_STEP(a, b)
      }
    PANEL_RESULTS
    for (int i = 0; i < PANEL_M && n * PANEL_M + i < per_in; i++) {
      OUT(float) to = dx + ((image * groups + group) * per_in + n * PANEL_M + i) * inputs;
      for (int j = 0; j < PANEL_N; j++)
        if (places[j] >= 0) to[places[j]] = results[i][j];
    }
  }
}

/* By weights: dot products over the runs of flat images, of DOT_M output channels with DOT_N taps of input channels;
 * the flat gradient has zeros where a run leaves a line. Images of a slice of the batch one after another. */
#ifdef DOT_M
KERNEL filter_dots(IN(float) flat_x, IN(float) flat_dy, OUT(float) parts, SIZES, LINES, index_t runs, index_t dy_plane,
                   index_t slice) {
  const index_t columns = (index_t)per_in * TAPS, n = get_global_id(0) * DOT_N, m = get_global_id(1) * DOT_M;
  const index_t group = get_global_id(2) % groups, which = get_global_id(2) / groups;
  index_t x_at[DOT_N], dy_at[DOT_M];
  for (int j = 0; j < DOT_N; j++) {
    const index_t column = min(n + j, columns - 1), tap = column % TAPS;
    x_at[j] = (group * per_in + column / TAPS) * PLANE_SIZE + TAP_OFFSET(tap / (N1 * N2), tap / N2 % N1, tap % N2);
  }
  for (int i = 0; i < DOT_M; i++) dy_at[i] = (group * per_out + min(m + i, (index_t)per_out - 1)) * dy_plane;
  panel_vector sums[DOT_M][DOT_N];
  float rest[DOT_M][DOT_N];
  _Pragma("unroll") for (int i = 0; i < DOT_M; i++) _Pragma("unroll") for (int j = 0; j < DOT_N; j++) {
    sums[i][j] = (panel_vector)(0.0f);
    rest[i][j] = 0;
  }
  for (index_t image = which * slice, last = min(image + slice, batch); image < last; image++) {
    IN(float) from_x = flat_x + image * groups * per_in * PLANE_SIZE;
    IN(float) from_dy = flat_dy + image * groups * per_out * dy_plane;
    index_t q = 0;
    for (; q + PANEL_W <= runs; q += PANEL_W) {
      panel_vector right[DOT_N];
      _Pragma("unroll") for (int j = 0; j < DOT_N; j++) right[j] = PANEL_LOAD(0, from_x + x_at[j] + q);
      _Pragma("unroll") for (int i = 0; i < DOT_M; i++) {
        const panel_vector left = PANEL_LOAD(0, from_dy + dy_at[i] + q);
        _Pragma("unroll") for (int j = 0; j < DOT_N; j++) sums[i][j] = fma(left, right[j], sums[i][j]);
      }
    }
    for (; q < runs; q++)
      for (int i = 0; i < DOT_M; i++)
        for (int j = 0; j < DOT_N; j++)
          rest[i][j] = fma(from_dy[dy_at[i] + q], from_x[x_at[j] + q], rest[i][j]);
  }
  OUT(float) to = parts + (which * groups + group) * per_out * columns;
  for (int i = 0; i < DOT_M && m + i < per_out; i++)
    for (int j = 0; j < DOT_N && n + j < columns; j++) {
      float lanes[PANEL_W], sum = rest[i][j];
      PANEL_STORE(sums[i][j], 0, lanes);
      for (int l = 0; l < PANEL_W; l++) sum += lanes[l];
      to[(m + i) * columns + n + j] = sum;
    }
}
#endif
#endif
