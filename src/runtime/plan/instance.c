/* Instances of values: where they are, and how they get somewhere else. */
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "base/vector.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/steps.h"
#include "tensor/deferred.h"
#include "tensor/layout.h"

braid_status braid_plan_add_storage(braid_plan *plan, braid_storage_kind kind, int space, size_t bytes,
                                    braid_storage_id *out) {
  braid_storage *storages =
      braid_grow(plan->allocator, plan->storages, plan->storage_count, &plan->storage_capacity, sizeof *storages);
  *out = -1;
  if (!storages) return BRAID_NO_MEMORY;
  plan->storages = storages;
  storages[plan->storage_count] = (braid_storage){.kind = kind,
                                                  .space = space,
                                                  .bytes = bytes,
                                                  .first = -1,
                                                  .last = -1,
                                                  .same_as = -1,
                                                  .index = -1,
                                                  .value = -1,
                                                  .packer = -1};
  *out = (braid_storage_id)plan->storage_count++;
  return BRAID_OK;
}

braid_status braid_plan_add_instance(braid_plan *plan, braid_value_id value, int space, braid_layout layout,
                                     braid_storage_id storage, bool listed, braid_instance_id *out) {
  braid_instance *instances =
      braid_grow(plan->allocator, plan->instances, plan->instance_count, &plan->instance_capacity, sizeof *instances);
  *out = -1;
  if (!instances) return BRAID_NO_MEMORY;
  plan->instances = instances;
  braid_instance *instance = &instances[plan->instance_count];
  *instance = (braid_instance){
      .value = value, .space = space, .desc = plan->graph->values[value].desc, .storage = storage, .next = -1};
  instance->desc.layout = layout;
  *out = (braid_instance_id)plan->instance_count++;
  if (!listed) return BRAID_OK;
  braid_instance_id *link = &plan->first_instance[value]; /* appended: the first is where the value comes from */
  while (*link >= 0) link = &plan->instances[*link].next;
  *link = *out;
  return BRAID_OK;
}

braid_status braid_plan_new_instance(braid_plan *plan, braid_value_id value, int space, braid_layout layout,
                                     braid_storage_kind kind, bool listed, braid_instance_id *out) {
  braid_desc desc = plan->graph->values[value].desc;
  desc.layout = layout;
  braid_storage_id storage;
  BRAID_TRY(braid_plan_add_storage(plan, kind, space, braid_desc_bytes(&desc), &storage));
  return braid_plan_add_instance(plan, value, space, layout, storage, listed, out);
}

/* The device that works in a space: `preferred` if it does, else the first; -1: none (a host without unified device).
 */
static int device_of(const braid_plan *plan, int space, int preferred) {
  if (preferred >= 0 && plan->devices[preferred].space == space) return preferred;
  for (size_t i = 0; i < plan->device_count; i++)
    if (plan->devices[i].space == space) return (int)i;
  return -1;
}

/* --- where values come from ----------------------------------------------------------------------------------------
 */
static bool bindable(const braid_plan *plan, const braid_tensor *tensor) {
  return braid_plan_host_aligned(plan, braid_tensor_desc(tensor)->dtype, braid_tensor_address(tensor));
}

/* The first instance of a value that no node computes. Constants are had in every space without a transfer at run
 * time: they are uploaded once, in `layout` where no device of the space could bring them into it (the weights rewrite
 * them on the host), else plain. */
static braid_status source(braid_plan *plan, braid_value_id id, int space, braid_layout layout,
                           braid_instance_id *out) {
  const braid_value *value = &plan->graph->values[id];
  if (value->kind == BRAID_VALUE_INPUT) {
    int index = -1;
    for (size_t i = 0; i < plan->graph->input_count; i++)
      if (plan->graph->inputs[i] == id) index = (int)i;
    layout = plan->input_layouts ? plan->input_layouts[index] : BRAID_LAYOUT_PLAIN;
    BRAID_TRY(
        braid_plan_new_instance(plan, id, braid_plan_input_space(plan, id), layout, BRAID_STORAGE_INPUT, true, out));
    plan->storages[plan->instances[*out].storage].index = index;
    return BRAID_OK;
  }
  if (!value->tensor) return braid_fail(BRAID_INTERNAL, "value %.120s is read before it is computed", value->name);
  bool constant = braid_plan_is_constant(plan, id);
  if (!constant) space = plan->homes[id], layout = plan->layouts[id];
  if (constant && braid_plan_converts(plan, space, &value->desc, layout)) layout = BRAID_LAYOUT_PLAIN;
  bool in_place = constant && space == kHostSpace && layout == BRAID_LAYOUT_PLAIN && bindable(plan, value->tensor);
  BRAID_TRY(braid_plan_new_instance(plan, id, space, layout, in_place ? BRAID_STORAGE_TENSOR : BRAID_STORAGE_PERSISTENT,
                                    true, out));
  plan->storages[plan->instances[*out].storage].value = id;
  plan->storages[plan->instances[*out].storage].layout = layout;
  return BRAID_OK;
}

/* --- conversions and transfers -------------------------------------------------------------------------------------
 */
