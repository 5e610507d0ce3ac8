#include "overlay/recurrent/lstm.h"

#include <math.h>
#include <string.h>

#include "overlay/sim/core.h"
#include "overlay/sim/numbers.h"

enum { kGates = 4, kMostBits = 15, kMostShift = 63, kBiasBits = 31 };

/* --- scales --------------------------------------------------------------------------------------------------------
 */
/* NAN if one is. */
static double greatest(const float *numbers, size_t count) {
  double most = 0;
  for (size_t i = 0; i < count; i++)
    if (!isnan(most) && !(fabs((double)numbers[i]) <= most)) most = fabs((double)numbers[i]);
  return most;
}

/* The finest exponent at which a magnitude is at most 2^bits - 1 steps; of 0 a fine one. */
static int32_t finest(double most, int bits) {
  int32_t exponent = -60;
  if (most > ldexp(1, -40)) {
    int power;
    frexp(most, &power);
    exponent = power - bits;
    if (rint(ldexp(most, -exponent)) > ldexp(1, bits) - 1) exponent++;
  }
  return exponent;
}

static int32_t larger(int32_t a, int32_t b) {
  return a > b ? a : b;
}

static braid_status choose_scales(braid_lstm *lstm, double w, double r, double b, double most) {
  if (!isfinite(w) || !isfinite(r) || !isfinite(b) || !(most > 0) || !isfinite(most))
    return braid_fail(BRAID_INVALID_ARGUMENT, "parameters of an LSTM, and the greatest input, must be finite numbers");
  lstm->x_exponent = finest(most, kMostBits);
  int32_t sum = larger(finest(w, kMostBits) + lstm->x_exponent, finest(r, kMostBits) + BRAID_LSTM_HIDDEN_EXPONENT);
  lstm->sum_exponent = larger(larger(sum, finest(b, kBiasBits)), BRAID_LSTM_CELL_EXPONENT - kMostShift);
  lstm->shift = BRAID_LSTM_CELL_EXPONENT - lstm->sum_exponent;
  if (lstm->shift < 0)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "an LSTM whose greatest input is %g and whose greatest parameters are %g, %g and %g: one step of "
                      "16 bits would change a gate by more than 2^%d",
                      most, w, r, b, BRAID_LSTM_CELL_EXPONENT);
  return BRAID_OK;
}

/* --- making --------------------------------------------------------------------------------------------------------
 */
/* Rounded, a half to the even number, by what double precision does to a sum with 1.5 * 2^52, and clipped. */
static int16_t narrow(double x) {
  static const double kWhole = 6755399441055744.0;
  double clipped = x > INT16_MAX ? INT16_MAX : x >= INT16_MIN ? x : INT16_MIN;
  return (int16_t)((clipped + kWhole) - kWhole);
}

static void fill_weights(braid_lstm *lstm, const float *w, const float *r, const float *b) {
  size_t inputs = (size_t)lstm->inputs, hidden = (size_t)lstm->hidden, rows = kGates * hidden;
  double w_scale = ldexp(1, lstm->x_exponent - lstm->sum_exponent);
  double r_scale = ldexp(1, BRAID_LSTM_HIDDEN_EXPONENT - lstm->sum_exponent);
  for (size_t row = 0; row < rows; row++) {
    int16_t *out = lstm->weights + row * (inputs + hidden);
    for (size_t i = 0; i < inputs; i++) out[i] = narrow((double)w[row * inputs + i] * w_scale);
    for (size_t i = 0; i < hidden; i++) out[inputs + i] = narrow((double)r[row * hidden + i] * r_scale);
    double bias = b ? (double)b[row] + (double)b[rows + row] : 0;
    lstm->biases[row] =
        (int32_t)braid_overlay_clip((int64_t)rint(ldexp(bias, -lstm->sum_exponent)), INT32_MIN, INT32_MAX);
  }
}

/* Both of ONNX's biases, added. */
static double greatest_bias(const float *b, size_t rows) {
  double most = 0;
  for (size_t i = 0; b && i < rows; i++) {
    double sum = fabs((double)b[i] + (double)b[rows + i]);
    if (!isnan(most) && !(sum <= most)) most = sum;
  }
  return most;
}

