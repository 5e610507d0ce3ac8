/* What the latency indicator is made of: work of an op, classes of sizes, the space of configurations. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "braid/explore.h"

const char *braid_kernel_op_name(braid_kernel_op op) {
  static const char *const kNames[BRAID_KERNEL_OPS] = {"MatMul", "Conv", "MaxPool"};
  return kNames[op];
}

const char *braid_kernel_size_class_name(braid_kernel_size_class size_class) {
  static const char *const kNames[] = {"small", "medium", "large", "no class"};
  return kNames[size_class];
}

double braid_kernel_latency_indicator(double work, int64_t group, double fmax_mhz) {
  return 1024 * work / ((double)group * fmax_mhz * 1e6);
}

/* --- work ----------------------------------------------------------------------------------------------------------
 */
static const int64_t kMostSize = (int64_t)1 << 40;

static braid_status check_size(const char *what, int64_t size, int64_t least) {
  if (size >= least && size <= kMostSize) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "%s is %lld, expected %lld to %lld", what, (long long)size,
                    (long long)least, (long long)kMostSize);
}

static braid_status check_problem(const braid_kernel_problem *p) {
  static const char *const kProduct[] = {"rows", "the inner dimension", "columns"};
  static const char *const kImage[] = {"the batch", "channels", "height", "width"};
  bool product = p->op == BRAID_KERNEL_MATMUL;
  for (int i = 0; i < (product ? 3 : 4); i++) BRAID_TRY(check_size(product ? kProduct[i] : kImage[i], p->dims[i], 1));
  if (product) return BRAID_OK;
  if (p->op == BRAID_KERNEL_CONV) BRAID_TRY(check_size("filters", p->filters, 1));
  BRAID_TRY(check_size("the window", p->window, 1));
  BRAID_TRY(check_size("the stride", p->stride, 1));
  BRAID_TRY(check_size("the pad", p->pad, 0));
  for (int i = 2; i < 4; i++)
    if (p->dims[i] + 2 * p->pad < p->window)
      return braid_fail(BRAID_INVALID_ARGUMENT, "a window of %lld does not fit into %s %lld with %lld of padding",
                        (long long)p->window, kImage[i], (long long)p->dims[i], (long long)(2 * p->pad));
  return BRAID_OK;
}

/* Of an image: 0 height, 1 width. */
static int64_t side_of_results(const braid_kernel_problem *p, int side) {
  return (p->dims[2 + side] + 2 * p->pad - p->window) / p->stride + 1;
}

braid_status braid_kernel_work(const braid_kernel_problem *p, double *out) {
  *out = 0;
  BRAID_TRY(check_problem(p));
  double work = 1;
  if (p->op == BRAID_KERNEL_MATMUL) {
    for (int i = 0; i < 3; i++) work *= (double)p->dims[i];
  } else {
    work = (double)p->dims[0] * (double)p->dims[1] * (double)side_of_results(p, 0) * (double)side_of_results(p, 1) *
           (double)p->window * (double)p->window;
    if (p->op == BRAID_KERNEL_CONV) work *= (double)p->filters;
  }
  if (work > 0x1p62)
    return braid_fail(BRAID_OUT_OF_RANGE, "%s of this size has %.3g multiply-accumulates, more than 2^62",
                      braid_kernel_op_name(p->op), work);
  *out = work;
  return BRAID_OK;
}

/* --- classes of sizes ----------------------------------------------------------------------------------------------
 */
braid_kernel_size_class braid_kernel_classify(const braid_kernel_problem *p) {
  if (p->op == BRAID_KERNEL_MAX_POOL || check_problem(p) != BRAID_OK) return BRAID_KERNEL_NO_CLASS;
  double dims[3] = {(double)p->dims[0], (double)p->dims[1], (double)p->dims[2]};
  if (p->op == BRAID_KERNEL_CONV) {
    dims[0] = (double)p->filters;
    dims[1] = (double)p->dims[1] * (double)p->window * (double)p->window;
    dims[2] = (double)p->dims[0] * (double)side_of_results(p, 0) * (double)side_of_results(p, 1);
  }
  int small = 0, medium = 0;
  for (int i = 0; i < 3; i++) {
    if (dims[i] > 4096) return BRAID_KERNEL_LARGE;
    small += dims[i] > 256 && dims[i] < 1024;
    medium += dims[i] >= 1024 && dims[i] < 4096;
  }
  return small == 3 ? BRAID_KERNEL_SMALL : medium == 3 ? BRAID_KERNEL_MEDIUM : BRAID_KERNEL_NO_CLASS;
}

/* --- the space -----------------------------------------------------------------------------------------------------
 */
braid_kernel_space braid_kernel_paper_space(braid_kernel_op op) {
  braid_kernel_space space = {.units = {1, 2, 3, 4},
                              .simd = {1, 2, 4, 8, 16},
                              .groups = {32, 64, 128, 256},
                              .most_unroll = 256,
                              .unit_count = 4,
                              .simd_count = 5,
                              .group_count = 4};
  static const int64_t kConvGroups[] = {16, 32, 64, 128};
  if (op == BRAID_KERNEL_CONV) memcpy(space.groups, kConvGroups, sizeof kConvGroups);
  return space;
}

size_t braid_kernel_space_count(const braid_kernel_space *space) {
  return space->unit_count * space->simd_count * space->group_count * (size_t)space->most_unroll;
}

/* --- Table 4 -------------------------------------------------------------------------------------------------------
 */
const braid_kernel_row *braid_kernel_paper_rows(void) {
#define NO NAN
  static const braid_kernel_row kRows[BRAID_KERNEL_ROWS] = {
      {BRAID_KERNEL_MATMUL, {1, 8, 256, 256}, 2.595, 17.9, NO},
      {BRAID_KERNEL_MATMUL, {2, 4, 256, 128}, 3.480, 20.95, NO},
      {BRAID_KERNEL_MATMUL, {1, 16, 128, 128}, 4.188, 49.09, NO},
      {BRAID_KERNEL_MATMUL, {2, 1, 128, 64}, 9.594, 81.81, 210},
      {BRAID_KERNEL_MATMUL, {4, 2, 64, 64}, 16.515, 142.57, 241},
      {BRAID_KERNEL_CONV, {2, 4, 64, 64}, 2.532, 19.34, NO},
      {BRAID_KERNEL_CONV, {1, 8, 64, 32}, 5.154, 26.47, NO},
      {BRAID_KERNEL_CONV, {2, 16, 32, 32}, 8.134, 55.88, NO},
      {BRAID_KERNEL_CONV, {4, 4, 32, 16}, 11.173, 61.48, NO},
      {BRAID_KERNEL_CONV, {4, 8, 16, 8}, 18.576, 128.94, NO},
      {BRAID_KERNEL_MAX_POOL, {3, 8, 256, 256}, 0.284, 30.62, NO},
      {BRAID_KERNEL_MAX_POOL, {2, 4, 128, 64}, 0.793, 74.7, NO},
      {BRAID_KERNEL_MAX_POOL, {2, 16, 128, 32}, 1.396, 88.33, NO},
      {BRAID_KERNEL_MAX_POOL, {1, 8, 64, 32}, 2.275, 130.89, NO},
      {BRAID_KERNEL_MAX_POOL, {4, 1, 32, 1}, 2.768, 148.42, NO},
  };
#undef NO
  return kRows;
}
