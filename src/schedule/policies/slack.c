/* Slack over the whole schedule: how late every task could end without the step taking longer than it may, through all
 * that reads its results and all that follows it on its devices. A task that costs less on another device moves there
 * if that has a gap between the arrival of its operands and the latest time at which its results must have arrived.
 * Many tasks move at once; if the simulator does not agree, halves of them, and so on.
 *
 * A device takes, of what is ready, the task with the longest path to the end, so that what moved is waited for late.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "schedule/policies/improve.h"

/* Rounds: each finds slack anew. */
enum { kRounds = 9 };

typedef struct move {
  int32_t task, offer;
  double worth;
} move;

typedef struct interval {
  double from, to;
} interval;

typedef struct slack {
  braid_improving *m;
  const braid_problem *problem;
  double *tail;                 /* per task: the longest path from its start to the end */
  double *late_start;           /* per task */
  bool *moved;                  /* per task: itself or what it reads from or is read by, in this round */
  interval *busy;               /* per device, then per bus: what it does, by time, with room for what moves there */
  size_t *first, *count, *room; /* per device and bus: its part of `busy` */
  int *sent;                    /* per value: the space that it was last sent to; -1: none */
  double *latest;               /* per task: when its results must be there */
  move *moves;
  size_t move_count;
  double idle_watts; /* of all devices */
} slack;

static const braid_offer *offer_in(const slack *s, const braid_choices *choices, int32_t task) {
  return &s->problem->offers[choices->offer_of[task]];
}

static int device_at(const braid_offer *offer, size_t index) {
  return index < offer->also_count ? offer->also[index] : offer->device;
}

/* --- edges ---------------------------------------------------------------------------------------------------------
 */
typedef struct edge {
  int32_t value, before; /* before: the task that computes it; -1: it is on the host */
  size_t node, read;     /* where to look on */
} edge;

/* The next value that a task reads of another one or of the host. */
static bool next_edge(const slack *s, const braid_choices *choices, const braid_offer *offer, edge *e) {
  int32_t task = offer->nodes[offer->node_count - 1];
  for (; e->node < offer->node_count; e->node++, e->read = 0) {
    const braid_problem_node *node = &s->problem->nodes[offer->nodes[e->node]];
    while (e->read < node->read_count) {
      e->value = s->problem->reads[node->first_read + e->read++];
      int32_t producer = s->problem->values[e->value].producer;
      bool here = producer < 0 || s->problem->nodes[producer].idle;
      e->before = here ? -1 : braid_choices_task(s->problem, choices, producer);
      if (e->before != task) return true;
    }
  }
  return false;
}

static int space_of(const slack *s, const braid_choices *choices, int32_t task) {
  return task < 0 ? 0 : s->problem->devices[offer_in(s, choices, task)->device].space;
}

/* --- the order of tasks --------------------------------------------------------------------------------------------
 */
/* The longest paths to the end of the step, for the devices that the trial has. */
static void find_tails(slack *s) {
  const braid_choices *trial = &s->m->trial;
  for (size_t i = 0; i < trial->task_count; i++) s->tail[trial->order[i]] = 0;
  for (size_t i = trial->task_count; i-- > 0;) {
    int32_t task = trial->order[i];
    const braid_offer *offer = offer_in(s, trial, task);
    int space = s->problem->devices[offer->device].space;
    s->tail[task] += offer->seconds.value;
    for (edge e = {0}; next_edge(s, trial, offer, &e);) {
      if (e.before < 0) continue;
      double path = s->tail[task] + braid_problem_moving(s->problem, e.value, space_of(s, trial, e.before), space);
      if (path > s->tail[e.before]) s->tail[e.before] = path;
    }
  }
}

/* Of what is ready for a device and has its operands there the task with the longest path to the end; else what has
 * them soonest, unless something ends before that. */
