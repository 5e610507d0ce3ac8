/* RNN, GRU and LSTM. The inputs of many steps are multiplied at once; then the steps follow one another, with one
 * product over all sequences each. Both directions run side by side; in each, threads divide the sequences, or the
 * units and meet after every step. Weights that are constants are packed once, before. */
#include "backend/cpu/recurrent/recurrent.h"

#include <omp.h>
#include <string.h>

#include "backend/cpu/products/gemm.h"
#include "backend/cpu/recurrent/unit.h"
#include "base/checked.h"
#include "base/try.h"

enum { IN_X, IN_W, IN_R, IN_B, IN_LENGTHS, IN_H, IN_C, IN_P };
/* Rows of a product: of a piece; of a thread's share of the sequences, and if its cache holds the weights. */
enum { kPieceRows = 1024, kLeastRows = 12, kLeastCachedRows = 4 };
enum { kBlockPanels = 24 };                  /* of weights that a step goes through at once */
static const int64_t kWorthMember = 1 << 15; /* multiply-accumulates of a step, for a thread more */
static const int64_t kCached = 1 << 17;      /* weights that every thread's second-level cache holds */

/* --- shared with the gradients -------------------------------------------------------------------------------------
 */
static braid_dtype computed_in(const braid_node_desc *node) {
  return node->inputs[0].desc.dtype == BRAID_F64 ? BRAID_F64 : BRAID_F32;
}

static int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
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
  s->threads = omp_get_max_threads();
  s->teams = smaller(batch / kLeastRows, s->threads);
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
#define RUN_CELL braid_cell_run_f32
#define RUN_RESET braid_cell_reset_f32
#include "backend/cpu/recurrent/recurrent_template.h"
#undef T
#undef DTYPE
#undef NAME
#undef RUN_CELL
#undef RUN_RESET
#define T double
#define DTYPE BRAID_F64
#define NAME(stem) stem##_f64
#define RUN_CELL braid_cell_run_f64
#define RUN_RESET braid_cell_reset_f64
#include "backend/cpu/recurrent/recurrent_template.h"
#include "base/fnv.h"

/* A constant of the type computed in, whose packed form has a size. */
static bool is_packed(const braid_node_desc *node, size_t input) {
  const braid_operand *operand = &node->inputs[input];
  size_t bytes;
  return operand->constant && operand->desc.dtype == computed_in(node) && braid_desc_count(&operand->desc) > 0 &&
         braid_mul_size((size_t)braid_desc_count(&operand->desc), BRAID_CELL_BYTES, &bytes);
}

/* Few sequences, or weights that do not stay in the cache of each thread: threads divide the units. Else they divide
 * the sequences, and do not wait for each other. */
static void divide_work(recurrent_state *s) {
  int64_t n = s->r.hidden, weights = s->r.gates * n * n, apart = s->r.directions;
  s->members = 1;
  if (weights <= kCached && s->r.batch / kLeastCachedRows > s->teams)
    s->teams = smaller(s->r.batch / kLeastCachedRows, s->threads);
  if (apart * s->teams >= s->threads && weights <= kCached) return;
  int64_t most = smaller(s->threads / apart, smaller(s->panels, weights * s->r.batch / kWorthMember));
  if (most < 2 || most * apart < s->teams) return;
  s->members = most;
  s->teams = 1;
}

