/* A backend outside of the library: a device with memory of its own that adds, multiplies matrices and rectifies.
 *
 *   cc -shared -fPIC plugin.c -o plugin.so $(pkg-config --cflags braid)
 *   braid devices --plugin ./plugin.so --check tutor
 *   braid run model.onnx --plugin ./plugin.so --device "tutor cpu" --input x.npy --explain
 *
 * docs/new-device.md explains it from top to bottom. Work is done by a thread of the host, a braid_host_queue; a real
 * driver's queue would take its place. */
#include <braid/host_queue.h>
#include <braid/plugin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

typedef struct tutor {
  const braid_allocator *allocator;
  size_t bytes, in_use; /* of the memory that we play */
} tutor;

typedef struct buffer {
  size_t bytes;
  uint8_t *data;
} buffer;

/* --- devices --- */
static void describe(braid_device_info *info, size_t bytes) {
  *info = (braid_device_info){.name = "tutor",
                              .kind = "tutor",
                              .description = "an example of a plug-in",
                              .memory = BRAID_MEMORY_SEPARATE,
                              .max_queues = 4,
                              .compute_units = 1,
                              .memory_bytes = bytes,
                              .alignment = ALIGNMENT,
                              .measures_time = true};
}

static const size_t DEFAULT_BYTES = (size_t)1 << 30;

static braid_status enumerate(braid_device_info *infos, size_t capacity, size_t *count) {
  *count = 1;
  if (capacity) describe(&infos[0], DEFAULT_BYTES);
  return BRAID_OK;
}

/* The only option: memory=BYTES. */
static braid_status open_device(const braid_allocator *allocator, size_t index, const char *options, void **out) {
  *out = NULL;
  unsigned long long bytes = DEFAULT_BYTES;
  char left;
  if (index > 0) return braid_fail(BRAID_NOT_FOUND, "there is one device");
  if (options && (sscanf(options, "memory=%llu%c", &bytes, &left) != 1 || bytes < ALIGNMENT))
    return braid_fail(BRAID_INVALID_ARGUMENT, "option \"%.80s\": expected memory=BYTES", options);
  tutor *self = braid_zalloc(allocator, sizeof *self);
  if (!self) return BRAID_NO_MEMORY;
  *self = (tutor){.allocator = allocator, .bytes = (size_t)bytes};
  *out = self;
  return BRAID_OK;
}

static void close_device(void *device) {
  braid_free(((tutor *)device)->allocator, device);
}

static void device_info(void *device, braid_device_info *info) {
  describe(info, ((tutor *)device)->bytes);
}

/* --- memory --- */
static braid_status buffer_create(void *device, size_t bytes, void **out) {
  tutor *self = device;
  *out = NULL;
  if (bytes > self->bytes - self->in_use)
    return braid_fail(BRAID_NO_MEMORY, "%zu bytes requested, %zu of %zu are free", bytes, self->bytes - self->in_use,
                      self->bytes);
  buffer *made = braid_zalloc(self->allocator, sizeof *made);
  if (made) made->data = braid_alloc(self->allocator, bytes);
  if (!made || !made->data) {
    braid_free(self->allocator, made);
    return BRAID_NO_MEMORY;
  }
  made->bytes = bytes;
  self->in_use += bytes;
  *out = made;
  return BRAID_OK;
}

static void buffer_destroy(void *device, void *which) {
  tutor *self = device;
  buffer *gone = which;
  self->in_use -= gone->bytes;
  braid_free(self->allocator, gone->data);
  braid_free(self->allocator, gone);
}

/* Where a binding lies; NULL if it does not lie in its buffer. */
static void *locate(const braid_binding *binding) {
  const buffer *in = binding->buffer;
  if (!in || binding->offset > in->bytes || binding->bytes > in->bytes - binding->offset) return NULL;
  return in->data + binding->offset;
}

/* --- kernels: float32, PLAIN --- */
static bool all_float(const braid_node_desc *node, char *why, size_t why_bytes) {
  for (size_t i = 0; i < node->input_count + node->output_count; i++) {
    const braid_operand *operand = i < node->input_count ? &node->inputs[i] : &node->outputs[i - node->input_count];
    if (!operand->present || operand->desc.dtype == BRAID_F32) continue;
    snprintf(why, why_bytes, "float32 only, not %s", braid_dtype_name(operand->desc.dtype));
    return false;
  }
  return true;
}

static bool match_add(const braid_node_desc *node, char *why, size_t why_bytes) {
  if (!all_float(node, why, why_bytes)) return false;
  if (braid_desc_same_shape(&node->inputs[0].desc, &node->inputs[1].desc)) return true;
  snprintf(why, why_bytes, "no broadcasting");
  return false;
}

static bool match_matmul(const braid_node_desc *node, char *why, size_t why_bytes) {
  if (!all_float(node, why, why_bytes)) return false;
  bool plain = !braid_attr_int(node->attrs, "transA", 0) && !braid_attr_int(node->attrs, "transB", 0) &&
               braid_attr_float(node->attrs, "alpha", 1) == 1; /* Braid's own attributes: training sets them */
  if (plain && node->inputs[0].desc.rank == 2 && node->inputs[1].desc.rank == 2) return true;
  snprintf(why, why_bytes, "two matrices only, neither transposed nor scaled");
  return false;
}

typedef void compute(const braid_node_desc *node, const float *const *inputs, float *output);

