/* Solutions: covering nodes by offers, ordering tasks, and simulating the schedule. */
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "schedule/policy.h"

/* --- covering ------------------------------------------------------------------------------------------------------
 */
braid_status braid_choices_init(const braid_choosing *choosing, braid_choices *out) {
  size_t count = choosing->problem->node_count;
  *out = (braid_choices){0};
  out->offer_of = braid_arena_alloc(choosing->arena, (count + 1) * sizeof *out->offer_of);
  out->reasons = braid_arena_alloc(choosing->arena, (count + 1) * sizeof *out->reasons);
  out->order = braid_arena_alloc(choosing->arena, (count + 1) * sizeof *out->order);
  out->start = braid_arena_alloc(choosing->arena, (count + 1) * sizeof *out->start);
  out->end = braid_arena_alloc(choosing->arena, (count + 1) * sizeof *out->end);
  if (!out->offer_of || !out->reasons || !out->order || !out->start || !out->end) return BRAID_NO_MEMORY;
  memset(out->offer_of, -1, count * sizeof *out->offer_of);
  return BRAID_OK;
}

bool braid_choices_free(const braid_choosing *choosing, const braid_choices *choices, int32_t index) {
  const braid_offer *offer = &choosing->problem->offers[index];
  if (choosing->refused[index]) return false;
  for (size_t i = 0; i < offer->node_count; i++)
    if (choices->offer_of[offer->nodes[i]] >= 0) return false;
  return true;
}

void braid_choices_take(const braid_choosing *choosing, braid_choices *choices, int32_t index, const char *reason) {
  const braid_offer *offer = &choosing->problem->offers[index];
  for (size_t i = 0; i < offer->node_count; i++) choices->offer_of[offer->nodes[i]] = index;
  choices->reasons[offer->nodes[offer->node_count - 1]] = reason;
}

int32_t braid_choices_task(const braid_problem *problem, const braid_choices *choices, int32_t node) {
  if (choices->offer_of[node] < 0) return node;
  const braid_offer *offer = &problem->offers[choices->offer_of[node]];
  return offer->nodes[offer->node_count - 1];
}

braid_status braid_choices_check(const braid_choosing *choosing, const braid_choices *choices) {
  const braid_problem *problem = choosing->problem;
  for (size_t n = 0; n < problem->node_count; n++)
    if (!problem->nodes[n].idle && choices->offer_of[n] < 0)
      return braid_fail(BRAID_UNSUPPORTED, "node %.120s: no offer is left for it", problem->nodes[n].name);
  return BRAID_OK;
}

/* --- the order of tasks --------------------------------------------------------------------------------------------
 */
/* Position of the depth-first search in a task: its next node, and the next value that this reads. */
typedef struct frame {
  int32_t task;
  size_t node, read;
} frame;

typedef struct walk {
  const braid_problem *problem;
  braid_choices *choices;
  uint8_t *marks; /* per task: 0 not visited, 1 on the path, 2 finished */
  frame *path;
  size_t depth;
} walk;

/* The nodes of a task. While cycles are being resolved, a node may be a task of its own without an offer. */
static size_t nodes_of(const walk *w, const int32_t *task, const int32_t **nodes) {
  int32_t index = w->choices->offer_of[*task];
  *nodes = index < 0 ? task : w->problem->offers[index].nodes;
  return index < 0 ? 1 : w->problem->offers[index].node_count;
}

/* The next task from which the last task of the path reads; -1: none. */
static int32_t next_before(const walk *w, frame *at) {
  const int32_t *nodes;
  size_t count = nodes_of(w, &at->task, &nodes);
  for (; at->node < count; at->node++, at->read = 0) {
    const braid_problem_node *node = &w->problem->nodes[nodes[at->node]];
    while (at->read < node->read_count) {
      int32_t before = w->problem->values[w->problem->reads[node->first_read + at->read++]].producer;
      if (before < 0) continue;
      int32_t task = braid_choices_task(w->problem, w->choices, before);
      if (task != at->task) return task;
    }
  }
  return -1;
}

/* The last region on the path from `task` to the path's end. Patterns alone cannot form a cycle, since only their last
 * node is read. */
static int32_t last_region(const walk *w, int32_t task) {
  int32_t last = -1;
  for (size_t i = w->depth + 1; i-- > 0;) {
    int32_t offer = w->choices->offer_of[w->path[i].task];
    if (offer > last && w->problem->offers[offer].region) last = offer;
    if (w->path[i].task == task) break;
  }
  return last;
}

static int32_t walk_from(walk *w, int32_t root) {
  braid_choices *choices = w->choices;
  w->depth = 0;
  w->path[0] = (frame){root, 0, 0};
  w->marks[root] = 1;
  for (;;) {
    int32_t before = next_before(w, &w->path[w->depth]);
    if (before < 0) {
      w->marks[w->path[w->depth].task] = 2;
      choices->order[choices->task_count++] = w->path[w->depth].task;
      if (w->depth-- == 0) return -1;
    } else if (w->marks[before] == 1) {
      return last_region(w, before);
    } else if (!w->marks[before]) {
      w->marks[before] = 1;
      w->path[++w->depth] = (frame){before, 0, 0};
    }
  }
}

