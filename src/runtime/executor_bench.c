/* What scheduling costs: runs of a graph whose nodes do nothing, divided by the number of nodes. The bound is one
 * microsecond per node; the time is that of the whole run, from call to return, woken threads included. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "braid/custom.h"
#include "braid/session.h"

enum { kRuns = 200 };

static braid_status infer(const braid_attrs *attrs, const braid_desc *const *inputs, size_t input_count,
                          braid_desc *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  outputs[0] = *inputs[0];
  return BRAID_OK;
}

static braid_status compute(const braid_attrs *attrs, const braid_custom_array *inputs, size_t input_count,
                            const braid_custom_array *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  *(float *)outputs[0].data = *(const float *)inputs[0].data;
  return BRAID_OK;
}

static const braid_custom_op kTrivial = {
    .name = "bench.Trivial", .min_inputs = 1, .max_inputs = 2, .outputs = 1, .infer = infer, .compute = compute};

/* A ladder: node i reads nodes i - 1 and i - 2. */
static braid_status make_graph(int nodes, braid_graph **out) {
  braid_value_id last[2] = {-1, -1};
  int64_t one = 1;
  braid_desc desc;
  braid_status status = braid_graph_create(NULL, "bench", out);
  if (status == BRAID_OK) status = braid_desc_init(&desc, BRAID_F32, 1, &one);
  if (status == BRAID_OK) status = braid_graph_add_input(*out, "x", &desc, &last[0]);
  for (int i = 0; status == BRAID_OK && i < nodes; i++) {
    braid_value_id next = 0;
    status = braid_graph_add_node(*out, "bench.Trivial", NULL, last, last[1] < 0 ? 1 : 2, &next, 1, NULL);
    last[1] = last[0];
    last[0] = next;
  }
  return status == BRAID_OK ? braid_graph_add_output(*out, last[0]) : status;
}

static int compare(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static braid_status measure(int nodes, const char *devices, const char *place) {
  braid_graph *graph;
  braid_session *session = NULL;
  int64_t times[kRuns];
  float input = 1, output;
  braid_session_options options = {.devices = devices, .place = place, .threads = 1};
  braid_status status = make_graph(nodes, &graph);
  if (status == BRAID_OK) status = braid_session_create(graph, &options, &session);
  for (int i = 0; status == BRAID_OK && i < kRuns; i++) {
    int64_t start = braid_now_ns();
    status = braid_session_run(session, (const void *[]){&input}, (void *[]){&output});
    times[i] = braid_now_ns() - start;
  }
  if (status == BRAID_OK) {
    qsort(times, kRuns, sizeof *times, compare);
    size_t steps = braid_session_get_stats(session).nodes;
    printf("scheduling, %-7s %5zu tasks: %6.3f us per task (median of %d runs, best %.3f)\n",
           place ? "2 cpus," : "1 cpu,", steps, (double)times[kRuns / 2] / 1e3 / (double)steps, kRuns,
           (double)times[0] / 1e3 / (double)steps);
  }
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  return status;
}

int main(void) {
  braid_status status = braid_custom_op_register(&kTrivial);
  if (status == BRAID_OK) status = measure(10, "cpu", NULL);
  if (status == BRAID_OK) status = measure(100, "cpu", NULL);
  if (status == BRAID_OK) status = measure(1000, "cpu", NULL);
  if (status == BRAID_OK) status = measure(10000, "cpu", NULL);
  if (status == BRAID_OK) status = measure(1000, "cpu cpu", "*1=1 *=0"); /* one node in ten on the other device */
  if (status != BRAID_OK) fprintf(stderr, "%s: %s\n", braid_status_text(status), braid_error_detail());
  return status != BRAID_OK;
}
