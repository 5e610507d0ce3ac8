/* Ledgers: the same bytes by any number of threads and after a run that was killed; hostile and torn ones; what a run
 * refuses to go on with. */
#include "oom.h"
#include "skip.h"
#include "slow.h"
#include "train/ledger/ledger_fixture.h"

enum { kSteps = 30 }; /* 3 epochs of 10 */

static braid_graph *graph;
static char *whole; /* the ledger of a run that nothing disturbed */
static size_t whole_bytes;

static int begin(void **state) {
  if (make_folder(state) != 0) return -1;
  graph = integer_network(true);
  stop_at never = {.after = -1};
  train_model(graph, ledger_options("whole", "whole.ledger"), &never, BRAID_OK);
  whole = text_of(path_of("whole.ledger"), &whole_bytes);
  return 0;
}

static int end(void **state) {
  free(whole);
  braid_graph_destroy(graph);
  return remove_folder(state);
}

static void test_threads(void **state) {
  (void)state;
  skip_if_slow();
  for (int threads = 1; threads <= 3; threads++) {
    char name[32];
    snprintf(name, sizeof name, "threads%d", threads);
    braid_train_options options = ledger_options(name, name);
    options.out_directory = NULL;
    options.threads = threads;
    stop_at never = {.after = -1};
    train_model(graph, options, &never, BRAID_OK);
    expect_same(path_of(name), path_of("whole.ledger"));
  }
}

/* Ledgers of runs that the contract (docs/integer-training.md) and the format (docs/audit.md) decide to the bit. A
 * change of either makes others: then BRAID_INTEGER_CONTRACT or BRAID_LEDGER_VERSION is the next number. */
static void test_known_runs(void **state) {
  (void)state;
  skip_if_slow();
  static const struct {
    const char *name, *chain;
    braid_optimizer optimizer;
    double rate, decay;
    braid_loss loss;
    uint64_t seed;
    int64_t bits[4], batch;
  } kRuns[] = {
      {"sgd", "2f0e38eef6787395", BRAID_SGD, 0.125, 5e-4, BRAID_SQUARED_ERROR, 1, {8, 8, 8, 8}, 32},
      {"hinge", "239ca4e90387a774", BRAID_SGD, 0.25, 0, BRAID_SQUARED_HINGE, 7, {8, 8, 12, 8}, 24},
      {"few-bits", "e35ff4f618cfcb1b", BRAID_SGD, 0.125, 0.01, BRAID_SQUARED_ERROR, 3, {5, 4, 10, 6}, 33},
      {"wage", "02ac9880fb09bff8", BRAID_WAGE, 4, 0, BRAID_SQUARED_ERROR, 2, {8, 8, 10, 8}, 32},
      {"wage-few-bits", "fbf8ed033f9aa6b7", BRAID_WAGE, 8, 0, BRAID_SQUARED_HINGE, 1, {2, 8, 8, 8}, 32},
  };
  for (size_t i = 0; i < sizeof kRuns / sizeof *kRuns; i++) {
    char name[32];
    snprintf(name, sizeof name, "%s.ledger", kRuns[i].name);
    braid_train_options options = ledger_options(kRuns[i].name, name);
    options.out_directory = NULL;
    options.epochs = 2;
    options.optimizer = kRuns[i].optimizer;
    options.learning_rate = kRuns[i].rate;
    options.weight_decay = kRuns[i].decay;
    options.loss = kRuns[i].loss;
    options.seed = kRuns[i].seed;
    options.batch = kRuns[i].batch;
    options.weight_bits = kRuns[i].bits[0];
    options.activation_bits = kRuns[i].bits[1];
    options.gradient_bits = kRuns[i].bits[2];
    options.error_bits = kRuns[i].bits[3];
    stop_at never = {.after = -1};
    train_model(graph, options, &never, BRAID_OK);
    braid_ledger *ledger;
    ok(braid_ledger_open(NULL, path_of(name), &ledger));
    braid_ledger_info info = braid_ledger_get_info(ledger);
    if (strncmp(info.chain, kRuns[i].chain, 16) != 0)
      fail_msg("%s: its chain ends in %.16s after %lld steps, and not in %s", name, info.chain, (long long)info.steps,
               kRuns[i].chain);
    braid_ledger_close(ledger);
  }
}

/* The end of line `number`, from 1. */
static size_t end_of_line(const char *text, size_t number) {
  const char *at = text;
  while (number-- > 0) at = strchr(at, '\n') + 1;
  return (size_t)(at - text);
}

