/* One sequence at a time: the batch is 1, so that ONNX's values of rank 3 and 4 have their numbers in the order of
 * step, direction, number, whatever the layout, and what moves dimensions of 1 changes nothing. */
#include "overlay/recurrent/rnn_lower.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/try.h"
#include "graph/graph.h"
#include "graph/recurrent.h"

enum { IN_X, IN_W, IN_R, IN_B, IN_LENGTHS, IN_H, IN_C, IN_P };

/* What a value of the graph is. */
typedef enum braid_rnn_meaning {
  BRAID_RNN_FOREIGN,   /* the host's, before any cell */
  BRAID_RNN_VECTORS,   /* a sequence that cells write */
  BRAID_RNN_LAST_H,    /* its last hidden states */
  BRAID_RNN_LAST_C,    /* and cell states */
  BRAID_RNN_COMES_BACK /* the host's, computed of what cells write */
} braid_rnn_meaning;

typedef struct braid_rnn_known {
  braid_rnn_meaning meaning;
  int32_t sequence;
} braid_rnn_known;

typedef struct braid_rnn_lowering {
  const braid_graph *graph;
  const braid_allocator *allocator;
  double greatest;
  braid_rnn_lowered *out;
  braid_rnn *tables;                              /* of `out`: with room for BRAID_RNN_MOST_ITEMS of each */
  const int16_t **numbers;                        /* of states */
  braid_rnn_known *known;                         /* of each value */
  braid_value_id *sequence_values, *state_values; /* of inputs: the graph's; else -1 */
  bool *takes;                                    /* of each node */
  char (*why)[240];                               /* of each node that is refused */
} braid_rnn_lowering;

static braid_status rnn_refuse(braid_rnn_lowering *l, braid_node_id node, const char *format, ...) BRAID_PRINTF(3, 4);
static braid_status rnn_refuse(braid_rnn_lowering *l, braid_node_id node, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(l->why[node], sizeof l->why[node], format, arguments);
  va_end(arguments);
  return BRAID_UNSUPPORTED;
}

/* --- values --------------------------------------------------------------------------------------------------------
 */
static braid_value_id input_of(const braid_node *node, size_t index) {
  return index < node->input_count ? node->inputs[index] : -1;
}

static braid_value_id output_of(const braid_node *node, size_t index) {
  return index < node->output_count ? node->outputs[index] : -1;
}

/* Whether dimensions above 1 stay in their order. */
static bool keeps_order(const braid_graph *graph, const braid_node *node) {
  const braid_desc *in = &graph->values[node->inputs[0]].desc;
  size_t count;
  const int64_t *perm = braid_attr_ints(&node->attrs, "perm", &count);
  int64_t last = -1;
  for (int i = 0; i < in->rank; i++) {
    int64_t from = perm && count == (size_t)in->rank ? perm[i] : in->rank - 1 - i;
    if (from < 0 || from >= in->rank || in->dims[from] == 1) continue;
    if (from < last) return false;
    last = from;
  }
  return true;
}

/* Gives a value another shape, with its numbers in the same order. */
static bool only_shapes(const braid_graph *graph, const braid_node *node) {
  static const char *const kOps[] = {"Identity", "Squeeze", "Unsqueeze", "Reshape", "Flatten"};
  for (size_t i = 0; i < sizeof kOps / sizeof *kOps; i++)
    if (strcmp(node->op->name, kOps[i]) == 0) return true;
  return strcmp(node->op->name, "Transpose") == 0 && keeps_order(graph, node);
}

/* Back to what a value is another shape of. */
static braid_value_id rnn_trace(const braid_rnn_lowering *l, braid_value_id value) {
  for (;;) {
    const braid_value *v = &l->graph->values[value];
    if (l->known[value].meaning != BRAID_RNN_FOREIGN || v->kind != BRAID_VALUE_RESULT) return value;
    const braid_node *node = &l->graph->nodes[v->producer];
    if (!only_shapes(l->graph, node)) return value;
    value = node->inputs[0];
  }
}

