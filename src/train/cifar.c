/* CIFAR-10 and CIFAR-100, binary version: records of one or two label bytes and 3 x 32 x 32 pixels. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/try.h"
#include "train/dataset.h"

enum { kSide = 32, kPixels = 3 * kSide * kSide, kMaxFiles = 5 };

static const char *const kNames[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                     "dog",      "frog",       "horse", "ship", "truck"};

typedef struct cifar {
  const braid_allocator *allocator;
  braid_file_view files[kMaxFiles];
  int file_count;
  int64_t first[kMaxFiles + 1]; /* number of the first sample of each file, and of the end */
  size_t label_bytes;
} cifar;

static braid_status read_sample(void *self, int64_t index, float *pixels, int32_t *label) {
  const cifar *set = self;
  int file = 0;
  while (index >= set->first[file + 1]) file++;
  const uint8_t *record = set->files[file].data + (size_t)(index - set->first[file]) * (set->label_bytes + kPixels);
  *label = record[set->label_bytes - 1]; /* CIFAR-100: the coarse label stands first */
  for (size_t i = 0; i < kPixels; i++) pixels[i] = record[set->label_bytes + i];
  return BRAID_OK;
}

static void close_set(void *self) {
  cifar *set = self;
  for (int i = 0; i < set->file_count; i++) braid_file_close(&set->files[i]);
  braid_free(set->allocator, set);
}

static braid_status open_file(cifar *set, const char *folder, const char *name) {
  char path[4096];
  if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path)
    return braid_fail(BRAID_INVALID_ARGUMENT, "data: the path of %s is too long", name);
  braid_file_view *view = &set->files[set->file_count];
  BRAID_TRY(braid_file_open(set->allocator, path, 0, view));
  set->file_count++;
  size_t record = set->label_bytes + kPixels;
  if (view->bytes == 0 || view->bytes % record != 0)
    return braid_fail(BRAID_INVALID_FILE, "%s: %zu bytes, a multiple of %zu (label and pixels) is expected", path,
                      view->bytes, record);
  set->first[set->file_count] = set->first[set->file_count - 1] + (int64_t)(view->bytes / record);
  return BRAID_OK;
}

static braid_status open_files(cifar *set, const braid_spec *spec) {
  bool test = strcmp(spec->split, "test") == 0;
  if (set->label_bytes == 2) return open_file(set, spec->path, test ? "test.bin" : "train.bin");
  if (test) return open_file(set, spec->path, "test_batch.bin");
  for (int i = 1; i <= kMaxFiles; i++) {
    char name[32];
    snprintf(name, sizeof name, "data_batch_%d.bin", i);
    BRAID_TRY(open_file(set, spec->path, name));
  }
  return BRAID_OK;
}

braid_status braid_source_cifar(const braid_allocator *allocator, const braid_spec *spec, braid_source *out) {
  cifar *set = braid_zalloc(allocator, sizeof *set);
  if (!set) return BRAID_NO_MEMORY;
  bool fine = strcmp(spec->kind, "cifar100") == 0;
  set->allocator = allocator;
  set->label_bytes = fine ? 2 : 1;
  braid_status status = open_files(set, spec);
  if (status != BRAID_OK) {
    close_set(set);
    return status;
  }
  *out = (braid_source){.self = set,
                        .samples = set->first[set->file_count],
                        .channels = 3,
                        .height = kSide,
                        .width = kSide,
                        .classes = fine ? 100 : 10,
                        .class_names = fine ? NULL : kNames,
                        .read = read_sample,
                        .close = close_set};
  return BRAID_OK;
}
