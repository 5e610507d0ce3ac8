/* What every plan fulfils, whatever the graph, asserted once it is made (base/invariant.h). */
#include "base/invariant.h"
#include "runtime/plan/plan.h"

/* Storages that are merged form trees. */
static void check_merges(const braid_plan *plan) {
  for (size_t i = 0; i < plan->storage_count; i++) {
    braid_storage_id at = (braid_storage_id)i;
    size_t depth = 0;
    for (; plan->storages[at].same_as >= 0 && depth <= plan->storage_count; depth++) at = plan->storages[at].same_as;
    BRAID_ASSERT(depth < plan->storage_count);
  }
}

typedef struct check_use {
  const braid_plan *plan;
  braid_step_id step;
} check_use;

/* A storage lives from its first use to its last. */
static void check_life(void *context, braid_storage_id id, bool writes) {
  const check_use *use = context;
  const braid_storage *storage = &use->plan->storages[id];
  (void)writes;
  BRAID_ASSERT(storage->same_as < 0);
  BRAID_ASSERT(storage->first >= 0 && storage->first <= use->step && use->step <= storage->last);
}

/* A step waits for steps before it, of other queues. */
static void check_waits(const braid_plan *plan, const braid_step *step) {
  BRAID_ASSERT(step->queue >= 0 && (size_t)step->queue < plan->queue_count);
  for (size_t i = 0; i < step->wait_count; i++) {
    const braid_step_wait *wait = &step->waits[i];
    bool before = false;
    for (const braid_step *other = plan->steps.items; other < step && !before; other++)
      before = other->queue == wait->queue && other->nth == wait->nth;
    BRAID_ASSERT(before && wait->queue != step->queue);
  }
}

static bool is_block(const braid_storage *storage) {
  return storage->same_as < 0 && storage->kind == BRAID_STORAGE_ARENA && storage->first >= 0 && storage->bytes > 0;
}

/* Blocks of an arena that are alive at the same step lie side by side. */
static void check_blocks(const braid_plan *plan) {
  for (const braid_storage *a = plan->storages; a < plan->storages + plan->storage_count; a++) {
    if (!is_block(a)) continue;
    BRAID_ASSERT(a->offset + a->bytes <= plan->arena_bytes[a->space]);
    for (const braid_storage *b = plan->storages; b < a; b++) {
      if (!is_block(b) || b->space != a->space || a->first > b->last || b->first > a->last) continue;
      BRAID_ASSERT(a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset);
    }
  }
}

/* --- order ---------------------------------------------------------------------------------------------------------
 */
typedef struct check_touch {
  braid_step_id step;
  braid_storage_id storage;
  bool writes;
} check_touch;

typedef struct check_order {
  const braid_plan *plan;
  braid_step_id step;
  braid_step_id *clocks; /* per step and queue: the last step that is over when the step begins; -1: none */
  check_touch *touches;
  size_t count;
} check_order;

static void add_touch(void *context, braid_storage_id id, bool writes) {
  check_order *order = context;
  if (order->touches) order->touches[order->count] = (check_touch){order->step, id, writes};
  order->count++;
}

static void find_touches(check_order *order) {
  order->count = 0;
  for (size_t i = 0; i < order->plan->steps.count; i++) {
    order->step = (braid_step_id)i;
    braid_step_visit(order->plan, &order->plan->steps.items[i], add_touch, order);
  }
}

/* What is over when `other` is counts as over. */
static void add_clock(const check_order *order, size_t step, size_t other) {
  const braid_plan *plan = order->plan;
  braid_step_id *own = &order->clocks[step * plan->queue_count], *theirs = &order->clocks[other * plan->queue_count];
  for (size_t q = 0; q < plan->queue_count; q++)
    if (theirs[q] > own[q]) own[q] = theirs[q];
  braid_step_id *same = &own[plan->steps.items[other].queue];
  if (*same < (braid_step_id)other) *same = (braid_step_id)other;
}

static void find_clocks(const check_order *order) {
  const braid_plan *plan = order->plan;
  for (size_t i = 0; i < plan->steps.count; i++) {
    const braid_step *step = &plan->steps.items[i];
    for (size_t q = 0; q < plan->queue_count; q++) order->clocks[i * plan->queue_count + q] = -1;
    for (size_t k = 0; k < i; k++) {
      const braid_step *other = &plan->steps.items[k];
      bool before = other->queue == step->queue && other->nth == step->nth - 1;
      for (size_t w = 0; w < step->wait_count && !before; w++)
        before = other->queue == step->waits[w].queue && other->nth == step->waits[w].nth;
      if (before) add_clock(order, i, k);
    }
  }
}

static bool is_same_memory(const braid_plan *plan, braid_storage_id first, braid_storage_id second) {
  const braid_storage *a = &plan->storages[first], *b = &plan->storages[second];
  if (a == b) return true;
  return a->kind == BRAID_STORAGE_ARENA && b->kind == a->kind && a->space == b->space &&
         a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* Does the later of any two steps on two queues that touch the same memory, one of them writing, wait for the other? */
static bool are_touches_ordered(const check_order *order) {
  const braid_plan *plan = order->plan;
  for (const check_touch *b = order->touches; b < order->touches + order->count; b++)
    for (const check_touch *a = order->touches; a < b; a++) {
      int queue = plan->steps.items[a->step].queue;
      bool over = order->clocks[(size_t)b->step * plan->queue_count + (size_t)queue] >= a->step;
      if (over || queue == plan->steps.items[b->step].queue || (!a->writes && !b->writes)) continue;
      if (is_same_memory(plan, a->storage, b->storage)) return false;
    }
  return true;
}

/* Where there is one queue its order is enough. */
static void check_steps(const braid_plan *plan) {
  check_order order = {.plan = plan};
  size_t used = 0;
  bool ordered = true;
  for (size_t q = 0; q < plan->queue_count; q++) used += plan->queues[q].steps > 0;
  if (used < 2) return;
  find_touches(&order);
  order.clocks = braid_zalloc_array(NULL, plan->steps.count * plan->queue_count, sizeof *order.clocks);
  order.touches = braid_zalloc_array(NULL, order.count + 1, sizeof *order.touches);
  if (order.clocks && order.touches) {
    find_touches(&order);
    find_clocks(&order);
    ordered = are_touches_ordered(&order);
  }
  braid_free(NULL, order.clocks);
  braid_free(NULL, order.touches);
  BRAID_ASSERT(ordered);
}

void braid_plan_check(const braid_plan *plan) {
  check_merges(plan);
  for (size_t i = 0; i < plan->steps.count; i++) {
    const braid_step *step = &plan->steps.items[i];
    braid_step_visit(plan, step, check_life, &(check_use){plan, (braid_step_id)i});
    check_waits(plan, step);
  }
  check_blocks(plan);
  check_steps(plan);
}
