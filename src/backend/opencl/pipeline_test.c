/* A chain of nodes by kernels that run at the same time (tests/data/manifest/pipeline.yaml): single work-items that
 * feed each other, images one after the other, 8 bits of fixed point, channels in vectors. Each layer is compared with
 * the CPU's convolution of the same operands as the fixed point has them. That one is exact: products of 8 bits are
 * added up in float32. So the pipeline may be off by its rounding of the result alone, half of the last place. */
#include <math.h>
#include <stdlib.h>

#include "manifest_check.h"

enum { kLayers = 3, kBatch = 2 };

/* As the manifest has them. */
typedef struct layer {
  const char *name;
  int64_t filters, channels, size, pad, window; /* window: of the pooling, 0: none */
  bool relu;
  int frac_w, frac_din, frac_dout;
} layer;

static const layer kNet[kLayers] = {
    {"conv1", 8, 6, 3, 1, 2, true, 7, 5, 4},
    {"conv2", 5, 8, 3, 1, 3, true, 7, 4, 3},
    {"conv3", 7, 5, 1, 0, 0, false, 7, 4, 3},
};

/* The nearest number of 8 bits with so many of the fraction. */
static float fixed(float x, int fraction) {
  float rounded = rintf(ldexpf(x, fraction));
  return ldexpf(fminf(fmaxf(rounded, -128), 127), -fraction);
}

/* The same in each graph: numbers of 8 bits. */
static braid_value_id weights(braid_graph *graph, const layer *l, int rank, const int64_t *dims, uint32_t stream) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id id;
  OK(braid_desc_init(&desc, BRAID_F32, rank, dims));
  OK(braid_tensor_create(NULL, &desc, &tensor));
  float *data = braid_tensor_data(tensor);
  for (int64_t i = 0; i < braid_desc_count(&desc); i++)
    data[i] = fixed(braid_random_uniform(77, 0, stream, (uint64_t)i) - 0.5f, l->frac_w);
  OK(braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, tensor, &id));
  braid_tensor_release(tensor);
  return id;
}

static braid_value_id add_layer(braid_graph *graph, size_t index, braid_value_id x) {
  const layer *l = &kNet[index];
  braid_node_id node;
  braid_value_id inputs[] = {
      x, weights(graph, l, 4, (int64_t[]){l->filters, l->channels, l->size, l->size}, 2 * (uint32_t)index),
      weights(graph, l, 1, &l->filters, 2 * (uint32_t)index + 1)};
  OK(braid_graph_add_node(graph, "Conv", l->name, inputs, 3, &x, 1, &node));
  OK(braid_graph_set_ints(graph, node, "pads", (int64_t[]){l->pad, l->pad, l->pad, l->pad}, 4));
  if (l->relu) OK(braid_graph_add_node(graph, "Relu", NULL, &x, 1, &x, 1, NULL));
  if (l->window) {
    OK(braid_graph_add_node(graph, "MaxPool", NULL, &x, 1, &x, 1, &node));
    OK(braid_graph_set_ints(graph, node, "kernel_shape", (int64_t[]){l->window, l->window}, 2));
    OK(braid_graph_set_ints(graph, node, "strides", (int64_t[]){2, 2}, 2));
  }
  OK(braid_graph_add_output(graph, x));
  return x;
}

/* What the CPU makes of a layer. */
static float *reference(size_t index, const braid_desc *input, const float *data) {
  braid_graph *graph;
  braid_session *session;
  int64_t count = braid_desc_count(input);
  OK(braid_graph_create(NULL, "layer", &graph));
  (void)add_layer(graph, index, random_input(graph, 4, input->dims));
  OK(braid_session_create(graph, &(braid_session_options){.devices = "cpu"}, &session));
  float *operand = malloc((size_t)count * sizeof *operand);
  float *result = malloc(braid_desc_bytes(braid_session_output(session, 0)));
  for (int64_t i = 0; i < count; i++) operand[i] = fixed(data[i], kNet[index].frac_din);
  OK(braid_session_run(session, (const void *[]){operand}, (void *[]){result}));
  free(operand);
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  return result;
}

static void check_layer(size_t index, const braid_desc *input, const float *data, const braid_desc *output,
                        const float *result) {
  int fraction = kNet[index].frac_dout;
  float *expected = reference(index, input, data), most = 0;
  for (int64_t i = 0; i < braid_desc_count(output); i++) {
    float within = fminf(fmaxf(expected[i], ldexpf(-128, -fraction)), ldexpf(127, -fraction));
    if (!(fabsf(result[i] - within) <= ldexpf(0.5f, -fraction)))
      fail_msg("%s: element %lld is %g, not %g", kNet[index].name, (long long)i, (double)result[i], (double)within);
    most = fmaxf(most, fabsf(result[i]));
  }
  assert_true(most > 1); /* it was something */
  free(expected);
}

static size_t tasks_of(const braid_session *session, const char *kernel) {
  size_t count = 0;
  for (size_t i = 0; i < braid_session_plan_count(session); i++)
    count += strcmp(braid_session_plan(session, i).kernel, kernel) == 0;
  return count;
}

/* On devices that have a thread for each of the four. */
static void need_threads(void) {
  need_device();
  braid_registry *registry;
  braid_device *device;
  OK(braid_registry_create(NULL, &registry));
  OK(braid_device_open(registry, "opencl0", &device));
  bool enough = ((const braid_cl_device *)braid_device_self(device))->traits.compute_units >= 4;
  braid_device_close(device);
  braid_registry_destroy(registry);
  if (!enough) skip_test("opencl", "the device does not run four kernels at the same time");
}

static void test_pipeline(void **state) {
  (void)state;
  need_threads();
  static const char *const kDevices[] = {"opencl0:%s", "opencl0:memory=separate,%s", "opencl0:%s cpu"};
  braid_graph *graph;
  OK(braid_graph_create(NULL, "net", &graph));
  braid_value_id x = random_input(graph, 4, (int64_t[]){kBatch, 6, 10, 8});
  for (size_t i = 0; i < kLayers; i++) x = add_layer(graph, i, x);
  for (size_t d = 0; d < sizeof kDevices / sizeof *kDevices; d++) {
    char devices[512];
    snprintf(devices, sizeof devices, kDevices[d],
             "deadline_ms=60000,manifest=" BRAID_TEST_DATA "/manifest/pipeline.yaml");
    braid_session *session;
    OK(braid_session_create(graph, &(braid_session_options){.devices = devices}, &session));
    assert_int_equal(tasks_of(session, "pipeline"), kLayers);
    const braid_desc *descs[kLayers + 1] = {braid_session_input(session, 0)};
    float *data[kLayers + 1] = {random_data(descs[0], 5)};
    for (size_t i = 0; i < kLayers; i++) {
      descs[i + 1] = braid_session_output(session, i);
      data[i + 1] = malloc(braid_desc_bytes(descs[i + 1]));
    }
    for (size_t run = 0; run <= (d == 0); run++)
      OK(braid_session_run(session, (const void *[]){data[0]}, (void *[]){data[1], data[2], data[3]}));
    for (size_t i = 0; i < kLayers; i++) check_layer(i, descs[i], data[i], descs[i + 1], data[i + 1]);
    for (size_t i = 0; i <= kLayers; i++) free(data[i]);
    braid_session_destroy(session);
  }
  braid_graph_destroy(graph);
}

int main(void) {
  /* PoCL has a thread for each core, which may be two. */
  setenv("POCL_MAX_PTHREAD_COUNT", "4", 1);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_pipeline)};
  return skip_run_group_tests(tests, NULL, NULL);
}
