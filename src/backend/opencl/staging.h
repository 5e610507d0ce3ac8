/* Operands as an entry's launches want them: as they lie, or copied into a piece of the workspace in another order,
 * size or type. Constants are not copied in each run but packed: once for all runs of a device's weights. */
#ifndef BRAID_BACKEND_OPENCL_STAGING_H
#define BRAID_BACKEND_OPENCL_STAGING_H

#include "backend/opencl/manifest.h"
#include "launch/stage.h"

enum { BRAID_CL_STAGED = 32, BRAID_CL_WORKSPACES = 16 };

typedef struct braid_cl_staged {
  braid_launch_stage stage;
  bool packed;  /* a piece of the packed form of a constant, which is never copied */
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

/* The constants that are bound in packed form: a piece for each form in which launches take one. */
struct braid_cl_packed {
  struct braid_cl_packed_input {
    bool packed;
    size_t bytes;
  } inputs[BRAID_CL_OPERANDS]; /* of the node or region */
  size_t count;
  braid_launch_stage pieces[BRAID_CL_STAGED];
};

typedef struct braid_cl_planning {
  braid_cl_subject *subject;
  braid_cl_packed *packed;  /* NULL: constants are copied like other operands */
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

/* As braid_backend.query has them; how many. */
size_t braid_cl_list_packings(const braid_cl_packed *packed, braid_packing *out);
BRAID_MUST_CHECK braid_status braid_cl_pack_input(const braid_cl_packed *packed, uint32_t input, const void *plain,
                                                  void *out);

/* Marks the constants that launches take in another order, size or type. */
void braid_cl_mark_packed(braid_cl_planning *p);

/* The operand, and which of the whole's it is; OUT_OF_RANGE: it is not there. */
BRAID_MUST_CHECK braid_status braid_cl_find_operand(const braid_cl_subject *subject, const braid_cl_entry_argument *a,
                                                    const braid_operand **out, size_t *index);
/* Is it taken from a piece? */
bool braid_cl_is_staged(const braid_cl_planning *p, const braid_cl_entry_argument *a);
/* The piece of an argument, in this turn; made once for all arguments that want the same. */
BRAID_MUST_CHECK braid_status braid_cl_stage_operand(braid_cl_planning *p, const braid_cl_entry_argument *a,
                                                     braid_cl_staged **out);

#endif
