#include "launch/tile.h"

#include <math.h>

enum { kMostSlices = 16, kFewerSteps = 8 };

/* What a GPU's time is reckoned from, in cycles of a compute unit. Fitted to an NVIDIA H200, where over the shapes of
 * cl_kernels_bench --sweep the choice reaches 0.96 of the best tile and slices, and never less than 0.91; of other
 * GPUs' figures only the relations matter. */
static const double kLanes = 128;       /* work-items that multiply at once */
static const double kResident = 1024;   /* work-items whose waiting overlaps */
static const double kStepWait = 600;    /* for the elements of a step to arrive, and for the group to meet */
static const double kReadOfFour = 1;    /* from local memory, beside a multiplication's 1 */
static const double kLoadInFours = 10;  /* of an element, with its share of the traffic */
static const double kLoadAlone = 24;    /* with finding it: by counts of instructions, not fitted */
static const double kJoin = 12000;      /* a launch that waits for another */
static const double kJoinElement = 0.5; /* of a slice, or of the result */

static double units_of(const braid_launch_traits *traits) {
  return traits->compute_units ? traits->compute_units : 1;
}

/* --- shapes --------------------------------------------------------------------------------------------------------
 */
static braid_launch_tile tile_of_sides(const braid_launch_tile_sides *s) {
  return (braid_launch_tile){.rows = s->rows,
                             .columns = s->columns,
                             .depth = s->depth,
                             .work_rows = s->work_rows,
                             .work_columns = s->work_columns,
                             .group = (size_t)(s->rows / s->work_rows) * (s->columns / s->work_columns)};
}

/* Squares of as many sums for each work-item as it has registers for, with a work-item or more for each column. */
static braid_launch_tile tile_of_group(const braid_launch_traits *traits, braid_launch_way way) {
  size_t wanted = braid_launch_group(traits), group = 16;
  if (traits->cpu && !traits->knob_group) wanted = 64;
  while (2 * group <= wanted && group < 256) group *= 2;
  int64_t across = group >= 128 ? 16 : 8, down = (int64_t)group / across;
  int64_t work = way == BRAID_LAUNCH_TILES_LARGE ? 8 : way == BRAID_LAUNCH_TILES_MEDIUM ? 4 : 2;
  while (across * work > (int64_t)group) work /= 2;
  return (braid_launch_tile){.rows = down * work,
                             .columns = across * work,
                             .depth = way == BRAID_LAUNCH_TILES_LARGE && group == 256 ? 8 : 16,
                             .work_rows = work,
                             .work_columns = work,
                             .group = group};
}

static size_t local_bytes_of(const braid_launch_tile *tile) {
  return 2 * (size_t)(tile->depth * (tile->rows + tile->columns + 8)) * sizeof(float);
}

/* Large tiles have 64 sums for a work-item. Beside so many there are no registers for twice eight elements on their way
 * that are looked up one by one; and some devices have no local memory for them. */
static braid_launch_tile tile_for_gpu(const braid_launch_traits *traits, braid_launch_way way, bool windows) {
  static const braid_launch_tile_sides kLarge = {128, 128, 16, 8, 8}, kMedium = {64, 64, 16, 4, 4},
                                       kSmall = {32, 32, 16, 4, 4};
  braid_launch_tile tile = tile_of_sides(way == BRAID_LAUNCH_TILES_LARGE    ? &kLarge
                                         : way == BRAID_LAUNCH_TILES_MEDIUM ? &kMedium
                                                                            : &kSmall);
  bool tight = traits->local_bytes && local_bytes_of(&tile) > traits->local_bytes;
  if (way == BRAID_LAUNCH_TILES_LARGE && (windows || tight)) tile.depth = kFewerSteps;
  return tile;
}

