/* Kernels of training in integers against the CPU's plain ones, to the bit: see opencl_check.h. Every kernel that takes
 * a node is run, those for other devices too; and all of it once more as for GPUs with places of 64 bits, and for
 * FPGAs. */
#include "opencl_check.h"

typedef struct extent {
  int64_t low, high; /* `high` is not among them */
} extent;
static const extent kByte = {-127, 128}, kWord = {-32767, 32768}, kRaw = {-2000000000, 2000000000};

static braid_value_id draw_tensor(check *c, braid_dtype dtype, extent e, int rank, const int64_t *dims) {
  return check_tensor(c, dtype, rank, dims, (double)e.low, (double)e.high);
}
static braid_value_id draw_number(check *c, braid_dtype dtype, int64_t value) {
  return check_tensor(c, dtype, 0, NULL, (double)value, (double)value);
}
static void set_number(check *c, const char *name, int64_t value) {
  CHECK_OK(braid_graph_set_int(c->graph, c->node, name, value));
}

/* --- element by element --------------------------------------------------------------------------------------------
 */
static void value_case(const char *op, int64_t count, int64_t bits, int64_t shift) {
  bool input = strcmp(op, "IntegerInput") == 0, quantize = strcmp(op, "IntegerQuantize") == 0;
  braid_dtype dtype = input ? BRAID_F32 : quantize && bits % 2 ? BRAID_I16 : BRAID_I8;
  extent e = input ? (extent){-5, 5} : dtype == BRAID_I16 ? kWord : kByte;
  check c;
  check_begin(&c);
  braid_value_id inputs[2] = {draw_tensor(&c, dtype, e, 1, &count), draw_tensor(&c, dtype, e, 1, &count)};
  check_node(&c, op, inputs, input || quantize || strcmp(op, "IntegerRelu") == 0 ? 1 : 2);
  bool add = strcmp(op, "IntegerAdd") == 0;
  if (strcmp(op, "IntegerRelu") != 0) set_number(&c, "bits", bits);
  if (input || quantize) set_number(&c, "shift", shift);
  if (add) set_number(&c, "relu", bits % 2);
  check_end(&c, 0);
}

static void test_values(void **state) {
  (void)state;
  static const char *const kOps[] = {"IntegerInput", "IntegerQuantize", "IntegerRelu", "IntegerReluGrad", "IntegerAdd"};
  for (size_t i = 0; i < sizeof kOps / sizeof *kOps; i++)
    for (int64_t bits = 2; bits <= 8; bits += 3) value_case(kOps[i], check_draw(1, 300), bits, check_draw(0, 14));
}

/* Halves, ends, what is no number: the same as by double. */
static void test_input_edges(void **state) {
  (void)state;
  static const float kX[] = {0,
                             0.5f / 32,
                             -0.5f / 32,
                             0.49999997f / 32,
                             -0.49999997f / 32,
                             -0.50000006f / 32,
                             1.5f / 32,
                             -1.5f / 32,
                             3.96875f,
                             -4,
                             1e30f,
                             -1e30f,
                             1e-40f,
                             -1e-40f,
                             INFINITY,
                             -INFINITY,
                             NAN,
                             126.5f / 32};
  int64_t count = sizeof kX / sizeof *kX;
  check c;
  check_begin(&c);
  braid_value_id x = check_tensor(&c, BRAID_F32, 1, &count, 0, 1);
  memcpy(braid_tensor_data(c.graph->values[x].tensor), kX, sizeof kX);
  check_node(&c, "IntegerInput", &x, 1);
  set_number(&c, "bits", 8);
  set_number(&c, "shift", 5);
  check_end(&c, 0);
}

static void test_errors(void **state) {
  (void)state;
  static const int64_t kApart[] = {0, 3, -3, 16, 17, -40, 2000000000};
  for (size_t i = 0; i < sizeof kApart / sizeof *kApart; i++) {
    int64_t count = check_draw(1, 700);
    check c;
    check_begin(&c);
    braid_value_id inputs[4];
    for (int k = 0; k < 2; k++) {
      inputs[2 * k] = draw_tensor(&c, BRAID_I8, kByte, 1, &count);
      inputs[2 * k + 1] = draw_number(&c, BRAID_I32, k ? -11 : kApart[i] - 11);
    }
    check_node_of(&c, "IntegerErrorSum", inputs, 4, 3, 7);
    check_end(&c, 0);
  }
}

