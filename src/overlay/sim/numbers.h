/* The arithmetic of docs/isa.md: rounding by shifts, a half to the even number; saturation. */
#ifndef BRAID_OVERLAY_SIM_NUMBERS_H
#define BRAID_OVERLAY_SIM_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

/* x / 2^shift, rounded to the nearest integer, a half to the even one; shift is 0 .. 63. */
static inline int64_t braid_overlay_round(int64_t x, int shift) {
  if (shift == 0) return x;
  int64_t floor = x >> shift;
  uint64_t rest = (uint64_t)x & (((uint64_t)1 << shift) - 1), half = (uint64_t)1 << (shift - 1);
  return floor + (rest > half || (rest == half && (floor & 1)));
}

/* The same with a half up. */
static inline int64_t braid_overlay_round_up(int64_t x, int shift) {
  return shift ? (x >> shift) + (x >> (shift - 1) & 1) : x;
}

/* x / divisor, rounded to the nearest integer, a half to the even one, or up; divisor is 1 .. 2^62, x within +-2^62. */
static inline int64_t braid_overlay_round_division(int64_t x, int64_t divisor, bool half_up) {
  int64_t floor = x / divisor, rest = x % divisor;
  if (rest < 0) floor--, rest += divisor;
  return floor + (rest > divisor - rest || (rest == divisor - rest && (half_up || (floor & 1))));
}

static inline int64_t braid_overlay_clip(int64_t x, int64_t low, int64_t high) {
  return x < low ? low : x > high ? high : x;
}

#endif
