/* The static compiler for recurrent networks: weights in the order that a design's cores take them in, and the tables
 * of which programs are made (section 5.1.3 of Zeng et al. 2021). */
#ifndef BRAID_OVERLAY_RECURRENT_RNN_STATIC_H
#define BRAID_OVERLAY_RECURRENT_RNN_STATIC_H

#include "overlay/recurrent/rnn.h"

/* A network of which no design is known yet. */
typedef struct braid_rnn_network {
  braid_rnn tables;               /* without what follows from them, and without the core */
  const braid_lstm *const *lstms; /* of each cell */
  const int16_t *const *numbers;  /* of each state that is no input: parts, a vector each */
} braid_rnn_network;

/* UNSUPPORTED: the design is not for recurrent networks, or memories are too small, with the reason. The package needs
 * neither network nor design any more. */
BRAID_MUST_CHECK braid_status braid_rnn_compile(const braid_rnn_network *network, const braid_overlay_design *design,
                                                const braid_allocator *allocator, braid_package **out);
/* A package of one LSTM layer, from inputs to hidden states, over so many steps. */
BRAID_MUST_CHECK braid_status braid_rnn_compile_layer(const braid_lstm *lstm, int32_t steps,
                                                      const braid_overlay_design *design,
                                                      const braid_allocator *allocator, braid_package **out);

#endif
