/* The networks that backends are asked to claim regions of: small ones, of what such backends look for. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/philox.h"
#include "base/try.h"
#include "device/conformance_samples.h"

typedef struct builder {
  braid_sample_graph *out;
  braid_node_id node;  /* the one added last */
  braid_status status; /* of the first call that failed */
  uint32_t tensors;
} builder;

typedef struct shape {
  int rank;
  int64_t dims[4];
} shape;
#define MATRIX(rows, columns) ((shape){2, {rows, columns}})
#define IMAGE(n, c, h, w) ((shape){4, {n, c, h, w}})
#define LIST(count) ((shape){1, {count}})

static braid_value_id input(builder *b, shape s) {
  braid_desc desc;
  braid_value_id id = -1;
  if (b->status == BRAID_OK) b->status = braid_desc_init(&desc, BRAID_F32, s.rank, s.dims);
  if (b->status == BRAID_OK) b->status = braid_graph_add_input(b->out->graph, NULL, &desc, &id);
  return id;
}

static braid_status fill_tensor(const builder *b, braid_tensor *tensor, float least, float most) {
  for (int64_t i = 0; i < braid_desc_count(braid_tensor_desc(tensor)); i++) {
    double unit = braid_random_u32(b->out->draw.seed, b->tensors, (uint32_t)i, 7) * 0x1p-32;
    braid_tensor_set_f64(tensor, i, least + unit * (most - least));
  }
  return BRAID_OK;
}

static braid_value_id tensor(builder *b, braid_value_kind kind, shape s, float least, float most) {
  braid_desc desc;
  braid_tensor *made = NULL;
  braid_value_id id = -1;
  b->tensors++;
  if (b->status == BRAID_OK) b->status = braid_desc_init(&desc, BRAID_F32, s.rank, s.dims);
  if (b->status == BRAID_OK) b->status = braid_tensor_create(NULL, &desc, &made);
  if (b->status == BRAID_OK) b->status = fill_tensor(b, made, least, most);
  if (b->status == BRAID_OK) b->status = braid_graph_add_tensor(b->out->graph, NULL, kind, made, &id);
  braid_tensor_release(made);
  return id;
}

static braid_value_id weights(builder *b, shape s) {
  return tensor(b, BRAID_VALUE_CONSTANT, s, -1, 1);
}

static braid_value_id number(builder *b, float value) {
  return tensor(b, BRAID_VALUE_CONSTANT, (shape){0}, value, value);
}

static braid_value_id node(builder *b, const char *op, size_t count, ...) {
  braid_value_id inputs[8], out = 0;
  va_list arguments;
  va_start(arguments, count);
  for (size_t i = 0; i < count; i++) inputs[i] = va_arg(arguments, braid_value_id);
  va_end(arguments);
  if (b->status == BRAID_OK)
    b->status = braid_graph_add_node(b->out->graph, op, NULL, inputs, count, &out, 1, &b->node);
  return out;
}

static void set_ints(builder *b, const char *name, int64_t x, int64_t y) {
  bool pads = strcmp(name, "pads") == 0;
  if (b->status == BRAID_OK)
    b->status = braid_graph_set_ints(b->out->graph, b->node, name, (int64_t[]){x, y, x, y}, pads ? 4 : 2);
}

static void set_int(builder *b, const char *name, int64_t value) {
  if (b->status == BRAID_OK) b->status = braid_graph_set_int(b->out->graph, b->node, name, value);
}

static void output(builder *b, braid_value_id value) {
  if (b->status == BRAID_OK) b->status = braid_graph_add_output(b->out->graph, value);
}

/* --- the networks --------------------------------------------------------------------------------------------------
 * A result in the middle is read outside, and so is the last. */
static void build_sums(builder *b) {
  braid_value_id x = input(b, MATRIX(6, 8)), y = input(b, MATRIX(6, 5));
  braid_value_id middle = node(b, "Relu", 1, node(b, "MatMul", 2, x, weights(b, MATRIX(8, 5))));
  output(b, middle);
  output(b, node(b, "Relu", 1, node(b, "Add", 2, middle, y)));
}

static void build_layers(builder *b) {
  braid_value_id x = input(b, MATRIX(7, 9));
  for (int i = 0; i < 3; i++) {
    x = node(b, "MatMul", 2, x, weights(b, MATRIX(9, 9)));
    x = node(b, "Relu", 1, node(b, "Add", 2, x, weights(b, MATRIX(7, 9))));
  }
  output(b, x);
}

static void build_classes(builder *b, braid_value_id x, int64_t from, int64_t to) {
  x = node(b, "Gemm", 3, x, weights(b, MATRIX(to, from)), weights(b, LIST(to)));
  set_int(b, "transB", 1);
  output(b, node(b, "Softmax", 1, x));
}

