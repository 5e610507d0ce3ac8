/* Spans: the innermost loops of elementwise ops, over contiguous elements.
 *
 * The loops over float are compiled for several instruction sets (isa.h) and give the same bits on each. */
#ifndef BRAID_BACKEND_CPU_SPANS_SPANS_H
#define BRAID_BACKEND_CPU_SPANS_SPANS_H

#include "backend/cpu/spans/convert.h"

enum { BRAID_SPAN_INPUTS = 4 };

typedef struct braid_span {
  const void *in[BRAID_SPAN_INPUTS];
  int64_t step[BRAID_SPAN_INPUTS]; /* 1, or 0: the same element all along */
  void *out;                       /* may be one of the inputs that have step 1 */
  int64_t count;
  const double *params; /* two */
} braid_span;
typedef void braid_span_run(const braid_span *span);

enum {
  BRAID_SPAN_BOOL_IN = 1,  /* input 0 is bool, whatever the type */
  BRAID_SPAN_BOOL_OUT = 2, /* the output is bool */
  BRAID_SPAN_DENSE = 4,    /* wants every step to be 1 */
  BRAID_SPAN_BOUNDS = 8,   /* the last two inputs are single elements */
};

typedef struct braid_span_entry {
  const char *op;
  braid_dtype dtype; /* of operands, but for those named in flags */
  uint32_t flags;
  braid_span_run *run;
} braid_span_entry;

/* Reductions of contiguous numbers and of the columns of rows; partial results are double. */
typedef enum braid_map_kind { BRAID_MAP_SAME, BRAID_MAP_ABS, BRAID_MAP_SQUARE, BRAID_MAP_EXP } braid_map_kind;

typedef struct braid_span_set {
  const braid_span_entry *entries;
  size_t count;
  braid_convert *load_f16, *load_bf16, *store_f16, *store_bf16;
  /* Sum of map(x[i] - shift); the order of additions depends on count alone. */
  double (*sum_row)(const float *x, int64_t count, braid_map_kind map, float shift);
  /* sums[j] += map(x[i * stride + j] - shift[j]) over `rows` rows; shift NULL: zeros. At most BRAID_SPAN_COLUMNS. */
  void (*sum_columns)(const float *x, int64_t stride, int64_t rows, int64_t columns, braid_map_kind map,
                      const float *shift, double *sums);
  /* The largest (smallest) of `so_far` and count numbers; NaN if there is one. */
  float (*extreme_row)(const float *x, int64_t count, bool smallest, float so_far);
  void (*extreme_columns)(const float *x, int64_t stride, int64_t rows, int64_t columns, bool smallest, float *so_far);
} braid_span_set;
enum { BRAID_SPAN_COLUMNS = 256 };

const braid_span_set *braid_spans_float(void);
/* The innermost loop of `op` over `dtype`; NULL: none. */
const braid_span_entry *braid_spans_find(const char *op, braid_dtype dtype);

#endif
