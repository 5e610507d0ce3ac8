/* The ends of plans: inputs and outputs in the layouts of the caller's memory, and runs in the caller's thread. What is
 * computed over images with channels last and filters with channels last is what plain memory gives, reordered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "braid/plan.h"
#include "runtime/execution/execution_fixture.h"

enum { kMost = 3 };

/* One node, its operands, and which of them are images or filters. */
typedef struct ends_case {
  const char *op;
  size_t inputs;
  int64_t dims[kMost][4];
  const char *layouts[kMost], *result;
  struct {
    const char *name;
    int64_t values[4];
    size_t count;
  } attrs[4];
} ends_case;

static const ends_case kCases[] = {
    {"Conv", 2, {{2, 3, 9, 8}, {16, 3, 3, 3}}, {"BHWC", "cdba"}, "BHWC", {{"pads", {1, 1, 1, 1}, 4}}},
    {"Conv", 2, {{1, 32, 14, 14}, {32, 32, 3, 3}}, {"BHWC", "cdba"}, "BHWC", {{"pads", {1, 1, 1, 1}, 4}}},
    {"Conv", 2, {{1, 64, 7, 7}, {32, 64, 1, 1}}, {"BHWC", "cdba"}, "BHWC", {{NULL}}},
    {"Conv", 2, {{2, 24, 9, 9}, {24, 1, 3, 3}}, {"BHWC", "cdba"}, "BHWC", {{"group", {24}, 0}}},
    {"Conv", 2, {{2, 3, 9, 8}, {16, 3, 3, 3}}, {"plain", "cdba"}, "BHWC", {{NULL}}},
    {"ConvGradInput", 2, {{2, 16, 7, 6}, {16, 5, 3, 3}}, {"BHWC", "cdba"}, "BHWC", {{"input_shape", {9, 8}, 2}}},
    {"ConvGradFilter", 2, {{2, 5, 9, 8}, {2, 16, 7, 6}}, {"BHWC", "BHWC"}, "cdba", {{"kernel_shape", {3, 3}, 2}}},
    {"MaxPool", 1, {{2, 16, 9, 8}}, {"BHWC"}, "BHWC", {{"kernel_shape", {3, 3}, 2}, {"strides", {2, 2}, 2}}},
    {"MaxPool", 1, {{2, 45, 9, 8}}, {"BHWC"}, "BHWC", {{"kernel_shape", {3, 2}, 2}, {"pads", {1, 1, 1, 0}, 4}}},
    {"AveragePool", 1, {{2, 45, 9, 8}}, {"BHWC"}, "BHWC", {{"kernel_shape", {3, 2}, 2}, {"pads", {1, 1, 1, 0}, 4}}},
    {"AveragePool", 1, {{2, 6, 9, 8}}, {"BHWC"}, "BHWC", {{"kernel_shape", {3, 2}, 2}}},
    {"AveragePoolGrad",
     1,
     {{2, 45, 7, 7}},
     {"BHWC"},
     "BHWC",
     {{"kernel_shape", {3, 2}, 2}, {"input_shape", {9, 8}, 2}}},
    {"Relu", 1, {{2, 45, 7, 7}}, {"BHWC"}, "BHWC", {{NULL}}},
    {"Add", 2, {{2, 5, 7, 7}, {2, 5, 7, 7}}, {"BHWC", "plain"}, "BHWC", {{NULL}}},
    {"LRN", 1, {{2, 12, 5, 4}}, {"BHWC"}, "BHWC", {{"size", {5}, 0}}},
};

/* Where element (i, j, k, l) lies. */
static int64_t place_of(const char *layout, const int64_t *dims, const int64_t *at) {
  static const int kOrders[][4] = {{0, 1, 2, 3}, {0, 2, 3, 1}, {2, 3, 1, 0}};
  const int *order = kOrders[strcmp(layout, "BHWC") == 0 ? 1 : strcmp(layout, "cdba") == 0 ? 2 : 0];
  int64_t place = 0;
  for (int i = 0; i < 4; i++) place = place * dims[order[i]] + at[order[i]];
  return place;
}

