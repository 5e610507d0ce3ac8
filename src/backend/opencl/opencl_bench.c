/* What the backend costs beside a bare OpenCL program that does the same: the same driver, device, binary, memory and
 * work, called directly. Both take turns, and their best times are compared: what else the machine does only adds to
 * either. Where a share is asked for (end to end), it is the median over pairs of turns, between the bounds that hold
 * the true median with 95 %.
 *
 *   opencl_bench [DEVICE...]   default: opencl0 and opencl0.0:parts=2 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/opencl/memory.h"
#include "backend/opencl/program.h"
#include "backend/opencl/test_node.h"
#include "base/clock.h"

enum {
  kRounds = 200,
  kMostRounds = 600,
  kFewRounds = 30,
  kTasks = 400,
  kSmall = 16,
  kLarge = 1 << 20,
  kHuge = 1 << 24,
  kKernels = 20
};

/* The same without us: a kernel of the same program and a queue of its own. */
typedef struct bare_program {
  const braid_cl_api *cl;
  cl_command_queue queue;
  cl_kernel kernel;
  cl_mem memory[2];
  cl_uint dimensions;
  size_t global[3], local[3], bytes;
} bare_program;

typedef struct bench {
  test_node node;
  bare_program bare;
  float *host;
  braid_task tasks[kTasks];
  braid_timing timings[kTasks];
} bench;

/* --- setting up ----------------------------------------------------------------------------------------------------
 */
static cl_int bare_argument(bare_program *bare, cl_uint position, const braid_launch_argument *argument) {
  const braid_cl_api *cl = bare->cl;
  switch (argument->kind) {
  case BRAID_LAUNCH_OPERAND:
    return cl->SetKernelArg(bare->kernel, position, sizeof(cl_mem), &bare->memory[argument->index]);
  case BRAID_LAUNCH_INT:
    return cl->SetKernelArg(bare->kernel, position, sizeof(cl_int), &(cl_int){(cl_int)argument->integer});
  case BRAID_LAUNCH_LONG:
    return cl->SetKernelArg(bare->kernel, position, sizeof(cl_long), &(cl_long){argument->integer});
  case BRAID_LAUNCH_FLOAT:
    return cl->SetKernelArg(bare->kernel, position, sizeof(cl_float), &(cl_float){(cl_float)argument->real});
  case BRAID_LAUNCH_LOCAL:
    return cl->SetKernelArg(bare->kernel, position, argument->bytes, NULL);
  case BRAID_LAUNCH_WORKSPACE:
  case BRAID_LAUNCH_FAULT:
  case BRAID_LAUNCH_NUMBER:
  case BRAID_LAUNCH_VECTOR:
    break;
  }
  return CL_INVALID_ARG_VALUE;
}

static braid_status bare_open(bare_program *bare, const test_node *node, int64_t count) {
  const braid_cl_device *device = node->self;
  const braid_launch_kernel *family = node->kernel->implementation;
  const braid_cl_api *cl = device->cl;
  static braid_launch_recipe recipe;
  braid_launch_recipe_deinit(&recipe); /* of the call before */
  *bare = (bare_program){.cl = cl, .bytes = (size_t)count * sizeof(float)};
  cl_program program;
  cl_int code = CL_SUCCESS;
  braid_status status = family->plan(&device->traits, &node->desc, &recipe);
  if (status == BRAID_OK && recipe.launch_count != 1)
    status = braid_fail(BRAID_UNSUPPORTED, "the kernel takes %zu launches, not one", recipe.launch_count);
  const braid_launch *launch = &recipe.launches[0];
  if (status == BRAID_OK) status = braid_cl_program_get(device, launch, &program);
  for (int i = 0; status == BRAID_OK && i < 2; i++)
    status = braid_cl_view(device, &node->bindings[i], &bare->memory[i]);
  if (status != BRAID_OK) return status;
  bare->dimensions = launch->dimensions;
  memcpy(bare->global, launch->global, sizeof bare->global);
  memcpy(bare->local, launch->local, sizeof bare->local);
  bare->kernel = cl->CreateKernel(program, launch->function, &code);
  if (code == CL_SUCCESS)
    bare->queue = cl->CreateCommandQueue(device->shared->context, device->id, CL_QUEUE_PROFILING_ENABLE, &code);
  for (cl_uint i = 0; code == CL_SUCCESS && i < launch->argument_count; i++)
    code = bare_argument(bare, i, &launch->arguments[i]);
  return code == CL_SUCCESS ? BRAID_OK : braid_cl_fail(code, "the bare program");
}

static void bare_close(bare_program *bare) {
  for (int i = 0; i < 2; i++)
    if (bare->memory[i]) bare->cl->ReleaseMemObject(bare->memory[i]);
  if (bare->kernel) bare->cl->ReleaseKernel(bare->kernel);
  if (bare->queue) bare->cl->ReleaseCommandQueue(bare->queue);
  *bare = (bare_program){0};
}

static void bench_close(bench *own) {
  bare_close(&own->bare);
  test_node_close(&own->node);
  braid_free(NULL, own->host);
  braid_free(NULL, own);
}

