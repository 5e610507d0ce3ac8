#include "train/data/dataset.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <zlib.h>

#include "base/philox.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/try.h"
#include "train/data/augment.h"
#include "train/data/image.h"

enum { kAugmentStream = 0xA06, kFlipStream = 0xA10, kNumbersPerSample = 4 };

struct braid_dataset {
  const braid_allocator *allocator;
  char *text; /* the SPEC as given */
  braid_spec spec;
  braid_source source;
  int64_t samples;
  int channels, height, width;
  bool finite;                           /* every sample is of finite numbers */
  bool direct;                           /* the stored bytes need neither resizing nor other channels */
  float value[BRAID_SPEC_CHANNELS][256]; /* direct: what a byte becomes, by channel of the result */
  char (*numbers)[24];                   /* "0", "1", ...: names where the source has none */
  const char **class_names;              /* points into numbers, or copies the source's */
};

static const struct {
  const char *name;
  braid_status (*open)(const braid_allocator *allocator, const braid_spec *spec, braid_source *out);
} kKinds[] = {
    {"cifar10", braid_source_cifar}, {"cifar100", braid_source_cifar}, {"idx", braid_source_idx},
    {"images", braid_source_folder}, {"npy", braid_source_npy},        {"builtin", braid_source_glyphs},
    {"csv", braid_source_csv},       {"coco", braid_source_folder},
};

static braid_status open_source(braid_dataset *dataset) {
  for (size_t i = 0; i < sizeof kKinds / sizeof *kKinds; i++)
    if (strcmp(dataset->spec.kind, kKinds[i].name) == 0)
      return kKinds[i].open(dataset->allocator, &dataset->spec, &dataset->source);
  return braid_fail(
      BRAID_INVALID_ARGUMENT,
      "data: unknown kind \"%.16s\"; there are cifar10, cifar100, idx, images, npy, csv, coco and builtin",
      dataset->spec.kind);
}

/* The pixels that are mirrored are all in the window that training cuts out, and in those that tests look through. */
static braid_status check_borders(const braid_dataset *dataset) {
  const braid_spec *spec = &dataset->spec;
  int side = dataset->height < dataset->width ? dataset->height : dataset->width;
  if (spec->crop && spec->reflect && 2 * spec->pad >= side)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "%s: pad=%d with border=reflect on pictures of %dx%d; less than half of the shorter side is "
                      "expected",
                      dataset->text, spec->pad, dataset->height, dataset->width);
  if (spec->view_shifted && side < 3)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%s: views=shift on pictures of %dx%d; sides of 3 pixels are expected",
                      dataset->text, dataset->height, dataset->width);
  return BRAID_OK;
}

static braid_status check_source(const braid_dataset *dataset) {
  const braid_source *source = &dataset->source;
  if (source->samples < 1) return braid_fail(BRAID_INVALID_FILE, "%s: has no samples", dataset->text);
  if (source->classes < 1 || source->classes > BRAID_MAX_CLASSES)
    return braid_fail(BRAID_INVALID_FILE, "%s: has %d classes, 1 to %d are expected", dataset->text, source->classes,
                      BRAID_MAX_CLASSES);
  if (!braid_image_can_convert(source->channels, dataset->channels))
    return braid_fail(BRAID_INVALID_ARGUMENT, "%s: %d channels do not become %d", dataset->text, source->channels,
                      dataset->channels);
  BRAID_TRY(braid_augment_check(&dataset->spec, dataset->text, dataset->channels));
  BRAID_TRY(check_borders(dataset));
  return braid_image_check(&dataset->spec, dataset->text, dataset->channels);
}

static braid_status name_classes(braid_dataset *dataset) {
  size_t classes = (size_t)dataset->source.classes;
  dataset->class_names = braid_zalloc_array(dataset->allocator, classes, sizeof *dataset->class_names);
  if (!dataset->class_names) return BRAID_NO_MEMORY;
  if (!dataset->source.class_names) {
    dataset->numbers = braid_zalloc_array(dataset->allocator, classes, sizeof *dataset->numbers);
    if (!dataset->numbers) return BRAID_NO_MEMORY;
  }
  for (size_t i = 0; i < classes; i++) {
    if (dataset->numbers) snprintf(dataset->numbers[i], sizeof dataset->numbers[i], "%zu", i);
    dataset->class_names[i] = dataset->numbers ? dataset->numbers[i] : dataset->source.class_names[i];
  }
  return BRAID_OK;
}

