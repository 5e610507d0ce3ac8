/* The layers of a network in plain loops over int8, int32 and int64: the oracle that simulators are compared with. */
#ifndef BRAID_OVERLAY_REFERENCE_H
#define BRAID_OVERLAY_REFERENCE_H

#include "overlay/network.h"

/* One image. `inputs` and `outputs`: for each port of the network, the bytes of its map in the order channel, row,
 * column. `maps`: NULL, or of each map where its bytes go (NULL: not wanted); those of inputs are not written.
 * NO_MEMORY. */
BRAID_MUST_CHECK braid_status braid_overlay_reference(const braid_overlay_network *network, const int8_t *const *inputs,
                                                      int8_t *const *outputs, int8_t *const *maps);
/* One layer; x, other (NULL: none) and y are whole maps, of y only the layer's channels are written. */
void braid_overlay_reference_layer(const braid_overlay_network *network, const braid_overlay_layer *layer,
                                   const int8_t *x, const int8_t *other, int8_t *y);

/* One image of the graph's value at a real port of inputs as bytes, as QuantizeLinear does it (NaN is the lowest). */
void braid_overlay_read_port(const braid_overlay_network *network, const braid_overlay_port *port, const float *numbers,
                             int8_t *bytes);
/* The same of numbers alone, without bounds, and back. */
void braid_overlay_quantize(const float *numbers, int64_t count, int exponent, int8_t *bytes);
void braid_overlay_dequantize(const int8_t *bytes, int64_t count, int exponent, float *numbers);

#endif
