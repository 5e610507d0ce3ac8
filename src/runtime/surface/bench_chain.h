/* Chains of nodes that do next to nothing, for frame_bench: what runs cost beside their kernels. */
#ifndef BRAID_RUNTIME_BENCH_CHAIN_H
#define BRAID_RUNTIME_BENCH_CHAIN_H

#include <time.h>

#include "base/clock.h"
#include "base/try.h"
#include "braid/custom.h"
#include "braid/session.h"
#include "runtime/surface/bench_rows.h"

enum { kMostRuns = 2000, kTimedRuns = 17 };

static int64_t failed_at; /* by the clock; the node fails when it is -1 */

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
  if (failed_at >= 0) return BRAID_OK;
  failed_at = braid_now_ns();
  return BRAID_INTERNAL;
}

static const braid_custom_op kTrivial = {
    .name = "bench.Trivial", .min_inputs = 1, .max_inputs = 1, .outputs = 1, .infer = infer, .compute = compute};

/* --- chains --------------------------------------------------------------------------------------------------------
 */
static braid_registry *registry; /* with the idle device */

/* A chain of `nodes` nodes over one number. *out is NULL or to be destroyed, also on failure. */
static braid_status make_graph(int nodes, braid_graph **out) {
  braid_value_id at = -1;
  braid_desc desc;
  *out = NULL;
  BRAID_TRY(braid_desc_init(&desc, BRAID_F32, 1, &(int64_t){1}));
  BRAID_TRY(braid_graph_create(NULL, "chain", out));
  BRAID_TRY(braid_graph_add_input(*out, "x", &desc, &at));
  for (int i = 0; i < nodes; i++) BRAID_TRY(braid_graph_add_node(*out, "bench.Trivial", NULL, &at, 1, &at, 1, NULL));
  return braid_graph_add_output(*out, at);
}

static braid_status make_chain(const char *device, int nodes, braid_session **out) {
  braid_graph *graph;
  braid_status status = make_graph(nodes, &graph);
  braid_session_options options = {.devices = device, .threads = 1, .registry = registry};
  if (status == BRAID_OK) status = braid_session_create(graph, &options, out);
  braid_graph_destroy(graph);
  return status;
}

static braid_status run_chain(braid_session *session, int64_t *ns) {
  float input = 1, output;
  int64_t start = braid_now_ns();
  braid_status status = braid_session_run(session, (const void *[]){&input}, (void *[]){&output});
  *ns = braid_now_ns() - start;
  return status;
}

/* The median of `count` runs, each after a pause. The first are timed by the device, and do not count. */
static braid_status time_chain(braid_session *session, int count, int64_t pause_ns, double *us) {
  static double times[kMostRuns];
  for (int i = -count / 10 - kTimedRuns; i < count; i++) {
    int64_t ns;
    if (pause_ns) nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
    BRAID_TRY(run_chain(session, &ns));
    if (i >= 0) times[i] = (double)ns / 1e3;
  }
  *us = median(times, count);
  return BRAID_OK;
}

#endif
