/* The fast kernels of training in integers against the plain ones, which are the contract in C: the same bits for
 * random shapes and attributes, with every instruction set and several numbers of threads, at the ends of the range,
 * and where sums need 64 bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <omp.h>

#include "backend/cpu/isa.h"
#include "kernel_fixture.h"
#include "slow.h"

enum { kCases = UNLESS_SLOW(60, 20), kMostThreads = 3, kMost = 127 };

static uint64_t draws;

static int64_t draw(int64_t low, int64_t high) {
  return low + (int64_t)braid_random_below(29, 0, 0, draws++, (uint32_t)(high - low + 1));
}

/* Signed bytes over the whole range (ends 0), or its ends only: of one sign (1), of both (2). */
static void fill_bytes(fixture *f, int ends) {
  fill(f);
  for (size_t i = 0; i < f->inputs; i++) {
    if (f->operands[i].desc.dtype != BRAID_I8) continue;
    int8_t *data = f->data[i];
    for (int64_t k = 0; k < braid_desc_count(&f->operands[i].desc); k++)
      data[k] = (int8_t)(ends == 0 ? draw(-kMost, kMost) : ends == 1 ? kMost : kMost * (draw(0, 1) ? 1 : -1));
  }
}

/* Every third case with another number of threads, and each with another instruction set. */
static void set_machine(int number, braid_isa best) {
  omp_set_num_threads(1 + number % kMostThreads);
  assert_true(braid_isa_limit((braid_isa)((int)best - number / kMostThreads % ((int)best + 1))));
}

/* --- convolutions --------------------------------------------------------------------------------------------------
 */
typedef struct shape {
  int64_t batch, groups, channels, filters; /* of a group */
  int64_t image[2], kernel[2], stride[2], dilation[2], pads[4], result[2];
} shape;

static shape draw_shape(void) {
  shape s;
  do {
    s = (shape){
        .batch = draw(1, 4), .groups = draw(0, 3) ? 1 : draw(2, 4), .channels = draw(1, 40), .filters = draw(1, 70)};
    for (int d = 0; d < 2; d++) {
      s.image[d] = draw(1, 14), s.kernel[d] = draw(1, 4), s.stride[d] = draw(1, 3), s.dilation[d] = draw(1, 2);
      s.pads[d] = draw(0, 2), s.pads[d + 2] = draw(0, 2);
      s.result[d] = s.image[d] + s.pads[d] + s.pads[d + 2] - (s.kernel[d] - 1) * s.dilation[d] - 1;
      s.result[d] = s.result[d] < 0 ? 0 : s.result[d] / s.stride[d] + 1;
    }
  } while (s.result[0] < 1 || s.result[1] < 1);
  return s;
}

static void set_window(fixture *f, const shape *s) {
  set(f, "pads", 4, s->pads);
  set(f, "strides", 2, s->stride);
  set(f, "dilations", 2, s->dilation);
  ok(braid_graph_set_int(f->graph, f->node, "group", s->groups));
}

typedef enum direction { FORWARD, TO_INPUT, TO_FILTER } direction;
static const char *const kOps[] = {"IntegerConv", "IntegerConvGradInput", "IntegerConvGradFilter"};

static void set_rounding(fixture *f, int64_t bits, int64_t shift) {
  ok(braid_graph_set_int(f->graph, f->node, "bits", bits));
  ok(braid_graph_set_int(f->graph, f->node, "shift", shift));
  ok(braid_graph_set_int(f->graph, f->node, "relu", draw(0, 1)));
}