/* Another layout may be the same memory: of one channel, or one pixel. */
static braid_status convert(braid_plan *plan, braid_instance_id from, braid_layout layout, int preferred,
                            braid_instance_id *out) {
  const braid_instance instance = plan->instances[from];
  braid_desc wanted = instance.desc;
  wanted.layout = layout;
  if (braid_layout_same_memory(&instance.desc, &wanted))
    return braid_plan_add_instance(plan, instance.value, instance.space, layout, instance.storage, true, out);
  bool setup = braid_plan_is_constant(plan, instance.value);
  BRAID_TRY(braid_plan_new_instance(plan, instance.value, instance.space, layout,
                                    setup ? BRAID_STORAGE_PERSISTENT : BRAID_STORAGE_ARENA, true, out));
  braid_storage *storage = &plan->storages[plan->instances[*out].storage];
  if (setup) storage->value = instance.value, storage->layout = layout, storage->converted = true;
  return braid_plan_add_conversion(plan, device_of(plan, instance.space, preferred), from, *out, setup);
}

static braid_status transfer(braid_plan *plan, braid_instance_id from, int space, braid_instance_id *out) {
  const braid_instance instance = plan->instances[from];
  int source_device = device_of(plan, instance.space, -1), target_device = device_of(plan, space, -1);
  braid_step_kind kind = BRAID_STEP_COPY;
  if (space == kHostSpace) {
    kind = BRAID_STEP_READ;
  } else if (instance.space == kHostSpace) {
    kind = BRAID_STEP_WRITE;
  } else {
    const braid_machine_device *to = &plan->devices[target_device], *other = &plan->devices[source_device];
    bool peers = to->backend == other->backend && to->backend->peer && to->backend->peer(to->self, other->self);
    if (!peers) {
      braid_instance_id hop;
      BRAID_TRY(transfer(plan, from, kHostSpace, &hop));
      return transfer(plan, hop, space, out);
    }
  }
  BRAID_TRY(braid_plan_new_instance(plan, instance.value, space, instance.desc.layout, BRAID_STORAGE_ARENA, true, out));
  return braid_plan_add_transfer(plan, kind, kind == BRAID_STEP_READ ? source_device : target_device, from, *out);
}

/* The instance that is cheapest to start from: in the space if there is one, in the layout if there is one. */
static braid_instance_id nearest(const braid_plan *plan, braid_value_id value, int space, braid_layout layout) {
  braid_instance_id best = -1;
  int best_score = -1;
  for (braid_instance_id i = plan->first_instance[value]; i >= 0; i = plan->instances[i].next) {
    const braid_instance *instance = &plan->instances[i];
    int score = 2 * (instance->space == space) + (instance->desc.layout == layout);
    if (score > best_score) {
      best = i;
      best_score = score;
    }
  }
  return best;
}

/* Where a value is converted on its way to a space, and the instance this starts from: at the end of the way if a
 * device there converts, else where the value already lies in the layout or a device can bring it into it, else in any
 * memory where one can, of the host first. Not every device has a kernel that converts. If none has, a device is left
 * to say so. */
static braid_instance_id find_start(const braid_plan *plan, braid_instance_id found, int space, braid_layout layout,
                                    int *where) {
  const braid_instance *instances = plan->instances;
  const braid_desc *desc = &instances[found].desc;
  braid_instance_id first = plan->first_instance[instances[found].value];
  *where = space;
  if (desc->layout == layout || braid_plan_converts(plan, space, desc, layout)) return found;
  for (braid_instance_id i = first; i >= 0; i = instances[i].next)
    if (instances[i].desc.layout == layout) return i;
  for (braid_instance_id i = first; i >= 0; i = instances[i].next) {
    *where = instances[i].space;
    if (braid_plan_converts(plan, *where, &instances[i].desc, layout)) return i;
  }
  for (*where = kHostSpace; *where < plan->space_count; ++*where)
    if (braid_plan_converts(plan, *where, desc, layout)) return found;
  *where = device_of(plan, space, -1) < 0 ? instances[found].space : space;
  return found;
}

/* Can a constant be had from this instance of it? */
static bool serves(const braid_plan *plan, braid_instance_id found, int space, braid_layout layout) {
  const braid_instance *instance = &plan->instances[found];
  return instance->space == space && braid_plan_converts(plan, space, &instance->desc, layout);
}

braid_status braid_plan_get(braid_plan *plan, braid_value_id value, int space, braid_layout layout, int device,
                            braid_instance_id *out) {
  bool constant = braid_plan_is_constant(plan, value);
  braid_instance_id found = nearest(plan, value, space, layout);
  int where = space;
  if (found < 0 || (constant && !serves(plan, found, space, layout)))
    BRAID_TRY(source(plan, value, space, layout, &found));
  if (!constant) found = find_start(plan, found, space, layout, &where);
  if (plan->instances[found].space != where) BRAID_TRY(transfer(plan, found, where, &found));
  if (plan->instances[found].desc.layout != layout) BRAID_TRY(convert(plan, found, layout, device, &found));
  if (plan->instances[found].space != space) BRAID_TRY(transfer(plan, found, space, &found));
  *out = found;
  return BRAID_OK;
}
