/* Which constants of small graphs train, and which of those that share a stored tensor are one parameter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

/* --- graphs in a few words -----------------------------------------------------------------------------------------
 */
typedef enum filling { ZEROS, ONES, NUMBERS, HIDING, CHOOSING } filling;

static braid_value_id constant(braid_graph *graph, const char *name, filling fill, int rank, const int64_t *dims) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id id;
  ok(braid_desc_init(&desc, BRAID_F32, rank, dims));
  ok(braid_tensor_create(NULL, &desc, &tensor));
  for (int64_t i = 0; i < braid_desc_count(&desc); i++) {
    const double values[] = {[ZEROS] = 0,
                             [ONES] = 1,
                             [NUMBERS] = 0.1 * (double)(i + 1),
                             [HIDING] = i % 2 ? -INFINITY : 0,
                             [CHOOSING] = (double)(i % 2)};
    braid_tensor_set_f64(tensor, i, values[fill]);
  }
  ok(braid_graph_add_tensor(graph, name, BRAID_VALUE_CONSTANT, tensor, &id));
  braid_tensor_release(tensor);
  return id;
}

static braid_value_id vector(braid_graph *graph, const char *name, filling fill) {
  return constant(graph, name, fill, 1, (int64_t[]){4});
}

static braid_value_id matrix(braid_graph *graph, const char *name, filling fill) {
  return constant(graph, name, fill, 2, (int64_t[]){4, 4});
}

/* A node with one output, `name`d if not NULL; `place`: its module ("/layer"), its call (" p_weight "), or NULL. */
static braid_value_id node(braid_graph *graph, const char *place, const char *op, const char *name, size_t count,
                           const braid_value_id *inputs) {
  braid_value_id out = 0;
  braid_node_id id;
  ok(braid_graph_add_node(graph, op, NULL, inputs, count, &out, 1, &id));
  if (place && place[0] == '/') graph->nodes[id].module = place;
  if (place && place[0] == ' ') graph->nodes[id].call = place;
  if (name) ok(braid_graph_rename_value(graph, out, name));
  return out;
}

#define NODE(place, op, ...)                                                                                           \
  node(graph, place, op, NULL, sizeof((braid_value_id[]){__VA_ARGS__}) / sizeof(braid_value_id),                       \
       (braid_value_id[]){__VA_ARGS__})

static braid_graph *begin(braid_value_id *x) {
  braid_graph *graph;
  ok(braid_graph_create(NULL, "small", &graph));
  ok(braid_graph_add_input(graph, "x", &(braid_desc){.dtype = BRAID_F32, .rank = 2, .dims = {4, 4}}, x));
  return graph;
}

static void end(braid_graph *graph, braid_value_id y) {
  ok(braid_graph_add_output(graph, y));
  ok(braid_graph_make_trainable(graph));
}

static braid_value_info find(const braid_graph *graph, const char *name) {
  braid_value_id id = braid_graph_find_value(graph, name);
  if (id < 0) fail_msg("there is no %s", name);
  return braid_graph_value(graph, id);
}

static size_t count_kind(const braid_graph *graph, braid_value_kind kind) {
  size_t count = 0;
  for (size_t i = 0; i < braid_graph_value_count(graph); i++)
    count += braid_graph_value(graph, (braid_value_id)i).kind == kind;
  return count;
}

/* --- which constants train -----------------------------------------------------------------------------------------
 */
static void trains(const braid_graph *graph, const char *name) {
  braid_value_info value = find(graph, name);
  if (value.kind != BRAID_VALUE_PARAMETER) fail_msg("%s does not train: %s", name, value.fixed ? value.fixed : "?");
  assert_null(value.fixed);
}

static void stays(const braid_graph *graph, const char *name, const char *why) {
  braid_value_info value = find(graph, name);
  if (value.kind != BRAID_VALUE_CONSTANT) fail_msg("%s trains", name);
  if (!value.fixed || !strstr(value.fixed, why))
    fail_msg("%s: \"%s\", expected \"%s\"", name, value.fixed ? value.fixed : "", why);
}