static void check_convolution(const shape *s, direction way, int rank, int ends, int64_t bits, int64_t shift) {
  int64_t x[4] = {s->batch, s->groups * s->channels, s->image[0], s->image[1]};
  int64_t w[4] = {s->groups * s->filters, s->channels, s->kernel[0], s->kernel[1]};
  int64_t y[4] = {s->batch, s->groups * s->filters, s->result[0], s->result[1]};
  fixture f = begin();
  braid_value_id ids[2];
  add_typed(&f, ids, BRAID_I8, rank, way == TO_INPUT ? y : x);
  add_typed(&f, ids, BRAID_I8, rank, way == TO_FILTER ? y : w);
  finish(&f, kOps[way], ids, way == FORWARD ? 1 : 2);
  if (rank == 4) set_window(&f, s);
  if (rank == 4 && way != FORWARD)
    set(&f, way == TO_INPUT ? "input_shape" : "kernel_shape", 2, (way == TO_INPUT ? x : w) + 2);
  if (way == FORWARD) set_rounding(&f, bits, shift);
  fill_bytes(&f, ends);
  check_filled(&f, 1);
}

static void convolutions_agree(void **state) {
  (void)state;
  braid_isa best = braid_isa_current();
  for (int i = 0; i < kCases; i++) {
    set_machine(i, best);
    shape s = draw_shape();
    for (direction way = FORWARD; way <= TO_FILTER; way++)
      check_convolution(&s, way, 4, i % 5 == 0 ? 1 + i % 2 : 0, draw(2, 16), draw(0, 12));
  }
  assert_true(braid_isa_limit(best));
}

static void products_agree(void **state) {
  (void)state;
  braid_isa best = braid_isa_current();
  for (int i = 0; i < kCases; i++) {
    set_machine(i, best);
    shape s = {.batch = draw(1, 60), .groups = 1, .channels = draw(1, 300), .filters = draw(1, 100)};
    for (direction way = FORWARD; way <= TO_FILTER; way++)
      check_convolution(&s, way, 2, i % 5 == 0 ? 1 + i % 2 : 0, draw(2, 16), draw(0, 40));
  }
  assert_true(braid_isa_limit(best));
}

/* Sums above 32 bits, just below and just above the number of products that decides on the type of raw results. */
static void wide_sums_agree(void **state) {
  (void)state;
  braid_isa best = braid_isa_current();
  for (int i = 0; i < 6; i++) {
    set_machine(i * 2, best);
    int64_t many = i % 3 == 0 ? 70000 : 133142 + i % 3 * 2;
    shape forward = {.batch = 2, .groups = 1, .channels = many, .filters = 3};
    shape to_input = {.batch = 2, .groups = 1, .channels = 3, .filters = many};
    check_convolution(&forward, FORWARD, 2, 1 + i / 3, 16, 17);
    check_convolution(&forward, FORWARD, 2, 1 + i / 3, 8, 33);
    check_convolution(&to_input, TO_INPUT, 2, 1 + i / 3, 0, 0);
    shape to_filter = {.batch = 1,
                       .groups = 1,
                       .channels = 2,
                       .filters = 3,
                       .image = {2, many / 2},
                       .kernel = {1, 1},
                       .stride = {1, 1},
                       .dilation = {1, 1},
                       .result = {2, many / 2}};
    check_convolution(&to_filter, TO_FILTER, 4, 1 + i / 3, 0, 0);
  }
  assert_true(braid_isa_limit(best));
}

/* --- element by element --------------------------------------------------------------------------------------------
 */
/* Numbers of up to `width` bits and a sign. */
static void fill_numbers(fixture *f, size_t input, int64_t width) {
  braid_dtype dtype = f->operands[input].desc.dtype;
  for (int64_t i = 0; i < braid_desc_count(&f->operands[input].desc); i++) {
    int64_t value = (draw(0, INT32_MAX - 1) << 31 | draw(0, INT32_MAX - 1)) & (((int64_t)1 << width) - 1);
    if (draw(0, 1)) value = -value;
    if (dtype == BRAID_I16)
      ((int16_t *)f->data[input])[i] = (int16_t)value;
    else if (dtype == BRAID_I32)
      ((int32_t *)f->data[input])[i] = (int32_t)value;
    else
      ((int64_t *)f->data[input])[i] = value;
  }
}

static void set_number(fixture *f, size_t input, int64_t value) {
  if (f->operands[input].desc.dtype == BRAID_I32)
    *(int32_t *)f->data[input] = (int32_t)value;
  else
    *(int64_t *)f->data[input] = value;
}

