/* Gradients of RNN, GRU and LSTM for `T`; included by gradient.c once for each type.
 *
 * First the state before every step is computed again from the saved gates. Then, from the last step to the first, the
 * gradients of what went into each activation; these go to memory, and what is left are three products over all steps
 * at once. */

#include "backend/cpu/recurrent/moves.h"

typedef struct NAME(back) {
  const recurrent_state *s;
  const braid_unit *units;
  int64_t d;
  bool backwards;
  const int32_t *lengths;
  const T *saved;                         /* [step, batch, saved * hidden] of the direction */
  const T *peephole, *first_cell, *zeros; /* first_cell: initial_c of the direction, by s->state_row; NULL: zeros */
  const T *dy;                            /* of the direction, by s->y_step; NULL: none */
  const T *packed_r, *packed_candidate;
  T *gradients; /* [step, batch, extent * hidden] */
  T *states;    /* [step, batch, hidden]: before each step */
  T *dh, *dc, *part;
} NAME(back);

static void NAME(add)(T *to, const T *from, int64_t count) {
  for (int64_t i = 0; from && i < count; i++) to[i] += from[i];
}

static void NAME(multiply)(T *to, const T *a, const T *b, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] = a[i] * b[i];
}

static void NAME(add_products)(T *to, const T *a, const T *b, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] += a[i] * b[i];
}

static const T *NAME(saved_row)(const NAME(back) * p, int64_t t, int64_t b) {
  return p->saved + (t * p->s->r.batch + b) * p->s->r.saved * p->s->r.hidden;
}

/* The cell state before step t, which sequence b has. */
static const T *NAME(cell_before)(const NAME(back) * p, int64_t t, int64_t b) {
  int64_t steps = p->s->r.steps, end = p->lengths && p->lengths[b] < steps ? p->lengths[b] : steps;
  if (t == (p->backwards ? end - 1 : 0)) return p->first_cell ? p->first_cell + b * p->s->state_row : p->zeros;
  return NAME(saved_row)(p, p->backwards ? t + 1 : t - 1, b) + 4 * p->s->r.hidden;
}

/* --- states before each step ---------------------------------------------------------------------------------------
 */
static void NAME(next_state)(const NAME(back) * p, const T *saved, T *h) {
  int64_t n = p->s->r.hidden;
  if (p->s->r.cell == BRAID_CELL_GRU) {
    for (int64_t i = 0; i < n; i++) h[i] = (1 - saved[i]) * saved[2 * n + i] + saved[i] * h[i];
    return;
  }
  bool lstm = p->s->r.cell == BRAID_CELL_LSTM;
  memcpy(h, lstm ? saved + 4 * n : saved, (size_t)n * sizeof(T));
  if (!lstm) return;
  RUN_UNIT(&p->units[2], h, n);
  for (int64_t i = 0; i < n; i++) h[i] *= saved[n + i];
}

/* dh serves as the running state. */
static void NAME(restore_states)(const NAME(back) * p, const T *h0) {
  const recurrent_state *s = p->s;
  int64_t n = s->r.hidden, steps = s->r.steps;
#pragma omp parallel for schedule(static) if (steps * n * s->r.batch > 1 << 14)
  for (int64_t b = 0; b < s->r.batch; b++) {
    T *h = p->dh + b * n;
    for (int64_t i = 0; i < n; i++) h[i] = h0 ? h0[p->d * s->state_direction + b * s->state_row + i] : 0;
    for (int64_t k = 0; k < steps; k++) {
      int64_t t = p->backwards ? steps - 1 - k : k;
      memcpy(p->states + (t * s->r.batch + b) * n, h, (size_t)n * sizeof(T));
      if (braid_ref_recurrent_active(p->lengths, t, b)) NAME(next_state)(p, NAME(saved_row)(p, t, b), h);
    }
  }
}

/* --- from the last step to the first -------------------------------------------------------------------------------
 * Rows get dh, the gradient of the state after the step, and leave in it what reaches the state before the step other
 * than through R. */
