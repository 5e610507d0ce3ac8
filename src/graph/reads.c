/* Which constants a graph depends on: those whose numbers shape inference read, or a pass that decides by numbers. Of
 * what was folded it is known what it was computed from, so a number that was read leads back to the constants that the
 * graph had. */
#include "base/try.h"
#include "graph/graph.h"

struct braid_lineage {
  const char *name; /* of a constant, or of what was folded from shapes and attributes alone; NULL: computed */
  bool read;
  size_t count; /* computed: from these; NULL: from nothing that can be another */
  struct braid_lineage **from;
  struct braid_lineage *older;
};

static braid_status lineage_make(braid_graph *graph, size_t count, struct braid_lineage **out) {
  struct braid_lineage *lineage = *out = braid_graph_arena_alloc(graph, sizeof *lineage);
  if (!lineage) return BRAID_NO_MEMORY;
  if (count) {
    lineage->from = braid_graph_arena_alloc(graph, count * sizeof(struct braid_lineage *));
    if (!lineage->from) return BRAID_NO_MEMORY;
  }
  lineage->count = count;
  lineage->older = graph->lineages;
  graph->lineages = lineage;
  return BRAID_OK;
}

braid_status braid_graph_track_value(braid_graph *graph, braid_value_id id) {
  braid_value *value = &graph->values[id];
  bool known = value->kind == BRAID_VALUE_CONSTANT || (value->kind == BRAID_VALUE_RESULT && value->tensor);
  if (!known || value->lineage) return BRAID_OK;
  struct braid_lineage *lineage;
  BRAID_TRY(lineage_make(graph, 0, &lineage));
  lineage->name = value->name;
  value->lineage = lineage;
  return BRAID_OK;
}

braid_status braid_graph_track_inputs(braid_graph *graph, const braid_node *node) {
  for (size_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] >= 0) BRAID_TRY(braid_graph_track_value(graph, node->inputs[i]));
  return BRAID_OK;
}

braid_status braid_graph_track_results(braid_graph *graph, const braid_node *node) {
  struct braid_lineage *lineage;
  BRAID_TRY(lineage_make(graph, node->input_count, &lineage));
  for (size_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] >= 0) lineage->from[i] = graph->values[node->inputs[i]].lineage;
  for (size_t i = 0; i < node->output_count; i++)
    if (node->outputs[i] >= 0) graph->values[node->outputs[i]].lineage = lineage;
  return BRAID_OK;
}

void braid_value_note_read(const braid_value *value) {
  if (value->lineage) value->lineage->read = true;
}

bool braid_value_was_read(const braid_value *value) {
  return value->lineage && value->lineage->read;
}

/* What something was computed from is older than it. */
void braid_graph_visit_read(const braid_graph *graph, void (*visit)(void *context, const char *name), void *context) {
  for (struct braid_lineage *lineage = graph->lineages; lineage; lineage = lineage->older) {
    if (!lineage->read) continue;
    if (lineage->name) visit(context, lineage->name);
    for (size_t i = 0; i < lineage->count; i++)
      if (lineage->from[i]) lineage->from[i]->read = true;
  }
}
