/* RNN, GRU and LSTM, and their gradients.
 *
 * <Op>Grad(X, W, R, sequence_lens?, initial_h?, initial_c?, P?, saved, dY?, dY_h?, dY_c?) -> dX?, dW?, dR?, dB?,
 * dinitial_h?, dinitial_c?, dP?: the same for the three, those of LSTM alone left out by the others. `saved` is the
 * output behind those of ONNX, see graph/recurrent.h; it is float32 for the 16-bit types. */
#include "graph/recurrent.h"

#include "base/try.h"
#include "graph/gradient.h"

enum { IN_X, IN_W, IN_R, IN_B, IN_LENGTHS, IN_H, IN_C, IN_P };
enum { GRAD_LENGTHS = 3, GRAD_H, GRAD_C, GRAD_P, GRAD_SAVED, GRAD_DY, GRAD_DH, GRAD_DC, GRAD_INPUTS };
enum { OUT_X, OUT_W, OUT_R, OUT_B, OUT_H, OUT_C, OUT_P, GRAD_OUTPUTS };

/* --- shapes --------------------------------------------------------------------------------------------------------
 */
typedef struct shape {
  int rank;
  int64_t dims[4];
} shape;

typedef struct shapes {
  shape bias, lengths, state, peephole, y, saved;
} shapes;

static shapes shapes_of(const braid_recurrent *r) {
  int64_t d = r->directions, t = r->steps, b = r->batch, n = r->hidden;
  bool first = r->batch_first;
  return (shapes){.bias = {2, {d, 2 * r->gates * n}},
                  .lengths = {1, {b}},
                  .state = {3, {first ? b : d, first ? d : b, n}},
                  .peephole = {2, {d, 3 * n}},
                  .y = {4, {first ? b : t, first ? t : d, first ? d : b, n}},
                  .saved = {4, {d, t, b, r->saved * n}}};
}

static braid_status recurrent_check(const braid_infer *infer, size_t index, const char *what, braid_dtype dtype,
                                    shape expected) {
  const braid_desc *desc = braid_infer_input(infer, index);
  if (!desc) return BRAID_OK;
  braid_desc wanted = {.dtype = dtype, .rank = expected.rank};
  for (int i = 0; i < expected.rank; i++) wanted.dims[i] = expected.dims[i];
  if (desc->dtype == dtype && braid_desc_same_shape(desc, &wanted)) return BRAID_OK;
  char got[128], want[128];
  return braid_infer_fail(infer, "%s is %s, not %s", what, braid_desc_format(desc, got, sizeof got),
                          braid_desc_format(&wanted, want, sizeof want));
}

static braid_dtype saved_type(braid_dtype dtype) {
  return dtype == BRAID_F64 ? BRAID_F64 : BRAID_F32;
}

static braid_status read(const braid_infer *infer, braid_recurrent *r, braid_dtype *dtype) {
  const braid_desc *x = braid_infer_input(infer, IN_X), *w = braid_infer_input(infer, IN_W);
  const braid_desc *weights = braid_infer_input(infer, IN_R);
  if (!x || !w || !weights) return braid_infer_fail(infer, "X, W or R is missing");
  *dtype = x->dtype;
  if (!braid_dtype_is_float(x->dtype)) return braid_infer_fail(infer, "X is %s", braid_dtype_name(x->dtype));
  if (w->dtype != x->dtype || weights->dtype != x->dtype)
    return braid_infer_fail(infer, "X, W and R are not of one type");
  braid_status status = braid_recurrent_read(infer->node->op->name, &infer->node->attrs, x, w, weights, r);
  return status == BRAID_OK ? BRAID_OK
                            : braid_fail_prefix(status, "node %.120s (%s)", infer->node->name, infer->node->op->name);
}

static braid_status give(const braid_infer *infer, size_t index, braid_dtype dtype, shape s) {
  return braid_infer_output(infer, index, dtype, s.rank, s.dims);
}

