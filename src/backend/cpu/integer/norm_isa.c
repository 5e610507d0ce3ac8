#include "backend/cpu/integer/norm_isa.h"

/* Channels are taken 64 at a time (BRAID_INTEGER_NORM_UNIT), all rows of them. Where their number is no multiple of
 * that the last 64 overlap those before: each is computed twice, to the same number. Fewer are taken at once. */
enum { kUnit = BRAID_INTEGER_NORM_UNIT };

#define EACH_UNIT(channels, ...)                                                                                       \
  do {                                                                                                                 \
    if ((channels) < kUnit) {                                                                                          \
      const int64_t first = 0;                                                                                         \
      const int width = (int)(channels);                                                                               \
      __VA_ARGS__                                                                                                      \
    } else {                                                                                                           \
      enum { width = kUnit };                                                                                          \
      for (int64_t at = 0; at < (channels); at += kUnit) {                                                             \
        const int64_t first = at + kUnit <= (channels) ? at : (channels)-kUnit;                                        \
        __VA_ARGS__                                                                                                    \
      }                                                                                                                \
    }                                                                                                                  \
  } while (0)
#define EACH_LANE _Pragma("omp simd") for (int i = 0; i < width; i++)

void BRAID_ISA_NAME(braid_integer_moments)(const int16_t *x, int64_t rows, int64_t channels, int32_t *sums,
                                           uint32_t *low, uint32_t *high) {
  EACH_UNIT(channels, {
    int32_t sum[kUnit] = {0};
    uint32_t lower[kUnit] = {0}, upper[kUnit] = {0};
    for (int64_t r = 0; r < rows; r++) {
      const int16_t *row = x + r * channels + first;
      EACH_LANE {
        uint32_t square = (uint32_t)(row[i] * row[i]);
        sum[i] += row[i];
        lower[i] += square & 0xffff;
        upper[i] += square >> 16;
      }
    }
    EACH_LANE sums[first + i] = sum[i], low[first + i] = lower[i], high[first + i] = upper[i];
  });
}

void BRAID_ISA_NAME(braid_integer_norm_sums)(const int8_t *e, const int8_t *h, int64_t rows, int64_t channels,
                                             int32_t *by_e, int32_t *by_eh) {
  EACH_UNIT(channels, {
    int32_t sum[kUnit] = {0}, product[kUnit] = {0};
    for (int64_t r = 0; r < rows; r++) {
      const int8_t *error = e + r * channels + first, *normal = h + r * channels + first;
      EACH_LANE {
        sum[i] += error[i];
        product[i] += error[i] * normal[i];
      }
    }
    EACH_LANE by_e[first + i] = sum[i], by_eh[first + i] = product[i];
  });
}

static inline int32_t limit(int32_t value, int32_t low, int32_t high) {
  value = value < low ? low : value;
  return value > high ? high : value;
}

void BRAID_ISA_NAME(braid_integer_normalize)(const int16_t *x, int64_t rows, int64_t channels,
                                             const braid_integer_norm_factors *f, int8_t *y, int8_t *h) {
  const int32_t shift = f->shift, least = f->low, most = f->high;
  EACH_UNIT(channels, {
    const int32_t *m = f->m + first, *c = f->c + first, *places = f->places + first;
    const int32_t *gamma = f->gamma + first, *beta = f->beta + first;
    for (int64_t r = 0; r < rows; r++) {
      const int16_t *row = x + r * channels + first;
      int8_t *to = y + r * channels + first;
      if (h) {
        int8_t *kept = h + r * channels + first;
        EACH_LANE {
          int32_t normal = limit((row[i] * m[i] + c[i]) >> places[i], -127, 127);
          kept[i] = (int8_t)normal;
          to[i] = (int8_t)limit((gamma[i] * normal + beta[i]) >> shift, least, most);
        }
      } else {
        EACH_LANE {
          int32_t normal = limit((row[i] * m[i] + c[i]) >> places[i], -127, 127);
          to[i] = (int8_t)limit((gamma[i] * normal + beta[i]) >> shift, least, most);
        }
      }
    }
  });
}

uint32_t BRAID_ISA_NAME(braid_integer_norm_errors)(const int8_t *e, const int8_t *h, int64_t rows, int64_t channels,
                                                   const int32_t *b, const int32_t *g, const int32_t *f, int32_t *raw) {
  uint32_t bits[kUnit] = {0}, all = 0;
  EACH_UNIT(channels, {
    const int32_t *mean = b + first, *slope = g + first, *factor = f + first;
    for (int64_t r = 0; r < rows; r++) {
      const int8_t *error = e + r * channels + first, *normal = h + r * channels + first;
      int32_t *to = raw + r * channels + first;
      EACH_LANE {
        int32_t z = error[i] * 256 - mean[i] - ((normal[i] * slope[i] + 16) >> 5);
        uint32_t v = (uint32_t)z * (uint32_t)factor[i];
        to[i] = (int32_t)v;
        bits[i] |= (int32_t)v < 0 ? 0 - v : v;
      }
    }
  });
  for (int i = 0; i < kUnit; i++) all |= bits[i];
  return all;
}
