/* npy:IMAGES.npy+TARGETS.npy: uint8 or float32 images of shape B,C,H,W or B,H,W; classes, labels or numbers. */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "base/try.h"
#include "train/data/dataset.h"
#include "train/data/image.h"

typedef struct arrays {
  const braid_allocator *allocator;
  braid_tensor *images, *targets;
  braid_target_kind kind;
  int classes;
  size_t sample;
} arrays;

static void target_of(void *self, int64_t index, void *target) {
  const arrays *a = self;
  if (a->kind == BRAID_TARGET_CLASS) {
    *(int32_t *)target = (int32_t)braid_tensor_get_i64(a->targets, index);
    return;
  }
  float *numbers = target;
  for (int i = 0; i < a->classes; i++) numbers[i] = (float)braid_tensor_get_f64(a->targets, index * a->classes + i);
}

static const uint8_t *find_sample(void *self, int64_t index, void *target) {
  const arrays *a = self;
  target_of(self, index, target);
  return (const uint8_t *)braid_tensor_const_data(a->images) + (size_t)index * a->sample;
}

static braid_status read_sample(void *self, int64_t index, const braid_augment *how, float *pixels, void *target) {
  (void)how;
  const arrays *a = self;
  target_of(self, index, target);
  const float *data = braid_tensor_const_data(a->images);
  memcpy(pixels, data + (size_t)index * a->sample, a->sample * sizeof *pixels);
  return BRAID_OK;
}

static void close_arrays(void *self) {
  arrays *a = self;
  braid_tensor_release(a->images);
  braid_tensor_release(a->targets);
  braid_free(a->allocator, a);
}

static bool kind_of(const braid_desc *targets, braid_target_kind *kind) {
  bool bytes = targets->dtype == BRAID_BOOL || targets->dtype == BRAID_U8;
  *kind = BRAID_TARGET_CLASS;
  if (targets->dtype == BRAID_F32) *kind = BRAID_TARGET_NUMBERS;
  if (targets->rank == 2 && bytes) *kind = BRAID_TARGET_LABELS;
  if (*kind == BRAID_TARGET_LABELS) return true;
  if (*kind == BRAID_TARGET_NUMBERS) return targets->rank == 1 || targets->rank == 2;
  return targets->rank == 1 && targets->dtype != BRAID_BOOL && !braid_dtype_is_float(targets->dtype);
}

static braid_status arrays_check(const arrays *a, const char *path) {
  const braid_desc *images = braid_tensor_desc(a->images), *targets = braid_tensor_desc(a->targets);
  char text[96];
  braid_target_kind kind;
  bool fits = (images->dtype == BRAID_U8 || images->dtype == BRAID_F32) && (images->rank == 3 || images->rank == 4);
  for (int i = 1; fits && i < images->rank; i++) fits = images->dims[i] >= 1 && images->dims[i] <= BRAID_IMAGE_MAX_SIDE;
  if (!fits || (images->rank == 4 && images->dims[1] > BRAID_SPEC_CHANNELS))
    return braid_fail(
        BRAID_INVALID_FILE,
        "%s: images are %s; uint8 or float32 of B,C,H,W or B,H,W are expected, with at most %d channels and "
        "sides of at most %d",
        path, braid_desc_format(images, text, sizeof text), BRAID_SPEC_CHANNELS, BRAID_IMAGE_MAX_SIDE);
  if (!kind_of(targets, &kind))
    return braid_fail(BRAID_INVALID_FILE,
                      "%s: targets are %s; integers of one dimension (classes), bool or uint8 of two (labels), or "
                      "float32 of one or two (numbers) are expected",
                      path, braid_desc_format(targets, text, sizeof text));
  if (targets->dims[0] != images->dims[0])
    return braid_fail(BRAID_INVALID_FILE, "%s: %lld images and %lld targets", path, (long long)images->dims[0],
                      (long long)targets->dims[0]);
  return BRAID_OK;
}