static void build_perceptron(builder *b) {
  braid_value_id x = input(b, MATRIX(5, 12));
  x = node(b, "Add", 2, node(b, "MatMul", 2, x, weights(b, MATRIX(12, 10))), weights(b, LIST(10)));
  build_classes(b, node(b, "Relu", 1, x), 10, 3);
}

static braid_value_id convolve(builder *b, braid_value_id x, int64_t from, int64_t to, int64_t side) {
  x = node(b, "Conv", 3, x, weights(b, IMAGE(to, from, side, side)), weights(b, LIST(to)));
  set_ints(b, "pads", side / 2, side / 2);
  return x;
}

static braid_value_id normalize(builder *b, braid_value_id x, int64_t channels) {
  return node(b, "BatchNormalization", 5, x, weights(b, LIST(channels)), weights(b, LIST(channels)),
              weights(b, LIST(channels)), tensor(b, BRAID_VALUE_CONSTANT, LIST(channels), 0.5f, 2));
}

static void build_residual(builder *b) {
  braid_value_id x = input(b, IMAGE(2, 4, 6, 5));
  braid_value_id y = node(b, "Relu", 1, normalize(b, convolve(b, x, 4, 4, 3), 4));
  output(b, node(b, "Relu", 1, node(b, "Add", 2, normalize(b, convolve(b, y, 4, 4, 3), 4), x)));
}

static void build_classifier(builder *b) {
  braid_value_id x = node(b, "Relu", 1, convolve(b, input(b, IMAGE(2, 3, 10, 8)), 3, 6, 3));
  x = node(b, "MaxPool", 1, x);
  set_ints(b, "kernel_shape", 2, 2);
  set_ints(b, "strides", 2, 2);
  x = node(b, "Relu", 1, convolve(b, x, 6, 5, 1));
  x = node(b, "Flatten", 1, node(b, "GlobalAveragePool", 1, x));
  build_classes(b, x, 5, 4);
}

static void build_separable(builder *b) {
  braid_value_id x = input(b, IMAGE(1, 6, 7, 7));
  braid_value_id y = node(b, "Conv", 2, x, weights(b, IMAGE(6, 1, 3, 3)));
  set_int(b, "group", 6);
  set_ints(b, "pads", 1, 1);
  y = convolve(b, node(b, "Clip", 3, y, number(b, 0), number(b, 6)), 6, 6, 1);
  output(b, node(b, "Add", 2, x, y));
}

static void build_attention(builder *b) {
  braid_value_id q = input(b, MATRIX(6, 4)), k = input(b, MATRIX(9, 4)), v = input(b, MATRIX(9, 5));
  braid_value_id scores = node(b, "MatMul", 2, q, node(b, "Transpose", 1, k));
  scores = node(b, "Softmax", 1, node(b, "Mul", 2, scores, number(b, 0.5f)));
  output(b, node(b, "MatMul", 2, scores, v));
  output(b, scores);
}

static void build_gated(builder *b) {
  braid_value_id x = input(b, MATRIX(5, 8));
  braid_value_id y = node(b, "LayerNormalization", 3, x, weights(b, LIST(8)), weights(b, LIST(8)));
  y = node(b, "Mul", 2, y, node(b, "Sigmoid", 1, y));
  output(b, node(b, "Add", 2, node(b, "Gelu", 1, y), x));
}

/* Two chains, of which each has a node that the other could wait for. */
static void build_crossing(builder *b) {
  braid_value_id x = input(b, MATRIX(4, 7)), y = input(b, MATRIX(4, 7));
  output(b, node(b, "Relu", 1, node(b, "Add", 2, x, y)));
  output(b, node(b, "Add", 2, node(b, "Relu", 1, y), x));
}

/* Who claims all but Sigmoid claims what is not convex. */
static void build_diamond(builder *b) {
  braid_value_id a = node(b, "Relu", 1, input(b, MATRIX(6, 6)));
  braid_value_id gate = node(b, "Sigmoid", 1, a), product = node(b, "MatMul", 2, a, weights(b, MATRIX(6, 6)));
  output(b, node(b, "Add", 2, gate, node(b, "Relu", 1, product)));
}

static void build_branches(builder *b) {
  braid_value_id x = node(b, "Relu", 1, convolve(b, input(b, IMAGE(2, 3, 5, 6)), 3, 4, 1));
  braid_value_id left = node(b, "Relu", 1, convolve(b, x, 4, 3, 3)), right = convolve(b, x, 4, 5, 1);
  x = node(b, "Concat", 2, left, right);
  set_int(b, "axis", 1);
  output(b, x);
  output(b, left);
}

