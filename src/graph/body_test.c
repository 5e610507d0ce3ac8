/* Functions of other ops, and what has come with them: which nodes are refused, with which sentence, and what stays as
 * it was when the body takes the place of the node. What they compute is held against ONNX Runtime
 * (tests/data/conformance), gradients against finite differences (gradients/gradient_coverage_test.c). */
#include "graph/body.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <string.h>

#include "backend/cpu/evaluate.h"
#include "oom.h"
#include "runtime/plan/resolve.h"

/* --- refusals ------------------------------------------------------------------------------------------------------
 * Inputs, parted by spaces: "2,3" float32 of this shape, "2,3@int64" of another type, "=4,5" known numbers, "-" left
 * out. */
typedef struct refusal {
  const char *op, *inputs, *name; /* of the attribute; NULL: none */
  int64_t value;
  const char *text; /* of a string attribute; NULL: `value` */
  const char *sentence;
} refusal;

static const refusal kRefusals[] = {
    {"Attention", "2,4 2,4 2,4", "is_causal", 0, NULL, "query, key and value have 2, 2 and 2 dimensions"},
    {"Attention", "1,2,3,4 1,2,3,4 1,2,3,4@int64", "is_causal", 0, NULL, "input 2 is int64"},
    {"Attention", "1,3,8 1,3,8 1,3,8", "q_num_heads", 3, NULL, "q_num_heads is 3, which does not divide"},
    {"Attention", "1,3,8 1,3,8 1,3,8", "q_num_heads", 4, NULL, "kv_num_heads is 0, which does not divide"},
    {"Attention", "1,2,3,4 1,0,3,4 1,0,3,4", "is_causal", 0, NULL, "input 1 has no heads"},
    {"Attention", "1,3,3,4 1,2,3,4 1,2,3,4", "is_causal", 0, NULL, "3 heads of the query are no multiple of 2"},
    {"Attention", "1,2,3,4 1,2,5,4 1,2,6,4", "is_causal", 0, NULL, "keys and values differ"},
    {"Attention", "1,2,3,4 1,2,5,3 1,2,5,4", "is_causal", 0, NULL, "heads of the query are 4 wide, of the key 3"},
    {"Attention", "1,2,3,4 1,2,5,4 1,2,5,4 3,6", "is_causal", 0, NULL, "does not broadcast to 1 x 2 x 3 x 5"},
    {"Attention", "1,2,3,4 1,2,5,4 1,2,5,4 - 1,2,1,4", "is_causal", 0, NULL, "past_key and past_value come together"},
    {"Attention", "1,2,3,4 1,2,5,4 1,2,5,4 - 1,2,1,4 1,2,2,4", "is_causal", 0, NULL, "input 5 is"},
    {"Attention", "2,2,3,4 2,2,5,4 2,2,5,4 - - - 3@int64", "is_causal", 0, NULL, "input 6 is"},
    {"Attention", "1,2,3,4 1,2,5,4 1,2,5,4", "qk_matmul_output_mode", 4, NULL, "expected 0 to 3"},
    {"Attention", "1,2,3,4 1,2,5,4 1,2,5,4", "left_window_size", -2, NULL, "left_window_size is -2"},
    {"Attention", "1,2,3,4 1,2,5,4 1,2,5,4", "softmax_precision", 7, NULL, "no floating-point type"},
    {"Attention", "1,2,3,4 1,2,5,4 1,2,5,4", "q_num_heads", 3, NULL, "q_num_heads is 3, input 0 has 2 heads"},
    {"RotaryEmbedding", "1,2,3,5 1,3,2 1,3,2", "interleaved", 0, NULL, "expected an even part"},
    {"RotaryEmbedding", "1,2,3,4 1,3,2 1,3,2", "rotary_embedding_dim", 6, NULL, "heads are 4 wide"},
    {"RotaryEmbedding", "1,2,3,4 1,3,2 1,3,3", "interleaved", 0, NULL, "input 2 is"},
    {"RotaryEmbedding", "1,2,3,4 9,3 9,2 1,3@int64", "interleaved", 0, NULL, "input 1 is"},
    {"RotaryEmbedding", "1,3,4 1,3,2 1,3,2", "num_heads", -1, NULL, "num_heads is -1"},
    {"AffineGrid", "2,2,3 4@int64", "align_corners", 0, NULL, "must be known before the run"},
    {"AffineGrid", "2,2,3 =1,1,3,4", "align_corners", 0, NULL, "theta is"},
    {"AffineGrid", "2,2,3 =2,1,-3,4", "align_corners", 0, NULL, "a negative size, -3"},
    {"AffineGrid", "2,2,3 =2,1,3", "align_corners", 0, NULL, "expected 4 or 5"},
    {"CenterCropPad", "4,5 =3", "axes", 0, NULL, "1 sizes for 2 axes"},
    {"HannWindow", "=-4", "periodic", 1, NULL, "a negative size"},
    {"HannWindow", "=4611686018427387904", "periodic", 1, NULL, "not one number of at most"},
    {"HannWindow", "=4", "output_datatype", 9, NULL, "output_datatype is BOOL"},
    {"CausalConvWithState", "1,2,4 2,2,3", "activation", 0, "none", "2 channels with a kernel each"},
    {"CausalConvWithState", "1,2,4 2,1,3", "activation", 0, "relu", "activation is \"relu\""},
    {"CausalConvWithState", "1,2,4 2,1,3 3", "activation", 0, "none", "the bias is not of 2 channels"},
    {"CausalConvWithState", "1,2,4 2,1,3 - 1,2,3", "activation", 0, "none", "past_state is not 1 x 2 x 2"},
    {"SwiGLU", "2,3 3,2", "alpha", -1, NULL, "differ in shape"},
    {"TensorScatter", "2,3,4 2,4,4", "axis", 1, NULL, "does not fit a cache"},
    {"TensorScatter", "2,3,4 2,1,4", "axis", 0, NULL, "axis is the batch"},
    {"TensorScatter", "2,3,4 2,1,4", "axis", 3, NULL, "axis 3 is outside"},
    {"TensorScatter", "2,3,4 2,1,4 3@int64", "axis", 1, NULL, "one for each of 2 samples"},
    {"TensorScatter", "2,3,4 2,1,4", "mode", 0, "round", "mode is \"round\""},
    {"GridSample", "1,2,3,4 1,5,5,3", "mode", 0, "linear", "the grid is"},
    {"GridSample", "1,2,3,4 2,5,5,2", "mode", 0, "linear", "the grid is"},
    {"GridSample", "1,2,3,4 1,5,5,2", "mode", 0, "bilinear", "mode is \"bilinear\", expected nearest, linear or cubic"},
    {"GridSample", "1,2,3,4 1,5,5,2", "padding_mode", 0, "wrap", "padding_mode is \"wrap\""},
    {"GridSample", "1,2,0,4 1,5,5,2", "mode", 0, "linear", "without pixels"},
    {"GridSample", "1,2 1,2", "mode", 0, "linear", "one to three axes"},
    {"LinearAttention", "1,2,4 1,2,4 1,2,4", "q_num_heads", 0, NULL, "0 heads of the query and 0 of the key"},
    {"LinearAttention", "1,2,4 1,2,4 1,2,4", "update_rule", 0, "hebb", "update_rule is \"hebb\""},
    {"NonMaxSuppression", "1,6,4 1,2,6", "center_point_box", 0, NULL, "must be known before the run"},
    {"NonMaxSuppression", "1,6,4 1,2,5", "center_point_box", 0, NULL, "boxes are not batch x boxes x 4"},
    {"DFT", "2,3,3", "onesided", 0, NULL, "no real or complex number"},
    {"DFT", "2", "onesided", 0, NULL, "no real or complex number"},
    {"DFT", "2,3,2", "onesided", 1, NULL, "onesided, of complex numbers"},
    {"DFT", "2,3,1 - =2", "inverse", 0, NULL, "that of real and imaginary parts"},
    {"DFT", "2,3,1 - =-4", "inverse", 0, NULL, "axis -4 is outside"},
    {"DFT", "2,3,1 =0", "inverse", 0, NULL, "a transform of 0 numbers"},
    {"DFT", "2,3,1 =4611686018427387904", "inverse", 0, NULL, "a transform of 4611686018427387904 numbers"},
    {"STFT", "1,9,1 =2", "onesided", 1, NULL, "neither window nor frame_length"},
    {"STFT", "1,9,1 =0 4", "onesided", 1, NULL, "frames of 4 every 0"},
    {"STFT", "1,9,1 =2 - =10", "onesided", 1, NULL, "of a signal of 9"},
    {"STFT", "1,9,1 =2 4 =5", "onesided", 1, NULL, "a window of 4 for frames of 5"},
    {"STFT", "1,9,2 =2 4", "onesided", 1, NULL, "onesided, of complex numbers"},
    {"Col2Im", "1,4,9 =4,4 =2", NULL, 0, NULL, "an image of 2 and blocks of 1"},
    {"Col2Im", "1,5,9 =4,4 =2,2", NULL, 0, NULL, "a multiple of 4, and 9 places"},
    {"Col2Im", "1,4,8 =4,4 =2,2", NULL, 0, NULL, "a multiple of 4, and 9 places"},
    {"Col2Im", "1,4,9 =4,-4 =2,2", NULL, 0, NULL, "below 1"},
    {"DeformConv", "1,2,4,4 2,2,2,2 1,8,2,3", "group", 1, NULL, "the offsets are not 8 channels"},
    {"DeformConv", "1,2,4,4 2,2,2,2 1,8,3,3 3", "group", 1, NULL, "the bias is not"},
    {"DeformConv", "1,2,4,4 2,2,2,2 1,8,3,3 - 1,8,3,3", "group", 1, NULL, "the mask is not 4 channels"},
    {"DeformConv", "1,2,4,4 2,2,2,2 1,8,3,3", "offset_group", 3, NULL, "offset_group is 3"},
    {"RoiAlign", "1,2,4,4 3,4 2@int64", "output_width", 2, NULL, "the boxes are not"},
    {"RoiAlign", "1,2,4,4 3,4 3@int64", "output_width", 0, NULL, "is below 1"},
    {"RoiAlign", "1,2,4,4 0,4 0@int64", "output_width", INT64_C(1) << 40, NULL, "above 2147483647"},
    {"RoiAlign", "1,2,4,4 3,4 3@int64", "sampling_ratio", 1000000, NULL, "sampling_ratio is 1000000"},
    {"RoiAlign", "1,2,4,4 3,4 3@int64", "mode", 0, "min", "mode is \"min\""},
    {"Det", "2,3", NULL, 0, NULL, "expected square matrices"},
    {"Unique", "2,3", "sorted", 0, NULL, "must be known before the run"},
    {"Unique", "2,3", "axis", 2, NULL, "axis 2 is outside"},
    {"Einsum", "2,3 3,4", "equation", 0, "ij,jk,kl->il", "is not of 2 operands"},
    {"Einsum", "2,3 3,4", "equation", 0, "ij->i", "is not of 2 operands"},
    {"Einsum", "2,3 4,4", "equation", 0, "ij,jk->ik", "input 1 has 4 where another has 3"},
    {"Einsum", "2,3", "equation", 0, "ijk->i", "input 0 has 2 dimensions, its term ijk has 3"},
    {"Einsum", "2,3", "equation", 0, "i->i", "input 0 has 2 dimensions"},
    {"Einsum", "2,3", "equation", 0, "ij->k", "a label that no operand has"},
    {"Einsum", "2,3", "equation", 0, "ij->ii", "repeats a label"},
    {"Einsum", "2,3", "equation", 0, "i1->i", "dimensions, its term"},
    {"Einsum", "2,3", "equation", 0, "ij->i.", "letters and one ellipsis"},
    {"Einsum", "2,3", "equation", 0, "......->", "letters and one ellipsis"},
    {"Einsum", "2,3 2,3", "equation", 0, "abcdefghi...,", "dimensions, its term"},
};

