/* The reference executor beside Braid's CPU, which computes the Q/DQ graph: bit for bit, on random networks and on
 * ResNet-20 (BRAID_DATA); and beside ONNX Runtime where BRAID_PYTHON names a Python that has it. */
#include "overlay/networks.h"

#include <stdlib.h>
#include <unistd.h>

#include "backend/cpu/evaluate.h"
#include "braid/model.h"
#include "braid/quantize.h"
#include "braid/session.h"
#include "folder.h"
#include "overlay/reference.h"
#include "skip.h"
#include "slow.h"

enum { MOST_PORTS = 40 };

/* --- the network over a batch ------------------------------------------------------------------------------------ */
typedef struct scores {
  float *numbers;
  int64_t count;
} scores;

/* All images of the batch, one after the other; `out` of each output of the graph. */
static void run_reference(const braid_graph *graph, const braid_overlay_network *network, const float *x, scores *out) {
  int8_t *inputs[MOST_PORTS], *outputs[MOST_PORTS];
  assert_int_equal(network->input_count, 1);
  assert_true(network->inputs[0].real);
  assert_true(network->output_count <= MOST_PORTS);
  int64_t taken = braid_overlay_map_bytes(&network->maps[network->inputs[0].map]);
  inputs[0] = malloc((size_t)taken);
  for (size_t i = 0; i < network->output_count; i++) {
    const braid_overlay_map *map = &network->maps[network->outputs[i].map];
    assert_true(network->outputs[i].real);
    outputs[i] = malloc((size_t)braid_overlay_map_bytes(map));
  }
  for (size_t k = 0; k < graph->output_count; k++) {
    out[k].count = braid_desc_count(&graph->values[graph->outputs[k]].desc);
    out[k].numbers = malloc((size_t)out[k].count * sizeof(float));
  }
  for (int64_t n = 0; n < network->batch; n++) {
    braid_overlay_read_port(network, &network->inputs[0], x + n * taken, inputs[0]);
    net_ok(braid_overlay_reference(network, (const int8_t *const *)inputs, outputs, NULL));
    for (size_t k = 0; k < graph->output_count; k++) {
      size_t i = 0;
      while (i < network->output_count && network->outputs[i].value != graph->outputs[k]) i++;
      assert_true(i < network->output_count);
      const braid_overlay_map *map = &network->maps[network->outputs[i].map];
      int64_t count = braid_overlay_map_bytes(map);
      assert_int_equal(count * network->batch, out[k].count);
      braid_overlay_dequantize(outputs[i], count, map->exponent, out[k].numbers + n * count);
    }
  }
  free(inputs[0]);
  for (size_t i = 0; i < network->output_count; i++) free(outputs[i]);
}

static void run_braid(const braid_graph *graph, const float *x, scores *out) {
  braid_session *session;
  void *outputs[MOST_PORTS];
  net_ok(braid_session_create(graph, NULL, &session));
  for (size_t k = 0; k < graph->output_count; k++) {
    out[k].count = braid_desc_count(braid_session_output(session, k));
    outputs[k] = out[k].numbers = malloc((size_t)out[k].count * sizeof(float));
  }
  net_ok(braid_session_run(session, (const void *const[]){x}, outputs));
  braid_session_destroy(session);
}

/* The nodes as they are written, by the plain kernels. */
static void run_plain(const braid_graph *graph, float *x, scores *out) {
  braid_cpu_evaluator evaluator;
  braid_tensor **values = calloc(graph->value_count, sizeof *values);
  net_ok(braid_cpu_evaluator_init(&evaluator, NULL));
  net_ok(braid_tensor_wrap(NULL, &graph->values[graph->inputs[0]].desc, x, NULL, NULL, &values[graph->inputs[0]]));
  for (size_t n = 0; n < graph->node_count; n++) {
    const braid_node *node = &graph->nodes[n];
    const braid_tensor *inputs[8] = {NULL};
    assert_true(node->input_count <= 8 && node->output_count == 1);
    for (size_t i = 0; i < node->input_count; i++)
      if (node->inputs[i] >= 0)
        inputs[i] = values[node->inputs[i]] ? values[node->inputs[i]] : graph->values[node->inputs[i]].tensor;
    net_ok(braid_cpu_evaluate(&evaluator, graph, node, inputs, &values[node->outputs[0]]));
  }
  for (size_t k = 0; k < graph->output_count; k++) {
    const braid_tensor *tensor = values[graph->outputs[k]];
    out[k].count = braid_desc_count(braid_tensor_desc(tensor));
    out[k].numbers = malloc((size_t)out[k].count * sizeof(float));
    memcpy(out[k].numbers, braid_tensor_const_data(tensor), (size_t)out[k].count * sizeof(float));
  }
  for (size_t i = 0; i < graph->value_count; i++) braid_tensor_release(values[i]);
  free(values);
  braid_cpu_evaluator_deinit(&evaluator);
}

