/* Waits across queues. A queue keeps its own order; beyond that a step has to wait for whoever wrote what it reads, and
 * for whoever touched what it overwrites - also under another name: storages that take the same bytes of an arena one
 * after the other.
 *
 * For each step it is enough to wait for the latest such step of every other queue, and not even for that if it has
 * been waited for already, by this queue or by a step this queue has waited for. That is kept as one clock per step:
 * the latest step of every queue known to be done when the step is.
 *
 * A wait ends what a device can record as one graph, so small transfers are waited for together, and wait together: a
 * step that needs an input waits for the small ones behind it too (early.c), and the first of several small outputs
 * waits for all that they are computed by. All of these are before the step, so nothing waits for itself. */
#include <string.h>

#include "base/try.h"
#include "runtime/plan/steps.h"

typedef struct hazard_state {
  braid_plan *plan;
  size_t queues;
  braid_step_id *writer;  /* per storage: the last step that wrote it; -1: none */
  braid_step_id *touched; /* per storage and queue: the last step that touched it; -1: none */
  braid_step_id *clocks;  /* per step and queue */
  braid_step_id *now;     /* per queue: its last step so far; -1: none */
  braid_step_id *needs;   /* per queue: what the step at hand has to wait for; -1: nothing */
  braid_step_id step;
} hazard_state;

static void need(hazard_state *hazards, braid_step_id other) {
  if (other < 0) return;
  int queue = hazards->plan->steps.items[other].queue;
  if (hazards->needs[queue] < other) hazards->needs[queue] = other;
}

static void need_touchers(hazard_state *hazards, braid_storage_id id) {
  need(hazards, hazards->writer[id]);
  for (size_t q = 0; q < hazards->queues; q++) need(hazards, hazards->touched[(size_t)id * hazards->queues + q]);
}

