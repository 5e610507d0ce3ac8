/* The example's device with a few more kernels, on memory of its own or (BRAID_MUTANT_MEMORY=unified) on the host's:
 * all of it right unless BRAID_MUTANT names a fault of mutants.def. The conformance suite passes the one and must fail
 * all the others. */
#include <float.h>
#include <math.h>

#include <braid/plugin.h>
#undef BRAID_PLUGIN
#define BRAID_PLUGIN(backend)
#include "../../examples/plugin.c"

static const char *fault = "";
static bool is_unified;

static bool is(const char *name) {
  return strcmp(fault, name) == 0;
}

/* --- where operands lie --- */
static void *host_of(const braid_binding *binding, bool kernel) {
  bool twice = is("host_offset") || (kernel && is("kernel_host_offset"));
  if (is("host_alone") && kernel && !binding->buffer) return NULL;
  if (is("host_aligned") && kernel && (uintptr_t)binding->host % (2 * sizeof(float))) return NULL;
  return (uint8_t *)binding->host + (twice && binding->buffer ? binding->offset : 0);
}

static void *find(const braid_binding *binding, bool kernel) {
  const buffer *in = binding->buffer;
  if (is_unified && binding->host) return host_of(binding, kernel);
  if (is_unified && is("buffer_alone") && in) return in->data;
  void *found = locate(binding);
  if (!found && in && (is("bounds") || (kernel && is("kernel_bounds")))) return in->data;
  return found;
}

/* Nobody frees it. */
static void keep_some(void) {
  static void *kept;
  void **more = malloc(64);
  if (!more) return;
  *more = kept;
  kept = more;
}

static void *map(void *device, void *which) {
  static uint8_t copy[1 << 20];
  (void)device;
  return is("map_copy") ? copy : ((buffer *)which)->data;
}

static braid_status create(void *device, size_t bytes, void **out) {
  static uint8_t *common;
  tutor *self = device;
  braid_status status = buffer_create(device, bytes, out);
  if (status != BRAID_OK && is("full")) return braid_fail(BRAID_INTERNAL, "something went wrong");
  if (status != BRAID_OK && is("full_pointer")) *out = device;
  if (status != BRAID_OK) return status;
  buffer *made = *out;
  if (is("map_alignment")) {
    braid_free(self->allocator, made->data);
    made->data = (uint8_t *)braid_alloc(self->allocator, bytes + ALIGNMENT) + 4;
  }
  if (is("host_offset") || is("kernel_host_offset")) { /* room for what they do wrong */
    braid_free(self->allocator, made->data);
    made->data = braid_alloc(self->allocator, 2 * bytes + ALIGNMENT);
  }
  if (is("overlap") && bytes <= 16 << 20) {
    if (!common) common = braid_alloc(NULL, 32 << 20);
    made->data = common;
  }
  return BRAID_OK;
}

static void destroy(void *device, void *which) {
  tutor *self = device;
  buffer *gone = which;
  if (is("leak")) self->in_use += gone->bytes;
  if (is("buffer_leak")) keep_some();
  if (is("map_alignment")) gone->data -= 4;
  if (is("overlap") && gone->bytes <= 16 << 20) gone->data = NULL;
  buffer_destroy(device, which);
}

/* --- kernels --- */
typedef struct mine mine;
typedef void work(const mine *kernel, const float *const *in, float *out, float *workspace);
struct mine {
  work *run;
  const braid_node_desc *node;
  float *packed, *first; /* a folded constant; a first result */
  int64_t runs;
};

static int64_t elements(const mine *kernel) {
  return braid_desc_count(&kernel->node->outputs[0].desc);
}

static int64_t latest; /* elements of the node prepared last */

