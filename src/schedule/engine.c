#include "schedule/engine.h"

#include "base/try.h"

static const braid_offer *offer_at(const engine *e, int32_t task) {
  return &e->problem->offers[e->choices->offer_of[task]];
}

static braid_status make_lists(const engine *e, size_t count, size_t items, lists *out) {
  out->first = braid_zalloc_array(e->view.choosing->allocator, count + 2, sizeof *out->first);
  out->items = braid_zalloc_array(e->view.choosing->allocator, items + 1, sizeof *out->items);
  return out->first && out->items ? BRAID_OK : BRAID_NO_MEMORY;
}

/* Lists are filled in two rounds: lengths into first[i + 2], which become the starts into first[i + 1], which filling
 * moves on. */
static void start_lists(lists *l, size_t count) {
  for (size_t i = 2; i < count + 2; i++) l->first[i] += l->first[i - 1];
}

static void add_item(lists *l, size_t to, int32_t item) {
  l->items[l->first[to + 1]++] = item;
}

static void add_reader(engine *e, int32_t node) {
  const braid_problem_node *at = &e->problem->nodes[node];
  for (size_t r = 0; r < at->read_count; r++)
    add_item(&e->readers, (size_t)e->problem->reads[at->first_read + r], node);
}

/* Values go to their readers in the order of the plan, or of nodes while a rule makes it. */
static void add_readers(engine *e) {
  if (e->rule)
    for (size_t n = 0; n < e->problem->node_count; n++) add_reader(e, (int32_t)n);
  for (size_t i = 0; !e->rule && i < e->choices->task_count; i++) {
    const braid_offer *offer = offer_at(e, e->choices->order[i]);
    for (size_t k = 0; k < offer->node_count; k++) add_reader(e, offer->nodes[k]);
  }
}

static braid_status fill_lists(engine *e, size_t reads) {
  const braid_problem *problem = e->problem;
  BRAID_TRY(make_lists(e, problem->value_count, reads, &e->readers));
  BRAID_TRY(make_lists(e, problem->node_count, problem->value_count, &e->results));
  for (size_t n = 0; n < problem->node_count; n++)
    for (size_t r = 0; r < problem->nodes[n].read_count; r++)
      e->readers.first[problem->reads[problem->nodes[n].first_read + r] + 2]++;
  start_lists(&e->readers, problem->value_count);
  add_readers(e);
  for (size_t v = 0; v < problem->value_count; v++)
    if (problem->values[v].producer >= 0) e->results.first[problem->values[v].producer + 2]++;
  start_lists(&e->results, problem->node_count);
  for (size_t v = 0; v < problem->value_count; v++)
    if (problem->values[v].producer >= 0) add_item(&e->results, (size_t)problem->values[v].producer, (int32_t)v);
  return BRAID_OK;
}

braid_status braid_engine_fill_queues(engine *e) {
  size_t count = 0, devices = e->problem->device_count;
  for (size_t i = 0; i < e->choices->task_count; i++) count += 1 + offer_at(e, e->choices->order[i])->also_count;
  BRAID_TRY(make_lists(e, devices, count, &e->queues));
  for (int round = 0; round < 2; round++) {
    for (size_t i = 0; i < e->choices->task_count; i++) {
      int32_t task = e->choices->order[i];
      const braid_offer *offer = offer_at(e, task);
      for (size_t k = 0; k <= offer->also_count; k++) {
        int device = k < offer->also_count ? offer->also[k] : offer->device;
        if (round)
          add_item(&e->queues, (size_t)device, task);
        else
          e->queues.first[device + 2]++;
      }
    }
    if (!round) start_lists(&e->queues, devices);
  }
  for (size_t d = 0; d < devices; d++) e->heads[d] = e->queues.first[d];
  return BRAID_OK;
}

/* Each value is sent into a space once, by two buses at most. */
static bool allocate_bookings(engine *e, size_t reads) {
  const braid_problem *problem = e->problem;
  const braid_allocator *allocator = e->view.choosing->allocator;
  size_t buses = (size_t)problem->bus_count + 1;
  for (size_t d = 0; d < problem->device_count; d++) e->traffic |= problem->devices[d].slower_with_traffic.value > 0;
  if (!e->traffic) return true;
  e->bookings = braid_zalloc_array(allocator, 2 * (2 * reads + problem->value_count) + 1, sizeof *e->bookings);
  e->first_booking = braid_zalloc_array(allocator, buses, sizeof *e->first_booking);
  e->last_booking = braid_zalloc_array(allocator, buses, sizeof *e->last_booking);
  if (!e->bookings || !e->first_booking || !e->last_booking) return false;
  for (size_t b = 0; b < buses; b++) e->first_booking[b] = e->last_booking[b] = -1;
  return true;
}

