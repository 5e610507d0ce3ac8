/* dvfs: a step among others takes as long, and costs as much, as one of many that follow each other in one problem. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oom.h"
#include "schedule/policy.h"
#include "schedule/power.h"

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    if ((call) != BRAID_OK) fail_msg("%s: %s", #call, braid_error_detail());                                           \
  } while (0)

enum { kStep = 4, kTimes = 100, kNodes = kStep * kTimes };

typedef struct chain {
  braid_problem problem;
  braid_problem_node nodes[kNodes];
  braid_problem_value values[kNodes + 1];
  braid_problem_device device;
  braid_problem_space space;
  braid_problem_link link;
  braid_offer offers[2 * kNodes];
  int32_t reads[kNodes], members[kNodes];
} chain;

/* The step's operations one after the other, so many times, on a GPU of two clocks. `scale`: of their times. */
static void make_chain(chain *c, size_t times, double scale, double cap) {
  static const double kSeconds[kStep] = {10e-3, 3e-3, 17e-3, 8e-3}, kWatts[kStep] = {100, 60, 210, 130};
  size_t nodes = kStep * times;
  c->problem = (braid_problem){.nodes = c->nodes,
                               .node_count = nodes,
                               .values = c->values,
                               .value_count = nodes + 1,
                               .reads = c->reads,
                               .devices = &c->device,
                               .device_count = 1,
                               .spaces = &c->space,
                               .space_count = 1,
                               .kind_count = 1,
                               .links = &c->link,
                               .offers = c->offers,
                               .offer_count = 2 * nodes,
                               .cap_watts = {cap, BRAID_MODELLED}};
  c->device = (braid_problem_device){
      .name = "g", .class = BRAID_CLASS_GPU, .idle_watts = {20, BRAID_MODELLED}, .clock_seconds = 1e-3};
  c->space = (braid_problem_space){0, -1, -1};
  c->link = (braid_problem_link){0, 1};
  c->values[nodes] = (braid_problem_value){-1, 0, false};
  for (size_t n = 0; n < nodes; n++) {
    c->nodes[n] = (braid_problem_node){.name = "n", .fixed = -1, .first_read = n, .read_count = 1};
    c->values[n] = (braid_problem_value){(int32_t)n, 0, false};
    c->reads[n] = n ? (int32_t)n - 1 : (int32_t)nodes;
    c->members[n] = (int32_t)n;
    for (int clock = 0; clock < 2; clock++) {
      double seconds = scale * kSeconds[n % kStep] * (clock ? 1.5 : 1);
      double watts = 20 + (kWatts[n % kStep] - 20) * (clock ? 0.4 : 1);
      c->offers[2 * n + (size_t)clock] = (braid_offer){.clock = clock,
                                                       .rank = (uint32_t)clock,
                                                       .nodes = &c->members[n],
                                                       .node_count = 1,
                                                       .seconds = {seconds, BRAID_MODELLED},
                                                       .joules = {seconds * watts, BRAID_MODELLED},
                                                       .watts = {watts, BRAID_MODELLED}};
    }
  }
}

/* Of a step, by its mean where steps differ. */
typedef struct told {
  double seconds, joules, violations, above, idle_joules, peak;
  bool differ;
} told;

/* What the device draws while nothing runs on it. */
static double idle_joules(const chain *c, const braid_choices *choices) {
  double seconds = choices->seconds.value;
  for (size_t n = 0; n < c->problem.node_count; n++) seconds -= choices->end[n] - choices->start[n];
  return c->device.idle_watts.value * seconds;
}

static told forecast(chain *c) {
  braid_arena *arena;
  braid_choices choices;
  braid_power power;
  OK(braid_problem_check(&c->problem, NULL));
  OK(braid_arena_create(NULL, &arena));
  OK(braid_problem_solve(&braid_policy_dvfs, &c->problem, NULL, arena, &choices));
  OK(braid_power_of(&c->problem, &choices, NULL, arena, &power));
  const braid_mean_run *mean = &choices.mean;
  told t = {choices.seconds.value, choices.joules.value,     (double)power.violations,
            power.seconds_above,   idle_joules(c, &choices), power.peak_watts.value,
            mean->runs > 0};
  if (t.differ) {
    t = (told){mean->seconds,    mean->joules, mean->violations, mean->seconds_above, mean->idle_joules,
               mean->peak_watts, true};
    assert_true(fabs(mean->device_joules[0] - t.joules) <= 1e-6 * t.joules);
    assert_true(mean->shortest <= t.seconds && t.seconds <= mean->longest && mean->idle_joules >= -1e-9);
    assert_true(mean->shortest <= choices.seconds.value && choices.seconds.value <= mean->longest);
  }
  braid_arena_destroy(arena);
  return t;
}

static void expect_near(const char *what, double mean, double of_many, double part) {
  if (fabs(mean - of_many) > part * of_many + 1e-12) fail_msg("%g %s of a step, of a hundred %g", mean, what, of_many);
}

