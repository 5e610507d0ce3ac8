/* The latency indicator, and the search by it against one that tries everything. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "braid/explore.h"
#include "braid/session.h"
#include "oom.h"

static const braid_kernel_problem kPaperProblem = {.op = BRAID_KERNEL_MATMUL, .dims = {2048, 1024, 1024}};

static double work_of(braid_kernel_problem problem) {
  double work;
  assert_int_equal(braid_kernel_work(&problem, &work), BRAID_OK);
  return work;
}

static void expect_near(double value, double expected, double most) {
  if (!(fabs(value - expected) <= most)) fail_msg("%.10g is not %.10g", value, expected);
}

/* --- the paper's numbers -------------------------------------------------------------------------------------------
 */
static void test_examples(void **state) {
  (void)state;
  double work = work_of(kPaperProblem);
  assert_true(work == 2147483648.0);
  expect_near(braid_kernel_latency_indicator(work, 128, 210), 81.81, 0.005);
  expect_near(braid_kernel_latency_indicator(work, 64, 241), 142.57, 0.005);
  for (int op = 0; op < BRAID_KERNEL_OPS; op++) {
    braid_kernel_space space = braid_kernel_paper_space((braid_kernel_op)op);
    assert_int_equal(braid_kernel_space_count(&space), 20480);
  }
}

static bool among(int64_t value, const int64_t *values, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (values[i] == value) return true;
  return false;
}

/* The spaces contain what the paper's Table 4 has, and its indicators rank as its times do, as it says. */
static void test_table_4(void **state) {
  (void)state;
  const braid_kernel_row *rows = braid_kernel_paper_rows();
  for (int op = 0, first = 0; op < BRAID_KERNEL_OPS; op++, first += 5) {
    braid_kernel_space space = braid_kernel_paper_space((braid_kernel_op)op);
    double ms[5], li[5], spearman, kendall;
    for (int i = 0; i < 5; i++) {
      const braid_kernel_row *row = &rows[first + i];
      assert_int_equal(row->op, op);
      assert_true(among(row->design.units, space.units, space.unit_count));
      assert_true(among(row->design.simd, space.simd, space.simd_count));
      assert_true(among(row->design.group, space.groups, space.group_count));
      assert_true(row->design.unroll <= space.most_unroll);
      ms[i] = row->ms;
      li[i] = row->li;
      if (isnan(row->fmax_mhz)) continue;
      expect_near(braid_kernel_latency_indicator(work_of(kPaperProblem), row->design.group, row->fmax_mhz), row->li,
                  0.005);
    }
    assert_int_equal(braid_rank_correlation(NULL, ms, li, 5, &spearman, &kendall), BRAID_OK);
    assert_true(spearman == 1 && kendall == 1);
  }
}

static void test_published_points(void **state) {
  (void)state;
  braid_fmax_table *table;
  braid_kernel_search search;
  assert_int_equal(braid_fmax_table_create(NULL, &table), BRAID_OK);
  assert_int_equal(braid_fmax_table_load(table, "hype-training"), BRAID_OK);
  braid_kernel_space space = braid_kernel_paper_space(BRAID_KERNEL_MATMUL);
  const braid_kernel_sources sources = {.table = table};
  assert_int_equal(braid_kernel_explore(NULL, BRAID_KERNEL_MATMUL, work_of(kPaperProblem), &space, &sources, &search),
                   BRAID_OK);
  assert_int_equal(search.all, 20480);
  assert_int_equal(search.fitting, 20480); /* nothing says what does not fit */
  assert_int_equal(search.known, 8);       /* two, with each of four work-groups */
  assert_int_equal(search.distinct, 8);    /* 210 is 12.9% below 241 */
  bool first = false, second = false;
  for (size_t i = 0; i < search.distinct; i++) {
    const braid_kernel_result *r = &search.results[i];
    assert_true(r->from_table && isnan(r->used[BRAID_KERNEL_LUTS]));
    first |= r->design.units == 2 && r->design.group == 128 && fabs(r->li - 81.81) < 0.005;
    second |= r->design.units == 4 && r->design.group == 64 && fabs(r->li - 142.57) < 0.005;
  }
  assert_true(first && second);
  braid_kernel_search_deinit(NULL, &search);
  braid_fmax_table_destroy(table);
}

/* --- work and classes ----------------------------------------------------------------------------------------------
 */