braid_launch_tile braid_launch_tile_of(const braid_launch_traits *traits, braid_launch_way way, bool windows) {
  braid_launch_tile tile;
  if (traits->knob_tile.rows)
    tile = tile_of_sides(&traits->knob_tile);
  else if (traits->gpu && !traits->knob_group)
    tile = tile_for_gpu(traits, way, windows);
  else
    tile = tile_of_group(traits, way);
  tile.local_bytes = local_bytes_of(&tile);
  return tile;
}

void braid_launch_add_tile(braid_launch_planner *p, const braid_launch_tile *tile) {
  uint32_t unroll = p->traits->knob_unroll ? p->traits->knob_unroll : p->traits->gpu ? (uint32_t)tile->depth : 0;
  braid_launch_option(p, "-DTILE_M=%lld -DTILE_N=%lld -DTILE_K=%lld -DWORK_M=%lld -DWORK_N=%lld", (long long)tile->rows,
                      (long long)tile->columns, (long long)tile->depth, (long long)tile->work_rows,
                      (long long)tile->work_columns);
  if (unroll) braid_launch_option(p, "-DUNROLL=%u", unroll);
  if (p->traits->aligned) braid_launch_option(p, "-DALIGNED");
}

bool braid_launch_loads_fours(const braid_launch_tile *tile, int64_t side) {
  return side % 4 == 0 && tile->depth % 4 == 0 && side * tile->depth % (4 * (int64_t)tile->group) == 0;
}

/* --- what they cost ------------------------------------------------------------------------------------------------
 */
/* Of `slices` slices of whole depths; *count: of those that are not empty. */
static int64_t slice_of(const braid_launch_tile *tile, int64_t inner, int64_t slices, int64_t *count) {
  int64_t slice = braid_launch_ceil_div(braid_launch_ceil_div(inner, slices), tile->depth) * tile->depth;
  if (slice < tile->depth) slice = tile->depth;
  *count = inner > 0 ? braid_launch_ceil_div(inner, slice) : 1;
  return slice;
}

/* Multiplications, reads of local memory and loads of a work-item, for one step. */
static double work_of_item(const braid_launch_tile *tile, const braid_launch_tiling *t) {
  double depth = (double)tile->depth, left = kLoadAlone, right = kLoadAlone;
  if (t->left_fours && braid_launch_loads_fours(tile, tile->rows)) left = kLoadInFours;
  if (t->right_fours && braid_launch_loads_fours(tile, tile->columns)) right = kLoadInFours;
  double sums = (double)(tile->work_rows * tile->work_columns);
  double reads = (double)(tile->work_rows + tile->work_columns) / 4 * kReadOfFour;
  double loads = ((double)tile->rows * left + (double)tile->columns * right) / (double)tile->group;
  return depth * (sums + reads + loads);
}

/* The busiest compute unit's time: groups that come to it work one after another, whereas waiting, which every step of
 * a group begins with, is shared by those that are there together. Adding up slices is a launch of its own. */
static double cost_of(const braid_launch_traits *traits, const braid_launch_tile *tile, const braid_launch_tiling *t,
                      int64_t slices) {
  int64_t count, slice = slice_of(tile, t->inner, slices, &count);
  double results = (double)t->rows * (double)t->columns * (double)t->batches, units = units_of(traits);
  double tiles =
      (double)braid_launch_ceil_div(t->rows, tile->rows) * (double)braid_launch_ceil_div(t->columns, tile->columns);
  double groups = ceil(tiles * (double)t->batches * (double)count / units);
  double items = groups * (double)tile->group, waits = items > kResident ? items / kResident : 1;
  double step = work_of_item(tile, t) * items / kLanes + kStepWait * waits;
  double cost = (double)(slice / tile->depth) * step;
  return count > 1 ? cost + kJoin + kJoinElement * (double)(count + 1) * results / units : cost;
}

