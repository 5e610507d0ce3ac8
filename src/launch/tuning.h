/* What is chosen by measurement and not by what a driver says of its device: sizes of groups and tiles, and the model
 * that chooses among tiles. Data, one entry for each kind of device; a card that is measured anew gets an entry of its
 * own in tuning.c and no line of code. */
#ifndef BRAID_LAUNCH_TUNING_H
#define BRAID_LAUNCH_TUNING_H

#include "braid/device.h"

/* Sides of a tile and of what one work-item makes of it. */
typedef struct braid_launch_tile_sides {
  uint32_t rows, columns, depth, work_rows, work_columns;
} braid_launch_tile_sides;

enum { BRAID_LAUNCH_TILE_SIZES = 3 }; /* large, medium, small */

/* What the time of a product by tiles is reckoned from, in cycles of a compute unit; see tile.c. */
typedef struct braid_launch_tile_model {
  double lanes;         /* work-items that multiply at once */
  double resident;      /* work-items whose waiting overlaps */
  double step_wait;     /* for the elements of a step to arrive, and for the group to meet */
  double read_of_four;  /* from local memory, beside a multiplication's 1 */
  double load_in_fours; /* of an element, with its share of the traffic */
  double load_alone;    /* with finding it */
  double join;          /* a launch that waits for another */
  double join_element;  /* of a slice, or of the result */
  int64_t most_slices;  /* of the inner dimension */
} braid_launch_tile_model;

typedef struct braid_launch_tuning {
  size_t group;                                           /* usual work-items of a group */
  size_t tile_group;                                      /* of one that makes a tile whose sides follow from it */
  braid_launch_tile_sides tiles[BRAID_LAUNCH_TILE_SIZES]; /* rows 0: their sides follow from the group's size */
  uint32_t window_depth;                /* of the large one over windows, or where local memory is short */
  bool unrolls;                         /* loops over a tile's depth are unrolled whole */
  const braid_launch_tile_model *model; /* chooses among tiles; NULL: the largest that fill the device */
} braid_launch_tuning;

#endif
