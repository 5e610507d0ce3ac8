#include "backend/cpu/tables.h"

#include <stdio.h>
#include <string.h>

/* One line per table, `braid_cpu_<folder>_<name>` in <folder>/<name>.c. A kernel earlier in the list is preferred;
 * those of oneDNN stand between the two lists (none in a build without it). The references also fold constants. */
#define BRAID_CPU_FAST_TABLES(X)                                                                                       \
  X(blocked_pool)                                                                                                      \
  X(blocked_bias)                                                                                                      \
  X(blocked_norm)                                                                                                      \
  X(integer_conv)                                                                                                      \
  X(integer_digest)                                                                                                    \
  X(integer_filter)                                                                                                    \
  X(integer_norm)                                                                                                      \
  X(integer_pointwise)                                                                                                 \
  X(integer_pool)                                                                                                      \
  X(quantized_quantize)                                                                                                \
  X(quantized_qlinear)                                                                                                 \
  X(quantized_pointwise)                                                                                               \
  X(quantized_pool)                                                                                                    \
  X(quantized_products)                                                                                                \
  X(winograd_conv)                                                                                                     \
  X(widened)
#define BRAID_CPU_REFERENCE_TABLES(X)                                                                                  \
  X(loops_elementwise)                                                                                                 \
  X(loops_reduce)                                                                                                      \
  X(loops_select)                                                                                                      \
  X(movement_layout)                                                                                                   \
  X(movement_movement)                                                                                                 \
  X(movement_gather)                                                                                                   \
  X(movement_resize)                                                                                                   \
  X(recurrent_recurrent)                                                                                               \
  X(recurrent_gradient)                                                                                                \
  X(plain_quantize)                                                                                                    \
  X(plain_qlinear)                                                                                                     \
  X(movement_shape)                                                                                                    \
  X(loops_conv)                                                                                                        \
  X(plain_pool)                                                                                                        \
  X(loops_batch_norm)                                                                                                  \
  X(loops_norm)                                                                                                        \
  X(loops_loss)                                                                                                        \
  X(plain_loss_scale)                                                                                                  \
  X(plain_optimizer)                                                                                                   \
  X(products_matmul)                                                                                                   \
  X(loops_softmax)                                                                                                     \
  X(plain_dropout)                                                                                                     \
  X(plain_group)                                                                                                       \
  X(plain_integer)                                                                                                     \
  X(plain_integer_window)                                                                                              \
  X(plain_integer_norm)                                                                                                \
  X(plain_grid)                                                                                                        \
  X(plain_recurrence)                                                                                                  \
  X(plain_determinant)                                                                                                 \
  X(plain_fourier)                                                                                                     \
  X(plain_roi)                                                                                                         \
  X(plain_unique)                                                                                                      \
  X(plain_suppression)                                                                                                 \
  X(custom)

#define BRAID_CPU_TABLE(name) extern const braid_cpu_table braid_cpu_##name;
BRAID_CPU_FAST_TABLES(BRAID_CPU_TABLE)
BRAID_CPU_REFERENCE_TABLES(BRAID_CPU_TABLE)
#undef BRAID_CPU_TABLE

#define BRAID_CPU_TABLE(name) &braid_cpu_##name,
static const braid_cpu_table *const kFast[] = {BRAID_CPU_FAST_TABLES(BRAID_CPU_TABLE) NULL};
static const braid_cpu_table *const kReferences[] = {BRAID_CPU_REFERENCE_TABLES(BRAID_CPU_TABLE) NULL};
#undef BRAID_CPU_TABLE

static bool is_available(const braid_cpu_table *table) {
  return !table->library || table->library->load();
}

void braid_cpu_describe_libraries(braid_device_info *info) {
  info->software[0] = info->lacks[0] = '\0';
  for (const braid_cpu_table *const *table = braid_cpu_onednn_tables; *table; table++) {
    const braid_cpu_library *library = (*table)->library;
    if (library && library->load())
      snprintf(info->software, sizeof info->software, "%s", library->describe());
    else if (library)
      snprintf(info->lacks, sizeof info->lacks, "%s", library->describe());
  }
}

/* The libraries, each once: tables of one library stand together. */
static const braid_cpu_library *next_library(const braid_cpu_table *const **table) {
  const braid_cpu_library *library = **table ? (**table)->library : NULL;
  while (**table && (**table)->library == library) (*table)++;
  return library;
}

void braid_cpu_enter_libraries(void) {
  const braid_cpu_table *const *table = braid_cpu_onednn_tables;
  for (const braid_cpu_library *library; (library = next_library(&table));) library->enter();
}

void braid_cpu_leave_libraries(void) {
  const braid_cpu_table *const *table = braid_cpu_onednn_tables;
  for (const braid_cpu_library *library; (library = next_library(&table));) library->leave();
}

static const braid_kernel *find_in(const braid_cpu_table *const *tables, const braid_node_desc *node) {
  char why[256];
  for (; *tables; tables++) {
    if (*tables == &braid_cpu_widened || !is_available(*tables)) continue;
    for (size_t i = 0; i < (*tables)->count; i++) {
      const braid_kernel *kernel = &(*tables)->kernels[i];
      if (strcmp(kernel->op, node->op) == 0 && (!kernel->match || kernel->match(node, why, sizeof why))) return kernel;
    }
  }
  return NULL;
}

const braid_kernel *braid_cpu_find_fast(const braid_node_desc *node) {
  const braid_kernel *kernel = find_in(kFast, node);
  return kernel ? kernel : find_in(braid_cpu_onednn_tables, node);
}

static size_t count_kernels(const braid_cpu_table *const *tables) {
  size_t count = 0;
  for (; *tables; tables++) count += is_available(*tables) ? (*tables)->count : 0;
  return count;
}

static size_t append(const braid_cpu_table *const *tables, const braid_kernel **list, size_t used) {
  for (; *tables; tables++)
    for (size_t i = 0; i < (*tables)->count && is_available(*tables); i++) list[used++] = &(*tables)->kernels[i];
  return used;
}

braid_status braid_cpu_list_kernels(const braid_allocator *allocator, bool references_only, const braid_kernel ***out,
                                    size_t *count) {
  *count = 0;
  size_t capacity = (references_only ? 0 : count_kernels(kFast) + count_kernels(braid_cpu_onednn_tables)) +
                    count_kernels(kReferences);
  const braid_kernel **list = braid_zalloc_array(allocator, capacity, sizeof *list);
  *out = list;
  if (!list) return BRAID_NO_MEMORY;
  if (!references_only) {
    *count = append(kFast, list, *count);
    *count = append(braid_cpu_onednn_tables, list, *count);
  }
  *count = append(kReferences, list, *count);
  return BRAID_OK;
}