static size_t line_of_step(int64_t step) {
  char mark[32];
  size_t line = 1;
  snprintf(mark, sizeof mark, "\nstep %lld ", (long long)step);
  const char *found = strstr(whole, mark);
  assert_non_null(found);
  for (const char *at = whole; at < found; at++) line += *at == '\n';
  return line + 1;
}

static bool stop_at_14(void *context, const braid_train_progress *progress) {
  (void)context;
  return progress->epoch < 2 || progress->step < 4;
}

/* Until step 14; then what came after the checkpoint of step 12 is removed. */
static void train_past_12(braid_train_options options, const char *name) {
  braid_dataset *data = glyphs("train");
  braid_trainer *trainer;
  char path[160];
  ok(braid_trainer_create(graph, data, NULL, &options, &trainer));
  assert_int_equal(braid_trainer_run(trainer, stop_at_14, NULL), BRAID_CANCELLED);
  braid_trainer_destroy(trainer);
  braid_dataset_close(data);
  snprintf(path, sizeof path, "%s/checkpoint-0000000014.braid", path_of(name));
  assert_int_equal(unlink(path), 0);
}

/* As a run leaves them that was killed at any moment after the checkpoint of step 12: the ledger ends anywhere behind
 * that step's line, within a line, too. */
static void test_resume(void **state) {
  (void)state;
  skip_if_slow();
  size_t least = end_of_line(whole, line_of_step(12));
  const size_t ends[] = {least,
                         least + 1,
                         end_of_line(whole, line_of_step(13)) - 1,
                         least + 9,
                         end_of_line(whole, line_of_step(15)) + 100,
                         whole_bytes};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    char name[32];
    snprintf(name, sizeof name, "killed%zu", i);
    braid_train_options options = ledger_options(name, "killed.ledger");
    unlink(options.ledger);
    train_past_12(options, name);
    put_text(options.ledger, whole, ends[i]);
    options.resume = true;
    options.threads = 1 + (int)i % 3;
    stop_at never = {.after = -1};
    train_model(graph, options, &never, BRAID_OK);
    expect_same(options.ledger, path_of("whole.ledger"));
  }
}

/* Before its first checkpoint, a run begins anew, and so does what it had written of its ledger. */
static void test_resume_from_start(void **state) {
  (void)state;
  size_t start = end_of_line(whole, line_of_step(0));
  for (size_t end = 0; end <= start + 200; end += 97) {
    braid_train_options options = ledger_options("anew", "anew.ledger");
    char command[160];
    snprintf(command, sizeof command, "rm -rf %s", options.out_directory);
    assert_int_equal(system(command), 0);
    put_text(options.ledger, whole, end);
    options.resume = true;
    options.epochs = 3;
    braid_dataset *data = glyphs("train");
    braid_trainer *trainer;
    ok(braid_trainer_create(graph, data, NULL, &options, &trainer));
    braid_trainer_destroy(trainer);
    braid_dataset_close(data);
    size_t bytes;
    char *text = text_of(options.ledger, &bytes);
    assert_int_equal(bytes, start);
    assert_memory_equal(text, whole, start);
    free(text);
  }
}

/* --- what is refused -----------------------------------------------------------------------------------------------
 */
static void expect_refused(braid_train_options options, const char *why) {
  braid_dataset *data = glyphs("train");
  braid_trainer *trainer;
  assert_int_equal(braid_trainer_create(graph, data, NULL, &options, &trainer), BRAID_INVALID_ARGUMENT);
  assert_null(trainer);
  if (!strstr(braid_error_detail(), why)) fail_msg("\"%s\" is not in: %s", why, braid_error_detail());
  braid_dataset_close(data);
}