/* Parameters away from products and convolutions, and what stands in the same places without being one. */
static void test_roles(void **state) {
  (void)state;
  braid_value_id x;
  braid_graph *graph = begin(&x);
  const int64_t row[] = {1, 4};
  x = NODE(NULL, "Sub", x, vector(graph, "mean", NUMBERS));
  x = NODE(NULL, "Div", x, vector(graph, "deviation", NUMBERS));
  braid_value_id joined[] = {constant(graph, "class_token", ZEROS, 2, row), x};
  braid_node_id concat;
  ok(braid_graph_add_node(graph, "Concat", NULL, joined, 2, &x, 1, &concat));
  ok(braid_graph_set_int(graph, concat, "axis", 0));
  x = NODE(NULL, "Add", x, constant(graph, "positions", NUMBERS, 2, (int64_t[]){5, 4}));
  x = NODE(NULL, "Mul", vector(graph, "layer_scale", ONES), x);
  x = NODE(NULL, "Mul", x, constant(graph, "gain", ONES, 0, NULL));
  x = NODE(NULL, "Mul", x, constant(graph, "val_7", NUMBERS, 0, NULL));
  x = NODE(NULL, "Mul", x, vector(graph, "onnx::Mul_8", ONES));
  x = NODE(NULL, "Mul", x, constant(graph, "onnx::Mul_9", NUMBERS, 2, (int64_t[]){5, 4}));
  x = NODE(NULL, "Add", x, vector(graph, "hiding", HIDING));
  x = NODE(NULL, "Mul", x, vector(graph, "choosing", CHOOSING));
  x = NODE(NULL, "PRelu", x, vector(graph, "slopes", ONES));
  x = NODE(NULL, "Clip", x, constant(graph, "least", ZEROS, 0, NULL), -1);
  x = NODE(NULL, "MatMul", x, matrix(graph, "weight", NUMBERS));
  braid_value_id literal = vector(graph, "literal", NUMBERS), buffer = vector(graph, "buffer", NUMBERS);
  braid_value_id known = constant(graph, "val_12", ZEROS, 0, NULL);
  graph->values[literal].origin = BRAID_ORIGIN_LITERAL;
  graph->values[buffer].origin = BRAID_ORIGIN_BUFFER;
  graph->values[known].origin = BRAID_ORIGIN_PARAMETER;
  x = NODE(NULL, "Add", NODE(NULL, "Add", NODE(NULL, "Add", x, literal), buffer), known);
  NODE(NULL, "Add", x, vector(graph, "unused", NUMBERS));
  end(graph, x);
  static const char *const kTrains[] = {"class_token", "positions", "layer_scale", "gain",
                                        "onnx::Mul_8", "slopes",    "weight",      "val_12"};
  for (size_t i = 0; i < sizeof kTrains / sizeof *kTrains; i++) trains(graph, kTrains[i]);
  stays(graph, "mean", "normalizes the input");
  stays(graph, "deviation", "normalizes the input");
  stays(graph, "val_7", "a single number");
  stays(graph, "onnx::Mul_9", "a table");
  stays(graph, "hiding", "a mask");
  stays(graph, "choosing", "a mask");
  stays(graph, "least", "a setting");
  stays(graph, "literal", "a literal");
  stays(graph, "buffer", "a buffer");
  stays(graph, "unused", "no output");
  assert_int_equal(count_kind(graph, BRAID_VALUE_PARAMETER), sizeof kTrains / sizeof *kTrains);
  braid_graph_destroy(graph);
}

/* Ops that are functions of others have the gradients of their nodes; some of what they take does not train. */
static void test_functions(void **state) {
  (void)state;
  static const struct {
    const char *op;
    size_t count, trains; /* of the op's inputs, and the first of them that train, behind x */
    const char *why;      /* the others stay */
  } kCases[] = {
      {"Einsum", 3, 2, NULL},        {"SwiGLU", 2, 1, NULL},
      {"DeformConv", 5, 4, NULL},    {"CausalConvWithState", 4, 2, "the first state"},
      {"Attention", 3, 2, NULL},     {"Attention", 4, 2, "a mask"},
      {"TensorScatter", 2, 1, NULL}, {"RotaryEmbedding", 3, 0, "a table"},
  };
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    braid_value_id inputs[5];
    char names[5][32];
    braid_graph *graph = begin(&inputs[0]);
    for (size_t k = 1; k < kCases[i].count; k++) {
      bool stays = k > kCases[i].trains;
      snprintf(names[k], sizeof names[k], stays ? "onnx::_%zu" : "w%zu", k);
      inputs[k] = constant(graph, names[k], stays && strcmp(kCases[i].why, "a mask") == 0 ? HIDING : NUMBERS, 2,
                           (int64_t[]){4, 4});
    }
    end(graph, NODE(NULL, "MatMul", node(graph, NULL, kCases[i].op, NULL, kCases[i].count, inputs),
                    matrix(graph, "last", NUMBERS)));
    for (size_t k = 1; k < kCases[i].count; k++)
      k > kCases[i].trains ? stays(graph, names[k], kCases[i].why) : trains(graph, names[k]);
    braid_graph_destroy(graph);
  }
}

