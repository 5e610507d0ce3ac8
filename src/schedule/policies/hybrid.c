#include "schedule/policies/hybrid.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"

bool braid_hybrid_is_fast(const braid_hybrid *hybrid, int device) {
  return hybrid->problem->devices[device].class == hybrid->fast;
}

static const braid_offer *offer_at(const braid_hybrid *h, int32_t index) {
  return &h->problem->offers[index];
}

static const braid_offer *base_of(const braid_hybrid *h, int32_t task) {
  return offer_at(h, h->base.offer_of[task]);
}

static bool is_known(const braid_offer *offer) {
  return offer->seconds.source != BRAID_UNKNOWN && offer->joules.source != BRAID_UNKNOWN;
}

/* Of what is no slower than the base the one of least energy, else the fastest. */
static bool is_better(const braid_offer *a, const braid_offer *b, double limit) {
  bool a_fits = a->seconds.value <= limit, b_fits = b->seconds.value <= limit;
  if (a_fits != b_fits) return a_fits;
  return a_fits ? a->joules.value < b->joules.value : a->seconds.value < b->seconds.value;
}

static int32_t find_other(const braid_hybrid *h, int32_t task) {
  const braid_offer *base = base_of(h, task);
  int32_t best = -1;
  if (!is_known(base) || !braid_hybrid_is_fast(h, base->device)) return -1;
  for (size_t i = h->alternatives.first[task]; i < h->alternatives.first[task + 1]; i++) {
    const braid_offer *offer = offer_at(h, h->alternatives.offers[i]);
    if (braid_hybrid_is_fast(h, offer->device) || !is_known(offer) || offer->joules.value >= base->joules.value)
      continue;
    if (best < 0 || is_better(offer, offer_at(h, best), base->seconds.value)) best = h->alternatives.offers[i];
  }
  return best;
}

braid_status braid_hybrid_init(const braid_choosing *choosing, braid_choices *choices, braid_hybrid *out) {
  const braid_problem *problem = choosing->problem;
  size_t nodes = problem->node_count + 1;
  int32_t cycle;
  *out = (braid_hybrid){.choosing = choosing, .problem = problem, .choices = choices};
  out->fast = problem->device_count ? problem->devices[0].class : BRAID_CLASS_OTHER;
  for (size_t d = 0; d < problem->device_count; d++)
    if (problem->devices[d].class == BRAID_CLASS_GPU) out->fast = BRAID_CLASS_GPU;
  out->other = braid_arena_alloc(choosing->arena, nodes * sizeof *out->other);
  out->offloaded = braid_arena_alloc(choosing->arena, nodes * sizeof *out->offloaded);
  out->head = braid_arena_alloc(choosing->arena, nodes * sizeof *out->head);
  out->tail = braid_arena_alloc(choosing->arena, nodes * sizeof *out->tail);
  if (!out->other || !out->offloaded || !out->head || !out->tail) return BRAID_NO_MEMORY;
  BRAID_TRY(braid_choices_init(choosing, &out->base));
  BRAID_TRY(braid_policy_gpu_only.choose(choosing, &out->base));
  BRAID_TRY(braid_choices_check(choosing, &out->base));
  if (!out->base.ordered) {
    BRAID_TRY(braid_choices_sort(choosing, &out->base, &cycle));
    if (cycle >= 0) return braid_fail(BRAID_INTERNAL, "regions that were chosen form a cycle");
    BRAID_TRY(braid_choices_play(choosing, &out->base));
  }
  BRAID_TRY(braid_choices_alternatives(choosing, &out->base, &out->alternatives));
  for (size_t i = 0; i < out->base.task_count; i++)
    out->other[out->base.order[i]] = find_other(out, out->base.order[i]);
  return BRAID_OK;
}

/* --- the critical path ---------------------------------------------------------------------------------------------
 */
static double seconds_of(const braid_hybrid *h, int32_t task) {
  return (h->offloaded[task] ? offer_at(h, h->other[task]) : base_of(h, task))->seconds.value;
}

static int space_of(const braid_hybrid *h, int32_t task) {
  const braid_offer *offer = h->offloaded[task] ? offer_at(h, h->other[task]) : base_of(h, task);
  return h->problem->devices[offer->device].space;
}

/* The longest path to the task's start in a space, with the paths to what it reads from. */
static double find_head(const braid_hybrid *h, int32_t task, int space) {
  const braid_offer *offer = base_of(h, task);
  double head = 0;
  for (size_t i = 0; i < offer->node_count; i++) {
    const braid_problem_node *node = &h->problem->nodes[offer->nodes[i]];
    for (size_t r = 0; r < node->read_count; r++) {
      int32_t value = h->problem->reads[node->first_read + r], producer = h->problem->values[value].producer;
      int32_t before = producer < 0 ? task : braid_choices_task(h->problem, &h->base, producer);
      if (before == task) continue;
      double moving = braid_problem_moving(h->problem, value, space_of(h, before), space);
      head = fmax(head, h->head[before] + seconds_of(h, before) + moving);
    }
  }
  return head;
}

