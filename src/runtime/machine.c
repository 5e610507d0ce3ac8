#include "runtime/machine.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/detail.h"
#include "base/invariant.h"
#include "base/text.h"
#include "base/try.h"
#include "device/kernel_index.h"
#include "runtime/plan/prepared.h"
#include "runtime/surface/call.h"

enum { kSpecBytes = 256 };
/* --- opening -------------------------------------------------------------------------------------------------------
 */
/* The option for CPU threads goes to every CPU that does not set them itself. */
static braid_status machine_open(braid_machine *machine, braid_registry *registry, const char *spec, size_t length,
                                 int threads) {
  char text[kSpecBytes];
  braid_machine_device *device = &machine->devices[machine->device_count];
  if (machine->device_count == kMaxDevices || length + 24 > sizeof text)
    return braid_fail(BRAID_INVALID_ARGUMENT, "more than %d devices, or a description that is too long", kMaxDevices);
  memcpy(text, spec, length);
  text[length] = '\0';
  bool cpu = strncmp(text, "cpu", 3) == 0 && (text[3] == '\0' || text[3] == ':');
  if (threads != 0 && cpu && !strstr(text, "threads="))
    snprintf(text + length, sizeof text - length, "%sthreads=%d", text[3] ? "," : ":", threads);
  BRAID_TRY(braid_device_open(registry, text, &device->device));
  device->backend = braid_device_backend(device->device);
  device->self = braid_device_self(device->device);
  device->info = braid_device_get_info(device->device);
  int duplicates = 0;
  for (size_t i = 0; i < machine->device_count; i++)
    duplicates += strcmp(machine->devices[i].info->name, device->info->name) == 0;
  machine->device_count++;
  snprintf(device->label, sizeof device->label, duplicates ? "%s#%d" : "%s", device->info->name, duplicates);
  return BRAID_OK;
}

static void find_spaces(braid_machine *machine) {
  machine->host_device = -1;
  machine->space_count = 1;
  machine->host_alignment = 1;
  for (size_t i = 0; i < machine->device_count; i++) {
    braid_machine_device *device = &machine->devices[i];
    bool unified = device->info->memory == BRAID_MEMORY_UNIFIED;
    device->space = unified ? kHostSpace : machine->space_count++;
    if (!unified) continue;
    if (machine->host_device < 0) machine->host_device = (int)i;
    if (device->info->host_alignment > machine->host_alignment) machine->host_alignment = device->info->host_alignment;
  }
}

static braid_status machine_init(braid_machine *machine, const braid_machine_options *options) {
  BRAID_TRY(braid_calls_create(machine->allocator, &machine->calls));
  BRAID_TRY(braid_prepared_cache_create(machine->allocator, &machine->prepared));
  braid_registry *registry = options->registry;
  if (!registry) {
    BRAID_TRY(braid_registry_create(machine->allocator, &machine->own_registry));
    registry = machine->own_registry;
  }
  machine->log = braid_registry_get_log(registry);
  machine->progress = braid_registry_get_progress(registry);
  machine->devices = braid_zalloc_array(machine->allocator, kMaxDevices, sizeof *machine->devices);
  machine->queues =
      braid_zalloc_array(machine->allocator, (size_t)BRAID_QUEUE_ROLES * kMaxDevices, sizeof *machine->queues);
  if (!machine->devices || !machine->queues) return BRAID_NO_MEMORY;
  const char *specs = options->devices ? options->devices : "cpu";
  for (;;) {
    specs += strspn(specs, " ");
    size_t length = strcspn(specs, " ");
    if (!length) break;
    BRAID_TRY(machine_open(machine, registry, specs, length, options->threads));
    specs += length;
  }
  find_spaces(machine);
  return machine->device_count ? BRAID_OK : braid_fail(BRAID_INVALID_ARGUMENT, "no device is given");
}

static void machine_destroy(braid_machine *machine) {
  machine->references = 1; /* while calls that are kept let go of theirs */
  braid_calls_destroy(machine->calls);
  braid_prepared_cache_destroy(machine->prepared);
  for (size_t i = 0; i < BRAID_QUEUE_ROLES * machine->device_count; i++) braid_queue_close(&machine->queues[i]);
  for (size_t i = 0; i < machine->device_count; i++) braid_device_close(machine->devices[i].device);
  braid_free(machine->allocator, machine->devices);
  braid_free(machine->allocator, machine->queues);
  braid_registry_destroy(machine->own_registry);
  braid_times_deinit(&machine->times);
  pthread_mutex_destroy(&machine->lock);
  braid_free(machine->allocator, machine);
}

