/* Small inputs come first and small outputs go together, so that few steps wait: what of a plan waits for what, and on
 * random graphs over several devices that results do not change and that every plan holds (plan_check.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/philox.h"
#include "braid/session.h"
#include "graph/graph.h"
#include "runtime/surface/session.h"

#define OK(expression)                                                                                                 \
  do {                                                                                                                 \
    braid_status ok_status_ = (expression);                                                                            \
    if (ok_status_ != BRAID_OK) fail_msg("%s: %s", braid_status_text(ok_status_), braid_error_detail());               \
  } while (0)

enum { kLarge = 20000 }; /* elements: more than is small */

static braid_value_id add_input(braid_graph *graph, const char *name, int64_t count) {
  braid_value_id id;
  OK(braid_graph_add_input(graph, name, &(braid_desc){.dtype = BRAID_F32, .rank = 1, .dims = {count}}, &id));
  return id;
}

static braid_value_id add(braid_graph *graph, const char *op, const char *name, braid_value_id a, braid_value_id b) {
  braid_value_id out = 0;
  OK(braid_graph_add_node(graph, op, name, (braid_value_id[]){a, b}, b < 0 ? 1 : 2, &out, 1, NULL));
  return out;
}

static const braid_step *step_of(const braid_plan *plan, const char *label) {
  for (size_t i = 0; i < plan->steps.count; i++)
    if (strcmp(plan->steps.items[i].label, label) == 0) return &plan->steps.items[i];
  fail_msg("the plan has no step %s", label);
  return NULL;
}

static void expect_wait(const braid_plan *plan, const char *label, const char *other) {
  const braid_step *step = step_of(plan, label), *waited = step_of(plan, other);
  assert_int_equal(step->wait_count, 1);
  assert_true(step->waits[0].queue == waited->queue && step->waits[0].nth == waited->nth);
}

static size_t count_waits(const braid_plan *plan) {
  size_t count = 0;
  for (size_t i = 0; i < plan->steps.count; i++) count += plan->steps.items[i].wait_count;
  return count;
}