static void run_relu(const braid_node_desc *node, const float *const *inputs, float *output) {
  int64_t count = braid_desc_count(&node->outputs[0].desc);
  for (int64_t i = 0; i < count; i++) output[i] = inputs[0][i] < 0 ? 0 : inputs[0][i];
}

static void run_add(const braid_node_desc *node, const float *const *inputs, float *output) {
  int64_t count = braid_desc_count(&node->outputs[0].desc);
  for (int64_t i = 0; i < count; i++) output[i] = inputs[0][i] + inputs[1][i];
}

static void run_matmul(const braid_node_desc *node, const float *const *inputs, float *output) {
  int64_t rows = node->outputs[0].desc.dims[0], columns = node->outputs[0].desc.dims[1];
  int64_t inner = node->inputs[0].desc.dims[1];
  memset(output, 0, (size_t)(rows * columns) * sizeof *output);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t k = 0; k < inner; k++)
      for (int64_t c = 0; c < columns; c++)
        output[r * columns + c] += inputs[0][r * inner + k] * inputs[1][k * columns + c];
}

/* braid_kernel.implementation is ours: an object that holds the function. */
typedef struct implementation {
  compute *run;
} implementation;
static const implementation RELU = {run_relu}, ADD = {run_add}, MATMUL = {run_matmul};

/* Relu and Add may write over their first input. */
static const braid_kernel KERNELS[] = {
    {.op = "Relu", .name = "tutor_relu", .match = all_float, .in_place = 1u << 0, .implementation = &RELU},
    {.op = "Add", .name = "tutor_add", .match = match_add, .in_place = 1u << 0, .implementation = &ADD},
    {.op = "MatMul", .name = "tutor_matmul", .match = match_matmul, .implementation = &MATMUL},
};
static const braid_kernel *const LIST[] = {&KERNELS[0], &KERNELS[1], &KERNELS[2]};

static const braid_kernel *const *list_kernels(void *device, size_t *count) {
  (void)device;
  *count = sizeof LIST / sizeof *LIST;
  return LIST;
}

typedef struct prepared {
  compute *run;
  const braid_node_desc *node; /* stays until discard */
} prepared;

static braid_status prepare(void *device, const braid_kernel *kernel, const braid_node_desc *node, void **out,
                            braid_prepared_info *info) {
  prepared *made = braid_zalloc(((tutor *)device)->allocator, sizeof *made);
  *out = made;
  *info = (braid_prepared_info){0};
  if (!made) return BRAID_NO_MEMORY;
  made->run = ((const implementation *)kernel->implementation)->run;
  made->node = node;
  return BRAID_OK;
}

static void discard(void *device, void *gone) {
  braid_free(((tutor *)device)->allocator, gone);
}

/* --- tasks --- */
static braid_status outside(size_t bytes) {
  return braid_fail(BRAID_OUT_OF_RANGE, "a task reaches outside of its buffers (%zu bytes)", bytes);
}

static braid_status run_kernel(const braid_task *task) {
  const prepared *kernel = task->prepared;
  const float *inputs[2] = {NULL, NULL};
  float *output = locate(&task->bindings[task->input_count]);
  for (size_t i = 0; i < task->input_count; i++) {
    inputs[i] = locate(&task->bindings[i]);
    if (!inputs[i]) return outside(task->bindings[i].bytes);
  }
  if (!output) return outside(task->bindings[task->input_count].bytes);
  kernel->run(kernel->node, inputs, output);
  return BRAID_OK;
}

static braid_status run_task(void *context, const braid_task *task) {
  (void)context;
  void *source = locate(&task->source), *target = locate(&task->target);
  switch (task->kind) {
  case BRAID_TASK_KERNEL:
    return run_kernel(task);
  case BRAID_TASK_WRITE:
    if (!target) return outside(task->target.bytes);
    memcpy(target, task->host, task->target.bytes);
    return BRAID_OK;
  case BRAID_TASK_READ:
    if (!source) return outside(task->source.bytes);
    memcpy(task->host, source, task->source.bytes);
    return BRAID_OK;
  case BRAID_TASK_COPY:
    if (!source || !target || task->target.bytes < task->source.bytes) return outside(task->source.bytes);
    memmove(target, source, task->source.bytes);
    return BRAID_OK;
  }
  return braid_fail(BRAID_UNSUPPORTED, "task kind %d", (int)task->kind);
}

static braid_status queue_create(void *device, braid_timeline *timeline, void **queue) {
  static const braid_host_queue_ops OPS = {.run = run_task};
  return braid_host_queue_create(((tutor *)device)->allocator, "tutor", &OPS, device, timeline,
                                 (braid_host_queue **)queue);
}

static void queue_destroy(void *device, void *queue) {
  (void)device;
  braid_host_queue_destroy(queue);
}

static braid_status submit(void *queue, braid_task *task) {
  return braid_host_queue_submit(queue, task);
}

static const braid_backend BACKEND = {
    .abi = BRAID_DEVICE_ABI,
    .size = sizeof(braid_backend),
    .name = "tutor",
    .enumerate = enumerate,
    .open = open_device,
    .close = close_device,
    .info = device_info,
    .kernels = list_kernels,
    .prepare = prepare,
    .discard = discard,
    .buffer_create = buffer_create,
    .buffer_destroy = buffer_destroy,
    .queue_create = queue_create,
    .queue_destroy = queue_destroy,
    .submit = submit,
};
BRAID_PLUGIN(BACKEND)
