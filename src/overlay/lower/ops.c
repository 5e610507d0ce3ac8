/* The ops that the overlay computes: what each asks for, and what it adds to the drafts. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "base/vector.h"
#include "graph/rewrite.h"
#include "overlay/lower/operands.h"

/* --- QuantizeLinear, DequantizeLinear ------------------------------------------------------------------------------
 */
static braid_status check_steps(braid_overlay_lowering *l, braid_node_id id, braid_dtype from, braid_dtype to) {
  braid_overlay_form x, y;
  int32_t exponent;
  if (braid_attr_int(&braid_overlay_node(l, id)->attrs, "block_size", 0))
    return braid_overlay_refuse(l, id, "it has a scale for each block");
  BRAID_TRY(braid_overlay_operand(l, id, 0, from, &x));
  BRAID_TRY(braid_overlay_result(l, id, to, &y));
  if (x.batch != y.batch || braid_overlay_form_count(&x) != braid_overlay_form_count(&y))
    return braid_overlay_refuse(l, id, "its result has another shape than its operand");
  return braid_overlay_read_scale(l, id, &exponent);
}

static braid_status check_quantize(braid_overlay_lowering *l, braid_node_id id) {
  return check_steps(l, id, BRAID_F32, BRAID_I8);
}

static braid_status check_dequantize(braid_overlay_lowering *l, braid_node_id id) {
  return check_steps(l, id, BRAID_I8, BRAID_F32);
}

/* A map whose contents come from outside, as `value`; it is known by `bytes`. */
static braid_status add_input(braid_overlay_lowering *l, braid_node_id id, braid_value_id value, bool real,
                              braid_value_id bytes, int32_t exponent) {
  braid_overlay_form form;
  int32_t map;
  BRAID_TRY(braid_overlay_form_of(l, id, &braid_overlay_value(l, bytes)->desc, &form));
  BRAID_TRY(braid_overlay_add_map(l, id, &form, exponent, bytes, &map));
  braid_overlay_port *grown =
      braid_grow(l->allocator, l->inputs, l->input_count, &l->input_capacity, sizeof *l->inputs);
  if (!grown) return BRAID_NO_MEMORY;
  l->inputs = grown;
  l->inputs[l->input_count++] =
      (braid_overlay_port){.value = value, .map = map, .real = real, .low = -128, .high = 127};
  l->known[bytes] = (braid_overlay_known){BRAID_OVERLAY_BYTES, map};
  return BRAID_OK;
}

static braid_status walk_quantize(braid_overlay_lowering *l, braid_node_id id) {
  const braid_node *node = braid_overlay_node(l, id);
  braid_value_id bytes = node->outputs[0];
  braid_overlay_known known = braid_overlay_known_of(l, id, 0);
  braid_overlay_draft *draft;
  int32_t exponent, map;
  BRAID_TRY(braid_overlay_read_scale(l, id, &exponent));
  switch (known.meaning) {
  case BRAID_OVERLAY_FOREIGN:
    return add_input(l, id, node->inputs[0], true, bytes, exponent);
  case BRAID_OVERLAY_BYTES:
    return braid_overlay_refuse(l, id, "its operand is bytes");
  case BRAID_OVERLAY_REAL:
    if (l->maps[known.at].exponent == exponent) { /* the same bytes again */
      l->known[bytes] = (braid_overlay_known){BRAID_OVERLAY_BYTES, known.at};
      return BRAID_OK;
    }
    BRAID_TRY(braid_overlay_begin_draft(l, id, BRAID_OVERLAY_COPY, known.at, &draft));
    break;
  case BRAID_OVERLAY_DRAFT:
    BRAID_TRY(braid_overlay_go_on(l, id, 0, &draft));
    break;
  }
  if (draft->entry >= 0) {
    draft->done = true;
    BRAID_TRY(add_input(l, id, draft->entry, true, bytes, exponent));
    l->inputs[l->input_count - 1].low = braid_overlay_bound(draft->low, exponent);
    l->inputs[l->input_count - 1].high = braid_overlay_bound(draft->high, exponent);
    return BRAID_OK;
  }
  braid_overlay_form form;
  BRAID_TRY(braid_overlay_result(l, id, BRAID_I8, &form));
  if (braid_overlay_form_count(&form) != braid_overlay_form_count(&draft->form))
    return braid_overlay_refuse(l, id, "its shape is not that of what it quantizes");
  BRAID_TRY(braid_overlay_finish(l, draft, exponent, bytes, &map));
  l->known[bytes] = (braid_overlay_known){BRAID_OVERLAY_BYTES, map};
  return BRAID_OK;
}

