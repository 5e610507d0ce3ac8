/* Included by unit_isa.c once for each type T, behind unit_template.h. */

enum { NAME(kWidth) = BRAID_CELL_BYTES / sizeof(T) };
#define W NAME(kWidth)
#define UNITS(statement) _Pragma("omp simd") for (int64_t k = 0; k < W; k++) statement;

/* Units of a panel, which may be less than a whole one at the end of the row. */
static inline void NAME(load)(T *to, const T *from, int64_t count) {
  if (count == W) {
    memcpy(to, from, W * sizeof(T));
    return;
  }
  memset(to, 0, W * sizeof(T));
  memcpy(to, from, (size_t)count * sizeof(T));
}

static inline void NAME(store)(T *to, const T *from, int64_t count) {
  if (to) memcpy(to, from, count == W ? W * sizeof(T) : (size_t)count * sizeof(T));
}

static inline void NAME(save)(const braid_cell_desc *cell, const braid_cell_row *row, int64_t which, int64_t at,
                              const T *from, int64_t count) {
  if (row->saved) NAME(store)((T *)row->saved + which * cell->hidden + at, from, count);
}

/* to[k] += peephole * c for the gate `which` of i, o and f */
static inline void NAME(peek)(const braid_cell_desc *cell, int64_t which, int64_t at, const T *c, T *to,
                              int64_t count) {
  T weights[W];
  NAME(load)(weights, (const T *)cell->peephole + which * cell->hidden + at, count);
  UNITS(to[k] += weights[k] * c[k])
}

static void NAME(lstm_panel)(const braid_cell_desc *cell, const braid_cell_row *row, int64_t panel, int64_t count) {
  const T *x = (const T *)row->x + panel * 4 * W, *sums = (const T *)row->sums + panel * 4 * W;
  const T *bias = (const T *)cell->bias + panel * 4 * W;
  int64_t at = panel * W;
  T gates[4 * W], c[W], h[W], *i = gates, *o = i + W, *f = o + W, *g = f + W;
  _Pragma("omp simd") for (int64_t k = 0; k < 4 * W; k++) gates[k] = x[k] + sums[k] + bias[k];
  NAME(load)(c, (T *)row->c + at, count);
  if (cell->peephole) {
    NAME(peek)(cell, 0, at, c, i, count);
    NAME(peek)(cell, 2, at, c, f, count);
    NAME(run)(&cell->units[0], i, W);
    NAME(run)(&cell->units[0], f, W);
  } else {
    NAME(run)(&cell->units[0], gates, 3 * W);
  }
  if (cell->input_forget) UNITS(f[k] = 1 - i[k])
  NAME(run)(&cell->units[1], g, W);
  UNITS(c[k] = f[k] * c[k] + i[k] * g[k])
  if (cell->peephole) {
    NAME(peek)(cell, 1, at, c, o, count);
    NAME(run)(&cell->units[0], o, W);
  }
  memcpy(h, c, sizeof h);
  NAME(run)(&cell->units[2], h, W);
  UNITS(h[k] *= o[k])
  NAME(store)((T *)row->c + at, c, count);
  NAME(store)((T *)row->after + at, h, count);
  if (row->y) NAME(store)((T *)row->y + at, h, count);
  for (int64_t gate = 0; gate < 4; gate++) NAME(save)(cell, row, gate, at, gates + gate * W, count);
  NAME(save)(cell, row, 4, at, c, count);
}

/* The candidate of a GRU, from z and r and its own parts: h = (1 - z) candidate + z h */
static void NAME(gru_end)(const braid_cell_desc *cell, const braid_cell_row *row, int64_t at, const T *z, T *candidate,
                          int64_t count) {
  T h[W];
  NAME(run)(&cell->units[1], candidate, W);
  NAME(load)(h, (const T *)row->before + at, count);
  UNITS(h[k] = (1 - z[k]) * candidate[k] + z[k] * h[k])
  NAME(store)((T *)row->after + at, h, count);
  if (row->y) NAME(store)((T *)row->y + at, h, count);
  NAME(save)(cell, row, 2, at, candidate, count);
}

