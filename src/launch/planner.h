/* Writing recipes: a planner adds launches to a recipe, with their options, arguments and sizes, and remembers what did
 * not fit, so that a family's plan reads from top to bottom and is checked once, at the end. */
#ifndef BRAID_LAUNCH_PLANNER_H
#define BRAID_LAUNCH_PLANNER_H

#include "launch/recipe.h"
#include "tensor/half.h"

typedef struct braid_launch_planner {
  const braid_launch_traits *traits;
  const braid_node_desc *node;
  braid_launch_recipe *recipe;
  braid_launch *launch; /* the one that is being described */
  bool wide;            /* index_t of the kernels has 64 bits */
  const char *problem;  /* the first thing that did not fit; NULL: none */
  bool no_memory;
  braid_launch spare; /* written to once there is no other any more */
} braid_launch_planner;

/* wide: kernels count in 64 bits; follows from the operands' sizes, and can be set by families that count further. */
void braid_launch_plan_begin(braid_launch_planner *p, const braid_launch_traits *traits, const braid_node_desc *node,
                             braid_launch_recipe *recipe);
/* Begins the next launch, of `function` in the file `source` of the backend's kernel text. */
void braid_launch_begin(braid_launch_planner *p, const char *source, const char *function);
/* The same for a function of a module that is not the library's, known to the user by its path; only the options added
 * are given to the compiler. */
void braid_launch_begin_foreign(braid_launch_planner *p, void *module, const char *path, const char *function);
/* Adds an option for the compiler, a space before it; printf's format. */
void braid_launch_option(braid_launch_planner *p, const char *format, ...) BRAID_PRINTF(2, 3);

/* Arguments, in the kernel's order. An input that is left out becomes some other memory object, which the kernel, being
 * told by an option, does not touch. */
void braid_launch_input(braid_launch_planner *p, size_t index);
void braid_launch_output(braid_launch_planner *p, size_t index);
void braid_launch_input_part(braid_launch_planner *p, size_t index, size_t offset, size_t bytes);
void braid_launch_index(braid_launch_planner *p, int64_t value); /* index_t */
void braid_launch_int(braid_launch_planner *p, int64_t value);
void braid_launch_long(braid_launch_planner *p, int64_t value);
void braid_launch_float(braid_launch_planner *p, double value);
void braid_launch_local(braid_launch_planner *p, size_t bytes);
/* Of any type, for kernels that are not the library's; `bytes` as the device reads them. */
void braid_launch_number(braid_launch_planner *p, braid_dtype dtype, uint32_t lanes, const void *bytes);
void braid_launch_fault(braid_launch_planner *p);

/* A piece of the workspace of rows * columns elements. */
typedef struct braid_launch_piece {
  size_t offset, bytes;
} braid_launch_piece;
braid_launch_piece braid_launch_reserve(braid_launch_planner *p, int64_t rows, int64_t columns, size_t element_bytes);
/* The same behind *end bytes of other memory, which grow. */
braid_launch_piece braid_launch_reserve_in(braid_launch_planner *p, size_t *end, int64_t rows, int64_t columns,
                                           size_t element_bytes);
void braid_launch_workspace(braid_launch_planner *p, braid_launch_piece piece);

/* Of the argument before, memory of a kernel that is not the library's: the elements that are in it. */
void braid_launch_element(braid_launch_planner *p, braid_dtype dtype);

/* Work-items: at least `count`, in groups of the usual size; the kernel is given that size as GROUP. */
void braid_launch_range(braid_launch_planner *p, int64_t count);
/* As given; local[0] 0: the driver chooses. */
void braid_launch_sizes(braid_launch_planner *p, uint32_t dimensions, const size_t *global, const size_t *local);
/* `groups` groups of `group` work-items in the first dimension, and in the others groups of one. */
void braid_launch_groups(braid_launch_planner *p, int64_t groups, int64_t second, int64_t third, size_t group);

/* OK, or what did not fit. */
BRAID_MUST_CHECK braid_status braid_launch_plan_end(const braid_launch_planner *p);

/* --- for match functions -------------------------------------------------------------------------------------------
 */
/* Input or output left out, or not there at all. */
bool braid_launch_has_input(const braid_node_desc *node, size_t index);
bool braid_launch_has_output(const braid_node_desc *node, size_t index);
/* All operands are float32 (those left out aside); says which is not. */
bool braid_launch_match_float(const braid_node_desc *node, char *why, size_t why_bytes);
/* The same of float32, float16 or bfloat16, one type for all. */
bool braid_launch_match_real(const braid_node_desc *node, char *why, size_t why_bytes);
/* Do 32 bits count the elements of every operand, with room for rounding up? */
bool braid_launch_is_narrow(const braid_node_desc *node);
/* Writes the reason and returns false. */
bool braid_launch_refuse(char *why, size_t why_bytes, const char *format, ...) BRAID_PRINTF(3, 4);

/* The C type of an element, NULL for types that no kernel computes in (16-bit and 64-bit floating point). */
const char *braid_launch_type(braid_dtype dtype);
/* The same as kernels load and store it by GET and PUT (common.clh), 16-bit floating point too. */
const char *braid_launch_element_type(braid_dtype dtype);
/* Computed in float: float32, float16, bfloat16. */
static inline bool braid_launch_is_real(braid_dtype dtype) {
  return dtype == BRAID_F32 || braid_dtype_is_half(dtype);
}
static inline int64_t braid_launch_ceil_div(int64_t a, int64_t b) { /* a >= 0, b > 0 */
  return a / b + (a % b != 0);
}
static inline int64_t braid_launch_larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}
static inline int64_t braid_launch_smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static inline int64_t braid_launch_round_up(int64_t value, int64_t to) {
  return braid_launch_ceil_div(value, to) * to;
}
/* Work-items of a group: the knob if it is set, else what suits the kind of device, as far as the device takes it. */
size_t braid_launch_group(const braid_launch_traits *traits);

#endif
