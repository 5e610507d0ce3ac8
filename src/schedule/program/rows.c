#include "schedule/program/rows.h"

#include <math.h>
#include <string.h>

#include "base/try.h"

/* A value on its way to the reader that is looked at. */
typedef struct edge {
  int32_t value, producer, reader; /* producer -1: it is on the host */
} edge;

static const braid_offer *offer_at(const braid_program *p, size_t column) {
  return &p->problem->offers[p->offers[column]];
}

static size_t space_group(const braid_program *p, size_t column) {
  return (size_t)p->group_of_space[p->problem->devices[offer_at(p, column)->device].space];
}

/* Adds `value` times the shares of a node's offers, of those in one group of spaces (SIZE_MAX: of all). */
static braid_status add_shares(braid_program *p, size_t row, int32_t node, size_t group, double value) {
  for (size_t i = p->first_offer[node]; i < p->first_offer[node + 1]; i++) {
    size_t column = (size_t)p->node_offers[i];
    if (group == SIZE_MAX || space_group(p, column) == group) BRAID_TRY(braid_program_add_term(p, row, column, value));
  }
  return BRAID_OK;
}

/* Adds what the task of a node takes, times `sign`; what also covers `other` (-1: no node) counts as nothing. */
static braid_status add_seconds(braid_program *p, size_t row, int32_t node, int32_t other, double sign) {
  for (size_t i = p->first_offer[node]; i < p->first_offer[node + 1]; i++) {
    size_t column = (size_t)p->node_offers[i];
    if (other < 0 || !braid_program_covers(p, column, other))
      BRAID_TRY(braid_program_add_term(p, row, column, sign * braid_program_seconds(p, column)));
  }
  return BRAID_OK;
}

static bool runs_in(const braid_program *p, int32_t node, size_t group) {
  for (size_t i = p->first_offer[node]; i < p->first_offer[node + 1]; i++)
    if (space_group(p, (size_t)p->node_offers[i]) == group) return true;
  return false;
}

/* --- movement ------------------------------------------------------------------------------------------------------
 */
static double moving(const braid_program *p, int32_t value, size_t from, size_t to) {
  const braid_problem_link *link =
      &p->problem->links[p->space_kinds[from] * p->problem->kind_count + p->space_kinds[to]];
  return (link->seconds + (double)p->problem->values[value].bytes / link->bytes_per_second) / p->seconds;
}

static bool may_come_from(const braid_program *p, int32_t producer, size_t group) {
  return producer < 0 ? group == (size_t)p->group_of_space[0] : runs_in(p, producer, group);
}

/* What bringing the value into a group of spaces takes at least; 0: it need not be brought there from any. */
static double least_moving(const braid_program *p, const edge *e, size_t to) {
  double least = INFINITY;
  for (size_t from = 0; from < p->space_groups; from++)
    if (from != to && may_come_from(p, e->producer, from)) least = fmin(least, moving(p, e->value, from, to));
  return isinf(least) ? 0 : least;
}

/* *column: 1 if the reader is in the group and the producer is not. */
static braid_status add_movement(braid_program *p, const edge *e, size_t group, size_t *column) {
  size_t row;
  BRAID_TRY(braid_program_add_column(p, 0, 1, false, column));
  BRAID_TRY(braid_program_add_row(p, 0, INFINITY, &row));
  BRAID_TRY(braid_program_add_term(p, row, *column, 1));
  BRAID_TRY(add_shares(p, row, e->reader, group, -1));
  if (e->producer >= 0) return add_shares(p, row, e->producer, group, 1);
  return BRAID_OK;
}

/* A node starts when what it reads is there: after its producer's end, and what brings it. With several sources of
 * different distance an exact program has a row for each. */
