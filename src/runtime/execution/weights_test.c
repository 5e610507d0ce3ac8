/* What weights hold: also constants that kernels read as they lie, which they keep for as long as somebody uses them,
 * and equal ones once. */
#include "skip.h"

#include "runtime/execution/execution_fixture.h"

static braid_execution *inference(braid_machine *machine, braid_weights *weights, braid_graph *graph) {
  braid_plan *plan = make_plan(machine, graph, false);
  braid_execution *execution;
  OK(braid_execution_create(plan, weights, &execution));
  braid_plan_release(plan);
  return execution;
}

static void test_constants_in_place(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu:threads=1");
  braid_weights *weights;
  float x[4] = {1, 2, 3, 4}, before[4], after[4];
  OK(braid_weights_create(machine, &weights));
  assert_int_equal(braid_weights_bytes(weights), 0);
  braid_execution *first = inference(machine, weights, line_graph(false, false)); /* no kernel packs p */
  assert_int_equal(braid_weights_bytes(weights), 4 * sizeof(float));
  braid_execution *second = inference(machine, weights, line_graph(false, false));
  assert_int_equal(braid_weights_bytes(weights), 4 * sizeof(float));
  OK(braid_execution_run(first, (const void *[]){x}, (void *[]){before}));
  braid_execution_destroy(first); /* whose plan had the tensor that both use */
  OK(braid_execution_run(second, (const void *[]){x}, (void *[]){after}));
  assert_memory_equal(before, after, sizeof before);
  braid_execution_destroy(second);
  braid_weights_release(weights);
  braid_machine_release(machine);
}

/* As many bytes as the network has parameters, at least: normalization becomes a bias of as many numbers as a shift. */
static void test_bytes_on_opencl(void **state) {
  (void)state;
  braid_machine *machine;
  braid_weights *weights;
  if (braid_machine_create(NULL, &(braid_machine_options){.devices = "opencl0"}, &machine) != BRAID_OK)
    skip_test("opencl", "there is no OpenCL device");
  OK(braid_weights_create(machine, &weights));
  size_t numbers = (size_t)kFilters * kChannels * 9 + kFilters + (size_t)kFilters * kClasses;
  braid_execution *one = inference(machine, weights, conv_graph(1));
  size_t bytes = braid_weights_bytes(weights);
  assert_true(bytes >= numbers * sizeof(float));
  braid_execution *four = inference(machine, weights, conv_graph(4));
  assert_int_equal(braid_weights_bytes(weights), bytes);
  braid_execution_destroy(one);
  braid_execution_destroy(four);
  braid_weights_release(weights);
  braid_machine_release(machine);
}

int main(void) {
  if (braid_custom_op_register(&kHold) != BRAID_OK) return 1; /* of the fixture */
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_constants_in_place), cmocka_unit_test(test_bytes_on_opencl)};
  return skip_run_group_tests(tests, NULL, NULL);
}
