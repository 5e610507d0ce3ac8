/* Types and shapes of the quantized graph's outputs, which a file says: those of the model, since shapes may be
 * computed from open dimensions, and then need an evaluator. */
#include "base/try.h"
#include "quantize/internal.h"
#include "runtime/plan/resolve.h"

static bool is_closed(const braid_graph *graph) {
  for (size_t i = 0; i < graph->input_count; i++) {
    const braid_desc *desc = &graph->values[graph->inputs[i]].desc;
    if (desc->rank < 0) return false;
    for (int d = 0; d < desc->rank; d++)
      if (desc->dims[d] < 0) return false;
  }
  return true;
}

/* The outputs as they are when every open dimension of the inputs is `size`: a resolved copy. */
static braid_status resolve_at(const braid_graph *graph, int64_t size, braid_graph **out) {
  *out = NULL;
  braid_graph *copy;
  BRAID_TRY(braid_graph_clone(graph, &copy));
  for (size_t i = 0; i < copy->input_count; i++) {
    braid_desc *desc = &copy->values[copy->inputs[i]].desc;
    for (int d = 0; d < desc->rank; d++)
      if (desc->dims[d] < 0) desc->dims[d] = size;
  }
  braid_status status = braid_resolve_for_good(copy);
  if (status == BRAID_OK)
    *out = copy;
  else
    braid_graph_destroy(copy);
  return status;
}

/* What differs between open dimensions of 1 and of 2 is open. A network that takes none of these has outputs of unknown
 * shape: it runs, as calibration has shown, at others. */
static braid_status resolve_pair(const braid_graph *graph, braid_graph *pair[2]) {
  pair[0] = pair[1] = NULL;
  braid_status status = resolve_at(graph, 1, &pair[0]);
  if (status == BRAID_OK) status = resolve_at(graph, 2, &pair[1]);
  return status == BRAID_NO_MEMORY ? status : BRAID_OK;
}

/* Dimensions that are not `other`'s are open. */
static void open_differing(braid_desc *desc, const braid_desc *other) {
  if (desc->rank != other->rank) desc->rank = -1;
  for (int d = 0; d < desc->rank; d++)
    if (desc->dims[d] != other->dims[d]) desc->dims[d] = -1;
}

static void declare_output(const braid_desc *declared, const braid_desc *measured, braid_graph *const pair[2],
                           size_t index, braid_desc *out) {
  *out = (braid_desc){.dtype = measured->dtype, .rank = -1};
  if (declared->dtype == measured->dtype && declared->rank >= 0) {
    *out = *declared;
    open_differing(out, measured); /* a file may say a batch that it was exported with */
  } else if (pair[0] && pair[1]) {
    *out = pair[0]->values[pair[0]->outputs[index]].desc;
    open_differing(out, &pair[1]->values[pair[1]->outputs[index]].desc);
  }
}

braid_status braid_quantize_declare(const braid_graph *model, const braid_graph *prepared, braid_graph *graph) {
  const braid_graph *source = braid_graph_source(model);
  bool closed = is_closed(graph), declared = true;
  for (size_t i = 0; i < source->output_count; i++)
    declared = declared && source->values[source->outputs[i]].desc.rank >= 0;
  braid_graph *pair[2] = {NULL, NULL};
  braid_status status = closed || declared ? BRAID_OK : resolve_pair(graph, pair);
  for (size_t i = 0; status == BRAID_OK && i < graph->output_count; i++) {
    braid_value *value = &graph->values[graph->outputs[i]];
    const braid_desc *measured = &prepared->values[prepared->outputs[i]].desc;
    if (value->kind != BRAID_VALUE_RESULT) continue;
    if (closed)
      value->desc = *measured;
    else
      declare_output(&source->values[source->outputs[i]].desc, measured, pair, i, &value->desc);
  }
  braid_graph_destroy(pair[0]);
  braid_graph_destroy(pair[1]);
  return status;
}