static size_t plane_of(int height, int width) {
  return (size_t)height * (size_t)width;
}

/* Through the same arithmetic as pictures that take the long way, so that both give the same bits. */
static void tabulate(braid_dataset *dataset) {
  const braid_source *source = &dataset->source;
  dataset->direct = source->find && dataset->channels == source->channels && dataset->height == source->height &&
                    dataset->width == source->width;
  if (!dataset->direct) return;
  for (int c = 0; c < dataset->channels; c++)
    for (int byte = 0; byte < 256; byte++) dataset->value[c][byte] = (float)byte;
  braid_image_normalize(&dataset->spec, 1.0 / 255, dataset->value[0], dataset->channels, 256);
}

/* Of bytes: where the least and the largest are finite once they are normalized, all are. */
static bool gives_finite(const braid_dataset *dataset) {
  float ends[BRAID_SPEC_CHANNELS][2];
  bool finite = !dataset->source.is_float;
  for (int c = 0; c < dataset->channels; c++) ends[c][0] = 0, ends[c][1] = 255;
  braid_image_normalize(&dataset->spec, 1.0 / 255, ends[0], dataset->channels, 2);
  for (int c = 0; c < dataset->channels; c++) finite &= isfinite(ends[c][0]) && isfinite(ends[c][1]);
  return finite;
}

/* Once text, spec and source are there. */
static braid_status dataset_fill(braid_dataset *dataset) {
  const braid_source *source = &dataset->source;
  dataset->samples = source->samples;
  if (dataset->spec.limit && dataset->spec.limit < source->samples) dataset->samples = dataset->spec.limit;
  dataset->channels = dataset->spec.channels ? dataset->spec.channels : source->channels;
  dataset->height = dataset->spec.height ? dataset->spec.height : source->height;
  dataset->width = dataset->spec.width ? dataset->spec.width : source->width;
  BRAID_TRY(check_source(dataset));
  tabulate(dataset);
  dataset->finite = gives_finite(dataset);
  return name_classes(dataset);
}

static braid_status fill_from_spec(braid_dataset *dataset, const char *spec, const char *default_split) {
  dataset->text = braid_strdup(dataset->allocator, spec);
  if (!dataset->text) return BRAID_NO_MEMORY;
  BRAID_TRY(braid_spec_parse(dataset->allocator, spec, false, default_split, &dataset->spec));
  BRAID_TRY(open_source(dataset));
  return dataset_fill(dataset);
}

braid_status braid_dataset_open(const braid_allocator *allocator, const char *spec, const char *default_split,
                                braid_dataset **out) {
  *out = NULL;
  braid_dataset *dataset = braid_zalloc(allocator, sizeof *dataset);
  if (!dataset) return BRAID_NO_MEMORY;
  dataset->allocator = allocator;
  braid_status status = fill_from_spec(dataset, spec, default_split);
  if (status == BRAID_OK)
    *out = dataset;
  else
    braid_dataset_close(dataset);
  return status;
}

static braid_status fill_from_callback(braid_dataset *dataset, const braid_dataset_source *source, const char *keys) {
  braid_text text;
  braid_text_init(&text, dataset->allocator);
  braid_text_printf(&text, "%s:%s%s%s", BRAID_SPEC_CALLBACK, BRAID_SPEC_CALLBACK, keys && *keys ? "," : "",
                    keys ? keys : "");
  braid_status status =
      text.failed ? BRAID_NO_MEMORY : braid_spec_parse(dataset->allocator, text.data, false, "train", &dataset->spec);
  braid_text_deinit(&text);
  BRAID_TRY(status);
  if (!source->name || !(dataset->text = braid_strdup(dataset->allocator, source->name)))
    return source->name ? BRAID_NO_MEMORY : braid_fail(BRAID_INVALID_ARGUMENT, "data: a name is expected");
  BRAID_TRY(braid_source_callback(dataset->allocator, source, &dataset->source));
  return dataset_fill(dataset);
}

braid_status braid_dataset_create(const braid_allocator *allocator, const braid_dataset_source *source,
                                  const char *keys, braid_dataset **out) {
  *out = NULL;
  braid_dataset *dataset = braid_zalloc(allocator, sizeof *dataset);
  if (!dataset) return BRAID_NO_MEMORY;
  dataset->allocator = allocator;
  braid_status status = fill_from_callback(dataset, source, keys);
  if (status == BRAID_OK) {
    braid_source_callback_own(&dataset->source);
    *out = dataset;
  } else {
    braid_dataset_close(dataset);
  }
  return status;
}

