#include "runtime/plan/steps.h"
#include "runtime/plan/restore.h"

#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "base/vector.h"
#include "tensor/layout.h"

braid_status braid_plan_append(braid_plan *plan, bool setup, braid_step *step) {
  braid_step_list *list = setup ? &plan->setup : &plan->steps;
  braid_step *items = braid_grow(plan->allocator, list->items, list->count, &list->capacity, sizeof *items);
  if (!items) return BRAID_NO_MEMORY;
  list->items = items;
  items[list->count++] = *step;
  return BRAID_OK;
}

static const char *label_of(braid_plan *plan, const char *verb, braid_instance_id instance) {
  char text[160];
  int length =
      snprintf(text, sizeof text, "%s %.140s", verb, plan->graph->values[plan->instances[instance].value].name);
  return braid_arena_text(plan->arena, text, (size_t)length);
}

/* A step with one input and one output. */
static braid_status init_move(braid_plan *plan, braid_step *step, const char *verb, braid_instance_id from,
                              braid_instance_id to) {
  step->node = -1;
  step->why = "";
  step->workspace = -1;
  step->input_count = step->output_count = 1;
  step->label = label_of(plan, verb, from);
  step->instances = braid_arena_alloc(plan->arena, 2 * sizeof *step->instances);
  if (!step->label || !step->instances) return BRAID_NO_MEMORY;
  step->instances[0] = from;
  step->instances[1] = to;
  return BRAID_OK;
}

braid_status braid_plan_add_transfer(braid_plan *plan, braid_step_kind kind, int device, braid_instance_id from,
                                     braid_instance_id to) {
  static const char *const kVerbs[] = {
      [BRAID_STEP_WRITE] = "write", [BRAID_STEP_READ] = "read", [BRAID_STEP_COPY] = "copy"};
  bool within = plan->instances[from].space == plan->instances[to].space;
  const braid_device_info *info = plan->devices[device].info;
  braid_queue_role role = kind == BRAID_STEP_READ && info->max_queues > 2 ? BRAID_QUEUE_READS : BRAID_QUEUE_WRITES;
  if (within || info->memory != BRAID_MEMORY_SEPARATE || info->max_queues < 2) role = BRAID_QUEUE_KERNELS;
  braid_step step = {.kind = kind, .device = device, .queue = braid_queue_index(device, role), .op = "Transfer"};
  BRAID_TRY(init_move(plan, &step, kVerbs[kind], from, to));
  return braid_plan_append(plan, false, &step);
}

braid_status braid_plan_add_copy(braid_plan *plan, const char *verb, braid_instance_id from, braid_instance_id to) {
  int space = plan->instances[from].space, device = plan->host_device;
  for (size_t i = 0; space != kHostSpace && i < plan->device_count; i++)
    if (plan->devices[i].space == space) device = (int)i;
  braid_step step = {.kind = BRAID_STEP_COPY, .device = device, .op = "Copy"};
  step.queue = braid_queue_index(device, BRAID_QUEUE_KERNELS);
  BRAID_TRY(init_move(plan, &step, verb, from, to));
  return braid_plan_append(plan, false, &step);
}

static const char *const kConvert = "LayoutConvert";

/* The kernel that converts, on the device preferred or on another of the same memory. */
static const braid_kernel *find_converter(const braid_plan *plan, braid_step *step, char *why, size_t why_bytes) {
  int space = plan->devices[step->device].space;
  const braid_kernel *kernel = braid_machine_find_kernel(plan->machine, step->device, step->desc, why, why_bytes);
  for (size_t i = 0; !kernel && i < plan->device_count; i++) {
    char ignored[64];
    if (plan->devices[i].space != space) continue;
    kernel = braid_machine_find_kernel(plan->machine, (int)i, step->desc, ignored, sizeof ignored);
    if (kernel) step->device = (int)i;
  }
  step->queue = braid_queue_index(step->device, BRAID_QUEUE_KERNELS);
  return kernel;
}

static braid_status ask_converter(const braid_plan *plan, braid_step *step) {
  char why[256], from_text[BRAID_LAYOUT_TEXT], to_text[BRAID_LAYOUT_TEXT];
  const braid_desc *from = &step->desc->inputs[0].desc, *to = &step->desc->outputs[0].desc;
  step->kernel = find_converter(plan, step, why, sizeof why);
  if (!step->kernel)
    return braid_fail(BRAID_UNSUPPORTED, "%s: from %s to %s: %s", step->label,
                      braid_layout_format(from->layout, from->rank, from_text, sizeof from_text),
                      braid_layout_format(to->layout, to->rank, to_text, sizeof to_text), why);
  return braid_machine_query(plan->machine, step->device, step->kernel, step->desc, &step->query, &step->folded);
}

