/* Filters that look at one channel each, over bytes in layout BHWC: sums of one place of the result. */
#ifndef BRAID_BACKEND_CPU_QUANTIZED_DEPTHWISE_DOT_ISA_H
#define BRAID_BACKEND_CPU_QUANTIZED_DEPTHWISE_DOT_ISA_H

#include "backend/cpu/isa.h"

/* Weights for dot products: 64 channels, four taps, four vectors of 16 sums. */
enum { BRAID_DEPTHWISE_CHANNELS = 64, BRAID_DEPTHWISE_TAPS = 4 };
/* Where the weight of a channel and tap stands, of `taps` rounded up. */
static inline int64_t braid_depthwise_at(int64_t channel, int64_t tap, int64_t groups) {
  int64_t in = channel % 64, vector = in % 16 / 4, place = in / 16 * 4 + in % 4;
  return ((channel / 64 * groups + tap / 4) * 4 + vector) * 64 + place * 4 + tap % 4;
}

/* sums[c] = sum over taps of (taps[t][c] ^ flip) * weights, for all channels; the room of sums is a multiple of 64. */
BRAID_DOT_ISA_FUNCTION(void, braid_depthwise_place,
                       (const uint8_t *const *taps, int64_t tap_count, uint8_t flip, const int8_t *weights,
                        int64_t channels, int32_t *sums))

/* Lines of an image that windows of 3 x 3 look at. */
typedef struct braid_depthwise_lines {
  const uint8_t *rows[3]; /* NULL: padding */
  const uint8_t *padding; /* of one place */
  int64_t width, channels, stride;
  uint8_t flip;
} braid_depthwise_lines;
enum {
  BRAID_DEPTHWISE_PAIRED = 32
}; /* so many channels are computed for two places at once, where these are neighbours */

/* As above, for `count` neighbouring places, the first of which looks at columns x, x + 1 and x + 2: sums[place *
 * channels + channel], with room for BRAID_DEPTHWISE_CHANNELS more. Weights: tap 4 * column + row, three groups; of
 * BRAID_DEPTHWISE_PAIRED channels a second time behind them. */
BRAID_DOT_ISA_FUNCTION(void, braid_depthwise_line,
                       (const braid_depthwise_lines *lines, int64_t x, int64_t count, const int8_t *weights,
                        int32_t *sums))

#endif
