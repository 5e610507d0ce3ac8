/* Ops that move elements. Axes, shapes and paddings are in host memory; they are part of what a program is made for. */
#include <string.h>

#include "plugin.h"

#define MOVED "T=float,double,half,bfloat16,int64,bool"

/* An axis from 0 on, of `rank` dimensions. */
static int64_t wrap_axis(fpga_build *b, int64_t axis, int rank) {
  if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
  fpga_fail(b, BRAID_INVALID_ARGUMENT, "axis %lld of %d dimensions", (long long)axis, rank);
  return 0;
}

static size_t read_list(fpga_build *b, size_t input, int64_t *values) {
  int64_t count = fpga_host_count(b, input);
  if (count > BRAID_MAX_RANK) fpga_fail(b, BRAID_UNSUPPORTED, "more than %d dimensions", BRAID_MAX_RANK);
  for (int64_t i = 0; i < count && b->status == BRAID_OK; i++) values[i] = fpga_host_int(b, input, i);
  return b->status == BRAID_OK ? (size_t)count : 0;
}

/* --- padding -------------------------------------------------------------------------------------------------------
 */
/* (x, paddings, value?) */
static void pad(fpga_build *b, const char *mode) {
  int rank = b->inputs[0].desc.rank;
  int64_t pads[2 * BRAID_MAX_RANK];
  if (fpga_host_count(b, 1) != 2 * rank) fpga_fail(b, BRAID_INVALID_ARGUMENT, "paddings must be [%d, 2]", rank);
  for (int i = 0; i < rank && b->status == BRAID_OK; i++)
    for (int side = 0; side < 2; side++) {
      pads[side * rank + i] = fpga_host_int(b, 1, 2 * i + side);
      if (pads[side * rank + i] < 0) fpga_fail(b, BRAID_INVALID_ARGUMENT, "a padding is negative");
    }
  braid_value_id operands[3] = {fpga_in(b, 0), fpga_ints(b, pads, 2 * (size_t)rank), -1};
  if (b->input_count > 2) operands[2] = fpga_in(b, 2);
  braid_value_id y = fpga_node(b, "Pad", b->input_count > 2 ? 3 : 2, operands);
  fpga_set_string(b, "mode", mode);
  fpga_out(b, 0, y);
}

static void build_pad(fpga_build *b) {
  pad(b, "constant");
}

/* `count` elements of `axis` backwards, from `first` on. */
static braid_value_id mirror(fpga_build *b, braid_value_id x, int64_t axis, int64_t size, int64_t first,
                             int64_t count) {
  static const int64_t kBack[] = {-1};
  const int64_t end = first - count < 0 ? -size - 1 : first - count; /* before the first element */
  return FPGA_NODE(b, "Slice", x, fpga_ints(b, &first, 1), fpga_ints(b, &end, 1), fpga_ints(b, &axis, 1),
                   fpga_ints(b, kBack, 1));
}

/* The element at the edge is repeated, which ONNX's Pad has not: an axis after the other. */
static void build_symmetric_pad(fpga_build *b) {
  const braid_desc *in = &b->inputs[0].desc;
  if (fpga_host_count(b, 1) != 2 * in->rank) fpga_fail(b, BRAID_INVALID_ARGUMENT, "paddings must be [%d, 2]", in->rank);
  braid_value_id x = fpga_in(b, 0);
  for (int axis = 0; axis < in->rank && b->status == BRAID_OK; axis++) {
    int64_t size = in->dims[axis], before = fpga_host_int(b, 1, 2 * axis), after = fpga_host_int(b, 1, 2 * axis + 1);
    if (before < 0 || after < 0 || before > size || after > size)
      fpga_fail(b, BRAID_INVALID_ARGUMENT, "paddings of %lld and %lld of a dimension of %lld: expected 0 to its size",
                (long long)before, (long long)after, (long long)size);
    braid_value_id parts[3];
    size_t count = 0;
    if (before) parts[count++] = mirror(b, x, axis, size, before - 1, before);
    parts[count++] = x;
    if (after) parts[count++] = mirror(b, x, axis, size, size - 1, after);
    if (count == 1) continue;
    x = fpga_node(b, "Concat", count, parts);
    fpga_set_int(b, "axis", axis);
  }
  fpga_out(b, 0, FPGA_NODE(b, "Identity", x));
}

