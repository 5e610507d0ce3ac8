/* Ops between DequantizeLinear and QuantizeLinear as ops over bytes: random ones against the same graph without fusion,
 * which computes them in floating point. Results agree but for sums that lie so near to a half that floating point
 * rounds them to the other side: one unit, rarely. With every instruction set, and bit for bit the same with other
 * numbers of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/cpu/isa.h"
#include "base/philox.h"
#include "braid/graph.h"
#include "braid/session.h"
#include "graph/onnx_dtype.h"

enum { kMostBytes = 1 << 17, kCases = 36 };

static uint64_t draws;

static int64_t draw(int64_t below) {
  return (int64_t)braid_random_below(23, 0, 0, draws++, (uint32_t)below);
}

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

/* --- graphs --------------------------------------------------------------------------------------------------------
 */
static braid_graph *graph;
static const void *inputs[4];
static size_t input_count;

static braid_value_id add_constant(braid_dtype dtype, int rank, const int64_t *dims, double low, double high) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id id;
  ok(braid_desc_init(&desc, dtype, rank, dims));
  ok(braid_tensor_create(NULL, &desc, &tensor));
  for (int64_t i = 0; i < braid_desc_count(&desc); i++) {
    double value = low + (high - low) * (double)draw(1 << 20) / (1 << 20);
    if (dtype == BRAID_F32)
      ((float *)braid_tensor_data(tensor))[i] = (float)value;
    else if (dtype == BRAID_I32)
      ((int32_t *)braid_tensor_data(tensor))[i] = (int32_t)value;
    else
      ((uint8_t *)braid_tensor_data(tensor))[i] = (uint8_t)(int32_t)(value < 0 ? value - 0.5 : value + 0.5);
  }
  ok(braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, tensor, &id));
  braid_tensor_release(tensor);
  return id;
}

static braid_value_id add_scale(double around) {
  return add_constant(BRAID_F32, 0, NULL, around / 2, around * 2);
}

static braid_value_id add_zero(braid_dtype dtype) {
  return dtype == BRAID_I8 ? add_constant(dtype, 0, NULL, -20, 20) : add_constant(dtype, 0, NULL, 100, 150);
}

static braid_value_id add_op(const char *op, const braid_value_id *ids, size_t count, braid_node_id *node) {
  braid_value_id out;
  braid_node_id id;
  ok(braid_graph_add_node(graph, op, NULL, ids, count, &out, 1, &id));
  if (node) *node = id;
  return out;
}

/* Bytes that are an input, dequantized. */
static braid_value_id add_operand(braid_dtype dtype, int rank, const int64_t *dims, braid_value_id *quantized) {
  static uint8_t data[4][kMostBytes];
  braid_desc desc;
  ok(braid_desc_init(&desc, dtype, rank, dims));
  assert_true(braid_desc_bytes(&desc) <= kMostBytes);
  for (size_t i = 0; i < braid_desc_bytes(&desc); i++) data[input_count][i] = (uint8_t)draw(256);
  braid_value_id ids[3] = {-1, add_scale(0.02), add_zero(dtype)};
  ok(braid_graph_add_input(graph, NULL, &desc, &ids[0]));
  inputs[input_count] = data[input_count];
  input_count++;
  if (quantized) memcpy(quantized, ids, sizeof ids);
  return add_op("DequantizeLinear", ids, 3, NULL);
}

static bool results_without_zero, signed_without_zero;

/* NONE: without a zero point, to uint8, or int8 by an attribute. Some have another that says nothing of one scale. */
static braid_value_id add_quantize(braid_value_id value, braid_dtype dtype, double scale) {
  braid_value_id ids[3] = {value, add_scale(scale), dtype == BRAID_NONE ? -1 : add_zero(dtype)};
  braid_node_id node;
  braid_value_id y = add_op("QuantizeLinear", ids, dtype == BRAID_NONE ? 2 : 3, &node);
  if (draws % 2) ok(braid_graph_set_int(graph, node, "axis", 1));
  if (dtype == BRAID_NONE && signed_without_zero)
    ok(braid_graph_set_int(graph, node, "output_dtype", braid_dtype_to_onnx(BRAID_I8)));
  return y;
}

static braid_dtype draw_type(void) {
  return draw(2) ? BRAID_I8 : BRAID_U8;
}

static braid_dtype draw_result(void) {
  braid_dtype type = draw_type();
  return results_without_zero ? BRAID_NONE : type;
}

