#include "train/checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/map.h"
#include "base/try.h"
#include "base/vector.h"

static const char kMagic[8] = {'B', 'R', 'A', 'I', 'D', 'C', 'K', 'P'};
enum {
  kVersion = 2,
  kMaxSections = 1 << 20,
  kHeaderBytes = 16,
  kCrcBytes = 4,
  kCrcStep = 1 << 30, /* zlib counts in unsigned int */
};

static const size_t kMaxBytes = (size_t)64 << 30; /* of a file, as of a model's */

/* Element types as the file numbers them; the enum may change, the file may not. */
static const braid_dtype kTypes[] = {BRAID_NONE,       BRAID_F32,    BRAID_F64,        BRAID_F16,    BRAID_BF16,
                                     BRAID_I8,         BRAID_I16,    BRAID_I32,        BRAID_I64,    BRAID_U8,
                                     BRAID_U16,        BRAID_U32,    BRAID_U64,        BRAID_BOOL,   BRAID_F8E4M3FN,
                                     BRAID_F8E4M3FNUZ, BRAID_F8E5M2, BRAID_F8E5M2FNUZ, BRAID_F8E8M0, BRAID_F4E2M1,
                                     BRAID_U4,         BRAID_I4,     BRAID_U2,         BRAID_I2};
enum { kTypeCount = sizeof kTypes / sizeof *kTypes };

static uint32_t crc_of(uint32_t crc, const void *data, size_t bytes) {
  const uint8_t *p = data;
  while (bytes > 0) {
    size_t n = bytes < kCrcStep ? bytes : kCrcStep;
    crc = (uint32_t)crc32(crc, p, (uInt)n);
    p += n;
    bytes -= n;
  }
  return crc;
}

/* --- writing -------------------------------------------------------------------------------------------------------
 */
struct braid_checkpoint {
  const braid_allocator *allocator;
  braid_writer *writer;
  uint32_t file_crc, section_crc;
  size_t section_bytes; /* that section_crc is of */
  size_t announced, written;
};

static void end_section(braid_checkpoint *checkpoint) {
  checkpoint->file_crc =
      (uint32_t)crc32_combine(checkpoint->file_crc, checkpoint->section_crc, (z_off_t)checkpoint->section_bytes);
  checkpoint->section_crc = 0;
  checkpoint->section_bytes = 0;
}

/* The file's sum follows from those of its sections. */
static braid_status put_bytes(braid_checkpoint *checkpoint, const void *data, size_t bytes) {
  checkpoint->section_crc = crc_of(checkpoint->section_crc, data, bytes);
  checkpoint->section_bytes += bytes;
  return braid_writer_put(checkpoint->writer, data, bytes);
}

braid_status braid_checkpoint_create(const braid_allocator *allocator, const char *path, size_t sections,
                                     braid_checkpoint **out) {
  *out = NULL;
  if (sections > kMaxSections) return braid_fail(BRAID_OUT_OF_RANGE, "%s: %zu sections are too many", path, sections);
  braid_checkpoint *checkpoint = braid_zalloc(allocator, sizeof *checkpoint);
  if (!checkpoint) return BRAID_NO_MEMORY;
  checkpoint->allocator = allocator;
  checkpoint->announced = sections;
  uint8_t header[kHeaderBytes];
  uint32_t version = kVersion, count = (uint32_t)sections;
  memcpy(header, kMagic, 8);
  memcpy(header + 8, &version, 4);
  memcpy(header + 12, &count, 4);
  braid_status status = braid_writer_open(allocator, path, &checkpoint->writer);
  if (status == BRAID_OK) status = put_bytes(checkpoint, header, sizeof header);
  if (status == BRAID_OK)
    *out = checkpoint;
  else
    braid_checkpoint_abort(checkpoint);
  return status;
}

/* Lengths are 16 bits in the file. */
braid_status braid_checkpoint_check_name(const char *name) {
  size_t length = strlen(name);
  if (length > 0 && length <= UINT16_MAX) return BRAID_OK;
  return braid_fail(BRAID_OUT_OF_RANGE, "\"%.60s%s\" is a name of %zu characters; checkpoints hold names of 1 to %d",
                    name, length > 60 ? "..." : "", length, UINT16_MAX);
}

