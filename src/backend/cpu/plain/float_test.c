/* References of convolutions, pools and normalizations: every type, both layouts and any number of threads give the
 * same answer. Double, PLAIN, one thread is the oracle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/prepared.h"
#include "backend/cpu/tables.h"
#include "base/philox.h"
#include "graph/graph.h"
#include "oom.h"
#include "tensor/half.h"

enum { kOperands = 10, kSeed = 20241003 };

typedef struct plan {
  const char *op;
  size_t inputs, outputs;
  struct {
    int rank;
    int64_t dims[5];
  } shapes[5];
  struct {
    const char *name;
    int count; /* 0: one integer */
    int64_t values[6];
  } attrs[4];
  bool layouts; /* accepts BHWC */
} plan;

#define X4                                                                                                             \
  {                                                                                                                    \
    4, {                                                                                                               \
      3, 6, 9, 11                                                                                                      \
    }                                                                                                                  \
  }
#define C6                                                                                                             \
  {                                                                                                                    \
    1, {                                                                                                               \
      6                                                                                                                \
    }                                                                                                                  \
  }
#define POOL                                                                                                           \
  {"kernel_shape", 2, {3, 2}}, {"strides", 2, {2, 1}}, {                                                               \
    "pads", 4, {                                                                                                       \
      1, 0, 1, 1                                                                                                       \
    }                                                                                                                  \
  }

static const plan kPlans[] = {
    {"Conv", 3, 1, {X4, {4, {4, 3, 3, 3}}, {1, {4}}}, {{"group", 0, {2}}, {"strides", 2, {2, 1}}}, false},
    {"FusedConv", 4, 1, {X4, {4, {6, 6, 3, 3}}, C6, X4}, {{"pads", 4, {1, 1, 1, 1}}}, false},
    {"ConvTranspose", 3, 1, {X4, {4, {6, 2, 3, 3}}, {1, {2}}}, {{"strides", 2, {2, 1}}}, false},
    {"ConvGradInput", 2, 1, {X4, {4, {6, 2, 3, 3}}}, {{"input_shape", 2, {11, 13}}}, false},
    {"ConvGradFilter", 2, 1, {{4, {3, 2, 11, 13}}, X4}, {{"kernel_shape", 2, {3, 3}}}, false},
    {"BiasGrad", 1, 1, {X4}, {{NULL}}, false},
    {"MaxPool", 1, 1, {X4}, {POOL}, true},
    {"MaxPool", 1, 2, {X4}, {POOL, {"storage_order", 0, {1}}}, true},
    {"AveragePool", 1, 1, {X4}, {POOL}, true},
    {"LpPool", 1, 1, {X4}, {POOL}, true},
    {"GlobalMaxPool", 1, 1, {X4}, {{NULL}}, true},
    {"GlobalAveragePool", 1, 1, {X4}, {{NULL}}, true},
    {"GlobalLpPool", 1, 1, {X4}, {{NULL}}, true},
    {"AveragePoolGrad", 1, 1, {{4, {3, 6, 5, 11}}}, {POOL, {"input_shape", 2, {9, 11}}}, true},
    {"LpPoolGrad", 3, 1, {{4, {3, 6, 5, 11}}, X4, {4, {3, 6, 5, 11}}}, {POOL}, true},
    {"GlobalMaxPoolGrad", 2, 1, {{4, {3, 6, 1, 1}}, X4}, {{NULL}}, true},
    {"GlobalAveragePoolGrad", 1, 1, {{4, {3, 6, 1, 1}}}, {{"input_shape", 2, {9, 11}}}, true},
    {"GlobalLpPoolGrad", 3, 1, {{4, {3, 6, 1, 1}}, X4, {4, {3, 6, 1, 1}}}, {{NULL}}, true},
    {"BatchNormalization", 5, 1, {X4, C6, C6, C6, C6}, {{NULL}}, true},
    {"BatchNormalization", 5, 5, {X4, C6, C6, C6, C6}, {{"training_mode", 0, {1}}}, true},
    {"BatchNormalizationGrad", 5, 3, {X4, X4, C6, C6, C6}, {{"training_mode", 0, {1}}}, true},
    {"BatchNormalizationGrad", 5, 3, {X4, X4, C6, C6, C6}, {{NULL}}, true},
    {"InstanceNormalization", 3, 1, {X4, C6, C6}, {{NULL}}, false},
    {"GroupNormalization", 3, 1, {X4, C6, C6}, {{"num_groups", 0, {3}}}, false},
    {"LayerNormalization", 3, 3, {X4, {1, {11}}, {1, {11}}}, {{NULL}}, false},
    {"RMSNormalization", 2, 1, {X4, {1, {11}}}, {{NULL}}, false},
    {"InstanceNormalizationGrad", 3, 3, {X4, X4, C6}, {{NULL}}, false},
    {"GroupNormalizationGrad", 3, 3, {X4, X4, C6}, {{"num_groups", 0, {2}}}, false},
    {"LayerNormalizationGrad", 3, 3, {X4, X4, {2, {9, 11}}}, {{"axis", 0, {2}}}, false},
    {"LpNormalization", 1, 1, {X4}, {{"axis", 0, {1}}}, false},
    {"MeanVarianceNormalization", 1, 1, {X4}, {{NULL}}, false},
    {"LRN", 1, 1, {X4}, {{"size", 0, {3}}}, false},
    {"LRNGrad", 2, 1, {X4, X4}, {{"size", 0, {4}}}, false},
};