static void free_results(scores *results, size_t count) {
  for (size_t i = 0; i < count; i++) free(results[i].numbers);
}

/* Returns how many numbers differ. */
static int64_t compare(const scores *a, const scores *b, size_t count) {
  int64_t different = 0;
  for (size_t k = 0; k < count; k++) {
    assert_int_equal(a[k].count, b[k].count);
    for (int64_t i = 0; i < a[k].count; i++) different += a[k].numbers[i] != b[k].numbers[i];
  }
  return different;
}

static float *make_images(uint64_t seed, int64_t count) {
  net_builder b = {.state = seed + 3};
  float *x = malloc((size_t)count * sizeof *x);
  for (int64_t i = 0; i < count; i++) x[i] = (float)(net_draw(&b, 20001) - 10000) / 2500;
  return x;
}

/* --- random networks --------------------------------------------------------------------------------------------- */
typedef struct seen {
  int kinds[BRAID_OVERLAY_KINDS], activated, rounds_first, added, parts, lefts;
} seen;

static void look(const braid_overlay_network *network, seen *s) {
  for (size_t i = 0; i < network->layer_count; i++) {
    const braid_overlay_layer *layer = &network->layers[i];
    s->kinds[layer->kind]++;
    s->activated += layer->low > -128 || layer->high < 127;
    s->rounds_first += layer->rounds_first;
    s->added += layer->weights && layer->other >= 0 && !layer->rounds_first;
    s->parts += layer->y_channel > 0;
    s->lefts += layer->left > 0;
  }
}

static void test_random_networks(void **state) {
  (void)state;
  seen s = {.activated = 0};
  for (uint64_t seed = 0; seed < UNLESS_SLOW(300, 120); seed++) {
    bool odd_means;
    braid_overlay_network *network;
    braid_graph *graph = net_random(seed, 1 + (int64_t)(seed % 3), &odd_means);
    scores ours[MOST_PORTS], theirs[MOST_PORTS];
    net_ok(braid_resolve(graph));
    braid_status status = braid_overlay_lower(graph, NULL, &network);
    if (status != BRAID_OK) fail_msg("seed %d: %s", (int)seed, braid_error_detail());
    look(network, &s);
    float *x = make_images(seed, braid_desc_count(&graph->values[graph->inputs[0]].desc));
    run_reference(graph, network, x, ours);
    for (int plain = odd_means; plain < 2; plain++) { /* fused means multiply by a rounded reciprocal */
      plain ? run_plain(graph, x, theirs) : run_braid(graph, x, theirs);
      int64_t different = compare(ours, theirs, graph->output_count);
      if (different) fail_msg("seed %d: %d numbers differ (%s)", (int)seed, (int)different, plain ? "plain" : "fused");
      free_results(theirs, graph->output_count);
    }
    free_results(ours, graph->output_count);
    free(x);
    braid_overlay_network_destroy(network);
    braid_graph_destroy(graph);
  }
  for (int i = 0; i < BRAID_OVERLAY_KINDS; i++)
    if (s.kinds[i] < UNLESS_SLOW(20, 6))
      fail_msg("only %d layers are %s", s.kinds[i], braid_overlay_kind_name((braid_overlay_kind)i));
  assert_true(s.activated > UNLESS_SLOW(50, 20) && s.rounds_first > UNLESS_SLOW(20, 8));
  assert_true(s.added > UNLESS_SLOW(10, 4) && s.parts > UNLESS_SLOW(20, 8) && s.lefts > UNLESS_SLOW(10, 4));
}

/* --- models ------------------------------------------------------------------------------------------------------ */
static const char *data_file(const char *name, char path[600]) {
  const char *data = getenv("BRAID_DATA");
  snprintf(path, 600, "%s/%s", data ? data : "", name);
  FILE *file = data ? fopen(path, "rb") : NULL;
  if (!file) skip_test("data", "there is no BRAID_DATA/%s", name);
  fclose(file);
  return path;
}

static braid_graph *quantize_resnet(braid_dataset *data) {
  char path[600];
  braid_graph *model;
  braid_quantize_result result;
  net_ok(braid_model_load(NULL, data_file("models/resnet20.onnx", path), NULL, &model));
  braid_quantize_data given = {.calibration = data};
  braid_quantize_options options = {.power_of_two = true, .samples = 64, .test_samples = 64, .layers = -1};
  net_ok(braid_quantize(model, &given, &options, &result));
  braid_graph *graph = result.graph;
  result.graph = NULL;
  braid_quantize_result_deinit(&result);
  braid_graph_destroy(model);
  return graph;
}

/* ResNet-20 as `braid quantize --scales power-of-two` makes it: 20 layers with weights and their 9 sums, the shortcuts
 * among them, the mean; every score the same bits. */
