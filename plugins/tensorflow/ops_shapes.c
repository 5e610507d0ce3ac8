/* Slices, with TensorFlow's masks, and their gradients. */
#include <string.h>

#include "plugin.h"

#define MOVED "T=float,double,half,bfloat16,int64,bool"
#define MASKS "begin_mask:int end_mask:int ellipsis_mask:int new_axis_mask:int shrink_axis_mask:int"

/* What a strided slice takes of each dimension of x, and the dimensions of the result. */
typedef struct slice {
  int rank, result_rank;
  int64_t starts[BRAID_MAX_RANK], ends[BRAID_MAX_RANK], steps[BRAID_MAX_RANK], taken[BRAID_MAX_RANK];
  int64_t result[BRAID_MAX_RANK];
} slice;

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

static bool add_result(fpga_build *b, slice *s, int64_t size) {
  if (s->result_rank == BRAID_MAX_RANK) {
    fpga_fail(b, BRAID_UNSUPPORTED, "a result of more than %d dimensions", BRAID_MAX_RANK);
    return false;
  }
  s->result[s->result_rank++] = size;
  return true;
}

/* All of dimension `dim`. */
static void take_all(fpga_build *b, slice *s, int dim, int64_t size) {
  s->starts[dim] = 0, s->ends[dim] = size, s->steps[dim] = 1, s->taken[dim] = size;
  (void)add_result(b, s, size);
}

/* Entry `i` of the specification, for dimension `dim`. */
static void take_some(fpga_build *b, slice *s, int dim, int64_t size, size_t first_input, int64_t i) {
  int64_t step = fpga_host_int(b, first_input + 2, i), begin = fpga_host_int(b, first_input, i);
  int64_t end = fpga_host_int(b, first_input + 1, i);
  bool shrink = fpga_attr_int(b->attrs, "shrink_axis_mask", 0) >> i & 1;
  bool no_begin = fpga_attr_int(b->attrs, "begin_mask", 0) >> i & 1;
  bool no_end = fpga_attr_int(b->attrs, "end_mask", 0) >> i & 1;
  if (step == 0) {
    fpga_fail(b, BRAID_INVALID_ARGUMENT, "stride %lld is 0", (long long)i);
    return;
  }
  if (shrink) {
    int64_t at = begin < 0 ? begin + size : begin;
    if (at < 0 || at >= size)
      fpga_fail(b, BRAID_INVALID_ARGUMENT, "index %lld of a dimension of %lld", (long long)begin, (long long)size);
    s->starts[dim] = at, s->ends[dim] = at + 1, s->steps[dim] = 1, s->taken[dim] = 1;
    return;
  }
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  begin = no_begin ? (step > 0 ? 0 : size - 1) : clamp(begin < 0 ? begin + size : begin, low, high);
  end = no_end ? (step > 0 ? size : -1) : clamp(end < 0 ? end + size : end, low, high);
  int64_t span = step > 0 ? end - begin : begin - end, pace = step > 0 ? step : -step;
  int64_t taken = span > 0 ? (span + pace - 1) / pace : 0;
  s->starts[dim] = begin, s->steps[dim] = step, s->taken[dim] = taken;
  s->ends[dim] = step < 0 && end < 0 ? -size - 1 : end;             /* before the first element */
  if (!taken) s->starts[dim] = s->ends[dim] = 0, s->steps[dim] = 1; /* a start of -1 would be the last element */
  (void)add_result(b, s, taken);
}

/* The specification in inputs first_input (begin), and the two behind it (end, strides). */
static bool read_slice(fpga_build *b, const int64_t *dims, int rank, size_t first_input, slice *s) {
  int64_t entries = fpga_host_count(b, first_input);
  int64_t ellipsis = fpga_attr_int(b->attrs, "ellipsis_mask", 0), fresh = fpga_attr_int(b->attrs, "new_axis_mask", 0);
  int named = 0, dim = 0;
  *s = (slice){.rank = rank};
  if (entries > 32) fpga_fail(b, BRAID_UNSUPPORTED, "%lld entries", (long long)entries);
  for (int64_t i = 0; i < entries && i < 32; i++) named += !(ellipsis >> i & 1) && !(fresh >> i & 1);
  if (named > rank) fpga_fail(b, BRAID_INVALID_ARGUMENT, "%d indices of a tensor of %d dimensions", named, rank);
  for (int64_t i = 0; i < entries && b->status == BRAID_OK; i++) {
    if (ellipsis >> i & 1)
      for (int all = rank - named; all > 0; all--, dim++) take_all(b, s, dim, dims[dim]);
    else if (fresh >> i & 1)
      (void)add_result(b, s, 1);
    else
      take_some(b, s, dim, dims[dim], first_input, i), dim++;
  }
  for (; dim < rank && b->status == BRAID_OK; dim++) take_all(b, s, dim, dims[dim]);
  return b->status == BRAID_OK;
}

