/* Training in integers as a whole: the same bits by any number of threads and after being stopped, a saved model that
 * computes what the training graph computes and trains on from, layers that are refused by name. */
#include "graph/rewrite.h"
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
  assert_int_equal(net->bias_count, 0);
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

/* --- what trains ---------------------------------------------------------------------------------------------------
 */
static size_t count_ops(const braid_graph *graph, const char *op) {
  size_t count = 0;
  for (size_t i = 0; i < graph->node_count; i++) count += braid_node_is(&graph->nodes[i], op);
  return count;
}

static braid_trainer *trainer_of(const braid_graph *graph, braid_dataset *data, braid_parameter_group *groups,
                                 size_t count) {
  braid_train_options options = integer_options("frozen");
  braid_trainer *trainer;
  options.out_directory = NULL;
  options.groups = groups;
  options.group_count = count;
  ok(braid_trainer_create(graph, data, NULL, &options, &trainer));
  return trainer;
}

/* Are a parameter's numbers the same in both trainings? */
static bool same_numbers(braid_trainer *a, braid_trainer *b, const braid_value *value) {
  braid_tensor *numbers[2];
  for (int i = 0; i < 2; i++) {
    ok(braid_tensor_create(NULL, &value->desc, &numbers[i]));
    ok(braid_session_read((i ? b : a)->session, value->name, numbers[i]));
  }
  bool same = memcmp(braid_tensor_const_data(numbers[0]), braid_tensor_const_data(numbers[1]),
                     braid_desc_bytes(&value->desc)) == 0;
  for (int i = 0; i < 2; i++) braid_tensor_release(numbers[i]);
  return same;
}

/* Frozen parameters have no gradient, nor has what only they need one; all others go the step that they go without. */
static void test_frozen(void **state) {
  (void)state;
  static const struct {
    const char *patterns[2];
    size_t filters, inputs, pools, norms;
  } kCases[] = {{{NULL}, 4, 3, 1, 2},    {{"first", "norm1.*"}, 3, 2, 0, 1},
                {{"first"}, 3, 3, 1, 2}, {{"last"}, 3, 3, 1, 2},
                {{"*d"}, 3, 3, 1, 2}, /* second */
                {{"?????*"}, 1, 0, 0, 0}};
  braid_graph *graph = integer_network(true);
  braid_dataset *data = glyphs("train");
  braid_trainer *whole = trainer_of(graph, data, NULL, 0), *start = trainer_of(graph, data, NULL, 0);
  double loss;
  ok(braid_trainer_step(whole, 0.125, &loss));
  for (size_t c = 0; c < sizeof kCases / sizeof *kCases; c++) {
    braid_parameter_group groups[2];
    size_t count = 0;
    for (; count < 2 && kCases[c].patterns[count]; count++)
      groups[count] = (braid_parameter_group){kCases[c].patterns[count], 0, NAN};
    braid_trainer *trainer = trainer_of(graph, data, groups, count);
    const braid_graph *step = trainer->step;
    assert_int_equal(count_ops(step, "IntegerConvGradFilter"), kCases[c].filters);
    assert_int_equal(count_ops(step, "IntegerConvGradInput"), kCases[c].inputs);
    assert_int_equal(count_ops(step, "IntegerMaxPoolGrad"), kCases[c].pools);
    assert_int_equal(count_ops(step, "IntegerBatchNormalizationGrad"), kCases[c].norms);
    ok(braid_trainer_step(trainer, 0.125, &loss));
    for (size_t i = 0; i < step->value_count; i++) {
      const braid_value *value = &step->values[i];
      if (value->kind != BRAID_VALUE_PARAMETER) continue;
      const braid_parameter_group *group = braid_train_group(&trainer->options, value->name);
      assert_true(same_numbers(trainer, group ? start : whole, value));
      if (strlen(value->name) < 7) assert_false(same_numbers(start, whole, value)); /* the weights */
    }
    braid_trainer_destroy(trainer);
  }
  braid_trainer_destroy(whole);
  braid_trainer_destroy(start);
  braid_dataset_close(data);
  braid_graph_destroy(graph);
}

