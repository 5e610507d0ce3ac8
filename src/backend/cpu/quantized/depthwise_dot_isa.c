#include "backend/cpu/quantized/depthwise_dot_isa.h"

#ifdef __AVX512VNNI__
#include <immintrin.h>

/* The bytes of four taps become groups of four, one channel each, by two rounds of interleaving within lanes of 16
 * bytes; so the sums of channels 16 i + 4 j + d stand in lane i of vector j, and are brought in order at the end. */
static inline void add_taps(const __m512i x[4], const int8_t *w, __m512i sums[4]) {
  __m512i low01 = _mm512_unpacklo_epi8(x[0], x[1]), high01 = _mm512_unpackhi_epi8(x[0], x[1]);
  __m512i low23 = _mm512_unpacklo_epi8(x[2], x[3]), high23 = _mm512_unpackhi_epi8(x[2], x[3]);
  sums[0] = _mm512_dpbusd_epi32(sums[0], _mm512_unpacklo_epi16(low01, low23), _mm512_loadu_si512(w));
  sums[1] = _mm512_dpbusd_epi32(sums[1], _mm512_unpackhi_epi16(low01, low23), _mm512_loadu_si512(w + 64));
  sums[2] = _mm512_dpbusd_epi32(sums[2], _mm512_unpacklo_epi16(high01, high23), _mm512_loadu_si512(w + 128));
  sums[3] = _mm512_dpbusd_epi32(sums[3], _mm512_unpackhi_epi16(high01, high23), _mm512_loadu_si512(w + 192));
}

/* Sums in the order of their channels. */
static inline void order_sums(__m512i sums[4]) {
  __m512i a = _mm512_shuffle_i32x4(sums[0], sums[1], 0x44), b = _mm512_shuffle_i32x4(sums[0], sums[1], 0xee);
  __m512i c = _mm512_shuffle_i32x4(sums[2], sums[3], 0x44), d = _mm512_shuffle_i32x4(sums[2], sums[3], 0xee);
  sums[0] = _mm512_shuffle_i32x4(a, c, 0x88);
  sums[1] = _mm512_shuffle_i32x4(a, c, 0xdd);
  sums[2] = _mm512_shuffle_i32x4(b, d, 0x88);
  sums[3] = _mm512_shuffle_i32x4(b, d, 0xdd);
}

void BRAID_ISA_NAME(braid_depthwise_place)(const uint8_t *const *taps, int64_t tap_count, uint8_t flip,
                                           const int8_t *weights, int64_t channels, int32_t *sums) {
  __m512i flips = _mm512_set1_epi8((char)flip);
  for (int64_t c = 0; c < channels; c += BRAID_DEPTHWISE_CHANNELS) {
    __mmask64 mask = channels - c >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << (channels - c)) - 1;
    __m512i in_lanes[4];
    for (int j = 0; j < 4; j++) in_lanes[j] = _mm512_setzero_si512();
    for (int64_t t = 0; t < tap_count; t += BRAID_DEPTHWISE_TAPS, weights += 4 * 64) {
      __m512i x[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++)
        x[i] = t + i < tap_count ? _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, taps[t + i] + c), flips) : flips;
      add_taps(x, weights, in_lanes);
    }
    order_sums(in_lanes);
    for (int i = 0; i < 4; i++) _mm512_storeu_si512(sums + c + 16 * i, in_lanes[i]);
  }
}

/* --- lines ---------------------------------------------------------------------------------------------------------
 * The three bytes of a column and a channel stand together, once for all places that look at the column. */
typedef struct column {
  __m512i quads[4];
} column;

static inline const uint8_t *pixel(const braid_depthwise_lines *l, int row, int64_t x) {
  bool inside = l->rows[row] && x >= 0 && x < l->width;
  return inside ? l->rows[row] + x * l->channels : l->padding;
}

static inline bool is_paired(const braid_depthwise_lines *l) {
  return l->channels == BRAID_DEPTHWISE_PAIRED && l->stride == 1;
}

/* 64 channels from `c` on, or those of places x and x + 1. */
static inline __m512i load_pixels(const braid_depthwise_lines *l, int row, int64_t x, int64_t c, __mmask64 mask) {
  if (!is_paired(l)) return _mm512_maskz_loadu_epi8(mask, pixel(l, row, x) + c);
  if (l->rows[row] && x >= 0 && x + 1 < l->width) return _mm512_loadu_si512(pixel(l, row, x));
  __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)pixel(l, row, x));
  __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)pixel(l, row, x + 1));
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

