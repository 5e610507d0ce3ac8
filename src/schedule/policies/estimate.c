#include "schedule/policies/estimate.h"

#include <math.h>
#include <string.h>

#include "base/try.h"

/* Of tables: entries of values by spaces, and of devices by tasks. */
enum { kTable = 1 << 18, kMostDevices = 64 };
/* What starting a task takes, in terms of finding its path. */
enum { kStart = 6 };

typedef struct moment {
  double at;
  int32_t place;
  bool ends; /* else its operands are there */
} moment;

typedef struct arrival {
  double at;
  uint32_t run; /* in which it was set */
} arrival;

/* What a run needs of an offer, together in memory. */
typedef struct way {
  double seconds;
  const int *also;
  uint32_t also_count;
  int device, space, clock;
} way;

typedef struct braid_estimating {
  way *ways; /* per offer */
  uint32_t run;
  arrival *arrivals; /* values by spaces */
  double *bus_free;
  double *moving; /* values by kinds by kinds: seconds of a transfer */
  size_t *waiting;
  double *there; /* per place: when its operands are there */
  moment *moments;
  size_t moment_count;
  int32_t *ready; /* devices by places: heaps, the longest path first */
  size_t *ready_count;
  int32_t *aside;
  bool *busy;
  int *clocks;
  double *shortest; /* per device: the path of the task that it is taken to run last */
  double *load;     /* per device: seconds of work that it has still to start */
  double now;
} estimating;

static const way *way_of(const braid_estimator *e, const int32_t *offers, int32_t place) {
  return &e->running->ways[offers[place]];
}

static int space_of(const braid_estimator *e, const int32_t *offers, int32_t place) {
  return place < 0 ? 0 : way_of(e, offers, place)->space;
}

static double moving(const braid_estimator *e, int32_t value, int from, int to) {
  const braid_problem *p = e->problem;
  size_t kinds = (size_t)p->kind_count;
  return e->running
      ->moving[((size_t)value * kinds + (size_t)p->spaces[from].kind) * kinds + (size_t)p->spaces[to].kind];
}

/* --- heaps ---------------------------------------------------------------------------------------------------------
 */
static bool is_earlier(const moment *a, const moment *b) {
  if (a->at != b->at) return a->at < b->at;
  return a->place != b->place ? a->place < b->place : a->ends > b->ends;
}

static void push_moment(estimating *r, moment added) {
  size_t i = r->moment_count++;
  for (; i && is_earlier(&added, &r->moments[(i - 1) / 2]); i = (i - 1) / 2) r->moments[i] = r->moments[(i - 1) / 2];
  r->moments[i] = added;
}

static moment pop_moment(estimating *r) {
  moment first = r->moments[0], last = r->moments[--r->moment_count];
  size_t i = 0;
  for (size_t child; (child = 2 * i + 1) < r->moment_count; i = child) {
    if (child + 1 < r->moment_count && is_earlier(&r->moments[child + 1], &r->moments[child])) child++;
    if (!is_earlier(&r->moments[child], &last)) break;
    r->moments[i] = r->moments[child];
  }
  r->moments[i] = last;
  return first;
}

static bool is_longer(const braid_estimator *e, int32_t a, int32_t b) {
  return e->tail[a] != e->tail[b] ? e->tail[a] > e->tail[b] : a < b;
}