/* As quantizers for hardware that shifts write it: int8, scales that are powers of two. */
static braid_value_id quantized(builder *b, braid_value_id x, float scale) {
  braid_value_id zero = -1;
  if (b->status == BRAID_OK) b->status = braid_graph_add_scalar(b->out->graph, BRAID_I8, 0, &zero);
  braid_value_id step = number(b, scale);
  return node(b, "DequantizeLinear", 3, node(b, "QuantizeLinear", 3, x, step, zero), step, zero);
}

/* Whole numbers of 1/32 from -1 to 1. */
static braid_value_id whole_weights(builder *b, shape s) {
  braid_value_id id = weights(b, s);
  braid_tensor *made = b->status == BRAID_OK ? b->out->graph->values[id].tensor : NULL;
  for (int64_t i = 0; made && i < braid_desc_count(&b->out->graph->values[id].desc); i++)
    braid_tensor_set_f64(made, i, nearbyint(braid_tensor_get_f64(made, i) * 32) / 32);
  return id;
}

static void build_quantized(builder *b) {
  braid_value_id x = quantized(b, input(b, IMAGE(2, 5, 7, 6)), 0.0625f);
  braid_value_id y = node(b, "Conv", 2, x, whole_weights(b, IMAGE(5, 5, 3, 3)));
  set_ints(b, "pads", 1, 1);
  y = quantized(b, node(b, "Relu", 1, y), 0.125f);
  output(b, y);
  y = quantized(b, node(b, "Add", 2, x, y), 0.125f);
  y = node(b, "MaxPool", 1, y);
  set_ints(b, "kernel_shape", 2, 2);
  set_ints(b, "strides", 2, 2);
  x = node(b, "Flatten", 1, quantized(b, y, 0.125f));
  output(b, quantized(b, node(b, "MatMul", 2, x, whole_weights(b, MATRIX(45, 4))), 0.5f));
}

static void build_training(builder *b) {
  braid_value_id x = input(b, MATRIX(6, 8)), wrt[2], gradients[2], loss;
  for (int i = 0; i < 2; i++) wrt[i] = tensor(b, BRAID_VALUE_PARAMETER, MATRIX(8, 8), -1, 1);
  x = node(b, "Relu", 1, node(b, "MatMul", 2, x, wrt[0]));
  x = node(b, "MatMul", 2, x, wrt[1]);
  loss = node(b, "ReduceMean", 1, node(b, "Mul", 2, x, x));
  set_int(b, "keepdims", 0);
  if (b->status == BRAID_OK) b->status = braid_graph_gradients(b->out->graph, loss, wrt, 2, gradients);
  b->out->draw.gradient = true;
  output(b, loss);
  for (int i = 0; i < 2; i++)
    output(b, b->status == BRAID_OK ? node(b, "Add", 2, wrt[i], gradients[i]) : -1); /* a step uphill */
}

static const struct {
  const char *name;
  void (*build)(builder *b);
} kNetworks[] = {{"sums", build_sums},
                 {"layers", build_layers},
                 {"a perceptron", build_perceptron},
                 {"a residual block", build_residual},
                 {"a classifier", build_classifier},
                 {"a separable block", build_separable},
                 {"attention", build_attention},
                 {"a gated unit", build_gated},
                 {"crossing chains", build_crossing},
                 {"a diamond", build_diamond},
                 {"branches", build_branches},
                 {"a quantized block", build_quantized},
                 {"training", build_training}};
enum { kNetworkCount = sizeof kNetworks / sizeof *kNetworks };

size_t braid_network_count(void) {
  return kNetworkCount;
}

const char *braid_network_name(size_t index) {
  return kNetworks[index].name;
}

braid_status braid_network_make(size_t index, uint64_t seed, braid_sample_graph *out) {
  *out = (braid_sample_graph){.draw = {seed, UINT32_MAX - (uint32_t)index, BRAID_F32, BRAID_SAMPLE_MIDDLE, false, 0}};
  builder b = {.out = out, .status = braid_graph_create(NULL, "network", &out->graph), .tensors = (uint32_t)index << 8};
  if (b.status == BRAID_OK) kNetworks[index].build(&b);
  if (b.status == BRAID_OK) b.status = braid_graph_infer(out->graph, NULL);
  for (size_t i = 0; b.status == BRAID_OK && i < out->graph->input_count; i++)
    out->leaves[out->leaf_count++] = (braid_leaf){out->graph->inputs[i], 0, -1};
  if (b.status == BRAID_OK) return BRAID_OK;
  braid_sample_free(out);
  return b.status;
}
