/* Cards of the overlay in a daemon: the bits of the plain loops whoever shares the card, tenants' cores, clients that
 * go, packages that don't fit, configurations that are refused. */
#include <math.h>
#include <pthread.h>

#include "overlay/compiler/compiler_fixture.h"
#include "overlay/networks.h"
#include "overlay/reference.h"
#include "serve/wire/wire_check.h"

enum { kModels = 2, kInputs = 3, kMostNumbers = 1 << 16 };

/* A package with what the reference's plain loops compute of it. */
typedef struct subject {
  drawn_network n;
  char path[160];
  int64_t in_count, out_count;
  int8_t in[kInputs][kMostNumbers];
  int8_t out[kInputs][kMostNumbers];
} subject;
static subject subjects[kModels];

static int64_t numbers_of(const braid_overlay_map *map) {
  return (int64_t)map->channels * map->rows * map->columns;
}

static void subject_compute(subject *s) {
  const drawn_network *n = &s->n;
  s->in_count = numbers_of(&n->maps[n->inputs[0].map]);
  s->out_count = numbers_of(&n->maps[n->outputs[0].map]);
  assert_true(s->in_count <= kMostNumbers && s->out_count <= kMostNumbers);
  for (int i = 0; i < kInputs; i++) {
    for (int64_t k = 0; k < s->in_count; k++) s->in[i][k] = (int8_t)draw(-128, 127);
    assert_int_equal(
        braid_overlay_reference(&n->network, (const int8_t *const[]){s->in[i]}, (int8_t *const[]){s->out[i]}, NULL),
        BRAID_OK);
  }
}

/* Some layers one after the other, with one output. */
static void subject_make(subject *s, const braid_overlay_design *design, int layers, int32_t size, const char *file) {
  braid_package *package;
  drawn_network *n = &s->n;
  drawn_begin(n, 20, size, size);
  for (int i = 0; i < layers; i++) draw_sum(n, (int32_t)n->network.map_count - 1);
  n->outputs[n->network.output_count++] = (braid_overlay_port){
      .map = (int32_t)n->network.map_count - 1, .low = -128, .high = 127, .name = "out", .real = true};
  n->inputs[0].real = true;
  if (braid_package_compile(&n->network, design, NULL, &package) != BRAID_OK) fail_msg("%s", braid_error_detail());
  snprintf(s->path, sizeof s->path, "%s/%s", folder, file);
  assert_int_equal(braid_package_write(package, s->path), BRAID_OK);
  braid_package_destroy(package);
  subject_compute(s);
}

static int prepare(void **state) {
  const braid_overlay_design *design;
  if (make_folder(state)) return -1;
  assert_int_equal(braid_overlay_design_load(NULL, "cnn-16x512", &design), BRAID_OK);
  draw_key = 5;
  subject_make(&subjects[0], design, 12, 12, "long.bpk");
  subject_make(&subjects[1], design, 3, 7, "short.bpk");
  braid_overlay_design_destroy(design);
  return 0;
}

static int clean_up(void **state) {
  for (int i = 0; i < kModels; i++) drawn_free(&subjects[i].n);
  return remove_folder(state);
}

static const char *configure(const char *mode, const char *tenants) {
  static char text[2048];
  snprintf(text, sizeof text,
           "devices:\n  - {name: card, device: \"overlay:design=cnn-16x512\", cores: %s, run_watts: 10}\n"
           "models:\n  - {name: long, path: %s}\n  - {name: short, path: %s}\ntenants:\n%s",
           mode, subjects[0].path, subjects[1].path, tenants);
  return text;
}

static const char kTenants[] = "  - {name: ann, token: a, admin: true, share: 0.5, priority: 1}\n"
                               "  - {name: bob, token: b, share: 0.25, priority: 9}\n"
                               "  - {name: cid, token: c, share: 0.25}\n";
static const char kOwners[] = "  - {name: ann, token: a, admin: true, share: 0.5, cores: 3}\n"
                              "  - {name: bob, token: b, share: 0.5, cores: 2}\n"
                              "  - {name: cid, token: c}\n";

