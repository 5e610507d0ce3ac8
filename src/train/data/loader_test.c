#include <string.h>

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
static void test_epochs_are_permutations(void **state) {
  (void)state;
  braid_dataset *dataset = open_glyphs("builtin:glyphs,limit=103");
  braid_loader *loader =
      start(dataset, (braid_loader_options){.batch = 10, .seed = 7, .shuffle = true, .keep_last = true}, 0, 0);
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

/* Neither the number of threads nor the step at which a loader starts changes a bit of what it gives. */
static void test_same_bits(void **state) {
  (void)state;
  enum { BATCH = 16, STEPS = 12, FROM = 5, FLOATS = BATCH * 3 * 32 * 32 };
  braid_dataset *dataset = open_glyphs("builtin:glyphs,limit=64,augment=crop+flip,mean=0.5,std=0.25");
  braid_loader_options options = {.batch = BATCH, .seed = 3, .shuffle = true, .augment = true};
  static float images[STEPS][FLOATS];
  braid_loader *loader = start(dataset, options, 0, 0);
  for (int i = 0; i < STEPS; i++) {
    braid_batch batch;
    assert_int_equal(braid_loader_next(loader, &batch), BRAID_OK);
    memcpy(images[i], batch.images, sizeof images[i]);
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
  }
  braid_loader_destroy(loader);
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
      cmocka_unit_test(test_same_bits),
      cmocka_unit_test(test_misuse),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
