/* Ledgers of one training in integers: the same file on the CPU and on an OpenCL device that has nothing beside it, by
 * one and two threads, and by the kernels of GPUs and FPGAs. */
#include "skip.h"
#include "train/ledger/ledger_fixture.h"

static braid_graph *graph;

static int begin(void **state) {
  if (make_folder(state) != 0) return -1;
  graph = integer_network(true);
  return 0;
}

static int end(void **state) {
  braid_graph_destroy(graph);
  return remove_folder(state);
}

static void train_on(const char *devices, int threads, const char *ledger) {
  braid_train_options options = ledger_options(ledger, ledger);
  options.out_directory = NULL;
  options.devices = devices;
  options.threads = threads;
  options.epochs = 1;
  stop_at never = {.after = -1};
  train_model(graph, options, &never, BRAID_OK);
}

static void test_devices(void **state) {
  (void)state;
  static const struct {
    const char *devices;
    int threads;
  } kRuns[] = {{"cpu", 2},
               {"opencl0", 1},
               {"opencl0.0:parts=2", 1}, /* half of PoCL's threads */
               {"opencl0:memory=separate", 2},
               {"opencl0:as=gpu,group=64", 1},
               {"opencl0:as=fpga,group=16", 1},
               {"cuda0", 1},
               {"cuda0:group=64", 2}};
  const char *wanted = getenv("BRAID_TEST_OPENCL"); /* "cuda0": the runs on that device, and no other */
  if (!wanted) wanted = "opencl0";
  braid_device *device = NULL;
  bool there = braid_device_open(registry, wanted, &device) == BRAID_OK;
  braid_device_close(device);
  if (!there) skip_test("opencl", "there is no OpenCL device");
  train_on("cpu", 1, "one.ledger");
  for (size_t i = 0; i < sizeof kRuns / sizeof *kRuns; i++) {
    if (strncmp(kRuns[i].devices, "cpu", 3) != 0 && strncmp(kRuns[i].devices, wanted, strlen(wanted)) != 0) continue;
    train_on(kRuns[i].devices, kRuns[i].threads, "other.ledger");
    expect_same(path_of("other.ledger"), path_of("one.ledger"));
    assert_int_equal(unlink(path_of("other.ledger")), 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_devices)};
  return skip_run_group_tests(tests, begin, end);
}
