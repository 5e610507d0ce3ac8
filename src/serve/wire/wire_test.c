/* libbraid-client against a daemon: bits of a session by every way that tensors take, asynchronous launches,
 * cancelling, buffers, models that are brought, cores, and a daemon that stops. */
#include <pthread.h>

#include "serve/wire/wire_check.h"

static const char kConfig[] =
    "devices:\n"
    "  - {name: cpu, threads: 1, instances: 2}\n"
    "models:\n"
    "  - {name: lenet, path: " BRAID_MODELS "/lenet.cfg}\n"
    "  - {name: slow, path: " BRAID_MODELS "/lenet.cfg, batch_bits: any, max_batch: 8, delay_ms: 400}\n";
static const char kTenants[] = "tenants:\n"
                               "  - {name: bob, token: b, share: 0.5, max_bytes: 200000, max_requests: 2}\n"
                               "  - {name: ann, token: a, share: 0.5, compile: true}\n";

static char tenants_config[4096];

static braid_client_tensor input_of(int rows) {
  return (braid_client_tensor){.name = "input",
                               .dtype = BRAID_CLIENT_F32,
                               .rank = 4,
                               .dims = {rows, 1, 28, 28},
                               .data = image,
                               .bytes = (size_t)rows * sizeof image[0]};
}

static braid_client_launch_options launch_of(const char *model, const braid_client_tensor *input) {
  return (braid_client_launch_options){.model = model, .inputs = input, .input_count = 1};
}

static void expect(braid_client_status got, braid_client_status wanted, const char *text) {
  if (got != wanted || (text && !strstr(braid_client_error(), text)))
    fail_msg("%d (%s), not %d (%s)", got, braid_client_error(), wanted, text ? text : "");
}

static void expect_output(const braid_client_call *call, int row) {
  size_t count;
  const braid_client_tensor *outputs = braid_client_outputs(call, &count);
  assert_int_equal(count, 1);
  assert_string_equal(outputs[0].name, "output");
  assert_int_equal(outputs[0].dtype, BRAID_CLIENT_F32);
  assert_int_equal(outputs[0].rank, 2);
  assert_int_equal(outputs[0].bytes, sizeof expected[0]);
  assert_memory_equal(outputs[0].data, expected[row], sizeof expected[0]);
}

/* --- bits ----------------------------------------------------------------------------------------------------------
 */
static void launch_inline(braid_client *client) {
  braid_client_tensor input = input_of(1);
  braid_client_launch_options launch = launch_of("lenet", &input);
  for (int i = 0; i < 40; i++) {
    braid_client_call *call;
    input.data = image[i % kRows];
    expect(braid_client_launch(client, &launch, &call), BRAID_CLIENT_OK, NULL);
    expect_output(call, i % kRows);
    braid_client_release(call);
  }
}

static void launch_shared(braid_client *client) {
  enum { kOffset = 4096 };
  braid_client_memory *memory;
  expect(braid_client_memory_create(client, 2 * kOffset, &memory), BRAID_CLIENT_OK, NULL);
  char *data = braid_client_memory_data(memory);
  braid_client_tensor input = input_of(1), output = {.name = "output", .memory = memory};
  braid_client_launch_options launch = launch_of("lenet", &input);
  input.memory = memory;
  output.offset = kOffset;
  output.bytes = sizeof expected[0];
  launch.outputs = &output;
  launch.output_count = 1;
  for (int i = 0; i < 40; i++) {
    braid_client_call *call;
    memcpy(data, image[i % kRows], sizeof image[0]);
    memset(data + kOffset, 0, sizeof expected[0]);
    expect(braid_client_launch(client, &launch, &call), BRAID_CLIENT_OK, NULL);
    expect_output(call, i % kRows);
    assert_memory_equal(data + kOffset, expected[i % kRows], sizeof expected[0]);
    braid_client_release(call);
  }
  braid_client_call *call;
  output.bytes = 8; /* no room */
  expect(braid_client_launch(client, &launch, &call), BRAID_CLIENT_INVALID, "has 40 bytes");
  braid_client_memory_destroy(memory);
}

