/* Optimizer steps: several in a row against PyTorch's, thousands against long double, in every element type against
 * double, in place or not, and left out when their guard says so. */
#include "adamcheck.h"
#include "torchcheck.h"

#include <omp.h>

#include "backend/cpu/prepared.h"
#include "backend/cpu/tables.h"
#include "slow.h"
#include "tensor/half.h"

enum { kSteps = 3, kCount = 20000 };

/* --- against PyTorch -----------------------------------------------------------------------------------------------
 */
typedef struct recipe {
  const char *op, *expression;
  double momentum, decay, epsilon;
  bool nesterov, decoupled;
} recipe;

static const recipe kRecipes[] = {
    {"SgdUpdate", "optimized('SGD', x0, [x1, x2, x3], lr=.1, weight_decay=.01)", 0, 0.01, 0, false, false},
    {"SgdUpdate", "optimized('SGD', x0, [x1, x2, x3], lr=.1, momentum=.75)", 0.75, 0, 0, false, false},
    {"SgdUpdate", "optimized('SGD', x0, [x1, x2, x3], lr=.1, momentum=.75, weight_decay=.01, nesterov=True)", 0.75,
     0.01, 0, true, false},
    {"AdamUpdate", "optimized('Adam', x0, [x1, x2, x3], lr=.1)", 0, 0, 1e-8, false, false},
    {"AdamUpdate", "optimized('Adam', x0, [x1, x2, x3], lr=.1, weight_decay=.01, eps=.1)", 0, 0.01, 0.1, false, false},
    {"AdamUpdate", "optimized('AdamW', x0, [x1, x2, x3], lr=.1, weight_decay=.25)", 0, 0.25, 1e-8, false, true},
};

static braid_value_id constant(gradcheck *g, int rank, double value) {
  const int64_t dims[] = {7};
  return gradcheck_tensor(g, gradcheck_random(g, rank, dims, value, value), true);
}

static void set_attrs(gradcheck *g, const recipe *r, braid_node_id node) {
  gradcheck_ok(g, braid_graph_set_float(g->graph, node, "weight_decay", r->decay));
  if (strcmp(r->op, "AdamUpdate") == 0) {
    gradcheck_ok(g, braid_graph_set_float(g->graph, node, "epsilon", r->epsilon));
    gradcheck_ok(g, braid_graph_set_int(g->graph, node, "decoupled", r->decoupled));
  } else {
    gradcheck_ok(g, braid_graph_set_float(g->graph, node, "momentum", r->momentum));
    gradcheck_ok(g, braid_graph_set_int(g->graph, node, "nesterov", r->nesterov));
  }
}

/* kSteps steps of one parameter; outputs[0] is what it becomes. The tensors are the graph's first inputs: the
 * parameter, then a gradient for each step. */
static void add_steps(gradcheck *g, const recipe *r, braid_value_id outputs[3]) {
  bool adam = strcmp(r->op, "AdamUpdate") == 0, kept = adam || r->momentum != 0;
  braid_value_id gradients[kSteps];
  gradcheck_begin(g, r->op);
  outputs[0] = gradcheck_tensor(g, gradcheck_random(g, 1, (int64_t[]){7}, -1, 1), true);
  for (int step = 0; step < kSteps; step++)
    gradients[step] = gradcheck_tensor(g, gradcheck_random(g, 1, (int64_t[]){7}, -1, 1), true);
  braid_value_id rate = constant(g, 0, 0.1);
  outputs[1] = kept ? constant(g, 1, 0) : -1;
  outputs[2] = adam ? constant(g, 1, 0) : -1;
  for (int step = 0; step < kSteps; step++) {
    braid_value_id number = adam ? constant(g, 0, step + 1) : -1;
    braid_value_id inputs[] = {outputs[0], gradients[step], rate, outputs[1], outputs[2], number};
    set_attrs(g, r, gradcheck_node(g, r->op, inputs, adam ? 6 : 4, outputs, adam ? 3 : 2));
  }
}

