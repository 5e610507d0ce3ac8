/* What devices offer and what is made of it: fusion knows the device, kernels that a user brought come first, measured
 * times reach the next plan. The device is the CPU with only those kernels that a case leaves it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "braid/session.h"
#include "runtime/execution/execution_fixture.h"

/* --- the device ----------------------------------------------------------------------------------------------------
 */
static const char *kept;        /* " Conv Relu ": ops that it has kernels for */
static const char *brought_for; /* the op whose kernels count as brought by the user */

static const braid_kernel *const *limited_kernels(void *self, size_t *count) {
  static const braid_kernel *kernels[1024];
  size_t all;
  const braid_kernel *const *from = braid_backend_cpu.kernels(self, &all);
  *count = 0;
  for (size_t i = 0; i < all && *count < 1024; i++) {
    char name[64];
    snprintf(name, sizeof name, " %s ", from[i]->op);
    if (strstr(kept, name)) kernels[(*count)++] = from[i];
  }
  return kernels;
}

static bool limited_brought(void *self, const braid_kernel *kernel) {
  (void)self;
  return strcmp(kernel->op, brought_for) == 0;
}

static braid_registry *open_registry(const char *ops, const char *brought) {
  braid_backend limited = renamed_cpu("limited");
  kept = ops;
  brought_for = brought;
  limited.kernels = limited_kernels;
  limited.brought = limited_brought;
  return registry_with(&limited);
}

/* --- the graph -----------------------------------------------------------------------------------------------------
 */
static braid_value_id constant(braid_graph *graph, int rank, const int64_t *dims) {
  return add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, rank, dims, 1.0f / 16);
}

static braid_value_id add(braid_graph *graph, const char *op, const char *name, const braid_value_id *inputs,
                          size_t count) {
  braid_value_id out;
  OK(braid_graph_add_node(graph, op, name, inputs, count, &out, 1, NULL));
  return out;
}

/* conv, sum (with the input), relu; flat; gemm, sigmoid. */
static braid_graph *make_graph(void) {
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x, y;
  OK(braid_graph_create(NULL, "offers", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){1, 4, 5, 5}));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  braid_value_id w = constant(graph, 4, (int64_t[]){4, 4, 1, 1}), v = constant(graph, 2, (int64_t[]){100, 3});
  y = add(graph, "Conv", "conv", (braid_value_id[]){x, w}, 2);
  y = add(graph, "Add", "sum", (braid_value_id[]){y, x}, 2);
  y = add(graph, "Relu", "relu", &y, 1);
  y = add(graph, "Flatten", "flat", &y, 1);
  y = add(graph, "Gemm", "gemm", (braid_value_id[]){y, v}, 2);
  y = add(graph, "Sigmoid", "sigmoid", &y, 1);
  OK(braid_graph_add_output(graph, y));
  return graph;
}

/* "op@device op@device", without conversions. */
static const char *plan_of(const braid_session *session) {
  static char text[512];
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < braid_session_plan_count(session); i++) {
    braid_plan_line line = braid_session_plan(session, i);
    if (strcmp(line.op, "LayoutConvert") == 0) continue;
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s@%s", used ? " " : "", line.op, line.device);
  }
  return text;
}

static void run_graph(const braid_graph *graph, const braid_session_options *options, const char *expected,
                      float out[3]) {
  float x[100];
  braid_session *session;
  for (int i = 0; i < 100; i++) x[i] = (float)(i % 9 - 4) / 8;
  OK(braid_session_create(graph, options, &session));
  if (expected) assert_string_equal(plan_of(session), expected);
  OK(braid_session_run(session, (const void *[]){x}, (void *[]){out}));
  braid_session_destroy(session);
}

