/* Clients that are broken, rude, slow or killed: what they send is refused with a sentence or cut off, what they held
 * is freed, and others do not notice. */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "serve/wire/wire_check.h"

static const char kConfig[] =
    "max_request_bytes: 100000\n"
    "max_connections: 8\n"
    "receive_ms: 300\n"
    "devices:\n"
    "  - {name: cpu, threads: 1}\n"
    "models:\n"
    "  - {name: lenet, path: " BRAID_MODELS "/lenet.cfg}\n"
    "  - {name: slow, path: " BRAID_MODELS "/lenet.cfg, batch_bits: any, max_batch: 8, delay_ms: 400}\n";

static braid_server *server;
static braid_wire_writer writer;

/* Another client, which gets its answers whatever the others do. */
static void expect_service(void) {
  braid_client *client = wire_connect(wire_address(), NULL);
  braid_client_tensor input = {.name = "input",
                               .dtype = BRAID_CLIENT_F32,
                               .rank = 4,
                               .dims = {1, 1, 28, 28},
                               .data = image[1],
                               .bytes = sizeof image[1]};
  braid_client_call *call;
  size_t count;
  braid_client_launch_options launch = {.model = "lenet", .inputs = &input, .input_count = 1};
  if (braid_client_launch(client, &launch, &call) != BRAID_CLIENT_OK) fail_msg("%s", braid_client_error());
  assert_memory_equal(braid_client_outputs(call, &count)->data, expected[1], sizeof expected[1]);
  braid_client_release(call);
  braid_client_close(client);
  expect_quota(server, 0, 0);
}

static int start(void **state) {
  (void)state;
  server = wire_start(kConfig);
  return 0;
}

static int stop(void **state) {
  (void)state;
  expect_service();
  braid_server_destroy(server, 0);
  braid_wire_free(&writer);
  return 0;
}

/* A launch of lenet with its data, to be sent; returns where its fields end. */
static void write_launch(const char *model, uint64_t id) {
  static braid_wire_launch launch;
  snprintf(launch.model, sizeof launch.model, "%s", model);
  launch.input_count = 1;
  launch.inputs[0] = (braid_wire_tensor){.name = "input", .dtype = 11, .rank = 4, .dims = {1, 1, 28, 28}};
  braid_wire_begin(&writer, BRAID_WIRE_LAUNCH, id);
  braid_wire_put_launch(&writer, &launch);
  braid_wire_put(&writer, image[0], sizeof image[0]);
  braid_wire_end(&writer, 0);
}

/* --- what is no message --------------------------------------------------------------------------------------------
 */
static void test_garbage(void **state) {
  (void)state;
  int file = raw_connect();
  raw_send_with(file, "GET / HTTP/1.1\r\nHost: braid\r\n\r\n", 31, -1);
  raw_expect(file, 400, "begins with BRD1");
  raw_expect_end(file);
  close(file);
  file = raw_hello("");
  uint32_t random = 1;
  char bytes[5000];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)((random = random * 1664525u + 1013904223u) >> 24);
  raw_send_with(file, bytes, sizeof bytes, -1);
  raw_expect(file, 400, NULL);
  raw_expect_end(file);
  close(file);
  file = raw_hello("");
  braid_wire_begin(&writer, 77, 5); /* a kind that there is not */
  raw_send(file, &writer);
  raw_expect(file, 400, "of this kind");
  raw_expect_end(file);
  close(file);
}

static void test_order_and_version(void **state) {
  (void)state;
  static braid_wire_hello hello;
  int file = raw_connect();
  write_launch("lenet", 1);
  raw_send_with(file, writer.data, writer.length, -1);
  raw_expect(file, 401, "begins with a hello");
  raw_expect_end(file);
  close(file);
  file = raw_connect();
  hello.version = BRAID_WIRE_VERSION + 1;
  braid_wire_begin(&writer, BRAID_WIRE_HELLO, 1);
  braid_wire_put_hello(&writer, &hello);
  braid_wire_put(&writer, "what a later version adds", 25);
  raw_send(file, &writer);
  raw_expect(file, 400, "version 2 of the protocol, this daemon");
  raw_expect_end(file);
  close(file);
  file = raw_hello("");
  hello.version = BRAID_WIRE_VERSION;
  braid_wire_begin(&writer, BRAID_WIRE_HELLO, 2);
  braid_wire_put_hello(&writer, &hello);
  raw_send(file, &writer);
  raw_expect(file, 401, "hello already");
  close(file);
}

