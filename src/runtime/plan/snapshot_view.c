/* Plans for reading: every task with what it computes, where, on which memory, after what, and why. A line is about one
 * thing, so that whoever shows them can break them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/machine.h"
#include "runtime/plan/snapshot.h"

/* --- memory --------------------------------------------------------------------------------------------------------
 */
static void view_bytes(int64_t bytes, braid_text *out) {
  static const char *const kUnits[] = {"bytes", "KiB", "MiB", "GiB"};
  double number = (double)bytes;
  size_t unit = 0;
  for (; number >= 1024 && unit + 1 < sizeof kUnits / sizeof *kUnits; unit++) number /= 1024;
  braid_text_printf(out, unit ? "%.1f %s" : "%.0f %s", number, kUnits[unit]);
}

/* Whose memory: devices of separate memory have a space each, in their order. */
static const char *space_name(const braid_snapshot *snapshot, int64_t space) {
  const braid_device_row *devices = snapshot->devices.items;
  int64_t at = kHostSpace;
  for (size_t i = 0; i < snapshot->devices.count; i++)
    if (devices[i].separate_memory && ++at == space) return devices[i].name;
  return "the host";
}

static const braid_storage_row *storage_at(const braid_snapshot *snapshot, int64_t id) {
  const braid_rows *rows = &snapshot->storages;
  return id >= 0 && (uint64_t)id < rows->count ? (const braid_storage_row *)rows->items + id : NULL;
}

static void view_storage(const braid_snapshot *snapshot, int64_t id, braid_text *out) {
  const braid_storage_row *storage = storage_at(snapshot, id);
  if (!storage) return;
  const char *space = storage->space == kHostSpace ? "" : space_name(snapshot, storage->space);
  const char *of = *space ? " of " : "";
  switch (storage->kind) {
  case BRAID_STORAGE_ARENA:
    braid_text_printf(out, ", arena%s%s from byte %" PRId64, of, space, storage->offset);
    break;
  case BRAID_STORAGE_PERSISTENT:
    braid_text_printf(out, ", weights%s%s", of, space);
    break;
  case BRAID_STORAGE_TENSOR:
    braid_text_add(out, ", the model's memory");
    break;
  default:
    braid_text_add(out, ", the caller's memory");
  }
}

/* --- tasks ---------------------------------------------------------------------------------------------------------
 */
static void view_value(const braid_value_row *value, braid_text *out) {
  braid_text_printf(
      out, "%s %s[", value->name,
      braid_dtype_name((braid_dtype)(value->type < BRAID_DTYPE_COUNT && value->type > 0 ? value->type : 0)));
  for (size_t i = 0; i < value->shape.count; i++)
    braid_text_printf(out, i ? ",%" PRId64 : "%" PRId64, value->shape.items[i]);
  braid_text_add(out, "]");
}

static bool view_packing(const braid_step_row *step, size_t operand, braid_text *out) {
  for (size_t i = 0; i + 2 < step->packings.count && i < (size_t)3 * BRAID_PACKINGS; i += 3) {
    if (step->packings.items[i] != (int64_t)operand) continue;
    braid_text_add(out, ", packed for the kernel into ");
    view_bytes(step->packings.items[i + 1], out);
    return true;
  }
  return false;
}

static void view_operand(const braid_snapshot *snapshot, const braid_step_row *step, size_t operand, size_t inputs,
                         braid_text *out) {
  char layout[BRAID_LAYOUT_TEXT];
  const braid_value_row *value = braid_snapshot_operand(snapshot, step, operand);
  if (!value) return; /* left out */
  braid_text_add(out, operand < inputs ? "  reads    " : "  writes   ");
  view_value(value, out);
  if (operand < step->layouts.count)
    braid_text_printf(out, " %s",
                      braid_snapshot_layout_text(step->layouts.items[operand], value, layout, sizeof layout));
  int64_t storage = operand < step->storages.count ? step->storages.items[operand] : -1;
  bool packed = operand < inputs && view_packing(step, operand, out);
  if (storage >= 0)
    view_storage(snapshot, storage, out);
  else if (!packed && operand < inputs)
    braid_text_add(out, ", kept by the kernel");
  braid_text_add(out, "\n");
}

/* Steps by queue, each queue's in their order. */
typedef struct queue_index {
  const braid_step_row **steps;
  size_t count;
} queue_index;

static int compare_queues(const void *a, const void *b) {
  const braid_step_row *one = *(const braid_step_row *const *)a, *other = *(const braid_step_row *const *)b;
  if (one->queue != other->queue) return one->queue < other->queue ? -1 : 1;
  return one < other ? -1 : one > other;
}

