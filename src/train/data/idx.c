#include "train/data/idx.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <zlib.h>

#include "base/checked.h"
#include "base/file.h"
#include "base/try.h"
#include "train/data/dataset.h"

static const size_t kMaxBytes = (size_t)1 << 32; /* of a file; what a small gzip file unpacks to as well */

static uint32_t read_u32(const uint8_t *at) {
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

braid_status braid_idx_parse(const char *name, const uint8_t *data, size_t bytes, braid_idx *out) {
  *out = (braid_idx){0};
  if (bytes < 4 || data[0] || data[1] || data[2] != 0x08 || data[3] < 1 || data[3] > BRAID_IDX_MAX_RANK)
    return braid_fail(BRAID_INVALID_FILE, "%s: not an IDX file of unsigned bytes with 1 to %d dimensions", name,
                      BRAID_IDX_MAX_RANK);
  size_t head = 4 + 4 * (size_t)data[3], elements = 1;
  if (bytes < head) return braid_fail(BRAID_INVALID_FILE, "%s: ends within its header of %zu bytes", name, head);
  out->rank = data[3];
  for (int i = 0; i < out->rank; i++) {
    out->dims[i] = read_u32(data + 4 + 4 * i);
    if (!braid_mul_size(elements, out->dims[i], &elements))
      return braid_fail(BRAID_INVALID_FILE, "%s: dimension %d of %u overflows", name, i, out->dims[i]);
  }
  if (bytes - head != elements)
    return braid_fail(BRAID_INVALID_FILE, "%s: %zu bytes follow the header, its dimensions say %zu", name, bytes - head,
                      elements);
  out->elements = data + head;
  return BRAID_OK;
}

typedef struct idx_file {
  braid_file_view view;
  uint8_t *unpacked; /* NULL: the file is not compressed */
  braid_idx content;
} idx_file;

typedef struct idx_set {
  const braid_allocator *allocator;
  idx_file images, labels;
  size_t sample_bytes;
} idx_set;

static braid_status gunzip(const braid_allocator *allocator, const char *path, const braid_file_view *view,
                           uint8_t **out, size_t *out_bytes) {
  z_stream stream = {0};
  size_t capacity = (size_t)1 << 20;
  *out = braid_alloc(allocator, capacity);
  *out_bytes = 0;
  if (!*out || inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) return BRAID_NO_MEMORY;
  stream.next_in = (Bytef *)(uintptr_t)view->data;
  stream.avail_in = view->bytes > UINT32_MAX ? UINT32_MAX : (uInt)view->bytes;
  int result = Z_OK;
  braid_status status = BRAID_OK;
  while (status == BRAID_OK && result == Z_OK) {
    if (*out_bytes == capacity) {
      uint8_t *grown = capacity < kMaxBytes ? braid_alloc(allocator, capacity * 2) : NULL;
      if (!grown) {
        status = capacity < kMaxBytes ? BRAID_NO_MEMORY
                                      : braid_fail(BRAID_OUT_OF_RANGE, "%s: unpacks to more than the %zu bytes allowed",
                                                   path, kMaxBytes);
        break;
      }
      memcpy(grown, *out, capacity);
      braid_free(allocator, *out);
      *out = grown;
      capacity *= 2;
    }
    size_t room = capacity - *out_bytes;
    stream.next_out = *out + *out_bytes;
    stream.avail_out = room > UINT32_MAX ? UINT32_MAX : (uInt)room;
    uInt before = stream.avail_out;
    result = inflate(&stream, Z_NO_FLUSH);
    *out_bytes += before - stream.avail_out;
  }
  if (status == BRAID_OK && result != Z_STREAM_END)
    status = braid_fail(BRAID_INVALID_FILE, "%s: %s after %zu bytes", path,
                        stream.msg ? stream.msg : "the compressed data ends", *out_bytes);
  inflateEnd(&stream);
  return status;
}

/* FOLDER/NAME, or FOLDER/NAME.gz where that is missing. */
static braid_status open_idx(const braid_allocator *allocator, const char *folder, const char *name, idx_file *out) {
  char path[4096];
  struct stat about;
  if ((size_t)snprintf(path, sizeof path, "%s/%s.gz", folder, name) >= sizeof path)
    return braid_fail(BRAID_INVALID_ARGUMENT, "data: the path of %s is too long", name);
  bool packed = stat(path, &about) == 0;
  path[strlen(path) - 3] = '\0';
  packed = packed && stat(path, &about) != 0;
  if (packed) memcpy(path + strlen(path), ".gz", 4);
  BRAID_TRY(braid_file_open(allocator, path, kMaxBytes, &out->view));
  const uint8_t *data = out->view.data;
  size_t bytes = out->view.bytes;
  if (packed) {
    BRAID_TRY(gunzip(allocator, path, &out->view, &out->unpacked, &bytes));
    braid_file_close(&out->view);
    data = out->unpacked;
  }
  return braid_idx_parse(path, data, bytes, &out->content);
}

static void close_idx(const braid_allocator *allocator, idx_file *file) {
  braid_free(allocator, file->unpacked);
  braid_file_close(&file->view);
}

static void close_set(void *self) {
  idx_set *set = self;
  close_idx(set->allocator, &set->images);
  close_idx(set->allocator, &set->labels);
  braid_free(set->allocator, set);
}

static const uint8_t *find_sample(void *self, int64_t index, void *target) {
  const idx_set *set = self;
  *(int32_t *)target = set->labels.content.elements[index];
  return set->images.content.elements + (size_t)index * set->sample_bytes;
}

static braid_status open_set(idx_set *set, const braid_spec *spec) {
  bool test = strcmp(spec->split, "test") == 0;
  BRAID_TRY(
      open_idx(set->allocator, spec->path, test ? "t10k-images-idx3-ubyte" : "train-images-idx3-ubyte", &set->images));
  BRAID_TRY(
      open_idx(set->allocator, spec->path, test ? "t10k-labels-idx1-ubyte" : "train-labels-idx1-ubyte", &set->labels));
  const braid_idx *images = &set->images.content, *labels = &set->labels.content;
  if (images->rank != 3 || labels->rank != 1 || !images->dims[1] || !images->dims[2] || images->dims[1] > 16384 ||
      images->dims[2] > 16384)
    return braid_fail(BRAID_INVALID_FILE, "%s: images of three dimensions and labels of one are expected", spec->path);
  if (images->dims[0] != labels->dims[0])
    return braid_fail(BRAID_INVALID_FILE, "%s: %u images and %u labels", spec->path, images->dims[0], labels->dims[0]);
  set->sample_bytes = (size_t)images->dims[1] * images->dims[2];
  return BRAID_OK;
}

braid_status braid_source_idx(const braid_allocator *allocator, const braid_spec *spec, braid_source *out) {
  idx_set *set = braid_zalloc(allocator, sizeof *set);
  if (!set) return BRAID_NO_MEMORY;
  set->allocator = allocator;
  set->images.view.allocator = set->labels.view.allocator = allocator;
  braid_status status = open_set(set, spec);
  if (status != BRAID_OK) {
    close_set(set);
    return status;
  }
  const braid_idx *images = &set->images.content;
  int classes = 10;
  for (uint32_t i = 0; i < images->dims[0]; i++)
    if (set->labels.content.elements[i] >= classes) classes = set->labels.content.elements[i] + 1;
  *out = (braid_source){.self = set,
                        .samples = images->dims[0],
                        .channels = 1,
                        .height = (int)images->dims[1],
                        .width = (int)images->dims[2],
                        .classes = classes,
                        .find = find_sample,
                        .close = close_set};
  return BRAID_OK;
}
