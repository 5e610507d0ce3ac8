/* Unique. */
#include "graph/unique.h"

#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/checked.h"

static void copy_list(const braid_node_desc *node, const braid_cpu_args *args, size_t output, const int64_t *list) {
  if (output >= node->output_count || !node->outputs[output].present) return;
  size_t bytes = braid_desc_bytes(&node->outputs[output].desc);
  if (bytes) memcpy(args->outputs[output], list, bytes);
}

static braid_status run_unique(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const braid_desc *x = &node->inputs[0].desc;
  braid_unique u;
  (void)state;
  braid_unique_init(x, args->inputs[0], node->attrs, &u);
  int64_t *room = args->workspace, *first = room + 2 * u.size, *number = first + u.size, *counts = number + u.size;
  int64_t found = braid_unique_find(&u, room, first, number, counts);
  size_t bytes = (size_t)u.inner * braid_dtype_size(x->dtype);
  for (int64_t o = 0; node->outputs[0].present && bytes && o < u.outer; o++)
    for (int64_t i = 0; i < found; i++)
      memcpy((char *)args->outputs[0] + (size_t)(o * found + i) * bytes,
             (const char *)args->inputs[0] + (size_t)(o * u.size + first[i]) * bytes, bytes);
  copy_list(node, args, 1, first);
  copy_list(node, args, 2, number);
  copy_list(node, args, 3, counts);
  return BRAID_OK;
}

static braid_status create_unique(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                  braid_prepared_info *info) {
  braid_unique u;
  (void)allocator;
  *state = NULL;
  braid_unique_init(&node->inputs[0].desc, NULL, node->attrs, &u);
  if (!braid_mul_size((size_t)u.size, 5 * sizeof(int64_t), &info->workspace_bytes))
    return braid_fail(BRAID_OUT_OF_RANGE, "its workspace overflows");
  return BRAID_OK;
}

static const braid_cpu_kernel kUnique = {.create = create_unique, .run = run_unique};

static const braid_kernel kKernels[] = {
    {.op = "Unique", .name = "ref_unique", .implementation = &kUnique},
};

extern const braid_cpu_table braid_cpu_plain_unique;
const braid_cpu_table braid_cpu_plain_unique = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
