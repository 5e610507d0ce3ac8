/* What training does to a sample beyond shifting and mirroring it (dataset.c): another window of the picture, other
 * colours, a hole. What is drawn is a function of (seed, epoch, position in the epoch) alone. */
#ifndef BRAID_TRAIN_AUGMENT_H
#define BRAID_TRAIN_AUGMENT_H

#include "train/data/dataset.h"

/* INVALID_ARGUMENT if what the spec asks for does not go with this number of channels. */
BRAID_MUST_CHECK braid_status braid_augment_check(const braid_spec *spec, const char *name, int channels);

typedef struct braid_window {
  int top, left, height, width;
} braid_window;
/* The window of resized-crop in a picture of this size; the whole picture without it, or without `how`. As
 * torchvision's RandomResizedCrop: a share of the area within spec->area and a ratio of sides within 3/4 to 4/3,
 * uniform in its logarithm, at a uniform place; after ten draws that do not fit, the largest middle part within the
 * ratios. */
braid_window braid_augment_window(const braid_spec *spec, const braid_augment *how, int height, int width);
/* Moves the window of every plane to the start of `planes`, one plane after the other. */
void braid_augment_cut(float *planes, int channels, int height, int width, const braid_window *window);

/* Factors of brightness, contrast and saturation, each uniform within 1 - x to 1 + x, and a turn of hue, uniform within
 * -x to x of a whole one. */
void braid_augment_draw_colour(const braid_spec *spec, const braid_augment *how, float factors[4]);
/* In this order, as torchvision's adjust_brightness, adjust_contrast, adjust_saturation and adjust_hue; `most` > 0:
 * values are limited to [0, most] after each. 1 or 3 channels, RGB. */
void braid_augment_colour(const float factors[4], float most, float *pixels, int channels, size_t plane);

/* A square of spec->hole (0: half the shorter side) around a uniform place, as far as it lies inside, becomes 0. For
 * normalized pixels (DeVries and Taylor, "Improved Regularization of Convolutional Neural Networks with Cutout", 2017).
 */
void braid_augment_hole(const braid_spec *spec, const braid_augment *how, float *pixels, int channels, int height,
                        int width);

/* The share of mixup, from Beta(alpha, alpha), of one batch (Zhang et al., "mixup: Beyond Empirical Risk Minimization",
 * 2018). */
double braid_augment_mix(double alpha, uint64_t seed, uint32_t epoch, uint64_t step);
/* With probability `noise` any of the classes instead of `label` (Xie et al., "DisturbLabel", 2016). `index`: of the
 * sample in the data set. */
int32_t braid_augment_label(double noise, uint64_t seed, uint32_t epoch, uint64_t index, int32_t label, int classes);
#endif
