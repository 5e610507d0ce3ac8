/* Training in integers as a whole: the same bits by any number of threads and after being stopped, a saved model that
 * computes what the training graph computes and trains on from, layers that are refused by name. */
#include "oom.h"
#include "train/integer/network_fixture.h"

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
  ok(braid_integer_step(net, &options, NULL, &again));
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
    status = braid_integer_step(net, &options, NULL, &step);
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
