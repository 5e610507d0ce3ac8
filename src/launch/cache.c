#include "launch/cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

enum { kPathBytes = 4096 };
static const size_t kMostBytes = (size_t)1 << 30;

/* Before the key and the binary, in the machine's own byte order: a cache does not travel. */
typedef struct entry_header {
  char magic[8];
  uint64_t key_bytes, binary_bytes, checksum;
} entry_header;

static const char kMagic[8] = "BRAIDPR1";

/* FNV-1a. */
static uint64_t hash(uint64_t state, const void *data, size_t bytes) {
  const uint8_t *byte = data;
  for (size_t i = 0; i < bytes; i++) state = (state ^ byte[i]) * 0x100000001b3u;
  return state;
}

static const uint64_t kSeed = 0xcbf29ce484222325u;

static bool entry_path(const char *folder, const char *key, size_t key_bytes, char *path) {
  int length = snprintf(path, kPathBytes, "%s/%016" PRIx64 ".program", folder, hash(kSeed, key, key_bytes));
  return length > 0 && length < kPathBytes;
}

/* The binary within an entry, or NULL if anything does not agree. */
static const uint8_t *entry_binary(const braid_file_view *file, const char *key, size_t key_bytes, size_t *bytes) {
  entry_header header;
  if (file->bytes < sizeof header) return NULL;
  memcpy(&header, file->data, sizeof header);
  const uint8_t *body = file->data + sizeof header;
  size_t left = file->bytes - sizeof header;
  if (memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.key_bytes != key_bytes || key_bytes > left ||
      header.binary_bytes != left - key_bytes || header.checksum != hash(kSeed, body, left) ||
      memcmp(body, key, key_bytes) != 0)
    return NULL;
  *bytes = left - key_bytes;
  return body + key_bytes;
}

uint8_t *braid_launch_cache_load(const braid_log *log, const char *folder, const char *key, size_t key_bytes,
                                 size_t *bytes) {
  char path[kPathBytes];
  braid_file_view file;
  *bytes = 0;
  if (!entry_path(folder, key, key_bytes, path) || braid_file_open(NULL, path, kMostBytes, &file) != BRAID_OK)
    return NULL;
  const uint8_t *binary = entry_binary(&file, key, key_bytes, bytes);
  uint8_t *copy = binary && *bytes ? braid_alloc(NULL, *bytes) : NULL;
  if (copy) memcpy(copy, binary, *bytes);
  if (!binary) braid_log_write(log, BRAID_LOG_WARNING, "%s is damaged or of another program: it is built anew", path);
  braid_file_close(&file);
  return copy;
}

static braid_status write_entry(const char *path, const char *key, size_t key_bytes, const uint8_t *binary,
                                size_t bytes) {
  entry_header header = {.key_bytes = key_bytes, .binary_bytes = bytes};
  memcpy(header.magic, kMagic, sizeof kMagic);
  header.checksum = hash(hash(kSeed, key, key_bytes), binary, bytes);
  braid_writer *writer;
  braid_status status = braid_writer_open(NULL, path, &writer);
  if (status != BRAID_OK) return status;
  status = braid_writer_put(writer, &header, sizeof header);
  if (status == BRAID_OK) status = braid_writer_put(writer, key, key_bytes);
  if (status == BRAID_OK) status = braid_writer_put(writer, binary, bytes);
  if (status == BRAID_OK) return braid_writer_commit(writer);
  braid_writer_abort(writer);
  return status;
}

void braid_launch_cache_store(const braid_log *log, const char *folder, const char *key, size_t key_bytes,
                              const uint8_t *binary, size_t bytes) {
  char path[kPathBytes];
  if (!entry_path(folder, key, key_bytes, path)) return;
  braid_status status = braid_make_directories(folder);
  if (status == BRAID_OK) status = write_entry(path, key, key_bytes, binary, bytes);
  if (status != BRAID_OK)
    braid_log_write(log, BRAID_LOG_WARNING, "a built program is not kept in %s: %s", folder, braid_error_detail());
}
