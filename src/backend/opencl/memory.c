#include "backend/opencl/memory.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/try.h"

static const uint64_t kArenaShare = 16; /* of the device's memory: what the arena takes unless an option says */
static const size_t kHugePage = (size_t)2 << 20;

/* --- the card's memory ---------------------------------------------------------------------------------------------
 */
/* Drivers put off getting memory until it is used; a card that is full must say so now. */
static cl_int commit_memory(const braid_cl_device *device, cl_mem memory) {
  const braid_cl_api *cl = device->cl;
  cl_int code;
  cl_command_queue queue = cl->CreateCommandQueue(device->shared->context, device->id, 0, &code);
  if (!queue) return code;
  code = cl->EnqueueMigrateMemObjects(queue, 1, &memory, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL, NULL);
  if (code == CL_SUCCESS) code = cl->Finish(queue);
  cl->ReleaseCommandQueue(queue);
  return code;
}

static cl_mem create_committed(const braid_cl_device *device, size_t bytes, cl_int *code) {
  cl_mem memory = device->cl->CreateBuffer(device->shared->context, CL_MEM_READ_WRITE, bytes, NULL, code);
  if (!memory) return NULL;
  *code = commit_memory(device, memory);
  if (*code == CL_SUCCESS) return memory;
  device->cl->ReleaseMemObject(memory);
  return NULL;
}

/* The arena, at the first buffer. A device that cannot give it does without, unless it was asked for. */
static braid_status ensure_arena(const braid_cl_device *device) {
  braid_cl_context *shared = device->shared;
  if (shared->arena_tried) return BRAID_OK;
  uint64_t asked = shared->share.arena_bytes, bytes = asked ? asked : shared->memory_bytes / kArenaShare;
  if (asked > shared->most_bytes)
    return braid_fail(BRAID_NO_MEMORY, "arena=%" PRIu64 " asked for, the device gives at most %" PRIu64 " in one piece",
                      asked, shared->most_bytes);
  if (bytes > shared->most_bytes) bytes = shared->most_bytes;
  bytes &= ~(uint64_t)(shared->alignment - 1);
  cl_int code = CL_SUCCESS;
  shared->arena = bytes ? create_committed(device, (size_t)bytes, &code) : NULL;
  if (!shared->arena && asked) return braid_cl_fail(code, "the arena");
  braid_status status = BRAID_OK;
  if (shared->arena) status = braid_pool_create(NULL, (size_t)bytes, shared->alignment, &shared->pool);
  if (status == BRAID_OK) {
    shared->arena_tried = true;
  } else {
    device->cl->ReleaseMemObject(shared->arena);
    shared->arena = NULL;
  }
  return status;
}

static uint64_t free_beside_arena(const braid_cl_context *shared) {
  uint64_t arena = shared->pool ? braid_pool_get_stats(shared->pool).bytes : 0;
  uint64_t used = arena + shared->plain_bytes;
  return used < shared->memory_bytes ? shared->memory_bytes - used : 0;
}

/* What the arena has no room for. */
static braid_status create_beside(const braid_cl_device *device, braid_cl_buffer *buffer) {
  braid_cl_context *shared = device->shared;
  braid_pool_stats stats = shared->pool ? braid_pool_get_stats(shared->pool) : (braid_pool_stats){0};
  uint64_t beside = free_beside_arena(shared), left = beside + stats.bytes - stats.in_use;
  uint64_t piece = beside < shared->most_bytes ? beside : shared->most_bytes;
  if (stats.largest_free > piece) piece = stats.largest_free;
  cl_int code = CL_SUCCESS;
  if (buffer->bytes <= beside && buffer->bytes <= shared->most_bytes)
    buffer->memory = create_committed(device, buffer->bytes ? buffer->bytes : 1, &code);
  if (buffer->memory) {
    shared->plain_bytes += buffer->bytes;
    return BRAID_OK;
  }
  char scratch[32];
  return braid_fail(BRAID_NO_MEMORY,
                    "%zu bytes requested, %" PRIu64 " of %" PRIu64 " free, the largest range has %" PRIu64 "%s%s",
                    buffer->bytes, left, shared->memory_bytes, piece, code ? "; the driver says " : "",
                    code ? braid_cl_error_name(code, scratch) : "");
}