static int32_t pick_longest(const braid_simulation *simulation, int device, void *context) {
  const slack *s = context;
  int32_t best = -1;
  double best_moving = 0;
  for (size_t i = 0; i < simulation->ready_count; i++) {
    int32_t task = simulation->ready[i], index = simulation->choices->offer_of[task];
    const braid_offer *offer = &s->problem->offers[index];
    if (offer->device != device || (best >= 0 && best_moving == 0 && s->tail[task] <= s->tail[best])) continue;
    if (!braid_simulation_free(simulation, offer)) continue;
    if (s->m->capped && !braid_simulation_fits(simulation, offer)) continue;
    double moving = braid_simulation_moving(simulation, offer);
    if (simulation->now + moving > simulation->next) continue;
    if (best >= 0 && (moving != best_moving ? moving > best_moving : s->tail[task] <= s->tail[best])) continue;
    best = task;
    best_moving = moving;
  }
  return best < 0 ? -1 : simulation->choices->offer_of[best];
}

static braid_status try_trial(slack *s, bool equal, bool *kept) {
  find_tails(s);
  return braid_improving_try(s->m, &(braid_rule){.pick = pick_longest, .context = s, .assigned = true}, equal, kept);
}

/* --- slack ---------------------------------------------------------------------------------------------------------
 */
static int by_start(const void *left, const void *right, void *context) {
  const braid_choices *choices = context;
  int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
  if (choices->start[a] != choices->start[b]) return choices->start[a] < choices->start[b] ? -1 : 1;
  return choices->end[a] != choices->end[b] ? (choices->end[a] < choices->end[b] ? -1 : 1) : (a > b) - (a < b);
}

static void set_latest(const slack *s, int32_t task, double at) {
  if (at < s->latest[task]) s->latest[task] = at;
}

/* How late every task of the best schedule could start, and what its devices do. `next`: per device, working memory. */
static void find_slack(slack *s, double *next) {
  const braid_choices *best = &s->m->best;
  int32_t *sequence = s->m->sequence;
  memcpy(sequence, best->order, best->task_count * sizeof *sequence);
  qsort_r(sequence, best->task_count, sizeof *sequence, by_start, (void *)best);
  for (size_t d = 0; d < s->problem->device_count; d++) next[d] = s->m->limit;
  for (size_t i = 0; i < best->task_count; i++) s->latest[sequence[i]] = s->m->limit;
  for (size_t v = 0; v < s->problem->value_count; v++) {
    int32_t producer = s->problem->values[v].producer;
    if (!s->problem->values[v].wanted || producer < 0 || best->offer_of[producer] < 0) continue;
    int32_t task = braid_choices_task(s->problem, best, producer);
    set_latest(s, task, s->m->limit - braid_problem_moving(s->problem, (int32_t)v, space_of(s, best, task), 0));
  }
  for (size_t i = best->task_count; i-- > 0;) {
    int32_t task = sequence[i];
    const braid_offer *offer = offer_in(s, best, task);
    double end = s->latest[task];
    for (size_t k = 0; k <= offer->also_count; k++) end = fmin(end, next[device_at(offer, k)]);
    double start = s->late_start[task] = end - offer->seconds.value;
    for (size_t k = 0; k <= offer->also_count; k++) next[device_at(offer, k)] = start;
    for (edge e = {0}; next_edge(s, best, offer, &e);)
      if (e.before >= 0)
        set_latest(s, e.before,
                   start - braid_problem_moving(s->problem, e.value, space_of(s, best, e.before),
                                                s->problem->devices[offer->device].space));
  }
}

/* The first start from `from` on at which a device is idle for so long. */
static double gap_after(const slack *s, int device, double from, double seconds) {
  const interval *busy = s->busy + s->first[device];
  size_t low = 0, high = s->count[device];
  while (low < high) { /* the first one that ends after `from` */
    size_t middle = low + (high - low) / 2;
    if (busy[middle].to <= from)
      low = middle + 1;
    else
      high = middle;
  }
  for (; low < s->count[device] && busy[low].from < from + seconds; low++)
    if (busy[low].to > from) from = busy[low].to;
  return from;
}

static void reserve(slack *s, int lane, double from, double to) {
  interval *busy = s->busy + s->first[lane];
  if (s->count[lane] == s->room[lane]) return; /* what is not known is for the simulator to find */
  size_t at = s->count[lane]++;
  for (; at && busy[at - 1].from > from; at--) busy[at] = busy[at - 1];
  busy[at] = (interval){from, to};
}