static braid_value_id add_operand(braid_graph *graph, const char *text) {
  braid_value_id id;
  int64_t numbers[BRAID_MAX_RANK];
  int count = 0;
  bool known = *text == '=';
  braid_desc desc;
  if (*text == '-') return -1;
  const char *at = text + known;
  for (char *stop; *at && *at != ' ' && *at != '@' && *at != '.'; at = stop + (*stop == ','))
    numbers[count++] = strtoll(at, &stop, 10);
  if (known) {
    bool scalar = count == 1;
    braid_tensor *tensor;
    assert_int_equal(braid_desc_init(&desc, BRAID_I64, scalar ? 0 : 1, (int64_t[]){count}), BRAID_OK);
    assert_int_equal(braid_tensor_create(NULL, &desc, &tensor), BRAID_OK);
    memcpy(braid_tensor_data(tensor), numbers, (size_t)count * sizeof *numbers);
    assert_int_equal(braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, tensor, &id), BRAID_OK);
    braid_tensor_release(tensor);
    return id;
  }
  assert_int_equal(braid_desc_init(&desc, *at == '@' ? BRAID_I64 : BRAID_F32, count, numbers), BRAID_OK);
  assert_int_equal(braid_graph_add_input(graph, NULL, &desc, &id), BRAID_OK);
  return id;
}

