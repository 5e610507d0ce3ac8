/* Test-time augmentation: a sample is tested as several views of its picture (views= of a data set), and scored by the
 * weighted mean of what a model makes of them. */
#ifndef BRAID_TRAIN_VIEWS_H
#define BRAID_TRAIN_VIEWS_H

#include "train/data/dataset.h"

enum { BRAID_MOST_VIEWS = 6 };

typedef struct braid_view {
  int top, left; /* of a window of the picture's size; beyond the edges the picture is mirrored, the edge itself once */
  bool mirrored; /* then */
  float weight;  /* of all views together 1 */
} braid_view;
/* The picture itself comes first; without views= it is the only one. Shifted views, by a pixel up and left and by a
 * pixel down and right, weigh together as much as those that are not. */
size_t braid_views_list(const braid_spec *spec, braid_view out[BRAID_MOST_VIEWS]);
/* Of `planes` planes; `from` and `to` do not overlap. Sides are at least 2 if it is shifted. */
void braid_view_take(const braid_view *view, const float *from, float *to, size_t planes, int height, int width);
#endif
