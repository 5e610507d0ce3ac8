/* An LSTM layer in integers is near the real one; its programs give the bits of the plain steps, for any design and
 * number of cores, in any order of execution. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "overlay/recurrent/lstm.h"
#include "overlay/recurrent/lstm_program.h"
#include "overlay/sim/functional.h"

static uint64_t drawn;

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static int below(int bound) {
  return (int)braid_random_below(41, 0, 0, drawn++, (uint32_t)bound);
}

static float *draw(size_t count, double scale) {
  float *out = malloc((count + 1) * sizeof *out);
  for (size_t i = 0; i < count; i++)
    out[i] = (float)(scale * (2 * (double)braid_random_uniform(41, 1, 0, drawn++) - 1));
  return out;
}

typedef struct layer {
  int inputs, hidden;
  float *w, *r, *b;
  braid_lstm *lstm;
} layer;

static layer make_layer(int inputs, int hidden, double scale, double most) {
  layer l = {inputs, hidden, NULL, NULL, NULL, NULL};
  size_t rows = 4 * (size_t)hidden;
  l.w = draw(rows * (size_t)inputs, scale);
  l.r = draw(rows * (size_t)hidden, scale);
  l.b = draw(2 * rows, scale);
  ok(braid_lstm_create(NULL, inputs, hidden, l.w, l.r, l.b, most, &l.lstm));
  return l;
}

static void free_layer(layer *l) {
  braid_lstm_destroy(l->lstm);
  free(l->w);
  free(l->r);
  free(l->b);
}

/* --- near the real one ---------------------------------------------------------------------------------------------
 */
static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

static void real_step(const layer *l, const double *x, double *h, double *c) {
  double before[256];
  memcpy(before, h, (size_t)l->hidden * sizeof *h);
  for (int u = 0; u < l->hidden; u++) {
    double gate[4];
    for (int g = 0; g < 4; g++) {
      size_t row = (size_t)(g * l->hidden + u);
      gate[g] = (double)l->b[row] + (double)l->b[(size_t)(4 * l->hidden) + row];
      for (int i = 0; i < l->inputs; i++) gate[g] += (double)l->w[row * (size_t)l->inputs + (size_t)i] * x[i];
      for (int i = 0; i < l->hidden; i++) gate[g] += (double)l->r[row * (size_t)l->hidden + (size_t)i] * before[i];
    }
    c[u] = sigmoid(gate[2]) * c[u] + sigmoid(gate[0]) * tanh(gate[3]);
    h[u] = sigmoid(gate[1]) * tanh(c[u]);
  }
}

static void test_accuracy(void **state) {
  (void)state;
  double worst = 0;
  for (int trial = 0; trial < 30; trial++) {
    int inputs = 1 + below(60), hidden = 1 + below(60);
    layer l = make_layer(inputs, hidden, 1 / sqrt(hidden), 3);
    double x[64], h[64] = {0}, c[64] = {0};
    int16_t qx[64], qh[64] = {0}, qc[64] = {0};
    for (int step = 0; step < 20; step++) {
      for (int i = 0; i < inputs; i++) {
        x[i] = 6 * (double)braid_random_uniform(41, 2, 0, drawn++) - 3;
        qx[i] = braid_lstm_input(l.lstm, x[i]);
      }
      real_step(&l, x, h, c);
      braid_lstm_step(l.lstm, qx, qh, qc);
      for (int u = 0; u < hidden; u++) worst = fmax(worst, fabs(h[u] - ldexp(qh[u], BRAID_LSTM_HIDDEN_EXPONENT)));
    }
    free_layer(&l);
  }
  print_message("hidden states are at most %.5f from the real ones after 20 steps\n", worst);
  assert_true(worst < 0.004 && worst > 0);
}

/* --- programs ------------------------------------------------------------------------------------------------------
 */
static braid_overlay_design draw_design(void) {
  static const int kRows[] = {1, 4, 8, 16, 12}, kColumns[] = {1, 2, 4, 8, 3};
  static const int64_t kWeights[] = {1 << 11, 1 << 13, 1 << 15, 1 << 19};
  return (braid_overlay_design){.name = "test",
                                .recurrent = true,
                                .cores = 16,
                                .clock_mhz = 200,
                                .rows = kRows[below(5)],
                                .columns = kColumns[below(5)],
                                .side_numbers = 4,
                                .weight_bytes = kWeights[below(4)],
                                .bias_bytes = 1 << (7 + below(6)),
                                .sum_bytes = 1 << 12,
                                .vector_bytes = 1 << 14,
                                .queue_depth = 1 + below(16),
                                .instruction_bytes = 1 << 20,
                                .port_bits = 128,
                                .bank_bits = 512,
                                .banks = 4,
                                .bank_bytes = (int64_t)1 << 30,
                                .burst_bytes = 256,
                                .outstanding = 8,
                                .latency_cycles = 40,
                                .efficiency = 1,
                                .host_gigabytes_per_second = 1};
}

