/* What the ops over bytes share: the length of sums, and QLinearConv (quantize.c), of which FusedQLinearConv
 * (qlinear.c) is one with more behind it. */
#ifndef BRAID_GRAPH_OPS_QLINEAR_H
#define BRAID_GRAPH_OPS_QLINEAR_H

#include "graph/graph.h"

/* So many products of two differences of bytes fit int32. Longer sums of QLinearConv and QLinearMatMul are computed in
 * int64, those of MatMulInteger and ConvInteger wrap; no other op has them. */
enum { BRAID_QLINEAR_MOST_PRODUCTS = 1 << 15 };

braid_status braid_infer_qlinear_conv(const braid_infer *infer);
/* Of ConvInteger too. */
int64_t braid_quantized_conv_macs(const braid_graph *graph, const braid_node *node);

#endif
