/* What every policy promises, on random problems, and on tiny ones against all solutions there are. */
#include "schedule/policy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oom.h"
#include "schedule/policies/improve.h"
#include "schedule/power.h"
#include "schedule/random_problem.h"

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    if ((call) != BRAID_OK) fail_msg("%s: %s", #call, braid_error_detail());                                           \
  } while (0)

/* --- what must hold ------------------------------------------------------------------------------------------------
 */
static void check_choices(const fixture *f, const braid_policy *policy, const braid_choices *c) {
  const braid_problem *problem = &f->problem;
  int32_t position[kNodes];
  size_t covered = 0, running = 0;
  for (size_t n = 0; n < kNodes; n++) position[n] = -1;
  for (size_t i = 0; i < c->task_count; i++) { /* every node in exactly one task */
    const braid_offer *offer = &f->offers[c->offer_of[c->order[i]]];
    assert_true(braid_offer_allowed(problem, offer));
    assert_int_equal(offer->nodes[offer->node_count - 1], c->order[i]);
    assert_non_null(c->reasons[c->order[i]]);
    for (size_t k = 0; k < offer->node_count; k++) {
      assert_int_equal(position[offer->nodes[k]], -1);
      assert_int_equal(c->offer_of[offer->nodes[k]], c->offer_of[c->order[i]]);
      position[offer->nodes[k]] = (int32_t)i;
      covered++;
    }
  }
  double free_at[kDevices] = {0}, last = 0;
  int clocks[kDevices] = {0};
  for (size_t i = 0; i < c->task_count && c->steady; i++) { /* each device begins at the clock at which it ends */
    const braid_offer *offer = &f->offers[c->offer_of[c->order[i]]];
    for (size_t k = 0; k <= offer->also_count; k++)
      clocks[k < offer->also_count ? offer->also[k] : offer->device] = offer->clock;
  }
  for (size_t n = 0; n < problem->node_count; n++) running += !f->nodes[n].idle;
  assert_int_equal(covered, running);
  for (size_t i = 0; i < c->task_count; i++) {
    const braid_offer *offer = &f->offers[c->offer_of[c->order[i]]];
    double start = c->start[c->order[i]], end = c->end[c->order[i]];
    assert_true(fabs(end - start - offer->seconds.value) < 1e-9);
    for (size_t k = 0; k <= offer->also_count; k++) { /* one at a time, at one clock */
      int d = k < offer->also_count ? offer->also[k] : offer->device;
      assert_true(start >= free_at[d] + (clocks[d] == offer->clock ? 0 : f->devices[d].clock_seconds) - 1e-12);
      free_at[d] = end;
      clocks[d] = offer->clock;
    }
    if (end > last) last = end;
    for (size_t k = 0; k < offer->node_count; k++) {
      const braid_problem_node *node = &f->nodes[offer->nodes[k]];
      for (size_t r = 0; r < node->read_count; r++) {
        int32_t value = f->reads[node->first_read + r], before = f->values[value].producer;
        if (before >= 0 && position[before] == (int32_t)i) continue;
        int from = before < 0 ? 0 : f->devices[f->offers[c->offer_of[before]].device].space;
        int space = f->devices[offer->device].space;
        double there = before < 0 ? 0 : c->end[before];
        const braid_problem_link *link = braid_problem_link_between(problem, from, space);
        if (from != space) there += link->seconds + (double)f->values[value].bytes / link->bytes_per_second;
        if (before >= 0 && position[before] >= (int32_t)i)
          fail_msg("%s: n%d before what it reads", policy->name, node->first_read ? 0 : 1);
        assert_true(start >= there - 1e-12);
      }
    }
  }
  if (c->seconds.source != BRAID_UNKNOWN) assert_true(c->seconds.value >= last);
}

