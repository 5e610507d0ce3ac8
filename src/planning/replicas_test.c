/* Data parallel steps whose times are known by hand: two replicas, gradients exchanged one by one or together. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/graph.h"
#include "oom.h"
#include "planning/machine.h"
#include "planning/replicas.h"

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static void assert_near(double got, double expected) {
  if (!(fabs(got - expected) <= 1e-9 * fabs(expected))) fail_msg("%.12g, expected %.12g", got, expected);
}

static void write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

/* Two GPUs that work in the host's memory, whose operations all take 1 ms at 10 W. */
static braid_modelled_machine *machine_of(const char *exchange) {
  char folder[] = "/tmp/braid-replicas-XXXXXX", platform[64], profile[64], text[512];
  braid_modelled_machine *machine;
  assert_non_null(mkdtemp(folder));
  snprintf(platform, sizeof platform, "%s/m.yaml", folder);
  snprintf(profile, sizeof profile, "%s/p.yaml", folder);
  snprintf(text, sizeof text,
           "name: m\nprofile: p.yaml\n%sdevices:\n  - {name: a, class: gpu, profile: d, idle_watts: 1, count: 2}\n",
           exchange);
  write_file(platform, text);
  write_file(profile, "source: s\nlaunch_ms: 1\nothers: Relu\nrows:\n"
                      "  - {device: d, op: Relu, bytes: 1e9, ms: 0.001, average_watts: 10, peak_watts: 10}\n");
  ok(braid_modelled_machine_load(NULL, platform, &machine));
  unlink(platform);
  unlink(profile);
  rmdir(folder);
  return machine;
}

static braid_value_id relu(braid_graph *graph, braid_value_id x) {
  braid_value_id y = 0;
  ok(braid_graph_add_node(graph, "Relu", NULL, &x, 1, &y, 1, NULL));
  return y;
}

/* A chain of four operations, whose second and fourth give the gradients of 4,000 bytes each; two updates. */
static braid_graph *step_of_two(void) {
  braid_graph *graph;
  braid_desc desc, scalar = {.dtype = BRAID_F32};
  braid_value_id x, rate, gradients[2];
  ok(braid_graph_create(NULL, "two", &graph));
  ok(braid_desc_init(&desc, BRAID_F32, 1, &(int64_t){1000}));
  ok(braid_graph_add_input(graph, "x", &desc, &x));
  ok(braid_graph_add_input(graph, "rate", &scalar, &rate));
  gradients[0] = relu(graph, relu(graph, x));
  gradients[1] = relu(graph, relu(graph, gradients[0]));
  for (int i = 0; i < 2; i++) {
    braid_tensor *tensor;
    braid_value_id parameter, next = 0;
    ok(braid_tensor_create(NULL, &desc, &tensor));
    memset(braid_tensor_data(tensor), 0, braid_desc_bytes(&desc));
    ok(braid_graph_add_tensor(graph, i ? "w1" : "w0", BRAID_VALUE_PARAMETER, tensor, &parameter));
    braid_tensor_release(tensor);
    ok(braid_graph_add_node(graph, "SgdUpdate", NULL, (braid_value_id[]){parameter, gradients[i], rate}, 3, &next, 1,
                            NULL));
    ok(braid_graph_update_state(graph, parameter, next));
  }
  ok(braid_graph_infer(graph, NULL));
  return graph;
}

static braid_forecast_summary planned(const char *exchange, int64_t replicas, const char *policy) {
  braid_modelled_machine *machine = machine_of(exchange);
  braid_graph *graph = step_of_two();
  braid_forecast *forecast;
  braid_forecast_options how = {.policy = policy, .cap_watts = INFINITY, .replicas = replicas};
  ok(braid_forecast_create(graph, machine, &how, NULL, &forecast));
  braid_forecast_summary summary = braid_forecast_get_summary(forecast);
  braid_forecast_destroy(forecast);
  braid_graph_destroy(graph);
  braid_modelled_machine_destroy(machine);
  return summary;
}

/* A ring of two sends half of the bytes twice: 2 * (0.25 + 2,000 / 4e6 s) = 1.5 ms for one gradient, 2.5 ms for both.
 */
#define RING "exchange: {latency_ms: 0.25, gigabytes_per_second: 0.004, watts: 4, bucket_megabytes: "

