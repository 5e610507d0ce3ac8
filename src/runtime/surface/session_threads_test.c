/* One session, several threads: what comes second is refused, says what was first, and changes nothing. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "braid/custom.h"
#include "braid/session.h"
#include "oom.h"

#define OK(expression)                                                                                                 \
  do {                                                                                                                 \
    braid_status ok_status_ = (expression);                                                                            \
    if (ok_status_ != BRAID_OK) fail_msg("%s: %s", braid_status_text(ok_status_), braid_error_detail());               \
  } while (0)

enum { kCount = 64, kThreads = 4, kRounds = 300 };

/* --- an op that stays in its run until it is let go ----------------------------------------------------------------
 */
static atomic_bool inside, hold, fail_now; /* read on the queue's thread */

static void pause_a_little(void) {
  nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

static braid_status infer_same(const braid_attrs *attrs, const braid_desc *const *inputs, size_t input_count,
                               braid_desc *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  outputs[0] = *inputs[0];
  return BRAID_OK;
}

static braid_status add(const braid_attrs *attrs, const braid_custom_array *inputs, size_t input_count,
                        const braid_custom_array *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  for (inside = true; hold;) pause_a_little();
  if (fail_now) return braid_fail(BRAID_NOT_FINITE, "broken on purpose");
  for (int i = 0; i < kCount; i++)
    ((float *)outputs[0].data)[i] = ((const float *)inputs[0].data)[i] + ((const float *)inputs[1].data)[i];
  return BRAID_OK;
}

static const braid_custom_op kAdd = {"test.HeldAdd", 2, 2, 1, infer_same, add};

/* y = x + p, then Relu and Neg, so that there is memory to be shared. */
static braid_session *open_session(int64_t timeout_ms) {
  braid_graph *graph;
  braid_session *session;
  braid_tensor *tensor;
  braid_desc desc;
  braid_value_id ids[2], y = 0;
  int64_t count = kCount;
  OK(braid_graph_create(NULL, "threads", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 1, &count));
  OK(braid_graph_add_input(graph, "x", &desc, &ids[0]));
  OK(braid_tensor_create(NULL, &desc, &tensor));
  memset(braid_tensor_data(tensor), 0, kCount * sizeof(float));
  OK(braid_graph_add_tensor(graph, "p", BRAID_VALUE_PARAMETER, tensor, &ids[1]));
  braid_tensor_release(tensor);
  OK(braid_graph_add_node(graph, "test.HeldAdd", NULL, ids, 2, &y, 1, NULL));
  for (int i = 0; i < 6; i++) {
    braid_value_id next = 0;
    OK(braid_graph_add_node(graph, i % 2 ? "Neg" : "Abs", NULL, &y, 1, &next, 1, NULL));
    y = next;
  }
  OK(braid_graph_add_output(graph, y));
  OK(braid_session_create(graph, &(braid_session_options){.training = true, .threads = 1, .timeout_ms = timeout_ms},
                          &session));
  braid_graph_destroy(graph);
  return session;
}

typedef struct one_run {
  braid_session *session;
  float x[kCount], y[kCount];
  braid_status status;
} one_run;

static void *run_once(void *context) {
  one_run *r = context;
  r->status = braid_session_run(r->session, (const void *[]){r->x}, (void *[]){r->y});
  return NULL;
}

static void start(one_run *r, braid_session *session, float first, pthread_t *thread) {
  *r = (one_run){.session = session};
  for (int i = 0; i < kCount; i++) r->x[i] = first + (float)i;
  inside = false;
  hold = true;
  assert_int_equal(pthread_create(thread, NULL, run_once, r), 0);
  while (!inside) pause_a_little();
}

static void finish(one_run *r, pthread_t thread) {
  hold = false;
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(r->status, BRAID_OK);
  for (int i = 0; i < kCount; i++) assert_true(r->y[i] == -r->x[i]);
}

static void check_refused(braid_status status, const char *call) {
  assert_int_equal(status, BRAID_BUSY);
  assert_memory_equal(braid_error_detail(), call, strlen(call));
  assert_non_null(strstr(braid_error_detail(), "while braid_session_run of the same session is under way"));
}

/* --- tests ---------------------------------------------------------------------------------------------------------
 */
static braid_tensor *parameter(float all) {
  braid_desc desc;
  braid_tensor *tensor;
  int64_t count = kCount;
  OK(braid_desc_init(&desc, BRAID_F32, 1, &count));
  OK(braid_tensor_create(NULL, &desc, &tensor));
  for (int i = 0; i < kCount; i++) ((float *)braid_tensor_data(tensor))[i] = all;
  return tensor;
}

static void test_every_call(void **state) {
  (void)state;
  braid_session *session = open_session(0);
  braid_tensor *tensor = parameter(5);
  one_run first;
  pthread_t thread;
  float y[kCount] = {77};
  start(&first, session, 1, &thread);
  check_refused(braid_session_run(session, (const void *[]){first.x}, (void *[]){y}), "braid_session_run");
  check_refused(braid_session_read(session, "p", tensor), "braid_session_read");
  check_refused(braid_session_write(session, "p", tensor), "braid_session_write");
  check_refused(braid_session_pin(session, y, sizeof y), "braid_session_pin");
  check_refused(braid_session_unpin(session, y), "braid_session_unpin");
  check_refused(braid_session_save_trace(session), "braid_session_save_trace");
  assert_int_equal(braid_session_output_count(session), 1); /* reports are given all the time */
  assert_true(braid_session_get_stats(session).nodes >= 7);
  for (size_t i = 0; i < braid_session_plan_count(session); i++) assert_non_null(braid_session_plan(session, i).kernel);
  assert_true(y[0] == 77);
  finish(&first, thread);
  OK(braid_session_pin(session, y, sizeof y));
  OK(braid_session_unpin(session, y));
  OK(braid_session_read(session, "p", tensor)); /* not what was refused to be written */
  for (int i = 0; i < kCount; i++) assert_true(((float *)braid_tensor_data(tensor))[i] == 0);
  braid_tensor_release(tensor);
  braid_session_destroy(session);
}

/* However a run ends, the next one is let in. */
static void test_after_failures(void **state) {
  (void)state;
  braid_session *session = open_session(20);
  one_run r = {.session = session};
  fail_now = true;
  run_once(&r);
  assert_int_equal(r.status, BRAID_NOT_FINITE);
  fail_now = false;
  assert_int_equal(braid_session_run(session, NULL, NULL), BRAID_INVALID_ARGUMENT);
  pthread_t thread;
  start(&r, session, 1, &thread);
  nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
  hold = false; /* over its time, but not lost */
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(r.status, BRAID_TIMEOUT);
  braid_tensor *tensor = parameter(0);
  OK(braid_session_read(session, "p", tensor));
  braid_tensor_release(tensor);
  braid_session_destroy(session);
}

static void test_destroyed_under_way(void **state) {
  (void)state;
  braid_session *session = open_session(0);
  one_run r;
  pthread_t thread;
  start(&r, session, 3, &thread);
  hold = false;
  braid_session_destroy(session); /* waits for the run */
  finish(&r, thread);
}

typedef struct worker {
  braid_session *session;
  int number, done, refused, wrong;
} worker;

/* What is not refused is right. The parameter is 0 or 1000 in all its elements, so is what was added. */
static void *work(void *context) {
  worker *w = context;
  float x[kCount], y[kCount];
  braid_tensor *tensor = parameter(w->number % 2 ? 1000 : 0);
  for (int round = 0; round < kRounds; round++) {
    for (int i = 0; i < kCount; i++) x[i] = (float)(w->number * kRounds + round + i);
    braid_status status = round % 8 == 7 ? braid_session_write(w->session, "p", tensor)
                                         : braid_session_run(w->session, (const void *[]){x}, (void *[]){y});
    bool ran = status == BRAID_OK && round % 8 != 7;
    float added = ran ? -y[0] - x[0] : 0;
    w->wrong += status != BRAID_OK && status != BRAID_BUSY;
    w->wrong += added != 0 && added != 1000;
    for (int i = 0; ran && i < kCount; i++) w->wrong += y[i] != -(x[i] + added);
    w->done += status == BRAID_OK;
    w->refused += status == BRAID_BUSY;
  }
  braid_tensor_release(tensor);
  return NULL;
}

static void test_many(void **state) {
  (void)state;
  braid_session *session = open_session(0);
  worker workers[kThreads];
  pthread_t threads[kThreads];
  int done = 0, refused = 0;
  for (int i = 0; i < kThreads; i++) {
    workers[i] = (worker){.session = session, .number = i};
    assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < kThreads; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(workers[i].wrong, 0);
    done += workers[i].done, refused += workers[i].refused;
  }
  assert_int_equal(done + refused, kThreads * kRounds);
  assert_true(done > 0);
  print_message("%d calls done, %d refused\n", done, refused);
  braid_session_destroy(session);
}

int main(void) {
  if (braid_custom_op_register(&kAdd) != BRAID_OK) return 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_call), cmocka_unit_test(test_after_failures),
                                     cmocka_unit_test(test_destroyed_under_way), cmocka_unit_test(test_many)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
