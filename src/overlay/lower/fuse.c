/* Layers that others take in. A copy without a shift (an activation behind a QuantizeLinear, a part of a larger map) is
 * done by what writes its operand; a sum of two maps by the convolution that computes one of them, which rounds to 8
 * bits first, as the graph does. Only where nothing else reads what then is not there any more. */
#include <string.h>

#include "base/try.h"
#include "overlay/lower/internal.h"

typedef struct fuser {
  braid_overlay_lowering *l;
  int32_t *readers, *writers, *last_writer; /* of each map; ports count as readers */
  bool *input;                              /* of each map: it comes from outside */
  bool *aligned;                            /* of each map: all of its parts begin at planes */
  bool *gone;                               /* of each layer */
} fuser;

static void fuser_deinit(fuser *f) {
  braid_free(f->l->allocator, f->readers);
  braid_free(f->l->allocator, f->writers);
  braid_free(f->l->allocator, f->last_writer);
  braid_free(f->l->allocator, f->input);
  braid_free(f->l->allocator, f->aligned);
  braid_free(f->l->allocator, f->gone);
}

static void count_layer(fuser *f, size_t index, int32_t by) {
  const braid_overlay_layer *layer = &f->l->layers[index];
  f->readers[layer->x] += by;
  if (layer->other >= 0) f->readers[layer->other] += by;
  f->writers[layer->y] += by;
  if (by > 0) f->last_writer[layer->y] = (int32_t)index;
}

static braid_status fuser_init(fuser *f, braid_overlay_lowering *l) {
  size_t maps = l->map_count + 1;
  *f = (fuser){.l = l};
  f->readers = braid_zalloc_array(l->allocator, maps, sizeof *f->readers);
  f->writers = braid_zalloc_array(l->allocator, maps, sizeof *f->writers);
  f->last_writer = braid_zalloc_array(l->allocator, maps, sizeof *f->last_writer);
  f->input = braid_zalloc_array(l->allocator, maps, sizeof *f->input);
  f->aligned = braid_zalloc_array(l->allocator, maps, sizeof *f->aligned);
  f->gone = braid_zalloc_array(l->allocator, l->layer_count + 1, sizeof *f->gone);
  if (!f->readers || !f->writers || !f->last_writer || !f->input || !f->aligned || !f->gone) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < l->map_count; i++) f->aligned[i] = true;
  for (size_t i = 0; i < l->layer_count; i++) {
    count_layer(f, i, 1);
    if (l->layers[i].y_channel % BRAID_OVERLAY_PLANE != 0) f->aligned[l->layers[i].y] = false;
  }
  for (size_t i = 0; i < l->input_count; i++) f->input[l->inputs[i].map] = true;
  for (size_t i = 0; i < l->output_count; i++) f->readers[l->outputs[i].map]++;
  return BRAID_OK;
}

static int32_t clip(int32_t number, int32_t low, int32_t high) {
  number = number > low ? number : low;
  return number < high ? number : high;
}

static bool is_whole(const fuser *f, const braid_overlay_layer *layer) {
  return layer->y_channel == 0 && layer->out_channels == f->l->maps[layer->y].channels;
}

/* --- copies --------------------------------------------------------------------------------------------------------
 */
static bool can_take_copy(const fuser *f, const braid_overlay_layer *copy) {
  return copy->kind == BRAID_OVERLAY_COPY && !copy->shift && !copy->left && f->readers[copy->x] == 1 &&
         f->writers[copy->x] > 0 && !f->input[copy->x] && (is_whole(f, copy) || f->aligned[copy->y]);
}

static void take_copy(fuser *f, size_t index) {
  const braid_overlay_layer copy = f->l->layers[index];
  count_layer(f, index, -1);
  f->gone[index] = true;
  for (size_t i = (size_t)f->last_writer[copy.x] + 1; i-- > 0 && f->writers[copy.x] > 0;) {
    braid_overlay_layer *layer = &f->l->layers[i];
    if (f->gone[i] || layer->y != copy.x) continue;
    count_layer(f, i, -1);
    layer->low = clip(layer->low, copy.low, copy.high);
    layer->high = clip(layer->high, copy.low, copy.high);
    layer->y = copy.y;
    layer->y_channel += copy.y_channel;
    count_layer(f, i, 1);
  }
}