/* The multiply-accumulates that the graph counts for the same node. */
static void test_work(void **state) {
  (void)state;
  const braid_kernel_problem conv = {
      .op = BRAID_KERNEL_CONV, .dims = {2, 3, 17, 19}, .filters = 5, .window = 3, .stride = 2, .pad = 1};
  braid_graph *graph;
  braid_desc desc, weights;
  braid_value_id inputs[2], output = 0;
  braid_node_id node;
  const int64_t strides[] = {2, 2}, pads[] = {1, 1, 1, 1}, shape[] = {5, 3, 3, 3};
  assert_int_equal(braid_graph_create(NULL, "conv", &graph), BRAID_OK);
  assert_int_equal(braid_desc_init(&desc, BRAID_F32, 4, conv.dims), BRAID_OK);
  assert_int_equal(braid_desc_init(&weights, BRAID_F32, 4, shape), BRAID_OK);
  assert_int_equal(braid_graph_add_input(graph, "x", &desc, &inputs[0]), BRAID_OK);
  assert_int_equal(braid_graph_add_input(graph, "w", &weights, &inputs[1]), BRAID_OK);
  assert_int_equal(braid_graph_add_node(graph, "Conv", "n", inputs, 2, &output, 1, &node), BRAID_OK);
  assert_int_equal(braid_graph_set_ints(graph, node, "strides", strides, 2), BRAID_OK);
  assert_int_equal(braid_graph_set_ints(graph, node, "pads", pads, 4), BRAID_OK);
  assert_int_equal(braid_graph_add_output(graph, output), BRAID_OK);
  assert_int_equal(braid_resolve(graph), BRAID_OK);
  assert_true(work_of(conv) == (double)braid_graph_node_macs(graph, 0));
  braid_graph_destroy(graph);
  braid_kernel_problem pool = conv;
  pool.op = BRAID_KERNEL_MAX_POOL;
  assert_true(work_of(pool) * 5 == work_of(conv));
}

static void test_no_work(void **state) {
  (void)state;
  static const struct {
    braid_kernel_problem problem;
    braid_status status;
    const char *said;
  } cases[] = {
      {{.op = BRAID_KERNEL_MATMUL, .dims = {0, 1, 1}}, BRAID_INVALID_ARGUMENT, "rows is 0"},
      {{.op = BRAID_KERNEL_MATMUL, .dims = {1, 1, INT64_MAX}}, BRAID_INVALID_ARGUMENT, "columns is"},
      {{.op = BRAID_KERNEL_MATMUL, .dims = {1 << 30, 1 << 30, 1 << 30}}, BRAID_OUT_OF_RANGE, "2^62"},
      {{.op = BRAID_KERNEL_CONV, .dims = {1, 1, 2, 9}, .filters = 1, .window = 3, .stride = 1},
       BRAID_INVALID_ARGUMENT,
       "does not fit into height 2"},
      {{.op = BRAID_KERNEL_CONV, .dims = {1, 1, 9, 9}, .window = 3, .stride = 1}, BRAID_INVALID_ARGUMENT, "filters"},
      {{.op = BRAID_KERNEL_MAX_POOL, .dims = {1, 1, 9, 9}, .window = 3}, BRAID_INVALID_ARGUMENT, "stride is 0"},
      {{.op = BRAID_KERNEL_MAX_POOL, .dims = {1, 1, 9, 9}, .window = 3, .stride = 1, .pad = -1},
       BRAID_INVALID_ARGUMENT,
       "pad is -1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double work;
    assert_int_equal(braid_kernel_work(&cases[i].problem, &work), cases[i].status);
    if (!strstr(braid_error_detail(), cases[i].said)) fail_msg("%s", braid_error_detail());
  }
}

static void test_classes(void **state) {
  (void)state;
  static const struct {
    int64_t dims[3];
    braid_kernel_size_class expected;
  } cases[] = {
      {{257, 512, 1023}, BRAID_KERNEL_SMALL},    {{256, 512, 512}, BRAID_KERNEL_NO_CLASS},
      {{1024, 4095, 2048}, BRAID_KERNEL_MEDIUM}, {{1024, 4096, 2048}, BRAID_KERNEL_NO_CLASS},
      {{512, 2048, 512}, BRAID_KERNEL_NO_CLASS}, {{4097, 1, 1}, BRAID_KERNEL_LARGE},
      {{2048, 1024, 1024}, BRAID_KERNEL_MEDIUM},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_kernel_problem p = {.op = BRAID_KERNEL_MATMUL};
    memcpy(p.dims, cases[i].dims, sizeof cases[i].dims);
    assert_int_equal(braid_kernel_classify(&p), cases[i].expected);
  }
  /* 512 filters of 64 x 3 x 3 = 576, at 30 x 30 places */
  const braid_kernel_problem conv = {
      .op = BRAID_KERNEL_CONV, .dims = {1, 64, 32, 32}, .filters = 512, .window = 3, .stride = 1};
  assert_int_equal(braid_kernel_classify(&conv), BRAID_KERNEL_SMALL);
}

/* --- ranks: values of SciPy's documentation ------------------------------------------------------------------------
 */
static void test_ranks(void **state) {
  (void)state;
  double spearman, kendall;
  const double a[] = {1, 2, 3, 4, 5}, b[] = {5, 6, 7, 8, 7}, c[] = {12, 2, 1, 12, 2}, d[] = {1, 4, 7, 1, 0};
  assert_int_equal(braid_rank_correlation(NULL, a, b, 5, &spearman, &kendall), BRAID_OK);
  expect_near(spearman, 0.8207826816681233, 1e-15);
  assert_int_equal(braid_rank_correlation(NULL, c, d, 5, &spearman, &kendall), BRAID_OK);
  expect_near(kendall, -0.47140452079103173, 1e-15);
  const double same[] = {3, 3, 3, 3, 3};
  assert_int_equal(braid_rank_correlation(NULL, a, same, 5, &spearman, &kendall), BRAID_OK);
  assert_true(isnan(spearman) && isnan(kendall));
  assert_int_equal(braid_rank_correlation(NULL, a, b, 1, &spearman, &kendall), BRAID_OK);
  assert_true(isnan(spearman) && isnan(kendall));
}

/* --- against a search that tries everything ------------------------------------------------------------------------
 */
static uint64_t random_state;

static double uniform(void) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (double)(random_state >> 11) * 0x1p-53;
}

