#include "schedule/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"

/* To be looked at when the present instant is over. */
static void mark(engine *e, int device) {
  if (e->dirty[device]) return;
  e->dirty[device] = true;
  e->marked[e->marked_count++] = device;
}

static int by_turn(const void *left, const void *right, void *context) {
  const engine *e = context;
  return e->turn[*(const int *)left] - e->turn[*(const int *)right];
}

/* Moves the marked devices to `looking`, in their order. */
static size_t take_marked(engine *e) {
  size_t count = e->marked_count;
  memcpy(e->looking, e->marked, count * sizeof *e->looking);
  e->marked_count = 0;
  if (count > 1) qsort_r(e->looking, count, sizeof *e->looking, by_turn, e);
  for (size_t i = 0; i < count; i++) e->dirty[e->looking[i]] = false;
  return count;
}

/* --- events: a binary heap -----------------------------------------------------------------------------------------
 */
static bool is_earlier(const event *a, const event *b) {
  return a->at != b->at ? a->at < b->at : a->number < b->number;
}

static void push(engine *e, double at, int32_t task, int device) {
  event added = {at, e->event_number++, task, device};
  size_t i = e->event_count++;
  for (; i && is_earlier(&added, &e->events[(i - 1) / 2]); i = (i - 1) / 2) e->events[i] = e->events[(i - 1) / 2];
  e->events[i] = added;
}

static event pop(engine *e) {
  event first = e->events[0], last = e->events[--e->event_count];
  size_t i = 0;
  for (;;) {
    size_t child = 2 * i + 1;
    if (child >= e->event_count) break;
    if (child + 1 < e->event_count && is_earlier(&e->events[child + 1], &e->events[child])) child++;
    if (!is_earlier(&e->events[child], &last)) break;
    e->events[i] = e->events[child];
    i = child;
  }
  e->events[i] = last;
  return first;
}

/* --- transfers -----------------------------------------------------------------------------------------------------
 */
double braid_problem_link_free(const braid_problem *problem, int from_space, int space, double from,
                               const double *bus_free) {
  int out = problem->spaces[from_space].out_bus, in = problem->spaces[space].in_bus;
  if (out >= 0 && bus_free[out] > from) from = bus_free[out];
  if (in >= 0 && bus_free[in] > from) from = bus_free[in];
  return from;
}

double braid_problem_arrival(const braid_problem *problem, int32_t value, int from_space, int space, double from,
                             double *bus_free) {
  if (from_space == space) return from;
  int out = problem->spaces[from_space].out_bus, in = problem->spaces[space].in_bus;
  double start = braid_problem_link_free(problem, from_space, space, from, bus_free);
  double end = start + braid_problem_moving(problem, value, from_space, space);
  if (out >= 0) bus_free[out] = end;
  if (in >= 0) bus_free[in] = end;
  return end;
}

static const braid_offer *offer_of(const engine *e, int32_t task) {
  return &e->problem->offers[e->choices->offer_of[task]];
}

static int space_of_value(const engine *e, int32_t value) {
  int32_t producer = e->problem->values[value].producer;
  bool here = producer < 0 || e->choices->offer_of[producer] < 0; /* a view has no place of its own */
  return here ? 0 : e->problem->devices[offer_of(e, producer)->device].space;
}

/* When a computed value is available in a space; it is sent there now if it is not on its way. */
static double bring(engine *e, int32_t value, int space) {
  double arrived = braid_arrivals_get(&e->arrived, value, space);
  if (arrived >= 0) return arrived;
  int from = space_of_value(e, value);
  double start = braid_problem_link_free(e->problem, from, space, e->view.now, e->bus_free);
  arrived = braid_problem_arrival(e->problem, value, from, space, e->view.now, e->bus_free);
  braid_arrivals_set(&e->arrived, value, space, arrived);
  if (from != space) {
    e->choices->moves[e->choices->move_count++] = (braid_move){value, space, start, arrived};
    braid_engine_book(e, e->problem->spaces[from].out_bus, start, arrived);
    braid_engine_book(e, e->problem->spaces[space].in_bus, start, arrived);
  }
  e->choices->moving_seconds += braid_problem_moving(e->problem, value, from, space);
  return arrived;
}

