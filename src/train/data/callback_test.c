/* Data sets of a program's own give what the same samples in files give: same batches, same augmentation, same sum. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/philox.h"
#include "oom.h"
#include "tensor/npy.h"
#include "train/data/dataset.h"

enum { kSamples = 40, kChannels = 3, kSide = 6, kNumbers = kChannels * kSide * kSide, kClasses = 4 };

static float pixels[kSamples][kNumbers];
static uint8_t labels[kSamples];
static int closed;
static int64_t failing = -1;
static const char *const kNames[kClasses] = {"ant", "bee", "cat", "dog"};

static braid_status read_mine(void *context, int64_t index, float *out, int32_t *label) {
  assert_ptr_equal(context, pixels);
  if (index == failing) return braid_fail(BRAID_IO, "the disk is gone");
  memcpy(out, pixels[index], sizeof pixels[index]);
  *label = labels[index];
  return BRAID_OK;
}

static void close_mine(void *context) {
  assert_ptr_equal(context, pixels);
  closed++;
}

static const braid_dataset_source kMine = {.name = "mine",
                                           .samples = kSamples,
                                           .channels = kChannels,
                                           .height = kSide,
                                           .width = kSide,
                                           .classes = kClasses,
                                           .class_names = kNames,
                                           .read = read_mine,
                                           .close = close_mine,
                                           .context = pixels};

static braid_dataset *create(const char *keys) {
  braid_dataset *dataset;
  if (braid_dataset_create(NULL, &kMine, keys, &dataset) != BRAID_OK) fail_msg("%s", braid_error_detail());
  return dataset;
}

static int fill_samples(void **state) {
  (void)state;
  for (int i = 0; i < kSamples; i++) {
    labels[i] = (uint8_t)(i * 7 % kClasses);
    for (int k = 0; k < kNumbers; k++) pixels[i][k] = 4 * braid_random_uniform(5, 0, (uint32_t)i, (uint64_t)k) - 2;
  }
  return 0;
}

static void save(const char *path, braid_dtype dtype, int rank, const int64_t *dims, const void *data, size_t bytes) {
  braid_desc desc;
  braid_tensor *tensor;
  assert_int_equal(braid_desc_init(&desc, dtype, rank, dims), BRAID_OK);
  assert_int_equal(braid_tensor_create(NULL, &desc, &tensor), BRAID_OK);
  memcpy(braid_tensor_data(tensor), data, bytes);
  assert_int_equal(braid_npy_save(path, tensor), BRAID_OK);
  braid_tensor_release(tensor);
}

static void compare_batches(braid_dataset *a, braid_dataset *b) {
  braid_loader *loaders[2];
  const braid_loader_options options = {.batch = 7, .seed = 3, .shuffle = true, .augment = true, .threads = 3};
  assert_int_equal(braid_loader_create(a, &options, 0, 0, &loaders[0]), BRAID_OK);
  assert_int_equal(braid_loader_create(b, &options, 0, 0, &loaders[1]), BRAID_OK);
  braid_dataset_info info = braid_dataset_get_info(a);
  size_t numbers = (size_t)(info.channels * info.height * info.width) * 7;
  for (int i = 0; i < 12; i++) {
    braid_batch x, y;
    assert_int_equal(braid_loader_next(loaders[0], &x), BRAID_OK);
    assert_int_equal(braid_loader_next(loaders[1], &y), BRAID_OK);
    assert_int_equal(x.count, y.count);
    assert_memory_equal(x.images, y.images, numbers * sizeof(float));
    assert_memory_equal(x.labels, y.labels, 7 * sizeof(int32_t));
  }
  for (int i = 0; i < 2; i++) braid_loader_destroy(loaders[i]);
}

static void test_like_files(void **state) {
  (void)state;
  static const char *const keys[] = {"", "mean=0.5/0.25/0.125,std=2,order=bgr,augment=crop+flip,pad=2",
                                     "size=9x4,channels=1,augment=flip,limit=30,scale=3"};
  char folder[] = "/tmp/braid-callback-XXXXXX", images[64], truth[64];
  assert_non_null(mkdtemp(folder));
  snprintf(images, sizeof images, "%s/x.npy", folder);
  snprintf(truth, sizeof truth, "%s/y.npy", folder);
  save(images, BRAID_F32, 4, (int64_t[]){kSamples, kChannels, kSide, kSide}, pixels, sizeof pixels);
  save(truth, BRAID_U8, 1, (int64_t[]){kSamples}, labels, sizeof labels);
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    char spec[256];
    uint32_t sums[2];
    braid_dataset *file, *mine = create(keys[i]);
    snprintf(spec, sizeof spec, "npy:%s+%s%s%s", images, truth, *keys[i] ? "," : "", keys[i]);
    if (braid_dataset_open(NULL, spec, "train", &file) != BRAID_OK) fail_msg("%s", braid_error_detail());
    compare_batches(file, mine);
    assert_int_equal(braid_dataset_sum(file, &sums[0]), BRAID_OK);
    assert_int_equal(braid_dataset_sum(mine, &sums[1]), BRAID_OK);
    assert_int_equal(sums[0], sums[1]);
    braid_dataset_close(file);
    closed = 0;
    braid_dataset_close(mine);
    assert_int_equal(closed, 1);
  }
  unlink(images);
  unlink(truth);
  rmdir(folder);
}

/* Targets that are wrong are found when the set is opened, and named. */
static void test_wrong_targets(void **state) {
  (void)state;
  static const struct {
    braid_dtype dtype;
    const char *says;
  } kCases[] = {{BRAID_U8, "target 1 of sample 2 is 255, 0 to 1 is expected"},
                {BRAID_F32, "target 1 of sample 2 is nan, a finite number is expected"}};
  char folder[] = "/tmp/braid-callback-XXXXXX", images[64], truth[64], spec[256];
  assert_non_null(mkdtemp(folder));
  snprintf(images, sizeof images, "%s/x.npy", folder);
  snprintf(truth, sizeof truth, "%s/y.npy", folder);
  snprintf(spec, sizeof spec, "npy:%s+%s", images, truth);
  save(images, BRAID_F32, 4, (int64_t[]){kSamples, kChannels, kSide, kSide}, pixels, sizeof pixels);
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    static uint8_t bytes[kSamples][3];
    static float numbers[kSamples][3];
    braid_dataset *dataset;
    bytes[2][1] = 255;
    numbers[2][1] = NAN;
    bool byte = kCases[i].dtype == BRAID_U8;
    save(truth, kCases[i].dtype, 2, (int64_t[]){kSamples, 3}, byte ? (const void *)bytes : numbers,
         byte ? sizeof bytes : sizeof numbers);
    assert_int_equal(braid_dataset_open(NULL, spec, "train", &dataset), BRAID_INVALID_FILE);
    if (!strstr(braid_error_detail(), kCases[i].says)) fail_msg("%s", braid_error_detail());
  }
  unlink(images);
  unlink(truth);
  rmdir(folder);
}

