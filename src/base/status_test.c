/* The error detail is that of the failure that is reported: after a failure with a sentence comes one without, through
 * allocators, threads, events, queues and ops of others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "braid/braid.h"
#include "braid/host_queue.h"

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    if ((call) != BRAID_OK) fail_msg("%s: %s", #call, braid_error_detail());                                           \
  } while (0)

static void fail_before(void) {
  assert_int_equal(braid_fail(BRAID_NOT_FOUND, "the first failure"), BRAID_NOT_FOUND);
  assert_string_equal(braid_error_detail(), "the first failure");
}

static void *allocate_nothing(void *context, size_t bytes, size_t alignment) {
  (void)context, (void)bytes, (void)alignment;
  return NULL;
}

static void release_nothing(void *context, void *pointer) {
  (void)context, (void)pointer;
}

static const braid_allocator kEmpty = {NULL, allocate_nothing, release_nothing};

static void test_memory(void **state) {
  (void)state;
  braid_graph *graph;
  fail_before();
  assert_int_equal(braid_graph_create(&kEmpty, "g", &graph), BRAID_NO_MEMORY);
  assert_non_null(strstr(braid_error_detail(), "out of memory"));
  fail_before();
  assert_null(braid_zalloc_array(NULL, SIZE_MAX, 2)); /* nothing is asked of the heap */
  assert_non_null(strstr(braid_error_detail(), "out of memory"));
  assert_null(strstr(braid_error_detail(), "first"));
}

static void test_prefix(void **state) {
  (void)state;
  fail_before();
  assert_int_equal(braid_fail_prefix(BRAID_IO, "file %d", 3), BRAID_IO);
  assert_string_equal(braid_error_detail(), "file 3: the first failure");
  assert_int_equal(braid_fail(BRAID_IO, "%s", ""), BRAID_IO);
  assert_int_equal(braid_fail_prefix(BRAID_IO, "file %d", 3), BRAID_IO);
  assert_string_equal(braid_error_detail(), "file 3: input/output error");
}

/* --- code of others that returns a bare status ----------------------------------------------------------------------
 */
static int calls;

static braid_status infer_bare(const braid_attrs *attrs, const braid_desc *const *inputs, size_t input_count,
                               braid_desc *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  if (inputs[0]->rank > 1) return BRAID_INVALID_GRAPH;
  outputs[0] = *inputs[0];
  return BRAID_OK;
}

/* Fails with a sentence first, then with a status alone. */
static braid_status compute_bare(const braid_attrs *attrs, const braid_custom_array *inputs, size_t input_count,
                                 const braid_custom_array *outputs, size_t output_count) {
  (void)attrs, (void)inputs, (void)input_count, (void)outputs, (void)output_count;
  return calls++ ? BRAID_OUT_OF_RANGE : braid_fail(BRAID_NOT_FINITE, "the first failure");
}

static const braid_custom_op kBare = {"test.Bare", 1, 1, 1, infer_bare, compute_bare};

static void test_custom_op(void **state) {
  (void)state;
  OK(braid_custom_op_register(&kBare));
  braid_graph *graph;
  braid_value_id x, y, square;
  braid_desc row, matrix;
  OK(braid_graph_create(NULL, "g", &graph));
  OK(braid_desc_init(&row, BRAID_F32, 1, (int64_t[]){4}));
  OK(braid_desc_init(&matrix, BRAID_F32, 2, (int64_t[]){4, 4}));
  OK(braid_graph_add_input(graph, "x", &row, &x));
  OK(braid_graph_add_input(graph, "square", &matrix, &square));
  OK(braid_graph_add_node(graph, "test.Bare", "bare", &x, 1, &y, 1, NULL));
  OK(braid_graph_add_output(graph, y));
  braid_session *session;
  OK(braid_session_create(graph, NULL, &session));
  float in[4] = {0}, full[16] = {0};
  assert_int_equal(braid_session_run(session, (const void *[]){in, full}, NULL), BRAID_NOT_FINITE);
  assert_non_null(strstr(braid_error_detail(), "the first failure"));
  assert_int_equal(braid_session_run(session, (const void *[]){in, full}, NULL), BRAID_OUT_OF_RANGE);
  assert_non_null(strstr(braid_error_detail(), "node bare"));
  assert_null(strstr(strstr(braid_error_detail(), "node bare") + 1, "node bare")); /* said once */
  assert_non_null(strstr(braid_error_detail(), "out of range"));
  assert_null(strstr(braid_error_detail(), "first"));
  braid_session_destroy(session);
  OK(braid_graph_add_node(graph, "test.Bare", "wrong", &square, 1, &y, 1, NULL)); /* what it lacks may follow */
  OK(braid_graph_add_output(graph, y));
  fail_before();
  assert_int_equal(braid_resolve(graph), BRAID_INVALID_GRAPH);
  assert_non_null(strstr(braid_error_detail(), "node wrong"));
  assert_null(strstr(braid_error_detail(), "first"));
  braid_graph_destroy(graph);
}