static int64_t magnitude_of(const fixture *f, size_t input) {
  uint64_t bits = 0;
  for (int64_t i = 0; i < braid_desc_count(&f->operands[input].desc); i++) {
    int64_t v =
        f->operands[input].desc.dtype == BRAID_I32 ? ((int32_t *)f->data[input])[i] : ((int64_t *)f->data[input])[i];
    bits |= (uint64_t)(v < 0 ? -v : v);
  }
  return (int64_t)bits;
}

static void bytes_agree(void **state) {
  (void)state;
  static const struct {
    const char *op;
    size_t inputs;
  } kPointwise[] = {{"IntegerRelu", 1}, {"IntegerReluGrad", 2}, {"IntegerAdd", 2}, {"IntegerQuantize", 1}};
  braid_isa best = braid_isa_current();
  for (int i = 0; i < 2 * kCases; i++) {
    set_machine(i, best);
    int kind = i % 4;
    fixture f = begin();
    braid_value_id ids[2];
    int64_t dims[4] = {draw(1, 4), draw(1, 40), draw(1, 20), draw(1, 20)};
    bool words = kind == 3 && draw(0, 1);
    for (size_t k = 0; k < kPointwise[kind].inputs; k++) add_typed(&f, ids, words ? BRAID_I16 : BRAID_I8, 4, dims);
    finish(&f, kPointwise[kind].op, ids, 1);
    if (kind > 0) ok(braid_graph_set_int(f.graph, f.node, "bits", draw(2, 8)));
    if (kind == 2) ok(braid_graph_set_int(f.graph, f.node, "relu", draw(0, 1)));
    if (kind == 3) ok(braid_graph_set_int(f.graph, f.node, "shift", draw(0, 14)));
    fill_bytes(&f, 0);
    if (words) fill_numbers(&f, 0, 15);
    check_filled(&f, 1);
  }
  assert_true(braid_isa_limit(best));
}

static void errors_agree(void **state) {
  (void)state;
  braid_isa best = braid_isa_current();
  for (int i = 0; i < kCases; i++) {
    set_machine(i, best);
    braid_dtype dtype = i % 4 ? BRAID_I32 : BRAID_I64;
    fixture f = begin();
    braid_value_id ids[4];
    add_typed(&f, ids, dtype, 4, (int64_t[]){draw(1, 4), draw(1, 40), draw(1, 40), draw(1, 20)});
    add_typed(&f, ids, dtype, 0, NULL);
    add_typed(&f, ids, BRAID_I32, 0, NULL);
    add_typed(&f, ids, BRAID_I64, 0, NULL);
    finish(&f, "IntegerScaleError", ids, 2);
    ok(braid_graph_set_int(f.graph, f.node, "bits", draw(2, 8)));
    ok(braid_graph_set_int(f.graph, f.node, "offset", draw(0, 40) - 20));
    ok(braid_graph_set_int(f.graph, f.node, "seed", draw(0, INT32_MAX - 1)));
    ok(braid_graph_set_int(f.graph, f.node, "stream", draw(0, INT32_MAX - 1)));
    fill(&f);
    fill_numbers(&f, 0, draw(0, dtype == BRAID_I32 ? 31 : 47));
    set_number(&f, 1, magnitude_of(&f, 0));
    set_number(&f, 2, draw(0, 99) - 50);
    set_number(&f, 3, draw(1, INT32_MAX - 1));
    first_layout = i / 8 % 2 ? BRAID_LAYOUT_BHWC : BRAID_LAYOUT_PLAIN;
    check_filled(&f, 1);
    first_layout = BRAID_LAYOUT_PLAIN;
  }
  assert_true(braid_isa_limit(best));
}