static void as_pytorch(void **state) {
  (void)state;
  torchcheck t;
  torchcheck_open(&t);
  for (size_t i = 0; i < sizeof kRecipes / sizeof *kRecipes; i++) {
    gradcheck g;
    braid_value_id outputs[3];
    add_steps(&g, &kRecipes[i], outputs);
    torchcheck_case(&t, &g, outputs, 1, kRecipes[i].expression);
  }
  torchcheck_close(&t);
}

/* What PyTorch 2 gave in double for these numbers, where there is no PyTorch now. */
static void as_pytorch_gave(void **state) {
  (void)state;
  enum { kNumbers = 4 };
  static const double kInputs[1 + kSteps][kNumbers] = {
      {0.5, -1.25, 0.03125, 2.0}, {0.25, -0.5, 1.0, -0.0625}, {-0.75, 0.125, 0.5, 0.375}, {1.5, -1.0, -0.25, 0.6875}};
  static const double kGiven[sizeof kRecipes / sizeof *kRecipes][kNumbers] = {
      {0.3984764745, -1.10884119875, -0.09359375628125001, 1.89403100425},
      {0.4234375, -1.05625, -0.2625, 1.880078125},
      {0.3391577852109375, -0.9590714831445313, -0.313312589815918, 1.796551436839844},
      {0.4107031200349417, -1.029645654997601, -0.2183340985036704, 1.95836821482136},
      {0.4339959541826759, -1.062982204217983, -0.1912579819532349, 1.913774866620737},
      {0.3778348327762955, -0.9443310440446576, -0.2133517940167494, 1.808709262219516},
  };
  for (size_t i = 0; i < sizeof kRecipes / sizeof *kRecipes; i++) {
    gradcheck g;
    braid_value_id outputs[3];
    add_steps(&g, &kRecipes[i], outputs);
    for (int t = 0; t <= kSteps; t++) memcpy(braid_tensor_data(g.tensors[t]), kInputs[t], sizeof kInputs[t]);
    gradcheck_ok(&g, braid_graph_add_output(g.graph, outputs[0]));
    braid_graph *result = gradcheck_evaluate(&g);
    for (int k = 0; k < kNumbers; k++) {
      double is = braid_tensor_get_f64(gradcheck_output(&g, result, 0), k);
      if (!(fabs(is - kGiven[i][k]) <= 1e-14))
        fail_msg("%s: number %d is %.16g, not %.16g", kRecipes[i].expression, k, is, kGiven[i][k]);
    }
    braid_graph_destroy(result);
    gradcheck_destroy(&g);
  }
}

/* --- types, places, guards -----------------------------------------------------------------------------------------
 */
enum { kOperands = 7, kResults = 3 };

typedef struct run_result {
  double data[kResults][kCount];
} run_result;

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

static braid_tensor *make(braid_dtype dtype, int64_t count, uint32_t stream, double low, double high) {
  braid_desc desc;
  braid_tensor *tensor;
  assert_int_equal(braid_desc_init(&desc, dtype, 1, &count), BRAID_OK);
  assert_int_equal(braid_tensor_create(NULL, &desc, &tensor), BRAID_OK);
  for (int64_t i = 0; i < count; i++) {
    double u = (double)braid_random_below(GRADCHECK_SEED, 5, stream, (uint64_t)i, 33) / 32;
    braid_tensor_set_f64(tensor, i, low + (high - low) * u);
  }
  return tensor;
}