static void build_reflecting_pad(fpga_build *b) {
  const braid_desc *x = &b->inputs[0].desc;
  for (int i = 0; i < 2 * x->rank && fpga_host_count(b, 1) == 2 * x->rank; i++)
    if (fpga_host_int(b, 1, i) >= x->dims[i / 2])
      fpga_fail(b, BRAID_INVALID_ARGUMENT, "a padding of %lld reflects a dimension of %lld: expected less",
                (long long)fpga_host_int(b, 1, i), (long long)x->dims[i / 2]);
  pad(b, "reflect");
}

static void build_mirror_pad(fpga_build *b) {
  if (fpga_attr_is(b->attrs, "mode", "SYMMETRIC"))
    build_symmetric_pad(b);
  else
    build_reflecting_pad(b);
}

/* --- joining and splitting -----------------------------------------------------------------------------------------
 */
/* (parts..., axis): parts without elements are left out, unless all are: then they give the result its size. */
static void build_concat(fpga_build *b) {
  braid_value_id parts[FPGA_MAX_OPERANDS];
  size_t count = b->input_count - 1, used = 0, full = 0;
  int64_t axis = wrap_axis(b, fpga_host_int(b, count, 0), b->inputs[0].desc.rank);
  const braid_desc *first = &b->inputs[0].desc;
  for (size_t i = 0; i < count; i++) {
    const braid_desc *part = &b->inputs[i].desc;
    bool fits = part->rank == first->rank;
    for (int d = 0; fits && d < first->rank; d++) fits = d == axis || part->dims[d] == first->dims[d];
    if (!fits) fpga_fail(b, BRAID_INVALID_ARGUMENT, "part %zu differs from part 0 in more than the axis", i);
    full += fpga_host_count(b, i) > 0;
  }
  for (size_t i = 0; i < count; i++) /* if all are empty, their sizes still add up */
    if (!full || fpga_host_count(b, i)) parts[used++] = fpga_in(b, i);
  braid_value_id y = fpga_node(b, "Concat", used, parts);
  fpga_set_int(b, "axis", axis);
  fpga_out(b, 0, y);
}

/* (parts...): each with a dimension of 1 at the axis, which is the same memory. */
static void build_pack(fpga_build *b) {
  braid_value_id parts[FPGA_MAX_OPERANDS];
  const braid_desc *part = &b->inputs[0].desc;
  int64_t dims[BRAID_MAX_RANK + 1];
  int64_t axis = wrap_axis(b, fpga_attr_int(b->attrs, "axis", 0), part->rank + 1);
  for (int i = 0; i <= part->rank; i++) dims[i] = i < axis ? part->dims[i] : i == axis ? 1 : part->dims[i - 1];
  for (size_t i = 0; i < b->input_count; i++) parts[i] = fpga_in_as(b, i, part->rank + 1, dims, NULL);
  braid_value_id y = fpga_node(b, "Concat", b->input_count, parts);
  fpga_set_int(b, "axis", axis);
  fpga_out(b, 0, y);
}

/* `input` along `axis` into the op's outputs, of `sizes`; without the axis if `unpacked`. */
static void split(fpga_build *b, size_t input, int64_t axis, const int64_t *sizes, bool unpacked) {
  braid_value_id parts[FPGA_MAX_OPERANDS] = {0};
  braid_value_id operands[] = {fpga_in(b, input), fpga_ints(b, sizes, b->output_count)};
  fpga_nodes(b, "Split", 2, operands, b->output_count, parts);
  fpga_set_int(b, "axis", axis);
  for (size_t i = 0; i < b->output_count && b->status == BRAID_OK; i++) {
    braid_desc desc = fpga_desc(b, parts[i]);
    if (unpacked) memmove(desc.dims + axis, desc.dims + axis + 1, (size_t)(desc.rank - axis - 1) * sizeof *desc.dims);
    fpga_out_as(b, i, parts[i], desc.rank - unpacked, desc.dims, NULL);
  }
}

