/* Operations as they are measured: what identifies them, each alone, and when an entry counts no more. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "braid/model.h"
#include "braid/planning.h"
#include "braid/session.h"
#include "braid/version.h"
#include "measure/measure.h"
#include "oom.h"

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    if ((call) != BRAID_OK) fail_msg("%s: %s", #call, braid_error_detail());                                           \
  } while (0)

static braid_subjects list_ops(const char *ops, const char *sizes) {
  braid_subjects subjects;
  OK(braid_subjects_init(&subjects, NULL));
  OK(braid_subjects_add_ops(&subjects, ops, sizes));
  return subjects;
}

/* Multiply-accumulates and bytes by hand; small, medium and large after section 3.2 of the paper. */
static void test_sizes(void **state) {
  (void)state;
  static const struct {
    const char *op, *size;
    double macs, bytes;
  } cases[] = {
      {"MatMul", "small", 512.0 * 512 * 512, 4 * 3 * 512 * 512.0},
      {"MatMul", "medium", 2048.0 * 1024 * 1024, 4 * (2048 * 1024.0 + 1024 * 1024 + 2048 * 1024)},
      {"MatMul", "large", 8192.0 * 1024 * 1024, 4 * (8192 * 1024.0 + 1024 * 1024 + 8192 * 1024)},
      {"Conv", "small", 512.0 * 64 * 9 * 24 * 24, 4 * (64 * 24 * 24.0 + 512 * 64 * 9 + 512 * 24 * 24)},
      {"ConvGradFilter", "small", 512.0 * 64 * 9 * 24 * 24, 4 * (64 * 24 * 24.0 + 512 * 64 * 9 + 512 * 24 * 24)},
      {"ConvGradInput", "large", 1024.0 * 512 * 9 * 32 * 32, 4 * (512 * 32 * 32.0 + 1024 * 512 * 9 + 1024 * 32 * 32)},
      {"BiasGrad", "medium", 0, 4 * (2048 * 1024.0 + 1024)},
      {"Mul", "small", 0, 4 * 3 * 512 * 512.0},
      {"Transpose", "large", 0, 4 * 2 * 8192 * 1024.0},
  };
  braid_subjects subjects = list_ops("all", NULL);
  assert_int_equal(subjects.count, 21);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const braid_subject *found = NULL;
    for (size_t k = 0; k < subjects.count; k++)
      if (!strcmp(subjects.items[k].op, cases[i].op) && !strcmp(subjects.items[k].size, cases[i].size))
        found = &subjects.items[k];
    if (!found) fail_msg("%s %s is not there", cases[i].op, cases[i].size);
    if (found->macs != cases[i].macs || found->bytes != cases[i].bytes)
      fail_msg("%s %s: %g MACs, %g bytes", cases[i].op, cases[i].size, found->macs, found->bytes);
  }
  for (size_t a = 0; a < subjects.count; a++)
    for (size_t b = 0; b < a; b++) assert_string_not_equal(subjects.items[a].key, subjects.items[b].key);
  braid_subjects_deinit(&subjects);
  subjects = list_ops("Conv2D,Relu", "large,small"); /* by the published name too */
  assert_int_equal(subjects.count, 4);
  braid_subjects_deinit(&subjects);
}

static braid_graph *step_of(const char *path, int64_t batch) {
  braid_graph *model, *step;
  OK(braid_model_load(NULL, path, NULL, &model));
  OK(braid_planning_step(model, NULL, batch, &step));
  braid_graph_destroy(model);
  return step;
}

/* The same model twice gives the same keys, whatever its weights and names; another batch gives others. */
static void test_keys(void **state) {
  (void)state;
  braid_graph *steps[] = {step_of(BRAID_MODELS "/lenet.cfg", 8), step_of(BRAID_MODELS "/lenet.cfg", 8),
                          step_of(BRAID_MODELS "/lenet.cfg", 16)};
  braid_subjects subjects[3];
  for (int i = 0; i < 3; i++) {
    OK(braid_subjects_init(&subjects[i], NULL));
    OK(braid_subjects_add_graph(&subjects[i], steps[i]));
    OK(braid_subjects_add_graph(&subjects[i], steps[i])); /* nothing twice */
  }
  assert_true(subjects[0].count > 20 && subjects[0].count == subjects[1].count);
  size_t same = 0;
  for (size_t i = 0; i < subjects[0].count; i++) {
    assert_string_equal(subjects[0].items[i].key, subjects[1].items[i].key);
    assert_true(subjects[0].items[i].training);
    for (size_t k = 0; k < subjects[2].count; k++)
      same += strcmp(subjects[0].items[i].key, subjects[2].items[k].key) == 0;
  }
  assert_true(same < subjects[0].count / 2); /* updates of weights do not depend on the batch */
  for (int i = 0; i < 3; i++) {
    braid_subjects_deinit(&subjects[i]);
    braid_graph_destroy(steps[i]);
  }
}

