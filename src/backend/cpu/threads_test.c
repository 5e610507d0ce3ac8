/* Results do not depend on the number of threads: every kernel of the CPU, prepared and run by 1, 2, 3, 4 and 7
 * threads, and by one where 7 were asked for (as OpenMP's limits do it), bit for bit. Products and convolutions over
 * random shapes, where sums are long or outputs few, since there a library divides sums; every other op over whatever
 * operands of a few kinds it accepts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/prepared.h"
#include "backend/cpu/tables.h"
#include "base/philox.h"
#include "graph/graph.h"
#include "graph/known_attrs.h"

enum { kMaxOperands = 10, kMaxKernels = 16, kSeed = 20260307, kProducts = 40, kConvolutions = 10 };
/* Multiply-accumulates of a random node: bits are compared without AddressSanitizer, which looks for places. */
#ifdef BRAID_ADDRESS_SANITIZER
static const double kMostWork = 5e5;
#else
static const double kMostWork = 1e7;
#endif
static const int kThreads[] = {1, 2, 3, 4, 7, 7};
enum { kCounts = sizeof kThreads / sizeof *kThreads, kLimited = kCounts - 1 };

static const braid_kernel **kernels;
static size_t kernel_count;

/* --- one node ------------------------------------------------------------------------------------------------------
 */
typedef struct fixture {
  braid_graph *graph;
  braid_node_id node;
  braid_value_id ids[kMaxOperands];
  braid_operand operands[kMaxOperands]; /* inputs, then outputs */
  size_t inputs, outputs;
} fixture;

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static fixture begin(void) {
  fixture f = {.inputs = 0};
  ok(braid_graph_create(NULL, "test", &f.graph));
  return f;
}

static void add_input(fixture *f, braid_dtype dtype, int rank, const int64_t *dims) {
  braid_desc desc;
  ok(braid_desc_init(&desc, dtype, rank, dims));
  ok(braid_graph_add_input(f->graph, NULL, &desc, &f->ids[f->inputs++]));
}

static void add_node(fixture *f, const char *op, size_t outputs) {
  braid_value_id results[kMaxOperands] = {0};
  ok(braid_graph_add_node(f->graph, op, "n", f->ids, f->inputs, results, outputs, &f->node));
  f->outputs = outputs;
}

static bool infer(fixture *f) {
  if (braid_graph_infer_node(f->graph, f->node) != BRAID_OK) return false;
  const braid_node *node = &f->graph->nodes[f->node];
  for (size_t i = 0; i < f->inputs + f->outputs; i++) {
    braid_value_id id = i < f->inputs ? node->inputs[i] : node->outputs[i - f->inputs];
    f->operands[i] = (braid_operand){id >= 0, id >= 0 ? f->graph->values[id].desc : (braid_desc){.rank = 0}, NULL};
  }
  return true;
}

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

/* float in [-1, 1), or small integers, which are valid indices. */
static void *random_data(const braid_desc *desc, uint32_t stream) {
  size_t bytes = braid_desc_bytes(desc), size = braid_dtype_size(desc->dtype);
  char *data = braid_zalloc(NULL, bytes + 1);
  for (size_t i = 0; i < bytes / size; i++) {
    float value = braid_random_uniform(kSeed, 0, stream, i) * 2 - 1;
    if (desc->dtype == BRAID_F32)
      memcpy(data + i * size, &value, size);
    else
      data[i * size] = (char)(braid_random_u32(kSeed, 0, stream, i) & (desc->dtype == BRAID_BOOL ? 1 : 3));
  }
  return data;
}

/* --- runs ----------------------------------------------------------------------------------------------------------
 */
typedef struct results {
  void *data[kMaxOperands];
  braid_status status;
} results;

