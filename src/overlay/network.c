#include "overlay/network.h"

#include "base/arena.h"

const char *braid_overlay_kind_name(braid_overlay_kind kind) {
  static const char *const kNames[] = {"conv", "depthwise", "max", "mean", "add", "copy"};
  return (unsigned)kind < BRAID_OVERLAY_KINDS ? kNames[kind] : "";
}

void braid_overlay_network_destroy(braid_overlay_network *network) {
  if (network) braid_arena_destroy(network->arena);
}

/* Places of one dimension of a window that lie within [begin, end). */
static int64_t places_within(int64_t at, int64_t kernel, int64_t dilation, int64_t begin, int64_t end) {
  int64_t first = at >= begin ? 0 : (begin - at + dilation - 1) / dilation;
  int64_t last = at >= end ? 0 : (end - at + dilation - 1) / dilation;
  last = last < kernel ? last : kernel;
  return last > first ? last - first : 0;
}

int64_t braid_overlay_divisor(const braid_overlay_network *network, const braid_overlay_layer *layer, int32_t row,
                              int32_t column) {
  const braid_overlay_map *x = &network->maps[layer->x];
  const braid_overlay_window *w = &layer->window;
  int64_t top = layer->counts_padding ? -(int64_t)w->pad_top : 0,
          left = layer->counts_padding ? -(int64_t)w->pad_left : 0;
  int64_t bottom = x->rows + (int64_t)(layer->counts_padding && w->pad_bottom > 0 ? w->pad_bottom : 0);
  int64_t right = x->columns + (int64_t)(layer->counts_padding && w->pad_right > 0 ? w->pad_right : 0);
  return places_within((int64_t)row * w->stride_rows - w->pad_top, w->kernel_rows, w->dilation_rows, top, bottom) *
         places_within((int64_t)column * w->stride_columns - w->pad_left, w->kernel_columns, w->dilation_columns, left,
                       right);
}

int64_t braid_overlay_macs(const braid_overlay_network *network, const braid_overlay_layer *layer) {
  if (!layer->weights) return 0;
  const braid_overlay_map *y = &network->maps[layer->y];
  int64_t inputs = layer->kind == BRAID_OVERLAY_DEPTHWISE ? 1 : layer->in_channels;
  return (int64_t)layer->out_channels * y->rows * y->columns * inputs * layer->window.kernel_rows *
         layer->window.kernel_columns;
}
