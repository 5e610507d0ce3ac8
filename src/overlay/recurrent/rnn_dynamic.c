#include "overlay/recurrent/rnn_dynamic.h"

#include "base/try.h"
#include "overlay/isa/stamp.h"
#include "overlay/recurrent/rnn_share.h"

enum { kMostRows = 4096 /* of LOAD */, kMostBytes = 1 << 30 /* of programs */, kSteps = 1 << 16 };
enum { kMostPieces = BRAID_RNN_MOST_KEPT + BRAID_RNN_GATES };
enum { WAIT_IN = 1 << BRAID_ISA_IN, WAIT_COMPUTE = 1 << BRAID_ISA_COMPUTE, WAIT_SIDE = 1 << BRAID_ISA_SIDE };
enum { TO_IN = WAIT_IN, TO_OUT = 1 << BRAID_ISA_OUT, TO_COMPUTE = WAIT_COMPUTE, TO_SIDE = WAIT_SIDE };

typedef struct braid_rnn_maker {
  const braid_rnn *rnn;
  const braid_rnn_cell *cell;
  braid_programs *programs;
  int cores;
  size_t cell_first; /* step of the cell's first one, over all cells */
  braid_rnn_division division;
  braid_rnn_kept kept;              /* of weights that stay */
  int32_t owner_first, owner_units; /* states of one core: gate_at */
  /* of the core whose instructions are made */
  int core;
  braid_rnn_part part;
  /* bytes of the program, of the last two steps: where they begin and end, their LOAD of the next input, the SYSTEM
   * before the gates, their SAVE */
  size_t begins[2], ends[2], inputs[2], meetings[2], results[2];
} braid_rnn_maker;

static int32_t over(int64_t whole, int64_t divisor) {
  return (int32_t)((whole + divisor - 1) / divisor);
}

static int32_t least(int32_t a, int32_t b) {
  return a < b ? a : b;
}

/* --- vectors -------------------------------------------------------------------------------------------------------
 * In lines: two times x and h, which steps take turns at, then cells and four gates. */
static int32_t x_at(const braid_rnn_maker *m, int turn) {
  return turn * (m->cell->x_lines + m->cell->h_lines);
}

static int32_t h_at(const braid_rnn_maker *m, int turn) {
  return x_at(m, turn) + m->cell->x_lines;
}

static int32_t cells_at(const braid_rnn_maker *m) {
  return 2 * (m->cell->x_lines + m->cell->h_lines);
}

/* The line of a row of a gate: gates of a core's states stand together, so that one instruction may take several.
 * *rows: of the gate that follow it there, this one included. */
static int32_t gate_at(braid_rnn_maker *m, int gate, int32_t row, int32_t *rows) {
  if (row < m->owner_first || row >= m->owner_first + m->owner_units) /* else the one that was asked for last */
    braid_rnn_owner_of(m->rnn, m->cell, &m->division, row, &m->owner_first, &m->owner_units);
  int32_t own = m->owner_first / BRAID_RNN_LINE;
  *rows = m->owner_first + m->owner_units - row;
  return cells_at(m) + m->cell->h_lines + BRAID_RNN_GATES * own + gate * braid_rnn_lines(m->owner_units) +
         row / BRAID_RNN_LINE - own;
}

/* --- instructions --------------------------------------------------------------------------------------------------
 */
/* Room behind the program, and for what is written behind that. */
static braid_status next_bytes(braid_rnn_maker *m, size_t more, uint8_t **out) {
  braid_program *program = &m->programs->core[m->core];
  if (program->bytes >= kMostBytes / (size_t)m->cores)
    return braid_fail(BRAID_UNSUPPORTED, "programs of so many steps have more than %d bytes", kMostBytes);
  if (program->capacity - program->bytes < more + BRAID_PACKAGE_SLACK) {
    size_t capacity = 2 * program->capacity + more + 16 * BRAID_PACKAGE_SLACK;
    uint8_t *code = braid_alloc(m->programs->allocator, capacity);
    if (!code) return BRAID_NO_MEMORY;
    if (program->bytes) memcpy(code, program->code, program->bytes);
    braid_free(m->programs->allocator, program->code);
    program->code = code;
    program->capacity = capacity;
  }
  *out = program->code + program->bytes;
  program->bytes += more;
  return BRAID_OK;
}

