/* RNN, GRU and LSTM for `T`; included by recurrent.c once for each type. */

#include "backend/cpu/recurrent/moves.h"

enum { NAME(kWidth) = BRAID_CELL_BYTES / sizeof(T) };

/* One direction's way through the sequence. */
typedef struct NAME(pass) {
  const recurrent_state *s;
  braid_cell_desc cell;
  bool backwards;
  const int32_t *lengths;
  const T *packed_w;
  const T *packed_r, *packed_reset; /* packed_reset: of the GRU's candidate if it is multiplied by r * h */
  T *gates;                         /* W x of the piece, [step, batch, panel, gate, width] */
  T *sums, *reset_sums;             /* R h and R (r * h) of a step, in the same order of columns */
  T *h[2];                          /* [batch, hidden], before and after a step in turn */
  T *c, *reset;                     /* [batch, hidden] */
  T *y;                             /* at step 0 of the direction; NULL: not wanted */
  T *saved;                         /* [step, batch, saved * hidden]; NULL: not wanted */
} NAME(pass);

/* What one thread does of each step. */
typedef struct NAME(share) {
  int64_t first, end;             /* sequences */
  int64_t first_panel, end_panel; /* units */
  bool joined;                    /* other threads have the rest of the same sequences' units */
} NAME(share);

/* The product of `gates` gates' weights with states, for the units of a block. */
static void NAME(recur)(const recurrent_state *s, const NAME(share) * share, const T *h, const T *packed, int64_t gates,
                        int64_t first, int64_t end, T *sums) {
  int64_t n = s->r.hidden, width = gates * NAME(kWidth), step = s->panels * width;
  braid_gemm_run(DTYPE, share->end - share->first, n, (end - first) * width, (braid_matrix){h + share->first * n, n, 1},
                 packed + first * width * n, sums + share->first * step + first * width, step, false);
}

static braid_cell_row NAME(row_of)(const NAME(pass) * p, int64_t t, int64_t at, int64_t b, const T *before, T *after) {
  const recurrent_state *s = p->s;
  int64_t n = s->r.hidden, width = s->panels * NAME(kWidth);
  return (braid_cell_row){.x = p->gates + (at * s->r.batch + b) * s->r.gates * width,
                          .sums = p->sums + b * s->first_gates * width,
                          .reset_sums = p->reset_sums + b * width,
                          .before = before + b * n,
                          .after = after + b * n,
                          .c = p->c + b * n,
                          .reset = p->reset + b * n,
                          .y = p->y ? p->y + t * s->y_step + b * s->y_row : NULL,
                          .saved = p->saved ? p->saved + (t * s->r.batch + b) * s->r.saved * n : NULL};
}

/* A sequence that has ended keeps its state. */
static void NAME(keep_row)(const recurrent_state *s, const braid_cell_row *row, int64_t first, int64_t end) {
  int64_t n = s->r.hidden, from = first * NAME(kWidth), to = end * NAME(kWidth) < n ? end * NAME(kWidth) : n;
  size_t bytes = (size_t)(to - from) * sizeof(T);
  memcpy((T *)row->after + from, (const T *)row->before + from, bytes);
  if (row->y) memset((T *)row->y + from, 0, bytes);
  for (int64_t k = 0; row->saved && k < s->r.saved; k++) memset((T *)row->saved + k * n + from, 0, bytes);
}

/* Blocks of units of a step: every other step goes through them from the end, since the weights used last are those
 * still in the cache. `index`: of the step. */
static int64_t NAME(block_at)(const NAME(share) * share, int64_t length, int64_t index, int64_t block) {
  int64_t blocks = (share->end_panel - share->first_panel + length - 1) / length;
  return share->first_panel + (index % 2 ? blocks - 1 - block : block) * length;
}

/* One step, `at` in the piece and `t` in the sequence, the index-th of the direction. */
static void NAME(run_step)(const NAME(pass) * p, const NAME(share) * share, int64_t index, int64_t at, int64_t t) {
  const recurrent_state *s = p->s;
  bool reset = s->first_gates < s->r.gates;
  const T *before = p->h[index % 2];
  T *after = p->h[(index + 1) % 2];
  int64_t length = kBlockPanels / s->r.gates, count = share->end_panel - share->first_panel;
  for (int phase = 0; phase <= reset; phase++) {
    for (int64_t block = 0; block * length < count; block++) {
      int64_t first = NAME(block_at)(share, length, index + phase, block);
      int64_t end = first + length < share->end_panel ? first + length : share->end_panel;
      if (phase == 0)
        NAME(recur)(s, share, before, p->packed_r, s->first_gates, first, end, p->sums);
      else
        NAME(recur)(s, share, p->reset, p->packed_reset, 1, first, end, p->reset_sums);
      for (int64_t b = share->first; b < share->end; b++) {
        braid_cell_row row = NAME(row_of)(p, t, at, b, before, after);
        if (!braid_ref_recurrent_active(p->lengths, t, b))
          NAME(keep_row)(s, &row, first, end);
        else if (reset && phase == 0)
          RUN_RESET(&p->cell, &row, first, end);
        else
          RUN_CELL(&p->cell, &row, first, end);
      }
    }
    if (share->joined) {
#pragma omp barrier
    }
  }
}

