/* Quantized graphs: which nodes become integers, what stays, what the weights are, how it fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>
#include <unistd.h>

#include "braid/model.h"
#include "braid/quantize.h"
#include "graph/graph.h"
#include "oom.h"
#include "slow.h"

enum { kSamples = 24, kImage = 3 * 8 * 8 };

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static void expect(braid_status status, braid_status wanted, const char *part) {
  if (status != wanted)
    fail_msg("%s, not %s: %s", braid_status_text(status), braid_status_text(wanted), braid_error_detail());
  if (!strstr(braid_error_detail(), part)) fail_msg("\"%s\" is not in \"%s\"", part, braid_error_detail());
}

static uint32_t state_of_numbers = 1;
static float number(void) { /* -1 to 1 */
  state_of_numbers = state_of_numbers * 1664525U + 1013904223U;
  return (float)(state_of_numbers >> 8) / (float)(1 << 23) - 1;
}

/* --- a network -----------------------------------------------------------------------------------------------------
 */
static braid_status add_constant(braid_graph *graph, const char *name, int rank, const int64_t *dims, float least,
                                 float scale, braid_value_id *out) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_status status = braid_desc_init(&desc, BRAID_F32, rank, dims);
  if (status == BRAID_OK) status = braid_tensor_create(NULL, &desc, &tensor);
  if (status != BRAID_OK) return status;
  float *data = braid_tensor_data(tensor);
  for (int64_t i = 0; i < braid_desc_count(&desc); i++) data[i] = fmaxf(scale * number(), least);
  status = braid_graph_add_tensor(graph, name, BRAID_VALUE_CONSTANT, tensor, out);
  braid_tensor_release(tensor);
  return status;
}

static braid_value_id constant(braid_graph *graph, const char *name, int rank, const int64_t *dims, float scale) {
  braid_value_id id;
  ok(add_constant(graph, name, rank, dims, -scale, scale, &id));
  return id;
}

static braid_value_id node(braid_graph *graph, const char *op, const char *name, const braid_value_id *inputs,
                           size_t count, braid_node_id *id) {
  braid_value_id out = -1;
  ok(braid_graph_add_node(graph, op, name, inputs, count, &out, 1, id));
  return out;
}

static braid_value_id conv(braid_graph *graph, const char *name, braid_value_id x, int64_t filters, int64_t channels) {
  char weights[32], bias[32];
  braid_node_id id;
  snprintf(weights, sizeof weights, "%s.w", name);
  snprintf(bias, sizeof bias, "%s.b", name);
  braid_value_id inputs[3] = {x, constant(graph, weights, 4, (int64_t[]){filters, channels, 3, 3}, 0.3F),
                              constant(graph, bias, 1, &filters, 0.1F)};
  braid_value_id out = node(graph, "Conv", name, inputs, 3, &id);
  ok(braid_graph_set_ints(graph, id, "pads", (int64_t[]){1, 1, 1, 1}, 4));
  return out;
}

static braid_value_id normalization(braid_graph *graph, braid_value_id x, int64_t channels) {
  braid_value_id inputs[5] = {x};
  static const char *const kNames[] = {"", "bn.scale", "bn.shift", "bn.mean", "bn.var"};
  for (int i = 1; i < 5; i++) ok(add_constant(graph, kNames[i], 1, &channels, 0.2F, 1, &inputs[i]));
  return node(graph, "BatchNormalization", "norm", inputs, 5, NULL);
}

