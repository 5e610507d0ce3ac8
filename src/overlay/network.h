/* A network as the overlay computes it: layers over int8 feature maps whose scales are powers of two, and how a Q/DQ
 * graph becomes one (docs/overlay-network.md). After Zeng et al. 2021 (the seed), section 2.3: feature maps go back to
 * DDR after every layer, CONV convolves, MISC pools, adds and copies; fused are activations, and sums of two maps.
 *
 * What a layer computes equals ONNX's DequantizeLinear, ops, QuantizeLinear bit for bit, as those are defined over real
 * numbers: sums are exact, and each is rounded where the graph quantizes, a half to the even neighbour. Runtimes that
 * compute in float32 differ where a sum passes 2^24, and of averages where they multiply by 1 / n.
 *
 * One image at a time: the graph may take a batch of N, of which every image is computed alone. */
#ifndef BRAID_OVERLAY_NETWORK_H
#define BRAID_OVERLAY_NETWORK_H

#include "graph/graph.h"

enum {
  BRAID_OVERLAY_MOST_SIDE = 1 << 16,    /* channels, rows, columns of a map */
  BRAID_OVERLAY_MOST_MAP = 1 << 28,     /* numbers of a map */
  BRAID_OVERLAY_MOST_WEIGHTS = 1 << 28, /* of a layer */
  BRAID_OVERLAY_MOST_SHIFT = 31,        /* shift and add_shift of a layer */
  BRAID_OVERLAY_MOST_LEFT = 16, /* left and other_left: beyond it float32 would round sums of two maps otherwise */
  BRAID_OVERLAY_PLANE = 16,     /* channels of one plane in memory: parts of a map begin at multiples of it */
};

/* A feature map of one image: int8 numbers q that stand for q * 2^exponent, in the order channel, row, column. */
typedef struct braid_overlay_map {
  int32_t channels, rows, columns; /* at least 1 */
  int32_t exponent;
  braid_value_id
      value;        /* of the graph, which holds these bytes or, dequantized, numbers; in any shape of equal order */
  const char *name; /* its */
} braid_overlay_map;

typedef enum braid_overlay_kind {
  BRAID_OVERLAY_CONV,      /* sum of products over the window and all input channels */
  BRAID_OVERLAY_DEPTHWISE, /* the same of input channel c alone for output channel c; out_channels == in_channels */
  BRAID_OVERLAY_MAX,       /* the greatest in the window; padding does not count */
  BRAID_OVERLAY_MEAN,      /* the sum over the window, divided once together with the shift */
  BRAID_OVERLAY_ADD,       /* x and `other`, number by number; the window is 1 x 1 */
  BRAID_OVERLAY_COPY,      /* x with another scale, an activation, or as a part of a larger map; the window is 1 x 1 */
  BRAID_OVERLAY_KINDS
} braid_overlay_kind;
const char *braid_overlay_kind_name(braid_overlay_kind kind); /* "conv" ...; "" for others */

/* Output (r, c) sees the inputs (r * stride_rows - pad_top + i * dilation_rows, c * stride_columns - pad_left + k *
 * dilation_columns), i in [0, kernel_rows), k in [0, kernel_columns), of which those outside of the map are padding.
 * Pads below and right follow from the sizes: pad_bottom and pad_right are what the op says. Pads less than 0: the
 * first or last inputs are not seen. */
typedef struct braid_overlay_window {
  int32_t kernel_rows, kernel_columns, stride_rows, stride_columns, dilation_rows, dilation_columns;
  int32_t pad_top, pad_left, pad_bottom, pad_right;
} braid_overlay_window;

/* With v the sum, with bias (CONV, DEPTHWISE), the greatest, the sum over the window (MEAN) or the number of x (ADD,
 * COPY), z the number of `other`, round(a, s) = a / 2^s to the nearest integer, halves to the even one, clip to
 * [low, high], int8 to [-128, 127]:
 *
 *   CONV, DEPTHWISE, no other        clip(round(v, shift))
 *   CONV, DEPTHWISE, rounds_first    clip(round(int8(round(v, shift)) * 2^left + z * 2^other_left, add_shift))
 *   CONV, DEPTHWISE, other alone     clip(round(v * 2^left + z * 2^other_left, shift))
 *   ADD                              clip(round(v * 2^left + z * 2^other_left, shift))
 *   MAX, COPY                        clip(round(v * 2^left, shift))
 *   MEAN                             clip(round(v * 2^left / n, shift)), rounded once; n: braid_overlay_divisor
 *
 * With half_up, halves in the first round of v go up: networks that were trained in integers round so
 * (docs/integer-training.md). Sums with bias fit int32, whatever the input. */
