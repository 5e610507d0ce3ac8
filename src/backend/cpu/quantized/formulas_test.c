/* The ops over bytes that fusion makes: the kernels of this folder against the plain ones, which are the formulas of
 * docs/quantization.md, bit for bit. integers_test.c compares the same ops with graphs in floating point. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/cpu/isa.h"
#include "kernel_fixture.h"
#include "slow.h"

/* --- operands ------------------------------------------------------------------------------------------------------
 */
static braid_dtype byte_of(int bits, int bit) {
  return bits >> bit & 1 ? BRAID_I8 : BRAID_U8;
}

static void leave_out(fixture *f, braid_value_id *ids) {
  ids[f->inputs++] = -1;
}

static void add_number(fixture *f, braid_value_id *ids, braid_dtype dtype) {
  add_typed(f, ids, dtype, 0, NULL);
}

/* Bytes with a scale and a zero point, or (list > 0) as many. */
static void add_bytes(fixture *f, braid_value_id *ids, braid_dtype dtype, int rank, const int64_t *dims, int64_t list,
                      bool zero) {
  add_typed(f, ids, dtype, rank, dims);
  add_typed(f, ids, BRAID_F32, list > 0, &list);
  if (zero)
    add_typed(f, ids, dtype, list > 0, &list);
  else
    leave_out(f, ids);
}

static void add_result(fixture *f, braid_value_id *ids, braid_dtype dtype) {
  add_number(f, ids, BRAID_F32);
  add_number(f, ids, dtype);
}

/* Positive scales within a third of `around`. */
static void set_scale(fixture *f, size_t input, double around) {
  float *scales = f->data[input];
  for (int64_t i = 0; i < braid_desc_count(&f->operands[input].desc); i++)
    scales[i] = (float)(around * (1 + (double)scales[i] / 3));
}

/* Zero points within 16 of the middle of the type's range. */
static void set_zero(fixture *f, size_t input) {
  if (!f->operands[input].present) return;
  uint8_t *zeros = f->data[input], middle = f->operands[input].desc.dtype == BRAID_U8 ? 128 : 0;
  for (int64_t i = 0; i < braid_desc_count(&f->operands[input].desc); i++)
    zeros[i] = (uint8_t)((zeros[i] & 31) - 16 + middle);
}

static void set_operand(fixture *f, size_t at, double around) {
  set_scale(f, at + 1, around);
  set_zero(f, at + 2);
}

static void set_result(fixture *f, size_t at, double around) {
  set_scale(f, at, around);
  set_zero(f, at + 1);
}

/* Half of the nodes are bounded. */
static void bound(fixture *f, int bits) {
  if (bits & 2) return;
  ok(braid_graph_set_string(f->graph, f->node, "activation", bits & 1 ? "Clip" : "Relu"));
  if (bits & 1) ok(braid_graph_set_floats(f->graph, f->node, "activation_params", (const float[]){-0.7f, 1e30f}, 2));
}

/* --- products ------------------------------------------------------------------------------------------------------
 * Numbers such that results lie within what a byte holds. */
static void fill_product(fixture *f, int64_t depth, bool residual) {
  fill(f);
  set_operand(f, 0, 0.02);
  set_operand(f, 3, 0.02);
  double sums = 0.02 * 0.02 * (sqrt((double)depth) * 6400 + (double)depth * 64) / 40;
  set_result(f, 6, residual ? 2 * sums : sums);
  if (residual) set_operand(f, 9, sums);
  if (residual) set_result(f, 12, sums);
  for (int64_t i = 0; f->operands[8].present && i < braid_desc_count(&f->operands[8].desc); i++)
    ((int32_t *)f->data[8])[i] %= 5000;
}

