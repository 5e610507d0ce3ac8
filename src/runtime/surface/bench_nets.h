/* Networks for benchmarks, built node by node with the public functions: the shapes of ResNet-50 and MobileNet v2 with
 * weights that are made up, so that no file is needed. */
#ifndef BRAID_RUNTIME_BENCH_NETS_H
#define BRAID_RUNTIME_BENCH_NETS_H

#include <math.h>
#include <stdio.h>

#include "base/try.h"
#include "braid/graph.h"

typedef struct bench_net {
  braid_graph *graph;
  const braid_allocator *allocator;
  braid_value_id at; /* the value that the next node reads */
  int64_t channels;  /* of it */
  uint64_t seed;
} bench_net;

/* A constant of numbers in [-scale, scale] around `middle`. */
static inline braid_status bench_net_constant(bench_net *net, int rank, const int64_t *dims, double middle,
                                              double scale, braid_value_id *out) {
  braid_desc desc;
  braid_tensor *tensor;
  BRAID_TRY(braid_desc_init(&desc, BRAID_F32, rank, dims));
  BRAID_TRY(braid_tensor_create(net->allocator, &desc, &tensor));
  float *data = braid_tensor_data(tensor);
  for (int64_t i = 0; i < braid_desc_count(&desc); i++) {
    net->seed = net->seed * 6364136223846793005u + 1442695040888963407u;
    data[i] = (float)(middle + scale * ((double)(net->seed >> 40) / 8388608.0 - 1));
  }
  braid_status status = braid_graph_add_tensor(net->graph, NULL, BRAID_VALUE_CONSTANT, tensor, out);
  braid_tensor_release(tensor);
  return status;
}

static inline braid_status bench_net_node(bench_net *net, const char *op, const braid_value_id *inputs, size_t count,
                                          braid_node_id *node) {
  return braid_graph_add_node(net->graph, op, NULL, inputs, count, &net->at, 1, node);
}

/* A square convolution that keeps the image's size but for the stride, then batch normalization. */
static inline braid_status bench_net_conv(bench_net *net, int64_t outputs, int64_t side, int64_t stride,
                                          int64_t groups) {
  braid_value_id conv[2] = {net->at}, norm[5];
  braid_node_id node;
  int64_t fan = net->channels / groups * side * side, pad = side / 2;
  BRAID_TRY(bench_net_constant(net, 4, (int64_t[]){outputs, net->channels / groups, side, side}, 0,
                               sqrt(6.0 / (double)fan), &conv[1]));
  BRAID_TRY(bench_net_node(net, "Conv", conv, 2, &node));
  BRAID_TRY(braid_graph_set_ints(net->graph, node, "kernel_shape", (int64_t[]){side, side}, 2));
  BRAID_TRY(braid_graph_set_ints(net->graph, node, "strides", (int64_t[]){stride, stride}, 2));
  BRAID_TRY(braid_graph_set_ints(net->graph, node, "pads", (int64_t[]){pad, pad, pad, pad}, 4));
  BRAID_TRY(braid_graph_set_int(net->graph, node, "group", groups));
  norm[0] = net->at;
  for (int i = 1; i < 5; i++) /* scale, bias, mean, variance */
    BRAID_TRY(bench_net_constant(net, 1, &outputs, i == 1 || i == 4, 0.1, &norm[i]));
  net->channels = outputs;
  return bench_net_node(net, "BatchNormalization", norm, 5, NULL);
}

static inline braid_status bench_net_relu(bench_net *net) {
  return bench_net_node(net, "Relu", &net->at, 1, NULL);
}

static inline braid_status bench_net_relu6(bench_net *net) {
  braid_value_id clip[3] = {net->at};
  BRAID_TRY(bench_net_constant(net, 0, NULL, 0, 0, &clip[1]));
  BRAID_TRY(bench_net_constant(net, 0, NULL, 6, 0, &clip[2]));
  return bench_net_node(net, "Clip", clip, 3, NULL);
}

static inline braid_status bench_net_begin(bench_net *net, const braid_allocator *allocator, const char *name) {
  braid_desc desc;
  *net = (bench_net){.allocator = allocator, .channels = 3, .seed = 1};
  BRAID_TRY(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){1, 3, 224, 224}));
  BRAID_TRY(braid_graph_create(allocator, name, &net->graph));
  return braid_graph_add_input(net->graph, "image", &desc, &net->at);
}

/* The mean of every channel, then 1000 scores. */
static inline braid_status bench_net_end(bench_net *net) {
  braid_value_id product[3];
  braid_node_id node;
  BRAID_TRY(bench_net_node(net, "GlobalAveragePool", &net->at, 1, NULL));
  BRAID_TRY(bench_net_node(net, "Flatten", &net->at, 1, NULL));
  product[0] = net->at;
  BRAID_TRY(bench_net_constant(net, 2, (int64_t[]){1000, net->channels}, 0, 0.03, &product[1]));
  BRAID_TRY(bench_net_constant(net, 1, (int64_t[]){1000}, 0, 0.03, &product[2]));
  BRAID_TRY(bench_net_node(net, "Gemm", product, 3, &node));
  BRAID_TRY(braid_graph_set_int(net->graph, node, "transB", 1));
  return braid_graph_add_output(net->graph, net->at);
}

