/* Placement over several devices: by hand, and "auto", which runs branches side by side where that pays. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "braid/session.h"
#include "graph/graph.h"
#include "oom.h"
#include "registry.h"

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    if ((call) != BRAID_OK) fail_msg("%s: %s", #call, braid_error_detail());                                           \
  } while (0)

enum { kDepth = 3 };

static braid_registry *registry; /* its log is `said` */

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
  OK(braid_session_create(graph, &(braid_session_options){.registry = registry, .devices = devices, .place = place},
                          &session));
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
  braid_session_options options = {.registry = registry, .devices = kDevices, .place = "auto,a*=2"};
  assert_int_equal(braid_session_create(graph, &options, &session), BRAID_NOT_FOUND);
  options.place = "a*=0,automatic";
  assert_int_equal(braid_session_create(graph, &options, &session), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "pattern=device, auto or ordered"));
  braid_graph_destroy(graph);
}

/* --- names ---------------------------------------------------------------------------------------------------------
 */
static char said[1024]; /* the warnings */

static void hear(void *context, braid_log_level level, const char *message) {
  (void)context;
  if (level == BRAID_LOG_WARNING) snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", message);
}

static braid_value_id weights(braid_graph *graph, const char *name, int rank, const int64_t *dims) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id id;
  OK(braid_desc_init(&desc, BRAID_F32, rank, dims));
  OK(braid_tensor_create(NULL, &desc, &tensor));
  float *data = braid_tensor_data(tensor);
  for (int64_t i = 0; i < braid_desc_count(&desc); i++) data[i] = (float)(i % 5) - 2;
  OK(braid_graph_add_tensor(graph, name, BRAID_VALUE_CONSTANT, tensor, &id));
  braid_tensor_release(tensor);
  return id;
}

/* conv1, shift1 (per channel) and relu1 become one node; same1 goes; flat1 is a view; half1 is folded. */
static braid_graph *named_graph(void) {
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x, y, half;
  OK(braid_graph_create(NULL, "names", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){1, 2, 6, 6}));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  braid_value_id w = weights(graph, "w", 4, (int64_t[]){3, 2, 3, 3}), b = weights(graph, "b", 3, (int64_t[]){3, 1, 1});
  y = node(graph, "Conv", "conv1", x, w);
  y = node(graph, "Add", "shift1", y, b);
  OK(braid_graph_add_node(graph, "Relu", "relu1", &y, 1, &y, 1, NULL));
  OK(braid_graph_add_node(graph, "Identity", "same1", &y, 1, &y, 1, NULL));
  half = node(graph, "Mul", "half1", b, b);
  y = node(graph, "Mul", "scale[1]", y, half);
  OK(braid_graph_add_node(graph, "Flatten", "flat1", &y, 1, &y, 1, NULL));
  y = node(graph, "Add", "twice1", y, y);
  OK(braid_graph_add_output(graph, y));
  return graph;
}

static const char kTwo[] = "cpu:threads=1 cpu:threads=1";

/* The device of `name` with this list; NULL: no session. `said` has the warnings. */
static const char *placed(const braid_graph *graph, const braid_session_options *options, const char *name) {
  static char device[32];
  braid_session *session;
  said[0] = '\0';
  if (braid_session_create(graph, options, &session) != BRAID_OK) return NULL;
  snprintf(device, sizeof device, "%s", device_of(session, name));
  braid_session_destroy(session);
  return device;
}

/* What is named takes along what is fused with it, by any of the names the model shows; what is to be apart is not
 * fused. shift1 is folded into conv1's weights, so the two are one node. */
