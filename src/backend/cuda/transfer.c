#include "backend/cuda/transfer.h"

#include <string.h>

#include "backend/cuda/memory.h"
#include "base/try.h"

enum { kStagingBytes = 4 << 20 };

/* --- through pinned memory -----------------------------------------------------------------------------------------
 * A piece is copied by a thread of the driver's when its turn in the stream comes, so the next piece may use the same
 * memory, and what others write to the host's memory before is there. Of a lost device it may come late: the task has
 * ended, and the host's memory may be gone. */
struct braid_cuda_copy {
  braid_cuda_queue *queue;
  void *to;
  const void *from;
  size_t bytes;
  braid_cuda_copy *next;
};

static void copy_piece(void *context) {
  braid_cuda_copy *copy = context;
  braid_cuda_queue *queue = copy->queue;
  if (!__atomic_load_n(&queue->abandoned, __ATOMIC_ACQUIRE)) memcpy(copy->to, copy->from, copy->bytes);
  pthread_mutex_lock(&queue->lock);
  copy->next = queue->copies;
  queue->copies = copy;
  pthread_mutex_unlock(&queue->lock);
}

static braid_status enqueue_piece(braid_cuda_queue *queue, void *to, const void *from, size_t bytes,
                                  braid_cuda_stream stream) {
  pthread_mutex_lock(&queue->lock);
  braid_cuda_copy *copy = queue->copies;
  if (copy) queue->copies = copy->next;
  pthread_mutex_unlock(&queue->lock);
  if (!copy) copy = braid_zalloc(NULL, sizeof *copy);
  if (!copy) return BRAID_NO_MEMORY;
  *copy = (braid_cuda_copy){.queue = queue, .to = to, .from = from, .bytes = bytes};
  braid_cuda_result code = queue->device->cuda->launch_host(stream, copy_piece, copy);
  if (!code) return BRAID_OK;
  braid_free(NULL, copy);
  return braid_cuda_fail(code, "a copy of the host's");
}

void braid_cuda_copies_free(braid_cuda_queue *queue) {
  while (queue->copies) {
    braid_cuda_copy *copy = queue->copies;
    queue->copies = copy->next;
    braid_free(NULL, copy);
  }
}

static braid_status stage_pieces(braid_cuda_queue *queue, bool write, uint8_t *host, braid_cuda_address card,
                                 size_t bytes, braid_cuda_stream stream) {
  const braid_cuda_api *cuda = queue->device->cuda;
  if (!queue->staging) {
    void *memory = NULL;
    BRAID_CUDA_TRY(cuda->host_allocate(&memory, kStagingBytes, BRAID_CUDA_HOST_PORTABLE), "pinned memory");
    queue->staging = memory;
  }
  for (size_t at = 0; at < bytes; at += kStagingBytes) {
    size_t piece = bytes - at < kStagingBytes ? bytes - at : kStagingBytes;
    if (write) {
      BRAID_TRY(enqueue_piece(queue, queue->staging, host + at, piece, stream));
      BRAID_CUDA_TRY(cuda->write_async(card + at, queue->staging, piece, stream), "enqueueing a transfer");
    } else {
      BRAID_CUDA_TRY(cuda->read_async(queue->staging, card + at, piece, stream), "enqueueing a transfer");
      BRAID_TRY(enqueue_piece(queue, host + at, queue->staging, piece, stream));
    }
  }
  return BRAID_OK;
}

/* --- transfers -----------------------------------------------------------------------------------------------------
 */
static braid_status transfer_host(braid_cuda_queue *queue, const braid_task *task, braid_cuda_stream stream) {
  braid_cuda_device *device = queue->device;
  bool write = task->kind == BRAID_TASK_WRITE;
  const braid_binding *binding = write ? &task->target : &task->source;
  braid_cuda_address card;
  BRAID_TRY(braid_cuda_locate(binding, &card));
  if (!binding->bytes) return BRAID_OK;
  bool pinned = braid_cuda_is_pinned(device, task->host, binding->bytes);
  uint8_t *bounce = braid_cuda_bounce_begin(queue, task, binding->bytes, !pinned);
  if (!pinned && !bounce) return stage_pieces(queue, write, task->host, card, binding->bytes, stream);
  void *host = bounce ? bounce : task->host;
  braid_cuda_result code = write ? device->cuda->write_async(card, host, binding->bytes, stream)
                                 : device->cuda->read_async(host, card, binding->bytes, stream);
  if (!code) return BRAID_OK;
  braid_cuda_bounce_end(queue, task, false); /* its buffer holds what another transfer left */
  return braid_cuda_fail(code, "enqueueing a transfer");
}

static braid_status transfer_within(const braid_cuda_queue *queue, const braid_task *task, braid_cuda_stream stream) {
  const braid_cuda_device *device = queue->device, *source = task->source_device ? task->source_device : device;
  braid_cuda_address from, to;
  if (source->id != device->id)
    return braid_fail(BRAID_UNSUPPORTED, "a copy from %s, which shares no memory with %s", source->info.name,
                      device->info.name);
  BRAID_TRY(braid_cuda_locate(&task->source, &from));
  BRAID_TRY(braid_cuda_locate(&task->target, &to));
  if (task->target.bytes < task->source.bytes)
    return braid_fail(BRAID_OUT_OF_RANGE, "a copy of %zu bytes into %zu", task->source.bytes, task->target.bytes);
  if (!task->source.bytes || from == to) return BRAID_OK;
  BRAID_CUDA_TRY(device->cuda->copy_async(to, from, task->source.bytes, stream), "enqueueing a transfer");
  return BRAID_OK;
}

braid_status braid_cuda_transfer(braid_cuda_queue *queue, const braid_task *task, braid_cuda_stream stream) {
  return task->kind == BRAID_TASK_COPY ? transfer_within(queue, task, stream) : transfer_host(queue, task, stream);
}
