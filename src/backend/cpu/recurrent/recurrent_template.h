/* RNN, GRU and LSTM for `T`; included by recurrent.c once for each type. */

#include "backend/cpu/recurrent/moves.h"

/* One direction's way through a piece of the sequence. */
typedef struct NAME(pass) {
  const recurrent_state *s;
  const braid_unit *units;
  bool backwards;
  const int32_t *lengths;
  const T *packed_r, *packed_candidate;      /* GRU: z and r, and h; else all gates */
  const T *bias, *recurrent_bias, *peephole; /* NULL: none; recurrent_bias: of linear_before_reset */
  T *gates;                                  /* [step, batch, saved * hidden] of the piece */
  T *h, *c, *part;                           /* [batch, hidden] */
  T *y;                                      /* at step 0 of the direction; NULL: not wanted */
} NAME(pass);

static void NAME(add)(T *to, const T *from, int64_t count) {
  for (int64_t i = 0; from && i < count; i++) to[i] += from[i];
}

static void NAME(add_products)(T *to, const T *a, const T *b, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] += a[i] * b[i];
}

/* result += or = h R^T for `rows` sequences; `h` is [rows, hidden]. */
static void NAME(recur)(const recurrent_state *s, const T *h, const T *packed, int64_t columns, int64_t rows, T *result,
                        bool accumulate) {
  int64_t n = s->r.hidden;
  braid_gemm_run(DTYPE, rows, n, columns, (braid_matrix){h, n, 1}, packed, result, s->r.saved * n, accumulate);
}

/* Steps of cells: `gates` holds W x of `rows` sequences, h and c their states. A sequence that has ended keeps its
 * state. */
static void NAME(rnn_step)(const NAME(pass) * p, int64_t first, int64_t rows, int64_t t, T *gates) {
  int64_t n = p->s->r.hidden;
  NAME(recur)(p->s, p->h + first * n, p->packed_r, n, rows, gates, true);
  for (int64_t b = first; b < first + rows; b++, gates += n) {
    if (!braid_ref_recurrent_active(p->lengths, t, b)) continue;
    NAME(add)(gates, p->bias, n);
    RUN_UNIT(&p->units[0], gates, n);
    memcpy(p->h + b * n, gates, (size_t)n * sizeof(T));
  }
}

static void NAME(gru_step)(const NAME(pass) * p, int64_t first, int64_t rows, int64_t t, T *gates) {
  const recurrent_state *s = p->s;
  bool linear = s->r.linear_before_reset;
  int64_t n = s->r.hidden, width = s->r.saved * n;
  T *h = p->h + first * n, *part = p->part + first * n;
  NAME(recur)(s, h, p->packed_r, 2 * n, rows, gates, true);
  for (int64_t b = 0; b < rows; b++) {
    T *row = gates + b * width;
    NAME(add)(row, p->bias, 3 * n);
    RUN_UNIT(&p->units[0], row, 2 * n);
    if (!linear)
      for (int64_t i = 0; i < n; i++) part[b * n + i] = row[n + i] * h[b * n + i];
  }
  NAME(recur)(s, linear ? h : part, p->packed_candidate, n, rows, gates + (linear ? 3 * n : 2 * n), !linear);
  for (int64_t b = 0; b < rows; b++) {
    T *row = gates + b * width, *candidate = row + 2 * n, *state = h + b * n;
    if (!braid_ref_recurrent_active(p->lengths, t, first + b)) continue;
    if (linear) {
      NAME(add)(row + 3 * n, p->recurrent_bias, n);
      NAME(add_products)(candidate, row + n, row + 3 * n, n);
    }
    RUN_UNIT(&p->units[1], candidate, n);
    for (int64_t i = 0; i < n; i++) state[i] = (1 - row[i]) * candidate[i] + row[i] * state[i];
  }
}

