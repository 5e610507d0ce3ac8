#include "claim.h"

#include <string.h>

#include "probe.h"
#include "try.h"

static braid_status claim_take(braid_ort_view *view, size_t count, size_t size, void *out) {
  void *memory = braid_ort_arena_take(&view->arena, count, size);
  if (!memory) return braid_fail(BRAID_NO_MEMORY, "there is no memory to claim nodes");
  memcpy(out, &memory, sizeof memory);
  return BRAID_OK;
}

/* --- what is known of values before a run --- */

static void class_inputs(const braid_ort_view *view, braid_ort_class *classes) {
  for (size_t i = 0; i < view->value_count; i++) {
    const braid_ort_value *value = &view->values[i];
    if (value->data)
      classes[i] = BRAID_ORT_SHAPED;
    else if (value->input && !view->inner &&
             braid_ort_may_be_given(braid_ort_dtype(value->type), value->rank, value->dims))
      classes[i] = BRAID_ORT_GIVEN;
  }
}

/* The contents of Shape's and Size's results follow from shapes, those of others from what they read. */
static void class_outputs(const braid_ort_view *view, const braid_ort_node *node, braid_ort_class *classes) {
  bool shape = strcmp(node->op, "Shape") == 0 || strcmp(node->op, "Size") == 0;
  braid_ort_class result = BRAID_ORT_SHAPED;
  if (node->graph_count) result = BRAID_ORT_DATA;
  for (size_t i = 0; i < node->input_count && !shape && result != BRAID_ORT_DATA; i++) {
    if (node->inputs[i] < 0) continue;
    braid_ort_class input = classes[node->inputs[i]];
    if (input != BRAID_ORT_SHAPED) result = input;
  }
  for (size_t i = 0; i < node->output_count; i++)
    if (node->outputs[i] >= 0) classes[node->outputs[i]] = result;
  (void)view;
}

/* --- reasons --- */

static braid_status reason_add(braid_ort_view *view, braid_ort_claim *claim, const braid_ort_node *node) {
  for (size_t i = 0; i < claim->reason_count; i++) {
    braid_ort_reason *reason = &claim->reasons[i];
    if (strcmp(reason->op, node->op) != 0 || strcmp(reason->domain, node->domain) != 0) continue;
    reason->count++;
    return BRAID_OK;
  }
  const char *detail = braid_error_detail();
  char *text = NULL;
  TRY(claim_take(view, strlen(detail) + 1, 1, &text));
  memcpy(text, detail, strlen(detail) + 1);
  claim->reasons[claim->reason_count++] = (braid_ort_reason){node->op, node->domain, text, 1};
  return BRAID_OK;
}

/* --- groups ---
 * The level of a node is the number of times that a path to it goes from a claimed node to one of the framework.
 * Claimed nodes of a level are a group: what leaves the group for a node of the framework comes back on a higher level,
 * so no path leaves it and comes back. */

static int level_of(const braid_ort_view *view, const int *levels, const bool *ours, size_t index) {
  const braid_ort_node *node = &view->nodes[index];
  int level = 0;
  for (size_t i = 0; i < node->input_count + node->implicit_count; i++) {
    int producer = node->inputs[i] < 0 ? -1 : view->values[node->inputs[i]].producer;
    if (producer < 0) continue;
    int from = levels[producer] + (ours[producer] && !ours[index] ? 1 : 0);
    if (from > level) level = from;
  }
  return level;
}

/* Moves nodes that compute shapes to the level of those that need them, so that what they compute stays within a
 * group. `next[i]`: the lowest level of the nodes that read node i. */
static void levels_raise(const braid_ort_view *view, const braid_ort_class *classes, const bool *ours, int *levels,
                         int *next) {
  enum { NOBODY = 1 << 30 };
  for (size_t i = 0; i < view->node_count; i++) next[i] = NOBODY;
  for (size_t i = view->node_count; i-- > 0;) {
    const braid_ort_node *node = &view->nodes[i];
    bool movable = ours[i] && next[i] != NOBODY;
    for (size_t k = 0; k < node->output_count && movable; k++)
      movable = node->outputs[k] < 0 ||
                (!view->values[node->outputs[k]].output && classes[node->outputs[k]] != BRAID_ORT_DATA);
    if (movable && next[i] > levels[i]) levels[i] = next[i];
    for (size_t k = 0; k < node->input_count + node->implicit_count; k++) {
      int producer = node->inputs[k] < 0 ? -1 : view->values[node->inputs[k]].producer;
      if (producer < 0) continue;
      int level = ours[i] ? levels[i] : 0; /* a node of the framework holds it where it is */
      if (level < next[producer]) next[producer] = level;
    }
  }
}

static braid_status claim_group(braid_ort_view *view, const braid_ort_class *classes, const bool *ours, size_t least,
                                braid_ort_claim *claim) {
  int *levels = NULL, *next = NULL, *count = NULL, *numbers = NULL;
  TRY(claim_take(view, view->node_count, sizeof *levels, &levels));
  TRY(claim_take(view, view->node_count, sizeof *next, &next));
  TRY(claim_take(view, view->node_count + 1, sizeof *count, &count));
  TRY(claim_take(view, view->node_count + 1, sizeof *numbers, &numbers));
  for (size_t i = 0; i < view->node_count; i++) levels[i] = level_of(view, levels, ours, i);
  levels_raise(view, classes, ours, levels, next);
  for (size_t i = 0; i < view->node_count; i++)
    if (ours[i]) count[levels[i]]++;
  for (size_t i = 0; i <= view->node_count; i++) numbers[i] = -1;
  for (size_t i = 0; i < view->node_count; i++) {
    claim->group[i] = -1;
    if (!ours[i] || (size_t)count[levels[i]] < least) continue;
    if (numbers[levels[i]] < 0) numbers[levels[i]] = (int)claim->group_count++;
    claim->group[i] = numbers[levels[i]];
  }
  return BRAID_OK;
}

braid_status braid_ort_claim_nodes(braid_ort_view *view, braid_machine *machine, const braid_plan_options *options,
                                   size_t least, braid_ort_claim *claim) {
  braid_ort_class *classes = NULL;
  bool *ours = NULL;
  *claim = (braid_ort_claim){0};
  TRY(claim_take(view, view->node_count, sizeof *claim->group, &claim->group));
  TRY(claim_take(view, view->node_count, sizeof *claim->reasons, &claim->reasons));
  TRY(claim_take(view, view->node_count, sizeof *ours, &ours));
  TRY(claim_take(view, view->value_count, sizeof *classes, &classes));
  class_inputs(view, classes);
  for (size_t i = 0; i < view->node_count; i++) {
    const braid_ort_node *node = &view->nodes[i];
    class_outputs(view, node, classes);
    if (node->assigned) continue;
    braid_status status = braid_ort_probe_node(view, (int)i, classes, machine, options);
    if (status == BRAID_NO_MEMORY || status == BRAID_DEVICE_LOST) return status;
    ours[i] = status == BRAID_OK;
    if (!ours[i] && !node->graph_count) TRY(reason_add(view, claim, node));
  }
  return claim_group(view, classes, ours, least, claim);
}
