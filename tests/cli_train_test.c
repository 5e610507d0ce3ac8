/* Training from the command line: what was trained is never lost, whoever kills the run, whatever fails beside it; and
 * a run goes on only as what it was. */
#include <dirent.h>

#include "cli_train_fixture.h"

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
  expect(SHORT DATA "--schedule step --step-epochs 1 --epochs 2 --out $/drops", 0, "");
  expect_failure(SHORT DATA "--schedule step --step-epochs 2 --epochs 3 --out $/drops --resume", 2,
                 "epochs between drops was 1, is 2");
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

static int count_in(const char *text, const char *part) {
  int count = 0;
  for (const char *at = text; (at = strstr(at, part)); at++) count++;
  return count;
}

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
  assert_int_equal(count_in(o.err, "warning: epoch 3: the checkpoint was not written"), 1);
  assert_int_equal(count_in(o.err, "warning: epoch 3: the model was not written"), 1);
  assert_non_null(strstr(o.err, "trained to the end, but not all went well: epoch 3: the checkpoint was not written"));
  assert_null(strstr(o.err, "training goes on"));
  assert_non_null(strstr(o.out, "epoch 3/3"));
  assert_null(strstr(o.out, "trained model"));
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
