#include "backend/cpu/prepared.h"

braid_status braid_cpu_prepare(const braid_allocator *allocator, const braid_kernel *kernel,
                               const braid_node_desc *node, braid_cpu_prepared **out, braid_prepared_info *info) {
  *out = NULL;
  *info = (braid_prepared_info){0};
  braid_cpu_prepared *prepared = braid_zalloc(allocator, sizeof *prepared);
  if (!prepared) return BRAID_NO_MEMORY;
  *prepared = (braid_cpu_prepared){.allocator = allocator, .kernel = kernel->implementation, .node = node};
  prepared->inputs = braid_zalloc_array(allocator, node->input_count, sizeof *prepared->inputs);
  prepared->outputs = braid_zalloc_array(allocator, node->output_count, sizeof *prepared->outputs);
  braid_status status = prepared->inputs && prepared->outputs ? BRAID_OK : BRAID_NO_MEMORY;
  if (status == BRAID_OK && prepared->kernel->create)
    status = prepared->kernel->create(allocator, node, &prepared->state, info);
  if (status == BRAID_OK) {
    *out = prepared;
  } else {
    prepared->state = NULL; /* a failed create has undone its own work */
    braid_cpu_discard(prepared);
  }
  return status;
}

void braid_cpu_discard(braid_cpu_prepared *prepared) {
  if (!prepared) return;
  if (prepared->state) {
    if (prepared->kernel->destroy)
      prepared->kernel->destroy(prepared->allocator, prepared->state);
    else
      braid_free(prepared->allocator, prepared->state);
  }
  braid_free(prepared->allocator, prepared->inputs);
  braid_free(prepared->allocator, prepared->outputs);
  braid_free(prepared->allocator, prepared);
}

braid_status braid_cpu_run(braid_cpu_prepared *prepared, void *workspace) {
  braid_cpu_args args = {prepared->inputs, prepared->outputs, workspace};
  return prepared->kernel->run(prepared->node, prepared->state, &args);
}
