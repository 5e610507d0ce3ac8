/* The overlay's device by its contract (braid/device.h): what it claims of a graph that it is shown, what its tasks
 * take of time, energy and memory, and what tasks are refused. */
#include "overlay/networks.h"

#include <stdlib.h>
#include <unistd.h>

#include "backend/overlay/region.h"
#include "braid/custom.h"
#include "braid/overlay.h"
#include "braid/session.h"

enum { kMostNodes = 64, kMostOperands = 8, kMostClaims = 8, kMostBorder = 128 };

/* --- graphs as a backend sees them -------------------------------------------------------------------------------
 */
typedef struct shown_node {
  braid_node_desc desc;
  braid_operand operands[kMostOperands];
  int32_t values[kMostOperands];
} shown_node;

typedef struct shown {
  braid_subgraph graph;
  braid_subgraph_node listed[kMostNodes];
  shown_node nodes[kMostNodes];
  int32_t border[kMostBorder]; /* of a region: its operands' values */
  braid_operand operands[kMostBorder];
  braid_node_desc region;
} shown;

static const void *constant_of(const braid_value *value) {
  return value->kind == BRAID_VALUE_CONSTANT ? braid_tensor_const_data(value->tensor) : NULL;
}

static void show_node(const braid_graph *graph, size_t n, bool constants, shown *out) {
  const braid_node *node = &graph->nodes[n];
  shown_node *seen = &out->nodes[n];
  size_t inputs = node->input_count;
  assert_true(inputs + node->output_count <= kMostOperands);
  for (size_t i = 0; i < inputs + node->output_count; i++) {
    seen->values[i] = i < inputs ? node->inputs[i] : node->outputs[i - inputs];
    if (seen->values[i] < 0) continue;
    const braid_value *value = &graph->values[seen->values[i]];
    seen->operands[i] = (braid_operand){true, value->desc, constants ? constant_of(value) : NULL};
  }
  seen->desc = (braid_node_desc){.op = node->op->name,
                                 .name = node->name,
                                 .attrs = &node->attrs,
                                 .input_count = inputs,
                                 .output_count = node->output_count,
                                 .inputs = seen->operands,
                                 .outputs = seen->operands + inputs};
  out->listed[n] = (braid_subgraph_node){&seen->desc, seen->values, seen->values + inputs};
}

/* The whole graph, with constants in its nodes; or as a region, whose operands they are. */
static shown *show(const braid_graph *graph, bool region) {
  shown *out = calloc(1, sizeof *out);
  assert_true(graph->node_count <= kMostNodes);
  for (size_t n = 0; n < graph->node_count; n++) show_node(graph, n, !region, out);
  out->graph = (braid_subgraph){.nodes = out->listed,
                                .node_count = graph->node_count,
                                .value_count = graph->value_count,
                                .inputs = graph->inputs,
                                .outputs = graph->outputs,
                                .input_count = graph->input_count,
                                .output_count = graph->output_count};
  if (!region) return out;
  size_t count = 0;
  for (size_t i = 0; i < graph->input_count; i++) out->border[count++] = graph->inputs[i];
  for (size_t v = 0; v < graph->value_count; v++) {
    assert_true(count < kMostBorder);
    if (graph->values[v].kind == BRAID_VALUE_CONSTANT) out->border[count++] = (int32_t)v;
  }
  size_t inputs = count;
  for (size_t i = 0; i < graph->output_count; i++) out->border[count++] = graph->outputs[i];
  for (size_t i = 0; i < count; i++) {
    const braid_value *value = &graph->values[out->border[i]];
    out->operands[i] = (braid_operand){true, value->desc, constant_of(value)};
  }
  out->graph.inputs = out->border;
  out->graph.input_count = inputs;
  out->graph.outputs = out->border + inputs;
  out->region = (braid_node_desc){.op = BRAID_REGION_OP,
                                  .name = "region",
                                  .input_count = inputs,
                                  .output_count = graph->output_count,
                                  .inputs = out->operands,
                                  .outputs = out->operands + inputs,
                                  .region = &out->graph};
  return out;
}

/* --- graphs --------------------------------------------------------------------------------------------------------
 */
enum { kChannels = 4, kSide = 6, kInputs = kChannels * kSide * kSide };

