/* The simulator against queueing theory, against sums done by hand, and against what must hold of any scenario. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/philox.h"
#include "braid/cluster_simulation.h"
#include "oom.h"
#include "skip.h"
#include "slow.h"

static char scenario_path[] = "/tmp/braid-simulate-XXXXXX";

static int set_up(void **state) {
  (void)state;
  int file = mkstemp(scenario_path);
  return file < 0 || close(file) != 0;
}

static int tear_down(void **state) {
  (void)state;
  return unlink(scenario_path);
}

static void write_scenario(const char *text) {
  FILE *file = fopen(scenario_path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

static braid_cluster_simulated *simulate(const char *text, uint64_t seed) {
  braid_cluster_simulated *result;
  write_scenario(text);
  braid_cluster_simulation how = {.scenario = scenario_path, .seed = seed, .moves = true};
  braid_status status = braid_cluster_simulate(&how, &result);
  if (status != BRAID_OK) fail_msg("%s: %s\n%s", braid_status_text(status), braid_error_detail(), text);
  const braid_cluster_requests *all = &result->all;
  assert_true(all->in_time + all->late + all->refused + all->lost == all->requests);
  return result;
}

/* --- queueing theory -----------------------------------------------------------------------------------------------
 */
/* Mean wait in an M/D/c queue, in units of the service time: the number in the system a service time later is what was
 * there beyond c, and a Poisson number of others (Crommelin 1932); Little's law turns the queue into the wait. */
static double wait_mdc(int servers, double load) {
  enum { kStates = 400 };
  static double now[kStates], next[kStates], poisson[kStates];
  double mean = load * servers, queue = 0;
  poisson[0] = exp(-mean);
  for (int i = 1; i < kStates; i++) poisson[i] = poisson[i - 1] * mean / i;
  memset(now, 0, sizeof now);
  now[0] = 1;
  for (int step = 0; step < 3000; step++) {
    memset(next, 0, sizeof next);
    for (int n = 0; n < kStates; n++) {
      int left = n > servers ? n - servers : 0;
      for (int k = 0; left + k < kStates && now[n] > 0; k++) next[left + k] += now[n] * poisson[k];
    }
    memcpy(now, next, sizeof now);
  }
  for (int n = servers; n < kStates; n++) queue += (n - servers) * now[n];
  return queue / mean;
}

static double simulated_wait(const char *nodes, int servers, double load, const char *deviation) {
  char text[1000];
  snprintf(text, sizeof text,
           "seconds: 1000000\nrequests: 400000\nmax_waiting: 100000\nmost_busy: 1\nperiod_s: 1000000\n"
           "nodes:\n  - {kind: a, %s}\n"
           "models:\n  - {name: m, least: %d, times: [{kind: a, mean_ms: 10, deviation_ms: %s}]}\n"
           "tenants:\n  - {name: t, model: m, rate: %.17g}\n",
           nodes, strncmp(nodes, "count", 5) == 0 ? servers : 1, deviation, load * servers * 100);
  braid_cluster_simulated *result = simulate(text, 3);
  double wait = result->all.mean_ms / 10 - 1;
  assert_true(result->all.done == 400000 && fabs(result->nodes[0].busy - load) < 0.01);
  braid_cluster_simulated_destroy(result);
  return wait;
}

static void test_queues(void **state) {
  (void)state;
  skip_if_slow(); /* statistics */
  static const struct {
    const char *nodes;
    int servers;
    double load;
  } kCases[] = {{"instances: 1", 1, 0.5}, {"instances: 1", 1, 0.8}, {"instances: 3", 3, 0.8},
                {"count: 3", 3, 0.8},     {"count: 8", 8, 0.9},     {"instances: 8", 8, 0.9}};
  assert_true(fabs(wait_mdc(1, 0.8) - 0.8 / (2 * 0.2)) < 1e-6); /* M/D/1 in closed form */
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    double exact = wait_mdc(kCases[i].servers, kCases[i].load);
    double wait = simulated_wait(kCases[i].nodes, kCases[i].servers, kCases[i].load, "0");
    print_message("M/D/%d at %.1f, %s: wait %.4f, simulated %.4f\n", kCases[i].servers, kCases[i].load, kCases[i].nodes,
                  exact, wait);
    assert_true(fabs(wait - exact) < 0.03 * exact + 0.002);
  }
  /* M/G/1: Pollaczek and Khinchine. */
  double exact = 0.7 * (1 + 0.6 * 0.6) / (2 * 0.3), wait = simulated_wait("count: 1", 1, 0.7, "6");
  print_message("M/G/1 at 0.7, deviation 0.6: wait %.4f, simulated %.4f\n", exact, wait);
  assert_true(fabs(wait - exact) < 0.04 * exact);
}

