#include "runtime/execution/arenas.h"

#include "base/detail.h"
#include "base/try.h"
#include "runtime/execution/address.h"

static bool has_one_queue(const braid_plan *plan) {
  size_t used = 0;
  for (size_t q = 0; q < plan->queue_count; q++) used += plan->queues[q].used;
  return used == 1;
}

static braid_status arenas_fill(const braid_plan *plan, braid_arenas *arenas) {
  for (int space = 0; space < plan->space_count; space++) {
    size_t bytes = plan->arena_bytes[space];
    braid_status status = braid_machine_allocate(plan->machine, space, bytes, &arenas->memory[space]);
    if (status != BRAID_OK) return braid_plan_no_memory(plan, status, space, BRAID_STORAGE_ARENA, bytes);
  }
  return BRAID_OK;
}

braid_status braid_arenas_take(braid_plan *plan, braid_arenas **out) {
  if ((*out = plan->arenas)) {
    plan->arenas->users++;
    return BRAID_OK;
  }
  braid_arenas *arenas = *out =
      braid_zalloc(plan->allocator, sizeof *arenas + (size_t)plan->space_count * sizeof *arenas->memory);
  if (!arenas) return BRAID_NO_MEMORY;
  arenas->users = 1;
  BRAID_TRY(arenas_fill(plan, arenas));
  arenas->shared = has_one_queue(plan);
  if (arenas->shared) plan->arenas = arenas;
  return BRAID_OK;
}

void braid_arenas_release(braid_plan *plan, braid_arenas *arenas) {
  if (!arenas) return;
  pthread_mutex_lock(&plan->lock);
  bool last = --arenas->users == 0;
  if (last && arenas->shared) plan->arenas = NULL;
  pthread_mutex_unlock(&plan->lock);
  if (!last) return;
  for (int space = 0; space < plan->space_count; space++) braid_machine_free(plan->machine, &arenas->memory[space]);
  braid_free(plan->allocator, arenas);
}
