/* Do copies run beside kernels? Independent products on a device of separate memory: each input is written, multiplied
 * by a constant matrix, the result read back. Prints how much of the copies' time lies beside a kernel, and the run
 * beside the sum of its parts. The trace that this is read from can be kept.
 *
 *   copies_bench [DEVICE [SIDE [TRACE]]]   default: opencl0:memory=separate (skipped if it is not there), 768 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/philox.h"
#include "base/try.h"
#include "braid/session.h"
#include "runtime/plan/plan.h"

enum { kChains = 12, kRuns = 12, kMostSpans = 8 * kChains * kRuns };

typedef struct span {
  double start, end; /* us */
} span;

typedef struct spans {
  span items[kMostSpans];
  size_t count;
} spans;

/* --- the graph -----------------------------------------------------------------------------------------------------
 */
static braid_status build(braid_graph *graph, int64_t side) {
  braid_desc desc;
  braid_tensor *matrix;
  braid_value_id ids[2], product;
  BRAID_TRY(braid_desc_init(&desc, BRAID_F32, 2, (int64_t[]){side, side}));
  BRAID_TRY(braid_tensor_create(NULL, &desc, &matrix));
  float *data = braid_tensor_data(matrix);
  for (int64_t i = 0; i < side * side; i++) data[i] = braid_random_uniform(1, 0, 0, (uint64_t)i) - 0.5f;
  braid_status status = braid_graph_add_tensor(graph, "w", BRAID_VALUE_CONSTANT, matrix, &ids[1]);
  braid_tensor_release(matrix);
  for (int i = 0; status == BRAID_OK && i < kChains; i++) {
    char name[16];
    snprintf(name, sizeof name, "x%d", i);
    status = braid_graph_add_input(graph, name, &desc, &ids[0]);
    if (status == BRAID_OK) status = braid_graph_add_node(graph, "MatMul", NULL, ids, 2, &product, 1, NULL);
    if (status == BRAID_OK) status = braid_graph_add_output(graph, product);
  }
  return status;
}

/* --- the trace -----------------------------------------------------------------------------------------------------
 */
static double number_after(const char *line, const char *key) {
  const char *at = strstr(line, key);
  return at ? strtod(at + strlen(key), NULL) : -1;
}

static bool read_trace(const char *path, spans *kernels, spans *copies) {
  FILE *file = fopen(path, "r");
  char line[1024];
  if (!file) return false;
  while (fgets(line, sizeof line, file)) {
    if (strncmp(line, "{\"ph\":\"X\"", 9) != 0) continue;
    bool kernel = (int)number_after(line, "\"tid\":") % BRAID_QUEUE_ROLES == BRAID_QUEUE_KERNELS;
    spans *to = kernel ? kernels : copies;
    double start = number_after(line, "\"ts\":");
    if (to->count < kMostSpans) to->items[to->count++] = (span){start, start + number_after(line, "\"dur\":")};
  }
  return fclose(file) == 0;
}

static int by_start(const void *a, const void *b) {
  double x = ((const span *)a)->start, y = ((const span *)b)->start;
  return (x > y) - (x < y);
}

/* Makes one span of those that overlap: reads run beside writes. */
static void unite(spans *list) {
  qsort(list->items, list->count, sizeof *list->items, by_start);
  size_t count = 0;
  for (size_t i = 0; i < list->count; i++) {
    span *last = count ? &list->items[count - 1] : NULL;
    if (!last || list->items[i].start > last->end)
      list->items[count++] = list->items[i];
    else if (list->items[i].end > last->end)
      last->end = list->items[i].end;
  }
  list->count = count;
}

/* The time that both have in common; both united. */
static double common(const spans *a, const spans *b) {
  double sum = 0;
  for (size_t i = 0, j = 0; i < a->count && j < b->count;) {
    const span *x = &a->items[i], *y = &b->items[j];
    double start = x->start > y->start ? x->start : y->start, end = x->end < y->end ? x->end : y->end;
    if (end > start) sum += end - start;
    if (x->end < y->end)
      i++;
    else
      j++;
  }
  return sum;
}