static braid_value_id take(fpga_build *b, braid_value_id x, const slice *s) {
  int64_t axes[BRAID_MAX_RANK];
  size_t rank = (size_t)s->rank;
  for (int i = 0; i < s->rank; i++) axes[i] = i;
  return FPGA_NODE(b, "Slice", x, fpga_ints(b, s->starts, rank), fpga_ints(b, s->ends, rank), fpga_ints(b, axes, rank),
                   fpga_ints(b, s->steps, rank));
}

/* (x, begin, end, strides) */
static void build_strided_slice(fpga_build *b) {
  slice s;
  const braid_desc *x = &b->inputs[0].desc;
  if (!read_slice(b, x->dims, x->rank, 1, &s)) return;
  if (x->rank == 0) {
    fpga_out_shared(b, 0, 0, s.result_rank, s.result);
    return;
  }
  fpga_out_as(b, 0, take(b, fpga_in(b, 0), &s), s.result_rank, s.result, NULL);
}

/* (shape of x, begin, end, strides, dy) */
static void build_strided_slice_grad(fpga_build *b) {
  slice s;
  int64_t dims[BRAID_MAX_RANK], axes[BRAID_MAX_RANK];
  int64_t rank = fpga_host_count(b, 0);
  if (rank > BRAID_MAX_RANK) fpga_fail(b, BRAID_UNSUPPORTED, "more than %d dimensions", BRAID_MAX_RANK);
  for (int64_t i = 0; i < rank && b->status == BRAID_OK; i++) dims[i] = fpga_host_int(b, 0, i), axes[i] = i;
  if (b->status != BRAID_OK || !read_slice(b, dims, (int)rank, 1, &s)) return;
  if (rank == 0) {
    fpga_out_shared(b, 0, 4, 0, NULL);
    return;
  }
  size_t count = (size_t)rank;
  braid_value_id dy = fpga_in_as(b, 4, (int)rank, s.taken, NULL);
  braid_value_id dx = FPGA_NODE(b, "SliceGrad", dy, fpga_ints(b, s.starts, count), fpga_ints(b, s.ends, count),
                                fpga_ints(b, axes, count), fpga_ints(b, s.steps, count));
  fpga_set_ints(b, "input_shape", dims, count);
  fpga_out(b, 0, dx);
}

/* (x, begin, size): a size of -1 is the rest. */
static void build_slice(fpga_build *b) {
  const braid_desc *x = &b->inputs[0].desc;
  slice s = {.rank = x->rank};
  for (int i = 0; i < x->rank && b->status == BRAID_OK; i++) {
    int64_t begin = fpga_host_int(b, 1, i), size = fpga_host_int(b, 2, i);
    if (size == -1) size = x->dims[i] - begin;
    if (begin < 0 || size < 0 || begin > x->dims[i] - size)
      fpga_fail(b, BRAID_INVALID_ARGUMENT, "%lld elements from %lld on of a dimension of %lld", (long long)size,
                (long long)begin, (long long)x->dims[i]);
    s.starts[i] = begin, s.ends[i] = begin + size, s.steps[i] = 1;
  }
  if (x->rank == 0)
    fpga_out_shared(b, 0, 0, 0, NULL);
  else
    fpga_out(b, 0, take(b, fpga_in(b, 0), &s));
}

const fpga_op fpga_ops_shapes[] = {{"StridedSlice", MASKS, MOVED, "begin end strides", build_strided_slice, NULL},
                                   {"StridedSliceGrad", MASKS, "T=float,double,half,bfloat16",
                                    "shape begin end strides", build_strided_slice_grad, NULL},
                                   {"Slice", NULL, MOVED, "begin size", build_slice, NULL},
                                   {NULL, NULL, NULL, NULL, NULL, NULL}};