/* The next value, from `*node` and `*read` on, that an offer reads of other tasks or of the host; -1: none. */
static int32_t next_read(const engine *e, const braid_offer *offer, size_t *node, size_t *read) {
  int32_t task = offer->nodes[offer->node_count - 1];
  for (; *node < offer->node_count; ++*node, *read = 0) {
    const braid_problem_node *at = &e->problem->nodes[offer->nodes[*node]];
    while (*read < at->read_count) {
      int32_t value = e->problem->reads[at->first_read + (*read)++], producer = e->problem->values[value].producer;
      if (producer < 0 || e->task_of[producer] != task) return value;
    }
  }
  return -1;
}

static double bring_all(engine *e, const braid_offer *offer) {
  int space = e->problem->devices[offer->device].space;
  double latest = 0;
  size_t node = 0, read = 0;
  for (int32_t value; (value = next_read(e, offer, &node, &read)) >= 0;) {
    double there = bring(e, value, space);
    if (there > latest) latest = there;
  }
  return latest;
}

double braid_simulation_moving(const braid_simulation *simulation, const braid_offer *offer) {
  const engine *e = (const engine *)simulation;
  int space = e->problem->devices[offer->device].space;
  double latest = simulation->now, added = 0;
  size_t node = 0, read = 0;
  for (int32_t value; (value = next_read(e, offer, &node, &read)) >= 0;) {
    double there = braid_arrivals_get(&e->arrived, value, space);
    int from = space_of_value(e, value);
    if (there > latest) latest = there;
    if (there >= 0 || from == space) continue;
    double seconds = braid_problem_moving(e->problem, value, from, space);
    bool alone = e->problem->spaces[from].out_bus < 0 && e->problem->spaces[space].in_bus < 0;
    added += seconds;
    double end =
        braid_problem_link_free(e->problem, from, space, simulation->now, e->bus_free) + (alone ? seconds : added);
    if (end > latest) latest = end;
  }
  return latest - simulation->now;
}

bool braid_simulation_free(const braid_simulation *simulation, const braid_offer *offer) {
  if (simulation->running[offer->device] >= 0) return false;
  for (size_t i = 0; i < offer->also_count; i++)
    if (simulation->running[offer->also[i]] >= 0) return false;
  return true;
}

/* --- tasks ---------------------------------------------------------------------------------------------------------
 */
static void occupy(engine *e, int device, const braid_offer *offer, int32_t task) {
  e->running[device] = task;
  e->clocks[device] = offer->clock;
  e->busy[device] += offer->seconds.value;
}

/* What changing the clocks takes; they change together. */
static double clock_seconds(const engine *e, const braid_offer *offer) {
  double most = 0;
  for (size_t i = 0; i <= offer->also_count; i++) {
    int device = i < offer->also_count ? offer->also[i] : offer->device;
    double seconds = e->problem->devices[device].clock_seconds;
    if (e->clocks[device] != offer->clock && seconds > most) most = seconds;
  }
  return most;
}

static void set_end(engine *e, const braid_offer *offer, double end) {
  for (size_t i = 0; i < offer->node_count; i++) e->choices->end[offer->nodes[i]] = end;
}

/* --- interference --------------------------------------------------------------------------------------------------
 */
/* What takes no time is beside nothing. */
static bool takes_time(const engine *e, int32_t task) {
  return e->choices->end[task] > e->choices->start[task];
}

static void begin_task(engine *e, int32_t task) {
  if (!takes_time(e, task)) return;
  e->begun[e->begun_count++] = task;
  e->computing += 1 + offer_of(e, task)->also_count;
}

/* By which part of its time a task takes longer that begins now: beside other tasks, and with traffic. */
static double slower_beside(const engine *e, const braid_offer *offer) {
  return e->computing > 1 + offer->also_count ? e->problem->devices[offer->device].slower_beside.value : 0;
}

static double slower_with_traffic(engine *e, const braid_offer *offer) {
  const braid_problem_device *device = &e->problem->devices[offer->device];
  const braid_problem_space *space = &e->problem->spaces[device->space];
  return braid_engine_in_use(e, space->in_bus) || braid_engine_in_use(e, space->out_bus)
             ? device->slower_with_traffic.value
             : 0;
}

/* The present instant is over: what began at it has its end now. Events of ends that are too early are entered again
 * when they come up. */