static void test_same_bits(void **state) {
  (void)state;
  braid_server *server = wire_start(kConfig);
  const char *addresses[] = {wire_address(), wire_tcp(server)};
  assert_string_equal(braid_server_socket(server), wire_path());
  for (int i = 0; i < 2; i++) {
    braid_client *client = wire_connect(addresses[i], NULL);
    assert_string_equal(braid_client_tenant(client), "anyone");
    assert_int_equal(braid_client_has_memory(client), i == 0);
    launch_inline(client);
    braid_client_memory *memory;
    if (i == 0)
      launch_shared(client);
    else
      expect(braid_client_memory_create(client, 64, &memory), BRAID_CLIENT_ARGUMENT, "unix:");
    braid_client_close(client);
  }
  expect_quota(server, 0, 0);
  braid_server_destroy(server, 0);
  assert_int_not_equal(access(wire_path(), F_OK), 0);
}

static void test_one_message_per_inference(void **state) {
  (void)state;
  braid_server *server = wire_start(kConfig);
  braid_client *client = wire_connect(wire_address(), NULL);
  braid_client_counters before = braid_client_count(client);
  launch_inline(client);
  braid_client_counters after = braid_client_count(client);
  assert_int_equal(after.messages - before.messages, 40);
  assert_int_equal(after.launches - before.launches, 40);
  assert_int_equal(after.launch_messages - before.launch_messages, 40);
  braid_client_close(client);
  braid_server_destroy(server, 0);
}

static void test_looking_before_sleeping(void **state) {
  (void)state;
  char config[2048];
  snprintf(config, sizeof config, "spin_us: 500\n%s", kConfig);
  braid_server *server = wire_start(config);
  braid_client *client;
  expect(braid_client_connect(wire_address(), &(braid_client_options){.spin_us = 500}, &client), BRAID_CLIENT_OK, NULL);
  launch_inline(client);
  wire_pause(5); /* both sleep */
  launch_inline(client);
  braid_client_close(client);
  braid_server_destroy(server, 0);
}

static void test_models(void **state) {
  (void)state;
  braid_server *server = wire_start(kConfig);
  braid_client *client = wire_connect(wire_address(), NULL);
  braid_client_model *models;
  size_t count;
  expect(braid_client_models(client, NULL, &models, &count), BRAID_CLIENT_OK, NULL);
  assert_int_equal(count, 2);
  free(models);
  expect(braid_client_models(client, "lenet", &models, &count), BRAID_CLIENT_OK, NULL);
  assert_int_equal(count, 1);
  assert_int_equal(models->state, BRAID_CLIENT_READY);
  assert_int_equal(models->input_count, 1);
  assert_string_equal(models->inputs[0].name, "input");
  assert_int_equal(models->inputs[0].dims[0], -1);
  assert_int_equal(models->inputs[0].dims[3], 28);
  assert_int_equal(models->outputs[0].dtype, BRAID_CLIENT_F32);
  free(models);
  expect(braid_client_models(client, "none", &models, &count), BRAID_CLIENT_UNKNOWN, "none");
  braid_client_close(client);
  braid_server_destroy(server, 0);
}

/* --- long inputs ---------------------------------------------------------------------------------------------------
 * Another thread copies them, from a message's body, a buffer or memory that may be given up meanwhile. */
enum { kSide = 256, kLongCount = 3 * kSide * kSide, kLongBytes = kLongCount * 4 };