static const float *floats_of(const braid_rnn_lowering *l, braid_value_id value) {
  const braid_value *v = &l->graph->values[value];
  bool fixed = v->kind != BRAID_VALUE_RESULT && v->kind != BRAID_VALUE_INPUT && v->tensor;
  return fixed && v->desc.dtype == BRAID_F32 ? braid_tensor_const_data(v->tensor) : NULL;
}

/* --- what a node says ----------------------------------------------------------------------------------------------
 */
static bool has_usual_units(const braid_recurrent *r) {
  static const braid_unit_kind kUnits[BRAID_UNITS] = {BRAID_UNIT_SIGMOID, BRAID_UNIT_TANH, BRAID_UNIT_TANH};
  for (int d = 0; d < r->directions; d++)
    for (int i = 0; i < BRAID_UNITS; i++)
      if (r->units[d][i].kind != kUnits[i]) return false;
  return true;
}

static braid_status check_kind(braid_rnn_lowering *l, braid_node_id id, const braid_recurrent *r) {
  const braid_node *node = &l->graph->nodes[id];
  if (input_of(node, IN_P) >= 0) return rnn_refuse(l, id, "it has peepholes (P), which the overlay has not");
  if (!has_usual_units(r))
    return rnn_refuse(l, id, "its activations are not Sigmoid, Tanh, Tanh, which alone the overlay has tables of");
  for (int d = 0; d < r->directions; d++)
    if (r->units[d][0].clip > 0 || r->units[d][1].clip > 0)
      return rnn_refuse(l, id, "it has clip, which the overlay has not");
  if (r->input_forget) return rnn_refuse(l, id, "it has input_forget, which the overlay has not");
  if (r->batch != 1)
    return rnn_refuse(l, id, "its batch is %lld; the overlay computes one sequence at a time", (long long)r->batch);
  if (r->steps < 1 || r->steps > BRAID_RNN_MOST_STEPS)
    return rnn_refuse(l, id, "its sequences have %lld steps; 1 to %d are possible", (long long)r->steps,
                      BRAID_RNN_MOST_STEPS);
  if (r->hidden > BRAID_LSTM_MOST_SIDE || r->inputs > BRAID_LSTM_MOST_SIDE || r->inputs < 1)
    return rnn_refuse(l, id, "it has %lld inputs and %lld hidden states; 1 to %d are possible", (long long)r->inputs,
                      (long long)r->hidden, BRAID_LSTM_MOST_SIDE);
  return BRAID_OK;
}

static braid_status read_node(braid_rnn_lowering *l, braid_node_id id, braid_recurrent *r, braid_rnn_floats *floats) {
  const braid_node *node = &l->graph->nodes[id];
  braid_value_id x = input_of(node, IN_X), w = input_of(node, IN_W), weights = input_of(node, IN_R);
  if (x < 0 || w < 0 || weights < 0) return rnn_refuse(l, id, "X, W or R is missing");
  const braid_value *values = l->graph->values;
  if (braid_recurrent_read("LSTM", &node->attrs, &values[x].desc, &values[w].desc, &values[weights].desc, r) !=
      BRAID_OK)
    return rnn_refuse(l, id, "%s", braid_error_detail());
  BRAID_TRY(check_kind(l, id, r));
  *floats = (braid_rnn_floats){floats_of(l, w), floats_of(l, weights), NULL};
  braid_value_id b = input_of(node, IN_B);
  if (b >= 0) floats->b = floats_of(l, b);
  if (!floats->w || !floats->r || (b >= 0 && !floats->b))
    return rnn_refuse(l, id, "W, R or B is not a constant of float32");
  return BRAID_OK;
}

