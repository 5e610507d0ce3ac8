/* Where storages lie: arenas packed by lifetime, per space. What persists lies in the weights; here is how much. */
#include "base/checked.h"
#include "base/try.h"
#include "runtime/plan/plan.h"

enum {
  kAhead = 6,     /* steps */
  kLingerPart = 8 /* of a device's memory: an arena that is larger keeps nothing longer */
};

/* At least one unit, so that an empty operand still has an address. */
static bool round_up(size_t bytes, size_t alignment, size_t *out) {
  if (!braid_add_size(bytes ? bytes : 1, alignment - 1, out)) return false;
  *out &= ~(alignment - 1);
  return true;
}

static bool is_in(const braid_plan *plan, size_t id, braid_storage_kind kind, int space) {
  const braid_storage *storage = &plan->storages[id];
  return storage->same_as < 0 && storage->kind == kind && storage->space == space;
}

static braid_status too_large(void) {
  return braid_fail(BRAID_OUT_OF_RANGE, "the values of the graph do not fit any memory");
}

static bool is_transfer(const braid_plan *plan, braid_step_id step) {
  return step >= 0 && plan->queues[plan->steps.items[step].queue].role != BRAID_QUEUE_KERNELS;
}

/* Steps that memory of the space is kept longer, and the largest arena for which it is. Without states to be updated
 * one step mostly waits for the other. */
static braid_step_id linger_of(const braid_plan *plan, int space, uint64_t *most_bytes) {
  size_t linger = 0;
  *most_bytes = 0;
  for (size_t i = 0; plan->writes_weights && i < plan->device_count; i++) {
    const braid_machine_device *device = &plan->devices[i];
    if (device->space != space || device->backend->lingers <= linger) continue;
    linger = device->backend->lingers;
    *most_bytes = device->info->memory_bytes / kLingerPart;
  }
  return (braid_step_id)(linger < plan->steps.count ? linger : plan->steps.count);
}

/* A storage's life, for packing. What a transfer fills is kept free some steps earlier, what one reads some steps
 * longer: else it would have to wait for the kernels that use the same memory before it, and those after it for the
 * transfer. */
static braid_block life_of(const braid_plan *plan, const braid_storage *storage, braid_step_id linger) {
  braid_block block = {.first = storage->first, .last = storage->last};
  if (plan->no_reuse) return (braid_block){.first = 0, .last = INT32_MAX};
  if (is_transfer(plan, storage->first)) block.first = block.first < kAhead ? 0 : block.first - kAhead;
  block.last += is_transfer(plan, storage->last) && linger < kAhead ? (braid_step_id)kAhead : linger;
  return block;
}

static braid_status pack_arena(braid_plan *plan, int space, braid_step_id linger) {
  size_t alignment = braid_machine_alignment(plan->machine, space), count = 0;
  braid_block *blocks = braid_zalloc_array(plan->allocator, plan->storage_count, sizeof *blocks);
  if (!blocks) return BRAID_NO_MEMORY;
  braid_status status = BRAID_OK;
  for (size_t i = 0; status == BRAID_OK && i < plan->storage_count; i++) {
    if (!is_in(plan, i, BRAID_STORAGE_ARENA, space)) continue;
    const braid_storage *storage = &plan->storages[i];
    braid_block *block = &blocks[count++];
    *block = life_of(plan, storage, linger);
    if (!round_up(storage->bytes, alignment, &block->bytes)) status = too_large();
  }
  if (status == BRAID_OK) status = braid_pack_blocks(plan->allocator, blocks, count, &plan->arena_bytes[space]);
  count = 0;
  for (size_t i = 0; status == BRAID_OK && i < plan->storage_count; i++)
    if (is_in(plan, i, BRAID_STORAGE_ARENA, space)) plan->storages[i].offset = blocks[count++].offset;
  braid_free(plan->allocator, blocks);
  return status;
}

static braid_status plan_arena(braid_plan *plan, int space) {
  uint64_t most_bytes;
  braid_step_id linger = linger_of(plan, space, &most_bytes);
  if (linger) {
    BRAID_TRY(pack_arena(plan, space, linger));
    if (plan->arena_bytes[space] <= most_bytes) return BRAID_OK;
  }
  return pack_arena(plan, space, 0);
}

static braid_status plan_persistent(braid_plan *plan, int space) {
  size_t alignment = braid_machine_alignment(plan->machine, space), end = 0;
  for (size_t i = 0; i < plan->storage_count; i++) {
    if (!is_in(plan, i, BRAID_STORAGE_PERSISTENT, space)) continue;
    size_t bytes;
    if (!round_up(plan->storages[i].bytes, alignment, &bytes) || !braid_add_size(end, bytes, &end)) return too_large();
  }
  plan->persistent_bytes[space] = end;
  return BRAID_OK;
}

braid_status braid_plan_memory(braid_plan *plan) {
  for (int space = 0; space < plan->space_count; space++) {
    BRAID_TRY(plan_arena(plan, space));
    BRAID_TRY(plan_persistent(plan, space));
  }
  return BRAID_OK;
}