static const int64_t kUnits[] = {1, 2, 4}, kSimd[] = {1, 4, 16}, kGroups[] = {32, 128};
enum { kUnroll = 24 };

/* Some points unknown, some on a grid so that Fmax come twice, some of them too large. */
static braid_fmax_table *random_table(bool verdicts) {
  braid_fmax_table *table;
  assert_int_equal(braid_fmax_table_create(NULL, &table), BRAID_OK);
  for (size_t u = 0; u < 3; u++)
    for (size_t s = 0; s < 3; s++)
      for (int64_t ul = 1; ul <= kUnroll; ul++) {
        double mhz = uniform() < 0.3 ? 100 + 20 * floor(uniform() * 12) : 100 + 300 * uniform();
        if (uniform() < 0.2) continue;
        const braid_fmax_point point = {.units = kUnits[u],
                                        .simd = kSimd[s],
                                        .unroll = ul,
                                        .mhz = uniform() < 0.05 ? NAN : mhz,
                                        .too_large = verdicts && uniform() < 0.02};
        assert_int_equal(braid_fmax_table_add(table, &point), BRAID_OK);
      }
  return table;
}

typedef struct everything {
  size_t all, fitting, known;
  double best[2]; /* Fmax, by work-group size */
} everything;

static bool oracle_fits(const braid_kernel_sources *sources, const braid_kernel_design *d) {
  double used[BRAID_KERNEL_RESOURCES];
  braid_kernel_use(sources->chip, BRAID_KERNEL_MATMUL, d, sources->kernels, used);
  for (int i = 0; i < BRAID_KERNEL_RESOURCES; i++)
    if (used[i] > 1) return false;
  for (size_t i = 0; i < braid_fmax_table_count(sources->table); i++) {
    const braid_fmax_point *p = braid_fmax_table_get(sources->table, i);
    if (p->too_large && p->units <= d->units && p->simd <= d->simd && p->unroll <= d->unroll) return false;
  }
  return true;
}

static double oracle_fmax(const braid_kernel_sources *sources, const braid_kernel_design *d) {
  for (size_t i = 0; i < braid_fmax_table_count(sources->table); i++) {
    const braid_fmax_point *p = braid_fmax_table_get(sources->table, i);
    if (p->units == d->units && p->simd == d->simd && p->unroll == d->unroll && !isnan(p->mhz)) return p->mhz;
  }
  return sources->model ? braid_kernel_model_fmax(sources->chip, BRAID_KERNEL_MATMUL, d, sources->kernels) : NAN;
}