/* Conv, BatchNormalization, Relu; Conv, residual Add; MaxPool; Flatten; Gemm; Softmax. */
static braid_graph *make_network(const braid_allocator *allocator) {
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x, classes[3];
  braid_node_id id;
  state_of_numbers = 7;
  ok(braid_graph_create(allocator, "net", &graph));
  ok(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){1, 3, 8, 8}));
  desc.dims[0] = -1;
  ok(braid_graph_add_input(graph, "x", &desc, &x));
  braid_value_id first =
      node(graph, "Relu", "relu", (braid_value_id[]){normalization(graph, conv(graph, "one", x, 5, 3), 5)}, 1, NULL);
  braid_value_id second = conv(graph, "two", first, 5, 5);
  braid_value_id sum = node(graph, "Add", "sum", (braid_value_id[]){second, first}, 2, NULL);
  braid_value_id pooled = node(graph, "MaxPool", "pool", &sum, 1, &id);
  ok(braid_graph_set_ints(graph, id, "kernel_shape", (int64_t[]){2, 2}, 2));
  ok(braid_graph_set_ints(graph, id, "strides", (int64_t[]){2, 2}, 2));
  classes[0] = node(graph, "Flatten", "flat", &pooled, 1, NULL);
  classes[1] = constant(graph, "dense.w", 2, (int64_t[]){80, 4}, 0.2F);
  classes[2] = constant(graph, "dense.b", 1, (int64_t[]){4}, 0.5F);
  braid_value_id scores = node(graph, "Gemm", "dense", classes, 3, &id);
  ok(braid_graph_set_float(graph, id, "alpha", 0.5));
  braid_value_id out = node(graph, "Softmax", "softmax", &scores, 1, NULL);
  ok(braid_graph_rename_value(graph, out, "y"));
  ok(braid_graph_add_output(graph, out));
  return graph;
}

static braid_tensor *make_samples(int64_t count) {
  braid_desc desc;
  braid_tensor *tensor;
  ok(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){count, 3, 8, 8}));
  ok(braid_tensor_create(NULL, &desc, &tensor));
  float *data = braid_tensor_data(tensor);
  for (int64_t i = 0; i < count * kImage; i++) data[i] = number();
  return tensor;
}

typedef struct fixture {
  braid_graph *graph;
  braid_tensor *samples;
  const braid_tensor *list[1];
  braid_quantize_data data;
  braid_quantize_options options;
  braid_quantize_result result;
} fixture;

static void begin(fixture *f) {
  *f = (fixture){.graph = make_network(NULL), .samples = make_samples(kSamples)};
  f->list[0] = f->samples;
  f->data = (braid_quantize_data){.inputs = f->list, .input_count = 1};
  f->options.layers = -1;
}

static void end(fixture *f) {
  braid_quantize_result_deinit(&f->result);
  braid_tensor_release(f->samples);
  braid_graph_destroy(f->graph);
}

static braid_status quantize(fixture *f) {
  braid_quantize_result_deinit(&f->result);
  return braid_quantize(f->graph, &f->data, &f->options, &f->result);
}

static size_t count_ops(const braid_graph *graph, const char *op) {
  size_t count = 0;
  for (size_t i = 0; i < braid_graph_node_count(graph); i++)
    count += strcmp(braid_graph_node(graph, (braid_node_id)i).op, op) == 0;
  return count;
}

static size_t count_tasks(const braid_graph *graph, const char *op) {
  braid_session *session;
  size_t count = 0;
  ok(braid_session_create(graph, NULL, &session));
  for (size_t i = 0; i < braid_session_plan_count(session); i++)
    count += strcmp(braid_session_plan(session, i).op, op) == 0;
  braid_session_destroy(session);
  return count;
}

/* --- what becomes integers -----------------------------------------------------------------------------------------
 */
static void test_forms(void **state) {
  (void)state;
  fixture f;
  begin(&f);
  ok(quantize(&f));
  const braid_graph *graph = f.result.graph;
  assert_int_equal(count_ops(graph, "BatchNormalization"), 0);
  assert_int_equal(f.result.layer_count, 3);
  static const char *const kNames[] = {"one", "two", "dense"};
  for (int i = 0; i < 3; i++) {
    assert_string_equal(f.result.layers[i].name, kNames[i]);
    assert_null(f.result.layers[i].why);
    assert_true(f.result.layers[i].sqnr > 30);
    assert_false(f.result.layers[i].tried);
  }
  /* scales: x, behind the Relu, of the second convolution, of the sum (also of what is pooled and flat), of dense */
  assert_int_equal(f.result.tensor_count, 5);
  assert_int_equal(count_ops(graph, "QuantizeLinear"), 7);
  assert_true(f.result.after.sqnr > 25 && f.result.after.agreement > 0.9 && isnan(f.result.after.accuracy));
  assert_int_equal(f.result.samples, kSamples);
  /* the batch stays open, names of inputs and outputs stay */
  assert_int_equal(braid_graph_value(graph, braid_graph_input(graph, 0)).desc.dims[0], -1);
  assert_string_equal(braid_graph_value(graph, braid_graph_output(graph, 0)).name, "y");
  /* and Braid computes on bytes: both convolutions (one with the residual), pool, dense */
  assert_int_equal(count_tasks(graph, "FusedQLinearConv"), 2);
  assert_int_equal(count_tasks(graph, "FusedQLinearMatMul"), 1);
  assert_int_equal(count_tasks(graph, "QuantizeLinear"), 1);
  assert_int_equal(count_tasks(graph, "DequantizeLinear"), 1);
  assert_int_equal(count_tasks(graph, "Conv"), 0);
  end(&f);
}

