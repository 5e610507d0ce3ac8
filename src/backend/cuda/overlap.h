/* Which launches of a graph wait for which: those that touch the same memory, if one of the two writes it. All others
 * run beside each other, as the card has room for them: the update of a layer's weights beside the gradients of the
 * layer before it, operands packed before they are needed. */
#ifndef BRAID_BACKEND_CUDA_OVERLAP_H
#define BRAID_BACKEND_CUDA_OVERLAP_H

#include <stdbool.h>

#include "backend/cuda/api.h"
#include "braid/allocator.h"

/* Memory that a launch reads, or may write. */
typedef struct braid_cuda_touch {
  braid_cuda_address first, end; /* the same: none */
  bool writes;
} braid_cuda_touch;

typedef struct braid_cuda_overlap braid_cuda_overlap;

/* For what is captured in `stream` from now on, as launches between begin and end. */
BRAID_MUST_CHECK braid_status braid_cuda_overlap_create(const braid_cuda_api *cuda, braid_cuda_stream stream,
                                                        braid_cuda_overlap **out);
void braid_cuda_overlap_destroy(braid_cuda_overlap *overlap);

/* What is captured up to `end` waits for earlier launches whose memory it touches, and with `in_turn` for the last that
 * was in turn, too. UNSUPPORTED: there are too many launches. */
BRAID_MUST_CHECK braid_status braid_cuda_overlap_begin(braid_cuda_overlap *overlap, const braid_cuda_touch *touches,
                                                       size_t count, bool in_turn);
BRAID_MUST_CHECK braid_status braid_cuda_overlap_end(braid_cuda_overlap *overlap);

#endif
