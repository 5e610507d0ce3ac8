/* What a connection owns: named buffers, and shared memory that its client passes.
 *
 * Shared memory is a memfd that is sealed against shrinking and growing: mapped, it can then not end the daemon by
 * SIGBUS, as a file that its owner truncates would. What is in it is copied before it is looked at. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "serve/wire/wire.h"

/* --- buffers -------------------------------------------------------------------------------------------------------
 */
wire_buffer *braid_wire_buffer_find(const wire_connection *c, const char *name) {
  wire_buffer *buffer = c->buffers;
  while (buffer && strcmp(buffer->tensor.name, name) != 0) buffer = buffer->next;
  return buffer;
}

void braid_wire_buffer_release(wire_buffer *buffer) {
  if (!buffer || __atomic_sub_fetch(&buffer->references, 1, __ATOMIC_ACQ_REL)) return;
  braid_serve_tenant_return(buffer->tenant, (size_t)buffer->tensor.bytes);
  braid_free(NULL, buffer);
}

static bool buffer_free(wire_connection *c, const char *name) {
  wire_buffer **link = &c->buffers, *buffer;
  while (*link && strcmp((*link)->tensor.name, name) != 0) link = &(*link)->next;
  buffer = *link;
  if (!buffer) return false;
  *link = buffer->next;
  braid_wire_buffer_release(buffer);
  return true;
}

void braid_wire_data_message(wire_connection *c, const braid_wire_header *header, const uint8_t *body) {
  braid_wire_reader reader = {.data = body, .bytes = (size_t)header->bytes};
  braid_wire_tensor tensor;
  const uint8_t *data;
  const char *wrong = braid_wire_get_data(&reader, &tensor, &data);
  if (wrong || !tensor.name[0]) {
    braid_wire_answer_status(c, header, BRAID_SERVE_INVALID, "data: %s", wrong ? wrong : "a buffer has a name");
    return;
  }
  (void)buffer_free(c, tensor.name); /* the new one takes its place */
  size_t count = 0;
  for (const wire_buffer *other = c->buffers; other; other = other->next) count++;
  if (count == BRAID_WIRE_BUFFERS) {
    braid_wire_answer_status(c, header, BRAID_SERVE_OVER_QUOTA, "the connection has %zu buffers, as many as it may",
                             count);
    return;
  }
  if (!braid_serve_tenant_reserve(c->tenant, (size_t)tensor.bytes)) {
    braid_wire_answer_status(
        c, header, BRAID_SERVE_OVER_QUOTA, "buffer %s: its %llu bytes are over the %lld of tenant %s", tensor.name,
        (unsigned long long)tensor.bytes, (long long)c->tenant->config->max_bytes, c->tenant->config->name);
    return;
  }
  wire_buffer *buffer = braid_alloc(NULL, sizeof *buffer + (size_t)tensor.bytes);
  if (!buffer) {
    braid_serve_tenant_return(c->tenant, (size_t)tensor.bytes);
    braid_wire_answer_status(c, header, BRAID_SERVE_FAILED, "no memory for buffer %s", tensor.name);
    return;
  }
  buffer->tensor = tensor;
  buffer->tenant = c->tenant;
  buffer->references = 1;
  memcpy(buffer->data, data, (size_t)tensor.bytes);
  buffer->next = c->buffers;
  c->buffers = buffer;
  braid_wire_answer_status(c, header, BRAID_SERVE_DONE, "%s", "");
}

void braid_wire_drop_message(wire_connection *c, const braid_wire_header *header, const uint8_t *body) {
  braid_wire_reader reader = {.data = body, .bytes = (size_t)header->bytes};
  char name[BRAID_WIRE_NAME];
  braid_wire_get_text(&reader, name, sizeof name);
  const char *wrong = braid_wire_finish(&reader);
  if (wrong)
    braid_wire_answer_status(c, header, BRAID_SERVE_INVALID, "drop: %s", wrong);
  else if (buffer_free(c, name))
    braid_wire_answer_status(c, header, BRAID_SERVE_DONE, "%s", "");
  else
    braid_wire_answer_status(c, header, BRAID_SERVE_UNKNOWN, "the connection has no buffer \"%.100s\"", name);
}

/* --- shared memory -------------------------------------------------------------------------------------------------
 */
wire_memory *braid_wire_memory_find(const wire_connection *c, uint32_t number) {
  wire_memory *memory = c->memories;
  while (memory && memory->number != number) memory = memory->next;
  return memory;
}

void braid_wire_memory_retain(wire_memory *memory) {
  __atomic_fetch_add(&memory->references, 1, __ATOMIC_RELAXED);
}

void braid_wire_memory_release(wire_memory *memory) {
  if (!memory || __atomic_sub_fetch(&memory->references, 1, __ATOMIC_ACQ_REL)) return;
  munmap(memory->data, memory->bytes);
  braid_serve_tenant_return(memory->tenant, memory->bytes);
  braid_free(NULL, memory);
}