void braid_dataset_close(braid_dataset *dataset) {
  if (!dataset) return;
  if (dataset->source.close) dataset->source.close(dataset->source.self);
  braid_spec_deinit(dataset->allocator, &dataset->spec);
  braid_free(dataset->allocator, dataset->class_names);
  braid_free(dataset->allocator, dataset->numbers);
  braid_free(dataset->allocator, dataset->text);
  braid_free(dataset->allocator, dataset);
}

braid_dataset_info braid_dataset_get_info(const braid_dataset *dataset) {
  return (braid_dataset_info){.spec = dataset->text,
                              .samples = dataset->samples,
                              .channels = dataset->channels,
                              .height = dataset->height,
                              .width = dataset->width,
                              .classes = dataset->source.classes,
                              .class_names = dataset->class_names,
                              .augments = dataset->spec.crop || dataset->spec.flip || dataset->spec.alternating_flip ||
                                          dataset->spec.resized_crop || dataset->spec.colour || dataset->spec.cutout,
                              .views = dataset->spec.view_flipped || dataset->spec.view_shifted,
                              .one_part = dataset->source.one_part,
                              .target = dataset->source.kind,
                              .table = strcmp(dataset->spec.kind, "csv") == 0};
}

bool braid_dataset_is_finite(const braid_dataset *dataset) {
  return dataset->finite;
}

const braid_allocator *braid_dataset_allocator(const braid_dataset *dataset) {
  return dataset->allocator;
}

const braid_spec *braid_dataset_spec(const braid_dataset *dataset) {
  return &dataset->spec;
}

/* Scratch is the sample as stored, then with its channels converted, then what resizing takes; augmentation uses the
 * same place for the picture before cropping. */
static size_t stored_floats(const braid_dataset *dataset) {
  return plane_of(dataset->source.height, dataset->source.width) * (size_t)dataset->source.channels;
}

static size_t converted_floats(const braid_dataset *dataset) {
  size_t stored = plane_of(dataset->source.height, dataset->source.width);
  size_t wanted = plane_of(dataset->height, dataset->width);
  return (stored > wanted ? stored : wanted) * (size_t)dataset->channels;
}

size_t braid_dataset_scratch(const braid_dataset *dataset) {
  return stored_floats(dataset) + converted_floats(dataset) +
         braid_image_resize_scratch(dataset->channels, dataset->source.height, dataset->source.width, dataset->height,
                                    dataset->width);
}

/* What augmentation does to a picture: a window at (top, left), which may reach over the edges into black, mirrored. */
typedef struct change {
  int top, left;
  bool mirrored;
} change;

static change draw_change(const braid_spec *spec, int64_t index, const braid_augment *how) {
  change drawn = {0};
  if (!how) return drawn;
  uint64_t element = how->position * kNumbersPerSample;
  if (spec->crop) {
    uint32_t range = (uint32_t)(2 * spec->pad + 1);
    drawn.top = (int)braid_random_below(how->seed, how->epoch, kAugmentStream, element, range) - spec->pad;
    drawn.left = (int)braid_random_below(how->seed, how->epoch, kAugmentStream, element + 1, range) - spec->pad;
  }
  if (spec->alternating_flip) { /* every second epoch, from the first or the second on */
    bool second = braid_random_below(how->seed, 0, kFlipStream, (uint64_t)index, 2) != 0;
    drawn.mirrored = (how->epoch + second) % 2 != 0;
  }
  if (spec->flip) drawn.mirrored = braid_random_below(how->seed, how->epoch, kAugmentStream, element + 2, 2) != 0;
  return drawn;
}

/* The part of line `y` of the window that lies in the picture: columns *first to *end of the result. */
static bool inside(const braid_dataset *dataset, const change *how, int y, int *first, int *end) {
  int left = how->mirrored ? -how->left : how->left; /* how far the result is moved */
  *first = left < 0 ? -left : 0;
  *end = left > 0 ? dataset->width - left : dataset->width;
  return y + how->top >= 0 && y + how->top < dataset->height && *first < *end;
}

static void crop(const braid_dataset *dataset, const change *how, const float *source, float *target) {
  int width = dataset->width, first, end;
  for (int line = 0; line < dataset->channels * dataset->height; line++, target += width) {
    memset(target, 0, (size_t)width * sizeof *target);
    if (!inside(dataset, how, line % dataset->height, &first, &end)) continue;
    const float *from = source + (ptrdiff_t)(line + how->top) * width + how->left;
    for (int x = first; x < end; x++) target[x] = from[how->mirrored ? width - 1 - x : x];
  }
}

