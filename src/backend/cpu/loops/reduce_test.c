/* Reductions against plain sums over indices, in every layout, type and number of threads; gradients against finite
 * differences. */
#include "gradcheck.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/prepared.h"
#include "backend/cpu/spans/convert.h"
#include "backend/cpu/spans/nest.h"
#include "backend/cpu/tables.h"

static const char *const kOps[] = {"ReduceSum", "ReduceMean", "ReduceMax",    "ReduceMin",       "ReduceProd",
                                   "ReduceL1",  "ReduceL2",   "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"};
enum { kOpCount = sizeof kOps / sizeof *kOps };

static const braid_layout kLayouts[] = {BRAID_LAYOUT_PLAIN, BRAID_LAYOUT_BHWC, BRAID_LAYOUT_CHWB};
static uint32_t draws;

static int64_t draw(int64_t low, int64_t high) { /* both ends included */
  return low + braid_random_below(GRADCHECK_SEED, 5, 0, draws++, (uint32_t)(high - low + 1));
}

/* --- what is expected ----------------------------------------------------------------------------------------------
 */
static double start_of(const char *op) {
  if (strcmp(op, "ReduceProd") == 0) return 1;
  if (strcmp(op, "ReduceMax") == 0) return -INFINITY;
  return strcmp(op, "ReduceMin") == 0 ? INFINITY : 0;
}

static double add_to(const char *op, double so_far, double x) {
  if (strcmp(op, "ReduceProd") == 0) return so_far * x;
  if (strcmp(op, "ReduceMax") == 0) return fmax(so_far, x);
  if (strcmp(op, "ReduceMin") == 0) return fmin(so_far, x);
  if (strcmp(op, "ReduceL1") == 0) return so_far + fabs(x);
  if (strcmp(op, "ReduceL2") == 0 || strcmp(op, "ReduceSumSquare") == 0) return so_far + x * x;
  return so_far + (strcmp(op, "ReduceLogSumExp") == 0 ? exp(x) : x);
}

static double end_of(const char *op, double result, double count) {
  if (strcmp(op, "ReduceMean") == 0) return result / count;
  if (strcmp(op, "ReduceL2") == 0) return sqrt(result);
  return strcmp(op, "ReduceLogSum") == 0 || strcmp(op, "ReduceLogSumExp") == 0 ? log(result) : result;
}

typedef struct sample {
  const char *op;
  braid_desc in, out;
  bool reduced[BRAID_MAX_RANK];
  int64_t axes[BRAID_MAX_RANK], axis_count;
  double *x, *y; /* x in the order of memory, y PLAIN */
} sample;

/* Visits every element by its logical index. */
static void expect(sample *s) {
  int64_t in[BRAID_MAX_RANK], own[BRAID_MAX_RANK], out[BRAID_MAX_RANK], at[BRAID_MAX_RANK] = {0}, per = 1;
  braid_nest_strides(&s->in, in);
  braid_nest_strides(&s->out, own);
  for (int i = 0, next = 0; i < s->in.rank; i++) {
    if (s->reduced[i]) per *= s->in.dims[i];
    out[i] = s->reduced[i] ? 0 : own[next];
    next += !s->reduced[i] || s->out.rank == s->in.rank;
  }
  int64_t results = braid_desc_count(&s->out), elements = braid_desc_count(&s->in);
  for (int64_t i = 0; i < results; i++) s->y[i] = start_of(s->op);
  for (int64_t n = 0; n < elements; n++) {
    int64_t from = 0, to = 0;
    for (int i = 0; i < s->in.rank; i++) {
      from += at[i] * in[i];
      to += at[i] * out[i];
    }
    s->y[to] = add_to(s->op, s->y[to], s->x[from]);
    for (int i = s->in.rank; i-- > 0 && ++at[i] == s->in.dims[i];) at[i] = 0;
  }
  for (int64_t i = 0; i < results; i++) s->y[i] = end_of(s->op, s->y[i], (double)per);
}

/* --- running -------------------------------------------------------------------------------------------------------
 */