/* Steps longer than the window, about as long, and much shorter. */
static void test_many_steps(void **state) {
  (void)state;
  static const double kScales[] = {3.7, 1, 0.93, 0.31, 0.013};
  chain *one = calloc(2, sizeof *one), *many = one + 1;
  size_t differing = 0, same = 0;
  double worst = 0;
  assert_non_null(one);
  for (size_t s = 0; s < sizeof kScales / sizeof *kScales; s++)
    for (double cap = 60; cap <= 220; cap += 5) {
      make_chain(one, 1, kScales[s], cap), make_chain(many, kTimes, kScales[s], cap);
      told step = forecast(one), all = forecast(many);
      double off = fmax(fabs(kTimes * step.seconds / all.seconds - 1), fabs(kTimes * step.joules / all.joules - 1));
      if (off > 0.01)
        fail_msg("steps of %g times, %g W: %g s, %g J; of a hundred in one: %g s, %g J", kScales[s], cap, step.seconds,
                 step.joules, all.seconds / kTimes, all.joules / kTimes);
      expect_near("violations", step.violations, all.violations / kTimes, 0.07);
      expect_near("seconds above the cap", step.above, all.above / kTimes, 0.07);
      expect_near("J idle", step.idle_joules, all.idle_joules / kTimes, 0.05);
      assert_true(step.peak == all.peak); /* the largest, not that of the last */
      worst = fmax(worst, off);
      differing += step.differ, same += !step.differ;
    }
  print_message("%zu steps whose clocks differ, %zu others; a hundred in one are off by %.2f%% at worst\n", differing,
                same, worst * 100);
  assert_true(differing > 10 && same > 10);
  free(one);
}

/* --- two GPUs ------------------------------------------------------------------------------------------------------
 */
enum { kPair = 4 };

typedef struct pair {
  braid_problem problem;
  braid_problem_node nodes[kPair];
  braid_problem_value values[kPair + 1];
  braid_problem_device devices[2];
  braid_problem_space space;
  braid_problem_link link;
  braid_offer offers[2 * kPair];
  int32_t reads[kPair], members[kPair];
} pair;

/* GPUs that draw 10 W when idle; `slower`: each beside the other. */
static void make_pair(pair *p, double cap, double slower) {
  *p = (pair){.space = {0, -1, -1}, .link = {0, 1}};
  p->problem = (braid_problem){.nodes = p->nodes,
                               .values = p->values,
                               .reads = p->reads,
                               .devices = p->devices,
                               .device_count = 2,
                               .spaces = &p->space,
                               .space_count = 1,
                               .kind_count = 1,
                               .links = &p->link,
                               .offers = p->offers,
                               .cap_watts = {cap, BRAID_MODELLED}};
  for (int d = 0; d < 2; d++) {
    p->devices[d] =
        (braid_problem_device){.name = d ? "g1" : "g0", .class = BRAID_CLASS_GPU, .idle_watts = {10, BRAID_MODELLED}};
    if (slower > 0) p->devices[d].slower_beside = (braid_number){slower, BRAID_MODELLED};
  }
}

/* At the lower clock it takes half as long again, at 0.6 of the power. `after`: what it reads; -1: of the host. */
static void add_to_pair(pair *p, int device, int after, double seconds, double watts) {
  size_t n = p->problem.node_count++;
  p->nodes[n] = (braid_problem_node){.name = "n", .fixed = device, .first_read = n, .read_count = 1};
  p->values[n] = (braid_problem_value){(int32_t)n, 0, false};
  p->reads[n] = after;
  p->members[n] = (int32_t)n;
  for (int clock = 0; clock < 2; clock++) {
    double longer = clock ? 1.5 : 1, less = clock ? 0.6 : 1;
    p->offers[p->problem.offer_count++] = (braid_offer){.device = device,
                                                        .clock = clock,
                                                        .rank = (uint32_t)clock,
                                                        .nodes = &p->members[n],
                                                        .node_count = 1,
                                                        .seconds = {seconds * longer, BRAID_MODELLED},
                                                        .joules = {seconds * longer * watts * less, BRAID_MODELLED},
                                                        .watts = {watts * less, BRAID_MODELLED}};
  }
}

static void solve_pair(pair *p, braid_arena *arena, braid_choices *choices) {
  size_t nodes = p->problem.node_count;
  p->problem.value_count = nodes + 1;
  p->values[nodes] = (braid_problem_value){-1, 0, false};
  for (size_t n = 0; n < nodes; n++)
    if (p->reads[n] < 0) p->reads[n] = (int32_t)nodes;
  OK(braid_problem_check(&p->problem, NULL));
  OK(braid_problem_solve(&braid_policy_dvfs, &p->problem, NULL, arena, choices));
}

