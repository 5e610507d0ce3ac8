#include "schedule/problem.h"

#include <math.h>
#include <string.h>

#include "base/try.h"

const braid_problem_link *braid_problem_link_between(const braid_problem *problem, int from_space, int to_space) {
  return &problem->links[problem->spaces[from_space].kind * problem->kind_count + problem->spaces[to_space].kind];
}

double braid_problem_moving(const braid_problem *problem, int32_t value, int from_space, int to_space) {
  if (from_space == to_space) return 0;
  const braid_problem_link *link = braid_problem_link_between(problem, from_space, to_space);
  return link->seconds + (double)problem->values[value].bytes / link->bytes_per_second;
}

double braid_offer_idle_watts(const braid_problem *problem, const braid_offer *offer) {
  double sum = problem->devices[offer->device].idle_watts.value;
  for (size_t i = 0; i < offer->also_count; i++) sum += problem->devices[offer->also[i]].idle_watts.value;
  return sum;
}

bool braid_offer_allowed(const braid_problem *problem, const braid_offer *offer) {
  for (size_t i = 0; i < offer->node_count; i++) {
    int fixed = problem->nodes[offer->nodes[i]].fixed;
    if (fixed >= 0 && fixed != offer->device) return false;
  }
  return true;
}

bool braid_problem_is_convex(const braid_problem *problem, const int32_t *nodes, size_t count, const bool *in_set,
                             bool *taint, int32_t *outside) {
  int32_t first = nodes[0], last = nodes[count - 1];
  memset(taint + first, 0, (size_t)(last - first + 1) * sizeof *taint);
  *outside = -1;
  for (int32_t n = first; n <= last; n++) {
    const braid_problem_node *node = &problem->nodes[n];
    for (size_t i = 0; i < node->read_count; i++) {
      int32_t before = problem->values[problem->reads[node->first_read + i]].producer;
      if (before < first) continue;
      if (in_set[n] && taint[before]) {
        *outside = before;
        return false;
      }
      taint[n] |= !in_set[n] && (in_set[before] || taint[before]);
    }
  }
  return true;
}

static bool is_number(const braid_number *number) {
  if (number->source == BRAID_UNKNOWN) return number->value == 0;
  return isfinite(number->value) && number->value >= 0;
}

static braid_status check_nodes(const braid_problem *problem) {
  for (size_t n = 0; n < problem->node_count; n++) {
    const braid_problem_node *node = &problem->nodes[n];
    if (node->fixed < -1 || node->fixed >= (int)problem->device_count || (node->idle && node->read_count))
      return braid_fail(BRAID_INVALID_ARGUMENT, "node %.120s is fixed to no device, or is idle and reads", node->name);
    for (size_t i = 0; i < node->read_count; i++) {
      int32_t value = problem->reads[node->first_read + i];
      if (value < 0 || (size_t)value >= problem->value_count || problem->values[value].producer >= (int32_t)n)
        return braid_fail(BRAID_INVALID_ARGUMENT, "node %.120s reads what is computed after it", node->name);
    }
  }
  return BRAID_OK;
}

static braid_status check_offer(const braid_problem *problem, size_t index, bool *in_set, bool *taint) {
  const braid_offer *offer = &problem->offers[index];
  if (offer->device < 0 || (size_t)offer->device >= problem->device_count || !offer->node_count)
    return braid_fail(BRAID_INVALID_ARGUMENT, "offer %zu has no device or no nodes", index);
  const char *device = problem->devices[offer->device].name;
  for (size_t i = 0; i < offer->also_count; i++)
    if (offer->also[i] < 0 || (size_t)offer->also[i] >= problem->device_count || offer->also[i] == offer->device ||
        (i && offer->also[i] <= offer->also[i - 1]))
      return braid_fail(BRAID_INVALID_ARGUMENT, "offer %zu of %s: it occupies a device that does not exist, or twice",
                        index, device);
  if (!is_number(&offer->seconds) || !is_number(&offer->joules) || !is_number(&offer->watts) ||
      !is_number(&offer->bytes_per_second) || !is_number(&offer->instructions_per_cycle))
    return braid_fail(BRAID_INVALID_ARGUMENT, "offer %zu of %s: a number is negative, or unknown and not 0", index,
                      device);
  for (size_t i = 0; i < offer->node_count; i++) {
    int32_t node = offer->nodes[i];
    if (node < 0 || (size_t)node >= problem->node_count || problem->nodes[node].idle)
      return braid_fail(BRAID_INVALID_ARGUMENT, "offer %zu of %s: node %d does not exist, or is idle", index, device,
                        node);
    if (i && node <= offer->nodes[i - 1])
      return braid_fail(BRAID_INVALID_ARGUMENT, "offer %zu of %s: node %.120s comes twice or out of order", index,
                        device, problem->nodes[node].name);
  }
  if (offer->node_count == 1) return BRAID_OK;
  for (size_t i = 0; i < offer->node_count; i++) in_set[offer->nodes[i]] = true;
  int32_t outside;
  bool convex = braid_problem_is_convex(problem, offer->nodes, offer->node_count, in_set, taint, &outside);
  for (size_t i = 0; i < offer->node_count; i++) in_set[offer->nodes[i]] = false;
  if (convex) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT,
                    "offer %zu of %s: node %.120s lies between its nodes and is not one of them", index, device,
                    problem->nodes[outside].name);
}