/* With all widths of activations, by both rules, all that trains moves. */
static void test_all_move(void **state) {
  (void)state;
  braid_graph *graph = integer_network(true);
  braid_dataset *data = glyphs("train");
  for (int bits = 2; bits <= 8; bits++)
    for (int rule = 0; rule < 2; rule++) {
      braid_train_options options = integer_options("move");
      options.activation_bits = bits;
      options.optimizer = rule ? BRAID_WAGE : BRAID_SGD;
      options.weight_decay = 0;
      braid_trainer *start, *trainer;
      double loss;
      options.out_directory = NULL;
      ok(braid_trainer_create(graph, data, NULL, &options, &start));
      ok(braid_trainer_create(graph, data, NULL, &options, &trainer));
      for (int step = 0; step < 8; step++) ok(braid_trainer_step(trainer, rule ? 8 : 1, &loss));
      for (size_t i = 0; i < trainer->step->value_count; i++) {
        const braid_value *value = &trainer->step->values[i];
        if (value->kind == BRAID_VALUE_PARAMETER && same_numbers(start, trainer, value))
          fail_msg("%s stays with %d bits, rule %d", value->name, bits, rule);
      }
      assert_int_equal(braid_trainer_step(trainer, 3, &loss), BRAID_INVALID_ARGUMENT);
      assert_int_equal(braid_trainer_step(trainer, rule ? 0x1p-9 : 0x1p-17, &loss), BRAID_INVALID_ARGUMENT);
      braid_trainer_destroy(start);
      braid_trainer_destroy(trainer);
    }
  braid_dataset_close(data);
  braid_graph_destroy(graph);
}

static void test_groups_refused(void **state) {
  (void)state;
  static const struct {
    braid_parameter_group groups[2];
    size_t count;
    braid_status status;
    const char *words;
  } kCases[] = {{{{"nothing*", 0, NAN}}, 1, BRAID_NOT_FOUND, "\"nothing*\" matches no parameter ("},
                {{{"*", 1, NAN}, {"first", 0, NAN}}, 2, BRAID_NOT_FOUND, "that an earlier group leaves"},
                {{{"*", 0, NAN}}, 1, BRAID_INVALID_ARGUMENT, "all 8 parameters are frozen: nothing trains"},
                {{{"*", 2, NAN}}, 1, BRAID_UNSUPPORTED, "first has a learning rate of its own"},
                {{{"*", 1, 0.1}}, 1, BRAID_INVALID_ARGUMENT, "a group has no weight decay of its own"}};
  braid_graph *graph = integer_network(true);
  braid_dataset *data = glyphs("train");
  for (size_t c = 0; c < sizeof kCases / sizeof *kCases; c++) {
    braid_train_options options = integer_options("groups");
    braid_trainer *trainer;
    options.groups = kCases[c].groups;
    options.group_count = kCases[c].count;
    assert_int_equal(braid_trainer_create(graph, data, NULL, &options, &trainer), kCases[c].status);
    if (!strstr(braid_error_detail(), kCases[c].words)) fail_msg("%zu: %s", c, braid_error_detail());
  }
  braid_dataset_close(data);
  braid_graph_destroy(graph);
}

/* --- given parameters ----------------------------------------------------------------------------------------------
 */
/* A convolution, a normalization with these gammas and betas, and a product with a bias. */
static braid_graph *given_network(const float gammas[4], const float betas[4]) {
  braid_graph *graph;
  braid_value_id x;
  int64_t channels = 4;
  ok(braid_graph_create(NULL, "given", &graph));
  ok(braid_graph_add_input(graph, "image", &(braid_desc){.dtype = BRAID_F32, .rank = 4, .dims = {-1, 3, 32, 32}}, &x));
  x = window(graph, "Conv", x, constant(graph, "weight", 4, (int64_t[]){4, 3, 3, 3}, 0.2f, 0), 3, 2, 1);
  x = normalized(graph, x, channels, 1);
  for (size_t i = 0; i < graph->value_count; i++) {
    const braid_value *value = &graph->values[i];
    if (strcmp(value->name, "norm1.0") == 0) memcpy(braid_tensor_data(value->tensor), gammas, 4 * sizeof *gammas);
    if (strcmp(value->name, "norm1.1") == 0) memcpy(braid_tensor_data(value->tensor), betas, 4 * sizeof *betas);
  }
  x = node(graph, "Relu", &x, 1, NULL);
  x = node(graph, "Flatten", &x, 1, NULL);
  int64_t classes = kClasses;
  x = node(graph, "Gemm",
           (braid_value_id[]){x, constant(graph, "full", 2, (int64_t[]){1024, kClasses}, 0.03f, 0),
                              constant(graph, "full.bias", 1, &classes, 1, 0)},
           3, NULL);
  ok(braid_graph_add_output(graph, x));
  return graph;
}