/* z and r stay in x; r * h is what R is multiplied by for the candidate. */
static void NAME(gru_reset_panel)(const braid_cell_desc *cell, const braid_cell_row *row, int64_t panel,
                                  int64_t count) {
  const T *sums = (const T *)row->sums + panel * 2 * W, *bias = (const T *)cell->bias + panel * 3 * W;
  T *gates = (T *)row->x + panel * 3 * W, *r = gates + W, h[W];
  int64_t at = panel * W;
  _Pragma("omp simd") for (int64_t k = 0; k < 2 * W; k++) gates[k] += sums[k] + bias[k];
  NAME(run)(&cell->units[0], gates, 2 * W);
  NAME(load)(h, (const T *)row->before + at, count);
  UNITS(h[k] *= r[k])
  NAME(store)((T *)row->reset + at, h, count);
  NAME(save)(cell, row, 0, at, gates, count);
  NAME(save)(cell, row, 1, at, r, count);
}

static void NAME(gru_panel)(const braid_cell_desc *cell, const braid_cell_row *row, int64_t panel, int64_t count) {
  const T *x = (const T *)row->x + panel * 3 * W, *bias = (const T *)cell->bias + panel * 3 * W;
  int64_t at = panel * W;
  T gates[3 * W], recurrent[W], *r = gates + W, *candidate = r + W;
  if (!cell->linear_before_reset) {
    const T *sums = (const T *)row->reset_sums + at;
    UNITS(candidate[k] = x[2 * W + k] + sums[k] + bias[2 * W + k])
    NAME(gru_end)(cell, row, at, x, candidate, count);
    return;
  }
  const T *sums = (const T *)row->sums + panel * 3 * W, *recurrent_bias = (const T *)cell->recurrent_bias + at;
  _Pragma("omp simd") for (int64_t k = 0; k < 2 * W; k++) gates[k] = x[k] + sums[k] + bias[k];
  NAME(run)(&cell->units[0], gates, 2 * W);
  UNITS(recurrent[k] = sums[2 * W + k] + recurrent_bias[k])
  UNITS(candidate[k] = x[2 * W + k] + bias[2 * W + k] + r[k] * recurrent[k])
  NAME(gru_end)(cell, row, at, gates, candidate, count);
  NAME(save)(cell, row, 0, at, gates, count);
  NAME(save)(cell, row, 1, at, r, count);
  NAME(save)(cell, row, 3, at, recurrent, count);
}

static void NAME(rnn_panel)(const braid_cell_desc *cell, const braid_cell_row *row, int64_t panel, int64_t count) {
  const T *x = (const T *)row->x + panel * W, *sums = (const T *)row->sums + panel * W;
  const T *bias = (const T *)cell->bias + panel * W;
  int64_t at = panel * W;
  T h[W];
  UNITS(h[k] = x[k] + sums[k] + bias[k])
  NAME(run)(&cell->units[0], h, W);
  NAME(store)((T *)row->after + at, h, count);
  if (row->y) NAME(store)((T *)row->y + at, h, count);
  NAME(save)(cell, row, 0, at, h, count);
}

static int64_t NAME(units_in)(const braid_cell_desc *cell, int64_t panel) {
  int64_t left = cell->hidden - panel * W;
  return left < W ? left : W;
}

void EXPORTED(braid_cell_reset)(const braid_cell_desc *cell, const braid_cell_row *row, int64_t first, int64_t end) {
  for (int64_t panel = first; panel < end; panel++)
    NAME(gru_reset_panel)(cell, row, panel, NAME(units_in)(cell, panel));
}

void EXPORTED(braid_cell_run)(const braid_cell_desc *cell, const braid_cell_row *row, int64_t first, int64_t end) {
  for (int64_t panel = first; panel < end; panel++) {
    int64_t count = NAME(units_in)(cell, panel);
    if (cell->kind == BRAID_CELL_LSTM)
      NAME(lstm_panel)(cell, row, panel, count);
    else
      (cell->kind == BRAID_CELL_GRU ? NAME(gru_panel) : NAME(rnn_panel))(cell, row, panel, count);
  }
}
#undef W
#undef UNITS
