/* The null backend: the smallest that passes the conformance suite, and the template for new ones. Copy this folder,
 * rename braid_backend_null after the new folder, and replace its sections one by one, running the
 * conformance suite (braid devices --check NAME) as you go.
 *
 * It plays a card with memory of its own: an arena that no kernel but ours touches, reached by transfers only. Its one
 * kernel copies, so a graph that needs more falls back to another device. Work is done by a thread per queue
 * (braid/host_queue.h), which also waits for timelines, honours verdicts and measures; a backend over a driver that has
 * queues of its own would hand tasks to the driver instead, and chain native events (braid_timeline_set_native). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/text.h"
#include "braid/host_queue.h"
#include "device/pool.h"

enum { kAlignment = 256, kQueues = 8 };
static const uint64_t kDefaultBytes = (uint64_t)64 << 20;

typedef struct null_device {
  const braid_allocator *allocator;
  uint8_t *memory; /* the "card" */
  braid_pool *pool;
  size_t bytes;
} null_device;

extern const braid_backend braid_backend_null;

/* --- opening -------------------------------------------------------------------------------------------------------
 * A real backend asks its driver here. Finding no device, or no driver, is OK with a count of 0. */
static void device_describe(braid_device_info *info, uint64_t bytes) {
  *info = (braid_device_info){.name = "null",
                              .kind = "null",
                              .description = "a card that only copies",
                              .memory = BRAID_MEMORY_SEPARATE,
                              .max_queues = kQueues,
                              .compute_units = 1,
                              .memory_bytes = bytes,
                              .alignment = kAlignment,
                              .measures_time = true};
}

static braid_status null_enumerate(braid_device_info *infos, size_t capacity, size_t *count) {
  *count = 1;
  if (capacity) device_describe(&infos[0], kDefaultBytes);
  return BRAID_OK;
}

static void null_close(void *self) {
  null_device *device = self;
  braid_pool_destroy(device->pool);
  braid_free(device->allocator, device->memory);
  braid_free(device->allocator, device);
}

/* The only option: memory=BYTES, the size of the card. */
static braid_status parse_options(const char *options, uint64_t *bytes) {
  *bytes = kDefaultBytes;
  if (!options) return BRAID_OK;
  static const char kKey[] = "memory=";
  int64_t value;
  if (strncmp(options, kKey, sizeof kKey - 1) != 0 || !braid_parse_i64(options + sizeof kKey - 1, &value) ||
      value < kAlignment)
    return braid_fail(BRAID_INVALID_ARGUMENT, "option \"%.80s\": expected memory=BYTES", options);
  *bytes = (uint64_t)value;
  return BRAID_OK;
}

static braid_status null_open(const braid_allocator *allocator, size_t index, const char *options, void **out) {
  *out = NULL;
  if (index > 0) return braid_fail(BRAID_NOT_FOUND, "there is one null device");
  uint64_t bytes;
  braid_status status = parse_options(options, &bytes);
  if (status != BRAID_OK) return status;
  null_device *device = braid_zalloc(allocator, sizeof *device);
  if (!device) return BRAID_NO_MEMORY;
  device->allocator = allocator;
  device->bytes = (size_t)bytes;
  device->memory = braid_alloc(allocator, device->bytes);
  status = device->memory ? braid_pool_create(allocator, device->bytes, kAlignment, &device->pool) : BRAID_NO_MEMORY;
  if (status == BRAID_OK)
    *out = device;
  else
    null_close(device);
  return status;
}

static void null_info(void *self, braid_device_info *info) {
  const null_device *device = self;
  device_describe(info, device->bytes);
}

/* --- memory --------------------------------------------------------------------------------------------------------
 * A buffer is whatever the backend wants it to be; here a block of the pool. When the card is full the pool says how
 * much was asked for and how much is left: the runtime puts the tensor's name before it. */
static braid_status null_buffer_create(void *self, size_t bytes, void **buffer) {
  null_device *device = self;
  braid_pool_block *block;
  braid_status status = braid_pool_allocate(device->pool, bytes, kAlignment, &block);
  *buffer = block;
  return status;
}

static void null_buffer_destroy(void *self, void *buffer) {
  braid_pool_release(((null_device *)self)->pool, buffer);
}

static braid_status null_read_memory(void *self, uint64_t *out_free, uint64_t *out_total) {
  braid_pool_stats stats = braid_pool_get_stats(((null_device *)self)->pool);
  *out_free = stats.bytes - stats.in_use;
  *out_total = stats.bytes;
  return BRAID_OK;
}

/* Where a binding lies, or NULL: bindings come from the runtime, but a wrong one must not write outside its buffer. */
static uint8_t *locate(const null_device *device, const braid_binding *binding) {
  size_t end;
  if (!binding->buffer || !braid_add_size(binding->offset, binding->bytes, &end) ||
      end > braid_pool_bytes(binding->buffer))
    return NULL;
  return device->memory + braid_pool_offset(binding->buffer) + binding->offset;
}

/* --- kernels -------------------------------------------------------------------------------------------------------
 * One row per kernel, the best for each op first. `match` refuses what a kernel cannot do and says why; this one takes
 * every type and shape, but a copy of bytes keeps the layout. */