/* Bursty gaps have the deviation that they are said to have, by what an M/G/1 queue would not wait. */
static void test_bursts_wait_longer(void **state) {
  (void)state;
  skip_if_slow();
  static const char kFormat[] = "seconds: 2000\nmax_waiting: 100000\nnodes:\n  - {kind: a}\n"
                                "models:\n  - {name: m, times: [{kind: a, mean_ms: 10}]}\n"
                                "tenants:\n  - {name: t, model: m, rate: 50, arrivals: %s}\n";
  double means[3];
  const char *arrivals[] = {"even", "poisson", "bursty"};
  for (int i = 0; i < 3; i++) {
    char text[500];
    snprintf(text, sizeof text, kFormat, arrivals[i]);
    braid_cluster_simulated *result = simulate(text, 5);
    means[i] = result->all.mean_ms;
    assert_true(fabs((double)result->all.requests - 100000) < 4000);
    braid_cluster_simulated_destroy(result);
  }
  assert_true(fabs(means[0] - 10) < 1e-6 && means[1] > 12 && means[2] > 2 * means[1]);
}

/* --- by hand -------------------------------------------------------------------------------------------------------
 */
static void test_energy(void **state) {
  (void)state;
  braid_cluster_simulated *result = simulate(
      "seconds: 10\nnetwork_ms: 1\nnodes:\n  - {kind: a, count: 2, asleep_watts: 3, idle_watts: 50, busy_watts: 150}\n"
      "models:\n  - {name: m, most: 1, times: [{kind: a, mean_ms: 20}]}\n"
      "tenants:\n  - {name: t, model: m, rate: 10, arrivals: even}\n",
      1);
  assert_int_equal(result->all.requests, 100); /* at 0.1, 0.2, ... 10 s */
  assert_true(fabs(result->all.p50_ms - 22) < 1e-6 && fabs(result->all.most_ms - 22) < 1e-6);
  assert_true(fabs(result->seconds - 10.022) < 1e-9);
  double joules = 10.022 * 53 + 100 * 0.020 * 100;
  assert_true(fabs(result->joules - joules) < 1e-6 && result->most_watts == 153);
  assert_true(fabs(result->nodes[0].busy - 2 / (2 * 10.022)) < 1e-9 && fabs(result->nodes[0].awake - 0.5) < 1e-12);
  braid_cluster_simulated_destroy(result);
}

static void test_batches(void **state) {
  (void)state;
  braid_cluster_simulated *result = simulate(
      "seconds: 1\nrequests: 401\nmax_waiting: 1000\nnodes:\n  - {kind: a}\n"
      "models:\n  - {name: m, max_batch: 4, times: [{kind: a, mean_ms: 10}, {kind: a, rows: 4, mean_ms: 16}]}\n"
      "tenants:\n  - {name: t, model: m, rate: 1000000, arrivals: even}\n",
      1);
  /* One runs alone, 400 wait and run in fours: the last ends after 10 + 100 * 16 ms. */
  assert_int_equal(result->all.done, 401);
  assert_true(fabs(result->seconds - (1e-6 + 0.010 + 1.6)) < 1e-9);
  braid_cluster_simulated_destroy(result);
}