static void test_resnet(void **state) {
  (void)state;
  enum { IMAGES = 3, PIXELS = 3 * 32 * 32 };
  char spec[700], path[600];
  braid_dataset *data;
  snprintf(spec, sizeof spec, "cifar10:%s", data_file("cifar10/data_batch_1.bin", path));
  *strrchr(spec, '/') = '\0';
  strcat(spec, ",mean=0.485/0.456/0.406,std=0.229/0.224/0.225");
  net_ok(braid_dataset_open(NULL, spec, "train", &data));
  braid_graph *graph = quantize_resnet(data);
  net_ok(braid_graph_set_input_shape(graph, graph->inputs[0], 4, (int64_t[]){IMAGES, 3, 32, 32}));
  net_ok(braid_resolve(graph));
  braid_overlay_network *network;
  net_ok(braid_overlay_lower(graph, NULL, &network));
  int weighted = 0, sums = 0, means = 0;
  for (size_t i = 0; i < network->layer_count; i++) {
    weighted += network->layers[i].weights != NULL;
    sums += network->layers[i].rounds_first;
    means += network->layers[i].kind == BRAID_OVERLAY_MEAN;
  }
  assert_true(weighted >= 20 && sums == 9 && means == 1);
  braid_loader *loader;
  braid_batch batch;
  net_ok(braid_loader_create(data, &(braid_loader_options){.batch = IMAGES}, 0, 0, &loader));
  net_ok(braid_loader_next(loader, &batch));
  scores ours[1], theirs[1];
  run_reference(graph, network, batch.images, ours);
  run_braid(graph, batch.images, theirs);
  assert_int_equal(ours[0].count, IMAGES * 10);
  assert_int_equal(compare(ours, theirs, 1), 0);
  assert_true(ours[0].numbers[0] != ours[0].numbers[1]);
  free_results(ours, 1);
  free_results(theirs, 1);
  braid_loader_destroy(loader);
  braid_overlay_network_destroy(network);
  braid_graph_destroy(graph);
  braid_dataset_close(data);
}

/* --- beside ONNX Runtime ----------------------------------------------------------------------------------------- */
static void save_array(int number, const char *what, int index, const braid_desc *desc, float *numbers) {
  char path[128];
  braid_tensor *tensor;
  snprintf(path, sizeof path, "%s/%d_%s%d.npy", folder, number, what, index);
  net_ok(braid_tensor_wrap(NULL, desc, numbers, NULL, NULL, &tensor));
  net_ok(braid_npy_save(path, tensor));
  braid_tensor_release(tensor);
}

static void save_network(int number) {
  bool odd_means;
  char path[128];
  braid_overlay_network *network;
  scores results[MOST_PORTS];
  braid_graph *graph = net_random((uint64_t)number + 1000, 2, &odd_means);
  snprintf(path, sizeof path, "%s/%d%s.onnx", folder, number, odd_means ? "_means" : "");
  net_ok(braid_model_save_onnx(graph, path));
  net_ok(braid_resolve(graph));
  net_ok(braid_overlay_lower(graph, NULL, &network));
  const braid_desc *desc = &graph->values[graph->inputs[0]].desc;
  float *x = make_images((uint64_t)number, braid_desc_count(desc));
  run_reference(graph, network, x, results);
  save_array(number, "x", 0, desc, x);
  for (size_t k = 0; k < graph->output_count; k++)
    save_array(number, "y", (int)k, &graph->values[graph->outputs[k]].desc, results[k].numbers);
  free_results(results, graph->output_count);
  free(x);
  braid_overlay_network_destroy(network);
  braid_graph_destroy(graph);
}

static void test_beside_onnx_runtime(void **state) {
  (void)state;
  enum { NETS = 40 };
  const char *python = getenv("BRAID_PYTHON");
  char command[700];
  snprintf(command, sizeof command, "'%s' -c 'import onnxruntime' 2>/dev/null", python ? python : "");
  if (!python || !*python || system(command) != 0) skip_test("peers", "BRAID_PYTHON names no Python with onnxruntime");
  for (int i = 0; i < NETS; i++) save_network(i);
  snprintf(command, sizeof command, "'%s' '%s/../oracle/overlay.py' '%s' %d >'%s/said' 2>&1", python, BRAID_TEST_DATA,
           folder, NETS, folder);
  int code = system(command);
  snprintf(command, sizeof command, "%s/said", folder);
  FILE *file = fopen(command, "rb");
  char text[2000] = "";
  if (file) text[fread(text, 1, sizeof text - 1, file)] = '\0', fclose(file);
  if (code != 0) fail_msg("%s", text);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_networks), cmocka_unit_test(test_resnet),
                                     cmocka_unit_test(test_beside_onnx_runtime)};
  return skip_run_group_tests(tests, make_folder, remove_folder);
}