/* When a value that is computed at `from` could be there, by the first time at which both buses are free. */
static double send(slack *s, int32_t value, int from_space, int space, double from, bool take) {
  double seconds = braid_problem_moving(s->problem, value, from_space, space), before = -1;
  int lanes[2] = {s->problem->spaces[from_space].out_bus, s->problem->spaces[space].in_bus};
  if (from_space == space) return from;
  while (from != before) {
    before = from;
    for (int i = 0; i < 2; i++)
      if (lanes[i] >= 0) from = gap_after(s, (int)s->problem->device_count + lanes[i], from, seconds);
  }
  for (int i = 0; i < 2 && take; i++)
    if (lanes[i] >= 0) reserve(s, (int)s->problem->device_count + lanes[i], from, from + seconds);
  return from + seconds;
}

/* What the devices and the buses of the best schedule do. */
static void find_busy(slack *s) {
  const braid_choices *best = &s->m->best;
  memset(s->count, 0, (s->problem->device_count + (size_t)s->problem->bus_count) * sizeof *s->count);
  for (size_t v = 0; v < s->problem->value_count; v++) s->sent[v] = -1;
  for (size_t i = 0; i < best->task_count; i++) {
    int32_t task = s->m->sequence[i];
    const braid_offer *offer = offer_in(s, best, task);
    int space = s->problem->devices[offer->device].space;
    for (size_t k = 0; k <= offer->also_count; k++) reserve(s, device_at(offer, k), best->start[task], best->end[task]);
    for (edge e = {0}; next_edge(s, best, offer, &e);) {
      int from = space_of(s, best, e.before);
      if (from == space || s->sent[e.value] == space) continue;
      s->sent[e.value] = space;
      (void)send(s, e.value, from, space, e.before < 0 ? 0 : best->end[e.before], true);
    }
  }
}

/* --- moves ---------------------------------------------------------------------------------------------------------
 */
static bool is_elsewhere(const braid_offer *a, const braid_offer *b) {
  return a->device != b->device || a->also_count != b->also_count;
}

static int by_worth(const void *left, const void *right) {
  const move *a = left, *b = right;
  if (a->worth != b->worth) return a->worth > b->worth ? -1 : 1;
  return a->task != b->task ? (a->task > b->task) - (a->task < b->task) : (a->offer > b->offer) - (a->offer < b->offer);
}

/* What bringing its operands takes, from where they are now. */
static double moving_seconds(const slack *s, const braid_offer *offer) {
  int space = s->problem->devices[offer->device].space;
  double sum = 0;
  for (edge e = {0}; next_edge(s, &s->m->best, offer, &e);)
    sum += braid_problem_moving(s->problem, e.value, space_of(s, &s->m->best, e.before), space);
  return sum;
}

/* What a move is worth: what it saves, by itself, for the time that it occupies devices, or for the time that it makes
 * the step longer at most. */
typedef enum worth { WORTH_SAVED, WORTH_OCCUPIED, WORTH_LONGER, WORTH_COUNT } worth;

static double worth_of(const slack *s, int32_t task, const braid_offer *offer, double saved, worth kind) {
  double seconds = offer->seconds.value;
  if (kind == WORTH_SAVED) return saved;
  if (kind == WORTH_OCCUPIED) return saved / (seconds * (double)(offer->also_count + 1) + 1e-9 * s->m->limit);
  double longer = seconds - offer_in(s, &s->m->best, task)->seconds.value;
  return saved / (fmax(longer, 0) + moving_seconds(s, offer) + 1e-6 * s->m->limit);
}

