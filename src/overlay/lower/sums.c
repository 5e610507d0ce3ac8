/* Sums, concatenations and activations; biases that stand behind what they belong to. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "base/vector.h"
#include "graph/rewrite.h"
#include "overlay/lower/operands.h"

braid_status braid_overlay_check_add(braid_overlay_lowering *l, braid_node_id id) {
  const braid_node *node = braid_overlay_node(l, id);
  braid_overlay_form y;
  BRAID_TRY(braid_overlay_result(l, id, BRAID_F32, &y));
  for (size_t i = 0; i < 2; i++) {
    braid_overlay_form x;
    braid_value_id operand = braid_node_input(node, i), other = braid_node_input(node, 1 - i);
    if (braid_overlay_is_constant(l, operand) && braid_overlay_is_constant(l, other))
      return braid_overlay_refuse(l, id, "it adds constants");
    if (braid_overlay_is_constant(l, operand)) continue;
    BRAID_TRY(braid_overlay_operand(l, id, i, BRAID_F32, &x));
    if (!braid_desc_same_shape(&braid_overlay_value(l, operand)->desc, &braid_overlay_value(l, node->outputs[0])->desc))
      return braid_overlay_refuse(l, id, "its operands have different shapes");
  }
  return BRAID_OK;
}

/* One number for all, or for each channel: [C], of rank 4 [C, 1, 1]. */
static bool is_by_channel(const braid_overlay_lowering *l, braid_value_id id, const braid_desc *result) {
  const braid_desc *desc = &braid_overlay_value(l, id)->desc;
  int64_t count = desc->rank >= 0 ? braid_desc_count(desc) : 0;
  int at = 1 + desc->rank - result->rank; /* the dimension of desc that lies at the result's channels */
  return count == 1 || (at >= 0 && at < desc->rank && desc->dims[at] == count && count == result->dims[1]);
}

static braid_status walk_bias(braid_overlay_lowering *l, braid_node_id id, size_t constant) {
  const braid_node *node = braid_overlay_node(l, id);
  braid_value_id bias = node->inputs[constant];
  braid_overlay_known known = braid_overlay_known_of(l, id, 1 - constant);
  braid_overlay_draft *draft;
  if (known.meaning != BRAID_OVERLAY_DRAFT)
    return braid_overlay_refuse(l, id, "a constant is added, but not to what a convolution or product computes");
  BRAID_TRY(braid_overlay_go_on(l, id, 1 - constant, &draft));
  bool open = !draft->clamped && !draft->moves && draft->other < 0 &&
              (draft->kind == BRAID_OVERLAY_CONV ? draft->bias_count < 2
                                                 : draft->kind == BRAID_OVERLAY_MEAN && !draft->bias_count);
  const braid_desc *result = &braid_overlay_value(l, node->outputs[0])->desc;
  if (!open || !is_by_channel(l, bias, result) || result->dims[1] != draft->form.channels)
    return braid_overlay_refuse(l, id, "what it adds is no bias");
  braid_overlay_take_bias(draft, bias);
  braid_overlay_set_known(l, id, BRAID_OVERLAY_DRAFT, known.at);
  return BRAID_OK;
}

/* Of a convolution whose sums are not rounded before. */
static braid_status walk_sum_of_draft(braid_overlay_lowering *l, braid_node_id id, size_t index) {
  braid_overlay_known known = braid_overlay_known_of(l, id, index);
  braid_overlay_draft *draft;
  int32_t other;
  BRAID_TRY(braid_overlay_take_map(l, id, 1 - index, false, &other));
  BRAID_TRY(braid_overlay_go_on(l, id, index, &draft));
  bool open = !draft->clamped && !draft->moves && draft->other < 0;
  if (draft->kind != BRAID_OVERLAY_CONV || !open || !braid_overlay_same_form(&l->maps[other], &draft->form))
    return braid_overlay_refuse(l, id, "it adds a map to what is not quantized and no convolution's sum");
  draft->other = other;
  braid_overlay_set_known(l, id, BRAID_OVERLAY_DRAFT, known.at);
  return BRAID_OK;
}

braid_status braid_overlay_walk_add(braid_overlay_lowering *l, braid_node_id id) {
  const braid_node *node = braid_overlay_node(l, id);
  for (size_t i = 0; i < 2; i++)
    if (braid_overlay_is_constant(l, node->inputs[i])) return walk_bias(l, id, i);
  for (size_t i = 0; i < 2; i++)
    if (braid_overlay_known_of(l, id, i).meaning == BRAID_OVERLAY_DRAFT) return walk_sum_of_draft(l, id, i);
  braid_overlay_draft *draft;
  int32_t x, other;
  BRAID_TRY(braid_overlay_take_map(l, id, 0, false, &x));
  BRAID_TRY(braid_overlay_take_map(l, id, 1, false, &other));
  const braid_overlay_map *map = &l->maps[x];
  if (!braid_overlay_same_form(&l->maps[other], &(braid_overlay_form){0, map->channels, map->rows, map->columns}))
    return braid_overlay_refuse(l, id, "its operands were quantized in different shapes");
  BRAID_TRY(braid_overlay_begin_draft(l, id, BRAID_OVERLAY_ADD, x, &draft));
  draft->other = other;
  return BRAID_OK;
}

