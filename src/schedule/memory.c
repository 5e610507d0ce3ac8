#include "schedule/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"

/* Something in a space, from a time on until another. */
typedef struct hold {
  int32_t what; /* a value; ~index: something kept */
  int space;
  size_t bytes;
  double from, to;
} hold;

/* At one instant what ends makes room first; what takes no time ends after all that begins. */
typedef enum edge_kind { EDGE_ENDS, EDGE_BEGINS, EDGE_IS_OVER } edge_kind;
typedef struct edge {
  double at;
  int space;
  edge_kind kind;
  int32_t hold;
} edge;

typedef struct ledger {
  const braid_problem *problem;
  const braid_choices *choices;
  const braid_allocator *allocator;
  bool every;        /* also what is in spaces without a limit */
  braid_move *moves; /* by value, then by space; `end`: of the last reader */
  size_t *first_move;
  double *home_end;         /* per value: until when it is where it was made */
  bool *in_place, *is_read; /* per value */
  int32_t *stamps;          /* per space */
  bool *borrows;            /* per space: of a device without memory of its own */
  hold *holds;
  size_t hold_count;
  edge *edges;
  size_t edge_count;
} ledger;

static size_t capacity_of(const braid_problem *problem, int space) {
  return problem->capacities && space > 0 ? problem->capacities[space] : 0;
}

static const braid_problem_device *device_of_node(const braid_problem *problem, const braid_choices *choices,
                                                  int32_t node) {
  int32_t offer = node < 0 ? -1 : choices->offer_of[node];
  return offer < 0 ? NULL : &problem->devices[problem->offers[offer].device];
}

/* Where a value is made: the host has inputs, and views have no place of their own. */
static int home_of(const ledger *l, int32_t value) {
  const braid_problem_device *device = device_of_node(l->problem, l->choices, l->problem->values[value].producer);
  return device ? device->space : 0;
}

/* --- how long things are held --------------------------------------------------------------------------------------
 */
static int by_value(const void *left, const void *right) {
  const braid_move *a = left, *b = right;
  if (a->value != b->value) return a->value < b->value ? -1 : 1;
  return (a->space > b->space) - (a->space < b->space);
}

static void sort_moves(ledger *l) {
  const braid_choices *choices = l->choices;
  memcpy(l->moves, choices->moves, choices->move_count * sizeof *l->moves);
  qsort(l->moves, choices->move_count, sizeof *l->moves, by_value);
  for (size_t i = 0; i < choices->move_count; i++) {
    l->first_move[l->moves[i].value + 1]++;
    l->home_end[l->moves[i].value] = fmax(l->home_end[l->moves[i].value], l->moves[i].end);
  }
  for (size_t v = 0; v < l->problem->value_count; v++) l->first_move[v + 1] += l->first_move[v];
}

static void read_value(ledger *l, int32_t value, const braid_problem_device *device, double end) {
  int home = home_of(l, value);
  l->is_read[value] = true;
  if (home == device->space || device->borrows) l->home_end[value] = fmax(l->home_end[value], end);
  braid_move key = {.value = value, .space = device->space};
  size_t first = l->first_move[value], count = l->first_move[value + 1] - first;
  braid_move *move = bsearch(&key, l->moves + first, count, sizeof key, by_value);
  if (move) move->end = fmax(move->end, end);
}

static void find_ends(ledger *l) {
  const braid_problem *problem = l->problem;
  sort_moves(l);
  for (size_t n = 0; n < problem->node_count; n++) {
    const braid_problem_device *device = device_of_node(problem, l->choices, (int32_t)n);
    for (size_t r = 0; device && r < problem->nodes[n].read_count; r++)
      read_value(l, problem->reads[problem->nodes[n].first_read + r], device, l->choices->end[n]);
  }
  for (size_t i = 0; i < problem->kept_count; i++) {
    const braid_problem_kept *kept = &problem->kept[i];
    for (size_t u = 0; u < kept->user_count && kept->next >= 0; u++)
      if (problem->users[kept->first_user + u] == problem->values[kept->next].producer) l->in_place[kept->next] = true;
  }
  for (size_t d = 0; d < problem->device_count; d++)
    if (problem->devices[d].borrows) l->borrows[problem->devices[d].space] = true;
}

