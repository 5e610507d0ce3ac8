/* Convolutions of images with few channels in 16 bits, and the gradients of their weights, on tensor cores against the
 * CPU's plain ones. */
#include "cuda_emulated.h"
#include "opencl_check.h"

typedef struct few_case {
  int64_t batch, channels, filters, size[2], kernel[2], stride[2], dilation[2], pads[4];
} few_case;

/* Two roundings of the same sum to 16 bits are neighbours at most, since sums in float are exact beside that: one step
 * of the largest number, of 8 and 11 bits. */
static double tolerance_of(braid_dtype dtype) {
  return dtype == BRAID_BF16 ? 0x1p-7 : 0x1p-10;
}

static void set_window(check *c, const few_case *s) {
  check_set_ints(c, "strides", s->stride, 2);
  check_set_ints(c, "dilations", s->dilation, 2);
  check_set_ints(c, "pads", s->pads, 4);
}

static void forward_case(const few_case *s, braid_dtype dtype, bool bias, bool relu) {
  const int64_t x[4] = {s->batch, s->channels, s->size[0], s->size[1]};
  const int64_t w[4] = {s->filters, s->channels, s->kernel[0], s->kernel[1]};
  check c;
  check_begin(&c);
  c.only = "few_channels";
  braid_value_id inputs[3] = {check_tensor(&c, dtype, 4, x, -1, 1), check_tensor(&c, dtype, 4, w, -1, 1), -1};
  if (bias) inputs[2] = check_tensor(&c, dtype, 1, &s->filters, -2, 2);
  check_node(&c, relu ? "FusedConv" : "Conv", inputs, bias ? 3 : 2);
  set_window(&c, s);
  if (relu) CHECK_OK(braid_graph_set_string(c.graph, c.node, "activation", "Relu"));
  check_end(&c, tolerance_of(dtype));
}

static void gradient_case(const few_case *s, braid_dtype dtype) {
  const int64_t x[4] = {s->batch, s->channels, s->size[0], s->size[1]};
  int64_t y[4] = {s->batch, s->filters};
  for (int i = 0; i < 2; i++)
    y[2 + i] = (s->size[i] + s->pads[i] + s->pads[2 + i] - (s->kernel[i] - 1) * s->dilation[i] - 1) / s->stride[i] + 1;
  check c;
  check_begin(&c);
  c.only = "few_channels";
  braid_value_id inputs[2] = {check_tensor(&c, dtype, 4, x, -1, 1), check_tensor(&c, dtype, 4, y, -1, 1)};
  check_node(&c, "ConvGradFilter", inputs, 2);
  set_window(&c, s);
  check_set_ints(&c, "kernel_shape", s->kernel, 2);
  check_end(&c, tolerance_of(dtype));
}

/* One instruction of the inner dimension to four of them, each full and not; filters that fill a warp, a group and
 * neither; places that fill tiles and that do not. */
static void test_layers(void **state) {
  (void)state;
  emulated_need();
  static const few_case kLayers[] = {
      {2, 3, 128, {16, 16}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
      {40, 3, 24, {5, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
      {3, 1, 8, {9, 6}, {3, 3}, {2, 1}, {1, 2}, {0, 2, 1, 1}},
      {1, 4, 264, {11, 9}, {3, 3}, {1, 2}, {1, 1}, {2, 0, 1, 3}},
      {2, 2, 72, {13, 12}, {5, 5}, {2, 2}, {1, 1}, {2, 2, 2, 2}},
      {7, 1, 136, {6, 5}, {5, 5}, {1, 1}, {2, 1}, {4, 1, 4, 2}},
      {5, 4, 64, {7, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
      {33, 4, 16, {5, 6}, {4, 4}, {1, 1}, {1, 1}, {3, 0, 2, 1}},
      {1, 1, 40, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
  };
  for (size_t i = 0; i < sizeof kLayers / sizeof *kLayers; i += check_options ? 3 : 1) {
    braid_dtype dtype = i % 2 ? BRAID_F16 : BRAID_BF16;
    forward_case(&kLayers[i], dtype, i % 3 != 1, i % 3 != 2);
    gradient_case(&kLayers[i], dtype);
  }
}

static few_case draw_case(void) {
  few_case s = {.batch = check_draw(1, 40), .channels = check_draw(1, 4), .filters = 8 * check_draw(1, 33)};
  for (int i = 0; i < 2; i++) {
    s.kernel[i] = check_draw(1, s.channels > 2 ? 4 : 5);
    s.stride[i] = check_draw(1, 3);
    s.dilation[i] = check_draw(1, 2);
    s.pads[i] = check_draw(0, 2);
    s.pads[2 + i] = check_draw(0, 2);
    s.size[i] = (s.kernel[i] - 1) * s.dilation[i] + check_draw(1, 9);
  }
  return s;
}

static void test_drawn(void **state) {
  (void)state;
  emulated_need();
  for (int round = 0; round < (check_options ? 2 : 6); round++) {
    few_case s = draw_case();
    braid_dtype dtype = check_draw(0, 1) ? BRAID_F16 : BRAID_BF16;
    bool bias = check_draw(0, 1);
    forward_case(&s, dtype, bias, bias && check_draw(0, 1));
    gradient_case(&s, dtype);
  }
}

static const struct CMUnitTest kTests[] = {cmocka_unit_test(test_layers), cmocka_unit_test(test_drawn)};

/* A card of one multiprocessor has few groups, which take several tiles one after another: shown by a part of the
 * shapes, since each is a program. */
int main(void) {
  int result = 0;
  static const char *const kOptions[] = {NULL, "slices=3"};
  emulated_load();
  for (size_t i = 0; i < sizeof kOptions / sizeof *kOptions; i++) {
    check_options = kOptions[i];
    if (i) (void)setenv("FAKE_CUDA_MULTIPROCESSORS", "1", 1);
    result =
        skip_run_group_tests_name(check_options ? check_options : "as the device is", kTests, check_open, check_close);
  }
  return result;
}
