/* Convolutions forward: sizes as in window.clh. */
#include "common.clh"
#include "activation.clh"
#include "window.clh"

/* What becomes of a sum for output channel `channel` at `place` of the output. */
#ifdef BIAS
#define BIASED(x, channel) ((x) + bias[channel])
#else
#define BIASED(x, channel) (x)
#endif
#ifdef ADDED
#define SUMMED(x, place) ((x) + added[place])
#else
#define SUMMED(x, place) (x)
#endif
float finish(float x, float p, float q) {
  return ACTIVATE(x);
}
#define RESULT(x, channel, place) finish(SUMMED(BIASED(x, channel), place), p, q)
#define OPERANDS IN(float) x, IN(float) w, IN(float) bias, IN(float) added, OUT(float) y

/* --- plain: a work-item for each output ----------------------------------------------------------------------------- */
KERNEL direct(OPERANDS, SIZES, float p, float q) {
  const index_t at = get_global_id(0), outputs = OUTPUTS;
  if (at >= batch * groups * per_out * outputs) return;
  const index_t o = at % outputs, image = at / outputs / (groups * per_out);
  const int channel = (int)(at / outputs % (groups * per_out)), group = channel / per_out;
  const index_t x0 = o / o2 / o1 * s0 - b0, x1 = o / o2 % o1 * s1 - b1, x2 = o % o2 * s2 - b2;
  IN(float) from = x + (image * groups + group) * PER_IN * INPUTS;
  IN(float) weight = w + (index_t)channel * PER_IN * TAPS;
  float sum = 0;
  for (int c = 0; c < PER_IN; c++, from += INPUTS)
    for (int k0 = 0; k0 < N0; k0++)
      for (int k1 = 0; k1 < N1; k1++)
        for (int k2 = 0; k2 < N2; k2++, weight++) {
          const index_t p0 = x0 + k0 * d0, p1 = x1 + k1 * d1, p2 = x2 + k2 * d2;
          if (p0 >= 0 && p0 < i0 && p1 >= 0 && p1 < i1 && p2 >= 0 && p2 < i2)
            sum = fma(*weight, from[(p0 * i1 + p1) * i2 + p2], sum);
        }
  y[at] = RESULT(sum, channel, at);
}

/* --- by tiles in local memory: a product of weights and an image seen as the matrix of its windows ------------------- */
#ifdef TILE_M
/* A work-item loads elements of one column, whose place is known before; the tap follows from k. */
#define TAP_2(k) ((k) % N2)
#define TAP_1(k) ((k) / N2 % N1)
#define TAP_0(k) ((k) / (N2 * N1) % N0)
#define TAP_PLACE(k) (((k) / TAPS * i0 + TAP_0(k) * d0) * i1 + TAP_1(k) * d1) * i2 + TAP_2(k) * d2
float load_or_zero(IN(float) x, bool is_there, index_t at) {
  const float found = x[is_there ? at : 0]; /* without a branch: loads go out together */
  return is_there ? found : 0;
}
#if !defined(TAPS_VARY) && TAPS <= 64
/* Bit t: tap t of the column lies within the image. */
#if TAPS <= 32
typedef uint tap_bits;
#else
typedef ulong tap_bits;
#endif
tap_bits taps_within(int n, index_t x, int d, index_t i) {
  tap_bits bits = 0;
  for (int k = 0; k < n; k++)
    if (x + k * d >= 0 && x + k * d < i) bits |= (tap_bits)1 << k;
  return bits;
}
tap_bits spread_taps(tap_bits outer, int n, tap_bits inner, int width) {
  tap_bits bits = 0;
  for (int k = 0; k < n; k++)
    if (outer >> k & 1) bits |= inner << (k * width);
  return bits;
}
#define WITHIN_OF_COLUMN                                                                                               \
  const tap_bits within = there ? spread_taps(taps_within(N0, x0, d0, i0), N0,                                         \
                                              spread_taps(taps_within(N1, x1, d1, i1), N1,                             \
                                                          taps_within(N2, x2, d2, i2), N2),                            \
                                              N1 * N2)                                                                 \
                                : 0;
