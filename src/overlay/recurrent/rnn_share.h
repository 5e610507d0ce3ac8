/* How cores share a cell: its states, and the rows of its matrix. */
#ifndef BRAID_OVERLAY_RECURRENT_RNN_SHARE_H
#define BRAID_OVERLAY_RECURRENT_RNN_SHARE_H

#include "overlay/recurrent/rnn.h"

/* Rows are divided with the states, so that a core has all four gates of its own and cores meet once in a step; or,
 * where that is less even, the rows of all gates are divided as one list, and cores meet twice: before the gates are
 * used, too. Both by groups (braid_rnn_group). */
typedef struct braid_rnn_division {
  int cores;
  bool apart; /* rows as one list */
  int sides;  /* cores that have states: where rows are apart, those that have the fewest rows, and so few
               * that the card's decoder, which hands out a word in a cycle to all, keeps up; else all */
  int8_t side[BRAID_OVERLAY_MOST_CORES]; /* of each core, which of them; -1: none */
  int input;                             /* the core that loads inputs: without states, if there is such a one */
  bool stays;                            /* weights fit the memories of all cores, and are loaded once */
  int32_t rows, units;                   /* of the core that has most: of all gates, filled to groups of HP; states */
} braid_rnn_division;
/* What takes least for a whole sequence, by estimate. */
braid_rnn_division braid_rnn_divide(const braid_rnn *rnn, const braid_rnn_cell *cell, int cores);

/* Rows of one gate that a core has. */
typedef struct braid_rnn_rows {
  int32_t gate, first, count;
} braid_rnn_rows;

typedef struct braid_rnn_part {
  int32_t first, units; /* states; none: units 0 */
  braid_rnn_rows rows[BRAID_RNN_GATES];
  int row_count;
} braid_rnn_part;
braid_rnn_part braid_rnn_part_of(const braid_rnn *rnn, const braid_rnn_cell *cell, const braid_rnn_division *division,
                                 int core);
/* The states of the core that has a row of a gate among them: the first, and how many. */
void braid_rnn_owner_of(const braid_rnn *rnn, const braid_rnn_cell *cell, const braid_rnn_division *division,
                        int32_t row, int32_t *first, int32_t *units);

/* Pieces of some rows that take turns in the halves of the memories: at most so many rows and columns; with fewer
 * columns than all, `rows` is a group. */
typedef struct braid_rnn_cut {
  int32_t rows, columns;
} braid_rnn_cut;
braid_rnn_cut braid_rnn_cut_of(const braid_rnn *rnn, const braid_rnn_cell *cell, int32_t rows);

/* Pieces of weights that stay, in the order in which they come while the first step computes with those that are there:
 * of the core that has most, in groups of rows (braid_rnn_group). With few pieces the memory's latency is paid seldom;
 * with a small first one computing begins early, with a small last one it ends early. What takes least is taken. */
enum { BRAID_RNN_MOST_KEPT = 16 }; /* pieces, and one more where rows of another gate begin */
typedef struct braid_rnn_kept {
  int32_t groups[BRAID_RNN_MOST_KEPT];
  int count;
  bool grow; /* from the first to the last: then a core with fewer rows leaves out of the last, else of the first */
  uint64_t cycles; /* of loading, and of what of computing is behind that */
} braid_rnn_kept;
braid_rnn_kept braid_rnn_keep(const braid_rnn *rnn, const braid_rnn_cell *cell, const braid_rnn_division *division);
/* Of a core with so many groups: how many are before the end of the piece that has group `at`. */
int32_t braid_rnn_kept_end(const braid_rnn_kept *kept, int32_t groups, int32_t at);

int64_t braid_rnn_weight_lines(const braid_rnn_core *core, int64_t rows, int64_t columns);
int64_t braid_rnn_bias_lines(int64_t rows);

/* Estimates, of the core that has most. */
typedef struct braid_rnn_estimate {
  int32_t pieces;       /* of weights: in a step, or, where they stay, once */
  uint64_t begin, step; /* cycles before the first step, and of each */
  uint64_t
      step_bound; /* if rows and states were divided evenly, to fractions, and nothing waited for memory to answer */
} braid_rnn_estimate;
braid_rnn_estimate braid_rnn_estimate_of(const braid_rnn *rnn, const braid_rnn_cell *cell,
                                         const braid_rnn_division *division);

#endif
