#include "train/data/augment.h"

#include <math.h>
#include <string.h>

#include "base/philox.h"

/* Streams beside those of dataset.c and loader.c. Uniform numbers share counters by fours, others have one each, so no
 * stream has both. A sample has room for kPerSample numbers in each, a batch for kPerBatch. */
enum {
  kWindowStream = 0xA07,
  kPlaceStream,
  kColourStream,
  kHoleStream,
  kNoiseStream,
  kLabelStream,
  kMixStream,
  kMixNormalStream,
  kPerSample = 64,
  kPerBatch = 128
};

static double uniform(const braid_augment *how, uint32_t stream, uint64_t number) {
  return (double)braid_random_uniform(how->seed, how->epoch, stream, how->position * kPerSample + number);
}

braid_status braid_augment_check(const braid_spec *spec, const char *name, int channels) {
  if (!spec->colour || channels == 1 || channels == 3) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "%s: augment=colour is for 1 or 3 channels, not %d", name, channels);
}

/* --- windows -------------------------------------------------------------------------------------------------------
 */
static const double kLeastRatio = 3.0 / 4, kMostRatio = 4.0 / 3; /* of width to height */

static int below(const braid_augment *how, uint64_t number, int bound) {
  return (int)braid_random_below(how->seed, how->epoch, kPlaceStream, how->position * kPerSample + number,
                                 (uint32_t)bound);
}

static braid_window middle_window(int height, int width) {
  double ratio = (double)width / height;
  braid_window w = {.height = height, .width = width};
  if (ratio < kLeastRatio)
    w.height = (int)lround(width / kLeastRatio);
  else if (ratio > kMostRatio)
    w.width = (int)lround(height * kMostRatio);
  if (w.height > height) w.height = height;
  if (w.width > width) w.width = width;
  w.top = (height - w.height) / 2;
  w.left = (width - w.width) / 2;
  return w;
}

braid_window braid_augment_window(const braid_spec *spec, const braid_augment *how, int height, int width) {
  enum { kDraws = 10, kNumbers = 4 };
  if (!spec->resized_crop || !how) return (braid_window){0, 0, height, width};
  for (uint64_t i = 0; i < kDraws; i++) {
    double share = spec->area[0] + (spec->area[1] - spec->area[0]) * uniform(how, kWindowStream, i * kNumbers);
    double ratio =
        exp(log(kLeastRatio) + log(kMostRatio / kLeastRatio) * uniform(how, kWindowStream, i * kNumbers + 1));
    double area = share * (double)height * (double)width;
    braid_window w = {.height = (int)lround(sqrt(area / ratio)), .width = (int)lround(sqrt(area * ratio))};
    if (w.height < 1 || w.width < 1 || w.height > height || w.width > width) continue;
    w.top = below(how, i * kNumbers + 2, height - w.height + 1);
    w.left = below(how, i * kNumbers + 3, width - w.width + 1);
    return w;
  }
  return middle_window(height, width);
}

void braid_augment_cut(float *planes, int channels, int height, int width, const braid_window *window) {
  if (window->height == height && window->width == width) return;
  float *to = planes;
  for (int c = 0; c < channels; c++)
    for (int y = 0; y < window->height; y++, to += window->width) {
      size_t line = (size_t)c * (size_t)height + (size_t)(window->top + y);
      memmove(to, planes + line * (size_t)width + (size_t)window->left, (size_t)window->width * sizeof *to);
    }
}

/* --- colours -------------------------------------------------------------------------------------------------------
 */
void braid_augment_draw_colour(const braid_spec *spec, const braid_augment *how, float factors[4]) {
  for (uint64_t i = 0; i < 4; i++)
    factors[i] = (i < 3) + spec->jitter[i] * (float)(2 * uniform(how, kColourStream, i) - 1);
}

static float grey_of(const float *pixels, int channels, size_t plane, size_t i) {
  if (channels < 3) return pixels[i];
  return 0.299f * pixels[i] + 0.587f * pixels[plane + i] + 0.114f * pixels[2 * plane + i];
}

static float limited(float value, float most) {
  if (most <= 0) return value;
  return value < 0 ? 0 : value > most ? most : value;
}

/* Of one pixel, through the hue as a place on the circle of red, green and blue (HSV). Largest and smallest stay as
 * they are, so the range of values does not matter. */