/* Steps, and how many of them are computed, are those of all nodes. */
static braid_status agree_steps(braid_rnn_lowering *l, braid_node_id id, const braid_recurrent *r) {
  const braid_node *node = &l->graph->nodes[id];
  braid_value_id lengths = input_of(node, IN_LENGTHS);
  int64_t length = r->steps;
  if (lengths >= 0) {
    const braid_value *v = &l->graph->values[lengths];
    if (v->kind != BRAID_VALUE_CONSTANT || !v->tensor)
      return rnn_refuse(l, id, "sequence_lens is not constant: a package is made for a number of steps");
    length = braid_tensor_get_i64(v->tensor, 0);
  }
  if (length < 1 || length > r->steps)
    return rnn_refuse(l, id, "sequence_lens is %lld, 1 to %lld are possible", (long long)length, (long long)r->steps);
  braid_rnn *t = l->tables;
  if (t->cell_count && (t->steps != r->steps || t->length != length))
    return rnn_refuse(l, id, "it computes %lld of %lld steps, nodes before it %d of %d", (long long)length,
                      (long long)r->steps, t->length, t->steps);
  t->steps = (int32_t)r->steps;
  t->length = (int32_t)length;
  return BRAID_OK;
}

/* --- sequences and states ------------------------------------------------------------------------------------------
 */
static braid_status find_source(braid_rnn_lowering *l, braid_node_id id, const braid_recurrent *r, int32_t *out) {
  braid_rnn *t = l->tables;
  braid_value_id value = rnn_trace(l, input_of(&l->graph->nodes[id], IN_X));
  const braid_rnn_known *known = &l->known[value];
  if (known->meaning == BRAID_RNN_VECTORS) {
    const braid_rnn_sequence *q = &t->sequences[known->sequence];
    *out = known->sequence;
    return q->parts * q->part == r->inputs && t->steps == r->steps
               ? BRAID_OK
               : rnn_refuse(l, id, "its input has what cells compute in another division of steps and numbers");
  }
  if (known->meaning != BRAID_RNN_FOREIGN)
    return rnn_refuse(l, id, "its input, %s, is computed by the host of what the overlay computes before",
                      l->graph->values[value].name);
  if (l->graph->values[value].desc.dtype != BRAID_F32) return rnn_refuse(l, id, "its input is not float32");
  for (size_t i = 0; i < t->sequence_count; i++)
    if (l->sequence_values[i] == value && t->sequences[i].part == r->inputs) {
      *out = (int32_t)i;
      return BRAID_OK;
    }
  if (t->sequence_count == BRAID_RNN_MOST_ITEMS || t->input_count == BRAID_RNN_MOST_ITEMS)
    return rnn_refuse(l, id, "there are more than %d sequences", BRAID_RNN_MOST_ITEMS);
  *out = (int32_t)t->sequence_count;
  l->sequence_values[t->sequence_count] = value;
  t->sequences[t->sequence_count++] =
      (braid_rnn_sequence){.name = l->graph->values[value].name, .parts = 1, .part = (int32_t)r->inputs, .input = true};
  t->inputs[t->input_count++] = (braid_rnn_port){l->graph->values[value].name, BRAID_RNN_SEQUENCE, *out};
  return BRAID_OK;
}

/* Constant states as integers; `out` NULL: only checked. */
static braid_status round_states(braid_rnn_lowering *l, braid_node_id id, const float *from, size_t count,
                                 int32_t exponent, int16_t *out) {
  for (size_t i = 0; i < count; i++) {
    double q = from ? rint(ldexp((double)from[i], -exponent)) : 0;
    if (!(fabs(q) <= 32768))
      return rnn_refuse(l, id, "a first state is %g; -%g to %g are possible", (double)from[i], ldexp(1, exponent + 15),
                        ldexp(1, exponent + 15));
    out[i] = (int16_t)fmin(q, INT16_MAX);
  }
  return BRAID_OK;
}

static braid_status new_state(braid_rnn_lowering *l, braid_node_id id, const braid_rnn_state *state,
                              braid_value_id value, const float *from, int32_t *out) {
  braid_rnn *t = l->tables;
  if (t->state_count == BRAID_RNN_MOST_ITEMS || t->input_count == BRAID_RNN_MOST_ITEMS)
    return rnn_refuse(l, id, "there are more than %d first states", BRAID_RNN_MOST_ITEMS);
  *out = (int32_t)t->state_count;
  l->state_values[t->state_count] = value;
  t->states[t->state_count] = *state;
  if (state->input) {
    t->inputs[t->input_count++] = (braid_rnn_port){state->name, BRAID_RNN_STATE, *out};
  } else {
    size_t count = (size_t)state->parts * (size_t)state->part;
    int16_t *numbers = braid_arena_alloc(l->out->arena, count * sizeof *numbers);
    if (!numbers) return BRAID_NO_MEMORY;
    BRAID_TRY(round_states(l, id, from, count, state->exponent, numbers));
    l->numbers[t->state_count] = numbers;
  }
  t->state_count++;
  return BRAID_OK;
}

