/* `braid quantize`: what it prints and writes, how it fails; and beside NumPy and ONNX Runtime, where BRAID_PYTHON
 * names a Python that has them (oracle/quantize.py). */
#include <math.h>
#include <sys/stat.h>

#include "braid/tensor.h"
#include "clicheck.h"
#include "skip.h"

#define NET "$/net/model.onnx"
#define DATA " --data builtin:glyphs,limit=600"

static outcome run_well(const char *line) {
  outcome o = run(line);
  if (o.code != 0) fail_msg("braid %s ends with code %d: %s", line, o.code, o.err);
  return o;
}

/* A network that knows something, once for all tests. */
static int train_network(void **state) {
  (void)state;
  if (!mkdtemp(folder)) return -1;
  outcome o =
      run_well("train " GLYPHS " --data builtin:glyphs,limit=6000 --batch 50 --epochs 3 --optimizer adam --lr 0.003 "
               "--schedule one-cycle --out $/net");
  discard(&o);
  return 0;
}

static double number_behind(const char *json, const char *section, const char *key) {
  const char *at = strstr(json, section);
  if (at) at = strstr(at, key);
  if (!at) fail_msg("there is no %s in %s", key, section);
  return strtod(at + strlen(key), NULL);
}

static void test_result(void **state) {
  (void)state;
  static const char *const kCalibrations[] = {"minmax", "percentile", "percentile:99.9", "entropy"};
  for (size_t i = 0; i < sizeof kCalibrations / sizeof *kCalibrations; i++) {
    char line[256];
    snprintf(line, sizeof line, "quantize " NET DATA " --out $/q.onnx --json --samples 200 --layers 2 --calibration %s",
             kCalibrations[i]);
    outcome o = run_well(line);
    assert_true(is_one_document(o.out));
    double before = number_behind(o.out, "\"float\"", "\"accuracy\":");
    double after = number_behind(o.out, "\"quantized\"", "\"accuracy\":");
    assert_true(before > 0.5 && after > before - 0.03);
    assert_true(number_behind(o.out, "\"quantized\"", "\"agreement\":") > 0.95);
    assert_true(number_behind(o.out, "{", "\"samples\":") == 200);
    assert_non_null(strstr(o.out, "\"own_sqnr_db\":"));
    assert_non_null(strstr(o.out, "\"without\":"));
    discard(&o);
    /* what `braid test` measures of the file is what was said */
    o = run_well("test $/q.onnx" DATA " --json");
    assert_true(fabs(number_behind(o.out, "{", "\"accuracy\":") - after) < 1e-9);
    discard(&o);
  }
}

static void test_powers_of_two(void **state) {
  (void)state;
  outcome o = run_well("quantize " NET DATA " --out $/q.onnx --scales power-of-two --activations int8 --layers 0");
  assert_non_null(strstr(o.out, "scales of activations, all powers of two"));
  discard(&o);
  o = run_well("quantize " NET DATA " --out $/q.onnx --json --scales power-of-two --layers 0");
  assert_non_null(strstr(o.out, "\"scales\":\"power-of-two\""));
  assert_true(number_behind(o.out, "\"quantized\"", "\"accuracy\":") >
              number_behind(o.out, "\"float\"", "\"accuracy\":") - 0.03);
  double after = number_behind(o.out, "\"quantized\"", "\"accuracy\":");
  discard(&o);
  o = run_well("test $/q.onnx" DATA " --json");
  assert_true(fabs(number_behind(o.out, "{", "\"accuracy\":") - after) < 1e-9);
  discard(&o);
}

static void test_text(void **state) {
  (void)state;
  outcome o = run_well("quantize " NET DATA " --out $/q.onnx --test-samples 50 --keep 2_* --layers 1 --threads 1");
  assert_non_null(strstr(o.out, "calibration  minmax, 512 samples; tested on 50 others"));
  assert_non_null(strstr(o.out, "in float     "));
  assert_non_null(strstr(o.out, ": it is kept"));
  assert_non_null(strstr(o.out, "agreement"));
  assert_non_null(strstr(o.out, "(--layers N for more)"));
  assert_string_equal(o.err, "");
  discard(&o);
}

/* Threads change nothing, the seed changes what is drawn. */
static void test_repeats(void **state) {
  (void)state;
  static const char *const kLines[] = {"--threads 1", "--threads 2", "--threads 2 --seed 5"};
  char *files[3];
  size_t bytes[3];
  for (int i = 0; i < 3; i++) {
    char line[256];
    snprintf(line, sizeof line, "quantize " NET DATA " --out $/q%d.onnx --samples 20 --layers 0 %s", i, kLines[i]);
    outcome o = run_well(line);
    discard(&o);
    snprintf(line, sizeof line, "q%d.onnx", i);
    files[i] = get_file(in_folder(line), &bytes[i]);
  }
  assert_int_equal(bytes[0], bytes[1]);
  assert_memory_equal(files[0], files[1], bytes[0]);
  assert_true(bytes[2] != bytes[0] || memcmp(files[0], files[2], bytes[0]) != 0);
  for (int i = 0; i < 3; i++) free(files[i]);
}

