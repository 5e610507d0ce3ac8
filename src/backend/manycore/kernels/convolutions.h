/* The plan of a convolution. */
#ifndef BRAID_BACKEND_MANYCORE_KERNELS_CONVOLUTIONS_H
#define BRAID_BACKEND_MANYCORE_KERNELS_CONVOLUTIONS_H

#include "backend/manycore/kernel.h"
#include "graph/geometry.h"

typedef struct conv_plan {
  braid_convolution geometry;
  int64_t filters, channels, volume; /* of one group; places of the window */
  bool direct;                       /* windows of one place, next to each other: the patch is the columns */
  bool has_bias;
  int result; /* operand number */
  /* tiles: filters, rows and columns of the output, channels */
  braid_manycore_grid grid;
  int64_t tile_filters, tile_down, tile_across, tile_channels;
  bool two_buffers;
} conv_plan;

#endif