static void test_calibrations_and_types(void **state) {
  (void)state;
  for (int c = BRAID_CALIBRATE_MINMAX; c <= BRAID_CALIBRATE_ENTROPY; c++)
    for (int kind = 0; kind < 4; kind++) {
      fixture f;
      begin(&f);
      f.options.calibration = (braid_calibration)c;
      f.options.per_tensor = kind & 1;
      f.options.signed_activations = kind & 2;
      ok(quantize(&f));
      assert_true(f.result.after.sqnr > 15);
      assert_int_equal(count_tasks(f.result.graph, "FusedQLinearConv"), 2);
      for (size_t i = 0; i < f.result.tensor_count; i++) {
        const braid_quantize_tensor *t = &f.result.tensors[i];
        assert_true(t->low <= 0 && t->high >= 0 && t->low >= fmin(t->least, 0) && t->high <= fmax(t->greatest, 0));
        assert_true(fabs((t->high - t->low) / 255 - (double)t->scale) <= 1e-6 * (double)t->scale);
        assert_in_range(t->zero_point + (f.options.signed_activations ? 128 : 0), 0, 255);
      }
      end(&f);
    }
}

static float read_weight(const braid_graph *graph, const char *stem, int64_t i, int64_t channel, float *scale) {
  char name[64];
  snprintf(name, sizeof name, "%s_quantized", stem);
  const braid_tensor *q = braid_graph_value(graph, braid_graph_find_value(graph, name)).tensor;
  snprintf(name, sizeof name, "%s_scale", stem);
  const braid_tensor *s = braid_graph_value(graph, braid_graph_find_value(graph, name)).tensor;
  assert_non_null(q);
  assert_non_null(s);
  *scale = (float)braid_tensor_get_f64(s, braid_desc_count(braid_tensor_desc(s)) == 1 ? 0 : channel);
  return (float)braid_tensor_get_f64(q, i) * *scale;
}

/* Every scale in the file is one number 2^e, every zero point 0, bytes have a sign; a bias has the scale of x times w
 * also where it is so large that the weights' scale must give way. */
static void test_powers_of_two(void **state) {
  (void)state;
  fixture f;
  for (int variant = 0; variant < 8; variant++) {
    begin(&f);
    f.options.power_of_two = true;
    f.options.reduce_range = variant == 6;
    f.options.calibration = (braid_calibration)(variant % 3);
    const braid_tensor *bias = braid_graph_value(f.graph, braid_graph_find_value(f.graph, "two.b")).tensor;
    if (variant == 7) ((float *)braid_tensor_const_data(bias))[1] = 1e7F;
    ok(quantize(&f));
    const braid_graph *graph = f.result.graph;
    size_t seen = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
      const braid_node *n = &graph->nodes[i];
      bool to = strcmp(n->op->name, "QuantizeLinear") == 0;
      if (!to && strcmp(n->op->name, "DequantizeLinear") != 0) continue;
      const braid_tensor *unit = graph->values[n->inputs[1]].tensor, *zero = graph->values[n->inputs[2]].tensor;
      int exponent, type = braid_tensor_desc(zero)->dtype;
      assert_true(frexp(braid_tensor_get_f64(unit, 0), &exponent) == 0.5 && braid_tensor_get_f64(zero, 0) == 0);
      assert_true(braid_tensor_desc(unit)->rank == 0 && (type == BRAID_I8 || (!to && type == BRAID_I32)));
      seen++;
    }
    assert_true(seen >= 12);
    float scale, value = read_weight(graph, "two.b", 1, 0, &scale);
    assert_true(fabs((double)value - braid_tensor_get_f64(bias, 1)) <= 0.5001 * (double)scale);
    assert_int_equal(count_tasks(graph, "FusedQLinearConv"), 2);
    assert_true(f.result.after.sqnr > (variant == 7 ? 5 : 15));
    end(&f);
  }
}