/* Energy as the sum over what every device does; caps hold at every instant, the starts included. */
static void check_power(const fixture *f, const braid_policy *policy, const braid_choices *c, braid_arena *arena) {
  const braid_problem *problem = &f->problem;
  braid_power power;
  double joules = 0, busy[kDevices] = {0}, area = 0;
  OK(braid_power_of(problem, c, NULL, arena, &power));
  if (policy->capped) {
    assert_int_equal(power.violations, 0);
    assert_true(power.seconds_above == 0);
    if (problem->cap_watts.source != BRAID_UNKNOWN) {
      assert_int_not_equal(power.peak_watts.source, BRAID_UNKNOWN);
      assert_true(power.peak_watts.value <= problem->cap_watts.value * (1 + 1e-9));
    }
  }
  if (c->joules.source == BRAID_UNKNOWN) return;
  for (size_t i = 0; i < c->task_count; i++) {
    const braid_offer *offer = &f->offers[c->offer_of[c->order[i]]];
    joules += offer->joules.value;
    busy[offer->device] += offer->seconds.value;
    for (size_t k = 0; k < offer->also_count; k++) busy[offer->also[k]] += offer->seconds.value;
  }
  for (size_t d = 0; d < problem->device_count; d++)
    joules += f->devices[d].idle_watts.value * (c->seconds.value - busy[d]);
  assert_true(fabs(joules - c->joules.value) < 1e-6 * (1 + joules));
  for (size_t i = 0; i < power.count; i++) {
    double to = i + 1 < power.count ? power.steps[i + 1].from : c->seconds.value;
    area += power.steps[i].watts * (to - power.steps[i].from);
    assert_true(power.steps[i].peak_watts <= power.peak_watts.value * (1 + 1e-9));
  }
  assert_true(fabs(area - joules) < 1e-6 * (1 + joules));
}

/* No simulation is over before what it takes at least; and where nothing is brought anywhere, playing takes just that.
 */
static void check_least(const fixture *f, const braid_choices *c, bool exact, braid_arena *arena) {
  const braid_choosing choosing = {.problem = &f->problem, .arena = arena};
  braid_least_seconds least;
  if (c->seconds.source == BRAID_UNKNOWN) return;
  OK(braid_least_seconds_init(&choosing, &least));
  assert_false(braid_takes_longer(&f->problem, c, true, c->seconds.value * (1 + 1e-9), &least));
  assert_false(braid_takes_longer(&f->problem, c, false, c->seconds.value * (1 + 1e-9), &least));
  if (exact && c->seconds.value > 0)
    assert_true(braid_takes_longer(&f->problem, c, true, c->seconds.value * (1 - 1e-6), &least));
}

/* What a policy found while it simulated holds when every device simply runs its tasks in that order, as queues do. */
static void check_replay(const fixture *f, const braid_policy *policy, const braid_choices *c, braid_arena *arena) {
  bool refused[kOffers] = {false};
  braid_choosing choosing = {.problem = &f->problem, .arena = arena, .refused = refused};
  braid_choices again;
  if (c->steady) check_least(f, c, false, arena);
  if (!c->ordered || !c->steady || f->problem.space_count > 1 || policy->capped) return;
  OK(braid_choices_init(&choosing, &again));
  memcpy(again.offer_of, c->offer_of, f->problem.node_count * sizeof *again.offer_of);
  memcpy(again.order, c->order, c->task_count * sizeof *again.order);
  again.task_count = c->task_count;
  OK(braid_choices_play(&choosing, &again));
  assert_true(again.seconds.value <= c->seconds.value + 1e-9);
  check_least(f, &again, true, arena);
}

/* The movement that is exposed is what the run is longer than the same one over links that take no time; of a run that
 * a rule made, or in which tasks wait under a cap, it is no more than all movement. */
static void check_exposed(const fixture *f, const braid_choices *c, braid_arena *arena) {
  braid_problem_link instant[kDevices * kDevices];
  bool refused[kOffers] = {false};
  braid_problem unmoved = f->problem;
  braid_choosing choosing = {.problem = &f->problem, .arena = arena, .refused = refused};
  braid_choices again;
  if (c->seconds.source == BRAID_UNKNOWN) return;
  assert_true(c->exposed_seconds >= 0 && c->exposed_seconds <= c->moving_seconds + 1e-9);
  for (int i = 0; i < kDevices * kDevices; i++) instant[i] = (braid_problem_link){0, INFINITY};
  OK(braid_choices_init(&choosing, &again));
  memcpy(again.offer_of, c->offer_of, f->problem.node_count * sizeof *again.offer_of);
  memcpy(again.order, c->order, c->task_count * sizeof *again.order);
  again.task_count = c->task_count;
  OK(braid_choices_play(&choosing, &again));
  double seconds = again.seconds.value, exposed = again.exposed_seconds;
  unmoved.links = instant;
  choosing.problem = &unmoved;
  OK(braid_choices_play(&choosing, &again));
  assert_true(again.moving_seconds == 0 && again.exposed_seconds == 0);
  assert_true(fabs(seconds - again.seconds.value - exposed) < 1e-9);
}

