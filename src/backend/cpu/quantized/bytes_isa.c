#include "backend/cpu/quantized/bytes_isa.h"

#include <math.h>

enum { kColumns = BRAID_BYTES_COLUMNS, kRows = BRAID_BYTES_ROWS };

/* NaN becomes the lowest number, as in the reference. */
#define DEFINE_QUANTIZE(name, type, low, high)                                                                         \
  void BRAID_ISA_NAME(name)(const float *x, int64_t count, float scale, float zero, type *y) {                         \
    _Pragma("omp simd") for (int64_t i = 0; i < count; i++) {                                                          \
      float value = rintf(x[i] / scale) + zero;                                                                        \
      y[i] = (type)(int32_t)(value > (high) ? (high) : value >= (low) ? value : (low));                                \
    }                                                                                                                  \
  }
DEFINE_QUANTIZE(braid_quantize_u8, uint8_t, 0.0f, 255.0f)
DEFINE_QUANTIZE(braid_quantize_i8, int8_t, -128.0f, 127.0f)
#undef DEFINE_QUANTIZE

/* The difference has 9 bits and the scale 24: their product is exact in double, and rounded once here too. */
#define DEFINE_DEQUANTIZE(name, type)                                                                                  \
  void BRAID_ISA_NAME(name)(const type *x, int64_t count, float scale, int32_t zero, float *y) {                       \
    _Pragma("omp simd") for (int64_t i = 0; i < count; i++) y[i] = (float)(x[i] - zero) * scale;                       \
  }
DEFINE_DEQUANTIZE(braid_dequantize_u8, uint8_t)
DEFINE_DEQUANTIZE(braid_dequantize_i8, int8_t)
#undef DEFINE_DEQUANTIZE

/* Widens [low, high] by x; NaN does not count. */
void BRAID_ISA_NAME(braid_widen)(const float *x, int64_t count, float *low, float *high) {
  float least = *low, most = *high;
#pragma omp simd reduction(min : least) reduction(max : most)
  for (int64_t i = 0; i < count; i++) {
    least = x[i] < least ? x[i] : least;
    most = x[i] > most ? x[i] : most;
  }
  *low = least;
  *high = most;
}

/* sums[r][c] = the product of rows a[r] and b[c], for four rows and any number of columns. */
void BRAID_ISA_NAME(braid_bytes_multiply_rows)(const int16_t *a, const int16_t *b, int64_t padded, int64_t columns,
                                               int32_t sums[kRows][kColumns]) {
  const int16_t *a1 = a + padded, *a2 = a1 + padded, *a3 = a2 + padded;
  int64_t c = 0;
  for (; c + 2 <= columns; c += 2) {
    const int16_t *b0 = b + c * padded, *b1 = b0 + padded;
    int32_t s[8] = {0};
    for (int64_t k = 0; k < padded; k++) {
      s[0] += a[k] * b0[k], s[1] += a1[k] * b0[k], s[2] += a2[k] * b0[k], s[3] += a3[k] * b0[k];
      s[4] += a[k] * b1[k], s[5] += a1[k] * b1[k], s[6] += a2[k] * b1[k], s[7] += a3[k] * b1[k];
    }
    for (int r = 0; r < kRows; r++) sums[r][c] = s[r], sums[r][c + 1] = s[4 + r];
  }
  for (; c < columns; c++) {
    const int16_t *b0 = b + c * padded;
    int32_t s[4] = {0};
    for (int64_t k = 0; k < padded; k++)
      s[0] += a[k] * b0[k], s[1] += a1[k] * b0[k], s[2] += a2[k] * b0[k], s[3] += a3[k] * b0[k];
    for (int r = 0; r < kRows; r++) sums[r][c] = s[r];
  }
}

/* The same for one row. */
void BRAID_ISA_NAME(braid_bytes_multiply_row)(const int16_t *a, const int16_t *b, int64_t padded, int64_t columns,
                                              int32_t *sums) {
  for (int64_t c = 0; c < columns; c++, b += padded) {
    int32_t sum = 0;
    for (int64_t k = 0; k < padded; k++) sum += a[k] * b[k];
    sums[c] = sum;
  }
}

/* rounded(sums * factors) + zero within [low, high]; NaN becomes the lowest number, as in the reference. */
void BRAID_ISA_NAME(braid_bytes_scale_sums)(const int32_t *sums, int64_t count, const float *factors, int64_t step,
                                            float zero, float low, float high, uint8_t *y) {
  float each[kColumns];
  for (int64_t i = 0; i < count; i++) each[i] = factors[i * step];
#pragma omp simd
  for (int64_t i = 0; i < count; i++) {
    float value = rintf((float)sums[i] * each[i]) + zero;
    y[i] = (uint8_t)(int32_t)(value > high ? high : value >= low ? value : low);
  }
}

/* sums[i] += weight * (x - zero) at the places from + i * step that lie within a line of `width`. */
void BRAID_ISA_NAME(braid_bytes_add_line)(const void *x, bool is_signed, int64_t line, int64_t width, int64_t from,
                                          int64_t step, int64_t count, int32_t weight, int32_t zero, int32_t *sums) {
  int64_t first = from < 0 ? (-from + step - 1) / step : 0;
  int64_t end = from < width ? (width - from + step - 1) / step : 0;
  if (end > count) end = count;
  int64_t start = line + from;
  if (is_signed)
    for (int64_t i = first; i < end; i++) sums[i] += weight * (((const int8_t *)x)[start + i * step] - zero);
  else
    for (int64_t i = first; i < end; i++) sums[i] += weight * (((const uint8_t *)x)[start + i * step] - zero);
}
