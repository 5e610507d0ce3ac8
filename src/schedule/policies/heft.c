/* List scheduling by earliest finish time, in order of the longest remaining path (HEFT: Topcuoglu, Hariri, Wu,
 * "Performance-effective and low-complexity task scheduling for heterogeneous computing", IEEE TPDS 2002), once with
 * patterns only and once with the regions of each device. Each device runs its tasks in the order in which they were
 * scheduled. The result is compared with running everything on each single device and with first.c, in the graph's
 * order, by simulation, and the best is taken; so by the problem's numbers the choice is never slower than a single
 * device that can run all nodes.
 *
 * Numbers of different origin are not compared within one device, because a modelled time does not distinguish two
 * kernels for the same node: until all are measured, the device's own order is used, and larger sets are preferred. */
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "schedule/arrivals.h"
#include "schedule/policies/reasons.h"

typedef struct unit_way {
  double seconds;             /* an unknown time counts as 0 */
  bool able, known, together; /* the device can run it; the time is known; it occupies other devices, too */
} unit_way;

typedef struct planner {
  const braid_choosing *choosing;
  const braid_problem *problem;
  /* Per node the devices that have offers for it, ascending: able[first_able[n]] to able[first_able[n + 1]]; and beside
   * them the offer by which each would run the node; -1: none */
  size_t *first_able;
  int *able;
  int32_t *tiles;
  size_t *slots, *first_slot; /* where in `able` each node of each offer is, by the offers' places in `ranks` */
  unit_way *ways;             /* beside `able` */
  bool *blocked;              /* per node: covered by a chosen region */
  bool *has_regions;          /* per device: among its offers */
  bool any_regions, chosen;   /* chosen: some task of the last schedule could have been on another device */
  braid_choices units;        /* sets of nodes that are placed as a unit; only the set of offer_of is used */
  double *path;               /* per unit: longest path from its start to the end of the graph */
  double *finish;             /* per node */
  double *free_at;            /* per device */
  braid_arrivals arrived;
  double *bus_free;
} planner;

/* NULL: the device has no offers for the node. */
static int32_t *tile_slot(const planner *p, size_t device, int32_t node) {
  size_t low = p->first_able[node], high = p->first_able[node + 1], end = high;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if ((size_t)p->able[middle] < device)
      low = middle + 1;
    else
      high = middle;
  }
  return low < end && (size_t)p->able[low] == device ? &p->tiles[low] : NULL;
}

static int32_t tile_of(const planner *p, size_t device, int32_t node) {
  const int32_t *slot = tile_slot(p, device, node);
  return slot ? *slot : -1;
}

/* The devices that have offers for each node. Offers are sorted by device in `ranks`, so each list is ascending. */
static braid_status list_able(planner *p) {
  const braid_problem *problem = p->problem;
  size_t members = 0;
  for (size_t i = 0; i < problem->offer_count; i++) members += problem->offers[i].node_count;
  p->first_able = braid_zalloc_array(p->choosing->allocator, problem->node_count + 3, sizeof *p->first_able);
  p->able = braid_zalloc_array(p->choosing->allocator, members + 1, sizeof *p->able);
  p->tiles = braid_zalloc_array(p->choosing->allocator, members + 1, sizeof *p->tiles);
  int *last = braid_zalloc_array(p->choosing->allocator, problem->node_count + 1, sizeof *last);
  p->slots = braid_zalloc_array(p->choosing->allocator, members + 1, sizeof *p->slots);
  p->first_slot = braid_zalloc_array(p->choosing->allocator, problem->offer_count + 1, sizeof *p->first_slot);
  p->ways = braid_zalloc_array(p->choosing->allocator, members + 1, sizeof *p->ways);
  p->has_regions = braid_zalloc_array(p->choosing->allocator, problem->device_count + 1, sizeof *p->has_regions);
  bool all = p->first_able && p->able && p->tiles && p->slots && p->first_slot && p->ways && p->has_regions && last;
  for (int round = 0; all && round < 2; round++) {
    memset(last, -1, problem->node_count * sizeof *last);
    for (size_t i = 0, member = 0; i < problem->offer_count; i++) {
      const braid_offer *offer = &problem->offers[p->choosing->ranks[i]];
      p->first_slot[i] = member;
      if (offer->region) p->any_regions = p->has_regions[offer->device] = true;
      for (size_t k = 0; k < offer->node_count; k++, member++) {
        int32_t node = offer->nodes[k];
        bool more = last[node] != offer->device;
        last[node] = offer->device;
        if (round && more) p->able[p->first_able[node + 1]++] = offer->device;
        if (round) p->slots[member] = p->first_able[node + 1] - 1;
        if (!round && more) p->first_able[node + 2]++;
      }
    }
    for (size_t n = 2; !round && n < problem->node_count + 2; n++) p->first_able[n] += p->first_able[n - 1];
  }
  braid_free(p->choosing->allocator, last);
  return all ? BRAID_OK : BRAID_NO_MEMORY;
}