static void scale_case(braid_dtype dtype, extent e, int64_t magnitude, int64_t bits) {
  int64_t count = check_draw(1, 200);
  check c;
  check_begin(&c);
  braid_value_id inputs[4] = {draw_tensor(&c, dtype, e, 1, &count), draw_number(&c, dtype, magnitude),
                              draw_number(&c, BRAID_I32, 2147483600), draw_number(&c, BRAID_I64, 987654321)};
  check_node_of(&c, "IntegerScaleError", inputs, 4, 2, 3);
  set_number(&c, "bits", bits);
  set_number(&c, "offset", -9);
  set_number(&c, "seed", 0x123456789abcdef);
  set_number(&c, "stream", 0x87654321);
  check_end(&c, 0);
}

/* Magnitudes that fit the numbers and ones that do not, of all sizes; an exponent that wraps. */
static void test_scaled_errors(void **state) {
  (void)state;
  scale_case(BRAID_I32, kRaw, 2147483647, 8);
  scale_case(BRAID_I32, kRaw, 2147483647, 2);
  scale_case(BRAID_I32, kRaw, 0, 8);
  scale_case(BRAID_I32, (extent){-3, 4}, 3, 8);
  scale_case(BRAID_I32, (extent){-400, 401}, -5, 6);
  scale_case(BRAID_I32, (extent){-400, 401}, 255, 8);
  scale_case(BRAID_I64, (extent){-((int64_t)1 << 50), (int64_t)1 << 50}, (int64_t)1 << 46, 8);
  scale_case(BRAID_I64, (extent){-9, 10}, ((int64_t)1 << 60) - 1, 5);
  scale_case(BRAID_I64, (extent){-9, 10}, 8, 8);
}

static void test_squared_errors(void **state) {
  (void)state;
  for (uint32_t mask = 1; mask < 8; mask += 2) {
    int64_t dims[2] = {check_draw(1, 40), check_draw(2, 12)};
    check c;
    check_begin(&c);
    braid_value_id inputs[2] = {draw_tensor(&c, BRAID_I8, kByte, 2, dims),
                                draw_tensor(&c, BRAID_I32, (extent){-1, dims[1] + 1}, 1, dims)};
    check_node_of(&c, "IntegerSquaredError", inputs, 2, 3, mask);
    set_number(&c, "bits", check_draw(2, 8));
    set_number(&c, "hinge", mask == 7);
    check_end(&c, 0);
  }
}

static void update_case(braid_dtype dtype, braid_dtype raw, extent gradients, int64_t magnitude, int64_t rate) {
  int64_t count = check_draw(1, 300), bits = dtype == BRAID_I8 ? 8 : check_draw(9, 16);
  check c;
  check_begin(&c);
  braid_value_id inputs[5] = {draw_tensor(&c, dtype, dtype == BRAID_I8 ? kByte : kWord, 1, &count),
                              draw_tensor(&c, raw, gradients, 1, &count), draw_number(&c, raw, magnitude),
                              draw_number(&c, BRAID_I32, rate), draw_number(&c, BRAID_I64, 77777)};
  check_node(&c, "IntegerUpdate", inputs, 5);
  set_number(&c, "bits", bits);
  set_number(&c, "seed", 0x123456789abcdef);
  set_number(&c, "stream", 0x87654321);
  set_number(&c, "slower", check_draw(0, 3));
  check_end(&c, 0);
}

/* Shifts below zero, up to 32 and above. */
static void test_updates(void **state) {
  (void)state;
  update_case(BRAID_I8, BRAID_I32, kRaw, 2147483647, 3);
  update_case(BRAID_I16, BRAID_I32, kRaw, 2147483647, -8);
  update_case(BRAID_I16, BRAID_I32, (extent){-7, 8}, 7, 8);
  update_case(BRAID_I8, BRAID_I64, (extent){-((int64_t)1 << 47), (int64_t)1 << 47}, ((int64_t)1 << 47) - 1, -3);
  update_case(BRAID_I16, BRAID_I64, (extent){-((int64_t)1 << 47), (int64_t)1 << 47}, (int64_t)1 << 62, 99);
}