/* The longest path from the task's end in a space, with the paths from what reads its results. */
static double find_tail(const braid_hybrid *h, int32_t task, int space) {
  double tail = 0;
  for (size_t i = h->first_reader[task]; i < h->first_reader[task + 1]; i++) {
    int32_t after = h->reader_tasks[i];
    double moving = braid_problem_moving(h->problem, h->reader_values[i], space, space_of(h, after));
    tail = fmax(tail, h->tail[after] + seconds_of(h, after) + moving);
  }
  return tail;
}

/* Longest paths with what is offloaded by now, as if every task had a device of its own: to the tasks from `first` of
 * the order on, and from those before `last`; the others are as they were. */
static void find_paths(braid_hybrid *h, size_t first, size_t last) {
  const braid_choices *base = &h->base;
  for (size_t i = first; i < base->task_count; i++) {
    int32_t task = base->order[i];
    h->head[task] = find_head(h, task, space_of(h, task));
  }
  for (size_t i = last; i-- > 0;) {
    int32_t task = base->order[i];
    h->tail[task] = find_tail(h, task, space_of(h, task));
  }
  h->longest = 0;
  for (size_t i = 0; i < base->task_count; i++) {
    int32_t task = base->order[i];
    h->longest = fmax(h->longest, h->head[task] + seconds_of(h, task) + h->tail[task]);
  }
}

static braid_status list_readers(braid_hybrid *h) {
  const braid_problem *problem = h->problem;
  size_t reads = 0;
  for (size_t n = 0; n < problem->node_count; n++) reads += problem->nodes[n].read_count;
  h->first_reader = braid_arena_alloc(h->choosing->arena, (problem->node_count + 3) * sizeof *h->first_reader);
  h->reader_tasks = braid_arena_alloc(h->choosing->arena, (reads + 1) * sizeof *h->reader_tasks);
  h->reader_values = braid_arena_alloc(h->choosing->arena, (reads + 1) * sizeof *h->reader_values);
  h->place = braid_arena_alloc(h->choosing->arena, (problem->node_count + 1) * sizeof *h->place);
  if (!h->first_reader || !h->reader_tasks || !h->reader_values || !h->place) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < h->base.task_count; i++) h->place[h->base.order[i]] = i;
  for (int round = 0; round < 2; round++) {
    for (size_t n = 0; n < problem->node_count; n++)
      for (size_t r = 0; r < problem->nodes[n].read_count; r++) {
        int32_t value = problem->reads[problem->nodes[n].first_read + r], producer = problem->values[value].producer;
        if (producer < 0 || problem->nodes[producer].idle) continue;
        int32_t before = braid_choices_task(problem, &h->base, producer);
        int32_t after = braid_choices_task(problem, &h->base, (int32_t)n);
        if (before == after) continue;
        if (!round) {
          h->first_reader[before + 2]++;
          continue;
        }
        size_t at = h->first_reader[before + 1]++;
        h->reader_tasks[at] = after;
        h->reader_values[at] = value;
      }
    for (size_t n = 2; !round && n < problem->node_count + 2; n++) h->first_reader[n] += h->first_reader[n - 1];
  }
  return BRAID_OK;
}

/* --- offloading ----------------------------------------------------------------------------------------------------
 */
/* Section 3.2: little bandwidth or few instructions per cycle on the fast device. What nobody has counted is not
 * filtered. */
static bool is_candidate(const braid_hybrid *h, int32_t task) {
  const braid_offer *base = base_of(h, task);
  const braid_number *bandwidth = &h->problem->bandwidth_threshold, *rate = &h->problem->instructions_threshold;
  bool has_bandwidth = bandwidth->source != BRAID_UNKNOWN && base->bytes_per_second.source != BRAID_UNKNOWN;
  bool has_rate = rate->source != BRAID_UNKNOWN && base->instructions_per_cycle.source != BRAID_UNKNOWN;
  if (!has_bandwidth && !has_rate) return true;
  return (has_bandwidth && base->bytes_per_second.value < bandwidth->value) ||
         (has_rate && base->instructions_per_cycle.value < rate->value);
}

static double gain_of(const braid_hybrid *h, int32_t task) {
  return base_of(h, task)->joules.value - offer_at(h, h->other[task])->joules.value;
}

int braid_hybrid_by_gain(const void *left, const void *right, void *context) {
  const braid_hybrid *h = context;
  int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
  double x = gain_of(h, a), y = gain_of(h, b);
  return x != y ? (x > y ? -1 : 1) : (a > b) - (a < b);
}

/* Whether the longest path through the task, offloaded, is no longer than `most`: what comes before it and after it
 * does not depend on where it runs, but for the way there and back. */