/* --- covering the graph per device ---------------------------------------------------------------------------------
 */
/* The smaller offers that cover the nodes of an offer. */
typedef struct covering {
  double seconds;
  braid_number_source least, most; /* the least and the most reliable origin of the times */
  uint32_t rank;
  bool whole, same; /* whole: all nodes are covered; same: by one offer for the same nodes */
} covering;

static covering covering_of(const planner *p, const braid_offer *offer, const size_t *slots) {
  covering c = {.least = BRAID_MEASURED, .most = BRAID_UNKNOWN, .whole = true};
  for (size_t i = 0; i < offer->node_count; i++) {
    int32_t index = p->tiles[slots[i]];
    if (index < 0) {
      c.whole = false;
      continue;
    }
    const braid_offer *part = &p->problem->offers[index];
    if (part->nodes[part->node_count - 1] != offer->nodes[i]) continue;
    c.seconds += part->seconds.value;
    if (part->seconds.source < c.least) c.least = part->seconds.source;
    if (part->seconds.source > c.most) c.most = part->seconds.source;
    c.rank = part->rank;
    c.same = part->node_count == offer->node_count;
  }
  return c;
}

static bool covers_better(const planner *p, const braid_offer *offer, const size_t *slots) {
  covering c = covering_of(p, offer, slots);
  if (!c.whole) return true;
  braid_number_source source = offer->seconds.source;
  if (source == BRAID_UNKNOWN || c.least == BRAID_UNKNOWN) {
    if (source != c.least) return source != BRAID_UNKNOWN;
  } else if (source == BRAID_MEASURED && c.least == BRAID_MEASURED) {
    return offer->seconds.value < c.seconds;
  }
  if (c.same) return offer->rank < c.rank;
  return source != c.most || offer->seconds.value <= c.seconds;
}