static void expect_parameter(const braid_graph *step, const char *name, const int64_t expected[4]) {
  braid_value_id id = braid_graph_find_value(step, name);
  assert_true(id >= 0);
  for (int64_t i = 0; i < 4; i++) assert_int_equal(braid_tensor_get_i64(step->values[id].tensor, i), expected[i]);
}

/* Gammas and betas that are given stand on the grid of the activations: 2^(k_G - 3) is 1 where samples have 4 places
 * less than k_A would give them, else an eighth. Beyond 4 or 8 of these, none is clipped: all are divided by one power
 * of two instead. */
static void test_given_norm(void **state) {
  (void)state;
  static const struct {
    float gammas[4], betas[4];
    int activation_bits, gradient_bits;
    bool normalized;
    int64_t gamma[4], beta[4];
  } kCases[] = {
      {{1, 0.5f, -1.5f, 0}, {0, 1, -1, 0.25f}, 8, 8, true, {32, 16, -48, 0}, {0, 16, -16, 4}},
      {{1, 0.5f, -1.5f, 0}, {0, 1, -1, 0.25f}, 8, 12, true, {512, 256, -768, 0}, {0, 256, -256, 64}},
      {{1, 0.5f, -1.5f, 0}, {0, 1, -1, 0.25f}, 5, 8, true, {32, 16, -48, 0}, {0, 16, -16, 4}},
      {{1, 0.5f, -0.25f, 0}, {0, 1, -1, 0.25f}, 8, 8, false, {64, 32, -16, 0}, {0, 32, -32, 8}},
      {{1, 0.5f, -0.25f, 0}, {0, 1, -1, 0.25f}, 4, 8, true, {64, 32, -16, 0}, {0, 32, -32, 8}},
      {{0.25f, 0.125f, -0.375f, 0}, {0, 0.25f, 0, 0}, 8, 8, false, {64, 32, -96, 0}, {0, 32, 0, 0}},
      {{3.96875f, 1, 1, 1}, {7.9375f, 0, 0, 0}, 8, 8, true, {127, 32, 32, 32}, {127, 0, 0, 0}},
      {{3.998046875f, 1, 1, 1}, {-7.998046875f, 0, 0, 0}, 8, 8, true, {127, 32, 32, 32}, {-127, 0, 0, 0}},
      {{4, 1, 1, 1}, {0, 1, 0, 0}, 8, 8, true, {64, 16, 16, 16}, {0, 8, 0, 0}},
      {{1, 1, 1, 1}, {-16, 1, 0, 0}, 8, 8, true, {8, 8, 8, 8}, {-64, 4, 0, 0}},
  };
  braid_dataset *data = glyphs("train");
  braid_dataset_info info = braid_dataset_get_info(data);
  for (size_t c = 0; c < sizeof kCases / sizeof *kCases; c++) {
    braid_graph *graph = given_network(kCases[c].gammas, kCases[c].betas), *step;
    braid_train_options options = integer_options("given");
    braid_integer_network *net;
    options.draw_weights = false;
    options.activation_bits = kCases[c].activation_bits;
    options.gradient_bits = kCases[c].gradient_bits;
    ok(braid_integer_network_create(graph, &info, &options, kCases[c].normalized, &net));
    ok(braid_integer_step(net, &options, NULL, &step));
    expect_parameter(step, "norm1.0", kCases[c].gamma);
    expect_parameter(step, "norm1.1", kCases[c].beta);
    braid_graph_destroy(step);
    braid_integer_network_destroy(net);
    braid_graph_destroy(graph);
  }
  braid_dataset_close(data);
}

/* The data set's classes and the sample that holds `odd`. */
static braid_status read_sample(void *context, int64_t index, float *pixels, int32_t *label) {
  for (int i = 0; i < 3 * 32 * 32; i++) pixels[i] = 0.25f;
  if (index == 5) pixels[100] = *(const float *)context;
  *label = (int32_t)(index % kClasses);
  return BRAID_OK;
}

