/* Under a cap slack-energy costs no more than what other policies make that happens to keep it, and takes no longer
 * than hybrid-cap. */
#include <stdlib.h>

#include "schedule/policy.h"
#include "schedule/power.h"
#include "schedule/random_problem.h"

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    if ((call) != BRAID_OK) fail_msg("%s: %s", #call, braid_error_detail());                                           \
  } while (0)

static bool is_known(const braid_choices *c) {
  return c->seconds.source != BRAID_UNKNOWN && c->joules.source != BRAID_UNKNOWN;
}

static bool keeps_cap(const fixture *f, const braid_choices *c, braid_arena *arena) {
  braid_power power;
  OK(braid_power_of(&f->problem, c, NULL, arena, &power));
  return !power.violations && !power.violations_unknown && power.peak_watts.source != BRAID_UNKNOWN;
}

static void test_by_chance(void **state) {
  (void)state;
  static const braid_policy *const kOthers[] = {&braid_policy_gpu_only, &braid_policy_heft, &braid_policy_hybrid_energy,
                                                &braid_policy_region_clock};
  fixture *f = malloc(sizeof *f);
  size_t kept = 0;
  for (uint32_t s = 0; s < 6000; s++) {
    uint32_t first = seed = 70000 + s;
    make_random(f, kNodes, s % 2);
    if (f->problem.cap_watts.source == BRAID_UNKNOWN) continue;
    braid_arena *arena;
    braid_choices base, slack, other;
    OK(braid_arena_create(NULL, &arena));
    bool solved = braid_problem_solve(&braid_policy_hybrid_cap, &f->problem, NULL, arena, &base) == BRAID_OK &&
                  braid_problem_solve(&braid_policy_slack_energy, &f->problem, NULL, arena, &slack) == BRAID_OK &&
                  is_known(&base) && is_known(&slack);
    if (solved) assert_true(slack.seconds.value <= base.seconds.value * (1 + 1e-9));
    for (size_t i = 0; solved && i < sizeof kOthers / sizeof *kOthers; i++) {
      if (braid_problem_solve(kOthers[i], &f->problem, NULL, arena, &other) != BRAID_OK || !is_known(&other)) continue;
      if (!keeps_cap(f, &other, arena) || other.seconds.value > base.seconds.value) continue;
      kept++;
      if (slack.joules.value > other.joules.value * (1 + 1e-9))
        fail_msg("seed %u: slack-energy %g J, %s, which keeps the cap, %g J", first, slack.joules.value,
                 kOthers[i]->name, other.joules.value);
    }
    braid_arena_destroy(arena);
  }
  free(f);
  assert_true(kept > 500);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_by_chance)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
