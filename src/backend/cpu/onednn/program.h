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
#include "tensor/layout.h"

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
/* Adds a step that adds `count` float32 parts of `bytes`, which follow one another from memory `parts` on, to the
 * first, in order. */
BRAID_MUST_CHECK braid_status braid_dnnl_sum(braid_dnnl *program, int parts, size_t bytes, size_t count);
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

/* --- descriptions --------------------------------------------------------------------------------------------------
 */
/* Layouts in which oneDNN has the weights of convolutions, without groups: filters and channels in blocks, or filters
 * alone where there are few channels. */
#define BRAID_DNNL_16I16O (BRAID_LAYOUT_BLOCKED(0, 1, 16) | BRAID_LAYOUT_BLOCKED(1, 0, 16))
#define BRAID_DNNL_16O16I (BRAID_LAYOUT_BLOCKED(0, 0, 16) | BRAID_LAYOUT_BLOCKED(1, 1, 16))
#define BRAID_DNNL_8I8O (BRAID_LAYOUT_BLOCKED(0, 1, 8) | BRAID_LAYOUT_BLOCKED(1, 0, 8))
#define BRAID_DNNL_8O8I (BRAID_LAYOUT_BLOCKED(0, 0, 8) | BRAID_LAYOUT_BLOCKED(1, 1, 8))
#define BRAID_DNNL_I16O (BRAID_LAYOUT_BHWC | BRAID_LAYOUT_BLOCKED(0, 0, 16))
#define BRAID_DNNL_I8O (BRAID_LAYOUT_BHWC | BRAID_LAYOUT_BLOCKED(0, 0, 8))

/* oneDNN's description of an operand as it lies in memory. False for types, ranks or layouts it does not have. Rank 0
 * becomes one element. */
bool braid_dnnl_desc(const braid_desc *desc, dnnl_memory_desc_t *out);
/* The same shape with any format. */
bool braid_dnnl_desc_any(const braid_desc *desc, dnnl_memory_desc_t *out);
/* Plain row-major over given dimensions, float32. */
void braid_dnnl_plain(int rank, const int64_t *dims, dnnl_memory_desc_t *out);
/* Attributes with user scratchpad; `sum`: onto what stands in the destination; then the activation of `activated`, if
 * not NULL. NULL and a status on failure. */
BRAID_MUST_CHECK braid_status braid_dnnl_attributes(const braid_node_desc *activated, bool sum,
                                                    dnnl_primitive_attr_t *out);
/* May a primitive have the node's activation in it? Not where NaN would be lost for good: it must be possible to tell
 * that there was one, and to compute the result again, which a sum in place is not. */
bool braid_dnnl_can_fuse(const braid_node_desc *node, bool sum);
/* Do both take the same memory, by the same implementation? */
bool braid_dnnl_interchangeable(dnnl_primitive_desc_t a, dnnl_primitive_desc_t b);
/* Primitive descriptors (describe.c); UNSUPPORTED if oneDNN has no fast implementation: only its reference, or
 * none. attr may be NULL (user scratchpad). */
/* For one thread, to be run in a group. */
BRAID_MUST_CHECK braid_status braid_dnnl_describe_single(const void *op_desc, dnnl_primitive_attr_t attr,
                                                         dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out);
/* For all threads, if there is an implementation whose results do not depend on their number. Else *pieces is set, and
 * *out is as from braid_dnnl_describe_single: the work is to be divided by the caller. The choice does not depend on
 * the number of threads. */
BRAID_MUST_CHECK braid_status braid_dnnl_describe_whole(const void *op_desc, dnnl_primitive_attr_t attr,
                                                        dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out,
                                                        bool *pieces);
/* Pieces of a batch, all of the same size: as many as divide it, up to `most`. */
int64_t braid_dnnl_pieces_of(int64_t batch, int64_t most);
/* How many threads a descriptor from braid_dnnl_describe_whole was made for. */
int braid_dnnl_threads_of(dnnl_primitive_desc_t primitive_desc);
/* All present operands float32? (why: filled if not) */
bool braid_dnnl_all_f32(const braid_node_desc *node, char *why, size_t why_bytes);

#endif
