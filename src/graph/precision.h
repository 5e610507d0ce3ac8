/* Mixed precision: which values of a graph become 16-bit numbers.
 *
 * The rule is that of autocast in frameworks. Products (Conv, ConvTranspose, Gemm, MatMul) take and give 16-bit
 * numbers, and sum in float32. Ops that only pass on, choose or combine what they are given follow: where all that they
 * compute on is 16-bit, so is what they give. All others (losses, Softmax, reductions, normalizations but
 * BatchNormalization) are float32; BatchNormalization takes and gives 16-bit numbers beside float32 parameters and
 * statistics. Between the two stand Cast nodes, one for each value. Parameters stay float32, and so do the graph's
 * outputs. */
#ifndef BRAID_GRAPH_PRECISION_H
#define BRAID_GRAPH_PRECISION_H

#include "graph/graph.h"

/* The type of 16-bit precisions, else BRAID_F32. */
static inline braid_dtype braid_precision_dtype(braid_precision precision) {
  return precision == BRAID_BFLOAT16 ? BRAID_BF16 : precision == BRAID_FLOAT16 ? BRAID_F16 : BRAID_F32;
}

/* Makes of a graph whose precision is a 16-bit one a graph with 16-bit values and casts; its precision is BRAID_FLOAT32
 * afterwards. Others stay as they are. The graph is inferred, gradients are built afterwards. Values keep their ids
 * and, but for outputs, their names; nodes are sorted anew. */
BRAID_MUST_CHECK braid_status braid_graph_lower(braid_graph *graph);
/* The same, and the last word of other precisions: products, those of gradients too, may round to TF32. */
BRAID_MUST_CHECK braid_status braid_graph_apply_precision(braid_graph *graph);

/* Kernels of products: may operands of float32 be rounded to TF32? */
static inline bool braid_allows_tf32(const braid_attrs *attrs) {
  return braid_attr_int(attrs, "__tf32", 0) != 0;
}

#endif
