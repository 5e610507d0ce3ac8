/* Two devices that compute on this CPU, and take the time and draw the power that a test sets. They report the time
 * that was set, whatever else this machine does. */
#ifndef BRAID_STEERING_SLOW_DEVICES_H
#define BRAID_STEERING_SLOW_DEVICES_H

#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/cpu/prepared.h"
#include "base/clock.h"
#include "braid/host_queue.h"

extern const braid_backend braid_backend_cpu;

typedef struct slow_state {
  const char *name, *kind;
  double factor;      /* a kernel takes so many times what seconds_of says */
  double watts, idle; /* while a kernel runs, and else */
  bool refuses;       /* the second convolution */
  double hidden;    /* seconds that a kernel waits, before its own time, in a step that the other device runs in, too */
  uint32_t broken;  /* atomic; its sensor */
  uint32_t running; /* atomic */
  uint32_t used;    /* atomic; a kernel ran in this step */
} slow_state;
static slow_state slow[2] = {{.name = "left", .kind = "gpu"}, {.name = "right", .kind = "cpu"}};
static bool metered; /* the devices have a power sensor */

/* Where a task's times are to be written. A queue of the host would write its own there. */
enum { kMostTasks = 4096 };
typedef struct slow_clock {
  const braid_task *task;
  braid_timing *timing;
} slow_clock;

typedef struct slow_device {
  pthread_mutex_t lock; /* of the clocks */
  slow_clock clocks[kMostTasks];
  size_t clock_count;
  void *cpu;
  slow_state *state;
  const braid_allocator *allocator;
} slow_device;

static void *inner(void *self) {
  return ((slow_device *)self)->cpu;
}

static void slow_describe(const slow_state *state, braid_device_info *info) {
  snprintf(info->name, sizeof info->name, "%s", state->name);
  snprintf(info->kind, sizeof info->kind, "%s", state->kind);
}

static braid_status slow_enumerate(braid_device_info *infos, size_t capacity, size_t *count) {
  *count = 2;
  for (size_t i = 0; i < 2 && i < capacity; i++) {
    size_t one;
    braid_status status = braid_backend_cpu.enumerate(&infos[i], 1, &one);
    if (status != BRAID_OK) return status;
    slow_describe(&slow[i], &infos[i]);
  }
  return BRAID_OK;
}

static braid_status slow_open(const braid_allocator *allocator, size_t index, const char *options, void **out) {
  slow_device *device = braid_zalloc(allocator, sizeof *device);
  (void)options;
  *out = device;
  if (!device) return BRAID_NO_MEMORY;
  device->state = &slow[index];
  device->allocator = allocator;
  pthread_mutex_init(&device->lock, NULL);
  return braid_backend_cpu.open(allocator, 0, "threads=1", &device->cpu);
}

static void slow_close(void *self) {
  slow_device *device = self;
  braid_backend_cpu.close(device->cpu);
  braid_free(device->allocator, device);
}

static void slow_info(void *self, braid_device_info *info) {
  braid_backend_cpu.info(inner(self), info);
  slow_describe(((slow_device *)self)->state, info);
}

static const braid_kernel *const *slow_kernels(void *self, size_t *count) {
  return braid_backend_cpu.kernels(inner(self), count);
}

static bool slow_match(void *self, const braid_kernel *kernel, const braid_node_desc *node, char *why,
                       size_t why_bytes) {
  (void)kernel;
  bool refused =
      ((slow_device *)self)->state->refuses && !strcmp(node->op, "Conv") && node->inputs[0].desc.dims[1] == 8;
  if (refused) snprintf(why, why_bytes, "it takes no eight channels");
  return !refused;
}

static braid_status slow_prepare(void *self, const braid_kernel *kernel, const braid_node_desc *node, void **prepared,
                                 braid_prepared_info *info) {
  return braid_backend_cpu.prepare(inner(self), kernel, node, prepared, info);
}

static void slow_discard(void *self, void *prepared) {
  braid_backend_cpu.discard(inner(self), prepared);
}

static braid_status slow_query(void *self, const braid_kernel *kernel, const braid_node_desc *node, braid_query *out) {
  return braid_backend_cpu.query(inner(self), kernel, node, out);
}

static braid_status slow_pack(void *self, void *prepared, uint32_t input, const void *plain, void *packed) {
  return braid_backend_cpu.pack(inner(self), prepared, input, plain, packed);
}

static braid_status slow_buffer_create(void *self, size_t bytes, void **out) {
  return braid_backend_cpu.buffer_create(inner(self), bytes, out);
}

static void slow_buffer_destroy(void *self, void *buffer) {
  braid_backend_cpu.buffer_destroy(inner(self), buffer);
}

static void *slow_buffer_map(void *self, void *buffer) {
  return braid_backend_cpu.buffer_map(inner(self), buffer);
}

static void *locate(slow_device *device, const braid_binding *binding) {
  if (binding->host || !binding->buffer) return binding->host;
  return (uint8_t *)slow_buffer_map(device, binding->buffer) + binding->offset;
}

