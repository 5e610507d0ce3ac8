/* Binding a plan: memory for its activations, kernels prepared, weights found, and a task with addresses for every
 * step. */
#include <stdlib.h>
#include <string.h>

#include "base/detail.h"
#include "base/try.h"
#include "runtime/execution/execution.h"

/* --- memory --------------------------------------------------------------------------------------------------------
 */
/* The host's arena is what transfers go through; where there is one queue there are none. */
static braid_status take_arenas(braid_execution *execution) {
  const braid_plan *plan = execution->plan;
  BRAID_TRY(braid_arenas_take(execution->plan, &execution->arenas));
  if (execution->arenas->shared) return BRAID_OK;
  return braid_execution_pin(execution, execution->arenas->memory[kHostSpace].host, plan->arena_bytes[kHostSpace]);
}

static braid_status allocate_tasks(braid_execution *execution) {
  const braid_plan *plan = execution->plan;
  const braid_allocator *allocator = execution->allocator;
  size_t steps = plan->steps.count, bindings = 0, waits = 0;
  for (size_t i = 0; i < steps; i++) {
    const braid_step *step = &plan->steps.items[i];
    bindings += step->input_count + step->output_count + 1;
    waits += step->wait_count;
  }
  execution->prepared = braid_zalloc_array(allocator, steps, sizeof *execution->prepared);
  execution->found = braid_zalloc_array(allocator, plan->storage_count, sizeof *execution->found);
  execution->parts = braid_zalloc_array(allocator, plan->queue_count, sizeof *execution->parts);
  execution->tasks = braid_zalloc_array(allocator, steps, sizeof *execution->tasks);
  execution->parted = braid_zalloc_array(allocator, steps, sizeof *execution->parted);
  execution->timings = braid_zalloc_array(allocator, steps, sizeof *execution->timings);
  execution->bindings = braid_zalloc_array(allocator, bindings, sizeof *execution->bindings);
  execution->waits = braid_zalloc_array(allocator, waits, sizeof *execution->waits);
  execution->samples = braid_zalloc_array(allocator, steps * kSamples, sizeof *execution->samples);
  execution->energies = braid_zalloc_array(allocator, steps, sizeof *execution->energies);
  execution->slots.items = braid_zalloc_array(allocator, bindings, sizeof *execution->slots.items);
  if (!execution->prepared || !execution->found || !execution->parts || !execution->tasks || !execution->parted ||
      !execution->timings || !execution->bindings || !execution->waits || !execution->samples || !execution->energies ||
      !execution->slots.items)
    return BRAID_NO_MEMORY;
  memset(execution->samples, -1, steps * kSamples * sizeof *execution->samples);
  for (size_t i = 0; i < steps; i++) execution->energies[i] = -1;
  return BRAID_OK;
}

/* --- the caller's memory -------------------------------------------------------------------------------------------
 */
static braid_status make_ports(braid_execution *execution) {
  const braid_graph *graph = execution->plan->graph;
  execution->inputs = braid_zalloc_array(execution->allocator, graph->input_count, sizeof *execution->inputs);
  execution->outputs = braid_zalloc_array(execution->allocator, graph->output_count, sizeof *execution->outputs);
  if (!execution->inputs || !execution->outputs) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < graph->input_count + graph->output_count; i++) {
    bool input = i < graph->input_count;
    const braid_value *value = &graph->values[input ? graph->inputs[i] : graph->outputs[i - graph->input_count]];
    braid_port *port = input ? &execution->inputs[i] : &execution->outputs[i - graph->input_count];
    *port =
        (braid_port){.desc = &value->desc, .name = value->name, .storage = -1, .bytes = braid_desc_bytes(&value->desc)};
  }
  return BRAID_OK;
}

static int by_storage(const void *a, const void *b) {
  const braid_slot *x = a, *y = b;
  return (x->storage > y->storage) - (x->storage < y->storage);
}

static braid_port *port_of(const braid_execution *execution, const braid_storage *storage) {
  if (storage->kind == BRAID_STORAGE_INPUT) return &execution->inputs[storage->index];
  return storage->kind == BRAID_STORAGE_OUTPUT ? &execution->outputs[storage->index] : NULL;
}

static void bind_ports(braid_execution *execution) {
  const braid_plan *plan = execution->plan;
  braid_slots *slots = &execution->slots;
  if (slots->count) qsort(slots->items, slots->count, sizeof *slots->items, by_storage);
  for (size_t i = 0; i < plan->storage_count; i++) {
    const braid_storage *storage = &plan->storages[i];
    braid_port *port = storage->same_as < 0 ? port_of(execution, storage) : NULL;
    if (!port) continue;
    port->storage = (braid_storage_id)i;
    port->space = storage->space;
  }
  for (size_t i = 0; i < slots->count; i++) {
    braid_port *port = port_of(execution, &plan->storages[slots->items[i].storage]);
    if (!port->slot_count++) port->slots = &slots->items[i];
  }
}

/* --- tasks ---------------------------------------------------------------------------------------------------------
 */