static net_map begin_graph(net_builder *b, int64_t batch, int channels, int side) {
  braid_desc desc;
  net_map x = {-1, channels, side, side, 0};
  *b = (net_builder){.state = 99, .batch = batch};
  net_ok(braid_graph_create(NULL, "tasks", &b->graph));
  net_ok(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){batch, channels, side, side}));
  net_ok(braid_graph_add_input(b->graph, "x", &desc, &x.value));
  return net_quantize(b, x.value, x, -4);
}

/* A convolution of 1 x 1; its weights are quantized. Nothing is behind it. */
static net_map point_conv(net_builder *b, net_map x, int outputs, int stride) {
  int64_t dims[4] = {outputs, x.channels, 1, 1}, strides[2] = {stride, stride};
  braid_value_id inputs[2] = {x.value, net_weights(b, 4, dims, 127, -7, BRAID_I8)};
  braid_node_id id;
  net_map y = {net_node(b, "Conv", inputs, 2, &id), outputs, (x.rows - 1) / stride + 1, (x.columns - 1) / stride + 1,
               x.exponent - 7};
  net_ok(braid_graph_set_ints(b->graph, id, "strides", strides, 2));
  return net_quantize(b, y.value, y, -3);
}

/* Two of them, the second to eight channels. */
static braid_graph *two_layers(int64_t batch) {
  net_builder b;
  net_map x = point_conv(&b, begin_graph(&b, batch, kChannels, kSide), 16, 1);
  net_ok(braid_graph_add_output(b.graph, point_conv(&b, x, 8, 1).value));
  net_ok(braid_resolve(b.graph));
  return b.graph;
}

/* --- devices -------------------------------------------------------------------------------------------------------
 */
typedef struct card {
  char path[40];
  braid_registry *registry;
  braid_device *device;
  const braid_backend *backend;
  void *self;
} card;

/* The library's design with other figures: its power may be unknown (idle_watts < 0). */
static void open_card(card *c, double host_latency_us, double idle_watts) {
  const braid_overlay_design *design;
  char spec[64];
  strcpy(c->path, "/tmp/braid-tasks-XXXXXX.yaml");
  int file = mkstemps(c->path, 5);
  assert_true(file >= 0);
  net_ok(braid_overlay_design_load(NULL, "cnn-16x512", &design));
  FILE *out = fdopen(file, "w");
  fprintf(out, "name: mine\nsummary: a test's\nnetwork: convolutional\n");
  for (size_t i = 0; i < BRAID_OVERLAY_FIGURES; i++) {
    braid_overlay_figure figure;
    if (!braid_overlay_design_figure(design, i, &figure)) continue;
    double value = figure.value;
    if (strcmp(figure.key, "host_latency_us") == 0) value = host_latency_us;
    if (strcmp(figure.key, "idle_watts") == 0) value = idle_watts;
    if (value >= 0) fprintf(out, "%s: {value: %.17g, source: assumed}\n", figure.key, value);
  }
  fclose(out);
  braid_overlay_design_destroy(design);
  (void)snprintf(spec, sizeof spec, "overlay:design=%s", c->path);
  net_ok(braid_registry_create(NULL, &c->registry));
  net_ok(braid_device_open(c->registry, spec, &c->device));
  c->backend = braid_device_backend(c->device);
  c->self = braid_device_self(c->device);
}

static void close_card(card *c) {
  braid_device_close(c->device);
  braid_registry_destroy(c->registry);
  assert_int_equal(unlink(c->path), 0);
}

/* --- claims --------------------------------------------------------------------------------------------------------
 */
typedef struct claims {
  size_t count, refused;
  uint64_t nodes[kMostClaims]; /* bit n: node n */
  char why[kMostNodes][160];   /* of nodes that are refused */
  uint64_t refusals;
} claims;

static braid_status hear_claim(void *context, const braid_kernel *kernel, const uint32_t *nodes, size_t count) {
  claims *c = context;
  (void)kernel;
  assert_true(c->count < kMostClaims);
  for (size_t i = 0; i < count; i++) c->nodes[c->count] |= (uint64_t)1 << nodes[i];
  c->count++;
  return BRAID_OK;
}

static void hear_refusal(void *context, uint32_t node, const char *why) {
  claims *c = context;
  assert_true(node < kMostNodes);
  c->refusals |= (uint64_t)1 << node;
  (void)snprintf(c->why[node], sizeof c->why[node], "%s", why);
}

