/* Groups: what collectives give, that all learn of a failure and of whose it is, what is refused, and that nobody waits
 * for ever. The members are threads; tests/cli_group_test.c has processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "braid/allocator.h"
#include "device/group/thread_group.h"
#include "oom.h"

/* In threads, which must not jump out of a test: the line of the first thing that is not so. */
#define EXPECT(condition)                                                                                              \
  if (!(condition)) return __LINE__

static void run_members(int size, int (*member)(braid_group *group, void *context), void *context) {
  int line = thread_world_run(size, member, context);
  if (line) fail_msg("%d members: line %d", size, line);
}

static int reduce(braid_group *group, void *context) {
  (void)context;
  int rank = braid_group_rank(group), size = braid_group_size(group);
  int32_t i32[3] = {rank, 1 << rank, -rank};
  int64_t i64[2] = {(int64_t)1 << 40, rank};
  float f32[2] = {0.5f, (float)rank};
  double f64 = rank == 1 ? 1e-3 : 0;
  EXPECT(braid_group_all_reduce(group, i32, 3, BRAID_I32, BRAID_REDUCE_SUM) == BRAID_OK);
  EXPECT(i32[0] == size * (size - 1) / 2 && i32[1] == (1 << size) - 1 && i32[2] == -i32[0]);
  EXPECT(braid_group_all_reduce(group, i64, 2, BRAID_I64, BRAID_REDUCE_SUM) == BRAID_OK);
  EXPECT(i64[0] == size * ((int64_t)1 << 40) && i64[1] == i32[0]);
  i64[1] = (int64_t)1 << (40 + rank);
  EXPECT(braid_group_all_reduce(group, i64 + 1, 1, BRAID_I64, BRAID_REDUCE_OR) == BRAID_OK);
  EXPECT(i64[1] == (((int64_t)1 << size) - 1) << 40);
  EXPECT(braid_group_all_reduce(group, f32, 2, BRAID_F32, BRAID_REDUCE_SUM) == BRAID_OK);
  EXPECT(f32[0] == 0.5f * (float)size && f32[1] == (float)i32[0]);
  EXPECT(braid_group_all_reduce(group, &f64, 1, BRAID_F64, BRAID_REDUCE_MAX) == BRAID_OK);
  EXPECT(f64 == (size > 1 ? 1e-3 : 0));
  EXPECT(braid_group_barrier(group) == BRAID_OK);
  char word[8] = "nobody";
  if (rank == size - 1) strcpy(word, "last");
  EXPECT(braid_group_broadcast(group, word, sizeof word, size - 1) == BRAID_OK);
  EXPECT(strcmp(word, "last") == 0);
  return 0;
}

static void test_collectives(void **state) {
  (void)state;
  for (int size = 1; size <= 4; size++) run_members(size, reduce, NULL);
}

/* Process 1 and 2 fail in different ways: all hear of process 1. */
static int disagree(braid_group *group, void *context) {
  (void)context;
  int rank = braid_group_rank(group);
  EXPECT(braid_group_agree(group, BRAID_OK) == BRAID_OK && !braid_group_failed_together(group));
  braid_status own = rank == 1   ? braid_fail(BRAID_NOT_FOUND, "there is no file")
                     : rank == 2 ? braid_fail(BRAID_NO_MEMORY, "no room")
                                 : BRAID_OK;
  EXPECT(braid_group_agree(group, own) == BRAID_NOT_FOUND);
  EXPECT(strcmp(braid_error_detail(), "process 1: there is no file") == 0);
  EXPECT(braid_group_failed_together(group));
  /* Whoever asks again hears the same, alone, and waits for nobody. */
  EXPECT(rank != 2 || braid_group_barrier(group) == BRAID_DEVICE_LOST);
  EXPECT(rank != 2 || braid_group_agree(group, BRAID_OK) == BRAID_NOT_FOUND);
  EXPECT(rank != 2 || strcmp(braid_error_detail(), "process 1: there is no file") == 0);
  return 0;
}

