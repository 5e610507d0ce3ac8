/* The contents of a plan's constants: what tells equal ones, and letting go of them. */
#include <string.h>

#include "base/siphash.h"
#include "base/try.h"
#include "runtime/plan/restore.h"

/* --- digests -------------------------------------------------------------------------------------------------------
 */
static uint64_t rotate(uint64_t word, int bits) {
  return word << bits | word >> (64 - bits);
}

static void digest_add(braid_digest *d, const uint64_t *words) {
  d->words[0] = rotate(d->words[0] ^ words[0] * 0x87c37b91114253d5u, 31) * 0x52dce729da3ed3c5u + words[1];
  d->words[1] = rotate(d->words[1] ^ words[1] * 0x4cf5ad432745937fu, 33) * 0x38495ab5a1b2c3d7u + words[0];
}

braid_digest braid_digest_of(const void *data, size_t bytes) {
  braid_digest d = {{0x9e3779b97f4a7c15u ^ bytes, 0xc2b2ae3d27d4eb4fu + bytes}};
  const uint8_t *at = data;
  uint64_t words[2];
  size_t left = bytes;
  for (; left >= sizeof words; at += sizeof words, left -= sizeof words) {
    memcpy(words, at, sizeof words);
    digest_add(&d, words);
  }
  if (left) {
    memset(words, 0, sizeof words);
    memcpy(words, at, left);
    digest_add(&d, words);
  }
  for (int i = 0; i < 4; i++) { /* every bit changes half of the others */
    d.words[0] = (d.words[0] ^ d.words[0] >> 33) * 0xff51afd7ed558ccdu + d.words[1];
    d.words[1] = (d.words[1] ^ d.words[1] >> 29) * 0xc4ceb9fe1a85ec53u + d.words[0];
  }
  return d;
}

braid_digest braid_digest_contents(const void *data, size_t bytes) {
  braid_digest d;
  braid_siphash(data, bytes, d.words);
  return d;
}

braid_status braid_plan_digest(braid_plan *plan) {
  if (plan->digests) return BRAID_OK;
  plan->digests = braid_zalloc_array(plan->allocator, plan->graph->value_count + 1, sizeof *plan->digests);
  if (!plan->digests) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < plan->storage_count; i++) {
    const braid_storage *storage = &plan->storages[i];
    bool kept = storage->kind == BRAID_STORAGE_PERSISTENT || storage->kind == BRAID_STORAGE_TENSOR;
    if (!kept || !braid_plan_is_constant(plan, storage->value)) continue;
    const braid_tensor *tensor = plan->graph->values[storage->value].tensor;
    braid_digest *digest = &plan->digests[storage->value];
    if (tensor && !digest->words[0] && !digest->words[1])
      *digest = braid_digest_contents(braid_tensor_const_data(tensor), braid_desc_bytes(braid_tensor_desc(tensor)));
  }
  return BRAID_OK;
}

/* --- letting go ----------------------------------------------------------------------------------------------------
 */
static bool has_storage(const braid_plan *plan, braid_value_id value, braid_storage_kind kind) {
  for (braid_instance_id id = plan->first_instance[value]; id >= 0; id = plan->instances[id].next)
    if (braid_plan_storage(plan, plan->instances[id].storage)->kind == kind) return true;
  return false;
}

/* What kernels may look at when they are prepared stays: only constants that all steps want packed go. */
static void keep_looked_at(const braid_plan *plan) {
  for (size_t i = 0; i < plan->steps.count; i++) {
    const braid_step *step = &plan->steps.items[i];
    if (step->node < 0) continue;
    const braid_node *node = &plan->graph->nodes[step->node];
    for (size_t k = 0; k < node->input_count; k++)
      if (node->inputs[k] >= 0 && !braid_step_packing(step, k)) plan->kept[node->inputs[k]] = true;
  }
}

/* Only what is bound may be read from here on. A constant that will be packed must still look like one. */
static void forget(const braid_plan *plan, bool all) {
  static const char kSomething;
  for (size_t i = 0; i < plan->steps.count; i++) {
    const braid_step *step = &plan->steps.items[i];
    for (size_t k = 0; step->node >= 0 && k < step->input_count; k++) {
      braid_value_id value = plan->graph->nodes[step->node].inputs[k];
      if (value < 0 || !step->operands[k].constant) continue;
      if (all || !plan->graph->values[value].tensor) step->operands[k].constant = all ? NULL : &kSomething;
    }
  }
}

void braid_plan_drop(braid_plan *plan, bool all) {
  if (!all) keep_looked_at(plan);
  for (size_t i = 0; i < plan->graph->value_count; i++) {
    braid_value *value = &plan->graph->values[i];
    bool persists = has_storage(plan, (braid_value_id)i, BRAID_STORAGE_PERSISTENT) || plan->first_packed[i] >= 0;
    /* A parameter that the graph does not use keeps its tensor, so that it can still be read and written. */
    bool unused = value->kind != BRAID_VALUE_CONSTANT && !persists && !braid_plan_is_constant(plan, (braid_value_id)i);
    if (unused || plan->kept[i] || has_storage(plan, (braid_value_id)i, BRAID_STORAGE_TENSOR)) continue;
    if (braid_value_was_read(value)) continue; /* the plan depends on it: a part of what is saved and printed */
    if (!all && plan->first_packed[i] < 0) continue;
    braid_tensor_release(value->tensor);
    value->tensor = NULL;
  }
  forget(plan, all);
  plan->dropped = true;
}

void braid_plan_drop_data(braid_plan *plan) {
  pthread_mutex_lock(&plan->lock);
  if (!plan->dropped && braid_plan_recover(plan) == BRAID_OK && braid_plan_digest(plan) == BRAID_OK)
    braid_plan_drop(plan, false);
  pthread_mutex_unlock(&plan->lock);
}

/* --- reports -------------------------------------------------------------------------------------------------------
 */
static const braid_desc *desc_of(const braid_plan *plan, const braid_value_id *ids, size_t count, size_t index) {
  return index < count ? &plan->graph->values[ids[index]].desc : NULL;
}

size_t braid_plan_input_count(const braid_plan *plan) {
  return plan->graph->input_count;
}

size_t braid_plan_output_count(const braid_plan *plan) {
  return plan->graph->output_count;
}

const braid_desc *braid_plan_input(const braid_plan *plan, size_t index) {
  return desc_of(plan, plan->graph->inputs, plan->graph->input_count, index);
}

const braid_desc *braid_plan_output(const braid_plan *plan, size_t index) {
  return desc_of(plan, plan->graph->outputs, plan->graph->output_count, index);
}

size_t braid_plan_line_count(const braid_plan *plan) {
  return plan->steps.count;
}

braid_plan_line braid_plan_get_line(const braid_plan *plan, size_t index) {
  if (index >= plan->steps.count) return (braid_plan_line){"", "", "", "", "", -1, false, -1};
  const braid_step *step = &plan->steps.items[index];
  return (braid_plan_line){.node = step->label,
                           .op = step->op,
                           .device = plan->devices[step->device].label,
                           .kernel = step->kernel ? step->kernel->name : "transfer",
                           .why = step->why,
                           .median_us = -1,
                           .modelled = plan->devices[step->device].info->modelled,
                           .energy_uj = -1};
}

size_t braid_plan_arena_bytes(const braid_plan *plan) {
  size_t bytes = 0;
  for (int space = 0; space < plan->space_count; space++) bytes += plan->arena_bytes[space];
  return bytes;
}
