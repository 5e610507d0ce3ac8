#include "runtime/execution/weights.h"

#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/detail.h"
#include "base/text.h"
#include "base/try.h"
#include "base/vector.h"
#include "runtime/execution/address.h"
#include "runtime/plan/prepared.h"
#include "tensor/layout.h"

/* --- the object ----------------------------------------------------------------------------------------------------
 */
/* Those that were added after `until`. */
static void free_regions(braid_weights *weights, const braid_weight_region *until) {
  while (weights->regions != until) {
    braid_weight_region *region = weights->regions;
    weights->regions = region->next;
    braid_machine_free(weights->machine, &region->memory);
    braid_free(weights->allocator, region);
  }
}

bool braid_weights_returned(braid_weights *weights, const braid_memory *arenas) {
  pthread_mutex_lock(&weights->lock);
  bool lent = arenas && weights->sync_task.lender == arenas;
  bool returned = !lent || braid_sync_task_settle(&weights->sync_task, -1) == BRAID_OK;
  pthread_mutex_unlock(&weights->lock);
  return returned;
}

static void weight_free(const braid_weights *weights, braid_weight *weight) {
  braid_free(weights->allocator, (char *)weight->name);
  braid_tensor_release(weight->tensor);
  braid_free(weights->allocator, weight);
}

static void weights_destroy(braid_weights *weights) {
  if (braid_sync_task_settle(&weights->sync_task, -1) != BRAID_OK) {
    braid_log_write(weights->machine->log, BRAID_LOG_WARNING,
                    "a lost device holds on to a transfer: its memory is left to it");
    return;
  }
  for (size_t i = 0; i < weights->count; i++) weight_free(weights, weights->items[i]);
  braid_free(weights->allocator, weights->items);
  free_regions(weights, NULL);
  braid_plan_release(weights->sync_task_plan);
  braid_sync_task_deinit(&weights->sync_task);
  braid_machine_release(weights->machine);
  pthread_mutex_destroy(&weights->lock);
  pthread_mutex_destroy(&weights->turn);
  pthread_cond_destroy(&weights->turned);
  braid_free(weights->allocator, weights);
}

braid_status braid_weights_make(braid_machine *machine, bool own, int64_t timeout_ns, braid_weights **out) {
  *out = NULL;
  braid_weights *weights = braid_zalloc(machine->allocator, sizeof *weights);
  if (!weights) return BRAID_NO_MEMORY;
  *weights = (braid_weights){.allocator = machine->allocator,
                             .references = 1,
                             .machine = braid_machine_retain(machine),
                             .own = own,
                             .timeout_ns = timeout_ns};
  pthread_mutex_init(&weights->lock, NULL);
  pthread_mutex_init(&weights->turn, NULL);
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&weights->turned, &attributes);
  pthread_condattr_destroy(&attributes);
  braid_sync_task_init(&weights->sync_task, machine);
  *out = weights;
  return BRAID_OK;
}

braid_status braid_weights_create(braid_machine *machine, braid_weights **out) {
  return braid_weights_make(machine, false, -1, out);
}

braid_weights *braid_weights_retain(braid_weights *weights) {
  __atomic_add_fetch(&weights->references, 1, __ATOMIC_RELAXED);
  return weights;
}

void braid_weights_release(braid_weights *weights) {
  if (weights && __atomic_sub_fetch(&weights->references, 1, __ATOMIC_ACQ_REL) == 0) weights_destroy(weights);
}

size_t braid_weights_bytes(const braid_weights *weights) {
  size_t bytes = 0;
  pthread_mutex_lock((pthread_mutex_t *)&weights->lock);
  for (size_t i = 0; i < weights->count; i++) bytes += weights->items[i]->bytes;
  pthread_mutex_unlock((pthread_mutex_t *)&weights->lock);
  return bytes;
}

/* --- readers and writers -------------------------------------------------------------------------------------------
 */
static void count_holders(braid_weights *weights, uint32_t devices, int step) {
  for (int i = 0; i < 32; i++)
    if (devices >> i & 1) weights->holders[i] += (size_t)step;
}