static void test_keeps_nodes(void **state) {
  (void)state;
  fixture f;
  begin(&f);
  f.options.keep = (const char *const[]){"tw?"};
  f.options.keep_count = 1;
  ok(quantize(&f));
  assert_string_equal(f.result.layers[1].why, "it is kept");
  assert_true(isnan(f.result.layers[1].sqnr));
  assert_int_equal(count_tasks(f.result.graph, "FusedQLinearConv"), 1);
  f.options.keep = (const char *const[]){"norm", "*"}; /* a name that was folded into its convolution */
  ok(quantize(&f));
  assert_non_null(f.result.layers[0].why);
  assert_null(f.result.layers[1].why);
  f.options.keep_count = 2;
  expect(quantize(&f), BRAID_UNSUPPORTED, "node one (Conv) stays in float, because it is kept");
  f.options.keep = (const char *const[]){"three"};
  f.options.keep_count = 1;
  expect(quantize(&f), BRAID_NOT_FOUND, "no node's name matches \"three\"");
  end(&f);
}

/* Leaving a layer in float never makes it worse by more than chance, and all of them in float is exact. */
static void test_layers(void **state) {
  (void)state;
  fixture f;
  begin(&f);
  f.options.layers = 2;
  ok(quantize(&f));
  size_t tried = 0;
  double worst = INFINITY, other = -INFINITY;
  for (size_t i = 0; i < 3; i++) {
    const braid_quantize_layer *layer = &f.result.layers[i];
    tried += layer->tried;
    if (layer->tried) {
      other = fmax(other, layer->sqnr);
      assert_true(layer->without.sqnr > f.result.after.sqnr - 1);
    } else {
      worst = layer->sqnr;
    }
  }
  assert_int_equal(tried, 2);
  assert_true(worst >= other); /* the one that was not tried loses least */
  end(&f);
}

/* Every weight is within half a unit; a bias too, also where weights are so small that it would not fit int32. */
static void test_weights(void **state) {
  (void)state;
  fixture f;
  begin(&f);
  braid_value_id w = braid_graph_find_value(f.graph, "two.w");
  float *weights = (float *)braid_tensor_const_data(braid_graph_value(f.graph, w).tensor);
  for (int i = 0; i < 45; i++) weights[i] = 0;         /* filter 0 */
  for (int i = 45; i < 90; i++) weights[i] *= 1e-12F;  /* filter 1 */
  for (int i = 90; i < 135; i++) weights[i] *= 1e-30F; /* filter 2 */
  for (int variant = 0; variant < 3; variant++) {
    bool per_tensor = f.options.per_tensor = variant == 1;
    f.options.reduce_range = variant == 2;
    ok(quantize(&f));
    float scale;
    for (int64_t i = 0; i < 225; i++) {
      float value = read_weight(f.result.graph, "two.w", i, i / 45, &scale);
      assert_true(fabsf(value - weights[i]) <= 0.5001F * scale);
      assert_true(fabsf(value) <= (variant == 2 ? 63.01F : 127.01F) * scale);
    }
    const braid_tensor *bias = braid_graph_value(f.graph, braid_graph_find_value(f.graph, "two.b")).tensor;
    for (int64_t i = 0; i < 5; i++) {
      float value = read_weight(f.result.graph, "two.b", i, i, &scale);
      float exact = (float)braid_tensor_get_f64(bias, i);
      assert_true(fabsf(value - exact) <= fmaxf(0.5001F * scale, 1e-6F * fabsf(exact)));
      if (!per_tensor) assert_true(i > 2 || fabsf(value - exact) < 1e-4F);
    }
    assert_int_equal(count_tasks(f.result.graph, "FusedQLinearConv"), 2); /* scales are what kernels expect */
    assert_true(f.result.after.sqnr > 15);
  }
  end(&f);
}