braid_status braid_machine_create(const braid_allocator *allocator, const braid_machine_options *options,
                                  braid_machine **out) {
  static const braid_machine_options kDefault;
  *out = NULL;
  braid_machine *machine = braid_zalloc(allocator, sizeof *machine);
  if (!machine) return BRAID_NO_MEMORY;
  machine->allocator = allocator;
  machine->references = 1;
  pthread_mutex_init(&machine->lock, NULL);
  braid_times_init(&machine->times, allocator);
  braid_status status = machine_init(machine, options ? options : &kDefault);
  if (status == BRAID_OK)
    *out = machine;
  else
    machine_destroy(machine);
  return status;
}

braid_machine *braid_machine_retain(braid_machine *machine) {
  braid_references_add(&machine->references);
  return machine;
}

void braid_machine_release(braid_machine *machine) {
  if (machine && braid_references_drop(&machine->references)) machine_destroy(machine);
}

/* --- queues --------------------------------------------------------------------------------------------------------
 */
braid_status braid_machine_queue(braid_machine *machine, int index, braid_queue **out) {
  const braid_machine_device *device = &machine->devices[index / BRAID_QUEUE_ROLES];
  braid_queue *queue = *out = &machine->queues[index];
  braid_status status = BRAID_OK;
  pthread_mutex_lock(&machine->lock);
  if (!queue->backend) status = braid_queue_open(queue, machine->allocator, device->backend, device->self);
  pthread_mutex_unlock(&machine->lock);
  return status;
}

braid_status braid_machine_find(const braid_machine *machine, const char *name, int *out) {
  int64_t number;
  if (braid_parse_i64(name, &number) && number >= 0 && (size_t)number < machine->device_count) {
    *out = (int)number;
    return BRAID_OK;
  }
  char labels[512];
  size_t used = 0;
  for (size_t i = 0; i < machine->device_count; i++) {
    const char *label = machine->devices[i].label;
    *out = (int)i;
    if (strcmp(label, name) == 0) return BRAID_OK;
    if (used < sizeof labels) used += (size_t)snprintf(labels + used, sizeof labels - used, " %s", label);
  }
  *out = -1;
  return braid_fail(BRAID_NOT_FOUND, "%.120s is not among the machine's devices:%s", name, labels);
}

bool braid_machine_lost(const braid_machine *machine, uint32_t devices) {
  for (size_t i = 0; i < machine->device_count; i++) {
    const braid_machine_device *device = &machine->devices[i];
    if ((devices >> i & 1) && device->backend->status && device->backend->status(device->self) == BRAID_DEVICE_LOST)
      return true;
  }
  return false;
}

braid_status braid_machine_await(const braid_machine *machine, uint32_t devices, braid_point point,
                                 int64_t deadline_ns) {
  int64_t gone_ns = -1; /* until when tasks may end that a lost device has left */
  for (;;) {
    int64_t slice = kLookNs;
    if (deadline_ns >= 0) {
      int64_t left = deadline_ns - braid_now_ns();
      slice = left < 0 ? 0 : left < kLookNs ? left : kLookNs;
    }
    if (braid_timeline_wait(point.timeline, point.value, slice) == BRAID_OK) return BRAID_OK;
    int64_t now = braid_now_ns();
    if (gone_ns < 0 && braid_machine_lost(machine, devices)) gone_ns = now + kGraceNs;
    if (gone_ns >= 0 && now >= gone_ns) return braid_fail(BRAID_DEVICE_LOST, "the device is lost and does not answer");
    if (deadline_ns >= 0 && now >= deadline_ns) return braid_fail(BRAID_TIMEOUT, "the task is not done");
  }
}

/* --- memory --------------------------------------------------------------------------------------------------------
 */
braid_status braid_machine_allocate(braid_machine *machine, int space, size_t bytes, braid_memory *out) {
  *out = (braid_memory){0};
  for (size_t i = machine->device_count; i-- > 0;)
    if (machine->devices[i].space == space) out->owner = &machine->devices[i];
  if (!bytes) return BRAID_OK;
  if (!out->owner) {
    out->buffer = out->host = braid_alloc(machine->allocator, bytes);
    return out->buffer ? BRAID_OK : BRAID_NO_MEMORY;
  }
  const braid_backend *backend = out->owner->backend;
  pthread_mutex_lock(&machine->lock);
  braid_clear_detail();
  braid_status status = backend->buffer_create(out->owner->self, bytes, &out->buffer);
  if (status == BRAID_OK && out->owner->info->memory == BRAID_MEMORY_UNIFIED)
    out->host = backend->buffer_map(out->owner->self, out->buffer);
  pthread_mutex_unlock(&machine->lock);
  if (status != BRAID_OK) out->buffer = NULL;
  return status;
}

void braid_machine_free(braid_machine *machine, braid_memory *memory) {
  if (memory->buffer && memory->owner) {
    pthread_mutex_lock(&machine->lock);
    memory->owner->backend->buffer_destroy(memory->owner->self, memory->buffer);
    pthread_mutex_unlock(&machine->lock);
  } else if (memory->buffer) {
    braid_free(machine->allocator, memory->buffer);
  }
  *memory = (braid_memory){0};
}