/* Is there a survivor of this work-group size that is as fast, and less than 10% faster? */
static bool is_covered(const braid_kernel_search *search, const braid_kernel_design *d, double mhz) {
  for (size_t i = 0; i < search->distinct; i++) {
    const braid_kernel_result *r = &search->results[i];
    if (r->design.group == d->group && r->fmax_mhz >= mhz && r->fmax_mhz - mhz < 0.1 * r->fmax_mhz) return true;
  }
  return false;
}

static everything try_everything(const braid_kernel_sources *sources, const braid_kernel_search *search) {
  everything e = {0};
  for (size_t i = 0; i < 3 * 3 * 2 * kUnroll; i++) {
    braid_kernel_design d = {
        .units = kUnits[i % 3], .simd = kSimd[i / 3 % 3], .group = kGroups[i / 9 % 2], .unroll = 1 + (int64_t)(i / 18)};
    e.all++;
    if (!oracle_fits(sources, &d)) continue;
    e.fitting++;
    double mhz = oracle_fmax(sources, &d);
    if (isnan(mhz)) continue;
    e.known++;
    e.best[i / 9 % 2] = fmax(e.best[i / 9 % 2], mhz);
    assert_true(is_covered(search, &d, mhz));
  }
  return e;
}

static void check_survivors(const braid_kernel_search *search, const braid_kernel_sources *sources, const everything *e,
                            double work) {
  double best[2] = {0};
  for (size_t i = 0; i < search->distinct; i++) {
    const braid_kernel_result *a = &search->results[i];
    assert_true(oracle_fits(sources, &a->design));
    assert_true(a->fmax_mhz == oracle_fmax(sources, &a->design));
    assert_true(a->li == 1024 * work / ((double)a->design.group * a->fmax_mhz * 1e6));
    if (i) assert_true(a->li >= search->results[i - 1].li);
    int g = a->design.group == kGroups[1];
    best[g] = fmax(best[g], a->fmax_mhz);
    for (size_t k = 0; k < i; k++) {
      const braid_kernel_result *b = &search->results[k];
      double more = fmax(a->fmax_mhz, b->fmax_mhz), less = fmin(a->fmax_mhz, b->fmax_mhz);
      assert_true(a->design.group != b->design.group || more - less >= 0.1 * more);
    }
  }
  assert_true(best[0] == e->best[0] && best[1] == e->best[1]); /* pruning never loses the best */
}

static void test_pruning(void **state) {
  (void)state;
  braid_chip *chip;
  assert_int_equal(braid_chip_load(NULL, "arria10-gx1150", &chip), BRAID_OK);
  braid_kernel_space space = {.most_unroll = kUnroll, .unit_count = 3, .simd_count = 3, .group_count = 2};
  memcpy(space.units, kUnits, sizeof kUnits);
  memcpy(space.simd, kSimd, sizeof kSimd);
  memcpy(space.groups, kGroups, sizeof kGroups);
  size_t left_out = 0;
  for (uint64_t seed = 0; seed < 40; seed++) {
    random_state = seed;
    braid_fmax_table *table = random_table(seed % 2);
    const braid_kernel_sources sources = {.chip = seed % 4 < 2 ? chip : NULL,
                                          .table = table,
                                          .model = seed % 8 == 0,
                                          .kernels = 1 + (int64_t)(seed / 4 % 3)};
    braid_kernel_search search;
    double work = 1e9;
    assert_int_equal(braid_kernel_explore(NULL, BRAID_KERNEL_MATMUL, work, &space, &sources, &search), BRAID_OK);
    everything e = try_everything(&sources, &search);
    print_message("seed %llu: %zu combinations, %zu fit, %zu known, %zu distinct, %zu checks\n",
                  (unsigned long long)seed, e.all, e.fitting, e.known, search.distinct, search.fit_checks);
    assert_int_equal(search.all, e.all);
    assert_int_equal(search.fitting, e.fitting);
    assert_int_equal(search.known, e.known);
    assert_true(search.fit_checks <= 18 * 5); /* 2^5 > 24 */
    check_survivors(&search, &sources, &e, work);
    left_out += e.all - e.fitting;
    braid_kernel_search_deinit(NULL, &search);
    braid_fmax_table_destroy(table);
  }
  assert_true(left_out > 0);
  braid_chip_destroy(chip);
}

