/* Inputs and outputs of executions: memory of the caller's that is used in place where it can be, and copied or moved
 * where it cannot. */
#include <string.h>

#include "base/clock.h"
#include "base/try.h"
#include "runtime/execution/execution.h"

/* --- where memory is -----------------------------------------------------------------------------------------------
 */
typedef struct port_place {
  int space;
  braid_binding binding;
} port_place;

/* What a run was given: an address goes before a buffer that is bound. */
static port_place port_given(const braid_port *port, const void *host) {
  if (!host && port->buffer) return (port_place){port->buffer->memory->space, braid_buffer_binding(port->buffer)};
  return (port_place){kHostSpace, {.host = (void *)host, .bytes = port->bytes}};
}

static bool is_given(const port_place *place) {
  return place->binding.host || place->binding.buffer;
}

/* Under a time limit a task may outlive the run that it was part of, and with it the caller's memory, but not a buffer.
 */
static bool is_in_place(const braid_execution *execution, const braid_port *port, const port_place *place,
                        const void *host) {
  if (!is_given(place) || place->space != port->space) return false;
  if (place->space != kHostSpace) return true;
  bool stays = execution->timeout_ns < 0 || !host;
  return stays && braid_plan_host_aligned(execution->plan, port->desc->dtype, place->binding.host);
}

static void point_at(braid_port *port, const braid_binding *place) {
  braid_binding *bound = &port->bound;
  if (bound->host == place->host && bound->buffer == place->buffer && bound->offset == place->offset) return;
  *bound = *place;
  for (size_t i = 0; i < port->slot_count; i++) {
    const braid_slot *slot = &port->slots[i];
    if (!slot->binding) {
      *slot->host = place->host;
      continue;
    }
    slot->binding->host = place->host;
    slot->binding->buffer = place->buffer;
    slot->binding->offset = place->offset;
  }
}

/* Memory in place of the caller's: made once, the first time it is wanted. */
static braid_status spare_of(const braid_execution *execution, braid_port *port, port_place *out) {
  braid_memory *spare = &port->spare;
  if (!spare->buffer) {
    size_t bytes = port->bytes ? port->bytes : 1;
    braid_status status = braid_machine_allocate(execution->machine, port->space, bytes, spare);
    if (status != BRAID_OK) return braid_fail_prefix(status, "%.120s: %zu bytes requested", port->name, port->bytes);
  }
  *out = (port_place){port->space, {.host = spare->host, .bytes = port->bytes}};
  if (!spare->host) out->binding.buffer = spare->buffer;
  return BRAID_OK;
}

/* --- moving --------------------------------------------------------------------------------------------------------
 */
/* Between a device's memory and the host's. A transfer that the limit leaves behind goes on by itself; under the
 * execution's own time limit it must not touch `host` any more then, and nothing else is run. */
static braid_status port_transfer(braid_execution *execution, const port_place *device, void *host, bool write,
                                  int64_t limit_ns) {
  int index = 0;
  while (execution->machine->devices[index].space != device->space) index++;
  braid_sync_task *sync_task = &execution->sync_task;
  int64_t own_ns = execution->timeout_ns;
  braid_status status = own_ns >= 0
                            ? braid_sync_task_copy_staged(sync_task, index, &device->binding, host, write, own_ns)
                            : braid_sync_task_copy(sync_task, index, &device->binding, host, write, limit_ns);
  if (sync_task->abandoned && (own_ns >= 0 || status != BRAID_TIMEOUT)) execution->lost = true;
  return status;
}

/* The one that was left behind: how it ended. */
static braid_status settle_transfer(braid_execution *execution, int64_t limit_ns) {
  braid_sync_task *sync_task = &execution->sync_task;
  BRAID_TRY(braid_sync_task_settle(sync_task, limit_ns));
  return braid_verdict_status(&sync_task->verdict);
}

static bool is_host(const port_place *place) {
  return place->space == kHostSpace;
}

/* Reads, writes, or both, by way of the host: after a TIMEOUT of the limit the next call goes on where this one left
 * off. */
static braid_status port_move_on(braid_execution *execution, const braid_port *port, const port_place *from,
                                 const port_place *to, int64_t limit_ns) {
  if (execution->sync_task.abandoned) {
    BRAID_TRY(settle_transfer(execution, limit_ns));
    execution->legs++;
  }
  if (!is_host(from) && !is_host(to) && !execution->between)
    if (!(execution->between = braid_alloc(execution->allocator, port->bytes))) return BRAID_NO_MEMORY;
  for (int last = !is_host(from) && !is_host(to); execution->legs <= last; execution->legs++) {
    bool write = is_host(from) || execution->legs == 1;
    void *host = execution->between ? execution->between : write ? from->binding.host : to->binding.host;
    BRAID_TRY(port_transfer(execution, write ? to : from, host, write, limit_ns));
  }
  return BRAID_OK;
}

