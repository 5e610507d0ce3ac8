/* The activation of a fused node (attributes `activation` and `activation_params`) over float32 numbers just computed,
 * while they are in the cache, by the same loops as the op that stands alone. */
#ifndef BRAID_BACKEND_CPU_SPANS_ACTIVATION_H
#define BRAID_BACKEND_CPU_SPANS_ACTIVATION_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/spans/spans.h"

typedef struct braid_activation {
  const braid_span_entry *entry; /* NULL: none */
  double params[2];
  float bounds[2]; /* of Clip */
} braid_activation;

/* False: the node has one that is not known. */
bool braid_activation_read(const braid_node_desc *node, braid_activation *out);
void braid_activation_run(const braid_activation *activation, float *x, int64_t count);

#endif