/* What of the window lies outside of the picture becomes the picture mirrored at its edge, the edge itself once. */
static void reflect_borders(const braid_dataset *dataset, const change *how, float *pixels) {
  int width = dataset->width, height = dataset->height, first, end;
  int above = how->top < 0 ? -how->top : 0, below = how->top > 0 ? height - how->top : height;
  size_t bytes = (size_t)width * sizeof *pixels;
  for (int c = 0; c < dataset->channels; c++, pixels += (ptrdiff_t)height * width) {
    for (int y = above; y < below && inside(dataset, how, y, &first, &end); y++) {
      float *line = pixels + (ptrdiff_t)y * width;
      for (int x = 0; x < first; x++) line[x] = line[2 * first - x];
      for (int x = end; x < width; x++) line[x] = line[2 * (end - 1) - x];
    }
    for (int y = 0; y < above; y++)
      memcpy(pixels + (ptrdiff_t)y * width, pixels + (ptrdiff_t)(2 * above - y) * width, bytes);
    for (int y = below; y < height; y++)
      memcpy(pixels + (ptrdiff_t)y * width, pixels + (ptrdiff_t)(2 * (below - 1) - y) * width, bytes);
  }
}

/* Change and normalization of stored bytes in one pass. */
static void convert_bytes(const braid_dataset *dataset, const change *how, const uint8_t *bytes, float *target) {
  int width = dataset->width, height = dataset->height, first, end;
  for (int c = 0; c < dataset->channels; c++) {
    int stored = dataset->spec.bgr && dataset->channels >= 3 && c < 3 ? 2 - c : c;
    const float *value = dataset->value[c];
    for (int y = 0; y < height; y++, target += width) {
      if (!inside(dataset, how, y, &first, &end)) first = end = width;
      for (int x = 0; x < first; x++) target[x] = value[0];
      for (int x = end; x < width; x++) target[x] = value[0];
      if (first == end) continue;
      const uint8_t *from = bytes + (ptrdiff_t)(stored * height + y + how->top) * width + how->left;
      if (how->mirrored)
        for (int x = first; x < end; x++) target[x] = value[from[width - 1 - x]];
      else
        for (int x = first; x < end; x++) target[x] = value[from[x]];
    }
  }
}

static braid_status check_index(const braid_dataset *dataset, int64_t index) {
  if (index >= 0 && index < dataset->samples) return BRAID_OK;
  return braid_fail(BRAID_OUT_OF_RANGE, "%s: sample %lld of %lld", dataset->text, (long long)index,
                    (long long)dataset->samples);
}

size_t braid_dataset_target_bytes(const braid_dataset *dataset) {
  if (dataset->source.kind == BRAID_TARGET_CLASS) return sizeof(int32_t);
  return (size_t)dataset->source.classes * sizeof(float);
}

static braid_status check_target(const braid_dataset *dataset, int64_t index, const void *target) {
  int classes = dataset->source.classes;
  if (dataset->source.kind == BRAID_TARGET_CLASS) {
    int32_t label = *(const int32_t *)target;
    if (label >= 0 && label < classes) return BRAID_OK;
    return braid_fail(BRAID_INVALID_FILE, "%s: sample %lld has label %d, 0 to %d are expected", dataset->text,
                      (long long)index, label, classes - 1);
  }
  bool labels = dataset->source.kind == BRAID_TARGET_LABELS;
  const float *numbers = target;
  for (int i = 0; i < classes; i++)
    if (!isfinite(numbers[i]) || (labels && !(numbers[i] >= 0 && numbers[i] <= 1)))
      return braid_fail(BRAID_INVALID_FILE, "%s: target %d (%.80s) of sample %lld is %g, %s is expected", dataset->text,
                        i, dataset->class_names[i], (long long)index, (double)numbers[i],
                        labels ? "0 to 1" : "a finite number");
  return BRAID_OK;
}

