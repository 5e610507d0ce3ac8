/* Where the maps of a network lie in DDR, and where constants do; layers as work for tiles. */
#ifndef BRAID_OVERLAY_COMPILER_LAYOUT_H
#define BRAID_OVERLAY_COMPILER_LAYOUT_H

#include "overlay/compiler/tile.h"

typedef struct braid_map_place {
  int32_t segment;
  int64_t line;
  int32_t within;   /* the map of which this one is planes, or -1 */
  int64_t plane;    /* first plane there */
  int64_t from, to; /* layers that write or read it first and last, or a part of it; to < from: none */
} braid_map_place;

typedef struct braid_ddr_layout {
  braid_map_place *maps;     /* of the network's */
  bool *skipped;             /* layers that have nothing to do: their results are written where they belong */
  int64_t *weights, *biases; /* of each layer, lines in the constants */
  int64_t lines[BRAID_PACKAGE_SEGMENTS];
} braid_ddr_layout;

/* The layout's arrays belong to the arena. A map lives from the first layer that writes it to the last that reads it;
 * others may lie there before and after (first fit, the largest first). Copies of a whole map into planes of another
 * one are not done: the former lies in the latter. OUT_OF_RANGE: more than addresses can say. */
BRAID_MUST_CHECK braid_status braid_ddr_layout_make(const braid_overlay_network *network,
                                                    const braid_overlay_design *design, struct braid_arena *arena,
                                                    braid_ddr_layout *out);
/* UNSUPPORTED: the design has no way to run the layer; the detail says why, without its name. */
BRAID_MUST_CHECK braid_status braid_layer_work_of(const braid_overlay_network *network,
                                                  const braid_overlay_design *design, const braid_ddr_layout *layout,
                                                  size_t layer, braid_layer_work *out);
/* Weights and biases of all layers as the design reads them, into layout->lines[CONSTANTS] * 16 bytes of zeros. */
void braid_constants_fill(const braid_overlay_network *network, const braid_overlay_design *design,
                          const braid_ddr_layout *layout, uint8_t *out);
/* Channels that parts of a layer's result are multiples of. */
int32_t braid_layer_unit(const braid_overlay_layer *layer, const braid_overlay_design *design);

#endif
