/* RNN, GRU and LSTM for `T`; included by ref_recurrent.c once for each type. */

static T NAME(dot)(const T *a, const T *b, int64_t count) {
  T lane[LANES] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    for (int l = 0; l < LANES; l++) lane[l] += a[i + l] * b[i + l];
  for (int l = 0; l < LANES; l++) sum += lane[l];
  for (; i < count; i++) sum += a[i] * b[i];
  return sum;
}

/* What one sequence in one direction works with. */
typedef struct NAME(sequence) {
  const T *w, *r, *wb, *rb, *p; /* biases and peepholes may be NULL */
  const function *f;
  T *gates, *h, *c, *other;
} NAME(sequence);

static T NAME(clipped)(const cell_state *s, T x) {
  if (s->clip <= 0) return x;
  return x > (T)s->clip ? (T)s->clip : x < -(T)s->clip ? -(T)s->clip : x;
}

static T NAME(activated)(const cell_state *s, const function *f, T x) {
  return (T)apply(f, (double)NAME(clipped)(s, x));
}

/* Rows [first, behind) of W x + Wb, and of R h + Rb. */
static void NAME(project)(const cell_state *s, const NAME(sequence) * q, const T *x, const T *h, int64_t first,
                          int64_t behind) {
  for (int64_t g = first; g < behind; g++) {
    T sum = NAME(dot)(x, q->w + g * s->inputs, s->inputs) + NAME(dot)(h, q->r + g * s->hidden, s->hidden);
    q->gates[g] = sum + (q->wb ? q->wb[g] + q->rb[g] : 0);
  }
}

static void NAME(rnn_step)(const cell_state *s, const NAME(sequence) * q, const T *x) {
  NAME(project)(s, q, x, q->h, 0, s->hidden);
  for (int64_t i = 0; i < s->hidden; i++) q->h[i] = NAME(activated)(s, &q->f[0], q->gates[i]);
}

/* Gates z, r, h. */
static void NAME(gru_step)(const cell_state *s, const NAME(sequence) * q, const T *x) {
  int64_t n = s->hidden;
  T *z = q->gates, *r = q->gates + n, *candidate = q->gates + 2 * n;
  NAME(project)(s, q, x, q->h, 0, 2 * n);
  for (int64_t i = 0; i < 2 * n; i++) q->gates[i] = NAME(activated)(s, &q->f[0], q->gates[i]);
  for (int64_t i = 0; i < n; i++) q->other[i] = r[i] * q->h[i];
  for (int64_t i = 0; i < n; i++) {
    int64_t g = 2 * n + i;
    T own = NAME(dot)(x, q->w + g * s->inputs, s->inputs) + (q->wb ? q->wb[g] : 0), bias = q->rb ? q->rb[g] : 0;
    const T *row = q->r + g * n;
    T past = s->linear_before_reset ? r[i] * (NAME(dot)(q->h, row, n) + bias) : NAME(dot)(q->other, row, n) + bias;
    candidate[i] = NAME(activated)(s, &q->f[1], own + past);
  }
  for (int64_t i = 0; i < n; i++) q->h[i] = (1 - z[i]) * candidate[i] + z[i] * q->h[i];
}

/* Gates i, o, f, c; peepholes i, o, f. */
static void NAME(lstm_step)(const cell_state *s, const NAME(sequence) * q, const T *x) {
  int64_t n = s->hidden;
  const T *p = q->p;
  NAME(project)(s, q, x, q->h, 0, 4 * n);
  for (int64_t k = 0; k < n; k++) {
    T past = q->c[k];
    T i = NAME(activated)(s, &q->f[0], q->gates[k] + (p ? p[k] * past : 0));
    T f = NAME(activated)(s, &q->f[0], q->gates[2 * n + k] + (p ? p[2 * n + k] * past : 0));
    if (s->input_forget) f = 1 - i;
    q->c[k] = f * past + i * NAME(activated)(s, &q->f[1], q->gates[3 * n + k]);
    T o = NAME(activated)(s, &q->f[0], q->gates[n + k] + (p ? p[n + k] * q->c[k] : 0));
    q->h[k] = o * (T)apply(&q->f[2], (double)q->c[k]);
  }
}

static void NAME(run_sequence)(const cell_state *s, const NAME(sequence) * q, int64_t d, int64_t b, int64_t length,
                               const T *x, T *y) {
  bool backwards = s->reverse || d == 1;
  int64_t n = s->hidden;
  for (int64_t t = 0; t < s->steps; t++) {
    int64_t at = t < length && backwards ? length - 1 - t : t;
    const T *in = x + (s->batch_first ? b * s->steps + at : at * s->batch + b) * s->inputs;
    T *out = NULL;
    if (y)
      out =
          y + (s->batch_first ? (b * s->steps + at) * s->directions + d : (at * s->directions + d) * s->batch + b) * n;
    if (t < length && s->kind == CELL_LSTM) NAME(lstm_step)(s, q, in);
    if (t < length && s->kind == CELL_GRU) NAME(gru_step)(s, q, in);
    if (t < length && s->kind == CELL_RNN) NAME(rnn_step)(s, q, in);
    if (out && t < length)
      memcpy(out, q->h, (size_t)n * sizeof *out);
    else if (out)
      memset(out, 0, (size_t)n * sizeof *out);
  }
}

static void NAME(cell)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const cell_state *s = self;
  const T *w = inputs[IN_W], *r = inputs[IN_R], *bias = inputs[IN_B], *p = inputs[IN_P];
  const T *h0 = inputs[IN_H0], *c0 = inputs[IN_C0];
  const int32_t *lengths = inputs[IN_LENGTHS];
  int64_t n = s->hidden, rows = s->gates * n;
#pragma omp parallel for schedule(static)
  for (int64_t task = 0; task < s->directions * s->batch; task++) {
    int64_t d = task / s->batch, b = task % s->batch, state = (s->batch_first ? b * s->directions + d : task) * n;
    T *own = (T *)scratch + task * (rows + 3 * n);
    NAME(sequence)
    q = {.w = w + d * rows * s->inputs,
         .r = r + d * rows * n,
         .wb = bias ? bias + d * 2 * rows : NULL,
         .rb = bias ? bias + d * 2 * rows + rows : NULL,
         .p = p ? p + d * 3 * n : NULL,
         .f = s->functions[d],
         .gates = own,
         .h = own + rows,
         .c = own + rows + n,
         .other = own + rows + 2 * n};
    for (int64_t i = 0; i < n; i++) q.h[i] = h0 ? h0[state + i] : 0;
    for (int64_t i = 0; i < n; i++) q.c[i] = c0 ? c0[state + i] : 0;
    int64_t length = lengths ? lengths[b] : s->steps;
    length = length < 0 ? 0 : length > s->steps ? s->steps : length;
    NAME(run_sequence)(s, &q, d, b, length, inputs[IN_X], outputs[0]);
    if (outputs[1]) memcpy((T *)outputs[1] + state, q.h, (size_t)n * sizeof(T));
    if (s->kind == CELL_LSTM && outputs[2]) memcpy((T *)outputs[2] + state, q.c, (size_t)n * sizeof(T));
  }
}