static void add_hold(ledger *l, int32_t what, int space, size_t bytes, double from, double to) {
  if (!bytes || l->borrows[space] || (!l->every && !capacity_of(l->problem, space))) return;
  l->holds[l->hold_count] = (hold){what, space, bytes, from, to};
  l->edges[l->edge_count++] = (edge){from, space, EDGE_BEGINS, (int32_t)l->hold_count};
  l->edges[l->edge_count++] = (edge){to, space, to > from ? EDGE_ENDS : EDGE_IS_OVER, (int32_t)l->hold_count};
  l->hold_count++;
}

static void hold_value(ledger *l, int32_t v) {
  const braid_problem_value *value = &l->problem->values[v];
  const braid_problem_device *device = device_of_node(l->problem, l->choices, value->producer);
  double start = device ? l->choices->start[value->producer] : 0;
  if (device && !l->in_place[v]) {
    double end = fmax(l->home_end[v], l->choices->end[value->producer]);
    add_hold(l, v, device->space, value->bytes, start, value->wanted && !device->space ? INFINITY : end);
  }
  if (value->producer < 0 && l->is_read[v]) add_hold(l, v, 0, value->bytes, 0, INFINITY);
  for (size_t i = l->first_move[v]; i < l->first_move[v + 1]; i++) {
    const braid_move *move = &l->moves[i];
    double from = device && device->borrows ? start : move->start;
    add_hold(l, v, move->space, value->bytes, from, value->wanted && !move->space ? INFINITY : move->end);
  }
}

static void hold_kept(ledger *l, size_t index) {
  const braid_problem_kept *kept = &l->problem->kept[index];
  for (size_t u = 0; u < kept->user_count; u++) {
    const braid_problem_device *device =
        device_of_node(l->problem, l->choices, l->problem->users[kept->first_user + u]);
    if (!device || l->stamps[device->space] == (int32_t)index + 1) continue;
    l->stamps[device->space] = (int32_t)index + 1;
    add_hold(l, ~(int32_t)index, device->space, kept->bytes, 0, INFINITY);
  }
}

static int by_space_and_time(const void *left, const void *right) {
  const edge *a = left, *b = right;
  if (a->space != b->space) return a->space < b->space ? -1 : 1;
  if (a->at != b->at) return a->at < b->at ? -1 : 1;
  if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
  return (a->hold > b->hold) - (a->hold < b->hold);
}

static void ledger_free(ledger *l) {
  void *memory[] = {l->moves,  l->first_move, l->home_end, l->in_place, l->is_read,
                    l->stamps, l->borrows,    l->holds,    l->edges};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) braid_free(l->allocator, memory[i]);
}

/* `every`: in all spaces, else in those with a limit. To be freed in any case. */
static braid_status ledger_make(const braid_problem *problem, const braid_choices *choices,
                                const braid_allocator *allocator, bool every, ledger *l) {
  size_t values = problem->value_count + 2, spaces = (size_t)problem->space_count + 1;
  size_t holds = values + choices->move_count;
  for (size_t i = 0; i < problem->kept_count; i++) holds += problem->kept[i].user_count;
  *l = (ledger){.problem = problem, .choices = choices, .allocator = allocator, .every = every};
  l->moves = braid_zalloc_array(allocator, choices->move_count + 1, sizeof *l->moves);
  l->first_move = braid_zalloc_array(allocator, values, sizeof *l->first_move);
  l->home_end = braid_zalloc_array(allocator, values, sizeof *l->home_end);
  l->in_place = braid_zalloc_array(allocator, values, sizeof *l->in_place);
  l->is_read = braid_zalloc_array(allocator, values, sizeof *l->is_read);
  l->stamps = braid_zalloc_array(allocator, spaces, sizeof *l->stamps);
  l->borrows = braid_zalloc_array(allocator, spaces, sizeof *l->borrows);
  l->holds = braid_zalloc_array(allocator, holds, sizeof *l->holds);
  l->edges = braid_zalloc_array(allocator, 2 * holds, sizeof *l->edges);
  if (!l->moves || !l->first_move || !l->home_end || !l->in_place || !l->is_read || !l->stamps || !l->borrows ||
      !l->holds || !l->edges)
    return BRAID_NO_MEMORY;
  find_ends(l);
  for (size_t v = 0; v < problem->value_count; v++) hold_value(l, (int32_t)v);
  for (size_t i = 0; i < problem->kept_count; i++) hold_kept(l, i);
  qsort(l->edges, l->edge_count, sizeof *l->edges, by_space_and_time);
  return BRAID_OK;
}

