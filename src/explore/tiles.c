/* The paper's model: time (Section 6.3), resources (6.1), bandwidth (6.2). All in double precision: products of sizes
 * from a file never overflow. docs/explore.md has the equations and the choices. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "explore/network.h"

/* [X]^T: X filled up to a multiple of T. */
static double filled(double x, double t) {
  return ceil(x / t) * t;
}

/* What a pass takes: cycles of the kernel, and bytes over the chip's border. */
typedef struct cost {
  double cycles, bytes;
} cost;

/* T_CONV and T_FC; a group is a product of its own. */
static double product_cycles(const braid_tile_pass *pass, double batch, const braid_tile_design *d) {
  double tb = (double)d->tb, ti = (double)d->ti;
  double pixels = pass->connected ? 1 : filled((double)pass->pixels, ti);
  return filled(batch, tb) * filled((double)pass->depth, ti) * filled((double)pass->filters, ti) * pixels / (tb * ti) *
         (double)pass->groups;
}

/* Outputs that leave in a cycle of a forward or backward product: a tile of them after N cycles' worth of sums. */
static double output_rate(const braid_tile_pass *pass, const braid_tile_design *d) {
  return (double)d->tb * (double)d->ti / filled((double)pass->sums, (double)d->ti);
}

/* The streams of Section 6.2. A gradient has two operands of each sample and no weights, and Algorithm 2 sums it over
 * the batch in the kernel, so that it leaves once. */
static double product_bits(const braid_tile_pass *pass, double cycles, const braid_tile_design *d) {
  double tb = (double)d->tb, ti = (double)d->ti, narrow = BRAID_TILE_NARROW, wide = BRAID_TILE_WIDE;
  if (pass->phase == BRAID_TILE_GRADIENT)
    return cycles * 2 * tb * narrow +
           (double)pass->groups * filled((double)pass->depth, ti) * filled((double)pass->filters, ti) * wide;
  double second = !pass->weights ? tb : pass->connected ? ti : 1;
  double out = output_rate(pass, d) * (pass->phase == BRAID_TILE_FORWARD ? narrow : wide);
  return cycles * (tb * narrow + second * narrow + out);
}

static cost pass_cost(const braid_tile_pass *pass, double batch, const braid_tile_design *d) {
  if (pass->phase != BRAID_TILE_AUXILIARY) {
    double cycles = product_cycles(pass, batch, d);
    return (cost){cycles, product_bits(pass, cycles, d) / 8};
  }
  double tb = (double)d->tb, values = pass->batched ? pass->elements * filled(batch, tb) : filled(pass->elements, tb);
  return (cost){values / tb, pass->read_bytes + pass->written_bytes};
}

/* Milliseconds: computation and transfer overlap (Section 6.3), the longer one counts. */
static double pass_ms(cost c, const braid_chip *chip, const braid_tile_design *d, double *waits) {
  double compute = c.cycles / (d->clock * 1e3);
  double transfer = chip->bandwidth ? c.bytes / (chip->bandwidth->value * 1e6) : 0;
  *waits = transfer > compute ? transfer - compute : 0;
  return compute + *waits;
}

static braid_status design_check(const braid_tile_design *d) {
  if (d->tb < 1 || d->tb > BRAID_TILE_MOST || d->ti < 1 || d->ti > BRAID_TILE_MOST)
    return braid_fail(BRAID_INVALID_ARGUMENT, "tiles of %lld and %lld; 1 to %d is expected", (long long)d->tb,
                      (long long)d->ti, BRAID_TILE_MOST);
  if (!(d->clock > 0) || !isfinite(d->clock))
    return braid_fail(BRAID_INVALID_ARGUMENT, "a clock of %g MHz; above 0 is expected", d->clock);
  return BRAID_OK;
}

/* --- resources -----------------------------------------------------------------------------------------------------
 */
static double value_of(const braid_figure *figure, double otherwise) {
  return figure ? figure->value : otherwise;
}

/* beta and delta where they are known. Else every beta, delta and fixed part that are not negative and give the design
 * that was built: the LUTs grow at most as fast as one of T_B T_I, T_B and 1, and at least as slowly. */
static void set_luts(const braid_chip *chip, const braid_tile_design *d, braid_tile_result *out) {
  double tb = (double)d->tb, ti = (double)d->ti;
  out->least_luts = out->most_luts = NAN;
  if (chip->multiplier_luts) {
    double luts = tb * ti * chip->multiplier_luts->value + tb * chip->lane_luts->value + value_of(chip->fixed_luts, 0);
    out->least_luts = out->most_luts = luts;
  } else if (chip->built) {
    const braid_built_design *built = chip->built;
    double multipliers = tb * ti / (built->tb * built->ti), lanes = tb / built->tb;
    out->least_luts = built->luts * fmin(fmin(multipliers, lanes), 1);
    out->most_luts = built->luts * fmax(fmax(multipliers, lanes), 1);
  }
}

