/* Every fast kernel of the CPU against the plain reference of the same op: random shapes, every layout a kernel asks
 * for, constant and changing weights. The conversion between layouts is the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/prepared.h"
#include "backend/cpu/tables.h"
#include "base/philox.h"
#include "graph/graph.h"

enum { kMaxOperands = 10, kSeed = 20240607 };

/* --- one node with its data ----------------------------------------------------------------------------------------
 */
typedef struct fixture {
  braid_graph *graph;
  braid_node_id node;
  braid_operand operands[kMaxOperands]; /* inputs, then outputs */
  void *data[kMaxOperands];             /* plain */
  size_t inputs, outputs;
} fixture;

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static void add_typed(fixture *f, braid_value_id *ids, braid_dtype dtype, int rank, const int64_t *dims) {
  braid_desc desc;
  ok(braid_desc_init(&desc, dtype, rank, dims));
  ok(braid_graph_add_input(f->graph, NULL, &desc, &ids[f->inputs]));
  f->inputs++;
}

static void add_input(fixture *f, braid_value_id *ids, int rank, const int64_t *dims) {
  add_typed(f, ids, BRAID_F32, rank, dims);
}

static void set(fixture *f, const char *name, int count, const int64_t *values) {
  ok(braid_graph_set_ints(f->graph, f->node, name, values, (size_t)count));
}

/* Which bits of random bytes are kept: two give places in a window of 2 x 2. */
static uint8_t byte_mask = 3;

/* float32 in [-1, 1), or integers. */
static void *random_data(const braid_desc *desc, uint32_t stream) {
  int64_t count = braid_desc_count(desc);
  float *data = malloc((size_t)count * sizeof *data + 1);
  for (int64_t i = 0; i < count; i++) {
    if (desc->dtype == BRAID_U8 || desc->dtype == BRAID_I8)
      ((uint8_t *)data)[i] = (uint8_t)(braid_random_u32(kSeed, 0, stream, (uint64_t)i) & byte_mask);
    else if (desc->dtype == BRAID_I32)
      ((int32_t *)data)[i] = (int32_t)(braid_random_u32(kSeed, 0, stream, (uint64_t)i) >> 16);
    else
      data[i] = braid_random_uniform(kSeed, 0, stream, (uint64_t)i) * 2 - 1;
  }
  return data;
}

static void finish_some(fixture *f, const char *op, braid_value_id *ids, size_t outputs, int left_out) {
  braid_value_id results[kMaxOperands] = {0};
  if (left_out >= 0) results[left_out] = -1;
  ok(braid_graph_add_node(f->graph, op, "n", ids, f->inputs, results, outputs, &f->node));
  f->outputs = outputs;
}

static void finish(fixture *f, const char *op, braid_value_id *ids, size_t outputs) {
  finish_some(f, op, ids, outputs, -1);
}

static void fill(fixture *f) {
  ok(braid_graph_infer_node(f->graph, f->node));
  const braid_node *node = &f->graph->nodes[f->node];
  for (size_t i = 0; i < f->inputs + f->outputs; i++) {
    braid_value_id id = i < f->inputs ? node->inputs[i] : node->outputs[i - f->inputs];
    f->operands[i].present = id >= 0;
    if (id < 0) continue;
    f->operands[i].desc = f->graph->values[id].desc;
    f->data[i] = random_data(&f->operands[i].desc, (uint32_t)i);
  }
}

static void clear(fixture *f) {
  for (size_t i = 0; i < kMaxOperands; i++) free(f->data[i]);
  braid_graph_destroy(f->graph);
}

static fixture begin(void) {
  fixture f = {.inputs = 0};
  ok(braid_graph_create(NULL, "test", &f.graph));
  return f;
}

/* --- layouts -------------------------------------------------------------------------------------------------------
 */
