/* Training in integers as whole steps, beside the same network in floating point: milliseconds of a step, the share of
 * each operation in it and of all that are no convolutions (the auxiliary ones), and the memory of activations and
 * errors. Both sides take turns on one batch of numbers made up; times of operations are medians of the steps'.
 *
 *   integer_step_bench [--device SPEC] [--threads N] [--batch N] [--steps N] [--nodes N] [--channels C] [--side N]
 * MODEL... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/philox.h"
#include "braid/model.h"
#include "braid/session.h"
#include "train/integer/network.h"
#include "train/step.h"

enum { kClasses = 10, kMostSteps = 1000, kMostOps = 64 };

typedef struct bench_options {
  const char *devices; /* NULL: the CPU */
  int threads, steps, nodes;
  int64_t batch;
} bench_options;

typedef struct step_side {
  const char *name;
  braid_graph *graph;
  braid_session *session;
  double ms[kMostSteps];
  int64_t step;
} step_side;

typedef struct op_share {
  const char *op, *kernel;
  double us;
  int count;
} op_share;

/* --- a side: one precision -----------------------------------------------------------------------------------------
 */
static braid_status build_side(const braid_graph *model, const bench_options *o, braid_precision precision,
                               step_side *side) {
  braid_train_options options;
  braid_value_id input = braid_graph_input(model, 0);
  const int64_t *dims = braid_graph_value(model, input).desc.dims;
  braid_dataset_info info = {.spec = "numbers made up",
                             .samples = o->batch,
                             .channels = (int)dims[1],
                             .height = (int)dims[2],
                             .width = (int)dims[3],
                             .classes = kClasses,
                             .target = BRAID_TARGET_CLASS};
  braid_train_options_init(&options);
  options.batch = (int)o->batch;
  options.precision = precision;
  options.draw_weights = precision == BRAID_INT8;
  side->name = precision == BRAID_INT8 ? "int8" : "float32";
  braid_status status;
  if (precision == BRAID_INT8) {
    braid_integer_network *network;
    status = braid_integer_network_create(model, &info, &options, false, &network);
    if (status != BRAID_OK) return status;
    status = braid_integer_step(network, &options, NULL, &side->graph);
    braid_integer_network_destroy(network);
  } else {
    status = braid_step_graph(model, &info, &options, &side->graph);
  }
  braid_session_options place = {.devices = o->devices, .threads = o->threads, .training = true};
  return status == BRAID_OK ? braid_session_create(side->graph, &place, &side->session) : status;
}