static braid_node_desc describe_conversion(const braid_plan *plan, const char *label, braid_operand operands[2]) {
  static const struct braid_attrs kNoAttributes;
  return (braid_node_desc){.op = kConvert,
                           .name = label,
                           .attrs = &kNoAttributes,
                           .input_count = 1,
                           .output_count = 1,
                           .inputs = operands,
                           .outputs = operands + 1,
                           .threads = plan->small ? 1 : 0,
                           .training = plan->training};
}

bool braid_plan_converts(const braid_plan *plan, int space, const braid_desc *from, braid_layout layout) {
  braid_operand operands[2] = {{true, *from, NULL}, {true, *from, NULL}};
  operands[1].desc.layout = layout;
  if (from->layout == layout || braid_layout_same_memory(from, &operands[1].desc)) return true;
  const braid_node_desc desc = describe_conversion(plan, "", operands);
  char ignored[64];
  for (size_t i = 0; i < plan->device_count; i++)
    if (plan->devices[i].space == space &&
        braid_machine_find_kernel(plan->machine, (int)i, &desc, ignored, sizeof ignored))
      return true;
  return false;
}

braid_status braid_plan_add_conversion(braid_plan *plan, int device, braid_instance_id from, braid_instance_id to,
                                       bool setup) {
  braid_step step = {.kind = BRAID_STEP_KERNEL, .device = device, .op = kConvert};
  BRAID_TRY(init_move(plan, &step, "convert", from, to));
  braid_operand *operands = braid_arena_alloc(plan->arena, 2 * sizeof *operands);
  step.desc = braid_arena_alloc(plan->arena, sizeof *step.desc);
  if (!operands || !step.desc) return BRAID_NO_MEMORY;
  operands[0] = (braid_operand){true, plan->instances[from].desc, NULL};
  operands[1] = (braid_operand){true, plan->instances[to].desc, NULL};
  *step.desc = describe_conversion(plan, step.label, operands);
  BRAID_TRY(plan->saved ? braid_restore_conversion(plan, setup, &step) : ask_converter(plan, &step));
  const braid_machine_device *where = &plan->devices[step.device];
  if (step.query.workspace_bytes)
    BRAID_TRY(
        braid_plan_add_storage(plan, BRAID_STORAGE_ARENA, where->space, step.query.workspace_bytes, &step.workspace));
  return braid_plan_append(plan, setup, &step);
}

void braid_step_visit(const braid_plan *plan, const braid_step *step,
                      void (*visit)(void *context, braid_storage_id storage, bool writes), void *context) {
  for (size_t i = 0; i < step->input_count + step->output_count; i++)
    if (step->instances[i] >= 0)
      visit(context, braid_plan_find(plan, plan->instances[step->instances[i]].storage), i >= step->input_count);
  if (step->workspace >= 0) visit(context, braid_plan_find(plan, step->workspace), true);
}

/* --- transfers from and to the caller ------------------------------------------------------------------------------
 */
enum { kLittle = 64 << 10 }; /* bytes */

static const braid_storage *end_of(const braid_plan *plan, const braid_step *step, size_t operand) {
  return braid_plan_storage(plan, plan->instances[step->instances[operand]].storage);
}

static bool is_beside_kernels(const braid_plan *plan, const braid_step *step) {
  return plan->queues[step->queue].role != BRAID_QUEUE_KERNELS;
}

bool braid_step_brings_input(const braid_plan *plan, const braid_step *step) {
  return step->kind == BRAID_STEP_WRITE && is_beside_kernels(plan, step) &&
         end_of(plan, step, 0)->kind == BRAID_STORAGE_INPUT;
}

bool braid_step_sends_output(const braid_plan *plan, const braid_step *step) {
  if (step->kind != BRAID_STEP_READ || !is_beside_kernels(plan, step)) return false;
  const braid_storage *to = end_of(plan, step, 1);
  return to->kind == BRAID_STORAGE_OUTPUT && to->first == to->last;
}

bool braid_step_moves_little(const braid_plan *plan, const braid_step *step) {
  return end_of(plan, step, 0)->bytes <= kLittle;
}

const braid_packing *braid_step_packing(const braid_step *step, size_t input) {
  const braid_packing *packings = step->packings ? step->packings : step->query.packings;
  for (uint32_t i = 0; i < step->query.packing_count; i++)
    if (packings[i].input == input) return &packings[i];
  return NULL;
}