static const braid_kernel *find(const char *op) {
  static const braid_kernel **kernels;
  static size_t count;
  if (!kernels) assert_int_equal(braid_cpu_list_kernels(NULL, true, &kernels, &count), BRAID_OK);
  for (size_t i = 0; i < count; i++)
    if (strcmp(kernels[i]->op, op) == 0) return kernels[i];
  fail_msg("no kernel for %s", op);
  return NULL;
}

static void run_kernel(const sample *s, const void *x, void *y) {
  const braid_attrs none = {0};
  braid_desc axes;
  assert_int_equal(braid_desc_init(&axes, BRAID_I64, 1, &s->axis_count), BRAID_OK);
  braid_operand inputs[] = {{true, s->in, NULL}, {s->axis_count > 0, axes, s->axes}}, output = {true, s->out, NULL};
  braid_node_desc node = {.op = s->op,
                          .name = "node",
                          .attrs = &none,
                          .input_count = 2,
                          .output_count = 1,
                          .inputs = inputs,
                          .outputs = &output};
  braid_cpu_prepared *prepared;
  braid_prepared_info info;
  assert_int_equal(braid_cpu_prepare(NULL, find(s->op), &node, &prepared, &info), BRAID_OK);
  prepared->inputs[0] = x;
  prepared->inputs[1] = s->axes;
  prepared->outputs[0] = y;
  void *workspace = braid_alloc(NULL, info.workspace_bytes + 1);
  assert_non_null(workspace);
  assert_int_equal(braid_cpu_run(prepared, workspace), BRAID_OK);
  braid_free(NULL, workspace);
  braid_cpu_discard(prepared);
}

static void compare(const sample *s, braid_dtype dtype, double tolerance) {
  int64_t elements = braid_desc_count(&s->in), results = braid_desc_count(&s->out);
  sample typed = *s;
  typed.in.dtype = typed.out.dtype = dtype;
  size_t bytes = braid_dtype_size(dtype);
  char *x = braid_zalloc_array(NULL, (size_t)elements + 1, bytes),
       *y = braid_zalloc_array(NULL, (size_t)results + 1, bytes);
  char *again = braid_zalloc_array(NULL, (size_t)results + 1, bytes);
  double *got = braid_zalloc_array(NULL, (size_t)results + 1, sizeof *got);
  braid_convert_find(BRAID_F64, dtype)(s->x, x, elements);
  run_kernel(&typed, x, y);
  braid_convert_find(dtype, BRAID_F64)(y, got, results);
  for (int64_t i = 0; i < results; i++)
    if (!(got[i] == s->y[i] || fabs(got[i] - s->y[i]) <= tolerance * (1 + fabs(s->y[i])))) {
      char text[128], layout[BRAID_LAYOUT_TEXT];
      fail_msg("%s of %s, %s: result %lld is %.9g, not %.9g (draw %u)", s->op,
               braid_desc_format(&typed.in, text, sizeof text),
               braid_layout_format(s->in.layout, s->in.rank, layout, sizeof layout), (long long)i, got[i], s->y[i],
               draws);
    }
  omp_set_num_threads(1);
  run_kernel(&typed, x, again);
  omp_set_num_threads(5);
  run_kernel(&typed, x, y);
  omp_set_num_threads(omp_get_num_procs());
  assert_memory_equal(y, again, (size_t)results * bytes);
  braid_free(NULL, x);
  braid_free(NULL, y);
  braid_free(NULL, again);
  braid_free(NULL, got);
}

/* Random dimensions of about `size` elements in all, a random choice of them reduced. */
static void make_sample(sample *s, int64_t size) {
  int rank = (int)draw(0, 6);
  int64_t dims[BRAID_MAX_RANK], out[BRAID_MAX_RANK], left = size;
  s->axis_count = 0;
  for (int i = 0; i < rank; i++) {
    dims[i] = draw(0, 5) == 0 ? 1 : draw(1, left > 1 && i + 1 < rank ? (left < 40 ? left : 40) : left);
    left /= dims[i];
    s->reduced[i] = draw(0, 1);
    if (s->reduced[i]) s->axes[s->axis_count++] = draw(0, 1) ? i : i - rank;
  }
  if (!s->axis_count)
    for (int i = 0; i < rank; i++) s->reduced[i] = true;               /* all of them */
  for (int i = 0; i < rank; i++) out[i] = s->reduced[i] ? 1 : dims[i]; /* keepdims is the default */
  assert_int_equal(braid_desc_init(&s->in, BRAID_F64, rank, dims), BRAID_OK);
  assert_int_equal(braid_desc_init(&s->out, BRAID_F64, rank, out), BRAID_OK);
  if (rank >= 3) s->in.layout = kLayouts[draw(0, 2)];
}