static bool fits_beside(const braid_hybrid *h, int32_t task, double most) {
  const braid_offer *other = offer_at(h, h->other[task]);
  int space = h->problem->devices[other->device].space;
  return find_head(h, task, space) + other->seconds.value + find_tail(h, task, space) <= most;
}

static const char *offload_one(braid_hybrid *h, int32_t task) {
  if (h->other[task] < 0) return "no other device runs it with less energy, by times and energy that are known";
  const braid_offer *other = offer_at(h, h->other[task]);
  bool faster = other->seconds.value <= base_of(h, task)->seconds.value;
  if (faster && !is_candidate(h, task)) return "not a candidate: bandwidth and instructions per cycle are high";
  double before = h->longest;
  bool critical = h->head[task] + other->seconds.value + h->tail[task] > before; /* even if nothing had to move */
  if (!faster && critical) return "slower on another device, and on the critical path";
  if (!faster && !fits_beside(h, task, before)) return "slower on another device, and on the critical path";
  h->offloaded[task] = true;
  if (faster) return "another device is no slower";
  find_paths(h, h->place[task], h->place[task] + 1);
  return "off the critical path on a slower device";
}

braid_status braid_hybrid_offload(braid_hybrid *h) {
  size_t count = h->base.task_count;
  BRAID_TRY(list_readers(h));
  int32_t *list = braid_zalloc_array(h->choosing->allocator, count + 1, sizeof *list);
  if (!list) return BRAID_NO_MEMORY;
  size_t known = 0;
  for (size_t i = 0; i < count; i++) {
    int32_t task = h->base.order[i];
    if (h->other[task] >= 0)
      list[known++] = task;
    else
      h->choices->reasons[task] = "no other device runs it with less energy, by times and energy that are known";
  }
  qsort_r(list, known, sizeof *list, braid_hybrid_by_gain, h);
  for (int slower = 0; slower < 2; slower++) {
    find_paths(h, 0, count);
    for (size_t i = 0; i < known; i++) {
      bool is_slower = offer_at(h, h->other[list[i]])->seconds.value > base_of(h, list[i])->seconds.value;
      if (is_slower != (bool)slower) continue;
      h->choices->reasons[list[i]] = offload_one(h, list[i]);
    }
  }
  braid_free(h->choosing->allocator, list);
  return BRAID_OK;
}

/* --- for rules -----------------------------------------------------------------------------------------------------
 */
static bool is_alike(const braid_offer *a, const braid_offer *b) {
  return a->also_count == b->also_count && a->seconds.value == b->seconds.value && a->clock == b->clock;
}

static bool is_sooner(const braid_offer *a, const braid_offer *b) {
  bool known = a->seconds.source != BRAID_UNKNOWN, other = b->seconds.source != BRAID_UNKNOWN;
  return known == other ? a->seconds.value < b->seconds.value : known;
}

int32_t braid_hybrid_offer(const braid_hybrid *hybrid, const braid_simulation *simulation, int32_t task, int device) {
  int32_t best = -1;
  for (size_t i = hybrid->alternatives.first[task]; i < hybrid->alternatives.first[task + 1]; i++) {
    int32_t index = hybrid->alternatives.offers[i];
    const braid_offer *offer = offer_at(hybrid, index);
    if (offer->device != device) continue;
    if (simulation && (!braid_simulation_free(simulation, offer) || !braid_simulation_fits(simulation, offer)))
      continue;
    if (!braid_hybrid_is_fast(hybrid, device)) {
      if (hybrid->other[task] >= 0 && is_alike(offer, offer_at(hybrid, hybrid->other[task]))) return index;
      if (!simulation) continue;
    }
    if (best < 0 || is_sooner(offer, offer_at(hybrid, best))) best = index;
  }
  return best;
}

double braid_hybrid_busy(const braid_hybrid *hybrid, const braid_simulation *simulation) {
  double least = -1;
  for (size_t d = 0; d < hybrid->problem->device_count; d++) {
    if (!braid_hybrid_is_fast(hybrid, (int)d)) continue;
    int32_t task = simulation->running[d];
    double left = task < 0 ? 0 : simulation->choices->end[task] - simulation->now;
    if (least < 0 || left < least) least = left;
    if (least == 0) break;
  }
  return least < 0 ? 0 : least;
}

braid_status braid_hybrid_order(const braid_hybrid *hybrid, bool fast_first, int **out) {
  size_t count = hybrid->problem->device_count, filled = 0;
  int *order = braid_arena_alloc(hybrid->choosing->arena, (count + 1) * sizeof *order);
  if (!order) return BRAID_NO_MEMORY;
  for (int round = 0; round < 2; round++)
    for (size_t d = 0; d < count; d++)
      if (braid_hybrid_is_fast(hybrid, (int)d) == (fast_first == !round)) order[filled++] = (int)d;
  *out = order;
  return BRAID_OK;
}
