/* Training in integers as graphs whose launches run beside each other: the ledger of the CPU. Without a card, on the
 * host, which takes what may run next in the order farthest from the step's (tests/libraries/cuda.c). */
#include "base/library.h"
#include "cuda_emulated.h"
#include "train/ledger/ledger_fixture.h"

enum { kEpochs = 2 }; /* steps are graphs once the tasks of some have been measured */

static void train_on(const braid_graph *graph, const char *devices, const char *ledger) {
  braid_train_options options = ledger_options(ledger, ledger);
  options.out_directory = NULL;
  options.devices = devices;
  options.epochs = kEpochs;
  stop_at never = {.after = -1};
  (void)train_with(graph, false, options, &never, BRAID_OK);
}

static void test_ledger(void **state) {
  (void)state;
  emulated_need();
  int (*depth)(void), (*steps)(void);
  braid_graph *graph = integer_network(false);
  train_on(graph, "cpu", "cpu.ledger");
  train_on(graph, getenv("BRAID_TEST_OPENCL"), "cuda.ledger");
  expect_same(path_of("cuda.ledger"), path_of("cpu.ledger"));
  if (emulated_driver) {
    assert_true(braid_library_find(emulated_driver, "fake_cuda_depth", &depth, sizeof depth));
    assert_true(braid_library_find(emulated_driver, "fake_cuda_steps", &steps, sizeof steps));
    assert_true(depth() > 0 && depth() < steps() * 3 / 4);
  }
  braid_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_ledger)};
  emulated_load();
  return skip_run_group_tests(tests, make_folder, remove_folder);
}