/* initial_h or initial_c: -1 is 0. */
static braid_status find_state(braid_rnn_lowering *l, braid_node_id id, const braid_recurrent *r, braid_value_id value,
                               bool cells, braid_rnn_origin *out) {
  braid_rnn *t = l->tables;
  int32_t exponent = cells ? BRAID_LSTM_CELL_EXPONENT : BRAID_LSTM_HIDDEN_EXPONENT, hidden = (int32_t)r->hidden;
  braid_rnn_state state = {.name = "", .parts = r->directions, .part = hidden, .exponent = exponent};
  *out = (braid_rnn_origin){.cell = false};
  const float *from = NULL;
  if (value >= 0) {
    value = rnn_trace(l, value);
    const braid_rnn_known *known = &l->known[value];
    if (known->meaning == (cells ? BRAID_RNN_LAST_C : BRAID_RNN_LAST_H)) {
      const braid_rnn_sequence *q = &t->sequences[known->sequence];
      *out = (braid_rnn_origin){true, known->sequence, 0}; /* the cell of a part is found by the caller */
      return q->parts == r->directions && q->part == hidden
                 ? BRAID_OK
                 : rnn_refuse(l, id, "its first states are those of a node of another size");
    }
    const braid_value *v = &l->graph->values[value];
    state.name = v->name;
    if (known->meaning != BRAID_RNN_FOREIGN || v->desc.dtype != BRAID_F32)
      return rnn_refuse(l, id, "its first states, %s, are not what the overlay can begin with", v->name);
    if (braid_desc_count(&v->desc) != (int64_t)r->directions * hidden)
      return rnn_refuse(l, id, "its first states, %s, are not %d times %d", v->name, r->directions, hidden);
    from = floats_of(l, value);
    state.input = !from;
  }
  for (size_t i = 0; i < t->state_count; i++)
    if (l->state_values[i] == value && t->states[i].part == hidden && t->states[i].parts == state.parts &&
        t->states[i].exponent == exponent) {
      out->index = (int32_t)i;
      return BRAID_OK;
    }
  return new_state(l, id, &state, value, from, &out->index);
}

/* --- cells ---------------------------------------------------------------------------------------------------------
 */
static int32_t cell_that_writes(const braid_rnn *t, int32_t sequence, int32_t part) {
  for (size_t i = 0; i < t->cell_count; i++)
    if (t->cells[i].into == sequence && t->cells[i].part == part) return (int32_t)i;
  return -1;
}

static braid_rnn_origin origin_of(const braid_rnn *t, const braid_rnn_origin *of_node, int32_t direction) {
  braid_rnn_origin origin = *of_node;
  if (origin.cell)
    origin.index = cell_that_writes(t, of_node->index, direction);
  else
    origin.part = direction;
  return origin;
}

static braid_status make_lstm(braid_rnn_lowering *l, braid_node_id id, const braid_recurrent *r, bool of_input,
                              const braid_rnn_floats *floats, braid_lstm **out) {
  double most = of_input ? l->greatest : ldexp(INT16_MAX, BRAID_LSTM_HIDDEN_EXPONENT);
  braid_status status = braid_lstm_create(l->allocator, (int32_t)r->inputs, (int32_t)r->hidden, floats->w, floats->r,
                                          floats->b, most, out);
  return status == BRAID_INVALID_ARGUMENT ? rnn_refuse(l, id, "%s", braid_error_detail()) : status;
}

