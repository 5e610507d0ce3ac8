/* Allocation of cores: against all allocations of small problems, and against GLPK on random ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "base/philox.h"
#include "overlay/share/allocate.h"
#include "schedule/program/glpk.h"

enum { kSeed = 13, kTenants = 33, kCores = 64 };

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

typedef struct problem {
  braid_demand demands[kTenants];
  double performance[kTenants][kCores];
  size_t count;
  int cores;
} problem;

/* Performance that grows, falls, has steps, or is random; bounds that leave a solution. */
static void make(problem *p, uint32_t number, uint32_t tenants, int most_cores) {
  uint64_t e = 0;
#define BELOW(bound) braid_random_below(kSeed, number, 0, e++, (uint32_t)(bound))
#define UNIFORM() (double)braid_random_uniform(kSeed, number, 0, e++)
  p->count = 1 + BELOW(tenants);
  p->cores = 1 + (int)BELOW(most_cores);
  int spare = p->cores;
  for (size_t t = 0; t < p->count; t++) {
    uint32_t shape = BELOW(4);
    double scale = 1 + 100 * UNIFORM(), power = UNIFORM();
    for (int k = 1; k <= kCores; k++) {
      double grown = shape == 0   ? pow(k, power)
                     : shape == 1 ? k / (1 + power * k * k / 16)
                     : shape == 2 ? floor(1 + k * power)
                                  : UNIFORM();
      p->performance[t][k - 1] = scale * grown;
    }
    int least = BELOW(3) == 0 && spare ? (int)BELOW(spare + 1) : 0;
    spare -= least;
    int most = least + (int)BELOW(kCores + 1 - least);
    p->demands[t] = (braid_demand){
        .weight = BELOW(8) ? UNIFORM() : 0, .performance = p->performance[t], .least = least, .most = most};
  }
#undef BELOW
#undef UNIFORM
}

static double sum_of(const problem *p, const int *given) {
  double sum = 0;
  int cores = 0;
  for (size_t t = 0; t < p->count; t++) {
    assert_in_range(given[t], p->demands[t].least, p->demands[t].most);
    cores += given[t];
    if (given[t]) sum += p->demands[t].weight * p->performance[t][given[t] - 1];
  }
  assert_true(cores <= p->cores);
  return sum;
}

/* All allocations, one tenant after the other. */
static double best_of(const problem *p, size_t tenant, int left) {
  if (tenant == p->count) return 0;
  const braid_demand *d = &p->demands[tenant];
  double best = -INFINITY;
  for (int k = d->least; k <= d->most && k <= left; k++)
    best = fmax(best, (k ? d->weight * d->performance[k - 1] : 0) + best_of(p, tenant + 1, left - k));
  return best;
}

static void test_exact(void **state) {
  (void)state;
  for (uint32_t n = 0; n < 400; n++) {
    problem p;
    int given[kTenants];
    double total;
    make(&p, n, 4, 8);
    ok(braid_allocate(p.demands, p.count, p.cores, NULL, given, &total));
    double best = best_of(&p, 0, p.cores);
    assert_true(fabs(sum_of(&p, given) - total) <= 1e-9 * (1 + total));
    assert_true(fabs(best - total) <= 1e-9 * (1 + best));
  }
}

static void test_program_agrees(void **state) {
  (void)state;
  if (!braid_glpk_load()) skip();
  for (uint32_t n = 0; n < 150; n++) {
    problem p;
    int given[kTenants], by_program[kTenants];
    double total, other;
    make(&p, 1000 + n, kTenants, kCores);
    ok(braid_allocate(p.demands, p.count, p.cores, NULL, given, &total));
    ok(braid_allocate_by_program(p.demands, p.count, p.cores, NULL, by_program, &other));
    if (fabs(total - other) > 1e-6 * (1 + total)) fail_msg("problem %u: %.12g, by GLPK %.12g", n, total, other);
    assert_true(fabs(sum_of(&p, by_program) - other) <= 1e-6 * (1 + other));
    assert_true(fabs(sum_of(&p, given) - total) <= 1e-9 * (1 + total));
  }
}

static void test_fewest(void **state) {
  (void)state;
  const double flat[4] = {1, 1, 1, 1};
  const braid_demand demands[2] = {{1, flat, 0, 4}, {1, flat, 2, 4}};
  int given[2];
  ok(braid_allocate(demands, 2, 8, NULL, given, NULL));
  assert_int_equal(given[0], 1);
  assert_int_equal(given[1], 2);
  ok(braid_allocate(demands, 0, 8, NULL, given, NULL));
  ok(braid_allocate(demands, 1, 0, NULL, given, NULL));
  assert_int_equal(given[0], 0);
}

static void test_refusals(void **state) {
  (void)state;
  const double fine[2] = {1, 2}, negative[2] = {1, -2}, endless[2] = {INFINITY, 1};
  const struct {
    braid_demand demand;
    int cores;
  } cases[] = {{{1, fine, 0, 2}, -1},   {{1, fine, 0, 2}, BRAID_OVERLAY_MOST_CORES + 1},
               {{1, fine, 3, 2}, 4},    {{1, fine, -1, 2}, 4},
               {{1, fine, 0, 65}, 4},   {{-1, fine, 0, 2}, 4},
               {{NAN, fine, 0, 2}, 4},  {{1, negative, 0, 2}, 4},
               {{1, endless, 0, 2}, 4}, {{1, fine, 2, 2}, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int given;
    assert_int_equal(braid_allocate(&cases[i].demand, 1, cases[i].cores, NULL, &given, NULL), BRAID_INVALID_ARGUMENT);
    assert_int_equal(braid_allocate_by_program(&cases[i].demand, 1, cases[i].cores, NULL, &given, NULL),
                     BRAID_INVALID_ARGUMENT);
    assert_true(braid_error_detail()[0] != '\0');
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_exact), cmocka_unit_test(test_program_agrees),
                                     cmocka_unit_test(test_fewest), cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
