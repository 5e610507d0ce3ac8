/* Unique: how many numbers there are is known, as the shape of the result, once the input is. */
#include "graph/unique.h"

#include <string.h>

#include "base/try.h"
#include "graph/ops/types.h"

static braid_status infer_unique(const braid_infer *infer) {
  BRAID_TRY(braid_infer_type(infer, 0, kAnyType));
  const braid_desc *x = braid_infer_input(infer, 0);
  const braid_tensor *data = braid_infer_constant(infer, 0);
  const braid_attrs *attrs = &infer->node->attrs;
  bool whole = !braid_attr_has(attrs, "axis");
  int axis = 0;
  if (!whole) BRAID_TRY(braid_infer_axis(infer, braid_attr_int(attrs, "axis", 0), x->rank, &axis));
  if (!data)
    return braid_infer_fail(infer, "its input must be known before the run: the result's shape follows from it");
  braid_unique u;
  braid_unique_init(x, braid_tensor_const_data(data), attrs, &u);
  int64_t *room = braid_zalloc_array(infer->graph->allocator, (size_t)u.size + 1, 5 * sizeof *room);
  if (!room) return BRAID_NO_MEMORY;
  int64_t found = braid_unique_find(&u, room, room + 2 * u.size, room + 3 * u.size, room + 4 * u.size);
  braid_free(infer->graph->allocator, room);
  int64_t dims[BRAID_MAX_RANK];
  memcpy(dims, x->dims, sizeof dims);
  dims[axis] = found;
  BRAID_TRY(braid_infer_output(infer, 0, x->dtype, whole ? 1 : x->rank, dims));
  BRAID_TRY(braid_infer_output(infer, 1, BRAID_I64, 1, &found));
  BRAID_TRY(braid_infer_output(infer, 2, BRAID_I64, 1, &u.size));
  return braid_infer_output(infer, 3, BRAID_I64, 1, &found);
}

static const braid_op kOps[] = {
    {"Unique", 1, 1, 1, 4, 0, infer_unique, NULL, NULL},
};

extern const braid_op_family braid_ops_unique;
const braid_op_family braid_ops_unique = {kOps, sizeof kOps / sizeof *kOps};
