/* Scenarios: defaults, and what is refused with the line that has it. */
#include "simulate/scenario.h"

#include <string.h>

#include "skip.h"

#define HEAD "seconds: 10\n"
#define NODES "nodes:\n  - {kind: a, count: 3}\n  - {kind: b, features: gpu big}\n"
#define MODELS "models:\n  - {name: m, times: [{kind: a, mean_ms: 5}]}\n"
#define TENANTS "tenants:\n  - {name: t, model: m, rate: 10}\n"

static void test_defaults(void **state) {
  (void)state;
  static const char kText[] = HEAD NODES MODELS TENANTS "events:\n  - {at_s: 7, event: back, node: 3}\n"
                                                        "  - {at_s: 2, event: lost, node: 1, count: 3}\n";
  braid_scenario *s;
  if (braid_scenario_parse("s.yaml", kText, strlen(kText), &s) != BRAID_OK) fail_msg("%s", braid_error_detail());
  assert_int_equal(s->node_count, 4);
  assert_int_equal(s->nodes[0].instances, 1);
  assert_int_equal(s->max_waiting, 256);
  assert_true(s->period_s == 10 && s->most_busy == 0.7 && s->cap_watts == 0);
  assert_int_equal(s->models[0].max_batch, 1);
  assert_int_equal(s->models[0].least, 1);
  assert_true(s->models[0].tenant == SIZE_MAX);
  assert_int_equal(s->tenants[0].priority, 5);
  assert_int_equal(s->tenants[0].arrivals, BRAID_ARRIVALS_POISSON);
  assert_true(s->events[0].at_s == 2 && s->events[1].at_s == 7); /* by time */
  assert_int_equal(s->events[1].count, 1);
  assert_int_equal(braid_scenario_features(s, "big"), 2);
  assert_int_equal(braid_scenario_features(s, " gpu  big "), 3);
  assert_int_equal(braid_scenario_features(s, NULL), 0);
  braid_scenario_free(s);
}