static braid_status add_cells(braid_rnn_lowering *l, braid_node_id id, const braid_recurrent *r,
                              const braid_rnn_floats *floats, const braid_rnn_cell *common, braid_lstm *made[2]) {
  braid_rnn *t = l->tables;
  size_t rows = (size_t)(4 * r->hidden);
  for (int d = 0; d < r->directions; d++) {
    size_t at = t->cell_count + (size_t)d;
    braid_rnn_floats own = {floats->w + (size_t)d * rows * (size_t)r->inputs,
                            floats->r + (size_t)d * rows * (size_t)r->hidden,
                            floats->b ? floats->b + (size_t)d * 2 * rows : NULL};
    BRAID_TRY(make_lstm(l, id, r, t->sequences[common->source].input, &own, &made[d]));
    t->cells[at] = *common;
    t->cells[at].part = d;
    t->cells[at].shift = made[d]->shift;
    t->cells[at].backwards = r->backwards || d == 1;
    t->cells[at].h = origin_of(t, &common->h, d);
    t->cells[at].c = origin_of(t, &common->c, d);
    l->out->floats[at] = own;
    if (r->directions == 2)
      t->cells[at].name = braid_arena_format(l->out->arena, "%s, %s", common->name, d ? "reverse" : "forward");
    if (!t->cells[at].name) return BRAID_NO_MEMORY;
  }
  return BRAID_OK;
}

static void keep_cells(braid_rnn_lowering *l, const braid_node *node, const braid_recurrent *r,
                       const braid_rnn_cell *common, braid_lstm *made[2]) {
  static const braid_rnn_meaning kMeanings[] = {BRAID_RNN_VECTORS, BRAID_RNN_LAST_H, BRAID_RNN_LAST_C};
  braid_rnn *t = l->tables;
  if (t->sequences[common->source].input) t->sequences[common->source].exponent = made[0]->x_exponent;
  for (int d = 0; d < r->directions; d++) l->out->lstms[t->cell_count++] = made[d];
  t->sequences[common->into] = (braid_rnn_sequence){
      .name = node->name, .parts = r->directions, .part = (int32_t)r->hidden, .exponent = BRAID_LSTM_HIDDEN_EXPONENT};
  l->sequence_values[common->into] = -1;
  t->sequence_count++;
  for (size_t o = 0; o < 3; o++)
    if (output_of(node, o) >= 0) l->known[node->outputs[o]] = (braid_rnn_known){kMeanings[o], common->into};
}

/* All or nothing: what a node that is refused has added is taken back. */
static braid_status take_lstm(braid_rnn_lowering *l, braid_node_id id) {
  const braid_node *node = &l->graph->nodes[id];
  braid_rnn *t = l->tables;
  braid_recurrent r;
  braid_rnn_floats floats;
  braid_lstm *made[2] = {NULL, NULL};
  BRAID_TRY(read_node(l, id, &r, &floats));
  BRAID_TRY(agree_steps(l, id, &r));
  size_t sequences = t->sequence_count, states = t->state_count, inputs = t->input_count;
  braid_rnn_cell common = {.name = node->name, .hidden = (int32_t)r.hidden};
  braid_status status = BRAID_OK;
  if (t->cell_count + 2 > BRAID_RNN_MOST_ITEMS || t->sequence_count + 2 > BRAID_RNN_MOST_ITEMS)
    status = rnn_refuse(l, id, "there are more than %d nodes before it", BRAID_RNN_MOST_ITEMS);
  if (status == BRAID_OK) status = find_source(l, id, &r, &common.source);
  if (status == BRAID_OK) status = find_state(l, id, &r, input_of(node, IN_H), false, &common.h);
  if (status == BRAID_OK) status = find_state(l, id, &r, input_of(node, IN_C), true, &common.c);
  common.into = (int32_t)t->sequence_count;
  if (status == BRAID_OK) status = add_cells(l, id, &r, &floats, &common, made);
  if (status == BRAID_OK) {
    keep_cells(l, node, &r, &common, made);
    l->takes[id] = true;
    return BRAID_OK;
  }
  for (int d = 0; d < 2; d++) braid_lstm_destroy(made[d]);
  t->sequence_count = sequences;
  t->state_count = states;
  t->input_count = inputs;
  return status;
}

/* --- walk ----------------------------------------------------------------------------------------------------------
 */
