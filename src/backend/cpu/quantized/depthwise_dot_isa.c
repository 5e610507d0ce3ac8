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

static inline void store_sums(const __m512i sums[4], int32_t *out) {
  __m512i a = _mm512_shuffle_i32x4(sums[0], sums[1], 0x44), b = _mm512_shuffle_i32x4(sums[0], sums[1], 0xee);
  __m512i c = _mm512_shuffle_i32x4(sums[2], sums[3], 0x44), d = _mm512_shuffle_i32x4(sums[2], sums[3], 0xee);
  _mm512_storeu_si512(out, _mm512_shuffle_i32x4(a, c, 0x88));
  _mm512_storeu_si512(out + 16, _mm512_shuffle_i32x4(a, c, 0xdd));
  _mm512_storeu_si512(out + 32, _mm512_shuffle_i32x4(b, d, 0x88));
  _mm512_storeu_si512(out + 48, _mm512_shuffle_i32x4(b, d, 0xdd));
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
    store_sums(in_lanes, sums + c);
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
#endif
