/* Tiles of images between places and the points of Winograd's F(4x4, 3x3): a tile of 4 x 4 results needs 6 x 6 places,
 * and is 6 x 6 products of points.
 *
 * Source: Lavin & Gray 2016, section 4.1; the interpolation points are 0, 5/8, -5/8, 3/2, -3/2 and infinity, with which
 * rounding errors grow less than with 0, 1, -1, 2, -2. */
#ifndef BRAID_BACKEND_CPU_WINOGRAD_TILES_ISA_H
#define BRAID_BACKEND_CPU_WINOGRAD_TILES_ISA_H

#include "backend/cpu/isa.h"

enum {
  BRAID_WINOGRAD_SIDE = 6,
  BRAID_WINOGRAD_POINTS = BRAID_WINOGRAD_SIDE * BRAID_WINOGRAD_SIDE,
  BRAID_WINOGRAD_RESULT = 4, /* results on a side of a tile */
  BRAID_WINOGRAD_GROUP = 8   /* channels come in multiples of it */
};

typedef struct braid_winograd_source {
  const float *at[BRAID_WINOGRAD_POINTS]; /* channel 0 of each place; NULL: outside of the image */
  int64_t channels;                       /* a multiple of BRAID_WINOGRAD_GROUP */
  int64_t block_step;                     /* from 16 channels to the next */
} braid_winograd_source;

typedef struct braid_winograd_target {
  float *y;              /* the first filter of the tile's first result */
  const float *residual; /* there; NULL: none */
  const float *bias;     /* of the first filter; NULL: none */
  int64_t row_step, pixel_step;
  int rows, columns; /* of the tile that are in the image */
  int filters;       /* up to 16, a multiple of BRAID_WINOGRAD_GROUP */
  bool relu;
} braid_winograd_target;

/* Point p of channel c goes to points[p * step + c]. */
BRAID_ISA_FUNCTION(void, braid_winograd_source_tile, (const braid_winograd_source *from, float *points, int64_t step))
/* Point p of filter f is at points[p * step + f]. */
BRAID_ISA_FUNCTION(void, braid_winograd_target_tile,
                   (const float *points, int64_t step, const braid_winograd_target *to))

#endif
