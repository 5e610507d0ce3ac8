/* From a draft, whose result's scale is known now, to layers: shifts, bounds, biases. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/try.h"
#include "base/vector.h"
#include "overlay/lower/internal.h"

static int32_t least_of(int32_t a, int32_t b) {
  return a < b ? a : b;
}

braid_status braid_overlay_add_map(braid_overlay_lowering *l, braid_node_id id, const braid_overlay_form *form,
                                   int32_t exponent, braid_value_id value, int32_t *out) {
  if (form->channels > BRAID_OVERLAY_MOST_SIDE)
    return braid_overlay_refuse(l, id, "its result has %d channels, 65,536 are possible", form->channels);
  if (!l->batch) l->batch = form->batch;
  braid_overlay_map *grown = braid_grow(l->allocator, l->maps, l->map_count, &l->map_capacity, sizeof *l->maps);
  if (!grown) return BRAID_NO_MEMORY;
  l->maps = grown;
  *out = (int32_t)l->map_count;
  l->maps[l->map_count++] =
      (braid_overlay_map){form->channels, form->rows, form->columns, exponent, value, l->graph->values[value].name};
  return BRAID_OK;
}

static braid_status add_layer(braid_overlay_lowering *l, const braid_overlay_layer *layer) {
  braid_overlay_layer *grown =
      braid_grow(l->allocator, l->layers, l->layer_count, &l->layer_capacity, sizeof *l->layers);
  if (!grown) return BRAID_NO_MEMORY;
  l->layers = grown;
  l->layers[l->layer_count++] = *layer;
  return BRAID_OK;
}

int32_t braid_overlay_bound(double number, int32_t exponent) {
  return (int32_t)fmin(fmax(nearbyint(ldexp(number, -exponent)), -128), 127);
}

static braid_overlay_layer begin_layer(const braid_overlay_lowering *l, const braid_overlay_draft *draft,
                                       int32_t exponent, int32_t y) {
  const braid_overlay_map *x = &l->maps[draft->x];
  braid_overlay_layer layer = {.kind = draft->kind,
                               .node = draft->node,
                               .name = l->graph->nodes[draft->node].name,
                               .x = draft->x,
                               .other = draft->other,
                               .y = y,
                               .window = draft->window,
                               .counts_padding = draft->counts_padding};
  layer.in_channels = x->channels;
  layer.out_channels = draft->form.channels;
  layer.low = braid_overlay_bound(draft->low, exponent);
  layer.high = braid_overlay_bound(draft->high, exponent);
  return layer;
}

/* --- shifts --------------------------------------------------------------------------------------------------------
 */
/* Of v with exponent `from`, alone. */
static braid_status set_shift(braid_overlay_lowering *l, const braid_overlay_draft *draft, int32_t from, int32_t to,
                              braid_overlay_layer *layer) {
  layer->shift = to > from ? to - from : 0;
  layer->left = to < from ? from - to : 0;
  if (layer->shift > BRAID_OVERLAY_MOST_SHIFT || layer->left > BRAID_OVERLAY_MOST_LEFT)
    return braid_overlay_refuse(l, draft->node,
                                "its result's scale is 2^%d times that of what it sums up, 2^%d to 2^%d is possible",
                                to - from, -BRAID_OVERLAY_MOST_LEFT, BRAID_OVERLAY_MOST_SHIFT);
  return BRAID_OK;
}

/* Of v with exponent `from` and another map's number. */
static braid_status set_shifts(braid_overlay_lowering *l, const braid_overlay_draft *draft, int32_t from, int32_t other,
                               int32_t to, braid_overlay_layer *layer) {
  int32_t base = least_of(least_of(from, other), to);
  layer->left = from - base;
  layer->other_left = other - base;
  layer->shift = to - base;
  if (layer->left > BRAID_OVERLAY_MOST_LEFT || layer->other_left > BRAID_OVERLAY_MOST_LEFT ||
      layer->shift > BRAID_OVERLAY_MOST_SHIFT)
    return braid_overlay_refuse(l, draft->node, "scales of its operands and result are too far apart: 2^%d, 2^%d, 2^%d",
                                from, other, to);
  return BRAID_OK;
}

/* --- convolutions and products -------------------------------------------------------------------------------------
 */
static int64_t taps_of(const braid_overlay_window *window) {
  return (int64_t)window->kernel_rows * window->kernel_columns;
}