/* Where the offers of a device begin in `ranks`, which are sorted by device. */
static size_t first_rank(const planner *p, size_t device) {
  size_t low = 0, high = p->problem->offer_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if ((size_t)p->problem->offers[p->choosing->ranks[middle]].device < device)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Chooses a device's best offer for each node, smaller sets before larger ones that contain them. */
static void tile(const planner *p, size_t device, bool regions) {
  const braid_problem *problem = p->problem;
  size_t first = first_rank(p, device), end = first_rank(p, device + 1);
  for (size_t i = first; i < end; i++) {
    const braid_offer *offer = &problem->offers[p->choosing->ranks[i]];
    for (size_t k = 0; k < offer->node_count; k++) p->tiles[p->slots[p->first_slot[i] + k]] = -1;
  }
  for (size_t i = end; i-- > first;) {
    int32_t index = p->choosing->ranks[i];
    const braid_offer *offer = &problem->offers[index];
    bool fits = !p->choosing->refused[index] && (regions || !offer->region);
    for (size_t k = 0; fits && k < offer->node_count; k++) fits = !p->blocked[offer->nodes[k]];
    const size_t *slots = &p->slots[p->first_slot[i]];
    if (!fits || !covers_better(p, offer, slots)) continue;
    for (size_t k = 0; k < offer->node_count; k++) p->tiles[slots[k]] = index;
  }
}

/* --- units ---------------------------------------------------------------------------------------------------------
 */
/* Finds the largest set that any device would run as one task, for each node; sets of patterns are nested or disjoint.
 */
static void widen_units(planner *p) {
  for (size_t n = 0; n < p->problem->node_count; n++)
    for (size_t i = p->first_able[n]; i < p->first_able[n + 1]; i++) {
      int32_t index = p->tiles[i], *unit = &p->units.offer_of[n];
      if (index < 0) continue;
      if (*unit < 0 || p->problem->offers[index].node_count > p->problem->offers[*unit].node_count) *unit = index;
    }
}

static const braid_offer *unit_of(const planner *p, int32_t task) {
  return &p->problem->offers[p->units.offer_of[task]];
}

/* How a task's unit would run on one of the devices that have offers for the task, by its place in `able`. */
static unit_way find_way(const planner *p, int32_t task, size_t place) {
  const braid_offer *unit = unit_of(p, task);
  size_t device = (size_t)p->able[place];
  unit_way way = {.able = true, .known = true};
  for (size_t i = 0; i < unit->node_count && way.able; i++) {
    int32_t index = unit->nodes[i] == task ? p->tiles[place] : tile_of(p, device, unit->nodes[i]);
    way.able = index >= 0;
    const braid_offer *offer = &p->problem->offers[way.able ? index : 0];
    if (!way.able || offer->nodes[offer->node_count - 1] != unit->nodes[i]) continue;
    way.seconds += offer->seconds.value;
    way.known &= offer->seconds.source != BRAID_UNKNOWN;
    way.together |= offer->also_count > 0;
  }
  return way;
}

static void find_paths(planner *p) {
  const braid_problem *problem = p->problem;
  memset(p->path, 0, problem->node_count * sizeof *p->path);
  for (size_t t = p->units.task_count; t-- > 0;) {
    int32_t task = p->units.order[t];
    double sum = 0;
    size_t able = 0;
    for (size_t i = p->first_able[task]; i < p->first_able[task + 1]; i++) {
      unit_way *way = &p->ways[i];
      *way = find_way(p, task, i);
      if (way->able && way->known) sum += way->seconds, able++;
    }
    p->path[task] += able ? sum / (double)able : 0;
    const braid_offer *unit = unit_of(p, task);
    for (size_t k = 0; k < unit->node_count; k++) {
      const braid_problem_node *node = &problem->nodes[unit->nodes[k]];
      for (size_t r = 0; r < node->read_count; r++) {
        int32_t before = problem->values[problem->reads[node->first_read + r]].producer;
        if (before < 0) continue;
        int32_t other = braid_choices_task(problem, &p->units, before);
        if (other != task && p->path[other] < p->path[task]) p->path[other] = p->path[task];
      }
    }
  }
}

/* --- list scheduling -----------------------------------------------------------------------------------------------
 */
typedef struct ready {
  double path;
  size_t position; /* in the order of tasks; breaks ties */
  int32_t task;
} ready;

static int by_path(const void *left, const void *right) {
  const ready *a = left, *b = right;
  if (a->path != b->path) return a->path > b->path ? -1 : 1;
  return a->position < b->position ? -1 : a->position > b->position;
}

static int space_of_value(const planner *p, const braid_choices *choices, int32_t value) {
  int32_t before = p->problem->values[value].producer;
  return before < 0 ? 0 : p->problem->devices[p->problem->offers[choices->offer_of[before]].device].space;
}

/* The time at which all inputs of a unit are available; `bring`: schedules the transfers. */
static double inputs_at(planner *p, const braid_choices *choices, int32_t task, size_t device, bool bring) {
  const braid_problem *problem = p->problem;
  const braid_offer *unit = unit_of(p, task);
  int space = problem->devices[device].space;
  double latest = 0;
  for (size_t i = 0; i < unit->node_count; i++) {
    const braid_problem_node *node = &problem->nodes[unit->nodes[i]];
    for (size_t k = 0; k < node->read_count; k++) {
      int32_t value = problem->reads[node->first_read + k], before = problem->values[value].producer;
      if (before >= 0 && braid_choices_task(problem, &p->units, before) == task) continue;
      double at = braid_arrivals_get(&p->arrived, value, space);
      if (at < 0) {
        int from = space_of_value(p, choices, value);
        double left = before < 0 ? 0 : p->finish[before];
        const int buses[2] = {problem->spaces[from].out_bus, problem->spaces[space].in_bus};
        double busy[2] = {0};
        for (int b = 0; b < 2 && from != space; b++) busy[b] = buses[b] < 0 ? 0 : p->bus_free[buses[b]];
        at = braid_problem_arrival(problem, value, from, space, left, p->bus_free);
        if (bring) braid_arrivals_set(&p->arrived, value, space, at);
        for (int b = 0; b < 2 && from != space && !bring; b++)
          if (buses[b] >= 0) p->bus_free[buses[b]] = busy[b];
      }
      if (at > latest) latest = at;
    }
  }
  return latest;
}

/* When all devices that a unit would occupy are free, if it ran on this one; `until`: it occupies them until then. */
static double devices_free(planner *p, int32_t task, size_t device, double until) {
  const braid_offer *unit = unit_of(p, task);
  double latest = p->free_at[device];
  if (until > 0) p->free_at[device] = until;
  for (size_t i = 0; i < unit->node_count; i++) {
    const braid_offer *offer = &p->problem->offers[tile_of(p, device, unit->nodes[i])];
    for (size_t k = 0; k < offer->also_count; k++) {
      if (p->free_at[offer->also[k]] > latest) latest = p->free_at[offer->also[k]];
      if (until > 0) p->free_at[offer->also[k]] = until;
    }
  }
  return latest;
}

static braid_status put(planner *p, braid_choices *choices, int32_t task) {
  const braid_problem *problem = p->problem;
  const braid_offer *unit = unit_of(p, task);
  char why[256];
  size_t used = 0, able = 0;
  int best = -1;
  bool best_known = false;
  double best_end = 0;
  for (size_t i = p->first_able[task]; i < p->first_able[task + 1]; i++) {
    size_t d = (size_t)p->able[i];
    const unit_way *way = &p->ways[i];
    if (!way->able) continue;
    double there = inputs_at(p, choices, task, d, false);
    double freed = way->together ? devices_free(p, task, d, 0) : p->free_at[d];
    double end = (there > freed ? there : freed) + way->seconds;
    able++;
    used = braid_reason_end(why, used, sizeof why, problem->devices[d].name, way->known, end);
    if (best >= 0 && (way->known == best_known ? end >= best_end : best_known)) continue;
    best = (int)d;
    best_end = end;
    best_known = way->known;
  }
  (void)inputs_at(p, choices, task, (size_t)best, true);
  (void)devices_free(p, task, (size_t)best, best_end);
  const char *reason = braid_reason_no_other;
  if (able > 1) reason = braid_arena_text(p->choosing->arena, why, used);
  if (!reason) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < unit->node_count; i++) {
    int32_t node = unit->nodes[i], index = tile_of(p, (size_t)best, node);
    const braid_offer *offer = &problem->offers[index];
    p->finish[node] = best_end;
    if (offer->nodes[offer->node_count - 1] != node) continue;
    braid_choices_take(p->choosing, choices, index, reason);
    choices->order[choices->task_count++] = node;
  }
  p->chosen |= able > 1;
  return BRAID_OK;
}