static void test_deadlines_are_kept(void **state) {
  (void)state;
  braid_cluster_simulated *result =
      simulate("seconds: 100\nnetwork_ms: 0.5\nnodes:\n  - {kind: a, count: 4}\n"
               "models:\n  - {name: m, deadline_ms: 50, least: 4, times: [{kind: a, mean_ms: 10}]}\n"
               "tenants:\n  - {name: t, model: m, rate: 600}\n", /* of 400 that they can do */
               1);
  assert_int_equal(result->all.late, 0); /* times are exact, so what is admitted is in time */
  assert_true(result->all.refused > 15000 && result->all.most_ms <= 50);
  assert_true(result->all.in_time > 0.98 * 40000);
  braid_cluster_simulated_destroy(result);
}

static void test_lost_node(void **state) {
  (void)state;
  static const char kFormat[] =
      "seconds: 10\ndetect_ms: 1000\nnodes:\n  - {kind: a, count: %d, load_mib_per_s: 10}\n"
      "models:\n  - {name: m, memory_mib: 0, least: %d, deadline_ms: 3000, times: [{kind: a, "
      "mean_ms: 20}]}\n"
      "tenants:\n  - {name: t, model: m, rate: 10, arrivals: even}\n"
      "events:\n  - {at_s: 5.01, event: lost, node: 0}\n  - {at_s: 8.25, event: back, node: 0}\n";
  char text[800];
  snprintf(text, sizeof text, kFormat, 1, 1);
  braid_cluster_simulated *result = simulate(text, 1);
  /* The one that runs at 5.01 s and the ten until 6.01 s are lost with the only node; those from 6.1 s on are refused
   * until the next look at 10 s. */
  assert_int_equal(result->all.lost, 11);
  assert_int_equal(result->all.retried, 11);
  assert_int_equal(result->all.in_time, 49);
  assert_int_equal(result->all.refused, 40);
  braid_cluster_simulated_destroy(result);
  snprintf(text, sizeof text, kFormat, 2, 2);
  result = simulate(text, 1); /* with a second one they are done there, within three seconds */
  assert_int_equal(result->all.in_time, 100);
  assert_true(result->all.retried == 11 && result->all.most_ms > 1000);
  braid_cluster_simulated_destroy(result);
}

static void test_slow_node(void **state) {
  (void)state;
  braid_cluster_simulated *result = simulate("seconds: 200\nnodes:\n  - {kind: a, count: 2, memory_mib: 10}\n"
                                             "models:\n  - {name: m, least: 2, times: [{kind: a, mean_ms: 10}]}\n"
                                             "tenants:\n  - {name: t, model: m, rate: 60}\n"
                                             "events:\n  - {at_s: 1, event: slow, node: 0, factor: 20}\n",
                                             1);
  /* Both could do 200/s, one 100: that it is slow is learned, and the other one gets nearly all. */
  assert_true(result->all.p50_ms < 15 && result->all.mean_ms < 40);
  braid_cluster_simulated_destroy(result);
}

static void test_cap(void **state) {
  (void)state;
  braid_cluster_simulated *result = simulate(
      "seconds: 60\nnotice_ms: 100\nnodes:\n  - {kind: a, count: 10, memory_mib: 100, asleep_watts: 5, idle_watts: 50, "
      "busy_watts: 105,"
      " load_mib_per_s: 100}\n"
      "models:\n  - {name: m, memory_mib: 50, deadline_ms: 500, times: [{kind: a, mean_ms: 100, deviation_ms: 10}]}\n"
      "tenants:\n  - {name: t, model: m, rate: 50}\n"
      "events:\n  - {at_s: 20, event: cap, watts: 455}\n  - {at_s: 40, event: cap, watts: 0}\n",
      1);
  /* 50/s need eight nodes of 10; four may be awake under the cap. */
  assert_int_equal(result->cap_violations, 0);
  assert_true(result->over_cap_s == 0 && result->most_watts > 600);
  assert_true(result->all.refused > 150 && result->all.refused < 400);
  assert_true(result->all.in_time > 2000);
  bool said = false;
  for (size_t i = 0; i < result->move_count; i++) said |= strstr(result->moves[i].text, "the cap of 455 W") != NULL;
  assert_true(said);
  braid_cluster_simulated_destroy(result);
}

/* --- any scenario --------------------------------------------------------------------------------------------------
 */
