/* Tensors with lazily computed contents: they are computed once, by the first thread that accesses them
 * (braid_tensor_data and all functions that read elements). So a plan, which needs only shapes, is made without
 * computing weights. */
#ifndef BRAID_TENSOR_DEFERRED_H
#define BRAID_TENSOR_DEFERRED_H

#include "braid/tensor.h"

typedef struct braid_deferred {
  void (*fill)(void *context, const void *source, void *data);
  void (*release)(void *context); /* called once, after fill or with the tensor; may be NULL */
  void *context;
  braid_tensor *source; /* the tensor that the contents are computed from, of the same type and shape; NULL: none */
} braid_deferred;

/* Memory is allocated at once, so computing cannot fail. Retains the source until the contents are computed. On failure
 * release is not called. */
BRAID_MUST_CHECK braid_status braid_tensor_defer(const braid_allocator *allocator, const braid_desc *desc,
                                                 const braid_deferred *deferred, braid_tensor **out);
/* The address of the contents, which may not be computed yet. */
const void *braid_tensor_address(const braid_tensor *tensor);
/* Contents of this type and shape: the tensor's, which are computed now if it has no source, or while those are not
 * computed the source's. Valid while the caller holds a reference to the source. */
const void *braid_tensor_preview(const braid_tensor *tensor);

#endif
