#include "overlay/lower/operands.h"

#include <math.h>
#include <string.h>

#include "base/try.h"
#include "base/vector.h"
#include "graph/rewrite.h"

const braid_node *braid_overlay_node(const braid_overlay_lowering *l, braid_node_id id) {
  return &l->graph->nodes[id];
}

const braid_value *braid_overlay_value(const braid_overlay_lowering *l, braid_value_id id) {
  return &l->graph->values[id];
}

bool braid_overlay_is_constant(const braid_overlay_lowering *l, braid_value_id id) {
  return id >= 0 && braid_overlay_value(l, id)->kind != BRAID_VALUE_RESULT &&
         braid_overlay_value(l, id)->kind != BRAID_VALUE_INPUT;
}

braid_status braid_overlay_operand(braid_overlay_lowering *l, braid_node_id id, size_t index, braid_dtype dtype,
                                   braid_overlay_form *out) {
  braid_value_id operand = braid_node_input(braid_overlay_node(l, id), index);
  if (operand < 0) return braid_overlay_refuse(l, id, "input %zu is missing", index);
  if (braid_overlay_is_constant(l, operand)) return braid_overlay_refuse(l, id, "input %zu is constant", index);
  const braid_desc *desc = &braid_overlay_value(l, operand)->desc;
  if (desc->dtype != dtype)
    return braid_overlay_refuse(l, id, "input %zu is %s, not %s", index, braid_dtype_name(desc->dtype),
                                braid_dtype_name(dtype));
  return braid_overlay_form_of(l, id, desc, out);
}

braid_status braid_overlay_result(braid_overlay_lowering *l, braid_node_id id, braid_dtype dtype,
                                  braid_overlay_form *out) {
  const braid_node *node = braid_overlay_node(l, id);
  if (node->output_count < 1 || node->outputs[0] < 0) return braid_overlay_refuse(l, id, "it has no result");
  for (size_t i = 1; i < node->output_count; i++)
    if (node->outputs[i] >= 0) return braid_overlay_refuse(l, id, "it has a second result");
  const braid_desc *desc = &braid_overlay_value(l, node->outputs[0])->desc;
  if (desc->dtype != dtype)
    return braid_overlay_refuse(l, id, "its result is %s, not %s", braid_dtype_name(desc->dtype),
                                braid_dtype_name(dtype));
  return braid_overlay_form_of(l, id, desc, out);
}

braid_status braid_overlay_check_plain(braid_overlay_lowering *l, braid_node_id id) {
  braid_overlay_form x, y;
  BRAID_TRY(braid_overlay_operand(l, id, 0, BRAID_F32, &x));
  return braid_overlay_result(l, id, BRAID_F32, &y);
}

void braid_overlay_set_known(braid_overlay_lowering *l, braid_node_id id, braid_overlay_meaning meaning, int32_t at) {
  l->known[braid_overlay_node(l, id)->outputs[0]] = (braid_overlay_known){meaning, at};
}

braid_overlay_known braid_overlay_known_of(const braid_overlay_lowering *l, braid_node_id id, size_t input) {
  return l->known[braid_overlay_node(l, id)->inputs[input]];
}

int64_t braid_overlay_form_count(const braid_overlay_form *form) {
  return (int64_t)form->channels * form->rows * form->columns;
}

bool braid_overlay_same_form(const braid_overlay_map *map, const braid_overlay_form *form) {
  return map->channels == form->channels && map->rows == form->rows && map->columns == form->columns;
}

braid_status braid_overlay_take_map(braid_overlay_lowering *l, braid_node_id id, size_t index, bool formed,
                                    int32_t *out) {
  braid_overlay_known known = braid_overlay_known_of(l, id, index);
  if (known.meaning != BRAID_OVERLAY_REAL)
    return braid_overlay_refuse(l, id, "operand %zu is not behind a DequantizeLinear that the overlay computes", index);
  braid_overlay_form form;
  BRAID_TRY(braid_overlay_operand(l, id, index, BRAID_F32, &form));
  if (formed && !braid_overlay_same_form(&l->maps[known.at], &form))
    return braid_overlay_refuse(l, id, "operand %zu has another shape than what was quantized", index);
  *out = known.at;
  return BRAID_OK;
}

const braid_overlay_window braid_overlay_point = {.kernel_rows = 1,
                                                  .kernel_columns = 1,
                                                  .stride_rows = 1,
                                                  .stride_columns = 1,
                                                  .dilation_rows = 1,
                                                  .dilation_columns = 1};

