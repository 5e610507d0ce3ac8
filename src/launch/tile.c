#include "launch/tile.h"

#include <math.h>

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
static braid_launch_tile tile_of_group(const braid_launch_traits *traits, braid_launch_algorithm algorithm) {
  size_t wanted = braid_launch_group(traits), group = 16;
  while (2 * group <= wanted && group < 256) group *= 2;
  int64_t across = group >= 128 ? 16 : 8, down = (int64_t)group / across;
  int64_t work = algorithm == BRAID_LAUNCH_TILES_LARGE ? 8 : algorithm == BRAID_LAUNCH_TILES_MEDIUM ? 4 : 2;
  while (across * work > (int64_t)group) work /= 2;
  return (braid_launch_tile){.rows = down * work,
                             .columns = across * work,
                             .depth = algorithm == BRAID_LAUNCH_TILES_LARGE && group == 256 ? 8 : 16,
                             .work_rows = work,
                             .work_columns = work,
                             .group = group};
}

static size_t local_bytes_of(const braid_launch_tile *tile) {
  return 2 * (size_t)(tile->depth * (tile->rows + tile->columns + 8)) * sizeof(float);
}

/* Large tiles become flatter over windows, and where local memory is too small for them. */
static braid_launch_tile tile_of_tuning(const braid_launch_traits *traits, braid_launch_algorithm algorithm,
                                        bool windows) {
  const braid_launch_tuning *tuning = traits->tuning;
  braid_launch_tile tile = tile_of_sides(&tuning->tiles[algorithm - BRAID_LAUNCH_TILES_LARGE]);
  bool tight = traits->local_bytes && local_bytes_of(&tile) > traits->local_bytes;
  if (algorithm == BRAID_LAUNCH_TILES_LARGE && (windows || tight)) tile.depth = tuning->window_depth;
  return tile;
}

braid_launch_tile braid_launch_tile_of(const braid_launch_traits *traits, braid_launch_algorithm algorithm,
                                       bool windows) {
  braid_launch_tile tile;
  if (traits->knobs.tile.rows)
    tile = tile_of_sides(&traits->knobs.tile);
  else if (traits->tuning->tiles[0].rows && !traits->knobs.group)
    tile = tile_of_tuning(traits, algorithm, windows);
  else
    tile = tile_of_group(traits, algorithm);
  tile.local_bytes = local_bytes_of(&tile);
  return tile;
}

