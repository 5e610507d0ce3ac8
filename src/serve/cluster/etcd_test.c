/* The client of etcd against etcd itself: transactions, leases that expire, what is followed through lost connections,
 * members and compactions, and peers that are not etcd. */
#include "serve/cluster/etcd.h"

#include <errno.h>
#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <pthread.h>

#include "base/clock.h"
#include "serve/cluster/etcd_check.h"

static const char kPrefix[] = "/braid-test/";

static braid_etcd *connect_to(const char *endpoints) {
  braid_etcd *etcd;
  assert_int_equal(braid_etcd_create(&(braid_etcd_options){.endpoints = endpoints}, &etcd), BRAID_OK);
  return etcd;
}

/* Puts a key, whenever etcd is ready for it. */
static int64_t put(braid_etcd *etcd, const char *key, const char *value, int64_t lease) {
  bool done = false;
  int64_t revision = 0;
  braid_etcd_op op = {key, value, lease};
  for (int i = 0; i < 20 && !done; i++)
    if (braid_etcd_transact(etcd, NULL, 0, &op, 1, &done, &revision) != BRAID_OK) done = false;
  if (!done) fail_msg("%s", braid_error_detail());
  return revision;
}

static bool key_is(const braid_etcd_key *key, const char *name, const char *value) {
  return key->key_bytes == strlen(name) && memcmp(key->key, name, key->key_bytes) == 0 && key->deleted == !value &&
         (!value || (key->value_bytes == strlen(value) && memcmp(key->value, value, key->value_bytes) == 0));
}

static size_t count_keys(braid_etcd *etcd) {
  braid_etcd_keys keys;
  if (braid_etcd_range(etcd, kPrefix, &keys) != BRAID_OK) fail_msg("%s", braid_error_detail());
  size_t count = keys.count;
  braid_etcd_keys_free(&keys);
  return count;
}

static void test_endpoints(void **state) {
  (void)state;
  static const char *const kWrong[] = {"", "a", ":1", "a:", "a:0", "a:65536", "a:1,", "a:1,,b:2", "a:x"};
  braid_etcd *etcd;
  for (size_t i = 0; i < sizeof kWrong / sizeof *kWrong; i++) {
    assert_int_equal(braid_etcd_create(&(braid_etcd_options){.endpoints = kWrong[i]}, &etcd), BRAID_INVALID_ARGUMENT);
    assert_non_null(strstr(braid_error_detail(), "HOST:PORT"));
    assert_null(etcd);
  }
  braid_etcd_options tls = {.endpoints = "a:1", .certificate = "x"};
  assert_int_equal(braid_etcd_create(&tls, &etcd), BRAID_INVALID_ARGUMENT);
  tls = (braid_etcd_options){.endpoints = "a:1", .authority = "/nowhere.pem"};
  assert_int_equal(braid_etcd_create(&tls, &etcd), BRAID_NOT_FOUND);
}

static void test_transactions(void **state) {
  (void)state;
  etcd_group group;
  etcd_start(&group, 1);
  braid_etcd *etcd = connect_to(group.endpoints);
  bool done;
  int64_t revision;
  put(etcd, "/braid-test/a", "1", 0);
  braid_etcd_compare absent = {.key = "/braid-test/b"};
  braid_etcd_op ops[] = {{"/braid-test/b", "2", 0}, {"/braid-test/a", NULL, 0}};
  assert_int_equal(braid_etcd_transact(etcd, &absent, 1, ops, 2, &done, &revision), BRAID_OK);
  assert_true(done);
  assert_int_equal(braid_etcd_transact(etcd, &absent, 1, ops, 2, &done, NULL), BRAID_OK);
  assert_false(done); /* b is there now */
  braid_etcd_keys keys;
  assert_int_equal(braid_etcd_range(etcd, kPrefix, &keys), BRAID_OK);
  assert_int_equal(keys.count, 1);
  assert_true(key_is(&keys.keys[0], "/braid-test/b", "2"));
  assert_int_equal(keys.keys[0].mod_revision, revision);
  braid_etcd_compare seen[] = {{"/braid-test/b", true, revision},
                               {"/braid-test/b", false, keys.keys[0].create_revision}};
  braid_etcd_op again = {"/braid-test/b", "3", 0};
  assert_int_equal(braid_etcd_transact(etcd, seen, 2, &again, 1, &done, NULL), BRAID_OK);
  assert_true(done);
  assert_int_equal(braid_etcd_transact(etcd, seen, 1, &again, 1, &done, NULL), BRAID_OK);
  assert_false(done); /* somebody has changed it since: fencing */
  braid_etcd_keys_free(&keys);
  put(etcd, "/other/a", "1", 0);
  put(etcd, "/braid-test0", "behind the prefix", 0);
  assert_int_equal(count_keys(etcd), 1);
  braid_etcd_destroy(etcd);
  etcd_stop(&group);
}

