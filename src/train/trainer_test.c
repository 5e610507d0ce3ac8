/* Training as a whole, on pictures made by the program: it learns, and what is wrong is said. */
#include "train/trainer_fixture.h"

/* The same as a fresh network's export in training mode: the normalization's ones and zeros are stored once, with
 * Identity nodes that give the other names, and the normalization and the dropping out are in training mode. */
static braid_graph *exported_network(void) {
  braid_graph *graph = network();
  for (size_t i = 0, count = graph->node_count; i < count; i++) {
    const char *op = graph->nodes[i].op->name;
    if (strcmp(op, "Dropout") == 0) {
      braid_tensor *yes;
      braid_value_id *inputs = braid_graph_arena_alloc(graph, 3 * sizeof *inputs);
      assert_non_null(inputs);
      ok(braid_tensor_create(NULL, &(braid_desc){.dtype = BRAID_BOOL}, &yes));
      *(uint8_t *)braid_tensor_data(yes) = 1;
      inputs[0] = graph->nodes[i].inputs[0];
      inputs[1] = -1;
      ok(braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, yes, &inputs[2]));
      braid_tensor_release(yes);
      graph->nodes[i].inputs = inputs;
      graph->nodes[i].input_count = 3;
    }
    if (strcmp(op, "BatchNormalization") != 0) continue;
    ok(braid_graph_set_int(graph, (braid_node_id)i, "training_mode", 1));
    for (int k = 3; k < 5; k++) {
      braid_value_id *by = graph->nodes[i].inputs, same;
      char name[32];
      snprintf(name, sizeof name, "%s", graph->values[by[k]].name);
      ok(braid_graph_rename_value(graph, by[k], k == 3 ? "old mean" : "old variance"));
      same = node(graph, "Identity", &by[k == 3 ? 2 : 1], 1, NULL);
      ok(braid_graph_rename_value(graph, same, name));
      graph->nodes[i].inputs[k] = same;
    }
  }
  return graph;
}

/* --- tests ---------------------------------------------------------------------------------------------------------
 */
static void test_other_run(void **state) {
  (void)state;
  stop_at here = {.after = 3};
  braid_train_options options = options_of("other");
  train(options, &here, BRAID_CANCELLED);
  options.resume = true;
  options.batch = 16;
  braid_graph *graph = network();
  braid_dataset *data = glyphs("train");
  braid_trainer *trainer;
  assert_int_equal(braid_trainer_create(graph, data, NULL, &options, &trainer), BRAID_INVALID_ARGUMENT);
  assert_null(trainer);
  assert_non_null(strstr(braid_error_detail(), "another run"));
  braid_dataset_close(data);
  braid_graph_destroy(graph);
}

/* `value` gets a name of `length` characters that ends in its own. */
static void lengthen_name(braid_graph *graph, const char *value, size_t length) {
  char *name = malloc(length + 1);
  assert_non_null(name);
  memset(name, 'a', length);
  strcpy(name + length - strlen(value), value);
  ok(braid_graph_rename_value(graph, braid_graph_find_value(graph, value), name));
  free(name);
}

/* Names that differ after 60,000 characters, and one that a momentum would have. */
static void test_long_names(void **state) {
  (void)state;
  braid_graph *graph = network();
  ok(braid_graph_rename_value(graph, braid_graph_find_value(graph, "scale"), "full/momentum"));
  lengthen_name(graph, "w", 60000);
  lengthen_name(graph, "shift", 60000);
  stop_at never = {.after = -1}, here = {.after = 7};
  braid_train_options options = options_of("long-whole");
  uint64_t bits = train_model(graph, options, &never, BRAID_OK);
  options = options_of("long-parts");
  options.resume = true;
  train_model(graph, options, &here, BRAID_CANCELLED);
  never = (stop_at){.after = -1};
  assert_true(train_model(graph, options, &never, BRAID_OK) == bits);
  braid_graph_destroy(graph);
}

/* What checkpoints cannot hold is said before anything is trained. */
static void test_names_that_checkpoints_lack(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    braid_graph *graph = network();
    braid_dataset *data = glyphs("train");
    braid_trainer *trainer;
    if (i == 0) lengthen_name(graph, "w", 65530); /* "w/momentum" is too long */
    if (i == 1) ok(braid_graph_rename_value(graph, braid_graph_find_value(graph, "w"), "trainer/counters"));
    braid_train_options options = options_of("names");
    assert_int_equal(braid_trainer_create(graph, data, NULL, &options, &trainer),
                     i == 0 ? BRAID_OUT_OF_RANGE : BRAID_INVALID_GRAPH);
    assert_null(trainer);
    assert_non_null(strstr(braid_error_detail(), i == 0 ? "a name of 65539 characters" : "rename it"));
    options.out_directory = NULL;
    ok(braid_trainer_create(graph, data, NULL, &options, &trainer));
    braid_trainer_destroy(trainer);
    braid_dataset_close(data);
    braid_graph_destroy(graph);
  }
}