static bool overlap(const braid_storage *a, const braid_storage *b) {
  return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static void find_needs(void *context, braid_storage_id id, bool writes) {
  hazard_state *hazards = context;
  const braid_plan *plan = hazards->plan;
  const braid_storage *storage = &plan->storages[id];
  if (!writes) {
    need(hazards, hazards->writer[id]);
    return;
  }
  need_touchers(hazards, id);
  if (storage->kind != BRAID_STORAGE_ARENA || storage->first != hazards->step || plan->no_reuse) return;
  for (size_t i = 0; i < plan->storage_count; i++) {
    const braid_storage *other = &plan->storages[i];
    if (other != storage && other->same_as < 0 && other->kind == BRAID_STORAGE_ARENA &&
        other->space == storage->space && other->last < hazards->step && overlap(storage, other))
      need_touchers(hazards, (braid_storage_id)i);
  }
}

static void hazard_record(void *context, braid_storage_id id, bool writes) {
  hazard_state *hazards = context;
  int queue = hazards->plan->steps.items[hazards->step].queue;
  hazards->touched[(size_t)id * hazards->queues + (size_t)queue] = hazards->step;
  if (writes) hazards->writer[id] = hazards->step;
}

/* The last of the small inputs that stand behind this one in its queue; of another step, itself. */
static braid_step_id last_of_inputs(const hazard_state *hazards, braid_step_id first) {
  const braid_plan *plan = hazards->plan;
  const braid_step *steps = plan->steps.items;
  braid_step_id last = first;
  if (!braid_step_brings_input(plan, &steps[first])) return first;
  for (braid_step_id i = first + 1; i < hazards->step && braid_step_brings_input(plan, &steps[i]); i++) {
    if (steps[i].queue != steps[first].queue) continue;
    if (!braid_step_moves_little(plan, &steps[i])) break;
    last = i;
  }
  return last;
}

/* Does the step send a small output, and so does the one before it in the same queue? */
static bool follows_output(const braid_plan *plan, size_t index) {
  if (index == 0 || index >= plan->steps.count) return false;
  const braid_step *step = &plan->steps.items[index], *before = step - 1;
  return step->queue == before->queue && braid_step_sends_output(plan, step) && braid_step_moves_little(plan, step) &&
         braid_step_sends_output(plan, before) && braid_step_moves_little(plan, before);
}

/* Turns needs into waits, leaving out what is known to be done. */
static braid_status add_waits(hazard_state *hazards, braid_step *step) {
  size_t queues = hazards->queues;
  braid_step_id *clock = &hazards->clocks[(size_t)hazards->step * queues];
  braid_step_id before = hazards->now[step->queue];
  for (size_t q = 0; q < queues; q++) clock[q] = before >= 0 ? hazards->clocks[(size_t)before * queues + q] : -1;
  step->waits = braid_arena_alloc(hazards->plan->arena, queues * sizeof *step->waits);
  if (!step->waits) return BRAID_NO_MEMORY;
  for (size_t q = 0; q < queues; q++) {
    braid_step_id other = hazards->needs[q];
    if ((int)q == step->queue || other <= clock[q]) continue;
    other = last_of_inputs(hazards, other);
    step->waits[step->wait_count++] = (braid_step_wait){(int)q, hazards->plan->steps.items[other].nth};
    const braid_step_id *theirs = &hazards->clocks[(size_t)other * queues];
    for (size_t r = 0; r < queues; r++)
      if (theirs[r] > clock[r]) clock[r] = theirs[r];
  }
  clock[step->queue] = hazards->step;
  hazards->now[step->queue] = hazards->step;
  return BRAID_OK;
}

static braid_status find_waits(hazard_state *hazards) {
  braid_plan *plan = hazards->plan;
  for (size_t i = 0; i < plan->steps.count; i++) {
    braid_step *step = &plan->steps.items[i];
    hazards->step = (braid_step_id)i;
    for (size_t q = 0; q < hazards->queues; q++) hazards->needs[q] = -1;
    braid_step_visit(plan, step, find_needs, hazards);
    for (size_t j = i + 1; !follows_output(plan, i) && follows_output(plan, j); j++)
      braid_step_visit(plan, &plan->steps.items[j], find_needs, hazards);
    BRAID_TRY(add_waits(hazards, step));
    braid_step_visit(plan, step, hazard_record, hazards);
  }
  return BRAID_OK;
}

static braid_step_id *none(const braid_allocator *allocator, size_t rows, size_t columns) {
  braid_step_id *ids = braid_zalloc_array(allocator, rows * columns, sizeof *ids);
  if (ids) memset(ids, -1, rows * columns * sizeof *ids);
  return ids;
}

braid_status braid_plan_hazards(braid_plan *plan) {
  size_t used = 0;
  for (size_t i = 0; i < plan->steps.count; i++) {
    braid_step *step = &plan->steps.items[i];
    plan->queues[step->queue].used = true;
    step->nth = plan->queues[step->queue].steps++;
  }
  for (size_t i = 0; i < plan->setup.count; i++) plan->queues[plan->setup.items[i].queue].used = true;
  for (size_t q = 0; q < plan->queue_count; q++) used += plan->queues[q].used;
  if (used < 2) return BRAID_OK;
  hazard_state hazards = {.plan = plan, .queues = plan->queue_count};
  hazards.writer = none(plan->allocator, plan->storage_count, 1);
  hazards.touched = none(plan->allocator, plan->storage_count, hazards.queues);
  hazards.clocks = none(plan->allocator, plan->steps.count, hazards.queues);
  hazards.now = none(plan->allocator, hazards.queues, 1);
  hazards.needs = none(plan->allocator, hazards.queues, 1);
  bool allocated = hazards.writer && hazards.touched && hazards.clocks && hazards.now && hazards.needs;
  braid_status status = allocated ? find_waits(&hazards) : BRAID_NO_MEMORY;
  braid_free(plan->allocator, hazards.writer);
  braid_free(plan->allocator, hazards.touched);
  braid_free(plan->allocator, hazards.clocks);
  braid_free(plan->allocator, hazards.now);
  braid_free(plan->allocator, hazards.needs);
  return status;
}