static size_t add_text(char *text, size_t at, size_t bytes, const char *format, ...) BRAID_PRINTF(4, 5);
static size_t add_text(char *text, size_t at, size_t bytes, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int count = vsnprintf(text + at, bytes - at, format, arguments);
  va_end(arguments);
  assert_true(count >= 0 && at + (size_t)count < bytes);
  return at + (size_t)count;
}

/* Numbers below these, of which each is drawn anew. */
static void draw_all(uint64_t seed, uint64_t *at, const uint32_t *below, size_t count, uint32_t *out) {
  for (size_t i = 0; i < count; i++) out[i] = braid_random_below(seed, 9, 0, (*at)++, below[i]);
}

static size_t add_nodes(uint64_t seed, uint64_t *at, char *text, size_t n, size_t bytes) {
  uint32_t d[8];
  draw_all(seed, at, (const uint32_t[]){3, 60, 2, 800}, 4, d);
  n = add_text(text, n, bytes, "seconds: 20\nperiod_s: 3\nnetwork_ms: %u\nmax_waiting: %u\ncap_watts: %u\nnodes:\n",
               d[0], 2 + d[1], d[2] ? 0 : 600 + d[3]);
  for (unsigned k = 0; k < 2; k++) {
    draw_all(seed, at, (const uint32_t[]){4, 3, 200, 60, 200, 2}, 6, d);
    n = add_text(text, n, bytes,
                 "  - {kind: k%u, count: %u, instances: %u, memory_mib: %u, asleep_watts: 5, idle_watts: %u, "
                 "busy_watts: 200, load_mib_per_s: %u, features: f%u}\n",
                 k, 2 + d[0], 1 + d[1], 100 + d[2], 40 + d[3], d[4], d[5]);
  }
  return n;
}

static size_t add_models(uint64_t seed, uint64_t *at, char *text, size_t n, size_t bytes) {
  uint32_t d[9];
  n = add_text(text, n, bytes, "models:\n");
  for (unsigned m = 0; m < 3; m++) {
    draw_all(seed, at, (const uint32_t[]){80, 2, 3, 3, 200, 4, 2, 20, 10}, 9, d);
    n = add_text(text, n, bytes,
                 "  - {name: m%u, memory_mib: %u, max_batch: 4, least: %u, delay_ms: %u, deadline_ms: %u%s%s, times: "
                 "[{kind: k0, mean_ms: %u, deviation_ms: %u}, {kind: k0, rows: 4, mean_ms: 30}, {kind: k1, rows: 4, "
                 "mean_ms: 25, deviation_ms: 9}]}\n",
                 m, 20 + d[0], 1 + d[1], d[2], d[3] ? 30 + d[4] : 0, d[5] ? "" : ", features: f0",
                 m == 1 && d[6] ? ", private_to: t1" : "", 5 + d[7], d[8]);
  }
  n = add_text(text, n, bytes, "tenants:\n");
  for (unsigned t = 0; t < 3; t++) {
    draw_all(seed, at, (const uint32_t[]){90, 2, 9}, 3, d);
    n = add_text(text, n, bytes, "  - {name: t%u, model: m%u, rate: %u, arrivals: %s, priority: %u}\n", t, t, 1 + d[0],
                 d[1] ? "poisson" : "bursty", 1 + d[2]);
  }
  return n;
}

static void write_random(uint64_t seed, char *text, size_t bytes) {
  uint64_t at = 0;
  uint32_t d[7];
  size_t n = add_nodes(seed, &at, text, 0, bytes);
  n = add_models(seed, &at, text, n, bytes);
  n = add_text(text, n, bytes, "events:\n");
  for (unsigned e = 0; e < 12; e++) {
    static const char *const kWhat[] = {"lost", "back", "slow", "lost", "back"};
    draw_all(seed, &at, (const uint32_t[]){7, 20, 1000, 4, 5, 3, 150}, 7, d);
    if (d[0] < 5)
      n = add_text(text, n, bytes, "  - {at_s: %u.%u, event: %s, node: %u, factor: %u}\n", d[1], d[2], kWhat[d[0]],
                   d[3], 1 + d[4]);
    else if (d[0] == 5)
      n = add_text(text, n, bytes, "  - {at_s: %u.5, event: cap, watts: %u}\n", d[1], 300 + d[2]);
    else
      n = add_text(text, n, bytes, "  - {at_s: %u.5, event: rate, tenant: t%u, rate: %u}\n", d[1], d[5], 1 + d[6]);
  }
}

