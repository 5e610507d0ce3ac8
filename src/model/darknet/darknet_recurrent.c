/* Recurrent layers, unrolled: [net] time_steps steps from a state of zeros. Between layers the steps stand in the batch
 * dimension, [B * steps, ...]; here they are taken apart and put together again. */
#include <string.h>

#include "base/try.h"
#include "model/darknet/darknet.h"

enum { MAX_PARTS = 8 };

typedef struct recurrent_cell {
  braid_darknet_dense parts[MAX_PARTS];
  bool squash; /* gru: tanh, not the logistic, for the candidate */
  /* One step: updates state[0] (and state[1]) and gives the step's output. state[i] = -1: zeros. */
  braid_status (*step)(braid_darknet *net, const struct recurrent_cell *cell, braid_value_id x, braid_value_id state[2],
                       braid_value_id *out);
} recurrent_cell;

static braid_status binary(braid_darknet *net, const char *op, braid_value_id a, braid_value_id b,
                           braid_value_id *out) {
  return braid_darknet_node(net, op, (braid_value_id[]){a, b}, 2, NULL, 0, out);
}

static braid_status unary(braid_darknet *net, const char *op, braid_value_id x, braid_value_id *out) {
  return braid_darknet_node(net, op, &x, 1, NULL, 0, out);
}

/* --- steps in the batch ------------------------------------------------------------------------------------------- */
static braid_status steps_apart(braid_darknet *net, braid_value_id value, const braid_darknet_output *shape,
                                braid_value_id *steps) {
  int64_t count = net->time_steps;
  int64_t apart[5] = {-1, count, shape->c, shape->h, shape->w}, one[4] = {-1, shape->c, shape->h, shape->w};
  int rank = shape->list ? 2 : 4;
  braid_node_id node;
  steps[0] = value;
  if (count == 1) return BRAID_OK;
  BRAID_TRY(braid_darknet_reshape(net, value, rank + 1, apart, &value));
  for (int64_t t = 0; t < count; t++) steps[t] = 0;
  BRAID_TRY(braid_graph_add_node(net->graph, "Split", NULL, &value, 1, steps, (size_t)count, &node));
  BRAID_TRY(braid_graph_set_int(net->graph, node, "axis", 1));
  BRAID_TRY(braid_graph_set_int(net->graph, node, "num_outputs", count));
  for (int64_t t = 0; t < count; t++) BRAID_TRY(braid_darknet_reshape(net, steps[t], rank, one, &steps[t]));
  return BRAID_OK;
}

static braid_status steps_together(braid_darknet *net, braid_value_id *steps, braid_darknet_output *out) {
  int64_t count = net->time_steps;
  int64_t one[5] = {-1, 1, out->c, out->h, out->w}, folded[4] = {-1, out->c, out->h, out->w};
  int rank = out->list ? 2 : 4;
  out->value = steps[0];
  if (count == 1) return BRAID_OK;
  for (int64_t t = 0; t < count; t++) BRAID_TRY(braid_darknet_reshape(net, steps[t], rank + 1, one, &steps[t]));
  BRAID_TRY(braid_darknet_node(net, "Concat", steps, (size_t)count, (braid_darknet_attr[]){BRAID_ATTR_I("axis", 1)}, 1,
                               &out->value));
  return braid_darknet_reshape(net, out->value, rank, folded, &out->value);
}

static braid_status unroll(braid_darknet *net, const recurrent_cell *cell, braid_value_id input, bool list,
                           braid_darknet_output *out) {
  braid_darknet_output shape = net->input;
  shape.list = list;
  if (list) shape.c *= shape.h * shape.w, shape.h = shape.w = 1;
  braid_value_id *steps = braid_zalloc_array(net->allocator, (size_t)net->time_steps, sizeof *steps);
  if (!steps) return BRAID_NO_MEMORY;
  braid_value_id state[2] = {-1, -1};
  braid_status status = steps_apart(net, input, &shape, steps);
  for (int64_t t = 0; status == BRAID_OK && t < net->time_steps; t++)
    status = cell->step(net, cell, steps[t], state, &steps[t]);
  if (status == BRAID_OK) status = steps_together(net, steps, out);
  braid_free(net->allocator, steps);
  return status;
}

