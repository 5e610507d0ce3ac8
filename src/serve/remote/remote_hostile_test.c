/* Clients of remote devices that are broken or hostile: whatever they say of nodes, tasks, handles and sizes, they get
 * a sentence or are cut off, nothing is read or written that is not theirs, what they had is freed, and others do not
 * notice. */
#include "backend/remote/remote_format.h"
#include "serve/wire/wire_check.h"

static const char kConfig[] = "max_request_bytes: 100000\n"
                              "receive_ms: 300\n"
                              "devices:\n"
                              "  - {name: cpu, device: cpu, threads: 1, remote: true}\n"
                              "models:\n"
                              "  - {name: lenet, path: " BRAID_MODELS "/lenet.cfg, lazy: true}\n"
                              "tenants:\n"
                              "  - {name: user, token: secret, remote: true, max_bytes: 1000000}\n"
                              "  - {name: other, token: else}\n";

static braid_server *server;
static braid_wire_writer writer;
static uint64_t ids;

static int start(void **state) {
  (void)make_folder(state);
  server = wire_start(kConfig);
  return 0;
}

static int stop(void **state) {
  braid_server_destroy(server, 0);
  braid_wire_free(&writer);
  return remove_folder(state);
}

/* --- messages ------------------------------------------------------------------------------------------------------
 */
static int open_device(const char *token) {
  int file = raw_hello(token);
  braid_remote_open open = {.version = BRAID_REMOTE_VERSION, .device = "cpu"};
  braid_wire_begin(&writer, BRAID_WIRE_DEVICE, 2);
  braid_remote_put_open(&writer, &open);
  raw_send(file, &writer);
  return file;
}

/* What becomes of the request for a device, behind signs of life. */
static braid_wire_status receive_opening(int file) {
  static uint8_t body[BRAID_WIRE_SMALL];
  uint8_t bytes[BRAID_WIRE_HEADER];
  braid_wire_header header;
  braid_wire_status status;
  do {
    assert_true(raw_read(file, bytes, sizeof bytes));
  } while (!braid_remote_get_header(bytes, &header));
  assert_null(braid_wire_get_header(bytes, &header));
  assert_true(header.bytes <= sizeof body && raw_read(file, body, (size_t)header.bytes));
  braid_wire_reader reader = {.data = body, .bytes = (size_t)header.bytes};
  braid_wire_get_status(&reader, &status);
  assert_null(reader.wrong);
  return status;
}

/* Sessions that have ended leave the list when their threads have seen it. */
static int connect_device(void) {
  for (int i = 0; i < 1000; i++) {
    int file = open_device("secret");
    braid_wire_status status = receive_opening(file);
    if (status.code == 200) return file;
    close(file);
    if (status.code != 429) fail_msg("%u %s", status.code, status.detail);
    wire_pause(10);
  }
  fail_msg("sessions of clients that have gone are not freed");
  return -1;
}

static void begin(unsigned kind) {
  braid_wire_begin(&writer, kind, ++ids);
}

typedef struct reply {
  braid_status status; /* INTERNAL: the connection was closed without an answer */
  char detail[BRAID_WIRE_DETAIL];
  uint8_t body[4096];
  size_t bytes;
} reply;

/* The answer that is no sign of life. */
static reply receive(int file) {
  reply r = {.status = BRAID_INTERNAL};
  braid_wire_header header;
  uint8_t bytes[BRAID_WIRE_HEADER];
  do {
    if (!raw_read(file, bytes, sizeof bytes)) return r;
    assert_null(braid_remote_get_header(bytes, &header));
  } while (header.kind == (BRAID_REMOTE_BUSY | BRAID_WIRE_REPLY));
  assert_int_equal(header.id, ids);
  static uint8_t body[1 << 20];
  assert_true(header.bytes <= sizeof body && raw_read(file, body, (size_t)header.bytes));
  braid_wire_reader reader = {.data = body, .bytes = (size_t)header.bytes};
  r.status = braid_remote_get_status(&reader, r.detail);
  assert_null(reader.wrong);
  r.bytes = reader.bytes - reader.at;
  memcpy(r.body, body + reader.at, r.bytes < sizeof r.body ? r.bytes : sizeof r.body);
  return r;
}

