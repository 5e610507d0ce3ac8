/* Products of bytes on tensor cores against the CPU's plain ones, to the bit. */
#include "cuda_emulated.h"
#include "launch/integer.h"
#include "opencl_check.h"

static const char *const kProducts[] = {"IntegerConv", "IntegerConvGradInput", "IntegerConvGradFilter"};

typedef struct conv_case {
  int64_t batch, groups, channels, filters, size[2], kernel[2], stride[2], dilation[2], pads[4];
} conv_case;

static void product_case(const conv_case *s, int kind, int64_t bits, int64_t shift) {
  int64_t out[2];
  for (int i = 0; i < 2; i++)
    out[i] = (s->size[i] + s->pads[i] + s->pads[2 + i] - (s->kernel[i] - 1) * s->dilation[i] - 1) / s->stride[i] + 1;
  int64_t x[4] = {s->batch, s->groups * s->channels, s->size[0], s->size[1]};
  int64_t w[4] = {s->groups * s->filters, s->channels, s->kernel[0], s->kernel[1]};
  int64_t y[4] = {s->batch, s->groups * s->filters, out[0], out[1]};
  check c;
  check_begin(&c);
  c.only = "tensor";
  braid_value_id inputs[2] = {check_tensor(&c, BRAID_I8, 4, kind == 1 ? y : x, -127, 128),
                              check_tensor(&c, BRAID_I8, 4, kind == 2 ? y : w, -127, 128)};
  check_node_of(&c, kProducts[kind], inputs, 2, kind ? 2 : 1, kind ? 3 : 1);
  check_set_ints(&c, "strides", s->stride, 2);
  check_set_ints(&c, "dilations", s->dilation, 2);
  check_set_ints(&c, "pads", s->pads, 4);
  CHECK_OK(braid_graph_set_int(c.graph, c.node, "group", s->groups));
  if (kind) check_set_ints(&c, kind == 1 ? "input_shape" : "kernel_shape", kind == 1 ? s->size : s->kernel, 2);
  if (!kind) {
    CHECK_OK(braid_graph_set_int(c.graph, c.node, "bits", bits));
    CHECK_OK(braid_graph_set_int(c.graph, c.node, "shift", shift));
    CHECK_OK(braid_graph_set_int(c.graph, c.node, "relu", shift % 2));
  }
  check_end(&c, 0);
}

/* Batches that fill tiles and that do not, channels that fill blocks and that do not, more filters than a tile. */
static void test_layers(void **state) {
  (void)state;
  emulated_need();
  static const conv_case kLayers[] = {
      {128, 1, 32, 64, {3, 3}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
      {128, 1, 128, 256, {2, 2}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
      {16, 1, 3, 17, {5, 4}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
      {33, 1, 20, 300, {3, 4}, {3, 2}, {2, 1}, {1, 1}, {1, 0, 0, 1}},
      {20, 2, 16, 32, {5, 5}, {3, 3}, {2, 2}, {2, 1}, {2, 1, 1, 1}},
      {130, 1, 144, 40, {2, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
      {17, 1, 1, 6, {8, 8}, {5, 5}, {3, 1}, {1, 1}, {0, 2, 0, 2}},
  };
  for (size_t i = 0; i < sizeof kLayers / sizeof *kLayers; i++)
    for (int kind = 0; kind < 3; kind++) product_case(&kLayers[i], kind, i % 2 ? 16 : 8, 6 + (int64_t)i);
}

static void test_drawn(void **state) {
  (void)state;
  emulated_need();
  for (int round = 0; round < (check_options ? 3 : 6); round++) {
    conv_case s = {.batch = check_draw(16, 70), .groups = 1, .channels = check_draw(1, 70)};
    s.filters = check_draw(1, 150);
    for (int i = 0; i < 2; i++) {
      s.kernel[i] = check_draw(1, 3), s.stride[i] = check_draw(1, 3), s.dilation[i] = check_draw(1, 2);
      s.pads[i] = check_draw(0, 2), s.pads[2 + i] = check_draw(0, 2), s.size[i] = check_draw(5, 7);
    }
    for (int kind = 0; kind < 3; kind++) product_case(&s, kind, check_draw(2, 8), check_draw(0, 12));
  }
}

/* (n, k) and (f, k), (n, f) and (f, k), (n, k) and (n, f): all at an end, on both sides of what 32 bits hold. */
static void dense_case(int kind, int64_t n, int64_t k, int64_t f, int64_t sign) {
  int64_t shapes[3][2][2] = {{{n, k}, {f, k}}, {{n, f}, {f, k}}, {{n, k}, {n, f}}};
  check c;
  check_begin(&c);
  c.only = "tensor";
  braid_value_id inputs[2] = {
      check_tensor(&c, BRAID_I8, 2, shapes[kind][0], (double)(127 * sign), (double)(127 * sign)),
      check_tensor(&c, BRAID_I8, 2, shapes[kind][1], 127, 127)};
  check_node_of(&c, kProducts[kind], inputs, 2, kind ? 2 : 1, kind ? 3 : 1);
  if (!kind) {
    CHECK_OK(braid_graph_set_int(c.graph, c.node, "bits", 16));
    CHECK_OK(braid_graph_set_int(c.graph, c.node, "shift", sign > 0 ? 17 : 40));
  }
  check_end(&c, 0);
}

static void test_dense(void **state) {
  (void)state;
  if (emulated_is) skip_test("dense", "takes a card, the emulation is too slow");
  for (int kind = 0; kind < 3; kind++)
    for (int over = 0; over < 2; over++) {
      int64_t sizes[3] = {16, 2, 2};
      sizes[kind == 0 ? 1 : kind == 1 ? 2 : 0] = 133143 + over;
      dense_case(kind, sizes[0], sizes[1], sizes[2], over ? -1 : 1);
    }
}

static const struct CMUnitTest kTests[] = {cmocka_unit_test(test_layers), cmocka_unit_test(test_drawn),
                                           cmocka_unit_test(test_dense)};

int main(void) {
  int result = 0;
  static const char *const kOptions[] = {NULL, "tensor=mma", "slices=3"};
  emulated_load();
  for (size_t i = 0; i < sizeof kOptions / sizeof *kOptions; i++) {
    check_options = kOptions[i];
    result =
        skip_run_group_tests_name(check_options ? check_options : "as the device is", kTests, check_open, check_close);
  }
  return result;
}
