/* The tables of packages of recurrent networks, in files (compiler/file.c has the rest of a file). */
#ifndef BRAID_OVERLAY_RECURRENT_RNN_FILE_H
#define BRAID_OVERLAY_RECURRENT_RNN_FILE_H

#include "overlay/compiler/bytes.h"
#include "overlay/recurrent/rnn.h"

void braid_rnn_put_tables(const braid_package *package, braid_text *out);
/* Tables that nobody vouches for, and the constants that follow, to a package whose arena is there. INVALID_FILE and
 * UNSUPPORTED as of braid_rnn_lay_out. */
BRAID_MUST_CHECK braid_status braid_rnn_get_tables(braid_bytes *in, const uint8_t *constants, braid_package *package);

#endif
