/* Arrays of a recurrent network's inputs and outputs, to and from the memory of its task. */
#ifndef BRAID_OVERLAY_RECURRENT_RNN_PORTS_H
#define BRAID_OVERLAY_RECURRENT_RNN_PORTS_H

#include "overlay/recurrent/rnn.h"

/* `index` below the count. */
braid_overlay_port_info braid_rnn_get_port(const braid_rnn *rnn, bool outputs, size_t index);
/* float32, or int16 as they are, of `columns` vectors of `channels` numbers; `segments`: the first byte of each.
 * Numbers are rounded to the nearest, halves to the even one, and clipped. INVALID_ARGUMENT: another type or shape, or
 * NaN. */
BRAID_MUST_CHECK braid_status braid_rnn_put_input(const braid_rnn *rnn, size_t index, const braid_tensor *tensor,
                                                  uint8_t *const segments[BRAID_PACKAGE_SEGMENTS]);
/* As float32. */
BRAID_MUST_CHECK braid_status braid_rnn_get_output(const braid_rnn *rnn, size_t index,
                                                   uint8_t *const segments[BRAID_PACKAGE_SEGMENTS],
                                                   const braid_allocator *allocator, braid_tensor **out);

#endif
