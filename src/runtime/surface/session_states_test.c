/* Parameters and states of sessions: from step to step, read and written from outside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "runtime/surface/session_fixture.h"

/* a, b <- b, a + x: each takes the other's old value; c <- c + a (the old one), and the old c is an output. */
static braid_graph *state_graph(void) {
  braid_graph *graph = new_graph();
  braid_value_id x = input(graph, "x");
  braid_value_id a = kept(graph, "a", BRAID_VALUE_STATE, 10), b = kept(graph, "b", BRAID_VALUE_PARAMETER, 20);
  braid_value_id c = kept(graph, "c", BRAID_VALUE_STATE, 0);
  OK(braid_graph_update_state(graph, a, node(graph, "test.Add", "next_a", b, -1)));
  OK(braid_graph_update_state(graph, b, node(graph, "test.Add", "next_b", a, x)));
  braid_value_id next_c = node(graph, "test.Add", "next_c", c, a);
  OK(braid_graph_update_state(graph, c, next_c));
  OK(braid_graph_add_output(graph, c));
  OK(braid_graph_add_output(graph, next_c));
  kept(graph, "idle", BRAID_VALUE_STATE, 5);
  return graph;
}

static void test_states(void **state) {
  (void)state;
  braid_graph *graph = state_graph();
  static const braid_session_options kOptions[] = {
      {.training = true},
      {.training = true, .no_reuse = true},
      {.devices = "cpu:memory=separate", .training = true},
      {.devices = "cpu:memory=separate cpu", .training = true, .place = "next_a=0 next_b=cpu#1 *=0"}};
  for (size_t o = 0; o < sizeof kOptions / sizeof *kOptions; o++) {
    braid_session *session = open_session(graph, &kOptions[o]);
    float a = 10, b = 20, c = 0, as = 1, bs = 1, cs = 1, old[kCount], next[kCount];
    for (int run = 0; run < 4; run++) {
      OK(braid_session_run(session, (const void *[]){kInput}, (void *[]){old, next}));
      check(old, c, cs);
      check(next, c + a, cs + as);
      c += a, cs += as;
      float t = a, ts = as;
      a = b, as = bs;
      b = t, bs = ts + 1;
      check_kept(session, "a", a, as);
      check_kept(session, "b", b, bs);
      check_kept(session, "c", c, cs);
    }
    braid_tensor *tensor = vector(100);
    OK(braid_session_write(session, "b", tensor));
    check_kept(session, "b", 100, 1);
    OK(braid_session_run(session, (const void *[]){kInput}, NULL));
    check_kept(session, "a", 100, 1);
    braid_tensor_release(tensor);
    braid_session_destroy(session);
  }
  braid_graph_destroy(graph);
}

/* Two states change places through views of each other; a third output shows the old value of one. */
static void test_swap(void **state) {
  (void)state;
  braid_graph *graph = new_graph();
  braid_value_id a = kept(graph, "a", BRAID_VALUE_STATE, 10), b = kept(graph, "b", BRAID_VALUE_STATE, 20);
  OK(braid_graph_update_state(graph, a, node(graph, "Identity", "to_a", b, -1)));
  OK(braid_graph_update_state(graph, b, node(graph, "Identity", "to_b", a, -1)));
  OK(braid_graph_add_output(graph, node(graph, "Identity", "shown", a, -1)));
  static const braid_session_options kOptions[] = {
      {.no_fusion = true}, {.no_fusion = false}, {.no_fusion = true, .devices = "cpu:memory=separate"}};
  for (size_t o = 0; o < sizeof kOptions / sizeof *kOptions; o++) {
    braid_session *session = open_session(graph, &kOptions[o]);
    float old[kCount];
    for (int run = 0; run < 4; run++) {
      OK(braid_session_run(session, NULL, (void *[]){old}));
      check(old, run % 2 ? 20 : 10, 1);
      check_kept(session, "a", run % 2 ? 10 : 20, 1);
      check_kept(session, "b", run % 2 ? 20 : 10, 1);
    }
    braid_session_destroy(session);
  }
  braid_graph_destroy(graph);
}

/* An optimizer's step writes over its parameter and momentum: no copy, no memory beside them. */
static void test_update_in_place(void **state) {
  (void)state;
  braid_graph *graph = new_graph();
  braid_value_id inputs[4] = {kept(graph, "p", BRAID_VALUE_PARAMETER, 10), input(graph, "g")};
  braid_tensor *rate;
  braid_desc scalar;
  OK(braid_desc_init(&scalar, BRAID_F32, 0, NULL));
  OK(braid_tensor_create(NULL, &scalar, &rate));
  *(float *)braid_tensor_data(rate) = 2;
  OK(braid_graph_add_tensor(graph, "rate", BRAID_VALUE_CONSTANT, rate, &inputs[2]));
  braid_tensor_release(rate);
  inputs[3] = kept(graph, "m", BRAID_VALUE_STATE, 0);
  braid_value_id next[2] = {0, 0}, before = node(graph, "test.Add", "before", inputs[0], inputs[1]);
  braid_node_id update;
  OK(braid_graph_add_node(graph, "SgdUpdate", "step", inputs, 4, next, 2, &update));
  OK(braid_graph_set_float(graph, update, "momentum", 1));
  OK(braid_graph_update_state(graph, inputs[0], next[0]));
  OK(braid_graph_update_state(graph, inputs[3], next[1]));
  OK(braid_graph_add_output(graph, before));
  braid_session *session = open_session(graph, &(braid_session_options){.training = true});
  braid_session_stats stats = braid_session_get_stats(session);
  assert_int_equal(stats.conversions, 0);
  assert_int_equal(stats.arena_bytes, 0);
  float sum[kCount];
  OK(braid_session_run(session, (const void *[]){kInput}, (void *[]){sum}));
  check(sum, 10, 2);
  check_kept(session, "m", 0, 2); /* 0 1 2 ... of before, and the gradient */
  check_kept(session, "p", 10, -3);
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

static void test_read_and_write(void **state) {
  (void)state;
  braid_graph *graph = new_graph();
  braid_value_id x = input(graph, "x"), p = kept(graph, "p", BRAID_VALUE_PARAMETER, 3);
  OK(braid_graph_add_output(graph, node(graph, "test.Add", "y", x, p)));
  braid_session *session = open_session(graph, NULL);
  check_kept(session, "p", 3, 1);
  braid_tensor *tensor = vector(7), *wrong;
  assert_int_equal(braid_session_write(session, "p", tensor), BRAID_UNSUPPORTED); /* a constant, when not training */
  assert_int_equal(braid_session_read(session, "x", tensor), BRAID_NOT_FOUND);
  assert_int_equal(braid_session_read(session, "nobody", tensor), BRAID_NOT_FOUND);
  braid_desc desc;
  OK(braid_desc_init(&desc, BRAID_F64, 0, NULL));
  OK(braid_tensor_create(NULL, &desc, &wrong));
  assert_int_equal(braid_session_read(session, "p", wrong), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "float64"));
  braid_tensor_release(wrong);
  braid_session_destroy(session);
  session = open_session(graph, &(braid_session_options){.training = true});
  OK(braid_session_write(session, "p", tensor));
  float y[kCount];
  OK(braid_session_run(session, (const void *[]){kInput}, (void *[]){y}));
  check(y, 7, 2);
  braid_tensor_release(tensor);
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_states),
      cmocka_unit_test(test_swap),
      cmocka_unit_test(test_update_in_place),
      cmocka_unit_test(test_read_and_write),
  };
  if (braid_custom_op_register(&kAdd) != BRAID_OK) return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
