#include "backend/cpu/integer/input_isa.h"

/* v is exact, and so is what is left of it above its floor, where that is less than a half or a half. */
void BRAID_ISA_NAME(braid_integer_input)(const float *x, int64_t count, float scale, int32_t most, int8_t *to) {
  const float limit = 1 << 8; /* beyond any of 8 bits */
#pragma omp simd
  for (int64_t i = 0; i < count; i++) {
    float v = x[i] * scale;
    v = v > limit ? limit : v;
    v = v < -limit ? -limit : v;
    v = v == v ? v : 0;
    int32_t whole = (int32_t)v;
    whole -= v < (float)whole;
    whole += v - (float)whole >= 0.5f;
    to[i] = (int8_t)(whole > most ? most : whole < -most ? -most : whole);
  }
}
