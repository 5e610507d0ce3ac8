#include "overlay/recurrent/rnn_share.h"

#include <math.h>
#include <string.h>

enum { kParts = 1024 /* of a cycle */, kMeeting = 8 /* cycles, about */ };
enum { kStepWords = 11 };

static int32_t over(int64_t whole, int64_t divisor) {
  return (int32_t)((whole + divisor - 1) / divisor);
}

static int32_t least(int32_t a, int32_t b) {
  return a < b ? a : b;
}

int64_t braid_rnn_weight_lines(const braid_rnn_core *core, int64_t rows, int64_t columns) {
  int64_t hp = core->rows, wp = core->columns;
  return ((int64_t)over(rows, hp) * hp * over(columns, wp) * wp * 2 + BRAID_ISA_WORD - 1) / BRAID_ISA_WORD;
}

int64_t braid_rnn_bias_lines(int64_t rows) {
  return over(rows * 4, BRAID_ISA_WORD);
}

/* --- rows and states -----------------------------------------------------------------------------------------------
 */
static int32_t groups_of(const braid_rnn *rnn, const braid_rnn_cell *cell) {
  return over(cell->hidden, braid_rnn_group(&rnn->core));
}

/* The first of `count` things that a core has. */
static int32_t first_of(int32_t count, int cores, int core) {
  return (int32_t)((int64_t)count * core / cores);
}

static int32_t row_of(const braid_rnn *rnn, const braid_rnn_cell *cell, int32_t group) {
  return least(group * braid_rnn_group(&rnn->core), cell->hidden);
}

static void find_states(const braid_rnn *rnn, const braid_rnn_cell *cell, int sides, int side, int32_t *first,
                        int32_t *units) {
  int32_t groups = groups_of(rnn, cell);
  *first = row_of(rnn, cell, first_of(groups, sides, side));
  *units = row_of(rnn, cell, first_of(groups, sides, side + 1)) - *first;
}

void braid_rnn_owner_of(const braid_rnn *rnn, const braid_rnn_cell *cell, const braid_rnn_division *division,
                        int32_t row, int32_t *first, int32_t *units) {
  int64_t groups = groups_of(rnn, cell), group = row / braid_rnn_group(&rnn->core);
  find_states(rnn, cell, division->sides, (int)(((group + 1) * division->sides - 1) / groups), first, units);
}

braid_rnn_part braid_rnn_part_of(const braid_rnn *rnn, const braid_rnn_cell *cell, const braid_rnn_division *division,
                                 int core) {
  int32_t groups = groups_of(rnn, cell);
  int32_t from = first_of(groups, division->cores, core), to = first_of(groups, division->cores, core + 1);
  braid_rnn_part part = {0};
  if (division->side[core] >= 0)
    find_states(rnn, cell, division->sides, division->side[core], &part.first, &part.units);
  int32_t list = BRAID_RNN_GATES * groups;
  int32_t begin = first_of(list, division->cores, core), end = first_of(list, division->cores, core + 1);
  for (int32_t gate = 0; gate < BRAID_RNN_GATES; gate++) {
    int32_t low = from, high = to;
    if (division->apart) {
      low = begin > gate * groups ? begin - gate * groups : 0;
      high = least(end - gate * groups, groups);
    }
    if (low >= high) continue;
    int32_t first = row_of(rnn, cell, low);
    part.rows[part.row_count++] = (braid_rnn_rows){gate, first, row_of(rnn, cell, high) - first};
  }
  return part;
}

/* From the meeting before the gates are used to the SAVE: an ELE of three gates, six of one, two words of SAVE. */
static uint64_t side_cycles(const braid_rnn_core *core, int sides, double units) {
  double one = units / core->side, words = sides;
  return (uint64_t)((3 * one > words ? 3 * one : words) + 6 * (one > words ? one : words) + 2 * words);
}

static int choose_sides(const braid_rnn *rnn, const braid_rnn_cell *cell, int cores) {
  int32_t group = braid_rnn_group(&rnn->core), groups = groups_of(rnn, cell);
  uint64_t shortest = UINT64_MAX;
  int best = 1;
  for (int sides = 1; sides <= cores && sides <= groups; sides++) {
    uint64_t cycles = side_cycles(&rnn->core, sides, over(groups, sides) * group);
    if (cycles >= shortest) continue;
    shortest = cycles;
    best = sides;
  }
  return best;
}

static int32_t padded_rows(const braid_rnn_core *core, const braid_rnn_part *part) {
  int32_t rows = 0;
  for (int i = 0; i < part->row_count; i++) rows += over(part->rows[i].count, core->rows) * core->rows;
  return rows;
}

