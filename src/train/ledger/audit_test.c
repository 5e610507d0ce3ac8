/* Audits: what was computed is computed again to the same numbers, and one bit of one weight, one sample, one label or
 * one number of the ledger that is another is found where it is. */
#include "train/checkpoint/checkpoint.h"
#include "train/ledger/ledger_fixture.h"
#include "train/schedule.h"
#include "train/trainer.h"

enum { kSteps = 30, kOther = 77, kPixel = 16 * 32 + 16, kMostValues = 200 };

static braid_graph *graph;

/* --- data of which one sample can be another -----------------------------------------------------------------------
 */
typedef struct pictures {
  braid_dataset *from;
  int64_t other; /* a sample with another pixel; -1: none */
  int64_t named; /* a sample with another class; -1: none */
  float by;      /* what is added to the pixel */
} pictures;

static braid_status read_picture(void *context, int64_t index, float *pixels, int32_t *label) {
  const pictures *p = context;
  braid_status status = braid_dataset_sample(p->from, index, pixels, label);
  if (index == p->other) pixels[kPixel] += p->by;
  if (index == p->named) *label = (*label + 1) % kClasses;
  return status;
}

static braid_dataset *pictures_open(pictures *p, int64_t other, int64_t named) {
  braid_dataset *data;
  *p = (pictures){.other = other, .named = named, .by = 0.5f};
  ok(braid_dataset_open(NULL, "builtin:glyphs,limit=320,seed=3", "train", &p->from));
  braid_dataset_source source = {.name = "pictures",
                                 .samples = 320,
                                 .channels = 3,
                                 .height = 32,
                                 .width = 32,
                                 .classes = kClasses,
                                 .read = read_picture,
                                 .context = p};
  ok(braid_dataset_create(NULL, &source, "augment=crop+flip", &data));
  return data;
}

static void pictures_close(pictures *p, braid_dataset *data) {
  braid_dataset_close(data);
  braid_dataset_close(p->from);
}

/* The first step that reads a sample. */
static int64_t step_of_sample(int64_t sample) {
  pictures p;
  braid_dataset *data = pictures_open(&p, -1, -1);
  braid_loader_options options = {.batch = 32, .seed = kSeed, .shuffle = true, .augment = true};
  braid_loader *loader;
  braid_batch batch;
  int64_t found = 0;
  ok(braid_loader_create(data, &options, 0, 0, &loader));
  for (int64_t step = 1; !found; step++) {
    ok(braid_loader_next(loader, &batch));
    for (int i = 0; i < 32; i++)
      if (batch.indices[i] == sample) found = step;
  }
  braid_loader_destroy(loader);
  pictures_close(&p, data);
  return found;
}

/* --- runs ----------------------------------------------------------------------------------------------------------
 */
/* Called before each step, with the number of those done. */
typedef void disturb(braid_trainer *trainer, int64_t done);

static void train_by(braid_train_options options, disturb *between) {
  pictures p;
  braid_dataset *data = pictures_open(&p, -1, -1);
  braid_trainer *trainer;
  ok(braid_trainer_create(graph, data, NULL, &options, &trainer));
  if (!between) ok(braid_trainer_run(trainer, NULL, NULL));
  for (int64_t done = 0; between && done < 8; done++) {
    double loss;
    between(trainer, done);
    ok(braid_trainer_step(trainer, 0.125, &loss));
  }
  braid_trainer_destroy(trainer);
  pictures_close(&p, data);
}

static void train_with_ledger(const char *name, disturb *between) {
  char ledger[64];
  snprintf(ledger, sizeof ledger, "%s.ledger", name);
  train_by(ledger_options(name, ledger), between);
}

static int begin(void **state) {
  if (make_folder(state) != 0) return -1;
  graph = integer_network(true);
  train_with_ledger("whole", NULL);
  return 0;
}

static int end(void **state) {
  braid_graph_destroy(graph);
  return remove_folder(state);
}