/* Weights of a grouped convolution among zeros, so that every output channel has all input channels. */
static braid_status spread_groups(braid_overlay_lowering *l, const braid_overlay_draft *draft, int64_t inputs,
                                  braid_overlay_numbers *numbers) {
  int64_t outputs = draft->form.channels, taps = taps_of(&draft->window), part = inputs / draft->groups;
  if (outputs * inputs > BRAID_OVERLAY_MOST_WEIGHTS / taps)
    return braid_overlay_refuse(l, draft->node, "%lld groups of less than 16 channels take more than 2^28 weights",
                                (long long)draft->groups);
  int8_t *spread = braid_arena_alloc(l->arena, (size_t)(outputs * inputs * taps));
  if (!spread) return BRAID_NO_MEMORY;
  for (int64_t o = 0; o < outputs; o++) {
    int64_t first = o / (outputs / draft->groups) * part;
    memcpy(spread + (o * inputs + first) * taps, numbers->weights + o * part * taps, (size_t)(part * taps));
  }
  numbers->weights = spread;
  return BRAID_OK;
}

static braid_status add_groups(braid_overlay_lowering *l, const braid_overlay_draft *draft, braid_overlay_layer layer) {
  int32_t groups = (int32_t)draft->groups, inputs = layer.in_channels / groups, outputs = layer.out_channels / groups;
  const int8_t *weights = layer.weights;
  const int32_t *biases = layer.biases;
  layer.in_channels = inputs;
  layer.out_channels = outputs;
  for (int32_t g = 0; g < groups; g++) {
    layer.x_channel = g * inputs;
    layer.y_channel = g * outputs;
    layer.weights = weights + g * outputs * inputs * taps_of(&draft->window);
    layer.biases = biases + g * outputs;
    BRAID_TRY(add_layer(l, &layer));
  }
  return BRAID_OK;
}

static braid_status finish_conv(braid_overlay_lowering *l, const braid_overlay_draft *draft, int32_t exponent,
                                braid_overlay_layer layer) {
  int32_t x_exponent = l->maps[draft->x].exponent, inputs = l->maps[draft->x].channels, outputs = layer.out_channels;
  braid_overlay_numbers numbers;
  BRAID_TRY(
      braid_overlay_read_weights(l, draft, x_exponent, draft->other < 0 ? exponent : INT32_MAX, l->arena, &numbers));
  int32_t sums = x_exponent + numbers.exponent;
  if (draft->other < 0)
    BRAID_TRY(set_shift(l, draft, sums, exponent, &layer));
  else
    BRAID_TRY(set_shifts(l, draft, sums, l->maps[draft->other].exponent, exponent, &layer));
  if (numbers.half_up && draft->other >= 0)
    return braid_overlay_refuse(l, draft->node, "its biases are no integers, and another map is added to it");
  layer.half_up = numbers.half_up && layer.shift > 0;
  layer.weight_exponent = numbers.exponent;
  layer.biases = numbers.biases;
  bool parts = draft->groups > 1 && inputs / draft->groups % BRAID_OVERLAY_PLANE == 0 &&
               outputs / draft->groups % BRAID_OVERLAY_PLANE == 0 && draft->other < 0;
  if (draft->groups == inputs && outputs == inputs)
    layer.kind = BRAID_OVERLAY_DEPTHWISE;
  else if (draft->groups > 1 && !parts)
    BRAID_TRY(spread_groups(l, draft, inputs, &numbers));
  layer.weights = numbers.weights;
  return parts && layer.kind == BRAID_OVERLAY_CONV ? add_groups(l, draft, layer) : add_layer(l, &layer);
}

/* --- the others ----------------------------------------------------------------------------------------------------
 */
/* A number that is added to means and is less than half of what two of them differ by only breaks ties. */
static braid_status read_tie_breaker(braid_overlay_lowering *l, const braid_overlay_draft *draft, int32_t x_exponent,
                                     braid_overlay_layer *layer) {
  if (!draft->bias_count) return BRAID_OK;
  const braid_value *value = &l->graph->values[draft->biases[0]];
  bool one = value->kind == BRAID_VALUE_CONSTANT && value->tensor && value->desc.dtype == BRAID_F32 &&
             braid_desc_count(&value->desc) == 1;
  double part = one ? ldexp(braid_tensor_get_f64(value->tensor, 0), -x_exponent) : -1;
  if (!(part > 0 && part < 0.5 / (double)taps_of(&draft->window)) || layer->left)
    return braid_overlay_refuse(l, draft->node, "what is added to its means does more than to break ties");
  layer->half_up = layer->shift > 0 || taps_of(&draft->window) > 1;
  return BRAID_OK;
}

