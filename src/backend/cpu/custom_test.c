#include "braid/custom.h"

#include <string.h>

#include "backend/cpu/evaluate.h"
#include "oom.h"

static braid_status infer(const braid_attrs *attrs, const braid_desc *const *inputs, size_t input_count,
                          braid_desc *outputs, size_t output_count) {
  (void)attrs, (void)output_count;
  if (input_count > 1 && inputs[1] && !braid_desc_same_shape(inputs[0], inputs[1]))
    return braid_fail(BRAID_INVALID_GRAPH, "the second input must have the shape of the first");
  outputs[0] = *inputs[0];
  return BRAID_OK;
}

/* scale * a + b, b optional */
static braid_status compute(const braid_attrs *attrs, const braid_custom_array *inputs, size_t input_count,
                            const braid_custom_array *outputs, size_t output_count) {
  (void)output_count;
  float scale = (float)braid_attr_float(attrs, "scale", 1);
  const float *a = inputs[0].data, *b = input_count > 1 && inputs[1].desc ? inputs[1].data : NULL;
  float *y = outputs[0].data;
  for (int64_t i = 0; i < braid_desc_count(inputs[0].desc); i++) y[i] = scale * a[i] + (b ? b[i] : 0);
  return BRAID_OK;
}

static const braid_custom_op axpb = {
    .name = "test.Axpb", .min_inputs = 1, .max_inputs = 2, .outputs = 1, .infer = infer, .compute = compute};

static void test_registration(void **state) {
  (void)state;
  assert_int_equal(braid_custom_op_register(&axpb), BRAID_OK);
  assert_int_equal(braid_custom_op_register(&axpb), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "test.Axpb"));
  braid_custom_op conv = axpb, bare = axpb;
  conv.name = "Conv";
  bare.compute = NULL;
  assert_int_equal(braid_custom_op_register(&conv), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_custom_op_register(&bare), BRAID_INVALID_ARGUMENT);
}

static braid_value_id add_constant(braid_graph *graph, const float *values, int64_t count) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id id;
  assert_int_equal(braid_desc_init(&desc, BRAID_F32, 1, &count), BRAID_OK);
  assert_int_equal(braid_tensor_create(NULL, &desc, &tensor), BRAID_OK);
  memcpy(braid_tensor_data(tensor), values, (size_t)count * sizeof *values);
  assert_int_equal(braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, tensor, &id), BRAID_OK);
  braid_tensor_release(tensor);
  return id;
}

/* A node of constants is folded by its own kernel; what it computes stands in the graph afterwards. */
static void check_fold(size_t input_count, const float wanted[3]) {
  braid_graph *graph;
  assert_int_equal(braid_graph_create(NULL, "custom", &graph), BRAID_OK);
  braid_value_id inputs[2], y = 0;
  braid_node_id node;
  inputs[0] = add_constant(graph, (const float[]){1, 2, 3}, 3);
  inputs[1] = input_count > 1 ? add_constant(graph, (const float[]){10, 20, 30}, 3) : -1;
  assert_int_equal(braid_graph_add_node(graph, axpb.name, "n", inputs, input_count, &y, 1, &node), BRAID_OK);
  assert_int_equal(braid_graph_set_float(graph, node, "scale", 2), BRAID_OK);
  assert_int_equal(braid_graph_add_output(graph, y), BRAID_OK);
  braid_cpu_evaluator cpu;
  assert_int_equal(braid_cpu_evaluator_init(&cpu, NULL), BRAID_OK);
  braid_evaluator evaluator = {braid_cpu_evaluate, &cpu};
  if (braid_graph_infer(graph, &evaluator) != BRAID_OK) fail_msg("%s", braid_error_detail());
  const braid_tensor *folded = braid_graph_value(graph, braid_graph_output(graph, 0)).tensor;
  assert_non_null(folded);
  assert_memory_equal(braid_tensor_const_data(folded), wanted, 3 * sizeof *wanted);
  braid_cpu_evaluator_deinit(&cpu);
  braid_graph_destroy(graph);
}

static void test_folding(void **state) {
  (void)state;
  check_fold(1, (const float[]){2, 4, 6});
  check_fold(2, (const float[]){12, 24, 36});
}

static void test_refusal_names_the_node(void **state) {
  (void)state;
  braid_graph *graph;
  assert_int_equal(braid_graph_create(NULL, "custom", &graph), BRAID_OK);
  braid_value_id y = 0, inputs[2] = {add_constant(graph, (const float[]){1, 2, 3}, 3),
                                     add_constant(graph, (const float[]){1, 2}, 2)};
  assert_int_equal(braid_graph_add_node(graph, axpb.name, "misfit", inputs, 2, &y, 1, NULL), BRAID_OK);
  assert_int_equal(braid_graph_add_output(graph, y), BRAID_OK);
  assert_int_equal(braid_graph_infer(graph, NULL), BRAID_INVALID_GRAPH);
  assert_non_null(strstr(braid_error_detail(), "misfit"));
  braid_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_registration),
      cmocka_unit_test(test_folding),
      cmocka_unit_test(test_refusal_names_the_node),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