/* Where logical element (b, c, s) lies. */
static int64_t place(const braid_desc *desc, int64_t b, int64_t c, int64_t s, int64_t spatial) {
  int64_t channels = desc->dims[1];
  if (desc->layout == BRAID_LAYOUT_BHWC) return (b * spatial + s) * channels + c;
  if (desc->layout == BRAID_LAYOUT_BLOCKED16)
    return ((b * ((channels + 15) / 16) + c / 16) * spatial + s) * 16 + c % 16;
  return (b * channels + c) * spatial + s;
}

static void convert(const braid_desc *desc, const void *plain, void *there, void *back) {
  size_t unit = braid_dtype_size(desc->dtype);
  if (desc->layout == BRAID_LAYOUT_PLAIN) {
    memcpy(there ? there : back, plain, braid_desc_bytes(desc));
    return;
  }
  int64_t spatial = 1;
  for (int i = 2; i < desc->rank; i++) spatial *= desc->dims[i];
  if (there) memset(there, 0, braid_desc_bytes(desc));
  for (int64_t b = 0; b < desc->dims[0]; b++)
    for (int64_t c = 0; c < desc->dims[1]; c++)
      for (int64_t s = 0; s < spatial; s++) {
        size_t at = (size_t)place(desc, b, c, s, spatial) * unit;
        size_t from = (size_t)((b * desc->dims[1] + c) * spatial + s) * unit;
        if (there)
          memcpy((char *)there + at, (const char *)plain + from, unit);
        else
          memcpy((char *)back + from, (const char *)plain + at, unit);
      }
}

/* --- running -------------------------------------------------------------------------------------------------------
 */
static braid_node_desc describe(const fixture *f, const braid_operand *operands) {
  const braid_node *node = &f->graph->nodes[f->node];
  return (braid_node_desc){.op = node->op->name,
                           .name = node->name,
                           .attrs = &node->attrs,
                           .input_count = f->inputs,
                           .output_count = f->outputs,
                           .inputs = operands,
                           .outputs = operands + f->inputs};
}

/* Runs `kernel`; plain results go to results[]. constant_from: inputs from there on are constants. */
static void run(const fixture *f, const braid_kernel *kernel, size_t constant_from, float **results) {
  braid_operand operands[kMaxOperands];
  memcpy(operands, f->operands, sizeof operands);
  braid_node_desc node = describe(f, operands);
  braid_layout layouts[kMaxOperands] = {BRAID_LAYOUT_PLAIN};
  if (kernel->layouts) kernel->layouts(&node, layouts, layouts + f->inputs);
  void *memory[kMaxOperands] = {NULL};
  for (size_t i = 0; i < f->inputs + f->outputs; i++) {
    if (!operands[i].present) continue;
    operands[i].desc.layout = layouts[i];
    memory[i] = braid_zalloc(NULL, braid_desc_bytes(&operands[i].desc));
    if (i < f->inputs) convert(&operands[i].desc, f->data[i], memory[i], NULL);
    if (i < f->inputs && i >= constant_from) operands[i].constant = f->data[i];
  }
  braid_cpu_prepared *prepared;
  braid_prepared_info info = {0};
  ok(braid_cpu_prepare(NULL, kernel, &node, &prepared, &info));
  void *workspace = info.workspace_bytes ? braid_alloc(NULL, info.workspace_bytes) : NULL;
  for (size_t i = 0; i < f->inputs; i++) prepared->inputs[i] = info.constants_folded >> i & 1 ? NULL : memory[i];
  for (size_t i = 0; i < f->outputs; i++) prepared->outputs[i] = memory[f->inputs + i];
  ok(braid_cpu_run(prepared, workspace));
  ok(braid_cpu_run(prepared, workspace)); /* and again: a run leaves nothing behind that changes the next */
  for (size_t i = 0; i < f->outputs; i++) {
    const braid_desc *desc = &operands[f->inputs + i].desc;
    results[i] = NULL;
    if (!operands[f->inputs + i].present) continue;
    results[i] = calloc((size_t)braid_desc_count(desc), sizeof(float));
    if (desc->layout == BRAID_LAYOUT_PLAIN)
      memcpy(results[i], memory[f->inputs + i], braid_desc_bytes(desc));
    else
      convert(desc, memory[f->inputs + i], NULL, results[i]);
  }
  braid_cpu_discard(prepared);
  braid_free(NULL, workspace);
  for (size_t i = 0; i < kMaxOperands; i++) braid_free(NULL, memory[i]);
}

