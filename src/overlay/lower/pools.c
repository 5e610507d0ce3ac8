/* Pools: the greatest and the mean of windows. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "base/vector.h"
#include "graph/rewrite.h"
#include "overlay/lower/operands.h"

static bool is_global(const braid_node *node) {
  return strncmp(node->op->name, "Global", 6) == 0;
}

static braid_status pool_window(braid_overlay_lowering *l, braid_node_id id, braid_overlay_window *window) {
  const braid_node *node = braid_overlay_node(l, id);
  const braid_desc *x = &braid_overlay_value(l, node->inputs[0])->desc;
  braid_overlay_form form;
  if (x->rank < 3 || x->rank > 4) return braid_overlay_refuse(l, id, "it is no pool of one or two dimensions");
  BRAID_TRY(braid_overlay_form_of(l, id, x, &form));
  *window = braid_overlay_point;
  window->kernel_rows = form.rows;
  window->kernel_columns = form.columns;
  if (!is_global(node)) {
    braid_window w;
    if (braid_geometry_pool(&node->attrs, x, &w) != BRAID_OK) return braid_overlay_geometry_failed(l, id);
    BRAID_TRY(braid_overlay_take_window(l, id, &w, true, window));
  }
  if ((int64_t)window->kernel_rows * window->kernel_columns > 1 << 17)
    return braid_overlay_refuse(l, id, "its window has more than 2^17 places");
  return BRAID_OK;
}

braid_status braid_overlay_check_mean(braid_overlay_lowering *l, braid_node_id id) {
  braid_overlay_window window;
  BRAID_TRY(braid_overlay_check_plain(l, id));
  return pool_window(l, id, &window);
}

braid_status braid_overlay_check_max(braid_overlay_lowering *l, braid_node_id id) {
  braid_overlay_form x, y;
  braid_overlay_window window;
  braid_value_id operand = braid_node_input(braid_overlay_node(l, id), 0);
  bool bytes = operand >= 0 && braid_overlay_value(l, operand)->desc.dtype == BRAID_I8;
  BRAID_TRY(braid_overlay_operand(l, id, 0, bytes ? BRAID_I8 : BRAID_F32, &x));
  BRAID_TRY(braid_overlay_result(l, id, bytes ? BRAID_I8 : BRAID_F32, &y));
  return pool_window(l, id, &window);
}

static braid_status begin_pool(braid_overlay_lowering *l, braid_node_id id, braid_overlay_kind kind, int32_t x,
                               braid_overlay_draft **draft) {
  const braid_node *node = braid_overlay_node(l, id);
  braid_overlay_window window;
  braid_overlay_form form;
  BRAID_TRY(pool_window(l, id, &window));
  BRAID_TRY(braid_overlay_begin_draft(l, id, kind, x, draft));
  BRAID_TRY(braid_overlay_form_of(l, id, &braid_overlay_value(l, node->outputs[0])->desc, &form));
  if (form.channels != l->maps[x].channels)
    return braid_overlay_refuse(l, id, "its result has other channels than its operand");
  (*draft)->form = form;
  (*draft)->window = window;
  (*draft)->counts_padding = braid_attr_int(&node->attrs, "count_include_pad", 0) != 0;
  return BRAID_OK;
}

braid_status braid_overlay_walk_mean(braid_overlay_lowering *l, braid_node_id id) {
  braid_overlay_draft *draft;
  int32_t x;
  BRAID_TRY(braid_overlay_take_map(l, id, 0, true, &x));
  return begin_pool(l, id, BRAID_OVERLAY_MEAN, x, &draft);
}

/* Also over bytes, without a QuantizeLinear. */
braid_status braid_overlay_walk_max(braid_overlay_lowering *l, braid_node_id id) {
  braid_overlay_draft *draft;
  braid_overlay_form form;
  int32_t x;
  if (braid_overlay_value(l, braid_overlay_node(l, id)->inputs[0])->desc.dtype != BRAID_I8) {
    BRAID_TRY(braid_overlay_take_map(l, id, 0, true, &x));
    return begin_pool(l, id, BRAID_OVERLAY_MAX, x, &draft);
  }
  braid_overlay_known known = braid_overlay_known_of(l, id, 0);
  if (known.meaning != BRAID_OVERLAY_BYTES) return braid_overlay_refuse(l, id, "the scale of its bytes is not known");
  BRAID_TRY(braid_overlay_operand(l, id, 0, BRAID_I8, &form));
  if (!braid_overlay_same_form(&l->maps[known.at], &form))
    return braid_overlay_refuse(l, id, "its operand has another shape than what was quantized");
  BRAID_TRY(begin_pool(l, id, BRAID_OVERLAY_MAX, known.at, &draft));
  BRAID_TRY(braid_overlay_finish(l, draft, l->maps[known.at].exponent, braid_overlay_node(l, id)->outputs[0], &x));
  braid_overlay_set_known(l, id, BRAID_OVERLAY_BYTES, x);
  return BRAID_OK;
}