/* Alpha of the product is in its weights: 0.5 times those of the file. */
static void test_factors(void **state) {
  (void)state;
  fixture f;
  begin(&f);
  ok(quantize(&f));
  const braid_tensor *w = braid_graph_value(f.graph, braid_graph_find_value(f.graph, "dense.w")).tensor;
  for (int64_t i = 0; i < 320; i++) {
    float scale, value = read_weight(f.result.graph, "dense.w", i, i % 4, &scale);
    assert_true(fabs(value - 0.5 * braid_tensor_get_f64(w, i)) <= 0.5001 * (double)scale);
  }
  end(&f);
}

/* What follows the last layer stays in float; a model that was resolved keeps its open batch. */
static void test_resolved_model(void **state) {
  (void)state;
  fixture f;
  begin(&f);
  ok(braid_resolve(f.graph));
  ok(quantize(&f));
  assert_int_equal(count_tasks(f.result.graph, "FusedQLinearConv"), 2);
  assert_int_equal(count_tasks(f.result.graph, "Softmax"), 1);
  assert_int_equal(f.result.layer_count, 3);
  end(&f);
}

/* --- failures ------------------------------------------------------------------------------------------------------
 */
static bool stop(void *context, const char *phase, int64_t done, int64_t total) {
  (void)phase, (void)done, (void)total;
  return --*(int *)context > 0;
}

static void test_refusals(void **state) {
  (void)state;
  fixture f;
  begin(&f);
  float *samples = braid_tensor_data(f.samples);
  samples[5] = NAN;
  expect(quantize(&f), BRAID_NOT_FINITE, "input x is NaN or infinite");
  samples[5] = 3e38F; /* the convolution overflows */
  samples[6] = 3e38F;
  samples[13] = 3e38F;
  braid_value_id w = braid_graph_find_value(f.graph, "one.w");
  float *weights = (float *)braid_tensor_const_data(braid_graph_value(f.graph, w).tensor);
  float before[135];
  memcpy(before, weights, sizeof before);
  for (int i = 0; i < 135; i++) weights[i] = 4;
  expect(quantize(&f), BRAID_NOT_FINITE, "is NaN or infinite near sample");
  samples[5] = samples[6] = samples[13] = 0;
  memcpy(weights, before, sizeof before);
  weights[7] = INFINITY;
  assert_int_equal(quantize(&f), BRAID_NOT_FINITE);
  memcpy(weights, before, sizeof before);
  for (int n = 1; n < 12; n++) {
    int left = n;
    f.options.callback = stop;
    f.options.context = &left;
    braid_status status = quantize(&f);
    if (status == BRAID_OK) break;
    expect(status, BRAID_CANCELLED, "interrupted");
    assert_int_not_equal(n, 11);
  }
  f.options.callback = NULL;
  f.options.percentile = 101;
  expect(quantize(&f), BRAID_INVALID_ARGUMENT, "percentile 101");
  f.options.percentile = 0;
  f.options.samples = -1;
  expect(quantize(&f), BRAID_INVALID_ARGUMENT, "at least 1");
  f.options.samples = 0;
  f.data.input_count = 0;
  expect(quantize(&f), BRAID_INVALID_ARGUMENT, "no samples");
  f.data.input_count = 1;
  ok(quantize(&f));
  braid_graph *twice;
  ok(braid_graph_clone(f.result.graph, &twice));
  braid_graph_destroy(f.graph);
  f.graph = twice;
  expect(quantize(&f), BRAID_INVALID_ARGUMENT, "the model is quantized already");
  end(&f);
}

