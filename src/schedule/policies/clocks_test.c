/* Which clocks region-clock gives to what runs between two waits, known by hand. */
#include "schedule/policy.h"

#include <math.h>

#include "schedule/random_problem.h"

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    if ((call) != BRAID_OK) fail_msg("%s: %s", #call, braid_error_detail());                                           \
  } while (0)

/* Two GPUs: on the first a node of ten seconds at its only clock. */
static void make_gpus(fixture *f, size_t nodes) {
  init(f, nodes, 2, 1);
  for (int d = 0; d < 2; d++) {
    f->devices[d].class = BRAID_CLASS_GPU;
    f->devices[d].idle_watts = (braid_number){1, BRAID_MODELLED};
  }
  f->nodes[0].fixed = 0;
  read_by(f, 0, (int32_t)nodes);
  braid_offer *offer = offer_for(f, 0, (int32_t[]){0}, 1);
  offer->seconds = (braid_number){10, BRAID_MODELLED}, offer->joules = (braid_number){1000, BRAID_MODELLED};
}

/* On the second one, at three clocks: 1, 1.5 and 2 times the seconds, at 100, 40 and 20 W. */
static void add_clocked(fixture *f, int32_t node, double seconds, int32_t reads) {
  static const double kLonger[] = {1, 1.5, 2}, kWatts[] = {100, 40, 20};
  f->nodes[node].fixed = 1;
  read_by(f, (size_t)node, reads);
  for (int clock = 0; clock < 3; clock++) {
    braid_offer *offer = offer_for(f, 1, (int32_t[]){node}, 1);
    offer->clock = clock, offer->rank = (uint32_t)clock;
    offer->seconds = (braid_number){seconds * kLonger[clock], BRAID_MODELLED};
    offer->joules = (braid_number){offer->seconds.value * kWatts[clock], BRAID_MODELLED};
  }
}

static void expect_clocks(const fixture *f, double seconds, const int *clocks) {
  braid_arena *arena;
  braid_choices c;
  OK(braid_problem_check(&f->problem, NULL));
  OK(braid_arena_create(NULL, &arena));
  OK(braid_problem_solve(&braid_policy_region_clock, &f->problem, NULL, arena, &c));
  assert_true(fabs(c.seconds.value - seconds) < 1e-9);
  for (size_t n = 0; n < f->problem.node_count; n++)
    if (f->offers[c.offer_of[n]].clock != clocks[n])
      fail_msg("n%zu has clock %d, and %d is expected", n, f->offers[c.offer_of[n]].clock, clocks[n]);
  braid_arena_destroy(arena);
}

/* The lowest at which the step takes no longer. */
static void test_lowest(void **state) {
  (void)state;
  static const struct {
    double seconds;
    int clock;
  } cases[] = {{2, 2}, {5, 2}, {6, 1}, {7, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture f;
    make_gpus(&f, 2);
    add_clocked(&f, 1, cases[i].seconds, 2);
    expect_clocks(&f, 10, (int[]){0, cases[i].clock});
  }
}

/* What runs before a wait has a clock of its own, and what nothing waits for another one than what ends the step. */
static void test_waits(void **state) {
  (void)state;
  fixture f;
  make_gpus(&f, 3);
  add_clocked(&f, 1, 2, 3);
  add_clocked(&f, 2, 2, 0);
  expect_clocks(&f, 12, (int[]){0, 2, 0});
  make_gpus(&f, 3);
  add_clocked(&f, 1, 2, 3);
  add_clocked(&f, 2, 4, 1); /* no wait between them: one clock, at which both end in time */
  expect_clocks(&f, 10, (int[]){0, 1, 1});
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lowest), cmocka_unit_test(test_waits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
