#include "backend/cpu/prepared.h"

#include "base/try.h"

static bool makes_nothing(const braid_node_desc *node) {
  for (size_t i = 0; i < node->output_count; i++)
    if (node->outputs[i].present && braid_desc_count(&node->outputs[i].desc) != 0) return false;
  return true;
}

static braid_status prepared_create(const braid_allocator *allocator, const braid_kernel *kernel,
                                    const braid_node_desc *node, braid_cpu_prepared **out) {
  *out = NULL;
  braid_cpu_prepared *prepared = braid_zalloc(allocator, sizeof *prepared);
  if (!prepared) return BRAID_NO_MEMORY;
  *prepared = (braid_cpu_prepared){.allocator = allocator, .kernel = kernel->implementation, .node = node};
  prepared->empty = prepared->kernel->moves && makes_nothing(node);
  prepared->inputs = braid_zalloc_array(allocator, node->input_count, sizeof *prepared->inputs);
  prepared->outputs = braid_zalloc_array(allocator, node->output_count, sizeof *prepared->outputs);
  braid_status status = prepared->inputs && prepared->outputs ? BRAID_OK : BRAID_NO_MEMORY;
  braid_prepared_info info = {0};
  if (status == BRAID_OK && prepared->kernel->create && !prepared->empty)
    status = prepared->kernel->create(allocator, node, &prepared->state, &info);
  if (status != BRAID_OK) {
    prepared->state = NULL; /* a failed create has undone its own work */
    braid_cpu_discard(prepared);
    return status;
  }
  prepared->query.workspace_bytes = info.workspace_bytes;
  if (prepared->kernel->list_packings && !prepared->empty)
    prepared->kernel->list_packings(prepared->state, &prepared->query);
  *out = prepared;
  return BRAID_OK;
}

/* Packs the constants into memory of the kernel's own, for callers that do not share them. */
static braid_status prepared_fold(braid_cpu_prepared *prepared, braid_prepared_info *info) {
  const braid_node_desc *node = prepared->node;
  for (uint32_t i = 0; i < prepared->query.packing_count; i++) {
    const braid_packing *packing = &prepared->query.packings[i];
    prepared->folded[i] = braid_alloc(prepared->allocator, packing->bytes);
    if (!prepared->folded[i]) return BRAID_NO_MEMORY;
    BRAID_TRY(prepared->kernel->pack(node, prepared->state, packing->input, node->inputs[packing->input].constant,
                                     prepared->folded[i]));
    info->constants_folded |= 1u << packing->input;
  }
  return BRAID_OK;
}

braid_status braid_cpu_prepare(const braid_allocator *allocator, const braid_kernel *kernel,
                               const braid_node_desc *node, braid_cpu_prepared **out, braid_prepared_info *info) {
  *info = (braid_prepared_info){0};
  BRAID_TRY(prepared_create(allocator, kernel, node, out));
  info->workspace_bytes = (*out)->query.workspace_bytes;
  if ((*out)->empty) return BRAID_OK;
  braid_status status = (*out)->kernel->finish ? (*out)->kernel->finish((*out)->state) : BRAID_OK;
  if (status == BRAID_OK && !node->packed) status = prepared_fold(*out, info);
  if (status == BRAID_OK) return BRAID_OK;
  braid_cpu_discard(*out);
  *out = NULL;
  return status;
}

braid_status braid_cpu_query(const braid_allocator *allocator, const braid_kernel *kernel, const braid_node_desc *node,
                             braid_query *out) {
  braid_cpu_prepared *prepared;
  BRAID_TRY(prepared_create(allocator, kernel, node, &prepared));
  *out = prepared->query;
  braid_cpu_discard(prepared);
  return BRAID_OK;
}

void braid_cpu_discard(braid_cpu_prepared *prepared) {
  if (!prepared) return;
  if (prepared->state) {
    if (prepared->kernel->destroy)
      prepared->kernel->destroy(prepared->allocator, prepared->state);
    else
      braid_free(prepared->allocator, prepared->state);
  }
  for (uint32_t i = 0; i < BRAID_PACKINGS; i++) braid_free(prepared->allocator, prepared->folded[i]);
  braid_free(prepared->allocator, prepared->inputs);
  braid_free(prepared->allocator, prepared->outputs);
  braid_free(prepared->allocator, prepared);
}

/* Where what has no bytes lies, since kernels form addresses in all that they are given. */
static _Alignas(64) char nothing[64];

static void *place_of(const braid_operand *operand, const void *given) {
  bool empty = !given && operand->present && braid_desc_count(&operand->desc) == 0;
  return empty ? nothing : (void *)given;
}

braid_status braid_cpu_run(braid_cpu_prepared *prepared, void *workspace) {
  const braid_node_desc *node = prepared->node;
  if (prepared->empty) return BRAID_OK;
  for (uint32_t i = 0; i < prepared->query.packing_count; i++)
    if (prepared->folded[i]) prepared->inputs[prepared->query.packings[i].input] = prepared->folded[i];
  for (size_t i = 0; i < node->input_count; i++) prepared->inputs[i] = place_of(&node->inputs[i], prepared->inputs[i]);
  for (size_t i = 0; i < node->output_count; i++)
    prepared->outputs[i] = place_of(&node->outputs[i], prepared->outputs[i]);
  braid_cpu_args args = {prepared->inputs, prepared->outputs, workspace ? workspace : nothing, prepared->group};
  return prepared->kernel->run(node, prepared->state, &args);
}
