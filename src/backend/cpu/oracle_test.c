/* Convolution, batch normalization and the general matrix product as ONNX's text has them, in double precision, one
 * element after another: what every kernel of the CPU for them must give, the last in the table included, with which
 * the others are compared elsewhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernel_fixture.h"

/* --- as the text says ----------------------------------------------------------------------------------------------
 */
typedef struct conv_case {
  int64_t batch, channels, height, width, filters, groups, kernel[2], strides[2], dilations[2], pads[4]; /* as ONNX's */
  bool bias;
} conv_case;

static float at(const float *x, const conv_case *c, int64_t n, int64_t channel, int64_t row, int64_t column) {
  if (row < 0 || row >= c->height || column < 0 || column >= c->width) return 0; /* padding */
  return x[((n * c->channels + channel) * c->height + row) * c->width + column];
}

/* The sum over the group's channels and the window's places, and the bias. */
static double conv_element(const conv_case *c, void *const *data, int64_t n, int64_t filter, int64_t row,
                           int64_t column) {
  const float *x = data[0], *w = data[1], *bias = data[2];
  int64_t channels = c->channels / c->groups, group = filter / (c->filters / c->groups);
  double sum = c->bias ? bias[filter] : 0;
  for (int64_t k = 0; k < channels; k++)
    for (int64_t i = 0; i < c->kernel[0]; i++)
      for (int64_t j = 0; j < c->kernel[1]; j++)
        sum += (double)at(x, c, n, group * channels + k, row * c->strides[0] + i * c->dilations[0] - c->pads[0],
                          column * c->strides[1] + j * c->dilations[1] - c->pads[1]) *
               w[((filter * channels + k) * c->kernel[0] + i) * c->kernel[1] + j];
  return sum;
}

static void conv_oracle(const conv_case *c, void *const *data, const braid_desc *y, float *out) {
  for (int64_t n = 0; n < y->dims[0]; n++)
    for (int64_t f = 0; f < y->dims[1]; f++)
      for (int64_t row = 0; row < y->dims[2]; row++)
        for (int64_t column = 0; column < y->dims[3]; column++)
          *out++ = (float)conv_element(c, data, n, f, row, column);
}

/* Y = (X - mean) / sqrt(variance + epsilon) * scale + B, by channel. */
static void norm_oracle(void *const *data, const braid_desc *x, double epsilon, float *out) {
  const float *in = data[0], *scale = data[1], *bias = data[2], *mean = data[3], *variance = data[4];
  int64_t plane = braid_desc_count(x) / x->dims[0] / x->dims[1];
  for (int64_t i = 0; i < braid_desc_count(x); i++) {
    int64_t c = i / plane % x->dims[1];
    out[i] = (float)(((double)in[i] - mean[c]) / sqrt((double)variance[c] + epsilon) * scale[c] + bias[c]);
  }
}

typedef struct gemm_case {
  int64_t rows, inner, columns, c_dims[2];
  int c_rank; /* -1: no C */
  bool turned_a, turned_b;
  float alpha, beta;
} gemm_case;

/* Y = alpha * A' * B' + beta * C, C broadcast to Y. */
static void gemm_oracle(const gemm_case *g, void *const *data, float *out) {
  const float *a = data[0], *b = data[1], *c = data[2];
  int64_t c_columns = g->c_rank > 0 ? g->c_dims[g->c_rank - 1] : 1, c_rows = g->c_rank > 1 ? g->c_dims[0] : 1;
  for (int64_t i = 0; i < g->rows; i++)
    for (int64_t j = 0; j < g->columns; j++) {
      double sum = 0;
      for (int64_t k = 0; k < g->inner; k++)
        sum += (double)a[g->turned_a ? k * g->rows + i : i * g->inner + k] *
               b[g->turned_b ? j * g->inner + k : k * g->columns + j];
      sum *= g->alpha;
      if (g->c_rank >= 0) sum += (double)g->beta * c[(c_rows > 1 ? i * c_columns : 0) + (c_columns > 1 ? j : 0)];
      out[i * g->columns + j] = (float)sum;
    }
}

/* --- kernels against it --------------------------------------------------------------------------------------------
 */
/* Every kernel that takes the node, with constant and with changing weights. */
static void check_kernels(fixture *f, float *wanted) {
  const braid_kernel **kernels;
  size_t count, found = 0;
  braid_node_desc node = describe(f, f->operands);
  char why[256];
  ok(braid_cpu_list_kernels(NULL, false, &kernels, &count));
  for (size_t i = 0; i < count; i++) {
    if (strcmp(kernels[i]->op, node.op) || (kernels[i]->match && !kernels[i]->match(&node, why, sizeof why))) continue;
    found++;
    for (size_t constant_from = 1; constant_from <= kMaxOperands; constant_from += kMaxOperands - 1) {
      float *got[kMaxOperands];
      run(f, kernels[i], constant_from, got);
      compare(f, kernels[i], got, &wanted);
      free(got[0]);
    }
  }
  assert_true(found > 0);
  braid_free(NULL, kernels);
  free(wanted);
  clear(f);
}

