/* Random graphs, run in every way there is: with and without shared memory, fusion, several threads, on one device and
 * spread over several with and without memory of their own. What only changes places must not change a bit; fusion may
 * round differently; all stay near the plain reference kernels applied node by node. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/evaluate.h"
#include "base/philox.h"
#include "braid/session.h"
#include "graph/graph.h"
#include "graph/onnx_dtype.h"
#include "oom.h"

#define OK(expression)                                                                                                 \
  do {                                                                                                                 \
    braid_status ok_status_ = (expression);                                                                            \
    if (ok_status_ != BRAID_OK) fail_msg("%s: %s", braid_status_text(ok_status_), braid_error_detail());               \
  } while (0)

enum { kGraphs = 30, kMostNodes = 30, kMostOutputs = 16, kRuns = 3, kBatch = 2, kChannels = 20, kSide = 5 };
enum { kElements = kBatch * kChannels * kSide * kSide };
static const uint64_t kSeed = 4711;
static const int64_t kShape[4] = {kBatch, kChannels, kSide, kSide};

/* --- making a graph ------------------------------------------------------------------------------------------------
 * All values that are chosen from have the same shape, so that any may be the input of any node. */
typedef struct maker {
  braid_graph *graph;
  uint32_t round;
  uint64_t drawn;
  braid_value_id values[2 * kMostNodes];
  uint32_t count;
} maker;

static uint32_t draw(maker *m, uint32_t bound) {
  return braid_random_below(kSeed, m->round, 0, m->drawn++, bound);
}

static braid_value_id any(maker *m) {
  uint32_t near = m->count < 6 ? m->count : 6; /* mostly recent ones, so that chains form */
  return draw(m, 4) ? m->values[m->count - 1 - draw(m, near)] : m->values[draw(m, m->count)];
}

static braid_tensor *tensor_of(maker *m, int rank, const int64_t *dims, float scale, float offset) {
  braid_desc desc;
  braid_tensor *tensor;
  OK(braid_desc_init(&desc, BRAID_F32, rank, dims));
  OK(braid_tensor_create(NULL, &desc, &tensor));
  float *data = braid_tensor_data(tensor);
  for (int64_t i = 0; i < braid_desc_count(&desc); i++)
    data[i] = offset + scale * (2 * braid_random_uniform(kSeed, m->round, 1, m->drawn++) - 1);
  return tensor;
}

static braid_value_id keep(maker *m, braid_value_kind kind, int rank, const int64_t *dims, float scale, float offset) {
  braid_tensor *tensor = tensor_of(m, rank, dims, scale, offset);
  braid_value_id id;
  OK(braid_graph_add_tensor(m->graph, NULL, kind, tensor, &id));
  braid_tensor_release(tensor);
  return id;
}

static braid_value_id shape_constant(maker *m, int rank, const int64_t *dims) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id id;
  int64_t length = rank;
  OK(braid_desc_init(&desc, BRAID_I64, 1, &length));
  OK(braid_tensor_create(NULL, &desc, &tensor));
  memcpy(braid_tensor_data(tensor), dims, (size_t)rank * sizeof *dims);
  OK(braid_graph_add_tensor(m->graph, NULL, BRAID_VALUE_CONSTANT, tensor, &id));
  braid_tensor_release(tensor);
  return id;
}

static braid_value_id add_node(maker *m, const char *op, size_t count, const braid_value_id *inputs,
                               braid_node_id *node) {
  braid_value_id output = 0;
  OK(braid_graph_add_node(m->graph, op, NULL, inputs, count, &output, 1, node));
  return output;
}

static braid_value_id conv_to(maker *m, braid_value_id x, int64_t channels, int64_t filters, int64_t side) {
  braid_node_id node;
  braid_value_id w = keep(m, draw(m, 2) ? BRAID_VALUE_CONSTANT : BRAID_VALUE_PARAMETER, 4,
                          (int64_t[]){filters, channels, side, side}, 0.1f, 0);
  braid_value_id y = add_node(m, "Conv", 2, (braid_value_id[]){x, w}, &node);
  int64_t pad = side / 2;
  OK(braid_graph_set_ints(m->graph, node, "pads", (int64_t[]){pad, pad, pad, pad}, 4));
  return y;
}

