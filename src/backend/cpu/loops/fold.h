/* Folding numbers into one: the inner loops of reductions, over float, double and int64. Every order of operations
 * depends on the counts alone. */
#ifndef BRAID_BACKEND_CPU_LOOPS_FOLD_H
#define BRAID_BACKEND_CPU_LOOPS_FOLD_H

#include "backend/cpu/spans/spans.h"

typedef enum braid_fold_kind { BRAID_FOLD_SUM, BRAID_FOLD_PROD, BRAID_FOLD_MAX, BRAID_FOLD_MIN } braid_fold_kind;

/* A result so far: f for floating-point numbers, i for integers. */
typedef union braid_fold_value {
  double f;
  int64_t i;
} braid_fold_value;

typedef struct braid_fold {
  braid_fold_kind kind;
  braid_map_kind map; /* of each element, for sums; of float and double only BRAID_MAP_EXP */
  braid_dtype dtype;  /* F32, F64 or I64 */
} braid_fold;

/* value = value op map(x[i] - shift) for contiguous elements. */
void braid_fold_row(const braid_fold *fold, const void *x, int64_t count, double shift, braid_fold_value *value);
/* values[j] = values[j] op map(x[i * stride + j] - shifts[j]); shifts NULL: zeros. At most BRAID_SPAN_COLUMNS. */
void braid_fold_columns(const braid_fold *fold, const void *x, int64_t stride, int64_t rows, int64_t columns,
                        const braid_fold_value *shifts, braid_fold_value *values);
void braid_fold_merge(const braid_fold *fold, const braid_fold_value *from, int64_t count, braid_fold_value *values);

#endif
