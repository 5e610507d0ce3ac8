/* Training from the command line: what was trained is never lost, whoever kills the run, whatever fails beside it; and
 * a run goes on only as what it was. */
#include "clicheck.h"

#include <dirent.h>

#include "braid/model.h"
#include "graph/graph.h"

#define TRAIN                                                                                                          \
  "train " GLYPHS " --data builtin:glyphs,limit=640 --test builtin:glyphs,limit=320 --epochs 3 --batch 32 "            \
  "--checkpoint-steps 3 --threads 1 "

/* The trained model's bytes of a run that nothing disturbed. */
static char *undisturbed(size_t *count) {
  outcome o = run(TRAIN "--out $/whole");
  if (o.code != 0) fail_msg("%s", o.err);
  assert_null(strchr(o.err, '\r')); /* no bar on what is no terminal */
  discard(&o);
  return get_file(in_folder("whole/model.onnx"), count);
}

static void expect_same_model(const char *path, const char *bytes, size_t count) {
  size_t found;
  char *model = get_file(path, &found);
  assert_int_equal(found, count);
  assert_memory_equal(model, bytes, count);
  free(model);
}

static void test_interrupted(void **state) {
  (void)state;
  size_t count;
  char *whole = undisturbed(&count);
  for (int i = 0;; i++) {
    assert_true(i < 100);
    pid_t child = start(TRAIN "--out $/stopped --resume", "/dev/null", in_folder("out"), in_folder("err"));
    nap(0.2 + 0.05 * i); /* on a busy machine the first ones end before an epoch is done */
    kill(child, SIGINT);
    int code = await(child);
    char *err = get_file(in_folder("err"), NULL);
    bool stopped = code == 130 && strstr(err, "interrupted in epoch");
    if (!stopped && code != 0) fail_msg("code %d: %s", code, err);
    free(err);
    if (code == 0) break;
  }
  expect_same_model(in_folder("stopped/model.onnx"), whole, count);
  free(whole);
}

static void test_killed(void **state) {
  (void)state;
  size_t count;
  char *whole = undisturbed(&count);
  uint32_t random = 20240521;
  print_message("seed %u\n", (unsigned)random);
  int code = 1;
  for (int i = 0; code != 0; i++) {
    assert_true(i < 200);
    random = random * 1664525u + 1013904223u;
    pid_t child = start(TRAIN "--out $/killed --resume", "/dev/null", in_folder("out"), in_folder("err"));
    nap(0.05 + (random >> 16) / 65536.0 * 0.3 + i * 0.01);
    kill(child, SIGKILL);
    code = await(child);
    assert_true(code == 0 || code == 128 + SIGKILL);
  }
  expect_same_model(in_folder("killed/model.onnx"), whole, count);
  free(whole);
}

/* --- resuming ------------------------------------------------------------------------------------------------------
 */
#define SHORT "train " GLYPHS " --no-test --batch 32 --threads 1 "
#define DATA "--data builtin:glyphs,limit=64 "

/* Runs a line, checks its code, and that what it said on standard error holds `detail`. */
static void expect(const char *line, int code, const char *detail) {
  outcome o = run(line);
  if (o.code != code) fail_msg("braid %s: code %d, not %d: %s", line, o.code, code, o.err);
  if (!strstr(o.err, detail)) fail_msg("braid %s: \"%s\" is not in: %s", line, detail, o.err);
  discard(&o);
}

static bool exists(const char *path) {
  return access(in_folder(path), F_OK) == 0;
}

static void test_resume(void **state) {
  (void)state;
  expect(SHORT DATA "--epochs 2 --out $/r --resume", 0, "holds no checkpoint");
  outcome o = run(SHORT DATA "--epochs 3 --lr 0.01 --out $/r --resume");
  assert_int_equal(o.code, 0);
  assert_non_null(strstr(o.err, "another learning rate: 0.01, it was 0.05"));
  assert_non_null(strstr(o.err, "another number of epochs: 3, it was 2"));
  assert_non_null(strstr(o.out, "epoch 3/3"));
  assert_null(strstr(o.out, "epoch 2/3"));
  discard(&o);
  put_file(in_folder("r/checkpoint-0000000004.braid"), "BRAIDCKP", 8);
  put_file(in_folder("r/checkpoint-0000000006.braid"), "BRAIDCKP\1\0\0\0\0\0\0\0", 16);
  expect_failure(SHORT DATA "--epochs 4 --out $/r --resume", 2, "checkpoint-0000000004.braid");
  assert_int_equal(unlink(in_folder("r/checkpoint-0000000004.braid")), 0);
  expect_failure(SHORT DATA "--epochs 4 --out $/r --resume", 2,
                 "a checkpoint of version 1, this Braid reads version 2");
  o = run(SHORT DATA "--epochs 1 --out $/seeded --resume --model-seed 5");
  assert_int_equal(o.code, 0);
  assert_null(strstr(o.err, "--model-seed"));
  discard(&o);
  expect(SHORT DATA "--epochs 2 --out $/seeded --resume --model-seed 6", 0, "--model-seed has no effect on a run that");
}