/* One step of `op` on kCount elements; results overwrite the operands that they replace if `in_place`. */
static void run_once(const char *op, braid_dtype dtype, bool in_place, double guard, int threads, run_result *out) {
  bool adam = strcmp(op, "AdamUpdate") == 0;
  size_t inputs = adam ? 7 : 5, outputs = adam ? 3 : 2;
  const size_t sources[kResults] = {0, 3, 4};
  braid_tensor *tensors[kOperands + kResults] = {NULL};
  braid_operand operands[kOperands + kResults] = {{0}};
  for (size_t i = 0; i < inputs; i++) {
    bool scalar = i == 2 || i + 1 == inputs || (adam && i == 5);
    double value = i == 2 ? 0.125 : i + 1 == inputs ? guard : 2;
    tensors[i] = scalar ? make(BRAID_F32, 1, 0, value, value) : make(dtype, kCount, (uint32_t)i, i > 1 ? 0 : -1, 1);
    operands[i] = (braid_operand){true, *braid_tensor_desc(tensors[i]), NULL};
  }
  for (size_t i = 0; i < outputs; i++) {
    tensors[inputs + i] = in_place ? braid_tensor_retain(tensors[sources[i]]) : make(dtype, kCount, 0, 0, 0);
    operands[inputs + i] = operands[sources[i]];
  }
  braid_graph *graph;
  braid_value_id ids[kOperands], results[kResults] = {0};
  braid_node_id node;
  assert_int_equal(braid_graph_create(NULL, "step", &graph), BRAID_OK);
  for (size_t i = 0; i < inputs; i++)
    assert_int_equal(braid_graph_add_input(graph, NULL, &operands[i].desc, &ids[i]), BRAID_OK);
  assert_int_equal(braid_graph_add_node(graph, op, "n", ids, inputs, results, outputs, &node), BRAID_OK);
  assert_int_equal(braid_graph_set_float(graph, node, "weight_decay", 0.25), BRAID_OK);
  assert_int_equal(braid_graph_set_float(graph, node, adam ? "epsilon" : "momentum", 0.5), BRAID_OK);
  braid_node_desc desc = {.op = op,
                          .name = "n",
                          .attrs = braid_graph_node(graph, node).attrs,
                          .input_count = inputs,
                          .output_count = outputs,
                          .inputs = operands,
                          .outputs = operands + inputs};
  braid_cpu_prepared *prepared;
  braid_prepared_info info;
  assert_int_equal(braid_cpu_prepare(braid_allocator_default(), find_kernel(op), &desc, &prepared, &info), BRAID_OK);
  for (size_t i = 0; i < inputs; i++) prepared->inputs[i] = braid_tensor_data(tensors[i]);
  for (size_t i = 0; i < outputs; i++) prepared->outputs[i] = braid_tensor_data(tensors[inputs + i]);
  omp_set_num_threads(threads);
  assert_int_equal(braid_cpu_run(prepared, NULL), BRAID_OK);
  *out = (run_result){{{0}}};
  for (size_t o = 0; o < outputs; o++)
    for (int64_t i = 0; i < kCount; i++) out->data[o][i] = braid_tensor_get_f64(tensors[inputs + o], i);
  braid_cpu_discard(prepared);
  braid_graph_destroy(graph);
  for (size_t i = 0; i < inputs + outputs; i++) braid_tensor_release(tensors[i]);
}

/* --- ONNX's steps --------------------------------------------------------------------------------------------------
 * Their epsilon is 1e-6 where the node has none: a parameter without a gradient so far stays, where 0 / 0 would be. */
