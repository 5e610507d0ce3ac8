/* Non-maximum suppression: of boxes that overlap the one with the highest score. Inference counts what is left, because
 * the shape of the result follows from it; the kernel writes it. */
#ifndef BRAID_GRAPH_SUPPRESSION_H
#define BRAID_GRAPH_SUPPRESSION_H

#include <stdbool.h>
#include <stdint.h>

typedef struct braid_suppression {
  const float *boxes, *scores;         /* [batch, boxes, 4], [batch, classes, boxes] */
  int64_t batch, classes, count, most; /* most: boxes of a class that are kept */
  float overlap, least;                /* intersection over union above which one gives way; score that is too low */
  bool scored, centered;               /* scored: `least` counts; centered: boxes are (x, y, width, height) */
} braid_suppression;

/* The number of boxes kept; `out`, if not NULL, gets (batch, class, box) of each. `order` has room for `count`. */
int64_t braid_suppress(const braid_suppression *suppression, int64_t *order, int64_t *out);

#endif