/* A rate that drives the weights to infinity: the run ends with the step and a layer, and the checkpoint stays finite.
 */
static void test_not_finite(void **state) {
  (void)state;
  stop_at never = {.after = -1};
  braid_train_options options = options_of("wild");
  options.learning_rate = 1e30;
  options.momentum = 0;
  train(options, &never, BRAID_NOT_FINITE);
  assert_non_null(strstr(braid_error_detail(), "epoch 1, step "));
}

/* The last step of an epoch spoils the weights, which no loss shows any more: nothing of it is written. */
static void test_weights_not_finite(void **state) {
  (void)state;
  stop_at never = {.after = -1};
  braid_train_options options = options_of("spoiled");
  options.batch = 320;
  options.epochs = 1;
  options.learning_rate = 1e39; /* infinite as float32 */
  train(options, &never, BRAID_NOT_FINITE);
  assert_non_null(strstr(braid_error_detail(), "parameter "));
  char path[160];
  snprintf(path, sizeof path, "%s/model.onnx", options.out_directory);
  assert_int_equal(access(path, F_OK), -1);
  snprintf(path, sizeof path, "%s/checkpoint-0000000001.braid", options.out_directory);
  assert_int_equal(access(path, F_OK), -1);
}

/* --- a model that ONNX cannot express ------------------------------------------------------------------------------
 */
static char said[2048];

static void listen(void *context, braid_log_level level, const char *message) {
  (void)context, (void)level;
  snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", message);
}

/* What a run would leave if it were killed when it says `context`. */
static void copy_folder(void *context, braid_log_level level, const char *message) {
  (void)level;
  char command[256];
  snprintf(command, sizeof command, "cp -r %s/whole-run %s/killed", folder, folder);
  if (strstr(message, context)) assert_int_equal(system(command), 0);
}

