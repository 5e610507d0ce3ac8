/* A run that was stopped and resumed ends with the same bits as one that never was. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

#include "braid/allocator.h"
#include "train/checkpoint/aside.h"
#include "train/data/dataset.h"
#include "train/trainer_fixture.h"

static void test_resume(void **state) {
  (void)state;
  for (int optimizer = BRAID_SGD; optimizer <= BRAID_ADAMW; optimizer++) {
    char whole[32], parts[32];
    snprintf(whole, sizeof whole, "whole-%d", optimizer);
    snprintf(parts, sizeof parts, "parts-%d", optimizer);
    braid_train_options options = options_of(whole);
    options.optimizer = (braid_optimizer)optimizer;
    options.learning_rate = optimizer == BRAID_SGD ? 0.05 : 0.002;
    options.threads = 2;
    stop_at never = {.after = -1}, here = {.after = 7}, there = {.after = 9};
    uint64_t bits = train(options, &never, BRAID_OK);
    assert_true(never.last_loss < never.first_loss);
    braid_train_options again = options_of(parts);
    again.optimizer = options.optimizer;
    again.learning_rate = options.learning_rate;
    again.resume = true;
    again.threads = options.threads;
    train(again, &here, BRAID_CANCELLED);
    train(again, &there, BRAID_CANCELLED);
    never = (stop_at){.after = -1};
    assert_true(train(again, &never, BRAID_OK) == bits);
  }
}

/* Ten batches an epoch are three steps of three; the tenth is passed over. */
static braid_train_options options_with_everything(const char *name) {
  static const braid_parameter_group kGroups[] = {{"w", 0, NAN}, {"f*", 0.5, 0.01}};
  braid_train_options options = options_of(name);
  options.accumulate = 3;
  options.clip_norm = 0.5;
  options.clip_value = 0.2;
  options.average_decay = 0.75;
  options.no_bias_decay = true;
  options.mixup = 0.4;
  options.label_noise = 0.1;
  options.groups = kGroups;
  options.group_count = 2;
  return options;
}

static char *read_output(const char *name, const char *output, long *bytes) {
  char path[160];
  snprintf(path, sizeof path, "%s/%s/%s", folder, name, output);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  *bytes = ftell(file);
  rewind(file);
  char *data = malloc((size_t)*bytes);
  assert_non_null(data);
  assert_int_equal(fread(data, 1, (size_t)*bytes, file), (size_t)*bytes);
  fclose(file);
  return data;
}

/* A number of steps that ends within the second epoch: stopped at any place, its bits are those of a run that was not,
 * the last epoch is short, and tested; a run that is over does nothing more. */
static void test_steps(void **state) {
  (void)state;
  enum {
    kSteps = 14,
    kCalls = kSteps + 2 * 10
  }; /* each test is of ten batches; the end of an epoch is a step's call */
  stop_at never = {.after = -1};
  braid_train_options options = options_of("steps");
  options.schedule = BRAID_LINEAR;
  options.steps = kSteps;
  options.lookahead_steps = 3;
  uint64_t bits = train(options, &never, BRAID_OK);
  assert_int_equal(never.seen, kCalls);
  assert_int_equal(never.last.epoch, 2);
  assert_int_equal(never.last.epochs, 2);
  assert_int_equal(never.last.step, 4);
  assert_int_equal(never.last.steps, 4);
  assert_true(never.last.epoch_done && never.last.test_loss > 0);
  assert_true(fabs(never.last.learning_rate - options.learning_rate / kSteps) < 1e-9);
  long bytes; /* it is of the steps done, not of those that whole epochs would have */
  free(read_output("steps", "checkpoint-0000000014.braid", &bytes));
  for (int after = 1; after < kCalls; after += 3) {
    char name[32];
    snprintf(name, sizeof name, "steps-%d", after);
    stop_at here = {.after = after}, rest = {.after = -1}, over = {.after = -1};
    options = options_of(name);
    options.schedule = BRAID_LINEAR;
    options.steps = kSteps;
    options.lookahead_steps = 3;
    options.resume = true;
    train(options, &here, BRAID_CANCELLED);
    assert_true(train(options, &rest, BRAID_OK) == bits);
    assert_int_equal(rest.last.step, 4);
    assert_true(train(options, &over, BRAID_OK) == bits);
    assert_int_equal(over.seen, 0);
  }
  braid_train_options other = options_of("steps");
  other.schedule = BRAID_LINEAR;
  other.steps = kSteps + 1;
  other.lookahead_steps = 3;
  other.resume = true;
  braid_graph *graph = network();
  braid_dataset *data = glyphs("train");
  braid_trainer *trainer;
  assert_int_equal(braid_trainer_create(graph, data, NULL, &other, &trainer), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "number of steps was 14, is 15"));
  braid_dataset_close(data);
  braid_graph_destroy(graph);
}

