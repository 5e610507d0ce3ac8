/* Random networks and designs, for tests of the compilers. */
#ifndef BRAID_OVERLAY_COMPILER_FIXTURE_H
#define BRAID_OVERLAY_COMPILER_FIXTURE_H

#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "overlay/compiler/dynamic.h"
#include "overlay/compiler/package.h"

enum { kMostMaps = 24, kMostLayers = 24 };

/* A network with memory of its own, and one layer after the other. */
typedef struct drawn_network {
  braid_overlay_network network;
  braid_overlay_map maps[kMostMaps];
  braid_overlay_layer layers[kMostLayers];
  braid_overlay_port inputs[2], outputs[kMostMaps];
} drawn_network;

static uint64_t draw_key, draw_count;

static inline int32_t draw(int32_t low, int32_t high) { /* both included */
  return low + (int32_t)(braid_random_u32(draw_key, 0, 0, draw_count++) % (uint32_t)(high - low + 1));
}

static inline int32_t drawn_map(drawn_network *n, int32_t channels, int32_t rows, int32_t columns) {
  int32_t m = (int32_t)n->network.map_count++;
  n->maps[m] = (braid_overlay_map){.channels = channels, .rows = rows, .columns = columns, .exponent = -4, .name = "m"};
  return m;
}

static inline braid_overlay_layer *drawn_layer(drawn_network *n, braid_overlay_kind kind, int32_t x, int32_t y) {
  braid_overlay_layer *layer = &n->layers[n->network.layer_count++];
  *layer = (braid_overlay_layer){.kind = kind, .name = "l", .x = x, .other = -1, .y = y, .low = -128, .high = 127};
  layer->in_channels = n->maps[x].channels;
  layer->out_channels = n->maps[y].channels;
  layer->window = (braid_overlay_window){1, 1, 1, 1, 1, 1, 0, 0, 0, 0};
  return layer;
}

static inline void draw_weights(braid_overlay_layer *layer) {
  int32_t inputs = layer->kind == BRAID_OVERLAY_DEPTHWISE ? 1 : layer->in_channels;
  size_t count = (size_t)layer->out_channels * (size_t)inputs * (size_t)layer->window.kernel_rows *
                 (size_t)layer->window.kernel_columns;
  int8_t *weights = malloc(count);
  int32_t *biases = malloc((size_t)layer->out_channels * sizeof *biases);
  for (size_t i = 0; i < count; i++) weights[i] = (int8_t)draw(-128, 127);
  for (int32_t c = 0; c < layer->out_channels; c++) biases[c] = draw(-20000, 20000);
  layer->weights = weights;
  layer->biases = biases;
}

static inline int32_t results_of(int32_t size, int32_t before, int32_t after, int32_t kernel, int32_t dilation,
                                 int32_t stride) {
  return (size + before + after - (kernel - 1) * dilation - 1) / stride + 1;
}

/* A window over the map for which there is a result, with that result's size. */
static inline braid_overlay_window draw_window(const braid_overlay_map *map, int32_t *rows, int32_t *columns) {
  for (;;) {
    braid_overlay_window w = {.kernel_rows = draw(1, 5), .kernel_columns = draw(1, 5)};
    w.stride_rows = draw(0, 2) ? 1 : draw(1, 4);
    w.stride_columns = draw(0, 2) ? 1 : draw(1, 4);
    w.dilation_rows = draw(0, 3) ? 1 : draw(1, 3);
    w.dilation_columns = draw(0, 3) ? 1 : draw(1, 3);
    w.pad_top = draw(0, w.kernel_rows - 1);
    w.pad_left = draw(0, w.kernel_columns - 1);
    w.pad_bottom = draw(0, w.kernel_rows - 1);
    w.pad_right = draw(0, w.kernel_columns - 1);
    if (map->rows + w.pad_top + w.pad_bottom <= (w.kernel_rows - 1) * w.dilation_rows) continue;
    if (map->columns + w.pad_left + w.pad_right <= (w.kernel_columns - 1) * w.dilation_columns) continue;
    *rows = results_of(map->rows, w.pad_top, w.pad_bottom, w.kernel_rows, w.dilation_rows, w.stride_rows);
    *columns =
        results_of(map->columns, w.pad_left, w.pad_right, w.kernel_columns, w.dilation_columns, w.stride_columns);
    return w;
  }
}