static inline braid_status put_words(braid_rnn_maker *m, const braid_isa_stamped *words, size_t count) {
  uint8_t *out;
  BRAID_TRY(next_bytes(m, count * BRAID_ISA_WORD, &out));
  braid_isa_store(words, count, out);
  return BRAID_OK;
}

typedef struct braid_rnn_move {
  braid_isa_memory memory;
  int segment;
  int64_t ddr, chip, rows, lines, ddr_row, chip_row;
} braid_rnn_move;

static braid_status put_move(braid_rnn_maker *m, bool saves, const braid_rnn_move *move, int wait, int signal) {
  braid_isa_stamped words;
  braid_isa_begin(&words, saves ? BRAID_ISA_OP_SAVE : BRAID_ISA_OP_LOAD, m->core, wait, signal);
  BRAID_ISA_STAMP(&words, load, memory, move->memory);
  BRAID_ISA_STAMP(&words, load, segment, move->segment);
  BRAID_ISA_STAMP(&words, load, ddr, move->ddr);
  BRAID_ISA_STAMP(&words, load, chip, move->chip);
  BRAID_ISA_STAMP(&words, load, planes, 1);
  BRAID_ISA_STAMP(&words, load, rows, move->rows);
  BRAID_ISA_STAMP(&words, load, lines, move->lines);
  BRAID_ISA_STAMP(&words, load, ddr_row, move->rows > 1 ? move->ddr_row : 0);
  BRAID_ISA_STAMP(&words, load, chip_row, move->rows > 1 ? move->chip_row : 0);
  return put_words(m, &words, 2);
}

/* So many lines one behind the other; rows of LOAD have a limit. */
static braid_status put_load(braid_rnn_maker *m, braid_isa_memory memory, int segment, int64_t ddr, int64_t chip,
                             int64_t lines, int wait, int signal) {
  while (lines) {
    bool one = lines <= BRAID_RNN_MOST_ROW;
    int64_t length = one ? lines : BRAID_RNN_MOST_ROW, rows = one ? 1 : lines / length;
    if (rows > kMostRows) rows = kMostRows;
    lines -= rows * length;
    braid_rnn_move move = {memory, segment, ddr, chip, rows, length, length, length};
    BRAID_TRY(put_move(m, false, &move, wait, lines ? 0 : signal));
    ddr += rows * length, chip += rows * length;
    wait = 0;
  }
  return BRAID_OK;
}

static braid_status put_system(braid_rnn_maker *m, bool sync, bool end, bool tile, size_t step) {
  braid_isa_stamped words;
  braid_isa_begin(&words, BRAID_ISA_OP_SYSTEM, m->core, 0, 0);
  BRAID_ISA_STAMP(&words, system, sync, sync);
  BRAID_ISA_STAMP(&words, system, end, end);
  BRAID_ISA_STAMP(&words, system, tile, tile);
  BRAID_ISA_STAMP(&words, system, layer, step % kSteps);
  return put_words(m, &words, 1);
}

/* --- sums ----------------------------------------------------------------------------------------------------------
 */
/* A piece of the core's matrix of a gate. */
typedef struct braid_rnn_piece {
  int32_t gate, row, rows, column, columns;
  bool starts, finishes;   /* a sum */
  bool gate_ends;          /* the last of the core's rows of the gate */
  int32_t bias_rows;       /* whose biases come with it */
  int64_t weights, biases; /* lines on the chip */
} braid_rnn_piece;

static braid_status put_biases(braid_rnn_maker *m, const braid_rnn_piece *p, int wait) {
  int64_t biases = m->cell->biases + p->gate * m->cell->gate_biases + (int64_t)p->row * 4 / BRAID_ISA_WORD;
  return put_load(m, BRAID_ISA_BIASES, BRAID_SEGMENT_CONSTANTS, biases, p->biases, braid_rnn_bias_lines(p->bias_rows),
                  wait, 0);
}

