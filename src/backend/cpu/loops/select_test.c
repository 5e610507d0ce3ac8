/* Choosing along an axis against sorting by plain comparison; gradients against finite differences. */
#include "gradcheck.h"

#include <string.h>

/* --- running one op ------------------------------------------------------------------------------------------------
 */
static braid_tensor *wrap(braid_dtype dtype, int rank, const int64_t *dims, const void *data) {
  braid_desc desc;
  braid_tensor *tensor;
  assert_int_equal(braid_desc_init(&desc, dtype, rank, dims), BRAID_OK);
  assert_int_equal(braid_tensor_create(NULL, &desc, &tensor), BRAID_OK);
  memcpy(braid_tensor_data(tensor), data, braid_desc_bytes(&desc));
  return tensor;
}

typedef struct setting {
  const char *name;
  int64_t value;
} setting;

/* Folds op(x, number) into constants; the caller destroys the graph. `number` NULL: one input. */
static braid_graph *fold(const char *op, braid_tensor *x, const int64_t *number, const setting *settings, size_t count,
                         size_t outputs) {
  braid_graph *graph;
  braid_value_id inputs[2], results[2] = {0};
  braid_node_id node;
  assert_int_equal(braid_graph_create(NULL, op, &graph), BRAID_OK);
  assert_int_equal(braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, x, &inputs[0]), BRAID_OK);
  braid_tensor_release(x);
  if (number) assert_int_equal(braid_graph_add_int64s(graph, number, 1, &inputs[1]), BRAID_OK);
  assert_int_equal(braid_graph_add_node(graph, op, op, inputs, number ? 2 : 1, results, outputs, &node), BRAID_OK);
  for (size_t i = 0; i < count; i++)
    assert_int_equal(braid_graph_set_int(graph, node, settings[i].name, settings[i].value), BRAID_OK);
  for (size_t i = 0; i < outputs; i++) assert_int_equal(braid_graph_add_output(graph, results[i]), BRAID_OK);
  braid_status status = braid_resolve(graph);
  if (status != BRAID_OK) fail_msg("%s: %s", op, braid_error_detail());
  return graph;
}

static const braid_tensor *output(const braid_graph *graph, size_t index) {
  const braid_tensor *tensor = braid_graph_value(graph, braid_graph_output(graph, index)).tensor;
  assert_non_null(tensor);
  return tensor;
}

/* --- TopK and ArgMax -----------------------------------------------------------------------------------------------
 */
static bool before(double a, double b, bool largest) {
  if (isnan(a) || isnan(b)) return largest ? isnan(a) && !isnan(b) : !isnan(a) && isnan(b);
  return largest ? a > b : a < b;
}

/* Rank of element i of a line: how many stand before it. */
static int64_t place_of(const double *line, int64_t size, int64_t stride, int64_t i, bool largest) {
  int64_t place = 0;
  for (int64_t j = 0; j < size; j++)
    place += before(line[j * stride], line[i * stride], largest) ||
             (!before(line[i * stride], line[j * stride], largest) && j < i);
  return place;
}

static void check_top(int axis, int64_t k, bool largest, bool nans) {
  enum { A = 3, B = 7, C = 5 };
  const int64_t dims[] = {A, B, C};
  double x[A * B * C];
  for (int i = 0; i < A * B * C; i++) {
    x[i] = (double)braid_random_below(GRADCHECK_SEED, 7, (uint32_t)(axis + 9 * k), (uint64_t)i, 6) - 3;
    if (nans && i % 11 == 4) x[i] = NAN;
    if (x[i] == 0 && i % 2) x[i] = -0.0;
  }
  const setting settings[] = {{"axis", axis}, {"largest", largest}};
  braid_graph *graph = fold("TopK", wrap(BRAID_F64, 3, dims, x), &k, settings, 2, 2);
  const double *values = braid_tensor_const_data(output(graph, 0));
  const int64_t *indices = braid_tensor_const_data(output(graph, 1));
  int64_t inner = axis == 0 ? B * C : axis == 1 ? C : 1, outer = axis == 0 ? 1 : axis == 1 ? A : A * B;
  for (int64_t o = 0; o < outer; o++)
    for (int64_t c = 0; c < inner; c++) {
      const double *line = x + o * dims[axis] * inner + c;
      for (int64_t i = 0; i < dims[axis]; i++) {
        int64_t place = place_of(line, dims[axis], inner, i, largest), at = (o * k + place) * inner + c;
        if (place >= k) continue;
        assert_int_equal(indices[at], i);
        assert_memory_equal(&values[at], &line[i * inner], sizeof *values);
      }
    }
  braid_graph_destroy(graph);
}

