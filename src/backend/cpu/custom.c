#include "backend/cpu/custom.h"

#include <pthread.h>
#include <string.h>

#include "base/checked.h"
#include "base/detail.h"
#include "graph/custom.h"

/* Arrays for the arguments of compute, so that a run allocates nothing. */
typedef struct state {
  const braid_custom_op *op;
  braid_custom_array arrays[]; /* inputs, then outputs */
} state;

static const braid_custom_op *find(const char *name) {
  for (size_t i = 0; i < braid_custom_op_count(); i++)
    if (strcmp(braid_custom_op_at(i)->name, name) == 0) return braid_custom_op_at(i);
  return NULL;
}

static braid_status create(const braid_allocator *allocator, const braid_node_desc *node, void **out,
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
  made->op = find(node->op);
  for (size_t i = 0; i < count; i++) {
    const braid_operand *operand = i < node->input_count ? &node->inputs[i] : &node->outputs[i - node->input_count];
    if (operand->present) made->arrays[i].desc = &operand->desc;
  }
  *out = made;
  return BRAID_OK;
}

static braid_status run(const braid_node_desc *node, void *context, const braid_cpu_args *args) {
  state *s = context;
  braid_custom_array *outputs = s->arrays + node->input_count;
  for (size_t i = 0; i < node->input_count; i++) s->arrays[i].data = (void *)(uintptr_t)args->inputs[i];
  for (size_t i = 0; i < node->output_count; i++) outputs[i].data = args->outputs[i];
  braid_clear_detail();
  return s->op->compute(node->attrs, s->arrays, node->input_count, outputs, node->output_count);
}

static const braid_cpu_kernel kCustom = {.create = create, .run = run};

const braid_kernel *braid_cpu_custom_kernel(size_t index) {
  static braid_kernel kernels[BRAID_MAX_CUSTOM_OPS];
  static pthread_mutex_t filling = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&filling);
  braid_kernel *kernel = &kernels[index];
  if (!kernel->op)
    *kernel = (braid_kernel){.op = braid_custom_op_at(index)->name, .name = "custom", .implementation = &kCustom};
  pthread_mutex_unlock(&filling);
  return kernel;
}