static uint32_t held_devices(const braid_weights *weights) {
  uint32_t devices = 0;
  for (int i = 0; i < 32; i++)
    if (weights->holders[i]) devices |= 1u << i;
  return devices;
}

/* Sleeps until somebody leaves or enters, and looks at the holders' devices now and then; false: one is lost, and has
 * had the time to end its tasks. *gone_ns: when it will have had it, < 0: none is lost. */
static bool wait_for_turn(braid_weights *weights, int64_t *gone_ns) {
  int64_t until = braid_deadline_ns(kLookNs);
  const struct timespec at = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
  if (!pthread_cond_timedwait(&weights->turned, &weights->turn, &at)) return true;
  if (!braid_machine_lost(weights->machine, held_devices(weights)))
    *gone_ns = -1;
  else if (*gone_ns < 0)
    *gone_ns = braid_deadline_ns(kGraceNs);
  return *gone_ns < 0 || braid_now_ns() < *gone_ns;
}

braid_status braid_weights_enter(braid_weights *weights, bool writes, uint32_t devices) {
  int64_t gone_ns = -1;
  bool patient = true;
  pthread_mutex_lock(&weights->turn);
  uint64_t mine = weights->arrived++;
  while (weights->entered != mine || (patient && (weights->writer || (writes && weights->readers))))
    patient = wait_for_turn(weights, &gone_ns);
  weights->entered++;
  if (patient) {
    weights->writer = writes;
    weights->readers += !writes;
    count_holders(weights, devices, 1);
  }
  pthread_cond_broadcast(&weights->turned);
  pthread_mutex_unlock(&weights->turn);
  if (patient) return BRAID_OK;
  return braid_fail(BRAID_DEVICE_LOST, "the weights are held by a run on a device that is lost and does not answer");
}

void braid_weights_leave(braid_weights *weights, bool writes, uint32_t devices) {
  pthread_mutex_lock(&weights->turn);
  if (writes)
    weights->writer = false;
  else
    weights->readers--;
  count_holders(weights, devices, -1);
  pthread_cond_broadcast(&weights->turned);
  pthread_mutex_unlock(&weights->turn);
}

/* --- synchronous tasks ---------------------------------------------------------------------------------------------
 */
static braid_status check_sync_tasks(const braid_weights *weights) {
  if (!weights->sync_task.abandoned) return BRAID_OK;
  return braid_fail(BRAID_DEVICE_LOST, "an earlier transfer hung or lost its device");
}

braid_binding braid_weight_binding(const braid_weight *weight) {
  if (weight->tensor)
    return (braid_binding){.host = (void *)braid_tensor_const_data(weight->tensor), .bytes = weight->bytes};
  const braid_memory *memory = &weight->region->memory;
  return (braid_binding){.buffer = memory->buffer,
                         .host = memory->host ? memory->host + weight->offset : NULL,
                         .offset = weight->offset,
                         .bytes = weight->bytes};
}

/* Between plain memory and a layout of other bytes. `weights` has both; the copy between is this call's. */
static braid_status transfer_rewritten(braid_weights *weights, const braid_weight *weight, void *host, bool write,
                                       const braid_binding *binding) {
  if (binding->host && write) braid_layout_pack(&weight->desc, host, binding->host);
  if (binding->host && !write) braid_layout_unpack(&weight->desc, binding->host, host);
  if (binding->host) return BRAID_OK;
  int device = (int)(weight->region->memory.owner - weights->machine->devices);
  void *packed = braid_alloc(weights->allocator, weight->bytes);
  if (!packed) return braid_fail(BRAID_NO_MEMORY, "%zu bytes requested", weight->bytes);
  if (write) braid_layout_pack(&weight->desc, host, packed);
  braid_status status =
      braid_sync_task_copy_staged(&weights->sync_task, device, binding, packed, write, weights->timeout_ns);
  if (status == BRAID_OK && !write) braid_layout_unpack(&weight->desc, packed, host);
  braid_free(weights->allocator, packed);
  return status;
}

/* The bytes as they lie. `staged`: `host` is touched only while the call lasts. Else it must live as long as the
 * weights, since a transfer that is left behind may still touch it. */