static braid_status schedule_units(planner *p, braid_choices *choices) {
  const braid_problem *problem = p->problem;
  ready *list = braid_zalloc_array(p->choosing->allocator, p->units.task_count + 1, sizeof *list);
  if (!list) return BRAID_NO_MEMORY;
  braid_arrivals_clear(&p->arrived);
  memset(p->bus_free, 0, (size_t)problem->bus_count * sizeof *p->bus_free);
  memset(p->free_at, 0, problem->device_count * sizeof *p->free_at);
  find_paths(p);
  for (size_t i = 0; i < p->units.task_count; i++) list[i] = (ready){p->path[p->units.order[i]], i, p->units.order[i]};
  qsort(list, p->units.task_count, sizeof *list, by_path);
  braid_status status = BRAID_OK;
  p->chosen = false;
  for (size_t i = 0; status == BRAID_OK && i < p->units.task_count; i++) status = put(p, choices, list[i].task);
  choices->ordered = p->chosen; /* else nothing was to be scheduled, and the graph's order stays */
  braid_free(p->choosing->allocator, list);
  return status;
}

/* --- solutions -----------------------------------------------------------------------------------------------------
 */
static void forget(const planner *p, braid_choices *choices) {
  memset(choices->offer_of, -1, p->problem->node_count * sizeof *choices->offer_of);
  choices->task_count = 0;
  choices->ordered = false;
}