/* A file whose weights are Constant nodes has weights. */
static void test_literal_weights(void **state) {
  (void)state;
  braid_value_id x;
  braid_graph *graph = begin(&x);
  braid_value_id weight = matrix(graph, "weight", NUMBERS);
  graph->values[weight].origin = BRAID_ORIGIN_LITERAL;
  end(graph, NODE(NULL, "MatMul", x, weight));
  trains(graph, "weight");
  braid_graph_destroy(graph);
}

/* --- which of them are one -----------------------------------------------------------------------------------------
 */
static void takes(const braid_graph *graph, braid_value_id result, size_t index, const char *name) {
  const braid_node *by = &graph->nodes[graph->values[result].producer];
  const char *got = graph->values[by->inputs[index]].name;
  if (strcmp(got, name) != 0) fail_msg("input %zu of the %s is %s, expected %s", index, by->op->name, got, name);
}

/* TorchScript: one tensor of ones and one of zeros, Identity nodes with the other names. */
static void test_identities(void **state) {
  (void)state;
  braid_value_id x, y[2];
  braid_graph *graph = begin(&x);
  braid_value_id ones = vector(graph, "b1.weight", ONES), zeros = vector(graph, "b1.bias", ZEROS);
  static const char *const kNames[] = {"b1.running_var",  "b2.weight", "b2.running_var",
                                       "b1.running_mean", "b2.bias",   "b2.running_mean"};
  braid_value_id named[6];
  for (int i = 0; i < 6; i++) named[i] = node(graph, NULL, "Identity", kNames[i], 1, i < 3 ? &ones : &zeros);
  y[0] = x = NODE("/b1", "BatchNormalization", x, ones, zeros, named[3], named[0]);
  y[1] = x = NODE("/b2", "BatchNormalization", x, named[1], named[4], named[5], named[2]);
  end(graph, x);
  static const char *const kInputs[2][4] = {{"b1.weight", "b1.bias", "b1.running_mean", "b1.running_var"},
                                            {"b2.weight", "b2.bias", "b2.running_mean", "b2.running_var"}};
  for (int b = 0; b < 2; b++)
    for (size_t i = 0; i < 4; i++) {
      takes(graph, y[b], i + 1, kInputs[b][i]);
      assert_int_equal(find(graph, kInputs[b][i]).kind, i < 2 ? BRAID_VALUE_PARAMETER : BRAID_VALUE_STATE);
    }
  assert_int_equal(count_kind(graph, BRAID_VALUE_PARAMETER), 4);
  assert_int_equal(count_kind(graph, BRAID_VALUE_STATE), 4);
  braid_graph_destroy(graph);
}

/* One name for all that is equal, as PyTorch's newer exporter and tools that remove Identity write it. */
static void test_merged(void **state) {
  (void)state;
  static const char *const kPlaces[][2] = {{" p_b1_weight p_b1_bias b_b1_running_mean b_b1_running_var ",
                                            " p_b2_weight p_b2_bias b_b2_running_mean b_b2_running_var "},
                                           {"/b1", "/b2"},
                                           {NULL, NULL}};
  for (size_t i = 0; i < sizeof kPlaces / sizeof *kPlaces; i++) {
    braid_value_id x;
    braid_graph *graph = begin(&x);
    braid_value_id ones = vector(graph, "b1.weight", ONES), zeros = vector(graph, "b1.bias", ZEROS);
    graph->values[ones].symbol = "p_b1_weight";
    graph->values[zeros].symbol = "p_b1_bias";
    x = NODE(kPlaces[i][0], "BatchNormalization", x, ones, zeros, zeros, ones);
    x = NODE(kPlaces[i][1], "BatchNormalization", x, ones, zeros, zeros, ones);
    end(graph, x);
    assert_int_equal(count_kind(graph, BRAID_VALUE_PARAMETER), 4);
    assert_int_equal(count_kind(graph, BRAID_VALUE_STATE), 4);
    trains(graph, "b1.weight");
    trains(graph, "b1.bias");
    braid_graph_destroy(graph);
  }
}

