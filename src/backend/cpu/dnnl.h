/* oneDNN for kernels: a short program of primitives over the operands of one node.
 *
 * A kernel's create builds the program: memories (where they lie: an operand, the workspace, or memory of the program's
 * own such as packed constants) and steps (a primitive with its arguments). Its run then only sets addresses and
 * executes. Primitives come from oneDNN's own cache, so equal ones are built once per process. */
#ifndef BRAID_BACKEND_CPU_DNNL_H
#define BRAID_BACKEND_CPU_DNNL_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/onednn.h"

typedef struct braid_dnnl braid_dnnl;
enum { BRAID_DNNL_MEMORIES = 16, BRAID_DNNL_STEPS = 8, BRAID_DNNL_ARGS = 12 };

typedef enum braid_dnnl_place {
  BRAID_DNNL_INPUT,
  BRAID_DNNL_OUTPUT,
  BRAID_DNNL_WORKSPACE,
  BRAID_DNNL_OWN
} braid_dnnl_place;

/* The engine of this process; NULL if oneDNN cannot make one. */
dnnl_engine_t braid_dnnl_engine(void);

BRAID_MUST_CHECK braid_status braid_dnnl_create(const braid_allocator *allocator, braid_dnnl **out);
/* Fits braid_cpu_kernel.destroy. NULL is allowed. */
void braid_dnnl_destroy(const braid_allocator *allocator, void *program);

/* Adds a memory; *out is its number. `index` is the operand's for INPUT and OUTPUT. WORKSPACE room is found by the
 * program. OWN memory is allocated now; it is for braid_dnnl_pack to fill. */
BRAID_MUST_CHECK braid_status braid_dnnl_memory(braid_dnnl *program, const dnnl_memory_desc_t *desc,
                                                braid_dnnl_place place, size_t index, int *out);
/* Adds a step: takes over `primitive_desc`. args: pairs (DNNL_ARG_..., memory number). The primitive's scratchpad goes
 * to the workspace (the descriptor must have been made with scratchpad mode user). */
typedef struct braid_dnnl_arg {
  int arg, memory;
} braid_dnnl_arg;
BRAID_MUST_CHECK braid_status braid_dnnl_step(braid_dnnl *program, dnnl_primitive_desc_t primitive_desc,
                                              const braid_dnnl_arg *args, size_t count);
/* Adds a conversion from one memory to another. */
BRAID_MUST_CHECK braid_status braid_dnnl_reorder(braid_dnnl *program, int from, int to);
/* Converts `data` (described by `from`) into an OWN memory now: packing constants. */
BRAID_MUST_CHECK braid_status braid_dnnl_pack(braid_dnnl *program, const dnnl_memory_desc_t *from, const void *data,
                                              int own);
/* Adds a step that copies input `from` to output `to` (same bytes) unless they are the same memory. */
BRAID_MUST_CHECK braid_status braid_dnnl_copy(braid_dnnl *program, size_t from, size_t to, size_t bytes);
size_t braid_dnnl_workspace(const braid_dnnl *program);

/* Fits braid_cpu_kernel.run. */
braid_status braid_dnnl_run(const braid_node_desc *node, void *program, const braid_cpu_args *args);

/* --- descriptions --------------------------------------------------------------------------------------------------
 */
/* oneDNN's description of an operand as it lies in memory. False for types, ranks or layouts it does not have. Rank 0
 * becomes one element. */
bool braid_dnnl_desc(const braid_desc *desc, dnnl_memory_desc_t *out);
/* The same shape with any format. */
bool braid_dnnl_desc_any(const braid_desc *desc, dnnl_memory_desc_t *out);
/* Plain row-major over given dimensions, float32. */
void braid_dnnl_plain(int rank, const int64_t *dims, dnnl_memory_desc_t *out);
/* Attributes with user scratchpad and optional activation (attributes `activation`, `activation_params` of the node)
 * after an optional sum with what stands in the destination. NULL and a status on failure. */
BRAID_MUST_CHECK braid_status braid_dnnl_attributes(const braid_node_desc *node, bool sum, dnnl_primitive_attr_t *out);
/* Can the node's activation be expressed (or is there none)? */
bool braid_dnnl_has_activation(const braid_node_desc *node);
/* Makes a primitive descriptor; UNSUPPORTED if oneDNN has no implementation. attr may be NULL (user scratchpad). */
BRAID_MUST_CHECK braid_status braid_dnnl_describe(const void *op_desc, dnnl_primitive_attr_t attr,
                                                  dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out);
/* Is it oneDNN's slow reference or plain-loop implementation? */
bool braid_dnnl_is_reference(dnnl_primitive_desc_t primitive_desc);
/* All present operands float32? (why: filled if not) */
bool braid_dnnl_all_f32(const braid_node_desc *node, char *why, size_t why_bytes);
braid_status braid_dnnl_status(dnnl_status_t status, const char *what);

#endif
