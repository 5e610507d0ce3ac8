/* LSTM, GRU and RNN as ONNX's text has them, in double precision, one sequence and unit after another: what the CPU's
 * kernel must give for sizes that fill its panels and tiles and that do not, with constant and with changing weights,
 * and with the same bits on any number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <omp.h>

#include "kernel_fixture.h"
#include "slow.h"

enum { IN_X, IN_W, IN_R, IN_B, IN_LENGTHS, IN_H, IN_C, IN_P, kInputs };
enum { kMostHidden = 520, kThreads = 4 };

typedef struct cell_case {
  const char *op, *direction;
  int64_t steps, batch, inputs, hidden;
  bool batch_first, bias, lengths, states, peepholes, linear_before_reset, input_forget;
  float clip;
} cell_case;

static int64_t gate_count(const cell_case *c) {
  return strcmp(c->op, "LSTM") == 0 ? 4 : strcmp(c->op, "GRU") == 0 ? 3 : 1;
}

static int64_t direction_count(const cell_case *c) {
  return strcmp(c->direction, "bidirectional") == 0 ? 2 : 1;
}

/* --- as the text says ----------------------------------------------------------------------------------------------
 */
/* What one sequence and direction has. */
typedef struct walk {
  const cell_case *c;
  int64_t d, b;
  const float *w, *r, *bias, *peephole; /* of the direction; bias and peephole: NULL if none */
  double h[kMostHidden], cell[kMostHidden];
} walk;

static double clipped(const cell_case *c, double x) {
  return c->clip > 0 ? fmin(fmax(x, -(double)c->clip), (double)c->clip) : x;
}

static double f_of(const cell_case *c, double x) {
  return 1 / (1 + exp(-clipped(c, x)));
}

static double g_of(const cell_case *c, double x) {
  return tanh(clipped(c, x));
}

static double dot(const float *row, const double *x, int64_t count) {
  double sum = 0;
  for (int64_t k = 0; k < count; k++) sum += (double)row[k] * x[k];
  return sum;
}

/* X W^T + Wb, of one gate and unit. */
static double given(const walk *k, const double *x, int64_t gate, int64_t unit) {
  int64_t row = gate * k->c->hidden + unit;
  return dot(k->w + row * k->c->inputs, x, k->c->inputs) + (k->bias ? k->bias[row] : 0);
}

/* H R^T + Rb */
static double carried(const walk *k, const double *h, int64_t gate, int64_t unit) {
  int64_t n = k->c->hidden, row = gate * n + unit;
  return dot(k->r + row * n, h, n) + (k->bias ? k->bias[gate_count(k->c) * n + row] : 0);
}

static double peeped(const walk *k, int64_t which, int64_t unit, double cell) {
  return k->peephole ? (double)k->peephole[which * k->c->hidden + unit] * cell : 0;
}

static void lstm_step(walk *k, const double *x) {
  const cell_case *c = k->c;
  double after[kMostHidden];
  for (int64_t u = 0; u < c->hidden; u++) {
    double i = f_of(c, given(k, x, 0, u) + carried(k, k->h, 0, u) + peeped(k, 0, u, k->cell[u]));
    double f = f_of(c, given(k, x, 2, u) + carried(k, k->h, 2, u) + peeped(k, 2, u, k->cell[u]));
    double g = g_of(c, given(k, x, 3, u) + carried(k, k->h, 3, u));
    if (c->input_forget) f = 1 - i;
    k->cell[u] = f * k->cell[u] + i * g;
    double o = f_of(c, given(k, x, 1, u) + carried(k, k->h, 1, u) + peeped(k, 1, u, k->cell[u]));
    after[u] = o * tanh(k->cell[u]); /* which ONNX Runtime does not clip either */
  }
  memcpy(k->h, after, sizeof after);
}

static void gru_step(walk *k, const double *x) {
  const cell_case *c = k->c;
  int64_t n = c->hidden;
  double z[kMostHidden], r[kMostHidden], reset[kMostHidden], after[kMostHidden];
  for (int64_t u = 0; u < n; u++) {
    z[u] = f_of(c, given(k, x, 0, u) + carried(k, k->h, 0, u));
    r[u] = f_of(c, given(k, x, 1, u) + carried(k, k->h, 1, u));
    reset[u] = r[u] * k->h[u];
  }
  for (int64_t u = 0; u < n; u++) {
    double part = c->linear_before_reset ? r[u] * carried(k, k->h, 2, u) : carried(k, reset, 2, u);
    after[u] = (1 - z[u]) * g_of(c, given(k, x, 2, u) + part) + z[u] * k->h[u];
  }
  memcpy(k->h, after, sizeof after);
}