static braid_status open_arrays(arrays *a, const braid_spec *spec) {
  char *plus = strchr(spec->path, '+');
  if (!plus) return braid_fail(BRAID_INVALID_ARGUMENT, "npy:%.80s: IMAGES.npy+TARGETS.npy is expected", spec->path);
  char *images = braid_strdup(a->allocator, spec->path);
  if (!images) return BRAID_NO_MEMORY;
  images[plus - spec->path] = '\0';
  braid_status status = braid_npy_load(a->allocator, images, &a->images);
  if (status == BRAID_OK) status = braid_npy_load(a->allocator, plus + 1, &a->targets);
  braid_free(a->allocator, images);
  return status == BRAID_OK ? arrays_check(a, spec->path) : status;
}

/* Labels are from 0 to 1, numbers finite. */
static braid_status check_targets(const arrays *a, const char *path) {
  int64_t count = braid_desc_count(braid_tensor_desc(a->targets)), columns = a->classes;
  for (int64_t i = 0; i < count; i++) {
    double target = braid_tensor_get_f64(a->targets, i);
    bool fits = a->kind == BRAID_TARGET_LABELS ? target >= 0 && target <= 1 : isfinite(target);
    if (!fits)
      return braid_fail(BRAID_INVALID_FILE, "%s: target %lld of sample %lld is %g, %s is expected", path,
                        (long long)(i % columns), (long long)(i / columns), target,
                        a->kind == BRAID_TARGET_LABELS ? "0 to 1" : "a finite number");
  }
  return BRAID_OK;
}

static braid_status count_classes(const arrays *a, const char *path, int *classes) {
  const braid_desc *targets = braid_tensor_desc(a->targets);
  if (a->kind != BRAID_TARGET_CLASS) {
    int64_t columns = targets->rank == 2 ? targets->dims[1] : 1;
    *classes = (int)columns;
    if (columns >= 1 && columns <= BRAID_MAX_CLASSES) return BRAID_OK;
    return braid_fail(BRAID_INVALID_FILE, "%s: %lld targets of each sample, 1 to %d are expected", path,
                      (long long)columns, BRAID_MAX_CLASSES);
  }
  int64_t most = 0, count = braid_desc_count(targets);
  for (int64_t i = 0; i < count; i++) {
    int64_t label = braid_tensor_get_i64(a->targets, i);
    if (label < 0 || label > 99999)
      return braid_fail(BRAID_INVALID_FILE, "%s: label %lld of sample %lld, 0 to 99999 are expected", path,
                        (long long)label, (long long)i);
    if (label > most) most = label;
  }
  *classes = (int)most + 1;
  return BRAID_OK;
}

braid_status braid_source_npy(const braid_allocator *allocator, const braid_spec *spec, braid_source *out) {
  arrays *a = braid_zalloc(allocator, sizeof *a);
  if (!a) return BRAID_NO_MEMORY;
  a->allocator = allocator;
  braid_status status = open_arrays(a, spec);
  if (status == BRAID_OK) (void)kind_of(braid_tensor_desc(a->targets), &a->kind);
  if (status == BRAID_OK) status = count_classes(a, spec->path, &a->classes);
  if (status == BRAID_OK && a->kind != BRAID_TARGET_CLASS) status = check_targets(a, spec->path);
  if (status != BRAID_OK) {
    close_arrays(a);
    return status;
  }
  const braid_desc *images = braid_tensor_desc(a->images);
  const int64_t *sides = images->dims + images->rank - 2;
  *out = (braid_source){.self = a,
                        .samples = images->dims[0],
                        .channels = images->rank == 4 ? (int)images->dims[1] : 1,
                        .height = (int)sides[0],
                        .width = (int)sides[1],
                        .classes = a->classes,
                        .kind = a->kind,
                        .one_part = true,
                        .is_float = images->dtype == BRAID_F32,
                        .find = images->dtype == BRAID_U8 ? find_sample : NULL,
                        .read = read_sample,
                        .target = target_of,
                        .close = close_arrays};
  a->sample = (size_t)out->channels * (size_t)out->height * (size_t)out->width;
  return BRAID_OK;
}
