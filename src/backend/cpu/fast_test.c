/* Every fast kernel of the CPU against the plain reference of the same op: random shapes, every layout a kernel asks
 * for, constant and changing weights. The conversion between layouts is the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_fixture.h"

/* --- convolutions --------------------------------------------------------------------------------------------------
 */
typedef struct shape {
  int64_t batch, channels, filters, height, width, kernel, stride, dilation, groups;
  int64_t pads[4];
} shape;

static const shape kShapes[] = {
    {2, 3, 20, 17, 13, 3, 1, 1, 1, {1, 1, 1, 1}},   /* an image, a filter count that is no multiple of 16 */
    {3, 32, 48, 14, 14, 3, 1, 1, 1, {1, 1, 1, 1}},  /* oneDNN's or our Winograd */
    {1, 24, 40, 15, 11, 3, 1, 1, 1, {1, 1, 1, 1}},  /* channels that are padded */
    {2, 16, 32, 12, 12, 1, 1, 1, 1, {0, 0, 0, 0}},  /* pointwise */
    {2, 64, 24, 9, 9, 1, 2, 1, 1, {0, 0, 0, 0}},    /* pointwise with a stride */
    {2, 32, 32, 11, 10, 3, 2, 1, 32, {0, 0, 1, 1}}, /* depthwise, uneven pads */
    {1, 24, 24, 9, 9, 5, 1, 1, 24, {2, 2, 2, 2}},   /* depthwise, padded channels */
    {2, 32, 64, 10, 12, 3, 1, 2, 4, {2, 2, 2, 2}},  /* groups with dilation */
    {1, 6, 10, 8, 9, 3, 2, 1, 2, {1, 0, 0, 1}},     /* small groups */
    {1, 3, 64, 32, 30, 7, 2, 1, 1, {3, 3, 3, 3}},   /* a stem */
};
enum { kShapeCount = sizeof kShapes / sizeof *kShapes };

static int64_t out_size(const shape *s, int i) {
  int64_t in = i ? s->width : s->height;
  return (in + s->pads[i] + s->pads[i + 2] - (s->kernel - 1) * s->dilation - 1) / s->stride + 1;
}

static void set_window(fixture *f, const shape *s) {
  set(f, "pads", 4, s->pads);
  set(f, "strides", 2, (int64_t[]){s->stride, s->stride});
  set(f, "dilations", 2, (int64_t[]){s->dilation, s->dilation});
  ok(braid_graph_set_int(f->graph, f->node, "group", s->groups));
}

/* oneDNN has nothing fast for groups of a few channels each, nor, but on x86-64, for every other shape. */
static int least_fast(const shape *s) {
#ifdef __x86_64__
  return s->groups == 1 || s->groups == s->channels;
#else
  (void)s;
  return 0;
#endif
}

static void test_convolution(void **state) {
  (void)state;
  for (int i = 0; i < kShapeCount; i++) {
    const shape *s = &kShapes[i];
    fixture f = begin();
    braid_value_id ids[4] = {-1, -1, -1, -1};
    add_input(&f, ids, 4, (int64_t[]){s->batch, s->channels, s->height, s->width});
    add_input(&f, ids, 4, (int64_t[]){s->filters, s->channels / s->groups, s->kernel, s->kernel});
    add_input(&f, ids, 1, &s->filters);
    finish(&f, "Conv", ids, 1);
    set_window(&f, s);
    check(&f, least_fast(s));
  }
}

static void test_fused_convolution(void **state) {
  (void)state;
  static const char *const kActivations[] = {"Relu", "Clip",  "Sigmoid",     "HardSwish", "LeakyRelu",
                                             "Tanh", "Swish", "HardSigmoid", "Gelu"};
  enum { kActivationCount = sizeof kActivations / sizeof *kActivations };
  for (int i = 0; i < kShapeCount; i++) {
    const shape *s = &kShapes[i];
    fixture f = begin();
    braid_value_id ids[4] = {-1, -1, -1, -1};
    add_input(&f, ids, 4, (int64_t[]){s->batch, s->channels, s->height, s->width});
    add_input(&f, ids, 4, (int64_t[]){s->filters, s->channels / s->groups, s->kernel, s->kernel});
    add_input(&f, ids, 1, &s->filters);
    add_input(&f, ids, 4, (int64_t[]){s->batch, s->filters, out_size(s, 0), out_size(s, 1)});
    finish(&f, "FusedConv", ids, 1);
    set_window(&f, s);
    least_scale = sqrt((double)(s->channels / s->groups * s->kernel * s->kernel)) / 3;
    ok(braid_graph_set_string(f.graph, f.node, "activation", kActivations[i % kActivationCount]));
    ok(braid_graph_set_floats(f.graph, f.node, "activation_params", (float[]){0.1f, 0.9f}, 2));
    check(&f, least_fast(s));
  }
  least_scale = 0;
}