braid_status braid_choices_sort(const braid_choosing *choosing, braid_choices *choices, int32_t *cycle) {
  const braid_problem *problem = choosing->problem;
  size_t count = problem->node_count;
  walk w = {.problem = problem, .choices = choices};
  w.marks = braid_zalloc_array(choosing->allocator, count + 1, sizeof *w.marks);
  w.path = braid_zalloc_array(choosing->allocator, count + 1, sizeof *w.path);
  braid_status status = w.marks && w.path ? BRAID_OK : BRAID_NO_MEMORY;
  *cycle = -1;
  choices->task_count = 0;
  for (size_t n = 0; n < count && *cycle < 0 && status == BRAID_OK; n++) {
    int32_t task = braid_choices_task(problem, choices, (int32_t)n);
    if (!problem->nodes[n].idle && task == (int32_t)n && !w.marks[n]) *cycle = walk_from(&w, task);
  }
  braid_free(choosing->allocator, w.marks);
  braid_free(choosing->allocator, w.path);
  return status;
}

/* --- simulation ----------------------------------------------------------------------------------------------------
 */
double braid_problem_arrival(const braid_problem *problem, int32_t value, int from_space, int space, double from,
                             double *bus_free) {
  if (from_space == space) return from;
  const braid_problem_link *link = &problem->links[from_space * problem->space_count + space];
  double start = link->bus >= 0 && bus_free[link->bus] > from ? bus_free[link->bus] : from;
  double end = start + link->seconds + (double)problem->values[value].bytes / link->bytes_per_second;
  if (link->bus >= 0) bus_free[link->bus] = end;
  return end;
}

typedef struct play {
  const braid_problem *problem;
  braid_choices *choices;
  double *arrived;  /* per value and space; < 0: not there yet */
  double *bus_free; /* per bus */
  double *free_at;  /* per device */
} play;

/* The time at which a value is available in a space; it is transferred once. */
static double bring(play *p, int32_t value, int space) {
  double *arrived = &p->arrived[(size_t)value * (size_t)p->problem->space_count + (size_t)space];
  if (*arrived >= 0) return *arrived;
  int32_t before = p->problem->values[value].producer;
  int from = 0;
  if (before >= 0) from = p->problem->devices[p->problem->offers[p->choices->offer_of[before]].device].space;
  double left = before < 0 ? 0 : p->choices->end[before];
  return *arrived = braid_problem_arrival(p->problem, value, from, space, left, p->bus_free);
}

static void play_task(play *p, int32_t task) {
  const braid_problem *problem = p->problem;
  int32_t index = p->choices->offer_of[task];
  const braid_offer *offer = &problem->offers[index];
  double start = p->free_at[offer->device];
  for (size_t i = 0; i < offer->node_count; i++) {
    const braid_problem_node *node = &problem->nodes[offer->nodes[i]];
    for (size_t k = 0; k < node->read_count; k++) {
      int32_t value = problem->reads[node->first_read + k], before = problem->values[value].producer;
      if (before >= 0 && p->choices->offer_of[before] == index) continue;
      double there = bring(p, value, problem->devices[offer->device].space);
      if (there > start) start = there;
    }
  }
  double end = start + offer->seconds.value;
  p->free_at[offer->device] = end;
  for (size_t i = 0; i < offer->node_count; i++) {
    p->choices->start[offer->nodes[i]] = start;
    p->choices->end[offer->nodes[i]] = end;
  }
}

/* A sum has the origin of its least reliable part. */
static void add_number(braid_number *sum, double value, braid_number_source source) {
  if (source < sum->source) sum->source = source;
  sum->value = sum->source == BRAID_UNKNOWN ? 0 : sum->value + value;
}

static void sum_up(play *p) {
  const braid_problem *problem = p->problem;
  braid_choices *choices = p->choices;
  braid_number joules = {0, BRAID_MEASURED};
  choices->seconds = (braid_number){0, BRAID_MEASURED};
  double last = 0;
  for (size_t i = 0; i < choices->task_count; i++) {
    const braid_offer *offer = &problem->offers[choices->offer_of[choices->order[i]]];
    if (choices->end[choices->order[i]] > last) last = choices->end[choices->order[i]];
    add_number(&choices->seconds, 0, offer->seconds.source);
    add_number(&joules, offer->joules.value, offer->joules.source);
  }
  for (size_t v = 0; v < problem->value_count; v++)
    if (problem->values[v].wanted) {
      double there = bring(p, (int32_t)v, 0);
      if (there > last) last = there;
    }
  add_number(&choices->seconds, last, BRAID_MODELLED);
  for (size_t d = 0; d < problem->device_count; d++) {
    const braid_number *idle = &problem->devices[d].idle_watts;
    add_number(&joules, idle->value * last, idle->source);
  }
  if (choices->seconds.source == BRAID_UNKNOWN) joules = (braid_number){0};
  choices->joules = joules;
}

braid_status braid_choices_play(const braid_choosing *choosing, braid_choices *choices) {
  const braid_problem *problem = choosing->problem;
  const braid_allocator *allocator = choosing->allocator;
  size_t places = problem->value_count * (size_t)problem->space_count;
  play p = {.problem = problem, .choices = choices};
  p.arrived = braid_zalloc_array(allocator, places + 1, sizeof *p.arrived);
  p.bus_free = braid_zalloc_array(allocator, (size_t)problem->bus_count + 1, sizeof *p.bus_free);
  p.free_at = braid_zalloc_array(allocator, problem->device_count + 1, sizeof *p.free_at);
  braid_status status = p.arrived && p.bus_free && p.free_at ? BRAID_OK : BRAID_NO_MEMORY;
  if (status == BRAID_OK) {
    for (size_t i = 0; i < places; i++) p.arrived[i] = -1;
    for (size_t i = 0; i < choices->task_count; i++) play_task(&p, choices->order[i]);
    sum_up(&p);
  }
  braid_free(allocator, p.arrived);
  braid_free(allocator, p.bus_free);
  braid_free(allocator, p.free_at);
  return status;
}
