/* Pools, normalizations, softmax, losses, optimizer steps and Dropout against the CPU's plain kernels: see
 * opencl_check.h. */
#include "opencl_check.h"

/* --- pools ---------------------------------------------------------------------------------------------------------
 */
typedef struct shape {
  int rank;
  int64_t size[3], kernel[3], strides[3], dilations[3], pads[6];
} shape;

static shape draw_shape(int rank) {
  shape s = {.rank = rank};
  for (int i = 0; i < rank; i++) {
    s.kernel[i] = check_draw(1, 3);
    s.strides[i] = check_draw(1, 3);
    s.dilations[i] = check_draw(1, 2);
    s.pads[i] = check_draw(0, s.kernel[i] - 1);
    s.pads[rank + i] = check_draw(0, s.kernel[i] - 1);
    s.size[i] = (s.kernel[i] - 1) * s.dilations[i] + 1 + check_draw(0, 9);
  }
  return s;
}

static braid_value_id image(check *c, braid_dtype dtype, int rank, const int64_t *spatial, double low, double high) {
  int64_t dims[5] = {2, 3};
  for (int i = 0; i < rank; i++) dims[2 + i] = spatial[i];
  return check_tensor(c, dtype, rank + 2, dims, low, high);
}

static void set_window(check *c, const shape *s, bool ceil_mode) {
  check_set_ints(c, "kernel_shape", s->kernel, s->rank);
  check_set_ints(c, "strides", s->strides, s->rank);
  check_set_ints(c, "dilations", s->dilations, s->rank);
  check_set_ints(c, "pads", s->pads, 2 * s->rank);
  CHECK_OK(braid_graph_set_int(c->graph, c->node, "ceil_mode", ceil_mode));
}

/* The output's spatial dimensions, of the node built last. */
static const int64_t *spatial_output(const check *c) {
  return c->graph->values[c->graph->nodes[c->node].outputs[0]].desc.dims + 2;
}

static void pool_case(const char *op, const shape *s, bool ceil_mode, int64_t option) {
  check c;
  bool most = strcmp(op, "MaxPool") == 0;
  int64_t places = 1, output[3];
  for (int i = 0; i < s->rank; i++) places *= s->kernel[i];
  check_begin(&c);
  braid_value_id inputs[2] = {image(&c, BRAID_F32, s->rank, s->size, -1, 1)};
  check_node_of(&c, op, inputs, 1, most ? 3 : 1, option ? 7 : 1);
  set_window(&c, s, ceil_mode);
  if (!most) CHECK_OK(braid_graph_set_int(c.graph, c.node, "count_include_pad", option));
  if (most) CHECK_OK(braid_graph_set_int(c.graph, c.node, "storage_order", option));
  memcpy(output, spatial_output(&c), (size_t)s->rank * sizeof *output);
  check_end(&c, 1e-6);
  check_begin(&c);
  inputs[0] = image(&c, BRAID_F32, s->rank, output, -1, 1);
  inputs[1] = image(&c, BRAID_U8, s->rank, output, 0, (double)places);
  check_node(&c, most ? "MaxPoolGrad" : "AveragePoolGrad", inputs, most ? 2 : 1);
  set_window(&c, s, ceil_mode);
  if (!most) CHECK_OK(braid_graph_set_int(c.graph, c.node, "count_include_pad", option));
  check_set_ints(&c, "input_shape", s->size, s->rank);
  check_end(&c, 1e-6);
}

static void test_pools(void **state) {
  (void)state;
  for (int rank = 1; rank <= 3; rank++)
    for (int i = 0; i < 6; i++) {
      shape s = draw_shape(rank);
      pool_case("MaxPool", &s, i % 2, i / 2 % 2);
      pool_case("AveragePool", &s, i % 2, i / 2 % 2);
    }
}

static void test_global_pools(void **state) {
  (void)state;
  static const char *const kOps[] = {"GlobalMaxPool", "GlobalAveragePool"};
  const int64_t size[2] = {7, 9}, one[2] = {1, 1};
  for (int i = 0; i < 2; i++) {
    check c;
    char gradient[32];
    check_begin(&c);
    braid_value_id inputs[2] = {image(&c, BRAID_F32, 2, size, -1, 1)};
    check_node(&c, kOps[i], inputs, 1);
    check_end(&c, 1e-6);
    (void)snprintf(gradient, sizeof gradient, "%sGrad", kOps[i]);
    check_begin(&c);
    inputs[0] = image(&c, BRAID_F32, 2, one, -1, 1);
    inputs[1] = image(&c, BRAID_F32, 2, size, -1, 1);
    check_node(&c, gradient, inputs, i ? 1 : 2);
    if (i) check_set_ints(&c, "input_shape", size, 2);
    check_end(&c, 1e-6);
  }
}