static int32_t whole_planes(int32_t channels) {
  return (channels + BRAID_OVERLAY_PLANE - 1) / BRAID_OVERLAY_PLANE * BRAID_OVERLAY_PLANE;
}

/* Parts that do not all begin at planes are joined in a map where they do, with gaps, and a convolution of one place
 * whose weights are 1 and 0 moves its channels together. */
static braid_status close_gaps(braid_overlay_lowering *l, const braid_overlay_draft *draft, int32_t gapped,
                               braid_overlay_layer layer) {
  int64_t inputs = l->maps[gapped].channels, count = inputs * draft->form.channels;
  if (count > BRAID_OVERLAY_MOST_WEIGHTS)
    return braid_overlay_refuse(l, draft->node,
                                "it joins parts at no multiples of %d channels, which takes more than "
                                "2^28 weights",
                                BRAID_OVERLAY_PLANE);
  int8_t *weights = braid_arena_alloc(l->arena, (size_t)count);
  int32_t *biases = braid_arena_alloc(l->arena, (size_t)draft->form.channels * sizeof *biases);
  if (!weights || !biases) return BRAID_NO_MEMORY;
  int64_t from = 0, to = 0;
  for (size_t i = 0; i < draft->part_count; i++) {
    int32_t channels = l->maps[draft->parts[i]].channels;
    for (int32_t c = 0; c < channels; c++) weights[to++ * inputs + from + c] = 1;
    from += whole_planes(channels);
  }
  layer.kind = BRAID_OVERLAY_CONV;
  layer.x = gapped;
  layer.in_channels = (int32_t)inputs;
  layer.out_channels = draft->form.channels;
  layer.weights = weights;
  layer.biases = biases;
  layer.low = -128;
  layer.high = 127;
  return add_layer(l, &layer);
}

static braid_status finish_parts(braid_overlay_lowering *l, const braid_overlay_draft *draft, int32_t exponent,
                                 braid_overlay_layer layer) {
  const braid_overlay_layer whole = layer;
  braid_overlay_form gapped = draft->form;
  bool aligned = true;
  gapped.channels = 0;
  for (size_t i = 0; i < draft->part_count; i++) {
    aligned = aligned && gapped.channels % BRAID_OVERLAY_PLANE == 0;
    gapped.channels += aligned ? l->maps[draft->parts[i]].channels : 0;
  }
  if (!aligned) {
    gapped.channels = 0;
    for (size_t i = 0; i < draft->part_count; i++) gapped.channels += whole_planes(l->maps[draft->parts[i]].channels);
    BRAID_TRY(braid_overlay_add_map(l, draft->node, &gapped, exponent, l->maps[whole.y].value, &layer.y));
  }
  for (size_t i = 0; i < draft->part_count; i++) {
    layer.x = draft->parts[i];
    layer.in_channels = layer.out_channels = l->maps[layer.x].channels;
    BRAID_TRY(set_shift(l, draft, l->maps[layer.x].exponent, exponent, &layer));
    BRAID_TRY(add_layer(l, &layer));
    layer.y_channel += aligned ? layer.out_channels : whole_planes(layer.out_channels);
  }
  return aligned ? BRAID_OK : close_gaps(l, draft, layer.y, whole);
}

braid_status braid_overlay_finish(braid_overlay_lowering *l, braid_overlay_draft *draft, int32_t exponent,
                                  braid_value_id value, int32_t *map) {
  draft->done = true;
  BRAID_TRY(braid_overlay_add_map(l, draft->node, &draft->form, exponent, value, map));
  braid_overlay_layer layer = begin_layer(l, draft, exponent, *map);
  int32_t from = l->maps[draft->x].exponent;
  if (draft->moves) {
    BRAID_TRY(braid_overlay_place_moves(l, draft, exponent, &layer));
    BRAID_TRY(set_shift(l, draft, from + layer.weight_exponent, exponent, &layer));
    return add_layer(l, &layer);
  }
  if (draft->kind == BRAID_OVERLAY_CONV) return finish_conv(l, draft, exponent, layer);
  if (draft->joins) return finish_parts(l, draft, exponent, layer);
  if (draft->kind == BRAID_OVERLAY_ADD)
    BRAID_TRY(set_shifts(l, draft, from, l->maps[draft->other].exponent, exponent, &layer));
  else
    BRAID_TRY(set_shift(l, draft, from, exponent, &layer));
  if (draft->kind == BRAID_OVERLAY_MEAN) BRAID_TRY(read_tie_breaker(l, draft, from, &layer));
  return add_layer(l, &layer);
}