/* A convolution of dequantized weights and a bias in int32, perhaps with a bound behind it. */
static braid_value_id add_conv(braid_value_id x, braid_value_id x_scale, int64_t groups, int64_t inputs_each,
                               int64_t filters, int64_t kernel, int64_t stride) {
  int64_t dims[4] = {filters, inputs_each, kernel, kernel}, pads[4] = {kernel / 2, kernel / 2, kernel / 2, kernel / 2};
  braid_dtype type = draw_type();
  bool list = draw(2), zeros = draw(3) == 0;
  double zero = type == BRAID_U8 ? 128 : 0;
  braid_value_id w[3] = {add_constant(type, 4, dims, zero - 128, zero + 127),
                         add_constant(BRAID_F32, list, &filters, 0.002, 0.02),
                         add_constant(type, list, &filters, zero - (zeros ? 10 : 0), zero + (zeros ? 10 : 0))};
  braid_value_id bias[2] = {add_constant(BRAID_I32, 1, &filters, -3000, 3000)}, scales[2] = {x_scale, w[1]};
  braid_node_id node;
  braid_value_id weights = add_op("DequantizeLinear", w, 3, &node);
  ok(braid_graph_set_int(graph, node, "axis", 0));
  bias[1] = add_op("Mul", scales, 2, NULL);
  braid_value_id real = add_op("DequantizeLinear", bias, 2, &node);
  ok(braid_graph_set_int(graph, node, "axis", 0));
  braid_value_id y = add_op("Conv", (braid_value_id[]){x, weights, real}, draw(4) ? 3 : 2, &node);
  ok(braid_graph_set_ints(graph, node, "pads", pads, 4));
  ok(braid_graph_set_ints(graph, node, "strides", (int64_t[]){stride, stride}, 2));
  ok(braid_graph_set_int(graph, node, "group", groups));
  return y;
}

static braid_value_id draw_conv(void) {
  static const int64_t kKernels[] = {1, 3, 5};
  int64_t kind = draw(4), each = 1 + draw(40), groups = kind == 0 ? 1 + draw(150) : kind == 1 ? 1 + draw(3) : 1;
  int64_t filters = groups * (kind == 0 ? 1 : 1 + draw(70)), kernel = kKernels[draw(3)];
  if (kind == 0) each = 1;
  braid_value_id quantized[3];
  int64_t dims[4] = {1 + draw(2), groups * each, kernel + draw(9), kernel + draw(9)};
  braid_value_id x = add_operand(draw_type(), 4, dims, quantized);
  braid_value_id y = add_conv(x, quantized[1], groups, each, filters, kernel, 1 + draw(2));
  if (draw(2)) y = add_op("Relu", &y, 1, NULL);
  return add_quantize(y, draw_result(), 0.05);
}

/* Add(conv, x) with what lies between quantized, and a bound. */
static braid_value_id draw_residual(void) {
  int64_t channels = 1 + draw(100), dims[4] = {1, channels, 5, 6};
  braid_value_id quantized[3];
  braid_value_id x = add_operand(draw_type(), 4, dims, quantized);
  braid_value_id y = add_quantize(add_conv(x, quantized[1], 1, channels, channels, 1, 1), draw_type(), 0.05);
  braid_graph *g = graph;
  braid_value_info info = braid_graph_value(g, y);
  braid_node_info node = braid_graph_node(g, info.producer);
  braid_value_id ids[3] = {y, node.inputs[1], node.inputs[2]};
  braid_value_id sum[2] = {add_op("DequantizeLinear", ids, 3, NULL), x};
  y = add_op("Add", sum, 2, NULL);
  if (draw(2)) y = add_op("Relu", &y, 1, NULL);
  return add_quantize(y, draw_result(), 0.05);
}