/* Whoever promises it is no slower than the GPUs alone, or, what goes by the first device's class, than that. */
static void check_no_slower(const fixture *f, const braid_choices *alone, braid_arena *arena, uint32_t number) {
  bool gpus = false;
  for (size_t d = 0; d < f->problem.device_count; d++) gpus |= f->devices[d].class == BRAID_CLASS_GPU;
  for (size_t p = 0; p < braid_policy_count(); p++) {
    const braid_policy *policy = braid_policy_at(p);
    braid_choices choices;
    if (!policy->no_loss || (policy == &braid_policy_heft && !gpus)) continue;
    if (policy->capped && f->problem.cap_watts.source != BRAID_UNKNOWN) continue;
    if (policy == &braid_policy_optimal && number % 20 > 1) continue; /* its searches take seconds */
    if (braid_problem_solve(policy, &f->problem, NULL, arena, &choices) != BRAID_OK) {
      assert_true(policy->capped); /* caps of devices */
      continue;
    }
    if (choices.seconds.source == BRAID_UNKNOWN) fail_msg("%s: problem %u: a time is unknown", policy->name, number);
    if (choices.seconds.value > alone->seconds.value * (1 + 1e-9))
      fail_msg("%s: problem %u: %g s, alone %g", policy->name, number, choices.seconds.value, alone->seconds.value);
  }
}

/* Offloading neither costs time nor energy. */
static void check_no_loss(const fixture *f, braid_arena *arena, uint32_t number, bool *saves) {
  braid_choices alone, hybrid, slack;
  *saves = false;
  if (braid_problem_solve(&braid_policy_gpu_only, &f->problem, NULL, arena, &alone) != BRAID_OK) return;
  if (alone.seconds.source == BRAID_UNKNOWN) return;
  check_no_slower(f, &alone, arena, number);
  OK(braid_problem_solve(&braid_policy_hybrid_energy, &f->problem, NULL, arena, &hybrid));
  if (alone.joules.source == BRAID_UNKNOWN || hybrid.joules.source == BRAID_UNKNOWN) return;
  assert_true(hybrid.joules.value <= alone.joules.value * (1 + 1e-9));
  if (f->problem.cap_watts.source != BRAID_UNKNOWN) return;
  if (braid_problem_solve(&braid_policy_slack_energy, &f->problem, NULL, arena, &slack) == BRAID_OK &&
      slack.joules.source != BRAID_UNKNOWN)
    assert_true(slack.joules.value <= hybrid.joules.value * (1 + 1e-9));
  *saves = hybrid.joules.value < alone.joules.value * (1 - 1e-6);
}

/* Under a cap of the machine what saves energy takes no longer than hybrid-cap. */
static void check_deadline(const fixture *f, const braid_choices *c, const braid_policy *policy, braid_arena *arena) {
  braid_choices fast;
  if (f->problem.cap_watts.source == BRAID_UNKNOWN) return;
  if (policy != &braid_policy_slack_energy && policy != &braid_policy_optimal) return;
  OK(braid_problem_solve(&braid_policy_hybrid_cap, &f->problem, NULL, arena, &fast));
  if (fast.seconds.source == BRAID_UNKNOWN) return;
  if (c->seconds.source == BRAID_UNKNOWN || c->seconds.value > fast.seconds.value * (1 + 1e-9))
    fail_msg("%s: %g s, hybrid-cap %g", policy->name, c->seconds.value, fast.seconds.value);
}

static bool all_known(const fixture *f, const braid_choices *c) {
  for (size_t i = 0; i < c->task_count; i++)
    if (f->offers[c->offer_of[c->order[i]]].seconds.source == BRAID_UNKNOWN) return false;
  return true;
}