/* Finds the units: regions of one device (-1: none), and for the other nodes the largest set that any device would run
 * as one task. False: no device can run some node. */
static bool find_units(planner *p, int region_device) {
  const braid_problem *problem = p->problem;
  memset(p->blocked, 0, problem->node_count * sizeof *p->blocked);
  forget(p, &p->units);
  if (region_device >= 0) tile(p, (size_t)region_device, true);
  for (size_t n = 0; region_device >= 0 && n < problem->node_count; n++) {
    int32_t index = tile_of(p, (size_t)region_device, (int32_t)n);
    if (index < 0 || !problem->offers[index].region) continue;
    p->units.offer_of[n] = index;
    p->blocked[n] = true;
  }
  for (size_t d = 0; d < problem->device_count; d++) tile(p, d, false);
  widen_units(p);
  for (size_t n = 0; n < problem->node_count; n++) {
    if (p->blocked[n]) *tile_slot(p, (size_t)region_device, (int32_t)n) = p->units.offer_of[n];
    if (!problem->nodes[n].idle && p->units.offer_of[n] < 0) return false;
  }
  return true;
}

/* Schedules over all devices, with the regions of one of them. *found: a solution exists. */
static braid_status spread(planner *p, int region_device, braid_choices *choices, bool *found) {
  int32_t cycle;
  for (;;) {
    *found = find_units(p, region_device);
    if (!*found) return BRAID_OK;
    BRAID_TRY(braid_choices_sort(p->choosing, &p->units, &cycle));
    if (cycle < 0) break;
    p->choosing->refused[cycle] = true; /* it forms a cycle with another region of the device */
  }
  forget(p, choices);
  return schedule_units(p, choices);
}

/* Everything on one device. */
static bool choose_alone(planner *p, size_t device, braid_choices *choices) {
  const braid_problem *problem = p->problem;
  for (size_t n = 0; n < problem->node_count; n++)
    if (!problem->nodes[n].idle && !tile_slot(p, device, (int32_t)n)) return false;
  memset(p->blocked, 0, problem->node_count * sizeof *p->blocked);
  forget(p, choices);
  if (p->any_regions) tile(p, device, true); /* else it still is, as find_units has it */
  for (size_t n = 0; n < problem->node_count; n++) {
    int32_t index = tile_of(p, device, (int32_t)n);
    if (index < 0 && !problem->nodes[n].idle) return false;
    if (index < 0) continue;
    const braid_offer *offer = &problem->offers[index];
    if (offer->nodes[offer->node_count - 1] == (int32_t)n) braid_choices_take(p->choosing, choices, index, NULL);
  }
  return true;
}

static bool is_sooner(const braid_choices *a, const braid_choices *b) {
  bool known = a->seconds.source != BRAID_UNKNOWN, other = b->seconds.source != BRAID_UNKNOWN;
  return known == other ? a->seconds.value < b->seconds.value : known;
}

/* Whether its simulation need not be looked at: the work of one of its devices alone takes as long as the best, or a
 * time is unknown that is known of the best. */
