#include "device/kernel_index.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct ranked {
  const braid_kernel *kernel;
  size_t rank;
} ranked;

static int compare(const void *a, const void *b) {
  const ranked *left = a, *right = b;
  int order = strcmp(left->kernel->op, right->kernel->op);
  if (order) return order;
  return left->rank < right->rank ? -1 : 1;
}

braid_status braid_kernel_index_init(braid_kernel_index *index, const braid_allocator *allocator,
                                     const braid_kernel *const *kernels, size_t count) {
  *index = (braid_kernel_index){.count = count, .allocator = allocator};
  ranked *order = braid_zalloc_array(allocator, count, sizeof *order);
  index->kernels = braid_zalloc_array(allocator, count, sizeof *index->kernels);
  braid_status status = order && index->kernels ? BRAID_OK : BRAID_NO_MEMORY;
  for (size_t i = 0; status == BRAID_OK && i < count; i++) {
    if (!kernels[i] || !kernels[i]->op || !kernels[i]->name)
      status = braid_fail(BRAID_INVALID_ARGUMENT, "kernel %zu of the table has no op or no name", i);
    else
      order[i] = (ranked){kernels[i], i};
  }
  if (status == BRAID_OK) {
    if (count) qsort(order, count, sizeof *order, compare);
    for (size_t i = 0; i < count; i++) index->kernels[i] = order[i].kernel;
  } else {
    braid_kernel_index_deinit(index);
  }
  braid_free(allocator, order);
  return status;
}

void braid_kernel_index_deinit(braid_kernel_index *index) {
  braid_free(index->allocator, index->kernels);
  *index = (braid_kernel_index){.allocator = index->allocator};
}

static size_t lower_bound(const braid_kernel_index *index, const char *op) {
  size_t low = 0, high = index->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (strcmp(index->kernels[middle]->op, op) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Kernels of one op stand together: under the node's, or, where it is a program's own that the device has none for,
 * under what stands for all of those. */
static const char *kernel_key(const braid_kernel_index *index, const braid_node_desc *node) {
  size_t first = lower_bound(index, node->op);
  bool has = first < index->count && strcmp(index->kernels[first]->op, node->op) == 0;
  return node->custom && !has ? BRAID_CUSTOM_KERNEL : node->op;
}

static bool all_plain(const braid_node_desc *node) {
  for (size_t i = 0; i < node->input_count; i++)
    if (node->inputs[i].present && node->inputs[i].desc.layout != BRAID_LAYOUT_PLAIN) return false;
  for (size_t i = 0; i < node->output_count; i++)
    if (node->outputs[i].present && node->outputs[i].desc.layout != BRAID_LAYOUT_PLAIN) return false;
  return true;
}

bool braid_kernel_takes(const braid_backend *backend, void *self, const braid_kernel *kernel,
                        const braid_node_desc *node, char *why, size_t why_bytes) {
  why[0] = '\0';
  if (kernel->match && !kernel->match(node, why, why_bytes)) return false;
  if (backend && backend->match && !backend->match(self, kernel, node, why, why_bytes)) return false;
  if (kernel->match || kernel->layouts || (backend && (backend->match || backend->layouts)) || all_plain(node))
    return true;
  snprintf(why, why_bytes, "plain layouts only");
  return false;
}

const braid_kernel *braid_kernel_index_find(const braid_kernel_index *index, const braid_backend *backend, void *self,
                                            const char *owner, const braid_node_desc *node, char *why,
                                            size_t why_bytes) {
  size_t used = 0;
  if (why_bytes) why[0] = '\0';
  const char *key = kernel_key(index, node);
  size_t first = lower_bound(index, key), i = first;
  for (; i < index->count && strcmp(index->kernels[i]->op, key) == 0; i++) {
    const braid_kernel *kernel = index->kernels[i];
    char reason[256];
    if (braid_kernel_takes(backend, self, kernel, node, reason, sizeof reason)) return kernel;
    if (used >= why_bytes) continue;
    int wrote = snprintf(why + used, why_bytes - used, "%s%s: %s", used ? "; " : "", kernel->name,
                         reason[0] ? reason : "does not take this node");
    if (wrote > 0) used += (size_t)wrote;
  }
  if (i == first && why_bytes) snprintf(why, why_bytes, "%s has no kernel for %s", owner, node->op);
  return NULL;
}

size_t braid_kernel_index_visit(const braid_kernel_index *index, const braid_backend *backend, void *self,
                                const braid_node_desc *node,
                                void (*visit)(void *context, const braid_kernel *kernel, const char *why),
                                void *context) {
  const char *key = kernel_key(index, node);
  size_t first = lower_bound(index, key), i = first;
  for (; i < index->count && strcmp(index->kernels[i]->op, key) == 0; i++) {
    char why[256];
    bool takes = braid_kernel_takes(backend, self, index->kernels[i], node, why, sizeof why);
    visit(context, index->kernels[i], takes ? NULL : why);
  }
  return i - first;
}

const braid_kernel *braid_kernel_index_named(const braid_kernel_index *index, const braid_node_desc *node,
                                             const char *name) {
  const char *key = kernel_key(index, node);
  for (size_t i = lower_bound(index, key); i < index->count && strcmp(index->kernels[i]->op, key) == 0; i++)
    if (strcmp(index->kernels[i]->name, name) == 0) return index->kernels[i];
  return NULL;
}