static void test_fusion_knows_the_device(void **state) {
  (void)state;
  static const struct {
    const char *ops, *brought, *devices, *plan;
  } cases[] = {
      /* no fused kernels: what the device has, it keeps */
      {" Conv Add Relu LayoutConvert ", "", "limited cpu", "Conv@limited Add@limited Relu@limited FusedGemm@cpu"},
      {" Conv Relu LayoutConvert ", "", "limited cpu", "Conv@limited Add@cpu Relu@limited FusedGemm@cpu"},
      {" Relu LayoutConvert ", "", "limited cpu", "FusedConv@cpu Relu@limited FusedGemm@cpu"},
      /* fused ones alone */
      {" FusedConv FusedGemm LayoutConvert ", "", "limited cpu", "FusedConv@limited FusedGemm@limited"},
      {" FusedConv FusedGemm LayoutConvert ", "", "limited", "FusedConv@limited FusedGemm@limited"},
      /* a part without the fused kernel costs the other nothing */
      {" Conv Add Relu FusedGemm LayoutConvert ", "", "limited",
       "Conv@limited Add@limited Relu@limited FusedGemm@limited"},
      {" Conv Add Relu Gemm Sigmoid FusedConv LayoutConvert ", "", "limited",
       "FusedConv@limited Gemm@limited Sigmoid@limited"},
      {" Conv Add Relu FusedConv FusedGemm LayoutConvert ", "", "cpu limited", "FusedConv@cpu FusedGemm@cpu"},
      /* what the user brought is not fused away */
      {" Conv Add Relu FusedConv FusedGemm LayoutConvert ", "Conv", "limited",
       "Conv@limited Add@limited Relu@limited FusedGemm@limited"},
      {" Conv Add Relu FusedConv FusedGemm LayoutConvert ", "Relu", "limited",
       "FusedConv@limited Relu@limited FusedGemm@limited"},
  };
  braid_graph *graph = make_graph();
  float expected[3];
  run_graph(graph, &(braid_session_options){.devices = "cpu", .no_fusion = true}, NULL, expected);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    float out[3];
    braid_registry *registry = open_registry(cases[i].ops, cases[i].brought);
    run_graph(graph, &(braid_session_options){.devices = cases[i].devices, .registry = registry}, cases[i].plan, out);
    for (int k = 0; k < 3; k++) assert_float_equal(out[k], expected[k], 1e-5f);
    braid_registry_destroy(registry);
  }
  braid_graph_destroy(graph);
}

static void test_nobody_can(void **state) {
  (void)state;
  braid_graph *graph = make_graph();
  braid_registry *registry = open_registry(" Conv Relu Gemm Sigmoid LayoutConvert ", "");
  braid_session_options options = {.devices = "limited", .registry = registry};
  braid_session *session;
  assert_int_equal(braid_session_create(graph, &options, &session), BRAID_UNSUPPORTED);
  assert_string_equal(braid_error_detail(), "node sum (Add): no device can run it: limited has no kernel for Add");
  braid_registry_destroy(registry);
  braid_graph_destroy(graph);
}

/* --- what is told --------------------------------------------------------------------------------------------------
 */
static void test_offers_are_kept(void **state) {
  (void)state;
  braid_graph *graph = make_graph();
  braid_registry *registry = open_registry(" Conv Relu Gemm LayoutConvert ", "");
  braid_session_options options = {.devices = "limited cpu", .registry = registry, .explain = true};
  for (int automatic = 0; automatic < 2; automatic++) {
    braid_session *session;
    options.place = automatic ? "auto" : NULL;
    OK(braid_session_create(graph, &options, &session));
    size_t unable = 0;
    for (size_t i = 0; i < braid_session_plan_count(session); i++) {
      braid_plan_line line = braid_session_plan(session, i);
      size_t count = braid_session_offer_count(session, i), chosen = 0;
      if (strcmp(line.op, "LayoutConvert") == 0) {
        assert_int_equal(count, 0);
        continue;
      }
      assert_true(count > 1);
      for (size_t k = 0; k < count; k++) {
        braid_plan_offer offer = braid_session_offer(session, i, k);
        assert_string_not_equal(offer.why, "");
        assert_string_not_equal(offer.nodes, "");
        assert_int_equal(offer.able, offer.us >= 0);
        assert_false(offer.measured);
        unable += !offer.able;
        if (!offer.chosen) continue;
        chosen++;
        assert_string_equal(offer.kernel, line.kernel);
        assert_string_equal(offer.device, line.device);
        assert_string_equal(offer.op, line.op);
      }
      assert_int_equal(chosen, 1);
    }
    assert_true(unable > 0); /* limited has no kernel for Add, for Sigmoid, for FusedConv */
    assert_string_equal(braid_session_offer(session, 1000, 0).device, "");
    braid_session_destroy(session);
  }
  options.explain = false;
  braid_session *session;
  OK(braid_session_create(graph, &options, &session));
  assert_int_equal(braid_session_offer_count(session, 0), 0);
  braid_session_destroy(session);
  braid_registry_destroy(registry);
  braid_graph_destroy(graph);
}

/* Why the device's offer of this op was not taken, in the task of `node`. */
static const char *reason_of(const braid_session *session, const char *node, const char *device, const char *op) {
  for (size_t i = 0; i < braid_session_plan_count(session); i++) {
    braid_plan_line line = braid_session_plan(session, i);
    for (size_t k = 0; strcmp(line.node, node) == 0 && k < braid_session_offer_count(session, i); k++) {
      braid_plan_offer offer = braid_session_offer(session, i, k);
      if (strcmp(offer.device, device) == 0 && strcmp(offer.op, op) == 0) return offer.able ? offer.why : "unable";
    }
  }
  return "not offered";
}

