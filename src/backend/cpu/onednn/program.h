/* oneDNN for kernels: a short program of primitives over the operands of one node.
 *
 * A kernel's create builds the program: memories (where they lie: an operand, a packed constant, the workspace) and
 * steps (a primitive with its arguments). finish makes the primitives, and run only sets addresses and executes.
 * Primitives come from oneDNN's own cache, so equal ones are built once per process.
 *
 * Results do not depend on the number of threads, which oneDNN alone does not promise: it divides sums among threads,
 * and chooses implementations and blocks by their number. So products and filter gradients are made of pieces, whose
 * number follows from shapes: each a primitive for one thread, side by side with others, and sums of pieces are taken
 * in order. Convolutions and input gradients run with all threads where an implementation divides only outputs. */
#ifndef BRAID_BACKEND_CPU_ONEDNN_PROGRAM_H
#define BRAID_BACKEND_CPU_ONEDNN_PROGRAM_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/onednn/describe.h"
#include "backend/cpu/spans/activation.h"

typedef struct braid_dnnl braid_dnnl;
enum { BRAID_DNNL_ARGS = 12 };

typedef enum braid_dnnl_place {
  BRAID_DNNL_INPUT,
  BRAID_DNNL_OUTPUT,
  BRAID_DNNL_WORKSPACE,
  BRAID_DNNL_PACKED /* part of an input's packed form: made by braid_dnnl_packed alone */
} braid_dnnl_place;

BRAID_MUST_CHECK braid_status braid_dnnl_create(const braid_allocator *allocator, braid_dnnl **out);
/* Fits braid_cpu_kernel.destroy. NULL is allowed. */
void braid_dnnl_destroy(const braid_allocator *allocator, void *program);

/* Adds a memory; *out is its number. `index` is the operand's for INPUT and OUTPUT. WORKSPACE room is found by the
 * program. */
BRAID_MUST_CHECK braid_status braid_dnnl_memory(braid_dnnl *program, const braid_md *desc, braid_dnnl_place place,
                                                size_t index, int *out);
/* Adds a step, which retains its description. args: pairs (DNNL_ARG_..., memory number). The primitive's scratchpad
 * goes to the workspace. */
typedef struct braid_dnnl_arg {
  int arg, memory;
} braid_dnnl_arg;
BRAID_MUST_CHECK braid_status braid_dnnl_step(braid_dnnl *program, const braid_description *description,
                                              const braid_dnnl_arg *args, size_t count);
/* Adds a memory that is part of another (not PACKED), from byte `offset` on. */
BRAID_MUST_CHECK braid_status braid_dnnl_part(braid_dnnl *program, int whole, const braid_md *desc, size_t offset,
                                              int *out);
/* The node's activation, if it has one, goes with the step just added, whose result is memory `result`: it is in the
 * primitive, and `unfused` describes an interchangeable one without it, or (NULL) it follows. */
BRAID_MUST_CHECK braid_status braid_dnnl_activate(braid_dnnl *program, const braid_node_desc *node, int result,
                                                  const braid_description *unfused);
/* Steps in between run side by side, each on one thread; they were described by braid_describe_single. */
void braid_dnnl_begin_group(braid_dnnl *program);
void braid_dnnl_end_group(braid_dnnl *program);
/* Adds a step that adds `count` float32 parts of `bytes`, which follow one another from memory `parts` on, in order;
 * the sum goes to memory `to`, which may be `parts`. */
BRAID_MUST_CHECK braid_status braid_dnnl_sum(braid_dnnl *program, int parts, size_t bytes, size_t count, int to);
/* Adds a conversion from one memory to another. */
BRAID_MUST_CHECK braid_status braid_dnnl_reorder(braid_dnnl *program, int from, int to);
/* Adds a memory that holds a part of constant `input`, which is described by `from` and begins at byte `offset`,
 * converted to the weights that `description`, which is retained, wants. All such parts, one after another, are the
 * input's packed form; a program has one such input.
 */
BRAID_MUST_CHECK braid_status braid_dnnl_packed(braid_dnnl *program, uint32_t input, const braid_md *from,
                                                size_t offset, const braid_description *description, int *out);
/* Adds a step that copies input `from` to output `to` (same bytes) unless they are the same memory. */
BRAID_MUST_CHECK braid_status braid_dnnl_copy(braid_dnnl *program, size_t from, size_t to, size_t bytes);
size_t braid_dnnl_workspace(const braid_dnnl *program);

/* These fit braid_cpu_kernel: what every kernel that is a program has after its create. */
#define BRAID_DNNL_KERNEL                                                                                              \
  .run = braid_dnnl_run, .destroy = braid_dnnl_destroy, .finish = braid_dnnl_finish,                                   \
  .list_packings = braid_dnnl_list_packings, .pack = braid_dnnl_pack
braid_status braid_dnnl_finish(void *program);
void braid_dnnl_list_packings(const void *program, braid_query *query);
braid_status braid_dnnl_pack(const braid_node_desc *node, void *program, uint32_t input, const void *plain,
                             void *packed);
braid_status braid_dnnl_run(const braid_node_desc *node, void *program, const braid_cpu_args *args);

/* For benchmarks: conversions between layouts that runs of kernels contained so far, and what they took. */
uint64_t braid_dnnl_conversions(uint64_t *ns);
/* All present operands float32? (why: filled if not) */
bool braid_dnnl_all_f32(const braid_node_desc *node, char *why, size_t why_bytes);

#endif
