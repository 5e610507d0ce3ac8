#include <string.h>
#include <time.h>

#include "oom.h"
#include "train/data/dataset.h"

static braid_dataset *open_glyphs(const char *spec) {
  braid_dataset *dataset;
  if (braid_dataset_open(NULL, spec, "train", &dataset) != BRAID_OK) fail_msg("%s", braid_error_detail());
  return dataset;
}

static braid_loader *start(braid_dataset *dataset, braid_loader_options options, int64_t epoch, int64_t step) {
  braid_loader *loader;
  if (braid_loader_create(dataset, &options, epoch, step, &loader) != BRAID_OK) fail_msg("%s", braid_error_detail());
  return loader;
}

/* Every sample comes once per epoch, and in another order in the next. */
static void check_permutations(int threads) {
  braid_dataset *dataset = open_glyphs("builtin:glyphs,limit=103");
  braid_loader_options options = {.batch = 10, .seed = 7, .shuffle = true, .keep_last = true, .threads = threads};
  braid_loader *loader = start(dataset, options, 0, 0);
  assert_int_equal(braid_loader_steps(loader), 11);
  enum { kFloats = 3 * 32 * 32 };
  int64_t order[2][110];
  for (int epoch = 0; epoch < 2; epoch++) {
    bool seen[103] = {false};
    for (int64_t step = 0; step < 11; step++) {
      braid_batch batch;
      assert_int_equal(braid_loader_next(loader, &batch), BRAID_OK);
      assert_int_equal(batch.epoch, epoch);
      assert_int_equal(batch.step, step);
      assert_int_equal(batch.count, step == 10 ? 3 : 10);
      for (int64_t i = 0; i < batch.count; i++) {
        assert_false(seen[batch.indices[i]]);
        seen[batch.indices[i]] = true;
      }
      for (int64_t i = batch.count; i < 10; i++) { /* padded with the first: never with numbers of an earlier batch */
        assert_int_equal(batch.indices[i], batch.indices[0]);
        assert_int_equal(batch.labels[i], batch.labels[0]);
        assert_memory_equal(batch.images + i * kFloats, batch.images, kFloats * sizeof *batch.images);
      }
      memcpy(order[epoch] + step * 10, batch.indices, 10 * sizeof *batch.indices);
    }
    for (int i = 0; i < 103; i++) assert_true(seen[i]);
  }
  assert_memory_not_equal(order[0], order[1], sizeof order[0]);
  braid_loader_destroy(loader);
  braid_dataset_close(dataset);
}

static void test_epochs_are_permutations(void **state) {
  (void)state;
  for (int threads = 1; threads <= 16; threads *= 4) check_permutations(threads);
}

/* Samples of numbers, of which every 7th cannot be read: of the first batch the second one fails last, of the second
 * batch the first. */
static braid_status read_or_fail(void *context, int64_t index, float *pixels, int32_t *label) {
  (void)context;
  bool slow = index == 13 || index == 34;
  if (slow || index == 6) nanosleep(&(struct timespec){.tv_nsec = slow ? 30000000 : 3000000}, NULL);
  if (index % 7 == 6) return braid_fail(BRAID_IO, "number %lld", (long long)index);
  *pixels = (float)index;
  *label = 0;
  return BRAID_OK;
}

/* Threads that share a batch come to its failures in any order: it is the first row's that counts, and the next batch
 * has its own. */
static void test_failures_of_shared_batches(void **state) {
  (void)state;
  const braid_dataset_source source = {
      .name = "numbers", .samples = 64, .channels = 1, .height = 1, .width = 1, .classes = 1, .read = read_or_fail};
  braid_dataset *dataset;
  assert_int_equal(braid_dataset_create(NULL, &source, NULL, &dataset), BRAID_OK);
  for (int threads = 1; threads <= 16; threads *= 4) {
    braid_batch batch;
    braid_loader *loader = start(dataset, (braid_loader_options){.batch = 32, .threads = threads}, 0, 0);
    assert_int_equal(braid_loader_next(loader, &batch), BRAID_IO);
    assert_non_null(strstr(braid_error_detail(), "number 6"));
    assert_int_equal(braid_loader_next(loader, &batch), BRAID_IO);
    assert_non_null(strstr(braid_error_detail(), "number 34"));
    braid_loader_destroy(loader);
  }
  braid_dataset_close(dataset);
}

/* Bytes are finite once they are normalized, unless that makes infinities of them; numbers of a program may not be. */
static void test_finite(void **state) {
  (void)state;
  static const struct {
    const char *spec;
    bool finite;
  } kCases[] = {{"builtin:glyphs,limit=8,mean=0.5,std=0.25", true}, {"builtin:glyphs,limit=8,std=1e-44", false}};
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    braid_dataset *dataset = open_glyphs(kCases[i].spec);
    assert_int_equal(braid_dataset_is_finite(dataset), kCases[i].finite);
    braid_dataset_close(dataset);
  }
  const braid_dataset_source source = {
      .name = "numbers", .samples = 64, .channels = 1, .height = 1, .width = 1, .classes = 1, .read = read_or_fail};
  braid_dataset *dataset;
  assert_int_equal(braid_dataset_create(NULL, &source, NULL, &dataset), BRAID_OK);
  assert_false(braid_dataset_is_finite(dataset));
  braid_dataset_close(dataset);
}

