#include "overlay/reference.h"

#include <math.h>
#include <string.h>

/* --- rounding ------------------------------------------------------------------------------------------------------
 */
/* number / divisor to the nearest integer; halves to the even one, or up. `divisor` is above 0. */
static int64_t divide(int64_t number, int64_t divisor, bool half_up) {
  int64_t quotient = number / divisor, rest = number % divisor;
  if (rest < 0) { /* downwards */
    quotient--;
    rest += divisor;
  }
  int64_t other = divisor - rest;
  bool up = rest > other || (rest == other && (half_up || quotient % 2 != 0));
  return quotient + up;
}

static int64_t clip(int64_t number, int64_t low, int64_t high) {
  number = number > low ? number : low;
  return number < high ? number : high;
}

/* The formulas of network.h. */
static int8_t finish(const braid_overlay_layer *layer, int64_t v, int64_t divisor, int8_t other) {
  int64_t step = INT64_C(1) << layer->shift, first = INT64_C(1) << layer->left,
          second = layer->other < 0 ? 0 : (int64_t)other * (INT64_C(1) << layer->other_left), result;
  if (layer->other < 0)
    result = divide(v * first, divisor * step, layer->half_up);
  else if (layer->rounds_first)
    result = divide(clip(divide(v, step, layer->half_up), -128, 127) * first + second, INT64_C(1) << layer->add_shift,
                    false);
  else
    result = divide(v * first + second, step, layer->half_up);
  return (int8_t)clip(result, layer->low, layer->high);
}

/* --- windows -------------------------------------------------------------------------------------------------------
 */
/* One number of the result: channel, row, column. */
typedef struct place {
  int32_t channel, row, column;
} place;

/* The number of x under a tap, or NULL: padding. */
static const int8_t *under(const braid_overlay_network *network, const braid_overlay_layer *layer, const int8_t *x,
                           int32_t channel, const place *at, int32_t i, int32_t k) {
  const braid_overlay_map *map = &network->maps[layer->x];
  const braid_overlay_window *w = &layer->window;
  int64_t row = (int64_t)at->row * w->stride_rows - w->pad_top + (int64_t)i * w->dilation_rows;
  int64_t column = (int64_t)at->column * w->stride_columns - w->pad_left + (int64_t)k * w->dilation_columns;
  if (row < 0 || row >= map->rows || column < 0 || column >= map->columns) return NULL;
  return &x[((int64_t)(layer->x_channel + channel) * map->rows + row) * map->columns + column];
}

static int64_t weigh(const braid_overlay_network *network, const braid_overlay_layer *layer, const int8_t *x,
                     const place *at) {
  const braid_overlay_window *w = &layer->window;
  bool alone = layer->kind == BRAID_OVERLAY_DEPTHWISE;
  int32_t inputs = alone ? 1 : layer->in_channels;
  int64_t taps = (int64_t)w->kernel_rows * w->kernel_columns, sum = layer->biases[at->channel];
  for (int32_t n = 0; n < inputs; n++)
    for (int32_t i = 0; i < w->kernel_rows; i++)
      for (int32_t k = 0; k < w->kernel_columns; k++) {
        const int8_t *number = under(network, layer, x, alone ? at->channel : n, at, i, k);
        int64_t weight = ((int64_t)at->channel * inputs + n) * taps + (int64_t)i * w->kernel_columns + k;
        if (number) sum += (int64_t)*number * layer->weights[weight];
      }
  return sum;
}

static int64_t pool(const braid_overlay_network *network, const braid_overlay_layer *layer, const int8_t *x,
                    const place *at) {
  const braid_overlay_window *w = &layer->window;
  int64_t sum = 0, most = -128;
  for (int32_t i = 0; i < w->kernel_rows; i++)
    for (int32_t k = 0; k < w->kernel_columns; k++) {
      const int8_t *number = under(network, layer, x, at->channel, at, i, k);
      if (!number) continue;
      sum += *number;
      most = *number > most ? *number : most;
    }
  return layer->kind == BRAID_OVERLAY_MAX ? most : sum;
}

static int8_t compute(const braid_overlay_network *network, const braid_overlay_layer *layer, const int8_t *x,
                      int8_t other, const place *at) {
  switch (layer->kind) {
  case BRAID_OVERLAY_CONV:
  case BRAID_OVERLAY_DEPTHWISE:
    return finish(layer, weigh(network, layer, x, at), 1, other);
  case BRAID_OVERLAY_MAX:
    return finish(layer, pool(network, layer, x, at), 1, other);
  case BRAID_OVERLAY_MEAN: {
    int64_t divisor = braid_overlay_divisor(network, layer, at->row, at->column);
    return finish(layer, pool(network, layer, x, at), divisor > 0 ? divisor : 1, other);
  }
  default:
    return finish(layer, *under(network, layer, x, at->channel, at, 0, 0), 1, other);
  }
}