static void test_refusals(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof kRefusals / sizeof *kRefusals; i++) {
    const refusal *r = &kRefusals[i];
    braid_graph *graph;
    braid_value_id inputs[8], output = 0;
    braid_node_id node;
    size_t count = 0;
    assert_int_equal(braid_graph_create(NULL, "test", &graph), BRAID_OK);
    for (const char *at = r->inputs; *at; at += strcspn(at, " "), at += *at == ' ')
      inputs[count++] = add_operand(graph, at);
    assert_int_equal(braid_graph_add_node(graph, r->op, "n", inputs, count, &output, 1, &node), BRAID_OK);
    if (r->text)
      assert_int_equal(braid_graph_set_string(graph, node, r->name, r->text), BRAID_OK);
    else if (r->name && strcmp(r->name, "axes") != 0 && strcmp(r->name, "alpha") != 0)
      assert_int_equal(braid_graph_set_int(graph, node, r->name, r->value), BRAID_OK);
    assert_int_equal(braid_graph_add_output(graph, output), BRAID_OK);
    braid_status status = braid_resolve(graph);
    if (status != BRAID_INVALID_GRAPH || !strstr(braid_error_detail(), r->sentence))
      fail_msg("%s %s: %d, \"%s\", expected \"%s\"", r->op, r->inputs, status,
               status == BRAID_OK ? "" : braid_error_detail(), r->sentence);
    braid_graph_destroy(graph);
  }
}