/* One launch of a subject's input in float32, or in int8: the reference's bits. */
static braid_client_status launch(braid_client *client, int model, int input, bool bytes, double deadline_ms) {
  const subject *s = &subjects[model];
  const braid_overlay_map *in = &s->n.maps[s->n.inputs[0].map], *out = &s->n.maps[s->n.outputs[0].map];
  float *numbers = malloc((size_t)s->in_count * sizeof *numbers);
  for (int64_t k = 0; k < s->in_count; k++) numbers[k] = ldexpf(s->in[input][k], in->exponent);
  braid_client_tensor tensor = {.name = "in",
                                .dtype = bytes ? BRAID_CLIENT_I8 : BRAID_CLIENT_F32,
                                .rank = 4,
                                .dims = {1, in->channels, in->rows, in->columns},
                                .data = bytes ? (const void *)s->in[input] : numbers,
                                .bytes = (size_t)s->in_count * (bytes ? 1 : sizeof *numbers)};
  braid_client_launch_options options = {.model = model ? "short" : "long",
                                         .inputs = &tensor,
                                         .input_count = 1,
                                         .deadline_us = (int64_t)(deadline_ms * 1000)};
  braid_client_call *call;
  braid_client_status status = braid_client_launch(client, &options, &call);
  free(numbers);
  if (status != BRAID_CLIENT_OK) return status;
  size_t count;
  const braid_client_tensor *outputs = braid_client_outputs(call, &count);
  assert_int_equal(count, 1);
  assert_true(outputs[0].dtype == BRAID_CLIENT_F32 && outputs[0].bytes == (size_t)s->out_count * sizeof(float));
  for (int64_t k = 0; k < s->out_count; k++) {
    float wanted = ldexpf(s->out[input][k], out->exponent);
    assert_memory_equal((const char *)outputs[0].data + (size_t)k * sizeof wanted, &wanted, sizeof wanted);
  }
  braid_client_release(call);
  return status;
}

static void expect(braid_client_status got, braid_client_status wanted, const char *text) {
  if (got != wanted || (text && !strstr(braid_client_error(), text)))
    fail_msg("%d (%s), not %d (%s)", got, braid_client_error(), wanted, text ? text : "");
}

/* --- private -------------------------------------------------------------------------------------------------------
 */
typedef struct caller {
  const char *token;
  int launches, model;
  pthread_t thread;
} caller;

static void *call_thread(void *context) {
  const caller *c = context;
  braid_client *client = wire_connect(wire_address(), c->token);
  for (int i = 0; i < c->launches; i++) expect(launch(client, c->model, i % kInputs, i & 1, 0), BRAID_CLIENT_OK, NULL);
  braid_client_close(client);
  return NULL;
}

typedef struct watch {
  uint64_t seen, most_running;
  int cores;
} watch;

static void look_at(braid_serve_card *card, void *context) {
  watch *w = context;
  uint64_t all = 0;
  for (int i = 0; i < card->running_count; i++) {
    assert_true(card->running[i]->cores && !(all & card->running[i]->cores));
    all |= card->running[i]->cores;
  }
  assert_true(all == card->busy && all >> card->cores == 0);
  w->seen++;
  w->cores = card->cores;
  if ((uint64_t)card->running_count > w->most_running) w->most_running = (uint64_t)card->running_count;
}

