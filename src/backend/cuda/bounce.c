#include "backend/cuda/bounce.h"

#include <string.h>

#include "backend/cuda/memory.h"
#include "backend/cuda/queue.h"

/* Of all devices: two of one card know each other's events. */
static pthread_mutex_t reads_lock = PTHREAD_MUTEX_INITIALIZER;
static braid_cuda_bounce *reads;

static braid_cuda_bounce *bounce_of(braid_cuda_queue *queue, const braid_task *task) {
  return &queue->bounces[task->value % BRAID_LAUNCH_WINDOW];
}

static size_t host_bytes(const braid_task *task) {
  return task->kind == BRAID_TASK_WRITE ? task->target.bytes : task->kind == BRAID_TASK_READ ? task->source.bytes : 0;
}

static bool overlaps(const braid_task *a, const braid_task *b) {
  uintptr_t from = (uintptr_t)a->host, other = (uintptr_t)b->host;
  return from < other + host_bytes(b) && other < from + host_bytes(a);
}

/* --- order ---------------------------------------------------------------------------------------------------------
 * Other queues' tasks are waited for in the stream only where they are of the same run. */
const braid_point *braid_cuda_bounce_precedes(braid_launch_queue *base, const braid_task *task) {
  braid_cuda_queue *queue = (braid_cuda_queue *)base;
  const braid_point *found = NULL;
  if (!host_bytes(task)) return NULL;
  pthread_mutex_lock(&reads_lock);
  for (const braid_cuda_bounce *read = reads; read && !found; read = read->next) {
    if (__atomic_load_n(&read->queue->abandoned, __ATOMIC_ACQUIRE)) continue; /* its tasks may be gone */
    bool ordered = read->queue == queue || read->task->verdict == task->verdict;
    if (!ordered || !overlaps(read->task, task)) continue;
    queue->preceding = (braid_point){read->queue->base.timeline, read->task->value};
    found = &queue->preceding;
  }
  pthread_mutex_unlock(&reads_lock);
  return found;
}

void braid_cuda_bounce_abandon(braid_cuda_queue *queue) {
  pthread_mutex_lock(&reads_lock);
  __atomic_store_n(&queue->abandoned, 1, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&reads_lock);
}

static void list_read(braid_cuda_bounce *bounce) {
  pthread_mutex_lock(&reads_lock);
  bounce->next = reads;
  bounce->link = &reads;
  if (reads) reads->link = &bounce->next;
  reads = bounce;
  pthread_mutex_unlock(&reads_lock);
}

static void unlist_read(const braid_cuda_bounce *bounce) {
  pthread_mutex_lock(&reads_lock);
  *bounce->link = bounce->next;
  if (bounce->next) bounce->next->link = bounce->link;
  pthread_mutex_unlock(&reads_lock);
}

/* --- buffers -------------------------------------------------------------------------------------------------------
 */
static uint8_t *take_buffer(braid_cuda_queue *queue) {
  uint8_t *taken = NULL;
  if (!queue->bounce_memory) {
    void *memory = NULL;
    size_t bytes = (size_t)BRAID_CUDA_BOUNCE_BUFFERS * BRAID_CUDA_LEAST_PINNED;
    if (queue->device->cuda->host_allocate(&memory, bytes, BRAID_CUDA_HOST_PORTABLE)) return NULL;
    queue->bounce_memory = memory;
  }
  pthread_mutex_lock(&queue->lock);
  for (uint32_t i = 0; i < BRAID_CUDA_BOUNCE_BUFFERS && !taken; i++) {
    if (queue->bounces_taken >> i & 1) continue;
    queue->bounces_taken |= 1u << i;
    taken = queue->bounce_memory + (size_t)i * BRAID_CUDA_LEAST_PINNED;
  }
  pthread_mutex_unlock(&queue->lock);
  return taken;
}

static void give_back(braid_cuda_queue *queue, const uint8_t *buffer) {
  size_t i = (size_t)(buffer - queue->bounce_memory) / BRAID_CUDA_LEAST_PINNED;
  pthread_mutex_lock(&queue->lock);
  queue->bounces_taken &= ~(1u << i);
  pthread_mutex_unlock(&queue->lock);
}

uint8_t *braid_cuda_bounce_begin(braid_cuda_queue *queue, const braid_task *task, size_t bytes, bool small) {
  braid_cuda_bounce *bounce = bounce_of(queue, task);
  *bounce = (braid_cuda_bounce){.queue = queue, .task = task};
  if (small && bytes < BRAID_CUDA_LEAST_PINNED) bounce->buffer = take_buffer(queue);
  if (task->kind == BRAID_TASK_READ)
    list_read(bounce);
  else if (bounce->buffer)
    memcpy(bounce->buffer, task->host, bytes);
  return bounce->buffer;
}

void braid_cuda_bounce_end(braid_cuda_queue *queue, const braid_task *task, bool good) {
  braid_cuda_bounce *bounce = bounce_of(queue, task);
  if (bounce->task != task) return;
  bool read = task->kind == BRAID_TASK_READ;
  if (read && bounce->buffer && good) memcpy(task->host, bounce->buffer, host_bytes(task));
  if (read) unlist_read(bounce);
  if (bounce->buffer) give_back(queue, bounce->buffer);
  bounce->task = NULL;
}

void braid_cuda_bounce_free(braid_cuda_queue *queue) {
  if (queue->bounce_memory) (void)queue->device->cuda->host_free(queue->bounce_memory);
}