braid_status braid_checkpoint_put(braid_checkpoint *checkpoint, const char *name, const braid_desc *desc,
                                  const void *data) {
  size_t length = strlen(name);
  BRAID_TRY(braid_checkpoint_check_name(name));
  uint8_t type = 0;
  while (type < kTypeCount && kTypes[type] != desc->dtype) type++;
  if (type == 0 || type >= kTypeCount || desc->layout != BRAID_LAYOUT_PLAIN)
    return braid_fail(BRAID_INVALID_ARGUMENT, "section %.120s has no type or layout that the file knows", name);
  end_section(checkpoint); /* the header or the CRC of the one before */
  uint16_t length16 = (uint16_t)length;
  uint8_t rank = (uint8_t)desc->rank;
  BRAID_TRY(put_bytes(checkpoint, &length16, sizeof length16));
  BRAID_TRY(put_bytes(checkpoint, name, length));
  BRAID_TRY(put_bytes(checkpoint, &type, 1));
  BRAID_TRY(put_bytes(checkpoint, &rank, 1));
  BRAID_TRY(put_bytes(checkpoint, desc->dims, (size_t)desc->rank * sizeof *desc->dims));
  BRAID_TRY(put_bytes(checkpoint, data, braid_desc_bytes(desc)));
  uint32_t crc = checkpoint->section_crc;
  end_section(checkpoint);
  BRAID_TRY(put_bytes(checkpoint, &crc, kCrcBytes));
  checkpoint->written++;
  return BRAID_OK;
}

braid_status braid_checkpoint_commit(braid_checkpoint *checkpoint) {
  braid_status status = BRAID_OK;
  if (checkpoint->written != checkpoint->announced)
    status =
        braid_fail(BRAID_INTERNAL, "%zu sections written, %zu announced", checkpoint->written, checkpoint->announced);
  end_section(checkpoint);
  uint32_t crc = checkpoint->file_crc;
  if (status == BRAID_OK) status = braid_writer_put(checkpoint->writer, &crc, kCrcBytes);
  if (status == BRAID_OK) {
    status = braid_writer_commit(checkpoint->writer);
    checkpoint->writer = NULL;
  }
  braid_checkpoint_abort(checkpoint);
  return status;
}

void braid_checkpoint_abort(braid_checkpoint *checkpoint) {
  if (!checkpoint) return;
  braid_writer_abort(checkpoint->writer);
  braid_free(checkpoint->allocator, checkpoint);
}

/* --- reading -------------------------------------------------------------------------------------------------------
 */
typedef struct section {
  const char *name;
  braid_desc desc;
  uint8_t *data;
} section;

struct braid_checkpoint_file {
  const braid_allocator *allocator;
  braid_arena *arena;
  braid_name_map *names;
  section *sections;
  size_t count, capacity;
};

/* Read piece by piece, each as large as what was read before it says and the file can hold. */
typedef struct cursor {
  const char *path;
  braid_reader *reader;
  size_t bytes, at;
  uint32_t file_crc, section_crc;
} cursor;

static braid_status can_take(const cursor *c, size_t bytes, const char *what) {
  if (bytes <= c->bytes - c->at) return BRAID_OK;
  return braid_fail(BRAID_INVALID_FILE, "%s: byte %zu: ends within %s", c->path, c->at, what);
}

static braid_status take(cursor *c, void *out, size_t bytes, const char *what) {
  BRAID_TRY(can_take(c, bytes, what));
  BRAID_TRY(braid_reader_get(c->reader, c->at, out, bytes));
  c->section_crc = crc_of(c->section_crc, out, bytes);
  c->file_crc = crc_of(c->file_crc, out, bytes);
  c->at += bytes;
  return BRAID_OK;
}

static braid_status take_name(braid_checkpoint_file *file, cursor *c, const char **out) {
  size_t start = c->at;
  uint16_t length = 0;
  BRAID_TRY(take(c, &length, sizeof length, "the length of a name"));
  BRAID_TRY(can_take(c, length, "a name"));
  char *name = braid_arena_alloc(file->arena, (size_t)length + 1);
  if (!name) return BRAID_NO_MEMORY;
  BRAID_TRY(take(c, name, length, "a name"));
  if (!length || strlen(name) != length)
    return braid_fail(BRAID_INVALID_FILE, "%s: byte %zu: a name that is empty or holds a zero", c->path, start);
  *out = name;
  return BRAID_OK;
}

