#include "overlay/recurrent/rnn_error.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/philox.h"
#include "base/try.h"
#include "overlay/recurrent/rnn_reference.h"

enum { kMostMacs = 1 << 26, kRandomSteps = 32, kRandomSequences = 8, kMostSequences = 256 };

/* Both networks, and what they compute of a sequence. */
typedef struct braid_rnn_pair {
  const braid_rnn_lowered *lowered;
  braid_rnn tables; /* of as many steps as are measured */
  braid_rnn_values whole;
  double **real, **real_cells; /* of sequences, of cells */
} braid_rnn_pair;

/* --- the real one --------------------------------------------------------------------------------------------------
 */
static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

static void real_cell_step(const braid_rnn_floats *floats, int32_t inputs, int32_t hidden, const double *x,
                           const double *before, double *h, double *c) {
  for (int32_t u = 0; u < hidden; u++) {
    double gate[BRAID_RNN_GATES];
    for (int32_t g = 0; g < BRAID_RNN_GATES; g++) {
      size_t row = (size_t)g * (size_t)hidden + (size_t)u;
      const float *w = floats->w + row * (size_t)inputs, *r = floats->r + row * (size_t)hidden;
      double sum = floats->b ? (double)floats->b[row] + (double)floats->b[(size_t)(4 * hidden) + row] : 0;
      for (int32_t i = 0; i < inputs; i++) sum += (double)w[i] * x[i];
      for (int32_t i = 0; i < hidden; i++) sum += (double)r[i] * before[i];
      gate[g] = sum;
    }
    c[u] = sigmoid(gate[BRAID_LSTM_FORGET]) * c[u] + sigmoid(gate[BRAID_LSTM_INPUT]) * tanh(gate[BRAID_LSTM_CELL]);
    h[u] = sigmoid(gate[BRAID_LSTM_OUTPUT]) * tanh(c[u]);
  }
}

static size_t vector_of(const braid_rnn_sequence *q) {
  return (size_t)q->parts * (size_t)q->part;
}

/* A first state; those of the host are 0. */
static double first_state(const braid_rnn_pair *pair, const braid_rnn_origin *origin, bool cells, size_t at) {
  const braid_rnn *t = &pair->tables;
  if (!origin->cell) {
    const braid_rnn_state *state = &t->states[origin->index];
    size_t number = (size_t)origin->part * (size_t)state->part + at;
    return ldexp(pair->whole.states[origin->index][number], state->exponent);
  }
  if (cells) return pair->real_cells[origin->index][at];
  const braid_rnn_cell *from = &t->cells[origin->index];
  const braid_rnn_sequence *q = &t->sequences[from->into];
  size_t last = (size_t)braid_rnn_nth(t, from, t->length - 1);
  return pair->real[from->into][last * vector_of(q) + (size_t)from->part * (size_t)q->part + at];
}

static void run_real_cell(const braid_rnn_pair *pair, size_t index, double *before, double *h) {
  const braid_rnn *t = &pair->tables;
  const braid_rnn_cell *cell = &t->cells[index];
  const braid_rnn_sequence *source = &t->sequences[cell->source], *into = &t->sequences[cell->into];
  size_t bytes = (size_t)cell->hidden * sizeof *h, inputs = vector_of(source);
  double *c = pair->real_cells[index];
  for (size_t i = 0; i < (size_t)cell->hidden; i++) {
    h[i] = first_state(pair, &cell->h, false, i);
    c[i] = first_state(pair, &cell->c, true, i);
  }
  for (int32_t n = 0; n < t->length; n++) {
    size_t step = (size_t)braid_rnn_nth(t, cell, n);
    memcpy(before, h, bytes);
    real_cell_step(&pair->lowered->floats[index], (int32_t)inputs, cell->hidden,
                   pair->real[cell->source] + step * inputs, before, h, c);
    memcpy(pair->real[cell->into] + step * vector_of(into) + (size_t)cell->part * (size_t)into->part, h, bytes);
  }
}

/* --- memory --------------------------------------------------------------------------------------------------------
 */