static bool match_copy(const braid_node_desc *node, char *why, size_t why_bytes) {
  if (node->inputs[0].desc.layout == node->outputs[0].desc.layout) return true;
  snprintf(why, why_bytes, "cannot change the layout");
  return false;
}

static const braid_kernel kCopy = {.op = "Identity", .name = "null_copy", .match = match_copy, .in_place = 1u << 0};
static const braid_kernel *const kKernels[] = {&kCopy};

static const braid_kernel *const *null_kernels(void *self, size_t *count) {
  (void)self;
  *count = sizeof kKernels / sizeof *kKernels;
  return kKernels;
}

/* A real backend compiles or loads the kernel here, packs constants, asks for a workspace. We need no more than the
 * node, which stays where it is until discard. */
static braid_status null_prepare(void *self, const braid_kernel *kernel, const braid_node_desc *node, void **prepared,
                                 braid_prepared_info *info) {
  (void)self, (void)kernel;
  *prepared = (void *)node;
  *info = (braid_prepared_info){0};
  return BRAID_OK;
}

/* What prepare will say, before it is called: plans are made of this. A backend that packs constants lists them here
 * and has `pack`. */
static braid_status null_query(void *self, const braid_kernel *kernel, const braid_node_desc *node, braid_query *out) {
  (void)self, (void)kernel, (void)node;
  *out = (braid_query){0};
  return BRAID_OK;
}

static void null_discard(void *self, void *prepared) {
  (void)self, (void)prepared;
}

/* --- tasks ---------------------------------------------------------------------------------------------------------
 */
static braid_status copy(const null_device *from, const braid_binding *source, const null_device *to,
                         const braid_binding *target) {
  const uint8_t *read = locate(from, source);
  uint8_t *write = locate(to, target);
  if (!read || !write || target->bytes < source->bytes)
    return braid_fail(BRAID_OUT_OF_RANGE, "a copy of %zu bytes does not fit its buffers", source->bytes);
  memmove(write, read, source->bytes);
  return BRAID_OK;
}

static braid_status null_run(void *context, const braid_task *task) {
  const null_device *device = context;
  switch (task->kind) {
  case BRAID_TASK_KERNEL: /* one input, one output */
    return copy(device, &task->bindings[0], device, &task->bindings[1]);
  case BRAID_TASK_COPY:
    return copy(task->source_device ? task->source_device : device, &task->source, device, &task->target);
  case BRAID_TASK_WRITE: {
    uint8_t *target = locate(device, &task->target);
    if (!target) return braid_fail(BRAID_OUT_OF_RANGE, "a write of %zu bytes does not fit", task->target.bytes);
    memcpy(target, task->host, task->target.bytes);
    return BRAID_OK;
  }
  case BRAID_TASK_READ: {
    const uint8_t *source = locate(device, &task->source);
    if (!source) return braid_fail(BRAID_OUT_OF_RANGE, "a read of %zu bytes does not fit", task->source.bytes);
    memcpy(task->host, source, task->source.bytes);
    return BRAID_OK;
  }
  }
  return braid_fail(BRAID_UNSUPPORTED, "task kind %d", (int)task->kind);
}

static const braid_host_queue_ops kQueueOps = {.run = null_run};

static braid_status null_queue_create(void *self, braid_timeline *timeline, void **queue) {
  null_device *device = self;
  return braid_host_queue_create(device->allocator, "braid null", &kQueueOps, device, timeline,
                                 (braid_host_queue **)queue);
}

static void null_queue_destroy(void *self, void *queue) {
  (void)self;
  braid_host_queue_destroy(queue);
}

static braid_status null_submit(void *queue, braid_task *task) {
  return braid_host_queue_submit(queue, task);
}

/* Optional: the tasks of a plan are taken once and run again by one call. */
static braid_status null_record(void *queue, braid_task *const *tasks, size_t count, void **recording) {
  return braid_host_queue_record(queue, tasks, count, recording);
}

static void null_erase(void *queue, void *recording) {
  braid_host_queue_erase(queue, recording);
}

static braid_status null_replay(void *queue, void *recording, uint64_t first) {
  return braid_host_queue_replay(queue, recording, first);
}

/* All null devices are memory of this process. */
static bool null_peer(void *self, void *other) {
  (void)self, (void)other;
  return true;
}

const braid_backend braid_backend_null = {
    .abi = BRAID_DEVICE_ABI,
    .size = sizeof(braid_backend),
    .name = "null",
    .enumerate = null_enumerate,
    .open = null_open,
    .close = null_close,
    .info = null_info,
    .kernels = null_kernels,
    .prepare = null_prepare,
    .discard = null_discard,
    .buffer_create = null_buffer_create,
    .buffer_destroy = null_buffer_destroy,
    .queue_create = null_queue_create,
    .queue_destroy = null_queue_destroy,
    .submit = null_submit,
    .peer = null_peer,
    .read_memory = null_read_memory,
    .query = null_query,
    .record = null_record,
    .erase = null_erase,
    .replay = null_replay,
    .marks_begun = true,
};