static braid_status take_desc(cursor *c, const char *name, braid_desc *out) {
  uint8_t type = 0, rank = 0;
  int64_t dims[BRAID_MAX_RANK] = {0};
  BRAID_TRY(take(c, &type, 1, "an element type"));
  BRAID_TRY(take(c, &rank, 1, "a rank"));
  if (type == 0 || type >= kTypeCount || rank > BRAID_MAX_RANK)
    return braid_fail(BRAID_INVALID_FILE,
                      "%s: section %.120s: type %u of rank %u; types 1 to %d, ranks to %d are known", c->path, name,
                      type, rank, kTypeCount - 1, BRAID_MAX_RANK);
  BRAID_TRY(take(c, dims, rank * sizeof *dims, "dimensions"));
  braid_status status = braid_desc_init(out, kTypes[type], rank, dims);
  if (status != BRAID_OK) return braid_fail_prefix(BRAID_INVALID_FILE, "%s: section %.120s", c->path, name);
  return BRAID_OK;
}

static braid_status take_elements(braid_checkpoint_file *file, cursor *c, section *s) {
  size_t bytes = braid_desc_bytes(&s->desc);
  BRAID_TRY(can_take(c, bytes, "the elements of a section"));
  s->data = braid_alloc(file->allocator, bytes);
  return s->data ? take(c, s->data, bytes, "the elements of a section") : BRAID_NO_MEMORY;
}

static braid_status parse_section(braid_checkpoint_file *file, cursor *c) {
  section *sections = braid_grow(file->allocator, file->sections, file->count, &file->capacity, sizeof *sections);
  if (!sections) return BRAID_NO_MEMORY;
  file->sections = sections;
  section *s = &sections[file->count++];
  *s = (section){0};
  c->section_crc = 0;
  BRAID_TRY(take_name(file, c, &s->name));
  BRAID_TRY(take_desc(c, s->name, &s->desc));
  BRAID_TRY(take_elements(file, c, s));
  uint32_t crc = c->section_crc, stored = 0;
  BRAID_TRY(take(c, &stored, kCrcBytes, "a checksum"));
  if (crc != stored) return braid_fail(BRAID_INVALID_FILE, "%s: section %.120s: wrong checksum", c->path, s->name);
  int64_t other;
  if (braid_name_map_get(file->names, s->name, &other))
    return braid_fail(BRAID_INVALID_FILE, "%s: section %.120s stands twice", c->path, s->name);
  return braid_name_map_set(file->names, s->name, (int64_t)file->count - 1);
}

static braid_status parse(braid_checkpoint_file *file, cursor *c) {
  uint8_t magic[8] = {0};
  uint32_t version = 0, count = 0, stored = 0;
  BRAID_TRY(take(c, magic, sizeof magic, "the header"));
  if (memcmp(magic, kMagic, sizeof magic) != 0)
    return braid_fail(BRAID_INVALID_FILE, "%s: is not a checkpoint (does not begin with BRAIDCKP)", c->path);
  BRAID_TRY(take(c, &version, sizeof version, "the header"));
  BRAID_TRY(take(c, &count, sizeof count, "the header"));
  if (version != kVersion)
    return braid_fail(BRAID_INVALID_FILE,
                      "%s: a checkpoint of version %" PRIu32 ", this Braid reads version %d: go on with the Braid that "
                      "wrote it, or start over",
                      c->path, version, kVersion);
  if (count > kMaxSections)
    return braid_fail(BRAID_INVALID_FILE, "%s: %" PRIu32 " sections; at most %d are allowed", c->path, count,
                      kMaxSections);
  for (uint32_t i = 0; i < count; i++) BRAID_TRY(parse_section(file, c));
  uint32_t crc = c->file_crc;
  BRAID_TRY(take(c, &stored, kCrcBytes, "the last checksum"));
  if (crc != stored) return braid_fail(BRAID_INVALID_FILE, "%s: wrong checksum of the file", c->path);
  if (c->at != c->bytes)
    return braid_fail(BRAID_INVALID_FILE, "%s: %zu bytes follow the end", c->path, c->bytes - c->at);
  return BRAID_OK;
}

static braid_status read_checkpoint(const braid_allocator *allocator, braid_reader *reader,
                                    braid_checkpoint_file **out) {
  braid_checkpoint_file *file = braid_zalloc(allocator, sizeof *file);
  if (!file) return BRAID_NO_MEMORY;
  file->allocator = allocator;
  cursor c = {.path = braid_reader_name(reader), .reader = reader, .bytes = braid_reader_bytes(reader)};
  braid_status status = braid_arena_create(allocator, &file->arena);
  if (status == BRAID_OK) status = braid_name_map_create(allocator, &file->names);
  if (status == BRAID_OK) status = parse(file, &c);
  if (status == BRAID_OK) status = braid_reader_check(reader);
  if (status == BRAID_OK)
    *out = file;
  else
    braid_checkpoint_close(file);
  return status;
}