static void compare(const fixture *f, const braid_kernel *kernel, float **got, float **wanted) {
  for (size_t i = 0; i < f->outputs; i++) {
    const braid_operand *operand = &f->operands[f->inputs + i];
    if (!operand->present) continue;
    int64_t count = braid_desc_count(&operand->desc);
    if (operand->desc.dtype != BRAID_F32) {
      assert_memory_equal(got[i], wanted[i], braid_desc_bytes(&operand->desc));
      continue;
    }
    double scale = 0;
    for (int64_t j = 0; j < count; j++) scale = fmax(scale, fabs(wanted[i][j]));
    for (int64_t j = 0; j < count; j++)
      if (!(fabs((double)got[i][j] - wanted[i][j]) <= 2e-5 * scale + 1e-6)) {
        char shape[128];
        fail_msg("%s %s %s: element %lld of output %zu is %.8g, the reference gives %.8g", kernel->op, kernel->name,
                 braid_desc_format(&f->operands[0].desc, shape, sizeof shape), (long long)j, i, (double)got[i][j],
                 (double)wanted[i][j]);
      }
  }
}

static bool is_saturated(braid_dtype dtype, uint8_t byte) {
  return dtype == BRAID_U8 ? byte == 0 || byte == 255 : byte == 128 || byte == 127;
}

/* Few of the results of bytes may lie at the ends of their range. */
static void check_saturation(const fixture *f, float **results) {
  const braid_desc *desc = &f->operands[f->inputs].desc;
  if (desc->dtype != BRAID_U8 && desc->dtype != BRAID_I8) return;
  const uint8_t *bytes = (const uint8_t *)results[0];
  int64_t count = braid_desc_count(desc), saturated = 0;
  for (int64_t i = 0; i < count; i++) saturated += is_saturated(desc->dtype, bytes[i]);
  if (saturated * 4 > count)
    fail_msg("%lld of %lld results are saturated: this compares nothing", (long long)saturated, (long long)count);
}

/* All kernels that take the node against the last of them; at least `least` fast ones must. */
static void check_filled(fixture *f, int least) {
  const braid_kernel **kernels, *matching[16];
  size_t count, found = 0;
  ok(braid_cpu_list_kernels(NULL, false, &kernels, &count));
  braid_node_desc node = describe(f, f->operands);
  char why[256];
  for (size_t i = 0; i < count; i++)
    if (strcmp(kernels[i]->op, node.op) == 0 && (!kernels[i]->match || kernels[i]->match(&node, why, sizeof why)) &&
        found < 16)
      matching[found++] = kernels[i];
  assert_true((int)found > least);
  float *wanted[kMaxOperands], *got[kMaxOperands];
  run(f, matching[found - 1], kMaxOperands, wanted);
  if (strncmp(node.op, "QLinear", 7) == 0 || strcmp(node.op, "QuantizeLinear") == 0) check_saturation(f, wanted);
  for (size_t k = 0; k + 1 < found; k++)
    for (size_t constant_from = 1; constant_from <= kMaxOperands; constant_from += kMaxOperands - 1) {
      run(f, matching[k], constant_from, got);
      compare(f, matching[k], got, wanted);
      for (size_t i = 0; i < f->outputs; i++) free(got[i]);
    }
  for (size_t i = 0; i < f->outputs; i++) free(wanted[i]);
  braid_free(NULL, kernels);
  clear(f);
}

static void check(fixture *f, int least) {
  fill(f);
  check_filled(f, least);
}