static void momentum_case(braid_dtype dtype, braid_dtype raw, extent gradients, int64_t place, int64_t rate,
                          int64_t decay) {
  int64_t count = check_draw(1, 300), bits = dtype == BRAID_I8 ? 8 : check_draw(9, 16);
  check c;
  check_begin(&c);
  braid_value_id inputs[6] = {draw_tensor(&c, dtype, dtype == BRAID_I8 ? kByte : kWord, 1, &count),
                              draw_tensor(&c, BRAID_I16, kWord, 1, &count),
                              draw_tensor(&c, raw, gradients, 1, &count),
                              draw_number(&c, BRAID_I32, -3),
                              draw_number(&c, BRAID_I32, rate),
                              draw_number(&c, BRAID_I64, 77777)};
  check_node_of(&c, "IntegerMomentum", inputs, 6, 2, 3);
  set_number(&c, "bits", bits);
  set_number(&c, "place", place);
  set_number(&c, "decay", decay);
  set_number(&c, "seed", 0x123456789abcdef);
  set_number(&c, "stream", 0x87654321);
  check_end(&c, 0);
}

static void test_momentum(void **state) {
  (void)state;
  static const int64_t kShifts[] = {-17, -16, -1, 0, 1, 31, 32, 33, 61, 62, 63}, kDecays[] = {0, 1, 11, 30};
  const extent kLong = {-((int64_t)1 << 47), (int64_t)1 << 47};
  for (size_t i = 0; i < sizeof kShifts / sizeof *kShifts; i++) { /* the exponent is -3 */
    int64_t rate = i % 3 == 0 ? -99 : i % 3 == 1 ? -3 : 99, eta = rate < -16 ? -16 : rate > 8 ? 8 : rate;
    momentum_case(i % 2 ? BRAID_I8 : BRAID_I16, BRAID_I32, kRaw, kShifts[i] + eta - 3, rate, kDecays[i % 4]);
    momentum_case(i % 2 ? BRAID_I16 : BRAID_I8, BRAID_I64, kLong, kShifts[i] + eta - 3, rate, kDecays[(i + 1) % 4]);
  }
}

static void test_digests(void **state) {
  (void)state;
  static const braid_dtype kTypes[] = {BRAID_I8, BRAID_U8, BRAID_I16, BRAID_I32, BRAID_I64};
  check c;
  check_begin(&c);
  braid_value_id inputs[7];
  for (int i = 0; i < 5; i++) {
    int64_t dims[3] = {check_draw(1, 5), check_draw(1, 70), check_draw(1, 300)};
    extent e = kTypes[i] == BRAID_U8    ? (extent){0, 256}
               : kTypes[i] == BRAID_I8  ? kByte
               : kTypes[i] == BRAID_I16 ? kWord
               : kTypes[i] == BRAID_I32 ? kRaw
                                        : (extent){-((int64_t)1 << 60), (int64_t)1 << 60};
    inputs[i] = draw_tensor(&c, kTypes[i], e, 3, dims);
  }
  int64_t count = 33;
  inputs[5] = draw_tensor(&c, BRAID_I32, kRaw, 1, &count);
  inputs[6] = draw_number(&c, BRAID_I32, -3);
  check_node(&c, "IntegerDigest", inputs, 7);
  check_end(&c, 0);
}

/* Each shape is a program, which a driver compiles for half a second: with options, half of them. */
static int rounds_of(int rounds) {
  return check_options ? rounds / 2 : rounds;
}

/* --- pools ---------------------------------------------------------------------------------------------------------
 */
