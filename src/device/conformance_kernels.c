/* Conformance: a few ops that every library of kernels has, against computations written out here. What a backend adds
 * beyond them is compared with the CPU's references by the tests of its own folder. */
#include <math.h>
#include <string.h>

#include "device/conformance.h"
#include "graph/graph.h"

enum { kRows = 6, kInner = 10, kColumns = 14, kMost = kRows * kColumns, kMostIn = kInner * kColumns };

typedef struct op_sample {
  const char *op;
  int input_count;
  bool product; /* matrix product; else element by element */
  double (*compute)(double a, double b);
} op_sample;

static double identity(double a, double b) {
  (void)b;
  return a;
}
static double relu(double a, double b) {
  (void)b;
  return a > 0 ? a : 0;
}
static double negate(double a, double b) {
  (void)b;
  return -a;
}
static double add(double a, double b) {
  return a + b;
}
static double subtract(double a, double b) {
  return a - b;
}
static double multiply(double a, double b) {
  return a * b;
}

static const op_sample kSamples[] = {
    {"Identity", 1, false, identity}, {"Relu", 1, false, relu},    {"Neg", 1, false, negate}, {"Add", 2, false, add},
    {"Sub", 2, false, subtract},      {"Mul", 2, false, multiply}, {"MatMul", 2, true, NULL},
};

typedef struct run_state {
  braid_suite *suite;
  const op_sample *sample;
  braid_operand operands[3];
  braid_node_desc node;
  const braid_kernel *kernel;
  void *prepared;
  braid_prepared_info info;
  void *buffers[4]; /* two inputs, output, workspace */
  float inputs[2][kMostIn], output[kMost];
} run_state;

static void make_node(run_state *run) {
  static const struct braid_attrs kNoAttributes;
  bool product = run->sample->product;
  int64_t left[2] = {kRows, product ? kInner : kColumns};
  int64_t right[2] = {product ? kInner : kRows, kColumns}, result[2] = {kRows, kColumns};
  const int64_t *dims[3] = {left, right, result};
  for (int i = 0; i < 3; i++) {
    run->operands[i] = (braid_operand){.present = true, .desc = {.dtype = BRAID_F32, .rank = 2}};
    memcpy(run->operands[i].desc.dims, dims[i], 2 * sizeof(int64_t));
  }
  run->node = (braid_node_desc){.op = run->sample->op,
                                .name = "conformance",
                                .attrs = &kNoAttributes,
                                .input_count = (size_t)run->sample->input_count,
                                .output_count = 1,
                                .inputs = run->operands,
                                .outputs = &run->operands[2]};
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < kMostIn; j++) run->inputs[i][j] = (float)((j * 37 + i * 11) % 41 - 20) / 8;
}

static double expected(const run_state *run, int index) {
  if (!run->sample->product) return run->sample->compute(run->inputs[0][index], run->inputs[1][index]);
  double sum = 0;
  int row = index / kColumns, column = index % kColumns;
  for (int k = 0; k < kInner; k++)
    sum += (double)run->inputs[0][row * kInner + k] * run->inputs[1][k * kColumns + column];
  return sum;
}

static braid_status execute(run_state *run) {
  braid_suite *suite = run->suite;
  const braid_backend *backend = suite->backend;
  size_t count = run->node.input_count;
  braid_binding bindings[4] = {{0}};
  braid_status status = backend->prepare(suite->self, run->kernel, &run->node, &run->prepared, &run->info);
  for (size_t i = 0; status == BRAID_OK && i < count + 2; i++) {
    size_t bytes = i < count ? braid_desc_bytes(&run->operands[i].desc) : sizeof run->output;
    if (i == count + 1) bytes = run->info.workspace_bytes;
    if (!bytes) continue;
    status = backend->buffer_create(suite->self, bytes, &run->buffers[i]);
    bindings[i] = (braid_binding){.buffer = run->buffers[i], .bytes = bytes};
    if (status == BRAID_OK && i < count)
      status = braid_suite_write(suite, suite->queue, run->buffers[i], 0, run->inputs[i], bytes);
  }
  if (status != BRAID_OK) return status;
  braid_task task = {.kind = BRAID_TASK_KERNEL,
                     .prepared = run->prepared,
                     .bindings = bindings,
                     .input_count = count,
                     .output_count = 1};
  status = braid_suite_do(suite->queue, suite, &task);
  if (status != BRAID_OK) return status;
  return braid_suite_read(suite, suite->queue, run->buffers[count], 0, run->output, sizeof run->output);
}

static bool wants_plain(const run_state *run) {
  braid_layout inputs[2] = {BRAID_LAYOUT_PLAIN}, outputs[1] = {BRAID_LAYOUT_PLAIN};
  const braid_backend *backend = run->suite->backend;
  if (run->kernel->layouts) run->kernel->layouts(&run->node, inputs, outputs);
  if (backend->layouts) backend->layouts(run->suite->self, run->kernel, &run->node, inputs, outputs);
  return inputs[0] == BRAID_LAYOUT_PLAIN && inputs[1] == BRAID_LAYOUT_PLAIN && outputs[0] == BRAID_LAYOUT_PLAIN;
}

static bool run_sample(braid_suite *suite, const op_sample *sample, char *detail) {
  run_state run = {.suite = suite, .sample = sample};
  make_node(&run);
  char why[kSuiteDetail - 32];
  run.kernel = braid_device_find_kernel(suite->device, &run.node, why, sizeof why);
  if (!run.kernel || !wants_plain(&run)) {
    braid_suite_fail(detail, "unsupported: %s", run.kernel ? "wants other layouts for matrices" : why);
    return true;
  }
  braid_status status = execute(&run);
  for (int i = 0; i < 4; i++)
    if (run.buffers[i]) suite->backend->buffer_destroy(suite->self, run.buffers[i]);
  if (run.prepared) suite->backend->discard(suite->self, run.prepared);
  SUITE_CHECK(status == BRAID_OK, "%s: %s: %s", run.kernel->name, braid_status_text(status), braid_error_detail());
  for (int i = 0; i < kMost && !suite->info->modelled; i++)
    SUITE_CHECK(fabs(run.output[i] - expected(&run, i)) <= 1e-5 * kInner, "%s: element %d is %g, not %g",
                run.kernel->name, i, run.output[i], expected(&run, i));
  return true;
}

void braid_suite_kernels(braid_suite *suite) {
  for (size_t i = 0; i < sizeof kSamples / sizeof *kSamples; i++) {
    char detail[kSuiteDetail] = "";
    bool passed = run_sample(suite, &kSamples[i], detail);
    if (!passed) suite->failures++;
    suite->report(suite->context, kSamples[i].op, passed, detail);
  }
}