/* --- convolutions --------------------------------------------------------------------------------------------------
 */
typedef struct shape {
  int64_t batch, channels, filters, height, width, kernel, stride, dilation, groups;
  int64_t pads[4];
} shape;

static const shape kShapes[] = {
    {2, 3, 20, 17, 13, 3, 1, 1, 1, {1, 1, 1, 1}},   /* an image, a filter count that is no multiple of 16 */
    {3, 32, 48, 14, 14, 3, 1, 1, 1, {1, 1, 1, 1}},  /* Winograd */
    {1, 24, 40, 15, 11, 3, 1, 1, 1, {1, 1, 1, 1}},  /* Winograd with padded channels */
    {2, 16, 32, 12, 12, 1, 1, 1, 1, {0, 0, 0, 0}},  /* pointwise */
    {2, 64, 24, 9, 9, 1, 2, 1, 1, {0, 0, 0, 0}},    /* pointwise with a stride */
    {2, 32, 32, 11, 10, 3, 2, 1, 32, {0, 0, 1, 1}}, /* depthwise, uneven pads */
    {1, 24, 24, 9, 9, 5, 1, 1, 24, {2, 2, 2, 2}},   /* depthwise, padded channels */
    {2, 32, 64, 10, 12, 3, 1, 2, 4, {2, 2, 2, 2}},  /* groups with dilation */
    {1, 6, 10, 8, 9, 3, 2, 1, 2, {1, 0, 0, 1}},     /* small groups */
    {1, 3, 64, 32, 30, 7, 2, 1, 1, {3, 3, 3, 3}},   /* a stem */
};
enum { kShapeCount = sizeof kShapes / sizeof *kShapes };

static int64_t out_size(const shape *s, int i) {
  int64_t in = i ? s->width : s->height;
  return (in + s->pads[i] + s->pads[i + 2] - (s->kernel - 1) * s->dilation - 1) / s->stride + 1;
}

static void set_window(fixture *f, const shape *s) {
  set(f, "pads", 4, s->pads);
  set(f, "strides", 2, (int64_t[]){s->stride, s->stride});
  set(f, "dilations", 2, (int64_t[]){s->dilation, s->dilation});
  ok(braid_graph_set_int(f->graph, f->node, "group", s->groups));
}

/* oneDNN has nothing fast for groups of a few channels each. */
static int least_fast(const shape *s) {
  return s->groups == 1 || s->groups == s->channels;
}

static void test_convolution(void **state) {
  (void)state;
  for (int i = 0; i < kShapeCount; i++) {
    const shape *s = &kShapes[i];
    fixture f = begin();
    braid_value_id ids[4] = {-1, -1, -1, -1};
    add_input(&f, ids, 4, (int64_t[]){s->batch, s->channels, s->height, s->width});
    add_input(&f, ids, 4, (int64_t[]){s->filters, s->channels / s->groups, s->kernel, s->kernel});
    add_input(&f, ids, 1, &s->filters);
    finish(&f, "Conv", ids, 1);
    set_window(&f, s);
    check(&f, least_fast(s));
  }
}

static void test_fused_convolution(void **state) {
  (void)state;
  static const char *const kActivations[] = {"Relu",      "Clip", "Sigmoid", "HardSwish",
                                             "LeakyRelu", "Tanh", "Swish",   "HardSigmoid"};
  for (int i = 0; i < kShapeCount; i++) {
    const shape *s = &kShapes[i];
    fixture f = begin();
    braid_value_id ids[4] = {-1, -1, -1, -1};
    add_input(&f, ids, 4, (int64_t[]){s->batch, s->channels, s->height, s->width});
    add_input(&f, ids, 4, (int64_t[]){s->filters, s->channels / s->groups, s->kernel, s->kernel});
    add_input(&f, ids, 1, &s->filters);
    add_input(&f, ids, 4, (int64_t[]){s->batch, s->filters, out_size(s, 0), out_size(s, 1)});
    finish(&f, "FusedConv", ids, 1);
    set_window(&f, s);
    ok(braid_graph_set_string(f.graph, f.node, "activation", kActivations[i % 8]));
    ok(braid_graph_set_floats(f.graph, f.node, "activation_params", (float[]){0.1f, 0.9f}, 2));
    check(&f, least_fast(s));
  }
}

