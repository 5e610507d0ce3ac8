#include "backend/cpu/integer/input_isa.h"

typedef union float_bits {
  float number;
  int32_t bits;
} float_bits;

/* By masks, since a compiler makes branches of comparisons with constants. v is exact, and so is what is left of it
 * above its floor, where that is less than a half or a half. */
void BRAID_ISA_NAME(braid_integer_input)(const float *x, int64_t count, float scale, int32_t most, int8_t *to) {
  const int32_t large = 0x43800000, infinite = 0x7f800000; /* the bits of 256 and of infinity */
#pragma omp simd
  for (int64_t i = 0; i < count; i++) {
    float_bits v = {.number = x[i] * scale};
    int32_t size = v.bits & INT32_MAX, sign = v.bits >> 31, within = -(size < large), known = -(size <= infinite);
    float_bits safe = {.bits = v.bits & within};
    int32_t whole = (int32_t)safe.number;
    whole -= safe.number < (float)whole;
    whole += safe.number - (float)whole >= 0.5f;
    whole = (whole & within) | (((large ^ sign) - sign) & known & ~within);
    to[i] = (int8_t)(whole > most ? most : whole < -most ? -most : whole);
  }
}
