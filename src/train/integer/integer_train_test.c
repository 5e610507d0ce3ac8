/* Training in integers as a whole: the same bits by any number of threads and after being stopped, a saved model that
 * computes what the training graph computes and trains on from, layers that are refused by name. */
#include "oom.h"
#include "train/integer/network.h"
#include "train/trainer_fixture.h"

static braid_value_id window(braid_graph *graph, const char *op, braid_value_id x, braid_value_id w, int64_t size,
                             int64_t stride, int64_t pad) {
  braid_node_id id;
  braid_value_id y = node(graph, op, (braid_value_id[]){x, w}, w < 0 ? 1 : 2, &id);
  ok(braid_graph_set_ints(graph, id, "kernel_shape", (int64_t[]){size, size}, 2));
  ok(braid_graph_set_ints(graph, id, "strides", (int64_t[]){stride, stride}, 2));
  if (pad) ok(braid_graph_set_ints(graph, id, "pads", (int64_t[]){pad, pad, pad, pad}, 4));
  return y;
}

static braid_value_id normalized(braid_graph *graph, braid_value_id x, int64_t channels, int index) {
  char names[4][16];
  for (int i = 0; i < 4; i++) snprintf(names[i], sizeof names[i], "norm%d.%d", index, i);
  braid_value_id inputs[5] = {
      x, constant(graph, names[0], 1, &channels, 0, 1), constant(graph, names[1], 1, &channels, 0, 0),
      constant(graph, names[2], 1, &channels, 0, 0), constant(graph, names[3], 1, &channels, 0, 1)};
  return node(graph, "BatchNormalization", inputs, 5, NULL);
}

/* Every kind of layer: convolutions with and without normalization, a residual, pools that overlap and not, both kinds
 * of products. `norms` false: without normalization, whose saved form rounds once less. */
static braid_graph *integer_network(bool norms) {
  braid_graph *graph;
  braid_value_id x, y;
  braid_node_id id;
  ok(braid_graph_create(NULL, "integers", &graph));
  ok(braid_graph_add_input(graph, "image", &(braid_desc){.dtype = BRAID_F32, .rank = 4, .dims = {-1, 3, 32, 32}}, &x));
  x = window(graph, "Conv", x, constant(graph, "first", 4, (int64_t[]){8, 3, 3, 3}, 0.2f, 0), 3, 2, 1);
  if (norms) x = normalized(graph, x, 8, 1);
  x = node(graph, "Relu", &x, 1, NULL);
  x = window(graph, "MaxPool", x, -1, 3, 2, 0);
  y = window(graph, "Conv", x, constant(graph, "second", 4, (int64_t[]){8, 8, 3, 3}, 0.2f, 0), 3, 1, 1);
  if (norms) y = normalized(graph, y, 8, 2);
  x = node(graph, "Add", (braid_value_id[]){x, y}, 2, NULL);
  x = node(graph, "Relu", &x, 1, NULL);
  x = window(graph, "AveragePool", x, -1, 2, 2, 0);
  x = node(graph, "Flatten", &x, 1, NULL);
  x = node(graph, "MatMul", (braid_value_id[]){x, constant(graph, "hidden", 2, (int64_t[]){72, 20}, 0.1f, 0)}, 2, NULL);
  x = node(graph, "Relu", &x, 1, NULL);
  x = node(graph, "Gemm", (braid_value_id[]){x, constant(graph, "last", 2, (int64_t[]){kClasses, 20}, 0.1f, 0)}, 2,
           &id);
  ok(braid_graph_set_int(graph, id, "transB", 1));
  x = node(graph, "Softmax", &x, 1, NULL);
  ok(braid_graph_add_output(graph, x));
  return graph;
}

static braid_train_options integer_options(const char *name) {
  braid_train_options options = options_of(name);
  options.epochs = 1;
  options.precision = BRAID_INT8;
  options.learning_rate = 4;
  options.draw_weights = true;
  return options;
}

static void test_threads_and_resume(void **state) {
  (void)state;
  braid_graph *graph = integer_network(true);
  for (int bits = 8; bits <= 12; bits += 4) {
    uint64_t whole = 0;
    for (int threads = 1; threads <= 3; threads++) {
      braid_train_options options = integer_options("whole");
      options.threads = threads;
      options.gradient_bits = bits;
      stop_at never = {.after = -1};
      uint64_t got = train_model(graph, options, &never, BRAID_OK);
      if (threads == 1) whole = got;
      assert_true(got == whole);
      assert_true(never.last_loss < never.first_loss);
    }
    for (int part = 0; part < 3; part++) {
      braid_train_options options = integer_options(bits == 8 ? "parts" : "parts12");
      options.threads = 1 + part;
      options.gradient_bits = bits;
      options.resume = true;
      stop_at stop = {.after = part < 2 ? 3 : -1};
      uint64_t got = train_model(graph, options, &stop, part < 2 ? BRAID_CANCELLED : BRAID_OK);
      if (part == 2) assert_true(got == whole);
    }
  }
  braid_graph_destroy(graph);
}

/* Another seed draws other weights and rounds otherwise. */
static void test_seed(void **state) {
  (void)state;
  braid_graph *graph = integer_network(false);
  uint64_t bits[2];
  for (int i = 0; i < 2; i++) {
    braid_train_options options = integer_options("seed");
    options.out_directory = NULL;
    options.seed = 5 + (uint64_t)i;
    stop_at never = {.after = -1};
    bits[i] = train_model(graph, options, &never, BRAID_OK);
  }
  assert_true(bits[0] != bits[1]);
  braid_graph_destroy(graph);
}

/* --- the saved model -----------------------------------------------------------------------------------------------
 */