static void test_transposed_convolution(void **state) {
  (void)state;
  for (int i = 0; i < kShapeCount; i++) {
    const shape *s = &kShapes[i];
    fixture f = begin();
    braid_value_id ids[3] = {-1, -1, -1};
    add_input(&f, ids, 4, (int64_t[]){s->batch, s->filters, s->height, s->width});
    add_input(&f, ids, 4, (int64_t[]){s->filters, s->channels / s->groups, s->kernel, s->kernel});
    if (i % 3) add_input(&f, ids, 1, &s->channels);
    finish(&f, "ConvTranspose", ids, 1);
    set_window(&f, s);
    if (s->stride > 1) set(&f, "output_padding", 2, (int64_t[]){1, 0});
    check(&f, least_fast(s));
  }
}

static void test_convolution_gradients(void **state) {
  (void)state;
  for (int i = 0; i < kShapeCount; i++) {
    const shape *s = &kShapes[i];
    int64_t x[4] = {s->batch, s->channels, s->height, s->width};
    int64_t w[4] = {s->filters, s->channels / s->groups, s->kernel, s->kernel};
    int64_t y[4] = {s->batch, s->filters, out_size(s, 0), out_size(s, 1)};
    for (int by_filter = 0; by_filter < 2; by_filter++) {
      fixture f = begin();
      braid_value_id ids[2];
      add_input(&f, ids, 4, by_filter ? x : y);
      add_input(&f, ids, 4, by_filter ? y : w);
      finish(&f, by_filter ? "ConvGradFilter" : "ConvGradInput", ids, 1);
      set_window(&f, s);
      set(&f, by_filter ? "kernel_shape" : "input_shape", 2, by_filter ? w + 2 : x + 2);
      check(&f, least_fast(s));
    }
  }
}

/* --- matrix products -----------------------------------------------------------------------------------------------
 */
static void test_gemm(void **state) {
  (void)state;
  for (int bits = 0; bits < 8; bits++) {
    bool ta = bits & 1, tb = bits & 2, bias = bits & 4;
    fixture f = begin();
    braid_value_id ids[3] = {-1, -1, -1};
    add_input(&f, ids, 2, ta ? (int64_t[]){70, 33} : (int64_t[]){33, 70});
    add_input(&f, ids, 2, tb ? (int64_t[]){300, 70} : (int64_t[]){70, 300});
    if (bias) add_input(&f, ids, 1, (int64_t[]){300});
    finish(&f, bias ? "FusedGemm" : "Gemm", ids, 1);
    ok(braid_graph_set_int(f.graph, f.node, "transA", ta));
    ok(braid_graph_set_int(f.graph, f.node, "transB", tb));
    if (bias)
      ok(braid_graph_set_string(f.graph, f.node, "activation", "Relu"));
    else
      ok(braid_graph_set_float(f.graph, f.node, "alpha", 0.5));
    check(&f, 1);
  }
}

static void test_matmul(void **state) {
  (void)state;
  static const struct {
    int rank_a, rank_b;
    int64_t a[4], b[4];
  } kCases[] = {{2, 2, {5, 40}, {40, 17}},
                {3, 2, {4, 5, 40}, {40, 17}},
                {4, 4, {2, 3, 5, 40}, {2, 3, 40, 17}},
                {3, 2, {2, 50, 70}, {70, 90}}};
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    fixture f = begin();
    braid_value_id ids[2];
    add_input(&f, ids, kCases[i].rank_a, kCases[i].a);
    add_input(&f, ids, kCases[i].rank_b, kCases[i].b);
    finish(&f, "MatMul", ids, 1);
    check(&f, 1);
  }
}