static braid_status bench_open(braid_registry *registry, const char *spec, int64_t count, bench **out) {
  bench *own = *out = braid_zalloc(NULL, sizeof *own);
  if (!own) return BRAID_NO_MEMORY;
  braid_status status = test_node_open(&own->node, registry, spec, "Relu", count);
  if (status == BRAID_OK) status = bare_open(&own->bare, &own->node, count);
  own->host = braid_zalloc_array(NULL, (size_t)count, sizeof *own->host);
  if (status == BRAID_OK && !own->host) status = BRAID_NO_MEMORY;
  for (int i = 0; status == BRAID_OK && i < kTasks; i++) {
    own->tasks[i] = own->node.task;
  }
  return status;
}

/* --- kernels -------------------------------------------------------------------------------------------------------
 */
static bool braid_kernels(bench *own, int count) {
  test_node *node = &own->node;
  for (int i = 0; i < count; i++)
    if (braid_queue_submit(&node->queue, &own->tasks[i]) != BRAID_OK) return false;
  braid_queue_flush(&node->queue);
  return braid_queue_wait(&node->queue, &own->tasks[count - 1], -1) == BRAID_OK;
}

static bool bare_kernels(bench *own, int count) {
  const bare_program *bare = &own->bare;
  for (int i = 0; i < count; i++)
    if (bare->cl->EnqueueNDRangeKernel(bare->queue, bare->kernel, bare->dimensions, NULL, bare->global,
                                       bare->local[0] ? bare->local : NULL, 0, NULL, NULL) != CL_SUCCESS)
      return false;
  return bare->cl->Finish(bare->queue) == CL_SUCCESS;
}

/* The same, asking for the device's times of each kernel as the backend does. */
static bool bare_timed_kernels(bench *own, int count) {
  const bare_program *bare = &own->bare;
  static cl_event events[kTasks];
  bool done = true;
  int begun = 0;
  for (; done && begun < count; begun++)
    done = bare->cl->EnqueueNDRangeKernel(bare->queue, bare->kernel, bare->dimensions, NULL, bare->global,
                                          bare->local[0] ? bare->local : NULL, 0, NULL, &events[begun]) == CL_SUCCESS;
  done = done && bare->cl->Finish(bare->queue) == CL_SUCCESS;
  for (int i = 0; done && i < begun; i++) {
    cl_ulong start, end;
    done = bare->cl->GetEventProfilingInfo(events[i], CL_PROFILING_COMMAND_START, sizeof start, &start, NULL) ==
               CL_SUCCESS &&
           bare->cl->GetEventProfilingInfo(events[i], CL_PROFILING_COMMAND_END, sizeof end, &end, NULL) == CL_SUCCESS;
    bare->cl->ReleaseEvent(events[i]);
  }
  return done;
}

static bool braid_end_to_end(bench *own, int count) {
  return test_node_transfer(&own->node, 0, own->host, true) == BRAID_OK && braid_kernels(own, count) &&
         test_node_transfer(&own->node, 1, own->host, false) == BRAID_OK;
}

static bool bare_end_to_end(bench *own, int count) {
  const bare_program *bare = &own->bare;
  return bare->cl->EnqueueWriteBuffer(bare->queue, bare->memory[0], CL_TRUE, 0, bare->bytes, own->host, 0, NULL,
                                      NULL) == CL_SUCCESS &&
         bare_kernels(own, count) &&
         bare->cl->EnqueueReadBuffer(bare->queue, bare->memory[1], CL_TRUE, 0, bare->bytes, own->host, 0, NULL, NULL) ==
             CL_SUCCESS;
}

/* --- transfers -----------------------------------------------------------------------------------------------------
 */
static bool braid_write(bench *own, int count) {
  (void)count;
  return test_node_transfer(&own->node, 0, own->host, true) == BRAID_OK;
}
static bool braid_read(bench *own, int count) {
  (void)count;
  return test_node_transfer(&own->node, 0, own->host, false) == BRAID_OK;
}
static bool bare_write(bench *own, int count) {
  (void)count;
  return own->bare.cl->EnqueueWriteBuffer(own->bare.queue, own->bare.memory[0], CL_TRUE, 0, own->bare.bytes, own->host,
                                          0, NULL, NULL) == CL_SUCCESS;
}
static bool bare_read(bench *own, int count) {
  (void)count;
  return own->bare.cl->EnqueueReadBuffer(own->bare.queue, own->bare.memory[0], CL_TRUE, 0, own->bare.bytes, own->host,
                                         0, NULL, NULL) == CL_SUCCESS;
}

/* --- measuring -----------------------------------------------------------------------------------------------------
 */
typedef bool work(bench *own, int count);

/* Best times in seconds of the same work by us and without us; what ours takes more, of the other: the median over
 * pairs, and bounds of it. */
