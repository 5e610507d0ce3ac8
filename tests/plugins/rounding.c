/* The example's device with one kernel of training in integers, chosen by BRAID_ROUNDING=OP, which rounds a half down
 * (docs/integer-training.md has it rounded up): once in each tensor, at the first half there is. With
 * BRAID_ROUNDING=OP-right it rounds as it should. Where errors are rounded at random, it rounds the first one down that
 * is to be rounded up. IntegerConv is offered for matrices alone, IntegerScaleError for images alone. */
#include <braid/plugin.h>
#undef BRAID_PLUGIN
#define BRAID_PLUGIN(backend)
#include "../../examples/plugin.c"

enum { MOST_OPERANDS = 6 };

static bool is_wrong = true;

/* round(value, shift); the first half is taken for less than one. */
static int64_t rounded(int64_t value, int64_t shift, bool *done) {
  if (shift <= 0) return value * ((int64_t)1 << -shift);
  int64_t half = (int64_t)1 << (shift - 1), rest = value & (2 * half - 1), down = (value - rest) / (2 * half);
  if (rest == half && is_wrong && !*done) {
    *done = true;
    return down;
  }
  return down + (rest >= half);
}

static int8_t clipped(int64_t value, int64_t bits, bool relu) {
  int64_t most = ((int64_t)1 << (bits - 1)) - 1, least = relu ? 0 : -most;
  return (int8_t)(value > most ? most : value < least ? least : value);
}

static bool match_matrices(const braid_node_desc *node, char *why, size_t why_bytes) {
  if (node->inputs[0].desc.rank == 2 && node->outputs[0].desc.dtype == BRAID_I8) return true;
  snprintf(why, why_bytes, "matrices of int8 only");
  return false;
}

static bool match_images(const braid_node_desc *node, char *why, size_t why_bytes) {
  if (node->inputs[0].desc.rank == 4 && node->inputs[0].desc.dtype == BRAID_I32) return true;
  snprintf(why, why_bytes, "images of int32 only");
  return false;
}

static void run_conv(const braid_node_desc *node, void *const *at) {
  int64_t rows = node->inputs[0].desc.dims[0], inner = node->inputs[0].desc.dims[1];
  int64_t columns = node->inputs[1].desc.dims[0], bits = braid_attr_int(node->attrs, "bits", 8);
  const int8_t *x = at[0], *w = at[1];
  bool done = false, relu = braid_attr_int(node->attrs, "relu", 0) != 0;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c++) {
      int64_t sum = 0;
      for (int64_t k = 0; k < inner; k++) sum += x[r * inner + k] * w[c * inner + k];
      ((int8_t *)at[2])[r * columns + c] =
          clipped(rounded(sum, braid_attr_int(node->attrs, "shift", 0), &done), bits, relu);
    }
}

