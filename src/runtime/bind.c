/* Binding a plan: memory for its spaces, queues, and a task with addresses for every step. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/detail.h"
#include "base/try.h"
#include "runtime/session.h"

/* --- memory --------------------------------------------------------------------------------------------------------
 */
/* Names what the memory was for: the largest value of a space, beside the whole. */
static braid_status no_memory(const braid_session *session, braid_status status, int space, braid_storage_kind kind,
                              size_t bytes) {
  const braid_plan *plan = &session->plan;
  const braid_instance *largest = NULL;
  for (size_t i = 0; i < plan->instance_count; i++) {
    const braid_instance *instance = &plan->instances[i];
    if (instance->space != space || braid_plan_storage(plan, instance->storage)->kind != kind) continue;
    if (!largest || braid_desc_bytes(&instance->desc) > braid_desc_bytes(&largest->desc)) largest = instance;
  }
  return braid_fail_prefix(status, "%zu bytes for %s, the largest of them %.100s with %zu", bytes,
                           kind == BRAID_STORAGE_ARENA ? "activations" : "parameters",
                           largest ? plan->graph->values[largest->value].name : "a workspace",
                           largest ? braid_desc_bytes(&largest->desc) : 0);
}

static braid_status allocate_region(braid_session *session, braid_space_memory *memory, int space,
                                    braid_storage_kind kind, size_t bytes, void **region, uint8_t **host) {
  if (!bytes) return BRAID_OK;
  const braid_plan_device *owner = memory->owner;
  if (!owner) {
    *region = *host = braid_alloc(session->allocator, bytes);
    if (*region) return BRAID_OK;
    return no_memory(session, BRAID_NO_MEMORY, space, kind, bytes);
  }
  braid_clear_detail();
  braid_status status = owner->backend->buffer_create(owner->self, bytes, region);
  if (status != BRAID_OK)
    return braid_fail_prefix(no_memory(session, status, space, kind, bytes), "device %s", owner->label);
  if (owner->info->memory == BRAID_MEMORY_UNIFIED) *host = owner->backend->buffer_map(owner->self, *region);
  return BRAID_OK;
}

static braid_status allocate_spaces(braid_session *session) {
  const braid_plan *plan = &session->plan;
  session->memory = braid_zalloc_array(session->allocator, (size_t)plan->space_count, sizeof *session->memory);
  if (!session->memory) return BRAID_NO_MEMORY;
  for (int space = 0; space < plan->space_count; space++) {
    braid_space_memory *memory = &session->memory[space];
    for (size_t i = plan->device_count; i-- > 0;)
      if (plan->devices[i].space == space) memory->owner = &plan->devices[i];
    BRAID_TRY(allocate_region(session, memory, space, BRAID_STORAGE_ARENA, plan->arena_bytes[space], &memory->arena,
                              &memory->arena_host));
    BRAID_TRY(allocate_region(session, memory, space, BRAID_STORAGE_PERSISTENT, plan->persistent_bytes[space],
                              &memory->persistent, &memory->persistent_host));
  }
  return BRAID_OK;
}

static void free_region(braid_session *session, const braid_space_memory *memory, void *region) {
  if (!region) return;
  if (memory->owner)
    memory->owner->backend->buffer_destroy(memory->owner->self, region);
  else
    braid_free(session->allocator, region);
}

/* --- addresses -----------------------------------------------------------------------------------------------------
 */
/* Where a storage lies; in the caller's memory: nowhere yet. */
static braid_binding locate(const braid_session *session, braid_storage_id id) {
  const braid_storage *storage = braid_plan_storage(&session->plan, id);
  const braid_space_memory *memory = &session->memory[storage->space];
  bool arena = storage->kind == BRAID_STORAGE_ARENA;
  braid_binding binding = {.bytes = storage->bytes};
  if (storage->kind == BRAID_STORAGE_TENSOR) {
    binding.host = (void *)braid_tensor_const_data(session->graph->values[storage->value].tensor);
  } else if (storage->kind == BRAID_STORAGE_ARENA || storage->kind == BRAID_STORAGE_PERSISTENT) {
    uint8_t *host = arena ? memory->arena_host : memory->persistent_host;
    binding.buffer = arena ? memory->arena : memory->persistent;
    binding.offset = storage->offset;
    if (host) binding.host = host + storage->offset;
  }
  return binding;
}