static bool solve(const fixture *f, const braid_policy *policy, braid_arena *arena, braid_choices *out) {
  braid_status status = braid_problem_solve(policy, &f->problem, NULL, arena, out);
  if (status == BRAID_OK) return true;
  assert_int_equal(status, BRAID_UNSUPPORTED);
  if (!strstr(braid_error_detail(), "no offer is left")) fail_msg("%s: %s", policy->name, braid_error_detail());
  return false;
}

/* Whoever may run alone, though fixed, is never left over. */
static bool has_singles(const fixture *f, bool capped) {
  for (size_t n = 0; n < f->problem.node_count; n++) {
    bool found = f->nodes[n].idle;
    for (size_t i = 0; i < f->problem.offer_count && !found; i++)
      found = f->offers[i].node_count == 1 && f->offers[i].nodes[0] == (int32_t)n &&
              braid_offer_allowed(&f->problem, &f->offers[i]) &&
              (!capped || braid_offer_within_caps(&f->problem, &f->offers[i]));
    if (!found) return false;
  }
  return true;
}

/* On the first device that runs it alone, or on one before that; and in no smaller set than is offered there. */
static void check_first(const fixture *f, const braid_choices *c) {
  for (size_t i = 0; i < f->problem.offer_count; i++) {
    const braid_offer *offer = &f->offers[i];
    if (!braid_offer_allowed(&f->problem, offer)) continue;
    bool smaller = true;
    for (size_t k = 0; k < offer->node_count; k++) {
      const braid_offer *taken = &f->offers[c->offer_of[offer->nodes[k]]];
      if (offer->node_count == 1) assert_true(taken->device <= offer->device);
      smaller &= taken->device == offer->device && taken->node_count < offer->node_count;
    }
    if (!offer->region) assert_false(smaller);
  }
}

static void test_random(void **state) {
  (void)state;
  size_t solved = 0, unsolved = 0, with_regions = 0, savings = 0;
  fixture *f = malloc(sizeof *f);
  for (uint32_t s = 0; s < 3000; s++) {
    seed = s;
    make_random(f, kNodes, s % 2);
    OK(braid_problem_check(&f->problem, NULL));
    braid_arena *arena;
    OK(braid_arena_create(NULL, &arena));
    for (size_t p = 0; p < braid_policy_count(); p++) {
      const braid_policy *policy = braid_policy_at(p);
      braid_choices choices, again;
      if (policy == &braid_policy_optimal && s % 20 > 1) continue; /* its searches take seconds */
      if (!solve(f, policy, arena, &choices)) {
        assert_false(has_singles(f, policy->capped));
        unsolved++;
        continue;
      }
      solved++;
      check_choices(f, policy, &choices);
      if (policy != &braid_policy_dvfs) assert_true(choices.steady); /* what runs again begins as it ended */
      check_power(f, policy, &choices, arena);
      check_replay(f, policy, &choices, arena);
      check_exposed(f, &choices, arena);
      check_deadline(f, &choices, policy, arena);
      if (policy == &braid_policy_first && has_singles(f, false)) check_first(f, &choices);
      for (size_t i = 0; i < choices.task_count; i++)
        with_regions += f->offers[choices.offer_of[choices.order[i]]].region;
      assert_true(solve(f, policy, arena, &again));
      assert_memory_equal(choices.offer_of, again.offer_of, f->problem.node_count * sizeof *again.offer_of);
    }
    bool saves;
    check_no_loss(f, arena, s, &saves);
    savings += saves;
    braid_arena_destroy(arena);
  }
  free(f);
  assert_true(savings > 100);
  assert_true(solved > 5000 && unsolved < solved / 2 && with_regions > 500);
}

/* --- all solutions -------------------------------------------------------------------------------------------------
 */
typedef struct search {
  const fixture *f;
  braid_choosing choosing;
  braid_choices choices;
  double best, alone[kDevices]; /* seconds; INFINITY: there is no solution of known time */
} search;