static void relu(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  int64_t count = elements(kernel);
  if (is("relu_static") && latest < count) count = latest;
  if (is("relu_4096") && count > 4096) count = 4096;
  if (is("relu_65536") && count > 65535) count = 65535;
  if (is("relu_rank") && kernel->node->outputs[0].desc.rank > 4) count /= kernel->node->outputs[0].desc.dims[4];
  if (is("relu_last") && count > 1 && count % 16 == 1) count--;
  if (is("relu_tail")) count &= ~(int64_t)7;
  if (is("relu_types")) count = count * (int64_t)braid_dtype_size(kernel->node->outputs[0].desc.dtype) / 4;
  if (is("relu_spill")) count = (count + 7) & ~(int64_t)7;
  for (int64_t i = 0; i < count; i++) {
    float x = in[0][i];
    if (is("relu_infinity") && isinf(x)) x = copysignf(FLT_MAX, x);
    out[i] = is("relu_nan") ? (x > 0 ? x : 0) : is("relu_sigmoid") ? 1 / (1 + expf(-x)) : x < 0 ? 0 : x;
  }
}

static void add(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  int64_t count = elements(kernel);
  if (is("add_in_place")) { /* two passes: the first writes over the second input */
    memcpy(out, in[0], (size_t)count * sizeof *out);
    for (int64_t i = 0; i < count; i++) out[i] += in[1][i];
    return;
  }
  int64_t more = braid_desc_count(&kernel->node->inputs[1].desc), own = braid_desc_count(&kernel->node->inputs[0].desc);
  for (int64_t i = 0; i < count; i++) out[i] = in[0][own ? i % own : 0] + in[1][more ? i % more : 0];
}

static void matmul(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  const braid_node_desc *node = kernel->node;
  int64_t rows = node->outputs[0].desc.dims[0], columns = node->outputs[0].desc.dims[1];
  int64_t inner = node->inputs[0].desc.dims[1], used = is("matmul_64") && inner > 64 ? 64 : inner;
  if (is("matmul_256") && used > 256) used = 256;
  const float *b = kernel->packed ? kernel->packed : in[1];
  if (is("matmul_input") && inner && rows) ((float *)in[0])[0] += 1;
  memset(out, 0, (size_t)(rows * columns) * sizeof *out);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t k = 0; k < used; k++)
      for (int64_t c = 0; c < columns; c++) out[r * columns + c] += in[0][r * inner + k] * b[k * columns + c];
  if (is("matmul_input") && inner && rows) out[0] -= b[0];
}

static void leaky(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  float alpha = is("leaky_alpha") ? 0.01f : (float)braid_attr_float(kernel->node->attrs, "alpha", 0.01);
  for (int64_t i = 0; i < elements(kernel); i++) out[i] = in[0][i] < 0 ? alpha * in[0][i] : in[0][i];
}

static void softmax(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  const braid_desc *x = &kernel->node->inputs[0].desc;
  int64_t axis = is("softmax_axis") ? -1 : braid_attr_int(kernel->node->attrs, "axis", -1), stride = 1;
  if (axis < 0) axis += is("softmax_negative") ? -1 - axis + x->rank : x->rank;
  for (int i = x->rank - 1; i > axis; i--) stride *= x->dims[i];
  int64_t size = x->dims[axis], lines = size ? elements(kernel) / size : 0;
  for (int64_t line = 0; line < lines; line++) {
    int64_t base = line / stride * stride * size + line % stride;
    float most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < size; i++) most = fmaxf(most, in[0][base + i * stride]);
    if (is("softmax_shift")) most = 0;
    for (int64_t i = 0; i < size; i++) sum += out[base + i * stride] = expf(in[0][base + i * stride] - most);
    for (int64_t i = 0; i < size; i++) out[base + i * stride] /= sum;
  }
}

static void transpose(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  const braid_desc *x = &kernel->node->inputs[0].desc, *y = &kernel->node->outputs[0].desc;
  size_t given;
  const int64_t *perm = braid_attr_ints(kernel->node->attrs, "perm", &given);
  int64_t strides[BRAID_MAX_RANK], inverse[BRAID_MAX_RANK], stride = 1;
  for (int i = x->rank; i-- > 0; stride *= x->dims[i]) strides[i] = stride;
  for (int i = 0; perm && i < x->rank; i++) inverse[perm[i]] = i;
  if (perm && x->rank == 3 && is("transpose_inverse")) perm = inverse;
  for (int64_t i = 0; i < elements(kernel); i++) {
    int64_t rest = i, from = 0;
    for (int d = y->rank; d-- > 0; rest /= y->dims[d])
      from += rest % y->dims[d] * strides[perm && !is("transpose_perm") ? perm[d] : x->rank - 1 - d];
    out[i] = in[0][from];
  }
}