static void settle(engine *e) {
  for (size_t i = 0; i < e->begun_count; i++) {
    int32_t task = e->begun[i];
    const braid_offer *offer = offer_of(e, task);
    double beside = 1 + slower_beside(e, offer), factor = beside + slower_with_traffic(e, offer);
    double longer = offer->seconds.value * (factor - 1);
    if (factor <= 1) continue;
    e->unmoved_seconds[task] = offer->seconds.value * beside;
    set_end(e, offer, e->choices->start[task] + offer->seconds.value * factor);
    e->busy[offer->device] += longer;
    for (size_t k = 0; k < offer->also_count; k++) e->busy[offer->also[k]] += longer;
    e->stretched += offer->joules.value * (factor - 1);
  }
  e->begun_count = 0;
}

static bool is_early(const engine *e, const event *of) {
  return of->task >= 0 && of->device < 0 && of->at < e->choices->end[of->task];
}

/* The next event is one that happens. */
static void renew_next(engine *e) {
  while (e->event_count && is_early(e, &e->events[0])) {
    int32_t task = pop(e).task;
    push(e, e->choices->end[task], task, -1);
  }
}

/* --- the same without movement -------------------------------------------------------------------------------------
 */
/* When the task would start: as soon as its devices are idle and what it reads is computed, and where it starts later
 * than that and than its inputs are there, because of a cap or of the rule, after the end that it then waits for. */
static void start_unmoved(engine *e, int32_t task, const braid_offer *offer, double there, double clock) {
  double from = e->unmoved[task], needed = e->computed[task];
  for (size_t i = 0; i <= offer->also_count; i++) {
    int device = i < offer->also_count ? offer->also[i] : offer->device;
    from = fmax(from, e->unmoved_idle[device]);
    needed = fmax(needed, e->idle_since[device]);
  }
  bool waits = e->view.now > needed && (e->rule || e->view.now > there);
  if (waits && e->last_ended >= 0) from = fmax(from, e->unmoved[e->last_ended]);
  e->unmoved[task] = from + clock;
  e->unmoved_seconds[task] = offer->seconds.value;
}

static void finish_unmoved(engine *e, int32_t task, const braid_offer *offer) {
  e->unmoved[task] += e->unmoved_seconds[task];
  for (size_t i = 0; i < offer->also_count; i++) e->unmoved_idle[offer->also[i]] = e->unmoved[task];
  e->unmoved_idle[offer->device] = e->unmoved[task];
  e->unmoved_end = fmax(e->unmoved_end, e->unmoved[task]);
}

/* --- starts and ends -----------------------------------------------------------------------------------------------
 */
/* What the task reads is in its device's space from `there` on. */
static void start(engine *e, int32_t task, const braid_offer *offer, double there) {
  double clock = clock_seconds(e, offer), from = fmax(e->view.now, there) + clock;
  start_unmoved(e, task, offer, there, clock);
  for (size_t i = 0; i < offer->node_count; i++) e->choices->start[offer->nodes[i]] = from;
  set_end(e, offer, from + offer->seconds.value);
  occupy(e, offer->device, offer, task);
  for (size_t i = 0; i < offer->also_count; i++) occupy(e, offer->also[i], offer, task);
  e->view.watts += offer->watts.value - braid_offer_idle_watts(e->problem, offer);
  if (e->interferes && from > e->view.now) push(e, from, task, offer->device);
  if (e->interferes && from <= e->view.now) begin_task(e, task);
  push(e, from + offer->seconds.value, task, -1);
}

static void release(engine *e, int device, int32_t task) {
  e->running[device] = -1;
  e->idle_since[device] = e->view.now;
  mark(e, device);
  if (!e->rule && e->queues.items[e->heads[device]] == task) e->heads[device]++;
}

/* Counts a ready task with all devices that may run it. */
static void count_able(engine *e, int32_t task, bool more) {
  const braid_alternatives *able = e->rule->alternatives;
  for (size_t i = able->first[task]; i < able->first[task + 1]; i++) {
    int device = e->problem->offers[able->offers[i]].device;
    e->ready_on[device] += more ? 1 : SIZE_MAX;
    if (more) mark(e, device);
  }
}

/* All that a reader waits for is computed. */
static void become_ready(engine *e, int32_t task) {
  bool free = e->rule && !e->rule->assigned;
  int device = free ? -1 : offer_of(e, task)->device;
  e->computed[task] = e->view.now;
  if (free) e->ready[e->ready_count] = task;
  if (e->rule && !free) e->queues.items[e->queues.first[device] + e->ready_on[device]++] = task;
  if (e->rule) e->ready_count++;
  if (device >= 0) mark(e, device);
  if (free && e->rule->alternatives) count_able(e, task, true);
}