static void push_ready(braid_estimator *e, size_t device, int32_t place) {
  int32_t *heap = e->running->ready + device * e->count;
  size_t i = e->running->ready_count[device]++;
  for (; i && is_longer(e, place, heap[(i - 1) / 2]); i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
  heap[i] = place;
}

static int32_t pop_ready(braid_estimator *e, size_t device) {
  int32_t *heap = e->running->ready + device * e->count;
  size_t count = --e->running->ready_count[device], i = 0;
  int32_t first = heap[0], last = heap[count];
  for (size_t child; (child = 2 * i + 1) < count; i = child) {
    if (child + 1 < count && is_longer(e, heap[child + 1], heap[child])) child++;
    if (!is_longer(e, heap[child], last)) break;
    heap[i] = heap[child];
  }
  heap[i] = last;
  return first;
}

/* --- the longest paths ---------------------------------------------------------------------------------------------
 */
static int device_at(const way *at, size_t index) {
  return index < at->also_count ? at->also[index] : at->device;
}

/* False: one of them, or the work of a device, takes longer than that. */
static bool find_tails(braid_estimator *e, const int32_t *offers, double seconds) {
  memset(e->tail, 0, e->count * sizeof *e->tail);
  memset(e->running->load, 0, e->problem->device_count * sizeof *e->running->load);
  for (size_t i = e->count; i-- > 0;) {
    const way *at = way_of(e, offers, (int32_t)i);
    e->work++;
    int space = at->space;
    double tail = e->tail[i] += at->seconds;
    if (tail > seconds) return false;
    for (size_t k = 0; k <= at->also_count; k++)
      if ((e->running->load[device_at(at, k)] += at->seconds) > seconds) return false;
    for (size_t r = e->first_read[i]; r < e->first_read[i + 1]; r++) {
      int32_t value = e->reads[r], before = e->producer[value];
      int from = space_of(e, offers, before);
      double path = from == space ? tail : tail + moving(e, value, from, space);
      if (before < 0) {
        if (path > seconds) return false;
      } else if (path > e->tail[before]) {
        e->tail[before] = path;
      }
    }
  }
  return true;
}

/* --- playing -------------------------------------------------------------------------------------------------------
 */
static double bring(braid_estimator *e, int32_t value, int from, int to) {
  estimating *r = e->running;
  arrival *known = &r->arrivals[(size_t)value * (size_t)e->problem->space_count + (size_t)to];
  if (from == to) return r->now;
  if (known->run == r->run) return known->at;
  int out = e->problem->spaces[from].out_bus, in = e->problem->spaces[to].in_bus;
  double start = r->now;
  if (out >= 0 && r->bus_free[out] > start) start = r->bus_free[out];
  if (in >= 0 && r->bus_free[in] > start) start = r->bus_free[in];
  double end = start + moving(e, value, from, to);
  if (out >= 0) r->bus_free[out] = end;
  if (in >= 0) r->bus_free[in] = end;
  *known = (arrival){end, r->run};
  return end;
}

static void become_ready(braid_estimator *e, const int32_t *offers, int32_t place) {
  estimating *r = e->running;
  if (r->there[place] <= r->now)
    push_ready(e, (size_t)way_of(e, offers, place)->device, place);
  else
    push_moment(r, (moment){r->there[place], place, false});
}

/* Returns when the host has it, if it wants it. */
static double pass_on(braid_estimator *e, const int32_t *offers, int32_t value) {
  estimating *r = e->running;
  int from = space_of(e, offers, e->producer[value]);
  double wanted = e->problem->values[value].wanted ? bring(e, value, from, 0) : 0;
  for (size_t i = e->first_reader[value]; i < e->first_reader[value + 1]; i++) {
    int32_t reader = e->readers[i];
    double at = bring(e, value, from, space_of(e, offers, reader));
    if (at > r->there[reader]) r->there[reader] = at;
    if (--r->waiting[reader] == 0) become_ready(e, offers, reader);
  }
  return wanted;
}

/* Starts the ready task with the longest path that finds all its devices idle. Returns when the step ends at least:
 * after that path, and after all that its devices have still to do; -1: nothing can start. */
static double start_ready(braid_estimator *e, const int32_t *offers, size_t device, size_t *started) {
  estimating *r = e->running;
  size_t aside = 0;
  int32_t place = -1;
  const way *at = NULL;
  while (place < 0 && r->ready_count[device]) {
    bool idle = true;
    place = pop_ready(e, device);
    at = way_of(e, offers, place);
    for (size_t k = 0; k < at->also_count; k++) idle &= !r->busy[at->also[k]];
    if (idle) break;
    r->aside[aside++] = place;
    place = -1;
  }
  while (aside) push_ready(e, device, r->aside[--aside]);
  if (place < 0) return -1;
  double change = 0;
  for (size_t k = 0; k <= at->also_count; k++) {
    int d = device_at(at, k);
    double seconds = e->problem->devices[d].clock_seconds;
    if (r->clocks[d] != at->clock && seconds > change) change = seconds;
    r->clocks[d] = at->clock;
    r->busy[d] = true;
  }
  double begin = r->now + change, least = begin + e->tail[place];
  for (size_t k = 0; k <= at->also_count; k++) {
    double *load = &r->load[device_at(at, k)];
    if (begin + *load > least) least = begin + *load;
    *load -= at->seconds;
  }
  e->sequence[(*started)++] = place;
  e->work += kStart;
  push_moment(r, (moment){begin + at->seconds, place, true});
  return least;
}

/* A device begins at the clock at which it ends: that of the task with the shortest path, which it runs last, mostly.
 */
static void begin_clocks(braid_estimator *e, const int32_t *offers) {
  estimating *r = e->running;
  for (size_t d = 0; d < e->problem->device_count; d++) {
    r->shortest[d] = INFINITY;
    r->clocks[d] = 0;
  }
  for (size_t i = 0; i < e->count; i++) {
    const way *at = way_of(e, offers, (int32_t)i);
    for (size_t k = 0; k <= at->also_count; k++) {
      int d = device_at(at, k);
      if (e->tail[i] > r->shortest[d]) continue;
      r->shortest[d] = e->tail[i];
      r->clocks[d] = at->clock;
    }
  }
}

static void begin(braid_estimator *e, const int32_t *offers) {
  estimating *r = e->running;
  r->run++;
  r->now = 0;
  r->moment_count = 0;
  memset(r->bus_free, 0, (size_t)e->problem->bus_count * sizeof *r->bus_free);
  memset(r->busy, 0, e->problem->device_count * sizeof *r->busy);
  begin_clocks(e, offers);
  memset(r->ready_count, 0, e->problem->device_count * sizeof *r->ready_count);
  memset(r->there, 0, e->count * sizeof *r->there);
  for (size_t i = 0; i < e->count; i++) r->waiting[i] = e->first_read[i + 1] - e->first_read[i];
}

static void finish(braid_estimator *e, const int32_t *offers, int32_t place, double *last) {
  const way *at = way_of(e, offers, place);
  for (size_t k = 0; k <= at->also_count; k++) e->running->busy[device_at(at, k)] = false;
  if (e->running->now > *last) *last = e->running->now;
  for (size_t i = e->first_result[place]; i < e->first_result[place + 1]; i++) {
    double wanted = pass_on(e, offers, e->results[i]);
    if (wanted > *last) *last = wanted;
  }
}

bool braid_estimator_run(braid_estimator *e, const int32_t *offers, double own, double seconds, double joules) {
  estimating *r = e->running;
  double last = 0, most = e->idle_watts > 0 ? (joules - own) / e->idle_watts : seconds;
  size_t started = 0;
  if (own > joules) return false;
  if (most > seconds) most = seconds; /* what it may take, by its energy too */
  if (!find_tails(e, offers, most)) return false;
  begin(e, offers);
  for (size_t i = 0; i < e->count; i++)
    if (!r->waiting[i]) become_ready(e, offers, (int32_t)i);
  for (size_t v = 0; v < e->problem->value_count; v++)
    if (e->producer[v] < 0) (void)pass_on(e, offers, (int32_t)v);
  for (;;) {
    for (size_t d = 0; d < e->problem->device_count; d++)
      if (!r->busy[d] && r->ready_count[d] && start_ready(e, offers, d, &started) > most) return false;
    if (!r->moment_count) break;
    r->now = r->moments[0].at;
    while (r->moment_count && r->moments[0].at <= r->now) {
      moment next = pop_moment(r);
      if (next.ends)
        finish(e, offers, next.place, &last);
      else
        push_ready(e, (size_t)way_of(e, offers, next.place)->device, next.place);
    }
  }
  e->seconds = last;
  e->joules = own + e->idle_watts * last;
  return started == e->count && last <= most;
}

/* --- making --------------------------------------------------------------------------------------------------------
 */
typedef struct making {
  const braid_improving *m;
  braid_estimator *e;
  int32_t *place_of; /* per node; -1: none */
} making;

/* Values that places read of others, in `reads`; and who reads them. */
static void add_reads(const making *k, const braid_offer *offer, size_t place, size_t *count) {
  const braid_problem *problem = k->e->problem;
  size_t first = *count;
  for (size_t i = 0; i < offer->node_count; i++) {
    const braid_problem_node *node = &problem->nodes[offer->nodes[i]];
    for (size_t r = 0; r < node->read_count; r++) {
      int32_t value = problem->reads[node->first_read + r];
      bool known = k->e->producer[value] == (int32_t)place;
      for (size_t s = first; s < *count && !known; s++) known = k->e->reads[s] == value;
      if (!known) k->e->reads[(*count)++] = value;
    }
  }
}

static void list_edges(const making *k) {
  braid_estimator *e = k->e;
  const braid_choices *best = &k->m->best;
  size_t reads = 0;
  for (size_t v = 0; v < e->problem->value_count; v++) {
    int32_t producer = e->problem->values[v].producer;
    e->producer[v] = producer < 0 ? -1 : k->place_of[producer];
  }
  for (size_t i = 0; i < e->count; i++) {
    add_reads(k, &e->problem->offers[best->offer_of[e->task[i]]], i, &reads);
    e->first_read[i + 1] = reads;
  }
  for (size_t r = 0; r < reads; r++) e->first_reader[e->reads[r] + 2]++;
  for (size_t v = 2; v < e->problem->value_count + 2; v++) e->first_reader[v] += e->first_reader[v - 1];
  for (size_t n = 0; n < e->problem->node_count; n++) { /* in the order of nodes, in which the simulator sends */
    if (e->problem->nodes[n].idle || e->task[k->place_of[n]] != (int32_t)n) continue;
    size_t i = (size_t)k->place_of[n];
    for (size_t r = e->first_read[i]; r < e->first_read[i + 1]; r++)
      e->readers[e->first_reader[e->reads[r] + 1]++] = (int32_t)i;
  }
  for (size_t v = 0; v < e->problem->value_count; v++)
    if (e->producer[v] >= 0) e->first_result[e->producer[v] + 2]++;
  for (size_t i = 2; i < e->count + 2; i++) e->first_result[i] += e->first_result[i - 1];
  for (size_t v = 0; v < e->problem->value_count; v++)
    if (e->producer[v] >= 0) e->results[e->first_result[e->producer[v] + 1]++] = (int32_t)v;
}

static bool is_known(const braid_offer *offer) {
  return offer->seconds.source != BRAID_UNKNOWN && offer->joules.source != BRAID_UNKNOWN;
}

static void list_ways(const making *k) {
  const braid_alternatives *all = &k->m->alternatives;
  size_t count = 0;
  for (size_t i = 0; i < k->e->count; i++) {
    for (size_t a = all->first[k->e->task[i]]; a < all->first[k->e->task[i] + 1]; a++)
      if (is_known(&k->e->problem->offers[all->offers[a]])) k->e->ways[count++] = all->offers[a];
    k->e->first_way[i + 1] = count;
  }
}

static void find_costs(const making *k) {
  const braid_problem *p = k->e->problem;
  size_t kinds = (size_t)p->kind_count;
  for (size_t i = 0; i < p->offer_count; i++) {
    const braid_offer *offer = &p->offers[i];
    k->e->own[i] = braid_offer_own_joules(p, offer);
    k->e->running->ways[i] = (way){
        offer->seconds.value, offer->also, (uint32_t)offer->also_count, offer->device, p->devices[offer->device].space,
        offer->clock};
  }
  for (size_t d = 0; d < p->device_count; d++) k->e->idle_watts += p->devices[d].idle_watts.value;
  for (size_t v = 0; v < p->value_count; v++)
    for (size_t link = 0; link < kinds * kinds; link++)
      k->e->running->moving[v * kinds * kinds + link] =
          p->links[link].seconds + (double)p->values[v].bytes / p->links[link].bytes_per_second;
}

static bool is_possible(const braid_problem *p, size_t tasks) {
  size_t kinds = (size_t)p->kind_count, spaces = (size_t)p->space_count;
  if (p->cap_watts.source != BRAID_UNKNOWN || p->device_count > kMostDevices || !tasks) return false;
  for (size_t d = 0; d < p->device_count; d++) {
    const braid_problem_device *device = &p->devices[d];
    if (device->slower_beside.value > 0 || device->slower_with_traffic.value > 0) return false;
  }
  return p->value_count <= kTable / spaces && p->value_count <= kTable / (kinds * kinds) &&
         tasks <= kTable / p->device_count;
}

static bool estimator_allocate(making *k, size_t reads, braid_arena *arena) {
  braid_estimator *e = k->e;
  const braid_problem *p = e->problem;
  size_t kinds = (size_t)p->kind_count, devices = p->device_count + 1, values = p->value_count + 3,
         tasks = e->count + 3;
  estimating *r = e->running = braid_arena_alloc(arena, sizeof *r);
  k->place_of = braid_arena_alloc(arena, (p->node_count + 1) * sizeof *k->place_of);
  e->own = braid_arena_alloc(arena, (p->offer_count + 1) * sizeof *e->own);
  e->first_read = braid_arena_alloc(arena, tasks * sizeof *e->first_read);
  e->first_result = braid_arena_alloc(arena, tasks * sizeof *e->first_result);
  e->first_way = braid_arena_alloc(arena, tasks * sizeof *e->first_way);
  e->first_reader = braid_arena_alloc(arena, values * sizeof *e->first_reader);
  e->reads = braid_arena_alloc(arena, (reads + 1) * sizeof *e->reads);
  e->readers = braid_arena_alloc(arena, (reads + 1) * sizeof *e->readers);
  e->results = braid_arena_alloc(arena, values * sizeof *e->results);
  e->ways = braid_arena_alloc(arena, (p->offer_count + 1) * sizeof *e->ways);
  e->producer = braid_arena_alloc(arena, values * sizeof *e->producer);
  e->sequence = braid_arena_alloc(arena, tasks * sizeof *e->sequence);
  e->tail = braid_arena_alloc(arena, tasks * sizeof *e->tail);
  if (!r || !k->place_of || !e->own || !e->first_read || !e->first_result || !e->first_way || !e->first_reader ||
      !e->reads || !e->readers || !e->results || !e->ways || !e->producer || !e->sequence || !e->tail)
    return false;
  r->ways = braid_arena_alloc(arena, (p->offer_count + 1) * sizeof *r->ways);
  r->arrivals = braid_arena_alloc(arena, values * (size_t)p->space_count * sizeof *r->arrivals);
  r->bus_free = braid_arena_alloc(arena, ((size_t)p->bus_count + 1) * sizeof *r->bus_free);
  r->moving = braid_arena_alloc(arena, values * kinds * kinds * sizeof *r->moving);
  r->waiting = braid_arena_alloc(arena, tasks * sizeof *r->waiting);
  r->there = braid_arena_alloc(arena, tasks * sizeof *r->there);
  r->moments = braid_arena_alloc(arena, (2 * tasks + devices) * sizeof *r->moments);
  r->ready = braid_arena_alloc(arena, tasks * devices * sizeof *r->ready);
  r->ready_count = braid_arena_alloc(arena, devices * sizeof *r->ready_count);
  r->aside = braid_arena_alloc(arena, tasks * sizeof *r->aside);
  r->busy = braid_arena_alloc(arena, devices * sizeof *r->busy);
  r->clocks = braid_arena_alloc(arena, devices * sizeof *r->clocks);
  r->shortest = braid_arena_alloc(arena, devices * sizeof *r->shortest);
  r->load = braid_arena_alloc(arena, devices * sizeof *r->load);
  return r->ways && r->arrivals && r->bus_free && r->moving && r->waiting && r->there && r->moments && r->ready &&
         r->ready_count && r->aside && r->busy && r->clocks && r->shortest && r->load;
}

braid_status braid_estimator_create(const braid_improving *improving, braid_estimator **out) {
  const braid_problem *problem = improving->choosing->problem;
  const braid_choices *best = &improving->best;
  braid_arena *arena = improving->choosing->arena;
  size_t reads = 0;
  *out = NULL;
  if (!is_possible(problem, best->task_count)) return BRAID_OK;
  making k = {.m = improving, .e = braid_arena_alloc(arena, sizeof *k.e)};
  int32_t *task = braid_arena_alloc(arena, best->task_count * sizeof *task);
  if (!k.e || !task) return BRAID_NO_MEMORY;
  memcpy(task, best->order, best->task_count * sizeof *task);
  *k.e = (braid_estimator){.problem = problem, .count = best->task_count, .task = task};
  for (size_t n = 0; n < problem->node_count; n++) reads += problem->nodes[n].read_count;
  if (!estimator_allocate(&k, reads, arena)) return BRAID_NO_MEMORY;
  memset(k.place_of, -1, problem->node_count * sizeof *k.place_of);
  for (size_t i = 0; i < k.e->count; i++) {
    const braid_offer *offer = &problem->offers[best->offer_of[task[i]]];
    for (size_t n = 0; n < offer->node_count; n++) k.place_of[offer->nodes[n]] = (int32_t)i;
  }
  list_edges(&k);
  list_ways(&k);
  find_costs(&k);
  *out = k.e;
  return BRAID_OK;
}
