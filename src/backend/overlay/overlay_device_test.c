/* The overlay as a device: random quantized networks give the bits of the CPU's float kernels and of the reference's
 * plain loops, on any number of cores and for any batch; what it can't run is said, and runs elsewhere; its times are
 * those of the timing simulator. */
#include "overlay/networks.h"

#include <stdlib.h>
#include <unistd.h>

#include "braid/overlay.h"
#include "braid/session.h"
#include "oom.h"
#include "overlay/reference.h"

enum { kTrials = 80 };

typedef struct results {
  size_t count, bytes[16];
  void *data[16];
} results;

static void *make_input(const braid_session *session, uint64_t seed) {
  net_builder b = {.state = seed};
  const braid_desc *desc = braid_session_input(session, 0);
  float *numbers = malloc(braid_desc_bytes(desc));
  for (int64_t i = 0; i < braid_desc_count(desc); i++) numbers[i] = (float)(net_draw(&b, 2000) - 1000) / 200;
  return numbers;
}

static void allocate_results(const braid_session *session, results *out) {
  out->count = braid_session_output_count(session);
  assert_true(out->count <= sizeof out->data / sizeof *out->data);
  for (size_t i = 0; i < out->count; i++) {
    out->bytes[i] = braid_desc_bytes(braid_session_output(session, i));
    out->data[i] = calloc(out->bytes[i], 1);
  }
}

static void free_results(results *r) {
  for (size_t i = 0; i < r->count; i++) free(r->data[i]);
}

static size_t count_regions(const braid_session *session) {
  size_t regions = 0;
  for (size_t i = 0; i < braid_session_plan_count(session); i++)
    regions += strcmp(braid_session_plan(session, i).op, BRAID_REGION_OP) == 0;
  return regions;
}

/* Runs twice, with other numbers first: nothing may be left of them. Returns the regions. */
static size_t run_on(const braid_graph *graph, const char *devices, const char *place, uint64_t seed, results *out) {
  braid_session *session;
  braid_session_options options = {.devices = devices, .place = place, .no_fusion = strcmp(devices, "cpu") == 0};
  net_ok(braid_session_create(graph, &options, &session));
  allocate_results(session, out);
  for (int run = 1; run >= 0; run--) {
    void *input = make_input(session, seed + (uint64_t)run * 1000);
    net_ok(braid_session_run(session, (const void *[]){input}, out->data));
    free(input);
  }
  size_t regions = count_regions(session);
  braid_session_destroy(session);
  return regions;
}

static void expect_same(const results *a, const results *b, const char *what, uint64_t seed) {
  assert_int_equal(a->count, b->count);
  for (size_t i = 0; i < a->count; i++)
    if (memcmp(a->data[i], b->data[i], a->bytes[i]) != 0)
      fail_msg("seed %llu, output %zu: not as %s", (unsigned long long)seed, i, what);
}

/* --- results ----------------------------------------------------------------------------------------------------- */
/* By the plain loops over the layers that the whole graph is lowered to. */
static void run_reference(braid_graph *graph, uint64_t seed, const results *like, results *out) {
  braid_overlay_network *network;
  braid_session *session;
  net_ok(braid_session_create(graph, NULL, &session));
  float *numbers = make_input(session, seed);
  allocate_results(session, out);
  braid_session_destroy(session);
  net_ok(braid_resolve(graph));
  net_ok(braid_overlay_lower(graph, NULL, &network));
  const braid_overlay_map *from = &network->maps[network->inputs[0].map];
  int8_t *in = malloc((size_t)braid_overlay_map_bytes(from)), *maps[16];
  for (size_t o = 0; o < network->output_count; o++)
    maps[o] = malloc((size_t)braid_overlay_map_bytes(&network->maps[network->outputs[o].map]));
  for (int64_t n = 0; n < network->batch; n++) {
    braid_overlay_read_port(network, &network->inputs[0], numbers + n * braid_overlay_map_bytes(from), in);
    net_ok(braid_overlay_reference(network, (const int8_t *[]){in}, maps, NULL));
    for (size_t i = 0; i < like->count; i++)
      for (size_t o = 0; o < network->output_count; o++) {
        const braid_overlay_map *map = &network->maps[network->outputs[o].map];
        if (network->outputs[o].value != braid_graph_output(graph, i)) continue;
        int64_t count = braid_overlay_map_bytes(map);
        assert_int_equal(out->bytes[i], (size_t)(count * network->batch) * sizeof(float));
        braid_overlay_dequantize(maps[o], count, map->exponent, (float *)out->data[i] + n * count);
      }
  }
  for (size_t o = 0; o < network->output_count; o++) free(maps[o]);
  free(in);
  free(numbers);
  braid_overlay_network_destroy(network);
}

