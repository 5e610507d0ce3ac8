/* Plans as files: what is read, what is refused, and that what is written is read again. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "braid/model.h"
#include "braid/planning.h"
#include "oom.h"

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    if ((call) != BRAID_OK) fail_msg("%s: %s", #call, braid_error_detail());                                           \
  } while (0)

#define PLAN "# braid placement 2\n"

/* What a plan's file says, and what is no such file, or was cut. */
static void test_texts(void **state) {
  (void)state;
  static const char kText[] = PLAN "# of a net\n\ndevices cpu opencl0\nnodes 2\ncpu a b/Conv\n# c\nopencl0 c\n";
  braid_placement placement;
  OK(braid_placement_parse(NULL, "p", kText, sizeof kText - 1, &placement));
  assert_string_equal(placement.devices, "cpu opencl0");
  assert_string_equal(placement.place, "'a b/Conv'=cpu 'c'=opencl0");
  assert_true(placement.clocked == 0 && placement.batch == 0);
  braid_placement_deinit(&placement);
  static const char kBatch[] = PLAN "devices batch\nbatch 7\nordered\nclocked 2\nnodes 2\nbatch 8\nnodes 3\n";
  OK(braid_placement_parse(NULL, "p", kBatch, sizeof kBatch - 1, &placement));
  assert_string_equal(placement.place, "ordered '8'=batch '3'=nodes");
  assert_true(placement.batch == 7 && placement.clocked == 2);
  braid_placement_deinit(&placement);
  static const struct {
    const char *text, *said;
  } cases[] = {
      {"", "p:1: \"# braid placement 2\" is expected"},
      {"# braid placement 1\ndevices cpu\ncpu a\n", "p:1: a plan of format 1, and format 2 is expected; `braid plan"},
      {"# braid placement 21\ndevices cpu\ncpu a\n", "p:1: a plan of format 21,"},
      {"# braid placement 2", "p:1: a plan of format 2,"},
      {PLAN, "p:1: the file was cut: it ends before \"nodes\""},
      {PLAN "cpu a\n", "p:2: \"devices\" and their names"},
      {PLAN "devices cpu\n", "p:2: the file was cut: it ends before \"nodes\""},
      {PLAN "devices cpu\nordered\ncpu a\n", "p:4: \"batch\", \"clocked\" or \"nodes\" with a number is expected"},
      {PLAN "devices cpu\nordered\nordered\nnodes 1\ncpu a\n", "p:4: \"batch\""},
      {PLAN "devices cpu\ncpu a\n", "p:3: \"ordered\", or \"batch\", \"clocked\" or \"nodes\" with a number"},
      {PLAN "devices cpu\nclocked -1\n", "p:3: \"clocked\" and a number above 0 is expected"},
      {PLAN "devices cpu\nclocked 1\nclocked 2\n", "p:4: \"clocked\" comes twice"},
      {PLAN "devices cpu\nbatch 0\ncpu a\n", "p:3: \"batch\" and a number above 0 is expected"},
      {PLAN "devices cpu\nbatch 4x\ncpu a\n", "p:3: \"batch\" and a number"},
      {PLAN "devices cpu\nbatch 4\nbatch 4\n", "p:4: \"batch\" comes twice"},
      {PLAN "devices cpu\nnodes 0\n", "p:3: \"nodes\" and a number above 0 is expected"},
      {PLAN "devices cpu\nnodes 1\ncpu\n", "p:4: a device, a blank and the name of a node"},
      {PLAN "devices cpu\nnodes 1\n'a'=cpu b\n", "p:4: a device"},
      {PLAN "devices cpu\nnodes 1\ncpu a*\n", "p:4: a device"},
      {PLAN "devices cpu\nnodes 3\ncpu a\ncpu b\ncpu a\n", "p:6: node a is on line 4 already"},
      {PLAN "devices cpu\nnodes 1\ncpu a\ncpu b\n", "p:5: line 3 has 1 nodes, and this is one more"},
      {PLAN "devices cpu\nnodes 2\ncpu a\n", "p:4: the file was cut: it ends after 1 of the 2 nodes of line 3"},
      {PLAN "devices cpu\nnodes 1\ncpu a", "p:4: the file was cut: it ends within a line"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(braid_placement_parse(NULL, "p", cases[i].text, strlen(cases[i].text), &placement),
                     BRAID_INVALID_FILE);
    assert_true(!placement.devices && !placement.batch && !placement.clocked);
    if (!strstr(braid_error_detail(), cases[i].said)) fail_msg("%s: %s", cases[i].said, braid_error_detail());
  }
}

/* Wherever a file is cut, it is no plan; and what fails is said. */
static void expect_refused_if_cut(const char *path) {
  braid_file_view view;
  braid_placement placement;
  OK(braid_file_open(NULL, path, 0, &view));
  assert_true(view.bytes > 200);
  for (size_t bytes = 0; bytes < view.bytes; bytes++) {
    if (braid_placement_parse(NULL, "p", view.data, bytes, &placement) != BRAID_INVALID_FILE)
      fail_msg("the first %zu of %zu bytes are taken for a plan", bytes, view.bytes);
    assert_non_null(strstr(braid_error_detail(), "p:"));
  }
  braid_file_close(&view);
}

/* What `braid plan --save` writes. */
static void test_saved(void **state) {
  (void)state;
  braid_placement placement;
  braid_modelled_machine *machine;
  braid_graph *model, *step;
  braid_forecast *forecast;
  OK(braid_modelled_machine_load(NULL, "v100-s10x3", &machine));
  OK(braid_model_load(NULL, BRAID_MODELS "/alexnet.cfg", NULL, &model));
  OK(braid_planning_step(model, NULL, 8, &step));
  braid_graph_destroy(model);
  OK(braid_forecast_create(step, machine, &(braid_forecast_options){.policy = "slack-energy", .cap_watts = INFINITY},
                           NULL, &forecast));
  assert_int_equal(braid_forecast_save_placement(forecast, "w", 8, "/dev/null/file"), BRAID_UNSUPPORTED);
  assert_non_null(strstr(braid_error_detail(), "on 3 devices together"));
  braid_forecast_destroy(forecast);
  OK(braid_forecast_create(step, machine, &(braid_forecast_options){.policy = "dvfs", .cap_watts = 230}, NULL,
                           &forecast));
  char path[] = "/tmp/braid-placement-XXXXXX";
  close(mkstemp(path));
  OK(braid_forecast_save_placement(forecast, "w", 8, path));
  OK(braid_placement_load(NULL, path, &placement));
  int64_t lower = 0;
  char first[256];
  for (size_t i = 0; i < braid_forecast_get_summary(forecast).tasks; i++)
    lower += braid_forecast_get_task(forecast, i).mhz < 1530;
  snprintf(first, sizeof first, "ordered '%s'=gpu '%s'=gpu ", braid_forecast_get_task(forecast, 0).node,
           braid_forecast_get_task(forecast, 1).node);
  assert_true(lower > 0 && placement.clocked == lower && placement.batch == 8);
  assert_true(strncmp(placement.place, first, strlen(first)) == 0); /* in the order of their starts */
  braid_placement_deinit(&placement);
  expect_refused_if_cut(path);
  unlink(path);
  braid_forecast_destroy(forecast);
  braid_graph_destroy(step);
  braid_modelled_machine_destroy(machine);
}

static braid_status parse_all(const braid_allocator *allocator, void *context) {
  (void)context;
  static const char kText[] = PLAN "devices cpu\nordered\nnodes 2\ncpu a\ncpu b\n";
  braid_placement placement;
  braid_status status = braid_placement_parse(allocator, "p", kText, sizeof kText - 1, &placement);
  braid_placement_deinit(&placement);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  assert_true(oom_sweep(parse_all, NULL) > 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_texts),
      cmocka_unit_test(test_saved),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