/* Links of a kind to itself are used if there are two spaces of it. */
static braid_status check_spaces(const braid_problem *problem) {
  for (int i = 0; i < problem->space_count; i++) {
    const braid_problem_space *space = &problem->spaces[i];
    if (space->kind < 0 || space->kind >= problem->kind_count || space->out_bus >= problem->bus_count ||
        space->in_bus >= problem->bus_count)
      return braid_fail(BRAID_INVALID_ARGUMENT, "space %d has a kind or a bus that does not exist", i);
  }
  for (int a = 0; a < problem->kind_count; a++)
    for (int b = 0; b < problem->kind_count; b++) {
      const braid_problem_link *link = &problem->links[a * problem->kind_count + b];
      bool used = a != b || problem->space_count > problem->kind_count;
      if (used && (!(link->bytes_per_second > 0) || !(link->seconds >= 0)))
        return braid_fail(BRAID_INVALID_ARGUMENT, "the link from spaces of kind %d to %d has no bandwidth", a, b);
    }
  return BRAID_OK;
}

static braid_status check_kept(const braid_problem *problem) {
  for (size_t i = 0; i < problem->kept_count; i++) {
    const braid_problem_kept *kept = &problem->kept[i];
    if (kept->next < -1 || kept->next >= (int32_t)problem->value_count)
      return braid_fail(BRAID_INVALID_ARGUMENT, "%.120s is written over by a value that does not exist", kept->name);
    for (size_t k = 0; k < kept->user_count; k++) {
      int32_t node = problem->users[kept->first_user + k];
      if (node < 0 || (size_t)node >= problem->node_count)
        return braid_fail(BRAID_INVALID_ARGUMENT, "%.120s is used by node %d, which does not exist", kept->name, node);
    }
  }
  return BRAID_OK;
}

braid_status braid_problem_check(const braid_problem *problem, const braid_allocator *allocator) {
  for (size_t d = 0; d < problem->device_count; d++) {
    const braid_problem_device *device = &problem->devices[d];
    if (device->space < 0 || device->space >= problem->space_count)
      return braid_fail(BRAID_INVALID_ARGUMENT, "device %s has an invalid space", device->name);
    if (!is_number(&device->slower_beside) || !is_number(&device->slower_with_traffic))
      return braid_fail(BRAID_INVALID_ARGUMENT, "device %s: a slowdown is negative, or unknown and not 0",
                        device->name);
    if (!is_number(&device->idle_watts) || !is_number(&device->cap_watts) || !(device->clock_seconds >= 0))
      return braid_fail(BRAID_INVALID_ARGUMENT, "device %s: a number is negative, or unknown and not 0", device->name);
  }
  BRAID_TRY(check_spaces(problem));
  BRAID_TRY(check_nodes(problem));
  BRAID_TRY(check_kept(problem));
  bool *marks = braid_zalloc_array(allocator, problem->node_count, 2 * sizeof *marks);
  if (!marks) return BRAID_NO_MEMORY;
  braid_status status = BRAID_OK;
  for (size_t i = 0; status == BRAID_OK && i < problem->offer_count; i++)
    status = check_offer(problem, i, marks, marks + problem->node_count);
  braid_free(allocator, marks);
  return status;
}