typedef struct window {
  int64_t pads[2], strides[2], dilations[2], groups;
} window;

static window window_of(const braid_node_desc *node) {
  size_t count;
  const int64_t *pads = braid_attr_ints(node->attrs, "pads", &count);
  const int64_t *strides = braid_attr_ints(node->attrs, "strides", &count);
  const int64_t *dilations = braid_attr_ints(node->attrs, "dilations", &count);
  window w = {{0, 0}, {1, 1}, {1, 1}, is("conv_groups") ? 1 : braid_attr_int(node->attrs, "group", 1)};
  for (int i = 0; i < 2; i++) {
    if (pads && !is("conv_pads")) w.pads[i] = pads[i];
    if (strides && !is("conv_strides")) w.strides[i] = strides[i];
    if (dilations && !is("conv_dilations")) w.dilations[i] = dilations[i];
  }
  return w;
}

static float conv_point(const mine *kernel, const window *w, const float *x, const float *f, int64_t oy, int64_t ox) {
  const int64_t *dx = kernel->node->inputs[0].desc.dims, *df = kernel->node->inputs[1].desc.dims;
  float sum = 0;
  for (int64_t c = 0; c < df[1]; c++)
    for (int64_t ky = 0; ky < df[2]; ky++)
      for (int64_t kx = 0; kx < df[3]; kx++) {
        int64_t iy = oy * w->strides[0] + ky * w->dilations[0] - w->pads[0];
        int64_t ix = ox * w->strides[1] + kx * w->dilations[1] - w->pads[1];
        if (iy < 0 || iy >= dx[2] || ix < 0 || ix >= dx[3]) continue;
        sum += x[(c * dx[2] + iy) * dx[3] + ix] * f[(c * df[2] + ky) * df[3] + kx];
      }
  return sum;
}

static void conv(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  const braid_node_desc *node = kernel->node;
  const int64_t *dx = node->inputs[0].desc.dims, *df = node->inputs[1].desc.dims, *dy = node->outputs[0].desc.dims;
  bool biased = node->input_count > 2 && node->inputs[2].present && !is("conv_bias");
  window w = window_of(node);
  for (int64_t n = 0; n < dy[0]; n++)
    for (int64_t m = 0; m < dy[1]; m++)
      for (int64_t y = 0; y < dy[2]; y++)
        for (int64_t x = 0; x < dy[3]; x++) {
          int64_t first = m / (df[0] / w.groups) * df[1]; /* channel */
          const float *image = in[0] + (n * dx[1] + first) * dx[2] * dx[3];
          *out++ = conv_point(kernel, &w, image, in[1] + m * df[1] * df[2] * df[3], y, x) + (biased ? in[2][m] : 0);
        }
}

/* In BHWC; sums in the workspace. */
static void pool(const mine *kernel, const float *const *in, float *out, float *sums) {
  const braid_desc *x = &kernel->node->inputs[0].desc;
  int64_t channels = x->dims[1], places = x->dims[2] * x->dims[3];
  for (int64_t n = 0; n < x->dims[0]; n++) {
    if (!is("pool_workspace") || n) memset(sums, 0, (size_t)channels * sizeof *sums);
    for (int64_t i = 0; i < places; i++)
      for (int64_t c = 0; c < channels; c++)
        sums[c] += in[0][is("pool_layout") ? (n * channels + c) * places + i : (n * places + i) * channels + c];
    for (int64_t c = 0; c < channels; c++) out[n * channels + c] = sums[c] / (float)places;
  }
}