/* `limit_ns` < 0: none. */
static braid_status port_move(braid_execution *execution, const braid_port *port, const port_place *from,
                              const port_place *to, int64_t limit_ns) {
  braid_status status = BRAID_OK;
  if (!port->bytes) return BRAID_OK;
  if (is_host(from) && is_host(to)) {
    memcpy(to->binding.host, from->binding.host, port->bytes);
    return BRAID_OK;
  }
  status = port_move_on(execution, port, from, to, limit_ns);
  if (!execution->sync_task.abandoned) {
    braid_free(execution->allocator, execution->between);
    execution->between = NULL;
    execution->legs = 0;
  }
  return status == BRAID_OK ? BRAID_OK : braid_fail_prefix(status, "moving %.120s", port->name);
}

/* --- runs ----------------------------------------------------------------------------------------------------------
 */
static braid_status bind_input(braid_execution *execution, braid_port *port, const void *host) {
  port_place given = port_given(port, host), spare;
  if (!is_given(&given) && port->bytes)
    return braid_fail(BRAID_INVALID_ARGUMENT, "no memory given for input %.120s", port->name);
  if (is_in_place(execution, port, &given, host)) {
    point_at(port, &given.binding);
    return BRAID_OK;
  }
  BRAID_TRY(spare_of(execution, port, &spare));
  BRAID_TRY(port_move(execution, port, &given, &spare, -1));
  point_at(port, &spare.binding);
  return BRAID_OK;
}

static bool is_late(const braid_port *port) {
  return port->space != kHostSpace || port->given_space != kHostSpace;
}

static braid_status bind_output(braid_execution *execution, braid_port *port, void *host) {
  port_place place = port_given(port, host);
  port->given = (braid_binding){0};
  if (!is_in_place(execution, port, &place, host)) {
    port->given = place.binding;
    port->given_space = place.space;
    execution->late_outputs |= is_given(&place) && is_late(port);
    BRAID_TRY(spare_of(execution, port, &place));
  }
  point_at(port, &place.binding);
  return BRAID_OK;
}

braid_status braid_ports_bind(braid_execution *execution, const void *const *inputs, void *const *outputs) {
  const braid_graph *graph = execution->plan->graph;
  execution->late_outputs = false;
  for (size_t i = 0; i < graph->input_count; i++)
    if (execution->inputs[i].storage >= 0)
      BRAID_TRY(bind_input(execution, &execution->inputs[i], inputs ? inputs[i] : NULL));
  for (size_t i = 0; i < graph->output_count; i++)
    BRAID_TRY(bind_output(execution, &execution->outputs[i], outputs ? outputs[i] : NULL));
  return BRAID_OK;
}

static braid_status port_return(braid_execution *execution, const braid_port *port, int64_t limit_ns) {
  port_place from = {port->space, port->bound}, to = {port->given_space, port->given};
  from.binding.bytes = to.binding.bytes = port->bytes;
  return port_move(execution, port, &from, &to, limit_ns);
}

static bool is_returned(const braid_port *port, bool late) {
  return (port->given.host || port->given.buffer) && is_late(port) == late;
}

braid_status braid_ports_return(braid_execution *execution) {
  for (size_t i = 0; i < execution->plan->graph->output_count; i++) {
    const braid_port *port = &execution->outputs[i];
    if (is_returned(port, false)) BRAID_TRY(port_return(execution, port, -1));
  }
  return BRAID_OK;
}

braid_status braid_ports_return_late(braid_execution *execution, int64_t deadline_ns) {
  for (size_t i = 0; i < execution->plan->graph->output_count; i++) {
    braid_port *port = &execution->outputs[i];
    if (!is_returned(port, true)) continue;
    int64_t left = deadline_ns < 0 ? -1 : deadline_ns - braid_now_ns();
    BRAID_TRY(port_return(execution, port, deadline_ns >= 0 && left < 0 ? 0 : left));
    port->given = (braid_binding){0};
  }
  return BRAID_OK;
}

static void free_ports(const braid_execution *execution, braid_port *ports, size_t count) {
  for (size_t i = 0; ports && i < count; i++) {
    braid_machine_free(execution->machine, &ports[i].spare);
    braid_buffer_release(ports[i].buffer);
  }
  braid_free(execution->allocator, ports);
}

void braid_ports_deinit(braid_execution *execution) {
  braid_free(execution->allocator, execution->between);
  free_ports(execution, execution->inputs, execution->plan->graph->input_count);
  free_ports(execution, execution->outputs, execution->plan->graph->output_count);
}

/* --- buffers -------------------------------------------------------------------------------------------------------
 */