static void test_not_finite(void **state) {
  (void)state;
  static const char *const kNames[] = {"weight", "norm1.0", "norm1.1", "full"};
  for (size_t i = 0; i < 4; i++) {
    braid_graph *graph = given_network((float[]){1, 1, 1, 1}, (float[]){0, 0, 0, 0});
    braid_dataset *data = glyphs("train");
    braid_train_options options = integer_options("finite");
    braid_trainer *trainer;
    char words[64];
    options.draw_weights = false;
    braid_value *value = &graph->values[braid_graph_find_value(graph, kNames[i])];
    ((float *)braid_tensor_data(value->tensor))[3] = i % 2 ? NAN : -INFINITY;
    assert_int_equal(braid_trainer_create(graph, data, NULL, &options, &trainer), BRAID_NOT_FINITE);
    snprintf(words, sizeof words, "parameter %s holds a number that is not finite", kNames[i]);
    assert_string_equal(braid_error_detail(), words);
    braid_dataset_close(data);
    braid_graph_destroy(graph);
  }
  static const float kOdd[] = {NAN, INFINITY, -INFINITY};
  for (size_t i = 0; i < 3; i++) {
    float odd = kOdd[i];
    braid_dataset_source source = {.name = "odd",
                                   .samples = 32,
                                   .channels = 3,
                                   .height = 32,
                                   .width = 32,
                                   .classes = kClasses,
                                   .read = read_sample,
                                   .context = &odd};
    braid_graph *graph = integer_network(true);
    braid_dataset *data;
    braid_trainer *trainer;
    double loss;
    ok(braid_dataset_create(NULL, &source, NULL, &data));
    trainer = trainer_of(graph, data, NULL, 0);
    assert_int_equal(braid_trainer_step(trainer, 0.125, &loss), BRAID_NOT_FINITE);
    assert_string_equal(braid_error_detail(),
                        "epoch 1, step 1: sample 5 of the data set holds a number that is not finite");
    braid_trainer_destroy(trainer);
    braid_dataset_close(data);
    braid_graph_destroy(graph);
  }
}

/* What a training says that it trains: integers, not the biases, which it leaves out; of a file that it saved, not the
 * constants that only make the file round. */
static void test_parameters(void **state) {
  (void)state;
  braid_graph *graph = given_network((float[]){1, 1, 1, 1}, (float[]){0, 0, 0, 0}), *saved, *parameters;
  braid_dataset *data = glyphs("train");
  for (int again = 0; again < 2; again++) {
    braid_trainer *trainer = trainer_of(again ? saved : graph, data, NULL, 0);
    size_t trains = 0, fixed = 0;
    ok(braid_trainer_parameters(trainer, &parameters));
    for (size_t i = 0; i < parameters->value_count; i++) {
      const braid_value *value = &parameters->values[i];
      trains += value->kind == BRAID_VALUE_PARAMETER ? (size_t)braid_desc_count(&value->desc) : 0;
      if (!value->fixed) continue;
      fixed++;
      assert_string_equal(value->name, "full.bias");
    }
    assert_int_equal(trains, 4 * 27 + 4 + 4 + 1024 * kClasses);
    assert_int_equal(fixed, !again);
    braid_graph_destroy(parameters);
    if (!again) ok(braid_trainer_model(trainer, &saved));
    braid_trainer_destroy(trainer);
  }
  /* in floating point the normalization's scale and shift alone train */
  ok(braid_trainable_copy(saved, &parameters));
  for (size_t i = 0; i < parameters->value_count; i++)
    if (parameters->values[i].kind == BRAID_VALUE_PARAMETER)
      assert_memory_equal(parameters->values[i].name, "norm1.", strlen("norm1."));
  braid_graph_destroy(parameters);
  braid_graph_destroy(saved);
  braid_dataset_close(data);
  braid_graph_destroy(graph);
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
  options.learning_rate = 0.125;
  options.optimizer = BRAID_ADAM;
  assert_int_equal(braid_trainer_create(graph, data, NULL, &options, &trainer), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "sgd or wage"));
  options.optimizer = BRAID_WAGE;
  options.precision = BRAID_FLOAT32;
  assert_int_equal(braid_trainer_create(graph, data, NULL, &options, &trainer), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "training in integers"));
  options.precision = BRAID_INT8;
  options.gradient_bits = 17;
  assert_int_equal(braid_trainer_create(graph, data, NULL, &options, &trainer), BRAID_INVALID_ARGUMENT);
  braid_graph_destroy(graph);
  braid_dataset_close(data);
}

