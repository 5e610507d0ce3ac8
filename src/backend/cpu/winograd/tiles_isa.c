#include "backend/cpu/winograd/tiles_isa.h"

#include <string.h>

enum { kSide = BRAID_WINOGRAD_SIDE, kResult = BRAID_WINOGRAD_RESULT, kBlock = 16 };

/* No wider than a register: wider ones go through memory. */
#ifdef __AVX__
enum { kLanes = 8 };
#else
enum { kLanes = 4 };
#endif
typedef float part __attribute__((vector_size(kLanes * sizeof(float))));
typedef int32_t bits __attribute__((vector_size(kLanes * sizeof(int32_t))));

static inline part load(const float *from) {
  part value;
  memcpy(&value, from, sizeof value);
  return value;
}

/* a, b: the interpolation points. */
static const float kA = 0.625f, kB = 1.5f, kA2 = 0.390625f, kB2 = 2.25f, kA3 = 0.244140625f, kB3 = 3.375f;
static const float kBoth = 2.640625f, kProduct = 0.87890625f; /* a^2 + b^2, a^2 b^2 */

/* A line of places becomes a line of points: the rows are the coefficients of the product of (x - q) over the points q
 * but the row's own. */
static inline void to_points(const part d[kSide], part out[kSide]) {
  part even_a = d[4] - kB2 * d[2], odd_a = kA * (d[3] - kB2 * d[1]);
  part even_b = d[4] - kA2 * d[2], odd_b = kB * (d[3] - kA2 * d[1]);
  out[0] = kProduct * d[0] - kBoth * d[2] + d[4];
  out[1] = even_a + odd_a;
  out[2] = even_a - odd_a;
  out[3] = even_b + odd_b;
  out[4] = even_b - odd_b;
  out[5] = kProduct * d[1] - kBoth * d[3] + d[5];
}

/* A line of points becomes a line of results: row k has the k-th powers of the points. */
static inline void to_results(const part m[kSide], part out[kResult]) {
  part sum_a = m[1] + m[2], apart_a = m[1] - m[2], sum_b = m[3] + m[4], apart_b = m[3] - m[4];
  out[0] = m[0] + sum_a + sum_b;
  out[1] = kA * apart_a + kB * apart_b;
  out[2] = kA2 * sum_a + kB2 * sum_b;
  out[3] = kA3 * apart_a + kB3 * apart_b + m[5];
}

void BRAID_ISA_NAME(braid_winograd_source_tile)(const braid_winograd_source *from, float *points, int64_t step) {
  for (int64_t c = 0; c < from->channels; c += kLanes) {
    int64_t offset = c / kBlock * from->block_step + c % kBlock;
    part columns[kSide][kSide];
#pragma GCC unroll 6
    for (int x = 0; x < kSide; x++) {
      part places[kSide], line[kSide];
#pragma GCC unroll 6
      for (int y = 0; y < kSide; y++) {
        const float *at = from->at[y * kSide + x];
        places[y] = at ? load(at + offset) : (part){0};
      }
      to_points(places, line);
#pragma GCC unroll 6
      for (int y = 0; y < kSide; y++) columns[y][x] = line[y];
    }
    float *out = points + c;
    for (int y = 0; y < kSide; y++) {
      part line[kSide];
      to_points(columns[y], line);
#pragma GCC unroll 6
      for (int x = 0; x < kSide; x++, out += step) memcpy(out, &line[x], sizeof line[x]);
    }
  }
}

static inline part finish(const braid_winograd_target *to, part value, part bias, int64_t at) {
  value += bias;
  if (to->residual) value += load(to->residual + at);
  if (to->relu) value = (part)((bits)value & ((value > 0) | (value != value))); /* NaN stays */
  return value;
}

void BRAID_ISA_NAME(braid_winograd_target_tile)(const float *points, int64_t step, const braid_winograd_target *to) {
  for (int f = 0; f < to->filters; f += kLanes) {
    part columns[kResult][kSide];
#pragma GCC unroll 6
    for (int x = 0; x < kSide; x++) {
      part line[kSide], results[kResult];
#pragma GCC unroll 6
      for (int y = 0; y < kSide; y++) line[y] = load(points + (y * kSide + x) * step + f);
      to_results(line, results);
#pragma GCC unroll 4
      for (int y = 0; y < kResult; y++) columns[y][x] = results[y];
    }
    part bias = to->bias ? load(to->bias + f) : (part){0};
    for (int y = 0; y < to->rows; y++) {
      part results[kResult];
      to_results(columns[y], results);
      for (int x = 0; x < to->columns; x++) {
        int64_t at = y * to->row_step + x * to->pixel_step + f;
        part value = finish(to, results[x], bias, at);
        memcpy(to->y + at, &value, sizeof value);
      }
    }
  }
}