static braid_value_id draw_product(void) {
  int64_t rows = 1 + draw(30), inner = 1 + draw(200), columns = draw(6) ? 1 + draw(150) : 1, dims[2] = {rows, inner};
  bool transposed = draw(2);
  braid_value_id a[3],
      b[3] = {
          add_constant(BRAID_I8, 2, transposed ? (int64_t[]){columns, inner} : (int64_t[]){inner, columns}, -128, 127),
          add_constant(BRAID_F32, 1, &columns, 0.002, 0.02), add_constant(BRAID_I8, 1, &columns, 0, 0)};
  braid_value_id x = add_operand(draw_type(), 2, dims, a);
  braid_node_id node;
  braid_value_id weights = add_op("DequantizeLinear", b, 3, &node);
  ok(braid_graph_set_int(graph, node, "axis", transposed ? 0 : 1));
  if (!transposed && draw(2))
    return add_quantize(add_op("MatMul", (braid_value_id[]){x, weights}, 2, NULL), BRAID_I8, 0.05);
  /* one column's bias may be a single number, without a dimension */
  braid_value_id bias[2] = {add_constant(BRAID_I32, columns > 1 || draw(2), &columns, -3000, 3000)};
  bias[1] = add_op("Mul", (braid_value_id[]){a[1], b[1]}, 2, NULL);
  braid_value_id real = add_op("DequantizeLinear", bias, 2, &node);
  if (columns > 1) ok(braid_graph_set_int(graph, node, "axis", 0));
  braid_value_id y = add_op("Gemm", (braid_value_id[]){x, weights, real}, draw(3) ? 3 : 2, &node);
  ok(braid_graph_set_int(graph, node, "transB", transposed));
  return add_quantize(y, draw_result(), 0.05);
}

static braid_value_id draw_pair(void) {
  int64_t dims[4] = {2, 1 + draw(30), 1 + draw(20), 1 + draw(20)};
  braid_value_id both[2] = {add_operand(draw_type(), 4, dims, NULL), -1};
  both[1] = add_operand(draw_type(), draw(3) ? 4 : 0, dims, NULL);
  braid_value_id y = add_op(draw(2) ? "Add" : "Mul", both, 2, NULL);
  return add_quantize(y, draw_result(), 0.03);
}

static braid_value_id draw_single(void) {
  static const char *const kOps[] = {"Sigmoid", "HardSwish", "Tanh", "LeakyRelu", "GlobalAveragePool", "Relu", NULL};
  int64_t dims[4] = {2, 1 + draw(70), 1 + draw(20), 1 + draw(20)};
  braid_value_id x = add_operand(draw_type(), 4, dims, NULL);
  const char *op = kOps[draw(7)];
  return add_quantize(op ? add_op(op, &x, 1, NULL) : x, draw_result(), 0.02);
}

static braid_value_id draw_pool(void) {
  int64_t dims[4] = {2, 1 + draw(70), 3 + draw(20), 3 + draw(20)};
  braid_value_id quantized[3], x = add_operand(draw_type(), 4, dims, quantized);
  bool largest = draw(2);
  braid_node_id node;
  braid_value_id y = add_op(largest ? "MaxPool" : "AveragePool", &x, 1, &node);
  ok(braid_graph_set_ints(graph, node, "kernel_shape", (int64_t[]){3, 2}, 2));
  ok(braid_graph_set_ints(graph, node, "strides", (int64_t[]){1 + draw(2), 1 + draw(2)}, 2));
  ok(braid_graph_set_ints(graph, node, "pads", (int64_t[]){1, 0, 1, 1}, 4));
  if (!largest) ok(braid_graph_set_int(graph, node, "count_include_pad", draw(2)));
  if (!largest) return add_quantize(y, draw_result(), 0.02);
  quantized[0] = y;
  return add_op("QuantizeLinear", quantized, 3, NULL);
}

static braid_value_id draw_concat(void) {
  int64_t dims[4] = {2, 1 + draw(30), 1 + draw(9), 1 + draw(9)};
  braid_value_id parts[3];
  for (int i = 0; i < 3; i++, dims[1] += 3) parts[i] = add_operand(draw_type(), 4, dims, NULL);
  braid_node_id node;
  braid_value_id y = add_op("Concat", parts, 3, &node);
  ok(braid_graph_set_int(graph, node, "axis", 1));
  return add_quantize(y, draw_result(), 0.02);
}

static const struct {
  const char *name;
  braid_value_id (*draw)(void);
} kKinds[] = {{"convolution", draw_conv}, {"residual", draw_residual}, {"product", draw_product}, {"pair", draw_pair},
              {"single", draw_single},    {"pool", draw_pool},         {"concat", draw_concat}};
enum { kKindCount = sizeof kKinds / sizeof *kKinds };

/* --- runs ----------------------------------------------------------------------------------------------------------
 */
static bool is_left(const char *op) {
  return strcmp(op, "DequantizeLinear") == 0 || strcmp(op, "QuantizeLinear") == 0;
}

