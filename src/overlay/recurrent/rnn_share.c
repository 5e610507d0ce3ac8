#include "overlay/recurrent/rnn_share.h"

#include <math.h>

enum { kParts = 1024 /* of a cycle */, kMeeting = 8 /* cycles, about */ };
enum { kStepWords = 11, kSideWords = 12 };

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

braid_rnn_part braid_rnn_part_of(const braid_rnn *rnn, const braid_rnn_cell *cell, const braid_rnn_division *division,
                                 int core) {
  int32_t groups = groups_of(rnn, cell);
  int32_t from = first_of(groups, division->cores, core), to = first_of(groups, division->cores, core + 1);
  braid_rnn_part part = {.first = row_of(rnn, cell, from)};
  part.units = row_of(rnn, cell, to) - part.first;
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

static braid_rnn_division divide_by(const braid_rnn *rnn, const braid_rnn_cell *cell, int cores, bool apart) {
  const braid_rnn_core *core = &rnn->core;
  braid_rnn_division division = {.cores = cores, .apart = apart};
  for (int c = 0; c < cores; c++) {
    braid_rnn_part part = braid_rnn_part_of(rnn, cell, &division, c);
    int32_t rows = 0;
    for (int i = 0; i < part.row_count; i++) rows += over(part.rows[i].count, core->rows) * core->rows;
    if (rows > division.rows) division.rows = rows;
    if (part.units > division.units) division.units = part.units;
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

/* With n pieces n - 1 more latencies are paid, and one nth of the shorter of loading and computing is not hidden. */
static int32_t kept_rows(const braid_rnn *rnn, const braid_rnn_cell *cell, int32_t rows) {
  const braid_rnn_core *core = &rnn->core;
  int32_t group = braid_rnn_group(core), groups = over(rows, group);
  double loads = (double)load_cycles(core, (double)braid_rnn_weight_lines(core, rows, cell->columns), 0);
  double sums = (double)over(rows, core->rows) * over(cell->columns, core->columns);
  double hidden = loads < sums ? loads : sums;
  int32_t pieces = (int32_t)(sqrt(hidden / (core->latency + 1)) + 0.5);
  if (pieces > BRAID_RNN_MOST_KEPT) pieces = BRAID_RNN_MOST_KEPT;
  if (pieces < 1) pieces = 1;
  return over(groups, pieces) * group;
}

int32_t braid_rnn_kept_rows(const braid_rnn *rnn, const braid_rnn_cell *cell, const braid_rnn_division *division) {
  return kept_rows(rnn, cell, division->rows);
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
  double words = cores * (division->stays ? pieces : 6 * pieces), side = 9 * units / core->side;
  if (words > most) most = words;
  return (uint64_t)(most + kMeeting + (side > cores * kSideWords ? side : cores * kSideWords) + saved);
}

/* What is loaded before the first step and, of weights that stay, while it runs beyond what it takes itself. */
static uint64_t begin_cycles(const braid_rnn *rnn, const braid_rnn_cell *cell, const braid_rnn_division *division,
                             int32_t pieces, int32_t gates) {
  const braid_rnn_core *core = &rnn->core;
  uint64_t vectors = load_cycles(core, cell->x_lines + 2 * braid_rnn_lines(division->units), 2);
  if (!division->stays) return vectors;
  double lines = (double)braid_rnn_weight_lines(core, division->rows, cell->columns), later = 1 - 1.0 / pieces;
  double sums = (double)division->rows / core->rows * over(cell->columns, core->columns) * later;
  double rest = (double)load_cycles(core, lines * later, pieces - 1 + gates - 1);
  return vectors + load_cycles(core, lines * (1 - later), 2) + (uint64_t)(rest > sums ? rest - sums : 0);
}

braid_rnn_estimate braid_rnn_estimate_of(const braid_rnn *rnn, const braid_rnn_cell *cell,
                                         const braid_rnn_division *division) {
  int32_t most = division->apart ? least(division->rows, cell->hidden) : division->units; /* of a gate */
  int32_t gates = over(division->rows, most);
  braid_rnn_estimate estimate = {.pieces = gates};
  if (division->stays) {
    estimate.pieces *= over(most, kept_rows(rnn, cell, division->rows));
  } else {
    braid_rnn_cut cut = braid_rnn_cut_of(rnn, cell, most);
    estimate.pieces *= over(most, cut.rows) * over(cell->columns, cut.columns);
  }
  estimate.begin = begin_cycles(rnn, cell, division, estimate.pieces, gates);
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
