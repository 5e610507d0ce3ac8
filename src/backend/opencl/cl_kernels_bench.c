/* Our matrix products and convolutions on an OpenCL device, beside CLBlast's product on the same device (where its
 * library is found when this runs) and beside our CPU backend. Operands are in the device's memory before and stay
 * there (the CPU's in the host's): nothing is copied while time is taken.
 *
 * Two figures: the host's time of a run, where kInARow runs are submitted one after another and the end of the last is
 * waited for, ours by its event and CLBlast's by clFinish, so that it includes each run's submission and a part of what
 * it takes a driver to tell of the end; and the device's, from the first of a run's kernels to its last. The best of
 * many of each.
 *
 *   cl_kernels_bench [DEVICE [PART]]          default: opencl0; only problems whose label contains PART
 *   cl_kernels_bench DEVICE --sweep [PART]    the device's own choice, then every tile with 1, 2, 4, ... slices of the
 *                                             inner dimension: GFLOP/s as the device counts */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/memory.h"
#include "base/clock.h"
#include "braid/session.h"
#include "device/queue.h"
#include "graph/graph.h"

enum { kLeastRuns = 3, kMostRuns = 2000, kInARow = 8, kOperands = 4 };
static int64_t span_ns = 300000000; /* measured for so long, at least kLeastRuns times */

typedef struct setup {
  braid_registry *registry;
  braid_device *device;
  const braid_backend *backend;
  void *self;
  braid_queue queue;
} setup;

/* A node over constants, but for input 0. */
typedef struct problem {
  const char *label;
  bool convolution, transposed; /* the right matrix */
  int64_t dims[2][4];           /* of the inputs; a product takes the last two */
  int64_t stride, pad, groups;
  double operations;
  braid_graph *graph;
  braid_node_id node;
} problem;

static braid_status fill_tensor(int rank, const int64_t *dims, braid_tensor **out) {
  braid_desc desc;
  braid_status status = braid_desc_init(&desc, BRAID_F32, rank, dims);
  if (status == BRAID_OK) status = braid_tensor_create(NULL, &desc, out);
  if (status != BRAID_OK) return status;
  float *data = braid_tensor_data(*out);
  for (int64_t i = 0; i < braid_desc_count(&desc); i++) data[i] = (float)(i % 17) / 17 - 0.5f;
  return BRAID_OK;
}

/* As session and shape inference want it: x is an input, w a constant. */
static braid_status build(problem *p) {
  int first = p->convolution ? 0 : 2, rank = 4 - first;
  braid_desc desc;
  braid_tensor *weights = NULL;
  braid_value_id inputs[2], output = 0;
  braid_status status = braid_graph_create(NULL, p->label, &p->graph);
  if (status == BRAID_OK) status = braid_desc_init(&desc, BRAID_F32, rank, p->dims[0] + first);
  if (status == BRAID_OK) status = braid_graph_add_input(p->graph, "x", &desc, &inputs[0]);
  if (status == BRAID_OK) status = fill_tensor(rank, p->dims[1] + first, &weights);
  if (status == BRAID_OK) status = braid_graph_add_tensor(p->graph, "w", BRAID_VALUE_CONSTANT, weights, &inputs[1]);
  braid_tensor_release(weights);
  const char *op = p->convolution ? "Conv" : "MatMul";
  if (status == BRAID_OK) status = braid_graph_add_node(p->graph, op, NULL, inputs, 2, &output, 1, &p->node);
  if (status == BRAID_OK && p->transposed) status = braid_graph_set_int(p->graph, p->node, "transB", 1);
  if (p->convolution) {
    const int64_t strides[2] = {p->stride, p->stride}, pads[4] = {p->pad, p->pad, p->pad, p->pad};
    if (status == BRAID_OK) status = braid_graph_set_ints(p->graph, p->node, "strides", strides, 2);
    if (status == BRAID_OK) status = braid_graph_set_ints(p->graph, p->node, "pads", pads, 4);
    if (status == BRAID_OK) status = braid_graph_set_int(p->graph, p->node, "group", p->groups);
  }
  if (status == BRAID_OK) status = braid_graph_add_output(p->graph, output);
  if (status == BRAID_OK) p->operations = 2.0 * (double)braid_graph_node_macs(p->graph, p->node);
  return status;
}

/* --- the ways ------------------------------------------------------------------------------------------------------
 */