static reply ask(int file) {
  raw_send(file, &writer);
  return receive(file);
}

static void expect(int file, braid_status status, const char *text) {
  reply r = ask(file);
  if (r.status != status || (text && !strstr(r.detail, text)))
    fail_msg("%s \"%s\", not %s \"%s\"", braid_status_text(r.status), r.detail, braid_status_text(status), text);
}

static uint32_t expect_handle(int file) {
  reply r = ask(file);
  if (r.status != BRAID_OK) fail_msg("%s: %s", braid_status_text(r.status), r.detail);
  uint32_t handle;
  memcpy(&handle, r.body, sizeof handle);
  return handle;
}

static uint32_t make_buffer(int file, uint64_t bytes) {
  begin(BRAID_REMOTE_BUFFER);
  braid_wire_put_number(&writer, bytes, 8);
  return expect_handle(file);
}

/* The session works, and another client gets a device. */
static void expect_service(int file) {
  (void)make_buffer(file, 100);
  int other = connect_device();
  (void)make_buffer(other, 100);
  close(other);
}

/* --- nodes ---------------------------------------------------------------------------------------------------------
 */
static uint32_t kernel_for(int file, const char *op) {
  begin(BRAID_REMOTE_KERNELS);
  raw_send(file, &writer);
  braid_wire_header header;
  uint8_t bytes[BRAID_WIRE_HEADER];
  static uint8_t body[1 << 20];
  do {
    assert_true(raw_read(file, bytes, sizeof bytes));
    assert_null(braid_remote_get_header(bytes, &header));
  } while (header.kind == (BRAID_REMOTE_BUSY | BRAID_WIRE_REPLY));
  assert_true(header.bytes <= sizeof body && raw_read(file, body, (size_t)header.bytes));
  braid_wire_reader reader = {.data = body, .bytes = (size_t)header.bytes};
  char detail[BRAID_WIRE_DETAIL];
  assert_int_equal(braid_remote_get_status(&reader, detail), BRAID_OK);
  uint32_t count = (uint32_t)braid_wire_get_number(&reader, 4), found = count;
  for (uint32_t i = 0; i < count; i++) {
    braid_remote_kernel kernel;
    braid_remote_get_kernel(&reader, &kernel);
    if (found == count && strcmp(kernel.op, op) == 0) found = i;
  }
  assert_null(braid_wire_finish(&reader));
  assert_true(found < count);
  return found;
}

typedef struct shape {
  int rank;
  int64_t dims[BRAID_MAX_RANK];
} shape;

static void put_tensor(braid_dtype dtype, shape of) {
  braid_wire_put_number(&writer, BRAID_REMOTE_PRESENT, 1);
  braid_wire_put_number(&writer, dtype, 1);
  braid_wire_put_number(&writer, (uint64_t)of.rank, 1);
  braid_wire_put_number(&writer, 0, 8);
  for (int i = 0; i < of.rank; i++) braid_wire_put_number(&writer, (uint64_t)of.dims[i], 8);
}

static void put_head(const char *op, uint64_t attrs, uint64_t inputs, uint64_t outputs) {
  braid_wire_put_text(&writer, op);
  braid_wire_put_text(&writer, "node");
  braid_wire_put_number(&writer, 0, 1);
  braid_wire_put_number(&writer, 0, 4);
  braid_wire_put_number(&writer, attrs, 2);
  braid_wire_put_number(&writer, inputs, 2);
  braid_wire_put_number(&writer, outputs, 2);
}

static void put_relu(shape in, shape out) {
  put_head("Relu", 0, 1, 1);
  put_tensor(BRAID_F32, in);
  put_tensor(BRAID_F32, out);
}

