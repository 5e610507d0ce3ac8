/* Saved plans as bytes: "braidpln", the version of the format, the bytes behind the header and their digest; then every
 * table: the number of its rows, and their fields. Numbers are 64 bits, little endian. */
#include <string.h>

#include "base/try.h"
#include "runtime/plan/snapshot.h"

enum { kVersion = 5, kMostRows = 1 << 22 };
static const char kMagic[8] = "braidpln";

typedef struct snapshot_header {
  char magic[8];
  uint64_t version, bytes;
  braid_digest digest;
} snapshot_header;

static void *field_of(const braid_field *field, const void *row) {
  return (char *)(uintptr_t)row + field->offset;
}

/* --- encoding ------------------------------------------------------------------------------------------------------
 */
static void put_number(braid_text *out, int64_t number) {
  braid_text_add_bytes(out, &number, sizeof number);
}

static void put_field(braid_text *out, const braid_field *field, const void *row) {
  const void *member = field_of(field, row);
  const char *text;
  const braid_snapshot_list *list;
  const braid_snapshot_bytes *bytes;
  switch (braid_field_stored(field->type)) {
  case BRAID_FIELD_TEXT:
    text = *(const char *const *)member;
    put_number(out, (int64_t)strlen(text));
    braid_text_add(out, text);
    break;
  case BRAID_FIELD_LIST:
    list = member;
    put_number(out, (int64_t)list->count);
    braid_text_add_bytes(out, list->items, list->count * sizeof *list->items);
    break;
  case BRAID_FIELD_BYTES:
    bytes = member;
    put_number(out, (int64_t)bytes->count);
    braid_text_add_bytes(out, bytes->items, bytes->count);
    break;
  default:
    put_number(out, *(const int64_t *)member);
  }
}

braid_status braid_snapshot_encode(const braid_snapshot *snapshot, braid_text *out) {
  snapshot_header header = {.version = kVersion};
  memcpy(header.magic, kMagic, sizeof header.magic);
  braid_text_add_bytes(out, &header, sizeof header);
  for (size_t t = 0; t < BRAID_SNAPSHOT_TABLE_COUNT; t++) {
    const braid_table *table = &braid_snapshot_tables[t];
    const braid_rows *rows = braid_snapshot_rows(snapshot, t);
    put_number(out, (int64_t)rows->count);
    for (size_t r = 0; r < rows->count; r++)
      for (size_t f = 0; f < table->field_count; f++)
        put_field(out, &table->fields[f], (const char *)rows->items + r * table->row_bytes);
  }
  if (out->failed) return BRAID_NO_MEMORY;
  header.bytes = out->length - sizeof header;
  header.digest = braid_digest_of(out->data + sizeof header, header.bytes);
  memcpy(out->data, &header, sizeof header);
  return BRAID_OK;
}

/* --- decoding ------------------------------------------------------------------------------------------------------
 */
typedef struct decoder {
  const uint8_t *data;
  size_t bytes, at;
  braid_arena *arena;
} decoder;

static braid_status decode_fail(const decoder *d, const char *what) {
  return braid_fail(BRAID_INVALID_FILE, "byte %zu: %s", d->at + sizeof(snapshot_header), what);
}

static braid_status get_number(decoder *d, int64_t *out) {
  if (d->bytes - d->at < sizeof *out) return decode_fail(d, "ends in the middle of a number");
  memcpy(out, d->data + d->at, sizeof *out);
  d->at += sizeof *out;
  return BRAID_OK;
}

/* A count of items of `bytes` each, which are all there. */
static braid_status get_count(decoder *d, size_t bytes, size_t *out) {
  int64_t count;
  BRAID_TRY(get_number(d, &count));
  if (count < 0 || (uint64_t)count > (d->bytes - d->at) / bytes) return decode_fail(d, "a count beyond the end");
  *out = (size_t)count;
  return BRAID_OK;
}

/* Aligned and terminated. */
static braid_status get_bytes(decoder *d, size_t bytes, void **out) {
  *out = braid_arena_alloc(d->arena, bytes + 1);
  if (!*out) return BRAID_NO_MEMORY;
  if (bytes) memcpy(*out, d->data + d->at, bytes);
  d->at += bytes;
  return BRAID_OK;
}

static braid_status get_field(decoder *d, const braid_field *field, void *row) {
  void *member = field_of(field, row), *copy;
  braid_field_type stored = braid_field_stored(field->type);
  size_t count, size = stored == BRAID_FIELD_LIST ? sizeof(int64_t) : 1;
  if (stored == BRAID_FIELD_NUMBER) return get_number(d, member);
  BRAID_TRY(get_count(d, size, &count));
  BRAID_TRY(get_bytes(d, count * size, &copy));
  if (stored == BRAID_FIELD_LIST) {
    *(braid_snapshot_list *)member = (braid_snapshot_list){copy, count};
  } else if (stored == BRAID_FIELD_BYTES) {
    *(braid_snapshot_bytes *)member = (braid_snapshot_bytes){copy, count};
  } else {
    if (memchr(copy, '\0', count)) return decode_fail(d, "a text with a byte of value 0");
    *(const char **)member = copy;
  }
  return BRAID_OK;
}

static braid_status get_table(decoder *d, const braid_table *table, braid_rows *rows) {
  size_t count;
  BRAID_TRY(get_count(d, table->field_count * sizeof(int64_t), &count)); /* no field takes less */
  if (count > kMostRows) return decode_fail(d, "too many rows");
  *rows = (braid_rows){braid_arena_alloc(d->arena, (count + 1) * table->row_bytes), count};
  if (!rows->items) return BRAID_NO_MEMORY;
  for (size_t r = 0; r < count; r++)
    for (size_t f = 0; f < table->field_count; f++)
      BRAID_TRY(get_field(d, &table->fields[f], (char *)rows->items + r * table->row_bytes));
  return BRAID_OK;
}

braid_status braid_snapshot_decode(const void *data, size_t bytes, braid_arena *arena, braid_snapshot *out) {
  snapshot_header header;
  *out = (braid_snapshot){0};
  if (bytes >= sizeof header) memcpy(&header, data, sizeof header);
  if (bytes < sizeof header || memcmp(header.magic, kMagic, sizeof header.magic) != 0)
    return braid_fail(BRAID_INVALID_FILE, "is no saved plan");
  if (header.version != kVersion)
    return braid_fail(BRAID_UNSUPPORTED, "a saved plan of format %llu, expected %d", (unsigned long long)header.version,
                      kVersion);
  decoder d = {.data = (const uint8_t *)data + sizeof header, .bytes = bytes - sizeof header, .arena = arena};
  if (header.bytes != d.bytes)
    return braid_fail(BRAID_INVALID_FILE, "has %zu bytes behind its header, which says %llu", d.bytes,
                      (unsigned long long)header.bytes);
  braid_digest digest = braid_digest_of(d.data, d.bytes);
  if (memcmp(&digest, &header.digest, sizeof digest) != 0)
    return braid_fail(BRAID_INVALID_FILE, "its bytes are not those that were saved");
  for (size_t t = 0; t < BRAID_SNAPSHOT_TABLE_COUNT; t++)
    BRAID_TRY(get_table(&d, &braid_snapshot_tables[t], braid_snapshot_rows(out, t)));
  if (out->devices.count > kMaxDevices) return decode_fail(&d, "too many devices");
  if (d.at != d.bytes) return decode_fail(&d, "something stands behind the end");
  return out->plan.count == 1 ? BRAID_OK : decode_fail(&d, "expected one plan");
}
