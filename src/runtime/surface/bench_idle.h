/* A device for benchmarks whose one kernel, for bench.Trivial, does nothing at all: what is left is what the library
 * itself costs. */
#ifndef BRAID_RUNTIME_BENCH_IDLE_H
#define BRAID_RUNTIME_BENCH_IDLE_H

#include "braid/host_queue.h"

static const braid_device_info kIdle = {.name = "idle",
                                        .kind = "null",
                                        .description = "kernels that do nothing",
                                        .memory = BRAID_MEMORY_UNIFIED,
                                        .max_queues = 1,
                                        .alignment = 64,
                                        .host_alignment = 1};
static const braid_kernel kIdleKernel = {.op = "bench.Trivial", .name = "idle"};

static braid_status idle_enumerate(braid_device_info *infos, size_t capacity, size_t *count) {
  if (capacity) *infos = kIdle;
  *count = 1;
  return BRAID_OK;
}

static braid_status idle_open(const braid_allocator *allocator, size_t index, const char *options, void **device) {
  (void)allocator, (void)index, (void)options;
  *device = (void *)&kIdle;
  return BRAID_OK;
}

static void idle_close(void *device) {
  (void)device;
}

static void idle_info(void *device, braid_device_info *info) {
  *info = *(const braid_device_info *)device;
}

static const braid_kernel *const *idle_kernels(void *device, size_t *count) {
  static const braid_kernel *const kKernels[] = {&kIdleKernel};
  (void)device;
  *count = 1;
  return kKernels;
}

static braid_status idle_prepare(void *device, const braid_kernel *kernel, const braid_node_desc *node, void **prepared,
                                 braid_prepared_info *info) {
  (void)device, (void)kernel;
  *prepared = (void *)node;
  *info = (braid_prepared_info){0};
  return BRAID_OK;
}

static void idle_discard(void *device, void *prepared) {
  (void)device, (void)prepared;
}

static braid_status idle_buffer_create(void *device, size_t bytes, void **buffer) {
  (void)device;
  *buffer = braid_alloc(NULL, bytes);
  return *buffer ? BRAID_OK : BRAID_NO_MEMORY;
}

static void idle_buffer_destroy(void *device, void *buffer) {
  (void)device;
  braid_free(NULL, buffer);
}

static void *idle_buffer_map(void *device, void *buffer) {
  (void)device;
  return buffer;
}

static braid_status idle_run(void *context, const braid_task *task) {
  (void)context, (void)task;
  return BRAID_OK;
}

static braid_status idle_queue_create(void *device, braid_timeline *timeline, void **queue) {
  static const braid_host_queue_ops kOps = {.run = idle_run};
  return braid_host_queue_create(NULL, "idle", &kOps, device, timeline, (braid_host_queue **)queue);
}

static void idle_queue_destroy(void *device, void *queue) {
  (void)device;
  braid_host_queue_destroy(queue);
}

static braid_status idle_submit(void *queue, braid_task *task) {
  return braid_host_queue_submit(queue, task);
}

static braid_status idle_record(void *queue, braid_task *const *tasks, size_t count, void **recording) {
  return braid_host_queue_record(queue, tasks, count, recording);
}

static void idle_erase(void *queue, void *recording) {
  braid_host_queue_erase(queue, recording);
}

static braid_status idle_replay(void *queue, void *recording, uint64_t first) {
  return braid_host_queue_replay(queue, recording, first);
}

static const braid_backend kIdleBackend = {.abi = BRAID_DEVICE_ABI,
                                           .size = sizeof(braid_backend),
                                           .name = "idle",
                                           .enumerate = idle_enumerate,
                                           .open = idle_open,
                                           .close = idle_close,
                                           .info = idle_info,
                                           .kernels = idle_kernels,
                                           .prepare = idle_prepare,
                                           .discard = idle_discard,
                                           .buffer_create = idle_buffer_create,
                                           .buffer_destroy = idle_buffer_destroy,
                                           .buffer_map = idle_buffer_map,
                                           .queue_create = idle_queue_create,
                                           .queue_destroy = idle_queue_destroy,
                                           .submit = idle_submit,
                                           .record = idle_record,
                                           .erase = idle_erase,
                                           .replay = idle_replay};

#endif