static braid_status run_bare(void *context, const braid_task *task) {
  (void)context;
  return task->label ? braid_fail(BRAID_IO, "the first failure") : BRAID_DEVICE_LOST;
}

static void test_queue(void **state) {
  (void)state;
  static const braid_host_queue_ops kOps = {.run = run_bare};
  braid_host_queue *queue;
  braid_timeline *timeline;
  braid_verdict verdicts[2];
  OK(braid_timeline_create(NULL, &timeline));
  OK(braid_host_queue_create(NULL, "test", &kOps, NULL, timeline, &queue));
  braid_task tasks[2] = {{.label = "sentence", .value = 1}, {.label = NULL, .value = 2}};
  for (int i = 0; i < 2; i++) {
    braid_verdict_init(&verdicts[i]);
    tasks[i].verdict = &verdicts[i];
    OK(braid_host_queue_submit(queue, &tasks[i]));
  }
  OK(braid_timeline_wait(timeline, 2, -1));
  assert_int_equal(braid_verdict_status(&verdicts[0]), BRAID_IO);
  assert_string_equal(braid_error_detail(), "the first failure");
  assert_int_equal(braid_verdict_status(&verdicts[1]), BRAID_DEVICE_LOST);
  assert_string_equal(braid_error_detail(), "");
  braid_host_queue_destroy(queue);
  braid_timeline_destroy(timeline);
}

/* A backend's own thread that fails tasks itself. */
static void test_verdict(void **state) {
  (void)state;
  braid_verdict verdict;
  const braid_task task = {.label = "task"};
  braid_verdict_init(&verdict);
  fail_before();
  braid_verdict_fail(&verdict, &task, BRAID_IO);
  assert_string_equal(verdict.detail, "the first failure");
  braid_verdict_init(&verdict);
  braid_verdict_fail(&verdict, &task, BRAID_IO);
  assert_string_equal(verdict.detail, "");
}

/* --- a backend that says nothing ------------------------------------------------------------------------------------
 */
static braid_status enumerate_one(braid_device_info *infos, size_t capacity, size_t *count) {
  *count = 1;
  if (capacity) infos[0] = (braid_device_info){.name = "mute", .kind = "test"};
  return BRAID_OK;
}

static braid_status open_bare(const braid_allocator *allocator, size_t index, const char *options, void **device) {
  (void)allocator, (void)index, (void)options;
  *device = NULL;
  return BRAID_UNSUPPORTED;
}

static void test_backend(void **state) {
  (void)state;
  braid_registry *registry;
  OK(braid_registry_create(NULL, &registry));
  braid_device *device;
  OK(braid_device_open(registry, "cpu", &device));
  braid_backend mute = *braid_device_backend(device); /* its other entries are never called */
  braid_device_close(device);
  mute.name = "mute", mute.enumerate = enumerate_one, mute.open = open_bare;
  OK(braid_registry_add(registry, &mute));
  fail_before();
  assert_int_equal(braid_device_open(registry, "mute", &device), BRAID_UNSUPPORTED);
  assert_string_equal(braid_error_detail(), "device mute: not supported");
  braid_registry_destroy(registry);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory),    cmocka_unit_test(test_prefix),
                                     cmocka_unit_test(test_custom_op), cmocka_unit_test(test_queue),
                                     cmocka_unit_test(test_verdict),   cmocka_unit_test(test_backend)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