static void test_nodes(void **state) {
  (void)state;
  int file = connect_device();
  uint32_t relu = kernel_for(file, "Relu");
  begin(BRAID_REMOTE_MATCH);
  put_relu((shape){2, {4, 4}}, (shape){2, {4, 4}});
  expect(file, BRAID_OK, NULL);
  begin(BRAID_REMOTE_MATCH);
  put_relu((shape){2, {4, 4}}, (shape){2, {4, 400}});
  expect(file, BRAID_INVALID_GRAPH, "output 0 is given as float32[4,400], and is float32[4,4]");
  begin(BRAID_REMOTE_PREPARE);
  braid_wire_put_number(&writer, relu, 4);
  put_relu((shape){2, {4, 4}}, (shape){1, {16}});
  expect(file, BRAID_INVALID_GRAPH, "output 0");
  begin(BRAID_REMOTE_MATCH);
  put_relu((shape){2, {INT64_MAX, 4}}, (shape){2, {4, 4}});
  expect(file, BRAID_INVALID_ARGUMENT, "too large");
  begin(BRAID_REMOTE_MATCH);
  put_relu((shape){1, {-1}}, (shape){1, {4}});
  expect(file, BRAID_INVALID_ARGUMENT, "negative");
  begin(BRAID_REMOTE_MATCH);
  put_relu((shape){1, {1 << 20}}, (shape){1, {1 << 20}});
  expect(file, BRAID_OUT_OF_RANGE, "tenant user may have 1000000");
  static const char *const kOps[] = {"AllReduce", "Region", "(custom)", "NoSuchOp", ""};
  for (size_t i = 0; i < sizeof kOps / sizeof *kOps; i++) {
    begin(BRAID_REMOTE_MATCH);
    put_head(kOps[i], 0, 0, 0);
    expect(file, BRAID_UNSUPPORTED, "is none that a remote device has");
  }
  begin(BRAID_REMOTE_MATCH);
  put_head("Conv", 0, 1, 1);
  put_tensor(BRAID_F32, (shape){4, {1, 1, 4, 4}});
  put_tensor(BRAID_F32, (shape){4, {1, 1, 4, 4}});
  expect(file, BRAID_INVALID_GRAPH, "has 1 inputs");
  begin(BRAID_REMOTE_MATCH);
  put_head("Relu", 1, 1, 1);
  put_tensor(BRAID_F32, (shape){1, {4}});
  put_tensor(BRAID_F32, (shape){1, {4}});
  braid_remote_put_attr(&writer, &(braid_attr){.name = "file", .kind = BRAID_ATTR_STRING, .s = "/etc/passwd"});
  expect(file, BRAID_INVALID_GRAPH, "file");
  begin(BRAID_REMOTE_PREPARE); /* another op's kernel */
  braid_wire_put_number(&writer, kernel_for(file, "Conv"), 4);
  begin(BRAID_REMOTE_PREPARE);
  braid_wire_put_number(&writer, UINT32_MAX, 4);
  put_relu((shape){1, {4}}, (shape){1, {4}});
  expect(file, BRAID_NOT_FOUND, "no kernel 4294967295");
  expect_service(file);
  close(file);
  expect_quota(server, 0, 0);
}