typedef struct outcome {
  double ours, bare, share, least, most;
} outcome;

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static bool take_turns(bench *own, work *ours, work *bare, int count, int rounds, outcome *out) {
  double best[2] = {1e9, 1e9}, shares[kMostRounds];
  work *both[2] = {ours, bare};
  if (!ours(own, count) || !bare(own, count)) return false; /* drivers finish compiling at the first use */
  for (int round = 0; round < rounds; round++) {
    double took[2];
    for (int turn = 0; turn < 2; turn++) {
      int who = (round + turn) % 2; /* who begins changes, too */
      int64_t start = braid_now_ns();
      if (!both[who](own, count)) return false;
      took[who] = (double)(braid_now_ns() - start) / 1e9;
      if (took[who] < best[who]) best[who] = took[who];
    }
    shares[round] = took[0] / took[1] - 1;
  }
  qsort(shares, (size_t)rounds, sizeof *shares, compare);
  int away = (int)(0.98 * sqrt(rounds)) + 1; /* 1.96 standard deviations of a binomial of 1/2 */
  *out = (outcome){best[0], best[1], shares[rounds / 2], shares[rounds / 2 - away], shares[rounds / 2 + away]};
  return true;
}

static bool measure_tasks(bench *own) {
  static const struct {
    const char *name;
    int count;
  } kStreams[] = {{"in a stream", kTasks}, {"alone, submitted and waited for", 1}};
  work *const bare[] = {bare_kernels, bare_timed_kernels};
  for (int i = 0; i < 2; i++)
    for (int timed = 0; timed < 2; timed++) {
      outcome best;
      int count = kStreams[i].count;
      for (int k = 0; k < count; k++) own->tasks[k].timing = timed ? &own->timings[k] : NULL;
      if (!take_turns(own, braid_kernels, bare[timed], count, kRounds, &best)) return false;
      double ours_us = best.ours / count * 1e6, bare_us = best.bare / count * 1e6;
      printf("  a small task %s%s: %.2f us, bare %.2f us: overhead %.2f us\n", kStreams[i].name,
             timed ? ", timed by the device" : "", ours_us, bare_us, ours_us - bare_us);
    }
  return true;
}

static bool measure_end_to_end(bench *own) {
  outcome whole;
  for (int k = 0; k < kKernels; k++) own->tasks[k].timing = NULL;
  if (!take_turns(own, braid_end_to_end, bare_end_to_end, kKernels, kMostRounds, &whole)) return false;
  printf("  write, %d kernels over %d numbers, read: %.3f ms, directly %.3f ms: %+.2f %% (%+.2f to %+.2f)\n", kKernels,
         kLarge, whole.ours * 1e3, whole.bare * 1e3, whole.share * 100, whole.least * 100, whole.most * 100);
  return true;
}

static bool measure_transfers(bench *own) {
  outcome write, read;
  const braid_backend *backend = own->node.backend;
  double gigabytes = (double)own->bare.bytes / 1e9;
  int rounds = own->bare.bytes > kLarge * sizeof(float) ? kFewRounds : kRounds;
  for (int pinned = 0; pinned < 2; pinned++) {
    if (pinned && backend->host_register(own->node.self, own->host, own->bare.bytes) != BRAID_OK) return false;
    bool done = take_turns(own, braid_write, bare_write, 1, rounds, &write) &&
                take_turns(own, braid_read, bare_read, 1, rounds, &read);
    if (pinned) backend->host_unregister(own->node.self, own->host);
    if (!done) return false;
    printf("  %zu MB, memory %s: write %.2f GB/s, bare %.2f; read %.2f GB/s, bare %.2f\n", own->bare.bytes >> 20,
           pinned ? "pinned (host_register)" : "as it comes", gigabytes / write.ours, gigabytes / write.bare,
           gigabytes / read.ours, gigabytes / read.bare);
  }
  return true;
}

static int measure(braid_registry *registry, const char *spec, int64_t count, bool (*part)(bench *own)) {
  bench *own;
  braid_status status = bench_open(registry, spec, count, &own);
  bool done = status == BRAID_OK && part(own);
  if (!done) fprintf(stderr, "%s: %s: %s\n", spec, braid_status_text(status), braid_error_detail());
  if (own) bench_close(own);
  return !done;
}

int main(int argc, char **argv) {
  static const char *const kUsual[] = {"opencl0:memory=separate", "opencl0.0:parts=2,memory=separate"};
  const char *const *specs = argc > 1 ? (const char *const *)argv + 1 : kUsual;
  int count = argc > 1 ? argc - 1 : 2, failed = 0;
  if (!braid_cl_count()) {
    printf("opencl: skipped, there is no OpenCL device\n");
    return 0;
  }
  braid_registry *registry;
  if (braid_registry_create(NULL, &registry) != BRAID_OK) return 1;
  for (int i = 0; i < count && !failed; i++) {
    printf("opencl: %s (measured)\n", specs[i]);
    failed =
        measure(registry, specs[i], kSmall, measure_tasks) || measure(registry, specs[i], kLarge, measure_end_to_end) ||
        measure(registry, specs[i], kLarge, measure_transfers) || measure(registry, specs[i], kHuge, measure_transfers);
  }
  braid_registry_destroy(registry);
  return failed;
}
