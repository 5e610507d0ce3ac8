/* CUDA devices: NVIDIA's cards, as cuda0, cuda1 ... in the driver's order.
 *
 *   api        the driver, loaded when the program runs       memory    buffers, arena, pinned memory
 *   compiler   NVRTC, the same                                program   kernel text, compiled and loaded
 *   options    what may follow a device's name                kernel    a node's recipe as launches
 *   queue      tasks as commands of a stream                  transfer  between the card and the host
 *   record     a plan's tasks as CUDA graphs                  bounce    small transfers by pinned memory
 *   blas, dnn  kernels that are cuBLASLt's and cuDNN's        tensor    products of bytes on tensor cores
 *   few_channels  first convolutions in 16 bits, the same
 *   nccl       sums over the cards of several processes       power     by NVML
 *   cupti      the library of the card's counters             counters  what a card counts while tasks run
 *
 * The other kernels are those of src/launch, their text in kernels/opencl behind kernels/cuda/prelude.cuh; the order
 * and the ending of tasks are launch/queue's. */
#include <stdio.h>
#include <string.h>

#include "backend/cuda/compiler.h"
#include "backend/cuda/counters.h"
#include "backend/cuda/few_channels.h"
#include "backend/cuda/kernel.h"
#include "backend/cuda/libraries.h"
#include "backend/cuda/memory.h"
#include "backend/cuda/nccl.h"
#include "backend/cuda/options.h"
#include "backend/cuda/power.h"
#include "backend/cuda/program.h"
#include "backend/cuda/queue.h"
#include "backend/cuda/record.h"
#include "backend/cuda/tensor.h"
#include "base/detail.h"
#include "base/try.h"
#include "launch/families.h"

/* --- what is there -------------------------------------------------------------------------------------------------
 */
static int attribute_of(const braid_cuda_api *cuda, braid_cuda_id id, int attribute) {
  int value = 0;
  (void)cuda->device_attribute(&value, attribute, id);
  return value;
}

static void describe_card(const braid_cuda_api *cuda, braid_cuda_id id, size_t index, braid_device_info *info) {
  size_t bytes = 0;
  char name[sizeof info->description] = "";
  (void)cuda->device_name(name, sizeof name, id);
  (void)cuda->device_memory(&bytes, id);
  *info = (braid_device_info){.kind = "gpu",
                              .memory = BRAID_MEMORY_SEPARATE,
                              .max_queues = 16,
                              .compute_units = (uint32_t)attribute_of(cuda, id, BRAID_CUDA_MULTIPROCESSORS),
                              .memory_bytes = bytes,
                              .alignment = BRAID_CUDA_ALIGNMENT,
                              .host_alignment = 64,
                              .measures_time = true};
  snprintf(info->name, sizeof info->name, "cuda%zu", index);
  snprintf(info->description, sizeof info->description, "%s", name[0] ? name : "CUDA device");
}

static braid_status find_device(const braid_cuda_api *cuda, size_t index, braid_cuda_id *out) {
  int count = 0;
  if (!cuda) return braid_fail(BRAID_NOT_FOUND, "%s", braid_cuda_missing());
  BRAID_CUDA_TRY(cuda->device_count(&count), "counting the cards");
  if (index >= (size_t)count) return braid_fail(BRAID_NOT_FOUND, "CUDA device %zu, there are %d", index, count);
  BRAID_CUDA_TRY(cuda->device_get(out, (int)index), "a card");
  return BRAID_OK;
}

static braid_status device_enumerate(braid_device_info *infos, size_t capacity, size_t *count) {
  const braid_cuda_api *cuda = braid_cuda_load();
  int there = 0;
  *count = 0;
  if (!cuda || cuda->device_count(&there)) return BRAID_OK;
  *count = (size_t)there;
  for (size_t i = 0; i < *count && i < capacity; i++) {
    braid_cuda_id id;
    BRAID_TRY(find_device(cuda, i, &id));
    describe_card(cuda, id, i, &infos[i]);
  }
  return BRAID_OK;
}

/* --- opening -------------------------------------------------------------------------------------------------------
 */