/* Calls run(context), which makes `runs` of them, again and again; the best time of one, in seconds. */
static braid_status best_of(braid_status (*run)(void *context), void *context, int runs, double *best) {
  const int64_t begin = braid_now_ns();
  *best = 1e30;
  for (int i = 0; i < kMostRuns && (i < kLeastRuns || braid_now_ns() - begin < span_ns); i++) {
    const int64_t start = braid_now_ns();
    braid_status status = run(context);
    if (status != BRAID_OK) return status;
    const double seconds = 1e-9 * (double)(braid_now_ns() - start) / runs;
    if (seconds < *best) *best = seconds;
  }
  return BRAID_OK;
}

/* Tasks end in their order; all that were submitted have ended when this returns. */
static braid_status submit(setup *s, braid_task *tasks, int count) {
  braid_verdict verdict;
  braid_status status = BRAID_OK;
  braid_verdict_init(&verdict);
  for (int i = 0; status == BRAID_OK && i < count; i++) {
    tasks[i].verdict = &verdict;
    status = braid_queue_submit(&s->queue, &tasks[i]);
  }
  braid_queue_flush(&s->queue);
  braid_status ended = braid_timeline_wait(s->queue.timeline, s->queue.last, -1);
  if (ended == BRAID_OK) ended = braid_verdict_status(&verdict);
  return status == BRAID_OK ? ended : status;
}

typedef struct ours {
  setup *setup;
  braid_operand operands[kOperands];
  braid_node_desc desc;
  void *prepared, *buffers[kOperands];
  braid_binding bindings[kOperands];
  braid_task tasks[kInARow]; /* the same run */
  braid_timing timings[kInARow];
  double device_seconds; /* the best, as the device counts; 0: it does not */
} ours;

static braid_status run_ours(void *context) {
  ours *o = context;
  braid_status status = submit(o->setup, o->tasks, kInARow);
  for (int i = 0; status == BRAID_OK && i < kInARow; i++) {
    const double seconds = 1e-9 * (double)(o->timings[i].end_ns - o->timings[i].start_ns);
    if (seconds > 0 && (o->device_seconds == 0 || seconds < o->device_seconds)) o->device_seconds = seconds;
  }
  return status;
}

static void describe(const problem *p, ours *o) {
  const braid_node *node = &p->graph->nodes[p->node];
  for (size_t i = 0; i < 2; i++) o->operands[i] = (braid_operand){true, p->graph->values[node->inputs[i]].desc, NULL};
  o->operands[2] = (braid_operand){true, p->graph->values[node->outputs[0]].desc, NULL};
  o->desc = (braid_node_desc){.op = node->op->name,
                              .name = p->label,
                              .attrs = &node->attrs,
                              .input_count = 2,
                              .output_count = 1,
                              .inputs = o->operands,
                              .outputs = o->operands + 2};
}

static braid_status make_buffers(ours *o, size_t workspace_bytes) {
  setup *s = o->setup;
  braid_status status = BRAID_OK;
  for (size_t i = 0; status == BRAID_OK && i < kOperands; i++) {
    size_t bytes = i < 3 ? braid_desc_bytes(&o->operands[i].desc) : workspace_bytes;
    if (!bytes) continue;
    status = s->backend->buffer_create(s->self, bytes, &o->buffers[i]);
    o->bindings[i] = (braid_binding){o->buffers[i], NULL, 0, bytes};
    if (status != BRAID_OK || i > 1) continue;
    braid_tensor *tensor;
    status = fill_tensor(o->operands[i].desc.rank, o->operands[i].desc.dims, &tensor);
    if (status != BRAID_OK) continue;
    braid_task write = {
        .kind = BRAID_TASK_WRITE, .label = "write", .target = o->bindings[i], .host = braid_tensor_data(tensor)};
    status = submit(s, &write, 1);
    braid_tensor_release(tensor);
  }
  return status;
}

static braid_status open_ours(setup *s, const problem *p, ours *o, const char **kernel_name) {
  char why[1024];
  braid_prepared_info info;
  *o = (ours){.setup = s};
  describe(p, o);
  const braid_kernel *kernel = braid_device_find_kernel(s->device, &o->desc, why, sizeof why);
  if (!kernel) return braid_fail(BRAID_UNSUPPORTED, "%s", why);
  *kernel_name = kernel->name;
  braid_status status = s->backend->prepare(s->self, kernel, &o->desc, &o->prepared, &info);
  if (status == BRAID_OK) status = make_buffers(o, info.workspace_bytes);
  for (int i = 0; i < kInARow; i++)
    o->tasks[i] = (braid_task){.kind = BRAID_TASK_KERNEL,
                               .label = p->label,
                               .prepared = o->prepared,
                               .bindings = o->bindings,
                               .input_count = 2,
                               .output_count = 1,
                               .timing = &o->timings[i]};
  return status;
}