static void ok(const plan *p, braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s: %s", p->op, braid_status_text(status), braid_error_detail());
}

/* --- one run -------------------------------------------------------------------------------------------------------
 */
typedef struct results {
  double *data[5]; /* PLAIN, whatever the run's layout */
  int64_t counts[5];
} results;

static void results_free(results *r) {
  for (size_t i = 0; i < 5; i++) free(r->data[i]);
}

static double load(braid_dtype dtype, const void *data, int64_t i) {
  switch (dtype) {
  case BRAID_F16:
    return braid_f16_to_f32(((const uint16_t *)data)[i]);
  case BRAID_BF16:
    return braid_bf16_to_f32(((const uint16_t *)data)[i]);
  case BRAID_F32:
    return ((const float *)data)[i];
  case BRAID_I64:
    return (double)((const int64_t *)data)[i];
  default:
    return ((const double *)data)[i];
  }
}

static void store(braid_dtype dtype, void *data, int64_t i, double value) {
  if (dtype == BRAID_F16) ((uint16_t *)data)[i] = braid_f32_to_f16((float)value);
  if (dtype == BRAID_BF16) ((uint16_t *)data)[i] = braid_f32_to_bf16((float)value);
  if (dtype == BRAID_F32) ((float *)data)[i] = (float)value;
  if (dtype == BRAID_F64) ((double *)data)[i] = value;
}

/* Where the element that is number `i` of a PLAIN tensor lies. */
static int64_t place(const braid_desc *desc, int64_t i) {
  if (desc->layout != BRAID_LAYOUT_BHWC) return i;
  int64_t plane = 1;
  for (int d = 2; d < desc->rank; d++) plane *= desc->dims[d];
  int64_t c = i / plane % desc->dims[1], b = i / plane / desc->dims[1];
  return (b * plane + i % plane) * desc->dims[1] + c;
}

/* Inputs are multiples of 1/64, exact in every type, and positive, so that spreads and norms are. */
static void fill(const braid_desc *desc, size_t input, void *data) {
  for (int64_t i = 0; i < braid_desc_count(desc); i++)
    store(desc->dtype, data, place(desc, i),
          (1 + braid_random_below(kSeed, 0, (uint32_t)input, (uint64_t)i, 127)) / 64.0);
}