/* Layers of a deep-copied stack: equal numbers in equal roles, of different modules; and one after a fold, which leaves
 * it no symbol. */
static void test_copied_layers(void **state) {
  (void)state;
  for (int newer = 0; newer < 3; newer++) {
    braid_value_id x, y;
    braid_graph *graph = begin(&x);
    braid_value_id weight = matrix(graph, "l1.weight", NUMBERS), second = weight;
    braid_value_id bias = vector(graph, "l1.bias", NUMBERS), other = bias; /* equal, and yet no proof of one layer */
    if (!newer) second = node(graph, NULL, "Identity", "l2.weight", 1, &weight);
    if (!newer) other = node(graph, NULL, "Identity", "l2.bias", 1, &bias);
    if (newer == 1) graph->values[weight].symbol = "p_l1_weight";
    if (newer == 1) graph->values[bias].symbol = "p_l1_bias";
    x = NODE(newer ? " p_l1_weight p_l1_bias " : "/l1", "Gemm", x, weight, bias);
    y = NODE(newer ? " p_l2_weight p_l2_bias " : "/l2", "Gemm", x, second, other);
    end(graph, y);
    assert_int_equal(count_kind(graph, BRAID_VALUE_PARAMETER), 4);
    takes(graph, x, 1, "l1.weight");
    takes(graph, x, 2, "l1.bias");
    takes(graph, y, 1, newer ? "l1.weight~2" : "l2.weight");
    takes(graph, y, 2, newer ? "l1.bias~2" : "l2.bias");
    braid_graph_destroy(graph);
  }
}

/* An embedding whose table is the output's matrix, and a layer applied twice with its fresh bias. */
static void test_tied(void **state) {
  (void)state;
  for (int through_identity = 0; through_identity < 2; through_identity++)
    for (int known = 0; known < 2; known++) {
      braid_value_id x;
      braid_graph *graph = begin(&x);
      braid_value_id table = matrix(graph, "table", NUMBERS), same = table, indices = 0;
      braid_value_id weight = constant(graph, "weight", NUMBERS, 2, (int64_t[]){4, 4}),
                     bias = vector(graph, "bias", ZEROS);
      if (through_identity) same = node(graph, NULL, "Identity", "head.weight", 1, &table);
      ok(braid_graph_add_int64s(graph, (int64_t[]){0, 1, 2, 3}, 4, &indices));
      graph->values[table].symbol = "p_table";
      graph->values[weight].symbol = "p_weight";
      x = NODE(NULL, "Add", x, NODE(known ? " p_table " : NULL, "Gather", table, indices));
      x = NODE(known ? " p_weight p_bias " : NULL, "Gemm", x, weight, bias);
      x = NODE(known ? " p_weight p_bias " : NULL, "Gemm", x, weight, bias);
      x = NODE(NULL, "MatMul", x, NODE(known ? " p_table " : NULL, "Transpose", same));
      end(graph, x);
      assert_int_equal(count_kind(graph, BRAID_VALUE_PARAMETER), 3);
      trains(graph, "table");
      trains(graph, "weight");
      trains(graph, "bias");
      braid_graph_destroy(graph);
    }
}

/* Two layers of equal weights, the second applied twice: what is a copy of the weight is looked at again for the bias.
 */
static void test_copied_and_tied(void **state) {
  (void)state;
  for (int calls = 0; calls < 2; calls++) {
    const char *second = calls ? " p_l2_weight p_l2_bias " : "/l2";
    braid_value_id x;
    braid_graph *graph = begin(&x);
    braid_value_id weight = matrix(graph, "l1.weight", calls ? NUMBERS : ONES), bias = vector(graph, "l1.bias", ZEROS);
    x = NODE(calls ? " p_l1_weight p_l1_bias " : "/l1", "Gemm", x, weight, bias);
    braid_value_id y = NODE(second, "Gemm", x, weight, bias);
    braid_value_id z = NODE(second, "Gemm", y, weight, bias);
    end(graph, z);
    assert_int_equal(count_kind(graph, BRAID_VALUE_PARAMETER), 4);
    takes(graph, x, 1, "l1.weight");
    takes(graph, x, 2, "l1.bias");
    for (int i = 0; i < 2; i++) {
      takes(graph, i ? z : y, 1, "l1.weight~2");
      takes(graph, i ? z : y, 2, "l1.bias~2");
    }
    braid_graph_destroy(graph);
  }
}