static void close_ours(ours *o) {
  if (o->prepared) o->setup->backend->discard(o->setup->self, o->prepared);
  for (size_t i = 0; i < kOperands; i++)
    if (o->buffers[i]) o->setup->backend->buffer_destroy(o->setup->self, o->buffers[i]);
}

typedef struct by_cpu {
  braid_session *session;
  const void *x;
  void *y;
} by_cpu;

static braid_status run_cpu(void *context) {
  by_cpu *c = context;
  return braid_session_run(c->session, &c->x, &c->y);
}

static braid_status time_cpu(const problem *p, double *best) {
  const braid_node *node = &p->graph->nodes[p->node];
  const braid_desc *in = &p->graph->values[node->inputs[0]].desc, *out = &p->graph->values[node->outputs[0]].desc;
  braid_tensor *x = NULL, *y = NULL;
  by_cpu c = {0};
  braid_status status = fill_tensor(in->rank, in->dims, &x);
  if (status == BRAID_OK) status = fill_tensor(out->rank, out->dims, &y);
  if (status == BRAID_OK) status = braid_session_create(p->graph, NULL, &c.session);
  if (status == BRAID_OK) {
    c.x = braid_tensor_const_data(x);
    c.y = braid_tensor_data(y);
    status = best_of(run_cpu, &c, 1, best);
  }
  braid_session_destroy(c.session);
  braid_tensor_release(x);
  braid_tensor_release(y);
  return status;
}

/* CLBlast's C interface (clblast_c.h), as far as it is called: row-major. */
enum { kRowMajor = 101, kNotTransposed = 111, kTransposed = 112 };
typedef int clblast_sgemm(int layout, int a_transpose, int b_transpose, size_t m, size_t n, size_t k, float alpha,
                          cl_mem a, size_t a_offset, size_t a_ld, cl_mem b, size_t b_offset, size_t b_ld, float beta,
                          cl_mem c, size_t c_offset, size_t c_ld, cl_command_queue *queue, cl_event *event);

typedef struct by_clblast {
  const braid_cl_api *cl;
  clblast_sgemm *sgemm;
  cl_command_queue queue;
  cl_mem memory[3];
  size_t m, n, k;
  bool transposed;
} by_clblast;

static braid_status run_clblast(void *context) {
  by_clblast *b = context;
  int code = 0;
  for (int i = 0; !code && i < kInARow; i++)
    code = b->sgemm(kRowMajor, kNotTransposed, b->transposed ? kTransposed : kNotTransposed, b->m, b->n, b->k, 1,
                    b->memory[0], 0, b->k, b->memory[1], 0, b->transposed ? b->k : b->n, 0, b->memory[2], 0, b->n,
                    &b->queue, NULL);
  if (code) return braid_fail(BRAID_DEVICE_LOST, "CLBlast's error %d", code);
  return b->cl->Finish(b->queue) == CL_SUCCESS ? BRAID_OK : braid_fail(BRAID_DEVICE_LOST, "clFinish after CLBlast");
}

static braid_status time_clblast(const setup *s, const problem *p, clblast_sgemm *sgemm, double *best) {
  const braid_cl_device *device = s->self;
  const int64_t *a = p->dims[0] + 2, *b = p->dims[1] + 2;
  by_clblast c = {.cl = device->cl,
                  .sgemm = sgemm,
                  .m = (size_t)a[0],
                  .n = (size_t)b[!p->transposed],
                  .k = (size_t)a[1],
                  .transposed = p->transposed};
  const size_t counts[3] = {c.m * c.k, c.k * c.n, c.m * c.n};
  cl_int code;
  c.queue = c.cl->CreateCommandQueue(device->shared->context, device->id, 0, &code);
  braid_status status = c.queue ? BRAID_OK : braid_fail(BRAID_NO_MEMORY, "a queue for CLBlast");
  for (int i = 0; status == BRAID_OK && i < 3; i++) {
    c.memory[i] =
        c.cl->CreateBuffer(device->shared->context, CL_MEM_READ_WRITE, counts[i] * sizeof(float), NULL, &code);
    if (!c.memory[i]) status = braid_fail(BRAID_NO_MEMORY, "a buffer for CLBlast");
  }
  if (status == BRAID_OK) status = best_of(run_clblast, &c, kInARow, best);
  for (int i = 0; i < 3; i++)
    if (c.memory[i]) c.cl->ReleaseMemObject(c.memory[i]);
  if (c.queue) c.cl->ReleaseCommandQueue(c.queue);
  return status;
}

