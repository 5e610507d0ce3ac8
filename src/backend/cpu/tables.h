/* The CPU's kernels, collected from their tables. */
#ifndef BRAID_BACKEND_CPU_TABLES_H
#define BRAID_BACKEND_CPU_TABLES_H

#include "backend/cpu/cpu.h"

/* The tables of kernels by oneDNN, best first, up to NULL (onednn/tables.c; none in a core build). */
extern const braid_cpu_table *const braid_cpu_onednn_tables[];
/* All kernels, or the plain references only, best first for each op. The list is freed by the caller (braid_free), the
 * kernels are static. */
BRAID_MUST_CHECK braid_status braid_cpu_list_kernels(const braid_allocator *allocator, bool references_only,
                                                     const braid_kernel ***out, size_t *count);
/* A device is opened, and closed. */
void braid_cpu_enter_libraries(void);
void braid_cpu_leave_libraries(void);
/* What the kernels stand on (braid_device_info.software), and what was not found (lacks). */
void braid_cpu_describe_libraries(braid_device_info *info);
/* The first kernel that takes the node, of those that are no references; NULL: there is none. */
const braid_kernel *braid_cpu_find_fast(const braid_node_desc *node);

#endif
