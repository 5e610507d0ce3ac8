/* Slice and Pad with zeros: numbers in other places, such as the shortcuts of residual networks without weights. A
 * convolution with windows of one place does that, whose weights are 1 where a channel goes and 0 elsewhere; depthwise
 * where channels stay. */
#include <string.h>

#include "base/arena.h"
#include "base/try.h"
#include "graph/rewrite.h"
#include "overlay/lower/operands.h"

enum { MOST_STEP = 1 << 16, MOST_FACTOR = 6 };

static int64_t clamp_to(int64_t number, int64_t low, int64_t high) {
  return number < low ? low : number > high ? high : number;
}

/* The least integer that is no less than a / b; b > 0. */
static int64_t divide_up(int64_t a, int64_t b) {
  return a >= 0 ? (a + b - 1) / b : -(-a / b);
}

/* Which of channel, row, column dimension `axis` of a value is; -1: the batch. */
static int place_of(int axis, int rank) {
  if (axis < 1) return -1;
  return axis == 1 ? 0 : 3 - (rank - axis);
}

/* --- what the nodes say --------------------------------------------------------------------------------------------
 */
/* Integers of a constant input; count -1: it is left out. */
typedef struct integers {
  const braid_tensor *tensor;
  int64_t count;
} integers;

static braid_status read_integers(braid_overlay_lowering *l, braid_node_id id, size_t input, integers *out) {
  braid_value_id at = braid_node_input(braid_overlay_node(l, id), input);
  *out = (integers){NULL, -1};
  if (at < 0) return BRAID_OK;
  const braid_value *value = braid_overlay_value(l, at);
  const braid_desc *desc = value->tensor ? braid_tensor_desc(value->tensor) : NULL;
  if (!desc || value->kind != BRAID_VALUE_CONSTANT || desc->rank > 1 || desc->layout != BRAID_LAYOUT_PLAIN ||
      (desc->dtype != BRAID_I64 && desc->dtype != BRAID_I32))
    return braid_overlay_refuse(l, id, "input %zu is no constant list of integers", input);
  braid_value_note_read(value);
  *out = (integers){value->tensor, braid_desc_count(desc)};
  return BRAID_OK;
}

/* Entry i; `otherwise` where the list is left out. */
static int64_t integer_at(const integers *list, int64_t i, int64_t otherwise) {
  return list->count < 0 ? otherwise : braid_tensor_get_i64(list->tensor, i);
}

/* Of each dimension of the operand. */
typedef struct moved {
  int64_t start[4], step[4]; /* of Slice: o sees o * step + start */
  int64_t begin[4];          /* of Pad: o sees o - begin */
} moved;

static const moved kStill = {.step = {1, 1, 1, 1}};

static braid_status read_axis(braid_overlay_lowering *l, braid_node_id id, const integers *axes, int64_t i, int rank,
                              int *out) {
  int64_t axis = integer_at(axes, i, i);
  *out = (int)(axis < 0 && axis >= -rank ? axis + rank : axis);
  return axis >= -rank && axis < rank ? BRAID_OK : braid_overlay_refuse(l, id, "it has no axis %lld", (long long)axis);
}

static braid_status read_slice(braid_overlay_lowering *l, braid_node_id id, const braid_desc *x, moved *out) {
  integers starts, axes, steps;
  BRAID_TRY(read_integers(l, id, 1, &starts));
  BRAID_TRY(read_integers(l, id, 3, &axes));
  BRAID_TRY(read_integers(l, id, 4, &steps));
  if (starts.count < 0 || starts.count > x->rank || (axes.count >= 0 && axes.count != starts.count) ||
      (steps.count >= 0 && steps.count != starts.count))
    return braid_overlay_refuse(l, id, "its starts, axes and steps do not fit each other");
  for (int64_t i = 0; i < starts.count; i++) {
    int axis;
    BRAID_TRY(read_axis(l, id, &axes, i, x->rank, &axis));
    int64_t start = integer_at(&starts, i, 0), step = integer_at(&steps, i, 1);
    if (step < 1 || step > MOST_STEP) return braid_overlay_refuse(l, id, "its steps are not 1 to 65,536");
    if (start < 0) start = start < -x->dims[axis] ? 0 : start + x->dims[axis];
    out->start[axis] = clamp_to(start, 0, x->dims[axis]);
    out->step[axis] = step;
  }
  return BRAID_OK;
}

