/* Tiles of products, see tile.clh: their shapes, which of them to take, and into how many slices to cut the sums. */
#ifndef BRAID_LAUNCH_TILE_H
#define BRAID_LAUNCH_TILE_H

#include "launch/planner.h"

/* Algorithms for a matrix product, best first where they fit; three are tiles of different sizes. */
typedef enum braid_launch_algorithm {
  BRAID_LAUNCH_VECTORS,
  BRAID_LAUNCH_TILES_LARGE,
  BRAID_LAUNCH_TILES_MEDIUM,
  BRAID_LAUNCH_TILES_SMALL,
  BRAID_LAUNCH_PANELS,
  BRAID_LAUNCH_ROWS,
  BRAID_LAUNCH_THIN_K,
  BRAID_LAUNCH_THIN_COLUMNS,
  BRAID_LAUNCH_PLAIN,
} braid_launch_algorithm;

/* A tile, computed by a work-group: of as many work-items as the device and its knobs give. */
typedef struct braid_launch_tile {
  int64_t rows, columns, depth, work_rows, work_columns;
  size_t group, local_bytes;
} braid_launch_tile;

/* What is to be made by tiles. */
typedef struct braid_launch_tiling {
  int64_t rows, columns, inner, batches;
  bool left_fours, right_fours; /* elements of the matrix lie so that four can be loaded at once */
  bool windows;                 /* the right matrix is one of windows over images, whose elements are looked up */
} braid_launch_tiling;

/* windows: as in a tiling. */
braid_launch_tile braid_launch_tile_of(const braid_launch_traits *traits, braid_launch_algorithm algorithm,
                                       bool windows);
/* -DTILE_M and so on. */
void braid_launch_add_tile(braid_launch_planner *p, const braid_launch_tile *tile);
/* Do the loads of a tile that is `side` wide come in fours? */
bool braid_launch_loads_fours(const braid_launch_tile *tile, int64_t side);
/* Do tiles of this size suit all of it, cut into the slices that braid_launch_slices gives? Says why not.
 */
bool braid_launch_tiles_fit(const braid_launch_traits *traits, braid_launch_algorithm algorithm,
                            const braid_launch_tiling *tiling, char *why, size_t why_bytes);
/* The same for products of `rows` by `columns` whose inner dimension stays whole, by whether they fill the device. */
bool braid_launch_tiles_fill(const braid_launch_traits *traits, braid_launch_algorithm algorithm, int64_t rows,
                             int64_t columns, int64_t batches, char *why, size_t why_bytes);
/* Into how many slices to cut the inner dimension: of *slice elements, whole depths of a tile. */
int64_t braid_launch_slices(const braid_launch_traits *traits, const braid_launch_tile *tile,
                            const braid_launch_tiling *tiling, int64_t *slice);

#endif
