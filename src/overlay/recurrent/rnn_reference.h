/* A recurrent network in plain steps (braid_lstm_step): the oracle of its programs. */
#ifndef BRAID_OVERLAY_RECURRENT_RNN_REFERENCE_H
#define BRAID_OVERLAY_RECURRENT_RNN_REFERENCE_H

#include "overlay/recurrent/rnn.h"

/* The caller's arrays. */
typedef struct braid_rnn_values {
  int16_t **sequences; /* of each: steps, parts, numbers of a part; inputs are read, others written up to `length` */
  int16_t **states;    /* of each: parts, numbers; read */
  int16_t **cells;     /* of each cell: its last cell states; written */
} braid_rnn_values;

/* NO_MEMORY. */
BRAID_MUST_CHECK braid_status braid_rnn_reference(const braid_rnn *rnn, const braid_lstm *const *lstms,
                                                  const braid_rnn_values *values);

#endif