/* A second map of the result's form, if there is one. */
static inline int32_t find_form(const drawn_network *n, int32_t y) {
  for (int32_t m = y - 1; m >= 0; m--)
    if (n->maps[m].channels == n->maps[y].channels && n->maps[m].rows == n->maps[y].rows &&
        n->maps[m].columns == n->maps[y].columns)
      return m;
  return -1;
}

static inline void draw_convolution(drawn_network *n, int32_t x) {
  bool depthwise = draw(0, 3) == 0;
  int32_t rows, columns, y;
  braid_overlay_window window = draw_window(&n->maps[x], &rows, &columns);
  if (draw(0, 2) == 0) { /* keeps the form, for sums */
    window = (braid_overlay_window){3, 3, 1, 1, 1, 1, 1, 1, 1, 1};
    rows = n->maps[x].rows;
    columns = n->maps[x].columns;
  }
  y = drawn_map(n, depthwise || draw(0, 1) ? n->maps[x].channels : draw(1, 70), rows, columns);
  braid_overlay_layer *layer = drawn_layer(n, depthwise ? BRAID_OVERLAY_DEPTHWISE : BRAID_OVERLAY_CONV, x, y);
  layer->window = window;
  draw_weights(layer);
  layer->shift = draw(6, 13);
  layer->half_up = draw(0, 3) == 0;
  if (draw(0, 2) == 0) layer->low = 0;
  if (draw(0, 4) == 0) layer->high = draw(1, 100);
  layer->other = draw(0, 1) ? find_form(n, y) : -1;
  if (layer->other < 0) return;
  layer->rounds_first = draw(0, 1);
  layer->left = draw(0, 3);
  layer->other_left = draw(0, layer->rounds_first ? 4 : 9);
  if (layer->rounds_first) layer->add_shift = draw(0, 4);
}

static inline void draw_pool(drawn_network *n, int32_t x) {
  int32_t rows, columns;
  bool mean = draw(0, 1);
  braid_overlay_window window = draw_window(&n->maps[x], &rows, &columns);
  if (mean) window.dilation_rows = window.dilation_columns = 1;
  if (mean && draw(0, 2) == 0)
    window = (braid_overlay_window){n->maps[x].rows, n->maps[x].columns, 1, 1, 1, 1, 0, 0, 0, 0};
  rows = results_of(n->maps[x].rows, window.pad_top, window.pad_bottom, window.kernel_rows, window.dilation_rows,
                    window.stride_rows);
  columns = results_of(n->maps[x].columns, window.pad_left, window.pad_right, window.kernel_columns,
                       window.dilation_columns, window.stride_columns);
  int32_t y = drawn_map(n, n->maps[x].channels, rows, columns);
  braid_overlay_layer *layer = drawn_layer(n, mean ? BRAID_OVERLAY_MEAN : BRAID_OVERLAY_MAX, x, y);
  layer->window = window;
  layer->counts_padding = draw(0, 1);
  layer->left = draw(0, 2);
  layer->shift = draw(0, 2);
  for (int32_t r = 0; mean && r < rows; r++)
    for (int32_t c = 0; c < columns; c++)
      if (braid_overlay_divisor(&n->network, layer, r, c) == 0) layer->counts_padding = true;
}

/* A larger map of two, and layers that copy them there. */
static inline void draw_concat(drawn_network *n, int32_t x) {
  const braid_overlay_map *map = &n->maps[x];
  int32_t first = 16 * draw(1, 3), y, other;
  if (map->channels % 16 == 0) first = map->channels;
  braid_overlay_map form = *map;
  other = drawn_map(n, first, form.rows, form.columns);
  braid_overlay_layer *made = drawn_layer(n, BRAID_OVERLAY_CONV, x, other);
  draw_weights(made);
  made->shift = 9;
  y = drawn_map(n, first + form.channels, form.rows, form.columns);
  for (int part = 0; part < 2; part++) {
    braid_overlay_layer *copy = drawn_layer(n, BRAID_OVERLAY_COPY, part ? x : other, y);
    copy->out_channels = copy->in_channels;
    copy->y_channel = part ? first : 0;
    copy->shift = draw(0, 2) == 0;
  }
}

