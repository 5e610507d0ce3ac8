/* The kernel of ops of the program (braid/custom.h). */
#include "braid/custom.h"
#include "backend/cpu/cpu.h"
#include "base/checked.h"
#include "base/detail.h"
#include "device/kernel_index.h"

/* Arrays for the arguments of compute, so that a run allocates nothing. */
typedef struct state {
  const braid_custom_op *op;
  braid_custom_array arrays[]; /* inputs, then outputs */
} state;

static braid_status custom_create(const braid_allocator *allocator, const braid_node_desc *node, void **out,
                                  braid_prepared_info *info) {
  (void)info;
  *out = NULL;
  size_t count = node->input_count + node->output_count, bytes;
  if (!braid_mul_size(count, sizeof(braid_custom_array), &bytes) || !braid_add_size(bytes, sizeof(state), &bytes)) {
    (void)braid_refuse_memory(count, sizeof(braid_custom_array));
    return BRAID_NO_MEMORY;
  }
  state *made = braid_zalloc(allocator, bytes);
  if (!made) return BRAID_NO_MEMORY;
  made->op = node->custom;
  for (size_t i = 0; i < count; i++) {
    const braid_operand *operand = i < node->input_count ? &node->inputs[i] : &node->outputs[i - node->input_count];
    if (operand->present) made->arrays[i].desc = &operand->desc;
  }
  *out = made;
  return BRAID_OK;
}

static braid_status custom_run(const braid_node_desc *node, void *context, const braid_cpu_args *args) {
  state *s = context;
  braid_custom_array *outputs = s->arrays + node->input_count;
  for (size_t i = 0; i < node->input_count; i++) s->arrays[i].data = (void *)(uintptr_t)args->inputs[i];
  for (size_t i = 0; i < node->output_count; i++) outputs[i].data = args->outputs[i];
  braid_clear_detail();
  return s->op->compute(node->attrs, s->arrays, node->input_count, outputs, node->output_count);
}

static const braid_cpu_kernel kCustom = {.create = custom_create, .run = custom_run};

static const braid_kernel kKernels[] = {{.op = BRAID_CUSTOM_KERNEL, .name = "custom", .implementation = &kCustom}};

extern const braid_cpu_table braid_cpu_custom;
const braid_cpu_table braid_cpu_custom = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