static braid_status create_on_card(const braid_cl_device *device, braid_cl_buffer *buffer) {
  braid_cl_context *shared = device->shared;
  braid_status status = ensure_arena(device);
  if (status != BRAID_OK) return status;
  if (shared->pool) {
    status = braid_pool_allocate(shared->pool, buffer->bytes, shared->alignment, &buffer->block);
    if (buffer->block) {
      buffer->memory = shared->arena;
      buffer->offset = braid_pool_offset(buffer->block);
      return BRAID_OK;
    }
    if (shared->share.arena_bytes) return status;
  }
  return create_beside(device, buffer);
}

/* --- memory shared with the host -----------------------------------------------------------------------------------
 * From the C library's heap, since what hangs may yet write there when the device's allocator is gone. Large buffers
 * are asked for in huge pages, as the CPU's are. One that is too large to be one object of the driver is none: operands
 * in it become objects of their own. */
static braid_status create_on_host(const braid_cl_device *device, braid_cl_buffer *buffer) {
  braid_cl_context *shared = device->shared;
  const braid_allocator *heap = braid_allocator_default();
  size_t bytes = buffer->bytes ? buffer->bytes : 1;
  bool large = bytes >= 2 * kHugePage;
  if (bytes > shared->memory_bytes)
    return braid_fail(BRAID_NO_MEMORY, "%zu bytes requested, the device has %" PRIu64, bytes, shared->memory_bytes);
  buffer->host = heap->allocate(heap->context, bytes, large ? kHugePage : shared->alignment);
  if (!buffer->host) return braid_fail(BRAID_NO_MEMORY, "%zu bytes requested", bytes);
  if (large) (void)madvise(buffer->host, bytes & ~(kHugePage - 1), MADV_HUGEPAGE); /* a wish; small pages work too */
  if (bytes > shared->most_bytes) return BRAID_OK;
  cl_int code;
  buffer->memory =
      device->cl->CreateBuffer(shared->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, buffer->host, &code);
  if (!buffer->memory) {
    braid_free(NULL, buffer->host);
    return braid_cl_fail(code, "a buffer in host memory");
  }
  buffer->next = shared->buffers;
  shared->buffers = buffer;
  return BRAID_OK;
}

/* --- parts of a card's memory --------------------------------------------------------------------------------------
 * Operands are parts of the arena or of a buffer. Each is made once, kept as long as what it is a part of, and then
 * released newest first: the driver of NVIDIA (580.159) crashes when parts that kernels used are released in another
 * order while their parent was written. */
struct braid_cl_part {
  cl_mem parent, memory;
  size_t start, bytes;
  braid_cl_part *next;
};

static void release_parts(braid_cl_context *shared, cl_mem parent) {
  for (braid_cl_part **link = &shared->parts_of_memory; *link;) {
    braid_cl_part *part = *link;
    if (part->parent != parent) {
      link = &part->next;
      continue;
    }
    *link = part->next;
    braid_cl_context_drop(shared, BRAID_CL_OBJECT_MEMORY, part->memory);
    braid_free(NULL, part);
  }
}

static cl_mem make_part(const braid_cl_device *device, cl_mem parent, size_t start, size_t bytes, cl_int *code) {
  braid_cl_context *shared = device->shared;
  braid_cl_part *part = shared->parts_of_memory;
  while (part && (part->parent != parent || part->start != start || part->bytes != bytes)) part = part->next;
  if (!part) {
    part = braid_zalloc(NULL, sizeof *part);
    *code = CL_OUT_OF_HOST_MEMORY;
    cl_buffer_region region = {start, bytes};
    cl_mem memory = part ? device->cl->CreateSubBuffer(parent, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, code) : NULL;
    if (!memory) {
      braid_free(NULL, part);
      return NULL;
    }
    *part = (braid_cl_part){parent, memory, start, bytes, shared->parts_of_memory};
    shared->parts_of_memory = part;
  }
  device->cl->RetainMemObject(part->memory);
  return part->memory;
}