static void top(void **state) {
  (void)state;
  for (int axis = 0; axis < 3; axis++)
    for (int64_t k = 0; k <= 3; k++)
      for (int variant = 0; variant < 4; variant++) check_top(axis, k, variant & 1, variant & 2);
}

static int64_t argument(const char *op, braid_dtype dtype, int64_t count, const void *data, int64_t last) {
  const setting settings[] = {{"axis", -1}, {"select_last_index", last}};
  braid_graph *graph = fold(op, wrap(dtype, 1, &count, data), NULL, settings, 2, 1);
  int64_t index = braid_tensor_get_i64(output(graph, 0), 0);
  braid_graph_destroy(graph);
  return index;
}

static void arguments(void **state) {
  (void)state;
  const float floats[] = {-1, 5, 2, 5, -7, -7};
  assert_int_equal(argument("ArgMax", BRAID_F32, 6, floats, 0), 1);
  assert_int_equal(argument("ArgMax", BRAID_F32, 6, floats, 1), 3);
  assert_int_equal(argument("ArgMin", BRAID_F32, 6, floats, 0), 4);
  assert_int_equal(argument("ArgMin", BRAID_F32, 6, floats, 1), 5);
  const float nans[] = {-1, NAN, 2, NAN};
  assert_int_equal(argument("ArgMax", BRAID_F32, 4, nans, 0), 1);
  assert_int_equal(argument("ArgMin", BRAID_F32, 4, nans, 0), 1);
  const float infinite[] = {-INFINITY, -INFINITY};
  assert_int_equal(argument("ArgMax", BRAID_F32, 2, infinite, 0), 0);
  assert_int_equal(argument("ArgMax", BRAID_I8, 3, (int8_t[]){-128, 127, -1}, 0), 1);
  assert_int_equal(argument("ArgMin", BRAID_I64, 3, (int64_t[]){INT64_MAX, INT64_MIN, 0}, 0), 1);
  assert_int_equal(argument("ArgMax", BRAID_U64, 3, (uint64_t[]){1, UINT64_MAX, UINT64_MAX - 1}, 0), 1);
  assert_int_equal(argument("ArgMin", BRAID_U8, 3, (uint8_t[]){9, 200, 3}, 0), 2);
  assert_int_equal(argument("ArgMin", BRAID_F64, 2, (double[]){1e-310, -1e-310}, 0), 1);
}

/* --- running sums --------------------------------------------------------------------------------------------------
 */
static void running_sums(void **state) {
  (void)state;
  enum { kLong = 1000 };
  const int64_t dims[] = {2, kLong}, axis = 1;
  static int32_t x[2 * kLong];
  for (int i = 0; i < 2 * kLong; i++) x[i] = (i * 7919) % 1001 - 500;
  for (int variant = 0; variant < 4; variant++) {
    bool exclusive = variant & 1, reverse = variant & 2;
    const setting settings[] = {{"exclusive", exclusive}, {"reverse", reverse}};
    braid_graph *graph = fold("CumSum", wrap(BRAID_I32, 2, dims, x), &axis, settings, 2, 1);
    const int32_t *y = braid_tensor_const_data(output(graph, 0));
    for (int o = 0; o < 2; o++)
      for (int i = 0, sum = 0; i < kLong; i++) {
        int at = o * kLong + (reverse ? kLong - 1 - i : i), with = sum + x[at];
        assert_int_equal(y[at], exclusive ? sum : with);
        sum = with;
      }
    braid_graph_destroy(graph);
  }
}

