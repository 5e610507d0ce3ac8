#include "runtime/surface/buffer.h"

#include <string.h>

#include "base/checked.h"
#include "base/invariant.h"
#include "base/try.h"

/* --- memory --------------------------------------------------------------------------------------------------------
 */
static braid_status memory_make(braid_machine *machine, int space, braid_buffer_memory **out) {
  braid_buffer_memory *memory = *out = braid_zalloc(machine->allocator, sizeof *memory);
  if (!memory) return BRAID_NO_MEMORY;
  *memory = (braid_buffer_memory){.references = 1, .machine = braid_machine_retain(machine), .space = space};
  pthread_mutex_init(&memory->lock, NULL);
  braid_sync_task_init(&memory->sync_task, machine);
  return BRAID_OK;
}

static void memory_release(braid_buffer_memory *memory) {
  if (!memory || !braid_references_drop(&memory->references)) return;
  if (braid_sync_task_settle(&memory->sync_task, -1) != BRAID_OK) {
    braid_log_write(memory->machine->log, BRAID_LOG_WARNING,
                    "a lost device holds on to a transfer: its memory is left to it");
    return;
  }
  braid_machine *machine = memory->machine;
  braid_machine_free(machine, &memory->memory);
  if (memory->release) memory->release(memory->context);
  braid_sync_task_deinit(&memory->sync_task);
  pthread_mutex_destroy(&memory->lock);
  braid_free(machine->allocator, memory);
  braid_machine_release(machine);
}

/* Takes over the reference to `memory`, also on failure. */
static braid_status buffer_make(braid_buffer_memory *memory, const braid_desc *desc, size_t offset,
                                braid_buffer **out) {
  braid_buffer *buffer = *out = braid_zalloc(memory->machine->allocator, sizeof *buffer);
  if (!buffer) {
    memory_release(memory);
    return BRAID_NO_MEMORY;
  }
  *buffer = (braid_buffer){
      .references = 1, .memory = memory, .desc = *desc, .offset = offset, .bytes = braid_desc_bytes(desc)};
  return BRAID_OK;
}

static braid_status check_desc(const braid_desc *desc) {
  braid_desc checked;
  BRAID_TRY(braid_desc_init(&checked, desc->dtype, desc->rank, desc->dims));
  if (desc->layout == BRAID_LAYOUT_PLAIN) return BRAID_OK;
  char layout[BRAID_LAYOUT_TEXT];
  return braid_fail(BRAID_UNSUPPORTED, "a buffer in layout %s, expected plain",
                    braid_layout_format(desc->layout, desc->rank, layout, sizeof layout));
}

/* --- buffers -------------------------------------------------------------------------------------------------------
 */
braid_status braid_buffer_create(braid_machine *machine, const char *device, const braid_desc *desc,
                                 braid_buffer **out) {
  int index = -1;
  braid_buffer_memory *memory;
  *out = NULL;
  BRAID_TRY(check_desc(desc));
  if (device) BRAID_TRY(braid_machine_find(machine, device, &index));
  int space = index < 0 ? kHostSpace : machine->devices[index].space;
  size_t bytes = braid_desc_bytes(desc);
  BRAID_TRY(memory_make(machine, space, &memory));
  braid_status status = braid_machine_allocate(machine, space, bytes ? bytes : 1, &memory->memory);
  if (status == BRAID_OK) return buffer_make(memory, desc, 0, out);
  memory_release(memory);
  return braid_fail_prefix(status, "a buffer of %zu bytes on %s", bytes, device ? device : "the host");
}

braid_status braid_buffer_adopt(braid_machine *machine, const braid_desc *desc, void *data, bool read_only,
                                void (*release)(void *context), void *context, braid_buffer **out) {
  braid_buffer_memory *memory;
  *out = NULL;
  BRAID_TRY(check_desc(desc));
  if (!data && braid_desc_bytes(desc))
    return braid_fail(BRAID_INVALID_ARGUMENT, "a buffer of %zu bytes without memory", braid_desc_bytes(desc));
  BRAID_TRY(memory_make(machine, kHostSpace, &memory));
  static uint8_t kNothing; /* for buffers of no bytes, which have an address too */
  memory->memory.host = data ? data : &kNothing;
  memory->read_only = read_only;
  BRAID_TRY(buffer_make(memory, desc, 0, out));
  memory->release = release;
  memory->context = context;
  return BRAID_OK;
}