static braid_status infer_forward(const braid_infer *infer) {
  braid_recurrent r;
  braid_dtype dtype;
  BRAID_TRY(read(infer, &r, &dtype));
  shapes s = shapes_of(&r);
  BRAID_TRY(recurrent_check(infer, IN_B, "B", dtype, s.bias));
  BRAID_TRY(recurrent_check(infer, IN_LENGTHS, "sequence_lens", BRAID_I32, s.lengths));
  BRAID_TRY(recurrent_check(infer, IN_H, "initial_h", dtype, s.state));
  BRAID_TRY(recurrent_check(infer, IN_C, "initial_c", dtype, s.state));
  BRAID_TRY(recurrent_check(infer, IN_P, "P", dtype, s.peephole));
  bool lstm = r.cell == BRAID_CELL_LSTM;
  BRAID_TRY(give(infer, 0, dtype, s.y));
  BRAID_TRY(give(infer, 1, dtype, s.state));
  if (lstm) BRAID_TRY(give(infer, 2, dtype, s.state));
  return give(infer, lstm ? 3 : 2, saved_type(dtype), s.saved);
}

static braid_status infer_backward(const braid_infer *infer) {
  braid_recurrent r;
  braid_dtype dtype;
  BRAID_TRY(read(infer, &r, &dtype));
  shapes s = shapes_of(&r);
  const braid_desc *x = braid_infer_input(infer, IN_X);
  if (!braid_infer_input(infer, GRAD_SAVED)) return braid_infer_fail(infer, "the saved gates are missing");
  BRAID_TRY(recurrent_check(infer, GRAD_LENGTHS, "sequence_lens", BRAID_I32, s.lengths));
  BRAID_TRY(recurrent_check(infer, GRAD_H, "initial_h", dtype, s.state));
  BRAID_TRY(recurrent_check(infer, GRAD_C, "initial_c", dtype, s.state));
  BRAID_TRY(recurrent_check(infer, GRAD_P, "P", dtype, s.peephole));
  BRAID_TRY(recurrent_check(infer, GRAD_SAVED, "saved", saved_type(dtype), s.saved));
  BRAID_TRY(recurrent_check(infer, GRAD_DY, "dY", dtype, s.y));
  BRAID_TRY(recurrent_check(infer, GRAD_DH, "dY_h", dtype, s.state));
  BRAID_TRY(recurrent_check(infer, GRAD_DC, "dY_c", dtype, s.state));
  BRAID_TRY(braid_infer_output(infer, OUT_X, dtype, 3, x->dims));
  BRAID_TRY(give(infer, OUT_W, dtype, (shape){3, {r.directions, r.gates * r.hidden, r.inputs}}));
  BRAID_TRY(give(infer, OUT_R, dtype, (shape){3, {r.directions, r.gates * r.hidden, r.hidden}}));
  BRAID_TRY(give(infer, OUT_B, dtype, s.bias));
  BRAID_TRY(give(infer, OUT_H, dtype, s.state));
  BRAID_TRY(give(infer, OUT_C, dtype, s.state));
  return give(infer, OUT_P, dtype, s.peephole);
}

/* Each weight once for each step of each sequence. */
static int64_t forward_macs(const braid_graph *graph, const braid_node *node) {
  const braid_desc *x = &graph->values[node->inputs[IN_X]].desc;
  return x->dims[0] * x->dims[1] *
         (braid_desc_count(&graph->values[node->inputs[IN_W]].desc) +
          braid_desc_count(&graph->values[node->inputs[IN_R]].desc));
}

/* Each weight once to reach its operand, and once more for its own gradient. */
static int64_t backward_macs(const braid_graph *graph, const braid_node *node) {
  const braid_desc *x = &graph->values[node->inputs[IN_X]].desc;
  int64_t w = braid_desc_count(&graph->values[node->inputs[IN_W]].desc);
  int64_t r = braid_desc_count(&graph->values[node->inputs[IN_R]].desc), per_step = r;
  if (node->output_count > OUT_X && node->outputs[OUT_X] >= 0) per_step += w;
  if (node->output_count > OUT_W && node->outputs[OUT_W] >= 0) per_step += w;
  if (node->output_count > OUT_R && node->outputs[OUT_R] >= 0) per_step += r;
  return x->dims[0] * x->dims[1] * per_step;
}

/* --- gradient ------------------------------------------------------------------------------------------------------
 */
