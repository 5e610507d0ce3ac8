/* Power over time of a schedule that is written down here: steps, peaks, violations, time above caps. */
#include "schedule/power.h"

#include <math.h>

#include "oom.h"

enum { kTasks = 3 };

/* Two devices, which draw 10 W and 5 W when idle. On the first, whose cap is 50 W, 100 W for a second and then 40 W for
 * two; on the second 25 W from 0.5 s to 2 s. The last results are on the host after 4 s. */
typedef struct schedule {
  braid_problem problem;
  braid_problem_node nodes[kTasks];
  braid_problem_device devices[2];
  braid_offer offers[kTasks];
  braid_choices choices;
  int32_t members[kTasks], offer_of[kTasks], order[kTasks];
  double start[kTasks], end[kTasks];
} schedule;

static void make_schedule(schedule *s, double cap) {
  static const double kStart[kTasks] = {0, 1, 0.5}, kEnd[kTasks] = {1, 3, 2}, kWatts[kTasks] = {100, 40, 25};
  *s = (schedule){.devices = {{.name = "a", .idle_watts = {10, BRAID_MODELLED}, .cap_watts = {50, BRAID_MODELLED}},
                              {.name = "b", .idle_watts = {5, BRAID_MODELLED}}}};
  s->problem = (braid_problem){.nodes = s->nodes,
                               .node_count = kTasks,
                               .devices = s->devices,
                               .device_count = 2,
                               .offers = s->offers,
                               .offer_count = kTasks};
  if (cap > 0) s->problem.cap_watts = (braid_number){cap, BRAID_MODELLED};
  for (int i = 0; i < kTasks; i++) {
    double seconds = kEnd[i] - kStart[i];
    s->members[i] = s->offer_of[i] = s->order[i] = i;
    s->start[i] = kStart[i], s->end[i] = kEnd[i];
    s->offers[i] = (braid_offer){.device = i == 2,
                                 .nodes = &s->members[i],
                                 .node_count = 1,
                                 .seconds = {seconds, BRAID_MODELLED},
                                 .joules = {0.8 * kWatts[i] * seconds, BRAID_MODELLED},
                                 .watts = {kWatts[i], BRAID_MODELLED}};
  }
  s->choices = (braid_choices){.offer_of = s->offer_of,
                               .order = s->order,
                               .task_count = kTasks,
                               .start = s->start,
                               .end = s->end,
                               .seconds = {4, BRAID_MODELLED},
                               .joules = {200, BRAID_MODELLED}};
}

static void assert_near(double is, double expected) {
  if (!(fabs(is - expected) < 1e-9)) fail_msg("%.12g, and %.12g is expected", is, expected);
}

static void find_power(const schedule *s, braid_arena *arena, braid_power *power) {
  assert_int_equal(braid_power_of(&s->problem, &s->choices, NULL, arena, power), BRAID_OK);
}

static void test_steps(void **state) {
  (void)state;
  static const struct {
    double from, peak, watts;
  } expected[] = {{0, 105, 85}, {0.5, 125, 100}, {1, 65, 52}, {2, 45, 37}, {3, 15, 15}};
  schedule s;
  braid_power power;
  braid_arena *arena;
  assert_int_equal(braid_arena_create(NULL, &arena), BRAID_OK);
  make_schedule(&s, 0);
  find_power(&s, arena, &power);
  assert_int_equal(power.count, sizeof expected / sizeof *expected);
  for (size_t i = 0; i < power.count; i++) {
    assert_near(power.steps[i].from, expected[i].from);
    assert_near(power.steps[i].peak_watts, expected[i].peak);
    assert_near(power.steps[i].watts, expected[i].watts);
  }
  assert_near(power.peak_watts.value, 125);
  assert_near(power.average_watts.value, 50);
  assert_int_equal(power.violations, 1); /* of the device's cap, until its task ends */
  assert_near(power.seconds_above, 1);
  braid_arena_destroy(arena);
}

/* What is above the cap of the machine: until the last result has arrived, if idle devices are. */
static void test_caps(void **state) {
  (void)state;
  static const struct {
    double cap, above;
    size_t violations;
  } cases[] = {{200, 1, 1}, {110, 1, 2}, {60, 2, 3}, {65, 1, 2}, {40, 3, 3}, {14, 4, 3}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    schedule s;
    braid_power power;
    braid_arena *arena;
    assert_int_equal(braid_arena_create(NULL, &arena), BRAID_OK);
    make_schedule(&s, cases[i].cap);
    find_power(&s, arena, &power);
    assert_near(power.seconds_above, cases[i].above);
    assert_int_equal(power.violations, cases[i].violations);
    assert_false(power.violations_unknown);
    braid_arena_destroy(arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps), cmocka_unit_test(test_caps)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