static void rnn_step(walk *k, const double *x) {
  double after[kMostHidden];
  for (int64_t u = 0; u < k->c->hidden; u++) after[u] = g_of(k->c, given(k, x, 0, u) + carried(k, k->h, 0, u));
  memcpy(k->h, after, sizeof after);
}

/* Where unit 0 of a state, and of Y at a step, stands. */
static int64_t state_at(const cell_case *c, int64_t d, int64_t b) {
  return (c->batch_first ? b * direction_count(c) + d : d * c->batch + b) * c->hidden;
}

static int64_t y_at(const cell_case *c, int64_t t, int64_t d, int64_t b) {
  int64_t directions = direction_count(c);
  return (c->batch_first ? (b * c->steps + t) * directions + d : (t * directions + d) * c->batch + b) * c->hidden;
}

static void take(const cell_case *c, const float *from, int64_t at, double *to) {
  for (int64_t u = 0; u < c->hidden; u++) to[u] = from ? (double)from[at + u] : 0;
}

static void give(const cell_case *c, const double *from, float *to, int64_t at) {
  for (int64_t u = 0; u < c->hidden; u++) to[at + u] = (float)from[u];
}

static void follow(const cell_case *c, void *const *data, int64_t d, int64_t b, float *const *wanted) {
  int64_t rows = gate_count(c) * c->hidden, end = c->lengths ? ((const int32_t *)data[IN_LENGTHS])[b] : c->steps;
  const float *x = data[IN_X], *bias = data[IN_B], *peephole = data[IN_P];
  bool lstm = gate_count(c) == 4, backwards = d == 1 || strcmp(c->direction, "reverse") == 0;
  walk k = {.c = c,
            .d = d,
            .b = b,
            .w = (const float *)data[IN_W] + d * rows * c->inputs,
            .r = (const float *)data[IN_R] + d * rows * c->hidden,
            .bias = bias ? bias + d * 2 * rows : NULL,
            .peephole = peephole ? peephole + d * 3 * c->hidden : NULL};
  take(c, data[IN_H], state_at(c, d, b), k.h);
  take(c, lstm ? data[IN_C] : NULL, state_at(c, d, b), k.cell);
  for (int64_t i = 0; i < end; i++) {
    int64_t t = backwards ? end - 1 - i : i;
    double row[kMostHidden];
    const float *from = x + (c->batch_first ? b * c->steps + t : t * c->batch + b) * c->inputs;
    for (int64_t j = 0; j < c->inputs; j++) row[j] = (double)from[j];
    (lstm ? lstm_step : gate_count(c) == 3 ? gru_step : rnn_step)(&k, row);
    give(c, k.h, wanted[0], y_at(c, t, d, b)); /* behind the end Y is zero */
  }
  give(c, k.h, wanted[1], state_at(c, d, b));
  if (lstm) give(c, k.cell, wanted[2], state_at(c, d, b));
}

/* --- the kernel against it -----------------------------------------------------------------------------------------
 */
static void scale(float *x, int64_t count, double by) {
  for (int64_t i = 0; x && i < count; i++) x[i] *= (float)by;
}

static fixture made(const cell_case *c) {
  fixture f = begin();
  braid_value_id ids[kMaxOperands] = {-1, -1, -1, -1, -1, -1, -1, -1};
  int64_t n = c->hidden, d = direction_count(c), rows = gate_count(c) * n;
  int64_t state[3] = {c->batch_first ? c->batch : d, c->batch_first ? d : c->batch, n};
  bool lstm = gate_count(c) == 4;
  add_input(&f, ids, 3,
            (int64_t[]){c->batch_first ? c->batch : c->steps, c->batch_first ? c->steps : c->batch, c->inputs});
  add_input(&f, ids, 3, (int64_t[]){d, rows, c->inputs});
  add_input(&f, ids, 3, (int64_t[]){d, rows, n});
  const bool present[kInputs] = {true, true, true, c->bias, c->lengths, c->states, c->states && lstm, c->peepholes};
  for (size_t i = IN_B; i < (lstm ? kInputs : IN_C); i++) {
    if (!present[i])
      f.inputs++;
    else if (i == IN_LENGTHS)
      add_typed(&f, ids, BRAID_I32, 1, &c->batch);
    else if (i == IN_B || i == IN_P)
      add_input(&f, ids, 2, (int64_t[]){d, i == IN_B ? 2 * rows : 3 * n});
    else
      add_input(&f, ids, 3, state);
  }
  finish(&f, c->op, ids, lstm ? 3 : 2);
  ok(braid_graph_set_string(f.graph, f.node, "direction", c->direction));
  ok(braid_graph_set_int(f.graph, f.node, "hidden_size", n));
  ok(braid_graph_set_int(f.graph, f.node, "layout", c->batch_first));
  if (c->linear_before_reset) ok(braid_graph_set_int(f.graph, f.node, "linear_before_reset", 1));
  if (c->input_forget) ok(braid_graph_set_int(f.graph, f.node, "input_forget", 1));
  if (c->clip > 0) ok(braid_graph_set_float(f.graph, f.node, "clip", c->clip));
  fill(&f);
  scale(f.data[IN_W], d * rows * c->inputs, 2 / sqrt((double)c->inputs));
  scale(f.data[IN_R], d * rows * n, 2 / sqrt((double)n));
  for (int64_t b = 0; c->lengths && b < c->batch; b++)
    ((int32_t *)f.data[IN_LENGTHS])[b] = (int32_t)((b + 2) % 3 * c->steps / 2); /* all, none, half */
  return f;
}

