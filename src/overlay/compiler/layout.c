#include "overlay/compiler/layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/try.h"

enum { kMostLines = 1 << 28 }; /* that an address of the instructions can say */

static bool layer_convolves(const braid_overlay_layer *layer) {
  return layer->kind == BRAID_OVERLAY_CONV || layer->kind == BRAID_OVERLAY_DEPTHWISE;
}

static int64_t map_lines(const braid_overlay_map *map) {
  return (int64_t)braid_ceil(map->channels, BRAID_OVERLAY_PLANE) * map->rows * map->columns;
}

int32_t braid_layer_unit(const braid_overlay_layer *layer, const braid_overlay_design *design) {
  int32_t unit = BRAID_OVERLAY_PLANE;
  while (layer_convolves(layer) && unit % design->channels_out) unit += BRAID_OVERLAY_PLANE;
  return unit;
}

/* --- maps ----------------------------------------------------------------------------------------------------------
 */
static int32_t root_of(const braid_ddr_layout *layout, int32_t map) {
  while (layout->maps[map].within >= 0) map = layout->maps[map].within;
  return map;
}

static bool is_port(const braid_overlay_port *ports, size_t count, int32_t map) {
  for (size_t i = 0; i < count; i++)
    if (ports[i].map == map) return true;
  return false;
}

/* A copy of all of a map of our own, unchanged, into whole planes of another one. */
static bool copy_is_place(const braid_overlay_network *network, const braid_ddr_layout *layout,
                          const braid_overlay_layer *layer) {
  const braid_overlay_map *x = &network->maps[layer->x], *y = &network->maps[layer->y];
  return layer->kind == BRAID_OVERLAY_COPY && layer->other < 0 && layer->left == 0 && layer->shift == 0 &&
         layer->low == -128 && layer->high == 127 && layer->x_channel == 0 && layer->in_channels == x->channels &&
         layer->y_channel % BRAID_OVERLAY_PLANE == 0 && x->rows == y->rows && x->columns == y->columns &&
         layout->maps[layer->x].within < 0 && root_of(layout, layer->y) != layer->x &&
         !is_port(network->inputs, network->input_count, layer->x) &&
         !is_port(network->outputs, network->output_count, layer->x);
}

static void place_within(const braid_overlay_network *network, braid_ddr_layout *layout) {
  for (size_t i = 0; i < network->layer_count; i++) {
    const braid_overlay_layer *layer = &network->layers[i];
    layout->skipped[i] = copy_is_place(network, layout, layer);
    if (!layout->skipped[i]) continue;
    layout->maps[layer->x].within = layer->y;
    layout->maps[layer->x].plane = layer->y_channel / BRAID_OVERLAY_PLANE;
  }
}

static void live_at(braid_ddr_layout *layout, int32_t map, int64_t at) {
  braid_map_place *place = &layout->maps[root_of(layout, map)];
  if (place->to < place->from) place->from = place->to = at;
  if (at < place->from) place->from = at;
  if (at > place->to) place->to = at;
}

typedef struct braid_map_order {
  int32_t map;
  int64_t lines;
} braid_map_order;

static int larger_first(const void *a, const void *b) {
  const braid_map_order *x = a, *y = b;
  if (x->lines != y->lines) return x->lines < y->lines ? 1 : -1;
  return x->map < y->map ? -1 : x->map > y->map;
}

/* The lowest place where no map lies that lives at the same time. `placed` maps come in no order of place. */
static int64_t first_fit(const braid_overlay_network *network, const braid_ddr_layout *layout,
                         const braid_map_order *placed, size_t count, const braid_map_order *wanted) {
  const braid_map_place *place = &layout->maps[wanted->map];
  int64_t line = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t i = 0; i < count; i++) {
      const braid_map_place *other = &layout->maps[placed[i].map];
      if (other->segment != BRAID_SEGMENT_FEATURES || other->to < place->from || other->from > place->to) continue;
      if (line >= other->line + placed[i].lines || line + wanted->lines <= other->line) continue;
      line = other->line + placed[i].lines;
      moved = true;
    }
  }
  (void)network;
  return line;
}