static braid_status transfer_plain(braid_weights *weights, const braid_weight *weight, void *host, bool write,
                                   bool staged) {
  braid_binding binding = braid_weight_binding(weight);
  if (!weight->bytes) return BRAID_OK;
  if (binding.host) {
    memcpy(write ? binding.host : host, write ? host : binding.host, weight->bytes);
    return BRAID_OK;
  }
  BRAID_TRY(check_sync_tasks(weights));
  int device = (int)(weight->region->memory.owner - weights->machine->devices);
  return staged ? braid_sync_task_copy_staged(&weights->sync_task, device, &binding, host, write, weights->timeout_ns)
                : braid_sync_task_copy(&weights->sync_task, device, &binding, host, write, weights->timeout_ns);
}

/* `host` is plain. */
static braid_status transfer(braid_weights *weights, const braid_weight *weight, void *host, bool write, bool staged) {
  if (weight->desc.layout == BRAID_LAYOUT_PLAIN || !weight->bytes)
    return transfer_plain(weights, weight, host, write, staged);
  braid_binding binding = braid_weight_binding(weight);
  if (!binding.host) BRAID_TRY(check_sync_tasks(weights));
  return transfer_rewritten(weights, weight, host, write, &binding);
}

braid_status braid_weights_fetch(braid_weights *weights, const braid_weight *weight, void *host) {
  BRAID_TRY(braid_weight_check(weight));
  pthread_mutex_lock(&weights->lock);
  braid_status status = transfer(weights, weight, host, false, true);
  pthread_mutex_unlock(&weights->lock);
  return status;
}

braid_status braid_weights_fetch_kept(braid_weights *weights, const braid_weight *weight, void *host) {
  BRAID_TRY(braid_weight_check(weight));
  pthread_mutex_lock(&weights->lock);
  braid_status status = transfer_plain(weights, weight, host, false, false);
  pthread_mutex_unlock(&weights->lock);
  return status;
}

braid_status braid_weights_put(braid_weights *weights, braid_weight *weight, const void *host) {
  pthread_mutex_lock(&weights->lock);
  bool begins = braid_weight_binding(weight).host || !weights->sync_task.abandoned;
  braid_status status = transfer(weights, weight, (void *)host, true, true);
  if (status == BRAID_OK)
    braid_weights_mend(weights, weight);
  else if (begins && status != BRAID_NO_MEMORY)
    braid_weights_tear(weights, weight);
  pthread_mutex_unlock(&weights->lock);
  return status;
}

/* --- binding a plan ------------------------------------------------------------------------------------------------
 */
typedef struct binder {
  braid_weights *weights;
  braid_plan *plan;
  braid_prepared *const *prepared;
  const braid_memory *arenas;
  braid_weight **found;
  size_t before;                /* weights that were there: those behind are new, and not filled yet */
  braid_weight_region *regions; /* likewise: those before it are new */
  size_t *ends;                 /* per space: bytes of what is new */
} binder;

static bool is_kept(const braid_plan *plan, size_t i) {
  const braid_storage *storage = &plan->storages[i];
  return storage->same_as < 0 && (storage->kind == BRAID_STORAGE_PERSISTENT || storage->kind == BRAID_STORAGE_TENSOR);
}

/* What a storage is, to be compared with what there is. */
static braid_weight weight_describe(const binder *b, const braid_storage *storage) {
  const braid_value *value = &b->plan->graph->values[storage->value];
  bool constant = braid_plan_is_constant(b->plan, storage->value);
  braid_weight weight = {.name = constant ? NULL : value->name,
                         .desc = value->desc,
                         .device = -1,
                         .space = storage->space,
                         .bytes = storage->bytes};
  weight.desc.layout = storage->layout;
  if (storage->kind == BRAID_STORAGE_TENSOR) weight.tensor = value->tensor;
  if (constant && !b->weights->own) weight.digest = b->plan->digests[storage->value];
  if (storage->packer >= 0) {
    weight.device = b->plan->steps.items[storage->packer].device;
    weight.packing = storage->packing.key;
  }
  return weight;
}