/* A run goes on only as what it was; each setting by itself is refused by its name, with what it was and what it is. */
static void test_other_settings(void **state) {
  (void)state;
  static const struct {
    const char *base, *other, *detail;
  } cases[] = {
      {DATA, DATA "--seed 9", "seed was 1, is 9"},
      {DATA, DATA "--batch 16", "batch was 32, is 16"},
      {DATA, DATA "--optimizer adam", "optimizer was sgd, is adam; beta1 was not set, is 0.9"},
      {DATA, DATA "--momentum 0.5", "momentum was 0.9, is 0.5"},
      {DATA, DATA "--nesterov", "Nesterov's momentum was no, is yes"},
      {DATA, DATA "--weight-decay 0", "weight decay was 0.0005, is 0"},
      {DATA, DATA "--loss squared-error", "loss was cross-entropy, is squared-error"},
      {DATA, DATA "--label-smoothing 0.1", "label smoothing was 0, is 0.1"},
      {DATA, DATA "--schedule one-cycle", "schedule was cosine, is one-cycle"},
      {DATA, DATA "--warmup 2", "warm-up steps was 0, is 2"},
      {DATA, DATA "--schedule linear", "schedule was cosine, is linear"},
      {DATA "--optimizer adam", DATA "--optimizer adamw", "optimizer was adam, is adamw"},
      {DATA "--optimizer adam", DATA "--optimizer adam --beta2 0.99", "beta2 was 0.999, is 0.99"},
      {DATA "--optimizer adam", DATA "--optimizer adam --epsilon 1e-6", "epsilon was 1e-08, is 1e-06"},
      {DATA "--schedule step --step-epochs 30", DATA "--schedule step --step-epochs 3",
       "epochs between drops was 30, is 3"},
      {DATA, DATA "--accumulate 2", "batches per step was not set, is 2"},
      {DATA "--clip-norm 1", DATA "--clip-norm 2", "limit of the gradients' norm was 1, is 2"},
      {DATA, DATA "--clip-value 0.5", "limit of a gradient's elements was not set, is 0.5"},
      {DATA "--average 0.5", DATA, "decay of the average was 0.5, is not set"},
      {DATA, DATA "--lookahead 4", "steps of a lookahead was not set, is 4"},
      {DATA "--lookahead 2:1..0.5", DATA "--lookahead 2:1", "share of a lookahead at the end was 0.5, is 1"},
      {DATA "--schedule plateau", DATA "--schedule plateau --plateau-epochs 3", "epochs of a plateau was 10, is 3"},
      {DATA "--best", DATA "--best --monitor accuracy", "what epochs are compared by was loss, is accuracy"},
      {DATA, DATA "--patience 2",
       "of another run: it compared no epochs, which --patience, --best and --schedule plateau"
       " do from a run's start; resume with"},
      {DATA, DATA "--best --seed 7", "seed was 1, is 7; it compared no epochs, which --patience, --best"},
      {DATA "--schedule plateau", DATA "--schedule plateau --best", "model of the best epoch was not set, is kept;"},
      {DATA "--best --patience 2", DATA "--patience 2", "model of the best epoch was kept, is not set;"},
      {DATA "--patience 2", DATA,
       "of another run: it compared epochs, for --patience, --best or --schedule plateau, none"},
      {DATA, DATA "--class-weights 1/1/1/1/2/1/1/1/1/1", "weight of class 0 was not set, is 1"},
      {DATA, DATA "--mixup 0.2", "mixup was not set, is 0.2"},
      {DATA "--label-noise 0.1", DATA "--label-noise 0.2", "label noise was 0.1, is 0.2"},
      {"--data builtin:glyphs,limit=64,augment=colour", "--data builtin:glyphs,limit=64,augment=colour+cutout",
       "augmentation was colour, is colour+cutout"},
      {DATA, DATA "--no-bias-decay", "weight decay of biases was not set, is no"},
      {DATA "--freeze 0_*", DATA "--freeze 2_*", "group 1 was 0_*, is 2_*"},
      {DATA "--group *:lr=2", DATA "--group *:lr=2,decay=0", "weight decay of group 1 was not set, is 0"},
      {DATA, "--data builtin:glyphs,limit=96", "number of samples was 64, is 96"},
      {DATA, "--data builtin:glyphs,limit=64,seed=5", "checksum of the data set was"},
      {DATA, "--data builtin:glyphs,limit=64,mean=0.5", "mean was none, is 0.5"},
      {DATA, "--data builtin:glyphs,limit=64,order=bgr", "order of channels was rgb, is bgr"},
      {DATA, "--data builtin:glyphs,limit=64,augment=flip", "augmentation was none, is flip"},
      {"--data builtin:glyphs,limit=64,augment=crop", "--data builtin:glyphs,limit=64,augment=crop,pad=2",
       "pad was 4, is 2"},
      {"--data builtin:glyphs,limit=64,augment=crop", "--data builtin:glyphs,limit=64,augment=crop,border=reflect",
       "border was not set, is reflect"},
      {DATA, "--data builtin:glyphs,limit=64,augment=alternating-flip", "augmentation was none, is alternating-flip"},
  };
  /* Cases of one base share its run, of which a refused one changes nothing. */
  enum { CASES = sizeof cases / sizeof *cases };
  size_t run_of[CASES];
  char line[600];
  for (size_t i = 0; i < CASES; i++) {
    for (run_of[i] = 0; strcmp(cases[run_of[i]].base, cases[i].base) != 0;) run_of[i]++;
    if (run_of[i] == i) {
      snprintf(line, sizeof line, SHORT "%s --epochs 1 --out $/settings-%zu", cases[i].base, i);
      expect(line, 0, "");
    }
    snprintf(line, sizeof line, SHORT "%s --epochs 2 --out $/settings-%zu --resume", cases[i].other, run_of[i]);
    expect_failure(line, 2, cases[i].detail);
  }
  for (size_t i = 0; i < CASES; i++) {
    if (run_of[i] != i) continue;
    snprintf(line, sizeof line, SHORT "%s --epochs 2 --out $/settings-%zu --resume", cases[i].base, i);
    expect(line, 0, "another number of epochs: 2, it was 1");
  }
}