static braid_value_id conv(maker *m, braid_value_id x, int64_t channels, int64_t side) {
  return conv_to(m, x, channels, kChannels, side);
}

static braid_value_id pool(maker *m, const char *op) {
  braid_node_id node;
  braid_value_id y = add_node(m, op, 1, (braid_value_id[]){any(m)}, &node);
  OK(braid_graph_set_ints(m->graph, node, "kernel_shape", (int64_t[]){3, 3}, 2));
  OK(braid_graph_set_ints(m->graph, node, "pads", (int64_t[]){1, 1, 1, 1}, 4));
  return y;
}

static braid_value_id concat(maker *m) {
  braid_node_id node;
  braid_value_id y = add_node(m, "Concat", 2, (braid_value_id[]){any(m), any(m)}, &node);
  OK(braid_graph_set_int(m->graph, node, "axis", 1));
  return conv(m, y, 2 * kChannels, 1);
}

/* Joined and cut where blocks of 16 channels end. */
static braid_value_id blocks(maker *m) {
  braid_node_id node;
  braid_value_id x = any(m), parts[3] = {0};
  braid_value_id both[2] = {conv_to(m, x, kChannels, 32, 1), conv_to(m, any(m), kChannels, 16, 3)};
  braid_value_id y = add_node(m, "Concat", 2, both, &node);
  OK(braid_graph_set_int(m->graph, node, "axis", 1));
  OK(braid_graph_add_node(m->graph, "Split", NULL, &y, 1, parts, 3, &node));
  OK(braid_graph_set_int(m->graph, node, "axis", 1));
  OK(braid_graph_set_int(m->graph, node, "num_outputs", 3));
  return conv(m, add_node(m, "Add", 2, &parts[draw(m, 2)], NULL), 16, 1);
}

static braid_value_id there_and_back(maker *m) {
  braid_value_id flat = shape_constant(m, 3, (int64_t[]){kBatch, kChannels, kSide * kSide});
  braid_value_id full = shape_constant(m, 4, kShape);
  braid_value_id y = add_node(m, "Reshape", 2, (braid_value_id[]){any(m), flat}, NULL);
  if (draw(m, 2)) y = add_node(m, "Relu", 1, &y, NULL);
  return add_node(m, "Reshape", 2, (braid_value_id[]){y, full}, NULL);
}

static braid_value_id transpose(maker *m) {
  braid_node_id node;
  braid_value_id y = add_node(m, "Transpose", 1, (braid_value_id[]){any(m)}, &node);
  OK(braid_graph_set_ints(m->graph, node, "perm", (int64_t[]){0, 1, 3, 2}, 4));
  return y;
}

static braid_value_id normalize(maker *m, braid_value_id x) {
  int64_t channels = kChannels;
  braid_value_id inputs[5] = {
      x, keep(m, BRAID_VALUE_CONSTANT, 1, &channels, 0.5f, 1), keep(m, BRAID_VALUE_CONSTANT, 1, &channels, 0.5f, 0),
      keep(m, BRAID_VALUE_CONSTANT, 1, &channels, 0.1f, 0), keep(m, BRAID_VALUE_CONSTANT, 1, &channels, 0.2f, 1)};
  braid_node_id node;
  braid_value_id y = add_node(m, "BatchNormalization", 5, inputs, &node);
  /* so large that every result depends on it; sometimes ONNX's default */
  if (draw(m, 4)) OK(braid_graph_set_float(m->graph, node, "epsilon", 0.05f * (float)(1 + draw(m, 8))));
  return y;
}