static void test_results(void **state) {
  (void)state;
  size_t compared = 0;
  for (uint64_t seed = 1; seed <= kTrials; seed++) {
    bool odd_means;
    char devices[64];
    int64_t batch = 1 + (int64_t)(seed % 3);
    braid_graph *graph = net_random(seed, batch, &odd_means);
    results card, host, plain;
    (void)snprintf(devices, sizeof devices, "overlay:cores=%llu cpu", (unsigned long long)(1 + seed * 5 % 16));
    assert_true(run_on(graph, devices, NULL, seed, &card) >= 1); /* more where the design lacks something */
    run_on(graph, "cpu", NULL, seed, &host);
    if (!odd_means) expect_same(&card, &host, "on the CPU", seed);
    compared += !odd_means;
    run_reference(graph, seed, &card, &plain);
    expect_same(&card, &plain, "by the reference", seed);
    free_results(&card);
    free_results(&host);
    free_results(&plain);
    braid_graph_destroy(graph);
  }
  assert_true(compared >= kTrials / 3);
}

/* A product with a Sigmoid behind it, which the host computes, in the middle. */
static braid_graph *gated(net_builder *b) {
  braid_desc desc;
  net_map x = {-1, 4, 6, 6, 0};
  *b = (net_builder){.state = 99, .batch = 2};
  net_ok(braid_graph_create(NULL, "gated", &b->graph));
  net_ok(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){2, 4, 6, 6}));
  net_ok(braid_graph_add_input(b->graph, "x", &desc, &x.value));
  x = net_quantize(b, x.value, x, -4);
  net_map y = net_conv(b, x, 8, 1, true);
  braid_value_id gate = net_node(b, "Sigmoid", (braid_value_id[]){y.value}, 1, NULL);
  net_map z = net_conv(b, net_quantize(b, gate, y, -6), 8, 1, true);
  net_map sum = net_residual(b, z);
  net_ok(braid_graph_add_output(b->graph, y.value));
  net_ok(braid_graph_add_output(b->graph, sum.value));
  return b->graph;
}

static void test_parts(void **state) {
  (void)state;
  net_builder b;
  braid_graph *graph = gated(&b);
  results card, host;
  assert_int_equal(run_on(graph, "overlay cpu", NULL, 7, &card), 2);
  run_on(graph, "cpu", NULL, 7, &host);
  expect_same(&card, &host, "on the CPU", 7);
  free_results(&card);
  free_results(&host);
  braid_session *session;
  assert_int_equal(braid_session_create(graph, &(braid_session_options){.devices = "overlay"}, &session),
                   BRAID_UNSUPPORTED);
  if (!strstr(braid_error_detail(), "(Sigmoid): no device can run it: the overlay has no such op"))
    fail_msg("%s", braid_error_detail());
  braid_graph_destroy(graph);
}

/* --- placement --------------------------------------------------------------------------------------------------- */
/* Three residual blocks; names[i] is the i-th convolution's. */
static braid_graph *blocks(net_builder *b, char names[3][40]) {
  braid_desc desc;
  net_map x = {-1, 8, 7, 7, 0};
  size_t found = 0;
  *b = (net_builder){.state = 4, .batch = 2};
  net_ok(braid_graph_create(NULL, "blocks", &b->graph));
  net_ok(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){2, 8, 7, 7}));
  net_ok(braid_graph_add_input(b->graph, "x", &desc, &x.value));
  x = net_quantize(b, x.value, x, -4);
  for (int i = 0; i < 3; i++) x = net_residual(b, x);
  net_ok(braid_graph_add_output(b->graph, x.value));
  for (size_t n = 0; n < braid_graph_node_count(b->graph); n++) {
    braid_node_info node = braid_graph_node(b->graph, (braid_node_id)n);
    if (strcmp(node.op, "Conv") == 0 && found < 3) (void)snprintf(names[found++], 40, "%s", node.name);
  }
  assert_int_equal(found, 3);
  return b->graph;
}