/* Exponents apart by less and by more than is kept. */
static void error_sums_agree(void **state) {
  (void)state;
  braid_isa best = braid_isa_current();
  for (int i = 0; i < kCases; i++) {
    set_machine(i, best);
    int64_t dims[4] = {draw(1, 4), draw(1, 40), draw(1, 20), draw(1, 20)}, exponent = draw(0, 99) - 50;
    fixture f = begin();
    braid_value_id ids[4];
    for (int k = 0; k < 2; k++) {
      add_typed(&f, ids, BRAID_I8, 4, dims);
      add_typed(&f, ids, BRAID_I32, 0, NULL);
    }
    finish(&f, "IntegerErrorSum", ids, 3);
    fill_bytes(&f, i % 5 == 0 ? 1 + i % 2 : 0);
    set_number(&f, 1, exponent);
    set_number(&f, 3, exponent + draw(0, 40) - 20);
    if (i % 9 == 0) set_number(&f, 1, -INT32_MAX), set_number(&f, 3, i % 2 ? INT32_MAX : -INT32_MAX);
    first_layout = i % 2 ? BRAID_LAYOUT_BHWC : BRAID_LAYOUT_PLAIN;
    check_filled(&f, 1);
    first_layout = BRAID_LAYOUT_PLAIN;
  }
  assert_true(braid_isa_limit(best));
}

/* Numbers around every half, what floats next to it give, and what is beyond all integers or none. */
static void inputs_agree(void **state) {
  (void)state;
  static const float kOdd[] = {0.49999997f, -0.49999997f, 0.5f, -0.5f, -0.50000006f, -1e-30f, 1e-45f, 3e38f, -3e38f};
  braid_isa best = braid_isa_current();
  for (int i = 0; i < kCases; i++) {
    set_machine(i, best);
    int64_t shift = draw(0, 7);
    fixture f = begin();
    braid_value_id ids[1];
    add_input(&f, ids, 4, (int64_t[]){draw(1, 4), draw(1, 40), draw(1, 20), draw(1, 20)});
    finish(&f, "IntegerInput", ids, 1);
    ok(braid_graph_set_int(f.graph, f.node, "bits", draw(2, 8)));
    ok(braid_graph_set_int(f.graph, f.node, "shift", shift));
    fill(&f);
    float *x = f.data[0];
    for (int64_t k = 0; k < braid_desc_count(&f.operands[0].desc); k++) {
      float half = (float)(draw(0, 520) - 260) / 2;
      int kind = (int)draw(0, 5);
      x[k] = kind == 0   ? kOdd[draw(0, 8)]
             : kind == 1 ? NAN
             : kind == 2 ? (draw(0, 1) ? INFINITY : -INFINITY)
             : kind == 3 ? ldexpf(half, -(int)shift)
             : kind == 4 ? ldexpf(nextafterf(half, draw(0, 1) ? 999.0f : -999.0f), -(int)shift)
                         : 4 * x[k];
    }
    check_filled(&f, 1);
  }
  assert_true(braid_isa_limit(best));
}

static void updates_agree(void **state) {
  (void)state;
  braid_isa best = braid_isa_current();
  for (int i = 0; i < 2 * kCases; i++) {
    set_machine(i, best);
    braid_dtype dtype = i % 4 ? BRAID_I32 : BRAID_I64, parameter = i % 2 ? BRAID_I8 : BRAID_I16;
    int64_t bits = parameter == BRAID_I8 ? 8 : draw(8, 16), dims[2] = {draw(1, 300), draw(1, 150)};
    fixture f = begin();
    braid_value_id ids[5];
    add_typed(&f, ids, parameter, 2, dims);
    add_typed(&f, ids, dtype, 2, dims);
    add_typed(&f, ids, dtype, 0, NULL);
    add_typed(&f, ids, BRAID_I32, 0, NULL);
    add_typed(&f, ids, BRAID_I64, 0, NULL);
    finish(&f, "IntegerUpdate", ids, 1);
    ok(braid_graph_set_int(f.graph, f.node, "bits", bits));
    ok(braid_graph_set_int(f.graph, f.node, "seed", draw(0, INT32_MAX - 1) << 20 | draw(0, 99)));
    ok(braid_graph_set_int(f.graph, f.node, "stream", (int64_t)1 << 31 | draw(0, INT32_MAX - 1)));
    ok(braid_graph_set_int(f.graph, f.node, "slower", draw(0, 3)));
    fill_bytes(&f, 0);
    if (parameter == BRAID_I16) fill_numbers(&f, 0, bits - 1);
    fill_numbers(&f, 1, draw(0, dtype == BRAID_I32 ? 31 : 47));
    set_number(&f, 2, magnitude_of(&f, 1));
    set_number(&f, 3, draw(0, 16) - 8);
    set_number(&f, 4, draw(1, INT32_MAX - 1));
    check_filled(&f, 1);
  }
  assert_true(braid_isa_limit(best));
}