static void test_refused(void **state) {
  (void)state;
  braid_train_options options = ledger_options("refused", "refused.ledger");
  put_text(options.ledger, whole, whole_bytes);
  expect_refused(options, "a ledger is not overwritten");
  options.resume = true;
  options.seed++;
  expect_refused(options, "line 6: is the ledger of another run");
  options.seed--;
  options.epochs++;
  expect_refused(options, "nor --epochs and --lr");
  size_t bytes;
  char *text = text_of(options.ledger, &bytes);
  assert_int_equal(bytes, whole_bytes); /* as it was */
  free(text);
  options = ledger_options("refused", "refused.ledger");
  options.precision = BRAID_FLOAT32;
  expect_refused(options, "bits of floating point depend on processors");
  /* behind a checkpoint of step 12 */
  unlink(options.ledger);
  options = ledger_options("refused", "refused.ledger");
  train_past_12(options, "refused");
  options.resume = true;
  put_text(options.ledger, whole, end_of_line(whole, line_of_step(11)));
  expect_refused(options, "ends with step 11, and the checkpoint is of step 12");
  unlink(options.ledger);
  expect_refused(options, "there is no such ledger, and the checkpoint is of step 12");
  text = forge(whole);
  char *state_of_12 = strstr(strstr(text, "\nstep 12 "), " state ") + 7;
  *state_of_12 = *state_of_12 == '0' ? '1' : '0';
  char *forged = forge(text);
  put_text(options.ledger, forged, strlen(forged));
  expect_refused(options, "the parameters after step 12 are not those of the checkpoint");
  free(forged);
  free(text);
}

/* --- reading -------------------------------------------------------------------------------------------------------
 */
static braid_status parse_text(const char *text, size_t bytes, braid_ledger **out) {
  char *copy = braid_alloc(NULL, bytes + 1);
  assert_non_null(copy);
  memcpy(copy, text, bytes);
  copy[bytes] = '\0';
  return braid_ledger_parse(NULL, "a ledger", copy, bytes, out);
}

static void test_read(void **state) {
  (void)state;
  braid_ledger *ledger;
  braid_train_options options;
  char *forged = forge(whole);
  assert_string_equal(forged, whole); /* the test's forger makes what the run makes */
  free(forged);
  ok(parse_text(whole, whole_bytes, &ledger));
  braid_ledger_info info = braid_ledger_get_info(ledger);
  assert_string_equal(info.model, "integers");
  assert_int_equal(info.steps, kSteps);
  assert_false(info.torn);
  ok(braid_ledger_options(ledger, &options));
  assert_int_equal(options.batch, 32);
  assert_int_equal(options.epochs, 3);
  assert_int_equal(options.seed, kSeed);
  assert_int_equal(options.gradient_bits, 10);
  assert_true(options.learning_rate == 0.125 && options.draw_weights);
  braid_ledger_close(ledger);
}

/* The first 5 steps, so that each byte can be changed. */
static void test_changed_bytes(void **state) {
  (void)state;
  size_t bytes = end_of_line(whole, line_of_step(5)), model = end_of_line(whole, 1), after = end_of_line(whole, 2);
  char *text = strndup(whole, bytes);
  assert_non_null(text);
  for (size_t i = 0; i < bytes; i++)
    for (int bit = 0; bit < 8; bit += 3) {
      braid_ledger *ledger = NULL;
      text[i] ^= (char)(1 << bit);
      braid_status status = parse_text(text, bytes, &ledger);
      bool hint = i >= model + 7 && i + 1 < after;      /* the model's name, which is not hashed */
      bool torn = i + 1 == bytes && status == BRAID_OK; /* the last line feed: that line is not whole */
      if (status == BRAID_OK && !hint && !torn) fail_msg("a change of byte %zu, bit %d is not seen", i, bit);
      if (status == BRAID_OK && torn) assert_int_equal(braid_ledger_get_info(ledger).steps, 4);
      if (status != BRAID_OK) assert_int_equal(status, BRAID_INVALID_FILE);
      braid_ledger_close(ledger);
      text[i] ^= (char)(1 << bit);
    }
  free(text);
}

static void test_truncated(void **state) {
  (void)state;
  size_t start = end_of_line(whole, line_of_step(0));
  for (size_t bytes = 0; bytes < whole_bytes; bytes += 1 + bytes % 7) {
    braid_ledger *ledger = NULL;
    braid_status status = parse_text(whole, bytes, &ledger);
    assert_int_equal(status, bytes < start ? BRAID_INVALID_FILE : BRAID_OK);
    if (status == BRAID_OK) assert_int_equal(braid_ledger_get_info(ledger).torn, whole[bytes - 1] != '\n');
    braid_ledger_close(ledger);
  }
}