static void onnx_epsilon(void **state) {
  (void)state;
  static const struct {
    const char *op;
    size_t states;
  } kCases[] = {{"ai.onnx.preview.training.Adagrad", 1}, {"ai.onnx.preview.training.Adam", 2}};
  for (size_t c = 0; c < 2; c++) {
    size_t inputs = 4 + kCases[c].states, outputs = 1 + kCases[c].states;
    float rate = 0.5f, x = 3, zeros[3] = {0}, results[3] = {0};
    int64_t updates = 0;
    void *data[6] = {&rate, &updates, &x, &zeros[0], &zeros[1], &zeros[2]};
    braid_operand operands[9];
    braid_graph *graph;
    braid_value_id ids[6], made[3] = {0};
    braid_node_id node;
    assert_int_equal(braid_graph_create(NULL, "step", &graph), BRAID_OK);
    for (size_t i = 0; i < inputs + outputs; i++) {
      operands[i] = (braid_operand){.present = true};
      braid_dtype dtype = i == 1 ? BRAID_I64 : BRAID_F32;
      assert_int_equal(braid_desc_init(&operands[i].desc, dtype, i < 2 ? 0 : 1, (int64_t[]){1}), BRAID_OK);
      if (i < inputs) assert_int_equal(braid_graph_add_input(graph, NULL, &operands[i].desc, &ids[i]), BRAID_OK);
    }
    assert_int_equal(braid_graph_add_node(graph, kCases[c].op, "n", ids, inputs, made, outputs, &node), BRAID_OK);
    braid_node_desc desc = {.op = kCases[c].op,
                            .name = "n",
                            .attrs = braid_graph_node(graph, node).attrs,
                            .input_count = inputs,
                            .output_count = outputs,
                            .inputs = operands,
                            .outputs = operands + inputs};
    braid_cpu_prepared *prepared;
    braid_prepared_info info;
    assert_int_equal(braid_cpu_prepare(braid_allocator_default(), find_kernel(kCases[c].op), &desc, &prepared, &info),
                     BRAID_OK);
    for (size_t i = 0; i < inputs; i++) prepared->inputs[i] = data[i];
    for (size_t i = 0; i < outputs; i++) prepared->outputs[i] = &results[i];
    assert_int_equal(braid_cpu_run(prepared, NULL), BRAID_OK);
    assert_true(results[0] == 3);
    braid_cpu_discard(prepared);
    braid_graph_destroy(graph);
  }
}

static const char *const kOps[] = {"SgdUpdate", "AdamUpdate"};
static run_result expected, got;

static void compare(const char *op, const char *what, double bound) {
  for (int o = 0; o < kResults; o++)
    for (int i = 0; i < kCount; i++)
      if (!(fabs(got.data[o][i] - expected.data[o][i]) <= bound))
        fail_msg("%s, %s: result %d at %d is %.9g, expected %.9g (seed %d)", op, what, o, i, got.data[o][i],
                 expected.data[o][i], GRADCHECK_SEED);
}

static void every_type(void **state) {
  (void)state;
  static const struct {
    braid_dtype dtype;
    double bound;
  } kTypes[] = {{BRAID_F32, 1e-6}, {BRAID_F16, 2e-3}, {BRAID_BF16, 1.6e-2}};
  for (int op = 0; op < 2; op++) {
    run_once(kOps[op], BRAID_F64, false, 0, 1, &expected);
    for (size_t t = 0; t < sizeof kTypes / sizeof *kTypes; t++) {
      run_once(kOps[op], kTypes[t].dtype, false, 0, 1, &got);
      compare(kOps[op], braid_dtype_name(kTypes[t].dtype), kTypes[t].bound);
    }
  }
}

static void in_place_and_threads(void **state) {
  (void)state;
  for (int op = 0; op < 2; op++) {
    run_once(kOps[op], BRAID_F32, false, 0, 1, &expected);
    run_once(kOps[op], BRAID_F32, true, 0, 5, &got);
    compare(kOps[op], "in place, 5 threads", 0);
  }
}

/* With a loss that is not finite everything stays as it was. */
static void guarded(void **state) {
  (void)state;
  for (int op = 0; op < 2; op++)
    for (int in_place = 0; in_place < 2; in_place++) {
      braid_tensor *parameter = make(BRAID_F32, kCount, 0, -1, 1);
      run_once(kOps[op], BRAID_F32, in_place, in_place ? INFINITY : NAN, 1, &got);
      for (int64_t i = 0; i < kCount; i++)
        assert_true(got.data[0][i] == braid_tensor_get_f64(parameter, i)); /* exact: multiples of 1/16 */
      braid_tensor_release(parameter);
    }
}

static void adam_as_exact(void **state) {
  (void)state;
  skip_if_slow();
  const braid_session_options options = {.devices = "cpu", .threads = 1, .training = true};
  adamcheck_run(&options);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(as_pytorch),   cmocka_unit_test(as_pytorch_gave), cmocka_unit_test(adam_as_exact),
      cmocka_unit_test(onnx_epsilon), cmocka_unit_test(every_type),      cmocka_unit_test(in_place_and_threads),
      cmocka_unit_test(guarded),
  };
  return skip_run_group_tests(tests, NULL, NULL);
}