/* The result's bytes; false: nodes that quantize are left. */
static bool run_graph(bool no_fusion, int threads, uint8_t *result, int64_t *count, bool *is_signed) {
  braid_session *session;
  braid_session_options options = {.no_fusion = no_fusion, .threads = threads};
  ok(braid_session_create(graph, &options, &session));
  const braid_desc *desc = braid_session_output(session, 0);
  *count = braid_desc_count(desc);
  *is_signed = desc->dtype == BRAID_I8;
  assert_true(*count <= kMostBytes);
  void *outputs[] = {result};
  ok(braid_session_run(session, inputs, outputs));
  bool whole = true;
  for (size_t i = 0; i < braid_session_plan_count(session); i++) whole &= !is_left(braid_session_plan(session, i).op);
  braid_session_destroy(session);
  return whole;
}

/* `whole`: all of it is ops over bytes. */
static void check_graph(const char *name, bool whole) {
  static uint8_t expected[kMostBytes], got[kMostBytes], again[kMostBytes];
  int64_t count, off = 0;
  bool is_signed;
  (void)run_graph(true, 1, expected, &count, &is_signed);
  if (!run_graph(false, 1, got, &count, &is_signed) && whole) fail_msg("%s: a node that quantizes is left", name);
  for (int64_t i = 0; i < count; i++) {
    int difference = is_signed ? (int8_t)got[i] - (int8_t)expected[i] : got[i] - expected[i];
    if (abs(difference) > 1) fail_msg("%s: element %lld is off by %d", name, (long long)i, difference);
    off += difference != 0;
  }
  if (off > 3 + count / 50) fail_msg("%s: %lld of %lld are off by one", name, (long long)off, (long long)count);
  (void)run_graph(false, 3, again, &count, &is_signed);
  assert_memory_equal(got, again, (size_t)count);
}

static void ops_over_bytes_are_right(void **state) {
  (void)state;
  braid_isa best = braid_isa_current();
  for (braid_isa isa = BRAID_ISA_BASE; isa <= best; isa++) {
    assert_true(braid_isa_limit(isa));
    for (size_t k = 0; k < kKindCount; k++)
      for (int i = 0; i < (k ? kCases / 6 : kCases); i++) {
        input_count = 0;
        ok(braid_graph_create(NULL, "bytes", &graph));
        ok(braid_graph_add_output(graph, kKinds[k].draw()));
        check_graph(kKinds[k].name, true);
        braid_graph_destroy(graph);
      }
  }
}

/* Ops over bytes have the type of their zero point: without one they are not what gives int8. */
static void types_without_zero_points_are_kept(void **state) {
  (void)state;
  results_without_zero = signed_without_zero = true;
  for (size_t i = 0; i < 4 * kKindCount; i++) {
    input_count = 0;
    ok(braid_graph_create(NULL, "signed", &graph));
    ok(braid_graph_add_output(graph, kKinds[i / 4].draw()));
    check_graph(kKinds[i / 4].name, false);
    braid_graph_destroy(graph);
  }
  results_without_zero = signed_without_zero = false;
}

/* --- saved plans ---------------------------------------------------------------------------------------------------
 */
static void run_with_plan(const char *save, const char *load, uint8_t *result, size_t *bytes) {
  braid_session *session;
  braid_session_options options = {.save_plan = save, .load_plan = load, .threads = 1};
  ok(braid_session_create(graph, &options, &session));
  *bytes = braid_desc_bytes(braid_session_output(session, 0));
  assert_true(*bytes <= kMostBytes);
  ok(braid_session_run(session, inputs, (void *[]){result}));
  braid_session_destroy(session);
}

/* What the fusion makes can be read back, and computes the same, also where results have no zero points. */
static void saved_plans_serve(void **state) {
  (void)state;
  static uint8_t saved[kMostBytes], loaded[kMostBytes];
  char path[] = "/tmp/braid_integers_XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  for (int without = 0; without < 2; without++) {
    results_without_zero = without;
    for (size_t i = 0; i < 2 * kKindCount; i++) {
      size_t counts[2];
      input_count = 0;
      ok(braid_graph_create(NULL, "saved", &graph));
      ok(braid_graph_add_output(graph, kKinds[i / 2].draw()));
      run_with_plan(path, NULL, saved, &counts[0]);
      run_with_plan(NULL, path, loaded, &counts[1]);
      assert_int_equal(counts[0], counts[1]);
      assert_memory_equal(saved, loaded, counts[0]);
      braid_graph_destroy(graph);
    }
  }
  results_without_zero = false;
  unlink(path);
}