static braid_status add_arrival(braid_program *p, const edge *e, const size_t *movements, const double *least) {
  size_t row;
  BRAID_TRY(braid_program_add_row(p, 0, INFINITY, &row));
  BRAID_TRY(braid_program_add_term(p, row, p->starts + (size_t)e->reader, 1));
  if (e->producer >= 0) {
    BRAID_TRY(braid_program_add_term(p, row, p->starts + (size_t)e->producer, -1));
    BRAID_TRY(add_seconds(p, row, e->producer, e->reader, -1));
  }
  for (size_t g = 0; g < p->space_groups; g++)
    if (least[g] > 0) BRAID_TRY(braid_program_add_term(p, row, movements[g], -least[g]));
  for (size_t from = 0; p->exact && e->producer >= 0 && from < p->space_groups; from++)
    for (size_t to = 0; to < p->space_groups; to++) {
      if (from == to || !runs_in(p, e->producer, from) || !runs_in(p, e->reader, to)) continue;
      double more = moving(p, e->value, from, to);
      if (more <= least[to]) continue;
      BRAID_TRY(braid_program_add_row(p, -more, INFINITY, &row));
      BRAID_TRY(braid_program_add_term(p, row, p->starts + (size_t)e->reader, 1));
      BRAID_TRY(braid_program_add_term(p, row, p->starts + (size_t)e->producer, -1));
      BRAID_TRY(add_seconds(p, row, e->producer, e->reader, -1));
      BRAID_TRY(add_shares(p, row, e->producer, from, -more));
      BRAID_TRY(add_shares(p, row, e->reader, to, -more));
    }
  return BRAID_OK;
}

/* A value comes over a bus once, however many read it. */
typedef struct arrivals {
  int32_t value;   /* that `columns` are of */
  size_t *columns; /* per group of spaces: whether the value is brought there; SIZE_MAX: not yet */
} arrivals;

/* What leaves a group of spaces: the value, if it is computed there and brought to this other one. */
static braid_status add_departures(braid_program *p, const edge *e, size_t to, size_t arrival) {
  size_t row, column;
  for (size_t from = 0; from < p->space_groups; from++) {
    if (from == to || p->out_rows[from] == SIZE_MAX || e->producer < 0 || !runs_in(p, e->producer, from)) continue;
    BRAID_TRY(braid_program_add_column(p, 0, 1, false, &column));
    BRAID_TRY(braid_program_add_row(p, -1, INFINITY, &row));
    BRAID_TRY(braid_program_add_term(p, row, column, 1));
    BRAID_TRY(braid_program_add_term(p, row, arrival, -1));
    BRAID_TRY(add_shares(p, row, e->producer, from, -1));
    BRAID_TRY(braid_program_add_term(p, p->out_rows[from], column, -moving(p, e->value, from, to)));
  }
  return BRAID_OK;
}

static braid_status add_to_bus(braid_program *p, arrivals *a, const edge *e, size_t group, size_t movement,
                               double least, bool alone) {
  size_t row;
  if (a->value != e->value) {
    for (size_t g = 0; g < p->space_groups; g++) a->columns[g] = SIZE_MAX;
    a->value = e->value;
  }
  if (a->columns[group] == SIZE_MAX) {
    if (alone)
      a->columns[group] = movement;
    else
      BRAID_TRY(braid_program_add_column(p, 0, 1, false, &a->columns[group]));
    if (p->bus_rows[group] != SIZE_MAX)
      BRAID_TRY(braid_program_add_term(p, p->bus_rows[group], a->columns[group], -least));
    BRAID_TRY(add_departures(p, e, group, a->columns[group]));
  }
  if (alone) return BRAID_OK;
  BRAID_TRY(braid_program_add_row(p, 0, INFINITY, &row));
  BRAID_TRY(braid_program_add_term(p, row, a->columns[group], 1));
  return braid_program_add_term(p, row, movement, -1);
}

static braid_status add_edge(braid_program *p, arrivals *a, const edge *e, bool alone) {
  size_t movements[BRAID_PROGRAM_GROUPS];
  double least[BRAID_PROGRAM_GROUPS];
  for (size_t g = 0; g < p->space_groups; g++) {
    least[g] = runs_in(p, e->reader, g) ? least_moving(p, e, g) : 0;
    if (!(least[g] > 0)) continue;
    BRAID_TRY(add_movement(p, e, g, &movements[g]));
    BRAID_TRY(add_to_bus(p, a, e, g, movements[g], least[g], alone));
  }
  return add_arrival(p, e, movements, least);
}

