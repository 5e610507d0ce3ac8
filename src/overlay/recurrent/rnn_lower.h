/* From the LSTM nodes of a graph to a recurrent network in integers (docs/overlay-recurrent.md says which). */
#ifndef BRAID_OVERLAY_RECURRENT_RNN_LOWER_H
#define BRAID_OVERLAY_RECURRENT_RNN_LOWER_H

#include "base/text.h"
#include "braid/graph.h"
#include "overlay/recurrent/rnn_static.h"

/* A cell's parameters as the graph has them; b may be NULL. */
typedef struct braid_rnn_floats {
  const float *w, *r, *b;
} braid_rnn_floats;

typedef struct braid_rnn_lowered {
  braid_rnn_network network;
  braid_lstm **lstms;       /* of each cell; the lowered's */
  braid_rnn_floats *floats; /* of each cell; the graph's, which must outlive it */
  struct braid_arena *arena;
} braid_rnn_lowered;

/* The largest part of a resolved graph that cores for recurrent networks can compute: LSTM nodes, and what between them
 * only gives a value another shape. `greatest`: the greatest magnitude of an input, above 0. `host`: a line for each
 * node that is left, with the reason. UNSUPPORTED: there is no such part. `out` is cleared first; release it with
 * braid_rnn_lowered_deinit, also after a failure. */
BRAID_MUST_CHECK braid_status braid_rnn_lower(const braid_graph *graph, double greatest,
                                              const braid_allocator *allocator, braid_text *host,
                                              braid_rnn_lowered *out);
void braid_rnn_lowered_deinit(braid_rnn_lowered *lowered);

#endif