/* The steps of a piece: `done` steps of the direction are before it. */
static void NAME(run_steps)(const NAME(pass) * p, const NAME(share) * share, int64_t done, int64_t count) {
  for (int64_t k = 0; k < count; k++) {
    int64_t index = done + k, t = p->backwards ? p->s->r.steps - 1 - index : index;
    NAME(run_step)(p, share, index, p->backwards ? count - 1 - k : k, t);
  }
}

/* The share of a thread in a piece, whose threads are `lanes`. Every thread of a joined team comes to each barrier. */
static void NAME(run_lane)(const NAME(pass) * passes, int64_t lane, int64_t lanes, int64_t done, int64_t count) {
  const recurrent_state *s = passes->s;
  int64_t directions = s->r.directions, batch = s->r.batch, items = directions * s->teams;
  NAME(share) share = {0, batch, 0, s->panels, false};
  if (s->members == 1 || lanes < directions * s->members) {
    for (int64_t item = lane; item < items; item += lanes) {
      int64_t team = item % s->teams;
      share.first = team * batch / s->teams;
      share.end = (team + 1) * batch / s->teams;
      NAME(run_steps)(&passes[item / s->teams], &share, done, count);
    }
    return;
  }
  int64_t member = lane % s->members;
  share.first_panel = member * s->panels / s->members;
  share.end_panel = (member + 1) * s->panels / s->members;
  share.joined = true;
  NAME(run_steps)(&passes[lane / s->members], &share, done, count);
}

/* The whole sequence, a piece at a time: W x of all its steps in one product, then the steps. */
static void NAME(run_pieces)(const recurrent_state *s, const NAME(pass) * passes, const T *x) {
  int64_t inputs = s->r.inputs, batch = s->r.batch, width = s->r.gates * s->panels * NAME(kWidth);
  int lanes = (int)(s->r.directions * s->teams * s->members);
  for (int64_t done = 0; done < s->r.steps; done += s->piece) {
    int64_t count = s->r.steps - done < s->piece ? s->r.steps - done : s->piece;
    for (int64_t d = 0; d < s->r.directions; d++) {
      int64_t from = passes[d].backwards ? s->r.steps - done - count : done;
      braid_gemm_run(DTYPE, count * batch, inputs, width, (braid_matrix){x + from * batch * inputs, inputs, 1},
                     passes[d].packed_w, passes[d].gates, width, false);
    }
    if (lanes > s->threads) lanes = (int)s->threads;
#pragma omp parallel num_threads(lanes) if (lanes > 1)
    NAME(run_lane)(passes, omp_get_thread_num(), omp_get_num_threads(), done, count);
  }
}

/* The weights [gates * hidden, inner] of `gates` gates from `first` on as the right side of a product whose columns are
 * [panel, gate, width], so that a step takes the gates of a unit together. */
static void NAME(pack_gates)(const recurrent_state *s, int64_t inner, int64_t first, int64_t gates, const T *weights,
                             T *packed) {
  int64_t n = s->r.hidden;
#pragma omp parallel for schedule(static) if (inner * n * gates > 1 << 16)
  for (int64_t panel = 0; panel < s->panels * gates; panel++) {
    int64_t unit = panel / gates * NAME(kWidth), row = (first + panel % gates) * n + unit;
    braid_gemm_pack(DTYPE, inner, n - unit < NAME(kWidth) ? n - unit : NAME(kWidth),
                    (braid_matrix){weights + row * inner, 1, inner}, packed + panel * inner * NAME(kWidth));
  }
}

/* W or R of all directions. */
static void NAME(pack)(const recurrent_state *s, bool recurrent, const T *weights, T *packed) {
  int64_t gates = s->r.gates, inner = recurrent ? s->r.hidden : s->r.inputs;
  int64_t first = recurrent ? s->first_gates : gates, panel = inner * NAME(kWidth);
  for (int64_t d = 0; d < s->r.directions; d++) {
    NAME(pack_gates)(s, inner, 0, first, weights, packed);
    if (first < gates) NAME(pack_gates)(s, inner, first, gates - first, weights, packed + s->panels * first * panel);
    weights += gates * s->r.hidden * inner;
    packed += s->panels * gates * panel;
  }
}