/* A model of such inputs, what a session makes of one, and a configuration with it. */
static void make_long(float *in, float *out, char *config, size_t bytes) {
  static const char kLong[] = "[net]\nchannels=3\nheight=256\nwidth=256\n[avgpool]\n[connected]\noutput=4\n"
                              "activation=linear\n";
  char path[128];
  braid_graph *graph;
  braid_session *session;
  snprintf(path, sizeof path, "%s/long.cfg", folder);
  snprintf(config, bytes, "%s  - {name: long, path: %s}\n", kConfig, path);
  FILE *file = fopen(path, "w");
  fputs(kLong, file);
  fclose(file);
  assert_int_equal(braid_model_load(NULL, path, NULL, &graph), BRAID_OK);
  assert_int_equal(braid_session_create(graph, NULL, &session), BRAID_OK);
  for (int i = 0; i < kLongCount; i++) in[i] = (float)(i % 253) / 253;
  assert_int_equal(braid_session_run(session, (const void *[]){in}, (void *[]){out}), BRAID_OK);
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

static void expect_long(braid_client_call *call, const float *out) {
  size_t count;
  expect(braid_client_wait(call, -1), BRAID_CLIENT_OK, NULL);
  assert_memory_equal(braid_client_outputs(call, &count)[0].data, out, 4 * sizeof *out);
  braid_client_release(call);
}

static void test_long_inputs(void **state) {
  (void)state;
  enum { kWays = 3, kTimes = 4 };
  float *in = malloc(kLongBytes), out[4];
  char config[2048];
  make_long(in, out, config, sizeof config);
  braid_server *server = wire_start(config);
  for (int gone = 0; gone < 2; gone++) {
    braid_client *client = wire_connect(wire_address(), NULL);
    braid_client_memory *memory;
    braid_client_tensor inputs[kWays] = {{.name = "input",
                                          .dtype = BRAID_CLIENT_F32,
                                          .rank = 4,
                                          .dims = {1, 3, kSide, kSide},
                                          .data = in,
                                          .bytes = kLongBytes}};
    braid_client_tensor buffer = inputs[0];
    buffer.name = "x";
    expect(braid_client_data(client, &buffer), BRAID_CLIENT_OK, NULL);
    expect(braid_client_memory_create(client, kLongBytes, &memory), BRAID_CLIENT_OK, NULL);
    memcpy(braid_client_memory_data(memory), in, kLongBytes);
    inputs[1] = (braid_client_tensor){.name = "input", .buffer = "x"};
    inputs[2] = inputs[0];
    inputs[2].memory = memory;
    braid_client_call *calls[kWays * kTimes];
    for (int i = 0; i < kWays * kTimes; i++) {
      braid_client_launch_options launch = launch_of("long", &inputs[i % kWays]);
      expect(braid_client_submit(client, &launch, &calls[i]), BRAID_CLIENT_OK, NULL);
    }
    expect(braid_client_drop(client, "x"), BRAID_CLIENT_OK, NULL);
    braid_client_memory_destroy(memory);
    for (int i = 0; i < kWays * kTimes; i++)
      if (gone)
        braid_client_release(calls[i]);
      else
        expect_long(calls[i], out);
    braid_client_close(client);
    expect_quota(server, 0, 0);
  }
  braid_server_destroy(server, 0);
  free(in);
}

/* --- buffers -------------------------------------------------------------------------------------------------------
 */
static void test_buffers_are_of_their_connection(void **state) {
  (void)state;
  braid_server *server = wire_start(kConfig);
  braid_client *client = wire_connect(wire_address(), NULL), *other = wire_connect(wire_address(), NULL);
  braid_client_tensor data = input_of(1), input = {.name = "input", .buffer = "x"};
  braid_client_launch_options launch = launch_of("lenet", &input);
  braid_client_call *call;
  data.name = "x";
  expect(braid_client_data(client, &data), BRAID_CLIENT_OK, NULL);
  expect_quota(server, 0, sizeof image[0]);
  braid_client_counters before = braid_client_count(client);
  for (int i = 0; i < 3; i++) {
    expect(braid_client_launch(client, &launch, &call), BRAID_CLIENT_OK, NULL);
    expect_output(call, 0);
    braid_client_release(call);
  }
  assert_true(braid_client_count(client).bytes_sent - before.bytes_sent < 600);
  expect(braid_client_launch(other, &launch, &call), BRAID_CLIENT_UNKNOWN, "no buffer \"x\"");
  data.data = image[1]; /* replaced */
  expect(braid_client_data(client, &data), BRAID_CLIENT_OK, NULL);
  expect_quota(server, 0, sizeof image[0]);
  expect(braid_client_launch(client, &launch, &call), BRAID_CLIENT_OK, NULL);
  expect_output(call, 1);
  braid_client_release(call);
  expect(braid_client_drop(client, "x"), BRAID_CLIENT_OK, NULL);
  expect(braid_client_drop(client, "x"), BRAID_CLIENT_UNKNOWN, NULL);
  expect(braid_client_launch(client, &launch, &call), BRAID_CLIENT_UNKNOWN, "no buffer \"x\"");
  expect_quota(server, 0, 0);
  expect(braid_client_data(client, &data), BRAID_CLIENT_OK, NULL);
  braid_client_close(client); /* and with it the buffer */
  expect_quota(server, 0, 0);
  braid_client_close(other);
  braid_server_destroy(server, 0);
}

/* --- several at a time ---------------------------------------------------------------------------------------------
 */
static void test_asynchronous(void **state) {
  (void)state;
  enum { kCalls = 50 };
  braid_server *server = wire_start(kConfig);
  braid_client *client = wire_connect(wire_address(), NULL);
  braid_client_call *calls[kCalls];
  braid_client_tensor input = input_of(1);
  braid_client_launch_options launch = launch_of("lenet", &input);
  for (int i = 0; i < kCalls; i++) {
    input.data = image[i % kRows];
    expect(braid_client_submit(client, &launch, &calls[i]), BRAID_CLIENT_OK, NULL);
  }
  for (int i = kCalls - 1; i >= 0; i--) {
    expect(braid_client_wait(calls[i], -1), BRAID_CLIENT_OK, NULL);
    expect(braid_client_wait(calls[i], 0), BRAID_CLIENT_OK, NULL);
    expect_output(calls[i], i % kRows);
    braid_client_release(calls[i]);
  }
  launch.model = "slow";
  expect(braid_client_submit(client, &launch, &calls[0]), BRAID_CLIENT_OK, NULL);
  expect(braid_client_wait(calls[0], 0), BRAID_CLIENT_TIMEOUT, NULL);
  expect(braid_client_wait(calls[0], 30), BRAID_CLIENT_TIMEOUT, NULL);
  expect(braid_client_cancel(calls[0]), BRAID_CLIENT_OK, NULL);
  expect(braid_client_wait(calls[0], -1), BRAID_CLIENT_CANCELLED, NULL);
  braid_client_release(calls[0]);
  expect(braid_client_submit(client, &launch, &calls[0]), BRAID_CLIENT_OK, NULL);
  braid_client_release(calls[0]); /* under way */
  launch_inline(client);
  braid_client_close(client);
  expect_quota(server, 0, 0);
  braid_server_destroy(server, 0);
}

/* Neither side waits for the other to read. */
static void test_more_than_sockets_hold(void **state) {
  (void)state;
  enum { kCalls = 4000 };
  braid_server *server = wire_start(kConfig);
  braid_client *client = wire_connect(wire_address(), NULL);
  braid_client_call **calls = calloc(kCalls, sizeof *calls);
  braid_client_tensor input = input_of(1);
  braid_client_launch_options launch = launch_of("lenet", &input);
  int good = 0;
  for (int i = 0; i < kCalls; i++) {
    input.data = image[i % kRows];
    expect(braid_client_submit(client, &launch, &calls[i]), BRAID_CLIENT_OK, NULL);
  }
  for (int i = 0; i < kCalls; i++) {
    braid_client_status status = braid_client_wait(calls[i], -1);
    if (status != BRAID_CLIENT_OK) expect(status, BRAID_CLIENT_OVER_QUOTA, "in flight");
    if (status == BRAID_CLIENT_OK) expect_output(calls[i], i % kRows);
    good += status == BRAID_CLIENT_OK;
    braid_client_release(calls[i]);
  }
  assert_true(good >= 256);
  free(calls);
  braid_client_close(client);
  braid_server_destroy(server, 0);
}

static void test_tenants_share_the_connections(void **state) {
  (void)state;
  char config[4096 + 64];
  snprintf(config, sizeof config, "max_connections: 6\n%s", tenants_config);
  braid_server *server = wire_start(config);
  braid_client *clients[3], *one_more;
  for (int i = 0; i < 3; i++) clients[i] = wire_connect(wire_address(), "b");
  expect(braid_client_connect(wire_address(), &(braid_client_options){.token = "b"}, &one_more),
         BRAID_CLIENT_OVER_QUOTA, "as many connections");
  braid_client_close(wire_connect(wire_address(), "a"));
  for (int i = 0; i < 3; i++) braid_client_close(clients[i]);
  braid_server_destroy(server, 0);
}

static void *launch_thread(void *client) {
  for (int i = 0; i < 5; i++) launch_inline(client);
  return NULL;
}

static void test_threads_share_a_connection(void **state) {
  (void)state;
  braid_server *server = wire_start(kConfig);
  braid_client *client = wire_connect(wire_address(), NULL);
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, launch_thread, client), 0);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  braid_client_close(client);
  braid_server_destroy(server, 0);
}