static void test_leases(void **state) {
  (void)state;
  etcd_group group;
  etcd_start(&group, 1);
  braid_etcd *etcd = connect_to(group.endpoints);
  int64_t kept, left, ttl;
  put(etcd, "/braid-test/0", "", 0);
  assert_int_equal(braid_etcd_lease(etcd, 2, &kept, &ttl), BRAID_OK);
  assert_true(ttl >= 2);
  assert_int_equal(braid_etcd_lease(etcd, 2, &left, &ttl), BRAID_OK);
  put(etcd, "/braid-test/kept", "", kept);
  put(etcd, "/braid-test/left", "", left);
  assert_int_equal(count_keys(etcd), 3);
  for (int i = 0; i < 10; i++) {
    etcd_pause(400);
    assert_int_equal(braid_etcd_renew(etcd, kept, &ttl), BRAID_OK);
  }
  assert_int_equal(count_keys(etcd), 2); /* the other lease is over, and its key went with it */
  assert_int_equal(braid_etcd_renew(etcd, left, &ttl), BRAID_NOT_FOUND);
  bool done;
  braid_etcd_op op = {"/braid-test/late", "", left};
  assert_int_equal(braid_etcd_transact(etcd, NULL, 0, &op, 1, &done, NULL), BRAID_NOT_FOUND);
  assert_int_equal(braid_etcd_revoke(etcd, kept), BRAID_OK);
  assert_int_equal(count_keys(etcd), 1);
  assert_int_equal(braid_etcd_revoke(etcd, kept), BRAID_NOT_FOUND);
  braid_etcd_destroy(etcd);
  etcd_stop(&group);
}

/* With certificates on both sides; who has none, or trusts another authority, gets no answer. */
static void test_tls(void **state) {
  (void)state;
  etcd_group group;
  char command[512], certificate[64], key[64];
  snprintf(certificate, sizeof certificate, "%s/cert.pem", folder);
  snprintf(key, sizeof key, "%s/key.pem", folder);
  snprintf(command, sizeof command,
           "openssl req -x509 -newkey rsa:2048 -nodes -keyout %s -out %s -days 2 -subj /CN=braid.test "
           "-addext subjectAltName=IP:127.0.0.1 -addext extendedKeyUsage=serverAuth,clientAuth >/dev/null 2>&1",
           key, certificate);
  if (system(command) != 0) skip_test("system", "there is no openssl");
  etcd_start_as(&group, 1, true);
  braid_etcd_options options = {
      .endpoints = group.endpoints, .authority = certificate, .certificate = certificate, .key = key};
  braid_etcd *etcd;
  assert_int_equal(braid_etcd_create(&options, &etcd), BRAID_OK);
  put(etcd, "/braid-test/a", "1", 0);
  assert_int_equal(count_keys(etcd), 1);
  braid_etcd_destroy(etcd);
  for (int i = 0; i < 2; i++) {
    options.certificate = options.key = NULL;
    if (i) options.authority = NULL;
    braid_etcd_keys keys;
    assert_int_equal(braid_etcd_create(&options, &etcd), BRAID_OK);
    assert_int_not_equal(braid_etcd_range(etcd, kPrefix, &keys), BRAID_OK);
    braid_etcd_destroy(etcd);
  }
  etcd_stop(&group);
}