static void set_resources(const braid_chip *chip, const braid_tile_design *d, braid_tile_result *out) {
  double tb = (double)d->tb, ti = (double)d->ti, narrow = BRAID_TILE_NARROW;
  double levels = ceil(log2(ti)), add = chip->adder_dsps->value;
  out->dsps =
      ceil(tb * ti * chip->multiplier_dsps->value + tb * levels * add + tb * add) + value_of(chip->fixed_dsps, 0);
  out->brams = ceil((4 * tb * ti * ti * 2 * narrow + 4 * ti * ti * narrow) / chip->bram_bits->value) +
               value_of(chip->fixed_brams, 0);
  set_luts(chip, d, out);
  out->used[BRAID_TILE_LUTS] = out->least_luts / chip->luts->value;
  out->used[BRAID_TILE_BRAMS] = out->brams / chip->brams->value;
  out->used[BRAID_TILE_DSPS] = out->dsps / chip->dsps->value;
  out->used[BRAID_TILE_TRANSPOSITION] = ti / tb;
  out->luts_unsure = out->most_luts > chip->luts->value;
  out->fits = true;
  out->binding = BRAID_TILE_BRAMS;
  for (int i = 0; i < BRAID_TILE_LIMITS; i++) {
    if (out->used[i] > 1) out->fits = false;
    /* Equal tiles use all of the last limit, and break nothing. */
    bool counts = i != BRAID_TILE_TRANSPOSITION || out->used[i] > 1;
    if (counts && out->used[i] > out->used[out->binding]) out->binding = (braid_tile_limit)i;
  }
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
/* GB/s of so many bits in a cycle. */
static double rate(double bits, const braid_tile_design *d) {
  return bits / 8 * d->clock / 1e3;
}

/* BW_CONV and BW_FC as they are printed. */
static void set_literal_bandwidth(const braid_tile_pass *pass, const braid_tile_design *d, braid_tile_result *out) {
  double tb = (double)d->tb, narrow = BRAID_TILE_NARROW;
  double weights = pass->connected ? (double)d->ti : 1;
  double outputs = output_rate(pass, d) * (pass->phase == BRAID_TILE_FORWARD ? narrow : BRAID_TILE_WIDE);
  double *most = pass->connected ? &out->connected_bandwidth : &out->conv_bandwidth;
  if (pass->phase != BRAID_TILE_GRADIENT) *most = fmax(*most, rate(tb * narrow + outputs + weights * narrow, d));
}

static void evaluate(const braid_tile_network *network, const braid_chip *chip, const braid_tile_design *d,
                     braid_tile_result *out) {
  *out = (braid_tile_result){.design = *d};
  set_resources(chip, d, out);
  double batch = (double)network->batch, narrow = BRAID_TILE_NARROW, waits;
  for (size_t i = 0; i < network->pass_count; i++) {
    const braid_tile_pass *pass = &network->passes[i];
    cost c = pass_cost(pass, batch, d);
    double compute = c.cycles / (d->clock * 1e3);
    bool auxiliary = pass->phase == BRAID_TILE_AUXILIARY;
    *(auxiliary ? &out->auxiliary_ms : pass->connected ? &out->connected_ms : &out->conv_ms) += compute;
    out->phase_ms[pass->phase] += pass_ms(c, chip, d, &waits);
    out->wait_ms += waits;
    if (c.cycles > 0) out->counted_bandwidth = fmax(out->counted_bandwidth, rate(8 * c.bytes / c.cycles, d));
    if (!auxiliary) set_literal_bandwidth(pass, d, out);
  }
  for (int i = 0; i < BRAID_TILE_PHASES; i++) out->total_ms += out->phase_ms[i];
  out->auxiliary_bandwidth = rate(2 * (double)d->tb * narrow + 2 * (double)d->tb * narrow, d);
  double most = fmax(fmax(out->conv_bandwidth, out->connected_bandwidth), out->auxiliary_bandwidth);
  out->literal_fits = out->fits && (!chip->bandwidth || most <= chip->bandwidth->value);
}

braid_status braid_tile_evaluate(const braid_tile_network *network, const braid_chip *chip,
                                 const braid_tile_design *design, braid_tile_result *out) {
  BRAID_TRY(design_check(design));
  evaluate(network, chip, design, out);
  return BRAID_OK;
}

braid_status braid_tile_pass_time(const braid_tile_network *network, const braid_chip *chip,
                                  const braid_tile_design *design, size_t pass, double *out, double *waits) {
  BRAID_TRY(design_check(design));
  if (pass >= network->pass_count)
    return braid_fail(BRAID_INVALID_ARGUMENT, "pass %zu of %zu", pass, network->pass_count);
  *out = pass_ms(pass_cost(&network->passes[pass], (double)network->batch, design), chip, design, waits);
  return BRAID_OK;
}

braid_status braid_tile_layer_times(const braid_tile_network *network, const braid_chip *chip,
                                    const braid_tile_design *design, size_t layer, double out[BRAID_TILE_PHASES]) {
  double waits;
  memset(out, 0, BRAID_TILE_PHASES * sizeof *out);
  BRAID_TRY(design_check(design));
  for (size_t i = 0; i < network->pass_count; i++) {
    const braid_tile_pass *pass = &network->passes[i];
    if (pass->layer == layer)
      out[pass->phase] += pass_ms(pass_cost(pass, (double)network->batch, design), chip, design, &waits);
  }
  return BRAID_OK;
}

const char *braid_tile_phase_name(braid_tile_phase phase) {
  static const char *const kNames[BRAID_TILE_PHASES] = {"forward", "backward", "gradient", "auxiliary"};
  return kNames[phase];
}

const char *braid_tile_limit_name(braid_tile_limit limit) {
  static const char *const kNames[BRAID_TILE_LIMITS] = {"LUTs", "BRAMs", "DSPs", "T_B >= T_I"};
  return kNames[limit];
}

/* --- the search ----------------------------------------------------------------------------------------------------
 */
enum { kMostFreeTile = 256 };

/* The least T_B for each number of tiles over the batch, largest first. */
static size_t batch_tiles(int64_t batch, int64_t *out) {
  size_t count = 0;
  for (int64_t tiles = 1; tiles <= batch;) {
    int64_t tb = (batch + tiles - 1) / tiles;
    if (out) out[count] = tb;
    count++;
    if (tb == 1) break;
    tiles = (batch + tb - 2) / (tb - 1); /* the first number of tiles that takes a smaller one */
  }
  return count;
}

/* Fastest first; of equally fast ones the one with fewer DSPs. The index makes the order that of the search. */
typedef struct ranked {
  double ms, dsps;
  size_t index;
} ranked;

static int compare(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->ms != y->ms) return x->ms < y->ms ? -1 : 1;
  if (x->dsps != y->dsps) return x->dsps < y->dsps ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

static braid_status find_front(const braid_allocator *allocator, braid_tile_search *search) {
  ranked *order = braid_zalloc_array(allocator, search->count + 1, sizeof *order);
  search->front = braid_zalloc_array(NULL, search->count + 1, sizeof *search->front);
  if (!order || !search->front) {
    braid_free(allocator, order);
    return BRAID_NO_MEMORY;
  }
  size_t fitting = 0;
  for (size_t i = 0; i < search->count; i++) {
    const braid_tile_result *r = &search->results[i];
    if (r->fits) order[fitting++] = (ranked){r->total_ms, r->dsps, i};
  }
  qsort(order, fitting, sizeof *order, compare);
  double least = INFINITY;
  for (size_t i = 0; i < fitting; i++) {
    if (order[i].dsps >= least) continue;
    least = order[i].dsps;
    search->front[search->front_count++] = order[i].index;
  }
  braid_free(allocator, order);
  return BRAID_OK;
}

static braid_status try_all(const braid_tile_network *network, const braid_chip *chip, const int64_t *tb,
                            size_t tb_count, const int64_t *ti, size_t ti_count, double clock, braid_tile_search *out) {
  for (size_t i = 0; i < tb_count; i++)
    for (size_t k = 0; k < ti_count; k++) {
      braid_tile_design design = {tb[i], ti[k], clock};
      BRAID_TRY(braid_tile_evaluate(network, chip, &design, &out->results[out->count]));
      out->count++;
    }
  return find_front(network->allocator, out);
}

braid_status braid_tile_explore(const braid_tile_network *network, const braid_chip *chip, const int64_t *tb,
                                size_t tb_count, const int64_t *ti, size_t ti_count, double clock,
                                braid_tile_search *out) {
  *out = (braid_tile_search){.results = NULL};
  const braid_allocator *allocator = network->allocator;
  size_t most = batch_tiles(network->batch, NULL);
  int64_t *own = braid_zalloc_array(allocator, most + kMostFreeTile, sizeof *own);
  if (!own) return BRAID_NO_MEMORY;
  if (!tb) {
    tb_count = batch_tiles(network->batch, own);
    tb = own;
  }
  if (!ti) {
    for (int64_t i = 0; i < kMostFreeTile; i++) own[most + (size_t)i] = i + 1;
    ti_count = kMostFreeTile;
    ti = own + most;
  }
  braid_status status = BRAID_OK;
  if (tb_count > BRAID_TILE_MOST_DESIGNS || ti_count > BRAID_TILE_MOST_DESIGNS ||
      tb_count * ti_count > BRAID_TILE_MOST_DESIGNS)
    status = braid_fail(BRAID_INVALID_ARGUMENT, "more than %d designs", BRAID_TILE_MOST_DESIGNS);
  if (status == BRAID_OK) {
    out->results = braid_zalloc_array(NULL, tb_count * ti_count + 1, sizeof *out->results);
    status = out->results ? try_all(network, chip, tb, tb_count, ti, ti_count, clock, out) : BRAID_NO_MEMORY;
  }
  braid_free(allocator, own);
  if (status != BRAID_OK) braid_tile_search_deinit(out);
  return status;
}

void braid_tile_search_deinit(braid_tile_search *search) {
  braid_free(NULL, search->results);
  braid_free(NULL, search->front);
  *search = (braid_tile_search){.results = NULL};
}
