#include "backend/cpu/quantized/depthwise_isa.h"

#include <string.h>

void BRAID_ISA_NAME(braid_depthwise_wide)(const uint8_t *const *taps, int64_t tap_count, uint8_t flip,
                                          const int16_t *weights, int64_t channels, int32_t *sums) {
  memset(sums, 0, (size_t)channels * sizeof *sums);
  for (int64_t t = 0; t < tap_count; t++, weights += channels) {
    const uint8_t *x = taps[t];
#pragma omp simd
    for (int64_t c = 0; c < channels; c++) sums[c] += (x[c] ^ flip) * weights[c];
  }
}