static bool is_same(const braid_weight *a, const braid_weight *b) {
  return memcmp(&a->digest, &b->digest, sizeof a->digest) == 0 && a->device == b->device && a->packing == b->packing &&
         a->space == b->space && a->bytes == b->bytes && a->desc.layout == b->desc.layout &&
         a->desc.dtype == b->desc.dtype && braid_desc_same_shape(&a->desc, &b->desc);
}

static braid_weight *find_named(const braid_weights *weights, const char *name) {
  for (size_t i = 0; i < weights->count; i++)
    if (weights->items[i]->name && strcmp(weights->items[i]->name, name) == 0) return weights->items[i];
  return NULL;
}

bool braid_weights_find_layout(braid_weights *weights, const char *name, const braid_desc *shape, braid_layout *out) {
  pthread_mutex_lock(&weights->lock);
  const braid_weight *weight = find_named(weights, name);
  bool found = weight && braid_desc_same_shape(&weight->desc, shape);
  if (found) *out = weight->desc.layout;
  pthread_mutex_unlock(&weights->lock);
  return found;
}

/* NULL: there is none. One of the name that is not the same is a failure. */
static braid_status weight_find(const braid_weights *weights, const braid_weight *wanted, braid_weight **out) {
  *out = NULL;
  if (weights->own) return BRAID_OK;
  if (!wanted->name) {
    for (size_t i = 0; i < weights->count && !*out; i++)
      if (!weights->items[i]->name && is_same(weights->items[i], wanted)) *out = weights->items[i];
    return BRAID_OK;
  }
  *out = find_named(weights, wanted->name);
  if (!*out || is_same(*out, wanted)) return BRAID_OK;
  char there[96], here[96];
  if ((*out)->desc.layout != wanted->desc.layout && (*out)->space == wanted->space &&
      braid_desc_same_shape(&(*out)->desc, &wanted->desc)) {
    char kept[BRAID_LAYOUT_TEXT], other[BRAID_LAYOUT_TEXT];
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "%.120s is kept in layout %s and the plan wants it in %s: name the weights when the plan is made",
                      wanted->name, braid_layout_format((*out)->desc.layout, wanted->desc.rank, kept, sizeof kept),
                      braid_layout_format(wanted->desc.layout, wanted->desc.rank, other, sizeof other));
  }
  return braid_fail(BRAID_INVALID_ARGUMENT, "%.120s is %s for one plan and %s for another%s", wanted->name,
                    braid_desc_format(&(*out)->desc, there, sizeof there),
                    braid_desc_format(&wanted->desc, here, sizeof here),
                    (*out)->space != wanted->space ? ", on another device" : "");
}

static braid_status weight_add(binder *b, const braid_weight *wanted, braid_weight **out) {
  braid_weights *weights = b->weights;
  size_t alignment = braid_machine_alignment(weights->machine, wanted->space), *end = &b->ends[wanted->space], bytes;
  braid_weight **items =
      braid_grow(weights->allocator, weights->items, weights->count, &weights->capacity, sizeof *items);
  if (!items) return BRAID_NO_MEMORY;
  weights->items = items;
  braid_weight *weight = braid_alloc(weights->allocator, sizeof *weight);
  if (!weight) return BRAID_NO_MEMORY;
  *weight = *wanted;
  if (weight->tensor) (void)braid_tensor_retain(weight->tensor);
  weight->offset = *end;
  if (weight->name) weight->name = braid_strdup(weights->allocator, weight->name);
  items[weights->count++] = *out = weight;
  if (wanted->name && !weight->name) return BRAID_NO_MEMORY;
  if (weight->tensor) return BRAID_OK;
  if (!braid_add_size(weight->bytes ? weight->bytes : 1, alignment - 1, &bytes) ||
      !braid_add_size(*end, bytes & ~(alignment - 1), end))
    return braid_fail(BRAID_OUT_OF_RANGE, "the weights do not fit any memory");
  return BRAID_OK;
}

