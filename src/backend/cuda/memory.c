#include "backend/cuda/memory.h"

#include <inttypes.h>

#include "base/checked.h"
#include "base/try.h"

static const uint64_t kArenaShare = 16; /* of the card's memory: what the arena takes unless an option says */

/* --- memory --------------------------------------------------------------------------------------------------------
 */
/* The arena, at the first buffer. A card that cannot give it does without, unless it was asked for. */
static braid_status ensure_arena(braid_cuda_device *device) {
  if (device->arena_tried) return BRAID_OK;
  uint64_t bytes = device->arena_bytes ? device->arena_bytes : device->info.memory_bytes / kArenaShare;
  bytes &= ~(uint64_t)(BRAID_CUDA_ALIGNMENT - 1);
  braid_cuda_result code = device->cuda->memory_allocate(&device->arena, (size_t)bytes);
  if (code) device->arena = 0;
  if (code && (device->arena_bytes || code != BRAID_CUDA_OUT_OF_MEMORY)) return braid_cuda_fail(code, "the arena");
  braid_status status = BRAID_OK;
  if (device->arena) status = braid_pool_create(NULL, (size_t)bytes, BRAID_CUDA_ALIGNMENT, &device->pool);
  if (status == BRAID_OK) {
    device->arena_tried = true;
  } else {
    (void)device->cuda->memory_free(device->arena);
    device->arena = 0;
  }
  return status;
}

static braid_status free_on_card(const braid_cuda_device *device, size_t *bytes) {
  size_t total;
  *bytes = 0;
  BRAID_CUDA_TRY(device->cuda->memory_info(bytes, &total), "the free memory of the card");
  return BRAID_OK;
}

/* What the arena has no room for. */
static braid_status create_beside(braid_cuda_device *device, braid_cuda_buffer *buffer) {
  braid_cuda_result code = BRAID_CUDA_OUT_OF_MEMORY;
  size_t beside;
  BRAID_TRY(free_on_card(device, &beside)); /* the driver would look for long before it says no */
  if (buffer->bytes <= beside)
    code = device->cuda->memory_allocate(&buffer->address, buffer->bytes ? buffer->bytes : 1);
  if (!code) return BRAID_OK;
  if (code != BRAID_CUDA_OUT_OF_MEMORY) return braid_cuda_fail(code, "memory of the card");
  braid_pool_stats stats = device->pool ? braid_pool_get_stats(device->pool) : (braid_pool_stats){0};
  size_t largest = stats.largest_free > beside ? stats.largest_free : beside;
  return braid_fail(BRAID_NO_MEMORY, "%zu bytes requested, %" PRIu64 " of %" PRIu64 " free, the largest range has %zu",
                    buffer->bytes, (uint64_t)beside + stats.bytes - stats.in_use, device->info.memory_bytes, largest);
}

static braid_status create_on_card(braid_cuda_device *device, braid_cuda_buffer *buffer) {
  BRAID_TRY(ensure_arena(device));
  if (device->pool) {
    braid_status status = braid_pool_allocate(device->pool, buffer->bytes, BRAID_CUDA_ALIGNMENT, &buffer->block);
    if (buffer->block) {
      buffer->address = device->arena + braid_pool_offset(buffer->block);
      return BRAID_OK;
    }
    if (device->arena_bytes) return status;
  }
  return create_beside(device, buffer);
}

braid_status braid_cuda_buffer_create(void *self, size_t bytes, void **out) {
  braid_cuda_device *device = self;
  *out = NULL;
  BRAID_TRY(braid_cuda_device_status(device));
  braid_cuda_buffer *buffer = braid_zalloc(device->allocator, sizeof *buffer);
  if (!buffer) return BRAID_NO_MEMORY;
  buffer->bytes = bytes;
  pthread_mutex_lock(&device->memory_lock);
  braid_cuda_enter(device);
  braid_status status = create_on_card(device, buffer);
  braid_cuda_leave(device);
  pthread_mutex_unlock(&device->memory_lock);
  if (status == BRAID_DEVICE_LOST) braid_cuda_device_lose(device);
  if (status == BRAID_OK)
    *out = buffer;
  else
    braid_free(device->allocator, buffer);
  return status;
}

/* Before it frees memory the driver waits for what runs, which on a lost card may never end: that memory stays. */
void braid_cuda_buffer_destroy(void *self, void *which) {
  braid_cuda_device *device = self;
  braid_cuda_buffer *buffer = which;
  if (buffer->block) {
    pthread_mutex_lock(&device->memory_lock);
    braid_pool_release(device->pool, buffer->block);
    pthread_mutex_unlock(&device->memory_lock);
  } else if (!braid_cuda_device_is_lost(device)) {
    braid_cuda_enter(device);
    (void)device->cuda->memory_free(buffer->address);
    braid_cuda_leave(device);
  }
  braid_free(device->allocator, buffer);
}

