/* Ops registered by the program, beside the ops table. */
#ifndef BRAID_GRAPH_CUSTOM_H
#define BRAID_GRAPH_CUSTOM_H

#include "braid/custom.h"
#include "graph/graph.h"

enum { BRAID_MAX_CUSTOM_OPS = 256 };

/* NULL: not registered. */
const braid_op *braid_custom_op_find(const char *name);
/* Registered ops are numbered in their order and never removed. */
size_t braid_custom_op_count(void);
const braid_custom_op *braid_custom_op_at(size_t index);
#endif