/* --- peaks ---------------------------------------------------------------------------------------------------------
 */
static void find_peaks(const ledger *l, braid_memory_peak *out) {
  size_t now = 0;
  for (size_t i = 0; i < l->edge_count; i++) {
    const edge *at = &l->edges[i];
    braid_memory_peak *peak = &out[at->space];
    size_t bytes = l->holds[at->hold].bytes;
    if (i && l->edges[i - 1].space != at->space) now = 0;
    now = at->kind == EDGE_BEGINS ? now + bytes : now - bytes;
    if (now > peak->bytes) *peak = (braid_memory_peak){now, at->at};
  }
}

static braid_status peaks_of(const braid_problem *problem, const braid_choices *choices,
                             const braid_allocator *allocator, bool every, braid_memory_peak *out) {
  ledger l;
  braid_status status = ledger_make(problem, choices, allocator, every, &l);
  memset(out, 0, (size_t)problem->space_count * sizeof *out);
  if (status == BRAID_OK) find_peaks(&l, out);
  ledger_free(&l);
  return status;
}

braid_status braid_memory_peaks(const braid_problem *problem, const braid_choices *choices,
                                const braid_allocator *allocator, braid_memory_peak *out) {
  return peaks_of(problem, choices, allocator, true, out);
}

static bool is_over(const braid_problem *problem, int space, const braid_memory_peak *peaks) {
  size_t capacity = capacity_of(problem, space);
  return capacity && peaks[space].bytes > capacity;
}

braid_status braid_memory_fits(const braid_choosing *choosing, const braid_choices *choices, bool *fits) {
  const braid_problem *problem = choosing->problem;
  *fits = true;
  if (!problem->capacities) return BRAID_OK;
  braid_memory_peak *peaks = braid_zalloc_array(choosing->allocator, (size_t)problem->space_count + 1, sizeof *peaks);
  if (!peaks) return BRAID_NO_MEMORY;
  braid_status status = peaks_of(problem, choices, choosing->allocator, false, peaks);
  for (int s = 0; s < problem->space_count; s++) *fits &= !is_over(problem, s, peaks);
  braid_free(choosing->allocator, peaks);
  return status;
}

/* --- making room ---------------------------------------------------------------------------------------------------
 */
/* Lists for each of many: items[first[i]] to items[first[i + 1]]. */
typedef struct lists {
  size_t *first;
  int32_t *items;
} lists;

typedef struct crowd {
  const braid_choosing *choosing;
  const braid_choices *choices;
  const ledger *ledger;
  lists offers;  /* per node: that have it */
  lists readers; /* per value: nodes */
  int32_t *heap; /* holds that are there now, the largest first */
  size_t heap_count;
  bool *gone; /* per hold: it has ended, or was made to go */
  size_t count;
} crowd;

static braid_status make_lists(const braid_allocator *allocator, size_t count, size_t items, lists *out) {
  out->first = braid_zalloc_array(allocator, count + 2, sizeof *out->first);
  out->items = braid_zalloc_array(allocator, items + 1, sizeof *out->items);
  return out->first && out->items ? BRAID_OK : BRAID_NO_MEMORY;
}

/* Lengths are counted into first[i + 2], summed up, and moved on to their places while the lists are filled. */
static void sum_lists(lists *l, size_t count) {
  for (size_t i = 2; i < count + 2; i++) l->first[i] += l->first[i - 1];
}