static braid_status add_draft(braid_overlay_lowering *l, braid_node_id id, const braid_overlay_draft *draft,
                              braid_overlay_draft **out) {
  braid_overlay_draft *grown =
      braid_grow(l->allocator, l->drafts, l->draft_count, &l->draft_capacity, sizeof *l->drafts);
  if (!grown) return BRAID_NO_MEMORY;
  l->drafts = grown;
  braid_overlay_set_known(l, id, BRAID_OVERLAY_DRAFT, (int32_t)l->draft_count);
  *out = &l->drafts[l->draft_count++];
  **out = *draft;
  return BRAID_OK;
}

braid_status braid_overlay_begin_draft(braid_overlay_lowering *l, braid_node_id id, braid_overlay_kind kind, int32_t x,
                                       braid_overlay_draft **out) {
  const braid_overlay_map *map = &l->maps[x];
  return add_draft(l, id,
                   &(braid_overlay_draft){.kind = kind,
                                          .node = id,
                                          .entry = -1,
                                          .x = x,
                                          .other = -1,
                                          .form = {l->batch, map->channels, map->rows, map->columns},
                                          .window = braid_overlay_point,
                                          .groups = 1,
                                          .weights = -1,
                                          .biases = {-1, -1},
                                          .low = -(double)INFINITY,
                                          .high = (double)INFINITY},
                   out);
}

braid_status braid_overlay_begin_entry(braid_overlay_lowering *l, braid_node_id id, braid_overlay_draft **out) {
  braid_overlay_draft draft = {.kind = BRAID_OVERLAY_COPY,
                               .node = id,
                               .entry = braid_overlay_node(l, id)->inputs[0],
                               .x = -1,
                               .other = -1,
                               .low = -(double)INFINITY,
                               .high = (double)INFINITY};
  BRAID_TRY(braid_overlay_operand(l, id, 0, BRAID_F32, &draft.form));
  return add_draft(l, id, &draft, out);
}

braid_status braid_overlay_go_on(braid_overlay_lowering *l, braid_node_id id, size_t index, braid_overlay_draft **out) {
  braid_value_id value = braid_overlay_node(l, id)->inputs[index];
  *out = &l->drafts[l->known[value].at];
  if (l->uses[value] != 1)
    return braid_overlay_refuse(l, (*out)->node, "its result is read before it is quantized, by something else too");
  return BRAID_OK;
}

/* Every window has a number inside; in one dimension. */
static bool has_inside(const braid_window *w, int d) {
  for (int64_t o = 0; o < w->output[d]; o++) {
    int64_t at = o * w->stride[d] - w->begin[d];
    int64_t first = at >= 0 ? 0 : (-at + w->dilation[d] - 1) / w->dilation[d];
    if (first >= w->kernel[d] || at + first * w->dilation[d] >= w->input[d]) return false;
  }
  return true;
}

braid_status braid_overlay_take_window(braid_overlay_lowering *l, braid_node_id id, const braid_window *w, bool inside,
                                       braid_overlay_window *out) {
  const int64_t limit = BRAID_OVERLAY_MOST_SIDE;
  if (w->rank > 2) return braid_overlay_refuse(l, id, "it has %d spatial dimensions, 1 or 2 are possible", w->rank);
  for (int d = 1; d < 3; d++) {
    bool fits = w->kernel[d] <= limit && w->stride[d] <= limit && w->dilation[d] <= limit && w->output[d] >= 1 &&
                w->begin[d] <= limit && w->begin[d] >= -limit && w->end[d] <= limit && w->end[d] >= -limit;
    if (!fits) return braid_overlay_refuse(l, id, "its window, steps or pads are beyond 2^16");
    if (inside && !has_inside(w, d)) return braid_overlay_refuse(l, id, "a window of it sees padding alone");
  }
  *out = (braid_overlay_window){.kernel_rows = (int32_t)w->kernel[1],
                                .kernel_columns = (int32_t)w->kernel[2],
                                .stride_rows = (int32_t)w->stride[1],
                                .stride_columns = (int32_t)w->stride[2],
                                .dilation_rows = (int32_t)w->dilation[1],
                                .dilation_columns = (int32_t)w->dilation[2],
                                .pad_top = (int32_t)w->begin[1],
                                .pad_left = (int32_t)w->begin[2],
                                .pad_bottom = (int32_t)w->end[1],
                                .pad_right = (int32_t)w->end[2]};
  return BRAID_OK;
}

braid_status braid_overlay_geometry_failed(braid_overlay_lowering *l, braid_node_id id) {
  return braid_overlay_refuse(l, id, "%.140s", braid_error_detail());
}

void braid_overlay_take_bias(braid_overlay_draft *draft, braid_value_id bias) {
  if (bias >= 0) draft->biases[draft->bias_count++] = bias;
}