/* --- quantized numbers ---------------------------------------------------------------------------------------------
 */
/* Positive scales in [low, 2 low). */
static void set_scales(fixture *f, size_t input, double low) {
  int64_t count = braid_desc_count(&f->operands[input].desc);
  for (int64_t i = 0; i < count; i++) {
    float *scale = (float *)f->data[input] + i;
    *scale = (float)(low * (1.5 + 0.5 * (double)*scale));
  }
}

/* Zero points within 16 of the middle of the type's range. */
static void centre_zeros(fixture *f, size_t input) {
  int64_t count = braid_desc_count(&f->operands[input].desc);
  uint8_t middle = f->operands[input].desc.dtype == BRAID_U8 ? 128 : 0;
  for (int64_t i = 0; i < count; i++) {
    uint8_t *zero = (uint8_t *)f->data[input] + i;
    *zero = (uint8_t)((*zero & 31) - 16 + middle);
  }
}

/* Numbers of a QLinear op over sums of `depth` products such that results lie within what a byte holds: most that
 * saturate would agree whatever the kernel computes. */
static void scale_products(fixture *f, int64_t depth) {
  const double scale = 0.01;
  fill(f);
  set_scales(f, 1, scale);
  set_scales(f, 4, scale);
  centre_zeros(f, 2);
  centre_zeros(f, 5);
  centre_zeros(f, 7);
  bool bias = f->inputs > 8 && f->operands[8].present;
  for (int64_t i = 0; bias && i < braid_desc_count(&f->operands[8].desc); i++) ((int32_t *)f->data[8])[i] -= 1 << 15;
  set_scales(f, 6, scale * scale * (sqrt((double)depth) * 6400 + (double)depth * 64 + (bias ? 1 << 14 : 0)) / 40);
}

/* Numbers that lie halfway between two steps, which are rounded to the even one. */
static void put_halves(fixture *f) {
  float *x = f->data[0];
  *(float *)f->data[1] = 1.0f / 128;
  for (int64_t i = 0; i < braid_desc_count(&f->operands[0].desc); i += 2) x[i] = (float)(i % 100 - 50 + 0.5) / 128;
}

static void test_quantize(void **state) {
  (void)state;
  byte_mask = 255;
  int64_t x[4] = {3, 5, 40, 33}, one = 1;
  for (int bits = 0; bits < 8; bits++) {
    bool quantizes = bits & 1, list = bits & 2;
    braid_dtype byte = bits & 4 ? BRAID_I8 : BRAID_U8;
    fixture f = begin();
    braid_value_id ids[3];
    add_typed(&f, ids, quantizes ? BRAID_F32 : byte, 4, x);
    add_input(&f, ids, list, list ? &x[1] : &one);
    add_typed(&f, ids, byte, list, list ? &x[1] : &one);
    finish(&f, quantizes ? "QuantizeLinear" : "DequantizeLinear", ids, 1);
    fill(&f);
    set_scales(&f, 1, 0.01);
    centre_zeros(&f, 2);
    if (quantizes && !list) put_halves(&f);
    check_filled(&f, 1);
  }
  for (int64_t count = 1; count < 100000; count = count * 7 + 1) {
    fixture f = begin();
    braid_value_id ids[1];
    add_input(&f, ids, 1, &count);
    finish(&f, "DynamicQuantizeLinear", ids, 3);
    check(&f, 1);
  }
  byte_mask = 3;
}

static void add_scaled(fixture *f, braid_value_id *ids, braid_dtype dtype, int rank, const int64_t *dims,
                       int64_t list) {
  int64_t count[1] = {list};
  add_typed(f, ids, dtype, rank, dims);
  add_input(f, ids, list > 0, count);
  add_typed(f, ids, dtype, list > 0, count);
}

