/* How far a recurrent network in integers is from the real one: both computed, step by step. */
#ifndef BRAID_OVERLAY_RECURRENT_RNN_ERROR_H
#define BRAID_OVERLAY_RECURRENT_RNN_ERROR_H

#include "overlay/recurrent/rnn_lower.h"

/* Sequences of the samples (float32, whose last dimension is the numbers of a step; a sequence behind the other), as
 * many as take about 64 million multiply-accumulates; NULL: of random numbers up to out->greatest, 32 steps of them.
 * Fills all of `out` but `greatest` and `assumed`. INVALID_ARGUMENT: the network has several inputs, or samples have
 * another size or are not finite; NO_MEMORY. */
BRAID_MUST_CHECK braid_status braid_rnn_measure_error(const braid_rnn_lowered *lowered, const braid_tensor *samples,
                                                      braid_overlay_recurrent_error *out);

#endif
