/* Tensors whose numbers are computed when somebody first asks for them (braid_tensor_data and all that reads elements),
 * once, by the thread that asks: so that a plan, which needs shapes, is made without touching weights. */
#ifndef BRAID_TENSOR_DEFERRED_H
#define BRAID_TENSOR_DEFERRED_H

#include "braid/tensor.h"

typedef struct braid_deferred {
  void (*fill)(void *context, const void *source, void *data);
  void (*release)(void *context); /* called once, after fill or with the tensor; may be NULL */
  void *context;
  braid_tensor *source; /* what the numbers are made from, of the same type and shape */
} braid_deferred;

/* Its memory is asked for at once, so that computing cannot fail. Retains the source until the numbers are there. On
 * failure release is not called. */
BRAID_MUST_CHECK braid_status braid_tensor_defer(const braid_allocator *allocator, const braid_desc *desc,
                                                 const braid_deferred *deferred, braid_tensor **out);
/* Where the numbers are or will be. */
const void *braid_tensor_address(const braid_tensor *tensor);
/* Numbers of this type and shape: the tensor's own, or the source's as long as those are not computed. They stay as
 * long as somebody else holds the source. */
const void *braid_tensor_preview(const braid_tensor *tensor);

#endif