static void device_close(void *self) {
  braid_cuda_device *device = self;
  bool lost = braid_cuda_device_is_lost(device);
  if (device->context && !lost) {
    braid_cuda_enter(device);
    braid_cuda_nccl_close(device);
    braid_cuda_libraries_close(device);
    braid_cuda_programs_release(device);
    braid_cuda_memory_release(device);
    braid_cuda_leave(device);
    (void)device->cuda->context_release(device->id);
  }
  braid_cuda_counters_close(device);
  braid_nvml_close(device->card);
  pthread_mutex_destroy(&device->card_lock);
  pthread_mutex_destroy(&device->program_lock);
  pthread_cond_destroy(&device->program_built);
  pthread_mutex_destroy(&device->lock);
  pthread_mutex_destroy(&device->memory_lock);
  braid_free(device->allocator, device->kernels);
  braid_free(device->allocator, device);
}

/* Warpgroups multiply on Hopper alone, in code for this very generation, which compilers know since CUDA 12. */
static braid_launch_tensor tensor_of(int capability, const braid_cuda_options *options) {
  if (options->no_tensor || capability < 80) return BRAID_LAUNCH_TENSOR_NONE;
  return braid_cuda_compiler_knows_own(capability) && !options->warps_only ? BRAID_LAUNCH_TENSOR_WARPGROUPS
                                                                           : BRAID_LAUNCH_TENSOR_WARPS;
}

static void read_traits(braid_cuda_device *device, const braid_cuda_options *options) {
  const braid_cuda_api *cuda = device->cuda;
  braid_cuda_id id = device->id;
  size_t widest = (size_t)attribute_of(cuda, id, BRAID_CUDA_MAX_BLOCK_X);
  device->capability =
      10 * attribute_of(cuda, id, BRAID_CUDA_CAPABILITY_MAJOR) + attribute_of(cuda, id, BRAID_CUDA_CAPABILITY_MINOR);
  device->traits =
      (braid_launch_traits){.gpu = true,
                            .compute_units = (uint32_t)attribute_of(cuda, id, BRAID_CUDA_MULTIPROCESSORS),
                            .local_bytes = (size_t)attribute_of(cuda, id, BRAID_CUDA_SHARED_PER_BLOCK),
                            .local_is_real = true,
                            .max_group = (size_t)attribute_of(cuda, id, BRAID_CUDA_MAX_THREADS_PER_BLOCK),
                            .max_item = {widest, 1, 1},
                            .vector_width = 1,
                            .dot = device->capability >= 61 ? BRAID_LAUNCH_DOT_PTX : BRAID_LAUNCH_DOT_PLAIN,
                            .tensor = tensor_of(device->capability, options),
                            .clusters = attribute_of(cuda, id, BRAID_CUDA_CLUSTER_LAUNCH) != 0,
                            .local_most = (size_t)attribute_of(cuda, id, BRAID_CUDA_SHARED_PER_BLOCK_AT_MOST),
                            .aligned = true};
}

static void describe_software(braid_cuda_device *device) {
  braid_device_info *info = &device->info;
  int compiler = braid_cuda_compiler_version(), driver = device->cuda->version;
  char libraries[64];
  braid_cuda_libraries_describe(device, libraries, sizeof libraries);
  snprintf(info->software, sizeof info->software, "CUDA %d.%d, NVRTC %d.%d%s", driver / 1000, driver % 1000 / 10,
           compiler / 1000, compiler % 1000 / 10, libraries);
  if (braid_cuda_compiler_check(device->capability) != BRAID_OK) {
    snprintf(info->lacks, sizeof info->lacks, "without own kernels: %s", braid_error_detail());
    braid_clear_detail();
  }
}

static void set_cache(braid_cuda_device *device, const char *folder) {
  device->cache = device->own_cache[0] ? device->own_cache : folder;
  if (strcmp(device->own_cache, "off") == 0) device->cache = NULL;
}

static void device_set_host(void *self, const braid_log *log, const char *cache) {
  braid_cuda_device *device = self;
  device->log = log;
  set_cache(device, cache);
}

static braid_status init_device(braid_cuda_device *device, size_t index, const braid_cuda_options *options) {
  BRAID_TRY(find_device(device->cuda, index, &device->id));
  describe_card(device->cuda, device->id, index, &device->info);
  read_traits(device, options);
  braid_launch_tune(&device->traits, &options->knobs);
  device->deadline_ns = (int64_t)options->deadline_ms * 1000000;
  device->tf32 = options->tf32;
  device->all_libraries = options->all_libraries;
  device->arena_bytes = options->arena_bytes;
  if (options->arena_bytes) device->info.memory_bytes = options->arena_bytes;
  memcpy(device->own_cache, options->cache, sizeof device->own_cache);
  set_cache(device, NULL);
  BRAID_CUDA_TRY(device->cuda->context_retain(&device->context, device->id), "the card's context");
  if (!options->no_libraries) {
    braid_cuda_enter(device);
    braid_cuda_libraries_open(device);
    braid_cuda_leave(device);
  }
  describe_software(device);
  const braid_launch_family own[] = {braid_cuda_libraries_family(device), braid_cuda_nccl_family,
                                     braid_cuda_tensor_family, braid_cuda_few_channels_family};
  return braid_launch_list_kernels(device->allocator, "cuda_", own, sizeof own / sizeof *own, &device->kernels,
                                   &device->kernel_count);
}

