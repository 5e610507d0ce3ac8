/* Training in several processes, whose place threads take here: in integers the same ledger, parameters and momenta as
 * one process, whatever their number, also where one number goes on from another's checkpoint; in floating point the
 * same bits in all of them and in every run, and numbers near those of one. What cannot be trained together is refused,
 * and a failure of one is that of all. tests/cli_group_test.c has the same of processes. */
#include "device/group/thread_group.h"
#include "train/ledger/ledger_fixture.h"
#include "train/parallel/peers.h"

/* One training, and what each member found. */
typedef struct training {
  const braid_graph *model;
  braid_train_options options;
  int64_t stop_after; /* 0: never */
  const char *data;   /* of the training set; NULL: glyphs */
  int odd_rank;       /* this member has other options; -1: none */
  braid_train_options odd;
  bool tampered; /* the parameters of the last member */
  bool aside;    /* a thread writes what is kept */
  bool holes;    /* the data are the program's, and one sample cannot be read */
  braid_status status[kMostThreads];
  char detail[kMostThreads][256];
  uint64_t bits[kMostThreads];
  double loss, accuracy;
  int64_t collectives;
} training;

static bool count_steps(void *context, const braid_train_progress *progress) {
  training *t = context;
  if (!thread_rank) t->loss = progress->loss, t->accuracy = progress->accuracy;
  return !t->stop_after || progress->step < t->stop_after;
}

static int64_t collectives_of(const braid_trainer *trainer) {
  int64_t count = 0;
  for (size_t i = 0; i < trainer->step->node_count; i++)
    count += strcmp(trainer->step->nodes[i].op->name, "AllReduce") == 0;
  return count;
}

static braid_status tamper(braid_trainer *trainer) {
  braid_value_id id = braid_graph_find_value(trainer->step, "bias");
  braid_tensor *tensor;
  braid_status status = braid_tensor_create(NULL, &trainer->step->values[id].desc, &tensor);
  if (status != BRAID_OK) return status;
  status = braid_session_read(trainer->session, "bias", tensor);
  ((float *)braid_tensor_data(tensor))[0] += 1e-3f;
  if (status == BRAID_OK) status = braid_session_write(trainer->session, "bias", tensor);
  braid_tensor_release(tensor);
  return status;
}

/* Pictures of noise; whoever has sample 200 in his slice cannot read it then, though it was there for the checksum. */
static braid_status read_holes(void *context, int64_t index, float *pixels, int32_t *label) {
  char thread[16] = "";
  (void)context;
  (void)pthread_getname_np(pthread_self(), thread, sizeof thread);
  if (index == 200 && strcmp(thread, "braid loader") == 0) return braid_fail(BRAID_IO, "it is torn");
  for (int64_t i = 0; i < 3072; i++) pixels[i] = braid_random_normal(kSeed, 0, 77, (uint64_t)(index * 3072 + i));
  *label = (int32_t)(index % kClasses);
  return BRAID_OK;
}

static braid_status open_data(const training *t, braid_dataset **out) {
  static const braid_dataset_source kHoles = {.name = "holes",
                                              .samples = 320,
                                              .channels = 3,
                                              .height = 32,
                                              .width = 32,
                                              .classes = kClasses,
                                              .read = read_holes};
  if (t->holes) return braid_dataset_create(NULL, &kHoles, NULL, out);
  return braid_dataset_open(NULL, t->data ? t->data : "builtin:glyphs,limit=320,augment=crop+flip,seed=3", "train",
                            out);
}

static int train_member(braid_group *group, void *context) {
  training *t = context;
  int rank = thread_rank;
  braid_registry *own = open_test_registry(NULL, NULL);
  braid_train_options options = rank == t->odd_rank ? t->odd : t->options;
  braid_dataset *data = NULL;
  braid_trainer *trainer = NULL;
  if (!own) return __LINE__;
  if (group) braid_registry_set_group(own, group);
  options.registry = own;
  options.devices = "cpu:threads=1";
  braid_status status = open_data(t, &data);
  if (status == BRAID_OK) status = braid_trainer_create(t->model, data, NULL, &options, &trainer);
  if (status == BRAID_OK && t->aside) trainer->aside_bytes = 0;
  if (status == BRAID_OK && t->tampered && rank && rank == braid_group_size(group) - 1) status = tamper(trainer);
  if (status == BRAID_OK) status = braid_trainer_run(trainer, count_steps, t);
  t->status[rank] = status;
  snprintf(t->detail[rank], sizeof t->detail[rank], "%s", status == BRAID_OK ? "" : braid_error_detail());
  if (trainer) t->bits[rank] = bits_of(trainer);
  if (trainer && !rank) t->collectives = collectives_of(trainer);
  braid_trainer_destroy(trainer);
  if (data) braid_dataset_close(data);
  braid_registry_destroy(own);
  return 0;
}

