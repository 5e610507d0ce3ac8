#include "backend/cpu/tables.h"

#include <stdatomic.h>
#include <stdio.h>

#include "backend/cpu/custom.h"
#include "base/log.h"
#include "graph/custom.h"

/* One line per table, `braid_cpu_<name>` in <name>.c. A kernel earlier in the list is preferred. Those of
 * oneDNN, dnnl_*.c, come in between (dnnl_tables.def, empty in a build without it). The references also fold constants.
 */
#define BRAID_CPU_FAST_TABLES(X) X(fast_pool) X(fast_bias) X(fast_norm) X(fast_quantize) X(fast_integer)
#define BRAID_CPU_REFERENCE_TABLES(X)                                                                                  \
  X(ref_elementwise)                                                                                                   \
  X(ref_reduce)                                                                                                        \
  X(ref_select)                                                                                                        \
  X(ref_layout)                                                                                                        \
  X(ref_movement)                                                                                                      \
  X(ref_gather)                                                                                                        \
  X(ref_resize)                                                                                                        \
  X(ref_recurrent)                                                                                                     \
  X(ref_recurrent_grad)                                                                                                \
  X(ref_quantize)                                                                                                      \
  X(ref_shape)                                                                                                         \
  X(ref_conv)                                                                                                          \
  X(ref_pool)                                                                                                          \
  X(ref_batch_norm)                                                                                                    \
  X(ref_norm)                                                                                                          \
  X(ref_loss)                                                                                                          \
  X(ref_optimizer)                                                                                                     \
  X(ref_matmul)                                                                                                        \
  X(ref_softmax)                                                                                                       \
  X(ref_dropout)

#define BRAID_CPU_TABLE(name) extern const braid_cpu_table braid_cpu_##name;
BRAID_CPU_FAST_TABLES(BRAID_CPU_TABLE)
#include "dnnl_tables.def"
BRAID_CPU_REFERENCE_TABLES(BRAID_CPU_TABLE)
#undef BRAID_CPU_TABLE

#define BRAID_CPU_TABLE(name) &braid_cpu_##name,
static const braid_cpu_table *const kFast[] = {BRAID_CPU_FAST_TABLES(BRAID_CPU_TABLE)
#include "dnnl_tables.def"
                                                   NULL};
static const braid_cpu_table *const kReferences[] = {BRAID_CPU_REFERENCE_TABLES(BRAID_CPU_TABLE) NULL};
#undef BRAID_CPU_TABLE

static bool is_available(const braid_cpu_table *table) {
  return !table->library || table->library->load();
}

/* Once in a process: the work is done all the same, many times slower. */
static void warn_of_slowness(void) {
  static atomic_flag said = ATOMIC_FLAG_INIT;
  for (const braid_cpu_table *const *table = kFast; *table; table++) {
    if (is_available(*table) || atomic_flag_test_and_set(&said)) continue;
    braid_log_write(BRAID_LOG_WARNING,
                    "convolutions and matrix products run on plain kernels, some ten times slower: %s",
                    (*table)->library->describe());
  }
}

void braid_cpu_describe_libraries(braid_device_info *info) {
  info->software[0] = info->lacks[0] = '\0';
  for (const braid_cpu_table *const *table = kFast; *table; table++) {
    const braid_cpu_library *library = (*table)->library;
    if (library && library->load())
      snprintf(info->software, sizeof info->software, "%s", library->describe());
    else if (library)
      snprintf(info->lacks, sizeof info->lacks, "%s", library->describe());
  }
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
  size_t custom = braid_custom_op_count();
  size_t capacity = (references_only ? 0 : count_kernels(kFast)) + count_kernels(kReferences) + custom;
  const braid_kernel **list = braid_zalloc_array(allocator, capacity, sizeof *list);
  *out = list;
  if (!list) return BRAID_NO_MEMORY;
  if (!references_only) {
    warn_of_slowness();
    *count = append(kFast, list, *count);
  }
  *count = append(kReferences, list, *count);
  for (size_t i = 0; i < custom; i++) list[(*count)++] = braid_cpu_custom_kernel(i);
  return BRAID_OK;
}