static braid_status take_pair(braid_rnn_pair *pair, struct braid_arena *arena) {
  braid_rnn *t = &pair->tables;
  size_t steps = (size_t)t->steps;
  pair->whole.sequences = braid_arena_alloc(arena, (t->sequence_count + 1) * sizeof(int16_t *));
  pair->whole.states = braid_arena_alloc(arena, (t->state_count + 1) * sizeof(int16_t *));
  pair->whole.cells = braid_arena_alloc(arena, (t->cell_count + 1) * sizeof(int16_t *));
  pair->real = braid_arena_alloc(arena, (t->sequence_count + 1) * sizeof(double *));
  pair->real_cells = braid_arena_alloc(arena, (t->cell_count + 1) * sizeof(double *));
  if (!pair->whole.sequences || !pair->whole.states || !pair->whole.cells || !pair->real || !pair->real_cells)
    return BRAID_NO_MEMORY;
  for (size_t i = 0; i < t->sequence_count; i++) {
    pair->whole.sequences[i] = braid_arena_alloc(arena, steps * vector_of(&t->sequences[i]) * sizeof(int16_t));
    pair->real[i] = braid_arena_alloc(arena, steps * vector_of(&t->sequences[i]) * sizeof(double));
    if (!pair->whole.sequences[i] || !pair->real[i]) return BRAID_NO_MEMORY;
  }
  for (size_t i = 0; i < t->state_count; i++) {
    const braid_rnn_state *state = &t->states[i];
    size_t bytes = (size_t)state->parts * (size_t)state->part * sizeof(int16_t);
    pair->whole.states[i] = braid_arena_alloc(arena, bytes);
    if (!pair->whole.states[i]) return BRAID_NO_MEMORY;
    if (!state->input) memcpy(pair->whole.states[i], pair->lowered->network.numbers[i], bytes);
  }
  for (size_t i = 0; i < t->cell_count; i++) {
    pair->whole.cells[i] = braid_arena_alloc(arena, (size_t)t->cells[i].hidden * sizeof(int16_t));
    pair->real_cells[i] = braid_arena_alloc(arena, (size_t)t->cells[i].hidden * sizeof(double));
    if (!pair->whole.cells[i] || !pair->real_cells[i]) return BRAID_NO_MEMORY;
  }
  return BRAID_OK;
}

/* --- measuring -----------------------------------------------------------------------------------------------------
 */
static int32_t input_sequence(const braid_rnn *t) {
  for (size_t i = 0; i < t->sequence_count; i++)
    if (t->sequences[i].input) return (int32_t)i;
  return -1;
}

/* Inputs of all input sequences: the samples', or random ones. */
static void fill_pair(braid_rnn_pair *pair, const float *samples, uint64_t *drawn, braid_overlay_recurrent_error *out) {
  const braid_rnn *t = &pair->tables;
  for (size_t i = 0; i < t->sequence_count; i++) {
    size_t count = (size_t)t->steps * vector_of(&t->sequences[i]);
    for (size_t k = 0; t->sequences[i].input && k < count; k++) {
      double x =
          samples ? (double)samples[k] : out->greatest * (2 * (double)braid_random_uniform(47, 0, 0, (*drawn)++) - 1);
      double q = rint(ldexp(x, -t->sequences[i].exponent)), clipped = fmax(INT16_MIN, fmin(INT16_MAX, q));
      out->clipped += q != clipped;
      pair->whole.sequences[i][k] = (int16_t)clipped;
      pair->real[i][k] = x;
    }
  }
}

static void compare_pair(const braid_rnn_pair *pair, double *squares, braid_overlay_recurrent_error *out) {
  const braid_rnn *t = &pair->tables;
  for (size_t i = 0; i < t->sequence_count; i++) {
    size_t count = (size_t)t->length * vector_of(&t->sequences[i]);
    for (size_t k = 0; !t->sequences[i].input && k < count; k++) {
      double error = fabs(ldexp(pair->whole.sequences[i][k], t->sequences[i].exponent) - pair->real[i][k]);
      if (!(error <= out->most)) out->most = error;
      *squares += error * error;
      out->numbers++;
    }
  }
  for (size_t i = 0; i < t->cell_count; i++)
    for (int32_t k = 0; k < t->cells[i].hidden; k++) {
      double error = fabs(ldexp(pair->whole.cells[i][k], BRAID_LSTM_CELL_EXPONENT) - pair->real_cells[i][k]);
      if (!(error <= out->most_cell)) out->most_cell = error;
    }
}

