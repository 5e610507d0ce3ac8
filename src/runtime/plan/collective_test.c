/* Collectives in plans: on a queue of their own, as early as they can be, and what takes their results after all else;
 * without a group the result is the operand, and a constant is not folded through one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "braid/session.h"
#include "runtime/surface/session.h"

#define OK(expression)                                                                                                 \
  do {                                                                                                                 \
    braid_status ok_status_ = (expression);                                                                            \
    if (ok_status_ != BRAID_OK) fail_msg("%s: %s", braid_status_text(ok_status_), braid_error_detail());               \
  } while (0)

static braid_value_id add(braid_graph *graph, const char *op, const char *name, const braid_value_id *inputs,
                          size_t count) {
  braid_value_id out = 0;
  OK(braid_graph_add_node(graph, op, name, inputs, count, &out, 1, NULL));
  return out;
}

/* The place in the plan of the step of this name. */
static size_t place_of(const braid_plan *plan, const char *name) {
  for (size_t i = 0; i < plan->steps.count; i++)
    if (strcmp(plan->steps.items[i].label, name) == 0) return i;
  fail_msg("the plan has no step %s", name);
  return 0;
}

/* x -> first -> reduce -> taken; x -> second -> third, which do not wait. */
static void test_order(void **state) {
  (void)state;
  braid_graph *graph;
  braid_session *session;
  braid_value_id x, taken, third;
  OK(braid_graph_create(NULL, "collective", &graph));
  OK(braid_graph_add_input(graph, "x", &(braid_desc){.dtype = BRAID_F32, .rank = 1, .dims = {64}}, &x));
  taken = add(graph, "Neg", "first", &x, 1);
  taken = add(graph, "AllReduce", "reduce", &taken, 1);
  taken = add(graph, "Abs", "taken", &taken, 1);
  third = add(graph, "Exp", "second", &x, 1);
  third = add(graph, "Sqrt", "third", &third, 1);
  OK(braid_graph_add_output(graph, taken));
  OK(braid_graph_add_output(graph, third));
  OK(braid_session_create(graph, NULL, &session));
  const braid_plan *plan = session->plan;
  size_t reduce = place_of(plan, "reduce"), last = place_of(plan, "taken");
  assert_true(place_of(plan, "first") < reduce && reduce < place_of(plan, "second"));
  assert_true(place_of(plan, "third") < last);
  assert_int_equal(plan->queues[plan->steps.items[reduce].queue].role, BRAID_QUEUE_GROUP);
  assert_int_equal(plan->queues[plan->steps.items[last].queue].role, BRAID_QUEUE_KERNELS);
  assert_true(plan->steps.items[reduce].wait_count == 1 && plan->steps.items[last].wait_count == 1);
  assert_false(plan->here);
  float in[64], out[2][64];
  for (int i = 0; i < 64; i++) in[i] = (float)i - 20;
  for (int run = 0; run < 3; run++) {
    OK(braid_session_run(session, (const void *[]){in}, (void *[]){out[0], out[1]}));
    for (int i = 0; i < 64; i++) assert_true(out[0][i] == (in[i] < 0 ? -in[i] : in[i]));
  }
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

/* Several operands as one message; constants are other processes' too. */
static void test_constants(void **state) {
  (void)state;
  braid_graph *graph;
  braid_session *session;
  braid_value_id inputs[2], outputs[2] = {0};
  OK(braid_graph_create(NULL, "constants", &graph));
  OK(braid_graph_add_scalar(graph, BRAID_I64, 5, &inputs[0]));
  OK(braid_graph_add_scalar(graph, BRAID_I64, 9, &inputs[1]));
  OK(braid_graph_add_node(graph, "AllReduce", "reduce", inputs, 2, outputs, 2, NULL));
  for (int i = 0; i < 2; i++) OK(braid_graph_add_output(graph, outputs[i]));
  OK(braid_session_create(graph, NULL, &session));
  int64_t out[2];
  (void)place_of(session->plan, "reduce");
  OK(braid_session_run(session, NULL, (void *[]){&out[0], &out[1]}));
  assert_true(out[0] == 5 && out[1] == 9);
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

static void expect_invalid(const char *reduction, braid_dtype dtype, const char *words) {
  braid_graph *graph;
  braid_value_id x, y = 0;
  braid_node_id node;
  braid_session *session;
  OK(braid_graph_create(NULL, "invalid", &graph));
  OK(braid_graph_add_input(graph, "x", &(braid_desc){.dtype = dtype, .rank = 1, .dims = {4}}, &x));
  OK(braid_graph_add_node(graph, "AllReduce", "reduce", &x, 1, &y, 1, &node));
  OK(braid_graph_set_string(graph, node, "reduction", reduction));
  OK(braid_graph_add_output(graph, y));
  assert_int_equal(braid_session_create(graph, NULL, &session), BRAID_INVALID_GRAPH);
  if (!strstr(braid_error_detail(), words)) fail_msg("\"%s\" is not in: %s", words, braid_error_detail());
  braid_graph_destroy(graph);
}

static void test_invalid(void **state) {
  (void)state;
  expect_invalid("mean", BRAID_F32, "sum, max or or is expected");
  expect_invalid("or", BRAID_F32, "int32 or int64 is expected");
  expect_invalid("sum", BRAID_F16, "is float16");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_constants),
                                     cmocka_unit_test(test_invalid)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