/* (axis, x) */
static void build_split(fpga_build *b) {
  int64_t sizes[FPGA_MAX_OPERANDS], axis = wrap_axis(b, fpga_host_int(b, 0, 0), b->inputs[1].desc.rank);
  int64_t whole = b->inputs[1].desc.dims[axis], parts = (int64_t)b->output_count;
  if (whole % parts)
    fpga_fail(b, BRAID_INVALID_ARGUMENT, "%lld cannot be split into %lld parts", (long long)whole, (long long)parts);
  for (int64_t i = 0; i < parts; i++) sizes[i] = whole / parts;
  split(b, 1, axis, sizes, false);
}

/* (x, sizes, axis): one of the sizes may be -1, the rest. */
static void build_split_v(fpga_build *b) {
  int64_t sizes[FPGA_MAX_OPERANDS], axis = wrap_axis(b, fpga_host_int(b, 2, 0), b->inputs[0].desc.rank);
  int64_t rest = b->inputs[0].desc.dims[axis];
  for (size_t i = 0; i < b->output_count; i++) {
    sizes[i] = fpga_host_int(b, 1, (int64_t)i);
    if (sizes[i] < -1) fpga_fail(b, BRAID_INVALID_ARGUMENT, "a size of %lld", (long long)sizes[i]);
    if (sizes[i] > 0) rest -= sizes[i];
  }
  for (size_t i = 0; i < b->output_count; i++)
    if (sizes[i] < 0) sizes[i] = rest;
  split(b, 0, axis, sizes, false);
}

static void build_unpack(fpga_build *b) {
  int64_t sizes[FPGA_MAX_OPERANDS];
  int64_t axis = wrap_axis(b, fpga_attr_int(b->attrs, "axis", 0), b->inputs[0].desc.rank);
  for (size_t i = 0; i < b->output_count; i++) sizes[i] = 1;
  if (b->inputs[0].desc.dims[axis] != (int64_t)b->output_count)
    fpga_fail(b, BRAID_INVALID_ARGUMENT, "%lld cannot be unpacked into %zu", (long long)b->inputs[0].desc.dims[axis],
              b->output_count);
  split(b, 0, axis, sizes, true);
}

/* --- repeating -----------------------------------------------------------------------------------------------------
 */
static void build_tile(fpga_build *b) {
  int64_t repeats[BRAID_MAX_RANK];
  size_t count = read_list(b, 1, repeats);
  fpga_out(b, 0, FPGA_NODE(b, "Tile", fpga_in(b, 0), fpga_ints(b, repeats, count)));
}

/* (x, shape) */
static void build_broadcast(fpga_build *b) {
  int64_t dims[BRAID_MAX_RANK];
  size_t count = read_list(b, 1, dims);
  const braid_desc *x = &b->inputs[0].desc;
  int fresh = (int)count - x->rank; /* Expand would widen the shape, too */
  for (int i = 0; i < x->rank; i++)
    if (fresh < 0 || (x->dims[i] != 1 && x->dims[i] != dims[fresh + i])) {
      fpga_fail(b, BRAID_INVALID_ARGUMENT, "the shape is not one that the operand can be broadcast to");
      break;
    }
  fpga_out(b, 0, FPGA_NODE(b, "Expand", fpga_in(b, 0), fpga_ints(b, dims, count)));
}

/* (shape, value) */
static void build_fill(fpga_build *b) {
  int64_t dims[BRAID_MAX_RANK];
  size_t count = read_list(b, 0, dims);
  fpga_out(b, 0, FPGA_NODE(b, "Expand", fpga_in(b, 1), fpga_ints(b, dims, count)));
}

static void build_transpose(fpga_build *b) {
  int64_t order[BRAID_MAX_RANK];
  size_t count = read_list(b, 1, order);
  for (size_t i = 0; i < count; i++) order[i] = wrap_axis(b, order[i], (int)count);
  braid_value_id x = fpga_in(b, 0), y = FPGA_NODE(b, "Transpose", x);
  fpga_set_ints(b, "perm", order, count);
  fpga_out(b, 0, y);
}

