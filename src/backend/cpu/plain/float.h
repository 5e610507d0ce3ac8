/* What the floating-point references of convolutions, pools and normalizations share.
 *
 * They are written once as a template and compiled for float and double. The type to compute in is that of input 0
 * (float for the 16-bit types); operands of another floating-point type are converted around the run, in the workspace.
 * A state begins with a braid_ref_float; its init function reads the attributes and may ask for scratch memory. */
#ifndef BRAID_BACKEND_CPU_PLAIN_FLOAT_H
#define BRAID_BACKEND_CPU_PLAIN_FLOAT_H

#include "backend/cpu/cpu.h"

enum { BRAID_REF_OPERANDS = 16 }; /* inputs, and outputs, at most */

/* NULL for operands left out. */
typedef void braid_ref_compute(const void *state, const void *const *inputs, void *const *outputs, void *scratch);

typedef struct braid_ref_float {
  braid_ref_compute *compute;                                           /* chosen before init, which may choose again */
  size_t scratch_bytes;                                                 /* set by init */
  size_t inputs_at[BRAID_REF_OPERANDS], outputs_at[BRAID_REF_OPERANDS]; /* workspace offset; 0: used where it lies */
} braid_ref_float;

typedef struct braid_ref_op {
  size_t state_bytes;
  braid_status (*init)(const braid_node_desc *node, void *state);
  braid_ref_compute *f32, *f64;
} braid_ref_op;

braid_status braid_ref_create(const braid_allocator *allocator, const braid_node_desc *node, const braid_ref_op *op,
                              void **state, braid_prepared_info *info);
braid_status braid_ref_run(const braid_node_desc *node, void *state, const braid_cpu_args *args);

/* Defines `name`, a braid_cpu_kernel, from a template compiled to stem_f32 and stem_f64. */
#define BRAID_REF_KERNEL(name, stem, type, init)                                                                       \
  static braid_status name##_create(const braid_allocator *allocator, const braid_node_desc *node, void **state,       \
                                    braid_prepared_info *info) {                                                       \
    static const braid_ref_op op = {sizeof(type), init, stem##_f32, stem##_f64};                                       \
    return braid_ref_create(allocator, node, &op, state, info);                                                        \
  }                                                                                                                    \
  static const braid_cpu_kernel name = {.create = name##_create, .run = braid_ref_run};

/* For braid_kernel.match: input 0 is floating-point. */
bool braid_ref_match_float(const braid_node_desc *node, char *why, size_t why_bytes);
/* For braid_kernel.layouts: if input 0 comes as BHWC, it and all operands of its rank stay so. */
void braid_ref_follow_layout(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs);

/* A tensor of rank 2 or more as [outer][places][inner]: channels are part of `outer` if PLAIN, are `inner` if BHWC. */
typedef struct braid_ref_view {
  int64_t outer, inner;
} braid_ref_view;
braid_ref_view braid_ref_view_of(const braid_desc *desc);

#endif
