/* Estimates against the simulator, and what a search finds that steps one by one do not. */
#include <math.h>
#include <stdlib.h>

#include "schedule/policies/estimate.h"
#include "schedule/random_problem.h"

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    if ((call) != BRAID_OK) fail_msg("%s: %s", #call, braid_error_detail());                                           \
  } while (0)

static braid_number modelled(double value) {
  return (braid_number){value, BRAID_MODELLED};
}

/* --- estimates -----------------------------------------------------------------------------------------------------
 */
typedef struct tally {
  size_t estimated, equal;
} tally;

static bool is_near(double a, double b) {
  return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

/* Every task by any of its offers: the estimate is what the simulator finds for the estimate's order. */
static void compare_any(const braid_improving *m, braid_estimator *e, tally *counts) {
  int32_t offers[kNodes];
  double own = 0;
  braid_choices played = m->best;
  for (size_t i = 0; i < e->count; i++) {
    size_t ways = e->first_way[i + 1] - e->first_way[i];
    assert_true(ways > 0); /* the offer of the best is one of them */
    offers[i] = e->ways[e->first_way[i] + draw((uint32_t)ways)];
    own += e->own[offers[i]];
  }
  assert_true(braid_estimator_run(e, offers, own, INFINITY, INFINITY));
  double seconds = e->seconds, joules = e->joules;
  for (size_t i = 0; i < e->count; i++) {
    const braid_offer *offer = &e->problem->offers[offers[e->sequence[i]]];
    for (size_t k = 0; k < offer->node_count; k++) played.offer_of[offer->nodes[k]] = offers[e->sequence[i]];
    played.order[i] = e->task[e->sequence[i]];
  }
  OK(braid_simulate(m->choosing, &played, NULL, false));
  counts->estimated++;
  counts->equal += is_near(played.seconds.value, seconds) && is_near(played.joules.value, joules);
  /* limits on both sides of what it takes and costs */
  assert_true(braid_estimator_run(e, offers, own, seconds * (1 + 1e-9), joules * (1 + 1e-9)));
  assert_false(braid_estimator_run(e, offers, own, seconds * (1 - 1e-6), INFINITY));
  assert_false(braid_estimator_run(e, offers, own, INFINITY, joules * (1 - 1e-6)));
}

static void test_estimates(void **state) {
  (void)state;
  fixture *f = malloc(sizeof *f);
  tally counts = {0};
  for (uint32_t s = 0; s < 2000; s++) {
    seed = 1000 + s;
    make_random(f, kNodes, s % 2);
    bool refused[kOffers] = {false}, good;
    int32_t ranks[kOffers];
    braid_arena *arena;
    braid_choices given;
    OK(braid_arena_create(NULL, &arena));
    for (int32_t i = 0; i < kOffers; i++) ranks[i] = i;
    braid_choosing choosing = {.problem = &f->problem, .arena = arena, .refused = refused, .ranks = ranks};
    if (braid_problem_solve(&braid_policy_gpu_only, &f->problem, NULL, arena, &given) == BRAID_OK) {
      braid_improving improving;
      braid_estimator *estimator;
      OK(braid_improving_init(&choosing, &given, INFINITY, 1, false, &improving, &good));
      OK(braid_estimator_create(&improving, &estimator));
      assert_true(!estimator || f->problem.cap_watts.source == BRAID_UNKNOWN);
      for (int i = 0; i < 4 && good && estimator; i++) compare_any(&improving, estimator, &counts);
    }
    braid_arena_destroy(arena);
  }
  free(f);
  print_message("%zu of %zu estimates are what the simulator finds\n", counts.equal, counts.estimated);
  assert_true(counts.estimated > 2000);
  assert_true(counts.equal * 100 >= counts.estimated * 96); /* but for orders on links, and at the same instant */
}

/* What interferes has no estimator. */
static void test_interference(void **state) {
  (void)state;
  fixture *f = malloc(sizeof *f);
  bool refused[kOffers] = {false}, good;
  int32_t ranks[kOffers];
  init(f, 2, 1, 1);
  for (int32_t n = 0; n < 2; n++) {
    read_by(f, (size_t)n, n ? 0 : 2);
    braid_offer *offer = offer_for(f, 0, &n, 1);
    offer->seconds = modelled(1e-3), offer->joules = modelled(1);
  }
  f->devices[0].idle_watts = modelled(1);
  for (int32_t i = 0; i < kOffers; i++) ranks[i] = i;
  for (int which = 0; which < 4; which++) {
    braid_arena *arena;
    braid_choices given;
    braid_improving improving;
    braid_estimator *estimator;
    OK(braid_arena_create(NULL, &arena));
    f->devices[0].slower_beside = which == 1 ? modelled(0.5) : (braid_number){0};
    f->devices[0].slower_with_traffic = which == 2 ? modelled(0.5) : (braid_number){0};
    f->problem.cap_watts = which == 3 ? modelled(1000) : (braid_number){0};
    braid_choosing choosing = {.problem = &f->problem, .arena = arena, .refused = refused, .ranks = ranks};
    OK(braid_problem_solve(&braid_policy_first, &f->problem, NULL, arena, &given));
    OK(braid_improving_init(&choosing, &given, 1, 1, false, &improving, &good));
    OK(braid_estimator_create(&improving, &estimator));
    assert_int_equal(estimator != NULL, which == 0);
    braid_arena_destroy(arena);
  }
  free(f);
}

/* --- what helps only together --------------------------------------------------------------------------------------
 */
enum { CHAIN = 12, FROM = 3, TO = 7 };

/* A chain on a GPU. What FROM to TO do takes an FPGA a fifth of the time; the way there and back takes longer than any
 * one of them on the GPU, and shorter than all. */
static void make_chain(fixture *f) {
  init(f, CHAIN, 2, 2);
  f->devices[0].class = BRAID_CLASS_GPU, f->devices[1].class = BRAID_CLASS_FPGA;
  for (int d = 0; d < 2; d++) f->devices[d].idle_watts = modelled(10);
  for (int i = 0; i < 4; i++) f->links[i] = (braid_problem_link){8e-3, 1e12};
  for (int i = 0; i < 2; i++) f->spaces[i] = (braid_problem_space){i, -1, -1};
  for (int32_t n = 0; n < CHAIN; n++) {
    bool fits = n >= FROM && n <= TO;
    read_by(f, (size_t)n, n ? n - 1 : CHAIN);
    for (int d = 0; d < 2; d++) {
      braid_offer *offer = offer_for(f, d, &n, 1);
      offer->seconds = modelled(d ? fits ? 2e-3 : 50e-3 : 10e-3);
      offer->joules = modelled(offer->seconds.value * (d ? 30 : 200));
    }
  }
  f->values[CHAIN - 1].wanted = true;
}

static void test_together(void **state) {
  (void)state;
  fixture *f = malloc(sizeof *f);
  braid_choices choices, again;
  braid_arena *arena;
  make_chain(f);
  OK(braid_arena_create(NULL, &arena));
  OK(braid_problem_solve(&braid_policy_slack_energy, &f->problem, NULL, arena, &choices));
  for (int n = 0; n < CHAIN; n++) assert_int_equal(f->offers[choices.offer_of[n]].device, n >= FROM && n <= TO);
  OK(braid_problem_solve(&braid_policy_slack_energy, &f->problem, NULL, arena, &again));
  assert_memory_equal(choices.offer_of, again.offer_of, CHAIN * sizeof *choices.offer_of);
  assert_true(choices.joules.value == again.joules.value);
  /* in the time of the GPU alone, if the way takes longer than what it saves */
  for (int i = 0; i < 4; i++) f->links[i].seconds = 21e-3;
  OK(braid_problem_solve(&braid_policy_slack_energy, &f->problem, NULL, arena, &choices));
  for (int n = 0; n < CHAIN; n++) assert_int_equal(f->offers[choices.offer_of[n]].device, 0);
  braid_arena_destroy(arena);
  free(f);
}

/* Where the search has many ways to go it goes the same one each time, wherever its memory lies. */
static void test_same_again(void **state) {
  (void)state;
  fixture *f = malloc(sizeof *f);
  size_t compared = 0;
  for (uint32_t s = 0; s < 300; s++) {
    seed = 5000 + s;
    make_random(f, kNodes, s % 2);
    f->problem.cap_watts = (braid_number){0};
    braid_arena *arena;
    braid_choices one, two;
    OK(braid_arena_create(NULL, &arena));
    if (braid_problem_solve(&braid_policy_slack_energy, &f->problem, NULL, arena, &one) == BRAID_OK) {
      assert_non_null(braid_arena_alloc(arena, 16 * (1 + s))); /* what comes now lies elsewhere */
      OK(braid_problem_solve(&braid_policy_slack_energy, &f->problem, NULL, arena, &two));
      assert_int_equal(one.task_count, two.task_count);
      assert_memory_equal(one.offer_of, two.offer_of, f->problem.node_count * sizeof *one.offer_of);
      assert_memory_equal(one.order, two.order, one.task_count * sizeof *one.order);
      assert_true(one.joules.value == two.joules.value && one.seconds.value == two.seconds.value);
      compared += one.joules.source != BRAID_UNKNOWN;
    }
    braid_arena_destroy(arena);
  }
  free(f);
  assert_true(compared > 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_estimates),
      cmocka_unit_test(test_interference),
      cmocka_unit_test(test_together),
      cmocka_unit_test(test_same_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
