/* Transfers between a card and the host. */
#ifndef BRAID_BACKEND_CUDA_TRANSFER_H
#define BRAID_BACKEND_CUDA_TRANSFER_H

#include "backend/cuda/queue.h"

/* Enqueues a WRITE, READ or COPY. Memory of the host that is not pinned goes through pinned memory of the queue (small
 * transfers: bounce.h): the driver would hold up the caller until what is before it in the stream has run. */
BRAID_MUST_CHECK braid_status braid_cuda_transfer(braid_cuda_queue *queue, const braid_task *task,
                                                  braid_cuda_stream stream);
void braid_cuda_copies_free(braid_cuda_queue *queue);

#endif
