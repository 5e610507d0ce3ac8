/* The learning-rate finder: rates, smoothing and choice against the published formulas; its run gives the same numbers
 * with any number of threads, stops where the loss diverges, and leaves the folder of a run as it was. */
#include <dirent.h>

#include "train/finder.h"
#include "train/trainer_fixture.h"

enum { kSteps = 60 };

static void test_judgement(void **state) {
  (void)state;
  braid_rate_point points[kSteps];
  braid_rate_search search = {.points = points};
  braid_rate_options o = {.least = 1e-6, .most = 1, .steps = kSteps};
  double average = 0, smoothed[kSteps];
  bool diverged = false;
  assert_float_equal(braid_finder_rate(&o, 0), 1e-6, 1e-20);
  assert_float_equal(braid_finder_rate(&o, kSteps - 1), 1, 1e-12);
  int count = 0;
  for (; count < kSteps && !diverged; count++) {
    double rate = braid_finder_rate(&o, count), x = log10(rate);
    assert_float_equal(rate, pow(10, -6 + 6.0 * count / (kSteps - 1)), 1e-12);
    double loss =
        x < -2 ? 2 - 1.5 / (1 + exp(-4 * (x + 4))) : exp(6 * (x + 2)); /* falls at 1e-4, diverges after 1e-2 */
    average = 0.9 * average + 0.1 * loss;                              /* with the correction of Kingma and Ba */
    smoothed[count] = average / (1 - pow(0.9, count + 1));
    diverged = braid_finder_add(&search, rate, loss);
    assert_float_equal(points[count].smoothed, smoothed[count], 1e-12);
  }
  assert_true(diverged && count < kSteps);
  for (int i = 11; i < count - 1; i++) {
    double least = INFINITY;
    for (int k = 0; k < i; k++) least = fmin(least, smoothed[k]);
    assert_true(smoothed[i] <= 4 * least);
  }
  braid_finder_judge(&search, kSteps);
  int lowest = 0, best = -1;
  double steepest = 0;
  for (int i = 1; i < count; i++) lowest = smoothed[i] < smoothed[lowest] ? i : lowest;
  for (int i = 6; i + 6 < count; i++) { /* at equal distances the slope is a weighted sum */
    double sum = 0;
    for (int k = -6; k <= 6; k++) sum += k * points[i + k].loss;
    if (sum < steepest) steepest = sum, best = i;
  }
  assert_float_equal(search.suggested, points[best].rate, 1e-15);
  assert_float_equal(search.lowest, points[lowest].rate, 1e-15);
  assert_true(search.suggested > 5e-5 && search.suggested < 2e-4);
  search.count = 0; /* a loss that only grows suggests nothing, nor does one that only varies */
  for (int i = 0; i < 30; i++) braid_finder_add(&search, braid_finder_rate(&o, i), 1 + i);
  braid_finder_judge(&search, kSteps);
  assert_true(isnan(search.suggested));
  search.count = 0;
  for (int i = 0; i < kSteps; i++) braid_finder_add(&search, braid_finder_rate(&o, i), 2 + 0.1 * (i % 2));
  braid_finder_judge(&search, kSteps);
  assert_true(isnan(search.suggested));
}

static braid_rate_search search_rates(int threads) {
  braid_graph *graph = network();
  braid_dataset *data = glyphs("train");
  braid_train_options options = options_of("searched");
  braid_rate_options rates;
  braid_rate_search search;
  rates = (braid_rate_options){.least = 1e-4, .most = 1000, .steps = kSteps};
  options.threads = threads;
  options.epochs = 1; /* of which, and of the schedule, the search takes nothing */
  options.schedule = BRAID_STEP;
  options.warmup_steps = 1000000;
  options.lookahead_steps = 1000000;
  options.lookahead_share = 0.5;
  ok(braid_find_rate(graph, data, &options, &rates, NULL, NULL, &search));
  braid_dataset_close(data);
  braid_graph_destroy(graph);
  return search;
}

static int count_files(const char *path) {
  int count = 0;
  DIR *list = opendir(path);
  assert_non_null(list);
  while (readdir(list)) count++;
  closedir(list);
  return count;
}

static void test_run(void **state) {
  (void)state;
  char path[160];
  snprintf(path, sizeof path, "%s/searched", folder);
  assert_int_equal(mkdir(path, 0777), 0);
  braid_rate_search one = search_rates(1);
  assert_int_equal(count_files(path), 2); /* . and .. */
  for (int threads = 2; threads <= 3; threads++) {
    braid_rate_search other = search_rates(threads);
    assert_int_equal(other.count, one.count);
    assert_memory_equal(other.points, one.points, one.count * sizeof *one.points);
    assert_true(other.suggested == one.suggested);
    braid_rate_search_deinit(&other);
  }
  assert_true(one.diverged && one.count < kSteps);
  assert_true(one.suggested > 1e-5 && one.suggested < 10 && one.lowest < 100);
  ok(braid_rate_search_save(&one, path));
  assert_int_equal(count_files(path), 4);
  snprintf(path, sizeof path, "%s/searched/learning-rate.csv", folder);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  char line[128];
  size_t lines = 0;
  while (fgets(line, sizeof line, file)) lines++;
  fclose(file);
  assert_int_equal(lines, one.count + 1);
  braid_rate_search_deinit(&one);
}

static bool stop_at_ten(void *context, int64_t done, int64_t total, const braid_rate_point *point) {
  (void)context;
  assert_true(total == kSteps && point->rate > 0 && point->loss > 0);
  return done < 10;
}

static void test_ends(void **state) {
  (void)state;
  braid_graph *graph = network();
  braid_dataset *data = glyphs("train");
  braid_train_options options = options_of("ends");
  braid_rate_options rates = {.least = 1e-5, .most = 1, .steps = kSteps};
  braid_rate_search search;
  assert_int_equal(braid_find_rate(graph, data, &options, &rates, stop_at_ten, NULL, &search), BRAID_CANCELLED);
  assert_null(search.points);
  rates.most = 1e-6;
  assert_int_equal(braid_find_rate(graph, data, &options, &rates, NULL, NULL, &search), BRAID_INVALID_ARGUMENT);
  rates = (braid_rate_options){.least = 1e-5, .most = 1, .steps = 3};
  assert_int_equal(braid_find_rate(graph, data, &options, &rates, NULL, NULL, &search), BRAID_INVALID_ARGUMENT);
  braid_dataset_close(data);
  braid_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_judgement), cmocka_unit_test(test_run),
                                     cmocka_unit_test(test_ends)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