static void test_transposed_convolution(void **state) {
  (void)state;
  for (int i = 0; i < kShapeCount; i++) {
    const shape *s = &kShapes[i];
    fixture f = begin();
    braid_value_id ids[3] = {-1, -1, -1};
    add_input(&f, ids, 4, (int64_t[]){s->batch, s->filters, s->height, s->width});
    add_input(&f, ids, 4, (int64_t[]){s->filters, s->channels / s->groups, s->kernel, s->kernel});
    if (i % 3) add_input(&f, ids, 1, &s->channels);
    finish(&f, "ConvTranspose", ids, 1);
    set_window(&f, s);
    if (s->stride > 1) set(&f, "output_padding", 2, (int64_t[]){1, 0});
    check(&f, least_fast(s));
  }
}

static void test_convolution_gradients(void **state) {
  (void)state;
  for (int i = 0; i < kShapeCount; i++) {
    const shape *s = &kShapes[i];
    int64_t x[4] = {s->batch, s->channels, s->height, s->width};
    int64_t w[4] = {s->filters, s->channels / s->groups, s->kernel, s->kernel};
    int64_t y[4] = {s->batch, s->filters, out_size(s, 0), out_size(s, 1)};
    for (int by_filter = 0; by_filter < 2; by_filter++) {
      fixture f = begin();
      braid_value_id ids[2];
      add_input(&f, ids, 4, by_filter ? x : y);
      add_input(&f, ids, 4, by_filter ? y : w);
      finish(&f, by_filter ? "ConvGradFilter" : "ConvGradInput", ids, 1);
      set_window(&f, s);
      set(&f, by_filter ? "kernel_shape" : "input_shape", 2, by_filter ? w + 2 : x + 2);
      check(&f, least_fast(s));
    }
  }
}

/* --- matrix products -----------------------------------------------------------------------------------------------
 */
static void test_gemm(void **state) {
  (void)state;
  for (int bits = 0; bits < 8; bits++) {
    bool ta = bits & 1, tb = bits & 2, bias = bits & 4;
    fixture f = begin();
    braid_value_id ids[3] = {-1, -1, -1};
    add_input(&f, ids, 2, ta ? (int64_t[]){70, 33} : (int64_t[]){33, 70});
    add_input(&f, ids, 2, tb ? (int64_t[]){300, 70} : (int64_t[]){70, 300});
    if (bias) add_input(&f, ids, 1, (int64_t[]){300});
    finish(&f, bias ? "FusedGemm" : "Gemm", ids, 1);
    ok(braid_graph_set_int(f.graph, f.node, "transA", ta));
    ok(braid_graph_set_int(f.graph, f.node, "transB", tb));
    if (bias)
      ok(braid_graph_set_string(f.graph, f.node, "activation", "Relu"));
    else
      ok(braid_graph_set_float(f.graph, f.node, "alpha", 0.5));
    check(&f, 1);
  }
}

static void test_matmul(void **state) {
  (void)state;
  static const struct {
    int rank_a, rank_b;
    int64_t a[4], b[4];
  } kCases[] = {{2, 2, {5, 40}, {40, 17}},
                {3, 2, {4, 5, 40}, {40, 17}},
                {4, 4, {2, 3, 5, 40}, {2, 3, 40, 17}},
                {3, 2, {2, 50, 70}, {70, 90}}};
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    fixture f = begin();
    braid_value_id ids[2];
    add_input(&f, ids, kCases[i].rank_a, kCases[i].a);
    add_input(&f, ids, kCases[i].rank_b, kCases[i].b);
    finish(&f, "MatMul", ids, 1);
    check(&f, 1);
  }
}