/* Calls of different layers that tie one weight, with fresh biases of their own; gains of which two are one. */
static void test_tied_by_calls(void **state) {
  (void)state;
  braid_value_id x, y, z, g;
  braid_graph *graph = begin(&x);
  braid_value_id weight = matrix(graph, "b.weight", NUMBERS), bias = vector(graph, "a.bias", ZEROS);
  braid_value_id gain = vector(graph, "gain", ONES);
  graph->values[weight].symbol = "p_b_weight";
  graph->values[bias].symbol = "p_a_bias";
  graph->values[gain].symbol = "p_gain";
  x = NODE(" p_b_weight p_a_bias ", "Gemm", x, weight, bias);
  y = NODE(" p_b_weight p_b_bias ", "Gemm", x, weight, bias);
  z = NODE(" p_gain ", "Mul", y, gain);
  g = NODE(" p_gain ", "Mul", z, gain);
  z = NODE(" p_other_gain ", "Mul", g, gain);
  end(graph, z);
  takes(graph, x, 1, "b.weight");
  takes(graph, x, 2, "a.bias");
  takes(graph, y, 1, "b.weight");
  takes(graph, y, 2, "a.bias~2");
  takes(graph, g, 1, "gain");
  takes(graph, z, 1, "gain~2");
  assert_int_equal(count_kind(graph, BRAID_VALUE_PARAMETER), 5);
  braid_graph_destroy(graph);
}

/* --- training mode -------------------------------------------------------------------------------------------------
 */
/* What a file has in training mode leaves it, in the form to be saved; its statistics move in the form to be trained.
 */
static void test_training_mode(void **state) {
  (void)state;
  braid_value_id x, y[3] = {0, 0, 0};
  braid_node_id id;
  braid_graph *graph = begin(&x), *training;
  braid_value_id norm[] = {x, vector(graph, "g", ONES), vector(graph, "b", ZEROS), vector(graph, "m", ZEROS),
                           vector(graph, "v", ONES)};
  ok(braid_graph_add_node(graph, "BatchNormalization", NULL, norm, 5, y, 3, &id));
  ok(braid_graph_set_int(graph, id, "training_mode", 1));
  braid_tensor *yes;
  ok(braid_tensor_create(NULL, &(braid_desc){.dtype = BRAID_BOOL}, &yes));
  *(uint8_t *)braid_tensor_data(yes) = 1;
  braid_value_id on, ratio = constant(graph, "ratio", ONES, 0, NULL);
  ok(braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, yes, &on));
  braid_tensor_release(yes);
  ok(braid_graph_add_output(graph, NODE(NULL, "Dropout", y[0], ratio, on)));
  ok(braid_graph_add_output(graph, y[1]));
  ok(braid_graph_prepare_training(graph));
  for (size_t i = 0; i < braid_graph_node_count(graph); i++) {
    braid_node_info info = braid_graph_node(graph, (braid_node_id)i);
    if (strcmp(info.op, "Dropout") == 0) assert_int_equal(info.input_count, 2);
    if (strcmp(info.op, "BatchNormalization") != 0) continue;
    assert_int_equal(info.output_count, 1);
    assert_int_equal(braid_attr_int(info.attrs, "training_mode", 0), 0);
  }
  takes(graph, braid_graph_output(graph, 1), 0, "m");
  ok(braid_graph_clone(graph, &training));
  ok(braid_graph_make_trainable(training));
  for (int i = 0; i < 2; i++) {
    braid_value_id state_id = braid_graph_find_value(training, i ? "v" : "m");
    assert_int_equal(training->values[state_id].kind, BRAID_VALUE_STATE);
    assert_true(training->values[state_id].next >= 0);
  }
  braid_graph_destroy(training);
  braid_graph_destroy(graph);
}

/* --- parameters in another order -----------------------------------------------------------------------------------
 */