static double total(const spans *list) {
  double sum = 0;
  for (size_t i = 0; i < list->count; i++) sum += list->items[i].end - list->items[i].start;
  return sum;
}

/* --- running -------------------------------------------------------------------------------------------------------
 */
static braid_status run(const braid_graph *graph, const braid_session_options *options, float *const *in,
                        float *const *out, double *best_ms) {
  braid_session *session;
  BRAID_TRY(braid_session_create(graph, options, &session));
  braid_status status = BRAID_OK;
  *best_ms = 1e30;
  for (int i = 0; status == BRAID_OK && i < kRuns; i++) {
    int64_t start = braid_now_ns();
    status = braid_session_run(session, (const void *const *)in, (void *const *)out);
    double ms = (double)(braid_now_ns() - start) / 1e6;
    if (ms < *best_ms) *best_ms = ms;
  }
  if (status == BRAID_OK) status = braid_session_save_trace(session);
  braid_session_destroy(session);
  return status;
}

static void report(const char *path, const char *device, int64_t side, double best_ms) {
  static spans kernels, copies;
  if (!read_trace(path, &kernels, &copies) || copies.count == 0) {
    puts("the trace has no copies");
    return;
  }
  double sum_ms = (total(&kernels) + total(&copies)) / kRuns / 1e3;
  unite(&kernels);
  unite(&copies);
  double kernel_us = total(&kernels), copy_us = total(&copies), both_us = common(&kernels, &copies);
  printf("%s: %d products of %lld x %lld, each input copied there and each result back (measured)\n", device, kChains,
         (long long)side, (long long)side);
  printf(
      "  %.0f %% of the time with copies has a kernel too, %.0f %% of that with kernels a copy; best run %.3f ms, all "
      "tasks one after the other %.3f ms\n",
      100 * both_us / copy_us, 100 * both_us / kernel_us, best_ms, sum_ms);
}

static braid_status measure(const char *device, int64_t side, const char *path) {
  float *buffers[2 * kChains] = {NULL};
  size_t count = (size_t)(side * side);
  braid_status status = BRAID_OK;
  for (int i = 0; status == BRAID_OK && i < 2 * kChains; i++) {
    buffers[i] = calloc(count, sizeof **buffers);
    if (!buffers[i]) status = BRAID_NO_MEMORY;
  }
  braid_graph *graph = NULL;
  double best_ms = 0;
  if (status == BRAID_OK) status = braid_graph_create(NULL, "copies", &graph);
  if (status == BRAID_OK) status = build(graph, side);
  if (status == BRAID_OK)
    status =
        run(graph, &(braid_session_options){.devices = device, .trace = path}, buffers, buffers + kChains, &best_ms);
  if (status == BRAID_OK) report(path, device, side, best_ms);
  braid_graph_destroy(graph);
  for (int i = 0; i < 2 * kChains; i++) free(buffers[i]);
  return status;
}

int main(int argc, char **argv) {
  const char *device = argc > 1 ? argv[1] : "opencl0:memory=separate";
  int64_t side = argc > 2 ? atoll(argv[2]) : 768;
  char own[] = "/tmp/braid-copies-XXXXXX";
  if (side < 1 || side > 8192) return 2;
  int file = argc > 3 ? -1 : mkstemp(own);
  if (file >= 0) close(file);
  braid_status status = measure(device, side, argc > 3 ? argv[3] : own);
  if (file >= 0) unlink(own);
  if (status == BRAID_NOT_FOUND && argc < 2) {
    puts("copies beside kernels: skipped, no OpenCL device");
    return 0;
  }
  if (status != BRAID_OK) fprintf(stderr, "copies_bench: %s: %s\n", braid_status_text(status), braid_error_detail());
  return status == BRAID_OK ? 0 : 1;
}
