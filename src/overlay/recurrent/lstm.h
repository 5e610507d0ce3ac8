/* An LSTM layer in integers of 16 bits, as cores for recurrent networks compute it (docs/isa.md; equation 3 of Zeng et
 * al. 2021): weights and states are numbers times powers of two, sums are exact, sigmoid and tanh come from a table. */
#ifndef BRAID_OVERLAY_LSTM_H
#define BRAID_OVERLAY_LSTM_H

#include <stdint.h>

#include "braid/allocator.h"

/* Hidden states and gates have 15 bits behind the point, cells and what goes into sigmoid and tanh 11. */
enum { BRAID_LSTM_HIDDEN_EXPONENT = -15, BRAID_LSTM_CELL_EXPONENT = -11, BRAID_LSTM_MOST_SIDE = 1 << 13 };

/* Gates in ONNX's order. */
typedef enum braid_lstm_gate {
  BRAID_LSTM_INPUT,
  BRAID_LSTM_OUTPUT,
  BRAID_LSTM_FORGET,
  BRAID_LSTM_CELL
} braid_lstm_gate;

typedef struct braid_lstm {
  const braid_allocator *allocator;
  int32_t inputs, hidden;
  int32_t x_exponent;   /* an input q stands for q * 2^x_exponent */
  int32_t sum_exponent; /* of sums and biases */
  int32_t shift;        /* from a sum to what goes into a gate's function */
  int16_t *weights;     /* [4][hidden][inputs + hidden]; those of inputs count 2^(sum_exponent - x_exponent), those of
                         * hidden states 2^(sum_exponent + 15) */
  int32_t *biases;      /* [4][hidden], both of ONNX's added */
} braid_lstm;

/* The layer whose parameters are those of ONNX's LSTM, of one direction: w [4 * hidden][inputs], r [4 *
 * hidden][hidden], b [8 * hidden] or NULL; `most` is the greatest magnitude of an input. The finest scales at which
 * everything fits are taken. INVALID_ARGUMENT: sizes from 1 to BRAID_LSTM_MOST_SIDE, parameters and `most` that are
 * finite, and none so large that what goes into a gate could not be told from its border, are expected. */
BRAID_MUST_CHECK braid_status braid_lstm_create(const braid_allocator *allocator, int32_t inputs, int32_t hidden,
                                                const float *w, const float *r, const float *b, double most,
                                                braid_lstm **out);
void braid_lstm_destroy(braid_lstm *lstm); /* NULL is allowed */

/* One step, plainly: the oracle of programs. x [inputs], h [hidden] and c [hidden], which are replaced. */
void braid_lstm_step(const braid_lstm *lstm, const int16_t *x, int16_t *h, int16_t *c);
/* A number as an input: rounded, a half to the even one, and clipped. */
int16_t braid_lstm_input(const braid_lstm *lstm, double x);

#endif