/* --- rnn, crnn ---------------------------------------------------------------------------------------------------- */
enum { RNN_INPUT, RNN_SELF, RNN_OUTPUT };

/* A layer applied to zeros, shaped like `like`. */
static braid_status apply_to_zeros(braid_darknet *net, const braid_darknet_dense *dense, braid_value_id like,
                                   braid_value_id *out) {
  BRAID_TRY(braid_darknet_with_scalar(net, "Mul", like, 0, &like));
  return braid_darknet_apply(net, dense, like, out);
}

/* s = input(x) + self(s); the output is output(s). */
static braid_status rnn_step(braid_darknet *net, const recurrent_cell *cell, braid_value_id x, braid_value_id state[2],
                             braid_value_id *out) {
  braid_value_id in, self;
  BRAID_TRY(braid_darknet_apply(net, &cell->parts[RNN_INPUT], x, &in));
  if (state[0] < 0)
    BRAID_TRY(apply_to_zeros(net, &cell->parts[RNN_SELF], in, &self));
  else
    BRAID_TRY(braid_darknet_apply(net, &cell->parts[RNN_SELF], state[0], &self));
  BRAID_TRY(binary(net, "Add", in, self, &state[0]));
  return braid_darknet_apply(net, &cell->parts[RNN_OUTPUT], state[0], out);
}

static braid_status sizes(braid_darknet *net, int64_t *outputs, int64_t *hidden, bool *normalize) {
  int64_t value;
  BRAID_TRY(braid_darknet_only(net, "shortcut", 0));
  BRAID_TRY(braid_darknet_only(net, "logistic", 0));
  BRAID_TRY(braid_darknet_int(net, "output", 1, 1, BRAID_DARKNET_MAX_SIZE, outputs));
  BRAID_TRY(braid_darknet_int(net, "hidden", 1, 1, BRAID_DARKNET_MAX_SIZE, hidden));
  BRAID_TRY(braid_darknet_int(net, "batch_normalize", 0, 0, 1, &value));
  *normalize = value;
  return BRAID_OK;
}

braid_status braid_darknet_layer_rnn(braid_darknet *net, braid_darknet_output *out) {
  int64_t outputs, hidden, inputs = net->input.c * net->input.h * net->input.w;
  bool normalize;
  recurrent_cell cell = {.step = rnn_step};
  const char *name = braid_cfg_string(net->cfg, net->section, "activation", "logistic");
  BRAID_TRY(sizes(net, &outputs, &hidden, &normalize));
  BRAID_TRY(braid_darknet_connected(net, "input.", inputs, hidden, name, normalize, &cell.parts[RNN_INPUT]));
  BRAID_TRY(braid_darknet_connected(net, "self.", hidden, hidden, name, normalize, &cell.parts[RNN_SELF]));
  BRAID_TRY(braid_darknet_connected(net, "output.", hidden, outputs, name, normalize, &cell.parts[RNN_OUTPUT]));
  braid_value_id input;
  BRAID_TRY(braid_darknet_list(net, &input));
  *out = (braid_darknet_output){.c = outputs, .h = 1, .w = 1, .list = true};
  return unroll(net, &cell, input, true, out);
}

static braid_status only_three_by_three(const braid_darknet *net) {
  static const char *const kOne[] = {"stride", "dilation", "pad", "padding", "groups"};
  BRAID_TRY(braid_darknet_only(net, "size", 3));
  BRAID_TRY(braid_darknet_only(net, "xnor", 0));
  for (size_t i = 0; i < sizeof kOne / sizeof *kOne; i++) BRAID_TRY(braid_darknet_only(net, kOne[i], 1));
  return BRAID_OK;
}