static void test_fused_names(void **state) {
  (void)state;
  braid_graph *graph = named_graph();
  static const struct {
    const char *place, *conv; /* where shift1 runs if it is not one with relu1; NULL: it is */
    bool divided;             /* conv1 and shift1 were to be apart */
    const char *relu;
  } cases[] = {{"conv1=1", NULL, false, "cpu#1"},          {"shift1=1", NULL, false, "cpu#1"},
               {"relu1=1", NULL, false, "cpu#1"},          {"conv?=1", NULL, false, "cpu#1"},
               {"c*=1,auto", NULL, false, "cpu#1"},        {"shift*=1 relu1=1", NULL, false, "cpu#1"},
               {"relu1=0,conv1=1", "cpu#1", false, "cpu"}, {"conv1=1,*=0", "cpu#1", true, "cpu"},
               {"conv1=1,*=0,auto", "cpu#1", true, "cpu"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_session_options options = {.registry = registry, .devices = kTwo, .place = cases[i].place};
    assert_string_equal(placed(graph, &options, "relu1"), cases[i].relu);
    assert_int_equal(strstr(said, "conv1 was fused into shift1") != NULL, cases[i].divided);
    if (cases[i].conv) assert_string_equal(placed(graph, &options, "shift1"), cases[i].conv);
    options.no_fusion = true;
    const char *first = i == 1 || i == 5 ? "shift1" : i == 2 ? "relu1" : "conv1";
    assert_string_equal(placed(graph, &options, first), "cpu#1");
    assert_string_equal(said, "");
  }
  braid_graph_destroy(graph);
}

/* Overlapping patterns: the first that matches counts. */
static void test_first_counts(void **state) {
  (void)state;
  braid_graph *graph = two_branches(16);
  static const struct {
    const char *place, *a0, *a1;
  } cases[] = {{"a0=1,a*=0", "cpu#1", "cpu"}, {"a*=0,a0=1", "cpu", "cpu"},          {"*0=1,a*=0", "cpu#1", "cpu"},
               {"a0=1,a0=0", "cpu#1", "cpu"}, {"a?=cpu#1,*=cpu", "cpu#1", "cpu#1"}, {"*=1", "cpu#1", "cpu#1"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_session *session = open_session(graph, kTwo, cases[i].place);
    assert_string_equal(device_of(session, "a0"), cases[i].a0);
    assert_string_equal(device_of(session, "a1"), cases[i].a1);
    braid_session_destroy(session);
  }
  braid_graph_destroy(graph);
}

/* With "ordered" nodes start in the list's order, as far as data lets them, and else in the graph's. */
static void test_ordered(void **state) {
  (void)state;
  braid_graph *graph = two_branches(16);
  static const struct {
    const char *place, *order;
  } cases[] = {
      {"a*=0,b*=0", NULL},
      {"ordered b0=0 b1=0 a0=0 *=0", "b0 b1 a0"},
      {"ordered,'b0'=0,'a0'=1,'a1'=1,'b1'=0,*=0", "b0 a0 a1 b1"},
      {"b1=0 ordered b0=1 a*=0 *=0", "b0 b1 a0 a1 a2 b2"}, /* what b1 reads comes first */
      {"b2=0,ordered", "b0 b1 b2"},
  };
  char graphs[256] = "";
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char names[256] = "";
    braid_session *session = open_session(graph, kTwo, cases[i].place);
    for (size_t k = 0; k < braid_session_plan_count(session); k++) {
      size_t used = strlen(names);
      snprintf(names + used, sizeof names - used, "%s%s", used ? " " : "", braid_session_plan(session, k).node);
    }
    if (!i) strcpy(graphs, names);
    const char *order = cases[i].order ? cases[i].order : graphs;
    if (strncmp(names, order, strlen(order)) != 0) fail_msg("%s: %s", cases[i].place, names);
    run_as_alone(graph, session, 16);
    braid_session_destroy(session);
  }
  assert_true(strncmp(graphs, "b0", 2) != 0);
  braid_graph_destroy(graph);
}

static void test_no_such_node(void **state) {
  (void)state;
  braid_graph *graph = named_graph();
  static const struct {
    const char *place, *pattern, *near;
  } cases[] = {
      {"conf1=1", "\"conf1\"", "near are conv1"}, {"relu1=0,shaft?=1", "\"shaft?\"", "near are shift1"},
      {"relu=1", "\"relu\"", "near are relu1"},   {"/model/relu1/Relu=1", "\"/model/relu1/Relu\"", "near are relu1"},
      {"*gelu*=1,auto", "\"*gelu*\"", ";"},       {"Conv1=1", "\"Conv1\"", "near are conv1"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_session_options options = {.registry = registry, .devices = kTwo, .place = cases[i].place};
    braid_session *session;
    assert_int_equal(braid_session_create(graph, &options, &session), BRAID_NOT_FOUND);
    if (!strstr(braid_error_detail(), cases[i].pattern) || !strstr(braid_error_detail(), cases[i].near))
      fail_msg("%s: %s", cases[i].place, braid_error_detail());
    options.loose_place = true;
    OK(braid_session_create(graph, &options, &session));
    braid_session_destroy(session);
  }
  braid_graph_destroy(graph);
}

/* Nodes of the model that run nowhere are no mistake, but nothing is placed. */
static void test_nothing_to_place(void **state) {
  (void)state;
  braid_graph *graph = named_graph();
  static const char *const kNames[] = {"same1", "flat1", "half1"};
  for (size_t i = 0; i < 3; i++) {
    char list[32];
    snprintf(list, sizeof list, "%s=1", kNames[i]);
    braid_session_options options = {.registry = registry, .devices = kTwo, .place = list};
    assert_string_equal(placed(graph, &options, "relu1"), "cpu");
    assert_non_null(strstr(said, kNames[i]));
    assert_non_null(strstr(said, "places nothing"));
  }
  braid_session_options exact = {.registry = registry, .devices = kTwo, .place = "scale[1]=1"};
  assert_string_equal(placed(graph, &exact, "scale[1]"), "cpu#1");
  assert_string_equal(said, "");
  braid_graph_destroy(graph);
}

/* In patterns only '*' and '?' are special, of what names of nodes are made. */
static void test_special_characters(void **state) {
  (void)state;
  static const char *const kNames[] = {"/layers.0/relu[1]", "/layers.0/relu1", "a\\b", "!x]", "-x^", "a.b"};
  enum { NAMES = sizeof kNames / sizeof *kNames };
  static const struct {
    const char *pattern, *placed; /* a digit of 1 for each name that it places */
  } cases[] = {
      {"/layers.0/relu[1]", "100000"},
      {"*relu[1]", "100000"},
      {"*relu[?]", "100000"},
      {"*[*", "100000"},
      {"/layers.?/relu*", "110000"},
      {"*/*/*1*", "110000"},
      {"a\\b", "001000"},
      {"a\\?", "001000"},
      {"a?b", "001001"},
      {"*\\*", "001000"},
      {"[!x]", "000000"},
      {"[!-]x?", "000000"},
      {"?x]", "000100"},
      {"**x**", "000110"},
      {"*?x?*", "000110"},
      {"*b", "001001"},
  };
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x;
  OK(braid_graph_create(NULL, "special", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 2, (int64_t[]){4, 4}));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  for (size_t k = 0; k < NAMES; k++) x = node(graph, "MatMul", kNames[k], x, x);
  OK(braid_graph_add_output(graph, x));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char list[64];
    snprintf(list, sizeof list, "%s=1", cases[i].pattern);
    braid_session_options options = {.registry = registry, .devices = kTwo, .place = list, .loose_place = true};
    for (size_t k = 0; k < NAMES; k++) {
      const char *device = placed(graph, &options, kNames[k]);
      if (!device || strcmp(device, cases[i].placed[k] == '1' ? "cpu#1" : "cpu") != 0)
        fail_msg("%s and %s: %s", cases[i].pattern, kNames[k], device ? device : braid_error_detail());
    }
  }
  braid_graph_destroy(graph);
}

/* Names may hold what separates the entries of a list: their patterns stand in quotes. */
static void test_quoted_patterns(void **state) {
  (void)state;
  static const char *const kNames[] = {"conv 1, left", "conv 1", "it's", "a=b c", "plain"};
  enum { NAMES = sizeof kNames / sizeof *kNames };
  static const struct {
    const char *list, *placed; /* a digit of 1 for each name that it places; or what is said of a list that is none */
  } cases[] = {
      {"'conv 1, left'=1", "10000"},
      {"\"conv 1, *\"=1", "10000"},
      {"'conv 1*'=1", "11000"},
      {"'conv 1'=1, plain=1", "01001"},
      {"  plain=1,\"it's\"=1 ,, 'a=b c'=1  ", "00111"},
      {"it's=1", "00100"},
      {"'a=b c'=0 *=1", "11101"},
      {"'plain'=1 'no such, name'=1", "00001"},
      {"'conv 1=1", "expected '=device behind"},
      {"\"conv 1\" plain=1", "expected \"=device behind"},
      {"'plain'", "expected '=device behind"},
      {"''=1", "expected pattern=device"},
      {"conv 1=1", "quotes around a pattern that holds spaces"},
      {"'auto'=1", "00000"},
  };
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x;
  OK(braid_graph_create(NULL, "quoted", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 2, (int64_t[]){4, 4}));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  for (size_t k = 0; k < NAMES; k++) x = node(graph, "MatMul", kNames[k], x, x);
  OK(braid_graph_add_output(graph, x));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_session_options options = {
        .registry = registry, .devices = kTwo, .place = cases[i].list, .loose_place = true};
    for (size_t k = 0; k < NAMES; k++) {
      const char *device = placed(graph, &options, kNames[k]);
      bool as_said = device ? strcmp(device, cases[i].placed[k] == '1' ? "cpu#1" : "cpu") == 0
                            : strstr(braid_error_detail(), cases[i].placed) != NULL;
      if (!as_said) fail_msg("%s and %s: %s", cases[i].list, kNames[k], device ? device : braid_error_detail());
    }
  }
  braid_graph_destroy(graph);
}

static int open_registry(void **state) {
  (void)state;
  registry = open_test_registry(hear, NULL);
  return registry == NULL;
}

static int close_registry(void **state) {
  (void)state;
  braid_registry_destroy(registry);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_auto),
      cmocka_unit_test(test_by_hand_before_auto),
      cmocka_unit_test(test_fused_names),
      cmocka_unit_test(test_first_counts),
      cmocka_unit_test(test_ordered),
      cmocka_unit_test(test_no_such_node),
      cmocka_unit_test(test_nothing_to_place),
      cmocka_unit_test(test_quoted_patterns),
      cmocka_unit_test(test_special_characters),
  };
  return cmocka_run_group_tests(tests, open_registry, close_registry);
}