/* Nothing to quantize, or not all. */
static void test_models_without_layers(void **state) {
  (void)state;
  fixture f;
  begin(&f);
  braid_graph_destroy(f.graph);
  braid_desc desc;
  braid_value_id x, y;
  ok(braid_graph_create(NULL, "none", &f.graph));
  ok(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){1, 3, 8, 8}));
  ok(braid_graph_add_input(f.graph, "x", &desc, &x));
  y = node(f.graph, "Relu", "r", &x, 1, NULL);
  ok(braid_graph_add_output(f.graph, y));
  expect(quantize(&f), BRAID_UNSUPPORTED, "no Conv, Gemm or MatMul");
  braid_value_id wide[2] = {y, constant(f.graph, "wide.w", 4, (int64_t[]){3, 2, 3, 3}, 0.3F)};
  y = node(f.graph, "ConvTranspose", "wider", wide, 2, NULL);
  ok(braid_graph_add_output(f.graph, y));
  expect(quantize(&f), BRAID_UNSUPPORTED,
         "node wider (ConvTranspose) stays in float, because there is no kernel over bytes for it");
  braid_value_id last = conv(f.graph, "last", y, 4, 2);
  ok(braid_graph_add_output(f.graph, last));
  ok(quantize(&f));
  assert_int_equal(f.result.layer_count, 2);
  assert_string_equal(f.result.layers[0].name, "wider");
  assert_string_equal(f.result.layers[0].why, "there is no kernel over bytes for it");
  assert_string_equal(f.result.layers[1].name, "last");
  assert_null(f.result.layers[1].why);
  end(&f);
  begin(&f);
  braid_graph_destroy(f.graph);
  ok(braid_graph_create(NULL, "none", &f.graph));
  ok(braid_graph_add_input(f.graph, "x", &desc, &x));
  y = node(f.graph, "Relu", "r", &x, 1, NULL);
  y = node(f.graph, "MatMul", "square", (braid_value_id[]){y, x}, 2, NULL);
  ok(braid_graph_add_output(f.graph, y));
  expect(quantize(&f), BRAID_UNSUPPORTED, "node square (MatMul) stays in float, because its weights are not constant");
  end(&f);
}

/* Conv; a Reshape to the batch, as exporters compute it, and the rest; MatMul. */
static braid_graph *make_computed_shape(void) {
  braid_graph *graph;
  braid_value_id x, inputs[2], rest, shape, flat;
  braid_node_id id;
  state_of_numbers = 9;
  ok(braid_graph_create(NULL, "computed", &graph));
  ok(braid_graph_add_input(graph, "x", &(braid_desc){.dtype = BRAID_F32, .rank = 4, .dims = {-1, 3, 8, 8}}, &x));
  inputs[0] = node(graph, "Shape", "size", &x, 1, NULL);
  ok(braid_graph_add_int64s(graph, (int64_t[]){0}, 1, &inputs[1]));
  inputs[0] = node(graph, "Gather", "batch", inputs, 2, NULL);
  ok(braid_graph_add_int64s(graph, (int64_t[]){-1}, 1, &rest));
  inputs[1] = rest;
  shape = node(graph, "Concat", "sides", inputs, 2, &id);
  ok(braid_graph_set_int(graph, id, "axis", 0));
  flat = node(graph, "Reshape", "view", (braid_value_id[]){conv(graph, "one", x, 5, 3), shape}, 2, NULL);
  inputs[0] = flat;
  inputs[1] = constant(graph, "dense.w", 2, (int64_t[]){320, 4}, 0.2F);
  ok(braid_graph_add_output(graph, node(graph, "MatMul", "dense", inputs, 2, NULL)));
  return graph;
}

/* Shapes that are computed from an open batch stay open, and the file says so of its output: by what the model declares
 * (also where that is the batch it was exported with), else by what it computes. */
