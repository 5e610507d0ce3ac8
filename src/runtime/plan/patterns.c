#include "runtime/plan/patterns.h"

#include "base/try.h"

braid_status braid_plan_patterns_parse(const braid_plan *plan, const char *list, braid_patterns *out) {
  const char **labels = braid_arena_alloc(plan->arena, (plan->device_count + 1) * sizeof *labels);
  if (!labels) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < plan->device_count; i++) labels[i] = plan->devices[i].label;
  return braid_patterns_parse(list, labels, plan->device_count, "session's", plan->arena, out);
}

int braid_plan_patterns_find(const braid_plan *plan, braid_patterns *patterns, const braid_node *node) {
  size_t first = braid_patterns_first(patterns, node->name);
  for (const braid_alias *alias = node->absorbed; alias; alias = alias->next) {
    size_t of_alias = braid_patterns_first(patterns, alias->name);
    if (of_alias == patterns->count) continue;
    if (first < patterns->count && patterns->items[first].device != patterns->items[of_alias].device)
      braid_log_write(plan->machine->log, BRAID_LOG_WARNING,
                      "place: %.120s was fused into %.120s and runs with it, on %s; without fusion they can be apart",
                      alias->name, node->name,
                      plan->devices[patterns->items[of_alias < first ? of_alias : first].device].label);
    if (of_alias < first) first = of_alias;
  }
  return first < patterns->count ? patterns->items[first].device : -1;
}

size_t braid_plan_patterns_rank(braid_patterns *patterns, const braid_node *node) {
  size_t first = braid_patterns_first(patterns, node->name);
  for (const braid_alias *alias = node->absorbed; alias; alias = alias->next) {
    size_t of_alias = braid_patterns_first(patterns, alias->name);
    if (of_alias < first) first = of_alias;
  }
  return first;
}

braid_status braid_plan_patterns_check(const braid_patterns *patterns, const braid_log *log, const braid_graph *given,
                                       braid_arena *arena) {
  const char **names = braid_arena_alloc(arena, (given->node_count + 1) * sizeof *names);
  if (!names) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < given->node_count; i++) names[i] = given->nodes[i].name;
  return braid_patterns_check(patterns, log, names, given->node_count);
}