/* Counts that the message does not hold, and messages cut at each byte. */
static void test_truncated(void **state) {
  (void)state;
  int file = connect_device();
  begin(BRAID_REMOTE_MATCH);
  put_head("Relu", UINT16_MAX, UINT16_MAX, UINT16_MAX);
  expect(file, BRAID_INVALID_ARGUMENT, "limit");
  begin(BRAID_REMOTE_MATCH);
  put_head("Relu", 0, 4096, 1);
  expect(file, BRAID_INVALID_ARGUMENT, "more than the message holds");
  begin(BRAID_REMOTE_RUN);
  braid_wire_put_number(&writer, UINT32_MAX, 4);
  expect(file, BRAID_INVALID_ARGUMENT, "over its limit");
  begin(BRAID_REMOTE_RECORD);
  braid_wire_put_number(&writer, 65536, 4);
  expect(file, BRAID_INVALID_ARGUMENT, "more than the message holds");
  begin(BRAID_REMOTE_MATCH);
  put_relu((shape){2, {4, 4}}, (shape){2, {4, 4}});
  braid_wire_writer whole = writer;
  writer = (braid_wire_writer){0};
  for (size_t length = BRAID_WIRE_HEADER; length < whole.length; length++) {
    begin(BRAID_REMOTE_MATCH);
    braid_wire_put(&writer, whole.data + BRAID_WIRE_HEADER, length - BRAID_WIRE_HEADER);
    reply r = ask(file);
    if (r.status == BRAID_OK) fail_msg("%zu of %zu bytes are taken for a node", length, whole.length);
  }
  braid_wire_free(&whole);
  expect_service(file);
  close(file);
}

/* --- tasks ---------------------------------------------------------------------------------------------------------
 */
static uint32_t prepare_relu(int file, int64_t count) {
  uint32_t kernel = kernel_for(file, "Relu");
  begin(BRAID_REMOTE_PREPARE);
  braid_wire_put_number(&writer, kernel, 4);
  put_relu((shape){1, {count}}, (shape){1, {count}});
  return expect_handle(file);
}

static void put_kernel_task(uint32_t prepared, unsigned inputs, unsigned outputs) {
  braid_remote_task task = {.kind = BRAID_TASK_KERNEL,
                            .label = "task",
                            .prepared = prepared,
                            .input_count = (uint16_t)inputs,
                            .output_count = (uint16_t)outputs};
  braid_remote_put_task(&writer, &task);
}

static void put_place(uint32_t buffer, uint64_t offset, uint64_t bytes) {
  braid_remote_put_binding(&writer, &(braid_remote_binding){buffer, offset, bytes});
}

/* A run of one task of Relu over 64 floats, with these bindings; what the task's failure says. */
static void expect_relu(int file, uint32_t prepared, const braid_remote_binding places[3], braid_status status,
                        const char *text) {
  begin(BRAID_REMOTE_RUN);
  braid_wire_put_number(&writer, 1, 4);
  put_kernel_task(prepared, 1, 1);
  for (int i = 0; i < 3; i++) braid_remote_put_binding(&writer, &places[i]);
  braid_wire_put_number(&writer, 0, 1);
  reply r = ask(file);
  braid_remote_result result = {0};
  braid_wire_reader reader = {.data = r.body, .bytes = r.bytes};
  if (r.status == BRAID_OK) assert_null(braid_remote_get_result(&reader, &result));
  const char *said = r.status == BRAID_OK ? result.detail : r.detail;
  braid_status got = r.status == BRAID_OK ? result.status : r.status;
  if (got != status || !strstr(said, text))
    fail_msg("%s \"%s\", not %s \"%s\"", braid_status_text(got), said, braid_status_text(status), text);
}

