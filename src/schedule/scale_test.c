/* Ten thousand devices in one plan, by every policy. */
#include "oom.h"
#include "schedule/large_problem.h"
#include "schedule/power.h"

enum { kDevices = 10000 };

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    if ((call) != BRAID_OK) fail_msg("%s: %s", #call, braid_error_detail());                                           \
  } while (0)

/* Every node starts after what it reads has ended and was moved; no device does two things at once. Returns how many
 * devices do anything. */
static size_t check_plan(const braid_problem *problem, const braid_choices *c) {
  double *free_at = calloc(problem->device_count, sizeof *free_at);
  size_t used = 0;
  assert_int_equal(c->task_count, problem->node_count);
  for (size_t i = 0; i < c->task_count; i++) {
    int32_t node = c->order[i];
    const braid_offer *offer = &problem->offers[c->offer_of[node]];
    assert_int_equal(offer->nodes[0], node);
    int space = problem->devices[offer->device].space;
    for (size_t r = 0; r < problem->nodes[node].read_count; r++) {
      int32_t value = problem->reads[problem->nodes[node].first_read + r], before = problem->values[value].producer;
      int from = before < 0 ? 0 : problem->devices[problem->offers[c->offer_of[before]].device].space;
      double there = (before < 0 ? 0 : c->end[before]) + braid_problem_moving(problem, value, from, space);
      assert_true(c->start[node] >= there - 1e-12);
    }
    used += free_at[offer->device] == 0;
    assert_true(c->start[node] >= free_at[offer->device] - 1e-12);
    free_at[offer->device] = c->end[node];
  }
  free(free_at);
  return used;
}

static void test_many_devices(void **state) {
  (void)state;
  large_problem wide, narrow;
  assert_true(large_make(&wide, 4000, 2000, kDevices));
  assert_true(large_make(&narrow, 200, 20, kDevices));
  OK(braid_problem_check(&wide.problem, NULL));
  for (size_t p = 0; p < braid_policy_count(); p++) {
    const braid_policy *policy = braid_policy_at(p);
    bool searches = policy == &braid_policy_slack_energy || policy == &braid_policy_optimal ||
                    policy == &braid_policy_hybrid_energy; /* they take seconds for so many nodes */
    const braid_problem *problem = searches ? &narrow.problem : &wide.problem;
    braid_arena *arena;
    braid_choices choices;
    braid_power power;
    OK(braid_arena_create(NULL, &arena));
    OK(braid_problem_solve(policy, problem, NULL, arena, &choices));
    size_t used = check_plan(problem, &choices);
    if (policy == &braid_policy_heft) assert_true(used >= 2000); /* a layer of 2,000 nodes runs at once */
    OK(braid_power_of(problem, &choices, NULL, arena, &power));
    assert_true(power.average_watts.value >= 10.0 * kDevices);
    braid_arena_destroy(arena);
  }
  large_free(&wide);
  large_free(&narrow);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_many_devices)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