/* Those with the fewest rows have states, and the next one loads inputs. */
static void choose_cores(braid_rnn_division *division, const int32_t rows[BRAID_OVERLAY_MOST_CORES]) {
  bool taken[BRAID_OVERLAY_MOST_CORES] = {false};
  int sides = 0;
  for (int s = 0; s <= division->sides && s < division->cores; s++) {
    int fewest = -1;
    for (int c = 0; c < division->cores; c++)
      if (!taken[c] && (fewest < 0 || rows[c] < rows[fewest])) fewest = c;
    if (s < division->sides) taken[fewest] = true;
    division->input = fewest;
  }
  if (division->sides == division->cores) division->input = 0;
  for (int c = 0; c < division->cores; c++) division->side[c] = taken[c] ? (int8_t)sides++ : -1;
}

static braid_rnn_division divide_by(const braid_rnn *rnn, const braid_rnn_cell *cell, int cores, bool apart) {
  const braid_rnn_core *core = &rnn->core;
  braid_rnn_division division = {.cores = cores, .apart = apart, .sides = cores};
  int32_t rows[BRAID_OVERLAY_MOST_CORES];
  if (apart) division.sides = choose_sides(rnn, cell, cores);
  for (int c = 0; c < cores; c++) { /* rows don't depend on who has states */
    braid_rnn_part part = braid_rnn_part_of(rnn, cell, &division, c);
    rows[c] = padded_rows(core, &part);
    if (rows[c] > division.rows) division.rows = rows[c];
  }
  choose_cores(&division, rows);
  for (int c = 0; c < cores; c++) {
    int32_t units = braid_rnn_part_of(rnn, cell, &division, c).units;
    if (units > division.units) division.units = units;
  }
  division.stays = braid_rnn_weight_lines(core, division.rows, cell->columns) + BRAID_RNN_GATES <= core->weights &&
                   braid_rnn_bias_lines(division.rows) + BRAID_RNN_GATES <= core->biases;
  return division;
}

/* --- pieces --------------------------------------------------------------------------------------------------------
 */
/* Whether a piece fits half of the memories, and is loaded and computed in the time that pieces should take. */
static bool piece_fits(const braid_rnn_core *core, int32_t rows, int32_t columns, bool timely) {
  int64_t lines = braid_rnn_weight_lines(core, rows, columns);
  if (lines > core->weights / 2 || braid_rnn_bias_lines(rows) > core->biases / 2) return false;
  int64_t cycles = (int64_t)over(rows, core->rows) * over(columns, core->columns);
  return !timely || (lines * core->line_parts / kParts <= core->piece_cycles && cycles <= core->piece_cycles);
}

braid_rnn_cut braid_rnn_cut_of(const braid_rnn *rnn, const braid_rnn_cell *cell, int32_t rows) {
  const braid_rnn_core *core = &rnn->core;
  braid_rnn_cut cut = {rows, cell->columns};
  int32_t group = braid_rnn_group(core), groups = over(rows, group), low = 1, high = groups;
  while (low < high) { /* the most groups that fit, then as many pieces of nearly equal size */
    int32_t middle = (low + high + 1) / 2;
    if (piece_fits(core, least(middle * group, rows), cell->columns, true))
      low = middle;
    else
      high = middle - 1;
  }
  cut.rows = least(over(groups, over(groups, low)) * group, rows);
  if (piece_fits(core, cut.rows, cell->columns, false)) return cut;
  int64_t padded = over(group, core->rows) * (int64_t)core->rows, step = braid_rnn_stride(core);
  int64_t room = core->weights / 2 * BRAID_RNN_LINE / padded;
  int64_t row = (int64_t)BRAID_RNN_MOST_ROW * BRAID_RNN_LINE / core->rows;
  cut.columns = (int32_t)((room < row ? room : row) / step * step);
  return cut;
}

static uint64_t load_cycles(const braid_rnn_core *core, double lines, int64_t instructions) {
  return (uint64_t)(lines * core->line_parts / kParts) + (uint64_t)instructions * (uint64_t)core->latency;
}

/* What a group of rows takes, in parts of a cycle, and what a LOAD takes besides. */
typedef struct kept_costs {
  int64_t load, sums, latency;
  int32_t groups, of_gate[BRAID_RNN_GATES];
  int gates;
} kept_costs;