static braid_status run_kernel(slow_device *device, const braid_task *task) {
  braid_cpu_prepared *prepared = task->prepared;
  const braid_binding *bindings = task->bindings;
  for (size_t i = 0; i < task->input_count; i++) prepared->inputs[i] = locate(device, &bindings[i]);
  bindings += task->input_count;
  for (size_t i = 0; i < task->output_count; i++) prepared->outputs[i] = locate(device, &bindings[i]);
  return braid_cpu_run(prepared, locate(device, &bindings[task->output_count]));
}

static double seconds_of(const braid_task *task) {
  double bytes = 0;
  for (size_t i = 0; i < task->input_count + task->output_count; i++) bytes += (double)task->bindings[i].bytes;
  return 100e-6 + bytes * 20e-12;
}

/* timing NULL: as it was set. */
static braid_timing *use_clock(slow_device *device, const braid_task *task, braid_timing *timing) {
  size_t i = 0;
  pthread_mutex_lock(&device->lock);
  while (i < device->clock_count && device->clocks[i].task != task) i++;
  if (i == kMostTasks) abort();
  if (timing) device->clocks[i] = (slow_clock){task, timing};
  if (i == device->clock_count) device->clock_count++;
  timing = device->clocks[i].timing;
  pthread_mutex_unlock(&device->lock);
  return timing;
}

/* What no operation's time shows. */
static void wait_for_other(const slow_device *device) {
  const slow_state *other = &slow[device->state == &slow[0]];
  if (device->state->hidden > 0 && __atomic_load_n(&other->used, __ATOMIC_ACQUIRE))
    usleep((useconds_t)(device->state->hidden * 1e6));
}

static braid_status slow_task(void *context, const braid_task *task) {
  slow_device *device = context;
  if (task->kind == BRAID_TASK_KERNEL) {
    wait_for_other(device);
    int64_t began = braid_now_ns(), end = began + (int64_t)(seconds_of(task) * device->state->factor * 1e9);
    __atomic_store_n(&device->state->running, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&device->state->used, 1, __ATOMIC_RELEASE);
    braid_status status = run_kernel(device, task);
    while (braid_now_ns() < end) usleep(20);
    __atomic_store_n(&device->state->running, 0, __ATOMIC_RELEASE);
    *use_clock(device, task, NULL) = (braid_timing){.start_ns = began, .end_ns = end, .energy_uj = -1};
    return status;
  }
  bool reads = task->kind == BRAID_TASK_READ, writes = task->kind == BRAID_TASK_WRITE;
  memmove(reads ? task->host : locate(device, &task->target), writes ? task->host : locate(device, &task->source),
          writes ? task->target.bytes : task->source.bytes);
  return BRAID_OK;
}

static void slow_enter(void *context) {
  (void)context;
  omp_set_num_threads(1);
}

typedef struct slow_queue {
  slow_device *device;
  braid_host_queue *inner;
} slow_queue;

static braid_status slow_queue_create(void *self, braid_timeline *timeline, void **out) {
  static const braid_host_queue_ops kOps = {.enter = slow_enter, .run = slow_task};
  slow_device *device = self;
  slow_queue *queue = braid_zalloc(device->allocator, sizeof *queue);
  *out = queue;
  if (!queue) return BRAID_NO_MEMORY;
  queue->device = device;
  return braid_host_queue_create(device->allocator, "slow", &kOps, self, timeline, &queue->inner);
}

static void slow_queue_destroy(void *self, void *queue) {
  braid_host_queue_destroy(((slow_queue *)queue)->inner);
  braid_free(((slow_device *)self)->allocator, queue);
}

/* An execution sets a task's timing when it is made. */
static braid_status slow_submit(void *queue, braid_task *task) {
  slow_queue *q = queue;
  if (task->kind == BRAID_TASK_KERNEL && task->timing) {
    use_clock(q->device, task, task->timing);
    task->timing = NULL;
  }
  return braid_host_queue_submit(q->inner, task);
}

static braid_status slow_power(void *self, double *watts) {
  const slow_state *state = ((slow_device *)self)->state;
  if (__atomic_load_n(&state->broken, __ATOMIC_ACQUIRE)) return BRAID_IO;
  *watts = __atomic_load_n(&state->running, __ATOMIC_ACQUIRE) ? state->watts : state->idle;
  return metered ? BRAID_OK : BRAID_UNSUPPORTED;
}

static const braid_backend kSlow = {
    .abi = BRAID_DEVICE_ABI,
    .size = sizeof(braid_backend),
    .name = "slow",
    .enumerate = slow_enumerate,
    .open = slow_open,
    .close = slow_close,
    .info = slow_info,
    .kernels = slow_kernels,
    .match = slow_match,
    .prepare = slow_prepare,
    .discard = slow_discard,
    .buffer_create = slow_buffer_create,
    .buffer_destroy = slow_buffer_destroy,
    .queue_create = slow_queue_create,
    .queue_destroy = slow_queue_destroy,
    .submit = slow_submit,
    .buffer_map = slow_buffer_map,
    .query = slow_query,
    .pack = slow_pack,
    .read_power = slow_power,
};

#endif