/* --- following -----------------------------------------------------------------------------------------------------
 */
/* The next keys that come within ten seconds, whatever fails meanwhile. */
static braid_etcd_keys next_keys(braid_etcd_follow *follow) {
  braid_etcd_keys keys = {0};
  int64_t until = braid_now_ns() + INT64_C(10000000000);
  while (!keys.count && !keys.all && braid_now_ns() < until)
    if (braid_etcd_follow_next(follow, 100, &keys) != BRAID_OK) etcd_pause(1);
  if (!keys.count && !keys.all) fail_msg("nothing came within 10 s");
  return keys;
}

static void expect_change(braid_etcd_follow *follow, const char *key, const char *value) {
  braid_etcd_keys keys = next_keys(follow);
  assert_false(keys.all);
  assert_int_equal(keys.count, 1);
  assert_true(key_is(&keys.keys[0], key, value));
  braid_etcd_keys_free(&keys);
}

static void test_follow(void **state) {
  (void)state;
  etcd_group group;
  etcd_start(&group, 1);
  braid_etcd *etcd = connect_to(group.endpoints), *other = connect_to(group.endpoints);
  braid_etcd_follow *follow;
  put(other, "/braid-test/a", "1", 0);
  assert_int_equal(braid_etcd_follow_create(etcd, kPrefix, &follow), BRAID_OK);
  braid_etcd_keys keys = next_keys(follow);
  assert_true(keys.all && keys.count == 1 && key_is(&keys.keys[0], "/braid-test/a", "1"));
  braid_etcd_keys_free(&keys);
  put(other, "/braid-test/a", "2", 0);
  expect_change(follow, "/braid-test/a", "2");
  put(other, "/braid-test/a", NULL, 0);
  expect_change(follow, "/braid-test/a", NULL);
  put(other, "/elsewhere", "1", 0);
  assert_int_equal(braid_etcd_follow_next(follow, 100, &keys), BRAID_OK);
  assert_int_equal(keys.count, 0);
  /* etcd dies and comes back: what was changed before we look again is seen, once and in order */
  etcd_kill(&group, 0);
  assert_int_not_equal(braid_etcd_follow_next(follow, 2000, &keys), BRAID_OK);
  assert_non_null(strstr(braid_error_detail(), "watch is lost"));
  etcd_begin(&group, 0);
  put(other, "/braid-test/b", "1", 0);
  put(other, "/braid-test/b", "2", 0);
  put(other, "/braid-test/c", "3", 0);
  size_t seen = 0;
  static const char *const kSeen[][2] = {{"/braid-test/b", "1"}, {"/braid-test/b", "2"}, {"/braid-test/c", "3"}};
  while (seen < 3) {
    keys = next_keys(follow);
    assert_false(keys.all);
    for (size_t i = 0; i < keys.count; i++, seen++) assert_true(key_is(&keys.keys[i], kSeen[seen][0], kSeen[seen][1]));
    braid_etcd_keys_free(&keys);
  }
  braid_etcd_follow_destroy(follow);
  braid_etcd_destroy(etcd);
  braid_etcd_destroy(other);
  etcd_stop(&group);
}