static void release_memory(braid_cl_context *shared, cl_mem memory) {
  release_parts(shared, memory);
  braid_cl_context_drop(shared, BRAID_CL_OBJECT_MEMORY, memory);
}

/* --- buffers -------------------------------------------------------------------------------------------------------
 */
braid_status braid_cl_buffer_create(void *self, size_t bytes, void **out) {
  braid_cl_device *device = self;
  *out = NULL;
  BRAID_TRY(braid_cl_device_status(device));
  braid_cl_buffer *buffer = braid_zalloc(device->allocator, sizeof *buffer);
  if (!buffer) return BRAID_NO_MEMORY;
  buffer->bytes = bytes;
  pthread_mutex_lock(&device->shared->lock);
  buffer->serial = ++device->shared->next_serial;
  braid_status status =
      device->info.memory == BRAID_MEMORY_UNIFIED ? create_on_host(device, buffer) : create_on_card(device, buffer);
  pthread_mutex_unlock(&device->shared->lock);
  if (status == BRAID_OK)
    *out = buffer;
  else
    braid_free(device->allocator, buffer);
  return status;
}

static void forget_host_buffer(braid_cl_context *shared, const braid_cl_buffer *buffer) {
  braid_cl_buffer **link = &shared->buffers;
  while (*link != buffer) link = &(*link)->next;
  *link = buffer->next;
}

void braid_cl_buffer_destroy(void *self, void *which) {
  braid_cl_device *device = self;
  braid_cl_context *shared = device->shared;
  braid_cl_buffer *buffer = which;
  pthread_mutex_lock(&shared->lock);
  if (buffer->host && buffer->memory) forget_host_buffer(shared, buffer);
  if (buffer->block)
    braid_pool_release(shared->pool, buffer->block);
  else if (buffer->memory)
    release_memory(shared, buffer->memory);
  if (!buffer->block && !buffer->host) shared->plain_bytes -= buffer->bytes;
  pthread_mutex_unlock(&shared->lock);
  if (buffer->host) braid_cl_context_drop(shared, BRAID_CL_OBJECT_HOST, buffer->host);
  braid_free(device->allocator, buffer);
}

void *braid_cl_buffer_map(void *self, void *buffer) {
  (void)self;
  return ((braid_cl_buffer *)buffer)->host;
}

braid_status braid_cl_read_memory(void *self, uint64_t *out_free, uint64_t *out_total) {
  braid_cl_device *device = self;
  braid_cl_context *shared = device->shared;
  if (device->info.memory == BRAID_MEMORY_UNIFIED)
    return braid_fail(BRAID_UNSUPPORTED, "the device's memory is the host's");
  BRAID_TRY(braid_cl_device_status(device));
  pthread_mutex_lock(&shared->lock);
  braid_status status = ensure_arena(device);
  if (status == BRAID_OK) {
    braid_pool_stats stats = shared->pool ? braid_pool_get_stats(shared->pool) : (braid_pool_stats){0};
    bool limited = shared->share.arena_bytes != 0;
    *out_total = limited ? stats.bytes : shared->memory_bytes;
    *out_free = stats.bytes - stats.in_use + (limited ? 0 : free_beside_arena(shared));
  }
  pthread_mutex_unlock(&shared->lock);
  return status;
}

void braid_cl_memory_release(braid_cl_context *context) {
  release_parts(context, context->arena);
  if (context->arena) context->cl->ReleaseMemObject(context->arena);
  braid_pool_destroy(context->pool);
}

/* --- operands ------------------------------------------------------------------------------------------------------
 */
/* A binding as the driver sees it: `bytes` from `offset` of `memory`, which the caller releases if `owned`. */
typedef struct location {
  cl_mem memory;
  size_t offset, bytes;
  bool owned;
} location;

