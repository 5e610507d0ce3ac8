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

void braid_plan_check(const braid_plan *plan) {
  check_merges(plan);
  for (size_t i = 0; i < plan->steps.count; i++) {
    const braid_step *step = &plan->steps.items[i];
    braid_step_visit(plan, step, check_life, &(check_use){plan, (braid_step_id)i});
    check_waits(plan, step);
  }
  check_blocks(plan);
}