/* What has no meaning is refused, with the reason. */
static void test_recipes_refused(void **state) {
  (void)state;
  static const struct {
    const char *options, *detail;
  } cases[] = {
      {DATA "--steps 3 --epochs 1", "--epochs has no effect with --steps"},
      {DATA "--steps 3 --precision int8",
       "--steps has no effect with --precision int8, whose schedules count --epochs"},
      {DATA "--whiten --precision int8", "--whiten has no effect with --precision int8"},
      {DATA "--lookahead 5 --precision int8", "--lookahead has no effect with --precision int8"},
      {DATA "--lookahead 5 --average 0.9", "--average has no effect with --lookahead"},
      {DATA "--lookahead 5:0", "a share is above 0 and at most 1, not \"0\""},
      {DATA "--lookahead 5:1..2", "--lookahead"},
      {DATA "--lookahead 0", "--lookahead: a whole number of at least 1"},
      {"--data builtin:glyphs,views=flip", "views is for testing, and has no effect with --no-test"},
      {"--data builtin:glyphs,views=turn", "flip, shift, or flip+shift is"},
      {"--data builtin:glyphs,border=reflect", "border= is of augment=crop and has no effect without it"},
      {"--data builtin:glyphs,augment=flip+alternating-flip", "one of the two flips is"},
      {"--data builtin:glyphs,augment=crop,pad=16,border=reflect", "pad=16 with border=reflect on pictures of 32x32"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char line[300];
    snprintf(line, sizeof line, SHORT "%s --out $/refused", cases[i].options);
    expect_failure(line, 2, cases[i].detail);
  }
  expect_failure("train " GLYPHS " --data builtin:glyphs,views=flip --test builtin:glyphs --out $/refused", 2,
                 "views is for testing, which --test is for");
  expect("train " GLYPHS " --data builtin:glyphs,limit=64,views=flip+shift --batch 32 --threads 1 --steps 3 --schedule "
         "linear --lookahead 2:1..0.5 --whiten --freeze 0_*.weight --out $/views",
         0, "");
}

static void test_groups(void **state) {
  (void)state;
  expect(SHORT DATA "--epochs 1 --out $/groups --freeze 0_* --group *.bias:decay=0", 0, "stays fixed: 3 tensors");
  expect_failure(SHORT DATA "--epochs 1 --out $/groups --freeze conv*", 2, "\"conv*\" matches no parameter");
  expect_failure(SHORT DATA "--epochs 1 --out $/groups --group 0_*", 2, "PATTERN:lr=X,decay=X is expected");
  expect_failure(SHORT DATA "--epochs 1 --out $/groups --group 0_*:rate=1", 2, "lr= and decay= are known, not");
  expect_failure(SHORT DATA "--epochs 1 --out $/groups --group 0_*:lr=-1", 2, "at least 0 is expected");
}

/* A trained network of ten classes is fine-tuned to two of pictures. */
static void test_fine_tuning(void **state) {
  (void)state;
  expect(SHORT DATA "--epochs 1 --out $/ten", 0, "");
  for (int i = 0; i < 2; i++) {
    const char *name = i ? "moon" : "heart";
    char command[1200];
    snprintf(command, sizeof command,
             "mkdir -p %s/two/%s && for i in 1 2 3 4 5 6 7 8; do cp %s/%s.png %s/two/%s/$i.png; done", folder, name,
             BRAID_PICTURES, name, folder, name);
    assert_int_equal(system(command), 0);
  }
#define TWO "--data images:$/two,size=32x32 "
  expect_failure("train $/ten/model.onnx " TWO "--batch 8 --no-test --out $/tuned", 2,
                 "10 scores a sample, the data set has 2");
  expect("train $/ten/model.onnx " TWO "--no-test --out $/tuned --replace-head --batch 8 --freeze 0_* --epochs 2", 0,
         "frozen");
  outcome o = run("test $/tuned/model.onnx --data images:$/two,size=32x32,split=train");
  if (o.code != 0) fail_msg("%s%s", o.out, o.err);
  assert_non_null(strstr(o.out, "samples   16"));
  assert_non_null(strstr(o.out, "\nheart "));
  discard(&o);
}

/* Of the event file: how often it has a text. */
static int count_in_events(const char *out, const char *text) {
  DIR *events = opendir(in_folder(out));
  int count = 0;
  assert_non_null(events);
  for (struct dirent *entry; (entry = readdir(events));) {
    if (strncmp(entry->d_name, "events.", 7) != 0) continue;
    char path[300];
    size_t bytes;
    snprintf(path, sizeof path, "%s/%s", out, entry->d_name);
    char *data = get_file(in_folder(path), &bytes), *at = data;
    for (; (at = memmem(at, (size_t)(data + bytes - at), text, strlen(text))); at++) count++;
    free(data);
  }
  closedir(events);
  return count;
}

/* A rate of nearly 0 makes no epoch better for long. The checkpoint is of the run that goes by this test set. */
static void test_monitor(void **state) {
  (void)state;
#define MONITOR                                                                                                        \
  "train " GLYPHS " --batch 32 --threads 1 --epochs 60 --lr 1e-12 --patience 2 --best --log-steps 3 --monitor "        \
  "accuracy --out $/monitor " DATA
  outcome o = run(MONITOR "--test builtin:glyphs,limit=32");
  if (o.code != 0) fail_msg("%s", o.err);
  assert_non_null(strstr(o.out, "ends early: no epoch since "));
  assert_null(strstr(o.out, "epoch 60/60"));
  int epochs = 0;
  for (const char *at = o.out; (at = strstr(at, "epoch ")); at++) epochs += at == o.out || at[-1] == '\n';
  discard(&o);
  assert_true(exists("monitor/best.onnx"));
  assert_int_equal(count_in_events("monitor", "loss/step"), epochs * 2 / 3);
  assert_int_equal(count_in_events("monitor", "loss/test"), epochs);
  expect_failure(MONITOR "--test builtin:glyphs,limit=48 --resume", 2, "test set, number of samples was 32, is 48");
  expect_failure(MONITOR "--no-test --resume", 2, "test set, number of samples was 32, is not set");
  expect(MONITOR "--test builtin:glyphs,limit=32 --resume --patience 70", 0, "another patience: 70, it was 2");
}

static void put_node(braid_graph *graph, const char *op, braid_value_id a, braid_value_id b, const char *name,
                     braid_value_id *out) {
  *out = 0;
  assert_int_equal(braid_graph_add_node(graph, op, NULL, (braid_value_id[]){a, b}, b < 0 ? 1 : 2, out, 1, NULL),
                   BRAID_OK);
  if (!name) return;
  assert_int_equal(braid_graph_rename_value(graph, *out, name), BRAID_OK);
  assert_int_equal(braid_graph_add_output(graph, *out), BRAID_OK);
}

/* guess = x w; loss = the mean of (guess - truth)^2. With a `batch` of its own the loss is the only output. */
static void put_own_loss(const char *path, int64_t batch) {
  const braid_desc row = {.dtype = BRAID_F32, .rank = 2, .dims = {batch ? batch : -1, 2}};
  const braid_desc truth = {.dtype = BRAID_F32, .rank = 2, .dims = {batch ? batch : -1, 1}};
  braid_desc weight;
  braid_graph *graph;
  braid_tensor *w;
  braid_value_id x, t, value, guess;
  assert_int_equal(braid_desc_init(&weight, BRAID_F32, 2, (int64_t[]){2, 1}), BRAID_OK);
  assert_int_equal(braid_tensor_create(NULL, &weight, &w), BRAID_OK);
  memcpy(braid_tensor_data(w), (float[]){0.5f, 0.25f}, 8);
  assert_int_equal(braid_graph_create(NULL, "own", &graph), BRAID_OK);
  assert_int_equal(braid_graph_add_input(graph, "x", &row, &x), BRAID_OK);
  assert_int_equal(braid_graph_add_input(graph, "truth", &truth, &t), BRAID_OK);
  assert_int_equal(braid_graph_add_tensor(graph, "w", BRAID_VALUE_CONSTANT, w, &value), BRAID_OK);
  put_node(graph, "MatMul", x, value, batch ? NULL : "guess", &guess);
  if (batch) {
    assert_int_equal(braid_graph_add_int64s(graph, (int64_t[]){batch, 1}, 2, &value), BRAID_OK);
    put_node(graph, "Reshape", guess, value, NULL, &guess);
  }
  put_node(graph, "Sub", guess, t, NULL, &value);
  put_node(graph, "Mul", value, value, NULL, &value);
  put_node(graph, "ReduceMean", value, -1, "loss", &value);
  assert_int_equal(braid_model_save_onnx(graph, path), BRAID_OK);
  braid_tensor_release(w);
  braid_graph_destroy(graph);
}

/* The file's second output is the loss, which begins at the mean square of a column and ends near 0. */
static void test_own_loss(void **state) {
  (void)state;
#define OWN "$/own.onnx --data csv:$/line.csv,target=y,targets=numbers --loss output"
  char text[2000] = "a,b,y\n";
  for (int i = 0; i < 60; i++) {
    int a = i * 7 % 13 - 6, b = i * 5 % 11 - 5;
    snprintf(text + strlen(text), sizeof text - strlen(text), "%d,%d,%d\n", a, b, 2 * a - b);
  }
  put_file(in_folder("line.csv"), text, strlen(text));
  put_own_loss(in_folder("own.onnx"), 0);
  expect("train " OWN ":loss --batch 9 --epochs 40 --lr 0.005 --no-standardize --weight-decay 0 --out $/own", 0,
         "trains: 1 tensors, 2 numbers");
  expect("train " OWN ":loss --batch 9 --epochs 40 --lr 0.005 --no-standardize --weight-decay 0 --out $/own --resume",
         0, "trains: 1 tensors");
  outcome o = run("test $/own/model.onnx --data csv:$/line.csv,target=y,targets=numbers --loss output:loss --batch 4");
  const char *loss = strstr(o.out, "  loss ");
  assert_true(o.code == 0 && loss && strtod(loss + 7, NULL) < 1e-3 && !strstr(o.out, "MSE"));
  discard(&o);
  char *report = get_file(in_folder("own/report.html"), NULL);
  assert_non_null(strstr(report, "test loss"));
  assert_null(strstr(report, "Accuracy"));
  free(report);
  expect_failure("train " OWN " --batch 9 --out $/own2", 2, "the model has 2 outputs (guess, loss)");
  expect_failure("train " OWN ":w --batch 9 --out $/own2", 2, "no output w; it has guess, loss");
  expect_failure("train " OWN ":loss --mixup 0.2 --batch 9 --out $/own2", 2, "mixup needs");
  expect_failure("train " OWN ": --batch 9 --out $/own2", 2, "--loss: output or output:NAME is expected, not");
  expect_failure("train " OWN ":loss --replace-head --batch 9 --out $/own2", 2, "--replace-head fits scores to");
  expect_failure("test " OWN ":loss --at-least 0.5", 2, "--at-least is of scores, which --loss output has not");
  expect_failure("test " OWN ":loss --worst 3", 2, "--worst is of scores, which --loss output has not");
  expect_failure("test --top 2 " OWN ":loss", 2, "--top is of scores, which --loss output has not");
  expect_failure("test " OWN ":", 2, "--loss: output or output:NAME is expected, not");
  expect_failure("test $/own.onnx --data csv:$/line.csv,target=y --loss huber", 2, "output or output:NAME is expected");
  static const char kLine[] = "[net]\nheight=1\nwidth=2\nchannels=1\n[connected]\noutput=1\nactivation=linear\n";
  put_file(in_folder("line.cfg"), kLine, strlen(kLine));
  expect_failure("test $/line.cfg --data csv:$/line.csv,target=y,targets=numbers --top 2", 2,
                 "--top is of classes of which one is right; the targets are numbers");
}

/* The only output's name says nothing new. A batch that the file fixes is all that it takes: 54 samples are for
 * training, 6 for tests, and what these leave is said before the first step. */
static void test_own_loss_of_a_batch(void **state) {
  (void)state;
#define FIXED "$/fixed.onnx --data csv:$/line.csv,target=y,targets=numbers --loss output"
#define STEPS " --batch 4 --epochs 2 --lr 0.005 --out $/fixed"
  put_own_loss(in_folder("fixed.onnx"), 4);
  expect_failure("train " FIXED STEPS, 2, "the last batch of the test's 6 samples has 2, which the model does not");
  assert_false(exists("fixed/checkpoint-0000000000.braid") || exists("fixed"));
  expect_failure("test " FIXED " --batch 4", 2, "the last batch of the test's 6 samples has 2, which the model does");
  expect("train " FIXED STEPS " --no-test", 0, "trains: 1 tensors, 2 numbers");
  char *report = get_file(in_folder("fixed/report.html"), NULL);
  assert_non_null(strstr(report, "Learning rate"));
  assert_null(strstr(report, "Accuracy"));
  free(report);
  expect("train " FIXED ":loss" STEPS " --no-test --resume", 0, "trains: 1 tensors, 2 numbers");
  put_own_loss(in_folder("fixed.onnx"), 3);
  expect("train $/fixed.onnx --data csv:$/line.csv,target=y,targets=numbers --loss output --batch 3 --epochs 1 --lr "
         "0.005 --out $/third",
         0, "trains: 1 tensors");
}

/* Another network, and the same data from another place. */
static void test_other_model_and_place(void **state) {
  (void)state;
  size_t bytes;
  char *cfg = get_file(GLYPHS, &bytes);
  char *filters = strstr(cfg, "leaky");
  if (!filters) filters = strstr(cfg, "relu");
  assert_non_null(filters);
  memcpy(filters, filters[0] == 'l' ? "relu " : "selu", filters[0] == 'l' ? 5 : 4);
  put_file(in_folder("other.cfg"), cfg, bytes);
  free(cfg);
  expect(SHORT DATA "--epochs 1 --out $/place", 0, "");
  expect_failure("train $/other.cfg --no-test --batch 32 --threads 1 " DATA "--epochs 2 --out $/place --resume", 2,
                 "structure of the model was");
  expect(SHORT "--data builtin:glyphs,limit=64,augment=none --epochs 2 --out $/place --resume", 0,
         "another data set: builtin:glyphs,limit=64,augment=none, it was builtin:glyphs,limit=64");
}

/* --- the same data? ------------------------------------------------------------------------------------------------
 */
/* The byte of `path` at `offset` with `bits` changed. */
static void change_byte(const char *path, long offset, int bits) {
  FILE *file = fopen(in_folder(path), "r+b");
  assert_non_null(file);
  assert_int_equal(fseek(file, offset, SEEK_SET), 0);
  int byte = fgetc(file);
  assert_int_equal(fseek(file, offset, SEEK_SET), 0);
  assert_int_equal(fputc(byte ^ bits, file), byte ^ bits);
  assert_int_equal(fclose(file), 0);
}

/* Arrays of zeros, as numpy writes them. */
static void put_array(const char *path, const char *shape, size_t bytes) {
  char head[129];
  memcpy(head, "\x93NUMPY\1\0\x76\0", 10);
  snprintf(head + 10, sizeof head - 10, "{'descr': '|u1', 'fortran_order': False, 'shape': %s, }%*s", shape,
           (int)(66 - strlen(shape)), "");
  head[127] = '\n';
  char *all = calloc(1, 128 + bytes);
  assert_non_null(all);
  memcpy(all, head, 128);
  put_file(in_folder(path), all, 128 + bytes);
  free(all);
}

/* One label or one number of a thousand samples; it need not be among any that are tried. */
static void test_changed_data(void **state) {
  (void)state;
#define ARRAYS "train " GLYPHS " --no-test --batch 500 --data npy:$/images.npy+$/labels.npy,size=32x32 --out $/arrays "
  enum { SAMPLES = 1000, PIXELS = 3 * 2 * 2 };
  put_array("images.npy", "(1000, 3, 2, 2)", SAMPLES * PIXELS);
  put_array("labels.npy", "(1000,)", SAMPLES);
  change_byte("labels.npy", 128, 9); /* ten classes */
  expect(ARRAYS "--epochs 1", 0, "");
  static const int samples[] = {1, 4, 501, 998, 999};
  for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
    for (int k = 0; k < 2; k++) {
      const char *path = k ? "images.npy" : "labels.npy";
      long offset = 128 + samples[i] * (k ? PIXELS : 1);
      change_byte(path, offset, 1);
      expect_failure(ARRAYS "--epochs 2 --resume", 2, "checksum of the data set was");
      change_byte(path, offset, 1);
    }
  expect(ARRAYS "--epochs 2 --resume", 0, "");
}

/* --- one folder ----------------------------------------------------------------------------------------------------
 */
static char *newest_in(const char *path) {
  size_t count;
  return get_file(in_folder(path), &count);
}

/* Starting over leaves nothing of the earlier run to be resumed by mistake, and writes over nothing of it. */
static void test_earlier(void **state) {
  (void)state;
  expect(SHORT DATA "--epochs 3 --out $/e", 0, "");
  char *first = newest_in("e/model.onnx");
  expect(SHORT DATA "--epochs 1 --seed 2 --out $/e", 0, "e holds an earlier run: what it left is moved to ");
  assert_true(exists("e/checkpoint-0000000002.braid"));
  assert_false(exists("e/checkpoint-0000000006.braid"));
  assert_true(exists("e/earlier/checkpoint-0000000006.braid"));
  char *second = newest_in("e/model.onnx");
  expect(SHORT DATA "--epochs 1 --seed 3 --out $/e", 0, "earlier-2");
  assert_true(exists("e/earlier/checkpoint-0000000006.braid"));
  assert_true(exists("e/earlier-2/checkpoint-0000000002.braid"));
  char *kept = newest_in("e/earlier/model.onnx"), *kept_second = newest_in("e/earlier-2/model.onnx");
  assert_memory_equal(first, kept, 4096);
  assert_memory_equal(second, kept_second, 4096);
  assert_memory_not_equal(first, second, 4096);
  expect(SHORT DATA "--epochs 4 --out $/e/earlier --resume", 0,
         "another number of epochs"); /* which is a run's folder */
  char *whole[] = {first, second, kept, kept_second};
  for (int i = 0; i < 4; i++) free(whole[i]);
}

/* A run killed while it set an earlier one aside, after any number of its files: nothing is split, and it is still
 * there to be resumed. */
static void test_killed_setting_aside(void **state) {
  (void)state;
  static const char *const left[] = {"model.onnx", "report.html", "checkpoint-0000000004.braid",
                                     "checkpoint-0000000006.braid"};
  enum { LEFT = sizeof left / sizeof *left };
  for (int moved = 0; moved <= LEFT; moved++)
    for (int resumed = 0; resumed < 2; resumed++) {
      char line[200], out[32], from[64], to[64];
      snprintf(out, sizeof out, "aside-%d-%d", moved, resumed);
      snprintf(line, sizeof line, SHORT DATA "--epochs 3 --out $/%s", out);
      expect(line, 0, "");
      snprintf(to, sizeof to, "%s/.braid.aside", out);
      assert_int_equal(mkdir(in_folder(to), 0777), 0);
      for (int i = 0; i < moved; i++) {
        snprintf(from, sizeof from, "%s/%s", out, left[i]);
        snprintf(to, sizeof to, "%s/.braid.aside/%s", out, left[i]);
        assert_int_equal(rename(in_folder(from), in_folder(to)), 0);
      }
      snprintf(line, sizeof line, SHORT DATA "--epochs %d --out $/%s%s", resumed ? 4 : 1, out,
               resumed ? " --resume" : "");
      expect(line, 0, resumed ? "another number of epochs: 4" : "what it left is moved to");
      for (int i = 0; i < LEFT && !resumed; i++) {
        snprintf(to, sizeof to, "%s/earlier/%s", out, left[i]);
        if (!exists(to)) fail_msg("%s is not there", to);
      }
      const char *const gone[] = {".braid.aside", "earlier-2", resumed ? "earlier" : "checkpoint-0000000006.braid"};
      for (int i = 0; i < 3; i++) {
        snprintf(to, sizeof to, "%s/%s", out, gone[i]);
        if (exists(to)) fail_msg("%s is there", to);
      }
    }
}

/* Without --out what is trained is kept in a folder that was not there before. */
static void test_kept_without_out(void **state) {
  (void)state;
  char kept[2][64] = {"", ""};
  for (int i = 0; i < 2; i++) {
    outcome o = run(SHORT DATA "--epochs 1");
    if (o.code != 0) fail_msg("%s", o.err);
    char *told = strstr(o.out, "trained model: ");
    assert_non_null(told);
    assert_int_equal(sscanf(told, "trained model: %63[^/]/model.onnx", kept[i]), 1);
    discard(&o);
    assert_int_equal(strncmp(kept[i], "glyphs-20", 9), 0);
    assert_int_equal(access(kept[i], F_OK), 0);
  }
  assert_string_not_equal(kept[0], kept[1]);
  expect_failure(SHORT "--data builtin:glyphs,limit=10", 2, "10 samples");
  char line[200];
  snprintf(line, sizeof line, SHORT DATA "--epochs 2 --resume --out %s", kept[0]);
  expect(line, 0, "another number of epochs");
  int folders = 0;
  DIR *here = opendir(".");
  for (struct dirent *entry; (entry = readdir(here));) folders += strncmp(entry->d_name, "glyphs-20", 9) == 0;
  closedir(here);
  assert_int_equal(folders, 2); /* a run that did not begin leaves none */
}

/* Two runs never write to one folder; the lock of a killed run goes with it. */
static void test_lock(void **state) {
  (void)state;
  pid_t child = start(SHORT "--data builtin:glyphs --epochs 1000 --out $/locked", "/dev/null", in_folder("out.1"),
                      in_folder("err.1"));
  char detail[64];
  snprintf(detail, sizeof detail, "in use by another run, process %ld", (long)child);
  for (int i = 0; !exists("locked/checkpoint-0000000000.braid"); i++) {
    assert_true(i < 600);
    nap(0.05);
  }
  expect_failure(SHORT DATA "--epochs 1 --out $/locked", 1, detail);
  expect_failure(SHORT DATA "--epochs 1 --out $/locked --resume", 1, detail);
  assert_true(exists("locked/checkpoint-0000000000.braid"));
  assert_false(exists("locked/earlier"));
  kill(child, SIGKILL);
  assert_int_equal(await(child), 128 + SIGKILL);
  put_file(in_folder("locked/lock"), "of the user\n", 12);
  expect(SHORT DATA "--epochs 1 --out $/locked", 0, "an earlier run");
  assert_false(exists("locked/.braid.lock"));
  assert_true(exists("locked/lock"));
}

/* What can be known before the first step is said before it. */
static void test_unusable_folder(void **state) {
  (void)state;
  put_file(in_folder("file"), "x", 1);
  expect_failure(SHORT DATA "--epochs 1 --out $/file", 1, "file: cannot create the folder: Not a directory");
  expect_failure(SHORT DATA "--epochs 1 --out $/file/below", 1, "cannot create the folder: Not a directory");
  expect_failure(SHORT DATA "--epochs 1 --out /proc/braid", 1, "/proc/braid: cannot create the folder");
  if (geteuid() != 0) {
    assert_int_equal(mkdir(in_folder("closed"), 0555), 0);
    expect_failure(SHORT DATA "--epochs 1 --out $/closed", 1, "closed/.braid.lock: cannot create: Permission denied");
  }
}

#define CONSTANT "--schedule constant "

static void test_full_disk(void **state) {
  (void)state;
  outcome o = run_within(SHORT DATA CONSTANT "--epochs 1 --out $/full", 8192);
  assert_int_equal(o.code, 1);
  assert_non_null(strstr(o.err, "checkpoint-0000000000.braid: cannot write: File too large"));
  assert_null(strstr(o.out, "epoch 1"));
  discard(&o);
  expect(SHORT DATA CONSTANT "--epochs 2 --out $/full", 0, "");
  /* The disk fills up later: training goes on, nothing that was there is lost, and the run fails. */
  o = run_within(SHORT DATA CONSTANT "--epochs 3 --out $/full --resume", 8192);
  assert_int_equal(o.code, 1);
  assert_non_null(strstr(o.err, "the checkpoint was not written"));
  assert_non_null(strstr(o.out, "epoch 3/3"));
  discard(&o);
  assert_true(exists("full/checkpoint-0000000004.braid"));
  expect(SHORT DATA CONSTANT "--epochs 3 --out $/full --resume", 0, "");
  expect(SHORT DATA CONSTANT "--epochs 3 --out $/whole-of-full", 0, "");
  size_t count;
  char *whole = get_file(in_folder("whole-of-full/model.onnx"), &count);
  expect_same_model(in_folder("full/model.onnx"), whole, count);
  free(whole);
}

/* --- what fails beside training --------------------------------------------------------------------------------------
 */
static void put_pictures(const char *split, int broken) {
  size_t bytes;
  char *picture = get_file(PICTURE, &bytes);
  for (int c = 0; c < 10; c++) {
    char command[200], path[80];
    snprintf(command, sizeof command, "mkdir -p %s/pictures/%s/%d", folder, split, c);
    assert_int_equal(system(command), 0);
    snprintf(path, sizeof path, "pictures/%s/%d/one.png", split, c);
    put_file(in_folder(path), picture, c == broken ? bytes / 2 : bytes);
  }
  free(picture);
}

/* A test or a report that fails is said, and costs nothing of what was trained. */
static void test_failing_test(void **state) {
  (void)state;
  put_pictures("train", -1);
  put_pictures("test", 9);
  outcome o =
      run("train " GLYPHS " --data images:$/pictures,size=32x32 --batch 5 --epochs 2 --threads 1 --out $/tested");
  assert_int_equal(o.code, 1);
  assert_non_null(strstr(o.err, "epoch 1: the test failed: "));
  assert_non_null(strstr(o.err, "9/one.png"));
  assert_non_null(strstr(o.out, "epoch 2/2"));
  assert_null(strstr(o.out, "test loss"));
  assert_non_null(strstr(o.out, "tested/model.onnx"));
  discard(&o);
  assert_true(exists("tested/checkpoint-0000000004.braid"));
  assert_true(exists("tested/report.html"));
  put_pictures("test", -1); /* mended, it goes on */
  o = run("train " GLYPHS
          " --data images:$/pictures,size=32x32 --batch 5 --epochs 3 --threads 1 --out $/tested --resume");
  if (o.code != 0) fail_msg("%s", o.err);
  assert_non_null(strstr(o.out, "epoch 3/3"));
  assert_non_null(strstr(o.out, "test loss"));
  discard(&o);
}

static void test_failing_report(void **state) {
  (void)state;
  expect(SHORT DATA "--epochs 1 --out $/reported", 0, "");
  assert_int_equal(unlink(in_folder("reported/report.html")), 0);
  assert_int_equal(mkdir(in_folder("reported/report.html"), 0777), 0);
  outcome o = run(SHORT DATA "--epochs 3 --out $/reported --resume");
  assert_int_equal(o.code, 1);
  assert_non_null(strstr(o.err, "epoch 2: the report was not written: "));
  assert_non_null(strstr(o.out, "epoch 3/3"));
  discard(&o);
  assert_true(exists("reported/checkpoint-0000000006.braid"));
}

/* Byte for byte, however large. */
static bool same_files(const char *one, const char *other) {
  FILE *files[] = {fopen(one, "rb"), fopen(other, "rb")};
  assert_non_null(files[0]);
  assert_non_null(files[1]);
  bool same = true;
  for (int c = 0; same && c != EOF;) {
    c = getc(files[0]);
    same = c == getc(files[1]);
  }
  fclose(files[0]);
  fclose(files[1]);
  return same;
}

/* What is trained does not depend on the number of threads. */
static void test_threads(void **state) {
  (void)state;
  static const char *const kRuns[] = {
      "train " GLYPHS " --data builtin:glyphs,limit=192 --batch 64 --optimizer adam",
      "train " BRAID_MODELS "/resnet20.cfg --data builtin:glyphs,limit=32 --batch 16",
      "train " BRAID_MODELS "/vgg-tile.cfg --data builtin:glyphs,limit=12 --batch 6",
  };
  for (size_t i = 0; i < sizeof kRuns / sizeof *kRuns; i++)
    for (int threads = 1; threads <= 3; threads++) {
      char *line, first[32], name[32];
      assert_true(
          asprintf(&line, "%s --no-test --epochs 1 --threads %d --out $/n%zu-%d", kRuns[i], threads, i, threads) > 0);
      outcome o = run(line);
      if (o.code != 0) fail_msg("%s: %s", line, o.err);
      snprintf(first, sizeof first, "n%zu-1/model.onnx", i);
      snprintf(name, sizeof name, "n%zu-%d/model.onnx", i, threads);
      if (!same_files(in_folder(first), in_folder(name))) fail_msg("%s: not what one thread trains", line);
      discard(&o);
      free(line);
    }
}

static void test_not_finite(void **state) {
  (void)state;
  expect_failure("train " GLYPHS
                 " --data builtin:glyphs,limit=512 --no-test --batch 32 --epochs 1 --lr 1e9 --out $/wild",
                 1, "epoch 1, step ");
}

/* --- the program ---------------------------------------------------------------------------------------------------
 */
int main(void) {
  setenv("OMP_WAIT_POLICY", "passive", 0);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_interrupted),
      cmocka_unit_test(test_killed),
      cmocka_unit_test(test_resume),
      cmocka_unit_test(test_other_settings),
      cmocka_unit_test(test_recipes_refused),
      cmocka_unit_test(test_groups),
      cmocka_unit_test(test_monitor),
      cmocka_unit_test(test_own_loss),
      cmocka_unit_test(test_own_loss_of_a_batch),
      cmocka_unit_test(test_fine_tuning),
      cmocka_unit_test(test_other_model_and_place),
      cmocka_unit_test(test_changed_data),
      cmocka_unit_test(test_earlier),
      cmocka_unit_test(test_killed_setting_aside),
      cmocka_unit_test(test_kept_without_out),
      cmocka_unit_test(test_lock),
      cmocka_unit_test(test_unusable_folder),
      cmocka_unit_test(test_full_disk),
      cmocka_unit_test(test_failing_test),
      cmocka_unit_test(test_failing_report),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_not_finite),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