/* The buffer of this context that the host address lies in; NULL: memory of somebody else. */
static const braid_cl_buffer *buffer_at(const braid_cl_context *shared, const uint8_t *host, size_t bytes) {
  for (const braid_cl_buffer *buffer = shared->buffers; buffer; buffer = buffer->next)
    if (host >= buffer->host && host + bytes <= buffer->host + buffer->bytes) return buffer;
  return NULL;
}

static braid_status locate_host(const braid_cl_device *device, const braid_binding *binding, location *out) {
  braid_cl_context *shared = device->shared;
  if (device->info.memory != BRAID_MEMORY_UNIFIED)
    return braid_fail(BRAID_INVALID_ARGUMENT, "an operand in host memory, which this device does not reach");
  pthread_mutex_lock(&shared->lock);
  const braid_cl_buffer *buffer = buffer_at(shared, binding->host, binding->bytes);
  if (buffer)
    *out = (location){
        .memory = buffer->memory, .offset = (size_t)((uint8_t *)binding->host - buffer->host), .bytes = binding->bytes};
  pthread_mutex_unlock(&shared->lock);
  if (buffer) return BRAID_OK;
  cl_int code;
  *out = (location){.bytes = binding->bytes, .owned = true};
  out->memory = device->cl->CreateBuffer(shared->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, binding->bytes,
                                         binding->host, &code);
  return out->memory ? BRAID_OK : braid_cl_fail(code, "an operand in host memory");
}

static braid_status locate_operand(const braid_cl_device *device, const braid_binding *binding, location *out) {
  *out = (location){0};
  if (binding->host) return locate_host(device, binding, out);
  const braid_cl_buffer *buffer = binding->buffer;
  size_t end;
  if (!buffer || !braid_add_size(binding->offset, binding->bytes, &end) || end > buffer->bytes)
    return braid_fail(BRAID_OUT_OF_RANGE, "%zu bytes at %zu lie outside their buffer of %zu", binding->bytes,
                      binding->offset, buffer ? buffer->bytes : 0);
  if (!buffer->memory)
    return locate_host(device, &(braid_binding){.host = buffer->host + binding->offset, .bytes = binding->bytes}, out);
  *out = (location){buffer->memory, buffer->offset + binding->offset, binding->bytes, false};
  return BRAID_OK;
}