static void test_bindings(void **state) {
  (void)state;
  int file = connect_device();
  uint32_t relu = prepare_relu(file, 64), a = make_buffer(file, 1024), b = make_buffer(file, 256);
  static const braid_remote_binding kNone = {0};
#define RELU(status, text, ...)                                                                                        \
  expect_relu(file, relu, (const braid_remote_binding[]){__VA_ARGS__, kNone}, status, text)
  RELU(BRAID_OK, "", {a, 0, 256}, {b, 0, 256});
  RELU(BRAID_OK, "", {a, 0, 256}, {a, 0, 256}); /* in place, as it says it may */
  RELU(BRAID_OUT_OF_RANGE, "operand 1 does not lie in its buffer", {a, 0, 256}, {b, 64, 256});
  RELU(BRAID_OUT_OF_RANGE, "operand 0 does not lie in its buffer", {a, UINT64_MAX, 256}, {b, 0, 256});
  RELU(BRAID_OUT_OF_RANGE, "operand 0 does not lie in its buffer", {a, 64, UINT64_MAX - 32}, {b, 0, 256});
  RELU(BRAID_OUT_OF_RANGE, "operand 0 has 252 bytes and needs 256", {a, 0, 252}, {b, 0, 256});
  RELU(BRAID_INVALID_ARGUMENT, "alignment", {a, 4, 256}, {b, 0, 256});
  RELU(BRAID_INVALID_ARGUMENT, "lie over each other", {a, 0, 256}, {a, 64, 256});
  RELU(BRAID_INVALID_ARGUMENT, "operand 0 is not bound", {0, 0, 256}, {b, 0, 256});
  RELU(BRAID_NOT_FOUND, "there is no buffer 77", {77, 0, 256}, {b, 0, 256});
  RELU(BRAID_NOT_FOUND, "there is no buffer", {a, 0, 256}, {UINT32_MAX, 0, 256});
#undef RELU
  begin(BRAID_REMOTE_RUN); /* other numbers of operands */
  braid_wire_put_number(&writer, 1, 4);
  put_kernel_task(relu, 3, 1);
  for (int i = 0; i < 5; i++) put_place(a, 0, 256);
  braid_wire_put_number(&writer, 0, 1);
  expect(file, BRAID_INVALID_ARGUMENT, "other numbers of operands");
  begin(BRAID_REMOTE_RUN);
  braid_wire_put_number(&writer, 1, 4);
  put_kernel_task(relu + 1, 1, 1);
  for (int i = 0; i < 3; i++) put_place(a, 0, 256);
  expect(file, BRAID_NOT_FOUND, "no prepared kernel");
  expect_service(file);
  close(file);
  expect_quota(server, 0, 0);
}

static void put_transfer(unsigned kind, uint32_t buffer, uint64_t offset, uint64_t bytes) {
  braid_remote_put_task(&writer, &(braid_remote_task){.kind = (uint8_t)kind, .label = "transfer"});
  put_place(buffer, offset, bytes);
}

static void test_transfers(void **state) {
  (void)state;
  int file = connect_device();
  uint32_t a = make_buffer(file, 256);
  begin(BRAID_REMOTE_RUN); /* fewer bytes than are to be written */
  braid_wire_put_number(&writer, 1, 4);
  put_transfer(BRAID_TASK_WRITE, a, 0, 256);
  braid_wire_put_number(&writer, 0, 1);
  braid_remote_put_write(&writer, &(braid_remote_write){0});
  braid_wire_put(&writer, "few", 3);
  expect(file, BRAID_INVALID_ARGUMENT, "ends within the bytes to be written");
  begin(BRAID_REMOTE_RUN); /* more is read than the tenant may have */
  braid_wire_put_number(&writer, 4096, 4);
  for (int i = 0; i < 4096; i++) put_transfer(BRAID_TASK_READ, a, 0, 256);
  braid_wire_put_number(&writer, 0, 1);
  raw_send(file, &writer);
  reply r = receive(file);
  assert_int_equal(r.status, BRAID_OUT_OF_RANGE); /* the message itself is over max_request_bytes */
  close(file);
  expect_quota(server, 0, 0);
  file = connect_device();
  a = make_buffer(file, 256);
  begin(BRAID_REMOTE_RUN);
  braid_wire_put_number(&writer, 1, 4);
  put_transfer(BRAID_TASK_WRITE, a, 0, 256);
  braid_wire_put_number(&writer, 0, 1);
  braid_remote_put_write(&writer, &(braid_remote_write){BRAID_REMOTE_FROM_BLOB, 9});
  expect(file, BRAID_NOT_FOUND, "no constant 9");
  begin(BRAID_REMOTE_RUN); /* a new buffer shows nothing of what was there before */
  braid_wire_put_number(&writer, 1, 4);
  put_transfer(BRAID_TASK_READ, a, 0, 256);
  braid_wire_put_number(&writer, 0, 1);
  r = ask(file);
  assert_int_equal(r.status, BRAID_OK);
  assert_true(r.bytes > 256);
  for (size_t i = r.bytes - 256; i < r.bytes; i++) assert_int_equal(r.body[i], 0);
  expect_service(file);
  close(file);
}