/* The first number of a counter of Philox4x32-10. */
static uint32_t first_random(uint64_t seed, int64_t step, uint32_t stream) {
  uint32_t c[4] = {0, 0, (uint32_t)step, stream}, k[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  for (int round = 0; round < 10; round++, k[0] += 0x9e3779b9u, k[1] += 0xbb67ae85u) {
    uint64_t p = UINT64_C(0xd2511f53) * c[0], q = UINT64_C(0xcd9e8d57) * c[2];
    uint32_t next[4] = {(uint32_t)(q >> 32) ^ c[1] ^ k[0], (uint32_t)q, (uint32_t)(p >> 32) ^ c[3] ^ k[1], (uint32_t)p};
    memcpy(c, next, sizeof c);
  }
  return c[0];
}

static int64_t rounded_randomly(int64_t value, int64_t d, uint32_t u, bool *done) {
  u = (u ^ u >> 16) * 0x7feb352du;
  u = (u ^ u >> 15) * 0x846ca68bu;
  u ^= u >> 16;
  int64_t one = (int64_t)1 << d, rest = value & (one - 1), down = (value - rest) / one;
  if (rest + (int64_t)(u >> (32 - d)) < one) return down;
  bool wrong = is_wrong && !*done;
  *done = true;
  return down + !wrong;
}

static void run_scale_error(const braid_node_desc *node, void *const *at) {
  int64_t count = braid_desc_count(&node->inputs[0].desc), bits = braid_attr_int(node->attrs, "bits", 8), d = 1 - bits;
  bool randomly = node->input_count > 3, done = false;
  const int32_t *raw = at[0];
  void *const *results = at + node->input_count;
  uint32_t key = randomly ? first_random((uint64_t)braid_attr_int(node->attrs, "seed", 0), *(const int64_t *)at[3],
                                         (uint32_t)braid_attr_int(node->attrs, "stream", 0))
                          : 0;
  for (int64_t magnitude = *(const int32_t *)at[1]; magnitude; magnitude >>= 1) d++;
  for (int64_t i = 0; i < count; i++) {
    int64_t value =
        randomly && d > 0 ? rounded_randomly(raw[i], d, key + (uint32_t)i, &done) : rounded(raw[i], d, &done);
    ((int8_t *)results[0])[i] = clipped(value, bits, false);
  }
  *(int32_t *)results[1] = (int32_t)(*(const int32_t *)at[2] + braid_attr_int(node->attrs, "offset", 0) + d);
}

static const braid_kernel CONV = {.op = "IntegerConv", .name = "rounding_conv", .match = match_matrices};
static const braid_kernel SCALE = {.op = "IntegerScaleError", .name = "rounding_scale_error", .match = match_images};

static const braid_kernel *const *rounding_kernels(void *device, size_t *count) {
  static const braid_kernel *list[1];
  const char *op = getenv("BRAID_ROUNDING");
  (void)device;
  is_wrong = op && !strstr(op, "-right");
  list[0] = op && strncmp(op, "IntegerConv", 11) == 0 ? &CONV : &SCALE;
  *count = 1;
  return list;
}

static braid_status rounding_prepare(void *device, const braid_kernel *kernel, const braid_node_desc *node, void **out,
                                     braid_prepared_info *info) {
  prepared *made = braid_zalloc(((tutor *)device)->allocator, sizeof *made);
  (void)kernel;
  *out = made;
  *info = (braid_prepared_info){0};
  if (!made) return BRAID_NO_MEMORY;
  made->node = node;
  return BRAID_OK;
}

static braid_status rounding_task(void *context, const braid_task *task) {
  void *at[MOST_OPERANDS] = {NULL};
  if (task->kind != BRAID_TASK_KERNEL) return run_task(context, task);
  const braid_node_desc *node = ((const prepared *)task->prepared)->node;
  for (size_t i = 0; i < task->input_count + task->output_count && i < MOST_OPERANDS; i++) {
    at[i] = locate(&task->bindings[i]);
    if (!at[i]) return outside(task->bindings[i].bytes);
  }
  if (strcmp(node->op, "IntegerConv") == 0)
    run_conv(node, at);
  else
    run_scale_error(node, at);
  return BRAID_OK;
}

static braid_status rounding_queue(void *device, braid_timeline *timeline, void **queue) {
  static const braid_host_queue_ops OPS = {.run = rounding_task};
  return braid_host_queue_create(((tutor *)device)->allocator, "rounding", &OPS, device, timeline,
                                 (braid_host_queue **)queue);
}

static void rounding_info(void *device, braid_device_info *info) {
  device_info(device, info);
  snprintf(info->name, sizeof info->name, "rounding");
}

static braid_status rounding_enumerate(braid_device_info *infos, size_t capacity, size_t *count) {
  braid_status status = enumerate(infos, capacity, count);
  if (capacity) snprintf(infos[0].name, sizeof infos[0].name, "rounding");
  return status;
}

BRAID_API const braid_backend *braid_plugin(uint32_t abi);
const braid_backend *braid_plugin(uint32_t abi) {
  static braid_backend table;
  (void)abi;
  table = BACKEND;
  table.name = "rounding";
  table.enumerate = rounding_enumerate;
  table.info = rounding_info;
  table.kernels = rounding_kernels;
  table.prepare = rounding_prepare;
  table.queue_create = rounding_queue;
  return &table;
}