static void NAME(rnn_row)(const NAME(back) * p, const T *saved, T *dh, T *gradient) {
  int64_t n = p->s->r.hidden;
  memcpy(gradient, dh, (size_t)n * sizeof(T));
  RUN_SLOPE(&p->units[0], saved, gradient, n);
  memset(dh, 0, (size_t)n * sizeof(T));
}

/* Leaves out the reset gate, unless linear_before_reset. */
static void NAME(gru_row)(const NAME(back) * p, const T *saved, const T *before, T *dh, T *gradient) {
  int64_t n = p->s->r.hidden;
  const T *z = saved, *r = z + n, *candidate = r + n, *recurrent = candidate + n;
  T *dz = gradient, *dr = dz + n, *dcandidate = dr + n, *drecurrent = dcandidate + n;
  for (int64_t i = 0; i < n; i++) {
    dz[i] = dh[i] * (before[i] - candidate[i]);
    dcandidate[i] = dh[i] * (1 - z[i]);
    dh[i] *= z[i];
  }
  RUN_SLOPE(&p->units[0], z, dz, n);
  RUN_SLOPE(&p->units[1], candidate, dcandidate, n);
  if (!p->s->r.linear_before_reset) return;
  NAME(multiply)(dr, dcandidate, recurrent, n);
  NAME(multiply)(drecurrent, dcandidate, r, n);
  RUN_SLOPE(&p->units[0], r, dr, n);
}

static void NAME(lstm_row)(const NAME(back) * p, const T *saved, const T *before, T *dh, T *dc, T *gradient) {
  int64_t n = p->s->r.hidden;
  const T *i = saved, *o = i + n, *f = o + n, *g = f + n, *cell = g + n, *peephole = p->peephole;
  T *di = gradient, *dout = di + n, *df = dout + n, *dg = df + n;
  memcpy(df, cell, (size_t)n * sizeof(T));
  RUN_UNIT(&p->units[2], df, n);
  NAME(multiply)(dg, dh, o, n);
  RUN_SLOPE(&p->units[2], df, dg, n);
  NAME(add)(dc, dg, n);
  NAME(multiply)(dout, dh, df, n);
  RUN_SLOPE(&p->units[0], o, dout, n);
  if (peephole) NAME(add_products)(dc, dout, peephole + n, n);
  NAME(multiply)(di, dc, g, n);
  NAME(multiply)(df, dc, before, n);
  if (p->s->r.input_forget) { /* f = 1 - i */
    for (int64_t k = 0; k < n; k++) di[k] -= df[k];
    memset(df, 0, (size_t)n * sizeof(T));
  } else {
    RUN_SLOPE(&p->units[0], f, df, n);
  }
  RUN_SLOPE(&p->units[0], i, di, n);
  NAME(multiply)(dg, dc, i, n);
  RUN_SLOPE(&p->units[1], g, dg, n);
  NAME(multiply)(dc, dc, f, n);
  if (peephole) {
    NAME(add_products)(dc, di, peephole, n);
    NAME(add_products)(dc, df, peephole + 2 * n, n);
  }
  memset(dh, 0, (size_t)n * sizeof(T));
}

static void NAME(row)(const NAME(back) * p, int64_t t, int64_t b, T *gradient) {
  const recurrent_state *s = p->s;
  int64_t n = s->r.hidden;
  const T *saved = NAME(saved_row)(p, t, b);
  T *dh = p->dh + b * n;
  if (!braid_ref_recurrent_active(p->lengths, t, b)) {
    memset(gradient, 0, (size_t)(s->extent * n) * sizeof(T));
    return;
  }
  if (p->dy) NAME(add)(dh, p->dy + t * s->y_step + b * s->y_row, n);
  if (s->r.cell == BRAID_CELL_LSTM)
    NAME(lstm_row)(p, saved, NAME(cell_before)(p, t, b), dh, p->dc + b * n, gradient);
  else if (s->r.cell == BRAID_CELL_GRU)
    NAME(gru_row)(p, saved, p->states + (t * s->r.batch + b) * n, dh, gradient);
  else
    NAME(rnn_row)(p, saved, dh, gradient);
}