static void run_scores(const braid_graph *graph, const float *images, size_t output, float *scores) {
  braid_session *session;
  braid_session_options options = {.devices = "cpu"};
  int32_t labels[32] = {0}, rate = 0;
  int64_t step = 1;
  float loss;
  ok(braid_session_create(graph, &options, &session));
  void *outputs[2] = {output ? (void *)&loss : scores, scores};
  ok(braid_session_run(session, (const void *[]){images, labels, &rate, &step}, outputs));
  braid_session_destroy(session);
}

/* Of a trained network: what the file computes is what the training graph computes, and a training from the file starts
 * with the same weights. */
static void check_saved(bool norms) {
  enum { kBatch = 32 };
  braid_graph *graph = integer_network(norms), *saved, *again;
  braid_train_options options = integer_options("saved");
  braid_dataset *data = glyphs("train");
  braid_dataset_info info = braid_dataset_get_info(data);
  braid_trainer *trainer;
  options.out_directory = NULL;
  ok(braid_trainer_create(graph, data, NULL, &options, &trainer));
  ok(braid_trainer_run(trainer, NULL, NULL));
  ok(braid_trainer_model(trainer, &saved));
  ok(braid_graph_set_input_shape(saved, braid_graph_input(saved, 0), 4, (int64_t[]){kBatch, 3, 32, 32}));
  braid_integer_network *net;
  options.draw_weights = false;
  ok(braid_integer_network_create(saved, &info, &options, false, &net));
  ok(braid_integer_step(net, &options, &again));
  for (size_t i = 0; i < again->value_count; i++) {
    const braid_value *value = &again->values[i];
    if (value->kind != BRAID_VALUE_PARAMETER) continue;
    braid_tensor *tensor;
    ok(braid_tensor_create(NULL, &value->desc, &tensor));
    ok(braid_session_read(trainer->session, value->name, tensor));
    assert_memory_equal(braid_tensor_const_data(tensor), braid_tensor_const_data(value->tensor),
                        braid_desc_bytes(&value->desc));
    braid_tensor_release(tensor);
  }
  assert_int_equal(net->biases, 0);
  float *images = calloc(kBatch * 3 * 32 * 32, sizeof *images);
  float by_file[kBatch * kClasses], by_step[kBatch * kClasses];
  assert_non_null(images);
  for (size_t i = 0; i < (size_t)kBatch * 3 * 32 * 32; i++) images[i] = braid_random_uniform(kSeed, 3, 1, i);
  if (!norms) { /* normalization goes by the batch in one and by running statistics in the other */
    run_scores(saved, images, 0, by_file);
    run_scores(again, images, 1, by_step);
    for (size_t i = 0; i < (size_t)kBatch * kClasses; i++) assert_true(by_file[i] * 128 == by_step[i]);
  }
  free(images);
  braid_integer_network_destroy(net);
  braid_trainer_destroy(trainer);
  braid_dataset_close(data);
  braid_graph_destroy(again);
  braid_graph_destroy(saved);
  braid_graph_destroy(graph);
}

static void test_saved(void **state) {
  (void)state;
  check_saved(false);
  check_saved(true);
}

/* --- what cannot be ------------------------------------------------------------------------------------------------
 */
static void test_refused(void **state) {
  (void)state;
  braid_graph *graph = network(); /* has a Dropout */
  braid_dataset *data = glyphs("train");
  braid_train_options options = integer_options("refused");
  braid_trainer *trainer;
  assert_int_equal(braid_trainer_create(graph, data, NULL, &options, &trainer), BRAID_UNSUPPORTED);
  assert_non_null(strstr(braid_error_detail(), "Dropout"));
  braid_graph_destroy(graph);
  graph = integer_network(true);
  options.learning_rate = 3;
  assert_int_equal(braid_trainer_create(graph, data, NULL, &options, &trainer), BRAID_INVALID_ARGUMENT);
  options.learning_rate = 4;
  options.gradient_bits = 17;
  assert_int_equal(braid_trainer_create(graph, data, NULL, &options, &trainer), BRAID_INVALID_ARGUMENT);
  braid_graph_destroy(graph);
  braid_dataset_close(data);
}

static void test_rates(void **state) {
  (void)state;
  static const double kWanted[] = {8, 8, 8, 8, 1, 0.125};
  for (int e = 0; e < 6; e++) assert_true(braid_integer_rate(8, e, 6) == kWanted[e]);
  assert_true(braid_integer_rate(8, 199, 300) == 8 && braid_integer_rate(8, 200, 300) == 1);
  assert_true(braid_integer_rate(8, 249, 300) == 1 && braid_integer_rate(8, 250, 300) == 0.125);
  assert_true(braid_integer_rate(0x1p-8, 299, 300) == 0x1p-8);
}

static braid_status build_all(const braid_allocator *allocator, void *context) {
  braid_graph *graph = context, *step;
  const braid_allocator *own = graph->allocator;
  braid_dataset_info info = {.channels = 3, .height = 32, .width = 32, .classes = kClasses};
  braid_train_options options = integer_options("oom");
  braid_integer_network *net;
  graph->allocator = allocator;
  braid_status status = braid_integer_network_create(graph, &info, &options, true, &net);
  if (status == BRAID_OK) {
    status = braid_integer_step(net, &options, &step);
    if (status == BRAID_OK) braid_graph_destroy(step);
    braid_integer_network_destroy(net);
  }
  graph->allocator = own;
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  braid_graph *graph = integer_network(true);
  assert_true(oom_sweep(build_all, graph) > 50);
  braid_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads_and_resume),
                                     cmocka_unit_test(test_seed),
                                     cmocka_unit_test(test_saved),
                                     cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_rates),
                                     cmocka_unit_test(test_out_of_memory)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