/* Input 1 is a constant if `constant`: weights that are packed. */
static results run(const fixture *f, const braid_kernel *kernel, bool constant, int threads) {
  results out = {.status = BRAID_OK};
  braid_operand operands[kMaxOperands];
  memcpy(operands, f->operands, sizeof operands);
  braid_node_desc node = describe(f, operands);
  braid_layout layouts[kMaxOperands] = {BRAID_LAYOUT_PLAIN};
  void *inputs[kMaxOperands] = {NULL};
  omp_set_num_threads(threads);
  if (kernel->layouts) kernel->layouts(&node, layouts, layouts + f->inputs);
  for (size_t i = 0; i < f->inputs + f->outputs; i++) {
    if (!operands[i].present) continue;
    operands[i].desc.layout = layouts[i];
    void *data = i < f->inputs ? random_data(&operands[i].desc, (uint32_t)i)
                               : braid_zalloc(NULL, braid_desc_bytes(&operands[i].desc) + 1);
    *(i < f->inputs ? &inputs[i] : &out.data[i - f->inputs]) = data;
  }
  if (constant) operands[1].constant = inputs[1];
  braid_cpu_prepared *prepared;
  braid_prepared_info info = {0};
  out.status = braid_cpu_prepare(NULL, kernel, &node, &prepared, &info);
  if (out.status == BRAID_OK) {
    void *workspace = info.workspace_bytes ? braid_zalloc(NULL, info.workspace_bytes) : NULL;
    for (size_t i = 0; i < f->inputs; i++) prepared->inputs[i] = info.constants_folded >> i & 1 ? NULL : inputs[i];
    for (size_t i = 0; i < f->outputs; i++) prepared->outputs[i] = out.data[i];
    out.status = braid_cpu_run(prepared, workspace);
    braid_free(NULL, workspace);
    braid_cpu_discard(prepared);
  }
  for (size_t i = 0; i < f->inputs; i++) braid_free(NULL, inputs[i]);
  return out;
}

static void compare(const fixture *f, const braid_kernel *kernel, int threads, const results *got,
                    const results *first) {
  char shapes[2][128];
  for (size_t i = 0; i < 2 && i < f->inputs; i++) braid_desc_format(&f->operands[i].desc, shapes[i], sizeof shapes[i]);
  for (size_t i = 0; i < f->outputs && first->status == BRAID_OK; i++)
    if (f->operands[f->inputs + i].present &&
        memcmp(got->data[i], first->data[i], braid_desc_bytes(&f->operands[f->inputs + i].desc)) != 0)
      fail_msg("%s, %s of %s and %s: %d threads give other bits than one", kernel->op, kernel->name, shapes[0],
               f->inputs > 1 ? shapes[1] : "nothing", threads);
}

static void results_free(results *r) {
  for (size_t i = 0; i < kMaxOperands; i++) braid_free(NULL, r->data[i]);
}

/* Returns how many kernels ran. */
static int check_kernels(const fixture *f, bool constant) {
  char why[256];
  int ran = 0;
  braid_node_desc node = describe(f, f->operands);
  for (size_t k = 0; k < kernel_count; k++) {
    const braid_kernel *kernel = kernels[k];
    if (strcmp(kernel->op, node.op) != 0) continue;
    bool takes[kCounts];
    results all[kCounts];
    for (int t = 0; t < kCounts; t++) {
      omp_set_num_threads(kThreads[t]);
      takes[t] = !kernel->match || kernel->match(&node, why, sizeof why);
      if (takes[t] != takes[0]) fail_msg("%s, %s: taken or not by the number of threads", kernel->op, kernel->name);
    }
    if (!takes[0]) continue;
    int levels = omp_get_max_active_levels();
    for (int t = 0; t < kCounts; t++) {
      omp_set_max_active_levels(t == kLimited ? 0 : levels);
      all[t] = run(f, kernel, constant, kThreads[t]);
      omp_set_max_active_levels(levels);
      assert_int_equal(all[t].status, all[0].status);
      if (t) compare(f, kernel, kThreads[t], &all[t], &all[0]);
    }
    ran += all[0].status == BRAID_OK;
    for (int t = 0; t < kCounts; t++) results_free(&all[t]);
  }
  return ran;
}

/* --- products and convolutions -------------------------------------------------------------------------------------
 */