/* --- refusals ------------------------------------------------------------------------------------------------------
 */
static void refuse(const char *op, const int64_t *number, int64_t axis, size_t outputs, const char *expected) {
  braid_graph *graph;
  braid_value_id inputs[2], results[2] = {0};
  braid_node_id node;
  braid_tensor *x = wrap(BRAID_F32, 1, (int64_t[]){3}, (float[]){1, 2, 3});
  assert_int_equal(braid_graph_create(NULL, op, &graph), BRAID_OK);
  assert_int_equal(braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, x, &inputs[0]), BRAID_OK);
  braid_tensor_release(x);
  if (number) assert_int_equal(braid_graph_add_int64s(graph, number, 1, &inputs[1]), BRAID_OK);
  braid_status status = braid_graph_add_node(graph, op, op, inputs, number ? 2 : 1, results, outputs, &node);
  if (status == BRAID_OK && strncmp(op, "Cum", 3) != 0) status = braid_graph_set_int(graph, node, "axis", axis);
  if (status == BRAID_OK) status = braid_resolve(graph);
  assert_int_equal(status, BRAID_INVALID_GRAPH);
  if (!strstr(braid_error_detail(), expected)) fail_msg("%s: says \"%s\"", op, braid_error_detail());
  braid_graph_destroy(graph);
}

static void refusals(void **state) {
  (void)state;
  refuse("TopK", &(int64_t){4}, 0, 2, "K is 4, outside [0, 3]");
  refuse("TopK", &(int64_t){-1}, 0, 2, "K is -1, outside [0, 3]");
  refuse("TopK", &(int64_t){1}, 1, 2, "axis 1 is outside [-1, 1)");
  refuse("ArgMax", NULL, -2, 1, "axis -2 is outside [-1, 1)");
  refuse("CumSum", &(int64_t){7}, 0, 1, "axis 7 is outside [-1, 1)");
}

/* --- gradients -----------------------------------------------------------------------------------------------------
 */
static void gradients(void **state) {
  (void)state;
  for (int axis = 0; axis < 3; axis++)
    for (int variant = 0; variant < 4; variant++) {
      gradcheck g;
      braid_value_id y[2] = {0}, inputs[2];
      gradcheck_begin(&g, "TopK");
      inputs[0] = gradcheck_input(&g, 3, (int64_t[]){3, 4, 5}, -1, 1);
      gradcheck_ok(&g, braid_graph_add_int64s(g.graph, &(int64_t){2}, 1, &inputs[1]));
      braid_node_id node = gradcheck_node(&g, "TopK", inputs, 2, y, 2);
      gradcheck_ok(&g, braid_graph_set_int(g.graph, node, "axis", axis - (variant & 2 ? 3 : 0)));
      gradcheck_ok(&g, braid_graph_set_int(g.graph, node, "largest", variant & 1));
      gradcheck_end(&g, y, 1, 1e-6);

      gradcheck_begin(&g, "CumSum");
      inputs[0] = gradcheck_input(&g, 3, (int64_t[]){3, 4, 5}, -1, 1);
      gradcheck_ok(&g, braid_graph_add_int64s(g.graph, &(int64_t){axis}, 1, &inputs[1]));
      node = gradcheck_node(&g, "CumSum", inputs, 2, y, 1);
      gradcheck_ok(&g, braid_graph_set_int(g.graph, node, "exclusive", variant & 1));
      gradcheck_ok(&g, braid_graph_set_int(g.graph, node, "reverse", variant >> 1));
      gradcheck_end(&g, y, 1, 1e-6);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(top), cmocka_unit_test(arguments), cmocka_unit_test(running_sums),
                                     cmocka_unit_test(refusals), cmocka_unit_test(gradients)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