/* `pairs`: windows of two columns at most, side by side, over even lines. */
/* `tall`: one window over all rows, which are more than its stride. */
static void pool_case(bool average, bool padded, bool pairs, bool tall) {
  int64_t planes[2] = {check_draw(1, 2), check_draw(1, 3)}, size[2], kernel[2], stride[2], out[2], pads[4] = {0};
  for (int i = 0; i < 2; i++) {
    kernel[i] = check_draw(1, pairs ? 2 : 3), stride[i] = pairs ? 2 : check_draw(1, 3), out[i] = check_draw(1, 40);
    size[i] = pairs ? 2 * out[i] + 2 * check_draw(0, 1) : (out[i] - 1) * stride[i] + kernel[i];
    if (pairs && size[i] > 2 * out[i]) out[i]++;
    if (i == 0 && tall) kernel[0] = size[0] = check_draw(3, 5), out[0] = 1;
    if (padded && kernel[i] > 1 && out[i] > 1) pads[i] = 1, size[i]--;
  }
  bool overlaps = (kernel[0] > stride[0] && out[0] > 1) || (kernel[1] > stride[1] && out[1] > 1);
  for (int back = 0; back < 2; back++) {
    check c;
    check_begin(&c);
    const int64_t *spatial = back ? out : size;
    int64_t dims[4] = {planes[0], planes[1], spatial[0], spatial[1]};
    bool rectified = check_options && back && !average && !overlaps; /* not on a CPU */
    braid_value_id inputs[3] = {draw_tensor(&c, BRAID_I8, back ? kByte : (extent){-9, 10}, 4, dims)};
    if (back && !average) inputs[1] = draw_tensor(&c, BRAID_U8, (extent){0, kernel[0] * kernel[1]}, 4, dims);
    int64_t image[4] = {planes[0], planes[1], size[0], size[1]};
    if (rectified) inputs[2] = draw_tensor(&c, BRAID_I8, kByte, 4, image);
    static const char *const kOps[] = {"IntegerMaxPool", "IntegerMaxPoolGrad", "IntegerAveragePool",
                                       "IntegerAveragePoolGrad"};
    bool two = back ? overlaps : !average;
    check_node_of(&c, rectified ? "IntegerMaxPoolGradRelu" : kOps[2 * average + back], inputs,
                  rectified          ? 3
                  : back && !average ? 2
                                     : 1,
                  two ? 2 : 1, two ? 3 : 1);
    if (rectified) set_number(&c, "bits", check_draw(2, 8));
    check_set_ints(&c, "kernel_shape", kernel, 2);
    check_set_ints(&c, "strides", stride, 2);
    check_set_ints(&c, "pads", pads, 4);
    if (back) check_set_ints(&c, "input_shape", size, 2);
    check_end(&c, 0);
  }
}

static void test_pools(void **state) {
  (void)state;
  for (int i = 0; i < rounds_of(5); i++) {
    pool_case(false, i % 2, false, false);
    pool_case(false, false, true, i % 2);
    pool_case(true, false, false, false);
  }
}

/* --- batch normalization -------------------------------------------------------------------------------------------
 */
typedef struct norm_case {
  int64_t dims[4], bits, parameter_bits;
  int rank;
} norm_case;

static norm_case draw_norm(int round) {
  norm_case s = {
      .bits = check_draw(2, 8), .parameter_bits = round % 2 ? 8 : check_draw(9, 16), .rank = round % 3 ? 4 : 2};
  const int64_t dims[4] = {check_draw(2, 9), check_draw(1, 80), check_draw(1, 30), check_draw(1, 30)};
  memcpy(s.dims, dims, sizeof dims);
  return s;
}

static braid_value_id draw_parameter(check *c, const norm_case *s) {
  int64_t most = ((int64_t)1 << (s->parameter_bits - 1)) - 1;
  return draw_tensor(c, s->parameter_bits == 8 ? BRAID_I8 : BRAID_I16, (extent){-most, most + 1}, 1, &s->dims[1]);
}

static void norm_forward(const norm_case *s, int round) {
  check c;
  check_begin(&c);
  extent e = round % 4 == 0 ? kWord : (extent){-30 * round, 100 * round + 1};
  braid_value_id inputs[5] = {draw_tensor(&c, BRAID_I16, e, s->rank, s->dims), draw_parameter(&c, s),
                              draw_parameter(&c, s), draw_tensor(&c, BRAID_I32, kRaw, 1, &s->dims[1]),
                              draw_tensor(&c, BRAID_I64, (extent){-4, (int64_t)1 << 47}, 1, &s->dims[1])};
  bool training = round % 5 != 4;
  check_node_of(&c, "IntegerBatchNormalization", inputs, 5, training ? 6 : 1, training ? (round % 2 ? 63 : 41) : 1);
  set_number(&c, "bits", s->bits);
  set_number(&c, "parameter_bits", s->parameter_bits);
  set_number(&c, "relu", round % 2);
  set_number(&c, "training", training);
  check_end(&c, 0);
}

static void norm_backward(const norm_case *s) {
  check c;
  check_begin(&c);
  braid_value_id inputs[6] = {draw_tensor(&c, BRAID_I8, kByte, s->rank, s->dims),
                              draw_number(&c, BRAID_I32, -7),
                              draw_tensor(&c, BRAID_I8, kByte, s->rank, s->dims),
                              draw_parameter(&c, s),
                              draw_tensor(&c, BRAID_I32, (extent){-5, 20000}, 1, &s->dims[1]),
                              draw_tensor(&c, BRAID_I32, (extent){5, 28}, 1, &s->dims[1])};
  check_node_of(&c, "IntegerBatchNormalizationGrad", inputs, 6, 7, 127);
  set_number(&c, "bits", s->bits);
  set_number(&c, "parameter_bits", s->parameter_bits);
  check_end(&c, 0);
}