/* What was changed while nobody looked is compacted away: all keys come again. */
static void test_compaction(void **state) {
  (void)state;
  etcd_group group;
  etcd_start(&group, 1);
  braid_etcd *etcd = connect_to(group.endpoints), *other = connect_to(group.endpoints);
  braid_etcd_follow *follow;
  char command[256];
  put(other, "/braid-test/a", "1", 0);
  assert_int_equal(braid_etcd_follow_create(etcd, kPrefix, &follow), BRAID_OK);
  braid_etcd_keys keys = next_keys(follow);
  braid_etcd_keys_free(&keys);
  etcd_kill(&group, 0);
  while (braid_etcd_follow_next(follow, 100, &keys) == BRAID_OK) {
  }
  etcd_begin(&group, 0);
  put(other, "/braid-test/a", "2", 0);
  int64_t last = put(other, "/braid-test/b", "1", 0);
  snprintf(command, sizeof command, "ETCDCTL_API=3 etcdctl --endpoints=%s compact %lld >/dev/null 2>&1",
           group.endpoints, (long long)last);
  if (system(command) != 0) skip_test("etcd", "etcdctl cannot compact (etcd-client)");
  keys = next_keys(follow);
  assert_true(keys.all && keys.count == 2);
  assert_true(key_is(&keys.keys[0], "/braid-test/a", "2") && key_is(&keys.keys[1], "/braid-test/b", "1"));
  braid_etcd_keys_free(&keys);
  put(other, "/braid-test/c", "1", 0);
  expect_change(follow, "/braid-test/c", "1");
  braid_etcd_follow_destroy(follow);
  braid_etcd_destroy(etcd);
  braid_etcd_destroy(other);
  etcd_stop(&group);
}

/* etcd comes back without its data: what it has now is read, and what was there is gone. */
static void test_lost_data(void **state) {
  (void)state;
  etcd_group group;
  etcd_start(&group, 1);
  braid_etcd *etcd = connect_to(group.endpoints), *other = connect_to(group.endpoints);
  braid_etcd_follow *follow;
  char command[256];
  for (int i = 0; i < 20; i++) put(other, "/braid-test/a", "1", 0);
  assert_int_equal(braid_etcd_follow_create(etcd, kPrefix, &follow), BRAID_OK);
  braid_etcd_keys keys = next_keys(follow);
  braid_etcd_keys_free(&keys);
  etcd_kill(&group, 0);
  snprintf(command, sizeof command, "rm -rf %s/etcd-%d", folder, group.members[0].port);
  assert_int_equal(system(command), 0);
  etcd_begin(&group, 0);
  put(other, "/braid-test/b", "2", 0);
  keys = next_keys(follow);
  assert_true(keys.all && keys.count == 1 && key_is(&keys.keys[0], "/braid-test/b", "2"));
  braid_etcd_keys_free(&keys);
  put(other, "/braid-test/c", "1", 0);
  expect_change(follow, "/braid-test/c", "1");
  braid_etcd_follow_destroy(follow);
  braid_etcd_destroy(etcd);
  braid_etcd_destroy(other);
  etcd_stop(&group);
}

/* Three members; the one that we are connected to dies. */
static void test_members(void **state) {
  (void)state;
  etcd_group group;
  etcd_start(&group, 3);
  braid_etcd *etcd = connect_to(group.endpoints);
  braid_etcd_follow *follow;
  int64_t lease, ttl;
  put(etcd, "/braid-test/a", "1", 0);
  assert_int_equal(braid_etcd_follow_create(etcd, kPrefix, &follow), BRAID_OK);
  braid_etcd_keys keys = next_keys(follow);
  braid_etcd_keys_free(&keys);
  assert_int_equal(braid_etcd_lease(etcd, 5, &lease, &ttl), BRAID_OK);
  size_t at = 0;
  char endpoint[32];
  for (size_t i = 0; i < 3; i++) {
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%d", group.members[i].port);
    if (strcmp(endpoint, braid_etcd_endpoint(etcd)) == 0) at = i;
  }
  etcd_kill(&group, at);
  int64_t began = braid_now_ns();
  while (braid_etcd_renew(etcd, lease, &ttl) != BRAID_OK) /* the members elect another leader of theirs meanwhile */
    if (braid_now_ns() - began > INT64_C(4900000000)) fail_msg("%s", braid_error_detail());
  put(etcd, "/braid-test/a", "2", lease);
  expect_change(follow, "/braid-test/a", "2");
  /* Without a majority there is no answer, in time, and a sentence. */
  etcd_kill(&group, (at + 1) % 3);
  etcd_pause(1500);
  began = braid_now_ns();
  bool done;
  braid_etcd_op op = {"/braid-test/a", "3", 0};
  assert_int_not_equal(braid_etcd_transact(etcd, NULL, 0, &op, 1, &done, NULL), BRAID_OK);
  assert_true(braid_now_ns() - began < INT64_C(3000000000));
  assert_non_null(strstr(braid_error_detail(), "etcd at 127.0.0.1:"));
  braid_etcd_follow_destroy(follow);
  braid_etcd_destroy(etcd);
  etcd_stop(&group);
}