static uint64_t drawn;

static int64_t pick(const int64_t *from, size_t count) {
  return from[braid_random_below(kSeed, 1, 0, drawn++, (uint32_t)count)];
}
#define PICK(list) pick(list, sizeof(list) / sizeof *(list))

static const int64_t kCoin[] = {0, 1};

typedef struct factors {
  int64_t batch, rows, inner, columns, ta, tb;
} factors;

static factors random_factors(void) {
  static const int64_t kSizes[] = {1, 2, 5, 10, 16, 17, 48, 64, 100, 197, 384, 1000, 2048, 4096, 9216};
  static const int64_t kBatches[] = {1, 1, 1, 3, 12};
  for (;;) {
    factors p = {PICK(kBatches), PICK(kSizes), PICK(kSizes), PICK(kSizes), PICK(kCoin), PICK(kCoin)};
    if ((double)(p.batch * p.rows) * (double)(p.inner * p.columns) <= kMostWork) return p;
  }
}

static void check_product(const factors *p, bool gemm, bool constant) {
  fixture f = begin();
  int64_t a[] = {p->batch, p->ta ? p->inner : p->rows, p->ta ? p->rows : p->inner};
  int64_t b[] = {p->batch, p->tb ? p->columns : p->inner, p->tb ? p->inner : p->columns};
  int from = gemm ? 1 : 0;
  add_input(&f, BRAID_F32, 3 - from, a + from);
  add_input(&f, BRAID_F32, 3 - from, b + from);
  if (gemm) add_input(&f, BRAID_F32, 1, &p->columns);
  add_node(&f, gemm ? "Gemm" : "MatMul", 1);
  ok(braid_graph_set_int(f.graph, f.node, "transA", p->ta));
  ok(braid_graph_set_int(f.graph, f.node, "transB", p->tb));
  assert_true(infer(&f));
  assert_true(check_kernels(&f, constant) >= 1);
  braid_graph_destroy(f.graph);
}

static void test_products(void **state) {
  (void)state;
  /* Whose sums oneDNN divides among threads, or cuts into blocks by their number. */
  static const factors kKnown[] = {{1, 64, 4096, 64, 1, 1}, {1, 10, 9216, 17, 1, 1}, {1, 5, 4096, 32, 1, 0},
                                   {1, 2, 9216, 3, 1, 0},   {12, 32, 256, 48, 0, 1}, {1, 1, 9216, 1000, 0, 0}};
  for (size_t i = 0; i < sizeof kKnown / sizeof *kKnown + kProducts; i++) {
    factors p = i < sizeof kKnown / sizeof *kKnown ? kKnown[i] : random_factors();
    check_product(&p, p.batch == 1 && i % 2 == 0, PICK(kCoin) != 0);
  }
}

typedef struct shape {
  int64_t batch, channels, filters, side, kernel, stride, dilation, groups, pad;
} shape;

static int64_t result_side(const shape *s) {
  return (s->side + 2 * s->pad - (s->kernel - 1) * s->dilation - 1) / s->stride + 1;
}

static shape random_shape(void) {
  static const int64_t kBatches[] = {1, 1, 2, 3, 4, 16, 33}, kChannels[] = {1, 3, 16, 20, 64, 80, 128, 256},
                       kSides[] = {1, 4, 7, 8, 14, 28, 56}, kKernels[] = {1, 3, 3, 3, 5, 7},
                       kGroups[] = {1, 1, 1, 0, 4};
  for (;;) {
    shape s = {PICK(kBatches),
               PICK(kChannels),
               PICK(kChannels),
               PICK(kSides),
               PICK(kKernels),
               1 + PICK(kCoin) * PICK(kCoin),
               1 + PICK(kCoin) * PICK(kCoin),
               PICK(kGroups),
               0};
    if (s.groups == 0) s.groups = s.filters = s.channels;
    if (s.kernel == 1) s.dilation = 1;
    if (PICK(kCoin)) s.pad = (s.kernel - 1) / 2 * s.dilation;
    if (s.channels % s.groups || s.filters % s.groups || (s.kernel - 1) * s.dilation + 1 > s.side + 2 * s.pad) continue;
    double outputs = (double)(s.batch * s.filters) * (double)(result_side(&s) * result_side(&s));
    if (outputs * (double)(s.kernel * s.kernel * s.channels / s.groups) <= kMostWork) return s;
  }
}