static void test_integer_matmul(void **state) {
  (void)state;
  byte_mask = 255;
  for (int bits = 0; bits < 16; bits++) {
    bool scaled = bits & 1;
    braid_dtype left = bits & 2 ? BRAID_I8 : BRAID_U8, right = bits & 4 ? BRAID_U8 : BRAID_I8;
    int64_t a[3] = {2, 23, 45}, b[2] = {45, 71}, list = bits & 8 ? 71 : 0, one = 1;
    fixture f = begin();
    braid_value_id ids[8];
    if (scaled) {
      add_scaled(&f, ids, left, 3, a, 0);
      add_scaled(&f, ids, right, 2, b, list);
      add_input(&f, ids, 0, &one);
      add_typed(&f, ids, left, 0, &one);
    } else {
      add_typed(&f, ids, left, 3, a);
      add_typed(&f, ids, right, 2, b);
      add_typed(&f, ids, left, 0, &one);
      add_typed(&f, ids, right, list > 0, &list);
    }
    finish(&f, scaled ? "QLinearMatMul" : "MatMulInteger", ids, 1);
    if (scaled)
      scale_products(&f, a[2]);
    else
      fill(&f);
    check_filled(&f, 1);
  }
  byte_mask = 3;
}

static void test_integer_convolution(void **state) {
  (void)state;
  byte_mask = 255;
  for (int i = 0; i < 2 * kShapeCount; i++) {
    const shape *s = &kShapes[i / 2];
    bool scaled = i % 2;
    int64_t x[4] = {s->batch, s->channels, s->height, s->width}, list = i % 3 ? s->filters : 0, one = 1;
    int64_t w[4] = {s->filters, s->channels / s->groups, s->kernel, s->kernel};
    fixture f = begin();
    braid_value_id ids[9];
    if (scaled) {
      add_scaled(&f, ids, BRAID_U8, 4, x, 0);
      add_scaled(&f, ids, BRAID_I8, 4, w, list);
      add_input(&f, ids, 0, &one);
      add_typed(&f, ids, BRAID_U8, 0, &one);
      add_typed(&f, ids, BRAID_I32, 1, &s->filters);
    } else {
      add_typed(&f, ids, BRAID_U8, 4, x);
      add_typed(&f, ids, BRAID_I8, 4, w);
      add_typed(&f, ids, BRAID_U8, 0, &one);
    }
    finish(&f, scaled ? "QLinearConv" : "ConvInteger", ids, 1);
    set_window(&f, s);
    if (scaled)
      scale_products(&f, w[1] * w[2] * w[3]);
    else
      fill(&f);
    check_filled(&f, 1);
  }
  byte_mask = 3;
}

/* --- pools ---------------------------------------------------------------------------------------------------------
 */
static const struct {
  int64_t channels, height, width, kernel[2], stride[2], pads[4];
  bool ceil, include_pad;
} kPools[] = {
    {32, 12, 10, {2, 2}, {2, 2}, {0, 0, 0, 0}, false, false},
    {20, 13, 11, {3, 3}, {2, 2}, {1, 1, 1, 1}, false, false},
    {48, 9, 9, {3, 2}, {1, 3}, {1, 0, 0, 1}, true, true},
    {16, 8, 8, {5, 5}, {1, 1}, {2, 2, 2, 2}, false, true},
};

static void set_pool(fixture *f, int i) {
  set(f, "kernel_shape", 2, kPools[i].kernel);
  set(f, "strides", 2, kPools[i].stride);
  set(f, "pads", 4, kPools[i].pads);
  ok(braid_graph_set_int(f->graph, f->node, "ceil_mode", kPools[i].ceil));
  ok(braid_graph_set_int(f->graph, f->node, "count_include_pad", kPools[i].include_pad));
}