static void hear(const card *c, const shown *graph, claims *out) {
  *out = (claims){0};
  net_ok(c->backend->claim_regions(c->self, &graph->graph, hear_claim, out));
  c->backend->explain_regions(c->self, hear_refusal, out);
}

static size_t nth_conv(const braid_graph *graph, int n) {
  for (size_t i = 0; i < graph->node_count; i++)
    if (strcmp(graph->nodes[i].op->name, "Conv") == 0 && n-- == 0) return i;
  fail_msg("so many convolutions there are not");
  return 0;
}

static uint64_t all_of(const braid_graph *graph) {
  return ((uint64_t)1 << graph->node_count) - 1;
}

/* A graph that trains is left alone; so is a user's op that has the name of one that the overlay knows. */
static void test_not_claimed(void **state) {
  (void)state;
  static const braid_custom_op kCustom = {.name = "Conv"};
  card c;
  claims got;
  braid_graph *graph = two_layers(1);
  shown *seen = show(graph, false);
  size_t second = nth_conv(graph, 1);
  open_card(&c, 10, 30);
  hear(&c, seen, &got);
  assert_int_equal(got.count, 1);
  assert_true(got.nodes[0] == all_of(graph) && !got.refusals);
  seen->nodes[second].desc.custom = &kCustom;
  hear(&c, seen, &got);
  for (size_t i = 0; i < got.count; i++) assert_false(got.nodes[i] >> second & 1);
  assert_true(got.count > 0 && got.refusals >> second & 1);
  seen->nodes[second].desc.custom = NULL;
  for (size_t n = 0; n < graph->node_count; n++) seen->nodes[n].desc.training = true;
  hear(&c, seen, &got);
  assert_int_equal(got.count, 0);
  close_card(&c);
  free(seen);
  braid_graph_destroy(graph);
}

/* A layer that instructions cannot say (a stride of 17) is named, and is the only one that is left to others. */
static void test_unable(void **state) {
  (void)state;
  net_builder b;
  card c;
  claims got;
  net_map x = point_conv(&b, begin_graph(&b, 1, kChannels, 40), 16, 1);
  net_map y = point_conv(&b, x, 8, 17);
  net_ok(braid_graph_add_output(b.graph, point_conv(&b, y, 8, 1).value));
  net_ok(braid_resolve(b.graph));
  shown *seen = show(b.graph, false);
  size_t strided = nth_conv(b.graph, 1);
  uint64_t claimed = 0;
  open_card(&c, 10, 30);
  hear(&c, seen, &got);
  for (size_t i = 0; i < got.count; i++) claimed |= got.nodes[i];
  assert_true(claimed >> nth_conv(b.graph, 0) & 1 && claimed >> nth_conv(b.graph, 2) & 1);
  assert_false(claimed >> strided & 1);
  if (!strstr(got.why[strided], "stride_rows is 17") && !strstr(got.why[strided], "stride_columns is 17"))
    fail_msg("%s", got.why[strided]);
  close_card(&c);
  free(seen);
  braid_graph_destroy(b.graph);
}

/* What the caller placed here of a part is a region of its own where it can stand alone, all of it. */
static void test_placed(void **state) {
  (void)state;
  card c;
  claims got;
  braid_graph *graph = two_layers(1);
  shown *seen = show(graph, false);
  size_t second = nth_conv(graph, 1);
  uint64_t first = 0;
  open_card(&c, 10, 30);
  /* all before the second convolution's operands: x to the first one's result */
  for (size_t n = 0; n < graph->node_count && n < second; n++) {
    bool weights = graph->nodes[n].outputs[0] == graph->nodes[second].inputs[1];
    seen->nodes[n].desc.placed = !weights;
    if (!weights) first |= (uint64_t)1 << n;
  }
  hear(&c, seen, &got);
  assert_int_equal(got.count, 2);
  assert_true(got.nodes[0] == all_of(graph) && got.nodes[1] == first);
  seen->nodes[second].desc.placed = 1; /* which can't stand without what quantizes its result */
  hear(&c, seen, &got);
  assert_int_equal(got.count, 1);
  assert_true(got.nodes[0] == all_of(graph));
  close_card(&c);
  free(seen);
  braid_graph_destroy(graph);
}