static braid_audit_result audit_clean(const char *ledger, braid_audit_options options) {
  pictures p;
  braid_dataset *data = pictures_open(&p, -1, -1);
  braid_audit_result result = audit_of(path_of(ledger), graph, data, options);
  pictures_close(&p, data);
  return result;
}

static void test_agrees(void **state) {
  (void)state;
  const char *folder_of_run = path_of("whole");
  expect_agrees(audit_clean("whole.ledger", (braid_audit_options){.threads = 2}), 0, kSteps);
  expect_agrees(audit_clean("whole.ledger", (braid_audit_options){.first = 3, .last = 5, .threads = 1}), 0, 5);
  expect_agrees(audit_clean("whole.ledger", (braid_audit_options){.first = 15, .checkpoints = folder_of_run}), 12, 18);
  expect_agrees(
      audit_clean("whole.ledger", (braid_audit_options){.first = 11, .last = 11, .checkpoints = folder_of_run}), 10, 1);
  expect_agrees(audit_clean("whole.ledger", (braid_audit_options){.last = 2, .checkpoints = "no-such-folder"}), 0, 2);
}

/* --- what differs --------------------------------------------------------------------------------------------------
 */
/* A checkpoint with one bit of a parameter changed, as whole as the run's own. */
static void flip_in_checkpoint(const char *from, const char *to, const char *parameter) {
  braid_checkpoint_file *file;
  braid_checkpoint *copy;
  bool found = false;
  ok(braid_checkpoint_open(NULL, from, &file));
  ok(braid_checkpoint_create(NULL, to, braid_checkpoint_count(file), &copy));
  for (size_t i = 0; i < braid_checkpoint_count(file); i++) {
    const char *name = braid_checkpoint_name(file, i);
    braid_desc desc;
    uint8_t *data = (uint8_t *)braid_checkpoint_find(file, name, &desc);
    if (strcmp(name, parameter) == 0) data[braid_desc_bytes(&desc) / 2] ^= 4, found = true;
    ok(braid_checkpoint_put(copy, name, &desc, data));
  }
  ok(braid_checkpoint_commit(copy));
  braid_checkpoint_close(file);
  assert_true(found);
}

/* The name of the node that has this constant as an operand. */
static const char *reader_of(const char *constant) {
  for (size_t i = 0; i < graph->node_count; i++)
    for (size_t k = 0; k < graph->nodes[i].input_count; k++)
      if (strcmp(graph->values[graph->nodes[i].inputs[k]].name, constant) == 0) return graph->nodes[i].name;
  fail_msg("nothing reads %s", constant);
  return NULL;
}

static void test_weight_of_checkpoint(void **state) {
  (void)state;
  static const char *const kNames[] = {"second", "last", "norm2.0", "norm1.2"};
  assert_int_equal(mkdir(path_of("flipped"), 0777), 0);
  for (size_t i = 0; i < sizeof kNames / sizeof *kNames; i++) {
    flip_in_checkpoint(path_of("whole/checkpoint-0000000012.braid"), path_of("flipped/checkpoint-0000000012.braid"),
                       kNames[i]);
    braid_audit_result r =
        audit_clean("whole.ledger", (braid_audit_options){.first = 13, .checkpoints = path_of("flipped")});
    expect_differs(r, 12, reader_of(kNames[i]), "parameters");
    assert_non_null(strstr(r.what, kNames[i]));
    assert_int_equal(r.checked, 0);
  }
}

/* In memory, while a run goes on. */
static void flip_weight(braid_trainer *trainer, const char *name) {
  braid_value_id id = braid_graph_find_value(trainer->step, name);
  braid_tensor *tensor;
  ok(braid_tensor_create(NULL, &trainer->step->values[id].desc, &tensor));
  ok(braid_session_read(trainer->session, name, tensor));
  ((uint8_t *)braid_tensor_data(tensor))[1] ^= 0x10;
  ok(braid_session_write(trainer->session, name, tensor));
  braid_tensor_release(tensor);
}

