/* LSTM and its gradient: products over all steps, and between them one launch for each direction that goes through the
 * steps. */
#include <string.h>

#include "graph/recurrent.h"
#include "launch/families.h"
#include "launch/product.h"

enum { IN_X, IN_W, IN_R, IN_B, IN_LENGTHS, IN_H, IN_C, IN_P };
enum { GRAD_LENGTHS = 3, GRAD_H, GRAD_C, GRAD_P, GRAD_SAVED, GRAD_DY, GRAD_DH, GRAD_DC };
enum { OUT_X, OUT_W, OUT_R, OUT_B, OUT_H, OUT_C, OUT_P };
enum { kSequences = 4, kMostGroup = 128 };

/* Sizes, and places in elements: of a step and a sequence in Y, of a direction and a sequence in states. */
typedef struct layer {
  braid_recurrent r;
  int64_t rows, n; /* of all steps and sequences; hidden units */
  int64_t y_direction, y_step, y_row, state_direction, state_row;
  int64_t row_step, row_row; /* of gradients, in the order of X */
} layer;

static bool read_layer(const braid_node_desc *node, layer *l) {
  braid_status status = braid_recurrent_read(node->op, node->attrs, &node->inputs[IN_X].desc, &node->inputs[IN_W].desc,
                                             &node->inputs[IN_R].desc, &l->r);
  if (status != BRAID_OK) return false;
  bool first = l->r.batch_first;
  l->n = l->r.hidden;
  l->rows = l->r.steps * l->r.batch;
  l->y_direction = l->state_direction = first ? l->n : l->r.batch * l->n;
  l->y_step = l->r.directions * l->y_direction;
  l->y_row = first ? l->r.steps * l->r.directions * l->n : l->n;
  l->state_row = first ? l->r.directions * l->n : l->n;
  l->row_step = first ? 1 : l->r.batch;
  l->row_row = first ? l->r.steps : 1;
  return true;
}

static bool recurrent_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  layer l;
  size_t lengths = strcmp(node->op, "LSTMGrad") == 0 ? GRAD_LENGTHS : IN_LENGTHS;
  for (size_t i = 0; i < node->input_count; i++)
    if (node->inputs[i].present && i != lengths && node->inputs[i].desc.dtype != BRAID_F32)
      return braid_launch_refuse(why, why_bytes, "input %zu is %s, not float32", i,
                                 braid_dtype_name(node->inputs[i].desc.dtype));
  return read_layer(node, &l) || braid_launch_refuse(why, why_bytes, "attributes");
}

/* --- launches ------------------------------------------------------------------------------------------------------
 */
static const braid_unit *recurrent_units(const layer *l, int direction) {
  return l->r.units[direction];
}

static void recurrent_begin(braid_launch_planner *p, const char *function, const layer *l, int direction) {
  static const char *const kKinds[] = {
#define BRAID_UNIT_NAME(id, name, alpha, beta) #id,
      BRAID_UNIT_MAP(BRAID_UNIT_NAME)
#undef BRAID_UNIT_NAME
  };
  const braid_unit *units = recurrent_units(l, direction);
  braid_launch_begin(p, "recurrent", function);
  for (size_t i = 0; i < sizeof kKinds / sizeof *kKinds; i++) braid_launch_option(p, "-D%s=%zu", kKinds[i], i);
  braid_launch_option(p, "-DUNIT_F=%d -DUNIT_G=%d -DUNIT_H=%d", (int)units[0].kind, (int)units[1].kind,
                      (int)units[2].kind);
  braid_launch_option(p, "-DWIDTH=%u -DSEQUENCES=%d", p->traits->cpu ? (p->traits->vector_width >= 16 ? 16 : 8) : 1,
                      kSequences);
  if (l->r.backwards || direction == 1) braid_launch_option(p, "-DBACKWARDS");
  if (l->r.input_forget) braid_launch_option(p, "-DINPUT_FORGET");
}

/* Adds input `index`, and the option that it is there. */
static void optional_input(braid_launch_planner *p, const char *name, size_t index) {
  if (braid_launch_has_input(p->node, index)) braid_launch_option(p, "-D%s", name);
  braid_launch_input(p, index);
}