static void pass_on(engine *e, int32_t value) {
  if (e->problem->values[value].wanted) (void)bring(e, value, 0);
  for (size_t r = e->readers.first[value]; r < e->readers.first[value + 1]; r++) {
    int32_t node = e->readers.items[r], task = e->task_of[node];
    int32_t before = e->problem->values[value].producer < 0 ? -1 : e->task_of[e->problem->values[value].producer];
    if (before == task) continue;
    if (before >= 0) e->unmoved[task] = fmax(e->unmoved[task], e->unmoved[before]);
    (void)bring(e, value, e->problem->devices[offer_of(e, task)->device].space);
    if (--e->waiting[task] == 0) become_ready(e, task);
  }
}

static void finish(engine *e, int32_t task) {
  const braid_offer *offer = offer_of(e, task);
  e->view.watts -= offer->watts.value - braid_offer_idle_watts(e->problem, offer);
  e->last_ended = task;
  e->done++;
  if (e->interferes && takes_time(e, task)) e->computing -= 1 + offer->also_count;
  finish_unmoved(e, task, offer);
  release(e, offer->device, task);
  for (size_t i = 0; i < offer->also_count; i++) release(e, offer->also[i], task);
  for (size_t i = 0; i < offer->node_count; i++) {
    int32_t node = offer->nodes[i];
    for (size_t k = e->results.first[node]; k < e->results.first[node + 1]; k++) pass_on(e, e->results.items[k]);
  }
}

/* --- playing in order ----------------------------------------------------------------------------------------------
 */
static int32_t head_of(const engine *e, int device) {
  size_t head = e->heads[device];
  return head < e->queues.first[device + 1] ? e->queues.items[head] : -1;
}

/* Starts a device's next task if everything is there. A task that occupies several is looked at with its own device. */
static void look_at(engine *e, int device) {
  int32_t task = head_of(e, device);
  if (task < 0 || e->waiting[task] || e->running[device] >= 0) return;
  const braid_offer *offer = offer_of(e, task);
  if (offer->device != device) {
    if (head_of(e, offer->device) == task) look_at(e, offer->device);
    return;
  }
  for (size_t i = 0; i < offer->also_count; i++)
    if (e->running[offer->also[i]] >= 0 || head_of(e, offer->also[i]) != task) return;
  double there = bring_all(e, offer);
  if (there > e->view.now) {
    if (e->awaiting[device] != task) push(e, there, -1, device);
    e->awaiting[device] = task;
    return;
  }
  if (e->capped && !braid_simulation_fits(&e->view, offer)) {
    e->blocked[device] = true;
    mark(e, device);
    return;
  }
  if (e->blocked[device]) e->choices->after[task] = e->last_ended;
  e->blocked[device] = false;
  start(e, task, offer, there);
}

static void look_at_all(engine *e) {
  size_t count = take_marked(e);
  for (size_t i = 0; i < count; i++) look_at(e, e->looking[i]);
}

/* --- asking a rule -------------------------------------------------------------------------------------------------
 */
static void take(engine *e, int32_t index) {
  const braid_offer *offer = &e->problem->offers[index];
  int32_t task = offer->nodes[offer->node_count - 1];
  double watts = e->view.watts;
  e->view.watts = e->watts_before;
  bool waited = e->capped && e->computed[task] < e->view.now && e->idle_since[offer->device] < e->view.now &&
                !braid_simulation_fits(&e->view, offer);
  e->view.watts = watts;
  if (waited) e->choices->after[task] = e->last_ended;
  size_t at = 0, *count = e->rule->assigned ? &e->ready_on[offer->device] : &e->ready_count;
  int32_t *ready = e->rule->assigned ? e->queues.items + e->queues.first[offer->device] : e->ready;
  while (ready[at] != task) at++;
  memmove(&ready[at], &ready[at + 1], (*count - at - 1) * sizeof *ready);
  e->view.ready_count = --*count;
  if (e->rule->assigned) e->ready_count--;
  if (!e->rule->assigned && e->rule->alternatives) count_able(e, task, false);
  for (size_t i = 0; i < offer->node_count; i++) e->choices->offer_of[offer->nodes[i]] = index;
  e->choices->order[e->choices->task_count++] = task;
  start(e, task, offer, bring_all(e, offer));
}