/* What is wanted on the host is brought there; the schedule ends after that. */
static braid_status add_wanted(braid_program *p, int32_t value, int32_t producer) {
  size_t row, host = (size_t)p->group_of_space[0];
  BRAID_TRY(braid_program_add_row(p, 0, INFINITY, &row));
  BRAID_TRY(braid_program_add_term(p, row, p->end, 1));
  BRAID_TRY(braid_program_add_term(p, row, p->starts + (size_t)producer, -1));
  BRAID_TRY(add_seconds(p, row, producer, -1, -1));
  for (size_t g = 0; g < p->space_groups; g++)
    if (g != host) BRAID_TRY(add_shares(p, row, producer, g, -moving(p, value, g, host)));
  return BRAID_OK;
}

/* --- readers -------------------------------------------------------------------------------------------------------
 */
/* Per value the nodes that read it, each once. */
typedef struct readers {
  size_t *first;
  int32_t *nodes;
} readers;

static bool reads_before(const braid_problem *problem, size_t node, size_t read) {
  const int32_t *reads = problem->reads + problem->nodes[node].first_read;
  for (size_t i = 0; i < read; i++)
    if (reads[i] == reads[read]) return true;
  return false;
}

static braid_status find_readers(const braid_program *p, readers *out) {
  const braid_problem *problem = p->problem;
  size_t count = 0;
  for (size_t n = 0; n < problem->node_count; n++) count += problem->nodes[n].read_count;
  out->first = braid_arena_alloc(p->memory, (problem->value_count + 2) * sizeof *out->first);
  out->nodes = braid_arena_alloc(p->memory, (count + 1) * sizeof *out->nodes);
  if (!out->first || !out->nodes) return BRAID_NO_MEMORY;
  for (int round = 0; round < 2; round++) {
    for (size_t n = 0; n < problem->node_count; n++)
      for (size_t r = 0; r < problem->nodes[n].read_count; r++) {
        int32_t value = problem->reads[problem->nodes[n].first_read + r];
        if (reads_before(problem, n, r)) continue;
        if (round)
          out->nodes[out->first[value + 1]++] = (int32_t)n;
        else if ((size_t)value + 2 < problem->value_count + 2)
          out->first[value + 2]++;
      }
    for (size_t v = 2; !round && v < problem->value_count + 2; v++) out->first[v] += out->first[v - 1];
  }
  return BRAID_OK;
}

static braid_status add_values(braid_program *p, size_t most, bool *possible) {
  const braid_problem *problem = p->problem;
  readers found;
  arrivals a = {.value = -1};
  BRAID_TRY(find_readers(p, &found));
  a.columns = braid_arena_alloc(p->memory, (p->space_groups + 1) * sizeof *a.columns);
  if (!a.columns) return BRAID_NO_MEMORY;
  for (size_t v = 0; v < problem->value_count && p->term_count <= most; v++) {
    int32_t producer = problem->values[v].producer;
    size_t first = found.first[v], count = found.first[v + 1] - first;
    if (producer >= 0 && problem->nodes[producer].idle) producer = -1;
    for (size_t i = 0; i < count && p->term_count <= most; i++)
      BRAID_TRY(add_edge(p, &a, &(edge){(int32_t)v, producer, found.nodes[first + i]}, count == 1));
    if (problem->values[v].wanted && producer >= 0) BRAID_TRY(add_wanted(p, (int32_t)v, producer));
  }
  *possible = !p->exact || p->term_count <= most; /* a relaxed program may lack what comes after what */
  return BRAID_OK;
}

/* --- nodes, devices and buses --------------------------------------------------------------------------------------
 */
