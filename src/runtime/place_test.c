/* Placement over several devices: by hand, and "auto", which runs branches side by side where that pays. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "braid/session.h"
#include "graph/graph.h"
#include "oom.h"

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    if ((call) != BRAID_OK) fail_msg("%s: %s", #call, braid_error_detail());                                           \
  } while (0)

enum { kDepth = 3 };

static braid_value_id node(braid_graph *graph, const char *op, const char *name, braid_value_id a, braid_value_id b) {
  braid_value_id out;
  OK(braid_graph_add_node(graph, op, name, (braid_value_id[]){a, b}, 2, &out, 1, NULL));
  return out;
}

/* Two chains of products of side x side matrices that meet in a sum. */
static braid_graph *two_branches(int64_t side) {
  braid_graph *graph;
  OK(braid_graph_create(NULL, "branches", &graph));
  braid_desc desc;
  OK(braid_desc_init(&desc, BRAID_F32, 2, (int64_t[]){side, side}));
  braid_value_id x, ends[2];
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  for (int branch = 0; branch < 2; branch++) {
    ends[branch] = x;
    for (int i = 0; i < kDepth; i++) {
      char name[16];
      snprintf(name, sizeof name, "%c%d", 'a' + branch, i);
      ends[branch] = node(graph, "MatMul", name, ends[branch], x);
    }
  }
  OK(braid_graph_add_output(graph, node(graph, "Add", "join", ends[0], ends[1])));
  return graph;
}

static const char *device_of(const braid_session *session, const char *name) {
  for (size_t i = 0; i < braid_session_plan_count(session); i++) {
    braid_plan_line line = braid_session_plan(session, i);
    if (strcmp(line.node, name) == 0) return line.device;
  }
  fail_msg("no node %s in the plan", name);
  return NULL;
}

static braid_session *open_session(const braid_graph *graph, const char *devices, const char *place) {
  braid_session *session;
  OK(braid_session_create(graph, &(braid_session_options){.devices = devices, .place = place}, &session));
  return session;
}

/* Each branch stays whole, and the two are apart if `apart`. */
static void check_branches(const braid_session *session, bool apart) {
  for (int branch = 0; branch < 2; branch++) {
    for (int i = 1; i < kDepth; i++) {
      char name[16], first[16];
      snprintf(first, sizeof first, "%c0", 'a' + branch);
      snprintf(name, sizeof name, "%c%d", 'a' + branch, i);
      assert_string_equal(device_of(session, name), device_of(session, first));
    }
  }
  assert_int_equal(strcmp(device_of(session, "a0"), device_of(session, "b0")) != 0, apart);
}

static void run_as_alone(const braid_graph *graph, braid_session *session, int64_t side) {
  size_t count = (size_t)(side * side);
  float *x = malloc(count * sizeof *x), *y = calloc(count, sizeof *y), *expected = calloc(count, sizeof *expected);
  for (size_t i = 0; i < count; i++) x[i] = (float)((double)(i * 7 % 13) - 6) / (float)side;
  braid_session *alone = open_session(graph, "cpu:threads=1", NULL);
  OK(braid_session_run(alone, (const void *[]){x}, (void *[]){expected}));
  OK(braid_session_run(session, (const void *[]){x}, (void *[]){y}));
  assert_memory_equal(y, expected, count * sizeof *y);
  braid_session_destroy(alone);
  free(x), free(y), free(expected);
}

static void test_auto(void **state) {
  (void)state;
  static const struct {
    int64_t side;
    const char *devices;
    bool apart;
  } cases[] = {
      {64, "cpu:threads=1 cpu:threads=1", true},
      {256, "cpu:threads=1 cpu:threads=1,memory=separate", true},
      {8, "cpu:threads=1 cpu:threads=1,memory=separate", false}, /* not worth a transfer */
      {64, "cpu:threads=1", false},
      {64, "cpu:threads=1 null", false}, /* null has no products */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_graph *graph = two_branches(cases[i].side);
    braid_session *session = open_session(graph, cases[i].devices, "auto");
    check_branches(session, cases[i].apart);
    run_as_alone(graph, session, cases[i].side);
    braid_session_destroy(session);
    braid_graph_destroy(graph);
  }
}

static void test_by_hand_before_auto(void **state) {
  (void)state;
  braid_graph *graph = two_branches(64);
  static const char kDevices[] = "cpu:threads=1 cpu:threads=1";
  braid_session *session = open_session(graph, kDevices, "auto,a*=1,a0=0");
  check_branches(session, true);
  assert_string_equal(device_of(session, "a0"), "cpu#1");
  assert_string_equal(device_of(session, "b0"), "cpu");
  braid_session_destroy(session);
  braid_session_options options = {.devices = kDevices, .place = "auto,a*=2"};
  assert_int_equal(braid_session_create(graph, &options, &session), BRAID_NOT_FOUND);
  options.place = "a*=0,automatic";
  assert_int_equal(braid_session_create(graph, &options, &session), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "pattern=device or auto"));
  braid_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_auto), cmocka_unit_test(test_by_hand_before_auto)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