/* --- normalizations ------------------------------------------------------------------------------------------------
 */
static void batch_norm_case(int rank, const int64_t *dims, bool training, uint32_t outputs) {
  check c;
  int64_t channels = dims[1];
  check_begin(&c);
  braid_value_id inputs[5] = {check_tensor(&c, BRAID_F32, rank, dims, 2, 4), check_floats(&c, 1, &channels),
                              check_floats(&c, 1, &channels), check_floats(&c, 1, &channels),
                              check_tensor(&c, BRAID_F32, 1, &channels, 0.5, 2)};
  check_node_of(&c, "BatchNormalization", inputs, 5, training ? 5 : 1, training ? outputs : 1);
  CHECK_OK(braid_graph_set_int(c.graph, c.node, "training_mode", training));
  check_end(&c, 5e-6);
  check_begin(&c);
  braid_value_id given[5] = {check_floats(&c, rank, dims), check_floats(&c, rank, dims), check_floats(&c, 1, &channels),
                             check_floats(&c, 1, &channels), check_tensor(&c, BRAID_F32, 1, &channels, 0.5, 2)};
  check_node_of(&c, "BatchNormalizationGrad", given, 5, 3, outputs & 7);
  CHECK_OK(braid_graph_set_int(c.graph, c.node, "training_mode", training));
  check_end(&c, 5e-6);
}

static void test_batch_norm(void **state) {
  (void)state;
  static const int64_t kShapes[][4] = {{3, 5, 7, 6}, {16, 70, 1, 1}, {4, 3, 64, 65}};
  for (size_t i = 0; i < 3; i++) {
    batch_norm_case(i == 1 ? 2 : 4, kShapes[i], false, 1);
    batch_norm_case(i == 1 ? 2 : 4, kShapes[i], true, i ? 31 : 25);
  }
}

static void test_lrn(void **state) {
  (void)state;
  for (int64_t size = 1; size < 7; size += 2)
    for (int gradient = 0; gradient < 2; gradient++) {
      check c;
      int64_t dims[4] = {2, 9, 5, 4};
      check_begin(&c);
      braid_value_id inputs[2] = {check_floats(&c, 4, dims), check_floats(&c, 4, dims)};
      check_node(&c, gradient ? "LRNGrad" : "LRN", inputs, gradient ? 2 : 1);
      CHECK_OK(braid_graph_set_int(c.graph, c.node, "size", size + (size == 3)));
      CHECK_OK(braid_graph_set_float(c.graph, c.node, "alpha", 0.5));
      check_end(&c, 1e-5);
    }
}

/* --- softmax and losses --------------------------------------------------------------------------------------------
 */
static void test_softmax(void **state) {
  (void)state;
  static const char *const kOps[] = {"Softmax", "LogSoftmax", "SoftmaxGrad", "LogSoftmaxGrad"};
  for (int i = 0; i < 4; i++)
    for (int64_t axis = -1; axis < 2; axis++) {
      check c;
      int64_t dims[3] = {4, 5, 100};
      check_begin(&c);
      braid_value_id inputs[2] = {check_tensor(&c, BRAID_F32, 3, dims, -5, 0), check_floats(&c, 3, dims)};
      check_node(&c, kOps[i], inputs, i < 2 ? 1 : 2);
      CHECK_OK(braid_graph_set_int(c.graph, c.node, "axis", axis));
      check_end(&c, 1e-5);
    }
}

static void class_loss_case(const char *op, bool gradient, uint32_t form) {
  static const char *const kReductions[] = {"none", "sum", "mean"};
  check c;
  char name[64];
  bool likelihood = strcmp(op, "NegativeLogLikelihoodLoss") == 0, none = form % 3 == 0;
  int64_t scores[3] = {6, 7, 5}, labels[2] = {6, 5}, classes = 7;
  braid_value_id inputs[4], *first = inputs + (gradient ? 1 : 0);
  check_begin(&c);
  if (gradient) inputs[0] = none ? check_floats(&c, 2, labels) : check_floats(&c, 0, NULL);
  first[0] = check_tensor(&c, BRAID_F32, 3, scores, -4, 0);
  first[1] = check_tensor(&c, form & 4 ? BRAID_I32 : BRAID_I64, 2, labels, 0, 7);
  first[2] = form & 8 ? check_tensor(&c, BRAID_F32, 1, &classes, 0.5, 2) : -1;
  (void)snprintf(name, sizeof name, "%s%s", op, gradient ? "Grad" : "");
  check_node_of(&c, name, inputs, gradient ? 4 : 3, !gradient && !likelihood && form & 1 ? 2 : 1, 3);
  CHECK_OK(braid_graph_set_string(c.graph, c.node, "reduction", kReductions[form % 3]));
  if (form & 2) CHECK_OK(braid_graph_set_int(c.graph, c.node, "ignore_index", 3));
  if (!likelihood && form & 4) CHECK_OK(braid_graph_set_float(c.graph, c.node, "label_smoothing", 0.1));
  check_end(&c, 1e-5);
}