static bool is_hopeless(const planner *p, const braid_choices *trial, const braid_choices *best) {
  static const double kRounding = 1 + 1e-9; /* of sums in another order */
  const braid_problem *problem = p->problem;
  if (!best->task_count || best->seconds.source == BRAID_UNKNOWN) return false;
  memset(p->free_at, 0, problem->device_count * sizeof *p->free_at);
  for (size_t n = 0; n < problem->node_count; n++) {
    const braid_offer *offer = &problem->offers[trial->offer_of[n] < 0 ? 0 : trial->offer_of[n]];
    if (trial->offer_of[n] < 0 || offer->nodes[offer->node_count - 1] != (int32_t)n) continue;
    if (offer->seconds.source == BRAID_UNKNOWN) return true;
    if ((p->free_at[offer->device] += offer->seconds.value) > best->seconds.value * kRounding) return true;
  }
  return false;
}

static bool is_same(const planner *p, const braid_choices *a, const braid_choices *b) {
  return a->task_count == b->task_count && !memcmp(a->order, b->order, a->task_count * sizeof *a->order) &&
         !memcmp(a->offer_of, b->offer_of, p->problem->node_count * sizeof *a->offer_of);
}

/* Simulates `trial`, by its own order if it has one, and keeps it if it is the best so far. */
static braid_status judge(const planner *p, braid_choices *trial, braid_choices *best, bool *kept) {
  int32_t cycle = -1;
  *kept = false;
  if (is_hopeless(p, trial, best)) return BRAID_OK;
  if (!trial->ordered) BRAID_TRY(braid_choices_sort(p->choosing, trial, &cycle));
  if (cycle >= 0 || is_same(p, trial, best)) return BRAID_OK;
  BRAID_TRY(braid_choices_play(p->choosing, trial));
  *kept = !best->task_count || is_sooner(trial, best);
  if (!*kept) return BRAID_OK;
  braid_choices swap = *best;
  *best = *trial;
  *trial = swap;
  return BRAID_OK;
}

static braid_status find_best(planner *p, braid_choices *best, braid_choices *trial) {
  const braid_problem *problem = p->problem;
  bool found, kept;
  for (int d = -1; d < (int)problem->device_count; d++) {
    if (d >= 0 && !p->has_regions[d]) continue;
    BRAID_TRY(spread(p, d, trial, &found));
    if (found) BRAID_TRY(judge(p, trial, best, &kept));
    if (found && kept) BRAID_TRY(braid_reasons_late(p->choosing, &p->units, p->finish, best));
  }
  braid_number spread_seconds = best->seconds; /* unknown: there is none */
  for (size_t d = 0; problem->device_count > 1 && d < problem->device_count; d++) {
    if (!choose_alone(p, d, trial)) continue;
    BRAID_TRY(judge(p, trial, best, &kept));
    if (kept) BRAID_TRY(braid_reasons_alone(p->choosing, d, spread_seconds, best));
  }
  forget(p, trial);
  BRAID_TRY(braid_choose_fixed(p->choosing, trial));
  BRAID_TRY(braid_choose_first(p->choosing, trial));
  if (braid_choices_check(p->choosing, trial) == BRAID_OK) BRAID_TRY(judge(p, trial, best, &kept));
  best->ordered = best->task_count > 0; /* the simulation that judged it need not be repeated */
  return BRAID_OK;
}

