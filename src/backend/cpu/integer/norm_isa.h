/* Loops of batch normalization in integers over rows of channels, compiled for each instruction set. */
#ifndef BRAID_BACKEND_CPU_INTEGER_NORM_ISA_H
#define BRAID_BACKEND_CPU_INTEGER_NORM_ISA_H

#include "backend/cpu/isa.h"

enum {
  BRAID_INTEGER_NORM_ROWS = 4096, /* at most, so that sums stay within 32 bits */
  BRAID_INTEGER_NORM_UNIT = 64    /* channels at a time; fewer are slower */
};

/* Of each channel of `rows` rows: the sum of x, and of the lower and the upper 16 bits of x * x. */
BRAID_ISA_FUNCTION(void, braid_integer_moments,
                   (const int16_t *x, int64_t rows, int64_t channels, int32_t *sums, uint32_t *low, uint32_t *high))
/* Of each channel of `rows` rows: the sum of e, and of e * h. */
BRAID_ISA_FUNCTION(void, braid_integer_norm_sums,
                   (const int8_t *e, const int8_t *h, int64_t rows, int64_t channels, int32_t *by_e, int32_t *by_eh))

/* Of each channel; c and beta with what rounds them up. */
typedef struct braid_integer_norm_factors {
  const int32_t *m, *c, *places, *gamma, *beta;
  int32_t shift, low, high; /* y = (gamma * h + beta) >> shift, within [low, high] */
} braid_integer_norm_factors;
/* h may be NULL. */
BRAID_ISA_FUNCTION(void, braid_integer_normalize,
                   (const int16_t *x, int64_t rows, int64_t channels, const braid_integer_norm_factors *f, int8_t *y,
                    int8_t *h))

/* raw = (256 e - b - round(h * g, 5)) * f; their OR of magnitudes is returned. */
BRAID_ISA_FUNCTION(uint32_t, braid_integer_norm_errors,
                   (const int8_t *e, const int8_t *h, int64_t rows, int64_t channels, const int32_t *b,
                    const int32_t *g, const int32_t *f, int32_t *raw))

#endif
