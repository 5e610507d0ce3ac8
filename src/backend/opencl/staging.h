/* Operands as an entry's launches want them: as they lie, or copied into a piece of the workspace in another order,
 * size or type. */
#ifndef BRAID_BACKEND_OPENCL_STAGING_H
#define BRAID_BACKEND_OPENCL_STAGING_H

#include "backend/opencl/manifest.h"
#include "launch/stage.h"

enum { BRAID_CL_STAGED = 32, BRAID_CL_WORKSPACES = 16 };

typedef struct braid_cl_staged {
  braid_launch_stage stage;
  bool item;    /* copied in each turn, else once */
  int64_t turn; /* the last in which it was */
} braid_cl_staged;

/* A piece of the workspace that launches share by its name; as large as the largest that they ask for. */
typedef struct braid_cl_shared {
  const char *name;
  int64_t bytes;
  bool zeroed;
  braid_launch_piece piece;
} braid_cl_shared;

typedef struct braid_cl_planning {
  braid_cl_subject *subject;
  braid_launch_scope scope; /* the subject's */
  braid_launch_planner planner;
  braid_cl_staged staged[BRAID_CL_STAGED];
  size_t staged_count;
  braid_cl_shared shared[BRAID_CL_WORKSPACES];
  size_t shared_count;
} braid_cl_planning;

/* A formula's value; OUT_OF_RANGE where it is not within these bounds. One without a value is warned of, once. */
BRAID_MUST_CHECK braid_status braid_cl_evaluate(const braid_cl_subject *subject, const char *formula, int64_t least,
                                                int64_t most, int64_t *out);
braid_launch_scope braid_cl_subject_scope(const braid_cl_subject *subject);

/* The operand, and which of the whole's it is; OUT_OF_RANGE: it is not there. */
BRAID_MUST_CHECK braid_status braid_cl_find_operand(const braid_cl_subject *subject, const braid_cl_entry_argument *a,
                                                    const braid_operand **out, size_t *index);
bool braid_cl_is_staged(const braid_cl_entry_argument *a);
/* The piece of an argument, in this turn; made once for all arguments that want the same. */
BRAID_MUST_CHECK braid_status braid_cl_stage_operand(braid_cl_planning *p, const braid_cl_entry_argument *a,
                                                     braid_cl_staged **out);

#endif