static void expect_line(const braid_graph *graph, const char *devices, const char *place, const char *node,
                        const char *device) {
  braid_session *session;
  braid_session_options options = {.devices = devices, .place = place};
  net_ok(braid_session_create(graph, &options, &session));
  bool found = false;
  for (size_t i = 0; i < braid_session_plan_count(session); i++)
    found |= strcmp(braid_session_plan(session, i).op, node) == 0 &&
             strcmp(braid_session_plan(session, i).device, device) == 0;
  if (!found) fail_msg("no %s on %s", node, device);
  braid_session_destroy(session);
}

/* One convolution on the CPU, in the middle: what is fused with it does not tear the regions around. */
static void test_placed_elsewhere(void **state) {
  (void)state;
  net_builder b;
  char names[3][40], place[64];
  braid_graph *graph = blocks(&b, names);
  results card, host;
  (void)snprintf(place, sizeof place, "%s=cpu", names[1]);
  assert_int_equal(run_on(graph, "overlay cpu", place, 3, &card), 2);
  run_on(graph, "cpu", NULL, 3, &host);
  expect_same(&card, &host, "on the CPU", 3);
  free_results(&card);
  free_results(&host);
  braid_graph_destroy(graph);
}

/* Two shares of one card: what is placed on the second runs there, all of it where it can't stand alone. */
static void test_shares(void **state) {
  (void)state;
  static const char kShares[] = "overlay.0:parts=2 overlay.1:parts=2 cpu";
  net_builder b;
  char names[3][40], place[64];
  braid_graph *graph = blocks(&b, names);
  results card, host;
  (void)snprintf(place, sizeof place, "%s=overlay.1", names[1]);
  assert_true(run_on(graph, kShares, place, 3, &card) >= 1);
  expect_line(graph, kShares, place, BRAID_REGION_OP, "overlay.1");
  run_on(graph, "cpu", NULL, 3, &host);
  expect_same(&card, &host, "on the CPU", 3);
  free_results(&card);
  free_results(&host);
  braid_graph_destroy(graph);
}

/* Between two layers stands an activation that only the CPU has: it gets bytes and gives bytes. */
static void test_borders(void **state) {
  (void)state;
  net_builder b = {.state = 11, .batch = 1};
  braid_desc desc;
  net_map x = {-1, 8, 6, 6, 0};
  net_ok(braid_graph_create(NULL, "borders", &b.graph));
  net_ok(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){1, 8, 6, 6}));
  net_ok(braid_graph_add_input(b.graph, "x", &desc, &x.value));
  net_map first = net_conv(&b, net_quantize(&b, x.value, x, -4), 8, 1, true);
  braid_value_id leaky = net_node(&b, "LeakyRelu", &first.value, 1, NULL);
  net_map second = net_conv(&b, net_quantize(&b, leaky, first, first.exponent), 8, 1, true);
  net_ok(braid_graph_add_output(b.graph, second.value));
  results card, host;
  assert_int_equal(run_on(b.graph, "overlay cpu", NULL, 5, &card), 2);
  expect_line(b.graph, "overlay cpu", NULL, "QLinearActivation", "cpu");
  run_on(b.graph, "cpu", NULL, 5, &host);
  expect_same(&card, &host, "on the CPU", 5);
  free_results(&card);
  free_results(&host);
  braid_graph_destroy(b.graph);
}

/* --- designs and options ----------------------------------------------------------------------------------------- */
static void expect_refused(const char *device, braid_status expected, const char *part) {
  braid_registry *registry;
  braid_device *opened;
  net_ok(braid_registry_create(NULL, &registry));
  braid_status status = braid_device_open(registry, device, &opened);
  if (status != expected || !strstr(braid_error_detail(), part))
    fail_msg("%s: \"%s\" is expected: %s, %s", device, part, braid_status_text(status), braid_error_detail());
  braid_registry_destroy(registry);
}

static void test_options(void **state) {
  (void)state;
  expect_refused("overlay:cores=17", BRAID_INVALID_ARGUMENT, "cores=17: cnn-16x512 has 1 to 16");
  expect_refused("overlay:cores=0", BRAID_INVALID_ARGUMENT, "expected a number from 1 to 64");
  expect_refused("overlay:design=none", BRAID_NOT_FOUND, "there are cnn-16x512");
  expect_refused("overlay:design=rnn-16x64", BRAID_UNSUPPORTED, "recurrent");
  expect_refused("overlay:memory=12", BRAID_INVALID_ARGUMENT, "at least 4096");
  expect_refused("overlay:memory=99999999999999", BRAID_INVALID_ARGUMENT, "bytes of DDR");
  expect_refused("overlay:speed=2", BRAID_INVALID_ARGUMENT, "design=, cores=, memory=");
  expect_refused("overlay.4:parts=4", BRAID_INVALID_ARGUMENT, "expected a part from 0 to 3");
  expect_refused("overlay.0:parts=4,cores=5", BRAID_INVALID_ARGUMENT, "cores=5: a part of cnn-16x512 has 1 to 4");
  expect_refused("overlay.0:parts=17", BRAID_INVALID_ARGUMENT, "cnn-16x512 has 16 cores");
  expect_refused("overlay:part=1", BRAID_INVALID_ARGUMENT, "of how many?");
  expect_refused("overlay.1:part=2,parts=4", BRAID_INVALID_ARGUMENT, "overlay.1: its name says which share it is");
  expect_refused("overlay.1:parts=4,part=2", BRAID_INVALID_ARGUMENT, "overlay.1: its name says which share it is");
}

