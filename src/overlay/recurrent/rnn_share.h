/* How cores share a cell: its states, and the rows of its matrix. */
#ifndef BRAID_OVERLAY_RECURRENT_RNN_SHARE_H
#define BRAID_OVERLAY_RECURRENT_RNN_SHARE_H

#include "overlay/recurrent/rnn.h"

/* Rows are divided with the states, so that a core has all four gates of its own and cores meet once in a step; or,
 * where that is less even, the rows of all gates are divided as one list, and cores meet twice: before the gates are
 * used, too. Both by groups (braid_rnn_group). */
typedef struct braid_rnn_division {
  int cores;
  bool apart;          /* rows as one list */
  bool stays;          /* weights fit the memories of all cores, and are loaded once */
  int32_t rows, units; /* of the core that has most: of all gates, filled to groups of HP; states */
} braid_rnn_division;
/* What takes least for a whole sequence, by estimate. */
braid_rnn_division braid_rnn_divide(const braid_rnn *rnn, const braid_rnn_cell *cell, int cores);

/* Rows of one gate that a core has. */
typedef struct braid_rnn_rows {
  int32_t gate, first, count;
} braid_rnn_rows;

typedef struct braid_rnn_part {
  int32_t first, units; /* states */
  braid_rnn_rows rows[BRAID_RNN_GATES];
  int row_count;
} braid_rnn_part;
braid_rnn_part braid_rnn_part_of(const braid_rnn *rnn, const braid_rnn_cell *cell, const braid_rnn_division *division,
                                 int core);

/* Pieces of some rows that take turns in the halves of the memories: at most so many rows and columns; with fewer
 * columns than all, `rows` is a group. */
typedef struct braid_rnn_cut {
  int32_t rows, columns;
} braid_rnn_cut;
braid_rnn_cut braid_rnn_cut_of(const braid_rnn *rnn, const braid_rnn_cell *cell, int32_t rows);

/* The most rows of a piece of weights that stay: so that the first step computes with one while the next comes, without
 * the memory's latency too often. The same of all cores, which meet when the first piece is there. */
enum { BRAID_RNN_MOST_KEPT = 16 }; /* pieces, and one more where rows of another gate begin */
int32_t braid_rnn_kept_rows(const braid_rnn *rnn, const braid_rnn_cell *cell, const braid_rnn_division *division);

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
