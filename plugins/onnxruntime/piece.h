/* A piece of a graph of ONNX Runtime as a graph of Braid.
 *
 * The piece is written as an ONNX model in memory and read by braid_model_parse, which knows all opsets and checks
 * every attribute. Large constants are not written: the reader asks for them and copies them once. */
#ifndef BRAID_ORT_PIECE_H
#define BRAID_ORT_PIECE_H

#include "braid/graph.h"
#include "view.h"

/* Contents that stand for those of a run: of these, one is valid for most uses. */
typedef enum braid_ort_fill {
  BRAID_ORT_ONES,  /* sizes, factors, ends */
  BRAID_ORT_ZEROS, /* starts, pads, an axis */
  BRAID_ORT_COUNT, /* 0, 1, 2 ...: axes */
  BRAID_ORT_REST,  /* -1, 1, 1 ...: the shape of a Reshape */
  BRAID_ORT_FILLS,
} braid_ort_fill;

/* What stands in place of what is not known before a run, to ask whether a node would run. */
typedef struct braid_ort_trial {
  int64_t open;     /* every open dimension */
  bool tried;       /* but for values whose `tried` dimensions and contents are known: these */
  const int *known; /* inputs whose contents are given */
  size_t known_count;
  braid_ort_fill fill; /* the contents */
} braid_ort_trial;

typedef struct braid_ort_piece {
  const int *nodes; /* of the view, in its order */
  size_t node_count;
  const int *inputs; /* values that are given in every run, in the order of the graph's inputs */
  size_t input_count;
  const int *outputs;
  size_t output_count;
  const char *name;             /* in error messages */
  const braid_ort_trial *trial; /* NULL: none, open dimensions stay open */
} braid_ort_piece;

/* INVALID_FILE, UNSUPPORTED: a node is none that Braid can import; the detail names it. */
BRAID_MUST_CHECK braid_status braid_ort_piece_parse(braid_ort_view *view, const braid_ort_piece *piece,
                                                    braid_graph **out);

#endif