static void optional_output(braid_launch_planner *p, const char *name, size_t index) {
  if (braid_launch_has_output(p->node, index)) braid_launch_option(p, "-D%s", name);
  braid_launch_output(p, index);
}

static void add_unit(braid_launch_planner *p, const braid_unit *unit) {
  braid_launch_float(p, unit->alpha);
  braid_launch_float(p, unit->beta);
  braid_launch_float(p, unit->clip);
}

static void add_indices(braid_launch_planner *p, const int64_t *values, size_t count) {
  for (size_t i = 0; i < count; i++) braid_launch_index(p, values[i]);
}

/* A group for kSequences sequences. */
static void add_groups(braid_launch_planner *p, const layer *l) {
  size_t group = p->traits->cpu ? 1 : braid_launch_group(p->traits);
  if (group > kMostGroup) group = kMostGroup;
  braid_launch_groups(p, (l->r.batch + kSequences - 1) / kSequences, 1, 1, group);
}

static void add_best(braid_launch_planner *p, const braid_launch_product *m) {
  braid_launch_add_product(p, braid_launch_product_best(p->traits, m), m);
}

/* --- forward -------------------------------------------------------------------------------------------------------
 */
static void add_forward(braid_launch_planner *p, const layer *l, int d, const braid_launch_place *gates,
                        braid_launch_piece h, braid_launch_piece c) {
  const int64_t n = l->n;
  recurrent_begin(p, "lstm_forward", l, d);
  braid_launch_option(p, "-DFORWARD");
  braid_launch_add_place(p, gates);
  braid_launch_input(p, IN_R);
  optional_input(p, "BIAS", IN_B);
  optional_input(p, "PEEPHOLE", IN_P);
  optional_input(p, "H0", IN_H);
  optional_input(p, "C0", IN_C);
  optional_input(p, "LENGTHS", IN_LENGTHS);
  optional_output(p, "Y", 0);
  optional_output(p, "Y_H", 1);
  optional_output(p, "Y_C", 2);
  braid_launch_workspace(p, h);
  braid_launch_workspace(p, c);
  const int64_t numbers[] = {
      n,         l->r.batch,         l->r.steps, gates->at, d * 4 * n * n,          d * 8 * n,
      d * 3 * n, d * l->y_direction, l->y_step,  l->y_row,  d * l->state_direction, l->state_row};
  add_indices(p, numbers, sizeof numbers / sizeof *numbers);
  for (int i = 0; i < BRAID_UNITS; i++) add_unit(p, &recurrent_units(l, d)[i]);
  add_groups(p, l);
}

static braid_status recurrent_plan_forward(const braid_launch_traits *traits, const braid_node_desc *node,
                                           braid_launch_recipe *recipe) {
  braid_launch_planner p;
  layer l;
  if (!read_layer(node, &l)) return braid_fail(BRAID_INTERNAL, "an LSTM that was not matched");
  const int64_t n = l.n, inputs = l.r.inputs, batch = l.r.batch, steps = l.r.steps;
  bool first = l.r.batch_first, saved = braid_launch_has_output(node, 3);
  braid_launch_plan_begin(&p, traits, node, recipe);
  p.wide |= l.rows * 5 * n * l.r.directions > INT32_MAX / 2;
  braid_launch_place gates = {.kind = BRAID_LAUNCH_OUTPUT, .index = 3};
  if (!saved)
    gates = (braid_launch_place){.kind = BRAID_LAUNCH_PIECE,
                                 .piece = braid_launch_reserve(&p, l.rows, 5 * n, sizeof(float))};
  braid_launch_piece h = braid_launch_reserve(&p, 2 * batch, n, sizeof(float));
  braid_launch_piece c = braid_launch_reserve(&p, batch, n, sizeof(float));
  for (int d = 0; d < l.r.directions; d++) {
    gates.at = saved ? d * l.rows * 5 * n : 0;
    braid_launch_product m = {.rows = first ? batch : l.rows,
                              .columns = 4 * n,
                              .inner = inputs,
                              .batches = first ? steps : 1,
                              .batch_inner = first && steps ? steps : 1,
                              .left = {.line = first ? steps * inputs : inputs, .k = 1, .batch = {0, inputs}},
                              .right = {.place = {.index = IN_W, .at = d * 4 * n * inputs}, .line = inputs, .k = 1},
                              .out = gates,
                              .out_row = 5 * n,
                              .out_batch = batch * 5 * n,
                              .alpha = 1};
    add_best(&p, &m);
    add_forward(&p, &l, d, &gates, h, c);
  }
  return braid_launch_plan_end(&p);
}

