/* Random Q/DQ networks with scales that are powers of two, for tests of the overlay: everything that its lowering
 * knows, in forms that exporters write, with many results on the way. */
#ifndef BRAID_TESTS_OVERLAY_NETWORKS_H
#define BRAID_TESTS_OVERLAY_NETWORKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "graph/graph.h"

/* A dequantized map. */
typedef struct net_map {
  braid_value_id value;
  int channels, rows, columns, exponent;
} net_map;

typedef struct net_builder {
  braid_graph *graph;
  uint64_t state;
  int64_t batch;
  int names;
  bool odd_means; /* some are of numbers whose reciprocal float32 has not */
} net_builder;

static inline void net_ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

/* 0 to count - 1 */
static inline int net_draw(net_builder *b, int count) {
  b->state = b->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int)((b->state >> 33) % (uint64_t)count);
}

static inline const char *net_name(net_builder *b, const char *stem, char name[40]) {
  snprintf(name, 40, "%s%d", stem, b->names++);
  return name;
}

static inline braid_value_id net_node(net_builder *b, const char *op, const braid_value_id *inputs, size_t count,
                                      braid_node_id *id) {
  braid_value_id out = -1;
  char name[40];
  net_ok(braid_graph_add_node(b->graph, op, net_name(b, op, name), inputs, count, &out, 1, id));
  return out;
}

static inline braid_value_id net_scalar(net_builder *b, braid_dtype dtype, double number) {
  braid_value_id id;
  net_ok(braid_graph_add_scalar(b->graph, dtype, number, &id));
  return id;
}

static inline braid_value_id net_tensor(net_builder *b, braid_dtype dtype, int rank, const int64_t *dims,
                                        const double *numbers) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id id;
  char name[40];
  net_ok(braid_desc_init(&desc, dtype, rank, dims));
  net_ok(braid_tensor_create(NULL, &desc, &tensor));
  for (int64_t i = 0; i < braid_desc_count(&desc); i++) braid_tensor_set_f64(tensor, i, numbers[i]);
  net_ok(braid_graph_add_tensor(b->graph, net_name(b, "c", name), BRAID_VALUE_CONSTANT, tensor, &id));
  braid_tensor_release(tensor);
  return id;
}

static inline braid_value_id net_steps(net_builder *b, const char *op, braid_value_id x, int exponent,
                                       braid_dtype dtype) {
  braid_value_id inputs[3] = {x, net_scalar(b, BRAID_F32, ldexp(1, exponent)), net_scalar(b, dtype, 0)};
  return net_node(b, op, inputs, 3, NULL);
}

/* Quantized and dequantized again. */
static inline net_map net_quantize(net_builder *b, braid_value_id real, net_map form, int exponent) {
  braid_value_id bytes = net_steps(b, "QuantizeLinear", real, exponent, BRAID_I8);
  form.value = net_steps(b, "DequantizeLinear", bytes, exponent, BRAID_I8);
  form.exponent = exponent;
  return form;
}

/* Random bytes, or int32 biases up to `most`, behind a DequantizeLinear. */
static inline braid_value_id net_weights(net_builder *b, int rank, const int64_t *dims, int most, int exponent,
                                         braid_dtype dtype) {
  static double numbers[1 << 17];
  int64_t count = 1;
  for (int i = 0; i < rank; i++) count *= dims[i];
  assert_true(count <= 1 << 17);
  for (int64_t i = 0; i < count; i++) numbers[i] = net_draw(b, 2 * most + 1) - most;
  return net_steps(b, "DequantizeLinear", net_tensor(b, dtype, rank, dims, numbers), exponent, dtype);
}

/* A Relu or Clip, or nothing. */
static inline braid_value_id net_activation(net_builder *b, braid_value_id x, int exponent) {
  int kind = net_draw(b, 4);
  if (kind == 0) return net_node(b, "Relu", &x, 1, NULL);
  if (kind > 1) return x;
  braid_value_id inputs[3] = {x, net_scalar(b, BRAID_F32, ldexp(-net_draw(b, 150), exponent)),
                              net_scalar(b, BRAID_F32, ldexp(net_draw(b, 130) + 0.4, exponent))};
  if (net_draw(b, 3) == 0) inputs[1] = -1;
  return net_node(b, "Clip", inputs, 3, NULL);
}