/* Stopped at every second place: within epochs, and while the average is tested. */
static void test_resume_with_everything(void **state) {
  (void)state;
  stop_at never = {.after = -1};
  uint64_t bits = train(options_with_everything("all"), &never, BRAID_OK);
  assert_true(never.seen >= 2 * 3 + 2);
  long bytes, other;
  char *whole = read_output("all", "model.onnx", &bytes);
  for (int after = 1; after < never.seen; after += 2) {
    char name[32];
    snprintf(name, sizeof name, "all-%d", after);
    stop_at here = {.after = after}, rest = {.after = -1};
    braid_train_options options = options_with_everything(name);
    options.resume = true;
    options.threads = 1 + after % 2;
    train(options, &here, BRAID_CANCELLED);
    assert_true(train(options, &rest, BRAID_OK) == bits);
    char *parts = read_output(name, "model.onnx", &other);
    assert_int_equal(other, bytes);
    assert_memory_equal(parts, whole, (size_t)bytes);
    free(parts);
  }
  free(whole);
}

/* What a thread writes while training goes on: stopped anywhere, a run has the bits of one that writes everything at
 * once, and leaves the same files. */
static void test_written_aside(void **state) {
  (void)state;
  static const char kLast[] = "checkpoint-0000000006.braid";
  stop_at never = {.after = -1};
  long bytes, other;
  uint64_t bits = train(options_with_everything("at-once"), &never, BRAID_OK);
  aside_bytes = 0;
  for (int after = 1; after <= never.seen; after++) {
    char name[32];
    snprintf(name, sizeof name, "aside-%d", after);
    stop_at here = {.after = after}, rest = {.after = -1};
    braid_train_options options = options_with_everything(name);
    options.resume = true;
    if (after < never.seen) train(options, &here, BRAID_CANCELLED);
    assert_true(train(options, &rest, BRAID_OK) == bits);
    for (int file = 0; file < 2; file++) {
      char *expected = read_output("at-once", file ? kLast : "model.onnx", &bytes);
      char *found = read_output(name, file ? kLast : "model.onnx", &other);
      assert_int_equal(other, bytes);
      if (!file) assert_memory_equal(found, expected, (size_t)bytes); /* checkpoints have seconds in them */
      free(expected);
      free(found);
    }
  }
  aside_bytes = SIZE_MAX;
}

/* The heap, slow once for each thread that writes: epochs end while it does. */
static void *allocate_slowly(void *context, size_t bytes, size_t alignment) {
  static _Thread_local bool known;
  char name[16] = "";
  (void)context;
  if (!known) (void)pthread_getname_np(pthread_self(), name, sizeof name);
  known = true;
  if (strcmp(name, "braid keeps") == 0) nanosleep(&(struct timespec){0, 700000000}, NULL);
  return braid_allocator_default()->allocate(braid_allocator_default()->context, bytes, alignment);
}

static void release(void *context, void *pointer) {
  (void)context;
  braid_allocator_default()->release(braid_allocator_default()->context, pointer);
}