static braid_status place_maps(const braid_overlay_network *network, braid_arena *arena, braid_ddr_layout *layout) {
  braid_map_order *order = braid_arena_alloc(arena, (network->map_count + 1) * sizeof *order);
  size_t count = 0;
  if (!order) return BRAID_NO_MEMORY;
  for (size_t m = 0; m < network->map_count; m++)
    if (layout->maps[m].within < 0) order[count++] = (braid_map_order){(int32_t)m, map_lines(&network->maps[m])};
  qsort(order, count, sizeof *order, larger_first);
  for (size_t i = 0; i < count; i++) {
    braid_map_place *place = &layout->maps[order[i].map];
    bool input = is_port(network->inputs, network->input_count, order[i].map);
    bool output = is_port(network->outputs, network->output_count, order[i].map);
    place->segment = input ? BRAID_SEGMENT_INPUTS : output ? BRAID_SEGMENT_OUTPUTS : BRAID_SEGMENT_FEATURES;
    int64_t *end = &layout->lines[place->segment];
    place->line = input || output ? *end : first_fit(network, layout, order, i, &order[i]);
    if (place->line + order[i].lines > *end) *end = place->line + order[i].lines;
    if (*end > kMostLines)
      return braid_fail(BRAID_OUT_OF_RANGE, "the maps take more than the %d lines of 16 bytes that addresses can say",
                        kMostLines);
  }
  for (size_t m = 0; m < network->map_count; m++) {
    int64_t plane = 0;
    for (int32_t at = (int32_t)m; layout->maps[at].within >= 0; at = layout->maps[at].within)
      plane += layout->maps[at].plane;
    const braid_map_place *root = &layout->maps[root_of(layout, (int32_t)m)];
    layout->maps[m].segment = root->segment;
    layout->maps[m].line = root->line + plane * network->maps[m].rows * network->maps[m].columns;
  }
  return BRAID_OK;
}

/* --- constants -----------------------------------------------------------------------------------------------------
 */
static int64_t layer_weight_lines(const braid_overlay_layer *layer, const braid_overlay_design *design) {
  int64_t taps = (int64_t)layer->window.kernel_rows * layer->window.kernel_columns;
  int32_t unit = braid_layer_unit(layer, design);
  if (layer->kind == BRAID_OVERLAY_DEPTHWISE)
    return (int64_t)braid_ceil(layer->out_channels, unit) * unit * taps / BRAID_ISA_WORD;
  return (int64_t)braid_ceil(layer->out_channels, design->channels_out) * taps *
         braid_ceil(layer->in_channels, design->channels_in) * design->channels_in * design->channels_out /
         BRAID_ISA_WORD;
}

static braid_status place_constants(const braid_overlay_network *network, const braid_overlay_design *design,
                                    braid_ddr_layout *layout) {
  int64_t *end = &layout->lines[BRAID_SEGMENT_CONSTANTS];
  for (size_t i = 0; i < network->layer_count; i++) {
    const braid_overlay_layer *layer = &network->layers[i];
    if (!layer_convolves(layer)) continue;
    layout->weights[i] = *end;
    layout->biases[i] = *end += layer_weight_lines(layer, design);
    *end += braid_ceil(layer->out_channels, 4);
    if (*end > kMostLines)
      return braid_fail(BRAID_OUT_OF_RANGE,
                        "the weights take more than the %d lines of 16 bytes that addresses can say", kMostLines);
  }
  return BRAID_OK;
}

/* `count` channels out and up to ICP channels in, `inputs` of them there are: the bytes of one tap, read `taps` apart.
 */
static void fill_group(const int8_t *from, int32_t count, int32_t left, int32_t inputs, int32_t taps,
                       const braid_overlay_design *design, uint8_t *to) {
  int32_t most = left < design->channels_in ? left : design->channels_in;
  for (int32_t c = 0; c < count; c++) {
    const int8_t *row = from + (size_t)c * (size_t)inputs * (size_t)taps;
    uint8_t *out = to + (size_t)c * (size_t)design->channels_in;
    for (int32_t n = 0; n < most; n++) out[n] = (uint8_t)row[(size_t)n * (size_t)taps];
  }
}

/* Groups of OCP channels out, in them taps, in them groups of ICP channels in, in them OCP times ICP bytes. Taps are
 * the innermost loop: what it reads is then in the nearest cache, and whole lines are written. */
