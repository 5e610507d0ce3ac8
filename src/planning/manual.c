/* Nodes that are placed by hand: the list of braid_forecast_options.place, for the devices of a modelled machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/patterns.h"
#include "base/try.h"
#include "planning/problem.h"

static braid_status list_devices(const braid_problem *problem, braid_arena *arena, const char ***out) {
  const char **names = *out = braid_arena_alloc(arena, (problem->device_count + 1) * sizeof *names);
  if (!names) return BRAID_NO_MEMORY;
  for (size_t d = 0; d < problem->device_count; d++) names[d] = problem->devices[d].name;
  return BRAID_OK;
}

static braid_status list_nodes(const braid_problem *problem, braid_arena *arena, const char ***out) {
  const char **names = *out = braid_arena_alloc(arena, (problem->node_count + 1) * sizeof *names);
  if (!names) return BRAID_NO_MEMORY;
  for (size_t n = 0; n < problem->node_count; n++) names[n] = problem->nodes[n].name;
  return BRAID_OK;
}

static bool covers(const braid_offer *offer, size_t node) {
  for (size_t i = 0; i < offer->node_count; i++)
    if (offer->nodes[i] == (int32_t)node) return true;
  return false;
}

/* Has every node an offer of the device that it is sent to? */
static braid_status check_able(const braid_problem *problem, const braid_allocator *allocator) {
  bool *able = braid_zalloc_array(allocator, problem->node_count + 1, sizeof *able);
  if (!able) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < problem->offer_count; i++)
    for (size_t k = 0; k < problem->offers[i].node_count; k++) {
      int32_t node = problem->offers[i].nodes[k];
      able[node] |= problem->nodes[node].fixed == problem->offers[i].device;
    }
  braid_status status = BRAID_OK;
  for (size_t n = 0; n < problem->node_count && status == BRAID_OK; n++) {
    const braid_problem_node *node = &problem->nodes[n];
    if (node->idle || node->fixed < 0 || able[n]) continue;
    const char *other = "no device";
    for (size_t i = problem->offer_count; i-- > 0;)
      if (covers(&problem->offers[i], n)) other = problem->devices[problem->offers[i].device].name;
    status = braid_fail(
        BRAID_UNSUPPORTED,
        "place: node %.120s can't run on %.60s, which is of another replica, has no rows for it or too little "
        "memory; %.60s can run it",
        node->name, problem->devices[node->fixed].name, other);
  }
  braid_free(allocator, able);
  return status;
}

enum { kShown = 3 }; /* of what a sentence names */

/* Patterns that place nothing: those before them place all that they match, or it does not run. */
static const char *describe_idle_patterns(const braid_patterns *patterns, const bool *places, braid_arena *arena) {
  size_t idle = 0, used = 0;
  char names[512] = "";
  for (size_t i = 0; i < patterns->count; i++) {
    if (places[i]) continue;
    if (idle++ < kShown && used < sizeof names)
      used += (size_t)snprintf(names + used, sizeof names - used, "%s\"%.120s\"", idle > 1 ? ", " : "",
                               patterns->items[i].text);
  }
  if (!idle) return "";
  char more[48] = "";
  if (idle > kShown) snprintf(more, sizeof more, " and %zu more", idle - kShown);
  return braid_arena_format(arena,
                            " %s%s place%s nothing: what matches is placed by patterns before, or is no operation that "
                            "runs.",
                            names, more, idle == 1 ? "s" : "");
}

/* How much is placed, what is not, and patterns that place nothing. */
static const char *describe_places(const braid_problem *problem, const braid_patterns *patterns, const bool *places,
                                   braid_arena *arena) {
  size_t placed = 0, left = 0, used = 0;
  char names[512] = "";
  for (size_t n = 0; n < problem->node_count; n++) {
    const braid_problem_node *node = &problem->nodes[n];
    if (node->idle) continue;
    placed += node->fixed >= 0;
    if (node->fixed >= 0) continue;
    if (left++ < kShown && used < sizeof names)
      used += (size_t)snprintf(names + used, sizeof names - used, "%s%.120s", left > 1 ? ", " : "", node->name);
  }
  const char *text = braid_arena_format(arena, "Placed by hand: %zu of %zu operations", placed, placed + left);
  if (text && left) text = braid_arena_format(arena, "%s; the policy places the others: %s", text, names);
  if (text && left > kShown) text = braid_arena_format(arena, "%s and %zu more", text, left - kShown);
  const char *idle = describe_idle_patterns(patterns, places, arena);
  return text && idle ? braid_arena_format(arena, "%s.%s", text, idle) : NULL;
}

braid_status braid_modelled_problem_place(const braid_modelled_problem *modelled, const char *list,
                                          const braid_allocator *allocator, braid_arena *arena, const char **note) {
  const braid_problem *problem = &modelled->problem;
  braid_problem_node *nodes = (braid_problem_node *)problem->nodes; /* in our arena */
  const char **devices, **names;
  braid_patterns patterns;
  BRAID_TRY(list_devices(problem, arena, &devices));
  BRAID_TRY(list_nodes(problem, arena, &names));
  BRAID_TRY(braid_patterns_parse(list, devices, problem->device_count, "platform's", arena, &patterns));
  if (patterns.balanced || patterns.ordered)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "place: \"auto\" and \"ordered\" are of runs; in a forecast the policy places what the list "
                      "does not, and orders all");
  bool *places = braid_arena_alloc(arena, patterns.count + 1);
  if (!places) return BRAID_NO_MEMORY;
  for (size_t n = 0; n < problem->node_count; n++) {
    if (nodes[n].idle) continue;
    size_t first = braid_patterns_first(&patterns, nodes[n].name);
    if (first == patterns.count) continue;
    nodes[n].fixed = patterns.items[first].device;
    places[first] = true;
  }
  BRAID_TRY(braid_patterns_check(&patterns, NULL, names, problem->node_count));
  BRAID_TRY(check_able(problem, allocator));
  *note = describe_places(problem, &patterns, places, arena);
  return *note ? BRAID_OK : BRAID_NO_MEMORY;
}
