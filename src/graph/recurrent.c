#include "graph/recurrent.h"

#include <string.h>
#include <strings.h>

#include "base/try.h"

/* --- activations ---------------------------------------------------------------------------------------------------
 */
static const struct {
  const char *name;
  double alpha, beta;
  bool has_alpha, has_beta;
} kUnits[] = {
#define ENTRY(id, text, alpha, beta)                                                                                   \
  {text, alpha, beta, (alpha) != 0, (beta) != 0 || BRAID_UNIT_##id == BRAID_UNIT_AFFINE},
    BRAID_UNIT_MAP(ENTRY)
#undef ENTRY
};

static braid_status find_unit(const char *name, braid_unit *unit) {
  for (size_t i = 0; i < sizeof kUnits / sizeof *kUnits; i++)
    if (strcasecmp(kUnits[i].name, name) == 0) {
      *unit = (braid_unit){(braid_unit_kind)i, kUnits[i].alpha, kUnits[i].beta, 0};
      return BRAID_OK;
    }
  return braid_fail(BRAID_INVALID_GRAPH, "activation %.60s is unknown", name);
}

/* Values of activation_alpha and activation_beta belong, in order, to those activations that have one. */
static braid_status read_units(const braid_attrs *attrs, int per_direction, braid_recurrent *out) {
  static const char *const kDefaults[][BRAID_UNITS] = {
      [BRAID_CELL_RNN] = {"Tanh"},
      [BRAID_CELL_GRU] = {"Sigmoid", "Tanh"},
      [BRAID_CELL_LSTM] = {"Sigmoid", "Tanh", "Tanh"},
  };
  size_t names, alphas, betas, next_alpha = 0, next_beta = 0, wanted = (size_t)(per_direction * out->directions);
  const char *const *name = braid_attr_strings(attrs, "activations", &names);
  const float *alpha = braid_attr_floats(attrs, "activation_alpha", &alphas);
  const float *beta = braid_attr_floats(attrs, "activation_beta", &betas);
  double clip = braid_attr_float(attrs, "clip", 0);
  if (names && names != wanted) return braid_fail(BRAID_INVALID_GRAPH, "%zu activations, %zu expected", names, wanted);
  if (clip < 0) return braid_fail(BRAID_INVALID_GRAPH, "clip is %g, below 0", clip);
  for (size_t i = 0; i < wanted; i++) {
    braid_unit *unit = &out->units[i / (size_t)per_direction][i % (size_t)per_direction];
    BRAID_TRY(find_unit(names ? name[i] : kDefaults[out->cell][i % (size_t)per_direction], unit));
    bool last = out->cell == BRAID_CELL_LSTM && i % (size_t)per_direction == 2;
    unit->clip = last ? 0 : clip; /* the cell state goes into h as it is, as in ONNX Runtime */
    if (kUnits[unit->kind].has_alpha && next_alpha < alphas) unit->alpha = alpha[next_alpha++];
    if (kUnits[unit->kind].has_beta && next_beta < betas) unit->beta = beta[next_beta++];
  }
  return BRAID_OK;
}

/* --- sizes ---------------------------------------------------------------------------------------------------------
 */
static braid_status read_direction(const braid_attrs *attrs, braid_recurrent *out) {
  const char *direction = braid_attr_string(attrs, "direction", "forward");
  out->backwards = strcmp(direction, "reverse") == 0;
  out->directions = strcmp(direction, "bidirectional") == 0 ? 2 : 1;
  if (out->directions == 1 && !out->backwards && strcmp(direction, "forward") != 0)
    return braid_fail(BRAID_INVALID_GRAPH, "direction %.60s is unknown", direction);
  return BRAID_OK;
}

static braid_status check_weights(const char *what, const braid_desc *desc, int64_t directions, int64_t rows,
                                  int64_t columns) {
  if (desc->rank == 3 && desc->dims[0] == directions && desc->dims[1] == rows && desc->dims[2] == columns)
    return BRAID_OK;
  char shape[128];
  return braid_fail(BRAID_INVALID_GRAPH, "%s is %s, not of [%lld,%lld,%lld]", what,
                    braid_desc_format(desc, shape, sizeof shape), (long long)directions, (long long)rows,
                    (long long)columns);
}

braid_status braid_recurrent_read(const char *op, const braid_attrs *attrs, const braid_desc *x, const braid_desc *w,
                                  const braid_desc *r, braid_recurrent *out) {
  *out = (braid_recurrent){.cell = BRAID_CELL_RNN, .gates = 1, .saved = 1};
  if (strncmp(op, "GRU", 3) == 0) *out = (braid_recurrent){.cell = BRAID_CELL_GRU, .gates = 3, .saved = 3};
  if (strncmp(op, "LSTM", 4) == 0) *out = (braid_recurrent){.cell = BRAID_CELL_LSTM, .gates = 4, .saved = 5};
  out->batch_first = braid_attr_int(attrs, "layout", 0) != 0;
  out->linear_before_reset = braid_attr_int(attrs, "linear_before_reset", 0) != 0;
  out->input_forget = braid_attr_int(attrs, "input_forget", 0) != 0;
  if (out->cell == BRAID_CELL_GRU && out->linear_before_reset) out->saved = 4;
  BRAID_TRY(read_direction(attrs, out));
  BRAID_TRY(read_units(attrs, (int)out->cell + 1, out));
  if (x->rank != 3) return braid_fail(BRAID_INVALID_GRAPH, "X has rank %d, not 3", x->rank);
  if (r->rank != 3) return braid_fail(BRAID_INVALID_GRAPH, "R has rank %d, not 3", r->rank);
  out->steps = x->dims[out->batch_first ? 1 : 0];
  out->batch = x->dims[out->batch_first ? 0 : 1];
  out->inputs = x->dims[2];
  out->hidden = r->dims[2];
  int64_t given = braid_attr_int(attrs, "hidden_size", out->hidden), rows = out->gates * out->hidden;
  if (out->hidden > INT32_MAX) return braid_fail(BRAID_INVALID_GRAPH, "%lld hidden units", (long long)out->hidden);
  if (out->hidden < 1 || given != out->hidden)
    return braid_fail(BRAID_INVALID_GRAPH, "R is of %lld hidden units, hidden_size says %lld", (long long)out->hidden,
                      (long long)given);
  BRAID_TRY(check_weights("W", w, out->directions, rows, out->inputs));
  return check_weights("R", r, out->directions, rows, out->hidden);
}