/* Limits and roundings that this training has not saved are no part of its arithmetic: none is passed over. */
static void test_foreign_rounding(void **state) {
  (void)state;
  static const struct {
    const char *op;
    float a, b; /* limits; scale and zero point */
    bool is_unsigned;
  } kCases[] = {{"Clip", 0, 6, false},
                {"Clip", -1, 1, false},
                {"Clip", 0, 0.001f, false},
                {"QuantizeLinear", 0.1f, 0, false},
                {"QuantizeLinear", 0.125f, 3, false},
                {"QuantizeLinear", 0.125f, 0, true}};
  braid_dataset *data = glyphs("train");
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    braid_graph *graph;
    braid_value_id x, inputs[3];
    ok(braid_graph_create(NULL, "rounded", &graph));
    ok(braid_graph_add_input(graph, "image", &(braid_desc){.dtype = BRAID_F32, .rank = 4, .dims = {-1, 3, 32, 32}},
                             &x));
    x = window(graph, "Conv", x, constant(graph, "first", 4, (int64_t[]){8, 3, 3, 3}, 0.2f, 0), 3, 2, 1);
    inputs[0] = x;
    inputs[1] = constant(graph, "a", 0, NULL, 0, kCases[i].a);
    if (strcmp(kCases[i].op, "Clip") == 0) {
      inputs[2] = constant(graph, "b", 0, NULL, 0, kCases[i].b);
      x = node(graph, "Clip", inputs, 3, NULL);
    } else {
      ok(braid_graph_add_scalar(graph, kCases[i].is_unsigned ? BRAID_U8 : BRAID_I8, (double)kCases[i].b, &inputs[2]));
      inputs[0] = node(graph, "QuantizeLinear", inputs, 3, NULL);
      x = node(graph, "DequantizeLinear", inputs, 3, NULL);
    }
    x = node(graph, "Flatten", &x, 1, NULL);
    x = node(graph, "MatMul", (braid_value_id[]){x, constant(graph, "last", 2, (int64_t[]){2048, kClasses}, 0.1f, 0)},
             2, NULL);
    ok(braid_graph_add_output(graph, x));
    braid_train_options options = integer_options("foreign");
    braid_trainer *trainer;
    options.out_directory = NULL;
    braid_status status = braid_trainer_create(graph, data, NULL, &options, &trainer);
    if (status != BRAID_UNSUPPORTED || !strstr(braid_error_detail(), kCases[i].op))
      fail_msg("%s %g %g: %s", kCases[i].op, (double)kCases[i].a, (double)kCases[i].b, braid_error_detail());
    braid_graph_destroy(graph);
  }
  braid_dataset_close(data);
}

static void test_rates(void **state) {
  (void)state;
  static const double kWanted[] = {8, 8, 8, 8, 1, 0.125};
  for (int e = 0; e < 6; e++) assert_true(braid_integer_wage_rate(8, e, 6) == kWanted[e]);
  assert_true(braid_integer_wage_rate(8, 199, 300) == 8 && braid_integer_wage_rate(8, 200, 300) == 1);
  assert_true(braid_integer_wage_rate(8, 249, 300) == 1 && braid_integer_wage_rate(8, 250, 300) == 0.125);
  assert_true(braid_integer_wage_rate(0x1p-8, 299, 300) == 0x1p-8);
  for (int64_t steps = 1; steps < 5000; steps += 7 + steps / 5)
    for (int64_t step = 0; step < steps; step++) {
      double place = log2(0.5 + 0.5 * cos(3.14159265358979323846 * (double)step / (double)steps)),
             near = place - floor(place);
      double rate = braid_integer_cosine_rate(0.25, step, steps);
      assert_true(log2(rate) == floor(log2(rate)));
      if (place > -12 && fabs(near - 0.5) > 0.02) assert_true(log2(rate) == -2 + floor(place + 0.5));
    }
  assert_true(braid_integer_cosine_rate(0x1p-8, 99999, 100000) == 0x1p-16);
  static const int64_t kHalves[] = {3641, 5946, 7237, 8078, 8652, 9050, 9330, 9526, 9665, 9763, 9833, 9882, 9916};
  for (int i = 0; i < 13; i++) {
    assert_true(braid_integer_cosine_rate(1, kHalves[i] - 1, 10000) == ldexp(1, -i));
    assert_true(braid_integer_cosine_rate(1, kHalves[i], 10000) == ldexp(1, -i - 1));
  }
  assert_int_equal(braid_integer_decay(0), 0);
  assert_int_equal(braid_integer_decay(5e-4), 11);
  assert_int_equal(braid_integer_decay(7), 1);
  assert_int_equal(braid_integer_decay(1e-30), 30);
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
                                     cmocka_unit_test(test_frozen),
                                     cmocka_unit_test(test_all_move),
                                     cmocka_unit_test(test_groups_refused),
                                     cmocka_unit_test(test_given_norm),
                                     cmocka_unit_test(test_not_finite),
                                     cmocka_unit_test(test_parameters),
                                     cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_foreign_rounding),
                                     cmocka_unit_test(test_rates),
                                     cmocka_unit_test(test_out_of_memory)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