#define IS_WITHIN(k) (within >> (k) % TAPS & 1)
#else
bool is_inside(index_t x, index_t i) {
  return x >= 0 && x < i;
}
#define WITHIN_OF_COLUMN
#define IS_WITHIN(k)                                                                                                   \
  (there && is_inside(x0 + TAP_0(k) * d0, i0) && is_inside(x1 + TAP_1(k) * d1, i1) && is_inside(x2 + TAP_2(k) * d2, i2))
#endif
#define LOAD_RIGHT(k, column) load_or_zero(x, IS_WITHIN(k), first_place + TAP_PLACE(k))
#if !defined(TAPS_VARY) && TAPS > 1 && TAPS <= 64
/* Dividing k by the number of taps takes several times as long as a load: done once for a group and k, not for each of
 * its columns. */
typedef struct tap {
  index_t place; /* from the column's first one on */
  tap_bits bit;  /* 0: behind the last */
} tap;
#define TAP_MEMORY SHARED tap taps[2][TILE_K];
#define TILE_PREPARE(buffer, k_first)                                                                                  \
  for (uint i_ = l; i_ < TILE_K; i_ += GROUP) {                                                                        \
    const index_t k_ = (k_first) + (index_t)i_;                                                                        \
    taps[buffer][i_].place = TAP_PLACE(k_);                                                                            \
    taps[buffer][i_].bit = k_ < last_ ? (tap_bits)1 << k_ % TAPS : 0;                                                  \
  }
#define LOAD_RIGHT_OF(buffer, i)                                                                                       \
  load_or_zero(x, (within & taps[buffer][i].bit) != 0, first_place + taps[buffer][i].place)
#else
#define TAP_MEMORY
#endif
#define LOAD_LEFT(row, k) ((row) < per_out ? of_w[(row)*inner + (k)] : 0)
#define LOAD_LEFT_FOUR(row, k) ((row) < per_out ? LOAD_FOUR(of_w + (row)*inner + (k)) : (float4)(0.0f))
/* Columns of an image are its elements. */
#define LOAD_RIGHT_FOUR(k, column) (there ? LOAD_FOUR(x + first_place + (k)*outputs) : (float4)(0.0f))

#ifdef SLICED
#define ENDED(sum, channel, place) (sum)
#else
#define ENDED(sum, channel, place) RESULT(sum, channel, place)
#endif
#define CHANNEL(row) (group * per_out + (row))
#define PLACE(row, column)                                                                                             \
  (((column) / outputs * groups * per_out + CHANNEL(row)) * outputs + (column) % outputs + slice_place)
#define STORE(row, column, sum)                                                                                        \
  {                                                                                                                    \
    const index_t place_ = PLACE(row, column);                                                                         \
    y[place_] = ENDED(sum, CHANNEL(row), place_);                                                                      \
  }
#ifdef OUT_FOUR
#define STORE_FOUR(row, column, sum)                                                                                   \
  {                                                                                                                    \
    const index_t place_ = PLACE(row, column);                                                                         \
    KEEP_FOUR(MAKE(float4)(ENDED((sum).s0, CHANNEL(row), place_), ENDED((sum).s1, CHANNEL(row), place_ + 1),               \
                       ENDED((sum).s2, CHANNEL(row), place_ + 2), ENDED((sum).s3, CHANNEL(row), place_ + 3)),          \
              y + place_);                                                                                             \
  }
#endif
#include "tile.clh"

/* The inner dimension in slices of `slice`, `slices` for each group; SLICED: what each sums up is an output of its own,
 * all channels of a batch. */
SIMD_KERNEL tiles(OPERANDS, SIZES, index_t slices, index_t slice, float p, float q) {
  TILE_MEMORY
  TAP_MEMORY
  const uint l = get_local_id(0);
  const index_t first_column = get_group_id(0) * (index_t)TILE_N, first_row = get_group_id(1) * (index_t)TILE_M;
  const index_t group = get_group_id(2) / slices, which = get_group_id(2) % slices, begin = which * slice;
  const index_t outputs = OUTPUTS, columns = batch * outputs, inner = (index_t)PER_IN * TAPS;
  const index_t column = first_column + l % (TILE_N / RIGHT_WIDTH) * RIGHT_WIDTH, o = column % outputs;
  const index_t slice_place = which * batch * groups * per_out * outputs;
  const bool there = column < columns;
  const index_t x0 = o / o2 / o1 * s0 - b0, x1 = o / o2 % o1 * s1 - b1, x2 = o % o2 * s2 - b2;
  const index_t first_place = (column / outputs * groups + group) * PER_IN * INPUTS + (x0 * i1 + x1) * i2 + x2;
  IN(float) of_w = w + group * per_out * inner;
  WITHIN_OF_COLUMN
  TILE_PRODUCT(begin, min(begin + slice, inner), per_out, columns)
}
#endif