braid_status braid_overlay_check_concat(braid_overlay_lowering *l, braid_node_id id) {
  const braid_node *node = braid_overlay_node(l, id);
  braid_overlay_form x, y;
  BRAID_TRY(braid_overlay_result(l, id, BRAID_F32, &y));
  int64_t axis = braid_attr_int(&node->attrs, "axis", 0), rank = braid_overlay_value(l, node->outputs[0])->desc.rank;
  if ((axis < 0 ? axis + rank : axis) != 1) return braid_overlay_refuse(l, id, "it does not join channels");
  if (!node->input_count) return braid_overlay_refuse(l, id, "it joins nothing");
  for (size_t i = 0; i < node->input_count; i++) BRAID_TRY(braid_overlay_operand(l, id, i, BRAID_F32, &x));
  return BRAID_OK;
}

braid_status braid_overlay_walk_concat(braid_overlay_lowering *l, braid_node_id id) {
  const braid_node *node = braid_overlay_node(l, id);
  int32_t *parts = braid_zalloc_array(l->allocator, node->input_count, sizeof *parts);
  if (!parts) return BRAID_NO_MEMORY;
  braid_status status = BRAID_OK;
  int64_t channels = 0;
  for (size_t i = 0; status == BRAID_OK && i < node->input_count; i++) {
    status = braid_overlay_take_map(l, id, i, false, &parts[i]);
    if (status != BRAID_OK) break;
    const braid_overlay_map *map = &l->maps[parts[i]], *first = &l->maps[parts[0]];
    channels += map->channels;
    if (map->rows != first->rows || map->columns != first->columns || channels > BRAID_OVERLAY_MOST_SIDE)
      status = braid_overlay_refuse(l, id, "its operands were quantized in shapes that are not joined by channels");
  }
  braid_overlay_draft *draft = NULL;
  if (status == BRAID_OK) status = braid_overlay_begin_draft(l, id, BRAID_OVERLAY_COPY, parts[0], &draft);
  if (status != BRAID_OK) {
    braid_free(l->allocator, parts);
    return status;
  }
  draft->joins = true;
  draft->parts = parts;
  draft->part_count = node->input_count;
  draft->form.channels = (int32_t)channels;
  return BRAID_OK;
}

static braid_status read_bounds(braid_overlay_lowering *l, braid_node_id id, double *low, double *high) {
  *low = 0;
  *high = (double)INFINITY;
  if (braid_node_is(braid_overlay_node(l, id), "Relu")) return BRAID_OK;
  BRAID_TRY(braid_overlay_read_number(l, id, 1, -(double)INFINITY, low));
  return braid_overlay_read_number(l, id, 2, (double)INFINITY, high);
}

braid_status braid_overlay_check_clamp(braid_overlay_lowering *l, braid_node_id id) {
  double low, high;
  BRAID_TRY(braid_overlay_check_plain(l, id));
  return read_bounds(l, id, &low, &high);
}

/* The least of `high` and the greatest of `low` and x, as ONNX has it where the bounds are the wrong way round. */
braid_status braid_overlay_walk_clamp(braid_overlay_lowering *l, braid_node_id id) {
  braid_overlay_known known = braid_overlay_known_of(l, id, 0);
  braid_overlay_draft *draft;
  double low, high;
  int32_t x;
  BRAID_TRY(read_bounds(l, id, &low, &high));
  if (known.meaning == BRAID_OVERLAY_DRAFT) {
    BRAID_TRY(braid_overlay_go_on(l, id, 0, &draft));
    braid_overlay_set_known(l, id, BRAID_OVERLAY_DRAFT, known.at);
  } else if (known.meaning == BRAID_OVERLAY_FOREIGN) {
    BRAID_TRY(braid_overlay_begin_entry(l, id, &draft));
  } else {
    BRAID_TRY(braid_overlay_take_map(l, id, 0, false, &x));
    BRAID_TRY(braid_overlay_begin_draft(l, id, BRAID_OVERLAY_COPY, x, &draft));
  }
  draft->clamped = true;
  draft->low = fmin(fmax(draft->low, low), high);
  draft->high = fmin(fmax(draft->high, low), high);
  return BRAID_OK;
}