static void run_training(training *t, int size) {
  int line = thread_world_run(size, train_member, t);
  if (line) fail_msg("line %d", line);
}

static training training_of(const braid_graph *model, braid_train_options options) {
  return (training){.model = model, .options = options, .odd_rank = -1};
}

/* All members ended well, with the same bits. */
static uint64_t expect_trained(const training *t, int size) {
  for (int r = 0; r < size; r++) {
    if (t->status[r] != BRAID_OK) fail_msg("member %d of %d: %s", r, size, t->detail[r]);
    if (t->bits[r] != t->bits[0]) fail_msg("member %d of %d has other bits", r, size);
  }
  return t->bits[0];
}

static void expect_refused(const training *t, int size, braid_status status, const char *words) {
  for (int r = 0; r < size; r++) {
    assert_int_equal(t->status[r], status);
    if (!strstr(t->detail[r], words)) fail_msg("member %d: \"%s\" is not in: %s", r, words, t->detail[r]);
  }
}

/* --- integers ------------------------------------------------------------------------------------------------------
 */
static void expect_equal_ledgers(bool norms, braid_optimizer rule) {
  braid_graph *model = integer_network(norms);
  uint64_t bits = 0;
  double accuracy = 0;
  for (int size = 1; size <= 4; size++) {
    char out[32], ledger[32];
    snprintf(out, sizeof out, "of%d-%d%d", size, norms, rule);
    snprintf(ledger, sizeof ledger, "of%d-%d%d.ledger", size, norms, rule);
    braid_train_options options = ledger_options(out, ledger);
    options.optimizer = rule;
    options.learning_rate = rule == BRAID_WAGE ? 8 : 0.125;
    options.batch = 30; /* 4 do not divide it */
    options.epochs = 2;
    options.label_noise = 0.1;
    training t = training_of(model, options);
    t.aside = norms;
    run_training(&t, size);
    uint64_t found = expect_trained(&t, size);
    if (size == 1) bits = found, accuracy = t.accuracy;
    assert_true(found == bits && t.accuracy == accuracy && accuracy > 0);
    assert_true((t.collectives > 0) == (size > 1));
    char whole[32];
    snprintf(whole, sizeof whole, "of1-%d%d.ledger", norms, rule);
    expect_same(path_of(whole), path_of(ledger));
  }
  braid_graph_destroy(model);
}

static void test_ledgers(void **state) {
  (void)state;
  expect_equal_ledgers(true, BRAID_SGD);
  expect_equal_ledgers(false, BRAID_WAGE);
}

/* A slice's gradient fits 32 bits, the batch's does not: 256 * 32 * 32 products. */
static void test_wide_sums(void **state) {
  (void)state;
  braid_graph *model;
  ok(braid_graph_create(NULL, "wide", &model));
  braid_value_id x;
  ok(braid_graph_add_input(model, "image", &(braid_desc){.dtype = BRAID_F32, .rank = 4, .dims = {-1, 3, 32, 32}}, &x));
  x = window(model, "Conv", x, constant(model, "first", 4, (int64_t[]){4, 3, 3, 3}, 0.2f, 0), 3, 1, 1);
  x = node(model, "Relu", &x, 1, NULL);
  x = window(model, "MaxPool", x, -1, 8, 8, 0);
  x = node(model, "Flatten", &x, 1, NULL);
  x = node(model, "MatMul", (braid_value_id[]){x, constant(model, "last", 2, (int64_t[]){64, kClasses}, 0.1f, 0)}, 2,
           NULL);
  ok(braid_graph_add_output(model, x));
  /* Of 261 samples one member's 130 fit into 32 bits and the other's 131 do not. */
  static const int64_t kBatches[] = {160, 261};
  for (int k = 0; k < 2; k++) {
    uint64_t bits[2];
    for (int i = 0; i < 2; i++) {
      static const char *const kNames[2][2] = {{"wide1", "wide2"}, {"odd1", "odd2"}};
      braid_train_options options = integer_options(kNames[k][i]);
      options.batch = kBatches[k];
      training t = training_of(model, options);
      run_training(&t, i + 1);
      bits[i] = expect_trained(&t, i + 1);
    }
    assert_true(bits[0] == bits[1]);
  }
  braid_graph_destroy(model);
}