static void reorder(const char *layout, const int64_t *dims, const float *plain, float *out) {
  for (int64_t i = 0, at = 0; i < dims[0]; i++)
    for (int64_t j = 0; j < dims[1]; j++)
      for (int64_t k = 0; k < dims[2]; k++)
        for (int64_t l = 0; l < dims[3]; l++) out[place_of(layout, dims, (const int64_t[]){i, j, k, l})] = plain[at++];
}

static braid_graph *ends_graph(const ends_case *c) {
  braid_graph *graph;
  braid_value_id inputs[kMost], result;
  braid_node_id node;
  OK(braid_graph_create(NULL, c->op, &graph));
  for (size_t i = 0; i < c->inputs; i++) {
    braid_desc desc;
    OK(braid_desc_init(&desc, BRAID_F32, 4, c->dims[i]));
    OK(braid_graph_add_input(graph, NULL, &desc, &inputs[i]));
  }
  OK(braid_graph_add_node(graph, c->op, "node", inputs, c->inputs, &result, 1, &node));
  for (size_t i = 0; i < 4 && c->attrs[i].name; i++) {
    if (c->attrs[i].count)
      OK(braid_graph_set_ints(graph, node, c->attrs[i].name, c->attrs[i].values, c->attrs[i].count));
    else
      OK(braid_graph_set_int(graph, node, c->attrs[i].name, c->attrs[i].values[0]));
  }
  OK(braid_graph_add_output(graph, result));
  return graph;
}

static braid_plan *ends_plan(braid_machine *machine, const ends_case *c, bool laid_out) {
  braid_plan *plan;
  braid_layout inputs[kMost], output;
  braid_graph *graph = ends_graph(c);
  for (size_t i = 0; i < c->inputs; i++) OK(braid_layout_parse(c->layouts[i], &inputs[i]));
  OK(braid_layout_parse(c->result, &output));
  braid_plan_options options = {.callers_thread = true};
  if (laid_out) options.input_layouts = inputs, options.output_layouts = &output;
  OK(braid_plan_create(machine, graph, &options, &plan));
  braid_graph_destroy(graph);
  return plan;
}

static void run_plan(braid_plan *plan, const void *const *inputs, float *output) {
  braid_execution *execution;
  OK(braid_execution_create(plan, NULL, &execution));
  OK(braid_execution_run(execution, inputs, (void *const[]){output}));
  OK(braid_execution_run(execution, inputs, (void *const[]){output}));
  braid_execution_destroy(execution);
}

static void check_case(braid_machine *machine, const ends_case *c) {
  braid_plan *plain = ends_plan(machine, c, false), *laid = ends_plan(machine, c, true);
  float *inputs[2 * kMost] = {NULL};
  for (size_t i = 0; i < c->inputs; i++) {
    const int64_t *dims = c->dims[i];
    size_t count = (size_t)(dims[0] * dims[1] * dims[2] * dims[3]);
    inputs[i] = braid_zalloc_array(NULL, count, sizeof(float));
    inputs[kMost + i] = braid_zalloc_array(NULL, count, sizeof(float));
    fill(inputs[i], count, (int)i + 1);
    reorder(c->layouts[i], dims, inputs[i], inputs[kMost + i]);
  }
  const braid_desc *result = braid_plan_output(plain, 0);
  size_t count = (size_t)braid_desc_count(result);
  float *want = braid_zalloc_array(NULL, count, sizeof *want), *given = braid_zalloc_array(NULL, count, sizeof *given),
        *ordered = braid_zalloc_array(NULL, count, sizeof *ordered);
  run_plan(plain, (const void *const *)inputs, want);
  run_plan(laid, (const void *const *)(inputs + kMost), given);
  reorder(c->result, result->dims, want, ordered);
  for (size_t i = 0; i < count; i++)
    if (!(fabsf(ordered[i] - given[i]) <= 1e-4f * (1 + fabsf(ordered[i]))))
      fail_msg("%s: element %zu is %g, not %g", c->op, i, (double)given[i], (double)ordered[i]);
  for (size_t i = 0; i < 2 * kMost; i++) braid_free(NULL, inputs[i]);
  braid_free(NULL, want);
  braid_free(NULL, given);
  braid_free(NULL, ordered);
  braid_plan_release(plain);
  braid_plan_release(laid);
}