/* When the last sums are there, if a LOAD begins when the one before it has ended and pieces are computed in order.
 * Rows of another gate are another piece, and a gate's biases another LOAD. */
static int64_t kept_cycles(const kept_costs *costs, const braid_rnn_kept *kept) {
  int64_t loaded = 0, computed = 0;
  int32_t at = 0;
  for (int gate = 0; gate < costs->gates; gate++) {
    int32_t end = at + costs->of_gate[gate];
    for (loaded += costs->latency; at < end;) {
      int32_t piece = least(braid_rnn_kept_end(kept, costs->groups, at), end) - at;
      loaded += piece * costs->load + costs->latency;
      computed = (computed > loaded ? computed : loaded) + piece * costs->sums;
      at += piece;
    }
  }
  return computed / kParts;
}

/* Pieces of nearly equal size. */
static braid_rnn_kept keep_evenly(int32_t groups, int32_t pieces) {
  braid_rnn_kept kept = {.count = 0};
  for (int32_t size = over(groups, pieces); groups > 0; groups -= size) kept.groups[kept.count++] = least(size, groups);
  return kept;
}

/* With n of them n - 1 more latencies are paid, and one nth of the shorter of loading and computing is not hidden. */
static int32_t even_pieces(const kept_costs *costs) {
  int64_t hidden = costs->groups * (costs->load < costs->sums ? costs->load : costs->sums);
  int32_t pieces = (int32_t)(sqrt((double)hidden / (double)costs->latency) + 0.5);
  if (pieces > BRAID_RNN_MOST_KEPT) return BRAID_RNN_MOST_KEPT;
  return pieces < 1 ? 1 : pieces;
}

/* Each piece is loaded just while the one before it computes: from one group on they grow where sums take longer; where
 * loading does, they shrink to one group, so that little is left to compute behind the last LOAD. At most `pieces`. */
static braid_rnn_kept keep_in_step(const kept_costs *costs, int pieces) {
  braid_rnn_kept kept = {.grow = costs->sums >= costs->load};
  int64_t size = 1;
  for (int32_t groups = costs->groups; groups > 0; groups -= kept.groups[kept.count++]) {
    kept.groups[kept.count] = size >= groups || kept.count == pieces - 1 ? groups : (int32_t)size;
    size = kept.grow ? (size * costs->sums - costs->latency) / costs->load
                     : (size * costs->load + costs->latency) / costs->sums;
    if (size < 1) size = 1;
  }
  for (int i = 0, j = kept.count - 1; !kept.grow && i < j; i++, j--) {
    int32_t swap = kept.groups[i];
    kept.groups[i] = kept.groups[j];
    kept.groups[j] = swap;
  }
  return kept;
}

/* Those of the core that has most groups. */
static void count_groups(const braid_rnn *rnn, const braid_rnn_cell *cell, const braid_rnn_division *division,
                         kept_costs *costs) {
  int32_t group = braid_rnn_group(&rnn->core);
  for (int c = 0; c < division->cores; c++) {
    braid_rnn_part part = braid_rnn_part_of(rnn, cell, division, c);
    int32_t of_gate[BRAID_RNN_GATES] = {0}, groups = 0;
    for (int i = 0; i < part.row_count; i++) groups += of_gate[i] = over(part.rows[i].count, group);
    if (groups <= costs->groups) continue;
    costs->groups = groups;
    costs->gates = part.row_count;
    memcpy(costs->of_gate, of_gate, sizeof of_gate);
  }
}

braid_rnn_kept braid_rnn_keep(const braid_rnn *rnn, const braid_rnn_cell *cell, const braid_rnn_division *division) {
  const braid_rnn_core *core = &rnn->core;
  int32_t group = braid_rnn_group(core);
  kept_costs costs = {.load = braid_rnn_weight_lines(core, group, cell->columns) * core->line_parts,
                      .sums = (int64_t)over(group, core->rows) * over(cell->columns, core->columns) * kParts,
                      .latency = (int64_t)(core->latency + 1) * kParts};
  count_groups(rnn, cell, division, &costs);
  braid_rnn_kept best = keep_evenly(costs.groups, even_pieces(&costs));
  best.cycles = (uint64_t)kept_cycles(&costs, &best);
  for (int pieces = 1; pieces <= BRAID_RNN_MOST_KEPT; pieces++) {
    braid_rnn_kept kept = keep_in_step(&costs, pieces);
    kept.cycles = (uint64_t)kept_cycles(&costs, &kept);
    if (kept.cycles < best.cycles) best = kept;
    if (kept.count < pieces) break;
  }
  return best;
}

