/* What the plain kernels of training in integers share. */
#ifndef BRAID_BACKEND_CPU_PLAIN_INTEGER_H
#define BRAID_BACKEND_CPU_PLAIN_INTEGER_H

#include "backend/cpu/cpu.h"
#include "graph/integer.h"

/* Element i of a tensor of int8, int16, int32 or int64. */
static inline int64_t braid_plain_get(braid_dtype dtype, const void *data, int64_t i) {
  return dtype == BRAID_I8    ? ((const int8_t *)data)[i]
         : dtype == BRAID_I16 ? ((const int16_t *)data)[i]
         : dtype == BRAID_I32 ? ((const int32_t *)data)[i]
                              : ((const int64_t *)data)[i];
}

static inline void braid_plain_set(braid_dtype dtype, void *data, int64_t i, int64_t value) {
  if (dtype == BRAID_I8)
    ((int8_t *)data)[i] = (int8_t)value;
  else if (dtype == BRAID_I16)
    ((int16_t *)data)[i] = (int16_t)value;
  else if (dtype == BRAID_I32)
    ((int32_t *)data)[i] = (int32_t)value;
  else
    ((int64_t *)data)[i] = value;
}

/* OR|v| of a raw result, into its magnitude; none: `magnitude` NULL. */
static inline void braid_plain_magnitude(const braid_desc *raw, const void *data, void *magnitude) {
  uint64_t bits = 0;
  int64_t count = magnitude ? braid_desc_count(raw) : 0;
#pragma omp parallel for reduction(| : bits)
  for (int64_t i = 0; i < count; i++) {
    int64_t value = braid_plain_get(raw->dtype, data, i);
    bits |= (uint64_t)(value < 0 ? -value : value);
  }
  if (magnitude) braid_plain_set(raw->dtype, magnitude, 0, (int64_t)bits);
}

/* The error of a rectifier's operand, in place, by the rectifier's result. */
static inline void braid_plain_rectify(int8_t *e, const void *y, int64_t count, int64_t bits) {
  const int8_t *values = y;
  int64_t most = braid_integer_max(bits);
#pragma omp parallel for
  for (int64_t i = 0; i < count; i++)
    if (values[i] <= 0 || values[i] >= most) e[i] = 0;
}

/* Q(value, bits, 0), from 0 on with `relu`. */
static inline int64_t braid_plain_clip(int64_t value, int64_t bits, bool relu) {
  return relu && value < 0 ? 0 : braid_integer_clip(value, bits);
}

#endif
