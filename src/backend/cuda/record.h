/* Recordings: the tasks of a plan on one queue, replayed run after run. Tasks that follow each other, wait for nothing
 * and are not waited for are captured as one CUDA graph at the first replay that measures none of them, and launched by
 * one call from then on. */
#ifndef BRAID_BACKEND_CUDA_RECORD_H
#define BRAID_BACKEND_CUDA_RECORD_H

#include "backend/cuda/queue.h"

BRAID_MUST_CHECK braid_status braid_cuda_record(void *queue, braid_task *const *tasks, size_t count, void **recording);
void braid_cuda_erase(void *queue, void *recording);
BRAID_MUST_CHECK braid_status braid_cuda_replay(void *queue, void *recording, uint64_t first);

/* Of a task that is being replayed. Its commands are enqueued already, or by this call with others, and *end is the
 * event of all; false: it has to be enqueued by itself. */
bool braid_cuda_replay_task(braid_cuda_queue *queue, const braid_task *task, braid_cuda_event **end);
/* The word where the task's kernels say that an index is out of range. */
uint32_t *braid_cuda_replay_fault(const braid_task *task);

#endif