static inline column load_column(const braid_depthwise_lines *l, int64_t x, int64_t c, __mmask64 mask, __m512i flips) {
  __m512i top = _mm512_xor_si512(load_pixels(l, 0, x, c, mask), flips);
  __m512i middle = _mm512_xor_si512(load_pixels(l, 1, x, c, mask), flips);
  __m512i bottom = _mm512_xor_si512(load_pixels(l, 2, x, c, mask), flips);
  __m512i low = _mm512_unpacklo_epi8(top, middle), high = _mm512_unpackhi_epi8(top, middle);
  __m512i low2 = _mm512_unpacklo_epi8(bottom, bottom), high2 = _mm512_unpackhi_epi8(bottom, bottom);
  return (column){{_mm512_unpacklo_epi16(low, low2), _mm512_unpackhi_epi16(low, low2),
                   _mm512_unpacklo_epi16(high, high2), _mm512_unpackhi_epi16(high, high2)}};
}

static inline void add_column(const column *x, const int8_t *w, __m512i sums[4]) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) sums[i] = _mm512_dpbusd_epi32(sums[i], x->quads[i], _mm512_loadu_si512(w + 64 * i));
}

void BRAID_ISA_NAME(braid_depthwise_line)(const braid_depthwise_lines *l, int64_t x, int64_t count,
                                          const int8_t *weights, int32_t *sums) {
  enum { kColumn = 4 * 64 };
  __m512i flips = _mm512_set1_epi8((char)l->flip);
  int64_t every = is_paired(l) ? 2 : 1, apart = l->stride;
  for (int64_t c = 0; c < l->channels; c += BRAID_DEPTHWISE_CHANNELS, weights += 3 * kColumn) {
    int64_t left = is_paired(l) ? 64 : l->channels - c;
    __mmask64 mask = left >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << left) - 1;
    column a = load_column(l, x, c, mask, flips), b = load_column(l, x + 1, c, mask, flips), d;
    for (int64_t i = 0; i < count; i += every) {
      int64_t at = x + i * apart;
      d = load_column(l, at + 2, c, mask, flips);
      __m512i in_lanes[4];
      for (int k = 0; k < 4; k++) in_lanes[k] = _mm512_setzero_si512();
      add_column(&a, weights, in_lanes);
      add_column(&b, weights + kColumn, in_lanes);
      add_column(&d, weights + 2 * kColumn, in_lanes);
      order_sums(in_lanes);
      int32_t *to = sums + i * l->channels + c;
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) _mm512_mask_storeu_epi32(to + 16 * k, (__mmask16)(mask >> (16 * k)), in_lanes[k]);
      if (every * apart == 1) {
        a = b;
        b = d;
      } else {
        a = d;
        b = load_column(l, at + 3, c, mask, flips);
      }
    }
  }
}
#else
void BRAID_ISA_NAME(braid_depthwise_place)(const uint8_t *const *taps, int64_t tap_count, uint8_t flip,
                                           const int8_t *weights, int64_t channels, int32_t *sums) {
  int64_t groups = (tap_count + BRAID_DEPTHWISE_TAPS - 1) / BRAID_DEPTHWISE_TAPS;
  for (int64_t c = 0; c < channels; c++) {
    int32_t sum = 0;
    for (int64_t t = 0; t < tap_count; t++) sum += (taps[t][c] ^ flip) * weights[braid_depthwise_at(c, t, groups)];
    sums[c] = sum;
  }
}

void BRAID_ISA_NAME(braid_depthwise_line)(const braid_depthwise_lines *l, int64_t x, int64_t count,
                                          const int8_t *weights, int32_t *sums) {
  for (int64_t i = 0; i < count; i++)
    for (int64_t c = 0; c < l->channels; c++) {
      int32_t sum = 0;
      for (int64_t t = 0; t < 9; t++) {
        int64_t row = t / 3, column = x + i * l->stride + t % 3;
        bool inside = l->rows[row] && column >= 0 && column < l->width;
        uint8_t byte = inside ? l->rows[row][column * l->channels + c] : l->padding[c];
        sum += (byte ^ l->flip) * weights[braid_depthwise_at(c, 4 * (t % 3) + row, 3)];
      }
      sums[i * l->channels + c] = sum;
    }
}
#endif