static inline void draw_sum(drawn_network *n, int32_t x) {
  int32_t y = drawn_map(n, n->maps[x].channels, n->maps[x].rows, n->maps[x].columns);
  int32_t other = find_form(n, x);
  braid_overlay_layer *layer = drawn_layer(n, other < 0 ? BRAID_OVERLAY_COPY : BRAID_OVERLAY_ADD, x, y);
  layer->other = other;
  layer->left = draw(0, 3);
  layer->shift = draw(0, 4);
  layer->half_up = draw(0, 3) == 0;
  if (other >= 0) layer->other_left = draw(0, 3);
  if (draw(0, 1)) layer->low = draw(-50, 0);
}

static inline void drawn_begin(drawn_network *n, int32_t channels, int32_t rows, int32_t columns) {
  memset(n, 0, sizeof *n);
  n->network.batch = 1;
  n->network.maps = n->maps;
  n->network.layers = n->layers;
  n->network.inputs = n->inputs;
  n->network.outputs = n->outputs;
  n->inputs[n->network.input_count++] =
      (braid_overlay_port){.map = drawn_map(n, channels, rows, columns), .low = -128, .high = 127, .name = "in"};
}

/* Maps that nothing reads are outputs, and sometimes others. */
static inline void drawn_end(drawn_network *n) {
  for (int32_t m = 0; m < (int32_t)n->network.map_count; m++) {
    bool read = false, written = false;
    for (size_t l = 0; l < n->network.layer_count; l++) {
      read = read || n->layers[l].x == m || n->layers[l].other == m;
      written = written || n->layers[l].y == m;
    }
    if (written && (!read || draw(0, 5) == 0))
      n->outputs[n->network.output_count++] = (braid_overlay_port){.map = m, .low = -128, .high = 127, .name = "out"};
  }
}

static inline void draw_network(drawn_network *n) {
  drawn_begin(n, draw(1, 50), draw(1, 24), draw(1, 24));
  for (int i = draw(1, 6); i > 0; i--) {
    int32_t x = (int32_t)n->network.map_count - 1;
    int32_t what = draw(0, 9);
    if (draw(0, 4) == 0) x = draw(0, x);
    if (what < 5)
      draw_convolution(n, x);
    else if (what < 7)
      draw_pool(n, x);
    else if (what < 8)
      draw_concat(n, x);
    else
      draw_sum(n, x);
  }
  drawn_end(n);
}

static inline void drawn_free(drawn_network *n) {
  for (size_t l = 0; l < n->network.layer_count; l++) {
    free((void *)(uintptr_t)n->layers[l].weights);
    free((void *)(uintptr_t)n->layers[l].biases);
  }
}

/* Small memories, so that layers have to be cut in every way. */
static inline braid_overlay_design draw_design(void) {
  static const int kGroups[] = {4, 8, 16, 32};
  static char name[] = "drawn";
  braid_overlay_design design = {.name = name, .cores = draw(1, 16), .clock_mhz = draw(0, 2) ? draw(1, 40) : 300};
  design.pixels = draw(1, 5);
  design.channels_in = kGroups[draw(0, 3)];
  design.channels_out = draw(0, 5) ? kGroups[draw(0, 3)] : 12;
  design.side_bytes = 16 << draw(0, 2);
  design.feature_bytes = 1024 << draw(1, 8);
  design.weight_bytes = 1024 << draw(2, 8);
  design.bias_bytes = 64 << draw(2, 4);
  design.sum_bytes = 1024 << draw(2, 6);
  design.queue_depth = draw(1, 16);
  design.instruction_bytes = 1 << 20;
  design.port_bits = 128;
  design.bank_bits = 512;
  design.banks = 4;
  design.bank_bytes = INT64_C(1) << 34;
  design.burst_bytes = 256;
  design.outstanding = 8;
  design.latency_cycles = draw(0, 60);
  design.efficiency = 0.8;
  return design;
}

#endif
