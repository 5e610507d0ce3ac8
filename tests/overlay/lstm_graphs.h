/* Graphs of LSTM nodes for tests, of random weights. */
#ifndef BRAID_TESTS_OVERLAY_LSTM_GRAPHS_H
#define BRAID_TESTS_OVERLAY_LSTM_GRAPHS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "braid/braid.h"

static uint64_t rnn_drawn;

static inline void rnn_ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static inline int rnn_draw(int bound) {
  return (int)braid_random_below(53, 0, 0, rnn_drawn++, (uint32_t)bound);
}

static inline braid_tensor *rnn_tensor(braid_dtype dtype, int rank, const int64_t *dims, double scale) {
  braid_desc desc;
  braid_tensor *tensor;
  rnn_ok(braid_desc_init(&desc, dtype, rank, dims));
  rnn_ok(braid_tensor_create(NULL, &desc, &tensor));
  for (int64_t i = 0; i < braid_desc_count(&desc); i++)
    braid_tensor_set_f64(tensor, i, scale * (2 * (double)braid_random_uniform(53, 1, 0, rnn_drawn++) - 1));
  return tensor;
}

static inline braid_value_id rnn_constant(braid_graph *graph, braid_tensor *tensor) {
  braid_value_id value;
  rnn_ok(braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, tensor, &value));
  braid_tensor_release(tensor);
  return value;
}

static inline braid_value_id rnn_ints(braid_graph *graph, const int64_t *values, int64_t count) {
  braid_tensor *tensor = rnn_tensor(BRAID_I64, 1, &count, 0);
  memcpy(braid_tensor_data(tensor), values, (size_t)count * sizeof *values);
  return rnn_constant(graph, tensor);
}

static inline braid_value_id rnn_input(braid_graph *graph, const char *name, int rank, const int64_t *dims) {
  braid_desc desc;
  braid_value_id value;
  rnn_ok(braid_desc_init(&desc, BRAID_F32, rank, dims));
  rnn_ok(braid_graph_add_input(graph, name, &desc, &value));
  return value;
}

static inline braid_value_id rnn_node(braid_graph *graph, const char *op, const braid_value_id *inputs, size_t count,
                                      braid_node_id *id) {
  braid_value_id output = 0;
  braid_node_id made;
  rnn_ok(braid_graph_add_node(graph, op, NULL, inputs, count, &output, 1, id ? id : &made));
  return output;
}

typedef struct rnn_layer {
  int64_t inputs, hidden, directions;
  bool backwards, batch_first;
  braid_value_id lengths, h, c; /* -1: none */
  braid_node_id node;
  braid_value_id outputs[3];
} rnn_layer;

/* An LSTM node with its weights; x is [steps, 1, inputs], or with batch_first [1, steps, inputs]. */
static inline void rnn_add_lstm(braid_graph *graph, braid_value_id x, rnn_layer *l) {
  int64_t rows = 4 * l->hidden, w[] = {l->directions, rows, l->inputs}, r[] = {l->directions, rows, l->hidden};
  int64_t b[] = {l->directions, 2 * rows};
  double scale = 1 / sqrt((double)l->hidden);
  braid_value_id inputs[] = {x,
                             rnn_constant(graph, rnn_tensor(BRAID_F32, 3, w, scale)),
                             rnn_constant(graph, rnn_tensor(BRAID_F32, 3, r, scale)),
                             rnn_draw(4) ? rnn_constant(graph, rnn_tensor(BRAID_F32, 2, b, scale)) : -1,
                             l->lengths,
                             l->h,
                             l->c};
  const char *direction = l->directions == 2 ? "bidirectional" : l->backwards ? "reverse" : "forward";
  for (int i = 0; i < 3; i++) l->outputs[i] = 0;
  rnn_ok(braid_graph_add_node(graph, "LSTM", NULL, inputs, 7, l->outputs, 3, &l->node));
  rnn_ok(braid_graph_set_string(graph, l->node, "direction", direction));
  rnn_ok(braid_graph_set_int(graph, l->node, "hidden_size", l->hidden));
  rnn_ok(braid_graph_set_int(graph, l->node, "layout", l->batch_first));
}

/* Y as [steps, 1, directions * hidden]. */
static inline braid_value_id rnn_flatten(braid_graph *graph, const rnn_layer *l, int64_t steps) {
  const int64_t dims[] = {steps, 1, l->directions * l->hidden}, perm[] = {0, 2, 1, 3}, one = 1;
  braid_node_id id;
  if (l->directions == 1 && !l->batch_first) {
    braid_value_id inputs[] = {l->outputs[0], rnn_ints(graph, &one, 1)};
    return rnn_node(graph, "Squeeze", inputs, 2, NULL);
  }
  braid_value_id moved = l->outputs[0];
  if (!l->batch_first) {
    moved = rnn_node(graph, "Transpose", &moved, 1, &id);
    rnn_ok(braid_graph_set_ints(graph, id, "perm", perm, 4));
  }
  braid_value_id inputs[] = {moved, rnn_ints(graph, dims, 3)};
  return rnn_node(graph, "Reshape", inputs, 2, NULL);
}

#endif