static void make_tasks(braid_execution *execution) {
  const braid_plan *plan = execution->plan;
  const braid_addresses addresses = {plan, execution->arenas->memory, execution->found};
  braid_binding *bindings = execution->bindings;
  braid_point *waits = execution->waits;
  for (size_t i = 0; i < plan->steps.count; i++) {
    const braid_step *step = &plan->steps.items[i];
    braid_task *task = &execution->tasks[i];
    task->label = step->label;
    task->verdict = &execution->verdict;
    task->timing = &execution->timings[i];
    if (step->kind == BRAID_STEP_KERNEL)
      bindings = braid_bind_kernel(&addresses, step, execution->prepared[i]->self, task, bindings, &execution->slots);
    else
      braid_bind_move(&addresses, step, task, &execution->slots);
    task->waits = waits;
    task->wait_count = step->wait_count;
    waits += step->wait_count;
    execution->devices |= 1u << step->device;
  }
}

/* With a time limit somebody else must be able to go on when a task hangs. */
static void choose_thread(braid_execution *execution) {
  const braid_plan *plan = execution->plan;
  if (plan->here && execution->queues_used == 1 && execution->timeout_ns < 0)
    execution->here = &execution->parts[plan->steps.items[0].queue];
}

/* Tasks by queue, and those that others wait for. Under a time limit all are awaited: which one hung is to be told. */
static void part_tasks(braid_execution *execution) {
  const braid_plan *plan = execution->plan;
  braid_task **next = execution->parted;
  for (size_t q = 0; q < plan->queue_count; q++) {
    execution->parts[q].tasks = next;
    next += plan->queues[q].steps;
  }
  for (size_t i = 0; i < plan->steps.count; i++) {
    const braid_step *step = &plan->steps.items[i];
    braid_part *part = &execution->parts[step->queue];
    part->tasks[part->count++] = &execution->tasks[i];
    execution->tasks[i].awaited = execution->timeout_ns >= 0;
    for (size_t w = 0; w < step->wait_count; w++)
      execution->parts[step->waits[w].queue].tasks[step->waits[w].nth]->awaited = true;
  }
}

static braid_status record_parts(braid_execution *execution) {
  for (size_t q = 0; q < execution->plan->queue_count; q++) {
    braid_part *part = &execution->parts[q];
    if (!part->queue) continue;
    if (!part->queue->backend->record) {
      execution->unrecorded++;
      continue;
    }
    braid_clear_detail();
    BRAID_TRY(part->queue->backend->record(part->queue->self, part->tasks, part->count, &part->recording));
  }
  return BRAID_OK;
}

static braid_status find_queues(braid_execution *execution) {
  const braid_plan *plan = execution->plan;
  for (size_t q = 0; q < plan->queue_count; q++) {
    if (!plan->queues[q].steps) continue;
    execution->parts[q].execution = execution;
    execution->queues_used++;
    BRAID_TRY(braid_machine_queue(execution->machine, (int)q, &execution->parts[q].queue));
  }
  return BRAID_OK;
}

braid_status braid_execution_bind(braid_execution *execution) {
  BRAID_TRY(make_ports(execution));
  BRAID_TRY(allocate_tasks(execution));
  BRAID_TRY(braid_plan_prepare(execution->plan, execution->prepared));
  BRAID_TRY(take_arenas(execution));
  BRAID_TRY(find_queues(execution));
  BRAID_TRY(braid_weights_bind(execution->weights, execution->plan, execution->prepared, execution->arenas->memory,
                               execution->found));
  BRAID_TRY(braid_execution_find_times(execution));
  BRAID_TRY(braid_execution_find_writers(execution));
  make_tasks(execution);
  bind_ports(execution);
  part_tasks(execution);
  choose_thread(execution);
  return record_parts(execution);
}

void braid_execution_unbind(braid_execution *execution) {
  const braid_plan *plan = execution->plan;
  const braid_allocator *allocator = execution->allocator;
  for (size_t i = 0; execution->prepared && i < plan->steps.count; i++) braid_prepared_release(execution->prepared[i]);
  for (size_t q = 0; execution->parts && q < plan->queue_count; q++) {
    const braid_part *part = &execution->parts[q];
    if (part->recording) part->queue->backend->erase(part->queue->self, part->recording);
  }
  while (execution->pins) braid_execution_unpin(execution, execution->pins->host);
  braid_arenas_release(execution->plan, execution->arenas);
  braid_ports_deinit(execution);
  braid_free(allocator, execution->prepared);
  braid_free(allocator, execution->found);
  braid_free(allocator, execution->parts);
  braid_free(allocator, execution->tasks);
  braid_free(allocator, execution->parted);
  braid_free(allocator, execution->timings);
  braid_free(allocator, execution->bindings);
  braid_free(allocator, execution->waits);
  braid_free(allocator, execution->samples);
  braid_free(allocator, execution->energies);
  braid_free(allocator, execution->times);
  braid_free(allocator, execution->writers);
  braid_free(allocator, execution->slots.items);
}
