/* Requests that whoever submits them runs: only where nobody waits for it, with the bits of all others, also among
 * others that go through the workers, and when the scheduler ends meanwhile. */
#include <pthread.h>

#include "base/clock.h"
#include "serve/serve_check.h"
#include "serve/server.h"

enum { kIn = 16, kOut = 4, kOutBytes = kOut * 4, kThreads = 4, kRequests = 300 };
/* Short also where it is instrumented. */
static const char kSmall[] = "[net]\nheight=4\nwidth=4\nchannels=1\n[connected]\noutput=4\nactivation=linear\n";
typedef struct ask {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int done;
  pthread_t by;
} ask;

static uint8_t expected[kOutBytes];

static void on_done(braid_serve_request *request) {
  ask *a = request->context;
  pthread_mutex_lock(&a->lock);
  a->done++;
  a->by = pthread_self();
  pthread_cond_signal(&a->changed);
  pthread_mutex_unlock(&a->lock);
}

/* One request; returns its verdict, and whether this thread ran it in *out_here. */
static braid_serve_verdict ask_once(braid_server *server, const char *model, bool here, int64_t deadline_ns,
                                    bool *out_here) {
  char detail[BRAID_SERVE_DETAIL];
  braid_serve_request *request;
  braid_serve_tensor *tensor;
  ask a = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  braid_serve_verdict verdict = braid_serve_begin(server, server->tenants, model, NULL, &request, detail);
  if (verdict != BRAID_SERVE_DONE) return verdict;
  if (braid_serve_request_input(request, "input", BRAID_F32, 4, (int64_t[]){1, 1, 4, 4}, &tensor) != BRAID_SERVE_DONE)
    fail_msg("%s", request->detail);
  for (int i = 0; i < kIn; i++) ((float *)tensor->data)[i] = (float)(i % 17) / 17;
  request->context = &a;
  request->done = on_done;
  request->deadline_ns = deadline_ns;
  if (here)
    braid_serve_submit_here(server->scheduler, request);
  else
    braid_serve_submit(server->scheduler, request);
  pthread_mutex_lock(&a.lock);
  *out_here = a.done && pthread_equal(a.by, pthread_self());
  while (!a.done) pthread_cond_wait(&a.changed, &a.lock);
  pthread_mutex_unlock(&a.lock);
  verdict = request->verdict;
  static const uint8_t kNone[kOutBytes];
  if (verdict == BRAID_SERVE_DONE && memcmp(expected, kNone, kOutBytes) == 0)
    memcpy(expected, request->outputs[0].data, kOutBytes);
  if (verdict == BRAID_SERVE_DONE && memcmp(expected, request->outputs[0].data, kOutBytes) != 0) fail_msg("other bits");
  braid_serve_request_destroy(request);
  assert_int_equal(a.done, 1);
  return verdict;
}

/* Models are short by what their runs took, which on a busy machine may be too long once. */
static bool is_run_here(braid_server *server, const char *model) {
  bool here = false;
  for (int i = 0; i < 300 && !here; i++) assert_int_equal(ask_once(server, model, true, 0, &here), BRAID_SERVE_DONE);
  return here;
}

/* A daemon of this device, with the small model twice; `many` puts requests together. */
static braid_server *start_with(const char *device) {
  char config[1024], path[128];
  snprintf(path, sizeof path, "%s/small.cfg", folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(kSmall, file);
  fclose(file);
  snprintf(config, sizeof config,
           "devices:\n  - {name: cpu, %s}\nmodels:\n  - {name: small, path: %s}\n"
           "  - {name: many, path: %s, batch_bits: any, max_batch: 4}\n",
           device, path, path);
  return serve_start(config);
}

static void test_where(void **state) {
  (void)state;
  bool here;
  braid_server *server = start_with("threads: 1");
  assert_int_equal(ask_once(server, "small", false, 0, &here), BRAID_SERVE_DONE);
  assert_false(here);
  assert_true(is_run_here(server, "small"));
  assert_false(is_run_here(server, "many")); /* its requests share runs */
  assert_int_not_equal(ask_once(server, "small", true, braid_now_ns() + 1, &here), BRAID_SERVE_DONE);
  assert_int_equal(ask_once(server, "small", true, braid_now_ns() + INT64_C(5000000000), &here), BRAID_SERVE_DONE);
  braid_server_destroy(server, 0);
  /* A card, or a device of another host, may hang in the middle: `null` stands for both. */
  static const char *const kOthers[] = {"threads: 2", "threads: 1, instances: 2", "threads: 1, device: cpu null"};
  for (size_t i = 0; i < sizeof kOthers / sizeof *kOthers; i++) {
    server = start_with(kOthers[i]);
    assert_false(is_run_here(server, "small"));
    braid_server_destroy(server, 0);
  }
}

typedef struct asker {
  braid_server *server;
  bool here;
  int done, refused;
} asker;

static void *ask_many(void *context) {
  asker *a = context;
  bool here;
  for (int i = 0; i < kRequests; i++) {
    braid_serve_verdict verdict = ask_once(a->server, "small", a->here, 0, &here);
    a->done += verdict == BRAID_SERVE_DONE;
    a->refused += verdict == BRAID_SERVE_UNAVAILABLE;
  }
  return NULL;
}

static void ask_together(bool ends) {
  asker askers[kThreads];
  pthread_t threads[kThreads];
  int done = 0, refused = 0;
  bool here;
  braid_server *server = start_with("threads: 1");
  assert_int_equal(ask_once(server, "small", false, 0, &here), BRAID_SERVE_DONE);
  for (int i = 0; i < kThreads; i++) {
    askers[i] = (asker){.server = server, .here = i % 2 == 0};
    assert_int_equal(pthread_create(&threads[i], NULL, ask_many, &askers[i]), 0);
  }
  if (ends) nanosleep(&(struct timespec){0, 20000000}, NULL);
  if (ends) braid_serve_scheduler_end(server->scheduler, 0);
  for (int i = 0; i < kThreads; i++) {
    pthread_join(threads[i], NULL);
    done += askers[i].done;
    refused += askers[i].refused;
  }
  assert_int_equal(done + refused, kThreads * kRequests);
  if (!ends) assert_int_equal(refused, 0);
  braid_serve_load load = braid_serve_scheduler_load(server->scheduler, 0);
  assert_int_equal(load.waiting, 0);
  assert_int_equal(load.running, 0);
  braid_server_destroy(server, 0);
}

static void test_together(void **state) {
  (void)state;
  ask_together(false);
}

static void test_end(void **state) {
  (void)state;
  for (int i = 0; i < 5; i++) ask_together(true);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_where), cmocka_unit_test(test_together),
                                     cmocka_unit_test(test_end)};
  return skip_run_group_tests(tests, make_folder, remove_folder);
}