static void check_sample(const char *op, int64_t size, double low, double high, bool whole) {
  sample s = {.op = op};
  make_sample(&s, size);
  int64_t elements = braid_desc_count(&s.in);
  s.x = braid_zalloc_array(NULL, (size_t)elements + 1, sizeof *s.x);
  s.y = braid_zalloc_array(NULL, (size_t)braid_desc_count(&s.out) + 1, sizeof *s.y);
  for (int64_t i = 0; i < elements; i++) {
    double u = (double)braid_random_uniform(GRADCHECK_SEED, 6, draws, (uint64_t)i);
    s.x[i] = whole ? floor(low + (high - low) * u) : (double)(float)(low + (high - low) * u);
  }
  expect(&s);
  bool logarithm = strncmp(op, "ReduceLog", 9) == 0, root = strcmp(op, "ReduceL2") == 0;
  if (whole) {
    if (strcmp(op, "ReduceMean") != 0 && !logarithm && !root) {
      compare(&s, BRAID_I32, 0);
      compare(&s, BRAID_I64, 0);
      compare(&s, BRAID_U64, 0);
    }
  } else {
    compare(&s, BRAID_F64, 1e-11);
    compare(&s, BRAID_F32, 2e-5);
  }
  braid_free(NULL, s.x);
  braid_free(NULL, s.y);
}

static void against_plain(void **state) {
  (void)state;
  for (int i = 0; i < kOpCount; i++) {
    bool prod = strcmp(kOps[i], "ReduceProd") == 0, logarithm = strcmp(kOps[i], "ReduceLogSum") == 0;
    double low = prod ? 0.9 : logarithm ? 0.1 : -2, high = prod ? 1.1 : 2;
    for (int n = 0; n < 60; n++) {
      check_sample(kOps[i], n % 10 == 0 ? 100000 : 300, low, high, false);
      check_sample(kOps[i], prod ? 10 : 300, 0, prod ? 3 : 9, true);
    }
  }
}

static void run_small(const char *op, braid_dtype dtype, const void *x, int64_t count, void *y) {
  sample s = {.op = op};
  assert_int_equal(braid_desc_init(&s.in, dtype, 1, &count), BRAID_OK);
  assert_int_equal(braid_desc_init(&s.out, dtype, 1, (int64_t[]){1}), BRAID_OK);
  run_kernel(&s, x, y);
}

static void nothing_and_extremes(void **state) {
  (void)state;
  float f;
  int8_t i8;
  uint64_t u64;
  uint8_t b;
  static const float kFloats[kOpCount] = {0, NAN, -INFINITY, INFINITY, 1, 0, 0, -INFINITY, -INFINITY, 0};
  for (int i = 0; i < kOpCount; i++) {
    run_small(kOps[i], BRAID_F32, NULL, 0, &f);
    assert_true(f == kFloats[i] || (isnan(f) && isnan(kFloats[i])));
  }
  run_small("ReduceMax", BRAID_I8, NULL, 0, &i8);
  assert_int_equal(i8, INT8_MIN);
  run_small("ReduceMin", BRAID_I8, NULL, 0, &i8);
  assert_int_equal(i8, INT8_MAX);
  run_small("ReduceMax", BRAID_U64, NULL, 0, &u64);
  assert_true(u64 == 0);
  run_small("ReduceMax", BRAID_U64, (uint64_t[]){3, UINT64_MAX - 1, 5}, 3, &u64);
  assert_true(u64 == UINT64_MAX - 1);
  run_small("ReduceMin", BRAID_U64, (uint64_t[]){UINT64_MAX, UINT64_MAX - 1}, 2, &u64);
  assert_true(u64 == UINT64_MAX - 1);
  run_small("ReduceMax", BRAID_BOOL, (uint8_t[]){0, 1, 0}, 3, &b);
  assert_int_equal(b, 1);
  run_small("ReduceMin", BRAID_BOOL, (uint8_t[]){1, 1, 0}, 3, &b);
  assert_int_equal(b, 0);
  run_small("ReduceMax", BRAID_F32, (float[]){1, NAN, 3}, 3, &f);
  assert_true(isnan(f));
  run_small("ReduceLogSumExp", BRAID_F32, (float[]){1000, 1000}, 2, &f);
  assert_float_equal(f, 1000.6931f, 1e-3);
  run_small("ReduceLogSumExp", BRAID_F32, (float[]){-INFINITY, -INFINITY}, 2, &f);
  assert_true(f == -INFINITY);
  run_small("ReduceLogSumExp", BRAID_F32, (float[]){0, INFINITY}, 2, &f);
  assert_true(f == INFINITY);
}