/* Stopped with two members, ended with three. */
static void test_resumed(void **state) {
  (void)state;
  braid_graph *model = integer_network(true);
  braid_train_options options = ledger_options("alone", "alone.ledger");
  training whole = training_of(model, options);
  run_training(&whole, 1);
  uint64_t bits = expect_trained(&whole, 1);
  options = ledger_options("parts", "parts.ledger");
  training first = training_of(model, options);
  first.stop_after = 5;
  run_training(&first, 2);
  expect_refused(&first, 2, BRAID_CANCELLED, "stopped after epoch 1, step 6"); /* as all had agreed on step 6 */
  options = ledger_options("parts", "parts.ledger");
  options.resume = true;
  training rest = training_of(model, options);
  run_training(&rest, 3);
  assert_true(expect_trained(&rest, 3) == bits);
  expect_same(path_of("alone.ledger"), path_of("parts.ledger"));
  braid_graph_destroy(model);
}

/* --- floating point ------------------------------------------------------------------------------------------------
 */
typedef void change_options(braid_train_options *options);

static void keep_options(braid_train_options *options) {
  (void)options;
}

static void mix(braid_train_options *options) {
  options->mixup = 0.4;
  options->optimizer = BRAID_ADAMW;
  options->learning_rate = 1e-3;
}

static void accumulate(braid_train_options *options) {
  options->batch = 16;
  options->accumulate = 2;
  options->clip_norm = 1;
  options->clip_value = 0.5;
  options->average_decay = 0.9;
}

static void halve(braid_train_options *options) {
  options->precision = BRAID_FLOAT16;
}

static void test_floats(void **state) {
  (void)state;
  static change_options *const kChanges[] = {keep_options, mix, accumulate, halve};
  braid_graph *model = network(); /* with a normalization and a dropout */
  for (size_t i = 0; i < sizeof kChanges / sizeof *kChanges; i++) {
    double losses[4];
    uint64_t bits[4] = {0};
    static const int kSizes[] = {1, 2, 2, 3};
    for (int k = 0; k < 4; k++) {
      char name[32];
      snprintf(name, sizeof name, "float%zu-%d", i, k);
      braid_train_options options = options_of(name);
      kChanges[i](&options);
      training t = training_of(model, options);
      run_training(&t, kSizes[k]);
      bits[k] = expect_trained(&t, kSizes[k]);
      losses[k] = t.loss;
    }
    assert_true(bits[1] == bits[2]);
    for (int k = 1; k < 4; k++)
      if (!(fabs(losses[k] - losses[0]) < 0.05 * losses[0]))
        fail_msg("change %zu: losses %g of one, %g of %d", i, losses[0], losses[k], kSizes[k]);
  }
  braid_graph_destroy(model);
}

/* Without a normalization the mean over all is what one process computes, but for rounding; with dropout and mixup. */
static void test_same_means(void **state) {
  (void)state;
  braid_graph *model;
  braid_value_id x;
  ok(braid_graph_create(NULL, "plain", &model));
  ok(braid_graph_add_input(model, "image", &(braid_desc){.dtype = BRAID_F32, .rank = 4, .dims = {-1, 3, 32, 32}}, &x));
  x = node(model, "Flatten", &x, 1, NULL);
  x = node(model, "MatMul", (braid_value_id[]){x, constant(model, "one", 2, (int64_t[]){3072, 32}, 0.02f, 0)}, 2, NULL);
  x = node(model, "Relu", &x, 1, NULL);
  x = node(model, "Dropout", &x, 1, NULL);
  x = node(model, "MatMul", (braid_value_id[]){x, constant(model, "two", 2, (int64_t[]){32, kClasses}, 0.1f, 0)}, 2,
           NULL);
  ok(braid_graph_add_output(model, x));
  double losses[3];
  for (int size = 1; size <= 3; size++) {
    braid_train_options options = options_of(size == 1 ? "means1" : size == 2 ? "means2" : "means3");
    options.mixup = 0.4;
    options.batch = 31;
    training t = training_of(model, options);
    run_training(&t, size);
    expect_trained(&t, size);
    losses[size - 1] = t.loss;
  }
  assert_true(fabs(losses[1] - losses[0]) < 1e-4 && fabs(losses[2] - losses[0]) < 1e-4);
  braid_graph_destroy(model);
}