/* result += or = rows of gradients, `inner` wide from column `from` on, times rows of R. */
static void NAME(through)(const recurrent_state *s, const T *gradients, int64_t from, int64_t inner, int64_t rows,
                          const T *packed, T *result, bool accumulate) {
  int64_t n = s->r.hidden;
  braid_gemm_run(DTYPE, rows, inner, n, (braid_matrix){gradients + from, s->extent * n, 1}, packed, result, n,
                 accumulate);
}

/* The reset gate of a step before whose product R stands: part = the gradient of r * h. */
static void NAME(reset_rows)(const NAME(back) * p, int64_t t, int64_t first, int64_t rows, T *gradients) {
  const recurrent_state *s = p->s;
  int64_t n = s->r.hidden;
  NAME(through)(s, gradients, 2 * n, n, rows, p->packed_candidate, p->part + first * n, false);
  for (int64_t b = first; b < first + rows; b++, gradients += s->extent * n) {
    const T *r = NAME(saved_row)(p, t, b) + n, *part = p->part + b * n;
    if (!braid_ref_recurrent_active(p->lengths, t, b)) continue;
    NAME(multiply)(gradients + n, part, p->states + (t * s->r.batch + b) * n, n);
    RUN_SLOPE(&p->units[0], r, gradients + n, n);
    NAME(add_products)(p->dh + b * n, part, r, n);
  }
}

static void NAME(run_back)(const NAME(back) * p, int64_t first, int64_t rows) {
  const recurrent_state *s = p->s;
  int64_t n = s->r.hidden, width = s->extent * n;
  bool gru = s->r.cell == BRAID_CELL_GRU;
  for (int64_t k = s->r.steps; k-- > 0;) {
    int64_t t = p->backwards ? s->r.steps - 1 - k : k;
    T *gradients = p->gradients + (t * s->r.batch + first) * width, *dh = p->dh + first * n;
    for (int64_t b = 0; b < rows; b++) NAME(row)(p, t, first + b, gradients + b * width);
    if (gru && !s->r.linear_before_reset) NAME(reset_rows)(p, t, first, rows, gradients);
    NAME(through)(s, gradients, 0, (gru ? 2 : s->r.gates) * n, rows, p->packed_r, dh, true);
    if (gru && s->r.linear_before_reset) NAME(through)(s, gradients, 3 * n, n, rows, p->packed_candidate, dh, true);
  }
}

/* --- sums over all steps -------------------------------------------------------------------------------------------
 */
/* sums[c] = sum over rows of a[r * step + c], in double and in the order of rows. */
static void NAME(sum_columns)(int64_t rows, int64_t columns, int64_t step, const T *a, T *sums) {
#pragma omp parallel for schedule(static) if (rows * columns > 1 << 15)
  for (int64_t from = 0; from < columns; from += kColumns) {
    double total[kColumns] = {0};
    int64_t count = columns - from < kColumns ? columns - from : kColumns;
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < count; c++) total[c] += (double)a[r * step + from + c];
    for (int64_t c = 0; c < count; c++) sums[from + c] = (T)total[c];
  }
}

/* Wb and Rb are added to the same sums, but for the candidate's under linear_before_reset. */
static void NAME(give_bias)(const NAME(back) * p, T *sums, T *out) {
  const recurrent_state *s = p->s;
  int64_t n = s->r.hidden, rows = s->r.gates * n;
  NAME(sum_columns)(s->r.steps * s->r.batch, s->extent * n, s->extent * n, p->gradients, sums);
  memcpy(out, sums, (size_t)rows * sizeof(T));
  memcpy(out + rows, sums, (size_t)rows * sizeof(T));
  if (s->extent > s->r.gates) memcpy(out + rows + 2 * n, sums + 3 * n, (size_t)n * sizeof(T));
}