static void test_computed_shapes(void **state) {
  (void)state;
  static const int64_t kDeclared[] = {-1, 1, 0}; /* 0: nothing is declared */
  for (size_t i = 0; i < sizeof kDeclared / sizeof *kDeclared; i++) {
    fixture f;
    begin(&f);
    braid_graph_destroy(f.graph);
    f.graph = make_computed_shape();
    if (kDeclared[i])
      f.graph->values[f.graph->outputs[0]].desc =
          (braid_desc){.dtype = BRAID_F32, .rank = 2, .dims = {kDeclared[i], 4}};
    ok(quantize(&f));
    char path[64];
    snprintf(path, sizeof path, "/tmp/braid-computed-%ld.onnx", (long)getpid());
    braid_graph *again;
    ok(braid_model_save_onnx(f.result.graph, path));
    ok(braid_model_load(NULL, path, NULL, &again));
    unlink(path);
    braid_desc desc = braid_graph_value(again, braid_graph_output(again, 0)).desc;
    assert_true(desc.dtype == BRAID_F32 && desc.rank == 2 && desc.dims[0] == -1 && desc.dims[1] == 4);
    braid_graph_destroy(again);
    end(&f);
  }
}

static void test_samples_that_do_not_fit(void **state) {
  (void)state;
  fixture f;
  begin(&f);
  braid_desc desc;
  braid_tensor *wrong;
  ok(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){4, 3, 8, 9}));
  ok(braid_tensor_create(NULL, &desc, &wrong));
  f.list[0] = wrong;
  f.data.inputs = f.list;
  expect(quantize(&f), BRAID_INVALID_ARGUMENT, "input x is float32[?,3,8,8], the samples are float32[4,3,8,9]");
  braid_tensor_release(wrong);
  ok(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){0, 3, 8, 8}));
  ok(braid_tensor_create(NULL, &desc, &wrong));
  f.list[0] = wrong;
  expect(quantize(&f), BRAID_INVALID_ARGUMENT, "at least one is expected");
  braid_tensor_release(wrong);
  end(&f);
}

/* Constant samples: ranges of nothing, and of one number. */
static void test_constant_samples(void **state) {
  (void)state;
  fixture f;
  for (int c = BRAID_CALIBRATE_MINMAX; c <= BRAID_CALIBRATE_ENTROPY; c++)
    for (int value = -1; value <= 1; value++) {
      begin(&f);
      float *samples = braid_tensor_data(f.samples);
      for (int i = 0; i < kSamples * kImage; i++) samples[i] = (float)value;
      f.options.calibration = (braid_calibration)c;
      ok(quantize(&f));
      assert_true(f.result.after.sqnr > 20);
      end(&f);
    }
}

/* Out of memory at any of many places: NO_MEMORY, and nothing stays. */
static void test_memory(void **state) {
  (void)state;
  fixture f;
  begin(&f);
  f.options.batch = 8;
  f.options.test_samples = 8;
  f.options.layers = 1;
  f.options.calibration = BRAID_CALIBRATE_ENTROPY;
  for (int64_t n = 0;; n += 1 + n / UNLESS_SLOW(40, 10)) {
    oom_allocator oom;
    oom_init(&oom, -1);
    braid_graph *graph = make_network(&oom.allocator);
    oom.fail_at = atomic_load(&oom.requests) + n;
    int64_t live = atomic_load(&oom.live);
    braid_status status = braid_quantize(graph, &f.data, &f.options, &f.result);
    braid_quantize_result_deinit(&f.result);
    bool failed = atomic_load(&oom.failed);
    if (failed && status != BRAID_NO_MEMORY)
      fail_msg("request %lld failing gives \"%s\"", (long long)n, braid_status_text(status));
    if (!failed) ok(status);
    assert_int_equal(atomic_load(&oom.live), live);
    braid_graph_destroy(graph);
    assert_int_equal(atomic_load(&oom.live), 0);
    if (!failed) {
      assert_true(n > 1000);
      break;
    }
  }
  end(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms),
                                     cmocka_unit_test(test_calibrations_and_types),
                                     cmocka_unit_test(test_powers_of_two),
                                     cmocka_unit_test(test_keeps_nodes),
                                     cmocka_unit_test(test_layers),
                                     cmocka_unit_test(test_weights),
                                     cmocka_unit_test(test_factors),
                                     cmocka_unit_test(test_resolved_model),
                                     cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_models_without_layers),
                                     cmocka_unit_test(test_computed_shapes),
                                     cmocka_unit_test(test_samples_that_do_not_fit),
                                     cmocka_unit_test(test_constant_samples),
                                     cmocka_unit_test(test_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