static void NAME(lstm_row)(const NAME(pass) * p, T *gates, T *c, T *h) {
  int64_t n = p->s->r.hidden;
  T *i = gates, *o = i + n, *f = o + n, *g = f + n, *cell = g + n;
  NAME(add)(gates, p->bias, 4 * n);
  if (p->peephole) {
    NAME(add_products)(i, p->peephole, c, n);
    NAME(add_products)(f, p->peephole + 2 * n, c, n);
  }
  RUN_UNIT(&p->units[0], i, n);
  if (p->s->r.input_forget)
    for (int64_t k = 0; k < n; k++) f[k] = 1 - i[k];
  else
    RUN_UNIT(&p->units[0], f, n);
  RUN_UNIT(&p->units[1], g, n);
  for (int64_t k = 0; k < n; k++) c[k] = f[k] * c[k] + i[k] * g[k];
  if (p->peephole) NAME(add_products)(o, p->peephole + n, c, n);
  RUN_UNIT(&p->units[0], o, n);
  memcpy(cell, c, (size_t)n * sizeof(T));
  memcpy(h, c, (size_t)n * sizeof(T));
  RUN_UNIT(&p->units[2], h, n);
  for (int64_t k = 0; k < n; k++) h[k] *= o[k];
}

static void NAME(lstm_step)(const NAME(pass) * p, int64_t first, int64_t rows, int64_t t, T *gates) {
  int64_t n = p->s->r.hidden;
  NAME(recur)(p->s, p->h + first * n, p->packed_r, 4 * n, rows, gates, true);
  for (int64_t b = first; b < first + rows; b++, gates += 5 * n)
    if (braid_ref_recurrent_active(p->lengths, t, b)) NAME(lstm_row)(p, gates, p->c + b * n, p->h + b * n);
}

/* `count` steps from time `from` on, for `rows` sequences. */
static void NAME(run_steps)(const NAME(pass) * p, int64_t from, int64_t count, int64_t first, int64_t rows) {
  const recurrent_state *s = p->s;
  int64_t n = s->r.hidden;
  for (int64_t k = 0; k < count; k++) {
    int64_t at = p->backwards ? count - 1 - k : k, t = from + at;
    T *gates = p->gates + (at * s->r.batch + first) * s->r.saved * n;
    if (s->r.cell == BRAID_CELL_LSTM)
      NAME(lstm_step)(p, first, rows, t, gates);
    else
      (s->r.cell == BRAID_CELL_GRU ? NAME(gru_step) : NAME(rnn_step))(p, first, rows, t, gates);
    for (int64_t b = first; p->y && b < first + rows; b++) {
      T *y = p->y + t * s->y_step + b * s->y_row;
      if (braid_ref_recurrent_active(p->lengths, t, b))
        memcpy(y, p->h + b * n, (size_t)n * sizeof(T));
      else
        memset(y, 0, (size_t)n * sizeof(T));
    }
  }
}

/* The whole sequence, a piece at a time: W x of all its steps in one product, then the steps, each thread with
 * sequences of its own. `saved`: where the gates of all steps stay, or NULL. */
static void NAME(run_pieces)(NAME(pass) * p, const T *x, const T *packed_w, T *saved) {
  const recurrent_state *s = p->s;
  int64_t width = s->r.saved * s->r.hidden, inputs = s->r.inputs, batch = s->r.batch;
  T *room = p->gates;
  for (int64_t done = 0; done < s->r.steps; done += s->piece) {
    int64_t count = s->r.steps - done < s->piece ? s->r.steps - done : s->piece;
    int64_t from = p->backwards ? s->r.steps - done - count : done;
    p->gates = saved ? saved + from * batch * width : room;
    braid_gemm_run(DTYPE, count * batch, inputs, s->r.gates * s->r.hidden,
                   (braid_matrix){x + from * batch * inputs, inputs, 1}, packed_w, p->gates, width, false);
#pragma omp parallel for schedule(static) if (s->teams > 1)
    for (int64_t team = 0; team < s->teams; team++) {
      int64_t first = team * batch / s->teams, end = (team + 1) * batch / s->teams;
      NAME(run_steps)(p, from, count, first, end - first);
    }
  }
}