/* A file of one's own: the library's smallest core, three of them. */
static void test_own_design(void **state) {
  (void)state;
  char path[] = "/tmp/braid-overlay-XXXXXX.yaml", devices[96];
  int file = mkstemps(path, 5);
  const braid_overlay_design *design;
  assert_true(file >= 0);
  net_ok(braid_overlay_design_load(NULL, "cnn-16x512", &design));
  FILE *out = fdopen(file, "w");
  fprintf(out, "name: mine\nsummary: three cores\nnetwork: convolutional\n");
  for (size_t i = 0; i < BRAID_OVERLAY_FIGURES; i++) {
    braid_overlay_figure figure;
    if (!braid_overlay_design_figure(design, i, &figure)) continue;
    bool cores = strcmp(figure.key, "cores") == 0, memory = strcmp(figure.key, "feature_bytes") == 0;
    fprintf(out, "%s: {value: %.17g, source: assumed}\n", figure.key, cores ? 3 : memory ? 16384 : figure.value);
  }
  fclose(out);
  braid_overlay_design_destroy(design);
  (void)snprintf(devices, sizeof devices, "overlay:design=%s cpu", path);
  for (uint64_t seed = 1; seed <= 4; seed++) {
    bool odd_means;
    braid_graph *graph = net_random(seed, 1, &odd_means);
    results card, whole;
    run_on(graph, devices, NULL, seed, &card);
    run_on(graph, "overlay:design=cnn-1x8192 cpu", NULL, seed, &whole);
    expect_same(&card, &whole, "on another design", seed);
    free_results(&card);
    free_results(&whole);
    braid_graph_destroy(graph);
  }
  assert_int_equal(unlink(path), 0);
}

static void test_memory(void **state) {
  (void)state;
  bool odd_means;
  braid_graph *graph = net_random(3, 2, &odd_means);
  braid_session *session;
  braid_session_options options = {.devices = "overlay:memory=4096 cpu"};
  assert_int_equal(braid_session_create(graph, &options, &session), BRAID_NO_MEMORY);
  if (!strstr(braid_error_detail(), "of which 4096 of 4096 are free")) fail_msg("%s", braid_error_detail());
  braid_graph_destroy(graph);
}

/* Sessions of one machine share the card's memory, and give back what they took. */
static void test_shared_memory(void **state) {
  (void)state;
  bool odd_means;
  braid_graph *graph = net_random(3, 2, &odd_means);
  braid_machine *machine;
  braid_session *first, *second;
  for (uint64_t room = 4096;; room += 4096) { /* the least that one of them needs */
    char devices[64];
    assert_true(room < 1 << 24);
    (void)snprintf(devices, sizeof devices, "overlay:memory=%llu cpu", (unsigned long long)room);
    net_ok(braid_machine_create(NULL, &(braid_machine_options){.devices = devices}, &machine));
    if (braid_session_create(graph, &(braid_session_options){.machine = machine}, &first) == BRAID_OK) break;
    braid_machine_release(machine);
  }
  assert_int_equal(braid_session_create(graph, &(braid_session_options){.machine = machine}, &second), BRAID_NO_MEMORY);
  braid_session_destroy(first);
  net_ok(braid_session_create(graph, &(braid_session_options){.machine = machine}, &second));
  braid_session_destroy(second);
  braid_machine_release(machine);
  braid_graph_destroy(graph);
}