/* The squares of integers leave their type where the root of the sum does not. */
static void roots_of_integers(void **state) {
  (void)state;
  int64_t wide;
  int32_t narrow;
  uint64_t most;
  run_small("ReduceL2", BRAID_I64, (int64_t[]){INT64_C(1) << 32, 3}, 2, &wide);
  assert_true(wide == INT64_C(1) << 32);
  run_small("ReduceL2", BRAID_I64, (int64_t[]){-3 * (INT64_C(1) << 60), INT64_C(1) << 62}, 2, &wide);
  assert_true(wide == 5 * (INT64_C(1) << 60));
  run_small("ReduceL2", BRAID_I64, (int64_t[]){INT64_C(1) << 62, INT64_C(1) << 62}, 2, &wide);
  assert_true(wide == INT64_C(6521908912666391552));
  run_small("ReduceL2", BRAID_I64, (int64_t[]){1, 1}, 2, &wide);
  assert_true(wide == 1);
  run_small("ReduceL2", BRAID_I32, (int32_t[]){INT32_MIN + 1, 0}, 2, &narrow);
  assert_true(narrow == INT32_MAX);
  run_small("ReduceL2", BRAID_U64, (uint64_t[]){UINT64_C(1) << 63, 0}, 2, &most);
  assert_true(most == UINT64_C(1) << 63);
}

/* --- gradients -----------------------------------------------------------------------------------------------------
 */
static void check_gradient(const char *op, int64_t axis_count, const int64_t *axes, bool keep, bool noop, bool zeros) {
  gradcheck g;
  braid_value_id y = 0, inputs[2] = {0, -1};
  bool logarithm = strcmp(op, "ReduceLogSum") == 0;
  gradcheck_begin(&g, op);
  inputs[0] = gradcheck_input(&g, 3, (int64_t[]){2, 3, 4}, logarithm ? 0.2 : -1, 1.5);
  double *x = braid_tensor_data(g.tensors[0]);
  if (zeros) x[1] = x[6] = x[7] = 0; /* one in a row, two in another */
  if (axis_count) gradcheck_ok(&g, braid_graph_add_int64s(g.graph, axes, (size_t)axis_count, &inputs[1]));
  braid_node_id node = gradcheck_node(&g, op, inputs, 2, &y, 1);
  gradcheck_ok(&g, braid_graph_set_int(g.graph, node, "keepdims", keep));
  gradcheck_ok(&g, braid_graph_set_int(g.graph, node, "noop_with_empty_axes", noop));
  gradcheck_end(&g, &y, 1, 1e-5);
}

static void gradients(void **state) {
  (void)state;
  for (int i = 0; i < kOpCount; i++)
    for (int keep = 0; keep < 2; keep++) {
      check_gradient(kOps[i], 0, NULL, keep, false, false);
      check_gradient(kOps[i], 1, (int64_t[]){-1}, keep, false, false);
      check_gradient(kOps[i], 2, (int64_t[]){0, 2}, keep, false, false);
      if (strcmp(kOps[i], "ReduceLogSum") != 0) check_gradient(kOps[i], 0, NULL, keep, true, false);
    }
  check_gradient("ReduceProd", 1, (int64_t[]){2}, true, false, true);
  check_gradient("ReduceProd", 0, NULL, false, false, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(against_plain), cmocka_unit_test(nothing_and_extremes),
                                     cmocka_unit_test(roots_of_integers), cmocka_unit_test(gradients)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
