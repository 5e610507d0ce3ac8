/* CIFAR-10 and CIFAR-100, the binary versions (Krizhevsky 2009): records of one label byte (CIFAR-100: coarse, fine)
 * and 3 x 32 x 32 pixels, plane by plane. The files are read whole when the set is opened: what becomes of them later
 * changes nothing. */
#include "train/data/cifar.h"

#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"

enum {
  kChannels = 3,
  kSide = 32,
  kPixels = kChannels * kSide * kSide,
  kMaxFiles = 5,
  kMaxNamesBytes = 1 << 16,
  kMaxFileBytes = 1 << 28
};

static const char *const kNames10[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                       "dog",      "frog",       "horse", "ship", "truck"};
/* clang-format off */
static const char *const kNames100[] = {
    "apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle", "bowl", "boy",
    "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle", "chair", "chimpanzee", "clock",
    "cloud", "cockroach", "couch", "crab", "crocodile", "cup", "dinosaur", "dolphin", "elephant", "flatfish", "forest",
    "fox", "girl", "hamster", "house", "kangaroo", "keyboard", "lamp", "lawn_mower", "leopard", "lion", "lizard",
    "lobster", "man", "maple_tree", "motorcycle", "mountain", "mouse", "mushroom", "oak_tree", "orange", "orchid",
    "otter", "palm_tree", "pear", "pickup_truck", "pine_tree", "plain", "plate", "poppy", "porcupine", "possum",
    "rabbit", "raccoon", "ray", "road", "rocket", "rose", "sea", "seal", "shark", "shrew", "skunk", "skyscraper",
    "snail", "snake", "spider", "squirrel", "streetcar", "sunflower", "sweet_pepper", "table", "tank", "telephone",
    "television", "tiger", "tractor", "train", "trout", "tulip", "turtle", "wardrobe", "whale", "willow_tree", "wolf",
    "woman", "worm"};
/* clang-format on */
_Static_assert(sizeof kNames10 / sizeof *kNames10 == 10 && sizeof kNames100 / sizeof *kNames100 == 100,
               "one name per class");