static braid_status read_pad(braid_overlay_lowering *l, braid_node_id id, const braid_desc *x, moved *out) {
  integers pads, axes;
  double number;
  if (strcmp(braid_attr_string(&braid_overlay_node(l, id)->attrs, "mode", "constant"), "constant") != 0)
    return braid_overlay_refuse(l, id, "it pads with something else than a constant");
  BRAID_TRY(braid_overlay_read_number(l, id, 2, 0, &number));
  if (number != 0) return braid_overlay_refuse(l, id, "it pads with %g, not with 0", number);
  BRAID_TRY(read_integers(l, id, 1, &pads));
  BRAID_TRY(read_integers(l, id, 3, &axes));
  int64_t count = axes.count < 0 ? x->rank : axes.count;
  if (count > x->rank || pads.count != 2 * count)
    return braid_overlay_refuse(l, id, "its pads and axes do not fit each other");
  for (int64_t i = 0; i < count; i++) {
    int axis;
    BRAID_TRY(read_axis(l, id, &axes, i, x->rank, &axis));
    out->begin[axis] = integer_at(&pads, i, 0);
    if (out->begin[axis] < -BRAID_OVERLAY_MOST_SIDE || out->begin[axis] > BRAID_OVERLAY_MOST_SIDE)
      return braid_overlay_refuse(l, id, "its pads are beyond 65,536");
  }
  return BRAID_OK;
}

static braid_status read_moved(braid_overlay_lowering *l, braid_node_id id, moved *out) {
  const braid_node *node = braid_overlay_node(l, id);
  const braid_desc *x = &braid_overlay_value(l, node->inputs[0])->desc;
  const braid_desc *y = &braid_overlay_value(l, node->outputs[0])->desc;
  *out = kStill;
  BRAID_TRY(braid_node_is(node, "Slice") ? read_slice(l, id, x, out) : read_pad(l, id, x, out));
  if (x->rank != y->rank) return braid_overlay_refuse(l, id, "its result has another rank");
  if (out->start[0] || out->step[0] != 1 || out->begin[0] || x->dims[0] != y->dims[0])
    return braid_overlay_refuse(l, id, "it changes the images of a batch");
  return BRAID_OK;
}

/* --- the walk ------------------------------------------------------------------------------------------------------
 */
braid_status braid_overlay_check_move(braid_overlay_lowering *l, braid_node_id id) {
  moved m;
  BRAID_TRY(braid_overlay_check_plain(l, id));
  return read_moved(l, id, &m);
}

static braid_status open_draft(braid_overlay_lowering *l, braid_node_id id, braid_overlay_draft **draft) {
  braid_overlay_known known = braid_overlay_known_of(l, id, 0);
  if (known.meaning == BRAID_OVERLAY_DRAFT && l->drafts[known.at].moves && !l->drafts[known.at].clamped) {
    BRAID_TRY(braid_overlay_go_on(l, id, 0, draft));
    braid_overlay_set_known(l, id, BRAID_OVERLAY_DRAFT, known.at);
    return BRAID_OK;
  }
  int32_t x;
  BRAID_TRY(braid_overlay_take_map(l, id, 0, true, &x));
  BRAID_TRY(braid_overlay_begin_draft(l, id, BRAID_OVERLAY_CONV, x, draft));
  const int32_t sides[3] = {l->maps[x].channels, l->maps[x].rows, l->maps[x].columns};
  (*draft)->moves = true;
  for (int d = 0; d < 3; d++) (*draft)->move[d] = (braid_overlay_move){.step = 1, .end = sides[d]};
  return BRAID_OK;
}