/* Every length of a launch but the right one is refused, and the connection goes on. */
static void test_truncated(void **state) {
  (void)state;
  int file = raw_hello("");
  write_launch("lenet", 9);
  size_t whole = writer.length;
  uint8_t *copy = malloc(whole + 8);
  memcpy(copy, writer.data, whole);
  memset(copy + whole, 0, 8);
  for (size_t length = BRAID_WIRE_HEADER; length < whole + 8; length += length < 140 || length + 20 > whole ? 1 : 97) {
    if (length == whole) continue;
    uint64_t bytes = length - BRAID_WIRE_HEADER;
    memcpy(copy + 16, &bytes, sizeof bytes);
    raw_send_with(file, copy, length, -1);
    raw_expect(file, 400, "launch: ");
  }
  raw_send_with(file, writer.data, whole, -1);
  raw_expect(file, 200, NULL);
  free(copy);
  close(file);
}

static void test_fields(void **state) {
  (void)state;
  int file = raw_hello("");
  write_launch("lenet", 3);
  for (size_t i = BRAID_WIRE_HEADER; i < 100; i++) { /* each byte of the fields, changed */
    for (int bit = 0; bit < 8; bit++) {
      writer.data[i] ^= (uint8_t)(1 << bit);
      raw_send_with(file, writer.data, writer.length, -1);
      raw_answer answer = raw_receive(file);
      assert_int_not_equal(answer.status.code, 0);
      assert_int_equal(answer.header.id, 3);
      free(answer.body);
      writer.data[i] ^= (uint8_t)(1 << bit);
    }
  }
  raw_send_with(file, writer.data, writer.length, -1);
  raw_expect(file, 200, NULL);
  close(file);
}

static void test_oversized(void **state) {
  (void)state;
  int file = raw_hello("");
  write_launch("lenet", 4);
  uint64_t bytes = 100001;
  memcpy(writer.data + 16, &bytes, sizeof bytes);
  raw_send_with(file, writer.data, writer.length, -1);
  raw_expect(file, 413, "up to 100000 are taken");
  raw_expect_end(file);
  close(file);
  file = raw_hello("");
  bytes = UINT64_MAX;
  memcpy(writer.data + 16, &bytes, sizeof bytes);
  raw_send_with(file, writer.data, writer.length, -1);
  raw_expect(file, 413, NULL);
  close(file);
  file = raw_connect(); /* nothing is kept of whoever has not said who they are */
  bytes = 50000;
  memcpy(writer.data + 16, &bytes, sizeof bytes);
  raw_send_with(file, writer.data, writer.length, -1);
  raw_expect(file, 413, "before the hello");
  close(file);
}

/* --- who keeps others waiting --------------------------------------------------------------------------------------
 */
static void test_slow(void **state) {
  (void)state;
  int silent = raw_connect(), slow = raw_hello("");
  write_launch("lenet", 4);
  for (size_t i = 0; i < 200; i++) { /* a byte each 5 ms: a second in all */
    if (send(slow, writer.data + i, 1, MSG_NOSIGNAL) != 1) break;
    wire_pause(5);
    assert_true(i < 199);
  }
  char byte;
  assert_true(recv(slow, &byte, 1, 0) <= 0);
  assert_true(recv(silent, &byte, 1, 0) <= 0); /* no hello came */
  close(slow);
  close(silent);
  int idle = raw_hello(""); /* between messages a connection may rest */
  wire_pause(700);
  raw_send_with(idle, writer.data, writer.length, -1);
  raw_expect(idle, 200, NULL);
  close(idle);
}

/* Asks and asks, and takes no answer: it is not read any further, and then cut off. */
static void test_answers_that_nobody_takes(void **state) {
  (void)state;
  int file = raw_hello("");
  braid_wire_begin(&writer, BRAID_WIRE_LIST, 1);
  braid_wire_put_text(&writer, "");
  braid_wire_end(&writer, 0);
  assert_int_equal(setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){10, 0}, sizeof(struct timeval)), 0);
  bool ended = false;
  for (int i = 0; i < 1000000 && !ended; i++) ended = send(file, writer.data, writer.length, MSG_NOSIGNAL) <= 0;
  assert_true(ended);
  close(file);
}