static void list_moves(slack *s, worth kind) {
  const braid_choices *best = &s->m->best;
  s->move_count = 0;
  for (size_t i = 0; i < best->task_count; i++) {
    int32_t task = best->order[i];
    double now = braid_offer_own_joules(s->problem, offer_in(s, best, task));
    for (size_t k = s->m->alternatives.first[task]; k < s->m->alternatives.first[task + 1]; k++) {
      const braid_offer *offer = &s->problem->offers[s->m->alternatives.offers[k]];
      bool known = offer->seconds.source != BRAID_UNKNOWN && offer->joules.source != BRAID_UNKNOWN;
      double saved = now - braid_offer_own_joules(s->problem, offer);
      double sooner = offer_in(s, best, task)->seconds.value - offer->seconds.value;
      if (kind == WORTH_LONGER && sooner > 0) saved += s->idle_watts * sooner; /* if that makes the step shorter */
      if (!known || !is_elsewhere(offer, offer_in(s, best, task)) || !(saved > 0) || offer->seconds.value > s->m->limit)
        continue;
      s->moves[s->move_count++] = (move){task, s->m->alternatives.offers[k], worth_of(s, task, offer, saved, kind)};
    }
  }
  qsort(s->moves, s->move_count, sizeof *s->moves, by_worth);
}

/* When the operands of an offer could be there. */
static double arrival(slack *s, const braid_offer *offer, bool take) {
  const braid_choices *best = &s->m->best;
  int space = s->problem->devices[offer->device].space;
  double latest = 0;
  for (edge e = {0}; next_edge(s, best, offer, &e);) {
    int from = space_of(s, best, e.before);
    latest = fmax(latest, send(s, e.value, from, space, e.before < 0 ? 0 : best->end[e.before], take));
  }
  return latest;
}

/* Where the move fits into the gaps of its devices and into the slack of its task; < 0: nowhere. */
static double find_gap(slack *s, const move *candidate) {
  const braid_offer *offer = &s->problem->offers[candidate->offer];
  double start = arrival(s, offer, false), before = -1;
  while (start != before && start + offer->seconds.value <= s->m->limit) {
    before = start;
    for (size_t k = 0; k <= offer->also_count; k++)
      start = gap_after(s, device_at(offer, k), start, offer->seconds.value);
  }
  /* `latest` has the way from where it ran; on the way from where it would run the simulator has the last word */
  return start + offer->seconds.value <= s->latest[candidate->task] ? start : -1;
}

static bool touches_moved(const slack *s, int32_t task) {
  const braid_choices *best = &s->m->best;
  if (s->moved[task]) return true;
  for (edge e = {0}; next_edge(s, best, offer_in(s, best, task), &e);)
    if (e.before >= 0 && s->moved[e.before]) return true;
  return false;
}

/* Keeps those moves that fit beside each other, one for a task. */
static void choose_moves(slack *s) {
  size_t count = 0;
  memset(s->moved, 0, s->problem->node_count);
  for (size_t i = 0; i < s->move_count; i++) {
    const braid_offer *offer = &s->problem->offers[s->moves[i].offer];
    if (touches_moved(s, s->moves[i].task)) continue;
    double start = find_gap(s, &s->moves[i]);
    if (start < 0) continue;
    (void)arrival(s, offer, true);
    for (size_t k = 0; k <= offer->also_count; k++)
      reserve(s, device_at(offer, k), start, start + offer->seconds.value);
    s->moved[s->moves[i].task] = true;
    s->moves[count++] = s->moves[i];
  }
  s->move_count = count;
}

/* Moves all of them, or halves. */
static braid_status try_moves(slack *s, const move *moves, size_t count, bool *any) {
  bool kept = false;
  if (!count || !s->m->trials) return BRAID_OK;
  braid_improving_begin(s->m);
  for (size_t i = 0; i < count; i++)
    braid_improving_change(s->m, moves[i].task, moves[i].offer, "costs less there, and the step still ends in time");
  BRAID_TRY(try_trial(s, false, &kept));
  *any |= kept;
  if (kept || count == 1) return BRAID_OK;
  BRAID_TRY(try_moves(s, moves, count / 2, any));
  return try_moves(s, moves + count / 2, count - count / 2, any);
}

/* Single moves, whether they seem to fit or not, without another order of the tasks. */
static braid_status move_singly(slack *s) {
  bool kept;
  list_moves(s, WORTH_LONGER);
  for (size_t i = 0; i < s->move_count && s->m->trials; i++) {
    braid_improving_begin(s->m);
    braid_improving_change(s->m, s->moves[i].task, s->moves[i].offer,
                           "costs less there, and the step still ends in time");
    BRAID_TRY(braid_improving_try(s->m, NULL, false, &kept));
  }
  return BRAID_OK;
}

