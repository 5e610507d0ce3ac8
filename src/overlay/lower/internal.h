/* What the parts of the lowering share. A refusal is BRAID_UNSUPPORTED with the node and the reason in the lowering;
 * any other failure ends the call. */
#ifndef BRAID_OVERLAY_INTERNAL_H
#define BRAID_OVERLAY_INTERNAL_H

#include "graph/geometry.h"
#include "overlay/network.h"

/* Channels, rows and columns of a value of rank 2 (rows and columns 1), 3 (rows 1) or 4 behind the batch. */
typedef struct braid_overlay_form {
  int64_t batch;
  int32_t channels, rows, columns;
} braid_overlay_form;

/* What a value of the graph is, as far as the walk has come. */
typedef enum braid_overlay_meaning {
  BRAID_OVERLAY_FOREIGN, /* nothing that the overlay has */
  BRAID_OVERLAY_BYTES,   /* a map */
  BRAID_OVERLAY_REAL,    /* a map, dequantized */
  BRAID_OVERLAY_DRAFT,   /* a real number that is still to be quantized */
} braid_overlay_meaning;

typedef struct braid_overlay_known {
  braid_overlay_meaning meaning;
  int32_t at; /* the map, or the draft */
} braid_overlay_known;

/* Slice and Pad in one dimension: place o of the result sees o * step + start of the map if it is within [first, end),
 * else 0. */
typedef struct braid_overlay_move {
  int64_t step, start, first, end;
} braid_overlay_move;

/* What stands between DequantizeLinear and QuantizeLinear. */
typedef struct braid_overlay_draft {
  braid_overlay_kind kind;
  braid_node_id node;
  bool done;
  braid_value_id entry; /* a number from outside, before an activation and QuantizeLinear; -1: there is a map */
  int32_t x, other;     /* maps; other -1: none */
  bool joins;           /* COPY: `parts` follow each other along the channels; x is the first */
  int32_t *parts;
  size_t part_count;
  braid_overlay_form form; /* of the result */
  braid_overlay_window window;
  bool counts_padding;
  int64_t groups;
  bool moves; /* CONV: of Slice and Pad, as `move` says: channels, rows, columns */
  braid_overlay_move move[3];
  braid_value_id weights;
  bool turned;              /* weights are [inputs, outputs] */
  braid_value_id biases[2]; /* -1: none */
  size_t bias_count;
  bool clamped;
  double low, high; /* of an activation, in real numbers */
} braid_overlay_draft;

typedef struct braid_overlay_lowering {
  const braid_graph *graph;
  const braid_allocator *allocator;
  const bool *takes; /* NULL: all */
  int32_t *uses;     /* of each value */
  braid_overlay_known *known;
  braid_overlay_draft *drafts;
  size_t draft_count, draft_capacity;
  braid_overlay_map *maps;
  size_t map_count, map_capacity;
  braid_overlay_layer *layers;
  size_t layer_count, layer_capacity;
  braid_overlay_port *inputs, *outputs;
  size_t input_count, input_capacity, output_count, output_capacity;
  int64_t batch;             /* 0: not known yet */
  struct braid_arena *arena; /* of the network; NULL: weights are checked, not kept */
  braid_node_id refused;
  char why[160];
} braid_overlay_lowering;

/* Records why `node` is refused; BRAID_UNSUPPORTED. */
braid_status braid_overlay_refuse(braid_overlay_lowering *l, braid_node_id node, const char *format, ...)
    BRAID_PRINTF(3, 4);
/* UNSUPPORTED, with the reason for `node`: it has another rank, no elements or sides beyond the limits. */
BRAID_MUST_CHECK braid_status braid_overlay_form_of(braid_overlay_lowering *l, braid_node_id node,
                                                    const braid_desc *desc, braid_overlay_form *out);

/* --- ops (ops.c, pools.c, sums.c) ----------------------------------------------------------------------------------
 */
typedef struct braid_overlay_op {
  const char *name;
  /* What can be said of the node alone. */
  braid_status (*check)(braid_overlay_lowering *l, braid_node_id node);
  /* Goes over it in the walk; it was checked. */
  braid_status (*walk)(braid_overlay_lowering *l, braid_node_id node);
} braid_overlay_op;
const braid_overlay_op *braid_overlay_find_op(const char *name); /* NULL: there is none */

/* --- constants (constants.c) ---------------------------------------------------------------------------------------
 */
/* Scale 2^exponent and zero point 0, of QuantizeLinear or DequantizeLinear. */
BRAID_MUST_CHECK braid_status braid_overlay_read_scale(braid_overlay_lowering *l, braid_node_id node,
                                                       int32_t *exponent);
/* One constant number of type float32; *out is `otherwise` if the input is left out. */
BRAID_MUST_CHECK braid_status braid_overlay_read_number(braid_overlay_lowering *l, braid_node_id node, size_t input,
                                                        double otherwise, double *out);
/* Whether the weights can be integers; says nothing of the biases. */
BRAID_MUST_CHECK braid_status braid_overlay_check_weights(braid_overlay_lowering *l, braid_node_id node,
                                                          braid_value_id weights);
typedef struct braid_overlay_numbers {
  int8_t *weights; /* [outputs][inputs of a group][taps] */
  int32_t *biases;
  int32_t exponent; /* of the weights */
  bool half_up;     /* biases had a part below a half of 1, which breaks ties */
} braid_overlay_numbers;
/* Weights and biases of a draft whose operand has `x_exponent`; memory of `arena`. Sums that could leave int32 are
 * refused. `finer`: the exponent may be made smaller by so much, where the integers allow. */
BRAID_MUST_CHECK braid_status braid_overlay_read_weights(braid_overlay_lowering *l, const braid_overlay_draft *draft,
                                                         int32_t x_exponent, int32_t sum_exponent_most,
                                                         struct braid_arena *arena, braid_overlay_numbers *out);

/* --- layers (layers.c, fuse.c) -------------------------------------------------------------------------------------
 */
/* Of node `id`. */
BRAID_MUST_CHECK braid_status braid_overlay_add_map(braid_overlay_lowering *l, braid_node_id id,
                                                    const braid_overlay_form *form, int32_t exponent,
                                                    braid_value_id value, int32_t *out);
/* Weights, biases and window of a draft of moves (moves.c); the shift follows from them. */
BRAID_MUST_CHECK braid_status braid_overlay_place_moves(braid_overlay_lowering *l, const braid_overlay_draft *draft,
                                                        int32_t exponent, braid_overlay_layer *layer);
/* A bound of an activation in bytes, as QuantizeLinear makes them. */
int32_t braid_overlay_bound(double number, int32_t exponent);
/* The layers of a draft whose result is quantized to `value` with this exponent. */
BRAID_MUST_CHECK braid_status braid_overlay_finish(braid_overlay_lowering *l, braid_overlay_draft *draft,
                                                   int32_t exponent, braid_value_id value, int32_t *map);
/* Takes activations, parts and sums into the layers before them; removes maps that nothing uses. */
BRAID_MUST_CHECK braid_status braid_overlay_fuse(braid_overlay_lowering *l);

#endif