static braid_value_id binary(maker *m, const char *op) {
  int64_t channels[3] = {kChannels, 1, 1};
  braid_value_id other = any(m);
  if (!draw(m, 3)) other = keep(m, BRAID_VALUE_CONSTANT, 3, channels, 0.5f, 1);
  if (!draw(m, 6)) other = keep(m, BRAID_VALUE_CONSTANT, 0, NULL, 0.5f, 1);
  return add_node(m, op, 2, (braid_value_id[]){any(m), other}, NULL);
}

static braid_value_id unary(maker *m, const char *op) {
  return add_node(m, op, 1, (braid_value_id[]){any(m)}, NULL);
}

/* A state that is read and moves with the graph: by the optimizer, in place, or with what was computed from it. */
static braid_value_id with_state(maker *m) {
  bool optimizer = draw(m, 2);
  braid_value_id x = any(m);
  braid_value_id s = keep(m, optimizer ? BRAID_VALUE_PARAMETER : BRAID_VALUE_STATE, 4, kShape, 0.5f, 0);
  braid_value_id y = add_node(m, "Add", 2, (braid_value_id[]){x, s}, NULL), next;
  if (optimizer) {
    braid_value_id rate = keep(m, BRAID_VALUE_CONSTANT, 0, NULL, 0, 0.1f);
    next = add_node(m, "SgdUpdate", 3, (braid_value_id[]){s, draw(m, 2) ? x : y, rate}, NULL);
  } else {
    next = add_node(m, "Mul", 2, (braid_value_id[]){y, keep(m, BRAID_VALUE_CONSTANT, 0, NULL, 0, 0.5f)}, NULL);
  }
  OK(braid_graph_update_state(m->graph, s, next));
  if (!draw(m, 4)) OK(braid_graph_add_output(m->graph, draw(m, 2) ? s : next));
  if (!draw(m, 3)) y = add_node(m, "Add", 2, (braid_value_id[]){next, s}, NULL); /* needs the old and the new */
  return y;
}

static braid_value_id grow(maker *m) {
  switch (draw(m, 14)) {
  case 0:
    return conv(m, any(m), kChannels, 3);
  case 1:
    return conv(m, any(m), kChannels, 1);
  case 2:
    return pool(m, "MaxPool");
  case 3:
    return pool(m, "AveragePool");
  case 4:
    return concat(m);
  case 5:
    return there_and_back(m);
  case 6:
    return transpose(m);
  case 7:
    return normalize(m, draw(m, 2) ? conv(m, any(m), kChannels, 3) : any(m));
  case 8:
    return binary(m, "Add");
  case 9:
    return binary(m, "Mul");
  case 10:
    return unary(m, "Relu");
  case 12:
    return blocks(m);
  case 11:
    return unary(m, draw(m, 2) ? "Sigmoid" : "Identity");
  default:
    return with_state(m);
  }
}

static braid_graph *make_graph(uint32_t round) {
  maker m = {.round = round};
  braid_desc desc;
  char name[16];
  OK(braid_graph_create(NULL, "random", &m.graph));
  OK(braid_desc_init(&desc, BRAID_F32, 4, kShape));
  for (int i = 0; i < 2; i++) {
    snprintf(name, sizeof name, "x%d", i);
    OK(braid_graph_add_input(m.graph, name, &desc, &m.values[m.count++]));
  }
  uint32_t nodes = 3 + draw(&m, kMostNodes - 3);
  for (uint32_t i = 0; i < nodes; i++) {
    m.values[m.count] = grow(&m);
    m.count++;
    if (!draw(&m, 10) && m.graph->output_count < kMostOutputs - 4) OK(braid_graph_add_output(m.graph, any(&m)));
  }
  OK(braid_graph_add_output(m.graph, m.values[m.count - 1]));
  return m.graph;
}

/* --- running it ----------------------------------------------------------------------------------------------------
 */
typedef struct results {
  size_t outputs;
  float output[kRuns][kMostOutputs][kElements];
} results;

static float inputs[2][kElements];