/* --- memory --------------------------------------------------------------------------------------------------------
 */
/* A device or bus has room for all that it does, as much again, and 64 more. */
static size_t divide_room(slack *s) {
  const braid_choices *best = &s->m->best;
  size_t sum = 0, lanes = s->problem->device_count + (size_t)s->problem->bus_count;
  memset(s->room, 0, lanes * sizeof *s->room);
  for (size_t i = 0; i < best->task_count; i++) {
    const braid_offer *offer = offer_in(s, best, best->order[i]);
    for (size_t k = 0; k <= offer->also_count; k++) s->room[device_at(offer, k)]++;
  }
  for (int b = 0; b < s->problem->bus_count; b++) s->room[s->problem->device_count + (size_t)b] = best->task_count;
  for (size_t lane = 0; lane < lanes; lane++) {
    s->first[lane] = sum;
    s->room[lane] = 2 * s->room[lane] + 64;
    sum += s->room[lane];
  }
  return sum;
}

/* Moves that fit beside each other, by one kind of worth after the other, as long as any helps. */
static braid_status move_many(slack *s, worth first, double *next) {
  const braid_allocator *allocator = s->m->choosing->allocator;
  for (int round = 0, idle = 0; round < kRounds && idle < WORTH_COUNT && s->m->trials; round++, idle++) {
    bool any = false;
    s->busy = braid_zalloc_array(allocator, divide_room(s), sizeof *s->busy);
    if (!s->busy) return BRAID_NO_MEMORY;
    find_slack(s, next);
    find_busy(s);
    list_moves(s, (worth)(((int)first + round) % WORTH_COUNT));
    choose_moves(s);
    braid_status status = try_moves(s, s->moves, s->move_count, &any);
    braid_free(allocator, s->busy);
    if (status != BRAID_OK) return status;
    if (any) idle = -1;
  }
  return BRAID_OK;
}

static braid_status slack_improve(slack *s, int variant, double *next) {
  bool any;
  size_t trials = s->m->trials / 2;
  if (variant < WORTH_COUNT) {
    s->m->trials -= trials;
    braid_improving_begin(s->m);
    BRAID_TRY(try_trial(s, true, &any));
    BRAID_TRY(move_many(s, (worth)variant, next));
    s->m->trials += trials;
  }
  return move_singly(s);
}

braid_status braid_improve_devices(braid_improving *improving, int variant) {
  const braid_problem *problem = improving->choosing->problem;
  const braid_allocator *allocator = improving->choosing->allocator;
  size_t nodes = problem->node_count + 1, devices = problem->device_count + 1;
  size_t lanes = devices + (size_t)problem->bus_count;
  slack s = {.m = improving, .problem = problem};
  s.tail = braid_zalloc_array(allocator, nodes, sizeof *s.tail);
  s.late_start = braid_zalloc_array(allocator, nodes, sizeof *s.late_start);
  s.latest = braid_zalloc_array(allocator, nodes, sizeof *s.latest);
  s.moved = braid_zalloc_array(allocator, nodes, sizeof *s.moved);
  s.first = braid_zalloc_array(allocator, 3 * lanes, sizeof *s.first);
  s.sent = braid_zalloc_array(allocator, problem->value_count + 1, sizeof *s.sent);
  s.moves = braid_zalloc_array(allocator, problem->offer_count + 1, sizeof *s.moves);
  double *next = braid_zalloc_array(allocator, devices, sizeof *next);
  bool all = s.tail && s.late_start && s.latest && s.moved && s.first && s.sent && s.moves && next;
  if (all) s.count = s.first + lanes, s.room = s.count + lanes;
  for (size_t d = 0; all && d < problem->device_count; d++) {
    s.idle_watts += problem->devices[d].idle_watts.value;
  }
  braid_status status = all ? slack_improve(&s, variant, next) : BRAID_NO_MEMORY;
  void *memory[] = {s.tail, s.late_start, s.latest, s.moved, s.first, s.sent, s.moves, next};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) braid_free(allocator, memory[i]);
  return status;
}