/* Slopes are computed from the results of activations, which some do not determine. */
static braid_status check_units(const braid_recurrent *r) {
  for (int d = 0; d < r->directions; d++)
    for (int i = 0; i <= (int)r->cell; i++) {
      const braid_unit *unit = &r->units[d][i];
      if (unit->alpha < 0 && (unit->kind == BRAID_UNIT_LEAKY_RELU || unit->kind == BRAID_UNIT_ELU))
        return braid_fail(BRAID_UNSUPPORTED, "activation_alpha %g of a LeakyRelu or Elu has no gradient", unit->alpha);
    }
  return BRAID_OK;
}

static braid_status add_backward(braid_gradient_context *context, const char *op, bool lstm) {
  static const int kInputs[GRAD_OUTPUTS] = {IN_X, IN_W, IN_R, IN_B, IN_H, IN_C, IN_P};
  braid_graph *graph = context->graph;
  braid_recurrent r;
  braid_value_id saved, outputs[GRAD_OUTPUTS];
  BRAID_TRY(braid_recurrent_read(op, &graph->nodes[context->node].attrs,
                                 &graph->values[braid_gradient_input(context, IN_X)].desc,
                                 &graph->values[braid_gradient_input(context, IN_W)].desc,
                                 &graph->values[braid_gradient_input(context, IN_R)].desc, &r));
  BRAID_TRY(check_units(&r));
  BRAID_TRY(braid_gradient_add_output(context, lstm ? 3 : 2, &saved));
  braid_value_id inputs[GRAD_INPUTS] = {braid_gradient_input(context, IN_X),
                                        braid_gradient_input(context, IN_W),
                                        braid_gradient_input(context, IN_R),
                                        braid_gradient_input(context, IN_LENGTHS),
                                        braid_gradient_input(context, IN_H),
                                        lstm ? braid_gradient_input(context, IN_C) : -1,
                                        lstm ? braid_gradient_input(context, IN_P) : -1,
                                        saved,
                                        braid_gradient_of_output(context, 0),
                                        braid_gradient_of_output(context, 1),
                                        lstm ? braid_gradient_of_output(context, 2) : -1};
  for (size_t i = 0; i < GRAD_OUTPUTS; i++) outputs[i] = braid_gradient_wanted(context, (size_t)kInputs[i]) ? 0 : -1;
  braid_node_id node;
  BRAID_TRY(braid_graph_add_node(graph, op, NULL, inputs, GRAD_INPUTS, outputs, GRAD_OUTPUTS, &node));
  graph->nodes[node].backward = true;
  BRAID_TRY(braid_gradient_copy_attrs(context, node));
  for (size_t i = 0; i < GRAD_OUTPUTS; i++)
    if (outputs[i] >= 0) BRAID_TRY(braid_gradient_give(context, (size_t)kInputs[i], outputs[i]));
  return BRAID_OK;
}

static braid_status rnn_gradient(braid_gradient_context *context) {
  return add_backward(context, "RNNGrad", false);
}
static braid_status gru_gradient(braid_gradient_context *context) {
  return add_backward(context, "GRUGrad", false);
}
static braid_status lstm_gradient(braid_gradient_context *context) {
  return add_backward(context, "LSTMGrad", true);
}

static const braid_op kOps[] = {
    {"GRU", 3, 6, 0, 3, 0, infer_forward, forward_macs, gru_gradient},
    {"LSTM", 3, 8, 0, 4, 0, infer_forward, forward_macs, lstm_gradient},
    {"RNN", 3, 6, 0, 3, 0, infer_forward, forward_macs, rnn_gradient},
    {"GRUGrad", 3, GRAD_INPUTS, 0, GRAD_OUTPUTS, 0, infer_backward, backward_macs, NULL},
    {"LSTMGrad", 3, GRAD_INPUTS, 0, GRAD_OUTPUTS, 0, infer_backward, backward_macs, NULL},
    {"RNNGrad", 3, GRAD_INPUTS, 0, GRAD_OUTPUTS, 0, infer_backward, backward_macs, NULL},
};

extern const braid_op_family braid_ops_recurrent;
const braid_op_family braid_ops_recurrent = {kOps, sizeof kOps / sizeof *kOps};