/* Peepholes i, o, f look at the cell before the step, after it, and before it. */
static void NAME(give_peephole)(const NAME(back) * p, T *out) {
  const recurrent_state *s = p->s;
  int64_t n = s->r.hidden;
#pragma omp parallel for schedule(static) if (s->r.steps * s->r.batch * n > 1 << 15)
  for (int64_t from = 0; from < n; from += kColumns) {
    double total[3][kColumns] = {{0}};
    int64_t count = n - from < kColumns ? n - from : kColumns;
    for (int64_t t = 0; t < s->r.steps; t++)
      for (int64_t b = 0; b < s->r.batch; b++) {
        if (!braid_ref_recurrent_active(p->lengths, t, b)) continue;
        const T *before = NAME(cell_before)(p, t, b) + from, *after = NAME(saved_row)(p, t, b) + 4 * n + from;
        const T *gradient = p->gradients + (t * s->r.batch + b) * 4 * n + from;
        for (int64_t c = 0; c < count; c++) {
          total[0][c] += (double)(gradient[c] * before[c]);
          total[1][c] += (double)(gradient[n + c] * after[c]);
          total[2][c] += (double)(gradient[2 * n + c] * before[c]);
        }
      }
    for (int k = 0; k < 3; k++)
      for (int64_t c = 0; c < count; c++) out[k * n + from + c] = (T)total[k][c];
  }
}

/* out[rows, columns] = transposed gradients, from column `from` on, times [step * batch, columns]. */
static void NAME(give_weights)(const NAME(back) * p, int64_t from, int64_t rows, const T *packed, int64_t columns,
                               T *out) {
  const recurrent_state *s = p->s;
  braid_gemm_run(DTYPE, rows, s->r.steps * s->r.batch, columns,
                 (braid_matrix){p->gradients + from, 1, s->extent * s->r.hidden}, packed, out, columns, false);
}

static void NAME(pack)(int64_t inner, int64_t columns, const T *right, T *packed) {
  braid_gemm_pack(DTYPE, inner, columns, (braid_matrix){right, columns, 1}, packed);
}

static void NAME(give_recurrent)(const NAME(back) * p, T *packed, T *out) {
  const recurrent_state *s = p->s;
  int64_t n = s->r.hidden, all = s->r.steps * s->r.batch;
  bool gru = s->r.cell == BRAID_CELL_GRU;
  NAME(pack)(all, n, p->states, packed);
  NAME(give_weights)(p, 0, (gru ? 2 : s->r.gates) * n, packed, n, out);
  if (!gru) return;
  if (!s->r.linear_before_reset) { /* the candidate's R multiplies r * h; the states are not needed any more */
#pragma omp parallel for schedule(static) if (all * n > 1 << 15)
    for (int64_t row = 0; row < all; row++) {
      bool active = braid_ref_recurrent_active(p->lengths, row / s->r.batch, row % s->r.batch);
      const T *r = p->saved + row * 3 * n + n;
      for (int64_t i = 0; i < n; i++) p->states[row * n + i] *= active ? r[i] : 0;
    }
    NAME(pack)(all, n, p->states, packed);
  }
  NAME(give_weights)(p, (s->r.linear_before_reset ? 3 : 2) * n, n, packed, n, out + 2 * n * n);
}

/* --- whole ---------------------------------------------------------------------------------------------------------
 */