static void test_pools(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++)
    for (int average = 0; average < 2; average++) {
      int64_t x[4] = {2, kPools[i].channels, kPools[i].height, kPools[i].width};
      fixture f = begin();
      braid_value_id ids[1];
      add_input(&f, ids, 4, x);
      finish_some(&f, average ? "AveragePool" : "MaxPool", ids, average ? 1 : 3, average ? -1 : 1);
      set_pool(&f, i);
      ok(braid_graph_infer_node(f.graph, f.node));
      braid_desc y = f.graph->values[f.graph->nodes[f.node].outputs[0]].desc;
      check(&f, 1);
      if (!average && i > 0) continue; /* random places are places of a window only where nothing is padded */
      fixture g = begin();
      braid_value_id both[2];
      add_input(&g, both, 4, y.dims);
      if (!average) add_typed(&g, both, BRAID_U8, 4, y.dims);
      finish(&g, average ? "AveragePoolGrad" : "MaxPoolGrad", both, 1);
      set_pool(&g, i);
      set(&g, "input_shape", 2, x + 2);
      check(&g, 1);
    }
}

static void test_bias_gradient(void **state) {
  (void)state;
  for (int64_t channels = 16; channels <= 40; channels += 24) {
    fixture f = begin();
    braid_value_id ids[1];
    add_input(&f, ids, 4, (int64_t[]){3, channels, 7, 6});
    finish(&f, "BiasGrad", ids, 1);
    check(&f, 1);
  }
}

/* Variances and inverse deviations are drawn from [-1, 1) like everything: their squares' sums must be made positive.
 */
static void make_positive(fixture *f, size_t input) {
  int64_t count = braid_desc_count(&f->operands[input].desc);
  for (int64_t i = 0; i < count; i++) ((float *)f->data[input])[i] = fabsf(((float *)f->data[input])[i]) + 0.1f;
}

static void test_batch_norm(void **state) {
  (void)state;
  for (int training = 0; training < 2; training++)
    for (int gradient = 0; gradient < 2; gradient++)
      for (int64_t channels = 16; channels <= 40; channels += 24) {
        int64_t x[4] = {3, channels, 7, 6};
        fixture f = begin();
        braid_value_id ids[5];
        add_input(&f, ids, 4, x);
        if (gradient) add_input(&f, ids, 4, x);
        for (int i = 0; i < (gradient ? 3 : 4); i++) add_input(&f, ids, 1, &channels);
        finish(&f, gradient ? "BatchNormalizationGrad" : "BatchNormalization", ids, gradient ? 3 : training ? 5 : 1);
        ok(braid_graph_set_int(f.graph, f.node, "training_mode", training));
        fill(&f);
        make_positive(&f, 4);
        check_filled(&f, 1);
      }
}

static void test_global_pools(void **state) {
  (void)state;
  fixture f = begin();
  braid_value_id ids[1];
  add_input(&f, ids, 4, (int64_t[]){3, 40, 7, 6});
  finish(&f, "GlobalAveragePool", ids, 1);
  check(&f, 1);
  fixture g = begin();
  add_input(&g, ids, 4, (int64_t[]){3, 40, 1, 1});
  finish(&g, "GlobalAveragePoolGrad", ids, 1);
  set(&g, "input_shape", 2, (int64_t[]){7, 6});
  check(&g, 1);
}

int main(void) {
  printf("seed %d\n", kSeed);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_convolution),
                                     cmocka_unit_test(test_fused_convolution),
                                     cmocka_unit_test(test_transposed_convolution),
                                     cmocka_unit_test(test_convolution_gradients),
                                     cmocka_unit_test(test_gemm),
                                     cmocka_unit_test(test_matmul),
                                     cmocka_unit_test(test_quantize),
                                     cmocka_unit_test(test_integer_matmul),
                                     cmocka_unit_test(test_integer_convolution),
                                     cmocka_unit_test(test_pools),
                                     cmocka_unit_test(test_global_pools),
                                     cmocka_unit_test(test_bias_gradient),
                                     cmocka_unit_test(test_batch_norm)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