size_t braid_machine_alignment(const braid_machine *machine, int space) {
  size_t alignment = 64;
  for (size_t i = 0; i < machine->device_count; i++)
    if (machine->devices[i].space == space && machine->devices[i].info->alignment > alignment)
      alignment = machine->devices[i].info->alignment;
  return alignment;
}

/* --- kernels -------------------------------------------------------------------------------------------------------
 */
const braid_kernel *braid_machine_find_kernel(braid_machine *machine, int device, const braid_node_desc *node,
                                              char *why, size_t why_bytes) {
  pthread_mutex_lock(&machine->lock);
  const braid_kernel *kernel = braid_device_find_kernel(machine->devices[device].device, node, why, why_bytes);
  pthread_mutex_unlock(&machine->lock);
  return kernel;
}

size_t braid_machine_visit_kernels(braid_machine *machine, int device, const braid_node_desc *node,
                                   void (*visit)(void *context, const braid_kernel *kernel, const char *why),
                                   void *context) {
  pthread_mutex_lock(&machine->lock);
  size_t count = braid_device_visit_kernels(machine->devices[device].device, node, visit, context);
  pthread_mutex_unlock(&machine->lock);
  return count;
}

bool braid_machine_layouts(braid_machine *machine, int device, const braid_kernel *kernel, const braid_node_desc *node,
                           braid_layout *inputs, braid_layout *outputs) {
  const braid_machine_device *on = &machine->devices[device];
  pthread_mutex_lock(&machine->lock);
  if (kernel->layouts) kernel->layouts(node, inputs, outputs);
  if (on->backend->layouts) on->backend->layouts(on->self, kernel, node, inputs, outputs);
  pthread_mutex_unlock(&machine->lock);
  return kernel->layouts || on->backend->layouts;
}

braid_status braid_machine_prepare(braid_machine *machine, int device, const braid_kernel *kernel,
                                   const braid_node_desc *node, void **prepared, braid_prepared_info *info) {
  const braid_machine_device *on = &machine->devices[device];
  bool alone = !on->backend->concurrent_prepare;
  *info = (braid_prepared_info){0};
  if (alone) pthread_mutex_lock(&machine->lock);
  braid_clear_detail();
  braid_status status = on->backend->prepare(on->self, kernel, node, prepared, info);
  if (alone) pthread_mutex_unlock(&machine->lock);
  if (status != BRAID_OK) *prepared = NULL;
  return status;
}

void braid_machine_discard(braid_machine *machine, int device, void *prepared) {
  const braid_machine_device *on = &machine->devices[device];
  if (!prepared) return;
  pthread_mutex_lock(&machine->lock);
  on->backend->discard(on->self, prepared);
  pthread_mutex_unlock(&machine->lock);
}

braid_status braid_machine_query(braid_machine *machine, int device, const braid_kernel *kernel,
                                 const braid_node_desc *node, braid_query *out, uint32_t *folded) {
  const braid_machine_device *on = &machine->devices[device];
  *out = (braid_query){0};
  *folded = 0;
  if (on->backend->query) {
    braid_clear_detail();
    BRAID_TRY(on->backend->query(on->self, kernel, node, out));
    if (out->packing_count > BRAID_PACKINGS || (out->packing_count && !on->backend->pack))
      return braid_fail(BRAID_INTERNAL, "device %s: kernel %s lists packings and cannot pack", on->label, kernel->name);
    return BRAID_OK;
  }
  void *prepared;
  braid_prepared_info info;
  BRAID_TRY(braid_machine_prepare(machine, device, kernel, node, &prepared, &info));
  braid_machine_discard(machine, device, prepared);
  out->workspace_bytes = info.workspace_bytes;
  *folded = info.constants_folded;
  return BRAID_OK;
}

braid_status braid_machine_query_region(braid_machine *machine, int device, const braid_kernel *kernel,
                                        const braid_node_desc *node, braid_query *out, braid_packing *packings) {
  const braid_machine_device *on = &machine->devices[device];
  size_t count = 0;
  *out = (braid_query){0};
  braid_clear_detail();
  BRAID_TRY(on->backend->query_region(on->self, kernel, node, &out->workspace_bytes, packings, &count));
  bool right = count <= node->input_count && (!count || on->backend->pack);
  for (size_t i = 0; right && i < count; i++)
    right = packings[i].input < node->input_count && node->inputs[packings[i].input].constant;
  if (!right)
    return braid_fail(BRAID_INTERNAL, "device %s: region kernel %s packs what is no constant, or cannot pack",
                      on->label, kernel->name);
  out->packing_count = (uint32_t)count;
  return BRAID_OK;
}