static braid_status put_piece_load(braid_rnn_maker *m, const braid_rnn_piece *p, int wait, int signal) {
  const braid_rnn_cell *cell = m->cell;
  const braid_rnn_core *core = &m->rnn->core;
  int64_t row = p->row;
  if (p->bias_rows) {
    BRAID_TRY(put_biases(m, p, wait));
    wait = 0;
  }
  int64_t at = cell->weights + p->gate * cell->gate_lines + row * cell->padded * 2 / BRAID_ISA_WORD;
  int64_t lines = braid_rnn_weight_lines(core, p->rows, p->columns);
  if (p->columns == cell->columns)
    return put_load(m, BRAID_ISA_WEIGHTS, BRAID_SEGMENT_CONSTANTS, at, p->weights, lines, wait, signal);
  int64_t hp = core->rows, groups = over(p->rows, core->rows);
  braid_rnn_move move = {BRAID_ISA_WEIGHTS,
                         BRAID_SEGMENT_CONSTANTS,
                         at + hp * p->column * 2 / BRAID_ISA_WORD,
                         p->weights,
                         groups,
                         lines / groups,
                         hp * cell->padded * 2 / BRAID_ISA_WORD,
                         lines / groups};
  return put_move(m, false, &move, wait, signal);
}

static braid_status put_sums(braid_rnn_maker *m, const braid_rnn_piece *p, int32_t output, int turn, int wait,
                             int signal) {
  braid_isa_stamped words;
  braid_isa_begin(&words, BRAID_ISA_OP_MVM, m->core, wait, signal);
  BRAID_ISA_STAMP(&words, mvm, weights, p->weights);
  BRAID_ISA_STAMP(&words, mvm, biases, p->biases);
  BRAID_ISA_STAMP(&words, mvm, input, x_at(m, turn) + p->column / BRAID_RNN_LINE);
  BRAID_ISA_STAMP(&words, mvm, output, output);
  BRAID_ISA_STAMP(&words, mvm, rows, p->rows);
  BRAID_ISA_STAMP(&words, mvm, columns, p->columns);
  BRAID_ISA_STAMP(&words, mvm, start, p->starts);
  BRAID_ISA_STAMP(&words, mvm, finish, p->finishes);
  BRAID_ISA_STAMP(&words, mvm, shift, m->cell->shift);
  return put_words(m, &words, 1);
}

/* An MVM for each core whose states rows of the piece are of; of rows with fewer columns than all there is a group. */
static braid_status put_mvm(braid_rnn_maker *m, const braid_rnn_piece *piece, int turn, int wait, int signal) {
  braid_rnn_piece p = *piece;
  for (int32_t left = piece->rows, rows; left > 0; left -= rows) {
    int32_t output = gate_at(m, p.gate, p.row, &rows);
    rows = p.rows = least(rows, left);
    BRAID_TRY(put_sums(m, &p, output, turn, wait, left == rows ? signal : 0));
    wait = 0;
    p.row += rows;
    p.weights += braid_rnn_weight_lines(&m->rnn->core, rows, p.columns);
    p.biases += braid_rnn_bias_lines(rows);
  }
  return BRAID_OK;
}

/* Where weights stay: the pieces of the core's rows, one behind the other in its memories. Those of one gate have their
 * biases with its first piece. */
static int kept_pieces(const braid_rnn_maker *m, braid_rnn_piece out[kMostPieces]) {
  int64_t weights = 0, biases = 0;
  int32_t group = braid_rnn_group(&m->rnn->core), groups = 0, before = 0;
  int count = 0;
  for (int i = 0; i < m->part.row_count; i++) groups += over(m->part.rows[i].count, group);
  for (int i = 0; i < m->part.row_count; i++) {
    const braid_rnn_rows *rows = &m->part.rows[i];
    for (int32_t row = 0; row < rows->count; row += out[count++].rows) {
      int32_t end = (braid_rnn_kept_end(&m->kept, groups, before + row / group) - before) * group;
      braid_rnn_piece *p = &out[count];
      *p = (braid_rnn_piece){.gate = rows->gate, .row = rows->first + row, .rows = least(rows->count, end) - row};
      p->columns = m->cell->columns;
      p->bias_rows = row ? 0 : rows->count;
      p->starts = p->finishes = true;
      p->gate_ends = row + p->rows == rows->count;
      p->weights = weights;
      p->biases = biases + row * 4 / BRAID_ISA_WORD;
      weights += braid_rnn_weight_lines(&m->rnn->core, p->rows, p->columns);
    }
    biases += braid_rnn_bias_lines(rows->count);
    before += over(rows->count, group);
  }
  return count;
}