/* --- tasks ---------------------------------------------------------------------------------------------------------
 */
/* A region on a card, with a queue and memory of the host for its operands. */
typedef struct bench {
  card card;
  braid_graph *graph;
  shown *seen;
  void *prepared, *queue, *memory[2]; /* x, y */
  size_t bytes[2];
  braid_timeline *timeline;
  braid_binding bindings[kMostBorder];
  braid_verdict verdict;
  braid_timing timing;
  braid_task task;
  uint64_t value;
} bench;

static void begin_bench(bench *b, int64_t batch, double host_latency_us, double idle_watts) {
  braid_prepared_info info;
  *b = (bench){0};
  open_card(&b->card, host_latency_us, idle_watts);
  b->graph = two_layers(batch);
  b->seen = show(b->graph, true);
  net_ok(b->card.backend->prepare(b->card.self, NULL, &b->seen->region, &b->prepared, &info));
  assert_int_equal(info.constants_folded, 0);
  net_ok(braid_timeline_create(NULL, &b->timeline));
  net_ok(b->card.backend->queue_create(b->card.self, b->timeline, &b->queue));
  size_t inputs = b->seen->region.input_count;
  for (size_t i = 0; i < inputs + 1; i++) {
    const braid_operand *operand = &b->seen->operands[i];
    size_t bytes = braid_desc_bytes(&operand->desc);
    b->bindings[i] = (braid_binding){.host = (void *)(uintptr_t)operand->constant, .bytes = bytes};
    if (i && i < inputs) continue;
    b->bytes[i > 0] = bytes;
    b->memory[i > 0] = b->bindings[i].host = calloc(bytes, 1);
  }
  b->task = (braid_task){.kind = BRAID_TASK_KERNEL,
                         .label = "region",
                         .prepared = b->prepared,
                         .bindings = b->bindings,
                         .input_count = inputs,
                         .output_count = 1};
}

static braid_status run_task(bench *b) {
  b->task.value = ++b->value;
  b->task.verdict = &b->verdict;
  b->task.timing = &b->timing;
  b->timing = (braid_timing){0};
  braid_verdict_init(&b->verdict);
  net_ok(b->card.backend->submit(b->queue, &b->task));
  net_ok(braid_timeline_wait(b->timeline, b->value, -1));
  return braid_verdict_status(&b->verdict);
}

static void end_bench(bench *b) {
  b->card.backend->discard(b->card.self, b->prepared);
  b->card.backend->queue_destroy(b->card.self, b->queue);
  braid_timeline_destroy(b->timeline);
  close_card(&b->card);
  free(b->memory[0]), free(b->memory[1]);
  free(b->seen);
  braid_graph_destroy(b->graph);
}

/* One after the other, however fast this machine is: each moves data there and back, half a second each way. The
 * counter has what all took. */
static void test_charged(void **state) {
  (void)state;
  bench b;
  double energy, before = 0;
  int64_t end = 0;
  begin_bench(&b, 1, 500000, 30);
  for (int i = 0; i < 3; i++) {
    net_ok(run_task(&b));
    assert_true(b.timing.start_ns >= end && b.timing.end_ns - b.timing.start_ns >= 1000000000);
    assert_true(b.timing.energy_uj > 30e6); /* 30 W for more than a second */
    end = b.timing.end_ns;
    net_ok(b.card.backend->read_energy(b.card.self, &energy));
    assert_true(fabs(energy - before - b.timing.energy_uj) < 1);
    before = energy;
  }
  end_bench(&b);
}

/* Unknown is not 0, and no number that is none. */
static void test_unknown_power(void **state) {
  (void)state;
  bench b;
  double energy;
  begin_bench(&b, 1, 10, -1);
  net_ok(run_task(&b));
  assert_true(b.timing.energy_uj == -1 && b.timing.end_ns > b.timing.start_ns);
  assert_int_equal(b.card.backend->read_energy(b.card.self, &energy), BRAID_UNSUPPORTED);
  end_bench(&b);
}

static uint64_t bytes_taken(const bench *b) {
  uint64_t left, total;
  net_ok(b->card.backend->read_memory(b->card.self, &left, &total));
  return total - left;
}

/* Each image of a batch has the energy of one where the card needs none without work, and its own place in the card's
 * memory for what goes there and comes back: lines of 16 channels, 36 of them each way. */