static void test_deadline_and_timeout(void **state) {
  (void)state;
  braid_server *server = wire_start(kConfig);
  braid_client *client;
  braid_client_options options = {.call_ms = 50};
  expect(braid_client_connect(wire_address(), &options, &client), BRAID_CLIENT_OK, NULL);
  braid_client_tensor input = input_of(1);
  braid_client_launch_options launch = launch_of("lenet", &input);
  braid_client_call *call;
  launch.deadline_us = 1;
  expect(braid_client_launch(client, &launch, &call), BRAID_CLIENT_UNAVAILABLE, "deadline");
  launch.deadline_us = 0;
  launch.model = "slow";
  expect(braid_client_launch(client, &launch, &call), BRAID_CLIENT_TIMEOUT, NULL);
  launch.model = "lenet"; /* the connection goes on */
  expect(braid_client_launch(client, &launch, &call), BRAID_CLIENT_OK, NULL);
  expect_output(call, 0);
  braid_client_release(call);
  braid_client_close(client);
  braid_server_destroy(server, 0);
}

/* --- tenants -------------------------------------------------------------------------------------------------------
 */
static void test_tenants(void **state) {
  (void)state;
  braid_server *server = wire_start(tenants_config);
  braid_client *client;
  expect(braid_client_connect(wire_address(), NULL, &client), BRAID_CLIENT_UNAUTHORIZED, "a token is needed");
  expect(braid_client_connect(wire_tcp(server), &(braid_client_options){.token = "x"}, &client),
         BRAID_CLIENT_UNAUTHORIZED, "nobody's");
  client = wire_connect(wire_tcp(server), "b");
  assert_string_equal(braid_client_tenant(client), "bob");
  assert_false(braid_client_may_compile(client));
  braid_client_tensor big = {.name = "big", .dtype = BRAID_CLIENT_U8, .rank = 1, .dims = {150000}, .bytes = 150000};
  char *bytes = calloc(1, 150000);
  big.data = bytes;
  expect(braid_client_data(client, &big), BRAID_CLIENT_OVER_QUOTA, NULL); /* the message and the buffer */
  big.dims[0] = 250000;
  big.bytes = 250000;
  bytes = realloc(bytes, 250000);
  big.data = bytes;
  expect(braid_client_data(client, &big), BRAID_CLIENT_OVER_QUOTA, NULL); /* skipped: the connection goes on */
  launch_inline(client);
  braid_client_call *calls[3];
  braid_client_tensor input = input_of(1);
  braid_client_launch_options launch = launch_of("slow", &input);
  for (int i = 0; i < 3; i++) expect(braid_client_submit(client, &launch, &calls[i]), BRAID_CLIENT_OK, NULL);
  expect(braid_client_wait(calls[2], -1), BRAID_CLIENT_OVER_QUOTA, "in flight");
  for (int i = 0; i < 3; i++) braid_client_release(calls[i]);
  braid_client_close(client);
  expect_quota(server, 0, 0);
  free(bytes);
  braid_server_destroy(server, 0);
}