/* The sample in the size and channels of the data set, not normalized. */
static braid_status load(const braid_dataset *dataset, int64_t index, const braid_augment *how, float *scratch,
                         float *pixels, void *target) {
  const braid_source *source = &dataset->source;
  float *converted = scratch + stored_floats(dataset), *rest = converted + converted_floats(dataset);
  if (source->find) {
    const uint8_t *bytes = source->find(source->self, index, target);
    for (size_t i = 0, count = stored_floats(dataset); i < count; i++) scratch[i] = bytes[i];
  } else
    BRAID_TRY(source->read(source->self, index, how, scratch, target));
  braid_image_convert(scratch, source->channels, converted, dataset->channels, plane_of(source->height, source->width));
  braid_window window = {0, 0, source->height, source->width};
  if (!source->windows) window = braid_augment_window(&dataset->spec, how, source->height, source->width);
  braid_augment_cut(converted, dataset->channels, source->height, source->width, &window);
  braid_image_resize(converted, dataset->channels, window.height, window.width, pixels, dataset->height, dataset->width,
                     rest);
  return BRAID_OK;
}

braid_status braid_dataset_read(const braid_dataset *dataset, int64_t index, const braid_augment *augment,
                                float *scratch, float *pixels, void *target) {
  const braid_source *source = &dataset->source;
  change how = draw_change(&dataset->spec, index, augment);
  BRAID_TRY(check_index(dataset, index));
  const braid_spec *spec = &dataset->spec;
  if (dataset->direct && !(augment && (spec->resized_crop || spec->colour))) {
    convert_bytes(dataset, &how, source->find(source->self, index, target), pixels);
    if (spec->reflect) reflect_borders(dataset, &how, pixels);
    if (augment && spec->cutout)
      braid_augment_hole(spec, augment, pixels, dataset->channels, dataset->height, dataset->width);
    return check_target(dataset, index, target);
  }
  BRAID_TRY(load(dataset, index, augment, scratch, pixels, target));
  size_t plane = plane_of(dataset->height, dataset->width);
  if (how.top || how.left || how.mirrored) {
    float *before = scratch + stored_floats(dataset);
    memcpy(before, pixels, plane * (size_t)dataset->channels * sizeof *pixels);
    crop(dataset, &how, before, pixels);
    if (spec->reflect) reflect_borders(dataset, &how, pixels);
  }
  if (augment && spec->colour) {
    float factors[4];
    braid_augment_draw_colour(spec, augment, factors);
    braid_augment_colour(factors, source->is_float ? 0 : 255, pixels, dataset->channels, plane);
  }
  braid_image_normalize(spec, source->is_float ? 1 : 1.0 / 255, pixels, dataset->channels, plane);
  if (augment && spec->cutout)
    braid_augment_hole(spec, augment, pixels, dataset->channels, dataset->height, dataset->width);
  return check_target(dataset, index, target);
}

braid_status braid_dataset_sample(braid_dataset *dataset, int64_t index, float *pixels, void *target) {
  float *scratch = braid_zalloc_array(dataset->allocator, braid_dataset_scratch(dataset), sizeof *scratch);
  if (!scratch) return BRAID_NO_MEMORY;
  braid_status status = braid_dataset_read(dataset, index, NULL, scratch, pixels, target);
  braid_free(dataset->allocator, scratch);
  return status;
}

/* What a pass over all stored samples needs. */
typedef struct reader {
  const braid_dataset *dataset;
  float *pixels; /* NULL: samples need not be read, or are found */
  void *target;
} reader;

static braid_status reader_init(reader *r, const braid_dataset *dataset, bool targets_alone) {
  const braid_source *source = &dataset->source;
  *r = (reader){.dataset = dataset};
  if (!source->find && !(targets_alone && source->target)) {
    r->pixels = braid_zalloc_array(dataset->allocator, stored_floats(dataset), sizeof *r->pixels);
    if (!r->pixels) return BRAID_NO_MEMORY;
  }
  r->target = braid_zalloc(dataset->allocator, braid_dataset_target_bytes(dataset));
  return r->target ? BRAID_OK : BRAID_NO_MEMORY;
}

static void reader_deinit(reader *r) {
  braid_free(r->dataset->allocator, r->pixels);
  braid_free(r->dataset->allocator, r->target);
}

static void count_target(const braid_source *source, const void *target, int64_t *counts) {
  if (source->kind == BRAID_TARGET_CLASS)
    counts[*(const int32_t *)target]++;
  else
    for (int c = 0; c < source->classes; c++) counts[c] += ((const float *)target)[c] >= 0.5f;
}

braid_status braid_dataset_count_classes(const braid_dataset *dataset, int64_t *counts) {
  const braid_source *source = &dataset->source;
  memset(counts, 0, (size_t)source->classes * sizeof *counts);
  reader r;
  braid_status status = reader_init(&r, dataset, true);
  for (int64_t i = 0; status == BRAID_OK && i < dataset->samples; i++) {
    if (source->target)
      source->target(source->self, i, r.target);
    else if (source->find)
      source->find(source->self, i, r.target);
    else
      status = source->read(source->self, i, NULL, r.pixels, r.target);
    if (status == BRAID_OK) status = check_target(dataset, i, r.target);
    if (status == BRAID_OK) count_target(source, r.target, counts);
  }
  reader_deinit(&r);
  return status;
}