static void visit(search *s) {
  int32_t cycle;
  bool used[kDevices] = {false};
  OK(braid_choices_sort(&s->choosing, &s->choices, &cycle));
  if (cycle >= 0) return;
  OK(braid_choices_play(&s->choosing, &s->choices));
  if (!all_known(s->f, &s->choices)) return;
  double seconds = s->choices.seconds.value;
  for (size_t i = 0; i < s->choices.task_count; i++)
    used[s->f->offers[s->choices.offer_of[s->choices.order[i]]].device] = true;
  int devices = used[0] + used[1] + used[2];
  if (seconds < s->best) s->best = seconds;
  for (size_t d = 0; d < kDevices; d++)
    if (devices == 1 && used[d] && seconds < s->alone[d]) s->alone[d] = seconds;
}

static void search_from(search *s, int32_t node) {
  const fixture *f = s->f;
  int32_t count = (int32_t)f->problem.node_count;
  while (node < count && (f->nodes[node].idle || s->choices.offer_of[node] >= 0)) node++;
  if (node == count) {
    visit(s);
    return;
  }
  for (size_t i = 0; i < f->problem.offer_count; i++) {
    const braid_offer *offer = &f->offers[i];
    bool has = false;
    for (size_t k = 0; k < offer->node_count; k++) has |= offer->nodes[k] == node;
    if (!has || !braid_choices_free(&s->choosing, &s->choices, (int32_t)i)) continue;
    braid_choices_take(&s->choosing, &s->choices, (int32_t)i, "");
    search_from(s, node + 1);
    for (size_t k = 0; k < offer->node_count; k++) s->choices.offer_of[offer->nodes[k]] = -1;
  }
}

static void test_all_solutions(void **state) {
  (void)state;
  size_t optimal = 0, compared = 0;
  double worst = 1;
  fixture *f = malloc(sizeof *f);
  for (uint32_t s = 0; s < 2000; s++) {
    seed = 77777 + s;
    make_random(f, 6, s % 2);
    braid_arena *arena;
    OK(braid_arena_create(NULL, &arena));
    bool refused[kOffers];
    for (size_t i = 0; i < f->problem.offer_count; i++) refused[i] = !braid_offer_allowed(&f->problem, &f->offers[i]);
    search all = {.f = f, .choosing = {.problem = &f->problem, .arena = arena, .refused = refused}, .best = INFINITY};
    for (size_t d = 0; d < kDevices; d++) all.alone[d] = INFINITY;
    OK(braid_choices_init(&all.choosing, &all.choices));
    search_from(&all, 0);
    for (size_t p = 0; p < braid_policy_count(); p++) {
      const braid_policy *policy = braid_policy_at(p);
      braid_choices choices;
      if (!solve(f, policy, arena, &choices)) continue;
      if (choices.seconds.source != BRAID_UNKNOWN && !choices.ordered) /* else its order may be another one */
        assert_true(choices.seconds.value >= all.best - 1e-9);
      if (policy != &braid_policy_heft) continue;
      for (size_t d = 0; d < f->problem.device_count; d++) {
        if (isinf(all.alone[d])) continue;
        assert_int_not_equal(choices.seconds.source, BRAID_UNKNOWN); /* what is known comes before what is not */
        /* With transfers a set may wait for what only its last node reads: then smaller ones would end sooner. */
        if (f->problem.space_count == 1 && !f->rich) assert_true(choices.seconds.value <= all.alone[d] + 1e-9);
      }
      if (choices.seconds.source == BRAID_UNKNOWN || isinf(all.best)) continue;
      compared++;
      optimal += choices.seconds.value <= all.best + 1e-9;
      if (choices.seconds.value > worst * all.best) worst = choices.seconds.value / all.best;
    }
    braid_arena_destroy(arena);
  }
  free(f);
  print_message("heft: the best there is in %zu of %zu, at worst %.2f times as long\n", optimal, compared, worst);
  assert_true(compared > 500 && optimal > compared / 2);
}

/* --- one by one ----------------------------------------------------------------------------------------------------
 */