static void test_fused_matmul(void **state) {
  (void)state;
  static const char *const kActivations[] = {"Gelu", "Relu", "Gelu", "Tanh"};
  for (int i = 0; i < 8; i++) {
    bool batched = i & 1, tb = i & 2, few = i & 4;
    int64_t rows = few ? 3 : 50;
    fixture f = begin();
    braid_value_id ids[3];
    add_input(&f, ids, 3, (int64_t[]){4, rows, 70});
    add_input(&f, ids, batched ? 3 : 2,
              batched ? (int64_t[]){4, tb ? 90 : 70, tb ? 70 : 90} : (int64_t[]){tb ? 90 : 70, tb ? 70 : 90});
    add_input(&f, ids, 1, (int64_t[]){90});
    finish(&f, "FusedMatMul", ids, 1);
    ok(braid_graph_set_int(f.graph, f.node, "transB", tb));
    ok(braid_graph_set_string(f.graph, f.node, "activation", kActivations[i % 4]));
    check(&f, 1);
  }
}

/* --- quantized numbers ---------------------------------------------------------------------------------------------
 */
/* Positive scales in [low, 2 low). */
static void set_scales(fixture *f, size_t input, double low) {
  int64_t count = braid_desc_count(&f->operands[input].desc);
  for (int64_t i = 0; i < count; i++) {
    float *scale = (float *)f->data[input] + i;
    *scale = (float)(low * (1.5 + 0.5 * (double)*scale));
  }
}

/* Zero points within 16 of the middle of the type's range. */
static void centre_zeros(fixture *f, size_t input) {
  int64_t count = braid_desc_count(&f->operands[input].desc);
  uint8_t middle = f->operands[input].desc.dtype == BRAID_U8 ? 128 : 0;
  for (int64_t i = 0; i < count; i++) {
    uint8_t *zero = (uint8_t *)f->data[input] + i;
    *zero = (uint8_t)((*zero & 31) - 16 + middle);
  }
}

/* Numbers of a QLinear op over sums of `depth` products such that results lie within what a byte holds: most that
 * saturate would agree whatever the kernel computes. */
static void scale_products(fixture *f, int64_t depth) {
  const double scale = 0.01;
  fill(f);
  set_scales(f, 1, scale);
  set_scales(f, 4, scale);
  centre_zeros(f, 2);
  centre_zeros(f, 5);
  centre_zeros(f, 7);
  bool bias = f->inputs > 8 && f->operands[8].present;
  for (int64_t i = 0; bias && i < braid_desc_count(&f->operands[8].desc); i++) ((int32_t *)f->data[8])[i] -= 1 << 15;
  set_scales(f, 6, scale * scale * (sqrt((double)depth) * 6400 + (double)depth * 64 + (bias ? 1 << 14 : 0)) / 40);
}

/* Numbers that lie halfway between two steps, which are rounded to the even one. */
static void put_halves(fixture *f) {
  float *x = f->data[0];
  *(float *)f->data[1] = 1.0f / 128;
  for (int64_t i = 0; i < braid_desc_count(&f->operands[0].desc); i += 2) x[i] = (float)(i % 100 - 50 + 0.5) / 128;
}

static void test_quantize(void **state) {
  (void)state;
  byte_mask = 255;
  int64_t x[4] = {3, 5, 40, 33}, one = 1;
  for (int bits = 0; bits < 8; bits++) {
    bool quantizes = bits & 1, list = bits & 2;
    braid_dtype byte = bits & 4 ? BRAID_I8 : BRAID_U8;
    fixture f = begin();
    braid_value_id ids[3];
    add_typed(&f, ids, quantizes ? BRAID_F32 : byte, 4, x);
    add_input(&f, ids, list, list ? &x[1] : &one);
    add_typed(&f, ids, byte, list, list ? &x[1] : &one);
    finish(&f, quantizes ? "QuantizeLinear" : "DequantizeLinear", ids, 1);
    fill(&f);
    set_scales(&f, 1, 0.01);
    centre_zeros(&f, 2);
    if (quantizes && !list) put_halves(&f);
    check_filled(&f, 1);
  }
  for (int64_t count = 1; count < 100000; count = count * 7 + 1) {
    fixture f = begin();
    braid_value_id ids[1];
    add_input(&f, ids, 1, &count);
    finish(&f, "DynamicQuantizeLinear", ids, 3);
    check(&f, 1);
  }
  byte_mask = 3;
}