/* --- failures ------------------------------------------------------------------------------------------------------
 */
static void test_refused(void **state) {
  (void)state;
  braid_graph *model = network();
  braid_train_options options = options_of("refused");
  options.batch = 2;
  training few = training_of(model, options);
  run_training(&few, 3);
  expect_refused(&few, 3, BRAID_INVALID_ARGUMENT, "each needs a sample");
  options = options_of("refused");
  options.balance_classes = true;
  training weighted = training_of(model, options);
  run_training(&weighted, 2);
  expect_refused(&weighted, 2, BRAID_UNSUPPORTED, "class weights");
  training other = training_of(model, options_of("refused"));
  other.odd_rank = 1;
  other.odd = other.options;
  other.odd.weight_decay = 0.5;
  run_training(&other, 2);
  expect_refused(&other, 2, BRAID_INVALID_ARGUMENT, "process 1: it trains with \"weight decay: 0.5\"");
  other.odd = other.options;
  other.odd.batch = -1;
  run_training(&other, 2);
  expect_refused(&other, 2, BRAID_INVALID_ARGUMENT, "process 1: ");
  braid_graph_destroy(model);
}

/* Parameters that differ are found at the end of the epoch. */
static void test_divergence(void **state) {
  (void)state;
  braid_graph *model = network();
  for (int aside = 0; aside < 2; aside++) {
    training t = training_of(model, options_of(aside ? "divergence-aside" : "divergence"));
    t.tampered = true;
    t.aside = aside != 0;
    run_training(&t, 2);
    expect_refused(&t, 2, BRAID_INTERNAL, "parameters of the processes are not the same");
  }
  braid_graph_destroy(model);
}

/* A loss that is not finite is explained, by all in the same words. */
static void test_not_finite(void **state) {
  (void)state;
  braid_graph *model = network();
  braid_train_options options = options_of("finite");
  options.learning_rate = 1e30;
  training t = training_of(model, options);
  run_training(&t, 2);
  expect_refused(&t, 2, BRAID_NOT_FINITE, "epoch 1, step");
  assert_string_equal(t.detail[0], t.detail[1]);
  braid_graph_destroy(model);
}

/* What one cannot read ends all before the step that it is for, in the same words; what was trained is kept. */
static void test_unreadable(void **state) {
  (void)state;
  braid_graph *model = network();
  braid_train_options options = options_of("holes");
  training t = training_of(model, options);
  t.holes = true;
  run_training(&t, 3);
  expect_refused(&t, 3, BRAID_IO, "holes: sample 200: it is torn");
  assert_non_null(strstr(t.detail[0], "; a checkpoint of what was trained before is in"));
  assert_true(t.bits[0] == t.bits[1] && t.bits[1] == t.bits[2]);
  braid_graph_destroy(model);
}

/* Told to stop while a step of several batches goes on, all end behind a whole step. */
static void test_resumed_parts(void **state) {
  (void)state;
  braid_graph *model = network();
  uint64_t bits[2];
  for (int stops = 0; stops < 2; stops++) {
    braid_train_options options = options_of(stops ? "parts" : "whole parts");
    options.batch = 16;
    options.accumulate = 2;
    training trained = training_of(model, options);
    if (stops) {
      trained.stop_after = 5;
      run_training(&trained, 2);
      options.resume = true;
      trained = training_of(model, options);
    }
    run_training(&trained, 2);
    bits[stops] = expect_trained(&trained, 2);
  }
  assert_true(bits[0] == bits[1]);
  braid_graph_destroy(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_ledgers),    cmocka_unit_test(test_wide_sums),
                                     cmocka_unit_test(test_resumed),    cmocka_unit_test(test_floats),
                                     cmocka_unit_test(test_same_means), cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_divergence), cmocka_unit_test(test_not_finite),
                                     cmocka_unit_test(test_unreadable), cmocka_unit_test(test_resumed_parts)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