static bool is_there(const char *name) {
  char path[160];
  struct stat about;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

/* Killed when the last epoch's model or report is about to be written: the epoch is kept, and going on makes up for the
 * rest. A folder of its name keeps each from being written. */
static void test_killed_at_the_end(void **state) {
  (void)state;
  static const char *const kEnds[][2] = {{"model.onnx", "the model was not written"},
                                         {"report.html", "the report was not written"}};
  for (int i = 0; i < 4; i++) {
    char path[160], text[64], command[160];
    braid_train_options options = options_of("whole-run");
    options.epochs = 1;
    braid_graph *graph = network();
    braid_dataset *data = glyphs("train"), *test = i & 2 ? glyphs("test") : NULL;
    braid_trainer *trainer;
    ok(braid_trainer_create(graph, data, test, &options, &trainer));
    snprintf(path, sizeof path, "%s/whole-run/%s", folder, kEnds[i & 1][0]);
    assert_int_equal(mkdir(path, 0777), 0);
    strcpy(text, kEnds[i & 1][1]);
    braid_registry_set_log(registry, &(braid_log){copy_folder, text});
    assert_int_not_equal(braid_trainer_run(trainer, NULL, NULL), BRAID_OK);
    braid_registry_set_log(registry, NULL);
    uint64_t bits = bits_of(trainer);
    braid_trainer_destroy(trainer);
    assert_true(is_there("killed/checkpoint-0000000010.braid"));
    snprintf(path, sizeof path, "%s/killed/%s", folder, kEnds[i & 1][0]);
    assert_int_equal(rmdir(path), 0);
    options = options_of("killed");
    options.epochs = 1;
    options.resume = true;
    ok(braid_trainer_create(graph, data, test, &options, &trainer));
    ok(braid_trainer_run(trainer, NULL, NULL));
    assert_true(bits_of(trainer) == bits);
    braid_trainer_destroy(trainer);
    assert_true(is_there("killed/model.onnx") && is_there("killed/report.html"));
    snprintf(command, sizeof command, "rm -r %s/killed %s/whole-run", folder, folder);
    assert_int_equal(system(command), 0);
    if (test) braid_dataset_close(test);
    braid_dataset_close(data);
    braid_graph_destroy(graph);
  }
}

/* A gradient as a forward op, before the first parameter: it can be trained past, and has no ONNX form. */
static braid_graph *unsavable(void) {
  braid_graph *graph;
  braid_value_id x;
  ok(braid_graph_create(NULL, "unsavable", &graph));
  ok(braid_graph_add_input(graph, "image", &(braid_desc){.dtype = BRAID_F32, .rank = 4, .dims = {-1, 3, 32, 32}}, &x));
  x = node(graph, "Flatten", &x, 1, NULL);
  x = node(graph, "SoftmaxGrad", (braid_value_id[]){x, x}, 2, NULL);
  braid_value_id full[2] = {x, constant(graph, "full", 2, (int64_t[]){3072, kClasses}, 0.03f, 0)};
  ok(braid_graph_add_output(graph, node(graph, "Gemm", full, 2, NULL)));
  return graph;
}

/* It is said before the first step, and what is trained is in the checkpoints, from which training goes on. */
static void test_what_cannot_be_saved(void **state) {
  (void)state;
  braid_graph *graph = unsavable();
  braid_dataset *data = glyphs("train"), *test = glyphs("test");
  uint64_t bits[2];
  char path[160];
  for (int i = 0; i < 2; i++) {
    braid_train_options options = options_of("unsavable");
    braid_trainer *trainer;
    options.schedule = BRAID_CONSTANT;
    options.epochs = 1 + i;
    options.resume = i == 1;
    said[0] = 0;
    braid_registry_set_log(registry, &(braid_log){listen, NULL});
    ok(braid_trainer_create(graph, data, test, &options, &trainer));
    braid_registry_set_log(registry, NULL);
    assert_non_null(strstr(said, "ONNX has no op SoftmaxGrad"));
    assert_non_null(strstr(said, "stays in the checkpoints"));
    if (i == 1) assert_true(bits_of(trainer) == bits[0]);
    ok(braid_trainer_run(trainer, NULL, NULL));
    bits[i] = bits_of(trainer);
    snprintf(path, sizeof path, "%s/model.onnx", options.out_directory);
    assert_int_equal(access(path, F_OK), -1);
    braid_trainer_destroy(trainer);
  }
  assert_true(bits[0] != bits[1]);
  braid_dataset_close(data);
  braid_dataset_close(test);
  braid_graph_destroy(graph);
}

static void test_wrong_options(void **state) {
  (void)state;
  braid_graph *graph = network();
  braid_dataset *data = glyphs("train");
  for (int i = 0; i < 10; i++) {
    braid_train_options options = options_of("wrong");
    if (i == 0) options.batch = 0;
    if (i == 1) options.learning_rate = NAN;
    if (i == 2) options.label_smoothing = 1;
    if (i == 3) options.batch = 100000;
    if (i == 4) options.epochs = 0;
    if (i == 5) options.beta2 = 1;
    if (i == 6) options.accumulate = 0;
    if (i == 7) options.clip_norm = NAN;
    if (i == 8) options.average_decay = 1;
    if (i == 9) options.accumulate = 11; /* of ten batches */
    braid_trainer *trainer;
    assert_int_equal(braid_trainer_create(graph, data, NULL, &options, &trainer), BRAID_INVALID_ARGUMENT);
    assert_null(trainer);
  }
  braid_dataset_close(data);
  braid_graph_destroy(graph);
}

/* Whether two constants of a graph hold other numbers. */
static bool differ(const braid_graph *graph, const char *one, const char *other) {
  const braid_tensor *a = braid_graph_value(graph, braid_graph_find_value(graph, one)).tensor;
  const braid_tensor *b = braid_graph_value(graph, braid_graph_find_value(graph, other)).tensor;
  assert_non_null(a);
  assert_non_null(b);
  return memcmp(braid_tensor_const_data(a), braid_tensor_const_data(b), braid_desc_bytes(braid_tensor_desc(a))) != 0;
}

/* What the report says is what the saved file does, at any batch. */
static void test_export_in_training_mode(void **state) {
  (void)state;
  braid_graph *graph = exported_network(), *trained, *saved;
  braid_dataset *data = glyphs("train"), *test = glyphs("test");
  braid_train_options options = options_of("exported");
  braid_trainer *trainer;
  braid_train_progress last;
  char path[160];
  ok(braid_trainer_create(graph, data, test, &options, &trainer));
  ok(braid_trainer_run(trainer, keep_progress, &last));
  ok(braid_trainer_model(trainer, &trained));
  assert_true(differ(trained, "scale", "variance"));
  assert_true(differ(trained, "shift", "mean"));
  snprintf(path, sizeof path, "%s/exported/again.onnx", folder);
  ok(braid_model_save_onnx(trained, path));
  ok(braid_model_load(NULL, path, NULL, &saved));
  for (int64_t batch = 1; batch <= 64; batch *= 8) {
    braid_test_result result;
    ok(braid_test(saved, test, batch, NULL, NULL, NULL, &result));
    assert_true(fabs(result.loss - last.test_loss) < 1e-5 * last.test_loss);
    assert_true(fabs(result.accuracy - last.test_accuracy) < 0.004); /* one sample whose two best scores are equal */
    braid_test_result_deinit(&result);
  }
  braid_graph_destroy(saved);
  braid_graph_destroy(trained);
  braid_trainer_destroy(trainer);
  braid_dataset_close(data);
  braid_dataset_close(test);
  braid_graph_destroy(graph);
}

/* A weight, one slope for two nodes of a module, a literal, and a part of a buffer. */
static braid_graph *network_with_buffers(void) {
  braid_graph *graph;
  braid_value_id x;
  ok(braid_graph_create(NULL, "buffers", &graph));
  ok(braid_graph_add_input(graph, "image", &(braid_desc){.dtype = BRAID_F32, .rank = 4, .dims = {-1, 3, 32, 32}}, &x));
  braid_value_id full = constant(graph, "full", 2, (int64_t[]){3072, kClasses}, 0.03f, 0),
                 slope = constant(graph, "slope", 1, (int64_t[]){1}, 0, 0.25f),
                 literal = constant(graph, "literal", 1, (int64_t[]){1}, 0, 0.5f),
                 table = constant(graph, "table", 1, (int64_t[]){2 * kClasses}, 1, 0), part[4] = {table};
  graph->values[literal].origin = BRAID_ORIGIN_LITERAL;
  graph->values[table].origin = BRAID_ORIGIN_BUFFER;
  x = node(graph, "Flatten", &x, 1, NULL);
  x = node(graph, "MatMul", (braid_value_id[]){x, full}, 2, NULL);
  for (int i = 0; i < 2; i++) {
    braid_node_id id;
    x = node(graph, "PRelu", (braid_value_id[]){x, slope}, 2, &id);
    graph->nodes[id].module = "/act";
  }
  x = node(graph, "Mul", (braid_value_id[]){x, literal}, 2, NULL);
  for (int i = 1; i < 4; i++) ok(braid_graph_add_int64s(graph, &(int64_t){i == 2 ? kClasses : 0}, 1, &part[i]));
  x = node(graph, "Add", (braid_value_id[]){x, node(graph, "Slice", part, 4, NULL)}, 2, NULL);
  ok(braid_graph_add_output(graph, x));
  return graph;
}

static size_t count_trained(const braid_graph *graph) {
  braid_graph *copy;
  size_t count = 0;
  ok(braid_graph_clone(graph, &copy));
  ok(braid_graph_make_trainable(copy));
  for (size_t i = 0; i < braid_graph_value_count(copy); i++)
    count += braid_graph_value(copy, (braid_value_id)i).kind == BRAID_VALUE_PARAMETER;
  braid_graph_destroy(copy);
  return count;
}

/* What trains in a saved model is what trained before, though the file has initializers alone and no modules. */
static void test_trained_again(void **state) {
  (void)state;
  braid_graph *graph = network_with_buffers(), *trained;
  braid_dataset *data = glyphs("train"), *test = glyphs("test");
  char path[160];
  snprintf(path, sizeof path, "%s/again.onnx", folder);
  for (int round = 0; round < 3; round++) {
    braid_train_options options = options_of("again");
    braid_trainer *trainer;
    assert_int_equal(count_trained(graph), 2);
    ok(braid_trainer_create(graph, data, test, &options, &trainer));
    ok(braid_trainer_model(trainer, &trained));
    ok(braid_model_save_onnx(trained, path));
    braid_graph_destroy(trained);
    braid_trainer_destroy(trainer);
    braid_graph_destroy(graph);
    ok(braid_model_load(NULL, path, NULL, &graph));
  }
  braid_dataset_close(data);
  braid_dataset_close(test);
  braid_graph_destroy(graph);
}

int main(void) {
  printf("seed %d\n", kSeed);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_killed_at_the_end),    cmocka_unit_test(test_other_run),
      cmocka_unit_test(test_long_names),           cmocka_unit_test(test_names_that_checkpoints_lack),
      cmocka_unit_test(test_not_finite),           cmocka_unit_test(test_weights_not_finite),
      cmocka_unit_test(test_what_cannot_be_saved), cmocka_unit_test(test_wrong_options),
      cmocka_unit_test(test_trained_again),        cmocka_unit_test(test_export_in_training_mode)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
