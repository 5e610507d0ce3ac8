/* What a node costs on the modelled core group: its program, counted without moving or computing anything. */
#ifndef BRAID_BACKEND_MANYCORE_COST_H
#define BRAID_BACKEND_MANYCORE_COST_H

#include "backend/manycore/kernel.h"

typedef struct braid_manycore_cost {
  double seconds, microjoules;
  double compute_seconds;                    /* of the core that computes longest, if transfers were free */
  int64_t macs, get_bytes, put_bytes, steps; /* of all cores; shared blocks are fetched once */
  int busy;                                  /* cores that have a part of it */
} braid_manycore_cost;

/* Of the program of a compute kernel. A program that fails by its own fault (scratchpad) fails here too. */
BRAID_MUST_CHECK braid_status braid_manycore_cost_count(const braid_allocator *allocator,
                                                        const braid_manycore_group *group, const braid_kernel *kernel,
                                                        const braid_manycore_plan *plan, braid_manycore_cost *out);
/* Of a node on the management core, with vectors or without: its operations, and its operands moved once each. */
double braid_manycore_management_seconds(const braid_node_desc *node, bool vectors);
/* Multiply-adds, or one operation per element of the largest operand for ops that have none. */
double braid_manycore_operations(const braid_node_desc *node);
double braid_manycore_microjoules(double seconds);

#endif