static braid_status list_all(crowd *c) {
  const braid_problem *problem = c->choosing->problem;
  size_t members = 0, reads = 0;
  for (size_t i = 0; i < problem->offer_count; i++) members += problem->offers[i].node_count;
  for (size_t n = 0; n < problem->node_count; n++) reads += problem->nodes[n].read_count;
  BRAID_TRY(make_lists(c->choosing->allocator, problem->node_count, members, &c->offers));
  BRAID_TRY(make_lists(c->choosing->allocator, problem->value_count, reads, &c->readers));
  for (int round = 0; round < 2; round++) {
    for (size_t i = 0; i < problem->offer_count; i++)
      for (size_t k = 0; k < problem->offers[i].node_count; k++) {
        size_t node = (size_t)problem->offers[i].nodes[k];
        if (round)
          c->offers.items[c->offers.first[node + 1]++] = (int32_t)i;
        else
          c->offers.first[node + 2]++;
      }
    for (size_t n = 0; n < problem->node_count; n++)
      for (size_t r = 0; r < problem->nodes[n].read_count; r++) {
        size_t value = (size_t)problem->reads[problem->nodes[n].first_read + r];
        if (round)
          c->readers.items[c->readers.first[value + 1]++] = (int32_t)n;
        else
          c->readers.first[value + 2]++;
      }
    if (round) break;
    sum_lists(&c->offers, problem->node_count);
    sum_lists(&c->readers, problem->value_count);
  }
  return BRAID_OK;
}

static bool is_in(const braid_problem *problem, const braid_offer *offer, int space) {
  return problem->devices[offer->device].space == space;
}

/* Whether each node of the node's task could run alone in another space. */
static bool could_go(const crowd *c, int32_t node, int space) {
  const braid_problem *problem = c->choosing->problem;
  const braid_offer *task = &problem->offers[c->choices->offer_of[node]];
  for (size_t k = 0; k < task->node_count; k++) {
    size_t n = (size_t)task->nodes[k];
    bool found = false;
    for (size_t i = c->offers.first[n]; i < c->offers.first[n + 1] && !found; i++) {
      const braid_offer *offer = &problem->offers[c->offers.items[i]];
      found = offer->node_count == 1 && !c->choosing->refused[c->offers.items[i]] && !is_in(problem, offer, space);
    }
    if (!found) return false;
  }
  return true;
}

static void send_away(crowd *c, int32_t node, int space) {
  const braid_problem *problem = c->choosing->problem;
  const braid_offer *task = &problem->offers[c->choices->offer_of[node]];
  bool any = false;
  for (size_t k = 0; k < task->node_count; k++)
    for (size_t i = c->offers.first[task->nodes[k]]; i < c->offers.first[task->nodes[k] + 1]; i++) {
      int32_t index = c->offers.items[i];
      if (c->choosing->refused[index] || !is_in(problem, &problem->offers[index], space)) continue;
      c->choosing->refused[index] = true;
      any = true;
    }
  c->count += any;
}

/* The nodes in its space that make, read or use what is held, one after the other from *at = 0 on; -1: no more. */
static int32_t next_of(const crowd *c, const hold *h, size_t *at) {
  const braid_problem *problem = c->choosing->problem;
  bool kept = h->what < 0;
  const int32_t *nodes =
      kept ? problem->users + problem->kept[~h->what].first_user : c->readers.items + c->readers.first[h->what];
  size_t count = kept ? problem->kept[~h->what].user_count : c->readers.first[h->what + 1] - c->readers.first[h->what];
  while (*at <= count) {
    size_t i = (*at)++;
    int32_t node = i < count ? nodes[i] : kept ? -1 : problem->values[h->what].producer;
    const braid_problem_device *device = device_of_node(problem, c->choices, node);
    if (device && device->space == h->space) return node;
  }
  return -1;
}

/* What was sent to where the policy first meant its readers to be, and all of them run elsewhere: they are not to be
 * meant to run there. */
static bool turn_away(crowd *c, const hold *h) {
  size_t before = c->count;
  for (size_t i = c->readers.first[h->what]; i < c->readers.first[h->what + 1]; i++)
    if (device_of_node(c->choosing->problem, c->choices, c->readers.items[i]))
      send_away(c, c->readers.items[i], h->space);
  return c->count > before;
}

