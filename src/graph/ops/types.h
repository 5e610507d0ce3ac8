/* Sets of element types, as the ops' definitions name them. */
#ifndef BRAID_GRAPH_OPS_TYPES_H
#define BRAID_GRAPH_OPS_TYPES_H

#include "graph/graph.h"

#define BRAID_TYPE(id) (1u << BRAID_##id)
enum {
  kBool = BRAID_TYPE(BOOL),
  kFloat = BRAID_TYPE(F32) | BRAID_TYPE(F64) | BRAID_TYPE(F16) | BRAID_TYPE(BF16),
  kSigned = BRAID_TYPE(I8) | BRAID_TYPE(I16) | BRAID_TYPE(I32) | BRAID_TYPE(I64),
  kUnsigned = BRAID_TYPE(U8) | BRAID_TYPE(U16) | BRAID_TYPE(U32) | BRAID_TYPE(U64),
  kInteger = kSigned | kUnsigned,
  kNumber = kFloat | kInteger,
  kAnyType = kNumber | kBool,
#define BRAID_NARROW_TYPE(id, name, bytes, npy) | BRAID_TYPE(id)
  kNarrow = 0 BRAID_NARROW_DTYPE_MAP(BRAID_NARROW_TYPE),
#undef BRAID_NARROW_TYPE
};

/* Input `index` must be there and of one of `types`. */
static inline braid_status braid_infer_type(const braid_infer *infer, size_t index, uint32_t types) {
  const braid_desc *desc = braid_infer_input(infer, index);
  if (!desc) return braid_infer_fail(infer, "input %zu is missing", index);
  if (types >> desc->dtype & 1) return BRAID_OK;
  return braid_infer_fail(infer, "input %zu is %s, which the op does not take", index, braid_dtype_name(desc->dtype));
}

/* Input `index` must be there and of the same type as input `other`. */
static inline braid_status braid_infer_same_type(const braid_infer *infer, size_t index, size_t other) {
  const braid_desc *desc = braid_infer_input(infer, index), *model = braid_infer_input(infer, other);
  if (!desc || !model) return braid_infer_fail(infer, "input %zu is missing", desc ? other : index);
  if (desc->dtype == model->dtype) return BRAID_OK;
  return braid_infer_fail(infer, "input %zu is %s, input %zu %s", other, braid_dtype_name(model->dtype), index,
                          braid_dtype_name(desc->dtype));
}

#endif
