/* A session and memory for what its runs give. */
#include <math.h>

#include "base/try.h"
#include "quantize/internal.h"
#include "runtime/plan/resolve.h"

double braid_decibels(double signal, double noise) {
  if (noise == 0) return (double)INFINITY;
  return signal > 0 ? 10 * log10(signal / noise) : -(double)INFINITY;
}

braid_status braid_work_progress(const braid_work *work, const char *phase, int64_t done, int64_t total) {
  if (!work->options.callback || work->options.callback(work->options.context, phase, done, total)) return BRAID_OK;
  return braid_fail(BRAID_CANCELLED, "interrupted");
}

static double output_bytes(const braid_graph *graph) {
  double bytes = 0;
  for (size_t i = 0; i < graph->output_count; i++)
    bytes += (double)braid_desc_bytes(&graph->values[graph->outputs[i]].desc);
  return bytes;
}

/* A resolved copy for this batch. */
static braid_status resolve_for(const braid_feed *feed, const braid_graph *graph, int64_t batch, braid_graph **out) {
  braid_graph *copy;
  *out = NULL;
  BRAID_TRY(braid_graph_clone(graph, &copy));
  braid_status status = braid_feed_bind(feed, copy, batch);
  if (status == BRAID_OK) status = braid_resolve_for_good(copy);
  if (status == BRAID_OK)
    *out = copy;
  else
    braid_graph_destroy(copy);
  return status;
}

static braid_status resolve_within(const braid_feed *feed, const braid_graph *graph, size_t limit, int64_t *batch,
                                   braid_graph **out) {
  BRAID_TRY(resolve_for(feed, graph, *batch, out));
  double bytes = output_bytes(*out);
  int64_t less = bytes > (double)limit ? (int64_t)((double)*batch * (double)limit / bytes) : *batch;
  if (less < 1) less = 1;
  if (!limit || less == *batch || braid_feed_batch_of(feed, graph, less) != less) return BRAID_OK;
  braid_graph_destroy(*out);
  *batch = less;
  return resolve_for(feed, graph, less, out);
}

static braid_status allocate_outputs(braid_probe *probe) {
  probe->output_count = braid_session_output_count(probe->session);
  probe->outputs = braid_zalloc_array(probe->allocator, probe->output_count + 1, sizeof *probe->outputs);
  if (!probe->outputs) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < probe->output_count; i++) {
    probe->outputs[i] = braid_alloc(probe->allocator, braid_desc_bytes(braid_session_output(probe->session, i)) + 1);
    if (!probe->outputs[i]) return BRAID_NO_MEMORY;
  }
  return BRAID_OK;
}

braid_status braid_probe_create(const braid_work *work, const braid_feed *feed, const braid_graph *graph, size_t limit,
                                int64_t *batch, braid_probe *out) {
  *out = (braid_probe){.allocator = work->allocator};
  braid_graph *resolved;
  BRAID_TRY(resolve_within(feed, graph, limit, batch, &resolved));
  braid_status status = braid_session_create(resolved, &work->session, &out->session);
  braid_graph_destroy(resolved);
  if (status == BRAID_OK) status = allocate_outputs(out);
  if (status != BRAID_OK) braid_probe_destroy(out);
  return status;
}

void braid_probe_destroy(braid_probe *probe) {
  for (size_t i = 0; probe->outputs && i < probe->output_count; i++) braid_free(probe->allocator, probe->outputs[i]);
  braid_free(probe->allocator, probe->outputs);
  braid_session_destroy(probe->session);
  *probe = (braid_probe){0};
}

int64_t braid_probe_valid(const braid_probe *probe, size_t index, int64_t count, int64_t batch) {
  const braid_desc *desc = braid_session_output(probe->session, index);
  int64_t all = braid_desc_count(desc);
  return desc->rank > 0 && desc->dims[0] % batch == 0 ? all / batch * count : all;
}