static queue_index index_queues(const braid_rows *rows, braid_text *out) {
  queue_index index = {braid_zalloc_array(out->allocator, rows->count + 1, sizeof *index.steps), rows->count};
  if (!index.steps) {
    out->failed = true;
    return (queue_index){NULL, 0};
  }
  for (size_t i = 0; i < index.count; i++) index.steps[i] = (const braid_step_row *)rows->items + i;
  qsort(index.steps, index.count, sizeof *index.steps, compare_queues);
  return index;
}

static const braid_step_row *step_of_queue(const queue_index *index, int64_t queue, int64_t nth) {
  size_t first = 0, end = index->count;
  while (first < end) {
    size_t middle = first + (end - first) / 2;
    if (index->steps[middle]->queue < queue)
      first = middle + 1;
    else
      end = middle;
  }
  if (nth < 0 || (uint64_t)nth >= index->count - first) return NULL;
  const braid_step_row *step = index->steps[first + (size_t)nth];
  return step->queue == queue ? step : NULL;
}

static void view_waits(const braid_snapshot *snapshot, const queue_index *index, const braid_step_row *step,
                       braid_text *out) {
  for (size_t i = 0; i + 1 < step->waits.count; i += 2) {
    const braid_step_row *other = step_of_queue(index, step->waits.items[i], step->waits.items[i + 1]);
    if (other)
      braid_text_printf(out, "  waits    for %s on %s\n", other->label,
                        braid_snapshot_device_name(snapshot, other->device));
  }
}

static const char *queue_name(const braid_step_row *step) {
  static const char *const kRoles[BRAID_QUEUE_ROLES] = {[BRAID_QUEUE_KERNELS] = "",
                                                        [BRAID_QUEUE_WRITES] = ", its queue for writes",
                                                        [BRAID_QUEUE_READS] = ", its queue for reads",
                                                        [BRAID_QUEUE_GROUP] = ", its queue for collectives"};
  return step->queue >= 0 ? kRoles[step->queue % BRAID_QUEUE_ROLES] : "";
}

static void view_names(const char *names, braid_text *out) {
  for (const char *before = ", in place of "; *names; before = ", ") {
    size_t length = strcspn(names, "\n");
    braid_text_printf(out, "%s%.*s", before, (int)length, names);
    names += names[length] ? length + 1 : length;
  }
}

static void view_step(const braid_snapshot *snapshot, const queue_index *index, const braid_step_row *step,
                      braid_text *out) {
  const braid_node_row *nodes = snapshot->nodes.items;
  const braid_place_row *places = snapshot->places.items;
  bool is_node = step->node >= 0 && (uint64_t)step->node < snapshot->nodes.count;
  size_t inputs = is_node ? nodes[step->node].inputs.count : 1;
  size_t operands = is_node ? inputs + nodes[step->node].outputs.count : 2;
  braid_text_printf(out, "%s\n  op       %s", step->label, step->op);
  if (is_node) view_names(nodes[step->node].absorbed, out);
  braid_text_printf(out, "\n  runs     on %s%s", braid_snapshot_device_name(snapshot, step->device), queue_name(step));
  if (step->kernel[0]) braid_text_printf(out, ", kernel %s", step->kernel);
  braid_text_add(out, "\n");
  if (is_node && (uint64_t)step->node < snapshot->places.count && places[step->node].why[0])
    braid_text_printf(out, "  why      %s\n", places[step->node].why);
  for (size_t i = 0; i < operands; i++) view_operand(snapshot, step, i, inputs, out);
  if (step->workspace > 0) {
    braid_text_add(out, "  needs    ");
    view_bytes(step->workspace, out);
    if (step->storages.count) view_storage(snapshot, step->storages.items[step->storages.count - 1], out);
    braid_text_add(out, "\n");
  }
  view_waits(snapshot, index, step, out);
}