static int64_t best_slices(const braid_launch_traits *traits, const braid_launch_tile *tile,
                           const braid_launch_tiling *t, double *cost) {
  if (traits->knob_slices || !traits->gpu) {
    int64_t slices = traits->knob_slices ? traits->knob_slices : 1;
    *cost = cost_of(traits, tile, t, slices);
    return slices;
  }
  int64_t best = 1;
  *cost = cost_of(traits, tile, t, 1);
  for (int64_t slices = 2; slices <= kMostSlices; slices *= 2) {
    double other = cost_of(traits, tile, t, slices);
    if (other < *cost) *cost = other, best = slices;
  }
  return best;
}

int64_t braid_launch_slices(const braid_launch_traits *traits, const braid_launch_tile *tile,
                            const braid_launch_tiling *tiling, int64_t *slice) {
  double cost;
  int64_t count;
  *slice = slice_of(tile, tiling->inner, best_slices(traits, tile, tiling, &cost), &count);
  return count;
}

/* --- choosing ------------------------------------------------------------------------------------------------------
 */
static bool takes(const braid_launch_traits *traits, const braid_launch_tile *tile, char *why, size_t why_bytes) {
  if (traits->cpu)
    return braid_launch_refuse(why, why_bytes, "a CPU's local memory is its caches, which need no tiles");
  if (traits->local_bytes && tile->local_bytes > traits->local_bytes)
    return braid_launch_refuse(why, why_bytes, "tiles of %zu bytes, local memory has %zu", tile->local_bytes,
                               traits->local_bytes);
  if (traits->max_group && tile->group > traits->max_group)
    return braid_launch_refuse(why, why_bytes, "tiles of %zu work-items, the device takes %zu", tile->group,
                               traits->max_group);
  return true;
}

bool braid_launch_tiles_fill(const braid_launch_traits *traits, braid_launch_way way, int64_t rows, int64_t columns,
                             int64_t batches, char *why, size_t why_bytes) {
  braid_launch_tile tile = braid_launch_tile_of(traits, way, true);
  int64_t tiles = braid_launch_ceil_div(rows, tile.rows) * braid_launch_ceil_div(columns, tile.columns) * batches;
  if (!takes(traits, &tile, why, why_bytes)) return false;
  if (way == BRAID_LAUNCH_TILES_SMALL || traits->knob_tile.rows) return true;
  if (tiles < (int64_t)traits->compute_units)
    return braid_launch_refuse(why, why_bytes, "%lld tiles of %lld x %lld leave some of %u compute units idle",
                               (long long)tiles, (long long)tile.rows, (long long)tile.columns, traits->compute_units);
  if (rows < tile.rows / 2 || columns < tile.columns / 2)
    return braid_launch_refuse(why, why_bytes, "%lld x %lld results fill no tile of %lld x %lld", (long long)rows,
                               (long long)columns, (long long)tile.rows, (long long)tile.columns);
  return true;
}

bool braid_launch_tiles_fit(const braid_launch_traits *traits, braid_launch_way way, const braid_launch_tiling *t,
                            char *why, size_t why_bytes) {
  if (!traits->gpu) return braid_launch_tiles_fill(traits, way, t->rows, t->columns, t->batches, why, why_bytes);
  char unused[128];
  double own, cost;
  braid_launch_tile tile = braid_launch_tile_of(traits, way, t->windows);
  if (!takes(traits, &tile, why, why_bytes)) return false;
  if (traits->knob_tile.rows) return true;
  (void)best_slices(traits, &tile, t, &own);
  for (braid_launch_way other = BRAID_LAUNCH_TILES_LARGE; other <= BRAID_LAUNCH_TILES_SMALL; other++) {
    tile = braid_launch_tile_of(traits, other, t->windows);
    if (other == way || !takes(traits, &tile, unused, sizeof unused)) continue;
    (void)best_slices(traits, &tile, t, &cost);
    if (cost < own || (other < way && cost <= own))
      return braid_launch_refuse(why, why_bytes, "tiles of %lld x %lld should take %.2f of the time",
                                 (long long)tile.rows, (long long)tile.columns, cost / own);
  }
  return true;
}