/* --- who is not etcd -----------------------------------------------------------------------------------------------
 */
static void expect_failures(const char *endpoints) {
  braid_etcd *etcd;
  braid_etcd_options options = {.endpoints = endpoints, .call_ms = 600, .attempt_ms = 300};
  assert_int_equal(braid_etcd_create(&options, &etcd), BRAID_OK);
  braid_etcd_keys keys;
  braid_etcd_follow *follow;
  bool done;
  int64_t lease, ttl, began = braid_now_ns();
  assert_int_not_equal(braid_etcd_range(etcd, kPrefix, &keys), BRAID_OK);
  assert_int_equal(keys.count, 0);
  assert_non_null(strstr(braid_error_detail(), "etcd at"));
  assert_int_not_equal(braid_etcd_lease(etcd, 2, &lease, &ttl), BRAID_OK);
  assert_int_not_equal(braid_etcd_renew(etcd, 1, &ttl), BRAID_OK);
  assert_int_not_equal(braid_etcd_transact(etcd, NULL, 0, NULL, 0, &done, NULL), BRAID_OK);
  assert_false(done);
  assert_int_equal(braid_etcd_follow_create(etcd, kPrefix, &follow), BRAID_OK);
  assert_int_not_equal(braid_etcd_follow_next(follow, 200, &keys), BRAID_OK);
  assert_true(braid_now_ns() - began < INT64_C(10000000000));
  braid_etcd_follow_destroy(follow);
  braid_etcd_destroy(etcd);
}

static int listen_at(int *out_port) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof at;
  int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(file, (struct sockaddr *)&at, sizeof at), 0);
  assert_int_equal(listen(file, 16), 0);
  assert_int_equal(getsockname(file, (struct sockaddr *)&at, &length), 0);
  *out_port = ntohs(at.sin_port);
  return file;
}

static void *send_rubbish(void *context) {
  int listener = *(int *)context;
  for (;;) {
    int file = accept(listener, NULL, NULL);
    if (file < 0) return NULL;
    (void)!write(file, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 38);
    close(file);
  }
}

static void test_strangers(void **state) {
  (void)state;
  char endpoint[32];
  int port, silent = listen_at(&port);
  snprintf(endpoint, sizeof endpoint, "127.0.0.1:%d", port);
  expect_failures(endpoint); /* takes the connection and says nothing */
  close(silent);
  expect_failures(endpoint); /* nobody listens */
  int rude = listen_at(&port);
  pthread_t thread;
  snprintf(endpoint, sizeof endpoint, "127.0.0.1:%d", port);
  assert_int_equal(pthread_create(&thread, NULL, send_rubbish, &rude), 0);
  expect_failures(endpoint);
  shutdown(rude, SHUT_RDWR);
  pthread_join(thread, NULL);
  close(rude);
}

/* A gRPC server that answers every call with the same bytes. */
typedef struct liar {
  grpc_server *server;
  grpc_completion_queue *queue;
  grpc_slice answer;
} liar;

