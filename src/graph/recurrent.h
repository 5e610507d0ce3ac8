/* LSTM, GRU and RNN as shape inference and the kernels of every backend see them: sizes and attributes, read once and
 * checked. Rules: ONNX operator specification, opset 22.
 *
 * Inside, sequences are [step, batch, ...] and states [direction, batch, hidden]; layout 1 puts the batch first. Gates
 * stand in ONNX's order: LSTM i o f c, GRU z r h. Each op may give out one thing more than ONNX says, behind its
 * outputs: what its gradient needs of every step, [direction, step, batch, saved * hidden]:
 *   LSTM  i o f c after their activations, and the cell state
 *   GRU   z r h after their activations; with linear_before_reset also the candidate's recurrent part
 *   RNN   the hidden state (activations of the last state itself are lost where a sequence has ended) */
#ifndef BRAID_GRAPH_RECURRENT_H
#define BRAID_GRAPH_RECURRENT_H

#include "braid/graph.h"

typedef enum braid_cell { BRAID_CELL_RNN, BRAID_CELL_GRU, BRAID_CELL_LSTM } braid_cell;

#define BRAID_UNIT_MAP(X) /* enumerator, ONNX's name, default alpha, default beta */                                   \
  X(RELU, "Relu", 0, 0)                                                                                                \
  X(TANH, "Tanh", 0, 0)                                                                                                \
  X(SIGMOID, "Sigmoid", 0, 0)                                                                                          \
  X(AFFINE, "Affine", 1, 0)                                                                                            \
  X(LEAKY_RELU, "LeakyRelu", 0.01, 0)                                                                                  \
  X(THRESHOLDED_RELU, "ThresholdedRelu", 1, 0)                                                                         \
  X(SCALED_TANH, "ScaledTanh", 1, 1)                                                                                   \
  X(HARD_SIGMOID, "HardSigmoid", 0.2, 0.5)                                                                             \
  X(ELU, "Elu", 1, 0)                                                                                                  \
  X(SOFTSIGN, "Softsign", 0, 0)                                                                                        \
  X(SOFTPLUS, "Softplus", 0, 0)

typedef enum braid_unit_kind {
#define BRAID_UNIT_ENUM(id, name, alpha, beta) BRAID_UNIT_##id,
  BRAID_UNIT_MAP(BRAID_UNIT_ENUM)
#undef BRAID_UNIT_ENUM
} braid_unit_kind;

/* An activation. clip > 0: its input is first held within [-clip, clip]. */
typedef struct braid_unit {
  braid_unit_kind kind;
  double alpha, beta, clip;
} braid_unit;

enum { BRAID_UNITS = 3 }; /* activations of one direction: f g h */

typedef struct braid_recurrent {
  braid_cell cell;
  int gates, saved; /* times `hidden` */
  int directions;
  bool backwards; /* the first direction goes from the end */
  bool batch_first, linear_before_reset, input_forget;
  int64_t steps, batch, inputs, hidden;
  braid_unit units[2][BRAID_UNITS];
} braid_recurrent;

/* x, w, r: inputs 0 to 2. INVALID_GRAPH and a sentence without the node's name. `op` may end in "Grad". */
BRAID_MUST_CHECK braid_status braid_recurrent_read(const char *op, const braid_attrs *attrs, const braid_desc *x,
                                                   const braid_desc *w, const braid_desc *r, braid_recurrent *out);

#endif
