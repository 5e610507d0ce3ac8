/* fGrain (Guo et al., 2021), figures 7 and 8: AlexNet, whose grouped convolutions are two branches, on one virtual
 * device, on two with the branches apart, and on two with both branches on one. Parts of the first OpenCL device stand
 * for the virtual FPGAs; without such a device nothing is measured. Weights are random: times do not depend on them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/philox.h"
#include "base/try.h"
#include "braid/session.h"

enum { kWarmUp = 16, kRuns = 15, kMostBatch = 3, kSide = 227 };

/* --- the network ---------------------------------------------------------------------------------------------------
 */
typedef struct builder {
  braid_graph *graph;
  uint32_t stream;
} builder;

static braid_status weights(builder *b, int rank, const int64_t *dims, braid_value_id *out) {
  braid_desc desc;
  braid_tensor *tensor;
  BRAID_TRY(braid_desc_init(&desc, BRAID_F32, rank, dims));
  BRAID_TRY(braid_tensor_create(NULL, &desc, &tensor));
  float *data = braid_tensor_data(tensor);
  b->stream++;
  for (int64_t i = 0; i < braid_desc_count(&desc); i++)
    data[i] = 0.05f * (2 * braid_random_uniform(4, 0, b->stream, (uint64_t)i) - 1);
  braid_status status = braid_graph_add_tensor(b->graph, NULL, BRAID_VALUE_CONSTANT, tensor, out);
  braid_tensor_release(tensor);
  return status;
}

static braid_status relu(builder *b, const char *name, braid_value_id *value) {
  char own[32];
  snprintf(own, sizeof own, "%s.relu", name);
  return braid_graph_add_node(b->graph, "Relu", own, value, 1, value, 1, NULL);
}

static braid_status convolution(builder *b, const char *name, int64_t from, int64_t to, int64_t kernel, int64_t stride,
                                braid_value_id *value) {
  braid_value_id inputs[3] = {*value};
  braid_node_id node;
  int64_t pad = stride > 1 ? 0 : kernel / 2;
  BRAID_TRY(weights(b, 4, (int64_t[]){to, from, kernel, kernel}, &inputs[1]));
  BRAID_TRY(weights(b, 1, &to, &inputs[2]));
  BRAID_TRY(braid_graph_add_node(b->graph, "Conv", name, inputs, 3, value, 1, &node));
  BRAID_TRY(braid_graph_set_ints(b->graph, node, "strides", (int64_t[]){stride, stride}, 2));
  BRAID_TRY(braid_graph_set_ints(b->graph, node, "pads", (int64_t[]){pad, pad, pad, pad}, 4));
  return relu(b, name, value);
}

static braid_status dense(builder *b, const char *name, int64_t from, int64_t to, bool last, braid_value_id *value) {
  braid_value_id inputs[3] = {*value};
  braid_node_id node;
  BRAID_TRY(weights(b, 2, (int64_t[]){to, from}, &inputs[1]));
  BRAID_TRY(weights(b, 1, &to, &inputs[2]));
  BRAID_TRY(braid_graph_add_node(b->graph, "Gemm", name, inputs, 3, value, 1, &node));
  BRAID_TRY(braid_graph_set_int(b->graph, node, "transB", 1));
  return last ? BRAID_OK : relu(b, name, value);
}

static braid_status normalize_and_pool(builder *b, const char *name, bool normalize, braid_value_id *value) {
  braid_node_id node;
  char own[32];
  if (normalize) {
    snprintf(own, sizeof own, "%s.norm", name);
    BRAID_TRY(braid_graph_add_node(b->graph, "LRN", own, value, 1, value, 1, &node));
    BRAID_TRY(braid_graph_set_int(b->graph, node, "size", 5));
  }
  snprintf(own, sizeof own, "%s.pool", name);
  BRAID_TRY(braid_graph_add_node(b->graph, "MaxPool", own, value, 1, value, 1, &node));
  BRAID_TRY(braid_graph_set_ints(b->graph, node, "kernel_shape", (int64_t[]){3, 3}, 2));
  return braid_graph_set_ints(b->graph, node, "strides", (int64_t[]){2, 2}, 2);
}

static braid_status halve(builder *b, const char *name, braid_value_id value, braid_value_id halves[2]) {
  braid_node_id node;
  BRAID_TRY(braid_graph_add_node(b->graph, "Split", name, &value, 1, halves, 2, &node));
  BRAID_TRY(braid_graph_set_int(b->graph, node, "axis", 1));
  return braid_graph_set_int(b->graph, node, "num_outputs", 2);
}

static braid_status join(builder *b, const char *name, const braid_value_id halves[2], braid_value_id *value) {
  braid_node_id node;
  BRAID_TRY(braid_graph_add_node(b->graph, "Concat", name, halves, 2, value, 1, &node));
  return braid_graph_set_int(b->graph, node, "axis", 1);
}

static braid_status features(builder *b, braid_value_id *value) {
  braid_value_id halves[2] = {0, 0};
  BRAID_TRY(convolution(b, "C0", 3, 96, 11, 4, value));
  BRAID_TRY(normalize_and_pool(b, "C0", true, value));
  BRAID_TRY(halve(b, "split1", *value, halves));
  BRAID_TRY(convolution(b, "C10", 48, 128, 5, 1, &halves[0]));
  BRAID_TRY(convolution(b, "C11", 48, 128, 5, 1, &halves[1]));
  BRAID_TRY(join(b, "join1", halves, value));
  BRAID_TRY(normalize_and_pool(b, "C1", true, value));
  BRAID_TRY(convolution(b, "C2", 256, 384, 3, 1, value));
  BRAID_TRY(halve(b, "split3", *value, halves));
  BRAID_TRY(convolution(b, "C30", 192, 192, 3, 1, &halves[0]));
  BRAID_TRY(convolution(b, "C31", 192, 192, 3, 1, &halves[1]));
  BRAID_TRY(convolution(b, "C40", 192, 128, 3, 1, &halves[0]));
  BRAID_TRY(convolution(b, "C41", 192, 128, 3, 1, &halves[1]));
  BRAID_TRY(join(b, "join4", halves, value));
  return normalize_and_pool(b, "C4", false, value);
}