/* --- sums ----------------------------------------------------------------------------------------------------------
 */
/* The layer that alone writes an operand of a sum, if it can add the other; -1. */
static int32_t find_writer(const fuser *f, int32_t map) {
  if (f->readers[map] != 1 || f->writers[map] != 1 || f->input[map]) return -1;
  const braid_overlay_layer *writer = &f->l->layers[f->last_writer[map]];
  bool conv = writer->kind == BRAID_OVERLAY_CONV || writer->kind == BRAID_OVERLAY_DEPTHWISE;
  bool free = writer->other < 0 && writer->low == -128 && writer->high == 127 && is_whole(f, writer);
  return conv && free ? f->last_writer[map] : -1;
}

static void take_sum(fuser *f, size_t index) {
  braid_overlay_layer *sum = &f->l->layers[index];
  if (sum->kind != BRAID_OVERLAY_ADD || sum->x == sum->other) return;
  int32_t first = find_writer(f, sum->x), second = find_writer(f, sum->other);
  if (first < 0 && second < 0) return;
  bool swapped = second > first; /* the later one: what it adds is there */
  int32_t at = swapped ? second : first;
  braid_overlay_layer layer = f->l->layers[at];
  layer.rounds_first = true;
  layer.other = swapped ? sum->x : sum->other;
  layer.left = swapped ? sum->other_left : sum->left;
  layer.other_left = swapped ? sum->left : sum->other_left;
  layer.add_shift = sum->shift;
  layer.low = sum->low;
  layer.high = sum->high;
  layer.y = sum->y;
  layer.y_channel = sum->y_channel;
  count_layer(f, index, -1);
  count_layer(f, (size_t)at, -1);
  f->gone[at] = true;
  *sum = layer;
  count_layer(f, index, 1);
}

/* --- what is left --------------------------------------------------------------------------------------------------
 */
static void drop_layers(const fuser *f) {
  size_t kept = 0;
  for (size_t i = 0; i < f->l->layer_count; i++)
    if (!f->gone[i]) f->l->layers[kept++] = f->l->layers[i];
  f->l->layer_count = kept;
}

/* Maps that nothing reads or writes go; `readers` becomes their new numbers. */
static void drop_maps(const fuser *f) {
  braid_overlay_lowering *l = f->l;
  int32_t kept = 0;
  for (size_t i = 0; i < l->map_count; i++) {
    bool used = f->readers[i] > 0 || f->writers[i] > 0 || f->input[i];
    f->readers[i] = used ? kept : -1;
    if (used) l->maps[kept++] = l->maps[i];
  }
  l->map_count = (size_t)kept;
  for (size_t i = 0; i < l->layer_count; i++) {
    l->layers[i].x = f->readers[l->layers[i].x];
    l->layers[i].y = f->readers[l->layers[i].y];
    if (l->layers[i].other >= 0) l->layers[i].other = f->readers[l->layers[i].other];
  }
  for (size_t i = 0; i < l->input_count; i++) l->inputs[i].map = f->readers[l->inputs[i].map];
  for (size_t i = 0; i < l->output_count; i++) l->outputs[i].map = f->readers[l->outputs[i].map];
}

braid_status braid_overlay_fuse(braid_overlay_lowering *l) {
  fuser f;
  braid_status status = fuser_init(&f, l);
  for (size_t i = 0; status == BRAID_OK && i < l->layer_count; i++)
    if (can_take_copy(&f, &l->layers[i])) take_copy(&f, i);
  for (size_t i = 0; status == BRAID_OK && i < l->layer_count; i++)
    if (!f.gone[i]) take_sum(&f, i);
  if (status == BRAID_OK) {
    drop_layers(&f);
    drop_maps(&f);
  }
  fuser_deinit(&f);
  return status;
}