braid_status braid_darknet_layer_crnn(braid_darknet *net, braid_darknet_output *out) {
  int64_t filters, hidden;
  bool normalize;
  recurrent_cell cell = {.step = rnn_step};
  const char *name = braid_cfg_string(net->cfg, net->section, "activation", "logistic");
  BRAID_TRY(only_three_by_three(net));
  BRAID_TRY(sizes(net, &filters, &hidden, &normalize));
  BRAID_TRY(braid_darknet_int(net, "output_filters", filters, 1, BRAID_DARKNET_MAX_SIZE, &filters)); /* J. Redmon's */
  BRAID_TRY(braid_darknet_int(net, "hidden_filters", hidden, 1, BRAID_DARKNET_MAX_SIZE, &hidden));
  for (int i = 0; i < 3; i++)
    cell.parts[i] = (braid_darknet_dense){.groups = 1,
                                          .size_x = 3,
                                          .size_y = 3,
                                          .stride_x = 1,
                                          .stride_y = 1,
                                          .padding_x = 1,
                                          .padding_y = 1,
                                          .dilation = 1};
  BRAID_TRY(
      braid_darknet_convolution(net, "input.", net->input.c, hidden, name, normalize, false, &cell.parts[RNN_INPUT]));
  BRAID_TRY(braid_darknet_convolution(net, "self.", hidden, hidden, name, normalize, false, &cell.parts[RNN_SELF]));
  BRAID_TRY(
      braid_darknet_convolution(net, "output.", hidden, filters, name, normalize, false, &cell.parts[RNN_OUTPUT]));
  braid_value_id input;
  BRAID_TRY(braid_darknet_image(net, &input));
  *out = (braid_darknet_output){.c = filters, .h = net->input.h, .w = net->input.w};
  return unroll(net, &cell, input, false, out);
}

/* --- gru ---------------------------------------------------------------------------------------------------------- */
enum { GRU_WZ, GRU_WR, GRU_WH, GRU_UZ, GRU_UR, GRU_UH }; /* w reads the state, u the input; the file's order */

static braid_status gate(braid_darknet *net, const braid_darknet_dense *w, const braid_darknet_dense *u,
                         braid_value_id state, braid_value_id x, const char *function, braid_value_id *out) {
  braid_value_id from_state, from_input;
  BRAID_TRY(braid_darknet_apply(net, u, x, &from_input));
  if (state < 0)
    BRAID_TRY(apply_to_zeros(net, w, from_input, &from_state));
  else
    BRAID_TRY(braid_darknet_apply(net, w, state, &from_state));
  BRAID_TRY(binary(net, "Add", from_state, from_input, out));
  return unary(net, function, *out, out);
}

/* state = z * state + (1 - z) * candidate(r * state, x). */
static braid_status gru_step(braid_darknet *net, const recurrent_cell *cell, braid_value_id x, braid_value_id state[2],
                             braid_value_id *out) {
  const braid_darknet_dense *p = cell->parts;
  braid_value_id z, r, kept = -1, candidate, change;
  BRAID_TRY(gate(net, &p[GRU_WZ], &p[GRU_UZ], state[0], x, "Sigmoid", &z));
  BRAID_TRY(gate(net, &p[GRU_WR], &p[GRU_UR], state[0], x, "Sigmoid", &r));
  if (state[0] >= 0) BRAID_TRY(binary(net, "Mul", r, state[0], &kept));
  BRAID_TRY(gate(net, &p[GRU_WH], &p[GRU_UH], kept, x, cell->squash ? "Tanh" : "Sigmoid", &candidate));
  BRAID_TRY(binary(net, "Mul", z, candidate, &change));
  BRAID_TRY(binary(net, "Sub", candidate, change, &change));
  if (state[0] >= 0) {
    BRAID_TRY(binary(net, "Mul", z, state[0], &kept));
    BRAID_TRY(binary(net, "Add", kept, change, &change));
  }
  *out = state[0] = change;
  return BRAID_OK;
}