static void check_case(const cell_case *c) {
  fixture f = made(c);
  float *wanted[kMaxOperands], *got[kMaxOperands], *first[kMaxOperands];
  for (size_t i = 0; i < f.outputs; i++)
    wanted[i] = calloc((size_t)braid_desc_count(&f.operands[f.inputs + i].desc), sizeof(float));
  void *data[kInputs] = {NULL};
  for (size_t i = 0; i < f.inputs; i++) data[i] = f.data[i];
  for (int64_t d = 0; d < direction_count(c); d++)
    for (int64_t b = 0; b < c->batch; b++) follow(c, data, d, b, wanted);
  const braid_kernel **kernels;
  size_t count, found = 0;
  ok(braid_cpu_list_kernels(NULL, false, &kernels, &count));
  while (strcmp(kernels[found]->op, c->op) != 0) found++;
  for (int threads = 1; threads <= kThreads; threads++)
    for (size_t constant_from = 1; constant_from <= kMaxOperands; constant_from += kMaxOperands - 1) {
      bool begins = threads == 1 && constant_from == 1;
      omp_set_num_threads(threads);
      run(&f, kernels[found], constant_from, begins ? first : got);
      if (begins) compare(&f, kernels[found], first, wanted);
      for (size_t i = 0; !begins && i < f.outputs; i++) {
        assert_memory_equal(got[i], first[i], braid_desc_bytes(&f.operands[f.inputs + i].desc));
        free(got[i]);
      }
    }
  for (size_t i = 0; i < f.outputs; i++) {
    free(wanted[i]);
    free(first[i]);
  }
  braid_free(NULL, kernels);
  clear(&f);
}

/* Every option, over sizes on both sides of a panel and of a tile's rows, and with work for several threads. */
static void options(void **state) {
  (void)state;
  static const int64_t kHidden[] = {1, 7, 16, 17, 33}, kBatch[] = {1, 2, 5, 9, 26};
  static const char *kDirections[] = {"forward", "reverse", "bidirectional"};
  static const char *kOps[] = {"RNN", "GRU", "LSTM"};
  for (int i = 0; i < 180; i += UNLESS_SLOW(1, 11)) {
    cell_case c = {.op = kOps[i % 3], .direction = kDirections[i / 3 % 3], .steps = 5, .inputs = 1 + i % 19};
    bool lstm = i % 3 == 2, gru = i % 3 == 1;
    c.hidden = kHidden[i % 5];
    c.batch = kBatch[i / 5 % 5];
    c.batch_first = i / 2 % 2;
    c.bias = i % 4 != 0;
    c.lengths = i / 7 % 2;
    c.states = i / 3 % 2;
    c.peepholes = lstm && i / 4 % 2;
    c.input_forget = lstm && i / 11 % 3 == 0;
    c.linear_before_reset = gru && i / 5 % 2;
    c.clip = i % 7 == 0 ? 0.4F : 0;
    check_case(&c);
  }
}

static void large(void **state) {
  (void)state;
  static const cell_case kCases[] = {
      {"LSTM", "forward", 7, 1, 40, 200, false, true, false, true, true, false, false, 0},
      {"LSTM", "bidirectional", 6, 3, 70, 130, true, true, true, true, false, false, false, 0},
      {"LSTM", "forward", 5, 8, 300, 257, false, true, true, false, false, false, false, 0},
      {"LSTM", "reverse", 3, 27, 33, 150, false, false, true, true, true, false, true, 0},
      {"GRU", "forward", 7, 1, 64, 210, false, true, false, true, false, false, false, 0},
      {"GRU", "bidirectional", 4, 9, 64, 520, false, true, true, true, false, true, false, 0},
      {"GRU", "reverse", 5, 25, 33, 144, true, true, true, false, false, false, false, 0},
      {"RNN", "bidirectional", 6, 4, 65, 400, false, true, true, true, false, false, false, 0},
      {"RNN", "forward", 40, 64, 9, 20, false, true, false, true, false, false, false, 0}, /* two pieces of steps */
  };
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i += UNLESS_SLOW(1, 2)) check_case(&kCases[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(options), cmocka_unit_test(large)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