/* --- models that clients bring -------------------------------------------------------------------------------------
 */
static uint8_t *lenet_onnx(size_t *bytes) {
  char path[128];
  braid_graph *graph;
  snprintf(path, sizeof path, "%s/lenet.onnx", folder);
  assert_int_equal(braid_model_load(NULL, BRAID_MODELS "/lenet.cfg", NULL, &graph), BRAID_OK);
  assert_int_equal(braid_model_save_onnx(graph, path), BRAID_OK);
  braid_graph_destroy(graph);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  uint8_t *data = malloc(4 << 20);
  *bytes = fread(data, 1, 4 << 20, file);
  assert_true(*bytes > 1000 && *bytes < 4 << 20);
  fclose(file);
  return data;
}

static void test_compile(void **state) {
  (void)state;
  size_t bytes;
  uint8_t *onnx = lenet_onnx(&bytes);
  braid_server *server = wire_start(tenants_config);
  braid_client *ann = wire_connect(wire_address(), "a"), *other = wire_connect(wire_address(), "a"),
               *bob = wire_connect(wire_address(), "b");
  braid_client_model *model, *none;
  braid_client_call *call;
  braid_client_tensor input = input_of(1);
  assert_true(braid_client_may_compile(ann));
  expect(braid_client_compile(bob, "mine", onnx, 100, NULL, 0, &none), BRAID_CLIENT_FORBIDDEN, "compile");
  expect(braid_client_compile(bob, "mine", onnx, bytes, NULL, 0, &none), BRAID_CLIENT_OVER_QUOTA, NULL);
  expect(braid_client_compile(ann, "mine", onnx, bytes / 2, NULL, 0, &none), BRAID_CLIENT_INVALID, NULL);
  expect(braid_client_compile(ann, "mine", onnx, 10, NULL, 0, &none), BRAID_CLIENT_INVALID, NULL);
  expect(braid_client_compile(ann, "mine", onnx, bytes, "gpu", 0, &none), BRAID_CLIENT_UNKNOWN, "gpu");
  expect_quota(server, 1, 0);
  expect(braid_client_compile(ann, "mine", onnx, bytes, "cpu", 1, &model), BRAID_CLIENT_OK, NULL);
  assert_string_equal(model->name, "mine");
  assert_int_equal(model->input_count, 1);
  input.name = model->inputs[0].name;
  braid_client_launch_options launch = {.compiled = model->handle, .inputs = &input, .input_count = 1};
  expect(braid_client_launch(ann, &launch, &call), BRAID_CLIENT_OK, NULL);
  size_t count;
  assert_memory_equal(braid_client_outputs(call, &count)->data, expected[0], sizeof expected[0]);
  braid_client_release(call);
  expect(braid_client_launch(other, &launch, &call), BRAID_CLIENT_UNKNOWN, "no compiled model");
  expect(braid_client_submit(ann, &launch, &call), BRAID_CLIENT_OK, NULL);
  expect(braid_client_forget(ann, model->handle), BRAID_CLIENT_OK, NULL); /* under way: it ends */
  expect(braid_client_wait(call, -1), BRAID_CLIENT_OK, NULL);
  braid_client_release(call);
  expect(braid_client_forget(ann, model->handle), BRAID_CLIENT_UNKNOWN, NULL);
  free(model);
  expect_quota(server, 1, 0);
  expect(braid_client_compile(ann, "mine", onnx, bytes, NULL, 0, &model), BRAID_CLIENT_OK, NULL);
  free(model);
  braid_client_close(ann);
  expect_quota(server, 1, 0);
  braid_client_close(other);
  braid_client_close(bob);
  braid_server_destroy(server, 0);
  free(onnx);
}