static inline int net_log2(double number) {
  return (int)lround(log2(number));
}

static inline net_map net_conv(net_builder *b, net_map x, int outputs, int groups, bool quantized) {
  int rows = net_draw(b, 3) + 1, columns = net_draw(b, 3) + 1, weight_exponent = -7 - net_draw(b, 3);
  rows = rows > x.rows ? 1 : rows;
  columns = columns > x.columns ? 1 : columns;
  int64_t dims[4] = {outputs, x.channels / groups, rows, columns}, pads[4], strides[2], dilations[2] = {1, 1};
  for (int i = 0; i < 2; i++) {
    int kernel = i ? columns : rows, side = i ? x.columns : x.rows;
    pads[i] = quantized ? net_draw(b, kernel) : (kernel - 1) / 2;
    pads[2 + i] = quantized ? net_draw(b, kernel) : kernel - 1 - pads[i];
    strides[i] = quantized && side > 6 ? 1 + net_draw(b, 2) : 1;
    if (quantized && side > 6 && net_draw(b, 4) == 0) dilations[i] = 2;
  }
  int sums = x.exponent + weight_exponent;
  braid_value_id inputs[3] = {x.value, net_weights(b, 4, dims, 127, weight_exponent, BRAID_I8),
                              net_draw(b, 3) ? net_weights(b, 1, dims, 4000, sums, BRAID_I32) : -1};
  braid_node_id id;
  net_map y = {net_node(b, "Conv", inputs, 3, &id), outputs, 0, 0, sums};
  net_ok(braid_graph_set_ints(b->graph, id, "pads", pads, 4));
  net_ok(braid_graph_set_ints(b->graph, id, "strides", strides, 2));
  net_ok(braid_graph_set_ints(b->graph, id, "dilations", dilations, 2));
  net_ok(braid_graph_set_int(b->graph, id, "group", groups));
  y.rows = (int)((x.rows + pads[0] + pads[2] - dilations[0] * (rows - 1) - 1) / strides[0] + 1);
  y.columns = (int)((x.columns + pads[1] + pads[3] - dilations[1] * (columns - 1) - 1) / strides[1] + 1);
  if (!quantized) return y;
  int exponent = sums + net_log2(sqrt((double)(dims[1] * rows * columns)) * 60) + net_draw(b, 3) - 1;
  return net_quantize(b, net_activation(b, y.value, exponent), y, exponent);
}

static inline net_map net_residual(net_builder *b, net_map x) {
  bool rounds = net_draw(b, 3) != 0;
  net_map y = net_conv(b, x, x.channels, 1, false);
  int spread = y.exponent + net_log2(sqrt((double)x.channels * 4) * 60);
  if (rounds) y = net_quantize(b, y.value, y, spread + net_draw(b, 3) - 1);
  if (rounds && net_draw(b, 3) == 0) net_ok(braid_graph_add_output(b->graph, y.value)); /* the sum stays one */
  braid_value_id inputs[2] = {y.value, x.value};
  if (net_draw(b, 2)) inputs[0] = x.value, inputs[1] = y.value;
  int exponent = (spread > x.exponent ? spread : x.exponent) + net_draw(b, 2);
  braid_value_id sum = net_activation(b, net_node(b, "Add", inputs, 2, NULL), exponent);
  return net_quantize(b, sum, x, exponent);
}