static void momentum_agrees(void **state) {
  (void)state;
  braid_isa best = braid_isa_current();
  for (int i = 0; i < 3 * kCases; i++) {
    set_machine(i, best);
    braid_dtype dtype = i % 4 ? BRAID_I32 : BRAID_I64, parameter = i % 2 ? BRAID_I8 : BRAID_I16;
    int64_t bits = parameter == BRAID_I8 ? 8 : draw(8, 16), dims[2] = {draw(1, 300), draw(1, 150)};
    fixture f = begin();
    braid_value_id ids[6];
    add_typed(&f, ids, parameter, 2, dims);
    add_typed(&f, ids, BRAID_I16, 2, dims);
    add_typed(&f, ids, dtype, 2, dims);
    for (int k = 0; k < 2; k++) add_typed(&f, ids, BRAID_I32, 0, NULL);
    add_typed(&f, ids, BRAID_I64, 0, NULL);
    finish(&f, "IntegerMomentum", ids, 2);
    ok(braid_graph_set_int(f.graph, f.node, "bits", bits));
    ok(braid_graph_set_int(f.graph, f.node, "place", draw(0, 20) - 10));
    ok(braid_graph_set_int(f.graph, f.node, "decay", draw(0, 20)));
    ok(braid_graph_set_int(f.graph, f.node, "seed", draw(0, INT32_MAX - 1) << 20 | draw(0, 99)));
    ok(braid_graph_set_int(f.graph, f.node, "stream", (int64_t)1 << 31 | draw(0, INT32_MAX - 1)));
    fill_bytes(&f, 0);
    if (parameter == BRAID_I16) fill_numbers(&f, 0, bits - 1);
    fill_numbers(&f, 1, draw(0, 15));
    fill_numbers(&f, 2, draw(0, dtype == BRAID_I32 ? 31 : 47));
    set_number(&f, 3, draw(0, 80) - 40);
    set_number(&f, 4, draw(0, 26) - 18);
    set_number(&f, 5, draw(1, INT32_MAX - 1));
    check_filled(&f, 1);
  }
  assert_true(braid_isa_limit(best));
}

/* --- batch normalization -------------------------------------------------------------------------------------------
 */
/* Images or rows, with few and many channels, and more rows than a block has. */
static int draw_images(int64_t dims[4]) {
  dims[0] = draw(1, 6), dims[1] = draw(1, 80), dims[2] = draw(1, 40), dims[3] = draw(1, 30);
  if (draw(0, 5) == 0) dims[1] = draw(1, 3), dims[2] = draw(60, 90), dims[3] = draw(60, 90);
  return draw(0, 4) ? 4 : 2;
}

static void fill_channels(fixture *f, size_t input, int64_t low, int64_t high) {
  for (int64_t i = 0; i < braid_desc_count(&f->operands[input].desc); i++)
    ((int32_t *)f->data[input])[i] = (int32_t)draw(low, high);
}

