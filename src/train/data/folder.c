/* A folder per class of JPEG and PNG files: in PATH/train and PATH/test, or in PATH alone, where every tenth image of
 * a class is for testing. Labels count the folders of PATH/train (of PATH) in the order of their names, also where a
 * folder is empty: both splits agree on them. Pictures are read and decoded each time they are wanted, and take the
 * size of SPEC or that of the first one; one whose bytes are not those of the first time is refused.
 *
 * The checksum covers the name, label and size of every file, and the bytes of all of them where they are no more than
 * kMostSummed; else of files evenly over the set, as many as that allows. Nothing is decoded for it. */
#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include <zlib.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "base/vector.h"
#include "train/data/augment.h"
#include "train/data/image.h"
#include "train/data/listing.h"

enum { kTestEvery = 10 };
static const size_t kMostSummed = (size_t)256 << 20; /* read in a second or so from any disk */

typedef struct image_file {
  const char *path;
  int32_t label;
  _Atomic uint64_t seen; /* length and checksum of its bytes when they were first read; 0: not yet */
} image_file;

typedef struct folder {
  const braid_allocator *allocator;
  braid_arena *arena;
  image_file *images;
  size_t image_count, image_capacity;
  const char **classes;
  size_t class_count, class_capacity;
  size_t root;        /* how much of each path leads to the set */
  braid_spec spec;    /* without its path */
  braid_listing list; /* of pictures that a file lists, with their targets; of none: cleared */
  int channels, height, width;
} folder;