/* What the sums of a gate, complete, give to side: i, o and f are taken together. Where rows are apart, cores meet
 * instead. */
static int to_side(const braid_rnn_maker *m, const braid_rnn_piece *p) {
  bool taken = p->gate == BRAID_LSTM_FORGET || p->gate == BRAID_LSTM_CELL;
  return p->gate_ends && taken && !m->division.apart ? TO_SIDE : 0;
}

/* Whether all gates are computed by one instruction: where the card's decoder, which hands out one word in a cycle to
 * all cores, would take longer than the sums. */
static bool joins_gates(const braid_rnn_maker *m) {
  const braid_rnn_core *core = &m->rnn->core;
  int64_t sums = (int64_t)over(m->part.units, core->rows) * over(m->cell->columns, core->columns);
  return !m->division.apart && m->part.units % braid_rnn_group(core) == 0 && sums < 3 * m->cores;
}

/* Weights that stay come while the first step runs. */
static braid_status put_kept_sums(braid_rnn_maker *m, int turn, bool loads) {
  braid_rnn_piece pieces[kMostPieces];
  int count = kept_pieces(m, pieces);
  if (!loads && joins_gates(m)) {
    int32_t rows, output = gate_at(m, pieces[0].gate, pieces[0].row, &rows);
    pieces[0].rows = BRAID_RNN_GATES * m->part.units;
    return put_sums(m, &pieces[0], output, turn, 0, TO_SIDE);
  }
  for (int i = 0; loads && i < count; i++) BRAID_TRY(put_piece_load(m, &pieces[i], 0, TO_COMPUTE));
  for (int i = 0; i < count; i++) BRAID_TRY(put_mvm(m, &pieces[i], turn, loads ? WAIT_IN : 0, to_side(m, &pieces[i])));
  return BRAID_OK;
}

/* Weights that come in each step, in halves of the memories that take turns. */
static braid_status put_streamed_piece(braid_rnn_maker *m, braid_rnn_piece *p, int turn, size_t index, bool last) {
  p->weights = index % 2 ? m->rnn->core.weights / 2 : 0;
  p->biases = index % 2 ? m->rnn->core.biases / 2 : 0;
  if (p->starts && index) BRAID_TRY(put_system(m, false, false, true, 0));
  BRAID_TRY(put_piece_load(m, p, index < 2 ? 0 : WAIT_COMPUTE, TO_COMPUTE));
  return put_mvm(m, p, turn, WAIT_IN, to_side(m, p) | (last ? 0 : TO_IN));
}

static braid_status put_streamed_rows(braid_rnn_maker *m, const braid_rnn_rows *rows, int turn, size_t *index,
                                      size_t all) {
  braid_rnn_cut pieces = braid_rnn_cut_of(m->rnn, m->cell, rows->count);
  for (int32_t row = 0; row < rows->count; row += pieces.rows)
    for (int32_t column = 0; column < m->cell->columns; column += pieces.columns, ++*index) {
      braid_rnn_piece p = {.gate = rows->gate, .row = rows->first + row, .column = column};
      p.rows = least(rows->count - row, pieces.rows);
      p.columns = least(m->cell->columns - column, pieces.columns);
      p.starts = column == 0;
      p.finishes = column + p.columns == m->cell->columns;
      p.bias_rows = p.starts ? p.rows : 0;
      p.gate_ends = p.finishes && row + p.rows == rows->count;
      BRAID_TRY(put_streamed_piece(m, &p, turn, *index, *index + 2 >= all));
    }
  return BRAID_OK;
}

static braid_status put_streamed_sums(braid_rnn_maker *m, int turn) {
  size_t index = 0, all = 0;
  for (int i = 0; i < m->part.row_count; i++) {
    int32_t count = m->part.rows[i].count;
    braid_rnn_cut pieces = braid_rnn_cut_of(m->rnn, m->cell, count);
    all += (size_t)over(count, pieces.rows) * (size_t)over(m->cell->columns, pieces.columns);
  }
  for (int i = 0; i < m->part.row_count; i++) BRAID_TRY(put_streamed_rows(m, &m->part.rows[i], turn, &index, all));
  return BRAID_OK;
}