/* Samples as an array, without labels; an existing file is replaced. */
static void test_arrays(void **state) {
  (void)state;
  braid_desc desc;
  braid_tensor *array;
  assert_int_equal(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){21, 3, 32, 32}), BRAID_OK);
  assert_int_equal(braid_tensor_create(NULL, &desc, &array), BRAID_OK);
  float *data = braid_tensor_data(array);
  for (int i = 0; i < 21 * 3072; i++) data[i] = (float)(i * 2654435761U >> 8 & 255) / 255;
  assert_int_equal(braid_npy_save(in_folder("x.npy"), array), BRAID_OK);
  put_file(in_folder("old.onnx"), "old", 3);
  outcome o = run_well("quantize " NET " --input $/x.npy --out $/old.onnx --batch 8 --json");
  assert_true(is_one_document(o.out));
  assert_non_null(strstr(o.out, "\"accuracy\":null"));
  assert_true(number_behind(o.out, "\"quantized\"", "\"sqnr_db\":") > 15);
  discard(&o);
  o = run_well("bench $/old.onnx --runs 1");
  assert_non_null(strstr(o.out, "FusedQLinearConv"));
  discard(&o);
  data[4] = NAN;
  assert_int_equal(braid_npy_save(in_folder("nan.npy"), array), BRAID_OK);
  expect_failure("quantize " NET " --input $/nan.npy --out $/never.onnx", 1, "is NaN or infinite");
  assert_int_not_equal(access(in_folder("never.onnx"), F_OK), 0);
  braid_tensor_release(array);
}

static void test_failures(void **state) {
  (void)state;
  expect_failure("quantize " NET DATA, 2, "--out FILE is expected");
  expect_failure("quantize " NET " --out $/q.onnx", 2, "--data SPEC is expected");
  expect_failure("quantize " NET DATA " --input $/x.npy --out $/q.onnx", 2, "cannot be combined");
  expect_failure("quantize " NET DATA " --out $/q.onnx --calibration mean", 2, "minmax, percentile, percentile:P or");
  expect_failure("quantize " NET DATA " --out $/q.onnx --calibration entropy:3", 2,
                 "minmax, percentile, percentile:P or");
  expect_failure("quantize " NET DATA " --out $/q.onnx --calibration percentile:10", 2, "a number from 50 to 100");
  expect_failure("quantize " NET DATA " --out $/q.onnx --activations int4", 2, "uint8 or int8 is expected");
  expect_failure("quantize " NET DATA " --out $/q.onnx --scales two", 2, "float or power-of-two is expected");
  expect_failure("quantize " NET DATA " --out $/q.onnx --scales power-of-two --activations uint8", 2,
                 "--scales power-of-two and --activations uint8 cannot be combined");
  expect_failure("quantize " NET DATA " --out $/q.onnx --samples 0", 2, "--samples");
  expect_failure("quantize " NET DATA " --out $/q.onnx --keep nothing", 2, "no node's name matches \"nothing\"");
  expect_failure("quantize " NET DATA " --out $/q.onnx --trace $/t.json", 2, "--trace has no effect");
  expect_failure("quantize " NET DATA " --out " NET, 2, "is the model itself");
  expect_failure("quantize " NET DATA " --out $/no/q.onnx --layers 0", 1, "q.onnx");
  expect_failure("quantize $/nope.onnx" DATA " --out $/q.onnx", 2, "nope.onnx");
  expect_failure("quantize " NET " --data idx:$/nope --out $/q.onnx", 2, "nope");
  outcome o = run_well("quantize " NET DATA " --out $/once.onnx --layers 0");
  discard(&o);
  expect_failure("quantize $/once.onnx" DATA " --out $/twice.onnx", 2, "the model is quantized already");
}

/* What cannot be written is said before data is looked at; what is there is left as it is, and nothing else is left. */
static void test_out_that_cannot_be_written(void **state) {
  (void)state;
  static const char *const kOut[] = {"$/no/q.onnx", "$/net", "$/net/report.html/q.onnx"};
  for (size_t i = 0; i < sizeof kOut / sizeof *kOut; i++) {
    char line[256];
    snprintf(line, sizeof line, "quantize " NET " --data idx:$/nope --out %s", kOut[i]);
    expect_failure(line, 1, "--out ");
  }
  assert_int_equal(mkdir(in_folder("spare"), 0777), 0);
  put_file(in_folder("spare/kept.onnx"), "old", 3);
  expect_failure("quantize " NET " --data idx:$/nope --out $/spare/kept.onnx", 2, "nope");
  expect_failure("quantize " NET " --data idx:$/nope --out $/spare/never.onnx", 2, "nope");
  size_t bytes;
  char *text = get_file(in_folder("spare/kept.onnx"), &bytes);
  assert_int_equal(bytes, 3);
  assert_memory_equal(text, "old", 3);
  free(text);
  unlink(in_folder("spare/kept.onnx"));
  assert_int_equal(rmdir(in_folder("spare")), 0);
}