/* What interference slows draws its power for longer, no less of it: two of 100 W are above 125 W. */
static void test_interference(void **state) {
  (void)state;
  for (int slower = 0; slower < 2; slower++) {
    pair p;
    braid_choices choices;
    braid_arena *arena;
    make_pair(&p, 125, 0.5 * slower);
    add_to_pair(&p, 0, -1, 0.1, 100);
    add_to_pair(&p, 1, -1, 0.1, 100);
    OK(braid_arena_create(NULL, &arena));
    solve_pair(&p, arena, &choices);
    for (int n = 0; n < 2; n++) assert_int_equal(p.offers[choices.offer_of[n]].clock, 1);
    assert_true(choices.mean.runs == 0); /* 120 W are in the band: clocks stay */
    braid_arena_destroy(arena);
  }
}

/* Power changes while nothing starts: for half a second 250 W, above the cap, then 160 W, within the band. What starts
 * after that has the lower clock, whether something starts in between or not. */
static void test_change_between(void **state) {
  (void)state;
  for (int more = 0; more < 2; more++) {
    pair p;
    braid_choices choices;
    braid_arena *arena;
    make_pair(&p, 162, 0);
    add_to_pair(&p, 0, -1, 1, 150);
    add_to_pair(&p, 1, -1, 0.5, 100);
    add_to_pair(&p, 0, 0, 1, 150);
    add_to_pair(&p, 1, more ? 1 : 0, 0.5e-3, 10);
    OK(braid_arena_create(NULL, &arena));
    solve_pair(&p, arena, &choices);
    assert_int_equal(p.offers[choices.offer_of[2]].clock, 1);
    braid_arena_destroy(arena);
  }
}

/* Steps of half a millisecond, of which those are counted at once that no sample falls into: the other GPU is idle in
 * all of them. */
static void test_idle(void **state) {
  (void)state;
  pair p;
  braid_choices choices;
  braid_arena *arena;
  make_pair(&p, 120, 0);
  add_to_pair(&p, 0, -1, 0.5e-3, 150);
  OK(braid_arena_create(NULL, &arena));
  solve_pair(&p, arena, &choices);
  const braid_mean_run *mean = &choices.mean;
  assert_true(mean->runs > 2000 && mean->longest > mean->shortest);
  assert_true(fabs(mean->idle_joules - 10 * mean->seconds) <= 1e-9 * mean->idle_joules);
  assert_true(fabs(mean->device_joules[1] - mean->idle_joules) <= 1e-9 * mean->idle_joules);
  braid_arena_destroy(arena);
}

/* The clocks of GPUs follow, without any those of the first device's class; those of others do not. Reasons say so. */
static void test_others(void **state) {
  (void)state;
  static const char kStandIn[] = "on what stands for a GPU, at the clock";
  static const struct {
    braid_device_class classes[2];
    int fixed;
    const char *reasons[2];
  } cases[] = {
      {{BRAID_CLASS_CPU, BRAID_CLASS_GPU}, 0, {"by hand", "on the GPU, at the clock"}},
      {{BRAID_CLASS_CPU, BRAID_CLASS_GPU}, -1, {"no GPU runs it", "on the GPU, at the clock"}},
      {{BRAID_CLASS_FPGA, BRAID_CLASS_CPU}, -1, {kStandIn, "no GPU runs it, or what stands for one"}},
      {{BRAID_CLASS_FPGA, BRAID_CLASS_FPGA}, -1, {kStandIn, kStandIn}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    pair p;
    braid_choices choices;
    braid_arena *arena;
    make_pair(&p, 60, 0);
    for (int d = 0; d < 2; d++) {
      add_to_pair(&p, d, -1, 0.1, 100);
      p.devices[d].class = cases[i].classes[d];
      p.nodes[d].fixed = cases[i].fixed;
    }
    p.nodes[1].fixed = -1;
    OK(braid_arena_create(NULL, &arena));
    solve_pair(&p, arena, &choices);
    for (int d = 0; d < 2; d++) {
      bool follows = strstr(cases[i].reasons[d], "at the clock") != NULL;
      assert_int_equal(p.offers[choices.offer_of[d]].clock, follows);
      if (!strstr(choices.reasons[d], cases[i].reasons[d])) fail_msg("%zu, %d: %s", i, d, choices.reasons[d]);
    }
    braid_arena_destroy(arena);
  }
}

static braid_status solve_capped(const braid_allocator *allocator, void *context) {
  const chain *c = context;
  braid_arena *arena;
  braid_choices choices;
  braid_status status = braid_arena_create(allocator, &arena);
  if (status != BRAID_OK) return status;
  status = braid_problem_solve(&braid_policy_dvfs, &c->problem, allocator, arena, &choices);
  if (status == BRAID_OK) assert_true(choices.joules.value > 0);
  braid_arena_destroy(arena);
  return status;
}

/* Steps of 3.8 s: a few runs, each of which needs memory. */
static void test_out_of_memory(void **state) {
  (void)state;
  chain *c = calloc(1, sizeof *c);
  assert_non_null(c);
  make_chain(c, 1, 100, 150);
  (void)oom_sweep(solve_capped, c);
  free(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_many_steps), cmocka_unit_test(test_interference), cmocka_unit_test(test_change_between),
      cmocka_unit_test(test_idle),       cmocka_unit_test(test_others),       cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