static braid_status plan_all(const braid_choosing *choosing, braid_choices *choices) {
  const braid_problem *problem = choosing->problem;
  const braid_allocator *allocator = choosing->allocator;
  size_t nodes = problem->node_count + 1, reads = 0;
  planner p = {.choosing = choosing, .problem = problem};
  braid_choices trial;
  BRAID_TRY(braid_choices_init(choosing, &trial));
  BRAID_TRY(braid_choices_init(choosing, &p.units));
  braid_status status = list_able(&p);
  p.blocked = braid_zalloc_array(allocator, nodes, sizeof *p.blocked);
  p.path = braid_zalloc_array(allocator, nodes, sizeof *p.path);
  p.finish = braid_zalloc_array(allocator, nodes, sizeof *p.finish);
  p.free_at = braid_zalloc_array(allocator, problem->device_count + 1, sizeof *p.free_at);
  for (size_t n = 0; n < problem->node_count; n++) reads += problem->nodes[n].read_count;
  if (status == BRAID_OK) status = braid_arrivals_init(&p.arrived, problem, reads, allocator);
  p.bus_free = braid_zalloc_array(allocator, (size_t)problem->bus_count + 1, sizeof *p.bus_free);
  if (status == BRAID_OK && !(p.blocked && p.path && p.finish && p.free_at && p.bus_free)) status = BRAID_NO_MEMORY;
  if (status == BRAID_OK) status = find_best(&p, choices, &trial);
  braid_free(allocator, p.first_able);
  braid_free(allocator, p.able);
  braid_free(allocator, p.tiles);
  braid_free(allocator, p.slots);
  braid_free(allocator, p.first_slot);
  braid_free(allocator, p.ways);
  braid_free(allocator, p.blocked);
  braid_free(allocator, p.has_regions);
  braid_free(allocator, p.path);
  braid_free(allocator, p.finish);
  braid_free(allocator, p.free_at);
  braid_arrivals_deinit(&p.arrived, allocator);
  braid_free(allocator, p.bus_free);
  return status;
}

braid_status braid_choose_class(const braid_choosing *choosing, braid_device_class class, braid_choices *choices) {
  const braid_problem *problem = choosing->problem;
  bool *able = braid_zalloc_array(choosing->allocator, problem->node_count + 1, sizeof *able);
  bool *refused = braid_zalloc_array(choosing->allocator, problem->offer_count + 1, sizeof *refused);
  braid_status status = able && refused ? BRAID_OK : BRAID_NO_MEMORY;
  for (size_t i = 0; status == BRAID_OK && i < problem->offer_count; i++) {
    const braid_offer *offer = &problem->offers[i];
    bool of_class = problem->devices[offer->device].class == class && !choosing->refused[i];
    if (of_class && offer->node_count == 1) able[offer->nodes[0]] = true;
  }
  for (size_t i = 0; status == BRAID_OK && i < problem->offer_count; i++) {
    const braid_offer *offer = &problem->offers[i];
    refused[i] = choosing->refused[i];
    for (size_t k = 0; k < offer->node_count && problem->devices[offer->device].class != class; k++)
      refused[i] |= able[offer->nodes[k]];
  }
  if (status == BRAID_OK) {
    braid_choosing narrow = *choosing;
    narrow.refused = refused;
    status = plan_all(&narrow, choices);
  }
  braid_free(choosing->allocator, able);
  braid_free(choosing->allocator, refused);
  return status;
}

/* GPUs beside devices of other classes: alone they are one of the plans that earliest ends may miss. */
static bool has_gpus_and_others(const braid_problem *problem) {
  size_t gpus = 0;
  for (size_t d = 0; d < problem->device_count; d++) gpus += problem->devices[d].class == BRAID_CLASS_GPU;
  return gpus && gpus < problem->device_count;
}

static braid_status heft_choose(const braid_choosing *choosing, braid_choices *choices) {
  braid_choices gpus;
  BRAID_TRY(plan_all(choosing, choices));
  if (!has_gpus_and_others(choosing->problem)) return BRAID_OK;
  BRAID_TRY(braid_choices_init(choosing, &gpus));
  BRAID_TRY(braid_choose_class(choosing, BRAID_CLASS_GPU, &gpus));
  if (!gpus.task_count || (choices->task_count && !is_sooner(&gpus, choices))) return BRAID_OK;
  braid_number others = choices->task_count ? choices->seconds : (braid_number){0};
  *choices = gpus;
  return braid_reasons_class(choosing, "the GPUs", others, choices);
}

const braid_policy braid_policy_heft = {
    .name = "heft",
    .summary = "earliest finish time, including transfers; never slower than one device or the GPUs alone, by the same "
               "numbers",
    .no_loss = true,
    .choose = heft_choose,
};