static braid_status walk_dequantize(braid_overlay_lowering *l, braid_node_id id) {
  braid_value_id bytes = braid_overlay_node(l, id)->inputs[0];
  int32_t exponent;
  BRAID_TRY(braid_overlay_read_scale(l, id, &exponent));
  if (l->known[bytes].meaning == BRAID_OVERLAY_FOREIGN) BRAID_TRY(add_input(l, id, bytes, false, bytes, exponent));
  braid_overlay_known known = l->known[bytes];
  if (known.meaning != BRAID_OVERLAY_BYTES) return braid_overlay_refuse(l, id, "its operand is no bytes");
  if (l->maps[known.at].exponent != exponent)
    return braid_overlay_refuse(l, id, "its scale 2^%d is not that by which the bytes were quantized, 2^%d", exponent,
                                l->maps[known.at].exponent);
  braid_overlay_set_known(l, id, BRAID_OVERLAY_REAL, known.at);
  return BRAID_OK;
}

/* --- other shapes --------------------------------------------------------------------------------------------------
 */
static braid_status check_view(braid_overlay_lowering *l, braid_node_id id) {
  braid_overlay_form x, y;
  const braid_node *node = braid_overlay_node(l, id);
  braid_value_id operand = braid_node_input(node, 0);
  braid_dtype dtype = operand >= 0 ? braid_overlay_value(l, operand)->desc.dtype : BRAID_NONE;
  BRAID_TRY(braid_overlay_operand(l, id, 0, dtype == BRAID_I8 ? BRAID_I8 : BRAID_F32, &x));
  BRAID_TRY(braid_overlay_result(l, id, dtype, &y));
  return x.batch == y.batch && braid_overlay_form_count(&x) == braid_overlay_form_count(&y)
             ? BRAID_OK
             : braid_overlay_refuse(l, id, "it mixes the images of a batch");
}

static braid_status walk_view(braid_overlay_lowering *l, braid_node_id id) {
  braid_overlay_known known = braid_overlay_known_of(l, id, 0);
  braid_overlay_draft *draft;
  if (known.meaning == BRAID_OVERLAY_FOREIGN) return braid_overlay_refuse(l, id, "its operand is not quantized");
  if (known.meaning == BRAID_OVERLAY_DRAFT) BRAID_TRY(braid_overlay_go_on(l, id, 0, &draft));
  braid_overlay_set_known(l, id, known.meaning, known.at);
  return BRAID_OK;
}

/* --- convolutions and products -------------------------------------------------------------------------------------
 */
static braid_status conv_window(braid_overlay_lowering *l, braid_node_id id, braid_convolution *conv,
                                braid_overlay_window *window) {
  const braid_node *node = braid_overlay_node(l, id);
  const braid_desc *x = &braid_overlay_value(l, node->inputs[0])->desc,
                   *w = &braid_overlay_value(l, node->inputs[1])->desc;
  if (x->rank < 3 || x->rank > 4 || w->rank != x->rank)
    return braid_overlay_refuse(l, id, "it is no convolution of one or two dimensions");
  if (braid_geometry_conv(&node->attrs, x, w, conv) != BRAID_OK) return braid_overlay_geometry_failed(l, id);
  return braid_overlay_take_window(l, id, &conv->window, false, window);
}

/* Operand, constant weights, result, and at most a bias behind. */
static braid_status check_weighted(braid_overlay_lowering *l, braid_node_id id) {
  const braid_node *node = braid_overlay_node(l, id);
  BRAID_TRY(braid_overlay_check_plain(l, id));
  if (braid_node_input(node, 1) < 0 || !braid_overlay_is_constant(l, node->inputs[1]))
    return braid_overlay_refuse(l, id, "its weights are not constant");
  if (braid_node_input(node, 2) >= 0 && !braid_overlay_is_constant(l, node->inputs[2]))
    return braid_overlay_refuse(l, id, "its bias is not constant");
  return braid_overlay_check_weights(l, id, node->inputs[1]);
}

static braid_status check_conv(braid_overlay_lowering *l, braid_node_id id) {
  braid_convolution conv;
  braid_overlay_window window;
  BRAID_TRY(check_weighted(l, id));
  return conv_window(l, id, &conv, &window);
}

static braid_status walk_conv(braid_overlay_lowering *l, braid_node_id id) {
  const braid_node *node = braid_overlay_node(l, id);
  braid_convolution conv;
  braid_overlay_window window;
  braid_overlay_draft *draft;
  int32_t x;
  BRAID_TRY(braid_overlay_take_map(l, id, 0, true, &x));
  BRAID_TRY(conv_window(l, id, &conv, &window));
  BRAID_TRY(braid_overlay_begin_draft(l, id, BRAID_OVERLAY_CONV, x, &draft));
  braid_overlay_form form;
  BRAID_TRY(braid_overlay_result(l, id, BRAID_F32, &form));
  draft->form = form;
  draft->window = window;
  if (conv.groups < 1 || conv.inputs != l->maps[x].channels || conv.outputs != form.channels)
    return braid_overlay_refuse(l, id, "its channels do not fit its operand and result");
  draft->groups = conv.groups;
  draft->weights = node->inputs[1];
  braid_overlay_take_bias(draft, braid_node_input(node, 2));
  return BRAID_OK;
}