static void test_connections_are_limited(void **state) {
  (void)state;
  int files[9];
  for (int i = 0; i < 8; i++) files[i] = raw_hello("");
  files[8] = raw_connect();
  raw_expect(files[8], 503, "8 connections");
  raw_expect_end(files[8]);
  braid_client *client;
  assert_int_equal(braid_client_connect(wire_address(), NULL, &client), BRAID_CLIENT_UNAVAILABLE);
  for (int i = 0; i < 9; i++) close(files[i]);
  wire_pause(100);
  for (int i = 0; i < 9; i++) files[i] = raw_connect(); /* who says nothing keeps nobody out */
  expect_service();
  for (int i = 0; i < 9; i++) close(files[i]);
}

/* --- shared memory -------------------------------------------------------------------------------------------------
 */
static int make_memory(size_t bytes, int seals) {
  int file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_true(file >= 0);
  assert_int_equal(ftruncate(file, (off_t)bytes), 0);
  if (seals) assert_int_equal(fcntl(file, F_ADD_SEALS, seals), 0);
  return file;
}

/* Passes the descriptor (closed afterwards; -1: none) as memory 1. */
static void pass_memory(int file, int passed, uint64_t bytes) {
  braid_wire_begin(&writer, BRAID_WIRE_MEMORY, 7);
  braid_wire_put_number(&writer, 1, 4);
  braid_wire_put_number(&writer, bytes, 8);
  braid_wire_end(&writer, 0);
  raw_send_with(file, writer.data, writer.length, passed);
  if (passed >= 0) close(passed);
}

static void test_memory(void **state) {
  (void)state;
  enum { kSealed = F_SEAL_SHRINK | F_SEAL_GROW };
  int file = raw_hello(""), pipes[2];
  pass_memory(file, make_memory(8192, 0), 8192);
  raw_expect(file, 400, "not sealed");
  pass_memory(file, make_memory(8192, F_SEAL_GROW), 8192);
  raw_expect(file, 400, "not sealed");
  pass_memory(file, make_memory(8192, F_SEAL_SHRINK), 8192);
  raw_expect(file, 400, "not sealed");
  pass_memory(file, make_memory(8192, kSealed), 8193);
  raw_expect(file, 400, "size");
  pass_memory(file, make_memory(0, kSealed), 0);
  raw_expect(file, 400, "size");
  pass_memory(file, -1, 8192);
  raw_expect(file, 400, "no descriptor");
  assert_int_equal(pipe(pipes), 0);
  close(pipes[1]);
  pass_memory(file, pipes[0], 8192);
  raw_expect(file, 400, "memfd_create");
  pass_memory(file, open("/dev/null", O_RDWR), 8192);
  raw_expect(file, 400, "memfd_create");
  pass_memory(file, make_memory((size_t)1 << 40, kSealed), UINT64_C(1) << 40); /* a terabyte of nothing */
  raw_expect(file, 429, NULL);
  expect_quota(server, 0, 0);
  pass_memory(file, make_memory(8192, kSealed), 8192);
  raw_expect(file, 200, NULL);
  expect_quota(server, 0, 8192);
  pass_memory(file, make_memory(8192, kSealed), 8192);
  raw_expect(file, 400, "already");
  close(file);
  expect_quota(server, 0, 0);
}

static void write_shared(uint32_t memory, uint64_t from, uint64_t to, uint64_t room) {
  static braid_wire_launch launch = {.model = "lenet", .input_count = 1, .output_count = 1};
  launch.inputs[0] = (braid_wire_tensor){.name = "input",
                                         .place = BRAID_WIRE_SHARED,
                                         .dtype = 11,
                                         .rank = 4,
                                         .dims = {1, 1, 28, 28},
                                         .memory = memory,
                                         .offset = from,
                                         .bytes = sizeof image[0]};
  launch.outputs[0] =
      (braid_wire_tensor){.name = "output", .place = BRAID_WIRE_SHARED, .memory = memory, .offset = to, .bytes = room};
  braid_wire_begin(&writer, BRAID_WIRE_LAUNCH, 8);
  braid_wire_put_launch(&writer, &launch);
  braid_wire_end(&writer, 0);
}