static void answer_call(const liar *l, grpc_call *call) {
  grpc_completion_queue *queue = l->queue;
  grpc_slice text = l->answer;
  grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&text, 1);
  static int cancelled;
  grpc_op ops[] = {{.op = GRPC_OP_SEND_INITIAL_METADATA},
                   {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = buffer},
                   {.op = GRPC_OP_SEND_STATUS_FROM_SERVER, .data.send_status_from_server.status = GRPC_STATUS_OK},
                   {.op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &cancelled}};
  assert_int_equal(grpc_call_start_batch(call, ops, 4, call, NULL), GRPC_CALL_OK);
  grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  grpc_byte_buffer_destroy(buffer);
  grpc_call_unref(call);
}

static void *liar_main(void *context) {
  liar *l = context;
  for (;;) {
    grpc_call *call = NULL;
    grpc_call_details details;
    grpc_metadata_array metadata;
    grpc_call_details_init(&details);
    grpc_metadata_array_init(&metadata);
    bool asked = grpc_server_request_call(l->server, &call, &details, &metadata, l->queue, l->queue, l) == GRPC_CALL_OK;
    grpc_event event = asked ? grpc_completion_queue_next(l->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL)
                             : (grpc_event){.type = GRPC_QUEUE_SHUTDOWN};
    bool goes_on = event.type == GRPC_OP_COMPLETE && event.tag == l && event.success;
    if (goes_on) {
      answer_call(l, call);
      grpc_slice_unref(details.method);
      grpc_slice_unref(details.host);
    }
    grpc_metadata_array_destroy(&metadata);
    if (!goes_on) return NULL;
  }
}

static void expect_lies(const void *bytes, size_t count) {
  liar l = {.queue = grpc_completion_queue_create_for_next(NULL),
            .answer = grpc_slice_from_copied_buffer(bytes, count)};
  pthread_t thread;
  char endpoint[32];
  l.server = grpc_server_create(NULL, NULL);
  grpc_server_register_completion_queue(l.server, l.queue, NULL);
  grpc_server_credentials *credentials = grpc_insecure_server_credentials_create();
  int port = grpc_server_add_http2_port(l.server, "127.0.0.1:0", credentials);
  grpc_server_credentials_release(credentials);
  grpc_server_start(l.server);
  assert_int_equal(pthread_create(&thread, NULL, liar_main, &l), 0);
  snprintf(endpoint, sizeof endpoint, "127.0.0.1:%d", port);
  expect_failures(endpoint);
  grpc_server_shutdown_and_notify(l.server, l.queue, NULL);
  grpc_server_cancel_all_calls(l.server);
  pthread_join(thread, NULL);
  grpc_completion_queue_shutdown(l.queue);
  while (grpc_completion_queue_next(l.queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type != GRPC_QUEUE_SHUTDOWN) {
  }
  grpc_server_destroy(l.server);
  grpc_completion_queue_destroy(l.queue);
  grpc_slice_unref(l.answer);
}

static void test_lies(void **state) {
  (void)state;
  enum { LONG = BRAID_ETCD_BYTES + 100, MANY = 3 << 20 };
  grpc_init();
  expect_lies("\xff\xff\xff\xff", 4); /* no message */
  uint8_t *bytes = calloc(1, LONG);
  expect_lies(bytes, LONG);                             /* longer than is taken */
  for (size_t i = 0; i < MANY; i += 2) bytes[i] = 0x12; /* a million and a half empty keys, of 100 bytes in memory */
  for (size_t i = 0; i < MANY; i += 2) bytes[i + 1] = 0;
  expect_lies(bytes, MANY);
  free(bytes);
  grpc_shutdown();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_endpoints), cmocka_unit_test(test_transactions), cmocka_unit_test(test_leases),
      cmocka_unit_test(test_tls),       cmocka_unit_test(test_follow),       cmocka_unit_test(test_compaction),
      cmocka_unit_test(test_lost_data), cmocka_unit_test(test_members),      cmocka_unit_test(test_strangers),
      cmocka_unit_test(test_lies),
  };
  return skip_run_group_tests(tests, make_folder, remove_folder);
}