/* Sums that could leave int32 stay in floating point: a product whose matrix has `inner` rows. */
static bool is_fused(int64_t inner) {
  static uint8_t result[kMostBytes];
  int64_t count, weights[2] = {inner, 2};
  bool is_signed;
  input_count = 0;
  ok(braid_graph_create(NULL, "long", &graph));
  braid_value_id x = add_operand(BRAID_U8, 2, (int64_t[]){1, inner}, NULL);
  braid_value_id w[3] = {add_constant(BRAID_I8, 2, weights, -128, 127), add_scale(0.01), add_zero(BRAID_I8)};
  braid_value_id both[2] = {x, add_op("DequantizeLinear", w, 3, NULL)};
  ok(braid_graph_add_output(graph, add_quantize(add_op("MatMul", both, 2, NULL), BRAID_I8, 5)));
  bool whole = run_graph(false, 1, result, &count, &is_signed);
  braid_graph_destroy(graph);
  return whole;
}

static void long_sums_stay_in_floating_point(void **state) {
  (void)state;
  assert_true(is_fused(1 << 15));
  assert_false(is_fused((1 << 15) + 1));
  assert_false(is_fused(70000));
}

/* Ops of a file with 40,000 products of 255 and -255 in each sum, which leaves int32: by constant weights, or not. */
static int32_t long_sum(const char *op, bool constant) {
  enum { kInner = 40000 };
  static uint8_t x[kInner], w[kInner];
  bool convolves = strstr(op, "Conv"), scaled = strstr(op, "QLinear");
  const int64_t x_dims[] = {1, kInner / 4, 2, 2}, product_dims[2][2] = {{1, kInner}, {kInner, 1}};
  braid_desc x_desc, w_desc;
  braid_value_id a, b, y;
  braid_node_id node;
  ok(braid_desc_init(&x_desc, BRAID_U8, convolves ? 4 : 2, convolves ? x_dims : product_dims[0]));
  ok(braid_desc_init(&w_desc, BRAID_I8, convolves ? 4 : 2, convolves ? x_dims : product_dims[1]));
  memset(x, 255, sizeof x);
  memset(w, 0x80, sizeof w);
  ok(braid_graph_create(NULL, "long", &graph));
  ok(braid_graph_add_input(graph, "x", &x_desc, &a));
  if (constant)
    b = add_constant(BRAID_I8, w_desc.rank, w_desc.dims, -128, -128);
  else
    ok(braid_graph_add_input(graph, "w", &w_desc, &b));
  braid_value_id x_zero = add_constant(BRAID_U8, 0, NULL, 0, 0), w_zero = add_constant(BRAID_I8, 0, NULL, 127, 127);
  braid_value_id one = add_constant(BRAID_F32, 0, NULL, 1, 1),
                 step = add_constant(BRAID_F32, 0, NULL, 26010000, 26010000);
  braid_value_id y_zero = add_constant(BRAID_I8, 0, NULL, 7, 7);
  braid_value_id plain[] = {a, b, x_zero, w_zero}, whole[] = {a, one, x_zero, b, one, w_zero, step, y_zero};
  ok(braid_graph_add_node(graph, op, NULL, scaled ? whole : plain, scaled ? 8 : 4, &y, 1, &node));
  ok(braid_graph_add_output(graph, y));
  braid_session *session;
  int32_t sum;
  int8_t byte;
  ok(braid_session_create(graph, NULL, &session));
  ok(braid_session_run(session, (const void *[]){x, w}, (void *[]){scaled ? (void *)&byte : &sum}));
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  return scaled ? byte : sum;
}

static void long_sums_of_files_are_exact(void **state) {
  (void)state;
  const int64_t sum = -(int64_t)40000 * 255 * 255;
  for (int constant = 0; constant < 2; constant++) {
    assert_int_equal(long_sum("MatMulInteger", constant), (int32_t)(uint32_t)sum);
    assert_int_equal(long_sum("ConvInteger", constant), (int32_t)(uint32_t)sum);
    assert_int_equal(long_sum("QLinearMatMul", constant), sum / 26010000 + 7);
    assert_int_equal(long_sum("QLinearConv", constant), sum / 26010000 + 7);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ops_over_bytes_are_right), cmocka_unit_test(types_without_zero_points_are_kept),
      cmocka_unit_test(saved_plans_serve), cmocka_unit_test(long_sums_stay_in_floating_point),
      cmocka_unit_test(long_sums_of_files_are_exact)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