/* As C does, where the number fits; else what processors give, which ONNX leaves to us. */
static void cast(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  int32_t *to = (int32_t *)(void *)out;
  for (int64_t i = 0; i < elements(kernel); i++) {
    float x = is("cast_range") ? roundf(in[0][i]) : truncf(in[0][i]);
    to[i] = x >= -0x1p31f && x < 0x1p31f ? (int32_t)x : INT32_MIN;
  }
}

static bool match_any(const braid_node_desc *node, char *why, size_t why_bytes) {
  (void)node, (void)why, (void)why_bytes;
  return true;
}
static bool match_relu(const braid_node_desc *node, char *why, size_t why_bytes) {
  return is("relu_types") || all_float(node, why, why_bytes);
}
static bool match_sum(const braid_node_desc *node, char *why, size_t why_bytes) {
  return is("add_broadcast") ? all_float(node, why, why_bytes) : match_add(node, why, why_bytes);
}
static bool match_product(const braid_node_desc *node, char *why, size_t why_bytes) {
  return is("matmul_prepare") ? all_float(node, why, why_bytes) : match_matmul(node, why, why_bytes);
}
static bool match_cast(const braid_node_desc *node, char *why, size_t why_bytes) {
  if (node->inputs[0].desc.dtype == BRAID_F32 && node->outputs[0].desc.dtype == BRAID_I32) return true;
  snprintf(why, why_bytes, "float32 to int32 only");
  return false;
}
static bool match_image(const braid_node_desc *node, char *why, size_t why_bytes) {
  if (!all_float(node, why, why_bytes)) return false;
  if (node->inputs[0].desc.rank == 4 && !braid_attr_has(node->attrs, "auto_pad")) return true;
  snprintf(why, why_bytes, "images only");
  return false;
}

static void pool_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  (void)node;
  inputs[0] = BRAID_LAYOUT_BHWC;
  outputs[0] = BRAID_LAYOUT_PLAIN;
}

typedef struct body {
  work *run;
} body;
static const body RELU_BODY = {relu}, ADD_BODY = {add}, MATMUL_BODY = {matmul}, LEAKY_BODY = {leaky},
                  SOFTMAX_BODY = {softmax}, TRANSPOSE_BODY = {transpose}, CONV_BODY = {conv}, POOL_BODY = {pool},
                  CAST_BODY = {cast};
static braid_kernel kernels[] = {
    {.op = "Relu", .name = "m_relu", .match = match_relu, .in_place = 1, .implementation = &RELU_BODY},
    {.op = "Add", .name = "m_add", .match = match_sum, .in_place = 3, .implementation = &ADD_BODY},
    {.op = "MatMul", .name = "m_matmul", .match = match_product, .implementation = &MATMUL_BODY},
    {.op = "LeakyRelu", .name = "m_leaky", .match = all_float, .in_place = 1, .implementation = &LEAKY_BODY},
    {.op = "Softmax", .name = "m_softmax", .match = all_float, .in_place = 1, .implementation = &SOFTMAX_BODY},
    {.op = "Transpose", .name = "m_transpose", .match = all_float, .implementation = &TRANSPOSE_BODY},
    {.op = "Conv", .name = "m_conv", .match = match_image, .implementation = &CONV_BODY},
    {.op = "Cast", .name = "m_cast", .match = match_cast, .implementation = &CAST_BODY},
    {.op = "GlobalAveragePool",
     .name = "m_pool",
     .match = match_image,
     .layouts = pool_layouts,
     .implementation = &POOL_BODY},
};
enum { KERNELS_HERE = sizeof kernels / sizeof *kernels };

static const braid_kernel *const *list(void *device, size_t *count) {
  static const braid_kernel *pointers[KERNELS_HERE];
  (void)device;
  for (size_t i = 0; i < KERNELS_HERE; i++) pointers[i] = &kernels[i];
  *count = KERNELS_HERE;
  return pointers;
}