static void flip_second(braid_trainer *trainer, int64_t done) {
  if (done == 5) flip_weight(trainer, "second");
}
static void flip_hidden(braid_trainer *trainer, int64_t done) {
  if (done == 2) flip_weight(trainer, "hidden");
}
static void flip_gamma(braid_trainer *trainer, int64_t done) {
  if (done == 7) flip_weight(trainer, "norm1.0");
}

static void flip_momentum(braid_trainer *trainer, int64_t done) {
  if (done == 4) flip_weight(trainer, "hidden/momentum");
}

/* With 10 bits of parameters, what reads a weight first is the node that rounds it to 8. */
static void test_weight_in_memory(void **state) {
  (void)state;
  train_with_ledger("second", flip_second);
  expect_differs(audit_clean("second.ledger", (braid_audit_options){.first = 0}), 6, reader_of("second"),
                 "IntegerQuantize");
  train_with_ledger("hidden", flip_hidden);
  expect_differs(audit_clean("hidden.ledger", (braid_audit_options){.first = 0}), 3, reader_of("hidden"),
                 "IntegerQuantize");
  train_with_ledger("gamma", flip_gamma);
  expect_differs(audit_clean("gamma.ledger", (braid_audit_options){.first = 0}), 8, reader_of("norm1.0"),
                 "IntegerBatchNormalization");
  train_with_ledger("momentum", flip_momentum);
  expect_differs(audit_clean("momentum.ledger", (braid_audit_options){.first = 0}), 5, reader_of("hidden"),
                 "IntegerMomentum");
}

static void test_sample(void **state) {
  (void)state;
  pictures p;
  braid_dataset *data = pictures_open(&p, kOther, -1);
  braid_audit_result r = audit_of(path_of("whole.ledger"), graph, data, (braid_audit_options){.first = 0});
  pictures_close(&p, data);
  expect_differs(r, step_of_sample(kOther), "samples", "IntegerInput");
  data = pictures_open(&p, -1, kOther);
  r = audit_of(path_of("whole.ledger"), graph, data, (braid_audit_options){.first = 0});
  pictures_close(&p, data);
  expect_differs(r, step_of_sample(kOther), "samples", "labels");
}

/* --- forged lines --------------------------------------------------------------------------------------------------
 */
/* `at`: into `text`, a digit that becomes another. Audits the whole forged ledger up to its step. */
static braid_audit_result audit_forged(char *text, char *at, int64_t step) {
  char was = *at;
  *at = was == '7' ? '8' : '7';
  char *forged = forge(text);
  put_text(path_of("forged.ledger"), forged, strlen(forged));
  free(forged);
  *at = was;
  return audit_clean("forged.ledger", (braid_audit_options){.last = step, .threads = 1});
}

static void expect_other_data(braid_audit_result r) {
  assert_false(r.agrees);
  assert_true(r.steps_agree);
  assert_int_equal(r.checked, kSteps);
  assert_non_null(strstr(r.other_data, " is \"hash of the data set: "));
}

/* A pixel that is another and rounds to the same integer; a hash of no data at all, in a chain that is whole. */
static void test_other_data(void **state) {
  (void)state;
  pictures p;
  braid_dataset *data = pictures_open(&p, kOther, -1);
  p.by = 0x1p-20f;
  expect_other_data(audit_of(path_of("whole.ledger"), graph, data, (braid_audit_options){.first = 0}));
  pictures_close(&p, data);
  char *text = text_of(path_of("whole.ledger"), NULL);
  char *hash = strstr(text, "\nhash of the data set: ") + strlen("\nhash of the data set: ");
  expect_other_data(audit_forged(text, hash + 63, kSteps));
  free(text);
}