static void turn_hue(float turn, float *red, float *green, float *blue) {
  float r = *red, g = *green, b = *blue;
  float most = fmaxf(r, fmaxf(g, b)), least = fminf(r, fminf(g, b)), range = most - least;
  if (!(range > 0)) return;
  float sixth = most == r ? (g - b) / range : most == g ? 2 + (b - r) / range : 4 + (r - g) / range;
  float hue = sixth / 6 + turn;
  hue = (hue - floorf(hue)) * 6;
  int sector = (int)hue; /* 6 where rounding made it a whole turn */
  float part = hue - (float)sector, falling = most - range * part, rising = most - range * (1 - part);
  const float table[6][3] = {{most, rising, least},  {falling, most, least}, {least, most, rising},
                             {least, falling, most}, {rising, least, most},  {most, least, falling}};
  *red = table[sector % 6][0];
  *green = table[sector % 6][1];
  *blue = table[sector % 6][2];
}

void braid_augment_colour(const float factors[4], float most, float *pixels, int channels, size_t plane) {
  size_t count = plane * (size_t)channels;
  double mean = 0;
  for (size_t i = 0; i < count; i++) pixels[i] = limited(pixels[i] * factors[0], most);
  for (size_t i = 0; i < plane; i++) mean += (double)grey_of(pixels, channels, plane, i);
  float flat = (float)(mean / (double)plane);
  for (size_t i = 0; i < count; i++) pixels[i] = limited(flat + factors[1] * (pixels[i] - flat), most);
  for (size_t i = 0; i < plane && channels == 3; i++) {
    float grey = grey_of(pixels, channels, plane, i);
    for (size_t c = 0; c < 3; c++)
      pixels[c * plane + i] = limited(grey + factors[2] * (pixels[c * plane + i] - grey), most);
  }
  if (channels < 3 || factors[3] == 0) return;
  for (size_t i = 0; i < plane; i++) turn_hue(factors[3], &pixels[i], &pixels[plane + i], &pixels[2 * plane + i]);
}

/* --- holes ---------------------------------------------------------------------------------------------------------
 */
void braid_augment_hole(const braid_spec *spec, const braid_augment *how, float *pixels, int channels, int height,
                        int width) {
  int side = spec->hole ? spec->hole : (height < width ? height : width) / 2;
  int top = (int)(uniform(how, kHoleStream, 0) * height) - side / 2;
  int left = (int)(uniform(how, kHoleStream, 1) * width) - side / 2;
  int bottom = top + side < height ? top + side : height, right = left + side < width ? left + side : width;
  if (top < 0) top = 0;
  if (left < 0) left = 0;
  for (int c = 0; c < channels; c++)
    for (int y = top; y < bottom; y++)
      for (int x = left; x < right; x++)
        pixels[((size_t)c * (size_t)height + (size_t)y) * (size_t)width + (size_t)x] = 0;
}

/* --- labels --------------------------------------------------------------------------------------------------------
 */
/* Of Gamma(alpha, 1), by Marsaglia and Tsang ("A Simple Method for Generating Gamma Variables", 2000), with half of a
 * batch's numbers from `first` on. A draw is refused one time in twenty. */
static double draw_gamma(double alpha, uint64_t seed, uint32_t epoch, uint64_t first) {
  double d = (alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3, c = 1 / sqrt(9 * d), value = d;
  for (uint64_t at = first + 1; at < first + kPerBatch / 2; at++) {
    double x = (double)braid_random_normal(seed, epoch, kMixNormalStream, at), v = pow(1 + c * x, 3);
    double u = 1 - (double)braid_random_uniform(seed, epoch, kMixStream, at);
    if (v <= 0 || log(u) >= 0.5 * x * x + d - d * v + d * log(v)) continue;
    value = d * v;
    break;
  }
  double u = 1 - (double)braid_random_uniform(seed, epoch, kMixStream, first);
  return alpha < 1 ? value * pow(u, 1 / alpha) : value;
}

double braid_augment_mix(double alpha, uint64_t seed, uint32_t epoch, uint64_t step) {
  double one = draw_gamma(alpha, seed, epoch, step * kPerBatch);
  double other = draw_gamma(alpha, seed, epoch, step * kPerBatch + kPerBatch / 2);
  return one + other > 0 ? one / (one + other) : 1; /* both may be too small for a double */
}

int32_t braid_augment_label(double noise, uint64_t seed, uint32_t epoch, uint64_t index, int32_t label, int classes) {
  if (noise <= 0 || (double)braid_random_uniform(seed, epoch, kNoiseStream, index) >= noise) return label;
  return (int32_t)braid_random_below(seed, epoch, kLabelStream, index, (uint32_t)classes);
}