static const struct version {
  const char *kind, *names_file, *test_file;
  const char *train_files[kMaxFiles + 1];
  const char *const *names;
  int label_bytes, classes;
  int64_t train_records, test_records; /* in one file */
} kVersions[] = {
    {"cifar10",
     "batches.meta.txt",
     "test_batch.bin",
     {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
     kNames10,
     1,
     10,
     10000,
     10000},
    {"cifar100", "fine_label_names.txt", "test.bin", {"train.bin"}, kNames100, 2, 100, 50000, 10000},
};

typedef struct cifar {
  const braid_allocator *allocator;
  const struct version *version;
  int64_t records; /* in each file */
  int files;
  braid_file_view views[kMaxFiles];
  char *names_text;
  const char **names;
} cifar;

braid_status braid_cifar_check(const char *name, const uint8_t *data, size_t bytes, int label_bytes, int classes,
                               int64_t records) {
  size_t record = (size_t)label_bytes + kPixels, expected = record * (size_t)records;
  if (bytes != expected)
    return braid_fail(BRAID_INVALID_FILE, "%s: %zu bytes, %zu (%lld records of %zu) are expected", name, bytes,
                      expected, (long long)records, record);
  for (size_t i = 0; i < (size_t)records; i++) {
    int label = data[i * record + (size_t)label_bytes - 1];
    if (label >= classes)
      return braid_fail(BRAID_INVALID_FILE, "%s: record %zu has label %d, 0 to %d are expected", name, i, label,
                        classes - 1);
  }
  return BRAID_OK;
}

static void close_set(void *self) {
  cifar *set = self;
  for (int i = 0; i < set->files; i++) braid_file_close(&set->views[i]);
  braid_free(set->allocator, set->names);
  braid_free(set->allocator, set->names_text);
  braid_free(set->allocator, set);
}

static const uint8_t *find_sample(void *self, int64_t index, void *target) {
  const cifar *set = self;
  size_t labels = (size_t)set->version->label_bytes;
  const uint8_t *record = set->views[index / set->records].data + (size_t)(index % set->records) * (labels + kPixels);
  *(int32_t *)target = record[labels - 1];
  return record + labels;
}

/* FOLDER/FILE; NULL when out of memory. */
static char *join(const cifar *set, const char *folder, const char *file) {
  braid_text path;
  braid_text_init(&path, set->allocator);
  braid_text_printf(&path, "%s/%s", folder, file);
  char *copy = path.failed ? NULL : braid_strdup(set->allocator, path.data);
  braid_text_deinit(&path);
  return copy;
}

static braid_status open_file(cifar *set, const char *folder, const char *file) {
  char *path = join(set, folder, file);
  if (!path) return BRAID_NO_MEMORY;
  braid_file_view *view = &set->views[set->files];
  braid_status status = braid_file_open(set->allocator, path, kMaxFileBytes, view);
  if (status == BRAID_OK) {
    set->files++;
    status = braid_cifar_check(path, view->data, view->bytes, set->version->label_bytes, set->version->classes,
                               set->records);
  }
  braid_free(set->allocator, path);
  return status;
}

/* One name per line, in the order of the labels; empty lines do not count. */
static braid_status split_names(cifar *set, const char *path) {
  int count = 0, classes = set->version->classes;
  for (char *at = set->names_text, *rest; (at = strtok_r(at, "\r\n", &rest)); at = NULL) {
    if (count < classes) set->names[count] = at;
    count++;
  }
  if (count == classes) return BRAID_OK;
  return braid_fail(BRAID_INVALID_FILE, "%s: %d names, one for each of the %d classes is expected", path, count,
                    classes);
}

static braid_status parse_names(cifar *set, const char *path, const braid_file_view *view) {
  if (memchr(view->data, 0, view->bytes))
    return braid_fail(BRAID_INVALID_FILE, "%s: holds a byte of value 0, expected text", path);
  set->names_text = braid_zalloc(set->allocator, view->bytes + 1);
  set->names = braid_zalloc_array(set->allocator, (size_t)set->version->classes, sizeof *set->names);
  if (!set->names_text || !set->names) return BRAID_NO_MEMORY;
  memcpy(set->names_text, view->data, view->bytes);
  return split_names(set, path);
}

/* The names beside the data, where they are. */
static braid_status read_names(cifar *set, const char *folder) {
  char *path = join(set, folder, set->version->names_file);
  if (!path) return BRAID_NO_MEMORY;
  braid_file_view view;
  braid_status status = braid_file_open(set->allocator, path, kMaxNamesBytes, &view);
  if (status == BRAID_OK) {
    status = parse_names(set, path, &view);
    braid_file_close(&view);
  } else if (status == BRAID_NOT_FOUND)
    status = BRAID_OK;
  braid_free(set->allocator, path);
  return status;
}

static braid_status open_files(cifar *set, const braid_spec *spec) {
  bool test = strcmp(spec->split, "test") == 0;
  set->records = test ? set->version->test_records : set->version->train_records;
  if (test) BRAID_TRY(open_file(set, spec->path, set->version->test_file));
  for (const char *const *file = set->version->train_files; !test && *file; file++)
    BRAID_TRY(open_file(set, spec->path, *file));
  return read_names(set, spec->path);
}

braid_status braid_source_cifar(const braid_allocator *allocator, const braid_spec *spec, braid_source *out) {
  cifar *set = braid_zalloc(allocator, sizeof *set);
  if (!set) return BRAID_NO_MEMORY;
  set->allocator = allocator;
  set->version = &kVersions[strcmp(spec->kind, kVersions[0].kind) == 0 ? 0 : 1];
  braid_status status = open_files(set, spec);
  if (status != BRAID_OK) {
    close_set(set);
    return status;
  }
  *out = (braid_source){.self = set,
                        .samples = set->files * set->records,
                        .channels = kChannels,
                        .height = kSide,
                        .width = kSide,
                        .classes = set->version->classes,
                        .class_names = set->names ? set->names : set->version->names,
                        .find = find_sample,
                        .close = close_set};
  return BRAID_OK;
}