braid_status braid_buffer_wrap(braid_machine *machine, const braid_desc *desc, void *data,
                               void (*release)(void *context), void *context, braid_buffer **out) {
  return braid_buffer_adopt(machine, desc, data, false, release, context, out);
}

braid_status braid_buffer_view(braid_buffer *buffer, size_t offset, const braid_desc *desc, braid_buffer **out) {
  *out = NULL;
  BRAID_TRY(check_desc(desc));
  const braid_machine_device *owner = buffer->memory->memory.owner;
  size_t end, bytes = braid_desc_bytes(desc), unit = braid_dtype_size(desc->dtype);
  if (!buffer->memory->memory.host && owner->info->alignment > unit) unit = owner->info->alignment;
  if (!braid_add_size(offset, bytes, &end) || end > buffer->bytes)
    return braid_fail(BRAID_OUT_OF_RANGE, "a view of %zu bytes at offset %zu of a buffer of %zu", bytes, offset,
                      buffer->bytes);
  if ((buffer->offset + offset) % unit)
    return braid_fail(BRAID_INVALID_ARGUMENT, "a view at offset %zu, expected a multiple of %zu",
                      buffer->offset + offset, unit);
  braid_references_add(&buffer->memory->references);
  return buffer_make(buffer->memory, desc, buffer->offset + offset, out);
}

braid_buffer *braid_buffer_retain(braid_buffer *buffer) {
  braid_references_add(&buffer->references);
  return buffer;
}

void braid_buffer_release(braid_buffer *buffer) {
  if (!buffer || !braid_references_drop(&buffer->references)) return;
  braid_buffer_memory *memory = buffer->memory;
  braid_free(memory->machine->allocator, buffer);
  memory_release(memory);
}

const braid_desc *braid_buffer_desc(const braid_buffer *buffer) {
  return &buffer->desc;
}

const char *braid_buffer_device(const braid_buffer *buffer) {
  const braid_buffer_memory *memory = buffer->memory;
  return memory->space == kHostSpace ? "host" : memory->memory.owner->label;
}

void *braid_buffer_host(const braid_buffer *buffer) {
  return braid_buffer_binding(buffer).host;
}

braid_binding braid_buffer_binding(const braid_buffer *buffer) {
  const braid_memory *memory = &buffer->memory->memory;
  if (memory->host) return (braid_binding){.host = memory->host + buffer->offset, .bytes = buffer->bytes};
  return (braid_binding){.buffer = memory->buffer, .offset = buffer->offset, .bytes = buffer->bytes};
}

bool braid_buffer_overlaps(const braid_buffer *a, const braid_buffer *b) {
  braid_binding x = braid_buffer_binding(a), y = braid_buffer_binding(b);
  uintptr_t from = x.host ? (uintptr_t)x.host : x.offset, other = y.host ? (uintptr_t)y.host : y.offset;
  return x.buffer == y.buffer && !x.host == !y.host && from < other + y.bytes && other < from + x.bytes;
}

/* --- contents ------------------------------------------------------------------------------------------------------
 */
static braid_status move(braid_buffer *buffer, void *host, size_t bytes, bool write, int64_t timeout_ns) {
  braid_buffer_memory *memory = buffer->memory;
  braid_binding place = braid_buffer_binding(buffer);
  if (bytes != buffer->bytes)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%zu bytes given for a buffer of %zu", bytes, buffer->bytes);
  if (!bytes) return BRAID_OK;
  if (place.host) {
    memcpy(write ? place.host : host, write ? host : place.host, bytes);
    return BRAID_OK;
  }
  int device = (int)(memory->memory.owner - memory->machine->devices);
  pthread_mutex_lock(&memory->lock);
  braid_status status = timeout_ns < 0
                            ? braid_sync_task_copy(&memory->sync_task, device, &place, host, write, timeout_ns)
                            : braid_sync_task_copy_staged(&memory->sync_task, device, &place, host, write, timeout_ns);
  pthread_mutex_unlock(&memory->lock);
  return status;
}

braid_status braid_buffer_read(braid_buffer *buffer, void *host, size_t bytes, int64_t timeout_ns) {
  return move(buffer, host, bytes, false, timeout_ns);
}

braid_status braid_buffer_write(braid_buffer *buffer, const void *host, size_t bytes, int64_t timeout_ns) {
  if (buffer->memory->read_only)
    return braid_fail(BRAID_INVALID_ARGUMENT, "the memory is read-only, as it was given by DLPack");
  return move(buffer, (void *)host, bytes, true, timeout_ns);
}
