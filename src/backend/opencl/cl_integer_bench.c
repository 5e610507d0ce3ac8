/* Training in integers on an OpenCL device: the convolutions of the VGG-like network (models/vgg-tile.cfg) in the three
 * phases of a step, in GOP/s (a multiplication and an addition are two) as the device counts time; integer_bench has
 * the same of our CPU kernels. Operands are in the device's memory before and stay there.
 *
 *   cl_integer_bench [DEVICE [BATCH]]          default: opencl0, 128 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/context.h"
#include "base/clock.h"
#include "device/queue.h"
#include "graph/integer_layers.h"

enum { kLeastRuns = 3, kMostRuns = 200, kOperands = 4 };
static const int64_t kSpanNs = 300000000;

typedef struct setup {
  braid_registry *registry;
  braid_device *device;
  const braid_backend *backend;
  void *self;
  braid_queue queue;
} setup;

typedef struct bench_node {
  braid_graph *graph;
  braid_node_id id;
  braid_operand operands[kOperands];
  braid_node_desc desc;
  void *prepared, *buffers[kOperands + 1];
  braid_binding bindings[kOperands + 1];
} bench_node;

static braid_status submit(setup *s, braid_task *task) {
  braid_verdict verdict;
  braid_verdict_init(&verdict);
  task->verdict = &verdict;
  return braid_queue_do(&s->queue, task, -1);
}

/* Operands of small numbers. */
static braid_status make_buffers(setup *s, bench_node *b, size_t count, size_t workspace_bytes) {
  for (size_t i = 0; i <= count; i++) {
    size_t bytes = i < count ? braid_desc_bytes(&b->operands[i].desc) : workspace_bytes;
    if (!bytes) continue;
    braid_status status = s->backend->buffer_create(s->self, bytes, &b->buffers[i]);
    if (status != BRAID_OK) return status;
    b->bindings[i] = (braid_binding){b->buffers[i], NULL, 0, bytes};
    if (i > 1) continue;
    char *numbers = braid_zalloc(NULL, bytes);
    if (!numbers) return BRAID_NO_MEMORY;
    for (size_t k = 0; k < bytes; k++) numbers[k] = (char)(k * 7919 % 31) - 15;
    status =
        submit(s, &(braid_task){.kind = BRAID_TASK_WRITE, .label = "write", .target = b->bindings[i], .host = numbers});
    braid_free(NULL, numbers);
    if (status != BRAID_OK) return status;
  }
  return BRAID_OK;
}

static braid_status open_node(setup *s, bench_node *b, const char **kernel_name) {
  const braid_node *node = &b->graph->nodes[b->id];
  char why[512];
  size_t count = 2 + node->output_count;
  for (size_t i = 0; i < count; i++)
    b->operands[i] = (braid_operand){true, b->graph->values[i < 2 ? node->inputs[i] : node->outputs[i - 2]].desc, NULL};
  b->desc = (braid_node_desc){.op = node->op->name,
                              .name = "n",
                              .attrs = &node->attrs,
                              .input_count = 2,
                              .output_count = node->output_count,
                              .inputs = b->operands,
                              .outputs = b->operands + 2};
  const braid_kernel *kernel = braid_device_find_kernel(s->device, &b->desc, why, sizeof why);
  if (!kernel) return braid_fail(BRAID_UNSUPPORTED, "%s", why);
  *kernel_name = kernel->name;
  braid_prepared_info info;
  braid_status status = s->backend->prepare(s->self, kernel, &b->desc, &b->prepared, &info);
  return status == BRAID_OK ? make_buffers(s, b, count, info.workspace_bytes) : status;
}

static void close_node(setup *s, bench_node *b) {
  if (b->prepared) s->backend->discard(s->self, b->prepared);
  for (int i = 0; i <= kOperands; i++)
    if (b->buffers[i]) s->backend->buffer_destroy(s->self, b->buffers[i]);
  braid_graph_destroy(b->graph);
}

/* Seconds of one run, the best of several. */
static braid_status time_node(setup *s, bench_node *b, double *best) {
  braid_timing timing;
  braid_task task = {.kind = BRAID_TASK_KERNEL,
                     .label = "bench",
                     .prepared = b->prepared,
                     .bindings = b->bindings,
                     .input_count = 2,
                     .output_count = b->desc.output_count,
                     .timing = &timing};
  *best = 1e9;
  const int64_t begin = braid_now_ns();
  for (int i = 0; i < kMostRuns && (i < kLeastRuns || braid_now_ns() - begin < kSpanNs); i++) {
    braid_status status = submit(s, &task);
    if (status != BRAID_OK) return status;
    double seconds = 1e-9 * (double)(timing.end_ns - timing.start_ns);
    *best = seconds < *best ? seconds : *best;
  }
  return BRAID_OK;
}

static braid_status run(setup *s, int64_t batch) {
  double work = 0, spent = 0;
  printf("%s\n%8s %20s %20s %20s\n", braid_device_get_info(s->device)->description, "", "forward", "error of the input",
         "gradient of weights");
  for (int l = 0; l < kLayerCount; l++) {
    const layer *each = &kLayers[l];
    double gop = 2e-9 * (double)(batch * each->channels * each->filters) *
                 (each->size ? 9 * (double)(each->size * each->size) : 1);
    const char *kernel = "";
    printf("%8s", each->name);
    for (int phase = 0; phase < kPhases; phase++) {
      if (l == 0 && phase == 1) { /* nothing stands before the first layer */
        printf("%21s", "-");
        continue;
      }
      bench_node b = {0};
      double seconds = 0;
      braid_status status = add_layer(each, batch, phase, &b.graph, &b.id);
      if (status == BRAID_OK) status = open_node(s, &b, &kernel);
      if (status == BRAID_OK) status = time_node(s, &b, &seconds);
      close_node(s, &b);
      if (status != BRAID_OK) return status;
      printf(" %8.3f ms %4.0f GOP/s", seconds * 1e3, gop / seconds);
      (void)fflush(stdout);
      work += gop, spent += seconds;
    }
    printf("  %s\n", kernel);
  }
  printf("together: %.0f GOP in %.1f ms, %.0f GOP/s\n", work, spent * 1e3, work / spent);
  return BRAID_OK;
}

int main(int argc, char **argv) {
  if (!braid_cl_count()) {
    printf("cl_integer_bench: skipped: there is no OpenCL device\n");
    return 0;
  }
  setup s = {0};
  int64_t batch = argc > 2 ? atoi(argv[2]) : 128;
  braid_status status = braid_registry_create(NULL, &s.registry);
  if (status == BRAID_OK) status = braid_device_open(s.registry, argc > 1 ? argv[1] : "opencl0", &s.device);
  if (status == BRAID_OK) {
    s.backend = braid_device_backend(s.device);
    s.self = braid_device_self(s.device);
    status = braid_queue_open(&s.queue, NULL, s.backend, s.self);
    if (status == BRAID_OK && batch > 0) status = run(&s, batch);
    braid_queue_close(&s.queue);
    braid_device_close(s.device);
  }
  braid_registry_destroy(s.registry);
  if (status == BRAID_OK) return 0;
  (void)fprintf(stderr, "cl_integer_bench: %s\n", braid_error_detail());
  return 1;
}