/* --- cores ---------------------------------------------------------------------------------------------------------
 */
static void test_cores(void **state) {
  (void)state;
  braid_server *server = wire_start(tenants_config);
  braid_client *ann = wire_connect(wire_address(), "a"), *bob = wire_connect(wire_address(), "b");
  braid_client_cores cores, more;
  expect(braid_client_request_cores(ann, "gpu", 1, &cores), BRAID_CLIENT_UNKNOWN, NULL);
  expect(braid_client_request_cores(ann, NULL, 2, &cores), BRAID_CLIENT_OVER_QUOTA, "no cores of the overlay");
  expect(braid_client_request_cores(ann, "cpu", 1, &cores), BRAID_CLIENT_OK, NULL);
  assert_int_equal(cores.granted, 1);
  assert_int_equal(cores.instances, 2);
  assert_int_equal(cores.overlay_cores, 0);
  assert_non_null(strstr(cores.note, "no cores of the overlay"));
  expect(braid_client_request_cores(bob, "cpu", 1, &more), BRAID_CLIENT_UNAVAILABLE, "one stays for all");
  launch_inline(ann);
  launch_inline(bob);                                                                /* by the instance that is left */
  expect(braid_client_release_cores(bob, cores.handle), BRAID_CLIENT_UNKNOWN, NULL); /* of another connection */
  expect(braid_client_release_cores(ann, cores.handle), BRAID_CLIENT_OK, NULL);
  expect(braid_client_release_cores(ann, cores.handle), BRAID_CLIENT_UNKNOWN, NULL);
  expect(braid_client_request_cores(bob, "cpu", 1, &more), BRAID_CLIENT_OK, NULL);
  braid_client_close(bob); /* and with it what it held */
  for (int i = 0; i < 3000 && braid_client_request_cores(ann, "cpu", 1, &cores) != BRAID_CLIENT_OK; i++) wire_pause(1);
  assert_int_equal(cores.granted, 1);
  braid_client_close(ann);
  braid_server_destroy(server, 0);
}

/* Two at a time, for as long as *stop is 0. */
static void *flood_thread(void *stop) {
  braid_client *client = wire_connect(wire_address(), "b");
  braid_client_tensor input = input_of(1);
  braid_client_launch_options launch = launch_of("lenet", &input);
  while (!__atomic_load_n((int *)stop, __ATOMIC_ACQUIRE)) {
    braid_client_call *calls[2] = {NULL};
    for (int i = 0; i < 2; i++) (void)braid_client_submit(client, &launch, &calls[i]);
    for (int i = 0; i < 2; i++) {
      if (calls[i]) (void)braid_client_wait(calls[i], -1);
      braid_client_release(calls[i]);
    }
  }
  braid_client_close(client);
  return NULL;
}

