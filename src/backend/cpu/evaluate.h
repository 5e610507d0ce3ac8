/* Computing nodes at once, on the calling thread, with the plain reference kernels: for folding constants. */
#ifndef BRAID_BACKEND_CPU_EVALUATE_H
#define BRAID_BACKEND_CPU_EVALUATE_H

#include "device/kernel_index.h"
#include "graph/graph.h"

typedef struct braid_cpu_evaluator {
  braid_kernel_index kernels;
} braid_cpu_evaluator;

BRAID_MUST_CHECK braid_status braid_cpu_evaluator_init(braid_cpu_evaluator *evaluator,
                                                       const braid_allocator *allocator);
void braid_cpu_evaluator_deinit(braid_cpu_evaluator *evaluator);

/* A braid_evaluator's function; `context` is the braid_cpu_evaluator. UNSUPPORTED: no kernel takes the node. */
braid_status braid_cpu_evaluate(void *context, const braid_graph *graph, const braid_node *node,
                                const braid_tensor *const *inputs, braid_tensor **outputs);

#endif
