/* Which ops ONNX has, since when. */
#ifndef BRAID_MODEL_ONNX_OPSET_H
#define BRAID_MODEL_ONNX_OPSET_H

#include "graph/graph.h"

enum { BRAID_ONNX_OLDEST_OPSET = 17 };
/* The first opset from 17 on that has the node's op in the form the node uses, with the types of its operands as far as
 * the graph knows them; 0: ONNX has no such op. */
int braid_onnx_opset_of(const braid_graph *graph, const braid_node *node);
/* The IR version that may name an opset. */
int braid_onnx_ir_version(int opset);
#endif