static void fill_weights(const braid_overlay_layer *layer, const braid_overlay_design *design, uint8_t *out) {
  int32_t taps = layer->window.kernel_rows * layer->window.kernel_columns, inputs = layer->in_channels;
  int32_t groups = braid_ceil(inputs, design->channels_in);
  size_t group = (size_t)design->channels_in * (size_t)design->channels_out;
  for (int32_t c = 0; c < layer->out_channels;
       c += design->channels_out, out += (size_t)taps * (size_t)groups * group) {
    const int8_t *from = layer->weights + (size_t)c * (size_t)inputs * (size_t)taps;
    int32_t left = layer->out_channels - c, count = left < design->channels_out ? left : design->channels_out;
    for (int32_t g = 0; g < groups; g++, from += (size_t)design->channels_in * (size_t)taps)
      for (int32_t tap = 0; tap < taps; tap++)
        fill_group(from + tap, count, inputs - g * design->channels_in, inputs, taps, design,
                   out + ((size_t)tap * (size_t)groups + (size_t)g) * group);
  }
}

static void fill_depthwise(const braid_overlay_layer *layer, const braid_overlay_design *design, uint8_t *out) {
  int32_t taps = layer->window.kernel_rows * layer->window.kernel_columns, group = design->channels_out;
  for (int32_t c = 0; c < layer->out_channels; c++)
    for (int32_t tap = 0; tap < taps; tap++)
      out[((size_t)(c / group) * (size_t)taps + (size_t)tap) * (size_t)group + (size_t)(c % group)] =
          (uint8_t)layer->weights[(size_t)c * (size_t)taps + (size_t)tap];
}

void braid_constants_fill(const braid_overlay_network *network, const braid_overlay_design *design,
                          const braid_ddr_layout *layout, uint8_t *out) {
  for (size_t i = 0; i < network->layer_count; i++) {
    const braid_overlay_layer *layer = &network->layers[i];
    if (layer->kind == BRAID_OVERLAY_CONV) fill_weights(layer, design, out + layout->weights[i] * BRAID_ISA_WORD);
    if (layer->kind == BRAID_OVERLAY_DEPTHWISE)
      fill_depthwise(layer, design, out + layout->weights[i] * BRAID_ISA_WORD);
    uint8_t *biases = out + layout->biases[i] * BRAID_ISA_WORD;
    for (int32_t c = 0; layer_convolves(layer) && c < layer->out_channels; c++)
      for (int byte = 0; byte < 4; byte++) biases[4 * c + byte] = (uint8_t)((uint32_t)layer->biases[c] >> (8 * byte));
  }
}

braid_status braid_ddr_layout_make(const braid_overlay_network *network, const braid_overlay_design *design,
                                   braid_arena *arena, braid_ddr_layout *out) {
  memset(out, 0, sizeof *out);
  out->maps = braid_arena_alloc(arena, (network->map_count + 1) * sizeof *out->maps);
  out->skipped = braid_arena_alloc(arena, (network->layer_count + 1) * sizeof *out->skipped);
  out->weights = braid_arena_alloc(arena, (network->layer_count + 1) * sizeof *out->weights);
  out->biases = braid_arena_alloc(arena, (network->layer_count + 1) * sizeof *out->biases);
  if (!out->maps || !out->skipped || !out->weights || !out->biases) return BRAID_NO_MEMORY;
  for (size_t m = 0; m < network->map_count; m++) {
    out->maps[m].within = -1;
    out->maps[m].to = -1;
  }
  place_within(network, out);
  for (size_t i = 0; i < network->layer_count; i++) {
    const braid_overlay_layer *layer = &network->layers[i];
    if (out->skipped[i]) continue;
    live_at(out, layer->x, (int64_t)i);
    live_at(out, layer->y, (int64_t)i);
    if (layer->other >= 0) live_at(out, layer->other, (int64_t)i);
  }
  BRAID_TRY(place_maps(network, arena, out));
  return place_constants(network, design, out);
}

/* --- layers --------------------------------------------------------------------------------------------------------
 */
static braid_layer_map view_of(const braid_overlay_network *network, const braid_ddr_layout *layout, int32_t map,
                               int32_t channel) {
  const braid_overlay_map *m = &network->maps[map];
  braid_layer_map view = {.segment = layout->maps[map].segment, .rows = m->rows, .columns = m->columns};
  view.plane_lines = (int64_t)m->rows * m->columns;
  view.row_lines = m->columns;
  view.line = layout->maps[map].line + channel / BRAID_OVERLAY_PLANE * view.plane_lines;
  return view;
}

