/* GLPK (linear and mixed-integer programs), loaded when it is first needed: its licence is the GPL, so Braid is not
 * linked with it, and works without it. */
#ifndef BRAID_SCHEDULE_GLPK_H
#define BRAID_SCHEDULE_GLPK_H

#include <glpk.h>
#include <stdbool.h>

#include "braid/status.h"

#define BRAID_GLPK_FUNCTIONS(X)                                                                                        \
  X(config)                                                                                                            \
  X(version)                                                                                                           \
  X(term_hook)                                                                                                         \
  X(error_hook)                                                                                                        \
  X(mem_limit)                                                                                                         \
  X(free_env)                                                                                                          \
  X(create_prob)                                                                                                       \
  X(add_rows)                                                                                                          \
  X(add_cols)                                                                                                          \
  X(set_row_bnds)                                                                                                      \
  X(set_col_bnds)                                                                                                      \
  X(set_col_kind)                                                                                                      \
  X(set_obj_coef)                                                                                                      \
  X(set_mat_row)                                                                                                       \
  X(load_matrix)                                                                                                       \
  X(init_smcp)                                                                                                         \
  X(init_iocp)                                                                                                         \
  X(simplex)                                                                                                           \
  X(intopt)                                                                                                            \
  X(get_row_dual)                                                                                                      \
  X(get_col_prim)                                                                                                      \
  X(get_prim_stat)                                                                                                     \
  X(mip_col_val)                                                                                                       \
  X(mip_obj_val)                                                                                                       \
  X(mip_status)                                                                                                        \
  X(ios_reason)                                                                                                        \
  X(ios_get_prob)                                                                                                      \
  X(ios_best_node)                                                                                                     \
  X(ios_node_bound)                                                                                                    \
  X(ios_heur_sol)                                                                                                      \
  X(ios_terminate)

typedef struct braid_glpk_api {
#define BRAID_GLPK_MEMBER(name) __typeof__(&glp_##name) name;
  BRAID_GLPK_FUNCTIONS(BRAID_GLPK_MEMBER)
#undef BRAID_GLPK_MEMBER
} braid_glpk_api;

/* Loads the library at the first call; false: it is not there, cannot be used by several threads, or is another one
 * than we were built for. */
bool braid_glpk_load(void);

/* GLP(simplex)(...) is glp_simplex(...); only within braid_glpk_run. */
extern braid_glpk_api braid_glpk_functions;
#define GLP(name) (braid_glpk_functions.name)

/* Runs `run` on a thread of its own, since GLPK keeps its state per thread: it prints nothing, what it would end the
 * process for is returned (NO_MEMORY, also beyond so many `megabytes`; else INTERNAL with its sentence), and all that
 * it allocated is freed at the end. What `run` allocates by other means belongs to the caller: `run` may end anywhere
 * within a call of GLPK. UNSUPPORTED: there is no GLPK. */
BRAID_MUST_CHECK braid_status braid_glpk_run(braid_status (*run)(void *context), void *context, int megabytes);

#endif