/* Sends all away that is there because of it; false: something must stay. */
static bool make_go(crowd *c, const hold *h) {
  size_t at = 0, found = 0;
  for (int32_t node; (node = next_of(c, h, &at)) >= 0; found++)
    if (!could_go(c, node, h->space)) return false;
  at = 0;
  for (int32_t node; (node = next_of(c, h, &at)) >= 0;)
    if (could_go(c, node, h->space)) send_away(c, node, h->space);
  return found > 0 || (h->what >= 0 && turn_away(c, h));
}

static bool is_larger(const crowd *c, int32_t a, int32_t b) {
  const hold *x = &c->ledger->holds[a], *y = &c->ledger->holds[b];
  return x->bytes != y->bytes ? x->bytes > y->bytes : a < b;
}

static void push_hold(crowd *c, int32_t added) {
  size_t i = c->heap_count++;
  for (; i && is_larger(c, added, c->heap[(i - 1) / 2]); i = (i - 1) / 2) c->heap[i] = c->heap[(i - 1) / 2];
  c->heap[i] = added;
}

static int32_t pop_hold(crowd *c) {
  int32_t first = c->heap[0], last = c->heap[--c->heap_count];
  size_t i = 0;
  for (;;) {
    size_t child = 2 * i + 1;
    if (child >= c->heap_count) break;
    if (child + 1 < c->heap_count && is_larger(c, c->heap[child + 1], c->heap[child])) child++;
    if (!is_larger(c, c->heap[child], last)) break;
    c->heap[i] = c->heap[child];
    i = child;
  }
  c->heap[i] = last;
  return first;
}

/* As registers are spilled by linear scan (Poletto and Sarkar 1999): where there is too much, the largest goes. */
static void crowd_largest(crowd *c) {
  const ledger *l = c->ledger;
  size_t now = 0;
  for (size_t i = 0; i < l->edge_count; i++) {
    const edge *at = &l->edges[i];
    if (i && l->edges[i - 1].space != at->space) now = c->heap_count = 0;
    if (at->kind == EDGE_BEGINS) {
      now += l->holds[at->hold].bytes;
      push_hold(c, at->hold);
    } else if (!c->gone[at->hold]) {
      now -= l->holds[at->hold].bytes;
      c->gone[at->hold] = true;
    }
    while (now > capacity_of(l->problem, at->space) && c->heap_count) {
      int32_t largest = pop_hold(c);
      if (c->gone[largest] || !make_go(c, &l->holds[largest])) continue;
      c->gone[largest] = true;
      now -= l->holds[largest].bytes;
    }
  }
}

static braid_status crowd_all(crowd *c) {
  const braid_problem *problem = c->choosing->problem;
  braid_memory_peak *peaks =
      braid_zalloc_array(c->choosing->allocator, (size_t)problem->space_count + 1, sizeof *peaks);
  if (!peaks) return BRAID_NO_MEMORY;
  find_peaks(c->ledger, peaks);
  for (size_t i = 0; i < c->choices->task_count; i++) {
    int32_t task = c->choices->order[i];
    int space = device_of_node(problem, c->choices, task)->space;
    if (is_over(problem, space, peaks) && could_go(c, task, space)) send_away(c, task, space);
  }
  braid_free(c->choosing->allocator, peaks);
  return BRAID_OK;
}

braid_status braid_memory_crowd_out(const braid_choosing *choosing, const braid_choices *choices, bool all,
                                    size_t *count) {
  const braid_allocator *allocator = choosing->allocator;
  ledger l;
  crowd c = {.choosing = choosing, .choices = choices, .ledger = &l};
  braid_status status = ledger_make(choosing->problem, choices, allocator, false, &l);
  if (status == BRAID_OK) status = list_all(&c);
  c.heap = braid_zalloc_array(allocator, l.hold_count + 1, sizeof *c.heap);
  c.gone = braid_zalloc_array(allocator, l.hold_count + 1, sizeof *c.gone);
  if (!c.heap || !c.gone) status = BRAID_NO_MEMORY;
  if (status == BRAID_OK && all) status = crowd_all(&c);
  if (status == BRAID_OK && !all) crowd_largest(&c);
  void *memory[] = {c.offers.first, c.offers.items, c.readers.first, c.readers.items, c.heap, c.gone};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) braid_free(allocator, memory[i]);
  ledger_free(&l);
  *count = c.count;
  return status;
}