static void test_places_in_memory(void **state) {
  (void)state;
  static const struct {
    uint32_t memory;
    uint64_t from, to, room;
    unsigned code;
  } kCases[] = {{1, 0, 4096, 40, 200},        {2, 0, 4096, 40, 404},           {1, 8192 - 3136, 0, 40, 200},
                {1, 8192 - 3135, 0, 40, 400}, {1, 0, 8192 - 39, 40, 400},      {1, UINT64_MAX, 0, 40, 400},
                {1, 1 << 20, 0, 40, 400},     {1, 0, UINT64_MAX - 8, 40, 400}, {1, 0, 4096, 39, 400}};
  int file = raw_hello("");
  pass_memory(file, make_memory(8192, F_SEAL_SHRINK | F_SEAL_GROW), 8192);
  raw_expect(file, 200, NULL);
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    write_shared(kCases[i].memory, kCases[i].from, kCases[i].to, kCases[i].room);
    raw_send_with(file, writer.data, writer.length, -1);
    raw_expect(file, kCases[i].code, NULL);
  }
  int other = raw_hello(""); /* memory is of its connection */
  write_shared(1, 0, 4096, 40);
  raw_send_with(other, writer.data, writer.length, -1);
  raw_expect(other, 404, "no memory 1");
  close(other);
  close(file);
}