/* --- backward ------------------------------------------------------------------------------------------------------
 */
typedef struct pieces {
  braid_launch_piece gradients, states, dh, dc;
} pieces;

static void add_states(braid_launch_planner *p, const layer *l, int d, const pieces *w) {
  recurrent_begin(p, "lstm_states", l, d);
  braid_launch_input(p, GRAD_SAVED);
  optional_input(p, "H0", GRAD_H);
  optional_input(p, "LENGTHS", GRAD_LENGTHS);
  braid_launch_workspace(p, w->states);
  const int64_t numbers[] = {l->n,         l->r.batch,  l->r.steps, d * l->rows * 5 * l->n, d * l->state_direction,
                             l->state_row, l->row_step, l->row_row};
  add_indices(p, numbers, sizeof numbers / sizeof *numbers);
  add_unit(p, &recurrent_units(l, d)[2]);
  braid_launch_range(p, l->rows * l->n);
}

static void add_backward(braid_launch_planner *p, const layer *l, int d, const pieces *w) {
  const int64_t n = l->n;
  recurrent_begin(p, "lstm_backward", l, d);
  braid_launch_input(p, GRAD_SAVED);
  braid_launch_input(p, IN_R);
  optional_input(p, "PEEPHOLE", GRAD_P);
  optional_input(p, "C0", GRAD_C);
  optional_input(p, "LENGTHS", GRAD_LENGTHS);
  optional_input(p, "DY", GRAD_DY);
  optional_input(p, "DY_H", GRAD_DH);
  optional_input(p, "DY_C", GRAD_DC);
  braid_launch_workspace(p, w->gradients);
  braid_launch_workspace(p, w->dh);
  braid_launch_workspace(p, w->dc);
  optional_output(p, "DH0", OUT_H);
  optional_output(p, "DC0", OUT_C);
  const int64_t numbers[] = {n,
                             l->r.batch,
                             l->r.steps,
                             d * l->rows * 5 * n,
                             d * 4 * n * n,
                             d * 3 * n,
                             d * l->y_direction,
                             l->y_step,
                             l->y_row,
                             d * l->state_direction,
                             l->state_row,
                             l->row_step,
                             l->row_row};
  add_indices(p, numbers, sizeof numbers / sizeof *numbers);
  for (int i = 0; i < BRAID_UNITS; i++) add_unit(p, &recurrent_units(l, d)[i]);
  add_groups(p, l);
}

static void add_bias_sums(braid_launch_planner *p, const layer *l, int d, const pieces *w) {
  recurrent_begin(p, "lstm_bias", l, d);
  braid_launch_workspace(p, w->gradients);
  braid_launch_output(p, OUT_B);
  const int64_t numbers[] = {4 * l->n, l->rows, d * 8 * l->n};
  add_indices(p, numbers, sizeof numbers / sizeof *numbers);
  braid_launch_range(p, 4 * l->n);
}

static void add_peephole_sums(braid_launch_planner *p, const layer *l, int d, const pieces *w) {
  recurrent_begin(p, "lstm_peephole", l, d);
  braid_launch_input(p, GRAD_SAVED);
  optional_input(p, "C0", GRAD_C);
  optional_input(p, "LENGTHS", GRAD_LENGTHS);
  braid_launch_workspace(p, w->gradients);
  braid_launch_output(p, OUT_P);
  const int64_t numbers[] = {
      l->n,        l->r.batch, l->r.steps,  d * l->rows * 5 * l->n, d * l->state_direction, l->state_row,
      l->row_step, l->row_row, d * 3 * l->n};
  add_indices(p, numbers, sizeof numbers / sizeof *numbers);
  braid_launch_range(p, l->n);
}