/* --- refusing ------------------------------------------------------------------------------------------------------
 */
typedef struct amount {
  char text[32];
} amount;

static amount amount_of(size_t bytes) {
  amount out;
  if (bytes < 1000000)
    snprintf(out.text, sizeof out.text, "%zu bytes", bytes);
  else
    snprintf(out.text, sizeof out.text, "%.4g GB", (double)bytes * 1e-9);
  return out;
}

static const char *name_of_hold(const ledger *l, const hold *h, const char **kind) {
  const braid_problem *problem = l->problem;
  *kind = "";
  if (h->what < 0) return problem->kept[~h->what].name;
  *kind = "of node ";
  if (problem->values[h->what].producer >= 0) return problem->nodes[problem->values[h->what].producer].name;
  *kind = "an input of node ";
  for (size_t n = 0; n < problem->node_count; n++)
    for (size_t r = 0; r < problem->nodes[n].read_count; r++)
      if (problem->reads[problem->nodes[n].first_read + r] == h->what) return problem->nodes[n].name;
  return "";
}

/* The largest that are held in a space at an instant, as many as fit into a sentence. */
static void list_largest(const ledger *l, int space, double at, char *text, size_t bytes) {
  enum { kListed = 3 };
  int32_t listed[kListed];
  size_t used = 0;
  text[0] = '\0';
  for (int n = 0; n < kListed; n++) {
    listed[n] = -1;
    for (size_t i = 0; i < l->hold_count; i++) {
      const hold *h = &l->holds[i];
      bool there = h->space == space && (h->from == at || (h->from < at && at < h->to));
      for (int k = 0; k < n; k++) there &= listed[k] != (int32_t)i;
      if (there && (listed[n] < 0 || h->bytes > l->holds[listed[n]].bytes)) listed[n] = (int32_t)i;
    }
    if (listed[n] < 0) return;
    const char *kind, *name = name_of_hold(l, &l->holds[listed[n]], &kind);
    used += (size_t)snprintf(text + used, bytes - used, "%s%s %s%.100s", n ? ", " : "",
                             amount_of(l->holds[listed[n]].bytes).text, kind, name);
  }
}

static braid_status refuse_worst(const ledger *l, const braid_memory_peak *peaks) {
  const braid_problem *problem = l->problem;
  char largest[512];
  int worst = -1;
  for (int s = 0; s < problem->space_count; s++)
    if (is_over(problem, s, peaks) &&
        (worst < 0 || peaks[s].bytes - capacity_of(problem, s) > peaks[worst].bytes - capacity_of(problem, worst)))
      worst = s;
  if (worst < 0) return braid_fail(BRAID_INTERNAL, "a plan that fits is refused");
  size_t device = 0;
  while (device + 1 < problem->device_count && problem->devices[device].space != worst) device++;
  list_largest(l, worst, peaks[worst].at, largest, sizeof largest);
  return braid_fail(BRAID_UNSUPPORTED,
                    "no plan was found that fits into the memories: %.100s would hold %s after %.6g ms, and has %s; "
                    "the largest are %s",
                    problem->devices[device].name, amount_of(peaks[worst].bytes).text, peaks[worst].at * 1e3,
                    amount_of(capacity_of(problem, worst)).text, largest);
}

braid_status braid_memory_refuse(const braid_problem *problem, const braid_choices *choices,
                                 const braid_allocator *allocator) {
  ledger l;
  braid_memory_peak *peaks = braid_zalloc_array(allocator, (size_t)problem->space_count + 1, sizeof *peaks);
  braid_status status = ledger_make(problem, choices, allocator, false, &l);
  if (!peaks) status = BRAID_NO_MEMORY;
  if (status == BRAID_OK) {
    find_peaks(&l, peaks);
    status = refuse_worst(&l, peaks);
  }
  ledger_free(&l);
  braid_free(allocator, peaks);
  return status;
}
