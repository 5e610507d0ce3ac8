/* npy:IMAGES.npy+LABELS.npy: uint8 or float32 images of shape B,C,H,W or B,H,W; integer labels. */
#include <string.h>

#include "base/text.h"
#include "base/try.h"
#include "train/data/dataset.h"
#include "train/data/image.h"

typedef struct arrays {
  const braid_allocator *allocator;
  braid_tensor *images, *labels;
  size_t sample;
} arrays;

static int32_t label_of(void *self, int64_t index) {
  const arrays *a = self;
  return (int32_t)braid_tensor_get_i64(a->labels, index);
}

static const uint8_t *find_sample(void *self, int64_t index, int32_t *label) {
  const arrays *a = self;
  *label = label_of(self, index);
  return (const uint8_t *)braid_tensor_const_data(a->images) + (size_t)index * a->sample;
}

static braid_status read_sample(void *self, int64_t index, const braid_augment *how, float *pixels, int32_t *label) {
  (void)how;
  const arrays *a = self;
  *label = label_of(self, index);
  const float *data = braid_tensor_const_data(a->images);
  memcpy(pixels, data + (size_t)index * a->sample, a->sample * sizeof *pixels);
  return BRAID_OK;
}

static void close_arrays(void *self) {
  arrays *a = self;
  braid_tensor_release(a->images);
  braid_tensor_release(a->labels);
  braid_free(a->allocator, a);
}

static braid_status arrays_check(const arrays *a, const char *path) {
  const braid_desc *images = braid_tensor_desc(a->images), *labels = braid_tensor_desc(a->labels);
  char text[96];
  bool fits = (images->dtype == BRAID_U8 || images->dtype == BRAID_F32) && (images->rank == 3 || images->rank == 4);
  for (int i = 1; fits && i < images->rank; i++) fits = images->dims[i] >= 1 && images->dims[i] <= BRAID_IMAGE_MAX_SIDE;
  if (!fits || (images->rank == 4 && images->dims[1] > BRAID_SPEC_CHANNELS))
    return braid_fail(
        BRAID_INVALID_FILE,
        "%s: images are %s; uint8 or float32 of B,C,H,W or B,H,W are expected, with at most %d channels and "
        "sides of at most %d",
        path, braid_desc_format(images, text, sizeof text), BRAID_SPEC_CHANNELS, BRAID_IMAGE_MAX_SIDE);
  if (braid_dtype_is_float(labels->dtype) || labels->dtype == BRAID_BOOL || labels->rank != 1)
    return braid_fail(BRAID_INVALID_FILE, "%s: labels are %s; integers of one dimension are expected", path,
                      braid_desc_format(labels, text, sizeof text));
  if (labels->dims[0] != images->dims[0])
    return braid_fail(BRAID_INVALID_FILE, "%s: %lld images and %lld labels", path, (long long)images->dims[0],
                      (long long)labels->dims[0]);
  return BRAID_OK;
}

static braid_status open_arrays(arrays *a, const braid_spec *spec) {
  char *plus = strchr(spec->path, '+');
  if (!plus) return braid_fail(BRAID_INVALID_ARGUMENT, "npy:%.80s: IMAGES.npy+LABELS.npy is expected", spec->path);
  char *images = braid_strdup(a->allocator, spec->path);
  if (!images) return BRAID_NO_MEMORY;
  images[plus - spec->path] = '\0';
  braid_status status = braid_npy_load(a->allocator, images, &a->images);
  if (status == BRAID_OK) status = braid_npy_load(a->allocator, plus + 1, &a->labels);
  braid_free(a->allocator, images);
  return status == BRAID_OK ? arrays_check(a, spec->path) : status;
}

static braid_status count_classes(const arrays *a, const char *path, int *classes) {
  int64_t most = 0, count = braid_desc_count(braid_tensor_desc(a->labels));
  for (int64_t i = 0; i < count; i++) {
    int64_t label = braid_tensor_get_i64(a->labels, i);
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
  int classes = 0;
  a->allocator = allocator;
  braid_status status = open_arrays(a, spec);
  if (status == BRAID_OK) status = count_classes(a, spec->path, &classes);
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
                        .classes = classes,
                        .one_part = true,
                        .is_float = images->dtype == BRAID_F32,
                        .find = images->dtype == BRAID_U8 ? find_sample : NULL,
                        .read = read_sample,
                        .label = label_of,
                        .close = close_arrays};
  a->sample = (size_t)out->channels * (size_t)out->height * (size_t)out->width;
  return BRAID_OK;
}