static int fail_first(braid_group *group, void *context) {
  (void)context;
  braid_status own = braid_group_rank(group) ? BRAID_OK : braid_fail(BRAID_IO, "its own words");
  EXPECT(braid_group_agree(group, own) == BRAID_IO && strcmp(braid_error_detail(), "its own words") == 0);
  return 0;
}

static void test_agreement(void **state) {
  (void)state;
  run_members(4, disagree, NULL);
  run_members(3, fail_first, NULL);
}

static bool is_told(void *context) {
  (void)context;
  return true;
}

/* The others never come; a member that was told to end does not wait for them, now or later. */
static int wait_alone(braid_group *group, void *context) {
  (void)context;
  int32_t number = 1;
  if (braid_group_rank(group)) return 0;
  braid_group_set_watch(group, is_told, NULL);
  EXPECT(!braid_group_gives_up(group)); /* not at once */
  EXPECT(braid_group_all_reduce(group, &number, 1, BRAID_I32, BRAID_REDUCE_SUM) == BRAID_DEVICE_LOST);
  EXPECT(braid_group_gives_up(group));
  EXPECT(braid_group_barrier(group) == BRAID_DEVICE_LOST);
  EXPECT(braid_group_agree(group, BRAID_OK) == BRAID_DEVICE_LOST && !braid_group_failed_together(group));
  braid_group_abort(group, 7);
  return 0;
}

static void test_lost(void **state) {
  (void)state;
  run_members(2, wait_alone, NULL);
  assert_int_equal(thread_aborted, 7);
}

/* Without a group, or alone, nothing changes and nothing is waited for. */
static void test_none(void **state) {
  (void)state;
  float number = 3;
  assert_int_equal(braid_group_size(NULL), 1);
  assert_int_equal(braid_group_rank(NULL), 0);
  assert_int_equal(braid_group_all_reduce(NULL, &number, 1, BRAID_F32, BRAID_REDUCE_SUM), BRAID_OK);
  assert_int_equal(braid_group_broadcast(NULL, &number, sizeof number, 0), BRAID_OK);
  assert_true(number == 3);
  (void)braid_fail(BRAID_IO, "of mine");
  assert_int_equal(braid_group_agree(NULL, BRAID_IO), BRAID_IO);
  assert_string_equal(braid_error_detail(), "of mine");
  assert_int_equal(braid_group_all_reduce(NULL, &number, 1, BRAID_F32, BRAID_REDUCE_OR), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_group_all_reduce(NULL, &number, 1, BRAID_F16, BRAID_REDUCE_SUM), BRAID_INVALID_ARGUMENT);
  braid_group_abort(NULL, 1);
  braid_group_destroy(NULL);
}

static void test_refused(void **state) {
  (void)state;
  braid_group *group;
  braid_group_ops ops = kThreadOps;
  ops.abi = BRAID_GROUP_ABI + 1;
  assert_int_equal(braid_group_join(NULL, &ops, &group), BRAID_UNSUPPORTED);
  assert_null(group);
  ops = kThreadOps;
  ops.broadcast = NULL;
  assert_int_equal(braid_group_join(NULL, &ops, &group), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_group_load(NULL, "/nowhere/libbraid_mpi.so", &group), BRAID_NOT_FOUND);
  assert_non_null(strstr(braid_error_detail(), "/nowhere/libbraid_mpi.so"));
  assert_int_equal(braid_group_load(NULL, BRAID_LIBRARIES "/nvml_empty.so", &group), BRAID_INVALID_FILE);
  assert_non_null(strstr(braid_error_detail(), "braid_group_module"));
  assert_int_equal(braid_group_load(NULL, BRAID_TEST_DATA, &group), BRAID_UNSUPPORTED);
}

static braid_status join_with(const braid_allocator *allocator, void *context) {
  (void)context;
  braid_group *group;
  braid_status status = braid_group_join(allocator, &kThreadOps, &group);
  braid_group_destroy(group);
  return status;
}

static void test_no_memory(void **state) {
  (void)state;
  thread_world_begin(1);
  oom_sweep(join_with, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_collectives), cmocka_unit_test(test_agreement),
                                     cmocka_unit_test(test_lost),        cmocka_unit_test(test_none),
                                     cmocka_unit_test(test_refused),     cmocka_unit_test(test_no_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
