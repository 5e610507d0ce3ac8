/* One operation, ready to run: which of its plan's tasks are the operation's own. */
#include "measure/trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "measure/subjects.h"
#include "runtime/machine.h"
#include "skip.h"

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    if ((call) != BRAID_OK) fail_msg("%s: %s", #call, braid_error_detail());                                           \
  } while (0)

/* A convolution on the CPU, whose images are turned into blocks of channels before it and back behind it: a run has
 * these conversions, its own kernels are one. The queue's values count tasks. */
static void test_own_kernels(void **state) {
  (void)state;
  const braid_machine_options options = {.devices = "cpu", .threads = 1};
  braid_machine *machine;
  braid_subjects subjects;
  braid_graph *graph;
  braid_trial *trial;
  braid_queue *queue;
  double seconds;
  OK(braid_subjects_init(&subjects, NULL));
  OK(braid_subjects_add_ops(&subjects, "Conv", "small"));
  OK(braid_machine_create(NULL, &options, &machine));
  OK(braid_subject_extract(&subjects.items[0], &graph));
  OK(braid_trial_create(machine, graph, false, NULL, &trial));
  OK(braid_machine_queue(machine, braid_queue_index(0, BRAID_QUEUE_KERNELS), &queue));
  uint64_t before = queue->last;
  OK(braid_trial_run(trial, &seconds));
  uint64_t run = queue->last - before;
  before = queue->last;
  OK(braid_trial_run_kernels(trial, 5));
  assert_int_equal(queue->last - before, 5);
  OK(braid_trial_run(trial, &seconds));
  assert_int_equal(queue->last - before, 5 + run);
  braid_trial_destroy(trial);
  braid_graph_destroy(graph);
  braid_machine_release(machine);
  braid_subjects_deinit(&subjects);
  if (run < 2) skip_test("cpu", "this processor's convolutions take images as they are");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_own_kernels)};
  return skip_run_group_tests(tests, NULL, NULL);
}