/* --- a step --------------------------------------------------------------------------------------------------------
 */
/* Vectors by their first lines. */
static braid_status put_ele(braid_rnn_maker *m, braid_isa_ele_function function, int32_t length, int32_t input,
                            int32_t addend, int32_t output, int shift, int wait, int signal) {
  braid_isa_stamped words;
  braid_isa_begin(&words, BRAID_ISA_OP_ELE, m->core, wait, signal);
  BRAID_ISA_STAMP(&words, ele, function, function);
  BRAID_ISA_STAMP(&words, ele, length, length);
  BRAID_ISA_STAMP(&words, ele, input, input);
  BRAID_ISA_STAMP(&words, ele, addend, addend);
  BRAID_ISA_STAMP(&words, ele, output, output);
  BRAID_ISA_STAMP(&words, ele, shift, shift);
  return put_words(m, &words, 1);
}

/* As braid_lstm_step has them, on the core's own states. `joined`: the token of the cell gate is that of all. */
static braid_status put_gates(braid_rnn_maker *m, int turn, bool joined) {
  const int kProduct = -BRAID_LSTM_HIDDEN_EXPONENT, kAdded = BRAID_LSTM_CELL_EXPONENT - 2 * BRAID_LSTM_HIDDEN_EXPONENT;
  int32_t first = m->part.first, line = first / BRAID_RNN_LINE, n = m->part.units;
  int32_t i = gate_at(m, BRAID_LSTM_INPUT, first, &n), o = gate_at(m, BRAID_LSTM_OUTPUT, first, &n);
  int32_t f = gate_at(m, BRAID_LSTM_FORGET, first, &n), g = gate_at(m, BRAID_LSTM_CELL, first, &n);
  int32_t c = cells_at(m) + line, h = h_at(m, !turn) + line, all = 3 * braid_rnn_lines(n) * BRAID_RNN_LINE;
  BRAID_TRY(put_ele(m, BRAID_ISA_ELE_SIGMOID, all, i, 0, i, 0, m->division.apart ? 0 : WAIT_COMPUTE, 0));
  BRAID_TRY(put_ele(m, BRAID_ISA_ELE_PRODUCT, n, c, f, c, kProduct, 0, 0));
  BRAID_TRY(put_ele(m, BRAID_ISA_ELE_TANH, n, g, 0, g, 0, m->division.apart || joined ? 0 : WAIT_COMPUTE, 0));
  BRAID_TRY(put_ele(m, BRAID_ISA_ELE_PRODUCT, n, i, g, i, kAdded, 0, 0));
  BRAID_TRY(put_ele(m, BRAID_ISA_ELE_SUM, n, c, i, c, 0, 0, 0));
  BRAID_TRY(put_ele(m, BRAID_ISA_ELE_TANH, n, c, 0, g, 0, 0, 0));
  return put_ele(m, BRAID_ISA_ELE_PRODUCT, n, o, g, h, kProduct, 0, TO_OUT);
}

static braid_status put_input(braid_rnn_maker *m, int32_t n) {
  const braid_rnn_sequence *source = &m->rnn->sequences[m->cell->source];
  int64_t line = braid_rnn_line_of(source, braid_rnn_nth(m->rnn, m->cell, n), 0, false);
  return put_load(m, BRAID_ISA_VECTORS, source->segment, line, x_at(m, n % 2), m->cell->x_lines, 0, 0);
}

/* Where the core's states of a step go, in DDR. */
static int64_t result_line(const braid_rnn_maker *m, int32_t n) {
  const braid_rnn_sequence *into = &m->rnn->sequences[m->cell->into];
  return braid_rnn_line_of(into, braid_rnn_nth(m->rnn, m->cell, n), m->cell->part, false) +
         m->part.first / BRAID_RNN_LINE;
}