static void test_normalizations(void **state) {
  (void)state;
  for (int round = 0; round < rounds_of(8); round++) {
    norm_case s = draw_norm(round);
    norm_forward(&s, round);
    norm_backward(&s);
  }
}

/* --- products ------------------------------------------------------------------------------------------------------
 */
typedef struct conv_case {
  int64_t batch, groups, channels, filters, size[2], kernel[2], stride[2], dilation[2], pads[4], out[2];
} conv_case;

static conv_case draw_conv(int round) {
  conv_case s = {.batch = check_draw(1, 5), .groups = round % 4 == 3 ? 2 : 1, .channels = check_draw(1, 20)};
  s.filters = check_draw(1, 20);
  for (int i = 0; i < 2; i++) {
    s.kernel[i] = check_draw(1, 4);
    s.stride[i] = check_draw(1, 3);
    s.dilation[i] = check_draw(1, 2);
    s.pads[i] = check_draw(0, 3), s.pads[2 + i] = check_draw(0, 3);
    s.size[i] = check_draw(7, 12);
    s.out[i] = (s.size[i] + s.pads[i] + s.pads[2 + i] - (s.kernel[i] - 1) * s.dilation[i] - 1) / s.stride[i] + 1;
  }
  return s;
}

static const char *const kProducts[] = {"IntegerConv", "IntegerConvGradInput", "IntegerConvGradFilter"};

static void finish_product(check *c, int kind, int64_t bits, int64_t shift, bool relu) {
  if (kind == 0) {
    set_number(c, "bits", bits);
    set_number(c, "shift", shift);
    set_number(c, "relu", relu);
  }
  check_end(c, 0);
}

static void conv_case_of(const conv_case *s, int kind, int64_t bits) {
  int64_t x[4] = {s->batch, s->groups * s->channels, s->size[0], s->size[1]};
  int64_t w[4] = {s->groups * s->filters, s->channels, s->kernel[0], s->kernel[1]};
  int64_t y[4] = {s->batch, s->groups * s->filters, s->out[0], s->out[1]};
  check c;
  check_begin(&c);
  braid_value_id inputs[2] = {draw_tensor(&c, BRAID_I8, kByte, 4, kind == 1 ? y : x),
                              draw_tensor(&c, BRAID_I8, kByte, 4, kind == 2 ? y : w)};
  check_node_of(&c, kProducts[kind], inputs, 2, kind ? 2 : 1, kind ? 3 : 1);
  check_set_ints(&c, "strides", s->stride, 2);
  check_set_ints(&c, "dilations", s->dilation, 2);
  check_set_ints(&c, "pads", s->pads, 4);
  set_number(&c, "group", s->groups);
  if (kind) check_set_ints(&c, kind == 1 ? "input_shape" : "kernel_shape", kind == 1 ? s->size : s->kernel, 2);
  finish_product(&c, kind, bits, check_draw(0, 12), bits % 2);
}

static void test_convolutions(void **state) {
  (void)state;
  for (int round = 0; round < rounds_of(7); round++) {
    conv_case s = draw_conv(round);
    for (int kind = 0; kind < 3; kind++) conv_case_of(&s, kind, round % 3 ? check_draw(2, 8) : 16);
  }
}