static void check_norm(int number) {
  int64_t dims[4], bits = draw(2, 8), parameter_bits = number % 2 ? 8 : draw(9, 16);
  int rank = draw_images(dims);
  bool training = draw(0, 3) > 0;
  braid_dtype parameter = parameter_bits == 8 ? BRAID_I8 : BRAID_I16;
  fixture f = begin();
  braid_value_id ids[5];
  add_typed(&f, ids, BRAID_I16, rank, dims);
  for (int i = 0; i < 2; i++) add_typed(&f, ids, parameter, 1, dims + 1);
  add_typed(&f, ids, BRAID_I32, 1, dims + 1);
  add_typed(&f, ids, BRAID_I64, 1, dims + 1);
  finish(&f, "IntegerBatchNormalization", ids, training ? 6 : 1);
  ok(braid_graph_set_int(f.graph, f.node, "bits", bits));
  ok(braid_graph_set_int(f.graph, f.node, "parameter_bits", parameter_bits));
  ok(braid_graph_set_int(f.graph, f.node, "relu", draw(0, 1)));
  ok(braid_graph_set_int(f.graph, f.node, "training", training));
  fill_bytes(&f, number % 5 == 0 ? 1 + number % 2 : 0);
  fill_numbers(&f, 0, draw(0, 15));
  for (int64_t i = 0; i < braid_desc_count(&f.operands[0].desc) && number % 7 == 0; i++)
    ((int16_t *)f.data[0])[i] = (int16_t)(number % 2 ? 32767 : -32767); /* all sums at their end */
  for (size_t i = 1; i < 3 && parameter == BRAID_I16; i++) fill_numbers(&f, i, parameter_bits - 1);
  fill_channels(&f, 3, -INT32_MAX / 2, INT32_MAX / 2);
  fill_numbers(&f, 4, draw(1, 47));
  check_filled(&f, 1);
}

static void check_norm_grad(int number) {
  int64_t dims[4], parameter_bits = number % 2 ? 8 : draw(9, 16);
  int rank = draw_images(dims);
  fixture f = begin();
  braid_value_id ids[6];
  add_typed(&f, ids, BRAID_I8, rank, dims);
  add_typed(&f, ids, BRAID_I32, 0, NULL);
  add_typed(&f, ids, BRAID_I8, rank, dims);
  add_typed(&f, ids, parameter_bits == 8 ? BRAID_I8 : BRAID_I16, 1, dims + 1);
  for (int i = 0; i < 2; i++) add_typed(&f, ids, BRAID_I32, 1, dims + 1);
  finish(&f, "IntegerBatchNormalizationGrad", ids, 7);
  ok(braid_graph_set_int(f.graph, f.node, "bits", draw(2, 8)));
  ok(braid_graph_set_int(f.graph, f.node, "parameter_bits", parameter_bits));
  fill_bytes(&f, number % 5 == 0 ? 1 + number % 2 : 0);
  set_number(&f, 1, draw(0, 99) - 50);
  if (parameter_bits > 8) fill_numbers(&f, 3, parameter_bits - 1);
  fill_channels(&f, 4, number % 4 ? 1 << 13 : -INT32_MAX / 2, number % 4 ? 1 << 14 : INT32_MAX / 2);
  fill_channels(&f, 5, number % 4 ? 8 : -99, number % 4 ? 24 : 99);
  check_filled(&f, 1);
}

static void norms_agree(void **state) {
  (void)state;
  braid_isa best = braid_isa_current();
  for (int i = 0; i < kCases; i++) {
    set_machine(i, best);
    check_norm(i);
    check_norm_grad(i);
  }
  assert_true(braid_isa_limit(best));
}

/* --- digest --------------------------------------------------------------------------------------------------------
 */
static void digests_agree(void **state) {
  (void)state;
  static const braid_dtype kTypes[] = {BRAID_I8, BRAID_U8, BRAID_I16, BRAID_I32, BRAID_I64};
  braid_isa best = braid_isa_current();
  for (int i = 0; i < 2 * kCases; i++) {
    set_machine(i, best);
    fixture f = begin();
    braid_value_id ids[2];
    int64_t dims[4] = {draw(1, 9), draw(1, 70), draw(1, 20), draw(1, 20)};
    braid_dtype dtype = kTypes[i % 5];
    add_typed(&f, ids, dtype, i % 2 ? 4 : (int)draw(0, 4), dims);
    add_typed(&f, ids, BRAID_I64, 1, dims);
    finish(&f, "IntegerDigest", ids, 1);
    fill_bytes(&f, 0);
    if (dtype != BRAID_I8 && dtype != BRAID_U8)
      fill_numbers(&f, 0, dtype == BRAID_I64 ? 60 : dtype == BRAID_I32 ? 31 : 15);
    fill_numbers(&f, 1, 60);
    first_layout = i % 2 ? BRAID_LAYOUT_BHWC : BRAID_LAYOUT_PLAIN;
    check_filled(&f, 1);
    first_layout = BRAID_LAYOUT_PLAIN;
  }
  assert_true(braid_isa_limit(best));
}

