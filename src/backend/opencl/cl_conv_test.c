/* Convolutions and their gradients against the CPU's plain ones, over random geometry: see opencl_check.h. */
#include "opencl_check.h"

typedef struct shape {
  int rank; /* spatial */
  int64_t batch, groups, inputs, outputs;
  int64_t size[3], kernel[3], strides[3], dilations[3], pads[6];
} shape;

static shape draw_shape(int rank) {
  shape s = {.rank = rank, .batch = check_draw(1, 3), .groups = check_draw(1, 3)};
  s.inputs = s.groups * check_draw(1, 5);
  s.outputs = s.groups * check_draw(1, 20);
  for (int i = 0; i < rank; i++) {
    s.kernel[i] = check_draw(1, 4);
    s.strides[i] = check_draw(1, 3);
    s.dilations[i] = check_draw(1, 2);
    s.pads[i] = check_draw(0, s.kernel[i] - 1);
    s.pads[rank + i] = check_draw(0, s.kernel[i] - 1);
    s.size[i] = (s.kernel[i] - 1) * s.dilations[i] + 1 + check_draw(0, 12);
  }
  return s;
}

/* Square images and windows. */
static shape square(int64_t batch, int64_t groups, int64_t inputs, int64_t outputs, int64_t size, int64_t kernel,
                    int64_t stride, int64_t pad) {
  return (shape){2,
                 batch,
                 groups,
                 inputs,
                 outputs,
                 {size, size},
                 {kernel, kernel},
                 {stride, stride},
                 {1, 1},
                 {pad, pad, pad, pad}};
}

static braid_value_id image_of(check *c, braid_dtype dtype, const shape *s, int64_t batch, int64_t channels,
                               const int64_t *spatial) {
  int64_t dims[5] = {batch, channels};
  for (int i = 0; i < s->rank; i++) dims[2 + i] = spatial[i];
  return check_tensor(c, dtype, s->rank + 2, dims, -1, 1);
}

static braid_value_id image(check *c, const shape *s, int64_t batch, int64_t channels, const int64_t *spatial) {
  return image_of(c, BRAID_F32, s, batch, channels, spatial);
}

static void set_window(check *c, const shape *s) {
  check_set_ints(c, "strides", s->strides, s->rank);
  check_set_ints(c, "dilations", s->dilations, s->rank);
  check_set_ints(c, "pads", s->pads, 2 * s->rank);
  CHECK_OK(braid_graph_set_int(c->graph, c->node, "group", s->groups));
}

/* Of one type of elements, with the activation's two numbers; to `tolerance` of the largest result. */
typedef struct form {
  braid_dtype dtype;
  bool bias, added;
  const char *activation; /* NULL: none */
  float numbers[2];
  double tolerance;
} form;

/* Only kernels whose names contain `only`, if it is not NULL: a driver compiles each for long. */
static void forward_of(const shape *s, const char *only, const form *f) {
  check c;
  check_begin(&c);
  braid_value_id x = image_of(&c, f->dtype, s, s->batch, s->inputs, s->size);
  braid_value_id inputs[4] = {x, image_of(&c, f->dtype, s, s->outputs, s->inputs / s->groups, s->kernel), -1, -1};
  if (f->bias) inputs[2] = check_tensor(&c, f->dtype, 1, &s->outputs, -1, 1);
  check_node(&c, f->activation || f->added ? "FusedConv" : "Conv", inputs, f->added ? 4 : 3);
  set_window(&c, s);
  if (f->added) { /* the shape is known only now */
    const braid_desc y = c.graph->values[c.graph->nodes[c.node].outputs[0]].desc;
    c.graph->nodes[c.node].inputs[3] = check_tensor(&c, f->dtype, y.rank, y.dims, -1, 1);
  }
  if (f->activation) CHECK_OK(braid_graph_set_string(c.graph, c.node, "activation", f->activation));
  if (f->activation) CHECK_OK(braid_graph_set_floats(c.graph, c.node, "activation_params", f->numbers, 2));
  c.only = only;
  check_end(&c, f->tolerance);
}

static void forward(const shape *s, const char *only, bool bias, bool added, const char *activation) {
  forward_of(s, only, &(form){BRAID_F32, bias, added, activation, {0.2f, 0.5f}, 1e-5});
}

