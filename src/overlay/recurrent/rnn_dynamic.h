/* The dynamic compiler for recurrent networks (section 5.2 of Zeng et al. 2021): programs of some cores, made of a
 * package's tables. There is one tiling, by rows (section 5.1.3; rnn_share.h), and cores meet once or twice in each
 * step; the paper's meet after each operator. Where the weights of a cell fit the memories of the cores they are loaded
 * once for all of its steps, else in each, a piece while another one is computed with. */
#ifndef BRAID_OVERLAY_RECURRENT_RNN_DYNAMIC_H
#define BRAID_OVERLAY_RECURRENT_RNN_DYNAMIC_H

#include "overlay/compiler/dynamic.h"
#include "overlay/recurrent/rnn.h"

/* Steps are counted over all cells, a cell behind the other: `length` each. Makes those from `first` to below `last`.
 * A task that stopped behind any step goes on with the next, on any number of cores: what it needs stands in DDR. A
 * SYSTEM at which cores meet has the number of its step (modulo 2^16) as layer; the last one of a number ends the step.
 * Where weights are loaded in each step, a core may also be given away between pieces (tile). INVALID_ARGUMENT: cores
 * not within 1 .. BRAID_OVERLAY_MOST_CORES, or no such steps; NO_MEMORY. */
BRAID_MUST_CHECK braid_status braid_rnn_make(const braid_rnn *rnn, int cores, size_t first, size_t last,
                                             braid_programs *programs);

#endif