static void set_base(const braid_overlay_layer *layer, const braid_overlay_window *w, braid_instruction *out) {
  static const braid_isa_misc_function kFunctions[BRAID_OVERLAY_KINDS] = {
      [BRAID_OVERLAY_MAX] = BRAID_ISA_MAX,
      [BRAID_OVERLAY_MEAN] = BRAID_ISA_MEAN,
      [BRAID_OVERLAY_ADD] = BRAID_ISA_SUM,
      [BRAID_OVERLAY_COPY] = BRAID_ISA_COPY,
  };
  bool conv = layer_convolves(layer), other = layer->other >= 0;
  *out = braid_isa_blank(conv ? BRAID_ISA_OP_CONV : BRAID_ISA_OP_MISC);
  braid_isa_misc *shared = &out->misc; /* CONV begins with the same fields */
  shared->kernel_rows = w->kernel_rows;
  shared->kernel_columns = w->kernel_columns;
  shared->stride_rows = w->stride_rows;
  shared->stride_columns = w->stride_columns;
  shared->dilation_rows = w->dilation_rows;
  shared->dilation_columns = w->dilation_columns;
  shared->low = layer->low;
  shared->high = layer->high;
  if (conv) {
    out->conv.depthwise = layer->kind == BRAID_OVERLAY_DEPTHWISE;
    out->conv.shift = layer->shift;
    out->conv.half_up = layer->half_up;
    out->conv.residual = other;
    if (!other) return;
    out->conv.round_first = layer->rounds_first;
    out->conv.sum_left = layer->left;
    out->conv.addend_left = layer->other_left;
    if (layer->rounds_first) out->conv.add_shift = layer->add_shift;
    return;
  }
  out->misc.function = (int32_t)kFunctions[layer->kind];
  out->misc.left = layer->left;
  out->misc.shift = layer->shift;
  out->misc.half_up = layer->half_up;
  if (other) out->misc.addend_left = layer->other_left;
}

/* One row of taps sees every stride-th row only: the others are not loaded. */
static void skip_rows(braid_layer_work *work) {
  braid_overlay_window *w = &work->window;
  if (w->kernel_rows != 1 || w->stride_rows == 1 || w->pad_top != 0 || work->mean) return;
  work->x.rows = braid_ceil(work->x.rows, w->stride_rows);
  work->x.row_lines *= w->stride_rows;
  w->stride_rows = 1;
}

braid_status braid_layer_work_of(const braid_overlay_network *network, const braid_overlay_design *design,
                                 const braid_ddr_layout *layout, size_t index, braid_layer_work *out) {
  const braid_overlay_layer *layer = &network->layers[index];
  bool conv = layer_convolves(layer);
  memset(out, 0, sizeof *out);
  if (layer->x_channel % BRAID_OVERLAY_PLANE || layer->y_channel % BRAID_OVERLAY_PLANE)
    return braid_fail(BRAID_UNSUPPORTED,
                      "it begins at channel %d of its input and %d of its result; both must be multiples of %d",
                      layer->x_channel, layer->y_channel, BRAID_OVERLAY_PLANE);
  if ((layer->kind == BRAID_OVERLAY_ADD) != (layer->other >= 0) && !conv)
    return braid_fail(BRAID_UNSUPPORTED, "only convolutions and sums take a second map");
  out->design = design;
  out->window = layer->window;
  out->x = view_of(network, layout, layer->x, layer->x_channel);
  out->y = view_of(network, layout, layer->y, layer->y_channel);
  out->side = !conv;
  out->own = layer->kind != BRAID_OVERLAY_CONV;
  out->has_other = layer->other >= 0;
  if (out->has_other) out->other = view_of(network, layout, layer->other, 0);
  out->mean = layer->kind == BRAID_OVERLAY_MEAN;
  out->counts_padding = layer->counts_padding;
  out->in_channels = layer->in_channels;
  out->out_channels = layer->out_channels;
  out->unit = braid_layer_unit(layer, design);
  out->weights = layout->weights[index];
  out->biases = layout->biases[index];
  skip_rows(out);
  set_base(layer, &out->window, &out->base);
  return BRAID_OK;
}