/* Slices of `total` outputs in their order. */
KERNEL join_slices(IN(float) parts, IN(float) bias, IN(float) added, OUT(float) y, index_t total, index_t outputs,
                   index_t channels, index_t slices, float p, float q) {
  const index_t i = get_global_id(0), channel = i / outputs % channels;
  if (i >= total) return;
  float sum = 0;
  for (index_t s = 0; s < slices; s++) sum += parts[s * total + i];
  y[i] = RESULT(sum, channel, i);
}

/* --- in registers of a CPU, over flat images -------------------------------------------------------------------------- */
#ifdef PANEL_M
#include "panel.clh"

/* Where the results of a run from `run` on belong in an output channel; -1: nowhere. in_one: side by side, all. */
#define PLACES_OF_RUN                                                                                                  \
  index_t places[PANEL_N], q0_ = run / l2 / l1, q1_ = run / l2 % l1, q2_ = run % l2;                                   \
  bool in_one = true;                                                                                                  \
  for (int j = 0; j < PANEL_N; j++) {                                                                                  \
    places[j] = q0_ < o0 && q1_ < o1 && q2_ < o2 ? (q0_ * o1 + q1_) * o2 + q2_ : -1;                                   \
    in_one = in_one && places[0] >= 0 && places[j] == places[0] + j;                                                   \
    if (++q2_ < l2) continue;                                                                                          \
    q2_ = 0;                                                                                                           \
    if (++q1_ < l1) continue;                                                                                          \
    q1_ = 0;                                                                                                           \
    q0_++;                                                                                                             \
  }

/* A work-item makes PANEL_N outputs of `chunk` panels of channels; `limit`: elements of the flat images. */
KERNEL flat(IN(float) flat_x, IN(float) packed, IN(float) bias, IN(float) added, OUT(float) y, SIZES, LINES,
            index_t chunk, index_t limit, float p, float q) {
  const index_t run = get_global_id(1) * (index_t)PANEL_N, image = get_global_id(2) / groups;
  const int group = (int)(get_global_id(2) % groups);
  const index_t panels = (per_out + PANEL_M - 1) / PANEL_M, outputs = OUTPUTS;
  const index_t begin = get_global_id(0) * chunk, end = min(begin + chunk, panels);
  const index_t first = (image * groups + group) * PER_IN * PLANE_SIZE + run;
  /* channels whose runs end within the images, whatever the tap */
  const index_t reach = TAP_OFFSET(N0 - 1, N1 - 1, N2 - 1) + (PHASES0 * PHASES1 * PHASES2 - 1) * PHASE_SIZE + PANEL_N;
  const index_t safe = limit - first < reach ? 0 : min((index_t)PER_IN, (limit - first - reach) / PLANE_SIZE + 1);
  PLACES_OF_RUN
  index_t offsets[MOST_TAPS];
  for (int k0 = 0, t = 0; k0 < N0; k0++)
    for (int k1 = 0; k1 < N1; k1++)
      for (int k2 = 0; k2 < N2; k2++) offsets[t++] = TAP_OFFSET(k0, k1, k2);
  for (index_t m = begin; m < end; m++) {
    IN(float) a = packed + (group * panels + m) * PER_IN * TAPS * PANEL_M;
    PANEL_SUMS
    for (index_t c = 0; c < safe; c++) {
      IN(float) plane = flat_x + first + c * PLANE_SIZE;
      for (int t = 0; t < TAPS; t++, a += PANEL_M) {
        IN(float) b = plane + offsets[t];
        PANEL_STEP(a, b)
      }
    }
    for (index_t c = safe; c < PER_IN; c++)
      for (int t = 0; t < TAPS; t++, a += PANEL_M) {
        const index_t at = first + c * PLANE_SIZE + offsets[t];
        float b[PANEL_N];
        LOAD_REST(b, flat_x + at, limit - at)
        PANEL_STEP(a, b)
      }
    PANEL_RESULTS
    for (int i = 0; i < PANEL_M && m * PANEL_M + i < per_out; i++) {
      const index_t channel = group * per_out + m * PANEL_M + i;
      const index_t base = (image * groups * per_out + channel) * outputs;
      if (in_one) {
        for (int j = 0; j < PANEL_N; j++)
          y[base + places[0] + j] = RESULT(results[i][j], channel, base + places[0] + j);
        continue;
      }
      for (int j = 0; j < PANEL_N; j++)
        if (places[j] >= 0) y[base + places[j]] = RESULT(results[i][j], channel, base + places[j]);
    }
  }
}
#endif