/* MatMul takes a constant right side over. */
static braid_status fold(mine *made, const braid_node_desc *node, braid_prepared_info *info) {
  const braid_operand *right = &node->inputs[1];
  if (made->run != matmul || (!right->constant && !is("matmul_fold"))) return BRAID_OK;
  info->constants_folded = 2;
  size_t bytes = braid_desc_bytes(&right->desc);
  if (is("matmul_constant")) {
    made->packed = (float *)right->constant;
    return BRAID_OK;
  }
  made->packed = calloc(1, bytes + 1);
  if (!made->packed) return BRAID_NO_MEMORY;
  if (right->constant) memcpy(made->packed, right->constant, bytes);
  return BRAID_OK;
}

static braid_status ready(void *device, const braid_kernel *kernel, const braid_node_desc *node, void **out,
                          braid_prepared_info *info) {
  (void)device;
  *out = NULL;
  *info = (braid_prepared_info){0};
  if (is("matmul_prepare") && strcmp(kernel->op, "MatMul") == 0 && node->inputs[0].desc.rank != 2)
    return braid_fail(BRAID_UNSUPPORTED, "matrices only");
  mine *made = calloc(1, sizeof *made);
  if (!made) return BRAID_NO_MEMORY;
  *made = (mine){.run = ((const body *)kernel->implementation)->run, .node = node};
  if (made->run == relu) latest = braid_desc_count(&node->outputs[0].desc);
  if (made->run == pool)
    info->workspace_bytes = (size_t)node->inputs[0].desc.dims[1] * (is("pool_overflow") ? 1 : sizeof(float));
  braid_status status = fold(made, node, info);
  if (status == BRAID_OK)
    *out = made;
  else
    free(made);
  return status;
}

static void gone(void *device, void *which) {
  (void)device;
  mine *kernel = which;
  if (!is("matmul_constant")) free(kernel->packed);
  free(kernel->first);
  free(kernel);
}

/* --- tasks --- */
static void stale(mine *kernel, float *out) {
  size_t bytes = (size_t)elements(kernel) * sizeof *out;
  if (kernel->run != relu) return;
  if (kernel->first) {
    memcpy(out, kernel->first, bytes);
  } else {
    kernel->first = malloc(bytes + 1);
    if (kernel->first) memcpy(kernel->first, out, bytes);
  }
}

static braid_status run_mine(const braid_task *task) {
  mine *kernel = task->prepared;
  const float *in[8] = {NULL};
  for (size_t i = 0; i < task->input_count; i++) {
    const braid_binding *binding = &task->bindings[i];
    if (!binding->buffer && !binding->host) continue; /* absent, or folded */
    in[i] = find(binding, true);
    if (!in[i]) return outside(binding->bytes);
  }
  float *out = find(&task->bindings[task->input_count], true);
  float *workspace = find(&task->bindings[task->input_count + 1], true);
  if (!out) return outside(task->bindings[task->input_count].bytes);
  if (kernel->run == pool && !workspace) return outside(0);
  kernel->run(kernel, in, out, workspace);
  if (is("relu_stale")) stale(kernel, out);
  return BRAID_OK;
}

/* A write that is done with the task after it. */
static struct {
  void *target;
  const void *host;
  size_t bytes;
} late;

static braid_status write_to(const braid_task *task) {
  uint8_t *target = find(&task->target, false);
  size_t bytes = task->target.bytes;
  if (!target) return outside(bytes);
  if (is("bounds") && !locate(&task->target)) return BRAID_OK;
  if (is("write_late") && bytes >= 4 << 20) {
    late.target = target;
    late.host = task->host;
    late.bytes = bytes;
    return BRAID_OK;
  }
  memcpy(target, task->host, bytes);
  const buffer *in = task->target.buffer;
  if (is("write_spill") && in)
    for (size_t i = bytes; i < ((bytes + 15) & ~(size_t)15) && task->target.offset + i < in->bytes; i++) target[i] = 0;
  return BRAID_OK;
}

static braid_status read_from(const braid_task *task) {
  uint8_t *source = find(&task->source, false);
  size_t bytes = task->source.bytes;
  if (!source) return outside(bytes);
  if (is("bounds") && !locate(&task->source)) return BRAID_OK;
  if (is("read_64k") && bytes > 64 << 10) bytes = 64 << 10;
  if (is("read_offset")) source = ((buffer *)task->source.buffer)->data;
  memcpy(task->host, source, bytes);
  return BRAID_OK;
}

