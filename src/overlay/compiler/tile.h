/* One layer on its way to instructions: where its maps and weights lie, how a tile of its result is cut so that what it
 * needs fits the memories of a core, and the instructions of that. */
#ifndef BRAID_OVERLAY_COMPILER_TILE_H
#define BRAID_OVERLAY_COMPILER_TILE_H

#include "overlay/compiler/emit.h"
#include "overlay/compiler/package.h"

/* A map, or planes of one, in DDR. */
typedef struct braid_layer_map {
  int32_t segment, rows, columns;
  int64_t line;                   /* of the first plane that the layer reads or writes */
  int64_t plane_lines, row_lines; /* from plane to plane, from row to row */
} braid_layer_map;

typedef struct braid_layer_work {
  const braid_overlay_design *design;
  braid_overlay_window window;
  braid_layer_map x, other, y;
  bool side;      /* run by MISC, else by CONV */
  bool own;       /* channel c of the result is of channel c of the input: all but full convolutions */
  bool has_other; /* a second map of the result's form */
  bool counts_padding, mean;
  int32_t layer; /* its number in the package */
  int32_t in_channels, out_channels;
  int32_t unit; /* channels that tiles and parts of the result are multiples of: whole planes, whole groups */
  int64_t weights, biases; /* lines in the constants */
  braid_instruction base;  /* CONV or MISC with what is the same everywhere */
} braid_layer_work;

/* A tile: columns and channels of the layer's result. All rows. */
typedef struct braid_layer_part {
  int32_t column, columns, channel, channels;
} braid_layer_part;

/* How a tile is cut: into blocks of columns, in them strips of rows and groups of channels, in them parts of the
 * input's channels, whose sums stay in the core. */
typedef struct braid_blocking {
  int32_t columns, rows, channels, inputs;
  bool channels_first; /* for each group all strips, so that weights stay; else for each strip all groups */
  int64_t cycles;      /* about; tells which is better */
} braid_blocking;

/* Lines that a slot of each memory must have for the largest piece, and how many slots there are. */
typedef struct braid_slots {
  int64_t input, output, weights, biases;
  int32_t inputs, outputs, addends, weight_slots;
} braid_slots;

static inline int32_t braid_ceil(int32_t a, int32_t b) {
  return (a + b - 1) / b;
}

/* Rows (or columns) of the input that results first .. first + count see: [*from, *to), within 0 .. size. */
void braid_window_span(int32_t first, int32_t count, int32_t kernel, int32_t stride, int32_t dilation, int32_t pad,
                       int32_t size, int32_t *from, int32_t *to);
/* Lines of the weights of so many channels out and in; of a layer's, its first lines are whole groups' too. */
int64_t braid_weight_lines(const braid_layer_work *work, int32_t channels, int32_t inputs);
void braid_blocking_slots(const braid_layer_work *work, const braid_layer_part *part, const braid_blocking *cut,
                          braid_slots *out);
/* The best blocking that fits. UNSUPPORTED: none does; the detail says which memory is too small. */
BRAID_MUST_CHECK braid_status braid_blocking_choose(const braid_layer_work *work, const braid_layer_part *part,
                                                    braid_blocking *out);
/* Cycles within which a core that is to be given away should stand: 40 microseconds, the figure of GPREEMPT (Fan et al.
 * 2025) for GPUs. */
int64_t braid_stop_limit(const braid_overlay_design *design);
/* Of computing so much of a result, in one piece. */
int64_t braid_piece_cycles(const braid_layer_work *work, int32_t rows, int32_t channels, int32_t columns,
                           int32_t inputs);
/* Appends the instructions of a tile. UNSUPPORTED: one has a number that its field can't hold. */
BRAID_MUST_CHECK braid_status braid_tile_emit(const braid_layer_work *work, const braid_layer_part *part,
                                              const braid_blocking *cut, braid_emitter *emitter);

#endif