static void compare_requests(const braid_cluster_requests *a, const braid_cluster_requests *b) {
  assert_true(a->requests == b->requests && a->in_time == b->in_time && a->late == b->late);
  assert_true(a->refused == b->refused && a->lost == b->lost && a->retried == b->retried && a->done == b->done);
  assert_memory_equal(&a->mean_ms, &b->mean_ms, sizeof a->mean_ms);
  assert_memory_equal(&a->p999_ms, &b->p999_ms, sizeof a->p999_ms);
}

static void test_any(void **state) {
  (void)state;
  const uint64_t seeds = UNLESS_SLOW(150, 30);
  char text[6000];
  uint64_t lost = 0, moves = 0, refused = 0, late = 0;
  for (uint64_t seed = 1; seed <= seeds; seed++) {
    write_random(seed, text, sizeof text);
    braid_cluster_simulated *result = simulate(text, seed), *again = simulate(text, seed);
    if (result->cap_violations) fail_msg("seed %llu: the cap is exceeded\n%s", (unsigned long long)seed, text);
    for (size_t t = 0; t < result->tenant_count; t++) {
      const braid_cluster_requests *r = &result->tenants[t];
      assert_true(r->in_time + r->late + r->refused + r->lost == r->requests && r->done <= r->requests);
      compare_requests(r, &again->tenants[t]);
    }
    assert_memory_equal(&result->joules, &again->joules, sizeof result->joules);
    assert_true(result->move_count == again->move_count && result->loads == again->loads);
    for (size_t i = 0; i < result->move_count; i++) assert_string_equal(result->moves[i].text, again->moves[i].text);
    lost += result->all.retried;
    moves += result->loads;
    refused += result->all.refused;
    late += result->all.late;
    braid_cluster_simulated_destroy(result);
    braid_cluster_simulated_destroy(again);
  }
  print_message("%llu scenarios: %llu retried, %llu loads, %llu refused, %llu late\n", (unsigned long long)seeds,
                (unsigned long long)lost, (unsigned long long)moves, (unsigned long long)refused,
                (unsigned long long)late);
  assert_true(lost > 100 && moves > 100 && refused > 1000 && late > 100);
}

static braid_status attempt(const braid_allocator *allocator, void *context) {
  (void)context;
  braid_cluster_simulation how = {.scenario = scenario_path, .seed = 1, .moves = true, .allocator = allocator};
  braid_cluster_simulated *result;
  braid_status status = braid_cluster_simulate(&how, &result);
  braid_cluster_simulated_destroy(result);
  return status;
}

static void test_memory(void **state) {
  (void)state;
  write_scenario("seconds: 1\nperiod_s: 0.2\ndetect_ms: 10\nnodes:\n  - {kind: a, count: 3, memory_mib: 5}\n"
                 "models:\n  - {name: m, memory_mib: 2, deadline_ms: 40, times: [{kind: a, mean_ms: 10}]}\n"
                 "tenants:\n  - {name: t, model: m, rate: 30, arrivals: even}\n"
                 "events:\n  - {at_s: 0.5, event: lost, node: 0}\n  - {at_s: 0.7, event: back, node: 0}\n");
  assert_true(oom_sweep(attempt, NULL) > 50);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_queues),
      cmocka_unit_test(test_bursts_wait_longer),
      cmocka_unit_test(test_energy),
      cmocka_unit_test(test_batches),
      cmocka_unit_test(test_deadlines_are_kept),
      cmocka_unit_test(test_lost_node),
      cmocka_unit_test(test_slow_node),
      cmocka_unit_test(test_cap),
      cmocka_unit_test(test_any),
      cmocka_unit_test(test_memory),
  };
  return skip_run_group_tests(tests, set_up, tear_down);
}