static void test_gradients_one_by_one(void **state) {
  (void)state;
  static const char *const kPolicies[] = {"gpu-only", "hybrid-energy", "heft", "slack-energy"};
  for (size_t i = 0; i < 4; i++) {
    braid_forecast_summary s = planned(RING "0.004}\n", 2, kPolicies[i]);
    /* The first exchange, 2 to 3.5 ms, is hidden; the second one, 4 to 5.5 ms, is not. */
    assert_near(s.seconds, 6.5e-3);
    assert_int_equal(s.tasks, 2 * 6 + 2);
    /* Each GPU is busy for 6 ms at 10 W and idle for 0.5 ms at 1 W; exchanges draw 4 W for 3 ms. */
    assert_near(s.joules, 2 * (0.060 + 0.0005) + 0.012);
    assert_near(s.peak_watts, 24);
  }
}

static void test_gradients_together(void **state) {
  (void)state;
  braid_forecast_summary s = planned(RING "0.008}\n", 2, "gpu-only");
  assert_near(s.seconds, (4 + 2.5 + 2) * 1e-3); /* nothing is hidden */
  assert_int_equal(s.tasks, 2 * 6 + 1);
}

/* Without an exchange both GPUs share one step. */
static void test_one_step_for_all(void **state) {
  (void)state;
  assert_near(planned("", 1, "gpu-only").seconds, 5e-3);
  assert_near(planned(RING "0.008}\n", 0, "gpu-only").seconds, 5e-3);
}

static void test_unknown_power(void **state) {
  (void)state;
  braid_forecast_summary s = planned("exchange: {gigabytes_per_second: 1}\n", 2, "gpu-only");
  assert_true(s.seconds > 0 && isnan(s.joules) && isnan(s.peak_watts));
}

static void test_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *said;
  } cases[] = {
      {"exchange: {gigabytes_per_second: 1}\ndevices:\n  - {name: a, class: gpu, profile: d}\n",
       "line 3: an exchange of gradients, and not more than one GPU"},
      {"exchange: {latency_ms: 1}\ndevices:\n  - {name: a, class: gpu, profile: d, count: 2}\n",
       "gigabytes_per_second"},
      {"exchange: {gigabytes_per_second: 0}\ndevices:\n  - {name: a, class: gpu, profile: d, count: 2}\n",
       "gigabytes_per_second is 0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[256];
    braid_machine_file *file;
    snprintf(text, sizeof text, "name: m\nprofile: p\n%s", cases[i].text);
    assert_int_equal(braid_machine_file_parse("m.yaml", text, strlen(text), &file), BRAID_INVALID_FILE);
    if (!strstr(braid_error_detail(), cases[i].said)) fail_msg("%s: %s", cases[i].said, braid_error_detail());
  }
  braid_modelled_machine *machine = machine_of(RING "1}\n");
  braid_graph *graph = step_of_two();
  braid_forecast *forecast;
  assert_int_equal(braid_forecast_create(graph, machine, &(braid_forecast_options){.policy = "gpu-only", .replicas = 3},
                                         NULL, &forecast),
                   BRAID_INVALID_ARGUMENT);
  braid_graph_destroy(graph);
  braid_modelled_machine_destroy(machine);
}

static braid_status forecast_step(const braid_allocator *allocator, void *context) {
  braid_modelled_machine *machine;
  braid_forecast *forecast;
  braid_status status = braid_modelled_machine_load(allocator, "v100x2-s10x6", &machine);
  if (status != BRAID_OK) return status;
  braid_forecast_options how = {.policy = "hybrid-energy", .cap_watts = INFINITY, .replicas = 2};
  status = braid_forecast_create(context, machine, &how, allocator, &forecast);
  braid_forecast_destroy(forecast);
  braid_modelled_machine_destroy(machine);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  braid_graph *graph = step_of_two();
  assert_true(oom_sweep(forecast_step, graph) > 10);
  braid_graph_destroy(graph);
}

static void test_ring(void **state) {
  (void)state;
  assert_near(braid_ring_seconds(4, 100e6, 1e-3, 10e9), 6 * (1e-3 + 2.5e-3));
  assert_near(braid_ring_seconds(2, 8000, 0, 8000), 1);
  assert_true(braid_ring_seconds(1, 100e6, 1e-3, 10e9) == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gradients_one_by_one),
      cmocka_unit_test(test_gradients_together),
      cmocka_unit_test(test_one_step_for_all),
      cmocka_unit_test(test_unknown_power),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_ring),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