static void test_batch(void **state) {
  (void)state;
  bench one, three;
  begin_bench(&one, 1, 0, 0);
  begin_bench(&three, 3, 0, 0);
  net_ok(run_task(&one));
  net_ok(run_task(&three));
  assert_true(one.timing.energy_uj > 0);
  assert_true(fabs(three.timing.energy_uj - 3 * one.timing.energy_uj) < 1e-9 * three.timing.energy_uj);
  assert_int_equal(bytes_taken(&three) - bytes_taken(&one), (uint64_t)2 * 2 * 36 * 16);
  end_bench(&one);
  end_bench(&three);
}

/* A card with room for a region and not a byte more takes it, and one with a byte less does not. */
static void test_exact_memory(void **state) {
  (void)state;
  bench b;
  begin_bench(&b, 9, 0, 0);
  uint64_t need = bytes_taken(&b), left, total;
  assert_true(need > 4096); /* the least that can be asked for */
  for (uint64_t less = 0; less <= 1; less++) {
    braid_device *device;
    braid_prepared_info info;
    void *prepared;
    char spec[96];
    (void)snprintf(spec, sizeof spec, "overlay:design=%s,memory=%llu", b.card.path, (unsigned long long)(need - less));
    net_ok(braid_device_open(b.card.registry, spec, &device));
    void *self = braid_device_self(device);
    braid_status status = b.card.backend->prepare(self, NULL, &b.seen->region, &prepared, &info);
    assert_int_equal(status, less ? BRAID_NO_MEMORY : BRAID_OK);
    net_ok(b.card.backend->read_memory(self, &left, &total));
    assert_true(left == (less ? total : 0) && total == need - less);
    if (prepared) b.card.backend->discard(self, prepared);
    net_ok(b.card.backend->read_memory(self, &left, &total));
    assert_true(left == total);
    braid_device_close(device);
  }
  end_bench(&b);
}

/* Operands that are not given, or lie beyond their buffer, and copies that do not fit: nothing is read or written. */
static void test_refused(void **state) {
  (void)state;
  bench b;
  void *small, *large;
  double energy;
  begin_bench(&b, 1, 0, 0);
  const braid_backend *backend = b.card.backend;
  size_t last = b.task.input_count;
  braid_binding given = b.bindings[0], result = b.bindings[last];
  b.bindings[0] = (braid_binding){.bytes = given.bytes};
  assert_int_equal(run_task(&b), BRAID_INVALID_ARGUMENT);
  b.bindings[0] = given;
  net_ok(backend->buffer_create(b.card.self, 2 * result.bytes, &large));
  net_ok(backend->buffer_create(b.card.self, result.bytes - 4, &small));
  b.bindings[last] = (braid_binding){.buffer = small, .bytes = result.bytes};
  assert_int_equal(run_task(&b), BRAID_OUT_OF_RANGE);
  b.bindings[last] = (braid_binding){.buffer = large, .offset = result.bytes + 64, .bytes = result.bytes};
  assert_int_equal(run_task(&b), BRAID_OUT_OF_RANGE);
  b.bindings[last] = (braid_binding){.buffer = large, .offset = SIZE_MAX - 63, .bytes = result.bytes};
  assert_int_equal(run_task(&b), BRAID_OUT_OF_RANGE);
  net_ok(backend->read_energy(b.card.self, &energy));
  assert_true(energy == 0);
  b.bindings[last] = (braid_binding){.buffer = large, .offset = result.bytes, .bytes = result.bytes};
  assert_int_equal(run_task(&b), BRAID_OK);
  b.bindings[last] = (braid_binding){.bytes = result.bytes}; /* nobody reads it */
  assert_int_equal(run_task(&b), BRAID_OK);
  b.task.kind = BRAID_TASK_COPY;
  b.task.source = (braid_binding){.buffer = large, .bytes = 128};
  b.task.target = (braid_binding){.buffer = large, .offset = 256, .bytes = 64};
  uint8_t *bytes = backend->buffer_map(b.card.self, large);
  memset(bytes, 1, 256);
  memset(bytes + 256, 2, 128);
  assert_int_equal(run_task(&b), BRAID_OUT_OF_RANGE);
  for (int i = 0; i < 128; i++) assert_int_equal(bytes[256 + i], 2);
  b.task.target.bytes = 128;
  b.task.source.bytes = 64;
  assert_int_equal(run_task(&b), BRAID_OK);
  for (int i = 0; i < 128; i++) assert_int_equal(bytes[256 + i], i < 64 ? 1 : 2);
  backend->buffer_destroy(b.card.self, small);
  backend->buffer_destroy(b.card.self, large);
  end_bench(&b);
}