/* 1x1, 3x3, 1x1 beside a way that is straight, or a 1x1 convolution where the size changes. */
static inline braid_status bench_net_bottleneck(bench_net *net, int64_t width, int64_t stride) {
  bench_net straight = *net;
  BRAID_TRY(bench_net_conv(net, width, 1, 1, 1));
  BRAID_TRY(bench_net_relu(net));
  BRAID_TRY(bench_net_conv(net, width, 3, stride, 1));
  BRAID_TRY(bench_net_relu(net));
  BRAID_TRY(bench_net_conv(net, 4 * width, 1, 1, 1));
  if (straight.channels != net->channels) BRAID_TRY(bench_net_conv(&straight, 4 * width, 1, stride, 1));
  BRAID_TRY(bench_net_node(net, "Add", (braid_value_id[]){net->at, straight.at}, 2, NULL));
  return bench_net_relu(net);
}

static inline braid_status bench_net_build_resnet50(bench_net *net) {
  static const int kBlocks[] = {3, 4, 6, 3};
  braid_node_id pool;
  BRAID_TRY(bench_net_conv(net, 64, 7, 2, 1));
  BRAID_TRY(bench_net_relu(net));
  BRAID_TRY(bench_net_node(net, "MaxPool", &net->at, 1, &pool));
  BRAID_TRY(braid_graph_set_ints(net->graph, pool, "kernel_shape", (int64_t[]){3, 3}, 2));
  BRAID_TRY(braid_graph_set_ints(net->graph, pool, "strides", (int64_t[]){2, 2}, 2));
  BRAID_TRY(braid_graph_set_ints(net->graph, pool, "pads", (int64_t[]){1, 1, 1, 1}, 4));
  for (int stage = 0; stage < 4; stage++)
    for (int i = 0; i < kBlocks[stage]; i++)
      BRAID_TRY(bench_net_bottleneck(net, (int64_t)64 << stage, i == 0 && stage > 0 ? 2 : 1));
  return bench_net_end(net);
}

/* 1x1 to more channels, 3x3 of each channel, 1x1 to fewer; added to its input where the size stays. */
static inline braid_status bench_net_inverted(bench_net *net, int64_t expansion, int64_t outputs, int64_t stride) {
  bench_net straight = *net;
  int64_t inner = net->channels * expansion;
  if (expansion > 1) {
    BRAID_TRY(bench_net_conv(net, inner, 1, 1, 1));
    BRAID_TRY(bench_net_relu6(net));
  }
  BRAID_TRY(bench_net_conv(net, inner, 3, stride, inner));
  BRAID_TRY(bench_net_relu6(net));
  BRAID_TRY(bench_net_conv(net, outputs, 1, 1, 1));
  if (stride > 1 || straight.channels != outputs) return BRAID_OK;
  return bench_net_node(net, "Add", (braid_value_id[]){net->at, straight.at}, 2, NULL);
}