static size_t aligned(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

/* In DDR: constants, inputs, outputs. */
static braid_overlay_image make_image(const braid_lstm_program *p) {
  braid_overlay_image image = {0};
  size_t inputs = aligned(p->constant_bytes), outputs = inputs + aligned(p->input_bytes);
  image.bytes = outputs + aligned(p->output_bytes);
  image.ddr = aligned_alloc(64, image.bytes);
  memset(image.ddr, 0, image.bytes);
  memcpy(image.ddr, p->constants, p->constant_bytes);
  image.segments[BRAID_LSTM_CONSTANTS] = (braid_overlay_segment){0, p->constant_bytes, true};
  image.segments[BRAID_LSTM_INPUTS] = (braid_overlay_segment){inputs, p->input_bytes, true};
  image.segments[BRAID_LSTM_OUTPUTS] = (braid_overlay_segment){outputs, p->output_bytes, false};
  return image;
}

static void run_program(const layer *l, const braid_lstm_program *p, const braid_overlay_design *design) {
  braid_overlay_code codes[16];
  int16_t h[256] = {0}, c[256] = {0};
  for (int i = 0; i < p->cores; i++)
    codes[i] = (braid_overlay_code){p->codes[i].bytes, p->codes[i].words * BRAID_ISA_WORD};
  braid_overlay_image image = make_image(p);
  int16_t *inputs = (int16_t *)(void *)(image.ddr + image.segments[BRAID_LSTM_INPUTS].first);
  const int16_t *outputs = (const int16_t *)(const void *)(image.ddr + image.segments[BRAID_LSTM_OUTPUTS].first);
  for (int step = 0; step < p->steps; step++)
    for (int i = 0; i < l->inputs; i++)
      inputs[(size_t)step * p->step_input_bytes / 2 + (size_t)i] = (int16_t)(below(65536) - 32768);
  for (int order = 0; order < 3; order++) {
    braid_functional_options options = {.seed = (uint64_t)order, .races = order < 2};
    memset(image.ddr + image.segments[BRAID_LSTM_OUTPUTS].first, 0x55, p->output_bytes);
    ok(braid_functional_once(design, p->cores, codes, &image, &options, NULL, NULL));
    memset(h, 0, sizeof h);
    memset(c, 0, sizeof c);
    for (int step = 0; step < p->steps; step++) {
      braid_lstm_step(l->lstm, inputs + (size_t)step * p->step_input_bytes / 2, h, c);
      if (memcmp(outputs + (size_t)step * p->step_output_bytes / 2, h, (size_t)l->hidden * sizeof *h) != 0)
        fail_msg(
            "step %d of %d inputs, %d states on %d cores of %d x %d, %lld weights, %lld biases, differs in order %d",
            step, l->inputs, l->hidden, p->cores, design->rows, design->columns, (long long)design->weight_bytes,
            (long long)design->bias_bytes, order);
    }
  }
  free(image.ddr);
}

static void test_programs(void **state) {
  (void)state;
  size_t stay = 0, stream = 0, small = 0;
  for (int trial = 0; trial < 150; trial++) {
    layer l = make_layer(1 + below(70), 1 + below(90), 0.4, 2);
    braid_overlay_design design = draw_design();
    braid_lstm_program *p;
    braid_status status = braid_lstm_compile(l.lstm, 1 + below(4), &design, 1 + below(16), NULL, &p);
    if (status == BRAID_OK) {
      run_program(&l, p, &design);
      stay += p->weights_stay;
      stream += !p->weights_stay;
    } else {
      assert_int_equal(status, BRAID_UNSUPPORTED);
      assert_non_null(strstr(braid_error_detail(), "too few"));
      small++;
    }
    braid_lstm_program_destroy(p);
    free_layer(&l);
  }
  print_message("%zu with weights that stay, %zu with others, %zu memories too small\n", stay, stream, small);
  assert_true(stay > 20 && stream > 20);
}

static void test_refused(void **state) {
  (void)state;
  layer l = make_layer(8, 8, 0.4, 2);
  braid_overlay_design design = draw_design();
  braid_lstm_program *p;
  braid_lstm *made;
  assert_int_equal(braid_lstm_compile(l.lstm, 1, &design, 65, NULL, &p), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_lstm_compile(l.lstm, 0, &design, 1, NULL, &p), BRAID_INVALID_ARGUMENT);
  design.vector_bytes = 64;
  assert_int_equal(braid_lstm_compile(l.lstm, 1, &design, 1, NULL, &p), BRAID_UNSUPPORTED);
  assert_non_null(strstr(braid_error_detail(), "vectors of an LSTM of 8 inputs and 8 states take"));
  design.recurrent = false;
  assert_int_equal(braid_lstm_compile(l.lstm, 1, &design, 1, NULL, &p), BRAID_UNSUPPORTED);
  assert_null(p);
  assert_int_equal(braid_lstm_create(NULL, 0, 8, l.w, l.r, l.b, 2, &made), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_lstm_create(NULL, 8, 8, l.w, l.r, l.b, NAN, &made), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_lstm_create(NULL, 8, 8, l.w, l.r, l.b, 1e30, &made), BRAID_INVALID_ARGUMENT);
  l.r[5] = INFINITY;
  assert_int_equal(braid_lstm_create(NULL, 8, 8, l.w, l.r, l.b, 2, &made), BRAID_INVALID_ARGUMENT);
  l.r[5] = 0, l.w[3] = NAN;
  assert_int_equal(braid_lstm_create(NULL, 8, 8, l.w, l.r, l.b, 2, &made), BRAID_INVALID_ARGUMENT);
  assert_null(made);
  free_layer(&l);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_accuracy), cmocka_unit_test(test_programs),
                                     cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