/* NULL, or why the file cannot be mapped without danger. */
static const char *check_file(int file, uint64_t bytes, int *out_seals) {
  enum { kNeeded = F_SEAL_SHRINK | F_SEAL_GROW };
  struct stat facts;
  struct statfs system;
  *out_seals = fcntl(file, F_GET_SEALS);
  if (*out_seals < 0 || fstat(file, &facts) != 0 || fstatfs(file, &system) != 0 || !S_ISREG(facts.st_mode))
    return "the descriptor is none of memfd_create()";
  if ((*out_seals & kNeeded) != kNeeded) return "it is not sealed by F_SEAL_SHRINK and F_SEAL_GROW";
  if ((uint64_t)system.f_type != TMPFS_MAGIC)
    return "memory of huge pages is not taken"; /* a page may be missing: SIGBUS */
  if (!bytes || (uint64_t)facts.st_size != bytes) return "its size is not the one that the message names";
  return NULL;
}

/* The oldest descriptor that has come; -1: none. The caller closes it. */
static int take_file(wire_connection *c) {
  if (!c->file_count) return -1;
  int file = c->files[0];
  memmove(c->files, c->files + 1, --c->file_count * sizeof *c->files);
  return file;
}

static braid_serve_verdict map_file(wire_connection *c, int file, uint32_t number, uint64_t bytes, char *detail) {
  int seals;
  const char *wrong = check_file(file, bytes, &seals);
  if (wrong) {
    snprintf(detail, BRAID_WIRE_DETAIL, "memory %u: %s", number, wrong);
    return BRAID_SERVE_INVALID;
  }
  if (!braid_serve_tenant_reserve(c->tenant, (size_t)bytes)) {
    snprintf(detail, BRAID_WIRE_DETAIL, "memory %u: its %llu bytes are over the %lld that tenant %s may have", number,
             (unsigned long long)bytes, (long long)c->tenant->config->max_bytes, c->tenant->config->name);
    return BRAID_SERVE_OVER_QUOTA;
  }
  bool writable = !(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE));
  void *data = mmap(NULL, (size_t)bytes, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, file, 0);
  wire_memory *memory = data != MAP_FAILED ? braid_zalloc(NULL, sizeof *memory) : NULL;
  if (!memory) {
    snprintf(detail, BRAID_WIRE_DETAIL, "memory %u: it cannot be mapped: %s", number, strerror(errno));
    if (data != MAP_FAILED) munmap(data, (size_t)bytes);
    braid_serve_tenant_return(c->tenant, (size_t)bytes);
    return BRAID_SERVE_FAILED;
  }
  *memory = (wire_memory){.next = c->memories,
                          .tenant = c->tenant,
                          .number = number,
                          .references = 1,
                          .data = data,
                          .bytes = (size_t)bytes,
                          .writable = writable};
  c->memories = memory;
  detail[0] = '\0';
  return BRAID_SERVE_DONE;
}

void braid_wire_memory_message(wire_connection *c, const braid_wire_header *header, const uint8_t *body) {
  braid_wire_reader reader = {.data = body, .bytes = (size_t)header->bytes};
  uint32_t number = (uint32_t)braid_wire_get_number(&reader, 4);
  uint64_t bytes = braid_wire_get_number(&reader, 8);
  const char *wrong = braid_wire_finish(&reader);
  char detail[BRAID_WIRE_DETAIL];
  size_t count = 0;
  for (const wire_memory *other = c->memories; other; other = other->next) count++;
  int file = take_file(c);
  if (wrong)
    braid_wire_answer_status(c, header, BRAID_SERVE_INVALID, "memory: %s", wrong);
  else if (file < 0)
    braid_wire_answer_status(c, header, BRAID_SERVE_INVALID, "memory %u: no descriptor came with the message%s", number,
                             c->local ? "" : ", as over TCP none can");
  else if (braid_wire_memory_find(c, number))
    braid_wire_answer_status(c, header, BRAID_SERVE_INVALID, "there is a memory %u already", number);
  else if (count == BRAID_WIRE_MEMORIES)
    braid_wire_answer_status(c, header, BRAID_SERVE_OVER_QUOTA, "the connection has %zu memories, as many as it may",
                             count);
  else
    braid_wire_answer_status(c, header, map_file(c, file, number, bytes, detail), "%s", detail);
  if (file >= 0) close(file);
}

static bool memory_free(wire_connection *c, uint32_t number) {
  wire_memory **link = &c->memories;
  while (*link && (*link)->number != number) link = &(*link)->next;
  wire_memory *memory = *link;
  if (!memory) return false;
  *link = memory->next;
  braid_wire_memory_release(memory);
  return true;
}

void braid_wire_unmap_message(wire_connection *c, const braid_wire_header *header, const uint8_t *body) {
  braid_wire_reader reader = {.data = body, .bytes = (size_t)header->bytes};
  uint32_t number = (uint32_t)braid_wire_get_number(&reader, 4);
  const char *wrong = braid_wire_finish(&reader);
  if (wrong)
    braid_wire_answer_status(c, header, BRAID_SERVE_INVALID, "unmap: %s", wrong);
  else if (memory_free(c, number))
    braid_wire_answer_status(c, header, BRAID_SERVE_DONE, "%s", "");
  else
    braid_wire_answer_status(c, header, BRAID_SERVE_UNKNOWN, "the connection has no memory %u", number);
}

void braid_wire_memory_free_all(wire_connection *c) {
  while (c->memories) (void)memory_free(c, c->memories->number);
  while (c->buffers) (void)buffer_free(c, c->buffers->tensor.name);
}
