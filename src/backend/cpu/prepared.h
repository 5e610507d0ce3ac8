/* A CPU kernel made ready for one node: the kernel's state and room for its arguments. */
#ifndef BRAID_BACKEND_CPU_PREPARED_H
#define BRAID_BACKEND_CPU_PREPARED_H

#include "backend/cpu/cpu.h"

typedef struct braid_cpu_prepared {
  const braid_allocator *allocator;
  const braid_cpu_kernel *kernel;
  const braid_node_desc *node;
  bool empty; /* all outputs are: there is nothing to run, and no state */
  void *state;
  const void **inputs; /* input_count, filled before each run, but for those folded */
  void **outputs;      /* output_count */
  braid_query query;
  struct braid_group *group;    /* of the device; NULL: none */
  void *folded[BRAID_PACKINGS]; /* packed constants of its own; NULL: they come with each run */
} braid_cpu_prepared;

BRAID_MUST_CHECK braid_status braid_cpu_prepare(const braid_allocator *allocator, const braid_kernel *kernel,
                                                const braid_node_desc *node, braid_cpu_prepared **out,
                                                braid_prepared_info *info);
void braid_cpu_discard(braid_cpu_prepared *prepared); /* NULL is allowed */
BRAID_MUST_CHECK braid_status braid_cpu_query(const braid_allocator *allocator, const braid_kernel *kernel,
                                              const braid_node_desc *node, braid_query *out);
/* With inputs and outputs filled in. */
braid_status braid_cpu_run(braid_cpu_prepared *prepared, void *workspace);

#endif