typedef struct braid_overlay_layer {
  braid_overlay_kind kind;
  const char *name;    /* of the node that computes v */
  braid_node_id node;  /* its */
  int32_t x, other, y; /* maps; other -1: none. `other` has the form of the part of y that is written */
  /* First channels in x and y, so that grouped convolutions and concatenations are layers over parts of maps. All of
   * `other` is read. Of CONV they are multiples of PLANE. */
  int32_t x_channel, y_channel;
  int32_t in_channels, out_channels; /* that are read and written */
  braid_overlay_window window;
  /* CONV: [out_channels][in_channels][kernel_rows][kernel_columns], DEPTHWISE: [out_channels][kernel_rows][...]; the
   * network's. NULL: the other kinds */
  const int8_t *weights;
  const int32_t *biases;   /* [out_channels]; 0 where the graph has none */
  int32_t weight_exponent; /* a weight w stands for w * 2^weight_exponent */
  bool counts_padding;     /* MEAN: padding that the op says counts in n (count_include_pad) */
  bool rounds_first, half_up;
  int32_t shift, left, other_left, add_shift; /* none below 0 */
  int32_t low, high;                          /* -128 and 127 without an activation */
} braid_overlay_layer;

/* What crosses the border of the set of nodes: the graph's value is the bytes of the map, or (real) float32 numbers:
 * q = clip(round(number / 2^exponent)) to [low, high] on the way in, q * 2^exponent on the way out. Its shape has the
 * batch first, the rest in the order of the map. */
typedef struct braid_overlay_port {
  braid_value_id value;
  int32_t map;
  bool real;
  int32_t low, high; /* -128 and 127, but for a Relu or Clip before the first QuantizeLinear */
  const char *name;  /* the value's */
} braid_overlay_port;

typedef struct braid_overlay_network {
  int64_t batch;                     /* images that the graph's values hold, N */
  const braid_overlay_layer *layers; /* in an order in which they can run */
  const braid_overlay_map *maps;
  const braid_overlay_port *inputs, *outputs; /* the graph's own first, in its order */
  size_t layer_count, map_count, input_count, output_count;
  struct braid_arena *arena; /* holds all of it */
} braid_overlay_network;

/* Why a node cannot run on the overlay. */
typedef struct braid_overlay_refusal {
  braid_node_id node;
  char why[160];
} braid_overlay_refusal;

/* Whether the node alone looks as if the overlay could compute it: its op, constants, shapes, scales. Whether it does
 * depends on its neighbours too: braid_overlay_select. If not, writes the reason without the node's name. The graph is
 * resolved (braid_resolve); anything else in it, however odd, is a reason and no fault. */
bool braid_overlay_can(const braid_graph *graph, braid_node_id node, char *why, size_t why_bytes);

/* Clears takes[n] for each node n that the overlay cannot compute together with the others, until the rest can be
 * lowered. `takes`: of each node, on entry those that are wanted. `refusals`: room for each node, in no order; NULL:
 * not wanted. OK also if nothing is left. Whether what is left is convex is for the caller to see to. */
BRAID_MUST_CHECK braid_status braid_overlay_select(const braid_graph *graph, bool *takes,
                                                   braid_overlay_refusal *refusals, size_t *refusal_count);

/* The network of the nodes for which `takes` is true; NULL: of all. UNSUPPORTED names the first node that cannot be
 * computed, its op and the reason; INVALID_ARGUMENT: the graph is not resolved, or a path leaves the set and comes
 * back. Weights are copied: the graph may go. */
BRAID_MUST_CHECK braid_status braid_overlay_lower(const braid_graph *graph, const bool *takes,
                                                  braid_overlay_network **out);
void braid_overlay_network_destroy(braid_overlay_network *network); /* NULL is allowed */

static inline int64_t braid_overlay_map_bytes(const braid_overlay_map *map) {
  return (int64_t)map->channels * map->rows * map->columns;
}
/* How many numbers the mean at this place of y is of: those inside of x, or with counts_padding also padding. */
int64_t braid_overlay_divisor(const braid_overlay_network *network, const braid_overlay_layer *layer, int32_t row,
                              int32_t column);
/* Multiply-accumulates of a layer; 0 for those without weights. */
int64_t braid_overlay_macs(const braid_overlay_network *network, const braid_overlay_layer *layer);

#endif