/* Submits the session's errand and waits for its end. If that does not come the session is lost. */
static braid_status run_errand(braid_session *session, const braid_backend *backend, void *queue) {
  braid_errand *errand = &session->errand;
  if (session->lost) return braid_fail(BRAID_DEVICE_LOST, "an earlier run hung or lost its device");
  braid_event_reset(&errand->event);
  errand->task.done = &errand->event;
  braid_clear_detail();
  BRAID_TRY(backend->submit(queue, &errand->task));
  if (backend->flush) backend->flush(queue);
  int64_t deadline = session->timeout_ns < 0 ? -1 : braid_now_ns() + session->timeout_ns;
  braid_status status = braid_session_await(session, &errand->event, deadline);
  if (status == BRAID_OK) return braid_event_wait(&errand->event, 0);
  session->lost = errand->left = true;
  return status;
}

/* `host` must live as long as the session: a transfer that is left behind may still touch it. */
static braid_status transfer(braid_session *session, const braid_binding *binding, int space, void *host, bool write) {
  const braid_plan_device *owner = session->memory[space].owner;
  void *queue = session->queues[braid_queue_index((int)(owner - session->devices), BRAID_QUEUE_KERNELS)];
  session->errand.task = (braid_task){.kind = write ? BRAID_TASK_WRITE : BRAID_TASK_READ,
                                      .label = "transfer",
                                      .source = *binding,
                                      .target = *binding,
                                      .host = host};
  return run_errand(session, owner->backend, queue);
}

/* By way of memory of the session's, for that reason. */
static braid_status transfer_staged(braid_session *session, braid_storage_id id, void *host, bool write) {
  const braid_storage *storage = braid_plan_storage(&session->plan, id);
  braid_binding binding = locate(session, id);
  size_t bytes = storage->bytes;
  if (!bytes) return BRAID_OK;
  if (binding.host) {
    memcpy(write ? binding.host : host, write ? host : binding.host, bytes);
    return BRAID_OK;
  }
  braid_errand *errand = &session->errand;
  if (errand->left) return braid_fail(BRAID_DEVICE_LOST, "an earlier transfer hung or lost its device");
  errand->staging = braid_alloc(session->allocator, bytes);
  if (!errand->staging) return braid_fail(BRAID_NO_MEMORY, "%zu bytes asked for", bytes);
  if (write) memcpy(errand->staging, host, bytes);
  braid_status status = transfer(session, &binding, storage->space, errand->staging, write);
  if (errand->left) return status;
  if (status == BRAID_OK && !write) memcpy(host, errand->staging, bytes);
  braid_free(session->allocator, errand->staging);
  errand->staging = NULL;
  return status;
}

braid_status braid_session_put(braid_session *session, braid_storage_id id, const void *host) {
  return transfer_staged(session, id, (void *)host, true);
}

braid_status braid_session_fetch(braid_session *session, braid_storage_id id, void *host) {
  return transfer_staged(session, id, host, false);
}

/* --- tasks ---------------------------------------------------------------------------------------------------------
 */
static bool is_callers(const braid_storage *storage) {
  return storage->kind == BRAID_STORAGE_INPUT || storage->kind == BRAID_STORAGE_OUTPUT;
}

static void add_slot(braid_session *session, braid_storage_id id, void **where) {
  braid_storage_id root = braid_plan_find(&session->plan, id);
  if (is_callers(&session->plan.storages[root])) session->slots[session->slot_count++] = (braid_slot){root, where};
}

static void bind_operand(braid_session *session, braid_storage_id id, braid_binding *binding) {
  *binding = locate(session, id);
  add_slot(session, id, &binding->host);
}

static void bind_move(braid_session *session, const braid_step *step, braid_task *task) {
  static const braid_task_kind kKinds[] = {
      [BRAID_STEP_WRITE] = BRAID_TASK_WRITE, [BRAID_STEP_READ] = BRAID_TASK_READ, [BRAID_STEP_COPY] = BRAID_TASK_COPY};
  const braid_instance *from = &session->plan.instances[step->instances[0]];
  const braid_instance *to = &session->plan.instances[step->instances[1]];
  task->kind = kKinds[step->kind];
  if (step->kind == BRAID_STEP_WRITE) {
    task->host = locate(session, from->storage).host;
    add_slot(session, from->storage, &task->host);
  } else {
    bind_operand(session, from->storage, &task->source);
  }
  if (step->kind == BRAID_STEP_READ) {
    task->host = locate(session, to->storage).host;
    add_slot(session, to->storage, &task->host);
  } else {
    bind_operand(session, to->storage, &task->target);
  }
  if (step->kind == BRAID_STEP_COPY && from->space != to->space)
    task->source_device = session->memory[from->space].owner->self;
}

