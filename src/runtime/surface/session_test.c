/* Sessions: memory of the caller, failures, time limits, several devices, traces. Ops whose behaviour a test
 * has to control are custom ones. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "oom.h"
#include "runtime/surface/session.h"
#include "runtime/surface/session_fixture.h"

/* --- ops of the tests ----------------------------------------------------------------------------------------------
 */
static atomic_int fail_now, sleep_ms; /* read on the queue's thread */

static braid_status trouble(const braid_attrs *attrs, const braid_custom_array *inputs, size_t input_count,
                            const braid_custom_array *outputs, size_t output_count) {
  if (sleep_ms) nanosleep(&(struct timespec){.tv_nsec = sleep_ms * 1000000L}, NULL);
  if (fail_now) return braid_fail(BRAID_NOT_FINITE, "broken on purpose");
  return add(attrs, inputs, input_count, outputs, output_count);
}

/* Goes on once the last element of `watched` is another than -1: a copy has arrived there meanwhile. */
static _Atomic float *watched;

/* Looking while it is written is the point here. */
#ifdef __SANITIZE_THREAD__
__attribute__((no_sanitize_thread))
#endif
static braid_status
wait_for_copy(const braid_attrs *attrs, const braid_custom_array *inputs, size_t input_count,
              const braid_custom_array *outputs, size_t output_count) {
  int64_t limit = braid_now_ns() + 20000000000;
  while (atomic_load(&watched[kCount - 1]) == -1) {
    if (braid_now_ns() > limit) return braid_fail(BRAID_TIMEOUT, "no copy came while this kernel ran");
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  }
  return add(attrs, inputs, input_count, outputs, output_count);
}

static const braid_custom_op kWait = {
    .name = "test.Wait", .min_inputs = 1, .max_inputs = 8, .outputs = 1, .infer = infer_same, .compute = wait_for_copy};
static const braid_custom_op kTrouble = {
    .name = "test.Trouble", .min_inputs = 1, .max_inputs = 8, .outputs = 1, .infer = infer_same, .compute = trouble};

/* --- the caller's memory -------------------------------------------------------------------------------------------
 */
static void test_bindings(void **state) {
  (void)state;
  braid_graph *graph = new_graph();
  braid_value_id x = input(graph, "x"), unused = input(graph, "unused"), y = node(graph, "test.Add", "y", x, x);
  braid_value_id one = kept(graph, "one", BRAID_VALUE_CONSTANT, 1);
  (void)unused;
  OK(braid_graph_add_output(graph, y));
  OK(braid_graph_add_output(graph, x));   /* an input as an output */
  OK(braid_graph_add_output(graph, y));   /* the same twice */
  OK(braid_graph_add_output(graph, one)); /* a constant */
  static const char *const kDevices[] = {"cpu", "cpu:memory=separate", "cpu cpu:memory=separate"};
  for (int d = 0; d < 3; d++) {
    braid_session *session = open_session(graph, &(braid_session_options){.devices = kDevices[d]});
    float outputs[4][kCount] = {{0}};
    _Alignas(16) char bytes[2 * sizeof kInput + 1];
    memcpy(bytes + 1, kInput, sizeof kInput);
    OK(braid_session_run(session, (const void *[]){kInput, NULL},
                         (void *[]){outputs[0], outputs[1], outputs[2], outputs[3]}));
    check(outputs[0], 0, 2);
    check(outputs[1], 0, 1);
    check(outputs[2], 0, 2);
    check(outputs[3], 1, 1);
    memset(outputs, 0, sizeof outputs);
    OK(braid_session_run(session, (const void *[]){kInput, NULL}, (void *[]){NULL, NULL, outputs[2], NULL}));
    check(outputs[2], 0, 2);
    OK(braid_session_run(session, (const void *[]){kInput, NULL}, NULL));
    /* addresses that no float may have: copied */
    void *crooked[4] = {bytes + 1 + sizeof kInput, NULL, NULL, NULL};
    OK(braid_session_run(session, (const void *[]){bytes + 1, NULL}, crooked));
    memcpy(outputs[0], crooked[0], sizeof outputs[0]);
    check(outputs[0], 0, 2);
    assert_int_equal(braid_session_run(session, (const void *[]){NULL, NULL}, NULL), BRAID_INVALID_ARGUMENT);
    assert_non_null(strstr(braid_error_detail(), "x"));
    assert_int_equal(braid_session_run(session, NULL, NULL), BRAID_INVALID_ARGUMENT);
    braid_session_destroy(session);
  }
  braid_graph_destroy(graph);
}

