#include "backend/cpu/integer/pool_isa.h"

/* Channels in pieces of 64 or 16, of which the last overlaps the one before: what is done twice gives the same. Below
 * 16 all at once. */
#define PIECES(size, ...)                                                                                              \
  {                                                                                                                    \
    enum { width = size };                                                                                             \
    for (int64_t at = 0; at < channels; at += width) {                                                                 \
      const int64_t first = at + width <= channels ? at : channels - width;                                            \
      __VA_ARGS__                                                                                                      \
    }                                                                                                                  \
  }
#define EACH_PIECE(...)                                                                                                \
  if (channels >= 64)                                                                                                  \
    PIECES(64, __VA_ARGS__)                                                                                            \
  else if (channels >= 16)                                                                                             \
    PIECES(16, __VA_ARGS__)                                                                                            \
  else {                                                                                                               \
    const int64_t first = 0, width = channels;                                                                         \
    __VA_ARGS__                                                                                                        \
  }
#define EACH_LANE _Pragma("omp simd") for (int64_t i = 0; i < width; i++)

void BRAID_ISA_NAME(braid_integer_keep_larger)(const int8_t *x, int64_t step, int64_t count, int64_t channels,
                                               uint8_t place, int8_t *best, uint8_t *index) {
  for (int64_t pixel = 0; pixel < count; pixel++, x += step, best += channels, index += channels)
    EACH_PIECE({
      const int8_t *from = x + first;
      int8_t *kept = best + first;
      uint8_t *places = index + first;
      EACH_LANE {
        places[i] = from[i] > kept[i] ? place : places[i];
        kept[i] = from[i] > kept[i] ? from[i] : kept[i];
      }
    })
}

void BRAID_ISA_NAME(braid_integer_larger)(const int8_t *x, int64_t step, int64_t count, int64_t channels,
                                          int8_t *best) {
  for (int64_t pixel = 0; pixel < count; pixel++, x += step, best += channels)
    EACH_PIECE({
      const int8_t *from = x + first;
      int8_t *kept = best + first;
      EACH_LANE kept[i] = from[i] > kept[i] ? from[i] : kept[i];
    })
}

void BRAID_ISA_NAME(braid_integer_route)(const int8_t *e, const uint8_t *index, int64_t count, int64_t channels,
                                         uint8_t place, int8_t *to, int64_t step) {
  for (int64_t pixel = 0; pixel < count; pixel++, e += channels, index += channels, to += step)
    EACH_PIECE({
      const int8_t *from = e + first;
      const uint8_t *places = index + first;
      int8_t *into = to + first;
      EACH_LANE into[i] = places[i] == place ? from[i] : 0;
    })
}

void BRAID_ISA_NAME(braid_integer_route_add)(const int8_t *e, const uint8_t *index, int64_t count, int64_t channels,
                                             uint8_t place, int32_t *to, int64_t step) {
  for (int64_t pixel = 0; pixel < count; pixel++, e += channels, to += step)
    if (index) {
      const uint8_t *places = index + pixel * channels;
#pragma omp simd
      for (int64_t i = 0; i < channels; i++) to[i] += places[i] == place ? e[i] : 0;
    } else {
#pragma omp simd
      for (int64_t i = 0; i < channels; i++) to[i] += e[i];
    }
}

void BRAID_ISA_NAME(braid_integer_add_pixels)(const int8_t *x, int64_t step, int64_t count, int64_t channels,
                                              int32_t *sums) {
  for (int64_t pixel = 0; pixel < count; pixel++, x += step, sums += channels)
#pragma omp simd
    for (int64_t i = 0; i < channels; i++) sums[i] += x[i];
}

uint32_t BRAID_ISA_NAME(braid_integer_magnitude)(const int32_t *raw, int64_t count) {
  uint32_t bits = 0;
#pragma omp simd reduction(| : bits)
  for (int64_t i = 0; i < count; i++) bits |= raw[i] < 0 ? 0 - (uint32_t)raw[i] : (uint32_t)raw[i];
  return bits;
}