static braid_binding *bind_kernel(braid_session *session, const braid_step *step, braid_task *task,
                                  braid_binding *bindings) {
  size_t count = step->input_count + step->output_count;
  task->kind = BRAID_TASK_KERNEL;
  task->prepared = step->prepared;
  task->bindings = bindings;
  task->input_count = step->input_count;
  task->output_count = step->output_count;
  for (size_t i = 0; i < count; i++, bindings++)
    if (step->instances[i] >= 0) bind_operand(session, session->plan.instances[step->instances[i]].storage, bindings);
  if (step->workspace >= 0) bind_operand(session, step->workspace, bindings);
  return bindings + 1;
}

static braid_binding *bind_step(braid_session *session, const braid_step *step, braid_task *task,
                                braid_binding *bindings) {
  task->label = step->label;
  task->cancel = &session->cancel;
  if (step->kind == BRAID_STEP_KERNEL) return bind_kernel(session, step, task, bindings);
  bind_move(session, step, task);
  return bindings;
}

static int by_storage(const void *a, const void *b) {
  const braid_slot *x = a, *y = b;
  return (x->storage > y->storage) - (x->storage < y->storage);
}

static void bind_ports(braid_session *session) {
  const braid_plan *plan = &session->plan;
  if (session->slot_count) qsort(session->slots, session->slot_count, sizeof *session->slots, by_storage);
  for (size_t i = 0; i < plan->storage_count; i++) {
    const braid_storage *storage = &plan->storages[i];
    if (storage->same_as >= 0 || !is_callers(storage)) continue;
    bool input = storage->kind == BRAID_STORAGE_INPUT;
    braid_port *port = input ? &session->inputs[storage->index] : &session->outputs[storage->index];
    port->storage = (braid_storage_id)i;
  }
  for (size_t i = 0; i < session->slot_count; i++) {
    const braid_storage *storage = &plan->storages[session->slots[i].storage];
    bool input = storage->kind == BRAID_STORAGE_INPUT;
    braid_port *port = input ? &session->inputs[storage->index] : &session->outputs[storage->index];
    if (!port->slot_count++) port->slots = &session->slots[i];
  }
}

static braid_status allocate_tasks(braid_session *session) {
  const braid_plan *plan = &session->plan;
  const braid_allocator *allocator = session->allocator;
  size_t steps = plan->steps.count, bindings = 0, waits = 0;
  for (size_t i = 0; i < steps; i++) {
    const braid_step *step = &plan->steps.items[i];
    bindings += step->input_count + step->output_count + 1;
    waits += step->wait_count;
  }
  session->tasks = braid_zalloc_array(allocator, steps, sizeof *session->tasks);
  session->events = braid_zalloc_array(allocator, steps, sizeof *session->events);
  session->actions = braid_zalloc_array(allocator, steps, sizeof *session->actions);
  session->bindings = braid_zalloc_array(allocator, bindings, sizeof *session->bindings);
  session->waits = braid_zalloc_array(allocator, waits, sizeof *session->waits);
  session->samples = braid_zalloc_array(allocator, steps * kSamples, sizeof *session->samples);
  session->slots = braid_zalloc_array(allocator, bindings, sizeof *session->slots);
  session->last_of_queue = braid_zalloc_array(allocator, plan->queue_count, sizeof *session->last_of_queue);
  if (!session->tasks || !session->events || !session->actions || !session->bindings || !session->waits ||
      !session->samples || !session->slots || !session->last_of_queue)
    return BRAID_NO_MEMORY;
  for (size_t i = 0; i < steps; i++) braid_event_init(&session->events[i], allocator);
  memset(session->samples, -1, steps * kSamples * sizeof *session->samples);
  return BRAID_OK;
}

static void make_tasks(braid_session *session) {
  const braid_plan *plan = &session->plan;
  braid_binding *bindings = session->bindings;
  braid_event **waits = session->waits;
  for (size_t q = 0; q < plan->queue_count; q++) session->last_of_queue[q] = -1;
  for (size_t i = 0; i < plan->steps.count; i++) {
    const braid_step *step = &plan->steps.items[i];
    braid_task *task = &session->tasks[i];
    bindings = bind_step(session, step, task, bindings);
    task->done = &session->events[i];
    task->waits = waits;
    task->wait_count = step->wait_count;
    for (size_t w = 0; w < step->wait_count; w++) *waits++ = &session->events[step->waits[w]];
    session->actions[i] = (braid_action){session->devices[step->device].backend->submit, session->queues[step->queue]};
    session->last_of_queue[step->queue] = (braid_step_id)i;
  }
}

