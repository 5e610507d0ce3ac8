/* AllReduce over the device's group of processes: see graph/ops/group.c. One operand is reduced where the result lies;
 * several are put side by side first, so that they travel as one message. */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/checked.h"
#include "braid/group.h"

static braid_status all_reduce_create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                      braid_prepared_info *info) {
  (void)allocator;
  *state = NULL;
  for (size_t i = 0; node->input_count > 1 && i < node->input_count; i++)
    if (!braid_add_size(info->workspace_bytes, braid_desc_bytes(&node->inputs[i].desc), &info->workspace_bytes))
      return braid_fail(BRAID_OUT_OF_RANGE, "its operands together overflow");
  return BRAID_OK;
}

static void all_reduce_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  for (size_t i = 0; i < node->input_count; i++) outputs[i] = inputs[i];
}

static braid_reduction reduction_of(const braid_node_desc *node) {
  const char *name = braid_attr_string(node->attrs, "reduction", "sum");
  return name[0] == 's' ? BRAID_REDUCE_SUM : name[0] == 'm' ? BRAID_REDUCE_MAX : BRAID_REDUCE_OR;
}

static braid_status run_all_reduce(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  bool alone = node->input_count == 1;
  uint8_t *all = alone ? args->outputs[0] : args->workspace;
  size_t bytes = 0;
  for (size_t i = 0; i < node->input_count; i++) {
    size_t some = braid_desc_bytes(&node->inputs[i].desc);
    if (all + bytes != args->inputs[i]) memcpy(all + bytes, args->inputs[i], some);
    bytes += some;
  }
  braid_dtype dtype = node->inputs[0].desc.dtype;
  braid_status status =
      braid_group_all_reduce(args->group, all, bytes / braid_dtype_size(dtype), dtype, reduction_of(node));
  bytes = 0;
  for (size_t i = 0; !alone && status == BRAID_OK && i < node->input_count; i++) {
    size_t some = braid_desc_bytes(&node->inputs[i].desc);
    if (args->outputs[i]) memcpy(args->outputs[i], all + bytes, some);
    bytes += some;
  }
  return status;
}

static const braid_cpu_kernel kAllReduce = {.create = all_reduce_create, .run = run_all_reduce, .waits = true};

static const braid_kernel kKernels[] = {
    {.op = "AllReduce",
     .name = "all_reduce",
     .layouts = all_reduce_layouts,
     .in_place = 1u << 0,
     .implementation = &kAllReduce},
};

const braid_cpu_table braid_cpu_plain_group = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