/* --- the body in the node's place ----------------------------------------------------------------------------------
 */
static braid_status build_attention(const braid_allocator *allocator, braid_graph **out) {
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x, outputs[2] = {0, 0}, relu = 0;
  braid_status status = braid_graph_create(allocator, "test", &graph);
  *out = NULL;
  if (status != BRAID_OK) return status;
  *out = graph;
  if ((status = braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){1, 2, 3, 4})) != BRAID_OK) return status;
  if ((status = braid_graph_add_input(graph, "x", &desc, &x)) != BRAID_OK) return status;
  braid_node_id node;
  status = braid_graph_add_node(graph, "Attention", "attend", (braid_value_id[]){x, x, x}, 3, outputs, 2, &node);
  if (status == BRAID_OK) status = braid_graph_set_int(graph, node, "is_causal", 1);
  if (status == BRAID_OK) status = braid_graph_rename_value(graph, outputs[0], "y");
  if (status == BRAID_OK) status = braid_graph_add_node(graph, "Relu", "relu", outputs, 1, &relu, 1, NULL);
  if (status == BRAID_OK) status = braid_graph_add_output(graph, outputs[0]);
  if (status == BRAID_OK) status = braid_graph_add_output(graph, outputs[1]);
  if (status == BRAID_OK) status = braid_graph_add_output(graph, relu);
  return status == BRAID_OK ? braid_resolve(graph) : status;
}

/* Names of values stay, every new node answers to the function's name, and the order is topological. */
static void test_place(void **state) {
  (void)state;
  braid_graph *graph;
  assert_int_equal(build_attention(NULL, &graph), BRAID_OK);
  assert_string_equal(braid_graph_value(graph, braid_graph_output(graph, 0)).name, "y");
  size_t softmax = 0, products = 0, last = 0;
  for (size_t i = 0; i < graph->node_count; i++) {
    const braid_node *node = &graph->nodes[i];
    assert_string_not_equal(node->op->name, "Attention");
    softmax += strcmp(node->op->name, "Softmax") == 0;
    products += strcmp(node->op->name, "MatMul") == 0;
    if (strcmp(node->op->name, "Relu") == 0) {
      last = i;
      continue;
    }
    assert_non_null(node->absorbed);
    assert_string_equal(node->absorbed->name, "attend");
    for (size_t k = 0; k < node->input_count; k++)
      if (node->inputs[k] >= 0 && graph->values[node->inputs[k]].kind == BRAID_VALUE_RESULT)
        assert_true(graph->values[node->inputs[k]].producer < (braid_node_id)i);
  }
  assert_int_equal(softmax, 1);
  assert_int_equal(products, 2);
  assert_true(last > 0);
  assert_int_equal(braid_resolve(graph), BRAID_OK); /* once more, from what it was */
  braid_graph_destroy(graph);
}

static braid_status attempt(const braid_allocator *allocator, void *context) {
  (void)context;
  braid_graph *graph;
  braid_status status = build_attention(allocator, &graph);
  braid_graph_destroy(graph);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  oom_sweep(attempt, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_refusals), cmocka_unit_test(test_place),
                                     cmocka_unit_test(test_out_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
