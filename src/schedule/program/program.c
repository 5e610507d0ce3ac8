#include "schedule/program/program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "base/vector.h"
#include "schedule/program/rows.h"

/* --- building ------------------------------------------------------------------------------------------------------
 */
braid_status braid_program_add_column(braid_program *p, double cost, double upper, bool whole, size_t *column) {
  void *grown = braid_grow(p->allocator, p->columns, p->column_count, &p->column_capacity, sizeof *p->columns);
  if (!grown) return BRAID_NO_MEMORY;
  p->columns = grown;
  p->columns[p->column_count] = (braid_program_column){cost, 0, upper, whole};
  *column = p->column_count++;
  return BRAID_OK;
}

braid_status braid_program_add_row(braid_program *p, double lower, double upper, size_t *row) {
  void *grown = braid_grow(p->allocator, p->rows, p->row_count, &p->row_capacity, sizeof *p->rows);
  if (!grown) return BRAID_NO_MEMORY;
  p->rows = grown;
  p->rows[p->row_count] = (braid_program_row){lower, upper};
  *row = p->row_count++;
  return BRAID_OK;
}

braid_status braid_program_add_term(braid_program *p, size_t row, size_t column, double value) {
  void *grown = braid_grow(p->allocator, p->terms, p->term_count, &p->term_capacity, sizeof *p->terms);
  if (!grown) return BRAID_NO_MEMORY;
  p->terms = grown;
  p->terms[p->term_count++] = (braid_program_term){row, column, value};
  return BRAID_OK;
}

double braid_program_seconds(const braid_program *p, size_t column) {
  return p->problem->offers[p->offers[column]].seconds.value / p->seconds;
}

bool braid_program_covers(const braid_program *p, size_t column, int32_t node) {
  const braid_offer *offer = &p->problem->offers[p->offers[column]];
  for (size_t i = 0; i < offer->node_count; i++)
    if (offer->nodes[i] == node) return true;
  return false;
}

/* --- groups --------------------------------------------------------------------------------------------------------
 */
static bool is_same(const braid_number *a, const braid_number *b) {
  return a->source == b->source && a->value == b->value;
}

static bool are_alike(const braid_problem *problem, const braid_problem_device *a, const braid_problem_device *b) {
  return a->class == b->class && problem->spaces[a->space].kind == problem->spaces[b->space].kind &&
         (a->space == 0) == (b->space == 0) && a->clock_seconds == b->clock_seconds &&
         is_same(&a->idle_watts, &b->idle_watts) && is_same(&a->cap_watts, &b->cap_watts);
}

static bool group_devices(braid_program *p) {
  const braid_problem *problem = p->problem;
  size_t firsts[BRAID_PROGRAM_GROUPS];
  for (size_t d = 0; d < problem->device_count; d++) {
    size_t g = p->exact ? d : 0;
    while (!p->exact && g < p->device_groups && !are_alike(problem, &problem->devices[firsts[g]], &problem->devices[d]))
      g++;
    if (g == BRAID_PROGRAM_GROUPS) return false;
    if (g == p->device_groups) firsts[p->device_groups++] = d;
    p->group_of_device[d] = (int)g;
    p->group_devices[g]++;
  }
  return true;
}

static bool group_spaces(braid_program *p) {
  const braid_problem *problem = p->problem;
  for (int s = 0; s < problem->space_count; s++) {
    size_t g = p->exact ? (size_t)s : 0;
    while (!p->exact && g < p->space_groups && p->space_kinds[g] != problem->spaces[s].kind) g++;
    if (g == BRAID_PROGRAM_GROUPS) return false;
    if (g == p->space_groups) p->space_groups++;
    p->group_of_space[s] = (int)g;
    p->space_kinds[g] = problem->spaces[s].kind;
  }
  return true;
}

/* --- offers --------------------------------------------------------------------------------------------------------
 */
static double own_joules(const braid_problem *problem, const braid_offer *offer) {
  return offer->joules.value - braid_offer_idle_watts(problem, offer) * offer->seconds.value;
}

static int by_number(double a, double b) {
  return (a > b) - (a < b);
}