static braid_status check_buffer(const braid_execution *execution, const braid_port *port, const braid_buffer *buffer) {
  char is[128], expected[128];
  const braid_desc *desc = &buffer->desc;
  if (buffer->memory->machine != execution->machine)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%.120s: the buffer is of another machine", port->name);
  if (desc->dtype == port->desc->dtype && braid_desc_same_shape(desc, port->desc)) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "%.120s is %s, the buffer is %s", port->name,
                    braid_desc_format(port->desc, expected, sizeof expected), braid_desc_format(desc, is, sizeof is));
}

static braid_status check_apart(const braid_port *port, const braid_port *others, size_t count,
                                const braid_buffer *buffer) {
  for (size_t i = 0; i < count; i++)
    if (&others[i] != port && others[i].buffer && braid_buffer_overlaps(buffer, others[i].buffer))
      return braid_fail(BRAID_INVALID_ARGUMENT, "%.120s: the buffer overlaps that of %.120s", port->name,
                        others[i].name);
  return BRAID_OK;
}

static braid_status check_output(const braid_execution *execution, const braid_port *port, const braid_buffer *buffer) {
  const braid_graph *graph = execution->plan->graph;
  BRAID_TRY(check_buffer(execution, port, buffer));
  if (buffer->memory->read_only)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%.120s: the buffer's memory is read-only, as DLPack gave it",
                      port->name);
  BRAID_TRY(check_apart(port, execution->outputs, graph->output_count, buffer));
  return check_apart(port, execution->inputs, graph->input_count, buffer);
}

static braid_status check_input(const braid_execution *execution, const braid_port *port, const braid_buffer *buffer) {
  BRAID_TRY(check_buffer(execution, port, buffer));
  return check_apart(port, execution->outputs, execution->plan->graph->output_count, buffer);
}

/* `ports` of which `port` is one, beside the `others`. */
static braid_status bind_buffer(braid_execution *execution, braid_port *ports, size_t count, const char *what,
                                size_t index, braid_buffer *buffer) {
  bool output = ports == execution->outputs;
  if (index >= count) return braid_fail(BRAID_INVALID_ARGUMENT, "%s %zu of a plan that has %zu", what, index, count);
  BRAID_TRY(braid_execution_check_settled(execution));
  braid_port *port = &ports[index];
  if (buffer) {
    BRAID_TRY(output ? check_output(execution, port, buffer) : check_input(execution, port, buffer));
    braid_buffer_retain(buffer);
  }
  braid_buffer_release(port->buffer);
  port->buffer = buffer;
  return BRAID_OK;
}

braid_status braid_execution_bind_input(braid_execution *execution, size_t index, braid_buffer *buffer) {
  return bind_buffer(execution, execution->inputs, execution->plan->graph->input_count, "input", index, buffer);
}

braid_status braid_execution_bind_output(braid_execution *execution, size_t index, braid_buffer *buffer) {
  return bind_buffer(execution, execution->outputs, execution->plan->graph->output_count, "output", index, buffer);
}

braid_status braid_ports_lend(braid_execution *execution, braid_buffer *const *inputs, braid_buffer *const *outputs) {
  const braid_graph *graph = execution->plan->graph;
  for (size_t i = 0; i < graph->input_count; i++) {
    BRAID_TRY(check_buffer(execution, &execution->inputs[i], inputs[i]));
    execution->inputs[i].buffer = inputs[i];
  }
  for (size_t i = 0; i < graph->output_count; i++) {
    braid_port *port = &execution->outputs[i];
    BRAID_TRY(check_output(execution, port, outputs[i]));
    port->buffer = outputs[i];
  }
  return BRAID_OK;
}

static void lend_back(const braid_execution *execution, braid_port *ports, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!execution->lost)
      ports[i].buffer = NULL;
    else if (ports[i].buffer)
      braid_buffer_retain(ports[i].buffer); /* tasks may come back to it */
}

void braid_ports_lend_back(braid_execution *execution) {
  lend_back(execution, execution->inputs, execution->plan->graph->input_count);
  lend_back(execution, execution->outputs, execution->plan->graph->output_count);
}

static const char *device_of(const braid_plan *plan, braid_storage_kind kind, size_t index) {
  for (size_t i = 0; i < plan->storage_count; i++) {
    const braid_storage *storage = &plan->storages[i];
    if (storage->same_as >= 0 || storage->kind != kind || (size_t)storage->index != index) continue;
    for (size_t k = 0; storage->space != kHostSpace && k < plan->device_count; k++)
      if (plan->devices[k].space == storage->space) return plan->devices[k].label;
  }
  return NULL;
}

const char *braid_plan_input_device(const braid_plan *plan, size_t index) {
  return device_of(plan, BRAID_STORAGE_INPUT, index);
}

const char *braid_plan_output_device(const braid_plan *plan, size_t index) {
  return device_of(plan, BRAID_STORAGE_OUTPUT, index);
}