static inline braid_status bench_net_build_mobilenet2(bench_net *net) {
  static const int kBlocks[][4] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                   {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  BRAID_TRY(bench_net_conv(net, 32, 3, 2, 1));
  BRAID_TRY(bench_net_relu6(net));
  for (size_t b = 0; b < sizeof kBlocks / sizeof *kBlocks; b++)
    for (int i = 0; i < kBlocks[b][2]; i++)
      BRAID_TRY(bench_net_inverted(net, kBlocks[b][0], kBlocks[b][1], i == 0 ? kBlocks[b][3] : 1));
  BRAID_TRY(bench_net_conv(net, 1280, 1, 1, 1));
  BRAID_TRY(bench_net_relu6(net));
  return bench_net_end(net);
}

/* For pictures of 224 x 224, batch 1; *graph is the caller's, NULL after a failure. */
static inline braid_status bench_net_create(const braid_allocator *allocator, bool mobilenet, braid_graph **graph) {
  bench_net net;
  braid_status status = bench_net_begin(&net, allocator, mobilenet ? "mobilenet-v2" : "resnet-50");
  if (status == BRAID_OK) status = mobilenet ? bench_net_build_mobilenet2(&net) : bench_net_build_resnet50(&net);
  *graph = net.graph;
  if (status == BRAID_OK) return BRAID_OK;
  braid_graph_destroy(net.graph);
  *graph = NULL;
  return status;
}

/* A parameter "weight..." of numbers in [-scale, scale], its momentum, and at the end its update. */
typedef struct bench_parameter {
  braid_value_id weight, momentum;
} bench_parameter;

static inline braid_status bench_net_parameter(bench_net *net, int number, int rank, const int64_t *dims, double scale,
                                               bench_parameter *out) {
  char name[32];
  braid_desc desc;
  braid_tensor *tensor = NULL;
  BRAID_TRY(braid_desc_init(&desc, BRAID_F32, rank, dims));
  for (int state = 0; state < 2; state++) {
    BRAID_TRY(braid_tensor_create(net->allocator, &desc, &tensor));
    float *data = braid_tensor_data(tensor);
    for (int64_t i = 0; i < braid_desc_count(&desc); i++) {
      net->seed = net->seed * 6364136223846793005u + 1442695040888963407u;
      data[i] = state ? 0 : (float)(scale * ((double)(net->seed >> 40) / 8388608.0 - 1));
    }
    snprintf(name, sizeof name, "weight%d%s", number, state ? "/momentum" : "");
    braid_status status = braid_graph_add_tensor(net->graph, name, state ? BRAID_VALUE_STATE : BRAID_VALUE_PARAMETER,
                                                 tensor, state ? &out->momentum : &out->weight);
    braid_tensor_release(tensor);
    BRAID_TRY(status);
  }
  return BRAID_OK;
}

enum { kBenchVggLayers = 8 };

static inline braid_status bench_net_vgg_layers(bench_net *net, bench_parameter *own) {
  static const int64_t kFilters[] = {128, 128, 256, 256, 512, 512};
  braid_node_id node;
  for (int i = 0; i < 6; i++) {
    double scale = sqrt(6.0 / (double)(net->channels * 9));
    BRAID_TRY(bench_net_parameter(net, i, 4, (int64_t[]){kFilters[i], net->channels, 3, 3}, scale, &own[i]));
    BRAID_TRY(bench_net_node(net, "Conv", (braid_value_id[]){net->at, own[i].weight}, 2, &node));
    BRAID_TRY(braid_graph_set_ints(net->graph, node, "pads", (int64_t[]){1, 1, 1, 1}, 4));
    BRAID_TRY(bench_net_relu(net));
    net->channels = kFilters[i];
    if (i % 2 == 0) continue;
    BRAID_TRY(bench_net_node(net, "MaxPool", &net->at, 1, &node));
    BRAID_TRY(braid_graph_set_ints(net->graph, node, "kernel_shape", (int64_t[]){2, 2}, 2));
    BRAID_TRY(braid_graph_set_ints(net->graph, node, "strides", (int64_t[]){2, 2}, 2));
  }
  BRAID_TRY(bench_net_node(net, "Flatten", &net->at, 1, NULL));
  for (int i = 6; i < kBenchVggLayers; i++) {
    int64_t from = i == 6 ? 8192 : 1024, to = i == 6 ? 1024 : 10;
    BRAID_TRY(bench_net_parameter(net, i, 2, (int64_t[]){from, to}, sqrt(6.0 / (double)from), &own[i]));
    BRAID_TRY(bench_net_node(net, "MatMul", (braid_value_id[]){net->at, own[i].weight}, 2, NULL));
    if (i == 6) BRAID_TRY(bench_net_relu(net));
  }
  return BRAID_OK;
}

/* A step of training of the 8-bit literature's VGG-like network (Table 2 of DarkFPGA, in float32) on 128 pictures of
 * 32 x 32, with momentum; its output is the mean of the squared scores. The graph is the caller's, also after a
 * failure. */
static inline braid_status bench_net_vgg(bench_net *net, const braid_allocator *allocator) {
  bench_parameter own[kBenchVggLayers];
  braid_value_id wrt[kBenchVggLayers], grads[kBenchVggLayers], next[2], rate, loss;
  braid_node_id node;
  braid_desc desc;
  *net = (bench_net){.allocator = allocator, .channels = 3, .seed = 1};
  BRAID_TRY(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){128, 3, 32, 32}));
  BRAID_TRY(braid_graph_create(allocator, "vgg-like", &net->graph));
  BRAID_TRY(braid_graph_add_input(net->graph, "image", &desc, &net->at));
  BRAID_TRY(bench_net_vgg_layers(net, own));
  BRAID_TRY(bench_net_node(net, "Mul", (braid_value_id[]){net->at, net->at}, 2, NULL));
  BRAID_TRY(bench_net_node(net, "ReduceMean", &net->at, 1, NULL));
  loss = net->at;
  BRAID_TRY(braid_graph_add_output(net->graph, loss));
  for (int i = 0; i < kBenchVggLayers; i++) wrt[i] = own[i].weight;
  BRAID_TRY(braid_graph_gradients(net->graph, loss, wrt, kBenchVggLayers, grads));
  BRAID_TRY(bench_net_constant(net, 0, NULL, 0.001, 0, &rate));
  for (int i = 0; i < kBenchVggLayers; i++) {
    next[0] = next[1] = 0;
    BRAID_TRY(braid_graph_add_node(net->graph, "SgdUpdate", NULL,
                                   (braid_value_id[]){own[i].weight, grads[i], rate, own[i].momentum}, 4, next, 2,
                                   &node));
    BRAID_TRY(braid_graph_set_float(net->graph, node, "momentum", 0.9f));
    BRAID_TRY(braid_graph_update_state(net->graph, own[i].weight, next[0]));
    BRAID_TRY(braid_graph_update_state(net->graph, own[i].momentum, next[1]));
  }
  return BRAID_OK;
}

#endif