static void test_forward(void **state) {
  (void)state;
  for (int rank = 1; rank <= 3; rank++)
    for (int i = 0; i < (rank == 2 ? 8 : 2); i++) {
      shape s = draw_shape(rank);
      forward(&s, i || rank != 2 ? "flat" : NULL, i % 2, i % 4 > 1, i % 4 == 3 ? "Relu" : NULL);
      if (i || rank != 2) forward(&s, "small", true, false, NULL);
    }
}

static void test_forward_sizes(void **state) {
  (void)state;
  static const char *const kActivations[] = {"Relu",        "LeakyRelu", "Sigmoid", "Tanh",
                                             "HardSigmoid", "HardSwish", "Swish",   "Clip"};
  const shape shapes[] = {
      square(2, 1, 16, 32, 14, 3, 1, 1), square(1, 1, 20, 40, 7, 1, 1, 0),   square(2, 1, 8, 24, 9, 1, 2, 0),
      square(1, 1, 3, 16, 35, 11, 4, 2), square(2, 12, 12, 12, 11, 3, 1, 1), square(1, 6, 6, 12, 13, 5, 2, 2),
      square(1, 2, 10, 26, 13, 3, 2, 1), square(1, 1, 3, 5, 1, 1, 1, 0),
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    forward(&shapes[i], "flat", i % 2, i % 3 == 0, kActivations[i]);
    forward(&shapes[i], i == 0 ? "3x3" : i == 2 ? "1x1" : "small", true, false, NULL);
  }
}

/* A Clip whose lower bound is above its upper one gives the upper one. */
static void test_crossed_bounds(void **state) {
  (void)state;
  const shape s = square(1, 1, 2, 3, 5, 3, 1, 1);
  forward_of(&s, "flat", &(form){BRAID_F32, true, false, "Clip", {0.5f, -0.5f}, 0});
}