static void test_private(void **state) {
  (void)state;
  braid_server *server = wire_start(configure("private", kTenants));
  caller callers[] = {{"a", 25, 0, 0}, {"b", 25, 0, 0}, {"c", 40, 1, 0}, {"a", 40, 1, 0}, {"b", 40, 1, 0}};
  enum { kCallers = sizeof callers / sizeof *callers };
  watch w = {0};
  for (int i = 0; i < kCallers; i++)
    assert_int_equal(pthread_create(&callers[i].thread, NULL, call_thread, &callers[i]), 0);
  for (int i = 0; i < 300; i++) {
    assert_true(braid_serve_look_at_card(server->scheduler, 0, look_at, &w));
    wire_pause(1);
  }
  for (int i = 0; i < kCallers; i++) pthread_join(callers[i].thread, NULL);
  assert_true(w.seen == 300 && w.cores == 16 && w.most_running > 1);
  serve_expect(server, "GET", "/v2/braid/decisions", "Authorization: Bearer a\r\n", "", 200, "of its 16 cores beside");
  serve_expect(server, "GET", "/v2/braid/decisions", "Authorization: Bearer a\r\n", "", 200, "tokens; ");
  serve_expect(server, "GET", "/v2/models/long", "Authorization: Bearer a\r\n", "", 200, "on 1 to 16 cores in");
  assert_true(server->devices[0].card->busy == 0 && server->devices[0].card->switches > 0);
  serve_expect(server, "GET", "/v2/braid/status", "Authorization: Bearer a\r\n", "", 200,
               "\"cards\":[{\"device\":\"card\",\"design\":\"cnn-16x512\",\"mode\":\"private\",\"cores\":16");
  serve_expect(server, "GET", "/v2/braid/status", "Authorization: Bearer b\r\n", "", 200,
               "\"braid-overlay-command-submissions\":\"65\"");
  serve_expect(server, "GET", "/metrics", "Authorization: Bearer a\r\n", "", 200,
               "braid_card_command_completions_total{device=\"card\",tenant=\"cid\"} 40\n");
  serve_expect(server, "GET", "/metrics", "Authorization: Bearer a\r\n", "", 200,
               "\nbraid_card_cores_in_use{device=\"card\"} 0\n");
  serve_expect(server, "GET", "/v2/braid/fdinfo", "Authorization: Bearer a\r\n", "", 200,
               "braid-overlay-tenant:\tcid\ndrm-driver:\tbraid-overlay\ndrm-client-id:\t2\n");
  serve_answer own = serve_ask(server, "GET", "/v2/braid/fdinfo", "Authorization: Bearer b\r\n", "", 0);
  assert_true(strstr(own.body, "tenant:\tbob\n") && !strstr(own.body, "tenant:\tcid\n"));
  free(own.body);
  braid_client *ann = wire_connect(wire_address(), "a");
  braid_client_cores cores;
  expect(braid_client_request_cores(ann, "card", 1, &cores), BRAID_CLIENT_INVALID, "among all runs");
  expect(launch(ann, 0, 0, false, 1e4), BRAID_CLIENT_OK, NULL);
  expect(launch(ann, 0, 0, false, 1e-3), BRAID_CLIENT_UNAVAILABLE, "deadline");
  braid_client_close(ann);
  braid_server_destroy(server, 0);
}

/* What cannot be a number is refused, and the next one runs. */
static void test_inputs(void **state) {
  (void)state;
  braid_server *server = wire_start(configure("private", kTenants));
  braid_client *ann = wire_connect(wire_address(), "a");
  const subject *s = &subjects[1];
  const braid_overlay_map *in = &s->n.maps[s->n.inputs[0].map];
  float *numbers = calloc((size_t)s->in_count, sizeof *numbers);
  numbers[3] = NAN;
  braid_client_tensor tensor = {.name = "in",
                                .dtype = BRAID_CLIENT_F32,
                                .rank = 4,
                                .dims = {1, in->channels, in->rows, in->columns},
                                .data = numbers,
                                .bytes = (size_t)s->in_count * sizeof *numbers};
  braid_client_launch_options options = {.model = "short", .inputs = &tensor, .input_count = 1};
  braid_client_call *call;
  expect(braid_client_launch(ann, &options, &call), BRAID_CLIENT_INVALID, "number 3 is NaN");
  tensor.dims[0] = 2;
  tensor.bytes *= 2;
  float *twice = calloc((size_t)s->in_count, 2 * sizeof *numbers);
  tensor.data = twice;
  expect(braid_client_launch(ann, &options, &call), BRAID_CLIENT_INVALID, "shape");
  tensor.dims[0] = 1;
  tensor.dtype = BRAID_CLIENT_U8;
  tensor.bytes = (size_t)s->in_count;
  expect(braid_client_launch(ann, &options, &call), BRAID_CLIENT_INVALID, "type");
  expect(launch(ann, 1, 1, true, 0), BRAID_CLIENT_OK, NULL);
  free(twice);
  free(numbers);
  braid_client_close(ann);
  braid_server_destroy(server, 0);
}

/* --- public --------------------------------------------------------------------------------------------------------
 */
typedef struct held {
  const void *tenant;
  int cores;
} held;

static void look_held(braid_serve_card *card, void *context) {
  held *h = context;
  h->cores = braid_serve_card_held(card, h->tenant);
}

static int cores_of(braid_server *server, size_t tenant) {
  held h = {.tenant = &server->tenants[tenant]};
  assert_true(braid_serve_look_at_card(server->scheduler, 0, look_held, &h));
  return h.cores;
}

