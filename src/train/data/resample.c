/* Planes of floats: channels, size, normalization. */
#include <math.h>
#include <string.h>

#include "train/data/image.h"

bool braid_image_can_convert(int from, int to) {
  return from == to || (from == 1 && to == 3) || (from == 3 && to == 1);
}

void braid_image_convert(const float *source, int from, float *target, int to, size_t plane) {
  if (from == 3 && to == 1) {
    for (size_t i = 0; i < plane; i++)
      target[i] = 0.299f * source[i] + 0.587f * source[plane + i] + 0.114f * source[2 * plane + i];
    return;
  }
  for (int c = 0; c < to; c++)
    memcpy(target + (size_t)c * plane, source + (from == 1 ? 0 : (size_t)c * plane), plane * sizeof *target);
}

size_t braid_image_resize_scratch(int channels, int from_height, int from_width, int height, int width) {
  (void)from_width, (void)height;
  return (size_t)channels * (size_t)from_height * (size_t)width + 1;
}

/* One line of `to` values out of `from`, elements `stride` apart in both, `count` lines side by side. */
static void resize_line(const float *source, int from, size_t from_stride, float *target, int to, size_t to_stride,
                        size_t count) {
  double factor = (double)from / to, support = factor > 1 ? factor : 1;
  for (int i = 0; i < to; i++) {
    double centre = (i + 0.5) * factor, sum = 0;
    int first = (int)fmax(0, floor(centre - support + 0.5)), last = (int)fmin(from, floor(centre + support + 0.5));
    float *line = target + (size_t)i * to_stride;
    for (size_t k = 0; k < count; k++) line[k] = 0;
    for (int j = first; j < last; j++) sum += fmax(0, 1 - fabs((j + 0.5 - centre) / support));
    for (int j = first; j < last; j++) {
      float weight = (float)(fmax(0, 1 - fabs((j + 0.5 - centre) / support)) / sum);
      const float *from_line = source + (size_t)j * from_stride;
      for (size_t k = 0; k < count; k++) line[k] += weight * from_line[k];
    }
  }
}

void braid_image_resize(const float *source, int channels, int from_height, int from_width, float *target, int height,
                        int width, float *scratch) {
  if (from_height == height && from_width == width) {
    memcpy(target, source, (size_t)channels * (size_t)height * (size_t)width * sizeof *target);
    return;
  }
  size_t rows = (size_t)channels * (size_t)from_height;
  for (size_t row = 0; row < rows; row++)
    resize_line(source + row * (size_t)from_width, from_width, 1, scratch + row * (size_t)width, width, 1, 1);
  for (int c = 0; c < channels; c++)
    resize_line(scratch + (size_t)c * (size_t)from_height * (size_t)width, from_height, (size_t)width,
                target + (size_t)c * (size_t)height * (size_t)width, height, (size_t)width, (size_t)width);
}

braid_status braid_image_check(const braid_spec *spec, const char *name, int channels) {
  int counts[2] = {spec->means, spec->stds};
  for (int i = 0; i < 2; i++)
    if (counts[i] > 1 && counts[i] != channels)
      return braid_fail(BRAID_INVALID_ARGUMENT, "%s: %s has %d numbers, one or %d (one per channel) are expected", name,
                        i ? "std" : "mean", counts[i], channels);
  if (spec->bgr && channels < 3)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%s: order=bgr has no effect on %d channel%s", name, channels,
                      channels == 1 ? "" : "s");
  return BRAID_OK;
}

void braid_image_normalize(const braid_spec *spec, double default_scale, float *pixels, int channels, size_t plane) {
  float scale = (float)(spec->scale > 0 ? spec->scale : default_scale);
  if (spec->bgr && channels >= 3) {
    for (size_t i = 0; i < plane; i++) {
      float red = pixels[i];
      pixels[i] = pixels[2 * plane + i];
      pixels[2 * plane + i] = red;
    }
  }
  for (int c = 0; c < channels; c++) {
    float mean = spec->means ? spec->mean[spec->means == 1 ? 0 : c] : 0;
    float deviation = spec->stds ? spec->std[spec->stds == 1 ? 0 : c] : 1;
    float *at = pixels + (size_t)c * plane;
    for (size_t i = 0; i < plane; i++) at[i] = (at[i] * scale - mean) / deviation;
  }
}