static float *room(const fixture *f) {
  float *made = calloc((size_t)braid_desc_count(&f->operands[f->inputs].desc), sizeof *made);
  assert_non_null(made);
  return made;
}

static void test_conv(void **state) {
  (void)state;
  static const conv_case kCases[] = {
      {1, 1, 5, 5, 1, 1, {3, 3}, {1, 1}, {1, 1}, {0, 0, 0, 0}, false},
      {2, 3, 7, 6, 5, 1, {3, 2}, {2, 1}, {1, 2}, {1, 0, 2, 1}, true}, /* pads of all sizes */
      {2, 24, 9, 9, 20, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, true},
      {2, 64, 12, 12, 64, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, true}, /* Winograd's algorithm */
      {1, 32, 8, 8, 48, 1, {1, 1}, {2, 2}, {1, 1}, {0, 0, 0, 0}, true},
      {2, 32, 8, 7, 32, 2, {3, 3}, {1, 2}, {1, 1}, {1, 1, 1, 1}, true},  /* groups of a block */
      {1, 12, 8, 7, 18, 3, {3, 3}, {1, 1}, {2, 2}, {2, 2, 2, 2}, false}, /* others */
      {2, 32, 9, 9, 32, 32, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, true}, /* of one channel */
      {1, 6, 5, 5, 12, 6, {2, 2}, {1, 1}, {1, 1}, {1, 0, 0, 1}, true},   /* of one channel and two filters */
  };
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    const conv_case *c = &kCases[i];
    fixture f = begin();
    braid_value_id ids[kMaxOperands];
    add_input(&f, ids, 4, (int64_t[]){c->batch, c->channels, c->height, c->width});
    add_input(&f, ids, 4, (int64_t[]){c->filters, c->channels / c->groups, c->kernel[0], c->kernel[1]});
    if (c->bias) add_input(&f, ids, 1, &c->filters);
    finish(&f, "Conv", ids, 1);
    set(&f, "strides", 2, c->strides);
    set(&f, "dilations", 2, c->dilations);
    set(&f, "pads", 4, c->pads);
    ok(braid_graph_set_int(f.graph, f.node, "group", c->groups));
    fill(&f);
    float *wanted = room(&f);
    conv_oracle(c, f.data, &f.operands[f.inputs].desc, wanted);
    check_kernels(&f, wanted);
  }
}

static void test_batch_normalization(void **state) {
  (void)state;
  static const int64_t kShapes[][4] = {{1, 1, 3, 3}, {2, 20, 5, 4}, {3, 32, 6, 6}};
  for (size_t i = 0; i < sizeof kShapes / sizeof *kShapes; i++) {
    fixture f = begin();
    braid_value_id ids[kMaxOperands];
    add_input(&f, ids, 4, kShapes[i]);
    for (int k = 0; k < 4; k++) add_input(&f, ids, 1, &kShapes[i][1]);
    finish(&f, "BatchNormalization", ids, 1);
    ok(braid_graph_set_float(f.graph, f.node, "epsilon", 0.01f));
    fill(&f);
    float *variance = f.data[4], *wanted = room(&f);
    for (int64_t k = 0; k < kShapes[i][1]; k++) variance[k] = fabsf(variance[k]);
    norm_oracle(f.data, &f.operands[0].desc, 0.01f, wanted);
    check_kernels(&f, wanted);
  }
}

static void test_gemm(void **state) {
  (void)state;
  static const gemm_case kCases[] = {
      {1, 1, 1, {0}, -1, false, false, 1, 1},          {5, 7, 3, {3}, 1, false, false, 1, 1},
      {64, 40, 70, {70}, 1, false, true, 1, 1},        {33, 20, 9, {33, 1}, 2, true, false, 0.5f, 2},
      {50, 64, 48, {50, 48}, 2, true, true, 2, -1},    {6, 5, 4, {0}, 0, false, true, 1, 3},
      {100, 300, 130, {1, 130}, 2, false, false, 1, 1}};
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    const gemm_case *g = &kCases[i];
    fixture f = begin();
    braid_value_id ids[kMaxOperands];
    add_input(&f, ids, 2, g->turned_a ? (int64_t[]){g->inner, g->rows} : (int64_t[]){g->rows, g->inner});
    add_input(&f, ids, 2, g->turned_b ? (int64_t[]){g->columns, g->inner} : (int64_t[]){g->inner, g->columns});
    if (g->c_rank >= 0) add_input(&f, ids, g->c_rank, g->c_dims);
    finish(&f, "Gemm", ids, 1);
    ok(braid_graph_set_int(f.graph, f.node, "transA", g->turned_a));
    ok(braid_graph_set_int(f.graph, f.node, "transB", g->turned_b));
    ok(braid_graph_set_float(f.graph, f.node, "alpha", g->alpha));
    ok(braid_graph_set_float(f.graph, f.node, "beta", g->beta));
    fill(&f);
    float *wanted = room(&f);
    gemm_oracle(g, f.data, wanted);
    check_kernels(&f, wanted);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_conv), cmocka_unit_test(test_batch_normalization),
                                     cmocka_unit_test(test_gemm)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