/* --- what recordings use stays --------------------------------------------------------------------------------------
 */
static void test_recorded_and_freed(void **state) {
  (void)state;
  int file = connect_device();
  uint32_t relu = prepare_relu(file, 64), a = make_buffer(file, 256), b = make_buffer(file, 256);
  begin(BRAID_REMOTE_RECORD);
  braid_wire_put_number(&writer, 2, 4);
  for (int i = 0; i < 2; i++) {
    put_kernel_task(relu, 1, 1);
    put_place(a, 0, 256);
    put_place(b, 0, 256);
    put_place(0, 0, 0);
  }
  uint32_t recording = expect_handle(file);
  const struct {
    unsigned kind;
    uint32_t handle;
  } kFreed[] = {{BRAID_REMOTE_DISCARD, relu}, {BRAID_REMOTE_FREE, a}, {BRAID_REMOTE_FREE, b}};
  for (size_t i = 0; i < 3; i++) {
    begin(kFreed[i].kind);
    braid_wire_put_number(&writer, kFreed[i].handle, 4);
    expect(file, BRAID_OK, NULL);
    begin(kFreed[i].kind);
    braid_wire_put_number(&writer, kFreed[i].handle, 4);
    expect(file, BRAID_NOT_FOUND, NULL);
  }
  for (int i = 0; i < 3; i++) {
    begin(BRAID_REMOTE_REPLAY);
    braid_wire_put_number(&writer, recording, 4);
    braid_wire_put_number(&writer, 0, 1);
    expect(file, BRAID_OK, NULL);
  }
  begin(BRAID_REMOTE_ERASE);
  braid_wire_put_number(&writer, recording, 4);
  expect(file, BRAID_OK, NULL);
  begin(BRAID_REMOTE_REPLAY);
  braid_wire_put_number(&writer, recording, 4);
  braid_wire_put_number(&writer, 0, 1);
  expect(file, BRAID_NOT_FOUND, "no recording");
  expect_service(file);
  close(file);
  expect_quota(server, 0, 0);
}

/* --- limits --------------------------------------------------------------------------------------------------------
 */
static void test_quota(void **state) {
  (void)state;
  int file = connect_device();
  begin(BRAID_REMOTE_BUFFER);
  braid_wire_put_number(&writer, 1000001, 8);
  expect(file, BRAID_NO_MEMORY, "1000000 that tenant user may have");
  begin(BRAID_REMOTE_BUFFER);
  braid_wire_put_number(&writer, UINT64_MAX, 8);
  expect(file, BRAID_NO_MEMORY, NULL);
  begin(BRAID_REMOTE_BLOB);
  braid_wire_put_number(&writer, 1, 4);
  braid_wire_put_number(&writer, UINT64_MAX, 8);
  braid_wire_put_number(&writer, 0, 8);
  expect(file, BRAID_NO_MEMORY, NULL);
  begin(BRAID_REMOTE_BLOB); /* the second part first */
  braid_wire_put_number(&writer, 1, 4);
  braid_wire_put_number(&writer, 100, 8);
  braid_wire_put_number(&writer, 50, 8);
  expect(file, BRAID_INVALID_ARGUMENT, "parts come in order");
  for (int i = 0; i < 9; i++) (void)make_buffer(file, 100000);
  begin(BRAID_REMOTE_BUFFER);
  braid_wire_put_number(&writer, 100000, 8);
  expect(file, BRAID_NO_MEMORY, NULL);
  close(file);
  expect_quota(server, 0, 0);
}