/* Called for every sample: its target, and its pixels as they are stored. */
typedef void visit_stored(void *context, const void *target, size_t target_bytes, const void *stored, size_t bytes);

static braid_status visit_samples(const braid_dataset *dataset, visit_stored *visit, void *context) {
  const braid_source *source = &dataset->source;
  size_t numbers = stored_floats(dataset), target_bytes = braid_dataset_target_bytes(dataset);
  reader r;
  braid_status status = reader_init(&r, dataset, false);
  for (int64_t i = 0; status == BRAID_OK && i < dataset->samples; i++) {
    const void *stored = r.pixels;
    if (source->find)
      stored = source->find(source->self, i, r.target);
    else
      status = source->read(source->self, i, NULL, r.pixels, r.target);
    visit(context, r.target, target_bytes, stored, source->find ? numbers : numbers * sizeof *r.pixels);
  }
  reader_deinit(&r);
  return status;
}

static void add_to_sum(void *context, const void *target, size_t target_bytes, const void *stored, size_t bytes) {
  uint32_t *sum = context;
  *sum = (uint32_t)crc32_z(*sum, target, target_bytes);
  *sum = (uint32_t)crc32_z(*sum, stored, bytes);
}

braid_status braid_dataset_sum(const braid_dataset *dataset, uint32_t *sum) {
  const braid_source *source = &dataset->source;
  *sum = 0;
  return source->sum ? source->sum(source->self, dataset->samples, sum) : visit_samples(dataset, add_to_sum, sum);
}

static void add_to_hash(void *context, const void *target, size_t target_bytes, const void *stored, size_t bytes) {
  braid_sha256_add(context, target, target_bytes);
  braid_sha256_add(context, stored, bytes);
}

braid_status braid_dataset_hash(const braid_dataset *dataset, uint8_t out[BRAID_SHA256_BYTES]) {
  const braid_source *source = &dataset->source;
  braid_sha256 hash;
  uint32_t sum;
  braid_sha256_begin(&hash);
  if (source->sum) {
    BRAID_TRY(source->sum(source->self, dataset->samples, &sum));
    braid_sha256_add(&hash, &sum, sizeof sum);
  } else {
    BRAID_TRY(visit_samples(dataset, add_to_hash, &hash));
  }
  braid_sha256_end(&hash, out);
  return BRAID_OK;
}

/* Values without a known range are stretched from the least to the highest. */
static void show(const braid_dataset *dataset, float *pixels, uint8_t *rgb) {
  size_t plane = plane_of(dataset->height, dataset->width), count = plane * (size_t)dataset->channels;
  float least = 0, most = 255;
  if (dataset->source.is_float) {
    least = most = pixels[0];
    for (size_t i = 1; i < count; i++) {
      least = pixels[i] < least ? pixels[i] : least;
      most = pixels[i] > most ? pixels[i] : most;
    }
  }
  float factor = most > least ? 255 / (most - least) : 0;
  for (size_t i = 0; i < plane; i++)
    for (size_t c = 0; c < 3; c++) {
      float value = (pixels[dataset->channels >= 3 ? c * plane + i : i] - least) * factor + 0.5f;
      rgb[i * 3 + c] = (uint8_t)(value > 0 ? value < 255 ? value : 255 : 0); /* NaN is black */
    }
}

braid_status braid_dataset_picture(braid_dataset *dataset, int64_t index, uint8_t *rgb) {
  size_t pixels = plane_of(dataset->height, dataset->width) * (size_t)dataset->channels;
  float *room = braid_zalloc_array(dataset->allocator, braid_dataset_scratch(dataset) + pixels, sizeof *room);
  if (!room) return BRAID_NO_MEMORY;
  void *target = braid_zalloc(dataset->allocator, braid_dataset_target_bytes(dataset));
  braid_status status = target ? check_index(dataset, index) : BRAID_NO_MEMORY;
  if (status == BRAID_OK) status = load(dataset, index, NULL, room + pixels, room, target);
  if (status == BRAID_OK) show(dataset, room, rgb);
  braid_free(dataset->allocator, target);
  braid_free(dataset->allocator, room);
  return status;
}