/* --- pools ---------------------------------------------------------------------------------------------------------
 */
/* Windows side by side (`apart`) or anyhow; average pools have no padding. */
static shape draw_pool(bool apart, bool padded) {
  shape s = draw_shape();
  for (int d = 0; d < 4; d++) s.pads[d] = 0;
  for (int d = 0; d < 2; d++) {
    if (s.image[d] < (s.kernel[d] - 1) * s.dilation[d] + 1) s.image[d] = (s.kernel[d] - 1) * s.dilation[d] + 1;
    if (apart) s.dilation[d] = 1, s.stride[d] = s.kernel[d];
    s.pads[d] = padded && s.kernel[d] > 1 ? draw(0, 1) : 0;
    s.result[d] = (s.image[d] + s.pads[d] - (s.kernel[d] - 1) * s.dilation[d] - 1) / s.stride[d] + 1;
  }
  return s;
}

static void check_pool(const shape *s, bool max, bool backward, int ends) {
  int64_t x[4] = {s->batch, s->channels * 2, s->image[0], s->image[1]};
  int64_t y[4] = {s->batch, s->channels * 2, s->result[0], s->result[1]};
  fixture f = begin();
  braid_value_id ids[2];
  bool overlaps = false;
  for (int d = 0; d < 2; d++) overlaps |= s->result[d] > 1 && s->stride[d] < (s->kernel[d] - 1) * s->dilation[d] + 1;
  add_typed(&f, ids, BRAID_I8, 4, backward ? y : x);
  if (max && backward) add_typed(&f, ids, BRAID_U8, 4, y);
  const char *op = max ? "IntegerMaxPool" : "IntegerAveragePool";
  if (backward) op = max ? "IntegerMaxPoolGrad" : "IntegerAveragePoolGrad";
  finish(&f, op, ids, backward ? (overlaps ? 2 : 1) : 1 + (size_t)(max ? draw(0, 1) : 0));
  set(&f, "pads", 4, s->pads);
  set(&f, "strides", 2, s->stride);
  set(&f, "dilations", 2, s->dilation);
  set(&f, "kernel_shape", 2, s->kernel);
  if (backward) set(&f, "input_shape", 2, s->image);
  fill_bytes(&f, ends);
  for (int64_t k = 0; max && backward && k < braid_desc_count(&f.operands[1].desc); k++)
    ((uint8_t *)f.data[1])[k] = (uint8_t)draw(0, s->kernel[0] * s->kernel[1] - 1);
  check_filled(&f, 1);
}

static void pools_agree(void **state) {
  (void)state;
  braid_isa best = braid_isa_current();
  for (int i = 0; i < kCases; i++) {
    set_machine(i, best);
    for (int max = 0; max < 2; max++) {
      shape s = draw_pool(i % 2, max);
      for (int backward = 0; backward < 2; backward++) check_pool(&s, max, backward, i % 7 == 0 ? 2 : 0);
    }
  }
  assert_true(braid_isa_limit(best));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(convolutions_agree), cmocka_unit_test(products_agree),   cmocka_unit_test(wide_sums_agree),
      cmocka_unit_test(bytes_agree),        cmocka_unit_test(errors_agree),     cmocka_unit_test(updates_agree),
      cmocka_unit_test(momentum_agrees),    cmocka_unit_test(pools_agree),      cmocka_unit_test(digests_agree),
      cmocka_unit_test(norms_agree),        cmocka_unit_test(error_sums_agree), cmocka_unit_test(inputs_agree)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