/* A result that is not small goes back to the host while the next kernel runs: that kernel waits for it. */
static void test_copies_beside_kernels(void **state) {
  (void)state;
  enum { kMany = 1 << 15 };
  static float numbers[kMany], outputs[2][kMany];
  braid_graph *graph = new_graph();
  braid_value_id x, early;
  OK(braid_graph_add_input(graph, "x", &(braid_desc){.dtype = BRAID_F32, .rank = 1, .dims = {kMany}}, &x));
  early = node(graph, "test.Add", "early", x, x);
  OK(braid_graph_add_output(graph, early));
  OK(braid_graph_add_output(graph, node(graph, "test.Wait", "late", early, -1)));
  braid_session *session = open_session(graph, &(braid_session_options){.devices = "cpu:memory=separate"});
  for (int i = 0; i < kMany; i++) numbers[i] = (float)i, outputs[0][i] = outputs[1][i] = -1;
  watched = (_Atomic float *)outputs[0];
  OK(braid_session_run(session, (const void *[]){numbers}, (void *[]){outputs[0], outputs[1]}));
  for (int i = 0; i < kMany; i++) assert_true(outputs[0][i] == 2 * numbers[i] && outputs[1][i] == 2 * numbers[i]);
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

/* Inputs of the next steps come while the kernels of others run: no write waits for anything. */
static void test_inputs_come_ahead(void **state) {
  (void)state;
  enum { kChains = 3 };
  braid_graph *graph = new_graph();
  for (int i = 0; i < kChains; i++) {
    char name[8];
    snprintf(name, sizeof name, "x%d", i);
    braid_value_id x = input(graph, name);
    OK(braid_graph_add_output(graph, node(graph, "test.Add", NULL, node(graph, "test.Add", NULL, x, -1), x)));
  }
  braid_session *session = open_session(graph, &(braid_session_options){.devices = "cpu:memory=separate"});
  size_t waiting = 0, writes = 0;
  for (size_t i = 0; i < session->plan->steps.count; i++) {
    const braid_step *step = &session->plan->steps.items[i];
    if (step->kind != BRAID_STEP_WRITE) continue;
    writes++;
    waiting += step->wait_count > 0;
  }
  assert_int_equal(writes, kChains);
  assert_int_equal(waiting, 0);
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

/* --- failures ------------------------------------------------------------------------------------------------------
 */
static braid_graph *trouble_graph(void) {
  braid_graph *graph = new_graph();
  braid_value_id x = input(graph, "x"), y = node(graph, "test.Add", "before", x, -1);
  y = node(graph, "test.Trouble", "the culprit", y, -1);
  for (int i = 0; i < 5; i++) y = node(graph, "test.Add", NULL, y, x);
  OK(braid_graph_add_output(graph, y));
  return graph;
}

static void test_failure(void **state) {
  (void)state;
  braid_graph *graph = trouble_graph();
  static const char *const kDevices[] = {"cpu", "cpu:memory=separate", "cpu cpu:memory=separate"};
  for (int d = 0; d < 3; d++) {
    braid_session_options options = {.devices = kDevices[d], .place = d == 2 ? "the*=1 before=0" : NULL};
    braid_session *session = open_session(graph, &options);
    float y[kCount];
    for (int i = 0; i < 3; i++) {
      fail_now = 1;
      assert_int_equal(braid_session_run(session, (const void *[]){kInput}, (void *[]){y}), BRAID_NOT_FINITE);
      assert_non_null(strstr(braid_error_detail(), "the culprit"));
      assert_non_null(strstr(braid_error_detail(), "broken on purpose"));
      fail_now = 0;
      OK(braid_session_run(session, (const void *[]){kInput}, (void *[]){y}));
      check(y, 0, 6);
    }
    braid_session_destroy(session);
  }
  braid_graph_destroy(graph);
}

static void test_time_limit(void **state) {
  (void)state;
  braid_graph *graph = trouble_graph();
  braid_session *session = open_session(graph, &(braid_session_options){.timeout_ms = 300});
  float y[kCount];
  sleep_ms = 400; /* late, but comes back */
  assert_int_equal(braid_session_run(session, (const void *[]){kInput}, (void *[]){y}), BRAID_TIMEOUT);
  assert_non_null(strstr(braid_error_detail(), "the culprit"));
  sleep_ms = 0;
  OK(braid_session_run(session, (const void *[]){kInput}, (void *[]){y}));
  check(y, 0, 6);
  sleep_ms = 900; /* does not come back in time */
  assert_int_equal(braid_session_run(session, (const void *[]){kInput}, (void *[]){y}), BRAID_TIMEOUT);
  sleep_ms = 0;
  assert_int_equal(braid_session_run(session, (const void *[]){kInput}, (void *[]){y}), BRAID_DEVICE_LOST);
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

/* A task that hangs knows nothing of the caller's memory, which may be gone by the time the task comes back. */
static void test_hung_task_leaves_the_caller_alone(void **state) {
  (void)state;
  static const char *const kDevices[] = {"cpu", "cpu:memory=separate"};
  braid_graph *graph = new_graph();
  OK(braid_graph_add_output(graph, node(graph, "test.Trouble", "the culprit", input(graph, "x"), -1)));
  for (int d = 0; d < 2; d++) {
    braid_session *session = open_session(graph, &(braid_session_options){.devices = kDevices[d], .timeout_ms = 50});
    float y[kCount];
    for (int i = 0; i < kCount; i++) y[i] = -7;
    sleep_ms = 400;
    assert_int_equal(braid_session_run(session, (const void *[]){kInput}, (void *[]){y}), BRAID_TIMEOUT);
    assert_non_null(strstr(braid_error_detail(), "the session is lost"));
    braid_session_destroy(session); /* waits for the task */
    sleep_ms = 0;
    for (int i = 0; i < kCount; i++) assert_true(y[i] == -7);
  }
  braid_graph_destroy(graph);
}

static void test_create_errors(void **state) {
  (void)state;
  braid_graph *graph = trouble_graph();
  braid_session *session;
  const struct {
    braid_session_options options;
    braid_status status;
    const char *says;
  } cases[] = {
      {{.devices = "abacus"}, BRAID_NOT_FOUND, "abacus"},
      {{.devices = "  "}, BRAID_INVALID_ARGUMENT, "no device"},
      {{.devices = "null"}, BRAID_UNSUPPORTED, "null has no kernel for test.Add"},
      {{.place = "the*"}, BRAID_INVALID_ARGUMENT, "pattern=device"},
      {{.place = "the*=gpu"}, BRAID_NOT_FOUND, "gpu"},
      {{.devices = "cpu null", .place = "*=null"}, BRAID_UNSUPPORTED, "null"},
      {{.devices = "cpu:threads=x"}, BRAID_INVALID_ARGUMENT, "threads"},
      {{.threads = -3}, BRAID_INVALID_ARGUMENT, "threads=-3"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(braid_session_create(graph, &cases[i].options, &session), cases[i].status);
    assert_null(session);
    if (!strstr(braid_error_detail(), cases[i].says)) fail_msg("case %zu says: %s", i, braid_error_detail());
  }
  braid_graph_destroy(graph);
  graph = new_graph();
  braid_value_id x;
  braid_desc open = vector_desc();
  open.rank = 2;
  open.dims[1] = -1;
  OK(braid_graph_add_input(graph, "x", &open, &x));
  OK(braid_graph_add_output(graph, x));
  assert_int_equal(braid_session_create(graph, NULL, &session), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "x"));
  braid_graph_destroy(graph);
}

/* A card that is too small for the graph says what for. */
static void test_small_card(void **state) {
  (void)state;
  braid_graph *graph = new_graph();
  braid_desc desc;
  braid_value_id x;
  OK(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){1 << 20}));
  OK(braid_graph_add_input(graph, "picture", &desc, &x));
  OK(braid_graph_add_output(graph, x));
  braid_session *session;
  braid_session_options options = {.devices = "null:memory=65536"};
  assert_int_equal(braid_session_create(graph, &options, &session), BRAID_NO_MEMORY);
  assert_non_null(strstr(braid_error_detail(), "picture"));
  assert_non_null(strstr(braid_error_detail(), "65536 free"));
  options.devices = "null";
  session = open_session(graph, &options);
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

/* --- reports -------------------------------------------------------------------------------------------------------
 */
/* The number behind "key": in an event. */
static double number_of(const char *event, const char *key) {
  char quoted[32];
  snprintf(quoted, sizeof quoted, "\"%s\":", key);
  const char *at = strstr(event, quoted);
  assert_true(at && at < strchr(event, '\n'));
  return strtod(at + strlen(quoted), NULL);
}

/* Looks for the slice on the event's track that holds its time, as viewers do; NULL: there is none. */
static const char *slice_of(const char *text, const char *event) {
  for (const char *at = text; (at = strstr(at, "{\"ph\":\"X\"")); at++) {
    double start = number_of(at, "ts"), end = start + number_of(at, "dur"), ts = number_of(event, "ts");
    if (number_of(at, "pid") == number_of(event, "pid") && number_of(at, "tid") == number_of(event, "tid") &&
        ts >= start && ts < end)
      return at;
  }
  return NULL;
}

/* Arrows lead from the transfer to the node on the other device and from it back, in every run; a run is a slice around
 * its steps; ids begin at 1. */
static void check_tracks(const char *text, size_t runs) {
  size_t arrows = 0, slices = 0;
  for (const char *at = text; (at = strstr(at, "\"pid\":")); at++) assert_true(strtol(at + 6, NULL, 10) >= 1);
  for (const char *at = text; (at = strstr(at, "\"tid\":")); at++) assert_true(strtol(at + 6, NULL, 10) >= 1);
  for (const char *at = text; (at = strstr(at, "{\"ph\":\"s\"")); at++, arrows++) {
    char end[64];
    snprintf(end, sizeof end, "{\"ph\":\"f\",\"bp\":\"e\",\"cat\":\"flow\",\"name\":\"data\",\"id\":%.0f,",
             number_of(at, "id"));
    const char *to = strstr(at, end);
    assert_non_null(to);
    assert_non_null(slice_of(text, at));
    assert_non_null(slice_of(text, to));
    assert_true(number_of(to, "tid") != number_of(at, "tid") && number_of(to, "ts") >= number_of(at, "ts"));
  }
  assert_true(arrows >= 2 * runs && arrows % runs == 0);
  for (const char *at = text; (at = strstr(at, "\"name\":\"run ")); at++, slices++)
    assert_int_equal(strtol(at + 12, NULL, 10), slices + 1);
  assert_int_equal(slices, runs);
  for (const char *at = text; (at = strstr(at, "{\"ph\":\"X\"")); at++) {
    const char *run = text;
    double start = number_of(at, "ts"), end = start + number_of(at, "dur");
    do assert_non_null(run = strstr(run + 1, "{\"ph\":\"X\",\"name\":\"run "));
    while (number_of(run, "ts") > start + 0.01 || number_of(run, "ts") + number_of(run, "dur") < end - 0.01);
  }
}

static void test_trace_and_plan(void **state) {
  (void)state;
  char path[] = "/tmp/braid-trace-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  braid_graph *graph = trouble_graph();
  braid_session_options options = {.devices = "cpu cpu:memory=separate", .place = "the*=1", .trace = path};
  braid_session *session = open_session(graph, &options);
  int64_t began = braid_now_ns();
  for (int i = 0; i < 3; i++) OK(braid_session_run(session, (const void *[]){kInput}, NULL));
  double took_us = (double)(braid_now_ns() - began) / 1e3;
  braid_session_stats stats = braid_session_get_stats(session);
  assert_int_equal(stats.nodes, braid_session_plan_count(session));
  assert_int_equal(stats.conversions, 2); /* there and back */
  assert_true(stats.arena_bytes < stats.unshared_bytes + 64 * stats.nodes);
  bool found = false;
  for (size_t i = 0; i < stats.nodes; i++) {
    braid_plan_line line = braid_session_plan(session, i);
    assert_true(line.median_us >= 0);
    if (strcmp(line.node, "the culprit") != 0) continue;
    found = true;
    assert_string_equal(line.device, "cpu#1");
    assert_string_equal(line.kernel, "custom");
  }
  assert_true(found);
  braid_session_destroy(session);
  braid_file_view view;
  OK(braid_file_open(NULL, path, 0, &view));
  char *text = braid_zalloc(NULL, view.bytes + 1);
  memcpy(text, view.data, view.bytes);
  assert_non_null(strstr(text, "\"name\":\"the culprit\""));
  assert_non_null(strstr(text, "\"name\":\"cpu#1\""));
  size_t events = 0;
  for (const char *at = text; (at = strstr(at, "{\"ph\":\"X\"")); at++, events++)
    assert_true(number_of(at, "dur") >= 0 && number_of(at, "dur") <= took_us);
  assert_int_equal(events, 3 * (stats.nodes + 1)); /* and a slice for each run */
  check_tracks(text, 3);
  braid_free(NULL, text);
  braid_file_close(&view);
  unlink(path);
  braid_graph_destroy(graph);
}

/* --- memory --------------------------------------------------------------------------------------------------------
 */
static braid_status attempt(const braid_allocator *allocator, void *context) {
  braid_graph *graph;
  braid_session *session = NULL;
  braid_value_id x, w, y = 0, next = 0;
  braid_desc desc;
  int64_t count = kCount;
  braid_tensor *tensor = NULL;
  braid_status status = braid_graph_create(allocator, "test", &graph);
  if (status != BRAID_OK) return status;
  status = braid_desc_init(&desc, BRAID_F32, 1, &count);
  if (status == BRAID_OK) status = braid_tensor_create(allocator, &desc, &tensor);
  if (status == BRAID_OK) memset(braid_tensor_data(tensor), 0, braid_desc_bytes(&desc));
  if (status == BRAID_OK) status = braid_graph_add_input(graph, "x", &desc, &x);
  if (status == BRAID_OK) status = braid_graph_add_tensor(graph, "w", BRAID_VALUE_STATE, tensor, &w);
  braid_tensor_release(tensor);
  if (status == BRAID_OK)
    status = braid_graph_add_node(graph, "test.Add", "y", (braid_value_id[]){x, w}, 2, &y, 1, NULL);
  if (status == BRAID_OK)
    status = braid_graph_add_node(graph, "test.Add", "next", (braid_value_id[]){y, w}, 2, &next, 1, NULL);
  if (status == BRAID_OK) status = braid_graph_update_state(graph, w, next);
  if (status == BRAID_OK) status = braid_graph_add_output(graph, y);
  if (status == BRAID_OK) status = braid_session_create(graph, context, &session);
  float out[kCount];
  if (status == BRAID_OK) status = braid_session_run(session, (const void *[]){kInput}, (void *[]){out});
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  assert_true(oom_sweep(attempt, &(braid_session_options){.threads = 1}) > 50);
  braid_session_options two = {.devices = "cpu cpu:memory=separate", .threads = 1, .place = "next=1"};
  assert_true(oom_sweep(attempt, &two) > 50);
  two.place = "auto,next=1";
  assert_true(oom_sweep(attempt, &two) > 50);
}

/* A steady-state run allocates nothing. */
static void test_no_allocation(void **state) {
  (void)state;
  oom_allocator oom;
  oom_init(&oom, -1);
  braid_graph *graph;
  braid_value_id x, y = 0;
  braid_desc desc = vector_desc();
  OK(braid_graph_create(&oom.allocator, "test", &graph));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  for (int i = 0; i < 20; i++, x = y)
    OK(braid_graph_add_node(graph, "test.Add", NULL, (braid_value_id[]){x}, 1, &y, 1, NULL));
  OK(braid_graph_add_output(graph, y));
  braid_session *session =
      open_session(graph, &(braid_session_options){.devices = "cpu cpu:memory=separate", .place = "*4=1"});
  float out[kCount];
  OK(braid_session_run(session, (const void *[]){kInput}, (void *[]){out}));
  int64_t before = oom.requests;
  for (int i = 0; i < 10; i++) OK(braid_session_run(session, (const void *[]){kInput}, (void *[]){out}));
  assert_int_equal(oom.requests, before);
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  assert_int_equal(oom.live, 0);
}

int main(void) {
  if (braid_custom_op_register(&kAdd) != BRAID_OK || braid_custom_op_register(&kTrouble) != BRAID_OK ||
      braid_custom_op_register(&kWait) != BRAID_OK)
    return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bindings),          cmocka_unit_test(test_copies_beside_kernels),
      cmocka_unit_test(test_inputs_come_ahead), cmocka_unit_test(test_failure),
      cmocka_unit_test(test_time_limit),        cmocka_unit_test(test_hung_task_leaves_the_caller_alone),
      cmocka_unit_test(test_create_errors),     cmocka_unit_test(test_small_card),
      cmocka_unit_test(test_trace_and_plan),    cmocka_unit_test(test_out_of_memory),
      cmocka_unit_test(test_no_allocation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