static void run_session(const braid_graph *graph, const braid_session_options *options, results *out) {
  braid_session *session;
  OK(braid_session_create(graph, options, &session));
  out->outputs = braid_session_output_count(session);
  assert_true(out->outputs <= kMostOutputs);
  memset(out->output, 0, sizeof out->output);
  for (int run = 0; run < kRuns; run++) {
    void *outputs[kMostOutputs];
    for (size_t i = 0; i < out->outputs; i++) outputs[i] = out->output[run][i];
    OK(braid_session_run(session, (const void *[]){inputs[0], inputs[1]}, outputs));
  }
  braid_session_destroy(session);
}

/* The first run, node by node, each with the reference kernel. */
static void run_reference(const braid_graph *given, results *out) {
  braid_graph *graph;
  OK(braid_graph_clone(given, &graph));
  OK(braid_resolve(graph));
  braid_cpu_evaluator evaluator;
  OK(braid_cpu_evaluator_init(&evaluator, NULL));
  for (size_t i = 0; i < graph->input_count; i++) {
    braid_value *value = &graph->values[graph->inputs[i]];
    OK(braid_tensor_wrap(NULL, &value->desc, inputs[i], NULL, NULL, &value->tensor));
  }
  for (size_t i = 0; i < graph->node_count; i++) {
    const braid_node *node = &graph->nodes[i];
    const braid_tensor *operands[8] = {NULL};
    braid_tensor *made[8] = {NULL};
    assert_true(node->input_count <= 8 && node->output_count <= 8);
    for (size_t j = 0; j < node->input_count; j++)
      if (node->inputs[j] >= 0) operands[j] = graph->values[node->inputs[j]].tensor;
    OK(braid_cpu_evaluate(&evaluator, graph, node, operands, made));
    for (size_t j = 0; j < node->output_count; j++)
      if (node->outputs[j] >= 0) graph->values[node->outputs[j]].tensor = made[j];
  }
  for (size_t i = 0; i < graph->output_count; i++)
    memcpy(out->output[0][i], braid_tensor_const_data(graph->values[graph->outputs[i]].tensor),
           sizeof out->output[0][i]);
  braid_cpu_evaluator_deinit(&evaluator);
  braid_graph_destroy(graph);
}

static void compare(const char *what, uint32_t round, const results *a, const results *b, int runs, float tolerance) {
  for (int run = 0; run < runs; run++)
    for (size_t i = 0; i < a->outputs; i++)
      for (size_t e = 0; e < kElements; e++) {
        float x = a->output[run][i][e], y = b->output[run][i][e];
        bool equal = tolerance == 0 ? memcmp(&x, &y, sizeof x) == 0 : fabsf(x - y) <= tolerance * (1 + fabsf(x));
        if (!equal)
          fail_msg("graph %u, %s: run %d, output %zu, element %zu is %.9g, not %.9g", round, what, run, i, e, y, x);
      }
}