/* Weights [columns, inner] of gates, as the right side of a product. */
static void NAME(pack_weights)(int64_t inner, int64_t columns, const T *weights, T *packed) {
  braid_gemm_pack(DTYPE, inner, columns, (braid_matrix){weights, 1, inner}, packed);
}

/* Wb + Rb, but for what linear_before_reset keeps apart. */
static void NAME(join_biases)(const recurrent_state *s, const T *both, T *joined) {
  int64_t rows = s->r.gates * s->r.hidden;
  bool apart = s->r.cell == BRAID_CELL_GRU && s->r.linear_before_reset;
  for (int64_t i = 0; i < rows; i++) joined[i] = both[i] + (apart && i >= 2 * s->r.hidden ? 0 : both[rows + i]);
}

/* Direction `d` over the whole sequence; `room` is its scratch memory. */
static void NAME(run_direction)(const recurrent_state *s, int64_t d, const void *const *inputs, void *const *outputs,
                                const T *x, char *room) {
  int64_t n = s->r.hidden, rows = s->r.gates * n;
  const T *bias = inputs[IN_B], *peephole = inputs[IN_P];
  T *y = outputs[0], *saved = outputs[s->saved_output];
  T *packed_w = (T *)(room + s->at.packed_w), *packed_r = (T *)(room + s->at.packed_r);
  T *packed_candidate = (T *)(room + s->at.packed_candidate);
  const T *w = (const T *)inputs[IN_W] + d * rows * s->r.inputs, *r = (const T *)inputs[IN_R] + d * rows * n;
  NAME(pass)
  p = {.s = s,
       .units = s->r.units[d],
       .backwards = s->r.backwards || d == 1,
       .lengths = inputs[IN_LENGTHS],
       .packed_r = packed_r,
       .packed_candidate = packed_candidate,
       .bias = bias ? (T *)(room + s->at.bias) : NULL,
       .recurrent_bias = bias ? bias + d * 2 * rows + rows + 2 * n : NULL,
       .peephole = peephole ? peephole + d * 3 * n : NULL,
       .gates = (T *)(room + s->at.gates),
       .h = (T *)(room + s->at.h),
       .c = (T *)(room + s->at.c),
       .part = (T *)(room + s->at.part),
       .y = y ? y + d * s->y_direction : NULL};
  if (bias) NAME(join_biases)(s, bias + d * 2 * rows, (T *)(room + s->at.bias));
  NAME(pack_weights)(s->r.inputs, rows, w, packed_w);
  NAME(pack_weights)(n, s->r.cell == BRAID_CELL_GRU ? 2 * n : rows, r, packed_r);
  if (s->r.cell == BRAID_CELL_GRU) NAME(pack_weights)(n, n, r + 2 * n * n, packed_candidate);
  NAME(take_state)(s, d, inputs[IN_H], p.h);
  NAME(take_state)(s, d, inputs[IN_C], p.c);
  NAME(run_pieces)(&p, x, packed_w, saved ? saved + d * s->r.steps * s->r.batch * s->r.saved * n : NULL);
  NAME(give_state)(s, d, p.h, outputs[1]);
  if (s->r.cell == BRAID_CELL_LSTM) NAME(give_state)(s, d, p.c, outputs[2]);
}

static void NAME(forward)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const recurrent_state *s = self;
  const T *x = inputs[IN_X];
  if (s->r.batch_first) {
    T *exchanged = (T *)((char *)scratch + s->at.x);
    NAME(exchange)(s->r.batch, s->r.steps, s->r.inputs, x, exchanged);
    x = exchanged;
  }
#pragma omp parallel for schedule(static) if (s->direction_bytes > 0)
  for (int64_t d = 0; d < s->r.directions; d++)
    NAME(run_direction)(s, d, inputs, outputs, x, (char *)scratch + (size_t)d * s->direction_bytes);
}
