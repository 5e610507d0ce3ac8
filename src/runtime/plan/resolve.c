/* Fixing shapes and folding, with the CPU's reference kernels as evaluator. */
#include "runtime/plan/resolve.h"
#include "backend/cpu/evaluate.h"
#include "base/try.h"

/* A batch that the model leaves open is one; nothing else can be guessed. */
static braid_status close_shape(braid_graph *graph, braid_value_id input) {
  braid_value *value = &graph->values[input];
  char text[128];
  if (value->desc.rank < 0)
    return braid_fail(BRAID_INVALID_ARGUMENT, "input %.120s has no shape: give it one", value->name);
  for (int i = 0; i < value->desc.rank; i++) {
    if (value->desc.dims[i] >= 0) continue;
    if (i > 0)
      return braid_fail(BRAID_INVALID_ARGUMENT, "input %.120s leaves dimension %d open, %s: give it a shape",
                        value->name, i, braid_desc_format(&value->desc, text, sizeof text));
    value->desc.dims[0] = 1;
  }
  return BRAID_OK;
}

static braid_status resolve_values(braid_graph *graph) {
  for (size_t i = 0; i < graph->input_count; i++) BRAID_TRY(close_shape(graph, graph->inputs[i]));
  braid_cpu_evaluator evaluator;
  BRAID_TRY(braid_cpu_evaluator_init(&evaluator, graph->allocator));
  braid_status status = braid_graph_infer(graph, &(braid_evaluator){braid_cpu_evaluate, &evaluator});
  braid_cpu_evaluator_deinit(&evaluator);
  return status;
}

braid_status braid_resolve_for_good(braid_graph *graph) {
  BRAID_TRY(braid_graph_unresolve(graph));
  BRAID_TRY(resolve_values(graph));
  braid_graph_set_resolved(graph, NULL);
  return BRAID_OK;
}

braid_status braid_resolve(braid_graph *graph) {
  struct braid_unresolved *before;
  BRAID_TRY(braid_graph_unresolve(graph));
  BRAID_TRY(braid_graph_keep_unresolved(graph, &before));
  braid_status status = resolve_values(graph);
  if (status == BRAID_OK)
    braid_graph_set_resolved(graph, before);
  else
    braid_graph_take_back(graph, before);
  return status;
}
