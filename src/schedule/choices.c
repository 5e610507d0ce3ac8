/* Solutions: covering nodes by offers, and ordering tasks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "schedule/policy.h"

/* --- covering ------------------------------------------------------------------------------------------------------
 */
braid_status braid_choices_init(const braid_choosing *choosing, braid_choices *out) {
  size_t count = choosing->problem->node_count;
  size_t moves = choosing->problem->value_count; /* to the host, then each read by two devices: asked for, and taken */
  for (size_t n = 0; n < count; n++) moves += 2 * choosing->problem->nodes[n].read_count;
  *out = (braid_choices){0};
  out->offer_of = braid_arena_alloc(choosing->arena, (count + 1) * sizeof *out->offer_of);
  out->reasons = braid_arena_alloc(choosing->arena, (count + 1) * sizeof *out->reasons);
  out->order = braid_arena_alloc(choosing->arena, (count + 1) * sizeof *out->order);
  out->start = braid_arena_alloc(choosing->arena, (count + 1) * sizeof *out->start);
  out->end = braid_arena_alloc(choosing->arena, (count + 1) * sizeof *out->end);
  out->after = braid_arena_alloc(choosing->arena, (count + 1) * sizeof *out->after);
  out->moves = braid_arena_alloc(choosing->arena, (moves + 1) * sizeof *out->moves);
  if (!out->offer_of || !out->reasons || !out->order || !out->start || !out->end || !out->after || !out->moves)
    return BRAID_NO_MEMORY;
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

/* The node that stands in the way: the first without an offer that is not refused; without such a node the first that
 * is not covered. -1: all are. `able`: per node, all false. */
static int32_t first_uncovered(const braid_choosing *choosing, const braid_choices *choices, bool *able) {
  const braid_problem *problem = choosing->problem;
  int32_t first = -1;
  for (size_t i = 0; i < problem->offer_count; i++)
    for (size_t k = 0; k < problem->offers[i].node_count && !choosing->refused[i]; k++)
      able[problem->offers[i].nodes[k]] = true;
  for (size_t n = 0; n < problem->node_count; n++) {
    if (problem->nodes[n].idle || choices->offer_of[n] >= 0) continue;
    if (!able[n]) return (int32_t)n;
    if (first < 0) first = (int32_t)n;
  }
  return first;
}

static bool is_covered(const braid_problem *problem, const braid_choices *choices) {
  for (size_t n = 0; n < problem->node_count; n++)
    if (!problem->nodes[n].idle && choices->offer_of[n] < 0) return false;
  return true;
}

braid_status braid_choices_check(const braid_choosing *choosing, const braid_choices *choices) {
  const braid_problem *problem = choosing->problem;
  char why[512];
  if (is_covered(problem, choices)) return BRAID_OK;
  bool *able = braid_zalloc_array(choosing->allocator, problem->node_count + 1, sizeof *able);
  if (!able) return BRAID_NO_MEMORY;
  int32_t node = first_uncovered(choosing, choices, able);
  braid_caps_explain(choosing, node, why, sizeof why);
  if (!*why && able[node])
    snprintf(why, sizeof why, ": those that have it have other nodes as well, which run elsewhere");
  braid_free(choosing->allocator, able);
  return braid_fail(BRAID_UNSUPPORTED, "node %.120s: no offer is left for it%s", problem->nodes[node].name, why);
}

static bool is_alternative(const braid_choosing *choosing, const braid_choices *choices, int32_t index) {
  const braid_offer *offer = &choosing->problem->offers[index];
  int32_t task = offer->nodes[offer->node_count - 1], chosen = choices->offer_of[task];
  if (choosing->refused[index] || chosen < 0 || choosing->problem->offers[chosen].node_count != offer->node_count)
    return false;
  for (size_t i = 0; i < offer->node_count; i++)
    if (choices->offer_of[offer->nodes[i]] != chosen) return false;
  return true;
}

braid_status braid_choices_alternatives(const braid_choosing *choosing, const braid_choices *choices,
                                        braid_alternatives *out) {
  const braid_problem *problem = choosing->problem;
  out->first = braid_arena_alloc(choosing->arena, (problem->node_count + 3) * sizeof *out->first);
  out->offers = braid_arena_alloc(choosing->arena, (problem->offer_count + 1) * sizeof *out->offers);
  if (!out->first || !out->offers) return BRAID_NO_MEMORY;
  for (int round = 0; round < 2; round++) {
    for (size_t i = 0; i < problem->offer_count; i++) {
      int32_t index = choosing->ranks[i];
      if (!is_alternative(choosing, choices, index)) continue;
      const braid_offer *offer = &problem->offers[index];
      size_t task = (size_t)offer->nodes[offer->node_count - 1];
      if (round)
        out->offers[out->first[task + 1]++] = index;
      else
        out->first[task + 2]++; /* moved on to its place when the next round has filled what is before it */
    }
    for (size_t n = 2; !round && n < problem->node_count + 2; n++) out->first[n] += out->first[n - 1];
  }
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