/* `which`: Conv, ConvGradInput, ConvGradFilter or ConvTranspose. */
static void check_convolution(const char *op, const shape *s, bool constant) {
  int64_t x[] = {s->batch, s->channels, s->side, s->side}, side = result_side(s);
  int64_t w[] = {s->filters, s->channels / s->groups, s->kernel, s->kernel}, y[] = {s->batch, s->filters, side, side};
  bool by_filter = strcmp(op, "ConvGradFilter") == 0, forward = strcmp(op, "Conv") == 0;
  fixture f = begin();
  add_input(&f, BRAID_F32, 4, forward || by_filter ? x : y);
  add_input(&f, BRAID_F32, 4, by_filter ? y : w);
  add_node(&f, op, 1);
  ok(braid_graph_set_ints(f.graph, f.node, "pads", (int64_t[]){s->pad, s->pad, s->pad, s->pad}, 4));
  ok(braid_graph_set_ints(f.graph, f.node, "strides", (int64_t[]){s->stride, s->stride}, 2));
  ok(braid_graph_set_ints(f.graph, f.node, "dilations", (int64_t[]){s->dilation, s->dilation}, 2));
  ok(braid_graph_set_int(f.graph, f.node, "group", s->groups));
  if (strcmp(op, "ConvGradInput") == 0) ok(braid_graph_set_ints(f.graph, f.node, "input_shape", x + 2, 2));
  if (by_filter) ok(braid_graph_set_ints(f.graph, f.node, "kernel_shape", (int64_t[]){s->kernel, s->kernel}, 2));
  ok(infer(&f) ? BRAID_OK : BRAID_INVALID_GRAPH);
  assert_true(check_kernels(&f, constant && !by_filter) >= 1);
  braid_graph_destroy(f.graph);
}

static void test_convolutions(void **state) {
  (void)state;
  static const shape kKnown[] = {
      {4, 112, 64, 12, 3, 1, 1, 1, 0},  /* Winograd, where oneDNN chooses between two by threads */
      {16, 96, 64, 12, 3, 1, 1, 1, 1},  /* Winograd, in blocks that depend on them */
      {1, 64, 20, 7, 5, 2, 2, 1, 4},    /* a product in blocks that depend on them */
      {1, 8, 48, 4, 7, 2, 1, 1, 3},     /* the same, without AVX-512 */
      {33, 32, 32, 16, 3, 1, 1, 32, 1}, /* depthwise, a batch that no number of pieces divides */
  };
  for (size_t i = 0; i < sizeof kKnown / sizeof *kKnown + kConvolutions; i++) {
    shape s = i < sizeof kKnown / sizeof *kKnown ? kKnown[i] : random_shape();
    check_convolution("Conv", &s, i % 2);
    check_convolution("ConvGradInput", &s, false);
    check_convolution("ConvGradFilter", &s, false);
    check_convolution("ConvTranspose", &s, i % 2);
  }
}

/* --- all others ----------------------------------------------------------------------------------------------------
 */
typedef struct operand {
  braid_dtype dtype;
  int rank;
  int64_t dims[4];
} operand;

#define IMAGE                                                                                                          \
  {                                                                                                                    \
    BRAID_F32, 4, {                                                                                                    \
      3, 35, 27, 25                                                                                                    \
    }                                                                                                                  \
  }
#define CHANNELS                                                                                                       \
  {                                                                                                                    \
    BRAID_F32, 1, {                                                                                                    \
      35                                                                                                               \
    }                                                                                                                  \
  }