/* Each digest of a step, changed alone, names its node. */
static void test_each_value(void **state) {
  (void)state;
  char *text = text_of(path_of("whole.ledger"), NULL), *at = text;
  char *values = strstr(strstr(text, "\nstep 1 "), " values ") + strlen(" values ");
  size_t count = 0;
  while ((at = strstr(at, "\nvalue: "))) {
    char layer[128], op[128];
    size_t output;
    at += strlen("\nvalue: ");
    assert_int_equal(sscanf(at, "%127s %127s %zu\n", layer, op, &output), 3);
    expect_differs(audit_forged(text, values + BRAID_LEDGER_NUMBER * count + count % BRAID_LEDGER_NUMBER, 1), 1, layer,
                   op);
    count++;
  }
  assert_true(count > 40 && count < kMostValues);
  free(text);
}

static void test_other_parts(void **state) {
  (void)state;
  static const struct {
    const char *part, *layer, *operation;
    size_t digit;
  } kCases[] = {{" order ", "samples", "order", 3},
                {" labels ", "samples", "labels", 31},
                {" rate ", "", "rate", 0},
                {" loss ", "loss", "Mul", 3},
                {" state ", "", "state", 40}};
  char *text = text_of(path_of("whole.ledger"), NULL);
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    char *at = strstr(strstr(text, "\nstep 2 "), kCases[i].part);
    expect_differs(audit_forged(text, at + strlen(kCases[i].part) + kCases[i].digit, 2), 2, kCases[i].layer,
                   kCases[i].operation);
  }
  /* the state that training begins with */
  char *first = strstr(strstr(text, "\nstep 0 "), " parameters ") + strlen(" parameters ");
  expect_differs(audit_forged(text, first, 1), 0, reader_of("first"), "parameters");
  free(text);
}

/* Of each parameter and statistic, in the order of the head, the operation is named that computes it: also
 * where no node quantizes weights, by both rules, and of frozen ones that there is none. */
static void test_each_parameter(void **state) {
  (void)state;
  static const struct {
    int bits, rule, frozen;
  } kCases[] = {{10, BRAID_SGD, 0}, {8, BRAID_SGD, 0}, {8, BRAID_WAGE, 0}, {8, BRAID_SGD, 1}};
  for (size_t c = 0; c < sizeof kCases / sizeof *kCases; c++) {
    char run[16], file[32];
    braid_parameter_group groups[] = {{"norm2.*", 0, NAN}, {"hidden", 0, NAN}};
    snprintf(run, sizeof run, "each%zu", c);
    snprintf(file, sizeof file, "%s.ledger", run);
    braid_train_options options = ledger_options(run, file);
    options.gradient_bits = kCases[c].bits;
    options.optimizer = (braid_optimizer)kCases[c].rule;
    options.groups = groups;
    options.group_count = kCases[c].frozen ? 2 : 0;
    options.epochs = 1;
    train_by(options, NULL);
    char *text = text_of(path_of(file), NULL), *name = text;
    char *parameters = strstr(strstr(text, "\nstep 2 "), " parameters ") + strlen(" parameters ");
    size_t updated = 0, statistics = 0, fixed = 0;
    for (size_t i = 0; (name = strstr(name, "\nparameter: ")); i++) {
      char word[64];
      name += strlen("\nparameter: ");
      assert_int_equal(sscanf(name, "%63s", word), 1);
      bool statistic = strstr(word, ".2") || strstr(word, ".3"), wage = kCases[c].rule == BRAID_WAGE;
      bool frozen = kCases[c].frozen && !statistic && (strncmp(word, "norm2", 5) == 0 || strcmp(word, "hidden") == 0);
      const char *op = statistic ? "IntegerBatchNormalization"
                       : frozen  ? "parameters"
                       : wage    ? "IntegerUpdate"
                                 : "IntegerMomentum";
      expect_differs(audit_forged(text, parameters + BRAID_LEDGER_NUMBER * i, 2), 2, reader_of(word), op);
      statistics += statistic, updated += !statistic && !frozen, fixed += frozen;
    }
    assert_int_equal(statistics, 4);
    assert_int_equal(fixed, kCases[c].frozen ? 3 : 0);
    assert_int_equal(updated, 8 - fixed);
    free(text);
  }
}

