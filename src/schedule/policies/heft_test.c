/* heft: each device runs its tasks in the order in which they were scheduled, and the reasons name the ends that the
 * simulation has. */
#include <math.h>
#include <stdlib.h>

#include "schedule/policy.h"
#include "schedule/random_problem.h"

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    if ((call) != BRAID_OK) fail_msg("%s: %s", #call, braid_error_detail());                                           \
  } while (0)

/* The end on its device that a task's reason names, in seconds; < 0: none. */
static double named_end(const fixture *f, const braid_choices *c, int32_t task) {
  char text[32];
  snprintf(text, sizeof text, "%s: ends at ", f->devices[f->offers[c->offer_of[task]].device].name);
  const char *at = strstr(c->reasons[task], text);
  return at ? strtod(at + strlen(text), NULL) * 1e-3 : -1;
}

/* Two chains on two equal devices. In the graph's order b would run n2, which waits for n0, before n3, with which the
 * other chain begins, and end at 24. */
static void test_order(void **state) {
  (void)state;
  static const int kFrom[] = {5, 0, 0, 6, 3};
  static const braid_policy *const kSame[] = {&braid_policy_heft, &braid_policy_gpu_only, &braid_policy_hybrid_energy,
                                              &braid_policy_region_clock, &braid_policy_hybrid_cap};
  fixture f;
  init(&f, 5, 2, 1);
  for (int32_t n = 0; n < 5; n++) {
    read_by(&f, (size_t)n, kFrom[n]);
    for (int d = 0; d < 2; d++) {
      braid_offer *offer = offer_for(&f, d, &n, 1);
      offer->seconds = (braid_number){n % 3 ? 2 : 10, BRAID_MODELLED};
      offer->joules = (braid_number){20 * offer->seconds.value, BRAID_MODELLED};
      offer->watts = (braid_number){20, BRAID_MODELLED};
    }
  }
  for (int d = 0; d < 2; d++) {
    f.devices[d].class = BRAID_CLASS_GPU;
    f.devices[d].idle_watts = (braid_number){1, BRAID_MODELLED};
  }
  OK(braid_problem_check(&f.problem, NULL));
  for (size_t p = 0; p < sizeof kSame / sizeof *kSame; p++) {
    braid_arena *arena;
    braid_choices c;
    OK(braid_arena_create(NULL, &arena));
    OK(braid_problem_solve(kSame[p], &f.problem, NULL, arena, &c));
    if (c.seconds.value != 14) fail_msg("%s: %g s", kSame[p]->name, c.seconds.value);
    for (int32_t n = 0; n < 5 && p < 2; n++) assert_true(named_end(&f, &c, n) == c.end[n]);
    braid_arena_destroy(arena);
  }
}

/* Where no task has a choice of devices, nothing is scheduled, and the graph's order stays. */
static void test_one_device(void **state) {
  (void)state;
  fixture f;
  braid_arena *arena;
  braid_choices c;
  init(&f, 3, 2, 1);
  for (int32_t n = 0; n < 3; n++) {
    read_by(&f, (size_t)n, 3);
    offer_for(&f, 1, &n, 1)->seconds = (braid_number){n + 1, BRAID_MODELLED};
  }
  OK(braid_arena_create(NULL, &arena));
  OK(braid_problem_solve(&braid_policy_heft, &f.problem, NULL, arena, &c));
  for (int32_t n = 0; n < 3; n++) assert_int_equal(c.order[n], n);
  assert_string_equal(c.reasons[0], "no other device can, or may by the policy");
  braid_arena_destroy(arena);
}

/* Nothing moves, no clock changes, no device shares an operation, no set of nodes is split. */
static bool is_plain(const fixture *f) {
  bool plain = f->problem.space_count == 1 && !f->rich;
  for (size_t i = 0; i < f->problem.offer_count; i++) plain &= f->offers[i].node_count == 1;
  return plain;
}

/* On random problems an end that a reason names is that of a task (of the last one of a set), or the reason says that
 * it was expected; of plain problems it is always met. */
static void test_reasons(void **state) {
  (void)state;
  size_t met = 0, expected = 0;
  fixture *f = malloc(sizeof *f);
  for (uint32_t s = 0; s < 2000; s++) {
    braid_arena *arena;
    braid_choices c;
    seed = 1000 + s;
    make_random(f, kNodes, s % 2);
    OK(braid_arena_create(NULL, &arena));
    braid_status status = braid_problem_solve(&braid_policy_heft, &f->problem, NULL, arena, &c);
    for (size_t i = 0; status == BRAID_OK && i < c.task_count; i++) {
      double end = named_end(f, &c, c.order[i]);
      bool found = end < 0;
      if (!strncmp(c.reasons[c.order[i]], "expected when it was placed: ", 29)) {
        assert_false(is_plain(f));
        expected++;
        continue;
      }
      for (size_t k = 0; k < c.task_count; k++) found |= fabs(c.end[c.order[k]] - end) < 1e-6;
      if (!found)
        fail_msg("seed %u, n%d: %s, but it ends at %g s", s, c.order[i], c.reasons[c.order[i]], c.end[c.order[i]]);
      met += end >= 0;
    }
    braid_arena_destroy(arena);
  }
  free(f);
  print_message("%zu ends that are met, %zu that were expected\n", met, expected);
  assert_true(met > 2000 && expected > 100 && expected < met);
}

/* All on one device, which runs some of it together with another one: the reason names both. */
static void test_shared(void **state) {
  (void)state;
  fixture f;
  braid_arena *arena;
  braid_choices c;
  init(&f, 2, 3, 2);
  read_by(&f, 0, 2), read_by(&f, 1, 0);
  for (int i = 0; i < 4; i++) f.links[i] = (braid_problem_link){1e-3, 1e6};
  for (int i = 0; i < 2; i++) f.spaces[i] = (braid_problem_space){i, -1, -1};
  f.values[0].bytes = 50000, f.values[2].bytes = 100;
  offer_for(&f, 0, (int32_t[]){0}, 1)->seconds = (braid_number){9e-3, BRAID_MODELLED};
  braid_offer *shared = offer_for(&f, 1, (int32_t[]){0}, 1);
  shared->seconds = (braid_number){10e-3, BRAID_MODELLED};
  shared->also = (const int[]){2}, shared->also_count = 1;
  offer_for(&f, 1, (int32_t[]){1}, 1)->seconds = (braid_number){1e-3, BRAID_MODELLED};
  OK(braid_arena_create(NULL, &arena));
  OK(braid_problem_solve(&braid_policy_heft, &f.problem, NULL, arena, &c));
  if (strncmp(c.reasons[0], "all on b, some of it together with c: 12.100 ms, spread by earliest ends: ", 74) != 0)
    fail_msg("%s", c.reasons[0]);
  braid_arena_destroy(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_order),
      cmocka_unit_test(test_one_device),
      cmocka_unit_test(test_reasons),
      cmocka_unit_test(test_shared),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
