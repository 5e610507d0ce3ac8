/* Ways to train from the command line: recipes, groups of parameters, fine-tuning, epochs that are the best, losses of
 * the model's own. */
#include "cli_train_fixture.h"

#include <dirent.h>

#include "braid/model.h"
#include "graph/graph.h"

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
      {DATA "--epochs 2 --warmup 5", "the warm-up takes 5 steps, and the training has 4"},
      {DATA "--steps 3 --warmup 4", "the warm-up takes 4 steps, and the training has 3"},
      {DATA "--epochs 3 --schedule step --step-epochs 3", "every 3 epochs, and the training has 3"},
      {DATA "--steps 5 --schedule step", "every 30 epochs, and the training has 3"},
      {DATA "--steps 3 --lookahead 4", "every 4 steps, and the training has 3"},
      {"--data builtin:glyphs,augment=crop+flip+crop", "augment: crop is given twice"},
      {"--data builtin:glyphs,views=flip+flip", "views: flip is given twice"},
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

/* More epochs make room for what the run's own were too few for, and fewer are refused as in a new run. */
static void test_extended(void **state) {
  (void)state;
#define WARM SHORT DATA "--warmup 4 --out $/warm "
  expect_failure(WARM "--epochs 1", 2, "the warm-up takes 4 steps, and the training has 2");
  assert_false(exists("warm"));
  expect(WARM "--epochs 2", 0, "");
  expect_failure(WARM "--epochs 1 --resume", 2, "the warm-up takes 4 steps, and the training has 2");
  expect(WARM "--epochs 3 --resume", 0, "another number of epochs: 3, it was 2");
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

int main(void) {
  setenv("OMP_WAIT_POLICY", "passive", 0);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_recipes_refused),     cmocka_unit_test(test_extended), cmocka_unit_test(test_groups),
      cmocka_unit_test(test_fine_tuning),         cmocka_unit_test(test_monitor),  cmocka_unit_test(test_own_loss),
      cmocka_unit_test(test_own_loss_of_a_batch),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
