/* Replacing the last layer: the model then gives as many scores as the data has classes, all else keeps its bits, and
 * what it learns is saved and tested as any other model. */
#include "train/trainer_fixture.h"

enum { kNew = 10, kOld = 1000 };

typedef enum ending { GEMM, GEMM_TRANSPOSED, MATMUL, CONV, RESHAPED, TIED, SQUARED } ending;

/* A network for kOld classes, with one of several ends. */
static braid_graph *pretrained(ending end) {
  braid_graph *graph;
  braid_node_id id;
  braid_value_id x;
  ok(braid_graph_create(NULL, "pretrained", &graph));
  ok(braid_graph_add_input(graph, "image", &(braid_desc){.dtype = BRAID_F32, .rank = 4, .dims = {-1, 3, 32, 32}}, &x));
  x = node(graph, "Conv", (braid_value_id[]){x, constant(graph, "w", 4, (int64_t[]){8, 3, 3, 3}, 0.2f, 0)}, 2, &id);
  ok(braid_graph_set_ints(graph, id, "strides", (int64_t[]){3, 3}, 2));
  x = node(graph, "Relu", &x, 1, NULL);
  if (end == CONV) {
    braid_value_id last[3] = {x, constant(graph, "head", 4, (int64_t[]){kOld, 8, 1, 1}, 0.1f, 0),
                              constant(graph, "head.bias", 1, (int64_t[]){kOld}, 0, 1)};
    x = node(graph, "Conv", last, 3, NULL);
    x = node(graph, "GlobalAveragePool", &x, 1, NULL);
    x = node(graph, "Flatten", &x, 1, NULL);
    ok(braid_graph_add_output(graph, node(graph, "Softmax", &x, 1, NULL)));
    return graph;
  }
  x = node(graph, "GlobalAveragePool", &x, 1, NULL);
  x = node(graph, "Flatten", &x, 1, NULL);
  bool transposed = end == GEMM_TRANSPOSED;
  braid_value_id last[3] = {
      x, constant(graph, "head", 2, transposed ? (int64_t[]){kOld, 8} : (int64_t[]){8, kOld}, 0.1f, 0),
      constant(graph, "head.bias", 1, (int64_t[]){kOld}, 0, 1)};
  if (end == MATMUL) {
    x = node(graph, "MatMul", last, 2, NULL);
    x = node(graph, "Add", (braid_value_id[]){last[2], x}, 2, NULL);
    x = node(graph, "Softmax", &x, 1, NULL);
  } else {
    x = node(graph, "Gemm", last, 3, &id);
    ok(braid_graph_set_int(graph, id, "transB", transposed));
  }
  if (end == RESHAPED) {
    braid_value_id shaped[2] = {x};
    ok(braid_graph_add_int64s(graph, (int64_t[]){-1, kOld}, 2, &shaped[1]));
    x = node(graph, "Reshape", shaped, 2, NULL);
  }
  if (end == TIED) ok(braid_graph_add_output(graph, node(graph, "Gemm", last, 3, NULL))); /* with the same weights */
  if (end == SQUARED) x = node(graph, "Mul", (braid_value_id[]){x, x}, 2, NULL);
  ok(braid_graph_add_output(graph, x));
  return graph;
}

static bool same_constant(const braid_graph *a, const braid_graph *b, const char *name) {
  const braid_tensor *one = a->values[braid_graph_find_value(a, name)].tensor;
  const braid_tensor *other = b->values[braid_graph_find_value(b, name)].tensor;
  return braid_desc_bytes(braid_tensor_desc(one)) == braid_desc_bytes(braid_tensor_desc(other)) &&
         memcmp(braid_tensor_const_data(one), braid_tensor_const_data(other),
                braid_desc_bytes(braid_tensor_desc(one))) == 0;
}

static void test_ends(void **state) {
  (void)state;
  braid_dataset *data = glyphs("train"), *test = glyphs("test");
  for (ending end = GEMM; end <= TIED; end++) {
    braid_graph *model = pretrained(end), *fitted, *again, *trained;
    ok(braid_replace_head(model, data, 7, &fitted));
    assert_true(same_constant(model, fitted, "w"));
    const braid_desc *declared = &fitted->values[fitted->outputs[0]].desc;
    assert_true(declared->rank < 0 || declared->dims[declared->rank - 1] == kNew);
    ok(braid_replace_head(model, data, 7, &again));
    if (end != TIED) {
      assert_int_equal(braid_desc_count(&fitted->values[braid_graph_find_value(fitted, "head")].desc), 8 * kNew);
      assert_int_equal(braid_desc_count(&fitted->values[braid_graph_find_value(fitted, "head.bias")].desc), kNew);
      assert_true(same_constant(fitted, again, "head"));
      const braid_tensor *head = fitted->values[braid_graph_find_value(fitted, "head")].tensor;
      double sum = 0;
      for (int i = 0; i < 8 * kNew; i++) sum += pow(braid_tensor_get_f64(head, i), 2);
      assert_true(sum > 8 * kNew / 24.0 * 0.6 && sum < 8 * kNew / 24.0 * 1.4); /* uniform within 1 / sqrt(8) */
    }
    braid_train_options options = options_of("head");
    options.groups = (braid_parameter_group[]){{"w", 0, NAN}};
    options.group_count = 1;
    braid_trainer *trainer;
    braid_train_progress last;
    ok(braid_trainer_create(fitted, data, test, &options, &trainer));
    ok(braid_trainer_run(trainer, keep_progress, &last));
    ok(braid_trainer_model(trainer, &trained));
    assert_true(same_constant(model, trained, "w"));
    braid_test_result result;
    ok(braid_test(trained, test, 16, NULL, NULL, NULL, &result));
    assert_int_equal(result.classes, kNew);
    assert_true(fabs(result.loss - last.test_loss) < 1e-5 * last.test_loss);
    assert_true(last.loss < 2.4);
    braid_test_result_deinit(&result);
    braid_graph_destroy(trained);
    braid_trainer_destroy(trainer);
    braid_graph_destroy(again);
    braid_graph_destroy(fitted);
    braid_graph_destroy(model);
  }
  braid_dataset_close(data);
  braid_dataset_close(test);
}

/* The model itself stays, and what cannot be done is said with the node that stands in the way. */
static void test_refused(void **state) {
  (void)state;
  braid_dataset *data = glyphs("train");
  braid_graph *model = pretrained(SQUARED), *fitted;
  assert_int_equal(braid_replace_head(model, data, 7, &fitted), BRAID_UNSUPPORTED);
  assert_null(fitted);
  assert_non_null(strstr(braid_error_detail(), "a Mul"));
  braid_trainer *trainer;
  braid_train_options options = options_of("refused");
  assert_int_equal(braid_trainer_create(model, data, NULL, &options, &trainer), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "1000 scores a sample, the data set has 10 classes"));
  assert_non_null(strstr(braid_error_detail(), "--replace-head"));
  braid_graph_destroy(model);
  braid_dataset_close(data);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_ends), cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
