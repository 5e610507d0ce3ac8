/* LSTM and its gradient: what the steps need one after another; the products over all steps are those of matmul.cl.
 *
 * A group of work-items takes up to SEQUENCES sequences of one direction through all steps; they share the hidden units,
 * WIDTH at a time. Gates stand in ONNX's order i o f c, each n wide; `saved` keeps them after their activations, and the
 * cell state behind them, 5 n for each step and sequence. Activations f, g, h are UNIT_F, UNIT_G, UNIT_H, numbers of
 * graph/recurrent.h's list, with their alpha, beta and clip. */
#include "common.clh"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#if WIDTH == 1
typedef float vector;
#define LOAD(p) (*(p))
#define STORE(x, p) *(p) = (x)
#else
typedef JOIN(float, WIDTH) vector;
#define LOAD(p) JOIN(vload, WIDTH)(0, p)
#define STORE(x, p) JOIN(vstore, WIDTH)(x, 0, p)
#endif

#define UNITS_OF(u) float u##_alpha, float u##_beta, float u##_clip

float unit_curve(int kind, float x, float a, float b) {
  switch (kind) {
  case RELU:
    return x < 0 ? 0 : x;
  case TANH:
    return tanh(x);
  case SIGMOID:
    return 1 / (1 + exp(-x));
  case AFFINE:
    return a * x + b;
  case LEAKY_RELU:
    return x < 0 ? a * x : x;
  case THRESHOLDED_RELU:
    return x > a || x != x ? x : 0;
  case SCALED_TANH:
    return a * tanh(b * x);
  case HARD_SIGMOID:
    return a * x + b < 0 ? 0 : a * x + b > 1 ? 1 : a * x + b;
  case ELU:
    return x < 0 ? a * expm1(x) : x;
  case SOFTSIGN:
    return x / (1 + fabs(x));
  default: /* SOFTPLUS */
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
  }
}

float unit_run(int kind, float x, float a, float b, float clip) {
  if (clip > 0) x = x > clip ? clip : x < -clip ? -clip : x;
  return unit_curve(kind, x, a, b);
}

/* d times the slope where the result was y. */
float unit_slope(int kind, float y, float d, float a, float b, float clip) {
  const float inverse = a != 0 ? 1 / a : 0;
  if (clip > 0 && (y == unit_curve(kind, clip, a, b) || y == unit_curve(kind, -clip, a, b))) return 0;
  switch (kind) {
  case RELU:
    return y > 0 ? d : 0;
  case TANH:
    return d * (1 - y * y);
  case SIGMOID:
    return d * (y * (1 - y));
  case AFFINE:
    return d * a;
  case LEAKY_RELU:
    return y < 0 ? d * a : d;
  case THRESHOLDED_RELU:
    return y != 0 ? d : 0;
  case SCALED_TANH:
    return d * (b * (a - y * y * inverse));
  case HARD_SIGMOID:
    return y > 0 && y < 1 ? d * a : 0;
  case ELU:
    return y < 0 ? d * (y + a) : d;
  case SOFTSIGN:
    return d * (1 - fabs(y)) * (1 - fabs(y));
  default: /* SOFTPLUS */
    return d * -expm1(-y);
  }
}

#define RUN(u, U, x) unit_run(UNIT_##U, x, u##_alpha, u##_beta, u##_clip)
#define SLOPE(u, U, y, d) unit_slope(UNIT_##U, y, d, u##_alpha, u##_beta, u##_clip)
#ifdef LENGTHS
#define END(b) min((index_t)lengths[b], steps)
#else
#define END(b) steps
#endif
#ifdef BACKWARDS
#define TIME(k) (steps - 1 - (k))
#define FIRST_STEP(b) (END(b) - 1)
#define BEFORE(t) ((t) + 1)
#else
#define TIME(k) (k)
#define FIRST_STEP(b) 0
#define BEFORE(t) ((t)-1)
#endif