/* Devices that have ready tasks; what stays idle is asked again at the next instant. */
static void ask_able(engine *e) {
  size_t count = take_marked(e);
  for (size_t i = 0; i < count; i++) {
    int device = e->looking[i];
    if (e->running[device] >= 0 || !e->ready_on[device]) continue;
    e->view.ready = e->rule->assigned ? e->queues.items + e->queues.first[device] : e->ready;
    e->view.ready_count = e->rule->assigned ? e->ready_on[device] : e->ready_count;
    e->view.next = e->event_count ? e->events[0].at : INFINITY;
    int32_t offer = e->rule->pick(&e->view, device, e->rule->context);
    if (offer >= 0)
      take(e, offer);
    else
      mark(e, device);
  }
}

static void engine_ask(engine *e) {
  if (e->rule->assigned || e->rule->alternatives) {
    ask_able(e);
    return;
  }
  for (size_t i = 0; i < e->problem->device_count && e->ready_count; i++) {
    int device = e->rule->order[i];
    if (e->running[device] >= 0) continue;
    e->view.ready_count = e->ready_count;
    e->view.next = e->event_count ? e->events[0].at : INFINITY;
    int32_t offer = e->rule->pick(&e->view, device, e->rule->context);
    if (offer >= 0) take(e, offer);
  }
}

/* --- the loop ------------------------------------------------------------------------------------------------------
 */
static braid_status fail_stuck(const engine *e) {
  bool assigned = e->rule && e->rule->assigned;
  int32_t task = e->ready_count && !assigned ? e->ready[0] : -1;
  for (size_t d = 0; d < e->problem->device_count && task < 0; d++) {
    if (e->blocked[d]) task = head_of(e, (int)d);
    if (assigned && e->ready_on[d]) task = e->queues.items[e->queues.first[d]];
  }
  if (task < 0) return braid_fail(BRAID_INTERNAL, "a schedule in which nothing can start");
  return braid_fail(BRAID_UNSUPPORTED, "node %.120s: its peak power exceeds the cap wherever it could run",
                    e->problem->nodes[task].name);
}

/* What happens at the next instant. */
static void move_on(engine *e) {
  e->view.now = e->events[0].at;
  e->watts_before = e->view.watts;
  for (; e->event_count && e->events[0].at <= e->view.now; renew_next(e)) {
    event next = pop(e);
    if (next.task >= 0 && next.device >= 0)
      begin_task(e, next.task);
    else if (next.task >= 0)
      finish(e, next.task);
    else
      mark(e, next.device);
  }
}

static braid_status engine_run(engine *e, size_t tasks) {
  for (;;) {
    if (e->rule)
      engine_ask(e);
    else
      look_at_all(e);
    if (!e->event_count) break;
    if (e->events[0].at > e->view.now) settle(e);
    renew_next(e);
    move_on(e);
  }
  return e->done == tasks ? BRAID_OK : fail_stuck(e);
}

/* --- results -------------------------------------------------------------------------------------------------------
 */
/* A sum has the origin of its least reliable part. */
static void add_number(braid_number *sum, double value, braid_number_source source) {
  if (source < sum->source) sum->source = source;
  sum->value = sum->source == BRAID_UNKNOWN ? 0 : sum->value + value;
}