/* Binary search is right only if more of anything never uses less of the chip. */
static void test_use_rises(void **state) {
  (void)state;
  for (size_t c = 0; c < braid_chip_count(); c++) {
    braid_chip *chip;
    assert_int_equal(braid_chip_load(NULL, braid_chip_name(c), &chip), BRAID_OK);
    for (int i = 0; chip->kernel && i < 2000; i++) {
      random_state = (uint64_t)i * 7919;
      braid_kernel_design d = {1 + (int64_t)(uniform() * 8), 1 + (int64_t)(uniform() * 32),
                               1 + (int64_t)(uniform() * 512), 1 + (int64_t)(uniform() * 300)};
      braid_kernel_design more = d;
      *(int64_t *[]){&more.units, &more.simd, &more.group, &more.unroll}[i % 4] += 1 + (int64_t)(uniform() * 9);
      double a[BRAID_KERNEL_RESOURCES], b[BRAID_KERNEL_RESOURCES];
      braid_kernel_op op = (braid_kernel_op)(i / 4 % BRAID_KERNEL_OPS);
      braid_kernel_use(chip, op, &d, 1 + i % 3, a);
      braid_kernel_use(chip, op, &more, 1 + i % 3, b);
      for (int k = 0; k < BRAID_KERNEL_RESOURCES; k++) assert_true(b[k] >= a[k]);
      assert_true(braid_kernel_model_fmax(chip, op, &more, 2) <= braid_kernel_model_fmax(chip, op, &d, 2));
    }
    braid_chip_destroy(chip);
  }
}

static void test_refused(void **state) {
  (void)state;
  braid_kernel_search search;
  braid_chip *chip;
  assert_int_equal(braid_chip_load(NULL, "xcvu9p", &chip), BRAID_OK);
  braid_kernel_space good = braid_kernel_paper_space(BRAID_KERNEL_MATMUL), bad = good;
  bad.simd[1] = 1;
  assert_int_equal(braid_kernel_explore(NULL, BRAID_KERNEL_MATMUL, 1, &bad, &(braid_kernel_sources){0}, &search),
                   BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "SIMD widths"));
  bad = good;
  bad.most_unroll = BRAID_KERNEL_MOST_UNROLL;
  bad.simd_count = bad.group_count = BRAID_KERNEL_CHOICES;
  for (int64_t i = 0; i < BRAID_KERNEL_CHOICES; i++) bad.simd[i] = bad.groups[i] = i + 1;
  assert_int_equal(braid_kernel_explore(NULL, BRAID_KERNEL_MATMUL, 1, &bad, &(braid_kernel_sources){0}, &search),
                   BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "combinations, expected at most"));
  bad = good;
  bad.most_unroll = 0;
  assert_int_equal(braid_kernel_explore(NULL, BRAID_KERNEL_MATMUL, 1, &bad, &(braid_kernel_sources){0}, &search),
                   BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_kernel_explore(NULL, BRAID_KERNEL_MATMUL, NAN, &good, &(braid_kernel_sources){0}, &search),
                   BRAID_INVALID_ARGUMENT);
  const braid_kernel_sources no_costs = {.chip = chip, .model = true};
  assert_int_equal(braid_kernel_explore(NULL, BRAID_KERNEL_MATMUL, 1, &good, &no_costs, &search),
                   BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "XCVU9P has no costs"));
  braid_chip_destroy(chip);
}

static braid_status explore_all(const braid_allocator *allocator, void *context) {
  (void)context;
  braid_fmax_table *table = NULL;
  braid_kernel_search search = {0};
  braid_kernel_space space = braid_kernel_paper_space(BRAID_KERNEL_MATMUL);
  double spearman, kendall;
  const double values[] = {1, 2, 3};
  braid_status status = braid_fmax_table_create(allocator, &table);
  if (status == BRAID_OK) status = braid_fmax_table_load(table, "hype-training");
  const braid_kernel_sources sources = {.table = table};
  if (status == BRAID_OK) status = braid_kernel_explore(allocator, BRAID_KERNEL_MATMUL, 1e9, &space, &sources, &search);
  if (status == BRAID_OK) status = braid_rank_correlation(allocator, values, values, 3, &spearman, &kendall);
  braid_kernel_search_deinit(allocator, &search);
  braid_fmax_table_destroy(table);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  assert_true(oom_sweep(explore_all, NULL) > 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_examples), cmocka_unit_test(test_table_4),       cmocka_unit_test(test_published_points),
      cmocka_unit_test(test_work),     cmocka_unit_test(test_no_work),       cmocka_unit_test(test_classes),
      cmocka_unit_test(test_ranks),    cmocka_unit_test(test_pruning),       cmocka_unit_test(test_use_rises),
      cmocka_unit_test(test_refused),  cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