/* A model of real numbers: told how it becomes one of integers. */
static void test_float_model(void **state) {
  (void)state;
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x, y = -1;
  braid_session *session;
  net_ok(braid_graph_create(NULL, "float", &graph));
  net_ok(braid_desc_init(&desc, BRAID_F32, 2, (int64_t[]){1, 4}));
  net_ok(braid_graph_add_input(graph, "x", &desc, &x));
  net_ok(braid_graph_add_node(graph, "Relu", "relu", &x, 1, &y, 1, NULL));
  net_ok(braid_graph_add_output(graph, y));
  braid_session_options options = {.devices = "overlay"};
  assert_int_equal(braid_session_create(graph, &options, &session), BRAID_UNSUPPORTED);
  if (!strstr(braid_error_detail(), "braid quantize MODEL")) fail_msg("%s", braid_error_detail());
  braid_graph_destroy(graph);
}

/* --- times ------------------------------------------------------------------------------------------------------- */
/* Of a graph that is one region whole. */
static void expect_time(const braid_graph *graph, const braid_overlay_package *package, int64_t batch,
                        const char *devices, int shares) {
  const braid_overlay_design *design;
  braid_overlay_simulated simulated;
  braid_session *session;
  results out;
  net_ok(braid_session_create(graph, &(braid_session_options){.devices = devices, .explain = true}, &session));
  assert_int_equal(count_regions(session), 1);
  braid_plan_offer offer = {0};
  for (size_t i = 0; !offer.chosen && i < braid_session_offer_count(session, 0); i++)
    offer = braid_session_offer(session, 0, i);
  assert_true(offer.chosen && !offer.measured);
  double planned = offer.us;
  void *input = make_input(session, 1);
  allocate_results(session, &out);
  net_ok(braid_session_run(session, (const void *[]){input}, out.data));
  braid_plan_line line = braid_session_plan(session, 0);
  braid_session_destroy(session);
  net_ok(braid_overlay_design_load(NULL, "cnn-16x512", &design));
  net_ok(braid_overlay_simulate(package, design, 2, &simulated));
  braid_overlay_package_info info = braid_overlay_package_get_info(package);
  double moved = (double)(batch * (info.input_bytes + info.output_bytes));
  double expected = (double)batch * 1e6 * simulated.seconds + 2 * design->host_latency_us +
                    moved / (1e3 * design->host_gigabytes_per_second);
  braid_overlay_program_info program; /* plans have the compiler's estimate of an image */
  net_ok(braid_overlay_package_share(package, 2, NULL, &program));
  double estimate = (double)program.cycles / design->clock_mhz, image = 1e6 * simulated.seconds;
  assert_true(estimate > 0 && fabs(planned - expected - (double)batch * (estimate - image)) < 0.002);
  if (fabs(line.median_us - expected) > 0.002) fail_msg("%.3f us, %.3f are expected", line.median_us, expected);
  double joules = (double)batch * (simulated.joules - simulated.energy.idle), watts = design->idle_watts / shares;
  assert_true(watts > 0 && fabs(line.energy_uj - 1e6 * joules - watts * expected) < 1e-3 * line.energy_uj);
  braid_overlay_design_destroy(design);
  free_results(&out);
  free(input);
}

/* A batch takes its images one after the other, and what is moved to the card and back; all that time the card is on,
 * of whose power without work a share has its part. */
static void test_times(void **state) {
  (void)state;
  const braid_overlay_design *design;
  int tried = 0;
  net_ok(braid_overlay_design_load(NULL, "cnn-16x512", &design));
  for (uint64_t seed = 1; seed <= 12; seed++) {
    bool odd_means;
    int64_t batch = 1 + (int64_t)(seed % 4);
    braid_graph *graph = net_random(seed, batch, &odd_means), *copy;
    braid_overlay_package *package;
    net_ok(braid_graph_clone(graph, &copy));
    net_ok(braid_resolve(copy));
    braid_status status = braid_overlay_compile(copy, design, NULL, NULL, &package);
    if (status == BRAID_OK)
      expect_time(graph, package, batch, seed % 2 ? "overlay:cores=2 cpu" : "overlay.3:parts=8 cpu", seed % 2 ? 1 : 8);
    tried += status == BRAID_OK;
    braid_overlay_package_destroy(package);
    braid_graph_destroy(copy);
    braid_graph_destroy(graph);
  }
  assert_true(tried >= 6);
  braid_overlay_design_destroy(design);
}

static void test_energy(void **state) {
  (void)state;
  braid_registry *registry;
  braid_device *device;
  double before = -1;
  net_ok(braid_registry_create(NULL, &registry));
  net_ok(braid_device_open(registry, "overlay", &device));
  const braid_device_info *info = braid_device_get_info(device);
  assert_true(info->modelled && strstr(info->description, "cnn-16x512") != NULL);
  net_ok(braid_device_backend(device)->read_energy(braid_device_self(device), &before));
  assert_true(before == 0);
  braid_device_close(device);
  braid_registry_destroy(registry);
}