/* A run that is cancelled ends at the next image. */
static void test_cancelled(void **state) {
  (void)state;
  braid_graph *graph = two_layers(3);
  shown *seen = show(graph, true);
  const braid_overlay_design *design;
  braid_overlay_region *region;
  braid_verdict verdict;
  void *operands[kMostBorder] = {0};
  net_ok(braid_overlay_design_load(NULL, "cnn-16x512", &design));
  net_ok(braid_overlay_region_create(NULL, &(braid_overlay_share){design, 2, 1}, &seen->region, &region));
  size_t inputs = seen->region.input_count, count = 3 * 8 * kSide * kSide;
  float *x = calloc(3 * kInputs, sizeof *x), *y = calloc(count, sizeof *y);
  for (size_t i = 0; i < inputs; i++) operands[i] = (void *)(uintptr_t)seen->operands[i].constant;
  for (size_t i = 0; i < count; i++) y[i] = 12345;
  for (int i = 0; i < 3 * kInputs; i++) x[i] = (float)(i % 15) - 7;
  operands[0] = x, operands[inputs] = y;
  braid_verdict_init(&verdict);
  braid_verdict_cancel(&verdict);
  net_ok(braid_overlay_region_run(region, operands, &verdict));
  for (size_t i = 0; i < count; i++) assert_true(y[i] == 12345);
  braid_verdict_init(&verdict);
  net_ok(braid_overlay_region_run(region, operands, &verdict));
  for (size_t i = 0; i < count; i++) assert_true(y[i] != 12345);
  free(x), free(y);
  braid_overlay_region_destroy(region);
  braid_overlay_design_destroy(design);
  free(seen);
  braid_graph_destroy(graph);
}

/* --- numbers -------------------------------------------------------------------------------------------------------
 */
static void run_session(const braid_graph *graph, const char *devices, const float *x, float *y) {
  braid_session *session;
  net_ok(braid_session_create(graph, &(braid_session_options){.devices = devices}, &session));
  net_ok(braid_session_run(session, (const void *[]){x}, (void *[]){y}));
  braid_session_destroy(session);
}

/* What is no number, infinite, half way between two steps or beyond the bounds is quantized as on the CPU. */
static void test_odd_numbers(void **state) {
  (void)state;
  static const float kOdd[] = {NAN,    INFINITY, -INFINITY, 0.03125F, 0.09375F,  -0.03125F, -0.09375F, 1e30F,
                               -1e30F, -0.0F,    7.96875F,  7.9375F,  -8.03125F, -8,        1e-40F};
  net_builder b;
  float x[kInputs], ours[2 * kInputs], host[2 * kInputs];
  net_map map = begin_graph(&b, 1, kChannels, kSide);
  braid_value_id relu = net_node(&b, "Relu", &map.value, 1, NULL);
  net_ok(braid_graph_add_output(b.graph, point_conv(&b, net_quantize(&b, relu, map, -4), 8, 1).value));
  for (int i = 0; i < kInputs; i++) x[i] = (float)(i % 31) / 4 - 3.9F;
  for (size_t i = 0; i < sizeof kOdd / sizeof *kOdd; i++) x[7 * i] = kOdd[i];
  run_session(b.graph, "overlay:cores=2 cpu", x, ours);
  run_session(b.graph, "cpu", x, host);
  for (int i = 0; i < 8 * kSide * kSide; i++)
    if (ours[i] != host[i]) fail_msg("result %d is %g, on the CPU %g", i, ours[i], host[i]);
  braid_graph_destroy(b.graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_not_claimed),   cmocka_unit_test(test_unable),    cmocka_unit_test(test_placed),
      cmocka_unit_test(test_charged),       cmocka_unit_test(test_batch),     cmocka_unit_test(test_refused),
      cmocka_unit_test(test_unknown_power), cmocka_unit_test(test_cancelled), cmocka_unit_test(test_odd_numbers),
      cmocka_unit_test(test_exact_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