static void test_description(void **state) {
  (void)state;
  braid_dataset_source source = kMine;
  char name[] = "lent", first[] = "first";
  source.name = name;
  source.class_names = (const char *const[]){first, "b", "c", "d"};
  braid_dataset *dataset;
  assert_int_equal(braid_dataset_create(NULL, &source, NULL, &dataset), BRAID_OK);
  name[0] = first[0] = 'X'; /* copied */
  braid_dataset_info info = braid_dataset_get_info(dataset);
  assert_string_equal(info.spec, "lent");
  assert_true(info.samples == kSamples && info.channels == kChannels && info.height == kSide && info.width == kSide);
  assert_int_equal(info.classes, kClasses);
  assert_string_equal(info.class_names[0], "first");
  assert_false(info.one_part);
  failing = 5;
  float room[kNumbers];
  int32_t label;
  assert_int_equal(braid_dataset_sample(dataset, 5, room, &label), BRAID_IO);
  assert_string_equal(braid_error_detail(), "lent: sample 5: the disk is gone");
  failing = -1;
  labels[6] = kClasses;
  assert_int_equal(braid_dataset_sample(dataset, 6, room, &label), BRAID_INVALID_FILE);
  labels[6] = 0;
  braid_dataset_close(dataset);
  source.class_names = NULL;
  assert_int_equal(braid_dataset_create(NULL, &source, NULL, &dataset), BRAID_OK);
  assert_string_equal(braid_dataset_get_info(dataset).class_names[3], "3");
  braid_dataset_close(dataset);
}

static void refuse(braid_dataset_source source, const char *keys, const char *says) {
  braid_dataset *dataset;
  closed = 0;
  assert_true(braid_dataset_create(NULL, &source, keys, &dataset) != BRAID_OK);
  assert_null(dataset);
  assert_int_equal(closed, 0);
  if (!strstr(braid_error_detail(), says)) fail_msg("\"%s\" lacks \"%s\"", braid_error_detail(), says);
}

static void test_refused(void **state) {
  (void)state;
  braid_dataset_source none = kMine, wide = kMine, deep = kMine, empty = kMine, mute = kMine, plain = kMine,
                       anonymous = kMine;
  none.samples = 0;
  wide.width = 1 << 20;
  deep.channels = 5;
  empty.classes = 0;
  mute.read = NULL;
  plain.name = NULL;
  anonymous.class_names = (const char *const[]){"a", "b", NULL, "d"};
  refuse(none, NULL, "mine: has no samples");
  refuse(wide, NULL, "sides of 1 to 16384");
  refuse(deep, NULL, "1 to 4 channels");
  refuse(empty, NULL, "has 0 classes");
  refuse(mute, NULL, "no function that reads");
  refuse(plain, NULL, "a name is expected");
  refuse(anonymous, NULL, "class 2 has no name");
  refuse(kMine, "seed=4", "seed=4 is of builtin:glyphs");
  refuse(kMine, "split=test", "split=test has no effect");
  refuse(kMine, "colour=red", "unknown key \"colour\"");
  refuse(kMine, "mean=1/2", "mean");
}

static braid_status attempt(const braid_allocator *allocator, void *context) {
  (void)context;
  braid_dataset *dataset;
  braid_status status = braid_dataset_create(allocator, &kMine, "mean=1,augment=flip", &dataset);
  if (status == BRAID_OK) braid_dataset_close(dataset);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  oom_sweep(attempt, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_like_files), cmocka_unit_test(test_wrong_targets),
                                     cmocka_unit_test(test_description), cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_out_of_memory)};
  return cmocka_run_group_tests(tests, fill_samples, NULL);
}