static void test_class_losses(void **state) {
  (void)state;
  for (uint32_t form = 0; form < 16; form += 3 - form % 2)
    for (int gradient = 0; gradient < 2; gradient++) {
      class_loss_case("SoftmaxCrossEntropyLoss", gradient, form);
      class_loss_case("NegativeLogLikelihoodLoss", gradient, form + 1);
    }
}

static void test_squared_error(void **state) {
  (void)state;
  static const char *const kReductions[] = {"none", "sum", "mean", NULL};
  for (int form = 0; form < 8; form++)
    for (int gradient = 0; gradient < 2; gradient++) {
      check c;
      int64_t dims[3] = {5, 9, 11}, labels[2] = {5, 11};
      bool none = form % 4 == 0;
      braid_value_id inputs[3], *first = inputs + gradient;
      check_begin(&c);
      if (gradient) inputs[0] = none ? check_floats(&c, 3, dims) : check_floats(&c, 0, NULL);
      first[0] = check_floats(&c, 3, dims);
      first[1] = form < 4 ? check_floats(&c, 3, dims) : check_tensor(&c, BRAID_I64, 2, labels, 0, 9);
      check_node(&c, gradient ? "SquaredErrorLossGrad" : "SquaredErrorLoss", inputs, 2 + (size_t)gradient);
      if (kReductions[form % 4]) CHECK_OK(braid_graph_set_string(c.graph, c.node, "reduction", kReductions[form % 4]));
      check_end(&c, 1e-5);
    }
}

/* --- steps ---------------------------------------------------------------------------------------------------------
 */
static void sgd_case(uint32_t form) {
  check c;
  int64_t count = 100;
  check_begin(&c);
  braid_value_id inputs[5] = {check_floats(&c, 1, &count), check_floats(&c, 1, &count),
                              check_tensor(&c, BRAID_F32, 0, NULL, 0.1, 0.2), -1, -1};
  if (form & 1) inputs[3] = check_floats(&c, 1, &count);
  double guard = form & 4 ? 1 : 0;
  if (form & 2) inputs[4] = check_tensor(&c, BRAID_F32, 0, NULL, guard / 0.0, guard / 0.0);
  check_node_of(&c, "SgdUpdate", inputs, 5, form & 1 ? 2 : 1, 3);
  if (form & 1) CHECK_OK(braid_graph_set_float(c.graph, c.node, "momentum", 0.9));
  CHECK_OK(braid_graph_set_float(c.graph, c.node, "weight_decay", 0.01));
  CHECK_OK(braid_graph_set_int(c.graph, c.node, "nesterov", form & 4));
  check_end(&c, 1e-6);
}

static void adam_case(uint32_t form) {
  check c;
  int64_t count = 100;
  check_begin(&c);
  braid_value_id inputs[7] = {check_floats(&c, 1, &count),
                              check_floats(&c, 1, &count),
                              check_tensor(&c, BRAID_F32, 0, NULL, 0.1, 0.2),
                              check_floats(&c, 1, &count),
                              check_tensor(&c, BRAID_F32, 1, &count, 0.1, 1),
                              check_tensor(&c, form & 1 ? BRAID_I64 : BRAID_F32, 0, NULL, form + 1, form + 1),
                              -1};
  if (form & 2) inputs[6] = check_tensor(&c, BRAID_F32, 0, NULL, 0, 1);
  check_node_of(&c, "AdamUpdate", inputs, 7, 3, 7);
  CHECK_OK(braid_graph_set_float(c.graph, c.node, "weight_decay", 0.01));
  CHECK_OK(braid_graph_set_int(c.graph, c.node, "decoupled", form & 1));
  check_end(&c, 2e-6);
}

static void test_optimizers(void **state) {
  (void)state;
  for (uint32_t form = 0; form < 8; form++) sgd_case(form);
  for (uint32_t form = 0; form < 4; form++) adam_case(form);
}