braid_status braid_lstm_create(const braid_allocator *allocator, int32_t inputs, int32_t hidden, const float *w,
                               const float *r, const float *b, double most, braid_lstm **out) {
  *out = NULL;
  if (inputs < 1 || inputs > BRAID_LSTM_MOST_SIDE || hidden < 1 || hidden > BRAID_LSTM_MOST_SIDE)
    return braid_fail(BRAID_INVALID_ARGUMENT, "an LSTM of %d inputs and %d states: 1 to %d of each are possible",
                      inputs, hidden, BRAID_LSTM_MOST_SIDE);
  braid_lstm *lstm = braid_zalloc(allocator, sizeof *lstm);
  if (!lstm) return BRAID_NO_MEMORY;
  size_t rows = (size_t)kGates * (size_t)hidden, columns = (size_t)inputs + (size_t)hidden;
  *lstm = (braid_lstm){.allocator = allocator, .inputs = inputs, .hidden = hidden};
  lstm->weights = braid_zalloc_array(allocator, rows * columns, sizeof *lstm->weights);
  lstm->biases = braid_zalloc_array(allocator, rows, sizeof *lstm->biases);
  braid_status status = lstm->weights && lstm->biases ? BRAID_OK : BRAID_NO_MEMORY;
  if (status == BRAID_OK)
    status = choose_scales(lstm, greatest(w, rows * (size_t)inputs), greatest(r, rows * (size_t)hidden),
                           greatest_bias(b, rows), most);
  if (status != BRAID_OK) {
    braid_lstm_destroy(lstm);
    return status;
  }
  fill_weights(lstm, w, r, b);
  *out = lstm;
  return BRAID_OK;
}

void braid_lstm_destroy(braid_lstm *lstm) {
  if (!lstm) return;
  braid_free(lstm->allocator, lstm->weights);
  braid_free(lstm->allocator, lstm->biases);
  braid_free(lstm->allocator, lstm);
}

int16_t braid_lstm_input(const braid_lstm *lstm, double x) {
  return narrow(ldexp(x, -lstm->x_exponent));
}

/* --- one step ------------------------------------------------------------------------------------------------------
 */
static int16_t round16(int64_t x, int shift) {
  return (int16_t)braid_overlay_clip(braid_overlay_round(x, shift), INT16_MIN, INT16_MAX);
}

static int16_t gate_sum(const braid_lstm *lstm, braid_lstm_gate gate, int32_t unit, const int16_t *x,
                        const int16_t *h) {
  size_t row = (size_t)gate * (size_t)lstm->hidden + (size_t)unit;
  const int16_t *weights = lstm->weights + row * (size_t)(lstm->inputs + lstm->hidden);
  int64_t sum = lstm->biases[row];
  for (int32_t i = 0; i < lstm->inputs; i++) sum += (int32_t)weights[i] * x[i];
  for (int32_t i = 0; i < lstm->hidden; i++) sum += (int32_t)weights[lstm->inputs + i] * h[i];
  return round16(sum, lstm->shift);
}

void braid_lstm_step(const braid_lstm *lstm, const int16_t *x, int16_t *h, int16_t *c) {
  int16_t tangents[BRAID_OVERLAY_TANGENTS], before[BRAID_LSTM_MOST_SIDE];
  braid_overlay_tangents(tangents);
  memcpy(before, h, (size_t)lstm->hidden * sizeof *h);
  for (int32_t u = 0; u < lstm->hidden; u++) {
    int16_t i = braid_overlay_sigmoid(tangents, gate_sum(lstm, BRAID_LSTM_INPUT, u, x, before));
    int16_t o = braid_overlay_sigmoid(tangents, gate_sum(lstm, BRAID_LSTM_OUTPUT, u, x, before));
    int16_t f = braid_overlay_sigmoid(tangents, gate_sum(lstm, BRAID_LSTM_FORGET, u, x, before));
    int16_t g = braid_overlay_tanh(tangents, gate_sum(lstm, BRAID_LSTM_CELL, u, x, before));
    int16_t kept = round16((int64_t)f * c[u], -BRAID_LSTM_HIDDEN_EXPONENT);
    int16_t added = round16((int64_t)i * g, BRAID_LSTM_CELL_EXPONENT - 2 * BRAID_LSTM_HIDDEN_EXPONENT);
    c[u] = round16((int64_t)kept + added, 0);
    h[u] = round16((int64_t)o * braid_overlay_tanh(tangents, c[u]), -BRAID_LSTM_HIDDEN_EXPONENT);
  }
}
