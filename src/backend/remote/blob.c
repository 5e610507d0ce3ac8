/* Constants on the daemon: sent once, however many questions, kernels and plans they are in. */
#include <stdio.h>
#include <string.h>

#include "backend/remote/remote.h"
#include "base/siphash.h"
#include "base/try.h"
#include "base/vector.h"

static void blob_forget(remote_device *device, size_t index) {
  remote_blob *blob = &device->blobs[index];
  braid_wire_put_number(remote_begin(&device->channel, BRAID_REMOTE_FORGET), blob->id, 4);
  remote_post(&device->channel);
  device->blob_bytes -= blob->bytes;
  *blob = device->blobs[--device->blob_count];
}

/* Half of what we may have there, and those longest unused leave first; not those of the question at hand. */
static void blobs_make_room(remote_device *device, size_t bytes) {
  uint64_t most = device->description.max_bytes / 2;
  while (device->blob_bytes + bytes > most) {
    size_t oldest = device->blob_count;
    for (size_t i = 0; i < device->blob_count; i++)
      if (device->blobs[i].stamp != device->stamp &&
          (oldest == device->blob_count || device->blobs[i].stamp < device->blobs[oldest].stamp))
        oldest = i;
    if (oldest == device->blob_count) return;
    blob_forget(device, oldest);
  }
}

static braid_status blob_send(remote_device *device, uint32_t id, const uint8_t *bytes, size_t count) {
  size_t chunk = BRAID_REMOTE_CHUNK, most = (size_t)device->description.max_body / 2;
  if (chunk > most) chunk = most;
  for (size_t at = 0; at < count; at += chunk) {
    size_t step = count - at < chunk ? count - at : chunk;
    braid_wire_reader reader;
    braid_wire_writer *writer = remote_begin(&device->channel, BRAID_REMOTE_BLOB);
    braid_wire_put_number(writer, id, 4);
    braid_wire_put_number(writer, count, 8);
    braid_wire_put_number(writer, at, 8);
    struct iovec part = {(uint8_t *)(uintptr_t)bytes + at, step};
    braid_status status = remote_ask(&device->channel, &part, 1, 0, NULL, &reader);
    remote_end(&device->channel);
    if (status != BRAID_OK) return braid_fail_prefix(status, "a constant of %zu bytes", count);
  }
  return BRAID_OK;
}

static remote_blob *blob_find(remote_device *device, const void *bytes, size_t count, uint64_t hash[2]) {
  bool any = false; /* of this size: else there is nothing to be hashed for */
  for (size_t i = 0; i < device->blob_count && !any; i++) any = device->blobs[i].bytes == count;
  if (!any && !hash) return NULL;
  uint64_t own[2];
  braid_siphash(bytes, count, own);
  if (hash) memcpy(hash, own, sizeof own);
  for (size_t i = 0; i < device->blob_count; i++) {
    remote_blob *blob = &device->blobs[i];
    if (blob->hash[0] != own[0] || blob->hash[1] != own[1] || blob->bytes != count) continue;
    blob->stamp = device->stamp;
    return blob;
  }
  return NULL;
}

uint32_t remote_blob_find(remote_device *device, const void *bytes, size_t count) {
  const remote_blob *blob = blob_find(device, bytes, count, NULL);
  return blob ? blob->id : 0;
}

braid_status remote_blob_reserve(remote_device *device, size_t count, uint32_t *out) {
  blobs_make_room(device, count);
  remote_blob *blobs =
      braid_grow(device->allocator, device->blobs, device->blob_count, &device->blob_room, sizeof *blobs);
  if (!blobs) return BRAID_NO_MEMORY;
  device->blobs = blobs;
  *out = ++device->blob_ids;
  return BRAID_OK;
}

static void blob_add(remote_device *device, uint32_t id, const uint64_t hash[2], size_t count) {
  device->blobs[device->blob_count++] =
      (remote_blob){.hash = {hash[0], hash[1]}, .bytes = count, .id = id, .stamp = device->stamp};
  device->blob_bytes += count;
}

void remote_blob_keep(remote_device *device, uint32_t id, const void *bytes, size_t count) {
  uint64_t hash[2];
  if (!blob_find(device, bytes, count, hash)) {
    blob_add(device, id, hash, count);
    return;
  }
  braid_wire_put_number(remote_begin(&device->channel, BRAID_REMOTE_FORGET), id, 4); /* it has them twice */
  remote_post(&device->channel);
}

braid_status remote_blob_abandon(remote_device *device, uint32_t id, braid_status status) {
  char detail[1024];
  snprintf(detail, sizeof detail, "%s", braid_error_detail());
  braid_wire_put_number(remote_begin(&device->channel, BRAID_REMOTE_FORGET), id, 4);
  remote_post(&device->channel);
  return braid_fail(status, "%s", detail);
}

braid_status remote_blob_get(remote_device *device, const void *bytes, size_t count, uint32_t *out) {
  uint64_t hash[2];
  const remote_blob *known = blob_find(device, bytes, count, hash);
  if (known) {
    *out = known->id;
    return BRAID_OK;
  }
  BRAID_TRY(remote_blob_reserve(device, count, out));
  braid_status status = blob_send(device, *out, bytes, count);
  if (status == BRAID_OK) {
    blob_add(device, *out, hash, count);
    return BRAID_OK;
  }
  return remote_blob_abandon(device, *out, status);
}