static void NAME(direction)(NAME(back) * p, const void *const *inputs, void *const *outputs, const T *x, T *dx,
                            char *room) {
  const recurrent_state *s = p->s;
  int64_t n = s->r.hidden, rows = s->r.gates * n, all = s->r.steps * s->r.batch, d = p->d;
  const T *w = (const T *)inputs[IN_W] + d * rows * s->r.inputs, *r = (const T *)inputs[IN_R] + d * rows * n;
  T *packed = (T *)(room + s->at.packed), *packed_r = (T *)(room + s->at.packed_r);
  T *packed_candidate = (T *)(room + s->at.packed_candidate);
  bool gru = s->r.cell == BRAID_CELL_GRU;
  NAME(pack)(gru ? 2 * n : rows, n, r, packed_r);
  if (gru) NAME(pack)(n, n, r + 2 * n * n, packed_candidate);
  p->packed_r = packed_r;
  p->packed_candidate = packed_candidate;
  NAME(restore_states)(p, inputs[IN_H]);
  NAME(take_state)(s, d, inputs[IN_DH], p->dh);
  NAME(take_state)(s, d, inputs[IN_DC], p->dc);
#pragma omp parallel for schedule(static) if (s->teams > 1)
  for (int64_t team = 0; team < s->teams; team++) {
    int64_t first = team * s->r.batch / s->teams, end = (team + 1) * s->r.batch / s->teams;
    NAME(run_back)(p, first, end - first);
  }
  NAME(give_state)(s, d, p->dh, outputs[OUT_H]);
  NAME(give_state)(s, d, p->dc, outputs[OUT_C]);
  if (outputs[OUT_P]) NAME(give_peephole)(p, (T *)outputs[OUT_P] + d * 3 * n);
  if (outputs[OUT_B]) NAME(give_bias)(p, (T *)(room + s->at.sums), (T *)outputs[OUT_B] + d * 2 * rows);
  if (outputs[OUT_R]) NAME(give_recurrent)(p, packed, (T *)outputs[OUT_R] + d * rows * n);
  if (outputs[OUT_W]) {
    NAME(pack)(all, s->r.inputs, x, packed);
    NAME(give_weights)(p, 0, rows, packed, s->r.inputs, (T *)outputs[OUT_W] + d * rows * s->r.inputs);
  }
  if (dx) {
    NAME(pack)(rows, s->r.inputs, w, packed);
    braid_gemm_run(DTYPE, all, rows, s->r.inputs, (braid_matrix){p->gradients, s->extent * n, 1}, packed, dx,
                   s->r.inputs, d > 0);
  }
}

static void NAME(gradient)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const recurrent_state *s = self;
  char *room = scratch;
  int64_t n = s->r.hidden;
  const T *x = inputs[IN_X], *c0 = inputs[IN_C], *peephole = inputs[IN_P], *dy = inputs[IN_DY];
  T *dx = outputs[OUT_X], *zeros = (T *)(room + s->at.zeros);
  memset(zeros, 0, (size_t)n * sizeof(T));
  if (s->r.batch_first) {
    NAME(exchange)(s->r.batch, s->r.steps, s->r.inputs, x, (T *)(room + s->at.x));
    x = (T *)(room + s->at.x);
    if (dx) dx = (T *)(room + s->at.dx);
  }
  for (int64_t d = 0; d < s->r.directions; d++) {
    NAME(back)
    p = {.s = s,
         .units = s->r.units[d],
         .d = d,
         .backwards = s->r.backwards || d == 1,
         .lengths = inputs[IN_LENGTHS],
         .saved = (const T *)inputs[IN_SAVED] + d * s->r.steps * s->r.batch * s->r.saved * n,
         .peephole = peephole ? peephole + d * 3 * n : NULL,
         .first_cell = c0 ? c0 + d * s->state_direction : NULL,
         .zeros = zeros,
         .dy = dy ? dy + d * s->y_direction : NULL,
         .gradients = (T *)(room + s->at.gradients),
         .states = (T *)(room + s->at.states),
         .dh = (T *)(room + s->at.h),
         .dc = (T *)(room + s->at.c),
         .part = (T *)(room + s->at.part)};
    NAME(direction)(&p, inputs, outputs, x, dx, room);
  }
  if (s->r.batch_first && dx) NAME(exchange)(s->r.steps, s->r.batch, s->r.inputs, dx, outputs[OUT_X]);
}