static braid_status run_step(step_side *side, const float *images, const int32_t *labels, bool measured) {
  int32_t exponent = 0;
  float rate = 1e-3f;
  int64_t number = ++side->step;
  bool integers = braid_session_input(side->session, 2)->dtype == BRAID_I32;
  const void *inputs[4] = {images, labels, integers ? (const void *)&exponent : &rate, &number};
  int64_t start = braid_now_ns();
  braid_status status = braid_session_run(side->session, inputs, NULL);
  if (measured) side->ms[side->step - 3] = (double)(braid_now_ns() - start) * 1e-6;
  return status;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median_ms(step_side *side, int steps) {
  qsort(side->ms, (size_t)steps, sizeof *side->ms, by_size);
  return side->ms[steps / 2];
}

/* Joules of a step, by the counter of the first device over as many steps at one go; below 0: it has none. */
static double step_joules(step_side *side, const bench_options *o, const float *images, const int32_t *labels) {
  char name[64];
  braid_registry *registry = NULL;
  braid_device *device = NULL;
  double before = 0, after = -1;
  snprintf(name, sizeof name, "%.*s", (int)strcspn(o->devices ? o->devices : "cpu", " :"),
           o->devices ? o->devices : "cpu");
  braid_status status = braid_registry_create(NULL, &registry);
  if (status == BRAID_OK) status = braid_device_open(registry, name, &device);
  const braid_backend *backend = device ? braid_device_backend(device) : NULL;
  bool meters = backend && backend->read_energy && backend->read_energy(braid_device_self(device), &before) == BRAID_OK;
  for (int i = 0; meters && i < o->steps && status == BRAID_OK; i++) status = run_step(side, images, labels, false);
  if (meters && backend->read_energy(braid_device_self(device), &after) != BRAID_OK) after = -1;
  braid_device_close(device);
  braid_registry_destroy(registry);
  return meters && status == BRAID_OK && after >= 0 ? (after - before) * 1e-6 / o->steps : -1;
}

/* --- report --------------------------------------------------------------------------------------------------------
 */
static bool is_product(const char *op) {
  return strcmp(op, "IntegerConv") == 0 || strcmp(op, "IntegerConvGradInput") == 0 ||
         strcmp(op, "IntegerConvGradFilter") == 0;
}

static int slower_op(const void *a, const void *b) {
  double x = ((const op_share *)a)->us, y = ((const op_share *)b)->us;
  return (x < y) - (x > y);
}

static int slower_line(const void *a, const void *b) {
  double x = ((const braid_plan_line *)a)->median_us, y = ((const braid_plan_line *)b)->median_us;
  return (x < y) - (x > y);
}

static void print_nodes(braid_plan_line *lines, size_t count, int nodes) {
  qsort(lines, count, sizeof *lines, slower_line);
  for (size_t i = 0; i < count && i < (size_t)nodes; i++)
    printf("    %-40.40s %-30s %-38s %10.0f us\n", lines[i].node, lines[i].op, lines[i].kernel, lines[i].median_us);
}

/* Shares of the time of all nodes. */
static void print_shares(const step_side *side, int nodes) {
  size_t count = braid_session_plan_count(side->session), ops = 0;
  braid_plan_line *lines = calloc(count + 1, sizeof *lines);
  op_share shares[kMostOps] = {{NULL, NULL, 0, 0}};
  double total = 0, products = 0;
  for (size_t i = 0; lines && i < count; i++) {
    lines[i] = braid_session_plan(side->session, i);
    double us = lines[i].median_us > 0 ? lines[i].median_us : 0;
    size_t k = 0;
    while (k < ops && strcmp(shares[k].kernel, lines[i].kernel) != 0) k++;
    if (k == kMostOps) k--;
    if (k == ops) shares[ops++] = (op_share){.op = lines[i].op, .kernel = lines[i].kernel};
    shares[k].us += us, shares[k].count++;
    total += us;
    if (is_product(lines[i].op)) products += us;
  }
  qsort(shares, ops, sizeof *shares, slower_op);
  printf("  %s: nodes together %.2f ms", side->name, total * 1e-3);
  if (products > 0) printf(", auxiliary operations %.1f%%", 100 * (total - products) / total);
  printf("\n");
  for (size_t k = 0; k < ops && total > 0; k++)
    if (shares[k].us / total > 0.002)
      printf("    %-30s %-38s %4d times %9.2f ms %5.1f%%\n", shares[k].op, shares[k].kernel, shares[k].count,
             shares[k].us * 1e-3, 100 * shares[k].us / total);
  if (lines) print_nodes(lines, count, nodes);
  free(lines);
}

static braid_status measure(const char *path, const bench_options *o) {
  step_side sides[2] = {{.name = NULL}, {.name = NULL}};
  braid_graph *model = NULL;
  braid_status status = braid_model_load(NULL, path, &(braid_model_options){.seed = 1}, &model);
  for (int i = 0; i < 2 && status == BRAID_OK; i++)
    status = build_side(model, o, i ? BRAID_FLOAT32 : BRAID_INT8, &sides[i]);
  int64_t numbers = status == BRAID_OK ? braid_desc_count(braid_session_input(sides[0].session, 0)) : 0;
  float *images = malloc((size_t)numbers * sizeof *images);
  int32_t *labels = malloc((size_t)o->batch * sizeof *labels);
  if (!images || !labels) status = BRAID_NO_MEMORY;
  for (int64_t i = 0; images && i < numbers; i++) images[i] = braid_random_normal(1, 0, 0, (uint64_t)i);
  for (int64_t i = 0; labels && i < o->batch; i++) labels[i] = (int32_t)(i % kClasses);
  for (int i = 0; i < 2 && status == BRAID_OK && images; i++) /* as the trainer does */
    status = braid_session_pin(sides[i].session, images, (size_t)numbers * sizeof *images);
  for (int step = 0; step < o->steps + 2 && status == BRAID_OK; step++)
    for (int i = 0; i < 2 && status == BRAID_OK; i++) status = run_step(&sides[i], images, labels, step > 1);
  if (status == BRAID_OK) {
    double ms[2] = {median_ms(&sides[0], o->steps), median_ms(&sides[1], o->steps)};
    size_t bytes[2];
    for (int i = 0; i < 2; i++) bytes[i] = braid_session_get_stats(sides[i].session).arena_bytes;
    printf("%s, batch %lld: int8 %.2f ms a step, float32 %.2f ms, %.2f times as fast; activations and errors %.1f MB, "
           "%.1f MB, %.2f of it\n",
           path, (long long)o->batch, ms[0], ms[1], ms[1] / ms[0], (double)bytes[0] * 1e-6, (double)bytes[1] * 1e-6,
           (double)bytes[0] / (double)bytes[1]);
    for (int i = 0; i < 2; i++) {
      double joules = step_joules(&sides[i], o, images, labels);
      if (joules >= 0) printf("  %s: %.4f J a step\n", sides[i].name, joules);
    }
    for (int i = 0; i < 2; i++) print_shares(&sides[i], o->nodes);
  }
  for (int i = 0; i < 2; i++) {
    braid_session_destroy(sides[i].session);
    braid_graph_destroy(sides[i].graph);
  }
  free(images), free(labels);
  braid_graph_destroy(model);
  return status;
}

int main(int argc, char **argv) {
  bench_options o = {.threads = 0, .steps = 10, .nodes = 0, .batch = 128};
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
    else if (o.batch < 1 || o.steps < 1 || o.steps > kMostSteps)
      return fprintf(stderr, "a batch and 1 to %d steps are wanted\n", kMostSteps), 1;
    else if (measure(argv[i], &o) != BRAID_OK)
      return fprintf(stderr, "%s: %s\n", argv[i], braid_error_detail()), 1;
  }
  return 0;
}
