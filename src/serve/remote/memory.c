/* What a session has on the device and in our memory: buffers, and constants that the client has sent. */
#include <string.h>

#include "base/try.h"
#include "base/vector.h"
#include "serve/remote/session.h"

enum { kZeros = 1 << 20 };

braid_status session_finish(const braid_wire_reader *reader) {
  const char *wrong = braid_wire_finish(reader);
  return wrong ? braid_fail(BRAID_INVALID_ARGUMENT, "%s", wrong) : BRAID_OK;
}

/* --- tables --------------------------------------------------------------------------------------------------------
 */
uint32_t session_table_add(session_table *table, void *item) {
  size_t at = table->first_free;
  while (at < table->count && table->items[at]) at++;
  if (at == SESSION_HANDLES) {
    (void)!braid_fail(BRAID_NO_MEMORY, "a session has at most %d buffers, kernels and recordings each",
                      SESSION_HANDLES);
    return 0;
  }
  if (at == table->count) {
    void **items = braid_grow(NULL, table->items, table->count, &table->room, sizeof *items);
    if (!items) return 0;
    table->items = items;
    table->count++;
  }
  table->items[at] = item;
  table->first_free = at + 1;
  return (uint32_t)at + 1;
}

void *session_table_get(const session_table *table, uint64_t handle) {
  return handle && handle <= table->count ? table->items[handle - 1] : NULL;
}

void *session_table_take(session_table *table, uint64_t handle) {
  void *item = session_table_get(table, handle);
  if (!item) return NULL;
  table->items[handle - 1] = NULL;
  if (handle - 1 < table->first_free) table->first_free = (size_t)handle - 1;
  return item;
}

/* --- buffers -------------------------------------------------------------------------------------------------------
 */
static void buffer_free(session *s, session_buffer *buffer) {
  s->backend->buffer_destroy(s->self, buffer->self);
  session_uncount(s, buffer->bytes + SESSION_OVERHEAD);
  braid_free(NULL, buffer);
}

void session_buffer_release(session *s, session_buffer *buffer) {
  if (--buffer->users == 0 && buffer->dropped) buffer_free(s, buffer);
}

/* What others have left in memory is not this client's to see. */
static braid_status clear_buffer(session *s, void *self, size_t bytes) {
  if (s->info.memory == BRAID_MEMORY_UNIFIED) {
    memset(s->backend->buffer_map(s->self, self), 0, bytes);
    return BRAID_OK;
  }
  size_t most = bytes < kZeros ? bytes : kZeros;
  void *zeros = braid_zalloc(NULL, most);
  braid_status status = zeros ? BRAID_OK : BRAID_NO_MEMORY;
  for (size_t at = 0; status == BRAID_OK && at < bytes; at += most) {
    size_t step = bytes - at < most ? bytes - at : most;
    braid_verdict verdict;
    braid_verdict_init(&verdict);
    braid_task task = {.kind = BRAID_TASK_WRITE,
                       .label = "clear",
                       .target = {.buffer = self, .offset = at, .bytes = step},
                       .host = zeros,
                       .verdict = &verdict};
    status = braid_queue_do(&s->queue, &task, -1);
  }
  braid_free(NULL, zeros);
  return status;
}

static braid_status buffer_make(session *s, size_t bytes, session_buffer *buffer) {
  BRAID_TRY(s->backend->buffer_create(s->self, bytes, &buffer->self));
  braid_status status = clear_buffer(s, buffer->self, bytes);
  uint32_t handle = status == BRAID_OK ? session_table_add(&s->buffers, buffer) : 0;
  if (handle) {
    braid_wire_put_number(&s->writer, handle, 4);
    return BRAID_OK;
  }
  s->backend->buffer_destroy(s->self, buffer->self);
  return status == BRAID_OK ? BRAID_NO_MEMORY : status;
}

braid_status session_buffer_message(session *s, braid_wire_reader *reader) {
  uint64_t bytes = braid_wire_get_number(reader, 8);
  BRAID_TRY(session_finish(reader));
  if (bytes > SIZE_MAX / 2) return braid_fail(BRAID_NO_MEMORY, "no device has a buffer of so many bytes");
  size_t counted = (size_t)bytes + SESSION_OVERHEAD;
  BRAID_TRY(session_count(s, counted));
  session_buffer *buffer = braid_zalloc(NULL, sizeof *buffer);
  if (buffer) buffer->bytes = (size_t)bytes;
  braid_status status = buffer ? buffer_make(s, (size_t)bytes, buffer) : BRAID_NO_MEMORY;
  if (status == BRAID_OK) return status;
  braid_free(NULL, buffer);
  session_uncount(s, counted);
  return status;
}