int32_t braid_rnn_kept_end(const braid_rnn_kept *kept, int32_t groups, int32_t at) {
  int32_t all = 0, end = 0;
  for (int i = 0; i < kept->count; i++) all += kept->groups[i];
  int32_t missing = kept->grow ? 0 : all - groups;
  for (int i = 0; i < kept->count && end - missing <= at; i++) end += kept->groups[i];
  return least(end - missing, groups);
}

/* --- estimates -----------------------------------------------------------------------------------------------------
 */
/* A step of a core with so many rows of all gates, and states. The card's decoder hands out one word of all cores'
 * instructions in a cycle, and what is behind a meeting only after it. */
static uint64_t step_cycles(const braid_rnn *rnn, const braid_rnn_cell *cell, const braid_rnn_division *division,
                            double rows, double units, int32_t pieces) {
  const braid_rnn_core *core = &rnn->core;
  double columns = over(cell->columns, core->columns), cores = division->cores;
  double lines = rows * columns * core->columns * 2 / BRAID_ISA_WORD;
  double sums = rows / core->rows * columns;
  double loads = division->stays ? 0 : (double)load_cycles(core, lines, 2 * (int64_t)pieces);
  double saved = 2 * units / BRAID_RNN_LINE * core->line_parts / kParts + core->latency;
  double most = loads > sums ? loads : sums;
  if (!division->apart) {
    double whole = most + 5 * units / core->side; /* behind the last gate */
    double words = cores * (kStepWords + (division->stays ? 0 : 6 * pieces));
    return (uint64_t)((whole > words ? whole : words) + saved);
  }
  double words = cores * (division->stays ? pieces : 6 * pieces);
  if (words > most) most = words;
  return (uint64_t)(most + kMeeting + saved) + side_cycles(core, division->sides, units);
}

/* What is loaded before the first step and, of weights that stay, while it runs beyond what it takes itself. */
static uint64_t begin_cycles(const braid_rnn *rnn, const braid_rnn_cell *cell, const braid_rnn_division *division,
                             const braid_rnn_kept *kept) {
  const braid_rnn_core *core = &rnn->core;
  uint64_t vectors = load_cycles(core, cell->x_lines + 2 * braid_rnn_lines(division->units), 2);
  if (!division->stays) return vectors;
  uint64_t sums = (uint64_t)over(division->rows, core->rows) * (uint64_t)over(cell->columns, core->columns);
  return vectors + (kept->cycles > sums ? kept->cycles - sums : 0);
}

braid_rnn_estimate braid_rnn_estimate_of(const braid_rnn *rnn, const braid_rnn_cell *cell,
                                         const braid_rnn_division *division) {
  int32_t most = division->apart ? least(division->rows, cell->hidden) : division->units; /* of a gate */
  int32_t gates = over(division->rows, most);
  braid_rnn_estimate estimate = {.pieces = gates};
  braid_rnn_kept kept = {.count = 0};
  if (division->stays) {
    kept = braid_rnn_keep(rnn, cell, division);
    estimate.pieces += kept.count - 1;
  } else {
    braid_rnn_cut cut = braid_rnn_cut_of(rnn, cell, most);
    estimate.pieces *= over(most, cut.rows) * over(cell->columns, cut.columns);
  }
  estimate.begin = begin_cycles(rnn, cell, division, &kept);
  estimate.step = step_cycles(rnn, cell, division, division->rows, division->units, estimate.pieces);
  double even = (double)cell->hidden / division->cores;
  braid_rnn_division bound = {.cores = division->cores, .stays = division->stays};
  estimate.step_bound = step_cycles(rnn, cell, &bound, BRAID_RNN_GATES * even, even, 0);
  if (estimate.step_bound > estimate.step) estimate.step_bound = estimate.step;
  return estimate;
}

static uint64_t whole_cycles(const braid_rnn *rnn, const braid_rnn_cell *cell, const braid_rnn_division *division) {
  braid_rnn_estimate estimate = braid_rnn_estimate_of(rnn, cell, division);
  return estimate.begin + (uint64_t)rnn->length * estimate.step;
}

braid_rnn_division braid_rnn_divide(const braid_rnn *rnn, const braid_rnn_cell *cell, int cores) {
  braid_rnn_division together = divide_by(rnn, cell, cores, false);
  if (cores == 1) return together;
  braid_rnn_division apart = divide_by(rnn, cell, cores, true);
  return whole_cycles(rnn, cell, &apart) < whole_cycles(rnn, cell, &together) ? apart : together;
}