static void add_scaled(fixture *f, braid_value_id *ids, braid_dtype dtype, int rank, const int64_t *dims,
                       int64_t list) {
  int64_t count[1] = {list};
  add_typed(f, ids, dtype, rank, dims);
  add_input(f, ids, list > 0, count);
  add_typed(f, ids, dtype, list > 0, count);
}

static void test_integer_matmul(void **state) {
  (void)state;
  byte_mask = 255;
  for (int bits = 0; bits < 16; bits++) {
    bool scaled = bits & 1;
    braid_dtype left = bits & 2 ? BRAID_I8 : BRAID_U8, right = bits & 4 ? BRAID_U8 : BRAID_I8;
    int64_t a[3] = {2, 23, 45}, b[2] = {45, 71}, list = bits & 8 ? 71 : 0, one = 1;
    fixture f = begin();
    braid_value_id ids[8];
    if (scaled) {
      add_scaled(&f, ids, left, 3, a, 0);
      add_scaled(&f, ids, right, 2, b, list);
      add_input(&f, ids, 0, &one);
      add_typed(&f, ids, left, 0, &one);
    } else {
      add_typed(&f, ids, left, 3, a);
      add_typed(&f, ids, right, 2, b);
      add_typed(&f, ids, left, 0, &one);
      add_typed(&f, ids, right, list > 0, &list);
    }
    finish(&f, scaled ? "QLinearMatMul" : "MatMulInteger", ids, 1);
    if (scaled)
      scale_products(&f, a[2]);
    else
      fill(&f);
    check_filled(&f, 1);
  }
  byte_mask = 3;
}

static void test_integer_convolution(void **state) {
  (void)state;
  byte_mask = 255;
  for (int i = 0; i < 2 * kShapeCount; i++) {
    const shape *s = &kShapes[i / 2];
    bool scaled = i % 2;
    int64_t x[4] = {s->batch, s->channels, s->height, s->width}, list = i % 3 ? s->filters : 0, one = 1;
    int64_t w[4] = {s->filters, s->channels / s->groups, s->kernel, s->kernel};
    fixture f = begin();
    braid_value_id ids[9];
    if (scaled) {
      add_scaled(&f, ids, BRAID_U8, 4, x, 0);
      add_scaled(&f, ids, BRAID_I8, 4, w, list);
      add_input(&f, ids, 0, &one);
      add_typed(&f, ids, BRAID_U8, 0, &one);
      add_typed(&f, ids, BRAID_I32, 1, &s->filters);
    } else {
      add_typed(&f, ids, BRAID_U8, 4, x);
      add_typed(&f, ids, BRAID_I8, 4, w);
      add_typed(&f, ids, BRAID_U8, 0, &one);
    }
    finish(&f, scaled ? "QLinearConv" : "ConvInteger", ids, 1);
    set_window(&f, s);
    if (scaled)
      scale_products(&f, w[1] * w[2] * w[3]);
    else
      fill(&f);
    check_filled(&f, 1);
  }
  byte_mask = 3;
}

/* --- pools ---------------------------------------------------------------------------------------------------------
 */
static const struct {
  int64_t channels, height, width, kernel[2], stride[2], pads[4];
  bool ceil, include_pad;
} kPools[] = {
    {32, 12, 10, {2, 2}, {2, 2}, {0, 0, 0, 0}, false, false},
    {20, 13, 11, {3, 3}, {2, 2}, {1, 1, 1, 1}, false, false},
    {48, 9, 9, {3, 2}, {1, 3}, {1, 0, 0, 1}, true, true},
    {16, 8, 8, {5, 5}, {1, 1}, {2, 2, 2, 2}, false, true},
};

static void set_pool(fixture *f, int i) {
  set(f, "kernel_shape", 2, kPools[i].kernel);
  set(f, "strides", 2, kPools[i].stride);
  set(f, "pads", 4, kPools[i].pads);
  ok(braid_graph_set_int(f->graph, f->node, "ceil_mode", kPools[i].ceil));
  if (strcmp(f->graph->nodes[f->node].op->name, "AveragePool") == 0)
    ok(braid_graph_set_int(f->graph, f->node, "count_include_pad", kPools[i].include_pad));
}