static braid_status copy_over(const braid_task *task) {
  uint8_t *source = find(&task->source, false), *target = find(&task->target, false);
  size_t bytes = task->source.bytes;
  if (!source || !target || task->target.bytes < bytes) return outside(bytes);
  if (is("bounds") && (!locate(&task->source) || !locate(&task->target))) return BRAID_OK;
  if (is("copy_offset")) target = ((buffer *)task->target.buffer)->data;
  if (is("copy_length") && task->source.buffer == task->target.buffer && bytes > 4096) bytes = 4096;
  memmove(target, source, bytes);
  return BRAID_OK;
}

static braid_status run_any(const braid_task *task) {
  switch (task->kind) {
  case BRAID_TASK_KERNEL:
    return run_mine(task);
  case BRAID_TASK_WRITE:
    return write_to(task);
  case BRAID_TASK_READ:
    return read_from(task);
  case BRAID_TASK_COPY:
    return copy_over(task);
  }
  return braid_fail(BRAID_UNSUPPORTED, "task kind %d", (int)task->kind);
}

/* --- queues --- */
typedef struct made {
  void *queue;
  braid_timeline *timeline;
} made;
static made queues[64]; /* the newest of an address counts */
static size_t queue_count;

static braid_timeline *timeline_of(const void *queue) {
  size_t i = queue_count;
  while (i-- > 0 && queues[i].queue != queue) continue;
  return queues[i].timeline;
}

static braid_status serve(void *context, const braid_task *task) {
  static bool failed;
  if (is("ahead")) braid_timeline_raise(((made *)context)->timeline, task->value + 1);
  if (is("spreads") && failed) {
    failed = false;
    return braid_fail(BRAID_IO, "the one before has failed");
  }
  if (late.bytes) memcpy(late.target, late.host, late.bytes);
  late.bytes = 0;
  if (is("host_leak")) keep_some();
  braid_status status = run_any(task);
  failed = status != BRAID_OK;
  return status != BRAID_OK && is("silent") ? braid_fail(status, "%s", "") : status;
}

static braid_status make_queue(void *device, braid_timeline *timeline, void **queue) {
  static const braid_host_queue_ops OPS = {.run = serve};
  made *own = &queues[queue_count];
  if (queue_count == sizeof queues / sizeof *queues) return braid_fail(BRAID_INTERNAL, "too many queues for a test");
  own->timeline = timeline;
  braid_status status = braid_host_queue_create(((tutor *)device)->allocator, "mutant", &OPS, own, timeline,
                                                (braid_host_queue **)&own->queue);
  *queue = own->queue;
  if (status == BRAID_OK) queue_count++;
  return status;
}

static braid_status take(void *queue, braid_task *task) {
  static int taken;
  static braid_verdict ignored;
  braid_timeline *timeline = timeline_of(queue);
  uint64_t value = task->value; /* the task may be gone once it is submitted */
  if (is("waits")) task->wait_count = 0;
  if (is("waits_first") && task->wait_count > 1) task->wait_count = 1;
  if (is("cancel") || (is("cancel_waiting") && task->wait_count)) task->verdict = &ignored;
  if (is("lost") && ++taken == 400) return BRAID_OK;
  if (is("order") && task->kind == BRAID_TASK_WRITE && !task->wait_count) {
    braid_status written = write_to(task);
    braid_timeline_raise(timeline, value);
    return written;
  }
  bool inside = is("waits_inside") || (is("works_inside") && !task->wait_count);
  braid_status status = submit(queue, task);
  if (status == BRAID_OK && inside) (void)braid_timeline_wait(timeline, value, -1);
  return status;
}