/* Wb + Rb in the order of the packed columns; under linear_before_reset the candidate's Rb stands apart, behind them.
 */
static void NAME(join_biases)(const recurrent_state *s, const T *both, T *joined) {
  int64_t n = s->r.hidden, gates = s->r.gates, rows = gates * n;
  T *apart = joined + s->panels * gates * NAME(kWidth);
  memset(joined, 0, (size_t)(s->panels * (gates + 1) * NAME(kWidth)) * sizeof(T));
  for (int64_t i = 0; both && i < rows; i++) {
    int64_t gate = i / n, unit = i % n, column = unit % NAME(kWidth);
    bool own = s->r.linear_before_reset && s->r.cell == BRAID_CELL_GRU && gate == 2;
    joined[(unit / NAME(kWidth) * gates + gate) * NAME(kWidth) + column] = own ? both[i] : both[i] + both[rows + i];
    if (own) apart[unit] = both[rows + i];
  }
}

/* Prepares direction `d`; `room` is its scratch memory. */
static void NAME(begin)(const recurrent_state *s, int64_t d, const void *const *inputs, void *const *outputs,
                        const T *packed_w, const T *packed_r, char *room, NAME(pass) * p) {
  int64_t n = s->r.hidden, gates = s->r.gates, panels = s->panels;
  const T *bias = inputs[IN_B], *peephole = inputs[IN_P];
  T *y = outputs[0], *saved = outputs[s->saved_output], *joined = (T *)(room + s->at.bias);
  *p = (NAME(pass)){.s = s,
                    .cell = {.kind = s->r.cell,
                             .units = s->r.units[d],
                             .hidden = n,
                             .linear_before_reset = s->r.linear_before_reset,
                             .input_forget = s->r.input_forget,
                             .bias = joined,
                             .recurrent_bias = joined + panels * gates * NAME(kWidth),
                             .peephole = peephole ? peephole + d * 3 * n : NULL},
                    .backwards = s->r.backwards || d == 1,
                    .lengths = inputs[IN_LENGTHS],
                    .packed_w = packed_w + d * panels * gates * s->r.inputs * NAME(kWidth),
                    .packed_r = packed_r + d * panels * gates * n * NAME(kWidth),
                    .gates = (T *)(room + s->at.gates),
                    .sums = (T *)(room + s->at.part),
                    .reset_sums = (T *)(room + s->at.reset_sums),
                    .h = {(T *)(room + s->at.h), (T *)(room + s->at.next_h)},
                    .c = (T *)(room + s->at.c),
                    .reset = (T *)(room + s->at.reset),
                    .y = y ? y + d * s->y_direction : NULL,
                    .saved = saved ? saved + d * s->r.steps * s->r.batch * s->r.saved * n : NULL};
  p->packed_reset = p->packed_r + panels * s->first_gates * n * NAME(kWidth);
  NAME(join_biases)(s, bias ? bias + d * 2 * gates * n : NULL, joined);
  NAME(take_state)(s, d, inputs[IN_H], p->h[0]);
  NAME(take_state)(s, d, inputs[IN_C], p->c);
}

static void NAME(forward)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const recurrent_state *s = self;
  char *room = scratch;
  const T *x = inputs[IN_X], *packed_w = inputs[IN_W], *packed_r = inputs[IN_R];
  if (s->r.batch_first) {
    T *exchanged = (T *)(room + s->at.x);
    NAME(exchange)(s->r.batch, s->r.steps, s->r.inputs, x, exchanged);
    x = exchanged;
  }
  if (!s->w_is_packed) {
    NAME(pack)(s, false, packed_w, (T *)(room + s->at.packed_w));
    packed_w = (T *)(room + s->at.packed_w);
  }
  if (!s->r_is_packed) {
    NAME(pack)(s, true, packed_r, (T *)(room + s->at.packed_r));
    packed_r = (T *)(room + s->at.packed_r);
  }
  NAME(pass) passes[2];
  for (int64_t d = 0; d < s->r.directions; d++)
    NAME(begin)(s, d, inputs, outputs, packed_w, packed_r, room + (size_t)d * s->direction_bytes, &passes[d]);
  NAME(run_pieces)(s, passes, x);
  for (int64_t d = 0; d < s->r.directions; d++) {
    NAME(give_state)(s, d, passes[d].h[s->r.steps % 2], outputs[1]);
    if (s->r.cell == BRAID_CELL_LSTM) NAME(give_state)(s, d, passes[d].c, outputs[2]);
  }
}