/* Gradients transposed times `right`, which has a row for each row of them, into output `index`. */
static void add_weights(braid_launch_planner *p, const layer *l, int d, const pieces *w, braid_launch_place right,
                        int64_t columns, size_t index) {
  if (!braid_launch_has_output(p->node, index)) return;
  braid_launch_product m = {
      .rows = 4 * l->n,
      .columns = columns,
      .inner = l->rows,
      .batches = 1,
      .batch_inner = 1,
      .left = {.place = {.kind = BRAID_LAUNCH_PIECE, .piece = w->gradients}, .line = 1, .k = 4 * l->n},
      .right = {.place = right, .line = 1, .k = columns},
      .out = {.kind = BRAID_LAUNCH_OUTPUT, .index = index, .at = d * 4 * l->n * columns},
      .out_row = columns,
      .alpha = 1};
  add_best(p, &m);
}

static void add_inputs(braid_launch_planner *p, const layer *l, int d, const pieces *w) {
  const int64_t inputs = l->r.inputs;
  if (!braid_launch_has_output(p->node, OUT_X)) return;
  braid_launch_product m = {
      .rows = l->rows,
      .columns = inputs,
      .inner = 4 * l->n,
      .batches = 1,
      .batch_inner = 1,
      .left = {.place = {.kind = BRAID_LAUNCH_PIECE, .piece = w->gradients}, .line = 4 * l->n, .k = 1},
      .right = {.place = {.index = IN_W, .at = d * 4 * l->n * inputs}, .line = 1, .k = inputs},
      .out = {.kind = BRAID_LAUNCH_OUTPUT, .index = OUT_X},
      .out_row = inputs,
      .accumulate = d > 0,
      .alpha = 1};
  add_best(p, &m);
}

static braid_status recurrent_plan_backward(const braid_launch_traits *traits, const braid_node_desc *node,
                                            braid_launch_recipe *recipe) {
  braid_launch_planner p;
  layer l;
  if (!read_layer(node, &l)) return braid_fail(BRAID_INTERNAL, "an LSTM that was not matched");
  braid_launch_plan_begin(&p, traits, node, recipe);
  p.wide |= l.rows * 5 * l.n * l.r.directions > INT32_MAX / 2;
  pieces w = {.gradients = braid_launch_reserve(&p, l.rows, 4 * l.n, sizeof(float)),
              .states = braid_launch_reserve(&p, l.rows, l.n, sizeof(float)),
              .dh = braid_launch_reserve(&p, l.r.batch, l.n, sizeof(float)),
              .dc = braid_launch_reserve(&p, l.r.batch, l.n, sizeof(float))};
  for (int d = 0; d < l.r.directions; d++) {
    add_backward(&p, &l, d, &w);
    if (braid_launch_has_output(node, OUT_R)) add_states(&p, &l, d, &w);
    add_inputs(&p, &l, d, &w);
    add_weights(&p, &l, d, &w, (braid_launch_place){.index = IN_X}, l.r.inputs, OUT_W);
    add_weights(&p, &l, d, &w, (braid_launch_place){.kind = BRAID_LAUNCH_PIECE, .piece = w.states}, l.n, OUT_R);
    if (braid_launch_has_output(node, OUT_B)) add_bias_sums(&p, &l, d, &w);
    if (braid_launch_has_output(node, OUT_P)) add_peephole_sums(&p, &l, d, &w);
  }
  return braid_launch_plan_end(&p);
}

static const braid_launch_kernel kForward = {.plan = recurrent_plan_forward},
                                 kBackward = {.plan = recurrent_plan_backward};

static const braid_kernel kKernels[] = {
    {.op = "LSTM", .name = "lstm", .match = recurrent_match, .implementation = &kForward},
    {.op = "LSTMGrad", .name = "lstm_grad", .match = recurrent_match, .implementation = &kBackward},
};

const braid_launch_family braid_launch_family_recurrent = {kKernels, sizeof kKernels / sizeof *kKernels, true};
