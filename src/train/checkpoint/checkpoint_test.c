#include "damage.h"
#include "oom.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/checkpoint/checkpoint.h"

static char folder[64];

static int make_folder(void **state) {
  (void)state;
  strcpy(folder, "checkpoint-test-XXXXXX");
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

static const float kWeights[6] = {1, -2, 3.5f, 0, 1e-30f, 7};

static braid_status write_one(const braid_allocator *allocator, const char *path, double mark) {
  braid_desc weights, number;
  braid_status status = braid_desc_init(&weights, BRAID_F32, 2, (int64_t[]){2, 3});
  if (status == BRAID_OK) status = braid_desc_init(&number, BRAID_F64, 0, NULL);
  braid_checkpoint *checkpoint;
  if (status == BRAID_OK) status = braid_checkpoint_create(allocator, path, 2, &checkpoint);
  if (status != BRAID_OK) return status;
  status = braid_checkpoint_put(checkpoint, "weights", &weights, kWeights);
  if (status == BRAID_OK) status = braid_checkpoint_put(checkpoint, "mark", &number, &mark);
  if (status == BRAID_OK) return braid_checkpoint_commit(checkpoint);
  braid_checkpoint_abort(checkpoint);
  return status;
}

static void path_in(char path[128], const char *name) {
  snprintf(path, 128, "%s/%s", folder, name);
}

static double mark_of(const braid_checkpoint_file *file) {
  braid_desc desc;
  double mark;
  const void *data = braid_checkpoint_find(file, "mark", &desc);
  assert_non_null(data);
  memcpy(&mark, data, sizeof mark);
  return mark;
}

static void test_round_trip(void **state) {
  (void)state;
  char path[128];
  path_in(path, "round.braid");
  assert_int_equal(write_one(NULL, path, 42), BRAID_OK);
  braid_checkpoint_file *file;
  assert_int_equal(braid_checkpoint_open(NULL, path, &file), BRAID_OK);
  assert_int_equal(braid_checkpoint_count(file), 2);
  braid_desc desc;
  const void *data = braid_checkpoint_find(file, "weights", &desc);
  assert_int_equal(desc.dtype, BRAID_F32);
  assert_int_equal(desc.rank, 2);
  assert_memory_equal(data, kWeights, sizeof kWeights);
  assert_true(mark_of(file) == 42);
  assert_null(braid_checkpoint_find(file, "absent", &desc));
  braid_checkpoint_close(file);
}

static uint8_t *read_file(const char *path, size_t *bytes) {
  FILE *in = fopen(path, "rb");
  assert_non_null(in);
  struct stat info;
  assert_int_equal(fstat(fileno(in), &info), 0);
  *bytes = (size_t)info.st_size;
  uint8_t *data = malloc(*bytes);
  assert_int_equal(fread(data, 1, *bytes, in), *bytes);
  fclose(in);
  return data;
}

/* Every single changed byte and every cut is noticed. */
static void test_damage(void **state) {
  (void)state;
  char path[128];
  size_t bytes;
  path_in(path, "damage.braid");
  assert_int_equal(write_one(NULL, path, 1), BRAID_OK);
  uint8_t *data = read_file(path, &bytes);
  braid_checkpoint_file *file;
  assert_int_equal(braid_checkpoint_parse(NULL, "whole", data, bytes, &file), BRAID_OK);
  braid_checkpoint_close(file);
  for (size_t i = 0; i < bytes; i++)
    for (int bit = 0; bit < 8; bit++) {
      data[i] ^= (uint8_t)(1 << bit);
      assert_int_equal(braid_checkpoint_parse(NULL, "flipped", data, bytes, &file), BRAID_INVALID_FILE);
      assert_null(file);
      data[i] ^= (uint8_t)(1 << bit);
    }
  for (size_t cut = 0; cut < bytes; cut++)
    assert_int_equal(braid_checkpoint_parse(NULL, "cut", data, cut, &file), BRAID_INVALID_FILE);
  free(data);
}

/* What an open checkpoint holds does not change with its file. */
static void test_files_that_change_under_an_open_checkpoint(void **state) {
  (void)state;
  char path[128];
  path_in(path, "changing.braid");
  for (damage_kind kind = 0; kind < DAMAGE_KINDS; kind++) {
    braid_checkpoint_file *file;
    braid_desc desc;
    assert_int_equal(write_one(NULL, path, 42), BRAID_OK);
    assert_int_equal(braid_checkpoint_open(NULL, path, &file), BRAID_OK);
    damage(path, kind);
    assert_memory_equal(braid_checkpoint_find(file, "weights", &desc), kWeights, sizeof kWeights);
    assert_true(mark_of(file) == 42);
    braid_checkpoint_close(file);
    unlink(path);
  }
}

/* A damaged newest one is passed over for the one before; pruning keeps the newest. */
static void test_newest(void **state) {
  (void)state;
  char path[128];
  braid_checkpoint_file *file;
  int64_t step = 0;
  for (int i = 1; i <= 3; i++) {
    char name[64];
    snprintf(name, sizeof name, "checkpoint-%010d.braid", i * 100);
    path_in(path, name);
    assert_int_equal(write_one(NULL, path, i), BRAID_OK);
  }
  assert_int_equal(braid_checkpoint_newest(NULL, NULL, folder, 299, &step, &file), BRAID_OK);
  assert_true(mark_of(file) == 2);
  assert_int_equal(step, 200);
  braid_checkpoint_close(file);
  assert_int_equal(braid_checkpoint_newest(NULL, NULL, folder, 99, &step, &file), BRAID_OK);
  assert_null(file);
  assert_int_equal(braid_checkpoint_newest(NULL, NULL, folder, INT64_MAX, &step, &file), BRAID_OK);
  assert_true(mark_of(file) == 3);
  braid_checkpoint_close(file);
  assert_int_equal(truncate(path, 50), 0);
  assert_int_equal(braid_checkpoint_newest(NULL, NULL, folder, INT64_MAX, &step, &file), BRAID_OK);
  assert_true(mark_of(file) == 2);
  braid_checkpoint_close(file);
  braid_checkpoint_prune(NULL, NULL, folder, 1);
  assert_int_equal(access(path, F_OK), 0);
  path_in(path, "checkpoint-0000000200.braid");
  assert_int_not_equal(access(path, F_OK), 0);
  assert_int_equal(braid_checkpoint_newest(NULL, NULL, "no-such-folder", INT64_MAX, &step, &file), BRAID_OK);
  assert_null(file);
}

static void test_announced(void **state) {
  (void)state;
  char path[128];
  path_in(path, "short.braid");
  braid_checkpoint *checkpoint;
  assert_int_equal(braid_checkpoint_create(NULL, path, 1, &checkpoint), BRAID_OK);
  assert_int_equal(braid_checkpoint_commit(checkpoint), BRAID_INTERNAL);
  assert_int_not_equal(access(path, F_OK), 0); /* nothing half-written */
}

static braid_status attempt(const braid_allocator *allocator, void *context) {
  const char *path = context;
  braid_status status = write_one(allocator, path, 5);
  braid_checkpoint_file *file;
  if (status == BRAID_OK) status = braid_checkpoint_open(allocator, path, &file);
  if (status == BRAID_OK) braid_checkpoint_close(file);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  char path[128];
  path_in(path, "oom.braid");
  assert_true(oom_sweep(attempt, path) > 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_damage),
      cmocka_unit_test(test_files_that_change_under_an_open_checkpoint),
      cmocka_unit_test(test_newest),
      cmocka_unit_test(test_announced),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
