#include "overlay/recurrent/rnn_reference.h"

#include <string.h>

/* The states before a cell's first step. */
static const int16_t *first_states(const braid_rnn *rnn, const braid_rnn_origin *origin, bool cells,
                                   const braid_rnn_values *values) {
  if (!origin->cell)
    return values->states[origin->index] + (size_t)origin->part * (size_t)rnn->states[origin->index].part;
  if (cells) return values->cells[origin->index];
  const braid_rnn_cell *from = &rnn->cells[origin->index];
  const braid_rnn_sequence *q = &rnn->sequences[from->into];
  size_t vector = (size_t)q->parts * (size_t)q->part, last = (size_t)braid_rnn_nth(rnn, from, rnn->length - 1);
  return values->sequences[from->into] + last * vector + (size_t)from->part * (size_t)q->part;
}

static void run_cell(const braid_rnn *rnn, size_t index, const braid_lstm *lstm, const braid_rnn_values *values,
                     int16_t *h) {
  const braid_rnn_cell *cell = &rnn->cells[index];
  const braid_rnn_sequence *source = &rnn->sequences[cell->source], *into = &rnn->sequences[cell->into];
  size_t from = (size_t)source->parts * (size_t)source->part, to = (size_t)into->parts * (size_t)into->part;
  size_t bytes = (size_t)cell->hidden * sizeof *h;
  int16_t *c = values->cells[index];
  memcpy(h, first_states(rnn, &cell->h, false, values), bytes);
  memmove(c, first_states(rnn, &cell->c, true, values), bytes);
  for (int32_t n = 0; n < rnn->length; n++) {
    size_t step = (size_t)braid_rnn_nth(rnn, cell, n);
    braid_lstm_step(lstm, values->sequences[cell->source] + step * from, h, c);
    memcpy(values->sequences[cell->into] + step * to + (size_t)cell->part * (size_t)into->part, h, bytes);
  }
}

braid_status braid_rnn_reference(const braid_rnn *rnn, const braid_lstm *const *lstms, const braid_rnn_values *values) {
  int16_t *h = braid_zalloc_array(NULL, BRAID_LSTM_MOST_SIDE, sizeof *h);
  if (!h) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < rnn->cell_count; i++) run_cell(rnn, i, lstms[i], values, h);
  braid_free(NULL, h);
  return BRAID_OK;
}