/* The reason is what decided: a fused node falls with the part that an earlier device takes, whatever it would take. */
static void test_reasons(void **state) {
  (void)state;
  static const struct {
    const char *ops, *devices, *node, *device, *op, *why;
  } cases[] = {
      {" Conv Relu Gemm LayoutConvert ", "limited cpu", "conv", "cpu", "Conv", "an earlier device can"},
      {" Conv Relu Gemm LayoutConvert ", "limited cpu", "conv", "cpu", "FusedConv", "conv runs on limited"},
      {" Conv Relu Gemm LayoutConvert ", "limited cpu", "sum", "cpu", "FusedConv", "conv runs on limited"},
      {" Conv Relu Gemm LayoutConvert ", "limited cpu", "relu", "cpu", "FusedConv", "relu runs on limited"},
      {" Conv Relu Gemm LayoutConvert ", "limited cpu", "sigmoid", "cpu", "FusedGemm", "gemm runs on limited"},
      {" Gemm LayoutConvert ", "limited cpu", "sigmoid", "cpu", "FusedGemm", "gemm runs on limited"},
      {" Gemm LayoutConvert ", "limited cpu", "relu", "cpu", "Conv", "part of what was taken"},
      {" Gemm LayoutConvert ", "cpu limited", "sigmoid", "limited", "Gemm", "an earlier device can"},
      {" Conv LayoutConvert ", "limited cpu", "sigmoid", "limited", "Gemm", "unable"},
  };
  braid_graph *graph = make_graph();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_registry *registry = open_registry(cases[i].ops, "");
    braid_session *session;
    braid_session_options options = {.devices = cases[i].devices, .registry = registry, .explain = true};
    OK(braid_session_create(graph, &options, &session));
    assert_string_equal(reason_of(session, cases[i].node, cases[i].device, cases[i].op), cases[i].why);
    braid_session_destroy(session);
    braid_registry_destroy(registry);
  }
  braid_graph_destroy(graph);
}

/* The number of offers that had been measured; which is chosen depends on what they took. */
static size_t count_measured(const braid_plan *plan) {
  size_t measured = 0;
  for (size_t i = 0; i < braid_plan_line_count(plan); i++)
    for (size_t k = 0; k < braid_plan_offer_count(plan, i); k++) {
      braid_plan_offer offer = braid_plan_get_offer(plan, i, k);
      measured += offer.measured;
      if (offer.measured) assert_true(offer.us > 0);
    }
  return measured;
}

static void test_measured_times_reach_the_next_plan(void **state) {
  (void)state;
  static const int kRuns[] = {1, 4, 40};
  for (size_t r = 0; r < sizeof kRuns / sizeof *kRuns; r++) {
    braid_graph *graph = make_graph();
    braid_machine *machine;
    braid_plan *plan;
    braid_execution *execution;
    braid_plan_options options = {.place = "auto", .explain = true};
    float x[100] = {0}, y[3];
    OK(braid_machine_create(NULL, &(braid_machine_options){.devices = "cpu cpu"}, &machine));
    OK(braid_plan_create(machine, graph, &options, &plan));
    assert_int_equal(count_measured(plan), 0);
    OK(braid_execution_create(plan, NULL, &execution));
    for (int i = 0; i < kRuns[r]; i++) OK(braid_execution_run(execution, (const void *[]){x}, (void *[]){y}));
    braid_plan *next;
    if (kRuns[r] >= 40) { /* while it lives */
      OK(braid_plan_create(machine, graph, &options, &next));
      assert_true(count_measured(next) > 0);
      braid_plan_release(next);
    }
    braid_execution_destroy(execution);
    OK(braid_plan_create(machine, graph, &options, &next));
    size_t measured = count_measured(next);
    if (kRuns[r] == 1)
      assert_int_equal(measured, 0); /* one run finds everything cold */
    else
      assert_true(measured > 0);
    braid_plan_release(next);
    braid_plan_release(plan);
    braid_machine_release(machine);
    braid_graph_destroy(graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fusion_knows_the_device),
      cmocka_unit_test(test_nobody_can),
      cmocka_unit_test(test_offers_are_kept),
      cmocka_unit_test(test_reasons),
      cmocka_unit_test(test_measured_times_reach_the_next_plan),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
