/* Where nodes run: the first device that has a kernel, the one asked for by name, or (balance.c) where they end
 * soonest. */
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/detail.h"
#include "base/try.h"
#include "graph/custom.h"
#include "runtime/patterns.h"
#include "tensor/deferred.h"

enum { kWhyBytes = 1024 };

static braid_operand operand_of(const braid_plan *plan, braid_value_id id) {
  if (id < 0) return (braid_operand){0};
  const braid_value *value = &plan->graph->values[id];
  bool constant = braid_plan_is_constant(plan, id);
  return (braid_operand){true, value->desc, constant ? braid_tensor_preview(value->tensor) : NULL};
}

/* Asks the devices in order, the one asked for alone if there is one, and lists each one's kernel in `candidates`; all
 * of them, or only up to the first that has one. Reasons of those passed over go to `why`. */
static braid_status ask(const braid_plan *plan, const braid_node_desc *desc, int by_hand, bool all, char *why,
                        const braid_kernel **candidates) {
  size_t used = 0, found = 0;
  why[0] = '\0';
  for (size_t i = 0; i < plan->device_count && (all || !found); i++) {
    candidates[i] = NULL;
    if (by_hand >= 0 && (size_t)by_hand != i) continue;
    char reason[kWhyBytes / 2];
    candidates[i] = braid_machine_find_kernel(plan->machine, (int)i, desc, reason, sizeof reason);
    if (candidates[i]) found++;
    if (reason[0] && used < kWhyBytes) {
      int wrote = plan->device_count > 1 ? snprintf(why + used, kWhyBytes - used, "%s%s: %s", used ? "; " : "",
                                                    plan->devices[i].label, reason)
                                         : snprintf(why + used, kWhyBytes - used, "%s", reason);
      if (wrote > 0) used += (size_t)wrote;
    }
  }
  if (found) return BRAID_OK;
  return braid_fail(BRAID_UNSUPPORTED, "node %.120s (%s): no device can run it: %.600s", desc->name, desc->op, why);
}

typedef struct placing {
  braid_plan *plan;
  const braid_graph *given;
  bool loose; /* patterns may match nothing */
  braid_patterns patterns;
  braid_operand *operands;         /* for the node with the most */
  const braid_kernel **candidates; /* node x device */
} placing;

static braid_status place_node(placing *p, size_t id) {
  braid_plan *plan = p->plan;
  const braid_node *node = &plan->graph->nodes[id];
  for (size_t i = 0; i < node->input_count; i++) p->operands[i] = operand_of(plan, node->inputs[i]);
  braid_operand *results = p->operands + node->input_count;
  for (size_t i = 0; i < node->output_count; i++) results[i] = operand_of(plan, node->outputs[i]);
  braid_node_desc desc = {.op = node->op->name,
                          .name = node->name,
                          .custom = braid_custom_op_of(node->op),
                          .attrs = &node->attrs,
                          .input_count = node->input_count,
                          .output_count = node->output_count,
                          .inputs = p->operands,
                          .outputs = results,
                          .training = plan->training};
  int by_hand = braid_patterns_find(plan, &p->patterns, node);
  char why[kWhyBytes];
  const braid_kernel **candidates = p->candidates + id * plan->device_count;
  BRAID_TRY(ask(plan, &desc, by_hand, p->patterns.balanced, why, candidates));
  braid_placement *out = &plan->places[id];
  for (size_t i = 0; i < plan->device_count && out->device < 0; i++)
    if (candidates[i]) *out = (braid_placement){.device = (int)i, .kernel = candidates[i], .why = ""};
  if (why[0]) out->why = braid_arena_text(plan->arena, why, strlen(why));
  return out->why ? BRAID_OK : BRAID_NO_MEMORY;
}

static braid_status place_all(placing *p) {
  const braid_graph *graph = p->plan->graph;
  for (size_t i = 0; i < graph->node_count; i++) {
    p->plan->places[i] = (braid_placement){.device = -1, .why = ""};
    if (!p->plan->views[i]) BRAID_TRY(place_node(p, i));
  }
  if (!p->loose) BRAID_TRY(braid_patterns_check(&p->patterns, p->given));
  return p->patterns.balanced ? braid_plan_balance(p->plan, (const braid_kernel *const *)p->candidates) : BRAID_OK;
}

braid_status braid_plan_place(braid_plan *plan, const braid_graph *given, const braid_plan_options *options) {
  const braid_graph *graph = plan->graph;
  size_t most = 1, cells;
  for (size_t i = 0; i < graph->node_count; i++) {
    size_t operands = graph->nodes[i].input_count + graph->nodes[i].output_count;
    if (operands > most) most = operands;
  }
  if (!braid_mul_size(graph->node_count + 1, plan->device_count, &cells)) {
    (void)braid_refuse_memory(graph->node_count + 1, plan->device_count);
    return BRAID_NO_MEMORY;
  }
  placing p = {.plan = plan, .given = given, .loose = options->loose_place};
  BRAID_TRY(braid_patterns_parse(plan, options->place, &p.patterns));
  p.operands = braid_zalloc_array(plan->allocator, most, sizeof *p.operands);
  p.candidates = braid_zalloc_array(plan->allocator, cells, sizeof *p.candidates);
  braid_status status = p.operands && p.candidates ? place_all(&p) : BRAID_NO_MEMORY;
  braid_free(plan->allocator, p.operands);
  braid_free(plan->allocator, p.candidates);
  return status;
}
