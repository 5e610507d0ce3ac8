/* Plain RNN, GRU and LSTM. The inputs of many steps are multiplied at once; then the steps follow one another, with one
 * product over all sequences each. Sequences are divided among threads, or the two directions if there are few. */
#include "backend/cpu/recurrent/recurrent.h"

#include <omp.h>
#include <string.h>

#include "backend/cpu/products/gemm.h"
#include "backend/cpu/recurrent/unit.h"
#include "base/checked.h"
#include "base/try.h"

enum { IN_X, IN_W, IN_R, IN_B, IN_LENGTHS, IN_H, IN_C, IN_P };
enum { kPieceRows = 1024, kLeastRows = 12 }; /* rows of a product: of a piece; of a thread's share of the sequences */

/* --- shared with the gradients -------------------------------------------------------------------------------------
 */
static braid_dtype computed_in(const braid_node_desc *node) {
  return node->inputs[0].desc.dtype == BRAID_F64 ? BRAID_F64 : BRAID_F32;
}

braid_status braid_ref_recurrent_read(const braid_node_desc *node, recurrent_state *s) {
  BRAID_TRY(braid_recurrent_read(node->op, node->attrs, &node->inputs[IN_X].desc, &node->inputs[IN_W].desc,
                                 &node->inputs[IN_R].desc, &s->r));
  int64_t n = s->r.hidden, batch = s->r.batch, directions = s->r.directions;
  bool first = s->r.batch_first;
  s->extent = s->r.cell == BRAID_CELL_GRU ? s->r.saved : s->r.gates;
  s->saved_output = s->r.cell == BRAID_CELL_LSTM ? 3 : 2;
  s->y_direction = s->state_direction = first ? n : batch * n;
  s->y_step = directions * s->y_direction;
  s->y_row = first ? s->r.steps * directions * n : n;
  s->state_row = first ? directions * n : n;
  int threads = omp_get_max_threads();
  s->teams = batch / kLeastRows < threads ? batch / kLeastRows : threads;
  if (s->teams < 1) s->teams = 1;
  return BRAID_OK;
}

static size_t place(recurrent_state *s, size_t bytes, bool *fits) {
  size_t at = s->base.scratch_bytes;
  *fits = *fits && braid_add_size(bytes, 63, &bytes) && braid_add_size(at, bytes & ~(size_t)63, &s->base.scratch_bytes);
  return at;
}

size_t braid_ref_recurrent_place(const braid_node_desc *node, recurrent_state *s, int64_t rows, int64_t columns,
                                 bool *fits) {
  size_t bytes = 0;
  *fits = *fits && braid_mul_size((size_t)rows, (size_t)columns, &bytes) &&
          braid_mul_size(bytes, braid_dtype_size(computed_in(node)), &bytes);
  return place(s, bytes, fits);
}

size_t braid_ref_recurrent_place_packed(const braid_node_desc *node, recurrent_state *s, int64_t inner, int64_t columns,
                                        bool *fits) {
  size_t bytes = 0;
  *fits = *fits && braid_gemm_packed_bytes(computed_in(node), inner, columns, &bytes);
  return place(s, bytes, fits);
}

braid_status braid_ref_recurrent_check(bool fits) {
  if (fits) return BRAID_OK;
  return braid_fail(BRAID_OUT_OF_RANGE, "its workspace overflows");
}

/* --- forward -------------------------------------------------------------------------------------------------------
 */
#define T float
#define DTYPE BRAID_F32
#define NAME(stem) stem##_f32
#define RUN_UNIT braid_unit_run_f32
#include "backend/cpu/recurrent/recurrent_template.h"
#undef T
#undef DTYPE
#undef NAME
#undef RUN_UNIT
#define T double
#define DTYPE BRAID_F64
#define NAME(stem) stem##_f64
#define RUN_UNIT braid_unit_run_f64
#include "backend/cpu/recurrent/recurrent_template.h"

static bool is_saved(const braid_node_desc *node, const recurrent_state *s) {
  return node->output_count > s->saved_output && node->outputs[s->saved_output].present;
}

static braid_status init(const braid_node_desc *node, void *self) {
  recurrent_state *s = self;
  BRAID_TRY(braid_ref_recurrent_read(node, s));
  int64_t n = s->r.hidden, rows = s->r.gates * n, batch = s->r.batch, steps = s->r.steps;
  bool fits = true;
  s->piece = batch && batch < kPieceRows ? kPieceRows / batch : 1;
  if (is_saved(node, s) || s->piece > steps) s->piece = steps;
  if (s->piece < 1) s->piece = 1;
  if (s->r.batch_first) s->at.x = braid_ref_recurrent_place(node, s, steps * batch, s->r.inputs, &fits);
  size_t shared = s->base.scratch_bytes;
  s->at.packed_w = braid_ref_recurrent_place_packed(node, s, s->r.inputs, rows, &fits);
  s->at.packed_r = braid_ref_recurrent_place_packed(node, s, n, s->r.cell == BRAID_CELL_GRU ? 2 * n : rows, &fits);
  if (s->r.cell == BRAID_CELL_GRU) s->at.packed_candidate = braid_ref_recurrent_place_packed(node, s, n, n, &fits);
  s->at.bias = braid_ref_recurrent_place(node, s, 1, rows, &fits);
  if (!is_saved(node, s)) s->at.gates = braid_ref_recurrent_place(node, s, s->piece * batch, s->r.saved * n, &fits);
  s->at.h = braid_ref_recurrent_place(node, s, batch, n, &fits);
  s->at.c = braid_ref_recurrent_place(node, s, batch, n, &fits);
  s->at.part = braid_ref_recurrent_place(node, s, batch, n, &fits);
  if (s->r.directions == 2 && s->teams == 1 && omp_get_max_threads() > 1) {
    s->direction_bytes = s->base.scratch_bytes - shared;
    fits = fits && braid_add_size(s->base.scratch_bytes, s->direction_bytes, &s->base.scratch_bytes);
  }
  return braid_ref_recurrent_check(fits);
}

BRAID_REF_KERNEL(kForward, forward, recurrent_state, init)

static const braid_kernel kKernels[] = {
    {.op = "GRU", .name = "ref_gru", .match = braid_ref_match_float, .implementation = &kForward},
    {.op = "LSTM", .name = "ref_lstm", .match = braid_ref_match_float, .implementation = &kForward},
    {.op = "RNN", .name = "ref_rnn", .match = braid_ref_match_float, .implementation = &kForward},
};

extern const braid_cpu_table braid_cpu_recurrent_recurrent;
const braid_cpu_table braid_cpu_recurrent_recurrent = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