static void test_layouts(void **state) {
  (void)state;
  const char *const kMachines[] = {"cpu", "cpu:threads=1", "cpu:memory=separate"};
  for (size_t m = 0; m < 3; m++) {
    braid_machine *machine = open_machine(kMachines[m]);
    for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) check_case(machine, &kCases[i]);
    braid_machine_release(machine);
  }
}

static size_t count_conversions(const braid_plan *plan) {
  size_t count = 0;
  for (size_t i = 0; i < braid_plan_line_count(plan); i++)
    count += strcmp(braid_plan_get_line(plan, i).op, "LayoutConvert") == 0;
  return count;
}

/* Pools and convolutions work where images with channels last lie. */
static void test_in_place(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu");
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    const ends_case *c = &kCases[i];
    bool pool = strstr(c->op, "Pool") && c->dims[0][1] >= 16, last = strcmp(c->layouts[0], "BHWC") == 0;
    if (!pool && strcmp(c->op, "Relu") != 0) continue;
    braid_plan *plan = ends_plan(machine, c, true);
    assert_true(last);
    if (count_conversions(plan) != 0) fail_msg("%s is converted", c->op);
    braid_plan_release(plan);
  }
  braid_machine_release(machine);
}

static void test_refused(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu");
  braid_graph *graph = ends_graph(&kCases[0]);
  braid_plan *plan;
  const braid_layout blocked[] = {BRAID_LAYOUT_BLOCKED16, BRAID_LAYOUT_PLAIN}, none[] = {1, 0};
  assert_int_equal(braid_plan_create(machine, graph, &(braid_plan_options){.input_layouts = blocked}, &plan),
                   BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "the layout of input 0"));
  assert_int_equal(braid_plan_create(machine, graph, &(braid_plan_options){.output_layouts = none}, &plan),
                   BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "the layout of output 0"));
  const braid_layout last[] = {BRAID_LAYOUT_BHWC};
  void *data;
  size_t bytes;
  OK(braid_plan_create(machine, graph, &(braid_plan_options){.output_layouts = last}, &plan));
  assert_int_equal(braid_plan_encode(plan, graph, NULL, &data, &bytes), BRAID_UNSUPPORTED);
  braid_plan_release(plan);
  braid_graph_destroy(graph);
  braid_machine_release(machine);
}

/* A plan that asked for the caller's thread is loaded as it was saved. */
static void test_saved(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu");
  braid_graph *graph = ends_graph(&(ends_case){"Relu", 1, {{8, 64, 64, 64}}, {"plain"}, "plain", {{NULL}}});
  braid_plan *plan, *loaded;
  void *data;
  size_t bytes;
  OK(braid_plan_create(machine, graph, &(braid_plan_options){.callers_thread = true}, &plan));
  OK(braid_plan_encode(plan, graph, NULL, &data, &bytes));
  OK(braid_plan_decode(machine, graph, data, bytes, &loaded));
  braid_free(NULL, data);
  braid_plan_release(plan);
  braid_plan_release(loaded);
  braid_graph_destroy(graph);
  braid_machine_release(machine);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_layouts), cmocka_unit_test(test_in_place),
                                     cmocka_unit_test(test_refused), cmocka_unit_test(test_saved)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