static void test_refusals(void **state) {
  (void)state;
  static const struct {
    const char *text, *says;
  } kCases[] = {
      {"", "s.yaml"},
      {NODES MODELS TENANTS, "seconds"},
      {"seconds: 0\n" NODES MODELS TENANTS, "line 1: seconds is 0"},
      {"seconds: nan\n" NODES MODELS TENANTS, "nan"},
      {"seconds: 1e99\n" NODES MODELS TENANTS, "line 1: seconds is 1e+99"},
      {HEAD "requests: 10000001\n" NODES MODELS TENANTS, "line 2: requests is 1e+07"},
      {HEAD "most_busy: 2\n" NODES MODELS TENANTS, "line 2: most_busy is 2"},
      {HEAD "period_s: 1e-5\n" NODES MODELS TENANTS, "line 2: period_s is 1e-05, expected 0.0001"},
      {HEAD "colour: red\n" NODES MODELS TENANTS, "colour"},
      {HEAD "nodes: []\n" MODELS TENANTS, "s.yaml"},
      {HEAD "nodes:\n  - {kind: a, count: 100001}\n" MODELS TENANTS, "line 3: count is 100001"},
      {HEAD "nodes:\n  - {kind: a, count: 60000}\n  - {kind: b, count: 60000}\n" MODELS TENANTS, "more than 100000"},
      {HEAD "nodes:\n  - {kind: a}\n  - {kind: a}\n" MODELS TENANTS, "line 4: there are two kinds"},
      {HEAD "nodes:\n  - {kind: a, idle_watts: 9, busy_watts: 5}\n" MODELS TENANTS, "busy_watts is 5, expected 9"},
      {HEAD "nodes:\n  - {kind: a, instances: 17}\n" MODELS TENANTS, "instances is 17"},
      {HEAD NODES "models:\n  - {name: m, times: []}\n" TENANTS, "s.yaml"},
      {HEAD NODES "models:\n  - {name: m, times: [{kind: c, mean_ms: 5}]}\n" TENANTS, "no kind of nodes named c"},
      {HEAD NODES "models:\n  - {name: m, times: [{kind: a, mean_ms: 0}]}\n" TENANTS, "mean_ms is 0"},
      {HEAD NODES "models:\n  - {name: m, times: [{kind: a}]}\n" TENANTS, "mean_ms"},
      {HEAD NODES "models:\n  - {name: m, max_batch: 2, times: [{kind: a, mean_ms: 5}]}\n" TENANTS,
       "no time of 2 rows"},
      {HEAD NODES "models:\n  - {name: m, max_batch: 65, times: [{kind: a, mean_ms: 5}]}\n" TENANTS, "max_batch is 65"},
      {HEAD NODES "models:\n  - {name: m, plan_rows: 2, times: [{kind: a, mean_ms: 5}]}\n" TENANTS, "plan_rows is 2"},
      {HEAD NODES "models:\n  - {name: m, least: 3, most: 2, times: [{kind: a, mean_ms: 5}]}\n" TENANTS, "most is 2"},
      {HEAD NODES "models:\n  - {name: m, times: [{kind: a, mean_ms: 5}, {kind: a, mean_ms: 6}]}\n" TENANTS, "twice"},
      {HEAD NODES "models:\n  - {name: m, private_to: x, times: [{kind: a, mean_ms: 5}]}\n" TENANTS, "tenant named x"},
      {HEAD NODES MODELS "tenants:\n  - {name: t, model: n, rate: 1}\n", "line 8: there is no model named n"},
      {HEAD NODES MODELS "tenants:\n  - {name: t, model: m}\n", "rate is 0"},
      {HEAD NODES MODELS "tenants:\n  - {name: t, model: m, rate: 1e9}\n", "requests"},
      {HEAD NODES MODELS "tenants:\n  - {name: t, model: m, rate: 1, priority: 10}\n", "priority is 10"},
      {HEAD NODES MODELS "tenants:\n  - {name: t, model: m, rate: 1, arrivals: never}\n", "never"},
      {HEAD NODES MODELS "tenants:\n  - {name: t, model: m, rate: 1, burstiness: 0.5}\n", "burstiness is 0.5"},
      {HEAD NODES MODELS TENANTS "events:\n  - {at_s: 1, event: lost, node: 4}\n", "line 10: node is 4"},
      {HEAD NODES MODELS TENANTS "events:\n  - {at_s: 500, event: lost, node: 1}\n", "line 10: at_s is 500"},
      {HEAD NODES MODELS TENANTS "events:\n  - {at_s: 1, event: lost, node: -1}\n", "line 10: node is -1"},
      {HEAD NODES MODELS TENANTS "events:\n  - {at_s: 1, event: lost, node: 2, count: 3}\n", "count is 3"},
      {HEAD NODES MODELS TENANTS "events:\n  - {at_s: 1, event: slow, factor: 0.001}\n", "factor is 0.001"},
      {HEAD NODES MODELS TENANTS "events:\n  - {at_s: 1, event: rate, rate: 5}\n", "no tenant named"},
      {HEAD NODES MODELS TENANTS "events:\n  - {at_s: 1, event: melted}\n", "melted"},
      {HEAD NODES MODELS TENANTS "events:\n  - {at_s: 1, event: cap, watts: -1}\n", "watts is -1"},
  };
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    braid_scenario *s;
    braid_status status = braid_scenario_parse("s.yaml", kCases[i].text, strlen(kCases[i].text), &s);
    if (status != BRAID_INVALID_FILE || s || !strstr(braid_error_detail(), kCases[i].says))
      fail_msg("case %zu: %s, \"%s\", not \"%s\"", i, braid_status_text(status), braid_error_detail(), kCases[i].says);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_defaults), cmocka_unit_test(test_refusals)};
  return skip_run_group_tests(tests, NULL, NULL);
}