static braid_status forward_init(const braid_node_desc *node, void *self) {
  recurrent_state *s = self;
  BRAID_TRY(braid_ref_recurrent_read(node, s));
  int64_t n = s->r.hidden, batch = s->r.batch, steps = s->r.steps, gates = s->r.gates, directions = s->r.directions;
  int64_t width = BRAID_CELL_BYTES / (int64_t)braid_dtype_size(computed_in(node));
  bool fits = true, resets = s->r.cell == BRAID_CELL_GRU && !s->r.linear_before_reset;
  s->panels = (n + width - 1) / width;
  s->first_gates = resets ? 2 : gates;
  s->w_is_packed = is_packed(node, IN_W);
  s->r_is_packed = is_packed(node, IN_R);
  divide_work(s);
  s->piece = batch && batch < kPieceRows ? kPieceRows / batch : 1;
  if (s->piece > steps) s->piece = steps;
  if (s->piece < 1) s->piece = 1;
  int64_t columns = s->panels * width;
  if (s->r.batch_first) s->at.x = braid_ref_recurrent_place(node, s, steps * batch, s->r.inputs, &fits);
  if (!s->w_is_packed)
    s->at.packed_w = braid_ref_recurrent_place(node, s, directions * s->r.inputs, gates * columns, &fits);
  if (!s->r_is_packed) s->at.packed_r = braid_ref_recurrent_place(node, s, directions * n, gates * columns, &fits);
  size_t shared = s->base.scratch_bytes;
  s->at.bias = braid_ref_recurrent_place(node, s, gates + 1, columns, &fits);
  s->at.gates = braid_ref_recurrent_place(node, s, s->piece * batch, gates * columns, &fits);
  s->at.part = braid_ref_recurrent_place(node, s, batch, s->first_gates * columns, &fits);
  s->at.h = braid_ref_recurrent_place(node, s, batch, n, &fits);
  s->at.next_h = braid_ref_recurrent_place(node, s, batch, n, &fits);
  s->at.c = braid_ref_recurrent_place(node, s, batch, n, &fits);
  if (resets) {
    s->at.reset = braid_ref_recurrent_place(node, s, batch, n, &fits);
    s->at.reset_sums = braid_ref_recurrent_place(node, s, batch, columns, &fits);
  }
  s->direction_bytes = s->base.scratch_bytes - shared;
  if (directions == 2) fits = fits && braid_add_size(s->base.scratch_bytes, s->direction_bytes, &s->base.scratch_bytes);
  return braid_ref_recurrent_check(fits);
}

static braid_status forward_create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                   braid_prepared_info *info) {
  static const braid_ref_op op = {sizeof(recurrent_state), forward_init, forward_f32, forward_f64};
  return braid_ref_create(allocator, node, &op, state, info);
}

/* --- constant weights ----------------------------------------------------------------------------------------------
 */
static bool in_double(const recurrent_state *s) {
  return s->base.compute == forward_f64;
}

static void add_packing(const recurrent_state *s, uint32_t input, int64_t inner, int64_t first, braid_query *query) {
  const int64_t shape[] = {s->r.directions, s->r.gates, first, s->r.hidden, inner, in_double(s)};
  size_t bytes = (size_t)(s->r.directions * s->r.gates * s->panels * inner) * BRAID_CELL_BYTES;
  query->packings[query->packing_count++] =
      (braid_packing){input, bytes, braid_fnv_mix(BRAID_FNV_START, shape, sizeof shape)};
}

static void forward_list_packings(const void *state, braid_query *query) {
  const recurrent_state *s = state;
  if (s->w_is_packed) add_packing(s, IN_W, s->r.inputs, s->r.gates, query);
  if (s->r_is_packed) add_packing(s, IN_R, s->r.hidden, s->first_gates, query);
}

static braid_status forward_pack(const braid_node_desc *node, void *state, uint32_t input, const void *plain,
                                 void *packed) {
  (void)node;
  if (in_double(state))
    pack_f64(state, input == IN_R, plain, packed);
  else
    pack_f32(state, input == IN_R, plain, packed);
  return BRAID_OK;
}

static const braid_cpu_kernel kForward = {
    .create = forward_create, .run = braid_ref_run, .list_packings = forward_list_packings, .pack = forward_pack};

static const braid_kernel kKernels[] = {
    {.op = "GRU", .name = "ref_gru", .match = braid_ref_match_float, .implementation = &kForward},
    {.op = "LSTM", .name = "ref_lstm", .match = braid_ref_match_float, .implementation = &kForward},
    {.op = "RNN", .name = "ref_rnn", .match = braid_ref_match_float, .implementation = &kForward},
};

extern const braid_cpu_table braid_cpu_recurrent_recurrent;
const braid_cpu_table braid_cpu_recurrent_recurrent = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