static braid_status find_all(binder *b) {
  for (size_t i = 0; i < b->plan->storage_count; i++) {
    if (!is_kept(b->plan, i)) continue;
    braid_weight wanted = weight_describe(b, &b->plan->storages[i]);
    BRAID_TRY(weight_find(b->weights, &wanted, &b->found[i]));
    if (!b->found[i] && b->plan->dropped && !wanted.tensor)
      return braid_fail(BRAID_UNSUPPORTED, "the plan's data was dropped, and these weights lack %.120s",
                        b->plan->graph->values[b->plan->storages[i].value].name);
    if (!b->found[i]) BRAID_TRY(weight_add(b, &wanted, &b->found[i]));
  }
  return BRAID_OK;
}

static braid_status regions_allocate(binder *b) {
  braid_weights *weights = b->weights;
  for (int space = 0; space < b->plan->space_count; space++) {
    if (!b->ends[space]) continue;
    braid_weight_region *region = braid_zalloc(weights->allocator, sizeof *region);
    if (!region) return BRAID_NO_MEMORY;
    region->space = space;
    region->next = weights->regions;
    weights->regions = region;
    braid_status status = braid_machine_allocate(weights->machine, space, b->ends[space], &region->memory);
    if (status != BRAID_OK)
      return braid_plan_no_memory(b->plan, status, space, BRAID_STORAGE_PERSISTENT, b->ends[space]);
    for (size_t i = b->before; i < weights->count; i++)
      if (weights->items[i]->space == space && !weights->items[i]->tensor) weights->items[i]->region = region;
  }
  return BRAID_OK;
}

/* --- contents ------------------------------------------------------------------------------------------------------
 */
static braid_status weight_pack(binder *b, const braid_storage *storage, const braid_weight *weight) {
  const braid_step *step = &b->plan->steps.items[storage->packer];
  const braid_machine_device *device = &b->plan->devices[step->device];
  const void *plain = braid_tensor_const_data(b->plan->graph->values[storage->value].tensor);
  void *prepared = b->prepared[storage->packer]->self;
  uint8_t *host = weight->region->memory.host;
  braid_clear_detail();
  if (host) return device->backend->pack(device->self, prepared, storage->packing.input, plain, host + weight->offset);
  void *staging = braid_alloc(b->weights->allocator, weight->bytes);
  if (!staging) return braid_fail(BRAID_NO_MEMORY, "%zu bytes requested", weight->bytes);
  braid_status status = device->backend->pack(device->self, prepared, storage->packing.input, plain, staging);
  if (status == BRAID_OK) status = transfer(b->weights, weight, staging, true, true);
  braid_free(b->weights->allocator, staging);
  return status;
}

static braid_status fill_one(binder *b, const braid_storage *storage, const braid_weight *weight) {
  const braid_value *value = &b->plan->graph->values[storage->value];
  void *plain = (void *)braid_tensor_const_data(value->tensor); /* the plan keeps it, and the task keeps the plan */
  braid_status status =
      storage->packer >= 0 ? weight_pack(b, storage, weight) : transfer(b->weights, weight, plain, true, false);
  if (status == BRAID_OK) return status;
  return braid_fail_prefix(status, "%s %.120s", storage->packer >= 0 ? "packing" : "uploading", value->name);
}

/* Converts a constant to the layout a kernel wants. */
static braid_status convert(binder *b, const braid_step *step) {
  braid_sync_task *sync_task = &b->weights->sync_task;
  void *prepared;
  braid_prepared_info info;
  BRAID_TRY(check_sync_tasks(b->weights));
  BRAID_TRY(braid_machine_prepare(b->weights->machine, step->device, step->kernel, step->desc, &prepared, &info));
  const braid_addresses addresses = {b->plan, b->arenas, b->found};
  memset(sync_task->bindings, 0, sizeof sync_task->bindings);
  sync_task->task = (braid_task){.label = step->label};
  braid_bind_kernel(&addresses, step, prepared, &sync_task->task, sync_task->bindings, NULL);
  sync_task->prepared = prepared;
  sync_task->lender = b->arenas;
  braid_status status = braid_sync_task_run(sync_task, step->device, step->queue, b->weights->timeout_ns);
  return status == BRAID_OK ? BRAID_OK : braid_fail_prefix(status, "%s", step->label);
}