/* --- several runs in flight -------------------------------------------------------------------------------------- */
enum { kFlights = 4 };

static void test_flights(void **state) {
  (void)state;
  bool odd_means;
  braid_graph *graph = net_random(5, 2, &odd_means);
  braid_machine *machine;
  braid_plan *plan;
  braid_weights *weights;
  braid_execution *executions[kFlights];
  braid_session *session;
  results out[kFlights], alone;
  void *inputs[kFlights];
  net_ok(braid_machine_create(NULL, &(braid_machine_options){.devices = "overlay:cores=3 cpu"}, &machine));
  net_ok(braid_plan_create(machine, graph, NULL, &plan));
  net_ok(braid_weights_create(machine, &weights));
  net_ok(braid_session_create(graph, &(braid_session_options){.devices = "cpu"}, &session));
  for (int i = 0; i < kFlights; i++) {
    inputs[i] = make_input(session, 50 + (uint64_t)i);
    allocate_results(session, &out[i]);
    net_ok(braid_execution_create(plan, weights, &executions[i]));
  }
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < kFlights; i++)
      net_ok(braid_execution_submit(executions[i], (const void *[]){inputs[i]}, out[i].data, NULL, NULL));
    for (int i = 0; i < kFlights; i++) net_ok(braid_execution_wait(executions[i], -1));
  }
  for (int i = 0; i < kFlights; i++) {
    run_on(graph, "overlay cpu", NULL, 50 + (uint64_t)i, &alone);
    expect_same(&out[i], &alone, "alone", 5);
    free_results(&alone);
    free_results(&out[i]);
    free(inputs[i]);
    braid_execution_destroy(executions[i]);
  }
  braid_session_destroy(session);
  braid_weights_release(weights);
  braid_plan_release(plan);
  braid_machine_release(machine);
  braid_graph_destroy(graph);
}

/* --- memory of the host ------------------------------------------------------------------------------------------ */
typedef struct scarce {
  braid_graph *graph;
  size_t regions;
} scarce;

static braid_status create_session(const braid_allocator *allocator, void *context) {
  scarce *s = context;
  braid_machine *machine;
  braid_plan *plan = NULL;
  braid_execution *execution = NULL;
  braid_machine_options options = {.devices = "overlay:cores=2 cpu", .threads = 1};
  braid_status status = braid_machine_create(allocator, &options, &machine);
  if (status != BRAID_OK) return status;
  status = braid_plan_create(machine, s->graph, NULL, &plan);
  if (status == BRAID_OK) status = braid_execution_create(plan, NULL, &execution);
  for (size_t i = 0; status == BRAID_OK && i < braid_plan_line_count(plan); i++)
    s->regions += strcmp(braid_plan_get_line(plan, i).op, BRAID_REGION_OP) == 0;
  braid_execution_destroy(execution);
  braid_plan_release(plan);
  braid_machine_release(machine);
  return status;
}

static void test_scarce_memory(void **state) {
  (void)state;
  net_builder b = {.state = 3, .batch = 1};
  braid_desc desc;
  net_map x = {-1, 4, 5, 5, 0};
  scarce s = {0};
  net_ok(braid_graph_create(NULL, "scarce", &b.graph));
  net_ok(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){1, 4, 5, 5}));
  net_ok(braid_graph_add_input(b.graph, "x", &desc, &x.value));
  x = net_conv(&b, net_quantize(&b, x.value, x, -4), 4, 1, true);
  net_ok(braid_graph_add_output(b.graph, x.value));
  s.graph = b.graph;
  assert_true(oom_sweep(create_session, &s) > 100);
  assert_int_equal(s.regions, 1);
  braid_graph_destroy(b.graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_results),          cmocka_unit_test(test_parts),         cmocka_unit_test(test_options),
      cmocka_unit_test(test_own_design),       cmocka_unit_test(test_memory),        cmocka_unit_test(test_float_model),
      cmocka_unit_test(test_placed_elsewhere), cmocka_unit_test(test_shares),        cmocka_unit_test(test_borders),
      cmocka_unit_test(test_shared_memory),    cmocka_unit_test(test_scarce_memory), cmocka_unit_test(test_times),
      cmocka_unit_test(test_energy),           cmocka_unit_test(test_flights),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