static const struct {
  int64_t channels, filters, height, width, kernel, stride, dilation, groups, pad;
} kConvs[] = {
    {3, 20, 17, 13, 3, 1, 1, 1, 1},   {64, 24, 9, 9, 1, 1, 1, 1, 0},     {65, 70, 5, 4, 1, 2, 1, 1, 0},
    {32, 32, 11, 10, 3, 2, 1, 32, 1}, {21, 21, 9, 9, 5, 1, 1, 21, 2},    {32, 64, 10, 12, 3, 1, 2, 4, 2},
    {6, 10, 8, 9, 3, 2, 1, 2, 1},     {32, 32, 9, 67, 3, 1, 1, 32, 1},   {32, 32, 6, 1, 3, 1, 1, 32, 2},
    {70, 70, 5, 131, 3, 1, 1, 70, 1}, {144, 144, 6, 9, 3, 2, 1, 144, 1}, {33, 33, 5, 66, 3, 1, 1, 33, 0},
};
enum { kConvCount = sizeof kConvs / sizeof *kConvs };

static void check_conv(int which, int bits) {
  int64_t groups = kConvs[which].groups, each = kConvs[which].channels / groups, filters = kConvs[which].filters;
  int64_t kernel = kConvs[which].kernel, stride = kConvs[which].stride, pad = kConvs[which].pad;
  int64_t x[4] = {2, kConvs[which].channels, kConvs[which].height, kConvs[which].width};
  int64_t w[4] = {filters, each, kernel, kernel}, y[4] = {2, filters, 0, 0}, dilation = kConvs[which].dilation;
  for (int i = 2; i < 4; i++) y[i] = (x[i] + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1;
  bool residual = bits & 4;
  fixture f = begin();
  braid_value_id ids[kMaxOperands];
  add_bytes(&f, ids, byte_of(bits, 0), 4, x, 0, bits & 8);
  add_bytes(&f, ids, byte_of(bits, 1), 4, w, bits & 8 ? filters : 0, byte_of(bits, 1) == BRAID_U8 || bits & 1);
  add_result(&f, ids, byte_of(bits, 3));
  if (bits & 1)
    leave_out(&f, ids);
  else
    add_typed(&f, ids, BRAID_I32, 1, &filters);
  if (residual) add_bytes(&f, ids, byte_of(bits, 3), 4, y, 0, true);
  if (residual) add_result(&f, ids, byte_of(bits, 1));
  finish(&f, "FusedQLinearConv", ids, 1);
  set(&f, "pads", 4, (int64_t[]){pad, pad, pad, pad});
  set(&f, "strides", 2, (int64_t[]){stride, stride});
  set(&f, "dilations", 2, (int64_t[]){dilation, dilation});
  ok(braid_graph_set_int(f.graph, f.node, "group", groups));
  bound(&f, bits >> 1);
  fill_product(&f, each * kernel * kernel, residual);
  check_filled(&f, 1);
}

static void check_matmul(int bits) {
  int64_t a[3] = {2, 23, 45}, columns = 71, list = bits & 4 ? columns : 0;
  bool transposed = bits & 1;
  fixture f = begin();
  braid_value_id ids[kMaxOperands];
  add_bytes(&f, ids, byte_of(bits, 0), 3, a, 0, true);
  add_bytes(&f, ids, byte_of(bits, 1), 2, transposed ? (int64_t[]){columns, 45} : (int64_t[]){45, columns}, list, true);
  add_result(&f, ids, byte_of(bits, 2));
  if (bits & 8) add_typed(&f, ids, BRAID_I32, 1, &columns);
  finish(&f, "FusedQLinearMatMul", ids, 1);
  ok(braid_graph_set_int(f.graph, f.node, "transB", transposed));
  bound(&f, bits);
  fill_product(&f, a[2], false);
  check_filled(&f, 1);
}

static void test_products(void **state) {
  (void)state;
  byte_mask = 255;
  braid_isa best = braid_isa_current();
  for (braid_isa isa = BRAID_ISA_BASE; isa <= best; isa++) {
    assert_true(braid_isa_limit(isa));
    for (int bits = 0; bits < 16; bits += UNLESS_SLOW(1, 5))
      for (int i = 0; i < kConvCount; i++) check_conv(i, bits);
    for (int bits = 0; bits < 16; bits++) check_matmul(bits);
  }
}

/* --- element by element --------------------------------------------------------------------------------------------
 */
static void check_pair(int bits) {
  int64_t dims[3] = {3, 37, 41};
  bool adds = bits & 16;
  fixture f = begin();
  braid_value_id ids[kMaxOperands];
  add_bytes(&f, ids, byte_of(bits, 0), 3, dims, 0, true);
  add_bytes(&f, ids, byte_of(bits, 1), bits & 4 ? 3 : 0, dims, 0, bits & 2);
  add_result(&f, ids, byte_of(bits, 3));
  finish(&f, adds ? "QLinearAdd" : "QLinearMul", ids, 1);
  bound(&f, bits >> 1);
  fill(&f);
  set_operand(&f, 0, 0.02);
  set_operand(&f, 3, adds ? 0.02 : 2);
  set_result(&f, 6, adds ? 0.06 : 6);
  check_filled(&f, 1);
}

static void check_activation(int bits) {
  static const char *const kNames[] = {NULL,        "Relu", "HardSwish", "Sigmoid",
                                       "LeakyRelu", "Tanh", "Clip",      "HardSigmoid"};
  const char *name = kNames[bits / 4];
  int64_t dims[2] = {33, 31};
  fixture f = begin();
  braid_value_id ids[kMaxOperands];
  add_bytes(&f, ids, byte_of(bits, 0), 2, dims, 0, bits & 1);
  add_result(&f, ids, byte_of(bits, 1));
  finish(&f, "QLinearActivation", ids, 1);
  if (name) ok(braid_graph_set_string(f.graph, f.node, "activation", name));
  fill(&f);
  set_operand(&f, 0, 0.02);
  set_result(&f, 3, 0.05);
  check_filled(&f, 1);
}

static void check_concat(int bits) {
  int64_t dims[4] = {2, 5, 7, 6}, axis = bits & 4 ? 1 : bits & 2 ? 0 : -1;
  fixture f = begin();
  braid_value_id ids[kMaxOperands];
  add_result(&f, ids, byte_of(bits, 0));
  for (int part = 0; part < 3; part++, dims[axis < 0 ? 3 : axis] += 3)
    add_bytes(&f, ids, byte_of(bits, part), 4, dims, 0, part != 1);
  finish(&f, "QLinearConcat", ids, 1);
  ok(braid_graph_set_int(f.graph, f.node, "axis", axis));
  fill(&f);
  set_result(&f, 0, 0.06);
  for (size_t part = 0; part < 3; part++) set_operand(&f, 2 + 3 * part, 0.03);
  check_filled(&f, 1);
}

static void test_elements(void **state) {
  (void)state;
  byte_mask = 255;
  for (int bits = 0; bits < 32; bits++) check_pair(bits);
  for (int bits = 0; bits < 32; bits++) check_activation(bits);
  for (int bits = 0; bits < 8; bits++) check_concat(bits);
}

/* --- averages ------------------------------------------------------------------------------------------------------
 */
static void test_averages(void **state) {
  (void)state;
  byte_mask = 255;
  for (int bits = 0; bits < 32; bits++) {
    bool global = bits & 16, whole = bits & 8;
    int64_t x[4] = {2, 21, 8, 9};
    fixture f = begin();
    braid_value_id ids[kMaxOperands];
    add_bytes(&f, ids, byte_of(bits, 0), 4, x, 0, bits & 2);
    add_result(&f, ids, byte_of(bits, 2));
    finish(&f, global ? "QLinearGlobalAveragePool" : "QLinearAveragePool", ids, 1);
    if (!global) {
      set(&f, "kernel_shape", 2, (int64_t[]){3, 2});
      set(&f, "strides", 2, (int64_t[]){2, bits & 1 ? 3 : 1});
      set(&f, "pads", 4, (int64_t[]){1, 0, 1, 1});
      ok(braid_graph_set_int(f.graph, f.node, "count_include_pad", whole));
      ok(braid_graph_set_int(f.graph, f.node, "ceil_mode", bits & 4 ? 1 : 0));
    }
    fill(&f);
    set_operand(&f, 0, 0.02);
    set_result(&f, 3, 0.03);
    check_filled(&f, 1);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_products), cmocka_unit_test(test_elements),
                                     cmocka_unit_test(test_averages)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
