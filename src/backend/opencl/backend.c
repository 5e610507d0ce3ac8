/* OpenCL devices: whatever the drivers of this machine offer, as opencl0, opencl1 ... in their order.
 *
 *   api        the library, loaded when the program runs       memory   buffers, arena, operands
 *   context    a physical device and what its users share      program  kernel text, built
 *   options    what may follow a device's name                 kernel   a node's recipe as the driver's kernels
 *   queue      tasks as the driver's commands                  manifest kernels of somebody else, bound by a file
 *   power      of cards that tell it elsewhere
 *
 * The kernels that stand behind it are those of src/launch, their text in kernels/opencl; the order and the ending of
 * tasks are launch/queue's. */
#include <stdio.h>
#include <string.h>

#include "backend/opencl/kernel.h"
#include "backend/opencl/manifest.h"
#include "backend/opencl/memory.h"
#include "backend/opencl/options.h"
#include "backend/opencl/pin.h"
#include "backend/opencl/power.h"
#include "backend/opencl/program.h"
#include "backend/opencl/queue.h"
#include "launch/families.h"

static braid_status device_enumerate(braid_device_info *infos, size_t capacity, size_t *count) {
  *count = braid_cl_count();
  for (size_t i = 0; i < *count && i < capacity; i++) {
    cl_platform_id platform;
    cl_device_id device;
    braid_status status = braid_cl_find(i, &platform, &device);
    if (status != BRAID_OK) return status;
    braid_cl_describe(device, i, &infos[i]);
  }
  return BRAID_OK;
}

static void device_close(void *self) {
  braid_cl_device *device = self;
  braid_cl_manifest_release(device);
  braid_cl_bitstream_release(device);
  braid_cl_context_release(device->shared);
  braid_nvml_close(device->card);
  pthread_mutex_destroy(&device->card_lock);
  pthread_mutex_destroy(&device->lock);
  braid_free(device->allocator, device->kernels);
  braid_free(device->allocator, device);
}

/* The part's share of the device, in its name and numbers. */
static void describe_part(braid_cl_device *device, const braid_cl_options *options) {
  braid_device_info *info = &device->info;
  if (options->parts)
    snprintf(info->name, sizeof info->name, "opencl%zu.%u", device->shared->share.index, device->part);
  info->compute_units = device->traits.compute_units;
}

static void set_cache(braid_cl_device *device, const char *folder) {
  device->cache = device->own_cache[0] ? device->own_cache : folder;
  if (strcmp(device->own_cache, "off") == 0) device->cache = NULL;
}

static void device_set_host(void *self, const braid_log *log, const char *cache) {
  braid_cl_device *device = self;
  device->log = log;
  set_cache(device, cache);
}

static braid_status device_init(braid_cl_device *device, size_t index, const braid_cl_options *options) {
  braid_cl_share share = {
      .index = index, .parts = options->parts ? options->parts : 1, .arena_bytes = options->arena_bytes};
  braid_status status = braid_cl_context_acquire(&share, &device->shared);
  if (status != BRAID_OK) return status;
  device->part = options->part;
  device->id = device->part < device->shared->part_count ? device->shared->parts[device->part] : device->shared->device;
  device->deadline_ns = (int64_t)options->deadline_ms * 1000000;
  braid_cl_describe(device->shared->device, index, &device->info);
  braid_cl_read_traits(device->id, &device->traits);
  braid_launch_tune(&device->traits, &options->knobs);
  describe_part(device, options);
  bool shares = !options->separate && !options->arena_bytes && braid_cl_shares_host_memory(device);
  device->traits.aligned = !shares;
  device->info.memory = shares ? BRAID_MEMORY_UNIFIED : BRAID_MEMORY_SEPARATE;
  if (options->arena_bytes) device->info.memory_bytes = options->arena_bytes;
  memcpy(device->own_cache, options->cache, sizeof device->own_cache);
  set_cache(device, NULL);
  if (options->bitstream[0]) status = braid_cl_bitstream_load(device, options->bitstream);
  if (status == BRAID_OK && options->manifest[0]) status = braid_cl_manifest_load(device, options->manifest);
  if (status != BRAID_OK) return status;
  braid_launch_family own = braid_cl_manifest_family(device->manifest);
  return braid_launch_list_kernels(device->allocator, "cl_", &own, 1, &device->kernels, &device->kernel_count);
}

static braid_status device_open(const braid_allocator *allocator, size_t index, const char *text, void **out) {
  *out = NULL;
  braid_cl_options options;
  braid_status status = braid_cl_parse_options(text, &options);
  if (status != BRAID_OK) return status;
  braid_cl_device *device = braid_zalloc(allocator, sizeof *device);
  if (!device) return BRAID_NO_MEMORY;
  *device = (braid_cl_device){.allocator = allocator, .cl = braid_cl_load()};
  pthread_mutex_init(&device->card_lock, NULL);
  pthread_mutex_init(&device->lock, NULL);
  status = device_init(device, index, &options);
  if (status == BRAID_OK)
    *out = device;
  else
    device_close(device);
  return status;
}

static void device_info(void *self, braid_device_info *out) {
  *out = ((braid_cl_device *)self)->info;
}

static const braid_kernel *const *device_kernels(void *self, size_t *count) {
  const braid_cl_device *device = self;
  *count = device->kernel_count;
  return device->kernels;
}

static bool device_brought(void *self, const braid_kernel *kernel) {
  braid_launch_family brought = braid_cl_manifest_family(((braid_cl_device *)self)->manifest);
  for (size_t i = 0; i < brought.count; i++)
    if (&brought.kernels[i] == kernel) return true;
  return false;
}

/* Devices of one context reach each other's memory. */
static bool device_peer(void *self, void *other) {
  return ((braid_cl_device *)self)->shared == ((braid_cl_device *)other)->shared;
}

braid_status braid_cl_device_status(void *self) {
  const braid_cl_device *device = self;
  if (!braid_cl_device_is_lost(device)) return BRAID_OK;
  return braid_fail(BRAID_DEVICE_LOST, "%s does not answer", device->info.name);
}

const braid_backend braid_backend_opencl = {
    .abi = BRAID_DEVICE_ABI,
    .size = sizeof(braid_backend),
    .name = "opencl",
    .enumerate = device_enumerate,
    .open = device_open,
    .close = device_close,
    .info = device_info,
    .kernels = device_kernels,
    .match = braid_cl_match,
    .prepare = braid_cl_prepare,
    .discard = braid_cl_discard,
    .pack = braid_cl_pack,
    .buffer_create = braid_cl_buffer_create,
    .buffer_destroy = braid_cl_buffer_destroy,
    .buffer_map = braid_cl_buffer_map,
    .queue_create = braid_cl_queue_create,
    .queue_destroy = braid_cl_queue_destroy,
    .submit = braid_launch_queue_submit,
    .flush = braid_launch_queue_flush,
    .peer = device_peer,
    .set_host = device_set_host,
    .host_register = braid_cl_host_register,
    .host_unregister = braid_cl_host_unregister,
    .read_memory = braid_cl_read_memory,
    .read_power = braid_cl_read_power,
    .read_energy = braid_cl_read_energy,
    .status = braid_cl_device_status,
    .query = braid_cl_query_kernel,
    .brought = device_brought,
    .claim_regions = braid_cl_claim_chains,
    .query_region = braid_cl_query_chain,
};