static void test_memory_that_may_not_be_written(void **state) {
  (void)state;
  int file = raw_hello("");
  pass_memory(file, make_memory(8192, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 8192);
  raw_expect(file, 200, NULL);
  write_shared(1, 0, 4096, 40);
  raw_send_with(file, writer.data, writer.length, -1);
  raw_expect(file, 400, "sealed against writing");
  close(file);
}

/* Descriptors that belong to no message are not kept beyond a few. */
static void test_descriptors_without_a_message(void **state) {
  (void)state;
  int file = raw_hello("");
  write_launch("lenet", 1);
  for (int i = 0; i < 200; i++) {
    int passed = make_memory(64, 0);
    raw_send_with(file, writer.data, writer.length, passed);
    close(passed);
    raw_expect(file, 200, NULL);
  }
  int open_files = 0;
  for (int i = 3; i < 500; i++) open_files += fcntl(i, F_GETFD) >= 0;
  assert_true(open_files < 100);
  close(file);
}

/* --- who goes ------------------------------------------------------------------------------------------------------
 */
static void test_gone_while_requests_wait(void **state) {
  (void)state;
  int file = raw_hello("");
  pass_memory(file, make_memory(8192, F_SEAL_SHRINK | F_SEAL_GROW), 8192);
  raw_expect(file, 200, NULL);
  for (uint64_t i = 0; i < 5; i++) {
    write_launch("slow", 10 + i);
    raw_send_with(file, writer.data, writer.length, -1);
  }
  for (int i = 0; i < 1000; i++) { /* until the daemon has them */
    braid_serve_load load = braid_serve_scheduler_load(server->scheduler, 0);
    if (load.waiting == 5) break;
    wire_pause(1);
  }
  write_launch("lenet", 30); /* half of a message, too */
  raw_send_with(file, writer.data, writer.length / 2, -1);
  close(file);
  expect_quota(server, 0, 0);
  pthread_mutex_lock(&server->tenants[0].lock);
  assert_true(server->tenants[0].usage.cancelled >= 5);
  assert_int_equal(server->tenants[0].in_flight, 0);
  pthread_mutex_unlock(&server->tenants[0].lock);
}

/* What a child does until it is killed. */
static void launch_for_ever(int ready) {
  char byte;
  braid_client *client;
  braid_client_memory *memory;
  if (read(ready, &byte, 1) != 1 || braid_client_connect(wire_address(), NULL, &client) != BRAID_CLIENT_OK) _exit(1);
  if (braid_client_memory_create(client, 1 << 16, &memory) != BRAID_CLIENT_OK) _exit(2);
  braid_client_tensor input = {.name = "input",
                               .dtype = BRAID_CLIENT_F32,
                               .rank = 4,
                               .dims = {1, 1, 28, 28},
                               .memory = memory,
                               .bytes = sizeof image[0]},
                      output = {.name = "output", .memory = memory, .offset = 8192, .bytes = 40};
  braid_client_launch_options launch = {
      .model = "lenet", .inputs = &input, .input_count = 1, .outputs = &output, .output_count = 1};
  for (;;) {
    enum { kAtOnce = 4 };
    braid_client_call *calls[kAtOnce] = {NULL};
    for (int i = 0; i < kAtOnce; i++) (void)braid_client_submit(client, &launch, &calls[i]);
    for (int i = 0; i < kAtOnce; i++)
      if (calls[i] && braid_client_wait(calls[i], -1) != BRAID_CLIENT_OK) _exit(3);
    for (int i = 0; i < kAtOnce; i++) braid_client_release(calls[i]);
  }
}

static void test_killed(void **state) {
  (void)state;
  enum { kChildren = 4 };
  int ready[2], status;
  pid_t children[kChildren];
  assert_int_equal(pipe(ready), 0);
  for (int i = 0; i < kChildren; i++) { /* before the daemon has threads */
    children[i] = fork();
    assert_true(children[i] >= 0);
    if (!children[i]) launch_for_ever(ready[0]);
  }
  server = wire_start(kConfig);
  assert_int_equal(write(ready[1], "....", kChildren), kChildren);
  for (int i = 0; i < kChildren; i++) {
    wire_pause(40 + 13 * i);
    kill(children[i], SIGKILL);
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_true(WIFSIGNALED(status)); /* it was at work */
  }
  close(ready[0]);
  close(ready[1]);
  expect_quota(server, 0, 0);
}

/* A socket of a daemon that was killed is taken over; one of a daemon that lives is not, and no other file. */
static void test_socket_files(void **state) {
  (void)state;
  braid_server *second;
  char config[128];
  snprintf(config, sizeof config, "%s/serve.yaml", folder);
  braid_server_options options = {.config = config, .port = -1, .socket = wire_path()};
  assert_int_not_equal(braid_server_create(&options, &second), BRAID_OK);
  assert_non_null(strstr(braid_error_detail(), "another program listens"));
  char path[140];
  snprintf(path, sizeof path, "%s/dead.sock", folder);
  options.socket = path;
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  snprintf(to.sun_path, sizeof to.sun_path, "%.100s", path);
  int dead = socket(AF_UNIX, SOCK_STREAM, 0);
  assert_int_equal(bind(dead, (struct sockaddr *)&to, sizeof to), 0);
  close(dead);
  assert_int_equal(braid_server_create(&options, &second), BRAID_OK);
  braid_server_destroy(second, 0);
  FILE *file = fopen(path, "w");
  fclose(file);
  assert_int_not_equal(braid_server_create(&options, &second), BRAID_OK);
  assert_int_equal(access(path, F_OK), 0);
  char longer[300];
  memset(longer, 'x', sizeof longer);
  longer[0] = '/';
  longer[299] = '\0';
  options.socket = longer;
  assert_int_not_equal(braid_server_create(&options, &second), BRAID_OK);
}

static int prepare(void **state) {
  if (make_folder(state)) return -1;
  compute_expected();
  return 0;
}

int main(void) {
#define WITH_DAEMON(test) cmocka_unit_test_setup_teardown(test, start, stop)
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_killed, stop),
      WITH_DAEMON(test_garbage),
      WITH_DAEMON(test_order_and_version),
      WITH_DAEMON(test_truncated),
      WITH_DAEMON(test_fields),
      WITH_DAEMON(test_oversized),
      WITH_DAEMON(test_slow),
      WITH_DAEMON(test_answers_that_nobody_takes),
      WITH_DAEMON(test_connections_are_limited),
      WITH_DAEMON(test_memory),
      WITH_DAEMON(test_places_in_memory),
      WITH_DAEMON(test_memory_that_may_not_be_written),
      WITH_DAEMON(test_descriptors_without_a_message),
      WITH_DAEMON(test_gone_while_requests_wait),
      WITH_DAEMON(test_socket_files),
  };
  return skip_run_group_tests(tests, prepare, remove_folder);
}