braid_status braid_cl_view(const braid_cl_device *device, const braid_binding *binding, cl_mem *out) {
  *out = NULL;
  location found;
  braid_status status = locate_operand(device, binding, &found);
  if (status != BRAID_OK) return status;
  if (found.owned) {
    *out = found.memory;
    return BRAID_OK;
  }
  cl_int code = CL_SUCCESS;
  if (device->info.memory == BRAID_MEMORY_UNIFIED) {
    cl_buffer_region region = {found.offset, found.bytes};
    *out = device->cl->CreateSubBuffer(found.memory, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
  } else {
    pthread_mutex_lock(&device->shared->lock);
    *out = make_part(device, found.memory, found.offset, found.bytes, &code);
    pthread_mutex_unlock(&device->shared->lock);
  }
  return *out ? BRAID_OK : braid_cl_fail(code, "an operand's place in its buffer");
}

/* --- transfers -----------------------------------------------------------------------------------------------------
 */
static cl_int enqueue_copy(const braid_cl_api *cl, cl_command_queue queue, const braid_task *task, const location *from,
                           const location *to, const cl_event *waits, cl_uint count, cl_event *done) {
  if (task->kind == BRAID_TASK_WRITE)
    return cl->EnqueueWriteBuffer(queue, to->memory, CL_FALSE, to->offset, to->bytes, task->host, count, waits, done);
  if (task->kind == BRAID_TASK_READ)
    return cl->EnqueueReadBuffer(queue, from->memory, CL_FALSE, from->offset, from->bytes, task->host, count, waits,
                                 done);
  if (from->memory == to->memory && from->offset == to->offset)
    return cl->EnqueueMarkerWithWaitList(queue, count, waits, done);
  return cl->EnqueueCopyBuffer(queue, from->memory, to->memory, from->offset, to->offset, from->bytes, count, waits,
                               done);
}

braid_status braid_cl_transfer(const braid_cl_device *device, const braid_task *task, cl_command_queue queue,
                               const cl_event *waits, cl_uint count, cl_event *done) {
  bool reads = task->kind != BRAID_TASK_WRITE, writes = task->kind != BRAID_TASK_READ;
  location from = {0}, to = {0};
  const braid_cl_device *source = task->kind == BRAID_TASK_COPY && task->source_device ? task->source_device : device;
  size_t bytes = reads ? task->source.bytes : task->target.bytes;
  if (!bytes) return BRAID_OK;
  if (source->shared != device->shared)
    return braid_fail(BRAID_UNSUPPORTED, "a copy from %s, which shares no memory with %s", source->info.name,
                      device->info.name);
  braid_status status = reads ? locate_operand(source, &task->source, &from) : BRAID_OK;
  if (status == BRAID_OK && writes) status = locate_operand(device, &task->target, &to);
  if (status == BRAID_OK && reads && writes && to.bytes < from.bytes)
    status = braid_fail(BRAID_OUT_OF_RANGE, "a copy of %zu bytes into %zu", from.bytes, to.bytes);
  if (status == BRAID_OK) {
    cl_int code = enqueue_copy(device->cl, queue, task, &from, &to, waits, count, done);
    if (code != CL_SUCCESS) status = braid_cl_fail(code, "enqueueing a transfer");
  }
  if (from.owned) device->cl->ReleaseMemObject(from.memory);
  if (to.owned) device->cl->ReleaseMemObject(to.memory);
  return status;
}

/* --- is memory shared? ---------------------------------------------------------------------------------------------
 */
/* The device's writes are seen by the host, and the host's by the device, with nothing but the end of commands between
 * them. The place is no better aligned than those of real operands. */
static bool try_sharing(const braid_cl_device *device, cl_command_queue queue, uint8_t *host, cl_mem memory,
                        size_t bytes) {
  const braid_cl_api *cl = device->cl;
  uint8_t pattern = 0x5a, back[64] = {0};
  memset(host, 0, bytes);
  if (cl->EnqueueFillBuffer(queue, memory, &pattern, 1, 0, bytes, 0, NULL, NULL) != CL_SUCCESS) return false;
  if (cl->Finish(queue) != CL_SUCCESS) return false;
  for (size_t i = 0; i < bytes; i++)
    if (__atomic_load_n(&host[i], __ATOMIC_RELAXED) != pattern) return false;
  for (size_t i = 0; i < bytes; i++) __atomic_store_n(&host[i], (uint8_t)(i * 7), __ATOMIC_RELAXED);
  if (cl->EnqueueReadBuffer(queue, memory, CL_TRUE, bytes - sizeof back, sizeof back, back, 0, NULL, NULL) !=
      CL_SUCCESS)
    return false;
  return memcmp(back, host + bytes - sizeof back, sizeof back) == 0;
}

bool braid_cl_shares_host_memory(const braid_cl_device *device) {
  enum { kBytes = 8192, kOffset = 64 };
  const braid_cl_api *cl = device->cl;
  if (!braid_cl_query(device->id, CL_DEVICE_HOST_UNIFIED_MEMORY)) return false;
  uint8_t *host = braid_alloc(NULL, kBytes + kOffset);
  if (!host) return false;
  bool shared = false;
  cl_int code;
  cl_command_queue queue = cl->CreateCommandQueue(device->shared->context, device->id, 0, &code);
  cl_mem memory =
      cl->CreateBuffer(device->shared->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, kBytes, host + kOffset, &code);
  if (queue && memory) shared = try_sharing(device, queue, host + kOffset, memory, kBytes);
  if (memory) cl->ReleaseMemObject(memory);
  if (queue) cl->ReleaseCommandQueue(queue);
  braid_free(NULL, host);
  return shared;
}
