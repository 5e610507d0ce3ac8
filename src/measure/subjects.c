#include "measure/subjects.h"

#include <math.h>
#include <string.h>

#include "base/try.h"
#include "base/vector.h"

braid_status braid_subjects_init(braid_subjects *subjects, const braid_allocator *allocator) {
  *subjects = (braid_subjects){.allocator = allocator};
  return braid_arena_create(allocator, &subjects->arena);
}

void braid_subjects_deinit(braid_subjects *subjects) {
  for (size_t i = 0; i < subjects->graph_count; i++) braid_graph_destroy(subjects->graphs[i]);
  braid_free(subjects->allocator, subjects->graphs);
  braid_free(subjects->allocator, subjects->items);
  braid_arena_destroy(subjects->arena);
  *subjects = (braid_subjects){0};
}

static bool is_there(const braid_subjects *subjects, const char *key) {
  for (size_t i = 0; i < subjects->count; i++)
    if (strcmp(subjects->items[i].key, key) == 0) return true;
  return false;
}

static braid_status copy_shapes(braid_subjects *subjects, const braid_graph *graph, const braid_node *node,
                                const char **out) {
  enum { kMost = 300 };
  braid_text text;
  braid_text_init(&text, subjects->allocator);
  braid_subject_shapes(graph, node, &text);
  *out = text.failed ? NULL : braid_arena_text(subjects->arena, text.data, text.length < kMost ? text.length : kMost);
  braid_text_deinit(&text);
  return *out ? BRAID_OK : BRAID_NO_MEMORY;
}

braid_status braid_subjects_add(braid_subjects *subjects, const braid_graph *graph, braid_node_id id,
                                const char *size) {
  const braid_node *node = &graph->nodes[id];
  braid_subject made = {.graph = graph,
                        .node = id,
                        .size = size,
                        .bytes = braid_subject_bytes(graph, node),
                        .macs = (double)braid_graph_node_macs(graph, id),
                        .training = braid_subject_is_training(graph)};
  BRAID_TRY(braid_subject_key(graph, node, made.training, made.key));
  if (is_there(subjects, made.key)) return BRAID_OK;
  made.op = braid_arena_text(subjects->arena, node->op->name, strlen(node->op->name));
  if (!made.op) return BRAID_NO_MEMORY;
  BRAID_TRY(copy_shapes(subjects, graph, node, &made.shapes));
  braid_subject *items =
      braid_grow(subjects->allocator, subjects->items, subjects->count, &subjects->capacity, sizeof *items);
  if (!items) return BRAID_NO_MEMORY;
  subjects->items = items;
  items[subjects->count++] = made;
  return BRAID_OK;
}

braid_status braid_subjects_add_graph(braid_subjects *subjects, const braid_graph *graph) {
  for (size_t n = 0; n < graph->node_count; n++)
    if (!braid_subject_is_view(graph, &graph->nodes[n]))
      BRAID_TRY(braid_subjects_add(subjects, graph, (braid_node_id)n, NULL));
  return BRAID_OK;
}

/* --- a node alone --------------------------------------------------------------------------------------------------
 */
static braid_status add_operand(const braid_value *value, braid_graph *out, braid_value_id *id) {
  switch (value->kind) {
  case BRAID_VALUE_CONSTANT:
  case BRAID_VALUE_PARAMETER:
  case BRAID_VALUE_STATE:
    return braid_graph_add_tensor(out, NULL, value->kind, value->tensor, id);
  case BRAID_VALUE_RESULT:
  case BRAID_VALUE_INPUT:
    break;
  }
  return braid_graph_add_input(out, NULL, &value->desc, id);
}

static braid_status add_operands(const braid_graph *graph, const braid_node *node, braid_graph *out,
                                 braid_value_id *ids) {
  for (size_t i = 0; i < node->input_count; i++) {
    size_t same = 0;
    while (same < i && node->inputs[same] != node->inputs[i]) same++;
    ids[i] = same < i ? ids[same] : -1;
    if (node->inputs[i] < 0 || same < i) continue;
    BRAID_TRY(add_operand(&graph->values[node->inputs[i]], out, &ids[i]));
  }
  return BRAID_OK;
}

/* A result that a weight becomes is written over it, as in the whole graph; the others are outputs. */
static braid_status add_result(const braid_graph *graph, const braid_node *node, size_t index, braid_graph *out,
                               const braid_value_id *inputs, braid_value_id result) {
  for (size_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] < 0) continue;
    const braid_value *value = &graph->values[node->inputs[i]];
    bool kept = value->kind == BRAID_VALUE_PARAMETER || value->kind == BRAID_VALUE_STATE;
    if (kept && value->next == node->outputs[index]) return braid_graph_update_state(out, inputs[i], result);
  }
  return braid_graph_add_output(out, result);
}

static braid_status extract_node(const braid_subject *subject, braid_graph *out, braid_value_id *ids) {
  const braid_graph *graph = subject->graph;
  const braid_node *node = &graph->nodes[subject->node];
  braid_value_id *results = ids + node->input_count;
  braid_node_id id;
  BRAID_TRY(braid_graph_share_ops(out, graph));
  BRAID_TRY(add_operands(graph, node, out, ids));
  for (size_t i = 0; i < node->output_count; i++) results[i] = node->outputs[i] < 0 ? -1 : 0;
  BRAID_TRY(braid_graph_add_node(out, node->op->name, node->op->name, ids, node->input_count, results,
                                 node->output_count, &id));
  for (size_t i = 0; i < node->attrs.count; i++) BRAID_TRY(braid_attrs_copy(out, id, &node->attrs.items[i]));
  BRAID_TRY(braid_graph_infer_node(out, id));
  for (size_t i = 0; i < node->output_count; i++)
    if (results[i] >= 0) BRAID_TRY(add_result(graph, node, i, out, ids, results[i]));
  return BRAID_OK;
}

braid_status braid_subject_extract(const braid_subject *subject, braid_graph **out) {
  const braid_allocator *allocator = subject->graph->allocator;
  const braid_node *node = &subject->graph->nodes[subject->node];
  *out = NULL;
  braid_value_id *ids = braid_zalloc_array(allocator, node->input_count + node->output_count + 1, sizeof *ids);
  if (!ids) return BRAID_NO_MEMORY;
  braid_graph *made;
  braid_status status = braid_graph_create(allocator, "subject", &made);
  if (status == BRAID_OK) status = extract_node(subject, made, ids);
  if (status == BRAID_OK)
    *out = made;
  else
    braid_graph_destroy(made);
  braid_free(allocator, ids);
  return status;
}