static int by_name(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

static int visible(const struct dirent *entry) {
  return entry->d_name[0] != '.';
}

static bool is_image(const char *name) {
  static const char *const kEndings[] = {".jpg", ".jpeg", ".png"};
  const char *dot = strrchr(name, '.');
  for (size_t i = 0; dot && i < 3; i++)
    if (strcasecmp(dot, kEndings[i]) == 0) return true;
  return false;
}

static const char *join(folder *f, const char *a, const char *b) {
  size_t first = strlen(a), second = strlen(b);
  char *path = braid_arena_alloc(f->arena, first + second + 2);
  if (!path) return NULL;
  memcpy(path, a, first);
  path[first] = '/';
  memcpy(path + first + 1, b, second + 1);
  return path;
}

static bool is_folder(const char *path) {
  struct stat about;
  return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static braid_status add_image(folder *f, const char *path, size_t label) {
  image_file *grown = braid_grow(f->allocator, f->images, f->image_count, &f->image_capacity, sizeof *f->images);
  if (!path || !grown) return BRAID_NO_MEMORY;
  f->images = grown;
  image_file *p = &f->images[f->image_count++];
  p->path = path;
  p->label = (int32_t)label;
  atomic_init(&p->seen, 0);
  return BRAID_OK;
}

static braid_status add_class(folder *f, const char *name) {
  const char **grown = braid_grow(f->allocator, f->classes, f->class_count, &f->class_capacity, sizeof *f->classes);
  char *copy = braid_arena_text(f->arena, name, strlen(name));
  if (grown) f->classes = grown;
  if (!grown || !copy) return BRAID_NO_MEMORY;
  f->classes[f->class_count++] = copy;
  return BRAID_OK;
}

/* Entries of a folder in the order of their names; *count of them, each and the array freed with free. */
static braid_status list(const char *path, struct dirent ***entries, int *count) {
  *entries = NULL;
  *count = scandir(path, entries, visible, by_name);
  if (*count >= 0) return BRAID_OK;
  int error = errno;
  *count = 0;
  if (error == ENOMEM) return BRAID_NO_MEMORY;
  return braid_fail(error == ENOENT ? BRAID_NOT_FOUND : BRAID_IO, "%s: cannot list the folder: %s", path,
                    strerror(error));
}

static braid_status list_classes(folder *f, const char *path) {
  struct dirent **entries;
  int count;
  braid_status status = list(path, &entries, &count);
  for (int i = 0; i < count; i++) {
    const char *inner = status == BRAID_OK ? join(f, path, entries[i]->d_name) : NULL;
    if (status == BRAID_OK && !inner) status = BRAID_NO_MEMORY;
    if (status == BRAID_OK && is_folder(inner)) status = add_class(f, entries[i]->d_name);
    free(entries[i]);
  }
  free(entries);
  return status;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A folder that training does not know has no label. */
static braid_status check_classes(folder *f, const char *path) {
  struct dirent **entries;
  int count;
  braid_status status = list(path, &entries, &count);
  for (int i = 0; i < count; i++) {
    const char *name = entries[i]->d_name, *inner = status == BRAID_OK ? join(f, path, name) : NULL;
    if (status == BRAID_OK && !inner) status = BRAID_NO_MEMORY;
    if (status == BRAID_OK && is_folder(inner) &&
        !bsearch(&name, f->classes, f->class_count, sizeof *f->classes, compare_names))
      status = braid_fail(BRAID_INVALID_FILE, "%s: there is no class of this name for training", inner);
    free(entries[i]);
  }
  free(entries);
  return status;
}

/* The images of one class: all, or those of a split. */
static braid_status list_images(folder *f, const char *path, size_t label, bool divide, bool test) {
  struct dirent **entries;
  int count, images = 0;
  braid_status status = list(path, &entries, &count);
  for (int i = 0; i < count; i++) {
    if (status == BRAID_OK && is_image(entries[i]->d_name)) {
      bool of_test = images++ % kTestEvery == kTestEvery - 1;
      if (!divide || of_test == test) status = add_image(f, join(f, path, entries[i]->d_name), label);
    }
    free(entries[i]);
  }
  free(entries);
  return status;
}

/* Pictures have the targets of the list in its order. */
static braid_status take_listing(folder *f, const braid_spec *spec, const char *root, const char *name) {
  for (size_t i = 0; i < f->list.samples; i++) {
    const char *path = join(f, root, f->list.files[i]);
    struct stat about;
    if (path && stat(path, &about) != 0)
      return braid_fail(BRAID_NOT_FOUND, "%s: %s; it is picture %zu of the list %s", path, strerror(errno), i + 1,
                        name);
    BRAID_TRY(add_image(f, path, f->list.labels ? (size_t)f->list.labels[i] : 0));
  }
  for (size_t i = 0; i < f->list.name_count; i++) BRAID_TRY(add_class(f, f->list.names[i]));
  if (f->image_count) return BRAID_OK;
  return braid_fail(BRAID_INVALID_FILE, "%s: no picture is left for %s", name, spec->split);
}

static braid_status list_samples(folder *f, const braid_spec *spec) {
  const char *train = join(f, spec->path, "train"), *test = join(f, spec->path, "test");
  if (!train || !test) return BRAID_NO_MEMORY;
  if (!is_folder(test)) { /* as some name it */
    const char *other = join(f, spec->path, "val");
    if (!other) return BRAID_NO_MEMORY;
    if (is_folder(other)) test = other;
  }
  bool testing = strcmp(spec->split, "test") == 0, divided = !is_folder(train) && !is_folder(test);
  const char *samples = divided ? spec->path : testing ? test : train;
  BRAID_TRY(list_classes(f, divided ? spec->path : is_folder(train) ? train : test));
  if (samples == test) BRAID_TRY(check_classes(f, test));
  for (size_t i = 0; i < f->class_count; i++) {
    const char *path = join(f, samples, f->classes[i]);
    if (!path) return BRAID_NO_MEMORY;
    if (samples == test && !is_folder(path)) continue;
    BRAID_TRY(list_images(f, path, i, divided, testing));
  }
  if (f->image_count) return BRAID_OK;
  if (divided && f->class_count && testing)
    return braid_fail(BRAID_INVALID_FILE, "%s: no class has the %d images of which one is for testing", spec->path,
                      kTestEvery);
  return braid_fail(BRAID_INVALID_FILE, "%s: a folder per class with JPEG or PNG files is expected", samples);
}

/* Several threads may read one image for the first time. */
static braid_status check_same(image_file *p, const braid_file_view *view) {
  uint64_t now = (uint64_t)view->bytes << 32 | (uint32_t)crc32_z(0, view->data, view->bytes), then = 0;
  if (atomic_compare_exchange_strong(&p->seen, &then, now) || then == now) return BRAID_OK;
  return braid_fail(BRAID_IO, "%s: changed since it was first read", p->path);
}

static braid_status decode(const folder *f, image_file *p, braid_image *image) {
  braid_file_view view;
  BRAID_TRY(braid_file_open(f->allocator, p->path, BRAID_IMAGE_MAX_BYTES, &view));
  braid_status status = check_same(p, &view);
  if (status == BRAID_OK) status = braid_image_decode(f->allocator, p->path, view.data, view.bytes, image);
  braid_file_close(&view);
  return status;
}

static braid_status sum_bytes(const folder *f, image_file *p, uint32_t *sum) {
  braid_file_view view;
  BRAID_TRY(braid_file_open(f->allocator, p->path, 0, &view));
  braid_status status = check_same(p, &view);
  if (status == BRAID_OK) *sum = (uint32_t)crc32_z(*sum, view.data, view.bytes);
  braid_file_close(&view);
  return status;
}

static braid_status sum_folder(void *self, int64_t samples, uint32_t *sum) {
  folder *f = self;
  uint64_t total = 0;
  for (int64_t i = 0; i < samples; i++) {
    const image_file *p = &f->images[i];
    const char *name = p->path + f->root;
    struct stat about;
    if (stat(p->path, &about) != 0) return braid_fail(BRAID_IO, "%s: %s", p->path, strerror(errno));
    int64_t size = (int64_t)about.st_size;
    total += (uint64_t)size;
    *sum = (uint32_t)crc32_z(*sum, (const uint8_t *)name, strlen(name) + 1);
    *sum = (uint32_t)crc32_z(*sum, (const uint8_t *)&p->label, sizeof p->label);
    *sum = (uint32_t)crc32_z(*sum, (const uint8_t *)&size, sizeof size);
    if (f->list.values)
      *sum = (uint32_t)crc32_z(*sum, (const uint8_t *)(f->list.values + (size_t)i * f->list.name_count),
                               f->list.name_count * sizeof *f->list.values);
  }
  int64_t every = (int64_t)(total / kMostSummed) + 1;
  for (int64_t i = 0; i < samples; i += every) BRAID_TRY(sum_bytes(f, &f->images[i], sum));
  return BRAID_OK;
}

static void to_planes(const braid_image *image, float *planes) {
  size_t plane = (size_t)image->height * (size_t)image->width, channels = (size_t)image->channels;
  for (size_t c = 0; c < channels; c++)
    for (size_t i = 0; i < plane; i++) planes[c * plane + i] = image->pixels[i * channels + c];
}

static void target_of(void *self, int64_t index, void *target) {
  const folder *f = self;
  if (f->list.samples)
    braid_listing_target(&f->list, (size_t)index, target);
  else
    *(int32_t *)target = f->images[index].label;
}

/* Pictures of a folder differ in size and channels: each is made to fit here. */
static braid_status read_sample(void *self, int64_t index, const braid_augment *how, float *pixels, void *target) {
  const folder *f = self;
  image_file *p = &f->images[index];
  braid_image image;
  BRAID_TRY(decode(f, p, &image));
  size_t plane = (size_t)image.height * (size_t)image.width;
  size_t floats = plane * 3;
  float *room = braid_zalloc_array(
      f->allocator,
      2 * floats + braid_image_resize_scratch(f->channels, image.height, image.width, f->height, f->width),
      sizeof *room);
  braid_status status = room ? BRAID_OK : BRAID_NO_MEMORY;
  if (status == BRAID_OK && !braid_image_can_convert(image.channels, f->channels))
    status = braid_fail(BRAID_INVALID_FILE, "%s: %d channels do not become %d", p->path, image.channels, f->channels);
  if (status == BRAID_OK) {
    to_planes(&image, room);
    braid_image_convert(room, image.channels, room + floats, f->channels, plane);
    braid_window window = braid_augment_window(&f->spec, how, image.height, image.width);
    braid_augment_cut(room + floats, f->channels, image.height, image.width, &window);
    braid_image_resize(room + floats, f->channels, window.height, window.width, pixels, f->height, f->width,
                       room + 2 * floats);
    target_of(self, index, target);
  }
  braid_free(f->allocator, room);
  braid_free(f->allocator, image.pixels);
  return status;
}

static void close_folder(void *self) {
  folder *f = self;
  braid_free(f->allocator, f->images);
  braid_free(f->allocator, f->classes);
  braid_listing_deinit(&f->list);
  braid_arena_destroy(f->arena);
  braid_free(f->allocator, f);
}

static braid_status open_folder(folder *f, const braid_spec *spec) {
  BRAID_TRY(braid_arena_create(f->allocator, &f->arena));
  bool coco = strcmp(spec->kind, "coco") == 0;
  const char *root = coco ? spec->images : spec->path, *name = coco ? spec->path : spec->labels;
  if (coco)
    BRAID_TRY(braid_coco_list(f->allocator, spec, &f->list));
  else if (spec->labels[0])
    BRAID_TRY(braid_table_list(f->allocator, spec, name, &f->list));
  BRAID_TRY(coco || spec->labels[0] ? take_listing(f, spec, root, name) : list_samples(f, spec));
  f->root = strlen(root) + 1;
  f->spec = *spec;
  f->spec.path = NULL;
  f->channels = spec->channels ? spec->channels : 3;
  f->height = spec->height;
  f->width = spec->width;
  if (f->height) return BRAID_OK;
  braid_file_view view;
  BRAID_TRY(braid_file_open(f->allocator, f->images[0].path, BRAID_IMAGE_MAX_BYTES, &view));
  braid_status status = check_same(&f->images[0], &view);
  if (status == BRAID_OK) status = braid_image_size(f->images[0].path, view.data, view.bytes, &f->height, &f->width);
  braid_file_close(&view);
  return status;
}

braid_status braid_source_folder(const braid_allocator *allocator, const braid_spec *spec, braid_source *out) {
  folder *f = braid_zalloc(allocator, sizeof *f);
  if (!f) return BRAID_NO_MEMORY;
  f->allocator = f->list.allocator = allocator;
  braid_status status = open_folder(f, spec);
  if (status != BRAID_OK) {
    close_folder(f);
    return status;
  }
  *out = (braid_source){.self = f,
                        .samples = (int64_t)f->image_count,
                        .channels = f->channels,
                        .height = f->height,
                        .width = f->width,
                        .classes = (int)f->class_count,
                        .kind = f->list.kind,
                        .one_part = strcmp(spec->kind, "coco") == 0,
                        .class_names = f->classes,
                        .read = read_sample,
                        .windows = true,
                        .target = target_of,
                        .sum = sum_folder,
                        .close = close_folder};
  return BRAID_OK;
}