braid_status braid_checkpoint_parse(const braid_allocator *allocator, const char *path, const void *data, size_t bytes,
                                    braid_checkpoint_file **out) {
  *out = NULL;
  braid_reader *reader;
  BRAID_TRY(braid_reader_wrap(allocator, path, data, bytes, &reader));
  braid_status status = read_checkpoint(allocator, reader, out);
  braid_reader_close(reader);
  return status;
}

braid_status braid_checkpoint_open(const braid_allocator *allocator, const char *path, braid_checkpoint_file **out) {
  *out = NULL;
  braid_reader *reader;
  BRAID_TRY(braid_reader_open(allocator, path, kMaxBytes, &reader));
  braid_status status = read_checkpoint(allocator, reader, out);
  braid_reader_close(reader);
  return status;
}

void braid_checkpoint_close(braid_checkpoint_file *file) {
  if (!file) return;
  for (size_t i = 0; i < file->count; i++) braid_free(file->allocator, file->sections[i].data);
  braid_name_map_destroy(file->names);
  braid_arena_destroy(file->arena);
  braid_free(file->allocator, file->sections);
  braid_free(file->allocator, file);
}

size_t braid_checkpoint_count(const braid_checkpoint_file *file) {
  return file->count;
}

const char *braid_checkpoint_name(const braid_checkpoint_file *file, size_t index) {
  return index < file->count ? file->sections[index].name : NULL;
}

const void *braid_checkpoint_find(const braid_checkpoint_file *file, const char *name, braid_desc *desc) {
  int64_t index;
  if (!braid_name_map_get(file->names, name, &index)) return NULL;
  *desc = file->sections[index].desc;
  return file->sections[index].data;
}

/* --- a folder of checkpoints ---------------------------------------------------------------------------------------
 */
typedef struct listing {
  int64_t *steps; /* falling */
  size_t count, capacity;
} listing;

static int by_step_falling(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x < y) - (x > y);
}

static braid_status list(const braid_allocator *allocator, const char *directory, listing *out) {
  *out = (listing){0};
  DIR *folder = opendir(directory);
  if (!folder) {
    if (errno == ENOENT) return BRAID_OK;
    return braid_fail(BRAID_IO, "%s: %s", directory, strerror(errno));
  }
  braid_status status = BRAID_OK;
  for (struct dirent *entry; status == BRAID_OK && (entry = readdir(folder));) {
    int64_t step;
    int used = 0;
    if (sscanf(entry->d_name, "checkpoint-%" SCNd64 ".braid%n", &step, &used) != 1 || used == 0 ||
        entry->d_name[used] != 0 || step < 0)
      continue;
    int64_t *steps = braid_grow(allocator, out->steps, out->count, &out->capacity, sizeof *steps);
    if (!steps) {
      status = BRAID_NO_MEMORY;
      break;
    }
    out->steps = steps;
    steps[out->count++] = step;
  }
  closedir(folder);
  if (out->count > 1) qsort(out->steps, out->count, sizeof *out->steps, by_step_falling);
  return status;
}

static void path_of(char *buffer, size_t bytes, const char *directory, int64_t step) {
  snprintf(buffer, bytes, "%s/checkpoint-%010" PRId64 ".braid", directory, step);
}

braid_status braid_checkpoint_newest(const braid_allocator *allocator, const braid_log *log, const char *directory,
                                     int64_t most, int64_t *step, braid_checkpoint_file **out) {
  *out = NULL;
  listing found;
  braid_status status = list(allocator, directory, &found);
  for (size_t i = 0; status == BRAID_OK && i < found.count && !*out; i++) {
    char path[4096];
    if (found.steps[i] > most) continue;
    *step = found.steps[i];
    path_of(path, sizeof path, directory, found.steps[i]);
    status = braid_checkpoint_open(allocator, path, out);
    if (status != BRAID_INVALID_FILE || i + 1 == found.count) continue;
    braid_log_write(log, BRAID_LOG_WARNING, "%s; going on from an older checkpoint", braid_error_detail());
    status = BRAID_OK;
  }
  braid_free(allocator, found.steps);
  return status;
}

void braid_checkpoint_prune(const braid_allocator *allocator, const braid_log *log, const char *directory,
                            size_t keep) {
  listing found;
  if (list(allocator, directory, &found) == BRAID_OK)
    for (size_t i = keep; i < found.count; i++) {
      char path[4096];
      path_of(path, sizeof path, directory, found.steps[i]);
      if (unlink(path) != 0) braid_log_write(log, BRAID_LOG_WARNING, "%s: cannot remove: %s", path, strerror(errno));
    }
  braid_free(allocator, found.steps);
}