/* --- choosing ------------------------------------------------------------------------------------------------------
 */
static int64_t count_of(const int64_t *dims, int from, int to) {
  int64_t count = 1;
  for (int i = from; i < to; i++) count *= dims[i];
  return count;
}

/* (x, indices, axis): of x as [batch, outer, size, inner], rows of [batch * outer * size, inner] by their number. An
 * index outside of [0, size) becomes one behind all rows, which the kernel refuses: it would be a row of another batch,
 * and -1 would be the last one. */
static void build_gather(fpga_build *b) {
  const braid_desc *x = &b->inputs[0].desc, *indices = &b->inputs[1].desc;
  int64_t dims[2 * BRAID_MAX_RANK], given = b->input_count > 2 ? fpga_host_int(b, 2, 0) : 0;
  int64_t axis = wrap_axis(b, given, x->rank), batch_dims = fpga_attr_int(b->attrs, "batch_dims", 0);
  if (batch_dims < 0) batch_dims += indices->rank;
  if (batch_dims < 0 || batch_dims > axis || batch_dims > indices->rank)
    fpga_fail(b, BRAID_INVALID_ARGUMENT, "batch_dims is %lld with axis %lld", (long long)batch_dims, (long long)axis);
  for (int i = 0; i < batch_dims && b->status == BRAID_OK; i++)
    if (x->dims[i] != indices->dims[i])
      fpga_fail(b, BRAID_INVALID_ARGUMENT, "dimension %d is %lld and that of the indices %lld", i,
                (long long)x->dims[i], (long long)indices->dims[i]);
  int rank = x->rank - 1 + indices->rank - (int)batch_dims, at = 0;
  if (rank > BRAID_MAX_RANK) fpga_fail(b, BRAID_UNSUPPORTED, "a result of more than %d dimensions", BRAID_MAX_RANK);
  if (b->status != BRAID_OK) return;
  const int split = (int)axis, first = (int)batch_dims;
  const int64_t size = x->dims[split], batch = count_of(x->dims, 0, first), outer = count_of(x->dims, first, split);
  const int64_t rows = batch * outer * size, inner = count_of(x->dims, split + 1, x->rank);
  const int64_t wanted = count_of(indices->dims, first, indices->rank);
  for (int i = 0; i < split; i++) dims[at++] = x->dims[i];
  for (int i = first; i < indices->rank; i++) dims[at++] = indices->dims[i];
  for (int i = split + 1; i < x->rank; i++) dims[at++] = x->dims[i];
  braid_value_id index = fpga_in_as(b, 1, 3, (const int64_t[]){batch, 1, wanted}, NULL);
  index = fpga_cast(b, index, BRAID_I64);
  braid_value_id zero = fpga_scalar(b, BRAID_I64, 0), end = fpga_scalar(b, BRAID_I64, (double)size);
  braid_value_id inside =
      FPGA_NODE(b, "And", FPGA_NODE(b, "GreaterOrEqual", index, zero), FPGA_NODE(b, "Less", index, end));
  if (batch * outer > 1 && size > 0) {
    braid_value_id offset = FPGA_NODE(b, "Range", zero, fpga_scalar(b, BRAID_I64, (double)rows), end);
    index = FPGA_NODE(b, "Add", index, fpga_reshape(b, offset, 3, (const int64_t[]){batch, outer, 1}));
  }
  index = FPGA_NODE(b, "Where", inside, index, fpga_scalar(b, BRAID_I64, (double)rows));
  braid_value_id y = FPGA_NODE(b, "Gather", fpga_in_as(b, 0, 2, (const int64_t[]){rows, inner}, NULL), index);
  fpga_set_int(b, "axis", 0);
  fpga_out_as(b, 0, y, rank, dims, NULL);
}