static void test_hostile(void **state) {
  (void)state;
  static const struct {
    const char *text, *why;
  } kCases[] = {{"", "is not a ledger"},
                {"step 0 parameters  state 0 chain 0\n", "is not a ledger"},
                {"\x7f"
                 "ELF\nstep 1\n",
                 "is not a ledger"},
                {"braid ledger 2\nx: y\nstep 0\n", "version 2, this Braid reads version 1"},
                {"braid ledger 1\nx\nstep 0\n", "line 2: a setting"},
                {"braid ledger 1\nmodel: a\nmodel: b\nstep 0\n", "line 3: the model is named twice"},
                {"braid ledger 1\nx: y\n", "ends within its head"},
                {"braid ledger 1\nx: y\nstep 0 chain 12\n", "line 3: does not end with"}};
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    braid_ledger *ledger;
    assert_int_equal(parse_text(kCases[i].text, strlen(kCases[i].text), &ledger), BRAID_INVALID_FILE);
    if (!strstr(braid_error_detail(), kCases[i].why)) fail_msg("%s: %s", kCases[i].why, braid_error_detail());
    assert_null(ledger);
  }
  /* numbers of a line that is chained anew, of which a terminal would obey some */
  static const char *const kNumbers[] = {" rate 0.125", " rate \x1b[2J;", " rate nanny", " loss ", " loss \x1b", NULL};
  for (size_t i = 0; kNumbers[i]; i++) {
    char *text = strdup(whole), *at = strstr(strstr(text, "\nstep 1 "), i < 3 ? " rate " : " loss ");
    memcpy(at, kNumbers[i], strlen(kNumbers[i]));
    char *forged = forge(text);
    braid_ledger *ledger;
    bool right = i == 0 || i == 3;
    assert_int_equal(parse_text(forged, strlen(forged), &ledger), right ? BRAID_OK : BRAID_INVALID_FILE);
    if (!right) assert_non_null(strstr(braid_error_detail(), "is not the line of a step"));
    braid_ledger_close(ledger);
    free(forged);
    free(text);
  }
}

/* Settings that no training could have, in a head that is chained anew. */
static void test_hostile_settings(void **state) {
  (void)state;
  static const struct {
    const char *was, *is, *why;
  } kCases[] = {{"batch: 32\n", "batch: 0\n", "line 4: a number from 1"},
                {"batch: 32\n", "batch: 99999999999999999999\n", "line 4: a number from 1"},
                {"batch: 32\n", "", "has no line \"batch: ...\""},
                {"seed: 7\n", "seed: -7\n", "a number from 0"},
                {"10/8\nfirst", "10\nfirst", "four numbers"},
                {"10/8\nfirst", "99/8\nfirst", "gradients have 8 to 16 bits"},
                {"first learning rate: 0.125\n", "first learning rate: 3\n", "power of two"},
                {"first learning rate: 0.125\n", "first learning rate: nan\n", "a number is expected"},
                {"optimizer: sgd\n", "optimizer: adam\n", "sgd or wage is expected"},
                {"optimizer: sgd\n", "", "has no line \"optimizer: ...\""},
                {"weight decay: ", "weight decay: x", "a number is expected"},
                {"weight decay: ", "weight decay: -", "the weight decay must be at least 0"}};
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    const char *at = strstr(whole, kCases[i].was);
    assert_non_null(at);
    char *changed, *forged;
    assert_true(asprintf(&changed, "%.*s%s%s", (int)(at - whole), whole, kCases[i].is, at + strlen(kCases[i].was)) > 0);
    forged = forge(changed);
    braid_ledger *ledger;
    braid_train_options options;
    ok(parse_text(forged, strlen(forged), &ledger));
    assert_int_equal(braid_ledger_options(ledger, &options), BRAID_INVALID_FILE);
    if (!strstr(braid_error_detail(), kCases[i].why)) fail_msg("%s: %s", kCases[i].why, braid_error_detail());
    braid_ledger_close(ledger);
    free(forged);
    free(changed);
  }
}

static braid_status read_ledger(const braid_allocator *allocator, void *context) {
  (void)context;
  braid_ledger *ledger;
  braid_train_options options;
  braid_status status = braid_ledger_open(allocator, path_of("whole.ledger"), &ledger);
  if (status == BRAID_OK) status = braid_ledger_options(ledger, &options);
  braid_ledger_close(ledger);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  assert_true(oom_sweep(read_ledger, NULL) > 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_threads),           cmocka_unit_test(test_known_runs),    cmocka_unit_test(test_resume),
      cmocka_unit_test(test_resume_from_start), cmocka_unit_test(test_refused),       cmocka_unit_test(test_read),
      cmocka_unit_test(test_changed_bytes),     cmocka_unit_test(test_truncated),     cmocka_unit_test(test_hostile),
      cmocka_unit_test(test_hostile_settings),  cmocka_unit_test(test_out_of_memory),
  };
  return skip_run_group_tests(tests, begin, end);
}