/* 0 -> 1 and 2 -> 3: {0, 3} and {1, 2} are convex, and wait for each other. */
static void test_cycle(void **state) {
  (void)state;
  fixture f;
  init(&f, 4, 1, 1);
  read_by(&f, 0, 4), read_by(&f, 1, 0), read_by(&f, 2, 5), read_by(&f, 3, 2);
  for (int32_t n = 0; n < 4; n++) offer_for(&f, 0, &n, 1);
  offer_for(&f, 0, (int32_t[]){0, 3}, 2)->region = true;
  offer_for(&f, 0, (int32_t[]){1, 2}, 2)->region = true;
  for (size_t i = 0; i < f.problem.offer_count; i++) f.offers[i].seconds = (braid_number){1, BRAID_MODELLED};
  OK(braid_problem_check(&f.problem, NULL));
  for (size_t p = 0; p < braid_policy_count(); p++) {
    braid_arena *arena;
    braid_choices choices;
    OK(braid_arena_create(NULL, &arena));
    OK(braid_problem_solve(braid_policy_at(p), &f.problem, NULL, arena, &choices));
    check_choices(&f, braid_policy_at(p), &choices);
    assert_int_equal(choices.task_count, 3);
    assert_int_equal(choices.offer_of[0], 4);
    assert_int_equal(choices.offer_of[3], 4);
    braid_arena_destroy(arena);
  }
}

/* What ends soonest step by step, and what first.c does, is slow here: n0 is done sooner on a, which cannot run n1, and
 * bringing it to b takes long. On b alone both are done before that. */
static void test_never_slower_than_one_device(void **state) {
  (void)state;
  fixture f;
  braid_arena *arena;
  braid_choices choices;
  init(&f, 2, 2, 2);
  read_by(&f, 0, 2), read_by(&f, 1, 0);
  for (int i = 0; i < 4; i++) f.links[i] = (braid_problem_link){1e-3, 1e6};
  f.spaces[0] = (braid_problem_space){0, -1, -1}, f.spaces[1] = (braid_problem_space){1, -1, -1};
  f.values[0].bytes = 50000;
  f.values[2].bytes = 100;
  offer_for(&f, 0, (int32_t[]){0}, 1)->seconds = (braid_number){9e-3, BRAID_MODELLED};
  offer_for(&f, 1, (int32_t[]){0}, 1)->seconds = (braid_number){10e-3, BRAID_MODELLED};
  offer_for(&f, 1, (int32_t[]){1}, 1)->seconds = (braid_number){1e-3, BRAID_MODELLED};
  OK(braid_arena_create(NULL, &arena));
  OK(braid_problem_solve(&braid_policy_first, &f.problem, NULL, arena, &choices));
  assert_true(choices.seconds.value > 60e-3);
  OK(braid_problem_solve(&braid_policy_heft, &f.problem, NULL, arena, &choices));
  assert_int_equal(choices.offer_of[0], 1);
  assert_true(choices.seconds.value < 13e-3);
  assert_non_null(strstr(choices.reasons[0], "all on b"));
  braid_arena_destroy(arena);
}

/* Numbers that no policy should take for what they are not. */
static void test_unknown(void **state) {
  (void)state;
  fixture f;
  init(&f, 1, 2, 1);
  read_by(&f, 0, 1);
  offer_for(&f, 0, (int32_t[]){0}, 1);
  offer_for(&f, 1, (int32_t[]){0}, 1)->seconds = (braid_number){5, BRAID_MODELLED};
  braid_arena *arena;
  braid_choices choices;
  OK(braid_arena_create(NULL, &arena));
  OK(braid_problem_solve(&braid_policy_heft, &f.problem, NULL, arena, &choices));
  assert_int_equal(choices.offer_of[0], 1);
  assert_int_equal(choices.seconds.source, BRAID_MODELLED);
  assert_int_equal(choices.joules.source, BRAID_UNKNOWN);
  OK(braid_problem_solve(&braid_policy_first, &f.problem, NULL, arena, &choices));
  assert_int_equal(choices.offer_of[0], 0);
  assert_int_equal(choices.seconds.source, BRAID_UNKNOWN);
  f.nodes[0].fixed = 0;
  OK(braid_problem_solve(&braid_policy_heft, &f.problem, NULL, arena, &choices));
  assert_int_equal(choices.offer_of[0], 0);
  /* joules: 7 of what runs for 5 s, and of the other device, idle at 2 W for as long */
  f.nodes[0].fixed = -1;
  f.devices[0].idle_watts = f.devices[1].idle_watts = (braid_number){2, BRAID_MEASURED};
  f.offers[1].joules = (braid_number){7, BRAID_MEASURED};
  OK(braid_problem_solve(&braid_policy_heft, &f.problem, NULL, arena, &choices));
  assert_true(fabs(choices.joules.value - 17) < 1e-9);
  braid_arena_destroy(arena);
}

