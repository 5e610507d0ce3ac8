/* Training steps in one precision: milliseconds and joules of a step on one batch of numbers made up, and what its
 * kernels take.
 *
 *   mixed_step_bench [--device SPEC] [--threads N] [--batch N] [--steps N] [--nodes N] [--classes N] [--precision NAME]
 * MODEL */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/philox.h"
#include "base/try.h"
#include "braid/model.h"
#include "braid/session.h"
#include "train/step.h"

enum { kMostSteps = 1000, kWarm = 5, kMostKernels = 128 };

typedef struct bench_options {
  const char *devices, *model; /* devices NULL: the CPU */
  int threads, steps, nodes, classes;
  int64_t batch;
  braid_precision precision;
} bench_options;

typedef struct bench {
  braid_graph *model, *step;
  braid_session *session;
  float *images;
  int32_t *labels;
  int64_t number;
} bench;

static braid_status bench_open(const bench_options *o, bench *b) {
  braid_train_options options;
  BRAID_TRY(braid_model_load(NULL, o->model, &(braid_model_options){.seed = 1}, &b->model));
  const int64_t *dims = braid_graph_value(b->model, braid_graph_input(b->model, 0)).desc.dims;
  braid_dataset_info info = {.spec = "numbers made up",
                             .samples = o->batch,
                             .channels = (int)dims[1],
                             .height = (int)dims[2],
                             .width = (int)dims[3],
                             .classes = o->classes,
                             .target = BRAID_TARGET_CLASS};
  braid_train_options_init(&options);
  options.batch = o->batch;
  options.precision = o->precision;
  BRAID_TRY(braid_step_graph(b->model, &info, &options, &b->step));
  braid_session_options place = {.devices = o->devices, .threads = o->threads, .training = true};
  BRAID_TRY(braid_session_create(b->step, &place, &b->session));
  int64_t count = braid_desc_count(braid_session_input(b->session, 0));
  b->images = malloc((size_t)count * sizeof *b->images);
  b->labels = malloc((size_t)o->batch * sizeof *b->labels);
  if (!b->images || !b->labels) return BRAID_NO_MEMORY;
  for (int64_t i = 0; i < count; i++) b->images[i] = braid_random_normal(1, 0, 0, (uint64_t)i);
  for (int64_t i = 0; i < o->batch; i++) b->labels[i] = (int32_t)(i % o->classes);
  return braid_session_pin(b->session, b->images, (size_t)count * sizeof *b->images);
}

static void bench_close(bench *b) {
  braid_session_destroy(b->session);
  braid_graph_destroy(b->step);
  braid_graph_destroy(b->model);
  free(b->images), free(b->labels);
}