static void test_public(void **state) {
  (void)state;
  braid_server *server = wire_start(configure("public", kOwners));
  braid_client *ann = wire_connect(wire_address(), "a"), *bob = wire_connect(wire_address(), "b");
  braid_client *cid = wire_connect(wire_address(), "c");
  braid_client_cores cores, more;
  assert_int_equal(cores_of(server, 0), 3);
  assert_int_equal(cores_of(server, 1), 2);
  expect(launch(ann, 0, 0, false, 0), BRAID_CLIENT_OK, NULL);
  serve_expect(server, "GET", "/v2/braid/decisions", "Authorization: Bearer a\r\n", "", 200,
               "on 3 of its 16 cores beside 0 other runs, which are its tenant's alone");
  expect(launch(cid, 1, 0, false, 0), BRAID_CLIENT_UNAVAILABLE, "has no cores of card");
  expect(braid_client_request_cores(ann, "card", 8, &cores), BRAID_CLIENT_OK, NULL);
  assert_true(cores.overlay_cores == 8 && cores.granted == 8 && cores.instances == 16 && cores.held == 13);
  assert_non_null(strstr(cores.note, "8 of 16 cores of card card for tenant ann alone"));
  expect(braid_client_request_cores(ann, "card", 1, &more), BRAID_CLIENT_OVER_QUOTA, "over the share of tenant ann");
  expect(braid_client_request_cores(bob, "card", 4, &more), BRAID_CLIENT_UNAVAILABLE, "of which 13 are held");
  expect(launch(ann, 1, 2, true, 0), BRAID_CLIENT_OK, NULL);
  serve_expect(server, "GET", "/v2/braid/decisions", "Authorization: Bearer a\r\n", "", 200, "on 11 of its 16 cores");
  expect(launch(bob, 1, 2, true, 0), BRAID_CLIENT_OK, NULL);
  serve_expect(server, "GET", "/v2/braid/decisions", "Authorization: Bearer b\r\n", "", 200, "on 2 of its 16 cores");
  expect(braid_client_release_cores(bob, cores.handle), BRAID_CLIENT_UNKNOWN, NULL); /* of another connection */
  expect(braid_client_release_cores(ann, cores.handle), BRAID_CLIENT_OK, NULL);
  assert_int_equal(cores_of(server, 0), 3);
  expect(braid_client_request_cores(bob, "card", 4, &more), BRAID_CLIENT_OK, NULL);
  assert_int_equal(cores_of(server, 1), 6);
  braid_client_close(bob); /* without a release */
  for (int i = 0; i < 3000 && cores_of(server, 1) != 2; i++) wire_pause(1);
  assert_int_equal(cores_of(server, 1), 2);
  braid_client_close(ann);
  braid_client_close(cid);
  braid_server_destroy(server, 0);
}

/* Owners flood the card while a client takes cores, gives them back, and goes without. */
static void test_public_flood(void **state) {
  (void)state;
  braid_server *server = wire_start(configure("public", kOwners));
  caller callers[] = {{"a", 30, 0, 0}, {"a", 30, 1, 0}, {"b", 30, 0, 0}, {"b", 30, 1, 0}};
  watch w = {0};
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&callers[i].thread, NULL, call_thread, &callers[i]), 0);
  for (int i = 0; i < 60; i++) {
    braid_client *ann = wire_connect(wire_address(), "a");
    braid_client_cores cores;
    braid_client_status status = braid_client_request_cores(ann, "card", 1 + i % 8, &cores);
    assert_true(status == BRAID_CLIENT_OK || status == BRAID_CLIENT_UNAVAILABLE || status == BRAID_CLIENT_OVER_QUOTA);
    assert_true(braid_serve_look_at_card(server->scheduler, 0, look_at, &w));
    wire_pause(2);
    if (i & 1 && status == BRAID_CLIENT_OK)
      expect(braid_client_release_cores(ann, cores.handle), BRAID_CLIENT_OK, NULL);
    braid_client_close(ann);
  }
  for (int i = 0; i < 4; i++) pthread_join(callers[i].thread, NULL);
  for (int i = 0; i < 3000 && cores_of(server, 0) != 3; i++) wire_pause(1);
  assert_true(cores_of(server, 0) == 3 && cores_of(server, 1) == 2);
  assert_true(server->devices[0].card->busy == 0);
  braid_server_destroy(server, 0);
}

