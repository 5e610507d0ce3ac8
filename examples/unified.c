/* A second backend outside of the library: a device that works on the host's memory, and shows what plugin.c does not
 * need: addresses instead of transfers, kernels that ask for a layout, a workspace, constants that are taken over.
 *
 *   cc -shared -fPIC unified.c -o unified.so $(pkg-config --cflags braid)
 *   braid devices --plugin ./unified.so --check pixels
 *   braid run model.onnx --plugin ./unified.so --device "pixels cpu" --input x.npy --explain
 *
 * docs/new-device.md explains it, "Unified memory" and "Kernels". */
#include <braid/host_queue.h>
#include <braid/plugin.h>
#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 64 };

typedef struct pixels {
  const braid_allocator *allocator;
} pixels;

typedef struct buffer {
  size_t bytes;
  uint8_t *data;
} buffer;

/* --- devices --- */
static void describe(braid_device_info *info) {
  *info = (braid_device_info){.name = "pixels",
                              .kind = "pixels",
                              .description = "an example of a plug-in with unified memory",
                              .memory = BRAID_MEMORY_UNIFIED,
                              .max_queues = 2,
                              .compute_units = 1,
                              .alignment = ALIGNMENT,
                              .host_alignment = 1, /* an element's own alignment is enough */
                              .measures_time = true};
}

static braid_status enumerate(braid_device_info *infos, size_t capacity, size_t *count) {
  *count = 1;
  if (capacity) describe(&infos[0]);
  return BRAID_OK;
}

static braid_status open_device(const braid_allocator *allocator, size_t index, const char *options, void **out) {
  *out = NULL;
  if (index > 0) return braid_fail(BRAID_NOT_FOUND, "there is one device");
  if (options) return braid_fail(BRAID_INVALID_ARGUMENT, "option \"%.80s\": there are none", options);
  pixels *self = braid_zalloc(allocator, sizeof *self);
  if (!self) return BRAID_NO_MEMORY;
  self->allocator = allocator;
  *out = self;
  return BRAID_OK;
}

static void close_device(void *device) {
  braid_free(((pixels *)device)->allocator, device);
}

static void device_info(void *device, braid_device_info *info) {
  (void)device;
  describe(info);
}

/* --- memory --- */
static braid_status buffer_create(void *device, size_t bytes, void **out) {
  const braid_allocator *allocator = ((pixels *)device)->allocator;
  *out = NULL;
  buffer *made = braid_zalloc(allocator, sizeof *made);
  if (made) made->data = braid_alloc(allocator, bytes);
  if (!made || !made->data) {
    braid_free(allocator, made);
    return braid_fail(BRAID_NO_MEMORY, "%zu bytes requested, and the host has them not", bytes);
  }
  made->bytes = bytes;
  *out = made;
  return BRAID_OK;
}

static void buffer_destroy(void *device, void *which) {
  braid_free(((pixels *)device)->allocator, ((buffer *)which)->data);
  braid_free(((pixels *)device)->allocator, which);
}

/* What makes the memory unified: the host may read and write here, without a transfer. */
static void *buffer_map(void *device, void *which) {
  (void)device;
  return ((buffer *)which)->data;
}

/* Where a binding lies; NULL if it does not lie in its buffer. Where there is an address it is the place, and the
 * offset is in it already; without a buffer nothing can be checked. */
static void *locate(const braid_binding *binding) {
  const buffer *in = binding->buffer;
  if (!in) return binding->host;
  if (binding->offset > in->bytes || binding->bytes > in->bytes - binding->offset) return NULL;
  return binding->host ? binding->host : in->data + binding->offset;
}

/* --- kernels: what they take --- */
static bool all_float(const braid_node_desc *node, char *why, size_t why_bytes) {
  for (size_t i = 0; i < node->input_count + node->output_count; i++) {
    const braid_operand *operand = i < node->input_count ? &node->inputs[i] : &node->outputs[i - node->input_count];
    if (!operand->present || operand->desc.dtype == BRAID_F32) continue;
    snprintf(why, why_bytes, "float32 only, not %s", braid_dtype_name(operand->desc.dtype));
    return false;
  }
  return true;
}

static bool match_conv(const braid_node_desc *node, char *why, size_t why_bytes) {
  if (!all_float(node, why, why_bytes)) return false;
  bool images = node->inputs[0].desc.rank == 4, groups = braid_attr_int(node->attrs, "group", 1) != 1;
  if (images && !groups && !braid_attr_has(node->attrs, "auto_pad")) return true;
  snprintf(why, why_bytes, "images in one group, with pads in numbers");
  return false;
}

/* --- kernels: layouts ---
 * The convolution wants images with channels last, and all else plain: the runtime converts, or the kernel before gives
 * it so. What is left as it is comes in any layout. */
static void conv_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  for (size_t i = 1; i < node->input_count; i++) inputs[i] = BRAID_LAYOUT_PLAIN;
  inputs[0] = BRAID_LAYOUT_BHWC;
  outputs[0] = BRAID_LAYOUT_BHWC;
}