/* --- the table -----------------------------------------------------------------------------------------------------
 */
#define PRODUCT(m, k, n)                                                                                               \
  {                                                                                                                    \
    .label = "matmul " #m " x " #k " x " #n, .dims = { {1, 1, m, k}, {1, 1, k, n} }                                    \
  }
#define TRANSPOSED(m, k, n)                                                                                            \
  {                                                                                                                    \
    .label = "matmul " #m " x " #k " x " #n "^T", .transposed = true, .dims = { {1, 1, m, k}, {1, 1, n, k} }           \
  }
#define CONV(name, batch, inputs, size, outputs, window, step, border)                                                 \
  {                                                                                                                    \
    .label = name " batch " #batch, .convolution = true,                                                               \
    .dims = {{batch, inputs, size, size}, {outputs, inputs, window, window}}, .stride = step, .pad = border,           \
    .groups = 1                                                                                                        \
  }
static problem kProblems[] = {
    PRODUCT(256, 256, 256),
    PRODUCT(512, 512, 512),
    PRODUCT(1024, 1024, 1024),
    PRODUCT(2048, 2048, 2048),
    PRODUCT(16, 4096, 1000),
    PRODUCT(64, 4096, 4096),
    TRANSPOSED(32, 4096, 4096),
    PRODUCT(1, 4096, 4096),
    TRANSPOSED(1, 4096, 4096),
    TRANSPOSED(1, 4096, 1000),
    CONV("conv 3x3 64 56", 8, 64, 56, 64, 3, 1, 1),
    CONV("conv 3x3 256 14", 8, 256, 14, 256, 3, 1, 1),
    CONV("conv 3x3 256 14", 32, 256, 14, 256, 3, 1, 1),
    CONV("conv 3x3 512 7", 8, 512, 7, 512, 3, 1, 1),
    CONV("conv 1x1 256-64 56", 8, 256, 56, 64, 1, 1, 0),
    CONV("conv 1x1 512-1024 14", 8, 512, 14, 1024, 1, 1, 0),
    CONV("conv 7x7 stride 2 224", 2, 3, 224, 64, 7, 2, 3),
    {.label = "conv 3x3 depthwise 112 batch 8",
     .convolution = true,
     .dims = {{8, 64, 112, 112}, {64, 1, 3, 3}},
     .stride = 1,
     .pad = 1,
     .groups = 64},
};
enum { kProblemCount = sizeof kProblems / sizeof *kProblems };

static double rate(const problem *p, double seconds) {
  return seconds > 0 ? p->operations / seconds * 1e-9 : 0;
}

static void print_ratio(const char *name, double seconds, const problem *p, double own) {
  if (seconds > 0) printf("  %s %8.1f GFLOP/s, %5.2fx", name, rate(p, seconds), seconds / own);
}

static braid_status time_ours(setup *s, const problem *p, const char **kernel, double *best, double *device) {
  ours o;
  braid_status status = open_ours(s, p, &o, kernel);
  if (status == BRAID_OK) status = best_of(run_ours, &o, kInARow, best);
  *device = o.device_seconds;
  close_ours(&o);
  return status;
}

static braid_status measure(setup *s, problem *p, clblast_sgemm *sgemm) {
  const char *kernel = "";
  double own = 0, device = 0, clblast = 0, cpu = 0;
  braid_status status = build(p);
  if (status == BRAID_OK) status = time_ours(s, p, &kernel, &own, &device);
  if (status == BRAID_OK && sgemm && !p->convolution) status = time_clblast(s, p, sgemm, &clblast);
  if (status == BRAID_OK) status = time_cpu(p, &cpu);
  if (status == BRAID_OK) {
    printf("%-30s %-24s %8.1f GFLOP/s %8.1f us (device %8.1f GFLOP/s %8.1f us)", p->label, kernel, rate(p, own),
           own * 1e6, rate(p, device), device * 1e6);
    print_ratio("CLBlast", clblast, p, own);
    print_ratio("our CPU", cpu, p, own);
    printf("\n");
    (void)fflush(stdout);
  }
  braid_graph_destroy(p->graph);
  p->graph = NULL;
  return status;
}

/* --- setting up ----------------------------------------------------------------------------------------------------
 */
static void close_setup(setup *s) {
  braid_queue_close(&s->queue);
  braid_device_close(s->device);
  braid_registry_destroy(s->registry);
}