#define ROWS                                                                                                           \
  {                                                                                                                    \
    BRAID_F32, 2, {                                                                                                    \
      301, 307                                                                                                         \
    }                                                                                                                  \
  }
#define SCALAR                                                                                                         \
  {                                                                                                                    \
    BRAID_F32, 0, {                                                                                                    \
      0                                                                                                                \
    }                                                                                                                  \
  }

#define BYTES                                                                                                          \
  {                                                                                                                    \
    BRAID_U8, 4, {                                                                                                     \
      3, 35, 27, 25                                                                                                    \
    }                                                                                                                  \
  }
#define BYTE                                                                                                           \
  {                                                                                                                    \
    BRAID_U8, 0, {                                                                                                     \
      0                                                                                                                \
    }                                                                                                                  \
  }

enum { kKindOperands = 8 };
static const operand kKinds[][kKindOperands] = {
    {IMAGE},
    {IMAGE, IMAGE},
    {IMAGE, IMAGE, IMAGE},
    {IMAGE, IMAGE, IMAGE, IMAGE},
    {IMAGE, CHANNELS},
    {IMAGE, CHANNELS, CHANNELS},
    {IMAGE, CHANNELS, CHANNELS, CHANNELS, CHANNELS},
    {IMAGE, IMAGE, CHANNELS},
    {IMAGE, IMAGE, CHANNELS, CHANNELS},
    {IMAGE, IMAGE, CHANNELS, CHANNELS, CHANNELS},
    {ROWS},
    {ROWS, ROWS},
    {ROWS, ROWS, ROWS},
    {ROWS, {BRAID_F32, 1, {307}}},
    {ROWS, {BRAID_F32, 1, {307}}, {BRAID_F32, 1, {307}}},
    {ROWS, {BRAID_I64, 1, {301}}},
    {SCALAR, ROWS, {BRAID_I64, 1, {301}}},
    {ROWS, {BRAID_I64, 2, {301, 307}}},
    {ROWS, {BRAID_I64, 2, {301, 307}}, ROWS},
    {SCALAR, ROWS, ROWS},
    {ROWS, ROWS, SCALAR},
    {ROWS, ROWS, ROWS, SCALAR},
    {ROWS, ROWS, ROWS, ROWS, SCALAR},
    {ROWS, ROWS, ROWS, ROWS, SCALAR, SCALAR},
    {ROWS, SCALAR},
    {ROWS, SCALAR, SCALAR},
    {{BRAID_BOOL, 2, {301, 307}}},
    {{BRAID_BOOL, 2, {301, 307}}, {BRAID_BOOL, 2, {301, 307}}},
    {{BRAID_BOOL, 2, {301, 307}}, ROWS, ROWS},
    {{BRAID_I32, 2, {301, 307}}},
    {{BRAID_I32, 2, {301, 307}}, {BRAID_I32, 2, {301, 307}}},
    {{BRAID_I64, 2, {301, 307}}},
    {{BRAID_I64, 2, {301, 307}}, {BRAID_I64, 2, {301, 307}}},
    {ROWS, SCALAR, {BRAID_U8, 0, {0}}},
    {{BRAID_U8, 2, {301, 307}}, SCALAR, {BRAID_U8, 0, {0}}},
    {{BRAID_U8, 2, {301, 307}}, {BRAID_U8, 2, {307, 301}}},
    {{BRAID_U8, 2, {301, 307}}},
    {BYTES, SCALAR, BYTE, SCALAR, BYTE},
    {BYTES, SCALAR, BYTE, BYTES, SCALAR, BYTE, SCALAR, BYTE},
    {SCALAR, BYTE, BYTES, SCALAR, BYTE, BYTES, SCALAR, BYTE},
    {{BRAID_F32, 3, {37, 26, 19}}, {BRAID_F32, 3, {1, 92, 19}}, {BRAID_F32, 3, {1, 92, 23}}},
    {{BRAID_F32, 3, {37, 26, 19}}, {BRAID_F32, 3, {1, 69, 19}}, {BRAID_F32, 3, {1, 69, 23}}},
    {{BRAID_F32, 3, {37, 26, 19}}, {BRAID_F32, 3, {1, 23, 19}}, {BRAID_F32, 3, {1, 23, 23}}},
};