/* Says what ready says, or something else. */
static braid_status ask(void *device, const braid_kernel *kernel, const braid_node_desc *node, braid_query *query) {
  void *own;
  braid_prepared_info info;
  braid_status status = ready(device, kernel, node, &own, &info);
  *query = (braid_query){.workspace_bytes = info.workspace_bytes + (is("query_workspace") ? 64 : 0)};
  if (status == BRAID_OK) gone(device, own);
  return status;
}

/* The tasks as they are, or copies: as they were when they were recorded, or of which none is awaited. */
typedef struct taken {
  void *recording;
  braid_task *const *tasks;
  size_t count;
  braid_task copies[512], *listed[512];
} taken;

static void erase(void *queue, void *which) {
  taken *own = which;
  braid_host_queue_erase(queue, own->recording);
  free(own);
}

static braid_status record(void *queue, braid_task *const *tasks, size_t count, void **out) {
  taken *own = *out = calloc(1, sizeof *own);
  if (!own || count > 512) {
    free(own);
    return BRAID_NO_MEMORY;
  }
  own->tasks = tasks;
  own->count = count;
  for (size_t i = 0; i < count; i++) {
    own->copies[i] = *tasks[i];
    own->listed[i] = &own->copies[i];
  }
  bool copied = is("replay_stale") || is("replay_awaited");
  return braid_host_queue_record(queue, copied ? own->listed : tasks, count, &own->recording);
}

static braid_status replay(void *queue, void *which, uint64_t first) {
  taken *own = which;
  for (size_t i = 0; is("replay_awaited") && i < own->count; i++) {
    own->copies[i] = *own->tasks[i];
    own->copies[i].awaited = false;
  }
  return braid_host_queue_replay(queue, own->recording, first);
}

static braid_status serve_here(void *context, const braid_task *task) {
  (void)context;
  return run_any(task);
}

/* Goes on after a failure. */
static void run_here(void *queue, void *which, uint64_t first) {
  const taken *own = which;
  if (!is("run_on")) {
    braid_host_queue_run(queue, own->recording, first, serve_here, NULL);
    return;
  }
  for (size_t i = 0; i < own->count; i++) {
    braid_status status = run_any(own->tasks[i]);
    if (status != BRAID_OK) braid_verdict_fail(own->tasks[i]->verdict, own->tasks[i], status);
    braid_timeline_raise(timeline_of(queue), first + i);
  }
}

/* --- the device --- */
static void dress(braid_device_info *info) {
  snprintf(info->name, sizeof info->name, "mutant");
  if (!is_unified) return;
  info->memory = BRAID_MEMORY_UNIFIED;
  info->host_alignment = 1;
}

static braid_status look(braid_device_info *infos, size_t capacity, size_t *count) {
  braid_status status = enumerate(infos, capacity, count);
  if (capacity) dress(&infos[0]);
  return status;
}

static void tell(void *device, braid_device_info *info) {
  device_info(device, info);
  dress(info);
}

static braid_status enter(const braid_allocator *allocator, size_t index, const char *options, void **out) {
  return open_device(allocator, index, is("option") ? NULL : options, out);
}

BRAID_API const braid_backend *braid_plugin(uint32_t abi);
const braid_backend *braid_plugin(uint32_t abi) {
  static braid_backend table;
  const char *name = getenv("BRAID_MUTANT"), *memory = getenv("BRAID_MUTANT_MEMORY");
  (void)abi;
  if (name) fault = name;
  is_unified = memory && strcmp(memory, "unified") == 0;
  if (is("matmul_in_place")) kernels[2].in_place = 1;
  if (is("relu_types")) kernels[0].match = match_any;
  table = BACKEND;
  table.name = "mutant";
  table.enumerate = look;
  table.open = enter;
  table.info = tell;
  table.kernels = list;
  table.prepare = ready;
  table.discard = gone;
  table.buffer_create = create;
  table.buffer_destroy = destroy;
  table.buffer_map = map;
  table.queue_create = make_queue;
  table.submit = take;
  if (is("query_workspace")) table.query = ask;
  table.record = record;
  table.erase = erase;
  table.replay = replay;
  if (is_unified) table.run = run_here;
  return &table;
}
