/* RNN, GRU and LSTM: all directions, peepholes, sequence lengths, both layouts. */
#include <string.h>

#include "base/try.h"
#include "graph/gradient.h"

enum { X, W, R, B, LENGTHS, H0, C0, P };

typedef struct sizes {
  int64_t steps, batch, inputs, hidden, directions;
  bool batch_first;
} sizes;

static braid_status read_sizes(const braid_infer *infer, int64_t gates, sizes *out) {
  const braid_desc *x = braid_infer_input(infer, X), *w = braid_infer_input(infer, W), *r = braid_infer_input(infer, R);
  if (!w || !r || x->rank != 3 || w->rank != 3 || r->rank != 3)
    return braid_infer_fail(infer, "X, W and R must have three dimensions");
  const char *direction = braid_attr_string(&infer->node->attrs, "direction", "forward");
  bool both = strcmp(direction, "bidirectional") == 0;
  if (!both && strcmp(direction, "forward") != 0 && strcmp(direction, "reverse") != 0)
    return braid_infer_fail(infer, "direction is \"%.40s\"", direction);
  out->batch_first = braid_attr_int(&infer->node->attrs, "layout", 0);
  out->steps = x->dims[out->batch_first];
  out->batch = x->dims[!out->batch_first];
  out->inputs = x->dims[2];
  out->hidden = r->dims[2];
  out->directions = both ? 2 : 1;
  int64_t said = braid_attr_int(&infer->node->attrs, "hidden_size", out->hidden);
  bool fits = w->dims[0] == out->directions && r->dims[0] == out->directions && w->dims[2] == out->inputs &&
              out->hidden <= INT32_MAX && w->dims[1] == gates * out->hidden && r->dims[1] == gates * out->hidden;
  if (!fits || said != out->hidden)
    return braid_infer_fail(infer, "W, R and hidden_size do not fit %lld inputs and %lld directions",
                            (long long)out->inputs, (long long)out->directions);
  return BRAID_OK;
}

static braid_status check_shape(const braid_infer *infer, size_t index, const char *name, braid_dtype dtype, int rank,
                                const int64_t *dims) {
  const braid_desc *desc = braid_infer_input(infer, index);
  if (!desc) return BRAID_OK;
  bool fits = desc->dtype == dtype && desc->rank == rank;
  for (int i = 0; fits && i < rank; i++) fits = desc->dims[i] == dims[i];
  if (fits) return BRAID_OK;
  braid_desc wanted = {.dtype = dtype, .rank = rank};
  char one[96], other[96];
  memcpy(wanted.dims, dims, (size_t)rank * sizeof *dims);
  return braid_infer_fail(infer, "%s is %s, expected %s", name, braid_desc_format(desc, one, sizeof one),
                          braid_desc_format(&wanted, other, sizeof other));
}

static braid_status infer_cell(const braid_infer *infer, int64_t gates) {
  sizes s;
  BRAID_TRY(read_sizes(infer, gates, &s));
  braid_dtype dtype = braid_infer_input(infer, X)->dtype;
  if (!braid_dtype_is_float(dtype)) return braid_infer_fail(infer, "X is not floating-point");
  int64_t state[3] = {s.batch_first ? s.batch : s.directions, s.batch_first ? s.directions : s.batch, s.hidden};
  BRAID_TRY(check_shape(infer, W, "W", dtype, 3, (int64_t[]){s.directions, gates * s.hidden, s.inputs}));
  BRAID_TRY(check_shape(infer, R, "R", dtype, 3, (int64_t[]){s.directions, gates * s.hidden, s.hidden}));
  BRAID_TRY(check_shape(infer, B, "B", dtype, 2, (int64_t[]){s.directions, 2 * gates * s.hidden}));
  BRAID_TRY(check_shape(infer, LENGTHS, "sequence_lens", BRAID_I32, 1, &s.batch));
  BRAID_TRY(check_shape(infer, H0, "initial_h", dtype, 3, state));
  BRAID_TRY(check_shape(infer, C0, "initial_c", dtype, 3, state));
  BRAID_TRY(check_shape(infer, P, "P", dtype, 2, (int64_t[]){s.directions, 3 * s.hidden}));
  int64_t plain[4] = {s.steps, s.directions, s.batch, s.hidden},
          batched[4] = {s.batch, s.steps, s.directions, s.hidden};
  BRAID_TRY(braid_infer_output(infer, 0, dtype, 4, s.batch_first ? batched : plain));
  BRAID_TRY(braid_infer_output(infer, 1, dtype, 3, state));
  return braid_infer_output(infer, 2, dtype, 3, state);
}

static braid_status infer_rnn(const braid_infer *infer) {
  return infer_cell(infer, 1);
}
static braid_status infer_gru(const braid_infer *infer) {
  return infer_cell(infer, 3);
}
static braid_status infer_lstm(const braid_infer *infer) {
  return infer_cell(infer, 4);
}

/* Every weight once per step and sequence. */
static int64_t cell_macs(const braid_graph *graph, const braid_node *node) {
  const braid_desc *x = &graph->values[node->inputs[X]].desc;
  return x->dims[0] * x->dims[1] *
         (braid_desc_count(&graph->values[node->inputs[W]].desc) +
          braid_desc_count(&graph->values[node->inputs[R]].desc));
}

static const braid_op kOps[] = {
    {"GRU", 3, 6, 0, 2, 0, infer_gru, cell_macs, NULL},
    {"LSTM", 3, 8, 0, 3, 0, infer_lstm, cell_macs, NULL},
    {"RNN", 3, 6, 0, 2, 0, infer_rnn, cell_macs, NULL},
};

extern const braid_op_family braid_ops_recurrent;
const braid_op_family braid_ops_recurrent = {kOps, sizeof kOps / sizeof *kOps};