/* What some ops ask for beside operands: of these those that the op has. */
static void set_attributes(fixture *f, bool images) {
  static const int64_t kKernel[] = {3, 2}, kShape[] = {3, 35, 27, 25};
  const braid_attr attrs[] = {
      {.name = "size", .kind = BRAID_ATTR_INT, .i = 5},
      {.name = "hidden_size", .kind = BRAID_ATTR_INT, .i = 23},
      {.name = "num_groups", .kind = BRAID_ATTR_INT, .i = 7},
      {.name = "to", .kind = BRAID_ATTR_INT, .i = 1},
      {.name = "kernel_shape", .kind = BRAID_ATTR_INTS, .count = 2, .ints = kKernel},
      {.name = "output_shape", .kind = BRAID_ATTR_INTS, .count = 4, .ints = kShape},
  };
  for (size_t i = 0; i < (images ? 6 : 4); i++)
    if (braid_node_check_attr(&f->graph->nodes[f->node], &attrs[i]) == BRAID_OK)
      ok(braid_attrs_copy(f->graph, f->node, &attrs[i]));
}

/* Nodes of gradients are made by Braid alone, which makes their operands fit; so that is not looked at again. */
static bool may_fit(const char *op, const operand *kind) {
  if (!strstr(op, "Grad")) return true;
  for (size_t i = 1; i < kKindOperands && kind[i].dtype != BRAID_NONE; i++)
    if (kind[i].rank != kind[0].rank || kind[i].dtype != kind[0].dtype) return false;
  return kind[0].dtype == BRAID_F32 && kind[0].rank != 3;
}

static int check_kind(const char *op, const operand *kind, size_t outputs) {
  fixture f = begin();
  for (size_t i = 0; i < kKindOperands && kind[i].dtype != BRAID_NONE; i++)
    add_input(&f, kind[i].dtype, kind[i].rank, kind[i].dims);
  braid_value_id values[kMaxOperands] = {0};
  int ran = 0;
  if (braid_graph_add_node(f.graph, op, "n", f.ids, f.inputs, values, outputs, &f.node) == BRAID_OK) {
    f.outputs = outputs;
    set_attributes(&f, kind[0].rank == 4);
    if (infer(&f)) ran = check_kernels(&f, false);
  }
  braid_graph_destroy(f.graph);
  return ran;
}

/* The rest needs attributes or operands of its own; its tests run it with several threads, or move elements only. */
static void test_all_others(void **state) {
  (void)state;
  int ops = 0, covered = 0;
  for (size_t k = 0; k < kernel_count; k++) {
    bool seen = false;
    for (size_t j = 0; j < k && !seen; j++) seen = strcmp(kernels[j]->op, kernels[k]->op) == 0;
    if (seen || strstr(kernels[k]->op, "QLinearConv") || strstr(kernels[k]->op, "QLinearMatMul"))
      continue; /* those with constant weights: integers_test */
    int ran = 0;
    for (size_t kind = 0; kind < sizeof kKinds / sizeof *kKinds; kind++)
      for (size_t outputs = 1; outputs <= 3; outputs++)
        if (may_fit(kernels[k]->op, kKinds[kind])) ran += check_kind(kernels[k]->op, kKinds[kind], outputs);
    ops++;
    covered += ran > 0;
  }
  print_message("%d of %d ops\n", covered, ops);
  assert_true(covered * 10 >= ops * 6);
}

static int list_kernels(void **state) {
  (void)state;
  return braid_cpu_list_kernels(NULL, false, &kernels, &kernel_count) != BRAID_OK;
}

static int free_kernels(void **state) {
  (void)state;
  braid_free(NULL, kernels);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_products),
      cmocka_unit_test(test_convolutions),
      cmocka_unit_test(test_all_others),
  };
  return cmocka_run_group_tests(tests, list_kernels, free_kernels);
}