/* 0: the same nodes on devices of the same groups. */
static int compare_kinds(const braid_program *p, const braid_offer *a, const braid_offer *b) {
  if (a->node_count != b->node_count) return a->node_count < b->node_count ? -1 : 1;
  int order = memcmp(a->nodes, b->nodes, a->node_count * sizeof *a->nodes);
  if (order) return order;
  if (a->also_count != b->also_count) return a->also_count < b->also_count ? -1 : 1;
  order = p->group_of_device[a->device] - p->group_of_device[b->device];
  for (size_t i = 0; !order && i < a->also_count; i++)
    order = p->group_of_device[a->also[i]] - p->group_of_device[b->also[i]];
  return order;
}

static int by_kind(const void *left, const void *right, void *context) {
  const braid_program *p = context;
  int32_t i = *(const int32_t *)left, k = *(const int32_t *)right;
  const braid_offer *a = &p->problem->offers[i], *b = &p->problem->offers[k];
  int order = compare_kinds(p, a, b);
  if (!order) order = by_number(a->seconds.value, b->seconds.value);
  if (!order) order = by_number(own_joules(p->problem, a), own_joules(p->problem, b));
  if (!order) order = by_number(a->watts.value, b->watts.value);
  return order ? order : (i > k) - (i < k);
}

/* What is neither slower nor costlier, nor draws more, makes another offer of the kind superfluous. */
static bool is_dominated(const braid_program *p, const braid_offer *offer, size_t from) {
  for (size_t i = p->offer_count; i-- > from;) {
    const braid_offer *other = &p->problem->offers[p->offers[i]];
    bool draws_less =
        !p->capped || other->watts.value * other->seconds.value <= offer->watts.value * offer->seconds.value;
    if (own_joules(p->problem, other) <= own_joules(p->problem, offer) && draws_less) return true;
  }
  return false;
}

static void choose_offers(braid_program *p, const bool *refused) {
  const braid_problem *problem = p->problem;
  size_t count = 0, from = 0;
  for (size_t i = 0; i < problem->offer_count; i++) {
    const braid_offer *offer = &problem->offers[i];
    bool known = offer->seconds.source != BRAID_UNKNOWN && offer->joules.source != BRAID_UNKNOWN;
    if (refused[i] || offer->seconds.value > p->seconds * (1 + 1e-9)) continue;
    if (known) p->offers[count++] = (int32_t)i;
    if (!known && !p->unweighed) p->unweighed = offer;
  }
  p->offer_count = count;
  if (p->exact) return;
  qsort_r(p->offers, count, sizeof *p->offers, by_kind, p);
  p->offer_count = 0;
  for (size_t i = 0; i < count; i++) {
    const braid_offer *offer = &problem->offers[p->offers[i]];
    if (p->offer_count > from && compare_kinds(p, offer, &problem->offers[p->offers[from]])) from = p->offer_count;
    if (!is_dominated(p, offer, from)) p->offers[p->offer_count++] = p->offers[i];
  }
}