braid_status session_free_message(session *s, braid_wire_reader *reader) {
  uint64_t handle = braid_wire_get_number(reader, 4);
  BRAID_TRY(session_finish(reader));
  session_buffer *buffer = session_table_take(&s->buffers, handle);
  if (!buffer) return braid_fail(BRAID_NOT_FOUND, "there is no buffer %llu", (unsigned long long)handle);
  if (buffer->users)
    buffer->dropped = true;
  else
    buffer_free(s, buffer);
  return BRAID_OK;
}

braid_status session_memory_message(session *s, braid_wire_reader *reader) {
  uint64_t unused, total;
  BRAID_TRY(session_finish(reader));
  if (!s->backend->read_memory) return braid_fail(BRAID_UNSUPPORTED, "the device does not say how much memory it has");
  BRAID_TRY(s->backend->read_memory(s->self, &unused, &total));
  braid_wire_put_number(&s->writer, unused, 8);
  braid_wire_put_number(&s->writer, total, 8);
  return BRAID_OK;
}

/* --- constants -----------------------------------------------------------------------------------------------------
 */
static session_blob **blob_link(session *s, uint32_t id) {
  session_blob **link = &s->blobs;
  while (*link && (*link)->id != id) link = &(*link)->next;
  return link;
}

session_blob *session_blob_find(const session *s, uint32_t id) {
  session_blob *blob = s->blobs;
  while (blob && blob->id != id) blob = blob->next;
  return blob && blob->got == blob->bytes ? blob : NULL;
}

static void blob_free(session *s, session_blob *blob) {
  session_uncount(s, blob->bytes + SESSION_OVERHEAD);
  braid_free(NULL, blob);
}

void session_blob_release(session *s, session_blob *blob) {
  if (--blob->users == 0 && blob->dropped) blob_free(s, blob);
}

braid_status session_blob_make(session *s, uint32_t id, uint64_t bytes, session_blob **out) {
  *out = NULL;
  if (*blob_link(s, id)) return braid_fail(BRAID_INVALID_ARGUMENT, "there is a constant %u", id);
  if (s->blob_count == SESSION_BLOBS)
    return braid_fail(BRAID_NO_MEMORY, "a session has at most %d constants", SESSION_BLOBS);
  if (bytes > SIZE_MAX / 2) return braid_fail(BRAID_NO_MEMORY, "no constant has so many bytes");
  BRAID_TRY(session_count(s, (size_t)bytes + SESSION_OVERHEAD));
  session_blob *blob = braid_alloc(NULL, sizeof *blob + (size_t)bytes);
  if (!blob) {
    session_uncount(s, (size_t)bytes + SESSION_OVERHEAD);
    return braid_fail(BRAID_NO_MEMORY, "no memory for a constant of %llu bytes", (unsigned long long)bytes);
  }
  *blob = (session_blob){.next = s->blobs, .id = id, .bytes = (size_t)bytes};
  s->blobs = *out = blob;
  s->blob_count++;
  return BRAID_OK;
}

/* Parts come one after the other. */
braid_status session_blob_message(session *s, braid_wire_reader *reader) {
  uint32_t id = (uint32_t)braid_wire_get_number(reader, 4);
  uint64_t bytes = braid_wire_get_number(reader, 8), offset = braid_wire_get_number(reader, 8);
  size_t count = reader->bytes - reader->at;
  const uint8_t *data = braid_remote_get_bytes(reader, count);
  BRAID_TRY(session_finish(reader));
  session_blob *blob = *blob_link(s, id);
  if (!blob && !offset) BRAID_TRY(session_blob_make(s, id, bytes, &blob));
  if (!blob || blob->bytes != bytes || blob->got != offset || count > blob->bytes - blob->got)
    return braid_fail(BRAID_INVALID_ARGUMENT, "constant %u: its parts come in order, and are not more than it has", id);
  if (count) memcpy(blob->data + blob->got, data, count);
  blob->got += count;
  return BRAID_OK;
}

braid_status session_forget_message(session *s, braid_wire_reader *reader) {
  uint32_t id = (uint32_t)braid_wire_get_number(reader, 4);
  BRAID_TRY(session_finish(reader));
  session_blob **link = blob_link(s, id), *blob = *link;
  if (!blob) return braid_fail(BRAID_NOT_FOUND, "there is no constant %u", id);
  *link = blob->next;
  s->blob_count--;
  if (blob->users)
    blob->dropped = true;
  else
    blob_free(s, blob);
  return BRAID_OK;
}

void session_memory_free_all(session *s) {
  for (size_t i = 0; i < s->buffers.count; i++)
    if (s->buffers.items[i]) buffer_free(s, s->buffers.items[i]);
  braid_free(NULL, s->buffers.items);
  while (s->blobs) {
    session_blob *blob = s->blobs;
    s->blobs = blob->next;
    blob_free(s, blob);
  }
}