/* Every operation of a training step, also those that change weights, runs alone on the CPU. */
static void test_alone(void **state) {
  (void)state;
  braid_graph *step = step_of(BRAID_MODELS "/lenet.cfg", 4);
  braid_subjects subjects;
  braid_machine *machine;
  size_t updates = 0;
  OK(braid_subjects_init(&subjects, NULL));
  OK(braid_subjects_add_graph(&subjects, step));
  OK(braid_machine_create(NULL, NULL, &machine));
  for (size_t i = 0; i < subjects.count; i++) {
    braid_graph *alone;
    braid_trial *trial;
    double seconds[20] = {0};
    OK(braid_subject_extract(&subjects.items[i], &alone));
    assert_int_equal(braid_graph_node_count(alone), 1);
    updates += braid_subject_is_training(alone);
    OK(braid_trial_create(machine, alone, true, NULL, &trial));
    braid_graph_destroy(alone);
    for (int k = 0; k < 20; k++) { /* beyond the runs that are timed without asking for it */
      OK(braid_trial_run(trial, &seconds[k]));
      assert_true(seconds[k] > 0 && seconds[k] < 10);
    }
    assert_true(braid_trial_kernel(trial)[0]);
    braid_trial_destroy(trial);
  }
  assert_true(updates > 0);
  braid_machine_release(machine);
  braid_subjects_deinit(&subjects);
  braid_graph_destroy(step);
}

static void test_drift(void **state) {
  (void)state;
  assert_true(fabs(braid_drift(1.2, 0.01, 1, 0.05) - 4) < 1e-9); /* the larger MAD */
  assert_true(fabs(braid_drift(0.8, 0.1, 1, 0.05) - 2) < 1e-9);  /* faster drifts as well */
  assert_true(fabs(braid_drift(1.1, 0, 1, 0) - 10) < 1e-9);      /* 1 % at least */
  assert_true(fabs(braid_drift(1.1, NAN, 1, 1e-4) - 2) < 1e-9);  /* 5 % where there is none */
  assert_true(braid_drift(1, NAN, 1, NAN) == 0);
}

static void test_stale(void **state) {
  (void)state;
  braid_identity now = {.description = "a card", .software = "driver 2", .version = BRAID_VERSION, .threads = 4};
  braid_profile_entry entry;
  braid_stale stale;
  char date[24];
  braid_profile_now(date);
  braid_table_clear(&braid_profile_entry_table, &entry);
  entry.description = "a card";
  entry.software = "driver 2";
  entry.version = BRAID_VERSION;
  entry.threads = 4;
  entry.date = date;
  braid_entry_check(&entry, &now, 30, &stale);
  assert_string_equal(stale.why, "");
  braid_profile_entry other = entry;
  other.software = "driver 1";
  braid_entry_check(&other, &now, 30, &stale);
  assert_string_equal(stale.why, "its driver or library was driver 1, and is driver 2");
  other = entry;
  other.description = NULL;
  braid_entry_check(&other, &now, 30, &stale);
  assert_non_null(strstr(stale.why, "the device was unknown"));
  other = entry;
  other.threads = 2;
  braid_entry_check(&other, &now, 30, &stale);
  assert_non_null(strstr(stale.why, "2 threads, there are 4"));
  other = entry;
  other.version = "0.0.1";
  braid_entry_check(&other, &now, 30, &stale);
  assert_non_null(strstr(stale.why, "Braid's version was 0.0.1"));
  static const struct {
    const char *date, *said;
  } dates[] = {{"2001-01-01T00:00:00Z", "days old, at most 30 are taken"},
               {"2901-01-01T00:00:00Z", "in the future"},
               {"yesterday", "its date, \"yesterday\", is none"},
               {"2026-11-23T10:52:55Z and more", "is none"}};
  for (size_t i = 0; i < sizeof dates / sizeof *dates; i++) {
    other = entry;
    other.date = dates[i].date;
    braid_entry_check(&other, &now, 30, &stale);
    if (!strstr(stale.why, dates[i].said)) fail_msg("%s: %s", dates[i].date, stale.why);
  }
  assert_int_equal(braid_profile_time("1970-01-02T00:00:01Z"), 86401);
}

static void test_statistics(void **state) {
  (void)state;
  double odd[] = {9, 1, 5}, even[] = {4, 1, 3, 2}, deviations[] = {1, 2, 4, 8, 100};
  assert_true(braid_median(odd, 3) == 5 && braid_median(even, 4) == 2.5 && isnan(braid_median(odd, 0)));
  assert_true(braid_median_deviation(deviations, 5, 4) == 3); /* of 3, 2, 0, 4, 96: one stall counts for little */
}

static braid_status attempt(const braid_allocator *allocator, void *context) {
  braid_subjects subjects;
  braid_graph *alone;
  (void)context;
  braid_status status = braid_subjects_init(&subjects, allocator);
  if (status != BRAID_OK) return status;
  status = braid_subjects_add_ops(&subjects, "Conv,Mul", "small");
  for (size_t i = 0; i < subjects.count && status == BRAID_OK; i++) {
    status = braid_subject_extract(&subjects.items[i], &alone);
    braid_graph_destroy(alone);
  }
  braid_subjects_deinit(&subjects);
  return status;
}

static void test_no_memory(void **state) {
  (void)state;
  oom_sweep(attempt, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sizes),     cmocka_unit_test(test_keys),  cmocka_unit_test(test_alone),
      cmocka_unit_test(test_drift),     cmocka_unit_test(test_stale), cmocka_unit_test(test_statistics),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