static braid_status list_columns(braid_program *p, bool *possible) {
  const braid_problem *problem = p->problem;
  size_t members = 0;
  for (size_t c = 0; c < p->offer_count; c++) {
    const braid_offer *offer = &problem->offers[p->offers[c]];
    members += offer->node_count;
    for (size_t i = 0; i < offer->node_count; i++) p->first_offer[offer->nodes[i] + 2]++;
  }
  p->node_offers = braid_arena_alloc(p->memory, (members + 1) * sizeof *p->node_offers);
  if (!p->node_offers) return BRAID_NO_MEMORY;
  for (size_t n = 0; n < problem->node_count; n++) {
    if (!problem->nodes[n].idle && !p->first_offer[n + 2]) *possible = false;
    p->first_offer[n + 2] += p->first_offer[n + 1];
  }
  for (size_t c = 0; c < p->offer_count; c++) {
    const braid_offer *offer = &problem->offers[p->offers[c]];
    for (size_t i = 0; i < offer->node_count; i++) p->node_offers[p->first_offer[offer->nodes[i] + 1]++] = (int32_t)c;
  }
  return BRAID_OK;
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
static braid_status add_columns(braid_program *p, double idle_watts) {
  const braid_problem *problem = p->problem;
  size_t column;
  p->joules = idle_watts * p->seconds;
  for (size_t c = 0; c < p->offer_count; c++)
    p->joules += fabs(own_joules(problem, &problem->offers[p->offers[c]])) / (double)p->offer_count;
  if (!(p->joules > 0)) p->joules = 1;
  for (size_t c = 0; c < p->offer_count; c++)
    BRAID_TRY(braid_program_add_column(p, own_joules(problem, &problem->offers[p->offers[c]]) / p->joules, 1, p->exact,
                                       &column));
  p->starts = p->column_count;
  for (size_t n = 0; n < problem->node_count; n++)
    BRAID_TRY(braid_program_add_column(p, 0, problem->nodes[n].idle ? 0 : 1, false, &column));
  return braid_program_add_column(p, idle_watts * p->seconds / p->joules, 1 + 1e-9, false, &p->end);
}

static braid_status program_allocate(braid_program *p) {
  const braid_problem *problem = p->problem;
  size_t devices = problem->device_count + 1, spaces = (size_t)problem->space_count + 1;
  p->group_of_device = braid_arena_alloc(p->memory, devices * sizeof *p->group_of_device);
  p->group_devices = braid_arena_alloc(p->memory, devices * sizeof *p->group_devices);
  p->group_of_space = braid_arena_alloc(p->memory, spaces * sizeof *p->group_of_space);
  p->space_kinds = braid_arena_alloc(p->memory, spaces * sizeof *p->space_kinds);
  p->bus_rows = braid_arena_alloc(p->memory, spaces * sizeof *p->bus_rows);
  p->out_rows = braid_arena_alloc(p->memory, spaces * sizeof *p->out_rows);
  p->offers = braid_arena_alloc(p->memory, (problem->offer_count + 1) * sizeof *p->offers);
  p->first_offer = braid_arena_alloc(p->memory, (problem->node_count + 3) * sizeof *p->first_offer);
  bool all = p->group_of_device && p->group_devices && p->group_of_space && p->space_kinds && p->bus_rows &&
             p->out_rows && p->offers && p->first_offer;
  return all ? BRAID_OK : BRAID_NO_MEMORY;
}

static braid_status make(braid_program *p, const bool *refused, size_t most, bool *possible) {
  double idle_watts = 0;
  BRAID_TRY(braid_arena_create(p->allocator, &p->memory));
  BRAID_TRY(program_allocate(p));
  *possible = p->seconds > 0;
  for (size_t d = 0; d < p->problem->device_count; d++) {
    *possible &= p->problem->devices[d].idle_watts.source != BRAID_UNKNOWN;
    idle_watts += p->problem->devices[d].idle_watts.value;
  }
  if (!*possible || !group_devices(p) || !group_spaces(p)) {
    *possible = false;
    return BRAID_OK;
  }
  choose_offers(p, refused);
  BRAID_TRY(list_columns(p, possible));
  if (!*possible) return BRAID_OK;
  BRAID_TRY(add_columns(p, idle_watts));
  BRAID_TRY(braid_program_add_rows(p, idle_watts, most, possible));
  p->orders = p->column_count;
  return p->exact && *possible ? braid_program_add_order(p) : BRAID_OK;
}

braid_status braid_program_make(const braid_problem *problem, const bool *refused, double limit, bool capped,
                                bool exact, size_t most, const braid_allocator *allocator, braid_program *out,
                                bool *possible) {
  *out =
      (braid_program){.problem = problem, .allocator = allocator, .exact = exact, .capped = capped, .seconds = limit};
  braid_status status = make(out, refused, most, possible);
  if (status != BRAID_OK) braid_program_free(out);
  return status;
}

void braid_program_free(braid_program *program) {
  braid_free(program->allocator, program->columns);
  braid_free(program->allocator, program->rows);
  braid_free(program->allocator, program->terms);
  braid_arena_destroy(program->memory);
  *program = (braid_program){0};
}