static void look_idle(braid_serve_card *card, void *context) {
  *(bool *)context = !card->busy && !card->running_count;
}

/* Clients that go while their requests wait and run: what they had is free, and the next one is served. */
static void test_gone(void **state) {
  (void)state;
  const char *const modes[] = {"private", "public"};
  for (int m = 0; m < 2; m++) {
    braid_server *server = wire_start(configure(modes[m], m ? kOwners : kTenants));
    const subject *s = &subjects[0];
    const braid_overlay_map *in = &s->n.maps[s->n.inputs[0].map];
    braid_client_tensor tensor = {.name = "in",
                                  .dtype = BRAID_CLIENT_I8,
                                  .rank = 4,
                                  .dims = {1, in->channels, in->rows, in->columns},
                                  .data = s->in[0],
                                  .bytes = (size_t)s->in_count};
    braid_client_launch_options options = {.model = "long", .inputs = &tensor, .input_count = 1};
    for (int round = 0; round < 4; round++) {
      braid_client *ann = wire_connect(wire_address(), "a");
      braid_client_call *calls[40];
      for (int i = 0; i < 40; i++) expect(braid_client_submit(ann, &options, &calls[i]), BRAID_CLIENT_OK, NULL);
      wire_pause(3 * round);
      for (int i = 0; i < 40; i++) braid_client_release(calls[i]);
      braid_client_close(ann);
    }
    bool idle = false;
    braid_client *bob = wire_connect(wire_address(), "b");
    expect(launch(bob, 1, 0, false, 0), BRAID_CLIENT_OK, NULL);
    for (int i = 0; i < 5000 && !idle; i++) {
      wire_pause(1);
      assert_true(braid_serve_look_at_card(server->scheduler, 0, look_idle, &idle));
    }
    assert_true(idle);
    braid_client_close(bob);
    braid_server_destroy(server, 0);
  }
}

/* --- ONNX ----------------------------------------------------------------------------------------------------------
 */
enum { kChannels = 4, kSide = 6, kPixels = kChannels * kSide * kSide, kResults = 8 * kSide * kSide };

static net_map point_conv(net_builder *b, net_map x, int outputs) {
  int64_t dims[4] = {outputs, x.channels, 1, 1};
  braid_value_id inputs[2] = {x.value, net_weights(b, 4, dims, 127, -7, BRAID_I8)};
  net_map y = {net_node(b, "Conv", inputs, 2, NULL), outputs, x.rows, x.columns, x.exponent - 7};
  return net_quantize(b, y.value, y, -3);
}

/* Two convolutions of a batch that is open, as a file; `numbers` become what the CPU's kernels compute of them. */
static void save_onnx(const char *path, const float *input, float *numbers) {
  net_builder b = {.state = 99, .batch = 1};
  net_map x = {-1, kChannels, kSide, kSide, 0};
  braid_session *session;
  braid_desc desc;
  net_ok(braid_graph_create(NULL, "two", &b.graph));
  net_ok(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){1, kChannels, kSide, kSide}));
  net_ok(braid_graph_add_input(b.graph, "x", &desc, &x.value));
  x = point_conv(&b, point_conv(&b, net_quantize(&b, x.value, x, -4), 16), 8);
  net_ok(braid_graph_add_output(b.graph, x.value));
  net_ok(braid_resolve(b.graph));
  net_ok(braid_model_save_onnx(b.graph, path));
  net_ok(braid_session_create(b.graph, NULL, &session));
  net_ok(braid_session_run(session, (const void *[]){input}, (void *[]){numbers}));
  braid_session_destroy(session);
  braid_graph_destroy(b.graph);
}

static void expect_numbers(braid_client *client, uint64_t handle, const float *input, const float *wanted) {
  braid_client_tensor tensor = {.name = "x",
                                .dtype = BRAID_CLIENT_F32,
                                .rank = 4,
                                .dims = {1, kChannels, kSide, kSide},
                                .data = input,
                                .bytes = kPixels * sizeof *input};
  braid_client_launch_options options = {
      .model = handle ? NULL : "two", .compiled = handle, .inputs = &tensor, .input_count = 1};
  braid_client_call *call;
  size_t count;
  expect(braid_client_launch(client, &options, &call), BRAID_CLIENT_OK, NULL);
  const braid_client_tensor *outputs = braid_client_outputs(call, &count);
  assert_true(count == 1 && outputs[0].rank == 4 && outputs[0].bytes == kResults * sizeof *wanted);
  assert_memory_equal(outputs[0].data, wanted, outputs[0].bytes);
  braid_client_release(call);
}

