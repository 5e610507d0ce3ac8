/* Reductions over axes, which TensorFlow gives in host memory. */
#include "plugin.h"

#define NUMBER "T=float,double,half,bfloat16,int64"

/* The axes of input 1, from 0 on; false after a failure. */
static bool read_axes(fpga_build *b, int64_t *axes, size_t *count) {
  int rank = b->inputs[0].rank;
  int64_t given = fpga_host_count(b, 1);
  if (given > FPGA_MAX_WIDE) fpga_fail(b, BRAID_INVALID_ARGUMENT, "%lld axes", (long long)given);
  *count = 0;
  for (int64_t i = 0; i < given && b->status == BRAID_OK; i++) {
    int64_t axis = fpga_host_int(b, 1, i);
    if (axis < -rank || axis >= rank)
      fpga_fail(b, BRAID_INVALID_ARGUMENT, "axis %lld of a tensor of %d dimensions", (long long)axis, rank);
    axes[(*count)++] = axis < 0 ? axis + rank : axis;
  }
  return b->status == BRAID_OK;
}

/* Neighbours that are all reduced, or all kept, are one dimension of the same memory; those of 1 are of either kind. */
static void reduce_wide(fpga_build *b, const char *op, const int64_t *axes, size_t count) {
  const fpga_input *in = &b->inputs[0];
  int64_t dims[FPGA_MAX_WIDE], gone[FPGA_MAX_WIDE], out[FPGA_MAX_WIDE];
  int rank = 0, out_rank = 0;
  size_t reduced = 0;
  bool last = false, keep = fpga_attr_int(b->attrs, "keep_dims", 0);
  for (int i = 0; i < in->rank; i++) {
    bool goes = false;
    for (size_t k = 0; k < count; k++) goes = goes || axes[k] == i;
    if (!goes || keep) out[out_rank++] = goes ? 1 : in->dims[i];
    if (in->dims[i] == 1) continue;
    if (rank && last == goes) {
      dims[rank - 1] *= in->dims[i];
      continue;
    }
    if (goes) gone[reduced++] = rank;
    dims[rank++] = in->dims[i];
    last = goes;
  }
  if (rank > BRAID_MAX_RANK || out_rank > BRAID_MAX_RANK) {
    fpga_fail(b, BRAID_UNSUPPORTED, "more than %d dimensions of the operand, neighbours merged, or of the result",
              BRAID_MAX_RANK);
    return;
  }
  braid_value_id x = fpga_in_as(b, 0, rank, dims, NULL), y;
  y = reduced ? FPGA_NODE(b, op, x, fpga_ints(b, gone, reduced)) : FPGA_NODE(b, "Identity", x);
  if (reduced) fpga_set_int(b, "keepdims", 0);
  fpga_out_as(b, 0, y, out_rank, out, NULL);
}

static void reduce(fpga_build *b, const char *op) {
  int64_t axes[FPGA_MAX_WIDE];
  size_t count;
  if (!read_axes(b, axes, &count)) return;
  if (b->inputs[0].rank > BRAID_MAX_RANK) {
    reduce_wide(b, op, axes, count);
    return;
  }
  braid_value_id x = fpga_in(b, 0);
  if (!count) {
    fpga_out(b, 0, FPGA_NODE(b, "Identity", x));
    return;
  }
  braid_value_id y = FPGA_NODE(b, op, x, fpga_ints(b, axes, count));
  fpga_set_int(b, "keepdims", fpga_attr_int(b->attrs, "keep_dims", 0));
  fpga_out(b, 0, y);
}

#define REDUCTION(function, op)                                                                                        \
  static void build_##function(fpga_build *b) {                                                                        \
    reduce(b, op);                                                                                                     \
  }

REDUCTION(sum, "ReduceSum")
REDUCTION(mean, "ReduceMean")
REDUCTION(max, "ReduceMax")
REDUCTION(min, "ReduceMin")
REDUCTION(prod, "ReduceProd")
REDUCTION(any, "ReduceMax")
REDUCTION(all, "ReduceMin")

static void arg(fpga_build *b, const char *op) {
  int rank = b->inputs[0].desc.rank;
  int64_t axis = fpga_host_int(b, 1, 0);
  if (axis < -rank || axis >= rank)
    fpga_fail(b, BRAID_INVALID_ARGUMENT, "dimension %lld of a tensor of %d", (long long)axis, rank);
  braid_value_id y = FPGA_NODE(b, op, fpga_in(b, 0));
  fpga_set_int(b, "axis", axis);
  fpga_set_int(b, "keepdims", 0);
  fpga_out(b, 0, fpga_cast(b, y, fpga_dtype((TF_DataType)fpga_attr_int(b->attrs, "output_type", TF_INT64))));
}

static void build_arg_max(fpga_build *b) {
  arg(b, "ArgMax");
}

static void build_arg_min(fpga_build *b) {
  arg(b, "ArgMin");
}

/* (x) with attributes, axis in host memory. */
static void build_cumsum(fpga_build *b) {
  int64_t axis = fpga_host_int(b, 1, 0);
  braid_value_id y = FPGA_NODE(b, "CumSum", fpga_in(b, 0), fpga_ints(b, &axis, 1));
  fpga_set_int(b, "exclusive", fpga_attr_int(b->attrs, "exclusive", 0));
  fpga_set_int(b, "reverse", fpga_attr_int(b->attrs, "reverse", 0));
  fpga_out(b, 0, y);
}

/* The largest k of each row, and where they were. */
static void build_top_k(fpga_build *b) {
  int64_t k = fpga_host_int(b, 1, 0);
  braid_value_id outputs[2] = {0, 0};
  fpga_nodes(b, "TopK", 2, (braid_value_id[]){fpga_in(b, 0), fpga_ints(b, &k, 1)}, 2, outputs);
  fpga_set_int(b, "sorted", fpga_attr_int(b->attrs, "sorted", 1));
  fpga_out(b, 0, outputs[0]);
  fpga_out(b, 1, fpga_cast(b, outputs[1], fpga_dtype((TF_DataType)fpga_attr_int(b->attrs, "index_type", TF_INT32))));
}

const fpga_op fpga_ops_reductions[] = {
    {"Sum", "keep_dims:bool", NUMBER, "reduction_indices", build_sum, NULL},
    {"Mean", "keep_dims:bool", "T=float,double,half,bfloat16", "reduction_indices", build_mean, NULL},
    {"Max", "keep_dims:bool", NUMBER, "reduction_indices", build_max, NULL},
    {"Min", "keep_dims:bool", NUMBER, "reduction_indices", build_min, NULL},
    {"Prod", "keep_dims:bool", NUMBER, "reduction_indices", build_prod, NULL},
    {"Any", "keep_dims:bool", NULL, "reduction_indices", build_any, NULL},
    {"All", "keep_dims:bool", NULL, "reduction_indices", build_all, NULL},
    {"ArgMax", "output_type:type", "T=float,double,half,bfloat16,int64", "dimension", build_arg_max, NULL},
    {"ArgMin", "output_type:type", "T=float,double,half,bfloat16,int64", "dimension", build_arg_min, NULL},
    {"Cumsum", "exclusive:bool reverse:bool", "T=float,double,int64", "axis", build_cumsum, NULL},
    {"TopKV2", "sorted:bool index_type:type", "T=float,double", "k", build_top_k, NULL},
    {NULL, NULL, NULL, NULL, NULL, NULL}};