/* --- forward -------------------------------------------------------------------------------------------------------- */
#ifdef FORWARD
/* `gates` holds W x and gets the results; h: two states of all sequences, c: one. Places of the direction: _at. */
KERNEL lstm_forward(GLOBAL float *gates, IN(float) r, IN(float) bias, IN(float) peephole, IN(float) h0, IN(float) c0,
                    IN(int) lengths, OUT(float) y, OUT(float) y_h, OUT(float) y_c, GLOBAL float *h, GLOBAL float *c,
                    index_t n, index_t batch, index_t steps, index_t gates_at, index_t r_at, index_t bias_at,
                    index_t peephole_at, index_t y_at, index_t y_step, index_t y_row, index_t state_at,
                    index_t state_row, UNITS_OF(f), UNITS_OF(g), UNITS_OF(h)) {
  const index_t first = get_group_id(0) * (index_t)SEQUENCES, l = get_local_id(0);
  const index_t count = min((index_t)SEQUENCES, batch - first);
  for (index_t j = l; j < n; j += GROUP)
    for (index_t b = first; b < first + count; b++) {
#ifdef H0
      h[b * n + j] = h0[state_at + b * state_row + j];
#else
      h[b * n + j] = 0;
#endif
#ifdef C0
      c[b * n + j] = c0[state_at + b * state_row + j];
#else
      c[b * n + j] = 0;
#endif
    }
  barrier(CLK_GLOBAL_MEM_FENCE);
  for (index_t k = 0; k < steps; k++) {
    const index_t t = TIME(k);
    GLOBAL float *now = h + (k % 2) * batch * n, *next = h + (1 - k % 2) * batch * n;
    for (index_t j = l; j < n; j += GROUP) {
      vector sums[4][SEQUENCES];
      float rest[4][SEQUENCES];
      for (int g = 0; g < 4; g++)
        for (int s = 0; s < SEQUENCES; s++) sums[g][s] = (vector)(0), rest[g][s] = 0;
      IN(float) row = r + r_at + j * n;
      index_t q = 0;
      for (; q + WIDTH <= n; q += WIDTH) {
        vector weights[4];
        for (int g = 0; g < 4; g++) weights[g] = LOAD(row + g * n * n + q);
        for (int s = 0; s < SEQUENCES; s++) {
          const vector state = LOAD(now + min(first + s, batch - 1) * n + q);
          for (int g = 0; g < 4; g++) sums[g][s] = fma(weights[g], state, sums[g][s]);
        }
      }
      for (; q < n; q++)
        for (int s = 0; s < SEQUENCES; s++)
          for (int g = 0; g < 4; g++)
            rest[g][s] = fma(row[g * n * n + q], now[min(first + s, batch - 1) * n + q], rest[g][s]);
      for (index_t s = 0; s < count; s++) {
        const index_t b = first + s;
        if (t >= END(b)) {
          next[b * n + j] = now[b * n + j];
#ifdef Y
          y[y_at + t * y_step + b * y_row + j] = 0;
#endif
          continue;
        }
        GLOBAL float *place = gates + gates_at + (t * batch + b) * 5 * n + j;
        float x[4], cell = c[b * n + j];
        for (int g = 0; g < 4; g++) {
          float lanes[WIDTH], sum = rest[g][s];
          STORE(sums[g][s], lanes);
          for (int i = 0; i < WIDTH; i++) sum += lanes[i];
          x[g] = place[g * n] + sum;
#ifdef BIAS
          x[g] += bias[bias_at + g * n + j] + bias[bias_at + (4 + g) * n + j];
#endif
        }
#ifdef PEEPHOLE
        x[0] += peephole[peephole_at + j] * cell;
        x[2] += peephole[peephole_at + 2 * n + j] * cell;
#endif
        const float in = RUN(f, F, x[0]), candidate = RUN(g, G, x[3]);
#ifdef INPUT_FORGET
        const float forget = 1 - in;
#else
        const float forget = RUN(f, F, x[2]);
#endif
        cell = forget * cell + in * candidate;
#ifdef PEEPHOLE
        x[1] += peephole[peephole_at + n + j] * cell;
#endif
        const float out = RUN(f, F, x[1]), state = out * RUN(h, H, cell);
        place[0] = in;
        place[n] = out;
        place[2 * n] = forget;
        place[3 * n] = candidate;
        place[4 * n] = cell;
        c[b * n + j] = cell;
        next[b * n + j] = state;
#ifdef Y
        y[y_at + t * y_step + b * y_row + j] = state;
#endif
      }
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
  }
  for (index_t j = l; j < n; j += GROUP)
    for (index_t b = first; b < first + count; b++) {
#ifdef Y_H
      y_h[state_at + b * state_row + j] = h[(steps % 2) * batch * n + b * n + j];
#endif
#ifdef Y_C
      y_c[state_at + b * state_row + j] = c[b * n + j];
#endif
    }
}
#else

/* --- backward --------------------------------------------------------------------------------------------------------
 * Rows of gradients and states of step t and sequence b stand at row t * row_step + b * row_row. */
float cell_before(IN(float) saved, IN(float) c0, index_t saved_at, index_t n, index_t batch, index_t t, index_t b,
                  index_t j, bool is_first, index_t before, index_t state) {
#ifdef C0
  if (is_first) return c0[state];
#else
  if (is_first) return 0;
#endif
  return saved[saved_at + (before * batch + b) * 5 * n + 4 * n + j];
}
#define CELL_BEFORE(t, b, j)                                                                                           \
  cell_before(saved, c0, saved_at, n, batch, t, b, j, (t) == FIRST_STEP(b), BEFORE(t), state_at + (b)*state_row + (j))

/* The state before each step. */
KERNEL lstm_states(IN(float) saved, IN(float) h0, IN(int) lengths, OUT(float) states, index_t n, index_t batch,
                   index_t steps, index_t saved_at, index_t state_at, index_t state_row, index_t row_step,
                   index_t row_row, UNITS_OF(h)) {
  const index_t i = get_global_id(0), j = i % n, b = i / n % batch, t = i / n / batch;
  if (t >= steps) return;
  float state = 0;
  if (t < END(b)) {
    if (t == FIRST_STEP(b)) {
#ifdef H0
      state = h0[state_at + b * state_row + j];
#endif
    } else {
      IN(float) before = saved + saved_at + (BEFORE(t) * batch + b) * 5 * n + j;
      state = before[n] * RUN(h, H, before[4 * n]);
    }
  }
  states[(t * row_step + b * row_row) * n + j] = state;
}

/* From the last step to the first: gradients of what went into the activations; dh and dc: of all sequences. */
KERNEL lstm_backward(IN(float) saved, IN(float) r, IN(float) peephole, IN(float) c0, IN(int) lengths, IN(float) dy,
                     IN(float) dy_h, IN(float) dy_c, GLOBAL float *gradients, GLOBAL float *dh, GLOBAL float *dc,
                     OUT(float) dh0, OUT(float) dc0, index_t n, index_t batch, index_t steps, index_t saved_at,
                     index_t r_at, index_t peephole_at, index_t y_at, index_t y_step, index_t y_row, index_t state_at,
                     index_t state_row, index_t row_step, index_t row_row, UNITS_OF(f), UNITS_OF(g), UNITS_OF(h)) {
  const index_t first = get_group_id(0) * (index_t)SEQUENCES, l = get_local_id(0);
  const index_t last = min(first + SEQUENCES, batch);
  for (index_t j = l; j < n; j += GROUP)
    for (index_t b = first; b < last; b++) {
#ifdef DY_H
      dh[b * n + j] = dy_h[state_at + b * state_row + j];
#else
      dh[b * n + j] = 0;
#endif
#ifdef DY_C
      dc[b * n + j] = dy_c[state_at + b * state_row + j];
#else
      dc[b * n + j] = 0;
#endif
    }
  barrier(CLK_GLOBAL_MEM_FENCE);
  for (index_t k = steps - 1; k >= 0; k--) {
    const index_t t = TIME(k);
    for (index_t j = l; j < n; j += GROUP)
      for (index_t b = first; b < last; b++) {
        GLOBAL float *to = gradients + (t * row_step + b * row_row) * 4 * n + j;
        if (t >= END(b)) {
          to[0] = to[n] = to[2 * n] = to[3 * n] = 0;
          continue;
        }
        IN(float) from = saved + saved_at + (t * batch + b) * 5 * n + j;
        const float in = from[0], out = from[n], forget = from[2 * n], candidate = from[3 * n];
        const float curve = RUN(h, H, from[4 * n]), before = CELL_BEFORE(t, b, j);
        float d = dh[b * n + j], cell = dc[b * n + j];
#ifdef DY
        d += dy[y_at + t * y_step + b * y_row + j];
#endif
        cell += SLOPE(h, H, curve, d * out);
        const float d_out = SLOPE(f, F, out, d * curve);
#ifdef PEEPHOLE
        cell += d_out * peephole[peephole_at + n + j];
#endif
        float d_in = cell * candidate, d_forget = cell * before;
#ifdef INPUT_FORGET
        d_in -= d_forget;
        d_forget = 0;
#else
        d_forget = SLOPE(f, F, forget, d_forget);
#endif
        d_in = SLOPE(f, F, in, d_in);
        to[0] = d_in;
        to[n] = d_out;
        to[2 * n] = d_forget;
        to[3 * n] = SLOPE(g, G, candidate, cell * in);
        cell *= forget;
#ifdef PEEPHOLE
        cell += d_in * peephole[peephole_at + j] + d_forget * peephole[peephole_at + 2 * n + j];
#endif
        dc[b * n + j] = cell;
        dh[b * n + j] = 0;
      }
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (index_t j = l * WIDTH; j < n; j += GROUP * WIDTH) {
      if (j + WIDTH <= n) {
        vector sums[SEQUENCES];
        for (int s = 0; s < SEQUENCES; s++) sums[s] = (vector)(0);
        for (index_t q = 0; q < 4 * n; q++) {
          const vector weights = LOAD(r + r_at + q * n + j);
          for (int s = 0; s < SEQUENCES; s++) {
            const index_t b = min(first + s, batch - 1);
            sums[s] = fma(weights, (vector)(gradients[(t * row_step + b * row_row) * 4 * n + q]), sums[s]);
          }
        }
        for (index_t b = first; b < last; b++) STORE(LOAD(dh + b * n + j) + sums[b - first], dh + b * n + j);
        continue;
      }
      for (index_t b = first; b < last; b++)
        for (index_t i = j; i < n; i++) {
          float sum = 0;
          for (index_t q = 0; q < 4 * n; q++)
            sum = fma(r[r_at + q * n + i], gradients[(t * row_step + b * row_row) * 4 * n + q], sum);
          dh[b * n + i] += sum;
        }
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
  }
  for (index_t j = l; j < n; j += GROUP)
    for (index_t b = first; b < last; b++) {
#ifdef DH0
      dh0[state_at + b * state_row + j] = dh[b * n + j];
#endif
#ifdef DC0
      dc0[state_at + b * state_row + j] = dc[b * n + j];
#endif
    }
}

/* Wb and Rb are added to the same sums: both get the columns' sums. */
KERNEL lstm_bias(IN(float) gradients, OUT(float) db, index_t columns, index_t rows, index_t at) {
  const index_t column = get_global_id(0);
  if (column >= columns) return;
  float sum = 0, lost = 0;
  for (index_t i = 0; i < rows; i++) {
    const float x = gradients[i * columns + column], next = sum + x, shared = next - sum;
    lost += (sum - (next - shared)) + (x - shared);
    sum = next;
  }
  db[at + column] = db[at + columns + column] = lost == lost ? sum + lost : sum;
}

/* Peepholes i, o, f look at the cell before the step, after it, and before it. */
KERNEL lstm_peephole(IN(float) saved, IN(float) c0, IN(int) lengths, IN(float) gradients, OUT(float) dp, index_t n,
                     index_t batch, index_t steps, index_t saved_at, index_t state_at, index_t state_row,
                     index_t row_step, index_t row_row, index_t at) {
  const index_t j = get_global_id(0);
  if (j >= n) return;
  float sums[3] = {0, 0, 0};
  for (index_t t = 0; t < steps; t++)
    for (index_t b = 0; b < batch; b++) {
      if (t >= END(b)) continue;
      IN(float) from = gradients + (t * row_step + b * row_row) * 4 * n + j;
      const float before = CELL_BEFORE(t, b, j);
      sums[0] = fma(from[0], before, sums[0]);
      sums[1] = fma(from[n], saved[saved_at + (t * batch + b) * 5 * n + 4 * n + j], sums[1]);
      sums[2] = fma(from[2 * n], before, sums[2]);
    }
  for (int k = 0; k < 3; k++) dp[at + k * n + j] = sums[k];
}
#endif