static void sum_up(engine *e) {
  const braid_problem *problem = e->problem;
  braid_choices *choices = e->choices;
  braid_number joules = {e->stretched, BRAID_MEASURED};
  double last = 0;
  choices->seconds = (braid_number){0, BRAID_MEASURED};
  for (size_t i = 0; i < choices->task_count; i++) {
    const braid_offer *offer = offer_of(e, choices->order[i]);
    if (choices->end[choices->order[i]] > last) last = choices->end[choices->order[i]];
    add_number(&choices->seconds, 0, offer->seconds.source);
    add_number(&joules, offer->joules.value, offer->joules.source);
  }
  for (size_t v = 0; v < problem->value_count; v++)
    if (problem->values[v].wanted) {
      double there = bring(e, (int32_t)v, 0);
      if (there > last) last = there;
    }
  choices->steady = true;
  for (size_t d = 0; d < problem->device_count; d++)
    choices->steady &= problem->devices[d].clock_seconds <= 0 || e->clocks[d] == e->first_clocks[d];
  choices->exposed_seconds = fmax(0, last - e->unmoved_end);
  add_number(&choices->seconds, last, BRAID_MODELLED);
  for (size_t d = 0; d < problem->device_count; d++) {
    const braid_number *idle = &problem->devices[d].idle_watts;
    add_number(&joules, idle->value * (last - e->busy[d]), idle->source);
  }
  if (choices->seconds.source == BRAID_UNKNOWN) joules = (braid_number){0};
  choices->joules = joules;
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
/* Inputs are on the host from the start; what reads nothing else is ready. */
static void begin(engine *e) {
  const braid_problem *problem = e->problem;
  for (size_t d = 0; d < problem->device_count; d++) {
    e->running[d] = e->awaiting[d] = -1;
    e->turn[e->rule && !e->rule->assigned ? e->rule->order[d] : (int)d] = (int)d;
    e->view.watts += problem->devices[d].idle_watts.value;
    e->interferes |= problem->devices[d].slower_beside.source != BRAID_UNKNOWN ||
                     problem->devices[d].slower_with_traffic.source != BRAID_UNKNOWN;
  }
  for (size_t n = 0; n < problem->node_count; n++) {
    e->task_of[n] = problem->nodes[n].idle ? -1 : braid_choices_task(problem, e->choices, (int32_t)n);
    e->choices->after[n] = -1;
  }
  for (size_t n = 0; n < problem->node_count; n++)
    for (size_t r = 0; r < problem->nodes[n].read_count; r++) {
      int32_t producer = problem->values[problem->reads[problem->nodes[n].first_read + r]].producer;
      if (producer < 0 || e->task_of[producer] != e->task_of[n]) e->waiting[e->task_of[n]]++;
    }
}

/* What is on the host goes to its readers: first in the order of the plan, where there is one. */
static void send_inputs(engine *e) {
  const braid_problem *problem = e->problem;
  for (size_t i = 0; !e->rule && i < e->choices->task_count; i++) {
    const braid_offer *offer = offer_of(e, e->choices->order[i]);
    size_t node = 0, read = 0;
    for (int32_t value; (value = next_read(e, offer, &node, &read)) >= 0;)
      if (problem->values[value].producer < 0) (void)bring(e, value, problem->devices[offer->device].space);
  }
  for (size_t v = 0; v < problem->value_count; v++)
    if (problem->values[v].producer < 0) pass_on(e, (int32_t)v);
}

/* The clock of the last task in a device's queue; 0 without any. */
static int last_clock(const engine *e, size_t device) {
  size_t end = e->queues.first[device + 1];
  return end > e->queues.first[device] ? offer_of(e, e->queues.items[end - 1])->clock : 0;
}

/* The clocks at which the run begins. Where the order is known they are those at which the last one ended. */
static void begin_clocks(engine *e) {
  for (size_t d = 0; d < e->problem->device_count; d++) {
    if (!e->rule || e->rule->assigned) e->clocks[d] = last_clock(e, d);
    if (e->rule && e->rule->clocks) e->clocks[d] = e->rule->clocks[d];
    e->first_clocks[d] = e->clocks[d];
  }
}

static braid_status simulate(engine *e) {
  const braid_problem *problem = e->problem;
  size_t reads = 0, tasks = 0;
  for (size_t n = 0; n < problem->node_count; n++) reads += problem->nodes[n].read_count;
  BRAID_TRY(braid_engine_allocate(e, reads));
  e->view.running = e->running, e->view.ready = e->ready;
  begin(e);
  if (!e->rule || e->rule->assigned) BRAID_TRY(braid_engine_fill_queues(e));
  begin_clocks(e);
  if (e->rule) e->choices->task_count = 0;
  e->choices->moving_seconds = 0;
  e->choices->move_count = 0;
  for (size_t n = 0; n < problem->node_count; n++) {
    tasks += e->task_of[n] == (int32_t)n;
    if (e->task_of[n] == (int32_t)n && !e->waiting[n]) become_ready(e, (int32_t)n);
  }
  send_inputs(e);
  for (size_t d = 0; d < problem->device_count; d++) mark(e, (int)d);
  BRAID_TRY(engine_run(e, tasks));
  sum_up(e);
  return BRAID_OK;
}

braid_status braid_simulate(const braid_choosing *choosing, braid_choices *choices, const braid_rule *rule,
                            bool capped) {
  engine e = {.view = {.choosing = choosing, .choices = choices},
              .problem = choosing->problem,
              .choices = choices,
              .rule = rule,
              .capped = capped,
              .last_ended = -1};
  braid_status status = simulate(&e);
  braid_engine_free(&e);
  return status;
}

braid_status braid_choices_play(const braid_choosing *choosing, braid_choices *choices) {
  return braid_simulate(choosing, choices, NULL, false);
}