/* A disk that is full is noticed last: what was measured is printed. */
static void test_full_disk(void **state) {
  (void)state;
  if (access("/dev/full", W_OK) != 0) skip_test("system", "there is no /dev/full");
  outcome o = run("quantize " NET DATA " --out /dev/full --layers 0");
  assert_int_equal(o.code, 1);
  assert_non_null(strstr(o.out, "quantized to /dev/full, which could not be written"));
  assert_non_null(strstr(o.out, "own SQNR"));
  assert_non_null(strstr(o.err, "/dev/full: cannot write: No space left"));
  discard(&o);
  o = run("quantize " NET DATA " --out /dev/full --layers 0 --json");
  assert_int_equal(o.code, 1);
  assert_true(is_one_document(o.out));
  assert_true(number_behind(o.out, "\"quantized\"", "\"accuracy\":") > 0.5);
  assert_non_null(strstr(o.out, "\"error\""));
  assert_non_null(strstr(o.err, "No space left"));
  discard(&o);
}

static void test_beside_peers(void **state) {
  (void)state;
  const char *python = getenv("BRAID_PYTHON");
  char command[1024];
  snprintf(command, sizeof command, "'%s' -c 'import onnxruntime.quantization' 2>/dev/null", python ? python : "");
  if (!python || !*python || system(command) != 0) skip_test("peers", "BRAID_PYTHON names no Python with onnxruntime");
  snprintf(command, sizeof command, "'%s' '%s/../oracle/quantize.py' '%s' '%s' 24 >'%s' 2>&1", python, BRAID_TEST_DATA,
           BRAID_COMMAND, folder, in_folder("peers.txt"));
  int code = system(command);
  if (code == 0) return;
  char *text = get_file(in_folder("peers.txt"), NULL);
  size_t length = strlen(text);
  fail_msg("%s", length > 2000 ? text + length - 2000 : text);
}

/* ONNX Runtime takes what training in integers saves, of normalizations and pools too, and its optimizer (but for the
 * one that docs/integer-training.md names) leaves the scores as they are. */
static void test_trained_in_integers(void **state) {
  (void)state;
  const char *python = getenv("BRAID_PYTHON");
  char command[2048];
  snprintf(command, sizeof command, "'%s' -c 'import onnxruntime' 2>/dev/null", python ? python : "");
  if (!python || !*python || system(command) != 0) skip_test("peers", "BRAID_PYTHON names no Python with onnxruntime");
  outcome o =
      run("train " GLYPHS " --data builtin:glyphs,limit=640 --precision int8 --epochs 1 --no-test --out $/integers");
  assert_int_equal(o.code, 0);
  discard(&o);
  snprintf(command, sizeof command,
           "'%s' -c 'import sys, numpy as np, onnxruntime as ort\n"
           "x = np.random.default_rng(1).normal(size=(64, 3, 32, 32)).astype(np.float32)\n"
           "plain = ort.SessionOptions()\n"
           "plain.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL\n"
           "ort.InferenceSession(sys.argv[1])\n"
           "ways = [ort.InferenceSession(sys.argv[1], plain),\n"
           "        ort.InferenceSession(sys.argv[1], disabled_optimizers=[\"WeightBiasQuantization\"])]\n"
           "a, b = [way.run(None, {way.get_inputs()[0].name: x})[0] for way in ways]\n"
           "assert a.std() > 0 and np.abs(a - b).max() <= 2 ** -7' '%s/integers/model.onnx' >'%s' 2>&1",
           python, folder, in_folder("runtime.txt"));
  int code = system(command);
  char *text = get_file(in_folder("runtime.txt"), NULL);
  if (code != 0) fail_msg("%.1500s", text);
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_result),
                                     cmocka_unit_test(test_powers_of_two),
                                     cmocka_unit_test(test_text),
                                     cmocka_unit_test(test_repeats),
                                     cmocka_unit_test(test_arrays),
                                     cmocka_unit_test(test_failures),
                                     cmocka_unit_test(test_out_that_cannot_be_written),
                                     cmocka_unit_test(test_full_disk),
                                     cmocka_unit_test(test_beside_peers),
                                     cmocka_unit_test(test_trained_in_integers)};
  return skip_run_group_tests(tests, train_network, remove_folder);
}
