#include "overlay/recurrent/rnn.h"

#include "base/try.h"

enum { kMostLines = 1 << 28 /* of a segment: an address has 28 bits */, kMostPitch = 1 << 20 };

static int32_t common_multiple(int32_t a, int32_t b) {
  int32_t x = a, y = b;
  if (a % b == 0) return a; /* as sizes of cores mostly are */
  while (y) {
    int32_t rest = x % y;
    x = y;
    y = rest;
  }
  return a / x * b;
}

int32_t braid_rnn_group(const braid_rnn_core *core) {
  return common_multiple(core->rows, BRAID_RNN_LINE);
}

int32_t braid_rnn_stride(const braid_rnn_core *core) {
  return common_multiple(core->columns, BRAID_RNN_LINE);
}

int64_t braid_rnn_line_of(const braid_rnn_sequence *sequence, int32_t step, int32_t part, bool cells) {
  int64_t lines = braid_rnn_lines(sequence->part);
  return sequence->line + (int64_t)step * sequence->pitch + (part + (cells ? sequence->parts : 0)) * lines;
}

int64_t braid_rnn_macs_of(const braid_rnn *rnn, size_t index) {
  const braid_rnn_cell *cell = &rnn->cells[index];
  const braid_rnn_sequence *source = &rnn->sequences[cell->source];
  int64_t columns = (int64_t)source->parts * source->part + cell->hidden;
  return (int64_t)rnn->length * BRAID_RNN_GATES * cell->hidden * columns;
}

int64_t braid_rnn_macs(const braid_rnn *rnn) {
  int64_t sum = 0;
  for (size_t i = 0; i < rnn->cell_count; i++) sum += braid_rnn_macs_of(rnn, i);
  return sum;
}

int64_t braid_rnn_context_bytes(const braid_rnn *rnn) {
  int64_t most = 0;
  for (size_t i = 0; i < rnn->cell_count; i++)
    if (2 * rnn->cells[i].h_lines > most) most = 2 * rnn->cells[i].h_lines;
  return most * BRAID_ISA_WORD;
}

int64_t braid_rnn_vector_bytes(const braid_rnn_cell *cell) {
  return (2 * (int64_t)cell->x_lines + 7 * (int64_t)cell->h_lines) * BRAID_ISA_WORD; /* x, h twice; cells; gates */
}

/* --- what tables may say -------------------------------------------------------------------------------------------
 */
static braid_status check_vector(const char *what, size_t index, int32_t parts, int32_t part) {
  if (parts < 1 || parts > BRAID_RNN_MOST_PARTS || part < 1 || part > BRAID_LSTM_MOST_SIDE)
    return braid_fail(BRAID_INVALID_FILE, "%s %zu has %d parts of %d numbers; 1 to %d of 1 to %d are allowed", what,
                      index, parts, part, BRAID_RNN_MOST_PARTS, BRAID_LSTM_MOST_SIDE);
  return BRAID_OK;
}

static bool is_index(int32_t index, size_t count) {
  return index >= 0 && (size_t)index < count;
}

static braid_status check_origin(const braid_rnn *rnn, size_t at, const braid_rnn_origin *origin) {
  int32_t hidden = rnn->cells[at].hidden;
  bool fits;
  if (origin->cell)
    fits = is_index(origin->index, at) && rnn->cells[origin->index].hidden == hidden;
  else
    fits = is_index(origin->index, rnn->state_count) && rnn->states[origin->index].part == hidden &&
           is_index(origin->part, (size_t)rnn->states[origin->index].parts);
  return fits ? BRAID_OK : braid_fail(BRAID_INVALID_FILE, "cell %zu: its first states are none of %d", at, hidden);
}

/* Who writes a part of a sequence; SIZE_MAX: nobody before cell `end`. */
static size_t writer_of(const braid_rnn *rnn, int32_t sequence, int32_t part, size_t end) {
  for (size_t i = 0; i < end; i++)
    if (rnn->cells[i].into == sequence && rnn->cells[i].part == part) return i;
  return SIZE_MAX;
}