void braid_launch_add_tile(braid_launch_planner *p, const braid_launch_tile *tile) {
  uint32_t unroll = p->traits->knobs.unroll      ? p->traits->knobs.unroll
                    : p->traits->tuning->unrolls ? (uint32_t)tile->depth
                                                 : 0;
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
static double work_of_item(const braid_launch_tile_model *model, const braid_launch_tile *tile,
                           const braid_launch_tiling *t) {
  double depth = (double)tile->depth, left = model->load_alone, right = model->load_alone;
  if (t->left_fours && braid_launch_loads_fours(tile, tile->rows)) left = model->load_in_fours;
  if (t->right_fours && braid_launch_loads_fours(tile, tile->columns)) right = model->load_in_fours;
  double sums = (double)(tile->work_rows * tile->work_columns);
  double reads = (double)(tile->work_rows + tile->work_columns) / 4 * model->read_of_four;
  double loads = ((double)tile->rows * left + (double)tile->columns * right) / (double)tile->group;
  return depth * (sums + reads + loads);
}

/* The busiest compute unit's time: groups that come to it work one after another, whereas waiting, which every step of
 * a group begins with, is shared by those that are there together. Adding up slices is a launch of its own. */
static double cost_of(const braid_launch_traits *traits, const braid_launch_tile *tile, const braid_launch_tiling *t,
                      int64_t slices) {
  const braid_launch_tile_model *model = traits->tuning->model;
  int64_t count, slice = slice_of(tile, t->inner, slices, &count);
  double results = (double)t->rows * (double)t->columns * (double)t->batches, units = units_of(traits);
  double tiles =
      (double)braid_launch_ceil_div(t->rows, tile->rows) * (double)braid_launch_ceil_div(t->columns, tile->columns);
  double groups = ceil(tiles * (double)t->batches * (double)count / units);
  double items = groups * (double)tile->group, waits = items > model->resident ? items / model->resident : 1;
  double step = work_of_item(model, tile, t) * items / model->lanes + model->step_wait * waits;
  double cost = (double)(slice / tile->depth) * step;
  return count > 1 ? cost + model->join + model->join_element * (double)(count + 1) * results / units : cost;
}

/* The knob's slices, or those that cost least. */
static int64_t best_slices(const braid_launch_traits *traits, const braid_launch_tile *tile,
                           const braid_launch_tiling *t, double *cost) {
  int64_t best = traits->knobs.slices ? traits->knobs.slices : 1;
  *cost = cost_of(traits, tile, t, best);
  for (int64_t slices = 2; !traits->knobs.slices && slices <= traits->tuning->model->most_slices; slices *= 2) {
    double other = cost_of(traits, tile, t, slices);
    if (other < *cost) *cost = other, best = slices;
  }
  return best;
}

int64_t braid_launch_slices(const braid_launch_traits *traits, const braid_launch_tile *tile,
                            const braid_launch_tiling *tiling, int64_t *slice) {
  double cost;
  int64_t count, slices = traits->knobs.slices ? traits->knobs.slices : 1;
  if (traits->tuning->model) slices = best_slices(traits, tile, tiling, &cost);
  *slice = slice_of(tile, tiling->inner, slices, &count);
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

bool braid_launch_tiles_fill(const braid_launch_traits *traits, braid_launch_algorithm algorithm, int64_t rows,
                             int64_t columns, int64_t batches, char *why, size_t why_bytes) {
  braid_launch_tile tile = braid_launch_tile_of(traits, algorithm, true);
  int64_t tiles = braid_launch_ceil_div(rows, tile.rows) * braid_launch_ceil_div(columns, tile.columns) * batches;
  if (!takes(traits, &tile, why, why_bytes)) return false;
  if (algorithm == BRAID_LAUNCH_TILES_SMALL || traits->knobs.tile.rows) return true;
  if (tiles < (int64_t)traits->compute_units)
    return braid_launch_refuse(why, why_bytes, "%lld tiles of %lld x %lld leave some of %u compute units idle",
                               (long long)tiles, (long long)tile.rows, (long long)tile.columns, traits->compute_units);
  if (rows < tile.rows / 2 || columns < tile.columns / 2)
    return braid_launch_refuse(why, why_bytes, "%lld x %lld results fill no tile of %lld x %lld", (long long)rows,
                               (long long)columns, (long long)tile.rows, (long long)tile.columns);
  return true;
}

bool braid_launch_tiles_fit(const braid_launch_traits *traits, braid_launch_algorithm algorithm,
                            const braid_launch_tiling *t, char *why, size_t why_bytes) {
  if (!traits->tuning->model)
    return braid_launch_tiles_fill(traits, algorithm, t->rows, t->columns, t->batches, why, why_bytes);
  char unused[128];
  double own, cost;
  braid_launch_tile tile = braid_launch_tile_of(traits, algorithm, t->windows);
  if (!takes(traits, &tile, why, why_bytes)) return false;
  if (traits->knobs.tile.rows) return true;
  (void)best_slices(traits, &tile, t, &own);
  for (braid_launch_algorithm other = BRAID_LAUNCH_TILES_LARGE; other <= BRAID_LAUNCH_TILES_SMALL; other++) {
    tile = braid_launch_tile_of(traits, other, t->windows);
    if (other == algorithm || !takes(traits, &tile, unused, sizeof unused)) continue;
    (void)best_slices(traits, &tile, t, &cost);
    if (cost < own || (other < algorithm && cost <= own))
      return braid_launch_refuse(why, why_bytes, "tiles of %lld x %lld should take %.2f of the time",
                                 (long long)tile.rows, (long long)tile.columns, cost / own);
  }
  return true;
}