/* A device's later kernel is taken when both were measured and it is the faster one, and not on a model's word. */
static void test_measured(void **state) {
  (void)state;
  static const struct {
    braid_number first, second;
    int taken;
  } cases[] = {{{3, BRAID_MODELLED}, {1, BRAID_MODELLED}, 0},
               {{3, BRAID_MEASURED}, {1, BRAID_MODELLED}, 0},
               {{3, BRAID_MODELLED}, {1, BRAID_MEASURED}, 0},
               {{3, BRAID_MEASURED}, {1, BRAID_MEASURED}, 1},
               {{0, BRAID_UNKNOWN}, {1, BRAID_MEASURED}, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture f;
    init(&f, 1, 1, 1);
    read_by(&f, 0, 1);
    offer_for(&f, 0, (int32_t[]){0}, 1)->seconds = cases[i].first;
    offer_for(&f, 0, (int32_t[]){0}, 1)->seconds = cases[i].second;
    f.offers[1].rank = 1;
    braid_arena *arena;
    braid_choices choices;
    OK(braid_arena_create(NULL, &arena));
    OK(braid_problem_solve(&braid_policy_heft, &f.problem, NULL, arena, &choices));
    assert_int_equal(choices.offer_of[0], cases[i].taken);
    braid_arena_destroy(arena);
  }
}

static void test_refused_problems(void **state) {
  (void)state;
  static const struct {
    const char *said;
    int what;
  } cases[] = {{"has no device", 0},         {"negative", 1},          {"unknown and not 0", 1},
               {"twice or out of order", 2}, {"lies between its", 3},  {"computed after it", 4},
               {"has no bandwidth", 5},      {"fixed to no device", 6}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture f;
    init(&f, 3, 2, 2);
    read_by(&f, 0, 3), read_by(&f, 1, 0), read_by(&f, 2, 1);
    braid_offer *offer = offer_for(&f, 0, (int32_t[]){0, 1, 2}, 3);
    offer->seconds = (braid_number){1, BRAID_MODELLED};
    OK(braid_problem_check(&f.problem, NULL));
    switch (cases[i].what) {
    case 0:
      offer->device = 2;
      break;
    case 1:
      offer->seconds = (braid_number){i == 1 ? -1 : 1, i == 1 ? BRAID_MODELLED : BRAID_UNKNOWN};
      break;
    case 2:
      f.members[1] = 0;
      break;
    case 3:
      f.members[1] = 2, offer->node_count = 2;
      break;
    case 4:
      f.reads[0] = 2;
      break;
    case 5:
      f.links[1].bytes_per_second = 0;
      break;
    default:
      f.nodes[0].fixed = 2;
    }
    assert_int_equal(braid_problem_check(&f.problem, NULL), BRAID_INVALID_ARGUMENT);
    if (!strstr(braid_error_detail(), cases[i].said)) fail_msg("%s: %s", cases[i].said, braid_error_detail());
  }
}

static braid_status schedule_all(const braid_allocator *allocator, void *context) {
  const fixture *f = context;
  braid_status status = braid_problem_check(&f->problem, allocator);
  for (size_t p = 0; p < braid_policy_count() && status == BRAID_OK; p++) {
    braid_arena *arena;
    braid_choices choices;
    status = braid_arena_create(allocator, &arena);
    if (status == BRAID_OK) status = braid_problem_solve(braid_policy_at(p), &f->problem, allocator, arena, &choices);
    braid_arena_destroy(arena);
  }
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  fixture *f = malloc(sizeof *f);
  seed = 5;
  do make_random(f, 12, true);
  while (!has_singles(f, true) || f->problem.offer_count < 20);
  (void)oom_sweep(schedule_all, f);
  free(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random),
      cmocka_unit_test(test_all_solutions),
      cmocka_unit_test(test_cycle),
      cmocka_unit_test(test_never_slower_than_one_device),
      cmocka_unit_test(test_unknown),
      cmocka_unit_test(test_measured),
      cmocka_unit_test(test_refused_problems),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
