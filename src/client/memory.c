/* Data at the daemon: memory that is shared with it, and named buffers. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/channel.h"

struct braid_client_memory {
  braid_client *client;
  uint32_t number;
  void *data;
  size_t bytes;
};

uint32_t client_memory_number(const braid_client_memory *memory) {
  return memory->number;
}

size_t client_memory_bytes(const braid_client_memory *memory) {
  return memory->bytes;
}

const braid_client *client_memory_owner(const braid_client_memory *memory) {
  return memory->client;
}

/* A file in memory of this size for good, and where it is mapped; -1: there is none. */
static int make_file(size_t bytes, void **out_data) {
  int file = memfd_create("braid-client", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return -1;
  if (ftruncate(file, (off_t)bytes) == 0 && fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0) {
    *out_data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (*out_data != MAP_FAILED) return file;
  }
  int reason = errno;
  close(file);
  errno = reason;
  return -1;
}

static braid_client_status share_file(braid_client *client, braid_client_memory *memory, int file) {
  client_ticket ticket;
  braid_wire_reader reader;
  braid_wire_writer *writer = client_begin(client, BRAID_WIRE_MEMORY, &ticket);
  memory->number = ++client->memories;
  braid_wire_put_number(writer, memory->number, 4);
  braid_wire_put_number(writer, memory->bytes, 8);
  braid_client_status status = client_send(client, &ticket, NULL, 0, file);
  if (status == BRAID_CLIENT_OK) status = client_answer(client, &ticket, &reader, NULL);
  client_abandon(client, &ticket);
  return status;
}

braid_client_status braid_client_memory_create(braid_client *client, size_t bytes, braid_client_memory **out) {
  *out = NULL;
  if (!braid_client_has_memory(client))
    return client_fail(BRAID_CLIENT_ARGUMENT, "memory is shared over unix:PATH only");
  if (!bytes || bytes > INT64_MAX) return client_fail(BRAID_CLIENT_ARGUMENT, "memory of 1 byte or more is expected");
  braid_client_memory *memory = calloc(1, sizeof *memory);
  if (!memory) return client_fail(BRAID_CLIENT_NO_MEMORY, "no memory for a description of memory");
  *memory = (braid_client_memory){.client = client, .bytes = bytes};
  int file = make_file(bytes, &memory->data);
  if (file < 0) {
    braid_client_status status =
        client_fail(BRAID_CLIENT_NO_MEMORY, "%zu bytes of shared memory: %s", bytes, strerror(errno));
    free(memory);
    return status;
  }
  braid_client_status status = share_file(client, memory, file);
  close(file);
  if (status == BRAID_CLIENT_OK) {
    *out = memory;
    return status;
  }
  munmap(memory->data, bytes);
  free(memory);
  return status;
}

void *braid_client_memory_data(braid_client_memory *memory) {
  return memory->data;
}

void client_memory_end(braid_client_memory *memory, int64_t wait_ms) {
  client_ticket ticket;
  braid_wire_put_number(client_begin(memory->client, BRAID_WIRE_UNMAP, &ticket), memory->number, 4);
  (void)client_finish_within(memory->client, &ticket, wait_ms); /* a connection that is lost has no memory any more */
  munmap(memory->data, memory->bytes);
  free(memory);
}

void braid_client_memory_destroy(braid_client_memory *memory) {
  if (memory) client_memory_end(memory, memory->client->call_ms);
}

/* --- tensors -------------------------------------------------------------------------------------------------------
 */
static braid_client_status take_shape(const braid_client_tensor *tensor, braid_wire_tensor *out) {
  uint64_t bytes = braid_wire_dtype_bytes(tensor->dtype);
  if (!bytes) return client_fail(BRAID_CLIENT_ARGUMENT, "tensor %s: there is no such type", out->name);
  if (tensor->rank < 0 || tensor->rank > BRAID_CLIENT_MAX_RANK)
    return client_fail(BRAID_CLIENT_ARGUMENT, "tensor %s: 0 to %d dimensions are expected", out->name,
                       BRAID_CLIENT_MAX_RANK);
  out->dtype = (uint8_t)tensor->dtype;
  out->rank = (uint8_t)tensor->rank;
  for (int i = 0; i < tensor->rank; i++) {
    out->dims[i] = tensor->dims[i];
    if (tensor->dims[i] < 0 || __builtin_mul_overflow(bytes, (uint64_t)tensor->dims[i], &bytes))
      return client_fail(BRAID_CLIENT_ARGUMENT, "tensor %s: dimension %d", out->name, i);
  }
  if (bytes == tensor->bytes) return BRAID_CLIENT_OK;
  return client_fail(BRAID_CLIENT_ARGUMENT, "tensor %s: %zu bytes are given; its shape has %llu", out->name,
                     tensor->bytes, (unsigned long long)bytes);
}

braid_client_status client_tensor(const braid_client *client, const braid_client_tensor *tensor, bool wanted,
                                  braid_wire_tensor *out, struct iovec *part) {
  *part = (struct iovec){0};
  out->dtype = out->rank = 0;
  out->memory = 0;
  out->offset = 0;
  out->bytes = tensor->bytes;
  out->buffer[0] = '\0';
  if (!tensor->name || strlen(tensor->name) >= sizeof out->name)
    return client_fail(BRAID_CLIENT_ARGUMENT, "a tensor has a name of up to %zu bytes", sizeof out->name - 1);
  strcpy(out->name, tensor->name);
  if (tensor->buffer) {
    if (wanted || strlen(tensor->buffer) >= sizeof out->buffer)
      return client_fail(BRAID_CLIENT_ARGUMENT, "tensor %s: inputs name a buffer, by up to %zu bytes", out->name,
                         sizeof out->buffer - 1);
    strcpy(out->buffer, tensor->buffer);
    out->place = BRAID_WIRE_BUFFER;
    return BRAID_CLIENT_OK;
  }
  out->place = tensor->memory ? BRAID_WIRE_SHARED : BRAID_WIRE_INLINE;
  if (tensor->memory) {
    size_t room = client_memory_bytes(tensor->memory);
    if (client_memory_owner(tensor->memory) != client || tensor->offset > room || tensor->bytes > room - tensor->offset)
      return client_fail(BRAID_CLIENT_ARGUMENT, "tensor %s lies outside of the connection's memory", out->name);
    out->memory = client_memory_number(tensor->memory);
    out->offset = tensor->offset;
  }
  if (wanted) return BRAID_CLIENT_OK;
  braid_client_status status = take_shape(tensor, out);
  if (status == BRAID_CLIENT_OK && !tensor->memory) *part = (struct iovec){(void *)tensor->data, tensor->bytes};
  return status;
}

braid_client_status braid_client_data(braid_client *client, const braid_client_tensor *tensor) {
  braid_wire_tensor fields;
  struct iovec part;
  client_ticket ticket;
  braid_wire_reader reader;
  if (tensor->buffer || tensor->memory)
    return client_fail(BRAID_CLIENT_ARGUMENT, "a buffer is made of data, not of a buffer or shared memory");
  braid_client_status status = client_tensor(client, tensor, false, &fields, &part);
  if (status != BRAID_CLIENT_OK) return status;
  braid_wire_put_tensor(client_begin(client, BRAID_WIRE_DATA, &ticket), &fields);
  status = client_send(client, &ticket, &part, 1, -1);
  if (status == BRAID_CLIENT_OK) status = client_answer(client, &ticket, &reader, NULL);
  client_abandon(client, &ticket);
  return status;
}

braid_client_status braid_client_drop(braid_client *client, const char *name) {
  client_ticket ticket;
  braid_wire_put_text(client_begin(client, BRAID_WIRE_DROP, &ticket), name);
  return client_finish(client, &ticket);
}
