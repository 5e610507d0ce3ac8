/* Programs of an LSTM layer over a sequence, for some cores of a design (section 5.1.3 of Zeng et al. 2021). States are
 * divided among the cores, each with the rows of all four gates of its own, so that cores meet once in each step, for
 * the hidden states; the paper's meet after each operator. Where a core's weights fit its memory, they are loaded once.
 */
#ifndef BRAID_OVERLAY_LSTM_PROGRAM_H
#define BRAID_OVERLAY_LSTM_PROGRAM_H

#include "overlay/design.h"
#include "overlay/isa/instruction.h"
#include "overlay/recurrent/lstm.h"

/* Base registers. Inputs: a step behind the other, each filled with 0 to lines of eight numbers; outputs: the hidden
 * states of each step likewise. */
enum { BRAID_LSTM_CONSTANTS, BRAID_LSTM_INPUTS = 2, BRAID_LSTM_OUTPUTS };

typedef struct braid_lstm_code {
  uint8_t *bytes;
  size_t words, capacity; /* of BRAID_ISA_WORD bytes */
} braid_lstm_code;

typedef struct braid_lstm_program {
  const braid_allocator *allocator;
  int cores, steps;
  braid_lstm_code *codes; /* of each core */
  uint8_t *constants;     /* weights and biases as the design wants them; also all cores' */
  size_t constant_bytes, input_bytes, output_bytes, step_input_bytes, step_output_bytes;
  size_t context_bytes; /* of vectors, which a switch between steps has to keep */
  bool weights_stay;    /* on the chip, from step to step */
} braid_lstm_program;

/* UNSUPPORTED: the design is not for recurrent networks, or its memories are too small; the sentence says which. */
BRAID_MUST_CHECK braid_status braid_lstm_compile(const braid_lstm *lstm, int steps, const braid_overlay_design *design,
                                                 int cores, const braid_allocator *allocator, braid_lstm_program **out);
void braid_lstm_program_destroy(braid_lstm_program *program); /* NULL is allowed */

#endif