braid_status braid_overlay_walk_move(braid_overlay_lowering *l, braid_node_id id) {
  moved m;
  braid_overlay_draft *draft;
  braid_overlay_form form;
  const braid_node *node = braid_overlay_node(l, id);
  int rank = braid_overlay_value(l, node->outputs[0])->desc.rank;
  BRAID_TRY(read_moved(l, id, &m));
  BRAID_TRY(braid_overlay_result(l, id, BRAID_F32, &form));
  BRAID_TRY(open_draft(l, id, &draft));
  const int32_t sides[3] = {form.channels, form.rows, form.columns};
  for (int axis = 1; axis < rank; axis++) {
    int d = place_of(axis, rank);
    braid_overlay_move *move = &draft->move[d];
    int64_t first = divide_up(move->first - m.start[axis], m.step[axis]) + m.begin[axis];
    int64_t end = divide_up(move->end - m.start[axis], m.step[axis]) + m.begin[axis];
    move->start += move->step * (m.start[axis] - m.begin[axis] * m.step[axis]);
    move->step *= m.step[axis];
    if (move->step > MOST_STEP) return braid_overlay_refuse(l, id, "its steps are beyond 65,536");
    move->first = clamp_to(first, 0, sides[d]);
    move->end = clamp_to(end, 0, sides[d]);
  }
  draft->form = form;
  return BRAID_OK;
}

/* --- the layer -----------------------------------------------------------------------------------------------------
 */
/* Whether the places that lie within `side` are those that the nodes take from there. */
static bool is_window(const braid_overlay_move *move, int64_t side, int64_t count) {
  int64_t first = clamp_to(divide_up(-move->start, move->step), 0, count);
  int64_t end = clamp_to(divide_up(side - move->start, move->step), 0, count);
  bool none = first >= end && move->first >= move->end;
  return none || (first == move->first && end == move->end);
}

static braid_status set_window(braid_overlay_lowering *l, const braid_overlay_draft *draft,
                               braid_overlay_window *window) {
  const braid_overlay_map *x = &l->maps[draft->x];
  const braid_overlay_move *rows = &draft->move[1], *columns = &draft->move[2];
  if (!is_window(rows, x->rows, draft->form.rows) || !is_window(columns, x->columns, draft->form.columns))
    return braid_overlay_refuse(l, draft->node, "it pads where it has cut off");
  braid_window w = {.rank = 2};
  const braid_overlay_move *moves[2] = {rows, columns};
  for (int d = 1; d < 3; d++) {
    w.input[d] = d == 1 ? x->rows : x->columns;
    w.output[d] = d == 1 ? draft->form.rows : draft->form.columns;
    w.kernel[d] = w.dilation[d] = 1;
    w.stride[d] = moves[d - 1]->step;
    w.begin[d] = -moves[d - 1]->start;
    w.end[d] = (w.output[d] - 1) * w.stride[d] + 1 - w.input[d] - w.begin[d];
  }
  return braid_overlay_take_window(l, draft->node, &w, false, window);
}

static bool keeps_channels(const braid_overlay_draft *draft, int32_t channels) {
  const braid_overlay_move *move = &draft->move[0];
  return draft->form.channels == channels && !move->start && move->step == 1 && !move->first && move->end == channels;
}

braid_status braid_overlay_place_moves(braid_overlay_lowering *l, const braid_overlay_draft *draft, int32_t exponent,
                                       braid_overlay_layer *layer) {
  const braid_overlay_map *x = &l->maps[draft->x];
  int32_t finer = x->exponent > exponent ? x->exponent - exponent : 0;
  if (finer > MOST_FACTOR)
    return braid_overlay_refuse(l, draft->node, "its result's scale is 2^%d times finer than that of its operand",
                                finer);
  BRAID_TRY(set_window(l, draft, &layer->window));
  bool same = keeps_channels(draft, x->channels);
  int64_t inputs = same ? 1 : x->channels, count = inputs * draft->form.channels;
  if (count > BRAID_OVERLAY_MOST_WEIGHTS)
    return braid_overlay_refuse(l, draft->node, "it moves channels, which takes more than 2^28 weights");
  int8_t *weights = braid_arena_alloc(l->arena, (size_t)count);
  int32_t *biases = braid_arena_alloc(l->arena, (size_t)draft->form.channels * sizeof *biases);
  if (!weights || !biases) return BRAID_NO_MEMORY;
  for (int64_t o = draft->move[0].first; o < draft->move[0].end; o++) {
    int64_t from = same ? 0 : o * draft->move[0].step + draft->move[0].start;
    weights[o * inputs + from] = (int8_t)(1 << finer);
  }
  layer->kind = same ? BRAID_OVERLAY_DEPTHWISE : BRAID_OVERLAY_CONV;
  layer->weights = weights;
  layer->biases = biases;
  layer->weight_exponent = -finer;
  return BRAID_OK;
}