static braid_status alexnet(braid_graph *graph, int64_t batch) {
  builder b = {.graph = graph};
  braid_desc desc;
  braid_value_id value;
  BRAID_TRY(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){batch, 3, kSide, kSide}));
  BRAID_TRY(braid_graph_add_input(graph, "x", &desc, &value));
  BRAID_TRY(features(&b, &value));
  BRAID_TRY(braid_graph_add_node(graph, "Flatten", NULL, &value, 1, &value, 1, NULL));
  BRAID_TRY(dense(&b, "F5", 9216, 4096, false, &value));
  BRAID_TRY(dense(&b, "F6", 4096, 4096, false, &value));
  BRAID_TRY(dense(&b, "F7", 4096, 1000, true, &value));
  return braid_graph_add_output(graph, value);
}

/* --- the experiment ------------------------------------------------------------------------------------------------
 */
typedef struct setting {
  const char *name, *devices, *place;
} setting;

#define ONE "opencl0.0:parts=2,memory=separate"
#define TWO ONE " opencl0.1:parts=2,memory=separate"
static const setting kSettings[] = {
    {"one virtual device", ONE, NULL},
    {"two, branches on one (Pb)", TWO, "C1[01]*=1,C3*=1,C4[01]*=1"},
    {"two, branches apart (Pa)", TWO, "C11*=1,C31*=1,C41*=1"},
    {"two, --place auto", TWO, "auto"},
    {"the undivided device", "opencl0:memory=separate", NULL},
};

static int compare(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* The convolutions' time on the device that has most of it: their span if the branches overlap perfectly. */
static double kernel_ms(const braid_session *session) {
  double sums[2] = {0, 0};
  for (size_t i = 0; i < braid_session_plan_count(session); i++) {
    braid_plan_line line = braid_session_plan(session, i);
    bool convolves = strstr(line.op, "Conv") == line.op || strstr(line.op, "FusedConv") == line.op;
    if (convolves && line.median_us > 0) sums[strstr(line.device, ".1") != NULL] += line.median_us / 1e3;
  }
  /* C0 and C2 run before and between the branches, on the first device. */
  return sums[0] > sums[1] ? sums[0] : sums[1];
}

static braid_status measure(const braid_graph *graph, const setting *s, const float *x, double base[2]) {
  braid_session *session;
  float y[kMostBatch * 1000];
  int64_t times[kRuns];
  BRAID_TRY(braid_session_create(graph, &(braid_session_options){.devices = s->devices, .place = s->place}, &session));
  braid_status status = BRAID_OK;
  for (int i = -kWarmUp; status == BRAID_OK && i < kRuns; i++) { /* the kernels are timed in the first runs */
    int64_t start = braid_now_ns();
    status = braid_session_run(session, (const void *[]){x}, (void *[]){y});
    if (i >= 0) times[i] = braid_now_ns() - start;
  }
  if (status == BRAID_OK) {
    qsort(times, kRuns, sizeof *times, compare);
    double latency = (double)times[kRuns / 2] / 1e6, kernels = kernel_ms(session);
    if (base[0] == 0) base[0] = kernels, base[1] = latency;
    printf("  %-28s kernels %7.2f ms (%+5.1f%%)   end to end %7.2f ms (%+5.1f%%)\n", s->name, kernels,
           100 * (kernels / base[0] - 1), latency, 100 * (latency / base[1] - 1));
  }
  braid_session_destroy(session);
  return status;
}

static braid_status experiment(int64_t batch) {
  braid_graph *graph;
  size_t count = (size_t)batch * 3 * kSide * kSide;
  float *x = calloc(count, sizeof *x);
  if (!x) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < count; i++) x[i] = braid_random_uniform(5, 0, 0, i);
  braid_status status = braid_graph_create(NULL, "alexnet", &graph);
  if (status == BRAID_OK) status = alexnet(graph, batch);
  printf("AlexNet, batch %lld, branches on virtual devices (kernels: the convolutions of the device with most)\n",
         (long long)batch);
  double base[2] = {0, 0};
  for (size_t i = 0; status == BRAID_OK && i < sizeof kSettings / sizeof *kSettings; i++)
    status = measure(graph, &kSettings[i], x, base);
  braid_graph_destroy(graph);
  free(x);
  return status;
}

static bool has_device(void) {
  braid_registry *registry;
  braid_device *device = NULL;
  if (braid_registry_create(NULL, &registry) != BRAID_OK) return false;
  bool found = braid_device_open(registry, "opencl0", &device) == BRAID_OK;
  braid_device_close(device);
  braid_registry_destroy(registry);
  return found;
}

int main(void) {
  if (!has_device()) {
    puts("AlexNet on virtual devices: skipped, no OpenCL device");
    return 0;
  }
  for (int64_t batch = 1; batch <= kMostBatch; batch++) {
    braid_status status = experiment(batch);
    if (status == BRAID_OK) continue;
    fprintf(stderr, "branches_bench: %s: %s\n", braid_status_text(status), braid_error_detail());
    return 1;
  }
  return 0;
}