/* Like a training step: numbers that kernels in the middle read, and results from the middle. */
static void test_step(void **state) {
  (void)state;
  braid_graph *graph;
  braid_session *session;
  OK(braid_graph_create(NULL, "step", &graph));
  braid_value_id samples = add_input(graph, "samples", kLarge), targets = add_input(graph, "targets", 1);
  braid_value_id rate = add_input(graph, "rate", 1);
  braid_value_id x = add(graph, "Neg", "first", samples, -1);
  braid_value_id axes, loss;
  OK(braid_graph_add_int64s(graph, (int64_t[]){0}, 1, &axes));
  braid_value_id score = add(graph, "ReduceMax", "score", x, axes);
  loss = add(graph, "Sub", "loss", score, targets);
  x = add(graph, "Mul", "middle", x, loss);
  x = add(graph, "Mul", "scaled", x, rate);
  x = add(graph, "Abs", "last", x, -1);
  OK(braid_graph_add_output(graph, loss));
  OK(braid_graph_add_output(graph, score));
  OK(braid_graph_add_output(graph, x));
  OK(braid_session_create(graph, &(braid_session_options){.devices = "cpu:memory=separate", .no_fusion = true},
                          &session));
  const braid_plan *plan = session->plan;
  static const char *const kFirst[] = {"write samples", "write targets", "write rate", "first"};
  for (size_t i = 0; i < 4; i++) assert_string_equal(plan->steps.items[i].label, kFirst[i]);
  expect_wait(plan, "first", "write rate");
  const braid_step *sent = &plan->steps.items[plan->steps.count - 3];
  assert_true(sent[0].kind == BRAID_STEP_READ && sent[1].kind == BRAID_STEP_READ && sent[2].kind == BRAID_STEP_READ);
  expect_wait(plan, sent[0].label, "loss"); /* for the score as well, which the second sends */
  assert_int_equal(sent[1].wait_count, 0);
  expect_wait(plan, sent[2].label, "last");
  assert_int_equal(count_waits(plan), 3);
  static float in[kLarge], out[kLarge];
  float numbers[2] = {3, 0.5f}, results[2];
  for (int i = 0; i < kLarge; i++) in[i] = (float)(i % 100);
  for (int run = 0; run < 3; run++) {
    OK(braid_session_run(session, (const void *[]){in, &numbers[0], &numbers[1]},
                         (void *[]){&results[0], &results[1], out}));
    assert_true(results[0] == -3 && results[1] == 0);
    for (int i = 0; i < kLarge; i++) assert_true(out[i] == 1.5f * in[i]);
  }
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

/* What is not small stays where it is needed, and is sent as soon as it is there. */
static void test_large(void **state) {
  (void)state;
  braid_graph *graph;
  braid_session *session;
  OK(braid_graph_create(NULL, "large", &graph));
  braid_value_id x = add_input(graph, "x", kLarge), y = add_input(graph, "y", kLarge);
  braid_value_id first = add(graph, "Neg", "first", x, -1), second = add(graph, "Add", "second", first, y);
  OK(braid_graph_add_output(graph, first));
  OK(braid_graph_add_output(graph, second));
  OK(braid_session_create(graph, &(braid_session_options){.devices = "cpu:memory=separate", .no_fusion = true},
                          &session));
  const braid_plan *plan = session->plan;
  static const char *const kOrder[] = {"write x", "first", "write y", "second"};
  for (size_t i = 0; i < 4; i++) assert_string_equal(plan->steps.items[i].label, kOrder[i]);
  expect_wait(plan, "first", "write x");
  expect_wait(plan, "second", "write y");
  expect_wait(plan, plan->steps.items[4].label, "first");
  expect_wait(plan, plan->steps.items[5].label, "second");
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

/* --- random graphs -------------------------------------------------------------------------------------------------
 */
enum { kGraphs = 40, kInputs = 5, kMostNodes = 24, kMostOutputs = 12, kRuns = 3 };
static const uint64_t kSeed = 1847;

typedef struct maker {
  braid_graph *graph;
  uint32_t round;
  uint64_t drawn;
  braid_value_id values[kInputs + kMostNodes];
  uint32_t count, outputs;
} maker;

static uint32_t draw(maker *m, uint32_t bound) {
  return braid_random_below(kSeed, m->round, 0, m->drawn++, bound);
}

/* Mostly one of the last, so that chains form. */
static braid_value_id any(maker *m) {
  uint32_t near = m->count < 4 ? m->count : 4;
  return draw(m, 3) ? m->values[m->count - 1 - draw(m, near)] : m->values[draw(m, m->count)];
}

static void maybe_give(maker *m, braid_value_id id) {
  if (m->outputs == kMostOutputs || draw(m, 4)) return;
  OK(braid_graph_add_output(m->graph, id));
  m->outputs++;
}

/* A state that moves by what was computed. */
static braid_value_id with_state(maker *m) {
  braid_tensor *tensor;
  braid_value_id state;
  OK(braid_tensor_create(NULL, &(braid_desc){.dtype = BRAID_F32, .rank = 1, .dims = {1}}, &tensor));
  *(float *)braid_tensor_data(tensor) = 0.25f;
  OK(braid_graph_add_tensor(m->graph, NULL, BRAID_VALUE_STATE, tensor, &state));
  braid_tensor_release(tensor);
  braid_value_id half = add(m->graph, "Sigmoid", NULL, state, -1);
  OK(braid_graph_update_state(m->graph, state, half));
  return add(m->graph, "Add", NULL, any(m), draw(m, 2) ? half : state);
}

/* Values of one element and of many, which one element fits everywhere: inputs of both kinds, read anywhere. */
static braid_graph *make_graph(uint32_t round) {
  static const char *const kUnary[] = {"Neg", "Abs", "Sigmoid", "Tanh"}, *const kBinary[] = {"Add", "Sub", "Max"};
  maker m = {.round = round};
  char name[16];
  OK(braid_graph_create(NULL, "random", &m.graph));
  for (uint32_t i = 0; i < kInputs; i++) {
    snprintf(name, sizeof name, "x%u", i);
    m.values[m.count++] = add_input(m.graph, name, i < 2 ? kLarge : 1);
  }
  uint32_t nodes = 6 + draw(&m, kMostNodes - 6);
  for (uint32_t i = 0; i < nodes; i++) {
    uint32_t kind = draw(&m, 6);
    snprintf(name, sizeof name, "n%u", i);
    braid_value_id made = kind == 0   ? with_state(&m)
                          : kind == 1 ? add(m.graph, kUnary[draw(&m, 4)], name, any(&m), -1)
                                      : add(m.graph, kBinary[draw(&m, 3)], name, any(&m), any(&m));
    m.values[m.count++] = made;
    maybe_give(&m, made);
  }
  OK(braid_graph_add_output(m.graph, m.values[m.count - 1]));
  return m.graph;
}

static float numbers[kInputs][kLarge];

typedef struct results {
  float output[kRuns][kMostOutputs + 1][kLarge];
} results;

/* Each run with other numbers: what an earlier run left must not do. */
static void run_graph(const braid_graph *graph, const braid_session_options *options, results *out) {
  braid_session *session;
  OK(braid_session_create(graph, options, &session));
  size_t inputs = braid_session_input_count(session), outputs = braid_session_output_count(session);
  assert_true(inputs == kInputs && outputs <= kMostOutputs + 1);
  memset(out, 0, sizeof *out);
  for (int run = 0; run < kRuns; run++) {
    const void *in[kInputs];
    void *results_of_run[kMostOutputs + 1];
    for (size_t i = 0; i < kInputs; i++) in[i] = numbers[(i + (size_t)run) % kInputs];
    for (size_t i = 0; i < outputs; i++) results_of_run[i] = out->output[run][i];
    OK(braid_session_run(session, in, results_of_run));
  }
  braid_session_destroy(session);
}

/* Every node on any of the devices. */
static void draw_places(const braid_graph *graph, uint32_t round, uint32_t devices, char *text, size_t bytes) {
  size_t used = 0;
  for (size_t i = 0; i < graph->node_count; i++)
    used += (size_t)snprintf(text + used, bytes - used, "%s%s=%u", i ? " " : "", graph->nodes[i].name,
                             braid_random_below(kSeed, round, 1, i, devices));
  assert_true(used < bytes);
}

static void test_random_graphs(void **state) {
  (void)state;
  static const struct {
    const char *devices;
    uint32_t count;
  } kWays[] = {{"cpu:memory=separate", 1},
               {"cpu cpu:memory=separate", 2},
               {"cpu:memory=separate cpu:memory=separate", 2},
               {"cpu:memory=separate cpu cpu:memory=separate", 3}};
  static char place[4096];
  static results plain, other;
  print_message("seed %llu\n", (unsigned long long)kSeed);
  for (uint32_t i = 0; i < kInputs * kLarge; i++)
    numbers[i / kLarge][i % kLarge] = 2 * braid_random_uniform(kSeed, 0, 2, i) - 1;
  for (uint32_t round = 0; round < kGraphs; round++) {
    braid_graph *graph = make_graph(round);
    run_graph(graph, &(braid_session_options){.no_fusion = true, .no_reuse = true, .threads = 1}, &plain);
    for (size_t w = 0; w < sizeof kWays / sizeof *kWays; w++) {
      draw_places(graph, round, kWays[w].count, place, sizeof place);
      braid_session_options options = {.no_fusion = true, .threads = 1, .devices = kWays[w].devices, .place = place};
      run_graph(graph, &options, &other);
      if (memcmp(&plain, &other, sizeof plain) != 0) fail_msg("graph %u on %s: other results", round, kWays[w].devices);
    }
    braid_graph_destroy(graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_step), cmocka_unit_test(test_large),
                                     cmocka_unit_test(test_random_graphs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