static braid_status check_cell(const braid_rnn *rnn, size_t at) {
  const braid_rnn_cell *cell = &rnn->cells[at];
  if (!is_index(cell->source, rnn->sequence_count) || !is_index(cell->into, rnn->sequence_count))
    return braid_fail(BRAID_INVALID_FILE, "cell %zu: there is no such sequence", at);
  const braid_rnn_sequence *source = &rnn->sequences[cell->source], *into = &rnn->sequences[cell->into];
  if (into->input || into->part != cell->hidden || !is_index(cell->part, (size_t)into->parts) ||
      writer_of(rnn, cell->into, cell->part, at) != SIZE_MAX)
    return braid_fail(BRAID_INVALID_FILE, "cell %zu cannot write part %d of sequence %d", at, cell->part, cell->into);
  for (int32_t p = 0; !source->input && p < source->parts; p++)
    if (writer_of(rnn, cell->source, p, at) == SIZE_MAX)
      return braid_fail(BRAID_INVALID_FILE, "cell %zu reads sequence %d before it is there", at, cell->source);
  if ((int64_t)source->parts * source->part > BRAID_LSTM_MOST_SIDE)
    return braid_fail(BRAID_INVALID_FILE, "cell %zu has more than %d inputs", at, BRAID_LSTM_MOST_SIDE);
  if (cell->shift < 0 || cell->shift > 63)
    return braid_fail(BRAID_INVALID_FILE, "cell %zu: shift is %d; 0 to 63 are allowed", at, cell->shift);
  BRAID_TRY(check_origin(rnn, at, &cell->h));
  return check_origin(rnn, at, &cell->c);
}

static braid_status check_ports(const braid_rnn *rnn, const braid_rnn_port *ports, size_t count, bool outputs) {
  for (size_t i = 0; i < count; i++) {
    bool state = ports[i].kind == BRAID_RNN_STATE, fits;
    if (state)
      fits = !outputs && is_index(ports[i].index, rnn->state_count) && rnn->states[ports[i].index].input;
    else
      fits = is_index(ports[i].index, rnn->sequence_count) && rnn->sequences[ports[i].index].input == !outputs &&
             (outputs || ports[i].kind == BRAID_RNN_SEQUENCE);
    if (!fits)
      return braid_fail(BRAID_INVALID_FILE, "%s %zu is none of the network's", outputs ? "output" : "input", i);
  }
  return BRAID_OK;
}

static braid_status check_tables(const braid_rnn *rnn) {
  if (rnn->steps < 1 || rnn->steps > BRAID_RNN_MOST_STEPS || rnn->length < 1 || rnn->length > rnn->steps)
    return braid_fail(BRAID_INVALID_FILE, "%d of %d steps; 1 to %d are allowed", rnn->length, rnn->steps,
                      BRAID_RNN_MOST_STEPS);
  for (size_t i = 0; i < rnn->sequence_count; i++)
    BRAID_TRY(check_vector("sequence", i, rnn->sequences[i].parts, rnn->sequences[i].part));
  for (size_t i = 0; i < rnn->state_count; i++)
    BRAID_TRY(check_vector("state", i, rnn->states[i].parts, rnn->states[i].part));
  for (size_t i = 0; i < rnn->cell_count; i++) {
    BRAID_TRY(check_vector("cell", i, 1, rnn->cells[i].hidden));
    BRAID_TRY(check_cell(rnn, i));
  }
  for (size_t q = 0; q < rnn->sequence_count; q++)
    for (int32_t p = 0; !rnn->sequences[q].input && p < rnn->sequences[q].parts; p++)
      if (writer_of(rnn, (int32_t)q, p, rnn->cell_count) == SIZE_MAX)
        return braid_fail(BRAID_INVALID_FILE, "no cell writes part %d of sequence %zu", p, q);
  BRAID_TRY(check_ports(rnn, rnn->inputs, rnn->input_count, false));
  return check_ports(rnn, rnn->outputs, rnn->output_count, true);
}

/* --- room in a core ------------------------------------------------------------------------------------------------
 */
