/* Images: decoding JPEG and PNG, resizing, conversion of channels and normalization. */
#ifndef BRAID_TRAIN_IMAGE_H
#define BRAID_TRAIN_IMAGE_H

#include "train/data/dataset.h"

/* Larger images are refused, so that a malicious header cannot exhaust memory. */
enum { BRAID_IMAGE_MAX_SIDE = 16384, BRAID_IMAGE_MAX_BYTES = 1 << 30 };

typedef struct braid_image {
  int channels, height, width; /* 1 or 3 channels */
  uint8_t *pixels;             /* height, width, channels; freed with braid_free */
} braid_image;

/* `name` is used in messages. Transparent images are blended with black. */
BRAID_MUST_CHECK braid_status braid_image_decode(const braid_allocator *allocator, const char *name,
                                                 const uint8_t *data, size_t bytes, braid_image *out);
/* Width and height without decoding. */
BRAID_MUST_CHECK braid_status braid_image_size(const char *name, const uint8_t *data, size_t bytes, int *height,
                                               int *width);

/* Converts planar floats between channel counts: grey is replicated, colours become grey by luminance (ITU-R BT.601).
 * For other conversions braid_image_can_convert is false. May work in place if from >= to. */
bool braid_image_can_convert(int from, int to);
void braid_image_convert(const float *source, int from, float *target, int to, size_t plane);

/* Bilinear with antialiasing: when shrinking, the triangle filter is widened by the scale factor, as in Pillow.
 * `scratch` has braid_image_resize_scratch floats. */
size_t braid_image_resize_scratch(int channels, int from_height, int from_width, int height, int width);
void braid_image_resize(const float *source, int channels, int from_height, int from_width, float *target, int height,
                        int width, float *scratch);

/* INVALID_ARGUMENT if the number of means or deviations is neither 1 nor the number of channels. */
BRAID_MUST_CHECK braid_status braid_image_check(const braid_spec *spec, const char *name, int channels);
/* Applies order, scale, mean and std of a spec in place; mean and std are in the order given by `order`. */
void braid_image_normalize(const braid_spec *spec, double default_scale, float *pixels, int channels, size_t plane);

#endif