/* --- one channel at a time, in registers of a CPU ----------------------------------------------------------------------- */
#ifdef STRIP_BYTES
#define LANE_JOIN_(a, b) a##b
#define LANE_JOIN(a, b) LANE_JOIN_(a, b)
#if LANES > 1
typedef LANE_JOIN(float, LANES) lanes;
#define LANES_LOAD(from) LANE_JOIN(vload, LANES)(0, from)
#define LANES_STORE(x, to) LANE_JOIN(vstore, LANES)(x, 0, to)
#else
typedef float lanes;
#define LANES_LOAD(from) (*(from))
#define LANES_STORE(x, to) *(to) = (x)
#endif

/* A line of a padded image as its phases, l long: see window.clh. from NULL: beyond the image. */
void arrange_line(GLOBAL const float *from, float *to, index_t l, index_t i2, int b2) {
  for (int r = 0; r < STRIDE; r++, to += l) {
    const index_t begin = !from ? l : min(l, (index_t)(r >= b2 ? 0 : (b2 - r + STRIDE - 1) / STRIDE));
    const index_t end = max(begin, min(l, (i2 + b2 - r + STRIDE - 1) / STRIDE));
    for (index_t q = 0; q < begin; q++) to[q] = 0;
    for (index_t q = begin; q < end; q++) to[q] = from[q * STRIDE + r - b2];
    for (index_t q = end; q < l; q++) to[q] = 0;
  }
}

/* A work-item makes `strip` lines of one channel: it arranges what they look at, then takes LANES outputs at a time,
 * the last of a line once more with those before them. Lines of STRIDE phases; o2 is at least LANES. */
KERNEL depthwise_strips(OPERANDS, SIZES, index_t strip, index_t l, float p, float q) {
  float lines[STRIP_BYTES / sizeof(float)];
  const int channel = (int)get_global_id(1);
  const index_t image = get_global_id(2), first = get_global_id(0) * strip, count = min(strip, o1 - first);
  const index_t pitch = STRIDE * l, base = (image * groups * per_out + channel) * o1 * o2;
  IN(float) from = x + (image * groups + channel / per_out) * i1 * i2;
  const index_t top = first * s1 - b1, tall = (count - 1) * s1 + (N1 - 1) * d1 + 1;
  for (index_t i = 0; i < tall; i++)
    arrange_line(top + i >= 0 && top + i < i1 ? from + (top + i) * i2 : 0, lines + i * pitch, l, i2, b2);
  float weights[TAPS];
  for (int t = 0; t < TAPS; t++) weights[t] = w[(index_t)channel * TAPS + t];
  for (index_t q1 = 0; q1 < count; q1++)
    for (index_t next = 0; next < o2; next += LANES) {
      const index_t q2 = min(next, o2 - LANES), to = base + (first + q1) * o2 + q2;
      lanes sum = 0;
      float results[LANES];
      for (int k1 = 0; k1 < N1; k1++)
        for (int k2 = 0; k2 < N2; k2++) {
          const index_t at = (q1 * s1 + k1 * d1) * pitch + k2 * DILATION % STRIDE * l + k2 * DILATION / STRIDE + q2;
          sum = fma((lanes)(weights[k1 * N2 + k2]), LANES_LOAD(lines + at), sum);
        }
      LANES_STORE(sum, results);
      for (int j = 0; j < LANES; j++) y[to + j] = RESULT(results[j], channel, to + j);
    }
}
#endif