/* A node without a task: its output is its input's memory. */
static void view_renaming(const braid_snapshot *snapshot, const braid_node_row *node, braid_text *out) {
  const braid_value_row *values = snapshot->values.items;
  int64_t from = node->inputs.count ? node->inputs.items[0] : -1,
          to = node->outputs.count ? node->outputs.items[0] : -1;
  braid_text_printf(out, "%s\n  op       %s, which takes no task", node->name, node->op);
  if (from >= 0 && to >= 0 && (uint64_t)from < snapshot->values.count && (uint64_t)to < snapshot->values.count) {
    braid_text_add(out, ": ");
    view_value(&values[to], out);
    braid_text_printf(out, " is the memory of %s", values[from].name);
  }
  braid_text_add(out, "\n");
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
static void view_plan(const braid_snapshot *snapshot, braid_text *out) {
  const braid_plan_row *plan = snapshot->plan.items;
  bool precise = plan->precision == BRAID_FLOAT32;
  braid_text_printf(out, "A plan made by Braid %s for %s%s%s%s%s%s: %zu tasks per run, %zu before the first.\n",
                    plan->library, plan->training ? "training" : "inference", precise ? "" : " in ",
                    precise ? "" : braid_snapshot_precision_name(plan->precision),
                    plan->no_fusion ? ", without fusion" : "", plan->no_reuse ? ", without reuse of memory" : "",
                    plan->device_io ? ", inputs and outputs in devices' memory" : "", snapshot->steps.count,
                    snapshot->setup.count);
  for (size_t i = 0; i < plan->arena_bytes.count && i < plan->weight_bytes.count; i++) {
    if (!plan->arena_bytes.items[i] && !plan->weight_bytes.items[i]) continue;
    braid_text_printf(out, "  memory   of %s: ", space_name(snapshot, (int64_t)i));
    view_bytes(plan->arena_bytes.items[i], out);
    braid_text_add(out, " of arena, ");
    view_bytes(plan->weight_bytes.items[i], out);
    braid_text_add(out, " of weights converted or packed\n");
  }
}

static void view_devices(const braid_snapshot *snapshot, braid_text *out) {
  const braid_device_row *devices = snapshot->devices.items;
  for (size_t i = 0; i < snapshot->devices.count; i++) {
    const braid_device_row *device = &devices[i];
    braid_text_printf(out, "  device   %s: %s", device->name, device->description);
    if (device->software[0]) braid_text_printf(out, ", %s", device->software);
    if (device->threads > 0) braid_text_printf(out, ", %" PRId64 " compute units", device->threads);
    braid_text_add(out, device->separate_memory ? ", memory of its own\n" : ", the host's memory\n");
  }
}

static void view_ends(const braid_snapshot *snapshot, const braid_snapshot_list *ids, const char *key,
                      braid_text *out) {
  for (size_t i = 0; i < ids->count; i++) {
    if (ids->items[i] < 0 || (uint64_t)ids->items[i] >= snapshot->values.count) continue;
    braid_text_printf(out, "  %-8s ", key);
    view_value((const braid_value_row *)snapshot->values.items + ids->items[i], out);
    braid_text_add(out, "\n");
  }
}

/* Nodes in their order, tasks that the plan has added before the node that they are for. */
static void view_tasks(const braid_snapshot *snapshot, const queue_index *index, braid_text *out) {
  const braid_plan_row *plan = snapshot->plan.items;
  const braid_node_row *nodes = snapshot->nodes.items;
  const braid_place_row *places = snapshot->places.items;
  const braid_step_row *steps = snapshot->steps.items;
  size_t at = 0;
  for (size_t i = 0; i < plan->order.count; i++) {
    int64_t id = plan->order.items[i];
    if (id < 0 || (uint64_t)id >= snapshot->nodes.count || (uint64_t)id >= snapshot->places.count) continue;
    if (places[id].device < 0) {
      view_renaming(snapshot, &nodes[id], out);
      continue;
    }
    for (bool found = false; !found && at < snapshot->steps.count; at++) {
      found = steps[at].node == id;
      view_step(snapshot, index, &steps[at], out);
    }
  }
  for (; at < snapshot->steps.count; at++) view_step(snapshot, index, &steps[at], out);
}

void braid_snapshot_print_text(const braid_snapshot *snapshot, braid_text *out) {
  const braid_plan_row *plan = snapshot->plan.items;
  view_plan(snapshot, out);
  view_devices(snapshot, out);
  view_ends(snapshot, &plan->inputs, "input", out);
  view_ends(snapshot, &plan->outputs, "output", out);
  queue_index setup = index_queues(&snapshot->setup, out), steps = index_queues(&snapshot->steps, out);
  if (snapshot->setup.count) braid_text_add(out, "\nBefore the first run:\n");
  for (size_t i = 0; i < setup.count; i++)
    view_step(snapshot, &setup, (const braid_step_row *)snapshot->setup.items + i, out);
  braid_text_add(out, "\nEach run. A task starts after those before it on its queue and those it waits for.\n");
  if (steps.steps) view_tasks(snapshot, &steps, out);
  braid_free(out->allocator, setup.steps);
  braid_free(out->allocator, steps.steps);
}