static void test_random_graphs(void **state) {
  (void)state;
  print_message("seed %llu\n", (unsigned long long)kSeed);
  static const struct {
    const char *what;
    braid_session_options options;
    float tolerance;
  } kWays[] = {
      {"shared memory", {.no_fusion = true}, 0},
      {"one thread", {.no_fusion = true, .threads = 1}, 0},
      {"memory of its own", {.no_fusion = true, .devices = "cpu:memory=separate"}, 0},
      {"two devices", {.no_fusion = true, .threads = 1, .devices = "cpu cpu", .place = "*o*=1"}, 0},
      {"card and cpu", {.no_fusion = true, .threads = 1, .devices = "cpu:memory=separate cpu", .place = "*o*=1"}, 0},
      {"two cards",
       {.no_fusion = true, .threads = 1, .devices = "cpu:memory=separate cpu:memory=separate", .place = "*o*=1"},
       0},
      {"fusion", {.training = false}, 2e-4f},
      {"training", {.training = true, .no_fusion = true}, 2e-4f},
  };
  static results plain, other;
  for (uint32_t i = 0; i < 2 * kElements; i++)
    inputs[i / kElements][i % kElements] = 2 * braid_random_uniform(kSeed, 0, 2, i) - 1;
  size_t arena = 0, unshared = 0;
  for (uint32_t round = 0; round < kGraphs; round++) {
    braid_graph *graph = make_graph(round);
    run_session(graph, &(braid_session_options){.no_fusion = true, .no_reuse = true}, &plain);
    run_reference(graph, &other);
    compare("reference", round, &plain, &other, 1, 2e-4f);
    for (size_t w = 0; w < sizeof kWays / sizeof *kWays; w++) {
      run_session(graph, &kWays[w].options, &other);
      compare(kWays[w].what, round, &plain, &other, kRuns, kWays[w].tolerance);
    }
    braid_session *session;
    OK(braid_session_create(graph, NULL, &session));
    arena += braid_session_get_stats(session).arena_bytes;
    unshared += braid_session_get_stats(session).unshared_bytes;
    braid_session_destroy(session);
    braid_graph_destroy(graph);
  }
  print_message("memory: %.2f of a buffer per value\n", (double)arena / (double)unshared);
}

static braid_value_id cast(braid_graph *graph, braid_value_id x, braid_dtype dtype) {
  braid_value_id y = 0;
  braid_node_id node;
  OK(braid_graph_add_node(graph, "Cast", NULL, &x, 1, &y, 1, &node));
  OK(braid_graph_set_int(graph, node, "to", braid_dtype_to_onnx(dtype)));
  return y;
}

/* Relu(a + b), and its gradient for two that flow back, as one node each: not a bit changes, in 16 bits neither. */
static void test_sums(void **state) {
  (void)state;
  static const braid_dtype kTypes[] = {BRAID_F32, BRAID_F16, BRAID_BF16};
  static results plain, fused;
  const float special[] = {NAN, INFINITY, -INFINITY, 65504, -65504, 1e-7f, -1e-7f, 0};
  for (uint32_t i = 0; i < 2 * kElements; i++)
    inputs[i / kElements][i % kElements] = 2 * braid_random_uniform(kSeed, 0, 2, i) - 1;
  for (size_t i = 0; i < 64; i++) inputs[0][i] = special[i / 8], inputs[1][i] = special[i % 8];
  for (size_t t = 0; t < sizeof kTypes / sizeof *kTypes; t++) {
    maker m = {.round = kGraphs};
    braid_desc desc;
    braid_value_id x[2];
    braid_session *session;
    size_t found = 0;
    OK(braid_graph_create(NULL, "sums", &m.graph));
    OK(braid_desc_init(&desc, BRAID_F32, 4, kShape));
    for (int i = 0; i < 2; i++) {
      OK(braid_graph_add_input(m.graph, i ? "x1" : "x0", &desc, &x[i]));
      x[i] = cast(m.graph, x[i], kTypes[t]);
    }
    braid_value_id y = add_node(&m, "Relu", 1, (braid_value_id[]){add_node(&m, "Add", 2, x, NULL)}, NULL);
    braid_value_id back = add_node(&m, "ReluGrad", 2, (braid_value_id[]){add_node(&m, "Add", 2, x, NULL), y}, NULL);
    OK(braid_graph_add_output(m.graph, cast(m.graph, y, BRAID_F32)));
    OK(braid_graph_add_output(m.graph, cast(m.graph, back, BRAID_F32)));
    run_session(m.graph, &(braid_session_options){.no_fusion = true}, &plain);
    run_session(m.graph, &(braid_session_options){.training = false}, &fused);
    for (int i = 0; i < 2; i++) assert_memory_equal(plain.output[0][i], fused.output[0][i], sizeof plain.output[0][i]);
    OK(braid_session_create(m.graph, &(braid_session_options){.training = false}, &session));
    for (size_t i = 0; i < braid_session_plan_count(session); i++)
      found += strncmp(braid_session_plan(session, i).op, "AddRelu", 7) == 0;
    assert_int_equal(found, 2);
    braid_session_destroy(session);
    braid_graph_destroy(m.graph);
  }
}