/* (indices, depth, on, off): where the index is the place. */
static void build_one_hot(fpga_build *b) {
  enum { kMostClasses = 1 << 20 };
  const braid_desc *x = &b->inputs[0].desc;
  int64_t depth = fpga_host_int(b, 1, 0), dims[BRAID_MAX_RANK] = {0}, row[BRAID_MAX_RANK];
  int64_t given = fpga_attr_int(b->attrs, "axis", -1);
  int64_t axis = wrap_axis(b, given, x->rank + 1);
  if (depth < 0 || depth > kMostClasses) fpga_fail(b, BRAID_UNSUPPORTED, "a depth of %lld", (long long)depth);
  if (x->rank == BRAID_MAX_RANK) fpga_fail(b, BRAID_UNSUPPORTED, "a result of more than %d dimensions", BRAID_MAX_RANK);
  if (b->status != BRAID_OK) return;
  for (int i = 0; i <= x->rank; i++) {
    dims[i] = i < axis ? x->dims[i] : i == axis ? 1 : x->dims[i - 1];
    row[i] = i == axis ? depth : 1;
  }
  braid_value_id index = fpga_in_as(b, 0, x->rank + 1, dims, NULL);
  braid_value_id zero = fpga_scalar(b, x->dtype, 0), one = fpga_scalar(b, x->dtype, 1);
  braid_value_id place = FPGA_NODE(b, "Range", zero, fpga_scalar(b, x->dtype, (double)depth), one);
  place = fpga_reshape(b, place, x->rank + 1, row);
  braid_value_id hit = FPGA_NODE(b, "Equal", index, place);
  fpga_out(b, 0, FPGA_NODE(b, "Where", hit, fpga_in(b, 2), fpga_in(b, 3)));
}

/* (x, axes) */
static void build_reverse(fpga_build *b) {
  const braid_desc *x = &b->inputs[0].desc;
  int64_t axes[BRAID_MAX_RANK], starts[BRAID_MAX_RANK], ends[BRAID_MAX_RANK], steps[BRAID_MAX_RANK];
  size_t count = read_list(b, 1, axes);
  for (size_t i = 0; i < count; i++) {
    axes[i] = wrap_axis(b, axes[i], x->rank);
    starts[i] = -1, ends[i] = INT64_MIN + 1, steps[i] = -1;
  }
  braid_value_id in = fpga_in(b, 0);
  fpga_out(b, 0,
           FPGA_NODE(b, "Slice", in, fpga_ints(b, starts, count), fpga_ints(b, ends, count), fpga_ints(b, axes, count),
                     fpga_ints(b, steps, count)));
}

const fpga_op fpga_ops_movement[] = {
    {"Pad", NULL, MOVED, "paddings", build_pad, NULL},
    {"PadV2", NULL, MOVED, "paddings", build_pad, NULL},
    {"MirrorPad", "mode:string", "T=float,double,half,bfloat16,int64", "paddings", build_mirror_pad, NULL},
    {"ConcatV2", NULL, MOVED, "axis", build_concat, NULL},
    {"Pack", "axis:int", MOVED, NULL, build_pack, NULL},
    {"Split", NULL, MOVED, "split_dim", build_split, NULL},
    {"SplitV", NULL, MOVED, "size_splits split_dim", build_split_v, NULL},
    {"Unpack", "axis:int", MOVED, NULL, build_unpack, NULL},
    {"Tile", NULL, MOVED, "multiples", build_tile, NULL},
    {"BroadcastTo", NULL, MOVED, "shape", build_broadcast, NULL},
    {"Fill", NULL, MOVED, "dims", build_fill, NULL},
    {"Transpose", NULL, MOVED, "perm", build_transpose, NULL},
    {"Gather", NULL, "Tparams=float,double,half,bfloat16,int64", NULL, build_gather, NULL},
    {"GatherV2", "batch_dims:int", "Tparams=float,double,half,bfloat16,int64", "axis", build_gather, NULL},
    {"OneHot", "axis:int", "T=float,double,half,bfloat16,int64 TI=int64", "depth", build_one_hot, NULL},
    {"ReverseV2", NULL, "T=float,double,half,bfloat16,int64", "axis", build_reverse, NULL},
    {NULL, NULL, NULL, NULL, NULL, NULL}};
