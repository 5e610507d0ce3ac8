/* What quantized convolutions and products (qlinear.c) and their depthwise kind (depthwise.c) share. */
#ifndef BRAID_BACKEND_CPU_QUANTIZED_QLINEAR_H
#define BRAID_BACKEND_CPU_QUANTIZED_QLINEAR_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/quantized/requantize_isa.h"
#include "graph/geometry.h"

/* Inputs. */
enum {
  BRAID_QLINEAR_X = 0,
  BRAID_QLINEAR_W = 3,
  BRAID_QLINEAR_W_SCALE = 4,
  BRAID_QLINEAR_W_ZERO = 5,
  BRAID_QLINEAR_Y = 6,
  BRAID_QLINEAR_BIAS = 8,
  BRAID_QLINEAR_Z = 9,
  BRAID_QLINEAR_BETWEEN = 12
};

typedef struct braid_qlinear {
  const braid_node_desc *node;
  braid_convolution conv; /* of a product: windows of one place over images of one */
  int64_t rows;           /* of images: places of the result in the whole batch */
  int64_t inner, step;    /* bytes of a row of a group, and padded */
  int64_t filters;        /* of a group */
  int64_t block;          /* rows that are laid out at a time */
  bool convolves, depthwise;
  bool direct;     /* rows are what lies in x */
  bool dot_packed; /* depthwise weights are laid out for dot products */
  bool lines;      /* of windows of 3 x 3, by columns: lines of the result are computed at once */
  int64_t places;  /* of depthwise results whose sums become bytes at a time */
  uint8_t flip;    /* of x */
  bool w_unsigned;
  int64_t lanes;
  size_t offsets_at, factors_at, padding_at, lane_at, lane_bytes; /* in the workspace */
  int16_t *w_zeros; /* of depthwise filters with 16-bit weights: a copy, for packing; NULL: all 0 */
} braid_qlinear;

static inline int64_t braid_qlinear_taps(const braid_qlinear *p) {
  return braid_window_volume(&p->conv.window);
}

typedef struct braid_qlinear_job {
  const braid_qlinear *p;
  const braid_cpu_args *args;
  braid_requantize q;
  const uint8_t *x, *padding;
  int32_t x_zero;        /* of x as unsigned bytes */
  bool packs_lines;      /* windows that lie inside are lines of bytes */
  bool w_zero;           /* a filter has a zero point */
  int64_t strips, strip; /* parts of the filters of a group, and their size */
} braid_qlinear_job;

/* Windows in the order of the result's places: where each looks at first, and the image that it is in. */
typedef struct braid_qlinear_walk {
  const uint8_t *image;
  int64_t output[BRAID_WINDOW_RANK], at[BRAID_WINDOW_RANK];
} braid_qlinear_walk;

braid_qlinear_walk braid_qlinear_begin(const braid_qlinear_job *j, int64_t row);
void braid_qlinear_next(const braid_qlinear_job *j, braid_qlinear_walk *walk);

/* --- depthwise: filters that look at one channel each (depthwise.c) ------------------------------------------------
 */
BRAID_MUST_CHECK braid_status braid_depthwise_prepare(const braid_allocator *allocator, braid_qlinear *p);
/* Packed weights, without the sums of the filters behind them. */
size_t braid_depthwise_bytes(const braid_qlinear *p);
/* Room of a thread for pointers to taps, a multiple of 64 bytes, and for sums behind it. */
size_t braid_depthwise_taps_bytes(const braid_qlinear *p);
int64_t braid_depthwise_sums(const braid_qlinear *p);
void braid_depthwise_pack(const braid_qlinear *p, const uint8_t *plain, void *packed);
void braid_depthwise_run(const braid_qlinear_job *j);

#endif