/* Hidden and cell states of the core. */
static braid_status put_result(braid_rnn_maker *m, int32_t n) {
  const braid_rnn_sequence *into = &m->rnn->sequences[m->cell->into];
  int32_t line = m->part.first / BRAID_RNN_LINE, from = h_at(m, !(n % 2));
  braid_rnn_move move = {.memory = BRAID_ISA_VECTORS, .segment = into->segment, .ddr = result_line(m, n), .rows = 2};
  move.chip = from + line;
  move.lines = braid_rnn_lines(m->part.units);
  move.ddr_row = (int64_t)into->parts * m->cell->h_lines;
  move.chip_row = cells_at(m) - from;
  return put_move(m, true, &move, WAIT_SIDE, 0);
}

static size_t program_at(const braid_rnn_maker *m) {
  return m->programs->core[m->core].bytes;
}

static braid_status put_step(braid_rnn_maker *m, int32_t n, int32_t first, int32_t last) {
  size_t step = m->cell_first + (size_t)n;
  int turn = n % 2;
  m->begins[turn] = program_at(m);
  if (m->part.row_count) BRAID_TRY(m->division.stays ? put_kept_sums(m, turn, n == first) : put_streamed_sums(m, turn));
  m->inputs[turn] = program_at(m);
  if (m->core == m->division.input && n + 1 < last) BRAID_TRY(put_input(m, n + 1));
  m->meetings[turn] = program_at(m);
  if (m->division.apart) BRAID_TRY(put_system(m, true, false, false, step));
  if (m->part.units) {
    BRAID_TRY(put_gates(m, turn, m->division.stays && n > first && joins_gates(m)));
    m->results[turn] = program_at(m);
    BRAID_TRY(put_result(m, n));
  }
  m->ends[turn] = program_at(m);
  return put_system(m, true, false, !m->division.stays, step);
}

/* As the step two before it, but for four fields. */
static braid_status copy_step(braid_rnn_maker *m, int32_t n) {
  int turn = n % 2;
  size_t step = (m->cell_first + (size_t)n) % kSteps;
  size_t from = m->begins[turn], bytes = m->ends[turn] + BRAID_ISA_WORD - from, at = program_at(m);
  uint8_t *words;
  BRAID_TRY(next_bytes(m, bytes, &words));
  memcpy(words, m->programs->core[m->core].code + from, bytes);
  if (m->core == m->division.input) {
    const braid_rnn_sequence *source = &m->rnn->sequences[m->cell->source];
    int64_t line = braid_rnn_line_of(source, braid_rnn_nth(m->rnn, m->cell, n + 1), 0, false);
    BRAID_ISA_RESTAMP(words + (m->inputs[turn] - from), load, ddr, line);
  }
  if (m->part.units) BRAID_ISA_RESTAMP(words + (m->results[turn] - from), save, ddr, result_line(m, n));
  BRAID_ISA_RESTAMP(words + (m->ends[turn] - from), system, layer, step);
  if (m->division.apart) BRAID_ISA_RESTAMP(words + (m->meetings[turn] - from), system, layer, step);
  m->begins[turn] = at;
  m->inputs[turn] += at - from, m->meetings[turn] += at - from;
  m->results[turn] += at - from, m->ends[turn] += at - from;
  return BRAID_OK;
}

/* --- a cell --------------------------------------------------------------------------------------------------------
 */
/* Where the states before step n of a cell are; origin: those before its first step. */
static void states_before(const braid_rnn_maker *m, int32_t n, const braid_rnn_origin *origin, bool cells, int *segment,
                          int64_t *line) {
  const braid_rnn *rnn = m->rnn;
  if (!n && !origin->cell) {
    const braid_rnn_state *state = &rnn->states[origin->index];
    *segment = state->segment;
    *line = state->line + (int64_t)origin->part * m->cell->h_lines;
    return;
  }
  const braid_rnn_cell *from = n ? m->cell : &rnn->cells[origin->index];
  const braid_rnn_sequence *into = &rnn->sequences[from->into];
  *segment = into->segment;
  *line = braid_rnn_line_of(into, braid_rnn_nth(rnn, from, (n ? n : rnn->length) - 1), from->part, cells);
}