static braid_status check_samples(const braid_rnn *t, const braid_tensor *samples, int64_t *rows) {
  const braid_desc *desc = braid_tensor_desc(samples);
  size_t inputs = 0;
  char text[128];
  for (size_t i = 0; i < t->sequence_count; i++) inputs += t->sequences[i].input;
  if (inputs != 1)
    return braid_fail(BRAID_INVALID_ARGUMENT, "the network has %zu inputs; samples are possible for one alone", inputs);
  int32_t wanted = t->sequences[input_sequence(t)].part;
  if (desc->dtype != BRAID_F32 || desc->layout != BRAID_LAYOUT_PLAIN || desc->rank < 1 ||
      desc->dims[desc->rank - 1] != wanted || braid_desc_count(desc) < wanted)
    return braid_fail(BRAID_INVALID_ARGUMENT, "samples are %s; expected is float32 whose last dimension is %d",
                      braid_desc_format(desc, text, sizeof text), wanted);
  *rows = braid_desc_count(desc) / wanted;
  return BRAID_OK;
}

static braid_status measure_sequences(braid_rnn_pair *pair, const float *samples, size_t pitch,
                                      struct braid_arena *arena, braid_overlay_recurrent_error *out) {
  double *work = braid_arena_alloc(arena, 2 * (size_t)BRAID_LSTM_MOST_SIDE * sizeof *work), squares = 0;
  uint64_t drawn = 0;
  if (!work) return BRAID_NO_MEMORY;
  for (int64_t s = 0; s < out->sequences; s++) {
    fill_pair(pair, samples ? samples + (size_t)s * pitch : NULL, &drawn, out);
    BRAID_TRY(braid_rnn_reference(&pair->tables, pair->lowered->network.lstms, &pair->whole));
    for (size_t i = 0; i < pair->tables.cell_count; i++) run_real_cell(pair, i, work, work + BRAID_LSTM_MOST_SIDE);
    compare_pair(pair, &squares, out);
  }
  out->mean = out->numbers ? sqrt(squares / (double)out->numbers) : 0;
  return BRAID_OK;
}

/* How much of the samples is computed: `pitch` numbers from sequence to sequence. A network of one step, which may
 * stand for any number, has sequences as long as samples of four dimensions say. */
static size_t choose_extent(const braid_rnn *t, const braid_tensor *samples, int64_t rows,
                            braid_overlay_recurrent_error *out) {
  const braid_desc *desc = samples ? braid_tensor_desc(samples) : NULL;
  int64_t macs = braid_rnn_macs(t) / t->length; /* of a step */
  int64_t unit = t->length > 1 ? t->length : kRandomSteps, sequences = kRandomSequences;
  if (t->length == 1 && desc && desc->rank == 4) unit = desc->dims[1];
  if (rows) {
    unit = rows < unit ? rows : unit;
    sequences = rows / unit;
  } else {
    unit = kRandomSteps;
  }
  int64_t steps = kMostMacs / macs < unit ? kMostMacs / macs : unit;
  if (steps < 1) steps = 1;
  int64_t most = kMostMacs / (macs * steps);
  if (sequences > most) sequences = most > 0 ? most : 1;
  out->steps = (int)steps;
  out->sequences = sequences < kMostSequences ? sequences : kMostSequences;
  return (size_t)unit;
}

braid_status braid_rnn_measure_error(const braid_rnn_lowered *lowered, const braid_tensor *samples,
                                     braid_overlay_recurrent_error *out) {
  braid_rnn_pair pair = {.lowered = lowered, .tables = lowered->network.tables};
  braid_rnn *t = &pair.tables;
  int64_t rows = 0;
  struct braid_arena *arena;
  if (samples) BRAID_TRY(check_samples(t, samples, &rows));
  size_t pitch = choose_extent(t, samples, rows, out);
  if (samples) pitch *= vector_of(&t->sequences[input_sequence(t)]);
  t->steps = t->length = out->steps;
  BRAID_TRY(braid_arena_create(NULL, &arena));
  braid_status status = take_pair(&pair, arena);
  if (status == BRAID_OK)
    status = measure_sequences(&pair, samples ? braid_tensor_const_data(samples) : NULL, pitch, arena, out);
  braid_arena_destroy(arena);
  return status;
}