/* `of` transposed, under a name as exporters make it up. */
static braid_value_id transposed(braid_graph *graph, braid_value_id of, const char *name) {
  braid_desc desc = graph->values[of].desc; /* a copy: adding a value moves the values */
  braid_value_id id = constant(graph, name, ZEROS, 2, (int64_t[]){desc.dims[1], desc.dims[0]});
  for (int64_t i = 0; i < desc.dims[0]; i++)
    for (int64_t j = 0; j < desc.dims[1]; j++)
      braid_tensor_set_f64(graph->values[id].tensor, j * desc.dims[0] + i,
                           braid_tensor_get_f64(graph->values[of].tensor, i * desc.dims[1] + j));
  return id;
}

/* x w, then the result times the transpose: one parameter where the numbers, or the calls, say so. */
static void test_tied_transposed(void **state) {
  (void)state;
  static const struct {
    filling fill;
    const char *copy, *first, *second; /* the copy's name; the two places */
    bool tied;
  } cases[] = {
      {NUMBERS, "onnx::MatMul_7", NULL, NULL, true}, {NUMBERS, "onnx::MatMul_7", "/a", "/b", true},
      {NUMBERS, "decoder", NULL, NULL, false}, /* another parameter that began like it */
      {ONES, "onnx::MatMul_7", NULL, NULL, false},   {ONES, "val_7", " p_w ", " p_w ", true},
      {NUMBERS, "val_7", " p_w ", " p_v ", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_value_id x;
    braid_graph *graph = begin(&x);
    braid_value_id w = constant(graph, "w", cases[i].fill, 2, (int64_t[]){4, 3});
    graph->values[w].symbol = "p_w";
    braid_value_id copy = transposed(graph, w, cases[i].copy);
    end(graph, NODE(cases[i].second, "MatMul", NODE(cases[i].first, "MatMul", x, w), copy));
    trains(graph, "w");
    if (cases[i].tied)
      stays(graph, cases[i].copy, "another tensor in another order");
    else
      trains(graph, cases[i].copy);
    assert_int_equal(count_kind(graph, BRAID_VALUE_PARAMETER), cases[i].tied ? 1 : 2);
    braid_graph_destroy(graph);
  }
}

/* In another shape; what takes it has that shape still. */
static void test_tied_in_another_shape(void **state) {
  (void)state;
  braid_value_id x;
  braid_graph *graph = begin(&x);
  braid_value_id plain = vector(graph, "g", NUMBERS),
                 wide = constant(graph, "onnx::Mul_3", NUMBERS, 2, (int64_t[]){4, 1});
  end(graph, NODE(NULL, "Mul", NODE(NULL, "Mul", x, plain), wide));
  trains(graph, "g");
  stays(graph, "onnx::Mul_3", "another tensor in another order");
  const braid_node *last = &graph->nodes[graph->node_count - 1];
  assert_string_equal(graph->nodes[graph->values[last->inputs[1]].producer].op->name, "Reshape");
  assert_int_equal(graph->values[last->inputs[1]].desc.dims[0], 4);
  assert_int_equal(graph->values[last->inputs[1]].desc.dims[1], 1);
  braid_graph_destroy(graph);
}

/* A program that builds a graph says what trains. */
static void test_declared(void **state) {
  (void)state;
  braid_value_id x;
  braid_graph *graph = begin(&x);
  braid_value_id mine = vector(graph, "mine", NUMBERS), table = vector(graph, "table", NUMBERS);
  graph->values[mine].kind = BRAID_VALUE_PARAMETER;
  end(graph, NODE(NULL, "Mul", NODE(NULL, "Mul", x, mine), table));
  trains(graph, "mine");
  stays(graph, "table", "a constant of a graph that has parameters of its own");
  assert_int_equal(count_kind(graph, BRAID_VALUE_PARAMETER), 1);
  braid_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_declared),
      cmocka_unit_test(test_roles),
      cmocka_unit_test(test_functions),
      cmocka_unit_test(test_literal_weights),
      cmocka_unit_test(test_identities),
      cmocka_unit_test(test_merged),
      cmocka_unit_test(test_copied_layers),
      cmocka_unit_test(test_tied),
      cmocka_unit_test(test_copied_and_tied),
      cmocka_unit_test(test_tied_by_calls),
      cmocka_unit_test(test_training_mode),
      cmocka_unit_test(test_tied_transposed),
      cmocka_unit_test(test_tied_in_another_shape),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