static braid_status check_room(const braid_rnn *rnn, const braid_rnn_cell *cell) {
  const braid_rnn_core *core = &rnn->core;
  int64_t vectors = braid_rnn_vector_bytes(cell) / BRAID_ISA_WORD;
  int64_t group = braid_rnn_group(core), hp = core->rows, pitch = hp * cell->padded * 2;
  if (vectors > core->vectors)
    return braid_fail(BRAID_UNSUPPORTED, "%s: vectors of %d inputs and %d states take %lld bytes, there are %lld",
                      cell->name, cell->x_lines * BRAID_RNN_LINE, cell->hidden, (long long)vectors * BRAID_ISA_WORD,
                      (long long)core->vectors * BRAID_ISA_WORD);
  int64_t rows = (group + hp - 1) / hp * hp, whole = rows * cell->padded * 2 / BRAID_ISA_WORD;
  if (group * 4 / BRAID_ISA_WORD > core->biases / 2)
    return braid_fail(BRAID_UNSUPPORTED, "%s: %lld bytes for biases are too few for %lld rows, twice", cell->name,
                      (long long)core->biases * BRAID_ISA_WORD, (long long)group);
  if (whole <= core->weights / 2) return BRAID_OK;
  int64_t step = braid_rnn_stride(core);
  if (rows * step * 2 / BRAID_ISA_WORD > core->weights / 2)
    return braid_fail(BRAID_UNSUPPORTED, "%s: %lld bytes for weights are too few for %lld rows of %lld columns, twice",
                      cell->name, (long long)core->weights * BRAID_ISA_WORD, (long long)rows, (long long)step);
  if (rows * 6 > core->sums)
    return braid_fail(BRAID_UNSUPPORTED, "%s: %lld bytes for sums are too few for %lld rows", cell->name,
                      (long long)core->sums, (long long)rows);
  if (pitch % BRAID_ISA_WORD || pitch / BRAID_ISA_WORD >= kMostPitch ||
      hp * step * 2 / BRAID_ISA_WORD > BRAID_RNN_MOST_ROW)
    return braid_fail(BRAID_UNSUPPORTED,
                      "%s: %lld bytes for weights are too few for whole rows, and rows of %lld bytes cannot be cut",
                      cell->name, (long long)core->weights * BRAID_ISA_WORD, (long long)pitch);
  return BRAID_OK;
}

/* --- places --------------------------------------------------------------------------------------------------------
 */
static braid_status take_lines(int64_t *lines, int64_t count, int64_t *at) {
  *at = *lines;
  *lines += count;
  if (*lines >= kMostLines)
    return braid_fail(BRAID_UNSUPPORTED, "the network takes more than %d lines of 16 bytes in a segment",
                      kMostLines - 1);
  return BRAID_OK;
}

static bool is_output(const braid_rnn *rnn, size_t sequence) {
  for (size_t i = 0; i < rnn->output_count; i++)
    if ((size_t)rnn->outputs[i].index == sequence) return true;
  return false;
}

static braid_status place_cell(const braid_rnn *rnn, braid_rnn_cell *cell, int64_t *constants) {
  const braid_rnn_sequence *source = &rnn->sequences[cell->source];
  const braid_rnn_core *core = &rnn->core;
  int32_t group = braid_rnn_group(core);
  cell->x_lines = source->parts * braid_rnn_lines(source->part);
  cell->h_lines = braid_rnn_lines(cell->hidden);
  cell->columns = (cell->x_lines + cell->h_lines) * BRAID_RNN_LINE;
  cell->padded = (cell->columns + core->columns - 1) / core->columns * core->columns;
  int64_t rows = ((int64_t)cell->hidden + group - 1) / group * group;
  cell->gate_lines = rows * cell->padded * 2 / BRAID_ISA_WORD;
  cell->gate_biases = rows * 4 / BRAID_ISA_WORD;
  BRAID_TRY(check_room(rnn, cell));
  BRAID_TRY(take_lines(constants, BRAID_RNN_GATES * cell->gate_lines, &cell->weights));
  return take_lines(constants, BRAID_RNN_GATES * cell->gate_biases, &cell->biases);
}

braid_status braid_rnn_lay_out(braid_rnn *rnn, int64_t bytes[BRAID_PACKAGE_SEGMENTS]) {
  int64_t lines[BRAID_PACKAGE_SEGMENTS] = {0};
  BRAID_TRY(check_tables(rnn));
  for (size_t i = 0; i < rnn->state_count; i++) {
    braid_rnn_state *state = &rnn->states[i];
    state->segment = state->input ? BRAID_SEGMENT_INPUTS : BRAID_SEGMENT_CONSTANTS;
    BRAID_TRY(take_lines(&lines[state->segment], (int64_t)state->parts * braid_rnn_lines(state->part), &state->line));
  }
  for (size_t i = 0; i < rnn->sequence_count; i++) {
    braid_rnn_sequence *q = &rnn->sequences[i];
    q->segment = q->input ? BRAID_SEGMENT_INPUTS : is_output(rnn, i) ? BRAID_SEGMENT_OUTPUTS : BRAID_SEGMENT_FEATURES;
    q->pitch = q->parts * braid_rnn_lines(q->part) * (q->input ? 1 : 2);
    BRAID_TRY(take_lines(&lines[q->segment], (int64_t)q->pitch * rnn->steps, &q->line));
  }
  for (size_t i = 0; i < rnn->cell_count; i++)
    BRAID_TRY(place_cell(rnn, &rnn->cells[i], &lines[BRAID_SEGMENT_CONSTANTS]));
  for (int s = 0; s < BRAID_PACKAGE_SEGMENTS; s++) bytes[s] = lines[s] * BRAID_ISA_WORD;
  return BRAID_OK;
}
