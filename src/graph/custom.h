/* Ops of the program, beside the ops table. */
#ifndef BRAID_GRAPH_CUSTOM_H
#define BRAID_GRAPH_CUSTOM_H

#include "braid/custom.h"
#include "graph/graph.h"

/* ops NULL: the process's set. NULL: it has none of that name. */
const braid_op *braid_custom_ops_find(const braid_custom_ops *ops, const char *name);
/* What the program gave of an op; NULL: it is in the ops table. */
const braid_custom_op *braid_custom_op_of(const braid_op *op);

#endif
