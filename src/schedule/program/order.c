/* What makes a program exact: of two tasks on one device one comes first, and changing its clock between them takes its
 * time. Changes of clocks are whole only between tasks that follow each other directly; waiting for a bus and the
 * change from the clock at which the last run ended are left out: the search asks the simulator for all of it. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "schedule/program/program.h"

static bool occupies(const braid_offer *offer, int device) {
  if (offer->device == device) return true;
  for (size_t i = 0; i < offer->also_count; i++)
    if (offer->also[i] == device) return true;
  return false;
}

static const braid_offer *offer_at(const braid_program *p, size_t column) {
  return &p->problem->offers[p->offers[column]];
}

/* Marks before[m * nodes + n]: n comes before m on some path. */
static void find_ancestors(const braid_problem *problem, bool *before) {
  size_t nodes = problem->node_count;
  for (size_t n = 0; n < nodes; n++)
    for (size_t r = 0; r < problem->nodes[n].read_count; r++) {
      int32_t producer = problem->values[problem->reads[problem->nodes[n].first_read + r]].producer;
      if (producer < 0) continue;
      before[n * nodes + (size_t)producer] = true;
      for (size_t k = 0; k < nodes; k++) before[n * nodes + k] |= before[(size_t)producer * nodes + k];
    }
}

/* The nodes of a set have one start. */
static braid_status add_sets(braid_program *p) {
  size_t row;
  for (size_t c = 0; c < p->offer_count; c++) {
    const braid_offer *offer = offer_at(p, c);
    for (size_t i = 1; i < offer->node_count; i++)
      for (int sign = -1; sign < 2; sign += 2) { /* sign * (start - start of the first) <= 1 - share */
        BRAID_TRY(braid_program_add_row(p, -INFINITY, 1, &row));
        BRAID_TRY(braid_program_add_term(p, row, p->starts + (size_t)offer->nodes[i], sign));
        BRAID_TRY(braid_program_add_term(p, row, p->starts + (size_t)offer->nodes[0], -sign));
        BRAID_TRY(braid_program_add_term(p, row, c, 1));
      }
  }
  return BRAID_OK;
}

/* Adds `value` times the shares of a node's offers on the device that do not cover `other`; `clock` >= 0: at this clock
 * alone, or, if not `equal`, at any other one. */
static braid_status add_on_device(braid_program *p, size_t row, int32_t node, int32_t other, int device, int clock,
                                  bool equal, double value) {
  for (size_t i = p->first_offer[node]; i < p->first_offer[node + 1]; i++) {
    size_t column = (size_t)p->node_offers[i];
    const braid_offer *offer = offer_at(p, column);
    if (!occupies(offer, device) || braid_program_covers(p, column, other)) continue;
    if (clock >= 0 && (offer->clock == clock) != equal) continue;
    BRAID_TRY(braid_program_add_term(p, row, column, value));
  }
  return BRAID_OK;
}

static bool may_occupy(const braid_program *p, int32_t node, int32_t other, int device, int clock) {
  for (size_t i = p->first_offer[node]; i < p->first_offer[node + 1]; i++) {
    size_t column = (size_t)p->node_offers[i];
    if (occupies(offer_at(p, column), device) && !braid_program_covers(p, column, other) &&
        (clock < 0 || offer_at(p, column)->clock == clock))
      return true;
  }
  return false;
}

/* start of `second` >= end of `first`, unless the order's column (SIZE_MAX: it always holds) is 0; and with `device` >=
 * 0 a change of its clock from `clock` to another one between them, if both run there so. */
static braid_status add_after(braid_program *p, int32_t first, int32_t second, size_t order, int device, int clock) {
  size_t row;
  double change = device < 0 ? 0 : p->problem->devices[device].clock_seconds / p->seconds;
  double most = 1 + change; /* no end is later than 1 */
  double lower = -change - (order == SIZE_MAX ? 0 : most);
  BRAID_TRY(braid_program_add_row(p, lower, INFINITY, &row));
  BRAID_TRY(braid_program_add_term(p, row, p->starts + (size_t)second, 1));
  BRAID_TRY(braid_program_add_term(p, row, p->starts + (size_t)first, -1));
  for (size_t i = p->first_offer[first]; i < p->first_offer[first + 1]; i++) {
    size_t column = (size_t)p->node_offers[i];
    if (!braid_program_covers(p, column, second))
      BRAID_TRY(braid_program_add_term(p, row, column, -braid_program_seconds(p, column)));
  }
  if (order != SIZE_MAX) BRAID_TRY(braid_program_add_term(p, row, order, -most));
  if (device < 0) return BRAID_OK;
  BRAID_TRY(add_on_device(p, row, first, second, device, clock, true, -change));
  return add_on_device(p, row, second, first, device, clock, false, -change);
}