void braid_overlay_reference_layer(const braid_overlay_network *network, const braid_overlay_layer *layer,
                                   const int8_t *x, const int8_t *other, int8_t *y) {
  const braid_overlay_map *map = &network->maps[layer->y];
  for (int32_t c = 0; c < layer->out_channels; c++)
    for (int32_t r = 0; r < map->rows; r++)
      for (int32_t k = 0; k < map->columns; k++) {
        int64_t own = ((int64_t)c * map->rows + r) * map->columns + k;
        int64_t to = own + (int64_t)layer->y_channel * map->rows * map->columns;
        y[to] = compute(network, layer, x, other ? other[own] : 0, &(place){c, r, k});
      }
}

/* --- networks ------------------------------------------------------------------------------------------------------
 */
typedef struct room {
  const int8_t **from; /* of each map: its bytes */
  int8_t **own;        /* of each map: the same, where we may write */
  bool *ours;          /* of each map: to be freed */
} room;

static braid_status fill_room(const braid_overlay_network *network, const int8_t *const *inputs, int8_t *const *maps,
                              const braid_allocator *allocator, room *r) {
  r->from = braid_zalloc_array(allocator, network->map_count + 1, sizeof *r->from);
  r->own = braid_zalloc_array(allocator, network->map_count + 1, sizeof *r->own);
  r->ours = braid_zalloc_array(allocator, network->map_count + 1, sizeof *r->ours);
  if (!r->from || !r->own || !r->ours) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < network->input_count; i++) r->from[network->inputs[i].map] = inputs[i];
  for (size_t i = 0; i < network->map_count; i++) {
    if (r->from[i]) continue;
    r->own[i] = maps ? maps[i] : NULL;
    r->ours[i] = !r->own[i];
    if (r->ours[i]) r->own[i] = braid_zalloc_array(allocator, 1, (size_t)braid_overlay_map_bytes(&network->maps[i]));
    if (!r->own[i]) return BRAID_NO_MEMORY;
    r->from[i] = r->own[i];
  }
  return BRAID_OK;
}

static void empty_room(const braid_overlay_network *network, const braid_allocator *allocator, room *r) {
  for (size_t i = 0; r->ours && i < network->map_count; i++)
    if (r->ours[i]) braid_free(allocator, r->own[i]);
  braid_free(allocator, r->from);
  braid_free(allocator, r->own);
  braid_free(allocator, r->ours);
}

braid_status braid_overlay_reference(const braid_overlay_network *network, const int8_t *const *inputs,
                                     int8_t *const *outputs, int8_t *const *maps) {
  const braid_allocator *allocator = NULL;
  room r = {NULL, NULL, NULL};
  braid_status status = fill_room(network, inputs, maps, allocator, &r);
  for (size_t i = 0; status == BRAID_OK && i < network->layer_count; i++) {
    const braid_overlay_layer *layer = &network->layers[i];
    braid_overlay_reference_layer(network, layer, r.from[layer->x], layer->other < 0 ? NULL : r.from[layer->other],
                                  r.own[layer->y]);
  }
  for (size_t i = 0; status == BRAID_OK && i < network->output_count; i++) {
    int32_t map = network->outputs[i].map;
    memcpy(outputs[i], r.from[map], (size_t)braid_overlay_map_bytes(&network->maps[map]));
  }
  empty_room(network, allocator, &r);
  return status;
}

/* --- numbers -------------------------------------------------------------------------------------------------------
 */
void braid_overlay_quantize(const float *numbers, int64_t count, int exponent, int8_t *bytes) {
  for (int64_t i = 0; i < count; i++) {
    double steps = nearbyint(ldexp((double)numbers[i], -exponent));
    bytes[i] = !(steps >= -128) ? -128 : steps > 127 ? 127 : (int8_t)steps;
  }
}

void braid_overlay_read_port(const braid_overlay_network *network, const braid_overlay_port *port, const float *numbers,
                             int8_t *bytes) {
  const braid_overlay_map *map = &network->maps[port->map];
  int64_t count = braid_overlay_map_bytes(map);
  braid_overlay_quantize(numbers, count, map->exponent, bytes);
  for (int64_t i = 0; i < count; i++) bytes[i] = (int8_t)clip(bytes[i], port->low, port->high);
}

void braid_overlay_dequantize(const int8_t *bytes, int64_t count, int exponent, float *numbers) {
  for (int64_t i = 0; i < count; i++) numbers[i] = ldexpf((float)bytes[i], exponent);
}