static braid_status weights_fill(binder *b) {
  const braid_plan *plan = b->plan;
  for (size_t i = 0; i < plan->storage_count; i++) {
    const braid_storage *storage = &plan->storages[i];
    if (!is_kept(plan, i) || storage->converted || b->found[i]->filled || b->found[i]->tensor) continue;
    BRAID_TRY(fill_one(b, storage, b->found[i]));
  }
  for (size_t i = 0; i < plan->setup.count; i++) {
    const braid_step *step = &plan->setup.items[i];
    braid_storage_id to = braid_plan_find(plan, plan->instances[step->instances[1]].storage);
    if (!b->found[to]->filled) BRAID_TRY(convert(b, step));
  }
  for (size_t i = b->before; i < b->weights->count; i++) b->weights->items[i]->filled = true;
  return BRAID_OK;
}

/* What was added and not filled must not be found by the next plan. Memory that an abandoned task may still access
 * stays. */
static void undo(binder *b) {
  braid_weights *weights = b->weights;
  while (weights->count > b->before) weight_free(weights, weights->items[--weights->count]);
  if (!weights->sync_task.abandoned) free_regions(weights, b->regions);
}

braid_status braid_weights_bind(braid_weights *weights, braid_plan *plan, braid_prepared *const *prepared,
                                const braid_memory *arenas, braid_weight **found) {
  binder b = {.weights = weights, .plan = plan, .prepared = prepared, .arenas = arenas, .found = found};
  if (!weights->own) BRAID_TRY(braid_plan_digest(plan));
  pthread_mutex_lock(&weights->lock);
  bool left = weights->sync_task.abandoned;
  b.before = weights->count;
  b.regions = weights->regions;
  b.ends = braid_zalloc_array(weights->allocator, (size_t)plan->space_count, sizeof *b.ends);
  braid_status status = b.ends ? find_all(&b) : BRAID_NO_MEMORY;
  if (status == BRAID_OK) status = regions_allocate(&b);
  if (status == BRAID_OK) status = weights_fill(&b);
  if (status != BRAID_OK) undo(&b);
  if (weights->sync_task.abandoned && !left) weights->sync_task_plan = braid_plan_retain(plan);
  braid_free(weights->allocator, b.ends);
  pthread_mutex_unlock(&weights->lock);
  return status;
}

/* --- by name -------------------------------------------------------------------------------------------------------
 */
static braid_status find_kept(braid_weights *weights, const char *name, const braid_tensor *tensor,
                              braid_weight **out) {
  const braid_desc *given = braid_tensor_desc(tensor);
  pthread_mutex_lock(&weights->lock);
  braid_weight *weight = *out = find_named(weights, name);
  pthread_mutex_unlock(&weights->lock);
  if (!weight) return braid_fail(BRAID_NOT_FOUND, "the weights have no parameter or state %.120s", name);
  if (given->dtype == weight->desc.dtype && given->layout == BRAID_LAYOUT_PLAIN &&
      braid_desc_same_shape(given, &weight->desc))
    return BRAID_OK;
  char is[96], expected[96];
  return braid_fail(BRAID_INVALID_ARGUMENT, "%.120s is %s, the tensor given is %s%s", name,
                    braid_desc_format(&weight->desc, expected, sizeof expected),
                    braid_desc_format(given, is, sizeof is),
                    given->layout == BRAID_LAYOUT_PLAIN ? "" : " and not plain");
}

braid_status braid_weights_read(braid_weights *weights, const char *name, braid_tensor *tensor) {
  braid_weight *weight;
  BRAID_TRY(find_kept(weights, name, tensor, &weight));
  BRAID_TRY(braid_weights_enter(weights, false, 0));
  braid_status status = braid_weights_fetch(weights, weight, braid_tensor_data(tensor));
  braid_weights_leave(weights, false, 0);
  return status;
}

braid_status braid_weights_write(braid_weights *weights, const char *name, const braid_tensor *tensor) {
  braid_weight *weight;
  BRAID_TRY(find_kept(weights, name, tensor, &weight));
  BRAID_TRY(braid_weights_enter(weights, true, 0));
  braid_status status = braid_weights_put(weights, weight, braid_tensor_const_data(tensor));
  braid_weights_leave(weights, true, 0);
  return status;
}