static void test_depthwise(void **state) {
  (void)state;
  const shape shapes[] = {
      square(2, 3, 3, 3, 14, 3, 1, 1),
      square(1, 5, 5, 10, 7, 3, 2, 1),
      square(1, 2, 2, 2, 40, 3, 2, 1),
      square(1, 2, 2, 6, 130, 5, 1, 2),
      square(3, 1, 1, 1, 3, 3, 1, 1),
      {1, 2, 4, 4, 4, {70}, {4}, {3}, {2}, {3, 2}},
      {2, 1, 2, 2, 2, {33, 20}, {3, 2}, {2, 3}, {2, 3}, {2, 0, 1, 3}},
      {2, 1, 2, 2, 2, {4, 5}, {4, 2}, {1, 1}, {1, 1}, {3, 1, 3, 1}},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    forward(&shapes[i], "depthwise_strips", i % 2, i % 3 == 0, i % 4 == 3 ? "Relu" : NULL);
}

/* --- gradients -----------------------------------------------------------------------------------------------------
 */
static void backward(const shape *s, const char *only) {
  check c;
  int64_t output[3];
  for (int i = 0; i < s->rank; i++) {
    int64_t seen = (s->kernel[i] - 1) * s->dilations[i] + 1;
    output[i] = (s->size[i] + s->pads[i] + s->pads[s->rank + i] - seen) / s->strides[i] + 1;
  }
  check_begin(&c);
  braid_value_id dy = image(&c, s, s->batch, s->outputs, output);
  braid_value_id w = image(&c, s, s->outputs, s->inputs / s->groups, s->kernel);
  check_node(&c, "ConvGradInput", (braid_value_id[]){dy, w}, 2);
  set_window(&c, s);
  check_set_ints(&c, "input_shape", s->size, s->rank);
  c.only = only;
  check_end(&c, 1e-5);
  check_begin(&c);
  dy = image(&c, s, s->batch, s->outputs, output);
  braid_value_id x = image(&c, s, s->batch, s->inputs, s->size);
  check_node(&c, "ConvGradFilter", (braid_value_id[]){x, dy}, 2);
  set_window(&c, s);
  check_set_ints(&c, "kernel_shape", s->kernel, s->rank);
  c.only = only;
  check_end(&c, 1e-5);
}

static void test_backward(void **state) {
  (void)state;
  for (int rank = 1; rank <= 3; rank++)
    for (int i = 0; i < (rank == 2 ? 8 : 2); i++) {
      shape s = draw_shape(rank);
      backward(&s, i || rank != 2 ? "flat" : NULL);
      if (i || rank != 2) backward(&s, "small");
    }
}

static void test_backward_sizes(void **state) {
  (void)state;
  const shape shapes[] = {
      square(2, 1, 16, 32, 14, 3, 1, 1), square(1, 1, 20, 40, 7, 1, 1, 0),   square(2, 1, 8, 24, 9, 1, 2, 0),
      square(1, 1, 3, 16, 35, 11, 4, 2), square(2, 12, 12, 12, 11, 3, 1, 1), square(1, 6, 6, 12, 13, 5, 2, 2),
      square(1, 2, 10, 26, 13, 3, 2, 1), square(1, 1, 3, 5, 1, 1, 1, 0),
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    backward(&shapes[i], "flat");
    backward(&shapes[i], i == 0 ? "3x3" : i == 2 ? "1x1" : "small");
  }
}

/* --- as on a GPU ---------------------------------------------------------------------------------------------------
 */
/* What fours divide and what they do not, images as they are, windows of few taps and of many, groups, three
 * dimensions. */
static void test_tiles(void **state) {
  (void)state;
  const shape shapes[] = {
      square(2, 1, 8, 70, 14, 3, 1, 1), square(2, 1, 20, 68, 12, 1, 1, 0),
      square(3, 2, 14, 18, 9, 1, 2, 0), square(1, 1, 3, 16, 35, 7, 2, 3),
      square(1, 1, 2, 5, 20, 9, 1, 4),  square(2, 3, 12, 12, 11, 3, 2, 1),
      square(1, 1, 5, 65, 13, 1, 1, 0), {3, 2, 1, 3, 6, {5, 6, 7}, {2, 3, 3}, {1, 2, 1}, {2, 1, 1}, {1, 0, 1, 1, 1, 1}},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    forward(&shapes[i], "tiles_large", i % 2 == 0, i % 3 == 0, i % 3 == 0 ? "Relu" : NULL);
}

static void test_tiles_backward(void **state) {
  (void)state;
  const shape shapes[] = {square(2, 1, 8, 70, 14, 3, 1, 1), square(2, 3, 12, 12, 11, 5, 2, 1)};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) backward(&shapes[i], "_tiles_large");
}

/* Channels last, 16 bits: groups with as many eights of channels as lanes, and not, idle work-items, several lines of a
 * work-item of which the last are not there, windows that reach outside on every side. Reads outside find NaN. */
static void test_depthwise_last(void **state) {
  (void)state;
  const shape shapes[] = {
      square(2, 8, 8, 8, 14, 3, 1, 1),
      square(1, 24, 24, 24, 9, 3, 2, 1),
      square(3, 64, 64, 64, 30, 3, 1, 1),
      square(2, 96, 96, 96, 29, 3, 2, 1),
      square(2, 136, 136, 136, 10, 5, 1, 2),
      square(1, 40, 40, 40, 3, 7, 1, 3),
      {2, 2, 16, 16, 16, {33, 20}, {3, 2}, {2, 3}, {2, 3}, {2, 0, 1, 3}},
      {2, 1, 112, 112, 112, {4, 25}, {4, 2}, {1, 1}, {1, 1}, {3, 1, 3, 1}},
  };
  for (size_t i = 0; i < 2 * sizeof shapes / sizeof *shapes; i++) {
    const form f = {.dtype = i % 2 ? BRAID_BF16 : BRAID_F16,
                    .bias = i % 3,
                    .activation = i % 3 == 2 ? "Clip" : NULL,
                    .numbers = {-0.25f, 0.5f},
                    .tolerance = i % 2 ? 0x1p-8 : 0x1p-11};
    forward_of(&shapes[i / 2], "conv_depthwise_last", &f);
  }
}

static int open_tiles(void **state) {
  check_options = "as=gpu,tile=64x64x16x4x4,memory=separate";
  return check_open(state);
}

static int open_slices(void **state) {
  check_options = "as=gpu,tile=32x32x16x4x4,slices=3";
  return check_open(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_forward),        cmocka_unit_test(test_forward_sizes),
                                     cmocka_unit_test(test_crossed_bounds), cmocka_unit_test(test_depthwise),
                                     cmocka_unit_test(test_backward),       cmocka_unit_test(test_backward_sizes)};
  const struct CMUnitTest tiles[] = {cmocka_unit_test(test_tiles), cmocka_unit_test(test_tiles_backward)};
  const struct CMUnitTest last[] = {cmocka_unit_test(test_depthwise_last)};
  (void)skip_run_group_tests(tests, check_open, check_close);
  (void)skip_run_group_tests_name("last", last, open_tiles, check_close);
  (void)skip_run_group_tests_name("tiles", tiles, open_tiles, check_close);
  return skip_run_group_tests_name("slices", tiles, open_slices, check_close);
}