/* Gates in the file's order; the first half of `names` reads the state, the second the input. */
static braid_status gates(braid_darknet *net, const char *const *names, int count, int64_t inputs, int64_t outputs,
                          recurrent_cell *cell) {
  int64_t normalize;
  BRAID_TRY(braid_darknet_int(net, "batch_normalize", 0, 0, 1, &normalize));
  for (int i = 0; i < count; i++)
    BRAID_TRY(braid_darknet_connected(net, names[i], i < count / 2 ? outputs : inputs, outputs, "linear", normalize,
                                      &cell->parts[i]));
  return BRAID_OK;
}

static braid_status gated_layer(braid_darknet *net, const char *const *names, int count, recurrent_cell *cell,
                                braid_darknet_output *out) {
  int64_t outputs, inputs = net->input.c * net->input.h * net->input.w;
  braid_value_id input;
  BRAID_TRY(braid_darknet_int(net, "output", 1, 1, BRAID_DARKNET_MAX_SIZE, &outputs));
  BRAID_TRY(gates(net, names, count, inputs, outputs, cell));
  BRAID_TRY(braid_darknet_list(net, &input));
  *out = (braid_darknet_output){.c = outputs, .h = 1, .w = 1, .list = true};
  return unroll(net, cell, input, true, out);
}

braid_status braid_darknet_layer_gru(braid_darknet *net, braid_darknet_output *out) {
  static const char *const kNames[] = {"wz.", "wr.", "wh.", "uz.", "ur.", "uh."};
  recurrent_cell cell = {.step = gru_step};
  int64_t squash;
  BRAID_TRY(braid_darknet_int(net, "tanh", 0, 0, 1, &squash));
  cell.squash = squash;
  return gated_layer(net, kNames, 6, &cell, out);
}

/* --- lstm --------------------------------------------------------------------------------------------------------- */
enum { LSTM_WI, LSTM_WF, LSTM_WO, LSTM_WG, LSTM_UI, LSTM_UF, LSTM_UO, LSTM_UG };

/* c = f * c + i * g; h = o * tanh(c). */
static braid_status lstm_step(braid_darknet *net, const recurrent_cell *cell, braid_value_id x, braid_value_id state[2],
                              braid_value_id *out) {
  const braid_darknet_dense *p = cell->parts;
  braid_value_id i, f, o, g, c, kept;
  BRAID_TRY(gate(net, &p[LSTM_WI], &p[LSTM_UI], state[0], x, "Sigmoid", &i));
  BRAID_TRY(gate(net, &p[LSTM_WF], &p[LSTM_UF], state[0], x, "Sigmoid", &f));
  BRAID_TRY(gate(net, &p[LSTM_WO], &p[LSTM_UO], state[0], x, "Sigmoid", &o));
  BRAID_TRY(gate(net, &p[LSTM_WG], &p[LSTM_UG], state[0], x, "Tanh", &g));
  BRAID_TRY(binary(net, "Mul", i, g, &c));
  if (state[1] >= 0) {
    BRAID_TRY(binary(net, "Mul", f, state[1], &kept));
    BRAID_TRY(binary(net, "Add", kept, c, &c));
  }
  state[1] = c;
  BRAID_TRY(unary(net, "Tanh", c, &c));
  BRAID_TRY(binary(net, "Mul", o, c, out));
  state[0] = *out;
  return BRAID_OK;
}

braid_status braid_darknet_layer_lstm(braid_darknet *net, braid_darknet_output *out) {
  static const char *const kNames[] = {"wi.", "wf.", "wo.", "wg.", "ui.", "uf.", "uo.", "ug."};
  recurrent_cell cell = {.step = lstm_step};
  return gated_layer(net, kNames, 8, &cell, out);
}