/* Epochs that end meanwhile are not written; what is there at the end, or where it was stopped, is that of the end. */
static void test_slow_disk(void **state) {
  (void)state;
  static const braid_allocator kSlow = {NULL, allocate_slowly, release};
  static const char *const kNames[] = {"quick", "slow"}, kOutputs[][32] = {"model.onnx", "checkpoint-0000000040.braid"};
  for (int stopped = 0; stopped < 2; stopped++) {
    char names[2][32];
    for (int slow = 0; slow < 2; slow++) {
      snprintf(names[slow], sizeof names[slow], "%s-disk-%d", kNames[slow], stopped);
      braid_train_options options = options_of(names[slow]);
      options.epochs = stopped ? 9 : 4;
      stop_at place = {.after = stopped ? 40 : -1};
      aside_bytes = slow ? 0 : SIZE_MAX;
      graph_allocator = slow ? &kSlow : NULL;
      if (stopped) {
        braid_graph *graph = network(); /* without a test, so that every tenth call is the end of an epoch */
        train_with(graph, false, options, &place, BRAID_CANCELLED);
        braid_graph_destroy(graph);
      } else {
        train(options, &place, BRAID_OK);
      }
    }
    for (int i = 0; i < 2; i++) {
      long bytes, other;
      char *expected = read_output(names[0], kOutputs[i], &bytes), *found = read_output(names[1], kOutputs[i], &other);
      assert_int_equal(other, bytes);
      if (!i) assert_memory_equal(found, expected, (size_t)bytes);
      free(expected);
      free(found);
    }
  }
  aside_bytes = SIZE_MAX;
  graph_allocator = NULL;
}

/* A folder that is gone in the middle: training goes on, and the run says so at its end. */
static bool remove_output(void *context, const braid_train_progress *progress) {
  char path[160], other[200];
  (void)context, (void)progress;
  snprintf(path, sizeof path, "%s/gone", folder);
  snprintf(other, sizeof other, "%s/gone-%lld-%lld", folder, (long long)progress->epoch, (long long)progress->step);
  if (progress->epoch == 2) (void)rename(path, other);
  return true;
}

static void test_lost_aside(void **state) {
  (void)state;
  braid_graph *graph = network();
  braid_dataset *data = glyphs("train");
  braid_trainer *trainer;
  braid_train_options options = options_of("gone");
  options.epochs = 3;
  ok(braid_trainer_create(graph, data, NULL, &options, &trainer));
  trainer->aside_bytes = 0;
  assert_int_equal(braid_trainer_run(trainer, remove_output, NULL), BRAID_IO);
  assert_non_null(strstr(braid_error_detail(), "/gone/"));
  braid_trainer_destroy(trainer);
  braid_dataset_close(data);
  braid_graph_destroy(graph);
}

/* The same, but it is back before the end, once the thread has found it gone: then everything is written once more. */
static bool hide_output(void *context, const braid_train_progress *progress) {
  char path[160], other[200];
  (void)context;
  snprintf(path, sizeof path, "%s/hidden", folder);
  snprintf(other, sizeof other, "%s/elsewhere", folder);
  if (progress->epoch == 2 && progress->step == 1) (void)rename(path, other);
  if (progress->epoch < 2 || !progress->epoch_done) return true;
  nanosleep(&(struct timespec){0, 300000000}, NULL);
  (void)rename(other, path);
  return true;
}

static void test_hidden_aside(void **state) {
  (void)state;
  stop_at never = {.after = -1};
  long bytes, other;
  train(options_of("seen"), &never, BRAID_OK);
  braid_graph *graph = network();
  braid_dataset *data = glyphs("train");
  braid_trainer *trainer;
  braid_train_options options = options_of("hidden");
  ok(braid_trainer_create(graph, data, NULL, &options, &trainer));
  trainer->aside_bytes = 0;
  assert_int_equal(braid_trainer_run(trainer, hide_output, NULL), BRAID_IO); /* as something was lost */
  braid_trainer_destroy(trainer);
  braid_dataset_close(data);
  braid_graph_destroy(graph);
  char *expected = read_output("seen", "model.onnx", &bytes), *found = read_output("hidden", "model.onnx", &other);
  assert_int_equal(other, bytes);
  assert_memory_equal(found, expected, (size_t)bytes);
  free(expected);
  free(found);
}

/* --- a full disk ----------------------------------------------------------------------------------------------------
 */
static char told[8192];

static void listen(void *context, braid_log_level level, const char *message) {
  (void)context, (void)level;
  snprintf(told + strlen(told), sizeof told - strlen(told), "%s\n", message);
}