/* --- start ---------------------------------------------------------------------------------------------------------
 */
static braid_status make_queues(braid_session *session) {
  const braid_plan *plan = &session->plan;
  session->queues = braid_zalloc_array(session->allocator, plan->queue_count, sizeof *session->queues);
  if (!session->queues) return BRAID_NO_MEMORY;
  for (size_t q = 0; q < plan->queue_count; q++) {
    const braid_plan_device *device = &plan->devices[plan->queues[q].device];
    bool uploads = plan->queues[q].role == BRAID_QUEUE_KERNELS && device->info->memory == BRAID_MEMORY_SEPARATE;
    if (!plan->queues[q].used && !uploads) continue;
    braid_clear_detail();
    BRAID_TRY(device->backend->queue_create(device->self, &session->queues[q]));
  }
  return BRAID_OK;
}

/* What persists gets its first contents: the tensors of parameters and states, and of constants that are not bound
 * where they are. */
static braid_status upload(braid_session *session) {
  const braid_plan *plan = &session->plan;
  for (size_t i = 0; i < plan->storage_count; i++) {
    const braid_storage *storage = &plan->storages[i];
    if (storage->same_as >= 0 || storage->kind != BRAID_STORAGE_PERSISTENT || storage->value < 0) continue;
    const braid_value *value = &session->graph->values[storage->value];
    braid_binding binding = locate(session, (braid_storage_id)i);
    void *data = (void *)braid_tensor_const_data(value->tensor); /* the session's graph keeps it */
    braid_status status = BRAID_OK;
    if (binding.host && storage->bytes)
      memcpy(binding.host, data, storage->bytes);
    else if (storage->bytes)
      status = transfer(session, &binding, storage->space, data, true);
    if (status != BRAID_OK) return braid_fail_prefix(status, "uploading %.120s", value->name);
  }
  return BRAID_OK;
}

/* Converts constants to the layouts kernels want, one step after the other. */
static braid_status run_setup(braid_session *session) {
  const braid_plan *plan = &session->plan;
  for (size_t i = 0; i < plan->setup.count; i++) {
    const braid_step *step = &plan->setup.items[i];
    const braid_backend *backend = session->devices[step->device].backend;
    braid_errand *errand = &session->errand;
    memset(errand->bindings, 0, sizeof errand->bindings);
    errand->task = (braid_task){0};
    (void)bind_step(session, step, &errand->task, errand->bindings);
    braid_status status = run_errand(session, backend, session->queues[step->queue]);
    if (status != BRAID_OK) return braid_fail_prefix(status, "%s", step->label);
  }
  return BRAID_OK;
}

braid_status braid_session_bind(braid_session *session) {
  braid_event_init(&session->errand.event, session->allocator);
  BRAID_TRY(allocate_spaces(session));
  /* The host's arena is what transfers go through. */
  BRAID_TRY(
      braid_session_add_pin(session, session->memory[kHostSpace].arena_host, session->plan.arena_bytes[kHostSpace]));
  BRAID_TRY(make_queues(session));
  BRAID_TRY(allocate_tasks(session));
  BRAID_TRY(upload(session));
  BRAID_TRY(run_setup(session));
  make_tasks(session);
  bind_ports(session);
  return BRAID_OK;
}

void braid_session_unbind(braid_session *session) {
  const braid_plan *plan = &session->plan;
  for (size_t q = 0; session->queues && q < plan->queue_count; q++) {
    const braid_plan_device *device = &plan->devices[plan->queues[q].device];
    if (session->queues[q]) device->backend->queue_destroy(device->self, session->queues[q]);
  }
  braid_plan_discard(plan);
  while (session->pins) braid_session_remove_pin(session, session->pins->host);
  for (int space = 0; session->memory && space < plan->space_count; space++) {
    free_region(session, &session->memory[space], session->memory[space].arena);
    free_region(session, &session->memory[space], session->memory[space].persistent);
  }
  for (size_t i = 0; session->events && i < plan->steps.count; i++) braid_event_deinit(&session->events[i]);
  braid_event_deinit(&session->errand.event);
  braid_free(session->allocator, session->errand.staging);
  braid_free(session->allocator, session->queues);
  braid_free(session->allocator, session->memory);
  braid_free(session->allocator, session->tasks);
  braid_free(session->allocator, session->events);
  braid_free(session->allocator, session->actions);
  braid_free(session->allocator, session->bindings);
  braid_free(session->allocator, session->waits);
  braid_free(session->allocator, session->samples);
  braid_free(session->allocator, session->slots);
  braid_free(session->allocator, session->last_of_queue);
}