/* The same for all changes of clocks that there may be between the two. */
static braid_status add_changes(braid_program *p, int32_t first, int32_t second, size_t order) {
  for (size_t d = 0; d < p->problem->device_count; d++) {
    int clocks[BRAID_PROGRAM_GROUPS], count = 0;
    if (p->problem->devices[d].clock_seconds <= 0 || !may_occupy(p, second, first, (int)d, -1)) continue;
    for (size_t i = p->first_offer[first]; i < p->first_offer[first + 1]; i++) {
      int clock = offer_at(p, (size_t)p->node_offers[i])->clock, k = 0;
      if (!may_occupy(p, first, second, (int)d, clock)) continue;
      while (k < count && clocks[k] != clock) k++;
      if (k < count || count == BRAID_PROGRAM_GROUPS) continue;
      clocks[count++] = clock;
      BRAID_TRY(add_after(p, first, second, order, (int)d, clock));
    }
  }
  return BRAID_OK;
}

/* Two columns for the two orders of a pair: one of them is 1 if both run on one device. */
static braid_status add_pair(braid_program *p, int32_t a, int32_t b) {
  size_t row, first, second;
  bool meet = false;
  for (size_t d = 0; d < p->problem->device_count && !meet; d++)
    meet = may_occupy(p, a, b, (int)d, -1) && may_occupy(p, b, a, (int)d, -1);
  if (!meet) return BRAID_OK;
  p->pairs[p->pair_count++] = (braid_program_pair){a, b};
  BRAID_TRY(braid_program_add_column(p, 0, 1, true, &first));
  BRAID_TRY(braid_program_add_column(p, 0, 1, true, &second));
  BRAID_TRY(add_after(p, a, b, first, -1, -1));
  BRAID_TRY(add_after(p, b, a, second, -1, -1));
  for (size_t d = 0; d < p->problem->device_count; d++) {
    if (!may_occupy(p, a, b, (int)d, -1) || !may_occupy(p, b, a, (int)d, -1)) continue;
    BRAID_TRY(braid_program_add_row(p, -1, INFINITY, &row));
    BRAID_TRY(braid_program_add_term(p, row, first, 1));
    BRAID_TRY(braid_program_add_term(p, row, second, 1));
    BRAID_TRY(add_on_device(p, row, a, b, (int)d, -1, true, -1));
    BRAID_TRY(add_on_device(p, row, b, a, (int)d, -1, true, -1));
  }
  return BRAID_OK;
}

braid_status braid_program_add_order(braid_program *p) {
  const braid_problem *problem = p->problem;
  size_t nodes = problem->node_count;
  bool *before = braid_arena_alloc(p->memory, nodes * nodes + 1);
  p->pairs = braid_arena_alloc(p->memory, (nodes * nodes / 2 + 1) * sizeof *p->pairs);
  if (!before || !p->pairs) return BRAID_NO_MEMORY;
  find_ancestors(problem, before);
  for (size_t a = 0; a < nodes; a++)
    for (size_t b = a + 1; b < nodes; b++) {
      if (problem->nodes[a].idle || problem->nodes[b].idle || before[b * nodes + a]) continue;
      BRAID_TRY(add_pair(p, (int32_t)a, (int32_t)b));
    }
  for (size_t i = 0; i < p->pair_count; i++) {
    BRAID_TRY(add_changes(p, p->pairs[i].first, p->pairs[i].second, p->orders + 2 * i));
    BRAID_TRY(add_changes(p, p->pairs[i].second, p->pairs[i].first, p->orders + 2 * i + 1));
  }
  for (size_t b = 0; b < nodes; b++)
    for (size_t a = 0; a < b; a++)
      if (before[b * nodes + a] && !problem->nodes[a].idle && !problem->nodes[b].idle)
        BRAID_TRY(add_changes(p, (int32_t)a, (int32_t)b, SIZE_MAX));
  return add_sets(p);
}