static void describe(const plan *p, braid_dtype dtype, braid_graph **graph, braid_node_id *node) {
  braid_value_id ids[5], outputs[5] = {0};
  ok(p, braid_graph_create(NULL, "test", graph));
  for (size_t i = 0; i < p->inputs; i++) {
    braid_desc desc;
    ok(p, braid_desc_init(&desc, dtype, p->shapes[i].rank, p->shapes[i].dims));
    ok(p, braid_graph_add_input(*graph, NULL, &desc, &ids[i]));
  }
  ok(p, braid_graph_add_node(*graph, p->op, "n", ids, p->inputs, outputs, p->outputs, node));
  for (size_t i = 0; i < 4 && p->attrs[i].name; i++)
    ok(p, p->attrs[i].count
              ? braid_graph_set_ints(*graph, *node, p->attrs[i].name, p->attrs[i].values, (size_t)p->attrs[i].count)
              : braid_graph_set_int(*graph, *node, p->attrs[i].name, p->attrs[i].values[0]));
  ok(p, braid_graph_infer_node(*graph, *node));
}

static const braid_kernel *find_kernel(const char *op) {
  const braid_kernel **list, *found = NULL;
  size_t count;
  assert_int_equal(braid_cpu_list_kernels(braid_allocator_default(), true, &list, &count), BRAID_OK);
  for (size_t i = 0; i < count && !found; i++)
    if (strcmp(list[i]->op, op) == 0) found = list[i];
  braid_free(braid_allocator_default(), list);
  assert_non_null(found);
  return found;
}

static void operands_of(const braid_graph *graph, braid_node_id id, braid_operand *operands, braid_node_desc *desc) {
  const braid_node *node = &graph->nodes[id];
  for (size_t i = 0; i < node->input_count; i++)
    operands[i] = (braid_operand){true, graph->values[node->inputs[i]].desc, NULL};
  for (size_t i = 0; i < node->output_count; i++)
    operands[node->input_count + i] = (braid_operand){true, graph->values[node->outputs[i]].desc, NULL};
  *desc = (braid_node_desc){.op = node->op->name,
                            .name = "n",
                            .attrs = &node->attrs,
                            .input_count = node->input_count,
                            .output_count = node->output_count,
                            .inputs = operands,
                            .outputs = operands + node->input_count};
}

static void choose_layouts(const braid_kernel *kernel, const braid_node_desc *desc, braid_operand *operands) {
  braid_layout layouts[kOperands] = {BRAID_LAYOUT_PLAIN};
  for (size_t i = 0; i < desc->input_count; i++)
    if (operands[i].desc.rank >= 3) layouts[i] = BRAID_LAYOUT_BHWC;
  kernel->layouts(desc, layouts, layouts + desc->input_count);
  for (size_t i = 0; i < desc->input_count + desc->output_count; i++) operands[i].desc.layout = layouts[i];
  assert_int_equal(operands[0].desc.layout, BRAID_LAYOUT_BHWC);
}

static results run(const plan *p, braid_dtype dtype, bool channels_last, int threads) {
  braid_graph *graph;
  braid_node_id node;
  braid_operand operands[kOperands];
  braid_node_desc desc;
  braid_cpu_prepared *prepared;
  braid_prepared_info info;
  results out = {{NULL}, {0}};
  describe(p, dtype, &graph, &node);
  operands_of(graph, node, operands, &desc);
  const braid_kernel *kernel = find_kernel(p->op);
  if (channels_last) choose_layouts(kernel, &desc, operands);
  ok(p, braid_cpu_prepare(braid_allocator_default(), kernel, &desc, &prepared, &info));
  void *data[kOperands], *workspace = braid_alloc(NULL, info.workspace_bytes + 1);
  for (size_t i = 0; i < p->inputs + p->outputs; i++) {
    data[i] = braid_zalloc(NULL, braid_desc_bytes(&operands[i].desc));
    if (i < p->inputs) fill(&operands[i].desc, i, data[i]);
    if (i < p->inputs)
      prepared->inputs[i] = data[i];
    else
      prepared->outputs[i - p->inputs] = data[i];
  }
  omp_set_num_threads(threads);
  ok(p, braid_cpu_run(prepared, workspace));
  for (size_t i = 0; i < p->outputs; i++) {
    const braid_desc *d = &operands[p->inputs + i].desc;
    out.counts[i] = braid_desc_count(d);
    out.data[i] = malloc((size_t)out.counts[i] * sizeof(double) + 1);
    for (int64_t j = 0; j < out.counts[i]; j++) out.data[i][j] = load(d->dtype, data[p->inputs + i], place(d, j));
  }
  for (size_t i = 0; i < p->inputs + p->outputs; i++) braid_free(NULL, data[i]);
  braid_free(NULL, workspace);
  braid_cpu_discard(prepared);
  braid_graph_destroy(graph);
  return out;
}