static void limit_files(rlim_t bytes) {
  struct rlimit limit;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
  limit.rlim_cur = bytes;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* From the second epoch on no file has room for more than a little. `context` is the trainer. */
static bool fill_disk(void *context, const braid_train_progress *progress) {
  if (progress->epoch < 2) return true;
  while (progress->epoch == 2 && progress->step == 1 && braid_aside_is_busy(context)) /* with the first epoch */
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  limit_files(2048);
  return true;
}

/* In a line that ends with `end`. */
static void expect_told_once(const char *text, const char *end) {
  const char *at = strstr(told, text);
  if (!at || strstr(at + 1, text)) fail_msg("\"%s\" is not once in: %s", text, told);
  const char *line_end = strchr(at, '\n');
  if (memcmp(line_end - strlen(end), end, strlen(end)) != 0)
    fail_msg("\"%s\" does not end with \"%s\": %s", text, end, told);
}

static void expect_no_part(const char *name) {
  char path[160];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  DIR *all = opendir(path);
  assert_non_null(all);
  for (struct dirent *entry; (entry = readdir(all));)
    if (strstr(entry->d_name, ".tmp-")) fail_msg("%s is left", entry->d_name);
  closedir(all);
}

/* Each failure is told once, of the epoch that it is of, and nothing goes on after the last step. What a thread writes
 * is judged when it has ended: of the second epoch maybe before the third one's end, maybe after it. */
static void test_full_disk(void **state) {
  (void)state;
  static const char kReason[] = "cannot write: File too large", kGoesOn[] = "File too large; training goes on";
  struct rlimit all;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
  signal(SIGXFSZ, SIG_IGN);
  braid_registry_set_log(registry, &(braid_log){listen, NULL});
  for (int aside = 0; aside < 2; aside++) {
    braid_graph *graph = network();
    braid_dataset *data = glyphs("train");
    braid_trainer *trainer;
    braid_train_options options = options_of(aside ? "full-aside" : "full");
    options.epochs = 3;
    ok(braid_trainer_create(graph, data, NULL, &options, &trainer));
    trainer->aside_bytes = aside ? 0 : SIZE_MAX;
    told[0] = 0;
    braid_status status = braid_trainer_run(trainer, fill_disk, trainer);
    limit_files(all.rlim_cur);
    assert_int_equal(status, BRAID_IO);
    assert_non_null(strstr(braid_error_detail(), "trained to the end, but not all went well: epoch 2: "));
    braid_trainer_destroy(trainer);
    expect_told_once("epoch 2: the checkpoint was not written: ", aside ? "" : kGoesOn);
    if (!aside) expect_told_once("epoch 2: the model was not written: ", kGoesOn);
    expect_told_once("epoch 2: the report was not written: ", kGoesOn);
    expect_told_once("epoch 3: the checkpoint was not written: ", kReason);
    expect_told_once("epoch 3: the model was not written: ", kReason);
    expect_told_once("epoch 3: the report was not written: ", kReason);
    expect_told_once("checkpoint-0000000020.braid", "");
    expect_told_once("checkpoint-0000000030.braid", "");
    expect_no_part(aside ? "full-aside" : "full");
    braid_dataset_close(data);
    braid_graph_destroy(graph);
  }
  braid_registry_set_log(registry, NULL);
}

static braid_train_options options_with_monitor(const char *name) {
  braid_train_options options = options_of(name);
  options.batch = 80;
  options.epochs = 40;
  options.learning_rate = 0.3;
  options.schedule = BRAID_PLATEAU;
  options.plateau_epochs = 0;
  options.step_gamma = 0.25;
  options.patience = 3;
  options.keep_best = true;
  options.log_steps = 2;
  return options;
}

/* What a run goes by is its history: stopped anywhere it lowers the rate where it did, ends where it did, and has the
 * same best model, which is that of an earlier epoch than the last. */
static void test_resume_with_monitor(void **state) {
  (void)state;
  stop_at never = {.after = -1};
  braid_train_options options = options_with_monitor("monitor");
  uint64_t bits = train(options, &never, BRAID_OK);
  assert_true(never.last.ends_early && never.last.epoch < options.epochs);
  assert_int_equal(never.last.best_epoch, never.last.epoch - 3);
  assert_true(never.last.learning_rate < 0.1);
  long bytes, other;
  char *whole = read_output("monitor", "best.onnx", &bytes), *last = read_output("monitor", "model.onnx", &other);
  assert_true(other != bytes || memcmp(whole, last, (size_t)bytes) != 0);
  free(last);
  for (int64_t after = 1; after < never.seen; after += never.seen / 3) {
    char name[32];
    snprintf(name, sizeof name, "monitor-%d", (int)after);
    stop_at here = {.after = after}, rest = {.after = -1};
    options = options_with_monitor(name);
    options.resume = true;
    train(options, &here, BRAID_CANCELLED);
    assert_true(train(options, &rest, BRAID_OK) == bits);
    char *parts = read_output(name, "best.onnx", &other);
    assert_int_equal(other, bytes);
    assert_memory_equal(parts, whole, (size_t)bytes);
    free(parts);
  }
  free(whole);
}

/* Balanced classes are weights that the samples' numbers give, as scikit-learn's. */
static void test_balanced_classes(void **state) {
  (void)state;
  braid_dataset *data = glyphs("train");
  int64_t counts[kClasses];
  double weights[kClasses];
  ok(braid_dataset_count_classes(data, counts));
  braid_dataset_close(data);
  int64_t sum = 0;
  for (int i = 0; i < kClasses; i++) {
    sum += counts[i];
    assert_true(counts[i] > 0);
    weights[i] = 320.0 / (kClasses * (double)counts[i]);
  }
  assert_int_equal(sum, 320);
  stop_at never = {.after = -1};
  braid_train_options options = options_of("given");
  options.epochs = 1;
  uint64_t plain = train(options, &never, BRAID_OK);
  options.class_weights = weights;
  options.class_weight_count = kClasses;
  uint64_t given = train(options, &never, BRAID_OK);
  options = options_of("balanced");
  options.epochs = 1;
  options.balance_classes = true;
  assert_true(train(options, &never, BRAID_OK) == given);
  assert_true(given != plain);
}

/* The saved model holds the averages; what is frozen stays, and is saved as something that trains. */
static void test_average_is_saved(void **state) {
  (void)state;
  braid_graph *graph = network(), *trained;
  braid_dataset *data = glyphs("train"), *test = glyphs("test");
  braid_train_options options = options_with_everything("average");
  braid_trainer *trainer;
  braid_train_progress last;
  ok(braid_trainer_create(graph, data, test, &options, &trainer));
  ok(braid_trainer_run(trainer, keep_progress, &last));
  ok(braid_trainer_model(trainer, &trained));
  const char *const names[] = {"full", "w"};
  for (int i = 0; i < 2; i++) {
    const braid_value *value = &trained->values[braid_graph_find_value(trained, names[i])];
    const braid_tensor *before = graph->values[braid_graph_find_value(graph, names[i])].tensor;
    size_t size = braid_desc_bytes(&value->desc);
    braid_tensor *now;
    ok(braid_tensor_create(NULL, &value->desc, &now));
    ok(braid_session_read(trainer->session, names[i], now));
    const void *saved = braid_tensor_const_data(value->tensor);
    assert_int_equal(memcmp(saved, braid_tensor_const_data(now), size) != 0, i == 0);
    assert_int_equal(memcmp(saved, braid_tensor_const_data(before), size) != 0, i == 0);
    assert_int_equal(value->origin, BRAID_ORIGIN_TRAINED);
    braid_tensor_release(now);
  }
  braid_test_result result;
  ok(braid_test(trained, test, 32, NULL, NULL, NULL, &result));
  assert_true(fabs(result.loss - last.test_loss) < 1e-5 * last.test_loss);
  braid_test_result_deinit(&result);
  braid_graph_destroy(trained);
  braid_trainer_destroy(trainer);
  braid_dataset_close(data);
  braid_dataset_close(test);
  braid_graph_destroy(graph);
}

int main(void) {
  printf("seed %d\n", kSeed);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps),
                                     cmocka_unit_test(test_resume),
                                     cmocka_unit_test(test_resume_with_everything),
                                     cmocka_unit_test(test_written_aside),
                                     cmocka_unit_test(test_slow_disk),
                                     cmocka_unit_test(test_lost_aside),
                                     cmocka_unit_test(test_hidden_aside),
                                     cmocka_unit_test(test_full_disk),
                                     cmocka_unit_test(test_resume_with_monitor),
                                     cmocka_unit_test(test_balanced_classes),
                                     cmocka_unit_test(test_average_is_saved)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