static void test_pools(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++)
    for (int average = 0; average < 2; average++) {
      int64_t x[4] = {2, kPools[i].channels, kPools[i].height, kPools[i].width};
      fixture f = begin();
      braid_value_id ids[1];
      add_input(&f, ids, 4, x);
      finish_some(&f, average ? "AveragePool" : "MaxPool", ids, average ? 1 : 3, average ? -1 : 1);
      set_pool(&f, i);
      ok(braid_graph_infer_node(f.graph, f.node));
      braid_desc y = f.graph->values[f.graph->nodes[f.node].outputs[0]].desc;
      check(&f, 1);
      if (!average && i > 0) continue; /* random places are places of a window only where nothing is padded */
      fixture g = begin();
      braid_value_id both[2];
      add_input(&g, both, 4, y.dims);
      if (!average) add_typed(&g, both, BRAID_U8, 4, y.dims);
      finish(&g, average ? "AveragePoolGrad" : "MaxPoolGrad", both, 1);
      set_pool(&g, i);
      set(&g, "input_shape", 2, x + 2);
      check(&g, 1);
    }
}

static void test_bias_gradient(void **state) {
  (void)state;
  for (int64_t channels = 16; channels <= 40; channels += 24) {
    fixture f = begin();
    braid_value_id ids[1];
    add_input(&f, ids, 4, (int64_t[]){3, channels, 7, 6});
    finish(&f, "BiasGrad", ids, 1);
    check(&f, 1);
  }
}

/* Variances and inverse deviations are drawn from [-1, 1) like everything: their squares' sums must be made positive.
 */
static void make_positive(fixture *f, size_t input) {
  int64_t count = braid_desc_count(&f->operands[input].desc);
  for (int64_t i = 0; i < count; i++) ((float *)f->data[input])[i] = fabsf(((float *)f->data[input])[i]) + 0.1f;
}

static void test_batch_norm(void **state) {
  (void)state;
  for (int training = 0; training < 2; training++)
    for (int gradient = 0; gradient < 2; gradient++)
      for (int64_t channels = 16; channels <= 40; channels += 24) {
        int64_t x[4] = {3, channels, 7, 6};
        fixture f = begin();
        braid_value_id ids[5];
        add_input(&f, ids, 4, x);
        if (gradient) add_input(&f, ids, 4, x);
        for (int i = 0; i < (gradient ? 3 : 4); i++) add_input(&f, ids, 1, &channels);
        finish(&f, gradient ? "BatchNormalizationGrad" : "BatchNormalization", ids, gradient ? 3 : training ? 5 : 1);
        ok(braid_graph_set_int(f.graph, f.node, "training_mode", training));
        fill(&f);
        make_positive(&f, 4);
        check_filled(&f, 1);
      }
}

static void test_global_pools(void **state) {
  (void)state;
  fixture f = begin();
  braid_value_id ids[1];
  add_input(&f, ids, 4, (int64_t[]){3, 40, 7, 6});
  finish(&f, "GlobalAveragePool", ids, 1);
  check(&f, 1);
  fixture g = begin();
  add_input(&g, ids, 4, (int64_t[]){3, 40, 1, 1});
  finish(&g, "GlobalAveragePoolGrad", ids, 1);
  set(&g, "input_shape", 2, (int64_t[]){7, 6});
  check(&g, 1);
}

int main(void) {
  printf("seed %d\n", kSeed);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_convolution),
                                     cmocka_unit_test(test_fused_convolution),
                                     cmocka_unit_test(test_transposed_convolution),
                                     cmocka_unit_test(test_convolution_gradients),
                                     cmocka_unit_test(test_gemm),
                                     cmocka_unit_test(test_matmul),
                                     cmocka_unit_test(test_fused_matmul),
                                     cmocka_unit_test(test_quantize),
                                     cmocka_unit_test(test_integer_matmul),
                                     cmocka_unit_test(test_integer_convolution),
                                     cmocka_unit_test(test_pools),
                                     cmocka_unit_test(test_global_pools),
                                     cmocka_unit_test(test_bias_gradient),
                                     cmocka_unit_test(test_batch_norm)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
