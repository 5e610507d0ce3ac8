#include <string.h>

#include "base/invariant.h"
#include "base/try.h"
#include "graph/graph.h"

/* A graph as it was before it was resolved; unchanging, shared by its clones. */
struct braid_unresolved {
  uint32_t references;
  braid_graph *graph;
};

struct braid_unresolved *braid_unresolved_retain(struct braid_unresolved *kept) {
  if (kept) braid_references_add(&kept->references);
  return kept;
}

void braid_unresolved_release(struct braid_unresolved *kept) {
  if (!kept || !braid_references_drop(&kept->references)) return;
  const braid_allocator *allocator = kept->graph->allocator;
  braid_graph_destroy(kept->graph);
  braid_free(allocator, kept);
}

braid_status braid_graph_keep_unresolved(const braid_graph *graph, struct braid_unresolved **out) {
  *out = graph->resolved ? braid_unresolved_retain(graph->unresolved) : NULL;
  if (graph->resolved) return BRAID_OK;
  struct braid_unresolved *kept = braid_zalloc(graph->allocator, sizeof *kept);
  if (!kept) return BRAID_NO_MEMORY;
  kept->references = 1;
  braid_status status = braid_graph_clone(graph, &kept->graph);
  if (status == BRAID_OK)
    *out = kept;
  else
    braid_free(graph->allocator, kept);
  return status;
}

void braid_graph_set_resolved(braid_graph *graph, struct braid_unresolved *from) {
  braid_unresolved_release(graph->unresolved);
  graph->unresolved = from;
  graph->resolved = true;
}

static void swap_graphs(braid_graph *a, braid_graph *b) {
  braid_graph was = *a;
  *a = *b;
  *b = was;
}

void braid_graph_take_back(braid_graph *graph, struct braid_unresolved *before) {
  if (!graph->resolved) swap_graphs(graph, before->graph);
  braid_unresolved_release(before);
}

const braid_graph *braid_graph_source(const braid_graph *graph) {
  return graph->reshaped ? graph->unresolved->graph : graph;
}

static void copy_input_shapes(const braid_graph *from, braid_graph *to) {
  for (size_t i = 0; i < from->input_count; i++) {
    const braid_value *input = &from->values[from->inputs[i]];
    braid_value_id id = braid_graph_find_value(to, input->name);
    if (id >= 0) to->values[id].desc = input->desc;
  }
}

braid_status braid_graph_unresolve(braid_graph *graph) {
  if (!graph->reshaped) return BRAID_OK;
  braid_graph *before;
  BRAID_TRY(braid_graph_clone(graph->unresolved->graph, &before));
  copy_input_shapes(graph, before);
  before->precision = graph->precision;
  swap_graphs(graph, before);
  braid_graph_destroy(before);
  return BRAID_OK;
}

braid_status braid_graph_check_shapes(const braid_graph *graph) {
  if (!graph->reshaped) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT,
                    "an input has another shape since the graph was resolved: resolve it again");
}

braid_status braid_graph_begin_change(braid_graph *graph) {
  BRAID_TRY(braid_graph_check_shapes(graph));
  braid_unresolved_release(graph->unresolved);
  graph->unresolved = NULL;
  return BRAID_OK;
}