braid_status braid_engine_allocate(engine *e, size_t reads) {
  const braid_problem *problem = e->problem;
  const braid_allocator *allocator = e->view.choosing->allocator;
  size_t nodes = problem->node_count + 1, devices = problem->device_count + 1;
  e->task_of = braid_zalloc_array(allocator, nodes, sizeof *e->task_of);
  e->waiting = braid_zalloc_array(allocator, nodes, sizeof *e->waiting);
  e->computed = braid_zalloc_array(allocator, nodes, sizeof *e->computed);
  e->ready = braid_zalloc_array(allocator, nodes, sizeof *e->ready);
  e->unmoved = braid_zalloc_array(allocator, nodes, sizeof *e->unmoved);
  e->unmoved_seconds = braid_zalloc_array(allocator, nodes, sizeof *e->unmoved_seconds);
  e->unmoved_idle = braid_zalloc_array(allocator, devices, sizeof *e->unmoved_idle);
  e->begun = braid_zalloc_array(allocator, nodes, sizeof *e->begun);
  e->heads = braid_zalloc_array(allocator, devices, sizeof *e->heads);
  e->running = braid_zalloc_array(allocator, devices, sizeof *e->running);
  e->awaiting = braid_zalloc_array(allocator, devices, sizeof *e->awaiting);
  e->idle_since = braid_zalloc_array(allocator, devices, sizeof *e->idle_since);
  e->busy = braid_zalloc_array(allocator, devices, sizeof *e->busy);
  e->clocks = braid_zalloc_array(allocator, devices, sizeof *e->clocks);
  e->first_clocks = braid_zalloc_array(allocator, devices, sizeof *e->first_clocks);
  e->dirty = braid_zalloc_array(allocator, devices, sizeof *e->dirty);
  e->blocked = braid_zalloc_array(allocator, devices, sizeof *e->blocked);
  e->marked = braid_zalloc_array(allocator, devices, sizeof *e->marked);
  e->looking = braid_zalloc_array(allocator, devices, sizeof *e->looking);
  e->ready_on = braid_zalloc_array(allocator, devices, sizeof *e->ready_on);
  e->turn = braid_zalloc_array(allocator, devices, sizeof *e->turn);
  e->bus_free = braid_zalloc_array(allocator, (size_t)problem->bus_count + 1, sizeof *e->bus_free);
  /* a task begins and ends once, and a device is looked at again once for each */
  e->events = braid_zalloc_array(allocator, 3 * nodes + devices, sizeof *e->events);
  bool all = e->task_of && e->waiting && e->computed && e->ready && e->heads && e->running && e->awaiting &&
             e->idle_since && e->busy && e->clocks && e->first_clocks && e->dirty && e->blocked && e->bus_free &&
             e->events && e->marked && e->looking && e->ready_on && e->turn && e->begun && e->unmoved &&
             e->unmoved_seconds && e->unmoved_idle;
  if (!all || !allocate_bookings(e, reads)) return BRAID_NO_MEMORY;
  BRAID_TRY(braid_arrivals_init(&e->arrived, problem, 2 * reads, allocator));
  return fill_lists(e, reads);
}

void braid_engine_free(engine *e) {
  void *memory[] = {e->first_clocks,  e->marked,        e->looking,       e->turn,
                    e->ready_on,      e->task_of,       e->waiting,       e->computed,
                    e->ready,         e->heads,         e->running,       e->idle_since,
                    e->busy,          e->clocks,        e->dirty,         e->blocked,
                    e->bus_free,      e->events,        e->readers.first, e->readers.items,
                    e->results.first, e->results.items, e->queues.first,  e->queues.items,
                    e->awaiting,      e->begun,         e->unmoved,       e->unmoved_seconds,
                    e->unmoved_idle,  e->bookings,      e->first_booking, e->last_booking};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) braid_free(e->view.choosing->allocator, memory[i]);
  braid_arrivals_deinit(&e->arrived, e->view.choosing->allocator);
}

void braid_engine_book(engine *e, int bus, double from, double until) {
  if (!e->traffic || bus < 0 || until <= from) return;
  int32_t index = (int32_t)e->booking_count++, last = e->last_booking[bus];
  e->bookings[index] = (booking){from, until, -1};
  if (e->first_booking[bus] < 0)
    e->first_booking[bus] = index;
  else
    e->bookings[last].next = index;
  e->last_booking[bus] = index;
}

bool braid_engine_in_use(engine *e, int bus) {
  if (!e->traffic || bus < 0) return false;
  int32_t *first = &e->first_booking[bus];
  while (*first >= 0 && e->bookings[*first].until <= e->view.now) *first = e->bookings[*first].next;
  return *first >= 0 && e->bookings[*first].from <= e->view.now;
}
