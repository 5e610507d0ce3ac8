#include "backend/cpu/evaluate.h"

#include "backend/cpu/prepared.h"
#include "backend/cpu/tables.h"
#include "backend/cpu/team.h"
#include "graph/custom.h"

braid_status braid_cpu_evaluator_init(braid_cpu_evaluator *evaluator, const braid_allocator *allocator) {
  *evaluator = (braid_cpu_evaluator){.kernels.allocator = allocator};
  const braid_kernel **list;
  size_t count;
  braid_status status = braid_cpu_list_kernels(allocator, true, &list, &count);
  if (status == BRAID_OK) status = braid_kernel_index_init(&evaluator->kernels, allocator, list, count);
  braid_free(allocator, list);
  return status;
}

void braid_cpu_evaluator_deinit(braid_cpu_evaluator *evaluator) {
  braid_kernel_index_deinit(&evaluator->kernels);
  braid_cpu_team_leave();
}

static void node_describe(const braid_graph *graph, const braid_node *node, const braid_tensor *const *inputs,
                          braid_operand *operands, braid_node_desc *out) {
  for (size_t i = 0; i < node->input_count; i++)
    if (inputs[i])
      operands[i] = (braid_operand){true, *braid_tensor_desc(inputs[i]), braid_tensor_const_data(inputs[i])};
  braid_operand *results = operands + node->input_count;
  for (size_t i = 0; i < node->output_count; i++)
    if (node->outputs[i] >= 0) results[i] = (braid_operand){true, graph->values[node->outputs[i]].desc, NULL};
  *out = (braid_node_desc){.op = node->op->name,
                           .name = node->name,
                           .custom = braid_custom_op_of(node->op),
                           .attrs = &node->attrs,
                           .input_count = node->input_count,
                           .output_count = node->output_count,
                           .inputs = operands,
                           .outputs = results};
}

/* Runs the kernel into new tensors, which the caller gets only if all went well. */
static braid_status prepared_run(const braid_allocator *allocator, braid_cpu_prepared *prepared,
                                 const braid_prepared_info *info, const braid_tensor *const *inputs,
                                 braid_tensor **outputs) {
  const braid_node_desc *node = prepared->node;
  braid_status status = BRAID_OK;
  for (size_t i = 0; i < node->input_count; i++) {
    bool folded = i < 32 && (info->constants_folded >> i & 1);
    prepared->inputs[i] = inputs[i] && !folded ? braid_tensor_const_data(inputs[i]) : NULL;
  }
  for (size_t i = 0; status == BRAID_OK && i < node->output_count; i++) {
    if (!node->outputs[i].present) continue;
    status = braid_tensor_create(allocator, &node->outputs[i].desc, &outputs[i]);
    if (status == BRAID_OK) prepared->outputs[i] = braid_tensor_data(outputs[i]);
  }
  void *workspace = NULL;
  if (status == BRAID_OK && info->workspace_bytes) {
    workspace = braid_alloc(allocator, info->workspace_bytes);
    if (!workspace) status = BRAID_NO_MEMORY;
  }
  if (status == BRAID_OK) status = braid_cpu_run(prepared, workspace);
  braid_free(allocator, workspace);
  for (size_t i = 0; status != BRAID_OK && i < node->output_count; i++) {
    braid_tensor_release(outputs[i]);
    outputs[i] = NULL;
  }
  return status;
}

braid_status braid_cpu_evaluate(void *context, const braid_graph *graph, const braid_node *node,
                                const braid_tensor *const *inputs, braid_tensor **outputs) {
  const braid_cpu_evaluator *evaluator = context;
  const braid_allocator *allocator = graph->allocator;
  for (size_t i = 0; i < node->output_count; i++) outputs[i] = NULL;
  braid_operand *operands = braid_zalloc_array(allocator, node->input_count + node->output_count, sizeof *operands);
  if (!operands) return BRAID_NO_MEMORY;
  braid_node_desc desc;
  node_describe(graph, node, inputs, operands, &desc);
  char why[512];
  const braid_kernel *kernel =
      braid_kernel_index_find(&evaluator->kernels, NULL, NULL, "the CPU", &desc, why, sizeof why);
  braid_cpu_prepared *prepared = NULL;
  braid_prepared_info info;
  braid_status status =
      kernel ? braid_cpu_prepare(allocator, kernel, &desc, &prepared, &info) : braid_fail(BRAID_UNSUPPORTED, "%s", why);
  if (status == BRAID_OK) status = prepared_run(allocator, prepared, &info, inputs, outputs);
  braid_cpu_discard(prepared);
  braid_free(allocator, operands);
  return status;
}
