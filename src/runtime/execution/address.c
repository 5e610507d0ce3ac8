#include "runtime/execution/address.h"

#include "base/detail.h"

/* Where a storage lies; in the caller's memory: nowhere yet. */
static braid_binding locate(const braid_addresses *addresses, braid_storage_id id) {
  braid_storage_id root = braid_plan_find(addresses->plan, id);
  const braid_storage *storage = &addresses->plan->storages[root];
  if (addresses->weights[root]) return braid_weight_binding(addresses->weights[root]);
  braid_binding binding = {.bytes = storage->bytes};
  if (storage->kind == BRAID_STORAGE_ARENA) {
    const braid_memory *arena = &addresses->arenas[storage->space];
    binding.buffer = arena->buffer;
    binding.offset = storage->offset;
    if (arena->host) binding.host = arena->host + storage->offset;
  }
  return binding;
}

/* False: the storage is not the caller's. */
static bool add_slot(const braid_addresses *addresses, braid_storage_id id, braid_binding *binding, void **host,
                     braid_slots *slots) {
  braid_storage_id root = braid_plan_find(addresses->plan, id);
  braid_storage_kind kind = addresses->plan->storages[root].kind;
  if (!slots || (kind != BRAID_STORAGE_INPUT && kind != BRAID_STORAGE_OUTPUT)) return false;
  slots->items[slots->count++] = (braid_slot){root, binding, host};
  return true;
}

/* `index`: the binding's, as braid_task.ports counts. */
static void bind_operand(const braid_addresses *addresses, braid_storage_id id, braid_task *task, size_t index,
                         braid_binding *binding, braid_slots *slots) {
  *binding = locate(addresses, id);
  if (add_slot(addresses, id, binding, NULL, slots)) task->ports |= (uint64_t)1 << (index < 63 ? index : 63);
}

void braid_bind_move(const braid_addresses *addresses, const braid_step *step, braid_task *task, braid_slots *slots) {
  static const braid_task_kind kKinds[] = {
      [BRAID_STEP_WRITE] = BRAID_TASK_WRITE, [BRAID_STEP_READ] = BRAID_TASK_READ, [BRAID_STEP_COPY] = BRAID_TASK_COPY};
  const braid_plan *plan = addresses->plan;
  const braid_instance *from = &plan->instances[step->instances[0]], *to = &plan->instances[step->instances[1]];
  task->kind = kKinds[step->kind];
  if (step->kind == BRAID_STEP_WRITE) {
    task->host = locate(addresses, from->storage).host;
    (void)add_slot(addresses, from->storage, NULL, &task->host, slots);
  } else {
    bind_operand(addresses, from->storage, task, 0, &task->source, slots);
  }
  if (step->kind == BRAID_STEP_READ) {
    task->host = locate(addresses, to->storage).host;
    (void)add_slot(addresses, to->storage, NULL, &task->host, slots);
  } else {
    bind_operand(addresses, to->storage, task, 1, &task->target, slots);
  }
  if (step->kind == BRAID_STEP_COPY && from->space != to->space)
    task->source_device = addresses->arenas[from->space].owner->self;
}

braid_binding *braid_bind_kernel(const braid_addresses *addresses, const braid_step *step, void *prepared,
                                 braid_task *task, braid_binding *bindings, braid_slots *slots) {
  size_t count = step->input_count + step->output_count;
  task->kind = BRAID_TASK_KERNEL;
  task->prepared = prepared;
  task->bindings = bindings;
  task->input_count = step->input_count;
  task->output_count = step->output_count;
  for (size_t i = 0; i < count; i++, bindings++)
    if (step->instances[i] >= 0)
      bind_operand(addresses, addresses->plan->instances[step->instances[i]].storage, task, i, bindings, slots);
  if (step->workspace >= 0) bind_operand(addresses, step->workspace, task, count, bindings, slots);
  return bindings + 1;
}

braid_status braid_plan_no_memory(const braid_plan *plan, braid_status status, int space, braid_storage_kind kind,
                                  size_t bytes) {
  const braid_instance *largest = NULL;
  for (size_t i = 0; i < plan->instance_count; i++) {
    const braid_instance *instance = &plan->instances[i];
    if (instance->space != space || braid_plan_storage(plan, instance->storage)->kind != kind) continue;
    if (!largest || braid_desc_bytes(&instance->desc) > braid_desc_bytes(&largest->desc)) largest = instance;
  }
  status = braid_fail_prefix(status, "%zu bytes for %s, the largest of them %.100s with %zu", bytes,
                             kind == BRAID_STORAGE_ARENA ? "activations" : "parameters",
                             largest ? plan->graph->values[largest->value].name : "a workspace",
                             largest ? braid_desc_bytes(&largest->desc) : 0);
  for (size_t i = 0; i < plan->device_count; i++)
    if (plan->devices[i].space == space) return braid_fail_prefix(status, "device %s", plan->devices[i].label);
  return status;
}
