/* Each assert about plans, and those of references and the clock, fires when what it is about is broken. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/invariant.h"
#include "runtime/plan/plan.h"
#include "skip.h"

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

/* On two devices without common memory, so that there are transfers and waits. */
static braid_plan *two_devices(braid_machine **machine) {
  braid_graph *graph;
  braid_value_id x, y = 0;
  braid_plan *plan;
  ok(braid_graph_create(NULL, "chain", &graph));
  ok(braid_graph_add_input(graph, "x", &(braid_desc){.dtype = BRAID_F32, .rank = 2, .dims = {64, 64}}, &x));
  y = x;
  for (int i = 0; i < 6; i++) {
    braid_value_id inputs[2] = {y, x};
    char name[8];
    (void)snprintf(name, sizeof name, "n%d", i);
    ok(braid_graph_add_node(graph, i % 2 ? "Add" : "MatMul", name, inputs, 2, &y, 1, NULL));
  }
  ok(braid_graph_add_output(graph, y));
  ok(braid_machine_create(NULL, &(braid_machine_options){.devices = "cpu cpu:memory=separate"}, machine));
  ok(braid_plan_create(*machine, graph, &(braid_plan_options){.place = "n2=1 n3=1"}, &plan));
  braid_graph_destroy(graph);
  return plan;
}

static sigjmp_buf broken;

static void on_abort(int signal) {
  (void)signal;
  siglongjmp(broken, 1);
}

/* Whether `act` breaks an invariant. */
static bool breaks(void (*act)(void *context), void *context) {
  struct sigaction own = {.sa_handler = on_abort}, before;
  sigaction(SIGABRT, &own, &before);
  bool fired = sigsetjmp(broken, 1) != 0;
  if (!fired) act(context);
  sigaction(SIGABRT, &before, NULL);
  return fired;
}

static void check_plan(void *context) {
  braid_plan_check(context);
}

static void test_plans(void **state) {
  (void)state;
  if (!BRAID_ASSERTED) skip_test("invariants", "asserts are not compiled in");
  braid_machine *machine;
  braid_plan *plan = two_devices(&machine);
  assert_false(breaks(check_plan, plan));
  size_t tried[4] = {0};
  for (size_t i = 0; i < plan->storage_count; i++) {
    braid_storage *storage = &plan->storages[i], kept = *storage;
    if (storage->same_as >= 0) continue;
    storage->same_as = (braid_storage_id)i; /* a cycle */
    assert_true(breaks(check_plan, plan));
    *storage = kept;
    if (storage->first < 0) continue;
    storage->last = storage->first - 1;
    assert_true(breaks(check_plan, plan));
    *storage = kept;
    tried[0]++;
    for (size_t j = 0; j < plan->storage_count && storage->kind == BRAID_STORAGE_ARENA; j++) {
      const braid_storage *other = &plan->storages[j];
      if (j == i || other->same_as >= 0 || other->kind != storage->kind || other->space != storage->space ||
          other->first < 0 || other->first > storage->last || storage->first > other->last)
        continue;
      storage->offset = other->offset;
      assert_true(breaks(check_plan, plan));
      *storage = kept;
      tried[1]++;
    }
  }
  for (size_t i = 0; i < plan->steps.count; i++)
    for (size_t k = 0; k < plan->steps.items[i].wait_count; k++) {
      braid_step_wait *wait = &plan->steps.items[i].waits[k], kept = *wait;
      wait->nth = plan->queues[wait->queue].steps; /* not before the step */
      assert_true(breaks(check_plan, plan));
      *wait = (braid_step_wait){plan->steps.items[i].queue, plan->steps.items[i].nth};
      assert_true(breaks(check_plan, plan));
      *wait = kept;
      tried[2]++;
    }
  for (size_t i = 0; i < plan->steps.count; i++) { /* memory that is touched out of order */
    braid_step *step = &plan->steps.items[i];
    size_t kept = step->wait_count;
    if (!kept) continue;
    step->wait_count = 0;
    assert_true(breaks(check_plan, plan));
    step->wait_count = kept;
    tried[3]++;
  }
  assert_true(tried[0] > 3 && tried[1] > 0 && tried[2] > 0 && tried[3] > 0);
  assert_false(breaks(check_plan, plan));
  braid_plan_release(plan);
  braid_machine_release(machine);
}

static void add_reference(void *context) {
  braid_references_add(context);
}

static void drop_reference(void *context) {
  (void)braid_references_drop(context);
}

static void test_references(void **state) {
  (void)state;
  if (!BRAID_ASSERTED) skip_test("invariants", "asserts are not compiled in");
  uint32_t references = 1;
  assert_false(breaks(add_reference, &references));
  assert_false(breaks(drop_reference, &references));
  assert_false(breaks(drop_reference, &references));
  assert_true(breaks(add_reference, &references)); /* of what is gone */
  references = 0;
  assert_true(breaks(drop_reference, &references));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_plans), cmocka_unit_test(test_references)};
  return skip_run_group_tests(tests, NULL, NULL);
}