/* The core's states before step n: in one LOAD where those of cells stand behind the hidden ones. */
static braid_status put_states(braid_rnn_maker *m, int32_t n) {
  int32_t own = m->part.first / BRAID_RNN_LINE, lines = braid_rnn_lines(m->part.units);
  int segments[2];
  int64_t ddr[2], chip[2] = {h_at(m, n % 2), cells_at(m)};
  states_before(m, n, &m->cell->h, false, &segments[0], &ddr[0]);
  states_before(m, n, &m->cell->c, true, &segments[1], &ddr[1]);
  int64_t pitch = ddr[1] - ddr[0];
  if (segments[0] == segments[1] && pitch >= 0 && pitch < 1 << 20) {
    braid_rnn_move move = {BRAID_ISA_VECTORS, segments[0], ddr[0] + own, chip[0] + own, 2, lines, pitch,
                           chip[1] - chip[0]};
    return put_move(m, false, &move, 0, 0);
  }
  for (int i = 0; i < 2; i++)
    BRAID_TRY(put_load(m, BRAID_ISA_VECTORS, segments[i], ddr[i] + own, chip[i] + own, lines, 0, 0));
  return BRAID_OK;
}

/* Vectors alone: all cores wait for all of them, and so for nothing that takes long. */
static braid_status put_begin(braid_rnn_maker *m, int32_t first) {
  if (m->core == m->division.input) BRAID_TRY(put_input(m, first));
  if (m->part.units) BRAID_TRY(put_states(m, first));
  return put_system(m, true, false, false, m->cell_first + (size_t)first);
}

/* Steps `first` to below `last` of the cell. The first loads weights, the last no further input. */
static braid_status put_cell(braid_rnn_maker *m, int32_t first, int32_t last) {
  m->division = braid_rnn_divide(m->rnn, m->cell, m->cores);
  m->owner_units = 0;
  if (m->division.stays) m->kept = braid_rnn_keep(m->rnn, m->cell, &m->division);
  bool one_load = m->cell->x_lines <= BRAID_RNN_MOST_ROW;
  for (m->core = 0; m->core < m->cores; m->core++) {
    m->part = braid_rnn_part_of(m->rnn, m->cell, &m->division, m->core);
    BRAID_TRY(put_begin(m, first));
    for (int32_t n = first; n < last; n++)
      BRAID_TRY(n > first + 2 && n + 1 < last && one_load ? copy_step(m, n) : put_step(m, n, first, last));
  }
  return BRAID_OK;
}

/* --- all -----------------------------------------------------------------------------------------------------------
 */
static braid_status make_programs(braid_rnn_maker *m, size_t first, size_t last) {
  size_t length = (size_t)m->rnn->length;
  for (size_t i = first / length; i < m->rnn->cell_count && i * length < last; i++) {
    m->cell = &m->rnn->cells[i];
    m->cell_first = i * length;
    size_t from = first > m->cell_first ? first - m->cell_first : 0;
    size_t to = last - m->cell_first < length ? last - m->cell_first : length;
    BRAID_TRY(put_cell(m, (int32_t)from, (int32_t)to));
    braid_rnn_estimate estimate = braid_rnn_estimate_of(m->rnn, m->cell, &m->division);
    m->programs->cycles += estimate.begin + (to - from) * estimate.step;
    m->programs->bound += estimate.begin + (to - from) * estimate.step_bound;
  }
  for (m->core = 0; m->core < m->cores; m->core++) BRAID_TRY(put_system(m, false, true, false, last ? last - 1 : 0));
  return BRAID_OK;
}

braid_status braid_rnn_make(const braid_rnn *rnn, int cores, size_t first, size_t last, braid_programs *programs) {
  size_t steps = rnn->cell_count * (size_t)rnn->length;
  if (cores < 1 || cores > BRAID_OVERLAY_MOST_CORES)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%d cores; 1 to %d are allowed", cores, BRAID_OVERLAY_MOST_CORES);
  if (first > last || last > steps)
    return braid_fail(BRAID_INVALID_ARGUMENT, "steps %zu to %zu of %zu", first, last, steps);
  programs->cores = cores;
  programs->cycles = programs->bound = programs->stop = 0;
  for (int c = 0; c < BRAID_OVERLAY_MOST_CORES; c++) programs->core[c].bytes = programs->core[c].piece_count = 0;
  braid_rnn_maker maker = {.rnn = rnn, .programs = programs, .cores = cores};
  return make_programs(&maker, first, last);
}
