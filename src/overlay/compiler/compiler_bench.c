/* Times of the two compilers, and what they estimate: ResNet-50, VGG16 and MobileNet v1 of 224 x 224 with random
 * weights, for the design with 16 cores (platforms/overlay/cnn-16x512.yaml).
 *
 *   build/bench/compiler_bench */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "overlay/compiler/dynamic.h"
#include "overlay/design.h"

enum { kMostMaps = 200, kRepeats = 200 };

typedef struct bench_network {
  braid_overlay_network network;
  braid_overlay_map maps[kMostMaps];
  braid_overlay_layer layers[kMostMaps];
  braid_overlay_port input, output;
  int8_t *weights; /* any: all layers read the same */
  int32_t *biases;
} bench_network;

static int32_t add_map(bench_network *n, int32_t channels, int32_t side) {
  int32_t m = (int32_t)n->network.map_count++;
  n->maps[m] = (braid_overlay_map){.channels = channels, .rows = side, .columns = side, .exponent = -4, .name = "map"};
  return m;
}

/* other -1: none. Padding keeps the size, divided by the stride. */
static int32_t add_layer(bench_network *n, braid_overlay_kind kind, int32_t x, int32_t channels, int32_t kernel,
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

static void resnet50(bench_network *n, int32_t at) {
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

static void vgg16(bench_network *n, int32_t at) {
  static const int32_t kLayers[5] = {2, 2, 3, 3, 3}, kWidths[5] = {64, 128, 256, 512, 512};
  for (int stage = 0; stage < 5; stage++) {
    for (int32_t i = 0; i < kLayers[stage]; i++) at = add_layer(n, BRAID_OVERLAY_CONV, at, kWidths[stage], 3, 1, -1);
    at = add_layer(n, BRAID_OVERLAY_MAX, at, kWidths[stage], 2, 2, -1);
  }
  at = add_layer(n, BRAID_OVERLAY_CONV, at, 4096, 7, 1, -1);
  at = add_layer(n, BRAID_OVERLAY_CONV, at, 4096, 1, 1, -1);
  add_layer(n, BRAID_OVERLAY_CONV, at, 1000, 1, 1, -1);
}

static void mobilenet(bench_network *n, int32_t at) {
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

static void bench_dynamic(const braid_package *package, const braid_overlay_design *design) {
  static const int kCores[] = {1, 2, 3, 4, 6, 8, 12, 16};
  braid_programs programs;
  braid_programs_init(&programs, NULL);
  double alone = 0;
  for (size_t k = 0; k < sizeof kCores / sizeof *kCores; k++) {
    double best = 1e9;
    size_t bytes = 0;
    for (int repeat = 0; repeat < kRepeats; repeat++) {
      double begin = (double)braid_now_ns();
      if (braid_programs_make(package, kCores[k], 0, &programs) != BRAID_OK) return;
      double us = ((double)braid_now_ns() - begin) / 1e3;
      if (us < best) best = us;
    }
    for (int c = 0; c < kCores[k]; c++) bytes += programs.core[c].bytes;
    double ms = (double)programs.cycles / design->clock_mhz / 1e3;
    if (kCores[k] == 1) alone = ms;
    printf("  %2d cores: %7.1f us for %8zu bytes; %8.3f ms an image, %5.1f %% more than its share, %.2f %% over the "
           "bound\n",
           kCores[k], best, bytes, ms, 100 * (ms * kCores[k] / alone - 1),
           100 * ((double)programs.cycles / (double)programs.bound - 1));
  }
  braid_programs_deinit(&programs);
}

static int bench(const char *name, void (*build)(bench_network *, int32_t), const braid_overlay_design *design) {
  bench_network *n = calloc(1, sizeof *n);
  braid_package *package;
  int64_t macs = 0;
  size_t most = (size_t)4096 * 512 * 49;
  n->network = (braid_overlay_network){.batch = 1,
                                       .maps = n->maps,
                                       .layers = n->layers,
                                       .inputs = &n->input,
                                       .outputs = &n->output,
                                       .input_count = 1,
                                       .output_count = 1};
  n->weights = malloc(most);
  n->biases = calloc(8192, sizeof *n->biases);
  for (size_t i = 0; i < most; i++) n->weights[i] = (int8_t)(i * 2654435761u >> 24);
  build(n, n->input.map = add_map(n, 3, 224));
  n->output.map = (int32_t)n->network.map_count - 1;
  for (size_t l = 0; l < n->network.layer_count; l++) macs += braid_overlay_macs(&n->network, &n->layers[l]);
  double begin = (double)braid_now_ns();
  braid_status status = braid_package_compile(&n->network, design, NULL, &package);
  double ms = ((double)braid_now_ns() - begin) / 1e6;
  if (status != BRAID_OK) {
    printf("%s: %s\n", name, braid_error_detail());
    return 1;
  }
  double bound = (double)macs / (double)braid_overlay_core_products(design) / design->clock_mhz / 1e3;
  printf("%s: %zu layers, %.2f G multiply-accumulates (%.2f ms of one core at least); compiled in %.1f ms: %zu "
         "tilings, %zu tiles, %.1f MB "
         "of instructions, %.1f MB of constants, %.1f MB of maps\n",
         name, package->layer_count, (double)macs / 1e9, bound, ms, package->tiling_count, package->tile_count,
         (double)package->instruction_bytes / 1e6, (double)package->bytes[BRAID_SEGMENT_CONSTANTS] / 1e6,
         (double)package->bytes[BRAID_SEGMENT_FEATURES] / 1e6);
  bench_dynamic(package, design);
  braid_package_destroy(package);
  free(n->weights);
  free(n->biases);
  free(n);
  return 0;
}

int main(void) {
  const braid_overlay_design *design;
  if (braid_overlay_design_load(NULL, "cnn-16x512", &design) != BRAID_OK) {
    printf("%s\n", braid_error_detail());
    return 1;
  }
  int failed =
      bench("ResNet-50", resnet50, design) + bench("VGG16", vgg16, design) + bench("MobileNet", mobilenet, design);
  braid_overlay_design_destroy(design);
  return failed != 0;
}