braid_status braid_cuda_read_memory(void *self, uint64_t *out_free, uint64_t *out_total) {
  braid_cuda_device *device = self;
  BRAID_TRY(braid_cuda_device_status(device));
  pthread_mutex_lock(&device->memory_lock);
  braid_cuda_enter(device);
  braid_status status = ensure_arena(device);
  if (status == BRAID_OK) {
    braid_pool_stats stats = device->pool ? braid_pool_get_stats(device->pool) : (braid_pool_stats){0};
    bool limited = device->arena_bytes != 0;
    size_t beside = 0;
    if (!limited) status = free_on_card(device, &beside);
    *out_total = limited ? stats.bytes : device->info.memory_bytes;
    *out_free = stats.bytes - stats.in_use + beside;
  }
  braid_cuda_leave(device);
  pthread_mutex_unlock(&device->memory_lock);
  return status;
}

void braid_cuda_memory_release(braid_cuda_device *device) {
  if (device->arena) (void)device->cuda->memory_free(device->arena);
  braid_pool_destroy(device->pool);
}

/* --- pinned memory of the host -------------------------------------------------------------------------------------
 */
struct braid_cuda_pin {
  bool owned; /* it is not pinned by somebody else */
  void *host;
  size_t bytes;
  braid_cuda_pin *next;
};

/* Somebody else has pinned a part of it, or all of it? Copies of what is pinned in part fail. */
static bool is_pinned_whole(const braid_cuda_device *device, void *host, size_t bytes) {
  braid_cuda_address start = 0, from = (braid_cuda_address)(uintptr_t)host;
  size_t size = 0;
  return !device->cuda->pointer_attribute(&start, BRAID_CUDA_RANGE_START, from) &&
         !device->cuda->pointer_attribute(&size, BRAID_CUDA_RANGE_BYTES, from) && start <= from &&
         from + bytes <= start + size;
}

/* Memory that cannot be pinned is copied like any other: slower, and no failure. */
braid_status braid_cuda_host_register(void *self, void *host, size_t bytes) {
  braid_cuda_device *device = self;
  if (bytes < BRAID_CUDA_LEAST_PINNED || braid_cuda_device_is_lost(device)) return BRAID_OK;
  braid_cuda_pin *pin = braid_zalloc(device->allocator, sizeof *pin);
  if (!pin) return BRAID_NO_MEMORY;
  pin->host = host;
  pin->bytes = bytes;
  braid_cuda_enter(device);
  braid_cuda_result code = device->cuda->host_register(host, bytes, BRAID_CUDA_HOST_PORTABLE);
  bool pinned = !code || (code == BRAID_CUDA_ALREADY_REGISTERED && is_pinned_whole(device, host, bytes));
  braid_cuda_leave(device);
  if (!pinned) {
    braid_free(device->allocator, pin);
    return BRAID_OK;
  }
  pin->owned = !code;
  pthread_mutex_lock(&device->lock);
  pin->next = device->pins;
  device->pins = pin;
  pthread_mutex_unlock(&device->lock);
  return BRAID_OK;
}

void braid_cuda_host_unregister(void *self, void *host) {
  braid_cuda_device *device = self;
  pthread_mutex_lock(&device->lock);
  braid_cuda_pin **link = &device->pins;
  while (*link && (*link)->host != host) link = &(*link)->next;
  braid_cuda_pin *pin = *link;
  if (pin) *link = pin->next;
  pthread_mutex_unlock(&device->lock);
  if (!pin) return;
  if (pin->owned && !braid_cuda_device_is_lost(device)) {
    braid_cuda_enter(device);
    (void)device->cuda->host_unregister(host);
    braid_cuda_leave(device);
  }
  braid_free(device->allocator, pin);
}

bool braid_cuda_is_pinned(braid_cuda_device *device, const void *host, size_t bytes) {
  const char *from = host;
  bool found = false;
  pthread_mutex_lock(&device->lock);
  for (const braid_cuda_pin *pin = device->pins; pin && !found; pin = pin->next)
    found = from >= (char *)pin->host && from + bytes <= (char *)pin->host + pin->bytes;
  pthread_mutex_unlock(&device->lock);
  return found;
}

/* --- operands ------------------------------------------------------------------------------------------------------
 */
braid_status braid_cuda_locate(const braid_binding *binding, braid_cuda_address *out) {
  *out = 0;
  if (binding->host)
    return braid_fail(BRAID_INVALID_ARGUMENT, "an operand in host memory, which this device does not reach");
  const braid_cuda_buffer *buffer = binding->buffer;
  size_t end;
  if (!buffer && !binding->bytes) return BRAID_OK;
  if (!buffer || !braid_add_size(binding->offset, binding->bytes, &end) || end > buffer->bytes)
    return braid_fail(BRAID_OUT_OF_RANGE, "%zu bytes at %zu lie outside their buffer of %zu", binding->bytes,
                      binding->offset, buffer ? buffer->bytes : 0);
  *out = buffer->address + binding->offset;
  return BRAID_OK;
}