/* Relu takes what comes and gives it on, so that nothing is converted between two convolutions. */
static void relu_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  (void)node;
  if (inputs[0] == BRAID_LAYOUT_ANY) inputs[0] = BRAID_LAYOUT_PLAIN;
  outputs[0] = inputs[0];
}

/* --- kernels: what they do ---
 * A prepared kernel holds nothing of a task, so that tasks may share it (shares_prepared). */
typedef struct prepared prepared;
typedef void compute(const prepared *kernel, const float *const *inputs, float *output, float *workspace);
struct prepared {
  compute *run;
  const braid_node_desc *node;
  size_t workspace_bytes;
  float *weights, *bias; /* constants that were taken over; NULL: they come with each task */
};

/* Of all memory: the zeros that pad a blocked layout stay zeros. */
static void run_relu(const prepared *kernel, const float *const *inputs, float *output, float *workspace) {
  (void)workspace;
  size_t count = braid_desc_bytes(&kernel->node->outputs[0].desc) / sizeof *output;
  for (size_t i = 0; i < count; i++) output[i] = inputs[0][i] < 0 ? 0 : inputs[0][i];
}

typedef struct window {
  int64_t pads[2], strides[2], dilations[2];
} window;

static window window_of(const braid_node_desc *node) {
  size_t count;
  const int64_t *pads = braid_attr_ints(node->attrs, "pads", &count);
  const int64_t *strides = braid_attr_ints(node->attrs, "strides", &count);
  const int64_t *dilations = braid_attr_ints(node->attrs, "dilations", &count);
  window w = {{0, 0}, {1, 1}, {1, 1}};
  for (int i = 0; i < 2; i++) {
    if (pads) w.pads[i] = pads[i];
    if (strides) w.strides[i] = strides[i];
    if (dilations) w.dilations[i] = dilations[i];
  }
  return w;
}

/* Elements of the window over all channels. */
static int64_t patch_size(const braid_node_desc *node) {
  const int64_t *df = node->inputs[1].desc.dims;
  return df[1] * df[2] * df[3];
}

/* From [filter][channel][y][x] to [y][x][channel][filter]: as the innermost loop reads them. */
static void turn_weights(const braid_node_desc *node, const float *plain, float *turned) {
  const int64_t *df = node->inputs[1].desc.dims;
  int64_t places = df[2] * df[3];
  for (int64_t m = 0; m < df[0]; m++)
    for (int64_t c = 0; c < df[1]; c++)
      for (int64_t p = 0; p < places; p++) turned[(p * df[1] + c) * df[0] + m] = plain[(m * df[1] + c) * places + p];
}

/* The window at one place of the image, zeros where it reaches beyond. */
static void read_patch(const braid_node_desc *node, const window *w, const float *image, int64_t oy, int64_t ox,
                       float *patch) {
  const int64_t *dx = node->inputs[0].desc.dims, *df = node->inputs[1].desc.dims;
  size_t bytes = (size_t)dx[1] * sizeof *patch;
  for (int64_t ky = 0; ky < df[2]; ky++)
    for (int64_t kx = 0; kx < df[3]; kx++, patch += dx[1]) {
      int64_t y = oy * w->strides[0] + ky * w->dilations[0] - w->pads[0];
      int64_t x = ox * w->strides[1] + kx * w->dilations[1] - w->pads[1];
      if (y < 0 || y >= dx[2] || x < 0 || x >= dx[3])
        memset(patch, 0, bytes);
      else
        memcpy(patch, image + (y * dx[3] + x) * dx[1], bytes);
    }
}

/* The workspace holds a patch and, behind it, the turned weights if they were not known beforehand. */
static void run_conv(const prepared *kernel, const float *const *inputs, float *output, float *workspace) {
  const braid_node_desc *node = kernel->node;
  const int64_t *dx = node->inputs[0].desc.dims, *dy = node->outputs[0].desc.dims;
  int64_t size = patch_size(node), filters = dy[1];
  const float *weights = kernel->weights, *bias = kernel->bias ? kernel->bias : inputs[2];
  window w = window_of(node);
  if (!weights) {
    turn_weights(node, inputs[1], workspace + size);
    weights = workspace + size;
  }
  for (int64_t n = 0; n < dy[0]; n++)
    for (int64_t y = 0; y < dy[2]; y++)
      for (int64_t x = 0; x < dy[3]; x++, output += filters) {
        read_patch(node, &w, inputs[0] + n * dx[1] * dx[2] * dx[3], y, x, workspace);
        for (int64_t m = 0; m < filters; m++) output[m] = bias ? bias[m] : 0;
        for (int64_t k = 0; k < size; k++)
          for (int64_t m = 0; m < filters; m++) output[m] += workspace[k] * weights[k * filters + m];
      }
}

typedef struct implementation {
  compute *run;
} implementation;
static const implementation RELU = {run_relu}, CONV = {run_conv};
static const braid_kernel KERNELS[] = {
    {.op = "Relu",
     .name = "pixels_relu",
     .match = all_float,
     .layouts = relu_layouts,
     .in_place = 1u << 0,
     .implementation = &RELU},
    {.op = "Conv", .name = "pixels_conv", .match = match_conv, .layouts = conv_layouts, .implementation = &CONV},
};
static const braid_kernel *const LIST[] = {&KERNELS[0], &KERNELS[1]};