static void leave_node(braid_rnn_lowering *l, const braid_node *node) {
  bool after = false;
  for (size_t i = 0; i < node->input_count; i++)
    after = after || (node->inputs[i] >= 0 && l->known[node->inputs[i]].meaning != BRAID_RNN_FOREIGN);
  for (size_t o = 0; after && o < node->output_count; o++)
    if (node->outputs[o] >= 0) l->known[node->outputs[o]].meaning = BRAID_RNN_COMES_BACK;
}

static braid_status rnn_walk(braid_rnn_lowering *l) {
  for (size_t i = 0; i < l->graph->node_count; i++) {
    const braid_node *node = &l->graph->nodes[i];
    braid_status status = BRAID_UNSUPPORTED;
    bool shapes = only_shapes(l->graph, node);
    braid_rnn_known known = shapes ? l->known[node->inputs[0]] : (braid_rnn_known){BRAID_RNN_FOREIGN, 0};
    if (strcmp(node->op->name, "LSTM") == 0) {
      status = take_lstm(l, (braid_node_id)i);
      if (status != BRAID_OK && status != BRAID_UNSUPPORTED) return status;
    } else if (shapes && known.meaning != BRAID_RNN_FOREIGN && known.meaning != BRAID_RNN_COMES_BACK) {
      l->known[node->outputs[0]] = known;
      l->takes[i] = true;
      status = BRAID_OK;
    } else {
      (void)rnn_refuse(l, (braid_node_id)i, "cores for recurrent networks compute LSTM alone");
    }
    if (status != BRAID_OK) leave_node(l, node);
  }
  return BRAID_OK;
}

/* Before cells: what only they read is taken with them. */
static void take_shapes_before(braid_rnn_lowering *l) {
  for (size_t i = l->graph->node_count; i-- > 0;) {
    const braid_node *node = &l->graph->nodes[i];
    if (l->takes[i] || !only_shapes(l->graph, node)) continue;
    bool all = true, any = false;
    for (size_t o = 0; o < braid_graph_output_count(l->graph); o++)
      all = all && braid_graph_output(l->graph, o) != node->outputs[0];
    for (size_t k = i + 1; all && k < l->graph->node_count; k++)
      for (size_t j = 0; j < l->graph->nodes[k].input_count; j++)
        if (l->graph->nodes[k].inputs[j] == node->outputs[0]) {
          any = true;
          all = all && l->takes[k];
        }
    l->takes[i] = all && any;
  }
}

/* --- ports out -----------------------------------------------------------------------------------------------------
 */
static bool host_wants(const braid_rnn_lowering *l, braid_value_id value) {
  for (size_t o = 0; o < braid_graph_output_count(l->graph); o++)
    if (braid_graph_output(l->graph, o) == value) return true;
  for (size_t i = 0; i < l->graph->node_count; i++)
    for (size_t k = 0; !l->takes[i] && k < l->graph->nodes[i].input_count; k++)
      if (l->graph->nodes[i].inputs[k] == value) return true;
  return false;
}

static void add_outputs(braid_rnn_lowering *l) {
  braid_rnn *t = l->tables;
  for (size_t v = 0; v < l->graph->value_count && t->output_count < BRAID_RNN_MOST_ITEMS; v++) {
    const braid_rnn_known *known = &l->known[v];
    if (known->meaning == BRAID_RNN_FOREIGN || known->meaning == BRAID_RNN_COMES_BACK) continue;
    if (!host_wants(l, (braid_value_id)v)) continue;
    braid_rnn_port_kind kind = known->meaning == BRAID_RNN_VECTORS  ? BRAID_RNN_SEQUENCE
                               : known->meaning == BRAID_RNN_LAST_H ? BRAID_RNN_LAST_HIDDEN
                                                                    : BRAID_RNN_LAST_CELL;
    t->outputs[t->output_count++] = (braid_rnn_port){l->graph->values[v].name, kind, known->sequence};
  }
}