static braid_status add_nodes(braid_program *p) {
  size_t row;
  for (size_t n = 0; n < p->problem->node_count; n++) {
    if (p->problem->nodes[n].idle) continue;
    BRAID_TRY(braid_program_add_row(p, 1, 1, &row)); /* one offer runs it */
    BRAID_TRY(add_shares(p, row, (int32_t)n, SIZE_MAX, 1));
    BRAID_TRY(braid_program_add_row(p, 0, INFINITY, &row)); /* and ends before the schedule does */
    BRAID_TRY(braid_program_add_term(p, row, p->end, 1));
    BRAID_TRY(braid_program_add_term(p, row, p->starts + n, -1));
    BRAID_TRY(add_seconds(p, row, (int32_t)n, -1, -1));
  }
  return BRAID_OK;
}

/* Devices are busy no longer than the schedule takes. */
static braid_status add_loads(braid_program *p) {
  size_t rows = p->row_count, row;
  for (size_t g = 0; g < p->device_groups; g++) {
    BRAID_TRY(braid_program_add_row(p, 0, INFINITY, &row));
    BRAID_TRY(braid_program_add_term(p, row, p->end, (double)p->group_devices[g]));
  }
  for (size_t c = 0; c < p->offer_count; c++) {
    const braid_offer *offer = offer_at(p, c);
    for (size_t i = 0; i <= offer->also_count; i++) {
      int device = i < offer->also_count ? offer->also[i] : offer->device;
      BRAID_TRY(braid_program_add_term(p, rows + (size_t)p->group_of_device[device], c, -braid_program_seconds(p, c)));
    }
  }
  return BRAID_OK;
}

/* Peaks that are below the cap at every instant are so on average. */
static braid_status add_cap(braid_program *p, double idle_watts) {
  const braid_number *cap = &p->problem->cap_watts;
  size_t row;
  if (!p->capped || cap->source == BRAID_UNKNOWN) return BRAID_OK;
  double scale = cap->value > 0 ? cap->value : 1;
  BRAID_TRY(braid_program_add_row(p, 0, INFINITY, &row));
  BRAID_TRY(braid_program_add_term(p, row, p->end, (cap->value * (1 + 1e-9) - idle_watts) / scale));
  for (size_t c = 0; c < p->offer_count; c++) {
    const braid_offer *offer = offer_at(p, c);
    double above = offer->watts.value - braid_offer_idle_watts(p->problem, offer);
    BRAID_TRY(braid_program_add_term(p, row, c, -above / scale * braid_program_seconds(p, c)));
  }
  return BRAID_OK;
}

/* What goes over the buses of a group of spaces, one way, fits into the time, if each of its spaces has one. */
static braid_status add_buses(braid_program *p, bool out, size_t *rows) {
  const braid_problem *problem = p->problem;
  int *seen = braid_arena_alloc(p->memory, ((size_t)problem->bus_count + 1) * sizeof *seen); /* in group - 1 */
  size_t *counts = braid_arena_alloc(p->memory, (p->space_groups + 1) * sizeof *counts);
  if (!seen || !counts) return BRAID_NO_MEMORY;
  memset(rows, 0, p->space_groups * sizeof *rows);
  for (int s = 0; s < problem->space_count; s++) {
    int bus = out ? problem->spaces[s].out_bus : problem->spaces[s].in_bus, group = p->group_of_space[s];
    if (bus < 0) rows[group] = SIZE_MAX;
    if (bus >= 0 && seen[bus] != group + 1) counts[group]++;
    if (bus >= 0) seen[bus] = group + 1;
  }
  for (size_t g = 0; g < p->space_groups; g++) {
    if (rows[g] == SIZE_MAX) continue;
    BRAID_TRY(braid_program_add_row(p, 0, INFINITY, &rows[g]));
    BRAID_TRY(braid_program_add_term(p, rows[g], p->end, (double)counts[g]));
  }
  return BRAID_OK;
}

braid_status braid_program_add_rows(braid_program *p, double idle_watts, size_t most, bool *possible) {
  BRAID_TRY(add_nodes(p));
  BRAID_TRY(add_loads(p));
  BRAID_TRY(add_cap(p, idle_watts));
  BRAID_TRY(add_buses(p, false, p->bus_rows));
  BRAID_TRY(add_buses(p, true, p->out_rows));
  return add_values(p, most, possible);
}