static void test_onnx(void **state) {
  (void)state;
  char text[1024], path[160];
  float image_of[kPixels], wanted[kResults];
  for (int i = 0; i < kPixels; i++) image_of[i] = (float)((i * 37) % 101 - 50) / 16;
  snprintf(path, sizeof path, "%s/two.onnx", folder);
  save_onnx(path, image_of, wanted);
  snprintf(text, sizeof text,
           "devices:\n  - {name: card, device: overlay, cores: private}\nmodels:\n  - {name: two, path: %s}\n", path);
  braid_server *server = wire_start(text);
  braid_client *client = wire_connect(wire_address(), NULL);
  expect_numbers(client, 0, image_of, wanted);
  FILE *file = fopen(path, "rb");
  char *onnx = malloc(1 << 20);
  size_t bytes = fread(onnx, 1, 1 << 20, file);
  fclose(file);
  braid_client_model *model;
  expect(braid_client_compile(client, "mine", onnx, bytes, "card", 0, &model), BRAID_CLIENT_OK, NULL);
  expect_numbers(client, model->handle, image_of, wanted);
  free(model);
  free(onnx);
  braid_client_close(client);
  braid_server_destroy(server, 0);
}

/* --- what does not fit ---------------------------------------------------------------------------------------------
 */
static void test_broken(void **state) {
  (void)state;
  char text[2048];
  const char *broken = "/broken.bpk";
  char path[160];
  snprintf(path, sizeof path, "%s%s", folder, broken);
  FILE *file = fopen(path, "w");
  fputs("BPK? no", file);
  fclose(file);
  snprintf(
      text, sizeof text,
      "devices:\n  - {name: card, device: \"overlay:design=cnn-1x8192\", cores: private}\n  - {name: cpu}\n"
      "  - {name: small, device: \"overlay:cores=2\", cores: private}\n"
      "models:\n  - {name: other, path: %s}\n  - {name: broken, path: %s}\n  - {name: cpus, path: %s, device: cpu}\n"
      "  - {name: reals, path: " BRAID_MODELS "/lenet.cfg}\n  - {name: fits, path: %s, device: small}\n"
      "  - {name: batch, path: %s, device: small, max_batch: 4}\n",
      subjects[1].path, path, subjects[1].path, subjects[1].path, subjects[1].path);
  braid_server *server = serve_start(text);
  static const struct {
    const char *path, *says;
  } kCases[] = {{"/v2/models/other", "compiled for cores of cnn-16x512, and those of cnn-1x8192 differ"},
                {"/v2/models/broken", "broken.bpk"},
                {"/v2/models/cpus", "a package runs on a card"},
                {"/v2/models/reals", "for the card cnn-1x8192"},
                {"/v2/models/batch", "one image at a time"}};
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++)
    serve_expect(server, "GET", kCases[i].path, "", "", 503, kCases[i].says);
  serve_expect(server, "GET", "/v2/models/fits", "", "", 200, "on 1 to 2 cores");
  braid_server_destroy(server, 0);
}

/* Cores that the card has not. */
static void test_too_many(void **state) {
  (void)state;
  char path[160];
  braid_server *server;
  snprintf(path, sizeof path, "%s/many.yaml", folder);
  FILE *file = fopen(path, "w");
  fputs(configure("public", "  - {name: ann, token: a, cores: 9}\n  - {name: bob, token: b, cores: 8}\n"), file);
  fclose(file);
  assert_int_equal(braid_server_create(&(braid_server_options){.config = path, .port = -1}, &server),
                   BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "tenant bob is to have 8 cores of card, which has 16"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_private), cmocka_unit_test(test_inputs),
                                     cmocka_unit_test(test_public),  cmocka_unit_test(test_public_flood),
                                     cmocka_unit_test(test_gone),    cmocka_unit_test(test_onnx),
                                     cmocka_unit_test(test_broken),  cmocka_unit_test(test_too_many)};
  return skip_run_group_tests(tests, prepare, clean_up);
}