static int64_t most_running(braid_server *server) {
  int64_t most = 0;
  for (int i = 0; i < 4000; i++) {
    braid_serve_load load = braid_serve_scheduler_load(server->scheduler, 0);
    if (load.running > most) most = load.running;
    if (i % 16 == 0) nanosleep(&(struct timespec){0, 50000}, NULL);
  }
  return most;
}

static void test_held_instances_run_nothing_of_others(void **state) {
  (void)state;
  braid_server *server = wire_start(tenants_config);
  braid_client *ann = wire_connect(wire_address(), "a");
  braid_client_cores cores;
  pthread_t thread;
  int ended = 0;
  expect(braid_client_request_cores(ann, NULL, 1, &cores), BRAID_CLIENT_OK, NULL);
  assert_int_equal(pthread_create(&thread, NULL, flood_thread, &ended), 0);
  assert_int_equal(most_running(server), 1);
  expect(braid_client_release_cores(ann, cores.handle), BRAID_CLIENT_OK, NULL);
  int64_t most = 0;
  for (int i = 0; i < 20 && most < 2; i++) most = most_running(server);
  assert_int_equal(most, 2);
  __atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  braid_client_close(ann);
  braid_server_destroy(server, 0);
}

/* --- the end -------------------------------------------------------------------------------------------------------
 */
static void *stop_thread(void *server) {
  wire_pause(30);
  braid_server_destroy(server, 0);
  return NULL;
}

/* Each launch ends: well, refused as the daemon stops, or with its connection. */
static void test_stop_while_requests_run(void **state) {
  (void)state;
  for (int round = 0; round < 3; round++) {
    braid_server *server = wire_start(kConfig);
    braid_client *client = wire_connect(wire_address(), NULL);
    pthread_t thread;
    braid_client_tensor input = input_of(1);
    braid_client_launch_options launch = launch_of(round == 1 ? "slow" : "lenet", &input);
    assert_int_equal(pthread_create(&thread, NULL, stop_thread, server), 0);
    braid_client_status status = BRAID_CLIENT_OK;
    while (status == BRAID_CLIENT_OK) {
      enum { kAtOnce = 8 };
      braid_client_call *calls[kAtOnce] = {NULL};
      for (int i = 0; i < kAtOnce; i++) (void)braid_client_submit(client, &launch, &calls[i]);
      for (int i = 0; i < kAtOnce; i++) {
        braid_client_status one = calls[i] ? braid_client_wait(calls[i], 20000) : BRAID_CLIENT_LOST;
        if (one == BRAID_CLIENT_OK && round != 1)
          expect_output(calls[i], 0);
        else if (one != BRAID_CLIENT_OK)
          status = one;
        braid_client_release(calls[i]);
      }
    }
    assert_true(status == BRAID_CLIENT_UNAVAILABLE || status == BRAID_CLIENT_LOST);
    pthread_join(thread, NULL);
    braid_client_close(client);
  }
}

static int prepare(void **state) {
  if (make_folder(state)) return -1;
  snprintf(tenants_config, sizeof tenants_config, "%s%s", kConfig, kTenants);
  compute_expected();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_same_bits),
      cmocka_unit_test(test_long_inputs),
      cmocka_unit_test(test_one_message_per_inference),
      cmocka_unit_test(test_looking_before_sleeping),
      cmocka_unit_test(test_models),
      cmocka_unit_test(test_buffers_are_of_their_connection),
      cmocka_unit_test(test_asynchronous),
      cmocka_unit_test(test_more_than_sockets_hold),
      cmocka_unit_test(test_tenants_share_the_connections),
      cmocka_unit_test(test_threads_share_a_connection),
      cmocka_unit_test(test_deadline_and_timeout),
      cmocka_unit_test(test_tenants),
      cmocka_unit_test(test_compile),
      cmocka_unit_test(test_cores),
      cmocka_unit_test(test_held_instances_run_nothing_of_others),
      cmocka_unit_test(test_stop_while_requests_run),
  };
  return skip_run_group_tests(tests, prepare, remove_folder);
}
