/* ResNet-50, VGG16 and MobileNet v1 of 224 x 224 with any weights, for benches: times don't depend on them. */
#ifndef BRAID_OVERLAY_BENCH_NETWORKS_H
#define BRAID_OVERLAY_BENCH_NETWORKS_H

#include <stdlib.h>

#include "overlay/network.h"

enum { kBenchMaps = 200 };

typedef struct bench_network {
  braid_overlay_network network;
  braid_overlay_map maps[kBenchMaps];
  braid_overlay_layer layers[kBenchMaps];
  braid_overlay_port input, output;
  int8_t *weights; /* any: all layers read the same */
  int32_t *biases;
} bench_network;

static inline int32_t add_map(bench_network *n, int32_t channels, int32_t side) {
  int32_t m = (int32_t)n->network.map_count++;
  n->maps[m] = (braid_overlay_map){.channels = channels, .rows = side, .columns = side, .exponent = -4, .name = "map"};
  return m;
}

/* other -1: none. Padding keeps the size, divided by the stride. */
static inline int32_t add_layer(bench_network *n, braid_overlay_kind kind, int32_t x, int32_t channels, int32_t kernel,
                                int32_t stride, int32_t other) {
  int32_t side = n->maps[x].rows, pad = kind == BRAID_OVERLAY_MEAN ? 0 : (kernel - 1) / 2;
  int32_t result = kind == BRAID_OVERLAY_MEAN || kernel == side ? 1 : (side + stride - 1) / stride;
  int32_t y = add_map(n, channels, result);
  braid_overlay_layer *layer = &n->layers[n->network.layer_count++];
  if (result == 1) pad = 0;
  *layer =
      (braid_overlay_layer){.kind = kind, .name = "layer", .x = x, .other = other, .y = y, .low = -128, .high = 127};
  layer->in_channels = n->maps[x].channels;
  layer->out_channels = channels;
  layer->window = (braid_overlay_window){kernel, kernel, stride, stride, 1, 1, pad, pad, pad, pad};
  layer->shift = kind <= BRAID_OVERLAY_DEPTHWISE ? 9 : 0;
  if (kind <= BRAID_OVERLAY_DEPTHWISE) {
    layer->weights = n->weights;
    layer->biases = n->biases;
  }
  return y;
}

static inline void resnet50(bench_network *n, int32_t at) {
  static const int32_t kBlocks[4] = {3, 4, 6, 3};
  at = add_layer(n, BRAID_OVERLAY_CONV, at, 64, 7, 2, -1);
  at = add_layer(n, BRAID_OVERLAY_MAX, at, 64, 3, 2, -1);
  for (int32_t stage = 0; stage < 4; stage++)
    for (int32_t block = 0; block < kBlocks[stage]; block++) {
      int32_t width = 64 << stage, stride = stage && !block ? 2 : 1, other = at;
      int32_t y = add_layer(n, BRAID_OVERLAY_CONV, at, width, 1, 1, -1);
      y = add_layer(n, BRAID_OVERLAY_CONV, y, width, 3, stride, -1);
      if (!block) other = add_layer(n, BRAID_OVERLAY_CONV, at, 4 * width, 1, stride, -1);
      at = add_layer(n, BRAID_OVERLAY_CONV, y, 4 * width, 1, 1, other);
    }
  at = add_layer(n, BRAID_OVERLAY_MEAN, at, 2048, 7, 1, -1);
  add_layer(n, BRAID_OVERLAY_CONV, at, 1000, 1, 1, -1);
}

static inline void vgg16(bench_network *n, int32_t at) {
  static const int32_t kLayers[5] = {2, 2, 3, 3, 3}, kWidths[5] = {64, 128, 256, 512, 512};
  for (int stage = 0; stage < 5; stage++) {
    for (int32_t i = 0; i < kLayers[stage]; i++) at = add_layer(n, BRAID_OVERLAY_CONV, at, kWidths[stage], 3, 1, -1);
    at = add_layer(n, BRAID_OVERLAY_MAX, at, kWidths[stage], 2, 2, -1);
  }
  at = add_layer(n, BRAID_OVERLAY_CONV, at, 4096, 7, 1, -1);
  at = add_layer(n, BRAID_OVERLAY_CONV, at, 4096, 1, 1, -1);
  add_layer(n, BRAID_OVERLAY_CONV, at, 1000, 1, 1, -1);
}

static inline void mobilenet(bench_network *n, int32_t at) {
  static const int32_t kWidths[13] = {64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024};
  static const int32_t kStrides[13] = {1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1};
  at = add_layer(n, BRAID_OVERLAY_CONV, at, 32, 3, 2, -1);
  for (int i = 0; i < 13; i++) {
    at = add_layer(n, BRAID_OVERLAY_DEPTHWISE, at, n->maps[at].channels, 3, kStrides[i], -1);
    at = add_layer(n, BRAID_OVERLAY_CONV, at, kWidths[i], 1, 1, -1);
  }
  at = add_layer(n, BRAID_OVERLAY_MEAN, at, 1024, 7, 1, -1);
  add_layer(n, BRAID_OVERLAY_CONV, at, 1000, 1, 1, -1);
}

static const struct bench_model {
  const char *name;
  void (*build)(bench_network *, int32_t);
} bench_models[] = {{"ResNet-50", resnet50}, {"VGG16", vgg16}, {"MobileNet", mobilenet}};
enum { BENCH_MODELS = sizeof bench_models / sizeof *bench_models };

/* NULL: no memory. */
static inline bench_network *bench_network_create(const struct bench_model *model) {
  bench_network *n = calloc(1, sizeof *n);
  size_t most = (size_t)4096 * 512 * 49;
  if (!n) return NULL;
  n->network = (braid_overlay_network){.batch = 1,
                                       .maps = n->maps,
                                       .layers = n->layers,
                                       .inputs = &n->input,
                                       .outputs = &n->output,
                                       .input_count = 1,
                                       .output_count = 1};
  n->weights = malloc(most);
  n->biases = calloc(8192, sizeof *n->biases);
  if (!n->weights || !n->biases) {
    free(n->weights);
    free(n->biases);
    free(n);
    return NULL;
  }
  for (size_t i = 0; i < most; i++) n->weights[i] = (int8_t)(i * 2654435761u >> 24);
  model->build(n, n->input.map = add_map(n, 3, 224));
  n->output.map = (int32_t)n->network.map_count - 1;
  return n;
}

static inline void bench_network_destroy(bench_network *n) {
  free(n->weights);
  free(n->biases);
  free(n);
}

#endif
