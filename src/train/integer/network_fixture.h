/* A network with every kind of layer that trains in integers, and options for it. For tests only. */
#ifndef BRAID_TRAIN_INTEGER_NETWORK_FIXTURE_H
#define BRAID_TRAIN_INTEGER_NETWORK_FIXTURE_H

#include "train/integer/network.h"
#include "train/trainer_fixture.h"

static inline braid_value_id window(braid_graph *graph, const char *op, braid_value_id x, braid_value_id w,
                                    int64_t size, int64_t stride, int64_t pad) {
  braid_node_id id;
  braid_value_id y = node(graph, op, (braid_value_id[]){x, w}, w < 0 ? 1 : 2, &id);
  ok(braid_graph_set_ints(graph, id, "kernel_shape", (int64_t[]){size, size}, 2));
  ok(braid_graph_set_ints(graph, id, "strides", (int64_t[]){stride, stride}, 2));
  if (pad) ok(braid_graph_set_ints(graph, id, "pads", (int64_t[]){pad, pad, pad, pad}, 4));
  return y;
}

static inline braid_value_id normalized(braid_graph *graph, braid_value_id x, int64_t channels, int index) {
  char names[4][16];
  for (int i = 0; i < 4; i++) snprintf(names[i], sizeof names[i], "norm%d.%d", index, i);
  braid_value_id inputs[5] = {
      x, constant(graph, names[0], 1, &channels, 0, 1), constant(graph, names[1], 1, &channels, 0, 0),
      constant(graph, names[2], 1, &channels, 0, 0), constant(graph, names[3], 1, &channels, 0, 1)};
  return node(graph, "BatchNormalization", inputs, 5, NULL);
}

/* Every kind of layer: convolutions with and without normalization, a residual, pools that overlap and not, both kinds
 * of products. `norms` false: without normalization, whose saved form rounds once less. */
static inline braid_graph *integer_network(bool norms) {
  braid_graph *graph;
  braid_value_id x, y;
  braid_node_id id;
  ok(braid_graph_create(NULL, "integers", &graph));
  ok(braid_graph_add_input(graph, "image", &(braid_desc){.dtype = BRAID_F32, .rank = 4, .dims = {-1, 3, 32, 32}}, &x));
  x = window(graph, "Conv", x, constant(graph, "first", 4, (int64_t[]){8, 3, 3, 3}, 0.2f, 0), 3, 2, 1);
  if (norms) x = normalized(graph, x, 8, 1);
  x = node(graph, "Relu", &x, 1, NULL);
  x = window(graph, "MaxPool", x, -1, 3, 2, 0);
  y = window(graph, "Conv", x, constant(graph, "second", 4, (int64_t[]){8, 8, 3, 3}, 0.2f, 0), 3, 1, 1);
  if (norms) y = normalized(graph, y, 8, 2);
  x = node(graph, "Add", (braid_value_id[]){x, y}, 2, NULL);
  x = node(graph, "Relu", &x, 1, NULL);
  x = window(graph, "AveragePool", x, -1, 2, 2, 0);
  x = node(graph, "Flatten", &x, 1, NULL);
  x = node(graph, "MatMul", (braid_value_id[]){x, constant(graph, "hidden", 2, (int64_t[]){72, 20}, 0.1f, 0)}, 2, NULL);
  x = node(graph, "Relu", &x, 1, NULL);
  x = node(graph, "Gemm", (braid_value_id[]){x, constant(graph, "last", 2, (int64_t[]){kClasses, 20}, 0.1f, 0)}, 2,
           &id);
  ok(braid_graph_set_int(graph, id, "transB", 1));
  x = node(graph, "Softmax", &x, 1, NULL);
  ok(braid_graph_add_output(graph, x));
  return graph;
}

static inline braid_train_options integer_options(const char *name) {
  braid_train_options options = options_of(name);
  options.epochs = 1;
  options.precision = BRAID_INT8;
  options.learning_rate = 0.125;
  options.draw_weights = true;
  return options;
}

#endif
