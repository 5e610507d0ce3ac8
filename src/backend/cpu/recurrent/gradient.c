/* Plain gradients of RNN, GRU and LSTM, from the gates that the forward op has saved. */
#include <string.h>

#include "backend/cpu/products/gemm.h"
#include "backend/cpu/recurrent/recurrent.h"
#include "backend/cpu/recurrent/unit.h"
#include "base/try.h"

enum { IN_X, IN_W, IN_R, IN_LENGTHS, IN_H, IN_C, IN_P, IN_SAVED, IN_DY, IN_DH, IN_DC };
enum { OUT_X, OUT_W, OUT_R, OUT_B, OUT_H, OUT_C, OUT_P };
enum { kColumns = 256 }; /* summed side by side: long enough pieces of each row */

#define T float
#define DTYPE BRAID_F32
#define NAME(stem) stem##_f32
#define RUN_UNIT braid_unit_run_f32
#define RUN_SLOPE braid_unit_slope_f32
#include "backend/cpu/recurrent/gradient_template.h"
#undef T
#undef DTYPE
#undef NAME
#undef RUN_UNIT
#undef RUN_SLOPE
#define T double
#define DTYPE BRAID_F64
#define NAME(stem) stem##_f64
#define RUN_UNIT braid_unit_run_f64
#define RUN_SLOPE braid_unit_slope_f64
#include "backend/cpu/recurrent/gradient_template.h"

static int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static braid_status init(const braid_node_desc *node, void *self) {
  recurrent_state *s = self;
  BRAID_TRY(braid_ref_recurrent_read(node, s));
  int64_t n = s->r.hidden, rows = s->r.gates * n, batch = s->r.batch, all = s->r.steps * batch;
  bool fits = true, gru = s->r.cell == BRAID_CELL_GRU;
  if (s->r.batch_first) {
    s->at.x = braid_ref_recurrent_place(node, s, all, s->r.inputs, &fits);
    s->at.dx = braid_ref_recurrent_place(node, s, all, s->r.inputs, &fits);
  }
  s->at.packed_r = braid_ref_recurrent_place_packed(node, s, gru ? 2 * n : rows, n, &fits);
  if (gru) s->at.packed_candidate = braid_ref_recurrent_place_packed(node, s, n, n, &fits);
  s->at.gradients = braid_ref_recurrent_place(node, s, all, s->extent * n, &fits);
  s->at.states = braid_ref_recurrent_place(node, s, all, n, &fits);
  s->at.packed = braid_ref_recurrent_place_packed(node, s, larger(all, rows), larger(n, s->r.inputs), &fits);
  s->at.zeros = braid_ref_recurrent_place(node, s, 1, n, &fits);
  s->at.sums = braid_ref_recurrent_place(node, s, 1, s->extent * n, &fits);
  s->at.h = braid_ref_recurrent_place(node, s, batch, n, &fits);
  s->at.c = braid_ref_recurrent_place(node, s, batch, n, &fits);
  s->at.part = braid_ref_recurrent_place(node, s, batch, n, &fits);
  return braid_ref_recurrent_check(fits);
}

BRAID_REF_KERNEL(kGradient, gradient, recurrent_state, init)

static const braid_kernel kKernels[] = {
    {.op = "GRUGrad", .name = "ref_gru", .match = braid_ref_match_float, .implementation = &kGradient},
    {.op = "LSTMGrad", .name = "ref_lstm", .match = braid_ref_match_float, .implementation = &kGradient},
    {.op = "RNNGrad", .name = "ref_rnn", .match = braid_ref_match_float, .implementation = &kGradient},
};

extern const braid_cpu_table braid_cpu_recurrent_gradient;
const braid_cpu_table braid_cpu_recurrent_gradient = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
