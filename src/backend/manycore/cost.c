#include "backend/manycore/cost.h"

#include <string.h>

#include "backend/manycore/sw26010.h"
#include "graph/geometry.h"

double braid_manycore_microjoules(double seconds) {
  return seconds * BRAID_SW26010_NODE_WATTS / BRAID_SW26010_GROUPS * 1e6;
}

braid_status braid_manycore_cost_count(const braid_allocator *allocator, const braid_manycore_group *group,
                                       const braid_kernel *kernel, const braid_manycore_plan *plan,
                                       braid_manycore_cost *out) {
  const braid_manycore_kernel *program = kernel->implementation;
  *out = (braid_manycore_cost){0};
  /* Only addresses in it are formed. */
  uint8_t *memory = braid_alloc(allocator, group->scratchpad);
  if (!memory) return BRAID_NO_MEMORY;
  double longest = 0, computing = 0;
  braid_status status = BRAID_OK;
  for (int id = 0; id < group->cores && status == BRAID_OK; id++) {
    braid_manycore_core core;
    braid_manycore_core_begin(&core, group, kernel->name, id, memory, NULL);
    program->run(&core, plan);
    status = core.status;
    if (status != BRAID_OK) status = braid_fail(status, "%s", core.detail);
    double cycles = braid_manycore_core_cycles(&core);
    if (cycles > longest) longest = cycles;
    if (core.account.computed > computing) computing = core.account.computed;
    out->busy += core.account.steps > 0;
    out->macs += core.account.macs;
    out->get_bytes += core.account.get_bytes;
    out->put_bytes += core.account.put_bytes;
    out->steps += core.account.steps;
  }
  braid_free(allocator, memory);
  out->seconds = longest / BRAID_SW26010_HERTZ;
  out->compute_seconds = computing / BRAID_SW26010_HERTZ;
  out->microjoules = braid_manycore_microjoules(out->seconds);
  return status;
}

/* --- the management core -------------------------------------------------------------------------------------------
 */
static double conv_operations(const braid_node_desc *node) {
  const braid_desc *first = &node->inputs[0].desc, *second = &node->inputs[1].desc;
  braid_convolution conv;
  braid_status status = BRAID_UNSUPPORTED;
  if (first->rank < 3 || first->rank > 5) return 0;
  if (strcmp(node->op, "Conv") == 0 || strcmp(node->op, "FusedConv") == 0)
    status = braid_geometry_conv(node->attrs, first, second, &conv);
  else if (strcmp(node->op, "ConvGradInput") == 0)
    status = braid_geometry_conv_grad_input(node->attrs, first, second, &conv);
  else if (strcmp(node->op, "ConvGradFilter") == 0)
    status = braid_geometry_conv_grad_filter(node->attrs, first, second, &conv);
  else if (strcmp(node->op, "ConvTranspose") == 0)
    status = braid_geometry_conv_transpose(node->attrs, first, second, &conv);
  if (status != BRAID_OK) return 0;
  return (double)conv.batch * (double)conv.outputs * (double)braid_window_outputs(&conv.window) *
         (double)(conv.inputs / conv.groups) * (double)braid_window_volume(&conv.window);
}

static double product_operations(const braid_node_desc *node) {
  const braid_desc *a = &node->inputs[0].desc;
  if (strcmp(node->op, "MatMul") != 0 && strcmp(node->op, "Gemm") != 0) return 0;
  int64_t transposed = braid_attr_int(node->attrs, "transA", 0);
  int64_t inner = a->rank < 1 ? 0 : a->rank == 1 ? a->dims[0] : a->dims[a->rank - (transposed ? 2 : 1)];
  return (double)braid_desc_count(&node->outputs[0].desc) * (double)inner;
}

static double pool_operations(const braid_node_desc *node) {
  braid_window window;
  if (strcmp(node->op, "MaxPool") != 0 && strcmp(node->op, "AveragePool") != 0) return 0;
  if (braid_geometry_pool(node->attrs, &node->inputs[0].desc, &window) != BRAID_OK) return 0;
  return (double)braid_desc_count(&node->outputs[0].desc) * (double)braid_window_volume(&window);
}

double braid_manycore_operations(const braid_node_desc *node) {
  if (node->input_count > 1 && node->inputs[0].present && node->inputs[1].present) {
    double operations = conv_operations(node) + product_operations(node);
    if (operations > 0) return operations;
  }
  double most = node->input_count && node->inputs[0].present ? pool_operations(node) : 0;
  for (size_t i = 0; i < node->input_count + node->output_count; i++) {
    const braid_operand *operand = i < node->input_count ? &node->inputs[i] : &node->outputs[i - node->input_count];
    double count = operand->present ? (double)braid_desc_count(&operand->desc) : 0;
    if (count > most) most = count;
  }
  return most;
}

double braid_manycore_management_seconds(const braid_node_desc *node, bool vectors) {
  double bytes = 0;
  for (size_t i = 0; i < node->input_count + node->output_count; i++) {
    const braid_operand *operand = i < node->input_count ? &node->inputs[i] : &node->outputs[i - node->input_count];
    if (operand->present) bytes += (double)braid_desc_bytes(&operand->desc);
  }
  return braid_sw26010_management_seconds(braid_manycore_operations(node), bytes, vectors);
}