/* Neither the number of threads nor the step at which a loader starts changes a bit of what it gives. */
static void check_same_bits(const char *spec, double mixup, double label_noise) {
  enum { BATCH = 16, STEPS = 12, FROM = 5, FLOATS = BATCH * 3 * 32 * 32 };
  braid_dataset *dataset = open_glyphs(spec);
  braid_loader_options options = {
      .batch = BATCH, .seed = 3, .shuffle = true, .augment = true, .mixup = mixup, .label_noise = label_noise};
  static float images[STEPS][FLOATS];
  int32_t labels[STEPS][2 * BATCH];
  float mixes[STEPS];
  braid_loader *loader = start(dataset, options, 0, 0);
  for (int i = 0; i < STEPS; i++) {
    braid_batch batch;
    assert_int_equal(braid_loader_next(loader, &batch), BRAID_OK);
    memcpy(images[i], batch.images, sizeof images[i]);
    memcpy(labels[i], batch.labels, BATCH * sizeof *batch.labels);
    memcpy(labels[i] + BATCH, mixup > 0 ? batch.mixed_labels : batch.labels, BATCH * sizeof *batch.labels);
    mixes[i] = batch.mix;
  }
  braid_loader_destroy(loader);
  options.threads = 3;
  options.depth = 5;
  loader = start(dataset, options, FROM / 4, FROM % 4);
  for (int i = FROM; i < STEPS; i++) {
    braid_batch batch;
    assert_int_equal(braid_loader_next(loader, &batch), BRAID_OK);
    assert_int_equal(batch.epoch, i / 4);
    assert_int_equal(batch.step, i % 4);
    assert_memory_equal(batch.images, images[i], sizeof images[i]);
    assert_memory_equal(batch.labels, labels[i], BATCH * sizeof *batch.labels);
    if (mixup > 0) assert_memory_equal(batch.mixed_labels, labels[i] + BATCH, BATCH * sizeof *batch.labels);
    assert_true(batch.mix == mixes[i]);
  }
  braid_loader_destroy(loader);
  braid_dataset_close(dataset);
}

static void test_same_bits(void **state) {
  (void)state;
  check_same_bits("builtin:glyphs,limit=64,augment=crop+flip,mean=0.5,std=0.25", 0, 0);
  check_same_bits(
      "builtin:glyphs,limit=64,augment=resized-crop+flip+colour+cutout,jitter=0.4/0.4/0.4/0.2,mean=0.5,std=0.25", 0.4,
      0.2);
}

/* A mixed batch is the plain one and its reverse, by one share. */
static void test_mixup(void **state) {
  (void)state;
  enum { BATCH = 7, FLOATS = 3 * 32 * 32 };
  braid_dataset *dataset = open_glyphs("builtin:glyphs,limit=64");
  braid_loader_options options = {.batch = BATCH, .seed = 3, .shuffle = true};
  braid_loader *plain = start(dataset, options, 0, 0);
  options.mixup = 1;
  braid_loader *mixed = start(dataset, options, 0, 0);
  float before = -1;
  for (int step = 0; step < 12; step++) {
    braid_batch a, b;
    assert_int_equal(braid_loader_next(plain, &a), BRAID_OK);
    assert_int_equal(braid_loader_next(mixed, &b), BRAID_OK);
    assert_true(a.mix == 1 && !a.mixed_labels && b.mix > 0 && b.mix < 1 && b.mix != before);
    before = b.mix;
    for (int i = 0; i < BATCH; i++) {
      assert_int_equal(b.labels[i], a.labels[i]);
      assert_int_equal(b.mixed_labels[i], a.labels[BATCH - 1 - i]);
      for (int k = 0; k < FLOATS; k++) {
        double wanted = (double)b.mix * (double)a.images[i * FLOATS + k] +
                        (1 - (double)b.mix) * (double)a.images[(BATCH - 1 - i) * FLOATS + k];
        assert_float_equal(b.images[i * FLOATS + k], wanted, 1e-6);
      }
    }
  }
  braid_loader_destroy(plain);
  braid_loader_destroy(mixed);
  options.keep_last = true;
  assert_int_equal(braid_loader_create(dataset, &options, 0, 0, &mixed), BRAID_INVALID_ARGUMENT);
  options = (braid_loader_options){.batch = BATCH, .label_noise = 1.5};
  assert_int_equal(braid_loader_create(dataset, &options, 0, 0, &mixed), BRAID_INVALID_ARGUMENT);
  braid_dataset_close(dataset);
}

/* What cannot be asked for, and an end in the middle of the work. */
static void test_misuse(void **state) {
  (void)state;
  braid_dataset *dataset = open_glyphs("builtin:glyphs,limit=5");
  braid_loader *loader;
  assert_int_equal(braid_loader_create(dataset, &(braid_loader_options){.batch = 6}, 0, 0, &loader),
                   BRAID_INVALID_ARGUMENT);
  assert_null(loader);
  assert_int_equal(braid_loader_create(dataset, &(braid_loader_options){.batch = 0}, 0, 0, &loader),
                   BRAID_INVALID_ARGUMENT);
  /* ending while the threads are busy */
  loader = start(dataset, (braid_loader_options){.batch = 5, .threads = 4, .depth = 8}, 0, 0);
  braid_loader_destroy(loader);
  braid_dataset_close(dataset);
}

static braid_status create(const braid_allocator *allocator, void *context) {
  (void)context;
  braid_dataset *dataset;
  braid_loader *loader = NULL;
  braid_status status = braid_dataset_open(allocator, "builtin:glyphs,limit=8,mean=0.5", "test", &dataset);
  if (status == BRAID_OK) {
    status = braid_loader_create(dataset, &(braid_loader_options){.batch = 4, .threads = 2}, 0, 0, &loader);
  }
  braid_loader_destroy(loader);
  braid_dataset_close(dataset);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  oom_sweep(create, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_epochs_are_permutations),
      cmocka_unit_test(test_failures_of_shared_batches),
      cmocka_unit_test(test_finite),
      cmocka_unit_test(test_same_bits),
      cmocka_unit_test(test_mixup),
      cmocka_unit_test(test_misuse),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