/* On failure close what there is. */
static braid_status open_setup(const char *spec, setup *s) {
  *s = (setup){0};
  braid_status status = braid_registry_create(NULL, &s->registry);
  if (status == BRAID_OK) status = braid_device_open(s->registry, spec, &s->device);
  if (status != BRAID_OK) return status;
  s->backend = braid_device_backend(s->device);
  s->self = braid_device_self(s->device);
  return braid_queue_open(&s->queue, NULL, s->backend, s->self);
}

static bool is_wanted(const problem *p, const char *part) {
  return !part || strstr(p->label, part);
}

static braid_status run(const char *spec, const char *part) {
  setup s;
  void *library = dlopen("libclblast.so.1", RTLD_NOW | RTLD_LOCAL);
  clblast_sgemm *sgemm = NULL;
  if (library) *(void **)&sgemm = dlsym(library, "CLBlastSgemm");
  braid_status status = open_setup(spec, &s);
  if (status == BRAID_OK) {
    printf("%s: %s; x: how many times as long the other takes\n", spec, braid_device_get_info(s.device)->description);
    if (!sgemm) printf("CLBlast skipped: libclblast.so.1 is not there\n");
  }
  for (size_t i = 0; status == BRAID_OK && i < kProblemCount; i++)
    if (is_wanted(&kProblems[i], part)) status = measure(&s, &kProblems[i], sgemm);
  close_setup(&s);
  return status;
}

/* --- trying tiles --------------------------------------------------------------------------------------------------
 */
static const char *const kTiles[] = {"128x128x8x8x8", "128x128x16x8x8", "128x64x8x8x8", "128x64x16x8x8", "64x128x8x8x8",
                                     "64x128x16x8x8", "64x64x8x8x8",    "64x64x16x8x8", "64x64x16x8x4",  "64x64x16x4x4",
                                     "64x32x16x8x4",  "32x64x16x4x8",   "32x32x16x4x4", "32x32x32x4x4"};

/* One number, or a dash where the device refuses. A tile must not cost another the rest of the sweep. */
static void print_rate(setup *s, const problem *p) {
  const char *kernel = "";
  double own = 0, device = 0;
  if (time_ours(s, p, &kernel, &own, &device) == BRAID_OK)
    printf(" %8.0f", rate(p, device > 0 ? device : own));
  else
    printf(" %8s", "-");
  (void)fflush(stdout);
}

static void try_tile(const char *spec, const problem *p, const char *tile) {
  printf("%-30s %-18s", p->label, tile ? tile : "its own choice");
  for (int slices = 1; slices <= (tile ? 16 : 1); slices *= 2) {
    char text[512];
    setup s;
    (void)snprintf(text, sizeof text, "%s%ctile=%s,slices=%d", spec, strchr(spec, ':') ? ',' : ':', tile ? tile : "",
                   slices);
    if (open_setup(tile ? text : spec, &s) == BRAID_OK)
      print_rate(&s, p);
    else
      printf(" %s", braid_error_detail());
    close_setup(&s);
  }
  printf("\n");
}

/* Products of few rows are left to the device: they do not go by tiles. */
static braid_status sweep(const char *spec, const char *part) {
  setup keep; /* holds the device's context between those that are opened and closed */
  braid_status status = open_setup(spec, &keep);
  if (status == BRAID_OK)
    printf("%s: %s; GFLOP/s with 1, 2, 4, 8 and 16 slices\n", spec, braid_device_get_info(keep.device)->description);
  span_ns = 40000000;
  for (size_t i = 0; status == BRAID_OK && i < kProblemCount; i++) {
    problem *p = &kProblems[i];
    if (!is_wanted(p, part)) continue;
    status = build(p);
    if (status == BRAID_OK) try_tile(spec, p, NULL);
    bool by_tiles = p->convolution ? p->groups == 1 : p->dims[0][2] > 4;
    for (size_t t = 0; status == BRAID_OK && by_tiles && t < sizeof kTiles / sizeof *kTiles; t++)
      try_tile(spec, p, kTiles[t]);
    braid_graph_destroy(p->graph);
    p->graph = NULL;
  }
  close_setup(&keep);
  return status;
}

int main(int argc, char **argv) {
  if (!braid_cl_count()) {
    printf("cl_kernels_bench: skipped: there is no OpenCL device\n");
    return 0;
  }
  const char *spec = argc > 1 ? argv[1] : "opencl0";
  bool sweeps = argc > 2 && strcmp(argv[2], "--sweep") == 0;
  const char *part = argc > 2 + sweeps ? argv[2 + sweeps] : NULL;
  if ((sweeps ? sweep(spec, part) : run(spec, part)) == BRAID_OK) return 0;
  (void)fprintf(stderr, "cl_kernels_bench: %s\n", braid_error_detail());
  return 1;
}
