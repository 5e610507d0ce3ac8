#include "device/queue.h"

#include "base/detail.h"
#include "base/try.h"

braid_status braid_queue_open(braid_queue *queue, const braid_allocator *allocator, const braid_backend *backend,
                              void *device) {
  *queue = (braid_queue){.device = device};
  BRAID_TRY(braid_timeline_create(allocator, &queue->timeline));
  braid_clear_detail();
  braid_status status = backend->queue_create(device, queue->timeline, &queue->self);
  if (status == BRAID_OK && pthread_mutex_init(&queue->lock, NULL)) {
    backend->queue_destroy(device, queue->self);
    status = BRAID_NO_MEMORY;
  }
  if (status == BRAID_OK)
    queue->backend = backend;
  else
    braid_timeline_destroy(queue->timeline);
  return status;
}

void braid_queue_close(braid_queue *queue) {
  if (!queue->backend) return;
  queue->backend->queue_destroy(queue->device, queue->self);
  braid_timeline_destroy(queue->timeline);
  pthread_mutex_destroy(&queue->lock);
  *queue = (braid_queue){.backend = NULL};
}

braid_status braid_queue_submit_locked(braid_queue *queue, braid_task *task) {
  task->value = queue->last + 1;
  braid_clear_detail();
  BRAID_TRY(queue->backend->submit(queue->self, task));
  queue->last++;
  return BRAID_OK;
}

braid_status braid_queue_submit(braid_queue *queue, braid_task *task) {
  pthread_mutex_lock(&queue->lock);
  braid_status status = braid_queue_submit_locked(queue, task);
  pthread_mutex_unlock(&queue->lock);
  return status;
}

void braid_queue_flush(braid_queue *queue) {
  if (queue->backend->flush) queue->backend->flush(queue->self);
}

braid_status braid_queue_replay_locked(braid_queue *queue, void *recording, size_t count) {
  braid_clear_detail();
  BRAID_TRY(queue->backend->replay(queue->self, recording, queue->last + 1));
  queue->last += count;
  return BRAID_OK;
}

bool braid_queue_run(braid_queue *queue, void *recording, size_t count) {
  pthread_mutex_lock(&queue->lock);
  uint64_t first = queue->last + 1;
  bool idle = braid_timeline_reached(queue->timeline, queue->last);
  if (idle) queue->last += count;
  pthread_mutex_unlock(&queue->lock);
  if (idle) queue->backend->run(queue->self, recording, first); /* who submits meanwhile comes after */
  return idle;
}

braid_status braid_queue_wait(const braid_queue *queue, const braid_task *task, int64_t timeout_ns) {
  BRAID_TRY(braid_timeline_wait(queue->timeline, task->value, timeout_ns));
  return braid_verdict_status(task->verdict);
}

braid_status braid_queue_do(braid_queue *queue, braid_task *task, int64_t timeout_ns) {
  BRAID_TRY(braid_queue_submit(queue, task));
  braid_queue_flush(queue);
  return braid_queue_wait(queue, task, timeout_ns);
}