static braid_status check_product(braid_overlay_lowering *l, braid_node_id id) {
  const braid_node *node = braid_overlay_node(l, id);
  const braid_attrs *attrs = &node->attrs;
  BRAID_TRY(check_weighted(l, id));
  const braid_desc *a = &braid_overlay_value(l, node->inputs[0])->desc,
                   *b = &braid_overlay_value(l, node->inputs[1])->desc;
  if (a->rank != 2 || b->rank != 2) return braid_overlay_refuse(l, id, "its operands are no matrices");
  if (braid_attr_int(attrs, "transA", 0) != 0 || braid_attr_float(attrs, "alpha", 1) != 1 ||
      (braid_node_is(node, "Gemm") && braid_attr_float(attrs, "beta", 1) != 1))
    return braid_overlay_refuse(l, id, "transA, alpha or beta change its operands");
  bool turned = braid_attr_int(attrs, "transB", 0) == 0;
  return b->dims[turned ? 0 : 1] == a->dims[1] ? BRAID_OK
                                               : braid_overlay_refuse(l, id, "its operands do not fit each other");
}

/* A product with a flattened map is a convolution whose window is the whole map: the flat order is channel, row,
 * column, which is that of the weights of one output channel. */
static braid_status walk_product(braid_overlay_lowering *l, braid_node_id id) {
  const braid_node *node = braid_overlay_node(l, id);
  braid_overlay_draft *draft;
  int32_t x;
  BRAID_TRY(braid_overlay_take_map(l, id, 0, false, &x));
  if (braid_overlay_map_bytes(&l->maps[x]) != braid_overlay_value(l, node->inputs[0])->desc.dims[1])
    return braid_overlay_refuse(l, id, "its operand has another shape than what was quantized");
  BRAID_TRY(braid_overlay_begin_draft(l, id, BRAID_OVERLAY_CONV, x, &draft));
  braid_overlay_form form;
  BRAID_TRY(braid_overlay_result(l, id, BRAID_F32, &form));
  draft->form = form;
  draft->window.kernel_rows = l->maps[x].rows;
  draft->window.kernel_columns = l->maps[x].columns;
  draft->weights = node->inputs[1];
  draft->turned = braid_attr_int(&node->attrs, "transB", 0) == 0;
  braid_overlay_take_bias(draft, braid_node_input(node, 2));
  return BRAID_OK;
}

/* --- the table -----------------------------------------------------------------------------------------------------
 */
static const braid_overlay_op kOps[] = {{"QuantizeLinear", check_quantize, walk_quantize},
                                        {"DequantizeLinear", check_dequantize, walk_dequantize},
                                        {"Conv", check_conv, walk_conv},
                                        {"Gemm", check_product, walk_product},
                                        {"MatMul", check_product, walk_product},
                                        {"MaxPool", braid_overlay_check_max, braid_overlay_walk_max},
                                        {"GlobalMaxPool", braid_overlay_check_max, braid_overlay_walk_max},
                                        {"AveragePool", braid_overlay_check_mean, braid_overlay_walk_mean},
                                        {"GlobalAveragePool", braid_overlay_check_mean, braid_overlay_walk_mean},
                                        {"Add", braid_overlay_check_add, braid_overlay_walk_add},
                                        {"Concat", braid_overlay_check_concat, braid_overlay_walk_concat},
                                        {"Relu", braid_overlay_check_clamp, braid_overlay_walk_clamp},
                                        {"Clip", braid_overlay_check_clamp, braid_overlay_walk_clamp},
                                        {"Slice", braid_overlay_check_move, braid_overlay_walk_move},
                                        {"Pad", braid_overlay_check_move, braid_overlay_walk_move},
                                        {"Flatten", check_view, walk_view},
                                        {"Reshape", check_view, walk_view},
                                        {"Squeeze", check_view, walk_view},
                                        {"Unsqueeze", check_view, walk_view},
                                        {"Identity", check_view, walk_view}};

const braid_overlay_op *braid_overlay_find_op(const char *name) {
  for (size_t i = 0; i < sizeof kOps / sizeof *kOps; i++)
    if (strcmp(kOps[i].name, name) == 0) return &kOps[i];
  return NULL;
}