static const braid_kernel *const *list_kernels(void *device, size_t *count) {
  (void)device;
  *count = sizeof LIST / sizeof *LIST;
  return LIST;
}

static void discard(void *device, void *which) {
  const braid_allocator *allocator = ((pixels *)device)->allocator;
  prepared *gone = which;
  braid_free(allocator, gone->weights);
  braid_free(allocator, gone->bias);
  braid_free(allocator, gone);
}

/* What is known now is copied: the constants' contents may be gone when a task runs. */
static braid_status fold_constants(const braid_allocator *allocator, prepared *made, braid_prepared_info *info) {
  const braid_node_desc *node = made->node;
  const braid_operand *weights = &node->inputs[1], *bias = node->input_count > 2 ? &node->inputs[2] : NULL;
  if (weights->constant) {
    made->weights = braid_alloc(allocator, braid_desc_bytes(&weights->desc));
    if (!made->weights) return BRAID_NO_MEMORY;
    turn_weights(node, weights->constant, made->weights);
    info->constants_folded |= 1u << 1;
  }
  if (bias && bias->present && bias->constant) {
    made->bias = braid_alloc(allocator, braid_desc_bytes(&bias->desc));
    if (!made->bias) return BRAID_NO_MEMORY;
    memcpy(made->bias, bias->constant, braid_desc_bytes(&bias->desc));
    info->constants_folded |= 1u << 2;
  }
  info->workspace_bytes = (size_t)patch_size(node) * sizeof(float);
  if (!made->weights) info->workspace_bytes += braid_desc_bytes(&weights->desc);
  return BRAID_OK;
}

static braid_status prepare(void *device, const braid_kernel *kernel, const braid_node_desc *node, void **out,
                            braid_prepared_info *info) {
  const braid_allocator *allocator = ((pixels *)device)->allocator;
  *out = NULL;
  *info = (braid_prepared_info){0};
  prepared *made = braid_zalloc(allocator, sizeof *made);
  if (!made) return BRAID_NO_MEMORY;
  made->run = ((const implementation *)kernel->implementation)->run;
  made->node = node;
  braid_status status = made->run == run_conv ? fold_constants(allocator, made, info) : BRAID_OK;
  made->workspace_bytes = info->workspace_bytes;
  if (status == BRAID_OK)
    *out = made;
  else
    discard(device, made);
  return status;
}

/* --- tasks --- */
static braid_status outside(size_t bytes) {
  return braid_fail(BRAID_OUT_OF_RANGE, "a task reaches outside of its buffers (%zu bytes)", bytes);
}

static braid_status run_kernel(const braid_task *task) {
  const prepared *kernel = task->prepared;
  const float *inputs[3] = {NULL, NULL, NULL};
  const braid_binding *results = task->bindings + task->input_count;
  for (size_t i = 0; i < task->input_count; i++) {
    const braid_binding *binding = &task->bindings[i];
    if (!binding->buffer && !binding->host) continue; /* left out, or folded */
    inputs[i] = locate(binding);
    if (!inputs[i]) return outside(binding->bytes);
  }
  float *output = locate(&results[0]), *workspace = locate(&results[1]);
  if (!output) return outside(results[0].bytes);
  if (!workspace && kernel->workspace_bytes) return outside(results[1].bytes);
  kernel->run(kernel, inputs, output, workspace);
  return BRAID_OK;
}

/* Transfers are rare here: the runtime reads and writes through addresses. */
static braid_status run_task(void *context, const braid_task *task) {
  (void)context;
  if (task->kind == BRAID_TASK_KERNEL) return run_kernel(task);
  bool writes = task->kind == BRAID_TASK_WRITE, reads = task->kind == BRAID_TASK_READ;
  size_t bytes = writes ? task->target.bytes : task->source.bytes;
  void *from = writes ? task->host : locate(&task->source), *to = reads ? task->host : locate(&task->target);
  if (!from || !to || (!reads && task->target.bytes < bytes)) return outside(bytes);
  memmove(to, from, bytes);
  return BRAID_OK;
}

static braid_status queue_create(void *device, braid_timeline *timeline, void **queue) {
  static const braid_host_queue_ops OPS = {.run = run_task};
  return braid_host_queue_create(((pixels *)device)->allocator, "pixels", &OPS, device, timeline,
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
    .name = "pixels",
    .enumerate = enumerate,
    .open = open_device,
    .close = close_device,
    .info = device_info,
    .kernels = list_kernels,
    .prepare = prepare,
    .discard = discard,
    .buffer_create = buffer_create,
    .buffer_destroy = buffer_destroy,
    .buffer_map = buffer_map,
    .queue_create = queue_create,
    .queue_destroy = queue_destroy,
    .submit = submit,
    .marks_begun = true, /* a braid_host_queue does that */
    .shares_prepared = true,
};
BRAID_PLUGIN(BACKEND)