static void test_dropout(void **state) {
  (void)state;
  for (uint32_t form = 0; form < 8; form++) {
    check c;
    int64_t count = 1001;
    check_begin(&c);
    braid_value_id inputs[4] = {check_floats(&c, 1, &count), -1, -1, -1};
    if (form & 1) inputs[1] = check_tensor(&c, BRAID_F32, 0, NULL, 0.3, 0.3);
    if (form & 2) inputs[2] = check_tensor(&c, BRAID_BOOL, 0, NULL, 1, 1);
    if (form & 4) inputs[3] = check_tensor(&c, BRAID_I64, 0, NULL, 77, 77);
    check_node_of(&c, "Dropout", inputs, 4, 2, form == 3 ? 1 : 3);
    CHECK_OK(braid_graph_set_int(c.graph, c.node, "seed", (int64_t)form << 34 | 0xf0000001));
    CHECK_OK(braid_graph_set_int(c.graph, c.node, "stream", form << 16 | 3));
    check_end(&c, 1e-7);
  }
  check c;
  int64_t count = 100;
  check_begin(&c);
  braid_value_id inputs[2] = {check_floats(&c, 1, &count), check_tensor(&c, BRAID_BOOL, 1, &count, 0, 2)};
  check_node(&c, "DropoutGrad", inputs, 2);
  CHECK_OK(braid_graph_set_float(c.graph, c.node, "scale", 2));
  check_end(&c, 0);
}

/* --- the scale of fp16's loss --------------------------------------------------------------------------------------
 */
static braid_value_id number_of(check *c, braid_dtype dtype, double number) {
  return check_tensor(c, dtype, 0, NULL, number, number);
}

/* One number that is not finite among `count`, at each end and within, of each operand; at `count`: none is. */
static void test_guard(void **state) {
  (void)state;
  static const braid_dtype kTypes[] = {BRAID_F32, BRAID_F16, BRAID_BF16};
  static const double kIntruders[] = {INFINITY, -INFINITY, NAN};
  enum { kCount = 3, kElements = 21 };
  static const int64_t kDims[] = {3, 7}, kPlaces[] = {0, 7, 13, kElements - 1, kElements};
  for (size_t i = 0; i < kCount; i++)
    for (size_t k = 0; k < sizeof kPlaces / sizeof *kPlaces; k++) {
      check c;
      check_begin(&c);
      braid_value_id inputs[1 + kCount] = {number_of(&c, BRAID_F32, 2)};
      for (size_t t = 0; t < kCount; t++) inputs[1 + t] = check_tensor(&c, kTypes[t], 2, kDims, -60000, 60000);
      if (kPlaces[k] < kElements)
        braid_tensor_set_f64(c.graph->values[inputs[1 + i]].tensor, kPlaces[k], kIntruders[(i + k) % kCount]);
      check_node(&c, "GradientGuard", inputs, 1 + kCount);
      check_end(&c, 0);
    }
}

static void scale_case(float scale, int64_t steps, double guard, int last) {
  check c;
  check_begin(&c);
  const braid_value_id inputs[] = {number_of(&c, BRAID_F32, (double)scale), number_of(&c, BRAID_I64, 0),
                                   number_of(&c, BRAID_F32, guard), last < 0 ? -1 : number_of(&c, BRAID_F32, last)};
  *(int64_t *)braid_tensor_data(c.graph->values[inputs[1]].tensor) = steps;
  check_node_of(&c, "LossScaleUpdate", inputs, last < 0 ? 3 : 4, 2, 3);
  check_end(&c, 0);
}

static void test_scale(void **state) {
  (void)state;
  static const float kScales[] = {1, 2, 65536, 0x1p23f, 0x1p24f};
  static const int64_t kSteps[] = {INT64_MIN, -7, 0, 1998, 1999, INT64_MAX};
  for (size_t i = 0; i < sizeof kScales / sizeof *kScales; i++)
    for (size_t k = 0; k < sizeof kSteps / sizeof *kSteps; k++)
      for (int last = -1; last < 2; last++) {
        scale_case(kScales[i], kSteps[k], 0, last);
        scale_case(kScales[i], kSteps[k], NAN, last);
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_guard),        cmocka_unit_test(test_scale),        cmocka_unit_test(test_pools),
      cmocka_unit_test(test_global_pools), cmocka_unit_test(test_batch_norm),   cmocka_unit_test(test_lrn),
      cmocka_unit_test(test_softmax),      cmocka_unit_test(test_class_losses), cmocka_unit_test(test_squared_error),
      cmocka_unit_test(test_optimizers),   cmocka_unit_test(test_dropout),
  };
  return skip_run_group_tests(tests, check_open, check_close);
}