static void test_sessions_are_limited(void **state) {
  (void)state;
  int files[40], opened = 0;
  for (; opened < 40; opened++) {
    files[opened] = open_device("secret");
    braid_wire_status status = receive_opening(files[opened]);
    if (status.code == 200) continue;
    assert_non_null(strstr(status.detail, "as many sessions as it may"));
    break;
  }
  assert_int_equal(opened, 16); /* half of all, since there are two tenants */
  for (int i = 0; i <= opened; i++) close(files[i]);
  expect_quota(server, 0, 0);
  close(connect_device());
}

/* --- the ends of connections ---------------------------------------------------------------------------------------
 */
static void test_died_in_the_middle(void **state) {
  (void)state;
  int file = connect_device();
  (void)make_buffer(file, 500000);
  begin(BRAID_REMOTE_BLOB);
  braid_wire_put_number(&writer, 1, 4);
  braid_wire_put_number(&writer, 90000, 8);
  braid_wire_put_number(&writer, 0, 8);
  braid_wire_end(&writer, 90000);
  raw_send_with(file, writer.data, writer.length, -1);
  close(file);
  expect_quota(server, 0, 0);
  file = connect_device(); /* and one that does not die, but says no more */
  raw_send_with(file, writer.data, writer.length, -1);
  raw_expect_end(file);
  close(file);
  expect_quota(server, 0, 0);
}

static void test_garbage(void **state) {
  (void)state;
  int file = connect_device();
  raw_send_with(file, "GET / HTTP/1.1\r\nHost: braid\r\n\r\n", 31, -1);
  raw_expect_end(file);
  close(file);
  static const unsigned kKinds[] = {BRAID_WIRE_LAUNCH, BRAID_REMOTE_END, 0xffff, BRAID_REMOTE_BUSY,
                                    BRAID_REMOTE_KERNELS | BRAID_WIRE_REPLY};
  for (size_t i = 0; i < sizeof kKinds / sizeof *kKinds; i++) {
    file = connect_device();
    begin(kKinds[i]);
    raw_send(file, &writer);
    raw_expect_end(file);
    close(file);
  }
  uint32_t random = 7;
  for (int round = 0; round < 200; round++) { /* right headers, and anything behind them */
    file = connect_device();
    for (int message = 0; message < 5; message++) {
      uint8_t body[200];
      random = random * 1664525u + 1013904223u;
      size_t count = random >> 8 & 127;
      for (size_t i = 0; i < count; i++) body[i] = (uint8_t)((random = random * 1664525u + 1013904223u) >> 24);
      begin(BRAID_REMOTE_KERNELS + (random >> 16) % (BRAID_REMOTE_END - BRAID_REMOTE_KERNELS));
      braid_wire_put(&writer, body, count);
      raw_send(file, &writer);
    }
    close(file);
  }
  expect_quota(server, 0, 0);
}

static void test_versions(void **state) {
  (void)state;
  int file = raw_hello("secret");
  braid_wire_begin(&writer, BRAID_WIRE_DEVICE, 2);
  braid_remote_put_open(&writer, &(braid_remote_open){.version = 99});
  raw_send(file, &writer);
  raw_expect(file, 400, "speaks version 99 of remote devices");
  braid_wire_begin(&writer, BRAID_WIRE_DEVICE, 3); /* the connection is one of launches still */
  braid_wire_put_number(&writer, BRAID_REMOTE_VERSION, 4);
  raw_send(file, &writer);
  raw_expect(file, 400, "device:");
  close(file);
  file = open_device("else");
  raw_expect(file, 403, "tenant other may not");
  close(file);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nodes),
      cmocka_unit_test(test_truncated),
      cmocka_unit_test(test_bindings),
      cmocka_unit_test(test_transfers),
      cmocka_unit_test(test_recorded_and_freed),
      cmocka_unit_test(test_quota),
      cmocka_unit_test(test_sessions_are_limited),
      cmocka_unit_test(test_died_in_the_middle),
      cmocka_unit_test(test_garbage),
      cmocka_unit_test(test_versions),
  };
  return skip_run_group_tests(tests, start, stop);
}