/* Of rows and columns, or of all. */
static inline net_map net_pool(net_builder *b, net_map x, bool largest, bool whole) {
  braid_node_id id;
  net_map y = x;
  if (whole) {
    y.value = net_node(b, largest ? "GlobalMaxPool" : "GlobalAveragePool", &x.value, 1, &id);
    b->odd_means |= !largest;
    y.rows = y.columns = 1;
    return net_quantize(b, y.value, y, x.exponent - (largest ? 0 : net_draw(b, 3)));
  }
  int64_t kernel[2] = {2 + net_draw(b, 2), 2 + net_draw(b, 2)}, strides[2] = {1 + net_draw(b, 2), 1 + net_draw(b, 2)};
  int64_t pads[4] = {net_draw(b, 2), net_draw(b, 2), net_draw(b, 2), net_draw(b, 2)}, up = net_draw(b, 2);
  if (up) pads[2] = pads[3] = 0; /* runtimes differ in windows that begin in padding */
  y.value = net_node(b, largest ? "MaxPool" : "AveragePool", &x.value, 1, &id);
  net_ok(braid_graph_set_ints(b->graph, id, "kernel_shape", kernel, 2));
  net_ok(braid_graph_set_ints(b->graph, id, "strides", strides, 2));
  net_ok(braid_graph_set_ints(b->graph, id, "pads", pads, 4));
  net_ok(braid_graph_set_int(b->graph, id, "ceil_mode", up));
  if (!largest) net_ok(braid_graph_set_int(b->graph, id, "count_include_pad", net_draw(b, 2)));
  b->odd_means |= !largest;
  const braid_desc *desc = &b->graph->values[y.value].desc;
  y.rows = (int)desc->dims[2];
  y.columns = (int)desc->dims[3];
  return net_quantize(b, y.value, y, x.exponent + (net_draw(b, 3) == 0 ? 1 - net_draw(b, 3) : 0));
}

static inline net_map net_concat(net_builder *b, net_map x) {
  net_map parts[3] = {x, net_conv(b, x, 16 * (1 + net_draw(b, 2)), 1, false),
                      net_conv(b, x, 3 + net_draw(b, 20), 1, false)};
  braid_value_id values[3];
  int count = 2 + net_draw(b, 2), top = x.exponent;
  net_map y = x;
  y.channels = 0;
  for (int i = 0; i < count; i++) {
    int exponent = parts[i].exponent + net_log2(sqrt((double)x.channels * 4) * 60);
    if (net_draw(b, 2)) exponent = x.exponent;
    if (i) parts[i] = net_quantize(b, net_activation(b, parts[i].value, exponent), parts[i], exponent);
    values[i] = parts[i].value;
    y.channels += parts[i].channels;
    top = parts[i].exponent > top ? parts[i].exponent : top;
  }
  braid_node_id id;
  y.value = net_node(b, "Concat", values, (size_t)count, &id);
  net_ok(braid_graph_set_int(b->graph, id, "axis", 1));
  return net_quantize(b, y.value, y, top);
}

static inline net_map net_product(net_builder *b, net_map x, int outputs) {
  int count = x.channels * x.rows * x.columns, weight_exponent = -8, sums = x.exponent + weight_exponent;
  bool gemm = net_draw(b, 2), turned = !gemm || net_draw(b, 2);
  int64_t dims[2] = {turned ? count : outputs, turned ? outputs : count}, channels = outputs;
  braid_node_id id;
  braid_value_id flat = net_node(b, "Flatten", &x.value, 1, NULL);
  braid_value_id inputs[3] = {flat, net_weights(b, 2, dims, 127, weight_exponent, BRAID_I8),
                              net_weights(b, 1, &channels, 5000, sums, BRAID_I32)};
  int exponent = sums + net_log2(sqrt((double)count) * 60);
  net_map y = {-1, outputs, 1, 1, 0};
  y.value = net_node(b, gemm ? "Gemm" : "MatMul", inputs, gemm ? 3 : 2, &id);
  if (gemm) net_ok(braid_graph_set_int(b->graph, id, "transB", !turned));
  if (!gemm) y.value = net_node(b, "Add", (braid_value_id[]){y.value, inputs[2]}, 2, NULL);
  return net_quantize(b, net_activation(b, y.value, exponent), y, exponent);
}