/* --- what is refused -----------------------------------------------------------------------------------------------
 */
static void expect_refused(const char *path, const braid_graph *model, braid_dataset *data, braid_audit_options options,
                           const char *why) {
  braid_ledger *ledger;
  braid_audit_result result;
  options.registry = registry;
  ok(braid_ledger_open(NULL, path, &ledger));
  assert_int_equal(braid_audit(ledger, model, data, &options, NULL, NULL, &result), BRAID_INVALID_ARGUMENT);
  if (!strstr(braid_error_detail(), why)) fail_msg("\"%s\" is not in: %s", why, braid_error_detail());
  braid_ledger_close(ledger);
}

static void test_refused(void **state) {
  (void)state;
  pictures p;
  braid_dataset *data = pictures_open(&p, -1, -1), *fewer;
  braid_graph *other = integer_network(false);
  const char *path = path_of("whole.ledger");
  expect_refused(path, graph, data, (braid_audit_options){.first = 31}, "has steps 1 to 30, not 31");
  expect_refused(path, graph, data, (braid_audit_options){.first = 9, .last = 8}, "has steps 1 to 30");
  expect_refused(path, graph, data, (braid_audit_options){.first = -1}, "has steps 1 to 30");
  expect_refused(path, other, data, (braid_audit_options){.first = 0}, "nodes of the model");
  ok(braid_dataset_open(NULL, "builtin:glyphs,limit=160", "train", &fewer));
  expect_refused(path, graph, fewer, (braid_audit_options){.first = 0}, "number of samples: 320");
  braid_dataset_close(fewer);
  /* a checkpoint of another network */
  pictures_close(&p, data);
  data = pictures_open(&p, -1, -1);
  braid_train_options options = integer_options("another");
  braid_trainer *trainer;
  ok(braid_trainer_create(other, data, NULL, &options, &trainer));
  braid_trainer_destroy(trainer);
  expect_refused(path, graph, data, (braid_audit_options){.checkpoints = path_of("another")},
                 "the checkpoint of step 0: the checkpoint is of another run");
  pictures_close(&p, data);
  braid_graph_destroy(other);
}

static bool stop_at_once(void *context, int64_t done, int64_t total) {
  *(int64_t *)context = total;
  return done < 3;
}

static void test_cancelled(void **state) {
  (void)state;
  pictures p;
  braid_dataset *data = pictures_open(&p, -1, -1);
  braid_ledger *ledger;
  braid_audit_result result;
  int64_t total = 0;
  ok(braid_ledger_open(NULL, path_of("whole.ledger"), &ledger));
  assert_int_equal(braid_audit(ledger, graph, data, NULL, stop_at_once, &total, &result), BRAID_CANCELLED);
  assert_int_equal(result.checked, 3);
  assert_int_equal(total, kSteps);
  braid_ledger_close(ledger);
  pictures_close(&p, data);
}

/* --- momentums of checkpoints --------------------------------------------------------------------------------------
 */