/* As layers of networks are: many channels, one channel, a stride without a window. */
static void test_layers(void **state) {
  (void)state;
  static const conv_case kLayers[] = {{2, 1, 70, 130, {9, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, {9, 8}},
                                      {3, 1, 1, 6, {12, 12}, {5, 5}, {1, 1}, {1, 1}, {0, 0, 0, 0}, {8, 8}},
                                      {2, 1, 16, 32, {8, 8}, {1, 1}, {2, 2}, {1, 1}, {0, 0, 0, 0}, {4, 4}},
                                      {2, 1, 3, 17, {9, 9}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, {5, 5}},
                                      {2, 12, 1, 1, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, {9, 9}}};
  for (size_t i = 0; i < sizeof kLayers / sizeof *kLayers; i += check_options ? 2 : 1)
    for (int kind = 0; kind < 3; kind++) conv_case_of(&kLayers[i], kind, 8);
}

/* rows of a, columns of b: (n, k) and (f, k), (n, f) and (f, k), (n, k) and (n, f) */
static void dense_case(int kind, int64_t n, int64_t k, int64_t f, extent e, int64_t shift) {
  int64_t shapes[3][2][2] = {{{n, k}, {f, k}}, {{n, f}, {f, k}}, {{n, k}, {n, f}}};
  check c;
  check_begin(&c);
  braid_value_id inputs[2] = {draw_tensor(&c, BRAID_I8, e, 2, shapes[kind][0]),
                              draw_tensor(&c, BRAID_I8, (extent){127, 127}, 2, shapes[kind][1])};
  check_node_of(&c, kProducts[kind], inputs, 2, kind ? 2 : 1, kind ? 3 : 1);
  finish_product(&c, kind, 16, shift, false);
}

/* On both sides of what 32 bits hold, everything at an end, of either sign in the first kind on the device as it is;
 * and a shift beyond all bits. */
static void test_dense(void **state) {
  (void)state;
  for (int kind = 0; kind < 3; kind++) {
    for (int round = 0; round < 3; round++)
      dense_case(kind, check_draw(1, 40), check_draw(1, 90), check_draw(1, 40), kByte, check_draw(0, 9));
    if (kind && check_options) continue; /* each of these takes seconds */
    for (int over = 0; over < 2; over++)
      for (int sign = -1; sign < 2; sign += 2) {
        if ((kind || check_options) && sign == (over ? 1 : -1)) continue;
        int64_t n = 133143 + over, sizes[3] = {2, 2, 2};
        sizes[kind == 0 ? 1 : kind == 1 ? 2 : 0] = n;
        dense_case(kind, sizes[0], sizes[1], sizes[2], (extent){127 * sign, 127 * sign}, over ? 40 : 17);
      }
  }
}

/* Images whose channels fill blocks of 16 and that do not: kernels that take them in samples run in both orders. */
static void test_images(void **state) {
  (void)state;
  static const char *const kOps[] = {"IntegerReluGrad", "IntegerAdd", "IntegerErrorSum", "IntegerScaleError",
                                     "IntegerScaleErrorRelu"};
  for (int round = 0; round < 3; round++)
    for (size_t i = 0; i < sizeof kOps / sizeof *kOps; i++) {
      int64_t dims[4] = {check_draw(1, 5), round ? check_draw(1, 40) : 32, check_draw(1, 5), check_draw(1, 5)};
      int rank = round == 2 ? 2 : 4;
      check c;
      check_begin(&c);
      braid_value_id a = draw_tensor(&c, i > 2 ? BRAID_I32 : BRAID_I8, i > 2 ? kRaw : kByte, rank, dims);
      braid_value_id b = i < 3 ? draw_tensor(&c, BRAID_I8, kByte, rank, dims) : draw_number(&c, BRAID_I32, 2147483647);
      braid_value_id exponent = draw_number(&c, BRAID_I32, -3), other = draw_number(&c, BRAID_I32, -5);
      braid_value_id step = draw_number(&c, BRAID_I64, 77);
      braid_value_id y = i == 4 ? draw_tensor(&c, BRAID_I8, kByte, rank, dims) : -1;
      const braid_value_id two[] = {a, b}, sums[] = {a, exponent, b, other}, scaled[] = {a, b, exponent, step, y};
      check_node_of(&c, kOps[i],
                    i < 2    ? two
                    : i == 2 ? sums
                             : scaled,
                    i < 2   ? 2
                    : i < 4 ? 4
                            : 5,
                    i < 2    ? 1
                    : i == 2 ? 3
                             : 2,
                    7);
      if (i != 2) set_number(&c, "bits", 7);
      if (i == 4) set_number(&c, "relu_bits", 6);
      check_end(&c, 0);
    }
}

static const struct CMUnitTest kTests[] = {
    cmocka_unit_test(test_values),         cmocka_unit_test(test_input_edges),    cmocka_unit_test(test_errors),
    cmocka_unit_test(test_scaled_errors),  cmocka_unit_test(test_squared_errors), cmocka_unit_test(test_updates),
    cmocka_unit_test(test_momentum),       cmocka_unit_test(test_digests),        cmocka_unit_test(test_pools),
    cmocka_unit_test(test_normalizations), cmocka_unit_test(test_convolutions),   cmocka_unit_test(test_layers),
    cmocka_unit_test(test_dense),          cmocka_unit_test(test_images)};

int main(void) {
  int result = 0;
  static const char *const kOptions[] = {NULL, "as=gpu,index_bits=64,group=64", "as=fpga,group=16,slices=3"};
  for (size_t i = 0; i < sizeof kOptions / sizeof *kOptions; i++) {
    check_options = kOptions[i];
    result = skip_run_group_tests(kTests, check_open, check_close);
  }
  return result;
}