/* Largest difference, relative to the largest magnitude of the output. */
static void compare(const plan *p, const char *what, const results *got, const results *expected, double bound) {
  for (size_t i = 0; i < p->outputs; i++) {
    double largest = 0;
    for (int64_t j = 0; j < expected->counts[i]; j++) largest = fmax(largest, fabs(expected->data[i][j]));
    for (int64_t j = 0; j < expected->counts[i]; j++)
      if (!(fabs(got->data[i][j] - expected->data[i][j]) <= bound * largest))
        fail_msg("%s, %s: output %zu at %lld is %.9g, expected %.9g", p->op, what, i, (long long)j, got->data[i][j],
                 expected->data[i][j]);
  }
}

/* --- tests ---------------------------------------------------------------------------------------------------------
 */
enum { kPlanCount = sizeof kPlans / sizeof *kPlans };

static void every_type(void **state) {
  (void)state;
  static const struct {
    braid_dtype dtype;
    double bound; /* a few roundings of the result; more where differences cancel */
  } kTypes[] = {{BRAID_F32, 2e-5}, {BRAID_F16, 4e-3}, {BRAID_BF16, 3e-2}};
  for (size_t i = 0; i < kPlanCount; i++) {
    results expected = run(&kPlans[i], BRAID_F64, false, 1);
    for (size_t t = 0; t < 3; t++) {
      results got = run(&kPlans[i], kTypes[t].dtype, false, 1);
      compare(&kPlans[i], braid_dtype_name(kTypes[t].dtype), &got, &expected, kTypes[t].bound);
      results_free(&got);
    }
    results_free(&expected);
  }
}

static void channels_last(void **state) {
  (void)state;
  for (size_t i = 0; i < kPlanCount; i++) {
    if (!kPlans[i].layouts) continue;
    results expected = run(&kPlans[i], BRAID_F64, false, 1), got = run(&kPlans[i], BRAID_F64, true, 1);
    compare(&kPlans[i], "BHWC", &got, &expected, 1e-12);
    results_free(&expected);
    results_free(&got);
  }
}

static void any_number_of_threads(void **state) {
  (void)state;
  for (size_t i = 0; i < kPlanCount; i++)
    for (int last = 0; last <= kPlans[i].layouts; last++) {
      results expected = run(&kPlans[i], BRAID_F32, last, 1), got = run(&kPlans[i], BRAID_F32, last, 5);
      compare(&kPlans[i], "5 threads", &got, &expected, 0);
      results_free(&expected);
      results_free(&got);
    }
}

static braid_status prepare(const braid_allocator *allocator, void *context) {
  const braid_node_desc *desc = context;
  braid_cpu_prepared *prepared;
  braid_prepared_info info;
  braid_status status = braid_cpu_prepare(allocator, find_kernel(desc->op), desc, &prepared, &info);
  if (status == BRAID_OK) braid_cpu_discard(prepared);
  return status;
}

static void out_of_memory(void **state) {
  (void)state;
  for (size_t i = 0; i < kPlanCount; i++) {
    braid_graph *graph;
    braid_node_id node;
    braid_operand operands[kOperands];
    braid_node_desc desc;
    describe(&kPlans[i], BRAID_F32, &graph, &node);
    operands_of(graph, node, operands, &desc);
    assert_true(oom_sweep(prepare, &desc) > 0);
    braid_graph_destroy(graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_type),
      cmocka_unit_test(channels_last),
      cmocka_unit_test(any_number_of_threads),
      cmocka_unit_test(out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