/* The graph's own, as it has them, then the others as they are. */
static void order_ports(const braid_rnn_lowering *l, bool outputs, braid_rnn_port *ports, size_t count) {
  size_t own = outputs ? braid_graph_output_count(l->graph) : braid_graph_input_count(l->graph), done = 0;
  for (size_t v = 0; v < own; v++) {
    braid_value_id value = outputs ? braid_graph_output(l->graph, v) : braid_graph_input(l->graph, v);
    for (size_t i = done; i < count; i++) {
      if (ports[i].name != l->graph->values[value].name) continue;
      braid_rnn_port port = ports[i];
      memmove(&ports[done + 1], &ports[done], (i - done) * sizeof *ports);
      ports[done++] = port;
      break;
    }
  }
}

/* --- all -----------------------------------------------------------------------------------------------------------
 */
static bool take_memory(braid_rnn_lowering *l) {
  braid_rnn_lowered *out = l->out;
  struct braid_arena *arena = out->arena;
  size_t values = l->graph->value_count + 1, nodes = l->graph->node_count + 1, most = BRAID_RNN_MOST_ITEMS;
  braid_rnn *t = l->tables = &out->network.tables;
  t->sequences = braid_arena_alloc(arena, most * sizeof *t->sequences);
  t->states = braid_arena_alloc(arena, most * sizeof *t->states);
  t->cells = braid_arena_alloc(arena, most * sizeof *t->cells);
  t->inputs = braid_arena_alloc(arena, most * sizeof *t->inputs);
  t->outputs = braid_arena_alloc(arena, most * sizeof *t->outputs);
  out->lstms = braid_arena_alloc(arena, most * sizeof *out->lstms);
  out->floats = braid_arena_alloc(arena, most * sizeof *out->floats);
  l->numbers = braid_arena_alloc(arena, most * sizeof *l->numbers);
  l->known = braid_arena_alloc(arena, values * sizeof *l->known);
  l->sequence_values = braid_arena_alloc(arena, most * sizeof *l->sequence_values);
  l->state_values = braid_arena_alloc(arena, most * sizeof *l->state_values);
  l->takes = braid_arena_alloc(arena, nodes * sizeof *l->takes);
  l->why = braid_arena_alloc(arena, nodes * sizeof *l->why);
  out->network.lstms = (const braid_lstm *const *)out->lstms;
  out->network.numbers = l->numbers;
  return t->sequences && t->states && t->cells && t->inputs && t->outputs && out->lstms && out->floats && l->numbers &&
         l->known && l->sequence_values && l->state_values && l->takes && l->why;
}

braid_status braid_rnn_lower(const braid_graph *graph, double greatest, const braid_allocator *allocator,
                             braid_text *host, braid_rnn_lowered *out) {
  *out = (braid_rnn_lowered){.arena = NULL};
  braid_rnn_lowering l = {.graph = graph, .allocator = allocator, .greatest = greatest, .out = out};
  BRAID_TRY(braid_arena_create(allocator, &out->arena));
  if (!take_memory(&l)) return BRAID_NO_MEMORY;
  BRAID_TRY(rnn_walk(&l));
  take_shapes_before(&l);
  add_outputs(&l);
  order_ports(&l, false, l.tables->inputs, l.tables->input_count);
  order_ports(&l, true, l.tables->outputs, l.tables->output_count);
  const char *reason = "it has no LSTM";
  for (size_t i = 0; i < graph->node_count; i++) {
    const braid_node *node = &graph->nodes[i];
    if (l.takes[i]) continue;
    braid_text_printf(host, "%s (%s): %s\n", node->name, node->op->name, l.why[i]);
    if (strcmp(node->op->name, "LSTM") == 0 && strcmp(reason, "it has no LSTM") == 0) reason = l.why[i];
  }
  if (!l.tables->cell_count)
    return braid_fail(BRAID_UNSUPPORTED, "cores for recurrent networks can compute nothing of it: %s", reason);
  return host->failed ? BRAID_NO_MEMORY : BRAID_OK;
}

void braid_rnn_lowered_deinit(braid_rnn_lowered *lowered) {
  for (size_t i = 0; lowered->lstms && i < lowered->network.tables.cell_count; i++)
    braid_lstm_destroy(lowered->lstms[i]);
  if (lowered->arena) braid_arena_destroy(lowered->arena);
  *lowered = (braid_rnn_lowered){.arena = NULL};
}