/* A copy of a checkpoint in which each momentum, or number `at` of that of `hidden`, is another. */
static void change_momentums(const char *from, const char *to, int64_t at) {
  braid_checkpoint_file *file;
  braid_checkpoint *copy;
  size_t changed = 0;
  ok(braid_checkpoint_open(NULL, from, &file));
  ok(braid_checkpoint_create(NULL, to, braid_checkpoint_count(file), &copy));
  for (size_t i = 0; i < braid_checkpoint_count(file); i++) {
    const char *name = braid_checkpoint_name(file, i);
    braid_desc desc;
    const int16_t *was = braid_checkpoint_find(file, name, &desc);
    int64_t count = braid_desc_count(&desc);
    int16_t *momentum = strstr(name, "/momentum") ? malloc((size_t)count * sizeof *was) : NULL;
    for (int64_t k = 0; momentum && k < count; k++) {
      bool is_other = at < 0 || (k == at && strcmp(name, "hidden/momentum") == 0);
      momentum[k] = is_other ? (int16_t)(at < 0 ? 32767 : was[k] + 1) : was[k];
      changed += is_other;
    }
    ok(braid_checkpoint_put(copy, name, &desc, momentum ? momentum : was));
    free(momentum);
  }
  assert_true(changed > 0);
  ok(braid_checkpoint_commit(copy));
  braid_checkpoint_close(file);
}

/* Whether or not the steps that follow show it. */
static void test_momentum_of_checkpoint(void **state) {
  (void)state;
  static const char kName[] = "checkpoint-0000000012.braid";
  char from[160], to[160];
  assert_int_equal(mkdir(path_of("momentums"), 0777), 0);
  snprintf(from, sizeof from, "%s/%s", path_of("whole"), kName);
  snprintf(to, sizeof to, "%s/%s", path_of("momentums"), kName);
  for (int64_t at = -1; at < 20; at++) {
    change_momentums(from, to, at);
    braid_audit_result r =
        audit_clean("whole.ledger", (braid_audit_options){.first = 13, .checkpoints = path_of("momentums")});
    expect_differs(r, 12, at < 0 ? r.layer : reader_of("hidden"), "momentum");
  }
  /* the run does not go on from it, and its ledger stays */
  size_t bytes;
  char *text = text_of(path_of("whole.ledger"), &bytes);
  put_text(path_of("resumed.ledger"), text, bytes);
  braid_train_options options = ledger_options("momentums", "resumed.ledger");
  options.resume = true;
  pictures p;
  braid_dataset *data = pictures_open(&p, -1, -1);
  braid_trainer *trainer;
  assert_int_equal(braid_trainer_create(graph, data, NULL, &options, &trainer), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "the momentums after step 12 are not those of the checkpoint"));
  pictures_close(&p, data);
  expect_same(path_of("resumed.ledger"), path_of("whole.ledger"));
  free(text);
}

/* A ledger has no more steps than the run that it tells of. */
static void test_more_steps(void **state) {
  (void)state;
  braid_train_options options = ledger_options("more", "more.ledger");
  options.epochs = 1;
  pictures p;
  braid_dataset *data = pictures_open(&p, -1, -1);
  braid_trainer *trainer;
  double loss;
  ok(braid_trainer_create(graph, data, NULL, &options, &trainer));
  for (int64_t done = 0; done <= trainer->steps; done++) {
    double rate = braid_learning_rate(&trainer->options, &trainer->record, done, trainer->steps);
    ok(braid_trainer_step(trainer, rate, &loss));
  }
  braid_trainer_destroy(trainer);
  braid_ledger *ledger;
  braid_audit_result r;
  ok(braid_ledger_open(NULL, path_of("more.ledger"), &ledger));
  assert_int_equal(braid_audit(ledger, graph, data, NULL, NULL, NULL, &r), BRAID_INVALID_FILE);
  assert_non_null(strstr(braid_error_detail(), "is of step 11 of a run of 10"));
  braid_ledger_close(ledger);
  pictures_close(&p, data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_momentum_of_checkpoint),
      cmocka_unit_test(test_more_steps),
      cmocka_unit_test(test_agrees),
      cmocka_unit_test(test_other_data),
      cmocka_unit_test(test_weight_of_checkpoint),
      cmocka_unit_test(test_weight_in_memory),
      cmocka_unit_test(test_sample),
      cmocka_unit_test(test_each_value),
      cmocka_unit_test(test_other_parts),
      cmocka_unit_test(test_each_parameter),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_cancelled),
  };
  return cmocka_run_group_tests(tests, begin, end);
}