static braid_status device_open(const braid_allocator *allocator, size_t index, const char *text, void **out) {
  *out = NULL;
  braid_cuda_options options;
  BRAID_TRY(braid_cuda_parse_options(text, &options));
  braid_cuda_device *device = braid_zalloc(allocator, sizeof *device);
  if (!device) return BRAID_NO_MEMORY;
  *device = (braid_cuda_device){.allocator = allocator, .cuda = braid_cuda_load()};
  pthread_mutex_init(&device->card_lock, NULL);
  pthread_mutex_init(&device->program_lock, NULL);
  pthread_cond_init(&device->program_built, NULL);
  pthread_mutex_init(&device->lock, NULL);
  pthread_mutex_init(&device->memory_lock, NULL);
  braid_status status = init_device(device, index, &options);
  if (status == BRAID_OK)
    *out = device;
  else
    device_close(device);
  return status;
}

/* --- the rest ------------------------------------------------------------------------------------------------------
 */
static void device_info(void *self, braid_device_info *out) {
  *out = ((braid_cuda_device *)self)->info;
}

static const braid_kernel *const *device_kernels(void *self, size_t *count) {
  const braid_cuda_device *device = self;
  *count = device->kernel_count;
  return device->kernels;
}

/* Devices of one card reach each other's memory. */
static bool device_peer(void *self, void *other) {
  return ((braid_cuda_device *)self)->id == ((braid_cuda_device *)other)->id;
}

braid_status braid_cuda_device_status(void *self) {
  const braid_cuda_device *device = self;
  if (!braid_cuda_device_is_lost(device)) return BRAID_OK;
  return braid_fail(BRAID_DEVICE_LOST, "%s is lost: a task failed on it or did not end", device->info.name);
}

void braid_cuda_device_lose(braid_cuda_device *device) {
  pthread_mutex_lock(&device->lock);
  for (braid_cuda_queue *queue = device->queues; queue; queue = queue->next) braid_cuda_bounce_abandon(queue);
  __atomic_store_n(&device->lost, 1, __ATOMIC_RELEASE);
  for (braid_cuda_queue *queue = device->queues; queue; queue = queue->next) braid_launch_queue_wake(&queue->base);
  pthread_mutex_unlock(&device->lock);
}

enum { kLingers = 6 }; /* steps: about two layers; 12 made a step of training in integers no faster */

const braid_backend braid_backend_cuda = {
    .abi = BRAID_DEVICE_ABI,
    .size = sizeof(braid_backend),
    .name = "cuda",
    .enumerate = device_enumerate,
    .open = device_open,
    .close = device_close,
    .info = device_info,
    .kernels = device_kernels,
    .match = braid_cuda_match,
    .prepare = braid_cuda_prepare,
    .discard = braid_cuda_discard,
    .concurrent_prepare = true,
    .shares_prepared = true,
    .buffer_create = braid_cuda_buffer_create,
    .buffer_destroy = braid_cuda_buffer_destroy,
    .queue_create = braid_cuda_queue_create,
    .queue_destroy = braid_cuda_queue_destroy,
    .submit = braid_cuda_queue_submit,
    .flush = braid_launch_queue_flush,
    .record = braid_cuda_record,
    .erase = braid_cuda_erase,
    .replay = braid_cuda_replay,
    .peer = device_peer,
    .set_host = device_set_host,
    .set_group = braid_cuda_set_group,
    .host_register = braid_cuda_host_register,
    .host_unregister = braid_cuda_host_unregister,
    .read_memory = braid_cuda_read_memory,
    .read_power = braid_cuda_read_power,
    .read_energy = braid_cuda_read_energy,
    .status = braid_cuda_device_status,
    .query = braid_cuda_query_kernel,
    .absence = braid_cuda_missing,
    .count = braid_cuda_count,
    .lingers = kLingers,
};
