/* Pictures: decoding JPEG and PNG, resizing, and what turns pixels into a network's numbers. */
#ifndef BRAID_TRAIN_IMAGE_H
#define BRAID_TRAIN_IMAGE_H

#include "train/data/dataset.h"

/* Larger pictures are refused: a hostile header must not ask for all the memory. */
enum { BRAID_IMAGE_MAX_SIDE = 16384, BRAID_IMAGE_MAX_BYTES = 1 << 30 };

typedef struct braid_image {
  int channels, height, width; /* 1 or 3 channels */
  uint8_t *pixels;             /* height, width, channels; freed with braid_free */
} braid_image;

/* `name` stands for the file in messages. Transparency is put on black. */
BRAID_MUST_CHECK braid_status braid_image_decode(const braid_allocator *allocator, const char *name,
                                                 const uint8_t *data, size_t bytes, braid_image *out);
/* Width and height without decoding. */
BRAID_MUST_CHECK braid_status braid_image_size(const char *name, const uint8_t *data, size_t bytes, int *height,
                                               int *width);

/* Planes of floats: `from` channels to `to` channels; grey is repeated, colours become grey by their luminance (ITU-R
 * BT.601). Other changes are not possible: see braid_image_can_convert. May work in place when from >= to. */
bool braid_image_can_convert(int from, int to);
void braid_image_convert(const float *source, int from, float *target, int to, size_t plane);

/* Bilinear with antialiasing: the triangle filter widens by the factor of shrinking, as in Pillow. `scratch` takes
 * braid_image_resize_scratch floats. */
size_t braid_image_resize_scratch(int channels, int from_height, int from_width, int height, int width);
void braid_image_resize(const float *source, int channels, int from_height, int from_width, float *target, int height,
                        int width, float *scratch);

/* INVALID_ARGUMENT when the spec gives another number of means or deviations than one or one per channel. */
BRAID_MUST_CHECK braid_status braid_image_check(const braid_spec *spec, const char *name, int channels);
/* Order of channels, scale, mean and deviation of a spec, in place; mean and std count in the order after `order`. */
void braid_image_normalize(const braid_spec *spec, double default_scale, float *pixels, int channels, size_t plane);

#endif