/* Slice and Pad, as residual networks without weights in their shortcuts have it; or one of them. */
static inline net_map net_move(net_builder *b, net_map x) {
  int start[3] = {net_draw(b, 2), net_draw(b, 3), 0}, step[3] = {1 + net_draw(b, 2), 1 + net_draw(b, 2), 2};
  int sides[3] = {x.channels, x.rows, x.columns}, kind = net_draw(b, 3);
  double starts[3], ends[3], steps[3], pads[8] = {0};
  braid_value_id inputs[5] = {x.value};
  const int64_t three = 3, eight = 8;
  for (int i = 0; i < 3 && kind; i++) {
    if (i == 0 && net_draw(b, 2)) start[0] = 0, step[0] = 1;
    if (start[i] >= sides[i]) start[i] = 0;
    starts[i] = net_draw(b, 2) ? start[i] : start[i] - sides[i];
    ends[i] = 9999;
    steps[i] = step[i];
    sides[i] = (sides[i] - start[i] + step[i] - 1) / step[i];
  }
  if (kind) {
    inputs[1] = net_tensor(b, BRAID_I64, 1, &three, starts);
    inputs[2] = net_tensor(b, BRAID_I64, 1, &three, ends);
    inputs[3] = net_tensor(b, BRAID_I64, 1, &three, (double[]){1, -2, 3});
    inputs[4] = net_tensor(b, BRAID_I64, 1, &three, steps);
    inputs[0] = net_node(b, "Slice", inputs, 5, NULL);
  }
  if (kind != 1) {
    for (int i = 0; i < 3; i++) {
      bool cut = kind && i > 0 && start[i] > 0; /* what was cut off must not come back as zeros */
      pads[1 + i] = cut ? 0 : net_draw(b, 4);
      pads[5 + i] = kind && i > 0 ? 0 : net_draw(b, 4);
      sides[i] += (int)(pads[1 + i] + pads[5 + i]);
    }
    inputs[1] = net_tensor(b, BRAID_I64, 1, &eight, pads);
    inputs[0] = net_node(b, "Pad", inputs, 2, NULL);
  }
  net_map y = {inputs[0], sides[0], sides[1], sides[2], 0};
  int exponent = x.exponent + net_draw(b, 4) - 1;
  return net_quantize(b, net_activation(b, y.value, exponent), y, exponent);
}

static inline net_map net_step(net_builder *b, net_map x) {
  bool small = x.rows < 4 || x.columns < 4;
  switch (net_draw(b, 11)) {
  case 0:
  case 1:
    return net_conv(b, x, 1 + net_draw(b, 40), 1, true);
  case 2:
    return net_conv(b, x, x.channels, x.channels, true);
  case 3: /* groups of planes, or of less */
    return net_conv(b, net_conv(b, x, net_draw(b, 2) ? 32 : 12, 1, true), net_draw(b, 2) ? 64 : 32, 2, true);
  case 4:
    return net_residual(b, x);
  case 5:
    return small ? x : net_pool(b, x, true, false);
  case 6:
    return small ? x : net_pool(b, x, false, false);
  case 7:
    return x.channels > 60 ? x : net_concat(b, x);
  case 8: /* an activation of its own, or another scale */
    return net_quantize(b, net_activation(b, x.value, x.exponent), x, x.exponent + net_draw(b, 3) - 1);
  case 9:
    return net_move(b, x);
  default: { /* one more reader */
    net_map y = net_conv(b, x, 8, 1, true);
    net_ok(braid_graph_add_output(b->graph, y.value));
    return x;
  }
  }
}

/* A graph whose input "x" is float32[batch, 3, rows, columns]; not resolved. *odd_means: see net_builder. */
static inline braid_graph *net_random(uint64_t seed, int64_t batch, bool *odd_means) {
  net_builder b = {.state = seed * 77 + 5, .batch = batch};
  for (int i = 0; i < 5; i++) net_draw(&b, 2);
  braid_desc desc;
  net_map x = {-1, 3, 5 + net_draw(&b, 8), 5 + net_draw(&b, 8), 0};
  net_ok(braid_graph_create(NULL, "overlay", &b.graph));
  net_ok(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){batch, 3, x.rows, x.columns}));
  net_ok(braid_graph_add_input(b.graph, "x", &desc, &x.value));
  x = net_quantize(&b, x.value, x, -5);
  for (int i = 2 + net_draw(&b, 5); i > 0; i--) {
    x = net_step(&b, x);
    if (net_draw(&b, 4) == 0) net_ok(braid_graph_add_output(b.graph, x.value));
  }
  if (net_draw(&b, 2)) x = net_pool(&b, x, net_draw(&b, 3) == 0, true);
  if (x.channels * x.rows * x.columns < 4000) x = net_product(&b, x, 10);
  net_ok(braid_graph_add_output(b.graph, x.value));
  *odd_means = b.odd_means;
  return b.graph;
}

#endif