/* A vector of the channels. */
static braid_value_id channels(maker *m, float scale, float offset) {
  return keep(m, BRAID_VALUE_CONSTANT, 1, (int64_t[]){kChannels}, scale, offset);
}

/* Relu of a normalization by statistics of the batch, and its gradients, as one node each. A channel whose numbers are
 * all 0, with a bias of 0, is exactly where the Relu passes nothing. */
static void test_norms(void **state) {
  (void)state;
  static results plain, fused;
  maker m = {.round = kGraphs + 1};
  braid_desc desc;
  braid_value_id x, dy, y[5], back[3];
  braid_node_id node;
  braid_session *session;
  size_t found = 0;
  for (uint32_t i = 0; i < 2 * kElements; i++)
    inputs[i / kElements][i % kElements] = 2 * braid_random_uniform(kSeed, 1, 2, i) - 1;
  for (int b = 0; b < kBatch; b++)
    for (int i = 0; i < 2 * kSide * kSide; i++) inputs[0][b * kChannels * kSide * kSide + i] = 0;
  OK(braid_graph_create(NULL, "norms", &m.graph));
  OK(braid_desc_init(&desc, BRAID_F32, 4, kShape));
  OK(braid_graph_add_input(m.graph, "x", &desc, &x));
  OK(braid_graph_add_input(m.graph, "dy", &desc, &dy));
  braid_value_id scale = channels(&m, 0.5f, 1), mean = channels(&m, 0, 0), bias;
  braid_tensor *shifts = tensor_of(&m, 1, (int64_t[]){kChannels}, 1, 0);
  for (int c = 0; c < 2; c++) ((float *)braid_tensor_data(shifts))[c] = 0;
  OK(braid_graph_add_tensor(m.graph, NULL, BRAID_VALUE_CONSTANT, shifts, &bias));
  braid_tensor_release(shifts);
  OK(braid_graph_add_node(m.graph, "BatchNormalization", NULL, (braid_value_id[]){x, scale, bias, mean, scale}, 5, y, 5,
                          &node));
  OK(braid_graph_set_int(m.graph, node, "training_mode", 1));
  braid_value_id rectified = add_node(&m, "Relu", 1, y, NULL);
  braid_value_id error = add_node(&m, "ReluGrad", 2, (braid_value_id[]){dy, rectified}, NULL);
  OK(braid_graph_add_node(m.graph, "BatchNormalizationGrad", NULL, (braid_value_id[]){error, x, scale, y[3], y[4]}, 5,
                          back, 3, &node));
  OK(braid_graph_set_int(m.graph, node, "training_mode", 1));
  OK(braid_graph_add_output(m.graph, rectified));
  for (int i = 0; i < 3; i++) OK(braid_graph_add_output(m.graph, back[i]));
  run_session(m.graph, &(braid_session_options){.no_fusion = true}, &plain);
  run_session(m.graph, &(braid_session_options){.training = false}, &fused);
  compare("norms", 0, &plain, &fused, kRuns, 2e-5f);
  braid_session_options opencl = {.devices = "opencl0 cpu"};
  if (braid_session_create(m.graph, &opencl, &session) == BRAID_OK) { /* where there is a driver */
    braid_session_destroy(session);
    run_session(m.graph, &opencl, &fused);
    compare("norms on opencl0", 0, &plain, &fused, kRuns, 2e-5f);
  }
  OK(braid_session_create(m.graph, NULL, &session));
  for (size_t i = 0; i < braid_session_plan_count(session); i++)
    found += strncmp(braid_session_plan(session, i).op, "BatchNormalizationRelu", 22) == 0;
  assert_int_equal(found, 2);
  braid_session_destroy(session);
  braid_graph_destroy(m.graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_graphs), cmocka_unit_test(test_sums),
                                     cmocka_unit_test(test_norms)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
