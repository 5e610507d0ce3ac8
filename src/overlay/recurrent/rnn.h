/* A recurrent network for the overlay: what a package of it says (docs/overlay-recurrent.md). Cells are LSTM layers of
 * one direction (lstm.h); each reads a sequence of vectors and writes one. All sequences have the same number of steps,
 * and one is computed at a time. The programs of some cores are made of these tables alone (rnn_dynamic.h). */
#ifndef BRAID_OVERLAY_RECURRENT_RNN_H
#define BRAID_OVERLAY_RECURRENT_RNN_H

#include "overlay/compiler/package.h"
#include "overlay/isa/instruction.h"
#include "overlay/recurrent/lstm.h"

enum {
  BRAID_RNN_GATES = 4,
  BRAID_RNN_LINE = 8, /* numbers of a line */
  BRAID_RNN_MOST_ITEMS = 1024,
  BRAID_RNN_MOST_STEPS = 1 << 20,
  BRAID_RNN_MOST_PARTS = 64
};

/* Vectors, one for each step. A vector has `parts` of `part` numbers each, filled with 0 to lines: two for what both
 * directions of a layer write. Behind the hidden states that cells write stand their cell states, likewise: so a task
 * that stopped behind any step finds all that it needs to go on. */
typedef struct braid_rnn_sequence {
  const char *name;
  int32_t parts, part;
  int32_t exponent; /* a number q stands for q * 2^exponent */
  bool input;       /* the host's; else the cells' */
  /* Where it lies, of which follows from the tables (braid_rnn_lay_out). */
  int32_t segment, pitch; /* lines from step to step */
  int64_t line;
} braid_rnn_sequence;

/* Hidden or cell states before the first step: numbers of the package, or the host's. */
typedef struct braid_rnn_state {
  const char *name;
  int32_t parts, part, exponent;
  bool input;
  int32_t segment;
  int64_t line;
} braid_rnn_state;

/* Where a cell's first states come from. */
typedef struct braid_rnn_origin {
  bool cell;           /* the last states of a cell before it; else a state */
  int32_t index, part; /* of the cell; of the state and its part */
} braid_rnn_origin;

typedef struct braid_rnn_cell {
  const char *name;
  int32_t source, into, part; /* sequences; which part of `into` it writes */
  int32_t hidden, shift;      /* as in braid_lstm */
  bool backwards;             /* from the last step to the first */
  braid_rnn_origin h, c;
  /* Follow from the tables. Lines of constants: a gate behind the other. */
  int64_t weights, biases, gate_lines, gate_biases;
  int32_t x_lines, h_lines; /* of a step's vectors */
  int32_t columns, padded;  /* of the matrix: x and h, filled to lines; to groups of WP */
} braid_rnn_cell;

typedef enum braid_rnn_port_kind {
  BRAID_RNN_SEQUENCE, /* all steps */
  BRAID_RNN_STATE,    /* an input */
  BRAID_RNN_LAST_HIDDEN,
  BRAID_RNN_LAST_CELL,
  BRAID_RNN_PORT_KINDS
} braid_rnn_port_kind;

typedef struct braid_rnn_port {
  const char *name;
  braid_rnn_port_kind kind;
  int32_t index; /* of the sequence, or state */
} braid_rnn_port;

/* What the dynamic compiler knows of a design's core. */
typedef struct braid_rnn_core {
  int32_t rows, columns, side;      /* HP, WP, numbers of ELE */
  int64_t weights, biases, vectors; /* lines of memories */
  int64_t sums;                     /* bytes */
  int32_t queue, latency;           /* cycles to the first byte */
  int32_t line_parts;               /* 1/1024 cycles that a line takes */
  int32_t piece_cycles;             /* pieces of weights are cut to so many, where rows allow it */
} braid_rnn_core;

typedef struct braid_rnn {
  braid_rnn_core core;
  int32_t steps, length; /* of sequences; those that are computed: what is behind them is 0 */
  braid_rnn_sequence *sequences;
  braid_rnn_state *states;
  braid_rnn_cell *cells;
  braid_rnn_port *inputs, *outputs;
  size_t sequence_count, state_count, cell_count, input_count, output_count;
} braid_rnn;

/* Sizes, places of all that the tables have, and the bytes of the segments. INVALID_FILE: indices or sizes that make no
 * sense, or more than addresses reach; UNSUPPORTED: memories of the design are too small. */
BRAID_MUST_CHECK braid_status braid_rnn_lay_out(braid_rnn *rnn, int64_t bytes[BRAID_PACKAGE_SEGMENTS]);

/* Of a vector of so many numbers. */
static inline int32_t braid_rnn_lines(int64_t numbers) {
  return (int32_t)((numbers + BRAID_RNN_LINE - 1) / BRAID_RNN_LINE);
}
/* Rows that cores and pieces of weights begin at: whole groups of HP, and whole lines. */
int32_t braid_rnn_group(const braid_rnn_core *core);
/* Columns that pieces of rows begin at: whole groups of WP, and whole lines. */
int32_t braid_rnn_stride(const braid_rnn_core *core);
enum { BRAID_RNN_MOST_ROW = 4096 }; /* lines of a row of LOAD */
/* The line of a sequence at a step, for a part of hidden, or of cell, states. */
int64_t braid_rnn_line_of(const braid_rnn_sequence *sequence, int32_t step, int32_t part, bool cells);
/* The step that a cell computes as its nth. */
static inline int32_t braid_rnn_nth(const braid_rnn *rnn, const braid_rnn_cell *cell, int32_t n) {
  return cell->backwards ? rnn->length - 1 - n : n;
}
/* Multiply-accumulates of a cell, and of the whole, for a sequence. */
int64_t braid_rnn_macs_of(const braid_rnn *rnn, size_t cell);
int64_t braid_rnn_macs(const braid_rnn *rnn);
/* Bytes of vectors on the chip that a cell needs between two of its steps: what a switch there writes to DDR as the
 * task goes on anyway, and reads again. */
int64_t braid_rnn_context_bytes(const braid_rnn *rnn);
/* Of vectors that it needs within a step. */
int64_t braid_rnn_vector_bytes(const braid_rnn_cell *cell);

#endif
