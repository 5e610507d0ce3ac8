/* Where nodes run: the first device that has a kernel, or the one asked for by name. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/try.h"
#include "runtime/plan.h"

enum { kWhyBytes = 1024 };

/* Entry "pattern=device" of the list that matches `name`: its device, or -1; NOT_FOUND for a device that is not open.
 */
static braid_status find_by_hand(const braid_plan *plan, const char *patterns, const char *name, int *out) {
  *out = -1;
  while (patterns && *patterns) {
    patterns += strspn(patterns, " ,");
    size_t length = strcspn(patterns, " ,");
    if (!length) break;
    char entry[256];
    if (length >= sizeof entry) return braid_fail(BRAID_INVALID_ARGUMENT, "place: \"%.60s...\" is too long", patterns);
    memcpy(entry, patterns, length);
    entry[length] = '\0';
    patterns += length;
    char *equals = strrchr(entry, '=');
    if (!equals || equals == entry)
      return braid_fail(BRAID_INVALID_ARGUMENT, "place: \"%s\", expected pattern=device", entry);
    *equals = '\0';
    int64_t number = -1;
    if (!braid_parse_i64(equals + 1, &number)) number = -1;
    int device = number >= 0 && (size_t)number < plan->device_count ? (int)number : -1;
    for (size_t i = 0; device < 0 && i < plan->device_count; i++)
      if (strcmp(plan->devices[i].label, equals + 1) == 0) device = (int)i;
    if (device < 0) return braid_fail(BRAID_NOT_FOUND, "place: %s is not among the session's devices", equals + 1);
    if (fnmatch(entry, name, 0) == 0) {
      *out = device;
      return BRAID_OK;
    }
  }
  return BRAID_OK;
}

static braid_operand operand_of(const braid_plan *plan, braid_value_id id) {
  if (id < 0) return (braid_operand){0};
  const braid_value *value = &plan->graph->values[id];
  bool constant = braid_plan_is_constant(plan, id);
  return (braid_operand){true, value->desc, constant ? braid_tensor_const_data(value->tensor) : NULL};
}

/* Tries the devices in order, the one asked for alone if there is one. Reasons of those passed over go to `why`. */
static braid_status choose(const braid_plan *plan, const braid_node_desc *desc, int by_hand, char *why,
                           braid_placement *out) {
  size_t used = 0;
  why[0] = '\0';
  for (size_t i = 0; i < plan->device_count; i++) {
    if (by_hand >= 0 && (size_t)by_hand != i) continue;
    char reason[kWhyBytes / 2];
    const braid_kernel *kernel = braid_device_find_kernel(plan->devices[i].device, desc, reason, sizeof reason);
    if (reason[0] && used < kWhyBytes) {
      int wrote = plan->device_count > 1 ? snprintf(why + used, kWhyBytes - used, "%s%s: %s", used ? "; " : "",
                                                    plan->devices[i].label, reason)
                                         : snprintf(why + used, kWhyBytes - used, "%s", reason);
      if (wrote > 0) used += (size_t)wrote;
    }
    if (!kernel) continue;
    *out = (braid_placement){.device = (int)i, .kernel = kernel};
    return BRAID_OK;
  }
  return braid_fail(BRAID_UNSUPPORTED, "node %.120s (%s): no device can run it: %.600s", desc->name, desc->op, why);
}

static braid_status place_node(braid_plan *plan, const braid_node *node, const char *patterns, braid_operand *operands,
                               braid_placement *out) {
  for (size_t i = 0; i < node->input_count; i++) operands[i] = operand_of(plan, node->inputs[i]);
  braid_operand *results = operands + node->input_count;
  for (size_t i = 0; i < node->output_count; i++) results[i] = operand_of(plan, node->outputs[i]);
  braid_node_desc desc = {.op = node->op->name,
                          .name = node->name,
                          .attrs = &node->attrs,
                          .input_count = node->input_count,
                          .output_count = node->output_count,
                          .inputs = operands,
                          .outputs = results,
                          .training = plan->training};
  int by_hand;
  BRAID_TRY(find_by_hand(plan, patterns, node->name, &by_hand));
  char why[kWhyBytes];
  BRAID_TRY(choose(plan, &desc, by_hand, why, out));
  out->why = why[0] ? braid_arena_text(plan->arena, why, strlen(why)) : "";
  return out->why ? BRAID_OK : BRAID_NO_MEMORY;
}

braid_status braid_plan_place(braid_plan *plan, const char *patterns) {
  const braid_graph *graph = plan->graph;
  size_t most = 1;
  for (size_t i = 0; i < graph->node_count; i++) {
    size_t operands = graph->nodes[i].input_count + graph->nodes[i].output_count;
    if (operands > most) most = operands;
  }
  braid_operand *operands = braid_zalloc_array(plan->allocator, most, sizeof *operands);
  braid_status status = operands ? BRAID_OK : BRAID_NO_MEMORY;
  for (size_t i = 0; status == BRAID_OK && i < graph->node_count; i++) {
    plan->places[i] = (braid_placement){.device = -1, .why = ""};
    if (!plan->views[i]) status = place_node(plan, &graph->nodes[i], patterns, operands, &plan->places[i]);
  }
  braid_free(plan->allocator, operands);
  return status;
}