static braid_status bench_step(bench *b) {
  float rate = 1e-3f;
  b->number++;
  return braid_session_run(b->session, (const void *[]){b->images, b->labels, &rate, &b->number}, NULL);
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Joules of a step, by the counter of the first device; below 0: it has none. */
static double step_joules(const bench_options *o, bench *b) {
  char name[64];
  braid_registry *registry = NULL;
  braid_device *device = NULL;
  const char *devices = o->devices ? o->devices : "cpu";
  double before = 0, after = -1;
  snprintf(name, sizeof name, "%.*s", (int)strcspn(devices, " :"), devices);
  braid_status status = braid_registry_create(NULL, &registry);
  if (status == BRAID_OK) status = braid_device_open(registry, name, &device);
  const braid_backend *backend = device ? braid_device_backend(device) : NULL;
  bool meters = backend && backend->read_energy && backend->read_energy(braid_device_self(device), &before) == BRAID_OK;
  for (int i = 0; meters && i < o->steps && status == BRAID_OK; i++) status = bench_step(b);
  if (meters && backend->read_energy(braid_device_self(device), &after) != BRAID_OK) after = -1;
  braid_device_close(device);
  braid_registry_destroy(registry);
  return meters && status == BRAID_OK && after >= 0 ? (after - before) * 1e-6 / o->steps : -1;
}

/* --- what kernels take ---------------------------------------------------------------------------------------------
 */
typedef struct share {
  const char *kernel;
  double us;
  int count;
} share;

static int slower_share(const void *a, const void *b) {
  double x = ((const share *)a)->us, y = ((const share *)b)->us;
  return (x < y) - (x > y);
}

static void print_kernels(const bench *b, int most) {
  share shares[kMostKernels] = {{NULL, 0, 0}};
  size_t kernels = 0;
  double total = 0;
  for (size_t i = 0; i < braid_session_plan_count(b->session); i++) {
    braid_plan_line line = braid_session_plan(b->session, i);
    size_t k = 0;
    while (k < kernels && strcmp(shares[k].kernel, line.kernel) != 0) k++;
    if (k == kMostKernels) k--;
    if (k == kernels) shares[kernels++] = (share){.kernel = line.kernel};
    if (line.median_us > 0) shares[k].us += line.median_us, total += line.median_us;
    shares[k].count++;
  }
  qsort(shares, kernels, sizeof *shares, slower_share);
  for (size_t k = 0; k < kernels && (int)k < most && total > 0; k++)
    printf("    %-38s %4d times %9.3f ms %5.1f%%\n", shares[k].kernel, shares[k].count, shares[k].us * 1e-3,
           100 * shares[k].us / total);
}

static braid_status measure(const bench_options *o, bench *b) {
  static double ms[kMostSteps];
  BRAID_TRY(bench_open(o, b));
  for (int i = 0; i < kWarm; i++) BRAID_TRY(bench_step(b));
  for (int i = 0; i < o->steps; i++) {
    int64_t start = braid_now_ns();
    BRAID_TRY(bench_step(b));
    ms[i] = (double)(braid_now_ns() - start) * 1e-6;
  }
  qsort(ms, (size_t)o->steps, sizeof *ms, by_size);
  printf("%s, batch %lld: %s %.3f ms a step, %.4f J, %.1f MB of activations\n", o->model, (long long)o->batch,
         braid_precision_name(o->precision), ms[o->steps / 2], step_joules(o, b),
         (double)braid_session_get_stats(b->session).arena_bytes * 1e-6);
  print_kernels(b, o->nodes);
  return BRAID_OK;
}

static braid_precision precision_of(const char *name) {
  for (int p = BRAID_FLOAT32; p <= BRAID_FLOAT16; p++)
    if (strcmp(name, braid_precision_name((braid_precision)p)) == 0) return (braid_precision)p;
  return BRAID_INT8; /* refused by the graph */
}

int main(int argc, char **argv) {
  bench_options o = {.steps = 10, .batch = 128, .classes = 10};
  bench b = {.number = 0};
  for (int i = 1; i < argc; i++) {
    bool more = i + 1 < argc;
    if (more && strcmp(argv[i], "--device") == 0)
      o.devices = argv[++i];
    else if (more && strcmp(argv[i], "--threads") == 0)
      o.threads = atoi(argv[++i]);
    else if (more && strcmp(argv[i], "--batch") == 0)
      o.batch = atoi(argv[++i]);
    else if (more && strcmp(argv[i], "--steps") == 0)
      o.steps = atoi(argv[++i]);
    else if (more && strcmp(argv[i], "--nodes") == 0)
      o.nodes = atoi(argv[++i]);
    else if (more && strcmp(argv[i], "--classes") == 0)
      o.classes = atoi(argv[++i]);
    else if (more && strcmp(argv[i], "--precision") == 0)
      o.precision = precision_of(argv[++i]);
    else
      o.model = argv[i];
  }
  if (!o.model || o.batch < 1 || o.classes < 1 || o.steps < 1 || o.steps > kMostSteps)
    return fprintf(stderr, "a model, a batch, classes and 1 to %d steps are wanted\n", kMostSteps), 1;
  braid_status status = measure(&o, &b);
  if (status != BRAID_OK) fprintf(stderr, "%s: %s\n", o.model, braid_error_detail());
  bench_close(&b);
  return status != BRAID_OK;
}
